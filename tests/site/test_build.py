"""A tiny site from end to end, built as a reader of the README builds the real one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from filelock import FileLock
from site_helpers import HEADER, cell

from site_builder.page_html import parse

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/someone/m05"
CONFIG = f"INHERIT: {ROOT / 'mkdocs.yml'}\nnav: [index.md, page.md, api.md]\n"

PAGE = (
    "# {title}\n\n{word} $\\hat{{y}}$, [top](index.md#start)\n\n## {title} {{ #a-part }}\n\n"
    + cell("from m05.tiny import double\n\nprint(double(21), '{word}')")
    + cell("assert double(1) == 2", "remove-cell")
    + cell(
        "# {word}\nimport matplotlib.pyplot as plt\n\n"
        "plt.rcParams['svg.hashsalt'] = 'x'\nplt.plot([1, 2])\nplt.show()",
        "hide-input",
    )
)


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "site_builder").symlink_to(ROOT / "site_builder")
        (folder / "src" / "m05").mkdir(parents=True)
        (folder / "src" / "m05" / "__init__.py").write_text('"""Tiny."""\n')
        (folder / "src" / "m05" / "tiny.py").write_text(
            '"""Tiny."""\n\n\ndef double(x: int) -> int:\n    """Twice `x`."""\n    return 2 * x\n'
        )
        (folder / "docs" / "assets").mkdir(parents=True)
        (folder / "docs" / "assets" / "m05.css").write_text("")
        (folder / "mkdocs.yml").write_text(CONFIG)
        for suffix, title, word in (("", "標題", "字"), (".en", "Title", "word")):
            self.write(f"index{suffix}", f"# {title}\n\n## {title} {{ #start }}\n")
            self.write(f"api{suffix}", f"# API {word}\n\n## {word} {{ #tiny }}\n\n::: m05.tiny\n")
            self.write(f"page{suffix}", HEADER + PAGE.format(title=title, word=word))

    def write(self, name: str, text: str) -> None:
        (self.folder / "docs" / f"{name}.md").write_text(text, encoding="utf-8")

    def build(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *(command or ("site_builder", "build"))],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder / "src")},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
        )

    def files(self) -> dict[str, bytes]:
        site = self.folder / "site"
        return {
            path.relative_to(site).as_posix(): path.read_bytes()
            for path in site.rglob("*")
            if path.is_file()
        }


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("project"))
    result = project.build()
    assert result.returncode == 0, result.stdout
    return project


@pytest.mark.parametrize("language", ["", "en/"])
def test_page_is_complete(project: Project, language: str) -> None:
    page = project.folder / "site" / language / "page"
    soup = parse((page / "index.html").read_text(encoding="utf-8"))
    word = "word" if language else "字"
    assert soup.select_one(".output").get_text().strip() == f"42 {word}"
    assert soup.select_one("article math mover")
    assert soup.select_one("figure.plot > svg[viewbox]")
    assert soup.select_one("figure.plot")["aria-label"] == word
    assert soup.select_one("details.code")
    assert "assert" not in soup.select_one("article").get_text()
    assert soup.select_one(".api-link")["href"] == "../api/#m05.tiny.double"
    assert [a.get_text() for a in soup.select(".notebook-links a")] == [
        "Download notebook" if language else "下載 notebook"
    ]
    notebook = nbformat.read(page / "page.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert "remove-cell" in str(notebook.cells)
    assert "%pip" not in str(notebook.cells)


def test_search_index_has_both_languages(project: Project) -> None:
    index = json.loads(project.files()["search/search_index.json"])
    assert {"page/", "en/page/"} <= {entry["location"] for entry in index["docs"]}


def test_mkdocs_alone_builds_the_same(project: Project) -> None:
    before = project.files()
    result = project.build("mkdocs", "build", "--strict")
    assert result.returncode == 0, result.stdout
    assert "running" not in result.stdout  # what is unchanged is not run again
    changed = {name for name, data in project.files().items() if before.get(name) != data}
    assert changed <= {"sitemap.xml.gz"}  # which holds the time


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("page.en", HEADER + PAGE.format(title="T", word="1 / 0"), "page.en.md: cell 1 prints"),
        ("page", HEADER + "# T\n\n" + cell("1 / 0"), "page.en.md: its headings are not"),
        ("more", "# T\n", "more.en.md is missing"),
        ("index", "# T\n\n## A { #start }\n\n[x](gone.md)\n", "gone.md"),
        ("index", "# T\n\n## A { #start }\n\n[x](page.md#gone)\n", "#gone"),
        ("index", '# T\n\n## A { #start }\n\n<a href="nowhere/">x</a>\n', "link nowhere/ leads"),
    ],
)
def test_bad_page_leaves_the_last_good_site(
    project: Project, name: str, text: str, message: str
) -> None:
    before, path = project.files(), project.folder / "docs" / f"{name}.md"
    original = path.read_text(encoding="utf-8") if path.exists() else None
    project.write(name, text)
    try:
        result = project.build()
    finally:
        path.unlink()
        if original is not None:
            project.write(name, original)
    assert result.returncode == 1
    assert message in result.stdout
    assert "Traceback" not in result.stdout
    assert project.files() == before
    assert not list(project.folder.glob("site.tmp*"))


def test_failing_cell_leaves_the_last_good_site(project: Project) -> None:
    before = project.files()
    for suffix in ("", ".en"):
        project.write(f"bad{suffix}", HEADER + "# T\n\n" + cell("x = 1") + cell("assert x == 2"))
    result = project.build()
    for suffix in ("", ".en"):
        (project.folder / "docs" / f"bad{suffix}.md").unlink()
    assert result.returncode == 1
    assert "bad.md: cell 2 ('assert x == 2') failed: AssertionError" in result.stdout
    assert "Traceback" not in result.stdout
    assert project.files() == before


def test_second_build_is_refused(project: Project) -> None:
    with FileLock(project.folder / ".cache" / "build.lock"):
        result = project.build()
    assert result.returncode == 1
    assert "Another build is running in this folder." in result.stdout


def test_repository_is_one_setting(project: Project) -> None:
    (project.folder / "mkdocs.yml").write_text(f"{CONFIG}repo_url: {REPOSITORY}\n")
    result = project.build("site_builder", "build", "--site-dir", "other")
    (project.folder / "mkdocs.yml").write_text(CONFIG)
    assert result.returncode == 0, result.stdout
    page = project.folder / "other" / "en" / "page"
    html = (page / "index.html").read_text(encoding="utf-8")
    link = parse(html).select(".notebook-links a")[1]
    assert link["href"] == (
        "https://colab.research.google.com/github/someone/m05/blob/gh-pages/en/page/page.ipynb"
    )
    assert "%pip" not in html
    assert 'data-md-component="source"' not in html  # it would ask api.github.com
    first = nbformat.read(page / "page.ipynb", as_version=4).cells[0]
    assert first.source == f'%pip install -q "m05 @ git+{REPOSITORY}"'

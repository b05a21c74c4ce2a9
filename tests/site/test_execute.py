from pathlib import Path

import nbformat
import pytest
from site_helpers import MakePage, cell

from site_builder import execute
from site_builder.pages import Page, PageError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.setattr(execute, "package_folders", lambda: [folder])
    return folder


def test_key_is_that_of_the_code_not_of_the_prose(make_page: MakePage) -> None:
    def key(body: str) -> str:
        return execute.page_key(make_page(body), "")

    page = key("# T\n\n" + cell("x = 1"))
    assert page == key("# Other\n\nprose\n\n" + cell("x = 1"))
    assert page != key("# T\n\n" + cell("x = 2"))
    assert page != key("# T\n\n" + cell("x = 1", "raises-exception"))


def test_key_follows_the_package(package: Path) -> None:
    seen = {execute.surroundings()}
    (package / "__init__.py").write_text("a = 1")
    seen.add(execute.surroundings())
    (package / "weights.bin").write_bytes(b"1")
    seen.add(execute.surroundings())
    (package / "weights.bin").rename(package / "other.bin")
    seen.add(execute.surroundings())
    assert len(seen) == 4
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "a.pyc").write_bytes(b"1")
    assert execute.surroundings() in seen


def test_key_follows_versions(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert execute.versions().keys() >= {"python", "torch", "torchao", "numpy", "matplotlib"}
    before = execute.surroundings()
    monkeypatch.setattr(execute, "versions", lambda: {"torch": "0"})
    assert execute.surroundings() != before


@pytest.mark.parametrize(
    ("code", "tag", "message"),
    [
        ("# why\n1 / 0", "", r"cell 2 \('# why'\) failed: ZeroDivisionError: division by zero"),
        ("import sys; print('oh', file=sys.stderr)", "", "printed to stderr: oh"),
        ("import warnings; warnings.warn('hm')", "", "printed to stderr: .*hm"),
        ("1", "raises-exception", "tagged raises-exception, but did not raise"),
        ("import os; os._exit(1)", "", r"cell 2 \(.*\) failed: .*died"),
    ],
)
def test_bad_cell_is_named(make_page: MakePage, code: str, tag: str, message: str) -> None:
    page = make_page("# T\n\n" + cell("x = 1") + cell(code, tag))
    with pytest.raises(PageError, match=rf"(?s)^page\.md: cell 2 .*{message.split('cell 2 ')[-1]}"):
        execute.run(page)


def test_slow_cell_is_named(make_page: MakePage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "CELL_SECONDS", 1)
    page = make_page("# T\n\n" + cell("import time; time.sleep(30)"))
    with pytest.raises(PageError, match=r"cell 1 .* failed: no result after 1 s"):
        execute.run(page)


def test_pages_run_alone_and_silent(make_page: MakePage) -> None:
    body = cell("import os; print(os.listdir(), os.environ['OMP_NUM_THREADS'])")
    body += cell("raise KeyError(1)", "raises-exception")
    body += cell("import sys; print('oh', file=sys.stderr)", "stderr-ok")
    notebook = execute.run(make_page("# T\n\n" + body))
    nbformat.validate(notebook)
    assert notebook.cells[1].outputs[0].text == "[] 1\n"
    assert notebook.cells[2].outputs[0].ename == "KeyError"


def count_runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pages are not run: each cell's result is its own text."""
    runs: list[str] = []

    def run(page: Page) -> nbformat.NotebookNode:
        runs.append(str(page))
        assert page.notebook
        for code in page.code_cells:
            code.outputs = [nbformat.v4.new_output("stream", text=code.source)]
        return page.notebook

    monkeypatch.setattr(execute, "run", run)
    return runs


def test_same_code_is_run_once(
    make_page: MakePage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, cache = count_runs(monkeypatch), tmp_path / "cache"
    execute.executed(make_page("# T\n\n" + cell("x")), cache, "")
    notebook = execute.executed(make_page("# New\n\n" + cell("x")), cache, "")
    assert runs == ["page.md"]
    assert notebook.cells[0].source == "# New"
    assert notebook.cells[1].outputs[0].text == "x"
    execute.executed(make_page("# T\n\n" + cell("x"), "en"), cache, "")
    execute.executed(make_page("# T\n\n" + cell("x"), name="page.2"), cache, "")
    execute.executed(make_page("# T\n\n" + cell("y")), cache, "")
    assert runs == ["page.md", "page.en.md", "page.2.md", "page.md"]
    names = sorted(path.name.rsplit(".", 2)[0] for path in cache.iterdir())
    assert names == ["page.2.zh-TW", "page.en", "page.zh-TW"]  # the old key has left


@pytest.mark.parametrize("damage", ["", "{", "{}", '{"cells": [], "nbformat": 4}'])
def test_damaged_cache_is_run_again(
    make_page: MakePage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    runs, cache = count_runs(monkeypatch), tmp_path / "cache"
    page = make_page("# T\n\n" + cell("x"))
    execute.executed(page, cache, "")
    [path] = cache.iterdir()
    path.write_text(damage)
    execute.executed(page, cache, "")
    execute.executed(page, cache, "")
    assert runs == ["page.md", "page.md"]


def test_every_failing_page_is_named(
    make_page: MakePage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(page: Page) -> None:
        raise PageError(f"{page}: no")

    monkeypatch.setattr(execute, "run", fail)
    monkeypatch.setenv("M05_SITE_WORKERS", "1")
    found = [make_page("# T\n\n" + cell("x"), name=name) for name in "ab"]
    with pytest.raises(PageError, match=r"a\.md: no"):
        execute.execute_all(found, tmp_path / "cache")

"""The written pages: each runs as a script, and no measured figure is typed into prose.

The pages are found in `docs`; none is listed here.
"""

import ast
import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from site_builder.pages import Page, discover
from site_builder.twins import compare_sources

ROOT = Path(__file__).parents[1]
PAGES = [page for pair in discover(ROOT / "docs") for page in pair]
READMES = sorted(ROOT.glob("README*.md"))
SECONDS = 600


def test_every_file_is_a_page_of_these_tests() -> None:
    assert {page.path for page in PAGES} == set((ROOT / "docs").rglob("*.md"))
    assert any(page.notebook for page in PAGES)
    assert READMES


# The cells of a page, joined, as a reader would copy them.


@pytest.mark.parametrize("page", [page for page in PAGES if page.notebook], ids=str)
def test_cells_run_as_a_script(page: Page, tmp_path: Path) -> None:
    script, folder = tmp_path / "page.py", tmp_path / "empty"
    script.write_text("\n\n".join(cell.source for cell in page.code_cells), encoding="utf-8")
    folder.mkdir()
    # -P and no PYTHONPATH: what is imported is installed.
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, "-P", str(script)],
        cwd=folder,
        env=environment | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
    )
    assert result.stderr == ""
    assert result.returncode == 0


# Measured figures come from cells: a typed one goes stale.

_UNIT = (
    r"(?:dB|ms|µs|μs|ns)(?![A-Za-z])|\s+s(?![A-Za-z])|[%％‰]|percent|seconds?\b|"
    "分貝|百分點|毫秒|微秒|秒"
)
_FIGURE = re.compile(
    rf"(?<![A-Za-z0-9_.])\d[\d.,]*(?:\s|&nbsp;|-)*(?:{_UNIT})|百分之\s*[\d一二三四五六七八九十百]+",
    re.IGNORECASE,
)
_QUOTED = re.compile("引自|引用|quoted from", re.IGNORECASE)
_FENCE = re.compile(
    r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_INLINE_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_MATHS = re.compile(r"\$\$.+?\$\$|\\\[.+?\\\]|\\\(.+?\\\)|\$[^$\n]+\$", re.DOTALL)
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.)\s)")  # items of a list are paragraphs


def typed_figures(markdown: str) -> list[str]:
    """Paragraphs with a figure and its unit, unless they say that it is quoted."""
    for pattern in (_FENCE, _INLINE_CODE, _MATHS):
        markdown = pattern.sub("…", markdown)
    paragraphs = _PARAGRAPH.split(markdown)
    return [p.strip() for p in paragraphs if _FIGURE.search(p) and not _QUOTED.search(p)]


@pytest.mark.parametrize(
    "text",
    [
        "SQNR 是 27.35 dB。",
        "SQNR是27dB。",
        "SQNR is 27.35dB.",
        "from 39.5 to 27 dB",
        "下降了 −6.7 分貝",
        "a gain of +5.68&nbsp;dB",
        "誤差的 4.5 %",
        "誤差占 4.5％",
        "一半，也就是百分之五十",
        "45 percent of the signal",
        "要 12 ms",
        "要 12 毫秒",
        "it takes 3 s",
        "| fc | 33.12 dB |",
        "**30 dB**",
        "這一段是引用的。\n\n但這一段有 27 dB。",
        "- 引自論文：27 dB\n- 我們量到 28 dB",
        "`sqnr` 是 27 dB，`x` 不是",
        "```python\nx\n```\n\n27 dB\n\n```python\ny\n```",
        "$x$ 是 27 dB，$y$ 不是",
        '!!! note "標題"\n    有 27 dB。',
    ],
)
def test_typed_figure_is_found(text: str) -> None:
    assert len(typed_figures(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "1,024 個樣本，14 個位置，int8 與 fp32",
        "輸出 SQNR (dB)",
        "in dB, and in %",
        "EfficientNet-Lite0 %",
        "eight sets of 1,024 samples",
        "3×3 convolution, torchao 0.18, 2 states",
        "`print(f'{27} dB')` 印出結果",
        "``27 dB and ` too``",
        "```text\n27 dB\n```",
        '!!! note "x"\n    ````text\n    ```\n    27 dB\n    ````\n',
        "~~~\n27 dB\n~~~",
        "$20\\,\\text{dB}$ 與 $$\n10 dB\n$$",
        "引自原本的報告：27.35 dB。",
        "The figure of 27.35 dB is quoted from the paper.",
    ],
)
def test_other_text_is_let_through(text: str) -> None:
    assert typed_figures(text) == []


def _prose(page: Page) -> Iterator[str]:
    """What a page says in words typed by hand: Markdown, and the strings in its code."""
    if not page.notebook:
        yield page.body
        return
    for cell in page.notebook.cells:
        if cell.cell_type == "markdown":
            yield cell.source
    for cell in page.code_cells:
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_no_figure_is_typed_into_a_page(page: Page) -> None:
    assert [found for text in _prose(page) for found in typed_figures(text)] == []


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_no_figure_is_typed_into_a_readme(path: Path) -> None:
    assert typed_figures(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("pair", discover(ROOT / "docs"), ids=lambda pair: str(pair[0]))
def test_both_languages_of_a_page_have_the_same_code_and_anchors(pair: tuple[Page, Page]) -> None:
    compare_sources(*pair)


@pytest.mark.parametrize("page", [page for page in PAGES if not page.notebook], ids=str)
def test_examples_of_plain_pages_give_what_they_show(page: Page) -> None:
    examples = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", page.body, re.DOTALL | re.MULTILINE))
    test = doctest.DocTestParser().get_doctest(examples, {}, str(page), str(page.path), 0)
    assert doctest.DocTestRunner().run(test).failed == 0

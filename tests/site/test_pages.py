from pathlib import Path

import pytest
from site_helpers import HEADER, MakePage, cell

from site_builder.pages import PageError, discover, with_title_anchor


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name.replace('_', '.')}.md").write_text(text, encoding="utf-8")


def test_twins_are_found_default_language_first(tmp_path: Path) -> None:
    write(tmp_path, a="# 甲", a_en="# A", b=HEADER + "# 乙", b_en=HEADER + "# B")
    pairs = discover(tmp_path)
    assert [[str(page) for page in pair] for pair in pairs] == [
        ["a.md", "a.en.md"],
        ["b.md", "b.en.md"],
    ]
    assert [pair[0].notebook is not None for pair in pairs] == [False, True]


@pytest.mark.parametrize(("there", "missing"), [("a", "a.en.md"), ("a_en", "a.md")])
def test_missing_twin(tmp_path: Path, there: str, missing: str) -> None:
    write(tmp_path, **{there: "# A"})
    with pytest.raises(PageError, match=f"^{missing} is missing"):
        discover(tmp_path)
    assert discover(tmp_path, excluded=lambda name: name.startswith("a.")) == []


@pytest.mark.parametrize(
    "header",
    [
        "",
        "---\ntitle: x\n---\n\n",
        "---\nkernelspec:\n  language: python\n---\n\n",
        "---\njupyter:\n  kernelspec:\n    name: python3\n---\n\n",
    ],
)
def test_code_that_would_not_be_run(make_page: MakePage, header: str) -> None:
    with pytest.raises(PageError, match=r"page\.md: has Python cells, but"):
        make_page("# T\n\n" + cell("1 + 1"), header=header)


def test_code_that_is_declared_static(make_page: MakePage) -> None:
    page = make_page("# T\n\n" + cell("1 + 1"), header="---\nstatic: true\n---\n\n")
    assert page.notebook is None


def test_cells_have_the_same_ids_each_time(make_page: MakePage) -> None:
    first, second = (make_page("# T\n\n" + cell("1")) for _ in range(2))
    assert first.notebook
    assert first.notebook == second.notebook


def test_anchors_are_those_of_headings_not_of_code(make_page: MakePage) -> None:
    page = make_page("# 標題\n\n## 甲 { #a }\n\n" + cell("# note") + "### 乙 { .x #b-2 }\n")
    assert page.anchors() == [(2, "a"), (3, "b-2")]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("# T\n\n## 甲\n", "heading '甲' needs an ASCII anchor"),
        ("# T\n\n## 甲 { #甲 }\n", "needs an ASCII anchor"),
        ("# T\n\n## A { #a }\n\n## B { #a }\n", "anchor #a is used twice"),
        ("## A { #a }\n", "exactly one title"),
        ("# T\n\n# U\n", "exactly one title"),
    ],
)
def test_bad_headings(make_page: MakePage, body: str, message: str) -> None:
    with pytest.raises(PageError, match=message):
        make_page(body).anchors()


def test_title_gets_an_anchor_unless_it_has_one() -> None:
    assert with_title_anchor("# 標題\n\n# x", "m05-4") == "# 標題 { #m05-4 }\n\n# x"
    assert with_title_anchor("# 標題 { #own }", "m05-4") == "# 標題 { #own }"

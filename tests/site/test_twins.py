import pytest
from nbformat import NotebookNode, v4
from site_helpers import MakePage, cell

from site_builder.pages import PageError
from site_builder.twins import compare_outputs, compare_sources, neutral


@pytest.mark.parametrize(
    ("code", "other"),
    [
        ("f('a')  # 甲", "f('b')"),
        ("f('a' '甲')", 'f(\n    "b"\n)'),
        ('f(f"{a:.2f} 之 {b}")', 'f(f"{b} of {a:.2f}")'),
        ('f(f"字")', "f('word')"),
    ],
)
def test_words_may_differ(code: str, other: str) -> None:
    assert neutral(code) == neutral(other)


@pytest.mark.parametrize(
    ("code", "other"),
    [
        ("f(1)", "f(2)"),
        ("f(a)", "g(a)"),
        ("f('1')", "f(1)"),
        ('f(f"{a:.2f}")', 'f(f"{a:.3f}")'),
        ('f(f"{a}")', 'f(f"{b}")'),
        ("f()", "f()\ng()"),
    ],
)
def test_code_may_not(code: str, other: str) -> None:
    assert neutral(code) != neutral(other)


@pytest.mark.parametrize(
    ("english", "message"),
    [
        ("## A { #a }\n\n" + cell("x = 1") + cell("y = 3"), "the code of cell 2"),
        ("## A { #a }\n\n" + cell("x = 1"), "1 code cells, but page.md has 2"),
        ("## A { #b }\n\n" + cell("x = 1") + cell("y = 2"), r"\(2, 'b'\) for \(2, 'a'\)"),
        (cell("x = 1") + cell("y = 2"), r"None for \(2, 'a'\)"),
        ("## A { #a }\n\n" + cell("x = 1") + cell("y = 2", "hide-input"), "tags of cell 2"),
        ("## A { #a }\n\n" + cell("x = 1") + cell("y ="), "cell 2 is not Python"),
    ],
)
def test_unequal_twins(make_page: MakePage, english: str, message: str) -> None:
    first = make_page("# 題\n\n## 甲 { #a }\n\n" + cell("x = 1  # 一") + cell("y = 2"))
    with pytest.raises(PageError, match=rf"^page\.en\.md: .*{message}"):
        compare_sources(first, make_page("# T\n\n" + english, "en"))


def test_equal_twins(make_page: MakePage) -> None:
    first = make_page("# 題\n\n## 甲 { #a }\n\n" + cell("print('一')  # 一"))
    compare_sources(first, make_page("# T\n\n## A { #a }\n\n" + cell("print('one')"), "en"))


def outputs(text: str, svg: str = "<svg/>", tag: str = "") -> NotebookNode:
    shown = [
        v4.new_output("stream", text=text),
        v4.new_output("display_data", {"image/svg+xml": svg, "text/plain": "<Figure>"}),
    ]
    code = v4.new_code_cell("f()", outputs=shown, metadata={"tags": [tag]} if tag else {})
    return v4.new_notebook(cells=[v4.new_markdown_cell("1"), code])


def test_results_of_twins(make_page: MakePage) -> None:
    twins = make_page("# 題"), make_page("# T", "en")
    compare_outputs(*twins, outputs("共 12 層，-3.5 dB"), outputs("-3.5 dB over 12 layers"))
    with pytest.raises(PageError, match=r"page\.en\.md: cell 1 prints other numbers .*3\.6 for"):
        compare_outputs(*twins, outputs("3.5"), outputs("3.6"))
    with pytest.raises(PageError, match="cell 1 draws another figure"):
        compare_outputs(*twins, outputs("1"), outputs("1", "<svg>2</svg>"))
    tag = "localized-figure"
    compare_outputs(*twins, outputs("1", tag=tag), outputs("1", "<svg>2</svg>", tag))

import pytest

from site_builder.api_links import imported_names, link_names
from site_builder.page_html import add_notebook_links, parse, render_maths, without_alternates


def test_maths_is_rendered() -> None:
    soup = parse(
        r'<p><span class="arithmatex">\(\hat{y}\)</span></p>'
        r'<div class="arithmatex">\[\frac{a}{b} &lt; 1 \cdot 2\]</div>'
    )
    render_maths(soup)
    inline, block = soup.select(".maths")
    assert inline.math["display"] == "inline"
    assert inline.mover
    assert block.math["display"] == "block"
    assert block.mfrac
    assert "\u22c5" in str(block)
    assert "arithmatex" not in str(soup)
    assert "\\" not in str(soup)


@pytest.mark.parametrize(
    ("html", "message"),
    [
        (r'<span class="arithmatex">\(\nosuch{y}\)</span>', "cannot be rendered: .*nosuch"),
        (r'<div class="arithmatex">\[\begin{aligned}a&=b\end{aligned}\]</div>', "cannot be"),
        (r'<h2><span class="arithmatex">\(y\)</span></h2>', "maths in a heading"),
    ],
)
def test_maths_that_is_refused(html: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        render_maths(parse(html))


def test_imported_names() -> None:
    code = ["from m05.a import f, g as h\nfrom m05 import top", "from math import sin\nimport m05"]
    assert imported_names(code, "m05") == {"f": "m05.a.f", "h": "m05.a.g", "top": "m05.top"}


def test_names_become_links() -> None:
    def n(name: str) -> str:
        return f'<span class="n">{name}</span>'

    def o(operator: str) -> str:
        return f'<span class="o">{operator}</span>'

    code = n("f") + n("other") + n("x") + o(".") + n("f") + n("f") + o("=") + "1"
    soup = parse(f'<p>{n("f")}</p><div class="highlight"><pre><code>{code}</code></pre></div>')
    link_names(soup, {"f": "m05.a.f"}, "../api/")
    [link] = soup.select("a")
    assert str(link) == f'<a class="api-link" href="../api/#m05.a.f">{n("f")}</a>'
    assert link is soup.code.contents[0]


@pytest.mark.parametrize("colab", [None, "https://colab.research.google.com/github/x"])
def test_notebook_links_stand_under_the_title(colab: str | None) -> None:
    soup = parse("<h1>T</h1><p>x</p>")
    add_notebook_links(soup, "en", "m05-4.ipynb", colab)
    line = soup.h1.find_next_sibling()
    texts = ["Download notebook"] + (["Open in Colab"] if colab else [])
    assert [a.get_text() for a in line.select("a")] == texts
    assert line.a["href"] == "m05-4.ipynb"


def test_alternates_are_left_out() -> None:
    head = '<link rel="icon" href="x">'
    assert without_alternates(head + '\n <link rel="alternate" href="en/" hreflang="en">') == head

"""What is done to a page's HTML after Markdown: maths, and the links to its notebook."""

import re

from bs4 import BeautifulSoup
from latex2mathml.converter import convert

WORDS = {
    "zh-TW": ("下載 notebook", "在 Colab 開啟"),
    "en": ("Download notebook", "Open in Colab"),
}


def parse(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


def render_maths(soup: BeautifulSoup) -> None:
    """Turn what pymdownx.arithmatex marked (generic form) into MathML.

    Raises:
        ValueError: a command that is not known, or maths in a heading (tables of contents
            and search would show its source).
    """
    for element in soup.select(".arithmatex"):
        source = element.get_text()
        if element.find_parent(["h1", "h2", "h3", "h4", "h5", "h6"]):
            raise ValueError(f"maths in a heading: {source}")
        display = "block" if source.startswith("\\[") else "inline"
        mathml = convert(source[2:-2].strip(), display=display)
        # Chinese fonts draw the middle dot as wide as a letter; the dot operator is for maths.
        mathml = mathml.replace("&#x000B7;", "&#x022C5;")
        if "\\" in mathml or "<mi>&</mi>" in mathml:  # a command, an environment
            raise ValueError(f"maths that cannot be rendered: {source}")
        element.clear()
        element.append(parse(mathml))
        element["class"] = f"maths maths-{display}"


def add_notebook_links(
    soup: BeautifulSoup, language: str, notebook: str, colab: str | None
) -> None:
    """Put the links to the page's notebook under its title."""
    download, open_in_colab = WORDS[language]
    line = soup.new_tag("p", attrs={"class": "notebook-links", "data-search-exclude": ""})
    line.append(soup.new_tag("a", href=notebook, download="", string=download))
    if colab:
        line.append(soup.new_tag("a", href=colab, rel="noopener", string=open_in_colab))
    if soup.h1 is None:
        raise ValueError("no title to put the notebook's links under")
    soup.h1.insert_after(line)


def without_alternates(html: str) -> str:
    """Leave out the head's links to the other language.

    Material looks for a site map beside each, on every load, and takes over clicks. The
    language switch and the site map name the other language without them.
    """
    return re.sub(r'\s*<link rel="alternate"[^>]*hreflang[^>]*>', "", html)

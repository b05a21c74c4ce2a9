"""Find the pages of the site, each in two languages, and read them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jupytext
from markdown_it import MarkdownIt
from mkdocs.utils.meta import get_data
from nbformat import NotebookNode

DEFAULT_LANGUAGE = "zh-TW"
SUFFIXES = {DEFAULT_LANGUAGE: "", "en": ".en"}

_ANCHOR = re.compile(r"\{[^{}]*#([a-z0-9][a-z0-9-]*)[^{}]*\}$")


class PageError(Exception):
    """A page cannot be published; the message names it, and the cell if there is one."""


@dataclass(frozen=True)
class Page:
    """One page in one language; `notebook` is None for a page without code to run."""

    path: Path
    name: str
    language: str
    body: str
    notebook: NotebookNode | None
    extras: str = ""  # of the package, that the cells need

    def __str__(self) -> str:
        return f"{self.name}{SUFFIXES[self.language]}.md"

    @property
    def code_cells(self) -> list[NotebookNode]:
        cells = self.notebook.cells if self.notebook else []
        return [cell for cell in cells if cell.cell_type == "code"]

    def headings(self) -> list[tuple[int, str]]:
        """Level and text of each heading, code fences left out."""
        body = self.body
        if self.notebook:
            prose = [c.source for c in self.notebook.cells if c.cell_type == "markdown"]
            body = "\n\n".join(prose)
        tokens = MarkdownIt().parse(body)
        return [
            (int(token.tag[1]), tokens[i + 1].content)
            for i, token in enumerate(tokens)
            if token.type == "heading_open"
        ]

    def anchors(self) -> list[tuple[int, str]]:
        """Level and explicit anchor of each heading below the title.

        Raises:
            PageError: a heading without an anchor, an anchor used twice, not one title.
        """
        headings = self.headings()
        if [level for level, _ in headings].count(1) != 1:
            raise PageError(f"{self}: a page has exactly one title (# …)")
        anchors: list[tuple[int, str]] = []
        for level, text in headings:
            if level == 1:
                continue
            if not (match := _ANCHOR.search(text)):
                raise PageError(
                    f"{self}: heading {text!r} needs an ASCII anchor, such as {{ #some-name }}"
                )
            if match[1] in [anchor for _, anchor in anchors]:
                raise PageError(f"{self}: anchor #{match[1]} is used twice")
            anchors.append((level, match[1]))
        return anchors


def read(path: Path, name: str, language: str) -> Page:
    """Read one page; a page with Python cells and no kernel to run them is an error."""
    text = path.read_text(encoding="utf-8")
    body, meta = get_data(text)
    kernel = (meta.get("jupyter") or {}).get("kernelspec") or {}
    if kernel.get("language") != "python":
        page = Page(path, name, language, body, None)
        has_code = "jupyter" in meta or re.search(r"^```python", body, re.MULTILINE)
        if has_code and not meta.get("static"):
            # Rendered silently without being run, otherwise.
            raise PageError(
                f"{page}: has Python cells, but its front matter lacks jupyter: kernelspec: "
                "language: python (or static: true, if they are not to be run)"
            )
        return page
    notebook = jupytext.reads(text, fmt="md")
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type != "raw"]
    notebook.metadata.pop("jupytext", None)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # jupytext's are random: the same page, another file
    return Page(path, name, language, body, notebook, str(meta.get("extras", "")))


def discover(
    docs: Path, excluded: Callable[[str], bool] = lambda _: False
) -> list[tuple[Page, Page]]:
    """Every page of the folder with its twin, default language first.

    Raises:
        PageError: a page that exists in one language only.
    """
    names: dict[str, dict[str, Path]] = {}
    for path in sorted(docs.rglob("*.md")):
        relative = path.relative_to(docs).as_posix()
        if excluded(relative):
            continue
        name = relative.removesuffix(".md")
        language = DEFAULT_LANGUAGE
        for other, suffix in SUFFIXES.items():
            if suffix and name.endswith(suffix):
                name, language = name.removesuffix(suffix), other
        names.setdefault(name, {})[language] = path
    for name, found in names.items():
        for language, suffix in SUFFIXES.items():
            if language not in found:
                raise PageError(f"{name}{suffix}.md is missing: each page exists in both languages")
    return [
        tuple(read(found[language], name, language) for language in SUFFIXES)  # type: ignore[misc]
        for name, found in names.items()
    ]


def with_title_anchor(markdown: str, anchor: str) -> str:
    """Give the title an anchor if it has none: MkDocs' own would be empty for Chinese."""
    return re.sub(
        r"^# (?!.*\{[^{}]*#)(.*)$", rf"# \1 {{ #{anchor} }}", markdown, count=1, flags=re.MULTILINE
    )

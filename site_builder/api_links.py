"""Names a page imports from the package become links to the API page."""

import ast
from collections.abc import Iterable

from bs4 import BeautifulSoup, Tag


def imported_names(code: Iterable[str], package: str) -> dict[str, str]:
    """Names bound by `from <package>… import …`, each with its anchor in the API page."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for source in code
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package
        for alias in node.names
    }


def _text(node: object) -> str:
    return node.get_text() if isinstance(node, Tag) else ""


def link_names(soup: BeautifulSoup, names: dict[str, str], api: str) -> None:
    """Wrap each of the names in highlighted code in a link to `api#anchor`."""
    for span in soup.select(".highlight code span.n, .highlight code span.nc"):
        anchor = names.get(span.get_text())
        attribute = _text(span.previous_sibling) == "."
        assigned = _text(span.next_sibling) == "="
        if anchor and not attribute and not assigned:
            span.wrap(soup.new_tag("a", href=f"{api}#{anchor}", attrs={"class": "api-link"}))

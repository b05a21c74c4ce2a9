"""The two languages of a page: the same code, the same anchors, the same numbers."""

import ast
import re
from itertools import zip_longest

from nbformat import NotebookNode

from site_builder.pages import Page, PageError

_NUMBER = re.compile(r"[-−]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


class _Neutral(ast.NodeTransformer):
    """Empties strings; an f-string keeps its values, in no order (word order is a language's)."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        values = [v for v in node.values if isinstance(v, ast.FormattedValue)]
        for value in values:  # not its format: that is not a displayed word
            value.value = self.visit(value.value)
        if not values:
            return ast.Constant("")
        return ast.JoinedStr(sorted(values, key=ast.dump))


def neutral(code: str) -> str:
    """The syntax tree of the code without comments, layout and the text of strings."""
    return ast.dump(_Neutral().visit(ast.parse(code)))


def compare_sources(first: Page, second: Page) -> None:
    """Raise PageError where the pages differ in code, cell tags or heading anchors."""
    if first.anchors() != second.anchors():
        pairs = zip_longest(first.anchors(), second.anchors())
        ours, theirs = next(pair for pair in pairs if pair[0] != pair[1])
        raise PageError(f"{second}: its headings are not those of {first}: {theirs} for {ours}")
    if len(first.code_cells) != len(second.code_cells):
        raise PageError(
            f"{second}: {len(second.code_cells)} code cells, but {first} has "
            f"{len(first.code_cells)}"
        )
    for number, cells in enumerate(zip(first.code_cells, second.code_cells, strict=True), 1):
        trees = []
        for page, cell in zip((first, second), cells, strict=True):
            try:
                trees.append(neutral(cell.source))
            except SyntaxError as error:
                raise PageError(f"{page}: cell {number} is not Python: {error}") from None
        if trees[0] != trees[1]:
            raise PageError(f"{second}: the code of cell {number} is not that of {first}")
        if cells[0].metadata.get("tags") != cells[1].metadata.get("tags"):
            raise PageError(f"{second}: the tags of cell {number} are not those of {first}")


def _numbers(cell: NotebookNode) -> list[str]:
    texts = [
        output.text if output.output_type == "stream" else output.get("data", {}).get("text/plain")
        for output in cell.outputs
    ]
    return sorted(number for text in texts if text for number in _NUMBER.findall(text))


def _figures(cell: NotebookNode) -> list[str]:
    data = [output.get("data", {}) for output in cell.outputs]
    return [d["image/svg+xml"] for d in data if "image/svg+xml" in d]


def compare_outputs(
    first: Page, second: Page, outputs: NotebookNode, other_outputs: NotebookNode
) -> None:
    """Raise PageError where the executed twins print other numbers or draw other figures.

    The text of figures may differ in a cell tagged `localized-figure`.
    """
    pairs = zip(
        *([c for c in nb.cells if c.cell_type == "code"] for nb in (outputs, other_outputs)),
        strict=True,
    )
    for number, (cell, other) in enumerate(pairs, 1):
        if _numbers(cell) != _numbers(other):
            ours, theirs = next(
                pair for pair in zip_longest(_numbers(cell), _numbers(other)) if pair[0] != pair[1]
            )
            raise PageError(
                f"{second}: cell {number} prints other numbers than {first}: {theirs} for {ours}"
            )
        localized = "localized-figure" in cell.metadata.get("tags", [])
        if not localized and _figures(cell) != _figures(other):
            raise PageError(f"{second}: cell {number} draws another figure than {first}")

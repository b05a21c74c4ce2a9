"""Tables and figures for notebooks and pages; nothing here computes a result."""

import inspect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tabulate import tabulate

from m05._figures import Figure, figure, plot_layerwise

__all__ = [
    "Figure",
    "Prose",
    "Source",
    "Table",
    "figure",
    "plot_layerwise",
    "prose",
    "source",
    "table",
]


@dataclass(frozen=True)
class Table:
    """Rows under headers; a notebook shows it as a table, `print` as aligned text.

    >>> Table((("fc", 1),), ("module", "count")).headers
    ('module', 'count')
    """

    rows: tuple[tuple[Any, ...], ...]
    headers: tuple[str, ...]

    def __repr__(self) -> str:
        return self._render("simple")

    def _repr_html_(self) -> str:
        return self._render("html")

    def _render(self, style: str) -> str:
        body = [[_cell(value) for value in row] for row in self.rows]
        align = ["right" if _is_numeric(column) else "left" for column in self._columns()]
        return tabulate(
            body,
            self.headers,
            tablefmt=style,
            disable_numparse=True,
            colalign=align if body else None,
        )

    def _columns(self) -> list[list[Any]]:
        return [[row[i] for row in self.rows] for i in range(len(self.headers))]


def table(rows: Iterable[Sequence[Any]], headers: Sequence[str]) -> Table:
    """A table that a notebook shows as such, in HTML and in plain text.

    >>> table([("fc", 33.1234, 25), ("stem", float("inf"), 23)], ["module", "SQNR (dB)", "q/dq"])
    module      SQNR (dB)    q/dq
    --------  -----------  ------
    fc              33.12      25
    stem                ∞      23

    Args:
        rows: Sequences of cells. Floats show two decimals; format others yourself.
        headers: One text for each column, with the unit.

    Returns:
        A `Table`, which keeps the cells as they are and formats them only when shown.

    Raises:
        ValueError: A row has more or fewer cells than there are headers.
    """
    kept = tuple(tuple(row) for row in rows)
    for number, row in enumerate(kept):
        if len(row) != len(headers):
            raise ValueError(
                f"row {number} has {len(row)} cells and there are {len(headers)} headers: {row!r}"
            )
    return Table(kept, tuple(headers))


def _cell(value: Any) -> str:
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a NumPy or torch scalar
        value = value.item()
    if isinstance(value, float):
        return f"{value:.2f}" if math.isfinite(value) else str(value).replace("inf", "∞")
    return "" if value is None else str(value)


def _is_numeric(column: list[Any]) -> bool:
    return bool(column) and all(_looks_numeric(_cell(value)) for value in column)


def _looks_numeric(text: str) -> bool:
    try:
        float(text.strip("+%× ").replace("∞", "inf").replace("−", "-").replace(",", "") or "0")
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Prose:
    """A sentence made by a cell, so that its figures are the run's own.

    >>> Prose("It falls.")
    It falls.
    """

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.text


def prose(text: str) -> Prose:
    """A paragraph of Markdown that a cell wrote: prose whose figures cannot go stale.

    >>> gain = 5.678
    >>> prose(f"Leaving fc in float gains {gain:.2f} dB.")
    Leaving fc in float gains 5.68 dB.

    Args:
        text: Markdown; one paragraph.

    Returns:
        A `Prose`, which a notebook renders.
    """
    return Prose(text)


@dataclass(frozen=True)
class Source:
    """Source code that a notebook folds away and a page highlights.

    >>> Source("f", "def f(): ...")
    def f(): ...
    """

    name: str
    code: str

    def __repr__(self) -> str:
        return self.code

    def _repr_markdown_(self) -> str:
        fence = "````"
        return (
            f'<details class="source" markdown="1"><summary><code>{self.name}</code></summary>\n\n'
            f"{fence}python\n{self.code}\n{fence}\n\n</details>"
        )


def source(obj: Any) -> Source:
    """The source of a function or class, as it stands in the installed package.

    >>> print(source(table).code.splitlines()[0])
    def table(rows: Iterable[Sequence[Any]], headers: Sequence[str]) -> Table:

    Args:
        obj: A function, class or module.

    Returns:
        A `Source` with the dotted name and the text of the definition.

    Raises:
        TypeError, OSError: What `inspect.getsource` raises for an object without source.
    """
    name = getattr(obj, "__qualname__", getattr(obj, "__name__", repr(obj)))
    if not inspect.ismodule(obj):
        name = f"{obj.__module__}.{name}"
    return Source(name, inspect.getsource(obj).rstrip())

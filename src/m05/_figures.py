"""Figures as SVG, readable on light and on dark pages."""

import io
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # matplotlib takes its time to import, and only figures need it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MplFigure

__all__ = ["Figure", "figure", "plot_layerwise"]

# A grey that reads on white and on black. The site swaps it for the text colour of the page.
INK = "#7a7a7b"
ACCENT, SECOND, WARM = "#2a8fbd", "#8a6fc8", "#d9822b"


@dataclass(frozen=True)
class Figure:
    """A finished figure: SVG, and the text that stands for it where it cannot be seen.

    >>> Figure("<svg/>", "Nothing to see.")
    <figure: Nothing to see.>
    """

    svg: str
    alt: str

    def __repr__(self) -> str:
        return f"<figure: {self.alt}>"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        data = {"image/svg+xml": self.svg, "text/plain": repr(self)}
        return data, {"image/svg+xml": {"alt": self.alt}}


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib as mpl
    from cycler import cycler

    settings: Any = {
        # Equal figures are equal files: ids from a fixed salt, text as text.
        "svg.hashsalt": "m05",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 11,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "grid.color": INK,
        "grid.alpha": 0.25,
        "axes.prop_cycle": cycler(color=[ACCENT, WARM, SECOND]),
        "legend.frameon": False,
    }
    with mpl.rc_context(settings):
        yield


def figure(
    draw: Callable[["Axes"], None], alt: str, *, size: tuple[float, float] = (7.2, 3.6)
) -> Figure:
    """Draw on matplotlib axes and return a figure that shows well on light and on dark pages.

    >>> figure(lambda ax: ax.plot([0, 1], [27.0, 33.0]), "SQNR rises from 27 to 33 dB.")
    <figure: SQNR rises from 27 to 33 dB.>

    Args:
        draw: Takes the axes and draws.
        alt: What the figure shows, in a sentence.
        size: Width and height in inches.

    Returns:
        A `Figure` with the drawing as SVG.

    Raises:
        ValueError: `alt` is empty.
    """
    from matplotlib.figure import Figure as MplFigure

    if not alt.strip():
        raise ValueError("a figure needs an alt text: say in a sentence what it shows.")
    with _style():
        canvas = MplFigure(figsize=size, layout="constrained")
        draw(canvas.add_subplot())
        return Figure(_svg(canvas), alt)


def _svg(canvas: "MplFigure") -> str:
    buffer = io.StringIO()
    canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def plot_layerwise(rows: Sequence[tuple[str, float]], alt: str) -> Figure:
    """SQNR at each position, in graph order, with the largest drop marked.

    >>> plot_layerwise([("conv", 40.0), ("relu", 38.0), ("fc", 27.0)], "From 40 to 27 dB.")
    <figure: From 40 to 27 dB.>

    Args:
        rows: `(module, sqnr)` pairs, for example from `layerwise_sqnr`; dB.
        alt: What the figure shows, in a sentence.

    Returns:
        A `Figure`; positions without a finite value are left open.

    Raises:
        ValueError: There are no rows.
    """
    if not rows:
        raise ValueError("plot_layerwise got no rows; layerwise_sqnr returns one per position.")

    def draw(ax: "Axes") -> None:
        positions = range(len(rows))
        values = [value if math.isfinite(value) else math.nan for _, value in rows]
        ax.plot(positions, values, marker="o", markersize=5)
        steps = [after - before for before, after in itertools.pairwise(values)]
        finite = [i for i, step in enumerate(steps) if math.isfinite(step)]
        worst = min(finite, key=lambda i: steps[i], default=-1)
        if worst >= 0 and steps[worst] < 0:
            ax.plot([worst, worst + 1], values[worst : worst + 2], color=WARM, linewidth=3)
            ax.annotate(
                f"{steps[worst]:+.1f} dB",
                (worst + 0.5, (values[worst] + values[worst + 1]) / 2),
                textcoords="offset points",
                xytext=(8, 6),
                color=WARM,
            )
        if len(rows) <= 40:
            ax.set_xticks(list(positions), [name for name, _ in rows], rotation=45, ha="right")
        else:
            ax.set_xlabel("position")
        ax.set_ylabel("SQNR (dB)")

    return figure(draw, alt, size=(7.2, 4.2))

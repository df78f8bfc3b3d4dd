"""How everything is drawn: sizes, colours and the parts that pictures share.

Pictures are as wide as a column of a paper, 8.6 cm, or as a page; no text is below 7 pt at that size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from warploom.bench.rendering import Summary
from warploom.corpus.names import Call, Name, parse
from warploom.errors import ParameterError

__all__ = [
    "COLOURS",
    "MARKERS",
    "NAMES",
    "PAGE",
    "STYLE",
    "WIDTH",
    "arrays",
    "binned",
    "colour",
    "figure",
    "grid",
    "log_axis",
    "log_ratio_axis",
    "pattern",
    "percent",
    "points",
    "short_names",
    "table",
]

WIDTH = 8.6 / 2.54
"""Inches: a column of a paper."""

PAGE = 17.4 / 2.54
"""Inches: two columns."""

STYLE: Any = {
    "font.size": 7.0,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.0,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 100,
    "svg.fonttype": "none",
}

# Okabe-Ito and, where more are needed, Tol's muted colours: both safe for colour-blind readers.
COLOURS: Mapping[str, str] = {
    # orders of the rows
    "csr": "#0072B2",
    "dcsr": "#56B4E9",
    "plain": "#E69F00",
    "flipped": "#999933",
    "lpt": "#D55E00",
    "warp-aware": "#009E73",
    "cta-aware": "#44AA99",
    "hybrid-1": "#CC79A7",
    "hybrid-2.1": "#AA4499",
    "hybrid-2.2": "#882255",
    "hybrid-2.3": "#332288",
    "oracle": "#000000",
    # kernels of SpMV
    "cuSPARSE": "#000000",
    "cuSPARSE BSR": "#777777",
    "vector": "#0072B2",
    "scalar": "#CC79A7",
    "merge-based": "#009E73",
    "CSR-adaptive": "#56B4E9",
    "CUSP formula": "#44AA99",
    "blockwise": "#D55E00",
    "optimal": "#D55E00",
    "DASP": "#D55E00",
    "CMRS": "#E69F00",
    "modified CMRS": "#882255",
    "HYB": "#117733",
    "SELL": "#332288",
    "best": "#D55E00",
    # numbers of threads per row, from light to dark
    "2": "#C6DBEF",
    "4": "#9ECAE1",
    "8": "#6BAED6",
    "16": "#2171B5",
    "32": "#08306B",
    # categories of rows
    "long": "#D55E00",
    "medium": "#E69F00",
    "short 1&3": "#0072B2",
    "short 2&2": "#56B4E9",
    "short 4": "#009E73",
    "short 1": "#CC79A7",
    "empty": "#BBBBBB",
}
"""The one table of colours: a technique has the same colour in every picture."""

MARKERS = ("o", "^", "s", "D", "v", "P", "X", "<", ">", "*")
_OTHER = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def colour(technique: str, position: int = 0) -> str:
    """Return the colour of a technique; for other names, one by position."""
    return COLOURS.get(technique, _OTHER[position % len(_OTHER)])


def figure(height: float, *, width: float = WIDTH) -> Figure:
    """Return an empty picture of some height and width in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def grid(axis: Axes, which: str = "both") -> None:
    """Draw thin grid lines behind the data."""
    axis.grid(True, axis=which, linewidth=0.3, color="#CCCCCC")  # type: ignore[arg-type]
    axis.set_axisbelow(True)


def points(axis: Axes, x: Any, y: Any, technique: str, *, position: int = 0, **options: Any) -> None:
    """Scatter one technique; the points are pixels in an SVG, which would be huge otherwise."""
    style = {"s": 5, "alpha": 0.55, "linewidths": 0, "rasterized": True, "label": technique, **options}
    style.setdefault("color", colour(technique, position))
    axis.scatter(np.asarray(x, float), np.asarray(y, float), marker=MARKERS[position % len(MARKERS)], **style)


_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
_FINE = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 3, 4, 5, 7)
_FINEST = (0.75, 0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4)


def log_ratio_axis(axis: Axes, *, base: bool = True) -> None:
    """Make the y axis, of ratios, logarithmic with plain numbers at it, and draw a line at 1."""
    axis.set_yscale("log")
    if base:
        axis.axhline(1, color="black", linewidth=0.7)
    low, high = axis.get_ylim()
    ladder = _FINEST if high < 1.5 * low else _FINE if high < 8 * low else _STEPS
    steps = [step for step in ladder if low <= step <= high]
    axis.set_yticks(steps, [f"{step:g}" for step in steps])
    axis.yaxis.set_minor_locator(NullLocator())


def log_axis(axis: Axes, name: str = "x") -> None:
    """Make an axis of counts logarithmic, with powers of ten at it, and values between them where there are few."""
    getattr(axis, f"set_{name}scale")("log")
    low, high = getattr(axis, f"get_{name}lim")()
    few = high < 100 * low
    chosen = getattr(axis, f"{name}axis")
    chosen.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=7))
    if few:
        chosen.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    chosen.set_minor_locator(NullLocator())


def _short(value: float) -> str:
    if 0.001 <= value < 10_000:
        return f"{value:g}"
    mantissa, exponent = f"{value:.1e}".replace(".0e", "e").split("e")
    return rf"${mantissa}\cdot10^{{{int(exponent)}}}$"


def percent(axis: Axes, name: str = "y") -> None:
    """Write shares as percentages."""
    getattr(axis, f"{name}axis").set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))


NAMES = (
    "Names with a slash are those of real matrices, or of what has the same pattern; others are constructions, whose "
    "parameters are in the table."
)
"""What a caption says where `short_names` are."""


def short_names(names: Sequence[str]) -> list[str]:
    """Return labels of matrices: constructions without their parameters, except for the one that tells them apart.

    Parameters
    ----------
    names : sequence of str
        As `warploom.corpus.canonical` writes them, each once.
    """
    parsed = [_parsed(name) for name in names]
    calls = [one.base for one in parsed if isinstance(one.base, Call)]
    labels = []
    for name, one in zip(names, parsed, strict=True):
        if not isinstance(one.base, Call):
            labels.append(name)
            continue
        alike = [call for call in calls if call.construction == one.base.construction]
        label = f"{one.base.construction.replace('_', ' ')}{''.join(map(str, one.steps))}"
        differing = [key for key, value in one.base.parameters.items() if _values(alike, key).count(value) == 1]
        if len(alike) > 1 and differing:
            label += f", {differing[0].replace('_', ' ')} {one.base.parameters[differing[0]]}"
        labels.append(label)
    return _numbered(labels)


def _parsed(name: str) -> Name:
    try:
        return parse(name)
    except ParameterError:  # of a construction that is no more, or has other parameters now
        return Name(name)


def _values(calls: Sequence[Call], key: str) -> list[Any]:
    return [call.parameters.get(key) for call in calls]


def _numbered(labels: Sequence[str]) -> list[str]:
    """Return labels with a number after those that occur more than once."""
    return [
        f"{label} {labels[: place + 1].count(label)}" if labels.count(label) > 1 else label
        for place, label in enumerate(labels)
    ]


def binned(x: Any, y: Any, bins: int = 12) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return geometric means of y in bins of equally many values, at the geometric means of x."""
    frame = pd.DataFrame({"x": np.asarray(x, float), "y": np.asarray(y, float)}).dropna().sort_values("x")
    frame = np.log(frame[(frame > 0).all(axis=1)])
    if frame.empty:
        return np.array([]), np.array([])
    groups = np.arange(len(frame)) * min(bins, max(1, len(frame) // 3)) // len(frame)
    means = np.exp(frame.groupby(groups).mean())
    return means["x"].to_numpy(), means["y"].to_numpy()


_BOLD = 1.15
"""Width of bold text over that of other text."""


def table(frame: pd.DataFrame, formats: Mapping[str, str] | None = None, *, width: float | None = None) -> Figure:
    """Draw a table.

    Parameters
    ----------
    frame : pandas.DataFrame
        Without its index.
    formats : mapping, optional
        Format specifications of columns.
    width : float, optional
        Inches; what the text needs if not given.
    """
    cells = Summary("", frame, formats=formats or {}).cells()
    heads = [str(name) for name in frame]
    lengths = [
        max([*(_BOLD * len(line) for line in head.split("\n")), *map(len, column)])
        for head, column in zip(heads, _columns(cells, heads), strict=True)
    ]
    needed = 0.058 * (sum(lengths) + 2.6 * len(lengths))
    lines = max(head.count("\n") for head in heads) + 1
    row, head_height = 0.165, 0.06 + 0.12 * lines
    drawn = Figure(figsize=(width or max(needed, WIDTH), row * len(cells) + head_height + 0.08))
    axis = drawn.add_axes((0.01, 0.0, 0.98, 1.0))
    axis.axis("off")
    total = row * len(cells) + head_height + 0.08
    edges = np.concatenate([[0], np.cumsum(np.array(lengths) + 2.6)]) / (sum(lengths) + 2.6 * len(lengths))
    numeric = [pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]
    top = 1 - 0.04 / total

    def place(column: int, y: float, text: str, **style: Any) -> None:
        gap = 1.6 if column < len(heads) - 1 else 0.2
        right = edges[column + 1] - gap / (sum(lengths) + 2.6 * len(lengths))
        x, side = (right, "right") if numeric[column] else (edges[column], "left")
        axis.text(x, y, text, ha=side, va="center", transform=axis.transAxes, **style)

    axis.plot([0, 1], [top, top], color="black", linewidth=0.8, transform=axis.transAxes)
    for column, head in enumerate(heads):
        place(column, top - head_height / 2 / total, head, weight="bold")
    middle = top - head_height / total
    axis.plot([0, 1], [middle, middle], color="black", linewidth=0.5, transform=axis.transAxes)
    for number, texts in enumerate(cells):
        for column, text in enumerate(texts):
            place(column, middle - (number + 0.5) * row / total, text)
    bottom = middle - len(cells) * row / total
    axis.plot([0, 1], [bottom, bottom], color="black", linewidth=0.8, transform=axis.transAxes)
    axis.set(xlim=(0, 1), ylim=(0, 1))
    return drawn


def _columns(cells: Sequence[Sequence[str]], heads: Sequence[str]) -> list[list[str]]:
    return [list(column) for column in zip(*cells, strict=True)] if cells else [[] for _ in heads]


def arrays(axis: Axes, rows: Mapping[str, Sequence[Any]], *, colours: Callable[[str, int], str] | None = None) -> None:
    """Draw named arrays as rows of boxes with their elements."""
    widest = max(len(values) for values in rows.values())
    for line, (name, values) in enumerate(rows.items()):
        axis.text(-0.3, line + 0.4, name, ha="right", va="center")
        for place, value in enumerate(values):
            fill = colours(name, place) if colours else "#F2F2F2"
            axis.add_patch(_box(place, line, 1.0, 0.8, fill))
            axis.text(place + 0.5, line + 0.4, str(value), ha="center", va="center")
    axis.set(xlim=(-0.1, widest + 0.1), ylim=(len(rows), -0.2))
    axis.axis("off")


def pattern(axis: Axes, texts: Sequence[Sequence[Any]], fill: Callable[[int, int], str | None]) -> None:
    """Draw a small matrix as boxes; `fill` gives the colour of a place, None for white."""
    for row, line in enumerate(texts):
        for col, text in enumerate(line):
            axis.add_patch(_box(col, row, 1, 1, fill(row, col) or "white"))
            axis.text(col + 0.5, row + 0.5, str(text), ha="center", va="center")
    axis.set(xlim=(-0.05, len(texts[0]) + 0.05), ylim=(len(texts) + 0.05, -0.05), aspect="equal")
    axis.axis("off")


def _box(x: float, y: float, width: float, height: float, fill: str) -> Rectangle:
    return Rectangle((x, y), width, height, facecolor=fill, edgecolor="#555555", linewidth=0.4)

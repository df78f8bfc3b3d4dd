"""The picture of DASP: its sections as blocks."""

from __future__ import annotations

from typing import Any

import pictures
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from warploom.formats import DASP
from warploom.reproduce import drawing
from warploom.reproduce.dasp2023.example import FIG_5, matrix_of_row_lengths

_SECTIONS = {"long": "long", "regular": "medium", "irregular": "medium", "combined": "short 1&3", "single": "short 1"}


def draw() -> Figure:
    """Draw the slots of every section for Fig. 5 of Lu and Liu (2023); the numbers in them are columns."""
    A = matrix_of_row_lengths(FIG_5, 20)
    stored = DASP.from_csr(A, mma_m=2, mma_k=4, max_length=9)
    starts = [*stored.section_starts.values(), len(stored.indices)]
    slots = {
        name: stored.indices[first:last]
        for name, first, last in zip(stored.section_starts, starts[:-1], starts[1:], strict=True)
    }
    figure = drawing.figure(1.75, width=drawing.PAGE)
    axis = figure.subplots()
    y = 0.0
    for name, colour in _SECTIONS.items():
        height = 2 if name in ("long", "regular") else 1
        columns = 4 if name != "irregular" and name != "single" else 1
        _blocks(axis, slots[name], y, height, columns, drawing.COLOURS[colour])
        axis.text(-0.4, y + height / 2, f"{name}: {len(slots[name])} slots", ha="right", va="center")
        y += height + 0.45
    axis.set(xlim=(-7.5, 36), ylim=(y, -0.1), aspect="equal")
    axis.axis("off")
    figure.suptitle(pictures.title(stored, "blocks of 2 x 4, medium rows have up to 9 nonzeros"), fontsize=7.5)
    return figure


def _blocks(axis: Axes, slots: NDArray[Any], y: float, height: int, columns: int, fill: str) -> None:
    """Draw slots as blocks of some height and width side by side, those without an entry grey."""
    gap = 0.4 if columns > 1 else 0.0
    for number, column in enumerate(slots.tolist()):
        block, within = divmod(number, height * columns)
        row, col = divmod(within, columns)
        x = block * (columns + gap) + col
        shade = pictures.PADDING if column < 0 else fill
        axis.add_patch(Rectangle((x, y + row), 1, 1, facecolor=shade, alpha=0.55, edgecolor="#555555", linewidth=0.4))
        if column >= 0:
            axis.text(x + 0.5, y + row + 0.5, str(column), ha="center", va="center")

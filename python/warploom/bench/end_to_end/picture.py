"""The picture of end-to-end times. Needs matplotlib; draws without a display."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from warploom.bench.end_to_end.rows import Rows
from warploom.bench.end_to_end.summary import BEST, SIZES, baseline_of, environment_of, relative_times, usable
from warploom.bench.end_to_end.tools import CALLS, DEFAULT
from warploom.bench.medians import geometric_mean
from warploom.bench.plots import COLOURS, MARKERS, WIDTH
from warploom.errors import ParameterError

__all__ = ["draw"]

_FONT = 7.0
_FILLABLE = (*(marker for marker in MARKERS if marker != "x"), "h")
_TOOLS = (DEFAULT, BEST, "torch", "cupy", *CALLS)
_DECADES = tuple(10**power for power in range(6))
_OPERATIONS = {"spmv": "SpMV", "spmm": "SpMM"}


def draw(rows: Rows, *, place: str | None = None) -> Figure:
    """Draw the time until n products are done, relative to the vendor's default (on the CPU, to SciPy).

    Parameters
    ----------
    rows : Rows
    place : str, optional
        Where the matrices are; by default GPU memory, or host memory where nothing else was measured.

    Returns
    -------
    matplotlib.figure.Figure
        A line of operations, a column of sizes; a line for each tool, geometric means over matrices and value types.
        Below 1, the tool is done first. Markers are filled where all times were measured from the start of planning.

    Raises
    ------
    ParameterError
        There are no such rows, or they are of different GPUs.
    """
    frame = usable(rows)
    where = place or next((name for name in ("device", "host") if (frame["place"] == name).any()), "device")
    frame = frame[frame["place"] == where]
    if frame.empty:
        raise ParameterError(f"no times of matrices at '{where}'", argument="place")
    baseline = baseline_of(frame)
    ratios = relative_times(frame, _DECADES, baseline)
    known = [tool for tool in _TOOLS if (ratios["tool"] == tool).any()]
    operations = [op for op in _OPERATIONS if (ratios["op"] == op).any()]
    sizes = [size for size in SIZES if (ratios["size"] == size).any()]
    if not known:
        raise ParameterError(f"nothing to compare with {baseline}", argument="rows")
    figure = Figure(figsize=(WIDTH, 0.32 * WIDTH * len(operations) + 0.7), layout="constrained")
    axes = figure.subplots(len(operations), len(sizes), squeeze=False, sharex=True, sharey="row")
    for line, op in zip(axes, operations, strict=True):
        for axis, size in zip(line, sizes, strict=True):
            part = ratios[(ratios["op"] == op) & (ratios["size"] == size)]
            for tool in known:
                _line(axis, part[part["tool"] == tool], tool)
            cases = part.loc[part["products"] == 1, ["matrix", "setting"]].drop_duplicates()
            axis.set_title(f"{_OPERATIONS[op]}, {size}\n{cases['matrix'].nunique()} matrices", fontsize=_FONT)
        for axis in line:  # which share their limits
            _decorate(axis)
        line[0].set_ylabel(f"time until n products\nare done / {baseline}", fontsize=_FONT)
    for axis in axes[-1]:
        axis.set_xlabel("n products", fontsize=_FONT)
    handles = [Line2D([], [], **_style(tool), markersize=3) for tool in known]
    figure.legend(handles, known, loc="outside upper center", ncols=4, fontsize=_FONT, frameon=False)
    figure.supxlabel(
        f"{environment_of(rows)}. Planning included.\n"
        "Geometric means, by nonzeros. Hollow: computed for some matrices.",
        fontsize=_FONT,
    )
    return figure


def _line(axis: Axes, part: Any, tool: str) -> None:
    if part.empty:
        return
    grouped = part.groupby("products")
    means = grouped["ratio"].agg(lambda ratio: 1 / geometric_mean(ratio))
    computed = grouped["computed"].any()
    style = _style(tool)
    axis.plot(means.index, means, label=tool, **(style | {"marker": ""}))
    for hollow in (False, True):
        at = [n for n in means.index if bool(computed[n]) == hollow]
        face = "white" if hollow else style["color"]
        axis.plot(at, means[at], **(style | {"linestyle": ""}), markersize=3, markerfacecolor=face)


def _style(tool: str) -> dict[str, Any]:
    number = _TOOLS.index(tool)
    line = ":" if tool in CALLS else "-"
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": _FILLABLE[number % len(_FILLABLE)],
        "linewidth": 0.9,
        "linestyle": line,
    }


def _decorate(axis: Axes) -> None:
    axis.axhline(1, color="black", linewidth=0.7)
    axis.set(xscale="log", yscale="log")
    axis.yaxis.set_major_formatter("{x:g}")
    low, high = axis.get_ylim()
    low, high = min(low, 0.8), max(high, 1.25)
    axis.set_ylim(low, high)
    steps = np.array([0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000])
    axis.set_yticks([float(step) for step in steps if low <= step <= high])
    axis.set_xticks([float(n) for n in _DECADES])
    axis.minorticks_off()
    axis.tick_params(labelsize=_FONT)
    axis.grid(True, linewidth=0.3)

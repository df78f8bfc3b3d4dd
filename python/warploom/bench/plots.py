"""Pictures of measurements. Needs matplotlib; draws without a display."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from warploom.bench.measurements import Measurements
from warploom.bench.medians import Medians, describe_environments, geometric_mean
from warploom.errors import ParameterError

__all__ = ["distribution", "save", "speedups"]

# From the Okabe-Ito palette: safe for colour-blind readers. Markers tell groups apart without colours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "^", "s", "D", "v", "P", "x")
WIDTH = 16 / 2.54
"""Inches; text is readable at this width."""

_SOURCES = {
    "construction": "constructed",
    "folder": "collected",
    "origin": "real by origin",
    "suitesparse": "SuiteSparse",
}
"""What sources of matrices are called in legends."""

_FONT = 7.0
_BINS = 30
_LEAST_VARIATION = 1e-3
_FILLED: dict[str, Any] = {"alpha": 0.45}
_LINE: dict[str, Any] = {"linewidth": 1.1}


def distribution(matrices: pd.DataFrame, index: pd.DataFrame, *, collection: str = "SuiteSparse collection") -> Figure:
    """Draw how sizes, densities and row lengths of matrices are distributed, beside those of a collection.

    Parameters
    ----------
    matrices : pandas.DataFrame
        Columns of `warploom.bench.schema.matrix_columns`: ``rows``, ``cols``, ``nnz``, ``family`` and, where it was
        computed, ``spmv_nnz_per_row_cov``.
    index : pandas.DataFrame
        ``rows``, ``cols`` and ``nnz`` of every matrix of the collection and, if known, ``nnz_per_row_cov``.
    collection : str
        What to call it.

    Returns
    -------
    matplotlib.figure.Figure
        Panels of rows, nonzeros, nonzeros per row, density and variation of the row lengths, as shares of the
        matrices, and one of the largest families. Empty matrices are left out of panels in which they have no value.

    Raises
    ------
    ParameterError
        One of them has no rows.
    """
    for name, frame in (("matrices", matrices), ("index", index)):
        if frame.empty:
            raise ParameterError(f"{name} has no rows", argument=name)
    figure = Figure(figsize=(WIDTH, 0.62 * WIDTH), layout="constrained")
    axes = figure.subplots(2, 3)
    measured, known = _shape_facts(matrices), _shape_facts(index)
    for axis, quantity in zip(axes.flat, measured, strict=False):
        _compare(axis, quantity, measured[quantity], known[quantity])
    _families(axes.flat[-1], matrices["family"])
    for axis in axes[:, 0]:
        axis.set_ylabel("share of matrices (%)", fontsize=_FONT)
    handles = [Patch(color=COLOURS[0], **_FILLED), Line2D([], [], color=COLOURS[1], **_LINE)]
    labels = [f"measured: {len(matrices):,} matrices", f"{collection}: {len(index):,} matrices"]
    figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=_FONT + 1, frameon=False)
    return figure


def _shape_facts(frame: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
    rows, cols, nnz = (frame[name].to_numpy(np.float64) for name in ("rows", "cols", "nnz"))
    variation = frame.get("spmv_nnz_per_row_cov", frame.get("nnz_per_row_cov", pd.Series(dtype=np.float64)))
    with np.errstate(divide="ignore", invalid="ignore"):
        facts = {
            "rows": rows,
            "nonzeros": nnz,
            "nonzeros per row": nnz / rows,
            "density (nonzeros / (rows x columns))": nnz / (rows * cols),
        }
    facts = {name: values[np.isfinite(values) & (values > 0)] for name, values in facts.items()}
    known = variation.dropna().to_numpy(np.float64)
    facts["variation of row lengths (std / mean)"] = np.maximum(known, _LEAST_VARIATION)
    return facts


def _compare(axis: Axes, quantity: str, measured: NDArray[np.float64], known: NDArray[np.float64]) -> None:
    """Draw two histograms over the same bins, with equal areas whatever the numbers of matrices."""
    both = np.concatenate([measured, known])
    if both.size:
        low, high = np.log10(both.min()), np.log10(both.max())
        bins = np.logspace(low, max(high, low + 0.1), _BINS + 1)
        bins[0], bins[-1] = min(bins[0], both.min()), max(bins[-1], both.max())
        for values, colour, filled in ((measured, COLOURS[0], True), (known, COLOURS[1], False)):
            if values.size:
                shares = 100 * np.histogram(values, bins)[0] / values.size
                axis.stairs(shares, bins, fill=filled, color=colour, **(_FILLED if filled else _LINE))
    axis.set_xscale("log")
    axis.minorticks_off()
    notes = [] if known.size else ["not in the collection's index"]
    if (both == _LEAST_VARIATION).any() and quantity.startswith("variation"):
        notes.append("equal lengths at the left edge")
    axis.set_xlabel("\n".join([quantity, *notes]), fontsize=_FONT)
    axis.tick_params(labelsize=_FONT)
    axis.grid(True, axis="y", linewidth=0.3)
    axis.set_axisbelow(True)


def _families(axis: Axes, families: pd.Series, most: int = 8) -> None:
    shares = families.replace("", "unnamed").value_counts(normalize=True) * 100
    shown = shares.head(most)
    if len(shares) > most:
        shown = pd.concat([shown, pd.Series({f"{len(shares) - most} others": shares.iloc[most:].sum()})])
    names = [name if len(name) <= 18 else f"{name[:17]}…" for name in shown.index.astype(str)]
    axis.barh(range(len(shown)), shown.to_numpy(), color=COLOURS[0], alpha=0.45)
    axis.set_yticks(range(len(shown)), names)
    axis.invert_yaxis()
    axis.set_xlabel(f"share of the {len(families):,} measured (%)\nby family, of {len(shares)}", fontsize=_FONT)
    axis.tick_params(labelsize=_FONT)
    axis.tick_params(axis="y", labelsize=_FONT - 1, length=0)


def speedups(measurements: Measurements, panels: Sequence[tuple[str, str]], *, by: str | None = None) -> Figure:
    """Draw the speedup of warploom's fastest candidate over the vendor's fastest, one point for each matrix.

    Parameters
    ----------
    measurements : Measurements
    panels : sequence of (str, str)
        Settings and states of the cache, a panel for each.
    by : str, optional
        A column of the table of matrices, such as ``"source"``, whose values get colours of their own.

    Returns
    -------
    matplotlib.figure.Figure
        Above each panel are the numbers of matrices and geometric means.

    Raises
    ------
    ParameterError
        There are no panels, no times of one of them, or no such column.
    """
    if not panels:
        raise ParameterError("no panels given", argument="panels")
    if by is not None and by not in measurements.matrices:
        raise ParameterError(f"matrices have no column '{by}'", argument="by")
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(WIDTH, 0.42 * WIDTH * lines + 0.3), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, sharey="row").ravel()
    facts = measurements.matrices.set_index("matrix")
    groups = sorted(facts[by].astype(str).unique()) if by else [""]
    for axis, (setting, cache) in zip(axes, panels, strict=False):
        medians = Medians.of(measurements, setting, cache).widely_measured()
        own, vendor = (medians.best(medians.candidates(vendor=v)) for v in (False, True))
        _scatter(axis, (vendor / own).dropna(), facts, by, groups)
        axis.set_title("\n".join([_panel_title(setting, cache), axis.get_title()]), fontsize=_FONT)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    for axis in axes[::columns]:
        axis.set_ylabel("speedup over the\nbest of cuSPARSE", fontsize=_FONT)
    handles, labels = axes[0].get_legend_handles_labels()
    if by:
        figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=_FONT, frameon=False)
    figure.supxlabel(
        f"{describe_environments(measurements.environments)}. Every point is a matrix; above the panels, numbers of "
        "matrices and geometric means.",
        fontsize=_FONT,
    )
    return figure


def _panel_title(setting: str, cache: str) -> str:
    op, dtype, *rest = setting.split("/")
    name = {"spmv": "SpMV", "spmm": "SpMM"}[op]
    if not rest:
        return f"{name}, {dtype}, L2 {cache}"
    layout, k = rest
    return f"{name}, {dtype}, L2 {cache}\n{layout}-major, {k.replace('=', ' = ')}"


def _scatter(axis: Axes, found: pd.Series, facts: pd.DataFrame, by: str | None, groups: Sequence[str]) -> None:
    means = []
    for number, group in enumerate(groups):
        chosen = found[facts.loc[found.index, by].astype(str) == group] if by else found
        shown = _SOURCES.get(group, group)
        style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
        nnz = np.maximum(facts.loc[chosen.index, "nnz"], 1)
        axis.scatter(nnz, chosen, s=5, alpha=0.6, linewidths=0.5, label=shown, **style)
        if len(chosen):
            means.append(f"{shown} {len(chosen):,}: {geometric_mean(chosen):.2f}x".strip())
    axis.axhline(1, color="black", linewidth=0.7)
    axis.set_title("\n".join(means))
    axis.set(xscale="log", yscale="log")
    axis.yaxis.set_major_formatter("{x:g}")
    low, high = axis.get_ylim()
    steps = (0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100)
    axis.set_yticks([s for s in steps if low <= s <= high and (high < 4 * low or s not in (0.7, 0.8, 0.9, 1.2))])
    axis.minorticks_off()
    axis.set_xlabel("nonzeros of A", fontsize=_FONT)
    axis.tick_params(labelsize=_FONT)
    axis.grid(True, linewidth=0.3)


def save(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 200) -> list[pathlib.Path]:
    """Write a figure as PNG, SVG and PDF.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : path-like
        Its extension is replaced by ``.png``, ``.svg`` and ``.pdf``. Folders are made.
    dpi : int
        Resolution of the PNG.

    Returns
    -------
    list of pathlib.Path
        The files. Equal figures give equal files.
    """
    base = pathlib.Path(path)
    base.parent.mkdir(parents=True, exist_ok=True)
    png, svg, pdf = (base.with_suffix(suffix) for suffix in (".png", ".svg", ".pdf"))
    figure.savefig(png, dpi=dpi, metadata={"Software": None})
    with mpl.rc_context({"svg.hashsalt": "warploom"}):
        figure.savefig(svg, metadata={"Date": None})
    with mpl.rc_context({"pdf.fonttype": 42}):  # publishers want TrueType
        figure.savefig(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return [png, svg, pdf]

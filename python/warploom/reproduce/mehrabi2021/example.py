"""Mehrabi et al. (2021): items without measurements: formats, an example of two orders, and features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from warploom import features, permutations
from warploom.formats import CSR, DCSR
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.examples import HERE, array_rows, feature_table
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge

__all__ = ["FIG_1", "cache_lines_of_groups", "example_of_orders"]


# ----- M-F1 -----

FIG_1 = scipy.sparse.csr_array(np.array([[0, 1.0, 0, 3], [0, 0, 0, 0], [0, 0, 0, 0], [30, 0, 0, 0]]))
"""The 4 x 4 matrix of Fig. 1; a_01 is 1, a_03 is 3 and a_30 is 30."""


_FIG_1_ARRAYS = (
    Printed("CSR rowidx", "0 2 2 2 3", "Fig. 1"),
    Printed("CSR colidx", "1 3 0", "Fig. 1"),
    Printed("CSR value", "a01 a03 a30", "Fig. 1"),
    Printed("DCSR rowidx", "0 2 3", "Fig. 1"),
    Printed("DCSR rowptr", "0 3", "Fig. 1"),
    Printed("DCSR colidx", "1 3 0", "Fig. 1"),
    Printed("DCSR value", "a01 a03 a30", "Fig. 1"),
)


def _text(values: Any) -> str:
    return " ".join(str(value) for value in values)


@register(
    "M-F1",
    "CSR and DCSR arrays of a 4 x 4 matrix",
    "Fig. 1",
    "DCSR stores the offsets of the rows with entries only.",
    printed=_FIG_1_ARRAYS,
)
def formats_of_example(context: Context) -> Result:
    """Store the paper's matrix in both formats."""
    names = {1.0: "a01", 3.0: "a03", 30.0: "a30"}
    csr, dcsr = CSR.from_csr(FIG_1), DCSR.from_csr(FIG_1)
    ours = {
        "CSR rowidx": _text(csr.indptr),
        "CSR colidx": _text(csr.indices),
        "CSR value": _text(names[float(v)] for v in csr.data),
        "DCSR rowidx": _text(dcsr.indptr),
        "DCSR rowptr": _text(dcsr.row_ids),
        "DCSR colidx": _text(dcsr.indices),
        "DCSR value": _text(names[float(v)] for v in dcsr.data),
    }
    figure = drawing.figure(1.9)
    left, right = figure.subplots(1, 2, width_ratios=[2, 3])
    dense = FIG_1.toarray()
    texts = [[names.get(float(v), "0") for v in row] for row in dense]
    drawing.pattern(left, texts, lambda row, col: drawing.COLOURS["dcsr"] if dense[row, col] else None)
    drawing.arrays(right, {name: text.split() for name, text in ours.items()})
    rows = array_rows(ours, _FIG_1_ARRAYS)
    claim = Claim(
        "all arrays are those of the paper", bool(rows["equal"].all()), f"{rows['equal'].sum()} of {len(rows)}"
    )
    caption = "The matrix of the paper's Fig. 1 and its arrays in CSR and DCSR; one matrix, nothing measured."
    return Result([rows], figure, caption, judge(HERE, claim), ours)


# ----- M-F7 -----

_WARPS = 4


_LINE = 32
_LOADS = (
    (5, 4, 3, 2),
    (3, 4, 3, 4),
    (2, 3, 3, 2),
    (2, 2, 1, 2),
)
"""Cache lines that each row of a group of four needs; by warp 12, 13, 10 and 10, as in Fig. 7."""

_FIRSTS = (
    (0, 0, 3, 4),
    (0, 0, 2, 2),
    (0, 1, 3, 4),
    (0, 2, 3, 4),
)
"""The first of them, counted from the first of the group's six lines; 24 lines in all, as in Fig. 7."""

_LINES_OF_GROUP = 6


def example_of_orders() -> scipy.sparse.csr_array:
    """Return a matrix with the warp loads that Fig. 7 prints.

    The paper shows its matrix as a picture only. As there, the nonzeros are along the diagonal, and each row has full
    blocks of 32 columns; warp loads and distinct cache lines in the original order are those of the paper.
    """
    dense = np.zeros((len(_LOADS) * _WARPS, len(_LOADS) * _LINES_OF_GROUP), bool)
    for group, (loads, firsts) in enumerate(zip(_LOADS, _FIRSTS, strict=True)):
        for warp, (load, first) in enumerate(zip(loads, firsts, strict=True)):
            start = group * _LINES_OF_GROUP + first
            dense[group * _WARPS + warp, start : start + load] = True
    return scipy.sparse.csr_array(np.repeat(dense, _LINE, axis=1).astype(np.float64))


def cache_lines_of_groups(lines: NDArray[np.bool_]) -> list[int]:
    """Return the distinct cache lines that every group of four rows needs.

    Parameters
    ----------
    lines : ndarray of bool, shape (rows, cache lines)
        Which row needs which line.
    """
    return [int(lines[first : first + _WARPS].any(axis=0).sum()) for first in range(0, len(lines), _WARPS)]


@register(
    "M-F7",
    "Warp loads and cache lines before and after LPT",
    "Fig. 7",
    "LPT balances the loads of the warps, but rows that share cache lines are no longer processed together.",
    printed=(
        Printed("warp loads, original order", "12 13 10 10", "Sec. IV-A"),
        Printed("warp loads, LPT", "12 11 11 11", "Sec. IV-A"),
        Printed("distinct cache lines, original order", 24, "Sec. IV-A", ".0f"),
        Printed("distinct cache lines, LPT", 38, "Sec. IV-A", ".0f"),
    ),
)
def two_orders(context: Context) -> Result:
    """Compare loads and cache lines of the original order and LPT."""
    A = example_of_orders()
    perm = permutations.compute("lpt", A, warps=_WARPS, threads=_LINE)
    figure = drawing.figure(4.0)
    axes = figure.subplots(2, 1)
    ours: dict[str, float | str] = {}
    rows = []
    for axis, name, order in zip(axes, ("original order", "LPT"), (np.arange(A.shape[0]), perm), strict=True):
        lines = A.toarray()[order].reshape(A.shape[0], -1, _LINE).any(axis=2)
        loads = [int(lines[warp::_WARPS].sum()) for warp in range(_WARPS)]
        groups = cache_lines_of_groups(lines)
        vector = features.spmm(A[order], warps=_WARPS, threads=_LINE)
        rows.append((name, _text(loads), int(vector["warp_load_max"]), _text(groups), sum(groups)))
        ours |= {f"warp loads, {name}": _text(loads), f"distinct cache lines, {name}": sum(groups)}
        _draw_order(axis, lines, groups, f"{name}: warp loads {', '.join(map(str, loads))}; {sum(groups)} lines")
    frame = pd.DataFrame(
        rows, columns=["order", "warp loads", "maximum load", "distinct cache lines of the groups", "sum"]
    )
    before, after = rows
    claims = (
        Claim("LPT lowers the greatest warp load", after[2] < before[2], f"{before[2]} to {after[2]}"),
        Claim("LPT raises the number of distinct cache lines", after[4] > before[4], f"{before[4]} to {after[4]}"),
    )
    caption = (
        "An example with the paper's warp loads and cache lines in the original order (its own matrix is printed as a "
        "picture only): squares are blocks of 32 columns that a row needs, red lines separate groups of four rows that "
        "run together, numbers at the right are the distinct cache lines of a group. One matrix, nothing measured."
    )
    return Result([frame], figure, caption, judge("for an example with the paper's loads", *claims), ours)


def _draw_order(axis: Any, lines: NDArray[np.bool_], groups: Sequence[int], title: str) -> None:
    rows, count = lines.shape
    colours = [drawing.COLOURS[name] for name in ("csr", "lpt", "warp-aware", "hybrid-1")]
    image = np.ones((rows, count, 3))
    for row in range(rows):
        image[row, lines[row]] = [int(colours[row % _WARPS][i : i + 2], 16) / 255 for i in (1, 3, 5)]
    axis.imshow(image, aspect="auto", interpolation="nearest", extent=(0, count, rows, 0))
    for place in range(count + 1):
        axis.axvline(place, color="#DDDDDD", linewidth=0.3)
    for place in range(rows + 1):
        axis.axhline(
            place, color="#CC0000" if place % _WARPS == 0 else "#DDDDDD", linewidth=0.8 if place % 4 == 0 else 0.3
        )
    for number, group in enumerate(groups):
        axis.text(count + 0.2, number * _WARPS + 2, str(group), va="center")
    axis.set_title(title)
    axis.set(xlabel="cache line of B (32 columns of A)", ylabel="row (colour: warp)", yticks=[])
    axis.spines[:].set_visible(False)


# ----- M-T2 -----


@register(
    "M-T2",
    "The features of a sparse matrix",
    "Table II",
    "Twenty-four numbers describe a matrix, the balance of its load and its locality.",
    printed=(Printed("number of features", 24, "Table II", ".0f"),),
    position=10.5,
)
def features_of_examples(context: Context) -> Result:
    """Compute the features of three example matrices."""
    chosen = ("gr_30_30", "mycielskian10", "zipf_4096")
    frame = feature_table("spmm", chosen)
    untested = [f"whether {len(frame)} numbers suffice: they are listed for three matrices, and M-F13 tests them"]
    figure = drawing.table(frame, {name: ".5g" for name in chosen})
    caption = f"The features of {len(chosen)} matrices that come with warploom; nothing measured."
    return Result([frame], figure, caption, judge(HERE, untested=untested), {"number of features": float(len(frame))})

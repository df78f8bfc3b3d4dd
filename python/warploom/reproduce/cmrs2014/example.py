"""Koza et al. (2014): the 5 x 5 example in four formats."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from warploom.formats import CMRS, COO, CSR, ELL
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.examples import HERE, array_rows
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge

__all__ = ["EQ_2_1"]


EQ_2_1 = scipy.sparse.csr_array(
    np.array(
        [
            [1.0, 0, 0, 2, 0],
            [0, 3, 0, 0, 4],
            [0, 0, 5, 0, 6],
            [0, 0, 7, 8, 9],
            [0, 0, 0, 0, 10],
        ]
    )
)
"""The matrix of equation 2.1."""

_ARRAYS = (
    Printed("COO Val", "1 2 3 4 5 6 7 8 9 10", "Sec. 2.3"),
    Printed("COO ColInd", "0 3 1 4 2 4 2 3 4 4", "Sec. 2.3"),
    Printed("COO RowInd", "0 0 1 1 2 2 3 3 3 4", "Sec. 2.3"),
    Printed("CRS RowPtr", "0 2 4 6 9 10", "Sec. 2.3"),
    Printed("ELL Val", "1 2 0 | 3 4 0 | 5 6 0 | 7 8 9 | 10 0 0", "Sec. 2.3"),
    Printed("ELL ColInd", "0 3 -1 | 1 4 -1 | 2 4 -1 | 2 3 4 | 4 -1 -1", "Sec. 2.3"),
    Printed("CMRS StripPtr", "0 4 9 10", "Sec. 3, height 2"),
    Printed("CMRS RowInStrip", "0 0 1 1 0 0 1 1 1 0", "Sec. 3, height 2"),
    Printed("reordered CMRS Val", "1 3 2 4 5 7 8 6 9 10", "Sec. 4, height 2"),
    Printed("reordered CMRS ColInd", "0 1 3 4 2 2 3 4 4 4", "Sec. 4, height 2"),
    Printed("reordered CMRS RowInStrip", "0 1 0 1 0 1 1 0 1 0", "Sec. 4, height 2"),
    Printed("reordered CMRS StripPtr", "0 4 9 10", "Sec. 4, height 2"),
)


def _line(values: Any) -> str:
    return " ".join(f"{value:g}" for value in np.asarray(values).tolist())


def _lines(values: Any) -> str:
    return " | ".join(_line(row) for row in values)


@register(
    "C-ex",
    "COO, CRS, ELL and CMRS arrays of a 5 x 5 matrix",
    "Sec. 2.3, 3 and 4",
    "CMRS extends CRS by strips of rows; with the entries of a strip by column, neighbours in x are read together.",
    printed=_ARRAYS,
    position=1,
)
def formats_of_example(context: Context) -> Result:
    """Store the paper's matrix in every format."""
    coo, csr, ell = COO.from_csr(EQ_2_1), CSR.from_csr(EQ_2_1), ELL.from_csr(EQ_2_1)
    plain = CMRS.from_csr(EQ_2_1, height=2)
    reordered = CMRS.from_csr(EQ_2_1, height=2, sort_columns=True)
    ours = {
        "COO Val": _line(coo.data),
        "COO ColInd": _line(coo.indices),
        "COO RowInd": _line(coo.row_indices),
        "CRS RowPtr": _line(csr.indptr),
        "ELL Val": _lines(ell.data),
        "ELL ColInd": _lines(ell.indices),
        "CMRS StripPtr": _line(plain.strip_ptr),
        "CMRS RowInStrip": _line(plain.row_in_strip),
        "reordered CMRS Val": _line(reordered.data),
        "reordered CMRS ColInd": _line(reordered.indices),
        "reordered CMRS RowInStrip": _line(reordered.row_in_strip),
        "reordered CMRS StripPtr": _line(reordered.strip_ptr),
    }
    dense = EQ_2_1.toarray()
    strips = [drawing.COLOURS[name] for name in ("dcsr", "plain", "warp-aware")]
    figure = drawing.figure(2.9, width=drawing.PAGE)
    left, right = figure.subplots(1, 2, width_ratios=[1, 3.2])
    drawing.pattern(
        left, [[f"{v:g}" for v in row] for row in dense], lambda row, col: strips[row // 2] if dense[row, col] else None
    )
    shown = {name: text.split() for name, text in ours.items() if "|" not in text}
    drawing.arrays(right, shown)
    rows = array_rows(ours, _ARRAYS)
    claim = Claim(
        "all arrays are those of the paper", bool(rows["equal"].all()), f"{rows['equal'].sum()} of {len(rows)}"
    )
    caption = (
        "The matrix of the paper's eq. 2.1, coloured by strips of two rows, and its arrays; those of ELL are in the "
        "table. One matrix, nothing measured."
    )
    return Result([rows], figure, caption, judge(HERE, claim), ours)

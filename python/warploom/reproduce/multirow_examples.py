"""Koza et al. (2014): the 5 x 5 example in four formats, and the performance model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from warploom.formats import CMRS, COO, CSR, ELL
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.reproduce.row_permutation_examples import HERE, array_rows

__all__ = ["acceleration", "transferred"]


# ----- C-ex -----

_EQ_2_1 = scipy.sparse.csr_array(
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
)
def formats_of_example(context: Context) -> Result:
    """Store the paper's matrix in every format."""
    coo, csr, ell = COO.from_csr(_EQ_2_1), CSR.from_csr(_EQ_2_1), ELL.from_csr(_EQ_2_1)
    plain = CMRS.from_csr(_EQ_2_1, height=2)
    reordered = CMRS.from_csr(_EQ_2_1, height=2, sort_columns=True)
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
    dense = _EQ_2_1.toarray()
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


# ----- C-eq -----


def transferred(height: Any, mean_length: Any, *, value_bytes: int = 4, segment: int = 128) -> NDArray[np.float64]:
    """Return bytes transferred over bytes asked for: eq. 5.1.

    Parameters
    ----------
    height : array_like
        Rows of a strip.
    mean_length : array_like
        Nonzeros of a row, on average.
    value_bytes : int
        b, bytes of a word.
    segment : int
        lambda, bytes of a memory transaction.
    """
    words = np.asarray(height, float) * np.asarray(mean_length, float) * value_bytes
    ratio: NDArray[np.float64] = 1 + (segment - value_bytes) / words
    return ratio


def acceleration(
    height: Any, mean_length: Any, *, value_bytes: int = 4, segment: int = 128, exact: bool = False
) -> NDArray[np.float64]:
    """Return the speedup of CMRS over the vector kernel: eq. 5.2.

    Parameters
    ----------
    height, mean_length, value_bytes, segment
        As for `transferred`.
    exact : bool
        The ratio of eq. 5.1 itself instead of the approximation that the paper draws.
    """
    if exact:
        sizes = {"value_bytes": value_bytes, "segment": segment}
        return transferred(1, mean_length, **sizes) / transferred(height, mean_length, **sizes)
    h, mu = np.asarray(height, float), np.asarray(mean_length, float)
    speedup: NDArray[np.float64] = 1 + (h - 1) / (1 + h * mu * value_bytes / segment)
    return speedup


_HEIGHTS = (2, 4, 8, 16)


@register(
    "C-eq",
    "Performance model",
    "Eq. 5.1 and 5.2",
    "Strips of h rows make the kernel up to h times as fast for very short rows, and no faster for long ones.",
    printed=[
        Printed("f(1, 2), single precision", 16.5, "Sec. 5"),
        Printed("f(16, 2), single precision (about)", 2.0, "Sec. 5"),
    ],
)
def model(context: Context) -> Result:
    """Draw both equations."""
    mu = np.geomspace(1, 500, 60)
    figure = drawing.figure(2.2)
    waste, gain = figure.subplots(1, 2)
    table: dict[str, Sequence[float] | NDArray[np.float64]] = {"mean row length": mu}
    shades = [drawing.COLOURS[name] for name in ("4", "8", "16", "32")]
    waste.plot(mu, transferred(1, mu), color="black", label="h = 1")
    for height, shade in zip(_HEIGHTS, shades, strict=True):
        table[f"f({height}, mu)"] = transferred(height, mu)
        table[f"a({height}, mu)"] = acceleration(height, mu)
        waste.plot(mu, transferred(height, mu), color=shade, label=f"h = {height}")
        gain.plot(mu, acceleration(height, mu), color=shade, label=f"h = {height}")
    for axis, label in ((waste, "f: transferred / asked for"), (gain, "a: speedup over vector")):
        drawing.log_axis(axis, "x")
        drawing.log_ratio_axis(axis)
        axis.set(xlabel="mean row length", ylabel=label)
        axis.legend()
        drawing.grid(axis)
    ours: dict[str, float | str] = {
        "f(1, 2), single precision": float(transferred(1, 2)),
        "f(16, 2), single precision (about)": float(transferred(16, 2)),
    }
    exact = acceleration(np.array(_HEIGHTS), 5.0, exact=True)
    apart = float(np.abs(acceleration(np.array(_HEIGHTS), 5.0) / exact - 1).max())
    claims = (
        Claim("f(1, 2) is 16.5", float(transferred(1, 2)) == 16.5, f"{float(transferred(1, 2)):.2f}"),
        Claim(
            "16 rows bring it to about 2", abs(float(transferred(16, 2)) - 2) < 0.1, f"{float(transferred(16, 2)):.2f}"
        ),
        Claim(
            "the approximation of eq. 5.2 is near the ratio of eq. 5.1",
            apart < 0.05,
            f"within {apart:.1%} for rows of 5",
        ),
        Claim(
            "there is little to gain for rows of 100 and more",
            float(acceleration(4, 100)) < 1.5,
            f"a(4, 100) = {float(acceleration(4, 100)):.2f}",
        ),
    )
    caption = "Eq. 5.1 and 5.2 for words of 4 bytes and transactions of 128 bytes; no matrices, nothing measured."
    return Result([pd.DataFrame(table)], figure, caption, judge("for the equations as printed", *claims), ours)

"""Gao et al. (2024): items without measurements: the partition into blocks, and the features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import scipy.sparse

from warploom.partition import partition_rows
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.examples import HERE, feature_table
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.training.threads_per_row import LONG_ROW

__all__ = ["long_rows_between_short_ones"]


def long_rows_between_short_ones() -> scipy.sparse.csr_array:
    """Return a matrix like shermanACa of the paper's Fig. 4: short rows, some long ones, and short rows again.

    3,432 rows as there; as the text says of it, about 6 nonzeros in a short row and 2,500 in a long one.
    """
    rows = 3432
    lengths = np.full(rows, 6)
    lengths[::7] = 5
    lengths[1700:1712] = 2500
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths)
    columns = (np.repeat(np.arange(rows), lengths) + within) % rows
    A = scipy.sparse.csr_array((np.ones(len(columns)), columns, indptr), shape=(rows, rows))
    A.sort_indices()
    return A


@register(
    "G-Alg1",
    "Partition into blocks of long and of short rows",
    "Algorithm 1, Fig. 4",
    "shermanACa has three blocks, of which the second has the long rows.",
    printed=[
        Printed("blocks", 3, "Sec. 4.2, shermanACa", ".0f"),
        Printed("isLong", "010", "Sec. 4.2, shermanACa"),
    ],
    position=8.3,
)
def partition(context: Context) -> Result:
    """Partition a matrix that is built like the paper's."""
    A = long_rows_between_short_ones()
    blocks = partition_rows(A, long_row=LONG_ROW)
    lengths = np.diff(A.indptr)
    frame = pd.DataFrame(
        {
            "block": range(len(blocks)),
            "first row": blocks.row_block[:-1],
            "rows": np.diff(blocks.row_block),
            "nonzeros": blocks.nnz_block,
            "long": blocks.is_long,
            "thread blocks of 1,000": blocks.thread_blocks(1000),
        }
    )
    figure = drawing.figure(2.1)
    axis = figure.subplots()
    axis.step(np.arange(len(lengths)), lengths, where="post", color=drawing.COLOURS["vector"])
    around = int(blocks.row_block[1]) if len(blocks) > 1 else 0
    shown = (max(0, around - 30), min(len(lengths), around + 42))
    axis.axhline(LONG_ROW, color="black", linewidth=0.7, linestyle="--")
    axis.text(shown[0] + 1, LONG_ROW * 1.15, "T_LONG = 512")
    for number, (first, last) in enumerate(zip(blocks.row_block[:-1], blocks.row_block[1:], strict=True)):
        kind = "long" if blocks.is_long[number] else "medium"
        axis.axvspan(
            first, last, color=drawing.COLOURS[kind], alpha=0.35 if blocks.is_long[number] else 0.15, linewidth=0
        )
        axis.text((max(first, shown[0]) + min(last, shown[1])) / 2, 60, f"block {number}", ha="center", va="center")
    axis.set_yscale("log")
    axis.set(xlabel="row", ylabel="nonzeros of the row", xlim=shown, ylim=(3, 5000))
    bits = "".join(str(int(long)) for long in reversed(blocks.is_long))
    alternate = bool((blocks.is_long[1:] != blocks.is_long[:-1]).all())
    claims = (
        Claim("short, long and short rows make three blocks", len(blocks) == 3, f"{len(blocks)} blocks"),
        Claim("the second is the long one", bits == "010" and alternate, f"isLong = {bits}"),
    )
    caption = (
        "Row lengths and blocks of a matrix that is built like shermanACa as the paper describes it: 12 rows of 2,500 "
        "nonzeros among rows of 5 or 6; a part of its rows is shown. One matrix, nothing measured."
    )
    ours: dict[str, float | str] = {"blocks": float(len(blocks)), "isLong": bits}
    return Result([frame], figure, caption, judge(HERE, *claims), ours)


@register(
    "G-T2",
    "The features of a matrix",
    "Table 2",
    "Eleven features that are easy to compute describe a matrix.",
    printed=[Printed("number of features", 11, "Table 2", ".0f")],
    position=3.3,
)
def features_of_examples(context: Context) -> Result:
    """Compute the features of three example matrices."""
    chosen = ("gr_30_30", "mycielskian10", "arrow_4096")
    frame = feature_table("spmv", chosen)
    untested = [f"whether {len(frame)} numbers suffice: they are listed for three matrices, and G-T4 tests them"]
    figure = drawing.table(frame, {name: ".5g" for name in chosen})
    caption = f"The features of {len(chosen)} matrices that come with warploom; nothing measured."
    return Result([frame], figure, caption, judge(HERE, untested=untested), {"number of features": float(len(frame))})

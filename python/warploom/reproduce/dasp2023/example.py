"""Lu and Liu (2023), DASP: the worked example of the format."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from warploom.formats import DASP
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.examples import HERE
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge

__all__ = ["CATEGORIES", "FIG_5", "matrix_of_row_lengths", "row_categories"]

CATEGORIES = {
    "long": "long",
    "medium": "medium",
    "short_1_3": "short 1&3",
    "short_2_2": "short 2&2",
    "short_4": "short 4",
    "short_1": "short 1",
    "empty": "empty",
}
"""What pictures and tables call the categories of `warploom.formats.DASP.categories`."""

FIG_5 = (2, 1, 9, 3, 0, 6, 4, 1, 16, 5, 3, 2, 8, 1, 14, 3, 2, 7, 3, 1)
"""Row lengths of the paper's matrix."""

_BLOCK_ROWS, _BLOCK_COLS, _LONGEST_MEDIUM = 2, 4, 9


def matrix_of_row_lengths(lengths: Sequence[int], num_cols: int) -> scipy.sparse.csr_array:
    """Return a matrix with these row lengths, its nonzeros distributed over the columns."""
    columns = [np.sort((7 * row + 3 * np.arange(n)) % num_cols) for row, n in enumerate(lengths)]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return scipy.sparse.csr_array(
        (np.ones(indptr[-1]), np.concatenate(columns), indptr), shape=(len(lengths), num_cols)
    )


def row_categories(lengths: NDArray[np.int64], max_length: int) -> NDArray[np.str_]:
    """Return long, medium, short or empty for rows of these lengths (Sec. 3.2)."""
    return np.select([lengths > max_length, lengths > 4, lengths > 0], ["long", "medium", "short"], "empty")


@register(
    "D-F5",
    "The format for a 20 x 20 matrix with blocks of 2 x 4",
    "Fig. 5",
    "Rows are stored by length in three categories; two long rows take two groups of 16.",
    printed=[
        Printed("long rows", 2, "Fig. 5, Sec. 3.2", ".0f"),
        Printed("groups of long rows", 2, "Sec. 3.2", ".0f"),
        Printed("kinds of short rows", "1&3, 2&2, 4, 1", "Sec. 3.2"),
    ],
)
def example(context: Context) -> Result:
    """Store a matrix that has what the text says of the paper's."""
    A = matrix_of_row_lengths(FIG_5, 20)
    stored = DASP.from_csr(A, mma_m=_BLOCK_ROWS, mma_k=_BLOCK_COLS, max_length=_LONGEST_MEDIUM)
    sizes = stored.categories
    frame = pd.DataFrame(
        [(CATEGORIES[name], *size) for name, size in sizes.items()],
        columns=["category", "rows", "nonzeros", "padding"],
    )
    figure = drawing.figure(2.5)
    matrix_axis, rearranged_axis = figure.subplots(1, 2)
    kinds = row_categories(np.array(FIG_5), _LONGEST_MEDIUM)
    fills = {"long": "long", "medium": "medium", "short": "short 1&3"}
    order = [row for row in stored.row_ids.tolist() if row >= 0]
    for axis, rows, title in (
        (matrix_axis, list(range(20)), "in the caller's order"),
        (rearranged_axis, order, "in the order of the format"),
    ):
        dense = A.toarray()[rows]
        texts = [["" for _ in line] for line in dense]

        def fill(row: int, col: int, dense: NDArray[np.float64] = dense, rows: list[int] = rows) -> str | None:
            return drawing.COLOURS[fills[kinds[rows[row]]]] if dense[row, col] else None

        drawing.pattern(axis, texts, fill)
        axis.set_title(title)
    for kind, name in fills.items():
        matrix_axis.plot([], [], "s", color=drawing.COLOURS[name], label=f"{kind} rows: {(kinds == kind).sum()}")
    matrix_axis.legend(loc="upper left", bbox_to_anchor=(-0.08, -0.01), labelspacing=0.3)
    slots = "\n".join(_slots(stored, kind) for kind in fills)
    rearranged_axis.text(0, -0.04, slots, transform=rearranged_axis.transAxes, va="top", linespacing=1.35)
    groups = int(stored.group_ptr[-1])
    stored_kinds = ", ".join(
        label.removeprefix("short ")
        for name, label in CATEGORIES.items()
        if label.startswith("short") and name in sizes
    )
    same = (stored.to_csr() != A).nnz == 0
    claims = (
        Claim("two long rows take two groups", sizes["long"].rows == 2 and groups == 2, f"{groups} groups"),
        Claim(
            "each row is in one category",
            sum(size.rows for size in sizes.values()) == 20,
            ", ".join(f"{(kinds == kind).sum()} {kind}" for kind in ("long", "medium", "short", "empty")),
        ),
        Claim(
            "nothing is lost", same, f"{stored.nnz} nonzeros, {sum(s.padding for s in sizes.values())} places padded"
        ),
    )
    caption = (
        "A 20 x 20 matrix with the row lengths that the text gives for the paper's (printed as a picture only), before "
        "and after rows are grouped; blocks of 2 x 4, medium rows have up to 9 nonzeros. One matrix, nothing measured."
    )
    ours: dict[str, float | str] = {
        "long rows": float(sizes["long"].rows),
        "groups of long rows": float(groups),
        "kinds of short rows": stored_kinds,
    }
    return Result([frame], figure, caption, judge(HERE, *claims), ours)


def _slots(stored: DASP, kind: str) -> str:
    starts = [*stored.section_starts.values(), len(stored.indices)]
    long, regular, combined, single, irregular, end = starts
    return {
        "long": f"long: {regular - long} slots",
        "medium": f"regular: {combined - regular} slots; irregular: {end - irregular}",
        "short": f"combined: {single - combined} slots; single: {irregular - single}",
    }[kind]

"""Lu and Liu (2023), DASP: the worked example of the format, and the 21 representative matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from warploom import corpus
from warploom.bench.medians import geometric_mean
from warploom.corpus import Entry, suitesparse
from warploom.errors import ParameterError
from warploom.formats import DASP
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.reproduce.row_permutation_examples import HERE
from warploom.reproduce.tensor_cores import DOUBLE, HALF

__all__ = ["REPRESENTATIVE", "available", "matrix_of_row_lengths", "row_categories"]

REPRESENTATIVE: Mapping[str, tuple[str, str]] = {
    "Boeing/pwtk": ("217K", "11.5M"),
    "Freescale/FullChip": ("2.9M", "26.6M"),
    "Andrianov/mip1": ("66K", "10.4M"),
    "Williams/mc2depi": ("525K", "2M"),
    "Williams/webbase-1M": ("1M", "3.1M"),
    "Freescale/circuit5M": ("5.5M", "59M"),
    "PARSEC/Si41Ge41H72": ("185K", "15M"),
    "PARSEC/Ga41As41H72": ("268K", "18.4M"),
    "LAW/in-2004": ("1.4M", "16.9M"),
    "LAW/eu-2005": ("862K", "19M"),
    "DNVS/shipsec1": ("140K", "7.8M"),
    "Williams/mac_econ_fwd500": ("206K", "1.2M"),
    "Hamm/scircuit": ("170K", "959K"),
    "Williams/pdb1HYS": ("36K", "4.3M"),
    "Williams/consph": ("83K", "6M"),
    "Williams/cant": ("62K", "4M"),
    "Williams/cop20k_A": ("121K", "2.6M"),
    "IBM_EDA/dc2": ("116K", "766K"),
    "Bova/rma10": ("46.8K", "2.3M"),
    "QCD/conf5_4-8x8-10": ("49K", "1.9M"),
    "Sandia/ASIC_680k": ("682K", "3.8M"),
}
"""The matrices of Table 2 by their full names, with rows and nonzeros as printed."""

_CATEGORIES = {
    "long": "long",
    "medium": "medium",
    "short_1_3": "short 1&3",
    "short_2_2": "short 2&2",
    "short_4": "short 4",
    "short_1": "short 1",
    "empty": "empty",
}


# ----- D-F5 -----

_FIG_5 = (2, 1, 9, 3, 0, 6, 4, 1, 16, 5, 3, 2, 8, 1, 14, 3, 2, 7, 3, 1)
_BLOCK_ROWS, _BLOCK_COLS, _LONGEST_MEDIUM = 2, 4, 9


def matrix_of_row_lengths(lengths: Sequence[int], num_cols: int) -> scipy.sparse.csr_array:
    """Return a matrix with these row lengths, its nonzeros spread over the columns."""
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
    A = matrix_of_row_lengths(_FIG_5, 20)
    stored = DASP.from_csr(A, mma_m=_BLOCK_ROWS, mma_k=_BLOCK_COLS, max_length=_LONGEST_MEDIUM)
    sizes = stored.categories
    frame = pd.DataFrame(
        [(_CATEGORIES[name], *size) for name, size in sizes.items()],
        columns=["category", "rows", "nonzeros", "padding"],
    )
    figure = drawing.figure(2.5)
    matrix_axis, rearranged_axis = figure.subplots(1, 2)
    kinds = row_categories(np.array(_FIG_5), _LONGEST_MEDIUM)
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
        for name, label in _CATEGORIES.items()
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
    long, regular, pieced, single, irregular, end = starts
    return {
        "long": f"long: {regular - long} slots",
        "medium": f"regular: {pieced - regular} slots; irregular: {end - irregular}",
        "short": f"pieced: {single - pieced} slots; single: {irregular - single}",
    }[kind]


# ----- D-T2, D-F11 -----


def available() -> pd.DataFrame:
    """Say of the representative matrices how they can be had here.

    Returns
    -------
    pandas.DataFrame
        ``matrix``, ``rows``, ``nnz`` and ``obtained``: construction, folder, or download for those that have to be
        fetched from the collection.
    """
    index = suitesparse.index()
    rows = []
    for name in REPRESENTATIVE:
        source = corpus.find(name, prefer_constructions=True).source
        rows.append((name, index[name].rows, index[name].nnz, "download" if source == "suitesparse" else source))
    return pd.DataFrame(rows, columns=["matrix", "rows", "nnz", "obtained"])


@register(
    "D-T2",
    "The 21 representative matrices",
    "Table 2",
    "Twenty-one matrices of many kinds are looked at one by one.",
    printed=[Printed("matrices", 21, "Table 2", ".0f")],
)
def representative(context: Context) -> Result:
    """List the matrices, and whether they were measured or can be had."""
    frame = available()
    measured = context.facts.index if context.measurements is not None else ()
    frame["measured"] = ["no" if context.measured_as(name, measured) is None else "yes" for name in frame["matrix"]]
    frame["paper's size"] = [REPRESENTATIVE[name][0] for name in frame["matrix"]]
    frame["paper's nnz"] = [REPRESENTATIVE[name][1] for name in frame["matrix"]]
    at_hand = frame["obtained"] != "download"
    claims = (
        Claim("all 21 are in the collection's index", len(frame) == 21, f"{len(frame)} found"),
        Claim(
            "they are at hand or measured",
            bool((at_hand | (frame["measured"] == "yes")).all()),
            f"{int((frame['measured'] == 'yes').sum())} measured, {int(at_hand.sum())} constructed or in a folder, "
            f"{int((~at_hand).sum())} to be downloaded from the SuiteSparse collection",
        ),
    )
    figure = drawing.table(frame)
    caption = (
        "Rows and nonzeros from the collection's index and as the paper prints them; where each matrix can be had. 21 "
        "matrices, nothing measured."
    )
    return Result([frame], figure, caption, judge("here", *claims), {"matrices": float(len(frame))})


_FEW = 6
"""So many names stand side by side."""


@register(
    "D-F11",
    "The representative matrices in float64 and float16",
    "Fig. 11",
    "DASP is the fastest on most of the 21 matrices in both precisions.",
    sweeps=[DOUBLE, HALF],
)
def on_representative(context: Context) -> Result:
    """Draw the throughput on those of the 21 that were measured."""
    found = {}
    for sweep, dtype in ((DOUBLE, "float64"), (HALF, "float16")):
        times = context.times(sweep, ("DASP", "cuSPARSE"))
        measured = {name: context.measured_as(name, times.index) for name in REPRESENTATIVE}
        found[dtype] = times.reindex(filter(None, measured.values())).set_axis(
            [name for name, own in measured.items() if own is not None]
        )
    names = [name for name in REPRESENTATIVE if all(name in times.index for times in found.values())]
    if not names:
        listed = " ".join(f"--matrices {name}" for name in REPRESENTATIVE)
        raise context.missing(
            f"times of the 21 representative matrices ({', '.join(REPRESENTATIVE)})",
            f"warploom bench run --output sweep {listed} --setting {DOUBLE.setting} --setting {HALF.setting}",
        )
    constructed = [name for name in names if name not in context.facts.index]
    figure = drawing.figure(4.2 if len(names) > _FEW else 3.2, width=drawing.PAGE)
    own_names = pd.Index([context.measured_as(name, context.facts.index) for name in names])
    nnz = context.sizes(own_names)["nnz"].set_axis(names)
    tables, claims = [], []
    for axis, (dtype, times) in zip(figure.subplots(2, 1), found.items(), strict=True):
        rates = times.loc[names].rdiv(2.0 * nnz, axis=0) / 1e3
        width = 0.8 / len(rates.columns)
        for place, name in enumerate(rates):
            positions = np.arange(len(names)) + (place + 0.5) * width - 0.4
            axis.bar(positions, rates[name].fillna(0), width, color=drawing.colour(name), label=name)
        turned: dict[str, Any] = {"rotation": 40, "ha": "right"} if len(names) > _FEW else {}
        axis.set_xticks(range(len(names)), [name.split("/")[1] for name in names], **turned)
        axis.set_ylabel("GFLOP/s")
        axis.set_title(dtype, loc="left")
        axis.legend(ncols=5, loc="lower right", bbox_to_anchor=(1, 1))
        fastest = int((rates["DASP"] >= rates.max(axis=1)).sum())
        gain = geometric_mean(rates["DASP"] / rates["cuSPARSE"])
        claims.append(
            Claim(
                f"DASP is the fastest on most of them in {dtype}",
                2 * fastest > len(names),
                f"on {fastest} of the {len(names)} that were measured, {gain:.2f} times cuSPARSE",
            )
        )
        tables.append(rates.add_suffix(" GFLOP/s").reset_index(names="matrix").assign(dtype=dtype))
    claims.append(Claim("most of the 21 matrices were measured", 2 * len(names) > 21, f"{len(names)}"))
    absent = [name for name in REPRESENTATIVE if name not in names]
    missing = f" Not measured: {', '.join(absent)}." if absent else ""
    made = f" By their constructions, with other values: {', '.join(constructed)}." if constructed else ""
    text = f"Throughput on {len(names)} of the 21 representative matrices.{made}{missing}"
    caption = context.caption(text, DOUBLE, len(names)).replace("spmv/float64", "spmv/float64 and spmv/float16")
    return Result(tables, figure, caption, judge(context.where(), *claims))


# ----- D-F12 -----

_MOST_NNZ = 100_000
_COUNT = 21


def _to_load(context: Context) -> tuple[list[Entry], str]:
    """Return the representative matrices at hand, others in place of those that are not, and a remark on them."""
    if context.entries is not None:
        if not context.entries:
            raise ParameterError("there are no matrices to load", argument="entries")
        return list(context.entries), ""
    at_hand = _at_hand()
    missing = _COUNT - len(at_hand)
    if not missing:
        return at_hand, ""
    largest: dict[str, Entry] = {}
    for entry in corpus.standard("spmv"):
        if entry.source == "construction" and entry.rows and 0 < (entry.nnz or 0) <= _MOST_NNZ:
            best = largest.get(entry.family)
            if best is None or (entry.nnz or 0) > (best.nnz or 0):
                largest[entry.family] = entry
    by_length = sorted(largest.values(), key=lambda entry: ((entry.nnz or 0) / (entry.rows or 1), entry.name))
    places = np.unique(np.linspace(0, len(by_length) - 1, min(missing, len(by_length))).round().astype(int))
    others = [by_length[place] for place in places]
    return at_hand + others, (
        f" {len(at_hand)} of the paper's 21 matrices are at hand; the other {len(others)} are constructions of "
        f"different families with at most {_MOST_NNZ:,} nonzeros, from the shortest to the longest rows."
    )


def _at_hand() -> list[Entry]:
    found = (corpus.find(name, prefer_constructions=True) for name in REPRESENTATIVE)
    return [entry for entry in found if entry.source != "suitesparse"]


@register(
    "D-F12",
    "Shares of rows and nonzeros in each category",
    "Fig. 12",
    "Matrices differ much in their categories, and few long rows can hold many of the nonzeros.",
)
def categories(context: Context) -> Result:
    """Convert matrices and count."""
    entries, instead = _to_load(context)
    rows = []
    for entry in entries:
        sizes = DASP.from_csr(entry.load()).categories
        total_rows = max(1, sum(size.rows for size in sizes.values()))
        total_nnz = max(1, sum(size.nnz for size in sizes.values()))
        for name, size in sizes.items():
            rows.append((entry.name, _CATEGORIES[name], size.rows / total_rows, size.nnz / total_nnz))
    frame = pd.DataFrame(rows, columns=["matrix", "category", "share of rows", "share of nonzeros"])
    figure = drawing.figure(0.9 + 0.15 * len(entries), width=drawing.PAGE)
    axes = figure.subplots(1, 2, sharey=True)
    names = [entry.name for entry in entries]
    for axis, what in zip(axes, ("share of rows", "share of nonzeros"), strict=True):
        shares = frame.pivot(index="matrix", columns="category", values=what).loc[names]
        left = np.zeros(len(names))
        for name in _CATEGORIES.values():
            axis.barh(range(len(names)), shares[name], left=left, color=drawing.COLOURS[name], label=name)
            left += shares[name].to_numpy()
        axis.set(xlabel=what, xlim=(0, 1), xticks=[0, 0.25, 0.5, 0.75, 1])
        drawing.percent(axis, "x")
    axes[0].set_yticks(range(len(names)), [name if len(name) < 34 else f"{name[:33]}…" for name in names])
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=7)
    by_matrix = frame.pivot(index="matrix", columns="category", values="share of nonzeros")
    leading = by_matrix.idxmax(axis=1).str.split().str[0].value_counts()
    long = frame[(frame["category"] == "long") & (frame["share of rows"] > 0)]
    gain = (long["share of nonzeros"] - long["share of rows"]).max() if len(long) else 0.0
    claims = (
        Claim(
            "different categories lead on different matrices",
            len(leading) > 1,
            ", ".join(f"{name} rows on {count}" for name, count in leading.items()),
        ),
        Claim(
            "few long rows hold many of the nonzeros of some matrix",
            bool(gain > 0.2),
            f"at most {gain:.0%} of the nonzeros more than of the rows",
        ),
    )
    caption = (
        f"Shares of rows and of nonzeros in each category of DASP.{instead} {len(entries)} matrices, nothing measured."
    )
    return Result([frame], figure, caption, judge("for these matrices", *claims))

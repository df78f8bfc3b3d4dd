"""Lu and Liu (2023), DASP: how rows and nonzeros of matrices fall into the categories of the format."""

from __future__ import annotations

import numpy as np
import pandas as pd

from warploom import corpus
from warploom.corpus import Entry
from warploom.errors import ParameterError
from warploom.formats import DASP
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.dasp2023.example import CATEGORIES
from warploom.reproduce.dasp2023.representative import REPRESENTATIVE
from warploom.reproduce.registry import register
from warploom.reproduce.result import Claim, Result, judge

__all__: list[str] = []

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
            rows.append((entry.name, CATEGORIES[name], size.rows / total_rows, size.nnz / total_nnz))
    frame = pd.DataFrame(rows, columns=["matrix", "category", "share of rows", "share of nonzeros"])
    figure = drawing.figure(0.9 + 0.15 * len(entries), width=drawing.PAGE)
    axes = figure.subplots(1, 2, sharey=True)
    names = [entry.name for entry in entries]
    for axis, what in zip(axes, ("share of rows", "share of nonzeros"), strict=True):
        shares = frame.pivot(index="matrix", columns="category", values=what).loc[names]
        left = np.zeros(len(names))
        for name in CATEGORIES.values():
            axis.barh(range(len(names)), shares[name], left=left, color=drawing.COLOURS[name], label=name)
            left += shares[name].to_numpy()
        axis.set(xlabel=what, xlim=(0, 1), xticks=[0, 0.25, 0.5, 0.75, 1])
        drawing.percent(axis, "x")
    axes[0].set_yticks(range(len(names)), drawing.short_names(names))
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
        "Shares of rows and of nonzeros in each category of DASP: long rows, medium ones, and short ones of one and "
        "three nonzeros together (1&3), of two and two (2&2), of four, and of one that found no partner. "
        f"{drawing.NAMES}{instead} {context.counted(names)}; nothing measured."
    )
    return Result([frame], figure, caption, judge("for these matrices", *claims))

"""Gao et al. (2024): blocks of long and short rows, from measurements on irregular matrices.

A matrix is irregular here if the partition has long and short rows: its longest row has at least 512 nonzeros, its
shortest has fewer. The measured blockwise kernel gives all blocks of short rows the same number of threads per row, or
each block the formula's number; the best of these is a bound for what a choice for every block can reach.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from warploom.bench.medians import geometric_mean
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.csr_vector import VECTOR
from warploom.reproduce.gao2024.times import PEERS, peers, speedup_table, win_counts
from warploom.reproduce.gao2024.trained import predicted_blockwise_speedups
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.reproduce.sweep import Sweep
from warploom.training.threads_per_row import LONG_ROW, THREADS

__all__: list[str] = []

_BLOCKWISE = {
    "blockwise TpR_mean": "spmv/none/csr/blockwise",
    **{f"blockwise {t}": f"spmv/none/csr/blockwise[threads_per_row={t}]" for t in THREADS},
}
_SWEEP = Sweep("spmv/float64", "warm", {**VECTOR, **PEERS, **_BLOCKWISE}, transposes=True)


def _irregular(context: Context) -> pd.DataFrame:
    """Return the times of everything compared here on irregular matrices."""
    times = context.times(_SWEEP)
    sizes = context.sizes(times.index)
    irregular = (sizes["spmv_nnz_per_row_max"] >= LONG_ROW) & (sizes["spmv_nnz_per_row_min"] < LONG_ROW)
    times, sizes = times[irregular.to_numpy()], sizes[irregular.to_numpy()]
    if times.empty:
        raise context.missing(
            f"irregular matrices (rows of {LONG_ROW} nonzeros and more beside shorter ones) with these times",
            _SWEEP.command(),
        )
    compared = peers(times, sizes).rename(
        columns={"optimal": "global optimal", "TpR_mean": "global TpR_mean", "TpR_SqMean": "global TpR_SqMean"}
    )
    return compared.assign(
        **{"blockwise TpR_mean": times["blockwise TpR_mean"], "blockwise optimal": times[list(_BLOCKWISE)].min(axis=1)}
    )


_SHORT = {
    "global TpR_mean": ("#56B4E9", "o"),
    "global optimal": ("#0072B2", "s"),
    "blockwise TpR_mean": ("#E69F00", "^"),
    "blockwise optimal": ("#D55E00", "D"),
}


@register(
    "G-F9",
    "Global against blockwise threads per row, per matrix",
    "Fig. 9",
    "Partitioning irregular matrices gives a significant gain over any global number of threads per row.",
    sweeps=[_SWEEP],
)
def per_matrix(context: Context) -> Result:
    """Draw the speedups of global and blockwise choices."""
    times = _irregular(context)
    speedups = times.rdiv(times["TpR 16"], axis=0)
    order = speedups["blockwise optimal"].sort_values().index
    figure = drawing.figure(2.6)
    axis = figure.subplots()
    for name, (colour, marker) in _SHORT.items():
        axis.plot(
            range(len(order)), speedups.loc[order, name], marker, color=colour, label=name, markersize=2.6, alpha=0.8
        )
    drawing.log_ratio_axis(axis)
    axis.set(xlabel="irregular matrices, by the last of these", ylabel="speedup over 16 threads per row")
    axis.legend(loc="upper left")
    drawing.grid(axis, "y")
    ratio = times["global optimal"] / times["blockwise optimal"]
    claims = (
        Claim(
            "blockwise SpMV beats the best global number of threads on most irregular matrices",
            bool((ratio > 1).mean() > 0.5),
            f"{(ratio > 1).mean():.0%}, geometric mean {geometric_mean(ratio):.2f}x",
        ),
    )
    frame = speedups.loc[order].reset_index(names="matrix")
    text = "Speedups over CSR-vector with 16 threads per row on irregular matrices."
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, _SWEEP, times.index), verdict)


@register(
    "G-T8",
    "Mean speedups of global and blockwise threads per row",
    "Table 8",
    "Blockwise choices are three times as fast as 16 threads per row, global formulas slower than those.",
    sweeps=[_SWEEP],
    printed=[
        Printed("global TpR_mean", 0.86, "Table 8, V100"),
        Printed("global TpR_SqMean", 0.34, "Table 8, V100"),
        Printed("blockwise TpR_mean", 2.63, "Table 8, V100"),
        Printed("blockwise TpR_SqMean", 2.12, "Table 8, V100 (not measured here)"),
        Printed("blockwise predicted", 3.00, "Table 8, V100"),
        Printed("blockwise optimal", 3.05, "Table 8, V100"),
    ],
    position=9.3,
)
def means(context: Context) -> Result:
    """Summarise the speedups of global and blockwise choices."""
    times = _irregular(context).drop(columns=list(PEERS))
    predicted = predicted_blockwise_speedups(context)
    frame = speedup_table(times, **{"blockwise predicted": predicted})
    arithmetic = frame.set_index("algorithm")["arithmetic mean"]
    claims = (
        Claim(
            "blockwise SpMV is more than twice as fast as CSR-vector with 16 threads per row",
            bool(arithmetic["blockwise optimal"] > 2),
            f"{arithmetic['blockwise optimal']:.2f}x on average",
        ),
        Claim(
            "with the formula for every block it is faster than any global number",
            bool(arithmetic["blockwise TpR_mean"] > arithmetic["global optimal"]),
            f"{arithmetic['blockwise TpR_mean']:.2f}x against {arithmetic['global optimal']:.2f}x",
        ),
        Claim(
            "the global formulas are slower than 16 threads per row",
            bool(arithmetic["global TpR_mean"] < 1 and arithmetic["global TpR_SqMean"] < 1),
            f"{arithmetic['global TpR_mean']:.2f}x and {arithmetic['global TpR_SqMean']:.2f}x",
        ),
    )
    ours: dict[str, float | str] = {str(name): float(value) for name, value in arithmetic.items()}
    text = "Speedups over CSR-vector with 16 threads per row on irregular matrices."
    if len(predicted):
        text += (
            " Predicted: one number for all short rows, that of G-T9's model for the largest block, on "
            f"{len(predicted)} matrices whose blocks were measured."
        )
    figure = drawing.table(frame, {name: ".2f" for name in frame.columns[1:]})
    caption = context.caption(text, _SWEEP, times.index)
    return Result([frame], figure, caption, judge(context.where(), *claims), ours)


def _against_others(context: Context) -> pd.DataFrame:
    return _irregular(context)[["TpR 16", *PEERS, "blockwise TpR_mean", "blockwise optimal"]]


@register(
    "G-F11",
    "Blockwise SpMV against other algorithms on irregular matrices",
    "Fig. 11",
    "Blockwise SpMV is superior to the other algorithms on most irregular matrices.",
    sweeps=[_SWEEP],
)
def against_others(context: Context) -> Result:
    """Draw the throughput of every algorithm."""
    times = _against_others(context)
    sizes = context.sizes(times.index)
    rates = times.rdiv(2.0 * sizes["nnz"], axis=0) / 1e3
    order = rates["blockwise optimal"].sort_values().index
    figure = drawing.figure(2.6)
    axis = figure.subplots()
    for position, name in enumerate(("TpR 16", *PEERS, "blockwise optimal")):
        technique = {"TpR 16": "vector", "blockwise optimal": "blockwise"}.get(name, name)
        drawing.points(
            axis, np.arange(len(order)), rates.loc[order, name], technique, position=position, label=name, s=7
        )
    drawing.log_axis(axis, "y")
    axis.set(xlabel="irregular matrices, by blockwise throughput", ylabel="GFLOP/s")
    axis.legend(loc="lower right", ncols=2, markerscale=1.5)
    drawing.grid(axis, "y")
    counts = win_counts(times[[*PEERS, "blockwise optimal"]]).set_index("algorithm")["share"]
    claims = (
        Claim(
            "blockwise SpMV is the fastest on most irregular matrices",
            bool(counts["blockwise optimal"] > 0.5),
            "; ".join(f"{name} {share:.0%}" for name, share in counts.items()),
        ),
    )
    frame = rates.loc[order].add_suffix(" GFLOP/s").reset_index(names="matrix")
    text = "Throughput on irregular matrices, one point for each matrix and algorithm."
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, _SWEEP, times.index), verdict)


@register(
    "G-T10",
    "Mean speedups over CSR-vector with 16 threads per row, irregular matrices",
    "Table 10",
    "Blockwise SpMV has the highest geometric mean; the merge-based algorithm may have a higher arithmetic mean.",
    sweeps=[_SWEEP],
    printed=[
        Printed("cuSPARSE: arithmetic mean", 1.81, "Table 10, V100"),
        Printed("cuSPARSE: geometric mean", 1.65, "Table 10, V100"),
        Printed("merge-based: arithmetic mean", 3.60, "Table 10, V100"),
        Printed("merge-based: geometric mean", 2.05, "Table 10, V100"),
        Printed("blockwise optimal: arithmetic mean", 3.05, "Table 10, V100"),
        Printed("blockwise optimal: geometric mean", 2.67, "Table 10, V100"),
    ],
    position=11.3,
)
def means_of_others(context: Context) -> Result:
    """Summarise the speedups of every algorithm."""
    times = _against_others(context)
    frame = speedup_table(times)
    ours: dict[str, float | str] = {
        f"{row['algorithm']}: {mean}": float(row[mean])
        for _, row in frame.iterrows()
        for mean in ("arithmetic mean", "geometric mean")
    }
    geometric = frame.set_index("algorithm")["geometric mean"]
    second = str(geometric[list(PEERS)].idxmax())
    claims = (
        Claim(
            "blockwise SpMV has the highest geometric mean",
            bool(geometric["blockwise optimal"] > geometric[second]),
            f"{geometric['blockwise optimal']:.2f}x against {geometric[second]:.2f}x of {second}",
        ),
    )
    text = "Speedups over CSR-vector with 16 threads per row on irregular matrices."
    figure = drawing.table(frame, {name: ".2f" for name in frame.columns[1:]})
    caption = context.caption(text, _SWEEP, times.index)
    return Result([frame], figure, caption, judge(context.where(), *claims), ours)


@register(
    "G-T11",
    "On how many irregular matrices each algorithm is the fastest",
    "Table 11",
    "Blockwise SpMV wins most irregular matrices.",
    sweeps=[_SWEEP],
    printed=[
        Printed("blockwise optimal", "165 of 221", "Table 11, V100"),
        Printed("merge-based", "30 of 221", "Table 11, V100"),
        Printed("cuSPARSE", "3 of 221", "Table 11, V100"),
    ],
    position=11.6,
)
def most_wins(context: Context) -> Result:
    """Count the wins of every algorithm."""
    times = _against_others(context)
    frame = win_counts(times.drop(columns="blockwise TpR_mean"))
    counts = frame.set_index("algorithm")["matrices"]
    second = str(counts.drop("blockwise optimal").idxmax())
    ours: dict[str, float | str] = {str(name): f"{count:,} of {len(times):,}" for name, count in counts.items()}
    claims = (
        Claim(
            "blockwise SpMV wins more irregular matrices than any other",
            bool(counts["blockwise optimal"] > counts[second]),
            f"{counts['blockwise optimal']:,} against {counts[second]:,} of {second}",
        ),
    )
    text = "Irregular matrices on which each algorithm has the minimum time."
    figure = drawing.table(frame, {"share": ".1%"})
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, _SWEEP, times.index), verdict, ours)

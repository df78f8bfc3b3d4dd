"""Gao et al. (2024): CSR-vector against other algorithms of SpMV."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from warploom.bench.oracle import wins
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.gao2024.times import FEWEST, PEERS, WITH_PEERS, peers, speedup_table, win_counts
from warploom.reproduce.gao2024.trained import predicted_speedups
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge

__all__: list[str] = []


_NOT_16 = " Matrices whose rows have no work for 16 threads were not measured with 16, and are left out."


@register(
    "G-F8",
    "CSR-vector against other SpMV algorithms, per matrix",
    "Fig. 8",
    "With the right number of threads, CSR-vector is the fastest on most matrices.",
    sweeps=[WITH_PEERS],
)
def against_others(context: Context) -> Result:
    """Draw the throughput of every algorithm."""
    times = context.times(WITH_PEERS, (*FEWEST, *PEERS))
    sizes = context.sizes(times.index)
    compared = peers(times, sizes)
    rates = compared.rdiv(2.0 * sizes["nnz"], axis=0) / 1e3
    figure = drawing.figure(2.7)
    axis = figure.subplots()
    shown = ("TpR 16", "cuSPARSE", "merge-based", "CSR-adaptive", "optimal")
    order = rates["optimal"].sort_values().index
    for position, name in enumerate(shown):
        technique = "vector" if name == "TpR 16" else name
        size = 6 if name == "optimal" else 3
        drawing.points(
            axis, np.arange(len(order)), rates.loc[order, name], technique, position=position, label=name, s=size
        )
    drawing.log_axis(axis, "y")
    axis.set(xlabel="matrices, by the throughput of the optimum", ylabel="GFLOP/s")
    axis.legend(loc="lower right", ncols=2, markerscale=2)
    drawing.grid(axis, "y")
    won = wins(compared[["optimal", *PEERS]], "warm")["fastest"]
    claims = (
        Claim(
            "CSR-vector with the best threads per row is the fastest on most matrices",
            bool(won["optimal"] > 0.5),
            f"{won['optimal']:.0%}; " + ", ".join(f"{name} {won[name]:.0%}" for name in PEERS),
        ),
    )
    frame = rates.add_suffix(" GFLOP/s").assign(nnz=sizes["nnz"]).reset_index(names="matrix")
    text = (
        "Throughput, one point for each matrix and algorithm. cuSPARSE with its default algorithm on CSR; merge-based "
        "and CSR-adaptive are warploom's; Ginkgo and ViennaCL are not measured, choices of a trained model are in G-T4."
    )
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, WITH_PEERS, times.index), verdict)


@register(
    "G-T6",
    "Mean speedups over CSR-vector with 16 threads per row",
    "Table 6",
    "The best threads per row give 1.2 times the speed of 16; cuSPARSE and the merge-based algorithm less or as much.",
    sweeps=[WITH_PEERS],
    printed=[
        Printed("optimal: arithmetic mean", 1.21, "Table 6, V100"),
        Printed("optimal: geometric mean", 1.18, "Table 6, V100"),
        Printed("cuSPARSE: arithmetic mean", 1.17, "Table 6, V100"),
        Printed("cuSPARSE: geometric mean", 1.10, "Table 6, V100"),
        Printed("merge-based: arithmetic mean", 1.26, "Table 6, V100"),
        Printed("merge-based: geometric mean", 0.74, "Table 6, V100"),
        Printed("predicted: arithmetic mean", 1.21, "Table 6, V100"),
        Printed("predicted: geometric mean", 1.17, "Table 6, V100"),
    ],
    position=8.1,
)
def mean_speedups(context: Context) -> Result:
    """Summarise the speedups over 16 threads per row."""
    times = context.times(WITH_PEERS, ("16", *FEWEST, *PEERS))
    predicted = predicted_speedups(context)
    frame = speedup_table(peers(times, context.sizes(times.index)), predicted=predicted)
    ours = _means(frame)
    means = frame.set_index("algorithm")["geometric mean"]
    claims = (
        Claim(
            "choosing threads per row gains more than a tenth over 16",
            bool(means["optimal"] > 1.1),
            f"geometric mean {means['optimal']:.2f}x",
        ),
        *(
            Claim(f"it gains more than {name}", bool(means["optimal"] > means[name]), f"{means[name]:.2f}x")
            for name in ("cuSPARSE", "merge-based")
        ),
    )
    held_out = " Predicted: choices of the models of G-T4, for the matrices held out in four shuffles."
    text = f"Speedups over CSR-vector with 16 threads per row.{_NOT_16}{held_out if len(predicted) else ''}"
    figure = drawing.table(frame, {name: ".2f" for name in frame.columns[1:]})
    caption = context.caption(text, WITH_PEERS, times.index)
    return Result([frame], figure, caption, judge(context.where(), *claims), ours)


def _means(frame: pd.DataFrame) -> dict[str, float | str]:
    found: dict[str, float | str] = {
        f"{row['algorithm']}: {mean}": float(row[mean])
        for _, row in frame.iterrows()
        for mean in ("arithmetic mean", "geometric mean")
    }
    return {"predicted: arithmetic mean": math.nan, "predicted: geometric mean": math.nan, **found}


@register(
    "G-T7",
    "On how many matrices each algorithm is the fastest",
    "Table 7",
    "CSR-vector with the best threads per row wins most matrices, cuSPARSE comes second.",
    sweeps=[WITH_PEERS],
    printed=[
        Printed("optimal", "525 of 953", "Table 7, V100"),
        Printed("cuSPARSE", "259 of 953", "Table 7, V100"),
        Printed("merge-based", "68 of 953", "Table 7, V100"),
    ],
    position=8.2,
)
def most_wins(context: Context) -> Result:
    """Count the wins of every algorithm."""
    times = context.times(WITH_PEERS, (*FEWEST, *PEERS))
    compared = peers(times, context.sizes(times.index))
    frame = win_counts(compared[["optimal", *PEERS]])
    counts = frame.set_index("algorithm")["matrices"]
    ours: dict[str, float | str] = {name: f"{count:,} of {len(times):,}" for name, count in counts.items()}
    second = str(counts.drop("optimal").idxmax())
    claims = (
        Claim(
            "CSR-vector with the best threads per row wins more matrices than any other",
            bool(counts["optimal"] > counts[second]),
            f"{counts['optimal']:,} against {counts[second]:,} of {second}",
        ),
    )
    text = "Matrices on which each algorithm has the minimum time."
    figure = drawing.table(frame, {"share": ".1%"})
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, WITH_PEERS, times.index), verdict, ours)

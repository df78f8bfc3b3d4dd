"""Gao et al. (2024): the number of threads per row that is the fastest, in both precisions."""

from __future__ import annotations

import pandas as pd

from warploom.bench.oracle import wins
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.csr_vector import VECTOR
from warploom.reproduce.gao2024.times import DOUBLE, FEWEST, SINGLE, optimum, time_with
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.training.threads_per_row import THREADS

__all__: list[str] = []

_SHORT_ROWS = " Numbers of threads for which no row of a matrix has enough work are not measured, nor its optimum."


@register(
    "G-F3",
    "How many matrices have each number of threads as optimum",
    "Fig. 3",
    "Every number of threads per row is the optimum of a considerable part of the matrices.",
    sweeps=[DOUBLE],
)
def optima(context: Context) -> Result:
    """Count the optima."""
    times = context.times(DOUBLE, FEWEST)
    counts = pd.Series(optimum(times)).value_counts().reindex(THREADS, fill_value=0)
    won = wins(times[list(VECTOR)], "warm", context.tolerances)
    transposes = int(times.index.str.endswith(".T").sum())
    figure = drawing.figure(2.0)
    axis = figure.subplots()
    bars = axis.bar(range(5), counts, color=[drawing.COLOURS[str(t)] for t in THREADS])
    axis.bar_label(bars, [f"{count:,}" for count in counts])
    axis.set_xticks(range(5), [str(t) for t in THREADS])
    axis.set(xlabel="threads per row", ylabel="matrices with this optimum")
    frame = pd.DataFrame(
        {
            "threads per row": THREADS,
            "matrices": counts.to_numpy(),
            "share": counts.to_numpy() / len(times),
            "share fastest or near-tie": won["near-tie"].to_numpy(),
        }
    )
    shares = counts / len(times)
    claims = (
        Claim("no number is the optimum of most matrices", bool(shares.max() < 0.5), f"at most {shares.max():.0%}"),
        Claim(
            "each is the optimum of a considerable part",
            bool(shares.min() > 0.05),
            f"{shares.idxmin()} threads have the minimum, {shares.min():.1%}",
        ),
    )
    text = (
        f"Matrices by the number of threads per row with the minimum time; {transposes:,} of them are transposes."
        f"{_SHORT_ROWS}"
    )
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, DOUBLE, times.index), verdict)


@register(
    "G-prec",
    "Agreement of the optimum between single and double precision",
    "Sec. 6.2",
    "Most matrices have the same optimum in both precisions, and where not the loss is at most 2 %.",
    sweeps=[DOUBLE, SINGLE],
    printed=[
        Printed("same optimum", "72 % and 83 %", "Sec. 6.2, V100 and P100"),
        Printed("maximum loss where different", "2 %", "Sec. 6.2"),
    ],
    position=17,
)
def precisions(context: Context) -> Result:
    """Compare the optima of the two precisions, and the loss of one in the other."""
    double, single = context.times(DOUBLE, FEWEST), context.times(SINGLE, FEWEST)
    common = double.index.intersection(single.index)
    if common.empty:
        raise context.missing("matrices with times in both float64 and float32", SINGLE.command())
    double, single = double.loc[common], single.loc[common]
    of_double, of_single = optimum(double), optimum(single)
    counts = pd.crosstab(of_double, of_single).reindex(index=THREADS, columns=THREADS, fill_value=0)
    loss = time_with(single, of_double) / single[list(VECTOR)].min(axis=1) - 1
    differing = loss[of_double != of_single].dropna()
    same = float((of_double == of_single).mean())
    within = float((loss <= 0.02).mean())
    figure = drawing.figure(2.3)
    axis = figure.subplots()
    axis.imshow(counts / len(common), cmap="Blues", vmin=0)
    darkest = counts.to_numpy().max()
    for i, line in enumerate(counts.to_numpy()):
        for j, count in enumerate(line):
            axis.text(j, i, f"{count:,}", ha="center", va="center", color="white" if count > 0.6 * darkest else "black")
    axis.set_xticks(range(5), [str(t) for t in THREADS])
    axis.set_yticks(range(5), [str(t) for t in THREADS])
    axis.set(xlabel="optimum in float32 (threads per row)", ylabel="optimum in float64")
    summary = pd.DataFrame(
        {
            "matrices": [len(common)],
            "same optimum": [same],
            "within 2 % with the other's optimum": [within],
            "median loss where different": [float(differing.median()) if len(differing) else 0.0],
            "95th percentile": [float(differing.quantile(0.95)) if len(differing) else 0.0],
            "greatest": [float(differing.max()) if len(differing) else 0.0],
        }
    )
    greatest = summary["greatest"].iloc[0]
    claims = (
        Claim("most matrices have the same optimum", same > 0.5, f"{same:.0%}"),
        Claim(
            "the optimum of double precision costs at most 2 % in single precision",
            bool(greatest <= 0.02),
            f"{within:.0%} of the matrices are within 2 %, the maximum loss is {greatest:.0%}",
        ),
    )
    text = "Matrices by their optimal threads per row in the two precisions."
    ours: dict[str, float | str] = {"same optimum": f"{same:.0%}", "maximum loss where different": f"{greatest:.0%}"}
    caption = context.caption(text, DOUBLE, common).replace("spmv/float64", "spmv/float64 and spmv/float32")
    tables = [summary, counts.rename_axis("float64").reset_index()]
    return Result(tables, figure, caption, judge(context.where(), *claims), ours)

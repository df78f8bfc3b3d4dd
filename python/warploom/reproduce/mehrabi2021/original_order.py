"""Mehrabi et al. (2021): the paper's kernel against cuSPARSE, in the original order of the rows."""

from __future__ import annotations

import numpy as np

from warploom.bench.medians import geometric_mean
from warploom.bench.oracle import PAPER_SPMM
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.mehrabi2021.orders import PLAIN, VENDOR, per_matrix
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.reproduce.sweep import Sweep

__all__: list[str] = []

_VENDOR = Sweep(PAPER_SPMM, "cold", {"csr": PLAIN, "cuSPARSE": VENDOR})
_TUNED = Sweep(PAPER_SPMM, "cold", {**_VENDOR.techniques, "best parameters": "spmm/none/csr/c_stationary*"})


@register(
    "M-F3",
    "Speedup of C-stationary SpMM over cuSPARSE, original row order",
    "Fig. 3",
    "The C-stationary kernel outperforms cuSPARSE by 1.67 to 1.89 times on average.",
    sweeps=[_TUNED],
    printed=[Printed("mean speedup", "1.67 to 1.89", "Sec. IV, both GPUs")],
)
def over_vendor(context: Context) -> Result:
    """Compare the paper's kernel with the fastest of the vendor's algorithms on CSR."""
    times = context.times(_TUNED)
    speedup = times["cuSPARSE"] / times["csr"]
    tuned = times["cuSPARSE"] / times["best parameters"]
    large = speedup[(context.sizes(times.index)["nnz"] >= 10**5).to_numpy()]
    of_large = f"{large.mean():.2f}x for 10^5 nonzeros and more, " if len(large) else ""
    frame = per_matrix(context, times, speedup=speedup).sort_values("speedup")
    figure = drawing.figure(2.2)
    axis = figure.subplots()
    drawing.points(axis, np.arange(1, len(frame) + 1), frame["speedup"], "csr")
    drawing.log_ratio_axis(axis)
    axis.axhline(speedup.mean(), color=drawing.COLOURS["lpt"], linestyle="--")
    axis.annotate(f"mean {speedup.mean():.2f}", (1, speedup.mean()), xytext=(0, 3), textcoords="offset points")
    axis.set(xlabel="matrices, by speedup", ylabel="speedup over cuSPARSE")
    drawing.grid(axis, "y")
    verdict = judge(
        context.where(),
        Claim(
            "C-stationary SpMM in the original order outperforms cuSPARSE on average",
            bool(speedup.mean() > 1),
            f"mean {speedup.mean():.2f}x, geometric mean {geometric_mean(speedup):.2f}x, faster on "
            f"{(speedup > 1).mean():.0%} of the matrices; {of_large}and {tuned.mean():.2f}x with the parameters of the "
            "kernel that are best for each matrix instead of the paper's",
        ),
    )
    text = "Speedup of the paper's kernel over the fastest of cuSPARSE's algorithms for CSR, one point for each matrix."
    ours = {"mean speedup": f"{speedup.mean():.2f}"}
    return Result([frame], figure, context.caption(text, _TUNED, times.index), verdict, ours)


@register(
    "M-F4",
    "Throughput of C-stationary SpMM and cuSPARSE, original row order",
    "Fig. 4",
    "C-stationary SpMM reaches a higher throughput than cuSPARSE on most matrices.",
    sweeps=[_VENDOR],
)
def throughput(context: Context) -> Result:
    """Draw the throughput of both."""
    times = context.times(_VENDOR)
    sizes = context.sizes(times.index)
    operations = 2.0 * sizes["nnz"] * sizes["rows"]
    rates = {name: operations / times[name] / 1e3 for name in times}
    frame = per_matrix(context, times, **{f"GFLOP/s {name}": rate for name, rate in rates.items()})
    figure = drawing.figure(2.4)
    axis = figure.subplots()
    for position, name in enumerate(("cuSPARSE", "csr")):
        label = "C-stationary, CSR" if name == "csr" else name
        drawing.points(axis, sizes["nnz"], rates[name], name, position=position, label=label)
    drawing.log_axis(axis, "x")
    drawing.log_axis(axis, "y")
    axis.set(xlabel="nonzeros of A", ylabel="GFLOP/s")
    axis.legend(loc="lower right")
    drawing.grid(axis)
    higher = float((rates["csr"] > rates["cuSPARSE"]).mean())
    verdict = judge(
        context.where(),
        Claim(
            "C-stationary SpMM has the higher throughput on most matrices",
            higher > 0.5,
            f"{higher:.0%} of the matrices; medians {rates['csr'].median():,.0f} and "
            f"{rates['cuSPARSE'].median():,.0f} GFLOP/s",
        ),
    )
    text = "Throughput (2 x nonzeros x columns of B, over the time), one point for each matrix and kernel."
    return Result([frame], figure, context.caption(text, _VENDOR, times.index), verdict)

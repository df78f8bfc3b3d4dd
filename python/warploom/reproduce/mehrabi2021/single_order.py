"""Mehrabi et al. (2021): one row permutation for all matrices."""

from __future__ import annotations

import numpy as np
import pandas as pd

from warploom.bench.oracle import PAPER_SPMM
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.mehrabi2021.orders import ORDERS, PLAIN, per_matrix
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.reproduce.sweep import Sweep

__all__: list[str] = []

_LPT = Sweep(PAPER_SPMM, "cold", {"csr": PLAIN, "lpt": ORDERS["lpt"]})
_WARP_AWARE = Sweep(PAPER_SPMM, "cold", {"csr": PLAIN, "warp-aware": ORDERS["warp-aware"]})


_CLEARLY_SLOWER = 1 / 1.1


def _rank_correlation(x: pd.Series, y: pd.Series) -> float:
    if len(x) < 3 or x.nunique() == 1 or y.nunique() == 1:
        return 0.0
    return float(x.astype(float).corr(y, method="spearman"))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _does_not_determine(what: str, x: pd.Series, speedup: pd.Series) -> Claim:
    """Claim that neither the speedup nor the share of the matrices that are harmed depends on something."""
    slow = speedup < _CLEARLY_SLOWER
    fifth = x.rank(pct=True, method="first").mul(5).apply(np.ceil)
    shares = slow.groupby(fifth).mean()
    worst = shares.idxmax()
    within = x[fifth == worst]
    correlation = _rank_correlation(x, speedup)
    evenly = shares.max() <= max(2 * float(slow.mean()), float(slow.mean()) + 0.05)
    return Claim(
        f"{what} does not determine which matrices benefit and which are harmed",
        abs(correlation) < 0.5 and bool(evenly),
        f"rank correlation {correlation:.2f} with the speedup; slower by more than 10 %: {slow.mean():.0%} of all, "
        f"{shares.max():.0%} of the fifth with {what} {_number(within.min())} to {_number(within.max())}",
    )


def _one_permutation(context: Context, sweep: Sweep, name: str, paper_harmed: float) -> Result:
    times = context.times(sweep)
    sizes = context.sizes(times.index)
    speedup = times["csr"] / times[name]
    density = sizes["nnz"] / (sizes["rows"].astype(float) * sizes["cols"])
    frame = per_matrix(context, times, density=density, speedup=speedup)
    figure = drawing.figure(2.2, width=drawing.PAGE)
    by_density, by_rows, histogram = figure.subplots(1, 3)
    for axis, x, label in ((by_density, density, "density of A"), (by_rows, sizes["rows"], "rows of A")):
        drawing.points(axis, x, speedup, name)
        drawing.log_ratio_axis(axis)
        drawing.log_axis(axis, "x")
        axis.set(xlabel=label, ylabel=f"speedup by {name}")
        drawing.grid(axis)
    bins = np.linspace(float(speedup.min()), min(float(speedup.quantile(0.995)), 4.0) + 1e-9, 40)
    shares = np.histogram(speedup.clip(upper=bins[-1]), bins)[0] / len(speedup)
    histogram.stairs(shares, bins, fill=True, color=drawing.colour(name))
    histogram.axvline(1, color="black", linewidth=0.7)
    histogram.set(xlabel=f"speedup by {name}", ylabel="share of the matrices")
    drawing.percent(histogram)
    harmed, clearly = float((speedup < 1).mean()), float((speedup < 0.98).mean())
    gained = float((speedup > 1.5).mean())
    claims = (
        Claim(
            f"{name} makes some matrices considerably faster",
            gained >= 0.01,
            f"{gained:.1%} of them by more than 1.5x, at most {speedup.max():.2f}x",
        ),
        Claim(
            f"it harms a considerable share of the matrices (the paper has {paper_harmed:.0%})",
            clearly > 0.1,
            f"{harmed:.0%} of them, {clearly:.0%} by more than 2 %, down to {speedup.min():.2f}x",
        ),
        _does_not_determine("density", density, speedup),
        _does_not_determine("size", sizes["rows"], speedup),
    )
    text = f"Speedup by {name} over the original order of the rows; the histogram's last bin holds all above."
    ours = {
        "greatest speedup": float(speedup.max()),
        "least speedup": float(speedup.min()),
        "share of matrices harmed": harmed,
    }
    return Result([frame], figure, context.caption(text, sweep, times.index), judge(context.where(), *claims), ours)


@register(
    "M-F5",
    "Speedup by a load balancing permutation (LPT)",
    "Fig. 5",
    "LPT improves some matrices much and harms others; neither density nor size determines which.",
    sweeps=[_LPT],
    printed=[
        Printed("greatest speedup", 3.5, "Sec. IV-A, GV100"),
        Printed("least speedup", 0.8, "Sec. IV-A, GV100"),
        Printed("share of matrices harmed", 0.17, "Sec. IV-A, GV100 (more than)", ".0%"),
    ],
)
def lpt(context: Context) -> Result:
    """Draw the speedups by LPT."""
    return _one_permutation(context, _LPT, "lpt", 0.17)


@register(
    "M-F6",
    "Speedup by a cache-aware permutation (warp-aware sort)",
    "Fig. 6",
    "Warp-aware sort improves some matrices much and harms others; neither density nor size determines which.",
    sweeps=[_WARP_AWARE],
    printed=[
        Printed("greatest speedup", 2.3, "Sec. IV-A, GV100"),
        Printed("least speedup", 0.3, "Sec. IV-A, GV100"),
        Printed("share of matrices harmed", 0.20, "Sec. IV-A, GV100 (over)", ".0%"),
    ],
)
def warp_aware(context: Context) -> Result:
    """Draw the speedups by warp-aware sort."""
    return _one_permutation(context, _WARP_AWARE, "warp-aware", 0.20)

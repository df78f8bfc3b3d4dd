"""Mehrabi et al. (2021): all row permutations, and the oracle that takes the best for each matrix."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.bench.oracle import PAPER_SPMM, wins
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.mehrabi2021.orders import ORDERS, VENDOR
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.reproduce.sweep import Sweep

__all__ = ["best_sets"]

_ALL = Sweep(PAPER_SPMM, "cold", ORDERS)
_ALL_AND_VENDOR = Sweep(PAPER_SPMM, "cold", {**ORDERS, "cuSPARSE": VENDOR})
_TABLE_1 = {
    "dcsr": (13.4, 0.85, 0.5),
    "plain": (4.1, 1.02, 0.6),
    "flipped": (3.9, 1.04, 0.8),
    "lpt": (3.5, 1.10, 0.8),
    "warp-aware": (2.3, 1.07, 0.3),
    "cta-aware": (3.9, 1.01, 0.3),
    "hybrid-1": (4.2, 1.0, 0.3),
    "hybrid-2.1": (4.1, 1.10, 0.4),
    "hybrid-2.2": (4.1, 1.09, 0.3),
    "hybrid-2.3": (2.4, 0.97, 0.25),
    "oracle": (13.5, 1.4, 1.0),
}
"""Max, mean and min of Table I, GV100."""


# ----- M-F8, M-T1 -----


def _speedups(times: pd.DataFrame) -> pd.DataFrame:
    """Return the speedups over the original order, with the oracle's, which may keep it, last."""
    orders = times[list(ORDERS)]
    speedups = orders.rdiv(times["csr"], axis=0).drop(columns="csr")
    return speedups.assign(oracle=times["csr"] / orders.min(axis=1))


_HARMED = 0.9
"""A speedup below is a loss that no repetition of a measurement explains."""


def _no_order_for_all(context: Context, speedups: pd.DataFrame) -> list[Claim]:
    single = speedups.drop(columns="oracle")
    best = str(single.mean().idxmax())
    harmed = (single < _HARMED).mean()
    return [
        Claim(
            "every technique makes at least one matrix in twenty slower by more than 10 %",
            bool((harmed >= 0.05).all()),
            f"{harmed.min():.0%} of the matrices with {harmed.idxmin()} to {harmed.max():.0%} with {harmed.idxmax()}",
        ),
        Claim(
            "choosing for each matrix gains clearly more than the best single technique",
            bool(speedups["oracle"].mean() > 1.05 * max(1.0, single[best].mean())),
            f"oracle {speedups['oracle'].mean():.2f}x on average, {best} {single[best].mean():.2f}x, original order 1x",
        ),
    ]


@register(
    "M-F8",
    "Distribution of the speedups of all techniques",
    "Fig. 8",
    "No technique works well for all matrices; the oracle's choices are better than any of them.",
    sweeps=[_ALL],
    printed=[
        Printed("oracle: median", 1.15, "Sec. IV-B, GV100"),
        Printed("oracle: first quartile", 1.05, "Sec. IV-B, GV100"),
        Printed("dcsr: third quartile", 0.85, "Sec. IV-B, GV100"),
    ],
)
def distributions(context: Context) -> Result:
    """Draw a box for every technique."""
    speedups = _speedups(context.times(_ALL))
    figure = drawing.figure(2.9)
    axis = figure.subplots()
    boxes = axis.boxplot(
        [speedups[name] for name in speedups],
        sym=".",
        patch_artist=True,
        widths=0.6,
        medianprops={"color": "black"},
        flierprops={"markersize": 1.5, "alpha": 0.4, "rasterized": True},
    )
    for name, box in zip(speedups, boxes["boxes"], strict=True):
        box.set(facecolor=drawing.colour(name) if name != "oracle" else "#BBBBBB", alpha=0.7, linewidth=0.6)
    low, high = speedups.min(axis=None), speedups.max(axis=None)
    shown = max(0.97 * low, 0.6), min(1.03 * high, max(1.4, float(speedups["oracle"].quantile(0.95))))
    beyond = int(((speedups < shown[0]) | (speedups > shown[1])).sum(axis=None))
    axis.set_ylim(*shown)
    drawing.log_ratio_axis(axis)
    axis.set_xticks(range(1, len(speedups.columns) + 1), list(speedups), rotation=45, ha="right")
    axis.set_ylabel("speedup over the original order")
    drawing.grid(axis, "y")
    quartiles = speedups.quantile([0.25, 0.5, 0.75])
    frame = speedups.describe(percentiles=[0.05, 0.25, 0.5, 0.75, 0.95]).T.reset_index(names="technique")
    ours = {
        "oracle: median": float(quartiles.loc[0.5, "oracle"]),
        "oracle: first quartile": float(quartiles.loc[0.25, "oracle"]),
        "dcsr: third quartile": float(quartiles.loc[0.75, "dcsr"]),
    }
    text = (
        "Speedups over CSR in the original order. Boxes are quartiles, whiskers 1.5 times their distance; "
        f"{beyond} points lie outside what is shown, up to {high:.1f}."
    )
    verdict = judge(context.where(), *_no_order_for_all(context, speedups), untested=[_LUCK])
    tables = [frame, speedups.reset_index(names="matrix")]
    return Result(tables, figure, context.caption(text, _ALL, speedups.index), verdict, ours)


@register(
    "M-T1",
    "Greatest, mean and least speedups of all techniques",
    "Table I",
    "The oracle is 1.4 times as fast as plain CSR and 2.65 times as fast as cuSPARSE.",
    sweeps=[_ALL_AND_VENDOR],
    printed=[
        Printed(f"{name}: {what}", value, "Table I, GV100")
        for name, values in _TABLE_1.items()
        for what, value in zip(("max", "mean", "min"), values, strict=True)
    ]
    + [Printed("oracle over cuSPARSE: mean", 2.65, "Sec. IV-B, GV100")],
    position=8.5,
)
def table_1(context: Context) -> Result:
    """Summarise the speedups of every technique."""
    times = context.times(_ALL_AND_VENDOR)
    speedups = _speedups(times)
    rows = []
    ours: dict[str, float | str] = {}
    for name, paper in _TABLE_1.items():
        values = float(speedups[name].max()), float(speedups[name].mean()), float(speedups[name].min())
        rows.append((name, *values, *paper))
        ours |= {f"{name}: {what}": value for what, value in zip(("max", "mean", "min"), values, strict=True)}
    frame = pd.DataFrame(rows, columns=["technique", "max", "mean", "min", "paper max", "paper mean", "paper min"])
    over_vendor = float((times["cuSPARSE"] / times[list(ORDERS)].min(axis=1)).mean())
    ours["oracle over cuSPARSE: mean"] = over_vendor
    claims = [
        *_no_order_for_all(context, speedups),
        Claim(
            "the oracle is at least twice as fast as cuSPARSE on average",
            over_vendor >= 2,
            f"{over_vendor:.2f}x; the paper has 2.65x",
        ),
    ]
    text = "Speedups over CSR in the original order, with those of the paper (GV100)."
    formats = {str(name): ".2f" for name in frame.columns[1:]}
    caption = context.caption(text, _ALL_AND_VENDOR, times.index)
    verdict = judge(context.where(), *claims, untested=[_LUCK])
    return Result([frame], drawing.table(frame, formats), caption, verdict, ours)


_LUCK = (
    "how much of the oracle's gain is noise: it takes the least of eleven times, so that near-ties fall to whichever "
    "came out lower"
)


# ----- M-F9, M-F10 -----


@register(
    "M-F9",
    "How often each technique is the best",
    "Fig. 9",
    "Warp-aware sort is the best for 37 % of the matrices; six techniques are needed to have the best one for 90 %.",
    sweeps=[_ALL],
    printed=[
        Printed("warp-aware", 0.37, "Sec. IV-C, GV100", ".0%"),
        Printed("techniques for 90 % of the matrices", 6, "Sec. IV-C, GV100", ".0f"),
    ],
)
def best_technique(context: Context) -> Result:
    """Count the wins of every technique."""
    times = context.times(_ALL)
    won = wins(times, "cold", context.tolerances)
    shares = won["fastest"].sort_values(ascending=False)
    needed = _needed(shares)
    merged = won["fastest, near-ties merged"].sort_values(ascending=False)
    near = won["near-tie"]
    figure = drawing.figure(2.2)
    axis = figure.subplots()
    order = [name for name in times]
    axis.bar(range(len(order)), shares[order], color=[drawing.colour(name) for name in order])
    for place, name in enumerate(order):
        axis.annotate(f"{100 * shares[name]:.0f}", (place, shares[name]), ha="center", va="bottom")
    axis.set_xticks(range(len(order)), order, rotation=45, ha="right")
    axis.set_ylabel("share of the matrices on\nwhich it is the fastest")
    drawing.percent(axis)
    frame = won.loc[shares.index].rename_axis("technique").reset_index()
    claims = (
        Claim(
            "no technique is the fastest, or within noise of it, on most matrices",
            bool(near.max() < 0.5),
            f"{near.idxmax()} is on {near.max():.0%}, the original order on {near['csr']:.0%}; by the least time alone "
            f"the most frequent, {shares.index[0]}, has {shares.iloc[0]:.0%}",
        ),
        Claim(
            "at least four techniques are needed to have the best one for 90 %, near-ties merged",
            _needed(merged) >= 4,
            f"{_needed(merged)} of {len(shares)}; {needed} by the least time alone",
        ),
    )
    ours = {"warp-aware": float(shares["warp-aware"]), "techniques for 90 % of the matrices": float(needed)}
    text = "Shares of the matrices on which a technique has the least time, in percent; near-ties are in the table."
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, _ALL, times.index), verdict, ours)


def _needed(shares: pd.Series) -> int:
    """Return how many of the largest shares make 90 %."""
    return int((shares.cumsum() < 0.9 - 1e-12).sum()) + 1


def best_sets(times: NDArray[np.float64], base: NDArray[np.float64]) -> list[tuple[float, tuple[int, ...]]]:
    """Find the columns from which an oracle's choices have the highest mean speedup, for every number of columns.

    Parameters
    ----------
    times : ndarray of float64, shape (matrices, techniques)
    base : ndarray of float64, shape (matrices,)
        What speedups are over.

    Returns
    -------
    list of (float, tuple of int)
        Mean speedup and columns, for 1, 2, ... columns. Column 0, the original order, is always one of them, since not
        permuting costs nothing.
    """
    found = []
    for count in range(times.shape[1]):
        sets = ((0, *others) for others in itertools.combinations(range(1, times.shape[1]), count))
        found.append(max(((base / times[:, s].min(axis=1)).mean(), s) for s in sets))
    return found


@register(
    "M-F10",
    "Speedup of the oracle against the number of techniques",
    "Fig. 10",
    "Two techniques (with the original order) give 33 %; beyond five there is little more to gain.",
    sweeps=[_ALL],
    printed=[Printed("mean speedup from two orders", 1.33, "Sec. IV-C, GV100")],
)
def portfolio(context: Context) -> Result:
    """Find the best set of techniques of every size."""
    times = context.times(_ALL)
    found = best_sets(times.to_numpy(), times["csr"].to_numpy())
    names = list(times)
    speedups = np.array([float(speedup) for speedup, _ in found])
    frame = pd.DataFrame(
        {
            "techniques": range(1, len(found) + 1),
            "mean speedup": speedups,
            "best set": [", ".join(names[i] for i in chosen) for _, chosen in found],
        }
    )
    figure = drawing.figure(2.2)
    axis = figure.subplots()
    axis.plot(frame["techniques"], speedups, marker="o", color=drawing.COLOURS["oracle"])
    for count in (2, 3, 4):
        added = [names[i] for i in found[count - 1][1] if i not in found[count - 2][1]]
        text = f"+ {', '.join(added)}"
        place, side = ((5, -10), "left") if count < 4 else ((-4, 6), "right")
        axis.annotate(text, (count, speedups[count - 1]), xytext=place, textcoords="offset points", ha=side)
    axis.margins(y=0.12)
    axis.set(xlabel="techniques, the original order included", ylabel="mean speedup of the oracle")
    axis.set_xticks(range(1, len(found) + 1))
    drawing.grid(axis)
    gain = speedups - 1
    claims = (
        Claim(
            "two orders, of which one is the original, gain about a third",
            bool(0.25 <= gain[1] <= 0.42),
            f"{100 * gain[1]:.1f} %",
        ),
        Claim(
            "two orders give most of the gain",
            bool(gain[1] > 0.5 * gain[-1] > 0),
            f"{100 * gain[1]:.1f} of {100 * gain[-1]:.1f} %",
        ),
        Claim(
            "beyond five there is little more to gain",
            bool(gain[4] > 0.9 * gain[-1]),
            f"five give {100 * gain[4]:.1f} %",
        ),
    )
    text = (
        "Mean speedup of the oracle, which takes the fastest technique of a set for each matrix, over CSR in the "
        "original order, for the best set of each size; beside the points, what it has that the one before has not."
    )
    ours = {"mean speedup from two orders": float(speedups[1])}
    verdict = judge(
        context.where(),
        *claims,
        untested=[_LUCK, "sets on other matrices than those that they were found on"],
    )
    return Result([frame], figure, context.caption(text, _ALL, times.index), verdict, ours)

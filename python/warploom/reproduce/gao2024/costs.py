"""Gao et al. (2024): what boosted trees, inference and features cost."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from warploom.bench.environment import cpu_name
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.gao2024.trained import SWEEP, halves, matrices, shuffles, trained_caption
from warploom.reproduce.gao2024.tree_study import cost_of_trees, inference_microseconds
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge

__all__: list[str] = []

_NUMBERS, _DEPTHS = (5, 10, 20, 50, 100), (2, 3, 5, 8, 12)
"""Iterations and depths of boosted trees to compare."""


# ----- G-F14, G-F15 -----

_BY_DEPTH = ("#56B4E9", "#0072B2", "#009E73", "#E69F00", "#D55E00")


def _trees(context: Context) -> pd.DataFrame:
    return context.once(
        "threads per row: trees", lambda: cost_of_trees(*halves(context), numbers=_NUMBERS, depths=_DEPTHS)
    )


def _by_depth(axis: Axes, frame: pd.DataFrame, column: str) -> None:
    for position, (depth, part) in enumerate(frame.groupby("depth")):
        axis.plot(
            part["iterations"],
            part[column],
            marker=drawing.MARKERS[position],
            color=_BY_DEPTH[position],
            label=f"depth {depth}",
        )
    axis.set_xscale("log")
    axis.set_xticks(_NUMBERS, [str(number) for number in _NUMBERS])
    axis.minorticks_off()
    axis.set_xlabel("estimators, of five trees each")
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.3), ncols=3)
    drawing.grid(axis)


@register(
    "G-F14",
    "Accuracy against number and depth of trees",
    "Fig. 14",
    "Accuracy rises with the number and the depth of the trees, and then levels off.",
    sweeps=[SWEEP],
)
def accuracy_of_trees(context: Context) -> Result:
    """Draw the accuracy of boosted trees by number and depth."""
    frame = _trees(context)
    figure = drawing.figure(2.4)
    axis = figure.subplots()
    _by_depth(axis, frame, "accuracy")
    axis.set_ylabel("optima found")
    drawing.percent(axis)
    by_number = frame.groupby("iterations")["accuracy"].mean()
    by_depth = frame.groupby("depth")["accuracy"].mean()
    best = frame.loc[frame["accuracy"].idxmax()]
    last = by_number.iloc[-1] - by_number.iloc[-2]
    claims = (
        Claim(
            "more trees find more optima",
            bool(by_number.max() > by_number.iloc[0]),
            f"{by_number.iloc[0]:.1%} with {by_number.index[0]} estimators, {by_number.max():.1%} with "
            f"{by_number.idxmax()}, the mean over depths",
        ),
        Claim(
            "deeper ones do too",
            bool(by_depth.max() > by_depth.iloc[0]),
            f"{by_depth.iloc[0]:.1%} with depth {by_depth.index[0]}, {by_depth.max():.1%} with {by_depth.idxmax()}",
        ),
        Claim(
            "accuracy levels off",
            bool(last < 0.01),
            f"{100 * last:+.1f} percentage points from {by_number.index[-2]} to {by_number.index[-1]} estimators; most "
            f"optima, {best['accuracy']:.1%}, are found with {best['iterations']:.0f} of depth {best['depth']:.0f}",
        ),
    )
    text = "Share of the held-out matrices whose optimum boosted trees (LightGBM) find; first shuffle."
    return Result([frame], figure, trained_caption(context, text), judge(context.where(), *claims))


@register(
    "G-F15",
    "Inference time against number and depth of trees",
    "Fig. 15",
    "The model with the highest accuracy takes a few microseconds.",
    sweeps=[SWEEP],
)
def inference_time(context: Context) -> Result:
    """Draw the time that the compiled predictor takes for boosted trees."""
    frame = _trees(context)
    figure = drawing.figure(2.4)
    axis = figure.subplots()
    _by_depth(axis, frame, "microseconds")
    drawing.log_ratio_axis(axis, base=False)
    axis.set_ylabel("time of one inference (us)")
    best = frame.loc[frame["accuracy"].idxmax()]
    claims = (
        Claim(
            "the model that finds most optima takes less than 10 us",
            bool(best["microseconds"] < 10),
            f"{best['microseconds']:.1f} us with {best['iterations']:.0f} estimators of depth {best['depth']:.0f}, "
            f"{best['accuracy']:.1%}; all of them {frame['microseconds'].min():.1f} to "
            f"{frame['microseconds'].max():.1f} us",
        ),
    )
    text = (
        "Time of warploom's predictor for one matrix, one thread, mean over the held-out matrices, minimum of five "
        f"repeats; measured when this was made, on {cpu_name()}. The trees are those of G-F14."
    )
    return Result([frame], figure, trained_caption(context, text), judge(f"on {cpu_name()}", *claims))


_LARGE = 10**6


# ----- G-ovh -----


@register(
    "G-ovh",
    "Cost of features and inference",
    "Sec. 6.2, eq. 6 and 7",
    "The eleven features cost about one product, inference a few microseconds, and choosing by the model beats trying "
    "all five numbers of threads within five products.",
    sweeps=[SWEEP],
    printed=[
        Printed("cost of the features in products", "about 1", "Sec. 6.2"),
        Printed("inference", "a few us", "Sec. 6.2"),
        Printed("T_naive / T_ML: mean", 1.28, "Sec. 6.2, V100"),
        Printed("T_naive / T_ML: greatest", 7.15, "Sec. 6.2, V100"),
    ],
    position=16,
)
def overheads(context: Context) -> Result:
    """Compare the cost of a choice with its gain over five products."""
    findings = context.findings("features")
    if findings.where != context.where():
        raise context.missing(
            f"costs of features {context.where()}, only {findings.where}",
            "warploom experiment run features --output sweep",
        )
    inference = _inference(context)
    table = findings.table
    table = table.assign(eleven=table["eleven_us"] / table["spmv_us"], both=table["twenty_four_us"] / table["spmv_us"])
    paid = _paid(context, table, inference)
    figure = drawing.figure(2.4, width=drawing.PAGE)
    cost_axis, ratio_axis = figure.subplots(1, 2)
    for position, (column, label) in enumerate((("eleven", "11 for SpMV"), ("both", "24 for SpMM"))):
        drawing.points(cost_axis, table["nnz"], table[column], label, position=position, s=9, alpha=0.8)
    drawing.points(ratio_axis, paid["nnz"], paid["ratio"], "ratio", s=9, alpha=0.8)
    for axis, label in ((cost_axis, "cost of the features (products)"), (ratio_axis, "$T_{naive}\\,/\\,T_{ML}$")):
        drawing.log_ratio_axis(axis)
        drawing.log_axis(axis, "x")
        axis.set(xlabel="nonzeros of A", ylabel=label)
        drawing.grid(axis)
    cost_axis.legend(loc="lower left")
    large = table[table["nnz"] >= _LARGE]
    middle = float(large["eleven"].median()) if len(large) else math.nan
    mean, most = float(paid["ratio"].mean()), float(paid["ratio"].max())
    first = paid[paid["nnz"] >= _LARGE]["ratio"]
    of_large = f"; {first.mean():.2f} for 10^6 nonzeros and more" if len(first) else ""
    claims = (
        Claim(
            "the eleven features cost about one product or less where there are 10^6 nonzeros and more",
            bool(middle <= 1.5),
            f"median {middle:.2g}, at most {large['eleven'].max():.2g}; below that up to {table['eleven'].max():.2g}"
            if len(large)
            else "there is no matrix of that size",
        ),
        Claim("inference takes a few microseconds", inference < 10, f"{inference:.1f} us on {cpu_name()}"),
        Claim(
            "choosing by the model beats trying all five numbers within five products on average",
            mean > 1,
            f"T_naive / T_ML is {mean:.2f} on average{of_large}, {most:.2f} at most, on {len(paid):,} matrices",
        ),
    )
    ours: dict[str, float | str] = {
        "cost of the features in products": "-" if math.isnan(middle) else f"{middle:.2g} (from 10^6 nonzeros)",
        "inference": f"{inference:.1f} us",
        "T_naive / T_ML: mean": mean,
        "T_naive / T_ML: greatest": most,
    }
    text = (
        "Left: time until the features of a matrix in GPU memory are on the host, over that of one product of "
        f"CSR-vector with 32 threads per row, on {len(table)} matrices. Right: five products that try all numbers of "
        "threads, over features, inference and five products with the predicted number (equations 6 and 7), for those "
        f"of these matrices that were held out in one of the shuffles; {len(paid)} of them."
    )
    caption = context.caption(text, SWEEP, table["matrix"])
    return Result([table, paid], figure, caption, judge(context.where(), *claims), ours)


def _inference(context: Context) -> float:
    """Return the microseconds of one inference by the model of the first shuffle."""
    model = shuffles(context)[0].model
    _, test = halves(context)
    X = np.stack([test.features[f"spmv_{name}"] for name in model.inputs], axis=1)
    return context.once("threads per row: inference", lambda: inference_microseconds(model, X))


def _paid(context: Context, costs: pd.DataFrame, inference: float) -> pd.DataFrame:
    """Return equations (6) and (7) for the held-out matrices with known costs, the mean over the shuffles."""
    dataset = matrices(context)
    naive = pd.Series(dataset.times.sum(axis=1), index=dataset.names).dropna()
    chosen = pd.concat([one.chosen.rows for one in shuffles(context)]).groupby("matrix")["chosen_us"].mean()
    frame = costs.set_index("matrix")[["nnz", "eleven_us"]].join(chosen, how="inner").join(naive.rename("naive_us"))
    frame = frame.dropna().rename_axis("matrix").reset_index()
    if frame.empty:
        raise context.missing(
            "matrices that the experiment 'features' measured too, with times of all five numbers of threads",
            SWEEP.command(),
        )
    frame["model_us"] = frame["eleven_us"] + inference + 5 * frame["chosen_us"]
    return frame.assign(ratio=frame["naive_us"] / frame["model_us"])

"""Mehrabi et al. (2021): models that choose the order of the rows, trained on the measurements at hand.

The measurements are those of the items without models: float32, both dense matrices column-major and B square, the L2
cache emptied before each product. Models are trained when the first item asks for them, on 80 % of the matrices, in
three splits (the paper has one); what is shown is how they choose on the matrices that were held out. Training takes
fewer and larger steps than `warploom.training.row_order.train` does, for 0.3 to 0.4 percentage points of loss.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from warploom.bench.oracle import PAPER_SPMM
from warploom.errors import ParameterError
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.registry import Printed, Sweep, register
from warploom.reproduce.result import Claim, Result, judge

if TYPE_CHECKING:
    from warploom.training._held_out import HeldOut
    from warploom.training.row_order import RowOrderStudy

__all__ = ["chosen_orders"]

_CLASSES = {
    "csr": "spmm/none/csr/c_stationary",
    "dcsr": "spmm/none/dcsr/c_stationary",
    "lpt": "spmm/lpt/csr/c_stationary",
    "warp-aware": "spmm/warp-aware/csr/c_stationary",
}
_SHOWN = {"csr": "CSR", "dcsr": "DCSR", "lpt": "LPT", "warp-aware": "warp-aware"}
_SWEEP = Sweep(PAPER_SPMM, "cold", _CLASSES)
_SPLITS = (0, 1, 2)
_SAMPLES = 100
_FEWEST = 20
_BATCHES, _EPOCHS, _RATE = 10, 60, 0.01


def chosen_orders(context: Context) -> RowOrderStudy:
    """Train the models of the paper, once for each context, and choose for held-out matrices.

    Raises
    ------
    MissingPackagesError
        PyTorch or scikit-learn are not installed.
    MissingMeasurementsError
        There are fewer than 20 matrices with the times of all four classes and their features.
    """
    return context.once("row orders", lambda: _study(context))


def _study(context: Context) -> RowOrderStudy:
    context.needs_training("torch", "sklearn", "lightgbm")
    times = context.times(_SWEEP)
    if len(times) < _FEWEST:
        raise context.missing(
            f"times of {', '.join(_CLASSES)} for {_FEWEST} matrices, which training needs; there are {len(times)}",
            _SWEEP.command(),
        )
    from warploom.training import row_order

    assert context.originals is not None  # or `times` would have raised
    techniques = {_SHOWN[name]: candidate for name, candidate in _CLASSES.items()}
    try:
        dataset, left_out = row_order.row_order_data(context.originals, _SWEEP.cache, techniques)
    except ParameterError as error:
        raise context.missing(f"features of the matrices ({error})", _SWEEP.command()) from error
    batch = max(4, int(0.8 * len(dataset)) // _BATCHES)
    regression, classifier = (
        dataclasses.replace(options, rate=_RATE, epochs=_EPOCHS, batch=batch)
        for options in (row_order.REGRESSION, row_order.CLASSIFIER)
    )
    return row_order.study(
        dataset,
        techniques,
        left_out=left_out,
        seeds=_SPLITS,
        regression=regression,
        classifier=classifier,
        topologies=row_order.TOPOLOGIES,
        samples=_SAMPLES,
    )


def _caption(context: Context, study: RowOrderStudy, text: str) -> str:
    rows = study.regression.rows
    splits = rows["split"].nunique()
    tested = (
        f" {study.matrices - len(rows) // splits:,} matrices to train and {len(rows) // splits:,} to test in each of "
        f"{splits} splits; {study.left_out:,} more lack a time."
    )
    return context.caption(f"{text}{tested}", _SWEEP, study.matrices)


# ----- M-F11 -----


@register(
    "M-F11",
    "Shares of the four classes in the training set",
    "Fig. 11",
    "The classes are highly imbalanced, so that weights are needed.",
    sweeps=[_SWEEP],
)
def populations(context: Context) -> Result:
    """Count the training matrices of each class, and weight the classes."""
    study = chosen_orders(context)
    found = study.populations
    first = found[found["split"] == 0].set_index("class")
    shares = first["share"]
    figure = drawing.figure(1.9)
    axis = figure.subplots()
    axis.bar(range(4), shares, color=[drawing.COLOURS[name] for name in _SHOWN])
    for place, row in enumerate(first.itertuples()):
        axis.annotate(f"{row.matrices:,}\nweight {row.weight:.2f}", (place, row.share), ha="center", va="bottom")
    axis.set_xticks(range(4), list(first.index))
    axis.margins(y=0.28)
    axis.set_ylabel("share of the training matrices\non which it is the fastest")
    drawing.percent(axis)
    ratio = shares.max() / shares.min() if shares.min() > 0 else float("inf")
    claims = (
        Claim(
            "the classes are highly imbalanced",
            bool(ratio >= 3),
            f"{shares.idxmax()} has {shares.max():.0%} of the matrices, {shares.idxmin()} {shares.min():.0%}",
        ),
    )
    text = (
        "Training matrices of the first split by the fastest of the four classes, and the weights of the classes, "
        "which are inverse to the populations."
    )
    return Result([found], figure, _caption(context, study, text), judge(context.where(), *claims))


# ----- M-F12 -----

_LIMIT = 50


@register(
    "M-F12",
    "Distribution of the errors of predicted times",
    "Fig. 12",
    "About 70 % of the predicted times are off by less than 10 %, fewer than 30 % by less than 2 %.",
    sweeps=[_SWEEP],
    printed=[
        Printed("share of errors below 10 %", 0.70, "Sec. V-D", ".0%"),
        Printed("share of errors below 2 %", "below 30 %", "Sec. V-D"),
    ],
)
def errors(context: Context) -> Result:
    """Draw the distribution of the errors of every class."""
    study = chosen_orders(context)
    shares = study.error_distribution(tuple(np.arange(0, _LIMIT + 0.5, 0.5)))
    figure = drawing.figure(2.2)
    axis = figure.subplots()
    styles = ("-", "--", "-.", ":")
    for (name, label), style in zip(_SHOWN.items(), styles, strict=True):
        axis.plot(shares.index, shares[label], style, color=drawing.COLOURS[name], label=label)
    axis.axvline(10, color="#777777", linewidth=0.7)
    axis.set(xlabel="absolute error of the predicted time (%)", ylabel="share of predictions", xlim=(0, _LIMIT))
    axis.set_ylim(0, 1)
    drawing.percent(axis)
    drawing.grid(axis)
    axis.legend(loc="lower right")
    below = {limit: float((study.predicted["error"] < limit / 100).mean()) for limit in (2, 10)}
    claims = (
        Claim("70 % of the predicted times are off by less than 10 %", below[10] >= 0.7, f"{below[10]:.1%}"),
        Claim("fewer than 30 % are off by less than 2 %", below[2] < 0.3, f"{below[2]:.1%}"),
    )
    text = "Cumulative distribution of abs(predicted / measured - 1) of the times that the network predicts."
    ours: dict[str, float | str] = {
        "share of errors below 10 %": below[10],
        "share of errors below 2 %": f"{100 * below[2]:.0f} %",
    }
    frame = shares.reset_index()
    return Result([frame], figure, _caption(context, study, text), judge(context.where(), *claims), ours)


# ----- M-F13, M-F14 -----


@register(
    "M-F13",
    "Confusion matrix with mean losses",
    "Fig. 13",
    "82 % of the matrices are put into the right class, and most of the others lose less than 10 %.",
    sweeps=[_SWEEP],
    printed=[Printed("matrices in the right class", 0.82, "Sec. V-D, GV100", ".0%")],
)
def confusion(context: Context) -> Result:
    """Count what was chosen for what was best."""
    study = chosen_orders(context)
    cells = study.regression.confusion()
    names = list(_SHOWN.values())
    counts = cells.pivot(index="optimal", columns="chosen", values="matrices").loc[names, names]
    losses = cells.pivot(index="optimal", columns="chosen", values="mean_loss").loc[names, names]
    figure = drawing.figure(2.5)
    axis = figure.subplots()
    axis.imshow(counts, cmap="Blues", vmin=0)
    darkest = counts.to_numpy().max()
    for i in range(len(names)):
        for j in range(len(names)):
            count, loss = counts.iloc[i, j], losses.iloc[i, j]
            text = f"{count:,}\n{100 * loss:.1f} %" if count else "0"
            axis.text(j, i, text, ha="center", va="center", color="white" if count > 0.55 * darkest else "black")
    axis.set_xticks(range(len(names)), names)
    axis.set_yticks(range(len(names)), names)
    axis.set(xlabel="chosen class", ylabel="fastest class")
    rows = study.regression.rows
    right, merged = float((rows["loss"] == 0).mean()), float((rows["merged_loss"] == 0).mean())
    wrong = rows.loc[rows["loss"] > 0, "loss"]
    within = float((wrong < 0.1).mean()) if len(wrong) else 1.0
    claims = (
        Claim(
            "about 82 % of the matrices are put into the right class",
            right >= 0.8,
            f"{right:.0%}, or {merged:.0%} where a choice that repeated measurements cannot tell from the fastest "
            "counts as right",
        ),
        Claim("most of the others lose less than 10 %", within > 0.5, f"{within:.0%} of them"),
    )
    text = (
        "Choices for the held-out matrices of all splits: how many, and the mean loss against the fastest class "
        "(chosen time / least time - 1)."
    )
    ours = {"matrices in the right class": right}
    tables = [cells, study.regression.confusion(merge=True), rows]
    return Result(tables, figure, _caption(context, study, text), judge(context.where(), *claims), ours)


_LOSSES = (0, 1, 2, 4, 6, 8, 10, 20)
"""Upper ends of the bars, in per cent."""


@register(
    "M-F14",
    "Loss against the oracle",
    "Fig. 14",
    "The choices lose 3.8 % against the oracle on average; 86 % of them less than 4 %. They keep 96 % of its gain.",
    sweeps=[_SWEEP],
    printed=[
        Printed("mean loss", 0.038, "Sec. V-D", ".1%"),
        Printed("share within 4 %", 0.86, "Sec. V-D", ".0%"),
        Printed("share within 10 %", 0.90, "Sec. V-D", ".0%"),
        Printed("mean speedup, predicted", 1.37, "Sec. V-D, GV100", ".3f"),
        Printed("mean speedup, oracle", 1.41, "Sec. V-D, GV100", ".3f"),
    ],
)
def loss(context: Context) -> Result:
    """Draw the distribution of the losses."""
    study = chosen_orders(context)
    table, rows = study.regression.loss_histogram(_LOSSES), study.regression.rows
    shares = table[["matrices", "merged"]] / len(rows)
    figure = drawing.figure(2.2)
    axis = figure.subplots()
    places = np.arange(len(table))
    axis.bar(places - 0.2, shares["matrices"], 0.4, color=drawing.COLOURS["lpt"], label="as measured")
    axis.bar(places + 0.2, shares["merged"], 0.4, color=drawing.COLOURS["dcsr"], label="near-ties without loss")
    ends = table["up_to"].to_list()
    labels = ["0", *(f"to {end:g}" for end in ends[1:-1]), f"above {ends[-2]:g}"]
    axis.set_xticks(places, labels, rotation=45, ha="right")
    axis.set(xlabel="loss against the oracle (%)", ylabel="share of the choices")
    drawing.percent(axis)
    axis.legend(loc="upper right")
    figures = study.regression.figures
    raw, merged = figures["raw"], figures["merged"]
    claims = (
        Claim(
            "choices lose at most 3.8 % on average",
            bool(raw["mean_loss"] <= 0.038),
            f"{raw['mean_loss']:.1%}, or {merged['mean_loss']:.1%} with near-ties without loss",
        ),
        Claim("86 % of them are within 4 % of the oracle", bool(raw["within_4"] >= 0.86), f"{raw['within_4']:.0%}"),
        Claim("90 % of them are within 10 %", bool(raw["within_10"] >= 0.9), f"{raw['within_10']:.0%}"),
        Claim(
            "they keep 96 % of the oracle's gain",
            bool(raw["gain_share"] >= 0.955),
            f"{raw['gain_share']:.0%} of a gain of {raw['oracle_speedup'] - 1:.1%}; {merged['gain_share']:.0%} of the "
            f"{merged['oracle_speedup'] - 1:.1%} that are beyond near-ties",
        ),
    )
    text = (
        "Losses of the choices for held-out matrices (chosen time / least time - 1), by networks that are trained for "
        f"{_EPOCHS} epochs; warploom.training.row_order.train takes more."
    )
    ours = {
        "mean loss": float(raw["mean_loss"]),
        "share within 4 %": float(raw["within_4"]),
        "share within 10 %": float(raw["within_10"]),
        "mean speedup, predicted": float(raw["speedup"]),
        "mean speedup, oracle": float(raw["oracle_speedup"]),
    }
    tables = [table.assign(share=shares["matrices"], merged_share=shares["merged"]), figures.reset_index()]
    return Result(tables, figure, _caption(context, study, text), judge(context.where(), *claims), ours)


# ----- M-cls, M-sens -----


def _difference(first: HeldOut, second: HeldOut) -> tuple[float, float, float]:
    """Return by how much the first one's mean loss is greater, and a 95 % bootstrap interval over the matrices."""
    rows = first.rows
    pairs = pd.DataFrame({"group": rows["group"], "more": rows["loss"] - second.rows["loss"], "count": 1})
    of_groups = pairs.groupby("group").sum().to_numpy()
    random = np.random.default_rng(0)
    drawn = [of_groups[random.integers(0, len(of_groups), len(of_groups))].sum(axis=0) for _ in range(1000)]
    low, high = np.percentile([more / count for more, count in drawn], (2.5, 97.5))
    return float(pairs["more"].mean()), float(low), float(high)


def _less(name: str, first: HeldOut, second: HeldOut) -> Claim:
    """Claim that the first one's choices lose less, which they do if that is not by the choice of matrices."""
    loss, other = (one.figures.loc["mean_loss", "raw"] for one in (first, second))
    more, low, high = _difference(second, first)
    found = (
        f"{loss:.2%} against {other:.2%}, a difference of {100 * more:.2f} percentage points with a 95 % interval "
        f"from {100 * low:.2f} to {100 * high:.2f}"
    )
    return Claim(name, low > 0, found)


def _compared(study: RowOrderStudy, models: dict[str, str]) -> pd.DataFrame:
    """Return a line for each model, and one for each class taken always."""
    rows = []
    for name, attribute in models.items():
        figures = getattr(study, attribute).figures
        raw, merged = figures["raw"], figures["merged"]
        rows.append((name, raw["speedup"], raw["mean_loss"], merged["mean_loss"], raw["accuracy"], raw["within_4"]))
    frame = pd.DataFrame(
        rows,
        columns=["choice", "mean speedup", "mean loss", "without near-ties", "right class", "within 4 %"],
    )
    always = study.always.rename(
        columns={"speedup": "mean speedup", "mean_loss": "mean loss", "merged_mean_loss": "without near-ties"}
    )
    always["choice"] = "always " + always.pop("class")
    oracle = study.regression.figures.loc["oracle_speedup", "raw"]
    best = pd.DataFrame([("oracle", oracle, 0.0, 0.0, 1.0, 1.0)], columns=frame.columns)
    return pd.concat([frame, always[[*frame.columns[:4]]], best], ignore_index=True)


_FORMATS = {
    "mean speedup": ".3f",
    "mean loss": ".2%",
    "without near-ties": ".2%",
    "right class": ".0%",
    "within 4 %": ".0%",
}


@register(
    "M-cls",
    "Direct classifier on the same features",
    "Sec. V-B",
    "A network that predicts the class directly is within 4 to 5 % of the oracle, somewhat worse than predicted times.",
    sweeps=[_SWEEP],
    printed=[Printed("loss", "4 to 5 %", "Sec. V-B")],
)
def classifier(context: Context) -> Result:
    """Compare the classifier with the network that predicts times, and both with warploom's own kind of model."""
    study = chosen_orders(context)
    models = {"predicted times": "regression", "softmax classifier": "classifier", "boosted trees": "boosted"}
    frame = _compared(study, models)
    loss = frame.set_index("choice")["mean loss"]
    direct = loss["softmax classifier"]
    claims = (
        Claim("the classifier is within 5 % of the oracle", bool(direct <= 0.05), f"mean loss {direct:.1%}"),
        _less("choosing by predicted times loses less", study.regression, study.classifier),
    )
    text = (
        "Choices for held-out matrices; loss is chosen time / least time - 1. Boosted trees are warploom's own kind of "
        "model, not the paper's."
    )
    figure = drawing.table(frame, _FORMATS)
    caption = _caption(context, study, text)
    return Result([frame], figure, caption, judge(context.where(), *claims), {"loss": f"{100 * direct:.1f} %"})


@register(
    "M-sens",
    "Features of the matrix alone against all 24",
    "Sec. V-E",
    "Without the features of load balance and data locality most of the gain is lost.",
    sweeps=[_SWEEP],
    printed=[
        Printed("mean speedup, matrix features", 1.10, "Sec. V-E", ".3f"),
        Printed("mean speedup, all features", 1.37, "Sec. V-E", ".3f"),
        Printed("mean loss, matrix features", 0.31, "Sec. V-E", ".1%"),
        Printed("mean loss, all features", 0.038, "Sec. V-E", ".1%"),
    ],
)
def sensitivity(context: Context) -> Result:
    """Compare networks with and without the features of load balance and data locality."""
    study = chosen_orders(context)
    frame = _compared(study, {"all 24 features": "regression", "9 features of the matrix": "matrix_only"})
    lines = frame.set_index("choice")
    every, alone = lines.loc["all 24 features"], lines.loc["9 features of the matrix"]
    gain = study.matrix_only.figures.loc["gain_share", "raw"]
    claims = (
        _less("with load balance and data locality less is lost", study.regression, study.matrix_only),
        Claim("most of the gain is lost", bool(gain < 0.5), f"{gain:.0%} of it is kept"),
    )
    text = "Choices by predicted times for held-out matrices; loss is chosen time / least time - 1."
    ours = {
        "mean speedup, matrix features": float(alone["mean speedup"]),
        "mean speedup, all features": float(every["mean speedup"]),
        "mean loss, matrix features": float(alone["mean loss"]),
        "mean loss, all features": float(every["mean loss"]),
    }
    figure = drawing.table(frame, _FORMATS)
    return Result([frame], figure, _caption(context, study, text), judge(context.where(), *claims), ours)


# ----- M-F15 -----

_BY_LAYERS = ("#56B4E9", "#0072B2", "#D55E00")


@register(
    "M-F15",
    "Loss against network topology",
    "Fig. 15",
    "A second hidden layer improves the choices, a third one does not.",
    sweeps=[_SWEEP],
)
def topologies(context: Context) -> Result:
    """Compare topologies of the network that predicts times."""
    study = chosen_orders(context)
    frame = study.topologies
    figure = drawing.figure(2.3)
    axis = figure.subplots()
    _with_intervals(axis, frame)
    one, two, three = (_least(frame, layers) for layers in (1, 2, 3))
    claims = (
        Claim(
            "a second hidden layer improves the choices beyond the intervals",
            bool(two["mean_loss_high"] < one["mean_loss"]),
            f"least mean loss {_interval(one)} with one, {_interval(two)} with two",
        ),
        Claim(
            "a third one does not",
            bool(three["mean_loss_high"] >= two["mean_loss"]),
            f"{_interval(three)} with three",
        ),
    )
    text = (
        "Mean loss against the oracle by neurons in the hidden layers; bars are 95 % bootstrap intervals over the "
        "held-out matrices."
    )
    return Result([frame], figure, _caption(context, study, text), judge(context.where(), *claims))


def _least(frame: pd.DataFrame, layers: int) -> pd.Series:
    of_layers = frame[frame["layers"] == layers]
    return of_layers.loc[of_layers["mean_loss"].idxmin()]


def _interval(row: pd.Series) -> str:
    return f"{row['mean_loss']:.2%} [{100 * row['mean_loss_low']:.2f}, {100 * row['mean_loss_high']:.2f}]"


def _with_intervals(axis: Axes, frame: pd.DataFrame) -> None:
    places = np.arange(len(frame))
    low, high = frame["mean_loss"] - frame["mean_loss_low"], frame["mean_loss_high"] - frame["mean_loss"]
    colours = [_BY_LAYERS[layers - 1] for layers in frame["layers"]]
    axis.bar(places, 100 * frame["mean_loss"], color=colours, width=0.7)
    axis.errorbar(
        places, 100 * frame["mean_loss"], 100 * np.array([low, high]), fmt="none", ecolor="black", elinewidth=0.8
    )
    axis.set_xticks(places, list(frame["topology"]), rotation=45, ha="right")
    axis.set(xlabel="neurons in the hidden layers", ylabel="mean loss (%)")
    handles = [Patch(color=colour, label=f"{n} layer{'s'[: n - 1]}") for n, colour in enumerate(_BY_LAYERS, start=1)]
    axis.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 1.18), ncols=3)
    drawing.grid(axis, "y")

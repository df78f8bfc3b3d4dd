"""Mehrabi et al. (2021): other models than the paper's network, with fewer features or other layers."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.held_out import HeldOut
from warploom.reproduce.mehrabi2021.study import RowOrderStudy
from warploom.reproduce.mehrabi2021.trained import SWEEP, chosen_orders, trained_caption
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge

__all__: list[str] = []


# ----- M-cls, M-sens -----


def _difference(first: HeldOut, second: HeldOut) -> tuple[float, float, float]:
    """Return by how much the first one's mean loss is larger, with a 95 % bootstrap interval over the matrices."""
    rows = first.rows
    pairs = pd.DataFrame({"group": rows["group"], "more": rows["loss"] - second.rows["loss"], "count": 1})
    of_groups = pairs.groupby("group").sum().to_numpy()
    random = np.random.default_rng(0)
    drawn = [of_groups[random.integers(0, len(of_groups), len(of_groups))].sum(axis=0) for _ in range(1000)]
    low, high = np.percentile([more / count for more, count in drawn], (2.5, 97.5))
    return float(pairs["more"].mean()), float(low), float(high)


def _less(name: str, first: HeldOut, second: HeldOut) -> Claim:
    """Claim that the first one's choices lose less, beyond what the choice of matrices explains."""
    loss, other = (one.figures.loc["mean_loss", "raw"] for one in (first, second))
    more, low, high = _difference(second, first)
    found = (
        f"{loss:.2%} against {other:.2%}, a difference of {100 * more:.2f} percentage points with a 95 % interval "
        f"from {100 * low:.2f} to {100 * high:.2f}"
    )
    return Claim(name, low > 0, found)


def _compared(study: RowOrderStudy, models: dict[str, str]) -> pd.DataFrame:
    """Return a row for each model, and one for always taking each class."""
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
    sweeps=[SWEEP],
    printed=[Printed("loss", "4 to 5 %", "Sec. V-B")],
    position=14.3,
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
    caption = trained_caption(context, study, text)
    return Result([frame], figure, caption, judge(context.where(), *claims), {"loss": f"{100 * direct:.1f} %"})


@register(
    "M-sens",
    "Features of the matrix alone against all 24",
    "Sec. V-E",
    "Without the features of load balance and data locality most of the gain is lost.",
    sweeps=[SWEEP],
    printed=[
        Printed("mean speedup, matrix features", 1.10, "Sec. V-E", ".3f"),
        Printed("mean speedup, all features", 1.37, "Sec. V-E", ".3f"),
        Printed("mean loss, matrix features", 0.31, "Sec. V-E", ".1%"),
        Printed("mean loss, all features", 0.038, "Sec. V-E", ".1%"),
    ],
    position=14.6,
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
    return Result([frame], figure, trained_caption(context, study, text), judge(context.where(), *claims), ours)


# ----- M-F15 -----

_BY_LAYERS = ("#56B4E9", "#0072B2", "#D55E00")


@register(
    "M-F15",
    "Loss against network topology",
    "Fig. 15",
    "A second hidden layer improves the choices, a third one does not.",
    sweeps=[SWEEP],
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
            f"minimum mean loss {_interval(one)} with one, {_interval(two)} with two",
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
    return Result([frame], figure, trained_caption(context, study, text), judge(context.where(), *claims))


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

"""Mehrabi et al. (2021): row orders by predicted times."""

from __future__ import annotations

import numpy as np

from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.mehrabi2021.trained import CLASSES, EPOCHS, SWEEP, chosen_orders, trained_caption
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge

__all__: list[str] = []


# ----- M-F11 -----


@register(
    "M-F11",
    "Shares of the four classes in the training set",
    "Fig. 11",
    "The classes are highly imbalanced, so that weights are needed.",
    sweeps=[SWEEP],
)
def populations(context: Context) -> Result:
    """Count the training matrices of each class, and weight the classes."""
    study = chosen_orders(context)
    found = study.populations
    first = found[found["split"] == 0].set_index("class")
    shares = first["share"]
    figure = drawing.figure(1.9)
    axis = figure.subplots()
    axis.bar(range(4), shares, color=[drawing.COLOURS[name] for name in CLASSES])
    for place, row in enumerate(first.itertuples()):
        axis.annotate(f"{row.matrices:,}\nweight {row.weight:.2f}", (place, row.share), ha="center", va="bottom")
    axis.set_xticks(range(4), list(first.index))
    axis.margins(y=0.28)
    axis.set_ylabel("share of the training matrices\non which it is the fastest")
    drawing.percent(axis)
    ties = _near_ties(context)
    ratio = shares.max() / shares.min() if shares.min() > 0 else float("inf")
    claims = (
        Claim(
            "the classes are highly imbalanced",
            bool(ratio >= 3),
            f"{shares.idxmax()} has {shares.max():.0%} of the matrices, {shares.idxmin()} {shares.min():.0%}",
        ),
        Claim(
            "the class of most matrices is more than noise",
            ties < 0.5,
            f"on {ties:.0%} another class is within the repeatability of the measurements of the fastest",
        ),
    )
    text = (
        "Training matrices of the first split by the fastest of the four classes, and the weights of the classes, "
        "which are inverse to the populations."
    )
    return Result([found], figure, trained_caption(context, study, text), judge(context.where(), *claims))


def _near_ties(context: Context) -> float:
    """Return the share of the matrices on which a second class is within noise of the fastest."""
    times = context.times(SWEEP)[list(CLASSES)].to_numpy()
    least = times.min(axis=1)
    within = context.tolerances
    limit = least if within is None else least * np.exp(within(SWEEP.cache, least))
    return float(((times <= limit[:, None]).sum(axis=1) > 1).mean())


# ----- M-F12 -----

_LIMIT = 50


@register(
    "M-F12",
    "Distribution of the errors of predicted times",
    "Fig. 12",
    "About 70 % of the predicted times are off by less than 10 %, fewer than 30 % by less than 2 %.",
    sweeps=[SWEEP],
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
    for (name, label), style in zip(CLASSES.items(), styles, strict=True):
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
    return Result([frame], figure, trained_caption(context, study, text), judge(context.where(), *claims), ours)


# ----- M-F13, M-F14 -----


@register(
    "M-F13",
    "Confusion matrix with mean losses",
    "Fig. 13",
    "82 % of the matrices are put into the right class, and most of the others lose less than 10 %.",
    sweeps=[SWEEP],
    printed=[Printed("matrices in the right class", 0.82, "Sec. V-D, GV100", ".0%")],
)
def confusion(context: Context) -> Result:
    """Count the chosen class for each fastest class."""
    study = chosen_orders(context)
    cells = study.regression.confusion()
    names = list(CLASSES.values())
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
            f"{right:.0%}, or {merged:.0%} where a choice within repeatability of the fastest counts as right",
        ),
        Claim("most of the others lose less than 10 %", within > 0.5, f"{within:.0%} of them"),
    )
    text = (
        "Choices for the held-out matrices of all splits: how many, and the mean loss against the fastest class "
        "(chosen time / least time - 1)."
    )
    ours = {"matrices in the right class": right}
    tables = [cells, study.regression.confusion(merge=True), rows]
    return Result(tables, figure, trained_caption(context, study, text), judge(context.where(), *claims), ours)


_LOSSES = (0, 1, 2, 4, 6, 8, 10, 20)
"""Upper ends of the bars, in per cent."""


@register(
    "M-F14",
    "Loss against the oracle",
    "Fig. 14",
    "The choices lose 3.8 % against the oracle on average; 86 % of them less than 4 %. They keep 96 % of its gain.",
    sweeps=[SWEEP],
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
        f"{EPOCHS} epochs; warploom.training.row_order.train takes more."
    )
    ours = {
        "mean loss": float(raw["mean_loss"]),
        "share within 4 %": float(raw["within_4"]),
        "share within 10 %": float(raw["within_10"]),
        "mean speedup, predicted": float(raw["speedup"]),
        "mean speedup, oracle": float(raw["oracle_speedup"]),
    }
    tables = [table.assign(share=shares["matrices"], merged_share=shares["merged"]), figures.reset_index()]
    return Result(tables, figure, trained_caption(context, study, text), judge(context.where(), *claims), ours)

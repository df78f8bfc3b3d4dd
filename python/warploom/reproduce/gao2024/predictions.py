"""Gao et al. (2024): threads per row that models predict for whole matrices."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.csr_vector import VECTOR
from warploom.reproduce.gao2024.trained import SWEEP, shuffles, trained_caption
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge

__all__ = ["misprediction_picture"]


# ----- G-T4 -----


@register(
    "G-T4",
    "Accuracy, losses and gains of the predicted threads per row",
    "Table 4",
    "Predicted threads per row are right for more than 80 % of the matrices, lose 1.2 % at most, and gain 18 to 168 % "
    "over fixed numbers and formulas.",
    sweeps=[SWEEP],
    printed=[
        Printed("accuracy", "82.48 to 85.41 %", "V100, four shuffles"),
        Printed("PLUB", "0.45 to 0.57 %", "V100, four shuffles"),
        Printed("PGO(2)", "149 to 168 %", "V100, four shuffles"),
        Printed("PGO(16)", "18 to 21 %", "V100, four shuffles"),
        Printed("PGO(32)", "37 to 42 %", "V100, four shuffles"),
        Printed("PGO(mean)", "24 to 28 %", "V100, four shuffles"),
        Printed("PGO(SqMean)", "86 to 99 %", "V100, four shuffles"),
    ],
    position=3.6,
)
def accuracy(context: Context) -> Result:
    """Tabulate accuracy, loss and gains of every shuffle."""
    found = shuffles(context)
    frame = pd.DataFrame([one.row() for one in found]).drop(columns="within_2")
    gains = [name for name in frame if str(name).startswith("PGO")]
    means = frame[[*gains, "accuracy", "merged_accuracy", "PLUB"]].mean()
    claims = (
        Claim(
            "predicted threads per row are right for more than 80 % of the matrices",
            bool(means["accuracy"] > 0.8),
            f"{means['accuracy']:.1%}, {_percentages(100 * frame['accuracy'])} in the shuffles; "
            f"{means['merged_accuracy']:.1%} where a choice within repeatability of the best "
            "counts as right",
        ),
        Claim(
            "they lose at most 1.2 %",
            bool(means["PLUB"] <= 1.2),
            f"{means['PLUB']:.2f} %, {_percentages(frame['PLUB'], 2)} in the shuffles",
        ),
        Claim(
            "they gain at least 18 % over every fixed number and formula",
            bool(means[gains].min() >= 18),
            f"{means[gains].min():.0f} % over {means[gains].idxmin()[4:-1]} to {means[gains].max():.0f} % over "
            f"{means[gains].idxmax()[4:-1]}",
        ),
    )
    ours: dict[str, float | str] = {name: _percentages(frame[name], 0) for name in gains}
    ours |= {"accuracy": _percentages(100 * frame["accuracy"], 2), "PLUB": _percentages(frame["PLUB"], 2)}
    shown = frame.assign(shuffle=frame["shuffle"] + 1).rename(
        columns={"merged_accuracy": "near-ties\nmerged", "PLUB": "PLUB\n(%)", **{n: _head(n) for n in gains}}
    )
    formats = {"accuracy": ".1%", "near-ties\nmerged": ".1%", "PLUB\n(%)": ".2f", **{_head(n): ".1f" for n in gains}}
    text = (
        "Choices for held-out matrices in four shuffles: the family that cross-validation picked, share of the optima "
        "found, mean loss (PLUB) and mean gains over other choices (PGO), in percent. The parameters of the families "
        "are fixed; warploom.training.threads_per_row.train searches them."
    )
    families = pd.concat([one.families.assign(shuffle=one.seed + 1) for one in found], ignore_index=True)
    tables = [frame, families, pd.concat([one.chosen.rows for one in found], ignore_index=True)]
    caption = trained_caption(context, text)
    return Result(tables, drawing.table(shown, formats), caption, judge(context.where(), *claims), ours)


def _head(gain: str) -> str:
    return f"PGO\n{gain[4:-1]}"


def _percentages(values: pd.Series, digits: int = 1) -> str:
    low, high = f"{values.min():.{digits}f}", f"{values.max():.{digits}f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


# ----- G-F6, G-T5 -----

_RANGES = ("to 10^4", "10^4 to 10^5", "10^5 to 10^6", "10^6 to 10^7", "10^7 to 10^8", "above 10^8")


_SHORT_RANGES = ("≤ $10^4$", *(f"$10^{n}$\N{EN DASH}$10^{n + 1}$" for n in (4, 5, 6, 7)), "> $10^8$")
_PAPER_PLUB = {"mean": (18.51, 35.46, 29.36, 8.01, 39.10, 3.06), "ML": (0.55, 0.43, 1.00, 0.12, 0.67, 0.02)}
"""Table 5, V100."""

_FORMULAS = {"mean": ("#D55E00", "D"), "SqMean": ("#CC79A7", "X")}


@register(
    "G-F6",
    "Gains over fixed threads per row by nonzeros",
    "Fig. 6",
    "Predicted threads per row gain over every other choice, most of all on matrices of moderate size.",
    sweeps=[SWEEP],
)
def gains(context: Context) -> Result:
    """Draw the mean gains over every other choice for every range of nonzeros."""
    found = shuffles(context)[0].by_nnz
    known = found[found["matrices"] > 0]
    figure = drawing.figure(2.7)
    axis = figure.subplots()
    names = [*VECTOR, *_FORMULAS]
    for position, name in enumerate(names):
        colour, marker = _FORMULAS.get(name, (drawing.colour(name), drawing.MARKERS[position]))
        axis.plot(known.index, 1 + known[f"PGO({name})"] / 100, color=colour, marker=marker, label=name)
    drawing.log_ratio_axis(axis)
    labels = [f"{_SHORT_RANGES[int(place)]}\n({count:,})" for place, count in known["matrices"].items()]
    axis.set_xticks(list(known.index), labels)
    axis.set(xlabel="nonzeros (matrices)", ylabel="mean speedup over that choice")
    axis.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.28))
    drawing.grid(axis, "y")
    by_range = known[[f"PGO({name})" for name in names]]
    ahead = float((by_range > 0).sum(axis=None) / by_range.notna().sum(axis=None))
    overall = by_range.mean(axis=1)
    claims = (
        Claim(
            "predicted threads per row gain over every other choice in every range of nonzeros that has matrices",
            ahead == 1,
            f"in {ahead:.0%} of the cases, {by_range.min(axis=None):.1f} to {by_range.max(axis=None):.0f} %",
        ),
        Claim(
            "they gain less on the smallest matrices than on those of moderate size",
            bool(len(overall) > 1 and overall.iloc[0] < overall.iloc[1:].max()),
            f"{overall.iloc[0]:.0f} % for the smallest, at most {overall.max():.0f} %, the mean over all choices",
        ),
    )
    text = "Mean time with another choice over that with the predicted threads, which is 1 + PGO; first shuffle."
    verdict = judge(context.where(), *claims, untested=_empty_ranges(found))
    return Result([found], figure, trained_caption(context, text), verdict)


def _empty_ranges(found: pd.DataFrame) -> list[str]:
    """Say which ranges of nonzeros have no matrices."""
    empty = [_RANGES[int(place)] for place in found.index[found["matrices"] == 0]]
    return [f"matrices with nonzeros {' or '.join(empty)}, of which there are none"] if empty else []


@register(
    "G-T5",
    "Losses by nonzeros",
    "Table 5",
    "The predicted threads per row lose little for every size of matrices, the formulas tens of percent.",
    sweeps=[SWEEP],
    printed=[
        Printed(f"{name}, {size}", value, "Table 5, V100, percent")
        for name, values in _PAPER_PLUB.items()
        for size, value in zip(_RANGES, values, strict=True)
    ],
    position=6.5,
)
def losses(context: Context) -> Result:
    """Tabulate the mean losses of every range of nonzeros."""
    found = shuffles(context)[0].by_nnz
    frame = pd.DataFrame(
        {
            "nonzeros": _RANGES,
            "matrices": found["matrices"],
            "mean": found["PLUB(mean)"],
            "SqMean": found["PLUB(SqMean)"],
            "ML": found["PLUB"],
        }
    )
    ours = {
        f"{name}, {size}": float(value)
        for name in _PAPER_PLUB
        for size, value in zip(_RANGES, frame[name], strict=True)
    }
    known = frame[frame["matrices"] > 0]
    claims = (
        Claim(
            "the predicted threads per row lose at most 1 % in every range of nonzeros that has matrices",
            bool(known["ML"].max() <= 1.0),
            f"{known['ML'].min():.2f} to {known['ML'].max():.2f} %",
        ),
        Claim(
            "either formula loses more in every range",
            bool((known[["mean", "SqMean"]].min(axis=1) > known["ML"]).all()),
            f"{known[['mean', 'SqMean']].min(axis=None):.0f} to {known[['mean', 'SqMean']].max(axis=None):.0f} %",
        ),
    )
    text = "Mean loss (PLUB) in percent by nonzeros, of the formulas and of the model; first shuffle."
    figure = drawing.table(frame, {"matrices": ",.0f", **dict.fromkeys(("mean", "SqMean", "ML"), ".2f")})
    verdict = judge(context.where(), *claims, untested=_empty_ranges(found))
    return Result([frame], figure, trained_caption(context, text), verdict, ours)


# ----- G-F7 -----


@register(
    "G-F7",
    "Mispredictions by loss",
    "Fig. 7",
    "Most wrong predictions lose less than 2 %, few more than 6 %.",
    sweeps=[SWEEP],
)
def mispredictions(context: Context) -> Result:
    """Draw how much wrong choices lose."""
    table = shuffles(context)[0].mispredictions
    text = "Choices that are not the optimum, by their loss, of the model and of the formulas; first shuffle."
    wrong = int(table["matrices"].sum())
    small, large = int(table["matrices"].iloc[0]), int(table["matrices"].iloc[2:].sum())
    claims = (
        Claim("most wrong predictions lose at most 2 %", 2 * small > wrong or not wrong, f"{small} of {wrong}"),
        Claim("few of them lose more than 6 %", large <= 0.15 * wrong, f"{large} of {wrong}"),
    )
    figure = misprediction_picture(table)
    return Result([table], figure, trained_caption(context, text), judge(context.where(), *claims))


def misprediction_picture(table: pd.DataFrame) -> Figure:
    """Draw bars of the wrong choices of the model and of both formulas, by their loss."""
    figure = drawing.figure(2.2)
    axis = figure.subplots()
    places = np.arange(len(table))
    columns = {"matrices": ("model", "#0072B2"), "mean": ("mean", "#D55E00"), "SqMean": ("SqMean", "#CC79A7")}
    for position, (column, (label, colour)) in enumerate(columns.items()):
        wrong = table[column].sum()
        bars = axis.bar(places + 0.27 * (position - 1), table[column], 0.27, color=colour, label=f"{label}: {wrong:,}")
        axis.bar_label(bars, [f"{count:,}" for count in table[column]])
    labels = [
        f"above {low:g}" if math.isinf(high) else f"{low:g} to {high:g}"
        for low, high in zip(table["above"], table["up_to"], strict=True)
    ]
    axis.set_xticks(places, labels)
    axis.set(xlabel="loss (PLUB, %)", ylabel="wrong choices")
    axis.margins(y=0.12)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=3)
    return figure

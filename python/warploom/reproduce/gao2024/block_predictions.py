"""Gao et al. (2024): threads per row that models predict for blocks of short rows."""

from __future__ import annotations

import math

import pandas as pd

from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.gao2024.predictions import misprediction_picture
from warploom.reproduce.gao2024.trained import SWEEP, blocks
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.training.threads_per_row import whole_name

__all__: list[str] = []


def _blocks_caption(context: Context, text: str) -> str:
    study = blocks(context)
    train, test = int(study.optima["blocks"].sum()), len(study.result.chosen.rows)
    unknown = f" {study.unknown:,} blocks of matrices that were not measured as a whole are left out." * (
        study.unknown > 0
    )
    tested = f"{text} {train:,} slices of regular matrices to train, {test:,} blocks of short rows to test.{unknown}"
    names = dict.fromkeys(map(whole_name, study.result.chosen.rows["matrix"]))
    return context.caption(tested, SWEEP, names, "irregular")


@register(
    "G-F5",
    "Optima over the sliced training blocks",
    "Fig. 5",
    "All numbers of threads per row are optima of training blocks.",
    position=8.4,
)
def optima_of_blocks(context: Context) -> Result:
    """Count the optima of the blocks that are trained on."""
    counts = blocks(context).optima
    total = counts["blocks"].sum()
    figure = drawing.figure(2.0)
    axis = figure.subplots()
    bars = axis.bar(range(5), counts["blocks"], color=[drawing.COLOURS[str(t)] for t in counts["threads"]])
    axis.bar_label(bars, [f"{count:,}" for count in counts["blocks"]])
    axis.set_xticks(range(5), [str(t) for t in counts["threads"]])
    axis.set(xlabel="threads per row", ylabel="blocks with this optimum")
    shares = (counts["blocks"] / total).set_axis(counts["threads"])
    claims = (
        Claim(
            "each number of threads per row is the optimum of some training blocks",
            bool(shares.min() > 0),
            f"{shares.idxmin()} threads of fewest, {shares.min():.1%}; {shares.idxmax()} of most, {shares.max():.0%}",
        ),
    )
    text = "Slices of regular matrices by the number of threads per row with the minimum time."
    frame = counts.assign(share=counts["blocks"] / total)
    return Result([frame], figure, _blocks_caption(context, text), judge(context.where(), *claims))


@register(
    "G-T9",
    "Accuracy, losses and gains for blocks",
    "Table 9",
    "For blocks of short rows, 84 % of the predictions are within 2 % of the best, and the mean loss is below 2 %.",
    printed=[
        Printed("accuracy", 0.8378, "Table 9, V100, within 2 %", ".2%"),
        Printed("PLUB", 1.45, "Table 9, V100, percent"),
        Printed("PGO(2)", 218.27, "Table 9, V100, percent"),
        Printed("PGO(4)", 117.37, "Table 9, V100, percent"),
        Printed("PGO(8)", 54.29, "Table 9, V100, percent"),
        Printed("PGO(16)", 20.60, "Table 9, V100, percent"),
        Printed("PGO(32)", 17.76, "Table 9, V100, percent"),
        Printed("PGO(mean)", 38.73, "Table 9, V100, percent"),
        Printed("PGO(SqMean)", 138.04, "Table 9, V100, percent"),
    ],
    position=9.6,
)
def accuracy_of_blocks(context: Context) -> Result:
    """Tabulate accuracy, loss and gains for blocks of short rows."""
    result = blocks(context).result
    figures = result.chosen.figures
    within, strict = float(figures.loc["within_2", "raw"]), float(figures.loc["accuracy", "raw"])
    gains = result.gains.set_index("figure")["value"]
    ours: dict[str, float | str] = {
        **dict.fromkeys(("PGO(2)", "PGO(4)", "PGO(8)", "PGO(16)", "PGO(32)"), math.nan),
        **{str(name): float(value) for name, value in gains.items()},
        "accuracy": within,
    }
    others = gains.drop("PLUB")
    claims = (
        Claim(
            "about 84 % of the predictions are within 2 % of the best",
            within >= 0.82,
            f"{within:.0%}; {strict:.0%} are the optimum",
        ),
        Claim("the mean loss is below 2 %", bool(gains["PLUB"] < 2), f"{gains['PLUB']:.2f} %"),
        Claim(
            "predictions are faster than every other choice",
            bool(others.min() > 0),
            f"by {others.min():.1f} to {others.max():.0f} % on average",
        ),
    )
    first = pd.DataFrame(
        {"figure": ["accuracy within 2 % (%)", "optimum found (%)"], "value": [100 * within, 100 * strict]}
    )
    frame = pd.concat([first, result.gains], ignore_index=True)
    frame["rows"] = frame["rows"].fillna(len(result.chosen.rows)).astype(int)
    text = f"Choices of the {result.best.family} for blocks of short rows; 95 % bootstrap intervals, percent."
    shown = frame.rename(columns={"rows": "blocks"})
    figure = drawing.table(shown, {"value": ".2f", "low": ".2f", "high": ".2f"})
    tables = [frame, result.chosen.rows]
    return Result(tables, figure, _blocks_caption(context, text), judge(context.where(), *claims), ours)


@register(
    "G-F10",
    "Mispredictions by loss, for blocks",
    "Fig. 10",
    "More than 60 % of the wrong predictions lose at most 2 %, about 10 % more than 10 %.",
)
def mispredictions_of_blocks(context: Context) -> Result:
    """Draw how much wrong choices for blocks lose."""
    table = blocks(context).result.mispredictions
    wrong, small, large = (int(table["matrices"].iloc[part].sum()) for part in (slice(None), slice(1), slice(3, None)))
    formula = table["mean"].iloc[3:].sum() / max(1, table["mean"].sum())
    claims = (
        Claim(
            "more than 60 % of the wrong predictions lose at most 2 %",
            small > 0.6 * wrong or not wrong,
            f"{small} of {wrong}",
        ),
        Claim("only about 10 % lose more than 10 %", large <= 0.12 * wrong, f"{large} of {wrong}"),
        Claim(
            "the formula's wrong choices lose that much more often", formula * wrong > large, f"{formula:.0%} of them"
        ),
    )
    text = "Choices for blocks of short rows that are not the optimum, by their loss."
    figure = misprediction_picture(table)
    return Result([table], figure, _blocks_caption(context, text), judge(context.where(), *claims))

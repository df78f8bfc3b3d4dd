"""Gao et al. (2024): models that choose the threads per row of CSR-vector, trained on the measurements at hand.

In float64 with a warm L2 cache, as in the paper. Models are trained when the first item asks for them, on three
quarters of the matrices in four shuffles; what is shown is how they choose for the others. The parameters of the
families are those that searches found before, and cross-validation picks the family;
``warploom.training.threads_per_row.study`` searches the parameters too, which takes minutes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from warploom.bench.environment import cpu_name
from warploom.errors import ParameterError
from warploom.reproduce import drawing
from warploom.reproduce.context import Context, MissingMeasurementsError
from warploom.reproduce.registry import Printed, Sweep, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.reproduce.threads_per_row import VECTOR

if TYPE_CHECKING:
    from warploom.training.data import Dataset
    from warploom.training.threads_per_row import BlockwiseStudy, Shuffle, Tree

__all__ = [
    "SAMPLES",
    "SHUFFLES",
    "blocks",
    "matrices",
    "misprediction_picture",
    "predicted_blockwise_speedups",
    "predicted_speedups",
    "shuffles",
]

SHUFFLES = (0, 1, 2, 3)
SAMPLES = 100
"""Bootstrap samples for intervals."""
_FAMILIES = ("boosted trees", "extra trees", "decision tree")
_FOLDS = 3
_FEWEST = 20
_NUMBERS, _DEPTHS = (5, 10, 20, 50, 100), (2, 3, 5, 8, 12)
"""Iterations and depths of boosted trees to compare."""

_SWEEP = Sweep("spmv/float64", "warm", VECTOR, transposes=True, optional=("4", "8", "16"))
_BLOCKS_COMMAND = (
    "warploom bench run --output sweep --corpus blocks --setting spmv/float64 "
    "--candidates 'spmv/none/csr/scalar' --candidates 'spmv/none/csr/vector*'"
)


# ----- what is trained, each once -----


def matrices(context: Context) -> Dataset:
    """Return the times of whole matrices and transposes, and their features.

    Raises
    ------
    MissingPackagesError
        What trains the models is not installed.
    MissingMeasurementsError
        There are fewer than 20 matrices with times and features.
    """
    return context.once("threads per row", lambda: _matrices(context))


def _matrices(context: Context) -> Dataset:
    context.needs_training("sklearn", "lightgbm", "optuna")
    times = context.times(_SWEEP, ("2", "32"))
    if len(times) < _FEWEST:
        raise context.missing(
            f"times of CSR-vector for {_FEWEST} matrices, which training needs; there are {len(times)}",
            _SWEEP.command(),
        )
    from warploom.training.threads_per_row import threads_per_row_data

    assert context.measurements is not None  # or `times` would have raised
    try:
        return threads_per_row_data(context.measurements, "float64", _SWEEP.cache)[0]
    except ParameterError as error:
        raise context.missing(f"complete times and features of whole matrices ({error})", _SWEEP.command()) from error


def shuffles(context: Context) -> list[Shuffle]:
    """Train on three quarters of the matrices and choose for the others, four times; errors as of `matrices`."""
    return context.once("threads per row: shuffles", lambda: _shuffles(matrices(context)))


def _shuffles(dataset: Dataset) -> list[Shuffle]:
    from warploom.training.threads_per_row import shuffle

    return [
        shuffle(dataset, seed, families=_FAMILIES, trials=1, folds=_FOLDS, objective="accuracy", samples=SAMPLES)
        for seed in SHUFFLES
    ]


def predicted_speedups(context: Context) -> pd.Series:
    """Return the speedups of the predicted threads per row over 16 on the held-out matrices of all shuffles.

    Returns
    -------
    pandas.Series
        Without those that were not measured with 16. Empty where models cannot be trained.
    """
    try:
        rows = pd.concat([one.chosen.rows for one in shuffles(context)], ignore_index=True)
    except MissingMeasurementsError:
        return pd.Series(dtype=float)
    return (rows["baseline_us"] / rows["chosen_us"]).dropna()


def predicted_blockwise_speedups(context: Context) -> pd.Series:
    """Return the speedups of blockwise SpMV with predicted threads per row over 16 for the whole matrix.

    Returns
    -------
    pandas.Series
        Of irregular matrices that no model has seen. Empty where models cannot be trained.
    """
    try:
        whole = blocks(context).whole
    except MissingMeasurementsError:
        return pd.Series(dtype=float)
    return (whole["global 16"] / whole["blockwise model"]).dropna()


def _halves(context: Context) -> tuple[Dataset, Dataset]:
    """Return what the first shuffle trains on, and what it chooses for."""
    from warploom.training.data import random_splits

    dataset = matrices(context)
    known, test = next(iter(random_splits(dataset, 0.25, SHUFFLES[:1])))
    return dataset.rows(known), dataset.rows(test)


def blocks(context: Context) -> BlockwiseStudy:
    """Train on slices of regular matrices, and choose for short-row blocks of irregular ones.

    Raises
    ------
    MissingPackagesError
        What trains the models is not installed.
    MissingMeasurementsError
        No blocks were measured, or too few.
    """
    return context.once("threads per row: blocks", lambda: _blocks(context))


def _blocks(context: Context) -> BlockwiseStudy:
    context.needs_training("sklearn", "lightgbm", "optuna")
    if context.measurements is None:
        raise context.missing("times of blocks of rows", _BLOCKS_COMMAND)
    from warploom.training.threads_per_row import study_blocks

    try:
        return study_blocks(
            context.measurements,
            "float64",
            _SWEEP.cache,
            families=_FAMILIES,
            trials=1,
            folds=_FOLDS,
            objective="accuracy",
            samples=SAMPLES,
        )
    except ParameterError as error:
        raise context.missing(f"times of blocks of rows that can be trained on ({error})", _BLOCKS_COMMAND) from error


def _caption(context: Context, text: str) -> str:
    count = len(matrices(context))
    train, test = (len(part) for part in _halves(context))
    return context.caption(f"{text} {train:,} matrices to train, {test:,} to test.", _SWEEP, count)


# ----- G-T4 -----


@register(
    "G-T4",
    "Accuracy, losses and gains of the predicted threads per row",
    "Table 4",
    "Predicted threads per row are right for more than 80 % of the matrices, lose 1.2 % at most, and gain 18 to 168 % "
    "over fixed numbers and formulas.",
    sweeps=[_SWEEP],
    printed=[
        Printed("accuracy", "82.48 to 85.41 %", "V100, four shuffles"),
        Printed("PLUB", "0.45 to 0.57 %", "V100, four shuffles"),
        Printed("PGO(2)", "149 to 168 %", "V100, four shuffles"),
        Printed("PGO(16)", "18 to 21 %", "V100, four shuffles"),
        Printed("PGO(32)", "37 to 42 %", "V100, four shuffles"),
        Printed("PGO(mean)", "24 to 28 %", "V100, four shuffles"),
        Printed("PGO(SqMean)", "86 to 99 %", "V100, four shuffles"),
    ],
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
            f"{means['merged_accuracy']:.1%} where a choice that repeated measurements cannot tell from the best "
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
        "are fixed; warploom.training.threads_per_row.study searches them."
    )
    families = pd.concat([one.families.assign(shuffle=one.seed + 1) for one in found], ignore_index=True)
    tables = [frame, families, pd.concat([one.chosen.rows for one in found], ignore_index=True)]
    caption = _caption(context, text)
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
_OTHERS = {"mean": ("#D55E00", "D"), "SqMean": ("#CC79A7", "X")}


@register(
    "G-F6",
    "Gains over fixed threads per row by nonzeros",
    "Fig. 6",
    "Predicted threads per row gain over every other choice, most of all on matrices of moderate size.",
    sweeps=[_SWEEP],
)
def gains(context: Context) -> Result:
    """Draw the mean gains over every other choice for every range of nonzeros."""
    found = shuffles(context)[0].by_nnz
    known = found[found["matrices"] > 0]
    figure = drawing.figure(2.7)
    axis = figure.subplots()
    names = [*VECTOR, *_OTHERS]
    for position, name in enumerate(names):
        colour, marker = _OTHERS.get(name, (drawing.colour(name), drawing.MARKERS[position]))
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
            "predicted threads per row gain over every other choice in every range of nonzeros",
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
    return Result([found], figure, _caption(context, text), judge(context.where(), *claims))


@register(
    "G-T5",
    "Losses by nonzeros",
    "Table 5",
    "The predicted threads per row lose little for every size of matrices, the formulas tens of percent.",
    sweeps=[_SWEEP],
    printed=[
        Printed(f"{name}, {size}", value, "Table 5, V100, percent")
        for name, values in _PAPER_PLUB.items()
        for size, value in zip(_RANGES, values, strict=True)
    ],
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
            "the predicted threads per row lose at most 1 % in every range of nonzeros",
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
    return Result([frame], figure, _caption(context, text), judge(context.where(), *claims), ours)


# ----- G-F7 -----


@register(
    "G-F7",
    "Mispredictions by loss",
    "Fig. 7",
    "Most wrong predictions lose less than 2 %, few more than 6 %.",
    sweeps=[_SWEEP],
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
    return Result([table], figure, _caption(context, text), judge(context.where(), *claims))


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


# ----- G-F5, G-T9, G-F10 -----


def _blocks_caption(context: Context, text: str) -> str:
    study = blocks(context)
    train, test = int(study.optima["blocks"].sum()), len(study.result.chosen.rows)
    unknown = f" {study.unknown:,} blocks of matrices that were not measured as a whole are left out." * (
        study.unknown > 0
    )
    tested = f"{text} {train:,} slices of regular matrices to train, {test:,} blocks of short rows to test.{unknown}"
    groups = study.result.chosen.rows["group"].nunique()
    return context.caption(tested, _SWEEP, groups).replace(" matrices.", " irregular matrices.")


@register(
    "G-F5",
    "Optima over the sliced training blocks",
    "Fig. 5",
    "All numbers of threads per row are optima of training blocks.",
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
            f"{shares.idxmin()} threads of least, {shares.min():.1%}; {shares.idxmax()} of most, {shares.max():.0%}",
        ),
    )
    text = "Slices of regular matrices by the number of threads per row with the least time."
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


# ----- G-F12, G-F13 -----


@register(
    "G-F12",
    "Speedup against the depth of one decision tree",
    "Fig. 12",
    "A tree of depth 2 is better than both formulas; beyond depth 5 it is close to the optimum.",
    sweeps=[_SWEEP],
)
def depths(context: Context) -> Result:
    """Draw the speedups of decision trees of every depth."""
    from warploom.training.threads_per_row import depth_study

    frame = context.once("threads per row: depths", lambda: depth_study(*_halves(context)))
    trees = frame[frame["configuration"] == "tree"].set_index("depth")
    others = frame[frame["configuration"] != "tree"].set_index("configuration")
    figure = drawing.figure(2.3)
    axis = figure.subplots()
    axis.plot(trees.index, trees["arithmetic"], marker="o", color="#0072B2", label="decision tree")
    lines = {"optimal": ("#000000", "--"), "mean": ("#D55E00", "-."), "SqMean": ("#CC79A7", ":")}
    for name, (colour, style) in lines.items():
        axis.axhline(others.loc[name, "arithmetic"], color=colour, linestyle=style, label=name)
    axis.set(xlabel="maximum depth of the tree", ylabel="mean speedup over\n16 threads per row")
    axis.set_xticks(list(trees.index[::2]), [f"{depth:g}" for depth in trees.index[::2]])
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.28), ncols=2)
    drawing.grid(axis)
    two, five = float(trees.loc[2, "arithmetic"]), trees[trees.index > 5]["arithmetic"]
    formulas, optimum = others.loc[["mean", "SqMean"], "arithmetic"], float(others.loc["optimal", "arithmetic"])
    claims = (
        Claim(
            "a tree of depth 2 is better than both formulas",
            bool(two > formulas.max()),
            f"{two:.2f}x against {formulas['mean']:.2f}x and {formulas['SqMean']:.2f}x",
        ),
        Claim(
            "beyond depth 5 trees are within 2 % of the optimum",
            bool(five.min() >= 0.98 * optimum),
            f"{five.min() / optimum:.1%} to {five.max() / optimum:.1%} of it",
        ),
    )
    text = "Mean speedup on held-out matrices over CSR-vector with 16 threads per row."
    return Result([frame], figure, _caption(context, text), judge(context.where(), *claims))


_SYMBOLS = {
    "num_rows": "m",
    "num_cols": "n",
    "nnz": "nnz",
    "density": "d",
    "nnz_per_row_min": "min",
    "nnz_per_row_max": "max",
    "nnz_per_row_mean": "mean",
    "nnz_per_row_var": "var",
    "nnz_per_row_max_minus_mean": "max_mu",
    "sqrt_nnz_per_row_mean": "√mean",
    "nnz_per_row_cov": "cov",
}
"""What the nodes of the paper's tree call the features."""


@register(
    "G-F13",
    "The decision tree of five levels",
    "Fig. 13",
    "The longest row decides first: where it is long, 16 or 32 threads per row are best; the shortest row does not "
    "matter.",
    sweeps=[_SWEEP],
)
def tree(context: Context) -> Result:
    """Draw the tree, and what its features contribute."""
    from warploom.training.threads_per_row import decision_tree

    found: Tree = context.once("threads per row: tree", lambda: decision_tree(*_halves(context)))
    nodes = found.nodes.assign(symbol=found.nodes["feature"].map(_SYMBOLS))
    leaves = int((nodes["feature"] == "").sum())
    figure = drawing.figure(0.155 * leaves + 1.75, width=drawing.PAGE)
    above, below = figure.subplots(2, 1, height_ratios=[0.155 * leaves + 0.2, 1.35])
    _draw_tree(above, nodes)
    importances = found.importances.assign(symbol=found.importances["feature"].map(_SYMBOLS))
    bars = below.bar(range(len(importances)), importances["importance"], color="#0072B2", width=0.6)
    below.bar_label(bars, [f"{100 * share:.0f} %" for share in importances["importance"]])
    below.set_xticks(range(len(importances)), list(importances["symbol"]))
    below.set(ylabel="importance")
    below.margins(y=0.2)
    drawing.percent(below)
    root = nodes.iloc[0]
    claims = (
        Claim("the longest row decides first", root["symbol"] == "max", f"{root['symbol']} at {root['threshold']:.4g}"),
        _many_threads(nodes),
        Claim(
            "the shortest row does not matter",
            "min" not in set(nodes["symbol"].dropna()),
            f"importance {importances.set_index('symbol').loc['min', 'importance']:.1%}",
        ),
    )
    text = (
        "A decision tree of at most five levels, from left to right: the upper branch is where the condition holds; at "
        "the ends, threads per row (and training matrices). Below, each feature's share of the decrease of the Gini "
        f"impurity. The tree finds the optimum of {100 * found.figures['accuracy']:.0f} % of the held-out matrices and "
        f"loses {found.figures['plub']:.2f} % on average."
    )
    caption = _caption(context, text)
    return Result([nodes, importances], figure, caption, judge(context.where(), *claims))


def _many_threads(nodes: pd.DataFrame) -> Claim:
    """Claim that most matrices on the root's right get 16 or 32 threads per row, and most others fewer."""
    by_node = nodes.set_index("node")
    counts = {side: {True: 0, False: 0} for side in ("left", "right")}
    for side in counts:
        waiting = [int(by_node.loc[0, side])]
        while waiting:
            node = waiting.pop()
            if node < 0:
                continue
            row = by_node.loc[node]
            if row["left"] < 0:
                counts[side][bool(row["threads"] >= 16)] += int(row["matrices"])
            waiting += [int(row["left"]), int(row["right"])]
    shares = {side: found[True] / max(1, sum(found.values())) for side, found in counts.items()}
    return Claim(
        "above the root's threshold most matrices get 16 or 32 threads per row, below it most get fewer",
        shares["right"] > 0.5 > shares["left"],
        f"{shares['right']:.0%} above, {shares['left']:.0%} below",
    )


_BOX = 0.82
"""Width of a node, where levels are 1 apart."""


def _draw_tree(axis: Axes, nodes: pd.DataFrame) -> None:
    """Draw a tree from left to right, leaves in their order from top to bottom."""
    rows = nodes.set_index("node")
    heights: dict[int, float] = {}

    def place(node: int) -> float:
        row = rows.loc[node]
        if row["left"] < 0:
            heights[node] = float(sum(rows.loc[other, "left"] < 0 for other in heights))
        else:
            heights[node] = (place(int(row["left"])) + place(int(row["right"]))) / 2
        return heights[node]

    place(0)
    for node, row in rows.iterrows():
        x, y = float(row["depth"]), heights[int(str(node))]
        if row["left"] < 0:
            text, fill = f"{row['threads']} ({row['matrices']:,})", drawing.COLOURS[str(row["threads"])]
            ink = "white" if row["threads"] >= 16 else "black"
        else:
            text, fill, ink = f"{row['symbol']} ≤ {_number(row['threshold'])}", "#F2F2F2", "black"
            for child in (int(row["left"]), int(row["right"])):
                axis.plot([x + _BOX, x + 1], [y, heights[child]], color="#999999", linewidth=0.6, zorder=0)
        box = FancyBboxPatch(
            (x, y - 0.36), _BOX, 0.72, boxstyle="round,pad=0,rounding_size=0.05", facecolor=fill, linewidth=0.4
        )
        axis.add_patch(box)
        axis.text(x + _BOX / 2, y, text, ha="center", va="center", color=ink)
    axis.set(xlim=(-0.02, rows["depth"].max() + _BOX + 0.02), ylim=(max(heights.values()) + 0.6, -0.6))
    axis.axis("off")


def _number(value: float) -> str:
    if 1e4 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    if value and not 1e-3 <= abs(value) < 1e7:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.4g}"


# ----- G-F14, G-F15 -----

_BY_DEPTH = ("#56B4E9", "#0072B2", "#009E73", "#E69F00", "#D55E00")


def _trees(context: Context) -> pd.DataFrame:
    from warploom.training.threads_per_row import cost_of_trees

    return context.once(
        "threads per row: trees", lambda: cost_of_trees(*_halves(context), numbers=_NUMBERS, depths=_DEPTHS)
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
    sweeps=[_SWEEP],
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
    return Result([frame], figure, _caption(context, text), judge(context.where(), *claims))


@register(
    "G-F15",
    "Inference time against number and depth of trees",
    "Fig. 15",
    "The model with the highest accuracy takes a few microseconds.",
    sweeps=[_SWEEP],
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
        "Time of warploom's predictor for one matrix, one thread, mean over the held-out matrices, least of five "
        f"repeats; measured when this was made, on {cpu_name()}. The trees are those of G-F14."
    )
    return Result([frame], figure, _caption(context, text), judge(f"on {cpu_name()}", *claims))


# ----- G-ovh -----


@register(
    "G-ovh",
    "Cost of features and inference",
    "Sec. 6.2, eq. 6 and 7",
    "The eleven features cost about one product, inference a few microseconds, and choosing by the model beats trying "
    "all five numbers of threads within five products.",
    sweeps=[_SWEEP],
    printed=[
        Printed("cost of the features in products", "about 1", "Sec. 6.2"),
        Printed("inference", "a few us", "Sec. 6.2"),
        Printed("T_naive / T_ML: mean", 1.28, "Sec. 6.2, V100"),
        Printed("T_naive / T_ML: greatest", 7.15, "Sec. 6.2, V100"),
    ],
)
def overheads(context: Context) -> Result:
    """Compare what a choice costs with what it gains over five products."""
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
            else "no matrix is that large",
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
    caption = context.caption(text, _SWEEP, len(table))
    return Result([table, paid], figure, caption, judge(context.where(), *claims), ours)


_LARGE = 10**6


def _inference(context: Context) -> float:
    """Return the microseconds of one inference by the model of the first shuffle."""
    from warploom.training.threads_per_row import inference_microseconds

    model = shuffles(context)[0].model
    _, test = _halves(context)
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
            _SWEEP.command(),
        )
    frame["model_us"] = frame["eleven_us"] + inference + 5 * frame["chosen_us"]
    return frame.assign(ratio=frame["naive_us"] / frame["model_us"])

"""Gao et al. (2024): one decision tree, and how deep it has to be."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.gao2024.trained import SWEEP, halves, trained_caption
from warploom.reproduce.gao2024.tree_study import Tree, decision_tree, depth_study
from warploom.reproduce.registry import register
from warploom.reproduce.result import Claim, Result, judge

__all__: list[str] = []


@register(
    "G-F12",
    "Speedup against the depth of one decision tree",
    "Fig. 12",
    "A tree of depth 2 is better than both formulas; beyond depth 5 it is close to the optimum.",
    sweeps=[SWEEP],
)
def depths(context: Context) -> Result:
    """Draw the speedups of decision trees of every depth."""
    frame = context.once("threads per row: depths", lambda: depth_study(*halves(context)))
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
    return Result([frame], figure, trained_caption(context, text), judge(context.where(), *claims))


_SYMBOLS = {
    "num_rows": "rows",
    "num_cols": "cols",
    "nnz": "nnz",
    "density": "density",
    "nnz_per_row_min": "min",
    "nnz_per_row_max": "max",
    "nnz_per_row_mean": "mean",
    "nnz_per_row_var": "var",
    "nnz_per_row_max_minus_mean": "max-mean",
    "sqrt_nnz_per_row_mean": "√mean",
    "nnz_per_row_cov": "std/mean",
}
"""Short names of the features; those without an object are of the row lengths."""


@register(
    "G-F13",
    "The decision tree of five levels",
    "Fig. 13",
    "The longest row decides first: where it is long, 16 or 32 threads per row are best; the shortest row does not "
    "matter.",
    sweeps=[SWEEP],
)
def tree(context: Context) -> Result:
    """Draw the tree, and the contributions of its features."""
    found: Tree = context.once("threads per row: tree", lambda: decision_tree(*halves(context)))
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
        "the ends, threads per row (and training matrices). Rows, columns (cols), nonzeros (nnz) and density (nnz / "
        "(rows x cols)) are those of A; min, max, mean, variance (var) and std/mean are of the lengths of its rows. "
        "Below, each feature's share of the decrease of the Gini impurity. The tree finds the optimum of "
        f"{100 * found.figures['accuracy']:.0f} % of the held-out matrices and loses {found.figures['plub']:.2f} % on "
        "average."
    )
    caption = trained_caption(context, text)
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


_BOX = 0.86
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
    if value and not 1e-2 <= abs(value) < 1e7:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.3g}" if abs(value) < 1e3 else f"{value:,.0f}"

"""Gao et al. (2024): what the empirical formulas choose for matrices that the paper names."""

from __future__ import annotations

import numpy as np
import pandas as pd

from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.csr_vector import VECTOR, by_mean, by_square_root
from warploom.reproduce.gao2024.times import DOUBLE, FEWEST, optimum
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.training.threads_per_row import THREADS

__all__: list[str] = []

_NAMED = {
    "circuit_3": ("Bomhof/circuit_3", 12127, 48137, None),
    "hcircuit": ("Hamm/hcircuit", 105676, 513072, 1399),
    "mk12-b2": ("JGD_Homology/mk12-b2", 13860, 41580, 3),
    "rd450l": ("Bai/rdb450l", 450, 2580, 6),
    "n2c6-b7": ("JGD_Homology/n2c6-b7", 3990, 31920, 8),
}
"""Matrices that the paper names: name in the collection, rows, nonzeros and longest row, where the paper prints it."""


def _stand_in(context: Context, times: pd.DataFrame, name: str) -> str:
    """Return the matrix of that name, or the measured one that is nearest to it in size and row lengths."""
    full, rows, nnz, longest = _NAMED[name]
    own = Context.measured_as(full, times.index)
    if own is not None:
        return own
    sizes = context.sizes(times.index)
    sizes = sizes[(sizes["nnz"] > 0) & (sizes["rows"] > 0)]
    distance = np.log(sizes["rows"] / rows) ** 2 + np.log(sizes["nnz"] / nnz) ** 2
    if longest is not None and sizes["spmv_nnz_per_row_max"].notna().any():
        distance = distance + np.log(sizes["spmv_nnz_per_row_max"].clip(lower=1) / longest) ** 2
    return str(distance.idxmin())


def _is_named(name: str, found: str) -> bool:
    """Whether a measured matrix is the one that the paper names."""
    return Context.measured_as(_NAMED[name][0], [found]) is not None


def _instead(chosen: dict[str, str]) -> str:
    others = [f"{name} by {found}" for name, found in chosen.items() if not _is_named(name, found)]
    return (
        f" Not measured, and replaced by the matrices nearest in size and row lengths: {', '.join(others)}."
        if others
        else ""
    )


_FORMULAS = (
    "the least power of two that is not below the mean row length (mean), or not below its square root (SqMean), "
    "from 2 to 32"
)


def _title(name: str, found: str) -> str:
    if _is_named(name, found):
        return name
    return f"{drawing.short_names([found])[0]}\n(in place of {name})"


@register(
    "G-F1",
    "Time against threads per row for two matrices",
    "Fig. 1",
    "The formulas' choices are far from the best, and the best number depends on the matrix.",
    sweeps=[DOUBLE],
)
def two_matrices(context: Context) -> Result:
    """Draw the times of all numbers of threads for the paper's two matrices, or what is nearest to them."""
    times = context.times(DOUBLE)
    chosen = {name: _stand_in(context, times, name) for name in ("circuit_3", "hcircuit")}
    figure = drawing.figure(2.2)
    axes = figure.subplots(1, 2)
    rows, losses = [], []
    for axis, (name, found) in zip(axes, chosen.items(), strict=True):
        own = times.loc[found, list(VECTOR)]
        sizes = context.sizes(times.index).loc[[found]]
        formulas = {"mean": int(by_mean(sizes)[0]), "SqMean": int(by_square_root(sizes)[0])}
        axis.bar(range(5), own, color=[drawing.COLOURS[t] for t in VECTOR])
        labels: dict[int, list[str]] = {}
        for formula, threads in {**formulas, "best": int(own.astype(float).idxmin())}.items():
            labels.setdefault(THREADS.index(threads), []).append(formula)
        for place, texts in labels.items():
            text = f" {', '.join(texts)}"
            axis.annotate(text, (place, own.iloc[place]), ha="center", va="bottom", rotation=90)
        axis.set_xticks(range(5), list(VECTOR))
        axis.set(xlabel="threads per row", title=_title(name, found))
        axis.margins(y=0.45)
        for formula, threads in formulas.items():
            loss = float(own[str(threads)] / own.min() - 1)
            losses.append(loss)
            rows.append((name, found, formula, threads, int(own.astype(float).idxmin()), loss))
    axes[0].set_ylabel("time (us)")
    frame = pd.DataFrame(rows, columns=["paper's matrix", "measured", "formula", "threads", "best threads", "loss"])
    every = times.loc[list(chosen.values()), list(VECTOR)].reset_index(names="matrix")
    claims = (
        Claim(
            "the formulas lose considerably",
            max(losses) > 0.1,
            f"{min(losses):.0%} to {max(losses):.0%} over the best number",
        ),
    )
    text = (
        f"Time of CSR-vector; above the bars the best number of threads per row and the choices of two formulas: "
        f"{_FORMULAS}.{_instead(chosen)}"
    )
    verdict = judge(context.where(), *claims)
    return Result([frame, every], figure, context.caption(text, DOUBLE, chosen.values()), verdict)


@register(
    "G-T1",
    "Formulas and optimum for example matrices",
    "Table 1",
    "The formulas miss the optimum for matrices of several kinds.",
    sweeps=[DOUBLE],
    printed=[
        Printed(f"{name}: TpR_mean, TpR_SqMean, optimal", value, "Table 1")
        for name, value in (
            ("mk12-b2", "4, 2, 2"),
            ("rd450l", "8, 2, 8"),
            ("n2c6-b7", "8, 2, 4"),
            ("hcircuit", "4, 2, 16"),
        )
    ],
    position=1.5,
)
def examples(context: Context) -> Result:
    """Compare formulas and optimum for the paper's matrices, or what is nearest to them."""
    times = context.times(DOUBLE, FEWEST)
    chosen = {name: _stand_in(context, times, name) for name in ("mk12-b2", "rd450l", "n2c6-b7", "hcircuit")}
    found = list(chosen.values())
    sizes = context.sizes(times.index).loc[found]
    frame = pd.DataFrame(
        {
            "paper's matrix": list(chosen),
            "measured": found,
            "min": sizes["spmv_nnz_per_row_min"].to_numpy(),
            "max": sizes["spmv_nnz_per_row_max"].to_numpy(),
            "TpR_mean": by_mean(sizes),
            "TpR_SqMean": by_square_root(sizes),
            "optimal": optimum(times.loc[found]),
        }
    )
    ours: dict[str, float | str] = {
        f"{row[0]}: TpR_mean, TpR_SqMean, optimal": f"{row[4]}, {row[5]}, {row[6]}"
        for row in frame.itertuples(index=False)
    }
    missed = ((frame["TpR_mean"] != frame["optimal"]) | (frame["TpR_SqMean"] != frame["optimal"])).sum()
    both = ((frame["TpR_mean"] != frame["optimal"]) & (frame["TpR_SqMean"] != frame["optimal"])).sum()
    claims = (
        Claim("a formula misses the optimum on most of the examples", bool(missed > 2), f"{missed} of {len(frame)}"),
        Claim("on some of them both formulas do", bool(both > 0), f"{both} of {len(frame)}"),
    )
    text = (
        f"Shortest and longest row, threads per row by the two formulas as printed: {_FORMULAS}; and the measured "
        f"optimum.{_instead(chosen)}"
    )
    caption = context.caption(text, DOUBLE, found)
    figure = drawing.table(frame, {"min": ".0f", "max": ",.0f"})
    return Result([frame], figure, caption, judge(context.where(), *claims), ours)

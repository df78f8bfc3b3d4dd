"""Koza et al. (2014): parameters of CMRS that are chosen for each matrix."""

from __future__ import annotations

import pandas as pd

from warploom.reproduce import drawing
from warploom.reproduce.cmrs2014.kernels import DOUBLE, VARIANTS, best_variant, of_size, row_length_axis
from warploom.reproduce.context import Context
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.reproduce.sweep import Sweep

__all__: list[str] = []


@register(
    "C-tune",
    "Gain from tuning for each matrix over the universal choice",
    "Sec. 6.8",
    "Tuning CMRS for each matrix gains at least 10 % on few matrices only, and 18 % at most (K20M).",
    sweeps=[DOUBLE],
    printed=[
        Printed("matrices that gain at least 10 %", "14 of 132", "Sec. 6.8, K20M"),
        Printed("greatest gain", 0.18, "Sec. 6.8, K20M", ".0%"),
    ],
    position=7,
)
def tuning(context: Context) -> Result:
    """Compare the best parameters of each matrix with the universal ones."""
    sweep = Sweep(DOUBLE.setting, DOUBLE.cache, VARIANTS)
    times, sizes = of_size(context, context.times(sweep), sweep)
    universal, _ = best_variant(times)
    gain = times[universal] / times.min(axis=1) - 1
    mu = sizes["nnz"] / sizes["rows"]
    figure = drawing.figure(2.1)
    axis = figure.subplots()
    drawing.points(axis, mu, gain, "CMRS", s=10, alpha=0.8)
    axis.axhline(0.1, color="black", linewidth=0.7, linestyle="--")
    row_length_axis(axis)
    drawing.percent(axis)
    axis.set_ylabel("gain over the universal choice")
    many = int((gain >= 0.1).sum())
    best = times.idxmin(axis=1).value_counts()
    claims = (
        Claim(
            "few matrices gain at least 10 % from tuning",
            many <= 0.2 * len(gain),
            f"{many} of {len(gain)} over {universal.replace('CMRS ', 'height ')}",
        ),
        Claim("no matrix gains much", bool(gain.max() <= 0.4), f"at most {gain.max():.0%}"),
    )
    summary = pd.DataFrame({"variant": list(times), "best for": [int(best.get(name, 0)) for name in times]}).assign(
        universal=lambda frame: frame["variant"] == universal
    )
    per_matrix = times.assign(gain=gain, mu=mu).reset_index(names="matrix")
    ours: dict[str, float | str] = {
        "matrices that gain at least 10 %": f"{many} of {len(gain)}",
        "greatest gain": float(gain.max()),
    }
    text = (
        "Gain of the best of heights 4 and 8, with entries sorted by column or not, over the variant that is best on "
        "average; the size of thread blocks is not a parameter here."
    )
    verdict = judge(context.where(), *claims)
    return Result([summary, per_matrix], figure, context.caption(text, sweep, gain.index), verdict, ours)

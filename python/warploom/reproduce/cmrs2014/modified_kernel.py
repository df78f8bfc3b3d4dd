"""Koza et al. (2014): the modified kernel of CMRS, and what it takes in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from warploom.bench.medians import geometric_mean
from warploom.reproduce import drawing
from warploom.reproduce.cmrs2014.kernels import ALTERNATIVES, KERNELS, SOME_ROWS, row_length_axis, times_of_kernels
from warploom.reproduce.cmrs2014.model import acceleration
from warploom.reproduce.context import Context
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.reproduce.sweep import Sweep

__all__: list[str] = []

_MODIFIED = Sweep("spmv/float64", "cold", {**KERNELS, "modified CMRS": "spmv/none/cmrs/modified"}, optional=SOME_ROWS)
_MEMORY = Sweep("spmv/float64", "cold", {"CMRS": "spmv/none/cmrs/basic", "modified CMRS": "spmv/none/cmrs/modified"})
_OVERHEADS = (("up to +10 %", 0.0, 1.1), ("+10 to +50 %", 1.1, 1.5), ("above", 1.5, np.inf))


@register(
    "C-F6.8",
    "The modified kernel: speedups and memory overhead",
    "Fig. 6.8",
    "The modified kernel (height 16, groups of 8, padded) is up to 63 % faster than the best alternative; padding "
    "costs much memory for short rows only.",
    sweeps=[_MODIFIED, _MEMORY],
    printed=[
        Printed("greatest speedup over the best alternative", 1.63, "Sec. 6.7, K20M"),
        Printed("least speedup over the best alternative", 0.68, "Sec. 6.7, K20M"),
        Printed("matrices at least 10 % faster than all", "58 of 128", "Sec. 6.7, K20M"),
    ],
)
def modified(context: Context) -> Result:
    """Draw the speedups of the modified kernel, coloured by its memory."""
    kernels, sizes, _ = times_of_kernels(context, _MODIFIED)
    kernels = kernels.dropna(subset="modified CMRS")
    if kernels.empty:
        raise context.missing("times of the modified kernel on square matrices of 10^6 nonzeros", _MODIFIED.command())
    sizes = sizes.loc[kernels.index]
    memory = context.column(_MEMORY, "bytes").reindex(kernels.index)
    overhead = (memory["modified CMRS"] / memory["CMRS"]).rename("memory over CMRS")
    over_best_one = kernels[list(ALTERNATIVES)].min(axis=1) / kernels["modified CMRS"]
    over_vector = kernels["vector"] / kernels["modified CMRS"]
    figure = drawing.figure(2.6, width=drawing.PAGE)
    left, right = figure.subplots(1, 2)
    for position, (label, low, high) in enumerate(_OVERHEADS):
        chosen = ((overhead > low) & (overhead <= high)).to_numpy()
        shade = ("#0072B2", "#E69F00", "#D55E00")[position]
        options: dict[str, Any] = {
            "position": position,
            "color": shade,
            "s": 12,
            "alpha": 0.8,
            "label": label,
        }
        drawing.points(left, sizes["mu"][chosen], over_best_one[chosen], "modified CMRS", **options)
    drawing.points(right, sizes["mu"], over_vector, "modified CMRS", s=12, alpha=0.8, label="measured")
    mu = np.geomspace(max(1.0, sizes["mu"].min()), max(2.0, sizes["mu"].max()), 50)
    for segment, style in ((128, "-"), (256, "--")):
        model = acceleration(16, mu, value_bytes=8, segment=segment)
        right.plot(mu, model, style, color="#555555", label=f"model, {segment} bytes")
    for axis, label in ((left, "speedup over the best alternative"), (right, "speedup over the vector kernel")):
        drawing.log_ratio_axis(axis)
        row_length_axis(axis)
        axis.set_ylabel(label)
        title = "memory over that of CMRS" if axis is left else None
        axis.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=3, title=title, alignment="left")
    significant = int((over_best_one >= 1.1).sum())
    long = overhead[sizes["mu"] > 10]
    claims = (
        Claim(
            "the modified kernel is significantly (10 %) faster than all alternatives on many matrices",
            significant >= 0.2 * len(kernels),
            f"{significant} of {len(kernels)}, at most {over_best_one.max():.2f}x",
        ),
        Claim(
            "padding costs much memory for rows of at most 10 nonzeros only",
            bool(len(long) == 0 or (long <= 1.5).mean() > 0.9),
            f"of {len(long)} matrices with longer rows, {int((long > 1.5).sum())} take more than 1.5 times the memory",
        ),
        Claim(
            "it is faster than the basic CMRS kernel",
            geometric_mean(kernels["CMRS"] / kernels["modified CMRS"]) > 1,
            f"geometric mean {geometric_mean(kernels['CMRS'] / kernels['modified CMRS']):.2f}x",
        ),
    )
    frame = pd.DataFrame(
        {"mu": sizes["mu"], "over best": over_best_one, "over vector": over_vector, "memory over CMRS": overhead}
    ).reset_index(names="matrix")
    ours: dict[str, float | str] = {
        "greatest speedup over the best alternative": float(over_best_one.max()),
        "least speedup over the best alternative": float(over_best_one.min()),
        "matrices at least 10 % faster than all": f"{significant} of {len(kernels)}",
    }
    text = "Speedup of the modified kernel (height 16, modulo 8), coloured by its memory over that of CMRS."
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, _MODIFIED, kernels.index), verdict, ours)

"""Koza et al. (2014): CMRS against other kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from warploom.bench.medians import geometric_mean
from warploom.reproduce import drawing
from warploom.reproduce.cmrs2014.kernels import ALTERNATIVES, DOUBLE, SINGLE, of_size, row_length_axis, times_of_kernels
from warploom.reproduce.cmrs2014.model import acceleration
from warploom.reproduce.context import Context
from warploom.reproduce.csr_vector import VECTOR
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.reproduce.sweep import Sweep

__all__: list[str] = []

_HEIGHTS = Sweep(
    "spmv/float32",
    "cold",
    {
        "vector": VECTOR["32"],
        "2": "spmv/none/cmrs/registers[height=2]",
        "4": "spmv/none/cmrs/registers",
        "8": "spmv/none/cmrs/registers[height=8]",
    },
)


# ----- C-F6.3, C-F6.5, C-F6.6 -----


class _Comparison(NamedTuple):
    """CMRS over other kernels: the picture, and the speedups with the mean row lengths."""

    frame: pd.DataFrame
    figure: Figure
    caption: str
    speedups: dict[str, pd.Series]

    def trend(self, name: str) -> tuple[float, float]:
        """Return the geometric mean speedups for rows below and from 50 nonzeros on; NaN where there are none."""
        mu = self.speedups["mu"].loc[self.speedups[name].index]
        return geometric_mean(self.speedups[name][mu < 50]), geometric_mean(self.speedups[name][mu >= 50])


def _against(context: Context, names: Sequence[str], *, with_model: bool) -> _Comparison:
    kernels, sizes, height = times_of_kernels(context, DOUBLE)
    figure = drawing.figure(2.5)
    axis = figure.subplots()
    speedups = {name: (kernels[name] / kernels["CMRS"]).dropna() for name in names}
    for position, (name, speedup) in enumerate(speedups.items()):
        technique = "CUSP formula" if name == "CUSP" else name
        label = "CUSP's formula" if name == "CUSP" else name
        drawing.points(
            axis, sizes.loc[speedup.index, "mu"], speedup, technique, position=position, s=10, alpha=0.8, label=label
        )
    if with_model:
        mu = np.geomspace(max(1.0, sizes["mu"].min()), sizes["mu"].max(), 50)
        for segment, style in ((128, "-"), (256, "--")):
            axis.plot(
                mu,
                acceleration(height, mu, value_bytes=8, segment=segment),
                style,
                color="#555555",
                label=f"model, {segment} bytes",
            )
    drawing.log_ratio_axis(axis)
    row_length_axis(axis)
    axis.set_ylabel("speedup of CMRS")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    frame = pd.DataFrame(speedups).assign(mu=sizes["mu"], nnz=sizes["nnz"]).reset_index(names="matrix")
    text = f"Speedup of the CMRS kernel (height {height}) over others, one point for each matrix and kernel."
    caption = context.caption(text, DOUBLE, sizes.index)
    return _Comparison(frame, figure, caption, {**speedups, "mu": sizes["mu"]})


@register(
    "C-F6.3",
    "Speedup of CMRS over vector, scalar and HYB, with the model",
    "Fig. 6.3",
    "CMRS beats the vector kernel for short rows as the model says, and the scalar kernel for long rows.",
    sweeps=[DOUBLE],
)
def over_three(context: Context) -> Result:
    """Draw the speedups over three kernels."""
    compared = _against(context, ("vector", "scalar", "HYB"), with_model=True)
    vector, scalar = compared.trend("vector"), compared.trend("scalar")
    claims = (
        Claim(
            "the gain over the vector kernel is larger for short rows",
            vector[0] > max(1.0, vector[1]) or (vector[1] != vector[1] and vector[0] > 1),
            f"{vector[0]:.2f}x below 50 nonzeros per row, {vector[1]:.2f}x above",
        ),
        Claim(
            "that over the scalar kernel is larger for long rows",
            scalar[1] > scalar[0],
            f"{scalar[0]:.2f}x below 50, {scalar[1]:.2f}x above",
        ),
    )
    return Result([compared.frame], compared.figure, compared.caption, judge(context.where(), *claims))


@register(
    "C-F6.5",
    "Speedup of CMRS over cuSPARSE and CUSP",
    "Fig. 6.5",
    "CMRS outperforms both for sufficiently long rows.",
    sweeps=[DOUBLE],
)
def over_libraries(context: Context) -> Result:
    """Draw the speedups over the libraries' kernels."""
    compared = _against(context, ("cuSPARSE", "CUSP"), with_model=False)
    claims = []
    for name in ("cuSPARSE", "CUSP"):
        short, long = compared.trend(name)
        claims.append(
            Claim(
                f"CMRS outperforms {name} for rows of 50 nonzeros and more",
                long > 1,
                f"{long:.2f}x, and {short:.2f}x for shorter ones",
            )
        )
    return Result([compared.frame], compared.figure, compared.caption, judge(context.where(), *claims))


@register(
    "C-F6.6",
    "CMRS over the best of the alternatives",
    "Fig. 6.6",
    "CMRS is up to 34 % (double precision) and 62 % (single) faster than the best of five alternatives.",
    sweeps=[DOUBLE, SINGLE],
    printed=[
        Printed("greatest speedup, float64", 1.34, "Sec. 6.6, K20M"),
        Printed("greatest speedup, float32", 1.62, "Sec. 6.6, K20M"),
        Printed("matrices at least 10 % faster, float64", "29 of 132", "Sec. 6.6, K20M"),
    ],
)
def over_best(context: Context) -> Result:
    """Draw the speedups over the fastest of the other five."""
    figure = drawing.figure(2.3)
    axes = figure.subplots(1, 2, sharey=True)
    tables, claims = [], []
    ours: dict[str, float | str] = {}
    names: dict[str, None] = {}
    for axis, sweep in zip(axes, (DOUBLE, SINGLE), strict=True):
        kernels, sizes, height = times_of_kernels(context, sweep)
        dtype = sweep.setting.split("/")[1]
        speedup = kernels[list(ALTERNATIVES)].min(axis=1) / kernels["CMRS"]
        drawing.points(axis, sizes["mu"], speedup, "CMRS", s=9, alpha=0.8)
        row_length_axis(axis)
        axis.set_title(f"{dtype}, height {height}")
        significant = int((speedup >= 1.1).sum())
        claims.append(
            Claim(
                f"CMRS is significantly (10 %) faster than all alternatives on some matrices in {dtype}",
                significant > 0,
                f"{significant} of {len(speedup)}, at most {speedup.max():.2f}x, geometric mean "
                f"{geometric_mean(speedup):.2f}x",
            )
        )
        ours[f"greatest speedup, {dtype}"] = float(speedup.max())
        ours[f"matrices at least 10 % faster, {dtype}"] = f"{significant} of {len(speedup)}"
        tables.append(pd.DataFrame({"dtype": dtype, "mu": sizes["mu"], "speedup": speedup}).reset_index(names="matrix"))
        names |= dict.fromkeys(speedup.index)
    drawing.log_ratio_axis(axes[0])
    axes[1].axhline(1, color="black", linewidth=0.7)
    axes[0].set_ylabel("speedup of CMRS over\nthe best alternative")
    text = "Speedup of the CMRS kernel over the fastest of vector, scalar, HYB, cuSPARSE and CUSP's formula."
    caption = context.caption(text, DOUBLE, names).replace("spmv/float64", "spmv/float64 and spmv/float32")
    frame = pd.concat(tables, ignore_index=True)
    return Result([frame], figure, caption, judge(context.where(), *claims), ours)


# ----- C-F6.4 -----


@register(
    "C-F6.4",
    "Speedup over the vector kernel for heights 2, 4 and 8, with the model",
    "Fig. 6.4",
    "The model describes the speedup well.",
    sweeps=[_HEIGHTS],
)
def heights(context: Context) -> Result:
    """Draw speedups and model for three heights."""
    times, sizes = of_size(context, context.times(_HEIGHTS), _HEIGHTS)
    mean_length = sizes["nnz"] / sizes["rows"]
    figure = drawing.figure(2.5)
    axis = figure.subplots()
    mu = np.geomspace(max(1.0, mean_length.min()), max(2.0, mean_length.max()), 50)
    columns = {}
    claims = []
    for position, (height, shade) in enumerate(zip((2, 4, 8), ("#56B4E9", "#0072B2", "#332288"), strict=True)):
        speedup = times["vector"] / times[str(height)]
        columns[f"height {height}"] = speedup
        columns[f"model {height}"] = pd.Series(acceleration(height, mean_length), index=speedup.index)
        drawing.points(
            axis, mean_length, speedup, str(height), position=position, color=shade, s=9, label=f"height {height}"
        )
        axis.plot(mu, acceleration(height, mu), color=shade)
        error = float(np.exp(np.abs(np.log(speedup / columns[f"model {height}"])).median()) - 1)
        claims.append(Claim(f"the model is near for height {height}", error < 0.2, f"median deviation {error:.0%}"))
    drawing.log_ratio_axis(axis)
    row_length_axis(axis)
    axis.set_ylabel("speedup over the vector kernel")
    axis.legend()
    frame = pd.DataFrame(columns).assign(mu=mean_length).reset_index(names="matrix")
    text = (
        "Points: CMRS with sums in registers, of which the sweep has all three heights, over CSR-vector with 32 "
        "threads per row. Lines: eq. 5.2 with 4 bytes and transactions of 128 bytes."
    )
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, _HEIGHTS, times.index), verdict)

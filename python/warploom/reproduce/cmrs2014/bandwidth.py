"""Koza et al. (2014): effective bandwidths of the kernels."""

from __future__ import annotations

import numpy as np
import pandas as pd

from warploom.bandwidth import beta_minus, beta_plus
from warploom.bench.medians import geometric_mean
from warploom.reproduce import drawing
from warploom.reproduce.cmrs2014.kernels import DOUBLE, SINGLE, times_of_kernels
from warploom.reproduce.context import Context
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.reproduce.sweep import Sweep

__all__: list[str] = []

_SYMBOLS = {"eta-": r"$\eta_-$", "eta+": r"$\eta_+$"}
_VALUE_BYTES = {"spmv/float64": 8, "spmv/float32": 4}


def _efficiencies(context: Context, sweep: Sweep) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, float]:
    """Return bytes over time in bytes per second by both counts, sizes, and the bandwidth of the device."""
    kernels, sizes, height = times_of_kernels(context, sweep)
    value = _VALUE_BYTES[sweep.setting]
    rates = []
    for count in (beta_minus, beta_plus):
        columns = {}
        for name in kernels:
            moved = count(sizes["rows"], sizes["nnz"], value, height=height if name == "CMRS" else 1)
            columns[name] = 1e6 * moved / kernels[name]
        rates.append(pd.DataFrame(columns).assign(best=lambda frame: frame.max(axis=1)))
    known = context.peak_bandwidth()
    return rates[0], rates[1], sizes, known if known == known else context.copy_bandwidth()


@register(
    "C-F6.2",
    "Effective bandwidth of five kernels on selected matrices",
    "Fig. 6.2",
    "CMRS has the highest effective bandwidth for rows of moderate length; the vector kernel is poor for short rows.",
    sweeps=[DOUBLE],
    printed=[Printed("eta- of the matrix with the longest rows, CMRS", 1.22, "Sec. 6.5, K20M")],
)
def selected_bandwidths(context: Context) -> Result:
    """Draw the effective bandwidth on matrices from short to long rows."""
    minus, _, sizes, peak = _efficiencies(context, DOUBLE)
    ordered = sizes["mu"].sort_values().index
    places = np.unique(np.linspace(0, len(ordered) - 1, min(18, len(ordered))).round().astype(int))
    names = ordered[places]
    shown = ("scalar", "vector", "CMRS", "HYB", "cuSPARSE")
    figure = drawing.figure(3.3, width=drawing.PAGE)
    axis = figure.subplots()
    for position, name in enumerate(shown):
        axis.plot(
            range(len(names)),
            minus.loc[names, name] / 1e9,
            color=drawing.colour(name),
            marker=drawing.MARKERS[position],
            linewidth=0.8,
            label=name,
        )
    axis.axhline(peak / 1e9, color="#CC0000", linestyle="--", label="bandwidth of the device")
    labels = [
        f"{label} ({_length(float(sizes.at[name, 'mu']))})"
        for name, label in zip(names, drawing.short_names(names), strict=True)
    ]
    axis.set_xticks(range(len(names)), labels, rotation=40, ha="right", rotation_mode="anchor")
    axis.set(ylabel="effective bandwidth (GB/s)", ylim=(0, None))
    axis.legend(ncols=6, loc="lower left", bbox_to_anchor=(0, 1))
    drawing.grid(axis)
    moderate = minus[sizes["mu"].between(20, 150)][list(shown)]
    short = minus[sizes["mu"] < 20][list(shown)]
    claims = []
    if len(moderate):
        ahead = float((moderate["CMRS"] >= moderate.max(axis=1)).mean())
        claims.append(
            Claim(
                "CMRS has the highest bandwidth of the five for rows of 20 to 150 nonzeros",
                ahead > 0.5,
                f"on {ahead:.0%} of {len(moderate)}",
            )
        )
    if len(short):
        ratio = geometric_mean(short["vector"] / short["CMRS"])
        claims.append(Claim("the vector kernel is poor for rows of less than 20", ratio < 0.8, f"{ratio:.2f} of CMRS"))
    longest = float(minus.loc[ordered[-1], "CMRS"] / peak)
    claims.append(Claim("x is cached well for the longest rows", longest >= 1, f"eta- is {longest:.2f}"))
    frame = (minus.loc[names] / 1e9).add_suffix(" GB/s").assign(mu=sizes["mu"]).reset_index(names="matrix")
    text = (
        "Bytes that a product has to move, with an entry of x for every nonzero (beta- of the paper; eta- is its share "
        "of the bandwidth of the device), over the time; mean row lengths in brackets, by which matrices stand. Lines "
        f"only guide the eye. {drawing.NAMES}"
    )
    ours: dict[str, float | str] = {"eta- of the matrix with the longest rows, CMRS": longest}
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, DOUBLE, names), verdict, ours)


@register(
    "C-F6.7",
    "Memory efficiency of every kernel against mean row length",
    "Fig. 6.7",
    "With the best kernel for each matrix, eta- is about 1 and eta+ about 0.6.",
    sweeps=[DOUBLE, SINGLE],
    printed=[
        Printed("mean eta-, best kernel", 1.0, "Sec. 6.6, double precision (about)"),
        Printed("mean eta+, best kernel", 0.6, "Sec. 6.6, double precision (about)"),
    ],
)
def efficiencies(context: Context) -> Result:
    """Draw eta- and eta+."""
    rows = []
    curves = []
    figure = drawing.figure(3.8, width=drawing.PAGE)
    axes = figure.subplots(2, 2, sharex=True)
    names: dict[str, None] = {}
    for line, sweep in enumerate((DOUBLE, SINGLE)):
        minus, plus, sizes, peak = _efficiencies(context, sweep)
        names |= dict.fromkeys(sizes.index)
        for axis, name, rates in zip(axes[line], ("eta-", "eta+"), (minus, plus), strict=True):
            for position, kernel in enumerate(rates):
                technique = "CUSP formula" if kernel == "CUSP" else str(kernel)
                x, y = drawing.binned(sizes["mu"], rates[kernel] / peak, bins=8)
                style = {"linewidth": 2.0, "zorder": 1, "alpha": 0.6} if kernel == "best" else {}
                axis.plot(
                    x, y, color=drawing.colour(technique), marker=drawing.MARKERS[position], label=kernel, **style
                )
                mean = float((rates[kernel] / peak).mean())
                rows.append((sweep.setting.split("/")[1], kernel, name, int(rates[kernel].notna().sum()), mean))
                curves += [(sweep.setting.split("/")[1], kernel, name, *point) for point in zip(x, y, strict=True)]
            axis.set(ylabel=f"{_SYMBOLS[name]}, {sweep.setting.split('/')[1]}", ylim=(0, None))
            if axis.get_ylim()[1] > 1:
                axis.axhline(1, color="black", linewidth=0.7)
            drawing.log_axis(axis, "x")
            drawing.grid(axis)
    for axis in axes[1]:
        axis.set_xlabel("mean row length")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=7)
    frame = pd.DataFrame(rows, columns=["dtype", "kernel", "efficiency", "matrices", "mean"])
    binned = pd.DataFrame(curves, columns=["dtype", "kernel", "efficiency", "mean row length", "value"])
    of_large = _of_large(context)
    means = frame.set_index(["dtype", "kernel", "efficiency"])["mean"]
    own = {name: float(means["float64", "best", name]) for name in ("eta-", "eta+")}
    claims = (
        Claim(
            "with the best kernels, x is cached so well that eta- is about 1", own["eta-"] > 0.9, f"{own['eta-']:.2f}"
        ),
        Claim("eta+ is about 0.6 or more", own["eta+"] > 0.55, f"{own['eta+']:.2f}{of_large}"),
    )
    ours: dict[str, float | str] = {f"mean {name}, best kernel": value for name, value in own.items()}
    text = (
        "Effective bandwidth (the bytes that a product has to move, over its time), as a share of the theoretical one "
        f"({_peak_text(context)}): eta-, with an entry of x for every nonzero, and eta+, with each entry of x once. "
        "Geometric means of matrices of similar row length; best: the fastest of the six kernels for each matrix; "
        "CUSP: the vector kernel with the threads per row of CUSP's formula."
    )
    caption = context.caption(text, DOUBLE, names).replace("spmv/float64", "spmv/float64 and spmv/float32")
    return Result([frame, binned], figure, caption, judge(context.where(), *claims), ours)


def _length(mean: float) -> str:
    return f"{mean:,.0f}" if mean >= 100 else f"{mean:.3g}"


def _of_large(context: Context) -> str:
    """Return eta+ in words, where a product is large enough to fill the device."""
    _, plus, sizes, peak = _efficiencies(context, DOUBLE)
    large = plus["best"][(sizes["nnz"] >= 10**7).to_numpy()] / peak
    return f", and {large.mean():.2f} for the {len(large)} matrices of 10^7 nonzeros and more" if len(large) else ""


def _peak_text(context: Context) -> str:
    peak = context.peak_bandwidth()
    if peak == peak:
        return f"{peak / 1e9:,.0f} GB/s"
    return f"that of a copy, {context.copy_bandwidth() / 1e9:,.0f} GB/s, since the theoretical one is not known"

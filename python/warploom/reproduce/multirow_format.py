"""Koza et al. (2014), CMRS: effective bandwidths and speedups, from measurements.

Square matrices of 10^6 to 10^8 nonzeros, as in the paper, which leaves out those with a few dense rows too: here those
whose longest row has more than 20,000 nonzeros and a hundred times the mean. The paper's GPUs had at most 1.5 MB of L2
cache; that of today's would hold many of these matrices, and is therefore emptied before each product. CUSP's kernel is
CSR-vector with as many threads per row as the mean row length asks for. HYB is warploom's, since cuSPARSE has none any
more. The parameters of CMRS that the paper chooses for all matrices are those with the best geometric mean here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warploom.bandwidth import beta_minus, beta_plus
from warploom.bench.medians import geometric_mean
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.multirow_examples import acceleration
from warploom.reproduce.registry import Printed, Sweep, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.reproduce.threads_per_row import VECTOR, by_mean

__all__: list[str] = []

_LEAST, _MOST = 10**6, 10**8
_DENSE_ROW = 20_000
_VALUE_BYTES = {"spmv/float64": 8, "spmv/float32": 4}
_BASIC = {
    "CMRS 8": "spmv/none/cmrs/basic",
    "CMRS 4": "spmv/none/cmrs/basic[height=4]",
    "CMRS 8 sorted": "spmv/none/cmrs/basic[sort_columns=1]",
    "CMRS 4 sorted": "spmv/none/cmrs/basic[height=4,sort_columns=1]",
}
_OTHERS = {
    "scalar": "spmv/none/csr/scalar",
    "HYB": "spmv/none/hyb/fused",
    "cuSPARSE": "spmv/none/csr/cusparse",
}
_KERNELS = {**{f"vector {t}": name for t, name in VECTOR.items()}, **_OTHERS, **_BASIC}
_SOME_ROWS = tuple(f"vector {t}" for t in VECTOR if t != "32")
_DOUBLE = Sweep("spmv/float64", "cold", _KERNELS, optional=_SOME_ROWS)
_SINGLE = Sweep("spmv/float32", "cold", _KERNELS, optional=_SOME_ROWS)
_MODIFIED = Sweep("spmv/float64", "cold", {**_KERNELS, "modified CMRS": "spmv/none/cmrs/modified"}, optional=_SOME_ROWS)
_MEMORY = Sweep("spmv/float64", "cold", {"CMRS": "spmv/none/cmrs/basic", "modified CMRS": "spmv/none/cmrs/modified"})
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
_ALTERNATIVES = ("vector", "scalar", "HYB", "cuSPARSE", "CUSP")


def _of_size(context: Context, times: pd.DataFrame, sweep: Sweep) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the times and sizes of square matrices of the paper's range of nonzeros, without dense rows."""
    sizes = context.sizes(times.index)
    longest, mean = sizes["spmv_nnz_per_row_max"], sizes["nnz"] / sizes["rows"]
    dense_rows = (longest > _DENSE_ROW) & (longest > 100 * mean)
    chosen = ((sizes["rows"] == sizes["cols"]) & sizes["nnz"].between(_LEAST, _MOST) & ~dense_rows).to_numpy()
    if not chosen.any():
        raise context.missing("square matrices of 10^6 to 10^8 nonzeros with these times", sweep.command())
    return times[chosen], sizes[chosen]


def _kernels(context: Context, sweep: Sweep) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """Return the times of the kernels that are compared, sizes with the mean row length, and the height of CMRS."""
    needed = ("vector 32", "cuSPARSE", *_BASIC)
    times, sizes = _of_size(context, context.times(sweep, needed), sweep)
    universal, height = _universal(times[list(_BASIC)])
    vectors = times[[f"vector {t}" for t in VECTOR]]
    threads = pd.Series(by_mean(sizes), index=times.index)
    cusp = pd.Series([vectors.at[m, f"vector {t}"] for m, t in threads.items()], index=times.index)
    kernels = pd.DataFrame(
        {
            "vector": times["vector 32"],
            "scalar": times["scalar"],
            "HYB": times["HYB"],
            "cuSPARSE": times["cuSPARSE"],
            "CUSP": cusp,
            "CMRS": times[universal],
        }
    )
    if "modified CMRS" in times:
        kernels["modified CMRS"] = times["modified CMRS"]
    return kernels, sizes.assign(mu=sizes["nnz"] / sizes["rows"]), height


def _universal(times: pd.DataFrame) -> tuple[str, int]:
    """Return the variant with the best geometric mean over the best for each matrix, and its height."""
    loss = np.log(times.div(times.min(axis=1), axis=0)).mean()
    name = str(loss.idxmin())
    return name, int(name.split()[1])


def _mu_axis(axis: Axes) -> None:
    drawing.log_axis(axis, "x")
    axis.set_xlabel("mean row length")
    drawing.grid(axis)


# ----- C-F6.2, C-F6.7 -----


def _efficiencies(context: Context, sweep: Sweep) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, float]:
    """Return bytes over time in bytes per second by both counts, sizes, and the bandwidth of the device."""
    kernels, sizes, height = _kernels(context, sweep)
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
    sweeps=[_DOUBLE],
    printed=[Printed("eta- of the matrix with the longest rows, CMRS", 1.22, "Sec. 6.5, K20M")],
)
def selected_bandwidths(context: Context) -> Result:
    """Draw the effective bandwidth on matrices from short to long rows."""
    minus, _, sizes, peak = _efficiencies(context, _DOUBLE)
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
    labels = [f"{name if len(name) < 27 else name[:26] + '…'} ({sizes.at[name, 'mu']:.3g})" for name in names]
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
    text = "beta- (every nonzero reads its entry of x) over the time; mean row lengths in brackets."
    ours: dict[str, float | str] = {"eta- of the matrix with the longest rows, CMRS": longest}
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, _DOUBLE, len(names)), verdict, ours)


@register(
    "C-F6.7",
    "Memory efficiency of every kernel against mean row length",
    "Fig. 6.7",
    "With the best kernel for each matrix, eta- is about 1 and eta+ about 0.6.",
    sweeps=[_DOUBLE, _SINGLE],
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
    count = 0
    for line, sweep in enumerate((_DOUBLE, _SINGLE)):
        minus, plus, sizes, peak = _efficiencies(context, sweep)
        count = max(count, len(sizes))
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
            axis.set(ylabel=f"{name}, {sweep.setting.split('/')[1]}", ylim=(0, None))
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
        f"Effective over theoretical bandwidth ({_peak_text(context)}), geometric means of matrices of similar row "
        "length; eta- counts an entry of x for every nonzero, eta+ each entry once."
    )
    caption = context.caption(text, _DOUBLE, count).replace("spmv/float64", "spmv/float64 and spmv/float32")
    return Result([frame, binned], figure, caption, judge(context.where(), *claims), ours)


def _of_large(context: Context) -> str:
    """Say what eta+ is where the time of a product is long enough to fill the device."""
    _, plus, sizes, peak = _efficiencies(context, _DOUBLE)
    large = plus["best"][(sizes["nnz"] >= 10**7).to_numpy()] / peak
    return f", and {large.mean():.2f} for the {len(large)} matrices of 10^7 nonzeros and more" if len(large) else ""


def _peak_text(context: Context) -> str:
    peak = context.peak_bandwidth()
    if peak == peak:
        return f"{peak / 1e9:,.0f} GB/s"
    return f"that of a copy, {context.copy_bandwidth() / 1e9:,.0f} GB/s, since the theoretical one is not known"


# ----- C-F6.3, C-F6.5, C-F6.6 -----


class _Comparison(NamedTuple):
    """CMRS over other kernels: what is drawn, and the speedups with the mean row lengths."""

    frame: pd.DataFrame
    figure: Figure
    caption: str
    speedups: dict[str, pd.Series]

    def trend(self, name: str) -> tuple[float, float]:
        """Return the geometric mean speedups for rows below and from 50 nonzeros on; NaN where there are none."""
        mu = self.speedups["mu"].loc[self.speedups[name].index]
        return geometric_mean(self.speedups[name][mu < 50]), geometric_mean(self.speedups[name][mu >= 50])


def _against(context: Context, names: Sequence[str], *, with_model: bool) -> _Comparison:
    kernels, sizes, height = _kernels(context, _DOUBLE)
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
    _mu_axis(axis)
    axis.set_ylabel("speedup of CMRS")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    frame = pd.DataFrame(speedups).assign(mu=sizes["mu"], nnz=sizes["nnz"]).reset_index(names="matrix")
    text = f"Speedup of the CMRS kernel (height {height}) over others, one point for each matrix and kernel."
    caption = context.caption(text, _DOUBLE, len(sizes))
    return _Comparison(frame, figure, caption, {**speedups, "mu": sizes["mu"]})


@register(
    "C-F6.3",
    "Speedup of CMRS over vector, scalar and HYB, with the model",
    "Fig. 6.3",
    "CMRS beats the vector kernel for short rows as the model says, and the scalar kernel for long rows.",
    sweeps=[_DOUBLE],
)
def over_three(context: Context) -> Result:
    """Draw the speedups over three kernels."""
    compared = _against(context, ("vector", "scalar", "HYB"), with_model=True)
    vector, scalar = compared.trend("vector"), compared.trend("scalar")
    claims = (
        Claim(
            "the gain over the vector kernel is greater for short rows",
            vector[0] > max(1.0, vector[1]) or (vector[1] != vector[1] and vector[0] > 1),
            f"{vector[0]:.2f}x below 50 nonzeros a row, {vector[1]:.2f}x above",
        ),
        Claim(
            "that over the scalar kernel is greater for long rows",
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
    sweeps=[_DOUBLE],
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
    sweeps=[_DOUBLE, _SINGLE],
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
    count = 0
    for axis, sweep in zip(axes, (_DOUBLE, _SINGLE), strict=True):
        kernels, sizes, height = _kernels(context, sweep)
        dtype = sweep.setting.split("/")[1]
        speedup = kernels[list(_ALTERNATIVES)].min(axis=1) / kernels["CMRS"]
        drawing.points(axis, sizes["mu"], speedup, "CMRS", s=9, alpha=0.8)
        _mu_axis(axis)
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
        count = max(count, len(speedup))
    drawing.log_ratio_axis(axes[0])
    axes[1].axhline(1, color="black", linewidth=0.7)
    axes[0].set_ylabel("speedup of CMRS over\nthe best alternative")
    text = "Speedup of the CMRS kernel over the fastest of vector, scalar, HYB, cuSPARSE and CUSP's formula."
    caption = context.caption(text, _DOUBLE, count).replace("spmv/float64", "spmv/float64 and spmv/float32")
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
    times, sizes = _of_size(context, context.times(_HEIGHTS), _HEIGHTS)
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
    _mu_axis(axis)
    axis.set_ylabel("speedup over the vector kernel")
    axis.legend()
    frame = pd.DataFrame(columns).assign(mu=mean_length).reset_index(names="matrix")
    text = (
        "Points: CMRS with sums in registers, of which the sweep has all three heights, over CSR-vector with 32 "
        "threads per row. Lines: eq. 5.2 with 4 bytes and transactions of 128 bytes."
    )
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, _HEIGHTS, len(times)), verdict)


# ----- C-F6.8 -----

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
    kernels, sizes, _ = _kernels(context, _MODIFIED)
    kernels = kernels.dropna(subset="modified CMRS")
    if kernels.empty:
        raise context.missing("times of the modified kernel on square matrices of 10^6 nonzeros", _MODIFIED.command())
    sizes = sizes.loc[kernels.index]
    memory = context.column(_MEMORY, "bytes").reindex(kernels.index)
    overhead = (memory["modified CMRS"] / memory["CMRS"]).rename("memory over CMRS")
    over_best_one = kernels[list(_ALTERNATIVES)].min(axis=1) / kernels["modified CMRS"]
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
        _mu_axis(axis)
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
    return Result([frame], figure, context.caption(text, _MODIFIED, len(kernels)), verdict, ours)


# ----- C-tune -----


@register(
    "C-tune",
    "Gain from tuning for each matrix over the universal choice",
    "Sec. 6.8",
    "Tuning CMRS for each matrix gains at least 10 % on few matrices only, and 18 % at most (K20M).",
    sweeps=[_DOUBLE],
    printed=[
        Printed("matrices that gain at least 10 %", "14 of 132", "Sec. 6.8, K20M"),
        Printed("greatest gain", 0.18, "Sec. 6.8, K20M", ".0%"),
    ],
)
def tuning(context: Context) -> Result:
    """Compare the best parameters of each matrix with the universal ones."""
    sweep = Sweep(_DOUBLE.setting, _DOUBLE.cache, _BASIC)
    times, sizes = _of_size(context, context.times(sweep), sweep)
    universal, _ = _universal(times)
    gain = times[universal] / times.min(axis=1) - 1
    mu = sizes["nnz"] / sizes["rows"]
    figure = drawing.figure(2.1)
    axis = figure.subplots()
    drawing.points(axis, mu, gain, "CMRS", s=10, alpha=0.8)
    axis.axhline(0.1, color="black", linewidth=0.7, linestyle="--")
    _mu_axis(axis)
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
    return Result([summary, per_matrix], figure, context.caption(text, sweep, len(gain)), verdict, ours)

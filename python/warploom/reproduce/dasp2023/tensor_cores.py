"""Lu and Liu (2023), DASP: SpMV on tensor cores, from measurements with a warm L2 cache, as in the paper.

CSR5, TileSpMV and LSRB-CSR, which the paper compares with too, are not part of warploom; merge-based SpMV and
CSR-adaptive represent other load-balanced algorithms on CSR.
"""

from __future__ import annotations

import pandas as pd

from warploom.bandwidth import beta_plus
from warploom.bench.medians import geometric_mean
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge
from warploom.reproduce.sweep import Sweep

__all__ = ["DOUBLE", "HALF"]

_LARGE = 10**7
_OTHERS = {
    "cuSPARSE": "spmv/none/csr/cusparse",
    "cuSPARSE BSR": "spmv/none/bsr/cusparse*",
    "merge-based": "spmv/none/csr/merge",
    "CSR-adaptive": "spmv/none/csr/adaptive",
}
_DASP = {"DASP": "spmv/none/dasp/tensor_core"}
DOUBLE = Sweep("spmv/float64", "warm", {**_DASP, **_OTHERS})
HALF = Sweep("spmv/float16", "warm", {**_DASP, "cuSPARSE": _OTHERS["cuSPARSE"]})
_BANDWIDTH = Sweep("spmv/float64", "warm", {**_DASP, **{name: _OTHERS[name] for name in ("cuSPARSE", "merge-based")}})
_PREPARED = Sweep(
    "spmv/float64",
    "warm",
    {
        **_DASP,
        "cuSPARSE BSR": "spmv/none/bsr/cusparse[block_size=2]",
        "cuSPARSE": "spmv/none/csr/cusparse",
        "HYB": "spmv/none/hyb/fused",
        "SELL": "spmv/none/sell/vector",
        "CMRS": "spmv/none/cmrs/basic",
    },
)


# ----- D-F1 -----


@register(
    "D-F1",
    "Bandwidth of SpMV on the largest matrices",
    "Fig. 1",
    "DASP brings the bandwidth of most large matrices near that of a copy, cuSPARSE and CSR5 do not.",
    sweeps=[_BANDWIDTH],
    printed=[Printed("matrices", 202, "Fig. 1, A100", ".0f")],
)
def bandwidth(context: Context) -> Result:
    """Draw the bandwidth on matrices of 10^7 nonzeros and more."""
    times = context.times(_BANDWIDTH, ("DASP", "cuSPARSE"))
    sizes = context.sizes(times.index)
    large = (sizes["nnz"] >= _LARGE).to_numpy()
    if not large.any():
        raise context.missing("matrices of 10^7 nonzeros and more with these times", _BANDWIDTH.command())
    times, sizes = times[large], sizes[large]
    moved = beta_plus(sizes["rows"], sizes["nnz"], 8, num_cols=sizes["cols"])
    rates = times.rdiv(moved, axis=0) / 1e3
    figure = drawing.figure(2.5)
    axis = figure.subplots()
    for position, name in enumerate(("merge-based", "cuSPARSE", "DASP")):
        drawing.points(axis, sizes["nnz"], rates[name], name, position=position, s=12, alpha=0.8)
    copy, peak = context.copy_bandwidth() / 1e9, context.peak_bandwidth() / 1e9
    for level, label, style in ((peak, "theoretical peak", "--"), (copy, "measured copy", ":")):
        if level == level:
            axis.axhline(level, color="#CC0000" if style == "--" else "#0072B2", linestyle=style, label=label)
    drawing.log_axis(axis, "x")
    axis.set(xlabel="nonzeros of A", ylabel="bandwidth (GB/s)", ylim=(0, None))
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.32), ncols=3)
    drawing.grid(axis)
    share = rates.median() / copy
    better = float((rates["DASP"] > rates["cuSPARSE"]).mean())
    claims = (
        Claim(
            "DASP reaches a higher bandwidth than cuSPARSE on most large matrices",
            better > 0.5,
            f"{better:.0%} of {len(rates)}",
        ),
        Claim(
            "it comes near the bandwidth of a copy",
            bool(share["DASP"] > 0.7),
            f"median {share['DASP']:.0%} of it, cuSPARSE {share['cuSPARSE']:.0%}",
        ),
    )
    frame = rates.add_suffix(" GB/s").assign(nnz=sizes["nnz"]).reset_index(names="matrix")
    text = "Bytes of A, x and y over the time, matrices of 10^7 nonzeros and more. Merge-based SpMV in place of CSR5."
    ours: dict[str, float | str] = {"matrices": float(len(rates))}
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, _BANDWIDTH, rates.index), verdict, ours)


# ----- D-F9, D-F10 -----


def _speedups(times: pd.DataFrame) -> pd.DataFrame:
    """Return the speedups of DASP over every other technique, with NaN where that has no time."""
    return times.drop(columns="DASP").div(times["DASP"], axis=0)


def _table(speedups: pd.DataFrame) -> pd.DataFrame:
    rows = [
        (
            name,
            int(values.notna().sum()),
            geometric_mean(values.dropna()),
            float(values.max()),
            float(values.min()),
            int((values > 1).sum()),
            float((values.dropna() > 1).mean()),
        )
        for name, values in speedups.items()
    ]
    return pd.DataFrame(
        rows, columns=["over", "matrices", "geometric mean", "max", "min", "DASP faster on", "share faster"]
    )


def _over_others(context: Context, sweep: Sweep, text: str) -> tuple[Result, pd.DataFrame]:
    times = context.times(sweep, ("DASP", "cuSPARSE"))
    nnz = context.sizes(times.index)["nnz"]
    speedups = _speedups(times)
    names = list(speedups)
    figure = drawing.figure(2.2 + 1.55 * len(names))
    axes = figure.subplots(1 + len(names), 1, sharex=True, height_ratios=[1.4] + [1] * len(names))
    rates = times.rdiv(2.0 * nnz, axis=0) / 1e3
    for position, name in enumerate([*names, "DASP"]):
        drawing.points(axes[0], nnz, rates[name], name, position=position, s=4)
    drawing.log_axis(axes[0], "y")
    axes[0].set_ylabel("GFLOP/s")
    axes[0].legend(loc="lower right", ncols=2, markerscale=2)
    for position, (axis, name) in enumerate(zip(axes[1:], names, strict=True)):
        drawing.points(axis, nnz, speedups[name], name, position=position, s=4)
        drawing.log_ratio_axis(axis)
        mean = geometric_mean(speedups[name].dropna())
        axis.set_title(f"over {name}: geometric mean {mean:.2f}", loc="left")
        axis.set_ylabel("speedup of DASP")
    drawing.log_axis(axes[-1], "x")
    axes[-1].set_xlabel("nonzeros of A")
    for axis in axes:
        drawing.grid(axis)
    frame = _table(speedups)
    claims = [
        Claim(
            f"DASP is faster than {name} on average and on most matrices",
            row["geometric mean"] > 1 and row["share faster"] > 0.5,
            f"geometric mean {row['geometric mean']:.2f}x, faster on {row['share faster']:.1%}",
        )
        for name, row in frame.set_index("over").iterrows()
    ]
    per_matrix = pd.concat([rates.add_suffix(" GFLOP/s"), speedups.add_prefix("speedup over ")], axis=1)
    tables = [frame, per_matrix.assign(nnz=nnz).reset_index(names="matrix")]
    ours: dict[str, float | str] = {}
    for name, row in frame.set_index("over").iterrows():
        ours |= {
            f"over {name}: geometric mean": float(row["geometric mean"]),
            f"over {name}: max": float(row["max"]),
            f"over {name}: share of matrices": float(row["share faster"]),
        }
    caption = context.caption(text, sweep, times.index)
    return Result(tables, figure, caption, judge(context.where(), *claims), ours), frame


@register(
    "D-F9",
    "DASP against cuSPARSE in float16",
    "Fig. 9",
    "DASP is 1.70 and 1.75 times as fast as cuSPARSE on average (A100, H800), and faster on most matrices.",
    sweeps=[HALF],
    printed=[
        Printed("over cuSPARSE: geometric mean", 1.75, "Sec. 4.2, H800"),
        Printed("over cuSPARSE: max", 65.94, "Abstract, H800"),
        Printed("over cuSPARSE: share of matrices", 2576 / 2893, "Sec. 4.2, H800", ".0%"),
    ],
)
def half(context: Context) -> Result:
    """Compare throughput in float16."""
    text = "Throughput and speedups in float16, one point for each matrix; cuSPARSE with its default algorithm on CSR."
    return _over_others(context, HALF, text)[0]


@register(
    "D-F10",
    "DASP against other methods in float64",
    "Fig. 10",
    "DASP is 1.52 times as fast as cuSPARSE with CSR, 2.08 times with BSR, and faster on most matrices (A100).",
    sweeps=[DOUBLE],
    printed=[
        Printed("over cuSPARSE: geometric mean", 1.52, "Sec. 4.2, A100"),
        Printed("over cuSPARSE: max", 6.94, "Sec. 4.2, A100"),
        Printed("over cuSPARSE: share of matrices", 2344 / 2893, "Sec. 4.2, A100", ".0%"),
        Printed("over cuSPARSE BSR: geometric mean", 2.08, "Sec. 4.2, A100"),
        Printed("over cuSPARSE BSR: max", 283.92, "Sec. 4.2, A100"),
        Printed("over cuSPARSE BSR: share of matrices", 2340 / 2893, "Sec. 4.2, A100", ".0%"),
    ],
)
def double(context: Context) -> Result:
    """Compare throughput in float64."""
    text = (
        "Throughput and speedups in float64, one point for each matrix; cuSPARSE with its default algorithm on CSR, "
        "and with the best block size (2, 4 or 8) on BSR. Merge-based and CSR-adaptive SpMV in place of CSR5, TileSpMV "
        "and LSRB-CSR."
    )
    return _over_others(context, DOUBLE, text)[0]


# ----- D-F13 -----


@register(
    "D-F13",
    "Cost of preparation against nonzeros",
    "Fig. 13",
    "DASP is prepared faster than cuSPARSE's BSR on almost all matrices.",
    sweeps=[_PREPARED],
)
def preparation(context: Context) -> Result:
    """Draw the time that conversion and upload take."""
    found = context.column(_PREPARED, "preparation_ms")
    nnz = context.sizes(found.index)["nnz"]
    figure = drawing.figure(2.7)
    axis = figure.subplots()
    for position, name in enumerate(found):
        drawing.points(axis, nnz, found[name], name, position=position, s=2, alpha=0.25, label=None)
        x, y = drawing.binned(nnz, found[name])
        axis.plot(x, y, color=drawing.colour(name), marker=drawing.MARKERS[position], label=name)
    drawing.log_axis(axis, "x")
    drawing.log_axis(axis, "y")
    axis.set(xlabel="nonzeros of A", ylabel="preparation (ms)")
    axis.legend(ncols=2)
    drawing.grid(axis)
    both = found[["DASP", "cuSPARSE BSR"]].dropna()
    faster = float((both["DASP"] < both["cuSPARSE BSR"]).mean()) if len(both) else 0.0
    large = found[(nnz >= 1e5).to_numpy()]
    per_nonzero = (large.div(nnz[large.index], axis=0) * 1e6).median()
    claims = (
        Claim(
            "DASP is prepared faster than cuSPARSE's BSR on almost all matrices",
            faster > 0.9,
            f"on {faster:.0%} of {len(both):,}",
        ),
    )
    summary = pd.DataFrame(
        {
            "format": list(found),
            "matrices": found.notna().sum().to_numpy(),
            "median ms": found.median().to_numpy(),
            "median ns per nonzero, 10^5 nonzeros and more": per_nonzero.reindex(found.columns).to_numpy(),
        }
    )
    text = (
        "Conversion from CSR by warploom, on the CPU, and upload, once for each matrix and format (points), with "
        "geometric means of matrices of similar size (lines). BSR has blocks of 2 x 2; cuSPARSE on CSR is the upload "
        "alone."
    )
    tables = [summary, found.assign(nnz=nnz).reset_index(names="matrix")]
    verdict = judge(context.where(), *claims)
    return Result(tables, figure, context.caption(text, _PREPARED, found.index), verdict)

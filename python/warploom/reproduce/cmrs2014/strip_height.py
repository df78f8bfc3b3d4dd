"""Koza et al. (2014), CMRS: bandwidth against the height of strips, from the experiment ``strip-height``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge

__all__ = ["rates"]

_COLOURS: Mapping[str, str] = {"float64": "#0072B2", "float32": "#D55E00"}
_SATURATED = 8
"""The height beyond which the paper's product becomes no faster, or slower."""

_TICKS = (1, 2, 4, 8, 16, 32, 64)
_CACHE = "cold"


def rates(table: pd.DataFrame) -> pd.DataFrame:
    """Return the findings with their bandwidths.

    Parameters
    ----------
    table : pandas.DataFrame
        The table of the experiment.

    Returns
    -------
    pandas.DataFrame
        With the columns ``GB/s`` and, with an entry of x for every nonzero, ``GB/s, beta-``.
    """
    return table.assign(
        **{
            "GB/s": table["bytes"] / table["median_us"] / 1e3,
            "GB/s, beta-": table["bytes_beta_minus"] / table["median_us"] / 1e3,
        }
    )


@register(
    "C-F6.1",
    "Bandwidth against strip height",
    "Fig. 6.1",
    "Higher strips make the kernel faster up to a height of about 8, until their shared memory leaves room for so few "
    "threads that even reading is slower.",
    printed=[
        Printed("best height, float64", 4, "Sec. 6.3, K20M", ".0f"),
        Printed("best height, float32", 6, "Sec. 6.3, K20M", ".0f"),
    ],
)
def strip_height(context: Context) -> Result:
    """Draw the bandwidths of kernels that only read, and of the product."""
    findings = context.findings("strip-height")
    cold = rates(findings.table[findings.table["cache"] == _CACHE])
    label = str(cold["label"].iloc[0])
    shown = cold[cold["label"] == label]
    copy = float(findings.environment["copy_bandwidth"]) / 1e9
    figure = drawing.figure(4.3)
    reading, product = figure.subplots(2, 1, sharex=True, sharey=True)
    for dtype in _COLOURS:
        of_type = shown[shown["dtype"] == dtype]
        _curve(reading, of_type, "stream", "GB/s", f"all places, {dtype}", dtype)
        _curve(reading, of_type, "strips", "GB/s", f"by strips, {dtype}", dtype, linestyle="--", marker="s")
        _curve(product, of_type, "cmrs", "GB/s, beta-", f"$\\beta_-$, {dtype}", dtype)
        _curve(product, of_type, "cmrs", "GB/s", f"$\\beta_+$, {dtype}", dtype, linestyle="--", marker="s")
    for axis, title in ((reading, "(a) only reads columns and values"), (product, f"(b) CMRS, {label}")):
        axis.axhline(copy, color="black", linestyle=":", label="measured copy")
        axis.set_xscale("log", base=2)
        axis.set_xticks(_TICKS, [str(tick) for tick in _TICKS])
        axis.set(ylabel="bandwidth (GB/s)", ylim=(0, None))
        axis.set_title(title, loc="left")
        axis.legend(loc="lower center", ncols=2)
        drawing.grid(axis)
    product.set_xlabel("rows of a strip = shared memory per thread (words)")
    best = _best(cold)
    ours: dict[str, float | str] = {
        f"best height, {dtype}": float(height)
        for dtype, height in best[best["label"] == label].set_index("dtype")["best height"].items()
    }
    names = cold["matrix"].unique()
    caption = (
        "Bandwidth of a kernel that reserves as much shared memory as CMRS and only reads columns and values, from "
        "their first to their last and by strips as CMRS does; and of CMRS, with an entry of x for every nonzero "
        "(beta-, the paper's) and with each entry once (beta+). Open symbols: shared memory leaves room for less than "
        f"all threads. {findings.device}; {_CACHE} L2 cache; one of "
        f"{context.counted(names)}; the others are in the tables."
    )
    verdict = judge(findings.where, *_claims(shown[shown["dtype"] == "float64"]))
    columns = ["label", "nnz", "dtype", "kernel", "height", "occupancy", "median_us", "GB/s", "GB/s, beta-"]
    return Result([best, cold[columns]], figure, caption, verdict, ours)


def _curve(axis: Axes, table: pd.DataFrame, kernel: str, column: str, label: str, dtype: str, **style: Any) -> None:
    """Draw a kernel's bandwidth, with open symbols where the multiprocessors are not full."""
    rows = table[table["kernel"] == kernel].sort_values("height")
    style = {"marker": "o", "color": _COLOURS[dtype], **style}
    axis.plot(rows["height"], rows[column], label=label, **style)
    limited = rows[rows["occupancy"] < 0.999]
    open_style: dict[str, Any] = {**style, "linestyle": "none", "markerfacecolor": "white", "zorder": 3}
    axis.plot(limited["height"], limited[column], **open_style)


def _by_height(table: pd.DataFrame, kernel: str, heights: Sequence[int] | None = None) -> pd.Series:
    """Return the bandwidths of a kernel by height, on one matrix."""
    found = table[table["kernel"] == kernel].set_index("height")["GB/s"].sort_index()
    return found if heights is None else found.reindex(heights).dropna()


def _claims(table: pd.DataFrame) -> list[Claim]:
    """Test the text's claims on one matrix and value type."""
    product = _by_height(table, "cmrs")
    reading = _by_height(table, "stream", [height for height in range(1, 17)])
    first, saturated = float(product.iloc[0]), float(product.get(_SATURATED, product.iloc[-1]))
    beyond = product[product.index > _SATURATED]
    occupancy = table[(table["kernel"] == "stream") & (table["height"] == reading.index[-1])]["occupancy"].iloc[0]
    return [
        Claim(
            "the product is faster with higher strips at first",
            float(product.max()) > 1.1 * first,
            f"{product.max() / first:.2f}x from height {product.index[0]} to {product.idxmax()}",
        ),
        Claim(
            f"beyond a height of {_SATURATED} it gains no more",
            bool((beyond <= 1.05 * saturated).all()),
            ", ".join(f"{rate / saturated:.2f}x of that at height {height}" for height, rate in beyond.items())
            or "no greater height measured",
        ),
        Claim(
            f"reading alone is slower where strips of {reading.index[-1]} rows limit the threads",
            float(reading.iloc[-1]) < 0.9 * float(reading.max()),
            f"{reading.iloc[-1] / reading.max():.2f} of the highest bandwidth, with {occupancy:.0%} of all threads",
        ),
    ]


def _best(table: pd.DataFrame) -> pd.DataFrame:
    """Return the height at which the product is fastest for every matrix and value type."""
    product = table[table["kernel"] == "cmrs"]
    rows = product.loc[product.groupby(["label", "dtype"], sort=False)["median_us"].idxmin()]
    lowest = product[product["height"] == 1].set_index(["label", "dtype"])["median_us"]
    key = pd.MultiIndex.from_frame(rows[["label", "dtype"]])
    return rows[["label", "rows", "nnz", "dtype"]].assign(
        **{
            "best height": rows["height"],
            "GB/s": rows["GB/s"],
            "speedup over height 1": lowest.reindex(key).to_numpy() / rows["median_us"],
        }
    )

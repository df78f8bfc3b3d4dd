"""Lu and Liu (2023), DASP: where the time of a standard SpMV on CSR goes, from the experiment ``time-split``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes

from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge

__all__ = ["PARTS", "shares"]

PARTS: Mapping[str, str] = {"random access": "#D55E00", "compute": "#0072B2", "miscellaneous": "#BBBBBB"}
"""The paper's three parts, and their colours."""

_MUCH = 0.1
"""Minimum share of the time that counts as large; the paper has 0.211 and does not define it."""

_PAPER = {"random access": 0.251, "compute": 0.211, "miscellaneous": 0.538}
_KEY = ["matrix", "label", "nnz", "kernel", "threads_per_row"]
_KERNELS = {"vector": "vector: threads per row by the mean row length", "scalar": "scalar: one thread for each row"}


def shares(times: pd.DataFrame) -> pd.DataFrame:
    """Split the times of kernels.

    Parameters
    ----------
    times : pandas.DataFrame
        Microseconds, with a column for each of `warploom.experiments.time_split.VARIANTS`.

    Returns
    -------
    pandas.DataFrame
        Shares of the time of the full kernel, with the columns of `PARTS`, which add up to 1. First the random access
        is left out and then the arithmetic as well; a kernel that becomes slower has a gain of 0. The column
        ``compute, left out first`` is of the other order.
    """
    full = times["full"]
    without_x = times["no random access"].clip(upper=full)
    rest = times["neither"].clip(upper=without_x)
    parts = {
        "random access": full - without_x,
        "compute": without_x - rest,
        "miscellaneous": rest,
        "compute, left out first": (full - times["no arithmetic"]).clip(lower=0),
    }
    return pd.DataFrame({name: part / full for name, part in parts.items()})


@register(
    "D-F2",
    "Split of the time of CSR SpMV",
    "Fig. 2",
    "Not only random access to x takes much of the time of a CSR SpMV; the computation of inner products does too.",
    printed=[Printed(name, value, "Sec. 2.1, A100", ".1%") for name, value in _PAPER.items()],
)
def time_split(context: Context) -> Result:
    """Draw the three parts for every matrix, and their means."""
    findings = context.findings("time-split")
    chosen = findings.table[(findings.table["dtype"] == "float64") & (findings.table["cache"] == "warm")]
    times = chosen.pivot(index=_KEY, columns="variant", values="median_us")
    frame = pd.concat([times.add_suffix(", us"), shares(times)], axis=1).reset_index()
    kernels = [kernel for kernel in _KERNELS if (frame["kernel"] == kernel).any()]
    figure = drawing.figure(1.2 + 1.5 * len(kernels))
    axes = figure.subplots(len(kernels), 1, sharex=True, squeeze=False)[:, 0]
    labels = frame.sort_values("nnz")["label"].drop_duplicates().tolist()
    for axis, kernel in zip(axes, kernels, strict=True):
        _bars(axis, frame[frame["kernel"] == kernel].set_index("label").reindex(labels))
        axis.set_title(_KERNELS[kernel], loc="left")
    axes[-1].set_xticks(
        range(len(labels) + 2),
        [*labels, "mean", "paper, A100"],
        rotation=60,
        ha="right",
        rotation_mode="anchor",
    )
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    means = frame.groupby("kernel")[[*PARTS, "compute, left out first"]].mean().loc[kernels]
    caption = (
        "Shares of the time of CSR kernels, by increasing nonzeros: the gain of leaving out the random access to x, "
        f"the further gain of leaving out the arithmetic, and the rest. Left out first, the arithmetic is "
        f"{means.iloc[0]['compute, left out first']:.0%} of the time of the {kernels[0]} kernel."
        f"{_gaps(frame, kernels)} {findings.device}; float64, warm L2 cache; "
        f"{context.counted(frame['matrix'].unique())}."
    )
    ours: dict[str, float | str] = {name: float(means.iloc[0][name]) for name in PARTS}
    verdict = judge(findings.where, *_claims(means))
    return Result([frame, _means(findings.table)], figure, caption.replace("%", " %"), verdict, ours)


def _gaps(frame: pd.DataFrame, kernels: Sequence[str]) -> str:
    """Return a sentence on matrices without a time of some kernel, to follow another one."""
    labels = set(frame["label"])
    absent = {kernel: sorted(labels - set(frame.loc[frame["kernel"] == kernel, "label"])) for kernel in kernels}
    said = [f"{', '.join(names)} with the {kernel} kernel" for kernel, names in absent.items() if names]
    return f" Not measured, as their longest rows would take too long: {'; '.join(said)}." if said else ""


def _bars(axis: Axes, frame: pd.DataFrame) -> None:
    """Draw stacked bars of a kernel's matrices, of their mean, and of the paper's."""
    columns = frame[list(PARTS)].reset_index(drop=True)
    columns.loc[len(columns)] = columns.mean()
    columns.loc[len(columns)] = pd.Series(_PAPER)
    bottom = 0.0 * columns["compute"]
    for place in columns.index[columns.isna().all(axis=1)]:
        axis.text(place, 0.5, "not measured", rotation=90, ha="center", va="center", color="#555555")
    for name, fill in PARTS.items():
        axis.bar(columns.index, columns[name], bottom=bottom, color=fill, label=name, width=0.8)
        bottom = bottom + columns[name].fillna(0)
    axis.axvline(len(columns) - 2.5, color="black", linewidth=0.7)
    axis.set(ylabel="share of time", ylim=(0, 1), xlim=(-0.6, len(columns) - 0.4))
    drawing.percent(axis)


def _claims(means: pd.DataFrame) -> list[Claim]:
    """Test the text's claims about two parts, for all kernels."""
    return [
        Claim(
            f"{what} takes a large share of the time",
            bool((means[name] >= _MUCH).all()),
            ", ".join(f"{share:.0%} with the {kernel} kernel" for kernel, share in means[name].items()),
        )
        for name, what in (("random access", "random access to x"), ("compute", "the computation of inner products"))
    ]


def _means(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean shares for each value type, state of the cache and kernel."""
    key = ["dtype", "cache", "kernel"]
    times = table.pivot(index=[*key, "matrix"], columns="variant", values="median_us")
    of_each = shares(times).groupby(level=key)
    counts = of_each.size().rename("matrices")
    return pd.concat([counts, of_each.mean()], axis=1).reset_index()

"""Koza et al. (2014): the performance model, which needs no measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge

__all__ = ["acceleration", "transferred"]


def transferred(height: Any, mean_length: Any, *, value_bytes: int = 4, segment: int = 128) -> NDArray[np.float64]:
    """Return bytes transferred over bytes asked for: eq. 5.1.

    Parameters
    ----------
    height : array_like
        Rows of a strip.
    mean_length : array_like
        Nonzeros of a row, on average.
    value_bytes : int
        b, bytes of a word.
    segment : int
        lambda, bytes of a memory transaction.
    """
    words = np.asarray(height, float) * np.asarray(mean_length, float) * value_bytes
    ratio: NDArray[np.float64] = 1 + (segment - value_bytes) / words
    return ratio


def acceleration(
    height: Any, mean_length: Any, *, value_bytes: int = 4, segment: int = 128, exact: bool = False
) -> NDArray[np.float64]:
    """Return the speedup of CMRS over the vector kernel: eq. 5.2.

    Parameters
    ----------
    height, mean_length, value_bytes, segment
        As for `transferred`.
    exact : bool
        The ratio of eq. 5.1 itself instead of the approximation that the paper draws.
    """
    if exact:
        sizes = {"value_bytes": value_bytes, "segment": segment}
        return transferred(1, mean_length, **sizes) / transferred(height, mean_length, **sizes)
    h, mu = np.asarray(height, float), np.asarray(mean_length, float)
    speedup: NDArray[np.float64] = 1 + (h - 1) / (1 + h * mu * value_bytes / segment)
    return speedup


_HEIGHTS = (2, 4, 8, 16)


@register(
    "C-eq",
    "Performance model",
    "Eq. 5.1 and 5.2",
    "Strips of h rows make the kernel up to h times as fast for very short rows, and no faster for long ones.",
    printed=[
        Printed("f(1, 2), single precision", 16.5, "Sec. 5"),
        Printed("f(16, 2), single precision (about)", 2.0, "Sec. 5"),
    ],
    position=5,
)
def model(context: Context) -> Result:
    """Draw both equations."""
    mu = np.geomspace(1, 500, 60)
    figure = drawing.figure(2.2)
    waste, gain = figure.subplots(1, 2)
    table: dict[str, Sequence[float] | NDArray[np.float64]] = {"mean row length": mu}
    shades = [drawing.COLOURS[name] for name in ("4", "8", "16", "32")]
    waste.plot(mu, transferred(1, mu), color="black", label="h = 1")
    for height, shade in zip(_HEIGHTS, shades, strict=True):
        table[f"f({height}, mu)"] = transferred(height, mu)
        table[f"a({height}, mu)"] = acceleration(height, mu)
        waste.plot(mu, transferred(height, mu), color=shade, label=f"h = {height}")
        gain.plot(mu, acceleration(height, mu), color=shade, label=f"h = {height}")
    for axis, label in ((waste, "f: transferred / asked for"), (gain, "a: speedup over vector")):
        drawing.log_axis(axis, "x")
        drawing.log_ratio_axis(axis)
        axis.set(xlabel="mean row length", ylabel=label)
        axis.legend()
        drawing.grid(axis)
    ours: dict[str, float | str] = {
        "f(1, 2), single precision": float(transferred(1, 2)),
        "f(16, 2), single precision (about)": float(transferred(16, 2)),
    }
    exact = acceleration(np.array(_HEIGHTS), 5.0, exact=True)
    apart = float(np.abs(acceleration(np.array(_HEIGHTS), 5.0) / exact - 1).max())
    claims = (
        Claim("f(1, 2) is 16.5", float(transferred(1, 2)) == 16.5, f"{float(transferred(1, 2)):.2f}"),
        Claim(
            "16 rows bring it to about 2", abs(float(transferred(16, 2)) - 2) < 0.1, f"{float(transferred(16, 2)):.2f}"
        ),
        Claim(
            "the approximation of eq. 5.2 is near the ratio of eq. 5.1",
            apart < 0.05,
            f"within {apart:.1%} for rows of 5",
        ),
        Claim(
            "there is little to gain for rows of 100 and more",
            float(acceleration(4, 100)) < 1.5,
            f"a(4, 100) = {float(acceleration(4, 100)):.2f}",
        ),
    )
    caption = "Eq. 5.1 and 5.2 for words of 4 bytes and transactions of 128 bytes; no matrices, nothing measured."
    return Result([pd.DataFrame(table)], figure, caption, judge("for the equations as printed", *claims), ours)

"""Exponentials and logarithms from IEEE additions, multiplications and divisions alone.

The last bit of those in a mathematical library differs between machines, and with it, occasionally, the length of a
row.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from warploom.corpus.constructions import _random

__all__ = ["exp2", "log2", "normal"]

_LN2 = math.log(2)
_EXP2_TERMS = tuple(_LN2**k / math.factorial(k) for k in range(18))
_LOG_TERMS = tuple(2 / ((2 * k + 1) * _LN2) for k in range(24))


def exp2(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return 2**x to about 1e-15."""
    whole = np.floor(x)
    return np.asarray(np.ldexp(_polynomial(_EXP2_TERMS, x - whole), whole.astype(np.int32)), np.float64)


def log2(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the logarithm of positive numbers to about 1e-15."""
    mantissa, exponent = np.frexp(x)
    ratio = (mantissa - 1) / (mantissa + 1)  # ln m = 2 artanh((m - 1) / (m + 1)), at most 1/3 for m in [1/2, 1)
    return np.asarray(ratio * _polynomial(_LOG_TERMS, ratio * ratio) + exponent, np.float64)


def normal(seed: int, size: int, stream: int = 0) -> npt.NDArray[np.float64]:
    """Draw numbers of nearly the standard normal distribution: sums of 12 uniform ones, between -6 and 6."""
    total = np.full(size, -6.0)
    for draw in range(12):
        total += _random.uniform(seed, 0.0, 1.0, size, stream=12 * stream + draw + 100)
    return total


def _polynomial(terms: tuple[float, ...], x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    value = np.zeros_like(x)
    for term in reversed(terms):
        value = value * x + term
    return value

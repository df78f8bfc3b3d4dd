"""Draws from distributions with long tails, the same everywhere.

Only integers and operations that IEEE 754 rounds correctly take part: no logarithm or power, whose last bit depends on
the library, and no sum in floating point, whose order depends on the processor.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warploom.corpus.constructions import _random

__all__ = ["copied", "power", "power_law_counts", "stubs"]

_FRACTION_BITS = 16


def power(x: npt.NDArray[np.float64], exponent: float) -> npt.NDArray[np.float64]:
    """Raise to an exponent of at least 0, taken to 16 binary places, by square roots and products."""
    whole, fraction = divmod(round(exponent * 2**_FRACTION_BITS), 2**_FRACTION_BITS)
    result = np.ones_like(x)
    for _ in range(whole):
        result = result * x
    root = x
    for place in reversed(range(_FRACTION_BITS)):
        root = np.sqrt(root)
        if fraction >> place & 1:
            result = result * root
    return result


def power_law_counts(
    n: int, mean: float, exponent: float, most: int, seed: int, stream: int = 0
) -> npt.NDArray[np.int64]:
    """Draw n counts of about this mean, such that a count above x has a probability of about x**(1 - exponent).

    Counts may be 0 and are at most `most`, which lowers the mean where the tail is heavy.
    """
    x = 1.0 / power(_random.uniform(seed, 0.0, 1.0, n, stream) + 2.0**-53, 1.0 / (exponent - 1.0))
    scaled = np.minimum(x * 2.0**10, most * 2.0**10).astype(np.int64)
    expected = scaled * (mean * n / int(scaled.sum()))
    rounding = _random.uniform(seed, 0.0, 1.0, n, stream + 1)
    return np.minimum((expected + rounding).astype(np.int64), most)


def stubs(counts: npt.NDArray[np.int64], seed: int, stream: int = 0) -> npt.NDArray[np.int64]:
    """List each position as often as its count says, in random order."""
    listed = np.repeat(np.arange(len(counts)), counts)
    return listed[_random.permutation(seed, len(listed), stream)]


def copied(source: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Follow each position, from source to source, to the first that is its own source."""
    while True:
        further = source[source]
        if np.array_equal(further, source):
            return source
        source = further

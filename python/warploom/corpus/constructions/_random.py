"""Random numbers that are the same for a seed on every machine and with every version of NumPy.

Counters go through the finaliser of SplitMix64 (Steele, Lea and Flood 2014): each number depends on its seed, stream
and position alone. Integers use no floating point, so that a pattern drawn from them is the same everywhere.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["bits", "integers", "permutation", "uniform"]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def bits(seed: int, size: int, stream: int = 0) -> npt.NDArray[np.uint64]:
    """Draw `size` numbers of 64 random bits; another `stream` gives others for the same seed."""
    with np.errstate(over="ignore"):
        start = _mix(_mix(np.uint64(seed % 2**64) * _GAMMA) + np.uint64(stream) * _GAMMA)
        counters: npt.NDArray[np.uint64] = start + np.arange(1, size + 1, dtype=np.uint64) * _GAMMA
        return np.asarray(_mix(counters))


def integers(seed: int, low: int, high: int, size: int, stream: int = 0) -> npt.NDArray[np.int64]:
    """Draw integers of ``range(low, high)``, uniformly except for a bias below 2**-31; at most 2**32 different ones."""
    span = high - low
    if not 0 < span <= 2**32:
        raise ValueError(f"cannot draw from range({low}, {high})")
    high_bits = bits(seed, size, stream) >> np.uint64(32)
    return ((high_bits * np.uint64(span)) >> np.uint64(32)).astype(np.int64) + low


def uniform(seed: int, low: float, high: float, size: int, stream: int = 0) -> npt.NDArray[np.float64]:
    """Draw float64 from [low, high)."""
    return low + (high - low) * ((bits(seed, size, stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def permutation(seed: int, size: int, stream: int = 0) -> npt.NDArray[np.int64]:
    """Draw an order of ``range(size)``."""
    return np.argsort(bits(seed, size, stream), kind="stable")


def _mix(z: np.uint64 | npt.NDArray[np.uint64]) -> np.uint64 | npt.NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.uint64 | npt.NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed

"""Subsets of a small set, as arrays."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

__all__ = ["complements", "positions", "subsets"]


def subsets(n: int, k: int) -> npt.NDArray[np.int64]:
    """List the subsets of ``range(n)`` with k elements, one in each row, in lexicographic order."""
    count = math.comb(n, k)
    flat = itertools.chain.from_iterable(itertools.combinations(range(n), k))
    return np.fromiter(flat, np.int64, count * k).reshape(count, k)


def complements(sets: npt.NDArray[np.int64], n: int) -> npt.NDArray[np.int64]:
    """List the elements of ``range(n)`` that each row lacks."""
    outside = np.ones((len(sets), n), bool)
    np.put_along_axis(outside, sets, False, axis=1)
    return np.nonzero(outside)[1].reshape(len(sets), n - sets.shape[1])


def positions(wanted: npt.NDArray[np.int64], listed: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Find sets of elements below 63 (last axis, in any order) among the rows of `listed`."""
    keys = _masks(listed)
    order = np.argsort(keys)
    found: npt.NDArray[np.int64] = order[np.searchsorted(keys, _masks(wanted), sorter=order)]
    return found


def _masks(sets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    masks: npt.NDArray[np.int64] = (np.int64(1) << sets).sum(axis=-1, dtype=np.int64)
    return masks

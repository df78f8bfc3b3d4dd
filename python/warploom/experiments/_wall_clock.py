"""Times of work on the CPU, as a caller sees them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from warploom import _core

__all__ = ["median_us", "num_threads"]


def median_us(function: Callable[[], object], repeats: int, *, warmup: int = 1) -> float:
    """Return the median time of calls in microseconds; those of the warm-up do not count."""
    for _ in range(warmup):
        function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e6 * float(np.median(times))


@contextmanager
def num_threads(count: int) -> Iterator[int]:
    """Let warploom use so many threads of the CPU, all of them for 0; gives how many they are."""
    before = _core.num_threads()
    _core.set_num_threads(count)
    try:
        yield _core.num_threads()
    finally:
        _core.set_num_threads(before)

"""How long sweeps and end-to-end measurements may take, and what they tell apart: the defaults of their commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

__all__ = ["CACHES", "PLACES", "WARMUP", "EndToEndLimits", "SweepLimits"]

WARMUP = {"warm": 4, "cold": 1}
"""Runs before the timed ones: operands about as large as the L2 cache take several until all of them are in it."""

CACHES = tuple(WARMUP)

PLACES: Mapping[str, str] = {
    "device": "torch CSR tensor in GPU memory, row offsets and columns of int32",
    "device-int64": "the same with int64, which torch has by default",
    "host": "scipy.sparse.csr_array with int32; copying it to the GPU is part of planning",
    "host-int64": "the same with int64",
}
"""Where a matrix is when planning starts."""


@dataclasses.dataclass(frozen=True)
class SweepLimits:
    """Limits of the time that measuring a matrix may take."""

    repeats: int = 16
    """Timed runs of a candidate with a warm cache, and half as many with a cold one, for which all of the cache must be
    overwritten each time; a third of them if the candidate is far from the fastest."""
    budget_ms: float = 8.0
    """Fewer runs, but at least three, where they would take longer than this."""
    far: float = 1.3
    """A candidate that is slower than the fastest so far by this factor counts as far from it."""
    matrix_s: float = 120.0
    """No candidate is started after this many seconds with one matrix, of which every setting has an equal part."""
    remeasured: float = 0.05
    """Share of the candidates that is measured once more at the end, in another order."""


@dataclasses.dataclass(frozen=True)
class EndToEndLimits:
    """How much time measuring a tool end to end may take."""

    repeats: int = 5
    """Repeats of planning, after a first one that does not count."""
    planning_s: float = 0.5
    """Time after which no further repeat is started; there is at least one."""
    loop_s: float = 0.003
    """Length of the loop of products in each repeat."""
    direct_s: float = 0.05
    """Planning and n products are measured in one go where that takes no longer, and computed elsewhere."""

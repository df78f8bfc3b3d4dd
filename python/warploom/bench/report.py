"""All summaries of a set of measurements, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from warploom.bench import oracle, repeatability, summary
from warploom.bench.measurements import Measurements
from warploom.bench.medians import settings
from warploom.bench.rendering import Summary
from warploom.errors import ParameterError

__all__ = ["tables"]


def tables(measurements: Measurements, *, oracles: bool = True) -> Iterator[Summary]:
    """Summarise measurements: counts, time, failures, repeatability, speedups, and the oracles of the papers.

    Parameters
    ----------
    measurements : Measurements
    oracles : bool
        Also counts by family, and the oracles: that is most of the tables.

    Yields
    ------
    Summary
        Tables that the measurements are not enough for are left out. Speedups and oracles are over whole matrices,
        those of threads per row over their transposes too.
    """
    for by in ("part", "source", "size", *(["family"] if oracles else [])):
        yield summary.counts(measurements, by)
    yield summary.gpu_time(measurements)
    yield summary.failures(measurements)
    yield repeatability.repeatability(measurements)
    whole = measurements.only()
    yield summary.speedups(whole)
    if not oracles:
        return
    transposed = measurements.only(transposes=True)
    within, within_transposed = _tolerances(whole), _tolerances(transposed)
    for cache in ("warm", "cold"):
        yield from _if_possible(oracle.row_permutations, whole, cache=cache, within=within)
        yield from _if_possible(oracle.permutation_portfolios, whole, cache=cache)
        yield from _if_possible(oracle.threads_per_row, transposed, cache=cache, within=within_transposed)
        yield from _if_possible(oracle.spmv_algorithms, whole, cache=cache, within=within)
    for setting, cache in settings(whole):
        yield from _if_possible(oracle.kernels, whole, setting, cache, within=within)


def _tolerances(measurements: Measurements) -> repeatability.Tolerances | None:
    """Return what near-ties are judged by, which takes a second: once for all tables."""
    try:
        return repeatability.tolerances(measurements)
    except ParameterError:
        return None


def _if_possible(make: Callable[..., Summary], *arguments: Any, **options: Any) -> Iterator[Summary]:
    try:
        yield make(*arguments, **options)
    except ParameterError:
        return

"""Training several models at the same time: trees on threads, networks in processes.

LightGBM trains outside of Python's lock; steps of small networks are mostly Python.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["in_processes", "on_threads"]

_Result = TypeVar("_Result")


def on_threads(function: Callable[..., _Result], *arguments: Iterable[Any]) -> list[_Result]:
    """Call a function as `map` does, on at most four threads, and return what it found in their order.

    Parameters
    ----------
    function : callable
        It should use one thread itself.
    *arguments : iterable
        What each call gets, as for `map`.
    """
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(function, *arguments))


def in_processes(function: Callable[..., _Result], calls: Iterable[Sequence[Any]], workers: int) -> Iterator[_Result]:
    """Call a function in several processes, and yield what it found, in the order of the calls.

    Parameters
    ----------
    function : callable
        Of a module: other processes import it.
    calls : iterable of sequence
        The arguments of each call.
    workers : int
        Processes; 1 is this one.
    """
    from joblib import Parallel, delayed  # type: ignore[import-untyped, unused-ignore]

    yield from Parallel(n_jobs=workers, return_as="generator")(delayed(function)(*given) for given in calls)

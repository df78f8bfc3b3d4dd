"""Loads matrices ahead, in other processes, while those before them are being measured."""

from __future__ import annotations

import collections
import concurrent.futures
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from warploom.bench.processes import end_with_parent

__all__ = ["loaded"]

Item = TypeVar("Item")
Made = TypeVar("Made")


def loaded(
    items: Sequence[Item], load: Callable[[Item], Made], ahead: int = 0
) -> Iterator[tuple[Item, Callable[[], Made]]]:
    """Go through items, with a function that returns what was made of each or raises what making it raised.

    Parameters
    ----------
    items : sequence
    load : callable
        Makes something of an item. Both are pickled if anything is to be loaded ahead.
    ahead : int
        Items that are loaded at the same time, in as many processes; 0: in this process, when the function is called.

    Yields
    ------
    tuple
        The item and the function, which may be called once.
    """
    if ahead < 1:
        for item in items:
            yield item, lambda item=item: load(item)  # type: ignore[misc]
        return
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    pool = concurrent.futures.ProcessPoolExecutor(ahead, mp_context=context, initializer=end_with_parent)
    try:
        waiting: collections.deque[tuple[Item, concurrent.futures.Future[Made]]] = collections.deque()
        for item in items:
            waiting.append((item, pool.submit(load, item)))
            if len(waiting) > ahead:
                first, future = waiting.popleft()
                yield first, future.result
                del future
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result
    finally:
        pool.shutdown(wait=False, cancel_futures=True)

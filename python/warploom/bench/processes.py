"""Processes that measure or load."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading

__all__ = ["end_with_parent"]


def end_with_parent() -> None:
    """End this process when the one that started it does, however that ends.

    A process of a pool waits for work for ever when its parent was killed, and keeps the GPU that it has claimed.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()


def _exit_after(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)

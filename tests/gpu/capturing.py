"""Captures of CUDA graphs in tests and measurements."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

__all__ = ["capture"]


@contextlib.contextmanager
def capture() -> Iterator[Any]:
    """Yield a graph of PyTorch that what is enqueued within becomes part of.

    Python collects no garbage meanwhile: what an earlier test left may free GPU memory, or wait for the GPU, in its
    destructor, which ends a capture with an error. So does PyTorch's generator of random numbers afterwards.
    """
    import torch

    collects = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            yield graph
    finally:
        if collects:
            gc.enable()

"""Measure how fast matrices in host memory reach the GPU at hand.

``python tests/gpu/measure_upload.py`` prints one JSON line a size and case: milliseconds and GB/s (of bytes that
arrive), median and minimum of 7 repeats, from 10^4 to 10^8 nonzeros in float32 with 10 in a row. ``resident`` is
`Problem.resident` of a fresh problem, with the allocation of memory on the GPU and the statistics of rows. ``torch``
copies the same bytes by ``.cuda()`` from pageable memory, with row offsets that are narrow already, and ``torch
pinned`` from page-locked memory, which is the floor. torch is left out where it is not installed. If OUT is set, the
lines are also written to upload.jsonl in that folder.
"""

from __future__ import annotations

import gc
import json
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import warploom as wl
from warploom import _core
from warploom._matrix import compressed

SIZES = [10**exponent for exponent in range(4, 9)]
PER_ROW, REPEATS = 10, 7


def measure(call: Callable[[], Any]) -> list[float]:
    """Return seconds of each repeat; what a call returns is freed outside of the time."""
    times = []
    for repeat in range(REPEATS + 2):
        begin = time.perf_counter()
        made = call()
        elapsed = time.perf_counter() - begin
        del made
        gc.collect()
        if repeat >= 2:  # the first ones allocate what is kept
            times.append(elapsed)
    return times


def resident(view: _core.CsrView) -> Callable[[], Any]:
    """Return an upload of a fresh problem. Making the problem takes microseconds."""

    def call() -> Any:
        problem = _core.Problem(view, "spmv", 1, "column", "warm", 0)
        return problem, problem.resident()

    return call


def cases(view: _core.CsrView, arrays: list[np.ndarray[Any, Any]]) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """Yield what is compared, with the number of threads."""
    for threads in (1, 2, 4, 8):
        if threads <= (os.cpu_count() or 1):
            yield "resident", threads, resident(view)
    try:
        import torch
    except ImportError:
        return
    for label, tensors in (
        ("torch", [torch.from_numpy(array) for array in arrays]),
        ("torch pinned", [torch.from_numpy(array).pin_memory() for array in arrays]),
    ):

        def copies(tensors: list[Any] = tensors) -> Any:
            made = [tensor.cuda(non_blocking=True) for tensor in tensors]
            torch.cuda.synchronize()
            return made

        yield label, 1, copies


def main() -> None:
    """Measure all sizes."""
    folder = os.environ.get("OUT")
    lines: list[str] = []

    def say(**values: Any) -> None:
        lines.append(json.dumps(values))
        print(lines[-1], flush=True)
        if folder:
            (pathlib.Path(folder) / "upload.jsonl").write_text("\n".join(lines) + "\n")

    say(gpu=_core.cuda_info()["devices"][0]["name"], threads=wl.num_threads(), repeats=REPEATS)
    for nnz in SIZES:
        num_rows = nnz // PER_ROW
        indptr = np.arange(num_rows + 1, dtype=np.int64) * PER_ROW
        indices = np.random.default_rng(0).integers(0, num_rows, size=nnz, dtype=np.int32)
        data = np.ones(nnz, np.float32)
        view = compressed(indptr, indices, data, (num_rows, num_rows))
        arrays = [indptr.astype(np.int32), indices, data]
        total = sum(array.nbytes for array in arrays)
        for label, threads, call in cases(view, arrays):
            wl.set_num_threads(threads)
            times = measure(call)
            median = statistics.median(times)
            say(
                nnz=nnz,
                megabytes=round(total / 1e6, 3),
                case=label,
                threads=threads,
                median_ms=round(median * 1e3, 4),
                min_ms=round(min(times) * 1e3, 4),
                gb_per_s=round(total / median / 1e9, 2),
            )
        wl.set_num_threads(0)


if __name__ == "__main__":
    main()

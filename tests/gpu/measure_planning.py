"""Measure what planning a matrix in GPU memory takes after other work, phase by phase, on the GPU at hand.

``python tests/gpu/measure_planning.py`` prints one JSON line a case: medians of 11 plans in microseconds, from the call
to the end of what it enqueues (``total``), of its phases, and of the wait at the end (``wait``). Before each plan comes
nothing but the last one (``hot``), another plan and 300 products with it (``products``), or these and a walk through
64 MiB of host memory, which leaves little in the processor's caches (``cold``).
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import warploom as wl
from warploom import corpus

MATRICES = (
    "random_regular(n=200000,degree=8)",
    "rmat(scale=16,edge_factor=20)",
    "delaunay(n=200001)",
    "block_angular(blocks=5000,rows=40,columns=70,linking=30,seed=11)",
    "edge_elements(nx=40,ny=40,nz=40)",
)
OPERATIONS = (("spmv", None), ("spmm", 32))
DTYPES = (np.float32, np.float64)
BEFORE = ("hot", "products", "cold")
WARM_UP, REPEATS, PRODUCTS = 3, 11, 300


def problems(name: str) -> Iterator[tuple[str, int | None, Any, Any]]:
    """Yield operations with a matrix on the GPU and an operand."""
    A = corpus.load(name)
    for op, k in OPERATIONS:
        for dtype in DTYPES:
            arrays = (torch.from_numpy(array) for array in (A.indptr, A.indices, A.data.astype(dtype)))
            there = torch.sparse_csr_tensor(*arrays, size=A.shape).cuda()
            shape = (A.shape[1],) if k is None else (A.shape[1], k)
            yield op, k, there, torch.rand(shape, dtype=there.dtype, device="cuda")


def measure(A: Any, op: str, k: int | None, x: Any, before: str, junk: Any) -> dict[str, Any]:
    """Return medians of plans."""
    rows: list[dict[str, float]] = []
    for _ in range(WARM_UP + REPEATS):
        if before != "hot":
            other = wl.plan(A, op, k=k)
            for _ in range(PRODUCTS):
                other @ x
            del other
        if before == "cold":
            junk += 1
        torch.cuda.synchronize()
        start = time.perf_counter()
        plan = wl.plan(A, op, k=k)
        returned = time.perf_counter()
        torch.cuda.synchronize()
        end = time.perf_counter()
        phases = {name: 1e3 * milliseconds for name, milliseconds in plan.preparation_ms.items()}
        rows.append({"total": 1e6 * (end - start), "wait": 1e6 * (end - returned), **phases})
    medians = {name: statistics.median(row[name] for row in rows[WARM_UP:]) for name in rows[-1]}
    return {"candidate": plan.candidate, **{name: round(value, 1) for name, value in medians.items()}}


def main() -> None:
    """Measure all cases."""
    junk = np.zeros(64 << 20, np.uint8)
    for name in MATRICES:
        for op, k, A, x in problems(name):
            for before in BEFORE:
                case = {"matrix": name, "nnz": A.values().shape[0], "op": op, "dtype": str(A.dtype), "before": before}
                print(json.dumps(case | measure(A, op, k, x, before, junk)), flush=True)


if __name__ == "__main__":
    main()

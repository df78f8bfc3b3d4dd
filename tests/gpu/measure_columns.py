"""Measure SpMM by row_split over the number of columns, row-major and contiguous, on the GPU at hand.

``python tests/gpu/measure_columns.py [MATRIX...]`` prints, for each number of columns k and each value type, the time
of the fastest of a few settings and its ratio to the next multiple of 8, and at the end the largest ratios. Times are
medians of batches of launches between events. If OUT is set, all times are also written to columns.csv there.
"""

from __future__ import annotations

import csv
import os
import pathlib
import statistics
import sys
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse
import torch

import warploom as wl

COLUMNS = (
    *(1, 2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 20, 23, 24, 25, 28, 31, 32, 33, 34, 35, 36, 38, 39, 40, 41, 44, 47, 48),
    *(49, 52, 55, 56, 57, 60, 63, 64, 65, 66, 68, 71, 72),
    *(96, 97, 100, 103, 104, 113, 116, 119, 120, 121, 124, 127, 128, 129, 130, 132, 135, 136),
    *(255, 256, 257, 260, 264),
)
DTYPES = ("float32", "float64", "float16")
SETTINGS = (
    "",
    "[threads_per_row=8]",
    "[threads_per_row=16]",
    "[columns_per_thread=8]",
    "[threads_per_row=8,columns_per_thread=8]",
    "[threads_per_row=16,columns_per_thread=8]",
    "[column_threads=8]",
)


def _random(n: int = 60_000, row: int = 12) -> Any:
    columns = np.sort(np.random.default_rng(0).integers(0, n, (n, row)), axis=1).ravel()
    return scipy.sparse.csr_array((np.ones(n * row), columns, np.arange(n + 1) * row), shape=(n, n))


def _poisson27(n: int = 80) -> Any:
    line = scipy.sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
    return scipy.sparse.kron(scipy.sparse.kron(line, line), line, format="csr")


# With the launches of a batch.
MATRICES = {"random_60k_12": (_random, 20), "poisson27_80": (_poisson27, 4)}


def _time(call: Any, launches: int) -> float:
    for _ in range(3):
        call()
    times = []
    for _ in range(5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(launches):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / launches)
    return statistics.median(times)


def measure(name: str, dtype: str) -> list[dict[str, Any]]:
    """Measure one matrix in one value type."""
    make, launches = MATRICES[name]
    matrix = make()
    data = np.random.default_rng(1).standard_normal(matrix.nnz)
    A = wl.CSR(
        torch.from_numpy(matrix.indptr.astype(np.int32)).cuda(),
        torch.from_numpy(matrix.indices.astype(np.int32)).cuda(),
        torch.from_numpy(data).to(getattr(torch, dtype)).cuda(),
        matrix.shape,
    )
    rows = []
    for k in COLUMNS:
        B = torch.randn(matrix.shape[1], k, device="cuda").to(getattr(torch, dtype))
        C = torch.empty(matrix.shape[0], k, device="cuda", dtype=B.dtype)
        for setting in SETTINGS:
            plan = wl.plan(A, k=k, device="cuda", select=f"spmm/none/csr/row_split{setting}")
            us = _time(lambda plan=plan, B=B, C=C: plan(B, out=C), launches)
            rows.append({"matrix": name, "dtype": dtype, "k": k, "setting": setting, "us": round(us, 2)})
    return rows


def report(rows: list[dict[str, Any]]) -> list[tuple[float, str]]:
    """Print the fastest for each k; return the ratios to the next multiple of 8."""
    best = {k: min((row for row in rows if row["k"] == k), key=lambda row: row["us"]) for k in COLUMNS}
    title = f"{rows[0]['matrix']} {rows[0]['dtype']}"
    print(title, flush=True)
    ratios = []
    for k, row in best.items():
        ratio = row["us"] / best[(k + 7) // 8 * 8]["us"]
        ratios.append((ratio, f"{title} k={k}"))
        print(f"  k={k:4} {row['us']:9.1f} us  {ratio:5.2f}  {row['setting']}", flush=True)
    return ratios


def main(names: list[str]) -> None:
    """Measure the named matrices, or all."""
    warnings.simplefilter("ignore")
    begin = time.monotonic()
    rows: list[dict[str, Any]] = []
    ratios = []
    for name in names or MATRICES:
        for dtype in DTYPES:
            measured = measure(name, dtype)
            ratios += report(measured)
            rows += measured
    print(f"over 1.25: {sum(ratio > 1.25 for ratio, _ in ratios)} of {len(ratios)}; the largest:")
    for ratio, what in sorted(ratios, reverse=True)[:12]:
        print(f"  {ratio:5.2f}  {what}")
    print(f"{time.monotonic() - begin:.0f} s")
    if "OUT" in os.environ:
        with (pathlib.Path(os.environ["OUT"]) / "columns.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1:])

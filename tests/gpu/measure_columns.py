"""Measure SpMM over the number of columns, row-major and contiguous, on the GPU at hand.

``python tests/gpu/measure_columns.py [MATRIX...] [--kernels NAME...]`` prints, for each number of columns k and each
value type, the time of the fastest of a few settings and its ratio to the next multiple of 8, and at the end the
largest ratios. Where rows of B do not begin on 16 bytes, B can be copied first: the way that the rule takes counts, and
the other one is measured and printed beside it; at the end stands where the other one would have been faster. Times
are medians of batches of launches between events. If OUT is set, the fastest are written to columns.csv there, and all
times to all_columns.csv. Kernels are row_split (the default), tensor_core and tensor_core_tf32.
"""

from __future__ import annotations

import argparse
import csv
import os
import pathlib
import statistics
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse
import torch

import warploom as wl
from warploom import _core

COLUMNS = (
    *(1, 2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 20, 23, 24, 25, 28, 31, 32, 33, 34, 35, 36, 38, 39, 40, 41, 44, 47, 48),
    *(49, 52, 55, 56, 57, 60, 63, 64, 65, 66, 68, 71, 72),
    *(96, 97, 100, 103, 104, 113, 116, 119, 120, 121, 124, 127, 128, 129, 130, 132, 135, 136),
    *(255, 256, 257, 260, 264),
)
SETTINGS = (
    "",
    "[threads_per_row=8]",
    "[threads_per_row=16]",
    "[columns_per_thread=8]",
    "[threads_per_row=8,columns_per_thread=8]",
    "[threads_per_row=16,columns_per_thread=8]",
    "[column_threads=8]",
)
# The format, the value types and the settings of each kernel.
KERNELS = {
    "row_split": ("csr", ("float32", "float64", "float16"), SETTINGS),
    "tensor_core": ("column-vectors", ("float16",), ("", "[segment_length=64]")),
    "tensor_core_tf32": ("column-vectors", ("float32",), ("", "[segment_length=64]")),
}


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


def _copies(call: Any) -> bool:
    """Whether a product copies B: it is what memory is allocated for, and computed without if that is refused."""
    _core.fail_device_allocation(1)
    call()
    return bool(_core.fail_device_allocation(0))


def measure(name: str, kernel: str, dtype: str) -> list[dict[str, Any]]:
    """Measure one matrix with one kernel in one value type, both ways where there are two."""
    make, launches = MATRICES[name]
    format_name, _, settings = KERNELS[kernel]
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
        for setting in settings:
            plan = wl.plan(A, k=k, device="cuda", select=f"spmm/none/{format_name}/{kernel}{setting}")

            def call(plan: Any = plan, B: Any = B, C: Any = C) -> None:
                plan(B, out=C)

            taken = _copies(call)
            _core.make_padded_copies("always")
            ways = [False, True] if _copies(call) else [False]
            for way in ways:
                _core.make_padded_copies("always" if way else "never")
                row = {"matrix": name, "dtype": dtype, "k": k, "us": round(_time(call, launches), 2)}
                rows.append({**row, "setting": setting, "kernel": kernel, "copied": way, "taken": way == taken})
            _core.make_padded_copies()
    return rows


def fastest(rows: list[dict[str, Any]], *, taken: bool = True) -> dict[int, dict[str, Any]]:
    """Return the fastest for each k of those that the rule takes, or of the others."""
    best: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["taken"] == taken and (row["k"] not in best or row["us"] < best[row["k"]]["us"]):
            best[row["k"]] = row
    return best


def report(rows: list[dict[str, Any]]) -> tuple[list[tuple[float, str]], list[tuple[float, str]]]:
    """Print the fastest for each k; return the ratios to the next multiple of 8, and to the way that is not taken."""
    best, others = fastest(rows), fastest(rows, taken=False)
    title = f"{rows[0]['matrix']} {rows[0]['kernel']} {rows[0]['dtype']}"
    print(title, flush=True)
    ratios, gains = [], []
    for k, row in best.items():
        ratio = row["us"] / best[(k + 7) // 8 * 8]["us"]
        ratios.append((ratio, f"{title} k={k}"))
        line = f"  k={k:4} {row['us']:9.1f} us  {ratio:5.2f}  {'copied' if row['copied'] else '':6}  {row['setting']}"
        if k in others:
            gains.append((row["us"] / others[k]["us"], f"{title} k={k} {'copied' if row['copied'] else 'as it is'}"))
            line += f"  (the other way {others[k]['us']:.1f})"
        print(line, flush=True)
    return ratios, gains


def main() -> None:
    """Measure the named matrices, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("matrices", nargs="*", metavar="MATRIX", help=f"of {', '.join(MATRICES)}")
    parser.add_argument("--kernels", nargs="+", choices=list(KERNELS), default=["row_split"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    begin = time.monotonic()
    rows: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    ratios: list[tuple[float, str]] = []
    gains: list[tuple[float, str]] = []
    for name in arguments.matrices or MATRICES:
        for kernel in arguments.kernels:
            for dtype in KERNELS[kernel][1]:
                measured = measure(name, kernel, dtype)
                new_ratios, new_gains = report(measured)
                ratios += new_ratios
                gains += new_gains
                rows += measured
                kept += fastest(measured).values()
    print(f"over 1.25: {sum(ratio > 1.25 for ratio, _ in ratios)} of {len(ratios)}; the largest:")
    for ratio, what in sorted(ratios, reverse=True)[:12]:
        print(f"  {ratio:5.2f}  {what}")
    print(f"5 % slower than the other way: {sum(gain > 1.05 for gain, _ in gains)} of {len(gains)}; the most:")
    for gain, what in sorted(gains, reverse=True)[:12]:
        print(f"  {gain:5.2f}  {what}")
    print(f"{time.monotonic() - begin:.0f} s")
    if "OUT" in os.environ:
        for file_name, of in (("columns.csv", kept), ("all_columns.csv", rows)):
            with (pathlib.Path(os.environ["OUT"]) / file_name).open("w", newline="") as file:
                writer = csv.DictWriter(file, of[0])
                writer.writeheader()
                writer.writerows(of)


if __name__ == "__main__":
    main()

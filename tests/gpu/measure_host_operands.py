"""Measure products of operands in host memory: by a GPU, with the transfers, by the CPU, and by the plan that chooses.

``python tests/gpu/measure_host_operands.py --output FILE`` writes a CSV file with a row for each product: microseconds
of wall time of ``plan(B, out=C)`` with NumPy arrays, the median of 9 repeats of up to 300 calls, of plain CSR on the
GPU (``gpu_us``), on one thread and on all threads of the CPU (``cpu_us``, ``cpu_threads_us``), and of a plan that was
not told which (``plan_us``). ``on_host`` says whether that one multiplied on the CPU. Matrices are random, with 2 to 40
nonzeros a row. What plans take for these times (cpp/src/planner/host_product.cpp) follows from such rows.

``--large`` measures large operands instead: the plan (``plan_us``), PyTorch's CSR product with the operand copied to
the GPU and the result back (``torch_us``), these two copies alone (``copies_us``), and the plan with page-locked
operands (``locked_us``).
"""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import random_array

import warploom as wl

SHAPES = ((100, 5), (1000, 5), (1000, 20), (1000, 40), (4000, 5), (4000, 20), (16000, 5), (16000, 20), (64000, 2))
COLUMNS = (1, 4, 8, 32, 128)
REPEATS = 9
LARGEST = 8 << 20  # bytes of an operand

LARGE = ((100_000, 10), (1_000_000, 10))
LARGE_COLUMNS = (1, 4, 8, 32, 128)
LARGEST_OF_ALL = 256 << 20

PLAIN = {"spmv": "spmv/none/csr/vector", "spmm": "spmm/none/csr/row_split"}


def microseconds_of(call: Callable[[], Any], calls: int) -> float:
    """Return the median of repeats, each the mean of some calls."""
    for _ in range(max(5, calls // 2)):
        call()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - begin) / calls * 1e6)
    return round(statistics.median(times), 2)


def microseconds(plan: wl.Plan, B: Any, C: Any, calls: int) -> float:
    """Return the time of a product."""
    return microseconds_of(lambda: plan(B, out=C), calls)


def problem(dtype: str, m: int, row_length: int, k: int, layout: str) -> tuple[Any, Any, str, dict[str, Any]]:
    """Return a matrix, an operand, the operation, and what a plan is asked for."""
    rng = np.random.default_rng(m + row_length)
    A = random_array((m, m), density=row_length / m, format="csr", dtype=dtype, rng=rng)
    op = "spmv" if k == 1 else "spmm"
    what = {"op": op} if k == 1 else {"op": op, "k": k, "layout": layout}
    B = np.asarray(rng.standard_normal((m, k)), dtype, order="C" if layout == "row" else "F")
    return A, B[:, 0].copy() if k == 1 else B, op, what


def measured_large(dtype: str, m: int, row_length: int, k: int) -> dict[str, Any]:
    """Return a row of the file for large operands."""
    import torch

    A, B, _, what = problem(dtype, m, row_length, k, "row")
    plan = wl.plan(A, **what, device="cuda")
    C = plan @ B
    there = torch.sparse_csr_tensor(
        torch.from_numpy(A.indptr.astype(np.int32)),
        torch.from_numpy(A.indices.astype(np.int32)),
        torch.from_numpy(A.data),
        A.shape,
    ).cuda()
    X, Y = torch.from_numpy(B), torch.from_numpy(C)
    row = {"dtype": dtype, "rows": m, "nnz": A.nnz, "k": k, "layout": "row"}
    row["plan_us"] = microseconds(plan, B, C, 3)
    row["torch_us"] = microseconds_of(lambda: Y.copy_(there @ X.cuda()), 3)
    row["copies_us"] = microseconds_of(lambda: Y.copy_(X.cuda()), 3)
    locked = X.pin_memory().numpy(), Y.pin_memory().numpy()
    row["locked_us"] = microseconds(plan, *locked, 3)
    return row


def measured(dtype: str, m: int, row_length: int, k: int, layout: str) -> dict[str, Any]:
    """Return a row of the file."""
    A, B, op, what = problem(dtype, m, row_length, k, layout)
    calls = max(3, min(300, int(3e6 / (A.nnz * k + 1000))))
    chosen = wl.plan(A, **what, device="cuda")
    C = chosen @ B
    row = {"dtype": dtype, "rows": m, "nnz": A.nnz, "k": k, "layout": layout}
    row["gpu_us"] = microseconds(wl.plan(A, **what, device="cuda", select=PLAIN[op]), B, C, calls)
    on_cpu = wl.plan(A, **what, device="cpu", select=PLAIN[op])
    threads = wl.num_threads()
    wl.set_num_threads(1)
    row["cpu_us"] = microseconds(on_cpu, B, C, calls)
    wl.set_num_threads(threads)
    row["cpu_threads_us"] = microseconds(on_cpu, B, C, calls)
    row["plan_us"] = microseconds(chosen, B, C, calls)
    row["on_host"] = int(chosen._core.multiplies_on_host(k))
    return row


def main() -> None:
    """Measure all products."""
    parser = argparse.ArgumentParser(description="Measure products of operands in host memory.")
    parser.add_argument("--output", required=True)
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    rows = []
    if options.large:
        for dtype, (m, row_length), k in itertools.product(("float32", "float64"), LARGE, LARGE_COLUMNS):
            if m * k * np.dtype(dtype).itemsize <= LARGEST_OF_ALL:
                rows.append(measured_large(dtype, m, row_length, k))
                print(rows[-1], flush=True)
    else:
        cases = itertools.product(("float32", "float64"), SHAPES, COLUMNS, ("row", "column"))
        for dtype, (m, row_length), k, layout in cases:
            if m * k * np.dtype(dtype).itemsize <= LARGEST and (k > 1 or layout == "column"):
                rows.append(measured(dtype, m, row_length, k, layout))
                print(rows[-1], flush=True)
    with open(options.output, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()

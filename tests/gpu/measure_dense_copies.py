"""Measure dense/cublas from copies of operands that begin on 16 bytes, and from the operands as they are.

``python tests/gpu/measure_dense_copies.py [--sizes N ...] [--columns K ...] [--seconds S]`` multiplies matrices of
which 4 % of the places hold a nonzero, with rows and columns that are and are not multiples of 16 bytes, by B of 32 to
129 columns, or by all K for each of the matrices, and prints microseconds with a warm and a cold L2 cache: never from
copies, always from copies where there are any, and as the rule has it. Times are medians of 20 launches between events,
enqueued while the GPU sleeps. No case is started after S seconds (120). If OUT is set, the rows are also written to
dense-copies.csv in that folder.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import pathlib
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
import torch

import warploom as wl
from warploom import _core

SIZES = (1400, 2000, 3000, 8000, 12000)
# Rows and columns more than a size, and numbers of columns of B.
SHAPES = (
    ((0, 0), (33, 36, 129)),
    ((1, 0), (32, 33, 128)),
    ((0, 1), (32, 128)),
    ((1, 1), (32, 128, 129)),
    ((2, 4), (32,)),
)
TYPES = {"float16": torch.float16, "float64": torch.float64, "tf32": torch.float32}
POLICIES = ("never", "always", "where they pay")


def _matrix(rows: int, cols: int) -> Any:
    """Return a matrix of equally long rows, one nonzero in each part of them."""
    rng = np.random.default_rng(0)
    length = max(1, cols // 25)
    indices = rng.integers(0, cols // length, (rows, length)) + np.arange(length) * (cols // length)
    data = rng.random(rows * length, dtype=np.float32)
    return scipy.sparse.csr_array((data, indices.ravel(), np.arange(rows + 1) * length), shape=(rows, cols))


def _times(call: Any, flushed: Any, repeats: int = 20) -> tuple[float, float]:
    """Return microseconds with a warm and a cold L2 cache."""
    medians = []
    for cold in (False, True):
        for _ in range(5):
            call()
        pairs = []
        for _ in range(repeats):
            if cold:
                flushed.zero_()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(150_000)
            begin.record()
            call()
            end.record()
            pairs.append((begin, end))
        torch.cuda.synchronize()
        medians.append(statistics.median(begin.elapsed_time(end) * 1e3 for begin, end in pairs))
    return medians[0], medians[1]


def _operand(rows: int, columns: int, dtype: Any, layout: str) -> Any:
    if layout == "row":
        return torch.randn(rows, columns, device="cuda", dtype=dtype)
    return torch.randn(columns, rows, device="cuda", dtype=dtype).T


def measure(sizes: list[int], all_columns: list[int], deadline: float) -> Iterator[dict[str, Any]]:
    """Time all cases, as long as there is time."""
    flushed = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    for size in sizes:
        for (more_rows, more_columns), columns in SHAPES:
            matrix = _matrix(size + more_rows, size + more_columns)
            rows, cols = matrix.shape
            for kind, layout, k in itertools.product(TYPES, ("row", "column"), all_columns or columns):
                if time.monotonic() > deadline:
                    return
                B, C = (_operand(side, k, TYPES[kind], layout) for side in (cols, rows))
                found: dict[str, Any] = {"rows": rows, "columns": cols, "k": k, "dtype": kind, "layout": layout}
                for policy in POLICIES:
                    _core.make_padded_copies(policy)
                    plan = wl.plan(
                        matrix,
                        k=k,
                        dtype="float32" if kind == "tf32" else kind,
                        layout=layout,
                        select="spmm/none/dense/" + ("cublas_tf32" if kind == "tf32" else "cublas"),
                    )
                    warm, cold = _times(lambda plan=plan, B=B, C=C: plan(B, out=C), flushed)
                    name = policy.replace(" ", "_")
                    found |= {f"{name}_warm_us": round(warm, 2), f"{name}_cold_us": round(cold, 2)}
                _core.make_padded_copies()
                yield found


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--columns", type=int, nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=120.0)
    given = parser.parse_args()
    rows = []
    for row in measure(given.sizes, given.columns, time.monotonic() + given.seconds):
        rows.append(row)
        times = "  ".join(f"{policy} {row[policy.replace(' ', '_') + '_warm_us']:7.1f}" for policy in POLICIES)
        print(
            f"{row['rows']:6} x {row['columns']:6} {row['dtype']:8} {row['layout']:6} k={row['k']:4}  {times}",
            flush=True,
        )
    if "OUT" in os.environ and rows:
        with open(pathlib.Path(os.environ["OUT"]) / "dense-copies.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()

"""Measure SpMM and sampled products in half precision against float32 and cuSPARSE, on the GPU at hand.

``python tests/gpu/measure_half.py [MATRIX...]`` prints a table of SpMM (row-major, k = 32, 128 and 256, warm cache, all
candidates without a row permutation measured): for each value type the fastest of warploom's candidates, the one on
tensor cores, and the fastest of cuSPARSE; in float32 also the fastest in TF32, which counts for nothing else. Then one
of sampled products, k = 32 and 128: warploom's, cuSPARSE's and, in float32, that of PyTorch, medians of 20 launches
between events. Every candidate is verified before it is timed. If OUT is set, all rows are also written to half.jsonl
in that folder.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import statistics
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
import torch

import warploom as wl

COLUMNS = (32, 128, 256)
DTYPES = ("float32", "float16", "bfloat16")
NAN = math.nan


def _poisson27(n: int = 80) -> Any:
    line = scipy.sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
    return scipy.sparse.kron(scipy.sparse.kron(line, line), line, format="csr")


def _fem_blocks(n: int = 173) -> Any:
    shape = (n * n, n * n)
    offsets = [0, 1, -1, n, -n, n + 1, -n - 1]
    pattern = scipy.sparse.diags_array(np.ones(len(offsets)), offsets=offsets, shape=shape)
    return scipy.sparse.kron(pattern, np.ones((6, 6)), format="csr")


def _pruned(n: int = 4096, density: float = 0.1) -> Any:
    return scipy.sparse.random_array((n, n), density=density, format="csr", rng=np.random.default_rng(0))


def _uniform(n: int = 500_000, row: int = 16) -> Any:
    columns = np.random.default_rng(0).integers(0, n, n * row)
    matrix = scipy.sparse.csr_array((np.ones(n * row), columns, np.arange(n + 1) * row), shape=(n, n))
    matrix.sum_duplicates()
    return matrix


def _rmat(scale: int = 18, degree: int = 16) -> Any:
    rng = np.random.default_rng(0)
    edges = np.zeros((2, degree << scale), np.int64)
    for _ in range(scale):
        quarter = rng.choice(4, edges.shape[1], p=[0.57, 0.19, 0.19, 0.05])
        edges = 2 * edges + np.stack([quarter // 2, quarter % 2])
    n = 1 << scale
    return scipy.sparse.csr_array(scipy.sparse.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(n, n)))


MATRICES: dict[str, Callable[[], Any]] = {
    "poisson27_80": _poisson27,
    "fem_blocks_6x6": _fem_blocks,
    "pruned_4096_90": _pruned,
    "uniform_500k_16": _uniform,
    "rmat_18_16": _rmat,
}


def _normal(matrix: Any) -> Any:
    matrix = scipy.sparse.csr_array(matrix)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    matrix.data = np.random.default_rng(1).standard_normal(matrix.nnz).astype(np.float32)
    return matrix


def _best(rows: list[Any], pattern: str, *, other: bool = False) -> Any:
    found = [row for row in rows if (pattern in row.candidate) != other and row.median_us > 0]
    return min(found, key=lambda row: row.median_us, default=None)


def spmm(name: str, matrix: Any, k: int, dtype: str) -> dict[str, Any]:
    """Measure every candidate of one product."""
    plan = wl.plan(
        matrix,
        k=k,
        dtype=dtype,
        device="cuda",
        select="measure",
        candidates="spmm/none/*",
        budget=math.inf,
        calls=math.inf,
        progress=False,
        precision="tf32" if dtype == "float32" else None,
    )
    every = plan.explain().rows
    rows, rounded = [row for row in every if "tf32" not in row.candidate], _best(every, "tf32")
    own, cores, vendor = _best(rows, "cusparse", other=True), _best(rows, "tensor_core"), _best(rows, "cusparse")
    return {
        "product": "spmm",
        "matrix": name,
        "k": k,
        "dtype": dtype,
        "own_us": own.median_us,
        "own": own.candidate,
        "tensor_core_us": cores.median_us if cores else NAN,
        "tf32_us": rounded.median_us if rounded else NAN,
        "tf32": rounded.candidate if rounded else "",
        "cusparse_us": vendor.median_us if vendor else NAN,
        "cusparse": vendor.candidate if vendor else "",
        "notes": sorted({row.note for row in every if row.note and row.note != "chosen"}),
    }


def _time(call: Callable[[], Any]) -> float:
    for _ in range(5):
        call()
    times = []
    for _ in range(20):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def sampled(name: str, matrix: Any, k: int, dtype: str) -> dict[str, Any]:
    """Measure one sampled product, and compare the results."""
    kind = getattr(torch, dtype)
    arrays = [torch.from_numpy(array).cuda() for array in (matrix.indptr, matrix.indices, matrix.data)]
    A = wl.CSR(*arrays, matrix.shape)
    X, Y = (torch.randn(rows, k, device="cuda").to(kind) for rows in matrix.shape)
    own = wl.sddmm_plan(A, device="cuda")
    out = torch.empty(matrix.nnz, dtype=kind, device="cuda")
    found = {"product": "sddmm", "matrix": name, "k": k, "dtype": dtype, "own_us": _time(lambda: own(X, Y, out=out))}
    found["cusparse_us"] = found["torch_us"] = NAN
    if dtype != "bfloat16":
        vendor = wl.sddmm_plan(A, device="cuda", select="sddmm/none/csr/cusparse")
        theirs = torch.empty_like(out)
        try:
            vendor(X, Y, out=theirs)
        except wl.errors.WarploomError as error:
            found["notes"] = [str(error)]
        else:
            torch.testing.assert_close(out, theirs, rtol=1e-2 if dtype == "float16" else 1e-4, atol=1e-2)
            found["cusparse_us"] = _time(lambda: vendor(X, Y, out=theirs))
    if dtype == "float32":
        pattern = torch.sparse_csr_tensor(*arrays, matrix.shape)
        found["torch_us"] = _time(lambda: torch.sparse.sampled_addmm(pattern, X, Y.t(), beta=0.0))
    return found


def main(names: list[str]) -> None:
    """Measure the named matrices, or all."""
    warnings.simplefilter("ignore")
    rows = []
    for name in names or MATRICES:
        matrix = _normal(MATRICES[name]())
        print(f"{name}: {matrix.shape[0]:,} rows, {matrix.nnz:,} nonzeros", flush=True)
        for k in COLUMNS:
            for dtype in DTYPES:
                row = spmm(name, matrix, k, dtype)
                rows.append(row)
                print(
                    f"  spmm  k={k:3} {dtype:8} own {row['own_us']:8.1f}  tensor cores {row['tensor_core_us']:8.1f}  "
                    f"TF32 {row['tf32_us']:8.1f}  cuSPARSE {row['cusparse_us']:8.1f}  "
                    f"ratio {row['cusparse_us'] / row['own_us']:5.2f}  {row['own']}",
                    flush=True,
                )
        for k in (32, 128):
            for dtype in DTYPES:
                row = sampled(name, matrix, k, dtype)
                rows.append(row)
                print(
                    f"  sddmm k={k:3} {dtype:8} own {row['own_us']:8.1f}  cuSPARSE {row['cusparse_us']:8.1f}  "
                    f"torch {row['torch_us']:8.1f}",
                    flush=True,
                )
    if "OUT" in os.environ:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (pathlib.Path(os.environ["OUT"]) / "half.jsonl").write_text(lines)


if __name__ == "__main__":
    main(sys.argv[1:])

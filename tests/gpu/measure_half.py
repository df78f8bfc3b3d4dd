"""Measure SpMM and sampled products in half precision against float32 and cuSPARSE, on the GPU at hand.

``python tests/gpu/measure_half.py [MATRIX...]`` prints a table of SpMM (row-major, k = 32, 128 and 256, warm cache, all
candidates without a row permutation measured): for each value type the fastest of warploom's candidates, the one on
tensor cores, and the fastest of cuSPARSE; in float32 also the fastest in TF32, which counts for nothing else. Then one
of sampled products, k = 32 and 128: warploom's, cuSPARSE's and, in float64 and float32, that of PyTorch, medians of 7
batches of 10 calls that are enqueued while the GPU sleeps. Every candidate is verified before it is timed. If OUT is
set, all rows are also written to half.jsonl in that folder. SpMM's rows say what converting to column vectors takes, on
the GPU, in milliseconds and in products.

``python tests/gpu/measure_half.py --sampled [MATRIX...]`` measures sampled products only, in float64 too, of the same
matrices, of others that the corpus names, or of files that SciPy saved. No matrix is started after ``--seconds S``. If
OUT is set, rows in the form of docs/static/sampled.csv are written to sampled.csv in that folder, after each matrix.

``python tests/gpu/measure_half.py --baseline FOLDER`` measures SpMM (k = 32 and 128) on the matrices of
docs/static/peers.csv, beside what others took on an H200. Gupta__gupta2.npz, LAW__dblp-2010.npz and
SNAP__email-Enron.npz are read from the folder (those that are not there are left out), the others are constructed: one
is the same by its definition, the rest are of the same kind and nearly the same size. The candidates are those of the
lists for half precision and for large matrices, without row permutations; in float16 also with them, said apart, as the
others were given rows in the order in which they are. No matrix is started after ``--seconds S``, 100 by default. If
OUT is set, rows in the form of docs/static/peers.csv are written to peers.csv in that folder, after each matrix.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import math
import multiprocessing
import os
import pathlib
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch

import warploom as wl
from warploom import corpus
from warploom.bench.settings import HALF, LARGE, Setting, listed

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


def _fem_like(nodes: int = 30_000, neighbours: int = 7) -> Any:
    points = corpus.load(f"nearest_points(n={nodes},neighbours={neighbours},dimensions=3)")
    pattern = scipy.sparse.csr_array(points + scipy.sparse.eye_array(nodes))
    return scipy.sparse.kron(pattern, np.ones((6, 6)), format="csr")


PEERS = pathlib.Path(__file__).parents[2] / "docs" / "static" / "peers.csv"
FILES = {
    "gupta2": "Gupta__gupta2.npz",
    "dblp-2010": "LAW__dblp-2010.npz",
    "email-Enron": "SNAP__email-Enron.npz",
}
# Under the names of peers.csv. The first is the same matrix, the others are like those that were measured.
CONSTRUCTED: dict[str, Callable[[], Any] | str] = {
    "poisson27_80": _poisson27,
    "knn3d_500k_16_natural": "nearest_points(n=500000,neighbours=16,dimensions=3)",
    "pruned_4096x4096_90": _pruned,
    "rmat_18_16": "rmat(scale=18,edge_factor=16)",
    "communities_300k_24": "communities(n=300000,count=3000,degree=21)",
    "fem_blocks_6x6": _fem_like,
    "dense_communities_60k_200": "stochastic_block(blocks=150,size=400,degree=208)",
    "knn3d_500k_16_random": "nearest_points(n=500000,neighbours=16,dimensions=3,shuffle=1)",
}


def _constructed(name: str) -> Any:
    how = CONSTRUCTED[name]
    return corpus.load(how) if isinstance(how, str) else how()


def _normal(matrix: Any) -> Any:
    matrix = scipy.sparse.csr_array(matrix)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    matrix.data = np.random.default_rng(1).standard_normal(matrix.nnz).astype(np.float32)
    return matrix


def _best(rows: list[Any], pattern: str, *, other: bool = False) -> Any:
    found = [row for row in rows if (pattern in row.candidate) != other and row.median_us > 0]
    return min(found, key=lambda row: row.median_us, default=None)


def conversion_ms(matrix: Any, dtype: str) -> float:
    """Return what converting to column vectors takes for a matrix that is on the GPU; NaN if it is refused."""
    indptr, indices, data = (torch.from_numpy(array).cuda() for array in (matrix.indptr, matrix.indices, matrix.data))
    A = wl.CSR(indptr, indices, data.to(getattr(torch, dtype)), matrix.shape)
    name = "spmm/none/column-vectors/tensor_core" + ("_tf32" if dtype == "float32" else "")
    precision = "tf32" if dtype == "float32" else None
    try:
        plans = [wl.plan(A, k=32, device="cuda", select=name, precision=precision) for _ in range(7)]
    except wl.errors.WarploomError:
        return NAN
    return statistics.median(plan.preparation_ms["conversion"] for plan in plans[1:])


def spmm(name: str, matrix: Any, k: int, dtype: str, candidates: str | list[str] = "spmm/none/*") -> dict[str, Any]:
    """Measure candidates of one product, all by default."""
    plan = wl.plan(
        matrix,
        k=k,
        dtype=dtype,
        device="cuda",
        select="measure",
        candidates=candidates,
        budget=math.inf,
        calls=math.inf,
        progress=False,
        precision="tf32" if dtype == "float32" else None,
    )
    every = plan.explain().rows
    rows, rounded = [row for row in every if "tf32" not in row.candidate], _best(every, "tf32")
    moved = _best([row for row in rows if not row.candidate.startswith("spmm/none/")], "")
    rows = [row for row in rows if row.candidate.startswith("spmm/none/")]
    own, cores, vendor = _best(rows, "cusparse", other=True), _best(rows, "tensor_core"), _best(rows, "cusparse")
    return {
        "product": "spmm",
        "matrix": name,
        "k": k,
        "dtype": dtype,
        "own_us": own.median_us,
        "own": own.candidate,
        "ordered_us": moved.median_us if moved else NAN,
        "ordered": moved.candidate if moved else "",
        "ordered_ms": moved.preparation_ms if moved else NAN,
        "tensor_core_us": cores.median_us if cores else NAN,
        "tf32_us": rounded.median_us if rounded else NAN,
        "tf32": rounded.candidate if rounded else "",
        "cusparse_us": vendor.median_us if vendor else NAN,
        "cusparse": vendor.candidate if vendor else "",
        "notes": sorted({row.note for row in every if row.note and row.note != "chosen"}),
    }


def _time(call: Callable[[], Any]) -> float:
    """Return what a call takes on the GPU, in microseconds: it sleeps until ten calls are enqueued."""
    for _ in range(3):
        call()
    times = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(10_000_000)
        begin.record()
        for _ in range(10):
            call()
        end.record()
        slept = not begin.query()
        end.synchronize()
        if slept:
            times.append(begin.elapsed_time(end) * 1e2)
    return statistics.median(times) if times else NAN


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
    if dtype in ("float64", "float32"):
        pattern = torch.sparse_csr_tensor(*arrays[:2], arrays[2].to(kind), matrix.shape)
        found["torch_us"] = _time(lambda: torch.sparse.sampled_addmm(pattern, X, Y.t(), beta=0.0))
    return found


def _listed(dtype: str) -> list[str]:
    setting = Setting.parse(f"spmm/{dtype}/row/k=32")
    if dtype == "float16":
        return [c.name for c in listed(setting, "cuda", HALF)]
    names = [c.name for c in listed(setting, "cuda", LARGE) if c.name.startswith("spmm/none/")]
    return [*names, "spmm/none/column-vectors/tensor_core_tf32*"]


def compare(name: str, matrix: Any, peers: Any) -> list[dict[str, Any]]:
    """Measure one matrix of peers.csv in float16, float32 and TF32, and print it beside what others took."""
    rows = []
    for k in (32, 128):
        by_dtype = {dtype: spmm(name, matrix, k, dtype, _listed(dtype)) for dtype in ("float16", "float32")}
        narrow, wide = by_dtype["float16"], by_dtype["float32"]
        same = name in FILES or name == "poisson27_80"
        own = {"fp16": (narrow["own_us"], narrow["own"]), "fp32": (wide["own_us"], wide["own"])}
        own["tf32"] = (min(wide["own_us"], wide["tf32_us"]), wide["tf32"])
        vendor = {"fp16": (narrow["cusparse_us"], narrow["cusparse"]), "fp32": (wide["cusparse_us"], wide["cusparse"])}
        ordered = {"fp16": min(own["fp16"], (narrow["ordered_us"], narrow["ordered"]), key=lambda found: found[0])}
        for code, of in (("warploom", own), ("warploom, any order", ordered), ("cuSPARSE here", vendor)):
            for precision, (us, candidate) in of.items():
                rows.append(
                    {
                        "matrix": name,
                        "rows": matrix.shape[0],
                        "nnz": matrix.nnz,
                        "k": k,
                        "code": code,
                        "precision": precision,
                        "us": us,
                        "setting": candidate,
                        "same_matrix": same,
                        "preparation_ms": narrow["ordered_ms"] if candidate == narrow["ordered"] else NAN,
                    }
                )
        others = peers[(peers["matrix"] == name) & (peers["k"] == k)]
        times = "  ".join(f"{row.code} {row.precision} {row.us:.0f}" for row in others.itertuples())
        print(
            f"  k={k:3} float16 {narrow['own_us']:.1f}  in other orders {narrow['ordered_us']:.1f}  "
            f"tensor cores {narrow['tensor_core_us']:.1f}  float32 {wide['own_us']:.1f}  TF32 {wide['tf32_us']:.1f}  "
            f"cuSPARSE {narrow['cusparse_us']:.1f} and {wide['cusparse_us']:.1f} | {times} | {narrow['own']} | "
            f"{narrow['ordered']}",
            flush=True,
        )
    return rows


def baseline(folder: pathlib.Path, seconds: float) -> None:
    """Measure the matrices of peers.csv."""
    deadline = time.monotonic() + seconds
    peers = pd.read_csv(PEERS)
    peers = peers[~peers["code"].isin(["warploom", "cuSPARSE here"])]
    rows: list[dict[str, Any]] = []
    spawned = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(min(len(CONSTRUCTED), os.cpu_count() or 1), spawned) as pool:
        made = {name: pool.submit(_constructed, name) for name in CONSTRUCTED}
        for name in (*FILES, *CONSTRUCTED):
            if name in FILES and not (folder / FILES[name]).exists():
                print(f"{name}: {FILES[name]} is not there")
                continue
            if time.monotonic() > deadline:
                print(f"{name}: no time is left")
                continue
            matrix = _normal(made[name].result() if name in made else scipy.sparse.load_npz(folder / FILES[name]))
            took = {dtype: conversion_ms(matrix, dtype) for dtype in ("float16", "float32")}
            print(f"{name}: {matrix.shape[0]:,} rows, {matrix.nnz:,} nonzeros, conversion {took} ms", flush=True)
            found = compare(name, matrix, peers)
            for row in found:
                of_vectors = row["code"].startswith("warploom") and "none/column-vectors" in row["setting"]
                if of_vectors:
                    row["preparation_ms"] = took["float16" if row["precision"] == "fp16" else "float32"]
            rows += found
            if "OUT" in os.environ:
                table = pd.DataFrame(rows).reindex(columns=pd.read_csv(PEERS, nrows=0).columns)
                table.to_csv(pathlib.Path(os.environ["OUT"]) / "peers.csv", index=False, float_format="%.4g")


def _loaded(name: str) -> Any:
    if name in MATRICES:
        return _normal(MATRICES[name]())
    return _normal(scipy.sparse.load_npz(name) if name.endswith(".npz") else corpus.load(name))


def sampled_products(names: list[str], seconds: float = math.inf) -> list[dict[str, Any]]:
    """Measure sampled products of the named matrices, and print them."""
    deadline = time.monotonic() + seconds
    rows = []
    spawned = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(min(len(names), os.cpu_count() or 1), spawned) as pool:
        matrices = dict(zip(names, pool.map(_loaded, names), strict=True))
    for name, matrix in matrices.items():
        if time.monotonic() > deadline:
            print(f"{name}: no time is left")
            continue
        print(f"{name}: {matrix.shape[0]:,} rows, {matrix.nnz:,} nonzeros", flush=True)
        for k in (32, 128):
            for dtype in ("float64", *DTYPES):
                row = sampled(name, matrix, k, dtype)
                rows.append(row | {"rows": matrix.shape[0], "cols": matrix.shape[1], "nnz": matrix.nnz})
                print(
                    f"  sddmm k={k:3} {dtype:8} own {row['own_us']:8.1f}  cuSPARSE {row['cusparse_us']:8.1f}  "
                    f"torch {row['torch_us']:8.1f}",
                    flush=True,
                )
        if "OUT" in os.environ:
            columns = ["matrix", "rows", "cols", "nnz", "k", "dtype", "own_us", "cusparse_us", "torch_us"]
            table = pd.DataFrame(rows)[columns]
            table.to_csv(pathlib.Path(os.environ["OUT"]) / "sampled.csv", index=False, float_format="%.4g")
    return rows


def main() -> None:
    """Measure the named matrices, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="MATRIX")
    parser.add_argument("--baseline", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--sampled", action="store_true")
    parser.add_argument("--seconds", type=float, default=100.0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.baseline is not None:
        baseline(given.baseline, given.seconds)
        return
    names = given.names or list(MATRICES)
    if given.sampled:
        sampled_products(names, given.seconds)
        return
    rows = []
    for name in names:
        matrix = _normal(MATRICES[name]())
        print(f"{name}: {matrix.shape[0]:,} rows, {matrix.nnz:,} nonzeros", flush=True)
        took = {dtype: conversion_ms(matrix, dtype) for dtype in DTYPES}
        for k in COLUMNS:
            for dtype in DTYPES:
                row = spmm(name, matrix, k, dtype)
                product_us = row["tf32_us" if dtype == "float32" else "tensor_core_us"]
                row["conversion_ms"] = took[dtype]
                row["conversion_products"] = 1e3 * took[dtype] / product_us
                rows.append(row)
                print(
                    f"  spmm  k={k:3} {dtype:8} own {row['own_us']:8.1f}  tensor cores {row['tensor_core_us']:8.1f}  "
                    f"TF32 {row['tf32_us']:8.1f}  cuSPARSE {row['cusparse_us']:8.1f}  "
                    f"ratio {row['cusparse_us'] / row['own_us']:5.2f}  "
                    f"conversion {took[dtype]:.2f} ms = {row['conversion_products']:.0f} products  {row['own']}",
                    flush=True,
                )
    rows += sampled_products(names)
    if "OUT" in os.environ:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (pathlib.Path(os.environ["OUT"]) / "half.jsonl").write_text(lines)


if __name__ == "__main__":
    main()

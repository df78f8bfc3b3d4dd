"""Measure an order of rows: how long it takes on the GPU at hand and on the host, and what it gains.

``python tests/gpu/measure_orders.py [--order ORDER] [--k K] [MATRIX...]`` prints one JSON line a matrix, after one
about the machine. The order is one that is computed on GPUs, ``rcm`` by default:

- ``gpu_ms``: the order, computed where the matrix is, in GPU memory (median of 3), ``first_gpu_ms`` the first time;
  ``host_ms`` once on the host; ``same``: whether both are the same permutation;
- ``kernels_ms``: the kernels that took longest, of one more run under the profiler of PyTorch, where that is installed;
- ``none_us`` and ``rcm_us`` (named by the order): the fastest SpMV in float64 without and with it, or the fastest SpMM
  in float32 with K columns, row-major, with ``none`` and ``rcm``, the names of these candidates;
- ``products``: ``gpu_ms`` in products without the order; ``repaid_after``: products from which on ordering has paid.

``--plans`` measures plans instead that `wl.plan` makes for 1,000 products by its default choice, and those that it
makes without orders of the rows (``candidates="*/none/*"``), of tensors of PyTorch in GPU memory, of any type
(``--dtype``): ``plan_ms``, the median of 3, ``product_us``, of calls with ``out``, ``total_ms`` for both together, and
the candidate.

Matrices are made in processes side by side. If OUT is set, the lines are also written to orders.jsonl in that folder.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import pathlib
import statistics
import time
from typing import Any

import numpy as np
import scipy.sparse

import warploom as wl
from warploom import _core, corpus
from warploom._matrix import as_csr
from warploom.candidates import parse
from warploom.errors import WarploomError

MATRICES = (
    "nearest_points(n=1000000).shuffled",
    "grid3d(nx=100,ny=100,nz=100,stencil=27).shuffled",
    "communities(n=500000,count=4000,degree=24).shuffled",
    "delaunay(n=1000000).shuffled",
    "roads(width=1000,height=1000).shuffled",
    "rmat(scale=20,edge_factor=16)",
)
KERNELS = {
    "spmv": ("csr/vector", "column-panels/shared_x", "compressed-sell/vector", "packed-csr/segmented_sum"),
    "spmm": ("csr/row_split", "csr/nonzero_split", "segmented-csr/row_split"),
}
REPEATS = 3
ON_GPU = [name for name in wl.permutations.names() if _core.permutation_runs_on_gpu(name)]


def load(name: str, dtype: str) -> scipy.sparse.csr_array:
    """Make a matrix, with values of a type."""
    return corpus.load(name).astype(dtype)


def milliseconds(order: str, problem: _core.Problem) -> float:
    """Return the milliseconds that the order takes in a plan."""
    candidate = parse(f"{problem.op}/{order}/{KERNELS[problem.op][0]}")
    return float(_core.prepare(problem, candidate).preparation_ms["permutation"])


def kernel_times(order: str, problem: _core.Problem) -> dict[str, float]:
    """Return the milliseconds of the kernels of the order that take longest."""
    try:
        import torch
        from torch.profiler import ProfilerActivity, profile
    except ImportError:
        return {}
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        milliseconds(order, problem)
        torch.cuda.synchronize()
    spent: dict[str, float] = {}
    for event in profiled.events():
        name = event.name.split("(")[0].split("<")[0].split("::")[-1]
        spent[name] = spent.get(name, 0.0) + float(getattr(event, "device_time_total", 0.0)) / 1e3
    longest = sorted(spent, key=lambda name: -spent[name])[:8]
    return {name: round(spent[name], 3) for name in longest}


def fastest(
    order: str, problem: _core.Problem, trial: _core.Trial, perm: tuple[np.ndarray[Any, Any], float] | None
) -> Any:
    """Return the microseconds and the name of the fastest of some kernels, each of whose products is checked."""
    best = (float("inf"), "")
    for kernel in KERNELS[problem.op]:
        candidate = parse(f"{problem.op}/{order}/{kernel}")
        try:
            plan = _core.prepare(problem, candidate, perm)
        except WarploomError:  # one that does not suit the matrix
            continue
        wrong = trial.check(plan)
        if wrong:
            raise AssertionError(f"{candidate.name}: {wrong}")
        best = min(best, (trial.time(plan, cache="warm").median, candidate.name))
    return best


def measure(order: str, k: int, name: str, A: scipy.sparse.csr_array) -> dict[str, Any]:
    """Measure one matrix; SpMV if `k` is 0."""
    view = as_csr(A)
    problem = _core.Problem(view, *(("spmm", k, "row") if k else ("spmv", 1, "column")), "warm", 0)
    resident = problem.resident()
    first = milliseconds(order, problem)
    gpu_ms = statistics.median(milliseconds(order, problem) for _ in range(REPEATS))
    there = _core.compute_permutation_on_gpu(order, resident)
    begin = time.perf_counter()
    here = _core.compute_permutation(order, view, 32, 32, 32)
    host_ms = 1e3 * (time.perf_counter() - begin)
    found: dict[str, Any] = {
        "order": order,
        "k": k,
        "matrix": name,
        "rows": A.shape[0],
        "nnz": int(A.nnz),
        "first_gpu_ms": round(first, 3),
        "gpu_ms": round(gpu_ms, 3),
        "host_ms": round(host_ms, 1),
        "same": bool(np.array_equal(there, here)),
    }
    trial = _core.Trial(problem)
    none_us, none = fastest("none", problem, trial, None)
    ordered_us, ordered = fastest(order, problem, trial, (there, gpu_ms))
    gained = none_us - ordered_us
    found |= {"none_us": round(none_us, 2), "none": none, f"{order}_us": round(ordered_us, 2), order: ordered}
    found["products"] = round(1e3 * gpu_ms / none_us, 1)
    found["repaid_after"] = round(1e3 * gpu_ms / gained) if gained > 0 else None
    with contextlib.suppress(RuntimeError):  # a profiler is in use already, or not allowed here
        found["kernels_ms"] = kernel_times(order, problem)
    return found


def measure_plans(k: int, dtype: str, name: str, A: scipy.sparse.csr_array) -> dict[str, Any]:
    """Measure planning and products, with and without orders."""
    import torch

    indptr, indices, data = (torch.from_numpy(part).cuda() for part in (A.indptr, A.indices, A.data))
    there = torch.sparse_csr_tensor(indptr, indices, data.to(getattr(torch, dtype)), A.shape)
    B = torch.rand((A.shape[1], k) if k else A.shape[1], dtype=there.dtype, device="cuda")
    found: dict[str, Any] = {"k": k, "dtype": dtype, "matrix": name, "rows": A.shape[0], "nnz": int(A.nnz)}
    results = []
    for label, patterns in (("chosen", None), ("without", "*/none/*")):
        times, plan = [], None
        for _ in range(1 + REPEATS):
            del plan
            torch.cuda.synchronize()
            begin = time.perf_counter()
            plan = wl.plan(there, "spmm" if k else "spmv", k=k or None, candidates=patterns)
            torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - begin))
        C = plan @ B
        results.append(C.clone())
        begin_event, end_event = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin_event.record()
        for _ in range(50):
            plan(B, out=C)
        end_event.record()
        end_event.synchronize()
        product_us = begin_event.elapsed_time(end_event) * 1e3 / 50
        plan_ms = statistics.median(times[1:])
        found |= {
            f"{label}_plan_ms": round(plan_ms, 3),
            f"{label}_product_us": round(product_us, 2),
            f"{label}_total_ms": round(plan_ms + product_us, 2),
            label: plan.explain().chosen,
        }
    scale = float(results[1].abs().max())
    found["difference"] = float((results[0].double() - results[1].double()).abs().max()) / scale
    return found


def main(order: str, k: int, names: list[str], dtype: str = "") -> None:
    """Measure the named matrices, or all; plans in a value type, if there is one."""
    folder = os.environ.get("OUT")
    lines: list[str] = []

    def say(values: dict[str, Any]) -> None:
        lines.append(json.dumps(values))
        print(lines[-1], flush=True)
        if folder:
            (pathlib.Path(folder) / "orders.jsonl").write_text("\n".join(lines) + "\n")

    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(len(MATRICES), mp_context=context) as processes:
        loaded = "float64" if dtype == "float64" or not (k or dtype) else "float32"
        loading = {name: processes.submit(load, name, loaded) for name in names or MATRICES}
        say({"gpu": _core.cuda_info()["devices"][0]["name"], "threads": wl.num_threads()})
        for name in names or MATRICES:
            A = loading.pop(name).result()
            say(measure_plans(k, dtype, name, A) if dtype else measure(order, k, name, A))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure an order of rows that is computed on GPUs.")
    parser.add_argument("--order", default="rcm", choices=ON_GPU)
    parser.add_argument("--k", type=int, default=0, help="Columns of B, which is a vector by default.")
    parser.add_argument("--plans", action="store_true", help="Measure plans: the default, and without orders.")
    parser.add_argument("--dtype", default="", help="Of plans; float64 for SpMV and float32 for SpMM by default.")
    parser.add_argument("matrices", nargs="*", metavar="MATRIX")
    given = parser.parse_args()
    of_plans = given.dtype or ("float32" if given.k else "float64")
    main(given.order, given.k, given.matrices, of_plans if given.plans else "")

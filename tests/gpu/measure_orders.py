"""Measure reverse Cuthill-McKee: how long it takes on the GPU at hand and on the host, and what the order gains.

``python tests/gpu/measure_orders.py [MATRIX...]`` prints one JSON line a matrix, after one about the machine:

- ``gpu_ms``: the order, computed where the matrix is, in GPU memory (median of 3), ``first_gpu_ms`` the first time;
  ``host_ms`` once on the host; ``same``: whether both are the same permutation;
- ``kernels_ms``: the kernels that took longest, of one more run under the profiler of PyTorch, where that is installed;
- ``none_us`` and ``rcm_us``: the fastest SpMV in float64 without and with the order, with ``none`` and ``rcm``, the
  names of these candidates;
- ``products``: ``gpu_ms`` in products without the order; ``repaid_after``: products from which on ordering has paid.

Matrices are made in processes side by side. If OUT is set, the lines are also written to orders.jsonl in that folder.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import pathlib
import statistics
import sys
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
KERNELS = ("csr/vector", "column-panels/shared_x", "compressed-sell/vector", "packed-csr/segmented_sum")
REPEATS = 3


def load(name: str) -> scipy.sparse.csr_array:
    """Make a matrix, with float64 values."""
    return corpus.load(name).astype(np.float64)


def order(problem: _core.Problem) -> float:
    """Return the milliseconds that the order takes in a plan."""
    return float(_core.prepare(problem, parse("spmv/rcm/csr/vector")).preparation_ms["permutation"])


def kernel_times(problem: _core.Problem) -> dict[str, float]:
    """Return the milliseconds of the kernels of the order that take longest."""
    try:
        import torch
        from torch.profiler import ProfilerActivity, profile
    except ImportError:
        return {}
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        order(problem)
        torch.cuda.synchronize()
    spent: dict[str, float] = {}
    for event in profiled.events():
        name = event.name.split("(")[0].split("<")[0].split("::")[-1]
        spent[name] = spent.get(name, 0.0) + float(getattr(event, "device_time_total", 0.0)) / 1e3
    longest = sorted(spent, key=lambda name: -spent[name])[:8]
    return {name: round(spent[name], 3) for name in longest}


def fastest(problem: _core.Problem, trial: _core.Trial, perm: tuple[np.ndarray[Any, Any], float] | None) -> Any:
    """Return the microseconds and the name of the fastest of some kernels, each of whose products is checked."""
    best = (float("inf"), "")
    for kernel in KERNELS:
        candidate = parse(f"spmv/{'none' if perm is None else 'rcm'}/{kernel}")
        try:
            plan = _core.prepare(problem, candidate, perm)
        except WarploomError:  # one that does not suit the matrix
            continue
        wrong = trial.check(plan)
        if wrong:
            raise AssertionError(f"{candidate.name}: {wrong}")
        best = min(best, (trial.time(plan, cache="warm").median, candidate.name))
    return best


def measure(name: str, A: scipy.sparse.csr_array) -> dict[str, Any]:
    """Measure one matrix."""
    view = as_csr(A)
    problem = _core.Problem(view, "spmv", 1, "column", "warm", 0)
    resident = problem.resident()
    first = order(problem)
    gpu_ms = statistics.median(order(problem) for _ in range(REPEATS))
    there = _core.compute_permutation_on_gpu("rcm", resident)
    begin = time.perf_counter()
    here = _core.compute_permutation("rcm", view, 32, 32, 32)
    host_ms = 1e3 * (time.perf_counter() - begin)
    found: dict[str, Any] = {
        "matrix": name,
        "rows": A.shape[0],
        "nnz": int(A.nnz),
        "first_gpu_ms": round(first, 3),
        "gpu_ms": round(gpu_ms, 3),
        "host_ms": round(host_ms, 1),
        "same": bool(np.array_equal(there, here)),
    }
    trial = _core.Trial(problem)
    none_us, none = fastest(problem, trial, None)
    rcm_us, rcm = fastest(problem, trial, (there, gpu_ms))
    gained = none_us - rcm_us
    found |= {"none_us": round(none_us, 2), "none": none, "rcm_us": round(rcm_us, 2), "rcm": rcm}
    found["products"] = round(1e3 * gpu_ms / none_us, 1)
    found["repaid_after"] = round(1e3 * gpu_ms / gained) if gained > 0 else None
    with contextlib.suppress(RuntimeError):  # a profiler is in use already, or not allowed here
        found["kernels_ms"] = kernel_times(problem)
    return found


def main(names: list[str]) -> None:
    """Measure the named matrices, or all."""
    folder = os.environ.get("OUT")
    lines: list[str] = []

    def say(values: dict[str, Any]) -> None:
        lines.append(json.dumps(values))
        print(lines[-1], flush=True)
        if folder:
            (pathlib.Path(folder) / "orders.jsonl").write_text("\n".join(lines) + "\n")

    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(len(MATRICES), mp_context=context) as processes:
        loading = {name: processes.submit(load, name) for name in names or MATRICES}
        say({"gpu": _core.cuda_info()["devices"][0]["name"], "threads": wl.num_threads()})
        for name in names or MATRICES:
            say(measure(name, loading.pop(name).result()))


if __name__ == "__main__":
    main(sys.argv[1:])

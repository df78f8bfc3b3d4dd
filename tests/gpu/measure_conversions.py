"""Measure how long matrices in GPU memory take to be converted to formats.

``python tests/gpu/measure_conversions.py [--format FORMAT] [MATRIX...]`` prints one JSON line for each format and
matrix, after one about the machine; without arguments, those whose conversion was slow once, which takes less than a
minute. Values are in float64.

- ``us``: the conversion of a plan for SpMV, from the request until the GPU has finished, median of 7 after a warm-up;
  ``first_us``: the warm-up, which loads kernels and lets the memory pool grow. Where PyTorch is installed, the matrix
  is a tensor of it, and it allocates the memory (``torch``), as for users; else warploom does both;
- ``product_us``: a product with that plan, and ``products``: how many of them the conversion takes;
- ``rate``: 10^9 nonzeros per second;
- ``kernels_us``: the kernels that took longest, of one more conversion under the profiler of PyTorch, where that is
  installed.

Matrices are made in processes side by side. If OUT is set, the lines are also written to conversions.jsonl in that
folder.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import functools
import json
import multiprocessing
import os
import pathlib
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from warploom import _core, corpus
from warploom._device import Device
from warploom._matrix import as_csr
from warploom.candidates import parse
from warploom.errors import WarploomError
from warploom.plan import problem_of

KERNELS = {
    "bsr": "vector",
    "compressed-sell": "vector",
    "column-panels": "shared_x",
    "packed-csr": "segmented_sum",
    "dasp": "tensor_core",
}
SLOW = {
    "bsr": (
        "shell(around=70,along=70)",
        "elasticity3d(nx=23,ny=23,nz=23)",
        "block_banded(blocks=30000,size=8)",
        "grid2d(nx=700,ny=700)",
    ),
    "compressed-sell": (
        "banded(n=1000001,lower=40,upper=40)",
        "grid3d(nx=100,ny=100,nz=100,stencil=27)",
        "block_banded(blocks=30001,size=12)",
        "grid2d(nx=700,ny=700)",
    ),
    "column-panels": (
        "dense_rows(n=1000001,count=20)",
        "log_normal_rows(m=1000001,n=1000001,median=20,spread_tenths=12)",
        "kron_g500(scale=19,edge_factor=32,shuffle=1)",
        "random_regular(n=300000,degree=20)",
    ),
    "packed-csr": (
        "random_regular(n=300000,degree=5)",
        "banded_with_long_rows(n=200001,half_width=20,percent=40,every=1000,length=17000)",
        "rmat(scale=17,edge_factor=16)",
    ),
    "dasp": ("random_regular(n=300000,degree=20)", "elasticity3d(nx=23,ny=23,nz=23)"),
}
REPEATS = 7


def load(name: str) -> scipy.sparse.csr_array:
    """Make a matrix, with float64 values."""
    return corpus.load(name).astype(np.float64)


@functools.cache
def pytorch() -> Any:
    """Return PyTorch, which the processes that make matrices need not load, or None."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def problems(A: scipy.sparse.csr_array) -> Callable[[], _core.Problem]:
    """Return a function that makes a problem whose matrix is in GPU memory."""
    torch = pytorch()
    if torch is None:
        problem = _core.Problem(as_csr(A), "spmv", 1, "column", "warm", 0)
        problem.resident()
        return lambda: problem
    arrays = (torch.as_tensor(part).to("cuda") for part in (A.indptr, A.indices, A.data))
    resident = torch.sparse_csr_tensor(*arrays, size=A.shape, check_invariants=False)
    return lambda: problem_of(resident, "spmv", 1, "float64", "row", "warm", Device.parse("cuda"))


def microseconds(make: Callable[[], _core.Problem], candidate: Any) -> float:
    """Return how long the conversion of a plan takes."""
    problem = make()
    steps = _core.prepare(problem, candidate).preparation_ms
    return 1e3 * float(sum(ms for step, ms in steps.items() if step != "upload"))


def kernel_times(make: Callable[[], _core.Problem], candidate: Any) -> dict[str, float]:
    """Return the microseconds of the kernels of the conversion that take longest, and of what checks the matrix."""
    torch = pytorch()
    if torch is None:
        return {}
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        microseconds(make, candidate)
        torch.cuda.synchronize()
    spent: dict[str, float] = {}
    for event in profiled.events():
        name = event.name.split("(anonymous namespace)::")[-1].split("(")[0].split("<")[0].split("::")[-1]
        spent[name] = spent.get(name, 0.0) + float(getattr(event, "device_time_total", 0.0))
    longest = sorted(spent, key=lambda name: -spent[name])[:8]
    return {name: round(spent[name], 1) for name in longest if spent[name] > 0}


def measure(name: str, matrix: str, A: scipy.sparse.csr_array) -> dict[str, Any]:
    """Measure the conversion of one matrix to one format."""
    make = problems(A)
    candidate = parse(f"spmv/none/{name}/{KERNELS[name]}")
    found: dict[str, Any] = {"format": name, "matrix": matrix, "rows": A.shape[0], "nnz": int(A.nnz)}
    try:
        first_us = microseconds(make, candidate)
        us = statistics.median(microseconds(make, candidate) for _ in range(REPEATS))
        problem = _core.Problem(as_csr(A), "spmv", 1, "column", "warm", 0)
        plan = _core.prepare(problem, candidate)
    except WarploomError as error:
        return found | {"error": str(error)}
    trial = _core.Trial(problem)
    wrong = trial.check(plan)
    if wrong:
        raise AssertionError(f"{candidate.name} of {matrix}: {wrong}")
    product_us = trial.time(plan, cache="warm").median
    del plan
    found |= {"first_us": round(first_us, 1), "us": round(us, 1), "product_us": round(product_us, 2)}
    found |= {"products": round(us / product_us, 1), "rate": round(A.nnz / us / 1e3, 2)}
    with contextlib.suppress(RuntimeError):  # a profiler is in use already, or not allowed here
        found["kernels_us"] = kernel_times(make, candidate)
    return found


def main(formats: list[str], matrices: list[str]) -> None:
    """Measure the named formats and matrices, or those that were slow."""
    folder = os.environ.get("OUT")
    lines: list[str] = []

    def say(values: dict[str, Any]) -> None:
        lines.append(json.dumps(values))
        print(lines[-1], flush=True)
        if folder:
            (pathlib.Path(folder) / "conversions.jsonl").write_text("\n".join(lines) + "\n")

    wanted = {name: matrices or SLOW[name] for name in formats}
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(min(8, os.cpu_count() or 1), mp_context=context) as processes:
        loading = {name: processes.submit(load, name) for names in wanted.values() for name in names}
        say({"gpu": _core.cuda_info()["devices"][0]["name"], "torch": pytorch() is not None})
        for name, names in wanted.items():
            for matrix in names:
                say(measure(name, matrix, loading[matrix].result()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure conversions of matrices in GPU memory.")
    parser.add_argument("--format", action="append", choices=KERNELS)
    parser.add_argument("matrices", nargs="*", metavar="MATRIX")
    given = parser.parse_args()
    main(given.format or list(KERNELS), given.matrices)

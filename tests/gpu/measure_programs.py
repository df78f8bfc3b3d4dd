"""Measure whole programs on the GPU at hand: solvers with a plan, and what planning and new values cost.

``python tests/gpu/measure_programs.py`` prints a JSON line for each figure, with the state it was measured in:

- conjugate gradients of CuPy (200 steps) on a 3-D Poisson matrix, float64, on CuPy's own CSR matrix and on a plan, with
  planning;
- steps of ``warploom.solvers.cg`` on five-point matrices of a square, float64: as many at a time, which are launched as
  one CUDA graph, and changing numbers of them, which are not;
- ``eigsh`` (three values) of a host matrix of 7 and one of 27 nonzeros a row: SciPy's on the CPU, SciPy's on a plan
  with vectors on the host, and CuPy's on the same plan with vectors on the GPU;
- ``plan.update_values`` beside the product;
- planning of matrices on the GPU from 10^3 to 10^6 nonzeros, also with int64 indices, and the parts of it: checking the
  matrix, what the plan says of its phases, and all else.

Medians of repeats after a first run that is not counted. If OUT is set, the lines are also written to programs.jsonl in
that folder.
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import pathlib
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import cupy
import cupyx.scipy.sparse
import cupyx.scipy.sparse.linalg
import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch

import warploom as wl
from warploom import _core
from warploom._device import Device
from warploom.plan import problem_of

lines: list[dict[str, Any]] = []


def report(name: str, **figures: Any) -> None:
    """Print a line and keep it."""
    lines.append({"name": name, **figures})
    print(json.dumps(lines[-1]), flush=True)


def seconds(call: Callable[[], Any], repeats: int = 5) -> dict[str, float]:
    """Return the median time of a call, with the GPU done before and after it, and its spread."""
    times = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    del times[0]
    return {"median_s": statistics.median(times), "min_s": min(times), "max_s": max(times)}


def poisson(n: int) -> Any:
    """Return the seven-point matrix of a cube on the host."""
    line = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    eye = scipy.sparse.eye_array(n)
    kron = scipy.sparse.kron
    A = kron(kron(line, eye), eye) + kron(kron(eye, line), eye) + kron(kron(eye, eye), line)
    A = scipy.sparse.csr_array(A)
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    return A


def conjugate_gradients(n: int, steps: int = 200) -> None:
    """CuPy's solver, planning included; the first of the plans loads what is loaded once."""
    host = poisson(n)
    A = cupyx.scipy.sparse.csr_matrix(
        (cupy.asarray(host.data), cupy.asarray(host.indices), cupy.asarray(host.indptr)), shape=host.shape
    )
    b = cupy.ones(A.shape[0])
    cg = cupyx.scipy.sparse.linalg.cg
    tolerance = {"rtol" if "rtol" in inspect.signature(cg).parameters else "tol": 0.0}  # by CuPy's version

    def solve(operator: Any) -> Any:
        return cg(operator, b, maxiter=steps, **tolerance)[0]

    wl.plan(A, "spmv")
    own = cupy.linalg.norm(solve(wl.plan(A, "spmv")) - solve(A)) / cupy.linalg.norm(solve(A))
    figures = {"rows": A.shape[0], "nnz": A.nnz, "steps": steps, "difference": float(own)}
    plan = wl.plan(A, "spmv")
    report("cg, CuPy's matrix", **figures, **seconds(lambda: solve(A), 3))
    report("cg, plan", **figures, candidate=plan.candidate, **seconds(lambda: solve(wl.plan(A, "spmv")), 3))
    report("cg, planned before", **figures, **seconds(lambda: solve(plan), 3))
    y = cupy.empty_like(b)
    report("planning", **figures, **seconds(lambda: wl.plan(A, "spmv"), 3))
    report("product, CuPy's matrix", **figures, **seconds(lambda: [A @ b for _ in range(50)], 3), products=50)
    report("product, plan", **figures, **seconds(lambda: [plan(b, out=y) for _ in range(50)], 3), products=50)


def steps(n: int) -> None:
    """Take some hundred steps on the GPU, as the solver does between two looks at the residual."""
    line = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    eye = scipy.sparse.eye_array(n)
    A = scipy.sparse.csr_array(scipy.sparse.kron(line, eye) + scipy.sparse.kron(eye, line))
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    plan = wl.plan(A, "spmv", device="cuda")
    vectors = [torch.rand(A.shape[0], dtype=torch.float64, device="cuda") for _ in range(4)]
    core = _core.ConjugateGradients(plan._core)
    addresses, stream = [v.data_ptr() for v in vectors], torch.cuda.current_stream().cuda_stream

    def take(counts: list[int]) -> None:
        core.start(addresses, stream)
        for count in counts:
            core.step(addresses, count, stream)

    figures = {"rows": A.shape[0], "nnz": A.nnz, "candidate": plan.candidate}
    for name, counts in {"eight at a time": [8] * 60, "five to eleven at a time": [5, 6, 7, 8, 9, 10, 11] * 9}.items():
        for _ in range(3):
            take(counts)
        times = seconds(lambda counts=counts: take(counts), 15)
        us = {key.replace("_s", "_us"): 1e6 * taken / sum(counts) for key, taken in times.items()}
        report(f"cg, steps, {name}", **figures, **us)


def all_neighbours(n: int) -> Any:
    """Return the 27-point matrix of a cube, 26 on the diagonal and -1 beside it, on the host."""
    line = scipy.sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
    A = 27 * scipy.sparse.eye_array(n**3) - scipy.sparse.kron(scipy.sparse.kron(line, line), line)
    A = scipy.sparse.csr_array(A)
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    return A


def eigenvalues(n: int) -> None:
    """Of both matrices of a cube."""
    for of in (poisson, all_neighbours):
        eigenvalues_of(of(n))


def eigenvalues_of(A: Any) -> None:
    """SciPy's solver with vectors on the host, and CuPy's, which is another method, with vectors on the GPU."""
    options: dict[str, Any] = {"k": 3, "which": "LA", "ncv": 20, "tol": 1e-2}
    start = np.ones(A.shape[0])
    figures = {"rows": A.shape[0], "nnz": A.nnz}
    found = {}

    def solve(name: str, operator: Any) -> None:
        found[name] = np.sort(scipy.sparse.linalg.eigsh(operator, return_eigenvectors=False, v0=start, **options))

    def solve_there(operator: Any) -> None:
        values = cupyx.scipy.sparse.linalg.eigsh(operator, return_eigenvectors=False, **options)
        found["cupy"] = np.sort(cupy.asnumpy(values))

    report("eigsh, SciPy's matrix", **figures, **seconds(lambda: solve("scipy", A), 1))
    report("eigsh, plan", **figures, **seconds(lambda: solve("plan", wl.plan(A, "spmv", device="cuda")), 2))
    report("eigsh of CuPy, plan", **figures, **seconds(lambda: solve_there(wl.plan(A, "spmv", device="cuda")), 2))
    x = np.ones(A.shape[0])
    report("host product, SciPy's matrix", **figures, **seconds(lambda: A @ x))
    plan = wl.plan(A, "spmv", device="cuda")
    report("host product, plan", **figures, **seconds(lambda: plan @ x))
    for name in ("plan", "cupy"):
        report(f"eigsh, difference, {name}", difference=float(np.abs(found[name] - found["scipy"]).max()))


def new_values(n: int) -> None:
    """New values for a plan beside its product."""
    A = poisson(n).astype(np.float32)
    parts = [torch.from_numpy(part).cuda() for part in (A.indptr, A.indices, A.data)]
    there = torch.sparse_csr_tensor(*parts, A.shape)
    x = torch.ones(A.shape[1], device="cuda")
    y = torch.empty(A.shape[0], device="cuda")
    chosen = wl.plan(there, "spmv").candidate
    for name in sorted({chosen, "spmv/none/csr/vector", "spmv/none/packed-csr/segmented_sum", "spmv/none/sell/vector"}):
        plan = wl.plan(there, "spmv", select=name, updatable=True)
        product = seconds(lambda plan=plan: [plan(x, out=y) for _ in range(50)])["median_s"] / 50
        update = seconds(lambda plan=plan: [plan.update_values(parts[2]) for _ in range(50)])["median_s"] / 50
        report("update_values", candidate=name, nnz=A.nnz, product_us=product * 1e6, update_us=update * 1e6)


def planning() -> None:
    """Plan matrices that are on the GPU, each a little different from the others."""
    for nnz, index in itertools.product((1_000, 10_000, 30_000, 100_000, 1_000_000), (np.int32, np.int64)):
        rng = np.random.default_rng(nnz)
        made = []
        for _ in range(30):
            rows = nnz // 8
            host = scipy.sparse.random_array((rows, rows), density=8 / rows, format="csr", rng=rng, dtype=np.float32)
            parts = [torch.from_numpy(part.astype(index)).cuda() for part in (host.indptr, host.indices)]
            made.append(torch.sparse_csr_tensor(*parts, torch.from_numpy(host.data).cuda(), host.shape))
        for op, dtype in (("spmv", torch.float32), ("spmv", torch.float64), ("spmm", torch.float32)):
            k = None if op == "spmv" else 32
            times, checks, phases = [], [], []
            typed = [
                torch.sparse_csr_tensor(A.crow_indices(), A.col_indices(), A.values().to(dtype), A.shape) for A in made
            ]
            for A in typed:
                torch.cuda.synchronize()
                begin = time.perf_counter()
                problem_of(A, op, k, None, "row", "warm", Device("cuda"))
                checks.append((time.perf_counter() - begin) * 1e6)
                torch.cuda.synchronize()
                begin = time.perf_counter()
                plan = wl.plan(A, op, k=k)
                torch.cuda.synchronize()
                times.append((time.perf_counter() - begin) * 1e6)
                phases.append({name: 1e3 * milliseconds for name, milliseconds in plan.preparation_ms.items()})
            names = {name for phase in phases for name in phase}
            parts_us = {name: statistics.median(phase.get(name, 0.0) for phase in phases[3:]) for name in sorted(names)}
            parts_us = {"checking": statistics.median(checks[3:]), **parts_us}
            times = sorted(times[3:])
            report(
                "planning, small",
                op=op,
                dtype=str(dtype).removeprefix("torch."),
                index=np.dtype(index).name,
                nnz=nnz,
                candidate=plan.candidate,
                median_us=statistics.median(times),
                p10_us=times[len(times) // 10],
                p90_us=times[-len(times) // 10],
                parts_us={name: round(us, 1) for name, us in parts_us.items()},
                rest_us=round(statistics.median(times) - sum(parts_us.values()), 1),
            )


def main(names: list[str]) -> None:
    """Measure all of it, or what is named."""
    warnings.simplefilter("ignore")
    tasks: dict[str, Callable[[], Any]] = {
        "planning": planning,
        "values": lambda: new_values(100),
        "cg": lambda: conjugate_gradients(215),
        "steps": lambda: [steps(n) for n in (30, 100, 300, 1000)],
        "eigsh": lambda: eigenvalues(100),
    }
    for name in names or tasks:
        tasks[name]()
    if "OUT" in os.environ:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (pathlib.Path(os.environ["OUT"]) / "programs.jsonl").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Measure what a product of a small matrix costs the caller, operand by operand, on the GPU at hand.

``python tests/gpu/measure_calls.py`` prints one JSON line a case: microseconds of wall time a call, median, minimum and
maximum of 15 repeats of 1,000 calls, each with one synchronisation at the end, after half as many calls. A repeat goes
through all cases, so that a host that is slower for a while is so for all of them. The matrix is 1,000 x 1,000 with
5,000 nonzeros in float32, so that the time is that of the call and not of the product. Sampled products of torch
tensors are among them, and ``one launch``, the least that a call of the framework takes that launches a kernel. torch
and CuPy are left out where they are not installed. If OUT is set, the lines are also written to calls.jsonl in that
folder.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import random_array

import warploom as wl
from warploom import _core

SIZE, NONZEROS, K = 1_000, 5_000, 32
CALLS, REPEATS = 1_000, 15

Case = tuple[str, Callable[[], Any]]


def one_repeat(call: Callable[[], Any], synchronize: Callable[[], Any]) -> float:
    """Return microseconds a call."""
    for _ in range(CALLS // 2):
        call()
    synchronize()
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    synchronize()
    return (time.perf_counter() - begin) / CALLS * 1e6


def summary(times: list[float]) -> dict[str, float]:
    """Return the median, the least and the most of all repeats of a case."""
    return {
        "median_us": round(statistics.median(times), 3),
        "min_us": round(min(times), 3),
        "max_us": round(max(times), 3),
    }


def calls_of(plan: wl.Plan, x: Any, y: Any) -> Iterator[Case]:
    """Yield a product, the same into an array, and both on the fast and the complete path alone."""
    fast, complete = plan._fast_path, plan._multiply
    yield "plan @ x", lambda: plan @ x
    yield "plan(x, out=y)", lambda: plan(x, out=y)
    if fast(x, y) is not NotImplemented:
        yield "fast path", lambda: fast(x, None)
        yield "fast path, out", lambda: fast(x, y)
    yield "complete path", lambda: complete(x, None)
    yield "complete path, out", lambda: complete(x, y)


def launch(plan: wl.Plan, x: Any, y: Any, address: Callable[[Any], int], stream: int) -> Case:
    """Return the bare product of operands given by their addresses."""
    run, columns = plan._core.run_device, x.shape[1] if x.ndim == 2 else 1
    ldb, ldc = (columns, columns) if plan.layout == "row" else (x.shape[0], y.shape[0])
    arguments = (address(x), ldb, address(y), ldc, columns, stream)
    return "run_device", lambda: run(*arguments)


def torch_cases(A: Any, plan: wl.Plan, values: Any) -> Iterator[Case]:
    """Yield the calls with torch tensors, and torch's own."""
    import torch

    x = torch.from_numpy(np.ascontiguousarray(values)).cuda()
    if plan.layout == "column" and x.ndim == 2:
        x = x.t().contiguous().t()
    y = plan @ x
    yield from calls_of(plan, x, y)
    yield launch(plan, x, y, lambda tensor: tensor.data_ptr(), torch.cuda.current_stream().cuda_stream)
    yield "empty result alone", lambda: torch.empty_like(y)
    yield "one launch", lambda: torch.add(y, y, out=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's CSR is in beta, and says so
        own = torch.sparse_csr_tensor(
            torch.from_numpy(A.indptr), torch.from_numpy(A.indices), torch.from_numpy(A.data), size=A.shape
        ).cuda()
    yield "torch: A @ x", lambda: own @ x


def cupy_cases(A: Any, plan: wl.Plan, values: Any) -> Iterator[Case]:
    """Yield the calls with CuPy arrays, and CuPy's own."""
    import cupy
    import cupyx.scipy.sparse

    x = cupy.array(values, order="C" if plan.layout == "row" else "F")
    y = plan @ x
    yield from calls_of(plan, x, y)
    yield launch(plan, x, y, lambda array: array.data.ptr, cupy.cuda.get_current_stream().ptr)
    yield "empty result alone", lambda: cupy.empty_like(y)
    yield "one launch", lambda: cupy.add(y, y, y)
    own = cupyx.scipy.sparse.csr_matrix(A)
    yield "CuPy: A @ x", lambda: own @ x


def numpy_cases(A: Any, plan: wl.Plan, values: Any) -> Iterator[Case]:
    """Yield the calls with NumPy arrays, which travel to the GPU and back, and those of a plan that need not do so."""
    x = np.asarray(values, order="C" if plan.layout == "row" else "F")
    y = plan @ x
    yield from calls_of(plan, x, y)
    columns = plan.k if plan.op == "spmm" else None
    chosen = wl.plan(A, plan.op, k=columns, layout=plan.layout, device="cuda")
    yield "chosen plan @ x", lambda: chosen @ x
    yield "chosen plan(x, out=y)", lambda: chosen(x, out=y)
    yield "SciPy: A @ x", lambda: A @ x


def sampled_cases(A: Any) -> Iterator[Case]:
    """Yield sampled products of torch tensors, the same where operands are looked at one by one, and torch's own."""
    import torch

    generator = torch.Generator().manual_seed(0)
    X, Y = (torch.randn(SIZE, K, generator=generator).cuda() for _ in range(2))
    plan = wl.sddmm_plan(A, device="cuda")
    values = plan(X, Y)
    yield "plan(X, Y)", lambda: plan(X, Y)
    yield "plan(X, Y, out=values)", lambda: plan(X, Y, out=values)
    with_gradient = X.clone().requires_grad_()  # so that it is not taken as it is
    without_gradients = torch.no_grad()
    yield "one by one", without_gradients(lambda: plan(with_gradient, Y))
    yield "one by one, out", without_gradients(lambda: plan(with_gradient, Y, out=values))
    arrays = (torch.from_numpy(array).cuda() for array in (A.indptr, A.indices, A.data))
    pattern = torch.sparse_csr_tensor(*arrays, size=A.shape)
    yield "torch: sampled_addmm", lambda: torch.sparse.sampled_addmm(pattern, X, Y.t(), beta=0.0)


def plans(A: Any) -> Iterator[tuple[wl.Plan, Any]]:
    """Yield plans with values of an operand."""
    values = np.random.default_rng(0).standard_normal((SIZE, K)).astype(np.float32)
    yield wl.plan(A, "spmv", device="cuda", select="spmv/none/csr/vector"), values[:, 0].copy()
    for layout in ("row", "column"):
        yield wl.plan(A, k=K, layout=layout, device="cuda", select="spmm/none/csr/row_split"), values


def main() -> None:
    """Measure all cases."""
    A = random_array(
        (SIZE, SIZE),
        density=NONZEROS / SIZE**2,
        format="csr",
        dtype=np.float32,
        rng=np.random.default_rng(0),
    )
    folder = os.environ.get("OUT")
    lines: list[str] = []

    def say(**values: Any) -> None:
        lines.append(json.dumps(values))
        print(lines[-1], flush=True)
        if folder:
            (pathlib.Path(folder) / "calls.jsonl").write_text("\n".join(lines) + "\n")

    frameworks: dict[str, Any] = {"numpy": numpy_cases}
    synchronize: Callable[[], Any] = lambda: None  # noqa: E731
    for name, cases in (("cupy", cupy_cases), ("torch", torch_cases)):
        try:
            module = __import__(name)
        except ImportError as error:
            say(framework=name, left_out=str(error))
            continue
        frameworks = {name: cases, **frameworks}
        synchronize = module.cuda.synchronize if name == "torch" else module.cuda.Device().synchronize
        say(framework=name, version=module.__version__)
    say(gpu=_core.cuda_info()["devices"][0]["name"], shape=A.shape, nnz=A.nnz, calls=CALLS, repeats=REPEATS)
    cases: list[tuple[dict[str, Any], Callable[[], Any]]] = []
    if "torch" in frameworks:
        of_sampled = {"framework": "torch", "op": "sddmm", "k": K, "layout": "row"}
        cases += [(of_sampled | {"case": label}, call) for label, call in sampled_cases(A)]
    for plan, values in plans(A):
        of_plan = {"op": plan.op, "k": plan.k, "layout": plan.layout}
        for name, cases_of in frameworks.items():
            known = {"framework": name} | of_plan
            cases += [(known | {"case": label}, call) for label, call in cases_of(A, plan, values)]
    times = [[one_repeat(call, synchronize) for _, call in cases] for _ in range(REPEATS)]
    for place, (known, _) in enumerate(cases):
        say(**known, **summary([of_repeat[place] for of_repeat in times]))


if __name__ == "__main__":
    main()

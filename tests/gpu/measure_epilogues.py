"""Measure what epilogues in the launch of the product save, on the GPU at hand.

``python tests/gpu/measure_epilogues.py [products] [cg] [gcn]`` prints a JSON line for each figure:

- ``products``: microseconds of a product, of the same with bias and ReLU, with alpha and beta, and (SpMV) with x . A x,
  as one call and as the operations of PyTorch after a plain product;
- ``cg``: 200 steps of conjugate gradients on a 3-D Poisson matrix of 10^7 rows, float64: CuPy's solver on its own
  matrix and on a plan, `warploom.solvers.cg`, planning included and not, and a plain loop of PyTorch's operations;
- ``gcn``: a training epoch of a network of two graph convolutions, a million edges and more: with bias and ReLU in the
  product, after it, and with PyTorch's sparse CSR tensors, in turn with layers of PyTorch Geometric, if that is
  installed: on ``edge_index`` (gather and scatter, the normalisation cached), on a sparse CSR tensor and on a plan,
  which are normalised before; and for how long its kernels keep the GPU busy.

Medians of repeats after a first run that is not counted. If OUT is set, the lines are also written to epilogues.jsonl
in that folder.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import os
import pathlib
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
import torch

import warploom as wl
import warploom.torch as wt
from capturing import capture
from warploom import solvers
from warploom.torch.geometric import Adjacency

lines: list[dict[str, Any]] = []


def report(name: str, **figures: Any) -> None:
    """Print a line and keep it."""
    lines.append({"name": name, **figures})
    print(json.dumps(lines[-1]), flush=True)


def spread(call: Callable[[], Any], repeats: int = 5) -> dict[str, float]:
    """Return the median, least and most time of a call, with the GPU done before and after it."""
    times = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    del times[0]
    return {"median_s": statistics.median(times), "min_s": min(times), "max_s": max(times)}


def seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median time of a call."""
    return spread(call, repeats)["median_s"]


def microseconds(call: Callable[[], Any], products: int = 50) -> float:
    """Return what the GPU takes for a call of a graph of many, without the host."""
    call()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    with capture() as graph:
        for _ in range(products):
            call()
    return round(seconds(graph.replay) / products * 1e6, 2)


@functools.cache
def poisson(n: int, dtype: Any = np.float64) -> Any:
    """Return the seven-point matrix of a cube on the host."""
    line = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    eye = scipy.sparse.eye_array(n)
    kron = scipy.sparse.kron
    A = scipy.sparse.csr_array(kron(kron(line, eye), eye) + kron(kron(eye, line), eye) + kron(kron(eye, eye), line))
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    return A.astype(dtype)


def graph_matrix(vertices: int, edges: int) -> Any:
    """Return a normalised adjacency matrix with some vertices of many neighbours."""
    return normalised(adjacency_matrix(vertices, edges))


def adjacency_matrix(vertices: int, edges: int) -> Any:
    """Return the matrix of an undirected graph with loops: how often there is an edge."""
    rng = np.random.default_rng(0)
    ends = (rng.random((2, edges // 2)) ** 2 * vertices).astype(np.int64)
    rows, columns = np.concatenate([ends, ends[::-1]], 1)
    A = scipy.sparse.csr_array((np.ones(rows.size), (rows, columns)), shape=(vertices, vertices))
    return scipy.sparse.csr_array(A + scipy.sparse.eye_array(vertices))


def normalised(A: Any) -> Any:
    """Return D^-1/2 A D^-1/2 in float32."""
    scale = scipy.sparse.diags_array(1 / np.sqrt(A.sum(1)))
    A = scipy.sparse.csr_array(scale @ A @ scale).astype(np.float32)
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    return A


def products() -> None:
    """Single products, each kernel that is fused and some that are not."""
    spmm = {"stencil": poisson(80, np.float32), "graph": graph_matrix(100_000, 2_000_000)}
    for matrix, A in spmm.items():
        for dtype in (torch.float32, torch.float16):
            for k in (32, 128, 33):
                plan = wl.plan(A, k=k, dtype=str(dtype).removeprefix("torch."), device="cuda")
                B = torch.randn(A.shape[1], k, device="cuda", dtype=dtype)
                C, bias = (
                    torch.randn(A.shape[0], k, device="cuda", dtype=dtype),
                    torch.randn(k, device="cuda").to(dtype),
                )

                def after(plan: Any = plan, B: Any = B, C: Any = C, bias: Any = bias) -> None:
                    torch.relu_(plan(B, out=C).add_(bias))

                def scaled(plan: Any = plan, B: Any = B, C: Any = C) -> None:
                    C.mul_(0.5).add_(plan @ B, alpha=0.5)

                report(
                    "spmm",
                    matrix=matrix,
                    dtype=str(dtype).removeprefix("torch."),
                    k=k,
                    candidate=plan.candidate,
                    plain_us=microseconds(lambda plan=plan, B=B, C=C: plan(B, out=C)),
                    bias_relu_us=microseconds(
                        lambda plan=plan, B=B, C=C, b=bias: plan(B, out=C, bias=b, activation="relu")
                    ),
                    bias_relu_after_us=microseconds(after),
                    alpha_beta_us=microseconds(lambda plan=plan, B=B, C=C: plan(B, out=C, alpha=0.5, beta=0.5)),
                    alpha_beta_after_us=microseconds(scaled),
                )
    spmv = {"poisson 100": poisson(100), "poisson 215": poisson(215), "graph": graph_matrix(100_000, 2_000_000)}
    for matrix, A in spmv.items():
        chosen = wl.plan(A, "spmv", device="cuda").candidate
        for name in dict.fromkeys([chosen, "spmv/none/csr/vector", "spmv/none/sell/vector"]):
            plan = wl.plan(A, "spmv", device="cuda", select=name)
            x = torch.randn(A.shape[1], device="cuda", dtype=torch.float64 if A.dtype == np.float64 else torch.float32)
            y, dot = torch.randn_like(x), torch.empty((), dtype=x.dtype, device="cuda")

            def then_dot(plan: Any = plan, x: Any = x, y: Any = y, dot: Any = dot) -> None:
                torch.dot(x, plan(x, out=y), out=dot)

            def residual(plan: Any = plan, x: Any = x, y: Any = y) -> None:
                y.sub_(plan @ x)

            report(
                "spmv",
                matrix=matrix,
                candidate=name,
                plain_us=microseconds(lambda plan=plan, x=x, y=y: plan(x, out=y)),
                dot_us=microseconds(lambda plan=plan, x=x, y=y, dot=dot: plan.product_and_dot(x, y, dot)),
                dot_after_us=microseconds(then_dot),
                residual_us=microseconds(lambda plan=plan, x=x, y=y: plan(x, out=y, alpha=-1.0, beta=1.0)),
                residual_after_us=microseconds(residual),
            )


def torch_steps(plan: Any, b: torch.Tensor, steps: int) -> torch.Tensor:
    """Take steps of conjugate gradients with operations of PyTorch, none of which waits."""
    x, r = torch.zeros_like(b), b.clone()
    p, q = r.clone(), torch.empty_like(b)
    dot, rho = torch.empty((), dtype=b.dtype, device=b.device), torch.dot(r, r)
    for _ in range(steps):
        plan.product_and_dot(p, q, dot)
        length = rho / dot
        x.addcmul_(p, length)
        r.addcmul_(q, length, value=-1)
        rho, previous = torch.dot(r, r), rho
        torch.addcmul(r, p, rho / previous, out=p)
    return x


def conjugate_gradients(n: int = 215, steps: int = 200) -> None:
    """Whole solutions."""
    import cupy
    import cupyx.scipy.sparse
    import cupyx.scipy.sparse.linalg

    host = poisson(n)
    A = cupyx.scipy.sparse.csr_matrix(
        (cupy.asarray(host.data), cupy.asarray(host.indices), cupy.asarray(host.indptr)), shape=host.shape
    )
    b = cupy.ones(A.shape[0])
    there = torch.from_dlpack(b)
    cg = cupyx.scipy.sparse.linalg.cg
    tolerance = {"rtol" if "rtol" in inspect.signature(cg).parameters else "tol": 0.0}  # by CuPy's version
    plan = wl.plan(A, "spmv")
    known = cg(A, b, maxiter=steps, **tolerance)[0]
    figures = {"rows": A.shape[0], "nnz": A.nnz, "steps": steps, "candidate": plan.candidate}

    def solved(operator: Any) -> Any:
        return solvers.cg(operator, b, rtol=0.0, maxiter=steps)[0]

    def difference(x: Any) -> float:
        return float(cupy.linalg.norm(cupy.asarray(x) - known) / cupy.linalg.norm(known))

    runs: dict[str, Callable[[], Any]] = {
        "cg, CuPy's matrix": lambda: cg(A, b, maxiter=steps, **tolerance)[0],
        "cg, CuPy's solver and a plan, with planning": lambda: cg(wl.plan(A, "spmv"), b, maxiter=steps, **tolerance)[0],
        "cg, warploom.solvers, with planning": lambda: solved(wl.plan(A, "spmv")),
        "cg, warploom.solvers, planned before": lambda: solved(plan),
        "cg, loop of PyTorch, planned before": lambda: torch_steps(plan, there, steps),
    }
    for name, run in runs.items():
        report(name, **figures, difference=difference(run()), **spread(run, 5))


@dataclasses.dataclass
class Network:
    """Two graph convolutions: what makes scores of features, and its weights (inputs first) and biases."""

    scores: Callable[[torch.Tensor], torch.Tensor]
    weights: list[torch.nn.Parameter]
    biases: list[torch.nn.Parameter]


def networks(graph: Any, features: int, classes: int, device: str = "cuda") -> dict[str, Network]:
    """Return the same network by several means, with weights of its own each."""
    A = normalised(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [torch.from_numpy(part).to(device) for part in (A.indptr, A.indices, A.data)]
        sparse = torch.sparse_csr_tensor(*parts, A.shape)
    operator = wl.plan(A, device=device)

    def fused(X: torch.Tensor, bias: torch.Tensor, *, relu: bool) -> torch.Tensor:
        return wt.spmm(operator, X, bias=bias, activation="relu" if relu else None)

    def apart(X: torch.Tensor, bias: torch.Tensor, *, relu: bool) -> torch.Tensor:
        result = wt.spmm(operator, X) + bias
        return result.relu() if relu else result

    def of_torch(X: torch.Tensor, bias: torch.Tensor, *, relu: bool) -> torch.Tensor:
        result = torch.sparse.mm(sparse, X) + bias
        return result.relu() if relu else result

    found = {}
    for name, product in {"fused": fused, "apart": apart, "torch.sparse": of_torch}.items():
        weights, biases = parameters(features, classes, device)

        def scores(X: torch.Tensor, product: Any = product, weights: Any = weights, biases: Any = biases) -> Any:
            hidden = product(X @ weights[0], biases[0], relu=True)
            return product(hidden @ weights[1], biases[1], relu=False)

        found[name] = Network(scores, weights, biases)
    return found | geometric_networks(graph, sparse, operator, features, classes, device)


def parameters(features: int, classes: int, device: str) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    """Return weights and biases of two layers, the same each time."""
    torch.manual_seed(0)
    outputs = (features, classes)
    weights = [torch.nn.Parameter(torch.randn(features, out, device=device) / 11) for out in outputs]
    return weights, [torch.nn.Parameter(torch.zeros(out, device=device)) for out in outputs]


def geometric_networks(
    graph: Any, sparse: torch.Tensor, operator: Any, features: int, classes: int, device: str
) -> dict[str, Network]:
    """Return networks of PyTorch Geometric's layers; none, with a line that says so, if it is missing."""
    try:
        import torch_geometric
        from torch_geometric.nn import GCNConv
    except ImportError as error:
        report("gcn, PyTorch Geometric", skipped=str(error))
        return {}
    report("gcn, PyTorch Geometric", version=torch_geometric.__version__)
    # Every vertex has a loop: the layer adds none, and normalises by the same degrees. The matrix is symmetric, so that
    # it is its own transpose, too.
    targets, sources = graph.tocoo().coords
    edge_index = torch.from_numpy(np.stack([sources, targets]).astype(np.int64)).to(device)
    edge_weight = torch.from_numpy(graph.data.astype(np.float32)).to(device)
    ways: dict[str, tuple[dict[str, bool], tuple[Any, ...]]] = {
        "edge_index": ({"cached": True}, (edge_index, edge_weight)),
        "adj_t, torch.sparse": ({"normalize": False}, (sparse,)),
        "adj_t, plan": ({"normalize": False}, (Adjacency(operator),)),
    }
    found = {}
    for name, (options, adjacency) in ways.items():
        weights, biases = parameters(features, classes, device)
        layers = [GCNConv(features, weight.shape[1], **options).to(device) for weight in weights]
        with torch.no_grad():
            for layer, weight, bias in zip(layers, weights, biases, strict=True):
                layer.lin.weight.copy_(weight.t())
                layer.bias.copy_(bias)

        def scores(X: torch.Tensor, layers: Any = layers, adjacency: Any = adjacency) -> Any:
            return layers[1](layers[0](X, *adjacency).relu(), *adjacency)

        found[f"PyTorch Geometric, {name}"] = Network(
            scores, [layer.lin.weight for layer in layers], [layer.bias for layer in layers]
        )
    return found


def gcn(vertices: int = 200_000, edges: int = 4_000_000, features: int = 128, classes: int = 32) -> None:
    """Train for some epochs."""
    graph = adjacency_matrix(vertices, edges)
    X = torch.randn(vertices, features, device="cuda")
    labels = torch.randint(classes, (vertices,), device="cuda")
    runs = {}
    for name, network in networks(graph, features, classes).items():
        optimizer = torch.optim.Adam([*network.weights, *network.biases], lr=0.01)
        losses: list[torch.Tensor] = []

        def epoch(network: Network = network, optimizer: Any = optimizer, losses: list[torch.Tensor] = losses) -> None:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(network.scores(X), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())

        def forward(network: Network = network) -> None:
            with torch.no_grad():
                network.scores(X)

        runs[name] = (epoch, forward, losses)
        for _ in range(10):
            epoch()
    # In turn, so that whoever comes first has no colder GPU.
    epochs: dict[str, list[float]] = {name: [] for name in runs}
    forwards: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(5):
        for name, (epoch, forward, _) in runs.items():
            epochs[name].append(seconds(epoch, 5))
            forwards[name].append(seconds(forward, 5))
    for name, (epoch, _, losses) in runs.items():
        report(
            f"gcn, {name}",
            vertices=vertices,
            nnz=graph.nnz,
            features=features,
            epoch_ms=statistics.median(epochs[name]) * 1e3,
            least_epoch_ms=min(epochs[name]) * 1e3,
            most_epoch_ms=max(epochs[name]) * 1e3,
            forward_ms=statistics.median(forwards[name]) * 1e3,
            loss=losses[9].item(),
            **kernel_times(epoch),
        )


def kernel_times(call: Callable[[], None]) -> dict[str, Any]:
    """Return what the GPU was busy for in a call, in how many launches, and the kernels that took longest."""
    from torch.profiler import ProfilerActivity, profile

    try:
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            call()
            torch.cuda.synchronize()
    except RuntimeError:  # a profiler is in use already, or not allowed here
        return {}
    spent: dict[str, float] = {}
    launches = 0
    for event in profiled.events():
        took = float(getattr(event, "device_time_total", 0.0)) / 1e3
        launches += took > 0
        name = event.name.split("(")[0].split("<")[0].split("::")[-1]
        spent[name] = spent.get(name, 0.0) + took
    longest = sorted(spent, key=lambda name: -spent[name])[:10]
    return {
        "busy_ms": round(sum(spent.values()), 3),
        "launches": launches,
        "kernels_ms": {name: round(spent[name], 3) for name in longest},
    }


def main(names: list[str]) -> None:
    """Measure all of it, or what is named."""
    warnings.simplefilter("ignore")
    tasks: dict[str, Callable[[], None]] = {"products": products, "cg": conjugate_gradients, "gcn": gcn}
    for name in names or tasks:
        tasks[name]()
    if "OUT" in os.environ:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (pathlib.Path(os.environ["OUT"]) / "epilogues.jsonl").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])

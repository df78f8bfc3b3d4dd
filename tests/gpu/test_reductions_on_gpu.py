"""Means, maxima and minima over neighbours on the GPU, and plans in layers of PyTorch Geometric: as on the CPU."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import warploom as wl

torch = pytest.importorskip("torch", minversion="2.5")

import warploom.torch as wt  # noqa: E402
from test_torch_reductions import CHOICES, REDUCTIONS, check_type_of_two_bytes, matrix  # noqa: E402
from warploom.torch import _extremes  # noqa: E402
from warploom.torch.geometric import adjacency  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what torch.compile imports
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def make(kind, A, device):
    return wl.plan(A, device=device, **CHOICES[kind], updatable=True)


def both(kind, reduce, A, k, dtype):
    """Results and gradients on the CPU and on the GPU."""
    found = []
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(A.shape[1], k, dtype=dtype, generator=generator)
    values, weights = (torch.randn(n, dtype=dtype, generator=generator) for n in (A.nnz, A.shape[0]))
    for device in ("cpu", "cuda"):
        plan = make(kind, A, device)
        inputs = [tensor.to(device).requires_grad_() for tensor in (X, values)]
        constant = wt.spmm(plan, inputs[0], reduce=reduce)
        result = wt.spmm(plan, *inputs, reduce=reduce)
        loss = (weights.to(device)[:, None] * result).sum()
        found.append([part.cpu() for part in (constant, result, *torch.autograd.grad(loss, inputs))])
    return zip(*found, strict=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("kind", CHOICES)
def test_they_are_those_of_the_cpu(kind, reduce, dtype):
    A = matrix(300, 200, dtype=np.dtype(str(dtype).removeprefix("torch.")).type)
    for expected, found in both(kind, reduce, A, 1 if kind == "spmv" else 5, dtype):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("of_tensors", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("reduce", ["sum", *REDUCTIONS])
def test_types_of_two_bytes(reduce, dtype, of_tensors):
    check_type_of_two_bytes(reduce, dtype, of_tensors, "cuda")


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_compiled_graphs_are_whole(reduce):
    plan = make("row", matrix(), "cuda")
    X = torch.randn(7, 3, dtype=torch.float64, device="cuda", requires_grad=True)

    def loss(X):
        return torch.tanh(wt.spmm(plan, torch.sin(X), reduce=reduce)).sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(X), X), torch.autograd.grad(loss(X), X))


def test_memory_of_maxima_is_bounded():
    """64 million products of an entry and a column, of which some are made at a time."""
    rows, degree, k = 8000, 128, 64
    indices = np.random.default_rng(0).integers(0, rows, rows * degree).astype(np.int32)
    A = csr_array((np.ones(len(indices), np.float32), indices, np.arange(0, len(indices) + 1, degree)), (rows, rows))
    plan = make("row", A, "cuda")
    X = torch.randn(rows, k, device="cuda")
    wt.spmm(plan, X[:, :1], reduce="max")  # keeps the pattern
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    found = wt.spmm(plan, X, reduce="max")
    assert torch.cuda.max_memory_allocated() - before < 40 * _extremes._AT_ONCE + 4 * found.numel() * 8
    assert torch.equal(found[7], X[torch.from_numpy(A.indices[7 * degree : 8 * degree]).long().cuda()].max(0).values)


def test_layers_of_pytorch_geometric():
    layers = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    edge_index = torch.randint(60, (2, 400), device="cuda")
    x = torch.randn(60, 6, device="cuda")
    for aggr in ("sum", "mean", "max"):
        layer = layers.SAGEConv(6, 4, aggr=aggr).cuda()
        adj = adjacency(edge_index, num_nodes=60)
        assert adj.device.type == "cuda"
        torch.testing.assert_close(layer(x, adj), layer(x, edge_index), rtol=1e-4, atol=1e-4)

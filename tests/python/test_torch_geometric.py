"""Plans in place of sparse tensors in layers of PyTorch Geometric."""

import copy
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import warploom as wl
from warploom.errors import DeviceError, DtypeError, ParameterError, ShapeError

torch = pytest.importorskip("torch", minversion="2.5")

import warploom.torch as wt  # noqa: E402
from warploom.torch.geometric import Adjacency, adjacency  # noqa: E402

SCRIPT = Path(__file__).parents[2] / "notebooks" / "graph_networks.py"
OPTIONS = {"device": "cpu", "select": "spmm/none/csr/row_split"}
N = 60


@pytest.fixture(scope="module")
def layers():
    return pytest.importorskip("torch_geometric.nn")


@pytest.fixture
def edge_index():
    """Some edges repeat, some are loops, and the last vertices have none."""
    edges = torch.randint(N - 5, (2, 300), generator=torch.Generator().manual_seed(0))
    return torch.cat([edges, edges[:, :20], torch.arange(7).expand(2, 7)], 1)


@pytest.fixture
def features():
    return torch.randn(N, 6, generator=torch.Generator().manual_seed(1), requires_grad=True)


def dense(edge_index, weight=None, n=N):
    A = torch.zeros(n, n)
    A.index_put_((edge_index[1], edge_index[0]), torch.ones(edge_index.shape[1]) if weight is None else weight, True)
    return A


def refused(kind, argument, call, match=None):
    with pytest.raises(kind, match=match) as caught:
        call()
    assert caught.value.argument == argument


def same(layer, adj, other, edge_index, features, *more):
    """Two layers give the same result and the same gradients."""
    found, expected = layer(features, adj), other(features, edge_index, *more)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    wanted = [[features, *module.parameters()] for module in (layer, other)]
    for one, another in zip(
        torch.autograd.grad(found.square().sum(), wanted[0]),
        torch.autograd.grad(expected.square().sum(), wanted[1]),
        strict=True,
    ):
        torch.testing.assert_close(one, another, rtol=1e-3, atol=1e-4)


def test_the_matrix_is_that_of_the_graph(edge_index, features):
    weight = torch.rand(edge_index.shape[1])
    for given in (None, weight):
        adj = adjacency(edge_index, given, N, **OPTIONS)
        assert adj.shape == (N, N)
        assert adj.nnz() == edge_index.shape[1]  # edges that repeat stay apart
        torch.testing.assert_close(torch.sparse.mm(adj, features), dense(edge_index, given) @ features)
        torch.testing.assert_close(adj.t() @ features, dense(edge_index, given).T @ features)
    double = adjacency(edge_index, num_nodes=N, dtype=torch.float64, **OPTIONS)
    assert double.dtype == torch.float64
    assert adjacency(torch.zeros(2, 0, dtype=torch.int64), num_nodes=3, **OPTIONS).shape == (3, 3)
    assert adjacency(torch.zeros(2, 0, dtype=torch.int64), **OPTIONS).shape == (0, 0)


def test_bipartite_graphs():
    edge_index = torch.tensor([[0, 4, 4, 2], [1, 0, 1, 1]])
    adj = adjacency(edge_index, num_nodes=(5, 3), **OPTIONS)
    X = torch.arange(10.0).reshape(5, 2)
    assert adj.shape == (3, 5)
    assert (adj @ X).tolist() == [[8, 9], [12, 15], [0, 0]]
    refused(ParameterError, "normalize", lambda: adjacency(edge_index, num_nodes=(5, 3), normalize=True))


def test_normalised_matrices_are_those_of_gcn(layers, edge_index, features):
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    once = torch.unique(edge_index, dim=1)  # of several loops at a vertex, any one may count
    weight = 0.1 + torch.rand(once.shape[1])
    for given in (None, weight):
        expected = dense(*gcn_norm(once, given, N))
        adj = adjacency(once, given, N, normalize=True, **OPTIONS)
        torch.testing.assert_close(torch.sparse.mm(adj, torch.eye(N)), expected)


def test_gcn(layers, edge_index, features):
    torch.manual_seed(0)
    layer, other = layers.GCNConv(6, 4, normalize=False), layers.GCNConv(6, 4)
    other.load_state_dict(layer.state_dict())
    adj = adjacency(edge_index, num_nodes=N, normalize=True, **OPTIONS)
    same(layer, adj, other, edge_index, features)


@pytest.mark.parametrize("aggr", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("kind", ["SAGEConv", "GraphConv"])
def test_layers_reduce_as_they_do_without_a_plan(layers, kind, aggr, edge_index, features):
    torch.manual_seed(0)
    layer = getattr(layers, kind)(6, 4, aggr=aggr)
    same(layer, adjacency(edge_index, num_nodes=N, **OPTIONS), layer, edge_index, features)


def test_other_layers(layers, edge_index, features):
    torch.manual_seed(0)
    adj = adjacency(edge_index, num_nodes=N, **OPTIONS)
    gin = layers.GINConv(torch.nn.Linear(6, 4))
    same(gin, adj, gin, edge_index, features)
    simple = layers.SimpleConv(aggr="mean")
    torch.testing.assert_close(simple(features, adj), simple(features, edge_index))
    sage = layers.SAGEConv((6, 6), 4)
    bipartite = torch.tensor([[0, 4, 4, 2], [1, 0, 1, 1]])
    torch.manual_seed(0)
    pair = (features[:5], features[:3])
    plan = adjacency(bipartite, num_nodes=(5, 3), **OPTIONS)
    torch.testing.assert_close(sage(pair, plan), sage(pair, bipartite))


def test_values_are_trained(layers, edge_index, features):
    order = torch.argsort(edge_index[1] * N + edge_index[0], stable=True)
    weight = torch.rand(edge_index.shape[1], requires_grad=True)
    plan = adjacency(edge_index, num_nodes=N, updatable=True, **OPTIONS).plan
    layer = layers.GraphConv(6, 4)
    found = torch.autograd.grad(layer(features, Adjacency(plan, weight[order])).square().sum(), weight)[0]
    expected = torch.autograd.grad(layer(features, edge_index, weight).square().sum(), weight)[0]
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    refused(ParameterError, "values", Adjacency(plan, weight).t)


def test_layers_that_need_single_edges_are_told(layers, edge_index, features):
    adj = adjacency(edge_index, num_nodes=N, **OPTIONS)
    for layer in (layers.GATConv(6, 4), layers.GCNConv(6, 4), layers.SGConv(6, 4)):
        refused(ParameterError, "adj_t", lambda layer=layer: layer(features, adj), "take edge_index; GCNConv is to be")


def test_everything_else_is_refused(edge_index, features):
    adj = adjacency(edge_index, num_nodes=N, **OPTIONS)
    for call in (
        lambda: adj + 1,
        lambda: torch.sparse.mm(adj, adj),
        lambda: torch.sparse.mm(features.T, adj),
        lambda: torch.sparse.mm(adj, features, "prod"),
        lambda: adj.sum(),
        lambda: adj.clone(),
        lambda: adj.T,
        lambda: torch.cat([adj, adj]),
        lambda: adj.crow_indices() + 1,
        lambda: features[adj.col_indices()],
    ):
        refused(ParameterError, "adj_t", call)
    refused(ParameterError, "plan", lambda: Adjacency(edge_index))
    refused(DeviceError, "device", lambda: adj.to("meta"))
    refused(DtypeError, "dtype", lambda: adj.to(torch.float64))
    assert adj.to("cpu") is adj
    assert adj.to(features) is adj


def test_edges_that_are_none_are_refused(edge_index):
    refused(ShapeError, "edge_index", lambda: adjacency(edge_index.T))
    refused(DtypeError, "edge_index", lambda: adjacency(edge_index.float()))
    refused(ShapeError, "edge_weight", lambda: adjacency(edge_index, torch.ones(3)))
    refused(ParameterError, "edge_index", lambda: adjacency(edge_index, num_nodes=5))
    refused(ParameterError, "edge_index", lambda: adjacency(edge_index - 1, num_nodes=N))


def test_it_says_what_it_is_and_travels(edge_index, features):
    adj = adjacency(edge_index, num_nodes=N, **OPTIONS)
    assert re.match(r"Adjacency\(<Operator 60 x 60, nnz=327", repr(adj))
    assert copy.deepcopy(adj) is adj
    again = pickle.loads(pickle.dumps(adj))
    assert torch.equal(again @ features, adj @ features)


def test_any_plan_serves():
    A = csr_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]))
    X = torch.randn(3, 2, dtype=torch.float64)
    for made in (wl.plan(A, k=2, **OPTIONS), wl.plan(A, **OPTIONS)):
        assert torch.equal(Adjacency(made) @ X, wt.spmm(made, X))
        assert torch.equal(torch.sparse.mm(Adjacency(made), X, "amax"), wt.spmm(made, X, reduce="max"))


def test_the_example_trains_to_the_losses_of_plain_torch(layers):
    command = [sys.executable, "-W", "ignore", SCRIPT, "--vertices", "400", "--edges", "6000", "--epochs", "12"]
    command += ["--device", "cpu", "--features", "16", "--hidden", "16", "--groups", "3"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert finished.returncode == 0, finished.stderr
    rows = re.findall(r"^(.+?) +(plan|torch.sparse|edge_index) +loss (\S+) to (\S+) ", finished.stdout, re.MULTILINE)
    assert len(rows) == 9
    for name in {row[0] for row in rows}:
        plan, *others = ([float(loss) for loss in row[2:]] for row in rows if row[0] == name)
        assert plan[1] < 0.8 * plan[0]
        for other in others:
            assert other == pytest.approx(plan, rel=2e-3)

"""The networks whose training `tests/gpu/measure_epilogues.py` times are the same one."""

import importlib.util
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", minversion="2.5")

SCRIPT = pathlib.Path(__file__).parents[1] / "gpu" / "measure_epilogues.py"
VERTICES, FEATURES, CLASSES = 300, 16, 5


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("measure_epilogues", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore:Sparse")
def test_scores_and_gradients_are_the_same(script):
    pytest.importorskip("torch_geometric.nn")
    graph = script.adjacency_matrix(VERTICES, 4000)
    assert (graph.data > 1).any()
    X = torch.randn(VERTICES, FEATURES, generator=torch.Generator().manual_seed(1))
    labels = torch.randint(CLASSES, (VERTICES,), generator=torch.Generator().manual_seed(2))
    networks = script.networks(graph, FEATURES, CLASSES, "cpu")
    assert [name for name in networks if "Geometric" in name] == [
        f"PyTorch Geometric, {way}" for way in ("edge_index", "adj_t, torch.sparse", "adj_t, plan")
    ]
    found = {}
    for name, network in networks.items():
        for _ in range(2):  # with the normalisation that is cached, too
            parameters = [*network.weights, *network.biases]
            scores = network.scores(X)
            gradients = torch.autograd.grad(torch.nn.functional.cross_entropy(scores, labels), parameters)
        # The weights of PyTorch Geometric are transposed.
        found[name] = [scores, *(g.t() if "Geometric" in name and g.ndim == 2 else g for g in gradients)]
    for result in found.values():
        for value, expected in zip(result, found["apart"], strict=True):
            torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-6)


def test_without_pytorch_geometric(script, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    networks = script.networks(script.adjacency_matrix(50, 200), FEATURES, CLASSES, "cpu")
    assert list(networks) == ["fused", "apart", "torch.sparse"]
    assert "skipped" in script.lines[-1]

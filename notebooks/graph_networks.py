"""Trains GCN and GraphSAGE of PyTorch Geometric on a graph of a million edges and more, with plans and without.

    pip install warploom torch torch_geometric
    python notebooks/graph_networks.py --edges 1000000

The graph is constructed: groups of vertices with most edges within a group, and features that say little of it. Every
network starts from the same weights, with three kinds of adjacency matrices: a plan, PyTorch's sparse CSR tensor, and
``edge_index``, which is PyTorch Geometric's default. Losses are the same; what differs is the time.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time

import torch
from torch_geometric.nn import GCNConv, SAGEConv

from warploom.torch.geometric import adjacency


def graph(vertices, edges, groups, features, seed, device):
    """Return edges in both directions, features and groups."""
    random = torch.Generator().manual_seed(seed)
    group = torch.arange(vertices) * groups // vertices
    source = torch.randint(vertices, (edges // 2,), generator=random)
    anywhere = torch.randint(vertices, (edges // 2,), generator=random)
    first = (group[source] * vertices + groups - 1) // groups  # vertex of the group of the source
    size = ((group[source] + 1) * vertices + groups - 1) // groups - first
    near = first + anywhere % size
    target = torch.where(torch.rand(edges // 2, generator=random) < 0.7, near, anywhere)
    edge_index = torch.cat([torch.stack([source, target]), torch.stack([target, source])], 1)
    centres = torch.randn(groups, features, generator=random)
    x = 0.3 * centres[group] + torch.randn(vertices, features, generator=random)
    return edge_index.to(device), x.to(device), group.to(device)


class Network(torch.nn.Module):
    """Two layers of a kind."""

    def __init__(self, layer, features, hidden, groups, **options):
        super().__init__()
        self.first = layer(features, hidden, **options)
        self.second = layer(hidden, groups, **options)

    def forward(self, x, adj):
        """Return a score for each vertex and group."""
        return self.second(self.first(x, adj).relu(), adj)


def normalized(edge_index, vertices):
    """Return edges with loops and their weights, as GCNConv has them."""
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    return gcn_norm(edge_index, num_nodes=vertices)


def csr(edge_index, weight, vertices):
    """Return the transposed adjacency matrix as a sparse tensor of PyTorch."""
    source, target = edge_index
    order = torch.argsort(target * vertices + source)
    start = torch.zeros(vertices + 1, dtype=torch.int64, device=source.device)
    start[1:] = torch.bincount(target, minlength=vertices).cumsum(0)
    return torch.sparse_csr_tensor(start, source[order], weight[order], (vertices, vertices))


def train(network, adj, x, group, epochs, *more):
    """Return the losses, seconds for an epoch, and how many of the other vertices are in the right group."""
    labelled = torch.arange(len(group), device=x.device) % 10 == 0
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    losses, seconds = [], []
    for _ in range(epochs):
        begin = time.perf_counter()
        optimizer.zero_grad()
        scores = network(x, adj, *more)
        loss = torch.nn.functional.cross_entropy(scores[labelled], group[labelled])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())  # waits for the GPU
        seconds.append(time.perf_counter() - begin)
    with torch.no_grad():
        right = (network(x, adj, *more).argmax(1) == group)[~labelled].float().mean().item()
    return losses, statistics.median(seconds[len(seconds) // 2 :]), right


def main():
    """Train all and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vertices", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    edge_index, x, group = graph(given.vertices, given.edges, given.groups, given.features, given.seed, given.device)
    edges = edge_index.shape[1]
    print(f"{given.vertices:,} vertices, {edges:,} edges, {given.features} features, on {x.device}")
    kinds = {
        "GCN": (GCNConv, {"normalize": False}, True),
        "GraphSAGE, mean": (SAGEConv, {"aggr": "mean"}, False),
        "GraphSAGE, max": (SAGEConv, {"aggr": "max"}, False),
    }
    for name, (layer, options, normalize) in kinds.items():
        index, weight = edge_index, torch.ones(edges, device=x.device)
        if normalize:
            index, weight = normalized(edge_index, given.vertices)
        adjacencies = {
            "plan": adjacency(edge_index, num_nodes=given.vertices, normalize=normalize),
            "torch.sparse": csr(index, weight, given.vertices),
            "edge_index": edge_index,
        }
        torch.manual_seed(given.seed)
        start = Network(layer, given.features, given.hidden, given.groups, **options)
        for kind, adj in adjacencies.items():
            if kind == "torch.sparse" and x.is_cuda and options.get("aggr") == "max":
                continue  # which PyTorch has on the CPU only
            own = {**options, "normalize": True, "cached": True} if normalize and kind == "edge_index" else options
            network = Network(layer, given.features, given.hidden, given.groups, **own).to(x.device)
            network.load_state_dict(copy.deepcopy(start.state_dict()))
            losses, seconds, right = train(network, adj, x, group, given.epochs)
            print(
                f"{name:16} {kind:12} loss {losses[0]:.5f} to {losses[-1]:.5f}  right {right:.1%}  "
                f"{seconds * 1e3:.1f} ms an epoch"
            )


if __name__ == "__main__":
    main()

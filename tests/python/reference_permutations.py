"""The row permutations written down once more, slowly: those of Section III of Mehrabi et al. 2021, and for locality.

Nothing here is shared with the package: masks are Python sets, every search compares every remaining row, and
every tie-break is spelled out as a sort key. Graphs are dictionaries, and what the package does for many nodes at the
same time is done for one after the other.
"""

from __future__ import annotations

import collections
import fractions
import math

import numpy as np
import scipy.sparse as sp


def row_columns(A):
    return [A.indices[A.indptr[i] : A.indptr[i + 1]].tolist() for i in range(A.shape[0])]


def warp_loads(A, threads):
    return [math.ceil(len(columns) / threads) for columns in row_columns(A)]


def cache_masks(A, elements_per_cache_line):
    return [frozenset(c // elements_per_cache_line for c in columns) for columns in row_columns(A)]


def distance(mask, other):
    return len(mask ^ other)


def plain(A, warps, threads, line):
    loads = warp_loads(A, threads)
    return sorted(range(A.shape[0]), key=lambda row: (-loads[row], row))


def flipped(A, warps, threads, line):
    order = plain(A, warps, threads, line)
    groups = [order[i : i + warps] for i in range(0, len(order), warps)]
    return [row for g, group in enumerate(groups) for row in (group[::-1] if g % 2 else group)]


class LptWarps:
    """Which warp the next row goes to, and its position there."""

    def __init__(self, rows, warps):
        self.rows = rows
        self.warps = warps
        self.load = [0] * min(rows, warps)
        self.count = [0] * min(rows, warps)

    def place(self, load):
        free = [w for w in range(len(self.load)) if w + self.count[w] * self.warps < self.rows]
        warp = min(free, key=lambda w: (self.load[w], w))
        position = warp + self.count[warp] * self.warps
        self.load[warp] += load
        self.count[warp] += 1
        return position


def lpt(A, warps, threads, line):
    loads = warp_loads(A, threads)
    placed = LptWarps(A.shape[0], warps)
    perm = [None] * A.shape[0]
    for row in plain(A, warps, threads, line):
        perm[placed.place(loads[row])] = row
    return perm


def greedy(rows, start, key):
    """Extend `start` by the remaining row of least key(perm so far, row), until all rows are placed."""
    perm = list(start)
    remaining = set(range(rows)) - set(start)
    while remaining:
        nearest = min(remaining, key=lambda row: (*key(perm, row), row))
        perm.append(nearest)
        remaining.remove(nearest)
    return perm


def lowest_load_rows(A, threads, count):
    loads = warp_loads(A, threads)
    return sorted(range(A.shape[0]), key=lambda row: (loads[row], row))[:count]


def warp_aware(A, warps, threads, line):
    masks = cache_masks(A, line)
    start = lowest_load_rows(A, threads, warps)
    return greedy(A.shape[0], start, lambda perm, row: (distance(masks[perm[-warps]], masks[row]),))


def cta_aware(A, warps, threads, line):
    masks = cache_masks(A, line)
    start = lowest_load_rows(A, threads, 1)
    return greedy(A.shape[0], start, lambda perm, row: (distance(masks[perm[-1]], masks[row]),))


def hybrid_1(A, warps, threads, line):
    loads = warp_loads(A, threads)
    masks = cache_masks(A, line)
    placed = LptWarps(A.shape[0], warps)
    perm = [None] * A.shape[0]
    remaining = set(range(A.shape[0]))
    while remaining:
        due = max(loads[row] for row in remaining)
        position = placed.place(due)
        before = perm[position - 1] if position > 0 else None
        after = perm[position + 1] if position + 1 < len(perm) else None
        adjacent = before if before is not None else after
        candidates = [row for row in remaining if loads[row] == due]
        if adjacent is None:
            row = min(candidates)
        else:
            row = min(candidates, key=lambda row: (distance(masks[adjacent], masks[row]), row))
        perm[position] = row
        remaining.remove(row)
    return perm


def hybrid_2_1(A, warps, threads, line):
    loads = warp_loads(A, threads)
    masks = cache_masks(A, line)
    start = lowest_load_rows(A, threads, 1)
    return greedy(A.shape[0], start, lambda perm, row: (distance(masks[perm[-1]], masks[row]), loads[row]))


def hybrid_2_2(A, warps, threads, line):
    masks = cache_masks(A, line)
    start = lowest_load_rows(A, threads, 1)

    def key(perm, row):
        second = distance(masks[perm[-warps]], masks[row]) if len(perm) >= warps else 0
        return distance(masks[perm[-1]], masks[row]), second

    return greedy(A.shape[0], start, key)


def hybrid_2_3(A, warps, threads, line):
    loads = warp_loads(A, threads)
    masks = cache_masks(A, line)
    start = lowest_load_rows(A, threads, warps)
    return greedy(A.shape[0], start, lambda perm, row: (distance(masks[perm[-warps]], masks[row]), loads[row]))


def neighbours(A):
    """The graph of A + A^T without its diagonal, or the bipartite graph of rows and columns; sets by node."""
    rows, columns = A.shape
    edges = {(i, j) for i, row in enumerate(row_columns(A)) for j in row}
    if rows == columns:
        nodes = range(rows)
    else:
        occupied = sorted({j for _, j in edges}) if columns > A.nnz else range(columns)
        number = {j: rows + place for place, j in enumerate(occupied)}
        edges = {(i, number[j]) for i, j in edges}
        nodes = range(rows + len(number))
    graph = {node: set() for node in nodes}
    for i, j in edges:
        if i != j:
            graph[i].add(j)
            graph[j].add(i)
    return graph


def cuthill_mckee(graph):
    def key(node):
        return len(graph[node]), node

    def levels_from(start):
        found, levels = {start}, [[start]]
        while levels[-1]:
            levels.append(sorted({v for u in levels[-1] for v in graph[u]} - found))
            found.update(levels[-1])
        return levels[:-1]

    order, placed = [], set()
    for lowest in sorted(graph):
        if lowest in placed:
            continue
        start = min(levels_from(lowest)[-1], key=key)
        queue = collections.deque([start])
        placed.add(start)
        while queue:
            node = queue.popleft()
            order.append(node)
            following = sorted(graph[node] - placed, key=key)
            placed.update(following)
            queue.extend(following)
    return order


def rcm(A, warps, threads, line):
    return [node for node in cuthill_mckee(neighbours(A)) if node < A.shape[0]][::-1]


def mixed(x):
    """The finaliser of MurmurHash3 for 32 bits."""
    x = ((x ^ x >> 16) * 0x85EBCA6B) % 2**32
    x = ((x ^ x >> 13) * 0xC2B2AE35) % 2**32
    return x ^ x >> 16


def minhash(A, warps, threads, line):
    def signature(columns):
        return [min((mixed(c ^ mixed(h)) for c in columns), default=2**32) for h in range(1, 9)]

    signatures = [signature(columns) for columns in row_columns(A)]
    return sorted(range(A.shape[0]), key=lambda row: (signatures[row], row))


def degree(A, warps, threads, line):
    degrees = [len(columns) for columns in row_columns(A)]
    if A.shape[0] == A.shape[1]:
        for columns in row_columns(A):
            for j in columns:
                degrees[j] += 1
    mean = fractions.Fraction(sum(degrees), max(len(degrees), 1))
    least = [factor * mean for factor in (32, 16, 8, 4, 2, 1, fractions.Fraction(1, 2))]
    classes = [next((c for c, bound in enumerate(least) if d >= bound), len(least)) for d in degrees]
    return sorted(range(A.shape[0]), key=lambda row: (classes[row], row))


def clusters(graph, volume):
    """Clusters of the nodes of {node: {neighbour: weight}} by moves in batches that decide on the same state."""

    def batch(node):
        node = ((node ^ node >> 16) * 0x85EBCA6B) % 2**32
        return (node ^ node >> 13) % 16

    total = sum(volume.values())
    cluster = {node: node for node in graph}
    active = set(graph)
    for _ in range(8):
        moved = 0
        for b in range(16):
            members = collections.Counter(cluster.values())
            volumes = collections.Counter()
            for node, c in cluster.items():
                volumes[c] += volume[node]
            targets = {}
            for node in [node for node in graph if node in active and batch(node) == b]:
                active.remove(node)
                own = cluster[node]
                weights = collections.Counter()
                for other, weight in graph[node].items():
                    weights[cluster[other]] += weight
                gains = {own: weights[own] * total - volume[node] * (volumes[own] - volume[node])}
                for c, weight in weights.items():
                    if c != own and not (members[own] == 1 and members[c] == 1 and c > own):
                        gains[c] = weight * total - volume[node] * volumes[c]
                targets[node] = min(gains, key=lambda c: (-gains[c], c != own, c))
            for node, target in targets.items():
                if target != cluster[node]:
                    moved += 1
                    cluster[node] = target
                    active.update(graph[node])
        if 20 * moved < len(graph):
            break
    number = {c: place for place, c in enumerate(sorted(set(cluster.values())))}
    return {node: number[c] for node, c in cluster.items()}


def contracted(graph, volume, cluster):
    volumes = collections.Counter()
    coarse = {c: collections.Counter() for c in sorted(set(cluster.values()))}
    for node, others in graph.items():
        volumes[cluster[node]] += volume[node]
        for other, weight in others.items():
            if cluster[node] != cluster[other]:
                coarse[cluster[node]][cluster[other]] += weight
    return coarse, volumes


def community(A, warps, threads, line):
    pattern = neighbours(A)
    graph = {node: dict.fromkeys(others, 1) for node, others in pattern.items()}
    volume = {node: len(others) for node, others in pattern.items()}
    levels = []
    while len(levels) < 16:
        cluster = clusters(graph, volume)
        if levels and len(set(cluster.values())) == len(graph):
            break
        levels.append((graph, cluster))
        graph, volume = contracted(graph, volume, cluster)
    order = cuthill_mckee({node: set(others) for node, others in graph.items()})
    for fine, cluster in reversed(levels):
        place = {c: p for p, c in enumerate(order)}

        def mean(node, fine=fine, cluster=cluster, place=place):
            total = sum(fine[node].values())
            return sum(w * place[cluster[other]] for other, w in fine[node].items()) / total if total else 0.0

        order = sorted(fine, key=lambda node: (place[cluster[node]], mean(node), node))
    return [node for node in order if node < A.shape[0]]


REFERENCES = {
    "none": lambda A, warps, threads, line: list(range(A.shape[0])),
    "plain": plain,
    "flipped": flipped,
    "lpt": lpt,
    "warp-aware": warp_aware,
    "cta-aware": cta_aware,
    "hybrid-1": hybrid_1,
    "hybrid-2.1": hybrid_2_1,
    "hybrid-2.2": hybrid_2_2,
    "hybrid-2.3": hybrid_2_3,
    "rcm": rcm,
    "community": community,
    "minhash": minhash,
    "degree": degree,
}


def compute(name, A, *, warps=32, threads=32, elements_per_cache_line=32):
    return np.array(REFERENCES[name](A, warps, threads, elements_per_cache_line), dtype=np.int64)


def matrix_greedy(A, name, *, warps=32, threads=32, elements_per_cache_line=32):
    """The greedy permutations with masks as rows of a 0/1 matrix: good for a few thousand rows."""
    rows = A.shape[0]
    loads = np.array(warp_loads(A, threads))
    shape = (rows, -(-A.shape[1] // elements_per_cache_line))
    places = (np.repeat(np.arange(rows), np.diff(A.indptr)), A.indices // elements_per_cache_line)
    masks = sp.csr_array((np.ones(A.nnz, dtype=np.int64), places), shape=shape)
    masks.sum_duplicates()
    masks.data[:] = 1
    sizes = np.diff(masks.indptr)
    lag = warps if name in ("warp-aware", "hybrid-2.3") else 1

    def distances(row):
        mask = np.zeros(shape[1], dtype=np.int64)
        mask[masks.indices[masks.indptr[row] : masks.indptr[row + 1]]] = 1
        return sizes[row] + sizes - 2 * (masks @ mask)

    perm = lowest_load_rows(A, threads, lag)
    left = np.ones(rows, dtype=bool)
    left[perm] = False
    while left.any():
        near = distances(perm[-lag])
        ties = np.flatnonzero(left & (near == near[left].min()))
        if name in ("hybrid-2.1", "hybrid-2.3"):
            ties = ties[loads[ties] == loads[ties].min()]
        elif name == "hybrid-2.2" and len(perm) >= warps:
            second = distances(perm[-warps])[ties]
            ties = ties[second == second.min()]
        perm.append(int(ties[0]))
        left[ties[0]] = False
    return np.array(perm)

"""The row permutations written down once more, slowly, from Section III of Mehrabi et al. 2021.

Nothing here is shared with the package: masks are Python sets, every search compares every remaining row, and
every tie-break is spelled out as a sort key.
"""

from __future__ import annotations

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

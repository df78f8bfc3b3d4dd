"""Larger matrices than a repository can hold, made from their definitions; the seed is fixed."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

__all__ = ["generated", "huge"]


def _values(pattern: sp.csr_array, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    pattern.data = rng.uniform(0.5, 1.5, pattern.nnz).astype(np.float32)
    return pattern


def _from_coo(m: int, n: int, rows: np.ndarray, cols: np.ndarray, seed: int = 0) -> sp.csr_array:
    pattern = sp.csr_array((np.ones(len(rows), np.float32), (rows, cols)), shape=(m, n))
    pattern.sum_duplicates()
    return _values(pattern, seed)


def _stencil(shape: tuple[int, ...], offsets: list[tuple[int, ...]]) -> sp.csr_array:
    """Grid points coupled to their neighbours at `offsets`, cut off at the boundary."""
    size = int(np.prod(shape))
    steps = np.cumprod((1, *shape[:0:-1]))[::-1]  # from one point to the next along each axis
    offsets = sorted(offsets, key=lambda offset: int(np.dot(offset, steps)))
    inside = np.empty((size, len(offsets)), bool)
    columns = np.empty((size, len(offsets)), np.int32)
    for o, offset in enumerate(offsets):
        along = [
            (np.arange(length) + step >= 0) & (np.arange(length) + step < length)
            for length, step in zip(shape, offset, strict=True)
        ]
        inside[:, o] = functools.reduce(np.logical_and.outer, along).ravel()
        columns[:, o] = np.arange(size, dtype=np.int32) + int(np.dot(offset, steps))
    indptr = np.concatenate([[0], np.cumsum(inside.sum(axis=1, dtype=np.int64))])
    indices = columns[inside]
    return _values(sp.csr_array((np.empty(len(indices), np.float32), indices, indptr), shape=(size, size)), 0)


def _cross(dimensions: int) -> list[tuple[int, ...]]:
    axes = np.eye(dimensions, dtype=int)
    return [tuple(np.zeros(dimensions, int)), *(tuple(s * a) for a in axes for s in (-1, 1))]


def _box(dimensions: int) -> list[tuple[int, ...]]:
    return (
        [tuple(o) for o in np.ndindex(*(3,) * dimensions)]
        if dimensions == 0
        else [tuple(np.array(o) - 1) for o in np.ndindex(*(3,) * dimensions)]
    )


def _banded(n: int, half_width: int) -> sp.csr_array:
    offsets = [(d,) for d in range(-half_width, half_width + 1)]
    return _stencil((n,), offsets)


def _blocks(stencil: sp.csr_array, size: int) -> sp.csr_array:
    return _values(sp.csr_array(sp.kron(stencil, np.ones((size, size), np.float32), format="csr")), 1)


def _uniform(m: int, n: int, per_row: int) -> sp.csr_array:
    rng = np.random.default_rng(2)
    return _from_coo(m, n, np.repeat(np.arange(m), per_row), rng.integers(0, n, m * per_row))


def _rmat(scale: int, edges_per_vertex: int, seed: int = 3) -> sp.csr_array:
    """Recursive matrix graph with Graph500's probabilities (0.57, 0.19, 0.19, 0.05)."""
    rng = np.random.default_rng(seed)
    count = edges_per_vertex << scale
    rows, cols = np.zeros(count, np.int32), np.zeros(count, np.int32)
    for _ in range(scale):
        chance = rng.random(count, np.float32)
        lower = chance >= 0.76
        rows, cols = 2 * rows + lower, 2 * cols + np.where(lower, chance >= 0.95, chance >= 0.57)
    return _from_coo(1 << scale, 1 << scale, rows, cols)


def _power_law(m: int, n: int, exponent: float, mean: float) -> sp.csr_array:
    """Row lengths and column popularity both follow a power law."""
    rng = np.random.default_rng(4)
    lengths = (1 + rng.pareto(exponent, m)) * mean * (exponent - 1) / exponent
    lengths = np.minimum(lengths.astype(np.int64) + 1, n)
    cols = np.minimum((n * rng.random(lengths.sum()) ** 2.5).astype(np.int64), n - 1)
    return _from_coo(m, n, np.repeat(np.arange(m), lengths), cols)


def _dense_rows(n: int, dense: int, per_row: int) -> sp.csr_array:
    rng = np.random.default_rng(5)
    long = rng.choice(n, dense, replace=False)
    rows = np.concatenate([np.repeat(np.arange(n), per_row), np.repeat(long, n // 2)])
    return _from_coo(n, n, rows, rng.integers(0, n, len(rows)))


def _hypersparse(n: int, nonempty: int, per_row: int) -> sp.csr_array:
    rng = np.random.default_rng(6)
    rows = rng.choice(n, nonempty, replace=False)
    return _from_coo(n, n, np.repeat(rows, per_row), rng.integers(0, n, nonempty * per_row))


def _mycielskian(k: int) -> sp.csr_array:
    """The Mycielski graph M_k: triangle-free with chromatic number k."""
    graph = sp.csr_array(np.array([[0, 1], [1, 0]], np.float32))
    for _ in range(k - 2):
        n = graph.shape[0]
        ones = np.ones((n, 1), np.float32)
        graph = sp.csr_array(
            sp.block_array([[graph, graph, None], [graph, None, ones], [None, ones.T, None]], format="csr")
        )
    return _values(graph, 7)


def _incidence(points: int, size: int) -> sp.csr_array:
    """Pairs against subsets (bibd): entry 1 if the pair is in the subset."""
    import itertools

    subsets = np.array(list(itertools.combinations(range(points), size)))
    pair_number = np.zeros((points, points), np.int64)
    first, second = np.triu_indices(points, 1)
    pair_number[first, second] = np.arange(len(first))
    rows, cols = [], []
    for i, j in itertools.combinations(range(size), 2):
        rows.append(pair_number[subsets[:, i], subsets[:, j]])
        cols.append(np.arange(len(subsets)))
    return _from_coo(len(first), len(subsets), np.concatenate(rows), np.concatenate(cols))


def _shuffled(matrix: sp.csr_array) -> sp.csr_array:
    order = np.random.default_rng(8).permutation(matrix.shape[0])
    return sp.csr_array(matrix[order])


def _pruned(m: int, n: int, density: float) -> sp.csr_array:
    rng = np.random.default_rng(9)
    return _from_coo(m, n, *np.nonzero(rng.random((m, n)) < density))


def _uniform_rows(m: int, n: int, per_row: int) -> sp.csr_array:
    """Like `_uniform`, but repeated columns stay: faster to make."""
    columns = np.sort(np.random.default_rng(2).integers(0, n, (m, per_row), dtype=np.int32), axis=1)
    indptr = np.arange(0, columns.size + 1, per_row)
    return _values(sp.csr_array((np.empty(columns.size, np.float32), columns.ravel(), indptr), shape=(m, n)), 0)


def huge() -> dict[str, Callable[[], sp.csr_array]]:
    """Name -> function that makes the matrix, for those of 5 * 10^7 to 10^8 nonzeros."""
    return {
        "poisson2d_4000": lambda: _stencil((4000, 4000), _cross(2)),
        "box3d_150": lambda: _stencil((150,) * 3, _box(3)),
        "elasticity3d_70": lambda: _blocks(_stencil((70,) * 3, _box(3)), 3),
        "banded_1m_40": lambda: _banded(1_000_000, 40),
        "uniform_4m_16": lambda: _uniform_rows(4_000_000, 4_000_000, 16),
        "uniform_1m_64": lambda: _uniform_rows(1_000_000, 1_000_000, 64),
        "rmat_21_24": lambda: _rmat(21, 24),
        "power_3m_16": lambda: _power_law(3_000_000, 3_000_000, 1.7, 14),
    }


def generated() -> dict[str, Callable[[], sp.csr_array]]:
    """Name -> function that makes the matrix."""
    return {
        "poisson2d_500": lambda: _stencil((500, 500), _cross(2)),
        "poisson2d_1000": lambda: _stencil((1000, 1000), _cross(2)),
        "poisson3d_60": lambda: _stencil((60,) * 3, _cross(3)),
        "poisson3d_100": lambda: _stencil((100,) * 3, _cross(3)),
        "box2d_700": lambda: _stencil((700, 700), _box(2)),
        "box3d_50": lambda: _stencil((50,) * 3, _box(3)),
        "box3d_70": lambda: _stencil((70,) * 3, _box(3)),
        "elasticity3d_24": lambda: _blocks(_stencil((24,) * 3, _box(3)), 3),
        "elasticity3d_32": lambda: _blocks(_stencil((32,) * 3, _box(3)), 3),
        "blocks8_2d_100": lambda: _blocks(_stencil((100, 100), _cross(2)), 8),
        "banded_100k_10": lambda: _banded(100_000, 10),
        "banded_200k_20": lambda: _banded(200_000, 20),
        "banded_20k_100": lambda: _banded(20_000, 100),
        "uniform_50k_8": lambda: _uniform(50_000, 50_000, 8),
        "uniform_200k_16": lambda: _uniform(200_000, 200_000, 16),
        "uniform_500k_8": lambda: _uniform(500_000, 500_000, 8),
        "uniform_30k_100": lambda: _uniform(30_000, 30_000, 100),
        "wide_20k_400k_50": lambda: _uniform(20_000, 400_000, 50),
        "tall_400k_20k_6": lambda: _uniform(400_000, 20_000, 6),
        "rmat_15_16": lambda: _rmat(15, 16),
        "rmat_17_16": lambda: _rmat(17, 16),
        "rmat_18_8": lambda: _rmat(18, 8),
        "power_100k_12": lambda: _power_law(100_000, 100_000, 1.5, 8),
        "power_300k_20": lambda: _power_law(300_000, 300_000, 1.7, 14),
        "power_50k_30": lambda: _power_law(50_000, 50_000, 1.3, 12),
        "dense_rows_100k": lambda: _dense_rows(100_000, 20, 6),
        "dense_rows_20k": lambda: _dense_rows(20_000, 200, 6),
        "hypersparse_1m": lambda: _hypersparse(1_000_000, 40_000, 8),
        "hypersparse_300k": lambda: _hypersparse(300_000, 3_000, 80),
        "mycielskian13": lambda: _mycielskian(13),
        "mycielskian15": lambda: _mycielskian(15),
        "bibd_18_6": lambda: _incidence(18, 6),
        "bibd_20_7": lambda: _incidence(20, 7),
        "shuffled_box3d_50": lambda: _shuffled(_stencil((50,) * 3, _box(3))),
        "shuffled_banded_100k_10": lambda: _shuffled(_banded(100_000, 10)),
        "pruned_4096_0.1": lambda: _pruned(4096, 4096, 0.1),
        "pruned_2048x8192_0.05": lambda: _pruned(2048, 8192, 0.05),
    }

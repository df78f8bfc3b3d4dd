"""Matrices of which percents of the places are filled: covariances, kernels of points, masks of attention."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom.corpus.constructions import _random
from warploom.corpus.constructions._arguments import at_least, at_most
from warploom.corpus.constructions._patterns import finish, from_mask
from warploom.corpus.constructions._registry import construction

__all__ = ["attention", "covariance", "kernel_matrix"]

_SIDE = 2**20
"""Points have integer coordinates below this, so that squares of distances are exact."""

_SAMPLE = 4096
"""Pairs of variables that say from which covariance on enough are kept."""

_BLOCK = 64
"""Tokens of a random block."""


@construction(family="kernels and covariances", kind="statistical/mathematical problem")
def kernel_matrix(n: int, radius: int, dimensions: int = 3, clusters: int = 0, seed: int = 1) -> scipy.sparse.csr_array:
    """Kernel of compact support over random points: an entry where two are closer than its radius.

    Parameters
    ----------
    n : int
        Points.
    radius : int
        Of the support, in percent of the side of the cube that the points are in, 1 to 100.
    dimensions : int
        Of the cube, 1 to 8.
    clusters : int
        0 for points anywhere, in no order; else they are near so many random centres, and ordered by them.
    seed : int
        Seed for the points.
    """
    at_least(1, n=n, radius=radius, dimensions=dimensions)
    at_least(0, clusters=clusters)
    at_most(100, radius=radius)
    at_most(8, dimensions=dimensions)
    points = _random.integers(seed, 0, _SIDE, n * dimensions).reshape(n, dimensions)
    if clusters:
        centres = _random.integers(seed, 0, _SIDE, clusters * dimensions, stream=1).reshape(clusters, dimensions)
        points = (points >> 2) + centres[np.arange(n) * clusters // n]
    limit = (radius * _SIDE // 100) ** 2

    def close(rows: slice) -> npt.NDArray[np.bool_]:
        squares = np.zeros((len(points[rows]), n), np.int64)
        for axis in points.T:
            squares += (axis[rows, None] - axis) ** 2
        return np.asarray(squares <= limit)

    return finish(from_mask((n, n), close), seed=seed)


@construction(family="kernels and covariances", kind="statistical/mathematical problem")
def covariance(n: int, permille: int, factors: int = 8, seed: int = 1) -> scipy.sparse.csr_array:
    """Covariances of variables that depend on common factors, of which only the largest are kept.

    Parameters
    ----------
    n : int
        Variables.
    permille : int
        Share of the covariances that is kept, in thousandths, about; and the diagonal. 1 to 1000.
    factors : int
        Independent factors. A variable depends on each with an integer weight from -100 to 100; on half of them more
        strongly than on the others.
    seed : int
        Seed for the weights.
    """
    at_least(1, n=n, permille=permille, factors=factors)
    at_most(1000, permille=permille)
    at_most(1000, factors=factors)
    weights = _random.integers(seed, -100, 101, n * factors).reshape(n, factors)
    strong = _random.integers(seed, 0, 2, n * factors, stream=1).reshape(n, factors)
    weights = np.where(strong == 1, weights, weights // 4).astype(np.float64)  # products are integers, and exact
    pairs = _random.integers(seed, 0, n, 2 * _SAMPLE, stream=2).reshape(2, -1)
    sample = np.sort(np.abs((weights[pairs[0]] * weights[pairs[1]]).sum(axis=1)))
    limit = sample[_SAMPLE - max(1, _SAMPLE * permille // 1000)]

    def large(rows: slice) -> npt.NDArray[np.bool_]:
        kept = np.asarray(np.abs(weights[rows] @ weights.T) >= limit)
        number = np.arange(n)[rows]
        kept[np.arange(len(number)), number] = True
        return kept

    return finish(from_mask((n, n), large), seed=seed)


@construction(family="attention masks", kind="data analytics problem")
def attention(
    n: int, window: int, everywhere: int = 0, blocks: int = 0, causal: int = 0, seed: int = 1
) -> scipy.sparse.csr_array:
    """Which tokens a token attends to: those near it, some that all attend to, and random blocks of 64.

    As in Longformer (Beltagy, Peters and Cohan 2020) and BigBird (Zaheer et al. 2020).

    Parameters
    ----------
    n : int
        Tokens.
    window : int
        Tokens before and after it that one attends to.
    everywhere : int
        Tokens at the beginning that attend to all, and all to them.
    blocks : int
        Random blocks of 64 tokens that each block of 64 attends to; repeated ones count once.
    causal : int
        1 if nothing attends to a later token, else 0. With ``window=n`` that is a full triangle.
    seed : int
        Seed for the random blocks.
    """
    at_least(1, n=n)
    at_least(0, window=window, everywhere=everywhere, blocks=blocks, causal=causal)
    at_most(1, causal=causal)
    column = np.arange(n)
    groups = -(-n // _BLOCK)
    drawn = np.zeros((groups, groups), bool)
    if blocks:
        chosen = _random.integers(seed, 0, groups, groups * blocks).reshape(groups, blocks)
        drawn[np.arange(groups)[:, None], chosen] = True

    def attended(rows: slice) -> npt.NDArray[np.bool_]:
        row = column[rows, None]
        mask = np.abs(row - column) <= window
        mask |= (row < everywhere) | (column < everywhere)
        mask |= np.repeat(drawn[row[:, 0] // _BLOCK], _BLOCK, axis=1)[:, :n]
        if causal:
            mask &= column <= row
        return np.asarray(mask)

    return finish(from_mask((n, n), attended), seed=seed)

"""Rows of random columns whose lengths follow a distribution; pruned weights of neural networks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom.corpus.constructions import _random
from warploom.corpus.constructions._arguments import at_least, at_most
from warploom.corpus.constructions._patterns import (
    IntArray,
    Pattern,
    countable,
    expand,
    finish,
    from_lengths,
    from_mask,
)
from warploom.corpus.constructions._portable import exp2, log2, normal
from warploom.corpus.constructions._registry import construction

__all__ = [
    "cyclic_rows",
    "hypersparse",
    "log_normal_rows",
    "power_law_rows",
    "pruned",
    "pruned_blocks",
    "pruned_groups",
    "uniform",
    "uniform_between",
]


@construction(family="uniform random", kind="statistical/mathematical problem")
def uniform(m: int, n: int, per_row: int, seed: int = 1) -> scipy.sparse.csr_array:
    """Rows of equally many columns drawn uniformly.

    Parameters
    ----------
    m, n : int
        Rows and columns.
    per_row : int
        Draws of a column in each row; repeated ones count once.
    seed : int
        Seed for the columns.
    """
    at_least(1, m=m, n=n, per_row=per_row)
    return _random_columns(m, n, np.full(m, per_row), seed)


@construction(family="uniform random", kind="statistical/mathematical problem")
def uniform_between(m: int, n: int, shortest: int, longest: int, seed: int = 1) -> scipy.sparse.csr_array:
    """Rows of random columns whose lengths are distributed uniformly between two bounds.

    Parameters
    ----------
    m, n : int
        Rows and columns.
    shortest, longest : int
        Bounds of the draws in a row; repeated columns count once.
    seed : int
        Seed for lengths and columns.
    """
    at_least(1, m=m, n=n)
    at_least(0, shortest=shortest)
    at_least(shortest, longest=longest)
    return _random_columns(m, n, _random.integers(seed, shortest, longest + 1, m, stream=2), seed)


@construction(family="power-law rows", kind="statistical/mathematical problem")
def power_law_rows(
    m: int, n: int, shortest: int, exponent_tenths: int = 20, skew: int = 1, seed: int = 1
) -> scipy.sparse.csr_array:
    """Rows whose lengths follow a power law (Pareto's distribution), which no column's number enters.

    Parameters
    ----------
    m, n : int
        Rows and columns.
    shortest : int
        Smallest number of draws in a row; repeated columns count once. The mean is about
        shortest * a / (a - 1) for a tail P(length > x) = (shortest / x)**a.
    exponent_tenths : int
        Ten times a, 5 to 100.
    skew : int
        Columns are drawn as n u**skew for u uniform in [0, 1), 1 to 8: more than 1 prefers the first ones.
    seed : int
        Seed for lengths and columns.
    """
    at_least(1, m=m, n=n, shortest=shortest, skew=skew)
    at_least(5, exponent_tenths=exponent_tenths)
    at_most(100, exponent_tenths=exponent_tenths)
    at_most(8, skew=skew)
    chance = 1 - _random.uniform(seed, 0.0, 1.0, m, stream=2)
    lengths = np.minimum(shortest * exp2(log2(chance) * (-10 / exponent_tenths)), n).astype(np.int64)
    return _random_columns(m, n, lengths, seed, skew)


@construction(family="log-normal rows", kind="statistical/mathematical problem")
def log_normal_rows(
    m: int, n: int, median: int, spread_tenths: int = 10, sorted_rows: int = 0, seed: int = 1
) -> scipy.sparse.csr_array:
    """Rows whose lengths have a nearly log-normal distribution, with random columns.

    Parameters
    ----------
    m, n : int
        Rows and columns.
    median : int
        Median of the draws in a row; repeated columns count once.
    spread_tenths : int
        Ten times the standard deviation of the natural logarithm of the length, 0 to 30.
    sorted_rows : {0, 1}
        Whether the longest rows come first.
    seed : int
        Seed for lengths and columns.
    """
    at_least(1, m=m, n=n, median=median)
    at_least(0, spread_tenths=spread_tenths, sorted_rows=sorted_rows)
    at_most(30, spread_tenths=spread_tenths)
    at_most(1, sorted_rows=sorted_rows)
    logarithm = normal(seed, m) * (spread_tenths * 0.1442695040888963)  # of base 2
    lengths = np.minimum(median * exp2(logarithm) + 0.5, n).astype(np.int64)
    if sorted_rows:
        lengths = -np.sort(-lengths)
    return _random_columns(m, n, lengths, seed)


@construction(family="cyclic row lengths", kind="counter-example problem")
def cyclic_rows(m: int, n: int, short: int, long: int, stride: int = 2, seed: int = 1) -> scipy.sparse.csr_array:
    """Long rows at equal distances: the worst case of work distributed by the row's number.

    Parameters
    ----------
    m, n : int
        Rows and columns.
    short, long : int
        Draws in a row; repeated columns count once.
    stride : int
        From one long row to the next, the first of which is row 0; 2 alternates.
    seed : int
        Seed for the columns.
    """
    at_least(1, m=m, n=n, stride=stride)
    at_least(0, short=short, long=long)
    return _random_columns(m, n, np.where(np.arange(m) % stride == 0, long, short), seed)


@construction(family="hypersparse", kind="directed graph")
def hypersparse(m: int, n: int, nonempty: int, per_row: int, seed: int = 1) -> scipy.sparse.csr_array:
    """Matrix most of whose rows are empty.

    Parameters
    ----------
    m, n : int
        Rows and columns.
    nonempty : int
        Draws of a row that is not; repeated ones count once.
    per_row : int
        Draws of a column in each of those; repeated ones count once.
    seed : int
        Seed for rows and columns.
    """
    at_least(1, m=m, n=n, per_row=per_row)
    at_least(0, nonempty=nonempty)
    lengths = np.zeros(m, np.int64)
    lengths[_random.integers(seed, 0, m, nonempty, stream=2)] = per_row
    return _random_columns(m, n, lengths, seed)


@construction(family="pruned weights", kind="data analytics problem")
def pruned(m: int, n: int, permille: int, skew: int = 0, seed: int = 1) -> scipy.sparse.csr_array:
    """Weights of a layer of a neural network of which only the largest are left, at random places.

    Parameters
    ----------
    m, n : int
        Outputs and inputs.
    permille : int
        Share of the weights, in thousandths, 1 to 1000, that are left on average.
    skew : int
        How rows differ: 0 not at all, 1 in proportion to a uniform number, 2 to its square and so on, up to 8.
    seed : int
        Seed for the places.
    """
    at_least(1, m=m, n=n, permille=permille)
    at_least(0, skew=skew)
    at_most(1000, permille=permille)
    at_most(8, skew=skew)
    share = _power(_random.uniform(seed, 0.0, 1.0, m, stream=2), skew) * (skew + 1)
    limits = (np.minimum(share * permille / 1000, 1.0) * 2.0**32).astype(np.uint64)

    def kept(rows: slice) -> npt.NDArray[np.bool_]:
        of_rows = limits[rows]
        draws = _random.bits(seed, len(of_rows) * n, stream=3 + rows.start).reshape(-1, n) >> np.uint64(32)
        return np.asarray(draws < of_rows[:, None])

    return finish(from_mask((m, n), kept), seed=seed)


@construction(family="pruned weights", kind="data analytics problem")
def pruned_blocks(m: int, n: int, block: int, percent: int, seed: int = 1) -> scipy.sparse.csr_array:
    """Weights of a layer of a neural network pruned by square blocks.

    Parameters
    ----------
    m, n : int
        Blocks of outputs and of inputs.
    block : int
        Rows and columns of a block.
    percent : int
        Percentage of the blocks, 1 to 100, that are left.
    seed : int
        Seed for the blocks.
    """
    at_least(1, m=m, n=n, block=block, percent=percent)
    at_most(100, percent=percent)
    rows, columns = np.divmod(np.flatnonzero(_random.integers(seed, 0, 100, m * n) < percent), n)
    size = max(m, n)
    square = Pattern((size, size), np.searchsorted(rows, np.arange(size + 1)), columns.astype(np.int32))
    blocks = expand(square, block)
    used = block * m
    return finish(Pattern((used, block * n), blocks.indptr[: used + 1], blocks.indices), seed=seed)


@construction(family="pruned weights", kind="data analytics problem")
def pruned_groups(m: int, n: int, kept: int = 2, group: int = 4, seed: int = 1) -> scipy.sparse.csr_array:
    """Weights of which equally many are left in each group of consecutive ones: 2 of 4 is what tensor cores take.

    Parameters
    ----------
    m, n : int
        Outputs and groups of inputs: group * n columns.
    kept : int
        Weights left in each group.
    group : int
        Weights in a group.
    seed : int
        Seed for the places.
    """
    at_least(1, m=m, n=n, kept=kept, group=group)
    at_most(group, kept=kept)
    order = np.argsort(_random.bits(seed, m * n * group).reshape(-1, group), axis=1, kind="stable")
    inside = np.sort(order[:, :kept], axis=1).reshape(m, n, kept)
    columns = (inside + group * np.arange(n)[:, None]).reshape(m, -1)
    return finish(Pattern((m, n * group), np.arange(m + 1) * columns.shape[1], columns.ravel()), seed=seed)


def _random_columns(m: int, n: int, lengths: IntArray, seed: int, skew: int = 1) -> scipy.sparse.csr_array:
    total = countable(int(lengths.sum()))
    if skew == 1:
        columns = _random.integers(seed, 0, n, total)
    else:
        columns = (n * _power(_random.uniform(seed, 0.0, 1.0, total), skew)).astype(np.int64)
    return finish(from_lengths((m, n), lengths, columns), seed=seed)


def _power(x: npt.NDArray[np.float64], exponent: int) -> npt.NDArray[np.float64]:
    """Multiply a number by itself: `**` is not rounded in the same way everywhere."""
    result = np.ones_like(x)
    for _ in range(exponent):
        result = result * x
    return result

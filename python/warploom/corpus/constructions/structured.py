"""Bands, blocks, arrows, triangles, permutations and other patterns of one rule."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from warploom.corpus.constructions import _random
from warploom.corpus.constructions._arguments import at_least, at_most, one_of
from warploom.corpus.constructions._assemble import from_coordinates, from_rows
from warploom.corpus.constructions._patterns import (
    Pattern,
    expand,
    finish,
    from_lengths,
    grid_pattern,
    ranges,
    renumber,
)
from warploom.corpus.constructions._registry import construction

__all__ = [
    "arrow",
    "banded",
    "banded_with_long_rows",
    "block_banded",
    "block_diagonal",
    "dense",
    "dense_columns",
    "dense_rows",
    "diagonal",
    "diagonals",
    "identity_plus",
    "permutation",
    "random_banded",
    "tolosa",
    "triangular",
]


@construction(family="banded", kind="model reduction problem")
def banded(n: int, lower: int, upper: int, shuffle: int = 0, shuffle_rows: int = 0) -> scipy.sparse.csr_array:
    """Full band around the diagonal.

    Parameters
    ----------
    n : int
        Rows and columns.
    lower, upper : int
        Diagonals below and above the main one.
    shuffle : int
        Seed of a random numbering of rows and columns alike; 0 keeps the order.
    shuffle_rows : int
        Seed of a random order of the rows alone; 0 keeps the order.
    """
    at_least(1, n=n)
    at_least(0, lower=lower, upper=upper)
    return finish(_band(n, n, lower, upper), shuffle=shuffle, shuffle_rows=shuffle_rows)


def _band(m: int, n: int, lower: int, upper: int) -> Pattern:
    row = np.arange(m, dtype=np.int64)
    first = np.minimum(np.maximum(row - lower, 0), n)
    lengths = np.maximum(np.minimum(row + upper + 1, n) - first, 0)
    return Pattern((m, n), np.concatenate([[0], np.cumsum(lengths)]), ranges(first.astype(np.int32), lengths))


@construction(family="banded", kind="structural problem")
def random_banded(n: int, half_width: int, percent: int, seed: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Band of which a random part is filled, and the diagonal.

    Parameters
    ----------
    n : int
        Rows and columns.
    half_width : int
        Diagonals on either side of the main one.
    percent : int
        Percentage of the band's places, 1 to 100, that have an entry.
    seed : int
        Seed for the places.
    shuffle : int
        Seed of a random numbering of rows and columns alike; 0 keeps the order.
    """
    at_least(1, n=n, percent=percent)
    at_least(0, half_width=half_width)
    at_most(100, percent=percent)
    band = _band(n, n, half_width, half_width)
    keep = _random.integers(seed, 0, 100, len(band.indices)) < percent
    keep[band.indptr[:-1] + np.minimum(np.arange(n), half_width)] = True  # the diagonal
    kept = np.concatenate([[0], np.cumsum(keep)])[band.indptr]
    return finish(Pattern(band.shape, kept, band.indices[keep]), seed=seed, shuffle=shuffle)


@construction(family="banded", kind="2D/3D problem")
def diagonals(n: int, count: int, reach: int, seed: int = 1) -> scipy.sparse.csr_array:
    """Diagonals at distances from the main one that are drawn at random, and the main one.

    Parameters
    ----------
    n : int
        Rows and columns.
    count : int
        Draws, each of a diagonal and the one opposite; repeated ones count once.
    reach : int
        Largest distance from the main diagonal, below n.
    seed : int
        Seed for the distances.
    """
    at_least(1, n=n, count=count, reach=reach)
    at_most(n - 1, reach=reach)
    distances = [(int(d),) for d in np.unique(_random.integers(seed, 1, reach + 1, count))]
    return finish(grid_pattern((n,), [(0,), *distances, *((-d,) for (d,) in distances)]), seed=seed)


@construction(family="blocks", kind="2D/3D problem")
def block_banded(blocks: int, size: int, half_width: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Dense blocks on and around the diagonal.

    Parameters
    ----------
    blocks : int
        Along the diagonal.
    size : int
        Rows and columns of each block.
    half_width : int
        Block diagonals on either side of the main one.
    shuffle : int
        Seed of a random numbering of rows and columns alike; 0 keeps the order.
    """
    at_least(1, blocks=blocks, size=size)
    at_least(0, half_width=half_width)
    return finish(expand(_band(blocks, blocks, half_width, half_width), size), shuffle=shuffle)


@construction(family="blocks", kind="statistical/mathematical problem")
def block_diagonal(
    blocks: int, smallest: int, largest: int, seed: int = 1, shuffle: int = 0, shuffle_rows: int = 0
) -> scipy.sparse.csr_array:
    """Dense blocks of various sizes along the diagonal.

    Parameters
    ----------
    blocks : int
        Along the diagonal.
    smallest, largest : int
        Bounds of the size of a block, drawn uniformly between.
    seed : int
        Seed for the sizes.
    shuffle : int
        Seed of a random numbering of rows and columns alike; 0 keeps the order.
    shuffle_rows : int
        Seed of a random order of the rows alone; 0 keeps the order.
    """
    at_least(1, blocks=blocks, smallest=smallest)
    at_least(smallest, largest=largest)
    sizes = _random.integers(seed, smallest, largest + 1, blocks)
    pattern = expand(_band(blocks, blocks, 0, 0), sizes)
    return finish(pattern, seed=seed, shuffle=shuffle, shuffle_rows=shuffle_rows)


@construction(family="arrow", kind="optimization problem")
def arrow(n: int, width: int, half_width: int = 0, last: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Band bordered by dense rows and columns.

    Parameters
    ----------
    n : int
        Rows and columns, the border included.
    width : int
        Dense rows, and columns; at most n.
    half_width : int
        Diagonals on either side of the main one.
    last : {0, 1}
        Whether the border comes last or first.
    shuffle : int
        Seed of a random numbering of rows and columns alike; 0 keeps the order.
    """
    at_least(1, n=n)
    at_least(0, width=width, half_width=half_width)
    at_most(n, width=width)
    one_of((0, 1), last=last)
    band = _band(n, n, half_width, half_width)
    border = np.arange(n - width, n) if last else np.arange(width)
    dense_part = np.repeat(border, n)
    every = np.tile(np.arange(n), width)
    rows = np.concatenate([np.repeat(np.arange(n), np.diff(band.indptr)), dense_part, every])
    matrix = from_coordinates((n, n), rows, np.concatenate([band.indices, every, dense_part]))
    return finish(Pattern(matrix.shape, matrix.indptr, matrix.indices), shuffle=shuffle)


@construction(family="dense rows", kind="optimization problem")
def dense_rows(n: int, count: int, percent: int = 50, per_row: int = 6, seed: int = 1) -> scipy.sparse.csr_array:
    """Random sparse rows and a few much longer ones.

    Parameters
    ----------
    n : int
        Rows and columns.
    count : int
        Draws of a long row; repeated ones count once.
    percent : int
        Draws of a column for a long row, as a part of all columns, 1 to 400.
    per_row : int
        Draws of a column for every row.
    seed : int
        Seed for rows and columns.
    """
    at_least(1, n=n, count=count, percent=percent)
    at_least(0, per_row=per_row)
    at_most(400, percent=percent)
    return finish(_with_long_rows(n, count, percent, per_row, seed), seed=seed)


@construction(family="banded", kind="optimization problem")
def banded_with_long_rows(
    n: int, half_width: int, percent: int, every: int, length: int, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Band of which a random part is filled, and rows at equal distances that reach much further.

    Parameters
    ----------
    n : int
        Rows and columns.
    half_width : int
        Columns of the band on either side of the diagonal.
    percent : int
        Share of the band that has entries, 1 to 100; the diagonal always has.
    every : int
        Distance of two long rows.
    length : int
        Draws of a column for a long row, from all columns.
    seed : int
        Seed for the entries.
    shuffle : int
        0 for the order of the band, else the seed of a random order.
    """
    at_least(1, n=n, percent=percent, every=every)
    at_least(0, half_width=half_width, length=length)
    at_most(100, percent=percent)
    band = random_banded(n, half_width, percent, seed)
    long_rows = np.arange(every // 2, n, every)
    ends = np.repeat(long_rows, length), _random.integers(seed, 0, n, len(long_rows) * length, stream=7)
    ones = np.ones(len(ends[0]), np.float64)
    whole = scipy.sparse.csr_array(band + scipy.sparse.csr_array((ones, ends), shape=band.shape))
    whole.sort_indices()
    return finish(Pattern((n, n), whole.indptr, whole.indices), seed=seed, shuffle=shuffle)


@construction(family="dense columns", kind="optimization problem")
def dense_columns(n: int, count: int, percent: int = 50, per_column: int = 6, seed: int = 1) -> scipy.sparse.csr_array:
    """Random sparse columns and a few much longer ones: the transpose of `dense_rows`.

    Parameters
    ----------
    n : int
        Rows and columns.
    count : int
        Draws of a long column; repeated ones count once.
    percent : int
        Draws of a row for a long column, as a part of all rows, 1 to 400.
    per_column : int
        Draws of a row for every column.
    seed : int
        Seed for rows and columns.
    """
    at_least(1, n=n, count=count, percent=percent)
    at_least(0, per_column=per_column)
    at_most(400, percent=percent)
    columns = _with_long_rows(n, count, percent, per_column, seed)
    return from_coordinates(columns.shape, columns.indices, np.repeat(np.arange(n), np.diff(columns.indptr)), seed=seed)


def _with_long_rows(n: int, count: int, percent: int, per_row: int, seed: int) -> Pattern:
    lengths = np.full(n, per_row)
    lengths[_random.integers(seed, 0, n, count, stream=2)] += n * percent // 100
    return from_lengths((n, n), lengths, _random.integers(seed, 0, n, int(lengths.sum())))


@construction(family="triangular", kind="economic problem")
def triangular(n: int, per_row: int, hubs: int = 0, upper: int = 1, seed: int = 1) -> scipy.sparse.csr_array:
    """Triangle with random fill: each row has a diagonal and entries to one side of it.

    Parameters
    ----------
    n : int
        Rows and columns.
    per_row : int
        Draws of a column on the row's side.
    hubs : int
        Further draws in every row among the last (or first) columns, one in 64 of them, which so are long.
    upper : {0, 1}
        Which triangle.
    seed : int
        Seed for the columns.
    """
    at_least(1, n=n)
    at_least(0, per_row=per_row, hubs=hubs)
    one_of((0, 1), upper=upper)
    row = np.arange(n)[:, None]
    draws = (_random.bits(seed, n * (per_row + hubs)) >> np.uint64(32)).astype(np.int64).reshape(n, -1)
    room = n - row  # columns from the diagonal on
    hub_room = np.minimum(room, 1 + n // 64)
    beyond = np.concatenate([draws[:, :per_row] * room >> 32, room - 1 - (draws[:, per_row:] * hub_room >> 32)], axis=1)
    columns = np.concatenate([row, row + beyond], axis=1)
    pattern = from_lengths((n, n), np.full(n, columns.shape[1]), columns.ravel())
    if upper:
        return finish(pattern, seed=seed)
    backwards = np.arange(n - 1, -1, -1)
    return finish(renumber(pattern, backwards, backwards), seed=seed)


@construction(family="dense", kind="statistical/mathematical problem")
def dense(m: int, n: int) -> scipy.sparse.csr_array:
    """Matrix without zeros.

    Parameters
    ----------
    m, n : int
        Rows and columns.
    """
    at_least(1, m=m, n=n)
    return from_rows((m, n), np.arange(m + 1) * n, np.tile(np.arange(n, dtype=np.int32), m))


@construction(family="diagonal", kind="structural problem")
def diagonal(n: int) -> scipy.sparse.csr_array:
    """Diagonal, such as a lumped mass matrix.

    Parameters
    ----------
    n : int
        Rows and columns.
    """
    at_least(1, n=n)
    return from_rows((n, n), np.arange(n + 1), np.arange(n))


@construction(family="diagonal", kind="combinatorial problem")
def permutation(n: int, seed: int = 1) -> scipy.sparse.csr_array:
    """One entry in each row and each column, at random.

    Parameters
    ----------
    n : int
        Rows and columns.
    seed : int
        Seed for the permutation.
    """
    at_least(1, n=n)
    return from_rows((n, n), np.arange(n + 1), _random.permutation(seed, n), seed=seed)


@construction(family="diagonal", kind="statistical/mathematical problem")
def identity_plus(n: int, extra: int, seed: int = 1) -> scipy.sparse.csr_array:
    """Diagonal and a few entries anywhere.

    Parameters
    ----------
    n : int
        Rows and columns.
    extra : int
        Draws of a place; repeated ones count once.
    seed : int
        Seed for the places.
    """
    at_least(1, n=n)
    at_least(0, extra=extra)
    row = np.arange(n)
    rows = np.concatenate([row, _random.integers(seed, 0, n, extra)])
    return from_coordinates(
        (n, n), rows, np.concatenate([row, _random.integers(seed, 0, n, extra, stream=2)]), seed=seed
    )


@construction(family="bordered blocks", kind="computational fluid dynamics problem")
def tolosa(modes: int) -> scipy.sparse.csr_array:
    """Flutter of an aircraft (Bai's TOLS): diagonal blocks, and 18 rows of 90 entries for the modes that air couples.

    Parameters
    ----------
    modes : int
        At least 18: 5 rows each.
    """
    at_least(18, modes=modes)
    mode = np.arange(modes)
    delay = np.arange(2 * modes, 5 * modes)
    coupled = np.arange(18)
    all_coupled = (np.arange(5)[:, None] * modes + coupled).ravel()
    rows = [mode, mode + modes, mode + modes, delay, delay, np.repeat(modes + coupled, 90)]
    columns = [mode + modes, mode, mode + modes, np.tile(mode + modes, 3), delay, np.tile(all_coupled, 18)]
    return from_coordinates((5 * modes,) * 2, np.concatenate(rows), np.concatenate(columns))

"""Sparsity patterns as CSR arrays, of which several families are made."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom.corpus.constructions import _random
from warploom.corpus.constructions._arguments import at_least
from warploom.corpus.constructions._assemble import from_rows
from warploom.errors import ParameterError

__all__ = [
    "IntArray",
    "Offset",
    "Pattern",
    "box",
    "countable",
    "expand",
    "finish",
    "from_elements",
    "from_lengths",
    "from_mask",
    "grid_pattern",
    "ranges",
    "renumber",
    "shuffled",
    "star",
]

IntArray = npt.NDArray[np.signedinteger]
Offset = tuple[int, ...]


class Pattern(NamedTuple):
    """Where a matrix has entries: CSR arrays with ascending columns in each row."""

    shape: tuple[int, int]
    indptr: IntArray
    indices: IntArray


def finish(pattern: Pattern, *, seed: int = 0, shuffle: int = 0, shuffle_rows: int = 0) -> scipy.sparse.csr_array:
    """Give a pattern random values.

    Before, `shuffle` renumbers rows and columns alike and `shuffle_rows` the rows alone; seed 0 leaves the order.
    """
    at_least(0, shuffle_rows=shuffle_rows)
    pattern = shuffled(pattern, shuffle)
    if shuffle_rows:
        pattern = renumber(pattern, _random.permutation(shuffle_rows, pattern.shape[0], stream=3))
    return from_rows(pattern.shape, pattern.indptr, pattern.indices, seed=seed)


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """Concatenate ``range(start, start + length)``, in the index type of the starts."""
    ends = np.cumsum(lengths, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    dtype = starts.dtype if total <= np.iinfo(starts.dtype).max else np.dtype(np.int64)
    shifts: IntArray = (starts - (ends - lengths)).astype(dtype)
    return np.asarray(np.repeat(shifts, lengths) + np.arange(total, dtype=dtype))


def star(dimensions: int, reach: int = 1) -> list[Offset]:
    """Return the offsets to a point and to the `reach` nearest ones along each axis."""
    axes = np.eye(dimensions, dtype=int)
    steps = [step for step in range(-reach, reach + 1) if step]
    return [(0,) * dimensions, *(tuple(int(x) for x in step * axis) for axis in axes for step in steps)]


def box(dimensions: int, reach: int = 1, manhattan: int | None = None) -> list[Offset]:
    """Return the offsets within `reach` along every axis, of at most `manhattan` in sum."""
    offsets = [tuple(x - reach for x in o) for o in np.ndindex(*(2 * reach + 1,) * dimensions)]
    return [o for o in offsets if manhattan is None or sum(map(abs, o)) <= manhattan]


def grid_pattern(shape: Sequence[int], offsets: Iterable[Offset], *, periodic: Sequence[bool] | None = None) -> Pattern:
    """Couple the points of a grid to those at the offsets, the last axis numbered fastest.

    What leaves the grid is dropped, or comes back on the other side along periodic axes.
    """
    offsets = list(offsets)
    wraps = [False] * len(shape) if periodic is None else list(periodic)
    size = countable(math.prod(shape))
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    offsets.sort(key=lambda offset: sum(o * s for o, s in zip(offset, steps, strict=True)))
    columns = np.empty((size, len(offsets)), np.int32)
    inside = np.empty((size, len(offsets)), bool)
    for position, offset in enumerate(offsets):
        targets = [_along(*axis) for axis in zip(shape, offset, wraps, strict=True)]
        columns[:, position] = functools.reduce(
            np.add.outer, [t.astype(np.int32) * s for t, s in zip(targets, steps, strict=True)]
        ).ravel()
        inside[:, position] = functools.reduce(
            np.logical_and.outer, [(t >= 0) & (t < length) for t, length in zip(targets, shape, strict=True)]
        ).ravel()
    if any(wraps):
        columns[~inside] = np.iinfo(np.int32).max
        columns.sort(axis=1)
        inside = columns != np.iinfo(np.int32).max
        inside[:, 1:] &= columns[:, 1:] != columns[:, :-1]  # both neighbours of a periodic axis of two points
    indptr = np.concatenate([[0], np.cumsum(inside.sum(axis=1, dtype=np.int64))])
    return Pattern((size, size), indptr, columns[inside])


def countable(size: int) -> int:
    """Return a number of rows or entries, unless it is beyond 32-bit indices."""
    if size > np.iinfo(np.int32).max:
        raise ParameterError(f"{size} rows or entries are more than 32-bit indices can count")
    return size


def _along(length: int, offset: int, wraps: bool) -> npt.NDArray[np.int64]:
    target = np.arange(length) + offset
    return target % length if wraps else target


def expand(pattern: Pattern, sizes: int | IntArray) -> Pattern:
    """Replace every entry of a square pattern by a dense block: node i has `sizes` (or sizes[i]) unknowns."""
    if isinstance(sizes, int):
        if sizes == 1:
            return pattern
        sizes = np.full(pattern.shape[0], sizes, np.int64)
    first = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    total = countable(int(first[-1]))
    node = np.repeat(np.arange(pattern.shape[0]), sizes)  # of each row
    num_blocks = np.diff(pattern.indptr)[node]
    blocks = pattern.indices[ranges(pattern.indptr[:-1][node], num_blocks)]
    widths = sizes[blocks]
    ends = np.concatenate([[0], np.cumsum(widths)])
    indptr = ends[np.concatenate([[0], np.cumsum(num_blocks)])]
    return Pattern((total, total), indptr, ranges(first.astype(np.int32)[blocks], widths))


def from_mask(shape: tuple[int, int], filled: Callable[[slice], npt.NDArray[np.bool_]]) -> Pattern:
    """Return where ``filled(rows)``, of shape (rows, columns), is true.

    It is called with chunks of rows, since a place takes several bytes, of about four million places; the last of them
    may reach beyond the matrix. The chunks depend on the number of columns alone.
    """
    m, n = shape
    chunk = max(1, (1 << 22) // n)
    columns, lengths = [], []
    for start in range(0, m, chunk):
        mask = filled(slice(start, start + chunk))
        columns.append(np.nonzero(mask)[1].astype(np.int32))
        lengths.append(mask.sum(axis=1))
    return Pattern(shape, np.concatenate([[0], np.cumsum(np.concatenate(lengths))]), np.concatenate(columns))


def renumber(pattern: Pattern, row_order: IntArray, column_order: IntArray | None = None) -> Pattern:
    """Put row ``row_order[i]`` at i, and column ``column_order[j]`` at j."""
    lengths = np.diff(pattern.indptr)[row_order]
    indices = pattern.indices[ranges(pattern.indptr[:-1][row_order], lengths)]
    if column_order is None:
        return Pattern(pattern.shape, np.concatenate([[0], np.cumsum(lengths)]), indices)
    rank = np.empty(pattern.shape[1], np.int32)
    rank[column_order] = np.arange(pattern.shape[1], dtype=np.int32)
    return from_lengths(pattern.shape, lengths, rank[indices])


def shuffled(pattern: Pattern, shuffle: int) -> Pattern:
    """Renumber rows and columns at random alike; seed 0 leaves the order."""
    at_least(0, shuffle=shuffle)
    if not shuffle:
        return pattern
    order = _random.permutation(shuffle, pattern.shape[0], stream=2)
    return renumber(pattern, order, order)


def from_lengths(shape: tuple[int, int], lengths: IntArray, columns: IntArray) -> Pattern:
    """Make a pattern from the length and the columns of each row, in any order; repeated ones count once."""
    matrix = _matrix(shape, lengths, columns)
    matrix.sum_duplicates()
    return Pattern(shape, matrix.indptr, matrix.indices)


def from_elements(nodes: IntArray, num_nodes: int) -> Pattern:
    """Couple all nodes of every finite element; each row of `nodes` is an element."""
    count, size = nodes.shape
    incidence = _matrix((count, num_nodes), np.full(count, size), nodes.ravel(), np.int32)
    product = scipy.sparse.csr_array(incidence.T.tocsr() @ incidence)
    product.sort_indices()
    return Pattern((num_nodes, num_nodes), product.indptr, product.indices)


def _matrix(
    shape: tuple[int, int], lengths: IntArray, columns: IntArray, dtype: type[np.signedinteger] = np.int8
) -> scipy.sparse.csr_array:
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    countable(int(indptr[-1]))
    ones: IntArray = np.ones(len(columns), dtype)
    return scipy.sparse.csr_array((ones, columns.astype(np.int32), indptr.astype(np.int32)), shape=shape)

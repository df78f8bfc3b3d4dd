"""Maxima over the neighbours of every row, and which neighbour each of them is of."""

from __future__ import annotations

import dataclasses
import functools
import warnings

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["NONE", "Neighbours", "gradients", "maxima"]

NONE = -1
"""Stands where a row has no neighbour."""

_AT_ONCE = 1 << 23
"""Products of an entry and a column that are in memory at a time, where there is no kernel for maxima."""


@dataclasses.dataclass(frozen=True)
class Neighbours:
    """The pattern of a sparse matrix as tensors, where its plan is."""

    indptr: torch.Tensor
    """int64, shape (m + 1,)."""
    indices: torch.Tensor
    """int64, shape (nnz,)."""
    starts: NDArray[np.int64]
    """The same as `indptr`, on the host: what is done in parts needs no look at the device."""
    inverse_counts: torch.Tensor
    """Of the plan's type, shape (m, 1): 1 / entries of a row, or 1 of an empty one."""
    shape: tuple[int, int]
    has_empty: bool
    """Whether there are rows without entries."""

    @classmethod
    def of(cls, indptr: torch.Tensor, indices: torch.Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Neighbours:
        """Take the arrays of a matrix."""
        counts = indptr.diff().clamp(min=1)
        inverse = (1 / counts.double()).to(dtype).unsqueeze(1)
        starts = indptr.cpu().numpy()  # which waits for a GPU: other streams may read what is there
        return cls(indptr, indices, starts, inverse, shape, bool((np.diff(starts) == 0).any()))


def maxima(neighbours: Neighbours, weights: torch.Tensor, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return for each row and column the largest product of an entry and its row of X, and the number of that entry.

    Of equal ones it is the first, in the order in which they are stored. Rows without entries have 0, and `NONE`.
    Where a product is NaN, so is the result.

    Parameters
    ----------
    neighbours : Neighbours
    weights : Tensor, shape (nnz,)
    X : Tensor, shape (n, k)

    Returns
    -------
    Tensor, shape (m, k)
    Tensor of int64, shape (m, k)
        There is no saying which entry it is of where the result is NaN.
    """
    if X.device.type == "cpu" and _has_kernel():
        return _by_kernel(neighbours, weights, X)
    return _in_parts(neighbours, weights, X, _AT_ONCE)


def _has_kernel() -> bool:
    return hasattr(torch.ops.aten, "_sparse_mm_reduce_impl")


@functools.cache
def _take_notice() -> None:
    """Let PyTorch say, unheard, that its CSR tensors are in beta state: it does so once, of the first one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor(
            [0, 0], torch.empty(0, dtype=torch.int64), torch.empty(0), (1, 1), check_invariants=False
        )


def _by_kernel(neighbours: Neighbours, weights: torch.Tensor, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    _take_notice()
    A = torch.sparse_csr_tensor(
        neighbours.indptr, neighbours.indices, weights, neighbours.shape, check_invariants=False
    )
    if not neighbours.indices.shape[0] or not X.shape[1]:
        return X.new_zeros((neighbours.shape[0], X.shape[1])), _none(neighbours, X)
    with torch.enable_grad():  # numbers of entries come only where a gradient is wanted
        out, entries = torch.ops.aten._sparse_mm_reduce_impl(A, X.detach().requires_grad_(), "amax")
    # Those of rows without entries, and of rows of nothing but -inf, are one too large.
    if int(entries.max()) >= neighbours.indices.shape[0]:
        entries = _first_if_none(neighbours, entries)
    return out.detach(), entries.detach()


def _none(neighbours: Neighbours, X: torch.Tensor) -> torch.Tensor:
    return torch.full((neighbours.shape[0], X.shape[1]), NONE, dtype=torch.int64, device=X.device)


def _first_if_none(neighbours: Neighbours, entries: torch.Tensor) -> torch.Tensor:
    """Let what names no entry be the first of its row, or `NONE` where that is empty."""
    first = neighbours.indptr[:-1].unsqueeze(1)
    empty = (neighbours.indptr.diff() == 0).unsqueeze(1)
    inside = (entries >= 0) & (entries < neighbours.indices.shape[0])
    return torch.where(inside, entries, first).masked_fill(empty, NONE)


def _in_parts(
    neighbours: Neighbours, weights: torch.Tensor, X: torch.Tensor, at_once: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the same by operations that torch has everywhere: rows in parts, so that memory is bounded."""
    m, k = neighbours.shape[0], X.shape[1]
    starts = neighbours.starts
    most = int(np.diff(starts).max(initial=1))
    width = min(max(at_once // most, 1), max(k, 1))
    out = X.new_zeros((m, k))
    entries = _none(neighbours, X)
    last = neighbours.indices.shape[0]
    row = 0
    while row < m:
        end = int(np.searchsorted(starts, starts[row] + max(at_once // width, most), side="right")) - 1
        end = min(max(end, row + 1), m)
        first, stop = int(starts[row]), int(starts[end])
        if first < stop:
            counts = neighbours.indptr[row : end + 1].diff()
            ids = torch.arange(end - row, device=X.device)
            of_row = ids.repeat_interleave(counts, output_size=stop - first).unsqueeze(1)
            numbers = torch.arange(first, stop, device=X.device).unsqueeze(1)
            columns = neighbours.indices[first:stop]
            for left in range(0, k, width):
                part = X[:, left : left + width].index_select(0, columns) * weights[first:stop, None]
                place = of_row.expand_as(part)
                best = part.new_zeros((end - row, part.shape[1]))
                best = best.scatter_reduce(0, place, part, "amax", include_self=False)
                named = torch.where(part == best.gather(0, place), numbers, last)
                number = numbers.new_full(best.shape, last).scatter_reduce(0, place, named, "amin")
                out[row:end, left : left + width] = best
                entries[row:end, left : left + width] = number
        row = end
    return out, _first_if_none(neighbours, entries)


def gradients(
    grad: torch.Tensor,
    n: int,
    X: torch.Tensor | None,
    weights: torch.Tensor | None,
    columns: torch.Tensor,
    entries: torch.Tensor,
    of_entries: torch.Tensor | None,
    needed: tuple[bool, bool],
    *,
    has_empty: bool = True,
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Bring gradients of maxima to the neighbours that they are of. This can be differentiated again.

    Parameters
    ----------
    grad : Tensor, shape (m, k)
        Gradient of the maxima.
    n : int
        Rows of X.
    X : Tensor, shape (n, k), optional
        Read where a gradient for `weights` is wanted.
    weights : Tensor, shape (nnz,), optional
    columns : Tensor of int64, shape (m, k)
        The column of each entry in `entries`; 0 where there is none.
    entries : Tensor of int64, shape (m, k)
        As `maxima` returns them.
    of_entries : Tensor, shape (m, k), optional
        Values of these entries, if there are no `weights`.
    needed : pair of bool
        Whether gradients for `X` and for `weights` are wanted.
    has_empty : bool
        Whether `entries` may have `NONE`.
    """
    if not n or (weights is not None and not weights.shape[0]):
        return grad.new_zeros((n, grad.shape[1])), None if weights is None else torch.zeros_like(weights)
    numbers = entries
    if has_empty:
        grad = grad.masked_fill(entries == NONE, 0)
        numbers = entries.clamp(min=0)
    grad_X = grad_weights = None
    if needed[0]:
        factors = weights[numbers] if of_entries is None and weights is not None else of_entries
        assert factors is not None
        grad_X = grad.new_zeros((n, grad.shape[1])).scatter_add(0, columns, factors * grad)
    if needed[1]:
        assert weights is not None
        assert X is not None
        products = X.gather(0, columns) * grad
        grad_weights = torch.zeros_like(weights).scatter_add(0, numbers.flatten(), products.flatten())
    return grad_X, grad_weights

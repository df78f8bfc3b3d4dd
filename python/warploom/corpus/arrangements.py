"""Other orders of a matrix's rows and columns: its locality destroyed, or found again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom import _core, permutations
from warploom._matrix import as_csr
from warploom.corpus.constructions import _random
from warploom.errors import ParameterError

__all__ = ["ARRANGEMENTS", "arranged", "permuted_symmetrically", "reordered"]

ARRANGEMENTS = ("natural", "shuffled", "half")
"""As it is; in a random order; a random half of the rows and columns in a random order."""


def arranged(A: scipy.sparse.csr_array, how: str, seed: int = 1) -> scipy.sparse.csr_array:
    """Destroy the order of a matrix.

    Parameters
    ----------
    A : csr_array, shape (m, n)
    how : {"natural", "shuffled", "half"}
        Keep it, put the rows and columns in a random order, or only a random half of them, in the places that they
        had. Rows and columns of a square matrix are permuted alike.
    seed : int
        Seed of the order, which is the same on every machine.

    Returns
    -------
    csr_array

    Raises
    ------
    ParameterError
        `how` is none of these.
    """
    if how not in ARRANGEMENTS:
        raise ParameterError(f"an arrangement is {', '.join(ARRANGEMENTS)}, not '{how}'", argument="how")
    if how == "natural":
        return A
    rows = _random_order(A.shape[0], how, seed, stream=0)
    if A.shape[0] == A.shape[1]:
        return permuted_symmetrically(A, rows)
    columns = permutations.invert(_random_order(A.shape[1], how, seed, stream=3))
    found = permutations.apply(A, rows)
    found = scipy.sparse.csr_array((found.data, columns[found.indices], found.indptr), shape=A.shape)
    found.sort_indices()
    return found


def reordered(A: scipy.sparse.csr_array, order: str) -> scipy.sparse.csr_array:
    """Permute the rows and columns of a square matrix by an order for locality, as `warploom.reorder` does.

    Parameters
    ----------
    A : csr_array, shape (n, n)
    order : str
        A symmetric one of `warploom.permutations.names`.

    Returns
    -------
    csr_array

    Raises
    ------
    ParameterError
        There is no such order, it is one of rows only, or the matrix is not square.
    """
    if not permutations.is_symmetric(order):
        raise ParameterError(f"the order '{order}' is one of rows only", argument="order")
    if A.shape[0] != A.shape[1]:
        raise ParameterError(
            f"rows and columns of a matrix of {A.shape[0]} x {A.shape[1]} cannot be permuted alike", argument="order"
        )
    return permuted_symmetrically(A, permutations.compute(order, as_csr(A, pattern_only=True)))


def permuted_symmetrically(A: scipy.sparse.csr_array, perm: npt.NDArray[np.int32]) -> scipy.sparse.csr_array:
    """Permute rows and columns alike, ``perm[new] = old``."""
    indptr, indices, source = _core.permute_symmetrically(as_csr(A, pattern_only=True), perm)
    return scipy.sparse.csr_array((A.data[source], indices, indptr), shape=A.shape)


def _random_order(size: int, how: str, seed: int, stream: int) -> npt.NDArray[np.int32]:
    order = np.arange(size, dtype=np.int32)
    moved = order
    if how == "half":
        moved = np.sort(_random.permutation(seed, size, stream)[: size // 2]).astype(np.int32)
    order[moved] = moved[_random.permutation(seed, len(moved), stream + 1)]
    return order

"""Row permutations that balance the load of GPU warps, bring rows that share columns together, or both.

The nine permutations of Mehrabi et al., "Learning Sparse Matrix Row Permutations for Efficient SpMM on GPU
Architectures" (2021), Section III, ``"none"``, and orders that find locality in large matrices. Everywhere
``perm[new] = old``: the permuted matrix is ``A[perm]``, and its row `p` is processed by warp ``p % warps``
(Section II-B).

A permutation depends on the sparsity pattern and the geometry alone, and the orders for locality on the pattern
alone: every tie is broken, in the end by the original row index, and the number of threads does not matter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom import _core
from warploom._csr import CSR
from warploom._device import Device
from warploom._device_matrix import device_arrays
from warploom._matrix import as_csr
from warploom._problem import make_problem
from warploom.errors import ParameterError

__all__ = ["apply", "compute", "family", "invert", "is_symmetric", "names", "paper_names", "searches", "summary"]


def names() -> tuple[str, ...]:
    """Names of all row permutations.

    Returns
    -------
    tuple of str
        ``"none"`` first, then in the order of Section III of the paper, then those for locality.
    """
    return tuple(_core.permutation_names())


def paper_names() -> tuple[str, ...]:
    """Names of the row permutations of Mehrabi et al. (2021), and ``"none"``.

    Returns
    -------
    tuple of str
        ``"none"`` first, then in the order of Section III.
    """
    return tuple(name for name in names() if family(name) != "locality")


def family(name: str) -> str:
    """Say what a permutation is good for.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    {"none", "load", "cache lines", "load and cache lines", "locality"}
        Whether it balances the load of the warps, lets rows that share cache lines run at the same time, or brings
        rows that share columns near each other in matrices of any size.

    Raises
    ------
    ParameterError
        There is no permutation of that name.
    """
    text: str = _core.permutation_family(name)
    return text


def is_symmetric(name: str) -> bool:
    """Whether a permutation is good for the columns of a square matrix too, as in `warploom.reorder`.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    bool

    Raises
    ------
    ParameterError
        There is no permutation of that name.
    """
    found: bool = _core.permutation_is_symmetric(name)
    return found


def summary(name: str) -> str:
    """Say in one sentence what a permutation does.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    str

    Raises
    ------
    ParameterError
        There is no permutation of that name.
    """
    text: str = _core.permutation_summary(name)
    return text


def searches(name: str) -> bool:
    """Whether a permutation searches for nearest rows, which takes far longer than sorting.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    bool

    Raises
    ------
    ParameterError
        There is no permutation of that name.
    """
    found: bool = _core.permutation_searches(name)
    return found


def compute(
    name: str,
    A: Any,
    *,
    warps: int = 32,
    threads: int = 32,
    elements_per_cache_line: int = 32,
    device: str | None = None,
) -> npt.NDArray[np.int32]:
    """Compute a row permutation of a sparse matrix.

    Two properties of a row count (Sections II-C and III-B of the paper). Its *warp load* is
    ``ceil(nonzeros / threads)``, the steps a warp needs for it. Its *cache mask* has bit `b` set if the row
    has a nonzero in columns ``[b * L, (b + 1) * L)``, ``L = elements_per_cache_line``; the distance of two
    rows is the Hamming distance of their masks. Stored zeros and duplicates count as nonzeros.

    - ``"none"``: the caller's order.
    - ``"plain"`` (III-A): rows by decreasing warp load, so that long rows start first.
    - ``"flipped"`` (III-A): the same with every second group of `warps` rows reversed.
    - ``"lpt"`` (III-A): Longest Processing Time. Rows in decreasing warp load, each to the warp with the
      smallest load so far *that still has a free position* (warp `w` owns the positions
      ``w, w + warps, ...`` and fills them in order); among equals the lowest warp.
    - ``"warp-aware"`` (III-B): the `warps` rows of lowest warp load, then always the remaining row nearest to
      the one `warps` positions earlier.
    - ``"cta-aware"`` (III-B): the row of lowest warp load, then always the remaining row nearest to the one
      just before.
    - ``"hybrid-1"`` (III-C): ``"lpt"``; of all rows of the load that comes next, position `p` takes the one
      nearest to the row at ``p - 1``, or at ``p + 1`` if ``p - 1`` is free, or the first if both are.
    - ``"hybrid-2.1"`` (III-C): ``"cta-aware"``; of equally near rows the one of lowest warp load.
    - ``"hybrid-2.2"`` (III-C): ``"cta-aware"``; of equally near rows the one nearest to the row `warps`
      positions earlier, if there is one.
    - ``"hybrid-2.3"`` (III-C): ``"warp-aware"``; of equally near rows the one of lowest warp load.

    The others do not depend on the geometry. Those on graphs take that of ``A + A.T`` without its diagonal if `A` is
    square, and else the bipartite graph of rows and columns, whose columns they leave out in the end.

    - ``"rcm"``: reverse Cuthill-McKee [1]_, from the farthest node from the lowest one of each component [2]_.
    - ``"community"``: communities within communities, each a contiguous range [3]_. They are found by moving rows to
      the neighbouring cluster of the largest gain of modularity [4]_.
    - ``"minhash"``: rows by their MinHash signatures [5]_, which brings equal and similar ones together.
    - ``"degree"``: rows in eight classes of decreasing degree, each in the caller's order [6]_.

    Parameters
    ----------
    name : str
        One of `names`.
    A : sparse matrix, shape (m, n)
        Whatever `warploom.plan` takes. Indices may be unsorted and may repeat. Values are not read.
    warps : int
        Warps per thread block, N_w in the paper.
    threads : int
        Threads per warp, N_t in the paper.
    elements_per_cache_line : int
        Consecutive columns of `A` that need one cache line of a column of B.
    device : str, optional
        Where it is computed, ``"cpu"`` or ``"cuda"``: by default on the GPU that `A` is on, or else on the CPU. The
        result is the same. GPUs compute those by load and for locality, for fewer than 2^31 nonzeros; the CPU computes
        the others, whatever the device.

    Returns
    -------
    ndarray of int32, shape (m,)
        ``perm[new] = old``, in host memory.

    Raises
    ------
    ParameterError
        There is no permutation of that name, or `warps`, `threads` or `elements_per_cache_line` is below 1.
    InvalidMatrixError
        The arrays of `A` do not form a CSR matrix.
    DeviceError
        There is no such GPU.

    Notes
    -----
    The nearest row is found exactly. For the cache-aware and hybrid permutations the time is at most
    proportional to the sum, over the column blocks of one cache line, of the squared number of distinct masks
    that use the block (or, for blocks that most masks use, that do not). Rows of equal mask cost no search.

    References
    ----------
    .. [1] Cuthill, McKee, "Reducing the bandwidth of sparse symmetric matrices", 1969.
    .. [2] George, Liu, "An implementation of a pseudoperipheral node finder", 1979.
    .. [3] Arai et al., "Rabbit order: just-in-time parallel reordering for fast graph analysis", 2016.
    .. [4] Blondel et al., "Fast unfolding of communities in large networks", 2008.
    .. [5] Broder, "On the resemblance and containment of documents", 1997.
    .. [6] Faldu, Diamond, Grot, "A closer look at lightweight graph reordering", 2019.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from warploom import permutations
    >>> A = sp.csr_array(np.array([[1, 0, 0], [1, 1, 1], [0, 0, 0]]))
    >>> perm = permutations.compute("plain", A, threads=1)  # the longest row first; perm[new] = old
    >>> perm.tolist()
    [1, 0, 2]
    """
    geometry = (
        _geometry_int("warps", warps),
        _geometry_int("threads", threads),
        _geometry_int("elements_per_cache_line", elements_per_cache_line),
    )
    return _computing(A, device)(name, *geometry)


def _computing(
    A: Any, device: str | None = None, known: _core.CsrView | None = None
) -> Callable[..., npt.NDArray[np.int32]]:
    """Return a function of a name and the geometry that computes permutations of a matrix, brought there once.

    `known` is the view of its pattern in host memory, where there is one already.
    """
    gpu = _gpu_of(A) if device is None else Device.parse(device)

    @functools.cache
    def resident() -> _core.DeviceCsr | None:
        if gpu is None or gpu.kind == "cpu":
            return None
        there = A if _gpu_of(A) == gpu else _pattern(view())
        problem = make_problem(there, "spmv", 1, None, "column", "warm", gpu)
        return problem.resident() if problem.nnz < 2**31 else None

    @functools.cache
    def view() -> _core.CsrView:
        return as_csr(A, pattern_only=True) if known is None else known

    def compute(name: str, warps: int = 32, threads: int = 32, elements: int = 32) -> npt.NDArray[np.int32]:
        there = resident() if _core.permutation_runs_on_gpu(name) else None
        perm: npt.NDArray[np.int32] = (
            _core.compute_permutation(name, view(), warps, threads, elements)
            if there is None
            else _core.compute_permutation_on_gpu(name, there, warps, threads, elements)
        )
        return perm

    return compute


def _pattern(view: _core.CsrView) -> CSR:
    """Return a matrix in host memory with zeros for values, which no permutation reads."""
    return CSR(view.indptr, view.indices, np.zeros(len(view.indices), np.float16), view.shape)


def _gpu_of(A: Any) -> Device | None:
    found = device_arrays(A)
    return None if found is None else Device("cuda", found.device)


def invert(perm: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Invert a row permutation.

    Parameters
    ----------
    perm : array_like of int, shape (m,)
        ``perm[new] = old``.

    Returns
    -------
    ndarray of int32, shape (m,)
        ``inverse[old] = new``.

    Raises
    ------
    ParameterError
        `perm` does not hold 0, ..., m - 1 once each; `position` is the first bad position.
    """
    inverse: npt.NDArray[np.int32] = _core.invert_permutation(_as_int32(perm))
    return inverse


def apply(A: Any, perm: npt.ArrayLike) -> scipy.sparse.csr_array:
    """Permute the rows of a sparse matrix.

    Parameters
    ----------
    A : scipy.sparse matrix or array, shape (m, n)
    perm : array_like of int, shape (m,)
        ``perm[new] = old``.

    Returns
    -------
    scipy.sparse.csr_array, shape (m, n)
        ``A[perm]``. The entries of a row keep their order; duplicates stay. Its arrays are its own.

    Raises
    ------
    ParameterError
        `perm` does not hold 0, ..., m - 1 once each; `position` is the first bad position.
    InvalidMatrixError
        The arrays of `A` do not form a matrix.
    """
    view, values = _pattern_and_values(A)
    perm = _as_int32(perm)
    _core.validate_permutation(perm, view.shape[0])
    lengths = np.diff(view.indptr)[perm]
    indptr = np.zeros_like(view.indptr)
    np.cumsum(lengths, out=indptr[1:])
    # Entry j of the result comes from where its row started in A, plus its place in the row.
    source = np.repeat(view.indptr[perm] - indptr[:-1], lengths) + np.arange(indptr[-1], dtype=indptr.dtype)
    return scipy.sparse.csr_array((values[source], view.indices[source], indptr), shape=view.shape)


def _pattern_and_values(A: Any) -> tuple[_core.CsrView, npt.NDArray[Any]]:
    """Validate a matrix, and return its values in the type that they have."""
    view = as_csr(A, pattern_only=True)  # first: SciPy converts formats without looking where their indices lead
    if not scipy.sparse.issparse(A) or A.dtype == np.float16:  # SciPy does not convert float16
        view = as_csr(A)
        return view, np.asarray(view.data)
    if A.format != "csr":
        A = A.tocsr()
        view = as_csr(A, pattern_only=True)
    return view, np.asarray(A.data)


def _geometry_int(name: str, value: int) -> int:
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        raise ParameterError(f"{name} must be an integer, got {value!r}", argument=name) from None
    largest = np.iinfo(np.int32).max
    if not 1 <= number <= largest:
        raise ParameterError(f"{name} must be between 1 and {largest}, got {number}", argument=name)
    return number


def _as_int32(perm: npt.ArrayLike) -> npt.NDArray[np.int32]:
    try:
        array = np.asarray(perm)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"perm is not an array: {error}", argument="perm") from error
    if array.ndim != 1:
        raise ParameterError(f"perm must be one-dimensional, got {array.ndim} dimensions", argument="perm")
    if array.size == 0:
        return np.empty(0, dtype=np.int32)
    if not np.issubdtype(array.dtype, np.integer):
        raise ParameterError(f"perm must hold integers, got {array.dtype}", argument="perm")
    beyond = (array < 0) | (array >= array.size)
    if beyond.any():
        first = int(np.argmax(beyond))
        raise ParameterError(f"perm[{first}] = {array[first]} is not a row", argument="perm", position=first)
    return np.require(array, dtype=np.int32, requirements=["C_CONTIGUOUS", "ALIGNED"])

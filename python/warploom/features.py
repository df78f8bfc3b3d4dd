"""Features of a matrix for the predictors: numbers computed from its sparsity pattern alone.

Two sets, each from the paper whose predictor uses it: `spmm` (24 features, Mehrabi et al. 2021) and `spmv`
(eleven, Gao et al. 2024). Stored entries count as nonzeros whatever their value, and each of several entries
at the same place counts. All features are finite, also for matrices without rows, columns or nonzeros.

Features are computed where the matrix is: a CSR tensor of PyTorch or a CSR matrix of CuPy in GPU memory is read there,
on the caller's current stream, and only the results come to the host. They are the same as on the host: minima and
maxima exactly, means to the last bit, variances to 1e-12 of their value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warploom import _core
from warploom._device_matrix import device_arrays
from warploom._matrix import as_csr

__all__ = ["FeatureVector", "column_vectors", "locality", "names", "sets", "spmm", "spmv"]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class FeatureVector:
    """The features of one matrix, in the order in which a predictor takes them.

    Parameters
    ----------
    set : str
        The feature set, ``"spmm"``, ``"spmv"``, ``"locality"`` or ``"column_vectors"``.
    values : ndarray of float64
        One value for each name of the set; becomes read-only.
    """

    set: str
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        self.values.flags.writeable = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return names(self.set)

    def as_dict(self) -> dict[str, float]:
        """Return the features by name, as Python floats."""
        return dict(zip(self.names, self.values.tolist(), strict=True))

    def as_array(self) -> NDArray[np.float64]:
        """Return a fresh float64 array of the features."""
        return self.values.copy()

    def __getitem__(self, name: str) -> float:
        """Return the feature called `name`."""
        try:
            return float(self.values[self.names.index(name)])
        except ValueError:
            raise KeyError(name) from None

    def __len__(self) -> int:
        """Return the number of features."""
        return len(self.values)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, as a mapping does."""
        return iter(self.names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FeatureVector):
            return NotImplemented
        return self.set == other.set and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.set, self.values.tobytes()))

    def __repr__(self) -> str:
        width = max(map(len, self.names))
        lines = (f"    {name:<{width}}  {value:.6g}" for name, value in self.as_dict().items())
        return "\n".join([f"FeatureVector({self.set!r}, {len(self)} features)", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{value:.6g}</td></tr>"
            for name, value in self.as_dict().items()
        )
        return f"<table><caption>{escape(self.set)} features</caption><tbody>{rows}</tbody></table>"


def sets() -> tuple[str, ...]:
    """Return the names of the feature sets that predictors take."""
    known: tuple[str, ...] = _core.feature_set_names()
    return known


def names(set: str) -> tuple[str, ...]:
    """Return the names of the features of a set, in their order.

    Parameters
    ----------
    set : str
        One of `sets()`, ``"locality"`` or ``"column_vectors"``.
    """
    if set == "locality":
        return _core.locality_feature_names()
    if set == "column_vectors":
        return _core.column_vector_feature_names()
    of_set: tuple[str, ...] = _core.feature_names(set)
    return of_set


def spmm(A: Any, *, warps: int = 32, threads: int = 32, elements_per_cache_line: int = 32) -> FeatureVector:
    """Compute the 24 features that predict the best row permutation for SpMM.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        Anything `warploom` takes as a matrix; only its pattern is read.
    warps : int
        N_w, warps of a thread block. Row i is processed by warp i mod N_w.
    threads : int
        N_t, threads of a warp.
    elements_per_cache_line : int
        L, consecutive elements of a column of B in one cache line.

    Returns
    -------
    FeatureVector

    Raises
    ------
    InvalidMatrixError, ShapeError, DtypeError, IndexOverflowError
        If `A` is malformed or of an unsupported type.
    ParameterError
        If `warps`, `threads` or `elements_per_cache_line` is below 1.
    DeviceError, OutOfMemoryError
        If the work on a GPU fails.

    Notes
    -----
    The features of Table II of Mehrabi et al. [1]_. Those called ``*_{min,mean,max}`` are three.

    ``num_rows``, ``num_cols``
        m and n.
    ``density``
        nnz / (m n); 0 if m or n is 0, and above 1 where entries repeat.
    ``nnz_per_row_{min,mean,max}``
        Nonzeros of a row, across rows.
    ``nnz_blocks_per_row_{min,mean,max}``
        Blocks of N_w consecutive columns (the first starts at column 0) with a nonzero in the row, across
        rows.
    ``warp_load_{min,mean,max}``
        Steps of a warp: the sum of ceil(nonzeros / N_t) over its rows, across the N_w warps.
    ``same_cache_lines_{min,mean,max}``
        Requests for a cache line, across lines. A request is a pair of a row and a line that holds at least
        one of its columns.
    ``distinct_cache_lines_per_warp_{min,mean,max}``
        Lines requested by at least one row of a warp, across warps.
    ``total_cache_lines_per_warp_{min,mean,max}``
        Requests of all rows of a warp, across warps.
    ``adjacent_vector_distance_{min,mean,max}``
        Lines requested by exactly one of the rows i and i + 1 (the Hamming distance of their bit masks),
        across the m - 1 pairs.

    The paper leaves some cases open. Here a column of B has ceil(n / L) cache lines, and those that no row
    requests count, with 0 requests; warps without a row count, with load and lines 0; without rows,
    columns or pairs of rows, min, mean and max are 0.

    The cost is one pass over ``indptr`` and ``indices``; memory is 16 bytes for each cache line and thread,
    with N_w up to 64. On a GPU it is 8 bytes for each cache line and row, and 4 more for each row unless N_w = L;
    columns that do not ascend within rows are sorted in a copy and counted again, and with N_w above 32 the pattern
    is downloaded to the host.

    References
    ----------
    .. [1] Mehrabi, Lee, Chatterjee, Sorin, Lee, O'Connor, "Learning sparse matrix row permutations for
       efficient SpMM on GPU architectures", ISPASS 2021.

    Examples
    --------
    >>> import warploom as wl
    >>> vector = wl.features.spmm(wl.examples.load("gr_30_30"))
    >>> len(vector.as_dict()), vector["warp_load_max"]
    (24, 29.0)
    """
    return _features("spmm", A, warps=warps, threads=threads, elements_per_cache_line=elements_per_cache_line)


def column_vectors(A: Any) -> FeatureVector:
    """Compute what neighbouring rows have in common, and so whether SpMM on tensor cores pays off.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        Anything `warploom` takes as a matrix; only its pattern is read. One in GPU memory is downloaded.

    Returns
    -------
    FeatureVector

    Raises
    ------
    InvalidMatrixError, ShapeError, DtypeError, IndexOverflowError
        If `A` is malformed or of an unsupported type.

    Notes
    -----
    For windows of 8 and of 16 neighbouring rows, whose nonzeros of one column are a column vector. All are 0 without
    nonzeros; entries that repeat are counted each.

    ``vectors_per_nonzero_{8,16}``
        Rows of B that a product reads for each nonzero: 1 where rows have nothing in common.
    ``density_{8,16}``
        Nonzeros per place of the vectors.
    ``single_vectors_{8,16}``
        Share of the vectors that have one nonzero.
    ``dense_windows_{8,16}``
        Share of the nonzeros in windows of at most one vector for every third nonzero.
    """
    return FeatureVector("column_vectors", _core.compute_column_vector_features(as_csr(A, pattern_only=True)))


def locality(A: Any) -> FeatureVector:
    """Compute what the order of the rows has of locality, and what another one could gain.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        Anything `warploom` takes as a matrix; only its pattern is read. One in GPU memory is downloaded.

    Returns
    -------
    FeatureVector

    Raises
    ------
    InvalidMatrixError, ShapeError, DtypeError, IndexOverflowError
        If `A` is malformed or of an unsupported type.

    Notes
    -----
    All but one are shares, and 0 where there is nothing to count. They come from samples at fixed places and passes
    over the column indices, and do not depend on the number of threads.

    ``columns_per_nonzero_{32,1024,16384}``
        Distinct columns per nonzero within windows of so many rows: rows of B that SpMM has to fetch.
    ``sectors_per_nonzero_{32,1024,16384}``
        Distinct sectors of four columns, 32 bytes of a float64 vector: what SpMV has to fetch.
    ``reused_within_{1024,16384,262144}``
        Nonzeros whose sector was used by one of so many nonzeros before. Followed for some of the sectors [1]_.
    ``first_uses``
        Nonzeros whose sector was not used before.
    ``mean_distance``, ``mean_span``
        Mean distance of a nonzero from the diagonal, and of the first from the last column of a row, over n.
    ``adjacent_overlap``
        Columns that adjacent rows have in common, of those that the shorter one has.
    ``hidden_overlap``
        The same for rows that use a column one after the other, wherever they are, without that column: high where an
        order could bring similar rows together, near 0 in random matrices. For the columns of 4,096 nonzeros; of a row,
        256 nonzeros around the common column are compared. -1, not measured, below 10^6 nonzeros. Models of SpMV and
        SpMM may take this one, which plans compute on the GPU.
    ``hub_share``
        Nonzeros in the 4,096 columns used most.

    References
    ----------
    .. [1] Waldspurger, Park, Garthwaite, Ahmad, "Efficient MRC construction with SHARDS", FAST 2015.
    """
    return FeatureVector("locality", _core.compute_locality_features(as_csr(A, pattern_only=True)))


def spmv(A: Any) -> FeatureVector:
    """Compute the eleven features that predict the best number of threads per row for SpMV.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        Anything `warploom` takes as a matrix; only its row lengths are read.

    Returns
    -------
    FeatureVector

    Raises
    ------
    InvalidMatrixError, ShapeError, DtypeError, IndexOverflowError
        If `A` is malformed or of an unsupported type. Column indices in GPU memory are not read.
    DeviceError
        If the work on a GPU fails.

    Notes
    -----
    The features of Table 2 of Gao et al. [1]_, with the paper's symbol in parentheses.

    ``num_rows`` (m), ``num_cols`` (n), ``nnz`` (nnz)
        Rows, columns and nonzeros.
    ``density`` (d)
        nnz / (m n); 0 if m or n is 0, and above 1 where entries repeat.
    ``nnz_per_row_min`` (min), ``nnz_per_row_max`` (max), ``nnz_per_row_mean`` (mean)
        Nonzeros of a row, across rows; 0 without rows.
    ``nnz_per_row_var`` (var)
        Population variance of the nonzeros of a row: the mean of (nonzeros - mean)^2, divided by m and not by
        m - 1.
    ``nnz_per_row_max_minus_mean`` (max_mu)
        max - mean.
    ``sqrt_nnz_per_row_mean`` (SqMean)
        Square root of the mean.
    ``nnz_per_row_cov`` (cov)
        Coefficient of variation, sqrt(var) / mean, without unit; 0 if the mean is 0. The paper says
        "covariance", computed in O(1); a single variable has no covariance but its variance, which is listed
        already, so we take it to mean the coefficient of variation.

    References
    ----------
    .. [1] Gao, Ji, Liu, Wang, Shi, "Revisiting thread configuration of SpMV kernels on GPU: A machine
       learning based approach", Journal of Parallel and Distributed Computing, 2024.

    Examples
    --------
    >>> import warploom as wl
    >>> vector = wl.features.spmv(wl.examples.load("gr_30_30"))
    >>> vector["nnz"], vector["nnz_per_row_max"]
    (7744.0, 9.0)
    """
    return _features("spmv", A)


def _features(set: str, A: Any, **geometry: int) -> FeatureVector:
    """Compute the features of a set where the matrix is."""
    on_gpu = device_arrays(A)
    if on_gpu is None:
        return FeatureVector(set, _core.compute_features(set, as_csr(A, pattern_only=True), **geometry))
    values = _core.compute_features_of_arrays(
        set,
        on_gpu.device,
        on_gpu.indptr,
        on_gpu.indptr_itemsize,
        on_gpu.indices,
        on_gpu.indices_itemsize,
        on_gpu.num_indices,
        *on_gpu.shape,
        on_gpu.stream,
        **geometry,
    )
    return FeatureVector(set, values)

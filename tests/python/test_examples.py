"""The matrices that ship with the package are those that their names say."""

import numpy as np
import pytest
import scipy.sparse

from warploom import errors, examples
from warploom._matrix import as_csr

SIZES = {
    # name: (rows, nonzeros); the first three as the SuiteSparse collection lists them
    "gr_30_30": (900, 7744),
    "mycielskian10": (767, 44392),
    "Trefethen_2000": (2000, 41906),
    "poisson_64": (4096, 5 * 4096 - 4 * 64),
    "zipf_4096": (4096, sum(max(1, 2048 // rank) for rank in range(1, 4097))),
    "arrow_4096": (4096, 3 * 4096 - 2),
    "hypersparse_16384": (16384, 2048),
}


def test_every_example_has_an_expected_size():
    assert set(examples.names()) == set(SIZES)


@pytest.mark.parametrize("name", examples.names())
def test_sizes(name):
    A = examples.load(name)
    rows, nnz = SIZES[name]
    assert isinstance(A, scipy.sparse.csr_array)
    assert A.shape == (rows, rows)
    assert A.nnz == nnz
    assert A.dtype == np.float64
    assert A.has_canonical_format
    assert np.count_nonzero(A.data) == nnz
    assert as_csr(A).nnz == nnz
    assert examples.describe(name)


@pytest.mark.parametrize("name", examples.names())
def test_the_same_in_every_call(name):
    first, second = examples.load(name), examples.load(name)
    for array in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(first, array), getattr(second, array))
    first.data[:] = 0  # does not spoil the next caller's
    assert np.count_nonzero(examples.load(name).data) == second.nnz


@pytest.mark.parametrize("name", ["gr_30_30", "poisson_64", "mycielskian10", "Trefethen_2000", "arrow_4096"])
def test_symmetric(name):
    A = examples.load(name)
    assert abs(A - A.T).max() == 0


def test_grids():
    A = examples.load("gr_30_30")
    assert np.all(A.diagonal() == 8)
    assert A.sum(axis=1).min() == 0  # inner points
    assert A.sum(axis=1).max() == 5  # corners
    A = examples.load("poisson_64")
    assert np.all(A.diagonal() == 4)
    assert set(np.diff(A.indptr)) == {3, 4, 5}


def test_mycielskian_has_no_triangle():
    A = examples.load("mycielskian10").toarray()
    assert not np.any(A.diagonal())
    assert not np.any((A @ A) * A)


def test_trefethen():
    A = examples.load("Trefethen_2000")
    assert list(A.diagonal()[[0, 1, 2, 1999]]) == [2, 3, 5, 17389]
    block = A[:20, :20].toarray()
    distance = np.abs(np.subtract.outer(np.arange(20), np.arange(20)))
    np.testing.assert_array_equal(block - np.diag(block.diagonal()), np.isin(distance, [1, 2, 4, 8, 16]))


def test_shapes_of_the_skewed_ones():
    lengths = np.diff(examples.load("zipf_4096").indptr)
    assert lengths.max() == 2048
    assert np.median(lengths) == 1
    lengths = np.diff(examples.load("hypersparse_16384").indptr)
    assert np.count_nonzero(lengths) == 1024
    lengths = np.diff(examples.load("arrow_4096").indptr)
    assert (lengths.max(), lengths.min()) == (4096, 2)


def test_unknown_name():
    with pytest.raises(errors.ParameterError, match="known: gr_30_30") as caught:
        examples.load("nope")
    assert caught.value.argument == "name"

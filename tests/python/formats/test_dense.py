"""A dense matrix as a format. Its products on the CPU are tested with those of all SpMM kernels."""

import numpy as np
import pytest
from hypothesis import given
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import battery, typed
from products import assert_product, operand, widened
from round_trips import DTYPES, assert_round_trip, koza_2_1
from strategies import csr_matrices
from warploom import _bfloat16
from warploom.errors import ParameterError
from warploom.formats import Dense

CUBLAS = "spmm/none/dense/cublas"


def test_the_matrix_of_koza():
    stored = Dense.from_csr(koza_2_1())
    assert stored.leading_dimension == 6
    np.testing.assert_array_equal(stored.data[:, :5], koza_2_1().toarray())
    assert not stored.data[:, 5:].any()
    assert stored.nbytes == 5 * (6 * 8 + 4)
    assert stored.places == 30


@pytest.mark.parametrize(
    ("dtype", "columns", "leading"),
    [("float32", 511, 512), ("float32", 513, 544), ("float64", 255, 256), ("float64", 257, 272)],
)
def test_long_rows_begin_on_cache_lines(dtype, columns, leading):
    stored = Dense.from_csr(csr_array((3, columns), dtype=dtype))
    assert stored.leading_dimension == leading


@given(A=csr_matrices(dtypes=DTYPES))
def test_arrays(A):
    stored = Dense.from_csr(A)
    m, n = A.shape
    assert stored.data.shape[0] == m
    assert n <= stored.leading_dimension
    assert stored.leading_dimension * stored.data.itemsize % 16 == 0
    entries = {(i, int(j)) for i in range(m) for j in A.indices[A.indptr[i] : A.indptr[i + 1]]}
    bits = [(i, 32 * w + b) for i in range(m) for w in range(stored.occupied.shape[1]) for b in range(32)]
    assert {(i, j) for i, j in bits if stored.occupied[i, j // 32] >> (j % 32) & 1} == entries
    expected = np.zeros((m, stored.leading_dimension))
    for i in range(m):
        for j, value in zip(
            A.indices[A.indptr[i] : A.indptr[i + 1]], widened(A.data[A.indptr[i] : A.indptr[i + 1]]), strict=True
        ):
            # Every sum is rounded.
            total = np.array([expected[i, j] + value])
            expected[i, j] = widened(_bfloat16.cast(total, A.data.dtype))[0]
    np.testing.assert_allclose(widened(stored.data), expected, rtol=2 * _bfloat16.eps_of(A.data.dtype), atol=1e-30)


@pytest.mark.parametrize("name", [name for name in battery(np.float32) if "duplicates" not in name])
def test_round_trip_of_the_battery(name):
    A = battery(np.float32)[name]
    stored = Dense.from_csr(A)
    A.sort_indices()
    assert_round_trip(stored, A)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_products_are_those_of_scipy(dtype):
    kind = _bfloat16.as_dtype(dtype)
    A = typed(csr_array(random_array((203, 150), density=0.1, rng=np.random.default_rng(0), format="csr")), kind)
    for layout in ("row", "column"):
        for k in (1, 7, 100):
            B = operand((150, k), kind, layout)
            plan = wl.plan(A, k=k, layout=layout, device="cpu", select=CUBLAS)
            assert_product(A, B, plan @ B)


def test_repeated_entries_are_added_up_where_that_rounds_as_the_product_does():
    A = csr_array((np.array([1.0, 2.0, 4.0]), [0, 0, 1], [0, 3]), shape=(1, 2))
    np.testing.assert_array_equal(wl.spmm(A, np.eye(2), candidate=CUBLAS, device="cpu"), [[3.0, 4.0]])


def test_what_is_refused():
    ones = csr_array((np.ones(3), [0, 0, 1], [0, 3]), shape=(1, 2))
    ones.data = ones.data.astype(np.float16)
    with pytest.raises(ParameterError, match="would add repeated entries"):
        wl.plan(ones, k=4, device="cpu", select=CUBLAS)
    with pytest.raises(ParameterError, match="does not take a row permutation"):
        wl.plan(csr_array(np.eye(3)), k=4, device="cpu", select="spmm/lpt/dense/cublas")
    places = 64
    for dtype in (np.float16, np.float32, np.float64):
        rows = np.arange(4096)
        A = typed(csr_array((np.ones(4096), (rows, rows % places)), shape=(4096, places)), dtype)
        how = {"k": 4, "device": "cpu", "select": CUBLAS}
        wl.plan(A, **how)
        with pytest.raises(ParameterError, match=r"would store \d+ entries for 2048 nonzeros"):
            wl.plan(csr_array((A.data[:2048], A.indices[:2048], np.minimum(A.indptr, 2048)), shape=A.shape), **how)
    with pytest.raises(ParameterError, match="more than 8 GiB"):
        Dense.from_csr(csr_array((2**20, 2**20)))

"""Column vectors: the format. Its products on the CPU are tested with those of all SpMM kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import sampled_from
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import battery, typed
from products import assert_product, operand, widened
from round_trips import DTYPES, assert_round_trip, koza_2_1
from strategies import csr_matrices
from warploom import _bfloat16
from warploom.errors import ParameterError
from warploom.formats import ColumnVectors

TENSOR_CORE = "spmm/none/column-vectors/tensor_core"


def evaluated(stored, B):
    """Multiply by what the arrays say, in float64."""
    m, rows = stored.shape[0], stored.vector_rows
    C = np.zeros((-(-m // rows) * rows, B.shape[1]))
    for window, (begin, end) in enumerate(zip(stored.indptr, stored.indptr[1:], strict=False)):
        products = widened(stored.data[begin:end]).T @ widened(B)[stored.indices[begin:end]]
        C[rows * window : rows * (window + 1)] = products
    return C[:m]


def exact_product(A, B):
    return csr_array((widened(A.data), A.indices, A.indptr), shape=A.shape) @ widened(B)


def test_the_matrix_of_koza():
    stored = ColumnVectors.from_csr(koza_2_1())
    dense = koza_2_1().toarray()
    assert stored.indptr.tolist() == [0, 5]
    assert stored.indices.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(stored.data[:, :5].T, dense)
    assert not stored.data[:, 5:].any()
    assert stored.nbytes == 2 * 8 + 5 * (4 + 8 * 8 + 8)


@given(A=csr_matrices(dtypes=DTYPES), rows=sampled_from([8, 16]))
def test_arrays(A, rows):
    stored = ColumnVectors.from_csr(A, vector_rows=rows)
    assert stored.vector_rows == rows
    assert stored.data.shape == (len(stored.indices), rows)
    for window in range(len(stored.indptr) - 1):
        begin, end = A.indptr[rows * window], A.indptr[min(rows * (window + 1), A.shape[0])]
        columns = stored.indices[stored.indptr[window] : stored.indptr[window + 1]]
        assert columns.tolist() == sorted(set(A.indices[begin:end].tolist()))
    B = np.random.default_rng(0).standard_normal((A.shape[1], 3))
    np.testing.assert_allclose(evaluated(stored, B), exact_product(A, B), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [8, 16])
@pytest.mark.parametrize("name", [name for name in battery(np.float32) if "duplicates" not in name])
def test_round_trip_of_the_battery(name, rows):
    A = battery(np.float32)[name]
    stored = ColumnVectors.from_csr(A, vector_rows=rows)
    A.sort_indices()
    assert_round_trip(stored, A)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_are_those_of_scipy(dtype):
    kind = _bfloat16.as_dtype(dtype)
    A = typed(csr_array(random_array((203, 150), density=0.3, rng=np.random.default_rng(0), format="csr")), kind)
    for k in (1, 7, 32, 100):
        B = operand((150, k), kind, "row")
        for rows in (8, 16):
            stored = ColumnVectors.from_csr(A, vector_rows=rows)
            np.testing.assert_allclose(evaluated(stored, B), exact_product(A, B), rtol=1e-12, atol=1e-12)
        for permutation in ("none", "lpt", "plain"):
            name = TENSOR_CORE.replace("none", permutation)
            assert_product(A, B, wl.spmm(A, B, candidate=name, device="cpu"))
            assert_product(A, B, wl.spmm(A, B, candidate=f"{name}[vector_rows=16]", device="cpu"))


def test_what_is_refused():
    with pytest.raises(ParameterError, match="vector_rows"):
        ColumnVectors.from_csr(csr_array(np.eye(3)), vector_rows=4)
    with pytest.raises(ParameterError, match="vector_rows"):
        wl.plan(typed(csr_array(np.eye(3)), np.float16), k=4, device="cpu", select=f"{TENSOR_CORE}[vector_rows=32]")
    ones = csr_array((np.ones(3, np.float16), [0, 0, 1], [0, 3]), shape=(1, 2))
    ones.data = ones.data.astype(np.float16)
    with pytest.raises(ParameterError, match="would add repeated entries"):
        wl.plan(ones, k=4, device="cpu", select=TENSOR_CORE)
    with pytest.raises(ParameterError, match="does not work on float32"):
        wl.plan(csr_array(np.eye(3, dtype=np.float32)), k=4, device="cpu", select=TENSOR_CORE)
    scattered = typed(csr_array(random_array((4000, 4000), density=1e-3, rng=np.random.default_rng(0))), np.float16)
    with pytest.raises(ParameterError, match=r"would store \d+ entries"):
        wl.plan(scattered, k=4, device="cpu", select=TENSOR_CORE)

"""Vectors and other rows in one: the format. Its products on the CPU are tested with those of all SpMM kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import battery, typed
from products import assert_product, operand, widened
from round_trips import DTYPES, assert_round_trip
from strategies import csr_matrices
from warploom import _bfloat16
from warploom.errors import ParameterError
from warploom.formats import HybridVectors

TENSOR_CORE = "spmm/none/hybrid-vectors/tensor_core"
TF32 = TENSOR_CORE + "_tf32"


def both_kinds(dtype, windows=40, n=150, seed=0):
    """Windows whose rows are alike and windows whose rows are not, in turn; the last has five rows."""
    rng = np.random.default_rng(seed)
    rows = []
    for window in range(windows):
        shared = rng.choice(n, rng.integers(1, 30), replace=False)
        for _ in range(8):
            own = shared if window % 2 else rng.choice(n, rng.integers(0, 5), replace=False)
            rows.append(np.sort(own[rng.random(len(own)) < 0.8]))
    rows = rows[:-3]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    indices = np.concatenate(rows).astype(np.int32)
    return typed(csr_array((rng.standard_normal(len(indices)), indices, indptr), shape=(len(rows), n)), dtype)


@given(A=csr_matrices(max_rows=40, dtypes=DTYPES), least=st.integers(1, 8))
def test_windows_are_divided_by_their_nonzeros_per_vector(A, least):
    stored = HybridVectors.from_csr(A, nonzeros_per_vector=least)
    expected = []
    for first in range(0, A.shape[0], 8):
        last = min(first + 8, A.shape[0])
        rows = [A.indices[A.indptr[row] : A.indptr[row + 1]].tolist() for row in range(first, last)]
        vectors, nonzeros = len({column for row in rows for column in row}), sum(map(len, rows))
        repeats = any(len(set(row)) < len(row) for row in rows)
        if vectors > 0 and nonzeros >= least * vectors and not repeats:
            expected.extend(range(first, last))
    assert stored.vector_rows.tolist() == expected
    assert stored.other_rows.tolist() == sorted(set(range(A.shape[0])) - set(expected))
    assert stored.nonzeros_per_vector == least
    assert stored.vectors.shape == (len(expected), A.shape[1])
    assert stored.nnz == stored.vectors.nnz + stored.others.nnz == A.nnz


@pytest.mark.parametrize("name", list(battery(np.float32)))
def test_round_trip_of_the_battery(name):
    A = battery(np.float32)[name]
    stored = HybridVectors.from_csr(A, nonzeros_per_vector=8)
    if len(stored.vector_rows) == 0:  # else entries are in the order of their columns
        assert_round_trip(stored, A)
    A.sort_indices()
    assert_round_trip(HybridVectors.from_csr(A), A)


def test_nonzeros_per_vector_are_checked():
    for wrong in (0, 9):
        with pytest.raises(ParameterError, match="must be 1 to 8"):
            HybridVectors.from_csr(csr_array(np.eye(3)), nonzeros_per_vector=wrong)
    with pytest.raises(ParameterError, match="nonzeros_per_vector"):
        wl.plan(both_kinds(np.float16), k=4, device="cpu", select=TENSOR_CORE + "[nonzeros_per_vector=5]")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_are_those_of_scipy(dtype):
    kind = _bfloat16.as_dtype(dtype)
    A = both_kinds(kind)
    stored = HybridVectors.from_csr(A)
    assert 0 < len(stored.vector_rows) < A.shape[0]
    for k in (1, 7, 32, 100):
        for layout in ("row", "column"):
            B = operand((150, k), kind, layout)
            for permutation in ("none", "lpt", "plain"):
                for parameters in (
                    "",
                    "[nonzeros_per_vector=4]",
                    "[nonzeros_per_vector=6,segment_length=32,launches=2]",
                ):
                    name = TENSOR_CORE.replace("none", permutation) + parameters
                    assert_product(A, B, wl.spmm(A, B, candidate=name, device="cpu", layout=layout))


def test_tf32_rounds_operands_of_vectors_only():
    """Rows of the other windows are multiplied in float32."""
    A = both_kinds(np.float32)
    B = operand((150, 33), np.float32, "row")
    stored = HybridVectors.from_csr(A)
    C = wl.spmm(A, B, candidate=TF32, device="cpu")
    assert_product(A, B, C, precision="tf32")
    others = stored.other_rows
    exact = (A.astype(np.float64) @ B.astype(np.float64))[others]
    bound = 30 * 2.0**-23 * (abs(A.astype(np.float64)) @ abs(B.astype(np.float64)))[others]
    assert (abs(C[others] - exact) <= bound).all()
    vectors = stored.vector_rows
    assert (abs(C[vectors] - (A.astype(np.float64) @ B.astype(np.float64))[vectors])).max() > bound.max()


def test_what_repeats_and_what_is_scattered_is_not_refused():
    ones = typed(csr_array((np.ones(3), [0, 0, 1], [0, 3]), shape=(1, 2)), np.float16)
    B = operand((2, 4), np.float16, "row")
    assert_product(ones, B, wl.spmm(ones, B, candidate=TENSOR_CORE, device="cpu"))
    scattered = typed(csr_array(random_array((4000, 4000), density=1e-3, rng=np.random.default_rng(0))), np.float16)
    assert len(HybridVectors.from_csr(scattered).vector_rows) == 0
    B = operand((4000, 4), np.float16, "row")
    assert_product(scattered, B, wl.spmm(scattered, B, candidate=TENSOR_CORE, device="cpu"))


def test_new_values_and_a_stored_plan(tmp_path):
    A = both_kinds(np.float16)
    plan = wl.plan(A, k=16, device="cpu", select=TENSOR_CORE, updatable=True)
    other = typed(csr_array((widened(A.data)[::-1].copy(), A.indices, A.indptr), shape=A.shape), np.float16)
    plan.update_values(other.data)
    B = operand((150, 16), np.float16, "row")
    assert_product(other, B, plan @ B)
    plan = wl.plan(A, k=16, device="cpu", select=TENSOR_CORE + "[nonzeros_per_vector=3]")
    plan.save(tmp_path / "plan")
    loaded = wl.load_plan(tmp_path / "plan", A)
    assert loaded.candidate == plan.candidate
    np.testing.assert_array_equal(loaded @ B, plan @ B)

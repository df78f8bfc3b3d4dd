"""HYB: the format and its product on the CPU."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from battery import battery
from round_trips import DTYPES, assert_round_trip, assert_spmv, koza_2_1, spmv
from strategies import csr_matrices
from warploom.errors import ParameterError
from warploom.formats import HYB


def reference_width(lengths):
    """Return the largest width that enough rows fill, tried one after the other."""
    m = len(lengths)
    enough = max(m // 3, 4096) if m >= 4096 else max(m // 3, 1)
    return max((k for k in range(max(lengths, default=0) + 1) if np.sum(lengths >= k) >= enough), default=0)


def matrix_of_lengths(lengths):
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([np.arange(length) for length in lengths])
    return scipy.sparse.csr_array((np.arange(1.0, len(indices) + 1), indices, indptr), shape=(len(lengths), 40))


def test_the_matrix_of_the_paper_at_width_two():
    stored = HYB.from_csr(koza_2_1(), width=2)
    assert stored.ell.indices.tolist() == [[0, 3], [1, 4], [2, 4], [2, 3], [4, -1]]
    assert stored.ell.data.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [10, 0]]
    assert (stored.coo.row_indices.tolist(), stored.coo.indices.tolist(), stored.coo.data.tolist()) == ([3], [4], [9])
    assert (stored.width, stored.nnz, stored.places) == (2, 10, 11)
    assert stored.padding_ratio == pytest.approx(0.1)
    assert stored.nbytes == 10 * 12 + 16
    assert_round_trip(stored, koza_2_1())


@pytest.mark.parametrize(
    ("lengths", "width"),
    [
        ([0] * 2904 + [2] * 5000 + [7] * 4096 + [9] * 3, 7),
        ([0] * 2904 + [2] * 5000 + [7] * 4095 + [9] * 1, 7),
        ([0] * 2904 + [2] * 5000 + [7] * 4095, 2),
        ([1] * 30_000 + [4] * 15_000, 4),
        ([1] * 30_003 + [4] * 14_997, 1),
        ([1, 1, 1, 1, 5, 5], 5),
        ([0, 0, 0, 0, 0, 5], 0),
    ],
)
def test_the_width_of_bell_and_garland(lengths, width):
    A = matrix_of_lengths(lengths)
    assert reference_width(np.array(lengths)) == width
    assert HYB.from_csr(A).width == width
    assert_round_trip(HYB.from_csr(A), A)


@given(A=csr_matrices(dtypes=DTYPES, allow_nonfinite=True), width=st.integers(0, 30))
def test_split_and_round_trip(A, width):
    stored = HYB.from_csr(A, width=width)
    lengths = np.diff(A.indptr)
    assert stored.width == min(width or reference_width(lengths), max(lengths, default=0))
    np.testing.assert_array_equal(np.sum(stored.ell.indices >= 0, axis=1), np.minimum(lengths, stored.width))
    beyond = [j for i in range(A.shape[0]) for j in range(A.indptr[i] + stored.width, A.indptr[i + 1])]
    np.testing.assert_array_equal(stored.coo.indices, A.indices[beyond])
    np.testing.assert_array_equal(stored.coo.data, A.data[beyond])
    assert stored.places == stored.ell.places + stored.coo.nnz
    assert_round_trip(stored, A)


def test_parts_outlive_the_matrix():
    coo = HYB.from_csr(koza_2_1(), width=2).coo
    assert coo.to_csr().toarray()[3].tolist() == [0, 0, 0, 0, 9]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", battery(np.float32))
def test_the_battery(name, dtype):
    A = battery(dtype)[name]
    assert_round_trip(HYB.from_csr(A), A)
    assert_spmv(A, "hyb/fused")


@given(A=csr_matrices(max_rows=80, dtypes=DTYPES), width=st.sampled_from([0, 1, 2, 8]))
def test_products(A, width):
    assert_spmv(A, "hyb/fused", width=width)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_padding_does_not_meet_x(special):
    A = scipy.sparse.csr_array(np.array([[0, 1.0, 2.0], [0, 0, 3.0], [0, 0, 0]]))
    assert spmv(A, "hyb/fused", [special, 1, 1], width=2).tolist() == [3, 3, 0]


def test_bad_width():
    with pytest.raises(ParameterError, match="width must not be negative, got -1") as caught:
        HYB.from_csr(koza_2_1(), width=-1)
    assert caught.value.argument == "width"

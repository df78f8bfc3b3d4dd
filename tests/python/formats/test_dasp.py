"""DASP against the text of Lu and Liu 2023, Sec. 3.2, and products through it on the CPU."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from battery import battery
from products import assert_product, magnitudes, operand, prepare_product
from strategies import csr_matrices
from warploom import _core
from warploom._matrix import as_csr
from warploom.errors import InvalidMatrixError, ParameterError
from warploom.formats import DASP

DTYPES = [np.float16, np.float32, np.float64]
CATEGORIES = ["long", "medium", "short_1_3", "short_2_2", "short_4", "short_1", "empty"]


def with_lengths(lengths, num_cols=40, dtype=np.float64):
    """Return a matrix whose rows have these lengths; entries are numbered from 1, columns count down."""
    indptr = np.cumsum([0, *lengths])
    indices = np.concatenate([np.arange(n)[::-1] for n in lengths] or [[]]).astype(np.int32)
    return scipy.sparse.csr_array(
        (np.arange(1, indptr[-1] + 1, dtype=dtype), indices, indptr), shape=(len(lengths), num_cols)
    )


def matrices(dtype):
    """Return the battery in a value type that SciPy may not convert to (float16)."""
    named = battery(np.float32 if dtype == np.float16 else dtype)
    for A in named.values():
        A.data = A.data.astype(dtype)
    return named


def entries(A, row):
    return list(
        zip(A.indices[A.indptr[row] : A.indptr[row + 1]], A.data[A.indptr[row] : A.indptr[row + 1]], strict=True)
    )


def reference(A, m, k, max_length, threshold):
    """Lists of slots (column, value) by section and the order of the rows, following the paper's text."""
    lengths = np.diff(A.indptr)
    rows = {n: [i for i in range(A.shape[0]) if lengths[i] == n] for n in range(5)}
    pad = (-1, 0)
    sections = {name: [] for name in ("long", "regular", "combined", "single", "irregular")}
    group_ptr, block_ptr, irregular_ptr = [0], [0], [0]

    long = [i for i in range(A.shape[0]) if lengths[i] > max_length]
    for i in long:
        groups = math.ceil(lengths[i] / (2 * m * k))
        group_ptr.append(group_ptr[-1] + groups)
        sections["long"] += entries(A, i) + [pad] * (groups * 2 * m * k - lengths[i])

    medium = sorted((i for i in range(A.shape[0]) if 4 < lengths[i] <= max_length), key=lambda i: -lengths[i])
    for first in range(0, len(medium), m):
        left = [entries(A, i) for i in medium[first : first + m]]
        blocks = 0
        while sum(len(row[:k]) for row in left) > max(0, m * k * threshold):
            for row in left + [[]] * (m - len(left)):
                sections["regular"] += row[:k] + [pad] * (k - len(row[:k]))
            left = [row[k:] for row in left]
            blocks += 1
        block_ptr.append(block_ptr[-1] + blocks)
        for row in left:
            sections["irregular"] += row
            irregular_ptr.append(irregular_ptr[-1] + len(row))

    pairs = min(len(rows[1]), len(rows[3])) // m * m
    order = long + medium
    for one, three in zip(rows[1][:pairs], rows[3][:pairs], strict=True):
        sections["combined"] += entries(A, one) + entries(A, three)
        order += [one, three]
    for first in range(0, len(rows[2]), 2):
        both = rows[2][first : first + 2]
        sections["combined"] += [*chain(*(entries(A, i) for i in both)), pad, pad][:4]
        order += [*both, -1][:2]
    for i in rows[4] + rows[3][pairs:]:
        sections["combined"] += [*entries(A, i), pad][:4]
        order.append(i)
    for i in rows[1][pairs:]:
        sections["single"] += entries(A, i)
        order.append(i)
    return sections, order + rows[0], group_ptr, block_ptr, irregular_ptr


def assert_as_in_paper(stored, A):
    options = (stored.mma_m, stored.mma_k, stored.max_length, stored.threshold)
    sections, order, group_ptr, block_ptr, irregular_ptr = reference(A, *options)
    slots = list(chain(*sections.values()))
    assert stored.row_ids.tolist() == order
    assert stored.group_ptr.tolist() == group_ptr
    assert stored.block_ptr.tolist() == block_ptr
    assert stored.irregular_ptr.tolist() == irregular_ptr
    assert stored.indices.tolist() == [column for column, _ in slots]
    np.testing.assert_array_equal(stored.data, np.array([value for _, value in slots], dtype=A.dtype))
    starts = np.cumsum([0, *map(len, sections.values())])[:-1]
    assert stored.section_starts == dict(zip(sections, starts.tolist(), strict=True))


def assert_same_matrix(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    assert found.data.tobytes() == expected.data.tobytes()


#: As far as the text describes the 20 x 20 matrix of Fig. 5: blocks of 2 x 4, long rows that take two groups of 16
#: in all, medium rows with and without an irregular rest, and all four kinds of short rows.
FIG_5 = [2, 1, 9, 3, 0, 6, 4, 1, 16, 5, 3, 2, 8, 1, 14, 3, 2, 7, 3, 1]


def test_fig_5():
    A = with_lengths(FIG_5, 20)
    stored = DASP.from_csr(A, mma_m=2, mma_k=4, max_length=9)
    assert_as_in_paper(stored, A)
    assert stored.group_ptr.tolist() == [0, 1, 2]
    # Rows of 9 and 8, of 7 and 6, and of 5 entries alone: 8 of 8, 8 of 8 | 1 of 8; 8 of 8 | 5 of 8; 4 of 8.
    assert stored.row_ids[2:7].tolist() == [2, 12, 17, 5, 9]
    assert stored.block_ptr.tolist() == [0, 2, 3, 3]
    assert stored.irregular_ptr.tolist() == [0, 1, 1, 4, 6, 11]
    assert stored.row_ids[7:].tolist() == [1, 3, 7, 10, 13, 15, 19, 18, 0, 11, 16, -1, 6, 4]
    assert stored.categories == {
        "long": (2, 30, 2),
        "medium": (5, 35, 0),
        "short_1_3": (8, 16, 0),
        "short_2_2": (3, 6, 2),
        "short_4": (1, 4, 0),
        "short_1": (0, 0, 0),
        "empty": (1, 0, 0),
    }
    assert stored.padding_ratio == 4 / 91
    assert_same_matrix(stored.to_csr(), A)


def test_a_block_is_stored_when_more_than_threshold_is_filled():
    exactly = with_lengths([7] * 8)  # the second block has 24 = 0.75 * 32 entries
    more = with_lengths([8] + [7] * 7)
    assert DASP.from_csr(exactly).block_ptr.tolist() == [0, 1]
    assert DASP.from_csr(more).block_ptr.tolist() == [0, 2]
    assert DASP.from_csr(exactly, threshold=0.74).block_ptr.tolist() == [0, 2]
    assert DASP.from_csr(with_lengths([8] * 8), threshold=1).block_ptr.tolist() == [0, 0]
    assert DASP.from_csr(with_lengths([5]), threshold=0).block_ptr.tolist() == [0, 2]


def test_rows_of_max_length_are_medium_and_longer_ones_long():
    stored = DASP.from_csr(with_lengths([256, 257], 300))
    assert stored.row_ids.tolist() == [1, 0]
    assert stored.categories["long"] == (1, 257, 63)  # five groups of 64
    assert stored.group_ptr.tolist() == [0, 5]


def test_ones_and_threes_are_combined_by_whole_blocks():
    stored = DASP.from_csr(with_lengths([1, 3] * 11))
    sizes = {name: category.rows for name, category in stored.categories.items() if category.rows}
    assert sizes == {"short_1_3": 16, "short_4": 3, "short_1": 3}
    assert stored.categories["short_4"].padding == 3


@given(
    csr_matrices(dtypes=DTYPES, max_rows=30, max_cols=15),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(4, 20),
    st.sampled_from([0, 0.3, 0.5, 0.75, 1]),
)
def test_arrays_are_those_of_the_paper(A, m, k, max_length, threshold):
    stored = DASP.from_csr(A, mma_m=m, mma_k=k, max_length=max_length, threshold=threshold)
    assert_as_in_paper(stored, A)
    assert sum(category.rows for category in stored.categories.values()) == A.shape[0]
    assert sum(category.nnz for category in stored.categories.values()) == A.nnz
    assert sum(category.padding for category in stored.categories.values()) == np.sum(stored.indices < 0)


@given(csr_matrices(dtypes=DTYPES, max_rows=30, allow_nonfinite=True), st.sampled_from([4, 8, 256]))
def test_round_trip(A, max_length):
    stored = DASP.from_csr(A, max_length=max_length)
    assert_same_matrix(stored.to_csr(), A)
    assert stored.nnz == len(A.indices)
    assert stored.padding_ratio == ((len(stored.indices) - A.nnz) / A.nnz if A.nnz else 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip_of_the_battery(dtype):
    for A in matrices(dtype).values():
        assert_same_matrix(DASP.from_csr(A).to_csr(), A)
        assert_as_in_paper(DASP.from_csr(A, max_length=16), A)


def test_face():
    stored = DASP.from_csr(with_lengths([2, 6], dtype=np.float32))
    assert stored.name == "dasp"
    assert stored.shape == (2, 40)
    assert stored.dtype == np.float32
    assert (stored.mma_m, stored.mma_k, stored.max_length, stored.threshold) == (8, 4, 256, 0.75)
    assert list(stored.categories) == CATEGORIES
    pointers = len(stored.group_ptr) + len(stored.block_ptr) + len(stored.irregular_ptr)
    assert stored.nbytes == 8 * pointers + 4 * len(stored.row_ids) + (4 + 4) * len(stored.indices)
    for array in (
        stored.row_ids,
        stored.group_ptr,
        stored.block_ptr,
        stored.irregular_ptr,
        stored.indices,
        stored.data,
    ):
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("name", "value"),
    [("mma_m", 0), ("mma_k", 0), ("mma_m", 1025), ("max_length", 3), ("threshold", -0.1), ("threshold", np.nan)],
)
def test_parameters_out_of_range_are_refused(name, value):
    with pytest.raises(ParameterError, match=name) as raised:
        DASP.from_csr(with_lengths([1]), **{name: value})
    assert raised.value.argument == name


def test_pattern_without_values_is_refused():
    pattern = _core.CsrView(np.array([0, 1]), np.array([0], dtype=np.int32), None, 1, 1)
    with pytest.raises(InvalidMatrixError, match="without values"):
        DASP.from_csr(pattern)


# ----- products on the CPU -----


def multiply(A, kernel, x, **parameters):
    plan = prepare_product("spmv", as_csr(A), "dasp", kernel, 1, "row", parameters, None, -1)
    y = np.full((A.shape[0], 1), np.nan, dtype=A.dtype)
    plan.run_host(x.reshape(-1, 1), y)
    return y.ravel()


def assert_close(A, x, y):
    exact = A.astype(np.float64) @ x.astype(np.float64)
    scale = magnitudes(A) @ abs(x.astype(np.float64))
    sum_eps = np.finfo(np.float32 if A.dtype == np.float16 else A.dtype).eps
    bound = sum_eps * (np.diff(A.indptr) + 2) * scale + np.finfo(A.dtype).eps * abs(exact)
    assert np.all(abs(y.astype(np.float64) - exact) <= bound)


@pytest.mark.parametrize("kernel", ["tensor_core", "cuda_core"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("max_length", [64, 256])
def test_product(kernel, dtype, max_length):
    if kernel == "tensor_core" and dtype == np.float32:
        with pytest.raises(Exception, match="float32"):
            multiply(with_lengths([1], dtype=dtype), kernel, np.ones(40, dtype=dtype))
        return
    for name, A in matrices(dtype).items():
        x = operand((A.shape[1],), dtype, "row")
        y = multiply(A, kernel, x, max_length=max_length)
        if name == "nan inf":
            expected = A.astype(np.float64) @ x.astype(np.float64)
            np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
            np.testing.assert_array_equal(y[np.isinf(expected)], expected[np.isinf(expected)])
        else:
            assert_close(A, x, y)


@given(csr_matrices(dtypes=DTYPES, max_rows=40))
def test_product_of_integers_is_exact(A):
    x = np.arange(1.0, A.shape[1] + 1).astype(A.dtype)
    expected = (A.astype(np.float64) @ x.astype(np.float64)).astype(A.dtype)
    np.testing.assert_array_equal(multiply(A, "cuda_core", x), expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_padding_is_not_multiplied(bad):
    lengths = [1, 2, 3, 6, 7, 40]
    A = with_lengths(lengths)
    A.indices[A.indices == 0] = 1  # nobody refers to x[0]
    x = np.ones(40)
    x[0] = bad
    assert np.all(np.isfinite(multiply(A, "tensor_core", x, max_length=64)))
    assert_product(A, np.nan_to_num(x, posinf=0)[:, None], multiply(A, "tensor_core", x)[:, None])


def test_the_number_of_threads_does_not_matter():
    A = scipy.sparse.random_array((3000, 200), density=0.1, rng=np.random.default_rng(0), format="csr")
    A = scipy.sparse.csr_array(A)
    x = operand((200,), np.float64, "row")
    try:
        results = []
        for count in (1, 3):
            _core.set_num_threads(count)
            results.append((DASP.from_csr(A).data.tobytes(), multiply(A, "cuda_core", x).tobytes()))
    finally:
        _core.set_num_threads(0)
    assert results[0] == results[1]

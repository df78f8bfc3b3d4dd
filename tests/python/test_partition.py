"""Threads per row and the partition into blocks of long and short rows, against what the paper prints."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from strategies import csr_matrices
from warploom.errors import ParameterError
from warploom.partition import RowPartition, partition_rows, threads_per_row_mean, threads_per_row_square_mean


def rows_of(lengths, num_cols=None):
    indptr = np.cumsum([0, *lengths])
    num_cols = max(lengths, default=0) if num_cols is None else num_cols
    indices = np.concatenate([np.arange(length) for length in lengths] or [[]]).astype(np.int32)
    return csr_array((np.ones(len(indices)), indices, indptr), shape=(len(lengths), num_cols))


def evenly(num_rows, nnz):
    """Return rows as even as they can be: `nnz` nonzeros in `num_rows` rows."""
    lengths = np.full(num_rows, nnz // num_rows)
    lengths[: nnz % num_rows] += 1
    return rows_of(lengths)


# Formulas (1) and (2).


def mean_by_the_formula(m, nnz):
    mean = math.ceil(Fraction(nnz, m)) if m else 0
    return min(2 ** math.ceil(math.log2(mean)), 32) if mean else 1


def square_mean_by_the_formula(m, nnz):
    root = math.ceil(math.sqrt(nnz / m)) if m else 0
    return min(2 ** math.ceil(math.log2(root)), 32) if root else 1


# Rows and nonzeros as in the SuiteSparse Matrix Collection; TpR_mean and TpR_SqMean of Table 1.
TABLE_1 = {
    "mk12-b2": (13860, 41580, 4, 2),
    "rd450l": (450, 2580, 8, 2),
    "n2c6-b7": (3990, 31920, 8, 2),
    "hcircuit": (105676, 513072, 4, 2),
}
# Where the table is not what the formulas give as they are printed, what they do give: ceil(4.86) = 5 threads become 8,
# and the roots of 5.73, 8 and 4.86 round up to 3, which becomes 4.
MEAN_DIFFERS = {"hcircuit": 8}
SQUARE_MEAN_DIFFERS = {"rd450l": 4, "n2c6-b7": 4, "hcircuit": 4}


@pytest.mark.parametrize("name", TABLE_1)
def test_formulas_on_the_matrices_of_table_1(name):
    rows, nnz, mean, square_mean = TABLE_1[name]
    A = evenly(rows, nnz)
    assert threads_per_row_mean(A) == MEAN_DIFFERS.get(name, mean)
    assert threads_per_row_square_mean(A) == SQUARE_MEAN_DIFFERS.get(name, square_mean)


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_formulas_for_every_mean_up_to_where_they_stop_growing(rows):
    for nnz in range(1100 * rows // 3):
        A = evenly(rows, nnz)
        assert threads_per_row_mean(A) == mean_by_the_formula(rows, nnz)
        assert threads_per_row_square_mean(A) == square_mean_by_the_formula(rows, nnz)


def test_formulas_stop_at_32():
    assert threads_per_row_mean(evenly(2, 66)) == 32
    assert threads_per_row_square_mean(evenly(1, 1024)) == 32
    assert threads_per_row_square_mean(evenly(1, 1025)) == 32


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (5, 5)])
def test_formulas_without_nonzeros(shape):
    assert threads_per_row_mean(csr_array(shape)) == 1
    assert threads_per_row_square_mean(csr_array(shape)) == 1


# Algorithm 1.


def algorithm_1(csr_row, t_long):
    """Run the paper's pseudocode line by line; Python's integers hold any number of bits."""
    m = len(csr_row) - 1
    n_blk, sum_nnz, row_blk, nnz_blk, is_long = 0, 0, {0: 0}, {}, 0
    last_is_long = int(csr_row[1] - csr_row[0] >= t_long)
    for r in range(m):
        cur_nnz = csr_row[r + 1] - csr_row[r]
        sum_nnz += cur_nnz
        if cur_nnz >= t_long and not last_is_long:
            row_blk[n_blk + 1] = r
            nnz_blk[n_blk] = sum_nnz - cur_nnz
            sum_nnz = cur_nnz
            n_blk += 1
            last_is_long = 1
        if cur_nnz < t_long and last_is_long:
            row_blk[n_blk + 1] = r
            nnz_blk[n_blk] = sum_nnz - cur_nnz
            is_long += 2**n_blk
            sum_nnz = cur_nnz
            n_blk += 1
            last_is_long = 0
    row_blk[n_blk + 1] = m
    nnz_blk[n_blk] = sum_nnz
    if last_is_long:
        is_long += 2**n_blk
    n_blk += 1
    return list(row_blk.values()), list(nnz_blk.values()), [bool(is_long >> i & 1) for i in range(n_blk)]


def as_lists(blocks):
    return blocks.row_block.tolist(), blocks.nnz_block.tolist(), blocks.is_long.tolist()


def check_partition(lengths, long_row):
    A = rows_of(lengths)
    assert as_lists(partition_rows(A, long_row=long_row)) == algorithm_1(A.indptr.tolist(), long_row)


@given(st.lists(st.integers(0, 6), min_size=1), st.integers(1, 7))
def test_partition_is_algorithm_1(lengths, long_row):
    check_partition(lengths, long_row)


def test_partition_has_more_blocks_than_an_integer_has_bits():
    check_partition([0, 3] * 500, 2)
    assert len(partition_rows(rows_of([0, 3] * 500), long_row=2)) == 1000


def test_partition_of_one_kind_of_row_is_one_block():
    check_partition([4] * 9, 4)
    check_partition([4] * 9, 5)


@pytest.mark.parametrize("num_cols", [0, 4])
def test_partition_without_rows_has_no_blocks(num_cols):
    assert as_lists(partition_rows(csr_array((0, num_cols)))) == ([0], [], [])


@given(csr_matrices())
def test_partition_covers_the_rows(A):
    blocks = partition_rows(A, long_row=3)
    assert blocks.row_block[0] == 0
    assert blocks.row_block[-1] == A.shape[0]
    assert np.all(np.diff(blocks.row_block) > 0)
    assert blocks.nnz_block.sum() == A.nnz


@pytest.mark.parametrize("long_row", [0, -5])
def test_partition_needs_a_threshold(long_row):
    with pytest.raises(ParameterError, match="long_row must be at least 1") as caught:
        partition_rows(rows_of([1]), long_row=long_row)
    assert caught.value.argument == "long_row"


# Equation (3).


def equation_3(blocks, total):
    long_rows = sum(int(n) for n, is_long in zip(np.diff(blocks.row_block), blocks.is_long, strict=True) if is_long)
    long_nnz = int(blocks.nnz_block[blocks.is_long].sum())
    nnz = int(blocks.nnz_block.sum())
    shares = []
    for i, is_long in enumerate(blocks.is_long):
        if is_long:
            shares.append(int(blocks.row_block[i + 1] - blocks.row_block[i]))
        else:
            left = max(total - long_rows, 0)
            part = Fraction(int(blocks.nnz_block[i]) * left, nnz - long_nnz) if nnz > long_nnz else Fraction(0)
            shares.append(max(math.floor(part), 1))
    return shares


@given(st.lists(st.integers(0, 6), min_size=1), st.integers(1, 7), st.integers(0, 3000))
def test_thread_blocks_are_equation_3(lengths, long_row, total):
    blocks = partition_rows(rows_of(lengths), long_row=long_row)
    assert blocks.thread_blocks(total).tolist() == equation_3(blocks, total)


def test_thread_blocks_of_a_worked_example():
    # Three blocks: 6 short nonzeros, two long rows, 2 short nonzeros. Of 10 thread blocks 2 go to the long rows.
    blocks = partition_rows(rows_of([3, 3, 9, 9, 2]), long_row=9)
    assert blocks.thread_blocks(10).tolist() == [6, 2, 2]


@pytest.mark.parametrize("total", [-1, 2**31])
def test_thread_blocks_refuses_a_total_out_of_range(total):
    with pytest.raises(ParameterError) as caught:
        RowPartition(np.array([0]), np.array([], dtype=int), np.array([], dtype=bool)).thread_blocks(total)
    assert caught.value.argument == "total"

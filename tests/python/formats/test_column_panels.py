"""Column panels: arrays, round trip, errors, and products through them on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from battery import battery
from products import assert_product, prepare_product, reason_against
from strategies import csr_matrices
from warploom import set_num_threads
from warploom._matrix import as_csr
from warploom.errors import ParameterError
from warploom.formats import ColumnPanels

DTYPES = [np.float16, np.float32, np.float64]
TILE = 256
# Two columns a panel, an empty row, a row in both panels, duplicates, and one row that ends a panel.
ROWS = [[(1, 1.0), (3, 2.0)], [], [(0, 4.0), (1, 5.0), (0, 6.0)], [(2, 3.0)]]


def example(dtype=np.float64):
    indptr = np.cumsum([0, *map(len, ROWS)])
    indices = [column for row in ROWS for column, _ in row]
    data = np.array([value for row in ROWS for _, value in row], dtype)
    return scipy.sparse.csr_array((data, indices, indptr), shape=(4, 4))


def by_panel(A, width):
    """For every panel its (row, column, value) in the order of the rows, with Python's stable sort."""
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)).tolist()
    entries = list(zip(rows, A.indices.tolist(), A.data, strict=True))
    return [[e for e in entries if e[1] // width == p] for p in range(-(-A.shape[1] // width))]


def check_arrays(A, width):
    stored = ColumnPanels.from_csr(A, panel_columns=width)
    panels = by_panel(A, width)
    ends = np.unpackbits(stored.row_ends, bitorder="little")
    assert len(stored.panel_ptr) == len(panels) + 1
    assert len(stored.columns) == len(stored.data) == len(ends) == stored.panel_ptr[-1]
    sums = 0
    masks = np.zeros((-(-A.shape[0] // 32), len(panels)), np.uint32)
    firsts = np.zeros_like(masks, dtype=np.int32)
    for p, entries in enumerate(panels):
        begin, end = stored.panel_ptr[p : p + 2]
        assert end - begin == -(-len(entries) // TILE) * TILE
        columns, data = stored.columns[begin:end], stored.data[begin:end]
        assert columns[: len(entries)].tolist() == [column - p * width for _, column, _ in entries]
        np.testing.assert_array_equal(data[: len(entries)], np.array([v for *_, v in entries], A.dtype))
        assert (columns[len(entries) :] == width).all()
        assert (data[len(entries) :] == 0).all()
        rows = [row for row, *_ in entries]
        expected_ends = [i + 1 == len(rows) or rows[i + 1] != rows[i] for i in range(len(rows))]
        assert ends[begin:end].tolist() == expected_ends + [0] * (end - begin - len(rows))
        present = sorted(set(rows))
        for block in range(len(masks)):
            firsts[block, p] = sums + sum(row < 32 * block for row in present)
            masks[block, p] = sum(1 << row % 32 for row in present if row // 32 == block)
        sums += len(present)
    np.testing.assert_array_equal(stored.row_masks, masks)
    np.testing.assert_array_equal(stored.first_sums, firsts)
    places = sum(-(-len(entries) // TILE) * TILE for entries in panels)
    assert stored.padding_ratio == ((places - A.nnz) / A.nnz if A.nnz else 0)
    arrays = (stored.panel_ptr, stored.columns, stored.data, stored.row_ends, stored.row_masks, stored.first_sums)
    assert stored.nbytes == sum(array.nbytes for array in arrays)


def check_round_trip(A, width):
    stored = ColumnPanels.from_csr(A, panel_columns=width)
    found = stored.to_csr()
    assert found.shape == A.shape
    assert found.dtype == stored.dtype == A.dtype
    assert stored.nnz == len(A.indices)
    np.testing.assert_array_equal(found.indptr, A.indptr)
    entries = [
        (row, column, value) for panel in by_panel(A, width) for row, column, value in panel
    ]  # a row's entries are in panel order already
    entries.sort(key=lambda entry: entry[0])
    assert found.indices.tolist() == [column for _, column, _ in entries]
    expected = np.array([value for *_, value in entries], A.dtype)
    assert found.data.tobytes() == expected.tobytes()


def multiply(A, x, panel_kb=1):
    y = np.full((A.shape[0], 1), np.nan, x.dtype)
    arguments = (as_csr(A), "column-panels", "shared_x", 1, "column", {"panel_kb": panel_kb}, None)
    assert reason_against("spmv", *arguments) == ""
    prepare_product("spmv", *arguments, -1).run_host(x[:, None], y)
    return y


@pytest.mark.parametrize("dtype", DTYPES)
def test_example(dtype):
    stored = ColumnPanels.from_csr(example(dtype), panel_columns=2)
    assert stored.panel_ptr.tolist() == [0, 256, 512]
    assert stored.columns[:5].tolist() == [1, 0, 1, 0, 2]
    assert stored.columns[256:259].tolist() == [1, 0, 2]
    assert stored.data[:5].tolist() == [1, 4, 5, 6, 0]
    assert stored.data.dtype == dtype
    assert np.flatnonzero(np.unpackbits(stored.row_ends, bitorder="little")).tolist() == [0, 3, 256, 257]
    assert stored.row_masks.tolist() == [[0b0101, 0b1001]]
    assert stored.first_sums.tolist() == [[0, 2]]
    assert stored.padding_ratio == (512 - 6) / 6
    assert stored.to_csr().indices.tolist() == [1, 3, 0, 1, 0, 2]


@given(A=csr_matrices(dtypes=DTYPES, allow_nonfinite=True), width=st.integers(1, 14))
def test_any_matrix(A, width):
    check_arrays(A, width)
    check_round_trip(A, width)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", battery(np.float32))
def test_battery(name, dtype):
    A = battery(dtype)[name]
    for width in (1, 7, 64, 65535):
        check_arrays(A, width)
        check_round_trip(A, width)


def irregular(dtype, m=20_000, n=9_000):
    """Rows from none to thousands of nonzeros, enough for several ranges of rows."""
    rng = np.random.default_rng(7)
    lengths = np.minimum(n, (rng.pareto(1.1, m) * 4).astype(np.int64))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = (n * rng.random(indptr[-1]) ** 2).astype(np.int32)
    return scipy.sparse.csr_array((rng.standard_normal(indptr[-1]).astype(dtype), indices, indptr), shape=(m, n))


def test_result_does_not_depend_on_threads():
    A = irregular(np.float64)
    x = np.random.default_rng(8).standard_normal(A.shape[1])
    found = []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            stored = ColumnPanels.from_csr(A, panel_columns=1000)
            arrays = (stored.columns, stored.data, stored.row_ends, stored.row_masks, stored.first_sums)
            found.append([array.tobytes() for array in (*arrays, stored.to_csr().data, multiply(A, x, panel_kb=16))])
    finally:
        set_num_threads(0)
    assert found[0] == found[1] == found[2]


def test_large_matrix():
    A = irregular(np.float32)
    found = ColumnPanels.from_csr(A, panel_columns=1000).to_csr()
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    order = np.lexsort((np.arange(A.nnz), A.indices // 1000, rows))
    np.testing.assert_array_equal(found.indptr, A.indptr)
    np.testing.assert_array_equal(found.indices, A.indices[order])
    np.testing.assert_array_equal(found.data, A.data[order])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("panel_kb", [1, 16, 224])
def test_products(panel_kb, dtype):
    for A in [*battery(dtype).values(), irregular(dtype)]:
        if A.shape[1] * A.data.itemsize > 64 * 1024 * panel_kb:
            continue
        x = np.random.default_rng(1).uniform(0.5, 1, A.shape[1]).astype(dtype)
        assert_product(A, x[:, None], multiply(A, x, panel_kb))


def test_too_many_columns_for_the_kernel():
    A = scipy.sparse.csr_array((3, 128 * 64 + 1))
    reason = reason_against("spmv", as_csr(A), "column-panels", "shared_x", 1, "column", {"panel_kb": 1}, None)
    assert "65 panels" in reason
    assert "too many columns" in reason


@pytest.mark.parametrize("panel_columns", [0, -1, 65536])
def test_bad_panel_columns(panel_columns):
    with pytest.raises(ParameterError, match=str(panel_columns)) as caught:
        ColumnPanels.from_csr(example(), panel_columns=panel_columns)
    assert caught.value.argument == "panel_columns"


def test_arrays_are_read_only():
    stored = ColumnPanels.from_csr(example())
    for array in (stored.panel_ptr, stored.columns, stored.data, stored.row_ends, stored.row_masks, stored.first_sums):
        assert not array.flags.writeable

"""Compressed-sell against a decoder that follows the description of the format, and products through it on the CPU."""

from __future__ import annotations

import gc
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from battery import battery
from products import assert_product, prepare_product, reason_against
from strategies import csr_matrices
from warploom import _core
from warploom._matrix import as_csr
from warploom.errors import DtypeError, InvalidMatrixError, ParameterError
from warploom.formats import CompressedSELL

DTYPES = [np.float16, np.float32, np.float64]
ROWS_PER_LANE = [1, 2, 4]
PARTS = [1, 2, 4, 8]
ENCODINGS = ["full_diagonal", "diagonal", "slot8", "slice16", "slot16", "delta8", "delta16", "plain"]
CODE = {"slot8": np.uint8, "delta8": np.uint8, "plain": np.uint32}  # the others: 16 bits


def from_rows(rows, num_cols, dtype=np.float32, seed=0):
    """Return the matrix with these columns in its rows and values that differ."""
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([column for row in rows for column in row], dtype=np.int32)
    data = np.random.default_rng(seed).uniform(0.5, 2, len(indices)).astype(dtype)
    return csr_array((data, indices, indptr), shape=(len(rows), num_cols))


def with_dtype(matrix, dtype):
    """Return the matrix with values of another type; SciPy itself knows no float16."""
    result = matrix.copy()
    result.data = result.data.astype(dtype)
    return result


def sorted_rows(matrix):
    """Return the entries of each row by ascending column, duplicates as they were."""
    rows = []
    for begin, end in itertools.pairwise(matrix.indptr):
        order = np.argsort(matrix.indices[begin:end], kind="stable")
        rows.append((matrix.indices[begin:end][order].tolist(), matrix.data[begin:end][order]))
    return rows


def assert_stores(stored, matrix):
    """Check to_csr, and the arrays through the decoder below."""
    returned = stored.to_csr()
    assert returned.shape == matrix.shape
    assert returned.data.dtype == matrix.data.dtype
    np.testing.assert_array_equal(returned.indptr, matrix.indptr)
    expected = sorted_rows(matrix)
    for found in (sorted_rows(returned), decode(stored)):
        for (columns, values), (expected_columns, expected_values) in zip(found, expected, strict=True):
            assert columns == expected_columns
            np.testing.assert_array_equal(values, expected_values)


def decode(stored):
    """Read the arrays as the class describes them: lists of columns and values, row after row."""
    height = 32 * stored.rows_per_lane
    bits = stored.data.view(f"u{stored.dtype.itemsize}").reshape(-1, height)
    values = stored.data.reshape(-1, height)
    rows = [([], []) for _ in range(stored.num_rows)]
    for index, (first_slot, slots_and_encoding, first_index, base) in enumerate(stored.segments.tolist()):
        num_slots, name = slots_and_encoding >> 3, ENCODINGS[slots_and_encoding & 7]
        raw = stored.indices[16 * first_index :]
        slot_bases = [base] * num_slots
        if "slot" in name or "diagonal" in name:
            padded = -(-num_slots // 8) * 8
            slot_bases, raw = raw[: 4 * padded].view(np.int32).tolist(), raw[4 * padded :]
        code_type = CODE.get(name, np.uint16)
        codes = [] if "diagonal" in name else raw[: num_slots * height * np.dtype(code_type).itemsize].view(code_type)
        for position in range(height):
            row = index // stored.parts * height + position
            place = position % 32 * stored.rows_per_lane + position // 32
            column = base
            for slot in range(num_slots):
                code = int(codes[slot * height + place]) if len(codes) else None
                filled = code != np.iinfo(code_type).max
                if name == "diagonal":
                    filled = raw[slot // 8 * height + place] >> slot % 8 & 1
                if "diagonal" in name:
                    column = slot_bases[slot] + position
                elif "delta" in name:
                    column += code if filled else int(bits[first_slot + slot, place])
                else:
                    column = slot_bases[slot] + code
                if filled:
                    target = rows[stored.row_ids[row] if len(stored.row_ids) else row]
                    target[0].append(column)
                    target[1].append(values[first_slot + slot, place])
    return [(columns, np.array(of_row, dtype=stored.dtype)) for columns, of_row in rows]


def multiply(matrix, x, **parameters):
    """y, written over NaN; None if the kernel refuses the matrix."""
    view = as_csr(matrix)
    arguments = ("compressed-sell", "vector", 1, "column", parameters, None)
    if reason_against("spmv", view, *arguments):
        return None
    y = np.full((matrix.shape[0], 1), np.nan, x.dtype)
    prepare_product("spmv", view, *arguments, -1).run_host(x.reshape(-1, 1), y)
    return y


def check_product(matrix, **parameters):
    """x is NaN or infinite where the matrix has no entry."""
    x = np.full(matrix.shape[1], np.nan, matrix.data.dtype)
    x[::3] = np.inf
    used = np.unique(matrix.indices)
    x[used] = np.random.default_rng(1).uniform(0.5, 1, len(used)).astype(x.dtype)
    y = multiply(matrix, x, **parameters)
    assert y is not None
    # The reference multiplies only stored entries, and so never reads the rest of x either.
    assert_product(matrix, x[:, None], y)


def used_encodings(stored):
    return {name for name, count in stored.encodings.items() if count}


# ---- The encodings, one matrix for each. 70 rows: the last slice is not full.


def stencil(width=10, height=7):
    rows = []
    for i, j in itertools.product(range(height), range(width)):
        near = [(i - 1, j), (i, j - 1), (i, j), (i, j + 1), (i + 1, j)]
        rows.append([a * width + b for a, b in near if 0 <= a < height and 0 <= b < width])
    return rows, width * height


def bands(rows=128):
    return [[i, i + 1, i + 5, i + 300] for i in range(rows)], rows + 300


def clusters(span, count=8, rows=70):
    """Slots whose columns span `span`, far apart from one another."""
    rng = np.random.default_rng(span)
    columns = rng.integers(0, span + 1, (rows, count)) + np.arange(count) * 3_000_000
    columns[0::32] = np.arange(count) * 3_000_000
    columns[1::32] = columns[0] + span
    return columns.tolist(), 3_000_000 * count


def spread(span, count=20, rows=70):
    """Rows whose columns lie anywhere in 0 .. span."""
    columns = np.sort(np.random.default_rng(span).integers(0, span + 1, (rows, count)), axis=1)
    columns[0::32, 0], columns[1::32, -1] = 0, span
    return columns.tolist(), span + 1


def gaps(widest, count=20, rows=70, extra=None):
    """Rows with gaps of up to `widest`, one of them of width `extra`."""
    rng = np.random.default_rng(widest)
    steps = rng.integers(0, widest + 1, (rows, count))
    steps[::32, 0] = 0
    if extra is not None:
        steps[5, count // 2] = extra
    columns = np.cumsum(steps, axis=1)
    return columns.tolist(), int(columns.max()) + 1


CASES = {
    "full_diagonal": bands,
    "diagonal": stencil,
    "slot8": lambda: clusters(254),
    "slice16": lambda: spread(65534),
    "slot16": lambda: clusters(65534),
    "delta8": lambda: gaps(254),
    "delta16": lambda: gaps(65534),
    "plain": lambda: spread(3_000_000, count=5),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows_per_lane", ROWS_PER_LANE)
@pytest.mark.parametrize("name", CASES)
def test_every_encoding(name, rows_per_lane, dtype):
    matrix = from_rows(*CASES[name](), dtype)
    stored = CompressedSELL.from_csr(matrix, rows_per_lane=rows_per_lane)
    assert used_encodings(stored) == {name}
    assert_stores(stored, matrix)
    check_product(matrix, rows_per_lane=rows_per_lane)


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("name", CASES)
def test_every_encoding_in_parts(name, parts):
    matrix = from_rows(*CASES[name](), np.float64)
    stored = CompressedSELL.from_csr(matrix, parts=parts)
    assert len(stored.segments) == parts * -(-matrix.shape[0] // 64)
    assert_stores(stored, matrix)
    check_product(matrix, parts=parts)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rows", "encoding"),
    [
        (clusters(254), "slot8"),
        (clusters(255), "slot16"),
        (clusters(256), "slot16"),
        (clusters(65533), "slot16"),
        (clusters(65534), "slot16"),
        (clusters(65535), "plain"),
        (clusters(65536), "plain"),
        (spread(65534), "slice16"),
        (spread(65535), "delta16"),
    ],
)
def test_codes_reach_as_far_as_they_can(rows, encoding, dtype):
    """The code of all ones is none: 8 bits reach 254 columns, 16 bits 65,534."""
    matrix = from_rows(*rows, dtype)
    stored = CompressedSELL.from_csr(matrix, rows_per_lane=4)
    assert used_encodings(stored) == {encoding}
    assert_stores(stored, matrix)
    check_product(matrix, rows_per_lane=4)


@pytest.mark.parametrize(
    ("widest", "extra", "jumps"),
    [
        *[(254, 254, 0), (254, 255, 1), (254, 256, 1), (254, 65_534, 1), (254, 65_535, 1)],
        *[(65_534, 65_534, 0), (65_534, 65_535, 1), (65_534, 65_536, 1), (65_534, 20_000_000, 1)],
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_jumps(widest, extra, jumps, dtype):
    """A gap too wide for a code takes a place that holds the distance, and the slice one slot more."""
    matrix = from_rows(*gaps(widest, extra=extra), dtype)
    stored = CompressedSELL.from_csr(matrix, rows_per_lane=1)
    assert used_encodings(stored) == {"delta8" if widest == 254 else "delta16"}
    assert stored.places == 32 * (3 * 20 + jumps)
    assert_stores(stored, matrix)
    check_product(matrix, rows_per_lane=1)


@pytest.mark.parametrize(("extra", "jumps"), [(255, 1), (65_535, 1), (65_789, 1), (65_790, 2), (131_071, 2)])
def test_jumps_of_float16(extra, jumps):
    """Two bytes hold a distance of 65,535 at most; the rest takes another jump, or a code of up to 254."""
    matrix = from_rows(*gaps(254, extra=extra), np.float16)
    stored = CompressedSELL.from_csr(matrix, rows_per_lane=1)
    assert used_encodings(stored) == {"delta8"}
    assert stored.places == 32 * (3 * 20 + jumps)
    assert_stores(stored, matrix)
    check_product(matrix, rows_per_lane=1)


def test_first_entries_far_from_the_base_of_their_segment():
    rows, num_cols = gaps(254)
    rows[3] = [column + 900_000 for column in rows[3]]
    matrix = from_rows(rows, num_cols + 900_000)
    stored = CompressedSELL.from_csr(matrix, rows_per_lane=1)
    assert "delta8" in used_encodings(stored)
    assert_stores(stored, matrix)
    check_product(matrix, rows_per_lane=1)


def test_last_column_of_the_widest_matrix():
    num_cols = 2**31 - 1
    matrix = from_rows([[0, num_cols - 1], [num_cols - 1], [1, 2, num_cols - 2]], num_cols)
    for rows_per_lane in ROWS_PER_LANE:
        assert_stores(CompressedSELL.from_csr(matrix, rows_per_lane=rows_per_lane), matrix)


# ---- Worked example


def test_tridiagonal_array_by_array():
    """One slice of 32 rows, 31 of them used; three slots on the diagonals -1, 0 and 1."""
    rows = [[j for j in (i - 1, i, i + 1) if 0 <= j < 31] for i in range(31)]
    matrix = from_rows(rows, 31, np.float64)
    stored = CompressedSELL.from_csr(matrix, rows_per_lane=1)
    assert stored.segments.tolist() == [[0, 3 * 8 + 1, 0, 0]]
    assert stored.indices[:32].view(np.int32).tolist() == [-1, 0, 1, 0, 0, 0, 0, 0]
    assert stored.indices[32:].tolist() == [0b110, *[0b111] * 29, 0b011, 0]
    expected = np.zeros((3, 32))
    expected[0, 1:31], expected[1, :31], expected[2, :30] = (matrix.diagonal(k) for k in (-1, 0, 1))
    np.testing.assert_array_equal(stored.data.reshape(3, 32), expected)
    assert stored.places == 96
    assert stored.padding_ratio == (96 - 91) / 91
    assert stored.nbytes == 16 + 64 + 96 * 8
    assert stored.index_bytes_per_nonzero == (16 + 64) / 91
    assert stored.row_ids.size == 0
    assert stored.encodings == {name: int(name == "diagonal") for name in ENCODINGS}


def test_places_of_a_lane_are_side_by_side():
    matrix = csr_array(np.arange(1.0, 129).reshape(128, 1))
    stored = CompressedSELL.from_csr(matrix, rows_per_lane=4)
    expected = [position + 1 + 32 * r for position in range(32) for r in range(4)]
    np.testing.assert_array_equal(stored.data, expected)


def test_parts_share_every_row():
    """Part q has the entries from length * q // parts on."""
    rows = [list(range(0, 70 * length, 70)) for length in (11, 3, 0, 8)]
    stored = CompressedSELL.from_csr(from_rows(rows, 800), rows_per_lane=1, parts=4)
    longest = [max(n * (q + 1) // 4 - n * q // 4 for n in (11, 3, 0, 8)) for q in range(4)]
    assert [count >> 3 for count in stored.segments[:, 1].tolist()] == longest


def test_sorting_rows_pads_less():
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, 40, 600)
    matrix = from_rows([np.sort(rng.choice(500, n, replace=False)).tolist() for n in lengths], 500)
    ratios = []
    for window in (1, 256, 4096):
        stored = CompressedSELL.from_csr(matrix, rows_per_lane=1, sort_window=window)
        assert_stores(stored, matrix)
        check_product(matrix, rows_per_lane=1, sort_window=window)
        ratios.append(stored.padding_ratio)
        if window > 1:
            for first in range(0, 600, window):
                ids = stored.row_ids[first : first + window]
                expected = np.arange(first, min(600, first + window))
                np.testing.assert_array_equal(ids, expected[np.argsort(-lengths[expected], kind="stable")])
    assert ratios[0] > 3 * ratios[1] > 3 * ratios[2] > 0


def test_rows_that_are_in_order_are_not_listed():
    assert CompressedSELL.from_csr(from_rows(*stencil()), sort_window=1).row_ids.size == 0
    assert CompressedSELL.from_csr(from_rows(*bands()), sort_window=256).row_ids.size == 0


# ---- Any matrix


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", battery(np.float32))
def test_battery(name, dtype):
    matrix = with_dtype(battery(np.float32)[name], dtype)
    x = np.random.default_rng(3).standard_normal(matrix.shape[1]).astype(dtype)
    for rows_per_lane, sort_window, parts in itertools.product(ROWS_PER_LANE, (1, 256), (1, 4)):
        options = {"rows_per_lane": rows_per_lane, "sort_window": sort_window, "parts": parts}
        returned = CompressedSELL.from_csr(matrix, **options).to_csr()
        np.testing.assert_array_equal(returned.indptr, matrix.indptr)
        for (columns, values), (expected, expected_values) in zip(
            sorted_rows(returned), sorted_rows(matrix), strict=True
        ):
            assert columns == expected
            np.testing.assert_array_equal(values, expected_values)
        y = multiply(matrix, x, **options)
        if y is not None:
            assert_product(matrix, x[:, None], y)


@given(
    A=csr_matrices(max_rows=70, allow_nonfinite=True),
    rows_per_lane=st.sampled_from(ROWS_PER_LANE),
    sort_window=st.sampled_from([1, 2, 5, 256]),
    parts=st.sampled_from(PARTS),
)
@settings(max_examples=60, deadline=None)
def test_any_matrix(A, rows_per_lane, sort_window, parts):
    stored = CompressedSELL.from_csr(A, rows_per_lane=rows_per_lane, sort_window=sort_window, parts=parts)
    assert_stores(stored, A)
    assert stored.nnz == A.nnz
    assert stored.places % (32 * rows_per_lane) == 0


@given(
    columns=st.lists(st.lists(st.integers(0, 10**6), max_size=12), max_size=40),
    scale=st.sampled_from([1, 20, 2000]),
    dtype=st.sampled_from(DTYPES),
    parts=st.sampled_from(PARTS),
)
@settings(max_examples=60, deadline=None)
def test_any_columns(columns, scale, dtype, parts):
    matrix = from_rows([[c * scale for c in row] for row in columns], 2 * 10**9 + 1, dtype)
    assert_stores(CompressedSELL.from_csr(matrix, rows_per_lane=1, parts=parts), matrix)


def test_negative_zero_and_bits_of_nan_survive():
    matrix = from_rows([[2, 0, 1]], 3, np.float32)
    matrix.data[:] = np.array([0x80000000, 0x7FC12345, 0xFF800000], np.uint32).view(np.float32)
    returned = CompressedSELL.from_csr(matrix).to_csr()
    assert returned.data.view(np.uint32).tolist() == [0x7FC12345, 0xFF800000, 0x80000000]


# ---- Face


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (5, 5), (100, 3)])
def test_no_nonzeros(shape, dtype):
    matrix = with_dtype(csr_array(shape, dtype=np.float32), dtype)
    stored = CompressedSELL.from_csr(matrix, parts=2)
    assert stored.shape == stored.to_csr().shape == shape
    assert stored.nnz == stored.places == stored.to_csr().nnz == 0
    assert stored.padding_ratio == stored.index_bytes_per_nonzero == 0
    assert used_encodings(stored) == set()
    y = multiply(matrix, np.full(shape[1], np.nan, dtype), parts=2)
    np.testing.assert_array_equal(y, np.zeros((shape[0], 1)))


def test_face():
    stored = CompressedSELL.from_csr(from_rows(*stencil()), rows_per_lane=4, sort_window=256, parts=2)
    assert (stored.rows_per_lane, stored.sort_window, stored.parts) == (4, 256, 2)
    assert (stored.shape, stored.dtype, stored.name) == ((70, 70), np.float32, "compressed-sell")
    assert sum(stored.encodings.values()) == len(stored.segments) == 2
    assert stored.nbytes == stored.segments.nbytes + stored.indices.nbytes + stored.data.nbytes + stored.row_ids.nbytes
    assert repr(stored) == f"<CompressedSELL 70x70 float32, {stored.nnz} nonzeros, {stored.nbytes} bytes>"


def test_arrays_are_read_only_and_outlive_the_matrix():
    stored = CompressedSELL.from_csr(from_rows(*bands(32)), rows_per_lane=1)
    arrays = [stored.segments, stored.indices, stored.data, stored.row_ids]
    assert not any(array.flags.writeable for array in arrays)
    expected = stored.data.copy()
    del stored
    gc.collect()
    np.testing.assert_array_equal(arrays[2], expected)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("rows_per_lane", 0), ("rows_per_lane", 3), ("parts", 16), ("parts", -1), ("sort_window", 0)],
)
def test_bad_parameters_are_refused(argument, value):
    with pytest.raises(ParameterError, match=str(value)) as caught:
        CompressedSELL.from_csr(from_rows(*bands()), **{argument: value})
    assert caught.value.argument == argument


def test_bad_matrices_are_refused():
    matrix = from_rows([[0]], 1)
    matrix.indices[0] = 1
    with pytest.raises(InvalidMatrixError, match="outside"):
        CompressedSELL.from_csr(matrix)
    with pytest.raises(DtypeError, match="complex128"):
        CompressedSELL.from_csr(csr_array(np.eye(2, dtype=complex)))
    with pytest.raises(InvalidMatrixError, match="values"):
        CompressedSELL.from_csr(_core.CsrView(np.array([0, 1]), np.array([0], dtype=np.int32), None, 1, 1))


def test_matrices_that_would_be_mostly_padding_are_refused():
    rows = [list(range(4000)), *[[i] for i in range(200)]]
    matrix = from_rows(rows, 4000)
    assert multiply(matrix, np.ones(4000, np.float32)) is None
    reason = reason_against("spmv", as_csr(matrix), "compressed-sell", "vector", 1, "column", {}, None)
    assert "places for 4200 nonzeros" in reason

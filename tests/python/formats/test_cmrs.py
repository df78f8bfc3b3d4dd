"""CMRS (Koza et al. 2014) against the paper's text, and products through it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from battery import battery
from products import assert_product, parameter_sets, prepare_product, reason_against
from strategies import csr_matrices
from warploom import _core, errors, formats
from warploom._matrix import as_csr
from warploom.candidates import kernels
from warploom.formats import CMRS

DTYPES = [np.float16, np.float32, np.float64]
PACKED_COLUMNS = 2**28

packings = st.tuples(st.booleans(), st.integers(1, 256)).map(lambda p: (p[0], (p[1] - 1) % 16 + 1 if p[0] else p[1]))


def battery_of(dtype):
    """Return the battery in a value type that SciPy may not convert to (float16)."""
    named = battery(np.float32 if dtype == np.float16 else dtype)
    for A in named.values():
        A.data = A.data.astype(dtype)
    return named


def matrix_of_the_paper(dtype=np.float64):
    """Return eq. 2.1."""
    dense = [[1, 0, 0, 2, 0], [0, 3, 0, 0, 4], [0, 0, 5, 0, 6], [0, 0, 7, 8, 9], [0, 0, 0, 0, 10]]
    A = csr_array(np.array(dense, dtype=np.float64))
    A.data = A.data.astype(dtype)
    return A


def entries(A):
    """Return (row, column, value bits) of every entry, in the order of the CSR arrays."""
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    bits = A.data.view(f"u{A.data.itemsize}")
    return list(zip(rows.tolist(), A.indices.tolist(), bits.tolist(), strict=True))


def stored_entries(stored):
    """Return (row, column, value bits) of every filled place, in their order."""
    strips = np.repeat(np.arange(stored.num_strips), np.diff(stored.strip_ptr))
    rows = strips * stored.height + stored.row_in_strip
    bits = stored.data.view(f"u{stored.data.itemsize}")
    filled = stored.indices >= 0
    return list(zip(rows[filled].tolist(), stored.indices[filled].tolist(), bits[filled].tolist(), strict=True))


def assert_same_matrix(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    assert entries(found) == entries(expected)


# ---- The paper's examples


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_example_of_section_3(dtype, packed):
    stored = CMRS.from_csr(matrix_of_the_paper(dtype), height=2, packed=packed)
    assert stored.data.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert stored.indices.tolist() == [0, 3, 1, 4, 2, 4, 2, 3, 4, 4]
    assert stored.strip_ptr.tolist() == [0, 4, 9, 10]
    assert stored.row_in_strip.tolist() == [0, 0, 1, 1, 0, 0, 1, 1, 1, 0]
    assert (stored.data.dtype, stored.indices.dtype) == (dtype, np.int32)
    assert (stored.strip_ptr.dtype, stored.row_in_strip.dtype) == (np.int64, np.uint8)


@pytest.mark.parametrize("packed", [True, False])
def test_example_of_section_4_sorted_by_column(packed):
    stored = CMRS.from_csr(matrix_of_the_paper(), height=2, packed=packed, sort_columns=True)
    assert stored.data.tolist() == [1, 3, 2, 4, 5, 7, 8, 6, 9, 10]
    assert stored.indices.tolist() == [0, 1, 3, 4, 2, 2, 3, 4, 4, 4]
    assert stored.row_in_strip.tolist() == [0, 1, 0, 1, 0, 1, 1, 0, 1, 0]
    assert stored.strip_ptr.tolist() == [0, 4, 9, 10]


def test_words_hold_column_and_row():
    packed = CMRS.from_csr(matrix_of_the_paper(), height=2)
    assert packed.words.tolist() == [0, 48, 17, 65, 32, 64, 33, 49, 65, 64]
    assert packed.nbytes == 4 * 8 + 10 * 4 + 10 * 8
    unpacked = CMRS.from_csr(matrix_of_the_paper(), height=2, packed=False)
    assert unpacked.words.size == 0
    assert unpacked.nbytes == 4 * 8 + 10 * (4 + 1) + 10 * 8


def test_face():
    stored = CMRS.from_csr(matrix_of_the_paper(np.float32), height=3)
    assert stored.shape == (5, 5)
    assert (stored.num_rows, stored.num_cols, stored.nnz, stored.num_strips) == (5, 5, 10, 2)
    assert (stored.height, stored.packed, stored.sort_columns, stored.modulo) == (3, True, False, None)
    assert stored.dtype == np.float32
    assert stored.padding_ratio == 0
    assert repr(stored) == f"<CMRS 5x5 float32, 10 nonzeros, {stored.nbytes} bytes>"
    assert CMRS.name in formats.names()


def test_default_is_packed_in_strips_of_eight():
    stored = CMRS.from_csr(matrix_of_the_paper())
    assert (stored.height, stored.packed, stored.sort_columns, stored.modulo) == (8, True, False, None)


def test_arrays_are_read_only():
    for packed in (True, False):
        stored = CMRS.from_csr(matrix_of_the_paper(), height=2, packed=packed, modulo=4)
        arrays = [stored.strip_ptr, stored.words, stored.indices, stored.row_in_strip, stored.data]
        assert not any(array.flags.writeable for array in arrays)


# ---- Strips


@given(csr_matrices(dtypes=DTYPES, allow_nonfinite=True, max_rows=40), packings)
def test_strips_are_those_of_section_3(A, packing):
    packed, height = packing
    stored = CMRS.from_csr(A, height, packed=packed)
    num_strips = -(-A.shape[0] // height)
    assert stored.num_strips == num_strips
    np.testing.assert_array_equal(stored.strip_ptr[:num_strips], A.indptr[::height][:num_strips])
    assert stored.strip_ptr[num_strips] == A.nnz
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    np.testing.assert_array_equal(stored.row_in_strip, rows % height)
    np.testing.assert_array_equal(stored.indices, A.indices)
    assert stored_entries(stored) == entries(A)
    assert_same_matrix(stored.to_csr(), A)


@given(csr_matrices(dtypes=DTYPES, allow_nonfinite=True, max_rows=40), packings)
def test_sorted_strips_are_stable(A, packing):
    packed, height = packing
    stored = CMRS.from_csr(A, height, packed=packed, sort_columns=True)
    expected = sorted(entries(A), key=lambda entry: (entry[0] // height, entry[1]))  # stable
    assert stored_entries(stored) == expected
    by_column = sorted(entries(A), key=lambda entry: entry[:2])
    back = stored.to_csr()
    np.testing.assert_array_equal(back.indptr, A.indptr)
    assert entries(back) == by_column


# ---- Groups of 32 (Sec. 6.7)


def fewest_groups(lengths, modulo):
    """Rows of these lengths, at most `modulo` entries of each a group of 32."""
    return max(-(-sum(lengths) // 32), *(-(-length // modulo) for length in lengths), 0)


def assert_groups(stored, A, height, modulo):
    rows, columns = stored.row_in_strip, stored.indices
    lengths = np.diff(A.indptr).tolist()
    for strip in range(stored.num_strips):
        begin, end = stored.strip_ptr[strip : strip + 2]
        of_strip = lengths[strip * height : (strip + 1) * height]
        assert end - begin == 32 * fewest_groups(of_strip, modulo)
        for group in range(begin, end, 32):
            filled = columns[group : group + 32] >= 0
            assert not filled[np.argmin(filled) :].any() or filled.all()
            runs = rows[group : group + 32][filled]
            # What the kernel relies on: threads at the same row differ in lane % modulo.
            targets = [(row, lane % modulo) for lane, row in enumerate(runs)]
            assert len(set(targets)) == len(targets)
            _, counts = np.unique(runs, return_counts=True)
            assert max(counts, default=0) <= modulo
            assert np.count_nonzero(np.diff(runs.astype(int))) == max(len(counts) - 1, 0)
    assert not stored.data[columns < 0].any()


@given(csr_matrices(dtypes=DTYPES, allow_nonfinite=True, max_rows=70, max_cols=9), packings, st.integers(1, 32))
def test_groups(A, packing, modulo):
    packed, height = packing
    stored = CMRS.from_csr(A, height, packed=packed, modulo=modulo)
    assert_groups(stored, A, height, modulo)
    assert_same_matrix(stored.to_csr(), A)


@pytest.mark.parametrize("modulo", [1, 4, 8, 16, 32])
@pytest.mark.parametrize(("height", "packed"), [(8, True), (16, True), (16, False), (64, False)])
def test_groups_of_larger_matrices(height, packed, modulo):
    for A in battery(np.float32).values():
        stored = CMRS.from_csr(A, height, packed=packed, modulo=modulo)
        assert_groups(stored, A, height, modulo)
        assert_same_matrix(stored.to_csr(), A)


def test_padding_ratio_counts_empty_places():
    A = csr_array(np.ones((4, 10)))  # 40 entries take two groups
    assert CMRS.from_csr(A, 4, modulo=8).padding_ratio == pytest.approx(24 / 40)
    # 10 entries of a row take three groups of at most 4
    assert CMRS.from_csr(A, 4, modulo=4).padding_ratio == pytest.approx(56 / 40)
    assert CMRS.from_csr(csr_array((3, 3)), modulo=4).padding_ratio == 0


# ---- All forms


FORMS = [
    {"height": 1},
    {"height": 16},
    {"height": 5, "sort_columns": True},
    {"height": 16, "modulo": 8},
    {"height": 200, "packed": False},
    {"height": 3, "packed": False, "sort_columns": True},
    {"height": 64, "packed": False, "modulo": 4},
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", battery(np.float32))
def test_battery_survives(name, dtype, form):
    A = battery_of(dtype)[name]
    stored = CMRS.from_csr(A, **form)
    assert (stored.nnz, stored.dtype, stored.shape) == (A.nnz, dtype, A.shape)
    assert sorted(stored_entries(stored)) == sorted(entries(A))
    back = stored.to_csr()
    np.testing.assert_array_equal(back.indptr, A.indptr)
    if "sort_columns" not in form:
        assert_same_matrix(back, A)


def test_many_strips_are_made_by_several_threads():
    A = csr_array(random_array((30_000, 50), density=0.1, rng=np.random.default_rng(0), format="csr"))
    _core.set_num_threads(4)
    try:
        for form in FORMS:
            assert_same_matrix(CMRS.from_csr(A, **form).to_csr(), A)  # its columns are sorted
    finally:
        _core.set_num_threads(0)


def test_places_beyond_bit_31_of_a_word():
    columns = [PACKED_COLUMNS - 1, 2**27, 0]
    A = csr_array((np.array([1.0, 2, 3]), np.array(columns, np.int32), [0] * 16 + [3]), shape=(16, PACKED_COLUMNS))
    stored = CMRS.from_csr(A, height=16)
    assert stored.indices.tolist() == columns
    assert stored.row_in_strip.tolist() == [15, 15, 15]
    assert stored.to_csr().indices.tolist() == columns


# ---- Errors


@pytest.mark.parametrize(("height", "packed"), [(0, True), (17, True), (-3, False), (257, False)])
def test_height_out_of_range(height, packed):
    with pytest.raises(errors.ParameterError, match=f"height must be from 1 .*, got {height}") as caught:
        CMRS.from_csr(matrix_of_the_paper(), height, packed=packed)
    assert caught.value.argument == "height"


@pytest.mark.parametrize("modulo", [0, -1, 33])
def test_modulo_out_of_range(modulo):
    with pytest.raises(errors.ParameterError, match=f"modulo must be from 1 to 32, got {modulo}") as caught:
        CMRS.from_csr(matrix_of_the_paper(), modulo=modulo)
    assert caught.value.argument == "modulo"


def test_sorted_groups_are_refused():
    with pytest.raises(errors.ParameterError, match="sort_columns and modulo") as caught:
        CMRS.from_csr(matrix_of_the_paper(), modulo=8, sort_columns=True)
    assert caught.value.argument == "sort_columns"


@pytest.mark.parametrize(("num_cols", "modulo"), [(PACKED_COLUMNS + 1, None), (PACKED_COLUMNS, 8)])
def test_too_many_columns_for_packed_words(num_cols, modulo):
    A = csr_array((np.array([2.5]), np.array([num_cols - 1], np.int32), [0, 1]), shape=(1, num_cols))
    with pytest.raises(errors.IndexOverflowError, match=r"28 bits .* unpacked form \(packed=False\)") as caught:
        CMRS.from_csr(A, modulo=modulo)
    assert caught.value.argument == "packed"
    assert_same_matrix(CMRS.from_csr(A, packed=False, modulo=modulo).to_csr(), A)


def test_other_value_types_are_refused():
    A = csr_array((np.ones(1), [0], [0, 1]), shape=(1, 1))
    A.data = A.data.astype(np.complex128)
    with pytest.raises(errors.DtypeError, match="complex128"):
        CMRS.from_csr(A)


# ---- Products on the CPU


KERNELS = [kernel for kernel in kernels("spmv") if kernel.format == "cmrs"]
CASES = [(kernel, parameters) for kernel in KERNELS for parameters in parameter_sets(kernel)]


def multiply(A, kernel, parameters, x):
    arguments = ("cmrs", kernel.name, 1, "column", parameters, None, -1)
    y = np.full((A.shape[0], 1), np.nan, A.dtype)
    prepare_product("spmv", as_csr(A), *arguments).run_host(x.reshape(-1, 1), y)
    return y


def test_kernels():
    assert {kernel.name for kernel in KERNELS} == {"basic", "modified", "registers"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("kernel", "parameters"), CASES)
def test_products_of_the_battery(kernel, parameters, dtype):
    for A in battery_of(dtype).values():
        x = np.random.default_rng(1).standard_normal((A.shape[1], 1)).astype(dtype)
        assert_product(A, x, multiply(A, kernel, parameters, x))


@given(csr_matrices(dtypes=DTYPES, max_rows=40), st.sampled_from(CASES))
def test_products(A, case):
    x = np.arange(1, A.shape[1] + 1).astype(A.dtype)[:, None]
    assert_product(A, x, multiply(A, *case, x))


@pytest.mark.parametrize("height", [16, 64])
def test_empty_places_are_not_multiplied(height):
    A = csr_array((np.array([2.0, 3.0]), np.array([1, 1], np.int32), [0, 1, 2]), shape=(2, 2))
    [modified] = [kernel for kernel in KERNELS if kernel.name == "modified"]
    assert multiply(A, modified, {"height": height}, np.array([np.nan, 1.0])).tolist() == [[2], [3]]


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_of_the_packed_form_name_the_way_out(kernel):
    A = csr_array((np.array([2.5]), np.array([7], np.int32), [0, 1]), shape=(1, PACKED_COLUMNS + 1))
    name, value = ("height", 32) if kernel.name == "modified" else ("packed", 0)

    def reason(parameters):
        complete = kernel.complete(parameters)
        return reason_against("spmv", as_csr(A), "cmrs", kernel.name, 1, "column", complete, None)

    assert f"{name}={value} stores them unpacked" in reason({})
    assert reason({name: value}) == ""

"""SpMM by row_split for every number of columns and any alignment of row-major operands, which are tensors on the GPU.

Whatever lies around B is NaN or infinite, and so are the rows of B that no nonzero refers to: rows of B are loaded in
vectors that reach over their ends, and nothing of that may get into the result. Around C nothing may change.
"""

import numpy as np
import pytest
from scipy.sparse import csr_array

import warploom as wl
from battery import typed
from products import assert_product, operand, reason_against, tensor_of, widened
from warploom import _bfloat16
from warploom._matrix import as_csr
from warploom.candidates import Candidate, kernels

COLUMNS = [
    *range(1, 69),
    72,
    *range(96, 101),
    *range(127, 134),
    136,
    *range(255, 261),
    *range(511, 517),
    1023,
    1024,
    1025,
]
TYPED = [
    pytest.param(kernel, _bfloat16.as_dtype(dtype), id=f"{kernel.format}-{dtype}")
    for kernel in kernels("spmm")
    if kernel.name == "row_split"
    for dtype in kernel.dtypes
]
SETTINGS = [
    {},
    {"threads_per_row": 8},
    {"threads_per_row": 16, "columns_per_thread": 8},
    {"column_threads": 8, "columns_per_thread": 8},
    {"threads_per_row": 8, "columns_per_thread": 8, "threads_per_block": 256},
    {"threads_per_row": 4, "column_threads": 2, "threads_per_block": 64},
    {"threads_per_row": 1},
    {"columns_per_thread": 2},
]
# (columns before B and C, columns after them) in arrays with longer rows. The second starts 4 bytes off in float32.
PLACES = {"alone": (0, 0), "odd rows": (1, 2), "even rows": (2, 2), "other rows of C": (0, 1)}


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", minversion="2.10")


def skewed(dtype, m=75, n=91):
    """Rows of 0 to 70 nonzeros, some of them in the first and in the last row of B; every third is not referred to."""
    rng = np.random.default_rng(0)
    used = np.flatnonzero(np.arange(n) % 3 != 1)
    rows = [rng.permutation(used)[: min(len(used), int(rng.pareto(0.8) * 5))] for _ in range(m)]
    rows[3], rows[10], rows[11] = used, np.array([n - 1]), np.array([n - 1, 0, n - 1])
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    indices = np.concatenate(rows).astype(np.int32)
    return typed(csr_array((rng.standard_normal(len(indices)), indices, indptr), shape=(m, n)), dtype)


def placed(torch, values, before, after, around):
    """Return a view of a tensor on the GPU with these values, and the tensor, whose other elements are `around`."""
    rows, columns = values.shape
    held = np.resize(_bfloat16.cast(np.asarray(around, np.float32), values.dtype), (rows, before + columns + after))
    held[:, before : before + columns] = values
    tensor = tensor_of(held).cuda()
    return tensor[:, before : before + columns], tensor


def check(torch, matrix, plan, k, place):
    m, n = matrix.shape
    values = operand((n, k), matrix.dtype, "row", seed=k)
    unused = np.setdiff1d(np.arange(n), matrix.indices)
    values[unused] = np.resize(_bfloat16.cast(np.array([np.nan, np.inf, -np.inf], np.float32), values.dtype), k)
    before, after = PLACES[place]
    in_B = (0, 0) if place == "other rows of C" else (before, after)
    B, _ = placed(torch, values, *in_B, [np.nan, np.inf, -np.inf, np.nan, np.nan])
    nothing = _bfloat16.cast(np.full((m, k), np.nan, np.float32), values.dtype)
    results = []
    for _ in range(2):
        C, held = placed(torch, nothing, before, after, [7.0])
        assert plan(B, out=C) is C
        results.append(_bfloat16.of_tensor(C.cpu().contiguous()))
        around = np.delete(widened(_bfloat16.of_tensor(held.cpu())), np.s_[before : before + k], axis=1)
        assert (around == 7.0).all()
    np.testing.assert_array_equal(*(np.ascontiguousarray(result).view(np.uint8) for result in results))
    assert_product(matrix, values, results[0])


def plan_for(matrix, kernel, k, parameters):
    if kernel.format == "segmented-csr":
        parameters = {**parameters, "segment_length": 16}
    if reason := reason_against("spmm", as_csr(matrix), kernel.format, kernel.name, k, "row", parameters):
        pytest.skip(reason)
    return wl.plan(matrix, k=k, device="cuda", select=str(Candidate.make(kernel, "none", parameters)))


@pytest.mark.parametrize(("kernel", "dtype"), TYPED)
def test_every_number_of_columns(torch, kernel, dtype):
    matrix = skewed(dtype)
    for i, k in enumerate(COLUMNS):
        for parameters in (SETTINGS[0], SETTINGS[1 + i % (len(SETTINGS) - 1)]):
            plan = plan_for(matrix, kernel, k, parameters)
            for place in PLACES:
                try:
                    check(torch, matrix, plan, k, place)
                except AssertionError as error:
                    raise AssertionError(f"k = {k}, {parameters}, {place}: {error}") from error


@pytest.mark.parametrize(("kernel", "dtype"), TYPED)
def test_other_numbers_of_columns_than_planned(torch, kernel, dtype):
    """Wider products are computed panel by panel where a plan holds a workspace."""
    matrix = skewed(dtype)
    for planned, columns in ((20, (1, 5, 21, 45, 65)), (33, (7, 32, 34, 67, 133)), (132, (3, 129, 137, 263))):
        for parameters in SETTINGS[:3]:
            plan = plan_for(matrix, kernel, planned, parameters)
            for k in columns:
                for place in PLACES:
                    check(torch, matrix, plan, k, place)


@pytest.mark.parametrize(("kernel", "dtype"), TYPED)
def test_one_row_of_B(torch, kernel, dtype):
    """The first row is the last one, too."""
    matrix = typed(csr_array(np.arange(1.0, 6.0)[:, None]), dtype)
    for k in (1, 5, 7, 33, 131):
        plan = plan_for(matrix, kernel, k, {})
        for place in PLACES:
            check(torch, matrix, plan, k, place)


@pytest.mark.parametrize("k", [33, 35, 131, 515])
def test_larger_than_one_wave(torch, k):
    rng = np.random.default_rng(5)
    m, n = 20_000, 15_000
    indptr = np.concatenate([[0], np.cumsum(np.minimum(n, (rng.pareto(1.2, m) * 4).astype(np.int64)))])
    indices = rng.integers(0, n, indptr[-1], dtype=np.int32)
    matrix = csr_array((rng.standard_normal(indptr[-1]).astype(np.float32), indices, indptr), shape=(m, n))
    for kernel in kernels("spmm"):
        if kernel.name == "row_split" and kernel.format != "padded-csr":
            for parameters in SETTINGS[:4]:
                check(torch, matrix, plan_for(matrix, kernel, k, parameters), k, "odd rows")

"""Every kernel, conversion, order and feature that is registered, on small matrices: what compute-sanitizer watches.

The other tests of this folder go through more cases than a sanitizer has time for, which makes kernels ten to a hundred
times as slow. These are few, and chosen by the registries alone: every kernel in every layout, value type and setting
of its parameters, every format that is made on the GPU with every option, every order that is computed there, all
features, new values, sampled products, matrices whose arrays are on the GPU, copies of operands, and planning.

They need no framework, so that a sanitizer watches nobody else's kernels; the vendor's are left out, cuBLAS's among
them: what these write counts as never written. What matters most
comes first: with WARPLOOM_TEST_SECONDS set, tests that would begin later are skipped.
"""

import itertools
import os
import time

import numpy as np
import pytest
from scipy.sparse import csr_array

import warploom as wl
from battery import battery, typed
from products import ORDER, assert_product, operand, parameter_sets, tensor_of, unwritten, vector
from sampled import DTYPES, assert_sampled, operands
from updates import new_values, with_values
from warploom import CSR, _bfloat16, _core, features, formats
from warploom._device import Device
from warploom._matrix import as_csr
from warploom.candidates import Candidate, kernels
from warploom.errors import ParameterError
from warploom.plan import problem_of

OUT_OF_TIME = "no time left"
OURS = [k for op in ("spmv", "spmm") for k in kernels(op) if not k.vendor and k.source != "cuBLAS"]
LATEST = time.monotonic() + float(os.environ.get("WARPLOOM_TEST_SECONDS", "inf"))


def has_time():
    """Skip the rest of a test if there is no time left for it."""
    if time.monotonic() > LATEST:
        pytest.skip(OUT_OF_TIME)


@pytest.fixture(autouse=True)
def _in_time():
    has_time()


def mixed(dtype):
    """Rows from none to all columns, dense stretches, columns in no order: several thread blocks for every kernel."""
    rng = np.random.default_rng(0)
    m, n = 1500, 1100
    lengths = np.minimum((rng.pareto(1.1, m) * 3).astype(np.int64), 300)
    lengths[400:520], lengths[700], lengths[-1] = 0, n, 0
    lengths[520:600] = 33
    rows = [rng.choice(n, length, replace=False) for length in lengths]
    rows[800:864] = [np.arange(i % 8, i % 8 + 24) for i in range(64)]
    indptr = np.cumsum([0, *map(len, rows)])
    matrix = csr_array((rng.standard_normal(indptr[-1]), np.concatenate(rows).astype(np.int32), indptr), shape=(m, n))
    return typed(matrix, dtype)


def banded(dtype):
    """33 nonzeros around the diagonal: every format stores it in any order of its rows."""
    rng = np.random.default_rng(0)
    n, width = 1100, 33
    first = np.clip(np.arange(n) - width // 2, 0, n - width)
    columns = (first[:, None] + np.arange(width)).astype(np.int32).ravel()
    matrix = csr_array((rng.standard_normal(n * width), columns, np.arange(n + 1) * width), shape=(n, n))
    return typed(matrix, dtype)


SMALL = ("empty rows", "one giant row", "duplicates unsorted", "no nonzeros", "random", "random tall", "arrow")
CASES = [
    pytest.param(
        kernel, layout, _bfloat16.as_dtype(dtype), id=f"{kernel.op}-{kernel.format}-{kernel.name}-{layout}-{dtype}"
    )
    for kernel in OURS
    for layout in (kernel.layouts if kernel.op == "spmm" else ["column"])
    for dtype in kernel.dtypes
]


def check(kernel, layout, matrix, k, parameters=None, permutation="none", device=0, times=2):
    """Multiply, if the kernel takes the matrix; say whether it did."""
    candidate = Candidate.make(kernel, permutation, parameters)
    problem = _core.Problem(as_csr(matrix), kernel.op, k, layout, "warm", device)
    if problem.reason_against(candidate):
        return False
    try:
        prepared = _core.prepare(problem, candidate)
    except ParameterError:
        if permutation == "none":
            raise
        return False  # of what is known in advance, only the order differs
    if kernel.op == "spmv":
        B = vector(matrix.shape[1], matrix.data.dtype).reshape(-1, 1)
    else:
        B = operand((matrix.shape[1], k), matrix.data.dtype, layout)
    C = unwritten((matrix.shape[0], k), B.dtype, ORDER[layout])
    for _ in range(times):  # the second finds the workspace as the first left it
        prepared.run_host(B, C)
    assert prepared.num_recorded == (times > 8)
    assert_product(matrix, B, C, precision=kernel.precision)
    return True


@pytest.mark.parametrize(("kernel", "layout", "dtype"), CASES)
def test_every_kernel(kernel, layout, dtype):
    took = check(kernel, layout, mixed(dtype), 1 if kernel.op == "spmv" else 33)
    for name in SMALL:
        has_time()
        took |= check(kernel, layout, battery(dtype)[name], 1 if kernel.op == "spmv" else 8)
    assert took


@pytest.mark.parametrize(("kernel", "layout", "dtype"), [case for case in CASES if case.values[2] == np.float32])
def test_recorded_products(kernel, layout, dtype):
    """As a graph, with the copies of operands."""
    k = 1 if kernel.op == "spmv" else 8
    assert any(check(kernel, layout, A, k, times=11) for A in (battery(dtype)["random"], mixed(dtype), banded(dtype)))


SEGMENTED = [case for case in CASES if (case.values[0].op, case.values[0].format) == ("spmm", "segmented-csr")]


@pytest.mark.parametrize(("kernel", "layout", "dtype"), SEGMENTED)
def test_long_rows(kernel, layout, dtype):
    """A row of 75 pieces, which another kernel adds up where one thread would for each column."""
    rng = np.random.default_rng(0)
    lengths = [1200, 0, 40, 3, 16]
    rows = [rng.choice(1200, length, replace=False) for length in lengths]
    matrix = csr_array((rng.standard_normal(sum(lengths)), np.concatenate(rows), np.cumsum([0, *lengths])), (5, 1200))
    orders = ({}, {"by_column": 1}) if "row_split" in kernel.name else ({},)
    for threads, order in itertools.product((1, 4), orders):
        parameters = {"segment_length": 16, "threads_per_row": threads, **order}
        assert check(kernel, layout, typed(matrix, dtype), 33, parameters)


CUT_AMONG_OTHERS = {
    "csr/nonzero_split": [{"work": 16}, {"work": 16, "by_column": 1}],
    "hybrid-vectors/tensor_core": [{"segment_length": 32}],
    "hybrid-vectors/tensor_core_tf32": [{"segment_length": 32}],
    "column-vectors/tensor_core": [{"segment_length": 64, "vector_rows": rows} for rows in (8, 16)],
    "column-vectors/tensor_core_tf32": [{"segment_length": 64, "vector_rows": rows} for rows in (8, 16)],
}


def path(kernel):
    return f"{kernel.format}/{kernel.name}"


@pytest.mark.parametrize(
    ("kernel", "layout", "dtype"), [case for case in CASES if path(case.values[0]) in CUT_AMONG_OTHERS]
)
def test_long_rows_among_others(kernel, layout, dtype):
    """A row of 75 pieces and more, and windows of more than a warp adds up, beside some that are not cut."""
    rng = np.random.default_rng(0)
    n, lengths = 4800, [4800, 0, 40, 3, 16, 0, 0, 0]
    few, many = (np.sort(rng.choice(n, length, replace=False)) for length in (40, 1500))
    rows = [*(rng.choice(n, length, replace=False) for length in lengths), *[few] * 8, *[many] * 12]
    indptr = np.cumsum([0, *map(len, rows)])
    matrix = csr_array((rng.standard_normal(indptr[-1]), np.concatenate(rows), indptr), (len(rows), n))
    widest = 32 * 16 // np.dtype(dtype).itemsize  # a thread of a warp for each 16 bytes of a row of C
    for parameters, k in itertools.product(CUT_AMONG_OTHERS[path(kernel)], (widest, 33)):
        assert check(kernel, layout, typed(matrix, dtype), k, parameters)


ON_GPU = [known["name"] for known in _core.formats() if known["on_gpu"]]


def resident_of(matrix):
    return _core.Problem(as_csr(matrix), "spmv", 1, "column", "warm", 0).resident()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ON_GPU)
def test_every_conversion(name, dtype):
    known = next(known for known in _core.formats() if known["name"] == name)
    values = {o["name"]: list(dict.fromkeys([o["default"], *o["tested"]])) for o in known["options"]}
    every = [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]
    for matrix in (mixed(np.dtype(dtype)), battery(np.dtype(dtype))["random"]):
        view, resident = as_csr(matrix), resident_of(matrix)
        for options in every if dtype == np.float32 else every[:1]:
            has_time()
            try:
                expected = _core.store(name, view, options).arrays()
            except ParameterError:
                continue
            for label, array in _core.convert_on_gpu(name, resident, options).arrays().items():
                assert array.tobytes() == expected[label].tobytes(), (label, options)


ORDERS = [name for name in wl.permutations.names() if _core.permutation_runs_on_gpu(name)]


@pytest.mark.parametrize("matrix", ["mixed", *SMALL, "tridiagonal"])
@pytest.mark.parametrize("name", ORDERS)
def test_every_order(name, matrix):
    A = mixed(np.float32) if matrix == "mixed" else battery(np.float32)[matrix]
    there = _core.compute_permutation_on_gpu(name, resident_of(A))
    np.testing.assert_array_equal(there, _core.compute_permutation(name, as_csr(A), 32, 32, 32))


def test_communities_of_many_nodes():
    """Each batch is launched there, with nodes of some hundred and of some thousand neighbours."""
    n, rng = 140_000, np.random.default_rng(0)
    hubs = np.repeat([0, 1], [700, 5000])
    rows, columns = np.append(np.arange(n - 1), hubs), np.append(np.arange(1, n), rng.integers(0, n, len(hubs)))
    edges = csr_array((np.ones(len(rows), np.float32), (rows, columns)), (n, n))
    A = csr_array(edges + edges.T)
    there = _core.compute_permutation_on_gpu("community", resident_of(A))
    np.testing.assert_array_equal(there, _core.compute_permutation("community", as_csr(A), 32, 32, 32))


@pytest.mark.parametrize("geometry", [(32, 32, 32), (12, 7, 20)])
@pytest.mark.parametrize("matrix", ["mixed", *SMALL])
@pytest.mark.parametrize("name", features.sets())
def test_every_feature(name, matrix, geometry):
    A = mixed(np.float32) if matrix == "mixed" else battery(np.float32)[matrix]
    shape = dict(zip(("warps", "threads", "elements_per_cache_line"), geometry, strict=True))
    found = _core.compute_features_device(name, resident_of(A), **shape)
    np.testing.assert_allclose(found, _core.compute_features(name, as_csr(A), **shape), rtol=1e-12)


@pytest.mark.parametrize("matrix", ["mixed", *SMALL, "long rows"])
def test_features_of_column_vectors_and_overlap(matrix):
    rng = np.random.default_rng(0)
    A = mixed(np.float32) if matrix == "mixed" else battery(np.float32).get(matrix)
    if A is None:  # windows of few, of many and of very many nonzeros
        lengths = [*rng.integers(0, 9, 20), *[100] * 12, *[3000] * 3, 0, 1]
        A = csr_array(
            (np.ones(sum(lengths), np.float32), rng.integers(0, 5000, sum(lengths)), np.cumsum([0, *lengths]))
        )
    view, there = as_csr(A), resident_of(A)
    found = _core.compute_column_vector_features_device(there)
    np.testing.assert_array_equal(found, _core.compute_column_vector_features(view))
    assert _core.compute_hidden_overlap_device(there, 0) == _core.compute_hidden_overlap(view, 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 8, 33, 128])
def test_sampled_products(dtype, k):
    for A in (mixed(np.float64), battery(np.float64)["random"], battery(np.float64)["one giant row"]):
        has_time()
        X, Y = operands(A.shape, k, dtype)
        assert_sampled(A, X, Y, wl.sddmm_plan(A, device="cuda")(X, Y))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("k", [8, 64, 136])
def test_sampled_products_of_column_vectors(dtype, k):
    """Of patterns of one window and of several, the last one cut short, with rows of X that are not there."""
    pytest.importorskip("torch")
    for name in ("random", "tridiagonal", "one giant row"):
        has_time()
        A = battery(np.float64)[name].copy()
        A.sum_duplicates()
        X, Y = operands(A.shape, k, dtype)
        plan = wl.sddmm_plan(A, device="cuda", select="sddmm/none/column-vectors/tensor_core")
        found = plan(tensor_of(X).cuda(), tensor_of(Y).cuda())
        assert_sampled(A, X, Y, _bfloat16.of_tensor(found.cpu()))


@pytest.mark.parametrize(("kernel", "layout", "dtype"), CASES)
def test_new_values(kernel, layout, dtype):
    A = mixed(dtype)
    shape = {} if kernel.op == "spmv" else {"k": 5, "layout": layout}
    try:
        plan = wl.plan(A, kernel.op, device="cuda", select=Candidate.make(kernel).name, updatable=True, **shape)
    except ParameterError:
        A = battery(dtype)["random"]
        plan = wl.plan(A, kernel.op, device="cuda", select=Candidate.make(kernel).name, updatable=True, **shape)
    values = new_values(A)
    plan.update_values(values)
    B = operand((A.shape[1], 1 if kernel.op == "spmv" else 5), dtype, layout)
    C = plan @ (B[:, 0] if kernel.op == "spmv" else B)
    assert_product(with_values(A, values), B, C.reshape(A.shape[0], -1), precision=kernel.precision)


@pytest.fixture(params=["whole", "in panels"])
def copies(request):
    _core.make_padded_copies("always", 0 if request.param == "whole" else 1100 * 128)
    yield
    _core.make_padded_copies()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("kernel", [k for k in OURS if k.op == "spmm" and "row" in k.layouts])
def test_copies_of_operands(kernel, dtype, copies):
    if dtype not in kernel.dtypes:
        pytest.skip("another value type")
    for k in (33, 67):
        has_time()
        check(kernel, "row", mixed(_bfloat16.as_dtype(dtype)), k)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [k for k in OURS if k.op == "spmm" and k.name == "row_split"])
def test_few_rows_at_once(kernel, dtype):
    """As in grids that fill a GPU."""
    if dtype not in kernel.dtypes:
        pytest.skip("another value type")
    _core.choose_row_loads("few")
    try:
        for k in (4, 8, 40, 72, 136, 161):
            has_time()
            check(kernel, "row", mixed(_bfloat16.as_dtype(dtype)), k)
    finally:
        _core.choose_row_loads()


class OnGpu:
    """An array on the GPU that belongs to no framework."""

    def __init__(self, array):
        array = np.ascontiguousarray(array)
        self.memory = _core.DeviceMemory(0, max(array.nbytes, 1))
        _core.copy_to_device(0, self.memory.pointer, array)
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (self.memory.pointer, False),
            "strides": None,
            "version": 3,
        }


@pytest.mark.parametrize("wide", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("name", ["csr/vector", "compressed-sell/vector", "packed-csr/segmented_sum", "dasp/cuda_core"])
def test_arrays_on_the_gpu(name, wide):
    A = banded(np.float32) if name.startswith("compressed-sell") else mixed(np.float32)
    offsets, columns = (np.int64 if is_wide else np.int32 for is_wide in wide)
    arrays = [OnGpu(A.indptr.astype(offsets)), OnGpu(A.indices.astype(columns)), OnGpu(A.data)]
    matrix = CSR(*arrays, shape=A.shape)
    x = vector(A.shape[1], np.float32)
    plan = wl.plan(matrix, "spmv", device="cuda", select=f"spmv/none/{name}", updatable=True)
    assert_product(A, x[:, None], (plan @ x)[:, None])
    z = vector(A.shape[0], np.float32)
    assert_product(csr_array(A.T), z[:, None], (plan.T @ z)[:, None])
    resident = problem_of(matrix, "spmv", 1, None, "column", "warm", Device.parse("cuda")).resident()
    np.testing.assert_array_equal(
        _core.compute_permutation_on_gpu("lpt", resident), _core.compute_permutation("lpt", as_csr(A), 32, 32, 32)
    )


@pytest.mark.parametrize("permutation", [*ORDERS, "reversed by the host"])
@pytest.mark.parametrize("kernel", [k for k in OURS if k.permutes])
def test_every_kernel_in_every_order(kernel, permutation):
    dtype = _bfloat16.as_dtype("float32" if "float32" in kernel.dtypes else kernel.dtypes[0])
    layout, k = ("column", 1) if kernel.op == "spmv" else (kernel.layouts[0], 9)
    if permutation in ORDERS:
        took = [check(kernel, layout, A, k, permutation=permutation) for A in (mixed(dtype), banded(dtype))]
        assert any(took)
        return
    A, candidate = banded(dtype), Candidate.make(kernel)
    problem = _core.Problem(as_csr(A), kernel.op, k, layout, "warm", 0)
    assert not problem.reason_against(candidate)
    prepared = _core.prepare(problem, candidate, (np.arange(A.shape[0], dtype=np.int32)[::-1].copy(), 0.0))
    B = operand((A.shape[1], k), A.data.dtype, layout)
    C = unwritten((A.shape[0], k), B.dtype, ORDER[layout])
    prepared.run_host(B, C)
    assert_product(A, B, C, precision=kernel.precision)


@pytest.mark.parametrize(("kernel", "layout", "dtype"), CASES)
def test_every_setting(kernel, layout, dtype):
    for parameters in itertools.islice(parameter_sets(kernel), 1, None):
        for name in ("mixed", "random"):
            has_time()
            A = mixed(dtype) if name == "mixed" else battery(dtype)[name]
            if check(kernel, layout, A, 1 if kernel.op == "spmv" else 33, parameters):
                break


@pytest.mark.parametrize("op", ["spmv", "spmm"])
@pytest.mark.parametrize("cache", ["warm", "cold"])
@pytest.mark.parametrize("select", ["predict", "measure"])
def test_planning(op, cache, select):
    A = mixed(np.float32)
    shape = {} if op == "spmv" else {"k": 16}
    some = {} if select == "predict" else {"candidates": [f"{op}/none/csr/{name}*" for name in ("vector", "row_split")]}
    plan = wl.plan(A, op, device="cuda", select=select, cache=cache, **shape, **some)
    B = operand((A.shape[1], shape.get("k", 1)), np.float32, "row")
    C = plan @ (B[:, 0] if op == "spmv" else B)
    assert_product(A, B, C.reshape(A.shape[0], -1))
    assert plan.explain().chosen


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_of_experiments(dtype):
    from test_experiments import check_parts, check_read, check_stream

    for matrix in (mixed(np.dtype(dtype)), battery(np.dtype(dtype))["random"]):
        for threads in (1, 4, 32):
            has_time()
            check_parts(matrix, threads)
        for height in (1, 8, 33):
            has_time()
            check_read(matrix, height)
            check_stream(matrix, height)


def test_every_format_is_tried():
    """The registries are read: a format without a kernel would go unnoticed otherwise."""
    tried = {case.values[0].format for case in CASES}
    assert tried | set(ON_GPU) | {"csr"} >= set(formats.names())

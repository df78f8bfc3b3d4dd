"""Every SpMM kernel on the GPU against float64 sums, over the battery of small matrices and larger ones."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import battery, typed
from products import (
    ORDER,
    assert_product,
    operand,
    parameter_sets,
    prepare_product,
    reason_against,
    tensor_of,
    tried_settings,
    unwritten,
    widened,
)
from warploom import _bfloat16, _core, _device
from warploom._matrix import as_csr
from warploom.candidates import Candidate, kernels, parse

TYPED = [
    pytest.param(k, order, _bfloat16.as_dtype(dtype), id=f"{k.format}-{k.name}-{order}-{dtype}")
    for k in kernels("spmm")
    for order in k.layouts
    for dtype in k.dtypes
]
SEGMENTED = [case for case in TYPED if case.values[0].format == "segmented-csr"]
SHARED = [case for case in TYPED if case.values[0].name == "nonzero_split"]
CASES = [pytest.param(k, order, id=f"{k.format}-{k.name}-{order}") for k in kernels("spmm") for order in k.layouts]


def prepare(matrix, kernel, order, k, parameters=None, perm=None):
    return prepare_product("spmm", as_csr(matrix), kernel.format, kernel.name, k, order, parameters, perm, 0)


def multiply(matrix, kernel, order, B, k=None, parameters=None, perm=None):
    """Run twice: the second run finds the workspace as the first one left it."""
    if kernel.name == "cusparse" and (reason := _device.load_cusparse()):
        pytest.skip(f"no cuSPARSE: {reason}")
    problem = _core.Problem(as_csr(matrix), "spmm", k or max(B.shape[1], 1), order, "warm", 0)
    reason = problem.reason_against(Candidate.make(kernel, "none", parameters))
    if reason:
        pytest.skip(reason)
    plan = prepare(matrix, kernel, order, k or max(B.shape[1], 1), parameters, perm)
    results = []
    for _ in range(2):
        C = unwritten((matrix.shape[0], B.shape[1]), B.dtype, ORDER[order])
        plan.run_host(B, C)
        results.append(C)
    if kernel.reproducible:
        assert results[0].tobytes() == results[1].tobytes()
    return results[1]


def check(kernel, matrix, B, C):
    assert_product(matrix, B, C, vendor=kernel.vendor, precision=kernel.precision)


def vendor_refuses(kernel, matrix):
    """Skip what cuSPARSE is known to reject: it is a candidate only where it works."""
    return kernel.name == "cusparse" and (0 in matrix.shape or matrix.nnz == 0)


@pytest.mark.parametrize("name", battery(np.float32))
@pytest.mark.parametrize(("kernel", "order", "dtype"), TYPED)
def test_battery(kernel, order, name, dtype):
    matrix = battery(dtype)[name]
    if vendor_refuses(kernel, matrix) or (kernel.name == "cusparse" and name in ("nan inf",)):
        pytest.skip("not a case for cuSPARSE")
    perms = [None]
    if kernel.permutes:
        perms.append(np.arange(matrix.shape[0], dtype=np.int32)[::-1].copy())
        perms.append(np.random.default_rng(0).permutation(matrix.shape[0]).astype(np.int32))
    for k in (1, 3, 8, 33, 64):
        B = operand((matrix.shape[1], k), dtype, order)
        for perm in perms:
            check(kernel, matrix, B, multiply(matrix, kernel, order, B, perm=perm))


@pytest.mark.parametrize(("kernel", "order", "dtype"), TYPED)
def test_every_parameter_value(kernel, order, dtype):
    for name in ("random wide", "one giant row", "empty rows", "random"):
        if kernel.format == "padded-csr" and name == "one giant row":
            continue
        matrix = battery(dtype)[name]
        for parameters in parameter_sets(kernel):
            for k in (5, 32, 100, 136):
                B = operand((matrix.shape[1], k), dtype, order)
                check(kernel, matrix, B, multiply(matrix, kernel, order, B, parameters=parameters))


@pytest.mark.parametrize(("kernel", "order", "dtype"), TYPED)
def test_every_combination_of_parameters(kernel, order, dtype):
    if dtype == np.float64:
        pytest.skip("the kernels are those of float32")
    matrix = battery(dtype)["random wide"]
    for k in (4, 32, 130):
        B = operand((matrix.shape[1], k), dtype, order)
        for parameters in tried_settings(kernel):
            check(kernel, matrix, B, multiply(matrix, kernel, order, B, parameters=parameters))


@pytest.mark.parametrize(("kernel", "order", "dtype"), TYPED)
def test_larger_than_one_wave(kernel, order, dtype):
    """Power-law rows, so that many segments, blocks and column tiles take part."""
    rng = np.random.default_rng(5)
    m, n, k = 20_000, 15_000, 72
    lengths = np.minimum(n, (rng.pareto(1.2, m) * 4).astype(np.int64))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(0, n, indptr[-1], dtype=np.int32)
    matrix = typed(csr_array((rng.standard_normal(indptr[-1]), indices, indptr), shape=(m, n)), dtype)
    B = operand((n, k), dtype, order)
    settings = [{}]
    if kernel.format == "padded-csr":
        matrix = typed(csr_array(random_array((m, n), density=6 / n, rng=rng, format="csr")), dtype)
    if kernel.format == "segmented-csr":
        settings += [{"segment_length": 16, "longest_first": 1}, {"segment_length": 32, "longest_first": 0}]
    for parameters in settings:
        check(kernel, matrix, B, multiply(matrix, kernel, order, B, parameters=parameters))
    # Wider than the plan was made for: panels.
    check(kernel, matrix, B, multiply(matrix, kernel, order, B, k=20))


@pytest.mark.parametrize(("kernel", "order", "dtype"), [*SEGMENTED, *SHARED])
def test_long_rows(kernel, order, dtype):
    """Rows of as many pieces as a group of threads adds up itself, of one more, and of the most there are."""
    rng = np.random.default_rng(4)
    n = 40_000
    lengths = np.append([n, 0, 1024, 1025, 16, 17, n // 2, 4096, 4097, 1024 * 16, 1024 * 16 + 1], np.full(60, 3))
    indptr = np.cumsum([0, *lengths])
    indices = np.concatenate([np.sort(rng.choice(n, length, replace=False)) for length in lengths])
    matrix = csr_array((rng.standard_normal(indptr[-1]), indices.astype(np.int32), indptr), shape=(len(lengths), n))
    matrix = typed(matrix, dtype)
    perm = rng.permutation(len(lengths)).astype(np.int32)
    cut = (
        {"segment_length": 16},
        {"segment_length": 16, "threads_per_row": 4, "longest_first": 0},
        {"segment_length": 32},
        {},
    )
    shared = ({"work": 16}, {})
    for parameters in cut if kernel.format == "segmented-csr" else shared:
        for k in (1, 7, 32, 65):
            B = operand((n, k), dtype, order)
            check(kernel, matrix, B, multiply(matrix, kernel, order, B, parameters=parameters))
        check(kernel, matrix, B, multiply(matrix, kernel, order, B, parameters=parameters, perm=perm))
        check(kernel, matrix, B, multiply(matrix, kernel, order, B, k=20, parameters=parameters))  # panels


@pytest.mark.parametrize("gaps", [(8,), (0, 8, 3, 0, 1)], ids=["same", "changing"])
@pytest.mark.parametrize(("kernel", "order", "dtype"), [case for case in TYPED if case.values[1] == "row"])
def test_a_column_with_gaps(kernel, order, dtype, gaps):
    """Vendors multiply a column without gaps as a vector, and prepare for it."""
    if kernel.name == "cusparse" and (reason := _device.load_cusparse()):
        pytest.skip(f"no cuSPARSE: {reason}")
    matrix = battery(dtype)["random wide"]
    if reason := _core.Problem(as_csr(matrix), "spmm", 1, order, "warm", 0).reason_against(Candidate.make(kernel)):
        pytest.skip(reason)
    plan = prepare(matrix, kernel, order, 1)
    rows_of_B = operand((matrix.shape[1], 1 + max(gaps)), dtype, order)
    for of_B in (False, True):
        B = rows_of_B[:, :1] if of_B else rows_of_B[:, :1].copy()
        for gap in gaps:
            held = _bfloat16.cast(np.full((matrix.shape[0], 1 + gap), 7.0), dtype)
            plan.run_host(B, held[:, :1])
            check(kernel, matrix, B, held[:, :1])
            assert (widened(held[:, 1:]) == 7).all()


@pytest.mark.parametrize(("kernel", "order", "dtype"), TYPED)
def test_strided_operands_and_odd_alignment(kernel, order, dtype):
    """Padding between rows or columns survives, and operands need not start on a vector boundary."""
    matrix = battery(dtype)["random"]
    for k, pad in ((8, 8), (32, 1), (30, 2), (33, 3), (40, 4), (64, 12)):
        minor = k if order == "row" else matrix.shape[1]
        major = matrix.shape[1] if order == "row" else k
        base = operand((major, minor + pad), dtype, "row", 1)
        B = base[:, pad:] if order == "row" else base[:, pad:].T
        minor_c = k if order == "row" else matrix.shape[0]
        major_c = matrix.shape[0] if order == "row" else k
        held = _bfloat16.cast(np.full((major_c, minor_c + pad), 7.0), dtype)
        C = held[:, :minor_c] if order == "row" else held[:, :minor_c].T
        if kernel.name == "cusparse" and _device.load_cusparse():
            pytest.skip("no cuSPARSE")
        prepare(matrix, kernel, order, k).run_host(B, C)
        check(kernel, matrix, B, C)
        assert (widened(held)[:, minor_c:] == 7.0).all()


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_permutations_of_the_registry_give_the_callers_row_order(dtype, order):
    matrix = csr_array(random_array((500, 400), density=0.03, rng=np.random.default_rng(2), format="csr")).astype(dtype)
    B = operand((400, 40), dtype, order)
    for permutation in wl.permutations.names():
        for kernel in kernels("spmm"):
            refused = reason_against("spmm", as_csr(matrix), kernel.format, kernel.name, 40, order)
            if not refused and kernel.permutes:
                name = f"spmm/{permutation}/{kernel.format}/{kernel.name}"
                C = wl.spmm(matrix, B, candidate=name, device="cuda", layout=order)
                check(kernel, matrix, B, C)


def test_nonfinite_values_of_B_spread_as_in_scipy():
    matrix = battery(np.float32)["explicit zeros"]
    B = np.array([[np.inf, 1.0], [np.nan, -np.inf], [2.0, 3.0]], np.float32)
    for kernel in kernels("spmm"):
        for order in kernel.layouts:
            # In column vectors zeros that are filled in are multiplied, too.
            if kernel.name != "cusparse" and "float32" in kernel.dtypes and "-vectors" not in kernel.format:
                ordered = np.asarray(B, order={"row": "C", "column": "F"}[order])
                check(kernel, matrix, ordered, multiply(matrix, kernel, order, ordered))


def test_more_tiles_of_columns_than_a_grid_has():
    """65,535 is the most; what is wider takes several launches."""
    matrix = battery(np.float32)["empty rows"]
    for kernel in kernels("spmm"):
        if kernel.name == "row_split":
            B = operand((5, 140_001), np.float32, "row")
            narrow = {"threads_per_row": 1, "columns_per_thread": 1}
            check(kernel, matrix, B, multiply(matrix, kernel, "row", B, parameters=narrow))


@pytest.mark.parametrize("kernel", [k for k in kernels("spmm") if k.name in ("row_split", "nonzero_split")], ids=str)
@pytest.mark.parametrize("k", [8, 33, 128])
def test_many_short_rows(kernel, k):
    """Thread blocks work on several items one after the other; the last ones of them have fewer."""
    rng = np.random.default_rng(9)
    m, n = 600_011, 5_000
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 4, m))])
    indices = rng.integers(0, n, indptr[-1], dtype=np.int32)
    matrix = csr_array((rng.standard_normal(indptr[-1]).astype(np.float32), indices, indptr), shape=(m, n))
    B = operand((n, k), np.float32, "row")
    in_row_order = {"longest_first": 0, "segment_length": 16} if kernel.format == "segmented-csr" else {}
    check(kernel, matrix, B, multiply(matrix, kernel, "row", B, parameters=in_row_order))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_half_precision_are_those_of_float32(dtype):
    """Summed in two bytes, a long row of ones would stop growing; beyond the largest number a sum is infinite."""
    kind = _bfloat16.as_dtype(dtype)
    ones = typed(csr_array(np.ones((2, 3000))), kind)
    values = np.full((3000, 40), 1.0)
    values[:, 1] = 3e38 if dtype == "bfloat16" else 60000
    for kernel in kernels("spmm"):
        for order in kernel.layouts:
            if dtype in kernel.dtypes and kernel.name != "cusparse":
                B = np.asarray(_bfloat16.cast(values, kind), order=ORDER[order])
                C = widened(multiply(ones, kernel, order, B))
                assert (C[:, 0] == widened(_bfloat16.cast(np.array([3000.0]), kind))).all()
                assert (C[:, 1] == np.inf).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("k", [8, 32, 33])
def test_tensors_of_half_precision_by_prediction(dtype, k):
    """A matrix and an operand of PyTorch, a plan that is chosen by itself, and the transpose."""
    torch = pytest.importorskip("torch")
    matrix = typed(csr_array(random_array((3000, 2000), density=0.01, rng=np.random.default_rng(2))), dtype_of(dtype))
    arrays = (torch.from_numpy(np.asarray(matrix.indptr)), torch.from_numpy(np.asarray(matrix.indices)))
    A = torch.sparse_csr_tensor(*arrays, tensor_of(matrix.data), matrix.shape).cuda()
    plan = wl.plan(A, k=k, device="cuda")
    assert plan.dtype == dtype_of(dtype)
    assert "predicted from" in str(plan.explain()) or plan.explain().chosen
    B = tensor_of(operand((2000, k), dtype_of(dtype), "row")).cuda()
    C = plan @ B
    assert C.dtype == B.dtype
    assert_product(matrix, _bfloat16.of_tensor(B.cpu()), _bfloat16.of_tensor(C.cpu()))
    X = tensor_of(operand((3000, k), dtype_of(dtype), "row")).cuda()
    transposed = typed(
        csr_array(csr_array((widened(matrix.data), matrix.indices, matrix.indptr), matrix.shape).T), plan.dtype
    )
    assert_product(transposed, _bfloat16.of_tensor(X.cpu()), _bfloat16.of_tensor((plan.T @ X).cpu()))


def dtype_of(name):
    return _bfloat16.as_dtype(name)


@pytest.mark.parametrize(("kernel", "order", "dtype"), [case for case in TYPED if "column-vectors" in case.id])
def test_column_vectors_of_many_windows(kernel, order, dtype):
    """Rows that share columns by eights, so that nothing is refused: short windows, and long ones that are cut.

    The eights are whole windows of 8 rows, and make windows of 16 whose vectors may have entries in one half only.
    """
    rng = np.random.default_rng(5)
    windows, n = 1500, 4000
    lengths = np.minimum(n, (rng.pareto(1.2, windows) * 8).astype(np.int64))
    vectors = np.repeat(np.arange(windows), lengths)
    columns = np.concatenate([rng.choice(n, length, replace=False) for length in lengths])
    taken = np.nonzero(rng.random((len(vectors), 8)) < 0.6)
    rows = 8 * vectors[taken[0]] + taken[1]
    order_of_rows = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=8 * windows))])
    indices = columns[taken[0]][order_of_rows].astype(np.int32)
    matrix = csr_array((rng.standard_normal(len(rows)), indices, indptr), shape=(8 * windows, n))
    matrix = typed(matrix[: 8 * windows - 3], dtype)
    for k in (8, 32, 50, 72, 136):
        B = operand((n, k), dtype, order)
        for parameters in ({}, {"segment_length": 32}, {"segment_length": 512}):
            check(kernel, matrix, B, multiply(matrix, kernel, order, B, parameters=parameters))
        for parameters in ({"vector_rows": 16}, {"vector_rows": 16, "segment_length": 32}):
            check(kernel, matrix, B, multiply(matrix, kernel, order, B, parameters=parameters))


@pytest.mark.parametrize(("kernel", "order", "dtype"), [case for case in TYPED if "hybrid-vectors" in case.id])
@pytest.mark.parametrize("vectors", ["in some windows", "in all windows", "in no window"])
def test_hybrids_of_windows_and_rows(kernel, order, dtype, vectors):
    """Windows of rows alike and windows of others, short ones and ones that are cut, in turn and at either end."""
    rng = np.random.default_rng(8)
    windows, n = 700, 4000
    rows = []
    for window in range(windows):
        length = min(n, int(rng.pareto(0.9) * 6))
        shared = rng.choice(n, length, replace=False)
        alike = vectors == "in all windows" or (vectors == "in some windows" and window % 3 != 1)
        for row in range(8):
            own = shared if alike else rng.choice(n, length if row == window % 8 else min(length, 9), replace=False)
            rows.append(np.sort(own[rng.random(len(own)) < (0.7 if alike else 0.9)]))
    for missing in (0, 3, 11):
        kept = rows[: len(rows) - missing]
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in kept])])
        indices = np.concatenate(kept).astype(np.int32)
        matrix = csr_array((rng.standard_normal(len(indices)), indices, indptr), shape=(len(kept), n))
        matrix = typed(matrix, dtype)
        for k in (1, 7, 8, 32, 33, 50, 64, 72, 96, 136, 200):
            B = operand((n, k), dtype, order)
            for parameters in ({}, {"segment_length": 32}, {"segment_length": 512, "nonzeros_per_vector": 6}):
                check(kernel, matrix, B, multiply(matrix, kernel, order, B, parameters=parameters))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_an_order_of_rows_that_makes_column_vectors(dtype):
    """Rows alike that are far apart: refused as they are, and 8 in a window once they are neighbours."""
    rng = np.random.default_rng(6)
    blocks, n = 400, 3000
    columns = np.sort([rng.choice(n, 12, replace=False) for _ in range(blocks)]).astype(np.int32)
    of_block = rng.permutation(np.repeat(np.arange(blocks), 8))
    indptr = 12 * np.arange(8 * blocks + 1)
    matrix = csr_array((rng.standard_normal(96 * blocks), columns[of_block].ravel(), indptr), shape=(8 * blocks, n))
    matrix = typed(matrix, _bfloat16.as_dtype(dtype))
    B = operand((n, 32), matrix.dtype, "row")
    named = "spmm/{}/column-vectors/tensor_core"
    problem = _core.Problem(as_csr(matrix), "spmm", 32, "row", "warm", 0)
    assert "would store" in problem.reason_against(parse(named.format("none")))
    assert problem.reason_against(parse(named.format("minhash"))) == ""
    plan = wl.plan(matrix, k=32, device="cuda", select=named.format("minhash"))
    assert_product(matrix, B, plan @ B)
    names = [named.format("minhash"), named.format("lpt"), "spmm/none/csr/row_split"]
    measured = wl.plan(
        matrix, k=32, device="cuda", select="measure", candidates=names, calls=math.inf, budget=math.inf, progress=False
    )
    rows = {row.candidate: row for row in measured.explain().rows}
    assert rows[named.format("minhash")].median_us > 0
    assert not rows[named.format("lpt")].median_us > 0  # the order that it has
    assert "would store" in rows[named.format("lpt")].note


TF32 = "spmm/none/column-vectors/tensor_core_tf32"


def rounded_to_tf32(values):
    """Round finite values to 11 significant bits, ties away from zero."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("k", [1, 7, 32, 33, 64, 100, 128, 200])
def test_tf32_rounds_operands_and_nothing_else(k, order):
    """Against float64 sums of operands that NumPy rounds: what is left is the rounding of sums in float32."""
    matrix = csr_array(random_array((500, 300), density=0.4, rng=np.random.default_rng(4), format="csr"))
    matrix = typed(matrix, np.float32)
    B = operand((300, k), np.float32, order)
    C = wl.plan(matrix, k=k, layout=order, device="cuda", select=TF32) @ B
    rounded = csr_array((rounded_to_tf32(matrix.data), matrix.indices, matrix.indptr), matrix.shape).astype(np.float64)
    b = rounded_to_tf32(B).astype(np.float64)
    bound = 2 * (np.diff(matrix.indptr)[:, None] + 8) * 2.0**-23 * (abs(rounded) @ abs(b))
    assert (abs(C - rounded @ b) <= bound).all()
    assert (abs(C - matrix.astype(np.float64) @ B.astype(np.float64)) > bound).any()


def test_tf32_keeps_what_is_not_finite():
    """In B it reaches all 8 rows of a window that have a vector there, where zeros are filled in."""
    diagonal = csr_array(np.eye(9, dtype=np.float32))
    B = np.ones((9, 3), np.float32)
    B[1] = [np.nan, np.inf, -np.inf]
    B[8] = [np.inf, np.nan, 3.4028235e38]  # the last rounds up to what is not finite
    C = wl.plan(diagonal, k=3, device="cuda", select=TF32) @ B
    np.testing.assert_array_equal(C[1], B[1])
    np.testing.assert_array_equal(C[8, :2], B[8, :2])
    assert not np.isfinite(C[8, 2])
    assert np.isnan(C[[0, 2, 3, 4, 5, 6, 7]]).all()
    far = csr_array((np.ones(2, np.float32), [0, 1], np.r_[np.zeros(9), np.ones(8), 2].astype(np.int32)), (17, 2))
    C = wl.plan(far, k=2, device="cuda", select=TF32) @ np.array([[1, 1], [np.nan, np.inf]], np.float32)
    assert np.isfinite(C[:16]).all()
    assert np.isnan(C[16, 0])
    assert C[16, 1] == np.inf


def test_tf32_is_considered_where_it_is_asked_for():
    matrix = typed(csr_array(random_array((600, 600), density=0.4, rng=np.random.default_rng(4))), np.float32)
    B = operand((600, 32), np.float32, "row")
    for options in ({"select": "measure", "candidates": "spmm/none/*"}, {}):
        plan = wl.plan(matrix, k=32, device="cuda", calls=math.inf, budget=math.inf, progress=False, **options)
        assert not any("tf32" in row.candidate for row in plan.explain().rows)
        allowed = wl.plan(
            matrix, k=32, device="cuda", calls=math.inf, budget=math.inf, progress=False, precision="tf32", **options
        )
        rows = [row for row in allowed.explain().rows if row.candidate.startswith(TF32)]
        assert rows
        assert all(row.median_us > 0 for row in rows), [row.note for row in rows]
        assert any("tf32" not in row.candidate and row.median_us > 0 for row in allowed.explain().rows)
        assert_product(matrix, B, allowed @ B, precision=allowed.precision)

"""SpMM for every number of columns and any alignment of row-major operands, which are tensors on the GPU.

Rows of B that do not begin on 16 bytes are read as they are, or copied first: both ways are tested wherever they exist.
Threads that load several rows of B at once, as in small grids, give the same bits as those that load one by one.

Whatever lies around B is NaN or infinite, and so are the rows of B that no nonzero refers to: nothing of that may get
into the result. Around C nothing may change.
"""

import numpy as np
import pytest
from scipy.sparse import csr_array

import warploom as wl
from battery import typed
from capturing import capture
from products import assert_product, operand, reason_against, tensor_of, widened
from warploom import _bfloat16, _core
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
    pytest.param(kernel, _bfloat16.as_dtype(dtype), id=f"{kernel.format}-{kernel.name}-{dtype}")
    for kernel in kernels("spmm")
    if kernel.name in ("row_split", "nonzero_split")
    for dtype in kernel.dtypes
]
TENSOR_CORE = [
    pytest.param(kernel, _bfloat16.as_dtype(dtype), id=f"{kernel.format}-{dtype}")
    for kernel in kernels("spmm")
    if kernel.format in ("column-vectors", "hybrid-vectors")
    for dtype in kernel.dtypes
]
OF_ROW_SPLIT = [
    {},
    {"threads_per_row": 8},
    {"threads_per_row": 16, "columns_per_thread": 8},
    {"column_threads": 8, "columns_per_thread": 8},
    {"threads_per_row": 8, "columns_per_thread": 8, "threads_per_block": 256},
    {"threads_per_row": 4, "column_threads": 2, "threads_per_block": 64},
    {"threads_per_row": 1},
    {"columns_per_thread": 2},
    {"threads_per_row": 4, "columns_per_thread": 16},
    {"columns_per_thread": 16},
]
OF_NONZERO_SPLIT = [{}, {"work": 16}, {"work": 64}]
# (columns before B and C, columns after them) in arrays with longer rows. The second starts 4 bytes off in float32.
PLACES = {"alone": (0, 0), "odd rows": (1, 2), "even rows": (2, 2), "other rows of C": (0, 1)}


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", minversion="2.10")


@pytest.fixture(params=["never", "always", "in panels"])
def copies(request):
    """Whether B is copied: in panels of 128 bytes a row of a matrix with 91 columns."""
    _core.make_padded_copies(
        "never" if request.param == "never" else "always", 91 * 128 * (request.param == "in panels")
    )
    yield request.param
    _core.make_padded_copies()


def copied(plan, B, C):
    """Whether a product of tensors copies B: nothing else allocates memory, and that is refused here."""
    _core.fail_device_allocation(1)
    plan(B, out=C)
    return _core.fail_device_allocation(0)


def skewed(dtype, m=75, n=91, *, repeats=True):
    """Rows of 0 to 70 nonzeros, some of them in the first and in the last row of B; every third is not referred to."""
    rng = np.random.default_rng(0)
    used = np.flatnonzero(np.arange(n) % 3 != 1)
    rows = [rng.permutation(used)[: min(len(used), int(rng.pareto(0.8) * 5))] for _ in range(m)]
    rows[3], rows[10], rows[11] = used, np.array([n - 1]), np.array([n - 1, 0, n - 1][: 3 if repeats else 2])
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


def check(torch, matrix, plan, k, place, precision="full"):
    m, n = matrix.shape
    values = operand((n, k), matrix.dtype, "row", seed=k)
    unused = np.setdiff1d(np.arange(n), matrix.indices)
    values[unused] = np.resize(_bfloat16.cast(np.array([np.nan, np.inf, -np.inf], np.float32), values.dtype), k)
    before, after = PLACES[place]
    in_B = (0, 0) if place == "other rows of C" else (before, after)
    B, _ = placed(torch, values, *in_B, [np.nan, np.inf, -np.inf, np.nan, np.nan])
    nothing = _bfloat16.cast(np.full((m, k), np.nan, np.float32), values.dtype)
    results = []
    for loads in ("many", "few"):
        C, held = placed(torch, nothing, before, after, [7.0])
        _core.choose_row_loads(loads)
        try:
            assert plan(B, out=C) is C
        finally:
            _core.choose_row_loads()
        results.append(_bfloat16.of_tensor(C.cpu().contiguous()))
        around = np.delete(widened(_bfloat16.of_tensor(held.cpu())), np.s_[before : before + k], axis=1)
        assert (around == 7.0).all()
    np.testing.assert_array_equal(*(np.ascontiguousarray(result).view(np.uint8) for result in results))
    assert_product(matrix, values, results[0], precision=precision)


def plan_for(matrix, kernel, k, parameters):
    if kernel.format == "segmented-csr":
        parameters = {**parameters, "segment_length": 16}
    if reason := reason_against("spmm", as_csr(matrix), kernel.format, kernel.name, k, "row", parameters):
        pytest.skip(reason)
    return wl.plan(matrix, k=k, device="cuda", select=str(Candidate.make(kernel, "none", parameters)))


def settings(kernel):
    return OF_ROW_SPLIT if kernel.name == "row_split" else OF_NONZERO_SPLIT


def skip_without_copies(kernel, dtype, copies):
    if copies != "never" and (dtype.itemsize == 8 or kernel.name == "nonzero_split"):
        pytest.skip("never copied")


@pytest.mark.parametrize(("kernel", "dtype"), TYPED)
def test_every_number_of_columns(torch, kernel, dtype, copies):
    skip_without_copies(kernel, dtype, copies)
    matrix = skewed(dtype)
    every = {"never": slice(None), "always": slice(0, None, 2), "in panels": slice(1, None, 2)}[copies]
    for i, k in list(enumerate(COLUMNS))[every]:
        first, *others = settings(kernel)
        for parameters in (first, others[i // 2 % len(others)]):
            plan = plan_for(matrix, kernel, k, parameters)
            for place in PLACES:
                try:
                    check(torch, matrix, plan, k, place)
                except AssertionError as error:
                    raise AssertionError(f"k = {k}, {parameters}, {place}: {error}") from error


@pytest.mark.parametrize("dtype", sorted({str(case.values[1]) for case in TYPED}))
@pytest.mark.parametrize("shape", [(75, 91), (300, 520)], ids=str)
def test_every_number_of_columns_that_are_transposed(torch, dtype, shape):
    """Column-major B and C are transposed by tiles: whole ones, and what is left of rows and of columns."""
    matrix = skewed(_bfloat16.as_dtype(dtype), *shape)
    m, n = shape
    nothing = _bfloat16.cast(np.full((max(COLUMNS), m), np.nan, np.float32), matrix.dtype)
    for k in COLUMNS:
        plan = wl.plan(matrix, k=k, layout="column", device="cuda", select="spmm/none/csr/row_split")
        values = np.ascontiguousarray(operand((n, k), matrix.dtype, "row", seed=k))
        for place in PLACES:
            before, after = PLACES[place]
            in_B = (0, 0) if place == "other rows of C" else (before, after)
            B, _ = placed(torch, np.ascontiguousarray(values.T), *in_B, [np.nan, np.inf])
            C, held = placed(torch, nothing[:k], before, after, [7.0])
            plan(B.T, out=C.T)
            around = np.delete(widened(_bfloat16.of_tensor(held.cpu())), np.s_[before : before + m], axis=1)
            assert (around == 7.0).all(), f"around C for k = {k}, {place}"
            result = np.ascontiguousarray(_bfloat16.of_tensor(C.cpu().contiguous()).T)
            try:
                assert_product(matrix, values, result)
            except AssertionError as error:
                raise AssertionError(f"k = {k}, {place}: {error}") from error


@pytest.mark.parametrize(("kernel", "dtype"), TENSOR_CORE)
def test_every_number_of_columns_on_tensor_cores(torch, kernel, dtype, copies):
    matrix = skewed(dtype, repeats=False)  # in half precision none may
    heights = [{"vector_rows": rows} for rows in (8, 16)] if kernel.format == "column-vectors" else [{}]
    for k in (*range(1, 18), 20, 31, 32, 33, 35, 36, 63, 64, 65, 68, 72, 127, 128, 129, 131, 257, 515):
        for height in heights:
            plan = plan_for(matrix, kernel, k, {"segment_length": 32, **height})
            for place in PLACES:
                try:
                    check(torch, matrix, plan, k, place, precision=kernel.precision)
                except AssertionError as error:
                    raise AssertionError(f"k = {k}, {place}, {height}: {error}") from error


@pytest.mark.parametrize(("kernel", "dtype"), TYPED)
def test_other_numbers_of_columns_than_planned(torch, kernel, dtype, copies):
    """Wider products are computed panel by panel where a plan holds a workspace."""
    skip_without_copies(kernel, dtype, copies)
    matrix = skewed(dtype)
    for planned, columns in ((20, (1, 5, 21, 45, 65)), (33, (7, 32, 34, 67, 133)), (132, (3, 129, 137, 263))):
        for parameters in settings(kernel)[:3]:
            plan = plan_for(matrix, kernel, planned, parameters)
            for k in columns:
                for place in PLACES:
                    check(torch, matrix, plan, k, place)


@pytest.mark.parametrize(("kernel", "dtype"), TYPED)
def test_one_row_of_B(torch, kernel, dtype, copies):
    """The first row is the last one, too."""
    skip_without_copies(kernel, dtype, copies)
    matrix = typed(csr_array(np.arange(1.0, 6.0)[:, None]), dtype)
    for k in (1, 5, 7, 33, 131):
        plan = plan_for(matrix, kernel, k, {})
        for place in PLACES:
            check(torch, matrix, plan, k, place)


@pytest.mark.parametrize(("kernel", "dtype"), TYPED)
def test_no_row_of_B(torch, kernel, dtype):
    matrix = typed(csr_array((5, 0)), dtype)
    for k in (1, 5, 33, 131):
        plan = plan_for(matrix, kernel, k, {})
        for place in PLACES:
            check(torch, matrix, plan, k, place)


@pytest.mark.parametrize("k", [33, 35, 131, 515])
def test_larger_than_one_wave(torch, k, copies):
    rng = np.random.default_rng(5)
    m, n = 20_000, 15_000
    indptr = np.concatenate([[0], np.cumsum(np.minimum(n, (rng.pareto(1.2, m) * 4).astype(np.int64)))])
    indices = rng.integers(0, n, indptr[-1], dtype=np.int32)
    matrix = csr_array((rng.standard_normal(indptr[-1]).astype(np.float32), indices, indptr), shape=(m, n))
    if copies == "in panels":
        _core.make_padded_copies("always", n * 128)
    for kernel in kernels("spmm"):
        if kernel.name in ("row_split", "nonzero_split") and kernel.format != "padded-csr":
            for parameters in settings(kernel)[:4]:
                check(torch, matrix, plan_for(matrix, kernel, k, parameters), k, "odd rows")


def banded(per_row, dtype=np.float32, n=20_000):
    """As many nonzeros in each row and in each column."""
    indices = np.sort((np.arange(n)[:, None] + np.arange(per_row)) % n, axis=1).astype(np.int32).ravel()
    data = np.random.default_rng(6).standard_normal(len(indices))
    return typed(csr_array((data, indices, np.arange(n + 1) * per_row), shape=(n, n)), np.dtype(dtype))


def operands(torch, matrix, k):
    B = tensor_of(operand((matrix.shape[1], k), matrix.dtype, "row", seed=k)).cuda()
    return B, torch.empty((matrix.shape[0], k), dtype=B.dtype, device="cuda")


@pytest.mark.parametrize(
    ("per_row", "dtype", "k", "pays"),
    [
        (4, "float32", 33, False),
        (100, "float32", 33, False),  # launches
        (200, "float32", 33, True),
        (200, "float32", 7, False),
        (100, "float32", 3, False),
        (100, "float32", 34, False),  # two columns at once are as fast
        (100, "float32", 36, False),
        (100, "float64", 33, False),
        (4, "float16", 65, False),
        (50, "float16", 65, True),
        (100, "float16", 66, True),
        (100, "float16", 72, False),
    ],
)
def test_copied_where_it_pays(torch, per_row, dtype, k, pays):
    """And the result is that of the way that was taken, whatever was forced before."""
    matrix = banded(per_row, dtype)
    plan = wl.plan(matrix, k=k, device="cuda", select="spmm/none/csr/row_split[columns_per_thread=8]")
    B, C = operands(torch, matrix, k)
    assert copied(plan, B, C) == pays
    results = {}
    for way in ("where they pay", "always", "never"):
        _core.make_padded_copies(way)
        try:
            results[way] = plan(B, out=torch.full_like(C, float("nan")))
        finally:
            _core.make_padded_copies()
    assert torch.equal(results["where they pay"], results["always" if pays else "never"])
    for result in results.values():
        assert_product(matrix, _bfloat16.of_tensor(B.cpu()), _bfloat16.of_tensor(result.cpu()))


def test_without_memory_for_a_copy(torch):
    matrix = banded(200)
    plan = wl.plan(matrix, k=65, device="cuda", select="spmm/none/csr/row_split")
    B, C = operands(torch, matrix, 65)
    assert copied(plan, B, C)  # refused: computed without
    _core.make_padded_copies("never")
    try:
        assert torch.equal(C, plan(B, out=torch.empty_like(C)))
    finally:
        _core.make_padded_copies()


@pytest.mark.parametrize(
    "select",
    [
        "spmm/none/csr/row_split",
        "spmm/none/column-vectors/tensor_core_tf32",
        "spmm/none/hybrid-vectors/tensor_core_tf32[nonzeros_per_vector=4]",
    ],
)
def test_copies_in_graphs(torch, select):
    """Two graphs of one plan, the second of several panels, replayed in turn and with products between them."""
    matrix = banded(100, n=3_000)
    graphs = []
    try:
        for k, panel_bytes in ((65, 0), (129, 3_000 * 256)):
            _core.make_padded_copies("always", panel_bytes)
            plan = wl.plan(matrix, k=k, device="cuda", select=select)
            B, C = operands(torch, matrix, k)
            assert copied(plan, B, C)
            plan(B, out=C)  # kernels are loaded
            with capture() as graph:
                plan(B, out=C)
            graphs.append((graph, plan, B, C))
        for _ in range(3):
            for graph, _, B, C in graphs:
                B.copy_(torch.randn_like(B))
                C.fill_(float("nan"))
                graph.replay()
            expected = [plan @ B for _, plan, B, _ in graphs]
            for (_, _, B, C), other in zip(graphs, expected, strict=True):
                precision = "tf32" if "tf32" in select else "full"
                assert_product(matrix, B.cpu().numpy(), C.cpu().numpy(), precision=precision)
                assert_product(matrix, B.cpu().numpy(), other.cpu().numpy(), precision=precision)
    finally:
        _core.make_padded_copies()


def test_copies_on_two_streams(torch):
    """Each product has a copy of its own, which is ordered on its stream."""
    matrix = banded(200)
    plan = wl.plan(matrix, k=65, device="cuda", select="spmm/none/csr/row_split")
    pairs = [operands(torch, matrix, 65) for _ in range(6)]
    for B, _ in pairs:
        B.normal_()
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for i, (B, C) in enumerate(pairs):
        with torch.cuda.stream(streams[i % 2]):
            plan(B, out=C)
    torch.cuda.synchronize()
    for B, C in pairs:
        assert_product(matrix, B.cpu().numpy(), C.cpu().numpy())

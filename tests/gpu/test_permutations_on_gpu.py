"""Row permutations that are computed on the GPU are those that the host computes."""

import warnings

import numpy as np
import pytest
from scipy.sparse import block_diag, coo_array, csr_array, diags_array, eye_array, kron, random_array, tril, triu
from scipy.spatial import cKDTree

import warploom as wl
from battery import battery
from warploom import _core, _device
from warploom._matrix import as_csr
from warploom.plan import problem_of

BATTERY = battery(np.float32)
ON_GPU = [name for name in wl.permutations.names() if _core.permutation_runs_on_gpu(name)]


def of_lengths(lengths):
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return csr_array((np.ones(indptr[-1], np.float32), np.zeros(indptr[-1], np.int32), indptr), (len(lengths), 1))


def lengths_of(case):
    rng = np.random.default_rng(11)
    return {
        "one row": lambda: [5],
        "fewer rows than warps": lambda: [100, 3, 0, 70, 3],
        "equal": lambda: np.full(10_007, 40),
        "empty rows at the end": lambda: np.where(rng.random(5000) < 0.5, 0, rng.integers(1, 400, 5000)),
        "one giant row": lambda: np.concatenate([rng.integers(0, 40, 20_000), [2_000_000], rng.integers(0, 40, 777)]),
        "all different": lambda: 32 * rng.permutation(3000),
        "few loads": lambda: rng.integers(0, 100, 1_000_000),
        "power law": lambda: np.minimum((rng.pareto(1.1, 200_000) * 20).astype(np.int64), 100_000),
    }[case]()


CASES = [
    "one row",
    "fewer rows than warps",
    "equal",
    "empty rows at the end",
    "one giant row",
    "all different",
    "few loads",
    "power law",
]


def assert_same(name, A, warps=32, threads=32):
    view = as_csr(A)
    resident = _core.Problem(view, "spmv", 1, "column", "warm", 0).resident()
    there = _core.compute_permutation_on_gpu(name, resident, warps, threads)
    np.testing.assert_array_equal(there, _core.compute_permutation(name, view, warps, threads, 32))


def test_which_orders_are_computed_there():
    assert ON_GPU == ["plain", "flipped", "lpt", "rcm", "community", "minhash", "degree"]


@pytest.mark.parametrize("name", ON_GPU)
@pytest.mark.parametrize("matrix", BATTERY)
def test_battery(name, matrix):
    assert_same(name, BATTERY[matrix])


@pytest.mark.parametrize("name", ON_GPU)
@pytest.mark.parametrize("case", CASES)
def test_lengths(name, case):
    assert_same(name, of_lengths(lengths_of(case)))


@pytest.mark.parametrize("name", ON_GPU)
@pytest.mark.parametrize(("warps", "threads"), [(1, 1), (3, 8), (7, 32), (32, 5)])
def test_geometry(name, warps, threads):
    assert_same(name, of_lengths(lengths_of("empty rows at the end")), warps, threads)


def test_lpt_needs_a_lane_for_each_warp():
    resident = _core.Problem(as_csr(of_lengths([1, 2])), "spmv", 1, "column", "warm", 0).resident()
    with pytest.raises(wl.errors.ParameterError, match="at most 32 warps"):
        _core.compute_permutation_on_gpu("lpt", resident, 33)


def test_what_the_host_alone_computes_is_refused():
    resident = _core.Problem(as_csr(of_lengths([1, 2])), "spmv", 1, "column", "warm", 0).resident()
    with pytest.raises(wl.errors.ParameterError, match="not computed on a GPU"):
        _core.compute_permutation_on_gpu("cta-aware", resident)


@pytest.mark.parametrize("name", ON_GPU)
@pytest.mark.parametrize("kernel", ["csr/vector", "packed-csr/segmented_sum", "hub-csr/segmented_sum"])
@pytest.mark.parametrize("updatable", [False, True])
def test_plans(name, kernel, updatable):
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 200, 3000)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    A = csr_array((rng.random(indptr[-1]), rng.integers(0, 4000, indptr[-1]), indptr), (3000, 4000))
    plan = wl.plan(A, op="spmv", select=f"spmv/{name}/{kernel}", updatable=updatable)
    x = rng.random(4000)
    np.testing.assert_allclose(plan @ x, A @ x, rtol=1e-12)
    if updatable:
        new = rng.random(A.nnz)
        plan.update_values(new)
        np.testing.assert_allclose(plan @ x, csr_array((new, A.indices, A.indptr), A.shape) @ x, rtol=1e-12)


# ---- Reverse Cuthill-McKee, and communities


def shuffled(A, seed=0):
    A = csr_array(A)
    order = np.random.default_rng(seed).permutation(A.shape[0])
    A = csr_array(A[order][:, order])
    A.sort_indices()
    return A


def line(n):
    return diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1])


def unsorted(A):
    A = coo_array(A)
    order = np.lexsort((np.random.default_rng(6).random(A.nnz), A.row))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(A.row, minlength=A.shape[0]))])
    return csr_array((A.data[order], A.col[order], indptr), A.shape)


def of_edges(n, rows, columns):
    A = coo_array((np.ones(len(rows)), (rows, columns)), (n, n)).tocsr()
    A.data[:] = 1
    return csr_array(A)


def symmetric(A):
    return csr_array(A + A.T)


def nearest(n=20_000, neighbours=24):
    points = np.random.default_rng(5).random((n, 2))
    found = cKDTree(points).query(points, neighbours)[1].ravel()
    return of_edges(n, np.repeat(np.arange(n), neighbours), found)


def uniform(n, degree, seed=0):
    rng = np.random.default_rng(seed)
    return of_edges(n, np.repeat(np.arange(n), degree), rng.integers(0, n, n * degree))


def power_law(n=30_000, edges=400_000):
    rng = np.random.default_rng(7)
    return of_edges(n, *((n * rng.random((2, edges)) ** 4).astype(np.int64)))


def hub(n=100_000):
    # Its neighbours have degrees of their own, by which they are sorted: more than a warp, or a block, has room for.
    return symmetric(of_edges(n, np.zeros(n // 2, np.int64), np.arange(n // 2) * 2) + uniform(n, 2))


def tree_of_hubs(n=60_000):
    rng = np.random.default_rng(9)
    parents = np.minimum((np.arange(1, n) * rng.random(n - 1) ** 6).astype(np.int64), np.arange(1, n) - 1)
    return shuffled(symmetric(of_edges(n, parents, np.arange(1, n))))


def planted(n=60_000, count=700, degree=12, outside=3):
    """Communities of uneven size, hidden, with some edges between them."""
    rng = np.random.default_rng(12)
    bounds = np.sort(rng.choice(n - 1, count - 1, replace=False)) + 1
    first, last = np.append(0, bounds), np.append(bounds, n)
    rows = np.repeat(np.arange(n), degree)
    of = np.searchsorted(bounds, rows, side="right")
    inside = first[of] + (rng.random(len(rows)) * (last - first)[of]).astype(np.int64)
    columns = np.where(np.tile(np.arange(degree) < outside, n), rng.integers(0, n, len(rows)), inside)
    return shuffled(symmetric(of_edges(n, rows, columns)))


def components():
    parts = [kron(line(60), line(80)), csr_array((3000, 3000)), eye_array(500), line(200), uniform(5000, 1), hub(4000)]
    return shuffled(block_diag(parts, format="csr"))


def lacking_one_entry():
    A = shuffled(kron(line(50), line(50)))
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    A.data[np.flatnonzero(A.indices != rows)[5000]] = 0
    A.eliminate_zeros()
    return A


def with_duplicates():
    A = kron(line(30), line(40), format="coo")
    order = np.random.default_rng(1).permutation(3 * A.nnz)
    rows, columns = np.tile(A.row, 3)[order], np.tile(A.col, 3)[order]
    order = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=A.shape[0]))])
    return csr_array((np.ones(len(order)), columns[order], indptr), A.shape)


GRAPHS = {
    "grid": lambda: csr_array(kron(line(100), line(150))),
    "shuffled grid": lambda: shuffled(kron(line(300), line(300))),
    "shuffled cube": lambda: shuffled(kron(kron(line(35), line(35)), line(35))),
    "arcs": nearest,
    "symmetric arcs": lambda: symmetric(nearest()),
    "uniform": lambda: symmetric(uniform(40_000, 20)),
    "levels of many places for each warp": lambda: symmetric(uniform(300_000, 3)),
    "sparse uniform": lambda: uniform(50_000, 1),
    "power law": power_law,
    "symmetric power law": lambda: symmetric(power_law()),
    "planted": planted,
    "hub": hub,
    "shuffled hub": lambda: shuffled(hub()),
    "tree of hubs": tree_of_hubs,
    "components": components,
    "isolated": lambda: csr_array((70_000, 70_000)),
    "diagonal": lambda: csr_array(eye_array(5000)),
    "dense": lambda: csr_array(np.ones((600, 600))),
    "lacks one entry of a symmetric pattern": lacking_one_entry,
    "triangular": lambda: csr_array(np.triu(np.ones((200, 200)))),
    "duplicates": with_duplicates,
    "columns in no order": lambda: unsorted(kron(line(70), line(80))),
    "arcs, columns in no order": lambda: unsorted(nearest(5000)),
    "wide, columns in no order": lambda: unsorted(random_array((2000, 9000), density=2e-3, rng=3)),
    "lower triangle of a hub": lambda: csr_array(tril(hub(30_000))),
    "one direction only": lambda: shuffled(triu(kron(line(150), line(150)), 1)),
    "explicit zeros": lambda: of_edges(3000, np.arange(2999), np.arange(1, 3000)) * 0,
    "short chain": lambda: shuffled(line(200)),
    "long chain": lambda: shuffled(line(30_000)),
    "chain of cliques": lambda: shuffled(kron(line(400), np.ones((40, 40)))),
    "wide": lambda: csr_array(random_array((3000, 20_000), density=5e-4, rng=1)),
    "wide and nearly empty": lambda: csr_array(([1.0] * 3, [5, 4_000_000, 5], [0, 1, 2, 3]), (3, 5_000_000)),
    "tall": lambda: csr_array(random_array((20_000, 300), density=2e-3, rng=2)),
    "tall with a long row": lambda: csr_array(np.vstack([np.ones((1, 900)), np.eye(2000, 900)])),
    "no columns": lambda: csr_array((40, 0)),
    "no rows": lambda: csr_array((0, 40)),
    "empty": lambda: csr_array((0, 0)),
}


SEARCHES = ["rcm", "community"]


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("graph", GRAPHS)
def test_searches_of_graphs(graph, name):
    assert_same(name, GRAPHS[graph]().astype(np.float32))


KERNELS = {"rcm": "cuthill_mckee_kernel", "community": "start_kernel"}
ON_HOST = {"rcm": ["long chain", "wide and nearly empty"], "community": ["wide and nearly empty"]}


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize(
    "graph", ["shuffled cube", "arcs", "components", "power law", "hub", "wide", "long chain", "wide and nearly empty"]
)
def test_where_searches_are_computed(graph, name):
    torch = pytest.importorskip("torch")
    resident = _core.Problem(as_csr(GRAPHS[graph]()), "spmv", 1, "column", "warm", 0).resident()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the profiler, about events of several cycles
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
            torch.ones(1, device="cuda").add_(1)
            _core.compute_permutation_on_gpu(name, resident)
            torch.cuda.synchronize()
    kernels = " ".join(event.name for event in profiled.events())
    if not kernels:
        pytest.skip("kernels are not profiled here")
    assert (KERNELS[name] in kernels) == (graph not in ON_HOST[name])


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("graph", ["arcs", "shuffled grid", "components", "power law", "tree of hubs", "planted"])
def test_searches_are_the_same_every_time(graph, name):
    resident = _core.Problem(as_csr(GRAPHS[graph]()), "spmv", 1, "column", "warm", 0).resident()
    first = _core.compute_permutation_on_gpu(name, resident)
    for _ in range(10):
        np.testing.assert_array_equal(_core.compute_permutation_on_gpu(name, resident), first)


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("width", [np.int32, np.int64])
@pytest.mark.parametrize("graph", ["shuffled grid", "arcs", "wide", "long chain"])
def test_searches_of_arrays_in_gpu_memory(graph, width, name):
    torch = pytest.importorskip("torch")
    A = GRAPHS[graph]()
    arrays = [torch.from_numpy(part.astype(width)).cuda() for part in (A.indptr, A.indices)]
    tensor = torch.sparse_csr_tensor(*arrays, torch.from_numpy(A.data).cuda(), size=A.shape)
    problem = problem_of(tensor, "spmv", 1, None, "row", "warm", _device.Device.parse("cuda"))
    expected = _core.compute_permutation(name, as_csr(A.astype(np.float32)), 32, 32, 32)
    np.testing.assert_array_equal(_core.compute_permutation_on_gpu(name, problem.resident()), expected)


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("graph", ["shuffled cube", "long chain"])
@pytest.mark.parametrize("kernel", ["csr/vector", "compressed-sell/vector", "column-panels/shared_x"])
def test_plans_in_the_order_of_searches(graph, kernel, name):
    A = GRAPHS[graph]()
    plan = wl.plan(A, op="spmv", device="cuda", select=f"spmv/{name}/{kernel}")
    x = np.random.default_rng(4).random(A.shape[1])
    np.testing.assert_allclose(plan @ x, A @ x, rtol=1e-12)


# ---- Classes of degree, and signatures


def with_a_column_of_all_rows():
    A = uniform(50_000, 4).tolil()
    A[:, 7] = 1
    return csr_array(A)


def of_few_patterns():
    patterns = csr_array(random_array((30, 5000), density=0.01, rng=8))
    return csr_array(patterns[np.random.default_rng(8).integers(0, 30, 20_000)])


def of_rows_far_apart():
    """A few rows with entries, and tens of thousands without between them."""
    rows = np.sort(np.random.default_rng(2).choice(1_000_000, 40, replace=False))
    columns = np.random.default_rng(3).integers(0, 300, (40, 100))
    return csr_array((np.ones(4000), (np.repeat(rows, 100), columns.ravel())), (1_000_000, 300))


KEYED = GRAPHS | {
    "column of all rows": with_a_column_of_all_rows,
    "few patterns": of_few_patterns,
    "rows far apart": of_rows_far_apart,
    "rows as long as pieces": lambda: csr_array(random_array((3000, 128), density=1.0, rng=4)),
    "rows of all lengths": lambda: csr_array(np.tril(np.ones((1500, 1500)))),
    "a row of millions": lambda: csr_array(
        (np.ones(3_000_002), np.append(np.arange(3_000_000), [1, 2]), [0, 0, 3_000_000, 3_000_000, 3_000_002]),
        (4, 3_000_000),
    ),
}


@pytest.mark.parametrize("name", ["minhash", "degree"])
@pytest.mark.parametrize("graph", KEYED)
def test_degrees_and_signatures(graph, name):
    assert_same(name, KEYED[graph]().astype(np.float32))


@pytest.mark.parametrize("name", ["minhash", "degree"])
@pytest.mark.parametrize("width", [np.int32, np.int64])
@pytest.mark.parametrize("graph", ["power law", "tall with a long row", "components"])
def test_degrees_and_signatures_of_arrays_in_gpu_memory(graph, width, name):
    torch = pytest.importorskip("torch")
    A = GRAPHS[graph]()
    arrays = [torch.from_numpy(part.astype(width)).cuda() for part in (A.indptr, A.indices)]
    tensor = torch.sparse_csr_tensor(*arrays, torch.from_numpy(A.data).cuda(), size=A.shape)
    problem = problem_of(tensor, "spmv", 1, None, "row", "warm", _device.Device.parse("cuda"))
    expected = _core.compute_permutation(name, as_csr(A.astype(np.float32)), 32, 32, 32)
    np.testing.assert_array_equal(_core.compute_permutation_on_gpu(name, problem.resident()), expected)


@pytest.mark.parametrize(("name", "kernel"), [("minhash", "signatures_kernel"), ("degree", "degree_classes_kernel")])
def test_degrees_and_signatures_are_computed_there(name, kernel):
    torch = pytest.importorskip("torch")
    resident = _core.Problem(as_csr(power_law()), "spmv", 1, "column", "warm", 0).resident()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the profiler, about events of several cycles
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
            torch.ones(1, device="cuda").add_(1)
            _core.compute_permutation_on_gpu(name, resident)
            torch.cuda.synchronize()
    kernels = " ".join(event.name for event in profiled.events())
    if not kernels:
        pytest.skip("kernels are not profiled here")
    assert kernel in kernels


@pytest.mark.parametrize("name", ["minhash", "degree"])
@pytest.mark.parametrize("kernel", ["csr/row_split", "dcsr/row_split", "segmented-csr/row_split"])
def test_products_of_matrices_in_these_orders(name, kernel):
    A = power_law().astype(np.float32)
    plan = wl.plan(A, k=16, device="cuda", select=f"spmm/{name}/{kernel}")
    B = np.random.default_rng(4).random((A.shape[1], 16), dtype=np.float32)
    np.testing.assert_allclose(plan @ B, A @ B, rtol=1e-4)


# ---- In Python


@pytest.fixture
def host_refused(monkeypatch):
    def refuse(*_):
        raise AssertionError("the host computes it")

    monkeypatch.setattr(_core, "compute_permutation", refuse)


@pytest.mark.parametrize("name", ON_GPU)
def test_matrices_on_a_gpu_are_ordered_there(name, request):
    torch = pytest.importorskip("torch")
    cupyx = pytest.importorskip("cupyx.scipy.sparse")
    A = GRAPHS["planted"]().astype(np.float32)
    expected = wl.permutations.compute(name, A)
    tensor = torch.sparse_csr_tensor(
        *(torch.from_numpy(part).cuda() for part in (A.indptr, A.indices, A.data)), A.shape
    )
    request.getfixturevalue("host_refused")
    for there in (tensor, cupyx.csr_matrix(A)):
        np.testing.assert_array_equal(wl.permutations.compute(name, there), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.int8])
def test_other_matrices_are_brought_there(dtype, request):
    A = GRAPHS["planted"]().astype(dtype)
    expected = wl.permutations.compute("community", A)
    request.getfixturevalue("host_refused")
    np.testing.assert_array_equal(wl.permutations.compute("community", A, device="cuda"), expected)


def test_a_matrix_on_a_gpu_may_be_ordered_by_the_host(monkeypatch):
    torch = pytest.importorskip("torch")
    A = GRAPHS["arcs"]()
    tensor = torch.sparse_csr_tensor(
        *(torch.from_numpy(part).cuda() for part in (A.indptr, A.indices, A.data)), A.shape
    )
    monkeypatch.setattr(_core, "compute_permutation_on_gpu", lambda *_: pytest.fail("a GPU computes it"))
    expected = wl.permutations.compute("rcm", A)
    np.testing.assert_array_equal(wl.permutations.compute("rcm", tensor, device="cpu"), expected)


def test_what_gpus_do_not_compute_is_the_hosts():
    A = GRAPHS["grid"]()
    expected = wl.permutations.compute("cta-aware", A)
    np.testing.assert_array_equal(wl.permutations.compute("cta-aware", A, device="cuda"), expected)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("order", ["auto", "community"])
def test_reordering(order, symmetric, request):
    A = GRAPHS["shuffled cube"]()
    expected = wl.reorder(A, order, symmetric=symmetric)
    request.getfixturevalue("host_refused")
    found = wl.reorder(A, order, symmetric=symmetric, device="cuda")
    assert found.order == expected.order
    np.testing.assert_array_equal(found.perm, expected.perm)
    assert (found.A != expected.A).nnz == 0

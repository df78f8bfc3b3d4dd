"""Plans chosen by prediction, on the GPU at hand: by its own profile or the nearest one's."""

import math

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csr_array

import warploom as wl
from half_profile import (
    BY_DEGREE,
    CORES,
    PLAIN,
    SAME_ORDER,
    SEARCHED,
    VAIN,
    save_half_profile,
    save_order_profile,
    save_search_profile,
)
from overlap_profile import ALIKE, ALONE, save_overlap_profile
from products import assert_product, operand, vector
from warploom import corpus

MATRICES = {
    "grid": "grid2d(nx=120,ny=120)",
    "power law": "power_law(n=9001,degree=9,seed=2)",
    "long rows": "dense_rows(n=4001,count=9)",
    "hypersparse": "hypersparse(m=20001,n=20001,nonempty=200,per_row=20)",
    "rectangular": "linear_program(rows=3001,columns=6001,dense_columns=2)",
}


def load(name, dtype):
    matrix = corpus.load(MATRICES[name])
    return csr_array(
        (np.random.default_rng(0).uniform(-1, 1, matrix.nnz).astype(dtype), matrix.indices, matrix.indptr),
        shape=matrix.shape,
    )


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_spmv(name, dtype, cache):
    matrix = load(name, dtype)
    plan = wl.plan(matrix, op="spmv", device="cuda", cache=cache)
    assert "predicted for" in plan.explain().title
    assert plan.explain().chosen == plan.candidate
    x = vector(matrix.shape[1], dtype)
    assert_product(matrix, x[:, None], (plan @ x)[:, None])


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("k", [8, 100])
def test_spmm(name, dtype, layout, k):
    matrix = load(name, dtype)
    plan = wl.plan(matrix, k=k, layout=layout, device="cuda")
    assert "predicted for" in plan.explain().title
    B = operand((matrix.shape[1], k), dtype, layout)
    assert_product(matrix, B, plan @ B)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_column_vectors_decide_in_half_precision(dtype, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    save_half_profile(tmp_path, torch.cuda.get_device_name())
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path))
    for matrix, chosen in ((load("grid", "float32"), PLAIN), (rows_in_eights(), CORES)):
        arrays = [torch.as_tensor(part).cuda() for part in (matrix.indptr, matrix.indices, matrix.data)]
        A = wl.CSR(*arrays[:2], arrays[2].to(getattr(torch, dtype)), matrix.shape)
        plan = wl.plan(A, k=32, calls=1)
        assert plan.candidate == chosen
        B = torch.ones(matrix.shape[1], 32, dtype=getattr(torch, dtype), device="cuda")
        expected = matrix @ np.ones((matrix.shape[1], 32))
        assert np.abs((plan @ B).float().cpu().numpy() - expected).max() < 0.2


def test_an_order_that_was_computed_in_vain_serves_the_next_candidate(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    save_order_profile(tmp_path, torch.cuda.get_device_name())
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path))
    matrix = corpus.load("uniform(m=6001,n=6001,per_row=4)").astype(np.float32)
    arrays = [torch.as_tensor(part).cuda() for part in (matrix.indptr, matrix.indices, matrix.data)]
    plan = wl.plan(wl.CSR(*arrays[:2], arrays[2].half(), matrix.shape), k=32, calls=100)
    assert plan.candidate == SAME_ORDER
    (refused,) = (row for row in plan.explain().rows if row.candidate == VAIN)
    assert "would store" in refused.note
    B = torch.ones(matrix.shape[1], 32, dtype=torch.float16, device="cuda")
    expected = matrix @ np.ones((matrix.shape[1], 32))
    assert np.abs((plan @ B).float().cpu().numpy() - expected).max() < 0.2


def shuffled_line(rows):
    order = np.random.default_rng(0).permutation(rows)
    line = csr_array(scipy.sparse.diags_array([np.ones(rows - 1), np.ones(rows - 1)], offsets=[-1, 1]))
    return csr_array(line[order][:, order]).astype(np.float32)


@pytest.mark.parametrize(
    ("rows", "options", "expected"),
    [
        (200, {}, SEARCHED),
        (30_000, {}, BY_DEGREE),  # the search has a level for every other row, and gives up
        (30_000, {"candidates": "spmm/rcm/*"}, SEARCHED),
        (30_000, {"calls": math.inf}, SEARCHED),
    ],
)
def test_orders_that_a_gpu_gives_up_are_passed_over(rows, options, expected, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    save_search_profile(tmp_path, torch.cuda.get_device_name())
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path))
    matrix = shuffled_line(rows)
    arrays = [torch.as_tensor(part).cuda() for part in (matrix.indptr, matrix.indices, matrix.data)]
    plan = wl.plan(wl.CSR(*arrays[:2], arrays[2].half(), matrix.shape), k=32, **options)
    assert plan.candidate == expected
    refused = [row for row in plan.explain().rows if "gave up" in row.note]
    assert len(refused) == (2 if expected == BY_DEGREE else 0)
    B = torch.ones(rows, 32, dtype=torch.float16, device="cuda")
    assert (plan @ B).float().cpu().numpy() == pytest.approx(matrix @ np.ones((rows, 32)))


@pytest.mark.parametrize("calls", [1e5, math.inf])
def test_what_wins_on_large_matrices_is_compared_beyond_the_sizes_of_a_profile(calls, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    save_half_profile(tmp_path, torch.cuda.get_device_name(), sizes={"rows": [100, 1000]})
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path))
    matrix = corpus.load("banded(n=150001,lower=4,upper=4)").astype(np.float32)
    arrays = [torch.as_tensor(part).cuda() for part in (matrix.indptr, matrix.indices, matrix.data)]
    A = wl.CSR(*arrays[:2], arrays[2].half(), matrix.shape)
    plan = wl.plan(A, k=8, calls=calls)
    measured = {row.candidate: row.median_us for row in plan.explain().rows if row.median_us > 0}
    assert {CORES, "spmm/none/padded-csr/row_split", "spmm/none/csr/nonzero_split"} <= set(measured)
    assert measured[plan.candidate] == min(measured.values())
    B = torch.ones(matrix.shape[1], 8, dtype=torch.float16, device="cuda")
    expected = matrix @ np.ones((matrix.shape[1], 8))
    assert np.abs((plan @ B).float().cpu().numpy() - expected).max() < 0.2


def rows_in_eights():
    """Eight rows each are the same."""
    matrix = load("grid", "float32")
    return csr_array(scipy.sparse.kron(matrix[:500], np.ones((8, 1)), format="csr").astype(np.float32))


@pytest.mark.parametrize("on_gpu", [True, False])
def test_hidden_locality_decides(on_gpu, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    save_overlap_profile(tmp_path, torch.cuda.get_device_name())
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path))
    columns = np.random.default_rng(0).permutation(600_000).astype(np.int32)
    indptr = 8 * np.arange(150_001)
    others = np.random.default_rng(1).permutation(columns)
    for second, chosen in ((columns, ALIKE), (others, ALONE)):
        indices = np.r_[columns, second]
        A = csr_array((np.ones(indices.size), indices, indptr), shape=(150_000, 600_000))
        given = wl.CSR(*(torch.as_tensor(part).cuda() for part in (A.indptr, A.indices, A.data)), A.shape)
        plan = wl.plan(given if on_gpu else A, "spmv", device="cuda", calls=1)
        assert plan.candidate == chosen
        assert "decided most by hidden_overlap" in str(plan.explain())
        found = plan @ torch.ones(600_000, dtype=torch.float64, device="cuda")
        assert (found == 8).all()


@pytest.mark.parametrize("name", MATRICES)
def test_verify_is_never_slower_than_the_vendor(name):
    matrix = load(name, "float32")
    plan = wl.plan(matrix, op="spmv", device="cuda", verify=True, calls=math.inf)
    measured = {r.candidate: r.median_us for r in plan.explain().rows if not math.isnan(r.median_us)}
    assert plan.candidate in measured
    assert any("cusparse" in name for name in measured)
    assert measured[plan.candidate] == min(measured.values())


def test_one_call_prepares_nothing_expensive():
    matrix = load("grid", "float64")
    once, often = (wl.plan(matrix, op="spmv", device="cuda", calls=calls) for calls in (1, 1e7))
    rows = {r.candidate: r for r in wl.predict(matrix, "spmv").rows}
    assert rows[once.candidate].preparation_ms <= rows[often.candidate].preparation_ms


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_matrices_of_other_libraries(library):
    matrix = load("grid", "float32")
    x = np.ones(matrix.shape[1], np.float32)
    if library == "torch":
        torch = pytest.importorskip("torch")
        A = torch.sparse_csr_tensor(
            torch.as_tensor(matrix.indptr),
            torch.as_tensor(matrix.indices),
            torch.as_tensor(matrix.data),
            size=matrix.shape,
        ).cuda()
        y = (wl.plan(A, op="spmv") @ torch.as_tensor(x).cuda()).cpu().numpy()
    else:
        cupy = pytest.importorskip("cupy")
        sparse = pytest.importorskip("cupyx.scipy.sparse")
        y = (wl.plan(sparse.csr_matrix(matrix), op="spmv") @ cupy.asarray(x)).get()
    assert_product(matrix, x[:, None], y[:, None])


@pytest.mark.parametrize("select", [f"spmv/none/{k}" for k in ("csr/vector", "csr/merge", "packed-csr/segmented_sum")])
def test_a_plan_does_not_depend_on_the_arrays_it_was_made_from(select):
    torch = pytest.importorskip("torch")
    matrix = load("power law", "float64")
    arrays = [torch.as_tensor(part).cuda() for part in (matrix.indptr, matrix.indices, matrix.data)]
    A = torch.sparse_csr_tensor(*arrays, size=matrix.shape)
    plan = wl.plan(A, op="spmv", select=select)
    A.values().fill_(7.0)
    A.col_indices().fill_(2**31 - 1)
    x = vector(matrix.shape[1], "float64")
    assert_product(matrix, x[:, None], (plan @ torch.as_tensor(x).cuda()).cpu().numpy()[:, None])

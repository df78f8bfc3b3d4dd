"""Row permutations that are computed on the GPU are those that the host computes."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import warploom as wl
from battery import battery
from warploom import _core
from warploom._matrix import as_csr

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


def test_orders_by_load_are_computed_there():
    assert ON_GPU[:3] == ["plain", "flipped", "lpt"]


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

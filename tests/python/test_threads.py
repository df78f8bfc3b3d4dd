"""Threads that use warploom at the same time: really so where Python has no global lock."""

import os
import subprocess
import sys
import sysconfig
import threading

import numpy as np
import pytest
import scipy.sparse

import warploom as wl

THREADS = 8
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

pytestmark = pytest.mark.filterwarnings("ignore:left out")


def matrix(seed, shape=(300, 200)):
    return scipy.sparse.random_array(shape, density=0.05, format="csr", rng=seed)


def together(*works):
    """Call functions in threads that start at the same time; raise what the first of them raised."""
    start, failures = threading.Barrier(len(works)), []

    def run(work):
        try:
            start.wait(60)
            work()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def together_by_number(work):
    together(*(lambda i=i: work(i) for i in range(THREADS)))


def is_one_of(found, expected):
    return any(np.allclose(found, one, rtol=1e-12, atol=1e-14) for one in expected)


@pytest.mark.skipif(not FREE_THREADED, reason="this Python has a global lock")
def test_importing_leaves_the_global_lock_off():
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    script = "import warploom, sys; assert not sys._is_gil_enabled()"
    subprocess.run([sys.executable, "-W", "error", "-c", script], env=environment, check=True, timeout=120)


def test_plans_of_their_own(tmp_path):
    def work(i):
        A = matrix(i)
        B, x = np.random.default_rng(i).random((200, 5)), np.ones(200)
        for select in ("csr/row_split", "segmented-csr/row_split", "dcsr/row_split"):
            plan = wl.plan(A, k=5, device="cpu", select=f"spmm/none/{select}", updatable=True)
            np.testing.assert_allclose(plan @ B, A @ B)
            np.testing.assert_allclose(plan.T @ np.ones((300, 5)), A.T @ np.ones((300, 5)))
            plan.save(tmp_path / f"{i}.safetensors")
            loaded = wl.load_plan(tmp_path / f"{i}.safetensors")
            np.testing.assert_allclose(loaded @ B, A @ B)
            plan.update_values(3 * A.data)
            np.testing.assert_allclose(plan @ B, 3 * (A @ B))
            np.testing.assert_allclose(plan.T @ np.ones((300, 5)), 3 * (A.T @ np.ones((300, 5))))
        operator = wl.plan(A, device="cpu", select="measure", budget=0.01)
        np.testing.assert_allclose(operator @ x, A @ x)
        assert operator.explain()["vector"].chosen == operator.plans["vector"].candidate

    together_by_number(work)


def test_a_plan_that_all_share(tmp_path):
    A = matrix(0)
    B, C = np.random.default_rng(0).random((200, 5)), np.ones((300, 5))
    expected, expected_of_transpose = A @ B, A.T @ C
    for attempt in range(3):
        plan = wl.plan(A, k=5, device="cpu", select="measure", budget=0.05)

        def work(i, plan=plan, attempt=attempt):
            path = tmp_path / f"{attempt}-{i}.safetensors"
            found = plan.explain()  # made by the first who asks
            assert found.chosen == plan.candidate
            np.testing.assert_allclose(plan.T @ C, expected_of_transpose)  # likewise
            plan.save(path)
            np.testing.assert_allclose(wl.load_plan(path) @ B, expected)
            for _ in range(50):
                np.testing.assert_allclose(plan @ B, expected)
                np.testing.assert_allclose(plan(B[:, :3].astype(np.float32)), A @ B[:, :3], rtol=1e-5)

        together_by_number(work)


def test_an_operator_that_all_share():
    A = matrix(1)
    for _ in range(3):
        operator = wl.plan(A, device="cpu", select="measure", budget=0.01)

        def work(i, operator=operator):
            rng = np.random.default_rng(i)
            for k in (1, 2, 3, 5, 9, 17):
                B = rng.random((200, k))
                np.testing.assert_allclose(operator @ B, A @ B)
                np.testing.assert_allclose(operator @ np.asfortranarray(B), A @ B)
                np.testing.assert_allclose(operator @ B[:, 0], A @ B[:, 0])
                np.testing.assert_allclose(operator.T @ (A @ B), A.T @ (A @ B))
                assert operator.nbytes > 0

        together_by_number(work)


@pytest.mark.parametrize(
    "settings",
    [
        {"op": "spmv", "select": "spmv/none/csr/vector"},
        {"op": "spmv", "select": "spmv/none/bsr/*"},
        {},
    ],
    ids=["plan", "plan that is converted again", "operator"],
)
def test_values_change_while_others_multiply(settings):
    """A product is one with the values of one update, whole."""
    A = matrix(2)
    if "bsr" in settings.get("select", ""):  # which adds up entries that repeat
        kernel = next(name for name in wl.candidates("spmv", device="cpu") if "/bsr/" in str(name))
        settings = {**settings, "select": str(kernel)}
        indices = A.indices.copy()
        first = A.indptr[np.flatnonzero(np.diff(A.indptr) > 1)[0]]
        indices[first + 1] = indices[first]
        A = scipy.sparse.csr_array((A.data, indices, A.indptr), shape=A.shape)
    plan = wl.plan(A, device="cpu", updatable=True, **settings)
    x, y = np.random.default_rng(3).random(200), np.ones(300)
    factors = [1.0, -2.0, 3.0, 0.5]
    expected, expected_of_transpose = [f * (A @ x) for f in factors], [f * (A.T @ y) for f in factors]
    plan @ x
    transpose = plan.T
    transpose @ y
    values = [f * A.data for f in factors]

    def work(i):
        for j in range(40):
            if i < 2:
                plan.update_values(values[(i + j) % len(values)])
            elif i < 6:
                assert is_one_of(plan @ x, expected)
                assert plan.nbytes > 0
            else:
                assert is_one_of(transpose @ y, expected_of_transpose)

    together_by_number(work)
    (latest,) = [f for f, product in zip(factors, expected, strict=True) if is_one_of(plan @ x, [product])]
    np.testing.assert_allclose(transpose @ y, latest * (A.T @ y))


FIRST_PRODUCTS = """
import threading
import numpy as np, scipy.sparse, warploom as wl
A = scipy.sparse.eye_array(40, format="csr")
plan = wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector")
start, right = threading.Barrier(8), []

def multiply():
    x = np.ones(40)
    start.wait(60)
    right.append(np.array_equal(plan @ x, x) and np.array_equal(plan @ ([1.0] * 40), x))

threads = [threading.Thread(target=multiply) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert right == [True] * 8
"""


def test_the_first_products_of_a_process():
    subprocess.run([sys.executable, "-c", FIRST_PRODUCTS], check=True, timeout=120)


def test_features_orders_and_formats():
    A = matrix(4, (2000, 2000))
    features = wl.features.spmv(A).values
    order = wl.permutations.compute("rcm", A)
    stored = wl.formats.SELL.from_csr(A).to_csr()

    def work(i):
        for _ in range(3):
            np.testing.assert_array_equal(wl.features.spmv(A).values, features)
            np.testing.assert_array_equal(wl.permutations.compute("rcm", A), order)
            assert (wl.formats.SELL.from_csr(A).to_csr() != stored).nnz == 0

    together_by_number(work)

"""Little memory left on the GPU: every way of planning takes the fastest candidate that fits, and says so."""

import contextlib
import gc
import math
import re
import threading

import numpy as np
import pytest
from scipy.sparse import csr_array

import warploom as wl
from warploom import _core, _device
from warploom.errors import OutOfMemoryError, ShapeError

torch = pytest.importorskip("torch")

MB = 1_000_000
ROWS, PER_ROW = 1_000_000, 12
NEEDED = re.compile(r"\d+ bytes of GPU memory are needed, and \d+ of \d+ are free")


@pytest.fixture(scope="module")
def matrix():
    """96 MB of columns and values, and 4 MB of row offsets."""
    rng = np.random.default_rng(0)
    indices = (np.arange(ROWS)[:, None] + np.sort(rng.integers(0, 50_000, (ROWS, PER_ROW)), axis=1)) % ROWS
    values = rng.standard_normal(ROWS * PER_ROW).astype(np.float32)
    return csr_array((values, indices.astype(np.int32).ravel(), np.arange(ROWS + 1) * PER_ROW), (ROWS, ROWS))


@pytest.fixture(scope="module", autouse=True)
def _kernels_are_loaded(matrix):
    """Make plans of a small matrix first: what is loaded once takes memory as well."""
    small = csr_array(matrix[:3000, :3000])
    for options in ({}, {"select": "measure", "budget": 1}):
        wl.plan(small, "spmv", device="cuda", **options) @ np.ones(3000, np.float32)
        wl.plan(small, "spmm", k=128, device="cuda", **options) @ np.ones((3000, 4), np.float32)


@contextlib.contextmanager
def only(left):
    """Leave so many bytes of the GPU's memory."""
    gc.collect()
    torch.cuda.empty_cache()
    with contextlib.suppress(OutOfMemoryError):  # whereupon nothing is kept for later
        _core.DeviceMemory(0, 1 << 50)
    held = torch.empty(torch.cuda.mem_get_info()[0] - left, dtype=torch.uint8, device="cuda")
    try:
        yield
    finally:
        del held
        torch.cuda.empty_cache()


def check(plan, matrix, columns=None):
    """Multiply, and compare some rows with float64 sums."""
    rng = np.random.default_rng(1)
    B = rng.standard_normal(ROWS if columns is None else (ROWS, columns)).astype(np.float32)
    some = slice(ROWS - 2000, ROWS)
    expected = matrix[some].astype(np.float64) @ B.astype(np.float64)
    found = (plan @ B)[some]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * PER_ROW * 25)
    assert str(plan.explain())


WAYS = {
    "predicted": {},
    "predicted at any price": {"calls": math.inf},
    "verified": {"verify": True},
    "measured": {"select": "measure", "budget": 1},
    "measured, cold": {"select": "measure", "budget": 1, "cache": "cold"},
    "a list": {"candidates": ["spmv/none/csr/*", "spmv/none/compressed-sell/*"]},
    "a list, measured": {"candidates": ["spmv/none/csr/*", "spmv/none/compressed-sell/*"], "select": "measure"},
    "named": {"select": "spmv/none/csr/vector"},
    "updatable": {"updatable": True},
}


@pytest.mark.parametrize("way", WAYS)
def test_260_mb_are_enough_for_96(matrix, way):
    with only(260 * MB):
        check(wl.plan(matrix, "spmv", device="cuda", **WAYS[way]), matrix)


@pytest.mark.parametrize("way", ["predicted", "measured", "a list", "a list, measured"])
def test_260_mb_are_enough_for_96_beside_a_tensor(matrix, way):
    arrays = [torch.from_numpy(a).cuda() for a in (matrix.indptr.astype(np.int32), matrix.indices, matrix.data)]
    there = torch.sparse_csr_tensor(*arrays, size=matrix.shape)
    with only(260 * MB):
        check(wl.plan(there, "spmv", device="cuda", **WAYS[way]), matrix)


@pytest.mark.parametrize("options", [{}, {"calls": math.inf}, {"select": "measure"}, {"candidates": "spmm/none/csr/*"}])
def test_operands_that_do_not_fit(matrix, options):
    """B and C of 128 columns take 1 GB: nothing can be measured, and the prediction holds."""
    with only(260 * MB):
        plan = wl.plan(matrix, "spmm", k=128, device="cuda", **options)
        check(plan, matrix, columns=4)
        if options.get("select") == "measure":
            assert "predicted only, as measuring takes more memory than there is" in " ".join(plan.explain().footnotes)


LIST = ["spmv/none/compressed-sell/*", "spmv/none/csr/vector"]


@pytest.mark.parametrize("select", ["predict", "measure"])
def test_what_does_not_fit_is_said(matrix, select):
    """CSR takes 100 MB and is what kernels on CSR read; another format does not fit beside it."""
    with only(140 * MB):
        plan = wl.plan(matrix, "spmv", device="cuda", select=select, candidates=LIST)
        assert plan.candidate == "spmv/none/csr/vector"
        check(plan, matrix)
        explanation = plan.explain()
        others = [row for row in explanation.rows if "/compressed-sell/" in row.candidate]
    if select == "measure":
        assert "not fit into memory" in " ".join(explanation.footnotes)
        assert others
        assert all(NEEDED.search(row.note) for row in others)


@pytest.mark.parametrize("select", ["predict", "measure", "spmv/none/compressed-sell/vector"])
def test_if_none_fits_the_error_says_what_is_needed(matrix, select):
    one = {} if "/" in select else {"candidates": "spmv/none/compressed-sell/*"}
    with only(140 * MB), pytest.raises(OutOfMemoryError, match=NEEDED.pattern):
        wl.plan(matrix, "spmv", device="cuda", select=select, **one)
    with only(50 * MB), pytest.raises(OutOfMemoryError, match=NEEDED.pattern):
        wl.plan(matrix, "spmv", device="cuda", select=select, **one)
    check(wl.plan(matrix, "spmv", device="cuda", select=select, **one), matrix)


def test_products_and_conversions_that_do_not_fit(matrix):
    plan = wl.plan(matrix, "spmm", k=128, device="cuda", select="spmm/none/csr/row_split")
    with only(200 * MB), pytest.raises(OutOfMemoryError, match=NEEDED.pattern):
        plan @ np.ones((ROWS, 128), np.float32)
    check(plan, matrix, columns=4)


def test_threads_that_have_ended_hold_no_memory_of_cusparse():
    if reason := _device.load_cusparse():
        pytest.skip(f"no cuSPARSE: {reason}")
    A = csr_array(np.eye(1000, dtype=np.float32))
    plan = wl.plan(A, "spmv", device="cuda", select="spmv/none/csr/cusparse")
    x = np.ones(1000, np.float32)
    free = []
    for _ in range(40):
        thread = threading.Thread(target=lambda: plan @ x)
        thread.start()
        thread.join()
        free.append(torch.cuda.mem_get_info()[0])
    assert free[3] - free[-1] < 8 * MB


def test_sampled_products_of_rows_that_are_too_long():
    """Here, because tests beside this one may have taken the 4 GiB for a moment."""
    plan = wl.sddmm_plan(csr_array([[1.0]]), device="cuda")
    x = torch.empty((1, 2**30), dtype=torch.float32, device="cuda")
    with pytest.raises(ShapeError, match="rows of less than 4 GiB") as caught:
        plan(x, x)
    assert caught.value.argument == "X"

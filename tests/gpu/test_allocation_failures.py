"""Memory of the GPU that is refused, once at each allocation: a clean error or the next best, and nothing leaked."""

import contextlib
import gc

import numpy as np
import pytest
import scipy.sparse

import warploom as wl
from products import assert_product
from warploom import _core
from warploom._matrix import as_csr
from warploom.candidates import kernels, parse
from warploom.errors import OutOfMemoryError, ParameterError

torch = pytest.importorskip("torch")

MOST = 400
"""Allocations that an operation may make."""

RANDOM = np.random.default_rng(0)
A = scipy.sparse.random_array((700, 600), density=0.02, format="csr", rng=1, dtype=np.float32)


def device_matrix(matrix=A):
    arrays = (torch.from_numpy(np.asarray(a)).cuda() for a in (matrix.indptr, matrix.indices, matrix.data))
    return torch.sparse_csr_tensor(*arrays, size=matrix.shape)


def vector(matrix=A):
    return RANDOM.random(matrix.shape[1], dtype=np.float32)


def free_bytes():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0]


def fail_each(operation, check):
    """Run an operation with its first, second, third, ... allocation refused, until none is left to be."""
    operation()  # what is made once and kept
    for failures in range(MOST):
        _core.fail_device_allocation(failures + 1)
        made = None
        with contextlib.suppress(OutOfMemoryError, torch.OutOfMemoryError):
            made = operation()
        failed = _core.fail_device_allocation(0)
        if made is not None:
            check(made)
        if not failed:
            return failures
    raise AssertionError(f"more than {MOST} allocations")


CANDIDATES = [
    f"{op}/none/{kernel.format}/{kernel.name}" for op in ("spmv", "spmm") for kernel in kernels(op) if not kernel.inputs
]


@pytest.mark.parametrize("where", ["host", "device"])
@pytest.mark.parametrize("candidate", CANDIDATES)
def test_every_candidate(candidate, where):
    op = candidate.partition("/")[0]
    matrix = A if where == "host" else device_matrix()
    operand = vector() if op == "spmv" else RANDOM.random((A.shape[1], 8), dtype=np.float32)

    def make():
        plan = wl.plan(matrix, op, k=None if op == "spmv" else 8, device="cuda", select=candidate)
        return plan @ operand

    try:
        before = make()
    except ParameterError as refused:
        pytest.skip(str(refused))
    del before
    free = free_bytes()
    failures = fail_each(
        make,
        lambda product: assert_product(
            A, operand.reshape(600, -1), product.reshape(700, -1), precision=parse(candidate).kernel.precision
        ),
    )
    assert failures > 0
    assert free - free_bytes() < 4 << 20


OPERATIONS = {
    "predicted": lambda: wl.plan(device_matrix(), "spmv", device="cuda") @ vector(),
    "measured": lambda: (
        wl.plan(device_matrix(), "spmv", device="cuda", select="measure", candidates="spmv/none/csr/*") @ vector()
    ),
    "permuted": lambda: wl.plan(device_matrix(), "spmv", device="cuda", select="spmv/lpt/csr/vector") @ vector(),
    "in an order for locality": lambda: (
        wl.plan(device_matrix(), "spmv", device="cuda", select="spmv/rcm/csr/vector") @ vector()
    ),
    "transposed": lambda: wl.plan(device_matrix(), "spmv", device="cuda").T @ RANDOM.random(700, dtype=np.float32),
    "features": lambda: wl.features.spmm(device_matrix()),
    "updated": lambda: wl.plan(device_matrix(), "spmv", device="cuda", updatable=True).update_values(
        torch.from_numpy(A.data).cuda()
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    OPERATIONS[name]()
    free = free_bytes()
    fail_each(OPERATIONS[name], lambda made: None)
    assert free - free_bytes() < 4 << 20
    # The next call works.
    y = wl.plan(device_matrix(), "spmv", device="cuda") @ (x := vector())
    assert_product(A, x[:, None], y[:, None])


@pytest.mark.parametrize("name", ["rcm", "community"])
@pytest.mark.parametrize("matrix", [A, scipy.sparse.csr_array(A @ A.T)], ids=["rectangular", "symmetric"])
def test_an_order_is_computed_on_the_host_instead(matrix, name):
    resident = _core.Problem(as_csr(matrix), "spmv", 1, "column", "warm", 0).resident()
    expected = _core.compute_permutation(name, as_csr(matrix), 32, 32, 32)
    failures = fail_each(
        lambda: _core.compute_permutation_on_gpu(name, resident),
        lambda made: np.testing.assert_array_equal(made, expected),
    )
    assert failures > 20  # those of the second search are among them

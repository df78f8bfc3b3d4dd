"""Random CSR matrices in GPU memory through every registered kernel, in every layout and value type.

Each test draws a few matrices, the same every time, with a row order, parameters and a number of columns. They are what
a caller may hand over: without rows or columns, with empty rows, with columns that are not sorted and that repeat.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import warploom as wl
from battery import typed
from products import ORDER, assert_product, operand, tensor_of
from strategies import csr_matrices
from warploom import _bfloat16, _device
from warploom.candidates import Candidate, kernels

torch = pytest.importorskip("torch", minversion="2.5")

import warploom.torch as wt  # noqa: E402

CASES = [
    pytest.param(kernel, layout, dtype, id=f"{op}-{kernel.format}-{kernel.name}-{layout}-{dtype}")
    for op in ("spmv", "spmm")
    for kernel in kernels(op)
    if "cuda" in kernel.devices
    for layout in (kernel.layouts if op == "spmm" else ("column",))
    for dtype in kernel.dtypes
]
ORDERS = ["none", "lpt", "flipped", "rcm", "community"]  # which a GPU computes, too


def few(examples):
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    return settings(max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=checks)


@st.composite
def matrices(draw):
    """Draw a small matrix, its rows repeated so that there are more of them than a thread block takes, or not."""
    A = draw(csr_matrices(dtypes=(np.float32,)))
    times = draw(st.sampled_from([1, 2, 40, 300]))
    indptr = np.concatenate([[0], np.cumsum(np.tile(np.diff(A.indptr), times))]).astype(np.int32)
    return csr_array(
        (np.tile(A.data, times), np.tile(A.indices, times), indptr), shape=(A.shape[0] * times, A.shape[1])
    )


def resident(A, device):
    """Return the matrix in the memory of the device; one without rows, columns or nonzeros has no memory there."""
    if A.nnz == 0:
        return A
    arrays = (tensor_of(np.ascontiguousarray(a)).to(device) for a in (A.indptr, A.indices, A.data))
    return wl.CSR(*arrays, shape=A.shape)


def draw_candidate(draw, kernel):
    order = draw(st.sampled_from(ORDERS)) if kernel.permutes else "none"
    parameters = {p.name: draw(st.sampled_from(list(p.values))) for p in kernel.parameters if draw(st.booleans())}
    return Candidate.make(kernel, order, parameters).name


def check_products(data, kernel, layout, dtype, device):
    """Multiply with a random matrix, twice; return whether the kernel takes the matrix."""
    A = typed(data.draw(matrices()), _bfloat16.as_dtype(dtype))
    name = draw_candidate(data.draw, kernel)
    spmv = kernel.op == "spmv"
    k = 1 if spmv else data.draw(st.sampled_from([1, 2, 3, 7, 8, 31, 32, 33, 64, 100]))
    shape = {} if spmv else {"k": k, "layout": layout}
    try:
        plan = wl.plan(resident(A, device), kernel.op, device=device, select=name, **shape)
    except wl.errors.ParameterError:
        return False
    B = operand((A.shape[1], k), _bfloat16.as_dtype(dtype), layout, seed=k)
    there = tensor_of(B[:, 0].copy() if spmv else B).to(device)
    results = [_bfloat16.of_tensor((plan @ there).cpu()).reshape(A.shape[0], k) for _ in range(2)]
    for C in results:
        assert_product(A, B, np.asarray(C, order=ORDER[layout]), vendor=kernel.vendor, precision=kernel.precision)
    if kernel.reproducible:
        assert results[0].tobytes() == results[1].tobytes()
    return True


def check_gradients(data, kernel, layout, device):
    """Differentiate a product of small whole numbers, whose gradients no order of summation rounds."""
    A = data.draw(matrices())
    name = draw_candidate(data.draw, kernel)
    spmv = kernel.op == "spmv"
    k = 1 if spmv else data.draw(st.sampled_from([1, 3, 8, 17, 32]))
    shape = {} if spmv else {"k": k, "layout": layout}
    try:
        plan = wl.plan(resident(A, device), kernel.op, device=device, select=name, updatable=True, **shape)
    except wl.errors.ParameterError:
        return False
    rng = np.random.default_rng(k)
    X, W = (rng.integers(-3, 4, (rows, k)).astype(np.float32) for rows in A.shape[::-1])
    x = torch.from_numpy(X).to(device).requires_grad_()
    values = torch.from_numpy(A.data.copy()).to(device).requires_grad_()
    (wt.spmm(plan, x, values) * torch.from_numpy(W).to(device)).sum().backward()
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    np.testing.assert_array_equal(x.grad.cpu().numpy(), A.T.astype(np.float64) @ W)
    np.testing.assert_array_equal(values.grad.cpu().numpy(), (W[rows] * X[A.indices]).sum(axis=1))
    return True


def skip_without_library(kernel):
    if kernel.vendor and (reason := _device.load_cusparse()):
        pytest.skip(f"no cuSPARSE: {reason}")


@pytest.mark.parametrize(("kernel", "layout", "dtype"), CASES)
def test_products(kernel, layout, dtype):
    skip_without_library(kernel)

    @few(4)
    @given(data=st.data())
    def products(data):
        check_products(data, kernel, layout, dtype, "cuda")

    products()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what PyTorch imports
@pytest.mark.parametrize(("kernel", "layout", "dtype"), [case for case in CASES if case.values[2] == "float32"])
def test_gradients(kernel, layout, dtype):
    skip_without_library(kernel)

    @few(2)
    @given(data=st.data())
    def gradients(data):
        check_gradients(data, kernel, layout, "cuda")

    gradients()

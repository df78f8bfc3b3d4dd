"""The fast path of a product: what it takes, what it leaves, and that nobody can tell the difference."""

import gc
import sys
import threading

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

import warploom as wl
from products import ORDER, assert_product, operand

M, N, K = 60, 45, 8
CASES = [(layout, np.dtype(dtype)) for layout in ("row", "column") for dtype in (np.float32, np.float64)]


def matrix(dtype, shape=(M, N)):
    return csr_array(random_array(shape, density=0.15, rng=np.random.default_rng(0), format="csr")).astype(dtype)


def make(layout="row", dtype=np.float64, **options):
    return wl.plan(
        matrix(dtype), layout=layout, **{"k": K, "device": "cpu", "select": "spmm/none/csr/row_split"} | options
    )


def make_spmv(dtype=np.float64):
    values = matrix(np.float32)
    return wl.plan(values, "spmv", dtype=dtype, device="cpu", select="spmv/none/csr/scalar")


def outcome(call, *arguments):
    """Describe a result or an error, so that two of them can be compared."""
    try:
        result = call(*arguments)
    except wl.errors.WarploomError as error:
        return type(error), error.argument, str(error)
    strides = result.strides if isinstance(result, np.ndarray) else result.stride()
    # A dimension of one element may have any stride.
    strides = [stride for stride, size in zip(strides, result.shape, strict=True) if size > 1]
    return type(result), result.dtype, tuple(result.shape), strides, np.asarray(result).tobytes()


def assert_taken(plan, B, out=None):
    """The fast path multiplies, with the outcome of the complete path."""
    expected = outcome(plan._multiply, B, None)
    result = plan._fast_path(B, out)
    assert result is not NotImplemented
    if out is not None:
        assert result is out
        np.testing.assert_array_equal(np.asarray(out), np.asarray(plan._multiply(B, None)))
    else:
        assert outcome(lambda: result) == expected
        assert outcome(plan.__matmul__, B) == expected
    return result


def assert_left(plan, B, out=None):
    """The fast path leaves the operands to the complete path, whose outcome is the plan's."""
    assert plan._fast_path(B, out) is NotImplemented
    expected = outcome(plan._multiply, B, out)
    assert outcome(plan, B, out) == expected
    return expected


# ----- NumPy -----


@pytest.mark.parametrize(("layout", "dtype"), CASES)
def test_matrices_in_the_layout_of_the_plan_are_taken(layout, dtype):
    plan = make(layout, dtype)
    other = "column" if layout == "row" else "row"
    for k in (K, 3):
        tight = operand((N, k), dtype, layout)
        padded = operand((N + 3, k + 5), dtype, layout)[1 : N + 1, 2 : k + 2]
        for B in (tight, padded):
            C = assert_taken(plan, B)
            assert type(C) is np.ndarray
            assert C.flags.c_contiguous if layout == "row" else C.flags.f_contiguous
            assert_product(matrix(dtype), B, C)
            assert_taken(plan, B, np.empty((M, k), dtype, order=ORDER[layout]))
        assert_left(plan, operand((N, k), dtype, other))
        assert_left(plan, tight[::-1])
        assert_left(plan, operand((2 * N, 3 * k), dtype, layout)[::2, ::3])
        assert_left(plan, np.broadcast_to(tight[:, :1], (N, k)))
        assert_left(plan, np.broadcast_to(tight[:1], (N, k)))
    one = operand((N, 1), dtype, other)
    assert_taken(plan, one)
    assert_taken(plan, one, np.empty((M, 1), dtype))
    assert_left(plan, tight[:, :0])


@pytest.mark.parametrize(("layout", "dtype"), CASES)
def test_vectors_are_taken(layout, dtype):
    plan = make(layout, dtype)
    whole = operand((N, 4), dtype, "row")
    x = whole[:, 0].copy()
    y = assert_taken(plan, x)
    assert y.shape == (M,)
    assert_product(matrix(dtype), x[:, None], y[:, None])
    assert_taken(plan, x, np.empty(M, dtype))
    strided = whole[:, 1]
    room = np.empty((M, 3), dtype)
    if layout == "row":  # a column of a matrix of rows
        assert_taken(plan, strided)
        assert_taken(plan, x, room[:, 1])
    else:
        assert_left(plan, strided)
        assert assert_left(plan, x, room[:, 1])[0] is wl.errors.ShapeError
    assert_left(plan, whole[::-1, 2])
    assert_left(plan, np.broadcast_to(x[:1], N))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_spmv(dtype):
    plan = make_spmv(dtype)
    x = operand((N, 1), dtype, "column")[:, 0]
    assert assert_taken(plan, x).dtype == dtype
    assert_taken(plan, x, np.empty(M, dtype))
    assert_taken(plan, x[:, None])
    assert_left(plan, operand((2 * N, 1), dtype, "column")[::2, 0])
    assert assert_left(plan, operand((N, 2), dtype, "column"))[0] is wl.errors.ShapeError


@pytest.mark.parametrize("layout", ["row", "column"])
def test_out_within_a_larger_array(layout):
    plan = make(layout)
    held = np.full((M + 2, K + 3), 7.0, order=ORDER[layout])
    B = operand((N, K), np.float64, layout)
    assert_taken(plan, B, held[1 : M + 1, 2 : K + 2])
    held[1 : M + 1, 2 : K + 2] = 7.0
    assert (held == 7.0).all()


def test_pickled_arrays_and_types_with_metadata_are_as_good():
    import pickle

    plan = make()
    B = operand((N, K), np.float64, "row")
    assert_taken(plan, pickle.loads(pickle.dumps(B)))
    assert_taken(plan, B.view(np.dtype(np.float64, metadata={"unit": "m"})))


class Labelled(np.ndarray):
    """A subclass that changes nothing."""


ODD_OPERANDS = {
    "nested list": lambda B: B.tolist(),
    "rows": lambda B: B[:-1],
    "transposed": lambda B: B.T,
    "three dimensions": lambda B: B[None],
    "no dimension": lambda B: np.float64(1),
    "0-d": lambda B: np.array(1.0),
    "none": lambda B: None,
    "string": lambda B: "B",
    "float32": lambda B: B.astype(np.float32),
    "float16": lambda B: B.astype(np.float16),
    "int64": lambda B: B.astype(np.int64),
    "longdouble": lambda B: B.astype(np.longdouble),
    "complex": lambda B: B.astype(complex),
    "object": lambda B: B.astype(object),
    "datetime": lambda B: B.astype("datetime64[s]"),
    "byte order": lambda B: B.astype(B.dtype.newbyteorder()),
    "record": lambda B: np.zeros((N, K), [("x", np.float64)]),
    "misaligned": lambda B: np.frombuffer(b"\0" + B.tobytes(), np.uint8)[1:].view(np.float64).reshape(N, K),
    "strides off by half": lambda B: np.zeros((N, 2 * K + 1), np.float32)[:, : 2 * K].view(np.float64),
    "subclass": lambda B: B.view(Labelled),
    "np.matrix": lambda B: np.asmatrix(B),
    "masked": lambda B: np.ma.masked_less(B, 0),
    "short vector": lambda B: B[:-1, 0].copy(),
    "sparse": scipy.sparse.csr_array,
}


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning", "ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("odd", ODD_OPERANDS)
def test_odd_operands_are_left_as_B_and_as_out(odd, layout):
    plan = make(layout)
    B = operand((N, K), np.float64, layout)
    assert_left(plan, ODD_OPERANDS[odd](B))
    square = wl.plan(csr_array(np.eye(N)), k=K, layout=layout, device="cpu", select="spmm/none/csr/row_split")
    out = ODD_OPERANDS[odd](B.copy(order="K"))
    if out is not None:
        assert square._fast_path(B, out) is NotImplemented


@pytest.mark.parametrize("layout", ["row", "column"])
def test_bad_out_is_left(layout):
    plan = make(layout)
    order = ORDER[layout]
    B = operand((N, K), np.float64, layout)
    read_only = np.empty((M, K), order=order)
    read_only.flags.writeable = False
    both = operand((M, 12), np.float64, "row")
    for bad, x, kind in (
        (np.empty((M - 1, K), order=order), B, wl.errors.ShapeError),
        (np.empty((M, K - 1), order=order), B, wl.errors.ShapeError),
        (np.empty((M + 1, K), order=order), B, wl.errors.ShapeError),
        (np.empty(M), B, wl.errors.ShapeError),
        (np.empty((M, 1)), B[:, 0].copy(), wl.errors.ShapeError),
        (np.empty((M, K), order="F" if order == "C" else "C"), B, wl.errors.ShapeError),
        (np.empty((M, K), np.float32, order=order), B, wl.errors.DtypeError),
        (read_only, B, wl.errors.ParameterError),
        (np.broadcast_to(np.empty((M, 1)), (M, K)), B, wl.errors.ShapeError),
    ):
        assert assert_left(plan, x, bad)[0] is kind
    if layout == "row":
        assert assert_left(plan, both[:N, :K], both[:, 4:])[0] is wl.errors.ParameterError
        assert assert_left(plan, both[:N, :6], both[:, 6:])[0] is np.ndarray  # they interleave, and share nothing
    buffer = np.zeros((N + M) * K)
    B, out = buffer[: N * K].reshape(N, K, order=order), buffer[N * K :].reshape(M, K, order=order)
    assert_taken(plan, B, out)  # side by side
    overlapping = buffer[N * K - 1 : -1].reshape(M, K, order=order)
    assert assert_left(plan, B, overlapping)[0] is wl.errors.ParameterError


@pytest.mark.parametrize("shape", [(0, N), (M, 0), (0, 0)])
def test_empty_matrices_are_left(shape):
    plan = wl.plan(csr_array(shape), k=3, device="cpu", select="spmm/none/csr/row_split")
    assert_left(plan, np.ones((shape[1], 3)))
    assert_left(plan, np.ones(shape[1]))


@st.composite
def views(draw, rows, columns, layout, item):
    """Shape, strides, offset and buffer size of an operand as a plan wants it, but for a change or two."""
    size, offset = np.dtype(item).itemsize, 0
    shape = [rows, columns]
    strides = [size * columns, size] if layout == "row" else [size, size * rows]
    if draw(st.integers(0, 3)) == 0:
        shape, strides = [rows], [size]
    for change in draw(st.lists(st.sampled_from(["shape", "scale", "pad", "stride", "turn", "offset"]), max_size=2)):
        which = draw(st.integers(0, len(shape) - 1))
        if change == "shape":
            shape[which] = max(shape[which] + draw(st.sampled_from([-2, -1, 1])), 0)
        elif change == "scale":
            strides = [stride * draw(st.sampled_from([2, 0, -1])) for stride in strides]
        elif change == "pad":
            longest = strides.index(max(strides, key=abs))
            strides[longest] += draw(st.sampled_from([size, 2 * size, size // 2, 1]))
        elif change == "stride":
            strides[which] += draw(st.sampled_from([size, -size, 1]))
        elif change == "turn":
            strides.reverse()
        else:
            offset += draw(st.sampled_from([size, size // 2, 1]))
    reach = [max(extent - 1, 0) * stride for extent, stride in zip(shape, strides, strict=True)]
    first, last = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
    return tuple(shape), tuple(strides), offset - first, offset + last - first + size


@settings(max_examples=400, deadline=None)
@given(data=st.data(), layout=st.sampled_from(["row", "column"]), shared=st.booleans())
def test_whatever_is_taken_has_the_outcome_of_the_complete_path(data, layout, shared):
    item = data.draw(st.sampled_from([np.float64] * 9 + [np.float32]))
    m, n, k = 5, 4, 3
    plan = wl.plan(matrix(np.float64, (m, n)), k=k, layout=layout, device="cpu", select="spmm/none/csr/row_split")
    B_shape, B_strides, B_offset, B_bytes = data.draw(views(n, k, layout, item))
    C_shape, C_strides, C_offset, C_bytes = data.draw(views(m, k, layout, item))
    between = data.draw(st.sampled_from([0, 8, 40, max(B_bytes - 8, 0)])) if shared else B_bytes + -B_bytes % 8

    def multiply(call, with_out):
        values = np.arange((between + B_bytes + C_bytes) // 8 + 2, dtype=np.float64)
        B = np.ndarray(B_shape, item, values, B_offset, B_strides)
        if not with_out:
            return call(B, None)
        result = call(B, np.ndarray(C_shape, item, values, between + C_offset, C_strides))
        return result if result is NotImplemented else (result, values)

    def compared(result):
        if result is None or isinstance(result, np.ndarray):
            return outcome(lambda: result)
        return outcome(lambda: result[0]), result[1].tobytes()

    with np.errstate(all="ignore"):
        for with_out in (False, True):
            fast = multiply(plan._fast_path, with_out)
            if fast is not NotImplemented:
                assert compared(fast) == compared(multiply(plan._multiply, with_out))


# ----- torch on the CPU -----


@pytest.mark.parametrize(("layout", "dtype"), CASES)
def test_torch_operands_are_taken(layout, dtype):
    torch = pytest.importorskip("torch", minversion="2.10")
    plan = make(layout, dtype)

    def given_as(values):
        return torch.from_numpy(values)

    for k in (K, 3, 1):
        tight = operand((N, k), dtype, layout)
        padded = operand((N + 3, k + 5), dtype, layout)[1 : N + 1, 2 : k + 2]
        for B in (tight, padded):
            C = assert_taken(plan, given_as(B))
            assert type(C) is torch.Tensor
            assert C.shape == (M, k)
            assert not C.requires_grad
            assert C.is_contiguous() if layout == "row" else C.t().is_contiguous()
            np.testing.assert_array_equal(C.numpy(), plan @ B)
            room = given_as(np.full((M + 2, k + 3), 7, dtype, order=ORDER[layout]))
            assert_taken(plan, given_as(B), room[1 : M + 1, 2 : k + 2])
            room[1 : M + 1, 2 : k + 2] = 7
            assert (room == 7).all()
    x = given_as(operand((N, 1), dtype, "row"))[:, 0].clone()
    assert assert_taken(plan, x).shape == (M,)
    assert_taken(plan, x, torch.empty(M, dtype=x.dtype))
    other = operand((N, K), dtype, "column" if layout == "row" else "row")
    assert_left(plan, given_as(other))
    assert_left(plan, given_as(other)[:, :0])
    assert_left(plan, given_as(other)[:1].expand(N, K))
    assert assert_left(plan, given_as(other)[None])[0] is wl.errors.ShapeError


def test_torch_float16():
    torch = pytest.importorskip("torch", minversion="2.10")
    plan = make_spmv(np.float16)
    x = torch.linspace(-1, 1, N, dtype=torch.float16)
    assert assert_taken(plan, x).dtype == torch.float16
    assert assert_left(plan, x.to(torch.bfloat16))[0] is wl.errors.DtypeError


def test_odd_torch_operands_are_left():
    torch = pytest.importorskip("torch")
    plan = make()
    B = torch.randn(N, K, dtype=torch.float64)
    out = torch.empty(M, K, dtype=torch.float64)

    class Named(torch.Tensor):
        pass

    leaf = B.clone().requires_grad_()
    frozen = torch.nn.Parameter(B.clone(), requires_grad=False)
    minus = torch._neg_view(B)  # B's memory, to be read with the other sign
    assert minus.is_neg()
    assert minus.is_contiguous()
    converted = (B.to(torch.float32), B.to(torch.bfloat16), B.to(torch.complex128))
    for odd in (B.as_subclass(Named), frozen, torch.complex(B, B).conj().imag, minus, *converted):
        assert assert_left(plan, odd)[0] is torch.Tensor
    torch.testing.assert_close(plan @ minus, -(plan @ B))
    assert assert_left(plan, B, torch._neg_view(out))[0] is wl.errors.ShapeError
    for bad, kind in (
        (leaf, wl.errors.ParameterError),
        (2 * leaf, wl.errors.ParameterError),
        (torch.nn.Parameter(B.clone()), wl.errors.ParameterError),
        (B.to_sparse(), wl.errors.DtypeError),
        (torch.zeros(N, K, dtype=torch.float64, device="meta"), wl.errors.DeviceError),
        (B[:-1], wl.errors.ShapeError),
    ):
        assert assert_left(plan, bad)[0] is kind
    with torch.no_grad():
        assert assert_left(plan, leaf)[0] is torch.Tensor
    of_out = torch.zeros(M, K, dtype=torch.float64, requires_grad=True)
    assert assert_left(plan, B, of_out)[0] is wl.errors.ParameterError
    assert assert_left(plan, B, out[:, :-1])[0] is wl.errors.ShapeError
    both = torch.randn(M, 12, dtype=torch.float64)
    assert assert_left(plan, both[:N, :K], both[:, 4:])[0] is wl.errors.ParameterError
    # Of different kinds: the complete path knows.
    assert_left(plan, B, out.numpy())
    assert_left(plan, B.numpy(), out)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what torch.func imports
def test_derivatives_are_not_lost_in_any_mode():
    torch = pytest.importorskip("torch")
    forward_ad = torch.autograd.forward_ad
    plan = make_spmv(np.float64)
    x = torch.linspace(-1, 1, N, dtype=torch.float64)
    out = torch.empty(M, dtype=torch.float64)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        assert assert_left(plan, dual)[0] is wl.errors.ParameterError
        assert assert_left(plan, x, forward_ad.make_dual(out, torch.ones_like(out)))[0] is wl.errors.ParameterError
        torch.testing.assert_close(plan @ x, plan._multiply(x, None))
    assert_taken(plan, x)
    for transformed in (
        lambda: torch.func.grad(lambda v: (plan @ v).sum())(x),
        lambda: torch.func.jvp(lambda v: plan @ v, (x,), (x,)),
        lambda: torch.vmap(lambda v: plan @ v)(x.repeat(3, 1)),
    ):
        with pytest.raises(wl.errors.ParameterError) as refused:
            transformed()
        assert refused.value.argument == "B"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what torch.func imports
def test_modes_of_torch():
    torch = pytest.importorskip("torch", minversion="2.10")
    plan = make()
    B = torch.randn(N, K, dtype=torch.float64)
    expected = plan._multiply(B, None)
    with torch.inference_mode():
        assert assert_taken(plan, B).is_inference()
    torch.set_default_device("meta")
    try:
        torch.testing.assert_close(assert_taken(plan, B), expected, rtol=0, atol=0)
    finally:
        torch.set_default_device(None)
    seen = []

    def by_sample(b):
        seen.append(plan._fast_path(b, None))
        return b

    torch.func.vmap(by_sample)(torch.randn(2, N, K, dtype=torch.float64))
    torch.func.grad(lambda b: by_sample(b).sum())(B)
    torch.func.jvp(by_sample, (B,), (B,))
    assert seen == [NotImplemented] * 3


def test_memory_of_a_torch_result_is_that_of_torch():
    """It can be resized, and torch's allocators know it; memory that is only borrowed from a capsule would not do."""
    torch = pytest.importorskip("torch", minversion="2.10")
    plan = make()
    C = plan._fast_path(torch.randn(N, K, dtype=torch.float64), None)
    assert C.untyped_storage().resizable()


# ----- the function -----


def test_errors_while_the_result_is_allocated_are_those_of_the_framework():
    plan = wl.plan(csr_array((2_000_000, 1), dtype=np.float32), k=1, device="cpu", select="spmm/none/csr/row_split")
    B = np.zeros((1, 10_000_000), np.float32)
    for call in (plan._fast_path, plan._multiply):
        with pytest.raises(MemoryError):
            call(B, None)
    torch = pytest.importorskip("torch", minversion="2.10")
    for call in (plan._fast_path, plan._multiply):
        with pytest.raises(RuntimeError, match="memory"):
            call(torch.from_numpy(B), None)


def test_nothing_is_kept_of_operands():
    plan = make()
    B = operand((N, K), np.float64, "row")
    out = np.empty((M, K))
    objects = [B, out, np.ndarray, np.dtype(np.float64), NotImplemented, None]
    operands = [(B, None), (B, out), (B.T, None), (B, out.T), (None, None), ([1], out)]
    try:
        import torch
    except ImportError:
        pass
    else:
        b, c = torch.from_numpy(B), torch.from_numpy(out)
        objects += [b, c, torch.Tensor, torch.strided]
        operands += [(b, None), (b, c), (b.t(), None), (b, c.t()), (torch.nn.Parameter(b), c)]
    for given_operands in operands:
        plan._fast_path(*given_operands)
    before = [sys.getrefcount(held) for held in objects]
    for _ in range(1000):
        for given_operands in operands:
            plan._fast_path(*given_operands)
    after = [sys.getrefcount(held) for held in objects]
    assert all(abs(now - then) < 50 for then, now in zip(before, after, strict=True))


def test_the_function_keeps_the_plan_it_multiplies_with():
    x = operand((N, 1), np.float64, "column")[:, 0]
    plan = make()
    expected, multiply = plan @ x, plan._fast_path
    del plan
    gc.collect()
    np.testing.assert_array_equal(multiply(x, None), expected)
    with pytest.raises(TypeError):
        multiply(x)


def test_threads_take_turns():
    plan = make()
    operands = [operand((N, K), np.float64, "row") * (i + 1) for i in range(4)]
    expected = [plan @ B for B in operands]
    wrong = []

    def multiply(i):
        out = np.empty((M, K))
        for _ in range(300):
            if not np.array_equal(plan(operands[i], out=out), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=multiply, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []

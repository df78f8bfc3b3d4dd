"""Plans on the CPU: what they multiply, what they refuse, and that results are SciPy's."""

import dataclasses
import math
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import battery
from products import ORDER, assert_product, operand
from strategies import csr_matrices
from warploom import _bfloat16, _device
from warploom.candidates import kernels

CPU_KERNELS = [k for k in kernels("spmm") if "cpu" in k.devices and "float64" in k.dtypes]
NAMES = {
    layout: [
        f"spmm/{permutation if k.permutes else 'none'}/{k.format}/{k.name}" for k in CPU_KERNELS if layout in k.layouts
    ]
    for layout, permutation in (("row", "lpt"), ("column", "hybrid-1"))
}
CASES = [(layout, name) for layout, names in NAMES.items() for name in names]
DTYPES = [np.float32, np.float64]
PLAIN = "spmm/none/csr/row_split"


@pytest.fixture(scope="module")
def matrix():
    return csr_array(random_array((60, 45), density=0.15, rng=np.random.default_rng(0), format="csr"))


def make(matrix, name=PLAIN, **options):
    return wl.plan(matrix, **{"k": 8, "device": "cpu", "select": name} | options)


def refused(kind, argument, call, *arguments, **options):
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    assert caught.value.argument == argument
    return str(caught.value)


def operands_of_every_kind(n, k, dtype):
    """Yield (n, k) arrays with every sort of strides."""
    values = operand((n, k), dtype, "row")
    yield values
    yield np.asfortranarray(values)
    yield operand((n + 3, k + 5), dtype, "row")[1 : n + 1, 2 : k + 2]
    yield operand((n + 3, k + 5), dtype, "column")[1 : n + 1, 2 : k + 2]
    yield operand((2 * n, 3 * k), dtype, "row")[::2, ::3]
    yield values[::-1, ::-1]
    yield np.broadcast_to(values[:, :1], (n, k))
    yield np.broadcast_to(values[:1], (n, k))
    bytes_off_by_one = np.frombuffer(b"\0" + values.tobytes(), np.uint8)[1:]
    yield bytes_off_by_one.view(dtype).reshape(n, k)
    read_only = values.copy()
    read_only.flags.writeable = False
    yield read_only


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("layout", "name"), CASES)
def test_numpy_operands(matrix, layout, name, dtype):
    A = matrix.astype(dtype)
    plan = make(A, name, layout=layout)
    for k in (8, 1, 3, 20, 0):
        for B in operands_of_every_kind(45, k, dtype):
            before = B.copy()
            C = plan @ B
            assert type(C) is np.ndarray
            assert C.flags.c_contiguous if layout == "row" else C.flags.f_contiguous
            assert_product(A, B, C)
            np.testing.assert_array_equal(B, before)


@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
def test_values_of_two_bytes_multiply_float32_without_loss(narrow):
    kind = _bfloat16.as_dtype(narrow)
    rng = np.random.default_rng(3)
    pattern = random_array((50, 40), density=0.2, format="csr", rng=rng)
    values = _bfloat16.cast(rng.uniform(-1, 1, pattern.nnz).astype(np.float32), kind)
    A = wl.CSR(pattern.indptr, pattern.indices, values, pattern.shape)
    plan = wl.plan(A, k=6, dtype="float32", device="cpu")
    wide = _bfloat16.cast(values, np.dtype(np.float32))
    B = rng.uniform(-1, 1, (40, 6)).astype(np.float32)
    C = plan @ B
    assert C.dtype == np.float32
    same = wl.plan(
        csr_array((wide, pattern.indices, pattern.indptr), pattern.shape), k=6, device="cpu", select=plan.candidate
    )
    np.testing.assert_array_equal(C, same @ B)
    # The other way: an operand of two bytes is widened.
    if narrow == "float16":
        np.testing.assert_array_equal(plan @ B.astype(np.float16), plan @ B.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("layout", "name"), CASES)
def test_vectors(matrix, layout, name, dtype):
    A = matrix.astype(dtype)
    plan = make(A, name, layout=layout)
    whole = operand((45, 4), dtype, "row")
    for x in (whole[:, 0].copy(), whole[:, 1], whole[::-1, 2], list(whole[:, 3])):
        y = plan @ x
        assert y.shape == (60,)
        assert_product(A, np.asarray(x).reshape(-1, 1), y.reshape(-1, 1))
        out = np.full(60, np.nan, dtype)
        assert plan(x, out=out) is out
        np.testing.assert_array_equal(out, y)
    refused(wl.errors.ShapeError, "B", plan, whole[:-1, 0])
    refused(wl.errors.ShapeError, "out", plan, whole[:, 0], out=np.empty(59, dtype))
    refused(wl.errors.ShapeError, "out", plan, whole[:, 0], out=np.empty((60, 1), dtype))


def test_nested_lists_are_arrays(matrix):
    plan = make(matrix)
    B = operand((45, 3), np.float64, "row")
    np.testing.assert_array_equal(plan @ B.tolist(), plan @ B)
    assert_product(matrix, B, wl.spmm(matrix, B.tolist(), candidate=PLAIN, device="cpu"))
    refused(wl.errors.ShapeError, "B", plan, [[1.0], [2.0, 3.0]])


@pytest.mark.parametrize(("layout", "name"), CASES)
def test_out(matrix, layout, name):
    plan = make(matrix, name, layout=layout)
    B = operand((45, 8), np.float64, layout)
    held = np.full((62, 11), 7.0, order=ORDER[layout])
    out = held[1:61, 2:10]
    assert plan(B, out=out) is out
    assert_product(matrix, B, out)
    held[1:61, 2:10] = 7.0
    assert (held == 7.0).all()
    empty = np.empty((60, 0), order=ORDER[layout])
    assert plan(B[:, :0], out=empty) is empty


def test_bad_out_is_refused(matrix):
    plan = make(matrix)
    B = operand((45, 8), np.float64, "row")
    refused(wl.errors.ShapeError, "out", plan, B, out=np.empty((59, 8)))
    refused(wl.errors.ShapeError, "out", plan, B, out=np.empty((60, 7)))
    refused(wl.errors.ShapeError, "out", plan, B, out=np.empty(60))
    refused(wl.errors.DtypeError, "out", plan, B, out=np.empty((60, 8), np.float32))
    refused(wl.errors.DtypeError, "out", plan, B, out=np.empty((60, 8)).tolist())
    assert "row-major" in refused(wl.errors.ShapeError, "out", plan, B, out=np.empty((60, 8), order="F"))
    read_only = np.empty((60, 8))
    read_only.flags.writeable = False
    assert "read-only" in refused(wl.errors.ParameterError, "out", plan, B, out=read_only)
    both = operand((60, 12), np.float64, "row")
    assert "shares memory" in refused(wl.errors.ParameterError, "out", plan, both[:45, :8], out=both[:, 4:])
    expected = plan @ both[:45, :6].copy()
    np.testing.assert_array_equal(plan(both[:45, :6], out=both[:, 6:]), expected)


def test_bad_operands_are_refused(matrix):
    plan = make(matrix)
    B = operand((45, 8), np.float64, "row")
    assert "(44, 8)" in refused(wl.errors.ShapeError, "B", plan, B[:-1])
    refused(wl.errors.ShapeError, "B", plan, B.T)
    refused(wl.errors.ShapeError, "B", plan, B[None])
    refused(wl.errors.ShapeError, "B", plan, np.float64(1))
    refused(wl.errors.ShapeError, "B", plan, None)
    narrow = make(matrix.astype(np.float32))
    assert "dtype=float64" in refused(wl.errors.DtypeError, "B", narrow, B)
    for dtype in (np.int64, np.complex128):  # SciPy's product would be of float64
        assert "convert it" in refused(wl.errors.DtypeError, "B", narrow, B.astype(dtype))
    for dtype in (object, np.longdouble, "datetime64[s]"):
        assert "convert it" in refused(wl.errors.DtypeError, "B", plan, B.astype(dtype))
    assert "toarray" in refused(wl.errors.DtypeError, "B", plan, scipy.sparse.csr_array(B))


# ----- torch on the CPU -----


@pytest.mark.parametrize("select", ["spmm/none/csr/row_split", "spmm/none/dcsr/row_split", "spmv/none/csr/scalar"])
def test_what_scipy_does_to_a_matrix_in_place_does_not_reach_a_plan(select):
    """A.max() sums duplicates: of the arrays of this matrix, indptr is changed, and what it says of the others."""
    A = csr_array((np.ones(3), np.array([0, 0, 1], np.int32), np.array([0, 2, 3], np.int32)), shape=(2, 2))
    plan = wl.plan(A, op=select[:4], k=1, device="cpu", select=select)
    x = np.array([1.0, 10.0])
    np.testing.assert_array_equal(plan @ x, [2, 10])
    A.max()
    np.testing.assert_array_equal(plan @ x, [2, 10])
    A.indices[:] = 2**30
    A.data[:] = np.nan
    np.testing.assert_array_equal(plan @ x, [2, 10])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("layout", "name"), CASES)
def test_torch_operands(matrix, layout, name, dtype):
    torch = pytest.importorskip("torch")
    A = matrix.astype(dtype)
    plan = make(A, name, layout=layout)
    kind = getattr(torch, np.dtype(dtype).name)
    B = torch.randn(45, 8, dtype=kind)
    complex_numbers = torch.complex(B, B)
    for b in (
        B,
        B.t().contiguous().t(),
        torch.randn(50, 20, dtype=kind)[2:47, 4:9],
        B[:, ::2],
        B[:, :1],
        B[:, :0],
        B[:1].expand(45, 8),
        complex_numbers.conj().imag,
    ):
        C = plan @ b
        assert type(C) is torch.Tensor
        assert not C.requires_grad
        assert_product(A, b.detach().resolve_neg().numpy(), C.numpy())
    x = torch.randn(90, dtype=kind)[::2]
    y = plan @ x
    assert y.shape == (60,)
    assert_product(A, x.numpy()[:, None], y.numpy()[:, None])


def test_torch_out(matrix):
    torch = pytest.importorskip("torch")
    plan = make(matrix)
    B = torch.randn(45, 8, dtype=torch.float64)
    for out in (
        torch.empty(60, 8, dtype=torch.float64),
        torch.empty(60, 9, dtype=torch.float64)[:, 1:],
    ):
        assert plan(B, out=out) is out
        assert_product(matrix, B.numpy(), out.detach().numpy())
    vector = torch.empty(60, dtype=torch.float64)
    assert plan(B[:, 0], out=vector) is vector
    assert_product(matrix, B[:, :1].numpy(), vector.numpy()[:, None])
    refused(wl.errors.ShapeError, "out", plan, B, out=torch.empty(8, 60, dtype=torch.float64).t())
    negated = torch.empty(60, 8, dtype=torch.complex128).conj().imag
    refused(wl.errors.ShapeError, "out", plan, B, out=negated)
    both = torch.randn(60, 12, dtype=torch.float64)
    refused(wl.errors.ParameterError, "out", plan, both[:45, :8], out=both[:, 4:])


def test_operands_that_require_a_gradient_are_refused_unless_gradients_are_off(matrix):
    torch = pytest.importorskip("torch")
    plan = make(matrix)
    plain = torch.randn(45, 8, dtype=torch.float64)
    of_out = torch.zeros(60, 8, dtype=torch.float64, requires_grad=True)
    leaf = plain.clone().requires_grad_()
    for B in (leaf, torch.nn.Parameter(plain.clone()), 2 * leaf, leaf[:, ::2]):
        error = refused(wl.errors.ParameterError, "B", plan, B)
        assert "B.detach()" in str(error)
        assert "torch.no_grad()" in str(error)
    refused(wl.errors.ParameterError, "B", plan, leaf[:, 0])
    refused(wl.errors.ParameterError, "B", plan, leaf, out=torch.empty(60, 8, dtype=torch.float64))
    refused(wl.errors.ParameterError, "out", plan, plain, out=of_out)
    refused(wl.errors.ParameterError, "out", plan, plain[:, 0], out=of_out[:, 0])
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            assert_product(matrix, plain.numpy(), (plan @ leaf).numpy())
            assert plan(leaf, out=of_out) is of_out
            assert_product(matrix, plain.numpy(), of_out.detach().numpy())
    C = plan @ leaf.detach()
    assert not C.requires_grad
    assert_product(matrix, plain.numpy(), C.numpy())


def test_bad_torch_operands_are_refused(matrix):
    torch = pytest.importorskip("torch")
    plan = make(matrix)
    refused(wl.errors.ShapeError, "B", plan, torch.zeros(44, 8, dtype=torch.float64))
    narrow = make(matrix.astype(np.float32))
    for dtype in (torch.float64, torch.int64, torch.complex128):
        refused(wl.errors.DtypeError, "B", narrow, torch.zeros(45, 8, dtype=dtype))
    refused(wl.errors.DtypeError, "B", plan, torch.zeros(45, 8, dtype=torch.float64).to_sparse())
    refused(wl.errors.DeviceError, "B", plan, torch.zeros(45, 8, dtype=torch.float64, device="meta"))


def test_subclasses_of_tensors_are_tensors(matrix):
    torch = pytest.importorskip("torch")

    class Labelled(torch.Tensor):
        pass

    B = torch.randn(45, 8, dtype=torch.float64)
    C = make(matrix) @ B.as_subclass(Labelled)
    assert isinstance(C, torch.Tensor)
    assert_product(matrix, B.numpy(), C.numpy())


# ----- A -----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", battery(np.float64))
@pytest.mark.parametrize("kernel", CPU_KERNELS, ids=lambda k: f"{k.format}-{k.name}")
def test_every_kernel_with_every_permutation(kernel, name, dtype):
    A = battery(dtype)[name]
    refuses = ""
    for permutation in wl.permutations.names() if kernel.permutes else ["none"]:
        for layout in kernel.layouts:
            B = operand((A.shape[1], 5), dtype, layout)
            candidate = f"spmm/{permutation}/{kernel.format}/{kernel.name}"
            try:
                C = wl.spmm(A, B, candidate=candidate, device="cpu", layout=layout)
            except wl.errors.ParameterError as error:
                refuses = str(error)
            else:
                assert_product(A, B, C)
    # Only padding that would multiply the matrix may be refused.
    wasteful = kernel.format in ("padded-csr", "dense") and name == "arrow"
    assert ("entries for" in refuses) if wasteful else refuses == ""


@pytest.mark.parametrize("name", ["empty 0xn", "empty nx0", "no nonzeros", "duplicates unsorted", "nan inf"])
@pytest.mark.parametrize("layout", ["row", "column"])
def test_measured_selection_of_awkward_matrices(name, layout):
    named = battery(np.float32) | {
        "empty 0xn": csr_array((0, 5), dtype=np.float32),
        "empty nx0": csr_array((5, 0), dtype=np.float32),
        "no nonzeros": csr_array((4, 3), dtype=np.float32),
    }
    A = named[name]
    plan = wl.plan(A, k=3, device="cpu", layout=layout, budget=math.inf)
    rows = plan.explain().rows
    assert [r.note for r in rows if r.note not in ("", "chosen")] == []
    assert all(r.median_us > 0 for r in rows)
    for k in (3, 0):
        B = operand((A.shape[1], k), np.float32, layout)
        assert_product(A, B, plan @ B)
    assert (plan @ np.ones(A.shape[1], np.float32)).shape == (A.shape[0],)


@settings(max_examples=100, deadline=None)
@given(A=csr_matrices(allow_nonfinite=True), case=st.sampled_from(CASES), k=st.integers(0, 6))
def test_any_matrix(A, case, k):
    layout, name = case
    # Products of huge numbers may overflow in one order of summation and not in another: not a matter of plans.
    A.data[np.isfinite(A.data)] = np.clip(A.data[np.isfinite(A.data)], -1e15, 1e15)
    A.data[abs(A.data) < 1e-15] = 0
    plan = make(A, name, layout=layout)
    B = operand((A.shape[1], k), A.dtype, layout)
    assert_product(A, B, plan @ B)


def test_integers_and_booleans_become_float64():
    A = csr_array(np.array([[0, 3], [-2, 0]]))
    B = np.array([[1.0], [2.0]])
    for given_matrix in (A, A.astype(np.int8), A.astype(np.uint16).astype(np.int32)):
        plan = make(given_matrix)
        assert plan.dtype == np.float64
        np.testing.assert_array_equal(plan @ B, given_matrix.astype(np.float64) @ B)
    np.testing.assert_array_equal(make(A.astype(bool)) @ B, [[2.0], [1.0]])
    assert make(A, dtype="float32").dtype == np.float32


@pytest.mark.parametrize("format", ["csc", "coo", "bsr", "dia", "lil", "dok"])
def test_other_formats(matrix, format):
    B = operand((45, 4), np.float64, "row")
    assert_product(matrix, B, make(matrix.asformat(format)) @ B)


def test_torch_matrix(matrix):
    torch = pytest.importorskip("torch")
    dense = torch.from_numpy(matrix.toarray())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's CSR is in beta, and says so the first time
        A = dense.to_sparse_csr()
    B = operand((45, 4), np.float64, "row")
    assert_product(matrix, B, make(A) @ B)


def test_a_bad_matrix_is_refused(matrix):
    refused(wl.errors.InvalidMatrixError, "A", make, matrix.toarray())
    refused(wl.errors.DtypeError, "data", make, matrix.astype(np.complex128))
    broken = matrix.copy()
    broken.indices[3] = 45
    with pytest.raises(wl.errors.InvalidMatrixError) as caught:
        make(broken)
    assert (caught.value.argument, caught.value.position) == ("indices", 3)


# ----- the arguments of plan and spmm -----


@pytest.mark.parametrize("k", [0, -1, 2.0, 8.5, np.nan, np.inf, 2**31, 2**70, "8", [8]])
def test_bad_k(matrix, k):
    refused(wl.errors.ParameterError, "k", make, matrix, k=k)
    refused(wl.errors.ParameterError, "k", wl.plan, matrix, device="cpu", k=k)


def test_any_kind_of_integer_k(matrix):
    for k in (np.int32(8), np.uint8(8), 8):
        plan = make(matrix, k=k)
        assert type(plan.k) is int
        assert plan.k == 8


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("op", "spgemm"),
        ("layout", "diagonal"),
        ("layout", ["row"]),
        ("cache", "tepid"),
        ("device", "gpu"),
        ("device", "cpu:1"),
        ("select", "fastest"),
        ("select", None),
        ("select", 5),
        ("select", "spmm/none/csr/abacus"),
        ("select", "spmm/sorted/csr/row_split"),
        ("select", "spmm/none/csr/cusparse"),
        ("select", "spmm/lpt/csr/cusparse"),
        ("select", "spmm/none/csr/c_stationary"),  # column-major only
        ("candidates", "nothing-like-it"),
        ("candidates", []),
        ("candidates", 5),
        ("candidates", [None]),
        ("candidates", "spmm/*/cusparse"),
        ("candidates", "spmm/none/csr/cusparse"),
        ("candidates", "spmm/none/csr/row_split[unroll=5]"),
    ],
)
def test_bad_arguments(matrix, argument, value):
    refused(wl.errors.ParameterError, argument, wl.plan, matrix, **{"k": 2, "device": "cpu", argument: value})


def test_arguments_are_kept_for_other_plans_by_what_they_say(matrix):
    """Nobody notices whether they are checked anew or were checked before, and whether they can be kept."""
    for wanted in ("dcsr", "csr"):
        plan = wl.plan(matrix, k=np.array(8), device="cpu", candidates=(f"spmm/none/{f}/row_split" for f in [wanted]))
        assert plan.candidate == f"spmm/none/{wanted}/row_split"
        assert plan.k == 8
    seen = []
    options = {"k": 8, "device": "cpu", "candidates": PLAIN}
    wl.plan(matrix, progress=lambda *step: seen.append(step), **options)
    calls = len(seen)
    assert calls > 0
    wl.plan(matrix, **options)
    assert len(seen) == calls
    for _ in range(2):
        refused(wl.errors.ParameterError, "budget", wl.plan, matrix, budget=0, **options)
        refused(wl.errors.ParameterError, "calls", wl.plan, matrix, calls=-1, **options)
        refused(wl.errors.ParameterError, "calls", wl.plan, matrix, calls="1", **options)
    assert wl.plan(matrix.astype(np.float32), **options).dtype == np.float32
    assert wl.plan(matrix, **options).dtype == np.float64


def test_parameters_are_named(matrix):
    assert "4, 8" in refused(wl.errors.ParameterError, "unroll", make, matrix, PLAIN + "[unroll=5]")
    assert "unroll" in refused(wl.errors.ParameterError, "warps", make, matrix, PLAIN + "[warps=5]")


@pytest.mark.parametrize("dtype", ["int32", "complex128", "nonsense", object, "U3"])
def test_bad_dtype(matrix, dtype):
    refused(wl.errors.DtypeError, "dtype", make, matrix, dtype=dtype)


@pytest.mark.parametrize("layout", ["row", "column"])
def test_operands_beyond_memory(layout):
    A = csr_array((100_000, 100_000))
    with pytest.raises(wl.errors.OutOfMemoryError) as caught:
        wl.plan(A, k=2**31 - 1, device="cpu", layout=layout)
    assert caught.value.argument == "k"


def test_bad_arguments_of_spmm(matrix):
    B = operand((45, 3), np.float64, "row")
    raises = lambda argument, **given: refused(  # noqa: E731
        wl.errors.ParameterError, argument, wl.spmm, matrix, B, **{"candidate": PLAIN, "device": "cpu"} | given
    )
    raises("layout", layout="diagonal")
    raises("candidate", candidate="spmm/none/csr/abacus")
    raises("candidate", candidate="spmm/none/csr/cusparse")
    raises("candidate", candidate=None)
    raises("device", device="gpu")
    raises("unroll", candidate=PLAIN + "[unroll=5]")
    refused(wl.errors.DtypeError, "dtype", wl.spmm, matrix, B, candidate=PLAIN, device="cpu", dtype="int8")
    refused(wl.errors.ShapeError, "B", wl.spmm, matrix, B[:-1], candidate=PLAIN, device="cpu")
    refused(wl.errors.ShapeError, "B", wl.spmm, matrix, B[None], candidate=PLAIN, device="cpu")


def test_spmm_takes_vectors_no_columns_and_the_layout_the_kernel_has(matrix):
    B = operand((45, 3), np.float64, "row")
    y = wl.spmm(matrix, B[:, 0], candidate=PLAIN, device="cpu")
    assert_product(matrix, B[:, :1], y[:, None])
    assert wl.spmm(matrix, B[:, :0], candidate=PLAIN, device="cpu").shape == (60, 0)
    C = wl.spmm(matrix, B, candidate="spmm/lpt/csr/c_stationary", device="cpu")  # column-major only
    assert_product(matrix, B, C)
    assert C.flags.f_contiguous


# ----- the plan -----


def test_what_a_plan_tells(matrix):
    plan = make(matrix, "spmm/lpt/dcsr/row_split", layout="column")
    assert plan.candidate == "spmm/lpt/dcsr/row_split"
    assert (plan.shape, plan.nnz, plan.k, plan.layout) == ((60, 45), matrix.nnz, 8, "column")
    assert plan.dtype == np.float64
    assert str(plan.device) == "cpu"
    assert plan.nbytes >= matrix.nnz * 4
    assert plan.reproducible
    assert set(plan.preparation_ms) == {"permutation", "conversion"}
    assert all(ms > 0 for ms in plan.preparation_ms.values())
    assert make(matrix).preparation_ms["permutation"] == 0
    for part in (plan.candidate, "60 x 45", "float64", "k=8", "column-major", "cpu"):
        assert part in repr(plan)


def test_results_are_the_same_bit_for_bit(matrix):
    B = operand((45, 8), np.float64, "row")
    for name in NAMES["row"]:
        plan = make(matrix, name)
        np.testing.assert_array_equal(plan @ B, plan @ B)
        np.testing.assert_array_equal(make(matrix, name) @ B, plan @ B)


def test_operands_on_a_gpu_are_refused(matrix, monkeypatch):
    plan = make(matrix)
    B = operand((45, 8), np.float64, "row").view(np.recarray)  # which the fast path leaves to `operand`
    view = _device.operand

    def on_gpu(array, *arguments):
        seen = view(array, *arguments)
        return dataclasses.replace(seen, device=0) if array is B else seen

    monkeypatch.setattr(_device, "operand", on_gpu)
    assert "GPU memory" in refused(wl.errors.DeviceError, "B", plan, B)
    square = make(csr_array(np.eye(45)))
    refused(wl.errors.DeviceError, "out", square, np.array(B), out=B)


FORK = """
import os, threading, warnings
import numpy as np, scipy.sparse
import warploom as wl
warnings.simplefilter("ignore")
A = scipy.sparse.random_array((2000, 2000), density=0.05, format="csr", rng=0)
plan = wl.plan(A, k=64, device="cpu", select="spmm/none/csr/row_split")
B = np.ones((2000, 64))
expected = plan @ B
done = threading.Event()

def multiply():
    while not done.is_set():
        plan @ B

thread = threading.Thread(target=multiply)
thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(plan @ B, expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
done.set()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_multiplies_while_a_thread_of_the_parent_does():
    """The lock of the plan is held by a thread that the child does not have."""
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)

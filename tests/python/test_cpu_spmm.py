"""Every registered SpMM kernel on the CPU against SciPy and a float64 reference."""

from __future__ import annotations

import copy
import itertools
import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from battery import battery, typed
from products import (
    ORDER,
    assert_product,
    magnitudes,
    operand,
    parameter_sets,
    permutations_of,
    prepare_product,
    reason_against,
    spoil,
    unwritten,
    widened,
)
from warploom import _bfloat16, _core, errors
from warploom._matrix import as_csr
from warploom.candidates import Candidate, kernels

KERNELS = {f"{k.format}/{k.name}": k for k in kernels("spmm") if "cpu" in k.devices}
PARAMETERS = {f"{k.format}/{k.name}": list(parameter_sets(k)) for k in kernels("spmm")}
CASES = [(name, layout) for name, kernel in KERNELS.items() for layout in kernel.layouts]
DTYPES = [np.float32, np.float64]
TYPED = [
    pytest.param(name, layout, _bfloat16.as_dtype(dtype), id=f"{name}-{layout}-{dtype}")
    for name, kernel in KERNELS.items()
    for layout in kernel.layouts
    for dtype in kernel.dtypes
]


def a_type_of(case):
    """Return float32, or a type that the kernel takes if it takes no float32."""
    return np.dtype(np.float32 if "float32" in KERNELS[case].dtypes else np.float16)


def check(case, matrix, B, C):
    assert_product(matrix, B, C, precision=KERNELS[case].precision)


def padding_reason(matrix, case, layout, k=8):
    """Return why a format with padding refuses the matrix, or the empty string."""
    reason = reason_against("spmm", as_csr(matrix), *case.split("/"), k, layout)
    return reason if reason.startswith("would ") else ""


def prepare(matrix, case, *, k=8, layout, parameters=None, perm=None, device=-1):
    return prepare_product("spmm", as_csr(matrix), *case.split("/"), k, layout, parameters, perm, device)


def run(plan, m, B, layout):
    C = unwritten((m, B.shape[1]), B.dtype, ORDER[layout])
    plan.run_host(B, C)
    return C


def multiply(matrix, case, B, layout, **options):
    if reason := padding_reason(matrix, case, layout):
        pytest.skip(reason)
    return run(prepare(matrix, case, k=B.shape[1], layout=layout, **options), matrix.shape[0], B, layout)


@pytest.fixture
def threads():
    yield _core.set_num_threads
    _core.set_num_threads(0)


@pytest.mark.parametrize("name", battery(np.float64))
@pytest.mark.parametrize(("case", "layout", "dtype"), TYPED)
def test_battery(case, layout, name, dtype):
    matrix = battery(dtype)[name]
    m, n = matrix.shape
    for k, perm in itertools.product([1, 3, 8, 33], permutations_of(KERNELS[case], m)):
        B = operand((n, k), dtype, layout, seed=k)
        check(case, matrix, B, multiply(matrix, case, B, layout, perm=perm))


@pytest.mark.parametrize(
    ("case", "layout", "parameters"),
    [(case, layout, parameters) for case, layout in CASES for parameters in PARAMETERS[case]],
)
def test_every_parameter_value(case, layout, parameters):
    dtypes = [_bfloat16.as_dtype(dtype) for dtype in KERNELS[case].dtypes]
    for name, dtype in itertools.product(["arrow", "one giant row", "random tall", "empty nx0"], dtypes):
        matrix = battery(dtype)[name]
        if padding_reason(matrix, case, layout):
            continue
        perm = list(permutations_of(KERNELS[case], matrix.shape[0]))[-1]
        B = operand((matrix.shape[1], 19), dtype, layout)
        check(case, matrix, B, multiply(matrix, case, B, layout, parameters=parameters, perm=perm))


@pytest.mark.parametrize(("case", "layout", "dtype"), TYPED)
def test_nonfinite_values_of_B_spread_as_in_scipy(case, layout, dtype):
    """Also an explicit zero times infinity is NaN, and zeros of B are not skipped."""
    matrix = battery(dtype)["explicit zeros"]
    B = operand((3, 6), np.float32, layout)
    B[:, :3] = [[np.inf, np.nan, 0], [0, -np.inf, np.inf], [np.nan, 0, np.inf]]
    B = np.asarray(_bfloat16.cast(B, dtype), order=ORDER[layout])
    check(case, matrix, B, multiply(matrix, case, B, layout))
    check(case, battery(dtype)["nan inf"], B, multiply(battery(dtype)["nan inf"], case, B, layout))


@pytest.mark.parametrize(("case", "layout"), CASES)
def test_any_number_of_columns_and_padding(case, layout):
    """A plan sized for one k runs for others, on operands with padding, and writes nothing but C."""
    matrix = battery(a_type_of(case))["random"]
    m, n = matrix.shape
    plan = prepare(matrix, case, k=8, layout=layout)
    for k in [0, 1, 5, 40, 2]:
        B = operand((n + 3, k + 2), a_type_of(case), layout)[:n, :k]
        padded = np.full((m + 2, k + 3), 7, dtype=a_type_of(case), order=ORDER[layout])
        plan.run_host(B, padded[:m, :k])
        check(case, matrix, B, padded[:m, :k])
        assert np.all(padded[m:] == 7)
        assert np.all(padded[:, k:] == 7)


@pytest.mark.parametrize(("case", "layout", "dtype"), TYPED)
def test_result_does_not_depend_on_threads(case, layout, dtype, threads):
    rng = np.random.default_rng(6)
    matrix = typed(csr_array(random_array((3000, 2000), density=0.01, rng=rng, dtype=np.float64)), dtype)
    B = operand((2000, 33), dtype, layout)
    results = []
    for count in [1, 2, 5]:
        threads(count)
        results.append(multiply(matrix, case, B, layout))
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    check(case, matrix, B, results[0])


@pytest.mark.parametrize(("case", "layout"), CASES)
def test_one_plan_in_several_python_threads(case, layout):
    matrix = battery(a_type_of(case))["random wide"]
    plan = prepare(matrix, case, layout=layout)
    operands = [operand((900, k), a_type_of(case), layout, seed=k) for k in (4, 33, 64, 3)]
    results = [None] * len(operands)

    def work(i):
        for _ in range(20):
            results[i] = run(plan, 30, operands[i], layout)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(len(operands))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for B, C in zip(operands, results, strict=True):
        check(case, matrix, B, C)


@pytest.mark.parametrize(("case", "layout"), CASES)
def test_plan_keeps_the_matrix_alive(case, layout):
    matrix = battery(a_type_of(case))["random"]
    B = operand((120, 8), a_type_of(case), layout)
    plan = prepare(copy.deepcopy(matrix), case, layout=layout)
    _ = [os.urandom(matrix.data.nbytes) for _ in range(100)]  # would reuse freed memory
    check(case, matrix, B, run(plan, 150, B, layout))
    assert plan.nbytes > 0


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("case", "layout"), CASES)
def test_a_plan_does_not_depend_on_the_matrix_it_was_made_from(case, layout, index_dtype):
    expected = battery(a_type_of(case))["random"]
    B = operand((120, 8), a_type_of(case), layout)
    for perm in permutations_of(KERNELS[case], 150):
        matrix = copy.deepcopy(expected)
        matrix.indptr, matrix.indices = matrix.indptr.astype(index_dtype), matrix.indices.astype(index_dtype)
        plan = prepare(matrix, case, layout=layout, perm=perm)
        spoil(matrix)
        check(case, expected, B, run(plan, 150, B, layout))


@st.composite
def csr_matrices(draw):
    """Draw any legal CSR matrix: unsorted and duplicate columns, empty rows, no rows, no columns."""
    m, n = draw(st.integers(0, 12)), draw(st.integers(0, 12))
    lengths = draw(st.lists(st.integers(0, 80 if n else 0), min_size=m, max_size=m))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nnz = sum(lengths)
    indices = rng.integers(0, n, nnz, dtype=np.int32) if n else np.zeros(0, np.int32)
    dtype = draw(st.sampled_from(DTYPES))
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    return csr_array((rng.standard_normal(nnz).astype(dtype), indices, indptr), shape=(m, n))


@settings(max_examples=150, deadline=None)
@given(
    matrix=csr_matrices(),
    case=st.sampled_from([case for case in CASES if {"float32", "float64"} <= set(KERNELS[case[0]].dtypes)]),
    k=st.integers(1, 20),
    data=st.data(),
)
def test_any_matrix(matrix, case, k, data):
    name, layout = case
    parameters = {p.name: data.draw(st.sampled_from(p.values)) for p in KERNELS[name].parameters}
    perm = None
    if KERNELS[name].permutes:
        perm = np.array(data.draw(st.permutations(range(matrix.shape[0]))), dtype=np.int32)
    B = operand((matrix.shape[1], k), matrix.dtype, layout, seed=k)
    check(name, matrix, B, multiply(matrix, name, B, layout, parameters=parameters, perm=perm))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("name", battery(np.float64))
def test_reference(name, layout, dtype):
    matrix = battery(dtype)[name]
    B = operand((matrix.shape[1], 5), dtype, layout)
    C, absolute = _core.reference_product(as_csr(matrix), B)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(C, matrix.astype(np.float64) @ B.astype(np.float64), rtol=1e-12, atol=1e-12)
        scale = magnitudes(matrix) @ abs(B.astype(np.float64))
    np.testing.assert_allclose(absolute, scale, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_floor_bytes(dtype):
    size = np.dtype(dtype).itemsize
    matrix = as_csr(battery(dtype)["empty rows"])  # 6 rows, 3 nonzeros in 3 columns
    assert _core.product_floor_bytes(matrix, 10) == 3 * (4 + size) + 7 * 4 + 3 * 10 * size + 6 * 10 * size
    duplicates = as_csr(battery(dtype)["duplicates unsorted"])  # 3 rows, 9 nonzeros, all 4 columns
    assert _core.product_floor_bytes(duplicates, 2) == 9 * (4 + size) + 4 * 4 + 4 * 2 * size + 3 * 2 * size


def test_registry():
    names = [(k.format, k.name) for k in kernels("spmm")]
    assert len(set(names)) == len(names)
    for kernel in kernels("spmm"):
        assert kernel.summary
        assert kernel.source
        assert set(kernel.layouts) <= {"row", "column"}
        for p in kernel.parameters:
            assert p.default in p.values
            assert p.meaning


@pytest.mark.parametrize(("case", "layout"), CASES)
class TestErrors:
    @pytest.fixture(autouse=True)
    def matrix_of_the_type(self, case):
        self.dtype = a_type_of(case)
        self.matrix = battery(self.dtype)["random"]  # 150 x 120

    def test_other_layout(self, case, layout):
        other = "column" if layout == "row" else "row"
        if other in KERNELS[case].layouts:
            pytest.skip("works on both layouts")
        candidate = Candidate.make(KERNELS[case])
        reason = _core.Problem(as_csr(self.matrix), "spmm", 8, other, "warm", -1).reason_against(candidate)
        assert f"{layout}-major" in reason
        with pytest.raises(errors.ParameterError, match=reason):
            prepare(self.matrix, case, layout=other)
        fits = _core.Problem(as_csr(self.matrix), "spmm", 8, layout, "warm", -1)
        assert fits.reason_against(candidate) == ""

    def test_bad_requests(self, case, layout):
        def raises(argument, **options):
            with pytest.raises(errors.ParameterError) as caught:
                prepare(self.matrix, case, **{"layout": layout} | options)
            assert caught.value.argument == argument
            return caught.value

        raises("k", k=0)
        raises("layout", layout="diagonal")
        unknown = str(raises("warp_factor", parameters={"warp_factor": 9}))
        for parameter in KERNELS[case].parameters[:1]:
            raises(parameter.name, parameters={parameter.name: 77})
            assert parameter.name in unknown
        if KERNELS[case].permutes:
            raises("perm", perm=np.zeros(150, dtype=np.int32))
            raises("perm", perm=np.arange(149, dtype=np.int32))
            raises("perm", perm=np.arange(150, dtype=np.int32).reshape(2, 75))

    def test_bad_operands(self, case, layout):
        plan = prepare(self.matrix, case, layout=layout)
        B = operand((120, 8), self.dtype, layout)
        C = operand((150, 8), self.dtype, layout)

        def raises(kind, argument, B, C):
            with pytest.raises(kind) as caught:
                plan.run_host(B, C)
            assert caught.value.argument == argument

        raises(errors.ShapeError, "B", B[:-1], C)
        raises(errors.ShapeError, "B", B[:, 0], C)
        raises(errors.ShapeError, "C", B, C[:-1])
        raises(errors.ShapeError, "C", B, C[:, :-1])
        raises(errors.DtypeError, "B", B.astype(np.float64), C)
        raises(errors.DtypeError, "C", B, C.astype(np.int32))
        raises(errors.DtypeError, "B", B.astype(B.dtype.newbyteorder()), C)
        raises(errors.ShapeError, "B", np.array(B, order="F" if layout == "row" else "C"), C)
        raises(errors.ShapeError, "C", B, C[::-1, ::-1])
        raises(errors.ShapeError, "B", np.broadcast_to(self.dtype.type(1), (120, 8)), C)
        read_only = C.copy(order="K")
        read_only.flags.writeable = False
        raises(errors.ParameterError, "C", B, read_only)

    def test_C_may_not_overlap_B(self, case, layout):
        square = battery(self.dtype)["tridiagonal"]
        plan = prepare(square, case, layout=layout)
        both = operand((70, 12), self.dtype, layout)
        with pytest.raises(errors.ParameterError, match="shares memory"):
            plan.run_host(both[:, :8], both[:, 4:])
        plan.run_host(both[:, :6], both[:, 6:])
        check(case, square, both[:, :6], both[:, 6:])

    def test_pattern_without_values(self, case, layout):
        pattern = as_csr(self.matrix, pattern_only=True)
        with pytest.raises(errors.InvalidMatrixError) as caught:
            prepare_product("spmm", pattern, *case.split("/"), 8, layout)
        assert caught.value.argument == "data"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_half_precision_are_those_of_float32(dtype):
    """Summed in two bytes, a long row of ones would stop growing; beyond the largest number a sum is infinite."""
    kind = _bfloat16.as_dtype(dtype)
    ones = typed(csr_array(np.ones((2, 3000))), kind)
    B = np.full((3000, 9), 1.0)
    B[:, 1] = 3e38 if dtype == "bfloat16" else 60000
    for case, layout in CASES:
        if dtype in KERNELS[case].dtypes:
            C = multiply(ones, case, np.asarray(_bfloat16.cast(B, kind), order=ORDER[layout]), layout)
            assert (widened(C)[:, 0] == widened(_bfloat16.cast(np.array([3000.0]), kind))).all()
            assert (widened(C)[:, 1] == np.inf).all()


def test_unknown_kernel_names_the_known_ones():
    with pytest.raises(errors.ParameterError, match="segmented-csr/row_split"):
        prepare(battery(np.float32)["random"], "csr/abacus", layout="row")

"""Every SpMV kernel on the GPU against float64 sums, over the battery of small matrices and larger ones."""

import functools

import numpy as np
import pytest
from scipy.sparse import csr_array, diags_array, kronsum, random_array

import warploom as wl
from battery import battery, typed
from capturing import capture
from products import (
    assert_product,
    parameter_sets,
    permutations_of,
    prepare_spmv,
    tensor_of,
    tried_settings,
    unwritten,
    vector,
    widened,
)
from warploom import _bfloat16, _device
from warploom.candidates import find_kernel, kernels

CASES = [
    pytest.param(k, _bfloat16.as_dtype(dtype), id=f"{k.format}-{k.name}-{dtype}")
    for k in kernels("spmv")
    for dtype in k.dtypes
]


def prepare(matrix, kernel, parameters=None, perm=None):
    if kernel.name == "cusparse" and (reason := _device.load_cusparse()):
        pytest.skip(f"no cuSPARSE: {reason}")
    return prepare_spmv(matrix, kernel, parameters, perm, device=0)


def multiply(matrix, kernel, x, parameters=None, perm=None):
    """Run twice: the second run finds the workspace as the first one left it. None if the kernel refuses."""
    plan = prepare(matrix, kernel, parameters, perm)
    if plan is None:
        return None
    results = []
    for _ in range(2):
        y = unwritten((matrix.shape[0], 1), x.dtype)
        plan.run_host(x.reshape(-1, 1), y)
        results.append(y[:, 0])
    if kernel.reproducible:
        assert results[0].tobytes() == results[1].tobytes()
    return results[1]


def check(matrix, kernel, x, **options):
    """Whether the kernel takes this case; asserts that its result is right if it does."""
    y = multiply(matrix, kernel, x, **options)
    if y is not None:
        # BSR multiplies its fill-in, so values of x that are not finite reach more rows.
        assert_product(matrix, x[:, None], y[:, None])
    return y is not None


@functools.cache
def power_law(dtype):
    """Rows from one to thousands of nonzeros: many warps, blocks and cut rows take part."""
    rng = np.random.default_rng(5)
    m, n = 20_000, 15_000
    lengths = np.minimum(n, (rng.pareto(1.2, m) * 4).astype(np.int64))
    lengths[rng.integers(0, m, 3)] = n
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(0, n, indptr[-1], dtype=np.int32)
    matrix = csr_array((np.ones(indptr[-1]), indices, indptr), shape=(m, n))
    matrix.sum_duplicates()  # BSR adds repeated entries up, which rounds in float16
    matrix.data = rng.uniform(-1, 1, matrix.nnz)
    return typed(matrix, dtype)


@functools.cache
def stencil(dtype, n=150):
    """5-point Laplacian on an n x n grid: regular enough for every padded format."""
    line = diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    matrix = csr_array(kronsum(line, line, format="csr"))
    return typed(matrix, dtype)


def vendor_refuses(kernel, matrix):
    """Skip what cuSPARSE is known to reject: it is a candidate only where it works."""
    return kernel.name == "cusparse" and (0 in matrix.shape or matrix.nnz == 0)


@pytest.mark.parametrize("name", battery(np.float32))
@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_battery(kernel, dtype, name):
    matrix = battery(dtype)[name]
    if vendor_refuses(kernel, matrix) or (kernel.name == "cusparse" and name == "nan inf"):
        pytest.skip("not a case for cuSPARSE")
    x = vector(matrix.shape[1], dtype)
    for perm in permutations_of(kernel, matrix.shape[0]):
        if not check(matrix, kernel, x, perm=perm):
            pytest.skip("refused")


@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_every_parameter_value(kernel, dtype):
    taken = 0
    for name in ("random wide", "one giant row", "empty rows", "random", "arrow", "tridiagonal"):
        matrix = battery(dtype)[name]
        x = vector(matrix.shape[1], dtype)
        for parameters in parameter_sets(kernel):
            taken += check(matrix, kernel, x, parameters=parameters)
    assert taken


@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_every_combination_of_parameters(kernel, dtype):
    taken = 0
    for name in ("random wide", "random"):
        matrix = battery(dtype)[name]
        x = vector(matrix.shape[1], dtype)
        for parameters in tried_settings(kernel):
            taken += check(matrix, kernel, x, parameters=parameters)
    assert taken


@pytest.mark.parametrize("make", [power_law, stencil])
@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_larger_than_one_wave(kernel, dtype, make):
    matrix = make(dtype)
    x = vector(matrix.shape[1], dtype)
    taken = sum(check(matrix, kernel, x, parameters=parameters) for parameters in parameter_sets(kernel))
    if not taken:
        pytest.skip("refused")
    if kernel.permutes:
        perm = np.random.default_rng(0).permutation(matrix.shape[0]).astype(np.int32)
        assert check(matrix, kernel, x, perm=perm)


@pytest.mark.parametrize("entries_per_lane", [1, 2, 4])
def test_hubs_where_a_warp_sums_several_tiles(entries_per_lane):
    """Rows that begin and end anywhere in a tile, and rows longer than what a warp takes."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 40, 60_000)
    lengths[[0, 1, 30_000, 59_999]] = 100_000, 1, 400_000, 50_000
    columns = np.minimum(rng.zipf(1.2, lengths.sum()), 200_000) - 1
    matrix = csr_array(
        (rng.standard_normal(len(columns)), columns, np.append(0, np.cumsum(lengths))), (60_000, 200_000)
    )
    kernel = find_kernel("spmv", "hub-csr", "segmented_sum")
    parameters = {"hub_kb": 16, "entries_per_lane": entries_per_lane}
    assert check(matrix, kernel, vector(200_000, np.float64), parameters=parameters)


@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_vectors_on_odd_addresses(kernel, dtype):
    """Operands need not start on a vector boundary, and memory beside y is left alone."""
    if kernel.name == "cusparse":
        pytest.skip("the vendor asks for 16 bytes")
    torch = pytest.importorskip("torch")
    matrix = battery(dtype)["random"]
    plan = prepare(matrix, kernel)
    if plan is None:
        pytest.skip("refused")
    m, n = matrix.shape
    for shift in (1, 3):
        x = tensor_of(vector(n + shift, dtype)).cuda()
        y = torch.full((m + shift + 4,), 7.0, dtype=x.dtype, device="cuda")
        size = x.element_size()
        stream = torch.cuda.current_stream().cuda_stream
        plan.run_device(x.data_ptr() + shift * size, n, y.data_ptr() + shift * size, m, 1, stream)
        torch.cuda.synchronize()
        host = _bfloat16.of_tensor(y.cpu())
        assert (widened(host[:shift]) == 7).all()
        assert (widened(host[m + shift :]) == 7).all()
        assert_product(matrix, _bfloat16.of_tensor(x.cpu())[shift:, None], host[shift : m + shift, None])


@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_nonfinite_x_spreads_only_where_the_matrix_has_entries(kernel, dtype):
    if kernel.name == "cusparse" or kernel.format == "bsr":
        pytest.skip("multiplies its fill-in")
    matrix = battery(dtype)["random"]
    x = vector(matrix.shape[1], dtype)
    x = widened(x)
    x[0], x[1], x[-1] = np.inf, np.nan, -np.inf
    x = _bfloat16.cast(x, dtype)
    if not check(matrix, kernel, x):
        pytest.skip("refused")


def test_permutations_of_the_registry_give_the_callers_row_order():
    matrix = csr_array(random_array((500, 400), density=0.03, rng=np.random.default_rng(2), format="csr"))
    x = vector(400, np.float64)
    for permutation in wl.permutations.names():
        for kernel in kernels("spmv"):
            if kernel.permutes and "float64" in kernel.dtypes:
                name = f"spmv/{permutation}/{kernel.format}/{kernel.name}"
                y = wl.spmv(matrix, x, candidate=name, device="cuda")
                assert_product(matrix, x[:, None], y[:, None])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_selection_by_measurement(dtype):
    matrix = stencil(np.dtype(dtype), 40)
    plan = wl.plan(matrix, op="spmv", device="cuda", select="measure")
    rows = plan.explain().rows
    measured = [r for r in rows if r.median_us > 0]
    assert {r.candidate.split("/")[2] for r in measured} >= {"csr"}
    assert not [r for r in rows if "wrong result" in r.note]
    x = vector(matrix.shape[1], dtype)
    assert_product(matrix, x[:, None], (plan @ x)[:, None])


@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_conversion_on_the_device_can_be_timed_and_leaves_the_plan_alone(kernel, dtype):
    matrix = stencil(dtype)
    plan = prepare(matrix, kernel)
    if plan is None:
        pytest.skip("refused")
    times = plan.time_conversion(warmup=1, repeats=3)
    if not len(times):
        pytest.skip("not converted on the device")
    assert (times > 0).all()
    x = vector(matrix.shape[1], dtype)
    y = unwritten((matrix.shape[0], 1), dtype)
    plan.run_host(x.reshape(-1, 1), y)
    assert_product(matrix, x[:, None], y)


@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_torch_vectors_on_the_current_stream_and_in_a_graph(kernel, dtype):
    torch = pytest.importorskip("torch")
    matrix = power_law(dtype)
    name = f"spmv/none/{kernel.format}/{kernel.name}"
    try:
        plan = wl.plan(matrix, op="spmv", device="cuda", select=name)
    except wl.errors.ParameterError as error:
        pytest.skip(str(error))
    x = tensor_of(vector(matrix.shape[1], dtype)).cuda()
    y = plan @ x
    assert (y.dtype, y.device, tuple(y.shape)) == (x.dtype, x.device, (matrix.shape[0],))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late = x * 2
        y = plan @ late  # would read `late` too early on any other stream
    stream.synchronize()
    assert_product(matrix, _bfloat16.of_tensor(late.cpu())[:, None], _bfloat16.of_tensor(y.cpu())[:, None])

    static = x.clone()
    with capture() as graph:
        captured = plan @ static
    for seed in range(3):
        static.copy_(tensor_of(vector(matrix.shape[1], dtype, seed)))
        graph.replay()
        torch.cuda.synchronize()
        x, y = (_bfloat16.of_tensor(tensor.cpu()) for tensor in (static, captured))
        assert_product(matrix, x[:, None], y[:, None])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_threads_per_row_of_every_block(dtype):
    matrix = power_law(np.dtype(dtype))
    x = vector(matrix.shape[1], dtype)
    name = "spmv/none/csr/blockwise[long_row=128]"
    blocks = wl.partition.partition_rows(matrix, long_row=128)
    short = int((~np.asarray(blocks.is_long, bool)).sum())
    threads = np.random.default_rng(0).choice([1, 2, 4, 8, 16, 32], short)
    plan = wl.plan(matrix, op="spmv", device="cuda", select=name, inputs={"block_threads_per_row": threads})
    assert_product(matrix, x[:, None], (plan @ x)[:, None])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_neighbouring_rows_in_many_chunks_of_panels(dtype):
    """Of 32 rows that a warp adds up most are cut, some into more chunks than a lane adds up."""
    rng = np.random.default_rng(5)
    lengths = np.concatenate([[200_000, 150_000], rng.integers(3000, 9000, 31), [0] * 7, rng.integers(0, 4, 60_000)])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(0, 220_000, indptr[-1], dtype=np.int32)
    matrix = csr_array((rng.standard_normal(indptr[-1]).astype(dtype), indices, indptr), (len(lengths), 220_000))
    x = vector(matrix.shape[1], matrix.dtype)
    for panel_kb in (64, 224):
        plan = wl.plan(matrix, "spmv", device="cuda", select=f"spmv/none/column-panels/shared_x[panel_kb={panel_kb}]")
        y = plan @ x
        assert_product(matrix, x.reshape(-1, 1), y.reshape(-1, 1))
        np.testing.assert_array_equal(y, plan @ x, "the same in every run")

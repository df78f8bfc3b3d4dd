"""Kernels of experiments: the full ones multiply, the others leave out what they say and read everything else."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from battery import battery
from products import assert_product, prepare_spmv, vector
from warploom import _core
from warploom._device import Device, load_cusparse
from warploom._limits import SweepLimits
from warploom._matrix import as_csr
from warploom.bench._matrices import Prepared
from warploom.bench.measure import measure
from warploom.bench.settings import Setting
from warploom.candidates import kernels
from warploom.errors import DtypeError, ParameterError
from warploom.experiments import Findings, load, run
from warploom.experiments.strip_height import strip_height
from warploom.experiments.time_split import VARIANTS, time_split

DTYPES = ("float32", "float64")
THREADS = (1, 2, 4, 8, 16, 32)
HEIGHTS = (1, 2, 3, 8, 16, 31, 32, 33, 64)
CASES = [pytest.param(name, dtype, id=f"{name}-{dtype}") for dtype in DTYPES for name in battery(np.dtype(dtype))]


def resident_on_gpu(view):
    return _core.Problem(view, "spmv", 1, "column", "warm", 0).resident()


def skewed(dtype, m=5000, n=3000):
    """Return a matrix with rows of up to some thousand nonzeros, and more rows than columns."""
    rng = np.random.default_rng(2)
    lengths = np.minimum(n, (rng.pareto(1.2, m) * 4).astype(np.int64))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(0, n, indptr[-1], dtype=np.int32)
    return csr_array((rng.standard_normal(indptr[-1]).astype(dtype), indices, indptr), shape=(m, n))


def multiplied(prepared, rows, x):
    y = np.full((rows, 1), np.nan, x.dtype)
    prepared.run_host(x.reshape(-1, 1), y)
    return y[:, 0]


def parts(matrix, x, threads, variant):
    view = as_csr(matrix)
    gather, arithmetic = VARIANTS[variant]
    prepared = _core.prepare_csr_parts(
        view, resident_on_gpu(view), threads_per_row=threads, gather=gather, arithmetic=arithmetic
    )
    return multiplied(prepared, matrix.shape[0], x)


def own_entries(matrix, x):
    """x[i] for row i, and 0 for rows that x has no entry for."""
    own = np.zeros(matrix.shape[0], x.dtype)
    count = min(matrix.shape)
    own[:count] = x[:count]
    return own


def check_parts(matrix, threads):
    x = vector(matrix.shape[1], matrix.dtype)
    assert_product(matrix, x[:, None], parts(matrix, x, threads, "full")[:, None])
    own = own_entries(matrix, x)
    for variant in ("no arithmetic", "neither"):
        np.testing.assert_array_equal(parts(matrix, x, threads, variant), own)
    # A row that multiplies its own x has all its nonzeros in one column.
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))
    diagonal = csr_array((matrix.data, rows, matrix.indptr), shape=(matrix.shape[0],) * 2)
    assert_product(diagonal, own[:, None], parts(matrix, x, threads, "no random access")[:, None])


def words(values):
    """Each value as the bitwise "or" of its 32-bit words."""
    return np.bitwise_or.reduce(values.view(np.uint32).reshape(len(values), values.itemsize // 4), axis=1)


def words_read(matrix, height):
    """What a lane of the warp of a strip has read: every 32nd place of the strip."""
    found = np.zeros(matrix.shape[0], np.uint32)
    all_words = matrix.indices.astype(np.uint32) | words(matrix.data)
    for first in range(0, matrix.shape[0], height):
        last = min(first + height, matrix.shape[0])
        strip = all_words[matrix.indptr[first] : matrix.indptr[last]]
        for row in range(first, last):
            found[row] = np.bitwise_or.reduce(strip[(row - first) % 32 :: 32], initial=0)
    return found >> 8


def check_read(matrix, height):
    view = as_csr(matrix)
    prepared = _core.prepare_cmrs_read(view, resident_on_gpu(view), height=height, strips=True)
    x = vector(matrix.shape[1], matrix.dtype)
    np.testing.assert_array_equal(multiplied(prepared, matrix.shape[0], x), words_read(matrix, height))


def check_stream(matrix, height):
    """Whatever has been read, y is not written."""
    view = as_csr(matrix)
    prepared = _core.prepare_cmrs_read(view, resident_on_gpu(view), height=height, strips=False)
    y = vector(matrix.shape[0], matrix.dtype)
    kept = y.copy()
    memory = _core.DeviceMemory(0, max(y.nbytes, 1))
    _core.copy_to_device(0, memory.pointer, y)
    prepared.run_device(0, 1, memory.pointer, 1, 1, 0)
    _core.copy_to_host(0, y, memory.pointer)
    np.testing.assert_array_equal(y, kept)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_battery(name, dtype):
    matrix = battery(np.dtype(dtype))[name]
    for threads in THREADS:
        check_parts(matrix, threads)
    for height in HEIGHTS:
        check_read(matrix, height)
        check_stream(matrix, height)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 0), (0, 7), (7, 0), (1, 1), (1, 70), (40, 70)])
def test_matrices_without_nonzeros(shape, dtype):
    matrix = csr_array(shape, dtype=dtype)
    for threads in THREADS:
        check_parts(matrix, threads)
    for height in HEIGHTS:
        check_read(matrix, height)
        check_stream(matrix, height)


@pytest.mark.parametrize("dtype", DTYPES)
def test_skewed_rows(dtype):
    for matrix in (skewed(dtype), csr_array(skewed(dtype).T)):
        for threads in THREADS:
            check_parts(matrix, threads)
        for height in HEIGHTS:
            check_read(matrix, height)
            check_stream(matrix, height)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", THREADS)
def test_the_full_kernel_is_csr_vector(threads, dtype):
    matrix = skewed(dtype)
    x = vector(matrix.shape[1], matrix.dtype)
    vectors = {k.name: k for k in kernels("spmv") if k.format == "csr"}
    registered = (
        prepare_spmv(matrix, vectors["scalar"], device=0)
        if threads == 1
        else prepare_spmv(matrix, vectors["vector"], {"threads_per_row": threads}, device=0)
    )
    expected = multiplied(registered, matrix.shape[0], x)
    np.testing.assert_array_equal(parts(matrix, x, threads, "full"), expected)


def test_parameters_out_of_range():
    view = as_csr(skewed("float32", 50, 50))
    resident = resident_on_gpu(view)
    for threads in (0, 3, 64):
        with pytest.raises(ParameterError, match="threads_per_row must be 1, 2, 4, 8, 16 or 32"):
            _core.prepare_csr_parts(view, resident, threads_per_row=threads, gather=True, arithmetic=True)
    for height in (0, 65):
        with pytest.raises(ParameterError, match="height must be from 1 to 64"):
            _core.prepare_cmrs_read(view, resident, height=height, strips=True)
        with pytest.raises(ParameterError, match="height must be from 1 to 64"):
            _core.cmrs_read_occupancy(0, np.dtype("float32"), height=height, strips=True)


def test_half_precision_is_refused():
    view = as_csr(skewed("float16", 50, 50))
    resident = resident_on_gpu(view)
    with pytest.raises(DtypeError, match="float32 and float64"):
        _core.prepare_cmrs_read(view, resident, height=1, strips=True)
    with pytest.raises(DtypeError, match="float32 and float64"):
        _core.prepare_csr_parts(view, resident, threads_per_row=1, gather=True, arithmetic=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_higher_strips_leave_room_for_fewer_threads(dtype):
    shares = [_core.cmrs_read_occupancy(0, np.dtype(dtype), height=h, strips=True) for h in range(1, 65)]
    assert shares == sorted(shares, reverse=True)
    assert 0 < shares[-1] < 0.7 < shares[0] <= 1


def test_reading_takes_as_long_as_the_memory_needs():
    """All places are read: more bytes in less time than a copy of them would mean that some were not."""
    A = csr_array(random_array((1_000_000, 1_000_000), density=1e-5, rng=np.random.default_rng(0), format="csr"))
    view = as_csr(A)
    resident = resident_on_gpu(view)
    trial = _core.Trial(_core.Problem(view, "spmv", 1, "column", "cold", 0))
    copy = _core.measure_copy_bandwidth(0, 1 << 29)
    for strips in (True, False):
        prepared = _core.prepare_cmrs_read(view, resident, height=8, strips=strips)
        rate = 12 * A.nnz / (1e-6 * trial.time(prepared, cache="cold", repeats=20).median)
        assert 0.1 * copy < rate < 1.3 * copy


def test_experiments_have_their_columns(tmp_path):
    small = {"grid2d(nx=30,ny=20)": "grid", "circuit(n=2001)": "circuit"}
    device = Device("cuda")
    split = time_split(device, lambda *_: None, small)
    assert len(split) == 2 * 2 * 2 * len(VARIANTS) * 2
    heights = strip_height(device, lambda *_: None, small)
    assert set(heights["kernel"]) == {"stream", "strips", "cmrs"}
    for name, table in (("time-split", split), ("strip-height", heights)):
        assert (table["median_us"] > 0).all()
        Findings(name, table, {"gpu": "x", "cuda": "13.0"}, "2026-01-01").save(tmp_path)
        assert len(load(name, [tmp_path]).table) == len(table)


def test_run_writes_what_it_was_measured_on(tmp_path, monkeypatch):
    monkeypatch.setattr("warploom.experiments.time_split.MATRICES", {"grid2d(nx=30,ny=20)": "grid"})
    (found,) = run("time-split", tmp_path)
    assert found.environment["gpu"] == Device("cuda").name
    assert load("time-split", [tmp_path]).table["label"].unique().tolist() == ["grid"]


def test_what_adds_up_in_two_bytes_is_timed_and_not_called_good():
    if reason := load_cusparse():
        pytest.skip(f"no cuSPARSE: {reason}")
    matrix = csr_array(random_array((4000, 3000), density=0.01, rng=np.random.default_rng(2), format="csr"))
    limits = SweepLimits(repeats=3, matrix_s=20.0, remeasured=0.0)
    prepared = Prepared(matrix.astype(np.float32), {}, {"matrix": "random"})
    patterns = ["spmm/none/csr/cusparse*", "spmm/none/coo/cusparse*", "spmm/none/csr/row_split"]
    rows = list(measure(prepared, [Setting.parse("spmm/float16/row/k=32")], Device("cuda", 0), limits, patterns))
    statuses = {row["candidate"]: row["status"] for row in rows}
    assert statuses["spmm/none/csr/row_split"] == "ok"
    assert set(statuses.values()) <= {"ok", "rounded sums"}
    assert all(row["median_us"] > 0 for row in rows)

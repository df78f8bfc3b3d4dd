"""Features of matrices in GPU memory equal those of the host, for any contents and any library."""

import concurrent.futures
import warnings

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csr_array

import warploom as wl
from battery import battery
from warploom import _core, corpus, errors, features
from warploom._matrix import as_csr, compressed
from warploom.corpus.arrangements import arranged

GEOMETRIES = [(32, 32, 32), (8, 32, 64), (12, 7, 20), (1, 1, 1), (31, 5, 9), (32, 16, 8), (32, 32, 1000)]
BATTERY = battery(np.float32)


def resident_on_gpu(view):
    return _core.Problem(view, "spmv", 1, "column", "warm", 0).resident()


def on_gpu(A, set_name, **geometry):
    return _core.compute_features_device(set_name, resident_on_gpu(as_csr(A)), **geometry)


def check(A, **geometry):
    """The host's features: exact except for the variance and what is derived from it."""
    host = features.spmm(A, **geometry)
    np.testing.assert_array_equal(on_gpu(A, "spmm", **geometry), host.values, host.names)
    vectors = _core.compute_column_vector_features_device(resident_on_gpu(as_csr(A)))
    np.testing.assert_array_equal(vectors, features.column_vectors(A).values)
    host = features.spmv(A)
    found = features.FeatureVector("spmv", on_gpu(A, "spmv"))
    for name in host:
        assert found[name] == pytest.approx(host[name], rel=1e-12 if name.endswith(("var", "cov")) else 0, abs=0), name


def from_rows(rows, num_cols):
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.concatenate([np.asarray(row, dtype=np.int32) for row in rows])
    return csr_array((np.ones(indptr[-1], np.float32), indices, indptr), shape=(len(rows), num_cols))


def skewed(seed, *, sort, rows=20_011, num_cols=8100):
    """Return a matrix with skewed rows, runs, repeats and empty stretches."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.zipf(1.5, size=rows), 3000)
    lengths[rng.random(rows) < 0.3] = 0
    lengths[5000:9000] = 0
    columns = [(rng.integers(0, num_cols) + rng.integers(0, 60 + n, size=n)) % num_cols for n in lengths]
    return from_rows([np.sort(row) for row in columns] if sort else columns, num_cols)


@pytest.mark.parametrize("name", BATTERY)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_battery(name, geometry):
    warps, threads, elements = geometry
    check(BATTERY[name], warps=warps, threads=threads, elements_per_cache_line=elements)


@pytest.mark.parametrize("shape", [(0, 0), (0, 7), (7, 0), (1, 1), (1, 70), (40, 70)])
def test_matrices_without_nonzeros(shape):
    check(csr_array(shape, dtype=np.float32))


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("geometry", [*GEOMETRIES, (64, 32, 32)])
def test_skewed_rows(sort, geometry):
    warps, threads, elements = geometry
    check(skewed(3, sort=sort), warps=warps, threads=threads, elements_per_cache_line=elements)


@pytest.mark.parametrize("repeat", range(20))
def test_random(repeat):
    rng = np.random.default_rng(repeat)
    m, n = rng.integers(1, 3000, size=2)
    A = csr_array(scipy.sparse.random_array((m, n), density=rng.uniform(0, 0.05), rng=rng, format="csr"))
    check(A.astype(np.float32))
    A.indices[:] = rng.integers(0, n, size=A.nnz)  # unsorted, with repeats
    check(A.astype(np.float32), warps=int(rng.integers(1, 33)), elements_per_cache_line=int(rng.integers(1, 70)))


@pytest.mark.parametrize("sort", [True, False])
def test_one_row_holds_everything(sort):
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 100_000, size=300_000)
    row = np.sort(columns) if sort else columns
    check(from_rows([row], 100_000))
    check(from_rows([[], [0, 5], row, row, [99_999], []], 100_000), elements_per_cache_line=16)


def test_a_line_that_every_row_requests():
    check(from_rows([[0, i] for i in range(50_000)], 50_000))


def test_many_empty_rows():
    A = csr_array((4_000_000, 3000), dtype=np.float32)
    rng = np.random.default_rng(0)
    rows = np.sort(rng.integers(0, A.shape[0], size=5000))
    columns = np.sort(rng.integers(0, 3000, size=5000))
    check(csr_array((np.ones(5000, np.float32), (rows, columns)), shape=A.shape))


def test_two_million_nonzeros_of_equal_rows():
    """Nearly no variance: it must not be lost to rounding against the mean."""
    rows = [np.arange(i, i + 100) for i in range(20_000)]
    rows[777] = rows[777][:-1]
    check(from_rows(rows, 20_100))


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 15, 16, 17, 24, 25, 4001])
def test_rows_with_columns_in_common(rows):
    """Column vectors of every kind: full ones, single ones, repeated entries, windows that end early."""
    rng = np.random.default_rng(rows)
    base = np.sort(rng.choice(5000, size=200, replace=False))
    alike = [base[rng.random(200) < 0.9] for _ in range(rows)]
    check(from_rows(alike, 5000))
    check(from_rows([np.sort(rng.choice(row, size=50)) if i % 3 else row for i, row in enumerate(alike)], 5000))
    check(from_rows([rng.permutation(row) for row in alike], 5000))


@pytest.mark.parametrize("nnz", [31, 447, 448, 449, 513, 1025, 3072, 3073, 6145, 20_000, 65_536, 65_537, 70_000])
@pytest.mark.parametrize("num_cols", [90, 100_000])
def test_windows_of_some_number_of_nonzeros(nnz, num_cols):
    """The second window has so many; others have few, some have none."""
    rng = np.random.default_rng(nnz)
    lengths = np.concatenate([rng.integers(0, 9, 16), rng.multinomial(nnz, np.ones(16) / 16), [0] * 40, [3, 70, 1]])
    rows = [np.sort(rng.integers(0, num_cols, size=length)) for length in lengths]
    check(from_rows(rows, num_cols))
    check(from_rows([rng.permutation(row) for row in rows], num_cols))


@pytest.mark.parametrize("crowded", [400, 4096, 4097, 9000, 30_000])
def test_windows_whose_columns_crowd_one_part_of_the_table(crowded):
    """The GPU takes parts of the columns of a window, by some bits of a hash."""
    columns = np.arange(1_500_000, dtype=np.uint32)
    alike = columns[(columns * np.uint32(2654435769) >> 15) % 32 == 5].astype(np.int32)
    assert len(alike) > crowded
    rows = np.array_split(alike[:crowded], 16)
    check(from_rows([*rows, *rows[3:9], [], [5, 1_499_999]], 1_500_000))


def check_overlap(A):
    view = as_csr(A)
    expected = _core.compute_hidden_overlap(view, 0)
    assert _core.compute_hidden_overlap_device(resident_on_gpu(view), 0) == expected
    return expected


@pytest.mark.parametrize("repeat", range(30))
def test_overlap_of_random_matrices(repeat):
    rng = np.random.default_rng(repeat)
    m, n = rng.integers(1, 5000, size=2)
    A = csr_array(scipy.sparse.random_array((m, n), density=rng.uniform(0, 0.05), rng=rng, format="csr"))
    A = A.astype(np.float32)
    check_overlap(A)
    A.indices[:] = rng.integers(0, n, size=A.nnz)  # unsorted, with repeats
    check_overlap(A)
    A.indices[:] = rng.zipf(1.2, size=A.nnz) % n  # hubs
    check_overlap(A)


@pytest.mark.parametrize("sort", [True, False])
def test_overlap_of_rows_longer_than_what_is_compared(sort):
    rng = np.random.default_rng(1)
    lengths = [0, 127, 128, 129, 255, 256, 257, 511, 513, 20_000, 0, 0, 300_000, 1, 130]
    rows = [rng.integers(0, 3000, size=length) for length in lengths]
    assert check_overlap(from_rows([np.sort(row) if sort else row for row in rows], 3000)) > 0


def test_overlap_of_hidden_structure():
    points = corpus.load("nearest_points(n=60000,neighbours=12)")
    assert check_overlap(arranged(points, "shuffled")) > 0.2
    assert check_overlap(points) > 0.2
    assert check_overlap(corpus.load("uniform(m=60000,n=60000,per_row=12)")) < 0.01
    check_overlap(corpus.load("rmat(scale=17,edge_factor=16)"))


def test_overlap_where_every_row_has_the_same_columns():
    assert check_overlap(from_rows([[7]] * 50_000, 9)) == 0  # one column: nothing but the common one
    assert check_overlap(from_rows([[7, 3]] * 50_000, 9)) == 1
    assert check_overlap(from_rows([[7, 7, 7]], 9)) == 0
    assert check_overlap(from_rows([[0, i] for i in range(1, 70_000)], 70_000)) == 0
    assert check_overlap(from_rows([[], []], 9)) == -1


def test_overlap_of_columns_with_equal_low_or_high_bits():
    """Hashes that collide must not mix up columns."""
    rng = np.random.default_rng(2)
    for step in (1, 1 << 10, 1 << 13):
        columns = step * rng.integers(0, 6000, size=(30_000, 5))
        check_overlap(from_rows(columns, 6000 * step))


def test_overlap_of_many_empty_rows():
    rng = np.random.default_rng(3)
    lengths = np.zeros(3_000_000, np.int64)
    lengths[rng.integers(0, lengths.size, size=9000)] = 6
    indices = rng.integers(0, 2000, size=lengths.sum()).astype(np.int32)
    data = np.ones(indices.size, np.float32)
    check_overlap(csr_array((data, indices, np.r_[0, np.cumsum(lengths)]), shape=(lengths.size, 2000)))


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_overlap_of_arrays_of_torch(index_type):
    torch = pytest.importorskip("torch")
    A = corpus.load("uniform(m=125000,n=125000,per_row=9)")
    parts = [torch.as_tensor(part.astype(index_type)).cuda() for part in (A.indptr, A.indices)]
    matrix = wl.CSR(*parts, torch.ones(A.nnz, device="cuda"), A.shape)
    problem = _core.Problem.of_tensors(matrix, None, "spmv", 1, "column", "warm", 0)
    resident = problem.resident()
    assert _core.compute_hidden_overlap_device(resident) == features.locality(A)["hidden_overlap"]


def test_overlap_is_not_measured_below_a_million_nonzeros():
    for per_row, measured in ((9, True), (7, False)):
        A = corpus.load(f"uniform(m=125000,n=125000,per_row={per_row})")
        found = _core.compute_hidden_overlap_device(resident_on_gpu(as_csr(A)))
        assert (found >= 0) == measured
        assert found == features.locality(A)["hidden_overlap"]


def test_overlap_repeats():
    resident = resident_on_gpu(as_csr(corpus.load("rmat(scale=17,edge_factor=16)")))
    assert len({_core.compute_hidden_overlap_device(resident, 0) for _ in range(50)}) == 1


def test_repeatable_and_safe_from_several_threads():
    A = skewed(5, sort=True)
    B = skewed(6, sort=False)
    resident = [resident_on_gpu(as_csr(matrix)) for matrix in (A, B)]
    jobs = [(name, matrix) for matrix in resident for name in features.sets()] * 10
    expected = [_core.compute_features_device(*job).tobytes() for job in jobs]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda job: _core.compute_features_device(*job).tobytes(), jobs))
    assert found == expected
    assert len(set(expected)) == 4


def test_threads_count_matrices_with_tables_of_all_sizes():
    """Each launches the same kernels with another amount of shared memory."""
    rng = np.random.default_rng(0)
    resident = []
    for num_cols in (2_000, 33_000, 60_000, 200_000, 500_000, 1_000_000):
        columns = np.sort(rng.integers(0, num_cols, size=(3000, 10)), axis=1)
        resident.append(resident_on_gpu(as_csr(from_rows(columns, num_cols))))
    jobs = [("spmm", matrix) for matrix in resident] * 40
    expected = [_core.compute_features_device(*job).tobytes() for job in jobs]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda job: _core.compute_features_device(*job).tobytes(), jobs))
    assert found == expected


# Matrices of other libraries.


def torch_csr(indptr, indices, shape, index_type):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's CSR is in beta, and says so
        return torch.sparse_csr_tensor(
            torch.as_tensor(indptr.astype(index_type), device="cuda"),
            torch.as_tensor(indices.astype(index_type), device="cuda"),
            torch.ones(len(indices), device="cuda"),
            size=shape,
            check_invariants=False,
        )


def cupy_csr(indptr, indices, shape, index_type):
    cupy = pytest.importorskip("cupy")
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    A = sparse.csr_matrix(shape, dtype=np.float32)
    A.indptr = cupy.asarray(indptr.astype(index_type))
    A.indices = cupy.asarray(indices.astype(index_type))
    A.data = cupy.ones(len(indices), np.float32)
    return A


LIBRARIES = [torch_csr, cupy_csr]


@pytest.fixture
def stays_on_gpu(monkeypatch):
    """Fail where a matrix is downloaded to the host."""

    def refuse(*args, **options):
        raise AssertionError("the matrix was downloaded to the host")

    monkeypatch.setattr(features, "as_csr", refuse)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("sort", [True, False])
def test_matrices_of_libraries(library, index_type, sort, stays_on_gpu):
    A = skewed(7, sort=sort, rows=3001)
    theirs = library(A.indptr, A.indices, A.shape, index_type)
    view = as_csr(A)
    np.testing.assert_array_equal(features.spmm(theirs).values, _core.compute_features("spmm", view))
    np.testing.assert_allclose(features.spmv(theirs).values, _core.compute_features("spmv", view), rtol=1e-12)


def test_arrays_may_be_longer_than_they_need_be(stays_on_gpu):
    A = skewed(8, sort=True, rows=1000)
    longer = np.concatenate([A.indices, np.full(5000, -7, np.int32)])
    theirs = cupy_csr(A.indptr, longer, A.shape, np.int32)
    np.testing.assert_array_equal(features.spmm(theirs).values, _core.compute_features("spmm", as_csr(A)))


def test_on_the_current_stream(stays_on_gpu):
    torch = pytest.importorskip("torch")
    A = skewed(9, sort=True, rows=2000)
    theirs = torch_csr(A.indptr, A.indices, A.shape, np.int32)
    indptr = theirs.crow_indices()
    right = indptr.clone()
    stream = torch.cuda.Stream()
    indptr.zero_()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        indptr.copy_(right)
        found = features.spmv(theirs)  # would see no nonzeros on any other stream
    assert found["nnz"] == A.nnz


INDPTR = np.array([0, 2, 3, 6])
INDICES = np.array([0, 3, 1, 0, 2, 3])
MALFORMED = {
    "first offset": ([1, 2, 3, 6], INDICES, 4),
    "negative first offset": ([-5, 2, 3, 6], INDICES, 4),
    "decreasing": ([0, 3, 2, 6], INDICES, 4),
    "decreasing twice": ([0, 5, 2, 1], INDICES, 4),
    "negative": ([0, -2, -1, 6], INDICES, 4),
    "ends negative": ([0, 2, 3, -6], INDICES, 4),
    "beyond the indices": ([0, 2, 7, 9], INDICES, 4),
    "beyond, then back": ([0, 2, 2_000_000_000, 6], INDICES, 4),
    "column too large": (INDPTR, [0, 3, 4, 0, 2, 3], 4),
    "column far too large": (INDPTR, [0, 3, 1, 2_000_000_000, 2, 3], 4),
    "column negative": (INDPTR, [0, 3, 1, 0, -1, -2], 4),
    "no columns": (INDPTR, INDICES, 0),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_matrices_are_refused_as_on_the_host(library, index_type, name, stays_on_gpu):
    indptr, indices, num_cols = (np.asarray(part) for part in MALFORMED[name])
    with pytest.raises(errors.InvalidMatrixError) as expected:
        compressed(indptr, indices, None, (3, int(num_cols)))
    theirs = library(indptr, indices, (3, int(num_cols)), index_type)
    for compute in [features.spmm] + [features.spmv] * (expected.value.argument == "indptr"):
        with pytest.raises(errors.InvalidMatrixError) as caught:
            compute(theirs)
        assert (caught.value.argument, caught.value.position) == (expected.value.argument, expected.value.position)


def test_the_gpu_still_works_after_malformed_matrices():
    for name in MALFORMED:
        indptr, indices, num_cols = (np.asarray(part) for part in MALFORMED[name])
        with pytest.raises(errors.InvalidMatrixError):
            features.spmm(torch_csr(indptr, indices, (3, int(num_cols)), np.int32))
        check(from_rows([[0], [1, 2]], 3))


def test_large_malformed_matrices_are_refused():
    rng = np.random.default_rng(0)
    A = skewed(10, sort=True)
    for trial in range(20):
        indptr, indices = A.indptr.astype(np.int64), A.indices.astype(np.int64)
        if trial % 2:
            indptr[rng.integers(0, indptr.size, size=50)] = rng.integers(-(2**40), 2**40, size=50)
        else:
            indices[rng.integers(0, indices.size, size=50)] = rng.integers(-(2**40), -1, size=50)
        with pytest.raises(errors.InvalidMatrixError) as expected:
            compressed(indptr, indices, None, A.shape)
        with pytest.raises(errors.InvalidMatrixError) as caught:
            features.spmm(torch_csr(indptr, indices, A.shape, np.int64))
        assert (caught.value.argument, caught.value.position) == (expected.value.argument, expected.value.position)


def test_geometry_is_positive():
    resident = resident_on_gpu(as_csr(csr_array((3, 3), dtype=np.float32)))
    with pytest.raises(errors.ParameterError, match="warps"):
        _core.compute_features_device("spmm", resident, warps=0)
    with pytest.raises(errors.ParameterError, match="unknown feature set"):
        _core.compute_features_device("spgemm", resident)

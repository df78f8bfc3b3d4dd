from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import reference_features
import warploom._core as core
from strategies import csr_matrices
from warploom import features
from warploom._device_matrix import device_arrays
from warploom.errors import DeviceError, DtypeError, ParameterError


def pattern(rows, num_cols):
    """Return the matrix whose row i has ones at the columns rows[i]."""
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.concatenate([np.asarray(row, dtype=np.int32) for row in rows]) if rows else []
    return scipy.sparse.csr_array((np.ones(indptr[-1]), indices, indptr), shape=(len(rows), num_cols))


def summary(vector, name):
    return tuple(vector[f"{name}_{what}"] for what in ("min", "mean", "max"))


@pytest.fixture
def restore_threads():
    yield
    core.set_num_threads(0)


# The registry.


def test_sets_have_the_sizes_of_the_papers():
    assert features.sets() == ("spmm", "spmv")
    assert len(features.names("spmm")) == 24
    assert len(features.names("spmv")) == 11


@pytest.mark.parametrize("set_name", features.sets())
def test_names_are_unique(set_name):
    assert len(set(features.names(set_name))) == len(features.names(set_name))


def test_unknown_set_is_named_with_the_known_ones():
    with pytest.raises(ParameterError, match=r"unknown feature set 'spgemm'.*spmm, spmv"):
        features.names("spgemm")


# Against the reference.

geometries = st.fixed_dictionaries(
    {
        "warps": st.integers(1, 9),
        "threads": st.integers(1, 9),
        "elements_per_cache_line": st.integers(1, 9),
    }
)


@given(csr_matrices(), geometries)
def test_spmm_is_the_reference(A, geometry):
    assert features.spmm(A, **geometry).as_dict() == pytest.approx(reference_features.spmm(A, **geometry), rel=1e-12)


@given(csr_matrices(max_rows=150, max_cols=20), st.sampled_from([32, 63, 64, 65, 100, 128, 129]))
def test_spmm_with_many_warps_is_the_reference(A, warps):
    assert features.spmm(A, warps=warps, elements_per_cache_line=4).as_dict() == pytest.approx(
        reference_features.spmm(A, warps, 32, 4), rel=1e-12
    )


@given(csr_matrices())
def test_spmv_is_the_reference(A):
    assert features.spmv(A).as_dict() == pytest.approx(reference_features.spmv(A), rel=1e-12)


@pytest.mark.parametrize("shape", [(0, 0), (0, 7), (7, 0), (1, 1), (1, 70), (40, 70)])
def test_matrices_without_nonzeros_have_finite_features(shape):
    A = scipy.sparse.csr_array(shape)
    for vector, expected in [
        (features.spmm(A), reference_features.spmm(A, 32, 32, 32)),
        (features.spmv(A), reference_features.spmv(A)),
    ]:
        assert np.isfinite(vector.as_array()).all()
        assert vector.as_dict() == expected


def large_matrix(seed, *, sort):
    """Return a matrix that several threads share: skewed rows, runs, repeats, empty stretches."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.zipf(1.5, size=20_011), 3000)
    lengths[rng.random(lengths.size) < 0.3] = 0
    rows = [rng.integers(0, 5000, size=1) + rng.integers(0, 60 + length, size=length) for length in lengths]
    rows = [np.sort(row) for row in rows] if sort else rows
    return pattern(rows, 8100)


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("geometry", [(32, 32, 32), (8, 32, 64), (12, 7, 20), (100, 32, 32)])
def test_features_do_not_depend_on_the_number_of_threads(restore_threads, sort, geometry):
    A = large_matrix(3, sort=sort)
    warps, threads, elements = geometry
    found = []
    for count in (1, 2, 3, 8):
        core.set_num_threads(count)
        spmm = features.spmm(A, warps=warps, threads=threads, elements_per_cache_line=elements)
        found.append((spmm, features.spmv(A)))
    assert all(pair == found[0] for pair in found)


def test_large_matrix_is_the_reference(restore_threads):
    core.set_num_threads(4)
    A = large_matrix(4, sort=False)
    assert features.spmv(A).as_dict() == pytest.approx(reference_features.spmv(A), rel=1e-12)
    vector = features.spmm(A, warps=16, elements_per_cache_line=270)  # few lines: the reference is quadratic
    assert vector.as_dict() == pytest.approx(reference_features.spmm(A, 16, 32, 270), rel=1e-12)


@given(csr_matrices(), st.randoms(use_true_random=False))
def test_order_within_rows_and_repeats_do_not_move_locality(A, random):
    shuffled = [random.sample(row, len(row)) for row in reference_features._rows(A)]
    repeated = [row + row[:1] for row in shuffled]
    locality = [name for name in features.names("spmm") if "lines" in name or "distance" in name]
    given_order = features.spmm(A, warps=3, elements_per_cache_line=2)
    assert features.spmm(pattern(shuffled, A.shape[1]), warps=3, elements_per_cache_line=2) == given_order
    other = features.spmm(pattern(repeated, A.shape[1]), warps=3, elements_per_cache_line=2)
    assert [other[name] for name in locality] == [given_order[name] for name in locality]


# By hand, from the text of Mehrabi et al. 2021.


def test_warp_load_of_the_papers_example():
    # Section II.C: rows of 33 and 64 nonzeros both load a warp of 32 threads twice.
    A = pattern([range(33), range(64)], 64)
    assert summary(features.spmm(A, warps=2), "warp_load") == (2, 2, 2)
    assert summary(features.spmm(A, warps=1), "warp_load") == (4, 4, 4)


def test_cache_lines_of_the_papers_example():
    # Section II.C: 32 consecutive nonzeros need one line, 32 nonzeros in columns 0, 32, 64, ... need 32.
    A = pattern([range(32), range(0, 1024, 32)], 1024)
    assert summary(features.spmm(A, warps=2), "total_cache_lines_per_warp") == (1, 16.5, 32)
    assert summary(features.spmm(A), "adjacent_vector_distance") == (31, 31, 31)


def test_rows_a_block_diagonal_apart_share_nothing():
    # The pattern of Fig. 7, simplified: 4 warps, 8 rows of one line each, two neighbouring rows to a line.
    A = pattern([[32 * (i // 2)] for i in range(8)], 128)
    vector = features.spmm(A, warps=4)
    assert summary(vector, "warp_load") == (2, 2, 2)
    assert summary(vector, "same_cache_lines") == (2, 2, 2)
    assert summary(vector, "distinct_cache_lines_per_warp") == (2, 2, 2)
    assert summary(vector, "total_cache_lines_per_warp") == (2, 2, 2)
    assert summary(vector, "adjacent_vector_distance") == (0, 3 * 2 / 7, 2)


def test_distinct_lines_count_reuse_within_a_warp_and_total_does_not():
    A = pattern([[0, 40], [40], [0], [41]], 64)  # two warps: rows 0 and 2, rows 1 and 3
    vector = features.spmm(A, warps=2)
    assert summary(vector, "distinct_cache_lines_per_warp") == (1, 1.5, 2)
    assert summary(vector, "total_cache_lines_per_warp") == (2, 2.5, 3)
    assert summary(vector, "same_cache_lines") == (2, 2.5, 3)


def test_lines_nobody_requests_and_warps_without_rows_count():
    vector = features.spmm(pattern([[0]], 96), warps=4)
    assert summary(vector, "same_cache_lines") == (0, pytest.approx(1 / 3), 1)
    assert summary(vector, "warp_load") == (0, 0.25, 1)
    assert summary(vector, "distinct_cache_lines_per_warp") == (0, 0.25, 1)
    assert summary(vector, "adjacent_vector_distance") == (0, 0, 0)


def test_blocks_are_as_wide_as_the_thread_block_has_warps():
    A = pattern([[0, 3, 4, 11]], 12)
    assert summary(features.spmm(A, warps=4), "nnz_blocks_per_row") == (3, 3, 3)
    assert summary(features.spmm(A, warps=12), "nnz_blocks_per_row") == (1, 1, 1)


def test_wide_matrix_needs_little_memory_for_huge_geometry():
    A = pattern([[0, 2**31 - 2]], 2**31 - 1)
    vector = features.spmm(A, warps=2**31 - 1, threads=2**31 - 1, elements_per_cache_line=2**31 - 1)
    assert vector["same_cache_lines_max"] == 1
    assert vector["warp_load_mean"] == 1 / (2**31 - 1)


@pytest.mark.parametrize("name", ["warps", "threads", "elements_per_cache_line"])
@pytest.mark.parametrize("value", [0, -1])
def test_geometry_is_positive(name, value):
    with pytest.raises(ParameterError, match=name):
        features.spmm(pattern([[0]], 1), **{name: value})


# Matrices in GPU memory; what they hold is tested in tests/gpu.


def arrays_on_gpu(name="spmv", itemsize=4, **geometry):
    return core.compute_features_of_arrays(name, 0, 0, itemsize, 0, itemsize, 0, 0, 0, 0, **geometry)


@pytest.mark.skipif(core.cuda_info()["built"], reason="this build has CUDA")
@pytest.mark.parametrize("name", features.sets())
def test_without_cuda_there_is_one_clear_error(name):
    with pytest.raises(DeviceError, match="no CUDA kernels"):
        arrays_on_gpu(name)


def test_what_is_wrong_with_the_call_is_said_before_the_gpu_is_asked():
    with pytest.raises(ParameterError, match="unknown feature set"):
        arrays_on_gpu("spgemm")
    with pytest.raises(ParameterError, match="threads"):
        arrays_on_gpu(threads=0)
    with pytest.raises(DtypeError, match="indptr must be int32 or int64"):
        arrays_on_gpu(itemsize=2)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_matrices_in_host_memory_are_read_there():
    torch = pytest.importorskip("torch")
    A = pattern([[0, 3], [], [1]], 4)
    indptr, indices = torch.from_numpy(A.indptr), torch.from_numpy(A.indices)
    tensor = torch.sparse_csr_tensor(indptr, indices, torch.ones(3), (3, 4), check_invariants=True)
    for matrix in (A, tensor):
        assert device_arrays(matrix) is None
        assert features.spmv(matrix) == features.spmv(A)


# The vector.


def test_vector_in_all_its_shapes():
    vector = features.spmv(pattern([[0, 1], [1]], 2))
    assert vector.names == features.names("spmv")
    assert vector.as_array().dtype == np.float64
    assert list(vector.as_dict()) == list(vector.names) == list(vector)
    assert list(vector.as_dict().values()) == vector.as_array().tolist()
    assert vector["nnz"] == 3
    assert type(vector["nnz"]) is float
    assert len(vector) == 11
    assert dict(vector.as_dict()) == {name: vector[name] for name in vector}
    with pytest.raises(KeyError, match="nnz_per_column"):
        vector["nnz_per_column"]


def test_vector_is_frozen():
    vector = features.spmv(pattern([[0]], 1))
    with pytest.raises(FrozenInstanceError):
        vector.set = "spmm"
    with pytest.raises(ValueError, match="read-only"):
        vector.values[0] = 1
    copy = vector.as_array()
    copy[0] = 99
    assert vector["num_rows"] == 1


def test_vectors_compare_by_value():
    one, same = (features.spmv(pattern([[0]], 1)) for _ in range(2))
    assert one == same
    assert hash(one) == hash(same)
    assert one != features.spmv(pattern([[0]], 2))
    assert one != features.spmm(pattern([[0]], 1))
    assert one != "spmv"


def test_vector_shows_every_feature():
    vector = features.spmm(pattern([[0, 1], [1]], 2))
    for text in (repr(vector), vector._repr_html_()):
        assert all(name in text for name in vector.names)
        assert "0.75" in text

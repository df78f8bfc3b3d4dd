"""Pictures of patterns: every nonzero is counted once, in its place, and plans show themselves."""

import base64
import io
import re
import time

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csr_array, random_array

import warploom as wl
from warploom import _core
from warploom._matrix import as_csr


def matrix(m=300, n=200):
    return csr_array(random_array((m, n), density=0.05, rng=np.random.default_rng(0), format="csr"))


def counted(A, height, width, perm=None):
    """Count one by one."""
    coo = A.tocoo()
    m, n = A.shape
    place = np.arange(m) if perm is None else np.argsort(perm)
    bounds = np.arange(height + 1) * m // height
    counts = np.zeros((height, width), np.int64)
    for row, column in zip(place[coo.row], coo.col, strict=True):
        counts[np.searchsorted(bounds, row, side="right") - 1, int(column) * width // n] += 1
    return counts


@pytest.mark.parametrize("size", [1, 7, 32, 299, 300, 400])
@pytest.mark.parametrize("permuted", [False, True])
def test_cells_count_nonzeros(size, permuted):
    A = matrix()
    perm = np.random.default_rng(1).permutation(300) if permuted else None
    picture = wl.spy(A, perm, size=size)
    height, width = picture.counts.shape
    assert (height, width) == (min(size, 300), min(200, max(1, round(size * 200 / 300))))
    np.testing.assert_array_equal(picture.counts, counted(A, height, width, perm))
    assert picture.nnz == A.nnz
    lengths = np.diff(A.indptr) if perm is None else np.diff(A.indptr)[perm]
    np.testing.assert_array_equal(picture.warp_loads, [lengths[i : i + 32].sum() for i in range(0, 300, 32)])


def test_permutations_by_name():
    A = matrix()
    perm = wl.permutations.compute("lpt", A)
    for given in ("lpt", perm, perm.tolist(), perm.astype(np.int64)):
        np.testing.assert_array_equal(wl.spy(A, given).counts, wl.spy(csr_array(A[perm])).counts)


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (1, 1), (5, 3), (1, 100_000), (100_000, 1)])
def test_any_shape(shape):
    for A in (
        csr_array(shape),
        csr_array(scipy.sparse.random_array(shape, density=0.5)) if min(shape) else csr_array(shape),
    ):
        picture = wl.spy(A)
        assert picture.counts.sum() == A.nnz
        assert decoded(picture._repr_png_()).shape[:2] == picture.pixels().shape


def decoded(png):
    from matplotlib import image

    return (image.imread(io.BytesIO(png), format="png") * 255).round().astype(np.uint8)


def test_pictures_are_png_files(tmp_path):
    A = csr_array(([1.0, 1.0], ([0, 299], [0, 199])), shape=(300, 200))
    picture = wl.spy(A, size=300)
    picture.save(tmp_path / "spy.png")
    pixels = decoded((tmp_path / "spy.png").read_bytes())[..., :3]
    assert (pixels[0, 0] < 255).all()
    assert (pixels[299, 199] < 255).all()
    assert (pixels[1:299, :199] == 255).all()
    assert (picture.pixels()[5, 206:] == 150).all()  # rows 0 to 31 are a warp with as much as the heaviest
    assert (picture.pixels()[100, 206:] == 12).all()


def test_more_nonzeros_are_darker():
    dense = np.kron(np.eye(2), np.ones((200, 200)))
    dense[0, 399] = 1.0
    pixels = wl.spy(csr_array(dense), size=10).pixels()[:, :250]
    assert pixels.min() == 0
    cell = pixels.shape[0] // 10
    assert 0 < pixels[0, 9 * cell] < pixels[0, 0] == 255


def test_ten_million_rows_are_quick():
    m = 10_000_000
    A = csr_array(
        (np.ones(3 * m, np.int8), np.tile(np.arange(3, dtype=np.int32), m) * 7 % m, np.arange(m + 1) * 3), shape=(m, m)
    )
    start = time.process_time()  # of all threads, and of nothing else that runs here
    picture = wl.spy(A)
    assert time.process_time() - start < 10
    assert picture.counts.sum() == 3 * m
    assert picture.counts.shape == (400, 400)


def test_what_is_refused():
    A = matrix()
    for perm in (
        "abacus",
        np.arange(299),
        np.zeros(300, int),
        np.arange(300) + 1,
        np.arange(300.0),
        np.eye(300, dtype=int),
    ):
        with pytest.raises(wl.errors.ParameterError):
            wl.spy(A, perm)
    for size in (0, -1, 5000, 2.5, None):
        with pytest.raises(wl.errors.ParameterError) as refused:
            wl.spy(A, size=size)
        assert refused.value.argument == "size"
    with pytest.raises(wl.errors.ParameterError):
        _core.count_in_cells(as_csr(A), None, 301, 1)
    A.indices[3] = 1000
    with pytest.raises(wl.errors.InvalidMatrixError):
        wl.spy(A)


def test_plans_show_themselves():
    A = matrix()
    plan = wl.plan(A, "spmv", device="cpu", candidates="spmv/none/csr/*")
    operator = wl.plan(A, device="cpu", select="spmv/none/csr/vector")
    before = operator._repr_html_()
    operator @ np.ones(200)
    for shown, words in (
        (plan._repr_html_(), [plan.candidate, "300 x 200", f"{A.nnz:,} nonzeros", "speedup", "memory"]),
        (before, ["nothing yet"]),
        (operator._repr_html_(), ["spmv/none/csr/vector", "vector"]),
    ):
        text = re.sub("<[^>]+>", " ", shown)
        assert all(word in text for word in words), text
        (png,) = re.findall(r"base64,([^\"]+)", shown)
        assert decoded(base64.b64decode(png)).shape[0] >= 240
    transposed = operator.T
    transposed @ np.ones(300)
    assert "base64" not in transposed._repr_html_()
    assert "200 x 300" in transposed._repr_html_()
    assert "nonzeros; right" in wl.spy(A)._repr_html_()
    late = wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector")
    A.indices[3] = 1000  # it still says what it is
    assert "300 x 200" in late._repr_html_()
    assert "base64" not in late._repr_html_()

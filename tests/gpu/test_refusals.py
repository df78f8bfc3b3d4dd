"""What kernels refuse because of padding they refuse on the GPU as well, for the same reason as on the host."""

import re

import numpy as np
import pytest
from scipy.sparse import csr_array

import warploom as wl
from products import prepare_product, reason_against
from warploom import _device
from warploom._matrix import as_csr
from warploom.errors import ParameterError

# Every 32nd row is long, so that no slice is short.
LENGTHS = np.where(np.arange(1024) % 32 == 0, 1000, 1)
A = csr_array(
    (
        np.ones(LENGTHS.sum()),
        np.concatenate([np.arange(length) for length in LENGTHS]),
        np.concatenate([[0], np.cumsum(LENGTHS)]),
    ),
    shape=(1024, 1000),
)
# One entry for each row, which 64 places would hold.
THIN = csr_array((np.ones(1100), np.r_[np.arange(999), np.arange(101)], np.r_[np.arange(1000), 1100]), (1000, 1000))


@pytest.mark.parametrize(
    ("kernel", "matrix", "parameters"),
    [
        ("sell/vector", A, {}),
        ("sell/vector", A, {"threads_per_row": 2, "sort_window": 1}),
        ("sell/cusparse", A, {}),
        ("ell/vector", A, {}),
        ("hyb/fused", THIN, {"width": 64}),
        ("compressed-sell/vector", A, {}),
        ("compressed-sell/vector", A, {"rows_per_lane": 4, "parts": 8}),
    ],
)
def test_padding(kernel, matrix, parameters):
    stored, name = kernel.split("/")
    if name == "cusparse" and (reason := _device.load_cusparse()):
        pytest.skip(f"no cuSPARSE: {reason}")
    arguments = "spmv", as_csr(matrix), stored, name, 1, "column", parameters
    reason = reason_against(*arguments)
    assert "would store" in reason
    with pytest.raises(ParameterError, match=re.escape(f"{kernel} {reason}")):
        prepare_product(*arguments, device=0)


@pytest.mark.parametrize(("columns", "refused"), [(1_000_000, True), (60_000, False)])
def test_few_nonzeros_in_hubs(columns, refused):
    """The host judges by a sample, and the GPU by all columns."""
    nnz = 2_000_000
    indices = np.sort(np.random.default_rng(0).integers(0, columns, nnz))
    matrix = csr_array((np.ones(nnz, np.float32), indices, np.array([0, nnz])), shape=(1, columns))
    arguments = "spmv", as_csr(matrix), "hub-csr", "segmented_sum", 1, "column", {"hub_kb": 192}
    reason = reason_against(*arguments)
    assert ("less than a fifth of its nonzeros" in reason) == refused
    if refused:
        with pytest.raises(ParameterError, match=re.escape(f"hub-csr/segmented_sum {reason}")):
            prepare_product(*arguments, device=0)
    else:
        prepare_product(*arguments, device=0)


# Every place of a column holds two entries.
DUPLICATES = csr_array((np.ones(32, np.float32), np.zeros(32, np.int32), np.arange(17) * 2), shape=(16, 1))
WITHOUT = csr_array((16, 16), dtype=np.float32)


@pytest.mark.parametrize("matrix", [DUPLICATES, WITHOUT], ids=["duplicates", "no nonzeros"])
@pytest.mark.parametrize("op", ["spmv", "spmm"])
def test_what_cusparse_does_not_take(op, matrix):
    if reason := _device.load_cusparse():
        pytest.skip(f"no cuSPARSE: {reason}")
    options = {"device": "cuda", **({} if op == "spmv" else {"k": 4})}
    for kernel_format in ("csr", "coo"):
        with pytest.raises(ParameterError, match="cusparse takes"):
            wl.plan(matrix, op, select=f"{op}/none/{kernel_format}/cusparse", **options)
    B = np.ones(matrix.shape[1] if op == "spmv" else (matrix.shape[1], 4), np.float32)
    for select in ("predict", "measure"):
        plan = wl.plan(matrix, op, select=select, **options)
        np.testing.assert_array_equal(plan @ B, matrix @ B)


# One row that is longer than the matrix is wide, with fewer entries than places in all.
LONG_ROW = csr_array((np.ones(5, np.float32), np.array([0, 1, 0, 1, 0]), np.array([0, *[3] * 8, 5])), shape=(9, 2))


def test_rows_that_are_longer_than_the_matrix_is_wide():
    if reason := _device.load_cusparse():
        pytest.skip(f"no cuSPARSE: {reason}")
    with pytest.raises(ParameterError, match="more entries than the matrix has columns"):
        wl.plan(LONG_ROW, k=4, device="cuda", select="spmm/none/csr/cusparse[algorithm=3]")
    B = np.ones((2, 4), np.float32)
    for algorithm in range(3):
        plan = wl.plan(LONG_ROW, k=4, device="cuda", select=f"spmm/none/csr/cusparse[algorithm={algorithm}]")
        np.testing.assert_array_equal(plan @ B, LONG_ROW @ B)


def test_what_the_sampled_product_of_cusparse_does_not_take():
    if reason := _device.load_cusparse():
        pytest.skip(f"no cuSPARSE: {reason}")
    with pytest.raises(ParameterError, match="takes at most"):
        wl.sddmm_plan(DUPLICATES, device="cuda", select="sddmm/none/csr/cusparse")

"""Segments of rows that threads share: where they begin and end, and where long rows are cut."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import warploom as wl
from products import assert_product, operand

LENGTHS = {
    "no nonzeros": [0] * 300,
    "one row": [5],
    "one long row": [5000],
    "ones": [1] * 1000,
    "empty rows between": [0, 0, 3, 0, 1, 0, 0, 0, 7, 0] * 40,
    "empty rows at both ends": [0] * 200 + [4] * 10 + [0] * 200,
    "as long as a segment": [32, 31, 33, 64, 16, 1] * 20,
    "about the longest that is not cut": [63, 64, 65, 127, 128, 129, 255, 256, 257] * 3,
    "long rows side by side": [300, 400, 0, 500, 1, 1000, 1000],
    "long rows at both ends": [700, *[2] * 100, 700],
    "any": [*np.random.default_rng(1).integers(0, 12, 500), 900, *np.random.default_rng(2).integers(0, 80, 200)],
}


def matrix_of(lengths, n=1200):
    rng = np.random.default_rng(3)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(0, n, indptr[-1], dtype=np.int32)
    return csr_array((rng.standard_normal(indptr[-1]), indices, indptr), shape=(len(lengths), n))


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("by_column", [0, 1])
@pytest.mark.parametrize("work", [16, 32, 64])
def test_any_rows_in_any_order(name, work, by_column):
    matrix = matrix_of(LENGTHS[name])
    for permutation in ("none", "lpt", "degree"):
        select = f"spmm/{permutation}/csr/nonzero_split[work={work},by_column={by_column}]"
        for k in (1, 8, 32, 130):
            B = operand((matrix.shape[1], k), matrix.dtype, "row", seed=k)
            plan = wl.plan(matrix, "spmm", k=k, device="cuda", select=select)
            first = plan @ B
            assert_product(matrix, B, first)
            np.testing.assert_array_equal(first, plan @ B, "the workspace is left as it was found")


def test_values_are_finished_once():
    """Of rows that share a segment, and of rows that are cut, whose last piece finishes them."""
    torch = pytest.importorskip("torch")
    matrix = matrix_of(LENGTHS["any"]).astype(np.float32)
    for k in (32, 35):
        plan = wl.plan(matrix, k=k, device="cuda", select="spmm/none/csr/nonzero_split")
        B, C = torch.randn(matrix.shape[1], k, device="cuda"), torch.randn(matrix.shape[0], k, device="cuda")
        bias = torch.randn(k, device="cuda")
        expected = torch.relu(0.5 * (plan @ B) - 2.0 * C + bias)
        found = plan(B, out=C.clone(), alpha=0.5, beta=-2.0, bias=bias, activation="relu")
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)
        assert torch.equal(found, plan(B, out=C.clone(), alpha=0.5, beta=-2.0, bias=bias, activation="relu"))


def test_column_major_operands():
    matrix = matrix_of(LENGTHS["any"])
    B = operand((matrix.shape[1], 40), matrix.dtype, "column")
    plan = wl.plan(matrix, "spmm", k=40, layout="column", device="cuda", select="spmm/none/csr/nonzero_split")
    assert_product(matrix, B, plan @ B)

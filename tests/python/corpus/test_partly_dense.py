"""Matrices of which percents are filled, against their definitions place by place."""

from __future__ import annotations

import numpy as np
import pytest
from construction_calls import dense_pattern, is_symmetric

from warploom.corpus.constructions import construct
from warploom.errors import ParameterError


@pytest.mark.parametrize(
    ("radius", "dimensions", "share"),
    [
        (10, 1, 0.19),  # 2 r - r^2 of the unit interval
        (20, 2, 0.1046),  # pi r^2 - 8/3 r^3 + r^4 / 2 of the square
        (100, 8, 0.300),  # of 10^6 pairs drawn by NumPy
    ],
)
def test_kernels_join_the_share_of_points_that_is_close(radius, dimensions, share):
    matrix = construct("kernel_matrix", n=2000, radius=radius, dimensions=dimensions)
    assert is_symmetric(matrix)
    assert matrix.diagonal().all()
    assert abs(matrix.nnz / 2000**2 - share) < 0.04 * share


def test_clusters_are_blocks_of_the_order():
    matrix = dense_pattern(construct("kernel_matrix", n=600, radius=20, clusters=6))
    within = np.mean([matrix[i : i + 100, i : i + 100].mean() for i in range(0, 600, 100)])
    assert within > 2 * matrix.mean()


@pytest.mark.parametrize("factors", [3, 8, 50])
def test_covariances_keep_their_share_and_the_diagonal(factors):
    matrix = construct("covariance", n=1000, permille=100, factors=factors)
    assert is_symmetric(matrix)
    assert matrix.diagonal().all()
    assert abs(matrix.nnz / 1000**2 - 0.1) < 0.02


def test_factors_make_covariances_of_low_rank():
    """With one factor, a variable has an entry with all whose weights are large enough: rows are nested."""
    matrix = dense_pattern(construct("covariance", n=200, permille=300, factors=1))
    np.fill_diagonal(matrix, False)
    shortest, *rows = (set(np.flatnonzero(matrix[i])) for i in np.argsort(matrix.sum(axis=1), kind="stable"))
    for row in rows:
        # The diagonal stands for itself, not for a product of weights.
        assert len(shortest - row) <= 1
        shortest = row


@pytest.mark.parametrize("causal", [0, 1])
def test_attention(causal):
    matrix = dense_pattern(construct("attention", n=200, window=7, everywhere=3, causal=causal))
    for i in range(200):
        for j in range(200):
            attends = abs(i - j) <= 7 or i < 3 or j < 3
            assert matrix[i, j] == (attends and (not causal or j <= i))


def test_random_blocks_of_attention():
    matrix = dense_pattern(construct("attention", n=64 * 9 + 5, window=0, blocks=2, seed=3))
    np.fill_diagonal(matrix, False)
    for i in range(0, 64 * 9, 64):
        filled = [matrix[i : i + 64, j : j + 64].mean() > 0.9 for j in range(0, 64 * 9 + 5, 64)]
        assert 1 <= sum(filled) <= 2
        assert matrix[i : i + 64].sum() >= 5 * 64 - 64


def test_a_window_of_all_tokens_is_a_triangle():
    matrix = dense_pattern(construct("attention", n=50, window=50, causal=1))
    assert (matrix == np.tri(50, dtype=bool)).all()


def test_chunks_of_rows_do_not_matter():
    """4,000 rows are found in two chunks; a smaller matrix of the same points is the corner of the larger one."""
    large = dense_pattern(construct("kernel_matrix", n=4000, radius=25, dimensions=2))
    small = dense_pattern(construct("kernel_matrix", n=1000, radius=25, dimensions=2))
    assert (large[:1000, :1000] == small).all()
    assert is_symmetric(construct("kernel_matrix", n=4000, radius=25, dimensions=2))


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("kernel_matrix", {"n": 3, "radius": 101}, "radius"),
        ("kernel_matrix", {"n": 3, "radius": 1, "dimensions": 9}, "dimensions"),
        ("covariance", {"n": 3, "permille": 1001}, "permille"),
        ("attention", {"n": 3, "window": 1, "causal": 2}, "causal"),
    ],
)
def test_bad_parameters(name, parameters, argument):
    with pytest.raises(ParameterError, match=argument) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument

"""Bands, blocks, arrows and triangles against their rule, place by place."""

from __future__ import annotations

import numpy as np
import pytest
from construction_calls import dense_pattern, is_symmetric
from hypothesis import given, settings
from hypothesis import strategies as st

from warploom.corpus.constructions import construct
from warploom.errors import ParameterError


def _distance(n):
    return np.subtract.outer(np.arange(n), np.arange(n))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 15), st.integers(0, 20), st.integers(0, 20))
def test_banded(n, lower, upper):
    expected = (_distance(n) <= lower) & (_distance(n) >= -upper)
    np.testing.assert_array_equal(dense_pattern(construct("banded", n=n, lower=lower, upper=upper)), expected)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(0, 40), st.integers(1, 100))
def test_random_banded_stays_in_its_band(n, half_width, percent):
    matrix = dense_pattern(construct("random_banded", n=n, half_width=half_width, percent=percent))
    assert matrix.diagonal().all()
    assert not matrix[np.abs(_distance(n)) > half_width].any()
    if percent == 100:
        assert matrix[np.abs(_distance(n)) <= half_width].all()


def test_random_banded_has_its_density():
    band = construct("random_banded", n=2000, half_width=50, percent=20)
    places = construct("banded", n=2000, lower=50, upper=50).nnz
    assert abs(band.nnz / places - 0.2) < 0.01 + 1 / 101


def test_diagonals_are_whole_and_in_pairs():
    matrix = dense_pattern(construct("diagonals", n=60, count=4, reach=50))
    whole = [int(matrix.diagonal(d).sum()) for d in range(-59, 60)]
    assert all(found in (0, 60 - abs(d)) for d, found in zip(range(-59, 60), whole, strict=True))
    assert whole == whole[::-1]
    assert whole[59] == 60
    assert 3 <= sum(w > 0 for w in whole) <= 9


def test_block_banded():
    expected = np.kron(np.abs(_distance(6)) <= 2, np.ones((3, 3))) != 0
    np.testing.assert_array_equal(dense_pattern(construct("block_banded", blocks=6, size=3, half_width=2)), expected)


def test_block_diagonal_is_dense_blocks():
    matrix = construct("block_diagonal", blocks=20, smallest=2, largest=5)
    pattern, start, sizes = dense_pattern(matrix), 0, []
    while start < len(pattern):
        size = int(pattern[start].sum())
        assert pattern[start : start + size, start : start + size].all()
        sizes.append(size)
        start += size
    assert matrix.nnz == sum(size * size for size in sizes)
    assert len(sizes) == 20
    assert set(sizes) == {2, 3, 4, 5}


@pytest.mark.parametrize("last", [0, 1])
def test_arrow(last):
    n, width = 12, 3
    border = np.arange(n) >= n - width if last else np.arange(n) < width
    expected = (np.abs(_distance(n)) <= 1) | border[:, None] | border
    matrix = construct("arrow", n=n, width=width, half_width=1, last=last)
    np.testing.assert_array_equal(dense_pattern(matrix), expected)


def test_dense_rows_and_columns():
    rows = np.diff(construct("dense_rows", n=2000, count=5, percent=50, per_row=6).indptr)
    assert 1 <= (rows > 600).sum() <= 5  # 1000 draws hit about 787 of 2000 columns
    assert (np.sort(rows)[:-5] <= 6).all()
    columns = dense_pattern(construct("dense_columns", n=300, count=4, percent=90, per_column=3)).sum(axis=0)
    assert 1 <= (columns > 100).sum() <= 4
    np.testing.assert_array_equal(
        dense_pattern(construct("dense_columns", n=300, count=4, percent=90, per_column=3)),
        dense_pattern(construct("dense_rows", n=300, count=4, percent=90, per_row=3)).T,
    )


@pytest.mark.parametrize("upper", [0, 1])
def test_triangular(upper):
    matrix = dense_pattern(construct("triangular", n=256, per_row=3, hubs=2, upper=upper))
    assert matrix.diagonal().all()
    assert not (np.tril(matrix, -1) if upper else np.triu(matrix, 1)).any()
    hubs = matrix[:, -5:] if upper else matrix[:, :5]
    assert hubs.sum() > 256  # two draws a row among the last five columns


def test_diagonal_dense_and_permutation():
    np.testing.assert_array_equal(dense_pattern(construct("diagonal", n=7)), np.eye(7))
    assert dense_pattern(construct("dense", m=3, n=5)).all()
    permutation = dense_pattern(construct("permutation", n=50))
    assert (permutation.sum(axis=0) == 1).all()
    assert (permutation.sum(axis=1) == 1).all()
    assert not permutation.diagonal().all()


def test_identity_plus():
    matrix = construct("identity_plus", n=1000, extra=30)
    assert dense_pattern(matrix).diagonal().all()
    assert 1020 <= matrix.nnz <= 1030


def test_tolosa_blocks():
    modes = 20
    matrix = dense_pattern(construct("tolosa", modes=modes))
    coupled = np.arange(100) % modes < 18
    for row in range(5 * modes):
        block, mode = divmod(row, modes)
        if block == 0:
            expected = {modes + mode}
        elif block == 1:
            expected = {mode, row} if mode >= 18 else set(np.flatnonzero(coupled))
        else:
            expected = {modes + mode, row}
        assert set(np.flatnonzero(matrix[row])) == expected


def test_symmetry():
    for name, parameters in {
        "block_banded": {"blocks": 5, "size": 3, "shuffle": 2},
        "block_diagonal": {"blocks": 5, "smallest": 1, "largest": 9, "shuffle": 2},
        "arrow": {"n": 20, "width": 2, "half_width": 1, "shuffle": 4},
        "diagonals": {"n": 40, "count": 4, "reach": 30},
    }.items():
        assert is_symmetric(construct(name, **parameters))


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("banded", {"n": 3, "lower": -1, "upper": 0}, "lower"),
        ("random_banded", {"n": 3, "half_width": 1, "percent": 101}, "percent"),
        ("diagonals", {"n": 3, "count": 1, "reach": 3}, "reach"),
        ("block_diagonal", {"blocks": 3, "smallest": 3, "largest": 2}, "largest"),
        ("arrow", {"n": 3, "width": 4}, "width"),
        ("dense_rows", {"n": 3, "count": 1, "percent": 401}, "percent"),
        ("triangular", {"n": 3, "per_row": 1, "upper": 2}, "upper"),
        ("tolosa", {"modes": 17}, "modes"),
    ],
)
def test_bad_parameters(name, parameters, argument):
    with pytest.raises(ParameterError, match=argument) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument

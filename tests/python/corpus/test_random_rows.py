"""Row lengths against the distribution that they are to have."""

from __future__ import annotations

import numpy as np
import pytest
from construction_calls import dense_pattern

from warploom.corpus.constructions import construct
from warploom.errors import ParameterError

_WIDE = 1_000_000  # columns, so that hardly any draw is repeated


def _lengths(name, **parameters):
    return np.diff(construct(name, **parameters).indptr)


def test_uniform_rows_are_equally_long():
    lengths = _lengths("uniform", m=500, n=_WIDE, per_row=20)
    assert lengths.max() == 20
    assert lengths.mean() > 19.9


def test_columns_are_uniform():
    columns = construct("uniform", m=5000, n=10, per_row=1).indices
    counts = np.bincount(columns, minlength=10)
    assert abs(counts - 500).max() < 5 * np.sqrt(500)


def test_uniform_between_reaches_both_bounds():
    lengths = _lengths("uniform_between", m=2000, n=_WIDE, shortest=0, longest=9)
    assert set(lengths) == set(range(10))
    assert abs(lengths.mean() - 4.5) < 0.3


@pytest.mark.parametrize("exponent_tenths", [10, 15, 30])
def test_power_law_tail(exponent_tenths):
    """The share of rows longer than x is (shortest / x)**a."""
    lengths = _lengths("power_law_rows", m=5000, n=_WIDE, shortest=4, exponent_tenths=exponent_tenths)
    assert lengths.min() >= 3
    for factor in (2, 4):
        share = (lengths >= 4 * factor).mean()
        expected = factor ** (-exponent_tenths / 10)
        assert abs(share - expected) < 5 * np.sqrt(expected / 5000)


def test_skew_prefers_the_first_columns():
    even = construct("power_law_rows", m=500, n=10_000, shortest=3)
    skewed = construct("power_law_rows", m=500, n=10_000, shortest=3, skew=3)
    assert abs((even.indices < 1250).mean() - 0.125) < 0.03
    assert (skewed.indices < 1250).mean() > 0.4


def test_log_normal_lengths():
    lengths = _lengths("log_normal_rows", m=5000, n=_WIDE, median=50, spread_tenths=8)
    logarithms = np.log(lengths)
    assert abs(np.median(logarithms) - np.log(50)) < 0.06
    assert abs(logarithms.std() - 0.8) < 0.03
    ordered = _lengths("log_normal_rows", m=300, n=_WIDE, median=50, spread_tenths=8, sorted_rows=1)
    assert ordered[0] > ordered[-1]
    assert (np.diff(ordered) <= 1).all()  # a repeated draw may cost a row one


def test_every_stride_a_long_row():
    lengths = _lengths("cyclic_rows", m=100, n=_WIDE, short=3, long=200, stride=32)
    assert set(np.flatnonzero(lengths > 3)) == {0, 32, 64, 96}
    assert lengths[32] > 190


def test_hypersparse_rows_are_mostly_empty():
    lengths = _lengths("hypersparse", m=10_000, n=_WIDE, nonempty=200, per_row=5)
    assert 190 <= (lengths > 0).sum() <= 200
    assert lengths.max() == 5


@pytest.mark.parametrize("skew", [0, 1, 2])
def test_pruned_density_and_spread_of_rows(skew):
    matrix = construct("pruned", m=1000, n=500, permille=50, skew=skew)
    assert abs(matrix.nnz / 500_000 - 0.05) < 0.005
    share = np.diff(matrix.indptr) / 500
    spread = share.std() / share.mean()
    # A row's share is proportional to u**skew, beside the noise of 25 entries a row.
    expected = np.sqrt((skew + 1) ** 2 / (2 * skew + 1) - 1 + 0.95 / 25)
    assert abs(spread - expected) < 0.1


def test_pruned_does_not_depend_on_its_chunks():
    """A matrix of more places than a chunk has other rows in each of them."""
    matrix = construct("pruned", m=60, n=1 << 17, permille=1)
    assert matrix.shape == (60, 1 << 17)
    rows = [tuple(matrix.indices[a:b]) for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)]
    assert len(set(rows)) == 60
    assert abs(matrix.nnz / (60 * (1 << 17)) - 0.001) < 1e-4


@pytest.mark.parametrize(("m", "n"), [(6, 9), (9, 6)])
def test_pruned_blocks(m, n):
    matrix = dense_pattern(construct("pruned_blocks", m=m, n=n, block=3, percent=40))
    assert matrix.shape == (3 * m, 3 * n)
    blocks = matrix.reshape(m, 3, n, 3).sum(axis=(1, 3))
    assert set(np.unique(blocks)) == {0, 9}


def test_pruned_groups_keep_as_many_in_each():
    matrix = dense_pattern(construct("pruned_groups", m=50, n=30, kept=2, group=4))
    groups = matrix.reshape(50, 30, 4)
    assert (groups.sum(axis=2) == 2).all()
    assert len({tuple(group) for group in groups.reshape(-1, 4)}) == 6


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("uniform", {"m": 3, "n": 0, "per_row": 1}, "n"),
        ("uniform_between", {"m": 3, "n": 3, "shortest": 4, "longest": 3}, "longest"),
        ("power_law_rows", {"m": 3, "n": 3, "shortest": 1, "exponent_tenths": 4}, "exponent_tenths"),
        ("power_law_rows", {"m": 3, "n": 3, "shortest": 1, "skew": 9}, "skew"),
        ("log_normal_rows", {"m": 3, "n": 3, "median": 1, "spread_tenths": 31}, "spread_tenths"),
        ("cyclic_rows", {"m": 3, "n": 3, "short": 1, "long": 1, "stride": 0}, "stride"),
        ("pruned", {"m": 3, "n": 3, "permille": 1001}, "permille"),
        ("pruned_groups", {"m": 3, "n": 3, "kept": 5, "group": 4}, "kept"),
    ],
)
def test_bad_parameters(name, parameters, argument):
    with pytest.raises(ParameterError, match=argument) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument


def test_more_entries_than_indices_can_count():
    with pytest.raises(ParameterError, match="32-bit"):
        construct("uniform", m=1 << 16, n=10, per_row=1 << 16)

"""What needs no measurements, against what the papers print."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from reproduce import synthetic
from warploom.reproduce import find
from warploom.reproduce.cmrs2014.model import acceleration, transferred
from warploom.reproduce.dasp2023.representative import REPRESENTATIVE, available
from warploom.reproduce.gao2024.example import long_rows_between_short_ones
from warploom.reproduce.mehrabi2021.example import cache_lines_of_groups, example_of_orders


def as_printed(results, id, quantities=None):
    (item,) = find([id])
    for printed in item.printed:
        if quantities is None or printed.quantity in quantities:
            assert results[id].ours[printed.quantity] == printed.value, printed.quantity


@pytest.mark.parametrize("id", ["M-F1", "M-T2", "G-T2", "G-Alg1", "D-F5", "D-T2", "C-ex"])
def test_as_the_paper_prints_it(results, id):
    as_printed(results, id)


@pytest.mark.parametrize("id", ["M-T2", "G-T2", "D-T2"])
def test_a_list_tests_nothing(results, id):
    assert results[id].verdict.standing == "not tested"


@pytest.mark.parametrize("id", ["M-F1", "C-ex"])
def test_arrays_are_compared_one_by_one(results, id):
    assert results[id].tables[0]["equal"].all()
    assert results[id].verdict.standing == "holds"


def test_loads_and_lines_of_two_orders(results):
    as_printed(
        results, "M-F7", ["warp loads, original order", "warp loads, LPT", "distinct cache lines, original order"]
    )
    A = example_of_orders().toarray()
    needed = [{c // 32 for c in np.flatnonzero(row)} for row in A]
    assert [sum(len(needed[r]) for r in range(w, 16, 4)) for w in range(4)] == [12, 13, 10, 10]
    groups = [len(set().union(*needed[first : first + 4])) for first in range(0, 16, 4)]
    assert sum(groups) == 24
    lines = np.array([[line in row for line in range(24)] for row in needed])
    assert cache_lines_of_groups(lines) == groups
    assert results["M-F7"].ours["distinct cache lines, LPT"] > 24


def test_blocks_of_short_and_long_rows(results):
    lengths = np.diff(long_rows_between_short_ones().indptr)
    assert len(lengths) == 3432
    frame = results["G-Alg1"].tables[0]
    first = int(np.flatnonzero(lengths >= 512)[0])
    count = int((lengths >= 512).sum())
    assert frame["first row"].tolist() == [0, first, first + count]
    assert frame["long"].tolist() == [False, True, False]
    assert frame["nonzeros"].tolist() == [
        int(lengths[:first].sum()),
        int(lengths[first : first + count].sum()),
        int(lengths[first + count :].sum()),
    ]


def test_model():
    assert float(transferred(1, 2)) == 16.5  # Sec. 5
    assert math.isclose(float(transferred(16, 2)), 1 + 124 / 128)
    for h, mu in ((2, 3), (16, 100)):
        exact = (1 + Fraction(120, mu * 8)) / (1 + Fraction(120, h * mu * 8))
        assert math.isclose(float(acceleration(h, mu, value_bytes=8, exact=True)), exact)
        assert math.isclose(float(acceleration(h, mu, segment=256)), 1 + (h - 1) / (1 + h * mu * 4 / 256))
    assert float(acceleration(1, 7)) == 1


def test_representative_matrices():
    assert len(REPRESENTATIVE) == 21
    frame = available().set_index("matrix")
    assert frame.loc["Freescale/circuit5M", ["rows", "nnz"]].tolist() == [5558326, 59524291]
    assert set(frame["obtained"]) <= {"construction", "folder", "download"}


def test_categories_by_counting_row_lengths(results):
    frame = results["D-F12"].tables[0].set_index(["matrix", "category"])
    for name, lengths in synthetic.ROW_LENGTHS.items():
        for category, holds in (
            ("long", lambda n: n > 256),
            ("medium", lambda n: 4 < n <= 256),
            ("empty", lambda n: n == 0),
        ):
            chosen = [n for n in lengths if holds(n)]
            assert math.isclose(frame.loc[(name, category), "share of rows"], len(chosen) / len(lengths))
            assert math.isclose(frame.loc[(name, category), "share of nonzeros"], sum(chosen) / sum(lengths))
        shares = frame.loc[name]
        assert math.isclose(shares["share of rows"].sum(), 1)
        assert math.isclose(shares["share of nonzeros"].sum(), 1)

"""Differences between runs, tolerances and near-ties, against slow loops and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.tables import matrix, measured, tables
from warploom.bench import repeatability as module
from warploom.bench.repeatability import Tolerances, near_ties, pairs, repeatability, time_class, tolerances
from warploom.errors import ParameterError


def repeated(differences, base=5.0, cache="warm", start=0):
    """One candidate for each difference, measured twice: the second time is `base` times 1 + difference."""
    rows = []
    for i, difference in enumerate(differences, start):
        rows.append(measured("a", f"c{i}", base, cache=cache))
        rows.append(measured("a", f"c{i}", base * (1 + difference), cache=cache, run=1))
    return rows


def test_pairs_are_equal_but_for_the_run():
    rows = [
        measured("a", "x", 2.0),
        measured("a", "x", 3.0, run=1),
        measured("a", "x", 20.0, cache="cold"),
        measured("a", "x", 10.0, cache="cold", run=1),
        measured("a", "y", 1.0),
        measured("a", "z", 1.0, run=1),
        measured("a", "w", 1.0),
        measured("a", "w", 1.0, run=1, status="wrong result"),
    ]
    found = pairs(tables([matrix("a")], rows)).sort_values("first_us")
    assert found["candidate"].tolist() == ["x", "x"]
    assert found["cache"].tolist() == ["warm", "cold"]
    assert found["time_class"].tolist() == [0, 1]
    np.testing.assert_allclose(found["log_ratio"], [math.log(1.5), math.log(0.5)])


def test_time_classes_are_decades():
    assert time_class(np.array([0.99, 1, 9.99, 10, 99, 100, 1e6, np.nan, 0])).tolist() == [-1, 0, 0, 1, 1, 2, 6, 0, 0]
    assert module.time_class_name(1) == "10 to 100 us"
    assert module.time_class_name(-1) == "0.1 to 1 us"


def test_distribution_by_cache_and_time():
    rng = np.random.default_rng(0)
    differences = {("warm", 5.0): rng.normal(0, 0.02, 30), ("cold", 50.0): rng.normal(0.01, 0.01, 40)}
    rows = [row for (cache, base), d in differences.items() for row in repeated(d, base, cache)]
    summary = repeatability(tables([matrix("a")], rows))
    assert summary.frame[["cache", "time", "pairs"]].values.tolist() == [
        ["warm", "1 to 10 us", 30],
        ["warm", "all", 30],
        ["cold", "10 to 100 us", 40],
        ["cold", "all", 40],
    ]
    for line, d in ((0, differences["warm", 5.0]), (3, differences["cold", 50.0])):
        row = summary.frame.iloc[line]
        logs = sorted(abs(math.log(1 + x)) for x in d)
        assert row["median ratio"] == pytest.approx(1 + np.median(d), rel=1e-6)
        for percentile in (5, 25, 50, 75, 95, 99):
            assert row[f"{percentile} %"] == pytest.approx(np.percentile(logs, percentile), rel=1e-4, abs=1e-6)
    assert "Test GPU, CUDA 13.0; 70 measurements of 1 matrices" in str(summary)


def test_without_repeated_measurements_there_is_an_empty_table_and_no_tolerance():
    loaded = tables([matrix("a")], [measured("a")])
    assert repeatability(loaded).frame.empty
    with pytest.raises(ParameterError, match="nothing was measured twice"):
        tolerances(loaded)
    with pytest.raises(ParameterError, match="nothing was measured twice"):
        near_ties(loaded)
    with pytest.raises(ParameterError, match="percentile must be"):
        tolerances(loaded, 101)


def test_tolerances_of_small_classes_are_pooled():
    rows = [
        *repeated(np.linspace(-0.02, 0.02, 30), 5.0, "warm"),
        *repeated([0.5] * 3, 500.0, "warm", start=100),
        *repeated([0.1] * 2, 5.0, "cold"),
    ]
    within = tolerances(tables([matrix("a")], rows), 100)
    assert set(within.by_class) == {("warm", 0)}
    assert within("warm", np.array([2.0, 5000.0])) == pytest.approx([-math.log(0.98), math.log(1.5)], rel=1e-4)
    assert within("cold", np.array([2.0])) == pytest.approx([math.log(1.5)], rel=1e-4)
    assert "warm 1 to 10 us: 2.0" in repr(within)


def test_near_ties_by_a_slow_loop():
    rng = np.random.default_rng(1)
    rows = [
        measured(name, f"c{i}", float(base * rng.uniform(1, 1.3)), cache=cache, setting=setting)
        for name, base in (("a", 3.0), ("b", 300.0))
        for cache in ("warm", "cold")
        for setting in ("spmv/float64", "spmv/float32")
        for i in range(8)
    ]
    rows += [measured("a", "c0", 0.1, run=1), measured("a", "bad", 0.1, status="wrong result")]
    within = Tolerances({("warm", 0): 0.05, ("cold", 2): 0.1}, {"warm": 0.02}, 0.15)
    expected_tolerance = {("a", "warm"): 0.05, ("b", "warm"): 0.02, ("a", "cold"): 0.15, ("b", "cold"): 0.1}
    loaded = tables([matrix("a"), matrix("b")], rows)
    marked = near_ties(loaded, within)
    assert marked.dtype == bool
    assert marked.index.equals(loaded.measurements.index)
    counted = 0
    for i, row in loaded.measurements.iterrows():
        if row["run"] == 1 or row["status"] != "ok":
            assert not marked[i]
            continue
        same = [
            float(np.float32(r["median_us"]))
            for r in rows
            if (r["matrix"], r["cache"], r["setting"]) == (row["matrix"], row["cache"], row["setting"])
            and r["status"] == "ok"
            and not r.get("run")
        ]
        expected = math.log(row["median_us"] / min(same)) <= expected_tolerance[row["matrix"], row["cache"]]
        assert marked[i] == expected
        counted += expected
    assert 8 < counted < 64


def test_the_fastest_is_a_near_tie_of_itself():
    loaded = tables([matrix("a")], [measured("a", "x", 1.0), measured("a", "y", 1.01)])
    assert near_ties(loaded, Tolerances({}, {}, 0.0)).tolist() == [True, False]

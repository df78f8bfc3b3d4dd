"""Mehrabi et al., against slow loops over the same times."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from reproduce.synthetic import ORIGINALS, REAL, SIZES, times
from warploom import permutations
from warploom.reproduce.mehrabi2021.all_orders import best_sets

PLAIN = "spmm/none/csr/c_stationary"
VENDOR = ("spmm/none/csr/cusparse", "spmm/none/csr/cusparse[algorithm=2]")
TECHNIQUES = {
    "csr": PLAIN,
    "dcsr": "spmm/none/dcsr/c_stationary",
    **{name: f"spmm/{name}/csr/c_stationary" for name in permutations.paper_names() if name != "none"},
}


@pytest.fixture(scope="module")
def us():
    return times()["spmm/float32/column/k=rows", "cold"]


def test_over_vendor(results, us):
    speedups = [min(us[m][v] for v in VENDOR) / us[m][PLAIN] for m in ORIGINALS]
    found = results["M-F3"].tables[0].set_index("matrix")["speedup"]
    np.testing.assert_allclose(found.loc[ORIGINALS], speedups, rtol=1e-6)
    assert results["M-F3"].ours["mean speedup"] == f"{sum(speedups) / len(speedups):.2f}"
    assert (results["M-F3"].verdict.standing == "holds") == (sum(speedups) > len(speedups))
    tuned = [min(us[m][v] for v in VENDOR) / min(us[m][c] for c in us[m] if c.startswith(PLAIN)) for m in ORIGINALS]
    assert f"{sum(tuned) / len(tuned):.2f}x with the parameters" in str(results["M-F3"].verdict)
    assert results["M-F3"].caption.endswith(f"{len(ORIGINALS)} matrices, {len(REAL)} of them real.")


def test_throughput(results, us):
    found = results["M-F4"].tables[0].set_index("matrix")["GFLOP/s csr"]
    for m in ORIGINALS:
        rows, _, nnz, *_ = SIZES[m]
        assert math.isclose(found[m], 2 * nnz * rows / (us[m][PLAIN] * 1e-6) / 1e9, rel_tol=1e-6)


@pytest.mark.parametrize(("id", "name"), [("M-F5", "lpt"), ("M-F6", "warp-aware")])
def test_one_permutation(results, us, id, name):
    speedups = [us[m][PLAIN] / us[m][TECHNIQUES[name]] for m in ORIGINALS]
    ours = results[id].ours
    assert math.isclose(ours["greatest speedup"], max(speedups), rel_tol=1e-6)
    assert math.isclose(ours["least speedup"], min(speedups), rel_tol=1e-6)
    assert ours["share of matrices harmed"] == sum(s < 1 for s in speedups) / len(speedups)


def test_table_1_and_boxes(results, us):
    ours = results["M-T1"].ours
    for name, candidate in TECHNIQUES.items():
        if name == "csr":
            continue
        speedups = [us[m][PLAIN] / us[m][candidate] for m in ORIGINALS]
        assert math.isclose(ours[f"{name}: max"], max(speedups), rel_tol=1e-6)
        assert math.isclose(ours[f"{name}: mean"], sum(speedups) / len(speedups), rel_tol=1e-6)
        assert math.isclose(ours[f"{name}: min"], min(speedups), rel_tol=1e-6)
    best = {m: min(us[m][c] for c in TECHNIQUES.values()) for m in ORIGINALS}
    oracle = [us[m][PLAIN] / best[m] for m in ORIGINALS]
    assert math.isclose(ours["oracle: mean"], sum(oracle) / len(oracle), rel_tol=1e-6)
    assert math.isclose(results["M-F8"].ours["oracle: median"], float(np.median(oracle)), rel_tol=1e-6)
    over_vendor = [min(us[m][v] for v in VENDOR) / best[m] for m in ORIGINALS]
    assert math.isclose(ours["oracle over cuSPARSE: mean"], sum(over_vendor) / len(over_vendor), rel_tol=1e-6)


def test_wins(results, us):
    winners = [min(TECHNIQUES, key=lambda name, m=m: us[m][TECHNIQUES[name]]) for m in ORIGINALS]
    frame = results["M-F9"].tables[0].set_index("technique")["fastest"]
    for name in TECHNIQUES:
        assert frame[name] == winners.count(name) / len(winners)
    shares = sorted((winners.count(name) / len(winners) for name in TECHNIQUES), reverse=True)
    needed = next(n for n in range(1, 12) if sum(shares[:n]) > 0.9 - 1e-9)
    assert results["M-F9"].ours["techniques for 90 % of the matrices"] == needed


def test_near_ties_decide_how_many_techniques_are_needed(results):
    frame = results["M-F9"].tables[0].set_index("technique")
    merged = sorted(frame["fastest, near-ties merged"], reverse=True)
    needed = next(n for n in range(1, 12) if sum(merged[:n]) > 0.9 - 1e-9)
    said = results["M-F9"].verdict.sentence
    assert f"({needed} of {len(merged)}; " in said
    assert (results["M-F9"].verdict.standing == "holds") == (needed >= 4 and frame["near-tie"].max() < 0.5)


def test_what_size_determines_is_tested(results, us):
    slow = {m: us[m][PLAIN] / us[m][TECHNIQUES["lpt"]] < 1 / 1.1 for m in ORIGINALS}
    by_rows = sorted(ORIGINALS, key=lambda m: SIZES[m][0])
    fifths = [by_rows[math.floor(i * len(by_rows) / 5) : math.floor((i + 1) * len(by_rows) / 5)] for i in range(5)]
    worst = max(sum(slow[m] for m in fifth) / len(fifth) for fifth in fifths)
    share = sum(slow.values()) / len(slow)
    said = f"slower by more than 10 %: {100 * share:.0f} % of all, {100 * worst:.0f} % of the fifth with size"
    assert said in results["M-F5"].verdict.sentence


@pytest.mark.parametrize("id", ["M-F8", "M-T1", "M-F10"])
def test_the_luck_of_an_oracle_is_said(results, id):
    assert "how much of the oracle's gain is noise" in results[id].verdict.sentence


def test_sets_of_techniques(results, us):
    frame = results["M-F10"].tables[0].set_index("techniques")
    for count in (1, 2, 3, 11):
        best = max(
            sum(us[m][PLAIN] / min(us[m][TECHNIQUES[name]] for name in ("csr", *others)) for m in ORIGINALS)
            for others in itertools.combinations([n for n in TECHNIQUES if n != "csr"], count - 1)
        )
        assert math.isclose(frame.loc[count, "mean speedup"], best / len(ORIGINALS), rel_tol=1e-6)
    assert frame["mean speedup"].is_monotonic_increasing


def test_best_sets_of_three_columns():
    # Column 1 is best for the first row, column 2 for the second, and better on average.
    found = best_sets(np.array([[4.0, 2.0, 4.0], [4.0, 4.0, 1.0]]), np.array([4.0, 4.0]))
    assert found == [(1.0, (0,)), (2.5, (0, 2)), (3.0, (0, 1, 2))]

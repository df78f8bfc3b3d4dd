import numpy as np
import pytest

from training.training_tables import CANDIDATES, build, facts, measurement
from warploom.bench.repeatability import Tolerances
from warploom.reproduce.held_out import HeldOut, merged
from warploom.training.data import Dataset

WITHIN = Tolerances({}, {}, 0.03)
NAMES = ("a", "b", "c", "d")


def table(*times, failed=()):
    rows = [
        measurement(f"m{i}", CANDIDATES[j], time)
        for i, row in enumerate(times)
        for j, time in enumerate(row)
        if time is not None
    ]
    rows += [measurement(f"m{i}", CANDIDATES[j], None, cache="", status="time limit") for i, j in failed]
    matrices = [facts(f"m{i}") for i in range(len(times))]
    return Dataset.of(build(matrices, rows), "spmv/float32", "warm", within=WITHIN)


@pytest.fixture
def held_out():
    first, second = table([4, 2, 1, 3], [1, 1.01, 2, 2]), table([2, 1, 1.0625, 4])
    return HeldOut.of([first, second], [np.array([2, 1]), np.array([2])], NAMES, "a", samples=50)


def test_merging_sets_near_ties_to_the_best_time():
    np.testing.assert_array_equal(merged(table([1, 1.015625, 1.0625, 2])).times, [[1, 1, 1.0625, 2]])


def test_rows_tell_choice_and_loss(held_out):
    rows = held_out.rows
    assert rows["split"].tolist() == [0, 0, 1]
    assert rows["optimal"].tolist() == ["c", "a", "b"]
    assert rows["chosen"].tolist() == ["c", "b", "c"]
    np.testing.assert_allclose(rows["loss"], [0, 0.01, 0.0625], rtol=1e-5)
    np.testing.assert_allclose(rows["merged_loss"], [0, 0, 0.0625], rtol=1e-6)
    np.testing.assert_allclose(rows["baseline_us"], [4, 1, 2])


def test_figures(held_out):
    raw, near = held_out.figures["raw"], held_out.figures["merged"]
    assert raw["accuracy"] == pytest.approx(1 / 3)
    assert near["accuracy"] == pytest.approx(2 / 3)
    assert raw["within_2"] == near["within_4"] == pytest.approx(2 / 3)
    assert raw["within_10"] == near["within_10"] == 1
    assert raw["mean_loss"] == pytest.approx(0.0725 / 3, rel=1e-5)
    assert near["mean_loss"] == pytest.approx(0.0625 / 3)
    speedup, oracle = (4 + 1 / 1.01 + 2 / 1.0625) / 3, (4 + 1 + 2) / 3
    assert raw["speedup"] == pytest.approx(speedup, rel=1e-6)
    assert raw["gain_share"] == pytest.approx((speedup - 1) / (oracle - 1), rel=1e-6)
    assert near["gain_share"] == pytest.approx(((4 + 1 + 2 / 1.0625) / 3 - 1) / (oracle - 1), rel=1e-6)
    assert raw["speedup_share"] == pytest.approx(speedup / oracle, rel=1e-6)
    assert (held_out.figures["raw_low"] <= raw + 1e-12).all()


def test_confusion(held_out):
    cells = held_out.confusion().set_index(["optimal", "chosen"])
    assert len(cells) == 16
    assert cells["matrices"].sum() == 3
    assert cells.loc[("b", "c"), "matrices"] == 1
    assert cells.loc[("b", "c"), "mean_loss"] == pytest.approx(0.0625)
    assert cells.loc[("a", "b"), "matrices"] == 1
    near = held_out.confusion(merge=True).set_index(["optimal", "chosen"])["matrices"]
    assert (near[("a", "b")], near[("b", "b")]) == (0, 1)


def test_histogram_of_losses(held_out):
    table = held_out.loss_histogram((0, 5, 20))
    assert table["up_to"].tolist() == [0, 5, 20, np.inf]
    assert table["matrices"].tolist() == [1, 1, 1, 0]
    assert table["merged"].tolist() == [2, 0, 1, 0]

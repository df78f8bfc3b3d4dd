"""What models choose for held-out matrices, on sweeps whose best orders can be learned."""

from __future__ import annotations

import numpy as np
import pytest

from training.row_order_tables import sweep
from warploom import features
from warploom.bench.oracle import PAPER_SPMM
from warploom.bench.repeatability import Tolerances
from warploom.reproduce.mehrabi2021.study import MATRIX_INPUTS, study
from warploom.training.data import Dataset
from warploom.training.network import NetworkOptions
from warploom.training.row_order import (
    FOUR_TECHNIQUES,
    row_order_data,
)

pytest.importorskip("torch")
pytest.importorskip("lightgbm")


QUICK = NetworkOptions(hidden=(32,), epochs=30, rate=1e-2)


@pytest.fixture(scope="module")
def dataset():
    return row_order_data(sweep())[0]


@pytest.fixture(scope="module")
def found(dataset):
    return study(dataset, seeds=(0, 1), regression=QUICK, classifier=QUICK, topologies=[(4,), (32,)], samples=50)


def test_matrix_inputs_are_the_first_part_of_table_2():
    assert len(MATRIX_INPUTS) == 9
    assert not any("warp" in name or "cache" in name or "distance" in name for name in MATRIX_INPUTS)
    assert all("warp" in name or "cache" in name or "distance" in name for name in features.names("spmm")[9:])


def test_what_the_features_tell_is_learnt(found):
    for choices in (found.regression, found.classifier, found.boosted):
        figures = choices.figures["raw"]
        assert figures["accuracy"] > 0.75
        assert figures["gain_share"] > 0.85
        assert figures["oracle_speedup"] > 1.3
    assert len(set(found.names)) == 120
    assert found.regression.rows["split"].value_counts().to_dict() == {0: 24, 1: 24}


def test_matrix_features_alone_do_not_tell(found):
    full, alone = (h.figures.loc["mean_loss", "raw"] for h in (found.regression, found.matrix_only))
    assert alone > 3 * full


def test_populations(found):
    populations = found.populations
    assert populations.groupby("split")["matrices"].sum().tolist() == [96, 96]
    assert populations.groupby("split")["share"].sum().tolist() == pytest.approx([1, 1])
    np.testing.assert_allclose(populations["weight"] * populations["matrices"], 96 / 4)


def test_errors_of_the_predicted_times(found):
    assert len(found.predicted) == 48 * 4
    expected = (found.predicted["predicted_us"] / found.predicted["time_us"] - 1).abs()
    np.testing.assert_allclose(found.predicted["error"], expected)
    shares = found.error_distribution((0, 10, 30, 1e6))
    assert list(shares) == [*FOUR_TECHNIQUES, "all"]
    assert shares.loc[1e6].tolist() == [1.0] * 5
    assert (shares.diff().dropna() >= 0).all(axis=None)
    below = found.predicted[found.predicted["class"] == "LPT"]["error"] <= 0.1
    assert shares.loc[10, "LPT"] == pytest.approx(below.mean())


def test_always_the_same_technique(found, dataset):
    rows = found.regression.rows
    always = found.always.set_index("class")
    assert always.loc["CSR", "speedup"] == 1
    assert always.loc["CSR", "mean_loss"] == pytest.approx((rows["baseline_us"] / rows["best_us"] - 1).mean())


def test_topologies(found):
    assert found.topologies["topology"].tolist() == ["(4)", "(32)"]
    assert found.topologies["parameters"].tolist() == [25 * 4 + 5 * 4, 25 * 32 + 33 * 4]
    assert found.topologies["layers"].tolist() == [1, 1]
    same = found.topologies.iloc[1]
    assert same["mean_loss"] == found.regression.figures.loc["mean_loss", "raw"]
    assert same["merged_mean_loss_low"] <= same["merged_mean_loss"] <= same["merged_mean_loss_high"]


def test_near_ties_are_merged_beside_the_raw_figures():
    dataset, _ = row_order_data(sweep(40))
    tied = Dataset.of(sweep(40), PAPER_SPMM, "warm", within=Tolerances({}, {}, 5.0)).columns(dataset.candidates)
    found = study(tied, seeds=(0,), regression=QUICK, classifier=QUICK, topologies=(), samples=10)
    figures = found.matrix_only.figures
    assert figures.loc["accuracy", "raw"] < 1
    assert figures.loc["accuracy", "merged"] == 1
    assert figures.loc["mean_loss", "merged"] == 0
    assert found.matrix_only.loss_histogram()["merged"].tolist()[0] == 8


def test_the_same_seeds_give_the_same_study(dataset):
    quick = NetworkOptions(hidden=(8,), epochs=5)
    first, second = (
        study(dataset, seeds=(0,), regression=quick, classifier=quick, topologies=(), samples=10).regression.rows
        for _ in range(2)
    )
    assert first.equals(second)

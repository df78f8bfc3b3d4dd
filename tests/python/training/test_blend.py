"""By how much networks count beside trees."""

import dataclasses

import numpy as np
import pytest

from training.training_tables import sweep
from warploom.training.blend import LEAST_GAIN, SHARES, averaged, blends, speed
from warploom.training.data import Dataset
from warploom.training.train import HeldOut, Unseen


@pytest.fixture(scope="module")
def dataset():
    return Dataset.of(sweep(80, settings=("spmv/float32",), noise=0.01), "spmv/float32", "warm")


def truth(dataset):
    ratio = np.log(dataset.times / dataset.best[:, np.newaxis])
    return np.where(dataset.supported, np.nan_to_num(ratio, nan=np.inf), np.inf)


def unseen(predicted, expected=0.1):
    return Unseen(predicted, np.zeros(len(predicted)), np.full(len(predicted), expected))


def opposed(dataset):
    """Two predictions whose errors are large, and whose errors cancel."""
    error = np.random.default_rng(0).normal(0, 2, dataset.times.shape)
    return unseen(truth(dataset) + error), unseen(truth(dataset) - error, 0.3)


def test_errors_that_differ_cancel(dataset):
    of_trees, of_network = opposed(dataset)
    both = averaged(of_trees, of_network, 0.5, dataset)
    assert speed(dataset, both.predicted) == pytest.approx(1)
    assert speed(dataset, of_trees.predicted) < 0.95
    assert both.expected.tolist() == pytest.approx([0.2] * len(dataset))
    assert both.loss.max() < 1e-9


def test_a_candidate_that_one_of_them_knows_is_as_it_says(dataset):
    of_trees, of_network = opposed(dataset)
    lacking = of_trees.predicted.copy()
    lacking[:, 0] = np.inf
    both = averaged(dataclasses.replace(of_trees, predicted=lacking), of_network, 0.4, dataset)
    assert both.predicted[:, 0].tolist() == of_network.predicted[:, 0].tolist()
    np.testing.assert_allclose(
        both.predicted[:, 1], 0.6 * of_trees.predicted[:, 1] + 0.4 * of_network.predicted[:, 1], rtol=1e-12
    )


def test_the_share_is_the_best_one_with_families_left_out(dataset):
    of_trees, of_network = opposed(dataset)
    found = blends(
        {"a": dataset}, {"a": HeldOut(of_trees, of_trees)}, {"a": HeldOut(of_network, of_network)}, samples=5
    )
    facts = found["a"]
    assert facts["share"] in SHARES
    speeds = {share: speed(dataset, averaged(of_trees, of_network, share, dataset).predicted) for share in SHARES}
    assert speeds[facts["share"]] == max(speeds.values())
    assert facts["families_over"] == pytest.approx(max(speeds.values()) - speed(dataset, of_trees.predicted), abs=1e-5)
    assert facts["families_over"] >= LEAST_GAIN
    assert facts["families"]["oracle_share"][0] == pytest.approx(speeds[facts["share"]], abs=1e-4)
    assert facts["margin"] >= 0
    assert facts["unsure_doubt"] >= 0


def test_trees_stay_alone_where_a_network_adds_nothing(dataset):
    of_trees, of_network = unseen(truth(dataset)), opposed(dataset)[1]
    kept = {"a": HeldOut(of_trees, of_trees)}, {"a": HeldOut(of_network, of_network)}
    assert blends({"a": dataset}, *kept, samples=5) == {}


def test_random_folds_have_to_agree(dataset):
    of_trees, of_network = opposed(dataset)
    right = unseen(truth(dataset))
    trees = {"a": HeldOut(right, of_trees)}
    assert blends({"a": dataset}, trees, {"a": HeldOut(of_network, of_network)}, samples=5) == {}
    assert "a" in blends({"a": dataset}, trees, {"a": HeldOut(right, of_network)}, samples=5)


def test_without_families_nothing_is_decided(dataset):
    of_trees, of_network = opposed(dataset)
    kept = {"a": HeldOut(of_trees, None)}, {"a": HeldOut(of_network, of_network)}
    assert blends({"a": dataset, "b": dataset}, *kept, samples=5) == {}


def test_sweeps_count_by_their_families(dataset):
    sweeps = (np.arange(len(dataset)) >= len(dataset) - 10).astype(np.int64)
    families = np.where(sweeps == 1, "one", np.array(["a", "b", "c"])[np.arange(len(dataset)) % 3])
    two = dataclasses.replace(dataset, sweeps=sweeps, families=families)
    predicted = truth(two)
    predicted[-10:] *= -1  # the slowest that can run
    predicted[~two.supported | ~np.isfinite(two.times)] = np.inf
    parts = [speed(two.rows(sweeps == sweep), predicted[sweeps == sweep]) for sweep in (0, 1)]
    assert parts[0] == pytest.approx(1)
    assert speed(two, predicted) == pytest.approx((3 * parts[0] + parts[1]) / 4)
    assert parts[1] < 0.95

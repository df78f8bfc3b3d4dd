import dataclasses

import numpy as np
import pytest

from training.training_tables import CANDIDATES, sweep
from warploom import _core, features, profiles
from warploom.errors import ParameterError
from warploom.model_inputs import INPUTS, LOSS, REFERENCE, VECTOR_INPUTS, model_inputs, model_name
from warploom.training.data import Dataset
from warploom.training.joint_network import JointOptions
from warploom.training.selector import unseen_losses
from warploom.training.train import QUICK, predicted_by_trees, train
from warploom.training.train_networks import _predict_times, train_networks

pytest.importorskip("torch")

SMALL = JointOptions(hidden=(16, 16), members=1, epochs=40, checkpoint=20, batch=32, noise=0.02, averaging=0.99)


@pytest.fixture(scope="module")
def measurements():
    return sweep(80, settings=("spmv/float32",), noise=0.01)


@pytest.fixture(scope="module")
def held_out_trees():
    return {}


@pytest.fixture(scope="module")
def trees(measurements, held_out_trees):
    return train(measurements, family_folds=3, samples=20, keep=held_out_trees)


@pytest.fixture(scope="module")
def seen():
    return []


@pytest.fixture(scope="module")
def profile(measurements, trees, seen, held_out_trees):
    return train_networks(
        measurements,
        trees,
        SMALL,
        folds_of_families=3,
        samples=20,
        progress=lambda *now: seen.append(now),
        held_out_trees=held_out_trees,
    )


def test_all_selectors_are_networks_and_the_rest_is_kept(profile, trees):
    assert set(profile.models) == set(trees.models)
    assert set(profile.metrics["selectors"]) == set(trees.metrics["selectors"])
    for name, model in profile.models.items():
        assert model.kind == "network"
        if name.startswith("preparation-"):
            assert model is trees.models[name]
        else:
            assert (model.outputs, model.inputs) == (trees.models[name].outputs, trees.models[name].inputs)
            assert model.outputs[:2] == (REFERENCE, LOSS)


def test_how_long_to_train_is_decided_at_a_checkpoint(profile):
    for facts in profile.metrics["selectors"].values():
        assert facts["form"] == "network"
        assert facts["epochs"] in (20, 40)


def test_training_ends_when_no_better_state_comes(measurements):
    """The loss on what is held out ends it; where the number of epochs is given, nothing does."""
    dataset = Dataset.of(measurements, "spmv/float32", "warm")
    known, held_out = dataset.rows(np.arange(60)), dataset.rows(np.arange(60, 80))
    options = dataclasses.replace(SMALL, epochs=60, checkpoint=5, patience=5)
    given = [known], [held_out], [INPUTS], [CANDIDATES], options

    def mean_loss(times):
        return unseen_losses(held_out, times[0]).mean()

    whole = _predict_times(*given, 60, [None])
    assert [epoch for epoch, _ in whole] == list(range(5, 65, 5))
    losses = [mean_loss(times) for _, times in whole]
    first_worse = next(i for i in range(1, 12) if losses[i] >= min(losses[:i]))
    ended = _predict_times(*given, None, [None])
    assert len(ended) == first_worse + 1 < 12
    for (epoch, times), (same_epoch, same_times) in zip(ended, whole[: len(ended)], strict=True):
        assert epoch == same_epoch
        np.testing.assert_array_equal(times[0], same_times[0])


def test_metrics_are_of_matrices_and_families_held_out(profile, trees):
    for cache in ("warm", "cold"):
        name = model_name("spmv", "float32", "", cache)
        facts = profile.metrics["selectors"][name]
        for split in ("random", "families", "random_measured", "families_measured"):
            assert facts[split]["rows"] == 80
            assert 0.8 < facts[split]["oracle_share"][0] <= 1
        share, other = (p.metrics["selectors"][name]["families"]["oracle_share"][0] for p in (profile, trees))
        assert facts["families_over"] == pytest.approx(share - other, abs=1e-5)
        assert 0 <= profile.metrics["selectors"][f"{QUICK}{name}"]["loss_spared"] < 1


def test_held_out_predictions_of_trees_are_those_of_training(measurements, trees, held_out_trees):
    again = predicted_by_trees(measurements, family_folds=3)
    assert set(again) == set(held_out_trees) == {name for name in trees.metrics["selectors"] if QUICK not in name}
    for name, known in held_out_trees.items():
        assert again[name].unseen.predicted.tolist() == known.unseen.predicted.tolist()
        assert again[name].families.predicted.tolist() == known.families.predicted.tolist()


def test_it_says_by_how_much_it_counts_beside_trees(profile, trees, measurements):
    """Predictions of the plans' blend are the average of what both models say, as Python computes them."""
    name = model_name("spmv", "float32", "", "warm")
    assert set(profile.metrics["blend"]) <= set(trees.metrics["selectors"])
    blend = {name: {"share": 0.4, "margin": 0.1, "unsure_doubt": 0.2}}
    networks = dataclasses.replace(profile, metrics=dict(profile.metrics) | {"blend": blend})
    chooser = trees.selector(networks)
    dataset = Dataset.of(measurements, "spmv/float32", "warm")
    of_trees, of_network = (
        one.models[name].predict(model_inputs(dataset.features, dataset.k, one.models[name].inputs))
        for one in (trees, networks)
    )
    assert trees.models[name].outputs == networks.models[name].outputs
    expected = 0.6 * of_trees + 0.4 * of_network
    for i in range(len(dataset)):
        vectors = {of: [dataset.features[f"{of}_{name}"][i] for name in features.names(of)] for of in features.sets()}
        choice = chooser.choose(_core.MatrixFeatures(**vectors), "spmv", dtype="float32", cache="warm")
        assert choice.share_of_network == 0.4
        np.testing.assert_allclose(choice.scores, expected[i, 2:], rtol=1e-5, atol=1e-7)


def test_one_network_reads_of_each_setting_what_its_trees_do():
    parts = [
        sweep(60, settings=(f"spmm/{dtype}/row/k=32",), caches=("warm",), half=True)
        for dtype in ("float16", "bfloat16", "float32")
    ]
    for part in parts[2:]:
        part.matrices = part.matrices.drop(columns=[c for c in part.matrices if c.startswith("column_vectors_")])
    found = train_networks(parts, train(parts, splits=False), SMALL, folds_of_families=3, samples=5)
    for dtype in ("float16", "bfloat16", "float32"):
        of_halves = () if dtype == "float32" else VECTOR_INPUTS
        assert found.models[model_name("spmm", dtype, "row", "warm")].inputs == INPUTS + of_halves


def test_processes_train_the_same(profile, measurements, trees, held_out_trees):
    found = train_networks(
        measurements,
        trees,
        SMALL,
        folds_of_families=3,
        samples=20,
        held_out_trees=held_out_trees,
        workers=2,
    )
    assert found.metrics == profile.metrics
    for name, model in profile.models.items():
        assert found.models[name].outputs == model.outputs
        for key, array in model.arrays.items():
            np.testing.assert_array_equal(found.models[name].arrays[key], array)


def test_progress_counts_the_networks(seen):
    assert [done for done, _, _ in seen] == list(range(len(seen)))
    assert {total for _, total, _ in seen} == {len(seen)}


def test_a_plan_can_be_chosen_by_it(profile, measurements, tmp_path):
    profiles.save(tmp_path / "p.safetensors", profile)
    selector = profiles.load(tmp_path / "p.safetensors").selector()
    dataset = Dataset.of(measurements, "spmv/float32", "warm")
    near = 0
    for i in range(len(dataset)):
        vectors = {of: [dataset.features[f"{of}_{name}"][i] for name in features.names(of)] for of in features.sets()}
        chosen = selector.choose(_core.MatrixFeatures(**vectors), "spmv", dtype="float32", cache="warm").candidate
        near += dataset.times_of(chosen)[i] <= 1.1 * dataset.best[i]
    assert near > 0.9 * len(dataset)


def test_measurements_without_what_trees_were_trained_on_are_refused(trees):
    with pytest.raises(ParameterError, match="no times"):
        train_networks(sweep(20, settings=("spmv/float64",)), trees, SMALL)


def test_too_few_matrices_are_refused(trees):
    with pytest.raises(ParameterError, match="at least"):
        train_networks(sweep(12, settings=("spmv/float32",)), trees, SMALL)


def test_candidates_are_those_of_the_sweep(profile):
    known = {name for model in profile.models.values() for name in model.outputs} - {REFERENCE, LOSS}
    assert known <= set(CANDIDATES)
    assert np.isfinite(
        [value for model in profile.models.values() for a in model.arrays.values() for value in a.flat]
    ).all()

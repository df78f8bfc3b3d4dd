import dataclasses

import numpy as np
import pytest

from training.training_tables import CANDIDATES, sweep
from warploom.errors import ParameterError
from warploom.model_inputs import LOSS, REFERENCE, SPMV_INPUTS, model_inputs, roofline_us
from warploom.training.data import Dataset
from warploom.training.evaluate import losses
from warploom.training.joint_network import SETTING_INPUTS, JointOptions, descend, family_folds, folds
from warploom.training.selector import choices

torch = pytest.importorskip("torch")

SMALL = JointOptions(hidden=(24, 16), members=2, epochs=60, checkpoint=20, batch=32, noise=0.02, averaging=0.99)
INPUTS = tuple(name for name in SPMV_INPUTS if name != "log_k")


@pytest.fixture(scope="module")
def datasets():
    measurements = sweep(120, settings=("spmv/float32", "spmv/float64"), noise=0.01)
    return [
        Dataset.of(measurements, f"spmv/{dtype}", cache)
        for dtype in ("float32", "float64")
        for cache in ("warm", "cold")
    ]


@pytest.fixture(scope="module")
def states(datasets):
    train = [dataset.rows(np.arange(90)) for dataset in datasets]
    return descend(train, [INPUTS] * len(datasets), [CANDIDATES] * len(datasets), SMALL)


def test_states_are_kept_at_checkpoints(states):
    assert [epoch for epoch, _ in states] == [20, 40, 60]


def test_training_ends_where_it_is_told_to(datasets, states):
    train = [dataset.rows(np.arange(90)) for dataset in datasets]
    seen = []

    def ends(epoch, joint):
        seen.append((epoch, joint))
        return epoch == 40

    found = descend(train, [INPUTS] * len(datasets), [CANDIDATES] * len(datasets), SMALL, ends=ends)
    assert found == seen
    assert [epoch for epoch, _ in found] == [20, 40]
    # What it is there does not depend on how long it goes on.
    for member, other in zip(found[-1][1].members, states[1][1].members, strict=True):
        for parameter, same in zip(member.parameters(), other.parameters(), strict=True):
            assert torch.equal(parameter, same)


def test_a_model_of_a_setting_is_the_network_with_that_setting(states, datasets):
    joint = states[-1][1]
    for i, dataset in enumerate(datasets):
        model = joint.model(i)
        assert (model.inputs, model.outputs) == (INPUTS, (REFERENCE, *CANDIDATES))
        X = model_inputs(dataset.features, dataset.k, INPUTS)
        whole = np.concatenate([X, np.tile(joint.setting_inputs[i], (len(X), 1))], axis=1)
        Z = torch.from_numpy(((whole - joint.mean) / joint.scale).astype(np.float32))
        with torch.no_grad():
            expected = np.mean([member(joint.intervals.encode(Z)).numpy() for member in joint.members], axis=0)
        columns = [joint.outputs.index(name) for name in model.outputs]
        np.testing.assert_allclose(model.predict(X), expected[:, columns], atol=1e-5)


def test_what_a_setting_does_not_read_is_the_mean_there(datasets):
    options = dataclasses.replace(SMALL, epochs=2)
    own = [INPUTS[1:], INPUTS]
    joint = descend(datasets[:2], own, [CANDIDATES] * 2, options)[-1][1]
    assert set(joint.inputs) == set(INPUTS)
    missing = joint.inputs.index(INPUTS[0])
    read_by_one = model_inputs(datasets[1].features, datasets[1].k, INPUTS[:1])
    np.testing.assert_allclose((joint.mean[missing], joint.scale[missing]), (read_by_one.mean(), read_by_one.std()))
    for i, (dataset, names) in enumerate(zip(datasets[:2], own, strict=True)):
        model = joint.model(i)
        assert model.inputs == names
        whole = model_inputs(dataset.features, dataset.k, joint.inputs)
        if i == 0:
            whole[:, missing] = joint.mean[missing]
        whole = np.concatenate([whole, np.tile(joint.setting_inputs[i], (len(whole), 1))], axis=1)
        Z = torch.from_numpy(((whole - joint.mean) / joint.scale).astype(np.float32))
        with torch.no_grad():
            expected = np.mean([member(joint.intervals.encode(Z)).numpy() for member in joint.members], axis=0)
        found = model.predict(model_inputs(dataset.features, dataset.k, names))
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_settings_are_told_apart(states, datasets):
    described = {tuple(row) for row in states[-1][1].setting_inputs.tolist()}
    assert described == {(cold, 0.0, size) for cold in (0.0, 1.0) for size in (2.0, 3.0)}
    assert len(SETTING_INPUTS) == 3
    warm, cold = (states[-1][1].model(i) for i in (0, 1))
    X = model_inputs(datasets[0].features, datasets[0].k, INPUTS)
    # A cold product takes 1.2 times as long in the table, whichever candidate.
    slower = np.exp(cold.predict(X)[:, 0] - warm.predict(X)[:, 0])
    assert 1.1 < np.median(slower) < 1.3


def test_choices_for_matrices_not_seen_are_better_than_any_fixed_one(states, datasets):
    for i, dataset in enumerate(datasets):
        test = dataset.rows(np.arange(90, 120))
        chosen = losses(test, choices(states[-1][1].model(i), test)).mean()
        fixed = min(losses(test, np.full(len(test), column)).mean() for column in range(len(test.candidates)))
        assert chosen < 0.3 * fixed


def test_times_are_those_of_the_table(states, datasets):
    model, test = states[-1][1].model(0), datasets[0].rows(np.arange(90, 120))
    X = model_inputs(test.features, test.k, INPUTS)
    ratio = np.exp(model.predict(X)[:, 0]) * roofline_us(test.features, test.k, 4) / test.best
    assert np.median(np.abs(np.log(ratio))) < 0.2


def test_the_loss_is_an_output_where_it_is_given(datasets):
    given = [np.full(len(dataset), 0.2 * (i + 1)) for i, dataset in enumerate(datasets)]
    joint = descend(datasets, [INPUTS] * len(datasets), [[]] * len(datasets), SMALL, losses=given)[-1][1]
    assert joint.outputs == (REFERENCE, LOSS) or joint.outputs == (LOSS,)
    for i, dataset in enumerate(datasets):
        model = joint.model(i)
        X = model_inputs(dataset.features, dataset.k, INPUTS)
        found = model.predict(X)[:, model.outputs.index(LOSS)]
        np.testing.assert_allclose(np.median(found), 0.2 * (i + 1), atol=0.05)


def test_training_repeats(datasets):
    options = dataclasses.replace(SMALL, epochs=2)
    one, two = (descend(datasets, [INPUTS] * 4, [CANDIDATES] * 4, options)[-1][1].model(0) for _ in range(2))
    for name, values in one.arrays.items():
        np.testing.assert_array_equal(values, two.arrays[name])


def test_candidates_of_one_setting_only_are_outputs_of_that_setting_only(datasets):
    options = dataclasses.replace(SMALL, epochs=1)
    joint = descend(datasets[:2], [INPUTS] * 2, [CANDIDATES[:3], CANDIDATES[1:]], options)[-1][1]
    assert joint.outputs == (REFERENCE, *CANDIDATES)
    assert joint.model(0).outputs == (REFERENCE, *CANDIDATES[:3])
    assert joint.model(1).outputs == (REFERENCE, *CANDIDATES[1:])


def test_too_few_matrices_are_refused_with_how_many_it_takes(datasets):
    with pytest.raises(ParameterError, match="at least 32") as caught:
        descend([datasets[0].rows(np.arange(10))], [INPUTS], [CANDIDATES], SMALL)
    assert caught.value.argument == "measurements"


@pytest.mark.parametrize("splitter", [folds, family_folds])
def test_a_matrix_is_held_out_from_all_settings_at_once(datasets, splitter):
    shorter = [datasets[0], datasets[1].rows(np.arange(0, 120, 2)), datasets[2]]
    held = [[] for _ in shorter]
    for train, test in splitter(shorter, 3):
        known = {name for dataset, rows in zip(shorter, train, strict=True) for name in dataset.names[rows]}
        unknown = {name for dataset, rows in zip(shorter, test, strict=True) for name in dataset.names[rows]}
        assert known.isdisjoint(unknown)
        for rows, of in zip(test, held, strict=True):
            of.extend(rows.tolist())
    for dataset, rows in zip(shorter, held, strict=True):
        assert sorted(rows) == list(range(len(dataset)))

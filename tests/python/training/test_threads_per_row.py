from __future__ import annotations

import numpy as np
import pytest

from training.csr_vector_tables import block_sweep, matrix, sweep, table, timed
from training.training_tables import build, facts, measurement
from warploom import features, profiles
from warploom.errors import ParameterError
from warploom.predictor import Model
from warploom.training.families import FAMILIES
from warploom.training.threads_per_row import (
    CANDIDATES,
    THREADS,
    blocks_data,
    choose,
    search,
    threads_per_row_data,
    train,
)

pytest.importorskip("sklearn")
pytest.importorskip("lightgbm")
pytest.importorskip("optuna")


@pytest.fixture(scope="module")
def dataset():
    return threads_per_row_data(sweep())[0]


@pytest.fixture(scope="module")
def halves(dataset):
    return dataset.rows(np.arange(0, 100, 2)), dataset.rows(np.arange(1, 100, 2))


def test_candidates_have_their_registered_names():
    assert THREADS == (2, 4, 8, 16, 32)
    assert CANDIDATES[0] == "spmv/none/csr/vector[threads_per_row=2]"
    assert CANDIDATES[4] == "spmv/none/csr/vector"


def test_a_number_that_was_left_out_is_not_chosen():
    dataset = table([5, 4, None, None, 1], [5, 4, 3, 2, 1])
    zeros = {"input.mean": np.zeros(11), "input.scale": np.ones(11)}
    arrays = zeros | {
        "layer.0.weight": np.zeros((1, 5, 11), np.float32),
        "layer.0.bias": np.array([[1, 2, 4, 3, 0]], np.float32),
    }
    model = Model(
        "network", features.names("spmv"), CANDIDATES, {"activation": "identity", "output": "identity"}, arrays
    )
    assert choose(model, dataset).tolist() == [1, 2]


def test_blocks_and_matrices_without_times_are_left_out():
    names = ["a", "a[0:5]", "b.T", "c"]
    rows = [row for name in names[:3] for row in timed(name, [1, 2, 3, 4, 5])]
    rows += timed("c", [1, 2, 3, 4, None])
    rows.append(measurement("c", CANDIDATES[4], None, setting="spmv/float64", cache="", status="time limit"))
    dataset, left_out = threads_per_row_data(build([facts(name) for name in names], rows))
    assert dataset.names.tolist() == ["a", "b.T"]
    assert left_out == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_learns_what_the_features_tell(halves, family):
    slow = family == "network"
    if slow:
        pytest.importorskip("torch")
    known, test = halves
    X = np.stack([known.features[f"spmv_{name}"] for name in features.names("spmv")], axis=1)
    for extra in ({"epochs": 200}, {"weighting": "equal", "epochs": 200}, {"target": "class"})[: 1 if slow else 3]:
        parameters = {**FAMILIES[family].start, **{k: v for k, v in extra.items() if k in FAMILIES[family].start}}
        model = FAMILIES[family].fit(X, known, parameters, 0)
        assert model.outputs == CANDIDATES
        right = choose(model, test) == test.times.argmin(axis=1)
        assert right.mean() > 0.7


@pytest.mark.parametrize("family", ["random forest", "extra trees", "decision tree", "boosted trees"])
def test_numbers_that_were_best_nowhere_are_outputs_all_the_same(family):
    dataset = table(*[[2, 1, 3, 3, 3], [2, 3, 3, 3, 1]] * 10)
    X = np.random.default_rng(0).uniform(size=(20, 11))
    parameters = {**FAMILIES[family].start, **({"target": "class"} if "target" in FAMILIES[family].start else {})}
    model = FAMILIES[family].fit(X, dataset, parameters, 0)
    assert model.outputs == CANDIDATES
    predicted = model.predict(X)
    np.testing.assert_allclose(predicted.sum(axis=1), 1, rtol=1e-9)
    assert set(predicted.argmax(axis=1)) <= {1, 4}


def test_search_is_reproducible_and_no_worse_than_its_start(dataset):
    first, second = (search(dataset, "decision tree", trials=4, seed=2) for _ in range(2))
    assert (first.parameters, first.value) == (second.parameters, second.value)
    assert first.value <= search(dataset, "decision tree", trials=1, seed=2).value
    by_accuracy = search(dataset, "decision tree", trials=1, objective="accuracy")
    assert 0.5 < by_accuracy.value <= 1
    assert by_accuracy.parameters == dict(FAMILIES["decision tree"].start)


def test_search_refuses_what_it_does_not_know(dataset):
    for arguments in ({"family": "oracle"}, {"family": "decision tree", "objective": "beauty"}):
        with pytest.raises(ParameterError) as raised:
            search(dataset, **arguments)
        assert raised.value.argument == list(arguments)[-1]


def test_blocks_are_told_apart_by_their_whole_matrices():
    known, test, unknown = blocks_data(block_sweep(3))
    assert set(known.names) == {f"r{i}[{part}]" for i in range(3) for part in ("0:2000", "2000:4000")}
    assert set(test.names) == {f"i{i}[10:4000]" for i in range(3)}
    assert unknown == 1


def test_a_matrix_and_its_transpose_are_not_on_both_sides():
    names = {"a": 5, "a[0:9]": 5, "a.T": 600, "a.T[0:9]": 5, "b": 5, "b[0:9]": 5}
    rows = [row for name in names for row in timed(name, [1, 2, 3, 4, 5])]
    known, test, _ = blocks_data(build([matrix(name, 5, longest=most) for name, most in names.items()], rows))
    assert (known.names.tolist(), test.names.tolist()) == (["b[0:9]"], ["a.T[0:9]"])


def test_what_is_missing_for_blocks_is_said():
    with pytest.raises(ParameterError, match="no blocks of rows were measured"):
        blocks_data(sweep(5))
    only_regular = block_sweep(3).select(matrix=["r0", "r0[0:2000]", "r0[2000:4000]"])
    with pytest.raises(ParameterError, match="irregular"):
        blocks_data(only_regular)


def test_training_makes_models_for_a_profile(tmp_path):
    models = train(sweep(40), families=["decision tree"], trials=1)
    assert list(models) == ["threads-per-row-float64-warm"]
    profiles.save(tmp_path / "p.safetensors", profiles.Profile("Test GPU", (9, 0), "13.0", models))
    loaded = profiles.load(tmp_path / "p.safetensors").models["threads-per-row-float64-warm"]
    assert loaded.outputs == CANDIDATES
    assert loaded.inputs == features.names("spmv")


def test_models_of_blocks_are_trained_where_blocks_were_measured():
    measurements = block_sweep(20)
    models = train(measurements, families=["decision tree"], trials=1)
    assert list(models) == ["threads-per-row-float64-warm", "threads-per-row-blocks-float64-warm"]
    test = blocks_data(measurements)[1]
    right = choose(models["threads-per-row-blocks-float64-warm"], test) == test.times.argmin(axis=1)
    assert right.mean() > 0.7

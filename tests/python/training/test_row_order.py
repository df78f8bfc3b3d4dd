from __future__ import annotations

import numpy as np
import pytest

from training.row_order_tables import sweep
from warploom import features, permutations, profiles
from warploom.errors import ParameterError
from warploom.training.network import NetworkOptions
from warploom.training.row_order import (
    ALL_TECHNIQUES,
    FOUR_TECHNIQUES,
    class_weights,
    row_order_data,
    train,
    train_classifier,
    train_regression,
)

pytest.importorskip("torch")


QUICK = NetworkOptions(hidden=(32,), epochs=30, rate=1e-2)


def test_techniques_are_those_of_the_paper():
    assert list(FOUR_TECHNIQUES) == ["CSR", "DCSR", "LPT", "warp-aware"]
    assert len(ALL_TECHNIQUES) == 11
    assert list(ALL_TECHNIQUES)[:4] == list(FOUR_TECHNIQUES)
    orders = {candidate.split("/")[1] for candidate in ALL_TECHNIQUES.values()}
    assert orders == set(permutations.paper_names())


def test_weights_are_inverse_to_the_population():
    weights = class_weights(np.array([0, 0, 0, 1, 3, 3]), 4)
    np.testing.assert_allclose(weights, [6 / 12, 6 / 4, 0, 6 / 8])
    assert weights[1] / weights[0] == pytest.approx(3)


def test_matrices_that_lack_a_time_are_left_out():
    measurements = sweep(6, lacking={(2, "LPT"), (4, "DCSR")})
    dataset, left_out = row_order_data(measurements)
    assert left_out == 2
    assert set(dataset.names) == {f"g/m{i}" for i in (0, 1, 3, 5)}
    assert dataset.candidates == tuple(FOUR_TECHNIQUES.values())
    with pytest.raises(ParameterError):
        row_order_data(measurements, techniques=ALL_TECHNIQUES)


def test_cache_is_warm_unless_told_otherwise():
    measurements = sweep(4)
    warm, cold = row_order_data(measurements)[0], row_order_data(measurements, "cold")[0]
    assert (warm.cache, cold.cache) == ("warm", "cold")
    np.testing.assert_allclose(cold.times, 2 * warm.times)


def test_networks_learn_what_the_features_tell():
    dataset, _ = row_order_data(sweep())
    known, test = dataset.rows(np.arange(96)), dataset.rows(np.arange(96, 120))
    X = np.stack([test.features[f"spmm_{name}"] for name in features.names("spmm")], axis=1)
    times = train_regression(known, QUICK).predict(X)
    assert (times.argmin(axis=1) == test.times.argmin(axis=1)).mean() > 0.7
    assert np.median(np.abs(times / test.times - 1)) < 0.3
    shares = train_classifier(known, QUICK).predict(X)
    assert (shares.argmax(axis=1) == test.times.argmin(axis=1)).mean() > 0.7


def test_trained_models_go_into_a_profile(tmp_path):
    quick = NetworkOptions(hidden=(8,), epochs=3)
    models = train(sweep(30, ALL_TECHNIQUES), regression=quick, classifier=quick)
    assert list(models) == [
        f"row-order-{number}-warm-{kind}" for number in ("four", "ten") for kind in ("times", "classes")
    ]
    profiles.save(tmp_path / "p.safetensors", profiles.Profile("Test GPU", (9, 0), "13.0", models))
    loaded = profiles.load(tmp_path / "p.safetensors").models["row-order-ten-warm-times"]
    assert loaded.inputs == features.names("spmm")
    assert loaded.outputs == tuple(ALL_TECHNIQUES.values())
    X = np.random.default_rng(0).uniform(1, 30, (5, 24))
    np.testing.assert_array_equal(loaded.predict(X), models["row-order-ten-warm-times"].predict(X))
    assert (loaded.predict(X) > 0).all()

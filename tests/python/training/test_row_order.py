import numpy as np
import pytest

from training.training_tables import build, facts, measurement
from warploom import features, permutations, profiles
from warploom.bench.repeatability import Tolerances
from warploom.errors import ParameterError
from warploom.training._network import NetworkOptions
from warploom.training.data import Dataset
from warploom.training.row_order import (
    ALL_TECHNIQUES,
    FOUR_TECHNIQUES,
    MATRIX_INPUTS,
    SETTING,
    class_weights,
    row_order_data,
    study,
    train,
)

pytest.importorskip("torch")

QUICK = NetworkOptions(hidden=(32,), epochs=30, rate=1e-2)


def times(values):
    """What is best can be told from load balance and data locality, not from the size of the matrix."""
    base = 5 * values["spmm_num_rows"]
    return {
        "CSR": base,
        "DCSR": base * 6 / values["spmm_warp_load_mean"],
        "LPT": base * 6 / values["spmm_warp_load_max"],
        "warp-aware": base * 6 / values["spmm_adjacent_vector_distance_mean"],
    }


TELLING = ("spmm_num_rows", "spmm_warp_load_mean", "spmm_warp_load_max", "spmm_adjacent_vector_distance_mean")


def sweep(matrices=120, techniques=FOUR_TECHNIQUES, lacking=()):
    random = np.random.default_rng(3)
    known, rows = [], []
    for i in range(matrices):
        values = {name: float(2 ** random.uniform(0, 5)) for name in TELLING}
        known.append(facts(f"g/m{i}") | values)
        of_four = times(values)
        for name, candidate in techniques.items():
            failed = (i, name) in lacking
            for cache, slow in (("warm", 1), ("cold", 2)):
                time = None if failed else slow * of_four.get(name, 1.5 * of_four["CSR"])
                row = measurement(
                    f"g/m{i}",
                    candidate,
                    time,
                    setting="spmm/float32/column/k=8",
                    cache="" if failed else cache,
                    status="time limit" if failed else "ok",
                )
                rows.append(row | {"setting": SETTING, "k": 10})
                if failed:
                    break
    return build(known, rows)


@pytest.fixture(scope="module")
def dataset():
    return row_order_data(sweep())[0]


@pytest.fixture(scope="module")
def found(dataset):
    return study(dataset, seeds=(0, 1), regression=QUICK, classifier=QUICK, topologies=[(4,), (32,)], samples=50)


def test_techniques_are_those_of_the_paper():
    assert list(FOUR_TECHNIQUES) == ["CSR", "DCSR", "LPT", "warp-aware"]
    assert len(ALL_TECHNIQUES) == 11
    assert list(ALL_TECHNIQUES)[:4] == list(FOUR_TECHNIQUES)
    orders = {candidate.split("/")[1] for candidate in ALL_TECHNIQUES.values()}
    assert orders == set(permutations.names())


def test_matrix_inputs_are_the_first_part_of_table_2():
    assert len(MATRIX_INPUTS) == 9
    assert not any("warp" in name or "cache" in name or "distance" in name for name in MATRIX_INPUTS)
    assert all("warp" in name or "cache" in name or "distance" in name for name in features.names("spmm")[9:])


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


def test_what_the_features_tell_is_learnt(found):
    for choices in (found.regression, found.classifier, found.boosted):
        figures = choices.figures["raw"]
        assert figures["accuracy"] > 0.75
        assert figures["gain_share"] > 0.85
        assert figures["oracle_speedup"] > 1.3
    assert found.matrices == 120
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
    tied = Dataset.of(sweep(40), SETTING, "warm", within=Tolerances({}, {}, 5.0)).columns(dataset.candidates)
    found = study(tied, seeds=(0,), regression=QUICK, classifier=QUICK, topologies=(), samples=10)
    figures = found.matrix_only.figures
    assert figures.loc["accuracy", "raw"] < 1
    assert figures.loc["accuracy", "merged"] == 1
    assert figures.loc["mean_loss", "merged"] == 0
    assert found.matrix_only.loss_histogram()["merged"].tolist()[0] == 8


def test_trained_models_go_into_a_profile(tmp_path):
    quick = NetworkOptions(hidden=(8,), epochs=3)
    measurements = sweep(30, ALL_TECHNIQUES)
    trained = train(measurements, studies=False, regression=quick, classifier=quick)
    assert list(trained.models) == [
        f"row-order-{number}-warm-{kind}" for number in ("four", "ten") for kind in ("times", "classes")
    ]
    profiles.save(tmp_path / "p.safetensors", profiles.Profile("Test GPU", (9, 0), "13.0", trained.models))
    loaded = profiles.load(tmp_path / "p.safetensors").models["row-order-ten-warm-times"]
    assert loaded.inputs == features.names("spmm")
    assert loaded.outputs == tuple(ALL_TECHNIQUES.values())
    X = np.random.default_rng(0).uniform(1, 30, (5, 24))
    np.testing.assert_array_equal(loaded.predict(X), trained.models["row-order-ten-warm-times"].predict(X))
    assert (loaded.predict(X) > 0).all()


def test_the_same_seeds_give_the_same_study(dataset):
    quick = NetworkOptions(hidden=(8,), epochs=5)
    first, second = (
        study(dataset, seeds=(0,), regression=quick, classifier=quick, topologies=(), samples=10).as_dict()
        for _ in range(2)
    )
    assert first == second


def test_training_judges_what_it_is_asked_for():
    quick = NetworkOptions(hidden=(8,), epochs=2)
    trained = train(
        sweep(30),
        caches=("cold",),
        techniques=("four",),
        seeds=(0,),
        topologies=(),
        regression=quick,
        classifier=quick,
        samples=5,
    )
    assert list(trained.studies) == ["four-cold"]
    assert trained.studies["four-cold"].as_dict()["cache"] == "cold"

import dataclasses
from functools import partial

import numpy as np
import pandas as pd
import pytest

from training.training_tables import CANDIDATES, HALF, sweep
from warploom import _core, features, profiles
from warploom.bench import Measurements
from warploom.commands.train import sweeps_of
from warploom.errors import ParameterError, ProfileError
from warploom.model_inputs import INPUTS, SPMV_INPUTS, VECTOR_INPUTS, model_name
from warploom.profiles import Profile
from warploom.training.data import Dataset, united
from warploom.training.selector import choices
from warploom.training.train import AIM, QUICK, data_hash, margin, train, widely_measured


@pytest.fixture(scope="module")
def measurements():
    return sweep(80, settings=("spmv/float32", "spmv/float64"), noise=0.01)


@pytest.fixture(scope="module")
def profile(measurements):
    return train(measurements, folds=4, family_folds=3, samples=20)


def test_every_kind_of_product_has_a_selector(profile):
    names = {model_name("spmv", dtype, "", cache) for dtype in ("float32", "float64") for cache in ("warm", "cold")}
    both = names | {f"{QUICK}{name}" for name in names}
    assert set(profile.metrics["selectors"]) == both
    assert set(profile.models) == both | {"preparation-spmv-float32", "preparation-spmv-float64"}
    assert (profile.gpu, profile.compute_capability, profile.cuda) == ("Test GPU", (9, 0), "13.0")


def test_metrics_are_of_held_out_matrices(profile):
    for name, facts in profile.metrics["selectors"].items():
        assert facts["matrices"] == 80
        if name.startswith(QUICK):
            continue
        for split in ("random", "families"):
            figures, measured = facts[split], facts[f"{split}_measured"]
            assert figures["rows"] == measured["rows"] == 80
            value, low, high = figures["oracle_share"]
            assert 0.8 < low <= value <= high <= 1
            assert value <= measured["oracle_share"][0] <= 1
        share, reached = facts["random_measured"]["measured"], facts["random_measured"]["oracle_share"][0]
        assert 0.08 < share < 0.32
        assert share > 0.28 or reached >= AIM  # no more are measured than it takes
        assert facts["preparation_error"] < 0.05


def test_sweeps_are_scored_apart():
    first, second = sweep(60, noise=0.01), sweep(40, seed=7, noise=0.01).select(candidate=CANDIDATES[:3])
    found = train([first, second], folds=2, family_folds=3, samples=5)
    for name, facts in found.metrics["selectors"].items():
        assert facts["matrices_of_sweeps"] == [60, 40]
        if name.startswith(QUICK):
            continue
        for split in ("random", "families", "random_measured", "families_measured"):
            assert facts[split]["rows"] == 60
            assert facts["further"][split]["rows"] == 40
            assert 0.7 < facts["further"][split]["oracle_share"][0] <= 1
        assert set(found.models[name].outputs) >= set(CANDIDATES[1:])
    alone = train(first, folds=2, family_folds=3, samples=5)
    assert all("further" not in facts for facts in alone.metrics["selectors"].values())
    trees = [len(of.models["spmv-float32-warm"].arrays["tree.score"]) for of in (alone, found)]
    assert trees[0] < trees[1]  # what differs more takes more trees


def on_another_gpu(measurements, faster):
    """Return the measurements as another GPU's, on which one candidate is faster."""
    table = measurements.measurements.copy()
    of = table["candidate"].astype(str) == faster
    table.loc[of, "median_us"] /= 4
    environments = {key: {**of, "gpu": "Other GPU"} for key, of in measurements.environments.items()}
    return Measurements(table, measurements.matrices, environments)


def test_choices_are_scored_on_other_gpus_but_not_trained_there():
    here = sweep(60, noise=0.01)
    # Half of the matrices on the other GPU are unknown on the first one, and do not count.
    there = on_another_gpu(sweep(90, noise=0.01).select(matrix=[f"group/m{i}" for i in range(30, 90)]), CANDIDATES[3])
    alone, both = (train(parts, folds=2, family_folds=3, samples=5) for parts in (here, [here, there]))
    assert both.gpu == "Test GPU"
    assert both.data_hash == alone.data_hash
    for name, facts in both.metrics["selectors"].items():
        before = alone.metrics["selectors"][name]
        if name.startswith(QUICK):
            assert facts == before
            continue
        scores = facts.pop("elsewhere")["Other GPU"]
        assert facts == before
        assert (scores["rows"], scores["matrices"]) == (30, 30)
        assert scores["oracle_share"][0] < facts["families"]["oracle_share"][0] - 0.2


def test_a_sweep_on_several_gpus_is_refused():
    here = sweep(20)
    environments = here.environments | {"f": {**here.environments["e"], "gpu": "Other GPU"}}
    with pytest.raises(ParameterError, match="not of Other GPU, Test GPU"):
        train(Measurements(here.measurements, here.matrices, environments))


def test_quick_selectors_read_row_lengths_only(profile):
    for name, facts in profile.metrics["selectors"].items():
        quick = name.startswith(QUICK)
        assert (set(profile.models[name].inputs) <= set(SPMV_INPUTS)) == quick
        if quick:
            assert 0 <= facts["loss_spared"] < 1
            assert facts["mean_loss"] >= 0
            assert profile.models[name].outputs == profile.models[name.removeprefix(QUICK)].outputs


HALF_SETTINGS = ("spmm/float16/row/k=32", "spmm/float16/row/k=128")


@pytest.fixture(scope="module")
def in_half():
    return sweep(120, seed=3, settings=HALF_SETTINGS, caches=("warm",), noise=0.01, half=True)


def test_half_precision_has_models_that_read_column_vectors(in_half, tmp_path):
    wide = sweep(60, settings=("spmm/float32/row/k=32",), caches=("warm",), half=True)
    few = sweep(30, 3, ("spmm/bfloat16/row/k=32",), ("warm",), noise=0.01, half=True)
    rows = Measurements(
        pd.concat([in_half.measurements, few.measurements], ignore_index=True), in_half.matrices, in_half.environments
    )
    profile = train([wide, rows], folds=3, family_folds=3, samples=5)
    names = {dtype: model_name("spmm", dtype, "row", "warm") for dtype in ("float32", "float16", "bfloat16")}
    assert profile.models[names["float32"]].inputs == INPUTS
    assert profile.models[names["float16"]].inputs == profile.models[names["bfloat16"]].inputs == INPUTS + VECTOR_INPUTS
    assert set(profile.models[f"{QUICK}{names['float16']}"].inputs) <= set(SPMV_INPUTS)
    facts = {dtype: profile.metrics["selectors"][name] for dtype, name in names.items()}
    assert facts["float16"]["random"]["rows"] == 240
    assert facts["bfloat16"]["random"]["rows"] == 30  # the rows of float16 are trained on, but not scored
    assert facts["bfloat16"]["matrices_of_sweeps"] == [30, 120]
    assert "further" not in facts["bfloat16"]
    assert facts["bfloat16"]["settings"] == ["spmm/bfloat16/row/k=32"]
    assert facts["float16"]["random"]["oracle_share"][0] > 0.97

    profiles.save(tmp_path / "p.safetensors", profile)
    loaded = profiles.load(tmp_path / "p.safetensors").selector()
    dataset = Dataset.of(rows, HALF_SETTINGS, "warm")
    expected = choices(profile.models[names["float16"]], dataset)
    assert len(set(expected)) > 1
    assert loaded.feature_sets("spmm", "float16", "row") == ("spmm", "spmv", "column_vectors")
    assert loaded.feature_sets("spmm", "float32", "row") == ("spmm", "spmv")
    for i in range(len(dataset)):
        vectors = {of: [dataset.features[f"{of}_{name}"][i] for name in features.names(of)] for of in VECTOR_SETS}
        choose = partial(loaded.choose, op="spmm", k=int(dataset.k[i]), dtype="float16", layout="row")
        assert choose(_core.MatrixFeatures(**vectors)).candidate == dataset.candidates[expected[i]]
        assert choose(_core.MatrixFeatures(vectors["spmv"])).candidate in HALF  # by the quick one


VECTOR_SETS = (*features.sets(), "column_vectors")


def test_half_precision_without_column_vectors_reads_the_rest(in_half):
    without = in_half.matrices.drop(columns=[name for name in in_half.matrices if name.startswith("column_vectors_")])
    profile = train(Measurements(in_half.measurements, without, in_half.environments), splits=False)
    assert profile.models["spmm-float16-row-warm"].inputs == INPUTS


def test_models_read_locality_where_it_was_measured():
    measured = sweep(60, settings=("spmv/float32", "spmm/float32/row/k=32"), caches=("warm",), noise=0.01)
    overlap = np.where(np.arange(60) < 40, -1.0, np.linspace(0, 1, 60))
    overlap[50] = np.nan
    names = [f"group/m{i}" for i in range(60)]
    values = measured.matrices["matrix"].astype(str).map(dict(zip(names, overlap, strict=True)))
    matrices = measured.matrices.assign(locality_hidden_overlap=values.astype(float))
    given = Measurements(measured.measurements, matrices, measured.environments)
    dataset = Dataset.of(given, "spmv/float32", "warm")
    known = dataset.features["locality_hidden_overlap"][[list(dataset.names).index(name) for name in names]]
    assert known.tolist() == np.where(np.isnan(overlap), -1, overlap).tolist()
    profile = train(given, splits=False)
    for name, model in profile.models.items():
        if name.startswith(("spmv", "spmm")):
            assert model.inputs[-1] == "hidden_overlap"
        elif name.startswith(QUICK):
            assert "hidden_overlap" not in model.inputs
    assert {name for name in profile.models if name.startswith(QUICK)}
    without = train(measured, splits=False)
    assert all("hidden_overlap" not in model.inputs for model in without.models.values())
    united_with_others = united([dataset, Dataset.of(sweep(30, 5), "spmv/float32", "warm")])
    assert (united_with_others.features["locality_hidden_overlap"][-30:] == -1).all()


def test_sizes_of_the_training_data_are_kept(profile, measurements):
    matrices = measurements.matrices
    columns = {"rows": "spmv_num_rows", "columns": "spmv_num_cols", "nonzeros": "spmv_nnz"}
    expected = {name: [matrices[column].min(), matrices[column].max()] for name, column in columns.items()}
    for facts in profile.metrics["selectors"].values():
        assert facts["sizes"] == expected | {"k": [1, 1]}


def test_a_profile_makes_the_same_choices(profile, measurements, tmp_path):
    profiles.save(tmp_path / "p.safetensors", profile)
    loaded = profiles.load(tmp_path / "p.safetensors").selector()
    dataset = Dataset.of(measurements, "spmv/float32", "cold")
    expected = choices(profile.models["spmv-float32-cold"], dataset)
    for i in range(len(dataset)):
        vectors = {of: [dataset.features[f"{of}_{name}"][i] for name in features.names(of)] for of in features.sets()}
        choice = loaded.choose(_core.MatrixFeatures(**vectors), "spmv", dtype="float32", cache="cold")
        assert choice.candidate == dataset.candidates[expected[i]]


def test_training_repeats_and_the_hash_tells_data_apart(profile, measurements):
    again = train(measurements, splits=False)
    for name, model in profile.models.items():
        assert all(np.array_equal(model.arrays[a], again.models[name].arrays[a]) for a in model.arrays)
    shuffled = sweep(80, settings=("spmv/float32", "spmv/float64"), noise=0.01)
    shuffled.measurements = shuffled.measurements.sample(frac=1, random_state=0)
    assert data_hash([shuffled]) == again.data_hash == profile.data_hash
    sampled = shuffled.measurements.assign(op="sddmm")
    with_others = dataclasses.replace(shuffled, measurements=pd.concat([shuffled.measurements, sampled]))
    assert data_hash([with_others]) == profile.data_hash
    shuffled.measurements["median_us"] *= 2
    assert data_hash([shuffled]) != profile.data_hash


def test_the_margin_covers_what_it_says(measurements):
    dataset = Dataset.of(measurements, "spmv/float32", "warm")
    predicted = np.random.default_rng(0).uniform(size=dataset.times.shape)
    near = np.log(dataset.times / dataset.best[:, np.newaxis]) <= dataset.tolerance[:, np.newaxis]
    gaps = np.array([min(p[n]) - min(p) for p, n in zip(predicted, near, strict=True)])
    for covered in (0.5, 0.9):
        assert (gaps <= margin(dataset, predicted, covered)).mean() == pytest.approx(covered, abs=0.02)


def test_rows_with_few_kernels_are_left_out():
    some = sweep(12)
    rows = some.measurements
    of_few = rows["matrix"].str.contains("[13579]$")
    some.measurements = rows[~of_few | rows["candidate"].str.contains("vector")]
    dataset = Dataset.of(some, "spmv/float32", "warm")
    assert len(dataset) == 12
    assert all(name[-1] in "02468" for name in widely_measured(dataset).names)
    assert len(widely_measured(dataset)) == 6
    assert len(widely_measured(dataset.columns(CANDIDATES[2:]))) == 12  # nothing else was measured anywhere


def test_what_cannot_be_trained_is_refused(measurements):
    with pytest.raises(ParameterError, match="no times"):
        train(measurements.select(run=1), splits=False)


def test_profiles_without_what_is_needed_are_refused(profile):
    def broken(models=None, **metrics):
        return Profile(
            profile.gpu,
            (9, 0),
            "13.0",
            profile.models if models is None else models,
            metrics=metrics or profile.metrics,
        )

    facts = profile.metrics["selectors"]
    name = "spmv-float32-warm"
    model = profile.models[name]
    for wrong in (
        broken(selectors={}),
        broken(models={name: model}),
        broken(models={**profile.models, name: profile.models["preparation-spmv-float32"]}),
        broken(selectors={name: {"margin": "much", "unsure_loss": 1.0}}),
        broken(selectors={name: {"margin": 1.0}}),
    ):
        with pytest.raises(ProfileError):
            wrong.selector()
    assert broken(selectors={name: facts[name]}).selector().names() == [name]


def test_what_ships_is_a_sweep_of_its_own(tmp_path):
    sweep(5).save(tmp_path / "a")
    sweep(5, settings=("spmv/float64",)).save(tmp_path / "b")
    shipped, folders = sweeps_of([str(tmp_path / "a"), "h200-large", str(tmp_path / "b")])
    assert set(folders.measurements["setting"]) == {"spmv/float32", "spmv/float64"}
    assert {environment["gpu"] for environment in shipped.environments.values()} == {"NVIDIA H200"}

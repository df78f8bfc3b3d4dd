"""Calibration: a GPU that is slower throughout, and on which another candidate is right for long rows."""

import numpy as np
import pytest
from click.testing import CliRunner

from training import training_tables
from training.training_tables import CANDIDATES, sweep
from warploom import _core, features, profiles
from warploom.bench import run
from warploom.cli import main
from warploom.errors import DeviceError, ParameterError
from warploom.model_inputs import REFERENCE, model_inputs
from warploom.training import calibrate
from warploom.training.data import Dataset
from warploom.training.selector import choices
from warploom.training.train import train

NAME = "spmv-float32-warm"


@pytest.fixture(scope="module")
def trees():
    return train(sweep(80, noise=0.01), splits=False)


@pytest.fixture(scope="module", params=["trees", "network"])
def profile(request, trees):
    if request.param == "trees":
        return trees
    pytest.importorskip("torch")
    from warploom.training.joint_network import JointOptions
    from warploom.training.train_networks import train_networks

    options = JointOptions(hidden=(16, 16), members=2, epochs=40, checkpoint=40, batch=32, noise=0.02, averaging=0.99)
    return train_networks(sweep(80, noise=0.01), trees, options, folds_of_families=2, samples=2)


@pytest.fixture(scope="module")
def elsewhere():
    """Measurements of a GPU where everything takes three times as long, and CSR-scalar wins on long rows."""
    usual = training_tables.times

    def times(values):
        found = [3 * t for t in usual(values)]
        if values["spmv_nnz_per_row_mean"] > 8:
            found[1], found[3] = found[3], found[1]
        return found

    training_tables.times = times
    try:
        return sweep(80, seed=7, noise=0.01)
    finally:
        training_tables.times = usual


def test_corrections_make_choices_better(profile, elsewhere):
    corrected, shares = calibrate.refine(profile, elsewhere)
    before, after = shares[NAME]
    assert before < 0.95
    assert after > before + 0.03
    dataset = Dataset.of(elsewhere, ["spmv/float32"], "warm")
    right = {CANDIDATES[i] for i in (1, 2)}
    long = dataset.features["spmv_nnz_per_row_mean"] > 20
    chosen = [dataset.candidates[c] for c in choices(corrected.models[NAME], dataset)]
    assert {c for c, is_long in zip(chosen, long, strict=True) if is_long} <= right
    assert corrected.metrics["selectors"][NAME]["calibrated"]["matrices"] == 80
    assert corrected.data_hash != profile.data_hash


def test_the_level_of_the_times_is_corrected_in_any_case(profile, elsewhere):
    corrected, _ = calibrate.refine(profile, elsewhere)
    dataset = Dataset.of(elsewhere, ["spmv/float32"], "warm")
    X = model_inputs(dataset.features, dataset.k, profile.models[NAME].inputs)
    shift = np.median((corrected.models[NAME].predict(X) - profile.models[NAME].predict(X))[:, 0])
    assert profile.models[NAME].outputs[0] == REFERENCE
    assert shift == pytest.approx(np.log(3), abs=0.1)


def test_few_matrices_correct_the_level_only(profile, elsewhere):
    few = elsewhere.select(matrix=[f"group/m{i}" for i in range(5)])
    corrected, shares = calibrate.refine(profile, few)
    assert shares[NAME][0] == shares[NAME][1]
    dataset = Dataset.of(elsewhere, ["spmv/float32"], "warm")
    before, after = (choices(p.models[NAME], dataset) for p in (profile, corrected))
    np.testing.assert_array_equal(before, after)


def test_more_of_the_same_does_no_harm(profile):
    _, shares = calibrate.refine(profile, sweep(60, seed=3, noise=0.01))
    assert all(after >= before for before, after in shares.values())


def test_a_refined_profile_is_kept_and_chosen_with(profile, elsewhere, tmp_path):
    corrected, _ = calibrate.refine(profile, elsewhere)
    profiles.save(tmp_path / "p.safetensors", corrected)
    read = profiles.load(tmp_path / "p.safetensors")
    values = training_tables.row_of_features(np.random.default_rng(1))
    vectors = {of: [values[f"{of}_{name}"] for name in features.names(of)] for of in features.sets()}
    first, second = (p.selector().choose(_core.MatrixFeatures(**vectors), "spmv") for p in (corrected, read))
    assert first.ranked == second.ranked
    assert (first.expected_loss, first.unsure) == (second.expected_loss, second.unsure)


def test_candidates_that_were_not_measured_are_not_chosen(profile, elsewhere):
    few = elsewhere.select(candidate=CANDIDATES[:3])
    corrected, shares = calibrate.refine(profile, few)
    before, after = shares[NAME]
    assert 0 < before <= after <= 1
    assert corrected.models[NAME].outputs == profile.models[NAME].outputs


def test_measurements_of_something_else_are_refused(profile, elsewhere):
    with pytest.raises(ParameterError, match="no setting"):
        calibrate.refine(profile, sweep(10, settings=("spmv/float64",)))


def test_a_network_learns_what_it_lacks(profile):
    model = profile.models[NAME]
    if model.kind != "network":
        pytest.skip("of networks")
    X = np.random.default_rng(0).uniform(0, 10, (200, len(model.inputs)))
    left = np.full((200, len(model.outputs)), np.nan)
    left[:, 0] = 0.5
    left[:100, 2] = 0.3 * (model.predict(X)[:100, 1] > np.median(model.predict(X)[:100, 1]))
    tuned = calibrate.fine_tuned(model, X, left)
    change = tuned.predict(X) - model.predict(X)
    np.testing.assert_allclose(change[:, 0], 0.5, atol=1e-4)
    np.testing.assert_array_equal(change[:, 1], 0)  # nothing is known of it
    assert np.square(change[:100, 2] - left[:100, 2]).mean() < 0.5 * np.square(left[:100, 2]).mean()


def test_chained_trees_add_up(trees):
    profile, model = trees, trees.models[NAME]
    X = np.random.default_rng(0).uniform(0, 10, (50, len(model.inputs)))
    twice = calibrate.chained(model, model)
    np.testing.assert_allclose(twice.predict(X), 2 * model.predict(X), rtol=1e-12)
    with pytest.raises(ParameterError):
        calibrate.chained(model, profile.models["preparation-spmv-float32"])


def test_informative_matrices_are_spread_out():
    X = np.array([[0.0, 0], [0.1, 0], [10, 0], [0, 9], [10, 0.1], [-8, -8]])
    assert calibrate._farthest_first(X, 4) == [0, 5, 4, 3]
    assert calibrate._farthest_first(X, 99) == [0, 5, 4, 3, 1, 2]
    assert calibrate._farthest_first(np.empty((0, 2)), 3) == []


def test_informative_matrices_are_constructed_and_small():
    entries = calibrate.informative(25)
    assert len({e.name for e in entries}) == 25
    assert all(e.source == "construction" for e in entries)
    assert [e.name for e in calibrate.informative(5)] == [e.name for e in entries[:5]]


# ----- the command -----


@pytest.fixture
def a_gpu(monkeypatch, tmp_path, elsewhere, profile):
    """A GPU with a name of its own, whose sweep takes no time."""
    device = {"name": "Another GPU", "compute_capability": (9, 0)}
    monkeypatch.setattr(_core, "cuda_info", lambda: {"devices": [device]})
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path / "profiles"))
    monkeypatch.setattr(profiles, "_SHIPPED", tmp_path / "shipped")
    (tmp_path / "shipped" / "network").mkdir(parents=True)
    for folder in ("", "network"):
        profiles.save(tmp_path / "shipped" / folder / "test.safetensors", profile)
    asked = {}

    def measure(entries, settings, output, **options):
        asked.update(options, entries=list(entries), settings=settings)
        elsewhere.save(output)
        return run.Report(measured=80)

    monkeypatch.setattr(run, "sweep", measure)
    return asked


def test_calibrate_keeps_a_profile_where_plans_find_it(a_gpu):
    result = CliRunner().invoke(
        main, ["calibrate", "--minutes", "2", "--setting", "spmv/float32"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    assert "80 matrices measured" in result.output
    assert NAME in result.output
    found = profiles.find("Another GPU")
    assert found is not None
    assert found.note == ""
    assert a_gpu["minutes"] == 2
    assert set(a_gpu["candidates"]) <= set(CANDIDATES)
    assert len(a_gpu["entries"]) == 80
    assert tuple(a_gpu["settings"]) == ("spmv/float32",)


def test_each_kind_of_models_is_kept_in_its_place(a_gpu, tmp_path):
    for model, path in (("network", "network/another-gpu"), ("trees", "another-gpu")):
        done = calibrate.calibrate(settings=["spmv/float32"], model=model)
        assert done.path == tmp_path / "profiles" / f"{path}.safetensors"
        assert profiles.find("Another GPU", model=model).path == done.path


def test_models_of_papers_cannot_be_calibrated():
    with pytest.raises(ParameterError, match="trees and network") as caught:
        calibrate.calibrate(model="gao2024")
    assert caught.value.argument == "model"


def test_calibrate_without_a_gpu_or_a_profile(a_gpu, monkeypatch):
    with pytest.raises(DeviceError, match="no GPU 3"):
        calibrate.calibrate(gpu=3)
    monkeypatch.setattr(profiles, "find", lambda *a, **o: None)
    with pytest.raises(ParameterError, match="no profile"):
        calibrate.calibrate()


def test_nothing_measured_is_an_error(a_gpu, monkeypatch):
    monkeypatch.setattr(run, "sweep", lambda *a, **o: run.Report())
    with pytest.raises(ParameterError, match="no matrix"):
        calibrate.calibrate(settings=["spmv/float32"])


def test_train_writes_a_profile(tmp_path):
    sweep(40, noise=0.01).save(tmp_path / "measured")
    output = tmp_path / "p.safetensors"
    result = CliRunner().invoke(
        main,
        ["train", str(tmp_path / "measured"), "--output", str(output), "--no-held-out", "--model", "trees"],
        catch_exceptions=False,
    )
    assert result.exit_code == 0, result.output
    assert "Test GPU" in result.output
    assert profiles.load(output).selector().names() == ["spmv-float32-cold", NAME]


def test_models_that_take_other_measurements_are_left_out_unless_they_are_asked_for(tmp_path, trees):
    sweep(40, noise=0.01).save(tmp_path / "measured")
    output = tmp_path / "p.safetensors"
    profiles.save(output, trees)
    arguments = ["train", str(tmp_path / "measured"), "--output", str(output)]
    missing = CliRunner().invoke(main, [*arguments[:-1], str(tmp_path / "other"), "--model", "mehrabi2021"])
    assert missing.exit_code != 0
    assert "does not exist" in missing.output
    asked = CliRunner().invoke(main, [*arguments, "--model", "mehrabi2021"])
    assert asked.exit_code != 0
    assert "no times" in asked.output
    assert not (tmp_path / "mehrabi2021").exists()

import dataclasses

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from training.training_tables import CANDIDATES, build, facts, measurement, sweep
from warploom import profiles
from warploom.candidates import parse
from warploom.cli import main
from warploom.errors import ParameterError
from warploom.experiments import Findings, load
from warploom.model_inputs import PREPARATION_INPUTS, preparation_inputs
from warploom.predictor import Model, StoredVectors
from warploom.profiles import Profile
from warploom.training.data import Dataset
from warploom.training.preparation import SWEEP, fit_preparation, refit_preparation, relative_errors


def dataset(cost, matrices=60, spoiled=()):
    """Matrices whose preparation takes ``cost(rows, nnz)`` milliseconds, three times that for the spoiled ones."""
    random = np.random.default_rng(0)
    described, rows = [], []
    for i in range(matrices):
        size, nnz = 10 ** random.uniform(2, 6), 10 ** random.uniform(3, 7)
        described.append(facts(f"m{i}", spmv_num_rows=size, spmv_nnz=nnz))
        time = cost(size, nnz) * (3 if i in spoiled else 1)
        rows += [measurement(f"m{i}", c, 1.0, preparation_ms=time * (1 + j)) for j, c in enumerate(CANDIDATES[:2])]
    return Dataset.of(build(described, rows), "spmv/float32", "warm")


def cost(rows, nnz):
    return 0.02 + 3e-6 * rows + 5e-6 * nnz


def test_a_sum_of_terms_is_found():
    data = dataset(cost)
    model = fit_preparation([data], list(CANDIDATES[:2]))
    assert np.nanmax(relative_errors(model, data)) < 0.01
    new = preparation_inputs({"spmv_num_rows": 5e4, "spmv_num_cols": 0.0, "spmv_nnz": 2e6, "spmv_nnz_per_row_max": 0.0})
    np.testing.assert_allclose(model.predict(new[np.newaxis])[0], [cost(5e4, 2e6), 2 * cost(5e4, 2e6)], rtol=0.02)


def test_spoiled_measurements_count_little():
    data = dataset(cost, spoiled=range(0, 60, 10))
    model = fit_preparation([data], [CANDIDATES[0]])
    clean = np.array([i % 10 != 0 for i in range(60)])[np.argsort([f"m{i}" for i in range(60)])]
    assert np.median(relative_errors(model, data)[clean]) < 0.1


def test_coefficients_are_not_negative():
    model = fit_preparation([dataset(lambda rows, nnz: 1 / (1 + nnz / 1e5))], [CANDIDATES[0]])
    assert (model.arrays["layer.0.weight"] >= 0).all()


KERNELS = {
    "spmv/none/csr/vector": (0.05, 0, 0, 0, 0),
    "spmv/none/csr/vector[threads_per_row=4]": (0.05, 0.1, 0, 0, 0),
    "spmv/none/csr/vector[threads_per_row=8]": (0.06, 0.2, 0, 0.02, 0),
    "spmv/none/sell/vector": (0.1, 0.5, 0, 0.3, 0),
    "spmv/none/ell/vector": (0.08, 0.1, 0, 0.01, 0.004),
    "spmv/none/bsr/vector": (0.3, 0, 2.0, 1.0, 0),
}
"""Coefficients of made-up preparations: milliseconds, and milliseconds for each million of a size."""


def profile_of(candidates=tuple(KERNELS), op="spmv-float64", seconds=0):
    """Return a profile with two selectors, whose preparation takes so long, and a model that is none of preparation."""
    arrays = {
        "input.mean": np.zeros(5),
        "input.scale": np.ones(5),
        "layer.0.weight": np.full((1, len(candidates), 5), 1000 * seconds, np.float32),
        "layer.0.bias": np.zeros((1, len(candidates)), np.float32),
    }
    settings = {"activation": "identity", "output": "identity"}
    model = Model("network", PREPARATION_INPUTS, candidates, settings, arrays)
    vectors = np.arange(10.0).reshape(2, 5)
    checked = Model(
        "network", PREPARATION_INPUTS, candidates, settings, arrays, StoredVectors(vectors, model.predict(vectors))
    )
    selectors = {
        f"{op}-{cache}": {"settings": ["x"], "preparation_error": 9.0, "margin": 0.1} for cache in ("cold", "warm")
    }
    return Profile(
        gpu="Test GPU",
        compute_capability=(9, 0),
        cuda="13.0",
        models={f"preparation-{op}": model, f"{op}-cold": checked, f"{op}-warm": checked},
        geometry={"warps": 32},
        data_hash="abc",
        metrics={"selectors": selectors, "other": [1, 2]},
    )


def findings(matrices=40, absent=(), rare=(), gpu="Test GPU", kind=("spmv", "float64", ""), noise=0.0, **costs):
    """Return findings in which preparation costs what `KERNELS` says; rare candidates are refused by most matrices."""
    random = np.random.default_rng(1)
    rows = []
    for i in range(matrices):
        m, mean = int(10 ** random.uniform(2, 7)), int(10 ** random.uniform(0.3, 1.5))
        n, longest = int(m * random.uniform(0.5, 3)), mean * int(random.integers(1, 30))
        known = {"matrix": f"m{i}", "family": "f", "rows": m, "cols": n, "nnz": m * mean, "longest_row": longest}
        terms = np.array([1, m / 1e6, n / 1e6, m * mean / 1e6, min(m * longest / 1e6, 1e3)])
        for candidate, weights in KERNELS.items():
            refused = candidate in absent or (candidate in rare and i >= 5)
            took = float(terms @ weights) * np.exp(noise * random.normal())
            rows.append(
                known
                | dict(zip(("op", "dtype", "layout"), kind, strict=True))
                | {
                    "candidate": candidate,
                    "preparation_ms": np.nan if refused else took,
                    "status": "unsupported" if refused else "ok",
                    "features_us": 20.0,
                }
            )
    return Findings("preparation", pd.DataFrame(rows), {"gpu": gpu, "cuda": "13.1", "cpu": "c"}, "2026-11-22")


def coefficients(refit, model="preparation-spmv-float64"):
    found = refit.profile.models[model]
    return dict(zip(found.outputs, found.arrays["layer.0.weight"][0], strict=True))


def test_known_coefficients_are_found_again():
    refit = refit_preparation(profile_of(), findings())
    for candidate, weights in coefficients(refit).items():
        np.testing.assert_allclose(weights, KERNELS[candidate], atol=1e-3)
    assert (refit.errors["error"] < 1e-3).all()
    assert (refit.errors["matrices"] == 40).all()
    assert (refit.errors["taken_from"] == "").all()
    assert refit.errors["candidate"].tolist() == list(KERNELS)


def test_the_error_is_that_on_matrices_held_out():
    refit = refit_preparation(profile_of(), findings(noise=0.2))
    for selector in refit.profile.metrics["selectors"].values():
        assert 0.08 < selector["preparation_error"] < 0.3  # a normal error of 0.2 has a median of 0.13
    assert refit.errors["error_90"].gt(refit.errors["error"]).all()
    assert "spmv-float64: 6 candidates, 0 of which like another one" in refit.summary()[0]


def test_the_error_of_a_selector_is_that_of_its_candidates():
    profile = profile_of()
    few = tuple(KERNELS)[:1]
    model = profile.models["preparation-spmv-float64"]
    arrays = {name: values[:, :1] if "layer" in name else values for name, values in model.arrays.items()}
    only = Model("network", PREPARATION_INPUTS, few, dict(model.settings), arrays)
    profile = dataclasses.replace(profile, models={**profile.models, "spmv-float64-warm": only})
    made = findings()
    spoiled = made.table["candidate"] != few[0]
    noise = np.exp(np.random.default_rng(0).normal(size=spoiled.sum()))
    made.table.loc[spoiled, "preparation_ms"] *= noise
    selectors = refit_preparation(profile, made).profile.metrics["selectors"]
    assert selectors["spmv-float64-warm"]["preparation_error"] < 0.01
    assert selectors["spmv-float64-cold"]["preparation_error"] > 0.2


def test_what_was_not_measured_takes_as_long_as_its_neighbour():
    plain, four, eight, *_ = KERNELS
    refit = refit_preparation(profile_of(), findings(absent=[four]))
    found = coefficients(refit)
    # Both differ from it in one parameter, so that the slower one counts.
    np.testing.assert_array_equal(found[four], found[eight])
    assert refit.errors.set_index("candidate")["taken_from"][four] == eight
    found = coefficients(refit_preparation(profile_of(), findings(absent=[four, eight])))
    np.testing.assert_array_equal(found[four], found[plain])
    np.testing.assert_array_equal(found[eight], found[plain])


def test_the_neighbour_differs_in_as_few_parameters_as_possible():
    settings = ("", "[steps=2]", "[steps=2,entries_per_lane=2]")
    a, b, c = (parse(f"spmv/none/packed-csr/segmented_sum{given}").name for given in settings)
    made = findings()
    names = dict(zip(list(KERNELS)[3:], (a, b, c), strict=True))
    made.table["candidate"] = made.table["candidate"].replace(names)
    made.table.loc[made.table["candidate"] == c, "preparation_ms"] = np.nan
    made.table.loc[made.table["candidate"] == a, "preparation_ms"] *= 100
    outputs = (*list(KERNELS)[:3], a, b, c)
    taken = refit_preparation(profile_of(outputs), made).errors.set_index("candidate")["taken_from"]
    assert taken[c] == b
    assert (taken.drop(c) == "").all()


def test_without_a_neighbour_it_takes_as_long_as_the_slowest():
    found = coefficients(refit_preparation(profile_of(), findings(absent=["spmv/none/sell/vector"])))
    np.testing.assert_array_equal(found["spmv/none/sell/vector"], found["spmv/none/bsr/vector"])


@pytest.mark.parametrize("name", ["spmv/rcm/csr/vector", "spmv/none/hub-csr/segmented_sum"])
def test_what_the_experiment_does_not_know_takes_as_long_as_in_the_sweep(name):
    refit = refit_preparation(profile_of((*KERNELS, parse(name).name), seconds=1), findings())
    np.testing.assert_array_equal(coefficients(refit)[parse(name).name], 1000)
    assert refit.errors.set_index("candidate")["taken_from"][parse(name).name] == SWEEP
    assert "7 candidates, 1 of which like another one or the sweep" in refit.summary()[0]


def test_what_an_order_adds_is_known_from_other_value_types(monkeypatch):
    ordered, akin = "spmv/rcm/csr/vector", "spmv/rcm/csr/vector[threads_per_row=16]"
    unknown = "spmv/community/csr/vector"
    monkeypatch.setitem(KERNELS, ordered, (0.05, 3.0, 0, 0.5, 0))
    doubles, floats = findings(), findings(kind=("spmv", "float32", ""), absent=[ordered])
    both = dataclasses.replace(doubles, table=pd.concat([doubles.table, floats.table], ignore_index=True))
    candidates = (*KERNELS, akin, unknown)
    profile = profile_of(candidates, seconds=1)
    of_sweep = profile_of(candidates, "spmv-float32", seconds=1).models
    found = refit_preparation(dataclasses.replace(profile, models=profile.models | of_sweep), both)
    weights = coefficients(found, "preparation-spmv-float32")
    for name in (ordered, akin):
        np.testing.assert_allclose(weights[name], KERNELS[ordered], rtol=0.05, atol=0.05)
    np.testing.assert_array_equal(weights[unknown], np.full(5, 1000.0))


def test_a_few_matrices_are_not_enough_for_a_candidate():
    refit = refit_preparation(profile_of(), findings(rare=["spmv/none/sell/vector"]))
    found = coefficients(refit)
    np.testing.assert_array_equal(found["spmv/none/sell/vector"], found["spmv/none/bsr/vector"])
    assert all(weights.sum() > 0 for weights in found.values())


def test_nothing_else_in_the_profile_changes(tmp_path):
    before = profile_of()
    refit = refit_preparation(before, findings()).profile
    profiles.save(tmp_path / "refit.safetensors", refit)
    after = profiles.load(tmp_path / "refit.safetensors")
    assert list(after.models) == sorted([*before.models, "features"])
    for name in ("spmv-float64-cold", "spmv-float64-warm"):
        was, now = before.models[name], after.models[name]
        assert (was.kind, was.inputs, was.outputs, dict(was.settings)) == (
            now.kind,
            now.inputs,
            now.outputs,
            dict(now.settings),
        )
        assert {a: v.tobytes() for a, v in was.arrays.items()} == {a: v.tobytes() for a, v in now.arrays.items()}
        assert was.check.inputs.tobytes() == now.check.inputs.tobytes()
        assert was.check.outputs.tobytes() == now.check.outputs.tobytes()
    for field in ("gpu", "compute_capability", "cuda", "geometry", "data_hash"):
        assert getattr(before, field) == getattr(after, field)
    metrics = dict(after.metrics)
    assert metrics.pop("preparation") == {"gpu": "Test GPU", "cuda": "13.1", "matrices": 40, "made": "2026-11-22"}
    for selector in metrics["selectors"].values():
        assert selector.pop("preparation_error") < 0.01
    for selector in before.metrics["selectors"].values():
        assert selector.pop("preparation_error") == 9.0  # what was given has not been changed
    assert metrics == before.metrics


def test_half_precision_keeps_what_sweeps_found_where_the_experiment_has_none():
    before = profile_of()
    (name,) = (name for name in before.models if name.startswith("preparation-"))
    of_half = "preparation-spmm-float16-row"
    selectors = before.metrics["selectors"] | {"spmm-float16-row-warm": {"preparation_error": 9.0}}
    both = dataclasses.replace(
        before, models=dict(before.models) | {of_half: before.models[name]}, metrics={"selectors": selectors}
    )
    after = refit_preparation(both, findings()).profile
    assert after.models[of_half] is before.models[name]
    assert after.models[name] is not before.models[name]
    assert after.metrics["selectors"]["spmm-float16-row-warm"] == {"preparation_error": 9.0}


def test_what_does_not_fit_is_refused():
    with pytest.raises(ParameterError, match="one of the Test GPU, preparation was measured on the Other GPU"):
        refit_preparation(profile_of(), findings(gpu="Other GPU"))
    for made in (findings(matrices=10), findings(kind=("spmv", "float32", "")), findings(absent=KERNELS)):
        with pytest.raises(ParameterError, match="too few matrices were prepared for spmv-float64"):
            refit_preparation(profile_of(), made)
    without = dataclasses.replace(profile_of(), models={})
    with pytest.raises(ParameterError, match="no models of preparation"):
        refit_preparation(without, findings())


def test_layouts_are_told_apart_in_files(tmp_path):
    candidates = ("spmm/none/csr/row_split", "spmm/none/csr/cusparse")
    tables = []
    for factor, layout in ((1, "row"), (10, "column")):
        table = findings(kind=("spmm", "float32", layout)).table
        table = table[table["candidate"].isin(list(KERNELS)[:2])]
        names = dict(zip(KERNELS, candidates, strict=False))
        tables.append(
            table.assign(candidate=table["candidate"].map(names), preparation_ms=factor * table["preparation_ms"])
        )
    made = findings()
    Findings("preparation", pd.concat([*tables, made.table]), made.environment, made.made).save(tmp_path)
    profile = profile_of(candidates, "spmm-float32-row")
    column = profile.models["preparation-spmm-float32-row"]
    spmv = profile_of()
    models = {**spmv.models, **profile.models, "preparation-spmm-float32-column": column}
    metrics = {"selectors": {**spmv.metrics["selectors"], **profile.metrics["selectors"]}}
    refit = refit_preparation(
        dataclasses.replace(profile, models=models, metrics=metrics), load("preparation", [tmp_path])
    )
    row, column = (coefficients(refit, f"preparation-spmm-float32-{layout}") for layout in ("row", "column"))
    for name, like in zip(candidates, KERNELS, strict=False):
        np.testing.assert_allclose(row[name], KERNELS[like], atol=1e-3)
        np.testing.assert_allclose(column[name], 10 * np.array(KERNELS[like]), atol=1e-2)
    np.testing.assert_allclose(coefficients(refit)["spmv/none/bsr/vector"], KERNELS["spmv/none/bsr/vector"], atol=1e-3)


def test_the_shipped_profile_still_chooses_after_it():
    """With preparation that costs the more the later a candidate comes in its model."""
    profile = profiles.load(next(path for path in profiles.folders()[-1].glob("*.safetensors")))
    base = findings().table
    sizes = base[base["candidate"] == next(iter(KERNELS))]
    parts = []
    for name, model in profile.models.items():
        if name.startswith("preparation-"):
            op, dtype, layout = [*name.split("-")[1:], ""][:3]
            for place, candidate in enumerate(model.outputs):
                cost = (1 + place) * (0.05 + sizes["nnz"] * 1e-6)
                kind = {"op": op, "dtype": dtype, "layout": layout, "candidate": candidate, "preparation_ms": cost}
                parts.append(sizes.assign(**kind))
    made = Findings("preparation", pd.concat(parts), {"gpu": profile.gpu, "cuda": "13.0", "cpu": "c"}, "2026-11-22")
    refit = refit_preparation(profile, made).profile
    refit.selector()
    for name, selector in refit.metrics["selectors"].items():
        assert selector["preparation_error"] < 0.01
        assert {k: v for k, v in selector.items() if k != "preparation_error"} == {
            k: v for k, v in profile.metrics["selectors"][name].items() if k != "preparation_error"
        }


def test_command(tmp_path):
    kept, output = tmp_path / "kept.safetensors", tmp_path / "new.safetensors"
    profiles.save(kept, profile_of())
    arguments = ["train", str(tmp_path), "--profile", str(kept), "--output", str(output)]
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code != 0
    assert "no findings of preparation" in refused.output
    assert not output.exists()
    findings().save(tmp_path)
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert "spmv-float64: 6 candidates" in done.output
    weights = profiles.load(output).models["preparation-spmv-float64"].arrays["layer.0.weight"][0]
    np.testing.assert_allclose(weights, list(KERNELS.values()), atol=1e-3)


def test_a_profile_of_networks_beside_it_gets_the_same_models_of_preparation(tmp_path):
    kept = tmp_path / "trees.safetensors"
    (tmp_path / "network").mkdir()
    for path in (kept, tmp_path / "network" / kept.name):
        profiles.save(path, profile_of())
    findings().save(tmp_path)
    arguments = ["train", str(tmp_path), "--profile", str(kept), "--output", str(kept)]
    assert CliRunner().invoke(main, arguments, catch_exceptions=False).exit_code == 0
    trees, networks = (profiles.load(tmp_path / folder / kept.name) for folder in ("", "network"))
    name = "preparation-spmv-float64"
    for array, values in trees.models[name].arrays.items():
        np.testing.assert_array_equal(networks.models[name].arrays[array], values)
    before = profile_of().models[name].arrays["layer.0.weight"]
    assert not np.array_equal(networks.models[name].arrays["layer.0.weight"], before)


def test_training_prefers_the_experiment_to_the_sweep(tmp_path):
    measured = sweep(40, noise=0.01, caches=("warm",), repeated=False)
    measured.save(tmp_path)
    made = findings(kind=("spmv", "float32", ""))
    names = dict(zip(KERNELS, CANDIDATES, strict=False))
    table = made.table[made.table["candidate"].isin(names)]
    made.table = table.assign(candidate=table["candidate"].map(names))
    made.save(tmp_path)
    output = tmp_path / "p.safetensors"
    # Of trees alone: networks need PyTorch, which may not be there.
    done = CliRunner().invoke(
        main,
        ["train", str(tmp_path), "--output", str(output), "--no-held-out", "--model", "trees"],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    model = profiles.load(output).models["preparation-spmv-float32"]
    costs = {name: KERNELS[like] for like, name in names.items()}
    np.testing.assert_allclose(model.arrays["layer.0.weight"][0], [costs[name] for name in model.outputs], atol=1e-3)

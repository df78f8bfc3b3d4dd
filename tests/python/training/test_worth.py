"""What choosing is worth: rules whose splits are known, and choices against slow loops over the same times."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from training.training_tables import CANDIDATES, build, measurement, row_of_features, sweep, times
from warploom.cli import main
from warploom.errors import ParameterError
from warploom.training import worth
from warploom.training.data import Dataset

pytest.importorskip("lightgbm")
pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def measurements():
    return sweep(matrices=300)


@pytest.fixture(scope="module")
def dataset(measurements):
    return Dataset.of(measurements, "spmv/float32", "warm")


@pytest.fixture(scope="module")
def compared(measurements):
    return worth.worth(measurements)


def ends(rule):
    return [rule.candidate] if rule.below is None else [*ends(rule.below), *ends(rule.above)]


def inputs_of(dataset):
    from warploom.model_inputs import INPUTS as known
    from warploom.model_inputs import model_inputs

    names = [name for name in known if name != "log_k"]
    X = model_inputs(dataset.features, dataset.k, names)
    return names, dict(zip(names, X.T, strict=True))


def test_a_rule_finds_where_the_fastest_candidate_changes(dataset):
    names, X = inputs_of(dataset)
    rule = worth.fit_rule(dataset, names, 2)
    assert sorted(ends(rule)) == sorted(CANDIDATES[1:])  # short, middle and long rows, and never the slow one
    chosen = rule.choose(X)
    best = np.array([dataset.candidates[i] for i in dataset.times.argmin(axis=1)])
    assert (chosen == best).mean() > 0.75  # one for all is right on about half of them
    for end in ends(rule):
        assert end in str(rule)


def test_without_splits_one_candidate_has_the_least_mean_loss(dataset):
    names, X = inputs_of(dataset)
    rule = worth.fit_rule(dataset, names, 0)
    assert rule.below is None
    loss = {
        name: sum(
            min(math.log(row[i] / min(row)), 1.5) * (math.log(row[i] / min(row)) > tolerance)
            for row, tolerance in zip(dataset.times, dataset.tolerance, strict=True)
        )
        for i, name in enumerate(dataset.candidates)
    }
    assert rule.candidate == min(loss, key=loss.get)
    assert set(rule.choose(X)) == {rule.candidate}


def test_more_splits_spare_more(dataset):
    names, X = inputs_of(dataset)
    lost = []
    for splits in range(4):
        chosen = worth.fit_rule(dataset, names, splits).choose(X)
        columns = [dataset.candidates.index(name) for name in chosen]
        lost.append(np.log(dataset.times[np.arange(len(dataset)), columns] / dataset.best).sum())
    assert lost[0] > lost[1] > lost[2]
    assert lost[2] * 1.01 >= lost[3]


def test_rows_hold_what_was_chosen_and_what_it_cost(compared, dataset):
    _, rows = compared
    rows = rows[rows["cache"] == "warm"]
    assert len(rows) == 2 * len(dataset)
    assert set(rows["split"]) == {"random", "families"}
    by_name = dict(zip(dataset.names, dataset.times, strict=True))
    tolerance = dict(zip(dataset.names, dataset.tolerance, strict=True))
    for row in rows.to_dict("records"):
        us = by_name[row["matrix"]]
        assert row["best_us"] == min(us) == row["best_unpermuted_us"]
        assert row["default_us"] == us[dataset.candidates.index(CANDIDATES[0])]
        for name in worth.SELECTORS:
            loss = us[dataset.candidates.index(row[name])] / min(us) - 1
            expected = 0.0 if math.log1p(loss) <= tolerance[row["matrix"]] else loss
            assert math.isclose(row[f"{name}_loss"], expected, rel_tol=1e-9, abs_tol=1e-12)


def test_the_table_has_geometric_means_of_both_splits(compared):
    table, rows = compared
    assert table.frame["matrices"].tolist()[:2] == ["all: 300", "real: 300"]
    line = table.frame.iloc[0]
    for name, words in worth.SELECTORS.items():
        shares = [
            100 / math.exp(np.log1p(rows[rows["split"] == split][f"{name}_loss"]).mean())
            for split in ("random", "families")
        ]
        assert line[words] == f"{shares[0]:.1f} / {shares[1]:.1f}"
    assert line["no orders"] == "100.0"
    by_choice = [float(line[words].split(" / ")[0]) for words in ("one candidate", "three splits", "measured")]
    assert by_choice[0] < by_choice[1]
    assert by_choice[0] < by_choice[2]


def test_sizes_and_origins_have_lines_of_their_own():
    frame = pd.DataFrame(
        {
            "matrix": ["a", "b", "c"],
            "origin": ["real", "constructed", "constructed"],
            "setting": "spmv/float64",
            "cache": "warm",
            "split": "random",
            "nnz": [10, 10, 10**6],
            "best_us": [1.0, 1.0, 2.0],
            "best_unpermuted_us": [1.0, 1.0, 4.0],
            "default_us": [2.0, 2.0, 2.0],
            **{f"{name}_loss": [0.0, 1.0, np.nan] for name in worth.SELECTORS},
        }
    )
    table = worth.table(frame).frame.set_index("matrices")
    assert table["default"].to_dict() == {
        "all: 3": "63.0",
        "real: 1": "50.0",
        "below 10^6 nonzeros: 2": "50.0",
        "10^6 and more: 1": "100.0",
    }
    assert table["measured"].tolist() == ["70.7", "100.0", "70.7", "-"]
    assert table["no orders"].tolist() == ["79.4", "100.0", "100.0", "50.0"]


def test_what_cannot_run_is_replaced_by_the_vendor_s_default():
    random = np.random.default_rng(1)
    facts, rows = [], []
    for i in range(60):
        values = row_of_features(random)
        size = {"rows": 10, "cols": 10, "nnz": int(values["spmv_nnz"]), "referenced_cols": 10}
        facts.append({"matrix": f"g/m{i}", "family": "g", "kind": f"k{i % 4}", "source": "folder", "licence": ""})
        facts[-1] |= size | values
        chosen = CANDIDATES if i % 10 else CANDIDATES[:2]  # every tenth matrix is refused by the others
        us = dict(zip(CANDIDATES, times(values), strict=True)) | {CANDIDATES[3]: 0.5}
        rows += [measurement(f"g/m{i}", name, us[name], setting="spmv/float32", cache="warm") for name in chosen]
    _, found = worth.worth(build(facts, rows))
    refused = found["matrix"].isin([f"g/m{i}" for i in range(0, 60, 10)])
    assert set(found[~refused]["one"]) == {CANDIDATES[3]}
    assert set(found[refused]["one"]) == {CANDIDATES[0]}


def test_the_command_writes_table_and_rows(tmp_path, measurements):
    measurements.save(tmp_path / "sweep")
    arguments = ["bench", "choices", str(tmp_path / "sweep"), "--setting", "spmv/float32", "--cache", "cold"]
    arguments += ["--output", str(tmp_path / "table.csv"), "--rows", str(tmp_path / "rows.csv")]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "What choosing is worth" in done.stdout
    table, rows = pd.read_csv(tmp_path / "table.csv"), pd.read_csv(tmp_path / "rows.csv")
    assert set(rows["cache"]) == {"cold"}
    assert table["one candidate"].iloc[0] in done.stdout


def test_a_table_of_large_matrices_needs_another_sweep(tmp_path, measurements):
    measurements.save(tmp_path / "sweep")
    arguments = ["bench", "choices", str(tmp_path / "sweep"), "--large", str(tmp_path / "large.csv")]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "no sweep of large matrices beside another one" in done.stderr
    assert not (tmp_path / "large.csv").exists()


def test_settings_that_were_not_measured(measurements):
    with pytest.raises(ParameterError, match="no times of spmm/float32"):
        worth.worth(measurements, only=["spmm/float32"])


def test_large_matrices_are_compared_with_the_vendor_s_best():
    names = ["rmat(scale=20)", "rmat(scale=20).half", "origins/wing.shuffled", "HB/a", "small"]
    shares = [1.0, 0.5, 0.8, 0.9, 1.0]
    frame = pd.DataFrame(
        {
            "matrix": names,
            "origin": ["constructed", "constructed", "real by origin", "real", "real"],
            "setting": "spmm/float32/row/k=32",
            "sweep": [1, 1, 1, 1, 0],
            "cache": "warm",
            "split": "families",
            "best_us": 10.0,
            "best_own_us": [10.0, 10.0, 10.0, 20.0, 10.0],
            "vendor_us": [20.0, 40.0, 10.0, 10.0, 10.0],
            **{f"{name}_loss": [1 / share - 1 for share in shares] for name in worth.SELECTORS},
            **{f"{name}_us": [10 / share for share in shares] for name in worth.SELECTORS},
        }
    )
    random = frame.assign(split="random", models_loss=9.0)
    found = worth.large_table(pd.concat([frame, random])).frame.set_index(["matrices", "chosen by"])
    line = found.loc[("all: 4", "all features")]
    assert line["speed"] == f"{100 * (1.0 * 0.5 * 0.8 * 0.9) ** 0.25:.1f}"
    assert (line["least"], line["below 85 %"], line["slower than the vendor"]) == ("50.0", "50.0", "50.0")
    assert line["over the vendor's best"] == f"{(2 * 2 * 0.8 * 0.9) ** 0.25:.2f}"
    assert found.loc[("all: 4", "own"), "over the vendor's best"] == f"{(2 * 4 * 1 * 0.5) ** 0.25:.2f}"
    assert found.loc[("irregular: 1", "own"), "speed"] == "100.0"
    labels = [label for label, _ in found.index[:: len(found) // 5]]
    assert labels == ["all: 4", "constructed: 2", "real by origin: 1", "real: 1", "irregular: 1"]


def test_each_of_several_sweeps_has_a_rule_of_its_own(measurements):
    """The second sweep has large matrices, for which what is slow on the others is the fastest."""
    fast, slow = CANDIDATES[2:], CANDIDATES[0]
    random = np.random.default_rng(3)
    facts, rows = [], []
    for i in range(40):
        values = row_of_features(random) | {"spmv_nnz": 10.0 ** random.uniform(6, 7.5)}
        facts.append({"matrix": f"l/m{i}", "family": "l", "kind": f"kind {i % 4}", "source": "origin", "licence": ""})
        facts[-1] |= {"rows": 10, "cols": 10, "nnz": int(values["spmv_nnz"]), "referenced_cols": 10} | values
        rows += [measurement(f"l/m{i}", name, 50.0, cache="warm") for name in fast]
        rows.append(measurement(f"l/m{i}", slow, 5.0, cache="warm"))
    table, found = worth.worth([measurements, build(facts, rows)])
    assert table.frame["matrices"].iloc[0] == "all: 300"  # of the first sweep alone
    further = found[found["sweep"] == 1]
    assert set(further["one"]) == {slow}
    assert (further["one_loss"] == 0).all()
    assert set(found[found["sweep"] == 0]["one"]) != {slow}
    assert (further["models"] == slow).mean() > 0.9
    assert set(worth.large_table(found).frame["matrices"]) == {"all: 40", "real by origin: 40"}

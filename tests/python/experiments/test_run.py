"""Where experiments run, and what is written; measured on the CPU."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from warploom.bench.environment import cpu_name
from warploom.commands.experiment import experiment
from warploom.errors import ParameterError
from warploom.experiments import experiments, find, load, permutations, run

NAMES = [
    *("features", "features-cpu", "locality", "permutations", "predictor", "preparation", "strip-height", "time-split"),
]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(permutations, "MATRICES", ("grid2d(nx=9,ny=7)",))


def test_experiments_are_found_by_name():
    assert [known.name for known in experiments()] == NAMES
    assert [known.name for known in experiments() if known.kind == "cpu"] == [NAMES[1], *NAMES[3:5]]
    with pytest.raises(ParameterError, match="there is no experiment 'permutation'; did you mean permutations"):
        find("permutation")


def test_what_is_about_the_cpu_says_on_which(small, tmp_path):
    (found,) = run("permutations", tmp_path)
    assert found.where == f"on the {cpu_name()}"
    assert found.device.startswith(f"{cpu_name()}, ")
    read = load("permutations", [tmp_path])
    assert read.table["permutation"].tolist() == found.table["permutation"].tolist()
    assert read.environment == found.environment


def test_what_is_about_gpus_needs_one(small, tmp_path):
    with pytest.raises(ParameterError, match="time-split: about GPUs, got device 'cpu'"):
        run(["permutations", "time-split"], tmp_path / "out", device="cpu")
    assert not (tmp_path / "out").exists()


def test_commands(small, tmp_path):
    listed = CliRunner().invoke(experiment, ["list"])
    assert [line.split()[0] for line in listed.output.splitlines()] == NAMES
    ran = CliRunner().invoke(experiment, ["run", "permutations", "--output", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    assert f"permutations.csv: 15 rows, {cpu_name()}" in ran.stdout

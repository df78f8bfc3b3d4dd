import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

from warploom import corpus
from warploom.bench import Measurements, Store
from warploom.cli import main

QUICK = ["--device", "cpu", "--repeats", "3", "--ahead", "0", "--setting", "spmv/float64"]


@pytest.fixture
def matrices(tmp_path):
    folder = tmp_path / "matrices"
    folder.mkdir()
    for name, size in (("Some__a", 20), ("Some__b", 30)):
        sp.save_npz(folder / f"{name}.npz", sp.random_array((size, size), density=0.2, format="csr", rng=1))
    (folder / "broken.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3")
    return str(folder)


def invoke(*arguments):
    result = CliRunner().invoke(main, ["bench", *map(str, arguments)], catch_exceptions=False)
    return result


def test_a_pattern_that_matches_no_candidate_is_named(matrices, tmp_path):
    result = invoke("run", "--output", tmp_path / "out", "--matrices", matrices, *QUICK, "--candidates", "mine.txt")
    assert result.exit_code == 2
    assert "no candidate matches 'mine.txt'" in result.output
    assert "@large" in result.output
    assert not (tmp_path / "out").exists()


def test_a_folder_is_measured_merged_and_summarised(matrices, tmp_path):
    options = [*QUICK, "--candidates", "spmv/none/csr/*"]
    result = invoke("run", "--output", tmp_path / "out", "--matrices", matrices, *options)
    assert result.exit_code == 0, result.output
    assert "2 matrices measured" in result.output
    assert "broken.mtx" in result.output
    assert {name for name, _ in Store(tmp_path / "out").done()} == {"Some/a", "Some/b"}

    result = invoke("run", "--output", tmp_path / "out", "--matrices", matrices, *options)
    assert "0 matrices measured" in result.output
    assert "2 were already there" in result.output

    result = invoke("merge", tmp_path / "merged", tmp_path / "out")
    assert result.exit_code == 0, result.output
    result = invoke("plot", tmp_path / "picture", tmp_path / "merged")
    assert (tmp_path / "picture.png").stat().st_size > 10_000, result.output
    result = invoke("summary", tmp_path / "merged")
    assert result.exit_code == 0, result.output
    assert "Matrices with times, by source" in result.output
    assert "spmv/float64" in result.output
    assert "Matrices with times, by family" not in result.output
    assert "--all adds the families" in result.stderr
    assert "Matrices with times, by family" in invoke("summary", "--all", tmp_path / "merged").output

    table = Measurements.load(tmp_path / "merged").measurements
    assert set(table.matrix) == {"Some/a", "Some/b"}
    assert np.isfinite(table[table.status == "ok"].median_us).all()


def test_large_matrices_are_measured_in_their_settings(tmp_path, monkeypatch):
    """With matrices that are small, so that it takes seconds."""
    named = [corpus.find(name) for name in ("grid2d(nx=9,ny=9)", "grid2d(nx=9,ny=9).half")]
    entries = [dataclasses.replace(e, rows=81, cols=81, nnz=369) for e in named]
    monkeypatch.setattr(corpus, "large", lambda: entries)
    options = ["--corpus", "large", "--device", "cpu", "--repeats", "3", "--ahead", "0"]
    result = invoke("run", "--output", tmp_path, *options, "--setting", "spmm/float32/row/k=16")
    assert result.exit_code == 0, result.output
    assert "1 matrices measured" in result.output  # half destroyed ones are measured in few settings
    assert Store(tmp_path).done() == {(entries[0].name, "spmm/float32/row/k=16")}
    table = Measurements.load(tmp_path).measurements
    assert {"none", "rcm", "community"} <= {name.split("/")[1] for name in table.candidate}

    few = ["--setting", "spmm/float32/row/k=16", "--setting", "spmv/float64", "--candidates", "*/none/csr/*"]
    result = invoke("run", "--output", tmp_path, *options, *few)
    assert "2 matrices measured" in result.output
    assert Store(tmp_path).done() == {
        (entries[0].name, "spmm/float32/row/k=16"),
        *((entry.name, "spmv/float64") for entry in entries),
    }


def test_only_and_sample(matrices, tmp_path):
    options = [*QUICK, "--candidates", "spmv/none/csr/scalar"]
    invoke("run", "--output", tmp_path, "--matrices", matrices, "--only", "*/a", *options)
    assert {name for name, _ in Store(tmp_path).done()} == {"Some/a"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--matrices", "no/such/matrix"], "no/such/matrix"),
        ([], "name what to measure"),
        (["--matrices", "HB/dwt_361", "--setting", "spmv/int3"], "spmv/int3"),
    ],
)
def test_wrong_arguments_take_one_line(arguments, message, tmp_path):
    result = invoke("run", "--output", tmp_path, "--device", "cpu", *arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


def test_columns_are_printed():
    assert "preparation_ms" in invoke("columns").output


def test_the_groups_are_listed_and_lack_of_a_package_is_said(monkeypatch):
    assert "bench" in CliRunner().invoke(main, ["--help"]).output
    import importlib

    def fail(name):
        raise ImportError("warploom.bench needs pandas; install it with pip install 'warploom[bench]'")

    monkeypatch.setattr(importlib, "import_module", fail)
    result = CliRunner().invoke(main, ["bench", "columns"])
    assert result.exit_code == 2
    assert "pip install 'warploom[bench]'" in result.output

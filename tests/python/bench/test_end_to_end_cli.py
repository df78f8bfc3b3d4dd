import json

import pytest
import scipy.sparse as sp
from click.testing import CliRunner

from bench.end_to_end_rows import ENVIRONMENT, row
from warploom.bench.end_to_end.rows import Store
from warploom.cli import main

CPU = ["--device", "cpu", "--setting", "spmv/float32", "--tool", "warploom", "--tool", "scipy", "--repeats", "1"]


def invoke(*arguments):
    return CliRunner().invoke(main, ["bench", "end-to-end", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "matrices"
    folder.mkdir()
    sp.save_npz(folder / "mine.npz", sp.random_array((20, 20), density=0.2, format="csr", rng=1))
    (folder / "broken.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3")
    return folder


def test_matrices_of_a_folder_and_of_the_sample_are_measured_and_summarised(folder, tmp_path):
    options = ["--output", tmp_path / "out", "--matrices", folder, *CPU, "--direct-seconds", "0.001"]
    chosen = ["--only", "mine", "--only", "broken", "--only", "example:gr_*"]
    result = invoke("run", *options, *chosen)
    assert result.exit_code == 0, result.output
    assert "2 matrices measured" in result.output
    assert "[1/3] example:gr_30_30" in result.stderr
    assert "broken.mtx" in result.output
    assert "2 were there" in invoke("run", *options, *chosen).output

    result = invoke("summary", tmp_path / "out", "--json", tmp_path / "figures.json", "--slowest", 1)
    assert result.exit_code == 0, result.output
    assert "Until n products are done, over scipy" in result.output
    assert "What planning costs" in result.output
    assert "Cases in which planning exceeds its aim the most: 1" in result.output
    found = json.loads((tmp_path / "figures.json").read_text())
    assert {entry["cases"] for entry in found["until"]} == {2}

    result = invoke("plot", tmp_path / "picture", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert (tmp_path / "picture.svg").is_file()


def test_what_ships_is_summarised_by_its_name():
    result = invoke("summary", "h200")
    assert result.exit_code == 0, result.output
    assert "Until n products are done, over cusparse" in result.output


def test_a_gpu_that_is_not_there_is_one_line(tmp_path):
    result = invoke("run", "--output", tmp_path, "--device", "cuda:99", "--only", "none")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: there is no GPU 99")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--output", "{}", "--device", "cpu", "--tool", "mkl"], "no tool has such a name"),
        (["run", "--output", "{}", "--device", "cpu", "--setting", "spmv/float16"], "float32 and float64"),
        (["run", "--output", "{}", "--device", "cpu", "--matrices", "no/such"], "there is no matrix"),
        (["summary", "{}"], "no end-to-end times"),
        (["plot", "{}/picture", "{}"], "no end-to-end times"),
    ],
)
def test_errors_are_one_line(tmp_path, arguments, message):
    result = invoke(*(text.format(tmp_path) for text in arguments))
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_place_that_was_not_measured_cannot_be_drawn(tmp_path):
    Store(tmp_path / "out").append([row(), row(tool="cusparse")], ENVIRONMENT)
    assert invoke("plot", tmp_path / "picture", tmp_path / "out").exit_code == 0
    result = invoke("plot", tmp_path / "picture", tmp_path / "out", "--place", "host")
    assert (result.exit_code, "no times of matrices at 'host'" in result.stderr) == (2, True)


def test_columns_are_described():
    result = invoke("columns")
    assert result.exit_code == 0
    assert "planning_us" in result.output

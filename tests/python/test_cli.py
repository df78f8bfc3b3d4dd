"""The command: what it prints, and one line and exit code 2 for what a user can get wrong."""

import csv
import gzip
import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from click.testing import CliRunner

import warploom
from warploom import cli, errors


class Explanation:
    title = "spmm, k = 128"
    rows = ({"candidate": "spmm/none/csr/c_stationary", "median_us": 3.5},)

    def __str__(self):
        return self.table(10, wide=False)

    def table(self, top, *, wide):
        return "candidate                   median us\nspmm/none/csr/c_stationary        3.5"

    def to_dict(self):
        return {"title": self.title, "rows": list(self.rows)}


class Plan:
    candidate = "spmm/none/csr/c_stationary"

    def explain(self):
        return Explanation()


@pytest.fixture
def asked(monkeypatch):
    """What the command asked of the planner, which answers at once."""
    calls = {}

    def plan(A, *, progress, **options):
        progress(0, 2, "spmm/none/csr/c_stationary")
        progress(1, 2, "spmm/lpt/csr/c_stationary")
        calls.update(options, A=A)
        return Plan()

    monkeypatch.setattr(cli, "_plan", plan)
    return calls


def run(*arguments):
    return CliRunner().invoke(cli.main, list(map(str, arguments)))


def failed(result, *words):
    """One line on standard error, nothing else."""
    assert result.exit_code == 2
    assert result.stdout == ""
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    for word in words:
        assert word in last
    assert "Traceback" not in result.output


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"warploom, version {warploom.__version__}"


def test_help_names_the_commands():
    output = run("--help").output
    assert "plan" in output
    assert "info" in output
    assert "example:" in run("plan", "-h").output


def test_plan_prints_the_table(asked):
    result = run("plan", "example:gr_30_30")
    assert result.exit_code == 0, result.output
    assert result.stdout == str(Explanation()) + "\n"
    assert "900 x 900, 7744 nonzeros" in result.stderr
    assert asked.pop("A").nnz == 7744
    assert asked == {
        "op": "spmm",
        "k": 128,
        "dtype": None,
        "precision": None,
        "layout": "row",
        "device": None,
        "select": "measure",
        "calls": 1000.0,
        "verify": False,
        "candidates": None,
        "cache": "warm",
        "budget": None,
        "model": None,
    }


def test_plan_passes_its_options_on(asked):
    options = "--k 32 --layout column --dtype float32 --precision tf32 --device cpu --cold"
    options += " --candidates spmm/* --candidates *dcsr*"
    assert run("plan", "example:arrow_4096", *options.split()).exit_code == 0
    asked.pop("A")
    assert asked == {
        "op": "spmm",
        "k": 32,
        "dtype": "float32",
        "precision": "tf32",
        "layout": "column",
        "device": "cpu",
        "select": "measure",
        "calls": 1000.0,
        "verify": False,
        "candidates": ["spmm/*", "*dcsr*"],
        "cache": "cold",
        "budget": None,
        "model": None,
    }


@pytest.mark.parametrize("name", ["A.npz", "A.mtx", "A.mtx.gz"])
def test_plan_reads_files(asked, tmp_path, name):
    A = sp.csr_array(np.diag([1.0, 2, 3]))
    if name == "A.npz":
        sp.save_npz(tmp_path / name, A)
    else:
        with (gzip.open if name.endswith(".gz") else open)(tmp_path / name, "wb") as stream:
            scipy.io.mmwrite(stream, A)
    assert run("plan", tmp_path / name).exit_code == 0
    np.testing.assert_array_equal(asked["A"].toarray(), A.toarray())


def test_plan_writes_json(asked, tmp_path):
    path = tmp_path / "out.json"
    result = run("plan", "example:gr_30_30", "--json", path)
    assert result.stdout == str(Explanation()) + "\n"
    assert json.loads(path.read_text()) == {"file": "example:gr_30_30", **Explanation().to_dict()}
    result = run("plan", "example:gr_30_30", "--json", "-")
    assert json.loads(result.stdout)["rows"] == list(Explanation.rows)


def test_bad_files(asked, tmp_path):
    failed(run("plan", tmp_path / "missing.mtx"), "No such file", "missing.mtx")
    (tmp_path / "A.mtx").write_text("hello\n")
    failed(run("plan", tmp_path / "A.mtx"), "A.mtx", "not a Matrix Market file")
    (tmp_path / "A.txt").write_text("hello\n")
    failed(run("plan", tmp_path / "A.txt"), ".mtx, .mtx.gz, .npz")
    failed(run("plan", tmp_path), "directory")
    failed(run("plan", "example:nope"), "unknown example 'nope'", "gr_30_30")
    assert asked == {}


@pytest.mark.parametrize(
    "options",
    [
        ["--k", "0"],
        ["--k", "-3"],
        ["--k", "many"],
        ["--layout", "diagonal"],
        ["--dtype", "int8"],
        ["--op", "spgemm"],
    ],
)
def test_bad_options(asked, options):
    failed(run("plan", "example:gr_30_30", *options), options[0])
    assert asked == {}


@pytest.mark.parametrize(
    "error",
    [
        errors.ParameterError("no candidate matches\n'spmm/x*'", argument="candidates"),
        errors.DeviceError("there is no GPU"),
        errors.OutOfMemoryError("not enough memory"),
    ],
)
def test_errors_of_the_planner(monkeypatch, error):
    def plan(*arguments, **options):
        raise error

    monkeypatch.setattr(cli, "_plan", plan)
    failed(run("plan", "example:gr_30_30"), " ".join(str(error).split()))


NO_CUDA = {
    "built": False,
    "architectures": "",
    "runtime_version": 0,
    "driver_version": None,
    "devices": [],
    "error": None,
}
GPU = {
    "name": "NVIDIA H200",
    "compute_capability": (9, 0),
    "multiprocessors": 132,
    "memory_bytes": 139 * 2**30,
    "l2_bytes": 60 * 2**20,
}


def info(monkeypatch, cuda, cusparse=None):
    monkeypatch.setattr(cli, "_cuda_info", lambda: NO_CUDA | cuda)
    monkeypatch.setattr(cli, "_cusparse_version", lambda: cusparse)
    result = run("info")
    assert result.exit_code == 0, result.output
    return dict(line.split(maxsplit=1) for line in result.stdout.splitlines()), result.stdout


def test_info_without_cuda(monkeypatch):
    said, text = info(monkeypatch, {})
    assert said["warploom"].strip() == warploom.__version__
    assert said["numpy"].strip() == np.__version__
    assert "not built in" in said["CUDA"]
    assert said["cuSPARSE"].strip() == "not found"
    assert "GPU" not in text


def test_info_without_a_gpu(monkeypatch):
    cuda = {"built": True, "architectures": "80-real;90", "runtime_version": 13000, "error": "no driver"}
    said, _ = info(monkeypatch, cuda)
    assert said["CUDA"].strip() == "built in, 13.0, for 80-real;90"
    assert said["driver"].strip() == "none"
    assert said["GPU"].strip() == "none: no driver"


def test_info_with_a_gpu(monkeypatch):
    cuda = {"built": True, "runtime_version": 12080, "driver_version": 13010, "devices": [GPU]}
    said, text = info(monkeypatch, cuda, "12.6.2")
    assert said["driver"].strip() == "for CUDA 13.1"
    assert "GPU 0" in text
    assert "NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139 GiB, 60 MiB L2" in text
    assert said["cuSPARSE"].strip() == "12.6.2"


def test_runs_as_a_module():
    result = subprocess.run(
        [sys.executable, "-m", "warploom", "plan", "missing.mtx"], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "missing.mtx" in result.stderr


def test_plan_predicts_for_a_gpu_that_is_not_here():
    result = run(
        "plan", "example:gr_30_30", "--op", "spmv", "--dtype", "float32", "--gpu", "NVIDIA H200", "--calls", "10"
    )
    assert result.exit_code == 0, result.output
    assert "predicted for NVIDIA H200" in result.stdout
    assert "for 10 calls" in result.stdout
    assert "predicted us" in result.stdout
    assert "median us" not in result.stdout


def test_plan_takes_the_name_of_a_construction(asked):
    assert run("plan", "grid2d(nx=5,ny=4)").exit_code == 0
    assert asked["A"].shape == (20, 20)


# ----- what a newcomer meets -----


def test_a_missing_folder_is_said_before_anything_is_measured(asked, tmp_path):
    for option in ("--json", "--csv"):
        result = run("plan", "example:gr_30_30", option, tmp_path / "missing" / "table")
        assert result.exit_code == 2
        assert "is not a folder" in result.stderr
        assert asked == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench", "choices", "h200", "--output", "{}"),
        ("bench", "choices", "h200", "--rows", "{}"),
        ("bench", "plot", "{}", "h200"),
        ("bench", "end-to-end", "summary", "h200", "--json", "{}"),
        ("bench", "end-to-end", "plot", "{}", "h200"),
        ("train", "h200", "--output", "{}"),
        ("calibrate", "--output", "{}"),
    ],
)
def test_no_command_works_for_a_folder_that_is_missing(tmp_path, arguments):
    result = run(*(text.format(tmp_path / "missing" / "file") for text in arguments))
    assert result.exit_code == 2
    assert "is not a folder" in result.stderr
    assert "reading" not in result.output


def test_csv_is_all_of_the_table(tmp_path):
    arguments = ("plan", "example:gr_30_30", "--op", "spmv", "--device", "cpu", "--csv", tmp_path / "table.csv")
    result = run(*arguments)
    assert result.exit_code == 0
    text = (tmp_path / "table.csv").read_text()
    assert text.startswith("candidate,preparation_ms,median_us")
    rows = list(csv.DictReader(text.splitlines()))
    medians = {row["candidate"]: float(row["median_us"]) for row in rows if row["median_us"]}
    (chosen,) = (row["candidate"] for row in rows if row["note"].startswith("chosen"))
    assert max(map(len, result.stdout.splitlines())) <= 100
    closing = " ".join(result.stdout.splitlines()[-2:])  # one sentence, which long names wrap
    # On a busy machine SciPy may have been faster, and then its product is what to keep.
    ahead = medians[chosen] / medians["scipy"]
    expected = f"keep SciPy: {ahead:.2f} times" if ahead >= 1.02 else f"use {chosen}"
    assert expected in closing


def test_the_model_of_a_paper_predicts():
    result = run("plan", "example:gr_30_30", "--gpu", "H200", "--dtype", "float32", "--model", "mehrabi2021")
    assert result.exit_code == 0
    assert "chosen by the model mehrabi2021" in result.stdout


def test_a_model_goes_with_a_prediction():
    result = run("plan", "example:gr_30_30", "--device", "cpu", "--model", "network")
    assert result.exit_code == 2
    assert "--select predict or --gpu" in result.stderr


def test_top_and_wide(monkeypatch):
    def printed(*options):
        result = run("plan", "example:gr_30_30", "--op", "spmv", "--gpu", "H200", *options)
        assert result.exit_code == 0
        return [line for line in result.stdout.splitlines() if line.startswith("spmv/")]

    assert len(printed("--wide", "--top", "3")) < len(printed("--wide")) < len(printed("--wide", "--all"))


@pytest.mark.parametrize("name", ["NVIDIA H200", "nvidia h200", "h200", "H200", "nvidia-h200", "Nvidia_H200"])
def test_a_gpu_is_known_by_any_spelling(name):
    for options in ([], ["--select", "predict"]):  # which says no more
        result = run("plan", "example:gr_30_30", "--gpu", name, *options)
        assert result.exit_code == 0
        assert "predicted for NVIDIA H200" in result.stdout


def test_an_unknown_gpu_is_refused():
    failed(run("plan", "example:gr_30_30", "--gpu", "h20"), "no profile of 'h20'", "NVIDIA H200")


@pytest.mark.parametrize("options", [("--select", "measure"), ("--device", "cpu"), ("--budget", "3"), ("--verify",)])
def test_predicting_for_a_gpu_and_measuring_exclude_each_other(options):
    failed(run("plan", "example:gr_30_30", "--gpu", "h200", *options), "--gpu", options[0], "of no use")


def test_predicting_without_a_gpu_says_what_to_do():
    result = run("plan", "example:gr_30_30", "--device", "cpu", "--select", "predict")
    failed(result, "predictions are for GPUs", "--gpu")
    assert "calibrate" not in result.stderr


def test_calibrating_without_a_gpu_says_what_to_do(monkeypatch):
    pytest.importorskip("lightgbm")
    monkeypatch.setattr(warploom._core, "cuda_info", lambda: {"devices": []})
    failed(run("calibrate", "--minutes", "1"), "there is no GPU here", "--gpu H200")


def test_a_misspelt_command_is_answered_with_the_nearest():
    result = run("reprodce")
    assert result.exit_code == 2
    assert "reproduce" in result.stderr


def test_ctrl_c_ends_as_shells_expect(monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_plan", interrupted)
    result = run("plan", "example:gr_30_30")
    assert result.exit_code == 130
    assert result.stderr.endswith("interrupted\n")


def test_nobody_reading_is_no_error():
    command = f"{sys.executable} -m warploom plan example:gr_30_30 --gpu h200 --all --wide | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "roken pipe" not in done.stderr
    many = f"{sys.executable} -m warploom corpus search | head -1"
    done = subprocess.run(many, shell=True, capture_output=True, text=True, timeout=120)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


WITHOUT = """
import sys
for name in ({names}):
    sys.modules[name] = None
from warploom.cli import main
main({arguments!r}, prog_name="warploom")
"""


OPTIONAL = (
    "'pandas', 'pyarrow', 'matplotlib', 'jinja2', 'lightgbm', 'sklearn', 'optuna', 'torch', 'requests', 'filelock'"
)
EVERY_HELP = """
import sys
for name in ({names}):
    sys.modules[name] = None
import click
from warploom.cli import main

def walk(command, path):
    context = click.Context(command, info_name=path[-1])
    print("@", " ".join(path), len(command.params), command.get_help(context).splitlines()[0])
    for name in getattr(command, "list_commands", lambda _: [])(context):
        walk(command.get_command(context, name), [*path, name])

walk(main, ["warploom"])
"""


def test_every_help_is_there_without_extras():
    script = EVERY_HELP.format(names=OPTIONAL)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = [line.split(" Usage: ")[0].split() for line in done.stdout.splitlines() if line.startswith("@ ")]
    options = {" ".join(words[1:-1]): int(words[-1]) for words in found}
    for name in ("bench", "bench end-to-end", "corpus", "experiment"):
        assert any(known.startswith(f"warploom {name} ") for known in options)
    for name, least in (
        ("bench run", 15),
        ("train", 4),
        ("calibrate", 5),
        ("reproduce", 4),
        ("bench end-to-end run", 11),
    ):
        assert options[f"warploom {name}"] >= least, name


@pytest.mark.parametrize("arguments", [["bench", "run", "--help"], ["calibrate", "-h"], ["reproduce", "--help"]])
def test_help_is_printed_without_extras(arguments):
    script = WITHOUT.format(names=OPTIONAL, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Usage: warploom {' '.join(arguments[:-1])} [OPTIONS]")
    assert "--output" in done.stdout


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("pandas", ["bench", "run", "--output", "x", "--corpus", "spmv"], "bench"),
        ("pyarrow", ["bench", "summary", "h200"], "bench"),
        ("pandas", ["bench", "end-to-end", "columns"], "bench"),
        ("matplotlib", ["bench", "plot", "x", "h200"], "bench"),
        ("pandas", ["experiment", "list"], "bench"),
        ("jinja2", ["reproduce", "--list"], "reproduce"),
        ("lightgbm", ["train", "h200", "--output", "x"], "training"),
        ("sklearn", ["calibrate"], "training"),
        ("lightgbm", ["bench", "choices", "h200"], "training"),
    ],
)
def test_a_command_without_its_extra_names_the_extra(tmp_path, missing, arguments, extra):
    script = WITHOUT.format(names=f"'{missing}',", arguments=arguments)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 2
    assert f"pip install 'warploom[{extra}]'" in done.stderr
    assert missing in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1

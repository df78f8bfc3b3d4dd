"""The package as a whole: its version, its files, and that importing it needs no GPU."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import warploom
from warploom.cli import main

ROOT = Path(__file__).parents[2]


def test_version_is_that_of_pyproject():
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert warploom.__version__ == declared.group(1)


def test_version_is_that_of_the_installed_package():
    try:
        installed = importlib.metadata.version("warploom")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("not installed")
    assert warploom.__version__ == installed


def test_version_has_a_changelog_entry():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{warploom.__version__}]" in changelog


def test_ships_its_types():
    folder = Path(warploom.__file__).parent
    assert (folder / "py.typed").is_file()
    assert (folder / "_core.pyi").is_file()


def test_the_stub_lists_what_the_core_has():
    stub = (Path(warploom.__file__).parent / "_core.pyi").read_text()
    declared = set(re.findall(r"^(?:(?:def|class) )?([a-zA-Z]\w*)\b(?=[(:])", stub, re.MULTILINE))
    has = {name for name in dir(warploom._core) if not name.startswith("_")}
    assert has == declared


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_importing_needs_no_gpu_and_no_cuda_libraries():
    script = (
        "import warploom, sys;"
        "print(warploom.__version__);"
        "assert not {'torch', 'cupy', 'cupyx'} & set(sys.modules);"
        "maps = open('/proc/self/maps').read();"
        "found = [word for word in ('libcuda', 'libcudart', 'libcusparse', 'libnvrtc') if word in maps];"
        "assert not found, found"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "LD_LIBRARY_PATH": ""}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == warploom.__version__


def test_every_build_says_whether_cuda_is_built_in():
    cuda = warploom._core.cuda_info()
    said = CliRunner().invoke(main, ["info"], catch_exceptions=False).output
    assert ("not built in: CPU only" in said) == (not cuda["built"])
    assert bool(cuda["architectures"]) == cuda["built"]
    assert cuda["built"] or not cuda["devices"]


@pytest.mark.parametrize(("layout", "kernel"), [("row", "row_split"), ("column", "c_stationary")])
def test_every_build_computes_on_the_cpu(layout, kernel):
    A = warploom.examples.load("gr_30_30")
    B = np.ones((A.shape[1], 3), A.dtype)
    candidates = [f"spmm/none/csr/{kernel}*"]
    plan = warploom.plan(A, op="spmm", k=3, layout=layout, device="cpu", candidates=candidates)
    np.testing.assert_allclose(plan @ B, A @ B)


@pytest.mark.skipif(bool(warploom._core.cuda_info()["devices"]), reason="there is a GPU")
def test_every_build_refuses_a_gpu_that_is_not_there():
    A = warploom.examples.load("gr_30_30")
    with pytest.raises(warploom.errors.DeviceError) as refused:
        warploom.plan(A, op="spmm", k=3, device="cuda")
    assert refused.value.argument == "device"


def test_the_second_command_of_the_readme_is_what_ci_runs():
    commands = re.findall(r"^python3 -m venv .+$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci" / "run").read_text().splitlines()

"""The package as a whole: its version, its files, and that importing it needs no GPU."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import warploom

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
    declared = set(re.findall(r"^(?:def|class) ([a-zA-Z]\w*)", stub, re.MULTILINE))
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


def test_the_second_command_of_the_readme_is_what_ci_runs():
    commands = re.findall(r"^python3 -m venv .+$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci" / "run").read_text().splitlines()

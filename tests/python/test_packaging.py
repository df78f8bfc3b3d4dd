"""What wheels are called and made of, as far as that can be seen without building them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".github" / "wheels.sh"
WORKFLOW = (ROOT / ".github" / "workflows" / "wheels.yml").read_text()

tomllib = pytest.importorskip("tomllib")  # of Python 3.11
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def name(folder, wheel):
    shutil.copy(ROOT / "pyproject.toml", folder)
    command = ["bash", SCRIPT, "name", folder]
    return subprocess.run(
        command, env={"WARPLOOM_WHEEL": wheel, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the wheels are those of Linux")
@pytest.mark.parametrize("wheel", ["cpu", "cu12", "cu13"])
def test_wheels_have_names_and_extras_of_their_own(wheel, tmp_path):
    assert name(tmp_path, wheel).returncode == 0
    renamed = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    expected = "warploom" if wheel == "cpu" else f"warploom-{wheel}"
    assert renamed["project"]["name"] == expected
    extras = [text for extra in renamed["project"]["optional-dependencies"].values() for text in extra]
    own = {re.match(r"[\w-]+", text)[0] for text in extras if text.startswith("warploom")}
    assert own == {expected}
    assert renamed["project"]["scripts"] == PROJECT["project"]["scripts"]
    assert renamed["tool"] == PROJECT["tool"]


@pytest.mark.skipif(sys.platform != "linux", reason="the wheels are those of Linux")
def test_a_wheel_of_another_name_is_refused(tmp_path):
    refused = name(tmp_path, "rocm")
    assert refused.returncode == 2
    assert "'rocm', not cpu, cu12 or cu13" in refused.stderr


def test_every_wheel_of_the_workflow_is_configured():
    wheels = re.search(r"wheel: \[(.+)\]", WORKFLOW)[1].split(", ")
    patterns = [override["if"]["env"]["WARPLOOM_WHEEL"] for override in PROJECT["tool"]["scikit-build"]["overrides"]]
    for wheel in wheels:
        assert len([pattern for pattern in patterns if re.search(pattern, wheel)]) == 1
    built = {re.match(r"cp3(\d+)", identifier)[1] for identifier in PROJECT["tool"]["cibuildwheel"]["build"]}
    oldest = re.match(r">=3\.(\d+)", PROJECT["project"]["requires-python"])[1]
    assert min(map(int, built)) == int(oldest)


def test_the_data_package_needs_no_newer_python():
    data = tomllib.loads((ROOT / "python" / "warploom-data" / "pyproject.toml").read_text())
    for key in ("requires-python", "license"):
        assert data["project"][key] == PROJECT["project"][key]
    assert (ROOT / "python" / "warploom-data" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()

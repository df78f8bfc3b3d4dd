"""The package as the core runs out of memory: a MemoryError, and the next call works."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent


@pytest.mark.skipif(sys.platform != "linux", reason="preloads a library")
@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer has its own operator new")
def test_every_allocation_may_fail(tmp_path):
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    library = tmp_path / "failing_allocations.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", FOLDER / "failing_allocations.cpp", "-o", library], check=True)
    matrix = tmp_path / "A.mtx"
    matrix.write_text("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.5\n2 2 3\n")
    command = [sys.executable, str(FOLDER / "operations_out_of_memory.py"), str(library), str(matrix)]
    environment = os.environ | {"LD_PRELOAD": str(library), "PYTHONFAULTHANDLER": "1"}
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    _, failures, errors = (int(part.split()[0]) for part in outcome.stdout.split(","))
    assert failures >= errors > 100

"""A short run of the fuzzing of readers, the same every time, starting with the files that once were read wrongly."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[1] / "fuzz" / "readers.py"
RUNS = {"mtx": 300, "mtx.gz": 200, "npz": 200, "tar.gz": 200, "safetensors": 500, "plan": 300, "parquet": 20}


@pytest.mark.parametrize("kind", RUNS)
def test_changed_files_are_read_rightly_or_refused(kind, tmp_path):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    command = [sys.executable, str(SCRIPT), kind, "--runs", str(RUNS[kind]), "--results", str(tmp_path)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "read" in outcome.stdout


def test_the_fuzzing_notices_what_is_wrong(tmp_path):
    spec = importlib.util.spec_from_file_location("readers", SCRIPT)
    readers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(readers)
    text = b"%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 1d2\n2 1 3\n"
    assert readers.obvious(text) == ((2, 2), {(0, 0): 100, (1, 0): 3, (0, 1): 3})
    with pytest.raises(readers.Wrong, match="1 lines"):
        readers.obvious(b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n")
    path = tmp_path / "A.mtx"
    path.write_bytes(text)
    assert readers.check(path, "mtx") == "read"
    A = readers.warploom.load(path)
    A.data[0] += 1
    with pytest.raises(readers.Wrong, match="in place of"):
        readers._check_matrix(A, path, "mtx")

"""A kill or a full disk in the middle of a save: the file that was there stays as it was, and the next save works."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import warploom as wl
from warploom import profiles
from warploom.experiments import Findings, find, load

resource = pytest.importorskip("resource")

SCRIPT = """
import os, pathlib, resource, signal, sys
sys.path[:0] = {path!r}
import test_saving

write = test_saving.WAYS[{way!r}][0]
if {end!r} == "kill":
    pathlib.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # as a disk that fills up: a part is written
try:
    write(pathlib.Path({folder!r}), 2)
except OSError as error:
    print(type(error).__name__)
    sys.exit(7)
"""


def plan_of(number):
    A = csr_array((np.full(50, float(number)), np.arange(50), np.arange(51)), shape=(50, 50))
    return wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector")


def findings_of(number):
    table = pd.DataFrame(dict.fromkeys(find("time-split").columns, np.full(50, float(number))))
    return Findings("time-split", table, {"gpu": "x"}, "2026-01-01")


def profile_of(number):
    profile = profiles.load(profiles.shipped_path("NVIDIA H200"))
    return profiles.Profile(**{**vars(profile), "data_hash": str(number)})


WAYS = {
    "plan": (
        lambda folder, number: plan_of(number).save(folder / "a.safetensors"),
        lambda folder: wl.load_plan(folder / "a.safetensors") @ np.ones(50),
        lambda number: plan_of(number) @ np.ones(50),
    ),
    "profile": (
        lambda folder, number: profiles.save(folder / "a.safetensors", profile_of(number)),
        lambda folder: np.array(profiles.load(folder / "a.safetensors").data_hash),
        lambda number: np.array(str(number)),
    ),
    "findings": (
        lambda folder, number: findings_of(number).save(folder),
        lambda folder: load("time-split", [folder]).table["median_us"].to_numpy(),
        lambda number: findings_of(number).table["median_us"].to_numpy(),
    ),
}


@pytest.mark.parametrize("end", ["kill", "full disk"])
@pytest.mark.parametrize("way", WAYS)
def test_what_was_there_stays(way, end, tmp_path):
    write, read, expected = WAYS[way]
    write(tmp_path, 1)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    script = SCRIPT.format(path=sys.path, way=way, end=end, folder=str(tmp_path))
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert ended.returncode == (-9 if end == "kill" else 7), ended.stderr
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before
    if end == "full disk":
        assert after == before  # nothing half written is left behind
    np.testing.assert_array_equal(read(tmp_path), expected(1))
    write(tmp_path, 2)
    np.testing.assert_array_equal(read(tmp_path), expected(2))

"""Slices of a long run add up, whatever cuts their file off; what grows steadily is told from what grows at once; and
every process has one of the GPUs that it may use."""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import time

import pytest

SCRIPT = pathlib.Path(__file__).parents[1] / "gpu" / "endurance.py"


def run(*arguments, **setting):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **setting})


def row(minutes, plans, growth, verdict="good"):
    counts = {"plans named": plans, "plans loaded": 1, "products checked": 10 * plans, "products of shared plans": 5}
    counts["forks"] = 6
    made = {"verdict": verdict, "minutes": minutes, "processes": 2, "counts": counts}
    return made | {"host_growth_mb": [growth, None], "pool_growth_bytes": [0, 7]}


def test_slices_add_up(tmp_path):
    file = tmp_path / "slices.jsonl"
    file.write_text(f"{json.dumps(row(8.1, 100, 1.5))}\n{json.dumps(row(7.9, 50, -2))}\n" + '{"minutes": 3, "pro')
    outcome = run("--sum", file)
    assert outcome.returncode == 0, outcome.stderr
    total = json.loads(outcome.stdout)
    assert (total["slices"], total["good"], total["minutes"], total["processes"]) == (2, 2, 16.0, 4)
    assert (total["plans"], total["products"], total["counts"]["forks"]) == (152, 1510, 12)
    assert (total["most_host_growth_mb"], total["most_pool_growth_bytes"]) == (1.5, 7)
    file.write_text(json.dumps(row(8, 1, 90, "bad")) + "\n")
    assert run("--sum", file).returncode == 1
    assert run("--sum", tmp_path / "none").returncode == 1


@pytest.fixture
def endurance(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("endurance", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_leak_is_told_from_a_library_that_loads_kernels(endurance):
    notes = [(10.0 * i, 900e6) for i in range(20)]
    assert endurance.steady_growth(notes, 1) == 0
    loading = [(time_s, in_use + 160e6 * (i >= 9) + 20e6 * (i >= 14)) for i, (time_s, in_use) in enumerate(notes)]
    assert endurance.steady_growth(loading, 1) == 0
    leak = [(time_s, in_use + 3e6 * i) for i, (time_s, in_use) in enumerate(loading)]
    assert endurance.steady_growth(leak, 1) > endurance.HOST_GROWTH_BYTES
    assert endurance.steady_growth(notes[:1], 1) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_malloc_has_given_out(endurance):
    before = endurance.in_use_bytes()
    if before is None:
        pytest.skip("the C library does not say")
    held = bytearray(50 << 20)
    assert len(held) <= endurance.in_use_bytes() - before < 2 * len(held)
    del held
    assert endurance.in_use_bytes() - before < 25 << 20


@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="has an allocator of its own")
def test_small_objects_count(endurance):
    if endurance.in_use_bytes() is None:
        pytest.skip("the C library does not say")
    leak = "before = endurance.in_use_bytes(); held = [(float(i),) for i in range(200_000)]"
    command = [sys.executable, "-c", f"import endurance; {leak}; print(endurance.in_use_bytes() - before)"]
    environment = {**endurance.environment_of(""), "PYTHONPATH": str(SCRIPT.parent)}
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert outcome.returncode == 0, outcome.stderr
    assert int(outcome.stdout) > 200_000 * (sys.getsizeof(1.0) + sys.getsizeof((1.0,)))


def test_a_series_keeps_its_ends(endurance):
    for length in (1, 2, 20, 21, 46, 300):
        notes = [(float(i),) for i in range(length)]
        found = endurance.shown(notes)
        assert (found[0], found[-1]) == (notes[0], notes[-1])
        assert len(found) == min(length, 20)
        assert sorted(set(found)) == found


@pytest.fixture
def work(endurance):
    pytest.importorskip("torch")
    made = []

    def make(*without):
        options = {"device": "cpu", "threads": 1, "seed": 0, "worker": 0, "without": list(without)}
        made.append(endurance.Work(argparse.Namespace(**options)))
        return made[-1]

    yield make
    for each in made:
        each.folder.cleanup()


def test_kernels_are_left_out(work):
    made = work("cublas", "sell")
    names = {f"{kernel.format}/{kernel.name}" for known in made.kernels.values() for kernel in known}
    assert "csr/vector" in names
    assert not any("cublas" in name or "sell" in name for name in names)
    assert made.patterns("spmm", "*", "dense") == []
    assert "spmv/none/csr/vector[*" in made.patterns("spmv", "none", "csr")
    assert work().patterns("spmv", "none", "csr") == ["spmv/none/csr/*"]


def test_every_kernel_is_used_before_the_first_note(work, endurance):
    if endurance.in_use_bytes() is None:
        pytest.skip("the C library does not say")
    made = work()
    for known in made.kernels.values():  # one of each format is enough here
        of_format = {kernel.format: kernel for kernel in known}
        known[:] = [of_format[name] for name in ("csr", "dense", "ell") if name in of_format]
    grew = made.use_every_kernel(time.monotonic() + 100)
    assert next(iter(grew)).startswith("spmm/dense/cublas")
    assert {name.split("/")[1] for name in grew} == {"csr", "dense", "ell"}
    assert made.counts["products checked"] > len(grew)
    assert made.use_every_kernel(time.monotonic()) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_slice_is_appended(tmp_path):
    pytest.importorskip("torch")
    file = tmp_path / "slices.jsonl"
    first, cut = json.dumps(row(8, 100, 1)), '{"minutes": 3, "pro'
    file.write_text(f"{first}\n{cut}")
    run("--device", "cpu", "--minutes", 0.25, "--processes", 1, "--threads", 2, "--output", file)
    assert file.read_text().splitlines()[:-1] == [first, cut]
    found = json.loads(file.read_text().splitlines()[-1])
    assert (found["seed"], found["device"], found["processes"]) == (1, "cpu", 1)
    assert found["counts"]["products checked"] > 0
    assert 1 <= len(found["host_mb"][0]) <= 20
    assert len(found["in_use_mb"][0]) == len(found["at_s"][0]) == len(found["host_mb"][0])
    assert min(found["host_mb"][0]) > 10


@pytest.mark.skipif(os.name != "posix", reason="a script in place of nvidia-smi")
def test_processes_share_the_gpus_that_are_visible(tmp_path):
    """Four GPUs are there, and two of them given to us."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        """#!/bin/sh
case "$*" in
*index,uuid*) for i in 0 1 2 3; do echo "$i, GPU-000$i"; done ;;
*memory.used*) for i in 0 1 2 3; do echo "GPU-000$i, 1$i"; done ;;
esac
"""
    )
    smi.chmod(0o755)
    # A Python that only says which GPU it was given, in place of a worker.
    (tmp_path / "sitecustomize.py").write_text(
        """
import os, sys
if "--worker" in sys.orig_argv:
    print('{"process": 0, "verdict": "good", "gpu": "' + os.environ["CUDA_VISIBLE_DEVICES"] + '"}', flush=True)
    os._exit(0)
"""
    )
    setting = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
    outcome = run("--minutes", 0.01, "--processes", 4, **setting, CUDA_VISIBLE_DEVICES="3,1")
    given = [json.loads(line)["gpu"] for line in outcome.stdout.splitlines() if line.startswith('{"process": ')]
    assert given == ["GPU-0003", "GPU-0001"] * 2, outcome.stdout + outcome.stderr
    assert "no GPU is visible" in run("--minutes", 0.01, **setting, CUDA_VISIBLE_DEVICES="").stderr

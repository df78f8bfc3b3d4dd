"""Sweeps on the CPU, with processes of their own, as on GPUs."""

import concurrent.futures
import contextlib
import functools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest
import scipy.sparse as sp

from warploom import corpus, errors, permutations
from warploom.bench import Store, run
from warploom.bench.measure import Limits

QUICK = Limits(repeats=3, budget_ms=1, remeasured=0)
SETTINGS = ["spmv/float64", "spmm/float32/column/k=rows"]
CANDIDATES = ["spmv/none/csr/scalar", "spmm/*/csr/c_stationary"]


def entry(name, loader):
    return corpus.Entry(
        name=name, family="test", kind="", source="folder", licence="", rows=None, cols=None, nnz=None, loader=loader
    )


def make(m, n, progress=None):
    return sp.csr_array(sp.random_array((m, n), density=0.2, format="csr", rng=1))


def refuse(progress=None):
    raise errors.FileFormatError("broken.mtx: is truncated", argument="path")


def die(progress=None):
    os._exit(1)


def square(name, size=30):
    return entry(name, functools.partial(make, size, size))


def sweep(entries, output, settings=SETTINGS, **options):
    options = {"device": "cpu", "candidates": CANDIDATES, "limits": QUICK, "ahead": 1} | options
    return run.sweep(entries, settings, output, **options)


def test_a_sweep_measures_every_matrix_and_is_resumed(tmp_path):
    seen = []
    entries = [square("a"), square("b", 20), entry("wide", functools.partial(make, 5, 9))]
    report = sweep(entries, tmp_path, progress=lambda done, total, name: seen.append((done, total, name)))
    assert (report.measured, report.resumed, report.skipped) == (3, 0, {})
    assert sorted(name for _, _, name in seen) == ["a", "b", "wide"]
    assert [(done, total) for done, total, _ in seen] == [(1, 3), (2, 3), (3, 3)]
    assert Store(tmp_path).done() == {(e.name, s) for e in entries for s in SETTINGS}

    report = sweep([*entries, square("c")], tmp_path)
    assert (report.measured, report.resumed) == (1, 3)


def test_what_is_written(tmp_path):
    sweep([square("a"), entry("wide", functools.partial(make, 5, 9))], tmp_path)
    parts = {part.matrix["matrix"]: part for part in Store(tmp_path).parts()}
    facts = parts["wide"].matrix
    assert (facts["rows"], facts["cols"], facts["nnz"]) == (5, 9, 9)
    assert facts["spmv_nnz"] == 9
    assert facts["locality_hidden_overlap"] == -1  # there are too few nonzeros
    assert parts["wide"].environment["device"] == "cpu"
    assert parts["a"].matrix["permutation_ms_lpt"] >= 0
    from warploom.bench import Measurements

    table = Measurements.load(tmp_path).measurements
    assert set(table[table.matrix == "wide"].setting) == {"spmv/float64"}  # k = rows is for square matrices
    of_a = table[(table.matrix == "a") & (table.setting != "spmv/float64")]
    assert set(of_a.k) == {30}
    assert of_a.candidate.nunique() == len(permutations.names())


def chosen_by_size(e):
    return [] if e.name == "none" else SETTINGS[: 1 if e.name.endswith("one") else 2]


def test_settings_of_each_matrix_and_workers_side_by_side(tmp_path):
    entries = [square("a"), square("b-one"), square("c"), square("none")]
    report = sweep(entries, tmp_path, chosen_by_size, workers=2)
    assert (report.measured, report.resumed, report.skipped) == (3, 0, {})
    assert Store(tmp_path).done() == {("a", s) for s in SETTINGS} | {("b-one", SETTINGS[0])} | {
        ("c", s) for s in SETTINGS
    }
    report = sweep(entries, tmp_path, SETTINGS, workers=2)
    assert (report.measured, report.resumed) == (2, 2)  # what was left out, and the other setting of one


def measured(folder):
    from warploom.bench import Measurements

    return Measurements.load(folder).measurements


def test_large_matrices_are_measured_in_orders_for_locality(tmp_path):
    names = ["grid2d(nx=12,ny=12).shuffled", "grid2d(nx=12,ny=12).shuffled.reordered(rcm)"]
    setting = "spmm/float32/row/k=8"
    report = sweep(map(corpus.find, names), tmp_path, [setting], candidates="@large")
    assert (report.measured, report.skipped) == (2, {})
    table = measured(tmp_path)
    assert set(table.status) <= {"ok", "unsupported"}
    orders = {
        name: {c.split("/")[1] for c in table[(table.matrix == name) & (table.status == "ok")].candidate}
        for name in names
    }
    assert orders[names[0]] == {"none", "lpt", "flipped", "degree", "rcm", "community", "minhash"}
    assert orders[names[1]] == {"none", "lpt", "flipped"}
    facts = {part.matrix["matrix"]: part.matrix for part in Store(tmp_path).parts()}
    assert facts[names[0]]["permutation_ms_rcm"] >= 0
    assert facts[names[1]]["permutation_ms_rcm"] is None


def test_rows_are_permuted_up_to_a_size(tmp_path):
    sweep([square("a")], tmp_path, ["spmm/float32/row/k=8"], candidates="@large", permuted_nnz=10)
    assert {c.split("/")[1] for c in measured(tmp_path).candidate} == {"none"}


def test_unreadable_matrices_are_named_and_passed_over(tmp_path):
    report = sweep([square("a"), entry("broken", refuse), square("b")], tmp_path)
    assert report.measured == 2
    assert report.skipped == {"broken": "broken.mtx: is truncated"}
    assert "skipped broken: broken.mtx: is truncated" in str(report)


def test_a_matrix_that_kills_every_process_costs_only_itself(tmp_path):
    report = sweep([square("a"), entry("deadly", die), square("b")], tmp_path)
    assert report.measured == 2
    assert set(report.skipped) == {"deadly"}
    assert "died" in report.skipped["deadly"]


def test_without_loading_ahead(tmp_path):
    report = sweep([square("a"), entry("deadly", die), entry("broken", refuse)], tmp_path, ahead=0)
    assert report.measured == 1
    assert set(report.skipped) == {"deadly", "broken"}


def test_a_matrix_that_takes_far_too_long_is_stopped(tmp_path, monkeypatch):
    """The limit of the process, not of the candidates: nothing in the process itself has to cooperate."""
    import faulthandler

    stopped = []
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda seconds, exit: stopped.append((seconds, exit)))
    outcome = run._measure(run._Job(square("a"), ("spmv/float64",), "cpu", (), QUICK, ("spmv/none/csr/scalar",)))
    assert outcome.rows
    assert stopped == [(3 * QUICK.matrix_s + 60, True)]


def test_an_executor_of_the_callers(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        report = sweep([square("a"), entry("broken", refuse)], tmp_path, executor=executor)
    assert report.measured == 1
    assert set(report.skipped) == {"broken"}


def test_two_sweeps_write_to_one_folder(tmp_path):
    entries = [square(f"m{i}", 10 + i) for i in range(6)]
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        reports = list(both.map(lambda half: sweep(half, tmp_path, ["spmv/float64"]), [entries[:4], entries[2:]]))
    assert sum(r.measured + r.resumed for r in reports) == 8
    store = Store(tmp_path)
    assert store.done() == {(e.name, "spmv/float64") for e in entries}
    assert not store.broken


def test_nothing_is_started_when_time_is_up(tmp_path):
    report = sweep([square("a"), square("b")], tmp_path, minutes=-1)
    assert (report.measured, report.left) == (0, 2)


def test_drawing():
    entries = [square(f"m{i}") for i in range(10)]
    parts = [run.drawn(entries, shard=f"{i}/3") for i in range(3)]
    assert sorted(e.name for part in parts for e in part) == sorted(e.name for e in entries)
    sample = run.drawn(entries, 4)
    assert len({e.name for e in sample}) == 4
    assert sample == run.drawn(entries, 4)
    assert len(run.drawn(entries, 40)) == 10


@pytest.mark.parametrize("shard", ["", "1", "3/3", "-1/3", "a/b", "0/0"])
def test_a_wrong_shard_is_refused(shard):
    with pytest.raises(errors.ParameterError, match="shard") as caught:
        run.drawn([], shard=shard)
    assert caught.value.argument == "shard"


def test_without_a_gpu_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "gpu_ordinals", lambda: [])
    with pytest.raises(errors.DeviceError, match="device='cpu'"):
        run.sweep([square("a")], SETTINGS, tmp_path)


def test_a_gpu_has_one_process_at_a_time(monkeypatch, tmp_path):
    """Two processes that ask for one of two GPUs get different ones."""
    import filelock

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(run, "_claim", [])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    with filelock.FileLock(tmp_path / "warploom-gpu-5-7-0.lock"):
        assert run._claimed([0, 1]) == 1
        assert run._claimed([0, 1]) == 1


def out_of_range(progress=None):
    A = sp.csc_array(np.eye(4))
    A.indices = np.full(4, 2**30, np.int32)
    return A


def test_what_a_loader_made_is_validated_before_it_is_converted():
    from warploom.bench import _matrices

    with pytest.raises(errors.InvalidMatrixError, match="outside"):
        _matrices.load(entry("bad", out_of_range))


def test_waiting_for_a_gpu_does_not_count_as_measuring(monkeypatch):
    """The claim may take as long as the sweep that has the GPU."""
    import faulthandler

    events = []
    monkeypatch.setattr(run, "_claimed", lambda gpus: events.append("claimed") or 0)
    monkeypatch.setattr(run, "_prepared", lambda job: events.append("prepared") or refuse())
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda seconds, exit: events.append("watched"))
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: events.append("no longer"))
    outcome = run._measure(run._Job(square("a"), ("spmv/float64",), "cuda", (0,), QUICK, None))
    assert outcome.skipped == "broken.mtx: is truncated"
    assert events == ["claimed", "watched", "prepared", "no longer"]


SWEEP = """
import concurrent.futures, functools, os, pathlib, resource, sys, time
sys.path[:0] = {path!r}
from bench.test_run import entry, square, sweep

def sleep(folder, progress=None):
    (pathlib.Path(folder) / str(os.getpid())).touch()
    time.sleep(600)

def progress(done, total, name):
    if {quick} == done and {full_disk}:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # a part of a file is written

if __name__ == "__main__":
    loader = functools.partial(sleep, sys.argv[1])
    entries = [square(f"quick-{{i}}") for i in range({quick} + {full_disk})]
    if entries:  # in this process, which takes less time
        sweep(entries, sys.argv[2], executor=concurrent.futures.ThreadPoolExecutor(1), workers=1, progress=progress)
    slow = [entry(name, loader) for name in ("slow-1", "slow-2")]
    sweep(entries + slow, sys.argv[2], ahead={ahead})
"""


def start_sweep(folder, *, quick=0, ahead=1, full_disk=False):
    """Start a sweep over quick matrices, and then over two that take ten minutes to make."""
    (folder / "pids").mkdir()
    script = folder / "sweep.py"
    script.write_text(SWEEP.format(path=sys.path, quick=quick, ahead=ahead, full_disk=full_disk))
    command = [sys.executable, script, folder / "pids", folder / "results"]
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not pathlib.Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("ahead", [0, 1])
def test_processes_end_with_a_sweep_that_is_killed(tmp_path, ahead):
    """Else those that measure would keep their GPUs, and the sweep could not be resumed."""
    with start_sweep(tmp_path, ahead=ahead) as process:
        wait_until(lambda: any((tmp_path / "pids").iterdir()))
        process.kill()
    assert_ended(tmp_path)


def assert_ended(folder):
    workers = [int(path.name) for path in (folder / "pids").iterdir()]
    try:
        wait_until(lambda: not any(map(is_running, workers)), 20)
    finally:
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(not pathlib.Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("ahead", "end", "everybody"),
    [(0, signal.SIGINT, False), (1, signal.SIGINT, True), (1, signal.SIGKILL, False)],
)
def test_a_sweep_that_is_stopped_keeps_what_it_has_and_is_resumed(tmp_path, ahead, end, everybody):
    """Ctrl-C reaches all processes of a terminal, or the sweep alone: it ends at once, whatever is in progress."""
    with start_sweep(tmp_path, quick=1, ahead=ahead) as process:
        wait_until(lambda: any((tmp_path / "pids").iterdir()))
        (os.killpg if everybody else os.kill)(process.pid, end)
        try:
            _, said = process.communicate(timeout=15)
        finally:
            process.kill()
    assert process.returncode == -end, said
    assert ("KeyboardInterrupt" in said) == (end == signal.SIGINT)
    assert_ended(tmp_path)
    assert_resumed(tmp_path / "results", done=1)


@pytest.mark.skipif(os.name != "posix", reason="limits the size of files")
def test_a_sweep_whose_disk_is_full_keeps_what_it_has_and_is_resumed(tmp_path):
    with start_sweep(tmp_path, quick=1, full_disk=True) as process:
        _, said = process.communicate(timeout=60)
    assert "StorageError" in said
    assert_resumed(tmp_path / "results", done=1)


def assert_resumed(folder, *, done):
    assert len(Store(folder).done()) == done * len(SETTINGS)
    assert Store(folder).broken == {}
    here = concurrent.futures.ThreadPoolExecutor(1)
    report = sweep([square(f"quick-{i}") for i in range(done + 1)], folder, executor=here)
    assert (report.measured, report.resumed) == (1, done)


@pytest.mark.skipif(os.name != "posix", reason="users share no temporary folder")
def test_the_lock_of_another_user_is_waited_for_and_taken(monkeypatch):
    """The file is the other user's, and can only be read."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1777)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setattr(run, "_claim", [])
        mask = os.umask(0o077)
        try:
            assert run._claimed([0]) == 0
        finally:
            os.umask(mask)
        (path,) = pathlib.Path(folder).iterdir()
        assert path.stat().st_mode & 0o444 == 0o444

        def claimed_by_somebody_else():
            if (child := os.fork()) == 0:
                run._claim.clear()  # closes no file: the descriptor stays with the parent
                if os.getuid() == 0:
                    os.setuid(65534)
                os._exit(run._claimed([0, 1]))
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        path.chmod(0o444)
        assert claimed_by_somebody_else() == 1
        os.close(run._claim.pop()[1])
        assert claimed_by_somebody_else() == 0


def test_values_survive_the_way_through_a_file(tmp_path):
    from warploom.bench import _matrices

    loaded = _matrices.describe(_matrices.load(square("a")), ["lpt"])
    back = _matrices.reopen(_matrices.write(loaded, tmp_path), loaded.facts)
    assert (back.A != loaded.A).nnz == 0
    np.testing.assert_array_equal(back.permutations["lpt"][0], loaded.permutations["lpt"][0])
    assert list(tmp_path.iterdir()) == []

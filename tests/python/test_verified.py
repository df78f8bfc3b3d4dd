"""The record of the last GPU run, and the state of the sources it is of."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "gpu"))
import verify  # noqa: E402
import visible  # noqa: E402
from source_hash import source_hash, verification_warning  # noqa: E402

COMMAND = "find cpp python/bindings -type f | LC_ALL=C sort | xargs sha256sum | sha256sum"
TOOLS = ("sh", "find", "sort", "xargs", "sha256sum")


def hash_by_shell(root):
    if not all(map(shutil.which, TOOLS)):
        pytest.skip("needs " + ", ".join(TOOLS))
    result = subprocess.run(["sh", "-c", COMMAND], cwd=root, capture_output=True, text=True, check=True)
    return result.stdout.split()[0]


@pytest.fixture
def tree(tmp_path):
    """Names whose order depends on whether whole paths are sorted, and by which alphabet."""
    for name in ("cpp/a.cpp", "cpp/a/b.cpp", "cpp/a-b.cpp", "cpp/B.hpp", "cpp/_.cu", "python/bindings/m.cpp"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "cpp" / "empty").touch()
    (tmp_path / "python" / "other.py").touch()
    (tmp_path / "tests" / "gpu").mkdir(parents=True)
    return tmp_path


def test_hash_is_that_of_the_command():
    assert source_hash() == hash_by_shell(ROOT)


def test_hash_of_awkward_names_is_that_of_the_command(tree):
    assert source_hash(tree) == hash_by_shell(tree)


def test_hash_changes_with_names_and_contents(tree):
    before = source_hash(tree)
    (tree / "cpp" / "a.cpp").write_text("changed")
    changed = source_hash(tree)
    (tree / "cpp" / "a.cpp").rename(tree / "cpp" / "c.cpp")
    renamed = source_hash(tree)
    assert len({before, changed, renamed}) == 3
    (tree / "python" / "other.py").write_text("not a source of the core")
    assert source_hash(tree) == renamed


def record(tree, **changes):
    good = {"source": source_hash(tree), "passed": 10, "failed": 0, "skipped": 0, "sanitizer_errors": 0}
    (tree / "tests" / "gpu" / "verified.json").write_text(json.dumps(good | changes))


def test_warning(tree):
    assert "no tests/gpu/verified.json" in verification_warning(tree)
    record(tree)
    assert verification_warning(tree) is None
    record(tree, failed=1)
    assert "1 failed" in verification_warning(tree)
    record(tree, sanitizer_errors=-1)
    assert "compute-sanitizer was not run" in verification_warning(tree)
    record(tree, sanitizer_errors=2)
    assert "2 sanitizer errors" in verification_warning(tree)
    record(tree)
    (tree / "cpp" / "new.cu").touch()
    assert "changed since" in verification_warning(tree)
    (tree / "tests" / "gpu" / "verified.json").write_text("{")
    assert "cannot be read" in verification_warning(tree)


def test_the_record_has_every_field():
    path = ROOT / "tests" / "gpu" / "verified.json"
    if not path.exists():
        pytest.skip("no GPU run has been recorded")
    fields = {"source", "gpu", "driver", "cuda", "date", "passed", "failed", "skipped", "sanitizer_errors"}
    assert fields <= set(json.loads(path.read_text()))


def test_what_the_sanitizer_did_not_get_to_is_not_counted_as_right(tmp_path):
    log, report = tmp_path / "memcheck-0.log", tmp_path / "memcheck-0.xml"
    nothing = verify.read_part(log, report, 1.0)
    assert (nothing["passed"], nothing["ended_early"]) == (0, 1)
    assert verify.count_of(nothing) == -1

    log.write_text("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n")
    cases = '<testcase name="a"/><testcase name="b"><skipped message="refused"/></testcase>'
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    good = verify.read_part(log, report, 1.0)
    assert (good["passed"], good["refused"], good["ended_early"], verify.count_of(good)) == (1, 1, 0, 0)
    late = '<testcase name="c"><skipped message="no time left"/></testcase>'
    report.write_text(f"<testsuites><testsuite>{cases}{late}</testsuite></testsuites>")
    assert verify.read_part(log, report, 1.0)["not_run"] == 1
    assert verify.read_part(log, report, 1.0)["left"] == ["c"]
    assert verify.count_of(verify.read_part(log, report, 1.0)) == -1
    report.write_text(
        '<testsuites><testsuite><testcase name="a"><failure message="x"/></testcase></testsuite></testsuites>'
    )
    assert verify.count_of(verify.read_part(log, report, 1.0)) == -1

    log.write_text("========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)\n")
    assert verify.count_of(verify.read_part(log, report, 1.0)) == 3
    # Ended before its summary: what it had printed counts.
    log.write_text("=========\n========= Invalid __global__ read of size 4 bytes\n=========     at kernel()+0x10\n")
    assert verify.count_of(verify.read_part(log, report, 1.0)) == 1


def test_a_second_run_completes_the_first():
    first = {"errors": 0, "passed": 5, "failed": 0, "refused": 1, "not_run": 2, "ended_early": 0, "seconds": 60}
    second = {**first, "passed": 1, "refused": 0, "not_run": 1, "seconds": 9, "left": ["b"]}
    other = {**first, "not_run": 0, "left": []}
    found = verify.completed({"racecheck": {**first, "left": ["a", "b"]}, "memcheck": other}, {"racecheck": second})
    assert found["racecheck"] == {**first, "passed": 6, "not_run": 1, "seconds": 69, "left": ["b"]}
    assert verify.count_of(found["racecheck"]) == -1
    assert found["memcheck"] == other
    third = {**second, "not_run": 0, "left": []}
    assert verify.count_of(verify.completed(found, {"racecheck": third})["racecheck"]) == 0


def test_the_warning_is_shown_and_fails_nothing(tmp_path):
    (tmp_path / "gpu").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    shutil.copy(ROOT / "tests" / "gpu" / "source_hash.py", tmp_path / "gpu")
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    options = ["-q", "-W", "error", "-p", "no:cacheprovider", "--rootdir", tmp_path]
    command = [sys.executable, "-m", "pytest", *options, tmp_path]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout
    assert "WARNING: there is no tests/gpu/verified.json" in result.stdout


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, ["GPU-aa00", "GPU-ab11", "GPU-cc22"]),
        ("", []),
        ("2,0", ["GPU-cc22", "GPU-aa00"]),
        (" GPU-cc22 , 1", ["GPU-cc22", "GPU-ab11"]),
        ("GPU-ab", ["GPU-ab11"]),
        ("1,-1,0", ["GPU-ab11"]),  # what follows a number of no GPU is not visible
        ("1,7,0", ["GPU-ab11"]),
        ("GPU-a", []),  # of two
        ("MIG-5/1", ["MIG-5/1"]),
    ],
)
def test_programs_use_and_watch_the_gpus_that_are_visible(tmp_path, monkeypatch, setting, expected):
    program = tmp_path / "nvidia-smi"
    program.write_text(
        """#!/bin/sh
        case "$1" in
          *=index,uuid) printf '0, GPU-aa00\\n1, GPU-ab11\\n2, GPU-cc22\\n' ;;
          *=uuid,memory.used) printf 'GPU-aa00, 10\\nGPU-ab11, 11\\nGPU-cc22, 12\\n' ;;
          *=uuid,memory.total) printf 'GPU-aa00, 80\\nGPU-ab11, 40\\nGPU-cc22, 60\\n' ;;
          *) exit 1 ;;
        esac
        """
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    if setting is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    assert visible.visible_gpus() == expected
    used = {"GPU-aa00": 10, "GPU-ab11": 11, "GPU-cc22": 12}
    assert visible.used_mib(expected) == [used.get(name, 0) for name in expected]
    sizes = {"GPU-aa00": 80, "GPU-ab11": 40, "GPU-cc22": 60}
    assert visible.least_mib(expected) == min((sizes.get(name, 10**6) for name in expected), default=0)

"""Run the tests of the core with sanitizers, and say which lines of C++ they execute.

``python tests/instrumented.py``

1. builds the preset ``threads`` (ThreadSanitizer) in ``build/threads``, and runs the C++ tests whose subject is
   threads: shared plans, updates, planners and models, and every format, kernel, order and feature where its loops are
   split among threads;
2. builds the preset ``instrumented`` (AddressSanitizer, UndefinedBehaviorSanitizer and counts of executed lines; GCC,
   without CUDA) in ``build/instrumented``, and runs the C++ tests and the fuzz targets' short runs, where memory that
   is never freed is an error, too, except those that take many minutes so (``ctest --preset instrumented`` runs all);
3. runs Python tests that reach the core, with an extension that is built for it beside a copy of the package, file by
   file until ``--seconds`` have passed since the start. Python itself is not instrumented: what it never frees is no
   error.

``--skip threads`` leaves the first step out, ``--only threads`` the others. Then it prints how many lines of each
folder of the core were executed, and with ``--lines`` which were not; and, where
the package ``coverage`` is installed, the same of each module of Python by these tests alone. The exit status is 1 if
a test failed or a sanitizer found something; how many lines were executed changes nothing.

Needs GCC with gcov, CMake, Ninja, doctest, pybind11 and what the Python tests need. Other arguments are files of Python
tests, in place of those below.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[1]
BUILD = ROOT / "build" / "instrumented"
COUNTS_OF_PYTHON = BUILD / "python-coverage" / "counts"
MEASURES_PYTHON = importlib.util.find_spec("coverage") is not None
SOURCES = ("cpp/src/", "cpp/include/", "python/bindings/")

# C++ tests that take many minutes so, because they run for each allocation or bit, that build another program, or that
# compare what measuring costs with what it saves.
LEFT_OUT = [
    *("run out of memory", "without further threads", "a flipped bit", "installed_package"),
    *("round to TF32 are measured", "where the model of float32 stands in"),
]

# What reaches most of the core in little time. Programs that other tests start would not be instrumented.
PYTHON_TESTS = [
    *(f"tests/python/test_{name}.py" for name in ("call", "candidates", "choice", "csr_of_arrays", "epilogues")),
    *(f"tests/python/test_{name}.py" for name in ("features", "formats", "io", "locality_features", "magnitudes")),
    *(f"tests/python/test_{name}.py" for name in ("matrix", "model_inputs", "operators", "partition", "permutations")),
    *(f"tests/python/test_{name}.py" for name in ("plan", "plan_files", "planner", "precision", "predictor")),
    *(f"tests/python/test_{name}.py" for name in ("profiles", "sddmm", "solvers", "update_values", "vector_features")),
]

# Tests that compare times, which sanitizers change by a factor of their own each, and one that asks C++ for more memory
# than there is: AddressSanitizer ends the process where `operator new` should throw.
PYTHON_TESTS_LEFT_OUT = [
    "tests/python/test_permutations.py::test_a_signal_ends_a_search_that_takes_long",
    "tests/python/test_plan.py::test_operands_beyond_memory",
    "tests/python/test_planner.py::test_predicting_takes_little_longer_than_the_features",
]


def run(*command: str | os.PathLike[str], **setting: str) -> int:
    print("+", *command, flush=True)
    start = time.monotonic()
    status = subprocess.run(command, cwd=ROOT, env={**os.environ, **setting}).returncode
    print(f"exit status {status} after {time.monotonic() - start:.0f} s", flush=True)
    return status


def output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def run_with_thread_sanitizer() -> int:
    """Build and run the tests whose subject is threads; a race ends a test, and with it this program."""
    parallel = str(os.cpu_count() or 1)
    left_out = "installed_package"  # another build, which no other threads see
    return (
        run("cmake", "--preset", "threads")
        or run("cmake", "--build", "--preset", "threads")
        or run(
            *("ctest", "--preset", "threads", "-j", parallel, "-E", left_out, "--progress", "--timeout", "300"),
            # A forked child starts threads of its own in one of the tests.
            TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:die_after_fork=0",
        )
    )


def build() -> int:
    folder = output_of(sys.executable, "-m", "pybind11", "--cmakedir")
    configure = [
        "cmake",
        "--preset",
        "instrumented",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-Dpybind11_DIR={folder}",
    ]
    return run(*configure) or run("cmake", "--build", "--preset", "instrumented")


def run_cpp_tests() -> int:
    left_out = "|".join(LEFT_OUT)
    parallel = str(os.cpu_count() or 1)
    return run("ctest", "--preset", "instrumented", "-j", parallel, "-E", left_out, "--progress", "--timeout", "600")


def run_python_tests(files: list[str], latest: float) -> bool:
    """Run the files, which begin before `latest`; return whether any failed."""
    package = BUILD / "package"
    shutil.rmtree(package, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "python" / "warploom", package / "warploom", ignore=ignored)
    for library in BUILD.glob("_core*.so"):
        shutil.copy(library, package / "warploom")
    compiler = os.environ.get("CXX", "c++")
    libraries = [output_of(compiler, f"-print-file-name={name}") for name in ("libasan.so", "libstdc++.so")]
    measured = ["-m", "coverage", "run", "--parallel-mode", f"--source={package}"] if MEASURES_PYTHON else []
    failed = False
    for number, file in enumerate(files):
        if time.monotonic() > latest:
            print("not run for lack of time:", *files[number:], flush=True)
            break
        failed |= (
            run(
                *(sys.executable, *measured, "-m", "pytest", "-q", "-p", "no:cacheprovider", file),
                *(f"--deselect={test}" for test in PYTHON_TESTS_LEFT_OUT),
                LD_PRELOAD=" ".join(libraries),
                # Other tests ask for more memory than there is by malloc, which is to fail with an error.
                ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1",
                UBSAN_OPTIONS="print_stacktrace=1",
                PYTHONPATH=os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")])),
                COVERAGE_FILE=str(COUNTS_OF_PYTHON),
            )
            != 0
        )
    return failed


def executed_lines() -> dict[str, dict[int, bool]]:
    """Return for each source file of the core which of its lines that have code were executed."""
    lines: dict[str, dict[int, bool]] = collections.defaultdict(dict)
    counts = [str(path) for path in sorted(BUILD.rglob("*.gcda"))]
    for some in (counts[i : i + 20] for i in range(0, len(counts), 20)):
        text = output_of("gcov", "--json-format", "--stdout", "--relative-only", "--source-prefix", str(ROOT), *some)
        for document in text.splitlines():
            for file in json.loads(document)["files"]:
                name = file["file"].removeprefix(f"{ROOT}/")
                if name.startswith(SOURCES):
                    for line in file["lines"]:
                        known = lines[name].get(line["line_number"], False)
                        lines[name][line["line_number"]] = known or line["count"] > 0
    return lines


def ranges(numbers: list[int]) -> str:
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def report(with_lines: bool) -> None:
    lines = executed_lines()
    folders: dict[str, list[bool]] = collections.defaultdict(list)
    for name, of_file in lines.items():
        parts = pathlib.PurePath(name).parts
        folder = "/".join(parts[:3] if len(parts) > 3 and parts[1] == "src" else parts[:2])
        folders[folder] += of_file.values()
    print(f"\n{'lines of C++':32}{'with code':>12}{'executed':>12}")
    for folder, executed in [*sorted(folders.items()), ("all", [x for of in folders.values() for x in of])]:
        print(f"{folder:32}{len(executed):12,}{sum(executed) / max(len(executed), 1):12.1%}")
    if with_lines:
        for name, of_file in sorted(lines.items()):
            if missed := sorted(number for number, executed in of_file.items() if not executed):
                print(f"{name}: {ranges(missed)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", action="store_true", help="list the lines that were not executed")
    parser.add_argument(
        "--seconds", type=float, default=580, help="for all; files of Python tests that begin later are left out"
    )
    steps = parser.add_mutually_exclusive_group()
    steps.add_argument("--skip", choices=["threads"], help="leave this step out")
    steps.add_argument("--only", choices=["threads"], help="leave the others out")
    options, arguments = parser.parse_known_args()
    latest = time.monotonic() + options.seconds
    failed = options.skip != "threads" and run_with_thread_sanitizer() != 0
    if options.only == "threads":
        return int(failed)
    if build() != 0:
        return 1
    for counts in BUILD.rglob("*.gcda"):
        counts.unlink()
    shutil.rmtree(COUNTS_OF_PYTHON.parent, ignore_errors=True)
    COUNTS_OF_PYTHON.parent.mkdir()
    failed |= run_cpp_tests() != 0
    failed |= run_python_tests(arguments or PYTHON_TESTS, latest)
    report(options.lines)
    if MEASURES_PYTHON:
        run(sys.executable, "-m", "coverage", "combine", "--quiet", COVERAGE_FILE=str(COUNTS_OF_PYTHON))
        run(sys.executable, "-m", "coverage", "report", "--skip-covered", COVERAGE_FILE=str(COUNTS_OF_PYTHON))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Build warploom on a machine with a GPU, test it there, and record what passed.

``python tests/gpu/verify.py`` does four things, each in a process of its own:

1. builds and installs the package from this checkout into ``build/verified`` (nothing is downloaded);
2. runs the GPU tests;
3. runs the battery of small matrices again under ``compute-sanitizer``, with memcheck and with racecheck;
4. writes ``tests/gpu/verified.json``: the state of the sources, the GPU, driver and CUDA version, the date, tests
   passed, failed and skipped, and the errors that each tool of the sanitizer found.

The CPU tests warn when the sources have changed since. Needs the run-time and test requirements of the package,
scikit-build-core, pybind11, a CUDA toolkit and a GPU.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from source_hash import source_hash

ROOT = pathlib.Path(__file__).parents[2]
SITE = ROOT / "build" / "verified"


def run(
    *command: str, check: bool = True, capture: bool = False, setting: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    print("+", *command, flush=True)
    paths = [str(SITE), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **(setting or {})}
    return subprocess.run(command, cwd=ROOT, env=environment, check=check, text=True, capture_output=capture)


def build() -> None:
    shutil.rmtree(SITE, ignore_errors=True)
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-build-isolation",
        "--no-deps",
        "--no-compile",
        "--target",
        str(SITE),
        ".",
    )


def run_tests() -> dict[str, int]:
    """Run the tests in many processes, since most of their time is the CPU's; what looks at free memory runs alone."""
    files = sorted((ROOT / "tests" / "gpu").glob("test_*.py"))
    alone = [path for path in files if "mem_get_info" in path.read_text()]
    together = [path for path in files if path not in alone]
    gpus = run("nvidia-smi", "-L", capture=True).stdout.count("GPU ")
    parts = max(1, min(10 * gpus, (os.cpu_count() or 1) * 3 // 4))

    def run_part(number: int, paths: list[pathlib.Path], part: str) -> tuple[str, pathlib.Path, str]:
        report = ROOT / "build" / f"gpu-tests-{number}.xml"
        report.unlink(missing_ok=True)
        options = ["-q", "--maxfail=20", "-p", "no:cacheprovider", f"--junitxml={report}"]
        setting = {"WARPLOOM_TEST_PART": part, "CUDA_VISIBLE_DEVICES": str(number % gpus)}
        result = run(
            sys.executable, "-m", "pytest", *options, *map(str, paths), check=False, capture=True, setting=setting
        )
        return part or paths[0].name, report, result.stdout + result.stderr

    with concurrent.futures.ThreadPoolExecutor(parts) as pool:
        results = list(pool.map(lambda i: run_part(i, together, f"{i}/{parts}"), range(parts)))
    with concurrent.futures.ThreadPoolExecutor(gpus) as pool:
        results += pool.map(lambda i: run_part(i, [alone[i]], ""), range(len(alone)))
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name, report, output in results:
        if not report.exists():
            raise SystemExit(f"{name} ended without a report:\n{output[-3000:]}")
        bad = 0
        for suite in xml.etree.ElementTree.parse(report).getroot().iter("testsuite"):
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0))
            counts["failed"] += bad
            counts["skipped"] += skipped
            counts["passed"] += int(suite.get("tests", 0)) - bad - skipped
        print(output[-6000:] if bad else f"{name}: {output.splitlines()[-1]}", flush=True)
    return counts


def run_sanitizer(tool: str, selection: list[str]) -> int:
    """Errors that a tool of the sanitizer reports over the battery; -1 if it did not get to its summary."""
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    result = run(
        program,
        "--tool",
        tool,
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *selection,
        check=False,
        capture=True,
    )
    print(result.stdout[-3000:], result.stderr[-2000:], flush=True)
    summary = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)", result.stdout)
    if summary is None or not re.search(r"\d+ passed", result.stdout) or "failed" in result.stdout:
        return -1
    return int(summary.group(1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="use what an earlier run built")
    parser.add_argument("--no-sanitizer", action="store_true", help="leave step 3 out; recorded as not run (-1)")
    parser.add_argument("--only-sanitizer", action="store_true", help="leave step 2 out: it is in the record")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "tests" / "gpu" / "verified.json")
    options = parser.parse_args()
    if not options.no_build:
        build()
    if options.only_sanitizer:
        known = json.loads(options.output.read_text())
        if known["source"] != source_hash(ROOT):
            parser.error(f"{options.output} is of another state of the sources")
        tests = {outcome: known[outcome] for outcome in ("passed", "failed", "skipped")}
    else:
        tests = run_tests()
    print(tests, flush=True)
    # The vendor's kernels are left out: racecheck finds hazards in them that are not ours to mend.
    battery = [f"tests/gpu/test_{name}.py" for name in ("spmm", "spmv", "sddmm", "device_features", "experiments")]
    battery += ["-k", "test_battery and not cusparse"]
    errors = dict.fromkeys(("memcheck", "racecheck"), -1)
    if not options.no_sanitizer:
        errors = {tool: run_sanitizer(tool, battery) for tool in errors}
    info = json.loads(
        run(
            sys.executable, "-c", "import json, warploom._core as c; print(json.dumps(c.cuda_info()))", capture=True
        ).stdout
    )
    driver = run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", capture=True).stdout.split()[0]
    record = {
        "source": source_hash(ROOT),
        "gpu": info["devices"][0]["name"],
        "driver": driver,
        "cuda": f"{info['runtime_version'] // 1000}.{info['runtime_version'] % 1000 // 10}",
        "date": datetime.date.today().isoformat(),
        **tests,
        "sanitizer": errors,
        "sanitizer_errors": -1 if min(errors.values()) < 0 else sum(errors.values()),
    }
    print(json.dumps(record, indent=2), flush=True)
    options.output.write_text(json.dumps(record, indent=2) + "\n")
    return int(tests["failed"] > 0 or (not options.no_sanitizer and any(errors.values())))


if __name__ == "__main__":
    sys.exit(main())

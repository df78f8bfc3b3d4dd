"""Build warploom on a machine with a GPU, test it there, and record what passed.

``python tests/gpu/verify.py`` does four things, each in a process of its own:

1. builds and installs the package from this checkout into ``build/verified`` (nothing is downloaded);
2. runs the GPU tests;
3. runs ``test_everything_once.py`` under ``compute-sanitizer``, with memcheck, racecheck, initcheck and synccheck, in
   many processes side by side, which share the GPU through CUDA's MPS where that can be started: they take turns
   otherwise, four times as long; kernels of the vendor's are left out, since they are not ours to mend;
4. writes ``tests/gpu/verified.json``: the state of the sources, the GPU, driver and CUDA version, the date, tests
   passed, failed and skipped, and the errors that each tool of the sanitizer found: -1 if it found none, but did not
   get to the end of its tests, or was not run. The tests that a tool had no time for stand there by name: with
   ``--only-sanitizer`` those are run, if there are any, and added. With ``--only-tests`` what the record says of the
   sanitizer stays, where tests were changed and the sources were not.

The CPU tests warn when the sources have changed since. Needs the run-time and test requirements of the package,
pytest-xdist, scikit-build-core, pybind11, a CUDA toolkit and a GPU.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import datetime
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from collections.abc import Iterator

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from source_hash import source_hash
from visible import least_mib, visible_gpus

ROOT = pathlib.Path(__file__).parents[2]
SITE = ROOT / "build" / "verified"
# pytest-benchmark, where it is installed, warns of pytest-xdist, and warnings are errors here.
PLUGINS = ("-p", "no:benchmark", "-p", "no:cacheprovider")


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
        "-Ccmake.define.WARPLOOM_LINE_INFO=ON",
        "--target",
        str(SITE),
        ".",
    )


def run_tests() -> dict[str, int]:
    """Run the tests in many processes, since most of their time is the CPU's; what looks at free memory runs alone."""
    files = sorted((ROOT / "tests" / "gpu").glob("test_*.py"))
    alone = [path for path in files if "mem_get_info" in path.read_text()]
    together = [path for path in files if path not in alone]
    gpus = visible_gpus()
    on_each = max(1, min(16, least_mib(gpus) // 8_000))  # tests of large matrices take 8 GB now and then
    processes = max(1, min(on_each * len(gpus), (os.cpu_count() or 1) - 1))

    def run_some(name: str, paths: list[pathlib.Path], *options: str, **setting: str) -> tuple[str, pathlib.Path, str]:
        report = ROOT / "build" / f"gpu-tests-{name}.xml"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "--maxfail=20", *PLUGINS, *options]
        result = run(*command, f"--junitxml={report}", *map(str, paths), check=False, capture=True, setting=setting)
        return name, report, result.stdout + result.stderr

    workers = ["-n", str(processes), "--dist", "worksteal"]
    results = [run_some("together", together, *workers, WARPLOOM_TEST_GPUS=",".join(gpus))]
    with concurrent.futures.ThreadPoolExecutor(len(gpus)) as pool:
        # One after the other on each GPU.
        count = len(gpus)
        by_gpu = pool.map(
            lambda g: [run_some(path.stem, [path], CUDA_VISIBLE_DEVICES=gpus[g]) for path in alone[g::count]],
            range(count),
        )
        results += itertools.chain.from_iterable(by_gpu)
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


TOOLS = {"racecheck": 32, "initcheck": 6, "memcheck": 4, "synccheck": 4}
"""Tools of the sanitizer, and how the processes are shared among them: about what each takes for the same tests."""

SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")
COUNTS = ("errors", "passed", "failed", "refused", "not_run", "ended_early")
FINDING = re.compile(r"^=+ (?:Error: |Warning: |Invalid |Uninitialized |Host API |Barrier error|Program hit )")


@contextlib.contextmanager
def shared_gpu() -> Iterator[dict[str, str]]:
    """Yield variables with which kernels of different processes run on a GPU at the same time: none if they cannot."""
    program = shutil.which("nvidia-cuda-mps-control")
    if program is None:
        yield {}
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        setting = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        # With a choice of its own, the daemon would number the GPUs anew.
        environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"} | setting

        def control(*options: str, said: str = "") -> bool:
            # A pipe would stay open as long as the daemon.
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            return subprocess.run([program, *options], input=said, text=True, env=environment, **quiet).returncode == 0

        started = control("-d")
        try:
            yield setting if started else {}
        finally:
            if started:
                control(said="quit -t 5\n")


def run_sanitizer(seconds: float, workers: int | None, left: dict[str, list[str]]) -> dict[str, dict]:
    """Run test_everything_once.py under each tool of the sanitizer, in many processes side by side.

    With `left`, of each tool in it these tests alone. What has not begun after `seconds` is skipped, and a process that
    has not ended 90 seconds later is ended. Says for each tool: errors found, tests that passed, failed, were skipped
    as refused, and were not run for lack of time, which those are, the processes that did not end, and how long it
    took.
    """
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    logs = ROOT / "build" / "sanitizer"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    gpus = visible_gpus()
    workers = workers or (os.cpu_count() or 1) * 3 // 4
    # By what each tool takes for a test, and how many it has left.
    shares = {tool: share * len(left.get(tool, "1")) for tool, share in TOOLS.items() if not left or tool in left}
    parts_of = {tool: max(1, workers * share // sum(shares.values())) for tool, share in shares.items()}
    for tool, names in left.items():
        (logs / f"{tool}-left.txt").write_text("\n".join(names))

    def run_part(tool: str, part: int, shared: dict[str, str]) -> tuple[str, dict]:
        log, report = logs / f"{tool}-{part}.log", logs / f"{tool}-{part}.xml"
        options = ["--log-file", str(log), "--print-limit", "200", "--target-processes", "application-only"]
        tests = ["tests/gpu/test_everything_once.py", "-q", *PLUGINS, f"--junitxml={report}"]
        setting = {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(SITE), os.environ.get("PYTHONPATH", "")])),
            "WARPLOOM_TEST_PART": f"{part}/{parts_of[tool]}",
            "WARPLOOM_TEST_SECONDS": str(seconds),
            "CUDA_VISIBLE_DEVICES": gpus[part % len(gpus)],
            **shared,
            **({"WARPLOOM_TEST_NAMES": str(logs / f"{tool}-left.txt")} if left else {}),
        }
        command = [program, "--tool", tool, *options, sys.executable, "-m", "pytest", *tests]
        start = time.monotonic()
        with (logs / f"{tool}-{part}.txt").open("w") as output:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **setting},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                process.wait(seconds + 90)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode != 0:
            print(tool, part, process.returncode, (logs / f"{tool}-{part}.txt").read_text()[-2000:], flush=True)
        return tool, read_part(log, report, time.monotonic() - start)

    tasks = [(tool, part) for tool, parts in parts_of.items() for part in range(parts)]
    with shared_gpu() as shared, concurrent.futures.ThreadPoolExecutor(len(tasks)) as pool:
        results = list(pool.map(lambda task: run_part(*task, shared), tasks))
    found = {}
    for tool in parts_of:
        of_tool = [result for name, result in results if name == tool]
        found[tool] = {key: sum(result[key] for result in of_tool) for key in COUNTS}
        found[tool]["seconds"] = round(max(result["seconds"] for result in of_tool))
        found[tool]["left"] = sorted(name for result in of_tool for name in result["left"])
    return found


def completed(known: dict[str, dict], later: dict[str, dict]) -> dict[str, dict]:
    """What tools found in two runs, of which the second had the tests that the first had no time for."""
    result = dict(known)
    for tool, found in later.items():
        if tool in known:
            added = {key: known[tool][key] + found[key] for key in (*COUNTS, "seconds")}
            result[tool] = {**added, "not_run": found["not_run"], "left": found["left"]}
        else:
            result[tool] = found
    return result


def read_part(log: pathlib.Path, report: pathlib.Path, seconds: float) -> dict:
    """What one process under the sanitizer reported, also where it did not get to its end."""
    text = log.read_text(errors="replace") if log.exists() else ""
    summary = SUMMARY.search(text)
    # Without a summary, what was printed until then.
    errors = int(summary.group(1)) if summary else sum(bool(FINDING.match(line)) for line in text.splitlines())
    found: dict = {"errors": errors, "passed": 0, "failed": 0, "refused": 0, "not_run": 0, "seconds": seconds}
    found["left"] = []
    found["ended_early"] = int(summary is None or not report.exists())
    if report.exists():
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            kinds = {child.tag: child.get("message", "") for child in case}
            if "failure" in kinds or "error" in kinds:
                found["failed"] += 1
            elif "no time left" in kinds.get("skipped", ""):
                found["not_run"] += 1
                found["left"].append(case.get("name"))
            elif "skipped" in kinds:
                found["refused"] += 1
            else:
                found["passed"] += 1
    return found


def count_of(result: dict) -> int:
    """What the record says of a tool: the errors that it found, or -1 if it found none but has not seen everything."""
    complete = result["passed"] > 0 and not (result["failed"] or result["not_run"] or result["ended_early"])
    return result["errors"] if result["errors"] or complete else -1


def findings() -> str:
    """The different findings of the last run, with how often they occur, most frequent first."""
    seen: collections.Counter = collections.Counter()
    for log in sorted((ROOT / "build" / "sanitizer").glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()
        for number, line in enumerate(lines):
            if FINDING.match(line):
                # The kernel is named in the line itself, or in one of the next.
                place = next((other for other in lines[number : number + 4] if " in " in other or "+0x" in other), "")
                said = re.sub(r"0x[0-9a-f]+|\d{4,}|\([\d,]+\)", "#", f"{line} {place}" if place != line else line)
                seen[f"{log.name.split('-')[0]}: {said.replace('=========', '').strip()}"] += 1
    return "\n".join(f"{count} x {said[:400]}" for said, count in seen.most_common(40))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="use what an earlier run built")
    parser.add_argument("--no-sanitizer", action="store_true", help="leave step 3 out; recorded as not run (-1)")
    parser.add_argument("--only-sanitizer", action="store_true", help="leave step 2 out: it is in the record")
    parser.add_argument("--only-tests", action="store_true", help="leave step 3 out: it is in the record")
    parser.add_argument("--sanitizer-seconds", type=float, default=300, help="for step 3; what begins later is skipped")
    parser.add_argument("--sanitizer-processes", type=int, help="for step 3; by default three quarters of the cores")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "tests" / "gpu" / "verified.json")
    options = parser.parse_args()
    if not options.no_build:
        build()
    before, left = {}, {}
    if options.only_sanitizer or options.only_tests:
        known = json.loads(options.output.read_text())
        if known["source"] != source_hash(ROOT):
            parser.error(f"{options.output} is of another state of the sources")
        before = known["sanitizer_runs"]
    if options.only_sanitizer:
        tests = {outcome: known[outcome] for outcome in ("passed", "failed", "skipped")}
        left = {tool: found["left"] for tool, found in before.items() if found.get("left")}
    else:
        tests = run_tests()
    print(tests, flush=True)
    sanitized = before if options.only_tests else {}
    if not (options.no_sanitizer or options.only_tests):
        sanitized = run_sanitizer(options.sanitizer_seconds, options.sanitizer_processes, left)
        if left:
            sanitized = completed(before, sanitized)
        print(json.dumps(sanitized, indent=2), findings(), sep="\n", flush=True)
    errors = {tool: count_of(sanitized[tool]) if sanitized else -1 for tool in TOOLS}
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
        "sanitizer_runs": sanitized,
        "sanitizer_errors": sum(count for count in errors.values() if count > 0) or min(errors.values()),
    }
    print(json.dumps(record, indent=2), flush=True)
    options.output.write_text(json.dumps(record, indent=2) + "\n")
    return int(tests["failed"] > 0 or (not options.no_sanitizer and any(errors.values())))


if __name__ == "__main__":
    sys.exit(main())

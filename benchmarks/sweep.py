"""What the sweeps over matrices share: where matrices come from, how one problem is measured, and what is written.

Every candidate is first timed a few times, warm and cold. The fastest of those, all algorithms of cuSPARSE and the
kernels with default parameters are then timed in full, once a sample of their result agrees with float64 sums.
"""

from __future__ import annotations

import argparse
import csv
import pathlib
import random
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp

import warploom as wl
from warploom import _core, _device
from warploom._matrix import as_csr
from warploom.candidates import Candidate, enumerate_candidates, matches
from warploom.plan import Plan, permute
from warploom.selection import Bench, Problem, Timing, copy_bandwidth, is_redundant

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from generated import generated, huge
from measurements import read_lines

__all__ = ["Measurement", "append_measurements", "run_command", "sources"]

MATRIX_COLUMNS = ["matrix", "rows", "cols", "nnz"]
RESULT_COLUMNS = [
    "cache",
    "candidate",
    "preparation_ms",
    "median_us",
    "p10_us",
    "p90_us",
    "repeats",
    "floor_us",
    "note",
]


def run_command(
    description: str,
    sweeps: dict[str, Callable[[argparse.Namespace], None]],
    reports: dict[str, Callable[[argparse.Namespace], None]],
    add_own_options: Callable[[argparse.ArgumentParser], None],
    output: str,
) -> None:
    """Run the command of the command line: one of `sweeps` over matrices, or of `reports` on result files."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, function in sweeps.items():
        command = commands.add_parser(name)
        add_options(command)
        add_own_options(command)
        command.add_argument("--output", default=output)
        command.set_defaults(run=function)
    for name, function in reports.items():
        command = commands.add_parser(name)
        command.add_argument("files", nargs="+")
        command.set_defaults(run=function)
    options = parser.parse_args()
    options.run(options)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every sweep has."""
    parser.add_argument("--matrices", nargs="*", default=[], help="folders of SciPy .npz files")
    parser.add_argument("--generated", action="store_true", help="the generated matrices too")
    parser.add_argument("--huge", action="store_true", help="the generated ones of up to 10^8 nonzeros too")
    parser.add_argument("--only", nargs="*", help="patterns of matrix names")
    parser.add_argument("--candidates", nargs="*", help="patterns of candidate names")
    parser.add_argument("--permutation-rows", type=int, default=0, help="row permutations up to this many rows")
    parser.add_argument("--finalists", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop starting new work after this")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--shard", default="0/1", help="I/N: every N-th matrix from the I-th")


def sources(options: argparse.Namespace) -> list[tuple[str, Callable[[], sp.csr_array]]]:
    """Name and loader of each matrix of this shard, in a random order: a sweep that is cut short is a sample."""
    found: list[tuple[str, Callable[[], sp.csr_array]]] = []
    for folder in options.matrices:
        for path in sorted(pathlib.Path(folder).glob("*.npz")):
            found.append((path.stem, lambda path=path: sp.csr_array(sp.load_npz(path))))
    if options.generated:
        found += generated().items()
    if options.huge:
        found += huge().items()
    found = [(name, load) for name, load in found if matches(name, options.only)]
    index, count = map(int, options.shard.split("/"))
    random.Random(0).shuffle(found)
    return found[index::count]


class Measurement:
    """One matrix, of one value type, with one operation, layout and k."""

    def __init__(self, A: sp.csr_array, op: str, layout: str, k: int, options: argparse.Namespace) -> None:
        self.options = options
        device = _device.Device("cuda", options.gpu)
        self.problem = Problem(as_csr(A), op, k, layout, "warm", device)
        self.bench = Bench(self.problem)
        self.perms: dict[str, tuple[np.ndarray | None, float]] = {"none": (None, 0.0)}

    def prepare(self, candidate: Candidate) -> Plan:
        problem = self.problem
        if candidate.permutation not in self.perms:
            self.perms[candidate.permutation] = permute(problem.matrix, candidate.permutation)
        perm = self.perms[candidate.permutation]
        resident = problem.resident if candidate.kernel.from_device else None
        return Plan(problem.matrix, candidate, problem.k, problem.layout, problem.device, None, perm, resident)

    def candidates(self) -> list[Candidate]:
        problem = self.problem
        permuted = problem.matrix.shape[0] <= self.options.permutation_rows
        kept = []
        for c in dict.fromkeys(enumerate_candidates(problem.op, problem.layout, "cuda", problem.dtype.name)):
            if not matches(c.name, self.options.candidates) or is_redundant(c, problem):
                continue
            if c.permutation != "none" and not permuted:
                continue
            reason = _core.unsupported_reason(
                problem.op,
                problem.matrix,
                c.kernel.format,
                c.kernel.name,
                problem.k,
                problem.layout,
                dict(c.parameters),
                None,
            )
            if not reason:
                kept.append(c)
        return kept

    def run(self) -> Iterator[tuple[str, str, float, Timing | None, str]]:
        """Yield (cache, candidate name, preparation in ms, Timing or None, note)."""
        quick: dict[str, dict[str, float]] = {"warm": {}, "cold": {}}
        plans: dict[str, tuple[Candidate, float]] = {}
        failed: dict[str, str] = {}
        best = {"warm": np.inf, "cold": np.inf}
        for candidate in self.candidates():
            try:
                plan = self.prepare(candidate)
                keep = self.always(candidate)
                for cache in quick:
                    t = self.bench.time(plan, cache=cache, repeats=5, warmup=1, budget_ms=2).median
                    quick[cache][candidate.name] = t
                    keep |= t < 1.15 * best[cache]
                    best[cache] = min(best[cache], t)
                    if not keep and t > 1.3 * best[cache]:
                        break  # hopeless warm: not worth a cold run
                if keep:
                    plans[candidate.name] = (candidate, sum(plan.preparation_ms.values()))
            except wl.errors.WarploomError as error:
                failed[candidate.name] = str(error)
        wanted = {name for name, (c, _) in plans.items() if self.always(c)}
        for cache in quick:
            wanted |= set(sorted(quick[cache], key=quick[cache].__getitem__)[: self.options.finalists])
        for name in sorted(wanted & set(plans)):
            candidate, preparation = plans[name]
            plan = self.prepare(candidate)
            if problem := self.bench.check(plan):
                failed[name] = problem
                continue
            for cache in quick:
                timing = self.bench.time(plan, cache=cache, repeats=self.options.repeats, budget_ms=30)
                yield cache, name, preparation, timing, ""
        for name, note in failed.items():
            yield "", name, 0.0, None, note

    @staticmethod
    def always(candidate: Candidate) -> bool:
        return candidate.kernel.name == "cusparse" or candidate == Candidate.make(
            candidate.kernel, candidate.permutation
        )


def append_measurements(
    options: argparse.Namespace,
    key: tuple[str, ...],
    cases: list[tuple[str, ...]],
    make: Callable[..., Measurement | None],
    **untimed: str,
) -> None:
    """Append the lines of every matrix in every case to the output, but for those that it already holds.

    `key` names the columns that tell the cases apart. ``make(A, *case)`` prepares a measurement, or gives None where
    the matrix does not fit the case. Candidates without a time have `untimed` in its columns.
    """
    output = pathlib.Path(options.output)
    done = {(r["matrix"], *(r[c] for c in key)) for r in read_lines([options.output])} if output.exists() else set()
    deadline = time.time() + options.minutes * 60
    bandwidth = None
    _device.load_cusparse()
    with output.open("a", newline="") as file:
        writer = csv.DictWriter(file, [*MATRIX_COLUMNS, *key, *RESULT_COLUMNS])
        if not done:
            writer.writeheader()
        for name, load in sources(options):
            A = None
            for case in cases:
                if (name, *case) in done or time.time() > deadline:
                    continue
                if A is None:
                    A = load()
                job = make(A, *case)
                if job is None:
                    continue
                problem = job.problem
                bandwidth = bandwidth or copy_bandwidth(problem.device)
                floor = 1e6 * _core.product_floor_bytes(problem.matrix, problem.k) / bandwidth
                shared = dict(zip(MATRIX_COLUMNS, (name, *A.shape, A.nnz), strict=True))
                shared |= dict(zip(key, case, strict=True)) | {"floor_us": f"{floor:.3f}"} | untimed
                writer.writerows(lines_of(job, shared))  # a killed run loses at most the matrix in hand
                file.flush()


def lines_of(job: Measurement, shared: dict[str, object]) -> list[dict[str, object]]:
    """Measure and return one line for each cache and candidate, each with what is `shared`."""
    lines = []
    for cache, candidate, preparation, timing, note in job.run():
        line = shared | {"cache": cache, "candidate": candidate, "note": note}
        if timing:
            line |= {
                "preparation_ms": f"{preparation:.3f}",
                "median_us": f"{timing.median:.3f}",
                "p10_us": f"{timing.p10:.3f}",
                "p90_us": f"{timing.p90:.3f}",
                "repeats": timing.repeats,
            }
        lines.append(line)
    return lines

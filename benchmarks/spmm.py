"""Measure SpMM candidates over a folder of matrices and generated ones, and summarise.

``python benchmarks/spmm.py measure --matrices DIR --output spmm.csv`` appends one line per (matrix, layout, k, cache,
candidate). It resumes: what the file already holds is not measured again. ``--shard I/N`` takes every N-th matrix, for
several GPUs. ``python benchmarks/spmm.py summary spmm.csv`` prints geometric means against the vendor.

Every candidate is first timed a few times, warm and cold. The fastest of those, all algorithms of cuSPARSE and the
kernels with default parameters are then timed in full, once a sample of their result agrees with float64 sums.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import pathlib
import random
import sys
import time

import numpy as np
import scipy.sparse as sp

import warploom as wl
from warploom import _core, _device
from warploom._matrix import as_csr
from warploom.candidates import Candidate, enumerate_candidates, matches
from warploom.plan import Plan, permute
from warploom.selection import Bench, Problem, copy_bandwidth, is_redundant

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from generated import generated

COLUMNS = [
    "matrix",
    "rows",
    "cols",
    "nnz",
    "layout",
    "k",
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


def sources(options: argparse.Namespace):
    """Yield (name, group, function that loads)."""
    found = []
    for folder in options.matrices:
        for path in sorted(pathlib.Path(folder).glob("*.npz")):
            found.append((path.stem, lambda path=path: sp.csr_array(sp.load_npz(path))))
    if options.generated:
        found += generated().items()
    found = [(name, load) for name, load in found if matches(name, options.only)]
    index, count = map(int, options.shard.split("/"))
    random.Random(0).shuffle(found)  # a sweep that is cut short is a sample
    return found[index::count]


class Measurement:
    """One matrix with one layout and k."""

    def __init__(self, name, A, layout, k, options):
        self.name, self.A, self.layout, self.k, self.options = name, A, layout, k, options
        self.device = _device.Device("cuda", options.gpu)
        self.view = as_csr(A, dtype=np.dtype(np.float32))
        self.bench = Bench(Problem(self.view, "spmm", k, layout, "warm", self.device))
        self.perms = {"none": (None, 0.0)}

    def prepare(self, candidate: Candidate) -> Plan:
        if candidate.permutation not in self.perms:
            self.perms[candidate.permutation] = permute(self.view, candidate.permutation)
        return Plan(self.view, candidate, self.k, self.layout, self.device, None, self.perms[candidate.permutation])

    def candidates(self) -> list[Candidate]:
        rows = self.A.shape[0]
        kept = []
        for c in dict.fromkeys(enumerate_candidates("spmm", self.layout, "cuda")):
            if not matches(c.name, self.options.candidates) or is_redundant(c, self.bench.problem):
                continue
            if c.permutation != "none" and (rows > self.options.permutation_rows or c.kernel.name != "c_stationary"):
                continue
            reason = _core.unsupported_reason(
                "spmm", self.view, c.kernel.format, c.kernel.name, self.k, self.layout, dict(c.parameters), None
            )
            if not reason:
                kept.append(c)
        return kept

    def run(self):
        """Yield (cache, candidate name, preparation, Timing or None, note)."""
        quick: dict[str, dict[str, float]] = {"warm": {}, "cold": {}}
        plans, failed = {}, {}
        best = {"warm": np.inf, "cold": np.inf}
        for candidate in self.candidates():
            try:
                plan = self.prepare(candidate)
                keep = self.always(candidate)
                for cache in quick:
                    t = self.bench.time(plan, cache=cache, repeats=4, warmup=1, budget_ms=2).median
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
            wanted |= set(sorted(quick[cache], key=quick[cache].get)[: self.options.finalists])
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


def measure(options: argparse.Namespace) -> None:
    output = pathlib.Path(options.output)
    done = set()
    if output.exists():
        with output.open() as file:
            done = {(r["matrix"], r["layout"], r["k"]) for r in csv.DictReader(file)}
    deadline = time.time() + options.minutes * 60
    bandwidth = None
    with output.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if not done:
            writer.writeheader()
        for name, load in sources(options):
            A = None
            for layout, k_name in itertools.product(options.layout, options.k):
                if (name, layout, k_name) in done or time.time() > deadline:
                    continue
                if A is None:
                    _device.load_cusparse()
                    A = load()
                    A = sp.csr_array((A.data.astype(np.float32), A.indices, A.indptr), shape=A.shape)
                m, n = A.shape
                if k_name == "rows" and (m != n or m > options.most_rows_for_rows):
                    continue
                k = m if k_name == "rows" else int(k_name)
                job = Measurement(name, A, layout, k, options)
                bandwidth = bandwidth or copy_bandwidth(job.device)
                floor = 1e6 * _core.product_floor_bytes(job.view, k) / bandwidth
                lines = []
                for cache, candidate, preparation, timing, note in job.run():
                    line = dict(
                        matrix=name,
                        rows=m,
                        cols=n,
                        nnz=A.nnz,
                        layout=layout,
                        k=k_name,
                        cache=cache,
                        candidate=candidate,
                        preparation_ms=f"{preparation:.3f}",
                        floor_us=f"{floor:.3f}",
                        note=note,
                    )
                    if timing:
                        line |= dict(
                            median_us=f"{timing.median:.3f}",
                            p10_us=f"{timing.p10:.3f}",
                            p90_us=f"{timing.p90:.3f}",
                            repeats=timing.repeats,
                        )
                    lines.append(line)
                writer.writerows(lines)  # a killed run loses at most the matrix in hand
                file.flush()


def geometric_mean(values) -> float:
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")


def summary(options: argparse.Namespace) -> None:
    groups: dict[tuple, dict[str, tuple[float, float]]] = {}
    notes: dict[str, int] = {}
    for path in options.files:
        with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as file:
            for r in csv.DictReader(file):
                if r["note"]:
                    notes[f"{r['candidate']}: {r['note']}"] = notes.get(f"{r['candidate']}: {r['note']}", 0) + 1
                    continue
                key = (r["layout"], r["k"], r["cache"], r["matrix"])
                groups.setdefault(key, {})[r["candidate"]] = (float(r["median_us"]), float(r["floor_us"]))
    large = set(generated())
    print("set    layout  k     cache count  x default  x vendor best  worst  <0.98  floor  paper's kernel; wins")
    keys = sorted({(k[3] in large, *k[:3]) for k in groups})
    for is_large, layout, k, cache in keys:
        over_default, over_best, shares, paper, wins = [], [], [], [], {}
        for key, times in groups.items():
            if (key[3] in large, *key[:3]) != (is_large, layout, k, cache):
                continue
            vendor = {c: t for c, (t, _) in times.items() if "/cusparse" in c}
            ours = {c: t for c, (t, _) in times.items() if "/cusparse" not in c}
            if not vendor or not ours:
                continue
            best = min(ours, key=ours.get)
            floor = next(iter(times.values()))[1]
            vendor_best = min(vendor.values())
            if "spmm/none/csr/cusparse" in vendor:
                over_default.append(vendor["spmm/none/csr/cusparse"] / ours[best])
            over_best.append(vendor_best / ours[best])
            shares.append(floor / ours[best])
            wins[best.split("[")[0]] = wins.get(best.split("[")[0], 0) + 1
            if "spmm/none/csr/c_stationary" in ours:
                paper.append(vendor_best / ours["spmm/none/csr/c_stationary"])
        over = np.array(over_best)
        if not len(over):
            continue
        ranked = ", ".join(f"{c} {n}" for c, n in sorted(wins.items(), key=lambda i: -i[1])[:4])
        kind = "large" if is_large else "real"
        figures = (
            f"{geometric_mean(over_default):10.2f} {geometric_mean(over):14.2f} {over.min():6.2f} "
            f"{np.mean(over < 0.98):6.1%} {geometric_mean(shares):6.2f}  {geometric_mean(paper):.2f}"
        )
        print(f"{kind:6} {layout:7} {k:5} {cache:5} {len(over):5} {figures}; {ranked}")
    for note, count in sorted(notes.items(), key=lambda i: -i[1])[:10]:
        print(count, note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    m = commands.add_parser("measure")
    m.add_argument("--matrices", nargs="*", default=[], help="folders of SciPy .npz files")
    m.add_argument("--generated", action="store_true", help="the generated matrices too")
    m.add_argument("--only", nargs="*", help="patterns of matrix names")
    m.add_argument("--k", nargs="+", default=["32", "128", "rows"])
    m.add_argument("--layout", nargs="+", default=["row", "column"])
    m.add_argument("--candidates", nargs="*")
    m.add_argument("--permutation-rows", type=int, default=0, help="measure row permutations up to this many rows")
    m.add_argument("--most-rows-for-rows", type=int, default=30_000, help="largest matrix for k = rows")
    m.add_argument("--finalists", type=int, default=4)
    m.add_argument("--repeats", type=int, default=25)
    m.add_argument("--minutes", type=float, default=1e9, help="stop starting new work after this")
    m.add_argument("--gpu", type=int, default=0)
    m.add_argument("--shard", default="0/1")
    m.add_argument("--output", default="spmm.csv")
    m.set_defaults(run=measure)
    s = commands.add_parser("summary")
    s.add_argument("files", nargs="+")
    s.set_defaults(run=summary)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()

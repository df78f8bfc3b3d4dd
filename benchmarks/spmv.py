"""Measure SpMV candidates over a folder of matrices and generated ones, and summarise.

``python benchmarks/spmv.py measure --matrices DIR --output spmv.csv`` appends one line per (matrix, value type, cache,
candidate). It resumes: what the file already holds is not measured again. ``--shard I/N`` takes every N-th matrix, for
several GPUs. ``python benchmarks/spmv.py summary spmv.csv`` prints geometric means against the vendor, wins, and shares
of the bandwidth floor; ``conversion`` times the conversions that run on the GPU.
"""

from __future__ import annotations

import argparse
import csv
import pathlib
import sys
import time
from collections import Counter, defaultdict

import numpy as np
import scipy.sparse as sp

from warploom import _core, _device
from warploom.selection import copy_bandwidth

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from generated import generated, huge
from sweep import Measurement, add_options, geometric_mean, read_lines, sources

COLUMNS = [
    "matrix",
    "rows",
    "cols",
    "nnz",
    "dtype",
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


def scaled(A: sp.csr_array, dtype: str) -> sp.csr_array:
    """`A` over its largest entry, so that float16 holds the values and their sums."""
    data = A.data / (abs(A.data).max(initial=0) or 1)
    return sp.csr_array((data.astype(dtype), A.indices, A.indptr), shape=A.shape)


def measure(options: argparse.Namespace) -> None:
    output = pathlib.Path(options.output)
    done = set()
    if output.exists():
        with output.open() as file:
            done = {(r["matrix"], r["dtype"]) for r in csv.DictReader(file)}
    deadline = time.time() + options.minutes * 60
    bandwidth = None
    _device.load_cusparse()
    with output.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if not done:
            writer.writeheader()
        for name, load in sources(options):
            A = None
            for dtype in options.dtype:
                if (name, dtype) in done or time.time() > deadline:
                    continue
                if A is None:
                    A = load()
                job = Measurement(scaled(A, dtype), "spmv", "column", 1, options)
                bandwidth = bandwidth or copy_bandwidth(job.problem.device)
                shared = {
                    "matrix": name,
                    "rows": A.shape[0],
                    "cols": A.shape[1],
                    "nnz": A.nnz,
                    "dtype": dtype,
                    "floor_us": f"{1e6 * _core.product_floor_bytes(job.problem.matrix, 1) / bandwidth:.3f}",
                }
                writer.writerows(lines_of(job, shared))  # a killed run loses at most the matrix in hand
                file.flush()


def lines_of(job: Measurement, shared: dict[str, object]) -> list[dict[str, object]]:
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


def conversion(options: argparse.Namespace) -> None:
    """Conversions on the GPU, as multiples of one product with cuSPARSE's default."""
    ratios = defaultdict(list)
    for _, load in sources(options):
        A = load()
        for dtype in options.dtype:
            job = Measurement(scaled(A, dtype), "spmv", "column", 1, options)
            _device.load_cusparse()
            chosen = {c.name: c for c in job.candidates()}
            if "spmv/none/csr/cusparse" not in chosen:
                continue
            vendor = job.bench.time(job.prepare(chosen["spmv/none/csr/cusparse"]), repeats=20).median
            for candidate in chosen.values():
                if not candidate.kernel.from_device or candidate.kernel.format in ("csr", "coo"):
                    continue
                times = job.prepare(candidate)._core.time_conversion(warmup=1, repeats=10)
                if len(times):
                    ratios[candidate.name, dtype].append(np.median(times) / vendor)
    for (candidate, dtype), values in sorted(ratios.items()):
        low, middle, high = np.percentile(values, [5, 50, 95])
        print(
            f"{candidate:60} {dtype:8} {len(values):5} matrices: geometric mean {geometric_mean(values):6.2f}, "
            f"median {middle:6.2f}, 5-95 % {low:.2f}-{high:.2f}, at most {max(values):.2f}"
        )


RANGES = [(0, 10**4), (10**4, 10**5), (10**5, 10**6), (10**6, 10**7), (10**7, 10**12)]


def summary(options: argparse.Namespace) -> None:
    groups: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    floors, sizes, notes = {}, {}, Counter()
    for r in read_lines(options.files):
        if r["note"]:
            notes[f"{r['candidate']}: {r['note']}"] += 1
            continue
        groups[r["matrix"], r["dtype"], r["cache"]][r["candidate"]] = float(r["median_us"])
        floors[r["matrix"], r["dtype"]], sizes[r["matrix"]] = float(r["floor_us"]), int(r["nnz"])
    large = set(generated()) | set(huge())
    print("set   dtype   cache count | over default, over best: mean  5 %  least  <0.98 | floor share by nnz; wins")
    for is_large in (False, True):
        for dtype in ("float64", "float32", "float16"):
            for cache in ("warm", "cold"):
                keys = [k for k in groups if (k[0] in large, k[1], k[2]) == (is_large, dtype, cache)]
                if keys:
                    print_group("large" if is_large else "real", dtype, cache, keys, groups, floors, sizes)
    for note, count in notes.most_common(10):
        print(count, note)


def print_group(kind, dtype, cache, keys, groups, floors, sizes) -> None:
    over_default, over_best, wins, shares = [], [], Counter(), defaultdict(list)
    for key in keys:
        times = groups[key]
        vendor = {c: t for c, t in times.items() if "/cusparse" in c}
        ours = {c: t for c, t in times.items() if "/cusparse" not in c}
        if not vendor or not ours:
            continue
        best = min(ours, key=ours.__getitem__)
        wins[best.split("[")[0].removeprefix("spmv/")] += 1
        if "spmv/none/csr/cusparse" in vendor:
            over_default.append(vendor["spmv/none/csr/cusparse"] / ours[best])
        over_best.append(min(vendor.values()) / ours[best])
        for low, high in RANGES:
            if low <= sizes[key[0]] < high:
                shares[low].append(floors[key[:2]] / ours[best])
    if not over_best:
        return
    over = np.array(over_best)
    by_size = " ".join(
        f"{low:.0e}:{geometric_mean(shares[low]):.2f}({len(shares[low])})" for low, _ in RANGES if shares[low]
    )
    ranked = ", ".join(f"{c} {n}" for c, n in wins.most_common(8))
    print(
        f"{kind:5} {dtype:7} {cache:5} {len(over):4} | {geometric_mean(over_default):5.2f} {geometric_mean(over):5.2f} "
        f"{np.percentile(over, 5):5.2f} {over.min():5.2f} {np.mean(over < 0.98):6.1%} | {by_size}; {ranked}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, function in (("measure", measure), ("conversion", conversion)):
        m = commands.add_parser(name)
        add_options(m)
        m.add_argument("--dtype", nargs="+", default=["float64", "float32", "float16"])
        m.add_argument("--output", default="spmv.csv")
        m.set_defaults(run=function)
    s = commands.add_parser("summary")
    s.add_argument("files", nargs="+")
    s.set_defaults(run=summary)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()

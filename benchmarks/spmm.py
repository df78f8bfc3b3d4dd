"""Measure SpMM candidates over a folder of matrices and generated ones, and summarise.

``python benchmarks/spmm.py measure --matrices DIR --output spmm.csv`` appends one line per (matrix, layout, k, cache,
candidate). It resumes: what the file already holds is not measured again. ``--shard I/N`` takes every N-th matrix, for
several GPUs. ``python benchmarks/spmm.py summary spmm.csv`` prints geometric means against the vendor.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import pathlib
import sys
import time

import numpy as np
import scipy.sparse as sp

from warploom import _core, _device
from warploom.selection import copy_bandwidth

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from generated import generated
from sweep import Measurement, add_options, geometric_mean, read_lines, sources

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
                job = Measurement(A, "spmm", layout, k, options)
                bandwidth = bandwidth or copy_bandwidth(job.problem.device)
                floor = 1e6 * _core.product_floor_bytes(job.problem.matrix, k) / bandwidth
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


def summary(options: argparse.Namespace) -> None:
    groups: dict[tuple, dict[str, tuple[float, float]]] = {}
    notes: dict[str, int] = {}
    for r in read_lines(options.files):
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
    add_options(m)
    m.add_argument("--k", nargs="+", default=["32", "128", "rows"])
    m.add_argument("--layout", nargs="+", default=["row", "column"])
    m.add_argument("--most-rows-for-rows", type=int, default=30_000, help="largest matrix for k = rows")
    m.add_argument("--output", default="spmm.csv")
    m.set_defaults(run=measure)
    s = commands.add_parser("summary")
    s.add_argument("files", nargs="+")
    s.set_defaults(run=summary)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()

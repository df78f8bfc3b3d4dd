"""Measure SpMM candidates over a folder of matrices and generated ones, and summarise.

``python benchmarks/spmm.py measure --matrices DIR --output spmm.csv`` appends one line per (matrix, layout, k, cache,
candidate). It resumes: what the file already holds is not measured again. ``--shard I/N`` takes every N-th matrix, for
several GPUs. ``python benchmarks/spmm.py summary spmm.csv`` prints geometric means against the vendor.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import sys

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from generated import generated
from measurements import geometric_mean, read_lines
from sweep import Measurement, append_measurements, run_command


def measure(options: argparse.Namespace) -> None:
    def measurement(A: sp.csr_array, layout: str, k: str) -> Measurement | None:
        m, n = A.shape
        if k == "rows" and (m != n or m > options.most_rows_for_rows):
            return None
        single = sp.csr_array((A.data.astype(np.float32), A.indices, A.indptr), shape=A.shape)
        return Measurement(single, "spmm", layout, m if k == "rows" else int(k), options)

    cases = list(itertools.product(options.layout, options.k))
    append_measurements(options, ("layout", "k"), cases, measurement, preparation_ms="0.000")


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


def add_own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--k", nargs="+", default=["32", "128", "rows"])
    parser.add_argument("--layout", nargs="+", default=["row", "column"])
    parser.add_argument("--most-rows-for-rows", type=int, default=30_000, help="largest matrix for k = rows")


if __name__ == "__main__":
    run_command(__doc__, {"measure": measure}, {"summary": summary}, add_own_options, "spmm.csv")

"""Measure pruned weights multiplied as dense matrices, against sparse formats and cuSPARSE, on the GPU at hand.

``python tests/gpu/measure_dense.py [--size N] [--k K ...] [--zeros PERCENT ...] [--dtype TYPE ...] [--seconds S]``
prints, for random matrices of N x N (4096) with a share of zeros, row-major B with k columns and a warm cache,
microseconds of dense/cublas, of the fastest of warploom's other candidates without a row permutation, and of the
fastest of cuSPARSE's; "tf32" is float32 where precision="tf32" is asked for. Every candidate is verified before it is
timed. At the end come the numbers of places for each nonzero from which on the dense matrix is the slower one. No
matrix is started after S seconds (150). If OUT is set, all rows are also written to dense.jsonl in that folder.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import pathlib
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse

import warploom as wl
from warploom.bench.settings import ESSENTIAL, HALF, Setting, listed

ZEROS = (50, 70, 80, 90, 95, 97, 98, 98.5, 99)
COLUMNS = (32, 128, 256, 512)
TYPES = ("float16", "bfloat16", "tf32", "float32", "float64")


def pruned(size: int, zeros: float) -> Any:
    """Return a matrix with that share of zeros at random places."""
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((size, size), dtype=np.float32)
    dense[rng.random((size, size), dtype=np.float32) < zeros / 100] = 0
    return scipy.sparse.csr_array(dense)


def patterns_of(kind: str) -> list[str]:
    """Return the candidates to measure: those that sweeps measure in half precision, or need in float32."""
    half = kind in ("float16", "bfloat16")
    setting = Setting.parse("spmm/float16/row/k=128" if half else "spmm/float32/row/k=128")
    names = [c.name for c in listed(setting, "cuda", HALF if half else ESSENTIAL) if c.permutation == "none"]
    if kind == "tf32":
        names += ["spmm/none/*_tf32*"]
    return [*names, "spmm/none/dense/*"]


def measure(matrix: Any, kind: str, k: int) -> dict[str, Any]:
    """Time the candidates in one value type."""
    plan = wl.plan(
        matrix,
        k=k,
        dtype="float32" if kind == "tf32" else kind,
        device="cuda",
        select="measure",
        candidates=patterns_of(kind),
        budget=math.inf,
        calls=math.inf,
        progress=False,
        precision="tf32" if kind == "tf32" else None,
    )
    rows = plan.explain().rows
    timed = [row for row in rows if math.isfinite(row.median_us)]
    dense = [row for row in timed if "/dense/" in row.candidate and ("tf32" in row.candidate) == (kind == "tf32")]
    vendor = [row for row in timed if "/cusparse" in row.candidate]
    own = [row for row in timed if "/dense/" not in row.candidate and row not in vendor]
    notes = {row.candidate: row.note for row in rows if "/dense/" in row.candidate and row.note not in ("", "chosen")}
    found: dict[str, Any] = {"k": k, "dtype": kind, "notes": notes}
    for name, group in (("dense", dense), ("own", own), ("cusparse", vendor)):
        best = min(group, key=lambda row: float(row.median_us), default=None)
        found |= {f"{name}_us": best.median_us if best else math.nan, name: best.candidate if best else ""}
    return found


def break_even(rows: list[dict[str, Any]], kind: str, k: int) -> str:
    """Say from how many places for each nonzero on the dense matrix is slower, between those measured."""
    of = [row for row in rows if (row["dtype"], row["k"]) == (kind, k) and math.isfinite(row["dense_us"])]
    known = sorted((row["places_per_nonzero"], math.log(row["dense_us"] / row["own_us"])) for row in of)
    for (before, low), (after, high) in itertools.pairwise(known):
        if low <= 0 < high:
            at = -low / (high - low)
            return f"{math.exp(math.log(before) + at * math.log(after / before)):.0f}"
    if not known:
        return "not measured"
    return f"over {known[-1][0]:.0f}" if known[-1][1] <= 0 else f"under {known[0][0]:.0f}"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--zeros", type=float, nargs="*", default=ZEROS)
    parser.add_argument("--k", type=int, nargs="*", default=COLUMNS)
    parser.add_argument("--dtype", nargs="*", default=TYPES, choices=TYPES)
    parser.add_argument("--seconds", type=float, default=150.0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    deadline = time.monotonic() + given.seconds
    rows: list[dict[str, Any]] = []
    # The densities in between come last, so that a run that is cut short has all types.
    for zeros in sorted(given.zeros, key=lambda percent: percent not in (50, 90, 98)):
        if time.monotonic() > deadline:
            print(f"{zeros} % zeros: no time is left")
            continue
        matrix = pruned(given.size, zeros)
        for kind in given.dtype:
            for k in given.k:
                try:
                    row = measure(matrix, kind, k)
                except wl.errors.WarploomError as error:
                    print(f"{zeros:5} % zeros  {kind:8} k={k:3}: {error}", flush=True)
                    continue
                row |= {"zeros": zeros, "nnz": matrix.nnz, "places_per_nonzero": given.size**2 / matrix.nnz}
                rows.append(row)
                others = min(row["own_us"], row["cusparse_us"])
                print(
                    f"{zeros:5} % zeros  {kind:8} k={k:3}  dense {row['dense_us']:8.1f}  own {row['own_us']:8.1f}  "
                    f"cuSPARSE {row['cusparse_us']:8.1f}  ratio {others / row['dense_us']:5.2f}  {row['own']}  "
                    f"{row['notes'] or ''}",
                    flush=True,
                )
    print("Places for each nonzero from which on warploom's best sparse candidate is faster:")
    for kind in given.dtype:
        print(f"  {kind:8}", ", ".join(f"k={k}: {break_even(rows, kind, k)}" for k in given.k))
    if "OUT" in os.environ:
        lines = [json.dumps(row) for row in rows]
        (pathlib.Path(os.environ["OUT"]) / "dense.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

"""Small sweeps of CSR-vector, in which as many threads per row are best as the mean row has nonzeros."""

from __future__ import annotations

import numpy as np

from training.training_tables import build, facts, measurement
from warploom.bench.repeatability import Tolerances
from warploom.training.data import Dataset
from warploom.training.threads_per_row import (
    CANDIDATES,
    THREADS,
)

WITHIN = Tolerances({}, {}, 0.03)


def times(mean, nnz):
    """Microseconds of `CANDIDATES`: as many threads are best as the mean row has nonzeros."""
    base = 2 + nnz / 1e5
    return [base * (1 + 0.3 * abs(np.log2(mean) - 1 - i)) for i in range(5)]


def matrix(name, mean, rows=1000, longest=None):
    values = facts(name)
    values |= {
        "spmv_num_rows": float(rows),
        "spmv_nnz": float(rows * mean),
        "spmv_density": mean / 1000,
        "spmv_nnz_per_row_mean": float(mean),
        "spmv_nnz_per_row_max": float(longest or 2 * mean),
    }
    return values


def timed(name, of, dtype="float64", caches=("warm", "cold")):
    rows = []
    for candidate, time in zip(CANDIDATES, of, strict=True):
        for cache in caches if time is not None else ():
            rows.append(measurement(name, candidate, time, setting=f"spmv/{dtype}", cache=cache))
    return rows


def sweep(matrices=100, dtypes=("float64",), seed=0):
    random = np.random.default_rng(seed)
    known, rows = [], []
    for i in range(matrices):
        known.append(matrix(f"g/m{i}", 2 ** random.uniform(0.6, 5.4), int(2 ** random.uniform(6, 18))))
        of = times(known[-1]["spmv_nnz_per_row_mean"], known[-1]["spmv_nnz"])
        for dtype in dtypes:
            rows += timed(f"g/m{i}", of, dtype)
    return build(known, rows)


def table(*times_of, matrices=None):
    names = [f"m{i}" for i in range(len(times_of))]
    rows = [row for name, of in zip(names, times_of, strict=True) for row in timed(name, of)]
    known = matrices or [facts(name) for name in names]
    return Dataset.of(build(known, rows), "spmv/float64", "warm", within=WITHIN).columns(CANDIDATES)


def block_sweep(matrices=40):
    """Return regular matrices with their halves, irregular ones with one short-row block each, and an orphan."""
    random = np.random.default_rng(5)
    known, rows = [], []

    def add(name, mean, longest=None):
        known.append(matrix(name, mean, 4000, longest))
        of = times(mean, 4000 * mean)
        rows.extend(timed(name, of))
        return of

    for i in range(matrices):
        mean = 2 ** random.uniform(0.6, 5.4)
        add(f"r{i}", mean)
        add(f"r{i}[0:2000]", mean)
        add(f"r{i}[2000:4000]", mean)
        of = add(f"i{i}", mean, longest=600)
        add(f"i{i}[10:4000]", mean)
        for threads, time in zip((0, *THREADS), (min(of), *of), strict=True):
            name = f"spmv/none/csr/blockwise[threads_per_row={threads}]" if threads else "spmv/none/csr/blockwise"
            rows.append(measurement(f"i{i}", name, time / 2, setting="spmv/float64"))
    add("orphan[0:10]", 3)
    return build(known, rows)

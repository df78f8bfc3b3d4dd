"""Time every row permutation against a brute-force search over packed masks.

The brute force is "cta-aware" on one thread: masks packed into 64-bit words, one population count instruction
per word, only the rows that remain. It runs in full, without extrapolation, and must return the very same
permutation.

    python benchmarks/permutations.py [--rows 30000] [--per-row 20] [--repeats 3] [--matrix uniform ...]
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

from warploom import _core, permutations
from warploom._matrix import as_csr


def from_columns(columns):
    rows, per_row = columns.shape
    indptr = np.arange(0, rows * per_row + 1, per_row)
    data = np.ones(rows * per_row, np.float32)
    return sp.csr_array((data, columns.ravel().astype(np.int32), indptr), shape=(rows, rows))


def uniform(rows, per_row, rng):
    """Columns drawn uniformly: nearly every mask is different."""
    return from_columns(rng.integers(0, rows, (rows, per_row)))


def banded(rows, per_row, rng):
    """Columns within 40 of the diagonal: few different masks."""
    return from_columns(np.clip(np.arange(rows)[:, None] + rng.integers(-40, 41, (rows, per_row)), 0, rows - 1))


def skewed(rows, per_row, rng):
    """Row lengths and columns of a power law: column blocks that a large part of the rows use."""
    lengths = np.minimum(1 + rng.pareto(1.2, rows) * per_row / 5, rows // 4).astype(int)
    columns = np.minimum(rng.pareto(0.7, lengths.sum()) * 50, rows - 1).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return sp.csr_array((np.ones(len(columns), np.float32), columns, indptr), shape=(rows, rows))


MATRICES = {"uniform": uniform, "banded": banded, "skewed": skewed}


def median_seconds(function, repeats):
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--per-row", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--matrix", nargs="+", choices=MATRICES, default=list(MATRICES))
    options = parser.parse_args()

    table = Table(title=f"Row permutations, {options.rows} rows: median seconds of {options.repeats}")
    table.add_column("permutation", no_wrap=True)
    measured = {name: [] for name in (*permutations.names(), "brute force")}
    for kind in options.matrix:
        A = MATRICES[kind](options.rows, options.per_row, np.random.default_rng(0))
        table.add_column(f"{kind} ({A.nnz} nonzeros)", justify="right")
        table.add_column("brute force /", justify="right")
        brute, expected = median_seconds(
            lambda A=A: _core._cta_aware_by_brute_force(as_csr(A, pattern_only=True)), options.repeats
        )
        measured["brute force"] += [f"{brute:.3f}", ""]
        for name in permutations.names():
            seconds, perm = median_seconds(lambda A=A, name=name: permutations.compute(name, A), options.repeats)
            measured[name] += [f"{seconds:.3f}", f"{brute / seconds:.0f}x"]
            if name == "cta-aware" and not np.array_equal(perm, expected):
                raise SystemExit(f"cta-aware differs from brute force on {kind}")
    for name, cells in measured.items():
        table.add_row(name, *cells)
    Console().print(table)


if __name__ == "__main__":
    main()

"""What features cost on the CPU, as a multiple of one product y = A x.

Run ``python benchmarks/features.py [--threads N]``. The unit is SciPy's single-threaded float64 SpMV on the same
matrix; times are medians. ``warploom experiment run features`` measures the same for matrices in GPU memory.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy
import scipy.sparse
from rich.console import Console
from rich.table import Table

from warploom import _core, features
from warploom._matrix import as_csr


def from_rows(lengths, columns, num_cols):
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    data = np.ones(len(columns))
    A = scipy.sparse.csr_array((data, columns.astype(np.int32), indptr), shape=(len(lengths), num_cols))
    A.sort_indices()
    return A


def banded(nnz, per_row):
    m = nnz // per_row
    columns = np.arange(m)[:, None] + np.arange(per_row) - per_row // 2
    return from_rows(np.full(m, per_row), np.clip(columns, 0, m - 1).ravel(), m)


def uniform(nnz, per_row, rng):
    m = nnz // per_row
    return from_rows(np.full(m, per_row), rng.integers(0, m, m * per_row), m)


def power_law(nnz, per_row, rng):
    """Rows and columns whose nonzeros fall off as a power of their rank, ranks scattered."""
    m = nnz // per_row
    weight = 1.0 / np.arange(1, m + 1) ** 0.7
    lengths = rng.permutation(np.minimum(m, np.ceil(weight / weight.sum() * nnz)).astype(np.int64))
    ranks = np.searchsorted(np.cumsum(weight / weight.sum()), rng.random(lengths.sum()))
    return from_rows(lengths, rng.permutation(m)[np.minimum(ranks, m - 1)], m)


def median_seconds(function, repeats):
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def matrices(seed):
    rng = np.random.default_rng(seed)
    for nnz in (10**5, 10**6, 10**7):
        yield "banded, 10 a row", banded(nnz, 10)
        yield "banded, 100 a row", banded(nnz, 100)
        yield "uniform, 10 a row", uniform(nnz, 10, rng)
        yield "uniform, 100 a row", uniform(nnz, 100, rng)
        yield "power law, 10 a row", power_law(nnz, 10, rng)


def measure(args):
    table = Table(
        title=f"Feature cost; unit: one SpMV of SciPy {scipy.__version__} (1 thread, float64). "
        f"warploom: {_core.num_threads()} threads"
    )
    table.add_column("matrix")
    for heading in ("rows", "nnz", "SpMV ms", "spmm ms", "spmm x", "spmv ms", "spmv x", "view ms", "view x"):
        table.add_column(heading, justify="right")
    for name, A in matrices(args.seed):
        x = np.ones(A.shape[1])
        view = as_csr(A, pattern_only=True)
        product = median_seconds(lambda A=A, x=x: A @ x, args.repeats)
        cells = []
        for function in (
            lambda view=view: features.spmm(view),
            lambda view=view: features.spmv(view),
            lambda A=A: as_csr(A, pattern_only=True),
        ):
            seconds = median_seconds(function, args.repeats)
            cells += [f"{seconds * 1e3:.3f}", f"{seconds / product:.2f}"]
        table.add_row(name, f"{A.shape[0]:,}", f"{A.nnz:,}", f"{product * 1e3:.3f}", *cells)
    table.caption = "view: as_csr, the validation that every call on a SciPy matrix starts with"
    Console(width=130).print(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="threads of warploom; 0: all processors")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    _core.set_num_threads(args.threads)
    measure(args)


if __name__ == "__main__":
    main()

"""Compare plans on the CPU with SciPy: 100 matrices from 10^3 to 10^7 nonzeros, one thread and several, one CSV file.

    python tests/measure_cpu.py --output cpu.csv

The products of a plan and of SciPy take turns, so that what else the machine does falls on both; a row has the medians
and the quartiles of the ratios of neighbouring turns. Takes about fifteen minutes. This is no test: how fast a shared
machine is at a moment says nothing about the code.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import pathlib
import platform
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp

import warploom as wl

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
"""Nonzeros, about."""

COLUMNS = [
    *("family", "matrix_rows", "nnz", "op", "k", "dtype", "threads", "candidate", "planning_s"),
    *("plan_us", "scipy_us", "ratio", "ratio_q1", "ratio_q3", "turns", "cpu", "scipy", "warploom"),
]


def _of_rows(lengths: np.ndarray[Any, Any], columns: int, rng: np.random.Generator) -> sp.csr_array:
    """Rows of these lengths with columns at random; a few may repeat."""
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = rng.integers(columns, size=indptr[-1], dtype=np.int32)
    A = sp.csr_array((rng.random(indptr[-1]), indices, indptr), shape=(len(lengths), columns))
    A.sort_indices()
    return A


def _uniform(mean: int) -> Callable[[int, np.random.Generator], sp.csr_array]:
    def make(nnz: int, rng: np.random.Generator) -> sp.csr_array:
        rows = max(nnz // mean, 2)
        return _of_rows(rng.poisson(mean, rows), max(rows, 2 * mean), rng)

    return make


def _band(width: int) -> Callable[[int, np.random.Generator], sp.csr_array]:
    def make(nnz: int, rng: np.random.Generator) -> sp.csr_array:
        rows = max(nnz // width, width)
        offsets = range(-(width // 2), width - width // 2)
        return sp.csr_array(
            sp.diags_array([rng.random(rows) for _ in offsets], offsets=list(offsets), shape=(rows, rows))
        )

    return make


def _power_law(nnz: int, rng: np.random.Generator) -> sp.csr_array:
    rows = max(nnz // 10, 10)
    lengths = np.minimum(3.0 / (1 - rng.random(rows)) ** 0.7, rows).astype(np.int64)
    return _of_rows(lengths, rows, rng)


def _mostly_empty(nnz: int, rng: np.random.Generator) -> sp.csr_array:
    rows = max(nnz, 10)
    return _of_rows(np.where(rng.random(rows) < 0.1, 10, 0), rows, rng)


def _arrow(nnz: int, rng: np.random.Generator) -> sp.csr_array:
    """Rows of two, and one that has half of all."""
    rows = max(nnz // 4, 4)
    lengths = np.full(rows, 2)
    lengths[rows // 2] = min(nnz // 2, rows)
    return _of_rows(lengths, rows, rng)


def _grid(nnz: int, rng: np.random.Generator) -> sp.csr_array:
    side = max(int((nnz / 5) ** 0.5), 3)
    line = sp.diags_array([np.ones(side - 1), np.ones(side - 1)], offsets=[-1, 1])
    eye = sp.eye_array(side)
    return sp.csr_array(sp.kron(line, eye) + sp.kron(eye, line) + 4 * sp.eye_array(side * side))


def _blocks(nnz: int, rng: np.random.Generator) -> sp.csr_array:
    rows = max(nnz // 64 // 4, 2)
    pattern = _of_rows(np.full(rows, 4), max(rows, 8), rng)
    return sp.csr_array(sp.kron(pattern, np.ones((8, 8))))


FAMILIES: dict[str, Callable[[int, np.random.Generator], sp.csr_array]] = {
    "random, 3 a row": _uniform(3),
    "random, 10 a row": _uniform(10),
    "random, 30 a row": _uniform(30),
    "random, 100 a row": _uniform(100),
    "band of 3": _band(3),
    "band of 27": _band(27),
    "power law": _power_law,
    "mostly empty rows": _mostly_empty,
    "one long row": _arrow,
    "grid": _grid,
    "dense blocks": _blocks,
}


def matrices(least: int, most: int) -> Iterator[tuple[str, sp.csr_array]]:
    yield "gr_30_30", wl.examples.load("gr_30_30").astype(np.float64)
    for size, (family, make) in itertools.product(SIZES, FAMILIES.items()):
        if least <= size <= most:
            yield family, make(size, np.random.default_rng(size))


def compare(ours: Callable[[], Any], theirs: Callable[[], Any], seconds: float) -> tuple[np.ndarray[Any, Any], ...]:
    """Return microseconds of both in turns."""
    theirs()
    start = time.perf_counter()
    ours()
    once = max(time.perf_counter() - start, 1e-7)
    inner = max(1, int(2e-4 / once))  # products in a turn, so that the clock does not matter
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while len(times[0]) < 15 or (time.perf_counter() < end and len(times[0]) < 400):
        for product, found in zip((ours, theirs), times, strict=True):
            product()  # what the other left in the caches is not what a loop of products finds there
            start = time.perf_counter()
            for _ in range(inner):
                product()
            found.append(1e6 * (time.perf_counter() - start) / inner)
    return np.array(times[0]), np.array(times[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--least", type=int, default=SIZES[0], help="nonzeros")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="nonzeros")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each comparison")
    parser.add_argument("--products", nargs="+", default=["spmv", "spmm:8", "spmm:32"], help="spmv, or spmm:K")
    parser.add_argument("--dtype", default="float64")
    given = parser.parse_args()
    processor = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in processor if "model name" in line), platform.processor())
    ratios: dict[tuple[str, int], list[float]] = {}
    with open(given.output, "w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        for family, A in matrices(given.least, given.most):
            A = A.astype(given.dtype)
            for product, threads in itertools.product(given.products, given.threads):
                op, _, columns = product.partition(":")
                k = int(columns) if columns else 1
                if A.nnz * k > 1e8:
                    continue
                wl.set_num_threads(threads)
                x = np.random.default_rng(0).random((A.shape[1], k) if op == "spmm" else A.shape[1]).astype(given.dtype)
                start = time.perf_counter()
                plan = wl.plan(A, op, k=k if op == "spmm" else None, device="cpu", progress=False)
                planning = time.perf_counter() - start
                np.testing.assert_allclose(plan @ x, A @ x, rtol=1e-3 if given.dtype == "float32" else 1e-9)
                ours, theirs = compare(lambda: plan @ x, lambda: A @ x, given.seconds)  # noqa: B023
                ratio = theirs / ours
                ratios.setdefault((product, threads), []).append(float(np.median(theirs) / np.median(ours)))
                table.writerow(
                    {
                        "family": family,
                        "matrix_rows": A.shape[0],
                        "nnz": A.nnz,
                        "op": op,
                        "k": k,
                        "dtype": given.dtype,
                        "threads": threads,
                        "candidate": plan.candidate,
                        "planning_s": f"{planning:.6f}",
                        "plan_us": f"{np.median(ours):.3f}",
                        "scipy_us": f"{np.median(theirs):.3f}",
                        "ratio": f"{np.median(theirs) / np.median(ours):.3f}",
                        "ratio_q1": f"{np.quantile(ratio, 0.25):.3f}",
                        "ratio_q3": f"{np.quantile(ratio, 0.75):.3f}",
                        "turns": len(ours),
                        "cpu": model,
                        "scipy": f"{scipy.__version__} on {platform.python_version()}",
                        "warploom": wl.__version__,
                    }
                )
                file.flush()
    for (product, threads), found in ratios.items():
        speed = np.array(found)
        print(
            f"{product}, {threads} thread{'s' * (threads > 1)}: {len(speed)} matrices, SciPy's time over the plan's: "
            f"geometric mean {np.exp(np.log(speed).mean()):.2f}, least {speed.min():.2f}, "
            f"below 0.98 on {(speed < 0.98).sum()}"
        )


if __name__ == "__main__":
    main()

"""Measure SpMV candidates over a folder of matrices and generated ones.

``python benchmarks/spmv.py measure --matrices DIR --output spmv.csv`` appends one line per (matrix, value type, cache,
candidate). It resumes: what the file already holds is not measured again. ``--shard I/N`` takes every N-th matrix, for
several GPUs. ``python benchmarks/spmv.py bandwidth spmv.csv`` prints the effective bandwidths of every kernel (Koza et
al. 2014, eq. 6.1), benchmarks/spmv_tables.py all else; ``conversion`` times the conversions that run on the GPU.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections import defaultdict

import numpy as np
import scipy.sparse as sp

from warploom import _device
from warploom.bandwidth import beta_minus, beta_plus

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from measurements import geometric_mean, read_lines
from sweep import Measurement, append_measurements, run_command, sources


def scaled(A: sp.csr_array, dtype: str) -> sp.csr_array:
    """`A` over its largest entry, so that float16 holds the values and their sums."""
    data = A.data / (abs(A.data).max(initial=0) or 1)
    return sp.csr_array((data.astype(dtype), A.indices, A.indptr), shape=A.shape)


def measurement(A: sp.csr_array, dtype: str, options: argparse.Namespace) -> Measurement:
    return Measurement(scaled(A, dtype), "spmv", "column", 1, options)


def measure(options: argparse.Namespace) -> None:
    cases = [(dtype,) for dtype in options.dtype]
    append_measurements(options, ("dtype",), cases, lambda A, dtype: measurement(A, dtype, options))


def conversion(options: argparse.Namespace) -> None:
    """Conversions on the GPU, as multiples of one product with cuSPARSE's default."""
    ratios = defaultdict(list)
    for _, load in sources(options):
        A = load()
        for dtype in options.dtype:
            job = measurement(A, dtype, options)
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


def bandwidth(options: argparse.Namespace) -> None:
    """Effective bandwidths of each kernel's fastest setting, on matrices of 10^6 nonzeros and more."""
    fastest: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    moved, copied = {}, defaultdict(list)
    for r in read_lines(options.files):
        if r["note"] or int(r["nnz"]) < 10**6:
            continue
        key, kernel = (r["matrix"], r["dtype"], r["cache"]), r["candidate"].split("[")[0].removeprefix("spmv/none/")
        time = float(r["median_us"])
        fastest[key][kernel] = min(time, fastest[key].get(kernel, time))
        rows, cols, nnz, size = int(r["rows"]), int(r["cols"]), int(r["nnz"]), np.dtype(r["dtype"]).itemsize
        plus = beta_plus(rows, nnz, size, num_cols=cols)
        moved[r["matrix"], r["dtype"]] = beta_minus(rows, nnz, size), plus
        # Floors are beta+ at the bandwidth of a copy, but for entries of x that no nonzero refers to.
        copied[r["dtype"]].append(plus / float(r["floor_us"]))
    print("median over matrices of 10^6 nonzeros and more: GB/s by beta-, by beta+; beta+ over a copy; matrices")
    for dtype in ("float64", "float32", "float16"):
        for cache in ("warm", "cold"):
            rates = defaultdict(list)
            for (name, *case), times in fastest.items():
                if case == [dtype, cache]:
                    for kernel, time in times.items():
                        rates[kernel].append([count / time / 1e3 for count in moved[name, dtype]])
            for kernel, pairs in sorted(rates.items(), key=lambda item: -float(np.median(item[1], axis=0)[1])):
                minus, plus = np.median(pairs, axis=0)
                share = 1e3 * plus / np.median(copied[dtype])
                print(f"{dtype:7} {cache:4} {kernel:28} {minus:7.0f} {plus:7.0f} {share:6.1%} {len(pairs):4}")


def add_own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32", "float16"])


if __name__ == "__main__":
    sweeps = {"measure": measure, "conversion": conversion}
    run_command(__doc__, sweeps, {"bandwidth": bandwidth}, add_own_options, "spmv.csv")

"""What experiments might have found, made by code."""

from __future__ import annotations

import pandas as pd

from warploom.experiments import Findings, find

__all__ = ["ENVIRONMENT", "TIMES", "split_times", "strip_height", "time_split"]

ENVIRONMENT = {"gpu": "NVIDIA H200", "cuda": "13.0", "copy_bandwidth": 4e12}
MATRICES = {"grid2d(nx=9,ny=9)": ("grid", 81, 81, 400), "circuit(n=99)": ("circuit", 99, 99, 600)}
TIMES = {"full": 100.0, "no random access": 70.0, "no arithmetic": 90.0, "neither": 55.0}
"""Microseconds of the variants of CSR: the random access takes 30, the arithmetic 15 more, and 10 if left out first."""


def of_matrices(name, rows_of_each):
    """Return findings with the rows of an experiment that belong to each matrix."""
    table = pd.DataFrame(
        [
            {"matrix": matrix, "label": label, "rows": m, "cols": n, "nnz": nnz, **row}
            for matrix, (label, m, n, nnz) in MATRICES.items()
            for row in rows_of_each
        ]
    )
    table = table.assign(p10_us=table["median_us"], p90_us=table["median_us"], repeats=20)
    return Findings(name, table[list(find(name).columns)], ENVIRONMENT, "2026-11-21")


def split_times(**changed):
    """Return the times of the variants, some of them changed, by keywords with underscores."""
    return TIMES | {name.replace("_", " "): value for name, value in changed.items()}


def time_split(vector=None, scalar=None):
    """Return a split of these times in float64 with a warm cache; with a cold one everything takes twice as long."""
    kernels = {"vector": (8, vector or TIMES), "scalar": (1, scalar or TIMES)}
    return of_matrices(
        "time-split",
        [
            {
                "dtype": dtype,
                "kernel": kernel,
                "threads_per_row": threads,
                "variant": variant,
                "cache": cache,
                "median_us": us * slower,
            }
            for dtype in ("float64", "float32")
            for kernel, (threads, times) in kernels.items()
            for cache, slower in (("warm", 1), ("cold", 2))
            for variant, us in times.items()
        ],
    )


READ = {1: 2000.0, 2: 2500.0, 8: 3000.0, 16: 2400.0, 64: 1000.0}
PRODUCT = {1: 1000.0, 2: 2000.0, 8: 2500.0, 16: 2400.0}


def strip_height(read=None, product=None):
    """Return findings with these bandwidths in GB/s by height, for both value types, with a cold cache."""
    rows = []
    for dtype in ("float64", "float32"):
        for kernel, by_height in (("stream", read or READ), ("strips", read or READ), ("cmrs", product or PRODUCT)):
            for height, rate in by_height.items():
                moved = 1_000_000
                known = {"dtype": dtype, "kernel": kernel, "height": height, "bytes": moved}
                known["occupancy"] = None if kernel == "cmrs" else min(1.0, 13 / height)
                known["bytes_beta_minus"] = 2 * moved if kernel == "cmrs" else moved
                rows += [known | {"cache": cache, "median_us": moved / rate / 1e3} for cache in ("cold", "warm")]
    return of_matrices("strip-height", rows)

"""Sweeps whose best choices are known functions of the features, large enough to train on."""

from __future__ import annotations

import numpy as np

from training.training_tables import build, facts, measurement
from warploom.bench.oracle import PAPER_SPMM
from warploom.training.row_order import FOUR_TECHNIQUES
from warploom.training.threads_per_row import CANDIDATES

TELLING = ("spmm_num_rows", "spmm_warp_load_mean", "spmm_warp_load_max", "spmm_adjacent_vector_distance_mean")


def spmm(matrices=80):
    """Return measurements with a cold cache: load balance and data locality determine which order is the fastest."""
    random = np.random.default_rng(3)
    known, rows = [], []
    for i in range(matrices):
        values = {name: float(2 ** random.uniform(0, 5)) for name in TELLING}
        known.append(facts(f"g/m{i}") | values)
        base = 5 * values["spmm_num_rows"]
        divisors = (6.0, *(values[name] for name in TELLING[1:]))
        for candidate, divisor in zip(FOUR_TECHNIQUES.values(), divisors, strict=True):
            row = measurement(f"g/m{i}", candidate, 6 * base / divisor, setting="spmm/float32/column/k=8", cache="cold")
            rows.append(row | {"setting": PAPER_SPMM, "k": 10})
    return build(known, rows)


def of_mean(mean, nnz):
    """Return microseconds of `CANDIDATES`: as many threads are best as the mean row has nonzeros."""
    return [(2 + nnz / 1e5) * (1 + 0.3 * abs(np.log2(mean) - 1 - i)) for i in range(5)]


def matrix(name, mean, rows, longest=None):
    """Return a row of the table of matrices."""
    nnz = rows * mean
    return facts(name) | {
        "rows": rows,
        "cols": rows,
        "nnz": int(nnz),
        "spmv_num_rows": float(rows),
        "spmv_num_cols": float(rows),
        "spmv_nnz": float(nnz),
        "spmv_density": mean / rows,
        "spmv_nnz_per_row_mean": float(mean),
        "spmv_sqrt_nnz_per_row_mean": float(mean) ** 0.5,
        "spmv_nnz_per_row_max": float(longest or 2 * mean),
    }


def spmv(matrices=90, blocks=False):
    """Return measurements of CSR-vector; with blocks, of both halves of regular matrices, and of irregular ones too."""
    random = np.random.default_rng(5)
    known = []
    for i in range(matrices):
        mean, rows = 2 ** random.uniform(0.6, 5.4), int(2 ** random.uniform(6, 18))
        irregular = blocks and i % 4 == 0
        whole = matrix(f"g/m{i}", mean, rows, 900 if irregular else None)
        known.append(whole)
        if irregular:
            known.append(matrix(f"g/m{i}[0:{rows // 3}]", mean, max(1, rows // 3)))
        elif blocks:
            halves = f"g/m{i}[0:{rows // 2}]", f"g/m{i}[{rows // 2}:{rows}]"
            known += [matrix(name, mean, max(1, rows // 2)) for name in halves]
    rows_of = [
        measurement(one["matrix"], candidate, us, setting="spmv/float64", cache="warm")
        for one in known
        for candidate, us in zip(CANDIDATES, of_mean(one["spmv_nnz_per_row_mean"], one["spmv_nnz"]), strict=True)
    ]
    return build(known, rows_of)

"""Small sweeps of row orders, in which load balance and data locality tell the best."""

from __future__ import annotations

import numpy as np

from training.training_tables import build, facts, measurement
from warploom.bench.oracle import PAPER_SPMM
from warploom.training.row_order import (
    FOUR_TECHNIQUES,
)


def times(values):
    """The best order follows from load balance and data locality, not from the size of the matrix."""
    base = 5 * values["spmm_num_rows"]
    return {
        "CSR": base,
        "DCSR": base * 6 / values["spmm_warp_load_mean"],
        "LPT": base * 6 / values["spmm_warp_load_max"],
        "warp-aware": base * 6 / values["spmm_adjacent_vector_distance_mean"],
    }


TELLING = ("spmm_num_rows", "spmm_warp_load_mean", "spmm_warp_load_max", "spmm_adjacent_vector_distance_mean")


def sweep(matrices=120, techniques=FOUR_TECHNIQUES, lacking=()):
    random = np.random.default_rng(3)
    known, rows = [], []
    for i in range(matrices):
        values = {name: float(2 ** random.uniform(0, 5)) for name in TELLING}
        known.append(facts(f"g/m{i}") | values)
        of_four = times(values)
        for name, candidate in techniques.items():
            failed = (i, name) in lacking
            for cache, slow in (("warm", 1), ("cold", 2)):
                time = None if failed else slow * of_four.get(name, 1.5 * of_four["CSR"])
                row = measurement(
                    f"g/m{i}",
                    candidate,
                    time,
                    setting="spmm/float32/column/k=8",
                    cache="" if failed else cache,
                    status="time limit" if failed else "ok",
                )
                rows.append(row | {"setting": PAPER_SPMM, "k": 10})
                if failed:
                    break
    return build(known, rows)

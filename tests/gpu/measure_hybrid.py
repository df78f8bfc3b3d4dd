"""Measure the hybrid of column vectors and rows in float16 against either kernel alone, and cuSPARSE.

``python tests/gpu/measure_hybrid.py [MATRIX...]`` prints, for each matrix and k = 32 and 128 (row-major, warm cache),
the fastest candidate of each group: row_split on segments and on CSR, column vectors, every setting of the hybrid, and
cuSPARSE on CSR; which share of the rows and nonzeros the hybrid stores as vectors; and what its
conversion takes on the GPU. MATRIX is one of those that are constructed here, of tests/gpu/measure_half.py, or the path
of an .npz file that SciPy has written. Every candidate is verified before it is timed.
"""

from __future__ import annotations

import argparse
import math
import statistics
from typing import Any

import numpy as np
import scipy.sparse
import torch

import measure_half
import warploom as wl
from warploom import corpus
from warploom.formats import HybridVectors

HYBRID = "spmm/none/hybrid-vectors/tensor_core"
GROUPS = {
    "rows": ["spmm/none/segmented-csr/row_split*", "spmm/none/csr/row_split*"],
    "vectors": ["spmm/none/column-vectors/tensor_core", "spmm/none/column-vectors/tensor_core[[]*"],
    "hybrid": [
        f"{HYBRID}[nonzeros_per_vector={least},segment_length={length},launches={launches}]"
        for least in (2, 3, 4, 6)
        for length in (64, 128, 256)
        for launches in (1, 2)
    ],
    "cuSPARSE": ["spmm/none/csr/cusparse*"],
}


def _both_kinds() -> Any:
    """Finite elements of 6 unknowns a node and a power-law graph, of about as many nonzeros, in turns of 64 rows."""
    parts = [measure_half._fem_blocks(120), measure_half._rmat(17, 24)]
    together = scipy.sparse.block_diag(parts, format="csr")
    first = parts[0].shape[0]
    turn = np.r_[np.arange(first) // 64, np.arange(together.shape[0] - first) // 64]
    return together[np.argsort(turn, kind="stable")]


CONSTRUCTED = {
    "both_kinds": _both_kinds,
    "dense_communities": lambda: corpus.load(measure_half.CONSTRUCTED["dense_communities_60k_200"]),
    "knn3d_natural": lambda: corpus.load(measure_half.CONSTRUCTED["knn3d_500k_16_natural"]),
    **measure_half.MATRICES,
}


def conversion_ms(matrix: Any) -> float:
    """Return what converting to hybrid-vectors takes for a matrix that is on the GPU."""
    indptr, indices, data = (torch.from_numpy(array).cuda() for array in (matrix.indptr, matrix.indices, matrix.data))
    A = wl.CSR(indptr, indices, data.half(), matrix.shape)
    plans = [wl.plan(A, k=32, device="cuda", select=HYBRID) for _ in range(7)]
    return statistics.median(plan.preparation_ms["conversion"] for plan in plans[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="MATRIX")
    for name in parser.parse_args().names or ["both_kinds", "poisson27_80", "fem_blocks_6x6", "dense_communities"]:
        how = CONSTRUCTED.get(name)
        matrix = measure_half._normal(how() if how else scipy.sparse.load_npz(name))
        stored = HybridVectors.from_csr(matrix)
        rows, vectors = len(stored.vector_rows) / matrix.shape[0], max(1, len(stored.vectors.indices))
        print(
            f"{name}: {matrix.shape[0]:,} rows, {matrix.nnz:,} nonzeros; as vectors {rows:.0%} of the rows, "
            f"{stored.vectors.nnz / matrix.nnz:.0%} of the nonzeros, {stored.vectors.nnz / vectors:.2f} a vector; "
            f"conversion {conversion_ms(matrix):.2f} ms",
            flush=True,
        )
        for k in (32, 128):
            for group, candidates in GROUPS.items():
                try:
                    plan = wl.plan(
                        matrix,
                        k=k,
                        dtype="float16",
                        device="cuda",
                        select="measure",
                        candidates=candidates,
                        budget=math.inf,
                        calls=math.inf,
                        progress=False,
                    )
                except wl.errors.WarploomError as error:
                    print(f"  k={k:3} {group:12} {error}", flush=True)
                    continue
                measured = [row for row in plan.explain().rows if row.median_us > 0]
                for row in sorted(measured, key=lambda row: row.median_us)[: 8 if group == "hybrid" else 2]:
                    print(f"  k={k:3} {group:12} {row.median_us:8.1f} us  {row.candidate}", flush=True)


if __name__ == "__main__":
    main()

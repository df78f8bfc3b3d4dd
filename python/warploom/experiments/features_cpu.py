"""What features cost on the CPU, beside one product y = A x of SciPy, and the validation of the matrix.

SciPy's product in float64 takes one thread. `warploom.experiments.features` measures the same for matrices in the
memory of a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from warploom import corpus, features
from warploom._device import Device
from warploom._matrix import as_csr
from warploom.experiments._wall_clock import median_us, num_threads
from warploom.experiments.registry import Progress, register

__all__ = ["MATRICES", "cost", "features_cpu"]

MATRICES = tuple(
    name
    for rows in (10_000, 100_000, 1_000_000)
    for name in (
        f"banded(n={rows},lower=4,upper=5)",
        f"banded(n={rows // 10},lower=49,upper=50)",
        f"uniform(m={rows},n={rows},per_row=10)",
        f"uniform(m={rows // 10},n={rows // 10},per_row=100)",
        f"power_law_rows(m={rows},n={rows},shortest=5)",
    )
)
"""Constructions of 10^5, 10^6 and 10^7 nonzeros, with 10 or 100 nonzeros in a row."""

_REPEATS = 30


@register(
    "features-cpu",
    "Cost of features on the CPU",
    kind="cpu",
    columns={
        "matrix": "name of the construction",
        "rows": "rows",
        "nnz": "nonzeros",
        "threads": "threads of warploom",
        "product_us": "one product in float64 of SciPy, on one thread, microseconds",
        "eleven_us": "the eleven features for SpMV, microseconds",
        "twenty_four_us": "the 24 features for SpMM, microseconds",
        "view_us": "validation of SciPy's matrix, with which every call on one starts, microseconds",
    },
)
def features_cpu(device: Device, progress: Progress, matrices: Iterable[str] | None = None) -> pd.DataFrame:
    """Measure both sets of features on one thread and on all.

    Parameters
    ----------
    device : Device
        The CPU.
    progress : callable
        Told of every matrix.
    matrices : iterable of str, optional
        Names for `warploom.corpus.load`; `MATRICES` if not given.

    Returns
    -------
    pandas.DataFrame
        Two rows for each matrix.
    """
    chosen = list(MATRICES if matrices is None else matrices)
    rows = []
    for done, name in enumerate(chosen):
        progress(done, len(chosen), f"features-cpu: {name}")
        A = corpus.load(name)
        rows += [{"matrix": name, **cost(A, threads)} for threads in (1, 0)]
    return pd.DataFrame(rows)


def cost(A: scipy.sparse.csr_array, threads: int, repeats: int = _REPEATS) -> dict[str, Any]:
    """Measure one matrix.

    Parameters
    ----------
    A : csr_array, shape (m, n)
    threads : int
        Of warploom; 0 for all.
    repeats : int

    Returns
    -------
    dict
        All columns of the experiment but the name.
    """
    x = np.ones(A.shape[1])
    view = as_csr(A, pattern_only=True)
    with num_threads(threads) as count:
        return {
            "rows": A.shape[0],
            "nnz": A.nnz,
            "threads": count,
            "product_us": median_us(lambda: A @ x, repeats),
            "eleven_us": median_us(lambda: features.spmv(view), repeats),
            "twenty_four_us": median_us(lambda: features.spmm(view), repeats),
            "view_us": median_us(lambda: as_csr(A, pattern_only=True), repeats),
        }

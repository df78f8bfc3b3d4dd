"""The cost of features of matrices in GPU memory, as section 6.2 of Gao et al. (2024) counts it.

The unit is one product y = A x in float64 of CSR-vector with 32 threads per row, timed between events on the device
with whatever of A fits in the L2 cache. Features are timed by the wall clock from the call until their values are on
the host, since this is what a caller waits for. Medians of both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from warploom import _core, corpus
from warploom import features as feature_sets
from warploom._device import Device
from warploom._matrix import as_csr
from warploom.candidates import parse
from warploom.corpus import Entry
from warploom.experiments._wall_clock import median_us
from warploom.experiments.registry import Progress, register

__all__ = ["COUNT", "UNIT", "cost", "features_call", "matrices", "measure"]

UNIT = "spmv/none/csr/vector"
"""The candidate whose product is the unit; its default is 32 threads per row."""
COUNT = 60
"""Matrices."""
_LEAST_NNZ, _MOST_NNZ = 1_000, 50_000_000
_REPEATS = 30


def matrices() -> list[Entry]:
    """Return constructions of the standard corpus at equal ratios of nonzeros, each size of another family if possible.

    Returns
    -------
    list of Entry
        `COUNT` or fewer, with 10^3 to 5*10^7 nonzeros, the smallest first.
    """
    known = [
        entry
        for entry in corpus.standard("spmv")
        if entry.source == "construction" and _LEAST_NNZ <= (entry.nnz or 0) <= _MOST_NNZ
    ]
    nnz = np.log([float(entry.nnz or 1) for entry in known])
    used: dict[str, int] = {}
    chosen: dict[str, Entry] = {}
    for target in np.linspace(np.log(_LEAST_NNZ), np.log(_MOST_NNZ), COUNT):
        near = sorted(range(len(known)), key=lambda i: (abs(nnz[i] - target), known[i].name))[:10]
        best = min((known[i] for i in near), key=lambda entry: used.get(entry.family, 0))
        used[best.family] = used.get(best.family, 0) + 1
        chosen[best.name] = best
    return sorted(chosen.values(), key=lambda entry: (entry.nnz or 0, entry.name))


@register(
    "features",
    "Cost of features of matrices in GPU memory",
    items=("G-ovh",),
    columns={
        "matrix": "name in the corpus",
        "rows": "rows",
        "nnz": "nonzeros",
        "spmv_us": "one product in float64 of CSR-vector with 32 threads per row, microseconds",
        "eleven_us": "the eleven features for SpMV, microseconds",
        "twenty_four_us": "the 24 features for SpMM, microseconds",
    },
)
def measure(device: Device, progress: Progress) -> pd.DataFrame:
    """Measure both sets of features and the product on the matrices of `matrices`.

    Parameters
    ----------
    device : Device
    progress : callable

    Returns
    -------
    pandas.DataFrame
        A row for each matrix.

    Raises
    ------
    DeviceError, OutOfMemoryError
        The work on the GPU fails.
    """
    chosen = matrices()
    rows = []
    for done, entry in enumerate(chosen):
        progress(done, len(chosen), entry.name)
        rows.append({"matrix": entry.name, **cost(entry.load(), device)})
    return pd.DataFrame(rows)


def cost(A: scipy.sparse.csr_array, device: Device, repeats: int = _REPEATS) -> dict[str, Any]:
    """Measure one matrix.

    Parameters
    ----------
    A : csr_array, shape (m, n)
    device : Device
        On the CPU, features and product are those of the CPU.
    repeats : int

    Returns
    -------
    dict
        ``rows``, ``nnz``, and medians in microseconds: ``spmv_us``, ``eleven_us``, ``twenty_four_us``.
    """
    problem = _core.Problem(as_csr(A, dtype=np.float64), "spmv", 1, "column", "warm", device.number)
    plan = _core.prepare(problem, parse(UNIT))
    product = _core.Trial(problem).time(plan, cache="warm", repeats=repeats, warmup=4, budget_ms=1000.0)
    return {
        "rows": A.shape[0],
        "nnz": A.nnz,
        "spmv_us": product.median,
        "eleven_us": median_us(features_call(problem, "spmv"), repeats),
        "twenty_four_us": median_us(features_call(problem, "spmm"), repeats),
    }


def features_call(problem: _core.Problem, of: str) -> Callable[[], object]:
    """Return a function that computes a set of features, where the matrix of the problem is."""
    if problem.device < 0:
        return functools.partial(getattr(feature_sets, of), problem.matrix)
    return functools.partial(_core.compute_features_device, of, problem.resident())

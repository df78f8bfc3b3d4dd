"""What row permutations cost on the CPU, beside a brute-force search over packed masks.

The brute force is "cta-aware" on one thread: masks packed into 64-bit words, one population count instruction per word,
only the rows that remain. It runs in full, without extrapolation, and must return the very same permutation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom import _core, corpus
from warploom import permutations as algorithms
from warploom._device import Device
from warploom._matrix import as_csr
from warploom.experiments._wall_clock import median_us, num_threads
from warploom.experiments.registry import Progress, register

__all__ = ["BRUTE_FORCE", "MATRICES", "permutations"]

BRUTE_FORCE = "brute force"
MATRICES = (
    "uniform(m=30000,n=30000,per_row=20)",
    "random_banded(n=30000,half_width=40,percent=25)",
    "power_law_rows(m=30000,n=30000,shortest=4,exponent_tenths=13,skew=4)",
)
"""Of 30,000 rows: nearly every mask is different; few different masks; column blocks that many rows use."""

_REPEATS = 3


@register(
    "permutations",
    "Cost of row permutations on the CPU",
    kind="cpu",
    columns={
        "matrix": "name of the construction",
        "rows": "rows",
        "nnz": "nonzeros",
        "permutation": f"name, or {BRUTE_FORCE}: cta-aware without anything that makes it faster",
        "threads": "threads of warploom; the brute force has one",
        "median_us": "median time, in microseconds",
        "repeats": "timed runs",
    },
)
def permutations(device: Device, progress: Progress, matrices: Iterable[str] | None = None) -> pd.DataFrame:
    """Measure every row permutation on one thread, and the brute force.

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
        A row for each matrix and permutation.

    Raises
    ------
    RuntimeError
        "cta-aware" differs from the brute force.
    """
    chosen = list(MATRICES if matrices is None else matrices)
    rows = []
    for done, name in enumerate(chosen):
        progress(done, len(chosen), f"permutations: {name}")
        view = as_csr(corpus.load(name), pattern_only=True)
        calls: dict[str, Callable[[], NDArray[np.integer]]] = {
            BRUTE_FORCE: functools.partial(_core._cta_aware_by_brute_force, view),
            **{algorithm: functools.partial(algorithms.compute, algorithm, view) for algorithm in algorithms.names()},
        }
        if not np.array_equal(calls["cta-aware"](), calls[BRUTE_FORCE]()):
            raise RuntimeError(f"cta-aware differs from brute force on {name}")
        known = {"matrix": name, "rows": view.shape[0], "nnz": view.nnz}
        with num_threads(1) as threads:
            rows += [
                known
                | {
                    "permutation": permutation,
                    "threads": threads,
                    "median_us": median_us(call, _REPEATS, warmup=0),
                    "repeats": _REPEATS,
                }
                for permutation, call in calls.items()
            ]
    return pd.DataFrame(rows)

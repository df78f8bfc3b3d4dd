"""Gao et al. (2024): what figures of measured times compare, and the tables that they share.

In float64 with a warm L2 cache, as in the paper.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.bench.medians import geometric_mean
from warploom.reproduce.csr_vector import VECTOR, by_mean, by_square_root
from warploom.reproduce.sweep import Sweep
from warploom.training.threads_per_row import THREADS

__all__ = [
    "DOUBLE",
    "FEWEST",
    "PEERS",
    "SINGLE",
    "SOME_ROWS",
    "WITH_PEERS",
    "optimum",
    "peers",
    "speedup_table",
    "time_with",
    "win_counts",
]

PEERS = {
    "cuSPARSE": "spmv/none/csr/cusparse",
    "merge-based": "spmv/none/csr/merge",
    "CSR-adaptive": "spmv/none/csr/adaptive",
}
SOME_ROWS = ("4", "8", "16")
DOUBLE = Sweep("spmv/float64", "warm", VECTOR, transposes=True, optional=SOME_ROWS)
SINGLE = Sweep("spmv/float32", "warm", VECTOR, transposes=True, optional=SOME_ROWS)
WITH_PEERS = Sweep("spmv/float64", "warm", {**VECTOR, **PEERS}, transposes=True, optional=SOME_ROWS)


# Sweeps leave out numbers of threads for which the longest row has too little work; those are not optima.
FEWEST = ("2", "32")


def optimum(times: pd.DataFrame) -> NDArray[np.int64]:
    """Return the numbers of threads with the minimum times; a number that was not measured is not an optimum."""
    chosen: NDArray[np.int64] = np.array(THREADS, dtype=np.int64)[
        times[list(VECTOR)].fillna(np.inf).to_numpy().argmin(axis=1)
    ]
    return chosen


def time_with(times: pd.DataFrame, threads: NDArray[np.int64]) -> pd.Series:
    """Return the times with each matrix's number of threads."""
    places = np.searchsorted(THREADS, threads)
    return pd.Series(times[list(VECTOR)].to_numpy()[np.arange(len(times)), places], index=times.index)


def peers(times: pd.DataFrame, sizes: pd.DataFrame) -> pd.DataFrame:
    """Return the times of the algorithms that are compared: the formulas, the others', and the best threads per row."""
    return pd.DataFrame(
        {
            "TpR 16": times["16"],
            "TpR_mean": time_with(times, by_mean(sizes)),
            "TpR_SqMean": time_with(times, by_square_root(sizes)),
            **{name: times[name] for name in PEERS},
            "optimal": times[list(VECTOR)].min(axis=1),
        }
    )


def speedup_table(times: pd.DataFrame, base: str = "TpR 16", **more: pd.Series) -> pd.DataFrame:
    """Return arithmetic and geometric mean, maximum and minimum speedup over a column, for every other column.

    Parameters
    ----------
    times : pandas.DataFrame
    base : str
        A column.
    **more : pandas.Series
        Speedups of other matrices, for more lines; empty ones make none.
    """
    speedups = dict(times.rdiv(times[base], axis=0).drop(columns=base).items())
    speedups |= {name: values for name, values in more.items() if len(values)}
    return pd.DataFrame(
        [
            (
                name,
                float(values.mean()),
                geometric_mean(values.dropna()),
                float(values.max()),
                float(values.min()),
            )
            for name, values in speedups.items()
        ],
        columns=["algorithm", "arithmetic mean", "geometric mean", "max", "min"],
    )


def win_counts(times: pd.DataFrame) -> pd.DataFrame:
    """Count on how many matrices each column is the fastest."""
    fastest = times.idxmin(axis=1).value_counts().reindex(times.columns, fill_value=0)
    return pd.DataFrame(
        {"algorithm": fastest.index, "matrices": fastest.to_numpy(), "share": fastest.to_numpy() / len(times)}
    )

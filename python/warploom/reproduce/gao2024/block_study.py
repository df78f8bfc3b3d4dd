"""Threads per row that models choose for blocks of short rows, as in section 4.3 of Gao et al. (2024)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pandas as pd

from warploom.bench.measurements import Measurements
from warploom.predictor import Model
from warploom.reproduce.gao2024.shuffle import Shuffle, judge_choices
from warploom.training.data import Dataset, fastest
from warploom.training.families import FAMILIES
from warploom.training.threads_per_row import (
    CANDIDATES,
    THREADS,
    blocks_data,
    choose,
    search_families,
    whole_name,
)

__all__ = ["BlockwiseStudy", "study_blocks"]


@dataclasses.dataclass(frozen=True, eq=False)
class BlockwiseStudy:
    """Selection for blocks of short rows.

    Attributes
    ----------
    optima : pandas.DataFrame
        Of the training blocks, as in figure 5: ``threads``, ``blocks``.
    result : Shuffle
        Trained on slices of regular matrices, scored on the short-row blocks of irregular ones; ``relaxed accuracy``
        of table 9 is the figure ``within_2`` of ``result.chosen``.
    whole : pandas.DataFrame
        For each irregular matrix whose blocks were measured, times in microseconds of the whole product: ``global 16``,
        and ``blockwise model``, with one number of threads for all its short-row blocks, that predicted for the block
        with most nonzeros. NaN where nothing was measured.
    unknown : int
        Blocks left out because the whole matrix was not measured: it is not known whether it is irregular.
    """

    optima: pd.DataFrame
    result: Shuffle
    whole: pd.DataFrame
    unknown: int


def study_blocks(
    measurements: Measurements,
    dtype: str = "float64",
    cache: str = "warm",
    *,
    families: Iterable[str] = tuple(FAMILIES),
    trials: int = 16,
    folds: int = 4,
    objective: str = "loss",
    seed: int = 0,
    samples: int = 1000,
) -> BlockwiseStudy:
    """Train on slices of regular matrices, choose for the short-row blocks of irregular ones.

    Parameters
    ----------
    measurements : Measurements
    dtype : str
    cache : {"warm", "cold"}
    families, trials, folds, objective, seed, samples
        See `shuffle`.

    Returns
    -------
    BlockwiseStudy

    Raises
    ------
    ParameterError
        See `blocks_data`.
    """
    known, test, unknown = blocks_data(measurements, dtype, cache)
    best, model, table = search_families(
        known, test, families, trials=trials, folds=folds, objective=objective, seed=seed
    )
    return BlockwiseStudy(
        optima=_optima(known),
        result=judge_choices(seed, best, model, table, test, samples),
        whole=_whole_products(Dataset.of(measurements, f"spmv/{dtype}", cache), test, model),
        unknown=unknown,
    )


def _optima(dataset: Dataset) -> pd.DataFrame:
    counts = np.bincount(fastest(dataset), minlength=len(THREADS))
    return pd.DataFrame({"threads": THREADS, "blocks": counts})


def _whole_products(everything: Dataset, test: Dataset, model: Model) -> pd.DataFrame:
    chosen = pd.DataFrame({"matrix": map(whole_name, test.names), "nnz": test.nnz, "column": choose(model, test)})
    largest = chosen.sort_values("nnz", kind="stable").drop_duplicates("matrix", keep="last").set_index("matrix")
    whole = everything.rows(np.isin(everything.names, largest.index.to_numpy().astype(str)))
    blockwise = [f"spmv/none/csr/blockwise[threads_per_row={threads}]" for threads in THREADS]
    by_threads = np.stack([whole.times_of(name) for name in blockwise], axis=1)
    columns = largest["column"].reindex(whole.names).to_numpy(np.intp)
    return pd.DataFrame(
        {
            "matrix": whole.names,
            "global 16": whole.times_of(CANDIDATES[THREADS.index(16)]),
            "blockwise model": by_threads[np.arange(len(whole)), columns],
        }
    )

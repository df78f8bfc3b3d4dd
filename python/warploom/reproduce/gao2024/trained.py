"""Gao et al. (2024): models that choose the threads per row of CSR-vector, trained on the measurements at hand.

In float64 with a warm L2 cache, as in the paper. Models are trained when the first item asks for them, on three
quarters of the matrices in four shuffles; what is shown is how they choose for the others. The parameters of the
families are those that searches found before, and cross-validation picks the family;
``warploom.training.threads_per_row.train`` searches the parameters too, which takes minutes.
"""

from __future__ import annotations

import pandas as pd

from warploom.errors import ParameterError
from warploom.reproduce.context import Context, MissingMeasurementsError
from warploom.reproduce.csr_vector import VECTOR
from warploom.reproduce.gao2024.block_study import BlockwiseStudy, study_blocks
from warploom.reproduce.gao2024.shuffle import Shuffle, shuffle
from warploom.reproduce.sweep import Sweep
from warploom.training.data import Dataset, random_splits
from warploom.training.threads_per_row import threads_per_row_data

__all__ = [
    "SAMPLES",
    "SHUFFLES",
    "SWEEP",
    "blocks",
    "halves",
    "matrices",
    "predicted_blockwise_speedups",
    "predicted_speedups",
    "shuffles",
    "trained_caption",
]

SHUFFLES = (0, 1, 2, 3)
SAMPLES = 100
"""Bootstrap samples for intervals."""

_FAMILIES = ("boosted trees", "extra trees", "decision tree")
_FOLDS = 3
_FEWEST = 20
SWEEP = Sweep("spmv/float64", "warm", VECTOR, transposes=True, optional=("4", "8", "16"))
_BLOCKS_COMMAND = (
    "warploom bench run --output sweep --corpus blocks --setting spmv/float64 "
    "--candidates 'spmv/none/csr/scalar' --candidates 'spmv/none/csr/vector*'"
)


def matrices(context: Context) -> Dataset:
    """Return the times of whole matrices and transposes, and their features.

    Raises
    ------
    MissingPackagesError
        The packages that train the models are not installed.
    MissingMeasurementsError
        There are fewer than 20 matrices with times and features.
    """
    return context.once("threads per row", lambda: _matrices(context))


def _matrices(context: Context) -> Dataset:
    context.needs_training("sklearn", "lightgbm", "optuna")
    times = context.times(SWEEP, ("2", "32"))
    if len(times) < _FEWEST:
        raise context.missing(
            f"times of CSR-vector for {_FEWEST} matrices, which training needs; there are {len(times)}",
            SWEEP.command(),
        )
    assert context.measurements is not None  # or `times` would have raised
    try:
        return threads_per_row_data(context.measurements, "float64", SWEEP.cache)[0]
    except ParameterError as error:
        raise context.missing(f"complete times and features of whole matrices ({error})", SWEEP.command()) from error


def shuffles(context: Context) -> list[Shuffle]:
    """Train on three quarters of the matrices and choose for the others, four times; errors as of `matrices`."""
    return context.once("threads per row: shuffles", lambda: _shuffles(matrices(context)))


def _shuffles(dataset: Dataset) -> list[Shuffle]:
    return [
        shuffle(dataset, seed, families=_FAMILIES, trials=1, folds=_FOLDS, objective="accuracy", samples=SAMPLES)
        for seed in SHUFFLES
    ]


def predicted_speedups(context: Context) -> pd.Series:
    """Return the speedups of the predicted threads per row over 16 on the held-out matrices of all shuffles.

    Returns
    -------
    pandas.Series
        Without those that were not measured with 16. Empty where models cannot be trained.
    """
    try:
        rows = pd.concat([one.chosen.rows for one in shuffles(context)], ignore_index=True)
    except MissingMeasurementsError:
        return pd.Series(dtype=float)
    return (rows["baseline_us"] / rows["chosen_us"]).dropna()


def predicted_blockwise_speedups(context: Context) -> pd.Series:
    """Return the speedups of blockwise SpMV with predicted threads per row over 16 for the whole matrix.

    Returns
    -------
    pandas.Series
        Of irregular matrices that no model has seen. Empty where models cannot be trained.
    """
    try:
        whole = blocks(context).whole
    except MissingMeasurementsError:
        return pd.Series(dtype=float)
    return (whole["global 16"] / whole["blockwise model"]).dropna()


def halves(context: Context) -> tuple[Dataset, Dataset]:
    """Return the training set and the held-out set of the first shuffle."""
    dataset = matrices(context)
    known, test = next(iter(random_splits(dataset, 0.25, SHUFFLES[:1])))
    return dataset.rows(known), dataset.rows(test)


def blocks(context: Context) -> BlockwiseStudy:
    """Train on slices of regular matrices, and choose for short-row blocks of irregular ones.

    Raises
    ------
    MissingPackagesError
        The packages that train the models are not installed.
    MissingMeasurementsError
        No blocks were measured, or too few.
    """
    return context.once("threads per row: blocks", lambda: _blocks(context))


def _blocks(context: Context) -> BlockwiseStudy:
    context.needs_training("sklearn", "lightgbm", "optuna")
    if context.measurements is None:
        raise context.missing("times of blocks of rows", _BLOCKS_COMMAND)
    try:
        return study_blocks(
            context.measurements,
            "float64",
            SWEEP.cache,
            families=_FAMILIES,
            trials=1,
            folds=_FOLDS,
            objective="accuracy",
            samples=SAMPLES,
        )
    except ParameterError as error:
        raise context.missing(f"times of blocks of rows that can be trained on ({error})", _BLOCKS_COMMAND) from error


def trained_caption(context: Context, text: str) -> str:
    """Return a caption that says also on how many matrices models were trained and tested."""
    train, test = (len(part) for part in halves(context))
    return context.caption(f"{text} {train:,} matrices to train, {test:,} to test.", SWEEP, matrices(context).names)

"""Mehrabi et al. (2021): models that choose the order of the rows, trained on the measurements at hand.

The measurements are those of the items without models: float32, both dense matrices column-major and B square, the L2
cache emptied before each product. Models are trained when the first item asks for them, on 80 % of the matrices, in
three splits (the paper has one); what is shown is how they choose on the matrices that were held out. Training takes
fewer and larger steps than `warploom.training.row_order.train` does, for 0.3 to 0.4 percentage points of loss.
"""

from __future__ import annotations

import dataclasses

from warploom.bench.oracle import PAPER_SPMM
from warploom.errors import ParameterError
from warploom.reproduce.context import Context
from warploom.reproduce.mehrabi2021.study import TOPOLOGIES, RowOrderStudy, study
from warploom.reproduce.sweep import Sweep
from warploom.training.row_order import CLASSIFIER, FOUR_TECHNIQUES, REGRESSION, row_order_data

__all__ = ["CLASSES", "EPOCHS", "SWEEP", "chosen_orders", "trained_caption"]

CLASSES = {"csr": "CSR", "dcsr": "DCSR", "lpt": "LPT", "warp-aware": "warp-aware"}
"""The four classes, by what colours are called, as pictures call them."""

SWEEP = Sweep(PAPER_SPMM, "cold", {name: FOUR_TECHNIQUES[label] for name, label in CLASSES.items()})
_SPLITS = (0, 1, 2)
_SAMPLES = 100
_FEWEST = 20
_BATCHES, EPOCHS, _RATE = 10, 60, 0.01


def chosen_orders(context: Context) -> RowOrderStudy:
    """Train the models of the paper, once for each context, and choose for held-out matrices.

    Raises
    ------
    MissingPackagesError
        PyTorch or scikit-learn are not installed.
    MissingMeasurementsError
        There are fewer than 20 matrices with the times of all four classes and their features.
    """
    return context.once("row orders", lambda: _study(context))


def _study(context: Context) -> RowOrderStudy:
    context.needs_training("torch", "sklearn", "lightgbm")
    times = context.times(SWEEP)
    if len(times) < _FEWEST:
        raise context.missing(
            f"times of {', '.join(CLASSES)} for {_FEWEST} matrices, which training needs; there are {len(times)}",
            SWEEP.command(),
        )
    assert context.originals is not None  # or `times` would have raised
    try:
        dataset, left_out = row_order_data(context.originals, SWEEP.cache)
    except ParameterError as error:
        raise context.missing(f"features of the matrices ({error})", SWEEP.command()) from error
    batch = max(4, int(0.8 * len(dataset)) // _BATCHES)
    regression, classifier = (
        dataclasses.replace(options, rate=_RATE, epochs=EPOCHS, batch=batch) for options in (REGRESSION, CLASSIFIER)
    )
    return study(
        dataset,
        left_out=left_out,
        seeds=_SPLITS,
        regression=regression,
        classifier=classifier,
        topologies=TOPOLOGIES,
        samples=_SAMPLES,
    )


def trained_caption(context: Context, study: RowOrderStudy, text: str) -> str:
    """Return a caption that says also on how many matrices models were trained and tested."""
    rows = study.regression.rows
    splits = rows["split"].nunique()
    tested = (
        f" {len(study.names) - len(rows) // splits:,} matrices to train and {len(rows) // splits:,} to test in each of "
        f"{splits} splits; {study.left_out:,} more lack a time."
    )
    return context.caption(f"{text}{tested}", SWEEP, study.names)

"""By how much a network counts beside trees, setting by setting.

Trees and networks err in different ways, so that the average of what they predict can choose better than either. What
both predict for families of matrices that they have not seen decides whether it does, and how much the network counts;
what they predict in random folds has to agree.
Nothing is trained for it: plans evaluate both, and average the logarithms that they predict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warploom.training.data import Dataset
from warploom.training.evaluate import losses
from warploom.training.selector import unseen_losses
from warploom.training.train import HeldOut, Unseen, held_out, of_its_type

__all__ = ["LEAST_GAIN", "SHARES", "average", "averaged", "blends", "speed"]

SHARES = (0.2, 0.3, 0.4, 0.5, 0.6)
"""By how much a network may count; trees count by the rest."""

LEAST_GAIN = 0.001
"""What a blend has to add to the share of the fastest, with families left out, to be taken: less is noise, and so is a
loss of less in random folds."""


def average(trees: NDArray[np.float64], network: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Return the weighted mean of what two models predict.

    Parameters
    ----------
    trees, network : ndarray of float64, shape (n, candidates)
        Logarithms; infinite for candidates that a model does not know, for which the other one is believed.
    share : float
        By how much the network counts.
    """
    known = np.isfinite(trees) & np.isfinite(network)
    both = (1 - share) * np.where(known, trees, 0.0) + share * np.where(known, network, 0.0)
    return np.where(known, both, np.fmin(trees, network))


def averaged(trees: Unseen, network: Unseen, share: float, dataset: Dataset) -> Unseen:
    """Return what the average of both predicts for rows that neither has seen.

    Parameters
    ----------
    trees, network : Unseen
        Of the same rows; a row need not be held out by the same split.
    share : float
        By how much the network counts.
    dataset : Dataset
        What the rows are of.

    Returns
    -------
    Unseen
        The weighted means of predicted logarithms and of expected losses, and the losses of what they choose.
    """
    predicted = average(trees.predicted, network.predicted, share)
    expected = (1 - share) * trees.expected + share * network.expected
    return Unseen(predicted, unseen_losses(dataset, predicted), expected).as_sure_as_may_be(dataset)


@dataclasses.dataclass(frozen=True)
class _Tried:
    share: float
    unseen: Unseen
    families: Unseen


def speed(dataset: Dataset, predicted: NDArray[np.float64]) -> float:
    """Return the share of the fastest that choices by predictions reach: the mean of the sweeps.

    A sweep counts by how many families it has: what is lost on matrices of one family is much the same.

    Parameters
    ----------
    dataset : Dataset
    predicted : ndarray of float64, shape (n, candidates)
        See `warploom.training.selector.predictions`.
    """
    lost = np.log1p(losses(dataset, predicted.argmin(axis=1)))
    counts = of_its_type(dataset) & np.isfinite(lost)
    of_sweeps = [counts & (dataset.sweeps == sweep) for sweep in np.unique(dataset.sweeps[counts])]
    families = [len(np.unique(dataset.families[rows])) for rows in of_sweeps]
    return float(np.average([np.exp(-lost[rows].mean()) for rows in of_sweeps], weights=families))


def blends(
    datasets: Mapping[str, Dataset],
    trees: Mapping[str, HeldOut],
    networks: Mapping[str, HeldOut],
    *,
    samples: int = 1000,
) -> dict[str, dict[str, Any]]:
    """Decide by how much networks count.

    Parameters
    ----------
    datasets, trees, networks : mapping from str
        By the names of the selectors; those that are not in all three are left out.
    samples : int
        Bootstrap samples for the intervals of the metrics.

    Returns
    -------
    dict from str to dict
        Of the selectors where a blend is better than trees by `LEAST_GAIN`, with families left out, and not worse by as
        much in random folds: ``share``, the best of `SHARES` with families left out; what plans have to know
        (``margin``, ``unsure_doubt``); ``families_over``, by how much it is better; and the metrics of
        `warploom.training.train.held_out`.
    """
    found = {}
    for name, dataset in datasets.items():
        if name not in trees or name not in networks:
            continue
        of_trees, of_network = trees[name], networks[name]
        if of_trees.families is None or of_network.families is None:
            continue
        tried = [
            _Tried(
                share,
                averaged(of_trees.unseen, of_network.unseen, share, dataset),
                averaged(of_trees.families, of_network.families, share, dataset),
            )
            for share in SHARES
        ]
        gained = [
            [speed(dataset, of.predicted) - speed(dataset, alone.predicted) for of, alone in pairs]
            for pairs in ([(one.unseen, of_trees.unseen), (one.families, of_trees.families)] for one in tried)
        ]
        allowed = [
            i for i, (at_random, families) in enumerate(gained) if at_random > -LEAST_GAIN and families >= LEAST_GAIN
        ]
        if not allowed:
            continue
        best = max(allowed, key=lambda i: gained[i][1])
        share, unseen, families = tried[best].share, tried[best].unseen, tried[best].families
        found[name] = {
            "share": share,
            "margin": unseen.margin(dataset),
            "unsure_doubt": unseen.unsure_doubt,
            "families_over": round(gained[best][1], 5),
        } | held_out(dataset, unseen, families, samples=samples)
    return found

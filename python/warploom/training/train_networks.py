"""From measurements to a profile whose selectors are networks: one for SpMM, one for SpMV.

The profile has the same settings, candidates and models of preparation as one of trees, so that either can plan.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from warploom.bench.measurements import Measurements
from warploom.errors import ParameterError
from warploom.model_inputs import LOSS, SPMV_INPUTS, model_inputs
from warploom.predictor import Model
from warploom.profiles import Profile
from warploom.training.between import rows_between_each
from warploom.training.blend import blends
from warploom.training.data import Dataset
from warploom.training.joint_network import Joint, JointOptions, Split, descend, family_folds, folds
from warploom.training.parallel import in_processes
from warploom.training.selector import DEFAULTS, candidates_of, inputs_of, predictions, unseen_losses
from warploom.training.train import (
    FOLDS,
    QUICK,
    HeldOut,
    Unseen,
    candidates_known,
    data_hash,
    datasets_of,
    facts_of,
    held_out,
    of_first_gpu,
    spared,
    trained_on,
)

__all__ = ["datasets_by_operation", "preparation_models", "train_networks"]

_Array = NDArray[np.float64]
_Progress = Callable[[int, int, str], None]
_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


def train_networks(
    measurements: Measurements | Sequence[Measurements],
    trees: Profile,
    options: JointOptions | None = None,
    *,
    caches: Iterable[str] = ("warm", "cold"),
    folds_of_families: int = 5,
    samples: int = 1000,
    progress: _Progress | None = None,
    held_out_trees: Mapping[str, HeldOut] | None = None,
    workers: int = 1,
) -> Profile:
    """Train networks on what trees were trained on.

    Parameters
    ----------
    measurements : Measurements or sequence of Measurements
        Sweeps; of those on other GPUs than the first one's, candidates count that these have not tried.
    trees : Profile
        Made from the same measurements; its candidates and models of preparation are kept.
    options : JointOptions, optional
    caches : iterable of str
    folds_of_families : int
        The networks of this many splits decide how long to train, and are scored.
    samples : int
        Bootstrap samples for the intervals of the metrics.
    progress : callable, optional
        Called as ``progress(done, total, what)`` before each network.
    held_out_trees : mapping from str to HeldOut, optional
        What the trees predict for held-out matrices, which `warploom.training.train.train` keeps.
    workers : int
        Processes that train networks of different splits. The profile does not depend on it.

    Returns
    -------
    Profile
        Its metrics are those of `warploom.training.train.train`, scored on the same kinds of splits. ``families_over``
        is by how much the oracle's share on families left out exceeds that of the trees. ``metrics["blend"]``, where
        `held_out_trees` is given, is what `warploom.training.blend.blends` says: by how much the networks count beside
        the trees in plans.

    Raises
    ------
    ParameterError
        There are no times, or too few to train a network on.
    """
    parts, elsewhere = of_first_gpu([measurements] if isinstance(measurements, Measurements) else list(measurements))
    chosen = options or JointOptions()
    by_op = {
        op: known
        for op, datasets in datasets_by_operation(parts, tuple(caches), elsewhere).items()
        if (known := {name: dataset for name, dataset in datasets.items() if name in trees.models})
    }
    if not by_op:
        raise ParameterError("there are no times to train on", argument="measurements")
    models = preparation_models(trees)
    selectors: dict[str, Any] = {}
    blend: dict[str, Any] = {}
    of_families = sum(_splits_of(datasets, folds_of_families) for datasets in by_op.values())
    shown = _Shown(progress, 2 * (2 * FOLDS + 1) * len(by_op) + 2 * of_families)
    for op, datasets in by_op.items():
        trained = _Operation(op, datasets, trees, chosen, folds_of_families, shown, workers)
        inputs = [inputs_of(dataset, DEFAULTS[op]) for dataset in datasets.values()]
        full = trained.train(inputs)
        for name, found in full.items():
            models[name] = found.model
            selectors[name] = found.facts | held_out(datasets[name], found.unseen, found.families, samples=samples)
            known = trees.metrics.get("selectors", {}).get(name, {})
            if found.families is not None and "families" in known:
                share = selectors[name]["families"]["oracle_share"][0]
                selectors[name]["families_over"] = round(share - known["families"]["oracle_share"][0], 5)
            _log.info("%s: %s", name, selectors[name])
        if held_out_trees is not None:
            of_networks = {name: HeldOut(found.unseen, found.families) for name, found in full.items()}
            decided = blends(datasets, held_out_trees, of_networks, samples=samples)
            _log.info("%s: blends %s", op, decided)
            blend |= decided
        epochs = next(iter(full.values())).facts["epochs"]
        quick = trained.train([tuple(name for name in SPMV_INPUTS if name in names) for names in inputs], epochs)
        for name, found in quick.items():
            models[f"{QUICK}{name}"] = found.model
            selectors[f"{QUICK}{name}"] = found.facts | spared(found.unseen, full[name].unseen)
    metrics = {"selectors": selectors} | ({} if held_out_trees is None else {"blend": blend})
    return dataclasses.replace(trees, models=models, metrics=metrics, data_hash=data_hash(trained_on(parts, elsewhere)))


def preparation_models(profile: Profile) -> dict[str, Model]:
    """Return the models of a profile that say what preparation and features take, which all selectors share."""
    return {
        name: model for name, model in profile.models.items() if name.startswith("preparation-") or name == "features"
    }


@dataclasses.dataclass(frozen=True, eq=False)
class _Trained:
    """A network of one setting, and what others chose that had not seen the matrices, or the families."""

    model: Model
    facts: dict[str, Any]
    unseen: Unseen
    families: Unseen | None


def _splits_of(datasets: Mapping[str, Dataset], folds_of_families: int) -> int:
    return len(family_folds(list(datasets.values()), folds_of_families))


class _Shown:
    """Counts networks."""

    def __init__(self, progress: _Progress | None, total: int) -> None:
        self._progress, self._done, self._total = progress, 0, total

    def next(self, what: str) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total, what)
        self._done += 1


def datasets_by_operation(
    parts: Sequence[Measurements], caches: Sequence[str], elsewhere: Sequence[Measurements] = ()
) -> dict[str, dict[str, Dataset]]:
    """Return data sets by operation and by the names of their models.

    Parameters
    ----------
    parts : sequence of Measurements
        Sweeps on one GPU.
    caches : sequence of str
    elsewhere : sequence of Measurements
        Sweeps on other GPUs, as for `warploom.training.train.datasets_of`.
    """
    found: dict[str, dict[str, Dataset]] = {}
    for kind in datasets_of(parts, caches, elsewhere=elsewhere):
        for name, dataset in kind.items():
            found.setdefault(dataset.op, {})[name] = dataset
    return found


class _Operation:
    """The settings of an operation, and how they are split."""

    def __init__(
        self,
        op: str,
        datasets: Mapping[str, Dataset],
        trees: Profile,
        options: JointOptions,
        folds_of_families: int,
        shown: _Shown,
        workers: int,
    ) -> None:
        self._op = op
        self._datasets = list(datasets.values())
        self._names = list(datasets)
        self._options = options
        self._candidates = [candidates_known(trees.models[name]) for name in self._names]
        self._random = folds(self._datasets, FOLDS, options.seed)
        self._families = family_folds(self._datasets, folds_of_families, options.seed)
        self._shown = shown
        self._workers = workers
        self._all = rows_between_each(self._datasets)
        self._further: dict[int, list[Dataset | None]] = {}

    def _between(self, split: Split, known: Sequence[Dataset]) -> list[Dataset | None]:
        """Return the further rows of what a split trains on; those of each split are predicted once."""
        if id(split) not in self._further:
            self._further[id(split)] = rows_between_each(known)
        return self._further[id(split)]

    def train(self, inputs: Sequence[Sequence[str]], epochs: int | None = None) -> dict[str, _Trained]:
        """Decide how long to train on families left out, unless that is given; score, and train on everything."""
        families = None
        if epochs is None and self._families:
            by_epoch = self._unseen(inputs, self._families, None)
            regrets = {epoch: _mean_loss(self._datasets, predicted) for epoch, predicted in by_epoch.items()}
            epochs = min(regrets, key=lambda epoch: regrets[epoch])
            most = max(map(len, inputs))
            _log.info("%s, %d inputs: mean loss on families left out by epoch: %s", self._op, most, regrets)
            families = self._judged(inputs, self._families, by_epoch[epochs], epochs)
        epochs = epochs or self._options.epochs
        unseen = self._judged(inputs, self._random, self._unseen(inputs, self._random, epochs)[epochs], epochs)
        self._shown.next(f"{self._op}: all matrices")
        losses = [one.loss for one in unseen]
        joint = descend(
            self._datasets, inputs, self._candidates, self._options, losses=losses, epochs=epochs, between=self._all
        )[-1][1]
        trained = {}
        for i, (name, dataset) in enumerate(zip(self._names, self._datasets, strict=True)):
            facts = {"form": "network", "seed": self._options.seed, "epochs": epochs} | facts_of(dataset, unseen[i])
            trained[name] = _Trained(joint.model(i), facts, unseen[i], None if families is None else families[i])
        return trained

    def _unseen(
        self, inputs: Sequence[Sequence[str]], splits: Sequence[Split], epochs: int | None
    ) -> dict[int, list[_Array]]:
        """Return predictions for what each split holds out, by the epochs of training."""

        def arguments(split: Split, known: Sequence[Dataset]) -> tuple[Any, ...]:
            candidates = [candidates_of(dataset, DEFAULTS[self._op]) for dataset in known]
            return inputs, candidates, self._options, epochs, self._between(split, known)

        found: dict[int, list[_Array]] = {}
        counts: dict[int, int] = {}
        for test, by_epoch in self._predicted("times", splits, _predict_times, arguments):
            for epoch, times in by_epoch:
                of_epoch = found.setdefault(epoch, [np.full(dataset.times.shape, np.inf) for dataset in self._datasets])
                for of, rows, values in zip(of_epoch, test, times, strict=True):
                    of[rows] = values
                counts[epoch] = counts.get(epoch, 0) + 1
        # Training ends earlier on some splits than on others.
        return {epoch: times for epoch, times in found.items() if counts[epoch] == len(splits)}

    def _predicted(
        self,
        what: str,
        splits: Sequence[Split],
        predict: Callable[..., _Result],
        arguments: Callable[[Split, Sequence[Dataset]], tuple[Any, ...]],
    ) -> Iterator[tuple[list[NDArray[np.intp]], _Result]]:
        """Yield what each split holds out, and what is predicted for it: by networks trained side by side.

        `predict` gets the rows to train on, those held out, and `arguments` of the split and the former.
        """

        def call(split: Split) -> tuple[Any, ...]:
            known, held_out = (
                [dataset.rows(rows) for dataset, rows in zip(self._datasets, part, strict=True)] for part in split
            )
            return known, held_out, *arguments(split, known)

        found = in_processes(predict, map(call, splits), self._workers)
        for number, (_, test) in enumerate(splits):
            self._shown.next(f"{self._op}: {what}, split {number + 1} of {len(splits)}")
            yield test, next(found)

    def _judged(
        self, inputs: Sequence[Sequence[str]], splits: Sequence[Split], predicted: Sequence[_Array], epochs: int
    ) -> list[Unseen]:
        """Predict losses too, by networks that have not seen the rows."""
        losses = [unseen_losses(dataset, of) for dataset, of in zip(self._datasets, predicted, strict=True)]
        expected = [np.empty(len(dataset)) for dataset in self._datasets]
        options = dataclasses.replace(self._options, members=1)

        def arguments(split: Split, _: Sequence[Dataset]) -> tuple[Any, ...]:
            return inputs, [loss[rows] for loss, rows in zip(losses, split[0], strict=True)], options, epochs

        for test, found in self._predicted("losses", splits, _predict_losses, arguments):
            for of, rows, values in zip(expected, test, found, strict=True):
                of[rows] = values
        return [
            Unseen(of, loss, ex).as_sure_as_may_be(dataset)
            for of, loss, ex, dataset in zip(predicted, losses, expected, self._datasets, strict=True)
        ]


def _predict_times(
    known: Sequence[Dataset],
    held_out: Sequence[Dataset],
    inputs: Sequence[Sequence[str]],
    candidates: Sequence[Sequence[str]],
    options: JointOptions,
    epochs: int | None,
    between: Sequence[Dataset | None],
) -> list[tuple[int, list[_Array]]]:
    """Train on what is known, and predict times of what is held out, by the epochs of training.

    Where it is not given how many epochs that are, training ends when no better state has come for long enough.
    """
    found: list[tuple[int, list[_Array]]] = []
    losses: dict[int, float] = {}

    def ends(epoch: int, joint: Joint) -> bool:
        times = [predictions(joint.model(i), rows) for i, rows in enumerate(held_out)]
        found.append((epoch, times))
        losses[epoch] = _mean_loss(held_out, times)
        best = min(losses, key=lambda past: losses[past])
        return epochs is None and epoch - best >= options.patience

    descend(known, inputs, candidates, options, epochs=epochs, between=between, ends=ends)
    return found


def _mean_loss(datasets: Sequence[Dataset], predicted: Sequence[_Array]) -> float:
    """Return the mean of the mean losses of settings that have rows."""
    losses = [unseen_losses(dataset, of) for dataset, of in zip(datasets, predicted, strict=True) if len(dataset)]
    return float(np.mean([loss.mean() for loss in losses]))


def _predict_losses(
    known: Sequence[Dataset],
    held_out: Sequence[Dataset],
    inputs: Sequence[Sequence[str]],
    losses: Sequence[_Array],
    options: JointOptions,
    epochs: int,
) -> list[_Array]:
    """Train on the losses of choices, and predict those of what is held out."""
    joint = descend(known, inputs, [[] for _ in known], options, losses=losses, epochs=epochs)[-1][1]
    found = []
    for i, rows in enumerate(held_out):
        model = joint.model(i)
        X = model_inputs(rows.features, rows.k, model.inputs)
        found.append(model.predict(X)[:, model.outputs.index(LOSS)])
    return found

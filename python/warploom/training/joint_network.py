"""One network for all settings of an operation: every candidate's time from one evaluation.

Value type, layout and state of the cache are inputs beside the matrix's features and k, so that what is measured of one
setting teaches the others. What is predicted is what the trees of `warploom.training.selector` predict: the least time
over that of a simple model of the machine, and each candidate's time over the least one. A profile holds the network
once for each setting, with that setting's inputs folded into biases and the outputs of its candidates only.

The loss has two parts: squared errors, those of nearly fastest candidates counting most, and regret, the expected loss
of a candidate drawn by a softmax of the predictions. Weights are averaged over the descent, and how long it takes is
decided on families that are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warploom.errors import ParameterError
from warploom.model_inputs import LOSS, REFERENCE, model_inputs
from warploom.predictor import Model
from warploom.training import export
from warploom.training.data import Dataset, family_splits, random_folds
from warploom.training.network import one_thread_and_seed
from warploom.training.piecewise import Intervals, to_grid
from warploom.training.selector import targets

__all__ = ["SETTING_INPUTS", "Joint", "JointOptions", "Split", "descend", "family_folds", "folds"]

SETTING_INPUTS = ("is_cold", "is_column_major", "log_itemsize")
"""Inputs that say which setting it is; they are constants in what is exported."""

_Array = NDArray[np.float64]
_Rows = NDArray[np.intp]
Split = tuple[list[_Rows], list[_Rows]]
"""Rows of each data set to train on, and rows that are held out."""


@dataclasses.dataclass(frozen=True)
class JointOptions:
    """Layers of the network, and how it is trained."""

    hidden: tuple[int, ...] = (80, 64, 64)
    """Neurons of the hidden layers."""
    intervals: int = 4
    """Of each input, between quantiles: see `warploom.training.piecewise`."""
    members: int = 2
    """Networks that differ in their seeds, whose outputs are averaged."""
    epochs: int = 60
    """At most; how many is decided on families left out, where there are any."""
    checkpoint: int = 10
    """Epochs between two states among which is decided."""
    patience: int = 20
    """Epochs without a better state on the families left out, after which training ends."""
    batch: int = 256
    rate: float = 3e-3
    """Learning rate of Adam."""
    decay: float = 0.1
    """Weight decay."""
    noise: float = 0.1
    """Standard deviation of what is added to the standardised inputs."""
    regret: float = 1.0
    """Weight of the regret."""
    temperature: float = 0.03
    """Of the softmax, in compressed logarithms of times."""
    averaging: float = 0.998
    """Share of the averaged weights that a step keeps."""
    seed: int = 0


def folds(datasets: Sequence[Dataset], count: int, seed: int = 0) -> list[Split]:
    """Split at random so that each matrix is held out once, from all data sets together.

    Parameters
    ----------
    datasets : sequence of Dataset
        Settings of one operation.
    count : int
    seed : int

    Returns
    -------
    list of (train, test)
        Rows of each data set.
    """
    return _splits(datasets, lambda whole: random_folds(whole, count, seed))


def family_folds(datasets: Sequence[Dataset], count: int, seed: int = 0) -> list[Split]:
    """Split so that each family is held out once, from all data sets together; none where there is one family only."""
    if len({family for dataset in datasets for family in dataset.families.tolist()}) < 2:
        return []
    return _splits(datasets, lambda whole: family_splits(whole, count, seed))


def _splits(datasets: Sequence[Dataset], splitter: Callable[[Dataset], Iterable[tuple[_Rows, _Rows]]]) -> list[Split]:
    first, *others = (dataset.columns([]) for dataset in datasets)
    whole = first.joined(*others)
    bounds = np.cumsum([0, *map(len, datasets)])

    def of_each(rows: _Rows) -> list[_Rows]:
        ordered = np.sort(rows)
        ends = np.searchsorted(ordered, bounds)
        return [ordered[ends[i] : ends[i + 1]] - bounds[i] for i in range(len(datasets))]

    return [(of_each(train), of_each(test)) for train, test in splitter(whole)]


@dataclasses.dataclass(frozen=True, eq=False)
class Joint:
    """A trained network of several settings.

    Attributes
    ----------
    inputs : tuple of str
        Of all settings, without `SETTING_INPUTS`.
    inputs_of_setting : tuple of tuple of str
        Those that each setting reads; the others are the mean there.
    outputs : tuple of str
        Of all settings.
    of_setting : tuple of tuple of str
        The outputs of each setting.
    setting_inputs : ndarray of float64, shape (settings, len(SETTING_INPUTS))
    mean, scale : ndarray of float64, shape (len(inputs) + len(SETTING_INPUTS),)
        Of the training data.
    intervals : Intervals
        How standardised inputs are encoded.
    members : tuple of torch.nn.Sequential
        Dense layers after the encoding.
    vectors : tuple of ndarray of float64, shape (n, inputs of the setting)
        Some inputs of each setting, by which exported models are verified.
    """

    inputs: tuple[str, ...]
    inputs_of_setting: tuple[tuple[str, ...], ...]
    outputs: tuple[str, ...]
    of_setting: tuple[tuple[str, ...], ...]
    setting_inputs: _Array
    mean: _Array
    scale: _Array
    intervals: Intervals
    members: tuple[Any, ...]
    vectors: tuple[_Array, ...]

    def model(self, setting: int) -> Model:
        """Return the network of one setting, as a profile holds it."""
        import torch

        width = len(self.inputs)
        others = np.zeros(len(self.mean))  # what is not read is the mean
        others[width:] = (self.setting_inputs[setting] - self.mean[width:]) / self.scale[width:]
        read = [self.inputs.index(name) for name in self.inputs_of_setting[setting]]
        rows = [self.outputs.index(name) for name in self.of_setting[setting]]
        modules = []
        for member in self.members:
            layers = [layer for layer in member if isinstance(layer, torch.nn.Linear)]
            pairs = [(layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()) for layer in layers]
            pairs[-1] = (pairs[-1][0][rows], pairs[-1][1][rows])
            modules.append(_sequential([*self.intervals.as_layers(*pairs[0], read, others), *pairs[1:]]))
        return export.from_torch_sequential(
            modules,
            list(self.inputs_of_setting[setting]),
            list(self.of_setting[setting]),
            mean=self.mean[read],
            scale=self.scale[read],
            check=self.vectors[setting],
            output="identity",
        )


def _sequential(pairs: Sequence[tuple[_Array, _Array]]) -> Any:
    """Return dense layers with these weights and biases, with ReLU between them."""
    import torch

    layers: list[Any] = []
    for weight, bias in pairs:
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weight))
            layer.bias.copy_(torch.from_numpy(bias))
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def setting_inputs(dataset: Dataset) -> list[float]:
    """Return `SETTING_INPUTS` of a data set."""
    return [float(dataset.cache == "cold"), float(dataset.layout == "column"), float(np.log2(dataset.itemsize))]


def descend(
    datasets: Sequence[Dataset],
    inputs: Sequence[Sequence[str]],
    candidates: Sequence[Sequence[str]],
    options: JointOptions,
    *,
    losses: Sequence[_Array] | None = None,
    epochs: int | None = None,
    between: Sequence[Dataset | None] | None = None,
    ends: Callable[[int, Joint], bool] = lambda epoch, joint: False,
) -> list[tuple[int, Joint]]:
    """Train a network, and keep what it is after each `JointOptions.checkpoint` epochs and at the end.

    Parameters
    ----------
    datasets : sequence of Dataset
        Settings of one operation: the training parts.
    inputs : sequence of sequence of str
        What each setting reads, of those in `warploom.model_inputs`. Where it does not read what another one does, that
        counts as the mean.
    candidates : sequence of sequence of str
        Those of each setting to be predicted; none where the loss alone is to be.
    options : JointOptions
    losses : sequence of ndarray of float64, optional
        What the choices of others lost on each row: `LOSS` is an output then.
    epochs : int, optional
        By default those of the options.
    between : sequence of Dataset or None, optional
        For each setting, further rows to train on: see `warploom.training.between.rows_between`.
    ends : callable, optional
        Called as ``ends(epoch, joint)`` with each state that is kept; training ends where it is true.

    Returns
    -------
    list of (epoch, Joint)
        With the weights averaged until then.

    Raises
    ------
    ParameterError
        There are fewer rows than a batch has.
    """
    import torch

    with_reference = any(candidates)
    common = [*([REFERENCE] if with_reference else []), *([LOSS] if losses is not None else [])]
    of_setting = tuple((*common, *names) for names in candidates)
    outputs = tuple(dict.fromkeys(name for names in of_setting for name in names))
    if between is not None:
        if losses is not None:
            losses = [
                loss if rows is None else np.concatenate([loss, np.full(len(rows), np.nan)])
                for loss, rows in zip(losses, between, strict=True)
            ]
        datasets = [
            dataset if rows is None else dataset.joined(rows) for dataset, rows in zip(datasets, between, strict=True)
        ]
    X = [model_inputs(dataset.features, dataset.k, names) for dataset, names in zip(datasets, inputs, strict=True)]
    read = tuple(dict.fromkeys(name for names in inputs for name in names))
    of_settings = np.array([setting_inputs(dataset) for dataset in datasets])
    stacked = np.concatenate(
        [
            np.concatenate([_spread(x, names, read), np.tile(s, (len(x), 1))], axis=1)
            for x, names, s in zip(X, inputs, of_settings, strict=True)
        ]
    )
    if len(stacked) < options.batch:
        raise ParameterError(
            f"{len(stacked)} rows are too few to train a network on, which takes at least {options.batch}",
            argument="measurements",
        )
    Y = np.full((len(stacked), len(outputs)), np.nan)
    first = 0
    for i, dataset in enumerate(datasets):
        loss = None if losses is None else losses[i]
        values = targets(dataset, candidates[i], loss)[:, 0 if with_reference else 1 :]
        Y[first : first + len(dataset), [outputs.index(name) for name in of_setting[i]]] = values
        first += len(dataset)
    mean, scale = np.nanmean(stacked, axis=0), np.nanstd(stacked, axis=0)
    scale[scale < 1e-9] = 1.0  # an input that never differs
    Z = torch.from_numpy(np.nan_to_num((stacked - mean) / scale).astype(np.float32))
    intervals = Intervals.of(Z.numpy(), options.intervals)
    lessons = _Lessons(Y, outputs, options)
    vectors = tuple(export.drawn_for_check(x) for x in X)
    own = tuple(map(tuple, inputs))
    limit = options.epochs if epochs is None else epochs
    states = []
    with one_thread_and_seed(options.seed):
        members = [_Member(intervals, Y, options, options.seed + 1000 * m) for m in range(options.members)]
        for epoch in range(1, limit + 1):
            for member in members:
                member.learn(Z, lessons)
            if epoch % options.checkpoint == 0 or epoch == limit:
                averaged = tuple(member.averaged() for member in members)
                state = Joint(read, own, outputs, of_setting, of_settings, mean, scale, intervals, averaged, vectors)
                states.append((epoch, state))
                if ends(epoch, state):
                    break
    return states


def _spread(X: _Array, names: Sequence[str], read: Sequence[str]) -> _Array:
    """Return the columns `read` of inputs with these names; NaN where one is not among them."""
    found = np.full((len(X), len(read)), np.nan)
    found[:, [read.index(name) for name in names]] = X
    return found


class _Lessons:
    """Targets, and the loss of predictions of some rows."""

    def __init__(self, Y: _Array, outputs: Sequence[str], options: JointOptions) -> None:
        import torch

        self._known = torch.from_numpy(np.isfinite(Y))
        self._targets = torch.from_numpy(np.nan_to_num(Y).astype(np.float32))
        is_candidate = np.array([name not in (REFERENCE, LOSS) for name in outputs])
        self._first = int(is_candidate.argmax()) if is_candidate.any() else len(outputs)
        self._options = options
        # Squared errors count by how near the fastest a candidate is; those of the other outputs count little, for
        # times vary more than ratios.
        weights = np.where(is_candidate, np.exp(-np.nan_to_num(Y) / 0.1) + 0.1, 0.2)
        self._weights = torch.from_numpy((weights * np.isfinite(Y)).astype(np.float32) / 0.3)
        self._absent = torch.where(self._known[:, self._first :], 0.0, 1e9)

    def loss(self, scores: Any, rows: Any) -> Any:
        import torch

        expected = self._targets[rows]
        found = (self._weights[rows] * (scores - expected) ** 2).sum(dim=1).mean()
        if self._first < scores.shape[1]:
            logits = -(scores[:, self._first :] + self._absent[rows]) / self._options.temperature
            shares = torch.softmax(logits, dim=1)
            regret = (shares * expected[:, self._first :]).sum(dim=1).mean()
            found = found + self._options.regret * regret / 0.1
        return found


class _Member:
    """A network in training, with the running average of its weights."""

    def __init__(self, intervals: Intervals, Y: _Array, options: JointOptions, seed: int) -> None:
        import torch

        width = intervals.width
        self._intervals = intervals
        self._random = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        layers: list[Any] = []
        for neurons in options.hidden:
            layers += [torch.nn.Linear(width, neurons), torch.nn.ReLU()]
            width = neurons
        last = torch.nn.Linear(width, Y.shape[1])
        with torch.no_grad():
            last.weight.mul_(0.1)
            last.bias.copy_(torch.from_numpy(np.nanmean(Y, axis=0).astype(np.float32)))
        self._module = torch.nn.Sequential(*layers, last)
        self._parameters: list[Any] = list(self._module.parameters())
        self._average = [parameter.detach().clone() for parameter in self._parameters]
        self._optimiser = torch.optim.AdamW(self._parameters, lr=options.rate, weight_decay=options.decay, fused=True)
        self._options = options
        self._steps = 0

    def learn(self, Z: Any, lessons: _Lessons) -> None:
        """Go once through all rows."""
        import torch

        shuffled: Any = torch.randperm(len(Z), generator=self._random)
        for rows in shuffled.split(self._options.batch):
            noise = torch.randn(len(rows), Z.shape[1], generator=self._random)
            scores = self._module(self._intervals.encode(Z[rows] + self._options.noise * noise))
            self._optimiser.zero_grad(set_to_none=True)
            lessons.loss(scores, rows).backward()
            torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
            self._optimiser.step()
            self._steps += 1
            # At first the average follows: what it starts from is random.
            kept = min(self._options.averaging, (1 + self._steps) / (10 + self._steps))
            with torch.no_grad():
                torch._foreach_lerp_(self._average, self._parameters, 1 - kept)

    def averaged(self) -> Any:
        """Return the network with its averaged weights, rounded."""
        pairs = [
            (weight.double().numpy(), bias.double().numpy())
            for weight, bias in zip(self._average[::2], self._average[1::2], strict=True)
        ]
        others = [(to_grid(weight), bias) for weight, bias in pairs[1:]]
        return _sequential([(self._intervals.on_grid(pairs[0][0]), pairs[0][1]), *others])

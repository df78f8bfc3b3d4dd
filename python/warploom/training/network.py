"""Small dense networks of PyTorch: times of several candidates, or the probability that each is the best."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warploom.predictor import Model
from warploom.training import export

__all__ = ["NetworkOptions", "fit_classes", "fit_times", "one_thread_and_seed"]

_Array = NDArray[np.float64]
_Loss = Callable[[Any, Any], Any]


@dataclasses.dataclass(frozen=True)
class NetworkOptions:
    """Layers of a network, and how it is trained with Adam on small batches."""

    hidden: tuple[int, ...] = (64, 32)
    """Neurons of the hidden layers."""
    l2: float = 1e-4
    """Factor of the sum of the squared weights in the loss."""
    rate: float = 3e-3
    """Learning rate at the start; it falls to 0 as half a cosine."""
    epochs: int = 300
    batch: int = 32
    members: int = 1
    """Networks that differ in their seeds, whose scores are averaged."""
    seed: int = 0


def fit_times(
    X: _Array, times: _Array, weights: _Array, inputs: Sequence[str], outputs: Sequence[str], options: NetworkOptions
) -> Model:
    """Train a network that predicts times; the loss is the mean absolute percentage error.

    Parameters
    ----------
    X : ndarray of float64, shape (n, inputs)
    times : ndarray of float64, shape (n, outputs)
        Positive.
    weights : ndarray of float64, shape (n,)
        Weights of the rows.
    inputs, outputs : sequence of str
        Names.
    options : NetworkOptions

    Returns
    -------
    Model
        The network's last layer gives logarithms of the times, standardised: times differ by orders of magnitude.
    """
    logarithms = np.log(times)
    mean = np.full(times.shape[1], logarithms.mean())
    scale = np.full(times.shape[1], logarithms.std() or 1.0)
    import torch

    offset, factor = torch.tensor(mean, dtype=torch.float32), torch.tensor(scale, dtype=torch.float32)

    def percentage_error(scores: Any, target: Any) -> Any:
        # Predictions far off at the start would make an exponential infinite.
        excess = (offset + factor * scores - target).clamp(max=10.0)
        return torch.expm1(excess).abs().mean(dim=1)

    return _fit(
        X,
        logarithms.astype(np.float32),
        weights,
        inputs,
        outputs,
        options,
        percentage_error,
        output="exp",
        output_mean=mean,
        output_scale=scale,
    )


def fit_classes(
    X: _Array,
    classes: NDArray[np.intp],
    weights: _Array,
    inputs: Sequence[str],
    outputs: Sequence[str],
    options: NetworkOptions,
) -> Model:
    """Train a network that ends in a softmax; the loss is the cross-entropy.

    Parameters
    ----------
    X : ndarray of float64, shape (n, inputs)
    classes : ndarray of int, shape (n,)
        Position of the right output.
    weights : ndarray of float64, shape (n,)
        Weights of the rows.
    inputs, outputs : sequence of str
        Names.
    options : NetworkOptions

    Returns
    -------
    Model
    """
    from torch.nn.functional import cross_entropy

    def loss(scores: Any, target: Any) -> Any:
        return cross_entropy(scores, target, reduction="none")

    return _fit(X, classes.astype(np.int64), weights, inputs, outputs, options, loss, output="softmax")


def _fit(
    X: _Array,
    targets: NDArray[Any],
    weights: _Array,
    inputs: Sequence[str],
    outputs: Sequence[str],
    options: NetworkOptions,
    loss: _Loss,
    **settings: Any,
) -> Model:
    import torch

    unit = _log_units(X)
    transformed = np.copysign(np.log1p(np.abs(X) / unit), X)
    mean, scale = transformed.mean(axis=0), transformed.std(axis=0)
    scale[scale < 1e-9] = 1.0  # an input that never differs
    weighted = (weights / weights.mean()).astype(np.float32)
    arrays = [torch.from_numpy(a) for a in (((transformed - mean) / scale).astype(np.float32), targets, weighted)]
    modules = []
    for member in range(options.members):
        with one_thread_and_seed(options.seed + 1000 * member):
            modules.append(_layers(len(inputs), options.hidden, len(outputs)))
            _descend(modules[-1], arrays, loss, options)
    chosen = export.drawn_for_check(X)
    return export.from_torch_sequential(
        modules, list(inputs), list(outputs), mean=mean, scale=scale, log_unit=unit, check=chosen, **settings
    )


def _log_units(X: _Array) -> _Array:
    """Return the minimum positive magnitude of each input, above which logarithms distinguish its values."""
    sizes = np.where(X == 0, np.inf, np.abs(X)).min(axis=0)
    return np.where(np.isfinite(sizes), sizes, 1.0)


def _layers(inputs: int, hidden: Sequence[int], outputs: int) -> Any:
    from torch import nn

    layers: list[Any] = []
    width = inputs
    for neurons in hidden:
        layers += [nn.Linear(width, neurons), nn.ReLU()]
        width = neurons
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def _descend(module: Any, arrays: Sequence[Any], loss: _Loss, options: NetworkOptions) -> None:
    import torch

    X, targets, weights = arrays
    batches = -(-len(X) // options.batch)
    # Adam adds weight_decay * w to the gradient: that of weight_decay / 2 * w^2.
    kinds = [[p for n, p in module.named_parameters() if n.endswith(kind)] for kind in ("weight", "bias")]
    groups: list[dict[str, Any]] = [{"params": kinds[0], "weight_decay": 2 * options.l2}, {"params": kinds[1]}]
    optimiser = torch.optim.Adam(groups, lr=options.rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, options.epochs)
    for _ in range(options.epochs):
        for rows in torch.randperm(len(X)).chunk(batches):
            optimiser.zero_grad()
            (weights[rows] * loss(module(X[rows]), targets[rows])).mean().backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimiser.step()
        schedule.step()


@contextmanager
def one_thread_and_seed(seed: int) -> Iterator[None]:
    """Seed PyTorch for a while, on one thread: layers this small are slower on several."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)

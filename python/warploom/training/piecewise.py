"""Piecewise linear encodings of a network's inputs.

Trees cut an input wherever that helps; a network of few neurons bends slowly. Beside the input itself, a network
therefore reads one value for each interval between quantiles of the input, which rises from 0 to 1 within the interval
[1]_. Below the first quantile, an input counts as this. All of these are sums of hinges max(0, z - knot), so that what
is exported is dense layers with ReLU: one layer more, and nothing that a profile does not know.

References
----------
.. [1] Gorishniy, Rubachev, Babenko, "On embeddings for numerical features in tabular deep learning", NeurIPS 2022,
   section 3.2.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Intervals", "to_grid"]

NARROWEST = 0.1
"""Standard deviations between neighbouring knots, at least."""

GRID = 2.0**-9
"""What weights are rounded to, since a wheel has no room for them in full. Differences of rounded slopes are exact, so
that errors do not grow with the input."""

_Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals of each input, between ascending knots.

    Attributes
    ----------
    knots : tuple of ndarray of float64
        Of each input, one at least; they are float32 values.
    """

    knots: tuple[_Array, ...]

    @classmethod
    def of(cls, Z: NDArray[np.floating[Any]], count: int) -> Intervals:
        """Return intervals between quantiles.

        Parameters
        ----------
        Z : ndarray of float, shape (n, inputs)
            Standardised.
        count : int
            Intervals of an input, at most: quantiles that are nearer than `NARROWEST` to the one before are left out.
        """
        quantiles = np.quantile(Z, np.linspace(0, 1, count + 1), axis=0).astype(np.float32).astype(np.float64)
        return cls(tuple(_apart(of_input) for of_input in quantiles.T))

    @property
    def width(self) -> int:
        """Number of values that stand for all inputs: the inputs themselves, then the intervals."""
        return len(self.knots) + sum(len(knots) - 1 for knots in self.knots)

    def encode(self, Z: Any) -> Any:
        """Return what a network reads.

        Parameters
        ----------
        Z : torch.Tensor of float32, shape (n, inputs)

        Returns
        -------
        torch.Tensor, shape (n, width)
        """
        import torch

        least, of, low, length = self._bounds
        return torch.cat([torch.maximum(Z, least), ((Z[:, of] - low) / length).clamp(0, 1) - 0.5], dim=1)

    @functools.cached_property
    def _bounds(self) -> tuple[Any, Any, Any, Any]:
        """Return the first knot of each input, and the input, the lower end and the length of each interval."""
        import torch

        least = np.array([knots[0] for knots in self.knots], dtype=np.float32)
        of = np.repeat(np.arange(len(self.knots)), [len(knots) - 1 for knots in self.knots])
        low = np.concatenate([knots[:-1] for knots in self.knots])
        length = np.concatenate([np.diff(knots) for knots in self.knots])
        return (
            torch.from_numpy(least),
            torch.from_numpy(of),
            torch.from_numpy(low).float(),
            torch.from_numpy(length).float(),
        )

    def on_grid(self, weight: _Array) -> _Array:
        """Return weights of the layer after the encoding, shape (neurons, width), with slopes that are on `GRID`."""
        count = len(self.knots)
        of = np.repeat(np.arange(count), [len(knots) - 1 for knots in self.knots])
        length = np.concatenate([np.diff(knots) for knots in self.knots])
        own = to_grid(weight[:, :count])
        slopes = to_grid(weight[:, of] + weight[:, count:] / length)
        return np.concatenate([own, (slopes - own[:, of]) * length], axis=1)

    def as_layers(
        self, weight: _Array, bias: _Array, read: Sequence[int], others: _Array
    ) -> tuple[tuple[_Array, _Array], tuple[_Array, _Array]]:
        """Return two dense layers with ReLU between them that are this encoding and a layer after it.

        Parameters
        ----------
        weight : ndarray of float64, shape (neurons, width)
            Of the layer after the encoding; slopes that are not `on_grid` are rounded.
        bias : ndarray of float64, shape (neurons,)
        read : sequence of int
            The inputs that the layers have, in their order; one at least.
        others : ndarray of float64, shape (inputs,)
            What the other ones are.

        Returns
        -------
        (hinges, offsets), (weight, bias)
            `hinges` has a column for each input that is read. The weights are multiples of `GRID`.
        """
        hinges, offsets, weights = [], [], []
        offset = bias.copy()
        first = len(self.knots)
        for i, knots in enumerate(self.knots):
            last = first + len(knots) - 1
            own, of_intervals = weight[:, i], weight[:, first:last]
            first = last
            at = knots[0] if i in read else max(knots[0], others[i])
            share = np.clip((at - knots[:-1]) / np.diff(knots), 0, 1) - 0.5
            offset += own * at + of_intervals @ share
            if i not in read:
                continue
            slopes = np.column_stack([own[:, np.newaxis] + of_intervals / np.diff(knots), own])
            weights.append(np.diff(to_grid(slopes), axis=1, prepend=0))
            hinge = np.zeros((len(knots), len(read)))
            hinge[:, read.index(i)] = 1
            hinges.append(hinge)
            offsets.append(-knots)
        return (np.concatenate(hinges), np.concatenate(offsets)), (np.concatenate(weights, axis=1), offset)


def _apart(quantiles: _Array) -> _Array:
    kept = [quantiles[0]]
    for quantile in quantiles[1:]:
        if quantile - kept[-1] >= NARROWEST:
            kept.append(quantile)
    return np.array(kept)


def to_grid(values: _Array) -> _Array:
    """Round to multiples of `GRID`."""
    return np.asarray(np.round(values / GRID) * GRID)

"""Numbers of columns that were not measured, between those that were.

How fast a candidate is depends on k in steps: on how many threads work side by side on a row of C, how many share its
nonzeros, how many tiles of columns there are, and how many columns of the last one are not needed. Trees that know
nothing but k and the candidate's name cannot know where these steps are. A model of pairs of a matrix and a candidate
reads them (`thread_layout`), and says what the candidates take at powers of two between the measured k. Rows of these
times are added to what selectors are trained on; none of them is scored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from warploom.candidates import parse
from warploom.model_inputs import INPUTS, compress, expand, model_inputs, roofline_us
from warploom.training.data import Dataset
from warploom.training.parallel import on_threads

__all__ = ["THREAD_LAYOUT", "PairOptions", "columns_between", "rows_between", "rows_between_each", "thread_layout"]

THREAD_LAYOUT = ("side_by_side", "sharing", "tile", "tiles", "waste")
"""What a candidate does with k columns: threads on neighbouring columns of C, threads that share the nonzeros of a row,
columns of a tile, tiles (all as logarithms), and columns of all tiles over k."""

WORST = 1.5
"""Logarithms of time / minimum time are limited to this."""

MOST = 3
"""Rows that a matrix gets at most, drawn at random from the powers of two."""

COMMON = 0.05
"""Share of the rows that a number of columns has to have to be one of those between which others lie."""

FEWEST = 3
"""Such numbers."""

NEAR = 0.1
"""Compressed logarithm at which the weight of a pair falls to 1 / e: what is nearly the fastest decides."""

_Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class PairOptions:
    """How the model of pairs is trained."""

    most: int = 400_000
    """Pairs; drawn at random where there are more."""
    iterations: int = 200
    leaves: int = 63
    rate: float = 0.1
    seed: int = 0


def columns_between(k: NDArray[np.int64]) -> list[int]:
    """Return the powers of two between the numbers of columns that many rows have.

    Parameters
    ----------
    k : ndarray of int, shape (n,)
        Of each row.

    Returns
    -------
    list of int
        None unless there are at least `FEWEST` numbers that `COMMON` of the rows have: the model of pairs learns from
        them what k does, and made choices worse where it was asked for column-major operands with two (k = rows is
        another number for each matrix).
    """
    measured, counts = np.unique(k, return_counts=True)
    common = measured[counts >= COMMON * len(k)].tolist()
    if len(common) < FEWEST:
        return []
    powers = (1 << exponent for exponent in range(int(common[-1]).bit_length()))
    return [power for power in powers if common[0] < power < common[-1]]


def thread_layout(candidate: str, k: int) -> tuple[float, ...]:
    """Return `THREAD_LAYOUT` of a candidate, by the parameters that its kernel has; zeros for one without them.

    Parameters
    ----------
    candidate : str
    k : int
        Columns of B.
    """
    of = dict(parse(candidate).parameters)
    threads, per_thread = of.get("threads_per_row", 0), of.get("columns_per_thread", 0)
    if threads and per_thread:
        most = min(threads, 32)
        needed = 1 << (-(-k // per_thread) - 1).bit_length()
        side = min(of.get("column_threads", 0) or most, most, needed)
        tile = side * per_thread
    elif of.get("tile_width", 0):
        side, tile, most = 1, of["tile_width"], max(threads, 1)
    else:
        return (0.0,) * len(THREAD_LAYOUT)
    tiles = -(-k // tile)
    logarithms = np.log2([side, most / side, tile, tiles])
    return (*logarithms.tolist(), tiles * tile / k)


def rows_between(dataset: Dataset, options: PairOptions | None = None) -> Dataset | None:
    """Predict rows for the numbers of columns between those that were measured.

    Parameters
    ----------
    dataset : Dataset
        The training part.
    options : PairOptions, optional

    Returns
    -------
    Dataset or None
        At most `MOST` rows for each matrix and sweep, whose k are of `columns_between` and lie between two that it was
        measured with. Their times are predicted by a model of pairs that was trained on the rows of `dataset`; the
        least of them lies between those of the nearest k that the matrix was measured with. Candidates are those that
        the matrix was measured with. None without such a k.
    """
    parts = [part for k in columns_between(dataset.k) if (part := _at(dataset, k)) is not None]
    if not parts:
        return None
    chosen = options or PairOptions()
    drawn = _drawn(parts[0].joined(*parts[1:]), chosen.seed)
    return dataclasses.replace(drawn, times=_Pairs(dataset, chosen).times(drawn))


def rows_between_each(datasets: Sequence[Dataset]) -> list[Dataset | None]:
    """Return `rows_between` of several data sets, each on a thread of its own."""
    return on_threads(rows_between, datasets)


def _drawn(dataset: Dataset, seed: int) -> Dataset:
    """Return at most `MOST` rows of each matrix and sweep."""
    order = np.random.default_rng(seed).permutation(len(dataset))
    _, number = np.unique(_of_sweep(dataset)[order], return_inverse=True)
    grouped = np.argsort(number, kind="stable")
    place = np.arange(len(order)) - np.searchsorted(number[grouped], number[grouped])
    return dataset.rows(np.sort(order[grouped[place < MOST]]))


def _of_sweep(dataset: Dataset) -> NDArray[np.str_]:
    """Return the matrix and the sweep of each row, together."""
    return np.char.add(np.char.add(dataset.names, "\n"), dataset.sweeps.astype(str))


def _at(dataset: Dataset, k: int) -> Dataset | None:
    """Return a row for each matrix and sweep that was measured below and above k, with the least time as all times."""
    _, number = np.unique(_of_sweep(dataset), return_inverse=True)
    count = int(number.max()) + 1 if len(number) else 0
    below, above = np.full(count, -1), np.full(count, -1)
    supported = np.zeros((count, len(dataset.candidates)), dtype=np.bool_)
    np.logical_or.at(supported, number, dataset.supported)
    for row in np.argsort(dataset.k, kind="stable"):
        if dataset.k[row] < k:
            below[number[row]] = row
    for row in np.argsort(-dataset.k, kind="stable"):
        if dataset.k[row] > k:
            above[number[row]] = row
    same = np.zeros(count, dtype=np.bool_)
    same[number[dataset.k == k]] = True
    chosen = np.flatnonzero((below >= 0) & (above >= 0) & ~same)
    if not len(chosen):
        return None
    itemsize = dataset.itemsize
    low, high = dataset.rows(below[chosen]), dataset.rows(above[chosen])
    reference = [np.log(part.best / roofline_us(part.features, part.k, itemsize)) for part in (low, high)]
    share = np.log(k / low.k) / np.log(high.k / low.k)
    least = np.exp((1 - share) * reference[0] + share * reference[1]) * roofline_us(
        low.features, np.full(len(low), float(k)), itemsize
    )
    return dataclasses.replace(
        low,
        settings=np.array([f"{name.rpartition('=')[0]}={k}" for name in low.settings.tolist()], dtype=np.str_),
        k=np.full(len(low), k, dtype=np.int64),
        times=np.where(supported[chosen], least[:, np.newaxis], np.nan),
        supported=supported[chosen],
        preparation_ms=np.full(low.times.shape, np.nan),
    )


class _Pairs:
    """A model of how much slower than the fastest a candidate is, of a matrix and the candidate's parameters."""

    def __init__(self, dataset: Dataset, options: PairOptions) -> None:
        import lightgbm

        self._candidates = dataset.candidates
        parsed = [parse(name) for name in dataset.candidates]
        names = sorted({name for one in parsed for name, _ in one.parameters})
        kinds = sorted({(one.kernel.format, one.kernel.name) for one in parsed})
        orders = sorted({one.permutation for one in parsed})
        self._fixed = np.array(
            [
                [
                    kinds.index((one.kernel.format, one.kernel.name)),
                    orders.index(one.permutation),
                    *(dict(one.parameters).get(name, -1) for name in names),
                ]
                for one in parsed
            ],
            dtype=np.float64,
        )
        with np.errstate(invalid="ignore"):
            ratio = np.minimum(np.log(dataset.times / dataset.best[:, np.newaxis]), WORST)
        rows, columns = np.nonzero(np.isfinite(ratio))
        if len(rows) > options.most:
            drawn = np.sort(np.random.default_rng(options.seed).choice(len(rows), options.most, replace=False))
            rows, columns = rows[drawn], columns[drawn]
        target = compress(ratio[rows, columns])
        X = self._inputs(dataset, rows, columns)
        width = len(INPUTS)
        parameters = {
            "objective": "l2",
            "num_leaves": options.leaves,
            "learning_rate": options.rate,
            "min_data_in_leaf": 20,
            "feature_fraction": 0.6,
            "bagging_fraction": 0.6,
            "bagging_freq": 1,
            "seed": options.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbosity": -1,
        }
        data = lightgbm.Dataset(X, target, weight=np.exp(-target / NEAR) + NEAR, categorical_feature=[width, width + 1])
        self._booster = lightgbm.train(parameters, data, options.iterations)

    def times(self, dataset: Dataset) -> _Array:
        """Return times whose least is that of the rows, for the candidates that are supported; NaN for others."""
        rows, columns = np.nonzero(dataset.supported)
        found = np.full(dataset.times.shape, np.inf)
        found[rows, columns] = self._booster.predict(self._inputs(dataset, rows, columns))
        ratio = expand(found - found.min(axis=1, keepdims=True))
        return np.where(dataset.supported, dataset.times * np.exp(np.minimum(ratio, WORST)), np.nan)

    def _inputs(self, dataset: Dataset, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.float32]:
        of_matrix = model_inputs(dataset.features, dataset.k, INPUTS).astype(np.float32)
        measured, number = np.unique(dataset.k, return_inverse=True)
        layouts = np.array([[thread_layout(name, int(k)) for name in self._candidates] for k in measured])
        of_candidate = np.concatenate([self._fixed[columns], layouts[number[rows], columns]], axis=1)
        return np.concatenate([of_matrix[rows], of_candidate.astype(np.float32)], axis=1)

"""Candidates that were measured in another sweep only, on the same GPU or on another one.

A kernel that came after a sweep has no times there. Where another sweep has tried it, on the same matrices and beside
candidates that both have tried, its time is estimated: what it takes there, times what candidates of its kind take here
over what they take there.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warploom.bench.medians import is_vendor, kernel_of
from warploom.training.data import Dataset, widened

__all__ = ["carried_over", "completed", "estimated"]

_Array = NDArray[np.float64]


def carried_over(dataset: Dataset, elsewhere: Dataset, tried: Collection[str] | None = None) -> Dataset:
    """Add the candidates that only another GPU has tried, with estimated times.

    Parameters
    ----------
    dataset, elsewhere : Dataset
        Of the same operation, value type, layout and state of the cache, on two GPUs.
    tried : collection of str, optional
        Candidates that are not added, since a sweep on this GPU has them; those of `dataset` if not given.

    Returns
    -------
    Dataset
        Rows that `elsewhere` lacks have no times of the new candidates and do not support them, and those of a size
        that it lacks have not tried them. Preparation takes as long as it does there.
    """
    known = set(dataset.candidates) | set(tried or ())
    added = [name for name in elsewhere.candidates if name not in known and not is_vendor(name)]
    if not added:
        return dataset
    found = widened(dataset, tuple(sorted({*dataset.candidates, *added})))
    here, there = _shared_rows(dataset, elsewhere)
    other = elsewhere.rows(there)
    columns = np.array([found.candidates.index(name) for name in added], dtype=np.intp)
    places = np.ix_(here, columns)
    times, supported, preparation = found.times.copy(), found.supported.copy(), found.preparation_ms.copy()
    times[places] = estimated(dataset.rows(here), other, added)
    supported[places] = np.isfinite(times[places])
    preparation[places] = np.where(supported[places], other.columns(added).preparation_ms, np.nan)
    untried = found.untried.copy()
    least, most = elsewhere.reach
    outside = (found.nnz < least) | (found.nnz > most)
    untried[:, columns] = outside[:, np.newaxis] & ~supported[:, columns]
    return dataclasses.replace(found, times=times, supported=supported, preparation_ms=preparation, untried=untried)


def completed(dataset: Dataset) -> Dataset:
    """Give the rows of each sweep the candidates that another one has tried on the same matrix.

    Parameters
    ----------
    dataset : Dataset
        Of several sweeps on one GPU: see `warploom.training.data.united`.

    Returns
    -------
    Dataset
        The same rows and candidates, with more times. What a sweep has tried on any matrix stays as it was.
    """
    arrays: dict[str, Any] = {
        name: getattr(dataset, name).copy() for name in ("times", "supported", "preparation_ms", "untried")
    }
    sweeps = np.unique(dataset.sweeps)
    tried = {sweep: dataset.supported[dataset.sweeps == sweep].any(axis=0) for sweep in sweeps}
    for mine, other in itertools.permutations(sweeps, 2):
        columns = np.flatnonzero(tried[other] & ~tried[mine] & ~dataset.vendor)
        rows, others = np.flatnonzero(dataset.sweeps == mine), np.flatnonzero(dataset.sweeps == other)
        shared = _shared_rows(dataset.rows(rows), dataset.rows(others))
        here, there = rows[shared[0]], others[shared[1]]
        if not len(columns) or not len(here):
            continue
        names = [dataset.candidates[column] for column in columns]
        times = estimated(dataset.rows(here), dataset.rows(there), names)
        places = np.ix_(here, columns)
        new = np.isfinite(times) & ~arrays["supported"][places]
        prepared = dataset.preparation_ms[np.ix_(there, columns)]
        arrays["times"][places] = np.where(new, times, arrays["times"][places])
        arrays["preparation_ms"][places] = np.where(new, prepared, arrays["preparation_ms"][places])
        arrays["supported"][places] |= new
        arrays["untried"][places] &= ~new
    return dataclasses.replace(dataset, **arrays)


def estimated(here: Dataset, there: Dataset, candidates: Sequence[str]) -> _Array:
    """Estimate times of one sweep from those of another.

    Parameters
    ----------
    here, there : Dataset
        The same rows, of two sweeps.
    candidates : sequence of str
        Those of `there` whose times are estimated. What `here` has of them is not looked at.

    Returns
    -------
    ndarray of float64, shape (n, candidates)
        Microseconds; NaN where the candidate has no time there, or no other one has a time in both sweeps. The factor
        is the median one of the other candidates that share the kernel and the row permutation; where a row has none
        of them, of those that share the kernel; or of all that are not the vendor's.
    """
    both = [
        name for name in here.candidates if name in there.candidates and name not in candidates and not is_vendor(name)
    ]
    factors = np.log(here.columns(both).times / there.columns(both).times)
    found = np.full((len(there), len(candidates)), np.nan)
    for column, name in enumerate(candidates):
        factor = np.full(len(there), np.nan)
        for kind in (_kernel_and_rows, kernel_of, _anything):
            alike = [i for i, other in enumerate(both) if kind(other) == kind(name)]
            factor = np.where(np.isnan(factor), _median(factors[:, alike]), factor)
        found[:, column] = there.times_of(name) * np.exp(factor)
    return found


def _shared_rows(dataset: Dataset, elsewhere: Dataset) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of the same matrix and setting, in both; of several elsewhere, the one that has most times."""
    place = {
        (elsewhere.names[row], elsewhere.settings[row]): row
        for row in np.argsort(np.isfinite(elsewhere.times).sum(axis=1), kind="stable")
    }
    pairs = [
        (row, place[key]) for row, key in enumerate(zip(dataset.names, dataset.settings, strict=True)) if key in place
    ]
    rows = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _kernel_and_rows(candidate: str) -> str:
    return f"{candidate.split('/')[1]}/{kernel_of(candidate)}"


def _anything(candidate: str) -> str:
    return ""


def _median(values: _Array) -> _Array:
    """Return the median of each row over what is known, NaN where nothing is."""
    found = np.full(len(values), np.nan)
    some = np.isfinite(values).any(axis=1)
    found[some] = np.nanmedian(values[some], axis=1)
    return found

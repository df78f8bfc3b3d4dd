"""From measurements to arrays for learning: features of each matrix, and the time of every candidate."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom import _core, features
from warploom.bench.measurements import Measurements, sort
from warploom.bench.medians import default_of_vendor, is_vendor, of_one_environment
from warploom.bench.repeatability import Tolerances, tolerances
from warploom.bench.schema import OVERLAP
from warploom.bench.settings import Setting
from warploom.errors import ParameterError

__all__ = [
    "NOT_MEASURED",
    "OVERLAP",
    "Dataset",
    "base_name",
    "complete",
    "family_of",
    "family_splits",
    "fastest",
    "input_matrix",
    "random_folds",
    "random_splits",
    "united",
    "widened",
]

UNKNOWN_TOLERANCE = 0.03
"""abs(log) of the ratio of two measurements of the same thing, where nothing was measured twice."""

NOT_MEASURED: float = _core.NOT_MEASURED
"""Its value for matrices of fewer than 10^6 nonzeros, and where a sweep does not have it."""

_NOT_REACHED = "time limit"
_OF_SIZES = (0.02, 0.98)
"""Quantiles of the nonzeros of a sweep's matrices, which are the sizes that its candidates were tried on."""


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Times of the candidates of one operation: a row for each matrix and setting, a column for each candidate.

    Times are medians of the first run with one state of the cache. Where a matrix was measured in several
    environments, one of them counts, so that times of a row come from one sweep: see
    `warploom.bench.medians.of_one_environment`.

    Attributes
    ----------
    names : ndarray of str, shape (n,)
        Matrices; each occurs once for each setting.
    settings : ndarray of str, shape (n,)
        Settings, such as ``spmm/float32/row/k=32``.
    k : ndarray of int64, shape (n,)
        Columns of B; 1 for SpMV.
    families : ndarray of str, shape (n,)
        See `family_of`.
    groups : ndarray of str, shape (n,)
        See `base_name`: rows of one group hold the same matrix, or parts of it, and must not be split.
    features : dict from str to ndarray of float64, shape (n,)
        Features of both sets, with the set's name before them: ``spmm_density``, ``spmv_nnz``. Those of
        ``column_vectors`` too where the sweep has them for all matrices, and always `OVERLAP`, which is `NOT_MEASURED`
        where the sweep lacks it.
    candidates : tuple of str
        Names of the columns.
    times : ndarray of float64, shape (n, candidates)
        Microseconds; NaN where there is no time.
    supported : ndarray of bool, shape (n, candidates)
        Whether the candidate may be chosen. False where it cannot run or gave a wrong result, and where the sweep left
        it out since another one does the same work there. Where it is true and the time is NaN, the time limit was
        reached.
    preparation_ms : ndarray of float64, shape (n, candidates)
        Row permutation, conversion and upload; NaN where there is no time.
    tolerance : ndarray of float64, shape (n,)
        abs(log) of the ratio within which times are near-ties of the fastest of the row.
    sweeps : ndarray of int64, shape (n,)
        Which sweep the row is from, where there are several: see `united`.
    untried : ndarray of bool, shape (n, candidates)
        Whether models are told that the candidate is slow: where the row's sweep has left it out, since lists have what
        can win there; in the sweep with most candidates, where no other one that has it has matrices of this size.
    op, dtype, layout, cache : str
        What all rows have in common; `layout` is empty for SpMV.
    """

    names: NDArray[np.str_]
    settings: NDArray[np.str_]
    k: NDArray[np.int64]
    families: NDArray[np.str_]
    groups: NDArray[np.str_]
    features: dict[str, NDArray[np.float64]]
    candidates: tuple[str, ...]
    times: NDArray[np.float64]
    supported: NDArray[np.bool_]
    preparation_ms: NDArray[np.float64]
    tolerance: NDArray[np.float64]
    sweeps: NDArray[np.int64]
    untried: NDArray[np.bool_]
    op: str
    dtype: str
    layout: str
    cache: str

    @classmethod
    def of(
        cls,
        measurements: Measurements,
        settings: str | Sequence[str],
        cache: str,
        *,
        within: Tolerances | None = None,
        fewest: int = 2,
        needed: Sequence[str] | None = None,
    ) -> Dataset:
        """Take the times of one or more settings.

        Parameters
        ----------
        measurements : Measurements
        settings : str or sequence of str
            Of one operation, value type and layout; they may differ in k.
        cache : {"warm", "cold"}
        within : Tolerances, optional
            `warploom.bench.repeatability.tolerances` of the measurements if not given, and `UNKNOWN_TOLERANCE` where
            nothing was measured twice.
        fewest : int
            Rows with fewer times are left out.
        needed : sequence of str, optional
            Patterns of the candidates that are to be compared; all if not given.

        Raises
        ------
        ParameterError
            The settings are none or differ in more than k, there are no times, or rows of features are missing.
        """
        wanted = [settings] if isinstance(settings, str) else list(settings)
        kinds = {(s.op, s.dtype, "" if s.op == "spmv" else s.layout) for s in map(Setting.parse, wanted)}
        if len(kinds) != 1:
            raise ParameterError("settings of one operation, value type and layout are needed", argument="settings")
        op, dtype, layout = next(iter(kinds))
        rows = _rows(measurements, wanted, cache, needed)
        timed = rows[rows["median_us"].notna()]
        if timed.empty:
            raise ParameterError(f"no times of {', '.join(wanted)} with a {cache} cache", argument="settings")
        candidates = np.sort(timed["candidate"].unique())
        times = _pivot(timed, "median_us", candidates)
        times = times[times.notna().sum(axis=1) >= fewest]
        missed = rows[rows["status"] == _NOT_REACHED].assign(missed=1.0)
        supported = times.notna() | _pivot(missed, "missed", candidates).reindex(times.index).notna()
        names = times.index.get_level_values("matrix").to_numpy().astype(str)
        known = _describe(measurements.matrices, names)
        least = times.min(axis=1).to_numpy()
        return cls(
            names=names,
            settings=times.index.get_level_values("setting").to_numpy().astype(str),
            k=timed.groupby(["matrix", "setting"])["k"].first().reindex(times.index).to_numpy(np.int64),
            families=np.array([family_of(row) for row in known.to_dict("records")], dtype=np.str_),
            groups=np.array([base_name(name) for name in names], dtype=np.str_),
            features={name: known[name].to_numpy(np.float64) for name in _known_features(known)}
            | {OVERLAP: _overlap(known)},
            candidates=tuple(map(str, candidates)),
            times=times.to_numpy(np.float64),
            supported=supported.to_numpy(),
            preparation_ms=_pivot(timed, "preparation_ms", candidates).reindex(times.index).to_numpy(np.float64),
            tolerance=_within(measurements, within)(cache, least),
            sweeps=np.zeros(len(names), dtype=np.int64),
            untried=np.zeros(times.shape, dtype=np.bool_),
            op=op,
            dtype=dtype,
            layout=layout,
            cache=cache,
        )

    def __len__(self) -> int:
        """Return the number of rows: pairs of a matrix and a setting."""
        return len(self.names)

    @property
    def nnz(self) -> NDArray[np.float64]:
        """Stored entries of each row's matrix."""
        return self.features["spmv_nnz"]

    @property
    def reach(self) -> tuple[float, float]:
        """Nonzeros of the matrices that candidates were tried on, from the least to the most, without rare sizes."""
        least, most = np.quantile(self.nnz, _OF_SIZES)
        return float(least), float(most)

    @property
    def itemsize(self) -> int:
        """Bytes of a value."""
        return 2 if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize

    @property
    def best(self) -> NDArray[np.float64]:
        """Minimum time of each row, in microseconds; NaN where there is none."""
        return _least(self.times)

    @property
    def vendor(self) -> NDArray[np.bool_]:
        """Which columns are kernels of the vendor's library."""
        return np.array([is_vendor(name) for name in self.candidates])

    @property
    def vendor_best(self) -> NDArray[np.float64]:
        """Minimum time among the vendor's candidates, NaN where none has one."""
        return _least(self.times[:, self.vendor])

    @property
    def vendor_default(self) -> NDArray[np.float64]:
        """Time of the vendor's default algorithm on CSR, NaN where there is none."""
        return self.times_of(default_of_vendor(self.op))

    def times_of(self, candidate: str) -> NDArray[np.float64]:
        """Return the times of one candidate, NaN where there is none."""
        if candidate not in self.candidates:
            return np.full(len(self), np.nan)
        return self.times[:, self.candidates.index(candidate)]

    def rows(self, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Dataset:
        """Return some of the rows, all candidates."""
        return self._with_arrays([self], lambda arrays: arrays[0][chosen])

    def columns(self, candidates: Sequence[str]) -> Dataset:
        """Return the columns of some candidates, all rows.

        Raises
        ------
        ParameterError
            One of the candidates is not among the columns.
        """
        unknown = [name for name in candidates if name not in self.candidates]
        if unknown:
            raise ParameterError(f"no column '{unknown[0]}'", argument="candidates")
        order = [self.candidates.index(name) for name in candidates]
        taken: dict[str, Any] = {
            name: getattr(self, name)[:, order] for name in ("times", "supported", "preparation_ms", "untried")
        }
        return dataclasses.replace(self, candidates=tuple(candidates), **taken)

    def joined(self, *others: Dataset) -> Dataset:
        """Return the rows of this and other parts of one data set.

        Raises
        ------
        ParameterError
            The candidates differ.
        """
        if any(other.candidates != self.candidates for other in others):
            raise ParameterError("the parts have different candidates", argument="others")
        return self._with_arrays([self, *others], np.concatenate)

    def _with_arrays(self, parts: Sequence[Dataset], combine: Callable[[list[NDArray[Any]]], NDArray[Any]]) -> Dataset:
        """Return this with what there is for each row combined from parts."""
        fields = [field.name for field in dataclasses.fields(self) if isinstance(getattr(self, field.name), np.ndarray)]
        changed: dict[str, Any] = {name: combine([getattr(part, name) for part in parts]) for name in fields}
        known = [name for name in self.features if all(name in part.features for part in parts)]
        features = {name: combine([part.features[name] for part in parts]) for name in known}
        return dataclasses.replace(self, **changed, features=features)

    def __repr__(self) -> str:
        kind = "/".join(filter(None, (self.op, self.dtype, self.layout)))
        return (
            f"Dataset({kind}, {self.cache}: {len(self):,} rows of {len(set(self.names)):,} matrices, "
            f"{len(self.candidates)} candidates, {np.isfinite(self.times).mean():.0%} measured)"
        )


def united(parts: Sequence[Dataset]) -> Dataset:
    """Return the rows of several sweeps of the same operation, value type, layout and state of the cache.

    A matrix that is in several has a row of each. Candidates that a sweep has not tried are not supported on its rows.

    Parameters
    ----------
    parts : sequence of Dataset
        At least one, of one sweep each.
    """
    candidates = tuple(sorted({name for part in parts for name in part.candidates}))
    if len(parts) == 1:
        return parts[0]
    fullest = int(np.argmax([len(part.candidates) for part in parts]))
    wide = [widened(part, candidates) for part in parts]
    for number, part in enumerate(wide):
        untried = np.broadcast_to(~part.supported.any(axis=0), part.untried.shape)
        if number == fullest:
            untried = untried & ~_tried_at_such_sizes(part, parts, candidates)
        sweeps = np.full(len(part), number)
        wide[number] = dataclasses.replace(part, sweeps=sweeps, untried=part.untried | untried)
    return wide[0].joined(*wide[1:])


def _tried_at_such_sizes(part: Dataset, parts: Sequence[Dataset], candidates: Sequence[str]) -> NDArray[np.bool_]:
    """Whether another sweep that has a candidate has matrices of a row's size, shape (n, candidates)."""
    reach = np.array([other.reach for other in parts])
    listed = np.array([np.isin(candidates, other.candidates) for other in parts])
    within = (reach[:, :1] <= part.nnz) & (part.nnz <= reach[:, 1:])
    return np.asarray(np.einsum("sn,sc->nc", within, listed) > 0)


def widened(part: Dataset, candidates: tuple[str, ...]) -> Dataset:
    """Return the columns of these candidates, empty where the part has none."""
    order = np.array([candidates.index(name) for name in part.candidates], dtype=np.intp)

    def wide(values: NDArray[Any], otherwise: object) -> NDArray[Any]:
        found = np.full((len(part), len(candidates)), otherwise, dtype=values.dtype)
        found[:, order] = values
        return found

    return dataclasses.replace(
        part,
        candidates=candidates,
        times=wide(part.times, np.nan),
        supported=wide(part.supported, False),
        preparation_ms=wide(part.preparation_ms, np.nan),
        untried=wide(part.untried, False),
    )


def complete(dataset: Dataset, candidates: Sequence[str]) -> tuple[Dataset, int]:
    """Take some columns, and the rows where every one that could be chosen has a time.

    Returns
    -------
    dataset : Dataset
    left_out : int
        Matrices that lack a time because the time limit was reached.

    Raises
    ------
    ParameterError
        A candidate was never measured, or there is no complete row.
    """
    chosen = dataset.columns(candidates)
    known = np.isfinite(chosen.times)
    whole = (known | ~chosen.supported).all(axis=1) & (known.sum(axis=1) > 1)
    if not whole.any():
        raise ParameterError("there is no matrix with all the times", argument="measurements")
    return chosen.rows(whole), int((~whole).sum())


def fastest(dataset: Dataset) -> NDArray[np.intp]:
    """Return the column with the minimum time of each row."""
    return np.asarray(np.where(np.isfinite(dataset.times), dataset.times, np.inf).argmin(axis=1), dtype=np.intp)


def input_matrix(dataset: Dataset, feature_set: str, inputs: Sequence[str]) -> NDArray[np.float64]:
    """Return features of a set as columns."""
    return np.stack([dataset.features[f"{feature_set}_{name}"] for name in inputs], axis=1)


def base_name(matrix: str) -> str:
    """Return the name without suffixes: ``HB/west0479`` of ``HB/west0479.T[0:100]`` and ``HB/west0479.shuffled``."""
    return re.sub(r"(\.T|\[\d*:\d*\]|\.shuffled|\.half|\.reordered\([^()]*\))+$", "", matrix)


def family_of(matrix: dict[str, object]) -> str:
    """Return the family of a matrix, for splits that leave whole families out.

    Parameters
    ----------
    matrix : dict
        A row of the table of matrices: ``matrix``, ``family``, ``kind`` and ``source`` count.

    Returns
    -------
    str
        The family of a construction. Of a collected matrix, the problem that it comes from, without the words that say
        that it is one of several; all graphs are one family. Where the collection names no problem, the group.
    """
    name, family, kind = (str(matrix.get(key, "")) for key in ("matrix", "family", "kind"))
    if matrix.get("source") == "construction" and "(" in name:
        return family
    words = re.sub(r"\b(duplicate|subsequent|sequence|problem)\b", " ", kind.casefold()).split()
    if any("graph" in word for word in words):
        return "graph"
    return " ".join(words) or family


def random_splits(
    dataset: Dataset, test: float = 0.2, seeds: Sequence[int] = (0, 1, 2, 3)
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Split at random, once for each seed; a matrix with all its settings and parts is on one side.

    Parameters
    ----------
    dataset : Dataset
    test : float
        Share of the matrices to hold out.
    seeds : sequence of int

    Yields
    ------
    (train, test) : tuple of ndarray of int
        Rows.
    """
    from sklearn.model_selection import GroupShuffleSplit  # type: ignore[import-untyped, unused-ignore]

    for seed in seeds:
        splitter = GroupShuffleSplit(1, test_size=test, random_state=seed)
        yield next(iter(splitter.split(dataset.names, groups=dataset.groups)))


def random_folds(dataset: Dataset, folds: int, seed: int = 0) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Split at random so that every row is held out once; a matrix with all its settings and parts is on one side.

    Parameters
    ----------
    dataset : Dataset
    folds : int
        Each holds out 1 / folds of the matrices.
    seed : int

    Yields
    ------
    (train, test) : tuple of ndarray of int
        Rows.
    """
    from sklearn.model_selection import GroupKFold  # type: ignore[import-untyped, unused-ignore]

    splitter = GroupKFold(folds, shuffle=True, random_state=seed)
    yield from splitter.split(dataset.names, groups=dataset.groups)


def family_splits(
    dataset: Dataset, folds: int = 5, seed: int = 0
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Split so that no family is on both sides, and every row is held out once.

    Parameters
    ----------
    dataset : Dataset
    folds : int
        Maximum number; as many as there are families, if these are fewer.
    seed : int
        Seed of the order in which families are distributed over the folds.

    Yields
    ------
    (train, test) : tuple of ndarray of int
        Rows.

    Raises
    ------
    ParameterError
        There are fewer than two families.
    """
    from sklearn.model_selection import GroupKFold  # type: ignore[import-untyped, unused-ignore]

    labels = _joined(dataset.families, dataset.groups)
    count = len(set(labels))
    if count < 2:
        raise ParameterError("all matrices are of one family", argument="dataset")
    splitter = GroupKFold(min(folds, count), shuffle=True, random_state=seed)
    yield from splitter.split(dataset.names, groups=labels)


def _joined(families: NDArray[np.str_], groups: NDArray[np.str_]) -> NDArray[np.str_]:
    """Return one family for each group: parts of a matrix may be listed with another kind than the whole."""
    first = {group: family for family, group in zip(families[::-1], groups[::-1], strict=True)}
    return np.array([first[group] for group in groups])


def _rows(
    measurements: Measurements, settings: Sequence[str], cache: str, needed: Sequence[str] | None
) -> pd.DataFrame:
    """Return rows of the first run with times or not reached, of one environment for each matrix and setting."""
    rows = measurements.measurements
    missed = (rows["status"] == _NOT_REACHED) & (rows["candidate"] != "")
    timed = (rows["status"] == "ok") & (rows["cache"] == cache) & rows["median_us"].notna()
    rows = rows[(rows["run"] == 0) & rows["setting"].isin(settings) & (timed | missed)]
    rows = of_one_environment(rows, ["matrix", "setting"], needed)
    text = {name: rows[name].astype(str) for name in ("matrix", "setting", "candidate")}
    return sort(rows.assign(**text), ("matrix", "setting", "candidate"))


def _pivot(rows: pd.DataFrame, values: str, candidates: NDArray[np.object_]) -> pd.DataFrame:
    table = rows.pivot_table(index=["matrix", "setting"], columns="candidate", values=values, aggfunc="first")
    return table.reindex(columns=candidates).astype(np.float64)


def _describe(matrices: pd.DataFrame, names: NDArray[np.str_]) -> pd.DataFrame:
    known = matrices.set_index("matrix", drop=False).reindex(names)
    columns = [f"{of}_{name}" for of in features.sets() for name in features.names(of)]
    lacking = known[columns].isna().any(axis=1).to_numpy()
    if lacking.any():
        raise ParameterError(f"no features of '{names[lacking.argmax()]}'", argument="measurements")
    return known


def _known_features(matrices: pd.DataFrame) -> list[str]:
    names = [f"{of}_{name}" for of in features.sets() for name in features.names(of)]
    of_vectors = [f"column_vectors_{name}" for name in features.names("column_vectors")]
    if set(of_vectors) <= set(matrices) and matrices[of_vectors].notna().all(axis=None):
        names += of_vectors
    return names


def _overlap(matrices: pd.DataFrame) -> NDArray[np.float64]:
    if OVERLAP not in matrices:
        return np.full(len(matrices), NOT_MEASURED)
    known: NDArray[np.float64] = matrices[OVERLAP].to_numpy(np.float64)
    return np.where(np.isnan(known), NOT_MEASURED, known)


def _within(measurements: Measurements, within: Tolerances | None) -> Tolerances:
    if within is not None:
        return within
    try:
        return tolerances(measurements)
    except ParameterError:  # nothing was measured twice
        return Tolerances({}, {}, UNKNOWN_TOLERANCE)


def _least(times: NDArray[np.float64]) -> NDArray[np.float64]:
    if not times.shape[1]:
        return np.full(len(times), np.nan)
    least = np.where(np.isnan(times), np.inf, times).min(axis=1)
    return np.where(np.isinf(least), np.nan, least)

"""The times of one setting: a row for each matrix, a column for each candidate."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.bench.measurements import Measurements
from warploom.candidates import OPERATIONS, Candidate, kernels, matches
from warploom.errors import ParameterError

__all__ = [
    "Medians",
    "are_widely_measured",
    "default_of_vendor",
    "describe_environments",
    "geometric_mean",
    "is_vendor",
    "kernel_of",
    "of_one_environment",
    "settings",
]


@dataclasses.dataclass
class Medians:
    """Medians of the first run of one setting with one state of the cache.

    Where a matrix was measured in several environments of one GPU, only those of one environment are here, so that
    times that are compared come from one sweep: see `of_one_environment`.
    """

    setting: str
    cache: str
    times: pd.DataFrame
    """Microseconds, NaN where there is no time. Index: matrices. Columns: candidates."""
    environment: str
    """What was measured on, in words."""

    @classmethod
    def of(cls, measurements: Measurements, setting: str, cache: str, needed: Iterable[str] | None = None) -> Medians:
        """Take the times of a setting.

        Parameters
        ----------
        measurements : Measurements
        setting : str
        cache : {"warm", "cold"}
        needed : iterable of str, optional
            Patterns of the candidates that are to be compared; all if not given.

        Raises
        ------
        ParameterError
            Nothing was timed in this setting, or it was timed on different GPUs.
        """
        rows = measurements.timed_in(setting, cache)
        if rows.empty:
            raise ParameterError(f"no times of {setting} with a {cache} cache", argument="setting")
        environments = {key: measurements.environments.get(key, {}) for key in rows["environment"].unique()}
        gpus = sorted({str(environment.get("gpu", key)) for key, environment in environments.items()})
        if len(gpus) > 1:
            raise ParameterError(
                f"{setting} was measured on different GPUs ({', '.join(gpus)}); select the environments of one",
                argument="measurements",
            )
        rows = of_one_environment(rows, ["matrix"], needed)
        times = rows.pivot(index="matrix", columns="candidate", values="median_us").astype(np.float64)
        times.index, times.columns = times.index.astype(str), times.columns.astype(str)
        return cls(setting, cache, times, describe_environments(environments))

    @property
    def op(self) -> str:
        """The operation."""
        return self.setting.split("/", 1)[0]

    def candidates(self, *, vendor: bool) -> list[str]:
        """Return the vendor's candidates, or warploom's own."""
        return [name for name in self.times if is_vendor(name) == vendor]

    def best(self, candidates: Sequence[str]) -> pd.Series:
        """Return the minimum time among some candidates for each matrix; NaN where none has one."""
        return self.times[list(candidates)].min(axis=1).astype(np.float64)

    def widely_measured(self) -> Medians:
        """Leave out matrices with times of fewer than half of warploom's kernels: another one may be their fastest."""
        own = self.candidates(vendor=False)
        if not own:
            return self
        wide = are_widely_measured(own, self.times[own].notna().to_numpy())
        return dataclasses.replace(self, times=self.times[wide])

    def note(self, matrices: int) -> str:
        """Return a line that says what figures over so many matrices were measured on."""
        return f"{self.environment}; {self.setting}, {self.cache} L2 cache, {matrices:,} matrices"


def are_widely_measured(candidates: Sequence[str], measured: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say for which matrices at least half of the kernels were measured.

    Parameters
    ----------
    candidates : sequence of str
        At least one.
    measured : ndarray of bool, shape (n, candidates)
        For each matrix.

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    kernels = np.array([kernel_of(name) for name in candidates])
    known = [measured[:, kernels == kernel].any(axis=1) for kernel in np.unique(kernels)]
    return np.asarray(np.mean(known, axis=0) >= 0.5)


def of_one_environment(rows: pd.DataFrame, by: Sequence[str], needed: Iterable[str] | None = None) -> pd.DataFrame:
    """Keep what can be compared: of each group, the rows of one environment.

    Parameters
    ----------
    rows : pandas.DataFrame
        Measurements.
    by : sequence of str
        Columns that make groups.
    needed : iterable of str, optional
        Patterns of the candidates that are compared; all if not given.

    Returns
    -------
    pandas.DataFrame
        The rows of the environment with the most times of what is needed, then of any candidate.
    """
    if rows["environment"].nunique() <= 1:
        return rows
    timed = rows["median_us"].notna()
    patterns = None if needed is None else list(needed)
    counted = pd.DataFrame({"needed": timed & rows["candidate"].map(lambda name: matches(name, patterns)).astype(bool)})
    counted = counted.assign(
        timed=timed, environment=rows["environment"].astype(str), **{name: rows[name] for name in by}
    )
    counts = counted.groupby([*by, "environment"], observed=True).sum().reset_index()
    order = counts.sort_values(["needed", "timed", "environment"], ascending=[False, False, True])
    most = order.drop_duplicates(by)[[*by, "environment"]]
    return rows.assign(environment=counted["environment"]).merge(most, on=[*by, "environment"])


def describe_environments(environments: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the GPUs and CUDA versions of environments in words."""

    def values(name: str) -> str:
        return " and ".join(sorted({str(e.get(name, "unknown")) for e in environments.values()})) or "unknown"

    return f"{values('gpu')}, CUDA {values('cuda')}"


def settings(measurements: Measurements) -> list[tuple[str, str]]:
    """Return the pairs of a setting and a state of the cache that have times, in alphabetical order of settings.

    Warm comes before cold. Sampled products, which plans do not compute, are left out.
    """
    rows = measurements.timed()
    pairs = rows[rows["op"].isin(OPERATIONS)][["setting", "cache"]].drop_duplicates().astype(str)
    return sorted(pairs.itertuples(index=False, name=None), key=lambda pair: (pair[0], pair[1] != "warm"))


def is_vendor(candidate: str) -> bool:
    """Whether a candidate is a kernel of the vendor's library."""
    return kernel_of(candidate) in _kernels_of_vendor()


@functools.cache
def _kernels_of_vendor() -> frozenset[str]:
    return frozenset(f"{kernel.format}/{kernel.name}" for op in OPERATIONS for kernel in kernels(op) if kernel.vendor)


def kernel_of(candidate: str) -> str:
    """Return format and kernel of a candidate, ``csr/vector`` of ``spmv/none/csr/vector[threads_per_row=2]``."""
    return "/".join(candidate.split("[")[0].split("/")[2:])


def default_of_vendor(op: str) -> str:
    """Return the candidate of the vendor's default: its default algorithm on CSR."""
    (kernel,) = (kernel for kernel in kernels(op) if kernel.vendor and kernel.format == "csr")
    return Candidate.make(kernel).name


def geometric_mean(values: Iterable[float] | NDArray[np.float64] | pd.Series) -> float:
    """Return the geometric mean; NaN without values."""
    array = np.asarray(list(values), dtype=np.float64)
    return float(np.exp(np.mean(np.log(array)))) if array.size else float("nan")

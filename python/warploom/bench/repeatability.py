"""How far two measurements of the same thing differ, and which candidates cannot be distinguished for that reason."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.bench.measurements import Measurements, group_ids
from warploom.bench.medians import describe_environments
from warploom.bench.rendering import Summary
from warploom.errors import ParameterError

__all__ = ["Tolerances", "near_ties", "pairs", "repeatability", "time_class", "time_class_name", "tolerances"]

PERCENTILES = (5, 25, 50, 75, 95, 99)
FEWEST_PAIRS = 20
"""A 95th percentile of fewer values means nothing; such classes are pooled."""

_SAME = ("environment", "matrix", "setting", "cache")


def pairs(measurements: Measurements) -> pd.DataFrame:
    """Return what was measured twice: run 0, and run 1 in another order.

    Parameters
    ----------
    measurements : Measurements

    Returns
    -------
    pandas.DataFrame
        A row for each measurement with a time in both runs: ``matrix``, ``setting``, ``cache``, ``candidate``,
        ``environment``, ``first_us``, ``second_us``, ``log_ratio`` = log(second / first), and ``time_class`` of the
        first.
    """
    keys = [*_SAME, "candidate"]
    first, second = (measurements.timed(run)[[*keys, "median_us"]] for run in (0, 1))
    found = first.merge(second, on=keys, suffixes=("_0", "_1"))
    found = found.rename(columns={"median_us_0": "first_us", "median_us_1": "second_us"})
    first_us, second_us = (found[name].to_numpy(np.float64) for name in ("first_us", "second_us"))
    return found.assign(log_ratio=np.log(second_us / first_us), time_class=time_class(first_us))


def time_class(times_us: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the decades of times: 0 for 1 to 10 us, 1 for 10 to 100 us, and so on; NaN and 0 count as 1 us."""
    times = np.asarray(times_us, dtype=np.float64)
    return np.floor(np.log10(np.where(times > 0, times, 1.0))).astype(np.int64)


def time_class_name(decade: int) -> str:
    """Return a time class in words."""
    return f"{10.0**decade:g} to {10.0 ** (decade + 1):g} us"


def repeatability(measurements: Measurements) -> Summary:
    """Summarise how far the repeated measurements differ from the first ones, by cache and time.

    Parameters
    ----------
    measurements : Measurements
        With rows of run 1.

    Returns
    -------
    Summary
        Columns ``cache``, ``time``, ``pairs``, ``median ratio`` and percentiles of abs(log(second / first)), which
        for small values is the relative difference. Without repeated measurements there are no rows.
    """
    found = pairs(measurements)
    rows = []
    for cache in (c for c in ("warm", "cold") if (found["cache"] == c).any()):
        chosen = found[found["cache"] == cache]
        for decade in sorted(chosen["time_class"].unique()):
            rows.append(_distribution(cache, time_class_name(decade), chosen[chosen["time_class"] == decade]))
        rows.append(_distribution(cache, "all", chosen))
    columns = ["cache", "time", "pairs", "median ratio", *(f"{p} %" for p in PERCENTILES)]
    return Summary(
        "Repeatability: a second measurement in another order against the first",
        pd.DataFrame(rows, columns=columns),
        [
            f"{describe_environments(measurements.environments)}; {len(found):,} measurements of "
            f"{found['matrix'].nunique():,} matrices, warm and cold L2 cache as given",
            "Percentiles of abs(log(second / first)): for small differences, the relative difference.",
        ],
        {"median ratio": ".4f", **{f"{p} %": ".2%" for p in PERCENTILES}},
    )


def _distribution(cache: str, name: str, found: pd.DataFrame) -> list[object]:
    logs = found["log_ratio"].to_numpy()
    return [cache, name, len(logs), float(np.exp(np.median(logs))), *np.percentile(np.abs(logs), PERCENTILES)]


class Tolerances:
    """How far two measurements of the same thing differ in nearly all cases, by cache and time.

    Parameters
    ----------
    by_class : dict from (str, int) to float
        For a state of the cache and a time class, abs(log(second / first)).
    by_cache : dict from str to float
        For classes that are not in `by_class`.
    otherwise : float
        For a state of the cache that is in neither.
    """

    def __init__(self, by_class: dict[tuple[str, int], float], by_cache: dict[str, float], otherwise: float) -> None:
        self.by_class = by_class
        self.by_cache = by_cache
        self.otherwise = otherwise

    def __call__(self, cache: str, times_us: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the tolerances of times, as abs(log) of a ratio."""
        decades = time_class(times_us)
        values = np.full(decades.shape, self.by_cache.get(cache, self.otherwise))
        for decade in np.unique(decades):
            values[decades == decade] = self.by_class.get(
                (cache, int(decade)), self.by_cache.get(cache, self.otherwise)
            )
        return values

    def __repr__(self) -> str:
        classes = ", ".join(
            f"{cache} {time_class_name(decade)}: {math.expm1(value):.2%}"
            for (cache, decade), value in sorted(self.by_class.items())
        )
        return f"Tolerances({classes}; otherwise {math.expm1(self.otherwise):.2%})"


def tolerances(measurements: Measurements, percentile: float = 95.0) -> Tolerances:
    """Return the tolerance that `percentile` of the repeated measurements stay within, by cache and time.

    Parameters
    ----------
    measurements : Measurements
        With rows of run 1.
    percentile : float
        Between 0 and 100.

    Returns
    -------
    Tolerances
        Classes with fewer than 20 pairs get the percentile of all pairs with that state of the cache, and states of
        the cache with fewer that of all pairs.

    Raises
    ------
    ParameterError
        Nothing was measured twice, or `percentile` is out of range.
    """
    if not 0 <= percentile <= 100:
        raise ParameterError(f"percentile must be between 0 and 100, got {percentile}", argument="percentile")
    found = pairs(measurements)
    if found.empty:
        raise ParameterError("nothing was measured twice (run 1)", argument="measurements")
    found = found.assign(difference=found["log_ratio"].abs(), cache=found["cache"].astype(str))

    by_class = {
        (str(cache), int(decade)): group["difference"].quantile(percentile / 100)
        for (cache, decade), group in found.groupby(["cache", "time_class"])
        if len(group) >= FEWEST_PAIRS
    }
    by_cache = {
        str(cache): group["difference"].quantile(percentile / 100)
        for cache, group in found.groupby("cache")
        if len(group) >= FEWEST_PAIRS
    }
    return Tolerances(by_class, by_cache, float(found["difference"].quantile(percentile / 100)))


def near_ties(measurements: Measurements, within: Tolerances | None = None) -> pd.Series:
    """Mark the near-ties of the fastest of each matrix, setting and cache.

    Parameters
    ----------
    measurements : Measurements
    within : Tolerances, optional
        How far measurements of the same thing differ; `tolerances` of the measurements if not given.

    Returns
    -------
    pandas.Series of bool
        For each row of ``measurements.measurements``: whether it is of run 0, has a time, and this time is within the
        tolerance of the fastest one of the same environment, matrix, setting and cache. The fastest is marked itself.

    Raises
    ------
    ParameterError
        `within` is not given and nothing was measured twice.
    """
    within = tolerances(measurements) if within is None else within
    rows = measurements.timed()
    times = rows["median_us"].to_numpy(np.float64)
    ids = group_ids(rows, _SAME)
    fastest = np.full(ids.max(initial=-1) + 1, np.inf)
    np.minimum.at(fastest, ids, times)
    marked = np.zeros(len(rows), dtype=bool)
    for cache in rows["cache"].unique():
        chosen = (rows["cache"] == cache).to_numpy()
        least = fastest[ids[chosen]]
        marked[chosen] = times[chosen] <= least * np.exp(within(str(cache), least))
    result = pd.Series(False, index=measurements.measurements.index, name="near_tie")
    result.loc[rows.index] = marked
    return result

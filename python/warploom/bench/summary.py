"""What was measured, how it went, and how fast warploom is against the vendor's library."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from warploom.bench.measurements import Measurements, origin_of, part_of
from warploom.bench.medians import Medians, default_of_vendor, describe_environments, geometric_mean
from warploom.bench.medians import settings as measured_settings
from warploom.bench.rendering import Summary
from warploom.errors import ParameterError

__all__ = ["SIZE_CLASSES", "counts", "failures", "floor_shares", "gpu_time", "size_class", "speedups"]

SIZE_CLASSES = ("below 10^4", "10^4 to 10^5", "10^5 to 10^6", "10^6 to 10^7", "10^7 and more")
"""By nonzeros; each includes its lower bound."""

_VALUE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
_INDEX_BYTES = 4


def size_class(nnz: Iterable[int]) -> pd.Categorical:
    """Return the classes of `SIZE_CLASSES` of numbers of nonzeros."""
    codes = np.searchsorted([10**4, 10**5, 10**6, 10**7], np.asarray(nnz, dtype=np.int64), side="right")
    return pd.Categorical.from_codes(codes, categories=list(SIZE_CLASSES), ordered=True)


def counts(measurements: Measurements, by: str = "family") -> Summary:
    """Count the matrices that have times.

    Parameters
    ----------
    measurements : Measurements
    by : {"family", "source", "kind", "size", "part"}
        What the rows are; size is by nonzeros, and parts are matrices as they are, transposes and blocks of rows.

    Returns
    -------
    Summary
        Columns: `by`, ``matrices`` and one for each setting. The last row has the sums.

    Raises
    ------
    ParameterError
        There is no such `by`.
    """
    matrices = measurements.matrices
    if by not in ("family", "source", "kind", "size", "part"):
        raise ParameterError(f"by must be 'family', 'source', 'kind', 'size' or 'part', got {by!r}", argument="by")
    if by == "size":
        groups = pd.Series(size_class(matrices["nnz"]), name=by)
    elif by == "source":
        groups = pd.Series(origin_of(matrices[by]), name=by)
    else:
        groups = pd.Series(part_of(matrices["matrix"]) if by == "part" else matrices[by], name=by)
    groups.index = pd.Index(matrices["matrix"])
    pairs = measurements.timed()[["matrix", "setting"]].drop_duplicates().astype(str)
    table = {"matrices": groups[groups.index.isin(pairs["matrix"])].value_counts()}
    for setting, chosen in pairs.groupby("setting"):
        table[str(setting)] = groups[groups.index.isin(chosen["matrix"])].value_counts()
    frame = pd.DataFrame(table).fillna(0).astype(int).sort_index()
    frame = frame[frame["matrices"] > 0]
    frame.index = frame.index.astype(str)
    frame.loc["all"] = frame.sum()
    return Summary(
        f"Matrices with times, by {by}",
        frame.rename_axis(by).reset_index(),
        [*_parts_in(matrices["matrix"]), describe_environments(measurements.environments)],
    )


def _parts_in(names: pd.Series) -> list[str]:
    """Say how many of the counted matrices are transposes and blocks of rows of others, if any are."""
    parts = part_of(names)
    transposes, blocks = int((parts == "transpose").sum()), int((parts == "block").sum())
    if not transposes + blocks:
        return []
    whole = len(names) - transposes - blocks
    return [f"{whole:,} matrices, {transposes:,} transposes and {blocks:,} blocks of rows of these."]


def gpu_time(measurements: Measurements) -> Summary:
    """Sum the time that the GPU took, by setting.

    Parameters
    ----------
    measurements : Measurements

    Returns
    -------
    Summary
        ``matrices``, ``measurements`` (rows with times, repeated ones included), ``timed s`` (median times repeats)
        and ``preparation s`` (permutation, conversion and upload: once for a candidate and run, warm and cold share
        it). Warm-up, verification and emptying the cache are not in the rows and not in the sums.
    """
    rows = measurements.measurements
    rows = rows[(rows["status"] == "ok") & rows["median_us"].notna()]
    once = rows.drop_duplicates(["environment", "matrix", "setting", "candidate", "run"])
    by_setting = rows.assign(timed=rows["median_us"].astype(np.float64) * rows["repeats"]).groupby(
        "setting", observed=True
    )
    frame = pd.DataFrame(
        {
            "matrices": by_setting["matrix"].nunique(),
            "measurements": by_setting.size(),
            "timed s": by_setting["timed"].sum() / 1e6,
            "preparation s": once.astype({"preparation_ms": np.float64})
            .groupby("setting", observed=True)["preparation_ms"]
            .sum()
            / 1e3,
        }
    )
    frame.index = frame.index.astype(str)
    frame.loc["all"] = [rows["matrix"].nunique(), *frame.drop(columns="matrices").sum()]
    frame = frame.astype({"matrices": int, "measurements": int}).rename_axis("setting").reset_index()
    return Summary(
        "Time on the GPU",
        frame,
        [
            f"{describe_environments(measurements.environments)}; warm and cold L2 cache together",
            "Timed: median times number of repeats, without warm-up, verification and emptying the cache.",
        ],
        {"timed s": ",.1f", "preparation s": ",.1f"},
    )


def failures(measurements: Measurements) -> Summary:
    """Count the rows of each status, by setting.

    Parameters
    ----------
    measurements : Measurements

    Returns
    -------
    Summary
        A row for each setting, a column for each status that occurs.
    """
    rows = measurements.measurements
    frame = pd.crosstab(rows["setting"].astype(str), rows["status"].astype(str))
    frame = frame[sorted(frame, key=lambda status: (status != "ok", status))]
    frame.columns.name = None
    bad = rows[rows["status"] != "ok"]
    common = (bad["candidate"].astype(str) + ": " + bad["note"].astype(str)).value_counts().head(10)
    return Summary(
        "Rows by status",
        frame.reset_index(),
        [
            f"{describe_environments(measurements.environments)}; {rows['matrix'].nunique():,} matrices, warm and cold "
            "L2 cache together",
            *(f"{count:,} x {note}" for note, count in common.items()),
        ],
    )


def speedups(measurements: Measurements, by: str | None = None) -> Summary:
    """Compare the fastest of warploom's candidates with the vendor's library, by setting, cache and nonzeros.

    Parameters
    ----------
    measurements : Measurements
    by : str, optional
        A column of the table of matrices, such as ``"source"``, whose values are compared separately.

    Returns
    -------
    Summary
        Geometric mean over the vendor's default and over the fastest of the vendor's candidates; of the latter also
        the 5th percentile, the minimum, and the share below 0.98. Matrices count that have times of both,
        and of at least half of warploom's kernels.

    Raises
    ------
    ParameterError
        There is no such column, or a setting was measured on different GPUs.
    """
    if by is not None and by not in measurements.matrices:
        raise ParameterError(f"matrices have no column '{by}'", argument="by")
    facts = measurements.matrices.set_index("matrix")
    rows = []
    every: set[str] = set()
    for setting, cache in measured_settings(measurements):
        medians = Medians.of(measurements, setting, cache).widely_measured()
        found = _speedups_of(medians)
        every |= set(found.index)
        groups = facts.loc[found.index, by].astype(str) if by else pd.Series("", index=found.index)
        for group, chosen in found.groupby(groups):
            sizes = pd.Series(size_class(facts.loc[chosen.index, "nnz"]), index=chosen.index)
            for name in (*SIZE_CLASSES, "all"):
                part = chosen if name == "all" else chosen[sizes == name]
                if len(part):
                    rows.append({"setting": setting, "cache": cache, "group": group, "nonzeros": name, **_spread(part)})
    columns = ["setting", "cache", "group", "nonzeros", *_SPREAD]
    frame = pd.DataFrame(rows, columns=columns).rename(columns={"group": by or "group"})
    return Summary(
        "Fastest of warploom over cuSPARSE",
        frame if by else frame.drop(columns="group"),
        [
            f"{describe_environments(measurements.environments)}; {len(every):,} matrices, cache as given",
            "Geometric means; percentile, minimum and share are over the best of cuSPARSE.",
        ],
        {**{name: ".2f" for name in _SPREAD[1:-1]}, "below 0.98": ".1%"},
    )


_SPREAD = ("matrices", "over default", "over best", "5th percentile", "least", "below 0.98")


def _speedups_of(medians: Medians) -> pd.DataFrame:
    """Return, for each matrix with times of both, the speedups over the vendor's default and best."""
    own, vendor = (medians.best(medians.candidates(vendor=v)) for v in (False, True))
    default = medians.times.get(default_of_vendor(medians.op), pd.Series(np.nan, index=own.index))
    return pd.DataFrame({"default": default / own, "best": vendor / own}).dropna(subset="best")


def _spread(found: pd.DataFrame) -> dict[str, float]:
    best = found["best"].to_numpy()
    values = (
        len(found),
        geometric_mean(found["default"].dropna()),
        geometric_mean(best),
        float(np.percentile(best, 5)),
        float(best.min()),
        float((best < 0.98).mean()),
    )
    return dict(zip(_SPREAD, values, strict=True))


def floor_shares(measurements: Measurements) -> Summary:
    """Compare the fastest of warploom's candidates with the time of moving all operands once.

    Parameters
    ----------
    measurements : Measurements
        Matrices need ``referenced_cols``, and environments ``copy_bandwidth`` in bytes per second.

    Returns
    -------
    Summary
        By setting, cache and nonzeros: the median time of the fastest candidates in microseconds, and the geometric
        mean of floor over time. The floor is that of `warploom.Plan.explain`: CSR with 32-bit indices, the columns
        of A's entries as rows of B, and C. Matrices without these are left out.

    Raises
    ------
    ParameterError
        A setting was measured on different GPUs.
    """
    facts = measurements.matrices.set_index("matrix")
    rows = []
    every: set[str] = set()
    for setting, cache in measured_settings(measurements):
        medians = Medians.of(measurements, setting, cache).widely_measured()
        own = medians.best(medians.candidates(vendor=False)).dropna()
        share = (_floor_us(measurements, setting, facts) / own).dropna()
        every |= set(share.index)
        sizes = pd.Series(size_class(facts.loc[share.index, "nnz"]), index=share.index)
        for name in SIZE_CLASSES:
            part = share[sizes == name]
            if len(part):
                median = float(own.loc[part.index].median())
                rows.append((setting, cache, name, len(part), median, geometric_mean(part)))
    return Summary(
        "Fastest of warploom against the floor",
        pd.DataFrame(rows, columns=["setting", "cache", "nonzeros", "matrices", "median us", "share of the floor"]),
        [
            f"{describe_environments(measurements.environments)}; {len(every):,} matrices, cache as given",
            "The floor is the time that reading A and the entries of B that are needed and writing C takes at the "
            "bandwidth of a copy.",
        ],
        {"median us": ",.1f", "share of the floor": ".0%"},
    )


def _floor_us(measurements: Measurements, setting: str, facts: pd.DataFrame) -> pd.Series:
    """Return the floor of each matrix in microseconds; NaN where it is not known."""
    rows = measurements.timed()
    rows = rows[rows["setting"] == setting].drop_duplicates("matrix").astype({"matrix": str, "environment": str})
    rows = rows.set_index("matrix")
    known = facts.loc[rows.index]
    value = _VALUE_BYTES[str(rows["dtype"].iloc[0])]
    k = rows["k"].astype(np.int64)
    matrix = known["nnz"] * (_INDEX_BYTES + value) + (known["rows"] + 1) * _INDEX_BYTES
    total = matrix + (known["referenced_cols"] + known["rows"]) * k * value
    bandwidth = rows["environment"].map(
        {key: float(e.get("copy_bandwidth", np.nan)) for key, e in measurements.environments.items()}
    )
    floor: pd.Series = (1e6 * total / bandwidth.astype(np.float64)).where(known["referenced_cols"] >= 0)
    return floor

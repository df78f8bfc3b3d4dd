"""What the order of rows adds to the fastest candidates, and what it costs: for sweeps of large matrices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.bench.measurements import Measurements, origin_of
from warploom.bench.medians import Medians, describe_environments, geometric_mean
from warploom.bench.medians import settings as measured_settings
from warploom.bench.rendering import Summary
from warploom.errors import ParameterError

__all__ = [
    "ARRANGEMENTS",
    "ORIGINS",
    "STRUCTURED",
    "arrangement_of",
    "costs",
    "gains",
    "of_each",
    "orders",
    "rows_and_columns",
]

ARRANGEMENTS = ("natural", "shuffled", "half")
"""Orders that matrices of the large corpus are given in."""

ORIGINS = ("constructed", "real by origin", "real")

STRUCTURED = frozenset(
    (
        *("2-D grid", "3-D grid", "planar mesh", "tetrahedral mesh", "convection and diffusion", "elasticity"),
        *("finite elements, 2-D", "finite elements, 3-D", "shells and frames", "reaction and diffusion"),
        *("electromagnetic edge elements", "semiconductor device", "saddle point", "nearest points", "road network"),
        *("random geometric graph", "community graph", "2D finite elements, unstructured", "sphere pixels"),
        *("3D finite elements, unstructured", "Delaunay triangulation, real", "nearest points, real"),
    )
)
"""Families of the large corpus whose rows have neighbours: meshes, points in space, finite elements, communities."""

CLEAR = 1.05
"""Gains from here on are counted: smaller ones do not repeat in every sweep."""

_REORDERED = re.compile(r"\.shuffled\.reordered\((.*)\)$")
_SUFFIX = re.compile(r"\.(shuffled|half)$")


def arrangement_of(matrix: str) -> tuple[str, str]:
    """Return the name of a matrix in its natural order, and how its rows and columns were arranged.

    Parameters
    ----------
    matrix : str

    Returns
    -------
    name : str
    arrangement : str
        One of `ARRANGEMENTS`, or the order that rows and columns were put in: ``rcm`` of
        ``NAME.shuffled.reordered(rcm)``.
    """
    for suffix in (_REORDERED, _SUFFIX):
        if found := suffix.search(matrix):
            return matrix[: found.start()], found[1]
    return matrix, "natural"


def of_each(measurements: Measurements, setting: str, cache: str = "warm") -> pd.DataFrame:
    """Return the least time of each matrix in every row order.

    Parameters
    ----------
    measurements : Measurements
    setting : str
    cache : {"warm", "cold"}

    Returns
    -------
    pandas.DataFrame
        Index: matrices. Columns: ``of`` and ``arrangement`` (see `arrangement_of`), ``origin``, ``structured`` (whether
        the family is one of `STRUCTURED`), ``none``, a column for each row permutation with the least time of its
        candidates in microseconds, ``ordered``, the least of these, and ``order``, which of them it is of.
    """
    times = Medians.of(measurements, setting, cache).times
    permutation = pd.Index([name.split("/")[1] for name in times])
    least = {name: times.loc[:, permutation == name].min(axis=1) for name in permutation.unique()}
    found = pd.DataFrame({"none": least.pop("none", np.nan)} | least, index=times.index)
    known = measurements.matrices.set_index("matrix")
    split = [arrangement_of(name) for name in found.index]
    orders = found.drop(columns="none")
    found["ordered"] = orders.min(axis=1)
    has = found["ordered"].notna()
    found["order"] = orders[has].idxmin(axis=1).reindex(found.index)
    found.insert(0, "of", [name for name, _ in split])
    found.insert(1, "arrangement", [arrangement for _, arrangement in split])
    found.insert(2, "origin", origin_of(known["source"].reindex(found.index)))
    found.insert(3, "structured", known["family"].reindex(found.index).isin(STRUCTURED))
    return found


def gains(measurements: Measurements, cache: str = "warm") -> Summary:
    """Compare the fastest candidate with a row permutation with the fastest one without.

    Parameters
    ----------
    measurements : Measurements
        Of one GPU.
    cache : {"warm", "cold"}

    Returns
    -------
    Summary
        A row for each setting, arrangement and origin, one for all origins, and one for families whose rows have
        neighbours.

    Raises
    ------
    ParameterError
        No matrix has times with a row permutation and without.
    """
    lines = []
    for setting, found in _compared(measurements, cache):
        natural = found[found["arrangement"] == "natural"].set_index("of")["none"]
        for arrangement in ARRANGEMENTS:
            of_arrangement = found[(found["arrangement"] == arrangement) & found["ordered"].notna()]
            for label, part in _by_origin(of_arrangement):
                gain = part["none"] / part["ordered"]
                clear = part[gain >= CLEAR]
                wins = clear["order"].value_counts()
                best = natural.reindex(part["of"]).to_numpy() * (1.0 if arrangement != "natural" else np.nan)
                lines.append(
                    {
                        "setting": setting,
                        "arrangement": arrangement,
                        "matrices of": label,
                        "matrices": len(part),
                        "gain": geometric_mean(gain),
                        "least": gain.min(),
                        "most": gain.max(),
                        "an order chosen": geometric_mean(np.maximum(gain, 1)),
                        "5 % or more": len(clear) / len(part),
                        "of these": ", ".join(f"{name} {100 * n / len(clear):.0f} %" for name, n in wins.items()),
                        "of natural, as given": _mean_of_known(best / part["none"].to_numpy()),
                        "of natural": _mean_of_known(best / part[["none", "ordered"]].min(axis=1).to_numpy()),
                    }
                )
    notes = [
        f"{_what(measurements, cache)} Gain: time of the fastest candidate without a row permutation, the vendor's "
        "among them, over that of the fastest one with one: geometric mean, least and most. An order chosen: the "
        "same where the order is taken only on matrices that gain. Rows alone are permuted; x and y stay as they "
        "are. 5 % or more: the share of the matrices that gain so much, and which order is the fastest on these. "
        "With neighbours: meshes, points in space, finite elements and communities, of any origin. Of natural: the "
        "speed in that of the same matrix in its natural order, where it was measured: as given, and ordered."
    ]
    formats = dict.fromkeys(("gain", "least", "most", "an order chosen"), ".2f") | {"5 % or more": ".0%"}
    formats |= {"of natural, as given": ".0%", "of natural": ".0%"}
    return Summary("What the order of the rows adds", pd.DataFrame(lines), notes, formats)


def rows_and_columns(measurements: Measurements, cache: str = "warm") -> Summary:
    """Compare shuffled matrices whose rows and columns were put in an order for locality with the natural order.

    Parameters
    ----------
    measurements : Measurements
        Of one GPU.
    cache : {"warm", "cold"}

    Returns
    -------
    Summary
        A row for each setting, order and origin, of the matrices that have times shuffled, reordered and as they are;
        none without such matrices.
    """
    lines = []
    for setting, found in _compared(measurements, cache):
        known = found.reset_index().set_index(["of", "arrangement"])
        table = known["none"].unstack()
        shuffled = found[found["arrangement"] == "shuffled"].set_index("of")
        alone = shuffled[["none", "ordered"]].min(axis=1)
        for order in (name for name in table if name not in ARRANGEMENTS):
            whole = table.reindex(columns=["natural", "shuffled", order]).assign(alone=alone).dropna()
            whole = whole.join(shuffled[["origin", "structured"]])
            for label, part in _by_origin(whole):
                lines.append(
                    {
                        "setting": setting,
                        "order": order,
                        "matrices of": label,
                        "matrices": len(part),
                        "rows alone": geometric_mean(part["shuffled"] / part["alone"]),
                        "rows and columns": geometric_mean(part["shuffled"] / part[order]),
                        "most": (part["shuffled"] / part[order]).max(),
                        "of natural, rows alone": geometric_mean(part["natural"] / part["alone"]),
                        "of natural": geometric_mean(part["natural"] / part[order]),
                    }
                )
    notes = [
        f"{_what(measurements, cache)} Shuffled square matrices: geometric means of the fastest time as they are over "
        "the fastest with the best order of the rows alone, where one gains, and over the fastest with rows and "
        "columns in this order (`warploom.reorder`); and the speed of both in that of the natural order."
    ]
    formats = dict.fromkeys(("rows alone", "rows and columns", "most"), ".2f")
    formats |= dict.fromkeys(("of natural, rows alone", "of natural"), ".0%")
    return Summary("Orders of rows and columns", pd.DataFrame(lines), notes, formats)


def costs(measurements: Measurements, cache: str = "warm") -> Summary:
    """Say what computing an order takes, in products of the fastest candidate without one.

    Parameters
    ----------
    measurements : Measurements
        Of one GPU.
    cache : {"warm", "cold"}

    Returns
    -------
    Summary
        A row for each setting and order.
    """
    lines = []
    known = measurements.matrices.set_index("matrix")
    for setting, found in _compared(measurements, cache):
        natural = found[found["arrangement"].isin(ARRANGEMENTS)]
        for order in natural.columns[natural.columns.get_loc("none") + 1 : natural.columns.get_loc("ordered")]:
            column = f"permutation_ms_{order}"
            if column not in known:
                continue
            ms = known[column].reindex(natural.index).astype(np.float64)
            nnz = known["nnz"].reindex(natural.index).astype(np.float64)
            has = ms.notna() & natural[order].notna() & natural["none"].notna()
            if not has.any():
                continue
            products = (1e3 * ms / natural["none"])[has]
            saved = (natural["none"] - natural[order])[has]
            gaining = (natural["none"] / natural[order])[has] >= CLEAR
            even = (1e3 * ms[has] / saved)[gaining]
            lines.append(
                {
                    "setting": setting,
                    "order": order,
                    "matrices": int(has.sum()),
                    "ms for 10^6 nonzeros": (1e6 * ms / nnz)[has].median(),
                    "products": products.median(),
                    "90 %": products.quantile(0.9),
                    "gains": int(gaining.sum()),
                    "pays off after": even.median() if len(even) else np.nan,
                }
            )
    notes = [
        f"{_what(measurements, cache)} Computing the order on the CPU, by processes that load matrices at the same "
        "time: medians. Products: how many of the fastest candidate without an order take as long, in the median and "
        "the 90th percentile. Gains: the number of matrices on which it gains 5 % or more, and after how many "
        "products it has paid off on these, in the median."
    ]
    formats = {"ms for 10^6 nonzeros": ".1f", "products": ",.0f", "90 %": ",.0f", "pays off after": ",.0f"}
    return Summary("What an order costs", pd.DataFrame(lines), notes, formats)


def orders(measurements: Measurements, cache: str = "warm") -> list[Summary]:
    """Return `gains`, `rows_and_columns` and `costs`, as far as they have rows.

    Raises
    ------
    ParameterError
        No matrix has times with a row permutation and without.
    """
    made = (gains(measurements, cache), rows_and_columns(measurements, cache), costs(measurements, cache))
    return [table for table in made if len(table.frame)]


def _compared(measurements: Measurements, cache: str) -> list[tuple[str, pd.DataFrame]]:
    """Return each setting with the times of the matrices that have one without an order, SpMV first."""
    named = sorted(
        {setting for setting, of in measured_settings(measurements) if of == cache},
        key=lambda setting: (not setting.startswith("spmv"), _columns(setting), setting),
    )
    found = []
    for setting in named:
        times = of_each(measurements, setting, cache)
        times = times[times["none"].notna()]
        if times["ordered"].notna().any():
            found.append((setting, times))
    if not found:
        raise ParameterError("no matrix has times with a row permutation and without", argument="measurements")
    return found


def _mean_of_known(ratios: NDArray[np.float64]) -> float:
    """Return the geometric mean of those that are known; NaN where none is."""
    return geometric_mean(ratios[np.isfinite(ratios)])


def _columns(setting: str) -> int:
    found = re.search(r"k=(\d+)", setting)
    return int(found[1]) if found else 0


def _by_origin(found: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    parts: Sequence[tuple[str, pd.DataFrame]] = [("all", found)]
    parts = [*parts, *((origin, found[found["origin"] == origin]) for origin in ORIGINS)]
    parts = [*parts, ("with neighbours", found[found["structured"].astype(bool)])]
    yield from ((label, part) for label, part in parts if len(part))


def _what(measurements: Measurements, cache: str) -> str:
    return f"{describe_environments(measurements.environments)}; {cache} L2 cache."

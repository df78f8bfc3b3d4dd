"""End-to-end times in tables: tools beside the vendor's library, and what planning costs."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from warploom.bench.end_to_end.rows import DIRECT, PLACES, PRODUCTS, Rows
from warploom.bench.end_to_end.tools import CALLS, DEFAULT, VENDOR
from warploom.bench.medians import describe_environments, geometric_mean
from warploom.bench.rendering import Summary
from warploom.errors import ParameterError

__all__ = [
    "BEST",
    "SIZES",
    "Findings",
    "baseline_of",
    "break_even",
    "environment_of",
    "relative_times",
    "size_of",
    "summarise",
    "until",
    "usable",
]

SIZES = ("below 10^5", "10^5 to 10^6", "10^6 to 10^7", "10^7 and more")
"""Classes of nonzeros; each includes its lower bound."""

BEST = "best of cusparse"
"""The fastest of all settings of cuSPARSE, for each matrix and number of products."""

_CASE = ["matrix", "setting", "place"]
_GROUP = ["op", "place", "size"]
_SCIPY = "scipy"
_AIM_US = {SIZES[0]: 150.0, SIZES[1]: 500.0}
"""Microseconds that planning is to take at most."""
_AIM_PRODUCTS, _MOST_PRODUCTS = 20.0, 60.0
"""The same for larger matrices, in products: in half of the cases, and in all."""
_PLANNING = {
    "median_us": "us",
    "max_us": "max us",
    "median_products": "products",
    "max_products": "max products",
    "median_own_products": "own",
    "in_aim": "in aim",
    "in_60_products": "in 60",
    "median_memory": "memory",
    "max_memory": "max memory",
}
"""What columns of the table of planning are called in print."""


def size_of(nnz: Iterable[int]) -> pd.Categorical:
    """Return the classes of `SIZES` of numbers of nonzeros."""
    codes = np.searchsorted([10**5, 10**6, 10**7], np.asarray(list(nnz), dtype=np.int64), side="right")
    return pd.Categorical.from_codes(codes, categories=list(SIZES), ordered=True)


@dataclasses.dataclass
class Findings:
    """What `summarise` found."""

    relative: pd.DataFrame
    """For each operation, place, class of sizes, tool and number of products: ``mean``, the geometric mean of the time
    of `baseline` over that of the tool; ``faster``, the share of the cases in which the tool is done first; ``cases``,
    which are matrices and value types; and ``computed``, the share of the cases whose times were computed from those of
    planning and of a product."""
    break_even: pd.DataFrame
    """For the same without the number: ``median``, the number of products from which the tool is ahead of `baseline`,
    and ``reached``, the share of the cases where there is one."""
    planning: pd.DataFrame
    """For each operation, place, class of sizes and variant of warploom, what planning costs: microseconds, products,
    the share of cases that meet the aim of their size, and memory."""
    plans: pd.DataFrame
    """For each case and variant of warploom: the candidate, what planning costs, its phases, and ``excess``, the time
    over the aim of its size. The greatest excess comes first."""
    baseline: str
    """What tools are compared with: the vendor's default, or on the CPU SciPy."""
    environment: str
    """What was measured on, in words."""
    environments: dict[str, dict[str, Any]]

    def tables(self) -> list[Summary]:
        """Return the tables that ``warploom bench end-to-end summary`` prints."""
        vendor = " (its default algorithm, not preprocessed)" if self.baseline == VENDOR else ""
        places = [f"{place}: {PLACES[place]}" for place in self.relative["place"].unique() if self.baseline == VENDOR]
        notes = [
            ". ".join([self.environment, *places]) + ".",
            f"Wall time until n products are done, planning included: geometric mean of the time of {self.baseline}"
            f"{vendor} over that of the tool,",
            "and the share of cases (matrices and value types) in which the tool is done first.",
            "Break-even: number of products from which the tool is ahead, the median and share of the cases that "
            "have one.",
        ]
        return [
            Summary(f"Until n products are done, over {self.baseline}", self._relative_table(), notes),
            Summary(
                "What planning costs",
                self._planning_table(),
                [
                    "Medians and maxima over the cases, in microseconds, in products with "
                    f"{self.baseline} on the same matrix, and in products of the plan (own).",
                    "Aim: planning takes at most 150 us below 10^5 nonzeros, 500 us below 10^6, and 20 products above "
                    "(in 60: within 60).",
                    "Memory: the most that planning held at a time, the plan included, over the matrix as given and "
                    "the plan; known where the matrix is a torch tensor.",
                ],
                {
                    "us": ",.0f",
                    "max us": ",.0f",
                    "products": ".1f",
                    "max products": ".1f",
                    "own": ".1f",
                    "in aim": ".0%",
                    "in 60": ".0%",
                    "memory": ".2f",
                    "max memory": ".2f",
                },
            ),
        ]

    def slowest(self, count: int) -> Summary:
        """Return the cases in which planning as it is called without `calls` exceeds its aim the most."""
        plans = self.plans[self.plans["tool"] == DEFAULT].head(count)
        phases = [
            ", ".join(f"{name} {1e3 * milliseconds:,.0f}" for name, milliseconds in json.loads(text or "{}").items())
            for text in plans["phases"]
        ]
        shown = plans[["matrix", "nnz", "setting", "place", "planning_us", "products", "excess", "candidate"]]
        return Summary(
            f"Cases in which planning exceeds its aim the most: {len(plans)}",
            shown.rename(columns={"planning_us": "us", "excess": "over aim"}).assign(phases=phases),
            ["Phases in microseconds, as the plan reports them."],
            {"us": ",.0f", "products": ".1f", "over aim": ".1f"},
        )

    def _relative_table(self) -> pd.DataFrame:
        rows = []
        order = [*_GROUP, "tool"]
        ends = self.break_even.set_index(order)
        for key, part in self.relative.groupby(order, sort=False, observed=True):
            row = dict(zip(order, key, strict=True)) | {"cases": int(part["cases"].max())}
            for n, mean, faster in part[["products", "mean", "faster"]].itertuples(index=False):
                row[f"n = {n:,}"] = f"{mean:{'.2f' if mean >= 0.1 else '.2g'}} ({faster:.0%})"
            end = ends.loc[key]
            row["break-even"] = f"{end['median']:,.0f} ({end['reached']:.0%})" if end["reached"] > 0 else "never"
            rows.append(row)
        return pd.DataFrame(rows)

    def _planning_table(self) -> pd.DataFrame:
        return self.planning.rename(columns=_PLANNING)

    def to_json(self) -> str:
        """Return everything as JSON; numbers that there are not are null."""

        def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
            return [{name: _plain(value) for name, value in row.items()} for row in frame.to_dict("records")]

        return json.dumps(
            {
                "baseline": self.baseline,
                "environments": self.environments,
                "until": records(self.relative),
                "break_even": records(self.break_even),
                "planning": records(self.planning),
                "plans": records(self.plans),
            },
            indent=1,
        )


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number == int(number) and not isinstance(value, (float, np.floating)) else number


def summarise(rows: Rows) -> Findings:
    """Compare tools with the vendor's library, or on the CPU with SciPy.

    Parameters
    ----------
    rows : Rows

    Returns
    -------
    Findings

    Raises
    ------
    ParameterError
        Rows are of different GPUs, or nothing can be compared.
    """
    frame = usable(rows)
    baseline = baseline_of(frame)
    relative = relative_times(frame, PRODUCTS, baseline)
    if relative.empty:
        raise ParameterError(f"nothing to compare with {baseline}", argument="rows")
    keys = [*_GROUP, "tool"]
    grouped = relative.groupby([*keys, "products"], sort=True, observed=True)
    table = grouped.agg(
        cases=("ratio", "size"),
        mean=("ratio", geometric_mean),
        faster=("ratio", lambda ratio: float(np.mean(ratio > 1))),
        computed=("computed", "mean"),
    ).reset_index()
    plans = _plans(frame, baseline)
    return Findings(
        _sorted(table),
        _sorted(_break_even(frame, baseline)),
        _planning(plans),
        plans[[*_CASE, "tool", "nnz", "candidate", "planning_us", "products", "excess", "phases"]],
        baseline,
        environment_of(rows),
        rows.environments,
    )


def environment_of(rows: Rows) -> str:
    """Say what was measured on."""
    gpus = {str(facts.get("gpu", "")) for facts in rows.environments.values()}
    if gpus == {""}:
        return " and ".join(sorted({str(facts.get("cpu", "unknown CPU")) for facts in rows.environments.values()}))
    versions = sorted({str(facts.get("cusparse")) for facts in rows.environments.values()})
    return f"{describe_environments(rows.environments)}, cuSPARSE {' and '.join(versions)}"


def usable(rows: Rows) -> pd.DataFrame:
    """Return the rows with times, and their classes of sizes; `ParameterError` if they are of different GPUs."""
    devices = {str(facts.get("gpu", "")) for facts in rows.environments.values()}
    if len(devices) > 1:
        raise ParameterError(
            f"rows are of different GPUs: {', '.join(sorted(devices))}; summarise them one by one", argument="rows"
        )
    frame = rows.frame[rows.frame["status"] == "ok"]
    if frame.empty:
        raise ParameterError("no row has times", argument="rows")
    return frame.assign(size=size_of(frame["nnz"]))


def baseline_of(frame: pd.DataFrame) -> str:
    """Return what tools are compared with."""
    return VENDOR if (frame["tool"] == VENDOR).any() else _SCIPY


def until(frame: pd.DataFrame, products: float) -> tuple[pd.Series, pd.Series]:
    """Return the times until so many products are done: those that were measured, which may be NaN, and computed ones.

    A time is computed from those of planning and of a product.
    """
    computed = frame["planning_us"] + products * frame["call_us"]
    if products == 1:
        return frame["first_us"], computed
    if products in DIRECT:
        return frame[f"until_{int(products)}_us"], computed
    return pd.Series(np.nan, index=frame.index), computed


def relative_times(frame: pd.DataFrame, products: Sequence[float], baseline: str) -> pd.DataFrame:
    """Return the time of the baseline over that of each tool, for each case and number of products.

    Measured times are compared with measured ones. Where one of the two is missing, both are computed.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns of the table of end-to-end times, and ``size``.
    products : sequence of float
    baseline : str
        A tool.

    Returns
    -------
    pandas.DataFrame
        The columns that name a case, ``op``, ``size``, ``tool``, ``products``, ``ratio`` and ``computed``. `BEST` is
        among the tools where more of cuSPARSE was measured than its default.
    """
    parts = []
    for n in products:
        measured, computed = until(frame, n)
        part = frame[[*_CASE, "op", "size", "tool"]].assign(products=n, measured=measured, expected=computed)
        parts.append(part.assign(order=part["measured"] if n == 1 else part["expected"]))
    times = pd.concat(parts, ignore_index=True).dropna(subset="expected")
    vendor = times["tool"].str.startswith(VENDOR)
    if (vendor & (times["tool"] != VENDOR)).any():
        best = times[vendor].sort_values("order", kind="stable").drop_duplicates([*_CASE, "products"])
        times = pd.concat([times[~vendor | (times["tool"] == VENDOR)], best.assign(tool=BEST)], ignore_index=True)
    against = times.loc[times["tool"] == baseline, [*_CASE, "products", "measured", "expected"]]
    others = times[times["tool"] != baseline]
    joined = others.merge(against, on=[*_CASE, "products"], suffixes=("", "_against"), validate="many_to_one")
    ratio = joined["measured_against"] / joined["measured"]
    joined["ratio"] = ratio.fillna(joined["expected_against"] / joined["expected"])
    joined["computed"] = ratio.isna()
    return joined[[*_CASE, "op", "size", "tool", "products", "ratio", "computed"]]


def _break_even(frame: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Find from how many products tools are ahead of the baseline; for `BEST`, the least number of its settings."""
    columns = ["planning_us", "call_us", "planning_us_of_other", "call_us_of_other"]
    against = frame.loc[frame["tool"] == baseline, [*_CASE, "planning_us", "call_us"]]
    joined = frame[frame["tool"] != baseline].merge(against, on=_CASE, suffixes=("", "_of_other"))
    counts = [break_even(*row) for row in joined[columns].itertuples(index=False, name=None)]
    tool = joined["tool"].where(~joined["tool"].str.startswith(VENDOR), BEST)
    joined = joined.assign(products=counts, tool=tool)
    cases = joined.groupby([*_CASE, "op", "size", "tool"], observed=True)["products"].min().reset_index()
    table = cases.groupby([*_GROUP, "tool"], observed=True)["products"].agg(
        median=lambda found: float(np.median(finite)) if (finite := found[np.isfinite(found)]).size else math.nan,
        reached=lambda found: float(np.isfinite(found).mean()),
    )
    return table.reset_index()


def break_even(planning_us: float, call_us: float, planning_of_other_us: float, call_of_other_us: float) -> float:
    """Return the least number of products from which on a tool is ahead of another; infinite if there is none."""
    saved = call_of_other_us - call_us
    if saved <= 0:
        ahead = saved == 0 and planning_us < planning_of_other_us
        return 1.0 if ahead else math.inf
    return max(1.0, math.floor((planning_us - planning_of_other_us) / saved) + 1.0)


def _plans(frame: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Describe what planning of warploom costs in each case, the greatest excess first."""
    own = frame[frame["tool"].isin([DEFAULT, *CALLS])]
    unit = frame.loc[frame["tool"] == baseline, [*_CASE, "call_us"]].rename(columns={"call_us": "unit_us"})
    own = own.merge(unit, on=_CASE, how="left")
    products = own["planning_us"] / own["unit_us"]
    own_products = own["planning_us"] / own["call_us"]
    size = own["size"].astype(str)
    aim_us = np.select([size == name for name in _AIM_US], list(_AIM_US.values()), _AIM_PRODUCTS * own["unit_us"])
    memory = (own["peak_bytes"] / (own["csr_bytes"] + own["plan_bytes"])).where(own["peak_bytes"] >= 0)
    own = own.assign(products=products, own_products=own_products, excess=own["planning_us"] / aim_us, memory=memory)
    return own.sort_values("excess", ascending=False, kind="stable", ignore_index=True)


def _planning(plans: pd.DataFrame) -> pd.DataFrame:
    """Sum up what planning of warploom costs, by size."""
    own = plans.assign(in_aim=plans["excess"] <= 1, in_60=plans["products"] <= _MOST_PRODUCTS)
    table = own.groupby([*_GROUP, "tool"], observed=True).agg(
        cases=("planning_us", "size"),
        median_us=("planning_us", "median"),
        max_us=("planning_us", "max"),
        median_products=("products", "median"),
        max_products=("products", "max"),
        median_own_products=("own_products", "median"),
        in_aim=("in_aim", "mean"),
        in_60_products=("in_60", "mean"),
        median_memory=("memory", "median"),
        max_memory=("memory", "max"),
    )
    return _sorted(table.reset_index())


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    """Sort SpMV before SpMM, places and sizes in their order, and tools as they are named."""
    names = [DEFAULT, *CALLS, BEST, "torch", "cupy", _SCIPY]
    ranks = {
        "op": lambda column: column.map({"spmv": 0, "spmm": 1}),
        "place": lambda column: column.map({name: i for i, name in enumerate(PLACES)}),
        "size": lambda column: column.map({name: i for i, name in enumerate(SIZES)}).astype(int),
        "tool": lambda column: column.map({name: i for i, name in enumerate(names)}),
        "products": lambda column: column,
    }
    by = [name for name in ranks if name in table]
    keyed = functools.partial(_rank, ranks)
    table = table.sort_values(by, key=keyed, kind="stable", ignore_index=True)
    return table.assign(size=table["size"].astype(str))


def _rank(ranks: dict[str, Any], column: pd.Series) -> pd.Series:
    ranked: pd.Series = ranks[str(column.name)](column)
    return ranked

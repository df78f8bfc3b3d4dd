"""What an oracle among candidates gains: how often each one is the fastest, and how fast the oracle's choices are.

An oracle takes the fastest candidate of each matrix. The tables have the form of those of Mehrabi et al. (2021),
"Learning sparse matrix row permutations for efficient SpMM on GPU architectures" (Table I, Figs. 9 and 10) and of Gao
et al. (2024), "Revisiting thread configuration of SpMV kernels on GPU" (Tables 6 and 7).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom import permutations
from warploom.bench.measurements import Measurements
from warploom.bench.medians import Medians, default_of_vendor, geometric_mean, kernel_of
from warploom.bench.rendering import Summary
from warploom.bench.repeatability import Tolerances, tolerances
from warploom.candidates import Candidate, find_kernel
from warploom.errors import ParameterError

__all__ = [
    "kernels",
    "permutation_portfolios",
    "row_permutations",
    "spmv_algorithms",
    "threads_per_row",
    "wins",
]

PAPER_SPMM = "spmm/float32/column/k=rows"
"""The setting of Mehrabi et al.: C = A B in float32, column-major, with as many columns as A has rows."""

_PLAIN = "spmm/none/csr/c_stationary"
_RATIOS = {name: ".2f" for name in ("max", "mean", "geometric mean", "min")}
_WINS = {name: ".1%" for name in ("fastest", "near-tie", "fastest, near-ties merged")}
_WIN_NOTES = (
    "fastest: share of the matrices on which it has the minimum time; near-tie: share on which it is the "
    "fastest, or within the repeatability of the measurements; near-ties merged: every matrix counts for the first "
    "of its near-ties in the order of the table."
)


def row_permutations(
    measurements: Measurements, setting: str = PAPER_SPMM, cache: str = "cold", within: Tolerances | None = None
) -> Summary:
    """Compare row permutations for SpMM with the original order: Table I and Fig. 9 of Mehrabi et al.

    Parameters
    ----------
    measurements : Measurements
    setting : str
        A column-major setting of SpMM.
    cache : {"cold", "warm"}
    within : Tolerances, optional
        What near-ties are; the `tolerances` of the measurements if not given, and no near-ties where nothing was
        measured twice.

    Returns
    -------
    Summary
        A row for the original order, each technique and their oracle, with speedups over the paper's kernel on CSR in
        the original order.

    Raises
    ------
    ParameterError
        There are no times of this setting, or no matrix has the times of all techniques.
    """
    medians = Medians.of(measurements, setting, cache, _techniques().values())
    times, left_out = _complete(medians, _techniques())
    within = _tolerances(measurements, within)
    frame = _compare(times, times["csr"], wins(times, cache, within))
    oracle = _ratios(times["csr"] / times.min(axis=1))
    frame = pd.concat([frame, pd.DataFrame([{"technique": "oracle", **oracle}])], ignore_index=True)
    return Summary(
        f"Row permutations for SpMM, over {_PLAIN}",
        frame.drop(columns=[] if within else ["near-tie", "fastest, near-ties merged"]),
        [medians.note(len(times)), *_left_out(left_out), _WIN_NOTES],
        {**_RATIOS, **_WINS},
    )


def permutation_portfolios(measurements: Measurements, setting: str = PAPER_SPMM, cache: str = "cold") -> Summary:
    """Find the best sets of techniques of every size: Fig. 10 of Mehrabi et al.

    Parameters
    ----------
    measurements : Measurements
    setting : str
        A column-major setting of SpMM.
    cache : {"cold", "warm"}

    Returns
    -------
    Summary
        For each number of techniques, the set from which an oracle's choices have the highest arithmetic mean speedup
        over the paper's kernel on CSR in the original order. The original order is one of the techniques.

    Raises
    ------
    ParameterError
        There are no times of this setting, or no matrix has the times of all techniques.
    """
    medians = Medians.of(measurements, setting, cache, _techniques().values())
    times, left_out = _complete(medians, _techniques())
    values, plain = times.to_numpy(), times["csr"].to_numpy()
    rows = []
    for count in range(1, len(times.columns) + 1):
        sets = itertools.combinations(range(len(times.columns)), count)
        speedup, chosen = max(((plain / values[:, list(s)].min(axis=1)).mean(), tuple(-i for i in s)) for s in sets)
        rows.append((count, speedup, ", ".join(times.columns[-i] for i in chosen)))
    return Summary(
        "Oracles among sets of row permutations for SpMM",
        pd.DataFrame(rows, columns=["techniques", "mean speedup", "best set"]),
        [medians.note(len(times)), *_left_out(left_out)],
        {"mean speedup": ".3f"},
    )


def threads_per_row(
    measurements: Measurements, dtype: str = "float64", cache: str = "warm", within: Tolerances | None = None
) -> Summary:
    """Compare numbers of threads per row of CSR-vector with 16: Tables 6 and 7 of Gao et al.

    Parameters
    ----------
    measurements : Measurements
    dtype : {"float64", "float32", "float16"}
    cache : {"warm", "cold"}
    within : Tolerances, optional
        As for `row_permutations`.

    Returns
    -------
    Summary
        A row for each number of threads, for the paper's two formulas and for the best number, which is the oracle.
        Matrices count on which all numbers were measured. Shares of wins are among the fixed numbers.

    Raises
    ------
    ParameterError
        There are no times of this setting, or no matrix has the times of all numbers.
    """
    by_threads = _vector_candidates()
    medians = Medians.of(measurements, f"spmv/{dtype}", cache, by_threads.values())
    times, left_out = _complete(medians, {str(threads): name for threads, name in by_threads.items()})
    base = times["16"]
    within = _tolerances(measurements, within)
    fixed = _compare(times, base, wins(times, cache, within))
    sizes = measurements.matrices.set_index("matrix").loc[times.index, ["rows", "nnz"]]
    formulas = {"mean": _threads_by_mean(sizes), "square root of mean": _threads_by_root(sizes)}
    rows = []
    for name, wanted in formulas.items():
        column = [str(max(int(threads), min(by_threads))) for threads in wanted]
        chosen = pd.Series([times.at[m, c] for m, c in zip(times.index, column, strict=True)], index=times.index)
        rows.append({"technique": name, **_ratios(base / chosen)})
    rows.append({"technique": "best", **_ratios(base / times.min(axis=1))})
    frame = pd.concat([fixed, pd.DataFrame(rows)], ignore_index=True).rename(columns={"technique": "threads per row"})
    return Summary(
        "CSR-vector, over 16 threads per row",
        frame.drop(columns=[] if within else ["near-tie", "fastest, near-ties merged"]),
        [
            medians.note(len(times)),
            *_left_out(left_out),
            f"Formulas that give fewer than {min(by_threads)} threads take {min(by_threads)}, as the paper does.",
            _WIN_NOTES,
        ],
        {**_RATIOS, **_WINS},
    )


def spmv_algorithms(
    measurements: Measurements, dtype: str = "float64", cache: str = "warm", within: Tolerances | None = None
) -> Summary:
    """Compare SpMV algorithms with CSR-vector with 16 threads per row: Tables 6 and 7 of Gao et al.

    Parameters
    ----------
    measurements : Measurements
    dtype : {"float64", "float32", "float16"}
    cache : {"warm", "cold"}
    within : Tolerances, optional
        As for `row_permutations`.

    Returns
    -------
    Summary
        A row for each format and kernel, with its best parameters for each matrix and no row permutation, and one for
        the oracle among them all. A kernel's speedups are over the matrices that it was measured on; shares of wins
        are over all. Matrices count on which at least half of warploom's kernels were measured.

    Raises
    ------
    ParameterError
        There are no times of this setting.
    """
    medians = Medians.of(measurements, f"spmv/{dtype}", cache).widely_measured()
    reference = _vector_candidates()[16]
    if reference not in medians.times:
        raise ParameterError(f"no times of {reference} in {medians.setting}", argument="measurements")
    base = medians.times[reference].dropna()
    times = _by_kernel(medians, [n for n in medians.times if n.split("/")[1] == "none"]).loc[base.index]
    return _kernel_summary(
        f"SpMV algorithms, over {reference}", medians, times, base, _tolerances(measurements, within), oracle=times
    )


def kernels(measurements: Measurements, setting: str, cache: str, within: Tolerances | None = None) -> Summary:
    """Compare formats and kernels with the best of the vendor's, in any setting.

    Parameters
    ----------
    measurements : Measurements
    setting : str
    cache : {"warm", "cold"}
    within : Tolerances, optional
        As for `row_permutations`.

    Returns
    -------
    Summary
        A row for each format and kernel of warploom's, with the best row permutation and parameters for each matrix;
        and the oracle among all of them, over the vendor's best and over the vendor's default. Matrices count on which
        at least half of warploom's kernels were measured.

    Raises
    ------
    ParameterError
        There are no times of this setting, or none of the vendor's.
    """
    medians = Medians.of(measurements, setting, cache).widely_measured()
    vendor = medians.candidates(vendor=True)
    if not vendor:
        raise ParameterError(f"no times of the vendor's kernels in {setting}", argument="measurements")
    base = medians.best(vendor).dropna()
    times = _by_kernel(medians, medians.candidates(vendor=False)).loc[base.index].dropna(how="all")
    base = base.loc[times.index]
    summary = _kernel_summary(
        "Formats and kernels, over the best of cuSPARSE",
        medians,
        times,
        base,
        _tolerances(measurements, within),
        oracle=times,
    )
    default = default_of_vendor(medians.op)
    if default in medians.times:
        over_default = (medians.times.loc[times.index, default] / times.min(axis=1)).dropna()
        row = {"kernel": "oracle, over cuSPARSE's default", "matrices": len(over_default), **_ratios(over_default)}
        summary.frame = pd.concat([summary.frame, pd.DataFrame([row])], ignore_index=True)
    return summary


def wins(times: pd.DataFrame, cache: str, within: Tolerances | None = None) -> pd.DataFrame:
    """Count how often each column has the minimum time of its row.

    Parameters
    ----------
    times : pandas.DataFrame
        Microseconds; NaN where there is no time. Rows without any time do not count.
    cache : {"warm", "cold"}
        For the tolerance.
    within : Tolerances, optional
        Times within it of the row's minimum are near-ties.

    Returns
    -------
    pandas.DataFrame
        A row for each column of `times`, with shares of the rows: ``fastest`` (of equal ones the first), ``near-tie``
        (fastest or a near-tie) and ``fastest, near-ties merged`` (the first of the near-ties). The first and the last
        add up to 1.
    """
    values = times.dropna(how="all").to_numpy(np.float64)
    values = np.where(np.isnan(values), np.inf, values)
    least = values.min(axis=1)
    limit = least if within is None else least * np.exp(within(cache, least))
    near = values <= limit[:, None]

    def share(first: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.bincount(first, minlength=values.shape[1]) / max(len(values), 1)

    return pd.DataFrame(
        {
            "fastest": share(values.argmin(axis=1)),
            "near-tie": near.sum(axis=0) / max(len(values), 1),
            "fastest, near-ties merged": share(near.argmax(axis=1)),
        },
        index=times.columns,
    )


def _techniques() -> dict[str, str]:
    """Return the techniques of Table I by name: the original order first, so that near-ties count for it."""
    techniques = {"csr": _PLAIN, "dcsr": "spmm/none/dcsr/c_stationary"}
    names = (name for name in permutations.paper_names() if name != "none")
    return {**techniques, **{name: f"spmm/{name}/csr/c_stationary" for name in names}}


def _vector_candidates() -> dict[int, str]:
    """Return the candidates of CSR-vector by their threads per row."""
    kernel = find_kernel("spmv", "csr", "vector")
    values = next(p.tried for p in kernel.parameters if p.name == "threads_per_row")
    return {v: Candidate.make(kernel, parameters={"threads_per_row": v}).name for v in values}


_THREADS = np.array([1, 2, 4, 8, 16, 32], dtype=np.int64)


def _threads_by_mean(sizes: pd.DataFrame) -> NDArray[np.int64]:
    """Return what `warploom.partition.threads_per_row_mean` gives for matrices of these sizes."""
    return _least_threads(_THREADS, sizes)


def _threads_by_root(sizes: pd.DataFrame) -> NDArray[np.int64]:
    """Return what `warploom.partition.threads_per_row_square_mean` gives for matrices of these sizes."""
    return _least_threads(_THREADS**2, sizes)


def _least_threads(bounds: NDArray[np.int64], sizes: pd.DataFrame) -> NDArray[np.int64]:
    """Return the smallest numbers of threads whose bound is not below the mean row length, at most 32."""
    rows, nnz = (sizes[name].to_numpy(np.int64)[:, None] for name in ("rows", "nnz"))
    enough = bounds * rows >= nnz
    return _THREADS[np.where(enough.any(axis=1), enough.argmax(axis=1), len(_THREADS) - 1)]


def _complete(medians: Medians, techniques: Mapping[str, str]) -> tuple[pd.DataFrame, int]:
    """Return the times of techniques for the matrices that have all of them, and the number of those left out."""
    absent = [name for name in techniques.values() if name not in medians.times]
    if absent:
        raise ParameterError(
            f"no times of {', '.join(absent)} in {medians.setting} with a {medians.cache} cache",
            argument="measurements",
        )
    times = medians.times[list(techniques.values())]
    times = times.set_axis(list(techniques), axis=1)
    complete = times.dropna()
    if complete.empty:
        raise ParameterError(f"no matrix has times of all of {', '.join(techniques)}", argument="measurements")
    return complete, len(times) - len(complete)


def _left_out(count: int) -> list[str]:
    return [f"{count:,} more matrices lack some of these times and are left out."] if count else []


def _tolerances(measurements: Measurements, given: Tolerances | None) -> Tolerances | None:
    if given is not None or not (measurements.measurements["run"] == 1).any():
        return given
    return tolerances(measurements)


def _ratios(speedups: pd.Series) -> dict[str, float]:
    if speedups.empty:
        return {}
    return {
        "max": float(speedups.max()),
        "mean": float(speedups.mean()),
        "geometric mean": geometric_mean(speedups),
        "min": float(speedups.min()),
    }


def _compare(times: pd.DataFrame, base: pd.Series, won: pd.DataFrame) -> pd.DataFrame:
    rows = [{"technique": name, **_ratios(base / times[name]), **won.loc[name]} for name in times]
    return pd.DataFrame(rows)


def _by_kernel(medians: Medians, candidates: Sequence[str]) -> pd.DataFrame:
    """Return the best time of each format and kernel."""
    groups: dict[str, list[str]] = {}
    for name in candidates:
        groups.setdefault(kernel_of(name), []).append(name)
    return pd.DataFrame({kernel: medians.best(names) for kernel, names in sorted(groups.items())})


def _kernel_summary(
    title: str,
    medians: Medians,
    times: pd.DataFrame,
    base: pd.Series,
    within: Tolerances | None,
    oracle: pd.DataFrame,
) -> Summary:
    won = wins(times, medians.cache, within)
    rows = [
        {
            "kernel": name,
            "matrices": int(times[name].notna().sum()),
            **_ratios((base / times[name]).dropna()),
            **won.loc[name],
        }
        for name in won.sort_values("fastest", ascending=False, kind="stable").index
    ]
    rows.append({"kernel": "oracle", "matrices": len(oracle), **_ratios(base / oracle.min(axis=1))})
    frame = pd.DataFrame(rows).drop(columns="fastest, near-ties merged")
    return Summary(
        title,
        frame.drop(columns=[] if within else ["near-tie"]),
        [medians.note(len(base)), _WIN_NOTES.split("; near-ties merged")[0] + "."],
        {**_RATIOS, **_WINS},
    )

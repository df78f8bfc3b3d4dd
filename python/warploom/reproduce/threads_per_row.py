"""Gao et al. (2024): threads per row of CSR-vector, from measurements.

In float64 with a warm L2 cache, as in the paper.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.bench.medians import geometric_mean
from warploom.bench.oracle import wins
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.registry import Printed, Sweep, register
from warploom.reproduce.result import Claim, Result, judge

__all__ = ["THREADS", "VECTOR", "by_mean", "by_square_root", "peers", "speedup_table", "win_counts"]

THREADS = (2, 4, 8, 16, 32)
VECTOR = {str(t): "spmv/none/csr/vector" + (f"[threads_per_row={t}]" if t != 32 else "") for t in THREADS}
"""CSR-vector by threads per row; 32 is the default."""
_PEERS = {
    "cuSPARSE": "spmv/none/csr/cusparse",
    "merge-based": "spmv/none/csr/merge",
    "CSR-adaptive": "spmv/none/csr/adaptive",
}
_SOME_ROWS = ("4", "8", "16")
_DOUBLE = Sweep("spmv/float64", "warm", VECTOR, transposes=True, optional=_SOME_ROWS)
_SINGLE = Sweep("spmv/float32", "warm", VECTOR, transposes=True, optional=_SOME_ROWS)
_WITH_PEERS = Sweep("spmv/float64", "warm", {**VECTOR, **_PEERS}, transposes=True, optional=_SOME_ROWS)


def by_mean(sizes: pd.DataFrame) -> NDArray[np.int64]:
    """Return the threads per row by the mean row length: formula (1), at least 2."""
    return _at_least(THREADS, sizes)


def by_square_root(sizes: pd.DataFrame) -> NDArray[np.int64]:
    """Return the threads per row by the root of the mean row length: formula (2), at least 2."""
    return _at_least([t * t for t in THREADS], sizes)


def _at_least(bounds: tuple[int, ...] | list[int], sizes: pd.DataFrame) -> NDArray[np.int64]:
    """Return the least numbers of threads whose bound is not below nnz / rows, without rounding; at most 32."""
    rows, nnz = sizes["rows"].to_numpy(np.int64), sizes["nnz"].to_numpy(np.int64)
    enough = np.array([bound * rows >= nnz for bound in bounds[:-1]] + [np.ones(len(rows), bool)])
    chosen: NDArray[np.int64] = np.array(THREADS, dtype=np.int64)[enough.argmax(axis=0)]
    return chosen


def _optimum(times: pd.DataFrame) -> NDArray[np.int64]:
    """Return the numbers of threads with the least times; a number that was not measured is no optimum."""
    chosen: NDArray[np.int64] = np.array(THREADS, dtype=np.int64)[
        times[list(VECTOR)].fillna(np.inf).to_numpy().argmin(axis=1)
    ]
    return chosen


def _chosen(times: pd.DataFrame, threads: NDArray[np.int64]) -> pd.Series:
    """Return the times with each matrix's number of threads."""
    places = np.searchsorted(THREADS, threads)
    return pd.Series(times[list(VECTOR)].to_numpy()[np.arange(len(times)), places], index=times.index)


# Sweeps leave out numbers of threads that exceed what the longest row of a matrix has work for; those are no optima.
_FEWEST = ("2", "32")
_SHORT_ROWS = " Numbers of threads that no row of a matrix has work for are not measured, and not its optimum."
_NOT_16 = " Matrices whose rows have no work for 16 threads were not measured with 16, and are left out."


# ----- G-F1, G-T1 -----

_NAMED = {
    "circuit_3": ("Bomhof/circuit_3", 12127, 48137, None),
    "hcircuit": ("Hamm/hcircuit", 105676, 513072, 1399),
    "mk12-b2": ("JGD_Homology/mk12-b2", 13860, 41580, 3),
    "rd450l": ("Bai/rdb450l", 450, 2580, 6),
    "n2c6-b7": ("JGD_Homology/n2c6-b7", 3990, 31920, 8),
}
"""Matrices that the paper names: name in the collection, rows, nonzeros and longest row, where the paper prints it."""


def _stand_in(context: Context, times: pd.DataFrame, name: str) -> str:
    """Return the matrix of that name, or the measured one that is nearest to it in size and row lengths."""
    full, rows, nnz, longest = _NAMED[name]
    own = Context.measured_as(full, times.index)
    if own is not None:
        return own
    sizes = context.sizes(times.index)
    sizes = sizes[(sizes["nnz"] > 0) & (sizes["rows"] > 0)]
    distance = np.log(sizes["rows"] / rows) ** 2 + np.log(sizes["nnz"] / nnz) ** 2
    if longest is not None and sizes["spmv_nnz_per_row_max"].notna().any():
        distance = distance + np.log(sizes["spmv_nnz_per_row_max"].clip(lower=1) / longest) ** 2
    return str(distance.idxmin())


def _is_named(name: str, found: str) -> bool:
    """Whether a measured matrix is the one that the paper names."""
    return Context.measured_as(_NAMED[name][0], [found]) is not None


def _instead(chosen: dict[str, str]) -> str:
    others = [f"{name} by {found}" for name, found in chosen.items() if not _is_named(name, found)]
    return (
        f" Not measured, and replaced by what is nearest in size and row lengths: {', '.join(others)}."
        if others
        else ""
    )


@register(
    "G-F1",
    "Time against threads per row for two matrices",
    "Fig. 1",
    "The formulas' choices are far from the best, and the best number depends on the matrix.",
    sweeps=[_DOUBLE],
)
def two_matrices(context: Context) -> Result:
    """Draw the times of all numbers of threads for the paper's two matrices, or what is nearest to them."""
    times = context.times(_DOUBLE)
    chosen = {name: _stand_in(context, times, name) for name in ("circuit_3", "hcircuit")}
    figure = drawing.figure(2.2)
    axes = figure.subplots(1, 2)
    rows, losses = [], []
    for axis, (name, found) in zip(axes, chosen.items(), strict=True):
        own = times.loc[found, list(VECTOR)]
        sizes = context.sizes(times.index).loc[[found]]
        formulas = {"mean": int(by_mean(sizes)[0]), "SqMean": int(by_square_root(sizes)[0])}
        axis.bar(range(5), own, color=[drawing.COLOURS[t] for t in VECTOR])
        labels: dict[int, list[str]] = {}
        for formula, threads in {**formulas, "best": int(own.astype(float).idxmin())}.items():
            labels.setdefault(THREADS.index(threads), []).append(formula)
        for place, texts in labels.items():
            text = f" {', '.join(texts)}"
            axis.annotate(text, (place, own.iloc[place]), ha="center", va="bottom", rotation=90)
        axis.set_xticks(range(5), list(VECTOR))
        axis.set(xlabel="threads per row", title=name if _is_named(name, found) else f"in place of {name}")
        axis.margins(y=0.45)
        for formula, threads in formulas.items():
            loss = float(own[str(threads)] / own.min() - 1)
            losses.append(loss)
            rows.append((name, found, formula, threads, int(own.astype(float).idxmin()), loss))
    axes[0].set_ylabel("time (us)")
    frame = pd.DataFrame(rows, columns=["paper's matrix", "measured", "formula", "threads", "best threads", "loss"])
    every = times.loc[list(chosen.values()), list(VECTOR)].reset_index(names="matrix")
    claims = (
        Claim(
            "the formulas lose considerably",
            max(losses) > 0.1,
            f"{min(losses):.0%} to {max(losses):.0%} over the best number",
        ),
    )
    text = f"Time of CSR-vector, with the choices of the two formulas and the best.{_instead(chosen)}"
    verdict = judge(context.where(), *claims)
    return Result([frame, every], figure, context.caption(text, _DOUBLE, len(chosen)), verdict)


@register(
    "G-T1",
    "Formulas and optimum for example matrices",
    "Table 1",
    "The formulas miss the optimum for matrices of several kinds.",
    sweeps=[_DOUBLE],
    printed=[
        Printed(f"{name}: TpR_mean, TpR_SqMean, optimal", value, "Table 1")
        for name, value in (
            ("mk12-b2", "4, 2, 2"),
            ("rd450l", "8, 2, 8"),
            ("n2c6-b7", "8, 2, 4"),
            ("hcircuit", "4, 2, 16"),
        )
    ],
)
def examples(context: Context) -> Result:
    """Compare formulas and optimum for the paper's matrices, or what is nearest to them."""
    times = context.times(_DOUBLE, _FEWEST)
    chosen = {name: _stand_in(context, times, name) for name in ("mk12-b2", "rd450l", "n2c6-b7", "hcircuit")}
    found = list(chosen.values())
    sizes = context.sizes(times.index).loc[found]
    frame = pd.DataFrame(
        {
            "paper's matrix": list(chosen),
            "measured": found,
            "min": sizes["spmv_nnz_per_row_min"].to_numpy(),
            "max": sizes["spmv_nnz_per_row_max"].to_numpy(),
            "TpR_mean": by_mean(sizes),
            "TpR_SqMean": by_square_root(sizes),
            "optimal": _optimum(times.loc[found]),
        }
    )
    ours: dict[str, float | str] = {
        f"{row[0]}: TpR_mean, TpR_SqMean, optimal": f"{row[4]}, {row[5]}, {row[6]}"
        for row in frame.itertuples(index=False)
    }
    missed = ((frame["TpR_mean"] != frame["optimal"]) | (frame["TpR_SqMean"] != frame["optimal"])).sum()
    both = ((frame["TpR_mean"] != frame["optimal"]) & (frame["TpR_SqMean"] != frame["optimal"])).sum()
    claims = (
        Claim("a formula misses the optimum on most of the examples", bool(missed > 2), f"{missed} of {len(frame)}"),
        Claim("on some of them both formulas do", bool(both > 0), f"{both} of {len(frame)}"),
    )
    text = (
        "Shortest and longest row, threads per row by the two formulas as printed (at least 2), and the measured "
        f"optimum.{_instead(chosen)}"
    )
    caption = context.caption(text, _DOUBLE, len(frame))
    figure = drawing.table(frame, {"min": ".0f", "max": ",.0f"})
    return Result([frame], figure, caption, judge(context.where(), *claims), ours)


# ----- G-F3, G-prec -----


@register(
    "G-F3",
    "How many matrices have each number of threads as optimum",
    "Fig. 3",
    "Every number of threads per row is the optimum of a considerable part of the matrices.",
    sweeps=[_DOUBLE],
)
def optima(context: Context) -> Result:
    """Count the optima."""
    times = context.times(_DOUBLE, _FEWEST)
    counts = pd.Series(_optimum(times)).value_counts().reindex(THREADS, fill_value=0)
    won = wins(times[list(VECTOR)], "warm", context.tolerances)
    transposes = int(times.index.str.endswith(".T").sum())
    figure = drawing.figure(2.0)
    axis = figure.subplots()
    bars = axis.bar(range(5), counts, color=[drawing.COLOURS[str(t)] for t in THREADS])
    axis.bar_label(bars, [f"{count:,}" for count in counts])
    axis.set_xticks(range(5), [str(t) for t in THREADS])
    axis.set(xlabel="threads per row", ylabel="matrices with this optimum")
    frame = pd.DataFrame(
        {
            "threads per row": THREADS,
            "matrices": counts.to_numpy(),
            "share": counts.to_numpy() / len(times),
            "share fastest or near-tie": won["near-tie"].to_numpy(),
        }
    )
    shares = counts / len(times)
    claims = (
        Claim("no number is the optimum of most matrices", bool(shares.max() < 0.5), f"at most {shares.max():.0%}"),
        Claim(
            "each is the optimum of a considerable part",
            bool(shares.min() > 0.05),
            f"{shares.idxmin()} threads have least, {shares.min():.1%}",
        ),
    )
    text = (
        f"Matrices by the number of threads per row with the least time; {transposes:,} of them are transposes."
        f"{_SHORT_ROWS}"
    )
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, _DOUBLE, len(times)), verdict)


@register(
    "G-prec",
    "Agreement of the optimum between single and double precision",
    "Sec. 6.2",
    "Most matrices have the same optimum in both precisions, and where not the loss is at most 2 %.",
    sweeps=[_DOUBLE, _SINGLE],
    printed=[
        Printed("same optimum", "72 % and 83 %", "Sec. 6.2, V100 and P100"),
        Printed("greatest loss where different", "2 %", "Sec. 6.2"),
    ],
)
def precisions(context: Context) -> Result:
    """Compare the optima of the two precisions, and what one costs in the other."""
    double, single = context.times(_DOUBLE, _FEWEST), context.times(_SINGLE, _FEWEST)
    common = double.index.intersection(single.index)
    if common.empty:
        raise context.missing("matrices with times in both float64 and float32", _SINGLE.command())
    double, single = double.loc[common], single.loc[common]
    of_double, of_single = _optimum(double), _optimum(single)
    counts = pd.crosstab(of_double, of_single).reindex(index=THREADS, columns=THREADS, fill_value=0)
    loss = _chosen(single, of_double) / single[list(VECTOR)].min(axis=1) - 1
    differing = loss[of_double != of_single].dropna()
    same = float((of_double == of_single).mean())
    within = float((loss <= 0.02).mean())
    figure = drawing.figure(2.3)
    axis = figure.subplots()
    axis.imshow(counts / len(common), cmap="Blues", vmin=0)
    darkest = counts.to_numpy().max()
    for i, line in enumerate(counts.to_numpy()):
        for j, count in enumerate(line):
            axis.text(j, i, f"{count:,}", ha="center", va="center", color="white" if count > 0.6 * darkest else "black")
    axis.set_xticks(range(5), [str(t) for t in THREADS])
    axis.set_yticks(range(5), [str(t) for t in THREADS])
    axis.set(xlabel="optimum in float32 (threads per row)", ylabel="optimum in float64")
    summary = pd.DataFrame(
        {
            "matrices": [len(common)],
            "same optimum": [same],
            "within 2 % with the other's optimum": [within],
            "median loss where different": [float(differing.median()) if len(differing) else 0.0],
            "95th percentile": [float(differing.quantile(0.95)) if len(differing) else 0.0],
            "greatest": [float(differing.max()) if len(differing) else 0.0],
        }
    )
    greatest = summary["greatest"].iloc[0]
    claims = (
        Claim("most matrices have the same optimum", same > 0.5, f"{same:.0%}"),
        Claim(
            "the optimum of double precision costs at most 2 % in single precision",
            bool(greatest <= 0.02),
            f"{within:.0%} of the matrices are within 2 %, the greatest loss is {greatest:.0%}",
        ),
    )
    text = "Matrices by their optimal threads per row in the two precisions."
    ours: dict[str, float | str] = {"same optimum": f"{same:.0%}", "greatest loss where different": f"{greatest:.0%}"}
    caption = context.caption(text, _DOUBLE, len(common)).replace("spmv/float64", "spmv/float64 and spmv/float32")
    tables = [summary, counts.rename_axis("float64").reset_index()]
    return Result(tables, figure, caption, judge(context.where(), *claims), ours)


# ----- G-F8, G-T6, G-T7 -----


def peers(times: pd.DataFrame, sizes: pd.DataFrame) -> pd.DataFrame:
    """Return the times of the algorithms that are compared: the formulas, the others', and the best threads per row."""
    return pd.DataFrame(
        {
            "TpR 16": times["16"],
            "TpR_mean": _chosen(times, by_mean(sizes)),
            "TpR_SqMean": _chosen(times, by_square_root(sizes)),
            **{name: times[name] for name in _PEERS},
            "optimal": times[list(VECTOR)].min(axis=1),
        }
    )


def speedup_table(times: pd.DataFrame, base: str = "TpR 16", **more: pd.Series) -> pd.DataFrame:
    """Return arithmetic and geometric mean, greatest and least speedup over a column, for every other column.

    Parameters
    ----------
    times : pandas.DataFrame
    base : str
        A column.
    **more : pandas.Series
        Speedups of other matrices, for more lines; empty ones make none.
    """
    speedups = dict(times.rdiv(times[base], axis=0).drop(columns=base).items())
    speedups |= {name: values for name, values in more.items() if len(values)}
    return pd.DataFrame(
        [
            (
                name,
                float(values.mean()),
                geometric_mean(values.dropna()),
                float(values.max()),
                float(values.min()),
            )
            for name, values in speedups.items()
        ],
        columns=["algorithm", "arithmetic mean", "geometric mean", "max", "min"],
    )


@register(
    "G-F8",
    "CSR-vector against other SpMV algorithms, per matrix",
    "Fig. 8",
    "With the right number of threads, CSR-vector is the fastest on most matrices.",
    sweeps=[_WITH_PEERS],
)
def against_others(context: Context) -> Result:
    """Draw the throughput of every algorithm."""
    times = context.times(_WITH_PEERS, (*_FEWEST, *_PEERS))
    sizes = context.sizes(times.index)
    compared = peers(times, sizes)
    rates = compared.rdiv(2.0 * sizes["nnz"], axis=0) / 1e3
    figure = drawing.figure(2.7)
    axis = figure.subplots()
    shown = ("TpR 16", "cuSPARSE", "merge-based", "CSR-adaptive", "optimal")
    order = rates["optimal"].sort_values().index
    for position, name in enumerate(shown):
        technique = "vector" if name == "TpR 16" else name
        size = 6 if name == "optimal" else 3
        drawing.points(
            axis, np.arange(len(order)), rates.loc[order, name], technique, position=position, label=name, s=size
        )
    drawing.log_axis(axis, "y")
    axis.set(xlabel="matrices, by the throughput of the optimum", ylabel="GFLOP/s")
    axis.legend(loc="lower right", ncols=2, markerscale=2)
    drawing.grid(axis, "y")
    won = wins(compared[["optimal", *_PEERS]], "warm")["fastest"]
    claims = (
        Claim(
            "CSR-vector with the best threads per row is the fastest on most matrices",
            bool(won["optimal"] > 0.5),
            f"{won['optimal']:.0%}; " + ", ".join(f"{name} {won[name]:.0%}" for name in _PEERS),
        ),
    )
    frame = rates.add_suffix(" GFLOP/s").assign(nnz=sizes["nnz"]).reset_index(names="matrix")
    text = (
        "Throughput, one point for each matrix and algorithm. cuSPARSE with its default algorithm on CSR; merge-based "
        "and CSR-adaptive are warploom's; Ginkgo and ViennaCL are not measured, choices of a trained model are in G-T4."
    )
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, _WITH_PEERS, len(times)), verdict)


@register(
    "G-T6",
    "Mean speedups over CSR-vector with 16 threads per row",
    "Table 6",
    "The best threads per row give 1.2 times the speed of 16; cuSPARSE and the merge-based algorithm less or as much.",
    sweeps=[_WITH_PEERS],
    printed=[
        Printed("optimal: arithmetic mean", 1.21, "Table 6, V100"),
        Printed("optimal: geometric mean", 1.18, "Table 6, V100"),
        Printed("cuSPARSE: arithmetic mean", 1.17, "Table 6, V100"),
        Printed("cuSPARSE: geometric mean", 1.10, "Table 6, V100"),
        Printed("merge-based: arithmetic mean", 1.26, "Table 6, V100"),
        Printed("merge-based: geometric mean", 0.74, "Table 6, V100"),
        Printed("predicted: arithmetic mean", 1.21, "Table 6, V100"),
        Printed("predicted: geometric mean", 1.17, "Table 6, V100"),
    ],
)
def mean_speedups(context: Context) -> Result:
    """Summarise the speedups over 16 threads per row."""
    from warploom.reproduce.threads_per_row_models import predicted_speedups  # which takes names from here

    times = context.times(_WITH_PEERS, ("16", *_FEWEST, *_PEERS))
    predicted = predicted_speedups(context)
    frame = speedup_table(peers(times, context.sizes(times.index)), predicted=predicted)
    ours = _means(frame)
    means = frame.set_index("algorithm")["geometric mean"]
    claims = (
        Claim(
            "choosing threads per row is worth more than a tenth over 16",
            bool(means["optimal"] > 1.1),
            f"geometric mean {means['optimal']:.2f}x",
        ),
        *(
            Claim(f"it is worth more than {name}", bool(means["optimal"] > means[name]), f"{means[name]:.2f}x")
            for name in ("cuSPARSE", "merge-based")
        ),
    )
    held_out = " Predicted: choices of the models of G-T4, for the matrices held out in four shuffles."
    text = f"Speedups over CSR-vector with 16 threads per row.{_NOT_16}{held_out if len(predicted) else ''}"
    figure = drawing.table(frame, {name: ".2f" for name in frame.columns[1:]})
    caption = context.caption(text, _WITH_PEERS, len(times))
    return Result([frame], figure, caption, judge(context.where(), *claims), ours)


def _means(frame: pd.DataFrame) -> dict[str, float | str]:
    found: dict[str, float | str] = {
        f"{row['algorithm']}: {mean}": float(row[mean])
        for _, row in frame.iterrows()
        for mean in ("arithmetic mean", "geometric mean")
    }
    return {"predicted: arithmetic mean": math.nan, "predicted: geometric mean": math.nan, **found}


def win_counts(times: pd.DataFrame) -> pd.DataFrame:
    """Count on how many matrices each column is the fastest."""
    fastest = times.idxmin(axis=1).value_counts().reindex(times.columns, fill_value=0)
    return pd.DataFrame(
        {"algorithm": fastest.index, "matrices": fastest.to_numpy(), "share": fastest.to_numpy() / len(times)}
    )


@register(
    "G-T7",
    "On how many matrices each algorithm is the fastest",
    "Table 7",
    "CSR-vector with the best threads per row wins most matrices, cuSPARSE comes second.",
    sweeps=[_WITH_PEERS],
    printed=[
        Printed("optimal", "525 of 953", "Table 7, V100"),
        Printed("cuSPARSE", "259 of 953", "Table 7, V100"),
        Printed("merge-based", "68 of 953", "Table 7, V100"),
    ],
)
def most_wins(context: Context) -> Result:
    """Count the wins of every algorithm."""
    times = context.times(_WITH_PEERS, (*_FEWEST, *_PEERS))
    compared = peers(times, context.sizes(times.index))
    frame = win_counts(compared[["optimal", *_PEERS]])
    counts = frame.set_index("algorithm")["matrices"]
    ours: dict[str, float | str] = {name: f"{count:,} of {len(times):,}" for name, count in counts.items()}
    second = str(counts.drop("optimal").idxmax())
    claims = (
        Claim(
            "CSR-vector with the best threads per row wins more matrices than any other",
            bool(counts["optimal"] > counts[second]),
            f"{counts['optimal']:,} against {counts[second]:,} of {second}",
        ),
    )
    text = "Matrices on which each algorithm has the least time."
    figure = drawing.table(frame, {"share": ".1%"})
    verdict = judge(context.where(), *claims)
    return Result([frame], figure, context.caption(text, _WITH_PEERS, len(times)), verdict, ours)

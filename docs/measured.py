"""The tables of the page of measurements, from what ships and from the rows in ``static``."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from page_tables import in_words, pair_of, write_tables

from warploom.bench import Measurements, oracle, repeatability, summary
from warploom.bench.end_to_end import Rows, summarise
from warploom.bench.measurements import folder_of
from warploom.bench.medians import Medians, geometric_mean
from warploom.bench.rendering import Summary
from warploom.experiments import load as load_findings

__all__ = ["MEASURED", "MEASURED_LARGE", "write_measured"]

MEASURED = "h200"
MEASURED_LARGE = "h200-large"
_MEASURED_HALF = "h200-half"
_MEASURED_DOUBLE = "h200-double"
_MEASURED_COLUMN = "h200-column"
_MEASURED_DENSE = "h200-dense"
_MEASURED_TYPES = "h200-types"
_MEASURED_COLUMN_HALF = "h200-column-half"


def write_measured(tables: Path) -> None:
    """Write what was measured; two figures in a cell are for a warm and for a cold cache."""
    measured = Measurements.load(MEASURED)
    whole = measured.only()
    by_setting = {setting: whole.select(setting=setting) for setting in _settings(whole)}
    speedups = pd.concat([summary.speedups(part).frame for part in by_setting.values()], ignore_index=True)
    write_tables(tables / "speedups.md", [speedups_table(speedups)])
    write_tables(tables / "speedups-by-size.md", [_speedups_by_size(speedups)])
    write_tables(tables / "speedups-large.md", [_speedups_large()])
    write_tables(tables / "floor.md", [_floor_table(by_setting)])
    write_tables(tables / "fastest-kernels.md", [_fastest_kernels(by_setting)])
    write_tables(tables / "counts.md", [summary.counts(measured, by) for by in ("source", "size", "part")])
    write_tables(tables / "repeatability.md", [repeatability.repeatability(measured)])
    write_tables(tables / "calls.md", [_calls()])
    write_tables(tables / "end-to-end.md", summarise(Rows.load(MEASURED)).tables())
    write_tables(tables / "end-to-end-later.md", _end_to_end_later())
    write_tables(tables / "preparation.md", [_preparation()])
    write_tables(tables / "planning.md", [_planning()])
    write_tables(tables / "ordering.md", [_ordering()])
    write_tables(tables / "ordering-communities.md", [_communities()])
    write_tables(tables / "ordering-plans.md", [_plans_with_orders()])
    write_tables(tables / "update.md", [_update()])
    write_tables(tables / "half.md", [_half()])
    write_tables(tables / "half-speedups.md", [_half_speedups()])
    of_spmm = {
        "double": _MEASURED_DOUBLE,
        "column": _MEASURED_COLUMN,
        "dense": _MEASURED_DENSE,
        "types": _MEASURED_TYPES,
        "column-half": _MEASURED_COLUMN_HALF,
    }
    for table, name in of_spmm.items():
        write_tables(tables / f"{table}-speedups.md", [table_over_vendor(Measurements.load(name).select(op="spmm"))])
    write_tables(tables / "peers.md", _peers())
    write_tables(tables / "peers-orders.md", [_peers_and_orders()])
    write_tables(tables / "sampled.md", [_sampled()])
    write_tables(tables / "columns.md", [_columns()])
    write_tables(tables / "programs.md", [_programs()])


_CALLS = {"plan @ x": "plan(X, Y)", "plan(x, out=y)": "plan(X, Y, out=values)"}
"""How the calls of a product are named, and those of a sampled product."""


def _calls() -> Summary:
    """Return medians of `tests/gpu/measure_calls.py`, beside the library's own product."""
    lines = (folder_of(MEASURED) / "calls.jsonl").read_text(encoding="utf-8").splitlines()
    found = pd.DataFrame([row for row in map(json.loads, lines) if "case" in row])
    rows = []
    for (framework, op, k, layout), part in found.groupby(["framework", "op", "k", "layout"], sort=False):
        us = part.drop_duplicates("case").set_index("case")["median_us"]
        own = next((us[case] for case in us.index if ": A @" in case or "sampled_addmm" in case), None)
        kinds = {"spmv": "SpMV", "spmm": f"SpMM, k = {k}, {layout}-major", "sddmm": f"sampled product, k = {k}"}
        names = _CALLS.values() if op == "sddmm" else _CALLS
        rows.append((framework, kinds[op], *(us.get(case) for case in names), us.get("one launch"), own))
    frame = pd.DataFrame(rows, columns=["operands of", "product", *_CALLS, "one launch", "the library's own"])
    return Summary("", frame, formats=dict.fromkeys(frame.columns[2:], ".1f"))


def _static(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(__file__).parent / "static" / f"{name}.csv")


def _end_to_end_later() -> list[Summary]:
    """Return the time until n products are done, and what planning costs, by later rows of fewer tools."""
    tables = summarise(Rows.load(MEASURED_LARGE)).tables()
    frames = (table.frame[table.frame["tool"] == "warploom"].drop(columns=["place", "tool"]) for table in tables)
    return [dataclasses.replace(table, frame=frame) for table, frame in zip(tables, frames, strict=True)]


def _planning() -> Summary:
    """Return what `tests/gpu/measure_programs.py` found for planning."""
    frame = _static("planning")
    rows = []
    for (op, dtype, nnz), part in frame.groupby(["op", "dtype", "nnz"], sort=False):
        row: dict[str, Any] = {"operation": "SpMV" if op == "spmv" else "SpMM", "values": dtype, "nonzeros": nnz}
        for of in part.itertuples(index=False):
            row[f"{of.index} indices"] = f"{of.median_us:.0f} ({of.p10_us:.0f} to {of.p90_us:.0f})"
        rows.append(row)
    note = "Microseconds, median (10 % to 90 %) over random matrices of 8 nonzeros a row in turn; SpMM with k = 32."
    table = pd.DataFrame(rows).sort_values(["operation", "values", "nonzeros"], ascending=[False, True, True])
    return Summary("", table, [note], formats={"nonzeros": ",.0f"})


def _ordering() -> Summary:
    """Return what `tests/gpu/measure_orders.py` found for reverse Cuthill-McKee."""
    frame = _static("ordering")
    table = pd.DataFrame(
        {
            "": frame["matrix"],
            "nonzeros": frame["nnz"],
            "GPU, ms": frame["gpu_ms"],
            "host, ms": frame["host_ms"],
            "in products": frame["products"],
            "SpMV, us": frame["none_us"],
            "ordered, us": frame["rcm_us"],
            "repaid after": _repaid_after(frame),
        }
    )
    note = "Host: 16 threads. Products in float64, the fastest of four formats each. Both compute the same order."
    formats = {"nonzeros": ",.0f", "in products": ".0f"} | dict.fromkeys(["GPU, ms", "SpMV, us", "ordered, us"], ".1f")
    return Summary("", table, [note], formats=formats | {"host, ms": ".0f"})


def _repaid_after(frame: pd.DataFrame) -> pd.Series:
    """Return the products after which an order has been repaid, in words."""
    return frame["repaid_after"].map(lambda products: f"{products:,.0f}" if products > 0 else "-")


def _communities() -> Summary:
    """Return what `tests/gpu/measure_orders.py` found for communities, for SpMM and for SpMV."""
    frame = _static("ordering-communities")
    spmm, spmv = (frame[frame["k"] == k].set_index("matrix", drop=False) for k in (128, 0))
    table = pd.DataFrame(
        {
            "": spmm["matrix"],
            "nonzeros": spmm["nnz"],
            "GPU, ms": spmm["gpu_ms"],
            "host, ms": spmm["host_ms"],
            "SpMM, us": spmm["none_us"],
            "ordered, us": spmm["community_us"],
            "repaid after": _repaid_after(spmm),
            "SpMV, us": spmv["none_us"],
            "ordered, us ": spmv["community_us"],
            "repaid after ": _repaid_after(spmv),
        }
    )
    note = (
        "An H100. Host: 16 threads. SpMM in float32 with k = 128, the fastest of three kernels each; SpMV in float64, "
        "of four formats. Both compute the same order."
    )
    times = ["GPU, ms", "SpMV, us", "ordered, us "]
    formats = {"nonzeros": ",.0f", "host, ms": ".0f"} | dict.fromkeys(["SpMM, us", "ordered, us"], ",.0f")
    return Summary("", table, [note], formats=formats | dict.fromkeys(times, ".1f"))


def _plans_with_orders() -> Summary:
    """Return what the same script found for plans by the default choice, beside the fastest without an order."""
    frame = _static("ordering-plans")
    frame["product"] = [f"SpMM, k = {k}" if k else "SpMV" for k in frame["k"]]
    orders = frame["chosen"].str.split("/").str[1].replace("none", "-")
    without = frame["swept_without_us"].fillna(frame["without_total_ms"])
    frame["gained"] = (without / frame["chosen_total_ms"]).map("{:.2f}".format) + " (" + orders + ")"
    table = frame.pivot(index="matrix", columns=["product", "dtype"], values="gained")
    table = table.reindex(index=frame["matrix"].unique(), columns=frame.set_index(["product", "dtype"]).index.unique())
    table.columns = table.columns.map(", ".join)
    notes = [
        "1,000 products without an order, by the fastest kernel of a sweep or, where there is none, by a plan, over "
        "the time that a plan takes by default, planning included; and its order (-: none).",
        "An H200, CUDA 13.0; tensors of PyTorch in GPU memory.",
    ]
    return Summary("", table.reset_index(names=""), notes)


def _update() -> Summary:
    """Return what the same script found for new values."""
    table = _static("update").drop(columns="nnz").rename(columns={"product_us": "product", "update_us": "new values"})
    note = "Microseconds a call in a loop of 50, float32, 7-point grid of 100 x 100 x 100."
    return Summary("", table, [note], formats=dict.fromkeys(table.columns[1:], ".1f"))


_EXAMPLES = {
    "poisson27_80": "27-point grid, 512,000 rows",
    "fem_blocks_6x6": "blocks of 6 x 6, 180,000 rows",
    "pruned_4096_90": "pruned at random, 4,096 rows",
    "uniform_500k_16": "random columns, 500,000 rows",
}


def _half() -> Summary:
    """Return what `tests/gpu/measure_half.py` found for SpMM."""
    frame = _static("half")
    wide = frame[frame["dtype"] == "float32"].set_index(["matrix", "k"])["own_us"]
    rows = []
    for row in frame.itertuples(index=False):
        us = {"warploom": row.own_us, "its tensor cores": row.tensor_core_us, "TF32": row.tf32_us}
        ratios = {"over cuSPARSE": row.cusparse_us / row.own_us, "over float32": wide[row.matrix, row.k] / row.own_us}
        rows.append(
            {"": _EXAMPLES[row.matrix], "k": row.k, "values": row.dtype, **us, "cuSPARSE": row.cusparse_us} | ratios
        )
    table = pd.DataFrame(rows)
    formats = dict.fromkeys(table.columns[3:7], ".1f") | dict.fromkeys(table.columns[7:], ".2f")
    return Summary("", table, ["Microseconds of the fastest candidate each, median, warm L2 cache."], formats=formats)


def _half_speedups() -> Summary:
    measured = Measurements.load(_MEASURED_HALF)
    rows = measured.measurements
    # An earlier sweep has no times of what rounds its sums.
    with_rounded = rows["environment"].isin(rows["environment"][rows["status"] == "rounded sums"].unique())
    compared = Measurements(rows[with_rounded | (rows["op"] != "spmm")], measured.matrices, measured.environments)
    return table_over_vendor(compared)


def table_over_vendor(measured: Measurements) -> Summary:
    """Return how the fastest of warploom's kernels compares, by setting.

    Parameters
    ----------
    measured : Measurements
        A sweep of settings of SpMM and of sampled products.
    """
    matrices = measured.matrices.set_index("matrix")
    kinds = pd.Series(np.where(matrices["nnz"] >= 10**6, "from 10^6 nonzeros on", "below"), matrices.index.astype(str))
    kinds[matrices["family"].astype(str).str.startswith("pruned").to_numpy()] = "pruned weights"
    measured = _mostly_reached(measured)
    rows = measured.timed()
    names = sorted(rows["setting"].astype(str).unique(), key=_by_columns)
    best = {name: _least_of(Medians.of(measured, name, "warm")) for name in names}
    found = []
    for name in names:
        own, vendor, cores = best[name]
        in_half = "float16" in name
        in_float32 = re.sub(r"/b?float16", "/float32", name)
        of_float32 = best[in_float32][0] if in_half and in_float32 in best else pd.Series(dtype=float)
        over = pd.DataFrame(
            {"vendor": vendor / own, "float32": of_float32.reindex(own.index) / own, "cores": cores / own}
        )
        for kind, part in over.groupby(kinds.reindex(over.index)):
            against = part["vendor"].dropna()
            if against.empty and part["float32"].isna().all():
                continue
            found.append(
                {
                    "": name,
                    "matrices": kind,
                    "number": len(part),
                    "over cuSPARSE": geometric_mean(against) if len(against) else None,
                    "least": against.min() if len(against) else None,
                    "below 0.97": float((against < 0.97).mean()) if len(against) else None,
                    "over float32": geometric_mean(part["float32"].dropna()) if part["float32"].notna().any() else None,
                    "on tensor cores": float((part["cores"] <= 1).mean()) if in_half and "spmm" in name else None,
                }
            )
    table = pd.DataFrame(found).dropna(axis="columns", how="all")
    formats = dict.fromkeys(("over cuSPARSE", "least", "over float32"), ".2f")
    formats |= dict.fromkeys(("below 0.97", "on tensor cores"), ".0%")
    note = (
        "Geometric means over the fastest of cuSPARSE's algorithms in the same type, and the least; the share on which "
        "warploom's fastest is slower than 0.97 of it"
    )
    if "on tensor cores" in table:
        note += "; over warploom's own in float32; the share on which sparse formats on tensor cores are the fastest"
    note += ", without those where time was up before half of the candidates had been measured"
    return Summary("", table, [f"{note}. Warm L2 cache."], formats={k: v for k, v in formats.items() if k in table})


def _mostly_reached(measured: Measurements) -> Measurements:
    """Return the rows without matrices and settings where time was up before half of the candidates were measured."""
    rows = measured.measurements
    each = rows.drop_duplicates(["matrix", "setting", "candidate"])
    left = (each["status"] == "time limit").groupby([each["matrix"], each["setting"]], observed=True).mean()
    few = left.index[left > 0.5]
    keys = pd.MultiIndex.from_frame(rows[["matrix", "setting"]])
    return Measurements(rows[~keys.isin(few)], measured.matrices, measured.environments)


def _by_columns(setting: str) -> tuple[Any, ...]:
    op, dtype, *rest = setting.split("/")
    return op != "spmm", dtype, int(rest[-1].removeprefix("k="))


def _least_of(medians: Medians) -> tuple[pd.Series, pd.Series, pd.Series]:
    """Return the least times of warploom's candidates, of the vendor's, and of those on tensor cores."""
    own, vendor = (medians.candidates(vendor=of) for of in (False, True))
    return medians.best(own), medians.best(vendor), medians.best([name for name in own if "tensor_core" in name])


_OLD = "warploom 04b4853"
_ANY_ORDER = "warploom, any order"
_CODES = [
    *(("warploom", "fp16"), (_ANY_ORDER, "fp16"), ("warploom", "fp32"), ("warploom", "tf32"), (_OLD, "fp32")),
    *(("FlashSparse", "fp16"), ("cuSPARSE", "fp16"), ("torch", "fp16"), ("FlashSparse", "tf32"), ("Voltrix", "tf32")),
    *(("DTC-SpMM", "tf32"), ("RoDe", "fp32"), ("cuSPARSE", "fp32")),
]


def _peers() -> list[Summary]:
    """Return times of other codes, with ours from `tests/gpu/measure_half.py --baseline` where it was run."""
    frame = _static("peers")
    same = frame[frame["code"] == "warploom"].groupby("matrix")["same_matrix"].all()
    found = []
    for k, part in frame.groupby("k"):
        times = part.set_index(["matrix", "code", "precision"])["us"].unstack(["code", "precision"])
        times = times.reindex(index=part["matrix"].unique(), columns=[code for code in _CODES if code in times])
        ratios = np.log(times.div(times.iloc[:, 0], axis=0))
        is_same = np.array([bool(same.get(name, True)) for name in times.index])
        table = times.map("{:.0f}".format).replace("nan", "-")
        table.index = [
            name if known else f"{name} (ours: one like it)" for name, known in zip(times.index, is_same, strict=True)
        ]
        over = f"time over {' '.join(times.columns[0])}, geometric mean"
        table.loc[over] = np.exp(ratios.mean()).map("{:.2f}".format)
        if not is_same.all():
            table.loc[f"{over} of the same matrices"] = np.exp(ratios[is_same].mean()).map("{:.2f}".format)
        table.columns = table.columns.map(" ".join)
        found.append(Summary(f"k = {k}", table.reset_index(names=""), ["Microseconds, median, warm L2 cache."]))
    return found


def _peers_and_orders() -> Summary:
    """Return the fastest of the other codes beside ours, and what row orders add."""
    found = _static("peers")
    is_ours = found["code"].str.startswith("warploom")
    least = found[~is_ours & (found["precision"] != "bf16")].groupby(["matrix", "k"])["us"].min()
    codes = ["warploom", _ANY_ORDER]
    ours = found[(found["precision"] == "fp16") & found["code"].isin(codes)]
    ours = ours.pivot(index=["matrix", "k"], columns="code", values="us")
    table = pd.DataFrame({"the others": least, **{code: ours[code] for code in codes}})
    table = table.reindex(ours.index).sort_index(level="k", sort_remaining=False)
    over = pd.DataFrame({f"over {code}": table["the others"] / table[code] for code in codes})
    means = over.map(np.log).groupby("k").mean().map(np.exp)
    shown = pd.concat([table.map("{:.1f}".format), over.map("{:.2f}".format)], axis=1).reset_index()
    last = means.map("{:.2f}".format).reset_index().assign(matrix="geometric mean")
    note = "Microseconds in float16, warm L2 cache; of the others the fastest, in whatever precision."
    return Summary("", pd.concat([shown, last], ignore_index=True).fillna(""), [note])


def _sampled() -> Summary:
    """Return what `tests/gpu/measure_half.py --sampled` found, for large matrices and for smaller ones."""
    frame = _static("sampled")
    frame["dtype"] = pd.Categorical(frame["dtype"], ["float64", "float32", "float16", "bfloat16"], ordered=True)
    frame["over cuSPARSE"] = frame["cusparse_us"] / frame["own_us"]
    frame["over PyTorch"] = frame["torch_us"] / frame["own_us"]
    of = ["matrix", "k"]
    wide = frame[frame["dtype"] == "float32"].set_index(of)["own_us"]
    frame["over float32"] = frame.join(wide.rename("wide_us"), on=of)["wide_us"] / frame["own_us"]
    frame.loc[frame["dtype"].isin(["float64", "float32"]), "over float32"] = float("nan")
    rows = []
    for (smaller, dtype, k), part in frame.groupby([frame["nnz"] < 10**6, "dtype", "k"], observed=True):
        row = {"nonzeros": "fewer" if smaller else "10^6 and more", "values": dtype, "k": k}
        row |= {"matrices": len(part), "warploom": part["own_us"].median()}
        for name in ("over cuSPARSE", "over PyTorch", "over float32"):
            known = part[name].dropna()
            row[name] = f"{geometric_mean(known):.2f} ({known.min():.2f})" if len(known) else "-"
        rows.append(row)
    notes = [
        "Microseconds, warm L2 cache, median over the matrices; times as fast, geometric means, and the least.",
        "Over float32: over warploom's own. An H100, CUDA 13.0.",
    ]
    return Summary("", pd.DataFrame(rows), notes, formats={"warploom": ".1f"})


def _columns() -> Summary:
    """Return what `tests/gpu/measure_columns.py` found: products by how wide the vectors are that k allows."""
    frame = _static("columns")
    us = frame.set_index(["matrix", "dtype", "k"])["us"]
    frame["next"] = [us.get((row.matrix, row.dtype, -(-row.k // 8) * 8)) for row in frame.itertuples()]
    frame = frame[frame["next"].notna() & (frame["k"] % 8 != 0) & (frame["k"] > 8)]
    frame["ratio"] = frame["us"] / frame["next"]
    kinds = {"odd": 1, "2 times odd": 2, "4 times odd": 4}
    rows = []
    for (matrix, dtype), part in frame.groupby(["matrix", "dtype"], sort=False):
        row = {"": "random columns, 60,000 rows" if matrix == "random_60k_12" else _EXAMPLES[matrix], "values": dtype}
        for title, step in kinds.items():
            of = part["ratio"][(part["k"] % (2 * step)) == step]
            row[f"k {title}"] = f"{of.median():.2f} ({of.max():.2f})" if len(of) else "-"
        rows.append(row)
    note = "Time over that of the next multiple of 8, median over k from 9 to 264, and the most."
    return Summary("", pd.DataFrame(rows), [note])


def _programs() -> Summary:
    """Return what whole programs took, from `tests/gpu/measure_epilogues.py` and `measure_programs.py`."""
    frame = _static("programs")
    names = {"cg": "conjugate gradients, 200 steps", "gcn": "graph convolutions, an epoch"}
    last = frame.groupby("program")["median_s"].transform("max")
    first = ~frame["program"].duplicated()
    table = pd.DataFrame(
        {
            "": frame["program"].replace(names).where(first, ""),
            "with": frame["what"],
            **{f"{name}, ms": 1e3 * frame[f"{name}_s"] for name in ("median", "min", "max")},
            "times as fast": last / frame["median_s"],
        }
    )
    formats = dict.fromkeys(table.columns[2:5], ".2f") | {"times as fast": ".2f"}
    return Summary(
        "",
        table,
        ["Medians, least and most of one to ten runs, as many times as fast as the slowest."],
        formats=formats,
    )


_SIZES = {"below 10^5": (0, 1e5), "10^5 to 10^6": (1e5, 1e6), "10^6 to 10^7": (1e6, 1e7), "10^7 and more": (1e7, 1e12)}


def _preparation() -> Summary:
    """Return what the experiment on preparation found, by format and nonzeros."""
    findings = load_findings("preparation", [MEASURED])
    assert findings is not None
    names = findings.table["candidate"].str.split("/")
    kept = (findings.table["status"] == "ok") & (findings.table["dtype"] == "float32") & (names.str[1] == "none")
    table = findings.table[kept].assign(format=names.str[2])
    rows = []
    for (op, form), part in table.groupby(["op", "format"]):
        row = {"operation": "SpMV" if op == "spmv" else "SpMM", "format": form}
        for title, (low, high) in _SIZES.items():
            ms = part["preparation_ms"][(part["nnz"] >= low) & (part["nnz"] < high)]
            row[title] = f"{ms.median():.2f} ({ms.max():.2f})" if len(ms) else "-"
        rows.append(row)
    notes = [
        f"Medians, and the most in brackets, over {table['matrix'].nunique()} constructed matrices and the settings "
        f"that plans choose among, by nonzeros; float32. {findings.device}."
    ]
    return Summary("", pd.DataFrame(rows), notes)


def _settings(measured: Measurements) -> list[str]:
    """Return the settings in the order in which tables show them."""

    def order(setting: str) -> tuple[Any, ...]:
        op, dtype, *rest = setting.split("/")
        k = rest[1].removeprefix("k=") if rest else "0"
        types = ("float64", "float32", "float16")
        return op != "spmm", rest[:1] == ["column"], types.index(dtype), int(k) if k.isdigit() else float("inf")

    return sorted(measured.measurements["setting"].astype(str).unique(), key=order)


_SPREAD = {
    "over default": (".2f", "over its default"),
    "over best": (".2f", "over its best"),
    "5th percentile": (".2f", "5th percentile"),
    "least": (".2f", "least"),
    "below 0.98": (".1%", "below 0.98"),
}


def speedups_table(speedups: pd.DataFrame) -> Summary:
    """Return a row for each setting over matrices of all sizes.

    Parameters
    ----------
    speedups : pandas.DataFrame
        The table of `warploom.bench.summary.speedups`.
    """
    rows = [
        {"": in_words(str(setting)), **_warm_and_cold(found)}
        for setting, found in speedups[speedups["nonzeros"] == "all"].groupby("setting", sort=False)
    ]
    return Summary(
        "",
        pd.DataFrame(rows),
        [
            "Speedup of the fastest of warploom's kernels over cuSPARSE's default algorithm on CSR, and over the "
            "fastest of all its algorithms and formats for that matrix: geometric means. Percentile, least and the "
            "share below 0.98 are over the best. Warm / cold L2 cache. Matrices count on which at least half of "
            "warploom's kernels were measured."
        ],
    )


def _speedups_by_size(speedups: pd.DataFrame) -> Summary:
    rows = [
        {"": in_words(str(setting)), "nonzeros": size, **_warm_and_cold(found)}
        for (setting, size), found in speedups[speedups["nonzeros"] != "all"].groupby(
            ["setting", "nonzeros"], sort=False, observed=True
        )
    ]
    return Summary("", pd.DataFrame(rows))


def _speedups_large() -> Summary:
    found = speedups_table(summary.speedups(Measurements.load(MEASURED_LARGE)).frame)
    frame = found.frame.assign(**{"": [f"{words}: large matrices" for words in found.frame[""]]})
    return Summary("", frame)


def _warm_and_cold(found: pd.DataFrame) -> dict[str, str]:
    by_cache = found.set_index("cache").reindex(["warm", "cold"])
    cells = {title: pair_of(list(by_cache[name]), form) for name, (form, title) in _SPREAD.items()}
    return {"matrices": pair_of([int(count) for count in by_cache["matrices"]], ","), **cells}


_FLOOR_SETTINGS = ("spmv/float64", "spmv/float32", "spmv/float16", "spmm/float32/row/k=128")


def _floor_table(by_setting: Mapping[str, Measurements]) -> Summary:
    columns: dict[str, dict[str, str]] = {}
    for setting in _FLOOR_SETTINGS:
        found = summary.floor_shares(by_setting[setting]).frame.set_index(["nonzeros", "cache"])
        for name, form in (("share of the floor", ".0%"), ("median us", ".1f")):
            values = found[name].unstack().reindex(summary.SIZE_CLASSES)
            columns[f"{in_words(setting)}: {name}"] = {
                size: pair_of([values.at[size, cache] for cache in ("warm", "cold")], form) for size in values.index
            }
    frame = pd.DataFrame(columns).rename_axis("nonzeros").reset_index()
    return Summary(
        "",
        frame,
        [
            "Share of the floor, the time that moving every operand once takes at the measured bandwidth of a copy, "
            "and the median time in microseconds. Warm / cold L2 cache."
        ],
    )


def _fastest_kernels(by_setting: Mapping[str, Measurements]) -> Summary:
    frames = []
    for setting in (name for name in by_setting if name.startswith("spmv/")):
        dtype = setting.split("/")[1]
        found = [
            oracle.kernels(by_setting[setting], setting, cache).frame.set_index("kernel") for cache in ("warm", "cold")
        ]
        names = [name for name in found[0].index if "/" in name]
        by_cache = [frame.reindex(names) for frame in found]
        frames.append(
            pd.DataFrame(
                {
                    f"{dtype}: fastest on": [
                        pair_of(v, ".0%") for v in zip(*(f["fastest"] for f in by_cache), strict=True)
                    ],
                    f"{dtype}: alone": [
                        pair_of(v, ".2f") for v in zip(*(f["geometric mean"] for f in by_cache), strict=True)
                    ],
                },
                index=pd.Index(names, name="kernel"),
            )
        )
    frame = pd.concat(frames, axis=1).fillna("-").reset_index()
    return Summary(
        "",
        frame,
        [
            "Share of the matrices on which each kernel is the fastest of warploom's, and its own speed over the best "
            "of cuSPARSE in the best of its settings (geometric mean). Warm / cold L2 cache."
        ],
    )

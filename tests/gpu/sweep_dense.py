"""Add dense/cublas to the shipped sweeps made before it was there, or measure it again.

``python tests/gpu/sweep_dense.py list`` says how many matrices of each sweep can be stored as dense ones, and in which
settings. With ``--unaligned``, here and below, only those count of which rows of A, B or C (columns, in column-major
order) don't begin on 16 bytes, or rows of A not on cache lines.

``python tests/gpu/sweep_dense.py run OUTPUT [--minutes M] [--sweep NAME ...] [--part I/N]`` measures dense/cublas on
the GPU at hand, on these matrices and in these settings, and beside it two candidates that the sweeps have, which say
whether this GPU is as fast. A run that is stopped continues where it was; `--part` shares the matrices among GPUs.

``python tests/gpu/sweep_dense.py join OUTPUT...`` compares the times of those two with the shipped ones, and writes
the rows of dense/cublas into the sweeps of this checkout, in place of those of the same settings. They get the
environment of the rows that they stand beside, since only times of one environment are compared with each other.
Refused where the medians differ by more than 5 %, unless ``--anyway`` is given.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys

import numpy as np
import pandas as pd

from warploom import _device, corpus
from warploom._limits import SweepLimits
from warploom.bench import Measurements
from warploom.bench.medians import of_one_environment
from warploom.bench.run import drawn, sweep
from warploom.bench.settings import Setting
from warploom.corpus import Entry

DENSE = "spmm/none/dense/cublas"
ANCHORS = ("spmm/none/csr/row_split", "spmm/none/csr/cusparse")
SWEEPS = ("h200-half", "h200-large", "h200", "h200-dense", "h200-double", "h200-column", "h200-types")
DATA = pathlib.Path(__file__).parents[2] / "python" / "warploom-data" / "warploom_data"
LARGEST = 1.1e9
"""Bytes of the largest dense matrix that is measured."""


def settings_of(name: str, unaligned: bool) -> dict[str, list[str]]:
    """Return the SpMM settings in which a sweep has each matrix that can be stored as a dense one."""
    found = Measurements.load(DATA / name)
    rows = found.measurements
    rows = rows[(rows["op"] == "spmm") & (rows["run"] == 0) & rows["median_us"].notna()]
    had = rows[["matrix", "setting"]].astype(str).drop_duplicates().groupby("matrix")["setting"].agg(sorted)
    sizes = found.matrices.set_index(found.matrices["matrix"].astype(str))
    chosen = {}
    for matrix, settings in had.items():
        size = sizes.loc[matrix]
        shape = int(size["rows"]), int(size["cols"])
        runs = [s for s in settings if _fits(*shape, int(size["nnz"]), s)]
        runs = [s for s in runs if not unaligned or _unaligned(*shape, s)]
        if runs:
            chosen[str(matrix)] = runs
    return chosen


def _itemsize(setting: str) -> int:
    return {"float64": 8, "float32": 4}.get(Setting.parse(setting).dtype, 2)


def _fits(rows: int, cols: int, nnz: int, setting: str) -> bool:
    itemsize = _itemsize(setting)
    at_once = 16 // itemsize
    places = rows * (-(-cols // at_once) * at_once)
    return places <= 64 * nnz + 4096 and places * itemsize <= LARGEST


def _unaligned(rows: int, cols: int, setting: str) -> bool:
    found, itemsize = Setting.parse(setting), _itemsize(setting)
    begins = [found.k] if found.layout == "row" else [rows, cols]
    lines = cols * itemsize >= 2048 and cols * itemsize % 128 != 0
    return lines or any(size * itemsize % 16 != 0 for size in (*begins, cols))


def show(given: argparse.Namespace) -> None:
    """Print how many matrices there are."""
    for name in given.sweep:
        chosen = settings_of(name, given.unaligned)
        by_setting = pd.Series([s for settings in chosen.values() for s in settings]).value_counts().sort_index()
        print(f"{name}: {len(chosen)} matrices, {int(by_setting.sum())} pairs of a matrix and a setting")
        for setting, count in by_setting.items():
            print(f"  {setting:26} {count}")


def run(given: argparse.Namespace) -> None:
    """Measure."""
    if reason := _device.load_cublas():
        sys.exit(f"no cuBLAS: {reason}")
    wanted: dict[str, list[str]] = {}
    for name in given.sweep:
        for matrix, settings in settings_of(name, given.unaligned).items():
            wanted.setdefault(matrix, []).extend(s for s in settings if s not in wanted.get(matrix, []))
    entries = []
    for matrix in sorted(wanted):
        try:
            entries.append(corpus.find(matrix))
        except ValueError as error:
            print(f"{matrix}: {error}")

    def settings(entry: Entry) -> list[str]:
        return wanted[entry.name]

    def progress(done: int, total: int, name: str) -> None:
        if done % 20 == 0:
            print(f"{done} of {total}: {name}", flush=True)

    limits = dataclasses.replace(SweepLimits(), repeats=10, matrix_s=20.0, remeasured=0.0)
    print(
        sweep(
            drawn(entries, shard=given.part),
            settings,
            given.output,
            candidates=[DENSE, *ANCHORS],
            limits=limits,
            ahead=given.ahead,
            minutes=given.minutes,
            permuted_nnz=0,
            progress=progress,
        )
    )


def join(given: argparse.Namespace) -> None:
    """Write the rows into the sweeps."""
    measured = Measurements.load(*given.outputs).measurements
    measured = measured[measured["run"] == 0].astype({"candidate": str, "matrix": str, "setting": str, "cache": str})
    key = ["matrix", "setting", "cache"]
    changed = []
    for name in given.sweep:
        shipped = Measurements.load(DATA / name)
        rows = shipped.measurements
        compared = of_one_environment(rows[(rows["op"] == "spmm") & (rows["run"] == 0)], ["matrix", "setting"])
        known = compared[compared["candidate"].isin(ANCHORS) & compared["median_us"].notna()]
        known = known.astype({"candidate": str, "matrix": str, "setting": str, "cache": str})
        both = known.merge(measured, on=[*key, "candidate"], suffixes=("", "_now"))
        ratios = (both["median_us_now"] / both["median_us"]).dropna()
        if ratios.empty:
            print(f"{name}: nothing was measured")
            continue
        quartiles = ", ".join(f"{q:.3f}" for q in ratios.quantile([0.25, 0.5, 0.75]))
        print(f"{name}: {len(ratios)} times of candidates that were there, now over then: quartiles {quartiles}")
        if abs(np.log(ratios.median())) > 0.05 and not given.anyway:
            sys.exit("this GPU is not as fast: nothing was written")
        of_rows = known.drop_duplicates(key)[[*key, "environment"]]
        new = measured[(measured["candidate"] == DENSE) & measured["median_us"].notna()]
        new = new.drop(columns="environment").merge(of_rows, on=key)
        named = rows[[*key, "candidate"]].astype(str)
        again = pd.MultiIndex.from_frame(named[key]).isin(pd.MultiIndex.from_frame(new[key].astype(str)))
        rest = rows[(named["candidate"] != DENSE) | ~again]
        print(f"{name}: {len(new)} rows of {DENSE} on {new['matrix'].nunique()} matrices")
        changed.append((name, dataclasses.replace(shipped, measurements=pd.concat([rest, new[rows.columns]]))))
    for name, joined in changed:
        joined.save(DATA / name)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list")
    running = commands.add_parser("run")
    running.add_argument("output", type=pathlib.Path)
    running.add_argument("--minutes", type=float, default=2.5)
    running.add_argument("--part", default="0/1", metavar="I/N")
    running.add_argument("--ahead", type=int, default=8, help="processes that make the next matrices")
    joining = commands.add_parser("join")
    joining.add_argument("outputs", type=pathlib.Path, nargs="+")
    joining.add_argument("--anyway", action="store_true")
    for command in (listing, running, joining):
        command.add_argument("--sweep", nargs="*", default=SWEEPS, choices=SWEEPS)
    for command in (listing, running):
        command.add_argument("--unaligned", action="store_true")
    given = parser.parse_args()
    if given.command == "list":
        show(given)
    elif given.command == "run":
        run(given)
    else:
        join(given)


if __name__ == "__main__":
    main()

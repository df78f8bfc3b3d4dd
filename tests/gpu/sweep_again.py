"""Measure some candidates of the shipped sweeps again, or for the first time, after their kernels have changed.

What is measured (``--what``), all of SpMM except panels and large-spmv:

dense
    dense/cublas, on matrices that can be stored as dense ones.
unaligned
    The same, where rows of A, B or C (columns, in column-major order) don't begin on 16 bytes, or rows of A not on
    cache lines.
windows
    Column vectors, and hybrids of them and rows, on matrices with rows of more than 256 nonzeros and at most 5 million
    in all, as each sweep has them.
long-rows
    Candidates that cut rows, on matrices with rows of more than 2,048 nonzeros and at most 5 million in all, in the
    settings and with the parameters that each sweep has.
by-column
    Pieces of cut rows in the order of their columns, on matrices with rows of more than 512 nonzeros, or 256 where 2 %
    of all places are nonzeros, and at most 25 million in all, for k = 32 and 128.
panels
    Column panels, on matrices with rows of more than 1,000 nonzeros.
large-spmm, large-spmv
    What wins on large matrices and not every sweep of them has tried, on matrices of 300,000 nonzeros and more, in
    float32 with k = 32 and 128 row-major and for SpMV in float32 and float64.
packed-columns
    Packed CSR for few columns, in settings with column-major operands and k of at most 128.

``python tests/gpu/sweep_again.py list --what WHAT`` says on how many matrices of each sweep, and in which settings.

``python tests/gpu/sweep_again.py run OUTPUT --what WHAT [--minutes M] [--sweep NAME ...] [--part I/N]`` measures on the
GPU at hand, a folder of OUTPUT for each sweep, and beside them two candidates that the sweeps have, which say whether
this GPU is as fast. A run that is stopped continues where it was; `--part` shares the matrices among GPUs.

``python tests/gpu/sweep_again.py join OUTPUT... --what WHAT`` compares the times of those two with the shipped ones and
writes the new rows into the sweeps of this checkout, in place of those of the same candidates and settings. They get
the environment of the rows that they stand beside, since only times of one environment are compared with each other.
Sweeps whose times differ by more than 5 % in the median stay as they are, unless ``--anyway`` is given. Times of
packed-columns are shifted instead, for each machine and state of the cache by what the first of them took more then
where it took less than 50 us: launches take 1.5 us more on some machines than on others, a fifth of what is measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import pathlib
import sys
import time
from collections.abc import Callable

import numpy as np
import pandas as pd

from warploom import _device, corpus
from warploom._limits import SweepLimits
from warploom.bench import Measurements
from warploom.bench.medians import of_one_environment
from warploom.bench.run import drawn, sweep
from warploom.bench.settings import Setting
from warploom.corpus import Entry

ANCHORS = {
    "spmm": ("spmm/none/csr/row_split", "spmm/none/csr/cusparse"),
    "spmv": ("spmv/none/csr/vector", "spmv/none/packed-csr/segmented_sum", "spmv/none/csr/cusparse"),
}
SWEEPS = (
    "h200-half",
    "h200-types",
    "h200-dense",
    "h200-double",
    "h200-column",
    "h200-column-half",
    "h200",
    "h200-large",
    "h200-orders",
    "h200-k",
    "h200-k-large",
    "h200-k-test",
    "h200-wide",
)
DATA = pathlib.Path(__file__).parents[2] / "python" / "warploom-data" / "warploom_data"
KEY = ["matrix", "setting", "cache"]
LARGEST = 1.1e9
"""Bytes of the largest dense matrix that is measured."""
SHORT = 50.0
"""Microseconds below which times tell how long launches take."""
LARGEST_PERMUTED = 40_000_000
"""Nonzeros of the largest matrix whose rows are permuted among large ones."""


def _itemsize(setting: str) -> int:
    return {"float64": 8, "float32": 4}.get(Setting.parse(setting).dtype, 2)


def _fits(size: pd.Series, setting: str) -> bool:
    itemsize = _itemsize(setting)
    at_once = 16 // itemsize
    places = int(size["rows"]) * (-(-int(size["cols"]) // at_once) * at_once)
    return bool(places <= 64 * int(size["nnz"]) + 4096 and places * itemsize <= LARGEST)


def _unaligned(size: pd.Series, setting: str) -> bool:
    found, itemsize = Setting.parse(setting), _itemsize(setting)
    rows, cols = int(size["rows"]), int(size["cols"])
    begins = [found.k] if found.layout == "row" else [rows, cols]
    lines = cols * itemsize >= 2048 and cols * itemsize % 128 != 0
    return _fits(size, setting) and (lines or any(n * itemsize % 16 != 0 for n in (*begins, cols)))


def _has_rows_beyond(nonzeros: int, most: float = 5e6) -> Callable[[pd.Series, str], bool]:
    return lambda size, setting: bool(size["spmm_nnz_per_row_max"] > nonzeros and size["nnz"] <= most)


def _has_cut_rows(size: pd.Series, setting: str) -> bool:
    found = Setting.parse(setting)
    fewest = 256 if size["nnz"] > 0.02 * size["rows"] * size["cols"] else 512
    return found.layout == "row" and found.k in (32, 128) and _has_rows_beyond(fewest, 25e6)(size, setting)


def _is_large(size: pd.Series, setting: str) -> bool:
    found = Setting.parse(setting)
    if found.op == "spmm" and (found.dtype, found.layout) != ("float32", "row"):
        return False
    return bool(3e5 <= size["nnz"] <= LARGEST_PERMUTED and found.k in (1, 32, 128))


@dataclasses.dataclass(frozen=True)
class What:
    """Candidates, and where they are measured."""

    candidates: tuple[str, ...]
    """Patterns of their names."""
    on: Callable[[pd.Series, str], bool]
    """Given a matrix and a setting."""
    new: bool = False
    """Whether a sweep need not have them."""
    op: str = "spmm"
    permuted_nnz: int = 5_000_000
    """Rows are permuted in matrices of at most so many nonzeros."""
    anchors: tuple[str, ...] | None = None
    """What is measured beside them; None: `ANCHORS`."""
    shifted: bool = False
    """Whether times are shifted by what the first anchor takes less or more now, as launches do."""

    @property
    def beside(self) -> tuple[str, ...]:
        """The candidates that say whether a GPU is as fast."""
        return ANCHORS[self.op] if self.anchors is None else self.anchors


def _by_columns(size: pd.Series, setting: str) -> bool:
    found = Setting.parse(setting)
    return found.layout == "column" and isinstance(found.k, int) and found.k <= 128


WHAT = {
    "dense": What(("spmm/none/dense/cublas",), _fits, new=True),
    "unaligned": What(("spmm/none/dense/cublas",), _unaligned, new=True),
    "windows": What(("spmm/*/column-vectors/*", "spmm/*/hybrid-vectors/*"), _has_rows_beyond(256)),
    "long-rows": What(
        ("spmm/*/segmented-csr/*", "spmm/*/csr/nonzero_split*", "spmm/*/hybrid-vectors/*"), _has_rows_beyond(2048)
    ),
    "by-column": What(
        (
            "spmm/none/csr/nonzero_split[by_column=1]",
            "spmm/none/segmented-csr/row_split[by_column=1]",
            "spmm/none/segmented-csr/row_split[threads_per_row=16,by_column=1]",
        ),
        _has_cut_rows,
        new=True,
    ),
    "packed-columns": What(
        (
            "spmm/none/packed-csr/segmented_sum",
            *(
                f"spmm/none/packed-csr/segmented_sum[{fields}]"
                for fields in ("steps=2", "tile_width=4", "tile_width=4,steps=2", "entries_per_lane=2", "tile_width=1")
            ),
        ),
        _by_columns,
        new=True,
        anchors=("spmm/none/segmented-csr/c_stationary[segment_length=32,longest_first=1]", "spmm/none/csr/cusparse"),
        shifted=True,
    ),
    "panels": What(("spmv/*/column-panels/*",), _has_rows_beyond(1000, np.inf), op="spmv"),
    "large-spmm": What(
        (
            *(f"spmm/{order}/csr/nonzero_split" for order in ("none", "rcm", "community", "degree", "minhash")),
            "spmm/none/csr/row_split[threads_per_row=4,columns_per_thread=8]",
            *(f"spmm/none/padded-csr/row_split[threads_per_row={t},columns_per_thread=8]" for t in (4, 8)),
            *(
                f"spmm/{order}/{kernel}"
                for order in ("rcm", "community")
                for kernel in (
                    "segmented-csr/row_split[threads_per_row=8]",
                    "padded-csr/row_split[threads_per_row=8]",
                    "padded-csr/row_split[threads_per_row=16,columns_per_thread=8]",
                )
            ),
        ),
        _is_large,
        new=True,
        permuted_nnz=LARGEST_PERMUTED,
    ),
    "large-spmv": What(
        (
            *(f"spmv/{order}/compressed-sell/vector" for order in ("rcm", "community", "degree")),
            "spmv/community/compressed-sell/vector[rows_per_lane=4]",
            "spmv/community/column-panels/shared_x",
            "spmv/none/column-panels/shared_x[panel_kb=96]",
            *(f"spmv/none/packed-csr/segmented_sum[{fields}]" for fields in ("entries_per_lane=2", "steps=2")),
        ),
        _is_large,
        new=True,
        op="spmv",
        permuted_nnz=LARGEST_PERMUTED,
    ),
}


def _shipped(name: str, op: str) -> tuple[Measurements, pd.DataFrame]:
    found = Measurements.load(DATA / name)
    rows = found.measurements
    return found, rows[(rows["op"] == op) & (rows["run"] == 0) & rows["median_us"].notna()]


def settings_of(name: str, what: What) -> dict[str, list[str]]:
    """Return the settings in which each matrix of a sweep is measured."""
    found, rows = _shipped(name, what.op)
    if not what.new:
        rows = rows[rows["candidate"].isin(candidates_of(name, what))]
    had = rows[["matrix", "setting"]].astype(str).drop_duplicates().groupby("matrix")["setting"].agg(sorted)
    sizes = found.matrices.set_index(found.matrices["matrix"].astype(str))
    chosen = {str(matrix): [s for s in settings if what.on(sizes.loc[matrix], s)] for matrix, settings in had.items()}
    return {matrix: settings for matrix, settings in chosen.items() if settings}


def candidates_of(name: str, what: What) -> list[str]:
    """Return the candidates of a sweep that are measured."""
    if what.new:
        return list(what.candidates)
    names = sorted(_shipped(name, what.op)[1]["candidate"].astype(str).unique())
    return [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in what.candidates)]


def show(given: argparse.Namespace) -> None:
    """Print how many matrices there are."""
    for name in given.sweep:
        chosen, candidates = settings_of(name, given.what), candidates_of(name, given.what)
        by_setting = pd.Series([s for settings in chosen.values() for s in settings]).value_counts().sort_index()
        print(f"{name}: {len(candidates)} candidates, {len(chosen)} matrices, {by_setting.sum()} pairs with a setting")
        for setting, count in by_setting.items():
            print(f"  {setting:26} {count}")


def run(given: argparse.Namespace) -> None:
    """Measure."""
    if reason := _device.load_cublas():
        sys.exit(f"no cuBLAS: {reason}")
    deadline = time.monotonic() + 60 * given.minutes
    for name in given.sweep:
        chosen = settings_of(name, given.what)
        entries = []
        for matrix in sorted(chosen):
            try:
                entries.append(corpus.find(matrix))
            except ValueError as error:
                print(f"{matrix}: {error}")

        def settings(entry: Entry, chosen: dict[str, list[str]] = chosen) -> list[str]:
            return chosen[entry.name]

        left = (deadline - time.monotonic()) / 60
        if not entries or left <= 0:
            continue
        report = sweep(
            drawn(entries, shard=given.part),
            settings,
            given.output / name,
            candidates=[*candidates_of(name, given.what), *given.what.beside],
            limits=dataclasses.replace(SweepLimits(), repeats=10, matrix_s=20.0, remeasured=0.0),
            ahead=given.ahead,
            minutes=left,
            permuted_nnz=given.what.permuted_nnz,
        )
        print(f"{name}: {report}", flush=True)


def _with_names(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows whose keys can be compared with those of other tables."""
    return rows.astype(dict.fromkeys([*KEY, "candidate"], "str"))


def _now_over_then(now: pd.DataFrame, then: pd.DataFrame) -> pd.Series:
    """Return ratios of the times of the same candidates in the same settings."""
    both = then.merge(now, on=[*KEY, "candidate"], suffixes=("", "_now"))
    return (both["median_us_now"] / both["median_us"]).dropna()


def _shifted(new: pd.DataFrame, now: pd.DataFrame, then: pd.DataFrame, anchor: str) -> pd.DataFrame:
    """Return rows with what an anchor took more then: its median for each machine and state of the cache."""
    both = then[then["candidate"] == anchor].merge(now, on=[*KEY, "candidate"], suffixes=("", "_now"))
    both = both[both["median_us"] < SHORT]
    shifts = (both["median_us"] - both["median_us_now"]).groupby([both["environment"], both["cache"]])
    print(shifts.describe().round(2).to_string())
    moved = new.merge(shifts.median().rename("shift").reset_index(), on=["environment", "cache"])
    for column in ("median_us", "p10_us", "p90_us"):
        moved[column] += moved["shift"]
    return moved.drop(columns="shift")


def _quantiles(ratios: pd.Series, *which: float) -> str:
    return ", ".join(f"{q:.3f}" for q in ratios.quantile(list(which)))


def join(given: argparse.Namespace) -> None:
    """Write the rows into the sweeps."""
    changed = []
    for name in given.sweep:
        outputs = [output / name for output in given.outputs if (output / name).is_dir()]
        if not outputs:
            continue
        measured = Measurements.load(*outputs).measurements
        measured = _with_names(measured[(measured["run"] == 0) & measured["median_us"].notna()])
        op = given.what.op
        shipped, timed = _shipped(name, op)
        rows = shipped.measurements
        compared = of_one_environment(rows[(rows["op"] == op) & (rows["run"] == 0)], ["matrix", "setting"])
        known = _with_names(compared[compared["candidate"].isin(given.what.beside) & compared["median_us"].notna()])
        ratios = _now_over_then(measured, known)
        if ratios.empty:
            print(f"{name}: nothing was measured")
            continue
        quartiles = _quantiles(ratios, 0.25, 0.5, 0.75)
        print(f"{name}: {len(ratios)} times of candidates that were there, now over then: quartiles {quartiles}")
        if not given.what.shifted and abs(np.log(ratios.median())) > 0.05 and not given.anyway:
            print(f"{name}: this GPU is not as fast, nothing is written")
            continue
        of_rows = known.drop_duplicates(KEY)[[*KEY, "environment"]]
        new = measured[~measured["candidate"].isin(given.what.beside)]
        new = new.drop(columns="environment").merge(of_rows, on=KEY)
        if given.what.shifted:
            new = _shifted(new, measured, known, given.what.beside[0])
        named = pd.MultiIndex.from_frame(rows[[*KEY, "candidate"]].astype(str))
        of_new = pd.MultiIndex.from_frame(new[[*KEY, "candidate"]])
        if not given.what.new:
            new, of_new = new[of_new.isin(named)], of_new[of_new.isin(named)]
        change = _quantiles(_now_over_then(new, _with_names(timed)), 0, 0.1, 0.5, 0.9, 1)
        print(f"{name}: {len(new)} rows on {new['matrix'].nunique()} matrices, now over then: {change}")
        rest = rows[~named.isin(of_new)]
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
        command.add_argument("--what", choices=WHAT, required=True)
    given = parser.parse_args()
    given.what = WHAT[given.what]
    {"list": show, "run": run, "join": join}[given.command](given)


if __name__ == "__main__":
    main()

"""What orders for locality gain on large matrices, in their natural order, in a random one, and half destroyed.

``python -m warploom.experiments.locality --output rows.csv`` writes each row when it has been measured, and goes on
where it stopped.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse

from warploom import _core, corpus, permutations
from warploom._device import Device
from warploom._lines import append_lines, cut_unfinished_line
from warploom._matrix import as_csr
from warploom.bench.settings import Setting
from warploom.candidates import Candidate, parse
from warploom.corpus.arrangements import ARRANGEMENTS, arranged, permuted_symmetrically
from warploom.errors import IndexOverflowError, OutOfMemoryError, ParameterError, WarploomError
from warploom.experiments.registry import Progress, register
from warploom.reordering import sectors_per_nonzero

__all__ = ["COLUMNS", "MATRICES", "ORDERS", "SETTINGS", "collect", "locality"]

MATRICES = (
    "nearest_points(n=1000000)",
    "nearest_points(n=1000000,dimensions=3)",
    "nearest_points(n=200000,dimensions=3)",
    "delaunay(n=1000000)",
    "random_geometric_3d(n=500000,degree=30)",
    "roads(width=1000,height=1000)",
    "grid2d(nx=1500,ny=1500)",
    "grid3d(nx=100,ny=100,nz=100,stencil=27)",
    "triangles(nx=400,ny=400,order=2,unknowns=2)",
    "tetrahedra(nx=40,ny=40,nz=40,unknowns=3)",
    "elasticity3d(nx=50,ny=50,nz=50)",
    "shell(around=300,along=300)",
    "random_banded(n=300000,half_width=100,percent=25)",
    "block_banded(blocks=100000,size=6,half_width=2)",
    "communities(n=500000,count=4000,degree=24)",
    "communities(n=500000,count=4000,degree=24,outside=60)",
    "communities(n=2000000,count=4000,degree=12)",
    "stochastic_block(blocks=4000,size=125,degree=24)",
    "hierarchical_graph(scale=19,degree=24)",
    "small_world(n=500000,degree=20)",
    "web_copies(n=1000000,degree=16)",
    "web_crawl(n=1000000,degree=16)",
    "citation(n=1000000,degree=12)",
    "rmat(scale=18,edge_factor=16)",
    "rmat(scale=20,edge_factor=16)",
    "kron_g500(scale=18)",
    "power_law(n=500000,degree=20)",
    "ratings(rows=500000,cols=50000,degree=30)",
    "ratings(rows=50000,cols=500000,degree=200)",
)
"""Names for `warploom.corpus.load`."""

ORDERS = ("none", *(name for name in permutations.names() if permutations.family(name) == "locality"))
SETTINGS = ("spmv/float64", "spmm/float32/row/k=32", "spmm/float32/row/k=128")

_CANDIDATES = {
    "spmv": (
        *(f"csr/vector[threads_per_row={threads}]" for threads in (2, 4, 8, 32)),
        *("csr/adaptive", "csr/merge", "csr/blockwise", "packed-csr/segmented_sum"),
        *("hub-csr/segmented_sum", "padded-csr/vector[threads_per_row=4]"),
        *("sell/vector", "sell/vector[sort_window=256]", "compressed-sell/vector", "column-panels/shared_x"),
        *(f"csr/cusparse[algorithm={number}]" for number in (0, 1, 2)),
        *("coo/cusparse[algorithm=1]", "coo/cusparse[algorithm=2]", "sell/cusparse"),
    ),
    "spmm": (
        *("csr/row_split", "csr/row_split[threads_per_row=8]"),
        *("segmented-csr/row_split", "segmented-csr/row_split[threads_per_row=8]"),
        *("segmented-csr/row_split[threads_per_row=8,column_threads=8]", "segmented-csr/row_split[longest_first=0]"),
        *("segmented-csr/row_split[columns_per_thread=8]", "padded-csr/row_split[threads_per_row=8]"),
        *(f"csr/cusparse[algorithm={number}]" for number in (0, 1, 2, 3)),
        *(f"coo/cusparse[algorithm={number}]" for number in (1, 2, 3, 4)),
    ),
}
"""What can win on large matrices, and all that the vendor has. Orders of rows only take those that permute."""

COLUMNS = {
    "matrix": "name in the corpus",
    "family": "family of the construction",
    "arrangement": "natural; shuffled: in a random order; half: a random half of the rows in a random order",
    "rows": "rows",
    "cols": "columns",
    "nnz": "nonzeros",
    "order": "row permutation that the product was ordered by",
    "permuted": "rows: x and y stay in their order; both: rows and columns, x and y too; empty for none",
    "order_ms": "computing the order on the CPU, wall-clock milliseconds",
    "threads": "threads of the CPU",
    "sectors_per_nonzero": "distinct sectors of 4 columns per nonzero within windows of 1,024 rows, in this order",
    "setting": "the product",
    "candidate": "name",
    "status": "ok, wrong, unsupported (refuses the matrix), out of memory, or error",
    "median_us": "median time with a warm L2 cache, microseconds",
    "p10_us": "10th percentile of the times, microseconds",
    "p90_us": "90th percentile of the times, microseconds",
    "repeats": "timed runs",
}
_KEY = ("matrix", "arrangement", "order", "permuted")
_REPEATS = 20
_MINUTES = 20.0

Row = dict[str, Any]
Key = tuple[str, ...]


@register(
    "locality",
    "Gain of orders for locality on large matrices, natural, shuffled and half destroyed",
    columns=COLUMNS,
    can_be_limited=True,
)
def locality(
    device: Device,
    progress: Progress,
    minutes: float = _MINUTES,
    matrices: Sequence[str] = MATRICES,
    arrangements: Sequence[str] = ARRANGEMENTS,
    orders: Sequence[str] = ORDERS,
    settings: Sequence[str] = SETTINGS,
) -> pd.DataFrame:
    """Measure products of matrices in several orders.

    Parameters
    ----------
    device : Device
        On the CPU, what runs there only is measured.
    progress : callable
        Told of every matrix.
    minutes : float
        Nothing is started after that; the table has what was measured until then.
    matrices, arrangements, orders, settings : sequence of str, optional
        What to measure.

    Returns
    -------
    pandas.DataFrame
        One row for each matrix, arrangement, order, way of permuting, setting and candidate.
    """
    deadline = time.monotonic() + 60 * minutes
    parts = _parts(device, progress, deadline, matrices, arrangements, orders, settings, done=frozenset())
    return pd.DataFrame([row for part in parts for row in part], columns=list(COLUMNS))


def collect(
    output: str | os.PathLike[str],
    device: Device,
    progress: Progress,
    minutes: float = np.inf,
    matrices: Sequence[str] = MATRICES,
    arrangements: Sequence[str] = ARRANGEMENTS,
    orders: Sequence[str] = ORDERS,
    settings: Sequence[str] = SETTINGS,
) -> int:
    """Measure as `locality` does, and write rows to a CSV file as soon as there are those of a whole order.

    Parameters
    ----------
    output : path-like
        What the file has already is not measured again.
    device, progress, minutes, matrices, arrangements, orders, settings
        As for `locality`.

    Returns
    -------
    int
        Rows that were added.
    """
    path = Path(output)
    known: frozenset[Key] = frozenset()
    if path.exists():
        cut_unfinished_line(path)
    if path.exists() and path.stat().st_size:
        table = pd.read_csv(path, usecols=list(_KEY), keep_default_na=False, dtype=str)
        known = frozenset(table.itertuples(index=False, name=None))
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(",".join(COLUMNS) + "\n")
    deadline = time.monotonic() + 60 * minutes
    added = 0
    for part in _parts(device, progress, deadline, matrices, arrangements, orders, settings, known):
        lines = io.StringIO()
        csv.DictWriter(lines, list(COLUMNS), lineterminator="\n").writerows(part)
        append_lines(path, lines.getvalue())
        added += len(part)
    return added


def _parts(
    device: Device,
    progress: Progress,
    deadline: float,
    matrices: Sequence[str],
    arrangements: Sequence[str],
    orders: Sequence[str],
    settings: Sequence[str],
    done: Collection[Key],
) -> Iterator[list[Row]]:
    """Measure all settings of one order at a time."""
    for number, name in enumerate(matrices):
        wanted = [(a, *o) for a in arrangements for o in _ways(orders) if (name, a, *o) not in done]
        if not wanted:
            continue
        progress(number, len(matrices), name)
        entry = corpus.find(name)
        natural = entry.load()
        arrangement, A = "", natural
        for chosen, order, permuted in wanted:
            if time.monotonic() >= deadline:
                return
            if permuted == "both" and natural.shape[0] != natural.shape[1]:
                continue
            if chosen != arrangement:
                arrangement, A = chosen, arranged(natural, chosen)
            facts: Row = {"matrix": name, "family": entry.family, "arrangement": chosen}
            facts |= {"rows": A.shape[0], "cols": A.shape[1], "nnz": A.nnz, "order": order, "permuted": permuted}
            yield [facts | row for row in _measured(A, order, permuted, device, settings)]


def _ways(orders: Iterable[str]) -> Iterator[tuple[str, str]]:
    for order in orders:
        if order == "none":
            yield order, ""
            continue
        yield order, "rows"
        if permutations.is_symmetric(order):
            yield order, "both"


def _measured(
    A: scipy.sparse.csr_array, order: str, permuted: str, device: Device, settings: Sequence[str]
) -> Iterator[Row]:
    view = as_csr(A, pattern_only=True)
    start = time.perf_counter()
    perm = permutations.compute(order, view)
    milliseconds = 1e3 * (time.perf_counter() - start)
    facts: Row = {
        "order_ms": milliseconds,
        "threads": _core.num_threads(),
        "sectors_per_nonzero": sectors_per_nonzero(view, perm, symmetric=permuted == "both"),
    }
    if permuted == "both":
        A = permuted_symmetrically(A, perm)
    for name in settings:
        setting = Setting.parse(name)
        for row in _products(A, setting, perm if permuted == "rows" else None, order, milliseconds, device):
            yield facts | {"setting": name} | row


def _products(
    A: scipy.sparse.csr_array,
    setting: Setting,
    perm: npt.NDArray[np.int32] | None,
    order: str,
    milliseconds: float,
    device: Device,
) -> Iterator[Row]:
    absent = {"median_us": np.nan, "p10_us": np.nan, "p90_us": np.nan, "repeats": 0}
    candidates = [parse(f"{setting.op}/none/{rest}") for rest in _CANDIDATES[setting.op]]
    candidates = [c for c in candidates if device.kind in c.kernel.devices]
    if perm is not None:
        candidates = [Candidate.make(c.kernel, order, dict(c.parameters)) for c in candidates if c.kernel.permutes]
    try:
        values = as_csr(A, dtype=setting.dtype)
        columns, layout = setting.columns(A.shape[0]), setting.layout
        problem = _core.Problem(values, setting.op, columns, layout, "warm", device.number)
        trial = _core.Trial(problem)
    except (WarploomError, MemoryError) as error:
        yield from (absent | {"candidate": c.name, "status": _status(error)} for c in candidates)
        return
    for candidate in candidates:
        try:
            known = None if perm is None else (perm, milliseconds)
            prepared = _core.prepare(problem, candidate, known)
            status = "wrong" if trial.check(prepared) else "ok"
            times = trial.time(prepared, cache="warm", repeats=_REPEATS, budget_ms=100.0)
        except (WarploomError, MemoryError) as error:
            yield absent | {"candidate": candidate.name, "status": _status(error)}
            continue
        yield {
            "candidate": candidate.name,
            "status": status,
            "median_us": times.median,
            "p10_us": times.p10,
            "p90_us": times.p90,
            "repeats": times.repeats,
        }


def _status(error: BaseException) -> str:
    if isinstance(error, (OutOfMemoryError, MemoryError)):
        return "out of memory"
    return "unsupported" if isinstance(error, (ParameterError, IndexOverflowError)) else "error"


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, help="CSV file; what it has is not measured again")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--minutes", type=float, default=np.inf, help="start nothing after that")
    parser.add_argument("--matrices", nargs="+", default=MATRICES, metavar="NAME")
    parser.add_argument("--arrangements", nargs="+", default=ARRANGEMENTS, choices=ARRANGEMENTS)
    parser.add_argument("--orders", nargs="+", default=ORDERS, choices=permutations.names(), metavar="ORDER")
    parser.add_argument("--settings", nargs="+", default=SETTINGS, metavar="SETTING")
    given = vars(parser.parse_args())
    device = Device.parse(given.pop("device"))

    def progress(done: int, total: int, what: str) -> None:
        print(f"{done}/{total} {what}", flush=True)

    print(collect(given.pop("output"), device, progress, **given), "rows added")


if __name__ == "__main__":
    _main()

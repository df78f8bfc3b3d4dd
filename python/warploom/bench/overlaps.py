"""The feature of locality that models take, for matrices of sweeps that did not record it.

``python -m warploom.bench.overlaps FOLDER ... --values overlaps.csv`` loads the matrices of 10^6 nonzeros and more by
their names, writes each value to the CSV file when it is known, goes on there if it is started again, and then adds all
values to ``matrices.parquet`` in the folders. Collected matrices are looked for in ``WARPLOOM_MATRICES``, those that
programs made in ``WARPLOOM_ORIGINS``. Those that cannot be loaded are left without a value.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from warploom import _core, corpus
from warploom._lines import append_lines, cut_unfinished_line
from warploom._matrix import as_csr
from warploom.bench.measurements import read_matrices, set_matrix_column
from warploom.bench.schema import OVERLAP
from warploom.corpus import names
from warploom.errors import WarploomError

__all__ = ["add", "collect"]

_HEADER = ("matrix", "hidden_overlap")


def collect(
    matrices: pd.DataFrame, output: str | os.PathLike[str], progress: Callable[[str], None] = lambda text: None
) -> pd.Series[float]:
    """Compute the feature of matrices that are loaded by their names.

    Parameters
    ----------
    matrices : DataFrame
        With the columns ``matrix``, ``rows``, ``cols`` and ``nnz``.
    output : path-like
        CSV file that values are written to. What it has already is not computed again.
    progress : callable
        Called with a line of text for each matrix that cannot be loaded, or is not the one that was measured.

    Returns
    -------
    Series of float
        What the file has, by matrix.
    """
    path = Path(output)
    if path.exists():
        cut_unfinished_line(path)
    if not path.exists() or not path.stat().st_size:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(",".join(_HEADER) + "\n")
    done = set(pd.read_csv(path)["matrix"])
    # Several orders of a matrix one after the other: it is loaded once. Small ones first.
    wanted = matrices[~matrices["matrix"].isin(done)].drop_duplicates("matrix")
    parsed = {name: names.parse(name) for name in wanted["matrix"].astype(str)}
    bases = pd.Series({name: str(of.base) for name, of in parsed.items()}, dtype=object)
    sizes = wanted.set_index("matrix")[["rows", "cols", "nnz"]]
    largest = sizes["nnz"].groupby(bases).transform("max") if len(sizes) else sizes["nnz"]
    order = sorted(parsed, key=lambda name: (largest[name], bases[name], name))
    for base, group in itertools.groupby(order, key=lambda name: bases[name]):
        whole = None
        for name in group:
            try:
                whole = corpus.load(base) if whole is None else whole
                A = whole
                for step in parsed[name].steps:
                    A = step.apply(A)
                view = as_csr(A, pattern_only=True)
            except (WarploomError, OSError, MemoryError) as error:
                progress(f"{name}: {error}")
                continue
            if (*view.shape, view.nnz) != tuple(sizes.loc[name]):
                progress(f"{name} is another matrix than the one that was measured")
                continue
            line = io.StringIO()
            csv.writer(line, lineterminator="\n").writerow((name, _core.compute_hidden_overlap(view)))
            append_lines(path, line.getvalue())
    return pd.read_csv(path).set_index("matrix")["hidden_overlap"]


def add(folder: str | os.PathLike[str], values: Mapping[str, float]) -> int:
    """Add the feature to the matrices of merged measurements.

    Parameters
    ----------
    folder : path-like
        One that ``warploom bench merge`` wrote. ``matrices.parquet`` in it is replaced.
    values : mapping from str to float
        Of matrices of 10^6 nonzeros and more. Values that the folder has for others are kept.

    Returns
    -------
    int
        Matrices that have no value.
    """
    matrices = read_matrices(folder)
    small = matrices["nnz"] < _core.FEWEST_NONZEROS_OF_OVERLAP
    found = matrices["matrix"].map(values).astype(np.float64)
    if OVERLAP in matrices:
        found = found.fillna(matrices[OVERLAP])
    found = found.mask(small, _core.NOT_MEASURED)
    set_matrix_column(folder, OVERLAP, found.to_numpy(np.float64))
    return int(found.isna().sum())


def _large(folders: Iterable[str]) -> pd.DataFrame:
    every = pd.concat([read_matrices(folder)[["matrix", "rows", "cols", "nnz"]] for folder in folders])
    return every[every["nnz"] >= _core.FEWEST_NONZEROS_OF_OVERLAP]


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="merged measurements")
    parser.add_argument("--values", required=True, help="CSV file; what it has is not computed again")
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):  # what is known is added
        collect(_large(given.folders), given.values, lambda text: print(text, flush=True))
    values = pd.read_csv(given.values).set_index("matrix")["hidden_overlap"]
    for folder in given.folders:
        print(f"{folder}: {add(folder, values)} matrices without a value")


if __name__ == "__main__":
    _main()

"""The corpus of large matrices: 10^5 to 10^7 rows and 10^6 to 10^8 nonzeros, with and without their locality."""

from __future__ import annotations

import csv
import dataclasses
import functools
import gzip
import importlib.resources
import io

from warploom.corpus.entry import Entry
from warploom.corpus.lookup import find_all
from warploom.errors import ParameterError

__all__ = ["LARGEST_NNZ", "OPERATIONS", "REORDERINGS", "large", "settings_of_large"]

LARGEST_NNZ = 100_000_000
OPERATIONS = ("spmv", "spmm")
REORDERINGS = ("rcm", "community")
"""Orders that rows and columns of shuffled matrices are put in again."""

_TABLE = "large.csv.gz"
_SPMV = ("spmv/float64", "spmv/float32", "spmv/float16")
_SPMM_COLUMNS = (8, 16, 32, 64, 100, 128, 256, 512, 1024)
_BRIEF = ("spmv/float64", "spmm/float32/row/k=32", "spmm/float32/row/k=128")
_MOST_OPERAND_BYTES = 40 * 2**30
"""B and C together, of the 141 GB of an H200: kernels of the vendor need room of their own."""
_MOST_WORK = 10**10
"""Nonzeros times columns of B: 10 to 20 ms for a product."""


def large(operation: str | None = None, *, reordered: bool = True) -> list[Entry]:
    """List the corpus of large matrices.

    Parameters
    ----------
    operation : {"spmv", "spmm"}, optional
        Only the matrices that are measured with it.
    reordered : bool
        Whether to list shuffled matrices whose rows and columns were put in an order for locality too
        (``.shuffled.reordered(rcm)``): not matrices of their own, but what `warploom.reorder` makes of them.

    Returns
    -------
    list of Entry
        With sizes, before anything is loaded. `Entry.origin` says whether a matrix is real (a collected one, read from
        the folders in ``WARPLOOM_MATRICES`` or downloaded), real by origin (made by a program that people use, read
        from the folders in ``WARPLOOM_ORIGINS``) or constructed, and `Entry.arrangement` in which order it is.

    Raises
    ------
    ParameterError
        There is no such operation.
    """
    if operation is not None and operation not in OPERATIONS:
        raise ParameterError(f"operation has to be spmv or spmm, not {operation!r}", argument="operation")
    names, sizes = [], []
    for row in _table():
        for arrangement in row["arrangements"].split():
            forms = [_SUFFIXES[arrangement]]
            if arrangement == "shuffled" and reordered and row["rows"] == row["cols"]:
                forms += [f".shuffled.reordered({order})" for order in REORDERINGS]
            for form in forms:
                names.append(row["matrix"] + form)
                sizes.append({key: int(row[key]) for key in ("rows", "cols", "nnz")})
    entries = [
        dataclasses.replace(entry, rows=size["rows"], cols=size["cols"], nnz=size["nnz"])
        for entry, size in zip(find_all(names), sizes, strict=True)
    ]
    if operation is None:
        return entries
    return [e for e in entries if any(name.startswith(f"{operation}/") for name in settings_of_large(e))]


_SUFFIXES = {"natural": "", "shuffled": ".shuffled", "half": ".half"}


def settings_of_large(entry: Entry) -> list[str]:
    """List the settings of `warploom.bench` that a matrix of the corpus is meant for.

    Parameters
    ----------
    entry : Entry
        With its sizes.

    Returns
    -------
    list of str
        SpMV in three value types; SpMM with 8 to 1,024 columns in row-major order and 128 in column-major order, as
        far as B and C take at most 40 GiB and nonzeros times columns are at most 10^10. Matrices that are half
        destroyed, or that were put in an order for locality, are meant for three of these settings.
    """
    if entry.rows is None or entry.cols is None or entry.nnz is None:
        raise ParameterError(f"the size of '{entry.name}' is not known", argument="entry")
    found = list(_SPMV)
    chosen = [("row", k) for k in _SPMM_COLUMNS] + [("column", 128)]
    for layout, k in chosen:
        operands = 4 * k * (entry.rows + entry.cols)
        if operands <= _MOST_OPERAND_BYTES and entry.nnz * k <= _MOST_WORK:
            found.append(f"spmm/float32/{layout}/k={k}")
    if entry.arrangement in ("natural", "shuffled"):
        return found
    return [name for name in found if name in _BRIEF]


@functools.cache
def _table() -> tuple[dict[str, str], ...]:
    """Rows of the table that `warploom.corpus.make_large` writes."""
    packed = (importlib.resources.files("warploom.corpus") / _TABLE).read_bytes()
    return tuple(csv.DictReader(io.StringIO(gzip.decompress(packed).decode())))

"""The standard corpus: the matrices that the shipped measurements were made on, in parts."""

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

__all__ = ["PARTS", "Part", "standard"]


_TABLE = "standard.csv.gz"


@dataclasses.dataclass(frozen=True)
class Part:
    """Matrices that are measured in the same way."""

    summary: str
    settings: tuple[str, ...]
    """Settings of `warploom.bench` that are meant for it."""
    candidates: tuple[str, ...] | None = None
    """Patterns of candidates, if not those of the portfolio."""


_SPMM = tuple(
    f"spmm/float32/{layout}/k={k}"
    for layout, k in (("column", "rows"), *(("column", k) for k in (8, 128)), *(("row", k) for k in (8, 32, 128, 512)))
)

PARTS: dict[str, Part] = {
    "spmm": Part("square matrices of at most 30,000 rows", _SPMM),
    "spmv": Part("those and others, up to 10^8 nonzeros", ("spmv/float64", "spmv/float32", "spmv/float16")),
    "transposes": Part(
        "transposes of the ones that are not symmetric (Gao et al. 2024)",
        ("spmv/float64", "spmv/float32"),
        ("spmv/none/csr/*", "spmv/none/coo/cusparse*"),
    ),
    "blocks": Part(
        "rows of the others: halves of the regular ones, short-row blocks of the irregular ones (Gao et al. 2024)",
        ("spmv/float64", "spmv/float32"),
        ("spmv/none/csr/scalar", "spmv/none/csr/vector*"),
    ),
}
"""The parts by name."""


def standard(part: str) -> list[Entry]:
    """List the matrices of a part of the standard corpus.

    Parameters
    ----------
    part : str
        One of `PARTS`.

    Returns
    -------
    list of Entry
        With their sizes, before anything is loaded. Those of the SuiteSparse collection are read from the folders in
        ``WARPLOOM_MATRICES`` or downloaded, the others are made.

    Raises
    ------
    ParameterError
        There is no such part.
    """
    if part not in PARTS:
        raise ParameterError(f"unknown part '{part}' of the corpus; known: {', '.join(PARTS)}", argument="part")
    listed = [row for row in _table() if part in row["parts"].split()]
    return [
        dataclasses.replace(entry, rows=int(row["rows"]), cols=int(row["cols"]), nnz=int(row["nnz"]))
        for row, entry in zip(listed, find_all(row["matrix"] for row in listed), strict=True)
    ]


@functools.cache
def _table() -> tuple[dict[str, str], ...]:
    """Rows of the table that `warploom.corpus.make_standard` writes."""
    packed = (importlib.resources.files("warploom.corpus") / _TABLE).read_bytes()
    return tuple(csv.DictReader(io.StringIO(gzip.decompress(packed).decode())))

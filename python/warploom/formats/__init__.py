"""Storage formats of a sparse matrix.

Every format is a class with the same face: `from_csr` builds it from any sparse matrix, `to_csr` gives a
SciPy matrix back, and both keep the value type, repeated entries and stored zeros (`BSR` adds repeated entries
up) and the order of the nonzeros within their row (`BSR`, `CompressedSELL` and `CMRS` with `sort_columns` sort
it by column, `ColumnPanels` by panel). Its arrays are read-only views of the memory that the kernels read.
"""

from __future__ import annotations

from warploom.formats.base import Format
from warploom.formats.bsr import BSR
from warploom.formats.cmrs import CMRS
from warploom.formats.column_panels import ColumnPanels
from warploom.formats.compressed_sell import CompressedSELL
from warploom.formats.coo import COO
from warploom.formats.csr import CSR
from warploom.formats.dasp import DASP
from warploom.formats.dcsr import DCSR
from warploom.formats.ell import ELL
from warploom.formats.hyb import HYB
from warploom.formats.sell import SELL

_FORMATS: tuple[type[Format], ...] = (
    CSR,
    DCSR,
    COO,
    ELL,
    HYB,
    BSR,
    SELL,
    CompressedSELL,
    CMRS,
    DASP,
    ColumnPanels,
)

__all__ = [
    "BSR",
    "CMRS",
    "COO",
    "CSR",
    "DASP",
    "DCSR",
    "ELL",
    "HYB",
    "SELL",
    "ColumnPanels",
    "CompressedSELL",
    "Format",
    "names",
]


def names() -> tuple[str, ...]:
    """Return the names of the formats, as they appear in the names of candidates."""
    return tuple(known.name for known in _FORMATS)

"""Measurements of candidates on many matrices: taking, storing, merging and summarising them.

Needs the packages of ``pip install 'warploom[bench]'``; ``import warploom`` alone does not import this one.
"""

from __future__ import annotations

try:
    import pandas as _pandas  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"warploom.bench needs {error.name}; install it and the other packages of benchmarks with "
        "pip install 'warploom[bench]'",
        name=error.name,
    ) from error

from warploom.bench.measurements import Measurements, merge, shipped
from warploom.bench.schema import describe
from warploom.bench.store import StorageError, Store

__all__ = ["Measurements", "StorageError", "Store", "describe", "merge", "shipped"]

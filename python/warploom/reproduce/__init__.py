"""Every table and figure of four papers, reproduced from measurements.

The papers, and the letter that their ids start with:

=====  ==============================================================================================================
M      Mehrabi et al. (2021), "Learning sparse matrix row permutations for efficient SpMM on GPU architectures"
G      Gao et al. (2024), "Revisiting thread configuration of SpMV kernels on GPU: A machine learning based approach"
D      Lu and Liu (2023), "DASP: Specific dense matrix multiply-accumulate units accelerated general SpMV"
C      Koza et al. (2014), "Compressed multi-row storage format for sparse matrices on graphics processing units"
=====  ==============================================================================================================

Needs the packages of ``pip install 'warploom[reproduce]'``; ``import warploom`` alone does not import this one.
"""

from __future__ import annotations

try:
    import jinja2 as _jinja2  # noqa: F401
    import matplotlib as _matplotlib  # noqa: F401
    import pandas as _pandas  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"warploom.reproduce needs {error.name}; install it and the other packages of reproduction with "
        "pip install 'warploom[reproduce]'",
        name=error.name,
    ) from error

from warploom.reproduce.context import Context, MissingMeasurementsError
from warploom.reproduce.registry import PAPERS, Item, find, items
from warploom.reproduce.report import Outcome
from warploom.reproduce.result import Result
from warploom.reproduce.run import make, reproduce

__all__ = [
    "PAPERS",
    "Context",
    "Item",
    "MissingMeasurementsError",
    "Outcome",
    "Result",
    "find",
    "items",
    "make",
    "reproduce",
]

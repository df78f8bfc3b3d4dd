"""Arrange a sparse matrix's rows onto GPU warps.

Hand a `scipy.sparse` CSR matrix to `plan` and get the fastest sparse x dense product the GPU can give.
"""

from __future__ import annotations

from warploom import bandwidth, errors, examples, features, formats, io, partition, permutations, predictor, profiles
from warploom._core import __version__, num_threads, set_num_threads
from warploom._csr import CSR
from warploom.candidates import candidates
from warploom.io import load
from warploom.plan import Plan, plan, predict, spmm, spmv
from warploom.reordering import Reordered, reorder

__all__ = [
    "CSR",
    "Plan",
    "Reordered",
    "__version__",
    "bandwidth",
    "candidates",
    "errors",
    "examples",
    "features",
    "formats",
    "io",
    "load",
    "num_threads",
    "partition",
    "permutations",
    "plan",
    "predict",
    "predictor",
    "profiles",
    "reorder",
    "set_num_threads",
    "spmm",
    "spmv",
]

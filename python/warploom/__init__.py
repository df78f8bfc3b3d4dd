"""Arrange a sparse matrix's rows onto GPU warps.

Hand a `scipy.sparse` CSR matrix to `plan` and get the fastest sparse x dense product the GPU can give.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from warploom import (
    bandwidth,
    errors,
    examples,
    features,
    formats,
    io,
    partition,
    permutations,
    pictures,
    predictor,
    profiles,
)
from warploom._core import __version__, num_threads, set_num_threads
from warploom._csr import CSR
from warploom.candidates import candidates
from warploom.io import load
from warploom.pictures import spy
from warploom.plan import load_plan, plan, predict, spmm, spmv
from warploom.reordering import Reordered, reorder
from warploom.sddmm import SddmmPlan, sddmm, sddmm_plan

if TYPE_CHECKING:
    from warploom import bench, corpus, experiments, reproduce, solvers, training  # noqa: F401 - see __getattr__
    from warploom.operators import Operator, Plan

__all__ = [
    "CSR",
    "Operator",
    "Plan",
    "Reordered",
    "SddmmPlan",
    "__version__",
    "bandwidth",
    "candidates",
    "errors",
    "examples",
    "features",
    "formats",
    "io",
    "load",
    "load_plan",
    "num_threads",
    "partition",
    "permutations",
    "pictures",
    "plan",
    "predict",
    "predictor",
    "profiles",
    "reorder",
    "sddmm",
    "sddmm_plan",
    "set_num_threads",
    "spmm",
    "spmv",
    "spy",
]

_ON_DEMAND = ("bench", "corpus", "experiments", "reproduce", "solvers", "torch", "training")
"""Packages that are imported when they are first asked for: some need more than warploom alone does."""


def __getattr__(name: str) -> Any:
    # Their base class is SciPy's, from a package that takes long to import: whoever makes no plan does without.
    if name in ("Operator", "Plan"):
        from warploom import operators

        globals()[name] = getattr(operators, name)
        return globals()[name]
    if name in _ON_DEMAND:
        return importlib.import_module(f"warploom.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ON_DEMAND])

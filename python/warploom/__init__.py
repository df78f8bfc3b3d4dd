"""Arrange a sparse matrix's rows onto GPU warps.

Hand a `scipy.sparse` CSR matrix to `plan` and get the fastest sparse x dense product the GPU can give.
"""

from __future__ import annotations

from warploom import errors, permutations
from warploom.candidates import candidates
from warploom.plan import Plan, plan, spmm

__all__ = ["Plan", "candidates", "errors", "permutations", "plan", "spmm"]

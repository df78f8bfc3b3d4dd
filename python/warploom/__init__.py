"""Arrange a sparse matrix's rows onto GPU warps.

Hand a `scipy.sparse` CSR matrix to `plan` and get the fastest sparse x dense product the GPU can give.
"""

from __future__ import annotations

from warploom import errors, examples, io
from warploom._core import __version__
from warploom.io import load

__all__ = ["__version__", "errors", "examples", "io", "load"]

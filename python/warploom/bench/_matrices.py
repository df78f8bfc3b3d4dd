"""Matrices of a sweep before their measurement: made or read, permuted, and their features computed."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import time
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from warploom import _core, features, permutations
from warploom._matrix import as_csr
from warploom.bench.schema import OVERLAP
from warploom.corpus import Entry

__all__ = ["Prepared", "describe", "load", "reopen", "write"]

Permutations = dict[str, "tuple[np.ndarray[Any, Any] | None, float]"]


@dataclasses.dataclass
class Prepared:
    """A matrix with all that its measurement needs from the CPU."""

    A: scipy.sparse.csr_array
    permutations: Permutations
    """Name -> (row permutation, milliseconds that it took)."""
    facts: dict[str, Any]
    """Its row in the table of matrices."""


def load(entry: Entry) -> Prepared:
    """Make or read a matrix."""
    start = time.perf_counter()
    view = as_csr(entry.load())  # before SciPy computes with arrays that a loader of the caller's made
    A = scipy.sparse.csr_array((view.data, view.indices, view.indptr), shape=view.shape)
    facts: dict[str, Any] = {
        "matrix": entry.name,
        "family": entry.family,
        "kind": entry.kind,
        "source": entry.source,
        "licence": entry.licence,
        "rows": A.shape[0],
        "cols": A.shape[1],
        "nnz": A.nnz,
        "load_s": time.perf_counter() - start,
    }
    return Prepared(A, {}, facts)


def describe(loaded: Prepared, wanted: Sequence[str]) -> Prepared:
    """Add row permutations and features to a matrix."""
    view = as_csr(loaded.A)
    perms = {name: permute(view, name) for name in wanted}
    facts = loaded.facts | {f"permutation_ms_{name}": milliseconds for name, (_, milliseconds) in perms.items()}
    referenced = np.zeros(view.shape[1], bool)
    referenced[view.indices[: view.nnz]] = True
    facts["referenced_cols"] = int(np.count_nonzero(referenced))
    start = time.perf_counter()
    for name in features.sets():
        vector = getattr(features, name)(view)
        facts |= {f"{name}_{feature}": value for feature, value in vector.as_dict().items()}
    facts["features_ms"] = 1e3 * (time.perf_counter() - start)
    vectors = features.column_vectors(view)
    facts |= {f"{vectors.set}_{feature}": value for feature, value in vectors.as_dict().items()}
    facts[OVERLAP] = _core.compute_hidden_overlap(view)
    return Prepared(loaded.A, perms, facts)


def permute(matrix: _core.CsrView, name: str) -> tuple[np.ndarray[Any, Any] | None, float]:
    """Return the row permutation (None for the original order) and the milliseconds it took."""
    if name == "none":
        return None, 0.0
    start = time.perf_counter()
    perm = permutations.compute(name, matrix)
    return perm, 1e3 * (time.perf_counter() - start)


def write(prepared: Prepared, scratch: pathlib.Path) -> pathlib.Path:
    """Write a prepared matrix to a file, for another process."""
    folder = scratch / uuid.uuid4().hex
    folder.mkdir()
    np.savez(folder / "A.npz", data=prepared.A.data, indices=prepared.A.indices, indptr=prepared.A.indptr)
    perms: dict[str, Any] = {name: perm for name, (perm, _) in prepared.permutations.items() if perm is not None}
    np.savez(folder / "permutations.npz", **perms)
    return folder


def reopen(folder: pathlib.Path, facts: dict[str, Any]) -> Prepared:
    """Read what `write` wrote, and remove it."""
    with np.load(folder / "A.npz") as arrays:
        A = scipy.sparse.csr_array(
            (arrays["data"], arrays["indices"], arrays["indptr"]), shape=(facts["rows"], facts["cols"])
        )
    with np.load(folder / "permutations.npz") as arrays:
        perms: Permutations = {name: (arrays[name], facts[f"permutation_ms_{name}"]) for name in arrays.files}
    shutil.rmtree(folder, ignore_errors=True)
    return Prepared(A, perms, facts)

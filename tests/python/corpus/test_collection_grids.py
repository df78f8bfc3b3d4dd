"""Constructions of the collection's matrices against the rows, columns and nonzeros that it publishes."""

from __future__ import annotations

import csv
import inspect
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from construction_calls import make, parse

from warploom.corpus.constructions import find
from warploom.corpus.constructions.collection_grids import COLLECTION

_TEXT = (Path(__file__).parent / "collection_grids.csv").read_text()
_PUBLISHED = {row["name"]: row for row in csv.DictReader(_TEXT.splitlines())}
_LARGEST = 200_000
_ALSO = {"Williams/mc2depi", "QCD/conf5_0-4x4-10"}
_SMALL = [name for name, row in _PUBLISHED.items() if int(row["nnz"]) < _LARGEST or name in _ALSO]


def _pattern_symmetry(matrix):
    """Return the part of the entries off the diagonal whose mirror image is an entry too, as the collection does."""
    off = scipy.sparse.csr_array(matrix - scipy.sparse.diags_array(matrix.diagonal()))
    off.eliminate_zeros()
    off.data[:] = 1
    return (off * off.T).nnz / off.nnz if off.nnz else 1.0


def test_every_call_has_published_numbers():
    assert set(COLLECTION) == set(_PUBLISHED)


@pytest.mark.parametrize("name", _SMALL)
def test_sizes(name):
    matrix = make(COLLECTION[name])
    published = _PUBLISHED[name]
    assert (*matrix.shape, matrix.nnz) == tuple(int(published[key]) for key in ("rows", "cols", "nnz"))
    if matrix.shape[0] == matrix.shape[1]:
        np.testing.assert_allclose(_pattern_symmetry(matrix), float(published["pattern_symmetry"]), atol=6e-4)


@pytest.mark.parametrize("name", sorted(set(_PUBLISHED) - set(_SMALL)))
def test_calls_of_large_matrices_name_a_construction_and_its_parameters(name):
    construction, parameters = parse(COLLECTION[name])
    defaults = find(construction).defaults
    assert set(parameters) <= set(defaults)
    assert {key for key, value in defaults.items() if value is inspect.Parameter.empty} <= set(parameters)

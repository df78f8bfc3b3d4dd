"""Features of column vectors against a count by sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.sparse import csr_array

import warploom as wl
from battery import battery
from strategies import csr_matrices


def reference(A, height):
    vectors = {}
    windows = {}
    for row in range(A.shape[0]):
        for column in A.indices[A.indptr[row] : A.indptr[row + 1]].tolist():
            vectors[row // height, column] = vectors.get((row // height, column), 0) + 1
            windows[row // height] = windows.get(row // height, 0) + 1
    if not vectors:
        return [0, 0, 0, 0]
    of_window = {w: sum(1 for window, _ in vectors if window == w) for w in windows}
    dense = sum(nonzeros for w, nonzeros in windows.items() if 3 * of_window[w] <= nonzeros)
    single = sum(1 for count in vectors.values() if count == 1)
    return [len(vectors) / A.nnz, A.nnz / (len(vectors) * height), single / len(vectors), dense / A.nnz]


@given(A=csr_matrices(max_rows=40))
def test_any_matrix(A):
    found = wl.features.column_vectors(A)
    np.testing.assert_allclose(found.values, reference(A, 8) + reference(A, 16), rtol=1e-15)
    assert found.names == wl.features.names("column_vectors")
    assert found.names[0] == "vectors_per_nonzero_8"


@pytest.mark.parametrize("name", battery(np.float32))
def test_battery(name):
    A = battery(np.float32)[name]
    np.testing.assert_allclose(wl.features.column_vectors(A).values, reference(A, 8) + reference(A, 16), rtol=1e-15)


def test_many_windows():
    """More than one task of the pool; rows in blocks of eight that are the same."""
    columns = np.repeat(np.arange(3 * 20_000).reshape(20_000, 3), 8, axis=0)
    A = csr_array((np.ones(columns.size), columns.ravel(), 3 * np.arange(160_001)), shape=(160_000, 60_000))
    found = wl.features.column_vectors(A).as_dict()
    assert (found["vectors_per_nonzero_8"], found["density_8"], found["dense_windows_8"]) == (1 / 8, 1, 1)
    assert (found["vectors_per_nonzero_16"], found["density_16"], found["single_vectors_16"]) == (1 / 8, 1 / 2, 0)

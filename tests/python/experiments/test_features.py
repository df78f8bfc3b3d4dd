"""The experiment on the cost of features: what it measures, and on what; on the CPU, since any device will do."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from warploom._device import Device
from warploom.corpus import standard
from warploom.experiments import features, find


@pytest.fixture(scope="module")
def chosen():
    return features.matrices()


def test_matrices_are_spread_over_sizes_and_families(chosen):
    nnz = [entry.nnz for entry in chosen]
    assert nnz == sorted(nnz)
    assert len(chosen) > 0.9 * features.COUNT
    assert len({entry.name for entry in chosen}) == len(chosen)
    decades = np.bincount(np.log10(nnz).astype(int), minlength=8)
    assert (decades[3:7] >= 8).all()
    assert len({entry.family for entry in chosen}) > len(chosen) / 2


def test_matrices_are_in_the_sweep_and_need_no_download(chosen):
    assert {entry.name for entry in chosen} <= {entry.name for entry in standard("spmv")}
    assert {entry.source for entry in chosen} == {"construction"}


def test_cost_of_one_matrix_has_the_columns_of_the_experiment():
    A = scipy.sparse.random_array((3000, 2000), density=0.01, format="csr", rng=np.random.default_rng(0))
    found = features.cost(A, Device("cpu"), repeats=3)
    assert {"matrix", *found} == set(find("features").columns)
    assert (found["rows"], found["nnz"]) == (3000, A.nnz)
    assert 0 < found["spmv_us"] < 1e6
    # The 24 features read the pattern, the eleven only the row lengths.
    assert 0 < found["eleven_us"] < found["twenty_four_us"] < 1e6


def test_all_matrices_are_measured_in_order(monkeypatch, chosen):
    loaded = []

    class Matrix:
        def __init__(self, name):
            self.name = name

        def load(self):
            loaded.append(self.name)
            return scipy.sparse.csr_array(np.eye(5))

    monkeypatch.setattr(features, "matrices", lambda: [Matrix("a"), Matrix("b")])
    seen = []
    table = features.measure(Device("cpu"), lambda *step: seen.append(step))
    assert table["matrix"].tolist() == loaded == ["a", "b"]
    assert seen == [(0, 2, "a"), (1, 2, "b")]
    assert list(find("features").columns) == list(table.columns)

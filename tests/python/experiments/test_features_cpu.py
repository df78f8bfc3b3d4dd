from __future__ import annotations

import numpy as np
import scipy.sparse

from warploom import _core
from warploom._device import Device
from warploom.corpus import find as matrix
from warploom.experiments import features_cpu, find


def test_matrices_need_no_download_and_grow():
    nnz = []
    for name in features_cpu.MATRICES:
        assert matrix(name).source == "construction"
    for name in features_cpu.MATRICES[:5]:
        nnz.append(matrix(name).load().nnz)
    assert all(9e4 < count < 1.2e5 for count in nnz)
    assert len(set(features_cpu.MATRICES)) == 15


def test_cost_of_one_matrix():
    A = scipy.sparse.random_array((3000, 2000), density=0.01, format="csr", rng=np.random.default_rng(0))
    before = _core.num_threads()
    found = features_cpu.cost(A, 1, repeats=3)
    assert _core.num_threads() == before
    assert (found["rows"], found["nnz"], found["threads"]) == (3000, A.nnz, 1)
    # The 24 features read the pattern, the eleven only the row lengths.
    assert 0 < found["eleven_us"] < found["twenty_four_us"] < 1e6
    assert 0 < found["product_us"] < 1e6
    assert 0 < found["view_us"] < 1e6


def test_every_matrix_is_measured_on_one_thread_and_on_all():
    seen = []
    names = ["grid2d(nx=9,ny=7)", "banded(n=50,lower=1,upper=1)"]
    table = features_cpu.features_cpu(Device("cpu"), lambda *step: seen.append(step[:2]), names)
    assert seen == [(0, 2), (1, 2)]
    assert table["matrix"].tolist() == [names[0]] * 2 + [names[1]] * 2
    assert table["threads"].tolist() == [1, _core.num_threads()] * 2
    assert table["rows"].tolist() == [63, 63, 50, 50]
    assert list(table.columns) == list(find("features-cpu").columns)

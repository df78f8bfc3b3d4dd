"""Counts, times, failures and speedups, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import random_array

from bench.tables import ENVIRONMENT, failed, matrix, measured, tables
from warploom import _core
from warploom._matrix import as_csr
from warploom.bench.summary import SIZE_CLASSES, counts, failures, floor_shares, gpu_time, size_class, speedups
from warploom.errors import ParameterError

CUSPARSE = "spmv/none/csr/cusparse"


def test_size_classes_include_their_lower_bound():
    sizes = [0, 9999, 10**4, 10**5 - 1, 10**5, 10**6, 10**7 - 1, 10**7, 10**9]
    expected = [0, 0, 1, 1, 2, 3, 3, 4, 4]
    assert list(size_class(sizes)) == [SIZE_CLASSES[i] for i in expected]


def test_counts_are_of_matrices_with_times():
    loaded = tables(
        [
            matrix("a", family="grid", nnz=20),
            matrix("b", family="grid", nnz=20_000),
            matrix("c", family="graph", nnz=30),
            matrix("d", family="graph", nnz=40),
        ],
        [
            measured("a"),
            measured("a", cache="cold"),
            measured("a", setting="spmv/float32"),
            measured("b"),
            measured("c", setting="spmv/float32"),
            failed("c"),
            failed("d"),
        ],
    )
    assert counts(loaded).frame.values.tolist() == [["graph", 1, 1, 0], ["grid", 2, 1, 2], ["all", 3, 2, 2]]
    assert counts(loaded).frame.columns.tolist() == ["family", "matrices", "spmv/float32", "spmv/float64"]
    assert counts(loaded, "size").frame.values.tolist() == [
        ["below 10^4", 2, 2, 1],
        ["10^4 to 10^5", 1, 0, 1],
        ["all", 3, 2, 2],
    ]
    assert counts(loaded, "source").frame["matrices"].tolist() == [3, 3]
    assert counts(loaded, "source").frame["source"].tolist() == ["real", "all"]
    assert "Test GPU, CUDA 13.0" in str(counts(loaded))
    assert "transposes" not in str(counts(loaded))
    with pytest.raises(ParameterError, match="by must be"):
        counts(loaded, "colour")


def test_counts_say_what_was_made_of_matrices():
    names = {"a": "construction", "b": "folder", "a.T": "construction", "a[0:5]": "construction"}
    loaded = tables([matrix(name, source=source) for name, source in names.items()], [measured(n) for n in names])
    found = counts(loaded, "source")
    assert found.frame[["source", "matrices"]].values.tolist() == [["constructed", 3], ["real", 1], ["all", 4]]
    assert "2 matrices, 1 transposes and 1 blocks of rows of these." in found.notes


def test_gpu_time_counts_preparation_once():
    loaded = tables(
        [matrix("a"), matrix("b")],
        [
            measured("a", median=1e6, repeats=2, preparation_ms=500),
            measured("a", median=2e6, repeats=3, preparation_ms=500, cache="cold"),
            measured("a", median=1e6, repeats=1, preparation_ms=250, run=1),
            measured("b", median=1e6, repeats=1, preparation_ms=None, setting="spmv/float32"),
            failed("b"),
        ],
    )
    assert gpu_time(loaded).frame.values.tolist() == [
        ["spmv/float32", 1, 1, 1.0, 0.0],
        ["spmv/float64", 1, 3, 9.0, 0.75],
        ["all", 2, 4, 10.0, 0.75],
    ]


def test_failures_by_status():
    loaded = tables(
        [matrix("a")],
        [
            measured("a", "x"),
            failed("a", "y", note="none left"),
            failed("a", "y", note="none left", run=1),
            failed("a", "z", "time limit", setting="spmv/float32"),
        ],
    )
    summary = failures(loaded)
    assert summary.frame.columns.tolist() == ["setting", "ok", "out of memory", "time limit"]
    assert summary.frame.values.tolist() == [["spmv/float32", 0, 0, 1], ["spmv/float64", 1, 2, 0]]
    assert "2 x y: none left" in summary.notes


def test_speedups_by_hand():
    loaded = tables(
        [matrix("a", source="file"), matrix("b", source="web"), matrix("c", nnz=10**6), matrix("d")],
        [
            measured("a", CUSPARSE, 8.0),
            measured("a", "spmv/none/coo/cusparse[algorithm=1]", 4.0),
            measured("a", "spmv/none/csr/scalar", 2.0),
            measured("a", "spmv/none/csr/merge", 3.0),
            measured("b", CUSPARSE, 1.0),
            measured("b", "spmv/none/csr/scalar", 2.0),
            measured("c", "spmv/none/coo/cusparse[algorithm=1]", 3.0),
            measured("c", "spmv/none/csr/scalar", 1.0),
            measured("d", "spmv/none/csr/scalar", 1.0),
        ],
    )
    frame = speedups(loaded).frame
    assert frame[["setting", "cache", "nonzeros", "matrices"]].values.tolist() == [
        ["spmv/float64", "warm", "below 10^4", 2],
        ["spmv/float64", "warm", "10^6 to 10^7", 1],
        ["spmv/float64", "warm", "all", 3],
    ]
    small, large, every = (row for _, row in frame.iterrows())
    assert small["over default"] == pytest.approx(math.sqrt(4 * 0.5))
    assert small["over best"] == pytest.approx(1.0)
    assert small["5th percentile"] == pytest.approx(0.5 + 0.05 * 1.5)
    assert (small["least"], small["below 0.98"]) == (0.5, 0.5)
    assert np.isnan(large["over default"])
    assert (large["over best"], large["below 0.98"]) == (pytest.approx(3), 0.0)
    assert every["over best"] == pytest.approx(3 ** (1 / 3))

    by_source = speedups(loaded, "source").frame
    assert by_source[by_source["nonzeros"] == "all"][["source", "matrices"]].values.tolist() == [
        ["file", 1],
        ["source", 1],
        ["web", 1],
    ]
    with pytest.raises(ParameterError, match="no column 'colour'"):
        speedups(loaded, "colour")
    assert speedups(loaded.select(matrix="d")).frame.empty


@pytest.mark.parametrize(
    ("setting", "dtype", "k"), [("spmv/float64", "float64", 1), ("spmm/float32/row/k=8", "float32", 8)]
)
def test_floor_is_that_of_explain(setting, dtype, k):
    A = random_array((60, 90), density=0.01, rng=np.random.default_rng(0), format="csr", dtype=dtype)
    referenced = np.unique(A.indices).size
    assert 0 < referenced < 90
    bandwidth = 1e9
    floor_us = 1e6 * _core.product_floor_bytes(as_csr(A), k) / bandwidth
    op = setting.split("/")[0]
    loaded = tables(
        [
            matrix("a", rows=60, cols=90, nnz=A.nnz, referenced_cols=referenced),
            matrix("b", rows=60, cols=90, nnz=A.nnz),  # its referenced columns were not counted
        ],
        [
            measured(name, candidate, time, setting=setting, k=k)
            for name in "ab"
            for candidate, time in ((f"{op}/none/csr/x", 4 * floor_us), (f"{op}/none/csr/cusparse", floor_us))
        ],
        {**ENVIRONMENT, "copy_bandwidth": bandwidth},
    )
    ((*_, matrices, median, share),) = floor_shares(loaded).frame.values.tolist()
    assert (matrices, median, share) == (1, pytest.approx(4 * floor_us), pytest.approx(0.25))
    without = tables([matrix("a", referenced_cols=5)], [measured("a")])
    assert floor_shares(without).frame.empty

"""Times of one setting as a table, and names of candidates."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bench.tables import ENVIRONMENT, failed, matrix, measured, tables
from warploom import candidates
from warploom.bench import Measurements, Store
from warploom.bench.medians import (
    Medians,
    default_of_vendor,
    describe_environments,
    geometric_mean,
    is_vendor,
    kernel_of,
    of_one_environment,
    settings,
)
from warploom.errors import ParameterError


def test_times_are_of_the_first_run_of_one_setting_and_cache():
    loaded = tables(
        [matrix("a"), matrix("b")],
        [
            measured("a", "x", 1.0),
            measured("a", "x", 9.0, run=1),
            measured("a", "x", 8.0, cache="cold"),
            measured("a", "x", 7.0, setting="spmv/float32"),
            measured("a", "y", 2.0),
            measured("a", "z", 0.1, status="wrong result"),
            measured("b", "y", 3.0),
            failed("b", "x"),
        ],
    )
    medians = Medians.of(loaded, "spmv/float64", "warm")
    assert medians.op == "spmv"
    assert medians.times.index.tolist() == ["a", "b"]
    assert medians.times.columns.tolist() == ["x", "y"]
    np.testing.assert_array_equal(medians.times, [[1.0, 2.0], [np.nan, 3.0]])
    assert medians.best(["x", "y"]).tolist() == [1.0, 3.0]
    assert medians.best([]).isna().all()
    assert medians.note(2) == "Test GPU, CUDA 13.0; spmv/float64, warm L2 cache, 2 matrices"
    assert settings(loaded) == [("spmv/float32", "warm"), ("spmv/float64", "warm"), ("spmv/float64", "cold")]
    with pytest.raises(ParameterError, match="no times of spmv/float16 with a warm cache"):
        Medians.of(loaded, "spmv/float16", "warm")


def test_sums_that_are_rounded_count_for_the_vendor():
    vendor, own = "spmm/none/csr/cusparse", "spmm/none/csr/row_split"
    setting = "spmm/float16/row/k=32"
    rows = [
        measured("a", own, 2.0, setting=setting),
        measured("a", vendor, 1.0, setting=setting, status="rounded sums"),
    ]
    medians = Medians.of(tables([matrix("a")], rows), setting, "warm")
    assert medians.best(medians.candidates(vendor=True)).tolist() == [1.0]
    assert medians.best(medians.candidates(vendor=False)).tolist() == [2.0]


def two_environments(folder, gpu):
    store = Store(folder)
    store.append(matrix("a"), [measured("a", "x", 1.0)], ENVIRONMENT)
    store.append(
        matrix("a"), [measured("a", "x", 2.0), measured("a", "y", 3.0)], {**ENVIRONMENT, "driver": "2", "gpu": gpu}
    )
    return Measurements.load(folder)


def test_times_that_are_compared_are_of_one_environment(tmp_path):
    medians = Medians.of(two_environments(tmp_path, ENVIRONMENT["gpu"]), "spmv/float64", "warm")
    assert medians.times.loc["a"].to_dict() == {"x": 2.0, "y": 3.0}


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        (None, {"x": 2.0, "y": 3.0, "z": 4.0}),
        (["w", "x"], {"x": 1.0, "w": 5.0}),
        (["[!yz]"], {"x": 2.0, "y": 3.0, "z": 4.0}),  # brackets are literal: no pattern matches, so nothing is needed
        (["w", "x", "y", "z"], {"x": 2.0, "y": 3.0, "z": 4.0}),
        (["*"], {"x": 2.0, "y": 3.0, "z": 4.0}),
        (["x"], {"x": 2.0, "y": 3.0, "z": 4.0}),  # a draw: that of more times
    ],
)
def test_the_environment_is_the_one_with_most_of_what_is_needed(tmp_path, needed, expected):
    store = Store(tmp_path)
    store.append(matrix("a"), [measured("a", "x", 1.0), measured("a", "w", 5.0)], ENVIRONMENT)
    others = [measured("a", name, time) for name, time in (("x", 2.0), ("y", 3.0), ("z", 4.0))]
    store.append(matrix("a"), [*others, failed("a", "w")], {**ENVIRONMENT, "driver": "2"})
    loaded = Measurements.load(tmp_path)
    medians = Medians.of(loaded, "spmv/float64", "warm", needed)
    assert medians.times.loc["a"].dropna().to_dict() == expected
    rows = of_one_environment(loaded.measurements, ["matrix", "setting"], needed)
    assert rows["environment"].nunique() == 1
    assert set(rows["candidate"]) >= set(expected)


def test_matrices_with_less_than_half_of_the_kernels_are_not_widely_measured():
    vector, others = [f"spmv/none/csr/vector[threads_per_row={n}]" for n in (2, 4)], ["csr/scalar", "csr/merge"]
    every = [*vector, *(f"spmv/none/{kernel}" for kernel in others), "spmv/none/csr/cusparse"]
    rows = [measured("all", name, 1.0) for name in every]
    rows += [measured("two", name, 1.0) for name in (vector[0], every[2])]
    rows += [measured("one", name, 1.0) for name in (*vector, every[-1])]  # the vendor's does not count
    medians = Medians.of(tables([matrix(name) for name in ("all", "two", "one")], rows), "spmv/float64", "warm")
    assert medians.widely_measured().times.index.tolist() == ["all", "two"]
    assert sorted(medians.times.index) == ["all", "one", "two"]
    only_vendor = dataclasses.replace(medians, times=medians.times[[every[-1]]])
    assert len(only_vendor.widely_measured().times) == 3


def test_different_gpus_are_not_mixed(tmp_path):
    loaded = two_environments(tmp_path, "Another GPU")
    with pytest.raises(ParameterError, match=r"different GPUs \(Another GPU, Test GPU\)"):
        Medians.of(loaded, "spmv/float64", "warm")
    key = next(key for key, environment in loaded.environments.items() if environment == ENVIRONMENT)
    assert Medians.of(loaded.select(environment=key), "spmv/float64", "warm").times.shape == (1, 1)


def test_names_of_candidates():
    every = [*candidates("spmv"), *candidates("spmm")]
    vendor = [name for name in every if "cusparse" in name]
    assert [name for name in every if is_vendor(name)] == vendor != []
    assert kernel_of("spmv/lpt/csr/vector[threads_per_row=2]") == "csr/vector"
    assert default_of_vendor("spmv") in every
    assert default_of_vendor("spmm") in every


def test_environments_in_words():
    assert describe_environments({}) == "unknown, CUDA unknown"
    assert describe_environments({"a": {"gpu": "G", "cuda": 12}, "b": {"gpu": "G", "cuda": 13}}) == "G, CUDA 12 and 13"


def test_geometric_mean():
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert np.isnan(geometric_mean([]))

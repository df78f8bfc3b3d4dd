import dataclasses

import numpy as np
import pytest

from training.training_tables import CANDIDATES, build, facts, measurement, sweep, times
from warploom.bench.repeatability import Tolerances
from warploom.errors import ParameterError
from warploom.training.data import (
    NOT_MEASURED,
    OVERLAP,
    UNKNOWN_TOLERANCE,
    Dataset,
    base_name,
    complete,
    family_of,
    family_splits,
    fastest,
    random_folds,
    random_splits,
    united,
)

CUSPARSE, SCALAR, TWO, EIGHT = CANDIDATES


def test_times_are_those_of_the_first_run_with_this_cache():
    measurements = sweep(8, noise=0.05)
    dataset = Dataset.of(measurements, "spmv/float32", "cold")
    assert dataset.candidates == CANDIDATES
    assert len(dataset) == 8
    rows = measurements.measurements
    for i, name in enumerate(dataset.names):
        for j, candidate in enumerate(dataset.candidates):
            chosen = (rows["matrix"] == name) & (rows["candidate"] == candidate)
            chosen &= (rows["cache"] == "cold") & (rows["run"] == 0)
            assert dataset.times[i, j] == rows["median_us"][chosen].item()


def test_features_are_those_of_the_matrix():
    measurements = sweep(5)
    dataset = Dataset.of(measurements, "spmv/float32", "warm")
    for i, name in enumerate(dataset.names):
        row = measurements.matrices.set_index("matrix").loc[name]
        assert all(values[i] == row[feature] for feature, values in dataset.features.items() if feature != OVERLAP)
        assert dataset.features[OVERLAP][i] == NOT_MEASURED
        expected = times(row)
        np.testing.assert_allclose(dataset.times[i], expected, rtol=1e-6)
    assert len(dataset.features) == 36


def test_what_failed_or_was_left_out_is_not_the_same_as_unknown():
    rows = [
        measurement("a", CUSPARSE, 1.0),
        measurement("a", SCALAR, 2.0),
        measurement("a", TWO, None, cache="", status="unsupported"),
        measurement("a", EIGHT, None, cache="", status="time limit"),
        measurement("b", CUSPARSE, 1.0),
        measurement("b", SCALAR, 1.0),
        measurement("b", TWO, 1.0),
        measurement("b", EIGHT, 1.0),
        measurement("c", CUSPARSE, 1.0),
        measurement("c", TWO, 1.0),
        measurement("c", EIGHT, 1.0),
    ]
    dataset = Dataset.of(build([facts("a"), facts("b"), facts("c")], rows), "spmv/float32", "warm")
    assert np.isnan(dataset.times[0]).tolist() == [False, False, True, True]
    assert dataset.supported.tolist() == [[True, True, False, True], [True] * 4, [True, False, True, True]]


def test_what_rounds_its_sums_is_never_chosen():
    rows = [
        measurement("a", CUSPARSE, 0.5, status="rounded sums"),
        measurement("a", SCALAR, 2.0),
        measurement("a", TWO, 1.0),
        measurement("b", CUSPARSE, 0.5),
        measurement("b", SCALAR, 2.0),
    ]
    dataset = Dataset.of(build([facts("a"), facts("b")], rows), "spmv/float32", "warm")
    column = dataset.candidates.index(CUSPARSE)
    assert dataset.supported[:, column].tolist() == [False, True]
    assert np.isnan(dataset.times[0, column])


def test_the_environment_with_most_times_counts():
    rows = [
        measurement("a", CUSPARSE, 1.0, environment="e"),
        measurement("a", SCALAR, 2.0, environment="e"),
        measurement("a", CUSPARSE, 10.0, environment="f"),
        measurement("a", SCALAR, 20.0, environment="f"),
        measurement("a", TWO, 30.0, environment="f"),
    ]
    dataset = Dataset.of(build([facts("a")], rows), "spmv/float32", "warm")
    assert dataset.times.tolist() == [[10.0, 20.0, 30.0]]


def test_vendor_and_best():
    rows = [
        measurement("a", CUSPARSE, 3.0),
        measurement("a", "spmv/none/coo/cusparse", 2.0),
        measurement("a", SCALAR, 1.0),
        measurement("b", SCALAR, 5.0),
        measurement("b", TWO, 4.0),
    ]
    dataset = Dataset.of(build([facts("a"), facts("b")], rows), "spmv/float32", "warm")
    assert dataset.best.tolist() == [1.0, 4.0]
    assert [dataset.candidates[i] for i in np.flatnonzero(dataset.vendor)] == ["spmv/none/coo/cusparse", CUSPARSE]
    np.testing.assert_array_equal(dataset.vendor_best, [2.0, np.nan])
    np.testing.assert_array_equal(dataset.vendor_default, [3.0, np.nan])
    np.testing.assert_array_equal(dataset.times_of("spmv/none/csr/none_such"), [np.nan, np.nan])


def test_tolerance_is_measured_where_it_can_be():
    once = Dataset.of(sweep(8, repeated=False), "spmv/float32", "warm")
    assert (once.tolerance == UNKNOWN_TOLERANCE).all()
    exact = Dataset.of(sweep(8), "spmv/float32", "warm")
    assert (exact.tolerance == 0).all()
    given = Dataset.of(sweep(8), "spmv/float32", "warm", within=Tolerances({}, {"warm": 0.2}, 0.1))
    assert (given.tolerance == 0.2).all()


def test_settings_may_differ_in_k_only():
    settings = ("spmm/float32/row/k=8", "spmm/float32/row/k=32")
    rows = [
        measurement("a", f"spmm/none/csr/{kernel}", time, setting=setting)
        for setting, time in zip(settings, (1.0, 4.0), strict=True)
        for kernel in ("row_split", "cusparse")
    ]
    measurements = build([facts("a")], rows)
    dataset = Dataset.of(measurements, settings, "warm")
    assert sorted(zip(dataset.k.tolist(), dataset.best.tolist(), strict=True)) == [(8, 1.0), (32, 4.0)]
    assert (dataset.op, dataset.layout, dataset.dtype, dataset.cache) == ("spmm", "row", "float32", "warm")
    for wrong in ([], ["spmm/float32/row/k=8", "spmm/float32/column/k=8"]):
        with pytest.raises(ParameterError) as raised:
            Dataset.of(measurements, wrong, "warm")
        assert raised.value.argument == "settings"
    with pytest.raises(ParameterError, match="no times"):
        Dataset.of(measurements, settings[0], "cold")


def test_a_matrix_without_features_is_refused():
    row = facts("a") | {"spmm_density": None}
    with pytest.raises(ParameterError, match="no features of 'a'"):
        Dataset.of(build([row], [measurement("a", c, 1.0) for c in CANDIDATES]), "spmv/float32", "warm")


def test_rows_and_columns():
    dataset = Dataset.of(sweep(6), "spmv/float32", "warm")
    part = dataset.rows(np.array([4, 1])).columns([EIGHT, CUSPARSE])
    assert part.names.tolist() == [dataset.names[4], dataset.names[1]]
    np.testing.assert_array_equal(part.times, dataset.times[[4, 1]][:, [3, 0]])
    np.testing.assert_array_equal(part.features["spmv_nnz"], dataset.features["spmv_nnz"][[4, 1]])
    with pytest.raises(ParameterError, match="no column 'x'"):
        dataset.columns(["x"])


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("HB/west0479", "HB/west0479"),
        ("HB/west0479.T", "HB/west0479"),
        ("HB/west0479.T[0:100]", "HB/west0479"),
        ("rmat(scale=15,seed=3)[:10].T", "rmat(scale=15,seed=3)"),
        ("a.Tb", "a.Tb"),
        ("rmat(scale=15,seed=3).shuffled", "rmat(scale=15,seed=3)"),
        ("HB/west0479.half", "HB/west0479"),
        ("HB/west0479.shuffled.reordered(rcm)", "HB/west0479"),
    ],
)
def test_base_name(name, base):
    assert base_name(name) == base


@pytest.mark.parametrize(
    ("matrix", "family"),
    [
        ({"matrix": "rmat(scale=3)", "family": "r-mat", "kind": "graph", "source": "construction"}, "r-mat"),
        ({"matrix": "g/a", "family": "g", "kind": "Structural Problem", "source": "construction"}, "structural"),
        ({"matrix": "g/a", "family": "g", "kind": "duplicate structural problem", "source": "folder"}, "structural"),
        ({"matrix": "g/a", "family": "g", "kind": "undirected multigraph sequence", "source": "folder"}, "graph"),
        ({"matrix": "g/a", "family": "g", "kind": "", "source": "folder"}, "g"),
    ],
)
def test_family_of(matrix, family):
    assert family_of(matrix) == family


def test_random_splits_keep_a_matrix_together_and_repeat():
    rows, matrices = [], []
    for i in range(20):
        for suffix in ("", ".T", "[0:5]"):
            matrices.append(facts(f"m{i}{suffix}"))
            rows += [measurement(f"m{i}{suffix}", c, 1.0) for c in CANDIDATES]
    dataset = Dataset.of(build(matrices, rows), "spmv/float32", "warm")
    splits = list(random_splits(dataset, 0.25, seeds=(0, 1)))
    assert len(splits) == 2
    for train, test in splits:
        assert sorted([*train, *test]) == list(range(60))
        assert not set(dataset.groups[train]) & set(dataset.groups[test])
        assert len(test) == 15
    again = list(random_splits(dataset, 0.25, seeds=(0, 1)))
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(splits, again, strict=True))
    assert not np.array_equal(splits[0][1], splits[1][1])
    held_out = []
    for train, test in random_folds(dataset, 4, seed=1):
        assert sorted([*train, *test]) == list(range(60))
        assert not set(dataset.groups[train]) & set(dataset.groups[test])
        held_out += test.tolist()
    assert sorted(held_out) == list(range(60))


def test_family_splits_keep_families_together():
    dataset = Dataset.of(sweep(30), "spmv/float32", "warm")
    held_out = []
    for train, test in family_splits(dataset, folds=4):
        assert not set(dataset.families[train]) & set(dataset.families[test])
        held_out += [*test]
    assert sorted(held_out) == list(range(30))
    with pytest.raises(ParameterError, match="one family"):
        next(iter(family_splits(dataset.rows(dataset.families == dataset.families[0]))))


def test_parts_are_joined():
    dataset = Dataset.of(sweep(6), "spmv/float32", "warm")
    joined = dataset.rows(np.array([4, 5])).joined(dataset.rows(np.array([0])))
    assert joined.names.tolist() == dataset.names[[4, 5, 0]].tolist()
    np.testing.assert_array_equal(joined.times, dataset.times[[4, 5, 0]])
    np.testing.assert_array_equal(joined.features["spmv_nnz"], dataset.features["spmv_nnz"][[4, 5, 0]])
    with pytest.raises(ParameterError, match="different candidates"):
        dataset.joined(dataset.columns(CANDIDATES[:2]))


def of_times(*times, failed=()):
    rows = [
        measurement(f"m{i}", CANDIDATES[j], time)
        for i, row in enumerate(times)
        for j, time in enumerate(row)
        if time is not None
    ]
    rows += [measurement(f"m{i}", CANDIDATES[j], None, cache="", status="time limit") for i, j in failed]
    matrices = [facts(f"m{i}") for i in range(len(times))]
    return Dataset.of(build(matrices, rows), "spmv/float32", "warm")


def test_rows_that_lack_a_time_are_left_out():
    dataset = of_times([1, 2, 3, None], [1, 2, None, 4], [1, 2, 3, 4], failed=[(0, 3)])
    kept, left_out = complete(dataset, CANDIDATES)
    assert kept.names.tolist() == ["m1", "m2"]
    assert left_out == 1
    assert complete(dataset, CANDIDATES[:2])[1] == 0
    with pytest.raises(ParameterError, match="all the times"):
        complete(dataset.rows(np.array([0])), CANDIDATES)


def test_fastest_skips_what_is_unknown():
    assert fastest(of_times([None, 2, 1, 3], [2, None, 4, 5], [3, 3, 3, 1])).tolist() == [2, 0, 3]


def two_sweeps():
    """Two sweeps: small matrices with three candidates, larger ones with two of them and an order for locality."""
    ordered = "spmv/rcm/csr/vector[threads_per_row=2]"
    parts = []
    for names, sizes, candidates in (
        ([f"small{i}" for i in range(20)], range(10, 210, 10), CANDIDATES[:3]),
        ([f"large{i}" for i in range(10)], range(10**6, 11 * 10**6, 10**6), (*CANDIDATES[:2], ordered)),
    ):
        described = [facts(name, spmv_nnz=float(size)) for name, size in zip(names, sizes, strict=True)]
        rows = [measurement(name, c, 1.0 + i) for name in names for i, c in enumerate(candidates)]
        parts.append(Dataset.of(build(described, rows), "spmv/float32", "warm"))
    return parts, ordered


def test_sweeps_are_united():
    (small, large), ordered = two_sweeps()
    both = united([small, large])
    assert both.candidates == tuple(sorted({*CANDIDATES[:3], ordered}))
    assert len(both) == 30
    assert both.sweeps.tolist() == [0] * 20 + [1] * 10
    of_small, of_large = both.rows(both.sweeps == 0), both.rows(both.sweeps == 1)
    np.testing.assert_array_equal(of_small.columns(small.candidates).times, small.times)
    np.testing.assert_array_equal(of_large.columns(large.candidates).times, large.times)
    for part, absent in ((of_small, ordered), (of_large, CANDIDATES[2])):
        column = part.candidates.index(absent)
        assert np.isnan(part.times[:, column]).all()
        assert not part.supported[:, column].any()
        assert part.untried[:, column].all()
        assert not part.columns([c for c in part.candidates if c != absent]).untried.any()
    assert united([small]) is small


def test_what_another_sweep_tried_at_that_size_is_not_untried_in_the_fullest_one():
    (small, large), ordered = two_sweeps()
    near = dataclasses.replace(small, features=small.features | {"spmv_nnz": np.linspace(10, 2e6, len(small))})
    both = united([near, large])
    column = both.candidates.index(ordered)
    reach = np.quantile(large.nnz, 0.02)
    np.testing.assert_array_equal(both.untried[:20, column], near.nnz < reach)
    assert 0 < both.untried[:20, column].sum() < 20


def test_what_a_shorter_list_has_left_out_is_untried():
    (small, large), ordered = two_sweeps()
    as_large = dataclasses.replace(small, features=small.features | {"spmv_nnz": np.linspace(1e6, 1e7, len(small))})
    both = united([as_large, large])
    assert both.untried[20:, both.candidates.index(CANDIDATES[2])].all()
    assert not both.untried[:, both.candidates.index(CANDIDATES[0])].any()
    assert not both.untried[20:, both.candidates.index(ordered)].any()

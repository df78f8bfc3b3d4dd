"""The experiment on preparation: its matrices, candidates and rows; on the CPU, or with preparations made up."""

from __future__ import annotations

import types

import numpy as np
import pytest
import scipy.sparse

from warploom import corpus, profiles
from warploom._device import Device
from warploom.bench.end_to_end.sample import sample
from warploom.candidates import parse
from warploom.errors import DeviceError, IndexOverflowError, OutOfMemoryError, ParameterError
from warploom.experiments import find, preparation, registry, run

CPU = Device("cpu")
CSR = "spmv/none/csr/vector"
SEARCHED = "spmm/hybrid-2.1/segmented-csr/row_split"
COLUMNS = list(find("preparation").columns)


def silent(done, total, what):
    pass


def kinds(*names, dtype="float64"):
    """Return candidates by kind of product; column-major for SpMM."""
    found = {}
    for candidate in map(parse, names):
        op = candidate.name.partition("/")[0]
        found.setdefault((op, dtype, "column" if op == "spmm" else ""), []).append(candidate)
    return found


def rows_of(A, *names, **options):
    return list(preparation.preparations(scipy.sparse.csr_array(A), kinds(*names), CPU, **options))


class Prepared:
    def __init__(self, permutation, upload, conversion):
        self.preparation_ms = {"permutation": permutation, "upload": upload, "conversion": conversion}


@pytest.fixture
def takes(monkeypatch):
    """Let preparations take given milliseconds, one after the other, or fail; returns those that were asked for."""

    def script(*steps):
        asked, left = [], list(steps)

        def prepare(problem, candidate):
            asked.append(candidate.name)
            step = left.pop(0)
            if isinstance(step, Exception):
                raise step
            return Prepared(*step)

        monkeypatch.setattr(preparation._core, "prepare", prepare)
        return asked

    return script


def test_matrices_are_constructed_and_have_all_sizes():
    entries = sample()
    nnz = np.array([entry.nnz for entry in entries])
    assert len({entry.name for entry in entries}) == len(entries) >= 95
    assert nnz.min() < 3000
    assert nnz.max() > 5e7
    decades = np.bincount(np.log10(nnz).astype(int), minlength=8)
    assert (decades[3:7] >= 8).all()
    assert decades[7] >= 2
    assert len({entry.family for entry in entries}) >= 30
    assert {entry.source for entry in entries} == {"construction"}
    # What is measured before a limit is reached is a sample as well.
    assert (np.bincount(np.searchsorted([1e5, 1e6, 1e7], nnz[:25], side="right"), minlength=4) >= 2).all()


def test_candidates_are_those_of_the_models_of_preparation():
    profile = preparation.profile_for(CPU)
    found = preparation.candidates_of(profile)
    assert ("spmv", "float64", "") in found
    assert ("spmm", "float32", "row") in found
    for (op, dtype, layout), candidates in found.items():
        name = "-".join(filter(None, ("preparation", op, dtype, layout)))
        assert [candidate.name for candidate in candidates] == list(profile.models[name].outputs)
    assert len(found) == sum(name.startswith("preparation-") for name in profile.models)
    assert profile.gpu in profiles.names()


def test_rows_say_what_was_prepared_and_what_was_refused():
    A = scipy.sparse.random_array((300, 200), density=0.02, format="csr", rng=np.random.default_rng(0))
    rows = rows_of(A, CSR, "spmv/none/sell/vector", "spmv/none/csr/cusparse", "spmm/flipped/csr/row_split")
    assert [row["status"] for row in rows] == ["ok", "ok", "unsupported", "ok"]
    assert [row["op"] for row in rows] == ["spmv"] * 3 + ["spmm"]
    longest = np.diff(scipy.sparse.csr_array(A).indptr).max()
    for row in rows:
        assert {"matrix", "family", *row} == set(COLUMNS)
        assert (row["rows"], row["cols"], row["nnz"], row["longest_row"]) == (300, 200, A.nnz, longest)
        assert row["features_us"] > 0
        assert np.isnan(row["preparation_ms"]) == (row["status"] != "ok")
    assert all(0 < row["preparation_ms"] < 1e4 for row in rows if row["status"] == "ok")


def test_the_median_is_taken_after_a_warm_up_and_without_the_upload(takes):
    asked = takes((50, 0, 50), (1, 100, 2), (1, 100, 6), (0, 100, 4))
    (row,) = rows_of(np.eye(4), CSR)
    assert row["preparation_ms"] == 4
    assert asked == [CSR] * 4


def test_slow_preparations_are_repeated_less(takes):
    asked = takes((900, 0, 0), (300, 0, 0))
    assert rows_of(np.eye(4), CSR)[0]["preparation_ms"] == 300
    assert len(asked) == 2
    asked = takes((0, 0, 2500))
    assert rows_of(np.eye(4), CSR)[0]["preparation_ms"] == 2500
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ParameterError("no"), "unsupported"),
        (IndexOverflowError("too large"), "unsupported"),
        (OutOfMemoryError("full"), "out of memory"),
        (MemoryError(), "out of memory"),
        (DeviceError("launch failed"), "error"),
    ],
)
def test_failures_leave_the_other_candidates_alone(takes, error, status):
    takes(error, *[(0, 0, 1)] * 4)
    failed, done = rows_of(np.eye(4), CSR, "spmv/none/csr/scalar")
    assert failed["status"] == status
    assert np.isnan(failed["preparation_ms"])
    assert (done["status"], done["preparation_ms"]) == ("ok", 1)


def test_a_matrix_that_does_not_fit_is_noted_for_each_candidate(monkeypatch):
    def full(*_):
        raise OutOfMemoryError("no memory for the matrix")

    monkeypatch.setattr(preparation, "_problems", full)
    rows = rows_of(np.eye(4), CSR, "spmv/none/csr/scalar")
    assert [row["status"] for row in rows] == ["out of memory"] * 2
    assert all({"matrix", "family", *row} == set(COLUMNS) for row in rows)


def test_searches_are_left_out_on_many_rows(monkeypatch):
    monkeypatch.setattr(preparation, "SEARCH_ROWS", 10)
    rows = rows_of(np.eye(11), SEARCHED, "spmm/flipped/csr/row_split")
    assert [row["status"] for row in rows] == ["left out", "ok"]
    assert [row["status"] for row in rows_of(np.eye(10), SEARCHED)] == ["ok"]


def small():
    return [corpus.find(name) for name in ("grid2d(nx=9,ny=7)", "banded(n=40,lower=1,upper=2)")]


def test_all_matrices_are_measured():
    profile = preparation.profile_for(CPU)
    seen = []
    table = preparation.measure(CPU, lambda *step: seen.append(step), entries=small(), profile=profile)
    assert set(table.columns) == set(COLUMNS)
    assert seen == [(0, 2, "grid2d(nx=9,ny=7)"), (1, 2, "banded(n=40,lower=1,upper=2)")]
    assert len(table) == 2 * sum(map(len, preparation.candidates_of(profile).values()))
    assert set(table["status"]) == {"ok", "unsupported"}
    assert table.groupby(["matrix", "op"])["features_us"].nunique().eq(1).all()


def test_a_limit_keeps_what_was_measured(monkeypatch):
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr(preparation, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    table = preparation.measure(CPU, silent, minutes=1, entries=small())
    assert set(table["matrix"]) == {small()[0].name}
    assert len(table) == 4  # the clock is read once for the limit and once for the matrix, and says 60 at the fifth


def test_the_limit_is_for_experiments_that_can_be_limited(monkeypatch, tmp_path):
    assert [known.name for known in registry.experiments() if known.can_be_limited] == ["locality", "preparation"]
    given = []

    def measure(device, progress, **limits):
        given.append(limits)
        return preparation.measure(CPU, progress, entries=small()[:1])

    known = dict(registry._EXPERIMENTS)
    for name in ("preparation", "permutations"):
        fields = {"kind": "cpu", "measure": measure, "columns": find("preparation").columns}
        monkeypatch.setitem(registry._EXPERIMENTS, name, registry.dataclasses.replace(known[name], **fields))
    run("preparation", tmp_path, minutes=2.5)
    run("preparation", tmp_path)
    run("permutations", tmp_path, minutes=2.5)
    assert given == [{"minutes": 2.5}, {}, {}]

"""What is measured on one matrix. On the CPU: the same code with another clock."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from warploom import _bfloat16, _core
from warploom._device import Device
from warploom._matrix import as_csr
from warploom.bench._matrices import Prepared, permute
from warploom.bench.measure import Limits, _Session, measure
from warploom.bench.settings import Setting
from warploom.candidates import parse
from warploom.errors import DeviceError, OutOfMemoryError

CPU = Device("cpu", 0)
QUICK = Limits(repeats=3, budget_ms=1, remeasured=0)


def prepared(m=40, n=40, permutations=()):
    A = sp.random_array((m, n), density=0.1, format="csr", rng=1)
    perms = {name: permute(as_csr(A), name) for name in permutations}
    return Prepared(sp.csr_array(A), perms, {"matrix": "some"})


def change_trial(monkeypatch, **methods):
    """Replace methods of `_core.Trial`; each is called with the usual one before its own arguments."""
    usual = _core.Trial

    class Changed:
        def __init__(self, problem):
            self.trial = usual(problem)

        def check(self, plan, **options):
            replaced = methods.get("check", lambda check, plan, **options: check(plan, **options))
            return replaced(self.trial.check, plan, **options)

        def time(self, plan, **options):
            replaced = methods.get("time", lambda time, plan, **options: time(plan, **options))
            return replaced(self.trial.time, plan, **options)

    monkeypatch.setattr(_core, "Trial", Changed)


def rows(settings, patterns, limits=QUICK, matrix=None):
    return list(measure(matrix or prepared(), [Setting.parse(s) for s in settings], CPU, limits, patterns))


def test_every_candidate_is_timed_warm_and_cold():
    found = rows(["spmv/float64", "spmm/float32/row/k=8"], ["*/none/csr/scalar", "*/none/csr/row_split"])
    assert [(r["setting"], r["candidate"], r["cache"]) for r in found] == [
        ("spmv/float64", "spmv/none/csr/scalar", "warm"),
        ("spmv/float64", "spmv/none/csr/scalar", "cold"),
        ("spmm/float32/row/k=8", "spmm/none/csr/row_split", "warm"),
        ("spmm/float32/row/k=8", "spmm/none/csr/row_split", "cold"),
    ]
    for row in found:
        assert row["status"] == "ok"
        assert 0 < row["p10_us"] <= row["median_us"] <= row["p90_us"]
        assert row["repeats"] == 3
        assert row["run"] == 0
    assert [r["k"] for r in found] == [1, 1, 8, 8]
    assert [r["layout"] for r in found] == ["", "", "row", "row"]


def test_as_many_columns_as_rows():
    (row, _) = rows(["spmm/float32/column/k=rows"], ["*/none/csr/c_stationary"])
    assert row["k"] == 40


def test_the_order_is_random_but_the_same_for_the_same_matrix():
    patterns = ["spmv/none/csr/*", "spmv/none/sell/*"]
    first, second = (
        [r["candidate"] for r in rows(["spmv/float64"], patterns) if r["cache"] == "warm"] for _ in range(2)
    )
    assert first == second
    assert first != sorted(first)
    other = prepared()
    other.facts["matrix"] = "another"
    assert first != [r["candidate"] for r in rows(["spmv/float64"], patterns, matrix=other) if r["cache"] == "warm"]


def test_permutations_are_used_where_they_were_computed():
    found = rows(["spmm/float32/row/k=8"], ["*/*/csr/row_split"], matrix=prepared(permutations=["lpt", "plain"]))
    assert {r["candidate"] for r in found} == {
        "spmm/none/csr/row_split",
        "spmm/lpt/csr/row_split",
        "spmm/plain/csr/row_split",
    }


def test_a_share_is_measured_again():
    found = rows(["spmv/float64"], ["spmv/none/csr/*"], dataclasses.replace(QUICK, remeasured=0.5))
    again = [r for r in found if r["run"] == 1]
    first = [r for r in found if r["run"] == 0]
    assert 0 < len(again) < len(first)
    assert {r["candidate"] for r in again} <= {r["candidate"] for r in first}
    assert min(r["position"] for r in again) > max(r["position"] for r in first)


def test_a_wrong_result_is_not_timed(monkeypatch):
    change_trial(monkeypatch, check=lambda check, plan, rounds_sums=False: "wrong result in 3 of 4 sampled entries")
    (row,) = rows(["spmv/float64"], ["spmv/none/csr/scalar"])
    assert row["status"] == "wrong result"
    assert row["note"] == "wrong result in 3 of 4 sampled entries"
    assert row["cache"] == ""
    assert np.isnan(row["median_us"])


@pytest.mark.parametrize(
    ("error", "status"), [(OutOfMemoryError("no room"), "out of memory"), (DeviceError("lost"), "error")]
)
def test_a_failing_candidate_is_recorded_and_passed_over(monkeypatch, error, status):
    def time(usual, plan, **options):
        if plan.candidate.kernel.name == "scalar":
            raise error
        return usual(plan, **options)

    change_trial(monkeypatch, time=time)
    found = rows(["spmv/float64"], ["spmv/none/csr/scalar", "spmv/none/csr/merge"])
    by_candidate = {r["candidate"]: r for r in found}
    assert by_candidate["spmv/none/csr/scalar"]["status"] == status
    assert by_candidate["spmv/none/csr/scalar"]["note"] == str(error)
    assert by_candidate["spmv/none/csr/merge"]["status"] == "ok"


def test_no_room_for_the_operands_is_recorded(monkeypatch):
    def refuse(problem):
        raise OutOfMemoryError("B does not fit")

    monkeypatch.setattr(_core, "Trial", refuse)
    (row,) = rows(["spmm/float32/row/k=8"], ["spmm/none/csr/row_split"])
    assert (row["status"], row["candidate"], row["note"]) == ("out of memory", "", "B does not fit")


def test_csr_vector_is_measured_with_more_threads_than_rows_have_nonzeros():
    """As in the paper that compares them; other kernels are not."""
    session = _Session(
        Prepared(sp.csr_array(np.eye(5)), {}, {"matrix": "eye"}), Setting.parse("spmv/float64"), CPU, QUICK, 0
    )
    session.problem = _core.Problem(as_csr(session.prepared.A), "spmv", 1, "column", "warm", -1)
    assert session.is_wanted(parse("spmv/none/csr/vector"))
    assert not session.is_wanted(parse("spmv/none/padded-csr/vector[threads_per_row=16]"))
    assert not session.is_wanted(parse("spmv/lpt/csr/scalar"))  # no such permutation was computed


def test_what_is_compared_comes_first():
    found = [r["candidate"] for r in rows(["spmv/float64"], ["spmv/none/cmrs/*", "spmv/none/csr/merge"])]
    defaults = [i for i, name in enumerate(found) if "[" not in name]
    assert defaults == list(range(len(defaults)))
    assert len(defaults) < len(found)


def test_nothing_is_started_after_the_time_limit():
    found = rows(["spmv/float64"], ["spmv/none/csr/*"], dataclasses.replace(QUICK, matrix_s=-1))
    assert found
    assert {r["status"] for r in found} == {"time limit"}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_spmm_of_half_precision(dtype):
    (row, _) = rows([f"spmm/{dtype}/row/k=8"], ["spmm/none/csr/row_split"])
    assert row["dtype"] == dtype
    assert row["median_us"] > 0


def test_float16_is_scaled_into_range():
    matrix = prepared()
    matrix.A.data[:] = 1e6
    (row, _) = rows(["spmv/float16"], ["spmv/none/csr/scalar"], matrix=matrix)
    assert row["status"] == "ok"


@pytest.mark.parametrize(
    ("candidate", "median", "repeats"),
    [
        ("spmv/none/cmrs/basic[height=2]", 1.9, 20),
        ("spmv/none/cmrs/basic[height=2]", 2.1, 6),
        ("spmv/none/cmrs/basic", 2.1, 20),  # papers and tables compare default settings
    ],
)
def test_what_is_far_from_the_fastest_gets_fewer_repeats(monkeypatch, candidate, median, repeats):
    session = _Session(prepared(), Setting.parse("spmv/float64"), CPU, Limits(repeats=20, far=2.0), 0.0)
    session.best["warm"] = 1.0
    session.trial = SimpleNamespace(time=lambda plan, **options: SimpleNamespace(median=median))
    assert session.repeats(plan=None, candidate=parse(candidate)) == repeats


def test_matrices_without_rows_need_no_products():
    assert rows(["spmm/float32/column/k=rows"], ["*/none/csr/c_stationary"], matrix=prepared(0, 0)) == []


def test_sampled_products_are_timed_warm_and_cold():
    found = rows([f"sddmm/{dtype}/k=8" for dtype in ("float16", "bfloat16", "float32", "float64")], None)
    assert [(r["dtype"], r["cache"]) for r in found] == [
        (dtype, cache) for dtype in ("float16", "bfloat16", "float32", "float64") for cache in ("warm", "cold")
    ]
    for row in found:
        assert (row["candidate"], row["op"], row["k"]) == ("sddmm/none/csr/warp_windows", "sddmm", 8)
        assert (row["status"], row["layout"]) == ("ok", "")
        assert 0 < row["p10_us"] <= row["median_us"] <= row["p90_us"]


def test_patterns_of_sampled_products():
    assert rows(["sddmm/float32/k=8"], ["sddmm/*/nothing"]) == []
    assert len(rows(["sddmm/float32/k=8"], ["@large"])) == 2
    assert len(rows(["sddmm/float32/k=8"], ["spmm/none/csr/*", "sddmm/*/warp_windows"])) == 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_wrong_sampled_products_are_not_timed(monkeypatch, dtype):
    usual = _core.sampled_product

    def changed(*arguments):
        values = usual(*arguments)
        wide = _bfloat16.cast(values, np.dtype(np.float64))
        wide[-1] += 0.5
        return _bfloat16.cast(wide, values.dtype)

    monkeypatch.setattr(_core, "sampled_product", changed)
    (row,) = rows([f"sddmm/{dtype}/k=8"], None)
    assert row["status"] == "wrong result"
    assert row["note"] == "wrong result in 1 of 160 sampled entries"


def test_sampled_products_without_nonzeros():
    empty = Prepared(sp.csr_array((3, 4)), {}, {"matrix": "empty"})
    assert {r["status"] for r in rows(["sddmm/float32/k=8"], None, matrix=empty)} == {"ok"}

"""Selection by measurement on the CPU, the check of results behind it, and the seam for other selectors."""

import types

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import battery
from products import assert_product, operand
from warploom import _core, selection
from warploom._device import Device
from warploom._matrix import as_csr
from warploom.candidates import parse
from warploom.explanation import Explanation, Row
from warploom.plan import Plan
from warploom.selection import Bench, MeasureSelector, Problem, Selection, Timing, is_redundant

LAYOUTS = ["row", "column"]


def problem(matrix, k=4, layout="row", cache="warm"):
    return Problem(as_csr(matrix), "spmm", k, layout, cache, Device("cpu"))


def prepared(given, name="spmm/none/csr/row_split"):
    return Plan(given.matrix, parse(name), given.k, given.layout, given.device)


@pytest.fixture(scope="module")
def matrix():
    return csr_array(random_array((90, 70), density=0.1, rng=np.random.default_rng(0), format="csr"))


# ----- measuring -----


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_fastest_is_kept(matrix, layout, monkeypatch):
    """With times made up, so that the outcome is known."""
    times = {}

    def made_up(self, plan, **options):
        times[plan.candidate] = 100.0 + len(times) * 7 % 50
        return Timing(times[plan.candidate], 1.0, 200.0, 3)

    monkeypatch.setattr(Bench, "time", made_up)
    plan = wl.plan(matrix, k=4, device="cpu", layout=layout)
    assert plan.candidate == min(times, key=times.get)
    assert {r.candidate: r.median_us for r in plan.explain().rows} == times
    B = operand((70, 4), np.float64, layout)
    assert_product(matrix, B, plan @ B)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_everything_listed_is_measured(matrix, layout):
    steps = []
    plan = wl.plan(matrix, k=4, device="cpu", layout=layout, progress=lambda *step: steps.append(step))
    names = [r.candidate for r in plan.explain().rows]
    assert len(names) == len(set(names))
    given = problem(matrix, layout=layout)
    listed = [n for n in wl.candidates(layout=layout, device="cpu") if not is_redundant(parse(n), given)]
    assert set(listed) <= set(names)
    assert [done for done, _, _ in steps] == list(range(len(listed)))
    assert {total for _, total, _ in steps} == {len(listed)}
    assert [name for _, _, name in steps] != []
    assert set(listed) == {name for _, _, name in steps}
    original = [parse(name).permutation == "none" for _, _, name in steps]
    assert original == sorted(original, reverse=True)  # the caller's order first


def test_each_permutation_is_computed_once(matrix, monkeypatch):
    computed = []
    compute = wl.permutations.compute

    def counting(name, *arguments, **options):
        computed.append(name)
        return compute(name, *arguments, **options)

    monkeypatch.setattr(wl.permutations, "compute", counting)
    wl.plan(matrix, k=4, device="cpu")
    assert sorted(computed) == sorted(n for n in wl.permutations.names() if n != "none")


def test_only_what_matches_is_measured(matrix):
    patterns = ["spmm/none/*", "spmm/lpt/segmented-csr/row_split"]
    plan = wl.plan(matrix, k=4, device="cpu", candidates=patterns)
    names = {r.candidate for r in plan.explain().rows}
    assert {n for n in names if not n.startswith("spmm/none/")} == {patterns[1]}


def test_a_candidate_named_in_full_need_not_be_listed(matrix):
    name = "spmm/lpt/segmented-csr/row_split[segment_length=16]"
    assert name not in wl.candidates(device="cpu")
    plan = wl.plan(matrix, k=4, device="cpu", candidates=[name, "spmm/none/csr/row_split"])
    assert {r.candidate for r in plan.explain().rows} == {name, "spmm/none/csr/row_split"}


def test_searching_permutations_of_large_matrices_must_be_named(matrix):
    given = problem(matrix)
    rows = MeasureSelector(permutation_rows=10, repeats=1).select(given, None, None).explanation.rows
    left_out = {r.candidate.split("/")[1] for r in rows if "not measured" in r.note}
    assert left_out == {n for n in wl.permutations.names() if wl.permutations.searches(n)}
    rows = MeasureSelector(permutation_rows=10, repeats=1).select(given, "spmm/cta-aware/*", None).explanation.rows
    assert all(r.median_us > 0 for r in rows)


@pytest.mark.parametrize("error", [wl.errors.DeviceError("lost it"), wl.errors.OutOfMemoryError("full"), MemoryError()])
def test_failures_become_notes(matrix, monkeypatch, error):
    prepare = _core.prepare_product

    def failing(op, view, format, *arguments):
        if format == "dcsr":
            raise error
        return prepare(op, view, format, *arguments)

    monkeypatch.setattr(_core, "prepare_product", failing)
    plan = wl.plan(matrix, k=4, device="cpu")
    for row in plan.explain().rows:
        if "/dcsr/" in row.candidate:
            assert row.note == (str(error) or "MemoryError")
            assert np.isnan(row.median_us)
        else:
            assert row.median_us > 0
    with pytest.raises(wl.errors.ParameterError, match="no candidate can run") as caught:
        wl.plan(matrix, k=4, device="cpu", candidates="*/dcsr/*")
    assert caught.value.argument == "candidates"


def test_a_failing_permutation_is_a_note(matrix, monkeypatch):
    def failing(name, *arguments, **options):
        raise MemoryError(f"no room for {name}")

    monkeypatch.setattr(wl.permutations, "compute", failing)
    rows = wl.plan(matrix, k=4, device="cpu").explain().rows
    assert all(r.note.startswith("no room") for r in rows if not r.candidate.startswith("spmm/none/"))
    assert all(r.median_us > 0 for r in rows if r.candidate.startswith("spmm/none/"))


def test_what_a_kernel_does_not_support_is_a_note():
    rows = wl.plan(battery(np.float32)["arrow"], k=4, device="cpu").explain().rows
    notes = {r.note for r in rows if "/padded-csr/" in r.candidate}
    assert len(notes) == 1
    assert "entries for" in notes.pop()


# ----- checking results -----


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", [*battery(np.float64), "cancelling", "overflowing", "tiny", "no rows", "no columns"])
def test_right_results_pass(name, layout):
    cancelling = csr_array((np.float32([1, 1, -2, 1e-3]), [0, 0, 0, 1], [0, 4]), shape=(1, 2))
    matrix = battery(np.float32) | {
        "cancelling": cancelling,
        "overflowing": csr_array(np.full((2, 9), 3e38, np.float32)),
        "tiny": csr_array(np.full((3, 9), 1e-44, np.float32)),
        "no rows": csr_array((0, 4), dtype=np.float32),
        "no columns": csr_array((4, 0), dtype=np.float32),
    }
    for k in (1, 5, 70):
        given = problem(matrix[name], k, layout)
        bench = Bench(given)
        for kernel in ("csr/row_split", "segmented-csr/row_split[segment_length=16]"):
            assert bench.check(prepared(given, f"spmm/lpt/{kernel}")) == ""


class Wrong:
    """A plan whose result is `change` applied to the right one."""

    def __init__(self, plan, change):
        self.plan, self.change = plan, change
        self._core = types.SimpleNamespace(run_host=self.run_host)

    def run_host(self, B, C):
        self.plan._core.run_host(B, C)
        self.change(C)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["arrow", "tridiagonal", "nan inf", "empty rows"])
def test_wrong_results_are_found(name, layout):
    given = problem(battery(np.float32)[name], 5, layout)
    bench = Bench(given)

    def last_entry(C):
        C[-1, -1] += 1e-3 + abs(C[-1, -1]) * 1e-3

    def never_written(C):
        C[0 if name != "nan inf" else -1, :] = np.nan

    def all_zero(C):
        C[:] = 0

    for change in (last_entry, never_written, all_zero):
        assert "wrong result in" in bench.check(Wrong(prepared(given), change))
    assert bench.check(prepared(given)) == ""


def test_a_wrong_candidate_is_never_chosen(matrix, monkeypatch):
    """However fast it is."""
    check, time = Bench.check, Bench.time

    def check_broken(self, plan):
        return check(self, Wrong(plan, lambda C: C.fill(0)) if "/dcsr/" in plan.candidate else plan)

    def time_broken(self, plan, **options):
        assert "/dcsr/" not in plan.candidate
        return time(self, plan, **options)

    monkeypatch.setattr(Bench, "check", check_broken)
    monkeypatch.setattr(Bench, "time", time_broken)
    plan = wl.plan(matrix, k=4, device="cpu")
    rows = [r for r in plan.explain().rows if "/dcsr/" in r.candidate]
    assert rows
    assert all(r.note.startswith("wrong result in") for r in rows)
    assert "/dcsr/" not in plan.candidate


# ----- timing -----


def test_timing_summarises():
    timing = Timing.of(np.arange(1.0, 102.0))
    assert (timing.p10, timing.median, timing.p90, timing.repeats) == (11.0, 51.0, 91.0, 101)


def test_number_of_repeats(matrix):
    bench = Bench(problem(matrix))
    plan = prepared(bench.problem)
    assert bench.time(plan, repeats=7, budget_ms=1e4).repeats == 7
    assert bench.time(plan, repeats=1000, budget_ms=0).repeats == 3
    assert bench.time(plan, repeats=2, budget_ms=0).repeats == 2


def test_cold_runs_evict_the_cache(matrix):
    bench = Bench(problem(matrix, cache="cold"))
    plan = prepared(bench.problem)
    bench.time(plan, repeats=3, budget_ms=0)
    assert (bench._evicting == 3).all()
    bench.time(plan, repeats=3, budget_ms=0, cache="warm")
    assert (bench._evicting == 3).all()


def test_copy_bandwidth_is_plausible():
    assert 1e8 < selection.copy_bandwidth(Device("cpu")) < 1e13


# ----- redundant settings -----


@pytest.mark.parametrize(
    ("name", "k", "redundant"),
    [
        ("spmm/none/csr/row_split", 1, False),
        ("spmm/none/csr/row_split[column_threads=8]", 128, False),
        ("spmm/none/csr/row_split[column_threads=8]", 32, True),  # 8 threads are what k = 32 needs at 4 columns each
        ("spmm/none/csr/row_split[column_threads=8]", 33, False),
        ("spmm/none/csr/row_split[threads_per_row=8,column_threads=8]", 128, True),
        ("spmm/none/dcsr/row_split", 4, False),
        ("spmm/none/dcsr/row_split[threads_per_row=8]", 4, True),  # no row is empty
        ("spmm/none/segmented-csr/row_split", 4, False),
        ("spmm/none/segmented-csr/row_split[segment_length=32]", 4, False),
        ("spmm/none/segmented-csr/row_split[segment_length=512]", 4, True),  # 32 cuts no row already
    ],
)
def test_redundant_settings(name, k, redundant):
    assert is_redundant(parse(name), problem(battery(np.float32)["tridiagonal"], k)) is redundant


def test_what_decides_redundancy_is_the_matrix():
    assert not is_redundant(
        parse("spmm/none/dcsr/row_split[threads_per_row=8]"), problem(battery(np.float32)["empty rows"])
    )
    assert not is_redundant(
        parse("spmm/none/segmented-csr/row_split[segment_length=512]"), problem(battery(np.float32)["one giant row"])
    )


@pytest.mark.parametrize(
    ("name", "redundant"),
    [
        ("spmv/none/csr/vector", False),  # the default, 32 threads
        ("spmv/none/csr/vector[threads_per_row=16]", True),  # rows of at most 3
        ("spmv/none/csr/vector[threads_per_row=4]", False),
        ("spmv/none/padded-csr/vector[threads_per_row=8]", True),
        ("spmv/none/sell/vector[threads_per_row=4]", False),
        ("spmv/none/packed-csr/segmented_sum[steps=4]", False),
        ("spmv/none/column-panels/shared_x", True),  # few nonzeros
    ],
)
def test_redundant_settings_of_spmv(name, redundant):
    given = Problem(as_csr(battery(np.float32)["tridiagonal"]), "spmv", 1, "column", "warm", Device("cpu"))
    assert is_redundant(parse(name), given) is redundant


# ----- other selectors -----


class Predictor:
    """A selector that measures nothing."""

    def __init__(self, name):
        self.name = name

    def select(self, problem, patterns, progress):
        self.seen = (problem, patterns, progress)
        row = Row(self.name, note="predicted")
        return Selection(self.name, Explanation("predictions", [row], self.name, self.name, []))


def test_a_selector_of_ones_own(matrix):
    predictor = Predictor("spmm/hybrid-1/csr/row_split")

    def progress(done, total, name):
        raise AssertionError("nothing was measured")

    plan = wl.plan(
        matrix,
        k=6,
        device="cpu",
        select=predictor,
        candidates="spmm/*",
        cache="cold",
        dtype="float32",
        progress=progress,
    )
    given, patterns, passed = predictor.seen
    assert (given.k, given.layout, given.cache, given.op, str(given.device)) == (6, "row", "cold", "spmm", "cpu")
    assert given.matrix.data.dtype == np.float32
    assert patterns == ["spmm/*"]
    assert passed is progress
    assert plan.candidate == predictor.name
    assert plan.explain().title == "predictions"
    B = operand((70, 6), np.float32, "row")
    assert_product(matrix.astype(np.float32), B, plan @ B)


def test_a_selector_may_be_wrong(matrix):
    with pytest.raises(wl.errors.ParameterError):
        wl.plan(matrix, k=6, device="cpu", select=Predictor("spmm/none/csr/abacus"))

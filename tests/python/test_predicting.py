"""Selection by prediction. The shipped profile predicts for an H200; its candidates run on the CPU here."""

import dataclasses
import math
import timeit

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from warploom import errors, predicting, selection
from warploom._device import Device
from warploom._matrix import as_csr
from warploom.candidates import parse
from warploom.explanation import Explanation
from warploom.plan import Plan, problem_of
from warploom.predicting import PredictSelector, predict
from warploom.prediction import Choice, Selector, compress
from warploom.selection import Problem, Timing

GPU = "NVIDIA H200"
OURS = ["spmv/none/csr/*", "spmv/none/packed-csr/*"]


@pytest.fixture(scope="module")
def matrix():
    return csr_array(random_array((300, 200), density=0.05, rng=np.random.default_rng(0), format="csr"))


@pytest.fixture(scope="module")
def source():
    return predicting._source(GPU, None)


def problem(A, op="spmv", k=1, layout="column"):
    return Problem(as_csr(A), op, k, layout, "warm", Device("cpu"))


def made_up(monkeypatch, times):
    """Replace the clock: candidates take the times given, all others 50."""

    def time(self, plan, **options):
        median = times.get(plan.candidate, 50.0)
        return Timing(median, median, median, 3)

    monkeypatch.setattr(selection.Bench, "time", time)


# ----- for a GPU that is not here -----


@pytest.mark.parametrize("op", ["spmm", "spmv"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_every_candidate_the_profile_knows_is_predicted(matrix, op, dtype, layout, cache):
    explanation = predict(matrix, op, k=16 if op == "spmm" else None, dtype=dtype, layout=layout, cache=cache)
    rows = explanation.rows
    assert len(rows) > 5
    assert explanation.chosen == rows[0].candidate
    assert rows[0].note == "chosen"
    assert [r.predicted_us for r in rows] == sorted(r.predicted_us for r in rows)
    assert all(r.predicted_us > 1 and r.preparation_ms >= 0 and math.isnan(r.median_us) for r in rows)
    text = str(explanation)
    assert "predicted for NVIDIA H200" in text
    assert "decided most by" in text
    assert ("float64: predicted from float32" in text) == (op == "spmm" and dtype == "float64")


def test_preparation_counts_for_few_calls(matrix):
    known = {r.candidate: r for r in predict(matrix, "spmv").rows}
    for calls in (1, 10, 1000, 1e9):
        chosen = predict(matrix, "spmv", calls=calls).chosen
        cost = {name: r.predicted_us + 1e3 * r.preparation_ms / calls for name, r in known.items()}
        assert cost[chosen] == pytest.approx(min(cost.values()))
    once, often = (known[predict(matrix, "spmv", calls=calls).chosen] for calls in (1, None))
    assert once.preparation_ms <= often.preparation_ms


def test_break_even_is_when_preparation_has_paid_off(matrix):
    explanation = predict(matrix, "spmv")
    base = next((r for r in explanation.rows if r.candidate == explanation.baseline), None)
    assert base is not None
    for row in explanation.rows:
        if row is base:
            assert math.isnan(row.break_even)
        elif row.predicted_us >= base.predicted_us:
            assert row.break_even == math.inf
        else:
            ours, theirs = (row.break_even * r.predicted_us + 1e3 * r.preparation_ms for r in (row, base))
            assert ours <= theirs + 1e-6
    assert "never" in explanation.full()


def test_what_cannot_run_or_is_redundant_is_not_chosen():
    rows = [np.arange(5000), *(np.array([i % 7]) for i in range(3000))]
    indptr = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    A = csr_array((np.ones(indptr[-1]), np.concatenate(rows), indptr), shape=(3001, 5000))
    listed = wl.candidates("spmv", dtype="float64")
    refused = {name for name in listed if predicting._reason_against(parse(name), problem(A))}
    assert any("/ell/" in name for name in refused)  # rows padded to the longest would take all memory
    assert not refused & {r.candidate for r in predict(A, "spmv").rows}


def test_patterns_restrict_what_is_predicted(matrix):
    assert {r.candidate.split("/")[2] for r in predict(matrix, "spmv", candidates="spmv/none/csr/*").rows} == {"csr"}
    with pytest.raises(errors.ParameterError, match="nothing/\\*") as caught:
        predict(matrix, "spmv", candidates="nothing/*")
    assert caught.value.argument == "candidates"


def test_candidates_are_asked_about_until_one_may_be_taken(monkeypatch):
    """Whether a kernel can run takes longer to say than to predict, where rows have to be sorted for it."""
    A = csr_array(random_array((2000, 2000), density=0.005, rng=np.random.default_rng(0), format="csr"))
    asked = []
    usual = predicting._reason_against
    monkeypatch.setattr(predicting, "_reason_against", lambda c, p: asked.append(c.name) or usual(c, p))
    chosen = PredictSelector(predicting._source(GPU, None)).select(problem(A), OURS, None)
    assert asked == [chosen.candidate]
    known = [row.candidate for row in chosen.explanation().rows]
    assert len(known) > 3
    assert set(known) <= set(asked)


@pytest.mark.parametrize(("op", "k"), [("spmm", 64), ("spmv", None)])
@pytest.mark.parametrize("calls", [None, 1000.0])
def test_choosing_takes_microseconds(op, k, calls):
    """About 60 on an idle machine, 95 with a number of calls; the bound is for busy ones."""
    A = csr_array(random_array((20_000, 20_000), density=5e-4, rng=np.random.default_rng(0), format="csr"))
    wanted = problem_of(A, op, k, "float32", "column", "warm", "cpu")
    selector = predicting._source(GPU, None).selector
    values = predicting._features(wanted, selector)
    times = timeit.repeat(
        lambda: predicting._choose(selector, wanted, values, None, calls, True, "cuda"), number=1, repeat=50
    )
    assert min(times[1:]) < 1e-3


def test_an_unknown_gpu_lists_the_known_ones(matrix):
    with pytest.raises(errors.ParameterError, match=GPU) as caught:
        predict(matrix, "spmv", gpu="Voodoo 2")
    assert caught.value.argument == "gpu"


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (4, 4)])
def test_matrices_without_nonzeros(shape):
    assert predict(csr_array(shape), "spmv").rows


# ----- plans -----


def test_a_plan_is_made_of_the_choice_and_explained_when_asked(matrix, source, monkeypatch):
    built = []
    monkeypatch.setattr(predicting, "_explain", lambda *a: built.append(a) or Explanation("t", [], "c", "b", []))
    plan = wl.plan(matrix, "spmv", device="cpu", select=PredictSelector(source), candidates=OURS)
    np.testing.assert_allclose(plan @ np.ones(200), matrix @ np.ones(200))
    assert not built
    assert plan.explain() is plan.explain()
    assert len(built) == 1


def test_the_first_of_the_ranking_is_taken(matrix, source):
    chosen = PredictSelector(source, calls=1e6).select(problem(matrix), OURS, None)
    assert chosen.candidate == predict(matrix, "spmv", calls=1e6, candidates=OURS).chosen


class Fixed(Selector):
    """A selector whose choice is given."""

    def __init__(self, selector, choice):
        self.__dict__ = selector.__dict__
        self.fixed = choice

    def choose(self, *arguments, **options):
        return self.fixed

    def deciding_inputs(self, *arguments, **options):
        return []


def fixed(source, *names, unsure=False, shortlisted=1, outside=""):
    """Candidates predicted to take 10, 11, 12, ... us, of which the first few are the short list."""
    scores = compress(np.log(1 + 0.1 * np.arange(len(names))))
    choice = Choice(
        candidates=names,
        scores=scores,
        least_us=10.0,
        prepare_ms=lambda: np.full(len(names), 0.1),
        calls=None,
        among=lambda name: True,
        expected_loss=0.1,
        unsure=unsure,
        margin=scores[shortlisted - 1],
        outside=outside,
    )
    return dataclasses.replace(source, selector=Fixed(source.selector, choice))


SPMM_LPT = "spmm/lpt/csr/row_split"
SCALAR, MERGE, VECTOR = (f"spmv/none/csr/{kernel}" for kernel in ("scalar", "merge", "vector"))


def test_an_unsure_prediction_measures_the_short_list(matrix, source, monkeypatch):
    made_up(monkeypatch, {MERGE: 5.0, SCALAR: 6.0, VECTOR: 1.0})
    unsure = fixed(source, SCALAR, MERGE, VECTOR, unsure=True, shortlisted=2)
    chosen = PredictSelector(unsure).select(problem(matrix), None, None)
    assert chosen.candidate == MERGE  # vector is not on the list, and so not measured
    rows = {r.candidate: r for r in chosen.explanation().rows}
    assert rows[MERGE].median_us == 5.0
    assert rows[MERGE].predicted_us == pytest.approx(11.0)
    assert math.isnan(rows[VECTOR].median_us)


def test_measuring_a_short_list_prepares_each_once_and_permutes_once(matrix, source, monkeypatch):
    names = [SPMM_LPT, "spmm/lpt/segmented-csr/row_split", "spmm/none/csr/row_split"]
    made_up(monkeypatch, {names[1]: 5.0})
    prepared, permuted = [], []
    prepare, compute = Plan.__init__, wl.permutations.compute
    monkeypatch.setattr(Plan, "__init__", lambda p, A, c, *a, **k: prepared.append(c.name) or prepare(p, A, c, *a, **k))
    monkeypatch.setattr(wl.permutations, "compute", lambda name, *a: permuted.append(name) or compute(name, *a))
    unsure = fixed(source, *names, unsure=True, shortlisted=3)
    chosen = PredictSelector(unsure).select(problem(matrix, "spmm", 8, "row"), None, None)
    assert chosen.candidate == chosen.plan.candidate == names[1]
    assert sorted(prepared) == sorted(names)
    assert permuted == ["lpt"]
    B = np.ones((matrix.shape[1], 8))
    np.testing.assert_allclose(chosen.plan @ B, matrix @ B)


def test_searching_permutations_are_left_out_for_many_rows_unless_named(matrix, source, monkeypatch):
    searching = {name for name in wl.permutations.names() if wl.permutations.searches(name)}

    def predicted(**options):
        rows = predict(matrix, "spmm", k=8, dtype="float32", **options).rows
        return {r.candidate.split("/")[1] for r in rows} & searching

    few_rows = predicted()
    assert few_rows
    monkeypatch.setattr(predicting, "SEARCHED_ROWS", matrix.shape[0] - 1)
    assert not predicted()
    assert predicted(candidates=f"spmm/{min(few_rows)}/*") == {min(few_rows)}
    monkeypatch.setattr(predicting, "SEARCHED_ROWS", matrix.shape[0])
    assert predicted() == few_rows


def test_outside_of_what_was_measured_the_vendor_is_measured_too(matrix, source, monkeypatch):
    monkeypatch.setattr(predicting, "_is_vendor", lambda name: name == VECTOR)
    made_up(monkeypatch, {SCALAR: 6.0, VECTOR: 5.0})
    far = fixed(source, SCALAR, MERGE, VECTOR, unsure=True, outside="rows = 5 (measured: 100 to 1,000)")
    chosen = PredictSelector(far).select(problem(matrix), None, None)
    assert chosen.candidate == VECTOR
    explanation = chosen.explanation()
    assert {r.candidate for r in explanation.rows if r.median_us > 0} == {SCALAR, VECTOR}
    assert "outside what was measured: rows = 5" in " ".join(str(explanation).split())


def test_few_calls_are_not_worth_measuring(matrix, source, monkeypatch):
    made_up(monkeypatch, {MERGE: 5.0})
    unsure = fixed(source, SCALAR, MERGE, unsure=True, shortlisted=2)
    assert PredictSelector(unsure, calls=1).select(problem(matrix), None, None).candidate == SCALAR
    assert PredictSelector(unsure, calls=1e6).select(problem(matrix), None, None).candidate == MERGE


def test_another_gpus_profile_is_never_sure(matrix, source, monkeypatch):
    made_up(monkeypatch, {MERGE: 5.0})
    other = dataclasses.replace(fixed(source, SCALAR, MERGE, shortlisted=2), note="no profile of this GPU")
    chosen = PredictSelector(other).select(problem(matrix), None, None)
    assert chosen.candidate == MERGE
    assert "no profile of this GPU" in str(chosen.explanation())


@pytest.mark.parametrize(("vendors", "expected"), [(4.0, MERGE), (9.0, SCALAR)])
def test_verify_steps_back_when_the_vendor_wins(matrix, source, monkeypatch, vendors, expected):
    monkeypatch.setattr(predicting, "_is_vendor", lambda name: name == MERGE)
    monkeypatch.setattr(predicting, "load_cusparse", lambda: None)
    made_up(monkeypatch, {SCALAR: 5.0, MERGE: vendors})
    sure = fixed(source, SCALAR, VECTOR, MERGE)
    assert PredictSelector(sure, verify=True).select(problem(matrix), None, None).candidate == expected
    assert PredictSelector(sure).select(problem(matrix), None, None).candidate == SCALAR


@pytest.mark.parametrize(("reason", "expected"), [("not installed", VECTOR), (None, SCALAR)])
def test_the_vendors_candidates_need_its_library(matrix, source, monkeypatch, reason, expected):
    monkeypatch.setattr(predicting, "_is_vendor", lambda name: name == SCALAR)
    monkeypatch.setattr(predicting, "load_cusparse", lambda: reason)
    kept = {}

    def choose(self, *arguments):
        kept["among"] = arguments[-1]
        return fixed(source, *filter(kept["among"], [SCALAR, VECTOR])).selector.fixed

    monkeypatch.setattr(Selector, "choose", choose)
    assert PredictSelector(source).select(problem(matrix), None, None).candidate == expected


def test_a_candidate_that_does_not_fit_into_memory_is_passed_over(matrix, source, monkeypatch):
    usual = Plan.__init__

    def init(self, matrix, candidate, *arguments, **options):
        if candidate.name == SCALAR:
            raise errors.OutOfMemoryError("no room")
        usual(self, matrix, candidate, *arguments, **options)

    monkeypatch.setattr(Plan, "__init__", init)
    assert PredictSelector(fixed(source, SCALAR, MERGE)).select(problem(matrix), None, None).candidate == MERGE


def test_a_wrong_result_is_never_kept(matrix, source, monkeypatch):
    made_up(monkeypatch, {})
    monkeypatch.setattr(selection.Bench, "check", lambda self, plan: "wrong" if plan.candidate == SCALAR else "")
    unsure = fixed(source, SCALAR, MERGE, unsure=True, shortlisted=2)
    assert PredictSelector(unsure).select(problem(matrix), None, None).candidate == MERGE


# ----- wl.plan -----


def test_without_a_profile_predict_says_what_to_do(matrix):
    with pytest.raises(errors.ParameterError, match="calibrate") as caught:
        wl.plan(matrix, "spmv", device="cpu", select="predict")
    assert caught.value.argument == "select"


def test_auto_predicts_where_there_is_a_profile_and_measures_elsewhere(matrix, source, monkeypatch):
    made_up(monkeypatch, {MERGE: 5.0})
    plan = wl.plan(matrix, "spmv", device="cpu", candidates="spmv/none/csr/*")
    assert plan.candidate == MERGE
    monkeypatch.setattr(predicting, "selector_for", lambda device: fixed(source, SCALAR, MERGE))
    assert wl.plan(matrix, "spmv", device="cpu").candidate == SCALAR


@pytest.mark.parametrize("calls", [0, -1, math.nan, "many"])
def test_calls_are_a_positive_number(matrix, calls):
    with pytest.raises(errors.ParameterError) as caught:
        wl.plan(matrix, "spmv", device="cpu", calls=calls)
    assert caught.value.argument == "calls"


def test_measured_selection_weighs_preparation_too(matrix, monkeypatch):
    usual = Plan.__init__

    def init(self, matrix, candidate, *arguments, **options):
        usual(self, matrix, candidate, *arguments, **options)
        self.preparation_ms = {"conversion": 1.0 if candidate.name == MERGE else 0.0}

    monkeypatch.setattr(Plan, "__init__", init)
    made_up(monkeypatch, {MERGE: 5.0, SCALAR: 6.0})
    options = {"device": "cpu", "select": "measure", "candidates": "spmv/none/csr/*"}
    assert wl.plan(matrix, "spmv", **options).candidate == MERGE
    assert wl.plan(matrix, "spmv", calls=10, **options).candidate == SCALAR
    assert wl.plan(matrix, "spmv", calls=10_000, **options).candidate == MERGE

"""Planning from Python: by measurement on the CPU, and by prediction for the GPU of the profile that ships.

How candidates are chosen is tested in tests/cpp/planner, with times that are known.
"""

import math
import sys
import timeit
import types

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import battery
from half_profile import CORES, PLAIN, save_half_profile
from overlap_profile import ALIKE, ALONE, save_overlap_profile
from warploom import _core, _host_products, errors, profiles
from warploom._matrix import as_csr
from warploom.candidates import parse

GPU = "NVIDIA H200"


def problem(matrix, op="spmm", k=4, layout="row"):
    return _core.Problem(as_csr(matrix), op, k, layout, "warm", -1)


@pytest.fixture(scope="module")
def matrix():
    return csr_array(random_array((300, 200), density=0.05, rng=np.random.default_rng(0), format="csr"))


# ----- by measurement -----


@pytest.mark.parametrize("layout", ["row", "column"])
def test_everything_listed_is_measured(matrix, layout):
    steps = []
    given = problem(matrix, layout=layout)
    listed = [n for n in wl.candidates(layout=layout, device="cpu") if not given.is_redundant(parse(n))]
    plan = wl.plan(
        matrix,
        k=4,
        device="cpu",
        layout=layout,
        candidates=listed,
        budget=math.inf,
        progress=lambda *step: steps.append(step),
    )
    names = [r.candidate for r in plan.explain().rows]
    assert len(names) == len(set(names))
    assert {name for _, _, name in steps} == set(listed) <= set(names)
    assert [done for done, _, _ in steps] == list(range(len(listed)))
    assert {total for _, total, _ in steps} == {len(listed)}
    original = [parse(name).permutation == "none" for _, _, name in steps]
    assert original == sorted(original, reverse=True)  # the caller's order first


def test_only_what_matches_is_measured(matrix):
    patterns = ["spmm/none/*", "spmm/lpt/segmented-csr/row_split"]
    plan = wl.plan(matrix, k=4, device="cpu", candidates=patterns)
    names = {r.candidate for r in plan.explain().rows}
    assert {n for n in names if not n.startswith("spmm/none/")} == {patterns[1], "scipy"}


def test_on_the_cpu_row_orders_and_formats_for_warps_are_not_tried_unless_named(matrix):
    for op, k in (("spmm", 4), ("spmv", None)):
        rows = wl.plan(matrix, op, k=k, device="cpu", budget=math.inf).explain().rows
        tried = [parse(r.candidate) for r in rows if r.candidate != "scipy"]
        assert {c.permutation for c in tried} == {"none"}
        assert {c.kernel.format for c in tried} <= {"csr", "dcsr", "sell", "compressed-sell"}
    named = wl.plan(matrix, "spmv", device="cpu", candidates="spmv/lpt/csr/scalar").explain()
    assert "spmv/lpt/csr/scalar" in {r.candidate for r in named.rows}


def test_scipy_is_the_baseline_on_the_cpu(matrix):
    for options in (
        {"op": "spmv"},
        {"k": 1},
        {"k": 4},
        {"k": 4, "layout": "column"},
        {"op": "spmv", "dtype": "float32"},
    ):
        explanation = wl.plan(matrix, device="cpu", **options).explain()
        assert explanation.baseline == explanation.vendor == "scipy"
        (row,) = [r for r in explanation.rows if r.candidate == "scipy"]
        assert row.median_us > 0
        assert row.speedup == 1.0
        assert row.preparation_ms == 0.0
        assert row.note == ""  # its result was checked like any other


def test_scipy_does_not_multiply_float16(matrix):
    explanation = wl.plan(matrix, "spmv", dtype="float16", device="cpu").explain()
    assert explanation.baseline == "spmv/none/csr/vector"
    assert "scipy" not in {r.candidate for r in explanation.rows}


@pytest.mark.parametrize("right", [True, False])
def test_mkl_is_compared_with_where_it_is_installed(matrix, monkeypatch, right):
    fake = types.ModuleType("sparse_dot_mkl")
    fake.dot_product_mkl = lambda A, B: A @ B if right or A.shape == (2, 2) else 2 * (A @ B)
    monkeypatch.setitem(sys.modules, "sparse_dot_mkl", fake)
    _host_products._mkl_product.cache_clear()
    try:
        explanation = wl.plan(matrix, k=4, device="cpu", budget=math.inf).explain()
    finally:
        _host_products._mkl_product.cache_clear()
    (row,) = [r for r in explanation.rows if r.candidate == "mkl"]
    assert (row.median_us > 0) == right
    assert ("wrong result" in row.note) != right


def test_what_there_is_no_time_for_is_left_out_and_said(matrix):
    explanation = wl.plan(matrix, "spmv", device="cpu", budget=1e-9).explain()
    measured = [r.candidate for r in explanation.rows if r.median_us > 0]
    assert set(measured) == {"scipy", "spmv/none/csr/vector"}
    assert explanation.chosen == "spmv/none/csr/vector"
    left_out = [r for r in explanation.rows if r.note.startswith("left out")]
    assert left_out
    assert f"{len(left_out)} left out, as the budget of 1e-09 s was used up" in " ".join(str(explanation).split())
    assert not any(r.candidate in str(explanation) for r in left_out)
    assert all(r.candidate in explanation.full() for r in left_out)
    assert "left out" not in str(wl.plan(matrix, "spmv", device="cpu", budget=math.inf).explain())


def test_on_the_cpu_measuring_is_limited_by_the_calls(matrix):
    def measured(**options):
        explanation = wl.plan(matrix, "spmv", device="cpu", **options).explain()
        return explanation, {r.candidate for r in explanation.rows if r.median_us > 0} - {"scipy"}

    explanation, few = measured(calls=1)
    assert few == {explanation.chosen} == {"spmv/none/csr/vector"}
    us = {r.candidate: r.median_us for r in explanation.rows}
    share = 20 if us["scipy"] < us[explanation.chosen] else 5  # there is more time where SciPy is faster
    said = f"left out, as measuring is to take about {share} % of the time of all calls (calls=1); select='measure'"
    assert said in " ".join(str(explanation).split())
    _, everything = measured(calls=math.inf)
    listed = {r.candidate for r in explanation.rows} - {"scipy"}
    assert everything == listed
    for options in ({"select": "measure"}, {"budget": math.inf}, {"candidates": "spmv/none/*"}):
        assert measured(calls=1, **options)[1] >= listed - {"spmv/none/csr/vector"}
    assert measured(calls=1e9)[1] == listed  # though in a share of their time


@pytest.mark.parametrize("budget", [0, -1, math.nan, "2"])
def test_a_budget_is_a_positive_number(matrix, budget):
    with pytest.raises(errors.ParameterError) as caught:
        wl.plan(matrix, k=4, device="cpu", budget=budget)
    assert caught.value.argument == "budget"


def test_an_error_in_progress_reaches_the_caller(matrix):
    def interrupt(done, total, name):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wl.plan(matrix, k=4, device="cpu", progress=interrupt)


def test_what_a_kernel_does_not_support_is_a_note():
    rows = wl.plan(battery(np.float32)["arrow"], k=4, device="cpu", candidates="*", budget=math.inf).explain().rows
    notes = {r.note for r in rows if "/padded-csr/" in r.candidate}
    assert len(notes) == 1
    assert "entries for" in notes.pop()


@pytest.mark.parametrize("select", [None, 5, object()])
def test_select_is_a_name(matrix, select):
    with pytest.raises(errors.ParameterError) as caught:
        wl.plan(matrix, k=6, device="cpu", select=select)
    assert caught.value.argument == "select"


def test_copy_bandwidth_is_plausible():
    assert 1e8 < _core.copy_bandwidth(-1) < 1e13


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
        ("spmm/none/csr/c_stationary[tile_width=8]", 4, True),  # too few tiles to keep a GPU busy
        ("spmm/none/csr/c_stationary[tile_width=8,rows_per_block=32]", 4, False),
        ("spmm/none/csr/c_stationary[tile_width=8]", 4096, False),
    ],
)
def test_redundant_settings(name, k, redundant):
    assert problem(battery(np.float32)["tridiagonal"], k=k).is_redundant(parse(name)) is redundant


@pytest.mark.parametrize(("dtype", "redundant"), [(np.float16, False), (np.float32, True), (np.float64, True)])
@pytest.mark.parametrize(
    "setting", ["csr/row_split[{}]", "padded-csr/row_split[{}]", "segmented-csr/row_split[{},segment_length=32]"]
)
def test_sixteen_columns_a_thread_are_for_values_of_two_bytes(setting, dtype, redundant):
    given = problem(battery(dtype)["tridiagonal"], k=128)
    assert given.is_redundant(parse("spmm/none/" + setting.format("columns_per_thread=16"))) is redundant
    assert not given.is_redundant(parse("spmm/none/" + setting.format("columns_per_thread=8")))


def test_what_decides_redundancy_is_the_matrix():
    empty, giant = (problem(battery(np.float32)[name]) for name in ("empty rows", "one giant row"))
    assert not empty.is_redundant(parse("spmm/none/dcsr/row_split[threads_per_row=8]"))
    assert not giant.is_redundant(parse("spmm/none/segmented-csr/row_split[segment_length=512]"))


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
    given = problem(battery(np.float32)["tridiagonal"], "spmv", 1, "column")
    assert given.is_redundant(parse(name)) is redundant


# ----- by prediction, for a GPU that is not here -----


@pytest.mark.parametrize("op", ["spmm", "spmv"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_every_candidate_the_profile_knows_is_predicted(matrix, op, dtype, layout, cache):
    k = 16 if op == "spmm" else None
    explanation = wl.predict(matrix, op, k=k, dtype=dtype, layout=layout, cache=cache, calls=math.inf)
    rows = explanation.rows
    assert len(rows) > 5
    assert explanation.chosen == rows[0].candidate
    assert rows[0].note == "chosen"
    assert [r.predicted_us for r in rows] == sorted(r.predicted_us for r in rows)
    assert all(r.predicted_us > 1 and r.preparation_ms >= 0 and math.isnan(r.median_us) for r in rows)
    text = str(explanation)
    assert "predicted for NVIDIA H200" in text
    assert "decided most by" in text
    has_model = dtype != "bfloat16" or (op == "spmm" and layout == "row")
    assert (f"{dtype}: predicted from float16" in text) == (not has_model)


def test_preparation_counts_for_few_calls(matrix):
    chosen = {}
    for calls in (1, 10, 1000, 1e9, math.inf):
        found = wl.predict(matrix, "spmv", calls=calls)
        cost = {r.candidate: r.predicted_us + 1e3 * r.preparation_ms / calls for r in found.rows}
        assert cost[found.chosen] == pytest.approx(min(cost.values()))
        (chosen[calls],) = (r for r in found.rows if r.candidate == found.chosen)
    assert chosen[1].preparation_ms <= chosen[math.inf].preparation_ms


def test_a_plan_is_for_a_thousand_products_unless_more_is_known(matrix):
    plain, thousand = wl.predict(matrix, "spmv"), wl.predict(matrix, "spmv", calls=1000)
    assert plain.to_dict() == thousand.to_dict()
    assert "chosen for 1000 calls" in str(plain)


def test_break_even_is_when_preparation_has_paid_off(matrix):
    explanation = wl.predict(matrix, "spmv")
    (base,) = (r for r in explanation.rows if r.candidate == explanation.baseline)
    for row in explanation.rows:
        if row.candidate == base.candidate:
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
    given = problem(A, "spmv", 1, "column")
    refused = {name for name in wl.candidates("spmv", dtype="float64") if given.reason_against(parse(name))}
    assert any("/ell/" in name for name in refused)  # rows padded to the longest would take all memory
    assert not refused & {r.candidate for r in wl.predict(A, "spmv").rows}


def test_patterns_restrict_what_is_predicted(matrix):
    rows = wl.predict(matrix, "spmv", candidates="spmv/none/csr/*").rows
    assert {r.candidate.split("/")[2] for r in rows} == {"csr"}
    with pytest.raises(errors.ParameterError, match="nothing/\\*") as caught:
        wl.predict(matrix, "spmv", candidates="nothing/*")
    assert caught.value.argument == "candidates"


@pytest.mark.parametrize(("op", "k"), [("spmm", 64), ("spmv", 1)])
@pytest.mark.parametrize("calls", [math.inf, 1000.0])
def test_predicting_takes_little_longer_than_the_features(op, k, calls):
    """The bound is for busy machines, and holds the table with all candidates too."""
    A = as_csr(random_array((20_000, 20_000), density=5e-4, rng=np.random.default_rng(0), format="csr"))
    wanted = _core.Problem(A, op, k, "column", "warm", -1)
    planner = _core.Planner([str(folder) for folder in wl.profiles.folders()])
    features = min(timeit.repeat(lambda: [_core.compute_features(s, A) for s in ("spmm", "spmv")], number=1, repeat=9))
    chosen = min(timeit.repeat(lambda: planner.predict(wanted, GPU, calls=calls), number=1, repeat=9))
    assert chosen < features + 50e-3


def test_an_unknown_gpu_lists_the_known_ones(matrix):
    with pytest.raises(errors.ParameterError, match=GPU) as caught:
        wl.predict(matrix, "spmv", gpu="Voodoo 2")
    assert caught.value.argument == "gpu"


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (4, 4)])
def test_matrices_without_nonzeros(shape):
    assert wl.predict(csr_array(shape), "spmv").rows


def test_without_a_profile_predict_says_what_to_do(matrix):
    with pytest.raises(errors.ParameterError, match="predictions are for GPUs") as caught:
        wl.plan(matrix, "spmv", device="cpu", select="predict")
    assert caught.value.argument == "select"


@pytest.mark.parametrize("calls", [0, -1, math.nan, "many"])
def test_calls_are_a_positive_number(matrix, calls):
    with pytest.raises(errors.ParameterError) as caught:
        wl.plan(matrix, "spmv", device="cpu", calls=calls)
    assert caught.value.argument == "calls"


def test_column_vectors_decide_in_half_precision(matrix, tmp_path, monkeypatch):
    save_half_profile(tmp_path, "Test GPU")
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path))
    for alike, chosen in ((2, PLAIN), (8, CORES)):  # so many rows each are the same
        A = scipy.sparse.kron(matrix, np.ones((alike, 1)), format="csr")
        found = wl.predict(A, k=32, dtype="float16", gpu="Test GPU")
        assert found.chosen == chosen
        assert {row.candidate for row in found.rows} >= {PLAIN, CORES}
        assert "predicted from" not in str(found)


def twice(rows, per_row=8):
    """Rows without columns in common, each of which is there again far below."""
    columns = np.random.default_rng(0).permutation(rows // 2 * per_row).astype(np.int32)
    indptr = per_row * np.arange(rows + 1)
    return csr_array((np.ones(indptr[-1]), np.tile(columns, 2), indptr), shape=(rows, len(columns)))


def test_hidden_locality_decides(tmp_path, monkeypatch):
    save_overlap_profile(tmp_path, "Test GPU")
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path))
    alike, alone = twice(130_000), twice(130_000)
    alone.indices[:] = np.random.default_rng(1).integers(0, alone.shape[1], alone.nnz)
    for A, chosen in ((alike, ALIKE), (alone, ALONE), (twice(1000), ALONE)):  # the last one is too small
        found = wl.predict(A, "spmv", gpu="Test GPU")
        assert found.chosen == chosen
        assert "decided most by hidden_overlap" in str(found)


def test_locality_is_not_computed_for_profiles_that_do_not_read_it(tmp_path, monkeypatch):
    """A profile of SpMM in half precision knows nothing of it."""
    save_half_profile(tmp_path, "Test GPU")
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path))
    loaded = profiles.load(tmp_path / "p.safetensors").selector()
    assert loaded.feature_sets("spmm", "float16", "row") == ("spmv", "column_vectors")
    save_overlap_profile(tmp_path, "Test GPU")
    loaded = profiles.load(tmp_path / "p.safetensors").selector()
    assert loaded.feature_sets("spmv", "float64") == ("spmv", "locality")


def test_a_damaged_profile_is_left_out_with_a_warning(matrix, tmp_path, monkeypatch):
    (tmp_path / "broken.safetensors").write_bytes(b"no profile")
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path))
    with pytest.warns(RuntimeWarning, match="broken.safetensors"):
        assert wl.predict(matrix, "spmv").rows

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from warploom.prediction import (
    INPUTS,
    LOSS,
    PREPARATION_INPUTS,
    REFERENCE,
    SPMV_INPUTS,
    Selector,
    compress,
    describe,
    expand,
    model_inputs,
    model_name,
    preparation_inputs,
    roofline_us,
)

from battery import battery
from warploom.errors import ParameterError
from warploom.predictor import Model

MATRICES = battery(np.float64)
FAST, EASY, SLOW = "spmv/none/sell/vector", "spmv/none/csr/vector", "spmv/none/csr/scalar"


def linear(inputs, outputs):
    """Return a model of given outputs: (constant, {input: coefficient}) by name."""
    weight = np.array([[of.get(name, 0.0) for name in inputs] for _, of in outputs.values()], np.float32)
    arrays = {
        "input.mean": np.zeros(len(inputs)),
        "input.scale": np.ones(len(inputs)),
        "layer.0.weight": weight[np.newaxis],
        "layer.0.bias": np.array([[constant for constant, _ in outputs.values()]], np.float32),
    }
    return Model("network", inputs, tuple(outputs), {"activation": "identity", "output": "identity"}, arrays)


def selector(inputs=SPMV_INPUTS, margin=0.05, loss=0.25, **facts):
    """A reference that is the roofline, three candidates 0, 0.04 and 0.15 (compressed) above it, and preparations."""
    outputs = {REFERENCE: (0, {}), LOSS: (loss, {}), FAST: (0, {}), EASY: (0.04, {}), SLOW: (0.15, {})}
    preparation = {FAST: (0, {"one": 1.0, "nnz": 10.0}), EASY: (0, {"one": 0.01}), SLOW: (0, {"one": 0.002})}
    models = {"spmv-float32-warm": linear(inputs, outputs)}
    models["preparation-spmv-float32"] = linear(PREPARATION_INPUTS, preparation)
    return Selector(models, {"spmv-float32-warm": {"margin": margin, "unsure_loss": 0.2, **facts}})


@pytest.mark.parametrize(("rows", "outside"), [(199, True), (200, False), (4000, False), (4001, True)])
def test_sizes_far_from_those_measured_are_unsure(rows, outside):
    chooser = selector(loss=0.0, sizes={"rows": [400, 2000], "k": [1, 1]})
    choice = chooser.choose(FEATURES | {"spmv_num_rows": float(rows)}, "spmv")
    assert choice.unsure == outside
    assert choice.outside == (f"rows = {rows:,} (measured: 400 to 2,000)" if outside else "")


def test_sizes_are_of_no_concern_where_none_are_known():
    assert selector(loss=0.0).choose(FEATURES, "spmv").outside == ""


FEATURES = describe(MATRICES["random"] if "random" in MATRICES else next(iter(MATRICES.values())))


@pytest.mark.parametrize("name", MATRICES)
def test_inputs_of_any_matrix_are_finite(name):
    features = describe(MATRICES[name])
    one = model_inputs(features, 7)
    assert one.shape == (len(INPUTS),)
    assert np.isfinite(one).all()
    many = model_inputs({key: np.array([value, value]) for key, value in features.items()}, np.array([7, 7]))
    np.testing.assert_allclose(many, [one, one], rtol=1e-14, atol=1e-14)


def test_inputs_are_what_their_names_say():
    features = dict.fromkeys(FEATURES, 3.0) | {
        "spmv_num_rows": 7.0,
        "spmv_num_cols": 15.0,
        "spmv_nnz": 31.0,
        "spmv_nnz_per_row_mean": 4.0,
        "spmv_nnz_per_row_max": 8.0,
        "spmv_nnz_per_row_var": 9.0,
        "spmm_nnz_blocks_per_row_mean": 2.0,
    }
    found = dict(zip(INPUTS, model_inputs(features, 3.0), strict=True))
    exact = {"log_rows": 3, "log_cols": 4, "log_nnz": 5, "log_row_std": 2, "log_k": 2, "row_cov": np.log(4)}
    near = {"log_imbalance": 1, "log_block_fill": 1, "log_shape": np.log2(15 / 7), "log_longest_share": np.log2(8 / 31)}
    assert {name: found[name] for name in exact} == pytest.approx(exact)
    assert {name: found[name] for name in near} == pytest.approx(near, abs=1e-3)
    assert found["log_work"] == pytest.approx(np.log2(1 + 31 * 3))


def test_alignment_is_the_power_of_two_in_a_size():
    features = FEATURES | {"spmv_num_rows": 96.0, "spmv_num_cols": 5121.0}
    names = ("k_alignment", "rows_alignment", "cols_alignment")
    assert model_inputs(features, 8192, names).tolist() == [10, 5, 0]
    many = {name: np.array([value, value]) for name, value in features.items()}
    assert model_inputs(many, np.array([1, 12]), names).tolist() == [[0, 5, 0], [2, 5, 0]]


def test_features_of_spmm_are_needed_for_their_inputs_only():
    few = describe(MATRICES[next(iter(MATRICES))], ["spmv"])
    assert model_inputs(few, 1, SPMV_INPUTS).shape == (len(SPMV_INPUTS),)
    with pytest.raises(ParameterError, match="spmm_nnz_blocks_per_row_mean") as raised:
        model_inputs(few)
    assert raised.value.argument == "features"
    with pytest.raises(ParameterError, match="no input 'x'"):
        model_inputs(FEATURES, 1, ("x",))


@given(st.floats(0, 10))
def test_compression_is_undone(value):
    assert expand(compress(value)) == pytest.approx(value, abs=1e-12)
    assert compress(value) <= value + 1e-15


def test_compression_keeps_the_order_and_what_is_small():
    values = np.linspace(0, 5, 50)
    assert (np.diff(compress(values)) > 0).all()
    assert compress(0.001) == pytest.approx(0.001, rel=0.01)
    assert expand(-0.1) == 0


def test_roofline_grows_with_every_size():
    base = {"spmv_num_rows": 1e6, "spmv_num_cols": 1e6, "spmv_nnz": 1e7}
    least = roofline_us(base, 1, 4)
    # 1e7 entries of 8 bytes, 1e6 row pointers, x and y, at 4 bytes per picosecond: 23 us, with the launch.
    assert 20 < least < 35
    assert all(roofline_us(base | {name: 2 * base[name]}, 1, 4) > least for name in base)
    assert roofline_us(base, 8, 4) > least
    assert roofline_us(base, 1, 8) > least


def test_preparation_inputs():
    features = {"spmv_num_rows": 2e6, "spmv_num_cols": 3e6, "spmv_nnz": 4e6, "spmv_nnz_per_row_max": 5.0}
    assert dict(zip(PREPARATION_INPUTS, preparation_inputs(features), strict=True)) == pytest.approx(
        {"one": 1, "rows": 2, "cols": 3, "nnz": 4, "padded": 10}
    )


def test_the_fastest_comes_first():
    choice = selector().choose(FEATURES, "spmv")
    assert [prediction.candidate for prediction in choice.ranked] == [FAST, EASY, SLOW]
    bound = float(roofline_us(FEATURES, 1, 4))
    times = [prediction.time_us for prediction in choice.ranked]
    assert times == pytest.approx([bound, bound * np.exp(expand(0.04)), bound * np.exp(expand(0.15))], rel=1e-5)
    assert choice.candidate == FAST
    assert choice.expected_loss == pytest.approx(np.exp(0.25) - 1)


def test_preparation_is_weighed_against_calls():
    chosen = {calls: selector().choose(FEATURES, "spmv", calls=calls).ranked[0] for calls in (1, 100, 1e6)}
    assert [prediction.candidate for prediction in chosen.values()] == [SLOW, EASY, FAST]
    for calls, prediction in chosen.items():
        total = prediction.time_us + 1e3 * prediction.preparation_ms / calls
        assert prediction.total_us == pytest.approx(total)


def test_candidates_that_cannot_run_are_left_out():
    choice = selector().choose(FEATURES, "spmv", among=lambda name: name != FAST)
    assert [prediction.candidate for prediction in choice.ranked] == [EASY, SLOW]
    with pytest.raises(ParameterError, match="none of the candidates"):
        selector().choose(FEATURES, "spmv", among=lambda name: False).candidate  # noqa: B018


@pytest.mark.parametrize("calls", [None, 100])
def test_candidates_are_asked_about_once_and_only_if_it_matters(calls):
    asked = []
    choice = selector().choose(FEATURES, "spmv", calls=calls, among=lambda name: asked.append(name) or name != FAST)
    assert not asked
    assert choice.candidate == EASY
    assert asked == [FAST, EASY] if calls is None else [EASY]
    assert choice.prediction() == choice.ranked[0]
    assert sorted(asked) == sorted([FAST, EASY, SLOW])
    assert list(choice.names()) == [prediction.candidate for prediction in choice.ranked]
    assert len(asked) == 3


def test_the_short_list_is_within_the_margin():
    assert selector(margin=0.05).choose(FEATURES, "spmv").shortlist == (FAST, EASY)
    assert selector(margin=0.01).choose(FEATURES, "spmv").shortlist == (FAST,)
    assert selector(margin=1.0).choose(FEATURES, "spmv").shortlist == (FAST, EASY, SLOW)
    assert selector(margin=0.05).choose(FEATURES, "spmv", among=lambda n: n != FAST).shortlist == (EASY,)


def test_unsure():
    assert selector(loss=0.25).choose(FEATURES, "spmv").unsure
    assert not selector(loss=0.15).choose(FEATURES, "spmv").unsure


def test_what_features_are_needed():
    assert selector().feature_sets("spmv", "float32") == ("spmv",)
    assert selector(INPUTS).feature_sets("spmv", "float32") == ("spmm", "spmv")


def test_wrong_arguments_are_refused():
    for arguments in ({"dtype": "float64"}, {"cache": "cold"}, {"layout": "row"}):
        with pytest.raises(ParameterError, match="only spmv-float32-warm"):
            selector().choose(FEATURES, "spmv", **arguments)
    for calls in (0, -1, float("nan")):
        with pytest.raises(ParameterError) as raised:
            selector().choose(FEATURES, "spmv", calls=calls)
        assert raised.value.argument == "calls"


def test_model_names():
    assert model_name("spmv", "float32", "", "warm") == "spmv-float32-warm"
    assert model_name("spmm", "float32", "row", "cold") == "spmm-float32-row-cold"


def test_no_library_that_trains_is_imported():
    code = (
        "import sys, warploom.prediction; "
        "print([name for name in ('sklearn', 'torch', 'lightgbm', 'pandas', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

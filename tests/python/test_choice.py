"""Choosing by the models of a profile: what is asked, in which order, and how much is known."""

import numpy as np
import pytest
import scipy.sparse

import warploom as wl
from warploom import _core, features, profiles
from warploom.errors import ParameterError, ProfileError
from warploom.model_inputs import INPUTS, LOSS, PREPARATION_INPUTS, REFERENCE, SPMV_INPUTS, expand, roofline_us
from warploom.predictor import Model
from warploom.profiles import Profile

FAST, EASY, SLOW = "spmv/none/sell/vector", "spmv/none/csr/vector", "spmv/none/csr/scalar"
SPMV = dict.fromkeys(features.names("spmv"), 3.0) | {"num_rows": 500.0, "num_cols": 400.0, "nnz": 2000.0}


def given(**changes):
    """Return features of a matrix."""
    return _core.MatrixFeatures(np.array(list((SPMV | changes).values())), np.full(24, 2.0))


FEATURES = given()
BOUND = float(roofline_us({f"spmv_{name}": value for name, value in SPMV.items()}, 1, 4))


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
    limit = {} if "unsure_doubt" in facts else {"unsure_loss": 0.2}
    metrics = {"selectors": {"spmv-float32-warm": {"margin": margin, **limit, **facts}}}
    return Profile("NVIDIA H200", (9, 0), "13.0", models, metrics=metrics).selector()


def profile_of(scores, loss=0.1, inputs=SPMV_INPUTS, data_hash="same", gpu="NVIDIA H200", blend=None):
    """A profile of three candidates with scores that depend on one of the inputs."""
    outputs = {REFERENCE: (0.5, {}), LOSS: (loss, {})} | {
        name: (score, {"log_nnz": 0.01}) for name, score in scores.items()
    }
    models = {"spmv-float32-warm": linear(inputs, outputs)}
    models["preparation-spmv-float32"] = linear(PREPARATION_INPUTS, {name: (0, {"one": 1.0}) for name in scores})
    metrics = {"selectors": {"spmv-float32-warm": {"margin": 0.05, "unsure_doubt": 1.0}}}
    metrics |= {} if blend is None else {"blend": {"spmv-float32-warm": blend}}
    return Profile(gpu, (9, 0), "13.0", models, data_hash=data_hash, metrics=metrics)


BLEND = {"share": 0.25, "margin": 0.3, "unsure_doubt": 0.01}
OF_TREES = {FAST: 0.0, EASY: 0.04, SLOW: 0.15}
OF_NETWORK = {SLOW: 0.0, FAST: 0.4, EASY: 0.08}  # in another order


def test_a_network_counts_by_its_share():
    trees, networks = profile_of(OF_TREES, 0.1), profile_of(OF_NETWORK, 0.3, SPMV_INPUTS[::-1], blend=BLEND)
    alone, other = (one.selector().choose(FEATURES, "spmv") for one in (trees, networks))
    both = trees.selector(networks).choose(FEATURES, "spmv")
    expected = 0.75 * alone.scores + 0.25 * other.scores[[other.candidates.index(name) for name in alone.candidates]]
    np.testing.assert_allclose(both.scores, expected, rtol=1e-6)
    assert both.candidate == EASY != alone.candidate
    assert np.log1p(both.expected_loss) == pytest.approx(0.75 * 0.1 + 0.25 * 0.3)
    assert (both.margin, both.share_of_network) == (0.3, 0.25)
    assert both.unsure
    assert not alone.unsure
    assert alone.share_of_network == 0


@pytest.mark.parametrize("change", [{"data_hash": "another"}, {"gpu": "NVIDIA H100"}, {"blend": None}])
def test_networks_of_other_measurements_do_not_count(change):
    trees, networks = profile_of(OF_TREES), profile_of(OF_NETWORK, **{"blend": BLEND} | change)
    choice = trees.selector(networks).choose(FEATURES, "spmv")
    assert choice.share_of_network == 0
    assert choice.scores.tolist() == trees.selector().choose(FEATURES, "spmv").scores.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blend": BLEND | {"share": 1.5}}, "share"),
        ({"blend": {"share": 0.5, "margin": 0.1}}, "unsure_doubt"),
        ({"scores": {FAST: 0.0, SLOW: 0.1}}, "does not know"),
        ({"inputs": INPUTS}, "which trees do not"),
    ],
)
def test_networks_that_do_not_fit_are_refused(change, message):
    networks = profile_of(**{"scores": OF_NETWORK, "blend": BLEND} | change)
    with pytest.raises(ProfileError, match=message):
        profile_of(OF_TREES).selector(networks)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Profiles of trees and of networks for a GPU that none is shipped for."""
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path))
    (tmp_path / "network").mkdir()
    profiles.save(tmp_path / "some.safetensors", profile_of(OF_TREES, gpu="Some GPU"))
    profiles.save(tmp_path / "network" / "some.safetensors", profile_of(OF_NETWORK, gpu="Some GPU", blend=BLEND))
    return tmp_path


def table(model=None):
    A = scipy.sparse.random_array(
        (3000, 3000), density=0.01, format="csr", rng=np.random.default_rng(0), dtype=np.float32
    )
    return str(wl.predict(A, "spmv", gpu="Some GPU", calls=np.inf, model=model))


NOTE = "predicted by trees (75%) and a network (25%)"


@pytest.mark.parametrize("model", [None, "blend"])
def test_plans_take_the_blend_by_default_and_say_so(folder, model):
    assert NOTE in table(model)
    assert all("trees" not in table(one) for one in ("trees", "network"))


def test_trees_that_were_calibrated_since_choose_alone(folder):
    profiles.save(folder / "some.safetensors", profile_of(OF_TREES, gpu="Some GPU", data_hash="calibrated"))
    assert NOTE not in table()


def test_a_plan_is_told_from_one_by_another_network(folder):
    before, of_trees = (profiles.fingerprint("Some GPU", model) for model in ("blend", "trees"))
    assert before["model"] == "blend"
    profiles.save(folder / "network" / "some.safetensors", profile_of(OF_NETWORK, 0.7, gpu="Some GPU", blend=BLEND))
    after = profiles.fingerprint("Some GPU", "blend")
    assert after["data_hash"] == before["data_hash"]
    assert after["digest"] != before["digest"]
    assert profiles.fingerprint("Some GPU", "trees") == of_trees


def test_what_decides_a_blend_is_named():
    trees = profile_of(OF_TREES)
    networks = profile_of(OF_NETWORK, blend=BLEND)
    weight = networks.models["spmv-float32-warm"].arrays["layer.0.weight"]
    weight[0, 2 + list(OF_NETWORK).index(SLOW), SPMV_INPUTS.index("log_rows")] = 0.5
    networks.models["spmv-float32-warm"] = Model(
        "network",
        SPMV_INPUTS,
        networks.models["spmv-float32-warm"].outputs,
        {"activation": "identity", "output": "identity"},
        dict(networks.models["spmv-float32-warm"].arrays),
    )
    chooser = trees.selector(networks)
    choice = chooser.choose(FEATURES, "spmv", among=lambda name: name in (FAST, SLOW))
    assert chooser.deciding_inputs(FEATURES, choice, "spmv")[0] == "log_rows"
    alone = trees.selector()
    assert alone.deciding_inputs(FEATURES, alone.choose(FEATURES, "spmv"), "spmv") == []


@pytest.mark.parametrize(("rows", "outside"), [(199, True), (200, False), (4000, False), (4001, True)])
def test_sizes_far_from_those_measured_are_unsure(rows, outside):
    chooser = selector(loss=0.0, sizes={"rows": [400, 2000], "k": [1, 1]})
    choice = chooser.choose(given(num_rows=float(rows)), "spmv")
    assert choice.unsure == outside
    assert choice.outside == (f"rows = {rows:,} (measured: 400 to 2,000)" if outside else "")


def test_sizes_are_of_no_concern_where_none_are_known():
    assert selector(loss=0.0).choose(FEATURES, "spmv").outside == ""


def test_the_fastest_comes_first():
    choice = selector().choose(FEATURES, "spmv")
    assert [prediction.candidate for prediction in choice.ranked] == [FAST, EASY, SLOW]
    times = [prediction.time_us for prediction in choice.ranked]
    assert times == pytest.approx([BOUND, BOUND * np.exp(expand(0.04)), BOUND * np.exp(expand(0.15))], rel=1e-5)
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


def test_doubt_is_the_expected_loss_times_how_many_are_near():
    near = np.exp(-0.04 / 0.05) + np.exp(-0.15 / 0.05)
    assert selector().choose(FEATURES, "spmv").doubt == pytest.approx(0.25 * near, rel=1e-5)
    assert selector(unsure_doubt=0.12).choose(FEATURES, "spmv").unsure
    assert not selector(unsure_doubt=0.13).choose(FEATURES, "spmv").unsure
    assert not selector(unsure_doubt=0.12).choose(FEATURES, "spmv", among=lambda name: name != EASY).unsure


def test_what_features_are_needed():
    assert selector().feature_sets("spmv", "float32") == ("spmv",)
    assert selector(INPUTS).feature_sets("spmv", "float32") == ("spmm", "spmv")


def test_wrong_arguments_are_refused():
    for arguments in ({"dtype": "float64"}, {"cache": "cold"}):
        with pytest.raises(ParameterError, match="only spmv-float32-warm"):
            selector().choose(FEATURES, "spmv", **arguments)
    for calls in (0, -1, float("nan")):
        with pytest.raises(ParameterError) as raised:
            selector().choose(FEATURES, "spmv", calls=calls)
        assert raised.value.argument == "calls"
    with pytest.raises(ParameterError, match="features of spmv are 3, not 11"):
        selector().choose(_core.MatrixFeatures(np.ones(3)), "spmv")
    with pytest.raises(ParameterError, match="features of spmm are 0, not 24"):
        selector(INPUTS).choose(_core.MatrixFeatures(np.array(FEATURES.spmv)), "spmv")


def test_an_error_of_the_caller_is_passed_on():
    def among(name):
        raise KeyError(name)

    with pytest.raises(KeyError, match="sell"):
        selector().choose(FEATURES, "spmv", among=among).candidate  # noqa: B018


def test_inputs_that_decide():
    chooser = selector()
    assert chooser.deciding_inputs(FEATURES, chooser.choose(FEATURES, "spmv"), "spmv") == []  # all constant


def test_a_profile_without_selectors():
    assert selector().names() == ["spmv-float32-warm"]
    with pytest.raises(ProfileError, match="no selectors") as caught:
        Profile("NVIDIA H200", (9, 0), "13.0", {}).selector()
    assert caught.value.argument == "metrics"


@pytest.mark.parametrize("op", ["spmm", "spmv"])
def test_shipped_profiles_choose(op):
    found = profiles.find("NVIDIA H200")
    assert found is not None
    chooser = found.profile.selector()
    layout = "row" if op == "spmm" else ""
    choice = chooser.choose(FEATURES, op, 16 if op == "spmm" else 1, layout=layout)
    assert choice.candidate.startswith(op)
    decided = chooser.deciding_inputs(FEATURES, choice, op, 16 if op == "spmm" else 1, layout=layout)
    assert 0 < len(decided) <= 5
    assert set(decided) <= set(INPUTS)

"""Models of arrays: predictions, what a model refuses. The trainers' own models are in training/test_export.py."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from warploom import features, profiles
from warploom.errors import ParameterError, ProfileError, ShapeError
from warploom.predictor import MAX_STORED_VECTORS, Model, StoredVectors, kinds

TOY = profiles.load(Path(__file__).parents[1] / "data" / "toy-profile.safetensors")


def linear(weight, bias, *, inputs=None, output="identity", **changes):
    """Return the model x W^T + b."""
    weight = np.asarray(weight, np.float32)
    arrays = {
        "layer.0.weight": weight[np.newaxis],
        "layer.0.bias": np.asarray(bias, np.float32)[np.newaxis],
        "input.mean": np.zeros(weight.shape[1]),
        "input.scale": np.ones(weight.shape[1]),
        **changes,
    }
    names = inputs or [f"x{i}" for i in range(weight.shape[1])]
    outputs = [f"y{i}" for i in range(2 if output == "logistic" else len(weight))]
    return Model("network", names, outputs, {"activation": "relu", "output": output}, arrays)


def test_kinds():
    assert kinds() == ("network", "tree_ensemble")
    assert {model.kind for model in TOY.models.values()} == set(kinds())


def test_predicts_one_row_for_each_row():
    model = linear([[1, 2], [0, -1], [4, 0]], [0, 1, 2])
    X = np.array([[1.0, 1.0], [3.0, -0.5]])
    assert model.predict(X).tolist() == [[3, 0, 6], [2, 1.5, 14]]
    assert model.predict(X.tolist()).tolist() == model.predict(X).tolist()
    assert model.predict(np.empty((0, 2))).shape == (0, 3)
    strided = np.asfortranarray(np.repeat(X, 2, axis=0))[::2]
    assert model.predict(strided).tolist() == model.predict(X).tolist()


def test_takes_features_by_name():
    A = scipy.sparse.random_array((30, 20), density=0.1, format="csr", rng=np.random.default_rng(0))
    vector = features.spmv(A)
    model = linear([[1, 0], [0, 10]], [0, 0], inputs=["nnz", "num_rows"])
    assert model.predict(vector).tolist() == [[vector["nnz"], 10 * vector["num_rows"]]]
    everything = linear(np.eye(11), np.zeros(11), inputs=features.names("spmv"))
    np.testing.assert_allclose(everything.predict(vector)[0], vector.as_array(), rtol=1e-7)
    with pytest.raises(ParameterError, match="spmm features lack the model's input 'nnz'"):
        model.predict(features.spmm(A))


@pytest.mark.parametrize("shape", [(2,), (2, 3), (1, 2, 2)])
def test_refuses_other_shapes(shape):
    with pytest.raises(ShapeError, match="takes \\[n, 2\\]") as caught:
        linear([[1, 2]], [0]).predict(np.zeros(shape))
    assert caught.value.argument == "X"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", TOY.models)
def test_refuses_values_that_are_not_finite(value, name):
    X = np.ones((3, 5))
    X[1, 2] = value
    with pytest.raises(ParameterError, match="finite") as caught:
        TOY.models[name].predict(X)
    assert caught.value.position == 7


def test_spread_is_that_of_the_members():
    members = np.array([[[1.0]], [[2.0]], [[6.0]]], np.float32)
    arrays = {"layer.0.weight": members, "layer.0.bias": np.zeros((3, 1), np.float32)}
    model = linear([[0]], [0], output="exp", **arrays)
    outputs, spread = model.predict_with_spread([[0.5]])
    assert model.has_spread
    np.testing.assert_allclose(outputs, [[np.exp(1.5)]], rtol=1e-15)
    np.testing.assert_allclose(spread, [[np.std([0.5, 1, 3])]], rtol=1e-15)
    assert (outputs == model.predict([[0.5]])).all()


def test_a_model_of_one_member_has_no_spread():
    assert not TOY.models["boosting"].has_spread
    with pytest.raises(ParameterError, match="one member"):
        TOY.models["boosting"].predict_with_spread(np.zeros((1, 5)))


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"layer.0.weight": np.zeros((1, 1, 2))}, "layer.0.weight"),  # float64
        ({"layer.0.weight": np.zeros((1, 1, 3), np.float32)}, "layer.0.weight"),
        ({"layer.0.weight": np.zeros((2, 1), np.float32)}, "layer.0.weight"),
        ({"layer.0.weight": np.zeros((1, 0, 2), np.float32)}, "layer.0.weight"),
        ({"layer.0.weight": np.zeros((1, 2, 1), np.float32).transpose(0, 2, 1)[:, :, ::-1]}, "layer.0.weight"),
        ({"layer.0.bias": np.full((1, 1), np.nan, np.float32)}, "layer.0.bias"),
        ({"layer.0.bias": np.zeros((1, 2), np.float32)}, "layer.0.bias"),
        ({"layer.1.weight": np.zeros((1, 1, 2), np.float32)}, "layer.1.weight"),
        ({"input.scale": np.array([1.0, -1.0])}, "input.scale"),
        ({"input.mean": np.zeros(2, np.complex128)}, "input.mean"),
        ({"output.mean": np.zeros(1)}, "output.scale"),
        ({"surprise": np.zeros(1)}, "surprise"),
    ],
)
def test_refuses_arrays_that_do_not_fit(changes, argument):
    with pytest.raises(ProfileError, match=argument) as caught:
        linear([[1, 2]], [0], **changes)
    assert caught.value.argument == argument


def test_refuses_unfit_names():
    arrays = dict(linear([[1, 2]], [0]).arrays)
    settings = {"activation": "relu", "output": "identity"}
    for inputs, outputs, argument in (
        (["a", "a"], ["y"], "inputs"),
        (["a", ""], ["y"], "inputs"),
        (["a", "b"], ["y", "z"], "outputs"),
        (["a", "b"], [], "outputs"),
    ):
        with pytest.raises(ProfileError) as caught:
            Model("network", inputs, outputs, settings, arrays)
        assert caught.value.argument == argument
    with pytest.raises(ProfileError, match=r"layer\.0\.weight"):
        Model("network", ["a"], ["y"], settings, arrays | {"input.mean": np.zeros(1), "input.scale": np.ones(1)})


def with_check(model, check):
    return Model(model.kind, model.inputs, model.outputs, model.settings, model.arrays, check)


@pytest.mark.parametrize("name", TOY.models)
def test_stored_vectors_are_verified(name):
    model = TOY.models[name]
    np.testing.assert_allclose(model.predict(model.check.inputs), model.check.outputs, rtol=1e-6)
    wrong = model.check.outputs.copy()
    wrong[5, -1] += 3e-6 * np.abs(wrong[5]).max()
    with pytest.raises(ProfileError, match="stored for vector 5") as caught:
        with_check(model, StoredVectors(model.check.inputs, wrong))
    assert caught.value.position == 5


def test_stored_vectors_of_trees_are_exact():
    model = TOY.models["forest"]
    with pytest.raises(ProfileError, match="vector 0"):
        with_check(model, StoredVectors(model.check.inputs, np.nextafter(model.check.outputs, np.inf)))


def test_refuses_stored_vectors_that_do_not_fit():
    model = linear([[1, 2]], [0])
    for inputs, outputs in (
        (np.zeros((2, 3)), np.zeros((2, 1))),
        (np.zeros((2, 2)), np.zeros((1, 1))),
        (np.zeros((0, 2)), np.zeros((0, 1))),
        (np.zeros((MAX_STORED_VECTORS + 1, 2)), np.zeros((MAX_STORED_VECTORS + 1, 1))),
        (np.full((1, 2), np.nan), np.zeros((1, 1))),
        (np.zeros((1, 2)), np.full((1, 1), np.nan)),
    ):
        with pytest.raises(ProfileError, match="stored vector"):
            with_check(model, StoredVectors(inputs, outputs))


def test_models_know_their_names():
    model = linear([[1, 2]], [0])
    assert (model.inputs, model.outputs) == (("x0", "x1"), ("y0",))
    assert repr(model) == "Model('network', 2 inputs, 1 outputs)"

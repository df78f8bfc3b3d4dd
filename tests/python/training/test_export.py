"""Exported models predict what the libraries predict: trees bit for bit, networks within 1e-6."""

import numpy as np
import pytest

from warploom import profiles
from warploom.errors import ParameterError, ProfileError
from warploom.training import export

INPUTS = [f"x{i}" for i in range(6)]
RNG = np.random.default_rng(0)
# Inputs as features are: of very different sizes, some of few values.
X = np.column_stack([RNG.lognormal(0, 4, (400, 4)), RNG.integers(0, 5, 400), -RNG.random(400) / 3])
Y = np.column_stack([np.log(X[:, 0] + X[:, 1]), X[:, 4] * X[:, 5], np.sin(X[:, 2])])
CLASSES = np.digitize(Y[:, 0] + Y[:, 1], [-2, 0, 3])


def at_thresholds(model):
    """Return inputs that sit at thresholds, and at the neighbours of thresholds in float64 and float32."""
    inner = model.arrays["node.feature"] >= 0
    features, thresholds = model.arrays["node.feature"][inner], model.arrays["node.threshold"][inner]
    rows = np.repeat(RNG.permutation(X)[:100], 5, axis=0)
    for column in range(X.shape[1]):
        of_column = thresholds[features == column]
        if len(of_column) == 0:
            continue
        exact = RNG.choice(of_column, 100)
        rounded = exact.astype(np.float32)
        rows[0::5, column] = exact
        rows[1::5, column] = np.nextafter(exact, np.inf)
        rows[2::5, column] = np.nextafter(exact, -np.inf)
        rows[3::5, column] = rounded
        rows[4::5, column] = np.nextafter(rounded, RNG.choice(np.array([-np.inf, np.inf], np.float32), 100))
    return np.vstack([X, rows])


def assert_same(model, predict):
    """Compare bit for bit."""
    rows = at_thresholds(model)
    expected = predict(rows)
    np.testing.assert_array_equal(model.predict(rows), expected.reshape(len(rows), -1))


def saved_and_loaded(model, tmp_path):
    profiles.save(tmp_path / "p", profiles.Profile("GPU", (9, 0), "13.0", {"model": model}))
    return profiles.load(tmp_path / "p").models["model"]


class TestScikitLearn:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("sklearn")

    @pytest.mark.parametrize("depth", [None, 4, 1])
    @pytest.mark.parametrize("targets", [Y, Y[:, 0]], ids=["three outputs", "one output"])
    @pytest.mark.parametrize("name", ["DecisionTreeRegressor", "ExtraTreeRegressor"])
    def test_single_regression_trees(self, name, targets, depth):
        from sklearn import tree

        trained = getattr(tree, name)(max_depth=depth, random_state=0).fit(X, targets)
        assert_same(export.from_sklearn_tree(trained, INPUTS, check=X[:16]), trained.predict)

    def test_single_classification_tree(self):
        from sklearn.tree import DecisionTreeClassifier

        trained = DecisionTreeClassifier(max_depth=5, random_state=0).fit(X, CLASSES)
        model = export.from_sklearn_tree(trained, INPUTS, check=X[:16])
        assert model.outputs == ("0", "1", "2", "3")
        assert_same(model, trained.predict_proba)

    def test_a_tree_of_one_leaf(self):
        from sklearn.tree import DecisionTreeRegressor

        trained = DecisionTreeRegressor().fit(X, np.full(len(X), 0.1))
        model = export.from_sklearn_tree(trained, INPUTS)
        np.testing.assert_array_equal(model.predict(X)[:, 0], trained.predict(X))

    @pytest.mark.parametrize("name", ["RandomForestRegressor", "ExtraTreesRegressor"])
    def test_regression_forests_and_their_spread(self, name, tmp_path):
        from sklearn import ensemble

        trained = getattr(ensemble, name)(21, random_state=0).fit(X, Y)
        model = export.from_sklearn_forest(trained, INPUTS, ["a", "b", "c"], check=X[:16])
        assert_same(model, trained.predict)
        outputs, spread = model.predict_with_spread(X)
        of_trees = np.stack([tree.predict(X) for tree in trained.estimators_])
        np.testing.assert_allclose(spread, of_trees.std(axis=0), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(saved_and_loaded(model, tmp_path).predict(X), outputs)

    @pytest.mark.parametrize("name", ["RandomForestClassifier", "ExtraTreesClassifier"])
    def test_classification_forests(self, name):
        from sklearn import ensemble

        trained = getattr(ensemble, name)(17, random_state=0).fit(X, CLASSES)
        assert_same(export.from_sklearn_forest(trained, INPUTS, check=X[:16]), trained.predict_proba)

    def test_a_forest_of_logarithms(self):
        from sklearn.ensemble import RandomForestRegressor

        trained = RandomForestRegressor(5, random_state=0).fit(X, Y)
        model = export.from_sklearn_forest(trained, INPUTS, output="exp", check=X[:16])
        np.testing.assert_allclose(model.predict(X), np.exp(trained.predict(X)), rtol=1e-14)

    @pytest.mark.parametrize("init", [None, "zero"])
    @pytest.mark.parametrize("loss", ["squared_error", "quantile"])
    def test_gradient_boosting_of_a_regression(self, loss, init):
        from sklearn.ensemble import GradientBoostingRegressor

        trained = GradientBoostingRegressor(loss=loss, init=init, n_estimators=20, random_state=0).fit(X, Y[:, 0])
        assert_same(export.from_sklearn_gradient_boosting(trained, INPUTS, ["y"], check=X[:16]), trained.predict)

    @pytest.mark.parametrize("classes", [CLASSES, CLASSES > 1], ids=["four", "two"])
    def test_gradient_boosting_of_a_classification(self, classes):
        from sklearn.ensemble import GradientBoostingClassifier

        trained = GradientBoostingClassifier(n_estimators=8, random_state=0).fit(X, classes)
        scores = export.from_sklearn_gradient_boosting(trained, INPUTS, output="identity", check=X[:16])
        assert_same(scores, trained.decision_function)
        model = export.from_sklearn_gradient_boosting(trained, INPUTS, check=X[:16])
        np.testing.assert_allclose(model.predict(X), trained.predict_proba(X), rtol=1e-13, atol=1e-15)

    def test_refuses_what_it_cannot_express(self):
        from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
        from sklearn.linear_model import LinearRegression
        from sklearn.tree import DecisionTreeClassifier

        boosted = GradientBoostingRegressor(init=LinearRegression(), n_estimators=2).fit(X, Y[:, 0])
        with pytest.raises(ParameterError, match="initial prediction"):
            export.from_sklearn_gradient_boosting(boosted, INPUTS)
        boosted = GradientBoostingClassifier(loss="exponential", n_estimators=2).fit(X, CLASSES > 1)
        with pytest.raises(ParameterError, match="exponential"):
            export.from_sklearn_gradient_boosting(boosted, INPUTS)
        tree = DecisionTreeClassifier(max_depth=2).fit(X, np.column_stack([CLASSES, CLASSES]))
        with pytest.raises(ParameterError, match="several targets"):
            export.from_sklearn_tree(tree, INPUTS)
        with pytest.raises(ParameterError, match="1 to 16 vectors"):
            export.from_sklearn_tree(DecisionTreeClassifier(max_depth=2).fit(X, CLASSES), INPUTS, check=X[:17])
        with pytest.raises(ProfileError, match=r"node\.feature"):
            export.from_sklearn_tree(DecisionTreeClassifier().fit(X, CLASSES), INPUTS[:2])


class TestLightGBM:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("lightgbm")

    @staticmethod
    def train(labels, rounds=15, categories="auto", **parameters):
        import lightgbm

        parameters = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5, "seed": 0, **parameters}
        data = lightgbm.Dataset(X, labels, feature_name=INPUTS, categorical_feature=categories)
        return lightgbm.train(parameters, data, rounds)

    @pytest.mark.parametrize(
        "parameters",
        [
            {"objective": "regression"},
            {"objective": "regression_l1", "num_leaves": 200, "min_data_in_leaf": 1},
            {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
            {"objective": "huber", "boosting": "dart"},
            {"objective": "mape"},
        ],
        ids=lambda parameters: parameters.get("boosting", parameters["objective"]),
    )
    def test_regression(self, parameters, tmp_path):
        booster = self.train(Y[:, 0], **parameters)
        model = export.from_lightgbm(booster, ["time"], check=X[:16])
        assert model.inputs == tuple(INPUTS)
        assert_same(model, booster.predict)
        np.testing.assert_array_equal(saved_and_loaded(model, tmp_path).predict(X)[:, 0], booster.predict(X))

    def test_positive_targets(self):
        booster = self.train(np.exp(Y[:, 1]), objective="gamma")
        model = export.from_lightgbm(booster, check=X[:16])
        np.testing.assert_allclose(model.predict(X)[:, 0], booster.predict(X), rtol=1e-14)

    def test_classification(self):
        booster = self.train(CLASSES, objective="multiclass", num_class=4)
        scores = export.from_lightgbm(booster, output="identity", check=X[:16])
        assert_same(scores, lambda rows: booster.predict(rows, raw_score=True))
        model = export.from_lightgbm(booster, check=X[:16])
        np.testing.assert_allclose(model.predict(X), booster.predict(X), rtol=1e-13)

    def test_two_classes(self):
        booster = self.train(CLASSES > 1, objective="binary")
        model = export.from_lightgbm(booster, ["no", "yes"], check=X[:16])
        np.testing.assert_allclose(model.predict(X)[:, 1], booster.predict(X), rtol=1e-13)

    def test_zeros_are_zeros(self):
        booster = self.train(Y[:, 0], objective="regression")
        model = export.from_lightgbm(booster)
        tiny = np.float64(np.float32(1e-35))
        rows = np.repeat(X[:30], 5, axis=0)
        for shift, value in enumerate((0.0, -0.0, tiny, -tiny, np.nextafter(tiny, 1))):
            rows[shift::5] = np.where(RNG.random((30, 6)) < 0.5, value, rows[shift::5])
        np.testing.assert_array_equal(model.predict(rows)[:, 0], booster.predict(rows))

    def test_only_the_best_iterations(self):
        booster = self.train(Y[:, 0], objective="regression")
        booster.best_iteration = 4
        model = export.from_lightgbm(booster, check=X[:16])
        assert len(model.arrays["tree.score"]) == 4
        assert_same(model, booster.predict)

    def test_refuses_what_it_cannot_express(self):
        with pytest.raises(ParameterError, match="linear trees"):
            export.from_lightgbm(self.train(Y[:, 0], linear_tree=True))
        with pytest.raises(ParameterError, match="categories"):
            export.from_lightgbm(self.train(Y[:, 1], categories=[4], min_data_per_group=1, cat_smooth=0))
        with pytest.raises(ParameterError, match="categories and zeros"):
            export.from_lightgbm(self.train(Y[:, 0], zero_as_missing=True))
        with pytest.raises(ParameterError, match="objective 'cross_entropy'"):
            export.from_lightgbm(self.train(CLASSES > 1, objective="cross_entropy"))


class TestPyTorch:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("torch")

    @staticmethod
    def network(activation="ReLU", outputs=4, seed=0):
        from torch import manual_seed, nn

        manual_seed(seed)
        act = getattr(nn, activation)
        return nn.Sequential(nn.Linear(6, 64), act(), nn.Dropout(0.5), nn.Linear(64, 32), act(), nn.Linear(32, outputs))

    STANDARD = {  # noqa: RUF012
        "mean": np.sign(X).mean(axis=0),
        "scale": np.log1p(np.abs(X)).std(axis=0),
        "log_unit": np.array([1, 0.5, 1, 1e-3, 0, 1]),
    }

    def rows(self):
        """Return the transformed inputs, written out, in float32."""
        transformed = np.sign(X) * np.log1p(
            np.abs(X) / np.where(self.STANDARD["log_unit"], self.STANDARD["log_unit"], 1)
        )
        transformed[:, 4] = X[:, 4]
        return ((transformed - self.STANDARD["mean"]) / self.STANDARD["scale"]).astype(np.float32)

    def forward(self, network):
        import torch

        with torch.no_grad():
            return network.eval()(torch.from_numpy(self.rows())).numpy().astype(np.float64)

    @pytest.mark.parametrize("activation", ["ReLU", "Tanh"])
    def test_network(self, activation, tmp_path):
        network = self.network(activation)
        outputs = ["csr", "dcsr", "lpt", "warp-aware"]
        model = export.from_torch_sequential(network, INPUTS, outputs, **self.STANDARD, check=X[:16])
        expected = self.forward(network)
        error = np.abs(model.predict(X) - expected) / np.abs(expected).max(axis=1, keepdims=True)
        assert error.max() <= 1e-6
        np.testing.assert_array_equal(saved_and_loaded(model, tmp_path).predict(X), model.predict(X))

    def test_classifier(self):
        import torch

        network = self.network()
        model = export.from_torch_sequential(
            network, INPUTS, list("abcd"), **self.STANDARD, output="softmax", check=X[:16]
        )
        expected = torch.softmax(torch.from_numpy(self.forward(network)), 1).numpy()
        np.testing.assert_allclose(model.predict(X), expected, rtol=2e-6, atol=1e-7)
        np.testing.assert_allclose(model.predict(X).sum(axis=1), 1, rtol=1e-14)

    def test_two_classes(self):
        network = self.network(outputs=1)
        model = export.from_torch_sequential(
            network, INPUTS, ["no", "yes"], **self.STANDARD, output="logistic", check=X[:16]
        )
        np.testing.assert_allclose(model.predict(X)[:, 1], 1 / (1 + np.exp(-self.forward(network)[:, 0])), rtol=1e-6)

    def test_several_networks_of_scaled_logarithms(self):
        networks = [self.network(seed=seed) for seed in range(3)]
        mean, scale = np.array([1.0, 2, 3, 4]), np.array([0.5, 1, 1, 2])
        model = export.from_torch_sequential(
            networks,
            INPUTS,
            list("abcd"),
            **self.STANDARD,
            output_mean=mean,
            output_scale=scale,
            output="exp",
            check=X[:16],
        )
        members = mean + scale * np.stack([self.forward(network) for network in networks])
        outputs, spread = model.predict_with_spread(X)
        np.testing.assert_allclose(outputs, np.exp(members.mean(axis=0)), rtol=3e-6)
        np.testing.assert_allclose(spread, members.std(axis=0), rtol=1e-4, atol=1e-6)

    def test_layers_without_activation_or_bias(self):
        from torch import nn

        network = nn.Sequential(nn.Linear(6, 3, bias=False), nn.Identity(), nn.Linear(3, 2))
        model = export.from_torch_sequential(network, INPUTS, ["a", "b"], **self.STANDARD, check=X[:16])
        assert model.settings["activation"] == "identity"
        expected = self.forward(network)
        np.testing.assert_allclose(model.predict(X), expected, rtol=0, atol=1e-6 * np.abs(expected).max())

    def test_refuses_what_it_cannot_express(self):
        from torch import nn

        for layers in (
            [nn.Linear(6, 4), nn.Sigmoid(), nn.Linear(4, 2)],
            [nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)],
            [nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 2)],
            [nn.Linear(6, 2), nn.ReLU()],
            [nn.Linear(6, 4), nn.Tanh(), nn.ReLU(), nn.Linear(4, 2)],
            [nn.ReLU(), nn.Linear(6, 2)],
            [],
        ):
            with pytest.raises(ParameterError):
                export.from_torch_sequential(nn.Sequential(*layers), INPUTS, ["a", "b"], **self.STANDARD)
        networks = [self.network(), self.network("Tanh")]
        with pytest.raises(ParameterError, match="differ"):
            export.from_torch_sequential(networks, INPUTS, list("abcd"), **self.STANDARD)

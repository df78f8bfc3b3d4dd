import numpy as np
import pytest

from warploom.training.network import NetworkOptions, fit_classes, fit_times

torch = pytest.importorskip("torch")

OPTIONS = NetworkOptions(hidden=(16,), epochs=60, rate=1e-2)
INPUTS, OUTPUTS = ("size", "width"), ("fast", "slow")


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    return 2 ** random.uniform(0, 16, (200, 2))


def times(X):
    """Power laws: straight lines in the logarithms that the network sees."""
    return np.stack([3 + X[:, 0] / 10, 5 + X[:, 1] ** 0.5], axis=1)


def test_times_are_learnt_over_orders_of_magnitude(rows):
    model = fit_times(rows, times(rows), np.ones(200), INPUTS, OUTPUTS, OPTIONS)
    other = 2 ** np.random.default_rng(1).uniform(1, 15, (100, 2))
    errors = np.abs(model.predict(other) / times(other) - 1)
    assert errors.mean() < 0.1
    assert (model.kind, model.inputs, model.outputs) == ("network", INPUTS, OUTPUTS)


def test_classes_are_learnt(rows):
    classes = (rows[:, 0] > rows[:, 1]).astype(np.intp)
    model = fit_classes(rows, classes, np.ones(200), INPUTS, OUTPUTS, OPTIONS)
    predicted = model.predict(rows)
    np.testing.assert_allclose(predicted.sum(axis=1), 1, rtol=1e-6)
    assert (predicted.argmax(axis=1) == classes).mean() > 0.95


def test_weights_decide_between_contradictions():
    X = np.ones((40, 2))
    classes = np.arange(40) % 2
    for heavy in (0, 1):
        weights = np.where(classes == heavy, 3.0, 1.0)
        predicted = fit_classes(X, classes, weights, INPUTS, OUTPUTS, OPTIONS).predict(X[:1])[0]
        assert predicted[heavy] == pytest.approx(0.75, abs=0.05)


def test_regularisation_flattens(rows):
    strong = NetworkOptions(hidden=(16,), epochs=60, rate=1e-2, l2=10.0)
    flat, free = (
        fit_times(rows, times(rows), np.ones(200), INPUTS, OUTPUTS, o).predict(rows) for o in (strong, OPTIONS)
    )
    assert np.log(flat).std(axis=0).max() < 0.2 * np.log(free).std(axis=0).min()


def test_the_seed_decides_and_nothing_else_changes(rows):
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    short = NetworkOptions(hidden=(8,), epochs=2)
    first, second, other = (
        fit_times(rows, times(rows), np.ones(200), INPUTS, OUTPUTS, NetworkOptions(hidden=(8,), epochs=2, seed=seed))
        for seed in (short.seed, short.seed, 1)
    )
    np.testing.assert_array_equal(first.predict(rows), second.predict(rows))
    assert (first.predict(rows) != other.predict(rows)).all()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_an_input_that_never_differs_does_no_harm(rows):
    X = np.column_stack([rows[:, 0], np.zeros(200)])
    assert np.isfinite(fit_times(X, times(rows), np.ones(200), INPUTS, OUTPUTS, OPTIONS).predict(X)).all()


def test_scores_of_several_networks_are_averaged(rows):
    classes = (rows[:, 0] > rows[:, 1]).astype(np.intp)
    several, first, second = (
        fit_classes(
            rows, classes, np.ones(200), INPUTS, OUTPUTS, NetworkOptions((4,), epochs=5, members=members, seed=seed)
        )
        for members, seed in ((2, 0), (1, 0), (1, 1000))
    )
    assert several.has_spread
    assert not first.has_spread
    mean = (np.log(first.predict(rows)) + np.log(second.predict(rows))) / 2
    found = np.log(several.predict(rows))
    np.testing.assert_allclose(found[:, 0] - found[:, 1], mean[:, 0] - mean[:, 1], atol=1e-5)

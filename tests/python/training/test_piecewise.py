import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.training.piecewise import GRID, NARROWEST, Intervals

torch = pytest.importorskip("torch")


def encoded(knots, z):
    """The input, not below the first knot, and the share of each interval that lies below it, as the paper has it."""
    found = [max(z, knots[0])]
    for low, high in itertools.pairwise(knots):
        found.append(0 if z < low else 1 if z >= high else (z - low) / (high - low))
    return found


def as_one(intervals, Z):
    """The inputs, then the shares of all intervals."""
    rows = [[encoded(knots, z) for knots, z in zip(intervals.knots, row, strict=True)] for row in Z]
    return np.array([[*(e[0] for e in row), *(share - 0.5 for e in row for share in e[1:])] for row in rows])


def inputs(seed, rows=200):
    random = np.random.default_rng(seed)
    columns = [
        random.standard_normal(rows),
        random.exponential(size=rows) ** 3,
        random.integers(0, 2, rows),
        random.integers(0, 4, rows),
        np.zeros(rows),
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def test_knots_are_quantiles_that_are_not_too_near():
    Z = inputs(0)
    knots = Intervals.of(Z, 4).knots
    assert [len(of_input) for of_input in knots][2:] == [2, 4, 1]
    np.testing.assert_allclose(knots[0], np.quantile(Z[:, 0], [0, 0.25, 0.5, 0.75, 1]), rtol=1e-6)
    for of_input, column in zip(knots, Z.T, strict=True):
        assert (np.diff(of_input) >= NARROWEST).all()
        assert of_input[0] == column.min()
        assert set(of_input) <= set(np.quantile(column, [0, 0.25, 0.5, 0.75, 1]).astype(np.float32).tolist())


def test_an_input_is_followed_by_its_share_of_each_interval():
    intervals = Intervals.of(inputs(0), 6)
    Z = 1.5 * inputs(1)
    found = intervals.encode(torch.from_numpy(Z)).numpy()
    assert found.shape == (len(Z), intervals.width)
    np.testing.assert_allclose(found, as_one(intervals, Z), atol=1e-5)


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(0, 9),
    read=st.lists(st.integers(0, 4), min_size=1, unique=True),
    neurons=st.integers(1, 5),
)
def test_hinges_are_the_encoding_and_the_layer_after_it(seed, count, read, neurons):
    random = np.random.default_rng(seed)
    intervals = Intervals.of(inputs(seed), count)
    weight, bias = random.standard_normal((neurons, intervals.width)), random.standard_normal(neurons)
    others = random.standard_normal(5).astype(np.float32).astype(np.float64)
    Z = 1.5 * inputs(seed + 1, rows=20).astype(np.float64)
    Z[:, [i for i in range(5) if i not in read]] = others[[i for i in range(5) if i not in read]]
    (hinges, offsets), (after, offset) = intervals.as_layers(weight, bias, read, others)
    assert hinges.shape == (len(offsets), len(read))
    assert after.shape == (neurons, len(offsets))
    assert (after % GRID == 0).all()
    found = np.maximum(Z[:, read] @ hinges.T + offsets, 0) @ after.T + offset
    expected = as_one(intervals, Z) @ weight.T + bias
    np.testing.assert_allclose(found, expected, atol=GRID * (1 + np.abs(Z).sum()))


def test_weights_on_the_grid_lose_nothing_in_hinges():
    random = np.random.default_rng(0)
    intervals = Intervals.of(inputs(0), 4)
    weight = intervals.on_grid(random.standard_normal((3, intervals.width)))
    Z = 1.5 * inputs(1, rows=20).astype(np.float64)
    (hinges, offsets), (after, offset) = intervals.as_layers(weight, np.zeros(3), range(5), np.zeros(5))
    found = np.maximum(Z @ hinges.T + offsets, 0) @ after.T + offset
    np.testing.assert_allclose(found, as_one(intervals, Z) @ weight.T, atol=1e-9)

import numpy as np
import pytest

from training.training_tables import CANDIDATES, sweep
from warploom.training.data import Dataset
from warploom.training.influence import dependence, importance
from warploom.training.selector import Options, fit


@pytest.fixture(scope="module")
def dataset():
    return Dataset.of(sweep(120, noise=0.01), "spmv/float32", "warm")


@pytest.fixture(scope="module")
def model(dataset):
    return fit(dataset.rows(np.arange(90)), Options(iterations=40), list(CANDIDATES))


def test_the_mean_length_of_a_row_decides(model, dataset):
    table = importance(model, dataset.rows(np.arange(90, 120)))
    assert sorted(table["input"]) == sorted(model.inputs)
    # The table's times follow the mean length alone; the longest row is twice that.
    assert table["input"][0] in ("log_row_mean", "log_row_max", "log_density", "log_block_fill")
    assert table["loss_added"][0] > 0.02
    assert table["loss_added"].is_monotonic_decreasing
    assert table["loss_added"].median() < 0.01


def test_importance_repeats(model, dataset):
    one, two = (importance(model, dataset, repeats=2, seed=5) for _ in range(2))
    assert one.equals(two)


def test_larger_matrices_take_longer(model, dataset):
    table = dependence(model, dataset, scale=[1, 4, 16])
    assert table["scale"].tolist() == [1, 4, 16]
    assert table["time_us"].is_monotonic_increasing
    assert table["chosen"].isin(CANDIDATES).all()
    assert ((table["share"] > 1 / 4) & (table["share"] <= 1)).all()


def test_times_as_they_are_are_those_of_the_table(model, dataset):
    (line,) = dependence(model, dataset, scale=[1.0]).to_dict("records")
    assert line["time_us"] == pytest.approx(np.exp(np.log(dataset.best).mean()), rel=0.15)


def test_k_is_set_for_all(model, dataset):
    table = dependence(model, dataset, k=[1, 8])
    assert table["k"].tolist() == [1, 8]
    assert table["time_us"][1] > table["time_us"][0]  # by the model of the machine

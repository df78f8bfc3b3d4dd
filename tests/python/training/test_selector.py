import dataclasses

import numpy as np
import pytest

from training.training_tables import CANDIDATES, build, facts, measurement, sweep
from warploom import _core
from warploom.bench.repeatability import Tolerances
from warploom.model_inputs import LOSS, REFERENCE, compress, model_inputs, roofline_us
from warploom.training import selector
from warploom.training.data import Dataset, random_folds, random_splits
from warploom.training.evaluate import losses, score
from warploom.training.selector import (
    FORMS,
    UNTRIED,
    Options,
    candidates_of,
    choices,
    choices_measured,
    cover,
    doubts,
    expected_losses,
    fit,
    predictions,
    targets,
    unseen_losses,
    unseen_predictions,
)

CUSPARSE, SCALAR, TWO, EIGHT = CANDIDATES
WITHIN = Tolerances({}, {}, 0.03)


@pytest.fixture(scope="module")
def dataset():
    return Dataset.of(sweep(120, repeated=False, noise=0.005), "spmv/float32", "warm", within=WITHIN)


def table(*times, preparation=None):
    rows = [
        measurement(f"m{i}", CANDIDATES[j], time, preparation_ms=preparation[j] if preparation else 0.5)
        for i, row in enumerate(times)
        for j, time in enumerate(row)
        if time
    ]
    matrices = [facts(f"m{i}") for i in range(len(times))]
    return Dataset.of(build(matrices, rows), "spmv/float32", "warm", within=WITHIN)


def test_cover_takes_what_helps_most_first():
    dataset = table([1, 2, 4, 4], [1, 2, 4, 4], [1, 2, 4, 4], [4, 4, 1, 4], [4, 4, 1, 4], [4, 4, 4, 1])
    assert cover(dataset) == [CUSPARSE, TWO, EIGHT]
    assert cover(dataset, 2) == [CUSPARSE, TWO]


def test_cover_does_without_near_ties_and_counts_unknown_as_worst():
    assert cover(table([1, 1.02, 3, 3], [1, 0.99, 3, 3])) == [CUSPARSE]
    assert cover(table([2, 1.9, 1, 3], [2, 1.9, None, 3], [2, 1.9, None, 3]), 1) == [SCALAR]


def test_cover_for_few_products_counts_preparation():
    dataset = table([10, 9, 2, 1], [10, 9, 2, 1], preparation=(0.001, 0.5, 0.02, 5.0))
    assert cover(dataset) == [EIGHT]
    assert cover(dataset, calls=1) == [CUSPARSE]
    assert cover(dataset, calls=100) == [TWO]


def test_vendor_is_always_among_the_candidates(dataset):
    assert CUSPARSE not in cover(dataset)
    assert candidates_of(dataset, Options())[-1] == CUSPARSE


def test_targets(dataset):
    found = targets(dataset, [SCALAR, EIGHT])
    for i in (0, 7):
        bound = roofline_us({name: values[i] for name, values in dataset.features.items()}, 1, 4)
        assert found[i, 0] == pytest.approx(np.log(min(dataset.times[i]) / bound))
        for j, column in ((1, 1), (2, 3)):
            ratio = np.log(dataset.times[i, column] / min(dataset.times[i]))
            assert found[i, j] == pytest.approx(0.1 * np.log(1 + ratio / 0.1))


def test_narrow_wins_over_the_vendor_are_left_to_it():
    dataset = table([1.01, 1, 3, 3], [1.05, 1, 3, 3])
    found = targets(dataset, [CUSPARSE, SCALAR])[:, 1:]
    assert found.argmin(axis=1).tolist() == [0, 1]


def test_row_permutations_have_to_win_something():
    vector = "csr/vector[threads_per_row=2]"
    names = [f"spmv/none/{vector}", f"spmv/lpt/{vector}"]
    rows = [
        measurement(f"m{i}", name, time) for i in range(2) for name, time in zip(names, (1, 0.998 - i / 9), strict=True)
    ]
    dataset = Dataset.of(build([facts("m0"), facts("m1")], rows), "spmv/float32", "warm", within=WITHIN)
    assert targets(dataset, names)[:, 1:].argmin(axis=1).tolist() == [0, 1]


def test_what_was_not_tried_is_not_the_fastest_without_an_order():
    """Where orders gain much, all that was tried without one is slow."""
    ordered = "spmv/rcm/csr/vector[threads_per_row=2]"
    both = [CUSPARSE, TWO, ordered]
    rows = [measurement(f"m{i}", name, 1 + 3 * (name == TWO)) for i in range(2) for name in (TWO, ordered)]
    rows += [measurement("m2", name, time) for name, time in zip(both, (2, 4, 1), strict=True)]
    dataset = Dataset.of(build([facts(f"m{i}") for i in range(3)], rows), "spmv/float32", "warm", within=WITHIN)
    absent = dataset.candidates.index(CUSPARSE)
    dataset.untried[dataset.names != "m2", absent] = True
    of_vendor, plain, moved = targets(dataset, both)[:, 1:].T
    assert (of_vendor[:2] > plain[:2]).all()
    assert of_vendor[2] < plain[2]
    assert (moved < np.minimum(of_vendor, plain)).all()
    without = dataset.rows(slice(2)).columns([ordered, CUSPARSE])
    np.testing.assert_allclose(targets(without, [CUSPARSE])[:, 1], compress(UNTRIED))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_finds_the_rule(dataset, form):
    train, test = next(random_splits(dataset, 0.25, (0,)))
    options = Options(form)
    chosen = choices(fit(dataset.rows(train), options), dataset.rows(test))
    scores = score(dataset.rows(test), chosen, samples=10)
    always = min(losses(dataset.rows(test), np.full(len(test), j)).mean() for j in range(4))
    assert scores["mean_loss"].value < 0.25 * always
    assert scores["slower_than_vendor"].value < 0.1


@pytest.mark.parametrize("form", FORMS)
def test_training_repeats(dataset, form):
    first, second = (fit(dataset, Options(form), CANDIDATES) for _ in range(2))
    assert first.arrays.keys() == second.arrays.keys()
    assert all(np.array_equal(first.arrays[name], second.arrays[name]) for name in first.arrays)


def test_boosting_is_what_the_library_predicts(dataset):
    lightgbm = pytest.importorskip("lightgbm")
    seen = {}

    def remember(*arguments, train=lightgbm.train, **named):
        seen["booster"] = train(*arguments, **named)
        return seen["booster"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lightgbm, "train", remember)
        patch.setattr(selector, "LEAF_BITS", 52)
        patch.setattr(selector, "THRESHOLD_BITS", 52)
        model = fit(dataset, Options("boosting"), CANDIDATES)
    X = model_inputs(dataset.features, dataset.k, model.inputs)
    base = targets(dataset, CANDIDATES).mean(axis=0)
    predicted = seen["booster"].predict(X) + base
    np.testing.assert_allclose(model.predict(X), predicted, rtol=0, atol=1e-9)
    rounded = fit(dataset, Options("boosting"), CANDIDATES)
    difference = np.abs(rounded.predict(X) - predicted)  # logarithms of times
    # Inputs that differ by less than a rounded threshold may come to the same side of it.
    assert np.mean(difference < 5e-3) > 0.9
    assert np.mean(difference) < 5e-3


@pytest.mark.parametrize("form", FORMS)
def test_missing_times_do_no_harm(form):
    whole = sweep(120, repeated=False)
    rows = whole.measurements
    # EIGHT is not supported on every other matrix, and TWO was not reached on some.
    refused = (rows["candidate"] == EIGHT) & rows["matrix"].str.contains("[02468]$")
    unknown = (rows["candidate"] == TWO) & rows["matrix"].str.contains("5$")
    missing = refused | unknown
    rows["status"] = np.where(refused, "unsupported", np.where(unknown, "time limit", "ok"))
    rows.loc[missing, "median_us"] = np.nan
    dataset = Dataset.of(whole, "spmv/float32", "warm", within=WITHIN)
    chosen = choices(fit(dataset, Options(form)), dataset)
    scores = score(dataset, chosen, samples=10)  # refuses choices that are not supported
    assert scores["mean_loss"].value < 0.1


def test_predictions_are_of_all_candidates_and_infinite_for_those_left_out(dataset):
    model = fit(dataset, Options(), [EIGHT, SCALAR])
    found = predictions(model, dataset)
    assert np.isinf(found).all(axis=0).tolist() == [name not in (EIGHT, SCALAR) for name in dataset.candidates]
    expected = model.predict(model_inputs(dataset.features, dataset.k, model.inputs))
    np.testing.assert_array_equal(found[:, dataset.candidates.index(SCALAR)], expected[:, 2])
    np.testing.assert_array_equal(choices(model, dataset), found.argmin(axis=1))


def test_no_model_has_seen_what_it_is_scored_on(dataset):
    """Times of the rows that are held out do not change what is predicted of them."""
    splits = list(random_folds(dataset, 3))
    before = unseen_predictions(dataset, Options(), splits)
    _, test = splits[0]
    times = dataset.times.copy()
    times[test] = times[test][:, ::-1]
    changed = dataclasses.replace(dataset, times=times)
    after = unseen_predictions(changed, Options(), splits)
    np.testing.assert_array_equal(before[test], after[test])
    others = np.setdiff1d(np.arange(len(dataset)), test)
    assert not np.array_equal(before[others], after[others])
    loss = unseen_losses(dataset, before)
    lost = loss.copy()
    lost[test] = loss[test] + 1
    first, second = (expected_losses(dataset, values, Options(), splits) for values in (loss, lost))
    np.testing.assert_array_equal(first[test], second[test])
    assert not np.array_equal(first[others], second[others])


def test_the_loss_is_an_output_and_is_learned_on_unseen_rows(dataset):
    loss = unseen_losses(dataset, unseen_predictions(dataset, Options(), random_folds(dataset, 4)))
    assert loss.shape == (120,)
    assert (loss >= 0).all()
    in_sample = np.log1p(losses(dataset, choices(fit(dataset, Options()), dataset), merged=False))
    assert loss.mean() > in_sample.mean()
    model = fit(dataset, Options(), CANDIDATES, loss)
    assert model.outputs == (REFERENCE, LOSS, *CANDIDATES)
    assert choices(model, dataset).shape == (120,)


def test_doubt_is_that_of_the_plan():
    scores = np.array([[0.3, 0.1, 0.15, 0.1, np.inf, 0.9, 0.4, 0.2], [0.0, *[np.inf] * 7], [np.inf] * 8])
    found = doubts(scores, np.array([0.2, 0.2, 0.2]))
    choice = _core.Choice(
        candidates=[f"spmv/none/csr/vector[threads_per_row={i}]" for i in range(8)],
        scores=np.where(np.isfinite(scores[0]), scores[0], 50.0),
        least_us=1.0,
        preparation_ms=np.zeros(8),
        calls=None,
        among=None,
        expected_loss=np.expm1(0.2),
        unsure=False,
        margin=0.1,
    )
    assert found[0] == pytest.approx(choice.doubt)
    assert found.tolist()[1:] == [0.0, 0.0]
    assert (doubts(scores, np.full(3, -0.1)) == 0).all()


def test_short_lists_are_measured_where_a_prediction_is_unsure():
    dataset = table([5, 4, 3, 1], [5, 4, 3, 1], [None, 4, 3, 1])
    at = [dataset.candidates.index(name) for name in (CUSPARSE, SCALAR, TWO, EIGHT)]
    predicted = np.empty((3, 4))
    predicted[:, at] = [0.0, 0.1, 0.2, 0.5]
    unsure = np.array([True, False, True])

    def chosen(margin, most):
        return [dataset.candidates[j] for j in choices_measured(dataset, predicted, unsure, margin, most)]

    assert chosen(0.2, 4) == [TWO, CUSPARSE, TWO]
    assert chosen(0.2, 2) == [SCALAR, CUSPARSE, SCALAR]
    assert chosen(0.0, 4) == [CUSPARSE, CUSPARSE, CUSPARSE]  # of the last row nothing on the list was measured
    assert chosen(1.0, 4) == [EIGHT, CUSPARSE, EIGHT]


def test_absolute_times_are_predicted(dataset):
    train, test = next(random_splits(dataset, 0.25, (0,)))
    model = fit(dataset.rows(train), Options())
    held_out = dataset.rows(test)
    reference = model.predict(model_inputs(held_out.features, held_out.k, model.inputs))[:, 0]
    predicted = np.exp(reference) * roofline_us(held_out.features, held_out.k, 4)
    assert np.median(np.abs(np.log(predicted / held_out.best))) < 0.1

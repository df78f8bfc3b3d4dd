import json
import math

import numpy as np
import pytest

from training.training_tables import CANDIDATES, build, facts, measurement, sweep
from warploom.bench.repeatability import Tolerances
from warploom.errors import ParameterError, ShapeError
from warploom.training.data import Dataset
from warploom.training.evaluate import losses, score

CUSPARSE, SCALAR, TWO, EIGHT = range(4)


def example(tolerance=0.05):
    """Four matrices whose times are easy to see."""
    table = [
        [2.0, 1.0, 1.04, 3.0],
        [1.0, 2.0, 4.0, None],
        [10.0, 8.0, 16.0, 9.0],
        [5.0, 5.0, 5.0, 5.05],
    ]
    rows = [
        measurement(f"m{i}", CANDIDATES[j], time)
        if time
        else measurement(f"m{i}", CANDIDATES[j], None, cache="", status="unsupported")
        for i, times in enumerate(table)
        for j, time in enumerate(times)
    ]
    matrices = [facts(f"m{i}", spmv_nnz=10.0**i) for i in range(4)]
    within = Tolerances({}, {}, tolerance)
    return Dataset.of(build(matrices, rows), "spmv/float32", "warm", within=within)


CHOSEN = np.array([TWO, TWO, EIGHT, EIGHT])


def test_losses():
    np.testing.assert_allclose(losses(example(), CHOSEN), [0, 3, 0.125, 0], rtol=1e-6)
    np.testing.assert_allclose(losses(example(), CHOSEN, merged=False), [0.04, 3, 0.125, 0.01], rtol=1e-5)


def test_scores_are_what_slow_loops_compute():
    dataset = Dataset.of(sweep(40, noise=0.05), "spmv/float32", "warm")
    chosen = np.random.default_rng(1).integers(0, 4, len(dataset))
    scores = score(dataset, chosen, dataset.times_of(CANDIDATES[SCALAR]), samples=10)
    loss, share, gains, best_gains, near, slower, slower_default, plub = [], [], [], [], 0, 0, 0, []
    for i in range(len(dataset)):
        row, time = dataset.times[i], dataset.times[i, chosen[i]]
        is_near = abs(math.log(time / min(row))) <= dataset.tolerance[i]
        near += is_near
        loss.append(0 if is_near else time / min(row) - 1)
        share.append(1 if is_near else min(row) / time)
        plub.append(time / min(row) - 1)
        gains.append(row[SCALAR] / time)
        best_gains.append(row[SCALAR] / min(row))
        slower += row[CUSPARSE] / time < 0.98
        slower_default += row[CUSPARSE] / time < 0.98
    n = len(dataset)
    expected = {
        "oracle_share": math.prod(share) ** (1 / n),
        "mean_loss": sum(loss) / n,
        "worst_loss": max(loss),
        "loss_90": np.percentile(loss, 90),
        "accuracy": near / n,
        "strict_accuracy": sum(x == 0 for x in plub) / n,
        "plub": 100 * sum(plub) / n,
        "slower_than_vendor": slower / n,
        "slower_than_default": slower_default / n,
        "speedup": sum(gains) / n,
        "oracle_speedup": sum(best_gains) / n,
        "gain_share": (sum(gains) / n - 1) / (sum(best_gains) / n - 1),
        "speedup_share": sum(gains) / sum(best_gains),
        "pgo": 100 * sum(gain - 1 for gain in gains) / n,
    }
    for name, value in expected.items():
        assert scores[name].value == pytest.approx(value), name
    assert scores.count == n


def test_the_oracle_loses_nothing():
    dataset = Dataset.of(sweep(20, noise=0.05), "spmv/float32", "warm")
    scores = score(dataset, dataset.times.argmin(axis=1), dataset.times[:, SCALAR], samples=20)
    for name in ("oracle_share", "accuracy", "strict_accuracy", "gain_share", "speedup_share"):
        assert scores[name].as_list() == pytest.approx([1, 1, 1])
    assert scores["worst_loss"].value == 0
    assert scores["slower_than_vendor"].value == 0


def test_a_choice_that_was_not_measured_is_counted_apart():
    rows = [measurement(f"m{i}", c, 1.0) for i in range(3) for c in CANDIDATES[:2]]
    rows.append(measurement("m0", CANDIDATES[2], 2.0))
    rows.append(measurement("m1", CANDIDATES[2], None, cache="", status="time limit"))
    dataset = Dataset.of(build([facts(f"m{i}") for i in range(3)], rows), "spmv/float32", "warm")
    scores = score(dataset, np.array([2, 2, 0]), samples=5)
    assert (scores.count, scores.unknown) == (2, 1)
    assert scores["mean_loss"].value == pytest.approx(0.5)
    with pytest.raises(ParameterError, match="no chosen candidate was measured"):
        score(dataset.rows(np.array([1])), np.array([2]))


def test_wrong_choices_are_refused():
    with pytest.raises(ParameterError, match="cannot run on m1") as raised:
        losses(example(), np.full(4, EIGHT))
    assert raised.value.position == 1
    with pytest.raises(ParameterError, match="does not exist"):
        losses(example(), np.full(4, 4))
    with pytest.raises(ShapeError):
        losses(example(), np.zeros(3, int))


def test_intervals_cover_and_repeat():
    dataset = Dataset.of(sweep(60, noise=0.1), "spmv/float32", "warm")
    chosen = np.zeros(60, int)
    scores, again, other = score(dataset, chosen), score(dataset, chosen), score(dataset, chosen, seed=1)
    loss = scores["mean_loss"]
    assert loss.low < loss.value < loss.high
    assert again.as_dict() == scores.as_dict() != other.as_dict()
    # Of a mean, the interval is about 1.96 standard errors to each side.
    each = losses(dataset, chosen)
    assert (loss.high - loss.low) / 2 == pytest.approx(1.96 * each.std() / math.sqrt(60), rel=0.15)
    assert json.loads(json.dumps(scores.as_dict()))["rows"] == 60


def test_rows_of_one_matrix_are_drawn_together():
    rows = [
        measurement(f"m{i}{s}", c, 1.0 + i * (c == CANDIDATES[0]))
        for i in range(2)
        for s in ("", ".T")
        for c in CANDIDATES
    ]
    matrices = [facts(f"m{i}{s}") for i in range(2) for s in ("", ".T")]
    dataset = Dataset.of(build(matrices, rows), "spmv/float32", "warm")
    loss = score(dataset, np.zeros(4, int), samples=200)["mean_loss"]
    # Two groups with losses of 0 and 1: every sample has a mean of 0, 1/2 or 1.
    assert loss.as_list() == [0.5, 0.0, 1.0]

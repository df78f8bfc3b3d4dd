import dataclasses

import numpy as np
import pytest

from training.training_tables import build, measurement, row_of_features
from warploom.bench.repeatability import Tolerances
from warploom.model_inputs import roofline_us
from warploom.training.between import (
    MOST,
    THREAD_LAYOUT,
    PairOptions,
    columns_between,
    rows_between,
    rows_between_each,
    thread_layout,
)
from warploom.training.data import Dataset
from warploom.training.evaluate import score
from warploom.training.selector import Options, choices, fit

THREADS, PER_THREAD = (8, 16, 32), (4, 8)
CANDIDATES = tuple(
    f"spmm/none/csr/row_split[threads_per_row={threads},columns_per_thread={columns}]"
    for threads in THREADS
    for columns in PER_THREAD
)
SMALL = PairOptions(iterations=80, leaves=15)


def named(**parameters):
    return thread_layout("spmm/none/csr/row_split[" + ",".join(f"{n}={v}" for n, v in parameters.items()) + "]", 32)


def test_layout_of_threads():
    # 8 of 32 threads hold 4 columns each; the other three groups of 8 share the nonzeros.
    assert named(threads_per_row=32, columns_per_thread=4) == (3, 2, 5, 0, 1)
    assert named(threads_per_row=4, columns_per_thread=4) == (2, 0, 4, 1, 1)
    assert named(threads_per_row=32, columns_per_thread=4, column_threads=4) == (2, 3, 4, 1, 1)
    # More threads side by side than k needs are what k needs.
    assert named(threads_per_row=32, columns_per_thread=8, column_threads=16) == (2, 3, 5, 0, 1)


def test_columns_that_are_not_needed_are_waste():
    layout = dict(zip(THREAD_LAYOUT, thread_layout(CANDIDATES[0], 33), strict=True))
    assert layout["tile"] == 5
    assert layout["waste"] == 64 / 33


def test_kernels_without_such_parameters_have_no_layout():
    assert thread_layout("spmm/none/csr/cusparse", 32) == (0,) * len(THREAD_LAYOUT)
    tiles = thread_layout("spmm/none/csr/c_stationary[threads_per_row=8]", 96)
    assert tiles[3] == pytest.approx(np.log2(-(-96 // 2 ** tiles[2])))


def test_powers_of_two_between_common_numbers_of_columns():
    assert columns_between(np.array([8, 32, 128])) == [16, 32, 64]
    assert columns_between(np.repeat([8, 20, 100, 5000], [40, 30, 28, 2])) == [16, 32, 64]
    assert columns_between(np.repeat([8, 100, 5000], [50, 48, 2])) == []
    assert columns_between(np.array([], dtype=np.int64)) == []


def time_of(candidate, k, values):
    """Threads that do nothing cost, and so do those that share short rows: the best candidate changes in steps of k."""
    _, sharing, _, tiles, waste = thread_layout(candidate, k)
    busy = abs(sharing - np.log2(values["spmv_nnz_per_row_mean"]) / 3)
    return float(roofline_us(values, k, 4)) * (1 + 0.2 * busy + 0.15 * tiles + 0.5 * (waste - 1))


@pytest.fixture(scope="module")
def dataset():
    random = np.random.default_rng(0)
    facts, rows = [], []
    for i in range(120):
        values = row_of_features(random)
        facts.append(
            {"matrix": f"m{i}", "family": "group", "kind": "", "source": "folder", "rows": 10, "cols": 10, "nnz": 20}
            | values
        )
        for k in (4, 16, 64, 256):
            rows += [
                measurement(f"m{i}", name, time_of(name, k, values), setting=f"spmm/float32/row/k={k}")
                for name in CANDIDATES
            ]
    settings = [f"spmm/float32/row/k={k}" for k in (4, 16, 64, 256)]
    return Dataset.of(build(facts, rows), settings, "warm", within=Tolerances({}, {}, 0.001))


def test_rows_between(dataset):
    known = dataset.rows(dataset.k != 16)
    found = rows_between(known, SMALL)
    assert sorted(set(found.k.tolist())) == [8, 16, 32, 128]
    _, counts = np.unique(found.names, return_counts=True)
    assert counts.tolist() == [MOST] * 120
    assert set(found.settings) == {f"spmm/float32/row/k={k}" for k in (8, 16, 32, 128)}
    assert np.isnan(found.preparation_ms).all()
    # The least time lies between those of the neighbours, in shares of the roofline.
    shares = [part.best / roofline_us(part.features, part.k, 4) for part in (known, found)]
    for name in found.names[:5]:
        of_matrix = shares[0][known.names == name]
        assert (shares[1][found.names == name] <= of_matrix.max() * (1 + 1e-9)).all()
        assert (shares[1][found.names == name] >= of_matrix.min() * (1 - 1e-9)).all()


def test_a_candidate_that_a_matrix_was_not_measured_with_has_no_time(dataset):
    supported = dataset.supported.copy()
    supported[dataset.names == "m3", 2] = False
    times = np.where(supported, dataset.times, np.nan)
    found = rows_between(dataclasses.replace(dataset, times=times, supported=supported), SMALL)
    without = found.names == "m3"
    assert np.isnan(found.times[without, 2]).all()
    assert np.isfinite(found.times[~without]).all()


def test_several_data_sets_at_once(dataset):
    parts = [dataset.rows(dataset.k != 16), dataset.rows(dataset.k == 16), dataset]
    one, none, other = rows_between_each(parts)
    assert none is None
    for together, part in ((one, parts[0]), (other, parts[2])):
        np.testing.assert_array_equal(together.times, rows_between(part).times)


def test_no_rows_between_without_a_gap(dataset):
    assert rows_between(dataset.rows(dataset.k == 16), SMALL) is None


def test_choices_at_a_k_that_was_left_out(dataset):
    known, others = dataset.rows(dataset.k != 16), dataset.rows(dataset.k == 16)
    options = Options(iterations=60)
    alone = fit(known, options, CANDIDATES)
    further = fit(known, options, CANDIDATES, between=rows_between(known, SMALL))
    shares = [score(others, choices(model, others), samples=1)["oracle_share"].value for model in (alone, further)]
    assert shares[1] > 0.97
    assert shares[1] > shares[0] + 0.01


def test_losses_are_learnt_where_something_was_measured(dataset):
    known = dataset.rows(dataset.k != 16)
    model = fit(known, Options(iterations=5), CANDIDATES, np.full(len(known), 0.25), rows_between(known, SMALL))
    assert model.predict(np.zeros((1, len(model.inputs))))[0, 1] == pytest.approx(0.25)

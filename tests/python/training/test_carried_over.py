import dataclasses

import numpy as np
import pytest

from training.training_tables import CANDIDATES, build, measurement, sweep
from warploom.training.carried_over import carried_over, estimated
from warploom.training.data import Dataset, united
from warploom.training.train import data_hash, datasets_of, trained_on

CUSPARSE, SCALAR, TWO, EIGHT = CANDIDATES


def on(gpu, measurements):
    environments = {name: facts | {"gpu": gpu} for name, facts in measurements.environments.items()}
    return dataclasses.replace(measurements, environments=environments)


def without(measurements, *candidates):
    rows = measurements.measurements
    return dataclasses.replace(measurements, measurements=rows[~rows["candidate"].isin(candidates)])


def slower(measurements, factor, *candidates):
    rows = measurements.measurements.copy()
    chosen = rows["candidate"].isin(candidates or CANDIDATES)
    rows.loc[chosen, "median_us"] = rows.loc[chosen, "median_us"] * np.float32(factor)
    return dataclasses.replace(measurements, measurements=rows)


def dataset(measurements):
    return Dataset.of(measurements, "spmv/float32", "warm")


def test_a_candidate_takes_what_others_of_its_kernel_say():
    here = sweep(12)
    # The scalar kernel and the vendor's are another factor slower there than the vector kernel.
    there = slower(slower(here, 2.0, TWO, EIGHT), 7.0, SCALAR, CUSPARSE)
    found = carried_over(dataset(without(here, EIGHT)), dataset(there))
    assert found.candidates == CANDIDATES
    np.testing.assert_allclose(found.times_of(EIGHT), dataset(here).times_of(EIGHT), rtol=1e-5)
    assert found.supported.all()
    assert not found.untried.any()
    np.testing.assert_array_equal(found.preparation_ms, dataset(here).preparation_ms)


def test_what_a_sweep_has_stays_as_it_was_measured():
    here = sweep(6)
    mine = dataset(without(here, EIGHT))
    found = carried_over(mine, dataset(slower(here, 3.0)))
    for name in mine.candidates:
        np.testing.assert_array_equal(found.times_of(name), mine.times_of(name))
    assert carried_over(dataset(here), dataset(slower(here, 3.0))).candidates == CANDIDATES
    assert carried_over(mine, dataset(here), tried=[EIGHT]) is mine


def test_candidates_of_the_vendor_are_not_estimated():
    here = sweep(6)
    assert carried_over(dataset(without(here, CUSPARSE)), dataset(here)).candidates == (SCALAR, TWO, EIGHT)


def test_matrices_that_were_measured_here_only_do_not_have_it():
    here = sweep(8)
    rows = here.measurements
    there = dataclasses.replace(here, measurements=rows[rows["matrix"].isin([f"group/m{i}" for i in range(5)])])
    found = carried_over(dataset(without(here, EIGHT)), dataset(there))
    lacking = np.isin(found.names, [f"group/m{i}" for i in (5, 6, 7)])
    np.testing.assert_array_equal(np.isnan(found.times_of(EIGHT)), lacking)
    np.testing.assert_array_equal(found.supported[:, found.candidates.index(EIGHT)], ~lacking)


def test_of_several_sweeps_elsewhere_the_one_with_more_candidates_counts():
    here = sweep(6)
    other = [on("Other GPU", part) for part in (without(here, EIGHT, SCALAR), here, without(here, EIGHT))]
    (found,) = datasets_of([without(here, EIGHT)], ["warm"], elsewhere=other)
    np.testing.assert_allclose(found["spmv-float32-warm"].times_of(EIGHT), dataset(here).times_of(EIGHT), rtol=1e-5)


def test_without_a_candidate_of_its_kernel_all_own_ones_count():
    here = sweep(6)
    there = slower(slower(here, 2.0, SCALAR), 5.0, CUSPARSE, TWO, EIGHT)
    found = estimated(dataset(without(here, TWO, EIGHT)), dataset(there), [TWO])
    np.testing.assert_allclose(found[:, 0], dataset(there).times_of(TWO) / 2, rtol=1e-5)


def test_a_factor_is_the_median_one_with_the_same_row_permutation():
    names = [f"spmm/{rows}/csr/row_split" for rows in ("none", "rcm")]
    wanted = "spmm/rcm/csr/row_split[columns_per_thread=8]"
    setting = "spmm/float16/row/k=32"

    def table(times):
        known = sweep(1).matrices
        rows = [measurement("group/m0", name, time, setting=setting) for name, time in times.items()]
        return Dataset.of(build(known.to_dict("records"), rows), setting, "warm")

    here = table({names[0]: 10.0, names[1]: 30.0})
    there = table({names[0]: 20.0, names[1]: 40.0, wanted: 8.0})
    assert estimated(here, there, [wanted])[0, 0] == pytest.approx(8.0 * 30 / 40)
    assert np.isnan(estimated(here, there.rows(np.array([0])), [names[0] + "[columns_per_thread=8]"])).all()


def test_training_takes_candidates_of_other_gpus():
    here, there = sweep(12), on("Other GPU", slower(sweep(12), 2.0))
    mine = without(here, EIGHT)
    (found,) = datasets_of([mine], ["warm"], elsewhere=[there])
    assert found["spmv-float32-warm"].candidates == CANDIDATES
    (alone,) = datasets_of([mine], ["warm"])
    assert EIGHT not in alone["spmv-float32-warm"].candidates
    assert trained_on([mine], [there]) == [mine, there]
    assert trained_on([here], [there]) == [here]
    assert data_hash(trained_on([mine], [there])) != data_hash([mine])


def test_sweeps_on_the_same_gpu_that_have_a_candidate_are_believed():
    here = sweep(12)
    others = sweep(24, seed=3)
    rows = others.measurements
    of_others = rows["matrix"].isin([f"group/m{i}" for i in range(12, 24)])
    first, second = without(here, EIGHT), dataclasses.replace(others, measurements=rows[of_others])
    (found,) = datasets_of([first, second], ["warm"], elsewhere=[on("Other GPU", slower(here, 2.0))])
    times = found["spmv-float32-warm"].times_of(EIGHT)
    assert np.isnan(times[:12]).all()
    assert np.isfinite(times[12:]).all()


def test_matrices_of_a_size_that_nobody_tried_have_not_tried_it():
    here = sweep(40)
    mine = dataset(without(here, EIGHT))
    large = np.sort(mine.nnz)[-15:].min()
    rows = here.measurements
    there = dataclasses.replace(here, measurements=rows[rows["matrix"].isin(mine.names[mine.nnz >= large])])
    found = carried_over(mine, dataset(there))
    column = found.candidates.index(EIGHT)
    np.testing.assert_array_equal(found.untried[:, column], found.nnz < large)
    assert not np.delete(found.untried, column, axis=1).any()
    np.testing.assert_array_equal(
        united([found, dataset(without(sweep(9, seed=5), EIGHT))]).untried[:40], found.untried
    )


def test_sweeps_on_one_gpu_complete_each_other():
    everything = sweep(20)
    rows = everything.measurements
    half = dataclasses.replace(everything, measurements=rows[rows["matrix"].isin([f"group/m{i}" for i in range(10)])])
    first, second = without(everything, EIGHT), slower(without(half, SCALAR), 2.0)
    (found,) = datasets_of([first, second], ["warm"])
    both, exact = found["spmv-float32-warm"], dataset(everything)
    shared = np.isin(both.names, dataset(half).names) & (both.sweeps == 0)
    np.testing.assert_allclose(
        both.times_of(EIGHT)[shared], exact.times_of(EIGHT)[np.isin(exact.names, both.names[shared])], rtol=1e-5
    )
    assert np.isnan(both.times_of(EIGHT)[~shared & (both.sweeps == 0)]).all()
    assert not both.untried[shared, both.candidates.index(EIGHT)].any()
    # The scalar kernel from the first sweep, slower by the factor of the second.
    later = both.rows(both.sweeps == 1)
    np.testing.assert_allclose(
        later.times_of(SCALAR), 2 * exact.times_of(SCALAR)[np.isin(exact.names, later.names)], rtol=1e-5
    )
    assert later.supported.all()
    assert not later.untried.any()
    np.testing.assert_array_equal(later.times_of(TWO), dataset(second).times_of(TWO))


def test_what_a_sweep_has_tried_somewhere_is_not_completed():
    everything = sweep(20)
    rows = everything.measurements
    lacking = dataclasses.replace(
        everything, measurements=rows[(rows["matrix"] != "group/m3") | (rows["candidate"] != EIGHT)]
    )
    (found,) = datasets_of([lacking, everything], ["warm"])
    first = found["spmv-float32-warm"].rows(np.arange(20))
    np.testing.assert_array_equal(np.isnan(first.times_of(EIGHT)), first.names == "group/m3")

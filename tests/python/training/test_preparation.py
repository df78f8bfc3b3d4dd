import numpy as np

from training.training_tables import CANDIDATES, build, facts, measurement
from warploom.model_inputs import preparation_inputs
from warploom.training.data import Dataset
from warploom.training.preparation import fit_preparation, relative_errors


def dataset(cost, matrices=60, spoiled=()):
    """Matrices whose preparation takes ``cost(rows, nnz)`` milliseconds, three times that for the spoiled ones."""
    random = np.random.default_rng(0)
    described, rows = [], []
    for i in range(matrices):
        size, nnz = 10 ** random.uniform(2, 6), 10 ** random.uniform(3, 7)
        described.append(facts(f"m{i}", spmv_num_rows=size, spmv_nnz=nnz))
        time = cost(size, nnz) * (3 if i in spoiled else 1)
        rows += [measurement(f"m{i}", c, 1.0, preparation_ms=time * (1 + j)) for j, c in enumerate(CANDIDATES[:2])]
    return Dataset.of(build(described, rows), "spmv/float32", "warm")


def cost(rows, nnz):
    return 0.02 + 3e-6 * rows + 5e-6 * nnz


def test_a_sum_of_terms_is_found():
    data = dataset(cost)
    model = fit_preparation([data], list(CANDIDATES[:2]))
    assert np.nanmax(relative_errors(model, data)) < 0.01
    new = preparation_inputs({"spmv_num_rows": 5e4, "spmv_num_cols": 0.0, "spmv_nnz": 2e6, "spmv_nnz_per_row_max": 0.0})
    np.testing.assert_allclose(model.predict(new[np.newaxis])[0], [cost(5e4, 2e6), 2 * cost(5e4, 2e6)], rtol=0.02)


def test_spoiled_measurements_count_little():
    data = dataset(cost, spoiled=range(0, 60, 10))
    model = fit_preparation([data], [CANDIDATES[0]])
    clean = np.array([i % 10 != 0 for i in range(60)])[np.argsort([f"m{i}" for i in range(60)])]
    assert np.median(relative_errors(model, data)[clean]) < 0.1


def test_coefficients_are_not_negative():
    model = fit_preparation([dataset(lambda rows, nnz: 1 / (1 + nnz / 1e5))], [CANDIDATES[0]])
    assert (model.arrays["layer.0.weight"] >= 0).all()

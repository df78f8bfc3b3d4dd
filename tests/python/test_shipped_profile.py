"""What the profile that ships makes of the measurements that it was trained on."""

import importlib.resources

import numpy as np
import pytest

from warploom import profiles
from warploom.bench import Measurements
from warploom.model_inputs import model_inputs, model_name
from warploom.training.data import NOT_MEASURED

PROFILE = importlib.resources.files(profiles) / "nvidia-h200.safetensors"

NOT_FOR_ALL = ("column-vectors", "hybrid-vectors", "dense", "segmented-csr", "dcsr")
"""Formats that plans leave out for what a model does not see: too much padding, or no long or empty rows."""


@pytest.fixture(scope="module")
def sweep():
    return Measurements.load("h200-orders")


@pytest.mark.parametrize("k", [32, 128])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_without_an_order_no_kernel_of_the_vendor_is_chosen_untried(sweep, dtype, k):
    """Where rows are shuffled, orders gain so much that all kernels that were tried without one are slow."""
    model = profiles.load(PROFILE).models[model_name("spmm", dtype, "row", "warm")]
    rows = sweep.measurements
    tried = rows[(rows["setting"] == f"spmm/{dtype}/row/k={k}") & rows["median_us"].notna()].astype({"candidate": str})
    tried = tried.groupby(tried["matrix"].astype(str))["candidate"].agg(set)
    matrices = sweep.matrices.set_index("matrix").loc[tried.index[tried.index.str.endswith((".shuffled", ".half"))]]
    numbers = {name: column.to_numpy() for name, column in matrices.select_dtypes("number").items()}
    scores = model.predict(np.nan_to_num(model_inputs(numbers, k, model.inputs), nan=NOT_MEASURED))
    columns = [i for i, name in enumerate(model.outputs) if "/none/" in name and name.split("/")[2] not in NOT_FOR_ALL]
    # Pieces in the order of columns: most matrices have none, and on some that have the sweep lacks them.
    by_column = [i for i, name in enumerate(model.outputs) if "by_column=1" in name]
    of_sweep = [[model.outputs[i] in tried[matrix] for i in by_column] for matrix in matrices.index]
    scores[:, by_column] = np.where(of_sweep, scores[:, by_column], np.inf)
    chosen = np.array(model.outputs)[np.array(columns)[scores[:, columns].argmin(axis=1)]]
    of_vendor = ["cusparse" in name for name in chosen]
    untried = [name not in tried[matrix] for name, matrix in zip(chosen, matrices.index, strict=True)]
    assert len(chosen) > 100
    assert not np.any(np.logical_and(of_vendor, untried))
    assert np.mean(untried) < 0.05

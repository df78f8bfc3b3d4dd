import shutil

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from training.training_tables import sweep
from warploom import profiles
from warploom.bench import Measurements
from warploom.errors import ParameterError
from warploom.model_inputs import model_inputs
from warploom.training.data import NOT_MEASURED
from warploom.training.on_sweep import main, on_sweep

FEWEST_SHARE = 0.95
"""Of the speed of the fastest candidate, in the geometric mean."""


@pytest.fixture(scope="module")
def unseen_k():
    return Measurements.load("h200-k-test")


@pytest.fixture(scope="module")
def scores(unseen_k):
    return on_sweep(unseen_k)


def test_the_shipped_models_choose_well_with_k_that_they_have_not_seen_on_a_matrix(scores):
    whole = scores[scores["k"] == 0].set_index(["setting", "chosen_by"])
    assert set(whole.index.get_level_values("setting")) == {"spmm-float32-row-warm", "spmm-float32-row-cold"}
    assert (whole["rows"] > 600).all()
    assert (whole["oracle_share"].xs("blend", level="chosen_by") > FEWEST_SHARE).all()
    assert (whole["slower_than_vendor"].xs("blend", level="chosen_by") < 0.02).all()


def test_the_figures_are_those_of_the_chosen_times(unseen_k, scores):
    """Times of what the trees choose, looked up in the measurements, near-ties counting as the fastest."""
    trees = profiles.load(profiles.shipped_path("NVIDIA H200")).models["spmm-float32-row-warm"]
    rows = unseen_k.measurements
    rows = rows[rows["setting"] == "spmm/float32/row/k=64"].astype({"candidate": str})
    warm = rows[rows["cache"] == "warm"]
    times = warm.pivot_table(index="matrix", columns="candidate", values="median_us", observed=True)
    matrices = unseen_k.matrices.set_index("matrix").loc[times.index].select_dtypes("number")
    numbers = {name: column.to_numpy() for name, column in matrices.items()}
    predicted = trees.predict(np.nan_to_num(model_inputs(numbers, 64, trees.inputs), nan=NOT_MEASURED))
    columns = [name for name in trees.outputs if name in times.columns]
    predicted = pd.DataFrame(predicted, index=times.index, columns=list(trees.outputs))[columns]
    not_started = rows[rows["status"] == "time limit"].groupby("matrix", observed=True)["candidate"].agg(set)
    ratio = []
    for matrix, row in times.iterrows():
        possible = [c for c in columns if np.isfinite(row[c]) or c in not_started.get(matrix, ())]
        chosen = predicted.loc[matrix, possible].idxmin()
        if np.isfinite(row[chosen]):
            ratio.append(row.min() / row[chosen])
    ratio = np.array(ratio)
    line = scores.set_index(["setting", "k", "chosen_by"]).loc[("spmm-float32-row-warm", 64, "trees")]
    assert line["rows"] == len(ratio) > 90
    assert np.exp(np.log(ratio).mean()) <= line["oracle_share"] + 1e-4
    assert line["oracle_share"] < np.exp(np.log(np.where(ratio > 0.96, 1, ratio)).mean()) + 1e-4


def test_profiles_that_lack_the_models_or_the_gpu_are_refused(unseen_k, tmp_path):
    shipped = profiles.shipped_path("NVIDIA H200")
    for folder in (tmp_path, tmp_path / "network"):
        folder.mkdir(exist_ok=True)
        shutil.copy(shipped.parent / "gao2024" / shipped.name, folder)
    with pytest.raises(ParameterError, match="no model of what was measured"):
        on_sweep(unseen_k, tmp_path)
    with pytest.raises(ParameterError, match="no profile of Test GPU"):
        on_sweep(sweep(30))


def test_command_writes_the_table(tmp_path, scores):
    output = tmp_path / "scores.csv"
    done = CliRunner().invoke(main, ["h200-k-test", "--output", str(output)])
    assert done.exit_code == 0, done.output
    pd.testing.assert_frame_equal(pd.read_csv(output), scores)
    assert "oracle_share" in done.output

import types

import numpy as np
import pytest
from click.testing import CliRunner

from training.training_tables import sweep
from warploom.errors import ParameterError
from warploom.training import beyond
from warploom.training.joint_network import JointOptions

pytest.importorskip("torch")

SMALL = JointOptions(hidden=(16, 16), members=1, epochs=20, checkpoint=20, batch=32, noise=0.02, averaging=0.98)


@pytest.fixture(scope="module")
def measurements():
    return sweep(120, noise=0.01)


def test_choices_are_made_for_what_was_left_out(measurements, monkeypatch):
    monkeypatch.setattr(beyond, "LARGE", 50_000)
    nnz = measurements.matrices["nnz"].to_numpy()
    table = beyond.beyond(measurements, SMALL)
    assert set(table["setting"]) == {"spmv-float32-warm", "spmv-float32-cold"}
    assert set(table["chosen_by"]) == {"trees", "network", "fixed", "trees, measured", "network, measured"}
    assert (table["rows"] == np.count_nonzero(nnz >= 50_000)).all()
    assert table["oracle_share"].between(0.5, 1).all()
    shares = table[table["setting"] == "spmv-float32-warm"].set_index("chosen_by")["oracle_share"]
    assert shares["trees"] > shares["fixed"]
    for way in ("trees", "network"):
        assert shares[f"{way}, measured"] >= shares[way]


def test_what_is_measured_for_sizes_that_were_not_seen():
    """The first choice, three of the vendor's and those for large matrices, and the fastest of these is taken."""
    names = [
        "spmv/none/csr/scalar",
        "spmv/none/csr/vector",
        "spmv/none/compressed-sell/vector",
        "spmv/none/compressed-sell/vector[parts=4]",
        "spmv/none/csr/cusparse",
        "spmv/none/csr/cusparse[algorithm=1]",
        "spmv/none/csr/cusparse[algorithm=2]",
        "spmv/none/coo/cusparse[algorithm=1]",
    ]
    inf = np.inf
    times = np.array(
        [
            [9, 1, 5, 1, 8, 8, 8, 1],  # what wins on large matrices, which no model knows
            [9, 1, 9, 1, 8, 7, 8, 1],  # the vendor's second; the fourth is not measured
            [2, 1, 9, 1, 8, 7, 8, 1],  # the first choice
            [inf, 1, 2, 1, 8, 7, 8, 1],  # which the sweep lacks
            [9, 1, 3, 1, 8, 7, 8, 1],  # compressed-sell cannot run
        ]
    )
    predicted = np.tile([0.1, 0.2, inf, inf, 0.3, 0.4, 0.5, 0.6], (5, 1))
    supported = np.ones(times.shape, dtype=bool)
    supported[4, 2] = False
    others = types.SimpleNamespace(op="spmv", candidates=names, times=times, supported=supported)
    assert beyond._measured(predicted, others).tolist() == [2, 5, 0, 0, 5]


def test_nothing_to_leave_out_is_an_error(measurements, monkeypatch):
    monkeypatch.setattr(beyond, "LARGE", 10**12)
    with pytest.raises(ParameterError, match="both sides") as caught:
        beyond.beyond(measurements, SMALL)
    assert caught.value.argument == "measurements"


def test_the_command_writes_a_table(measurements, monkeypatch, tmp_path):
    monkeypatch.setattr(beyond, "LARGE", 50_000)
    monkeypatch.setattr(beyond, "JointOptions", lambda: SMALL)
    measurements.save(tmp_path / "measured")
    ran = CliRunner().invoke(beyond.main, [str(tmp_path / "measured"), "--output", str(tmp_path / "t.csv")])
    assert ran.exit_code == 0, ran.output
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 1 + 2 * 5

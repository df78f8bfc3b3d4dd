"""The feature of locality, added to measurements that lack it."""

import numpy as np
import pandas as pd
import pytest

from warploom import _core, corpus, errors
from warploom._matrix import as_csr
from warploom.bench import Measurements, overlaps
from warploom.bench.schema import OVERLAP

from .tables import matrix, measured, tables

LARGE = "uniform(m=120000,n=120000,per_row=9)"
NAMES = (LARGE, f"{LARGE}.shuffled", "grid2d(nx=5,ny=4)")


@pytest.fixture
def folder(tmp_path):
    facts = []
    for name in NAMES:
        A = corpus.load(name)
        facts.append(matrix(name, A.shape[0], A.shape[1], A.nnz))
    facts.append(matrix("Nobody/knows", 3, 3, 2_000_000))
    facts.append(matrix("rmat(scale=5)", 32, 32, 1_500_000))  # of other sizes than the one of that name
    tables(facts, [measured(row["matrix"]) for row in facts]).save(tmp_path / "merged")
    return tmp_path / "merged"


def test_values_are_computed_once_and_added(folder, tmp_path, monkeypatch):
    before = Measurements.load(folder)
    assert before.matrices[OVERLAP].isna().all()
    large = before.matrices[before.matrices["nnz"] >= 1e6]
    said = []
    values = overlaps.collect(large, tmp_path / "values.csv", said.append)
    expected = {name: _core.compute_hidden_overlap(as_csr(corpus.load(name))) for name in NAMES[:2]}
    assert values.to_dict() == expected
    assert len(said) == 2
    assert any("Nobody/knows" in line for line in said)
    assert any(line.startswith("rmat(scale=5) is another matrix") for line in said)

    monkeypatch.setattr(corpus, "load", None)  # nothing is loaded again
    again = overlaps.collect(large[large["matrix"].isin(NAMES)], tmp_path / "values.csv")
    assert again.to_dict() == expected

    assert overlaps.add(folder, expected) == 2
    after = Measurements.load(folder)
    found = after.matrices.set_index("matrix")[OVERLAP]
    assert found[list(NAMES)].to_dict() == expected | {NAMES[2]: -1.0}
    assert np.isnan(found["Nobody/knows"])
    pd.testing.assert_frame_equal(after.measurements, before.measurements)
    rest = [name for name in before.matrices if name != OVERLAP]
    pd.testing.assert_frame_equal(after.matrices[rest], before.matrices[rest])
    assert after.environments == before.environments
    assert overlaps.add(folder, {}) == 2  # what is known is kept
    pd.testing.assert_frame_equal(Measurements.load(folder).matrices, after.matrices)


def test_folders_without_merged_measurements_are_refused(tmp_path):
    with pytest.raises(errors.FileFormatError):
        overlaps.add(tmp_path, {})

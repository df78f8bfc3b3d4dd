from __future__ import annotations

import numpy as np
import pytest

from warploom import _core, permutations
from warploom._device import Device
from warploom.corpus import find as matrix
from warploom.experiments import find
from warploom.experiments.permutations import BRUTE_FORCE, MATRICES
from warploom.experiments.permutations import permutations as measure

SMALL = ["uniform(m=300,n=300,per_row=5)", "banded(n=200,lower=3,upper=3)"]


def test_matrices_have_30000_rows():
    assert [matrix(name).load().shape[0] for name in MATRICES] == [30_000] * 3


def test_every_permutation_is_measured_beside_the_brute_force():
    table = measure(Device("cpu"), lambda *_: None, SMALL)
    assert list(table.columns) == list(find("permutations").columns)
    for name in SMALL:
        own = table[table["matrix"] == name]
        assert own["permutation"].tolist() == [BRUTE_FORCE, *permutations.names()]
    assert (table["median_us"] > 0).all()
    assert set(table["threads"]) == {1}
    assert table.groupby("matrix")["rows"].first().to_dict() == {SMALL[0]: 300, SMALL[1]: 200}


def test_another_permutation_than_that_of_the_brute_force_is_noticed(monkeypatch):
    monkeypatch.setattr(_core, "_cta_aware_by_brute_force", lambda view: np.arange(view.shape[0])[::-1])
    with pytest.raises(RuntimeError, match="differs from brute force on uniform"):
        measure(Device("cpu"), lambda *_: None, SMALL[:1])

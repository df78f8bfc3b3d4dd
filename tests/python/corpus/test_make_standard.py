from __future__ import annotations

import csv
import gzip

import pytest

from warploom import corpus
from warploom.corpus import make_standard


def test_the_shipped_constructions_are_listed():
    listed = make_standard.constructions()
    assert len(set(listed)) == len(listed)
    shipped = {entry.name for entry in corpus.standard("spmv") if entry.source == "construction"}
    assert len(shipped) > 1500
    assert shipped <= set(listed)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """The table that is made of two constructions, twice: of one of them at first."""
    monkeypatch.setattr(make_standard, "_OUTPUT", tmp_path / "standard.csv.gz")
    names = ["grid2d(nx=9,ny=7)", "uniform(m=70,n=40,per_row=3)"]
    for count in (1, 2):
        monkeypatch.setattr(make_standard, "constructions", lambda count=count: names[:count])
        make_standard.main([])
    with gzip.open(tmp_path / "standard.csv.gz", "rt") as file:
        return {row["matrix"]: row for row in csv.DictReader(file)}


def test_matrices_are_noted_with_what_derives_from_them(written):
    grid, uniform = "grid2d(nx=9,ny=7)", "uniform(m=70,n=40,per_row=3)"
    assert set(written) == {
        *(grid, f"{grid}[0:31]", f"{grid}[31:63]"),
        *(uniform, f"{uniform}.T", f"{uniform}[0:35]", f"{uniform}[35:70]"),
    }
    assert written[grid]["parts"] == "spmm spmv"
    assert written[uniform]["parts"] == "spmv"
    assert int(written[grid]["nnz"]) == corpus.load(grid).nnz
    assert (written[f"{uniform}.T"]["rows"], written[f"{uniform}.T"]["cols"]) == ("40", "70")
    halves = [int(written[f"{uniform}[{part}]"]["nnz"]) for part in ("0:35", "35:70")]
    assert sum(halves) == int(written[uniform]["nnz"])

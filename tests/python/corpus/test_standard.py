import collections
import random

import pytest

from warploom import corpus
from warploom.bench.settings import SPMM, SPMV, Setting
from warploom.corpus.lookup import find_all
from warploom.errors import ParameterError


@pytest.fixture(scope="module")
def parts():
    return {part: corpus.standard(part) for part in corpus.PARTS}


def test_sizes_of_the_parts(parts):
    assert len(parts["spmm"]) > 1500
    assert len(parts["spmv"]) > 2400
    assert len(parts["blocks"]) > 4600
    assert len(parts["transposes"]) > 900
    for part in parts.values():
        assert len({entry.name for entry in part}) == len(part)


def test_what_the_parts_hold(parts):
    assert all(e.rows == e.cols <= 30_000 for e in parts["spmm"])
    assert {e.name for e in parts["spmm"]} <= {e.name for e in parts["spmv"]}
    assert max(e.nnz for e in parts["spmv"]) > 5e7
    assert max(e.nnz for e in parts["spmv"]) <= 1e8
    whole = {e.name: e for e in parts["spmv"]}
    for entry in parts["transposes"]:
        of = whole[entry.name.removesuffix(".T")]
        assert (entry.rows, entry.cols, entry.nnz) == (of.cols, of.rows, of.nnz)
    for entry in parts["blocks"]:
        of = whole[entry.name.partition("[")[0]]
        assert entry.rows <= of.rows
        assert entry.nnz <= of.nnz


def test_no_family_dominates(parts):
    families = collections.Counter(entry.family for entry in parts["spmv"])
    assert len(families) > 100
    assert max(families.values()) < 0.1 * len(parts["spmv"])


@pytest.mark.parametrize("part", corpus.PARTS)
def test_matrices_have_the_sizes_of_the_table(parts, part):
    made = [e for e in parts[part] if e.source == "construction" and e.nnz < 100_000]
    for entry in random.Random(part).sample(made, 25):
        A = entry.load()
        assert (*A.shape, A.nnz) == (entry.rows, entry.cols, entry.nnz), entry.name


def test_settings_of_the_parts_are_those_of_the_shipped_measurements():
    assert corpus.PARTS["spmm"].settings == SPMM
    assert corpus.PARTS["spmv"].settings == SPMV
    for part in corpus.PARTS.values():
        assert [Setting.parse(name).name for name in part.settings] == list(part.settings)


def test_an_unknown_part_lists_the_known_ones():
    with pytest.raises(ParameterError, match="transposes") as caught:
        corpus.standard("everything")
    assert caught.value.argument == "part"


def test_folders_are_listed_once_for_many_names(tmp_path, monkeypatch):
    from warploom.corpus import lookup

    listed = []
    monkeypatch.setattr(lookup, "listing", lambda root: listed.append(root) or {})
    entries = find_all(["HB/dwt_361", "HB/west0479.T", "grid2d(nx=3,ny=3)[0:4]"], folders=[tmp_path])
    assert [e.name for e in entries] == ["HB/dwt_361", "HB/west0479.T", "grid2d(nx=3,ny=3)[0:4]"]
    assert listed == [tmp_path]

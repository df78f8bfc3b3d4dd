import dataclasses

import numpy as np
import pytest

from warploom import examples
from warploom.bench.end_to_end import sample
from warploom.bench.end_to_end.sample import entries_by_size

SMALL = [entry for entry in sample() if entry.nnz < 200_000]


def counts(entries):
    return np.bincount(np.searchsorted([10**5, 10**6, 10**7], [entry.nnz for entry in entries], side="right"))


def test_the_sample_has_all_sizes_and_many_families():
    entries = sample()
    sizes = [entry.nnz for entry in entries]
    assert 95 <= len(entries) == len({entry.name for entry in entries})
    assert min(sizes) < 2000
    assert max(sizes) > 5 * 10**7
    assert counts(entries)[2:].sum() >= 64  # above 10^6
    assert counts(entries)[3] >= 10
    assert len({entry.family for entry in entries}) >= 30
    assert {f"example:{name}" for name in examples.names()} <= {entry.name for entry in entries}


def test_the_quick_part_has_all_sizes():
    quick = sample(quick=True)
    assert len(quick) <= 20
    assert counts(quick).min() >= 2
    assert {entry.name for entry in quick} <= {entry.name for entry in sample()}


def test_the_sample_is_the_same_every_time():
    assert [entry.name for entry in sample()] == [entry.name for entry in sample()]


@pytest.mark.parametrize("entry", SMALL, ids=lambda entry: entry.name)
def test_sizes_are_those_of_the_matrices(entry):
    A = entry.load()
    assert (*A.shape, A.nnz) == (entry.rows, entry.cols, entry.nnz)
    assert (entry.load() != A).nnz == 0


def test_every_start_of_the_list_has_all_sizes():
    start = sample()[:25]
    assert counts(start).min() >= 2
    largest = [entry.nnz for entry in sample() if entry.nnz >= 10**7]
    assert largest != sorted(largest)


def test_matrices_of_unknown_size_come_last():
    known = sample()[:5]
    unknown = dataclasses.replace(known[0], name="unknown", nnz=None)
    assert [entry.name for entry in entries_by_size([unknown, *known])][-1] == "unknown"

"""The corpus of large matrices: how many, of what, how large, and what they are measured in."""

import collections

import pytest

from warploom import corpus
from warploom.bench.settings import Setting
from warploom.corpus import make_large
from warploom.corpus.large import REORDERINGS, large, settings_of_large
from warploom.errors import ParameterError


@pytest.fixture(scope="module")
def entries():
    return large(reordered=False)


def in_bounds(entry):
    return 10**5 <= entry.rows <= 10**7 and 10**6 <= entry.nnz <= 10**8


def base(entry):
    return entry.name.partition(".shuffled")[0].removesuffix(".half")


def test_sizes(entries):
    assert len({e.name for e in entries}) == len(entries)
    assert sum(in_bounds(e) for e in large("spmv", reordered=False)) >= 200
    assert sum(in_bounds(e) for e in large("spmm", reordered=False)) >= 160
    assert all(e.nnz <= corpus.LARGEST_NNZ for e in entries)
    smaller = [e for e in entries if not in_bounds(e)]
    assert {e.origin for e in smaller} <= {"real", "real by origin"}
    assert len(smaller) < 0.2 * len(entries)


def test_what_it_holds(entries):
    bases = {base(e): e for e in entries if in_bounds(e)}
    origins = collections.Counter(e.origin for e in bases.values())
    assert origins["real by origin"] >= 50
    assert origins["constructed"] >= 90
    families = collections.Counter(e.family for e in bases.values())
    assert len(families) >= 50
    assert max(families.values()) < 0.2 * len(bases)


def test_most_matrices_are_there_in_three_orders(entries):
    orders = collections.defaultdict(set)
    for entry in entries:
        orders[base(entry)].add(entry.arrangement)
    assert all("natural" in found for found in orders.values())
    assert sum(found == {"natural", "shuffled", "half"} for found in orders.values()) > 0.75 * len(orders)


def test_shuffled_square_matrices_are_put_in_order_again():
    found = large()
    again = [e for e in found if ".reordered(" in e.name]
    assert {e.arrangement for e in again} == {f"shuffled.reordered({order})" for order in REORDERINGS}
    square = [e for e in found if e.arrangement == "shuffled" and e.rows == e.cols]
    assert len(again) == len(REORDERINGS) * len(square)


def test_the_table_is_that_of_the_script():
    listed = dict(make_large.constructions())
    constructed = {base(e) for e in large(reordered=False) if e.origin == "constructed"}
    assert constructed == set(listed)
    assert {base(e) for e in large() if e.source == "origin"} == set(corpus.origins.index())
    assert {base(e) for e in large() if e.origin == "real"} == set(make_large.COLLECTED)


@pytest.mark.parametrize("name", ["hexagonal_mesh(width=2000,height=2000)", "spin_chain(sites=18).half"])
def test_matrices_have_the_sizes_of_the_table(entries, name):
    (entry,) = [e for e in entries if e.name == name]
    A = entry.load()
    assert (*A.shape, A.nnz) == (entry.rows, entry.cols, entry.nnz)


def test_settings_that_memory_and_time_permit(entries):
    for entry in entries:
        names = settings_of_large(entry)
        parsed = [Setting.parse(name) for name in names]
        assert names[0] == "spmv/float64"
        for setting in parsed:
            if setting.op == "spmm":
                assert 4 * setting.k * (entry.rows + entry.cols) <= 40 * 2**30
                assert entry.nnz * setting.k <= 10**10
        if entry.arrangement == "half":
            assert len(names) <= 3
    small = next(e for e in entries if e.nnz < 2_000_000 and e.rows < 300_000 and e.arrangement == "shuffled")
    rows = [s.k for s in map(Setting.parse, settings_of_large(small)) if s.op == "spmm" and s.layout == "row"]
    assert rows == [8, 16, 32, 64, 100, 128, 256, 512, 1024]
    assert settings_of_large(small)[-1] == "spmm/float32/column/k=128"
    huge = max(entries, key=lambda e: e.nnz)
    assert not any("k=1024" in name for name in settings_of_large(huge))


def test_bad_arguments_are_refused():
    with pytest.raises(ParameterError) as caught:
        large("spgemm")
    assert caught.value.argument == "operation"
    with pytest.raises(ParameterError, match="not known"):
        settings_of_large(corpus.find("rmat(scale=5)"))

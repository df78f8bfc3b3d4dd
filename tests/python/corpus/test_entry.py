"""Entries: what transposes and slices do to them, and that other processes can load them."""

import functools
import multiprocessing
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from warploom import errors
from warploom.corpus import Entry, names

A = sp.random_array((9, 5), density=0.4, rng=np.random.default_rng(2), format="csr")


def load_a(seed, progress):
    return A.copy()


@pytest.fixture
def entry():
    return Entry(
        name="g/A",
        family="g",
        kind="graph",
        source="folder",
        licence="",
        rows=9,
        cols=5,
        nnz=A.nnz,
        loader=functools.partial(load_a, 3),
    )


def steps(text):
    return names.parse(f"g/A{text}").steps


@pytest.mark.parametrize(
    ("suffixes", "expected"),
    [
        ("", A),
        (".T", A.T),
        ("[2:4]", A[2:4]),
        ("[2:]", A[2:]),
        ("[:9]", A),
        (".T[2:4]", A.T[2:4]),
        ("[2:4].T", A[2:4].T),
        ("[2:8].T[1:3].T[0:2]", A[2:8].T.tocsr()[1:3].T.tocsr()[0:2]),
    ],
)
def test_suffixes_equal_scipy(entry, suffixes, expected):
    changed = entry.after(steps(suffixes))
    loaded = changed.load()
    assert isinstance(loaded, sp.csr_array)
    assert (changed.rows, changed.cols) == loaded.shape == expected.shape
    assert changed.nnz in (None, loaded.nnz)
    assert changed.name == names.canonical(f"g/A{suffixes}")
    assert (changed.family, changed.kind) == ("g", "graph")
    np.testing.assert_array_equal(loaded.toarray(), expected.toarray())


def test_what_is_known_before_loading(entry):
    assert entry.after(()) is entry
    assert entry.after(steps(".T")).nnz == A.nnz
    assert entry.after(steps("[1:2]")).nnz is None
    unknown = Entry(**{**vars(entry), "rows": None, "cols": None, "nnz": None})
    sliced = unknown.after(steps("[2:4].T"))
    assert (sliced.rows, sliced.cols) == (None, 2)
    assert unknown.after(steps("[2:]")).rows is None


@given(st.integers(0, 12), st.integers(1, 6), st.integers(0, 12), st.integers(1, 6), st.booleans())
@settings(deadline=None)
def test_slices_of_slices(a, b, c, d, between):
    entry = Entry(
        name="A",
        family="",
        kind="",
        source="folder",
        licence="",
        rows=9,
        cols=5,
        nnz=None,
        loader=functools.partial(load_a, 0),
    )
    text = f"[{a}:{a + b}]{'.T' if between else ''}[{c}:{c + d}]"
    inner = A.toarray()[a : a + b]
    inner = inner.T if between else inner
    fits = (a + b <= 9 and c + d <= 5) if between else (c + d <= b and a + c + d <= 9)
    if fits:
        np.testing.assert_array_equal(entry.after(steps(text)).load().toarray(), inner[c : c + d])
    else:
        with pytest.raises(errors.ParameterError, match="goes beyond the"):
            entry.after(steps(text))


def test_slices_beyond_a_size_that_was_unknown(entry):
    unknown = Entry(**{**vars(entry), "rows": None})
    changed = unknown.after(steps("[8:10]"))
    with pytest.raises(errors.ParameterError, match=r"\[8:10\] goes beyond the 9 rows") as caught:
        changed.load()
    assert caught.value.argument == "name"
    with pytest.raises(errors.ParameterError, match=r"\[9:\] goes beyond"):
        unknown.after(steps("[9:]")).load()


def _shape(entry):
    return entry.load().shape


def test_other_processes_can_load_it(entry):
    changed = entry.after(steps(".T[0:2]"))
    copied = pickle.loads(pickle.dumps(changed))
    assert copied == changed
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_shape, [changed]) == [(2, 9)]


def test_it_does_not_change(entry):
    with pytest.raises(AttributeError):
        entry.name = "B"
    assert "loader" not in repr(entry)
    assert len({entry, entry.after(steps(".T.T")), entry.after(steps(".T"))}) == 2

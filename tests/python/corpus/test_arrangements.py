"""Arrangements: random orders that hide locality, and orders that find it again."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import warploom as wl
from warploom import corpus
from warploom.corpus.arrangements import ARRANGEMENTS, arranged, reordered
from warploom.errors import ParameterError


@pytest.mark.parametrize("how", ARRANGEMENTS)
@settings(max_examples=40, deadline=None)
@given(rows=st.integers(0, 30), columns=st.integers(1, 30), square=st.booleans(), seed=st.integers(0, 9))
def test_arranged_permutes_rows_and_columns(how, rows, columns, square, seed):
    shape = (rows, rows) if square else (rows, columns)
    A = sp.random_array(shape, density=0.3, rng=np.random.default_rng(seed), format="csr")
    found = arranged(A, how, seed)
    assert found.shape == A.shape
    np.testing.assert_array_equal(np.sort(found.data), np.sort(A.data))
    assert found.has_canonical_format
    if square:  # rows and columns alike: a diagonal stays one
        np.testing.assert_array_equal(np.sort(found.diagonal()), np.sort(A.diagonal()))
    if how == "natural":
        assert found is A


def test_half_of_the_rows_keep_their_places():
    A = sp.csr_array(sp.diags_array(np.arange(1.0, 1001)))
    moved = {how: np.mean(arranged(A, how).diagonal() != A.diagonal()) for how in ARRANGEMENTS}
    assert moved["natural"] == 0
    assert 0.45 < moved["half"] <= 0.5
    assert moved["shuffled"] > 0.98
    assert arranged(A, "half").nnz == 1000
    with pytest.raises(ParameterError, match="natural, shuffled, half"):
        arranged(A, "reversed")


def test_orders_are_the_same_everywhere():
    A = sp.csr_array(sp.diags_array(np.arange(1.0, 9)))
    assert arranged(A, "shuffled").diagonal().tolist() == [1, 8, 3, 6, 5, 7, 4, 2]
    assert arranged(A, "half").diagonal().tolist() == [1, 2, 7, 4, 5, 6, 8, 3]


def test_an_order_for_locality_is_that_of_reorder():
    A = corpus.load("grid2d(nx=30,ny=30).shuffled")
    for order in ("rcm", "community"):
        found = reordered(A, order)
        np.testing.assert_array_equal(found.indices, wl.reorder(A, order).A.indices)
        assert (corpus.load(f"grid2d(nx=30,ny=30).shuffled.reordered({order})") != found).nnz == 0


@pytest.mark.parametrize(("order", "shape"), [("minhash", (4, 4)), ("rcm", (3, 4))])
def test_what_cannot_be_reordered_is_refused(order, shape):
    with pytest.raises(ParameterError) as caught:
        reordered(sp.csr_array(np.ones(shape)), order)
    assert caught.value.argument == "order"

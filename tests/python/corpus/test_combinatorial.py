from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from hypothesis import given
from hypothesis import strategies as st
from well_formed import degrees, digest, is_symmetric, make, pattern

from warploom.corpus.constructions import combinatorial, construct, find
from warploom.errors import ParameterError

PARAMETERS = {
    "mycielskian": st.fixed_dictionaries({"k": st.integers(2, 9)}),
    "bibd": st.integers(2, 9).flatmap(lambda n: st.fixed_dictionaries({"n": st.just(n), "k": st.integers(2, n)})),
    "trefethen": st.fixed_dictionaries({"n": st.integers(1, 300), "first": st.integers(0, 40)}),
    "wheel_colouring": st.fixed_dictionaries({"rim": st.integers(3, 9)}),
    "kneser_colouring": st.integers(2, 6).flatmap(
        lambda n: st.fixed_dictionaries({"n": st.just(n), "k": st.integers(1, n // 2)})
    ),
}


@pytest.mark.parametrize("name", combinatorial.__all__)
def test_every_construction_is_well_formed(name):
    @given(PARAMETERS[name])
    def check(parameters):
        make(name, **parameters)

    check()


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("mycielskian", {"k": 6}, "8141d270bb300890"),
        ("bibd", {"n": 9, "k": 4}, "0de57b20750bc1c9"),
        ("trefethen", {"n": 100}, "41596ae04118fd86"),
        ("trefethen", {"n": 99, "first": 1}, "46690a56fe060e26"),
        ("wheel_colouring", {"rim": 5}, "709fb290d29202f6"),
        ("kneser_colouring", {"n": 5, "k": 2}, "d88e7c26331b671f"),
    ],
)
def test_patterns_are_the_same_everywhere(name, parameters, expected):
    assert digest(construct(name, **parameters)) == expected


def colourable(dense, colours):
    """Whether a graph has a proper colouring, by trying all."""
    n = len(dense)

    def extend(chosen):
        if len(chosen) == n:
            return True
        new = len(chosen)
        taken = {chosen[v] for v in range(new) if dense[new, v]}
        return any(extend([*chosen, c]) for c in range(min(colours, max(chosen, default=-1) + 2)) if c not in taken)

    return extend([])


@pytest.mark.parametrize("k", [3, 4])
def test_mycielskians_have_no_triangle_and_need_k_colours(k):
    dense = pattern(make("mycielskian", k=k))
    assert is_symmetric(make("mycielskian", k=k))
    assert np.trace(np.linalg.matrix_power(dense.astype(int), 3)) == 0
    assert colourable(dense, k)
    assert not colourable(dense, k - 1)


@given(PARAMETERS["bibd"])
def test_bibd_joins_pairs_to_the_blocks_that_contain_them(parameters):
    n, k = parameters["n"], parameters["k"]
    pairs, blocks = itertools.combinations(range(n), 2), list(itertools.combinations(range(n), k))
    expected = [[set(pair) <= set(block) for block in blocks] for pair in pairs]
    np.testing.assert_array_equal(pattern(make("bibd", n=n, k=k)), expected)


@given(PARAMETERS["trefethen"])
def test_trefethen_has_primes_on_the_diagonal_and_ones_at_powers_of_two(parameters):
    n, first = parameters["n"], parameters["first"]
    primes = [p for p in range(2, 2500) if all(p % d for d in range(2, int(p**0.5) + 1))]
    expected = np.diag(np.array(primes[first : first + n], float))
    for i, j in itertools.permutations(range(min(n, 40)), 2):
        expected[i, j] = abs(i - j) in (1, 2, 4, 8, 16, 32)
    matrix = make("trefethen", n=n, first=first).toarray()
    np.testing.assert_array_equal(matrix.diagonal(), expected.diagonal())
    np.testing.assert_array_equal(matrix[:40, :40], expected[:40, :40])
    np.testing.assert_array_equal(matrix, matrix.T)


def test_the_answer_to_trefethens_seventh_problem():
    matrix = make("trefethen", n=20000)
    first = np.eye(1, 20000)[0]
    preconditioner = scipy.sparse.diags_array(1 / matrix.diagonal())
    solution, failed = scipy.sparse.linalg.cg(matrix, first, rtol=1e-14, M=preconditioner)
    assert not failed
    assert solution[0] == pytest.approx(0.7250783462684, abs=1e-12)


def system_over_two_elements(n, edges):
    """The coefficients by definition: sets of monomials, a column a polynomial."""
    polynomials = [{(), (0, 0, 0)}]
    for s in range(n):
        polynomials += [{tuple(sorted((s, *m))) for m in ((i, i), (i, j), (j, j))} for i, j in edges]
    return polynomials


@pytest.mark.parametrize("rim", [3, 4, 5])
def test_systems_of_wheels_are_those_of_their_polynomials(rim):
    spokes = [(0, v) for v in range(1, rim + 1)]
    around = [tuple(sorted((v, v % rim + 1))) for v in range(1, rim + 1)]
    polynomials = system_over_two_elements(rim + 1, spokes + around)
    dense = pattern(make("wheel_colouring", rim=rim))
    monomials = sorted(set().union(*polynomials))
    expected = {tuple(m in p for m in monomials) for p in polynomials}
    assert dense.shape == (len(monomials), len(polynomials))
    assert {tuple(column) for column in dense.T.tolist()} == expected


def solvable_over_two_elements(dense):
    """Whether some sum of columns modulo 2 is the monomial 1, the first row, alone."""
    augmented = np.concatenate([dense, np.eye(len(dense), 1, dtype=bool)], axis=1)

    def rank(matrix):
        matrix, found = matrix.copy(), 0
        for column in range(matrix.shape[1]):
            pivots = np.flatnonzero(matrix[found:, column])
            if len(pivots):
                matrix[[found, found + pivots[0]]] = matrix[[found + pivots[0], found]]
                others = np.flatnonzero(matrix[:, column])
                others = others[others != found]
                matrix[others] ^= matrix[found]
                found += 1
            if found == len(matrix):
                break
        return found

    return rank(augmented) == rank(dense)


@pytest.mark.parametrize(("rim", "provable"), [(3, True), (4, False), (5, True), (6, False), (7, True)])
def test_exactly_odd_wheels_have_a_proof_that_three_colours_do_not_do(rim, provable):
    assert solvable_over_two_elements(pattern(make("wheel_colouring", rim=rim))) == provable


def test_rows_of_bibd_have_equal_lengths():
    assert set(degrees(make("bibd", n=9, k=4)).tolist()) == {21}


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("mycielskian", {"k": 1}, "k"),
        ("mycielskian", {"k": 21}, "k"),
        ("mycielskian", {"k": 5.0}, "k"),
        ("bibd", {"n": 1, "k": 2}, "n"),
        ("bibd", {"n": 5, "k": 6}, "k"),
        ("bibd", {"n": 60, "k": 30}, "k"),
        ("trefethen", {"n": 0}, "n"),
        ("trefethen", {"n": 5, "first": -1}, "first"),
        ("wheel_colouring", {"rim": 2}, "rim"),
        ("kneser_colouring", {"n": 5, "k": 3}, "k"),
        ("kneser_colouring", {"n": 13, "k": 3}, "n"),
    ],
)
def test_bad_parameters_are_named(name, parameters, argument):
    with pytest.raises(ParameterError) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument


def test_constructions_are_registered_with_a_summary():
    for name in combinatorial.__all__:
        assert find(name).summary.endswith(".")
        assert find(name).kind

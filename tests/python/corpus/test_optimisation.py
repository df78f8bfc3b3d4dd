"""Constraint matrices and Hessians against their rows, one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from construction_calls import dense_pattern, is_symmetric

from warploom.corpus.constructions import construct
from warploom.errors import ParameterError


def test_transportation():
    matrix = dense_pattern(construct("transportation", sources=3, destinations=4))
    for source, destination in itertools.product(range(3), range(4)):
        assert set(np.flatnonzero(matrix[:, source * 4 + destination])) == {source, 3 + destination}


@pytest.mark.parametrize("n", [2, 3, 4])
def test_quadratic_assignment(n):
    """Each constraint by the sums that the relaxation is stated with."""
    every = range(n)
    columns = [("x", i, j) for i in every for j in every]
    columns += [("y", i, j, k, p) for i in every for j in every for k in every for p in every if i < k and j != p]
    number = {column: position for position, column in enumerate(columns)}

    def both(i, j, k, p):
        return number[("y", i, j, k, p) if i < k else ("y", k, p, i, j)]

    rows = [{number["x", i, j] for j in every} for i in every]
    rows += [{number["x", i, j] for i in every} for j in every]
    for i, j, k in itertools.product(every, repeat=3):
        if k != i:
            rows.append({number["x", i, j]} | {both(i, j, k, p) for p in every if p != j})
    for i, j, p in itertools.product(every, repeat=3):
        if p != j:
            rows.append({number["x", i, j]} | {both(i, j, k, p) for k in every if k != i})
    matrix = dense_pattern(construct("quadratic_assignment", n=n))
    assert matrix.shape == (len(rows), len(columns))
    assert [set(np.flatnonzero(row)) for row in matrix] == rows


def test_multicommodity_conserves_each_good():
    goods, nodes, arcs = 3, 5, 8
    matrix = dense_pattern(construct("multicommodity", commodities=goods, nodes=nodes, arcs=arcs))
    ends = [set(np.flatnonzero(matrix[:nodes, arc])) for arc in range(arcs)]
    assert all(len(pair) == 2 for pair in ends)
    for good, arc in itertools.product(range(goods), range(arcs)):
        expected = {good * nodes + end for end in ends[arc]} | {goods * nodes + arc}
        assert set(np.flatnonzero(matrix[:, good * arcs + arc])) == expected
    np.testing.assert_array_equal(matrix[goods * nodes :, goods * arcs :], np.eye(arcs))


def test_block_angular_has_blocks_below_links():
    matrix = dense_pattern(construct("block_angular", blocks=4, rows=6, columns=9, linking=5, percent=100))
    assert (matrix[:5].sum(axis=0) == 1).all()
    blocks = matrix[5:].reshape(4, 6, 4, 9).sum(axis=(1, 3))
    assert (blocks.diagonal() >= 9).all()
    assert not (blocks - np.diag(blocks.diagonal())).any()
    without = dense_pattern(construct("block_angular", blocks=4, rows=6, columns=9, linking=5, percent=0))
    assert not without[:5].any()


def test_staircase_links_each_stage_with_the_next():
    matrix = dense_pattern(construct("staircase", stages=4, rows=8, columns=12))
    blocks = matrix.reshape(4, 8, 4, 12).sum(axis=(1, 3))
    nonzero = {(int(i), int(j)) for i, j in np.argwhere(blocks)}
    assert nonzero == {(s, s) for s in range(4)} | {(s + 1, s) for s in range(3)}


def test_set_covering_columns_cover_near_rows():
    matrix = dense_pattern(construct("set_covering", rows=200, columns=300, per_column=6, spread=20))
    for column in matrix.T:
        covered = np.flatnonzero(column)
        assert 1 <= len(covered) <= 6
        assert covered[-1] - covered[0] < 20


def test_linear_program_has_dense_columns_and_slacks():
    matrix = dense_pattern(construct("linear_program", rows=100, columns=60, dense_columns=2))
    assert matrix.shape == (100, 160)
    np.testing.assert_array_equal(matrix[:, 60:], np.eye(100))
    lengths = matrix[:, :60].sum(axis=0)
    assert (lengths[:2] > 15).all()
    assert (lengths[2:] <= 3).all()
    assert construct("linear_program", rows=100, columns=60, slack=0).shape == (100, 60)


def test_least_squares_moves_on_with_the_rows():
    matrix = construct("least_squares", rows=500, columns=60, per_row=4, spread=10)
    for row, (start, stop) in enumerate(zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)):
        columns = matrix.indices[start:stop]
        assert 1 <= len(columns) <= 4
        first = row * 50 // 499
        assert first <= columns[0]
        assert columns[-1] < first + 10


def test_bundle_adjustment_has_nine_in_a_row():
    matrix = dense_pattern(construct("bundle_adjustment", cameras=20, points=15, views=3))
    assert matrix.shape == (2 * 15 * 3, 6 * 20 + 3 * 15)
    assert (matrix.sum(axis=1) == 9).all()
    cameras = matrix[:, :120].reshape(len(matrix), 20, 6).sum(axis=2)
    assert ((cameras == 6).sum(axis=1) == 1).all()
    np.testing.assert_array_equal(matrix[::2], matrix[1::2])


@pytest.mark.parametrize("regularised", [0, 1])
def test_saddle_point_has_no_other_constraint_block(regularised):
    matrix = dense_pattern(construct("saddle_point", n=30, constraints=12, regularised=regularised))
    assert (matrix == matrix.T).all()
    distance = np.abs(np.subtract.outer(np.arange(30), np.arange(30)))
    np.testing.assert_array_equal(matrix[:30, :30], distance <= 2)
    np.testing.assert_array_equal(matrix[30:, 30:], regularised * np.eye(12))
    assert set(matrix[30:, :30].sum(axis=1)) <= {1, 2, 3}


@pytest.mark.parametrize("lengths", [(3, 2), (2, 3, 2)])
def test_augmented_grid_joins_cells_with_their_sides(lengths):
    order = {}
    for direction in range(len(lengths)):  # along x first; places are (z, y, x)
        axis = len(lengths) - 1 - direction
        counts = [length + (a == axis) for a, length in enumerate(reversed(lengths))]
        for place in itertools.product(*map(range, counts)):
            order[axis, place] = len(order)
    sides = len(order)
    cells = list(itertools.product(*(range(length) for length in reversed(lengths))))
    matrix = dense_pattern(construct("augmented_grid", **dict(zip(("nx", "ny", "nz"), lengths, strict=False))))
    assert matrix.shape[0] == sides + len(cells)
    assert (matrix == matrix.T).all()
    assert not matrix[:sides, :sides].any()
    for number, cell in enumerate(cells):
        expected = set()
        for axis in range(len(lengths)):
            after = tuple(c + (a == axis) for a, c in enumerate(cell))
            expected |= {order[axis, cell], order[axis, after]}
        assert set(np.flatnonzero(matrix[sides + number])) == expected


def test_optimal_control_repeats_its_step():
    steps, states, controls = 5, 4, 2
    size = 2 * states + controls
    matrix = dense_pattern(construct("optimal_control", steps=steps, states=states, controls=controls))
    assert (matrix == matrix.T).all()
    blocks = matrix.reshape(steps, size, steps, size).transpose(0, 2, 1, 3)
    for first, second in itertools.product(range(steps), repeat=2):
        if abs(first - second) > 1:
            assert not blocks[first, second].any()
    for step in range(steps - 1):
        np.testing.assert_array_equal(blocks[step, step], blocks[-1, -1])
        onward = np.zeros((size, size), bool)
        onward[states + controls :, :states] = np.eye(states)
        np.testing.assert_array_equal(blocks[step, step + 1], onward)
    one = blocks[0, 0]
    assert one[: states + controls, : states + controls].all()
    assert not one[states + controls :, states + controls :].any()


def _squared_terms(terms, n):
    dense = np.zeros((n, n), bool)
    for term in terms:
        for first, second in itertools.product(term, repeat=2):
            dense[first - 1, second - 1] = True
    return dense


def _modulo(i, factor, n):
    return (factor * i - 1) % n + 1


@pytest.mark.parametrize(("name", "factors"), [("cvxbqp", (2, 3)), ("sparsine", (2, 3, 5, 7, 11))])
def test_squares_of_sums(name, factors):
    n = 31
    terms = [[i, *(_modulo(i, f, n) for f in factors)] for i in range(1, n + 1)]
    np.testing.assert_array_equal(dense_pattern(construct(name, n=n)), _squared_terms(terms, n))


def test_cvxqp():
    n, constraints = 24, 10
    matrix = dense_pattern(construct("cvxqp", n=n, constraints=constraints))
    assert (matrix == matrix.T).all()
    np.testing.assert_array_equal(matrix[:n, :n], dense_pattern(construct("cvxbqp", n=n)))
    assert not matrix[n:, n:].any()
    for row in range(constraints):
        expected = {row, _modulo(row + 1, 4, n) - 1, _modulo(row + 1, 5, n) - 1}
        assert set(np.flatnonzero(matrix[n + row])) == expected


def test_dixmaan():
    third = 4
    n = 3 * third
    pairs = {(i, i) for i in range(n)} | {(i, i + 1) for i in range(n - 1)}
    pairs |= {(i, i + third) for i in range(2 * third)} | {(i, i + 2 * third) for i in range(third)}
    matrix = dense_pattern(construct("dixmaan", third=third))
    assert {(int(i), int(j)) for i, j in np.argwhere(np.triu(matrix))} == pairs
    assert is_symmetric(construct("dixmaan", third=third))


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("quadratic_assignment", {"n": 1}, "n"),
        ("multicommodity", {"commodities": 1, "nodes": 1, "arcs": 1}, "nodes"),
        ("block_angular", {"blocks": 1, "rows": 1, "columns": 1, "linking": 1, "percent": 101}, "percent"),
        ("linear_program", {"rows": 3, "columns": 3, "dense_columns": 4}, "dense_columns"),
        ("linear_program", {"rows": 3, "columns": 3, "slack": 2}, "slack"),
        ("saddle_point", {"n": 3, "constraints": 1, "regularised": 2}, "regularised"),
        ("optimal_control", {"steps": 3, "states": 2, "controls": 1, "percent": 101}, "percent"),
        ("cvxqp", {"n": 3, "constraints": 4}, "constraints"),
    ],
)
def test_bad_parameters(name, parameters, argument):
    with pytest.raises(ParameterError, match=argument) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument

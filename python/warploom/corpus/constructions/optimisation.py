"""Constraint matrices of linear programs, Hessians, saddle points, and tall least-squares problems."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom.corpus.constructions import _random
from warploom.corpus.constructions._arguments import at_least, at_most, one_of
from warploom.corpus.constructions._assemble import from_coordinates
from warploom.corpus.constructions._patterns import IntArray
from warploom.corpus.constructions._registry import construction

__all__ = [
    "augmented_grid",
    "block_angular",
    "bundle_adjustment",
    "cvxbqp",
    "cvxqp",
    "dixmaan",
    "least_squares",
    "linear_program",
    "multicommodity",
    "optimal_control",
    "quadratic_assignment",
    "saddle_point",
    "set_covering",
    "sparsine",
    "staircase",
    "transportation",
]

_LP = "linear programming problem"


@construction(family="linear programming, networks", kind=_LP)
def transportation(sources: int, destinations: int) -> scipy.sparse.csr_array:
    """Transport from every source to every destination: a balance for each, a column of two entries for each pair.

    Parameters
    ----------
    sources, destinations : int
        sources + destinations rows, sources * destinations columns; both equal is an assignment problem.
    """
    at_least(1, sources=sources, destinations=destinations)
    pair = np.arange(sources * destinations)
    rows = np.concatenate([pair // destinations, sources + pair % destinations])
    return from_coordinates((sources + destinations, len(pair)), rows, np.tile(pair, 2))


@construction(family="linear programming, assignment", kind=_LP)
def quadratic_assignment(n: int) -> scipy.sparse.csr_array:
    """Linear relaxation of the quadratic assignment problem (Resende, Ramakrishnan and Drezner 1995).

    Parameters
    ----------
    n : int
        Facilities and places: 2 n + 2 n**2 (n - 1) rows, n**2 + n**2 (n - 1)**2 / 2 columns.

    Notes
    -----
    Column x[i, j] puts facility i at place j; column y[i, j, k, l] with i < k does so for two at once. Rows: each
    facility has a place, each place a facility; and for each (i, j) and each other facility k, or other place l, the
    y that agree with x[i, j] sum to it.
    """
    at_least(2, n=n)
    i, j, k, other = (index.ravel() for index in np.indices((n, n, n, n)))
    pairs = (i < k) & (j != other)
    i, j, k, other = i[pairs], j[pairs], k[pairs], other[pairs]
    y = n * n + np.arange(len(i))
    x = np.arange(n * n)

    def skipping(index: IntArray, left_out: IntArray) -> IntArray:
        return index - (index > left_out)

    def row(chosen: IntArray, place: IntArray, third: IntArray, part: int) -> IntArray:
        left_out = chosen if part == 0 else place
        return 2 * n + ((part * n + chosen) * n + place) * (n - 1) + skipping(third, left_out)

    rows = [x // n, n + x % n, 2 * n + np.arange(2 * n * n * (n - 1))]
    columns = [x, x, np.tile(np.repeat(x, n - 1), 2)]
    for part, (first, second) in enumerate(((k, i), (other, j))):
        rows += [row(i, j, first, part), row(k, other, second, part)]
        columns += [y, y]
    shape = (2 * n + 2 * n * n * (n - 1), n * n + len(y))
    return from_coordinates(shape, np.concatenate(rows), np.concatenate(columns))


@construction(family="linear programming, networks", kind=_LP)
def multicommodity(commodities: int, nodes: int, arcs: int, seed: int = 1) -> scipy.sparse.csr_array:
    """Flows of several goods through one network, whose arcs have a capacity for all together.

    Parameters
    ----------
    commodities : int
        Goods.
    nodes, arcs : int
        Of the network, whose arcs have random ends: commodities * nodes + arcs rows, (commodities + 1) * arcs columns.
    seed : int
        Seed for the ends.
    """
    at_least(1, commodities=commodities, arcs=arcs)
    at_least(2, nodes=nodes)
    tail = _random.integers(seed, 0, nodes, arcs)
    head = (tail + _random.integers(seed, 1, nodes, arcs, stream=2)) % nodes
    good, arc = (index.ravel() for index in np.indices((commodities, arcs)))
    flow = good * arcs + arc
    capacity = commodities * nodes + np.arange(arcs)
    rows = [good * nodes + tail[arc], good * nodes + head[arc], capacity[arc], capacity]
    columns = [flow, flow, flow, commodities * arcs + np.arange(arcs)]
    shape = (commodities * nodes + arcs, (commodities + 1) * arcs)
    return from_coordinates(shape, np.concatenate(rows), np.concatenate(columns), seed=seed)


@construction(family="linear programming, blocks", kind=_LP)
def block_angular(
    blocks: int, rows: int, columns: int, linking: int, per_column: int = 3, percent: int = 20, seed: int = 1
) -> scipy.sparse.csr_array:
    """Blocks along the diagonal below constraints that link all of them.

    Parameters
    ----------
    blocks : int
        Along the diagonal.
    rows, columns : int
        Of each block.
    linking : int
        Constraints that link the blocks, which come first.
    per_column : int
        Draws of a row of the block for each column.
    percent : int
        Percentage of the columns, 0 to 100, that enter a linking constraint, drawn for each.
    seed : int
        Seed for the places.
    """
    at_least(1, blocks=blocks, rows=rows, columns=columns, linking=linking, per_column=per_column)
    at_least(0, percent=percent)
    at_most(100, percent=percent)
    total = blocks * columns
    column = np.arange(total)
    inside = np.repeat(column, per_column)
    of_block = linking + inside // columns * rows + _random.integers(seed, 0, rows, len(inside))
    links = np.flatnonzero(_random.integers(seed, 0, 100, total, stream=2) < percent)
    linked = _random.integers(seed, 0, linking, len(links), stream=3)
    shape = (linking + blocks * rows, total)
    return from_coordinates(shape, np.concatenate([of_block, linked]), np.concatenate([inside, links]), seed=seed)


@construction(family="linear programming, blocks", kind=_LP)
def staircase(
    stages: int, rows: int, columns: int, per_column: int = 4, carried: int = 2, seed: int = 1
) -> scipy.sparse.csr_array:
    """Stages of a plan, each linked with the next one.

    Parameters
    ----------
    stages : int
        Number of stages of the plan.
    rows, columns : int
        Of each stage.
    per_column : int
        Draws of a row of its own stage for each column.
    carried : int
        Draws of a row of the next stage for every third column.
    seed : int
        Seed for the rows.
    """
    at_least(1, stages=stages, rows=rows, columns=columns, per_column=per_column)
    at_least(0, carried=carried)
    own = np.repeat(np.arange(stages * columns), per_column)
    on = np.repeat(np.arange(0, (stages - 1) * columns, 3), carried)
    all_rows = [
        own // columns * rows + _random.integers(seed, 0, rows, len(own)),
        (on // columns + 1) * rows + _random.integers(seed, 0, rows, len(on), stream=2),
    ]
    shape = (stages * rows, stages * columns)
    return from_coordinates(shape, np.concatenate(all_rows), np.concatenate([own, on]), seed=seed)


@construction(family="linear programming, covering", kind=_LP)
def set_covering(
    rows: int, columns: int, per_column: int = 8, spread: int = 100, seed: int = 1
) -> scipy.sparse.csr_array:
    """Wide covering problem, such as crews for trains: each column covers rows that are near each other.

    Parameters
    ----------
    rows, columns : int
        Trips and possible duties.
    per_column : int
        Draws of a trip for each duty.
    spread : int
        Consecutive trips that those of one duty are drawn from.
    seed : int
        Seed for duties.
    """
    at_least(1, rows=rows, columns=columns, per_column=per_column, spread=spread)
    spread = min(spread, rows)
    first = np.sort(_random.integers(seed, 0, rows - spread + 1, columns))
    covered = np.repeat(first, per_column) + _random.integers(seed, 0, spread, columns * per_column, stream=2)
    return from_coordinates((rows, columns), covered, np.repeat(np.arange(columns), per_column), seed=seed)


@construction(family="linear programming, random", kind=_LP)
def linear_program(
    rows: int, columns: int, per_column: int = 3, dense_columns: int = 0, slack: int = 1, seed: int = 1
) -> scipy.sparse.csr_array:
    """Sparse random constraints, slacks, and a few dense columns.

    Parameters
    ----------
    rows, columns : int
        Constraints, and variables without the slacks.
    per_column : int
        Draws of a constraint for each variable.
    dense_columns : int
        The first variables that enter a quarter of the constraints or less.
    slack : {0, 1}
        Whether each constraint has a slack, which come last.
    seed : int
        Seed for the places.
    """
    at_least(1, rows=rows, columns=columns, per_column=per_column)
    at_least(0, dense_columns=dense_columns)
    at_most(columns, dense_columns=dense_columns)
    one_of((0, 1), slack=slack)
    lengths = np.full(columns, per_column)
    lengths[:dense_columns] = np.maximum(rows // 4, per_column)
    column = np.repeat(np.arange(columns), lengths)
    row = _random.integers(seed, 0, rows, len(column))
    slacks = np.arange(rows * slack)
    shape = (rows, columns + len(slacks))
    return from_coordinates(shape, np.concatenate([row, slacks]), np.concatenate([column, columns + slacks]), seed=seed)


@construction(family="least squares", kind="least squares problem")
def least_squares(rows: int, columns: int, per_row: int = 3, spread: int = 0, seed: int = 1) -> scipy.sparse.csr_array:
    """Many observations of few unknowns.

    Parameters
    ----------
    rows, columns : int
        Observations and unknowns.
    per_row : int
        Draws of an unknown for each observation.
    spread : int
        Consecutive unknowns that those of one observation are drawn from, which move on with the rows; 0 for all.
    seed : int
        Seed for the unknowns.
    """
    at_least(1, rows=rows, columns=columns, per_row=per_row)
    at_least(0, spread=spread)
    spread = min(spread, columns) or columns
    first = np.arange(rows) * (columns - spread) // max(rows - 1, 1)
    drawn = np.repeat(first, per_row) + _random.integers(seed, 0, spread, rows * per_row)
    return from_coordinates((rows, columns), np.repeat(np.arange(rows), per_row), drawn, seed=seed)


@construction(family="least squares", kind="computer graphics/vision problem")
def bundle_adjustment(cameras: int, points: int, views: int = 4, seed: int = 1) -> scipy.sparse.csr_array:
    """Jacobian of a scene's reconstruction: two coordinates a view, of six unknowns of a camera and three of a point.

    Parameters
    ----------
    cameras, points : int
        6 cameras + 3 points columns.
    views : int
        Draws of a camera for each point, among those next to each other: 2 rows of 9 entries for each of them.
    seed : int
        Seed for the cameras.
    """
    at_least(1, cameras=cameras, points=points, views=views)
    reach = min(cameras, 4 * views)
    first = _random.integers(seed, 0, cameras - reach + 1, points)
    camera = np.repeat(first, views) + _random.integers(seed, 0, reach, points * views, stream=2)
    point = np.repeat(np.arange(points), views)
    unknowns = np.concatenate(
        [6 * camera[:, None] + np.arange(6), 6 * cameras + 3 * point[:, None] + np.arange(3)], axis=1
    )
    unknowns = np.repeat(unknowns, 2, axis=0)
    rows = np.repeat(np.arange(len(unknowns)), 9)
    return from_coordinates((len(unknowns), 6 * cameras + 3 * points), rows, unknowns.ravel(), seed=seed)


@construction(family="saddle point", kind="optimization problem")
def saddle_point(
    n: int, constraints: int, per_row: int = 3, half_width: int = 2, regularised: int = 0, seed: int = 1
) -> scipy.sparse.csr_array:
    """Optimality conditions of a quadratic program: banded Hessian, random constraints, zeros below them.

    Parameters
    ----------
    n, constraints : int
        Variables and constraints: the sum of both rows.
    per_row : int
        Draws of a variable for each constraint.
    half_width : int
        Diagonals of the Hessian on either side of the main one.
    regularised : {0, 1}
        Whether constraints have a diagonal.
    seed : int
        Seed for the variables in constraints.
    """
    at_least(1, n=n, constraints=constraints, per_row=per_row)
    at_least(0, half_width=half_width)
    one_of((0, 1), regularised=regularised)
    distance = np.repeat(np.arange(half_width + 1), n)
    row = np.tile(np.arange(n), half_width + 1)
    inside = row + distance < n
    constraint = np.repeat(np.arange(n, n + constraints), per_row)
    zeros_below = np.arange(n, n + constraints) if regularised else np.arange(0)
    rows = np.concatenate([row[inside], constraint, zeros_below])
    drawn = _random.integers(seed, 0, n, len(constraint))
    columns = np.concatenate([(row + distance)[inside], drawn, zeros_below])
    return from_coordinates((n + constraints,) * 2, rows, columns, symmetric=True, seed=seed)


@construction(family="saddle point", kind="2D/3D problem")
def augmented_grid(nx: int, ny: int, nz: int = 0) -> scipy.sparse.csr_array:
    """Cells of a grid against their sides, [[0, A^T], [A, 0]] (as the AUG2D and AUG3D problems).

    Parameters
    ----------
    nx, ny, nz : int
        Cells along each axis; nz = 0 is two-dimensional. Sides along each axis come first, then cells.
    """
    at_least(1, nx=nx, ny=ny)
    at_least(0, nz=nz)
    cells = np.array([nz, ny, nx] if nz else [ny, nx])
    place = np.indices(tuple(cells)).reshape(len(cells), -1)
    first, sides = 0, []
    for axis in reversed(range(len(cells))):
        shape = cells + np.eye(len(cells), dtype=int)[axis]
        for step in (0, 1):
            moved = place + step * np.eye(len(cells), dtype=int)[axis][:, None]
            sides.append(first + np.ravel_multi_index(tuple(moved), tuple(int(length) for length in shape)))
        first += int(shape.prod())
    cell = first + np.arange(place.shape[1])
    size = first + len(cell)
    return from_coordinates((size, size), np.tile(cell, len(sides)), np.concatenate(sides), symmetric=True)


@construction(family="optimal control", kind="optimal control problem")
def optimal_control(steps: int, states: int, controls: int, percent: int = 60, seed: int = 1) -> scipy.sparse.csr_array:
    """Optimality conditions of a discretised control problem: dense blocks for each step, linked with the next.

    Parameters
    ----------
    steps : int
        Number of steps of time.
    states, controls : int
        Of the system at each step: 2 states + controls rows.
    percent : int
        Percentage of the places of each block of the dynamics, 1 to 100, that have an entry; the same in each step.
    seed : int
        Seed for the places.

    Notes
    -----
    Each step has states, controls and multipliers in turn; its dynamics depend on its own states and controls and on
    the states of the next step.
    """
    at_least(1, steps=steps, states=states, controls=controls, percent=percent)
    at_most(100, percent=percent)
    width = states + controls
    size = width + states
    hessian = np.argwhere(np.tri(width, dtype=bool))
    filled = _random.integers(seed, 0, 100, states * width).reshape(states, width) < percent
    filled[:, :states] |= np.eye(states, dtype=bool)
    dynamics = np.argwhere(filled) + np.array([width, 0])
    onward = np.stack([width + np.arange(states), size + np.arange(states)], axis=1)
    step = np.arange(steps)[:, None, None] * size
    entries = np.concatenate([hessian, dynamics]) + step
    links = onward + step[:-1]
    rows, columns = np.concatenate([entries.reshape(-1, 2), links.reshape(-1, 2)]).T
    return from_coordinates((steps * size,) * 2, rows, columns, symmetric=True, seed=seed)


@construction(family="Hessians", kind="optimization problem")
def dixmaan(third: int) -> scipy.sparse.csr_array:
    """Hessian of the DIXMAAN functions: a band of three and two diagonals far off.

    Parameters
    ----------
    third : int
        A third of the variables: each of the first two thirds meets the next variable's third, the first also the last.
    """
    at_least(1, third=third)
    n = 3 * third
    variable = np.arange(n)
    rows = np.concatenate([variable, variable[:-1], variable[: 2 * third], variable[:third]])
    columns = np.concatenate([variable, variable[1:], variable[third:], variable[2 * third :]])
    return from_coordinates((n, n), rows, columns, symmetric=True)


@construction(family="Hessians", kind="optimization problem")
def cvxbqp(n: int) -> scipy.sparse.csr_array:
    """Hessian of the CVXBQP1 problem: sums of variables i, 2 i - 1 and 3 i - 1 modulo n, squared.

    Parameters
    ----------
    n : int
        Variables.
    """
    at_least(1, n=n)
    return from_coordinates((n, n), *_squares(n, (2, 3)))


@construction(family="Hessians", kind="optimization problem")
def sparsine(n: int) -> scipy.sparse.csr_array:
    """Hessian of the SPARSINE function: squares of sums over i, 2 i - 1, 3 i - 1, 5 i - 1, 7 i - 1, 11 i - 1 modulo n.

    Parameters
    ----------
    n : int
        Variables.
    """
    at_least(1, n=n)
    return from_coordinates((n, n), *_squares(n, (2, 3, 5, 7, 11)))


@construction(family="saddle point", kind="optimization problem")
def cvxqp(n: int, constraints: int) -> scipy.sparse.csr_array:
    """Optimality conditions of the CVXQP problems: their Hessian and constraints on i, 4 i - 1 and 5 i - 1 modulo n.

    Parameters
    ----------
    n, constraints : int
        Variables, and constraints of three of them; at most n.
    """
    at_least(1, n=n, constraints=constraints)
    at_most(n, constraints=constraints)
    rows, columns = _squares(n, (2, 3))
    terms = _terms(n, (4, 5))[:constraints]
    constraint = np.repeat(n + np.arange(constraints), 3)
    all_rows = np.concatenate([rows, constraint, terms.ravel()])
    return from_coordinates((n + constraints,) * 2, all_rows, np.concatenate([columns, terms.ravel(), constraint]))


def _terms(n: int, factors: tuple[int, ...]) -> IntArray:
    """Return the variables of each term: i and, in counts from 1, factor * i - 1 modulo n, plus 1."""
    i = np.arange(1, n + 1)
    return np.stack([i - 1, *((factor * i - 1) % n for factor in factors)], axis=1)


def _squares(n: int, factors: tuple[int, ...]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    terms = _terms(n, factors)
    pairs = itertools.product(range(terms.shape[1]), repeat=2)
    first, second = np.array(list(pairs)).T
    return terms[:, first].ravel(), terms[:, second].ravel()

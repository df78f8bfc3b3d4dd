"""Grid operators against loops over points, and against Kronecker products."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
from construction_calls import dense_pattern, is_symmetric
from hypothesis import given, settings
from hypothesis import strategies as st

from warploom.corpus.constructions import construct
from warploom.errors import ParameterError

_REACH = {4: 1, 5: 1, 7: 1, 9: 1, 13: 2, 25: 2}


def _coupled_2d(stencil, dy, dx):
    """Whether a stencil has the offset, from what each is known as."""
    distance = abs(dx) + abs(dy)
    return {
        4: distance == 1,
        5: distance <= 1,
        7: distance <= 1 or dx == dy,
        9: True,
        13: distance <= 2,
        25: True,
    }[stencil]


def _loops_2d(nx, ny, stencil, periodic):
    dense = np.zeros((nx * ny, nx * ny), bool)
    reach = _REACH[stencil]
    for y, x in itertools.product(range(ny), range(nx)):
        for dy, dx in itertools.product(range(-reach, reach + 1), repeat=2):
            y2, x2 = y + dy, x + dx
            if periodic > 0:
                y2 %= ny
            if periodic > 1:
                x2 %= nx
            if _coupled_2d(stencil, dy, dx) and 0 <= y2 < ny and 0 <= x2 < nx:
                dense[y * nx + x, y2 * nx + x2] = True
    return dense


def _path(n, reach=1):
    distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return (distance <= reach).astype(int)


def _cross(nx, ny, nz=1):
    """Five- or seven-point operator as a sum of Kronecker products."""
    eyes = [np.eye(length, dtype=int) for length in (nz, ny, nx)]
    total = 0
    for axis, length in enumerate((nz, ny, nx)):
        factors = [*eyes[:axis], _path(length), *eyes[axis + 1 :]]
        total = total + np.kron(np.kron(factors[0], factors[1]), factors[2])
    return total != 0


def _box(nx, ny, nz=1):
    return np.kron(np.kron(_path(nz), _path(ny)), _path(nx)) != 0


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from(sorted(_REACH)), st.integers(0, 2))
def test_grid2d_against_loops(nx, ny, stencil, periodic):
    matrix = construct("grid2d", nx=nx, ny=ny, stencil=stencil, periodic=periodic)
    np.testing.assert_array_equal(dense_pattern(matrix), _loops_2d(nx, ny, stencil, periodic))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))
def test_grid3d_against_kronecker_products(nx, ny, nz):
    of = {stencil: dense_pattern(construct("grid3d", nx=nx, ny=ny, nz=nz, stencil=stencil)) for stencil in (6, 7, 27)}
    np.testing.assert_array_equal(of[7], _cross(nx, ny, nz))
    np.testing.assert_array_equal(of[6] | np.eye(nx * ny * nz, dtype=bool), of[7])
    assert not of[6].diagonal().any()
    np.testing.assert_array_equal(of[27], _box(nx, ny, nz))


@pytest.mark.parametrize("stencil", [6, 7, 13, 15, 19, 25, 27, 125])
def test_inner_rows_of_3d_stencils_have_their_number_of_points(stencil):
    matrix = construct("grid3d", nx=9, ny=9, nz=9, stencil=stencil)
    assert np.diff(matrix.indptr).max() == stencil
    ring = construct("grid3d", nx=9, ny=9, nz=9, stencil=stencil, periodic=3)
    assert set(np.diff(ring.indptr)) == {stencil}
    assert is_symmetric(ring)


def test_shuffles_renumber():
    plain = dense_pattern(construct("grid2d", nx=6, ny=5))
    both = dense_pattern(construct("grid2d", nx=6, ny=5, shuffle=3))
    assert (both == both.T).all()
    assert both.diagonal().all()
    np.testing.assert_allclose(np.linalg.eigvalsh(both.astype(float)), np.linalg.eigvalsh(plain.astype(float)))
    rows = dense_pattern(construct("grid2d", nx=6, ny=5, shuffle_rows=3))
    assert sorted(map(tuple, rows)) == sorted(map(tuple, plain))
    assert (rows != plain).any()


def test_star_has_more_points_along_one_axis():
    matrix = dense_pattern(construct("star2d", nx=7, ny=6, reach_x=3, reach_y=1))
    expected = np.kron(np.eye(6), _path(7, 3)) + np.kron(_path(6, 1), np.eye(7))
    np.testing.assert_array_equal(matrix, expected != 0)


def test_obstacle_leaves_out_couplings_along_the_edge():
    nx, ny = 6, 5
    full = dense_pattern(construct("grid2d", nx=nx, ny=ny))
    matrix = dense_pattern(construct("obstacle2d", nx=nx, ny=ny))
    for i, j in itertools.product(range(nx * ny), repeat=2):
        edges = [p // nx in (0, ny - 1) or p % nx in (0, nx - 1) for p in (i, j)]
        assert matrix[i, j] == (full[i, j] and (i == j or not all(edges)))


def test_l_shape_is_a_part_of_the_square():
    side = 4
    square = dense_pattern(construct("grid2d", nx=2 * side, ny=2 * side))
    inside = [p for p in range(4 * side * side) if p // (2 * side) < side or p % (2 * side) < side]
    np.testing.assert_array_equal(dense_pattern(construct("l_shape", side=side)), square[np.ix_(inside, inside)])


def test_convection_looks_upstream():
    matrix = dense_pattern(construct("convection_diffusion", nx=6, ny=1, upwind=3))
    distance = np.subtract.outer(np.arange(6), np.arange(6))
    np.testing.assert_array_equal(matrix, (distance <= 3) & (distance >= -1))


def test_elasticity_has_dense_blocks():
    ones = np.ones((3, 3))
    np.testing.assert_array_equal(
        dense_pattern(construct("elasticity3d", nx=3, ny=4, nz=2)), np.kron(_box(3, 4, 2), ones) != 0
    )
    np.testing.assert_array_equal(
        dense_pattern(construct("elasticity2d", nx=3, ny=4, unknowns=3)), np.kron(_box(3, 4), ones) != 0
    )


def test_shuffled_nodes_keep_their_unknowns_together():
    pattern = dense_pattern(construct("elasticity2d", nx=4, ny=5, unknowns=2, shuffle=5))
    blocks = pattern.reshape(20, 2, 20, 2).sum(axis=(1, 3))
    assert set(np.unique(blocks)) == {0, 4}


def test_crystal_mass_does_not_couple_unknowns():
    matrix = dense_pattern(construct("crystal_mass", nx=3, ny=2, nz=4))
    np.testing.assert_array_equal(matrix, np.kron(_box(3, 2, 4), np.eye(3)) != 0)


@pytest.mark.parametrize("species", [1, 2, 3])
def test_reactions_couple_species_at_a_point(species):
    size = {"nx": 4, "ny": 3, "nz": 2, "species": species}
    diffusion, reaction = _cross(4, 3, 2), np.ones((species, species))
    eye_points, eye_species = np.eye(24), np.eye(species)
    together = np.kron(diffusion, eye_species) + np.kron(eye_points, reaction)
    np.testing.assert_array_equal(dense_pattern(construct("reaction_diffusion", **size)), together != 0)
    apart = np.kron(eye_species, diffusion) + np.kron(reaction, eye_points)
    np.testing.assert_array_equal(dense_pattern(construct("reaction_diffusion", **size, interleaved=0)), apart != 0)


def test_olmstead():
    second_alone = np.kron(np.eye(6), [[0, 0], [1, 1]])
    first_with_all = np.kron(_path(6), [[1, 1], [0, 0]])
    np.testing.assert_array_equal(dense_pattern(construct("olmstead", points=6)), second_alone + first_with_all != 0)


def test_semiconductor_has_dense_blocks():
    matrix = dense_pattern(construct("semiconductor", nx=4, ny=3, nz=2))
    np.testing.assert_array_equal(matrix, np.kron(_cross(4, 3, 2), np.ones((3, 3))) != 0)


def test_stokes_is_a_saddle_point():
    nx, ny = 4, 3
    matrix = dense_pattern(construct("stokes", nx=nx, ny=ny))
    across, along = (nx + 1) * ny, nx * (ny + 1)
    assert (matrix == matrix.T).all()
    np.testing.assert_array_equal(matrix[:across, :across], _cross(nx + 1, ny))
    np.testing.assert_array_equal(matrix[across : across + along, across : across + along], _cross(nx, ny + 1))
    assert not matrix[across + along :, across + along :].any()
    for cell, row in enumerate(matrix[across + along :]):
        y, x = divmod(cell, nx)
        sides = {y * (nx + 1) + x, y * (nx + 1) + x + 1, across + y * nx + x, across + (y + 1) * nx + x}
        assert set(np.flatnonzero(row)) == sides


@pytest.mark.parametrize(("faces", "around"), [(8, 4), (20, 5)])
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_sphere_mesh(faces, around, level):
    cells = construct("sphere_mesh", level=level, faces=faces, cells=1)
    assert cells.shape[0] == faces * 4**level
    assert set(np.diff(cells.indptr)) == {4}
    corners = construct("sphere_mesh", level=level, faces=faces)
    count, neighbours = corners.shape[0], np.diff(corners.indptr) - 1
    edges = neighbours.sum() // 2
    assert count - edges + cells.shape[0] == 2  # Euler's formula
    assert (neighbours == around).sum() == (12 if faces == 20 else 6)
    assert set(neighbours) <= {around, 6}
    for matrix in (cells, corners):
        assert is_symmetric(matrix)
        assert scipy.sparse.csgraph.connected_components(matrix)[0] == 1


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("grid2d", {"nx": 0, "ny": 3}, "nx"),
        ("grid2d", {"nx": 3, "ny": 3, "stencil": 8}, "stencil"),
        ("grid2d", {"nx": 3, "ny": 3, "periodic": 3}, "periodic"),
        ("grid2d", {"nx": 3, "ny": 2.5}, "ny"),
        ("grid3d", {"nx": 3, "ny": 3, "nz": 3, "stencil": 5}, "stencil"),
        ("crystal_growth", {"points": 3}, "points"),
        ("sphere_mesh", {"level": 1, "faces": 4}, "faces"),
        ("reaction_diffusion", {"nx": 2, "ny": 2, "interleaved": 2}, "interleaved"),
    ],
)
def test_bad_parameters(name, parameters, argument):
    with pytest.raises(ParameterError, match=argument) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument


def test_more_points_than_indices_can_count():
    with pytest.raises(ParameterError, match="32-bit"):
        construct("grid2d", nx=1 << 16, ny=1 << 16)
    with pytest.raises(ParameterError, match="32-bit"):
        construct("elasticity2d", nx=2, ny=2, unknowns=1 << 30)

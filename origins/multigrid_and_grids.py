"""Coarse problems and interpolation of PyAMG, Jacobians of pandapower, and pixels of HEALPix."""

# ruff: noqa: D103 - what a source makes is said with its matrices.
from __future__ import annotations

from collections.abc import Iterator

import gmsh_scikit_fem as fem
import healpy
import numpy as np
import pandapower
import pandapower.networks
import pyamg
import scipy.sparse
import skfem
from common import Made, Matrix, pattern_arrays, source, versions

MULTIGRID = "algebraic multigrid"


@source
def amg_plate() -> Iterator[Made]:
    mesh, _ = fem.mesh(2, 0.0061, fem._plate)
    A = fem.LAPLACE.assemble(skfem.Basis(mesh, skfem.ElementTriP2(), intorder=2))
    A = scipy.sparse.csr_matrix(A + 1e-3 * scipy.sparse.eye(A.shape[0]))
    levels = pyamg.ruge_stuben_solver(A, max_levels=3).levels
    program = f"{versions('pyamg')}, {fem.PROGRAM}"
    names = [
        ("amg-plate-interpolation", levels[0].P, "pattern", "interpolation to the quadratic elements of a plate"),
        (
            "amg-plate-coarse",
            levels[1].A,
            "pattern symmetric",
            "first coarse problem of the quadratic elements of a plate",
        ),
    ]
    for name, matrix, recipe, summary in names:
        made = Matrix(name, MULTIGRID, "2D/3D problem", f"{summary}, Ruge-Stueben", recipe)
        yield Made(name, program, pattern_arrays(matrix, symmetric="symmetric" in recipe), [made])


@source
def amg_valve() -> Iterator[Made]:
    mesh, _ = fem.mesh(3, 0.049, fem._valve)
    element = skfem.ElementVector(skfem.ElementTetP1())
    A = fem.ELASTIC.assemble(skfem.Basis(mesh, element, intorder=1))
    A = scipy.sparse.csr_matrix(A + 1e-3 * scipy.sparse.eye(A.shape[0]))
    # Rigid-body modes: three shifts and three turns.
    x, y, z = mesh.p
    modes = np.zeros((A.shape[0], 6))
    for axis in range(3):
        modes[axis::3, axis] = 1
    modes[0::3, 3], modes[1::3, 3] = -y, x
    modes[0::3, 4], modes[2::3, 4] = z, -x
    modes[1::3, 5], modes[2::3, 5] = -z, y
    levels = pyamg.smoothed_aggregation_solver(A.tobsr((3, 3)), B=modes, max_levels=2).levels
    name = "amg-valve-interpolation"
    summary = "interpolation to the linear elements of elasticity in a valve, smoothed aggregation"
    made = Matrix(name, MULTIGRID, "structural problem", summary, "pattern")
    yield Made(name, f"{versions('pyamg')}, {fem.PROGRAM}", pattern_arrays(levels[0].P.tocsr()), [made])


@source
def power_grids() -> Iterator[Made]:
    """Take the largest of pandapower's cases, which are below 10^5 rows and 10^6 nonzeros."""
    for case in ("case9241pegase", "case6470rte"):
        net = getattr(pandapower.networks, case)()
        pandapower.runpp(net, numba=False)
        name = f"pandapower-{case}"
        made = Matrix(
            name, "power grids, real", "power network problem", f"Jacobian of the power flow of {case}", "pattern"
        )
        yield Made(
            name, versions("pandapower"), pattern_arrays(scipy.sparse.csr_array(net._ppc["internal"]["J"])), [made]
        )


@source
def healpix() -> Iterator[Made]:
    for scheme in ("nested", "ring"):
        sides = 256
        pixels = np.arange(healpy.nside2npix(sides))
        others = healpy.get_all_neighbours(sides, pixels, nest=scheme == "nested").T
        rows = np.repeat(pixels, 8)[others.ravel() >= 0]
        cols = others.ravel()[others.ravel() >= 0]
        A = scipy.sparse.csr_array((np.ones(len(rows), np.int8), (rows, cols)), shape=(len(pixels),) * 2)
        name = f"healpix-{scheme}"
        summary = f"pixels of a sphere and their neighbours, {scheme} numbering"
        made = Matrix(name, "sphere pixels", "undirected graph", summary, "pattern symmetric")
        yield Made(name, versions("healpy"), pattern_arrays(A, symmetric=True), [made])

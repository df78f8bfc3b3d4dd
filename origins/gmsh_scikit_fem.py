"""Finite elements of scikit-fem on unstructured meshes of Gmsh."""

# ruff: noqa: D103 - what a source makes is said with its matrices.
from __future__ import annotations

from collections.abc import Callable, Iterator

import gmsh
import numpy as np
import scipy.sparse
import skfem
from common import Made, Matrix, source, versions
from skfem.helpers import curl, ddot, div, dot, grad, sym_grad

PROGRAM = versions("gmsh", "scikit-fem")
PLANE, SOLID = "2D finite elements, unstructured", "3D finite elements, unstructured"


def mesh(dimension: int, size: float, draw: Callable[[], None], graded: list[tuple[float, ...]] = ()):
    """Mesh what `draw` draws by OpenCASCADE, with smaller elements (the last number) around some points."""
    gmsh.initialize(interruptible=False)
    try:
        gmsh.option.setNumber("General.Terminal", 0)
        gmsh.option.setNumber("General.NumThreads", 1)
        gmsh.option.setNumber("Mesh.MeshSizeMax", size)
        gmsh.option.setNumber("Mesh.Algorithm", 5)  # Delaunay
        draw()
        gmsh.model.occ.synchronize()
        if graded:
            gmsh.option.setNumber("Mesh.MeshSizeExtendFromBoundary", 0)
            field = gmsh.model.mesh.field
            spheres = []
            for x, y, z, radius, inner in graded:
                ball = field.add("Ball")
                for key, value in zip(
                    ("XCenter", "YCenter", "ZCenter", "Radius", "Thickness", "VIn", "VOut"),
                    (x, y, z, radius, 3 * radius, inner, size),
                    strict=True,
                ):
                    field.setNumber(ball, key, value)
                spheres.append(ball)
            least = field.add("Min")
            field.setNumbers(least, "FieldsList", spheres)
            field.setAsBackgroundMesh(least)
        gmsh.model.mesh.generate(dimension)
        tags, points, _ = gmsh.model.mesh.getNodes()
        _, nodes = gmsh.model.mesh.getElementsByType({2: 2, 3: 4}[dimension])
    finally:
        gmsh.finalize()
    used, cells = np.unique(nodes, return_inverse=True)
    place = np.empty(int(tags.max()) + 1, np.int64)
    place[tags] = np.arange(len(tags))
    cells = np.sort(cells.reshape(-1, dimension + 1), axis=1)
    cells = cells[np.lexsort(cells.T[::-1])]
    points = points.reshape(-1, 3)[place[used]][:, :dimension]
    kind = skfem.MeshTri if dimension == 2 else skfem.MeshTet
    return kind(np.ascontiguousarray(points.T), np.ascontiguousarray(cells.T)), cells


def form(function):
    return skfem.BilinearForm(function)


LAPLACE = form(lambda u, v, w: dot(grad(u), grad(v)))
MASS = form(lambda u, v, w: u * v)
ELASTIC = form(lambda u, v, w: 2.0 * ddot(sym_grad(u), sym_grad(v)) + div(u) * div(v))
FLOW = form(lambda u, v, w: 2.0 * ddot(sym_grad(u), sym_grad(v)))
DIVERGENCE = form(lambda u, q, w: -div(u) * q)
VECTOR = form(lambda u, v, w: dot(u, v))
MAXWELL_2D = form(lambda u, v, w: u.curl * v.curl - dot(u, v))
MAXWELL_3D = form(lambda u, v, w: dot(curl(u), curl(v)) - dot(u, v))


def one(form_, element, degree: int = 2):
    return lambda m: _entries(form_, skfem.Basis(m, element, intorder=degree))


def two(form_, element, other, degree: int = 3):
    def assemble(m):
        first = skfem.Basis(m, element, intorder=degree)
        second = first.with_element(other)
        A, B = _entries(form_, first), _entries(DIVERGENCE, first, second)
        return scipy.sparse.block_array([[A, B.T], [B, None]], format="csr")

    return assemble


def _entries(form_, *bases) -> scipy.sparse.csr_array:
    """Assemble, and count an entry for every coupling: some cancel to zero, differently on each machine."""
    local = form_.coo_data(*bases)
    ones = np.ones(local.data.size, np.int32)
    return scipy.sparse.csr_array((ones, tuple(np.asarray(local.indices, np.int32))), shape=local.shape)


vector = skfem.ElementVector
TRIANGLES = {
    "p1": ("Poisson, linear", "nodal=1", one(LAPLACE, skfem.ElementTriP1())),
    "p2": ("Poisson, quadratic", "nodal=1 facet=1", one(LAPLACE, skfem.ElementTriP2())),
    "p3": ("Poisson, cubic", "nodal=1 facet=2 interior=1", one(LAPLACE, skfem.ElementTriP3())),
    "p4": ("Poisson, quartic", "nodal=1 facet=3 interior=3", one(LAPLACE, skfem.ElementTriP4())),
    "cr": ("Poisson, Crouzeix-Raviart", "facet=1", one(LAPLACE, skfem.ElementTriCR())),
    "argyris": ("plate, Argyris", "nodal=6 facet=1", one(MASS, skfem.ElementTriArgyris())),
    "elastic-p1": ("elasticity, linear", "nodal=2", one(ELASTIC, vector(skfem.ElementTriP1()))),
    "elastic-p2": ("elasticity, quadratic", "nodal=2 facet=2", one(ELASTIC, vector(skfem.ElementTriP2()))),
    "stokes": (
        *("Stokes, Taylor-Hood", "nodal=2 facet=2 with nodal=1"),
        two(FLOW, vector(skfem.ElementTriP2()), skfem.ElementTriP1()),
    ),
    "mini": (
        *("Stokes, MINI", "nodal=2 interior=2 with nodal=1"),
        two(FLOW, vector(skfem.ElementTriMini()), skfem.ElementTriP1()),
    ),
    "maxwell": ("Maxwell, Nedelec of second order", "facet=2 interior=2", one(MAXWELL_2D, skfem.ElementTriN2())),
    "darcy": (
        *("Darcy, Raviart-Thomas", "facet=1 with interior=1"),
        two(VECTOR, skfem.ElementTriRT1(), skfem.ElementTriP0()),
    ),
}
TETRAHEDRA = {
    "p1": ("Poisson, linear", "nodal=1", one(LAPLACE, skfem.ElementTetP1())),
    "p2": ("Poisson, quadratic", "nodal=1 edge=1", one(LAPLACE, skfem.ElementTetP2())),
    "cr": ("Poisson, Crouzeix-Raviart", "facet=1", one(LAPLACE, skfem.ElementTetCR())),
    "elastic-p1": ("elasticity, linear", "nodal=3", one(ELASTIC, vector(skfem.ElementTetP1()), 1)),
    "elastic-p2": ("elasticity, quadratic", "nodal=3 edge=3", one(ELASTIC, vector(skfem.ElementTetP2()), 1)),
    "stokes": (
        *("Stokes, Taylor-Hood", "nodal=3 edge=3 with nodal=1"),
        two(FLOW, vector(skfem.ElementTetP2()), skfem.ElementTetP1(), 1),
    ),
    "mini": (
        *("Stokes, MINI", "nodal=3 interior=3 with nodal=1"),
        two(FLOW, vector(skfem.ElementTetMini()), skfem.ElementTetP1(), 1),
    ),
    "maxwell": ("Maxwell, Nedelec", "edge=1", one(MAXWELL_3D, skfem.ElementTetN1())),
    "darcy": (
        *("Darcy, Raviart-Thomas", "facet=1 with interior=1"),
        two(VECTOR, skfem.ElementTetRT1(), skfem.ElementTetP0(), 1),
    ),
}
_KINDS = {"poisson": "2D/3D problem", "elasticity": "structural problem", "plate": "structural problem"}
_KINDS |= {"stokes": "computational fluid dynamics problem", "darcy": "computational fluid dynamics problem"}
_KINDS |= {"maxwell": "electromagnetics problem"}


def elements(file: str, dimension: int, what: str, names: list[str], *drawn) -> Iterator[Made]:
    m, cells = mesh(dimension, *drawn)
    print(f"{file}: {m.p.shape[1]:,} vertices, {len(cells):,} cells", flush=True)
    known = TRIANGLES if dimension == 2 else TETRAHEDRA
    matrices = []
    for name in names:
        problem, recipe, assemble = known[name]
        family = PLANE if dimension == 2 else SOLID
        kind = _KINDS[problem.partition(",")[0].lower()]
        matrices.append(Matrix(f"{file}-{name}", family, kind, f"{problem} elements on {what}", f"elements {recipe}"))
        matrices[-1].made = _assembled(assemble, m)
    yield Made(file, PROGRAM, {"cells": cells}, matrices)


def _assembled(assemble, m) -> Callable[[], scipy.sparse.csr_array]:
    return lambda: scipy.sparse.csr_array(assemble(m))


# ----- What is meshed -----


def _plate() -> None:
    occ = gmsh.model.occ
    plate = occ.addRectangle(0, 0, 0, 3, 2)
    holes = [(2, occ.addDisk(x, y, 0, r, r)) for x, y, r in ((0.5, 0.5, 0.2), (1.4, 1.2, 0.4), (2.5, 0.6, 0.25))]
    occ.cut([(2, plate)], holes)


def _wing() -> None:
    """Two ellipses, a wing and its flap, in a channel."""
    occ = gmsh.model.occ
    channel = occ.addRectangle(-4, -3, 0, 12, 6)
    wing, flap = occ.addDisk(0, 0, 0, 1, 0.12), occ.addDisk(1.25, -0.15, 0, 0.25, 0.04)
    occ.rotate([(2, flap)], 1.25, -0.15, 0, 0, 0, 1, -0.4)
    occ.cut([(2, channel)], [(2, wing), (2, flap)])


def _bracket() -> None:
    occ = gmsh.model.occ
    parts, _ = occ.fuse([(3, occ.addBox(0, 0, 0, 3, 1, 0.4))], [(3, occ.addBox(0, 0, 0, 0.4, 1, 2))])
    drills = [(3, occ.addCylinder(x, 0.5, -1, 0, 0, 3, 0.25)) for x in (1.2, 2.2)]
    drills.append((3, occ.addCylinder(-1, 0.5, 1.4, 3, 0, 0, 0.3)))
    occ.cut(parts, drills)


def _valve() -> None:
    occ = gmsh.model.occ
    pipe = (3, occ.addCylinder(-2, 0, 0, 4, 0, 0, 0.6))
    stem = (3, occ.addCylinder(0, 0, 0, 0, 0, 1.5, 0.4))
    chamber = (3, occ.addSphere(0, 0, 0, 1))
    occ.fuse([pipe], [stem, chamber])


def _cavity() -> None:
    occ = gmsh.model.occ
    box = (3, occ.addBox(-1, -1, -1, 2, 2, 2))
    balls = [(3, occ.addSphere(x, y, z, 0.35)) for x, y, z in ((-0.4, -0.4, -0.4), (0.4, 0.4, -0.3), (0, 0, 0.5))]
    occ.cut([box], balls)


@source
def gmsh_plate() -> Iterator[Made]:
    names = ["p1", "p2", "p3", "elastic-p1", "elastic-p2", "stokes", "mini", "maxwell"]
    yield from elements("gmsh-plate", 2, "a plate with holes", names, 0.0061, _plate)


@source
def gmsh_wing() -> Iterator[Made]:
    names = ["p1", "p2", "cr", "elastic-p1", "darcy"]
    graded = [(0.0, 0.0, 0.0, 0.5, 0.004), (1.2, -0.1, 0.0, 0.3, 0.002)]
    yield from elements("gmsh-wing", 2, "the air around a wing and its flap", names, 0.05, _wing, graded)


@source
def gmsh_plate_coarse() -> Iterator[Made]:
    names = ["p4", "argyris"]
    yield from elements("gmsh-plate-coarse", 2, "a plate with holes", names, 0.013, _plate)


@source
def gmsh_bracket() -> Iterator[Made]:
    names = ["elastic-p2", "stokes", "mini"]
    yield from elements("gmsh-bracket", 3, "a drilled bracket", names, 0.052, _bracket)


@source
def gmsh_valve() -> Iterator[Made]:
    names = ["p2", "elastic-p1", "maxwell", "darcy", "mini"]
    yield from elements("gmsh-valve", 3, "the inside of a valve", names, 0.049, _valve)


@source
def gmsh_cavity() -> Iterator[Made]:
    names = ["p1", "maxwell", "cr"]
    graded = [(0.0, 0.0, 0.0, 0.4, 0.02)]
    yield from elements("gmsh-cavity", 3, "a box around three balls", names, 0.045, _cavity, graded)

"""Finite elements of NGSolve on meshes of Netgen."""

# ruff: noqa: D103 - what a source makes is said with its matrices.
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse
from common import Made, Matrix, pattern_arrays, source, versions
from netgen.csg import CSGeometry, Cylinder, OrthoBrick, Pnt, Sphere
from netgen.geom2d import SplineGeometry
from ngsolve import (
    H1,
    L2,
    BilinearForm,
    Grad,
    HCurl,
    HDiv,
    InnerProduct,
    Mesh,
    SetNumThreads,
    Sym,
    VectorH1,
    curl,
    div,
    dx,
    grad,
    specialcf,
)

PROGRAM = versions("netgen-mesher", "ngsolve")
PLANE, SOLID = "2D finite elements, unstructured", "3D finite elements, unstructured"
SetNumThreads(1)


def _matrix(form) -> scipy.sparse.csr_array:
    with np.errstate(all="ignore"):
        form.Assemble()
    _, columns, starts = form.mat.CSR()
    size = form.mat.height * form.mat.entrysizes[0]
    columns, starts = np.asarray(columns).copy(), np.asarray(starts).astype(np.int64).copy()
    A = scipy.sparse.csr_array((np.ones(len(columns), np.int8), columns, starts), shape=(len(starts) - 1,) * 2)
    assert A.shape[0] * form.mat.entrysizes[0] == size
    A.sort_indices()
    return A


def _made(name: str, family: str, kind: str, summary: str, form) -> Made:
    A = _matrix(form)
    made = Matrix(name, family, kind, summary, "pattern symmetric")
    return Made(name, PROGRAM, pattern_arrays(A, symmetric=True), [made])


def _wheel(size: float) -> Mesh:
    """Mesh a wheel with five bores."""
    geometry = CSGeometry()
    disk = Cylinder(Pnt(0, 0, -1), Pnt(0, 0, 1), 1) * OrthoBrick(Pnt(-2, -2, -0.2), Pnt(2, 2, 0.2))
    for turn in np.arange(5) * 0.4 * np.pi:
        x, y = 0.6 * np.cos(turn), 0.6 * np.sin(turn)
        disk = disk - Cylinder(Pnt(x, y, -1), Pnt(x, y, 1), 0.2)
    geometry.Add(disk)
    return Mesh(geometry.GenerateMesh(maxh=size))


def _ball(size: float) -> Mesh:
    """Mesh a cube with a ball taken out of a corner."""
    geometry = CSGeometry()
    geometry.Add(OrthoBrick(Pnt(0, 0, 0), Pnt(1, 1, 1)) - Sphere(Pnt(0, 0, 0), 0.6))
    return Mesh(geometry.GenerateMesh(maxh=size))


def _channel(size: float) -> Mesh:
    geometry = SplineGeometry()
    geometry.AddRectangle((0, 0), (2.2, 0.41))
    geometry.AddCircle((0.2, 0.2), r=0.05, leftdomain=0, rightdomain=1, maxh=size / 4)
    return Mesh(geometry.GenerateMesh(maxh=size))


@source
def netgen_wheel() -> Iterator[Made]:
    mesh = _wheel(0.045)
    print(f"wheel: {mesh.nv} vertices, {mesh.ne} elements", flush=True)
    space = H1(mesh, order=3)
    u, v = space.TnT()
    summary = "Poisson, cubic elements of NGSolve on a wheel"
    yield _made("netgen-wheel-h1", SOLID, "2D/3D problem", summary, BilinearForm(grad(u) * grad(v) * dx))
    space = VectorH1(mesh, order=2)
    u, v = space.TnT()
    form = BilinearForm(InnerProduct(Sym(Grad(u)), Sym(Grad(v))) * dx)
    summary = "elasticity, quadratic elements of NGSolve on a wheel, displacements one direction after the other"
    yield _made("netgen-wheel-elastic", SOLID, "structural problem", summary, form)


@source
def netgen_ball() -> Iterator[Made]:
    mesh = _ball(0.05)
    print(f"ball: {mesh.nv} vertices, {mesh.ne} elements", flush=True)
    space = HCurl(mesh, order=1)
    u, v = space.TnT()
    form = BilinearForm((curl(u) * curl(v) - u * v) * dx)
    summary = "Maxwell, elements of first order of NGSolve in a cube"
    yield _made("netgen-ball-maxwell", SOLID, "electromagnetics problem", summary, form)
    flux, pressure = HDiv(mesh, order=1), L2(mesh, order=0)
    (s, p), (t, q) = (flux * pressure).TnT()
    form = BilinearForm((s * t + div(s) * q + div(t) * p) * dx)
    summary = "Darcy, Brezzi-Douglas-Marini elements of NGSolve in a cube"
    yield _made("netgen-ball-darcy", SOLID, "computational fluid dynamics problem", summary, form)


@source
def netgen_channel() -> Iterator[Made]:
    mesh = _channel(0.0045)
    print(f"channel: {mesh.nv} vertices, {mesh.ne} elements", flush=True)
    space = L2(mesh, order=2, dgjumps=True)
    u, v = space.TnT()
    n, h = specialcf.normal(2), specialcf.mesh_size
    jump_u, jump_v = u - u.Other(), v - v.Other()
    mean = 0.5 * n * (grad(v) + grad(v.Other()))
    form = BilinearForm(space)
    form += grad(u) * grad(v) * dx
    form += (12 / h * jump_u * jump_v - mean * jump_u) * dx(skeleton=True)
    summary = "heat, discontinuous Galerkin elements of NGSolve in a channel around a cylinder"
    yield _made("netgen-channel-dg", PLANE, "computational fluid dynamics problem", summary, form)
    velocity, pressure = VectorH1(mesh, order=3), H1(mesh, order=2)
    (u, p), (v, q) = (velocity * pressure).TnT()
    form = BilinearForm((InnerProduct(Grad(u), Grad(v)) + div(u) * q + div(v) * p) * dx)
    summary = "Stokes, Taylor-Hood elements of third order of NGSolve in a channel around a cylinder"
    yield _made("netgen-channel-stokes", PLANE, "computational fluid dynamics problem", summary, form)

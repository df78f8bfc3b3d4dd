"""Solvers whose vectors stay where the plan is, with products and dot products in one launch."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from warploom import _bfloat16, _core, _device
from warploom._csr import framework_of
from warploom.errors import DtypeError, ParameterError, ShapeError
from warploom.operators import Operator, Plan

__all__ = ["cg"]


def cg(
    plan: Plan | Operator,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
) -> tuple[Any, int]:
    """Solve A x = b for a symmetric, positive definite matrix by conjugate gradients.

    On a GPU a step takes three launches: the product with p . A p, the new x and residual with its norm, and the new
    direction. Step lengths stay there; the residual is looked at after each eighth step, so that up to seven more may
    be taken than `rtol` and `atol` ask for. On a CPU it is after each.

    Parameters
    ----------
    plan : Plan or Operator
        Of A, in float32 or float64. A plan is to be for vectors.
    b : array of shape (n,)
        Where the plan is: NumPy array for a CPU, tensor of PyTorch or array of CuPy for a GPU.
    x0 : array of shape (n,), optional
        Where to start; by default at 0.
    rtol, atol : float
        It is done where the norm of b - A x, as the steps update it, is at most ``max(rtol * norm(b), atol)``.
    maxiter : int, optional
        The most steps; by default 10 n. With 0 none is taken, and `info` is 0.

    Returns
    -------
    x : array of shape (n,)
        Of the same kind as `b`.
    info : int
        0 if it is done, otherwise the steps that were taken: `maxiter`, or fewer if p . A p is not positive, as for a
        matrix that is not positive definite or values that are not finite. `x` is as it was then.

    Raises
    ------
    ShapeError, DtypeError, DeviceError, ParameterError
        A is not square, the plan is not for vectors or in half precision, a vector does not fit, or a limit is below 0
        or NaN; `argument` says which.

    Examples
    --------
    >>> import numpy as np, warploom as wl
    >>> A = wl.examples.load("poisson_64")
    >>> b = np.ones(A.shape[0])
    >>> x, info = wl.solvers.cg(wl.plan(A, device="cpu"), b, rtol=1e-8)
    >>> info, bool(np.linalg.norm(b - A @ x) < 1e-6)
    (0, True)
    """
    if isinstance(plan, Operator):
        plan = (plan._for_type_of(b) or plan).plan_for()
    if not isinstance(plan, Plan):
        raise ParameterError(f"plan must be what warploom.plan returns, got {type(plan).__name__}", argument="plan")
    n = plan.shape[0]
    if plan.shape[1] != n:
        raise ShapeError(f"conjugate gradients need a square matrix, and A has shape {plan.shape}", argument="plan")
    if plan.op != "spmv":
        raise ParameterError("plan must be for vectors: make it with op='spmv', or without k", argument="plan")
    if plan.dtype.itemsize < 4:
        raise DtypeError(
            f"conjugate gradients need float32 or float64, not {_bfloat16.name_of(plan.dtype)}", argument="plan"
        )
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not value >= 0:
            raise ParameterError(f"{name} must be 0 or more, got {value!r}", argument=name)
    if maxiter is not None and not (isinstance(maxiter, (int, np.integer)) and maxiter >= 0):
        raise ParameterError(f"maxiter must be an integer, 0 or more, got {maxiter!r}", argument="maxiter")
    limit = 10 * n if maxiter is None else int(maxiter)
    b, x0 = _vector(b, plan, "b"), None if x0 is None else _vector(x0, plan, "x0")
    seen = _device.operand(b.reshape(-1, 1), plan.dtype, "column", "b")
    x, r, p, q = (seen.new(n, 1, "column")[0].reshape(-1) for _ in range(4))
    r[...] = b
    x[...] = 0
    if n == 0:
        return x, 0
    plan(r, out=q)  # says what is wrong with b, if anything is
    steps = (_StepsOnGpu if seen.on_gpu else _Steps)(plan, x, r, p, q)
    goal = min(max(rtol * math.sqrt(steps.start()), atol), sys.float_info.max)  # what is infinite is not solved
    residual = math.sqrt(steps.squared_residual())
    if x0 is not None:
        x[...] = x0
        plan(x, out=r, alpha=-1.0, beta=1.0)
        residual = math.sqrt(steps.start())
    taken = 0
    while not residual <= goal and taken < limit:
        before = residual
        count = min(steps.at_once, limit - taken)
        steps.step(count)
        taken += count
        residual = math.sqrt(steps.squared_residual())
        if not residual < before and not 0 < steps.curvature() < math.inf:
            break  # no further step changes anything
    return x, 0 if residual <= goal else taken


def _vector(v: Any, plan: Plan, name: str) -> Any:
    v = _device.as_array(v, plan.dtype)
    if framework_of(v) is None and not isinstance(v, np.ndarray):
        raise DtypeError(f"{name} must be an array of NumPy, PyTorch or CuPy, got {type(v).__name__}", argument=name)
    if tuple(v.shape) != (plan.shape[0],):
        raise ShapeError(f"{name} must be a vector of {plan.shape[0]} entries, got {tuple(v.shape)}", argument=name)
    return v


class _Steps:
    """Steps with vectors in host memory."""

    at_once = 1

    def __init__(self, plan: Plan, x: Any, r: Any, p: Any, q: Any) -> None:
        self._plan = plan
        self._vectors = x, r, p, q
        self._rho = self._curvature = 0.0

    def start(self) -> float:
        """Begin in the direction of the residual, and return its squared norm."""
        _, r, p, _ = self._vectors
        p[...] = r
        self._rho = float(r @ r)
        return self._rho

    def squared_residual(self) -> float:
        """Return the squared norm of the residual."""
        return self._rho

    def curvature(self) -> float:
        """Return p . A p of the last step."""
        return self._curvature

    def step(self, count: int) -> None:
        """Take so many steps."""
        x, r, p, q = self._vectors
        for _ in range(count):
            self._curvature = float(self._plan.product_and_dot(p, q)[1])
            if not 0 < self._curvature < math.inf:
                return
            length = self._rho / self._curvature
            x += length * p
            r -= length * q
            previous, self._rho = self._rho, float(r @ r)
            p *= self._rho / previous if previous > 0 else 0.0
            p += r


class _StepsOnGpu:
    """Steps with vectors on a GPU, on the stream that is current when they begin."""

    at_once = 8
    """Between two looks at the residual, for which the GPU is waited for."""

    def __init__(self, plan: Plan, *vectors: Any) -> None:
        seen = [_device.operand(v.reshape(-1, 1), plan.dtype, "column") for v in vectors]
        self._stream = seen[0].stream
        self._addresses = [view.pointer for view in seen]
        self._core = _core.ConjugateGradients(plan._core)

    def start(self) -> float:
        """Begin in the direction of the residual, and return its squared norm."""
        self._core.start(self._addresses, self._stream)
        return self.squared_residual()

    def squared_residual(self) -> float:
        """Return the squared norm of the residual."""
        return self._core.squared_residual(self._stream)

    def curvature(self) -> float:
        """Return p . A p of the last step."""
        return self._core.curvature(self._stream)

    def step(self, count: int) -> None:
        """Take so many steps."""
        self._core.step(self._addresses, count, self._stream)

"""What plans and operators have in common: a sparse matrix as a linear operator of SciPy."""

from __future__ import annotations

import functools
import html
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy.sparse.linalg import LinearOperator

from warploom import _bfloat16, _device
from warploom._csr import framework_of
from warploom._epilogue import Epilogue
from warploom._source import Arrays, Source
from warploom.errors import DeviceError, DtypeError, ParameterError, ShapeError, WarploomError
from warploom.pictures import spy

if TYPE_CHECKING:
    from warploom.operators import Operator, Plan

__all__ = ["Multiplier", "Recipe", "check_device", "find_operator", "view_values"]

_operators: dict[str, weakref.ref[Plan | Operator]] = {}  # a WeakValueDictionary takes part of what planning takes


def find_operator(name: str) -> Plan | Operator:
    """Return the plan or operator of that name, by which graphs of PyTorch know it.

    Raises
    ------
    ParameterError
        It is gone.
    """
    reference = _operators.get(name)
    found = None if reference is None else reference()
    if found is None:
        raise ParameterError(
            f"plan {name} is gone: keep a reference to a plan as long as graphs that multiply with it are in use, "
            "and export graphs for the process that made the plan",
            argument="plan",
        )
    return found


class Recipe(Protocol):
    """How the plans of a matrix are made."""

    @property
    def target(self) -> _device.Device:
        """Where they run."""

    @property
    def updatable(self) -> bool:
        """Whether they can be given values."""

    def make(self, A: Any, op: str, k: int, layout: str) -> Plan:
        """Make a plan of a matrix, for an operation, a number of columns and a layout."""

    def make_transposed(self, A: Any, op: str, k: int, layout: str) -> Plan:
        """Make one for the transpose: without what was said of this one matrix."""

    def named(self, A: Any, candidate: str) -> Plan:
        """Prepare a candidate for SpMV."""

    def in_type(self, dtype: np.dtype[Any]) -> Recipe:
        """Return the same for another value type."""

    def save(self, operator: Plan | Operator, matrix: Arrays, path: Path | None) -> bytes:
        """Write a plan or operator with its matrix to a file, or return what the file would hold."""

    @property
    def restore(self) -> Callable[[bytes], Any]:
        """Makes the plan or operator of which this is the file."""


def _attributes_of_scipy() -> dict[str, Any]:
    """Return what the initialiser of SciPy's class sets beside shape and dtype, which takes longer than all else."""
    blank = object.__new__(LinearOperator)
    LinearOperator.__init__(blank, np.dtype(np.float64), (1, 1))
    return {name: value for name, value in vars(blank).items() if name not in ("shape", "dtype")}


_SET_BY_SCIPY = _attributes_of_scipy()


class Multiplier(LinearOperator):  # type: ignore[misc]
    """What plans and operators have in common: products, as SciPy's solvers ask for them."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    nnz: int
    device: _device.Device
    updatable: bool
    _recipe: Recipe | None
    _source: Source | None
    _vectors_only = False
    _is_transpose = False  # of the matrix that `_source` refers to
    _version = 0  # of the values
    _pattern: Any = None  # of warploom.torch, as the two that follow
    _neighbours: Any = None
    _weights: Any = None
    _transpose: Operator | None = None

    def __new__(cls, *_: Any, **__: Any) -> Any:
        # SciPy's looks each time whether products are defined.
        return object.__new__(cls)

    def __init__(self, name: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        if _SET_BY_SCIPY:
            self.__dict__.update(_SET_BY_SCIPY)
        self.shape = shape
        self.dtype = dtype
        self._name = name
        _operators[name] = weakref.ref(self, functools.partial(_operators.pop, name))

    @property
    def _making(self) -> Any:
        """The lock of whoever makes something that is kept, made when it is first asked for."""
        return self.__dict__.setdefault("_lock", threading.RLock())

    # ----- the transpose -----

    def _matrix_arrays(self) -> Arrays:
        """Return the matrix with the values that products use."""
        raise NotImplementedError

    def _transposed(self, *, with_values: bool = True) -> Operator:
        raise NotImplementedError

    # ----- values of one product, for warploom.torch -----

    def _with_values(self, values: Any, transposed: bool) -> Multiplier:
        """Return this or its transpose with other values, and leave the other one of the two as it is."""
        if transposed:
            operator = self._transposed(with_values=False)
            operator._take_values(values)
            return operator
        self._version += 1
        self._give(view_values(values, self.nnz, self.dtype, self.device))
        return self

    def _give(self, values: _device.Operand) -> None:
        raise NotImplementedError

    def _leave_values(self) -> None:
        """Close the transpose until it gets values again: it does not have those of this one."""
        if self._transpose is not None:
            self._transpose._is_outdated = True

    @property
    def T(self) -> Operator:
        """The transpose, with a plan of its own: made when it first multiplies, and kept.

        `A` is read again then. It must not have changed since the plan was made, which is checked.
        """
        return self._transposed()

    @property
    def H(self) -> Operator:
        """The adjoint, which is the transpose: values are real."""
        return self._transposed()

    def transpose(self) -> Operator:
        """Return the transpose, `T`."""
        return self._transposed()

    def adjoint(self) -> Operator:
        """Return the adjoint, `T`: values are real."""
        return self._transposed()

    # ----- products in SciPy's words -----

    def matvec(self, x: Any) -> Any:
        """Multiply a vector: y = A x.

        Parameters
        ----------
        x : array of shape (n,) or (n, 1)
            Arrays on a GPU, and tensors, are taken as ``plan @ x`` takes them.

        Returns
        -------
        array of shape (m,) or (m, 1)
        """
        return super().matvec(x) if _is_host_array(x) else self @ x

    def matmat(self, X: Any) -> Any:
        """Multiply a dense matrix: A X.

        Parameters
        ----------
        X : array of shape (n, k)

        Returns
        -------
        array of shape (m, k)
        """
        return super().matmat(X) if _is_host_array(X) else self @ X

    def rmatvec(self, x: Any) -> Any:
        """Multiply a vector by the transpose.

        Parameters
        ----------
        x : array of shape (m,) or (m, 1)

        Returns
        -------
        array of shape (n,) or (n, 1)
        """
        return super().rmatvec(x) if _is_host_array(x) else self._transposed() @ x

    def rmatmat(self, X: Any) -> Any:
        """Multiply a dense matrix by the transpose.

        Parameters
        ----------
        X : array of shape (m, k)

        Returns
        -------
        array of shape (n, k)
        """
        return super().rmatmat(X) if _is_host_array(X) else self._transposed() @ X

    def dot(self, x: Any) -> Any:
        """Multiply by a vector, a dense matrix, a scalar or another operator, as SciPy's operators do.

        Parameters
        ----------
        x : array, scalar or LinearOperator

        Returns
        -------
        array or LinearOperator
        """
        return super().dot(x) if isinstance(x, LinearOperator) or _is_host_array(x) else self @ x

    def _matvec(self, x: Any) -> Any:
        return self @ np.asarray(x).reshape(-1)

    def _matmat(self, X: Any) -> Any:
        if self._vectors_only and X.shape[1] != 1:
            columns = [self @ X[:, j] for j in range(X.shape[1])]
            return np.stack(columns, axis=1) if columns else np.empty((self.shape[0], 0), self.dtype)
        return self @ np.asarray(X)

    def _rmatvec(self, x: Any) -> Any:
        return self._transposed() @ np.asarray(x).reshape(-1)

    def _rmatmat(self, X: Any) -> Any:
        return self._transposed()._matmat(X)

    def _adjoint(self) -> Operator:
        return self._transposed()

    def __rmatmul__(self, x: Any) -> Any:
        if isinstance(x, LinearOperator) or np.isscalar(x):
            return super().__rmatmul__(x)
        return self._left_product(x)

    def __rmul__(self, x: Any) -> Any:
        if isinstance(x, LinearOperator) or np.isscalar(x):
            return super().__rmul__(x)
        return self._left_product(x)

    def _left_product(self, x: Any) -> Any:
        x = _device.as_array(x, self.dtype)
        shape = tuple(getattr(x, "shape", ()))
        if len(shape) not in (1, 2) or shape[-1] != self.shape[0]:
            raise ShapeError(
                f"x must have {self.shape[0]} columns, as A has rows, but its shape is {shape}", argument="x"
            )
        return self._transposed() @ x if len(shape) == 1 else (self._transposed() @ x.T).T

    def _combine(self, B: Any, out: Any, by: Epilogue, *, column: bool = False) -> Any:
        """Compute activation(alpha A B + beta out + bias) by operations on whole arrays, for what no kernel takes."""
        if by.beta == 0:
            result = self(B, out)
            if framework_of(result) is None and not isinstance(result, np.ndarray):
                return by.end(result * by.alpha)  # of a library whose arrays stay as they are
            if by.alpha == 0:
                result[...] = 0  # A B does not count, even NaN
            elif by.alpha != 1:
                result *= by.alpha
            return by.end(result, column=column)
        assert out is not None
        product = self(B) if by.alpha != 0 else None
        framework = framework_of(out)
        if not (framework or isinstance(out, np.ndarray)):
            raise DtypeError(f"out must be an array, got a {type(out).__name__}", argument="out")
        if framework == "torch":
            _device.refuse_gradient(out, "out")
        if isinstance(out, np.ndarray) and not out.flags.writeable:
            raise ParameterError("out is read-only", argument="out")
        out *= by.beta
        if product is not None:
            if by.alpha != 1:
                product *= by.alpha
            out += product
        return by.end(out, column=column)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the matrix and what was chosen to a file, which `warploom.load_plan` reads.

        Parameters
        ----------
        path : str or path
            A file of the format safetensors; one that exists is replaced.

        Raises
        ------
        ParameterError
            The values were updated, or this is a transpose: save what it is the transpose of.
        InvalidMatrixError
            The matrix has changed since the plan was made.
        """
        self._save(Path(path))

    def _save(self, path: Path | None) -> bytes:
        if self._recipe is None:
            raise ParameterError("this plan does not refer to a matrix: wl.plan makes plans that do", argument="plan")
        return self._recipe.save(self, self._saved_arrays().on_host(), path)

    def _saved_arrays(self) -> Arrays:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(key)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for key, value in self._shown().items()
        )
        return f"<div style='display:flex;gap:1em;align-items:flex-start'>{self._picture}<table>{rows}</table></div>"

    def _shown(self) -> dict[str, str]:
        """Return what notebooks show, by name."""
        m, n = self.shape
        return {
            "matrix": f"{m:,} x {n:,}, {self.nnz:,} nonzeros, {self._value_type()}",
            "device": f"{self.device.name} ({self.device})",
        }

    def _value_type(self) -> str:
        return _bfloat16.name_of(self.dtype)

    @functools.cached_property
    def _picture(self) -> str:
        if self._source is None or self._is_transpose:
            return ""
        try:
            return spy(self._source.matrix, size=240).image()
        except WarploomError:  # the matrix has changed
            return ""

    def __reduce__(self) -> Any:
        # By way of what a file would hold: the choice is kept, and preparing is repeated.
        content = self._save(None)
        assert self._recipe is not None
        return self._recipe.restore, (content,)


def _is_host_array(x: Any) -> bool:
    return isinstance(x, np.ndarray) or not (
        framework_of(x) or hasattr(x, "__cuda_array_interface__") or _device.is_dlpack_cuda(x) or _device.is_foreign(x)
    )


def view_values(data: Any, nnz: int, dtype: np.dtype[Any], device: _device.Device) -> _device.Operand:
    """Check values for the entries of a matrix, and view them as a column."""
    data = np.asarray(data) if isinstance(data, (list, tuple)) else data
    shape = getattr(data, "shape", None)
    if shape is None or tuple(shape) != (nnz,):
        got = type(data).__name__ if shape is None else f"shape {tuple(shape)}"
        raise ShapeError(f"data must have shape ({nnz},), one value for each entry of A, got {got}", argument="data")
    values = _device.operand(data.reshape(-1, 1), dtype, "column", "data")
    check_device(values, "data", device)
    return values


def check_device(b: _device.Operand, name: str, device: _device.Device) -> None:
    """Refuse an operand on another GPU than that of a plan, or on one where the plan is for the CPU."""
    if not b.on_gpu:
        return
    if device.kind == "cpu":
        raise DeviceError(f"the plan was made for the CPU but {name} is in GPU memory", argument=name)
    if b.device != device.ordinal:
        raise DeviceError(f"the plan was made for GPU {device.ordinal} but {name} is on GPU {b.device}", argument=name)

"""`Plan` and `Operator`: a sparse matrix as something that multiplies, for whoever takes a linear operator."""

from __future__ import annotations

import dataclasses
import functools
import math
import weakref
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from warploom import _bfloat16, _core, _device
from warploom._csr import CSR, framework_of
from warploom._epilogue import Epilogue
from warploom._multiplier import Multiplier, Recipe, check_device, view_values
from warploom._source import Arrays, Positions, Source, to_host, transpose
from warploom.errors import (
    DeviceError,
    DtypeError,
    IndexOverflowError,
    InvalidMatrixError,
    ParameterError,
    ShapeError,
)
from warploom.explanation import Explanation, Product

__all__ = ["Operator", "Plan"]


class Plan(Multiplier):
    """A candidate prepared for one matrix on one device.

    Made by `plan`. Call it, or use ``@``, with a dense matrix or a vector:

    ``C = plan @ B`` with `B` of shape (n, k) gives C = A B of shape (m, k); a vector of shape (n,) gives one of shape
    (m,). A plan for SpMV takes vectors only. NumPy in, NumPy out; torch and CuPy tensors on the plan's GPU come back as
    the same kind, computed on the caller's current stream without synchronisation. Results are always in the caller's
    row order.

    Products share the plan's workspace: on several streams they are computed in the order in which they are enqueued.

    It is a `scipy.sparse.linalg.LinearOperator`, with all that SciPy's operators can do: ``plan.matvec``, ``plan.T``,
    ``x @ plan``, ``2 * plan + plan.T`` and SciPy's solvers. The plan refers to `A` for its transpose and for `save`,
    which read it when they are first asked for.
    """

    def __init__(
        self,
        core: _core.Plan,
        problem: _core.Problem,
        device: _device.Device,
        recipe: Recipe | None = None,
        matrix: Any = None,
    ) -> None:
        # Whatever is not needed for a product is made when it is asked for: the caches of a CPU hold nothing of this
        # when a plan is made, and each step takes microseconds.
        name, self._fast_path, updatable, self._facts = core.begin(problem)
        op, shape, nnz, dtype, k, layout, _, _ = self._facts
        super().__init__(name, shape, dtype)
        self._core = core
        self._recipe = recipe
        self._matrix = matrix
        self.nnz: int = nnz
        """Stored entries of A."""
        self._vectors_only = op == "spmv"
        self.op: str = op
        """The operation: ``"spmm"`` or ``"spmv"``."""
        self.k: int = k
        """Columns of B the plan was tuned for; it works for any number of them, or for one only if `op` is SpMV."""
        self.layout: str = layout
        """Layout of B and C the plan works on: ``"row"`` or ``"column"``. Others are copied."""
        self.device = device
        """Where it runs."""
        self.updatable: bool = updatable
        """Whether `update_values` may be called."""

    _updated = False
    _origin: Any = None  # of a plan that was read from a file

    @functools.cached_property
    def _source(self) -> Source | None:  # type: ignore[override]
        return None if self._matrix is None else Source(self._matrix, self.dtype, self.nnz)

    @functools.cached_property
    def _candidate(self) -> _core.Candidate:
        chosen: _core.Candidate = self._core.candidate
        return chosen

    @functools.cached_property
    def _product(self) -> Product:
        return Product.by_facts(self._facts, self.device.name)

    @functools.cached_property
    def preparation_ms(self) -> dict[str, float]:
        """Milliseconds spent on each step of planning.

        Features, ranking, measuring, permutation, upload, conversion, and updating: what `update_values` needs.
        """
        return self._core.preparation_ms

    @property
    def candidate(self) -> str:
        """Name of the candidate that was chosen."""
        return self._candidate.name

    @property
    def nbytes(self) -> int:
        """Memory the plan holds on its device, in bytes; without what operands are copied to during a product."""
        return self._core.nbytes

    @property
    def floor_bytes(self) -> int:
        """Minimum bytes that a product moves in this format: what the plan holds, B with `k` columns, and C."""
        return self.nbytes + sum(self.shape) * self.k * self.dtype.itemsize

    @property
    def reproducible(self) -> bool:
        """Whether every run gives bitwise the same result."""
        return self._candidate.kernel.reproducible

    @property
    def precision(self) -> str:
        """``"tf32"`` if A and B are rounded to TF32, as `plan` was asked to allow; else ``"full"``."""
        return self._candidate.kernel.precision

    def explain(self) -> Explanation:
        """Why this candidate: what was considered, and what each one costs.

        Returns
        -------
        Explanation
            Prints as a table; ``.rows`` holds the figures.
        """
        return self._explanation

    @functools.cached_property
    def _explanation(self) -> Explanation:
        explanation = Explanation.of(self._core.explanation(), self._product)
        if self._origin is not None:
            explanation.footnotes.append(self._origin.says())
            doubts = self._origin.doubts(self.device.name)
            explanation.footnotes += [f"Another choice may be better: {doubt}." for doubt in doubts]
        return explanation

    def __matmul__(self, B: Any) -> Any:
        result = self._fast_path(B, None)
        if result is not NotImplemented:
            return result
        return super().__matmul__(B) if isinstance(B, LinearOperator) else self._multiply(B, None)

    def __call__(
        self,
        B: Any,
        out: Any = None,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        bias: Any = None,
        activation: str | None = None,
    ) -> Any:
        """Multiply: C = activation(alpha A B + beta C + bias).

        On a GPU all of it is one launch for the SpMM kernels ``row_split`` on CSR, segmented, padded and doubly
        compressed CSR and the ones on tensor cores, with row-major B and C, and for the SpMV kernels ``csr/vector``,
        ``csr/scalar``, ``compressed-sell/vector``, and ``packed-csr/segmented_sum`` if no row is longer than a warp
        takes. Not for SpMM where rows of B or C do not start on 16 bytes, as for odd `k`. All others take a further
        launch that passes over C; on a CPU there always is such a pass.

        Parameters
        ----------
        B : array of shape (n, k) or (n,)
            NumPy array, torch or CuPy tensor, or any GPU array with DLPack, of the plan's dtype or of one that SciPy
            promotes to it, such as integers or float32 for float64. Lists, and Series and DataFrames of pandas, are
            arrays. Complex numbers are multiplied as real and imaginary parts. From host memory it is copied to the
            GPU, and the result back, unless the CPU needs less time for the product than that takes.
        out : array of shape (m, k) or (m,), optional
            Overwritten with the result; on the same device as `B`, in the plan's layout, apart from `B` in memory.
        alpha, beta : float
            Factors; `beta` needs `out`. If it is 0, `out` is overwritten even where it is NaN, and if `alpha` is 0, A B
            does not count even where it is NaN.
        bias : array of shape (k,), or (m,) if `B` is a vector, optional
            Added as NumPy and PyTorch add it to the result: to each row of a matrix. Where `B` is, and of a type that
            is promoted to the plan's.
        activation : {"relu"}, optional
            Negative entries become 0; NaN stays.

        Returns
        -------
        array of shape (m, k) or (m,)
            `out` if given, else a new array of the same kind as `B`, in the plan's layout. It carries no gradient.

        Raises
        ------
        ShapeError, DtypeError
            If `B`, `out` or `bias` does not fit; `argument` names it.
        ParameterError
            If `out` is read-only or shares memory with `B` or `bias`, `beta` is given without `out`, `activation` is
            unknown, or an operand requires a gradient: `warploom.torch` has products with gradients.
        DeviceError
            If an operand is on another device than the plan, or than `B`.

        Examples
        --------
        >>> import numpy as np, scipy.sparse, warploom as wl
        >>> A = scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
        >>> plan = wl.plan(A, k=2, device="cpu", select="spmm/none/csr/row_split")
        >>> plan(np.array([[1.0, -1.0], [3.0, 1.0]]), bias=np.array([0.5, 0.5]), activation="relu")
        array([[6.5, 2.5],
               [1.5, 0. ]])
        """
        if alpha != 1.0 or beta != 0.0 or bias is not None or activation is not None:
            return self._multiply(B, out, Epilogue.of(out, alpha, beta, bias, activation))
        result = self._fast_path(B, out)
        return self._multiply(B, out) if result is NotImplemented else result

    def product_and_dot(self, x: Any, out: Any = None, dot: Any = None) -> tuple[Any, Any]:
        """Multiply a vector and take the dot product of the two: y = A x and x . y, as conjugate gradients needs them.

        The dot product stays where `x` is, as an array without dimensions: nothing waits for it. It is summed in
        float64, always in the same order, and is of type float64 for values of float64, otherwise float32. On a GPU
        both are one launch for ``csr/vector``, ``csr/scalar``, ``compressed-sell/vector``, and
        ``packed-csr/segmented_sum`` if no row is longer than a warp takes; other kernels take two more.

        Parameters
        ----------
        x : array of shape (n,)
            As `B` of a call; A is square.
        out : array of shape (n,), optional
            Overwritten with y.
        dot : array of one element, optional
            Overwritten with x . y; of the same kind as `x`, and of the type above.

        Returns
        -------
        tuple of array of shape (n,), array of shape ()
            `out` and `dot` if they are given.

        Raises
        ------
        ShapeError, DtypeError, DeviceError, ParameterError
            A is not square, or an operand does not fit, as for a call; `argument` names it.

        Examples
        --------
        >>> import numpy as np, scipy.sparse, warploom as wl
        >>> A = scipy.sparse.csr_array([[2.0, 1.0], [1.0, 3.0]])
        >>> y, curvature = wl.plan(A, "spmv", device="cpu").product_and_dot(np.array([1.0, 2.0]))
        >>> y, float(curvature)
        (array([4., 7.]), 18.0)
        """
        if self.shape[0] != self.shape[1]:
            raise ShapeError(f"x . A x is of a square matrix, and A has shape {self.shape}", argument="A")
        x = _device.as_array(x, self.dtype)
        shape = tuple(getattr(x, "shape", ()))
        if shape != (self.shape[1],):
            raise ShapeError(f"x must be a vector of {self.shape[1]} entries, but its shape is {shape}", argument="x")
        if out is not None and tuple(getattr(out, "shape", ())) != shape:
            raise ShapeError(f"out must be an array of shape {shape}", argument="out")
        b, c, result = self._operands(x.reshape(-1, 1), None if out is None else out[:, None])
        dtype = np.dtype(np.float64 if self.dtype == np.float64 else np.float32)
        if dot is None:
            value, pointer = _device.new_scalar(b, dtype)
        else:
            if math.prod(getattr(dot, "shape", (0,))) != 1:
                raise ShapeError("dot must be an array of one element", argument="dot")
            seen = _device.operand(dot.reshape(1, 1), dtype, "row", "dot")
            if seen.on_gpu != b.on_gpu or seen.device != b.device:
                raise DeviceError("dot must be where x is", argument="dot")
            if isinstance(seen.owner, np.ndarray) and not seen.owner.flags.writeable:
                raise ParameterError("dot is read-only", argument="dot")
            value, pointer = dot, seen.pointer
        if b.on_gpu:
            self._core.dot_device(b.pointer, b.leading_dimension, c.pointer, c.leading_dimension, pointer, b.stream)
        else:
            self._core.dot_host(_device.host_array(b.owner), _device.host_array(c.owner), pointer)
        y = _device.finish(result).reshape(-1) if out is None else out
        return y, _device.finish(value)

    def update_values(self, data: Any) -> None:
        """Give A new values at the same places.

        Products that follow are those of a new plan of the same candidate, bit for bit where the candidate is
        `reproducible`; choosing and preparing are not repeated. The plan must have been made with ``updatable=True``.

        On the GPU this takes about as long as a product. It takes as long as preparing the plan did, and waits for the
        GPU, only where the format adds up values: in BSR, if entries of A repeat.

        Parameters
        ----------
        data : array of shape (nnz,)
            NumPy array, torch or CuPy tensor, or any GPU array with DLPack, of the plan's dtype. Values are in the
            order of the `data` of A in CSR: of A itself, with its entries as they are stored, or, of a matrix that came
            in another format, of what SciPy's or CuPy's ``tocsr`` makes of it. From GPU memory values are moved on
            the caller's current stream without synchronisation; from host memory they are uploaded, and have arrived
            on return. The plan keeps no reference to `data`.

        Raises
        ------
        ParameterError
            If the plan was made without ``updatable=True``, or `data` requires a gradient.
        ShapeError, DtypeError
            If `data` does not fit.
        DeviceError
            If it is on another device than the plan.

        Examples
        --------
        >>> import numpy as np, scipy.sparse, warploom as wl
        >>> A = scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
        >>> plan = wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector", updatable=True)
        >>> plan @ np.array([1.0, 3.0])
        array([6., 1.])
        >>> plan.update_values(np.array([4.0, 5.0]))
        >>> plan @ np.array([1.0, 3.0])
        array([12.,  5.])
        """
        if not self.updatable:
            raise ParameterError("this plan keeps its values; plan with updatable=True to update them", argument="data")
        values = view_values(data, self.nnz, self.dtype, self.device)
        with self._making:  # of two threads that update, the transpose has the values of the same one
            self._version += 1
            self._give(values)
            if self._transpose is not None:
                self._transpose._take_values(_flat(values))

    def _give(self, values: _device.Operand) -> None:
        self._updated = True
        if values.on_gpu:
            self._core.update_values_from_device(values.pointer, values.stream)
        else:
            self._core.update_values_from_host(_device.host_array(values.owner).reshape(-1))

    def _multiply(self, B: Any, out: Any, by: Epilogue | None = None) -> Any:
        """Multiply operands of every kind: what the fast path leaves, with all checks and copies."""
        B = _device.as_array(B, self.dtype)
        if _device.is_complex(B) and out is None:
            if by is not None:
                return self._combine(B, out, by)
            return _device.join(self._multiply(B.real, None), self._multiply(B.imag, None))
        if getattr(B, "ndim", 2) == 1:
            return self._multiply_vector(B, out, by)
        return self._multiply_matrix(B, out, by, None if by is None else "row")

    def _multiply_matrix(self, B: Any, out: Any, by: Epilogue | None, bias: str | None) -> Any:
        """Multiply; `bias` says whether it is a ``"row"`` or a ``"column"``."""
        reads_out = by is not None and by.beta != 0
        b, c, result = self._operands(B, out, reads_out=reads_out)
        if by is None:
            if b.on_gpu:
                self._core.run_device(
                    b.pointer, b.leading_dimension, c.pointer, c.leading_dimension, b.columns, b.stream
                )
            else:
                self._core.run_host(_device.host_array(b.owner), _device.host_array(c.owner))
            return _device.finish(result)
        seen = by.view_bias(self.shape[0] if bias == "column" else b.columns, b, self.dtype)
        if reads_out and (c.copied or _device.overlap(b, c, self.layout, self.dtype)):
            return self._combine(B, out, by, column=bias == "column")
        if out is not None and seen is not None and _device.share(seen, "row", c, self.layout, self.dtype):
            raise ParameterError(
                "out shares memory with bias, which is still read while out is written", argument="out"
            )
        epilogue = (by.alpha, by.beta, 0 if seen is None else seen.pointer, bias == "column", by.relu)
        if b.on_gpu:
            self._core.finish_device(
                b.pointer, b.leading_dimension, c.pointer, c.leading_dimension, b.columns, *epilogue, b.stream
            )
        else:
            self._core.finish_host(_device.host_array(b.owner), _device.host_array(c.owner), *epilogue)
        return _device.finish(result)

    def _operands(self, B: Any, out: Any, *, reads_out: bool = False) -> tuple[_device.Operand, _device.Operand, Any]:
        """View B and C, which is made if it is not given; and return C as the kind of array that it is."""
        b = _device.operand(B, self.dtype, self.layout)
        if b.rows != self.shape[1]:
            raise ShapeError(
                f"B must have {self.shape[1]} rows, as A has columns, but its shape is ({b.rows}, {b.columns})",
                argument="B",
            )
        if self.op == "spmv" and b.columns != 1:
            raise ShapeError(
                f"B must be one vector, as the plan is for SpMV, but its shape is ({b.rows}, {b.columns}); "
                "make a plan with op='spmm' for several",
                argument="B",
            )
        if b.columns >= 2**31:
            raise IndexOverflowError(f"B has {b.columns:,} columns; at most {2**31 - 1:,} are supported", argument="B")
        check_device(b, "B", self.device)
        if out is None:
            result, pointer, leading = b.new(self.shape[0], b.columns, self.layout)
            return b, dataclasses.replace(b, pointer=pointer, leading_dimension=leading, owner=result), result
        c = _device.operand(out, self.dtype, self.layout, "out")
        self._check_out(b, c, out, reads_out=reads_out)
        if reads_out and framework_of(out) != framework_of(B):
            raise DtypeError(f"out must be a {type(B).__name__}, got a {type(out).__name__}", argument="out")
        return b, c, out

    def _multiply_vector(self, x: Any, out: Any, by: Epilogue | None) -> Any:
        if x.shape[0] != self.shape[1]:
            raise ShapeError(
                f"B must have {self.shape[1]} entries, as A has columns, but its shape is {tuple(x.shape)}",
                argument="B",
            )
        if out is None:
            return self._multiply_matrix(x.reshape(-1, 1), None, by, "column").reshape(-1)
        if isinstance(out, (list, tuple)):
            raise DtypeError(f"out must be an array, got a {type(out).__name__}", argument="out")
        if tuple(getattr(out, "shape", ())) != (self.shape[0],):
            raise ShapeError(f"out must be an array of shape {(self.shape[0],)}", argument="out")
        self._multiply_matrix(x.reshape(-1, 1), out[:, None], by, "column")
        return out

    def _check_out(self, b: _device.Operand, c: _device.Operand, out: Any, *, reads_out: bool) -> None:
        expected = (self.shape[0], b.columns)
        if isinstance(out, (list, tuple)):
            raise DtypeError(f"out must be an array, got a {type(out).__name__}", argument="out")
        if (c.rows, c.columns) != expected:
            raise ShapeError(f"out must have shape {expected}, got {(c.rows, c.columns)}", argument="out")
        if c.on_gpu != b.on_gpu:
            raise DeviceError("out must be where B is", argument="out")
        check_device(c, "out", self.device)
        if c.copied and not reads_out:
            raise ShapeError(f"out must be a {self.layout}-major array", argument="out")
        if isinstance(c.owner, np.ndarray) and not c.owner.flags.writeable:
            raise ParameterError("out is read-only", argument="out")
        if not reads_out and _device.overlap(b, c, self.layout, self.dtype):
            raise ParameterError("out shares memory with B, which is still read while out is written", argument="out")

    def _matrix_arrays(self) -> Arrays:
        if self._source is None or self._recipe is None:
            raise ParameterError("this plan does not refer to a matrix: wl.plan makes plans that do", argument="plan")
        arrays = self._source.arrays()
        if not self._updated:
            _check_unchanged(self, arrays, self._recipe)
        return arrays

    def _saved_arrays(self) -> Arrays:
        if self._updated:
            raise ParameterError(
                "the values of this plan were updated, and it keeps no others than those it multiplies with; an "
                "operator, which wl.plan makes without op and k, can be saved then",
                argument="plan",
            )
        return self._matrix_arrays()

    def _transposed(self, *, with_values: bool = True) -> Operator:
        with self._making:
            if self._transpose is None:
                if self._source is None or self._recipe is None:
                    raise ParameterError("this plan does not refer to a matrix: wl.plan makes plans that do")
                if self._updated and with_values:
                    raise ParameterError(
                        "the values of this plan were updated before its transpose was first asked for: take plan.T "
                        "once before the first update, and it gets new values with the plan",
                        argument="plan",
                    )
                fixed = (self.op, self.k, self.layout)
                self._transpose = Operator(
                    self._source,
                    self._recipe,
                    self.shape[::-1],
                    self.nnz,
                    self.dtype,
                    fixed=fixed,
                    transpose_of=self,
                )
            return self._transpose

    def _value_type(self) -> str:
        return super()._value_type() + (" rounded to TF32" if self.precision != "full" else "")

    def _shown(self) -> dict[str, str]:
        product = "vector" if self.op == "spmv" else f"k = {self.k:,}, {self.layout}-major"
        return super()._shown() | {"product": product} | self._shown_choice()

    def _shown_choice(self) -> dict[str, str]:
        facts = {"candidate": self.candidate, "memory": f"{self.nbytes / 1e6:,.2f} MB"}
        row = next((row for row in self.explain().rows if row.candidate == self.candidate), None)
        for key, number, pattern in (
            ("time", getattr(row, "median_us", math.nan), "{:,.2f} us"),
            ("predicted", getattr(row, "predicted_us", math.nan), "{:,.2f} us"),
            ("speedup over plain CSR", getattr(row, "speedup", math.nan), "{:.2f}x"),
            ("break-even", getattr(row, "break_even", math.nan), "after {:,.0f} products"),
        ):
            if math.isfinite(number):
                facts[key] = pattern.format(number)
        return facts

    def __repr__(self) -> str:
        operands = f"k={self.k}, {self.layout}-major, " if self.op == "spmm" else ""
        return (
            f"<Plan {self.candidate} for {self.shape[0]} x {self.shape[1]}, nnz={self.nnz}, "
            f"{self._value_type()}, {operands}on {self.device}>"
        )


_AS_THEY_ARE = "A has changed since the plan was made, in place"


def _check_unchanged(plan: Plan, arrays: Arrays, recipe: Recipe) -> None:
    """Compare a product of the matrix as it is now with one of a plan that was made before.

    Raises
    ------
    InvalidMatrixError
        They differ by more than rounding.
    """
    m, n = arrays.shape
    # SciPy sums entries that repeat in place, which leaves products as they are.
    if arrays.shape != plan.shape or (plan.updatable and len(arrays.data) != plan.nnz):
        raise InvalidMatrixError(f"{_AS_THEY_ARE}: its size is another one", argument="A")
    if plan.nnz == 0:
        return
    random = np.random.default_rng(0)
    signs = random.choice((-1, 1), n)
    magnitude = _bfloat16.cast(random.uniform(0.5, 1.5, n), plan.dtype)
    x = _bfloat16.cast(_bfloat16.cast(magnitude, _WIDE) * signs, plan.dtype)
    name = "spmv/none/csr/vector"
    before = _bfloat16.cast(np.asarray(plan @ x), _WIDE)
    now = _bfloat16.cast(np.asarray(recipe.named(arrays.matrix(), name) @ x), _WIDE)
    values = _absolute(arrays.data)
    magnitudes = CSR(arrays.indptr, arrays.indices, values, arrays.shape)
    bound = _bfloat16.cast(np.asarray(recipe.named(magnitudes, name) @ magnitude), _WIDE)
    longest = int((arrays.indptr[1:] - arrays.indptr[:-1]).max()) if m else 0
    known = np.isfinite(bound)
    rounding = (longest + 10) * _bfloat16.eps_of(plan.dtype) + (2.0**-10 + 2.0**-21 if plan.precision == "tf32" else 0)
    with np.errstate(invalid="ignore"):
        differs = known & (abs(before - now) > rounding * bound)
    if not known.all() and not bool((_widened(values) <= _bfloat16.largest_of(plan.dtype)).all()):
        differs |= ~known & (np.isfinite(before) != np.isfinite(now))  # and not because sums overflow
    rows = np.flatnonzero(differs | (known & ~np.isfinite(before)))
    if rows.size:
        raise InvalidMatrixError(
            f"{_AS_THEY_ARE}: row {rows[0]} gives another product; give the plan new values by update_values",
            argument="A",
            position=int(rows[0]),
        )


_WIDE = np.dtype(np.float64)


def _widened(values: Any) -> Any:
    """Return values as NumPy computes with them; those of other libraries are as they are."""
    return _bfloat16.cast(values, _WIDE) if isinstance(values, np.ndarray) else values


def _absolute(values: Any) -> Any:
    """Return magnitudes, also of bfloat16, with which NumPy does not compute."""
    if isinstance(values, np.ndarray) and _bfloat16.is_bfloat16(values.dtype):
        return _bfloat16.cast(abs(_widened(values)), values.dtype)
    return abs(values)


class Operator(Multiplier):
    """A sparse matrix that chooses how to multiply by what it meets.

    Made by `warploom.plan` without `op` and `k`, and by the `T` of a plan. A vector is multiplied by a plan for SpMV; k
    columns are by one for SpMM, in the layout of the operand and tuned for about as many columns (up to the next power
    of two). Each plan is chosen when it is first needed, and kept: see `plans`. The matrix is referred to until then,
    and not copied. It is read again for every further plan and must not change; that it has not is checked.

    Products are of the types that SciPy's have: an array of NumPy or CuPy that is wider than the matrix, such as
    float64 for float32, is multiplied by plans of the wider type. Tensors of PyTorch have to be of the type of the
    matrix or of one that is promoted to it, as in PyTorch.

    It is a `scipy.sparse.linalg.LinearOperator`, as a `Plan` is.
    """

    _recipe: Recipe
    _source: Source

    def __init__(
        self,
        matrix: Source,
        recipe: Recipe,
        shape: tuple[int, int],
        nnz: int,
        dtype: np.dtype[Any],
        *,
        fixed: tuple[str, int, str] | None = None,
        transpose_of: Plan | Operator | None = None,
    ) -> None:
        super().__init__(_core.next_name(), shape, dtype)
        self.nnz = nnz
        """Stored entries of A."""
        self.device = recipe.target
        """Where it runs."""
        self.updatable = recipe.updatable and transpose_of is None
        """Whether `update_values` may be called. A transpose follows what it is the transpose of."""
        self._recipe = recipe
        self._source = matrix
        self._fixed = fixed
        self._vectors_only = fixed is not None and fixed[0] == "spmv"
        self._is_transpose = transpose_of is not None
        self._parent = None if transpose_of is None else weakref.ref(transpose_of)  # no circle: memory is freed at once
        self._arrays: Arrays | None = None  # of a transpose, made from those of the parent
        self._positions: Positions | None = None
        self._values: Any = None  # the latest, of an operator that was updated
        self._plans: dict[tuple[str, int, str], Plan] = {}  # replaced, never changed: it is read without the lock
        self._stale: set[tuple[str, int, str]] = set()  # plans that have not got the latest values
        self._wider: dict[np.dtype[Any], Operator] = {}  # the same matrix for operands of wider types
        self._vector_path: Any = None
        self._is_outdated = False  # a transpose that has other values than what it is the transpose of

    @property
    def plans(self) -> dict[str, Plan]:
        """The plans that were chosen so far, by what they multiply."""
        with self._making:
            found = {_describe(*key): plan for key, plan in self._plans.items()}
            for dtype, wider in self._wider.items():
                found |= {f"{name}, {dtype}": plan for name, plan in wider.plans.items()}
            return found

    @property
    def nbytes(self) -> int:
        """Memory that all plans hold on their device, in bytes."""
        return sum(plan.nbytes for plan in self.plans.values())

    def explain(self) -> dict[str, Explanation]:
        """Why these candidates.

        Returns
        -------
        dict of str to Explanation
            For each of `plans`.
        """
        return {name: plan.explain() for name, plan in self.plans.items()}

    def plan_for(self, k: int | None = None, layout: str = "row") -> Plan:
        """Return the plan for k columns, which is chosen now if none of that kind was met before.

        Parameters
        ----------
        k : int, optional
            Columns; by default a vector is meant.
        layout : {"row", "column"}
            Of B and C.

        Returns
        -------
        Plan
        """
        return self._find(self._key(1 if k is None else k, layout), k or 1)

    def __matmul__(self, B: Any) -> Any:
        path = self._vector_path
        if path is not None and not self._is_outdated and getattr(B, "ndim", None) == 1:
            result = path(B, None)
            if result is not NotImplemented:
                return result
        if isinstance(B, LinearOperator):
            return super().__matmul__(B)
        return self._multiply(B, None)

    def __call__(
        self,
        B: Any,
        out: Any = None,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        bias: Any = None,
        activation: str | None = None,
    ) -> Any:
        """Multiply: C = activation(alpha A B + beta C + bias).

        Parameters
        ----------
        B : array of shape (n, k) or (n,)
            As for `Plan.__call__`.
        out : array of shape (m, k) or (m,), optional
            Overwritten with the result; in the layout of `B`.
        alpha, beta : float
            Factors; `beta` needs `out`, and if it is 0, `out` is overwritten even where it is NaN.
        bias : array of shape (k,), or (m,) if `B` is a vector, optional
            As for `Plan.__call__`.
        activation : {"relu"}, optional
            Negative entries become 0.

        Returns
        -------
        array of shape (m, k) or (m,)
        """
        if alpha != 1.0 or beta != 0.0 or bias is not None or activation is not None:
            return self._multiply(B, out, Epilogue.of(out, alpha, beta, bias, activation))
        return self._multiply(B, out)

    def product_and_dot(self, x: Any, out: Any = None, dot: Any = None) -> tuple[Any, Any]:
        """Multiply a vector and take the dot product of the two, as `Plan.product_and_dot` does.

        Parameters
        ----------
        x : array of shape (n,)
        out : array of shape (n,), optional
            Overwritten with A x.
        dot : array of one element, optional
            Overwritten with x . A x.

        Returns
        -------
        tuple of array of shape (n,), array of shape ()
        """
        wider = self._for_type_of(x)
        if wider is not None:
            return wider.product_and_dot(x, out, dot)
        return self._find(self._key(1, "column"), 1).product_and_dot(x, out, dot)

    def update_values(self, data: Any) -> None:
        """Give A new values at the same places, as `Plan.update_values` does.

        A copy of them is kept: plans that are chosen later have them too, and those there are get them when they
        multiply next.

        Parameters
        ----------
        data : array of shape (nnz,)

        Raises
        ------
        ParameterError, ShapeError, DtypeError, DeviceError
            As `Plan.update_values`.
        """
        if not self.updatable:
            what = "a transpose gets the values of what it is the transpose of"
            hint = what if self._is_transpose else "plan with updatable=True to update them"
            raise ParameterError(f"this operator keeps its values: {hint}", argument="data")
        values = view_values(data, self.nnz, self.dtype, self.device)
        with self._making:
            self._version += 1
            self._give(values)
            if self._transpose is not None:
                self._transpose._take_values(self._values)

    def _give(self, values: _device.Operand) -> None:
        self._set_values(_copy(_flat(values)))

    def _set_values(self, data: Any) -> None:
        with self._making:
            self._values = data
            self._stale = set(self._plans)
            self._vector_path = None
            self._is_outdated = False
            for dtype, wider in self._wider.items():
                wider.update_values(_device.as_array(data, dtype))

    def _ready(self) -> None:
        """Of a transpose: read the matrix."""
        with self._making:
            if self._positions is None:
                self._own()

    def _take_values(self, data: Any) -> None:
        """Of a transpose: take the values of the parent."""
        with self._making:
            self._ready()
            assert self._positions is not None
            self._set_values(self._positions.take(data))

    # ----- which plan -----

    def _key(self, k: int, layout: str) -> tuple[str, int, str]:
        if self._fixed is not None:
            return self._fixed
        if k == 1:
            return "spmv", 1, "column"
        return "spmm", 1 << max(k - 1, 1).bit_length(), layout

    def _multiply(self, B: Any, out: Any, by: Epilogue | None = None) -> Any:
        B = _device.as_array(B, self.dtype)
        shape = tuple(getattr(B, "shape", ()))
        if len(shape) not in (1, 2) or shape[0] != self.shape[1]:
            raise ShapeError(
                f"B must have {self.shape[1]} rows, as A has columns, but its shape is {shape}", argument="B"
            )
        wider = self._for_type_of(B)
        if wider is not None:
            return wider(B, out) if by is None else wider._multiply(B, out, by)
        columns = 1 if len(shape) == 1 else shape[1]
        key = self._key(columns, layout_of(B))
        plan = self._find(key, columns)
        if len(shape) == 1 and self._vector_path is None:
            with self._making:
                if key not in self._stale:  # another thread may have brought new values
                    self._vector_path = plan._fast_path
        return plan(B, out) if by is None else plan._multiply(B, out, by)

    def _find(self, key: tuple[str, int, str], columns: int) -> Plan:
        if self._is_outdated:
            raise ParameterError(
                "the plan that this is the transpose of was given values by warploom.torch.spmm; give them to both by "
                "plan.update_values",
                argument="plan",
            )
        plan = self._plans.get(key)
        if plan is None or key in self._stale:
            with self._making:
                plan = self._plans.get(key)
                if plan is None:
                    plan = self._make(key, columns)
                    self._plans = {**self._plans, key: plan}
                elif key in self._stale:
                    plan.update_values(self._values)
                self._stale.discard(key)
        return plan

    def _make(self, key: tuple[str, int, str], columns: int) -> Plan:
        op, bucket, layout = key
        k = bucket if self._fixed is not None else max(columns, 1)
        if self._is_transpose:
            plan = self._recipe.make_transposed(self._own().matrix(), op, k, layout)
            if self._fixed is not None:
                self._arrays = None  # there will be no other plan
        else:
            if self._plans and self._values is None:
                _check_unchanged(next(iter(self._plans.values())), self._source.arrays(), self._recipe)
            plan = self._recipe.make(self._source.matrix, op, k, layout)
        if self._values is not None:
            plan.update_values(self._values)
        return plan

    def _for_type_of(self, B: Any) -> Operator | None:
        """Return the operator that an operand is promoted to, if it is another one than this."""
        dtype = _device.wider_type(B, self.dtype) if self._fixed is None else None
        return None if dtype is None else self._in_type(dtype)

    def _in_type(self, dtype: np.dtype[Any]) -> Operator:
        """Return the operator of the same values in a wider type, made when an operand first needs it."""
        if self._is_transpose:
            parent: Operator = self._given_back()
            return parent._in_type(dtype)._transposed()
        with self._making:
            if dtype not in self._wider:
                arrays = self._matrix_arrays()
                if self._values is not None:
                    arrays = dataclasses.replace(arrays, data=self._values)
                matrix = Source(arrays.matrix(), dtype, self.nnz)
                self._wider[dtype] = Operator(matrix, self._recipe.in_type(dtype), self.shape, self.nnz, dtype)
            return self._wider[dtype]

    # ----- the transpose -----

    def _own(self) -> Arrays:
        """Of a transpose: its arrays, transposed when they are first needed."""
        if self._arrays is None:
            parent = None if self._parent is None else self._parent()
            given = self._source.arrays() if parent is None else parent._matrix_arrays()
            self._arrays, self._positions = transpose(given, for_updates=self._recipe.updatable)
        return self._arrays

    def _matrix_arrays(self) -> Arrays:
        if self._is_transpose:
            return self._own()
        arrays = self._source.arrays()
        if self._plans and self._values is None:
            _check_unchanged(next(iter(self._plans.values())), arrays, self._recipe)
        return arrays

    def _saved_arrays(self) -> Arrays:
        if self._is_transpose:
            raise ParameterError("this is a transpose: save the plan that it is the transpose of", argument="plan")
        arrays = self._matrix_arrays().on_host()
        return arrays if self._values is None else dataclasses.replace(arrays, data=to_host(self._values))

    def _transposed(self, *, with_values: bool = True) -> Operator:
        if self._is_transpose:
            parent: Operator = self._given_back()
            return parent
        with self._making:
            if self._transpose is None:
                self._transpose = Operator(
                    self._source, self._recipe, self.shape[::-1], self.nnz, self.dtype, transpose_of=self
                )
                if self._values is not None:
                    self._transpose._take_values(self._values)
            return self._transpose

    def _given_back(self) -> Any:
        """Of a transpose: what it is the transpose of, or the same anew if that is gone."""
        with self._making:
            parent = None if self._parent is None else self._parent()
            if parent is None:
                if self._values is not None:
                    raise ParameterError(
                        "the plan that this is the transpose of is gone, and its values were updated", argument="plan"
                    )
                fixed = None if self._fixed is None else self._fixed
                parent = Operator(self._source, self._recipe, self.shape[::-1], self.nnz, self.dtype, fixed=fixed)
                parent._transpose = self
                self._parent = weakref.ref(parent)
            return parent

    def _shown(self) -> dict[str, str]:
        facts = super()._shown()
        for name, plan in self.plans.items():
            choice = plan._shown_choice()
            facts[name] = ", ".join(value if key == "candidate" else f"{key} {value}" for key, value in choice.items())
        if not self.plans:
            facts["chosen"] = "nothing yet: a product decides"
        return facts

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name}: {plan.candidate}" for name, plan in self.plans.items())
        return (
            f"<Operator {self.shape[0]} x {self.shape[1]}, nnz={self.nnz}, {_bfloat16.name_of(self.dtype)}, "
            f"on {self.device}; "
            f"{chosen or 'nothing chosen yet'}>"
        )


def _describe(op: str, k: int, layout: str) -> str:
    return "vector" if op == "spmv" else f"up to {k} columns, {layout}-major"


def layout_of(B: Any) -> str:
    """Return the layout that takes no copy, if one does."""
    steps = B.stride() if framework_of(B) == "torch" else getattr(B, "strides", None)
    if steps is None or len(steps) != 2:
        return "row"
    return "column" if 0 < steps[0] < steps[1] else "row"


def _flat(values: _device.Operand) -> Any:
    """Return an array of NumPy, PyTorch or CuPy."""
    return (values.owner[0] if isinstance(values.owner, tuple) else values.owner).reshape(-1)


def _copy(array: Any) -> Any:
    return array.clone() if framework_of(array) == "torch" else array.copy()

"""`plan`: a matrix in, the fastest product for it out."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from warploom import _core, _device, profiles
from warploom._csr import CSR
from warploom._device_matrix import csr_tensors, device_arrays
from warploom._matrix import as_csr
from warploom.candidates import checked_patterns, parse
from warploom.errors import DeviceError, DtypeError, IndexOverflowError, ParameterError, ShapeError
from warploom.explanation import Explanation, Product

__all__ = ["Plan", "plan", "predict", "spmm", "spmv"]

Progress = Callable[[int, int, str], None]


class Plan:
    """A candidate prepared for one matrix on one device.

    Made by `plan`. Call it, or use ``@``, with a dense matrix or a vector:

    ``C = plan @ B`` with `B` of shape (n, k) gives C = A B of shape (m, k); a vector of shape (n,) gives one of shape
    (m,). A plan for SpMV takes vectors only. NumPy in, NumPy out; torch and CuPy tensors on the plan's GPU come back as
    the same kind, computed on the caller's current stream without synchronisation. Results are always in the caller's
    row order.

    A plan reuses its workspace: run it on one stream at a time.
    """

    def __init__(self, core: _core.Plan, problem: _core.Problem, device: _device.Device) -> None:
        self._core = core
        self._fast_path = core.fast_path()
        self.shape: tuple[int, int] = problem.shape
        """Shape (m, n) of A."""
        self.nnz: int = problem.nnz
        """Stored entries of A."""
        self.dtype: np.dtype[Any] = problem.dtype
        """Value type of A, B and C."""
        self.op: str = problem.op
        """The operation: ``"spmm"`` or ``"spmv"``."""
        self.k: int = problem.k
        """Columns of B the plan was tuned for; it works for any number of them, or for one only if `op` is SpMV."""
        self.layout: str = problem.layout
        """Layout of B and C the plan works on: ``"row"`` or ``"column"``. Others are copied."""
        self.device = device
        """Where it runs."""
        self.updatable: bool = core.updatable
        """Whether `update_values` may be called."""
        self._candidate: _core.Candidate = core.candidate
        self._problem = (
            problem.op,
            problem.shape,
            problem.nnz,
            problem.dtype,
            problem.k,
            problem.layout,
            problem.cache,
        )

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
        """Memory the plan holds on its device, in bytes; without what host operands are copied to."""
        return self._core.nbytes

    @property
    def floor_bytes(self) -> int:
        """Minimum bytes that a product moves in this format: what the plan holds, B with `k` columns, and C."""
        return self.nbytes + sum(self.shape) * self.k * self.dtype.itemsize

    @property
    def reproducible(self) -> bool:
        """Whether every run gives bitwise the same result."""
        return self._candidate.kernel.reproducible

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
        return Explanation.of(self._core.explanation(), Product(*self._problem, self.device.name))

    def __matmul__(self, B: Any) -> Any:
        result = self._fast_path(B, None)
        return self._multiply(B, None) if result is NotImplemented else result

    def __call__(self, B: Any, out: Any = None) -> Any:
        """Multiply: C = A B.

        Parameters
        ----------
        B : array of shape (n, k) or (n,)
            NumPy array, torch or CuPy tensor, or any GPU array with DLPack, of the plan's dtype.
        out : array of shape (m, k) or (m,), optional
            Overwritten with the result; on the same device as `B`, in the plan's layout, apart from `B` in memory.

        Returns
        -------
        array of shape (m, k) or (m,)
            `out` if given, else a new array of the same kind as `B`, in the plan's layout. It carries no gradient.

        Raises
        ------
        ShapeError, DtypeError
            If `B` or `out` does not fit; `argument` names it.
        ParameterError
            If `out` is read-only or shares memory with `B`.
        DeviceError
            If `B` or `out` is on another device than the plan.
        """
        result = self._fast_path(B, out)
        return self._multiply(B, out) if result is NotImplemented else result

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
        data = np.asarray(data) if isinstance(data, (list, tuple)) else data
        shape = getattr(data, "shape", None)
        if shape is None or tuple(shape) != (self.nnz,):
            got = type(data).__name__ if shape is None else f"shape {tuple(shape)}"
            raise ShapeError(
                f"data must have shape ({self.nnz},), one value for each entry of A, got {got}", argument="data"
            )
        values = _device.operand(data.reshape(-1, 1), self.dtype, "column", "data")
        self._check_device(values, "data")
        if values.on_gpu:
            self._core.update_values_from_device(values.pointer, values.stream)
        else:
            self._core.update_values_from_host(_device.host_array(values.owner).reshape(-1))

    def _multiply(self, B: Any, out: Any) -> Any:
        """Multiply operands of every kind: what the fast path leaves, with all checks and copies."""
        B = _array(B)
        if getattr(B, "ndim", 2) == 1:
            return self._multiply_vector(B, out)
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
        self._check_device(b, "B")
        if out is None:
            result, pointer, leading = b.new(self.shape[0], b.columns, self.layout)
        else:
            result = out
            c = _device.operand(out, self.dtype, self.layout, "out")
            self._check_out(b, c, out)
            pointer, leading = c.pointer, c.leading_dimension
            if not b.on_gpu:
                self._core.run_host(_device.host_array(b.owner), _device.host_array(c.owner))
                return out
        if b.on_gpu:
            self._core.run_device(b.pointer, b.leading_dimension, pointer, leading, b.columns, b.stream)
            return _device.finish(result)
        self._core.run_host(_device.host_array(b.owner), _device.host_array(result))
        return result

    def _multiply_vector(self, x: Any, out: Any) -> Any:
        if x.shape[0] != self.shape[1]:
            raise ShapeError(
                f"B must have {self.shape[1]} entries, as A has columns, but its shape is {tuple(x.shape)}",
                argument="B",
            )
        if out is None:
            return self._multiply(x.reshape(-1, 1), None).reshape(-1)
        if tuple(getattr(out, "shape", ())) != (self.shape[0],):
            raise ShapeError(f"out must be an array of shape {(self.shape[0],)}", argument="out")
        self._multiply(x.reshape(-1, 1), out[:, None])
        return out

    def _check_device(self, b: _device.Operand, name: str) -> None:
        if not b.on_gpu:
            return
        if self.device.kind == "cpu":
            raise DeviceError(f"the plan was made for the CPU but {name} is in GPU memory", argument=name)
        if b.device != self.device.ordinal:
            raise DeviceError(
                f"the plan was made for GPU {self.device.ordinal} but {name} is on GPU {b.device}", argument=name
            )

    def _check_out(self, b: _device.Operand, c: _device.Operand, out: Any) -> None:
        expected = (self.shape[0], b.columns)
        if isinstance(out, (list, tuple)):
            raise DtypeError(f"out must be an array, got a {type(out).__name__}", argument="out")
        if (c.rows, c.columns) != expected:
            raise ShapeError(f"out must have shape {expected}, got {(c.rows, c.columns)}", argument="out")
        if c.on_gpu != b.on_gpu:
            raise DeviceError("out must be where B is", argument="out")
        self._check_device(c, "out")
        if c.copied:
            raise ShapeError(f"out must be a {self.layout}-major array", argument="out")
        if isinstance(c.owner, np.ndarray) and not c.owner.flags.writeable:
            raise ParameterError("out is read-only", argument="out")
        if _device.overlap(b, c, self.layout, self.dtype):
            raise ParameterError("out shares memory with B, which is still read while out is written", argument="out")

    def __repr__(self) -> str:
        operands = f"k={self.k}, {self.layout}-major, " if self.op == "spmm" else ""
        return (
            f"<Plan {self.candidate} for {self.shape[0]} x {self.shape[1]}, nnz={self.nnz}, {self.dtype}, "
            f"{operands}on {self.device}>"
        )


def plan(
    A: Any,
    op: str = "spmm",
    *,
    k: int | None = None,
    dtype: Any = None,
    layout: str = "row",
    device: str | None = None,
    select: str = "auto",
    calls: float = 1000,
    verify: bool = False,
    candidates: str | Sequence[str] | None = None,
    cache: str = "warm",
    progress: Progress | None = None,
    inputs: Mapping[str, Any] | None = None,
    updatable: bool = False,
) -> Plan:
    """Find the fastest way to multiply by a sparse matrix, and prepare it.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        `scipy.sparse` matrix or array (CSR, others are converted), torch sparse CSR tensor, CuPy sparse matrix, or
        three arrays of any library as `warploom.CSR`. The plan keeps copies of its own.
    op : {"spmm", "spmv"}
        The operation: ``"spmm"`` is C = A B with a dense B, ``"spmv"`` is y = A x with a vector x.
    k : int
        Columns of B to tune for, at least 1. The plan takes any number of them. Not needed for SpMV.
    dtype : {"float16", "float32", "float64"}, optional
        Value type of A, B and C; by default that of `A`, where integers count as float64. Products of float16 are
        summed in float32; SpMV only.
    layout : {"row", "column"}
        Layout of B and C: ``"row"`` is NumPy's and torch's default, ``"column"`` is Fortran order. An operand in the
        other one is copied. Ignored for SpMV.
    device : str, optional
        ``"cuda"``, ``"cuda:N"`` or ``"cpu"``; by default the GPU if there is one.
    select : {"auto", "predict", "measure"} or candidate name
        ``"predict"`` computes features of `A` and takes what a model trained on measurements predicts to be fastest;
        where it is unsure, the few candidates that may be the fastest are measured. ``"measure"`` prepares every
        candidate, times each on the device and keeps the fastest, which takes as long as some hundred to thousand
        products. ``"auto"`` predicts if there is a profile for the GPU (shipped, or from ``warploom calibrate``) and
        measures otherwise. The name of a candidate takes that one.
    calls : float
        How often the plan will be used: what choosing and preparing take is weighed against the time of so many
        products. `math.inf` is the fastest kernel at any price. Where all candidates are measured, preparation is
        weighed as measured.
    verify : bool
        Measure a predicted choice against the vendor's candidates, and take the fastest of those if the choice is
        slower.
    candidates : str or sequence of str, optional
        Shell-style patterns; only candidates whose name matches one of them are considered. The full name of a
        candidate is considered even if `warploom.candidates` does not list it. Has no effect where `select` is a name.
    cache : {"warm", "cold"}
        Whether candidates are timed with their operands in the L2 cache (on the CPU: the last-level cache), as in a
        tight loop, or evicted before each run.
    progress : callable, optional
        Called as ``progress(done, total, candidate)`` before each candidate.
    inputs : mapping of str to array_like of int, optional
        Arrays that a candidate named in `select` takes beside the matrix (`Kernel.inputs` lists them). For
        ``csr/blockwise`` this is ``block_threads_per_row``: threads for each row of every block of short rows, in the
        order of `warploom.partition.partition_rows` (Gao et al. 2024, Sec. 4.3); 1, 2, 4, 8, 16 or 32 each.
    updatable : bool
        Whether `Plan.update_values` may be called. That takes another preparation, and up to 4 bytes of memory for each
        place that the chosen format stores.

    Returns
    -------
    Plan

    Raises
    ------
    InvalidMatrixError, ShapeError, IndexOverflowError, DtypeError
        If `A` is malformed or of an unsupported type.
    ParameterError
        For an unknown name, a value out of range, patterns that match nothing, or a candidate that cannot run this
        problem; `argument` says which.
    DeviceError
        If there is no such device.
    OutOfMemoryError
        If the operands of the measurement do not fit into memory.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, warploom as wl
    >>> A = scipy.sparse.random_array((1000, 1000), density=0.01, format="csr", dtype=np.float32)
    >>> plan = wl.plan(A, k=32, device="cpu", candidates="spmm/none/*/row_split")
    >>> C = plan @ np.ones((1000, 32), np.float32)
    >>> C.shape
    (1000, 32)
    """
    target = _device.Device.parse(device)
    problem = problem_of(A, op, k, dtype, layout, cache, target)
    if not isinstance(select, str):
        raise ParameterError(
            f"select must be 'auto', 'predict', 'measure' or the name of a candidate, got {select!r}",
            argument="select",
        )
    if target.kind == "cuda":
        _device.load_cusparse()
    planner = _planner(*map(str, profiles.folders()))
    found = planner.plan(
        problem,
        select=select,
        calls=_calls(calls),
        verify=verify,
        patterns=checked_patterns(candidates, "candidates"),
        progress=progress,
        inputs={name: _integers(name, values) for name, values in (inputs or {}).items()},
        updatable=bool(updatable),
    )
    _warn(planner)
    return Plan(found, problem, target)


def predict(
    A: Any,
    op: str = "spmm",
    *,
    k: int | None = None,
    dtype: Any = None,
    layout: str = "row",
    calls: float = 1000,
    cache: str = "warm",
    candidates: str | Sequence[str] | None = None,
    gpu: str = "NVIDIA H200",
) -> Explanation:
    """Predict what would be chosen on a GPU that need not be present.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        As for `warploom.plan`.
    op, k, dtype, layout, cache, candidates
        As for `warploom.plan`.
    calls : float
        Products that will be computed with one preparation; with `math.inf`, preparation does not count.
    gpu : str
        Product name of a GPU with a profile.

    Returns
    -------
    Explanation
        The chosen candidate, predicted times of all, what they cost to prepare, and what decided.

    Raises
    ------
    ParameterError
        There is no profile of that GPU, or a parameter is out of range.
    InvalidMatrixError, ShapeError, DtypeError
        If `A` is malformed or of an unsupported type.

    Examples
    --------
    >>> import warploom as wl
    >>> explanation = wl.predict(wl.examples.load("gr_30_30"), op="spmv", dtype="float32")
    >>> explanation.chosen.startswith("spmv/")
    True
    """
    problem = problem_of(A, op, k, dtype, layout, cache, _device.Device("cpu"))
    planner = _planner(*map(str, profiles.folders()))
    patterns = checked_patterns(candidates, "candidates")
    found = planner.predict(problem, gpu, calls=_calls(calls), patterns=patterns)
    _warn(planner)
    return Explanation.of(found, _product(problem, gpu))


def spmm(A: Any, B: Any, *, candidate: str, device: str | None = None, dtype: Any = None, layout: str = "row") -> Any:
    """Multiply once with a candidate given by name.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
    B : array of shape (n, k) or (n,)
    candidate : str
        For example ``"spmm/lpt/csr/c_stationary"``; `warploom.candidates` lists them. A kernel that works on
        column-major operands only gets copies in that layout.
    device : str, optional
        ``"cuda"``, ``"cuda:N"`` or ``"cpu"``.
    dtype : {"float32", "float64"}, optional
    layout : {"row", "column"}
        Preferred layout of the operands, where the kernel works on both.

    Returns
    -------
    array of shape (m, k) or (m,)
        Of the same kind as `B`.

    Raises
    ------
    WarploomError
        As `plan` and the plan it returns do.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, warploom as wl
    >>> A = scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> wl.spmm(A, np.array([[1.0], [3.0]]), candidate="spmm/lpt/csr/row_split", device="cpu")
    array([[6.],
           [1.]])
    """
    chosen = parse(candidate)
    wanted = _choice("layout", layout, ("row", "column"))
    layouts = chosen.kernel.layouts
    B = _array(B)
    k = B.shape[1] if getattr(B, "ndim", 1) == 2 else 1
    layout = wanted if wanted in layouts else layouts[0]
    return _named(chosen, A, "spmm", max(k, 1), dtype, layout, device) @ B


def spmv(A: Any, x: Any, *, candidate: str, device: str | None = None, dtype: Any = None) -> Any:
    """Multiply a vector once with a candidate given by name.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
    x : array of shape (n,)
    candidate : str
        For example ``"spmv/none/csr/vector[threads_per_row=8]"``; `warploom.candidates` lists them.
    device : str, optional
        ``"cuda"``, ``"cuda:N"`` or ``"cpu"``.
    dtype : {"float16", "float32", "float64"}, optional

    Returns
    -------
    array of shape (m,)
        Of the same kind as `x`.

    Raises
    ------
    WarploomError
        As `plan` and the plan it returns do.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, warploom as wl
    >>> A = scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> wl.spmv(A, np.array([1.0, 3.0]), candidate="spmv/none/csr/vector", device="cpu")
    array([6., 1.])
    """
    return _named(parse(candidate), A, "spmv", 1, dtype, "column", device) @ _array(x)


def _named(chosen: _core.Candidate, A: Any, op: str, k: int, dtype: Any, layout: str, device: str | None) -> Plan:
    if chosen.kernel.op != op:
        raise ParameterError(f"{chosen.name} is not a candidate for {op}", argument="candidate")
    target = _device.Device.parse(device)
    problem = problem_of(A, op, k, dtype, layout, "warm", target)
    if target.kind == "cuda" and chosen.kernel.vendor:
        _device.load_cusparse()
    return Plan(_core.prepare(problem, chosen), problem, target)


def problem_of(A: Any, op: str, k: Any, dtype: Any, layout: str, cache: str, device: _device.Device) -> _core.Problem:
    """Check the description of a product."""
    if op == "spmv" and _columns(1 if k is None else k) != 1:
        raise ParameterError(f"k must be 1 for SpMV, got {k}; op='spmm' multiplies several columns", argument="k")
    _choice("op", op, ("spmm", "spmv"))
    _choice("layout", layout, ("row", "column"))
    _choice("cache", cache, ("warm", "cold"))
    columns = 1 if op == "spmv" else _columns(k)
    order = "column" if op == "spmv" else layout
    wanted = _value_type(dtype)
    allocate = _device.allocator_for(A.data if isinstance(A, CSR) else A, device)
    if device.kind == "cuda":
        tensors = csr_tensors(A)
        if tensors is not None:
            made = _core.Problem.of_tensors(
                *tensors.arrays, wanted, *tensors.shape, op, columns, order, cache, device.ordinal, allocate, A
            )
            if made is not None:
                return made
        found = device_arrays(A)
        # Above, the host numbers nonzeros with 64 bits.
        if found is not None and found.device == device.ordinal and found.num_indices < 2**31:
            values = found.values_as(wanted)
            if values is not None:
                return _core.Problem.on_gpu(
                    (found.indptr, found.shape[0] + 1, found.indptr_itemsize),
                    (found.indices, found.num_indices, found.indices_itemsize),
                    (values.data, values.size, values.itemsize),
                    values.dtype,
                    *found.shape,
                    op,
                    columns,
                    order,
                    cache,
                    device.ordinal,
                    found.stream,
                    allocate,
                    (found.owner, values.owner),
                )
    return _core.Problem(as_csr(A, dtype=wanted), op, columns, order, cache, device.number, allocate)


@functools.lru_cache(maxsize=8)
def _planner(*folders: str) -> _core.Planner:
    return _core.Planner(list(folders))


def _warn(planner: _core.Planner) -> None:
    for message in planner.take_warnings():
        warnings.warn(f"left out: {message}", RuntimeWarning, stacklevel=3)


def _product(problem: _core.Problem, device: str) -> Product:
    return Product(
        problem.op, problem.shape, problem.nnz, problem.dtype, problem.k, problem.layout, problem.cache, device
    )


def _calls(calls: float) -> float:
    if not (isinstance(calls, (int, float)) and calls > 0):
        raise ParameterError(f"calls must be a positive number, got {calls!r}", argument="calls")
    return float(calls)


def _array(values: Any) -> Any:
    """Turn nested lists into an array, and leave arrays of any kind alone."""
    try:
        return np.asarray(values) if isinstance(values, (list, tuple)) else values
    except ValueError as error:
        raise ShapeError(f"B is not an array: {error}", argument="B") from error


def _integers(name: str, values: Any) -> np.ndarray[Any, Any]:
    given = np.asarray(values)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ParameterError(f"{name} must be a sequence of integers, got {values!r}", argument=name)
    return given.astype(np.int32)


def _value_type(dtype: Any) -> np.dtype[Any] | None:
    if dtype is None:
        return None
    try:
        resolved = np.dtype(dtype)
    except TypeError:
        raise DtypeError(f"'{dtype}' is not a NumPy dtype", argument="dtype") from None
    for accepted in (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)):
        if resolved == accepted:
            return accepted
    raise DtypeError(f"dtype must be float16, float32 or float64, got {resolved}", argument="dtype")


def _columns(k: Any) -> int:
    if k is None:
        raise ParameterError("k, the number of columns of B, must be given", argument="k")
    try:
        columns = int(operator.index(k))
    except TypeError:
        raise ParameterError(f"k must be an integer, got {k!r}", argument="k") from None
    if not 1 <= columns < 2**31:
        raise ParameterError(f"k must be at least 1 and below 2**31, got {columns}", argument="k")
    return columns


def _choice(name: str, value: str, accepted: Sequence[str] | Mapping[str, Any]) -> str:
    if value not in accepted:
        raise ParameterError(f"{name} must be one of {', '.join(accepted)}, got {value!r}", argument=name)
    return value

"""The tools that are compared, and the problems that they are given."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import functools
import importlib
import itertools
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import warploom
from warploom import _core
from warploom._device import Device
from warploom.bench.end_to_end.clock import PythonTool, Times, Tool
from warploom.bench.end_to_end.rows import PLACES
from warploom.bench.settings import Setting
from warploom.errors import ParameterError

__all__ = ["CALLS", "DEFAULT", "VENDOR", "Problem", "chosen", "make", "missing", "names", "places"]

DEFAULT = "warploom"
"""`warploom.plan` as it is called without further arguments."""
CALLS = {f"warploom[calls={name}]": float(name) for name in ("100", "1000", "inf")}
"""`warploom.plan` with `calls`."""
VENDOR = "cusparse"
"""The vendor's library as a program in C calls it: the default algorithm without preprocessing."""

_ALGORITHMS = {"spmv": 3, "spmm": 4}
_OPTIONS = re.compile(r"cusparse(?:\[(?:algorithm=(?P<algorithm>\d))?,?(?P<preprocess>preprocess)?\])?")

# What is measured where, unless settings or tools are named: everything in GPU memory, elsewhere what differs there.
_SETTINGS = {
    "device": ("spmv/float32", "spmv/float64", "spmm/float32/row/k=32"),
    "device-int64": ("spmv/float32", "spmm/float32/row/k=32"),
    "host": ("spmv/float64", "spmm/float32/row/k=32"),
    "host-int64": ("spmv/float64", "spmm/float32/row/k=32"),
}
_TOOLS = {
    "device": ("*",),
    "device-int64": (DEFAULT, "warploom[[]calls=1000]", VENDOR, "cusparse[[]preprocess]", "torch"),
    "host": (
        DEFAULT,
        "warploom[[]calls=1000]",
        VENDOR,
        "cusparse[[]preprocess]",
        "cusparse[[]algorithm=2,preprocess]",
        "torch",
        "cupy",
    ),
}
_TOOLS["host-int64"] = tuple(tool for tool in _TOOLS["host"] if tool != "cupy")
_ON_CPU = ("spmv/float32", "spmv/float64", "spmm/float32/row/k=32")
_VALUES = {"float32": np.float32, "float64": np.float64}
_ROWS_CHECKED, _LONGEST_CHECKED = 64, 100_000


def places(device: Device) -> list[str]:
    """Where a matrix can be, on a device."""
    return list(PLACES) if device.kind == "cuda" else ["host"]


def names(op: str, place: str, device: Device) -> list[str]:
    """Name the tools for an operation."""
    own = [DEFAULT, *CALLS]
    if device.kind == "cpu":
        return [*own, "scipy"]
    vendor = [_vendor_name(*options) for options in itertools.product(range(_ALGORITHMS[op]), (False, True))]
    return [*own, *vendor, "torch", *(["cupy"] if not _is_wide(place) else [])]


def _is_wide(place: str) -> bool:
    """Whether row offsets and columns are int64, which CuPy's matrices do not have."""
    return place.endswith("-int64")


def _on_host(place: str) -> bool:
    return place.startswith("host")


def _index_type(place: str) -> Any:
    return _torch().int64 if _is_wide(place) else _torch().int32


def _vendor_name(algorithm: int, preprocess: bool) -> str:
    options = [f"algorithm={algorithm}"] * (algorithm > 0) + ["preprocess"] * preprocess
    return f"{VENDOR}[{','.join(options)}]" if options else VENDOR


def chosen(
    place: str, device: Device, settings: Sequence[str] | None = None, patterns: Sequence[str] | None = None
) -> list[tuple[Setting, str]]:
    """List what is measured of a matrix in a place: settings, and tools in each.

    Parameters
    ----------
    place : str
    device : Device
    settings : sequence of str, optional
        By default some for each place.
    patterns : sequence of str, optional
        Names of tools, where ``*`` and ``?`` stand for any characters; by default some for each place.

    Raises
    ------
    ParameterError
        A setting is none, or takes another value type than float32 and float64.
    """
    defaults = _SETTINGS[place] if device.kind == "cuda" else _ON_CPU
    parsed = [Setting.parse(name) for name in settings or defaults]
    for setting in parsed:
        if setting.dtype not in _VALUES or setting.k is None or (setting.op == "spmm" and setting.layout != "row"):
            raise ParameterError(
                f"end-to-end times are of float32 and float64, row-major, with a number of columns; got {setting.name}",
                argument="setting",
            )
    globs = _TOOLS[place] if patterns is None and device.kind == "cuda" else _escaped(patterns or ["*"])
    return [
        (setting, tool)
        for setting in parsed
        for tool in names(setting.op, place, device)
        if any(fnmatch.fnmatchcase(tool, glob) for glob in globs)
    ]


def _escaped(patterns: Sequence[str]) -> list[str]:
    """Brackets of names mean themselves."""
    return [pattern.replace("[", "[[]") for pattern in patterns]


def missing(tool: str) -> str:
    """Return the package that a tool needs and that cannot be imported, or an empty string."""
    if tool not in ("torch", "cupy"):
        return ""
    try:
        importlib.import_module(tool)
    except ImportError:
        return tool
    return ""


@dataclasses.dataclass
class Problem:
    """A matrix somewhere, and B and C where products run."""

    setting: Setting
    place: str
    device: Device
    matrix: scipy.sparse.csr_array
    """In host memory, with the values of the setting."""
    A: Any
    """The matrix as it is given to tools."""
    B: Any
    C: Any

    @classmethod
    def of(cls, A: scipy.sparse.csr_array, setting: Setting, place: str, device: Device) -> Problem:
        """Put a matrix where it is to be, and make operands.

        Raises
        ------
        ParameterError
            GPU memory is asked for, and PyTorch is not installed.
        """
        values = _VALUES[setting.dtype]
        matrix = scipy.sparse.csr_array(
            (A.data.astype(values, copy=False), *(part.astype(np.int32, copy=False) for part in (A.indices, A.indptr))),
            shape=A.shape,
        )
        columns = () if setting.op == "spmv" else (setting.k,)
        shapes = [(size, *columns) for size in reversed(A.shape)]
        if device.kind == "cpu":
            rng = np.random.default_rng(1)
            B = rng.standard_normal(shapes[0]).astype(values)
            return cls(setting, place, device, matrix, matrix, B, np.empty(shapes[1], values))
        torch = _torch()
        where = str(device)
        kind = getattr(torch, setting.dtype)
        generator = torch.Generator(where).manual_seed(1)
        B = torch.randn(shapes[0], dtype=kind, device=where, generator=generator)
        C = torch.empty(shapes[1], dtype=kind, device=where)
        given: Any = matrix
        if not _on_host(place):
            given = _tensor(matrix, _index_type(place), where)
        elif _is_wide(place):
            given = _widened(matrix)
        torch.cuda.synchronize(where)
        return cls(setting, place, device, matrix, given, B, C)

    def csr_bytes(self) -> int:
        """Memory of the matrix as it is given."""
        index = 8 if _is_wide(self.place) else 4
        rows, nnz = self.matrix.shape[0], self.matrix.nnz
        return int(nnz * (self.matrix.data.itemsize + index) + (rows + 1) * index)

    def clear(self) -> None:
        """Overwrite C, so that a product that writes nothing is found out."""
        if isinstance(self.C, np.ndarray):
            self.C.fill(np.nan)
        else:
            self.C.fill_(math.nan)

    def wrong(self, product: Any) -> str:
        """Compare some rows of a product with sums in float64; return what is wrong, or an empty string."""
        A = self.matrix
        lengths = np.diff(A.indptr)
        rng = np.random.default_rng(2)
        rows = np.unique([*rng.integers(0, A.shape[0], _ROWS_CHECKED), int(lengths.argmax()), A.shape[0] - 1])
        rows = rows[lengths[rows] <= _LONGEST_CHECKED]
        found = _take(product, rows)
        spans = [np.arange(A.indptr[row], A.indptr[row + 1]) for row in rows]
        places = np.concatenate([np.empty(0, np.int64), *spans])
        starts = np.concatenate([[0], np.cumsum(lengths[rows])])
        picked = scipy.sparse.csr_array(
            (A.data[places].astype(np.float64), np.arange(places.size), starts), shape=(rows.size, places.size)
        )
        operand = _take(self.B, A.indices[places])
        expected, scale = picked @ operand, abs(picked) @ np.abs(operand)
        tolerance = np.finfo(A.dtype).eps * (8 + lengths[rows]).reshape(-1, *[1] * (expected.ndim - 1)) * scale
        bad = np.flatnonzero(~(np.abs(found - expected) <= tolerance).reshape(rows.size, -1).all(axis=1))
        return f"{bad.size} of {rows.size} rows are wrong, row {rows[bad[0]]} among them" if bad.size else ""


def make(name: str, problem: Problem) -> tuple[Tool, Callable[[], Any]]:
    """Make a tool for a problem.

    Parameters
    ----------
    name : str
        One of `names`.
    problem : Problem

    Returns
    -------
    Tool, callable
        The tool, and what returns its last product.
    """
    if name == DEFAULT or name in CALLS:
        return _python(_warploom(problem, CALLS.get(name)), problem, _describe_plan)
    if name == "torch":
        return _python(_torch_product(problem), problem)
    if name == "cupy":
        return _python(_cupy_product(problem), problem)
    if name == "scipy":
        return _python(lambda: functools.partial(problem.matrix.__matmul__, problem.B), problem)
    vendor = _Vendor(name, problem)
    return vendor, lambda: problem.C


def _python(
    prepare: Callable[[], Callable[[], object]],
    problem: Problem,
    describe: Callable[[Any], dict[str, Any]] = lambda _: {},
) -> tuple[Tool, Callable[[], Any]]:
    tool = PythonTool(prepare, _synchronize(problem.device), describe)
    return tool, lambda: tool.result


def _synchronize(device: Device) -> Callable[[], object]:
    if device.kind == "cpu":
        return lambda: None
    # That of PyTorch takes longer in Python than there is to wait for after a plan.
    return functools.partial(_core.synchronize, device.ordinal)


def _warploom(problem: Problem, calls: float | None) -> Callable[[], Callable[[], object]]:
    setting = problem.setting
    options: dict[str, Any] = {"op": setting.op, "device": str(problem.device)}
    if setting.op == "spmm":
        options["k"] = setting.k
    if calls is not None:
        options["calls"] = calls

    def prepare() -> Callable[[], object]:
        return functools.partial(warploom.plan(problem.A, **options), problem.B, out=problem.C)

    return prepare


def _describe_plan(multiply: functools.partial[Any]) -> dict[str, Any]:
    plan: warploom.Plan = multiply.func  # type: ignore[assignment]
    phases = {name: float(f"{milliseconds:.4g}") for name, milliseconds in plan.preparation_ms.items()}
    return {"candidate": plan.candidate, "plan_bytes": plan.nbytes, "phases": json.dumps(phases)}


def _torch_product(problem: Problem) -> Callable[[], Callable[[], object]]:
    torch = _torch()
    multiply = torch.mv if problem.setting.op == "spmv" else torch.mm
    options = {"out": problem.C} if _takes_out(problem.setting.op, str(problem.device)) else {}

    def prepare() -> Callable[[], object]:
        A = problem.A
        if _on_host(problem.place):
            A = _tensor(A, _index_type(problem.place), str(problem.device))
        return functools.partial(multiply, A, problem.B, **options)

    return prepare


@functools.cache
def _takes_out(op: str, device: str) -> bool:
    """Whether torch writes products of sparse tensors to a given one."""
    torch = _torch()
    A = _tensor(scipy.sparse.csr_array(np.ones((2, 2), np.float32)), torch.int32, device)
    B = torch.ones((2,) if op == "spmv" else (2, 2), device=device)
    try:
        (torch.mv if op == "spmv" else torch.mm)(A, B, out=torch.empty_like(B))
    except (RuntimeError, NotImplementedError):
        return False
    return True


def _cupy_product(problem: Problem) -> Callable[[], Callable[[], object]]:
    cupy = importlib.import_module("cupy")
    csr_matrix = importlib.import_module("cupyx.scipy.sparse").csr_matrix
    A, ordinal = problem.A, problem.device.ordinal
    with cupy.cuda.Device(ordinal):
        B = cupy.asarray(problem.B)

    def prepare() -> Callable[[], object]:
        with cupy.cuda.Device(ordinal):
            if _on_host(problem.place):
                made = csr_matrix(A)
            else:
                arrays = (A.values(), A.col_indices(), A.crow_indices())
                made = csr_matrix(tuple(map(cupy.asarray, arrays)), shape=tuple(A.shape))
        return functools.partial(made.__matmul__, B)

    return prepare


class _Vendor:
    """cuSPARSE through its C interface, with nothing of Python or warploom in what is timed."""

    def __init__(self, name: str, problem: Problem) -> None:
        match = _OPTIONS.fullmatch(name)
        if match is None:
            raise ParameterError(f"there is no tool '{name}'", argument="tool")
        on_host = _on_host(problem.place)
        A = problem.A
        self._arrays = (A.indptr, A.indices, A.data) if on_host else (A.crow_indices(), A.col_indices(), A.values())
        addresses = tuple(array.ctypes.data if on_host else array.data_ptr() for array in self._arrays)
        self._device = problem.device.ordinal
        self._operands = (problem.B, problem.C)
        self._bytes = 0
        matrix = problem.matrix
        self._problem = _core.VendorProblem(
            problem.setting.op,
            shape=matrix.shape,
            nnz=matrix.nnz,
            arrays=addresses,
            dtype=matrix.dtype,
            index_bytes=8 if _is_wide(problem.place) else 4,
            on_host=on_host,
            k=problem.setting.k or 1,
            algorithm=int(match["algorithm"] or 0),
            preprocess=match["preprocess"] is not None,
        )

    def time(self, products: int) -> Times:
        """Plan and wait, multiply once and wait, multiply so often and wait."""
        B, C = (operand.data_ptr() for operand in self._operands)
        *times, self._bytes = self._problem.time(self._device, B, C, products)
        return Times(*times)

    def time_until(self, products: int) -> float:
        """Plan, multiply so often, and wait at the end only; microseconds."""
        B, C = (operand.data_ptr() for operand in self._operands)
        return self._problem.time_until(self._device, B, C, products)

    def facts(self) -> dict[str, Any]:
        """Bytes of the buffer."""
        return {"plan_bytes": self._bytes}


@functools.cache
def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise ParameterError(
            "end-to-end times on a GPU need PyTorch, whose tensors hold the operands", argument="device"
        ) from error


def _tensor(A: scipy.sparse.csr_array, index: Any, device: str) -> Any:
    """Make a CSR tensor of PyTorch as its users do."""
    torch = _torch()
    with _quietly():
        return torch.sparse_csr_tensor(
            torch.from_numpy(A.indptr).to(device, index),
            torch.from_numpy(A.indices).to(device, index),
            torch.from_numpy(A.data).to(device),
            size=A.shape,
        )


def _widened(A: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Copy a matrix with row offsets and columns of int64, which SciPy makes narrow where it can."""
    wide = scipy.sparse.csr_array((A.data, A.indices, A.indptr), shape=A.shape)
    wide.indices, wide.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    return wide


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without torch's warning that its CSR tensors are in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _take(array: Any, rows: NDArray[Any]) -> NDArray[np.float64]:
    """Take rows of an array wherever it is, in float64."""
    if isinstance(array, np.ndarray):
        taken = array[rows]
    elif hasattr(array, "cpu"):
        taken = array[_torch().from_numpy(rows.astype(np.int64)).to(array.device)].cpu().numpy()
    else:
        taken = array[importlib.import_module("cupy").asarray(rows)].get()
    return np.asarray(taken, np.float64)

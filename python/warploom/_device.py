"""Devices, and the dense operands that live on them.

A dense operand comes as a NumPy array, a torch tensor, a CuPy array, or any other array with DLPack, such as those of
JAX; the result goes back as the same kind, without a copy when it already is where the plan runs.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from warploom import _bfloat16, _core
from warploom.errors import DeviceError, DtypeError, ParameterError, ShapeError

__all__ = [
    "Device",
    "HostArray",
    "Operand",
    "allocator_for",
    "as_array",
    "cublas_version",
    "cusparse_version",
    "finish",
    "host_array",
    "is_complex",
    "is_dlpack_cuda",
    "is_foreign",
    "join",
    "load_cublas",
    "load_cusparse",
    "load_libraries",
    "load_library_of",
    "operand",
    "overlap",
    "refuse_gradient",
]


@dataclasses.dataclass(frozen=True)
class Device:
    """Where a plan runs."""

    kind: str
    """``"cuda"`` or ``"cpu"``."""
    ordinal: int = 0
    """Number of the GPU."""

    @classmethod
    def parse(cls, name: str | None) -> Device:
        """Read ``"cuda"``, ``"cuda:1"`` or ``"cpu"``; None means a GPU if there is one, else the CPU.

        Raises
        ------
        ParameterError
            For any other name.
        DeviceError
            If there is no such GPU, with the reason.
        """
        if name is None:
            return cls("cuda") if _core.num_gpus() else cls("cpu")
        match = re.fullmatch(r"cpu|cuda(?::(?P<ordinal>[0-9]+))?", str(name))
        if match is None:
            raise ParameterError(f"unknown device '{name}'; expected 'cuda', 'cuda:N' or 'cpu'", argument="device")
        if match[0] == "cpu":
            return cls("cpu")
        number = int(match["ordinal"] or 0)
        if number >= _core.num_gpus():
            info = _core.cuda_info()
            reason = info["error"] or f"{len(info['devices'])} GPU(s) found"
            raise DeviceError(f"there is no GPU {number}: {reason}", argument="device")
        return cls("cuda", number)

    @property
    def number(self) -> int:
        """Number of the GPU, or -1 for the CPU, as the core counts devices."""
        return -1 if self.kind == "cpu" else self.ordinal

    @property
    def name(self) -> str:
        """Product name of the GPU, or ``"CPU"`` with the number of threads."""
        if self.kind == "cpu":
            return f"CPU ({_core.num_threads()} threads)"
        return _gpu_name(self.ordinal, _core.cuda_info)

    def __str__(self) -> str:
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.ordinal}"


@functools.lru_cache(maxsize=64)
def _gpu_name(ordinal: int, cuda_info: Callable[[], dict[str, Any]]) -> str:
    """Return the product name of a GPU, which does not change: a description of all of them is slow to make."""
    return str(cuda_info()["devices"][ordinal]["name"])


def _captures() -> bool:
    """Whether a CUDA graph is captured by the current stream of PyTorch or CuPy in this thread."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    try:
        if torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            return True
        return cupy is not None and bool(cupy.cuda.get_current_stream().is_capturing())
    except RuntimeError:  # the default stream does not say while another one, which it would wait for, is captured
        return True


_core.ask_for_captures(_captures)


@functools.cache
def load_cusparse() -> str | None:
    """Open cuSPARSE if it can be found; return why not, or None."""
    return _load("cusparse", _core.load_cusparse)


@functools.cache
def load_cublas() -> str | None:
    """Open cuBLAS if it can be found; return why not, or None."""
    return _load("cublasLt", _core.load_cublas)


def _load(library: str, load: Callable[[str], None]) -> str | None:
    if not _core.cuda_info()["devices"]:
        return "no GPU"
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        path = load_nvidia_dynamic_lib(library).abs_path
    except Exception as error:  # not installed, or one of pathfinder's own errors: the system's loader may find it
        path = None
        reason = str(error)
    # The versions of the toolkit that warploom works with, the newest first.
    for candidate in filter(None, (path, *(f"lib{library}.so{version}" for version in (".13", ".12", "")))):
        try:
            load(candidate)
        except DeviceError as error:
            reason = str(error)
        else:
            return None
    return reason


def load_libraries(problem: _core.Problem) -> None:
    """Open the vendor's libraries that products of a matrix can use.

    Opening that of dense products takes a while, and it is of use only to SpMM with a matrix that may be stored as a
    dense one.
    """
    load_cusparse()
    if problem.op == "spmm":
        rows, cols = problem.shape
        if rows * cols <= 64 * problem.nnz + 4096:
            load_cublas()


def load_library_of(kernel: _core.Kernel) -> None:
    """Open the vendor's library that a kernel calls, if it calls one."""
    if kernel.source == "cuSPARSE":
        load_cusparse()
    elif kernel.source == "cuBLAS":
        load_cublas()


def cusparse_version() -> str | None:
    """Version of the cuSPARSE in use, or None if there is none."""
    load_cusparse()
    return _core.cusparse_version() or None


def cublas_version() -> str | None:
    """Version of the cuBLAS in use, or None if there is none."""
    load_cublas()
    return _core.cublas_version() or None


def as_array(B: Any, dtype: np.dtype[Any] | None) -> Any:
    """Make an array of what is not one, and convert one that SciPy would promote to `dtype`.

    Lists take any type, as Python's numbers do. Arrays in host memory of other libraries, which take results by DLPack,
    are viewed as `HostArray`. Arrays of kinds that no product takes are returned as they are.

    Raises
    ------
    ShapeError
        A list is ragged.
    ParameterError
        An array holds no values, as where JAX traces a function.
    """
    if isinstance(B, (list, tuple)):
        try:
            B = np.asarray(B)
        except ValueError as error:
            raise ShapeError(f"B is not an array: {error}", argument="B") from error
        return _bfloat16.cast(B, dtype) if dtype is not None and B.dtype.kind in "biuf" else B
    framework = _package_of(B)
    if framework is None and not isinstance(B, (np.ndarray, HostArray)):
        if _root(B) == "pandas":
            B = np.asarray(B)
        elif dtype is not None and is_foreign(B):
            B = _host_view(B)
    kind = getattr(B, "dtype", None)
    if dtype is None or kind is None or kind == dtype or scipy.sparse.issparse(B):
        return B
    if framework == "torch" and kind == _torch_dtype(dtype):
        return B
    if not _is_promoted(str(kind).removeprefix("torch.") if framework == "torch" else kind, dtype):
        return B
    if isinstance(B, HostArray):
        return dataclasses.replace(B, array=B.array.astype(dtype))
    if framework == "torch":
        return B.to(_torch_dtype(dtype)) if B.layout is sys.modules["torch"].strided else B
    if isinstance(B, np.ndarray):
        return _bfloat16.cast(B, dtype)
    return B.astype(dtype) if hasattr(B, "astype") else B


@functools.cache
def _torch_dtype(dtype: np.dtype[Any]) -> Any:
    return getattr(sys.modules["torch"], _bfloat16.name_of(dtype))


def _is_promoted(kind: Any, dtype: np.dtype[Any]) -> bool:
    if _bfloat16.is_bfloat16(kind):
        return dtype.itemsize >= 4
    try:
        given = np.dtype(kind)
    except TypeError:
        return False
    if _bfloat16.is_bfloat16(dtype):
        return given.kind in "biu" and given.itemsize == 1
    return given.kind in "biuf" and np.result_type(given, dtype) == dtype


def wider_type(B: Any, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the type of SciPy's product of values of `dtype` and an array of NumPy or CuPy, if it is a wider one.

    Of complex numbers it is that of their parts. Other libraries refuse types that differ, or promote otherwise.
    """
    if not (isinstance(B, np.ndarray) or _package_of(B) == "cupy"):
        return None
    given = B.dtype
    if given == dtype or given.kind not in "biufc":
        return None
    if given.kind == "c":
        given = np.finfo(given).dtype
    if _bfloat16.is_bfloat16(dtype):
        found = np.result_type(given, np.float32 if given == np.float16 else np.float16)
    else:
        found = np.result_type(given, dtype)
    return found if found != dtype and found in (np.float32, np.float64) else None


@dataclasses.dataclass(frozen=True)
class HostArray:
    """An array in host memory of a library that takes results by DLPack, seen as one of NumPy."""

    array: np.ndarray[Any, Any]
    give_back: Callable[[Any], Any]

    @property
    def shape(self) -> Any:
        """As of an array."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """As of an array."""
        return self.array.ndim

    @property
    def dtype(self) -> Any:
        """As of an array."""
        return self.array.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """As of an array."""
        return self.array.strides

    @property
    def T(self) -> HostArray:
        """As of an array."""
        return HostArray(self.array.T, self.give_back)

    def reshape(self, *shape: int) -> HostArray:
        """As of an array."""
        return HostArray(self.array.reshape(*shape), self.give_back)


def is_foreign(B: Any) -> bool:
    """Whether this is an array in host memory of a library, other than NumPy and PyTorch, that takes results back."""
    if isinstance(B, np.ndarray) or not hasattr(B, "__dlpack__") or _package_of(B) is not None:
        return False
    return _giver_back(B) is not None and not is_dlpack_cuda(B)


def _host_view(B: Any) -> HostArray:
    try:
        array = np.asarray(B)
    except Exception as error:  # JAX has errors of its own
        raise ParameterError(
            f"B, of type {type(B).__name__}, stands for values that are not there, as where JAX traces or "
            "differentiates a function: multiply outside of it, or by jax.pure_callback",
            argument="B",
        ) from error
    give_back = _giver_back(B)
    assert give_back is not None
    return HostArray(array, give_back)


def is_complex(B: Any) -> bool:
    """Whether an array of NumPy, PyTorch or CuPy holds complex numbers."""
    if not (isinstance(B, np.ndarray) or _package_of(B)) or scipy.sparse.issparse(B):
        return False
    return _bfloat16.name_of(B.dtype) in ("complex64", "complex128")


def join(real: Any, imaginary: Any) -> Any:
    """Make complex numbers of their parts."""
    if _package_of(real) == "torch":
        return sys.modules["torch"].complex(real, imaginary)
    joined = real.astype(np.complex64 if real.dtype == np.float32 else np.complex128)
    joined.imag = imaginary
    return joined


@dataclasses.dataclass
class Operand:
    """A dense matrix as a plan sees it, with what is needed to return a result of the same kind."""

    pointer: int
    rows: int
    columns: int
    leading_dimension: int
    device: int | None
    """Number of the GPU it is on; None for the host."""
    stream: int
    """The caller's current stream."""
    owner: Any
    """Keeps the memory alive."""
    copied: bool
    """Whether the strides did not fit and a copy was made."""
    new: Callable[[int, int, str], tuple[Any, int, int]]
    """Makes an uninitialised result (rows, columns, layout) -> (array, pointer, leading dimension)."""

    @property
    def on_gpu(self) -> bool:
        """Whether it is in GPU memory."""
        return self.device is not None

    def addresses(self, layout: str, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return an array at these addresses, to compare them: its values may be on a GPU and are not to be read."""
        steps = (self.leading_dimension, 1) if layout == "row" else (1, self.leading_dimension)
        interface = {
            "version": 3,
            "typestr": dtype.str,
            "shape": (self.rows, self.columns),
            "strides": tuple(step * dtype.itemsize for step in steps),
            "data": (self.pointer, True),
        }
        return np.asarray(types.SimpleNamespace(__array_interface__=interface))


def overlap(b: Operand, c: Operand, layout: str, dtype: np.dtype[Any]) -> bool:
    """Whether two operands on the same device share an element."""
    return bool(np.shares_memory(b.addresses(layout, dtype), c.addresses(layout, dtype)))


def share(a: Operand, layout_of_a: str, c: Operand, layout_of_c: str, dtype: np.dtype[Any]) -> bool:
    """Whether two operands in layouts of their own, on the same device, share an element."""
    return bool(np.shares_memory(a.addresses(layout_of_a, dtype), c.addresses(layout_of_c, dtype)))


def new_scalar(b: Operand, dtype: np.dtype[Any]) -> tuple[Any, int]:
    """Make an array without dimensions where an operand is and of its kind, and return its address, too."""
    owner = b.owner[0] if isinstance(b.owner, tuple) else b.owner
    package = _package_of(owner)
    made: Any
    if package == "torch":
        made = sys.modules["torch"].empty((), dtype=_torch_dtype(dtype), device=owner.device)
        pointer = made.data_ptr()
    elif package == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(b.device):
            made = cupy.empty((), dtype)
        pointer = made.data.ptr
    else:
        made = np.empty((), dtype)
        pointer = made.ctypes.data
    like = b.new(0, 0, "row")[0]
    return (_Foreign(made, like.from_dlpack) if isinstance(like, _Foreign) else made), pointer


def operand(B: Any, dtype: np.dtype[Any], layout: str, name: str = "B") -> Operand:
    """View a two-dimensional dense array in the wanted layout; copies only if its strides do not fit.

    Raises
    ------
    DtypeError
        If the values are not of type `dtype`, or `B` is not a dense array.
    ShapeError
        If it is not two-dimensional.
    DeviceError
        If it is on a device that warploom does not know, or cannot be exchanged with its library.
    ParameterError
        If it is a tensor that requires a gradient while PyTorch records them, has a tangent, or holds no values.
    """
    if isinstance(B, HostArray):
        return _host_operand(B, dtype, layout, name)
    package = _package_of(B)
    if package == "torch":
        return _torch_operand(B, dtype, layout, name)
    if package == "cupy":
        return _cupy_operand(B, dtype, layout, name)
    if not isinstance(B, np.ndarray) and (is_dlpack_cuda(B) or hasattr(B, "__cuda_array_interface__")):
        return _foreign_operand(B, dtype, layout, name)
    return _numpy_operand(B, dtype, layout, name)


def _package_of(B: Any) -> str | None:
    """Name the framework that the array, or a class it derives from, comes from. Imports nothing."""
    for cls in type(B).__mro__:
        package = cls.__module__.partition(".")[0]
        if package in ("torch", "cupy"):
            return package
    return None


def _check(shape: tuple[int, ...], actual: Any, dtype: np.dtype[Any], name: str) -> None:
    if len(shape) != 2:
        raise ShapeError(f"{name} must have two dimensions, got shape {tuple(shape)}", argument=name)
    if actual != dtype:
        given = _bfloat16.name_of(actual) if isinstance(actual, np.dtype) else str(actual)
        supported = ("float16", "bfloat16", "float32", "float64")
        hint = f", or make the plan with dtype={given}" if given in supported else ""
        raise DtypeError(
            f"{name} is {given} but the plan works on {_bfloat16.name_of(dtype)}; convert it{hint}", argument=name
        )


def _fits(shape: tuple[int, ...], strides: tuple[int, ...], layout: str) -> int:
    """Return the leading dimension if the strides (in elements) are those of the layout, else 0."""
    major, minor = (0, 1) if layout == "row" else (1, 0)
    extent = max(shape[minor], 1)
    if shape[0] * shape[1] == 0:
        return extent
    if shape[minor] > 1 and strides[minor] != 1:
        return 0
    if shape[major] == 1:
        return extent
    return strides[major] if strides[major] >= extent else 0


def _numpy_operand(B: Any, dtype: np.dtype[Any], layout: str, name: str) -> Operand:
    if scipy.sparse.issparse(B):
        raise DtypeError(f"{name} must be dense; convert it with {name}.toarray()", argument=name)
    try:
        array = np.asarray(B)
    except ValueError as error:
        raise ShapeError(f"{name} is not an array: {error}", argument=name) from error
    _check(array.shape, array.dtype, dtype, name)
    size = array.dtype.itemsize
    aligned = array.flags.aligned and all(s % size == 0 for s in array.strides)
    leading = _fits(array.shape, tuple(s // size for s in array.strides), layout) if aligned else 0
    copied = not leading
    if copied:
        array = np.array(array, order="C" if layout == "row" else "F")
        leading = max(array.shape[1] if layout == "row" else array.shape[0], 1)

    def new(rows: int, columns: int, order: str) -> tuple[Any, int, int]:
        result = np.empty((rows, columns), dtype, order="C" if order == "row" else "F")
        return result, result.ctypes.data, max(columns if order == "row" else rows, 1)

    return Operand(array.ctypes.data, array.shape[0], array.shape[1], leading, None, 0, array, copied, new)


def _host_operand(B: HostArray, dtype: np.dtype[Any], layout: str, name: str) -> Operand:
    seen = _numpy_operand(B.array, dtype, layout, name)
    inner = seen.new

    def new(rows: int, columns: int, order: str) -> tuple[Any, int, int]:
        result, pointer, leading = inner(rows, columns, order)
        return _Foreign(result, B.give_back), pointer, leading

    return dataclasses.replace(seen, new=new)


def _torch_operand(B: Any, dtype: np.dtype[Any], layout: str, name: str) -> Operand:
    torch = sys.modules["torch"]
    if B.layout is not torch.strided:
        raise DtypeError(f"{name} must be dense, got a tensor of layout {B.layout}", argument=name)
    if B.device.type not in ("cpu", "cuda"):
        raise DeviceError(f"{name} is on device '{B.device}', which is neither the CPU nor a CUDA GPU", argument=name)
    kinds = {
        torch.float16: np.dtype(np.float16),
        torch.bfloat16: _bfloat16.DTYPE,
        torch.float32: np.dtype(np.float32),
        torch.float64: np.dtype(np.float64),
    }
    _check(tuple(B.shape), kinds.get(B.dtype, str(B.dtype)), dtype, name)
    refuse_gradient(B, name)
    given = B
    B = B.detach().resolve_neg()  # the imaginary part of a conjugate is stored with the other sign
    leading = _fits(tuple(B.shape), B.stride(), layout)
    copied = not leading or given.is_neg()
    if not leading:
        B = B.contiguous() if layout == "row" else B.t().contiguous().t()
        leading = max(B.shape[1] if layout == "row" else B.shape[0], 1)
    device, kind = B.device, B.dtype
    try:
        pointer = B.data_ptr()
    except RuntimeError as error:
        raise ParameterError(
            f"{name} stands for values that are not there, as where torch traces or maps a function ({error}); "
            "warploom.torch.spmm can be traced",
            argument=name,
        ) from None

    def new(rows: int, columns: int, order: str) -> tuple[Any, int, int]:
        if order == "row":
            result = torch.empty((rows, columns), dtype=kind, device=device)
            return result, result.data_ptr(), max(columns, 1)
        result = torch.empty((columns, rows), dtype=kind, device=device).t()
        return result, result.data_ptr(), max(rows, 1)

    on_gpu = device.type == "cuda"
    stream = torch.cuda.current_stream(device).cuda_stream if on_gpu else 0
    ordinal = device.index if on_gpu else None
    return Operand(pointer, B.shape[0], B.shape[1], leading, ordinal, stream, B, copied, new)


def refuse_gradient(B: Any, name: str) -> None:
    """Raise an error if the derivatives of a tensor would be lost.

    Raises
    ------
    ParameterError
        It requires a gradient while PyTorch records them, or has a tangent.
    """
    torch = sys.modules["torch"]
    if B.requires_grad and torch.is_grad_enabled():
        raise ParameterError(
            f"{name} requires a gradient, and the product has none: multiply with warploom.torch.spmm, pass "
            f"{name}.detach(), or multiply under torch.no_grad()",
            argument=name,
        )
    if _has_tangent(torch, B):
        raise ParameterError(
            f"{name} has a tangent of forward-mode differentiation, and the product has none: pass {name}.detach()",
            argument=name,
        )


def _has_tangent(torch: Any, B: Any) -> bool:
    forward_ad = torch.autograd.forward_ad
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(B).tangent is not None


def _cupy_operand(B: Any, dtype: np.dtype[Any], layout: str, name: str) -> Operand:
    cupy = sys.modules["cupy"]
    _check(B.shape, B.dtype, dtype, name)
    leading = _fits(B.shape, tuple(s // B.dtype.itemsize for s in B.strides), layout)
    copied = not leading
    number = int(B.device.id)
    with cupy.cuda.Device(number):  # which need not be the current one
        if copied:
            B = cupy.array(B, order="C" if layout == "row" else "F")
            leading = max(B.shape[1] if layout == "row" else B.shape[0], 1)
        stream = cupy.cuda.get_current_stream().ptr

    def new(rows: int, columns: int, order: str) -> tuple[Any, int, int]:
        with cupy.cuda.Device(number):
            result = cupy.empty((rows, columns), dtype, order="C" if order == "row" else "F")
        return result, result.data.ptr, max(columns if order == "row" else rows, 1)

    return Operand(B.data.ptr, B.shape[0], B.shape[1], leading, number, stream, B, copied, new)


def is_dlpack_cuda(B: Any) -> bool:
    """Whether this is an array on a GPU, by DLPack."""
    cuda = 2  # kDLCUDA
    return hasattr(B, "__dlpack_device__") and int(B.__dlpack_device__()[0]) == cuda


_MODULES = {"jaxlib": "jax"}
"""Where a library keeps ``from_dlpack``, if not in the package of its array type."""


def _foreign_operand(B: Any, dtype: np.dtype[Any], layout: str, name: str) -> Operand:
    """Any other GPU array: viewed through CuPy or torch, returned through the library's own ``from_dlpack``."""
    kind = f"{type(B).__module__}.{type(B).__qualname__}"
    bridge = _bridge()
    if bridge is None:
        raise DeviceError(f"a GPU array of type {kind} needs CuPy or torch to be exchanged", argument=name)
    give_back = _giver_back(B)
    if give_back is None or not hasattr(B, "__dlpack__"):
        raise DeviceError(
            f"GPU arrays of type {kind} cannot be exchanged by DLPack; view {name} as a CuPy array or torch tensor",
            argument=name,
        )
    seen = operand(bridge.from_dlpack(B), dtype, layout, name)
    inner = seen.new

    def new(rows: int, columns: int, order: str) -> tuple[Any, int, int]:
        result, pointer, leading = inner(rows, columns, order)
        return _Foreign(result, give_back), pointer, leading

    return dataclasses.replace(seen, new=new, owner=(seen.owner, B))


def _root(B: Any) -> str:
    return type(B).__module__.partition(".")[0]


def _giver_back(B: Any) -> Callable[[Any], Any] | None:
    """Return what makes arrays of the library of this one, or None if it has no such function."""
    package = _root(B)
    library = sys.modules.get(_MODULES.get(package, package))
    found = getattr(library, "from_dlpack", None) or getattr(getattr(library, "dlpack", None), "from_dlpack", None)
    return found


def _bridge() -> Any:
    for package in ("cupy", "torch"):
        try:
            return importlib.import_module(package)
        except ImportError:
            continue
    return None


@dataclasses.dataclass
class _Foreign:
    """A result to be returned to the library that the operand came from."""

    array: Any
    from_dlpack: Callable[[Any], Any]


def host_array(array: Any) -> Any:
    """View a host array or CPU tensor as NumPy, without a copy."""
    if isinstance(array, _Foreign):
        return array.array
    return array if isinstance(array, np.ndarray) else _bfloat16.of_tensor(array)


def allocator_for(A: Any, device: Device) -> Callable[[int], tuple[int, Any]] | None:
    """Return the memory pool of the framework that `A` came from, as ``allocate(bytes) -> (pointer, owner)``.

    None means the device's stream-ordered pool.
    """
    if device.kind != "cuda":
        return None
    module = type(A).__module__.partition(".")[0]
    if module == "torch":
        torch = sys.modules["torch"]

        def from_torch(size: int) -> tuple[int, Any]:
            memory = torch.empty(size, dtype=torch.uint8, device=f"cuda:{device.ordinal}")
            return memory.data_ptr(), memory

        return from_torch
    if module in ("cupy", "cupyx"):
        cupy = sys.modules["cupy"]

        def from_cupy(size: int) -> tuple[int, Any]:
            with cupy.cuda.Device(device.ordinal):
                memory = cupy.cuda.alloc(size)
            return memory.ptr, memory

        return from_cupy
    return None


def finish(result: Any) -> Any:
    """Return the result as the kind of array the operand was."""
    return result.from_dlpack(result.array) if isinstance(result, _Foreign) else result

"""`CSR`: three arrays of any library, taken together as a matrix."""

from __future__ import annotations

import dataclasses
import operator
import sys
from typing import Any

import numpy as np

from warploom import _bfloat16, _device
from warploom.errors import DeviceError, DtypeError, IndexOverflowError, InvalidMatrixError, ShapeError

__all__ = ["CSR", "CSRViews", "framework_of", "views"]

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
VALUES = ("float16", "bfloat16", "float32", "float64", "bool", *INTEGERS)
"""Names of the types that values may have."""

_MOST = np.iinfo(np.int32).max


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class CSR:
    """A CSR matrix as three arrays of any library.

    It is taken wherever a matrix is. Arrays are viewed, not copied, where they are contiguous and of types that kernels
    work on; those on a GPU stay there.

    Parameters
    ----------
    indptr : array of integers, shape (m + 1,)
        Row i has the entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
    indices : array of integers, shape (nnz,) or longer
        Column of each entry. They may be unsorted within rows and may repeat. `indptr` and `indices` need not be of the
        same type; on a GPU, int32 and int64 are read as they are.
    data : array of real numbers, shape (nnz,) or longer
        Value of each entry. Where memory is allocated on the GPU, it comes from the library of this array if that is
        PyTorch or CuPy.
    shape : tuple of int
        (m, n).

    Raises
    ------
    InvalidMatrixError
        An array is not one-dimensional, or the size of `indptr` is not that of `shape`; ``argument`` names it. What the
        arrays hold is checked where the matrix is used.
    DtypeError
        `indptr` or `indices` are not integers, or `data` are not real numbers of a supported type.
    ShapeError
        `shape` is not a pair of integers, or one of them is negative.
    IndexOverflowError
        More than 2**31 - 1 rows or columns.
    DeviceError
        The arrays are not all on the same device: ``argument`` names the first one that is not where `indptr` is. Or
        an array is on a device that warploom does not know, or its exchange needs CuPy or PyTorch, which are not there.

    Notes
    -----
    Each array is one of NumPy, PyTorch or CuPy, or anything with ``__dlpack__``, ``__cuda_array_interface__``,
    ``__array_interface__`` or ``__array__``, such as an array of JAX. All are in host memory or all on one GPU, where
    they are read on the current stream of the library of `data`. They are to stay as they are while the matrix is in
    use: the matrix is a view of them.

    Examples
    --------
    >>> import numpy as np, warploom as wl
    >>> A = wl.CSR(np.array([0, 1, 3]), np.array([2, 0, 1]), np.array([5.0, 1.0, 2.0]), (2, 3))
    >>> wl.spmv(A, np.array([1.0, 10.0, 100.0]), candidate="spmv/none/csr/vector", device="cpu")
    array([500.,  21.])
    """

    indptr: Any
    indices: Any
    data: Any
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _pair(self.shape))
        views(self)

    def __repr__(self) -> str:
        kind = f"{type(self.data).__module__.partition('.')[0]}.{type(self.data).__name__}"
        return f"<CSR {self.shape[0]} x {self.shape[1]}, data {kind}>"


@dataclasses.dataclass(frozen=True, slots=True)
class CSRViews:
    """The arrays of a matrix as arrays of NumPy, or of PyTorch or CuPy on one GPU."""

    indptr: Any
    indices: Any
    data: Any
    device: int | None
    """Number of the GPU; None for the host."""

    def on_host(self) -> tuple[Any, Any, Any]:
        """Return the arrays in host memory, where they are downloaded if necessary."""
        arrays = (self.indptr, self.indices, self.data)
        if self.device is None:
            return arrays
        if framework_of(self.data) == "torch":
            indptr, indices, data = (_bfloat16.of_tensor(array.cpu()) for array in arrays)
            return indptr, indices, data
        return tuple(array.get() for array in arrays)


def views(A: CSR) -> CSRViews:
    """View the arrays, and check all of them but not what they hold.

    Those of a GPU are ordered behind the work of their library, on the current stream of the library of `data`.
    """
    arrays = {name: _view(getattr(A, name), name) for name in ("indptr", "indices", "data")}
    for name, array in arrays.items():
        if array.ndim != 1:
            raise InvalidMatrixError(f"{name} must be one-dimensional, got shape {tuple(array.shape)}", argument=name)
        _check_dtype(array, name)
    devices = {name: _device_of(array) for name, array in arrays.items()}
    first = devices["indptr"]
    for name, device in devices.items():
        if device != first:
            raise DeviceError(f"{name} is {_where(device)} but indptr is {_where(first)}", argument=name)
    size = int(arrays["indptr"].shape[0])
    if size != A.shape[0] + 1:
        raise InvalidMatrixError(f"indptr must have rows + 1 = {A.shape[0] + 1} entries, got {size}", argument="indptr")
    if first is not None:
        library = sys.modules[framework_of(arrays["data"]) or "cupy"]
        for name in ("indptr", "indices"):
            if framework_of(arrays[name]) != library.__name__:
                arrays[name] = library.from_dlpack(arrays[name])
    return CSRViews(**arrays, device=first)


def framework_of(array: Any) -> str | None:
    """Name the framework of an array, or of a class it derives from: "torch", "cupy" or None. Imports nothing."""
    return _device._package_of(array)


def _pair(shape: Any) -> tuple[int, int]:
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise ShapeError(f"shape must be a pair of integers, got {shape!r}", argument="shape") from None
    if len(sizes) != 2:
        raise ShapeError(f"shape must be a pair of integers, got {shape!r}", argument="shape")
    for size, what in zip(sizes, ("rows", "columns"), strict=True):
        if size < 0:
            raise ShapeError(f"{what} must not be negative, got {size}", argument="shape")
        if size > _MOST:
            raise IndexOverflowError(
                f"{size} {what} are beyond the 32-bit row and column index type (at most {_MOST})", argument="shape"
            )
    return sizes


def _view(values: Any, argument: str) -> Any:
    """View an array as one of NumPy if it is in host memory, else as one of PyTorch or CuPy."""
    framework = framework_of(values)
    if framework == "cupy":
        return values
    if framework == "torch":
        return _torch_view(values, argument)
    if isinstance(values, np.ndarray):
        return np.asarray(values)
    if hasattr(values, "__dlpack_device__"):
        return _dlpack_view(values, argument)
    if hasattr(values, "__cuda_array_interface__"):
        library = _bridge(values, argument)
        return library.asarray(values) if library.__name__ == "cupy" else library.as_tensor(values, device="cuda")
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InvalidMatrixError(f"{argument} is not an array: {error}", argument=argument) from error


def _torch_view(values: Any, argument: str) -> Any:
    torch = sys.modules["torch"]
    if values.layout is not torch.strided:
        raise InvalidMatrixError(f"{argument} must be dense, got layout {values.layout}", argument=argument)
    if values.device.type not in ("cpu", "cuda"):
        raise DeviceError(
            f"{argument} is on device '{values.device}', which is neither the CPU nor a CUDA GPU", argument=argument
        )
    values = values.detach().resolve_neg()
    if values.device.type == "cuda":
        return values
    _check_dtype(values, argument)
    return _bfloat16.of_tensor(values)


_HOST, _CUDA, _PINNED, _MANAGED = 1, 2, 3, 13  # of DLPack


def _dlpack_view(values: Any, argument: str) -> Any:
    kind = int(values.__dlpack_device__()[0])
    if kind in (_CUDA, _MANAGED):
        return _bridge(values, argument).from_dlpack(values)
    if kind not in (_HOST, _PINNED):
        raise DeviceError(
            f"{argument} is on a device of kind {kind} of DLPack, which is neither the CPU nor a CUDA GPU",
            argument=argument,
        )
    if hasattr(values, "__array__") or hasattr(values, "__array_interface__"):
        return np.asarray(values)
    try:
        return np.from_dlpack(values)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidMatrixError(f"{argument} cannot be exchanged by DLPack: {error}", argument=argument) from error


def _bridge(values: Any, argument: str) -> Any:
    library = _device._bridge()
    if library is None:
        kind = f"{type(values).__module__}.{type(values).__qualname__}"
        raise DeviceError(f"a GPU array of type {kind} needs CuPy or torch to be exchanged", argument=argument)
    return library


def _check_dtype(array: Any, argument: str) -> None:
    name = _bfloat16.name_of(array.dtype)
    if argument != "data" and name not in INTEGERS:
        raise DtypeError(f"{argument} must be integers, got {name}", argument=argument)
    if name not in VALUES:
        raise DtypeError(
            f"data must be float16, bfloat16, float32, float64, integers or booleans, got {name}", argument=argument
        )


def _device_of(array: Any) -> int | None:
    if isinstance(array, np.ndarray):
        return None
    return int(array.device.index if framework_of(array) == "torch" else array.device.id)


def _where(device: int | None) -> str:
    return "in host memory" if device is None else f"on GPU {device}"

"""Views of sparse matrices that another library holds in the memory of a GPU."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

import numpy as np

from warploom import _bfloat16, _core
from warploom._csr import CSR, VALUES, framework_of, views
from warploom._matrix import _package_of, _two_sizes
from warploom.errors import DtypeError

__all__ = ["DeviceArrays", "DeviceValues", "device_arrays"]


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceArrays:
    """The arrays of a CSR matrix on a GPU; nothing is known of what they hold."""

    device: int
    """Number of the GPU."""
    stream: int
    """The caller's current stream there."""
    shape: tuple[int, int]
    indptr: int
    """Address of m + 1 integers of `indptr_itemsize` bytes."""
    indptr_itemsize: int
    indices: int
    """Address of `num_indices` integers of `indices_itemsize` bytes."""
    indices_itemsize: int
    num_indices: int
    values: Any
    """The values, as the array or tensor of that library that they are."""
    owner: Any
    """Keeps the memory alive."""

    def values_as(self, dtype: np.dtype[Any] | None) -> DeviceValues | None:
        """View the values as `dtype`, or, without one, as they are if a kernel works on them and else as float64.

        They are converted on the GPU where necessary. None if they are of no type that becomes float64, or there are
        not as many as indices: `warploom._matrix.as_csr` says what is wrong with them.

        Raises
        ------
        DtypeError
            Values of CuPy are to become bfloat16, which it does not have.
        """
        own = _bfloat16.name_of(self.values.dtype)
        if self.values.ndim != 1 or own not in VALUES:
            return None
        wanted = _bfloat16.name_of(dtype) if dtype is not None else own if own in _SUPPORTED else "float64"
        if framework_of(self.values) == "torch":
            values = self.values.resolve_neg().to(getattr(sys.modules["torch"], wanted)).contiguous()
            return DeviceValues(values.data_ptr(), values.shape[0], values.element_size(), wanted, values)
        if wanted == "bfloat16":
            raise DtypeError(
                "values of CuPy do not become bfloat16; bring them as tensors of PyTorch", argument="dtype"
            )
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(self.device):
            values = cupy.ascontiguousarray(self.values.astype(wanted, copy=False))
        return DeviceValues(values.data.ptr, values.shape[0], values.itemsize, wanted, values)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceValues:
    """The values of a matrix on a GPU, of a type that kernels work on."""

    data: int
    """Address."""
    size: int
    itemsize: int
    """Bytes of each."""
    dtype: str
    """Name of the type."""
    owner: Any
    """Keeps the memory alive."""


_SUPPORTED = ("float16", "bfloat16", "float32", "float64")


def device_arrays(A: Any) -> DeviceArrays | None:
    """View a CSR tensor of PyTorch, a CSR matrix of CuPy or a `warploom.CSR` in GPU memory.

    None for everything else: other kinds of matrices, those in host memory, those whose arrays are not one-dimensional
    int32 or int64 of the right sizes (`warploom._matrix.as_csr` says what is wrong with them), and in builds without
    CUDA.

    Raises
    ------
    ShapeError, IndexOverflowError
        As `warploom._matrix.as_csr`.
    """
    if isinstance(A, CSR):
        return _arrays_of(A) if _built_with_cuda() else None
    package = _package_of(A)
    if package is None or not _built_with_cuda():
        return None
    return _torch_arrays(A) if package == "torch" else _cupy_arrays(A)


@functools.cache
def _built_with_cuda() -> bool:
    return bool(_core.cuda_info()["built"])


def _torch_arrays(A: Any) -> DeviceArrays | None:
    torch = sys.modules["torch"]
    if A.layout is not torch.sparse_csr or A.device.type != "cuda":
        return None
    return _of_torch(A.crow_indices(), A.col_indices(), A.values().detach(), _two_sizes(tuple(A.shape)))


def _cupy_arrays(A: Any) -> DeviceArrays | None:
    cupy = sys.modules["cupy"]
    if getattr(A, "format", None) != "csr":
        return None
    shape = _two_sizes(A.shape)
    indptr, indices = A.indptr, A.indices
    if not (isinstance(indptr, cupy.ndarray) and isinstance(indices, cupy.ndarray)) or indptr.device != indices.device:
        return None
    return _of_cupy(indptr, indices, A.data, shape)


def _arrays_of(A: CSR) -> DeviceArrays | None:
    seen = views(A)
    if seen.device is None:
        return None
    view = _of_torch if framework_of(seen.data) == "torch" else _of_cupy
    arrays = view(seen.indptr, seen.indices, seen.data, A.shape)
    return None if arrays is None else dataclasses.replace(arrays, owner=(arrays.owner, A))


def _of_torch(indptr: Any, indices: Any, values: Any, shape: tuple[int, int]) -> DeviceArrays | None:
    torch = sys.modules["torch"]
    kinds = (torch.int32, torch.int64)
    if not _right_sizes(indptr, indices, shape) or indptr.dtype not in kinds or indices.dtype not in kinds:
        return None
    indptr, indices = indptr.contiguous(), indices.contiguous()
    number = indptr.device.index
    return DeviceArrays(
        device=number,
        stream=torch.cuda.current_stream(number).cuda_stream,
        shape=shape,
        indptr=indptr.data_ptr(),
        indptr_itemsize=indptr.element_size(),
        indices=indices.data_ptr(),
        indices_itemsize=indices.element_size(),
        num_indices=indices.shape[0],
        values=values,
        owner=(indptr, indices, values),
    )


def _of_cupy(indptr: Any, indices: Any, values: Any, shape: tuple[int, int]) -> DeviceArrays | None:
    cupy = sys.modules["cupy"]
    if not _right_sizes(indptr, indices, shape) or not {indptr.dtype.str, indices.dtype.str} <= {"<i4", "<i8"}:
        return None
    with indptr.device:  # which need not be the current one
        indptr, indices = cupy.ascontiguousarray(indptr), cupy.ascontiguousarray(indices)
        stream = cupy.cuda.get_current_stream().ptr
    return DeviceArrays(
        device=int(indptr.device.id),
        stream=stream,
        shape=shape,
        indptr=indptr.data.ptr,
        indptr_itemsize=indptr.itemsize,
        indices=indices.data.ptr,
        indices_itemsize=indices.itemsize,
        num_indices=indices.shape[0],
        values=values,
        owner=(indptr, indices, values),
    )


def _right_sizes(indptr: Any, indices: Any, shape: tuple[int, int]) -> bool:
    return bool(indptr.ndim == 1 and indices.ndim == 1 and indptr.shape[0] == shape[0] + 1)

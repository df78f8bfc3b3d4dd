"""Views of sparse matrices that another library holds in the memory of a GPU."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

from warploom import _core
from warploom._matrix import _package_of, _two_sizes

__all__ = ["DeviceArrays", "device_arrays"]


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
    data: int
    """Address of as many values, or 0 if they do not follow each other."""
    dtype: str
    """Name of the value type."""
    owner: Any
    """Keeps the memory alive."""


def device_arrays(A: Any) -> DeviceArrays | None:
    """View a CSR tensor of PyTorch or a CSR matrix of CuPy in GPU memory.

    None for everything else: other kinds of matrices, those in host memory, those whose arrays are not one-dimensional
    int32 or int64 of the right sizes (`warploom._matrix.as_csr` says what is wrong with them), and in builds without
    CUDA.

    Raises
    ------
    ShapeError, IndexOverflowError
        As `warploom._matrix.as_csr`.
    """
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
    shape = _two_sizes(tuple(A.shape))
    indptr, indices, values = A.crow_indices().contiguous(), A.col_indices().contiguous(), A.values().detach()
    if not _right_sizes(indptr, indices, shape) or not {indptr.dtype, indices.dtype} <= {torch.int32, torch.int64}:
        return None
    return DeviceArrays(
        device=A.device.index,
        stream=torch.cuda.current_stream(A.device).cuda_stream,
        shape=shape,
        indptr=indptr.data_ptr(),
        indptr_itemsize=indptr.element_size(),
        indices=indices.data_ptr(),
        indices_itemsize=indices.element_size(),
        num_indices=indices.shape[0],
        data=values.data_ptr() if values.is_contiguous() and not values.is_neg() else 0,
        dtype=str(values.dtype).removeprefix("torch."),
        owner=(indptr, indices, values),
    )


def _cupy_arrays(A: Any) -> DeviceArrays | None:
    cupy = sys.modules["cupy"]
    if getattr(A, "format", None) != "csr":
        return None
    shape = _two_sizes(A.shape)
    indptr, indices = A.indptr, A.indices
    if not (isinstance(indptr, cupy.ndarray) and isinstance(indices, cupy.ndarray)) or indptr.device != indices.device:
        return None
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
        data=A.data.data.ptr if A.data.flags.c_contiguous else 0,
        dtype=A.data.dtype.name,
        owner=(indptr, indices, A.data),
    )


def _right_sizes(indptr: Any, indices: Any, shape: tuple[int, int]) -> bool:
    return bool(indptr.ndim == 1 and indices.ndim == 1 and indptr.shape[0] == shape[0] + 1)

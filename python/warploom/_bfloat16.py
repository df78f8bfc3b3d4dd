"""bfloat16 in NumPy's terms: the type that ml_dtypes defines, or one that stands for it where that is not installed.

The core asks for `DTYPE` when it first meets values in bfloat16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DTYPE", "as_dtype", "cast", "eps_of", "is_bfloat16", "largest_of", "name_of", "of_tensor", "to_tensor"]


def _dtype() -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype([("bfloat16", "<u2")])
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


DTYPE = _dtype()
"""Type of arrays of bfloat16. Without ml_dtypes they have one field, with the bits, and NumPy computes nothing with
them: values come from tensors of PyTorch and go back there."""


def is_bfloat16(dtype: Any) -> bool:
    """Whether this is bfloat16: as a type of NumPy or PyTorch, or by its name."""
    return dtype == DTYPE if isinstance(dtype, np.dtype) else str(dtype).removeprefix("torch.") == "bfloat16"


def as_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return a type of NumPy for whatever stands for one; ``"bfloat16"`` and ``torch.bfloat16`` are known, too.

    Raises
    ------
    TypeError
        It stands for none.
    """
    return DTYPE if is_bfloat16(dtype) else np.dtype(dtype)


def cast(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert an array from or to bfloat16, or between types of NumPy; the same array if it has the type.

    Wider values are rounded to the nearest, ties to even, by way of float32.
    """
    if array.dtype == dtype:
        return array
    if array.dtype == DTYPE:
        wide = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        return wide.astype(dtype, copy=False)
    if dtype != DTYPE:
        return array.astype(dtype)
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(is_nan, (bits >> 16).astype(np.uint16) | 0x40, rounded).astype(np.uint16).view(DTYPE)


def of_tensor(tensor: Any) -> npt.NDArray[Any]:
    """View a tensor in host memory as NumPy, without a copy."""
    if not is_bfloat16(tensor.dtype):
        return tensor.numpy()  # type: ignore[no-any-return]
    import torch

    return tensor.view(torch.int16).numpy().view(DTYPE)  # type: ignore[no-any-return]


def to_tensor(array: npt.NDArray[Any]) -> Any:
    """View an array of NumPy as a tensor, without a copy."""
    import torch

    if array.dtype != DTYPE:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)


def eps_of(dtype: np.dtype[Any]) -> float:
    """Return the distance from 1 to the next larger number."""
    return 2.0**-7 if dtype == DTYPE else float(np.finfo(dtype).eps)


def largest_of(dtype: np.dtype[Any]) -> float:
    """Return the largest finite number."""
    return (2 - 2.0**-7) * 2.0**127 if dtype == DTYPE else float(np.finfo(dtype).max)


_NAMES = {np.dtype(name).char: name for name in ("float16", "float32", "float64", "int32", "int64")}


def name_of(dtype: Any) -> str:
    """Return the name of a type of NumPy or PyTorch, without "torch."; that of a rare one takes NumPy 3 us to find."""
    if isinstance(dtype, np.dtype):
        return _NAMES.get(dtype.char) or ("bfloat16" if dtype == DTYPE else str(dtype.name))
    return str(dtype).removeprefix("torch.")

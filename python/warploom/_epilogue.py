"""What becomes of a product before it is stored."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from warploom import _device
from warploom.errors import DeviceError, ParameterError, ShapeError

__all__ = ["Epilogue"]


@dataclasses.dataclass(frozen=True, slots=True)
class Epilogue:
    """What becomes of a product before it is stored: activation(alpha A B + beta out + bias)."""

    alpha: float = 1.0
    beta: float = 0.0
    bias: Any = None
    relu: bool = False

    @classmethod
    def of(cls, out: Any, alpha: Any, beta: Any, bias: Any, activation: Any) -> Epilogue:
        """Check what a caller says."""
        if activation not in (None, "relu"):
            raise ParameterError(f"activation must be 'relu' or None, got {activation!r}", argument="activation")
        found = cls(_real(alpha, "alpha"), _real(beta, "beta"), bias, activation == "relu")
        if found.beta != 0 and out is None:
            raise ParameterError(f"beta = {beta} is a factor of out, which is not given", argument="beta")
        return found

    def view_bias(self, size: int, b: _device.Operand, dtype: np.dtype[Any]) -> _device.Operand | None:
        """View the bias as a row of `size` values where the operand `b` is."""
        if self.bias is None:
            return None
        bias = _device.as_array(self.bias, dtype)
        shape = tuple(getattr(bias, "shape", ()))
        if shape != (size,):
            raise ShapeError(
                f"bias must have shape ({size},), as the last dimension of C, got {shape}", argument="bias"
            )
        seen = _device.operand(bias.reshape(1, size), dtype, "row", "bias")
        if seen.on_gpu != b.on_gpu or seen.device != b.device:
            raise DeviceError("bias must be where B is", argument="bias")
        return seen

    def end(self, result: Any, *, column: bool = False) -> Any:
        """Add the bias to an array and apply the activation, in place where the array allows."""
        if self.relu and _device.is_complex(result):
            raise ParameterError("there is no activation of complex numbers", argument="activation")
        if self.bias is not None:
            bias = _device.as_array(self.bias, None)
            size = result.shape[0 if column else -1]
            if tuple(getattr(bias, "shape", ())) != (size,):
                raise ShapeError(f"bias must have shape ({size},), as the last dimension of C", argument="bias")
            result += bias[:, None] if column else bias
        if self.relu:
            result[result < 0] = 0
        return result


def _real(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be a real number, got {value!r}", argument=name) from None

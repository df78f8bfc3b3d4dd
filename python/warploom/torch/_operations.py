"""What products with gradients do with a plan, and what plans keep for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from warploom import _bfloat16, _core
from warploom._csr import framework_of
from warploom.errors import ParameterError
from warploom.operators import Operator, Plan
from warploom.plan import problem_of
from warploom.sddmm import ResidentPattern, sample
from warploom.torch._extremes import NONE, Neighbours, maxima

__all__ = [
    "check_version",
    "dtype_of",
    "maxima_of",
    "multiply",
    "neighbours_of",
    "pattern_of",
    "prepare",
    "sample_at_entries",
    "through_relu",
    "winners_of",
]

_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


def dtype_of(plan: Plan | Operator) -> torch.dtype:
    """Return the type of PyTorch that a plan works on."""
    return _DTYPES[_bfloat16.name_of(plan.dtype)]


def prepare(plan: Plan | Operator, X: torch.Tensor, values: torch.Tensor | None) -> None:
    """Make what the backward pass reads the matrix for, while the plan still has the values of the matrix.

    Whether the matrix has changed can be seen until then.
    """
    if values is not None and torch.is_grad_enabled():
        if values.requires_grad:
            pattern_of(plan)
        if X.requires_grad:
            plan._transposed(with_values=False)._ready()


def multiply(
    operator: Plan | Operator,
    X: torch.Tensor,
    values: torch.Tensor | None,
    transposed: bool,
    column: bool,
    bias: torch.Tensor | None = None,
    relu: bool = False,
) -> torch.Tensor:
    """Multiply by the matrix or its transpose, with these values or its own; X is column-major, or made so."""
    X = X.detach()
    X = X.t().contiguous().t() if column else X.contiguous()
    if values is None:
        return _times(operator._transposed() if transposed else operator, X, bias, relu)
    with operator._making:
        result = _times(operator._with_values(values.detach().resolve_neg().contiguous(), transposed), X, bias, relu)
        operator._leave_values()
    return result


def _times(operator: Any, X: torch.Tensor, bias: torch.Tensor | None, relu: bool) -> torch.Tensor:
    if bias is None and not relu:
        return operator @ X  # type: ignore[no-any-return]
    bias = None if bias is None else bias.detach()
    return operator(X, bias=bias, activation="relu" if relu else None)  # type: ignore[no-any-return]


def sample_at_entries(operator: Plan | Operator, of_rows: torch.Tensor, of_columns: torch.Tensor) -> torch.Tensor:
    """Multiply at the entries of A only: for entry (i, j) the dot product of row i and row j of the two."""
    pattern = pattern_of(operator)
    X, Y = (given.detach().resolve_neg().contiguous() for given in (of_rows, of_columns))
    values: torch.Tensor = sample(pattern, X, Y)
    return values


def check_version(ctx: Any) -> None:
    """Refuse a backward pass with the plan's values if these are others than in the forward pass."""
    if ctx.version is not None and ctx.version != ctx.operator._version:
        raise ParameterError(
            "the plan got other values between the forward and the backward pass; give them to spmm as `values`",
            argument="plan",
        )


def through_relu(grad: torch.Tensor, output: torch.Tensor | None) -> torch.Tensor:
    """Return the gradient before the activation, by what came out of it; None: there was no activation."""
    if output is None:
        return grad
    return torch.ops.aten.threshold_backward(grad, output, 0)  # type: ignore[no-any-return]


def maxima_of(
    X: torch.Tensor, values: torch.Tensor | None, operator: Plan | Operator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maxima over neighbours, with these values or the plan's, and which entries they are of."""
    weights = weights_of(operator) if values is None else values.detach()
    return maxima(neighbours_of(operator), weights, X.detach())


def winners_of(
    entries: torch.Tensor, operator: Plan | Operator, with_values: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the columns of entries, and the plan's values of them if they are wanted; 0 where there is none."""
    neighbours = neighbours_of(operator)
    if not neighbours.indices.shape[0]:
        columns = torch.zeros_like(entries)
        return columns, columns.to(dtype_of(operator)) if with_values else None
    numbers = entries.clamp(min=0) if neighbours.has_empty else entries
    columns = neighbours.indices[numbers]
    if neighbours.has_empty:
        columns = columns.masked_fill(entries == NONE, 0)
    return columns, weights_of(operator)[numbers] if with_values else None


def neighbours_of(operator: Plan | Operator) -> Neighbours:
    """Return the pattern of the matrix as tensors where the plan is, made when it is first asked for."""
    with operator._making:
        if operator._neighbours is None:
            arrays = operator._matrix_arrays()
            indptr, indices = (_tensor(array, operator).long() for array in (arrays.indptr, arrays.indices))
            operator._neighbours = Neighbours.of(
                indptr, indices[: operator.nnz].clone(), operator.shape, dtype_of(operator)
            )
        found: Neighbours = operator._neighbours
        return found


def weights_of(operator: Plan | Operator) -> torch.Tensor:
    """Return the values that the plan multiplies with, as a tensor where it is."""
    dtype = dtype_of(operator)
    with operator._making:
        if isinstance(operator, Plan):
            updated = operator._updated
        else:
            updated = operator._is_outdated
            if operator._values is not None and not updated:
                return _tensor(operator._values, operator).to(dtype)
        if updated:
            raise ParameterError(
                "the values of this plan were updated, and it keeps them for products only: give them to spmm as "
                "`values`, or use the operator that wl.plan makes without op and k",
                argument="plan",
            )
        if operator._weights is None:
            made = _tensor(operator._matrix_arrays().data, operator).to(dtype)[: operator.nnz].clone()
            if made.is_cuda:
                torch.cuda.current_stream(made.device).synchronize()  # other streams read it, too
            operator._weights = made
        found: torch.Tensor = operator._weights
        return found


def _tensor(array: Any, operator: Plan | Operator) -> torch.Tensor:
    """View an array of NumPy, PyTorch or CuPy as a tensor where the plan is, copied if it is elsewhere."""
    framework = framework_of(array)
    if framework is None:
        found: torch.Tensor = _bfloat16.to_tensor(np.array(array))
    else:
        found = array.detach() if framework == "torch" else torch.utils.dlpack.from_dlpack(array)
    return found.to(str(operator.device))


def pattern_of(operator: Plan | Operator) -> Any:
    """Return the pattern of the matrix where the plan is, checked when it is first asked for.

    On the CPU it is a copy. On a GPU it may be a view: the kernel reads nothing outside of its operands, whatever
    happens to the arrays.
    """
    with operator._making:
        if operator._pattern is None:
            arrays = operator._matrix_arrays()
            if operator.device.kind == "cpu":
                host = arrays.on_host()
                operator._pattern = _core.CsrView(host.indptr.astype("int64"), host.indices.copy(), None, *host.shape)
            else:
                operator._pattern = _resident(operator, arrays)
        return operator._pattern


def _resident(operator: Plan | Operator, arrays: Any) -> Any:
    problem = problem_of(arrays.matrix(), "spmv", None, operator.dtype, "column", "warm", operator.device)
    return ResidentPattern(problem)

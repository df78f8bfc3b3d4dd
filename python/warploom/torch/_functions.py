"""Products with gradients outside of compiled graphs: as functions they cost a tenth of a custom operator."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from warploom.operators import Operator, Plan
from warploom.torch._extremes import gradients
from warploom.torch._operations import (
    check_version,
    maxima_of,
    multiply,
    neighbours_of,
    sample_at_entries,
    through_relu,
    winners_of,
)

with contextlib.suppress(ImportError):
    from torch._functorch.utils import unwrap_dead_wrappers

__all__ = ["differentiable", "differentiable_finished", "differentiable_maximum", "differentiable_sample"]


class _Product(torch.autograd.Function):
    """X, values, plan, whether it is transposed, whether operands are column-major."""

    @staticmethod
    def forward(
        X: torch.Tensor, values: torch.Tensor | None, operator: Plan | Operator, transposed: bool, column: bool
    ) -> torch.Tensor:
        return multiply(operator, X, values, transposed, column)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        X, values, ctx.operator, ctx.transposed, ctx.column = inputs
        ctx.version = None if values is not None else ctx.operator._version
        ctx.save_for_backward(X if values is not None and ctx.needs_input_grad[1] else None, values)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        X, values = ctx.saved_tensors
        grad_X = grad_values = None
        if ctx.needs_input_grad[0]:
            check_version(ctx)
            grad_X = differentiable(grad, values, ctx.operator, not ctx.transposed, ctx.column)
        if ctx.needs_input_grad[1]:
            of_rows, of_columns = (X, grad) if ctx.transposed else (grad, X)
            grad_values = differentiable_sample(of_rows, of_columns, ctx.operator, ctx.column)
        return grad_X, grad_values, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, X: Any, values: Any, operator: Any, transposed: bool, column: bool) -> Any:
        """Further vectors are further columns; other values are another product."""
        if in_dims[1] is None:
            X = X.movedim(in_dims[0], 2)
            size, columns = X.shape[2], X.shape[1]
            if not operator._vectors_only:
                result = differentiable(X.reshape(X.shape[0], -1), values, operator, transposed, column)
                return result.reshape(-1, columns, size), 2
            in_dims = (2, None)
        pairs = (
            (
                X if in_dims[0] is None else X.select(in_dims[0], i),
                values if in_dims[1] is None else values.select(in_dims[1], i),
            )
            for i in range(info.batch_size)
        )
        return torch.stack([differentiable(*pair, operator, transposed, column) for pair in pairs]), 0


class _Finished(torch.autograd.Function):
    """X, values, bias, plan, whether operands are column-major, whether negative entries become 0."""

    @staticmethod
    def forward(
        X: torch.Tensor,
        values: torch.Tensor | None,
        bias: torch.Tensor | None,
        operator: Plan | Operator,
        column: bool,
        relu: bool,
    ) -> torch.Tensor:
        return multiply(operator, X, values, False, column, bias, relu)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        X, values, _, ctx.operator, ctx.column, relu = inputs
        ctx.version = None if values is not None else ctx.operator._version
        kept = X if values is not None and ctx.needs_input_grad[1] else None
        ctx.save_for_backward(kept, values, output if relu else None)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        X, values, output = ctx.saved_tensors
        grad = through_relu(grad, output)
        grad_X = grad_values = None
        grad_bias = grad.sum(0) if ctx.needs_input_grad[2] else None  # first: a part of it is still in the cache
        if ctx.needs_input_grad[0]:
            check_version(ctx)
            grad_X = differentiable(grad, values, ctx.operator, True, ctx.column)
        if ctx.needs_input_grad[1]:
            grad_values = differentiable_sample(grad, X, ctx.operator, ctx.column)
        return grad_X, grad_values, grad_bias, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, X: Any, values: Any, bias: Any, operator: Any, column: bool, relu: bool) -> Any:
        """Multiply one after the other."""
        given = (X, values, bias)
        each = (
            [tensor if dim is None else tensor.select(dim, i) for tensor, dim in zip(given, in_dims[:3], strict=True)]
            for i in range(info.batch_size)
        )
        return torch.stack([differentiable_finished(*three, operator, column, relu) for three in each]), 0


class _Sampled(torch.autograd.Function):
    """X, Y, plan, whether operands are column-major."""

    @staticmethod
    def forward(
        of_rows: torch.Tensor, of_columns: torch.Tensor, operator: Plan | Operator, column: bool
    ) -> torch.Tensor:
        return sample_at_entries(operator, of_rows, of_columns)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        of_rows, of_columns, ctx.operator, ctx.column = inputs
        ctx.save_for_backward(of_rows, of_columns)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        of_rows, of_columns = ctx.saved_tensors
        grad_rows = grad_columns = None
        if ctx.needs_input_grad[0]:
            grad_rows = differentiable(of_columns, grad, ctx.operator, False, ctx.column)
        if ctx.needs_input_grad[1]:
            grad_columns = differentiable(of_rows, grad, ctx.operator, True, ctx.column)
        return grad_rows, grad_columns, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, of_rows: Any, of_columns: Any, operator: Any, column: bool) -> Any:
        """Sample one after the other."""
        pairs = (
            (
                of_rows if in_dims[0] is None else of_rows.select(in_dims[0], i),
                of_columns if in_dims[1] is None else of_columns.select(in_dims[1], i),
            )
            for i in range(info.batch_size)
        )
        return torch.stack([differentiable_sample(*pair, operator, column) for pair in pairs]), 0


class _Maximum(torch.autograd.Function):
    """X, values, plan; the maxima, and which entries they are of."""

    @staticmethod
    def forward(
        X: torch.Tensor, values: torch.Tensor | None, operator: Plan | Operator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return maxima_of(X, values, operator)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
        X, values, ctx.operator = inputs
        ctx.version = None if values is not None else ctx.operator._version
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(X if ctx.needs_input_grad[1] else None, values, output[1])

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: Any) -> tuple[Any, ...]:
        X, values, entries = ctx.saved_tensors
        check_version(ctx)
        columns, known = winners_of(entries, ctx.operator, values is None)
        needed = ctx.needs_input_grad[:2]
        n, has_empty = ctx.operator.shape[1], neighbours_of(ctx.operator).has_empty
        return *gradients(grad, n, X, values, columns, entries, known, needed, has_empty=has_empty), None

    @staticmethod
    def vmap(info: Any, in_dims: Any, X: Any, values: Any, operator: Any) -> Any:
        """Take one after the other."""
        found = [
            differentiable_maximum(
                X if in_dims[0] is None else X.select(in_dims[0], i),
                values if in_dims[1] is None else values.select(in_dims[1], i),
                operator,
            )
            for i in range(info.batch_size)
        ]
        return tuple(torch.stack(several) for several in zip(*found, strict=True)), (0, 0)


def _apply(function: Any) -> Callable[..., Any]:
    """Return what ``function.apply`` does, for positional arguments.

    Where no transform of torch.func is active, `torch.autograd.Function.apply` hands its arguments on to what its base
    class does, but binds them to the signature of ``forward`` before, which takes longer than all the rest.
    """
    apply = function.apply
    try:
        transforms, unwrap = torch._C._are_functorch_transforms_active, unwrap_dead_wrappers
        of_base = super(torch.autograd.Function, function).apply
    except (AttributeError, NameError):  # another version of PyTorch
        return apply  # type: ignore[no-any-return]

    def applied(*arguments: Any) -> Any:
        return apply(*arguments) if transforms() else of_base(*unwrap(arguments))

    return applied


differentiable = _apply(_Product)
differentiable_finished = _apply(_Finished)
differentiable_sample = _apply(_Sampled)
differentiable_maximum = _apply(_Maximum)

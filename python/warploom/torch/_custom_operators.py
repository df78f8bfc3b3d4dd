"""Products with gradients as custom operators, for compiled and exported graphs: they know plans by their names."""

from __future__ import annotations

from typing import Any

import torch

from warploom._multiplier import find_operator
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

__all__ = ["finished_product", "inverse_counts", "maximum", "product", "sampled_product", "winners"]


@torch.library.custom_op("warploom::product", mutates_args=())
def product(
    X: torch.Tensor, values: torch.Tensor | None, plan: str, rows: int, transposed: bool, column: bool
) -> torch.Tensor:
    return multiply(find_operator(plan), X, values, transposed, column)


@product.register_fake
def _(
    X: torch.Tensor, values: torch.Tensor | None, plan: str, rows: int, transposed: bool, column: bool
) -> torch.Tensor:
    return X.new_empty((X.shape[1], rows)).t() if column else X.new_empty((rows, X.shape[1]))


def _keep_for_product(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    X, values, ctx.plan, _, ctx.transposed, ctx.column = inputs
    ctx.rows = X.shape[0]
    ctx.operator = find_operator(ctx.plan)  # which lives as long as what is to be differentiated
    ctx.version = None if values is not None else ctx.operator._version
    ctx.save_for_backward(X if values is not None and ctx.needs_input_grad[1] else None, values)


def _product_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    X, values = ctx.saved_tensors
    grad_X = grad_values = None
    if ctx.needs_input_grad[0]:
        check_version(ctx)
        grad_X = product(grad, values, ctx.plan, ctx.rows, not ctx.transposed, ctx.column)
    if ctx.needs_input_grad[1]:
        of_rows, of_columns = (X, grad) if ctx.transposed else (grad, X)
        grad_values = sampled_product(of_rows, of_columns, ctx.plan, values.shape[0], ctx.column)
    return grad_X, grad_values, None, None, None, None


product.register_autograd(_product_backward, setup_context=_keep_for_product)


@torch.library.custom_op("warploom::finished_product", mutates_args=())
def finished_product(
    X: torch.Tensor,
    values: torch.Tensor | None,
    bias: torch.Tensor | None,
    plan: str,
    rows: int,
    column: bool,
    relu: bool,
) -> torch.Tensor:
    return multiply(find_operator(plan), X, values, False, column, bias, relu)


@finished_product.register_fake
def _(
    X: torch.Tensor,
    values: torch.Tensor | None,
    bias: torch.Tensor | None,
    plan: str,
    rows: int,
    column: bool,
    relu: bool,
) -> torch.Tensor:
    return X.new_empty((X.shape[1], rows)).t() if column else X.new_empty((rows, X.shape[1]))


def _keep_for_finished(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    X, values, _, ctx.plan, _, ctx.column, relu = inputs
    ctx.n = X.shape[0]
    ctx.operator = find_operator(ctx.plan)
    ctx.version = None if values is not None else ctx.operator._version
    kept = X if values is not None and ctx.needs_input_grad[1] else None
    ctx.save_for_backward(kept, values, output if relu else None)


def _finished_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    X, values, output = ctx.saved_tensors
    grad = through_relu(grad, output)
    grad_X = grad_values = None
    grad_bias = grad.sum(0) if ctx.needs_input_grad[2] else None
    if ctx.needs_input_grad[0]:
        check_version(ctx)
        grad_X = product(grad, values, ctx.plan, ctx.n, True, ctx.column)
    if ctx.needs_input_grad[1]:
        grad_values = sampled_product(grad, X, ctx.plan, values.shape[0], ctx.column)
    return grad_X, grad_values, grad_bias, None, None, None, None


finished_product.register_autograd(_finished_backward, setup_context=_keep_for_finished)


@torch.library.custom_op("warploom::sampled_product", mutates_args=())
def sampled_product(of_rows: torch.Tensor, of_columns: torch.Tensor, plan: str, nnz: int, column: bool) -> torch.Tensor:
    return sample_at_entries(find_operator(plan), of_rows, of_columns)


@sampled_product.register_fake
def _(of_rows: torch.Tensor, of_columns: torch.Tensor, plan: str, nnz: int, column: bool) -> torch.Tensor:
    return of_rows.new_empty(nnz)


def _keep_for_sampled(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    of_rows, of_columns, ctx.plan, _, ctx.column = inputs
    ctx.operator = find_operator(ctx.plan)
    ctx.save_for_backward(of_rows, of_columns)


def _sampled_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    of_rows, of_columns = ctx.saved_tensors
    grad_rows = grad_columns = None
    if ctx.needs_input_grad[0]:
        grad_rows = product(of_columns, grad, ctx.plan, of_rows.shape[0], False, ctx.column)
    if ctx.needs_input_grad[1]:
        grad_columns = product(of_rows, grad, ctx.plan, of_columns.shape[0], True, ctx.column)
    return grad_rows, grad_columns, None, None, None


sampled_product.register_autograd(_sampled_backward, setup_context=_keep_for_sampled)


@torch.library.custom_op("warploom::maximum", mutates_args=())
def maximum(X: torch.Tensor, values: torch.Tensor | None, plan: str, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return maxima_of(X, values, find_operator(plan))


@maximum.register_fake
def _(X: torch.Tensor, values: torch.Tensor | None, plan: str, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (rows, X.shape[1])
    return X.new_empty(shape), X.new_empty(shape, dtype=torch.int64)


def _keep_for_maximum(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    X, values, ctx.plan, _ = inputs
    ctx.n = X.shape[0]
    ctx.operator = find_operator(ctx.plan)
    ctx.version = None if values is not None else ctx.operator._version
    ctx.save_for_backward(X if values is not None and ctx.needs_input_grad[1] else None, values, output[1])


def _maximum_backward(ctx: Any, grad: torch.Tensor, _: Any) -> tuple[Any, ...]:
    X, values, entries = ctx.saved_tensors
    check_version(ctx)
    columns, of_entries = winners(entries, grad.detach(), ctx.plan, values is None)
    needed = (ctx.needs_input_grad[0], ctx.needs_input_grad[1])
    known = of_entries if values is None else None
    return *gradients(grad, ctx.n, X, values, columns, entries, known, needed), None, None


maximum.register_autograd(_maximum_backward, setup_context=_keep_for_maximum)


@torch.library.custom_op("warploom::winners", mutates_args=())
def winners(
    entries: torch.Tensor, like: torch.Tensor, plan: str, with_values: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    columns, values = winners_of(entries, find_operator(plan), with_values)
    return columns, like.new_empty(0) if values is None else values


@winners.register_fake
def _(entries: torch.Tensor, like: torch.Tensor, plan: str, with_values: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(entries), like.new_empty(entries.shape if with_values else 0)


@torch.library.custom_op("warploom::inverse_counts", mutates_args=())
def inverse_counts(like: torch.Tensor, plan: str, rows: int) -> torch.Tensor:
    scales: torch.Tensor = neighbours_of(find_operator(plan)).inverse_counts
    return scales.clone()  # a compiled graph may write over it


@inverse_counts.register_fake
def _(like: torch.Tensor, plan: str, rows: int) -> torch.Tensor:
    return like.new_empty((rows, 1))

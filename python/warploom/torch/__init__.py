"""Products with gradients for PyTorch, which graphs of ``torch.compile`` and ``torch.export`` keep whole.

`spmm` multiplies with a plan and has gradients for the dense operand, by the transpose of the plan, and for the values
of the sparse matrix, by a product that is sampled at its entries: no dense intermediate is made. `SpMM` is the same as
a module. Gradients of gradients exist, too. Instead of sums over the neighbours of a vertex, both take means and
maxima.

Nothing else in warploom imports PyTorch. This module needs PyTorch 2.5 or newer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from warploom import _bfloat16, _core
from warploom._csr import framework_of
from warploom._multiplier import find_operator
from warploom.errors import DeviceError, DtypeError, ParameterError, ShapeError
from warploom.operators import Operator, Plan
from warploom.plan import problem_of
from warploom.sddmm import ResidentPattern, sample
from warploom.torch._extremes import NONE, Neighbours, gradients, maxima

with contextlib.suppress(ImportError):
    from torch._functorch.utils import unwrap_dead_wrappers

__all__ = ["SpMM", "spmm"]


def spmm(
    plan: Plan | Operator,
    X: torch.Tensor,
    values: torch.Tensor | None = None,
    *,
    reduce: str = "sum",
    bias: torch.Tensor | None = None,
    activation: str | None = None,
) -> torch.Tensor:
    """Multiply a sparse and a dense matrix, with gradients: activation(A X + bias).

    Parameters
    ----------
    plan : Plan or Operator
        Of the sparse matrix A, from `warploom.plan`. Its transpose multiplies in the backward pass: it is planned once,
        and kept. Keep a reference to the plan as long as a compiled or exported graph that multiplies with it.
    X : Tensor, shape (n, k) or (n,)
        Where the plan is. Types that are promoted to that of the plan are converted.
    values : Tensor, shape (nnz,), optional
        Values of A in this product, in the order of `Plan.update_values`, of the plan's dtype; by default those of the
        plan. For sums and means the plan has to be made with ``updatable=True``, and keeps them until it gets others.
    reduce : {"sum", "mean", "max", "min"}
        What becomes of the products of the entries of a row with their rows of `X`. The mean is over stored entries,
        whatever their values; rows without any are 0. Gradients of maxima and minima go to one entry: of equal ones
        the first, in the order in which A has them.
    bias : Tensor, shape (k,), or (m,) if `X` is a vector, optional
        Added to each row of the result, as that of `torch.nn.Linear`.
    activation : {"relu"}, optional
        Negative entries become 0. With sums of matrices, bias and activation are part of the launch of the product
        where they are for the plan (`warploom.Plan.__call__`).

    Returns
    -------
    Tensor, shape (m, k) or (m,)

    Raises
    ------
    ParameterError
        `plan` is no plan, cannot be given values, or has got other values between the forward and the backward pass;
        or `activation` is unknown.
    ShapeError, DtypeError, DeviceError
        `X`, `values` or `bias` does not fit; `argument` names it.

    Notes
    -----
    Outside of compiled graphs, ``plan @ X`` is faster where no gradient is wanted. ``torch.vmap``, ``torch.func.grad``
    and ``torch.func.jacrev`` take the product; forward-mode differentiation does not.

    Sums and means are products of the plan. Maxima and minima are not: on the CPU a kernel of PyTorch computes them,
    and on a GPU other operations of PyTorch, for some rows at a time, which bounds the memory beside the results to
    about 300 MB. Their backward pass adds in no fixed order on a GPU, unless ``torch.use_deterministic_algorithms`` is
    set. They keep the number of an entry for each element of the result until the backward pass, and the plan keeps a
    copy of the pattern with 8 bytes for each entry.

    Examples
    --------
    >>> import scipy.sparse, torch, warploom as wl, warploom.torch
    >>> A = scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> plan = wl.plan(A, k=1, device="cpu", select="spmm/none/csr/row_split", updatable=True)
    >>> X = torch.ones(2, 1, dtype=torch.float64, requires_grad=True)
    >>> values = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    >>> (X * warploom.torch.spmm(plan, X, values)).sum().backward()
    >>> X.grad.flatten(), values.grad
    (tensor([7., 7.], dtype=torch.float64), tensor([1., 1.], dtype=torch.float64))
    """
    _check_words(reduce, activation)
    if not isinstance(plan, (Plan, Operator)):
        raise ParameterError(f"plan must be what warploom.plan returns, got {type(plan).__name__}", argument="plan")
    X = _checked(plan, X, "X")
    if X.ndim not in (1, 2) or X.shape[0] != plan.shape[1]:
        raise ShapeError(
            f"X must have {plan.shape[1]} rows, as A has columns, but its shape is {tuple(X.shape)}", argument="X"
        )
    if bias is not None:
        bias = _checked(plan, bias, "bias")
        size = plan.shape[0] if X.ndim == 1 else X.shape[1]
        if bias.ndim != 1 or bias.shape[0] != size:
            raise ShapeError(
                f"bias must have shape ({size},), as the last dimension of the result, got {tuple(bias.shape)}",
                argument="bias",
            )
    if X.ndim == 1:
        return _end(spmm(plan, X.unsqueeze(1), values, reduce=reduce).squeeze(1), bias, activation)
    if plan._vectors_only and X.shape[1] != 1:
        raise ShapeError(
            f"X must be one vector, as the plan is for SpMV, but its shape is {tuple(X.shape)}", argument="X"
        )
    if values is not None:
        if not plan.updatable and reduce in ("sum", "mean"):
            raise ParameterError("values need a plan that was made with updatable=True", argument="values")
        values = _checked(plan, values, "values")
        if values.ndim != 1 or values.shape[0] != plan.nnz:
            raise ShapeError(f"values must have shape ({plan.nnz},), got {tuple(values.shape)}", argument="values")
    if reduce == "min":
        return _end(-_maximum_of(plan, -X, values), bias, activation)
    if reduce == "max":
        return _end(_maximum_of(plan, X, values), bias, activation)
    column = isinstance(plan, Plan) and plan.layout == "column" and plan.op == "spmm"
    compiling = torch.compiler.is_compiling()
    total: torch.Tensor
    if reduce == "sum" and (bias is not None or activation is not None):
        relu = activation == "relu"
        if compiling:
            total = _finished_product(X, values, bias, plan._name, plan.shape[0], column, relu)
        else:
            _prepare(plan, X, values)
            total = _differentiable_finished(X, values, bias, plan, column, relu)
        return total
    if compiling:
        total = _product(X, values, plan._name, plan.shape[0], False, column)
    else:
        _prepare(plan, X, values)
        total = _differentiable(X, values, plan, False, column)
    if reduce == "sum":
        return total
    # By way of the operation the first time, too: what is made inside torch.func and kept would not outlive it.
    if compiling or plan._neighbours is None:
        scales = _inverse_counts(torch.empty(0, dtype=X.dtype, device=X.device), plan._name, plan.shape[0])
    else:
        scales = plan._neighbours.inverse_counts
    return _end(total * scales, bias, activation)


def _end(result: torch.Tensor, bias: torch.Tensor | None, activation: str | None) -> torch.Tensor:
    if bias is not None:
        result = result + bias
    return torch.relu(result) if activation == "relu" else result


def _check_words(reduce: str, activation: str | None) -> None:
    if reduce not in _REDUCTIONS:
        raise ParameterError(f"reduce must be one of {', '.join(_REDUCTIONS)}, got {reduce!r}", argument="reduce")
    if activation not in (None, "relu"):
        raise ParameterError(f"activation must be 'relu' or None, got {activation!r}", argument="activation")


def _maximum_of(plan: Plan | Operator, X: torch.Tensor, values: torch.Tensor | None) -> torch.Tensor:
    if torch.compiler.is_compiling():
        return _maximum(X, values, plan._name, plan.shape[0])[0]  # type: ignore[no-any-return]
    return _differentiable_maximum(X, values, plan)[0]  # type: ignore[no-any-return]


class SpMM(torch.nn.Module):
    """Multiplication by a sparse matrix as a module.

    Parameters
    ----------
    plan : Plan or Operator
        Of the sparse matrix.
    values : Tensor, shape (nnz,), optional
        Values of the sparse matrix, which become a parameter of the module: they are trained. By default the matrix is
        what it was planned as, and the module has no parameters.
    reduce : {"sum", "mean", "max", "min"}
        As for `spmm`.
    bias : Tensor, shape (k,), optional
        Added to each row of the result, which becomes a parameter of the module, too.
    activation : {"relu"}, optional
        As for `spmm`.

    Examples
    --------
    >>> import scipy.sparse, torch, warploom as wl, warploom.torch
    >>> A = scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> plan = wl.plan(A, k=1, device="cpu", select="spmm/none/csr/row_split")
    >>> layer = torch.nn.Sequential(torch.nn.Linear(3, 4, dtype=torch.float64), warploom.torch.SpMM(plan))
    >>> layer(torch.ones(2, 3, dtype=torch.float64)).shape
    torch.Size([2, 4])
    """

    values: torch.nn.Parameter | None
    bias: torch.nn.Parameter | None

    def __init__(
        self,
        plan: Plan | Operator,
        values: torch.Tensor | None = None,
        *,
        reduce: str = "sum",
        bias: torch.Tensor | None = None,
        activation: str | None = None,
    ) -> None:
        super().__init__()
        _check_words(reduce, activation)
        self.plan = plan
        self.reduce = reduce
        self.activation = activation
        self.register_parameter("values", None if values is None else torch.nn.Parameter(values))
        self.register_parameter("bias", None if bias is None else torch.nn.Parameter(bias))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Multiply: activation(A X + bias).

        Parameters
        ----------
        X : Tensor, shape (n, k) or (n,)

        Returns
        -------
        Tensor, shape (m, k) or (m,)
        """
        return spmm(self.plan, X, self.values, reduce=self.reduce, bias=self.bias, activation=self.activation)

    def extra_repr(self) -> str:
        """Say what the matrix is."""
        m, n = self.plan.shape
        kind = "" if self.reduce == "sum" else f", {self.reduce}"
        kind += ("" if self.bias is None else ", bias") + (f", {self.activation}" if self.activation else "")
        dtype = _bfloat16.name_of(self.plan.dtype)
        return f"{m} x {n}, nnz={self.plan.nnz}, {dtype}, on {self.plan.device}{kind}"


_REDUCTIONS = ("sum", "mean", "max", "min")
_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}
_NARROWER = {
    torch.float64: (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool),
    torch.float32: (torch.float16, torch.bfloat16, torch.bool),
}


def _dtype_of(plan: Plan | Operator) -> torch.dtype:
    return _DTYPES[_bfloat16.name_of(plan.dtype)]


def _checked(plan: Plan | Operator, tensor: torch.Tensor, name: str) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise DtypeError(f"{name} must be a tensor, got {type(tensor).__name__}", argument=name)
    if tensor.layout is not torch.strided:
        raise DtypeError(f"{name} must be dense, got a tensor of layout {tensor.layout}", argument=name)
    dtype = _dtype_of(plan)
    if tensor.dtype != dtype:
        if tensor.dtype not in _NARROWER.get(dtype, ()):
            raise DtypeError(
                f"{name} is {tensor.dtype} but the plan works on {_bfloat16.name_of(plan.dtype)}; convert it, or make "
                "another plan",
                argument=name,
            )
        tensor = tensor.to(dtype)
    where = plan.device
    if tensor.device.type != where.kind or (where.kind == "cuda" and tensor.device.index != where.ordinal):
        raise DeviceError(f"the plan was made for {where} but {name} is on {tensor.device}", argument=name)
    return tensor


def _prepare(plan: Plan | Operator, X: torch.Tensor, values: torch.Tensor | None) -> None:
    """Make what the backward pass reads the matrix for, while the plan still has the values of the matrix.

    Whether the matrix has changed can be seen until then.
    """
    if values is not None and torch.is_grad_enabled():
        if values.requires_grad:
            _pattern_of(plan)
        if X.requires_grad:
            plan._transposed(with_values=False)._ready()


# ----- the operations -----


def _multiply(
    operator: Plan | Operator,
    X: torch.Tensor,
    values: torch.Tensor | None,
    transposed: bool,
    column: bool,
    bias: torch.Tensor | None = None,
    relu: bool = False,
) -> torch.Tensor:
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


def _sample(operator: Plan | Operator, of_rows: torch.Tensor, of_columns: torch.Tensor) -> torch.Tensor:
    """Multiply at the entries of A only: for entry (i, j) the dot product of row i and row j of the two."""
    pattern = _pattern_of(operator)
    X, Y = (given.detach().resolve_neg().contiguous() for given in (of_rows, of_columns))
    values: torch.Tensor = sample(pattern, X, Y)
    return values


def _check_version(ctx: Any) -> None:
    if ctx.version is not None and ctx.version != ctx.operator._version:
        raise ParameterError(
            "the plan got other values between the forward and the backward pass; give them to spmm as `values`",
            argument="plan",
        )


# ----- as functions, outside of compiled graphs: they cost a tenth of a custom operator -----


class _Product(torch.autograd.Function):
    """X, values, plan, whether it is transposed, whether operands are column-major."""

    @staticmethod
    def forward(
        X: torch.Tensor, values: torch.Tensor | None, operator: Plan | Operator, transposed: bool, column: bool
    ) -> torch.Tensor:
        return _multiply(operator, X, values, transposed, column)

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
            _check_version(ctx)
            grad_X = _differentiable(grad, values, ctx.operator, not ctx.transposed, ctx.column)
        if ctx.needs_input_grad[1]:
            of_rows, of_columns = (X, grad) if ctx.transposed else (grad, X)
            grad_values = _differentiable_sample(of_rows, of_columns, ctx.operator, ctx.column)
        return grad_X, grad_values, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, X: Any, values: Any, operator: Any, transposed: bool, column: bool) -> Any:
        """Further vectors are further columns; other values are another product."""
        if in_dims[1] is None:
            X = X.movedim(in_dims[0], 2)
            size, columns = X.shape[2], X.shape[1]
            if not operator._vectors_only:
                result = _differentiable(X.reshape(X.shape[0], -1), values, operator, transposed, column)
                return result.reshape(-1, columns, size), 2
            in_dims = (2, None)
        pairs = (
            (
                X if in_dims[0] is None else X.select(in_dims[0], i),
                values if in_dims[1] is None else values.select(in_dims[1], i),
            )
            for i in range(info.batch_size)
        )
        return torch.stack([_differentiable(*pair, operator, transposed, column) for pair in pairs]), 0


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
        return _multiply(operator, X, values, False, column, bias, relu)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        X, values, _, ctx.operator, ctx.column, relu = inputs
        ctx.version = None if values is not None else ctx.operator._version
        kept = X if values is not None and ctx.needs_input_grad[1] else None
        ctx.save_for_backward(kept, values, output if relu else None)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        X, values, output = ctx.saved_tensors
        grad = _through_relu(grad, output)
        grad_X = grad_values = None
        grad_bias = grad.sum(0) if ctx.needs_input_grad[2] else None  # first: a part of it is still in the cache
        if ctx.needs_input_grad[0]:
            _check_version(ctx)
            grad_X = _differentiable(grad, values, ctx.operator, True, ctx.column)
        if ctx.needs_input_grad[1]:
            grad_values = _differentiable_sample(grad, X, ctx.operator, ctx.column)
        return grad_X, grad_values, grad_bias, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, X: Any, values: Any, bias: Any, operator: Any, column: bool, relu: bool) -> Any:
        """Multiply one after the other."""
        given = (X, values, bias)
        each = (
            [tensor if dim is None else tensor.select(dim, i) for tensor, dim in zip(given, in_dims[:3], strict=True)]
            for i in range(info.batch_size)
        )
        return torch.stack([_differentiable_finished(*three, operator, column, relu) for three in each]), 0


def _through_relu(grad: torch.Tensor, output: torch.Tensor | None) -> torch.Tensor:
    if output is None:
        return grad
    return torch.ops.aten.threshold_backward(grad, output, 0)  # type: ignore[no-any-return]


class _Sampled(torch.autograd.Function):
    """X, Y, plan, whether operands are column-major."""

    @staticmethod
    def forward(
        of_rows: torch.Tensor, of_columns: torch.Tensor, operator: Plan | Operator, column: bool
    ) -> torch.Tensor:
        return _sample(operator, of_rows, of_columns)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        of_rows, of_columns, ctx.operator, ctx.column = inputs
        ctx.save_for_backward(of_rows, of_columns)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        of_rows, of_columns = ctx.saved_tensors
        grad_rows = grad_columns = None
        if ctx.needs_input_grad[0]:
            grad_rows = _differentiable(of_columns, grad, ctx.operator, False, ctx.column)
        if ctx.needs_input_grad[1]:
            grad_columns = _differentiable(of_rows, grad, ctx.operator, True, ctx.column)
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
        return torch.stack([_differentiable_sample(*pair, operator, column) for pair in pairs]), 0


class _Maximum(torch.autograd.Function):
    """X, values, plan; the maxima, and which entries they are of."""

    @staticmethod
    def forward(
        X: torch.Tensor, values: torch.Tensor | None, operator: Plan | Operator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return _maxima(X, values, operator)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
        X, values, ctx.operator = inputs
        ctx.version = None if values is not None else ctx.operator._version
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(X if ctx.needs_input_grad[1] else None, values, output[1])

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: Any) -> tuple[Any, ...]:
        X, values, entries = ctx.saved_tensors
        _check_version(ctx)
        columns, known = _winners_of(entries, ctx.operator, values is None)
        needed = ctx.needs_input_grad[:2]
        n, has_empty = ctx.operator.shape[1], _neighbours_of(ctx.operator).has_empty
        return *gradients(grad, n, X, values, columns, entries, known, needed, has_empty=has_empty), None

    @staticmethod
    def vmap(info: Any, in_dims: Any, X: Any, values: Any, operator: Any) -> Any:
        """Take one after the other."""
        found = [
            _differentiable_maximum(
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


_differentiable = _apply(_Product)
_differentiable_finished = _apply(_Finished)
_differentiable_sample = _apply(_Sampled)
_differentiable_maximum = _apply(_Maximum)


# ----- as custom operators, for compiled and exported graphs: they know plans by their names -----


@torch.library.custom_op("warploom::product", mutates_args=())
def _product(
    X: torch.Tensor, values: torch.Tensor | None, plan: str, rows: int, transposed: bool, column: bool
) -> torch.Tensor:
    return _multiply(find_operator(plan), X, values, transposed, column)


@_product.register_fake
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
        _check_version(ctx)
        grad_X = _product(grad, values, ctx.plan, ctx.rows, not ctx.transposed, ctx.column)
    if ctx.needs_input_grad[1]:
        of_rows, of_columns = (X, grad) if ctx.transposed else (grad, X)
        grad_values = _sampled(of_rows, of_columns, ctx.plan, values.shape[0], ctx.column)
    return grad_X, grad_values, None, None, None, None


_product.register_autograd(_product_backward, setup_context=_keep_for_product)


@torch.library.custom_op("warploom::finished_product", mutates_args=())
def _finished_product(
    X: torch.Tensor,
    values: torch.Tensor | None,
    bias: torch.Tensor | None,
    plan: str,
    rows: int,
    column: bool,
    relu: bool,
) -> torch.Tensor:
    return _multiply(find_operator(plan), X, values, False, column, bias, relu)


@_finished_product.register_fake
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
    grad = _through_relu(grad, output)
    grad_X = grad_values = None
    grad_bias = grad.sum(0) if ctx.needs_input_grad[2] else None
    if ctx.needs_input_grad[0]:
        _check_version(ctx)
        grad_X = _product(grad, values, ctx.plan, ctx.n, True, ctx.column)
    if ctx.needs_input_grad[1]:
        grad_values = _sampled(grad, X, ctx.plan, values.shape[0], ctx.column)
    return grad_X, grad_values, grad_bias, None, None, None, None


_finished_product.register_autograd(_finished_backward, setup_context=_keep_for_finished)


@torch.library.custom_op("warploom::sampled_product", mutates_args=())
def _sampled(of_rows: torch.Tensor, of_columns: torch.Tensor, plan: str, nnz: int, column: bool) -> torch.Tensor:
    return _sample(find_operator(plan), of_rows, of_columns)


@_sampled.register_fake
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
        grad_rows = _product(of_columns, grad, ctx.plan, of_rows.shape[0], False, ctx.column)
    if ctx.needs_input_grad[1]:
        grad_columns = _product(of_rows, grad, ctx.plan, of_columns.shape[0], True, ctx.column)
    return grad_rows, grad_columns, None, None, None


_sampled.register_autograd(_sampled_backward, setup_context=_keep_for_sampled)


@torch.library.custom_op("warploom::maximum", mutates_args=())
def _maximum(X: torch.Tensor, values: torch.Tensor | None, plan: str, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _maxima(X, values, find_operator(plan))


@_maximum.register_fake
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
    _check_version(ctx)
    columns, of_entries = _winners(entries, grad.detach(), ctx.plan, values is None)
    needed = (ctx.needs_input_grad[0], ctx.needs_input_grad[1])
    known = of_entries if values is None else None
    return *gradients(grad, ctx.n, X, values, columns, entries, known, needed), None, None


_maximum.register_autograd(_maximum_backward, setup_context=_keep_for_maximum)


@torch.library.custom_op("warploom::winners", mutates_args=())
def _winners(
    entries: torch.Tensor, like: torch.Tensor, plan: str, with_values: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    columns, values = _winners_of(entries, find_operator(plan), with_values)
    return columns, like.new_empty(0) if values is None else values


@_winners.register_fake
def _(entries: torch.Tensor, like: torch.Tensor, plan: str, with_values: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(entries), like.new_empty(entries.shape if with_values else 0)


@torch.library.custom_op("warploom::inverse_counts", mutates_args=())
def _inverse_counts(like: torch.Tensor, plan: str, rows: int) -> torch.Tensor:
    scales: torch.Tensor = _neighbours_of(find_operator(plan)).inverse_counts
    return scales.clone()  # a compiled graph may write over it


@_inverse_counts.register_fake
def _(like: torch.Tensor, plan: str, rows: int) -> torch.Tensor:
    return like.new_empty((rows, 1))


def _maxima(
    X: torch.Tensor, values: torch.Tensor | None, operator: Plan | Operator
) -> tuple[torch.Tensor, torch.Tensor]:
    weights = _weights_of(operator) if values is None else values.detach()
    return maxima(_neighbours_of(operator), weights, X.detach())


def _winners_of(
    entries: torch.Tensor, operator: Plan | Operator, with_values: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the columns of entries, and the plan's values of them if they are wanted; 0 where there is none."""
    neighbours = _neighbours_of(operator)
    if not neighbours.indices.shape[0]:
        columns = torch.zeros_like(entries)
        return columns, columns.to(_dtype_of(operator)) if with_values else None
    numbers = entries.clamp(min=0) if neighbours.has_empty else entries
    columns = neighbours.indices[numbers]
    if neighbours.has_empty:
        columns = columns.masked_fill(entries == NONE, 0)
    return columns, _weights_of(operator)[numbers] if with_values else None


def _neighbours_of(operator: Plan | Operator) -> Neighbours:
    """Return the pattern of the matrix as tensors where the plan is, made when it is first asked for."""
    with operator._making:
        if operator._neighbours is None:
            arrays = operator._matrix_arrays()
            indptr, indices = (_tensor(array, operator).long() for array in (arrays.indptr, arrays.indices))
            operator._neighbours = Neighbours.of(
                indptr, indices[: operator.nnz].clone(), operator.shape, _dtype_of(operator)
            )
        found: Neighbours = operator._neighbours
        return found


def _weights_of(operator: Plan | Operator) -> torch.Tensor:
    """Return the values that the plan multiplies with, as a tensor where it is."""
    dtype = _dtype_of(operator)
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


def _pattern_of(operator: Plan | Operator) -> Any:
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

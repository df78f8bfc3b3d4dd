"""Products with gradients for PyTorch, which graphs of ``torch.compile`` and ``torch.export`` keep whole.

`spmm` multiplies with a plan and has gradients for the dense operand, by the transpose of the plan, and for the values
of the sparse matrix, by a product that is sampled at its entries: no dense intermediate is made. `SpMM` is the same as
a module. Gradients of gradients exist, too. Instead of sums over the neighbours of a vertex, both take means and
maxima.

Nothing else in warploom imports PyTorch. This module needs PyTorch 2.5 or newer.
"""

from __future__ import annotations

import torch

from warploom import _bfloat16
from warploom.errors import DeviceError, DtypeError, ParameterError, ShapeError
from warploom.operators import Operator, Plan, layout_of
from warploom.torch._custom_operators import finished_product, inverse_counts, maximum, product
from warploom.torch._functions import differentiable, differentiable_finished, differentiable_maximum
from warploom.torch._operations import dtype_of, prepare

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
    column = _is_column_major(plan, X)
    compiling = torch.compiler.is_compiling()
    total: torch.Tensor
    if reduce == "sum" and (bias is not None or activation is not None):
        relu = activation == "relu"
        if compiling:
            total = finished_product(X, values, bias, plan._name, plan.shape[0], column, relu)
        else:
            prepare(plan, X, values)
            total = differentiable_finished(X, values, bias, plan, column, relu)
        return total
    if compiling:
        total = product(X, values, plan._name, plan.shape[0], False, column)
    else:
        prepare(plan, X, values)
        total = differentiable(X, values, plan, False, column)
    if reduce == "sum":
        return total
    # By way of the operation the first time, too: what is made inside torch.func and kept would not outlive it.
    if compiling or plan._neighbours is None:
        scales = inverse_counts(torch.empty(0, dtype=X.dtype, device=X.device), plan._name, plan.shape[0])
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
        return maximum(X, values, plan._name, plan.shape[0])[0]  # type: ignore[no-any-return]
    return differentiable_maximum(X, values, plan)[0]  # type: ignore[no-any-return]


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
_NARROWER = {
    torch.float64: (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool),
    torch.float32: (torch.float16, torch.bfloat16, torch.bool),
}


def _is_column_major(plan: Plan | Operator, X: torch.Tensor) -> bool:
    """Return whether the product takes its operands so: as the plan was made, or as X is where one is chosen for X."""
    if isinstance(plan, Plan):
        return plan.op == "spmm" and plan.layout == "column"
    if plan._fixed is not None:
        op, _, layout = plan._fixed
        return op == "spmm" and layout == "column"
    return layout_of(X) == "column"


def _checked(plan: Plan | Operator, tensor: torch.Tensor, name: str) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise DtypeError(f"{name} must be a tensor, got {type(tensor).__name__}", argument=name)
    if tensor.layout is not torch.strided:
        raise DtypeError(f"{name} must be dense, got a tensor of layout {tensor.layout}", argument=name)
    dtype = dtype_of(plan)
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

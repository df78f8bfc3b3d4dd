"""Plans for PyTorch Geometric: its layers multiply with one where they take a sparse adjacency matrix.

`adjacency` plans the transposed adjacency matrix of a graph, and `Adjacency` makes of any plan what those layers take.
PyTorch Geometric itself is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import torch

from warploom._csr import CSR
from warploom.errors import DeviceError, DtypeError, ParameterError, ShapeError
from warploom.operators import Operator, Plan
from warploom.plan import plan as plan_of
from warploom.torch import spmm
from warploom.torch._operations import dtype_of

__all__ = ["Adjacency", "adjacency"]


def adjacency(
    edge_index: torch.Tensor,
    edge_weight: torch.Tensor | None = None,
    num_nodes: int | tuple[int, int] | None = None,
    *,
    normalize: bool = False,
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> Adjacency:
    """Plan the transposed adjacency matrix of a graph, for layers of PyTorch Geometric.

    Parameters
    ----------
    edge_index : Tensor of integers, shape (2, edges)
        Sources and targets, as PyTorch Geometric has them. The plan is made where they are. Edges may repeat.
    edge_weight : Tensor, shape (edges,), optional
        By default all are 1.
    num_nodes : int or pair of int, optional
        Number of vertices, or of sources and targets in a bipartite graph; by default as many as are in `edge_index`.
    normalize : bool
        Normalise as `GCNConv` does: D^-1/2 (A + I) D^-1/2, with loops where there are none. The layer is then to be
        made with ``normalize=False``: otherwise it would make another matrix, which has no plan, in each step.
    dtype : torch.dtype
        Of the values.
    **options
        For `warploom.plan`.

    Returns
    -------
    Adjacency
        What the layers take in place of `edge_index`.

    Raises
    ------
    ShapeError, DtypeError
        `edge_index` or `edge_weight` are not as described; `argument` names it.
    ParameterError
        A bipartite graph is to be normalised, or a vertex in `edge_index` is negative or not below `num_nodes`.

    Examples
    --------
    >>> import torch
    >>> from warploom.torch.geometric import adjacency
    >>> adj_t = adjacency(torch.tensor([[0, 1, 2], [1, 2, 0]]), device="cpu")
    >>> torch.sparse.mm(adj_t, torch.tensor([[1.0], [2.0], [4.0]])).flatten()
    tensor([4., 1., 2.])
    """
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise ShapeError(f"edge_index must have shape (2, edges), got {tuple(edge_index.shape)}", argument="edge_index")
    if edge_index.is_floating_point() or edge_index.is_complex() or edge_index.dtype == torch.bool:
        raise DtypeError(f"edge_index must be integers, got {edge_index.dtype}", argument="edge_index")
    edges = edge_index.shape[1]
    if edge_weight is not None and tuple(edge_weight.shape) != (edges,):
        raise ShapeError(
            f"edge_weight must have shape ({edges},), got {tuple(edge_weight.shape)}", argument="edge_weight"
        )
    if isinstance(num_nodes, tuple):
        n, m = num_nodes
    else:
        n = m = num_nodes if num_nodes is not None else int(edge_index.max()) + 1 if edges else 0
    if normalize and n != m:
        raise ParameterError("a bipartite graph has no loops: it cannot be normalised", argument="normalize")
    with torch.no_grad():
        sources, targets = edge_index.long()
        device = edge_index.device
        values = torch.ones(edges, device=device) if edge_weight is None else edge_weight.detach()
        values = values.to(dtype)
        inside = (targets >= 0) & (targets < m) & (sources >= 0) & (sources < n)
        if edges and not bool(inside.all()):
            raise ParameterError(
                f"edge_index names vertices outside of 0 to {max(n, m) - 1}; num_nodes says how many there are",
                argument="edge_index",
            )
        if normalize:
            sources, targets, values = _normalised(sources, targets, values, n)
        order = torch.argsort(targets * max(n, 1) + sources, stable=True)
        indptr = torch.zeros(m + 1, dtype=torch.int64, device=device)
        torch.cumsum(torch.bincount(targets, minlength=m), 0, out=indptr[1:])
        matrix = CSR(indptr, sources[order].to(torch.int32), values[order], (m, n))
        return Adjacency(plan_of(matrix, **{"device": str(device)} | options))


def _normalised(
    sources: torch.Tensor, targets: torch.Tensor, values: torch.Tensor, n: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Add the loops that there are not, one for each vertex, and normalise symmetrically."""
    loops = sources == targets
    weights = torch.ones(n, dtype=values.dtype, device=values.device)
    weights[sources[loops]] = values[loops]  # of several, one counts
    vertices = torch.arange(n, device=sources.device)
    sources = torch.cat([sources[~loops], vertices])
    targets = torch.cat([targets[~loops], vertices])
    values = torch.cat([values[~loops], weights])
    degrees = torch.zeros(n, dtype=values.dtype, device=values.device).scatter_add(0, targets, values)
    scales = degrees.pow(-0.5)
    scales = scales.masked_fill(scales.isinf(), 0)
    return sources, targets, scales[sources] * values * scales[targets]


class Adjacency(torch.Tensor):
    """A plan as layers of PyTorch Geometric take it: in place of a sparse tensor, the transposed adjacency matrix.

    It says of itself that it is a tensor in the layout ``torch.sparse_csr``. ``torch.sparse.mm`` with it, which is what
    layers compute with such a tensor (`torch_geometric.utils.spmm`), is `warploom.torch.spmm`: sums, means, maxima and
    minima, with gradients. Everything else is refused, so that no layer silently computes without the plan: layers that
    need the single edges, such as ``GATConv``, take ``edge_index`` as before.

    Parameters
    ----------
    plan : Plan or Operator
        Of the transposed adjacency matrix: row i has the edges that lead to vertex i.
    values : Tensor, shape (nnz,), optional
        Values of its entries, which may require a gradient, as `warploom.torch.spmm` takes them.

    Examples
    --------
    >>> import scipy.sparse, torch, warploom as wl
    >>> from warploom.torch.geometric import Adjacency
    >>> A = scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> adj_t = Adjacency(wl.plan(A, device="cpu"))
    >>> torch.sparse.mm(adj_t, torch.ones(2, 3, dtype=torch.float64), "mean").shape
    torch.Size([2, 3])
    """

    plan: Plan | Operator
    """What multiplies."""
    values_of_entries: torch.Tensor | None
    """Values that were given."""

    @staticmethod
    def __new__(cls, plan: Plan | Operator, values: torch.Tensor | None = None) -> Adjacency:
        """Make one: tensors have no other initialiser."""
        if not isinstance(plan, (Plan, Operator)):
            raise ParameterError(f"plan must be what warploom.plan returns, got {type(plan).__name__}", argument="plan")
        made: Adjacency = torch.Tensor._make_wrapper_subclass(
            cls, plan.shape, dtype=dtype_of(plan), device=torch.device(str(plan.device))
        )
        made.plan = plan
        made.values_of_entries = values
        return made

    @property
    def layout(self) -> torch.layout:  # type: ignore[override]
        """Layout that it stands for."""
        return torch.sparse_csr

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        """False: layers refuse to take maxima with sparse tensors on a GPU, which plans can."""
        return False

    def nnz(self) -> int:
        """Return the number of edges."""
        return self.plan.nnz

    def t(self) -> Adjacency:
        """Return the transpose, with the plan of that."""
        if self.values_of_entries is not None:
            raise ParameterError("values are those of this matrix, not of its transpose", argument="values")
        return Adjacency(self.plan.T)

    def to(self, *args: Any, **kwargs: Any) -> Adjacency:
        """Return the same, if it is there already and of that type.

        Raises
        ------
        DeviceError, DtypeError
            It is elsewhere, or of another type: a plan stays as it was made.
        """
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        where = self.device
        if device is not None and (device.type, device.index or 0) != (where.type, where.index or 0):
            raise DeviceError(f"the plan was made for {where}: make another one for {device}", argument="device")
        if dtype not in (None, self.dtype):
            raise DtypeError(f"the plan works on {self.dtype}: make another one for {dtype}", argument="dtype")
        return self

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        """Say what it is of."""
        return f"Adjacency({self.plan!r})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle it by way of the plan."""
        return Adjacency, (self.plan, self.values_of_entries)

    def __deepcopy__(self, memo: Any) -> Adjacency:
        """Return the same: layers change neither it nor its plan."""
        return self

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Multiply, answer questions about the shape, or refuse."""
        given = dict(kwargs or {})
        if func in _PRODUCTS:
            return _multiply(func, *args, **given)
        if func in _ENTRIES:
            return _Entries()
        return _answer(func, _ANSWERS, args, given)

    @classmethod
    def __torch_dispatch__(cls, func: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        """Refuse: there are no entries to compute with."""
        _refuse(func)


class _Entries(torch.Tensor):
    """Stands for numbers of edges, which layers collect for all and do not read where they multiply."""

    @staticmethod
    def __new__(cls) -> _Entries:
        made: _Entries = torch.Tensor._make_wrapper_subclass(cls, (1,), dtype=torch.int64)
        return made

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return "entries of an Adjacency, which are not there"

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _COLLECTING and (func is not torch.Tensor.__getitem__ or isinstance(args[0], cls)):
            return _Entries()
        return _answer(func, _ANSWERS, args, dict(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        _refuse(func)


_PRODUCTS = {torch.sparse.mm, torch.mm, torch.matmul, torch.Tensor.mm, torch.Tensor.matmul, torch.Tensor.__matmul__}
_ENTRIES = {torch.Tensor.crow_indices, torch.Tensor.col_indices, torch.Tensor.values}
_COLLECTING = {
    torch.Tensor.__getitem__,
    torch.Tensor.detach,
    torch.Tensor.diff,
    torch.Tensor.long,
    torch.Tensor.repeat_interleave,
    torch.stack,
}
_ANSWERS = {torch.Tensor.dim, torch.Tensor.is_floating_point, torch.Tensor.numel, torch.Tensor.size}
_PROPERTIES = {"device", "dtype", "is_sparse", "is_sparse_csr", "layout", "ndim", "requires_grad", "shape"}
_REDUCTIONS = {"sum": "sum", "mean": "mean", "amax": "max", "max": "max", "amin": "min", "min": "min"}


def _multiply(func: Any, A: Any, X: Any, reduce: str = "sum") -> torch.Tensor:
    if not isinstance(A, Adjacency) or isinstance(X, (Adjacency, _Entries)) or reduce not in _REDUCTIONS:
        _refuse(func)
    return spmm(A.plan, X, A.values_of_entries, reduce=_REDUCTIONS[reduce])


def _answer(func: Any, known: set[Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    is_property = getattr(func, "__name__", "") == "__get__"
    if func in known or (is_property and func.__self__.__name__ in _PROPERTIES):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    _refuse(func)


def _refuse(func: Any) -> NoReturn:
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        name = func.__self__.__name__
    raise ParameterError(
        f"an Adjacency multiplies, and {name} is no product. Layers that need single edges take edge_index; GCNConv is "
        "to be made with normalize=False: warploom.torch.geometric.adjacency normalises before it plans",
        argument="adj_t",
    )

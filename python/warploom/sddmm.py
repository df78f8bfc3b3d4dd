"""Sampled products of dense matrices (SDDMM): X Y^T at the stored entries of a sparse matrix only."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from warploom import _bfloat16, _core, _device
from warploom._csr import CSR, framework_of
from warploom._device_matrix import device_arrays
from warploom._matrix import as_csr
from warploom.errors import DeviceError, DtypeError, ParameterError, ShapeError
from warploom.plan import problem_of

__all__ = ["OWN", "VECTORS", "VENDOR", "ResidentPattern", "SddmmPlan", "load_vendor", "sample", "sddmm", "sddmm_plan"]

OWN = "sddmm/none/csr/warp_windows"
"""The name of the kernel that takes a pattern as it is."""

VECTORS = "sddmm/none/column-vectors/tensor_core"
"""The name of the kernel that a pattern is prepared for."""

VENDOR = "sddmm/none/csr/cusparse"
"""The name of the vendor's."""


def sddmm(A: Any, X: Any, Y: Any, *, device: str | None = None) -> Any:
    """Multiply two dense matrices at the stored entries of a sparse matrix: no dense product is made.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        As for `warploom.plan`. Its values do not count.
    X : array of shape (m, k)
    Y : array of shape (n, k)
        Of the type of `X`, where `X` is: float16, bfloat16, float32 or float64.
    device : str, optional
        ``"cuda"``, ``"cuda:N"`` or ``"cpu"``; by default where `X` is.

    Returns
    -------
    array of shape (nnz,)
        For each entry (i, j) of A, in their order, the dot product of row i of X and row j of Y; of the same kind as
        `X`. Sums of float16 and bfloat16 are those of float32, rounded once.

    Raises
    ------
    InvalidMatrixError, ShapeError, DtypeError, IndexOverflowError
        `A` is malformed, or `X` or `Y` does not fit; ``argument`` names it.
    DeviceError
        The operands are on another device.

    See Also
    --------
    sddmm_plan : checks, uploads and prepares the matrix once, for several products.
    warploom.torch.spmm : whose gradient for the values of A is such a product.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, warploom as wl
    >>> A = scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> X, Y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> values = wl.sddmm(A, X, Y)
    >>> values
    array([2., 3.])
    >>> scipy.sparse.csr_array((values, A.indices, A.indptr), A.shape).toarray()
    array([[0., 2.],
           [3., 0.]])
    """
    if device is None:
        where = _where(X)
        device = "cpu" if where is None else f"cuda:{where}"
    return sddmm_plan(A, device=device, select=OWN)(X, Y)


def sddmm_plan(A: Any, *, device: str | None = None, select: str | None = None) -> SddmmPlan:
    """Prepare sampled products for the pattern of a sparse matrix.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        As for `warploom.plan`. On a GPU its arrays may be referred to: they are to stay as they are.
    device : str, optional
        ``"cuda"``, ``"cuda:N"`` or ``"cpu"``; by default the GPU if there is one.
    select : str, optional
        ``"sddmm/none/csr/warp_windows"``; on a GPU also ``"sddmm/none/column-vectors/tensor_core"`` (operands whose
        rows are not of whole 16 bytes take ``warp_windows``), and ``"sddmm/none/csr/cusparse"``, the vendor's, not
        for bfloat16. By default the first, and the second where neighbouring rows of `A` share so many columns that it
        is faster: it is prepared at the first product that it is for, in at most 13 bytes for each entry.

    Returns
    -------
    SddmmPlan

    Raises
    ------
    InvalidMatrixError, ShapeError, IndexOverflowError
        `A` is malformed.
    ParameterError
        There is no such candidate, or it does not run there.
    DeviceError
        There is no such device.

    Notes
    -----
    On column vectors, values of float32 are taken apart into two of TF32, of which four products are summed in float32
    [1]_: a product is off by at most 2^-22 of it, and by 2^-136 times either factor. Sums of float64 are in float64.

    References
    ----------
    .. [1] Ootomo, Yokota, "Recovering single precision accuracy from Tensor Cores while avoiding the FP32 theoretical
       peak performance", International Journal of High Performance Computing Applications, 2022.
    """
    if select not in (None, OWN, VECTORS, VENDOR):
        raise ParameterError(f"select must be {OWN}, {VECTORS} or {VENDOR}, got {select!r}", argument="select")
    return SddmmPlan(A, _device.Device.parse(device), select)


class SddmmPlan:
    """Sampled products for the pattern of one matrix on one device; made by `sddmm_plan`.

    ``plan(X, Y)`` has a value for each entry of the matrix. A plan may be used from several threads.
    """

    def __init__(self, A: Any, device: _device.Device, select: str | None) -> None:
        self.device = device
        """Where it runs."""
        self.candidate = OWN if select is None else select
        """What it runs; by default, products may take column vectors, see `sddmm_plan`."""
        self._lock = threading.Lock()
        self._vendor: dict[str, _core.PreparedSampledProduct] = {}
        self._fast_path: Callable[[Any, Any, Any], Any] = _takes_nothing
        vendor = select == VENDOR
        if device.kind == "cpu":
            if select not in (None, OWN):
                raise ParameterError(f"{select} runs on a GPU only", argument="select")
            view = as_csr(A, pattern_only=True)
            self._pattern: Any = _core.CsrView(view.indptr.copy(), view.indices.copy(), None, *view.shape)
        else:
            self._pattern = ResidentPattern.of(A, device, vectors={None: None, VECTORS: True}.get(select, False))
            if vendor:
                load_vendor()
            else:
                self._fast_path = self._pattern.fast_path
        self.shape: tuple[int, int] = self._pattern.shape
        """Rows and columns of the matrix."""
        self.nnz: int = self._pattern.nnz
        """Stored entries of it."""
        if vendor and self.nnz > self.shape[0] * self.shape[1]:
            raise ParameterError(f"{select} takes at most rows x columns nonzeros", argument="select")

    def __call__(self, X: Any, Y: Any, out: Any = None) -> Any:
        """Multiply.

        Parameters
        ----------
        X : array of shape (m, k)
        Y : array of shape (n, k)
            NumPy arrays or tensors in host memory, or torch tensors or CuPy arrays on the GPU of the plan, where the
            product is enqueued on the caller's current stream. Rows that are not contiguous are copied.
        out : array of shape (nnz,), optional
            Overwritten with the result; contiguous, of the kind and type of `X`, and apart from `X` and `Y` in memory.

        Returns
        -------
        array of shape (nnz,)

        Raises
        ------
        ShapeError, DtypeError, DeviceError, ParameterError
            An operand does not fit, or has rows of 4 GiB and more on a GPU; ``argument`` names it.
        """
        result = self._fast_path(X, Y, out)
        if result is not NotImplemented:
            return result
        return self._multiply(X, Y, out)

    def _multiply(self, X: Any, Y: Any, out: Any) -> Any:
        """Multiply, after operands have been looked at one by one, and copied or refused."""
        X, Y = (np.asarray(given) if isinstance(given, (list, tuple)) else given for given in (X, Y))
        dtype = _type_of(X)
        x, y = _rows(X, dtype, self.shape[0], "X"), _rows(Y, dtype, self.shape[1], "Y")
        if x.columns != y.columns:
            raise ShapeError(f"Y must have {x.columns} columns, as X has, got {y.columns}", argument="Y")
        for operand, name in ((x, "X"), (y, "Y")):
            if operand.on_gpu and (self.device.kind == "cpu" or operand.device != self.device.ordinal):
                raise DeviceError(
                    f"the plan was made for {self.device} but {name} is on GPU {operand.device}", argument=name
                )
        if x.on_gpu != y.on_gpu:
            raise DeviceError("Y must be where X is", argument="Y")
        made: Any = None
        if out is None:
            made, address, _ = x.new(self.nnz, 1, "column")
        else:
            address = _values(out, x, y, dtype, self.nnz).pointer
        if x.on_gpu:
            self._enqueue(x, y, address, _bfloat16.name_of(dtype))
        else:
            found = self._on_host(_device.host_array(x.owner), _device.host_array(y.owner))
            _device.host_array(made if out is None else out).reshape(-1)[...] = found
        return _device.finish(made).reshape(-1) if out is None else out

    def _on_host(self, X: Any, Y: Any) -> Any:
        if self.device.kind == "cpu":
            return _core.sampled_product(self._pattern, X, Y)
        if self.candidate == VENDOR:
            raise DeviceError("operands of cuSPARSE's sampled product must be in GPU memory", argument="X")
        return _core.sampled_product_of_host_operands(self._pattern.csr, X, Y, self.nnz)

    def _enqueue(self, x: _device.Operand, y: _device.Operand, out: int, dtype: str) -> None:
        if self.candidate != VENDOR:
            self._pattern.multiply(dtype, x.pointer, y.pointer, x.columns, out, x.stream)
            return
        with self._lock:
            if dtype not in self._vendor:
                self._vendor[dtype] = _core.PreparedSampledProduct.vendor(self._pattern.csr, dtype, self.nnz)
            self._vendor[dtype].run(dtype, x.pointer, y.pointer, x.columns, out, x.stream)

    def __repr__(self) -> str:
        m, n = self.shape
        return f"<SddmmPlan {self.candidate} for {m} x {n}, nnz={self.nnz}, on {self.device}>"


class ResidentPattern:
    """A pattern in GPU memory, and column vectors of it once a product takes them.

    `kept` is what the pattern may be a view of. With `vectors`, products always take column vectors, which are made at
    once; they never do if it is False, and by default where that pays for their type.
    """

    def __init__(self, problem: Any, *, vectors: bool | None = None) -> None:
        self.csr: _core.DeviceCsr = problem.resident()
        self.kept = problem
        self.shape: tuple[int, int] = problem.shape
        self.nnz: int = problem.nnz
        self.core = _core.SampledPattern(self.csr, self.nnz, vectors)
        self.multiply = self.core.multiply
        self.fast_path = self.core.fast_path()

    @classmethod
    def of(cls, A: Any, device: _device.Device, *, vectors: bool | None = None) -> ResidentPattern:
        """Upload the pattern of a matrix, or refer to that of one on the GPU."""
        given = A if device_arrays(A) is not None else _with_ones(A)
        return cls(problem_of(given, "spmv", None, None, "column", "warm", device), vectors=vectors)


def sample(pattern: Any, X: Any, Y: Any) -> Any:
    """Multiply two contiguous tensors at the entries of a pattern: what the gradients of `warploom.torch` are made of.

    `pattern` is a validated `_core.CsrView` in host memory, or a `ResidentPattern`.
    """
    import torch

    if X.device.type == "cpu":
        found = _core.sampled_product(pattern, _bfloat16.of_tensor(X), _bfloat16.of_tensor(Y))
        return _bfloat16.to_tensor(found)
    found = pattern.fast_path(X, Y, None)
    if found is not NotImplemented:
        return found
    out = X.new_empty(pattern.nnz)
    stream = torch.cuda.current_stream(X.device).cuda_stream
    name = _bfloat16.name_of(X.dtype)
    pattern.multiply(name, X.data_ptr(), Y.data_ptr(), X.shape[1], out.data_ptr(), stream)
    return out


def _takes_nothing(X: Any, Y: Any, out: Any) -> Any:
    return NotImplemented


def load_vendor() -> None:
    """Load cuSPARSE; `ParameterError` if it is not there."""
    if reason := _device.load_cusparse():
        raise ParameterError(f"{VENDOR} needs cuSPARSE: {reason}", argument="select")


def _with_ones(A: Any) -> Any:
    """Return the pattern of a matrix in host memory with values of a supported type, whatever those of it are."""
    view = as_csr(A, pattern_only=True)
    return CSR(view.indptr, view.indices, np.ones(view.nnz, np.float32), view.shape)


def _where(X: Any) -> int | None:
    """Return the number of the GPU that an operand is on; None for the host."""
    framework = framework_of(X)
    if framework == "torch":
        return int(X.device.index) if X.device.type == "cuda" else None
    if framework == "cupy":
        return int(X.device.id)
    return int(X.__dlpack_device__()[1]) if _device.is_dlpack_cuda(X) else None


def _type_of(X: Any) -> np.dtype[Any]:
    given = getattr(X, "dtype", type(X).__name__)
    try:
        dtype = given if isinstance(given, np.dtype) else _bfloat16.as_dtype(_bfloat16.name_of(given))
    except TypeError:
        dtype = np.dtype(object)
    if dtype not in (np.float16, np.float32, np.float64, _bfloat16.DTYPE):
        name = str(given).removeprefix("torch.")
        raise DtypeError(f"X must be float16, bfloat16, float32 or float64, got {name}", argument="X")
    return dtype


def _rows(given: Any, dtype: np.dtype[Any], rows: int, name: str) -> _device.Operand:
    """View an operand whose rows follow each other without a gap; copies it if they do not."""
    shape = tuple(getattr(given, "shape", ()))
    if len(shape) != 2 or shape[0] != rows:
        raise ShapeError(f"{name} must have shape ({rows}, k), got {shape}", argument=name)
    seen = _device.operand(given, dtype, "row", name)
    if seen.leading_dimension == max(shape[1], 1) or 0 in shape:
        return seen
    packed = given.contiguous() if framework_of(given) == "torch" else given.copy()
    return _device.operand(packed, dtype, "row", name)


def _values(out: Any, x: _device.Operand, y: _device.Operand, dtype: np.dtype[Any], nnz: int) -> _device.Operand:
    """Check what a result is written to."""
    shape = tuple(getattr(out, "shape", ()))
    if shape != (nnz,):
        raise ShapeError(f"out must have shape ({nnz},), got {shape}", argument="out")
    seen = _device.operand(out.reshape(-1, 1), dtype, "column", "out")
    if seen.device != x.device:
        raise DeviceError("out must be where X is", argument="out")
    if seen.copied or (isinstance(out, np.ndarray) and not (out.flags.writeable and out.flags.c_contiguous)):
        raise ParameterError("out must be contiguous and writable", argument="out")
    for operand, name in ((x, "X"), (y, "Y")):
        if _device.share(operand, "row", seen, "column", dtype):
            raise ParameterError(f"out shares memory with {name}, which is read while out is written", argument="out")
    return seen

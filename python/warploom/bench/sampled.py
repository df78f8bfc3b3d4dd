"""Sampled products of dense matrices (SDDMM) in a sweep: their candidates, operands, check and times."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from warploom import CSR, _bfloat16, _core
from warploom._device import Device
from warploom._matrix import as_csr
from warploom.errors import ParameterError
from warploom.sddmm import OWN, VECTORS, VENDOR, ResidentPattern, load_vendor

__all__ = ["Operands", "Times", "candidates"]

_NUMBERS = 1_000_003
"""Different values in an operand, which repeat: prime, so that they do not with the rows."""

_SAMPLED = 4096
"""Entries that are compared with sums in float64."""

_SUM_EPS = {"float64": 2.0**-52}
"""Of the type that products are summed in; that of float32 for the others."""


@dataclasses.dataclass(frozen=True)
class Times:
    """Repeated times, in microseconds."""

    median: float
    p10: float
    p90: float
    repeats: int


def candidates(dtype: str, device: str) -> list[str]:
    """Return the names of what computes sampled products: warploom's own and, on a GPU, the vendor's."""
    if device != "cuda":
        return [OWN]
    return [OWN, VECTORS] if dtype == "bfloat16" else [OWN, VECTORS, VENDOR]


class Operands:
    """Operands of the sampled products of a pattern on a device.

    Parameters
    ----------
    A : scipy.sparse.csr_array
        The pattern.
    dtype : str
        Of the dense matrices.
    k : int
        Their columns.
    device : Device

    Raises
    ------
    OutOfMemoryError, MemoryError
        They do not fit.
    """

    def __init__(self, A: scipy.sparse.csr_array, dtype: str, k: int, device: Device) -> None:
        self.dtype, self.device = dtype, device
        self._view = as_csr(A, pattern_only=True)
        self.nnz = int(self._view.nnz)
        kind = _bfloat16.as_dtype(dtype)
        random = np.random.default_rng(0)
        numbers = _bfloat16.cast(random.uniform(-1, 1, _NUMBERS).astype(np.float32), kind)
        self.X, self.Y = (np.resize(numbers[shift:], (rows, k)) for rows, shift in zip(A.shape, (0, 1), strict=True))
        self._trial: Any = None
        if device.kind == "cuda":
            ones = CSR(self._view.indptr, self._view.indices, np.ones(self.nnz, np.float32), A.shape)
            self._pattern = ResidentPattern.of(ones, device, vectors=False)
            self._trial = _core.SampledTrial(self._pattern.csr, self.X, self.Y, self.nnz)
        self._prepared: dict[str, Any] = {OWN: None}

    def _of(self, candidate: str) -> Any:
        """Return the prepared product, or None for the kernel that takes the pattern as it is."""
        if candidate not in (OWN, VECTORS, VENDOR) or (candidate != OWN and self._trial is None):
            raise ParameterError(f"{candidate} does not run on {self.device}", argument="candidate")
        if candidate not in self._prepared:
            if candidate == VENDOR:
                load_vendor()
                made = _core.PreparedSampledProduct.vendor(self._pattern.csr, self.dtype, self.nnz)
            else:
                made = _core.PreparedSampledProduct.column_vectors(self._pattern.csr)
            self._prepared[candidate] = made
        return self._prepared[candidate]

    def _values(self, candidate: str) -> NDArray[Any]:
        prepared = self._of(candidate)
        if self._trial is not None:
            return np.asarray(self._trial.values(prepared))
        return np.asarray(_core.sampled_product(self._view, self.X, self.Y))

    def check(self, candidate: str) -> str:
        """Compare a sample of the values with sums in float64; return what is wrong, or the empty string."""
        if self.nnz == 0:
            return ""
        found = self._values(candidate)
        places = np.unique(np.linspace(0, self.nnz - 1, min(self.nnz, _SAMPLED)).astype(np.int64))
        rows = np.searchsorted(self._view.indptr, places, side="right") - 1
        x, y = self._doubles(self.X[rows]), self._doubles(self.Y[self._view.indices[places]])
        products = x * y
        exact, scale = products.sum(axis=1), np.abs(products).sum(axis=1)
        kind = _bfloat16.as_dtype(self.dtype)
        rounded_once = _bfloat16.eps_of(kind) if self.dtype.endswith("float16") else 0.0
        sum_eps = _SUM_EPS.get(self.dtype, 2.0**-23)
        bound = (x.shape[1] + 2) * (sum_eps * scale + 2.0**-133) + rounded_once * np.abs(exact) + 2.0**-24
        wrong = ~(np.abs(self._doubles(found[places]) - exact) <= bound)
        return f"wrong result in {wrong.sum()} of {len(places)} sampled entries" if wrong.any() else ""

    @staticmethod
    def _doubles(values: NDArray[Any]) -> NDArray[np.float64]:
        return _bfloat16.cast(np.ascontiguousarray(values), np.dtype(np.float64))

    def time(self, candidate: str, *, cold: bool, repeats: int, warmup: int, budget_ms: float) -> Times:
        """Time a candidate: fewer repeats, but at least three, where they would take longer than the budget.

        On a CPU nothing is evicted from its caches.
        """
        prepared = self._of(candidate)
        if self._trial is not None:
            found = self._trial.time(prepared, cold=cold, repeats=repeats, warmup=warmup, budget_ms=budget_ms)
            return Times(found.median, found.p10, found.p90, found.repeats)
        start = time.perf_counter()
        times: list[float] = []
        while len(times) < min(3, repeats) or (
            len(times) < repeats and 1e3 * (time.perf_counter() - start) < budget_ms
        ):
            begin = time.perf_counter()
            _core.sampled_product(self._view, self.X, self.Y)
            times.append(1e6 * (time.perf_counter() - begin))
        p10, median, p90 = np.percentile(times, [10, 50, 90]).tolist()
        return Times(median, p10, p90, len(times))

"""Kernels of experiments on one matrix: checked and timed like any candidate."""

from __future__ import annotations

from typing import Any

import scipy.sparse

from warploom import _core
from warploom._device import Device
from warploom._matrix import as_csr
from warploom.candidates import Candidate, find_kernel
from warploom.errors import DeviceError

__all__ = ["TIMES", "Products", "nonzeros"]

TIMES = {
    "cache": "the L2 cache before each run: warm, or cold (overwritten)",
    "median_us": "median time between CUDA events, in microseconds",
    "p10_us": "10th percentile of the times, in microseconds",
    "p90_us": "90th percentile of the times, in microseconds",
    "repeats": "timed runs; two more before them are not counted",
}
"""Columns of times, for `warploom.experiments.registry.register`."""
_CACHES = ("cold", "warm")


class Products:
    """A matrix in the memory of a GPU, and a vector to multiply it with.

    Parameters
    ----------
    A : csr_array, shape (m, n)
    dtype : {"float32", "float64"}
    device : Device
    """

    def __init__(self, A: scipy.sparse.csr_array, dtype: str, device: Device) -> None:
        self.matrix = as_csr(A, dtype=dtype)
        self._problem = _core.Problem(self.matrix, "spmv", 1, "column", "warm", device.number)
        self.resident: _core.DeviceCsr = self._problem.resident()
        self._trial = _core.Trial(self._problem)

    def registered(self, format: str, kernel: str, **parameters: int) -> _core.Plan:
        """Prepare a kernel of the registry."""
        candidate = Candidate.make(find_kernel("spmv", format, kernel), "none", parameters)
        return _core.prepare(self._problem, candidate)

    def check(self, prepared: _core.Plan, what: str) -> None:
        """Compare the product with float64 sums.

        Raises
        ------
        DeviceError
            It is wrong.
        """
        wrong = self._trial.check(prepared)
        if wrong:
            raise DeviceError(f"{what} on a matrix of {self.matrix.nnz} nonzeros: {wrong}")

    def times(self, prepared: _core.Plan) -> list[dict[str, Any]]:
        """Time with a cold and with a warm L2 cache; one row of `TIMES` for each."""
        rows = []
        for cache in _CACHES:
            found = self._trial.time(prepared, cache=cache, repeats=20, budget_ms=20.0)
            rows.append(
                {
                    "cache": cache,
                    "median_us": found.median,
                    "p10_us": found.p10,
                    "p90_us": found.p90,
                    "repeats": found.repeats,
                }
            )
        return rows


def nonzeros(matrix: _core.CsrView) -> dict[str, int]:
    """Return rows, columns and nonzeros, for rows of tables."""
    return {"rows": matrix.shape[0], "cols": matrix.shape[1], "nnz": matrix.nnz}

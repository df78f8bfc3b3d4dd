"""Products as the core knows them, of matrices wherever they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from warploom import _bfloat16, _core, _device
from warploom._csr import CSR
from warploom._device_matrix import device_arrays
from warploom._matrix import as_csr

__all__ = ["make_problem"]


def make_problem(
    A: Any, op: str, columns: int, wanted: np.dtype[Any] | None, order: str, cache: str, device: _device.Device
) -> _core.Problem:
    """Describe a product on a device. A matrix that is there stays where it is; any other one is in host memory."""
    if device.kind == "cuda":
        name = None if wanted is None else _bfloat16.name_of(wanted)
        of_tensors = _core.Problem.of_tensors(A, name, op, columns, order, cache, device.ordinal)
        if of_tensors is not None:
            return of_tensors
    allocate = _device.allocator_for(A.data if isinstance(A, CSR) else A, device)
    if device.kind == "cuda":
        found = device_arrays(A)
        # Above, the host numbers nonzeros with 64 bits.
        if found is not None and found.device == device.ordinal and found.num_indices < 2**31:
            values = found.values_as(wanted)
            if values is not None:
                return _core.Problem.on_gpu(
                    (found.indptr, found.shape[0] + 1, found.indptr_itemsize),
                    (found.indices, found.num_indices, found.indices_itemsize),
                    (values.data, values.size, values.itemsize),
                    values.dtype,
                    *found.shape,
                    op,
                    columns,
                    order,
                    cache,
                    device.ordinal,
                    found.stream,
                    allocate,
                    (found.owner, values.owner),
                )
    return _core.Problem(as_csr(A, dtype=wanted), op, columns, order, cache, device.number, allocate)

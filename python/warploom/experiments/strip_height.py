"""Bandwidth against the height of strips, of kernels that only read and of CMRS (Koza et al. 2014, Fig. 6.1).

The higher the strips, the more shared memory the kernel of CMRS needs, and the fewer threads a multiprocessor holds.
Kernels that read columns and values, reserve as much, and compute nothing show the cost of that alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from warploom import _core, corpus
from warploom._device import Device
from warploom.bandwidth import beta_minus, beta_plus
from warploom.experiments._products import TIMES, Products, nonzeros
from warploom.experiments.registry import Progress, register

__all__ = ["MATRICES", "strip_height"]

MATRICES: Mapping[str, str] = {
    "shell(around=400,along=400)": "shell, 960,000 rows",
    "shell(around=100,along=100)": "shell, 60,000 rows",
    "grid2d(nx=2000,ny=2000)": "5-point grid",
    "molecule(nx=34,ny=34,nz=34,percent=60)": "molecule",
    "uniform(m=1000001,n=1000001,per_row=16)": "uniform",
}
"""Names and labels. The paper's is rma10: 46,835 rows of 50 nonzeros on average, neighbouring rows alike. Shells have
54 and are the nearest to it; only the larger one fills the memory of a large GPU with requests."""

_HEIGHTS_READ = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)
_HEIGHTS = (1, 2, 4, 8, 16)


@register(
    "strip-height",
    "Bandwidth of CMRS, and of kernels that only read its arrays, against the strip height",
    items=("C-F6.1",),
    columns={
        "matrix": "name of the construction",
        "label": "label in pictures",
        "rows": "rows",
        "cols": "columns",
        "nnz": "nonzeros",
        "dtype": "value type",
        "kernel": "stream: reads columns and values; strips: reads them as CMRS does; cmrs: the product",
        "height": "rows of a strip; words of shared memory for each thread",
        "occupancy": "share of its threads that a multiprocessor holds; empty where it is not known",
        "bytes": "bytes that the kernel reads and writes; of the product, those of the matrix, x and y once (beta+)",
        "bytes_beta_minus": "of the product, bytes if no entry of x were found in a cache (beta-); otherwise `bytes`",
        **TIMES,
    },
)
def strip_height(device: Device, progress: Progress, matrices: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Time CMRS and kernels that only read, for every height.

    Parameters
    ----------
    device : Device
        A GPU.
    progress : callable
        Told of every matrix.
    matrices : mapping from str to str, optional
        Names for `warploom.corpus.load`, and labels; `MATRICES` if not given.

    Returns
    -------
    pandas.DataFrame
        One row for each matrix, value type, kernel, height and state of the L2 cache.

    Raises
    ------
    DeviceError
        The product is wrong.
    """
    chosen = MATRICES if matrices is None else matrices
    rows: list[dict[str, Any]] = []
    for done, (name, label) in enumerate(chosen.items()):
        progress(done, len(chosen), f"strip-height: {label}")
        A = corpus.load(name)
        for dtype in ("float64", "float32"):
            products = Products(A, dtype, device)
            known = {"matrix": name, "label": label, **nonzeros(products.matrix), "dtype": dtype}
            rows += [known | row for row in (*_reading(products, device), *_multiplying(products))]
    return pd.DataFrame(rows)


def _reading(products: Products, device: Device) -> Iterator[dict[str, Any]]:
    matrix = products.matrix
    dtype = matrix.data.dtype
    for height in _HEIGHTS_READ:
        for kernel in ("stream", "strips"):
            strips = kernel == "strips"
            prepared = _core.prepare_cmrs_read(matrix, products.resident, height=height, strips=strips)
            moved = _bytes_read(matrix, height) if strips else matrix.nnz * (dtype.itemsize + 4)
            known = {
                "kernel": kernel,
                "height": height,
                "occupancy": _core.cmrs_read_occupancy(device.ordinal, dtype, height=height, strips=strips),
                "bytes": moved,
                "bytes_beta_minus": moved,
            }
            for row in products.times(prepared):
                yield known | row


def _bytes_read(matrix: _core.CsrView, height: int) -> int:
    """Bytes that a kernel that reads strips moves: beta+ without x."""
    size = matrix.data.dtype.itemsize
    return beta_plus(matrix.shape[0], matrix.nnz, size, num_cols=0, height=height)


def _multiplying(products: Products) -> Iterator[dict[str, Any]]:
    matrix = products.matrix
    (m, n), size = matrix.shape, matrix.data.dtype.itemsize
    for height in _HEIGHTS:
        prepared = products.registered("cmrs", "basic", height=height)
        products.check(prepared, f"CMRS of height {height}")
        known = {
            "kernel": "cmrs",
            "height": height,
            "occupancy": np.nan,
            "bytes": beta_plus(m, matrix.nnz, size, num_cols=n, height=height),
            "bytes_beta_minus": beta_minus(m, matrix.nnz, size, height=height),
        }
        for row in products.times(prepared):
            yield known | row

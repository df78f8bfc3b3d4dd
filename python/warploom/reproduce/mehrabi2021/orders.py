"""Mehrabi et al. (2021): what is compared, and on which products.

C = A B in float32, both dense matrices column-major and B square, as in the paper; the L2 cache is emptied before each
product.
"""

from __future__ import annotations

import pandas as pd

from warploom import permutations
from warploom.reproduce.context import Context

__all__ = ["ORDERS", "PLAIN", "VENDOR", "per_matrix"]

PLAIN = "spmm/none/csr/c_stationary"
ORDERS = {
    "csr": PLAIN,
    "dcsr": "spmm/none/dcsr/c_stationary",
    **{name: f"spmm/{name}/csr/c_stationary" for name in permutations.paper_names() if name != "none"},
}
VENDOR = "spmm/none/csr/cusparse*"
"""All algorithms of cuSPARSE on CSR: the fastest counts."""


def per_matrix(context: Context, times: pd.DataFrame, **more: pd.Series) -> pd.DataFrame:
    """Return rows, nonzeros and times of every matrix, with more columns."""
    sizes = context.sizes(times.index)
    return pd.DataFrame(
        {
            "rows": sizes["rows"],
            "nnz": sizes["nnz"],
            **{f"{name} us": times[name] for name in times},
            **more,
        }
    ).reset_index(names="matrix")

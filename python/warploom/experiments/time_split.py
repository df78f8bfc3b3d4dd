"""How the time of CSR-vector splits into random access to x, arithmetic, and the rest (Lu and Liu 2023, Fig. 2).

The paper does not say how it splits the time. Here, kernels leave parts out: without random access, a row reads
one x of its own instead of one for each nonzero; without arithmetic, what is read is neither multiplied nor added,
and no threads exchange sums. All read the row offsets, columns and values, and write y. The cost of a part is the time
that a kernel saves by leaving it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from warploom import _core, corpus
from warploom._device import Device
from warploom.experiments._products import TIMES, Products, nonzeros
from warploom.experiments.registry import Progress, register

__all__ = ["MATRICES", "VARIANTS", "time_split"]

MATRICES: Mapping[str, str] = {
    # of the paper's representative matrices, those that follow from a definition
    "epidemic_chain(population=1024)": "mc2depi",
    "wilson_lattice(nx=8,ny=8,nz=8,nt=8)": "conf5_4-8x8-10",
    "shell(around=100,along=100)": "shell",
    "elasticity2d(nx=671,ny=671)": "elasticity",
    "grid2d(nx=2000,ny=2000)": "5-point grid",
    "grid3d(nx=100,ny=100,nz=100,stencil=27)": "27-point grid",
    "banded(n=500001,lower=12,upper=12)": "banded",
    "block_banded(blocks=30001,size=12)": "block-banded",
    "molecule(nx=34,ny=34,nz=34,percent=60)": "molecule",
    "mycielskian(k=15)": "Mycielskian",
    "power_law_rows(m=900001,n=900001,shortest=3)": "power-law rows",
    "circuit(n=2000001)": "circuit",
    "dense_rows(n=900001,count=12,percent=60)": "dense rows",
    "uniform(m=1000001,n=1000001,per_row=16)": "uniform",
    "web_crawl(n=400001,degree=15)": "web crawl",
    "rmat(scale=19,edge_factor=16)": "R-MAT",
}
"""Of 2 to 26 million nonzeros, by what tables and pictures call them; the regular ones first."""

VARIANTS: Mapping[str, tuple[bool, bool]] = {
    "full": (True, True),
    "no random access": (False, True),
    "no arithmetic": (True, False),
    "neither": (False, False),
}
"""Whether a variant reads x at the columns, and whether it computes."""

_LONGEST_OF_SCALAR = 100_000
"""One thread takes longer for a longer row than all others together, and the split is that of one thread."""


@register(
    "time-split",
    "Split of the time of CSR SpMV into random access, arithmetic and the rest",
    items=("D-F2",),
    columns={
        "matrix": "name of the construction",
        "label": "label in pictures",
        "rows": "rows",
        "cols": "columns",
        "nnz": "nonzeros",
        "dtype": "value type",
        "kernel": "scalar: one thread for each row; vector: as many as the formula of CUSP gives",
        "threads_per_row": "threads that share a row",
        "variant": f"what of the kernel is kept: {', '.join(VARIANTS)}",
        **TIMES,
    },
)
def time_split(device: Device, progress: Progress, matrices: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Time CSR-vector and its variants.

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
        One row for each matrix, value type, kernel, variant and state of the L2 cache.

    Raises
    ------
    DeviceError
        The full kernel gives a wrong result.
    """
    chosen = MATRICES if matrices is None else matrices
    rows: list[dict[str, Any]] = []
    for done, (name, label) in enumerate(chosen.items()):
        progress(done, len(chosen), f"time-split: {label}")
        A = corpus.load(name)
        for dtype in ("float64", "float32"):
            products = Products(A, dtype, device)
            known = {"matrix": name, "label": label, **nonzeros(products.matrix), "dtype": dtype}
            rows += [known | row for row in _variants(products)]
    return pd.DataFrame(rows)


def _variants(products: Products) -> list[dict[str, Any]]:
    kernels = {"vector": _core.threads_per_row_mean(products.matrix)}
    if np.diff(products.matrix.indptr).max(initial=0) <= _LONGEST_OF_SCALAR:
        kernels["scalar"] = 1
    rows = []
    for kernel, threads in kernels.items():
        for variant, (gather, arithmetic) in VARIANTS.items():
            prepared = _core.prepare_csr_parts(
                products.matrix, products.resident, threads_per_row=threads, gather=gather, arithmetic=arithmetic
            )
            if variant == "full":
                products.check(prepared, f"CSR with {threads} threads per row")
            known = {"kernel": kernel, "threads_per_row": threads, "variant": variant}
            rows += [known | row for row in products.times(prepared)]
    return rows

"""Koza et al. (2014), CMRS: what is compared, and on which matrices.

Square matrices of 10^6 to 10^8 nonzeros, as in the paper, which leaves out those with a few dense rows too: here those
whose longest row has more than 20,000 nonzeros and a hundred times the mean. The paper's GPUs had at most 1.5 MB of L2
cache; that of current GPUs would hold many of these matrices, and is therefore emptied before each product. CUSP's
kernel is CSR-vector with threads per row by the mean row length. HYB is warploom's, since cuSPARSE no longer has it.
The parameters of CMRS that the paper chooses for all matrices are those with the best geometric mean here.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.csr_vector import VECTOR, by_mean
from warploom.reproduce.sweep import Sweep

__all__ = [
    "ALTERNATIVES",
    "DOUBLE",
    "KERNELS",
    "SINGLE",
    "SOME_ROWS",
    "VARIANTS",
    "best_variant",
    "of_size",
    "row_length_axis",
    "times_of_kernels",
]

_LEAST, _MOST = 10**6, 10**8
_DENSE_ROW = 20_000
VARIANTS = {
    "CMRS 8": "spmv/none/cmrs/basic",
    "CMRS 4": "spmv/none/cmrs/basic[height=4]",
    "CMRS 8 sorted": "spmv/none/cmrs/basic[sort_columns=1]",
    "CMRS 4 sorted": "spmv/none/cmrs/basic[height=4,sort_columns=1]",
}
_OTHERS = {
    "scalar": "spmv/none/csr/scalar",
    "HYB": "spmv/none/hyb/fused",
    "cuSPARSE": "spmv/none/csr/cusparse",
}
KERNELS = {**{f"vector {t}": name for t, name in VECTOR.items()}, **_OTHERS, **VARIANTS}
SOME_ROWS = tuple(f"vector {t}" for t in VECTOR if t != "32")
DOUBLE = Sweep("spmv/float64", "cold", KERNELS, optional=SOME_ROWS)
SINGLE = Sweep("spmv/float32", "cold", KERNELS, optional=SOME_ROWS)
ALTERNATIVES = ("vector", "scalar", "HYB", "cuSPARSE", "CUSP")


def of_size(context: Context, times: pd.DataFrame, sweep: Sweep) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the times and sizes of square matrices of the paper's range of nonzeros, without dense rows."""
    sizes = context.sizes(times.index)
    longest, mean = sizes["spmv_nnz_per_row_max"], sizes["nnz"] / sizes["rows"]
    dense_rows = (longest > _DENSE_ROW) & (longest > 100 * mean)
    chosen = ((sizes["rows"] == sizes["cols"]) & sizes["nnz"].between(_LEAST, _MOST) & ~dense_rows).to_numpy()
    if not chosen.any():
        raise context.missing("square matrices of 10^6 to 10^8 nonzeros with these times", sweep.command())
    return times[chosen], sizes[chosen]


def times_of_kernels(context: Context, sweep: Sweep) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """Return the times of the kernels that are compared, sizes with the mean row length, and the height of CMRS."""
    needed = ("vector 32", "cuSPARSE", *VARIANTS)
    times, sizes = of_size(context, context.times(sweep, needed), sweep)
    universal, height = best_variant(times[list(VARIANTS)])
    vectors = times[[f"vector {t}" for t in VECTOR]]
    threads = pd.Series(by_mean(sizes), index=times.index)
    cusp = pd.Series([vectors.at[m, f"vector {t}"] for m, t in threads.items()], index=times.index)
    kernels = pd.DataFrame(
        {
            "vector": times["vector 32"],
            "scalar": times["scalar"],
            "HYB": times["HYB"],
            "cuSPARSE": times["cuSPARSE"],
            "CUSP": cusp,
            "CMRS": times[universal],
        }
    )
    if "modified CMRS" in times:
        kernels["modified CMRS"] = times["modified CMRS"]
    return kernels, sizes.assign(mu=sizes["nnz"] / sizes["rows"]), height


def best_variant(times: pd.DataFrame) -> tuple[str, int]:
    """Return the variant with the best geometric mean over the best for each matrix, and its height."""
    loss = np.log(times.div(times.min(axis=1), axis=0)).mean()
    name = str(loss.idxmin())
    return name, int(name.split()[1])


def row_length_axis(axis: Axes) -> None:
    """Make the x axis one of mean row lengths."""
    drawing.log_axis(axis, "x")
    axis.set_xlabel("mean row length")
    drawing.grid(axis)

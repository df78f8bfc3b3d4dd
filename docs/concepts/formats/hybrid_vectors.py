"""The picture of HybridVectors: which rows of a matrix with both kinds of windows are stored how."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from matplotlib.figure import Figure

from warploom.formats import HybridVectors
from warploom.reproduce import drawing

VECTOR, OTHER, PADDING = "#9ECAE1", "#F5C06B", "#E4E4E4"


def draw() -> Figure:
    """Draw the entries of three windows, and the places that vectors fill up."""
    rng = np.random.default_rng(4)
    dense = np.zeros((24, 32))
    for window, columns in ((0, [1, 2, 9, 17, 30]), (2, [0, 4, 5, 20, 21, 22, 28])):
        for column in columns:
            dense[8 * window : 8 * window + 8, column] = rng.random(8) < 0.75
    dense[8:16] = rng.random((8, 32)) < 0.06
    stored = HybridVectors.from_csr(scipy.sparse.csr_array(dense))
    fills = np.where(dense != 0, OTHER, "")
    windows = np.zeros(dense.shape, bool)
    vectors = stored.vectors
    for window, (begin, end) in enumerate(zip(vectors.indptr, vectors.indptr[1:], strict=False)):
        rows = stored.vector_rows[8 * window : 8 * window + 8]
        windows[np.ix_(rows, vectors.indices[begin:end])] = True
    fills[windows] = np.where(dense != 0, VECTOR, PADDING)[windows]
    figure = drawing.figure(2.6, width=drawing.PAGE)
    axis = figure.subplots()
    drawing.pattern(axis, [[""] * 32] * 24, lambda row, col: str(fills[row, col]) or None)
    places = stored.vectors.places
    axis.set_title(
        f"{len(stored.vector_rows)} rows in {places // 8} vectors of {stored.vectors.nnz} nonzeros (blue; grey: places "
        f"without one), {len(stored.other_rows)} rows in CSR with {stored.others.nnz} (yellow)"
    )
    return figure

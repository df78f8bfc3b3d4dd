"""What is known about a matrix before it is loaded, and how to load it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import scipy.sparse

from warploom.corpus.names import Arranged, Reordered, Step

__all__ = ["COLLECTION_LICENCE", "UNKNOWN_LICENCE", "Entry", "Loader", "Progress"]

COLLECTION_LICENCE = (
    "CC-BY 4.0; cite Davis and Hu, The University of Florida sparse matrix collection, ACM Trans. Math. Softw. 38(1), "
    "2011, doi:10.1145/2049662.2049663, and Kolodziej et al., The SuiteSparse Matrix Collection Website Interface, "
    "J. Open Source Softw. 4(35), 2019, doi:10.21105/joss.01244"
)
"""Of the SuiteSparse collection, as its site states it."""
UNKNOWN_LICENCE = "unknown"
"""Of files that came from somewhere."""

Progress = Callable[[int, int | None], None]
"""Called with the bytes that have arrived, and with those expected or None if the server does not say."""
Loader = Callable[[Progress | None], scipy.sparse.csr_array]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A matrix that has a name and can be loaded. It can be pickled, so that other processes can load it."""

    name: str
    """Canonical: it names this matrix and no other."""
    family: str
    """The group of a collected matrix, or the family of a construction."""
    kind: str
    """The problem it comes from, in the words of the SuiteSparse collection; empty if unknown."""
    source: str
    """``"construction"``, ``"origin"``, ``"suitesparse"`` or ``"folder"``."""
    licence: str
    """Conditions of its use; empty for constructions, which have none."""
    rows: int | None
    """None if unknown before loading, as are `cols` and `nnz`."""
    cols: int | None
    nnz: int | None
    in_collection: bool = False
    """Whether it is a matrix of the SuiteSparse collection, wherever it is loaded from."""
    arrangement: str = "natural"
    """``"natural"``, or the suffixes that put rows and columns in another order, such as ``"shuffled"``."""
    loader: Loader = field(repr=False, compare=False)
    """What `load` calls; it can be pickled."""

    @property
    def origin(self) -> str:
        """``"constructed"``, ``"real by origin"`` (made by a program that people use) or ``"real"`` (collected)."""
        return {"construction": "constructed", "origin": "real by origin"}.get(self.source, "real")

    def load(self, progress: Progress | None = None) -> scipy.sparse.csr_array:
        """Make, read or download the matrix.

        Parameters
        ----------
        progress : callable, optional
            Called with bytes done and bytes expected while something is downloaded.

        Returns
        -------
        scipy.sparse.csr_array, shape (rows, cols)
            float64, or float32 if a file says so.

        Raises
        ------
        FileFormatError
            A file is truncated, damaged or not what its name says; the message starts with its path.
        DownloadError
            It could not be downloaded.
        ParameterError
            A construction refuses its parameters, or a slice goes beyond the rows.
        """
        return self.loader(progress)

    def after(self, steps: Sequence[Step]) -> Entry:
        """Return the entry of the matrix with suffixes applied, from left to right."""
        if not steps:
            return self
        rows, cols = self.rows, self.cols
        for step in steps:
            rows, cols = step.shape(rows, cols)
        return replace(
            self,
            name=f"{self.name}{''.join(map(str, steps))}",
            rows=rows,
            cols=cols,
            nnz=self.nnz if all(step.keeps_nnz for step in steps) else None,
            arrangement="".join(str(s) for s in steps if isinstance(s, (Arranged, Reordered))).lstrip(".") or "natural",
            loader=functools.partial(_load_and_apply, self.loader, tuple(steps)),
        )


def _load_and_apply(loader: Loader, steps: Sequence[Step], progress: Progress | None) -> scipy.sparse.csr_array:
    matrix = loader(progress)
    for step in steps:
        matrix = step.apply(matrix)
    return matrix

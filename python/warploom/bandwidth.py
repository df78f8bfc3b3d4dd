"""Bytes that an SpMV moves, as Koza et al. (2014) count them for effective bandwidths (eq. 6.1).

Divided by the time of a product, either count is an effective bandwidth; divided by the bandwidth of the device as
well, it is the paper's efficiency (eq. 6.2).
"""

from __future__ import annotations

__all__ = ["beta_minus", "beta_plus"]

_INDEX_BYTES = 4


def _matrix_bytes(num_rows: int, nnz: int, value_bytes: int, height: int) -> int:
    """Bytes of the values, columns and strips; rows within a strip share a word with the columns."""
    strips = -(-num_rows // height)
    return (value_bytes + _INDEX_BYTES) * nnz + _INDEX_BYTES * strips


def beta_minus(num_rows: int, nnz: int, value_bytes: int, *, height: int = 1) -> int:
    """Return the bytes an SpMV moves if no entry of x is ever found in a cache.

    The paper's beta- of eq. 6.1, ``(2 s_v + s_i) nnz + s_i strips + s_v rows``: every nonzero reads its own entry
    of x. A bandwidth that is computed from it and is above that of the device shows how well x is cached.

    Parameters
    ----------
    num_rows : int
        Rows of the matrix.
    nnz : int
        Nonzeros of the matrix.
    value_bytes : int
        Bytes of a value, s_v. An index, s_i, takes 4.
    height : int
        Rows of a strip of CMRS; 1 is CSR.

    Returns
    -------
    int
        beta-

    Examples
    --------
    >>> from warploom.bandwidth import beta_minus
    >>> beta_minus(num_rows=5, nnz=10, value_bytes=8, height=2)
    252
    """
    return _matrix_bytes(num_rows, nnz, value_bytes, height) + value_bytes * (nnz + num_rows)


def beta_plus(num_rows: int, nnz: int, value_bytes: int, *, num_cols: int | None = None, height: int = 1) -> int:
    """Return the bytes an SpMV moves if every entry of x is read once: the matrix, x and y.

    The paper's beta+ of eq. 6.1, ``(s_v + s_i) nnz + s_i strips + 2 s_v rows``. The paper has square matrices; of
    others, x has `num_cols` entries. A bandwidth computed from it stays below that of the device.

    Parameters
    ----------
    num_rows : int
        Rows of the matrix.
    nnz : int
        Nonzeros of the matrix.
    value_bytes : int
        Bytes of a value, s_v. An index, s_i, takes 4.
    num_cols : int, optional
        Columns of the matrix; as many as rows if not given.
    height : int
        Rows of a strip of CMRS; 1 is CSR.

    Returns
    -------
    int
        beta+

    Examples
    --------
    >>> from warploom.bandwidth import beta_plus
    >>> beta_plus(num_rows=5, nnz=10, value_bytes=8, height=2)
    212
    """
    x_entries = num_rows if num_cols is None else num_cols
    return _matrix_bytes(num_rows, nnz, value_bytes, height) + value_bytes * (x_entries + num_rows)

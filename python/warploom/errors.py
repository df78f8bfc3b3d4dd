"""The errors warploom raises.

Every class is a `WarploomError` and also the built-in exception a caller would expect, so both
``except warploom.errors.WarploomError`` and ``except ValueError`` work.
"""

from __future__ import annotations

__all__ = [
    "DeviceError",
    "DownloadError",
    "DtypeError",
    "FileFormatError",
    "IndexOverflowError",
    "InvalidMatrixError",
    "MissingDataError",
    "OutOfMemoryError",
    "ParameterError",
    "ProfileError",
    "ShapeError",
    "WarploomError",
]


class WarploomError(Exception):
    """Base of all errors raised by warploom.

    Parameters
    ----------
    message : str
        What is wrong.
    argument : str, optional
        The argument at fault, by its name in the call.
    position : int, optional
        The first offending position in that argument.

    Examples
    --------
    >>> import scipy.sparse
    >>> import warploom as wl
    >>> try:
    ...     wl.plan(scipy.sparse.eye_array(3), op="spmv", device="cpu", select="spmv/none/csr/vectr")
    ... except ValueError as error:
    ...     print(type(error).__name__, error.argument)
    ParameterError select
    """

    def __init__(self, message: str, *, argument: str | None = None, position: int | None = None) -> None:
        super().__init__(message)
        self.argument = argument
        self.position = position


class InvalidMatrixError(WarploomError, ValueError):
    """The arrays do not form a CSR matrix."""


class ShapeError(WarploomError, ValueError):
    """The shapes of the operands do not fit."""


class DtypeError(WarploomError, TypeError):
    """The value type is not supported."""


class IndexOverflowError(WarploomError, OverflowError):
    """A size is beyond the index type."""


class ParameterError(WarploomError, ValueError):
    """An unknown name, or a value out of range."""


class FileFormatError(WarploomError, ValueError):
    """A file is truncated, damaged or not what its name says."""


class DownloadError(WarploomError, OSError):
    """A file could not be fetched from the network or kept in the cache."""


class MissingDataError(WarploomError, FileNotFoundError):
    """Measurements of the package warploom-data are needed, and it is not there; the message says how to get it."""


class ProfileError(WarploomError, ValueError):
    """A profile or a trained model in it is damaged, incomplete or of another version."""


class DeviceError(WarploomError, RuntimeError):
    """No GPU, no driver, or a failed CUDA call."""


class OutOfMemoryError(WarploomError, MemoryError):
    """Not enough memory on the host or the device."""

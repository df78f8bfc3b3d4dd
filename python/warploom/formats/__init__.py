"""Storage formats of a sparse matrix.

Every format is a class with the same interface: `from_csr` builds it from any sparse matrix, `to_csr` gives a
SciPy matrix back, and both keep the value type, repeated entries and stored zeros (`BSR` adds repeated
entries) and the order of the nonzeros within their row (`BSR`, `CompressedSELL` and `CMRS` with `sort_columns` sort
it by column, `ColumnPanels` by panel). Its arrays are read-only views of the memory that the kernels read.
"""

# The classes are found in the modules of this package: one that defines the class of a format is all it takes.
# Type checkers read __init__.pyi, which python/bindings/make_stub.py writes.
from __future__ import annotations

import pkgutil
from importlib import import_module

from warploom import _core
from warploom.errors import ParameterError
from warploom.formats.base import Format


def _find() -> dict[str, type[Format]]:
    """Return the classes by the names of their formats, in the order of the core's registry."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        for value in vars(import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Format) and "name" in vars(value):
                found[value.name] = value
    order = [known["name"] for known in _core.formats()]
    return dict(sorted(found.items(), key=lambda item: order.index(item[0])))


_FORMATS = _find()
globals().update({known.__name__: known for known in _FORMATS.values()})

__all__ = [*sorted(known.__name__ for known in _FORMATS.values()), "Format", "find", "names"]


def find(name: str) -> type[Format]:
    """Return the class of a format.

    Parameters
    ----------
    name : str
        As in the names of candidates.

    Returns
    -------
    type
        A class of this module.

    Raises
    ------
    ParameterError
        No format is called so.
    """
    if name not in _FORMATS:
        raise ParameterError(f"no format is called {name!r}; there are {', '.join(_FORMATS)}", argument="name")
    return _FORMATS[name]


def names() -> tuple[str, ...]:
    """Return the names of the formats, as they appear in the names of candidates."""
    return tuple(_FORMATS)

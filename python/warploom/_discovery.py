"""Finds what decorators register: imports the modules of a package, so that no list has to name them."""

from __future__ import annotations

import functools
import importlib
import pkgutil

__all__ = ["import_modules"]


@functools.cache
def import_modules(package: str) -> None:
    """Import all modules of a package and of the packages in it, in the order of their names.

    Parameters
    ----------
    package : str
        Such as ``warploom.reproduce``. It may be in the middle of its own import. Modules whose names begin with ``_``
        are left to those that need them.
    """
    path = importlib.import_module(package).__path__
    for found in sorted(pkgutil.iter_modules(path), key=lambda module: module.name):
        if found.name.startswith("_"):
            continue
        importlib.import_module(f"{package}.{found.name}")
        if found.ispkg:
            import_modules(f"{package}.{found.name}")

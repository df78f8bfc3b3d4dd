"""Where the measurements are that ship apart from warploom."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from warploom.errors import MissingDataError

__all__ = ["VARIABLE", "find", "folder", "missing"]

VARIABLE = "WARPLOOM_MEASUREMENTS"
"""The environment variable that names a folder with them."""

_PACKAGE = "warploom_data"
_OF_A_CHECKOUT = Path(__file__).parents[1] / "warploom-data" / _PACKAGE
"""Of a checkout that warploom is run from, as where it is installed with ``pip install -e``."""


def folder() -> Path | None:
    """Return the folder that has one for each GPU, or None if there is none.

    ``WARPLOOM_MEASUREMENTS`` comes first, then what is in the checkout that warploom is run from, then the package
    warploom-data.
    """
    own = os.environ.get(VARIABLE)
    if own:
        return Path(own)
    if _OF_A_CHECKOUT.is_dir():
        return _OF_A_CHECKOUT
    try:
        found = importlib.util.find_spec(_PACKAGE)
    except ValueError:  # something else goes by that name
        return None
    places = found.submodule_search_locations if found else None
    return Path(next(iter(places))) if places else None


def find(name: str | os.PathLike[str], file: str) -> Path | None:
    """Return the folder of that name among them if it has this file: paths are no names."""
    found = folder()
    if found is None or not isinstance(name, str) or os.path.basename(name) != name:
        return None
    return found / name if (found / name / file).is_file() else None


def missing(what: str) -> MissingDataError:
    """Return the error that says how to get them."""
    own = os.environ.get(VARIABLE)
    why = f"{VARIABLE} is '{own}', which has none" if own else "they are a package of their own"
    return MissingDataError(
        f"{what}: {why}; get them with pip install warploom-data (in a checkout of warploom: pip install "
        f"./python/warploom-data), or let {VARIABLE} be their folder",
        argument="measurements",
    )

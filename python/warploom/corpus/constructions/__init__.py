"""Matrices made from their definitions: one function for each family.

Each module holds related families; importing it registers them, and all modules of this package are imported.
"""

from __future__ import annotations

from warploom._discovery import import_modules
from warploom.corpus.constructions._registry import Construction, construct, construction, find, names

__all__ = ["Construction", "construct", "construction", "find", "names"]

import_modules("warploom.corpus.constructions")

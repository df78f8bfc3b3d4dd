"""Matrices by name: collected ones, downloaded ones, and ones made from their definitions.

`load` loads any of them in one call; `find` returns what is known about it before loading. `folder` lists the files of
a folder, `suitesparse.search` the matrices of the SuiteSparse collection.
"""

from __future__ import annotations

from warploom.corpus import constructions, suitesparse
from warploom.corpus.entry import Entry
from warploom.corpus.folder import folder
from warploom.corpus.lookup import find, load
from warploom.corpus.names import canonical
from warploom.corpus.standard import PARTS, standard

__all__ = ["PARTS", "Entry", "canonical", "constructions", "find", "folder", "load", "standard", "suitesparse"]

"""Matrices by name: collected ones, downloaded ones, ones that programs made, and ones made from their definitions.

`load` loads any of them in one call; `find` returns what is known about it before loading. `folder` lists the files of
a folder, `suitesparse.search` the matrices of the SuiteSparse collection, `standard` and `large` those that sweeps
measure.
"""

from __future__ import annotations

from warploom.corpus import constructions, origins, suitesparse
from warploom.corpus.entry import Entry
from warploom.corpus.folder import folder
from warploom.corpus.large import LARGEST_NNZ, large, settings_of_large
from warploom.corpus.lookup import find, load
from warploom.corpus.names import canonical
from warploom.corpus.standard import PARTS, standard

__all__ = [
    "LARGEST_NNZ",
    "PARTS",
    "Entry",
    "canonical",
    "constructions",
    "find",
    "folder",
    "large",
    "load",
    "origins",
    "settings_of_large",
    "standard",
    "suitesparse",
]

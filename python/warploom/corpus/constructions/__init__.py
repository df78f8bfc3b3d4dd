"""Matrices made from their definitions, one family a function.

Each module holds related families; importing it registers them.
"""

from __future__ import annotations

from warploom.corpus.constructions import chains as chains
from warploom.corpus.constructions import circuits as circuits
from warploom.corpus.constructions import combinatorial as combinatorial
from warploom.corpus.constructions import complexes as complexes
from warploom.corpus.constructions import finite_elements as finite_elements
from warploom.corpus.constructions import geometric_graphs as geometric_graphs
from warploom.corpus.constructions import grids as grids
from warploom.corpus.constructions import networks as networks
from warploom.corpus.constructions import optimisation as optimisation
from warploom.corpus.constructions import random_graphs as random_graphs
from warploom.corpus.constructions import random_rows as random_rows
from warploom.corpus.constructions import structured as structured
from warploom.corpus.constructions._registry import Construction, construct, construction, find, names

__all__ = ["Construction", "construct", "construction", "find", "names"]

"""What every construction of grids, elements, chains, systems and rows promises."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from construction_calls import make, parse, pattern_hash
from hypothesis import given, settings
from hypothesis import strategies as st

from warploom.corpus.constructions import construct, find, names
from warploom.errors import ParameterError

_MODULES = (
    *("chains", "circuits", "finite_elements", "grids", "optimisation", "partly_dense", "random_rows"),
    "structured",
)
# Bounds of each parameter in which every combination is valid.
_RANGES = {
    "arrow": {"n": (5, 40), "width": (0, 5), "half_width": (0, 4), "last": (0, 1), "shuffle": (0, 2)},
    "attention": {
        **{"n": (1, 150), "window": (0, 150), "everywhere": (0, 9), "blocks": (0, 3), "causal": (0, 1), "seed": (0, 3)},
    },
    "augmented_grid": {"nx": (1, 5), "ny": (1, 5), "nz": (0, 4)},
    "banded": {"n": (1, 40), "lower": (0, 50), "upper": (0, 50), "shuffle": (0, 2), "shuffle_rows": (0, 2)},
    "banded_with_long_rows": {
        **{"n": (1, 40), "half_width": (0, 50), "percent": (1, 100), "every": (1, 50), "length": (0, 9)},
        **{"seed": (0, 3), "shuffle": (0, 2)},
    },
    "beam": {"nodes": (1, 9), "axial": (0, 1), "free": (0, 1)},
    "block_angular": {
        **{"blocks": (1, 4), "rows": (1, 9), "columns": (1, 9), "linking": (1, 5), "per_column": (1, 4)},
        **{"percent": (0, 100), "seed": (0, 3)},
    },
    "block_banded": {"blocks": (1, 6), "size": (1, 5), "half_width": (0, 7), "shuffle": (0, 2)},
    "block_diagonal": {
        **{"blocks": (1, 6), "smallest": (1, 4), "largest": (4, 6), "seed": (0, 3), "shuffle": (0, 2)},
        "shuffle_rows": (0, 2),
    },
    "bricks": {"nx": (1, 3), "ny": (1, 3), "nz": (1, 3), "order": (1, 3), "unknowns": (1, 2), "shuffle": (0, 2)},
    "bundle_adjustment": {"cameras": (1, 30), "points": (1, 20), "views": (1, 5), "seed": (0, 3)},
    "circuit": {
        **{"n": (1, 60), "per_node": (1, 3), "rails": (0, 5), "percent": (0, 100), "reach": (1, 9)},
        **{"one_way_percent": (0, 100), "seed": (0, 3), "shuffle": (0, 2)},
    },
    "convection_diffusion": {"nx": (1, 5), "ny": (1, 5), "nz": (1, 4), "upwind": (1, 4), "shuffle": (0, 2)},
    "covariance": {"n": (1, 40), "permille": (1, 1000), "factors": (1, 9), "seed": (0, 3)},
    "crystal_growth": {"points": (4, 8)},
    "crystal_mass": {"nx": (1, 4), "ny": (1, 4), "nz": (1, 4)},
    "cvxbqp": {"n": (1, 40)},
    "cvxqp": {"n": (9, 40), "constraints": (1, 9)},
    "cyclic_rows": {"m": (1, 40), "n": (1, 40), "short": (0, 5), "long": (0, 50), "stride": (1, 9), "seed": (0, 3)},
    "dense": {"m": (1, 9), "n": (1, 9)},
    "dense_columns": {"n": (1, 40), "count": (1, 5), "percent": (1, 400), "per_column": (0, 4), "seed": (0, 3)},
    "dense_rows": {"n": (1, 40), "count": (1, 5), "percent": (1, 400), "per_row": (0, 4), "seed": (0, 3)},
    "diagonal": {"n": (1, 40)},
    "diagonals": {"n": (10, 40), "count": (1, 9), "reach": (1, 9), "seed": (0, 3)},
    "dixmaan": {"third": (1, 12)},
    "economy": {
        **{"regions": (1, 5), "sectors": (1, 9), "percent": (0, 400), "trade_percent": (0, 100), "seed": (0, 3)},
        "shuffle": (0, 2),
    },
    "edge_elements": {"nx": (1, 4), "ny": (1, 4), "nz": (1, 4), "shuffle": (0, 2)},
    "elasticity2d": {"nx": (1, 6), "ny": (1, 6), "unknowns": (1, 4), "shuffle": (0, 2)},
    "elasticity3d": {"nx": (1, 4), "ny": (1, 4), "nz": (1, 4), "unknowns": (1, 4), "shuffle": (0, 2)},
    "epidemic_chain": {"population": (1, 12)},
    "flowsheet": {
        **{"units": (1, 9), "smallest": (1, 4), "largest": (4, 9), "percent": (1, 100), "recycles": (0, 200)},
        "seed": (0, 3),
    },
    "grid2d": {"nx": (1, 6), "ny": (1, 6), "periodic": (0, 2), "shuffle": (0, 2), "shuffle_rows": (0, 2)},
    "grid3d": {"nx": (1, 4), "ny": (1, 4), "nz": (1, 4), "periodic": (0, 3), "shuffle": (0, 2), "shuffle_rows": (0, 2)},
    "hypersparse": {"m": (1, 99), "n": (1, 99), "nonempty": (0, 9), "per_row": (1, 5), "seed": (0, 3)},
    "identity_plus": {"n": (1, 40), "extra": (0, 40), "seed": (0, 3)},
    "l_shape": {"side": (1, 6)},
    "kernel_matrix": {"n": (1, 40), "radius": (1, 100), "dimensions": (1, 8), "clusters": (0, 9), "seed": (0, 3)},
    "ladder": {"sections": (5, 20), "inductors": (0, 1), "ports": (0, 5)},
    "least_squares": {"rows": (1, 40), "columns": (1, 12), "per_row": (1, 4), "spread": (0, 20), "seed": (0, 3)},
    "linear_program": {
        **{"rows": (1, 20), "columns": (5, 40), "per_column": (1, 4), "dense_columns": (0, 5), "slack": (0, 1)},
        "seed": (0, 3),
    },
    "log_normal_rows": {
        **{"m": (1, 40), "n": (1, 40), "median": (1, 9), "spread_tenths": (0, 30), "sorted_rows": (0, 1)},
        "seed": (0, 3),
    },
    "molecule": {
        **{"nx": (1, 4), "ny": (1, 4), "nz": (1, 4), "smallest": (1, 3), "largest": (3, 5), "reach": (0, 3)},
        **{"percent": (1, 100), "seed": (0, 3)},
    },
    "multicommodity": {"commodities": (1, 5), "nodes": (2, 9), "arcs": (1, 20), "seed": (0, 3)},
    "obstacle2d": {"nx": (1, 7), "ny": (1, 7)},
    "olmstead": {"points": (1, 12)},
    "optimal_control": {
        **{"steps": (1, 5), "states": (1, 5), "controls": (1, 3), "percent": (1, 100)},
        "seed": (0, 3),
    },
    "perforated": {
        **{"nx": (1, 4), "ny": (1, 4), "nz": (1, 4), "percent": (0, 95), "unknowns": (1, 3), "seed": (0, 3)},
        "shuffle": (0, 2),
    },
    "permutation": {"n": (1, 40), "seed": (0, 3)},
    "power_law_rows": {
        **{"m": (1, 40), "n": (1, 40), "shortest": (1, 5), "exponent_tenths": (5, 100), "skew": (1, 8)},
        "seed": (0, 3),
    },
    "power_network": {
        **{"buses": (1, 40), "chords_percent": (0, 200), "unknowns": (1, 3), "generators_percent": (0, 100)},
        **{"seed": (0, 3), "shuffle": (0, 2)},
    },
    "pruned": {"m": (1, 20), "n": (1, 20), "permille": (1, 1000), "skew": (0, 8), "seed": (0, 3)},
    "pruned_blocks": {"m": (1, 6), "n": (1, 6), "block": (1, 4), "percent": (1, 100), "seed": (0, 3)},
    "pruned_groups": {"m": (1, 9), "n": (1, 9), "kept": (1, 3), "group": (3, 6), "seed": (0, 3)},
    "quadratic_assignment": {"n": (2, 5)},
    "quadrilaterals": {"nx": (1, 4), "ny": (1, 4), "order": (1, 4), "unknowns": (1, 3), "shuffle": (0, 2)},
    "queueing_network": {"queues": (1, 4), "capacity": (1, 3), "shuffle": (0, 2)},
    "random_banded": {"n": (1, 40), "half_width": (0, 50), "percent": (1, 100), "seed": (0, 3), "shuffle": (0, 2)},
    "reaction_diffusion": {
        **{"nx": (1, 5), "ny": (1, 5), "nz": (1, 3), "species": (1, 4), "interleaved": (0, 1)},
    },
    "saddle_point": {
        **{"n": (1, 20), "constraints": (1, 20), "per_row": (1, 4), "half_width": (0, 30), "regularised": (0, 1)},
        "seed": (0, 3),
    },
    "semiconductor": {"nx": (1, 5), "ny": (1, 5), "nz": (1, 3), "unknowns": (1, 4), "shuffle": (0, 2)},
    "set_covering": {"rows": (1, 20), "columns": (1, 40), "per_column": (1, 9), "spread": (1, 30), "seed": (0, 3)},
    "shell": {"around": (1, 7), "along": (1, 5), "unknowns": (1, 6), "closed": (0, 1), "shuffle": (0, 2)},
    "sparsine": {"n": (1, 40)},
    "sphere_mesh": {"level": (0, 3), "cells": (0, 1)},
    "spin_chain": {"sites": (2, 7), "periodic": (0, 1)},
    "staircase": {
        **{"stages": (1, 5), "rows": (1, 9), "columns": (1, 9), "per_column": (1, 4), "carried": (0, 3)},
        "seed": (0, 3),
    },
    "star2d": {"nx": (1, 7), "ny": (1, 7), "reach_x": (0, 8), "reach_y": (0, 8)},
    "stokes": {"nx": (1, 5), "ny": (1, 5)},
    "tetrahedra": {"nx": (1, 3), "ny": (1, 3), "nz": (1, 3), "order": (1, 2), "unknowns": (1, 2), "shuffle": (0, 2)},
    "tolosa": {"modes": (18, 24)},
    "transportation": {"sources": (1, 7), "destinations": (1, 7)},
    "triangle_walk": {"side": (1, 9)},
    "triangles": {
        **{"nx": (1, 4), "ny": (1, 4), "order": (1, 2), "unknowns": (1, 3), "seed": (0, 3), "shuffle": (0, 2)},
    },
    "triangular": {"n": (1, 40), "per_row": (0, 4), "hubs": (0, 3), "upper": (0, 1), "seed": (0, 3)},
    "truss": {"nx": (1, 4), "ny": (1, 4), "nz": (1, 4), "percent": (0, 100), "unknowns": (1, 6), "seed": (0, 3)},
    "uniform": {"m": (1, 40), "n": (1, 40), "per_row": (1, 9), "seed": (0, 3)},
    "uniform_between": {"m": (1, 40), "n": (1, 40), "shortest": (0, 4), "longest": (4, 9), "seed": (0, 3)},
    "wathen": {"nx": (1, 5), "ny": (1, 5)},
    "wilson_lattice": {"nx": (3, 3), "ny": (3, 4), "nz": (3, 3), "nt": (3, 4)},
}
_CHOICES = {
    ("grid2d", "stencil"): (4, 5, 7, 9, 13, 25),
    ("grid3d", "stencil"): (6, 7, 13, 15, 19, 25, 27, 125),
    ("sphere_mesh", "faces"): (8, 20),
}
_STORED = list(csv.DictReader((Path(__file__).parent / "constructed_patterns.csv").read_text().splitlines()))


def _strategy(name):
    parameters = {key: st.integers(*bounds) for key, bounds in _RANGES[name].items()}
    parameters |= {key: st.sampled_from(values) for (owner, key), values in _CHOICES.items() if owner == name}
    return st.fixed_dictionaries(parameters)


def _of_these_modules():
    return {name for name in names() if find(name).function.__module__.rpartition(".")[2] in _MODULES}


def test_every_construction_is_tested_with_every_parameter():
    assert _of_these_modules() == set(_RANGES)
    for name, ranges in _RANGES.items():
        chosen = {key for owner, key in _CHOICES if owner == name}
        assert set(find(name).defaults) == set(ranges) | chosen, name


@pytest.mark.parametrize("name", sorted(_RANGES))
def test_contract(name):
    @settings(max_examples=10, deadline=None, derandomize=True)
    @given(_strategy(name))
    def check(parameters):
        matrix = construct(name, **parameters)
        assert matrix.indices.dtype == np.int32
        assert matrix.indptr.dtype == np.int32
        assert matrix.data.dtype == np.float64
        assert np.isfinite(matrix.data).all()
        assert matrix.indptr[0] == 0
        assert matrix.indptr[-1] == len(matrix.indices) == len(matrix.data)
        assert len(matrix.indptr) == matrix.shape[0] + 1
        for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
            row = matrix.indices[start:stop]
            assert (np.diff(row) > 0).all()
            assert ((row >= 0) & (row < matrix.shape[1])).all()
        again = construct(name, **parameters)
        assert matrix.shape == again.shape
        for array in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(matrix, array), getattr(again, array))

    check()


def test_every_construction_has_a_stored_pattern():
    assert {row["call"].partition("(")[0] for row in _STORED} == set(_RANGES)


@pytest.mark.parametrize("stored", _STORED, ids=[row["call"] for row in _STORED])
def test_patterns_are_the_same_everywhere(stored):
    matrix = make(stored["call"])
    assert (*matrix.shape, matrix.nnz) == tuple(int(stored[key]) for key in ("rows", "cols", "nnz"))
    assert pattern_hash(matrix) == stored["sha256"]


@pytest.mark.parametrize("name", sorted(_RANGES))
def test_documented(name):
    chosen = find(name)
    assert chosen.summary.endswith(".")
    documentation = chosen.function.__doc__ or ""
    for parameter in chosen.defaults:
        assert any(
            parameter in line.partition(" : ")[0].replace(",", "").split() for line in documentation.splitlines()
        ), parameter


@pytest.mark.parametrize("name", sorted(_RANGES))
def test_negative_parameters_are_refused_by_name(name):
    good = {key: bounds[1] for key, bounds in _RANGES[name].items()}
    good |= {key: values[0] for (owner, key), values in _CHOICES.items() if owner == name}
    for parameter in good:
        if parameter == "seed":
            continue  # any integer
        with pytest.raises(ParameterError) as caught:
            construct(name, **{**good, parameter: -1})
        assert caught.value.argument == parameter


@pytest.mark.parametrize("stored", _STORED, ids=[row["call"] for row in _STORED])
def test_every_seed_matters(stored):
    name, parameters = parse(stored["call"])
    for seed in {"seed", "shuffle", "shuffle_rows"} & set(_RANGES[name]):
        matrices = [construct(name, **{**parameters, seed: value}) for value in (1, 2, 3)]
        assert len({pattern_hash(matrix) for matrix in matrices}) == 3, seed

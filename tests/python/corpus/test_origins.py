"""Matrices that programs made: files, recipes, and the index."""

import itertools
import lzma

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from warploom import corpus, errors
from warploom.corpus import origins
from warploom.corpus.constructions._patterns import Pattern

NAME = "origins/small-square"


def arrays_of(A):
    return {"shape": np.array(A.shape), "lengths": np.diff(A.indptr), "columns": A.indices}


def random_matrix(rows, cols, seed, density=0.3):
    return sp.random_array((rows, cols), density=density, rng=np.random.default_rng(seed), format="csr")


def dense(pattern):
    found = np.zeros(pattern.shape, bool)
    found[np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr)), pattern.indices] = True
    assert len(pattern.indices) == found.sum()
    return found


def stored(arrays, path):
    path.write_bytes(origins.pack(arrays))
    return origins.unpack(path)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(0, 20), cols=st.integers(1, 20), seed=st.integers(0, 99), density=st.sampled_from([0, 0.1, 0.6])
)
def test_a_pattern_comes_back(tmp_path_factory, rows, cols, seed, density):
    A = random_matrix(rows, cols, seed, density)
    arrays = stored(arrays_of(A), tmp_path_factory.mktemp("store") / "a.npz.xz")
    pattern = origins.make(arrays, "pattern")
    assert pattern.shape == A.shape
    np.testing.assert_array_equal(pattern.indptr, A.indptr)
    np.testing.assert_array_equal(pattern.indices, A.indices)


@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 20), seed=st.integers(0, 99))
def test_a_symmetric_pattern_comes_back_from_its_upper_triangle(size, seed):
    A = random_matrix(size, size, seed)
    whole = sp.csr_array(A + A.T)
    upper = sp.csr_array(sp.triu(whole, format="csr"))
    upper.sort_indices()
    pattern = origins.make(arrays_of(upper), "pattern symmetric")
    np.testing.assert_array_equal(dense(pattern), whole.toarray() != 0)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["cells", "points", "shape"]), st.integers(1, 9), st.integers(1, 5), st.integers(0, 99))
def test_arrays_come_back(tmp_path_factory, name, rows, width, seed):
    rng = np.random.default_rng(seed)
    array = rng.integers(-(2**30), 2**30, rows if name == "shape" else (rows, width))
    found = stored({name: array}, tmp_path_factory.mktemp("store") / "a.npz.xz")
    np.testing.assert_array_equal(found[name], array)


def test_differences_that_are_too_large_are_refused():
    with pytest.raises(ValueError, match="31 bits"):
        origins.pack({"points": np.array([[0], [2**40]])})


def couplings(cells, first, second=()):
    """Unknowns of every entity in the order of the module's documentation, coupled within cells, one by one."""
    kinds = {"nodal": 1, "edge": 2, "facet": len(cells[0]) - 1, "interior": len(cells[0])}
    number, field_of = {}, []
    for field, counts in enumerate((dict(first), dict(second))):
        for kind, size in kinds.items():
            if kind == "edge" and len(cells[0]) == 3:
                continue
            entities = {tuple(sorted(e)) for c in cells for e in itertools.combinations(c, size)}
            ordered = [tuple(c) for c in cells] if kind == "interior" else sorted(entities)
            if kind == "nodal":
                ordered = [(v,) for v in range(max(max(c) for c in cells) + 1)]
            for entity in ordered:
                for unknown in range(counts.get(kind, 0)):
                    number[field, kind, entity, unknown] = len(number)
                    field_of.append(field)
    found = np.zeros((len(number),) * 2, bool)
    for cell in cells:
        inside = [
            n
            for (_, kind, entity, _), n in number.items()
            if (entity == tuple(cell) if kind == "interior" else set(entity) <= set(cell))
        ]
        found[np.ix_(inside, inside)] = True
    if second:
        pressure = np.array(field_of) == 1
        found[np.ix_(pressure, pressure)] = False
    return found


COUNTS = st.fixed_dictionaries({}, optional={kind: st.integers(1, 2) for kind in ("nodal", "facet", "interior")})


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([3, 4]).flatmap(
        lambda width: st.lists(
            st.lists(st.integers(0, 6), min_size=width, max_size=width, unique=True).map(sorted).map(tuple),
            min_size=1, max_size=5, unique=True,
        )
    ),
    COUNTS, st.none() | COUNTS, st.integers(0, 2),
)  # fmt: skip
def test_unknowns_are_coupled_within_cells(cells, first, second, edges):
    cells = sorted(cells)
    if edges and len(cells[0]) == 4:
        first = {**first, "edge": edges}
    if not first or second == {}:
        return
    recipe = "elements " + " ".join(f"{kind}={count}" for kind, count in first.items())
    if second:
        recipe += " with " + " ".join(f"{kind}={count}" for kind, count in second.items())
    pattern = origins.make({"cells": np.array(cells)}, recipe)
    np.testing.assert_array_equal(dense(pattern), couplings(cells, first, second or {}))


def test_the_nearest_points():
    points = np.random.default_rng(3).integers(0, 1000, (120, 3))
    pattern = origins.make({"points": points}, "nearest neighbours=5")
    distance = ((points[:, None] - points) ** 2).sum(axis=2).astype(float)
    np.fill_diagonal(distance, np.inf)
    farthest = np.sort(distance, axis=1)[:, 4]
    rows = np.repeat(np.arange(120), 5)
    assert (np.diff(pattern.indptr) == 5).all()
    # The points are moved by a little, so that equal distances have an order.
    assert (np.sqrt(distance[rows, pattern.indices]) <= np.sqrt(farthest[rows]) + 0.01).all()
    assert (rows != pattern.indices).all()


@pytest.mark.parametrize(
    "recipe", ["", "pattern upper", "elements nodes=1", "elements nodal=x", "nearest", "nearest count=3", "mesh"]
)
def test_unknown_recipes_are_refused(recipe):
    given = {"cells": np.array([[0, 1, 2]]), "points": np.zeros((3, 2), int)} | arrays_of(random_matrix(3, 3, 1))
    with pytest.raises(errors.ParameterError):
        origins.make(given, recipe)


def test_a_recipe_without_its_arrays_is_refused():
    with pytest.raises(errors.FileFormatError, match="cells"):
        origins.make(arrays_of(random_matrix(3, 3, 1)), "elements nodal=1")


def test_columns_beyond_the_shape_are_refused():
    A = arrays_of(random_matrix(3, 3, 1, density=1))
    with pytest.raises(errors.FileFormatError, match="beyond"):
        origins.make({**A, "shape": np.array([3, 2])}, "pattern")


@pytest.fixture
def store(monkeypatch, tmp_path):
    """A store with one matrix, which the index has."""
    A = random_matrix(9, 9, 5)
    pattern = Pattern(A.shape, A.indptr, A.indices)
    known = origins.Origin(
        *(NAME, "tests", "graph", "a test 1.0", "a square", "small", "piece-1", "pattern", 9, 9, A.nnz),
        origins.digest(pattern),
    )
    monkeypatch.setattr(origins, "index", lambda: {NAME: known})
    monkeypatch.setenv("WARPLOOM_ORIGINS", str(tmp_path))
    (tmp_path / "piece-1").mkdir()
    path = tmp_path / "piece-1" / "small.npz.xz"
    path.write_bytes(origins.pack(arrays_of(A)))
    return A, path


def test_a_matrix_by_name(store):
    A, path = store
    entry = corpus.find(NAME)
    assert (entry.source, entry.origin, entry.rows, entry.nnz) == ("origin", "real by origin", 9, A.nnz)
    found = entry.load()
    np.testing.assert_array_equal(found.indices, A.indices)
    assert ((found.data >= 0.5) & (found.data < 1.5)).all()
    assert corpus.load(f"{NAME}.shuffled").nnz == A.nnz
    path.rename(path.parent.parent / path.name)  # without pieces
    assert entry.load().nnz == A.nnz


def test_another_pattern_than_that_of_the_index_is_refused(store):
    _, path = store
    path.write_bytes(origins.pack(arrays_of(random_matrix(9, 9, 6))))
    with pytest.raises(errors.FileFormatError, match="not the one") as caught:
        corpus.load(NAME)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(store, monkeypatch):
    store[1].unlink()
    with pytest.raises(FileNotFoundError, match=r"piece-1/small\.npz\.xz"):
        corpus.load(NAME)
    monkeypatch.delenv("WARPLOOM_ORIGINS")
    with pytest.raises(FileNotFoundError, match="WARPLOOM_ORIGINS is not set"):
        corpus.load(NAME)


@pytest.mark.parametrize("damage", ["truncated", "no archive", "another array"])
def test_damaged_files_are_refused(store, damage):
    _, path = store
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "no archive":
        path.write_bytes(lzma.compress(b"nothing"))
    else:
        path.write_bytes(origins.pack({"cells": np.array([[0, 1, 2]])}))
    with pytest.raises(errors.FileFormatError, match="shape" if damage == "another array" else "small.npz.xz"):
        corpus.load(NAME)


def test_lengths_that_do_not_fit_are_refused():
    planes = origins.encoded("columns", {"lengths": np.array([2]), "columns": np.array([0, 1])})
    with pytest.raises(ValueError, match="do not fit"):
        origins.decoded("columns", planes, {"lengths": np.array([3])})


def test_the_index():
    index = origins.index()
    assert all(name == f"origins/{name.removeprefix('origins/')}" == origin.name for name, origin in index.items())
    large = [o for o in index.values() if o.rows >= 10**5 and 10**6 <= o.nnz <= 10**8]
    assert len(large) >= 50
    assert len({o.sha256 for o in index.values()}) == len(index)  # no pattern under two names
    assert len({o.family for o in large}) >= 8
    assert len({o.program.partition(" ")[0] for o in large}) >= 8
    assert {o.recipe.split()[0] for o in index.values()} == {"pattern", "elements", "nearest"}
    for origin in index.values():
        assert corpus.canonical(origin.name) == origin.name
        assert origin.piece.startswith("piece-")
        assert len(origin.sha256) == 64

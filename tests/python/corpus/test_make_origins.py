"""The script that runs other programs and stores what they made; with a program of the test's own."""

import csv
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from warploom import corpus
from warploom.corpus import origins

FOLDER = Path(__file__).parents[3] / "origins"


@pytest.fixture
def scripts(monkeypatch):
    """The modules `common` and `make` of the folder, which is not a package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("common", "make"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    common, make = importlib.import_module("common"), importlib.import_module("make")
    yield common, make
    for name in ("common", "make"):
        sys.modules.pop(name, None)


def square(seed):
    A = sp.random_array((40, 40), density=0.2, rng=np.random.default_rng(seed), format="csr")
    return sp.csr_array(A + A.T)


def declare(common, name, A, made=None):
    def function():
        matrix = common.Matrix(f"{name}-all", "tests", "graph", "a test", "pattern symmetric", made)
        yield common.Made(name, "a test 1.0", common.pattern_arrays(A, symmetric=True), [matrix])

    function.__name__ = name
    common.source(function)


def test_matrices_are_stored_indexed_and_loaded(scripts, tmp_path, monkeypatch):
    common, make = scripts
    store = tmp_path / "store"
    for seed, name in enumerate(("one", "two", "three")):
        declare(common, name, square(seed), made=lambda seed=seed: square(seed))
    make.run(store, ["one", "two", "three"], accept=False)
    largest = max(path.stat().st_size for path in store.glob("*.npz.xz"))
    monkeypatch.setattr(make, "PIECE_BYTES", 2 * largest)
    monkeypatch.setattr(make, "INDEX", tmp_path / "origins.csv")
    make.write_index(store)
    rows = list(csv.DictReader((tmp_path / "origins.csv").read_text().splitlines()))
    assert [row["name"] for row in rows] == ["origins/one-all", "origins/three-all", "origins/two-all"]
    assert {row["piece"] for row in rows} == {"piece-1", "piece-2"}
    for piece in ("piece-1", "piece-2"):
        assert 0 < sum(path.stat().st_size for path in (store / piece).iterdir()) <= 2 * largest

    numbers = {"rows", "cols", "nnz"}
    known = [origins.Origin(**{k: int(v) if k in numbers else v for k, v in row.items()}) for row in rows]
    monkeypatch.setattr(origins, "index", lambda: {origin.name: origin for origin in known})
    monkeypatch.setenv("WARPLOOM_ORIGINS", str(store))
    np.testing.assert_array_equal(corpus.load("origins/two-all").indices, square(1).indices)

    make.run(store, ["two"], accept=False)  # made again: in the folder itself, until there is a new index
    assert len(list(store.glob("**/two.npz.xz"))) == 1
    declare(common, "two", square(7))
    with pytest.raises(SystemExit, match="another pattern than before"):
        make.run(store, ["two"], accept=False)
    make.run(store, ["two"], accept=True)


def test_a_recipe_that_does_not_give_the_programs_matrix_is_refused(scripts, tmp_path):
    common, make = scripts
    declare(common, "wrong", square(1), made=lambda: square(2))
    with pytest.raises(SystemExit, match="does not give the pattern"):
        make.run(tmp_path, ["wrong"], accept=False)


def test_an_unsymmetric_pattern_has_no_upper_triangle_to_store(scripts):
    with pytest.raises(ValueError, match="not symmetric"):
        scripts[0].pattern_arrays(sp.csr_array(np.triu(np.ones((3, 3)))), symmetric=True)


def test_every_script_declares_sources_of_the_index():
    text = "".join(path.read_text() for path in FOLDER.glob("*.py"))
    for origin in origins.index().values():
        program = origin.file.partition("-")[0]
        assert program in text, origin.file
    assert text.count("\n@source\n") >= 25

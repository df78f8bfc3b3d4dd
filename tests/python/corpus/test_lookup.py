"""From a name to a matrix: where is looked, in what order, and what is said when there is nothing."""

import importlib
import os
import sys
import types

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import corpus_site
from warploom import corpus, errors
from warploom.corpus import lookup, suitesparse

registry = importlib.import_module("warploom.corpus.constructions._registry")
A = sp.random_array((132, 132), density=0.02, rng=np.random.default_rng(3), format="csr")


def wedge(size: int, *, seed: int = 0):
    """A construction for the tests."""
    return sp.csr_array(np.tril(np.ones((size, 2 * size))) * (seed + 1))


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    """A construction, no folders, an empty cache."""
    monkeypatch.setitem(registry._REGISTRY, "wedge", registry.Construction("wedge", "wedges", "wedge problem", wedge))
    monkeypatch.delenv("WARPLOOM_MATRICES", raising=False)
    monkeypatch.setenv("WARPLOOM_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def exact(monkeypatch):
    """Constructions of collected matrices, as other modules list them."""
    module = types.ModuleType("warploom.corpus.constructions.collection")
    module.COLLECTION = {"HB/west0132": "wedge(size=4)"}
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(lookup, "_EXACT", ("collection", "collection_grids_that_do_not_exist"))
    return module


@pytest.fixture
def made(tmp_path):
    def made(folder, *names):
        for name in names:
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            sp.save_npz(path, A)
        return tmp_path / folder

    return made


# ----- constructions -----


def test_construction():
    entry = corpus.find(" wedge( 3 , seed=0 ) ")
    assert entry.name == "wedge(size=3)"
    assert (entry.family, entry.kind, entry.source, entry.licence) == ("wedges", "wedge problem", "construction", "")
    assert (entry.rows, entry.cols, entry.nnz, entry.in_collection) == (None, None, None, False)
    np.testing.assert_array_equal(entry.load().toarray(), wedge(3).toarray())


def test_construction_with_suffixes():
    np.testing.assert_array_equal(corpus.load("wedge(3,seed=1).T[0:4]").toarray(), wedge(3, seed=1).toarray().T[0:4])
    entry = corpus.find("wedge(3)[1:3]")
    assert (entry.rows, entry.cols) == (2, None)


def test_unknown_construction():
    with pytest.raises(errors.ParameterError, match="unknown construction 'wegde'; did you mean wedge"):
        corpus.find("wegde(3)")


# ----- files and folders -----


def test_path(made, tmp_path, monkeypatch):
    root = made("here", "deep/HB__a.npz")
    np.testing.assert_array_equal(corpus.load(str(root / "deep/HB__a.npz")).toarray(), A.toarray())
    monkeypatch.chdir(root)
    assert corpus.find("deep/HB__a.npz.T[0:5]").name == "deep/HB__a.npz.T[0:5]"
    np.testing.assert_array_equal(corpus.load("deep/HB__a.npz.T[0:5]").toarray(), A.toarray().T[0:5])


@pytest.mark.parametrize("name", ["HB/a", "deep/HB__a.npz"])
def test_name_in_a_folder(made, name):
    root = made("here", "deep/HB__a.npz", "b.npz")
    entry = corpus.find(f"{name}.T", folders=[root])
    assert entry.name == "HB/a.T"
    np.testing.assert_array_equal(entry.load().toarray(), A.toarray().T)


def test_folders_of_the_environment_come_first(made, monkeypatch):
    first, second = made("first", "a.npz"), made("second", "a.npz", "b.npz")
    monkeypatch.setenv("WARPLOOM_MATRICES", f"{first}{os.pathsep}{os.pathsep}{second}")
    third = made("third", "a.npz", "c.npz")
    for name, root in (("a", first), ("b", second), ("c", third)):
        assert corpus.find(name, folders=[third]).family == root.name


def test_folder_that_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError):
        corpus.find("a", folders=[tmp_path / "nowhere"])
    monkeypatch.setenv("WARPLOOM_MATRICES", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError):
        corpus.find("HB/dwt_361")


# ----- matrices of the collection -----


def test_order_of_sources(made, exact):
    root = made("here", "HB__west0132.npz")
    for options, source in (
        ({}, "suitesparse"),
        ({"prefer_constructions": True}, "construction"),
        ({"folders": [root]}, "folder"),
        ({"folders": [root], "prefer_constructions": True}, "folder"),
    ):
        entry = corpus.find("HB/west0132", **options)
        assert (entry.name, entry.source, entry.family) == ("HB/west0132", source, "HB")


def test_exact_construction(exact):
    entry = corpus.find("HB/west0132[0:2]", prefer_constructions=True)
    assert (entry.kind, entry.in_collection) == ("chemical process simulation problem", True)
    np.testing.assert_array_equal(entry.load().toarray(), wedge(4).toarray()[:2])
    assert corpus.find("HB/west0156", prefer_constructions=True).source == "suitesparse"


def test_exact_constructions_that_do_not_import(exact, monkeypatch):
    assert lookup.exact_constructions() == exact.COLLECTION
    monkeypatch.setattr(lookup, "_EXACT", ())
    assert lookup.exact_constructions() == {}

    def fail(name):
        raise ModuleNotFoundError("no module named 'numba'", name="numba")

    monkeypatch.setattr(lookup, "_EXACT", ("collection",))
    monkeypatch.setattr(lookup.importlib, "import_module", fail)
    with pytest.raises(ModuleNotFoundError, match="numba"):
        lookup.exact_constructions()


def test_every_exact_construction_is_in_the_index():
    for name, text in lookup.exact_constructions().items():
        assert name in suitesparse.index()
        assert corpus.canonical(text) == text


def test_download():
    with corpus_site.serve() as site:
        places = np.random.default_rng(5).choice(132 * 132, 413, replace=False)
        matrix = sp.coo_array((np.ones(413), (places // 132, places % 132)), shape=(132, 132))
        site.files["/MM/HB/west0132.tar.gz"] = corpus_site.archive("west0132", matrix)
        seen = []
        loaded = corpus.load("HB/west0132.T", progress=lambda *got: seen.append(got), base_url=site.url)
    np.testing.assert_array_equal(loaded.toarray(), matrix.toarray().T)
    assert seen
    np.testing.assert_array_equal(corpus.load("HB/west0132").toarray(), matrix.toarray())


# ----- nothing there -----


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("HB/dwt_36", "HB/dwt_361"),
        ("dwt_361", "HB/dwt_361"),
        ("hb/DWT_361.T", "HB/dwt_361"),
        ("HB/a1", "HB/a"),
        ("wedg", "wedge"),
    ],
)
def test_unknown_names_bring_the_closest(made, name, closest):
    root = made("here", "HB__a.npz")
    with pytest.raises(errors.ParameterError, match="did you mean") as caught:
        corpus.find(name, folders=[root])
    assert closest in str(caught.value).replace("?", ",").split("mean ")[1]
    assert caught.value.argument == "name"


def test_nothing_is_close():
    with pytest.raises(errors.ParameterError, match=r"there is no matrix 'qqqqqqqqqqq'$"):
        corpus.find("qqqqqqqqqqq")


def test_folder_instead_of_a_file(tmp_path):
    with pytest.raises(errors.ParameterError, match=r"is a folder, whose matrices corpus\.folder lists"):
        corpus.find(str(tmp_path))


def test_damaged_file(tmp_path):
    (tmp_path / "a.npz").write_text("hello")
    with pytest.raises(errors.FileFormatError, match=str(tmp_path / "a.npz")):
        corpus.load("a", folders=[tmp_path])


def test_matrix_market_file_by_path(tmp_path):
    scipy.io.mmwrite(tmp_path / "a.mtx", A, precision=17)
    np.testing.assert_array_equal(corpus.load(f"{tmp_path}/a.mtx[3:9]").toarray(), A.toarray()[3:9])

"""Folders: which files count, their names, and the facts in a manifest."""

import gzip
import os
import pathlib
import pickle

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import corpus_site
from warploom import corpus, errors, io
from warploom.corpus.folder import file

A = sp.random_array((6, 4), density=0.4, rng=np.random.default_rng(1), format="csr")


def write(path):
    """Write A in the format of the ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".npz"):
        sp.save_npz(path, A)
    elif path.name.endswith(".tar.gz"):
        path.write_bytes(corpus_site.archive("A", A))
    else:
        plain = path.with_name("plain.mtx")
        scipy.io.mmwrite(plain, A, precision=17)
        data = plain.read_bytes()
        plain.unlink()
        path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)


@pytest.fixture
def made(tmp_path):
    def made(*names):
        for name in names:
            write(tmp_path / name)
        return tmp_path

    return made


def test_every_format_in_every_depth(made):
    root = made("a.mtx", "deep/er/b.mtx.gz", "deep/c.npz", "HB/d.tar.gz", "z/HB__e.npz")
    (root / "notes.txt").write_text("hello")
    (root / "d.npy").write_text("hello")
    entries = corpus.folder(root)
    assert [entry.name for entry in entries] == ["HB/d", "a", "deep/c", "deep/er/b", "HB/e"]
    for entry in entries:
        assert (entry.source, entry.kind, entry.licence, entry.rows) == ("folder", "", "unknown", None)
        np.testing.assert_array_equal(entry.load().toarray(), A.toarray())
    assert [entry.family for entry in entries] == ["HB", root.name, "deep", "deep", "HB"]


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["a.mtx", "a.npz"], ["a.mtx", "a.npz"]),
        (["HB__a.npz", "HB/a.mtx"], ["HB/a.mtx", "HB__a.npz"]),
        (["x/HB__a.npz", "y/HB__a.npz", "HB__b.npz"], ["HB/b", "x/HB__a.npz", "y/HB__a.npz"]),
        (["__a.npz", "a__.npz", "a__b__c.npz"], ["__a", "a__", "a/b__c"]),
        (["a.T.npz", "a.npz", "b[0:3].mtx", "f(x).npz"], ["a.T.npz", "a", "b[0:3].mtx", "f(x).npz"]),
        (["a.mtx", "a.npz", "a.mtx.npz"], ["a.mtx", "a.npz", "a.mtx.npz"]),
        (["b.mtx.npz"], ["b.mtx.npz"]),
        (["UPPER.NPZ", "b.Mtx"], ["UPPER", "b"]),
    ],
)
def test_names_are_different(tmp_path, files, names):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [entry.name for entry in corpus.folder(tmp_path)]
    assert sorted(found) == sorted(names)
    for name in found:
        assert corpus.find(name, folders=[tmp_path]).name == name


def test_empty_folder(tmp_path):
    assert corpus.folder(tmp_path) == []


def test_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
        corpus.folder(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file is not a folder"):
        corpus.folder(tmp_path / "file")


def test_links_in_a_circle(made):
    root = made("a.npz")
    (root / "again").symlink_to(root)
    assert [entry.name for entry in corpus.folder(root)] == ["a"]


def test_folder_that_cannot_be_read(made, monkeypatch):
    root = made("a.npz", "secret/b.npz")
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="secret"):
        corpus.folder(root)


# ----- manifests -----


def test_manifest(made):
    root = made("core/HB__a.npz", "core/LP__b.npz", "c.npz")
    (root / "manifest.csv").write_text(
        "set,file,name,group,rows,cols,nnz,kind,in_suitesparse_index,licence\n"
        "core,HB__a.npz,a,HB,6,4,10,structural problem,yes,\n"
        'core,LP__b.npz,b,LP,6,4,,"linear programs, small",no,MIT\n'
        "core,HB__gone.npz,gone,HB,1,1,1,structural problem,yes,\n"
    )
    c, a, b = corpus.folder(root)
    assert (a.name, a.family, a.kind, a.rows, a.cols, a.nnz) == ("HB/a", "HB", "structural problem", 6, 4, 10)
    assert a.in_collection
    assert a.licence.startswith("CC-BY 4.0")
    assert (b.name, b.kind, b.nnz, b.licence) == ("LP/b", "linear programs, small", None, "MIT")
    assert not b.in_collection
    assert (c.name, c.kind, c.licence) == ("c", "", "unknown")


def test_manifest_with_the_least_columns(made):
    root = made("HB__a.npz")
    (root / "manifest.csv").write_text("name,group,kind\na,HB,graph\n")
    (a,) = corpus.folder(root)
    assert (a.kind, a.family, a.rows, a.licence) == ("graph", "HB", None, "unknown")


@pytest.mark.parametrize("text", [b"file,kind\na,b\n", b"\xff\xfe\x00", b"name,group,kind\n\x00\xff,b,c\n"])
def test_manifest_that_cannot_be_read(made, text):
    root = made("HB__a.npz")
    (root / "manifest.csv").write_bytes(text)
    with pytest.raises(errors.FileFormatError, match=r"manifest\.csv"):
        corpus.folder(root)


@pytest.mark.parametrize("text", ["", "name,group,kind\n"])
def test_empty_manifest(made, text):
    root = made("HB__a.npz")
    (root / "manifest.csv").write_text(text)
    assert [entry.name for entry in corpus.folder(root)] == ["HB/a"]


# ----- bad files -----


def test_bad_files_are_named_when_they_are_loaded(made):
    root = made("good.npz", "also.mtx")
    (root / "cut.npz").write_bytes((root / "good.npz").read_bytes()[:100])
    (root / "empty.mtx").touch()
    (root / "wrong.mtx.gz").write_text("hello")
    (root / "wrong.tar.gz").write_text("hello")
    outcome = {}
    for entry in corpus.folder(root):
        try:
            outcome[entry.name] = entry.load().shape
        except errors.FileFormatError as error:
            assert str(root) in str(error)  # noqa: PT017
            outcome[entry.name] = None
    assert outcome == {
        "also": (6, 4),
        "cut": None,
        "empty": None,
        "good": (6, 4),
        "wrong.mtx.gz": None,
        "wrong.tar.gz": None,
    }


def test_file_that_goes_away(made):
    (entry,) = corpus.folder(made("a.npz"))
    next(pathlib.Path(entry.loader.args[0]).parent.glob("a.npz")).unlink()
    with pytest.raises(FileNotFoundError):
        entry.load()


# ----- one file -----


def test_one_file(made, monkeypatch):
    root = made("HB/a.npz")
    monkeypatch.chdir(root)
    entry = file("HB/a.npz")
    assert (entry.name, entry.family, entry.source) == ("HB/a.npz", "HB", "folder")
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(entry)).load().toarray(), A.toarray())


@pytest.mark.parametrize("name", ["HB__a.npz", "deep/HB__a.npz", "HB/a.mtx"])
def test_family_of_a_file(made, monkeypatch, name):
    root = made(name)
    assert file(root / name).family == "HB"
    monkeypatch.chdir(root)
    assert file(name).family == "HB"


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        file(tmp_path / "a.npz")
    with pytest.raises(FileNotFoundError):
        file(tmp_path)
    (tmp_path / "a.txt").touch()
    with pytest.raises(errors.ParameterError, match=r"must end in one of .*\.tar\.gz") as caught:
        file(tmp_path / "a.txt")
    assert caught.value.argument == "name"


def test_endings():
    assert set(io.ENDINGS) == {".mtx", ".mtx.gz", ".npz", ".tar.gz"}
    assert io.ending("A.MTX.GZ") == ".mtx.gz"
    assert io.ending("A.gz") is None

"""The commands: what they print, and what becomes of mistakes."""

import importlib

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

import corpus_site
from warploom import errors
from warploom.corpus import cli, suitesparse

registry = importlib.import_module("warploom.corpus.constructions._registry")


def wedge(size: int):
    """Make a wedge."""
    return sp.csr_array(np.tril(np.ones((size, size))))


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.setitem(registry._REGISTRY, "wedge", registry.Construction("wedge", "wedges", "", wedge))
    monkeypatch.delenv("WARPLOOM_MATRICES", raising=False)
    monkeypatch.setenv("WARPLOOM_CACHE", str(tmp_path / "cache"))


def run(*arguments):
    return CliRunner().invoke(cli.corpus, list(map(str, arguments)))


def printed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_list_of_constructions():
    (line,) = [line for line in printed("list") if line.startswith("wedge ")]
    assert line.split(maxsplit=2) == ["wedge", "wedges", "Make a wedge."]


def test_list_of_a_folder(tmp_path):
    sp.save_npz(tmp_path / "HB__a.npz", wedge(3))
    sp.save_npz(tmp_path / "b.npz", wedge(3))
    (tmp_path / "manifest.csv").write_text("name,group,kind,rows,cols,nnz\na,HB,graph,3,1234,6\n")
    assert [line.split() for line in printed("list", tmp_path)] == [
        ["HB/a", "3", "1,234", "6", "graph"],
        ["b", "?", "?", "?"],
    ]


@pytest.mark.parametrize(
    ("arguments", "filters"),
    [
        (["dwt_*"], {"name": "dwt_*"}),
        (["--kind", "*circuit*", "--rows", "1000:30000"], {"kind": "*circuit*", "rows": (1000, 30000)}),
        (["--rows", ":10", "--square"], {"rows": (None, 10), "square": True}),
        (["--nnz", "100000000:", "--not-square"], {"nnz": (10**8, None), "square": False}),
        (["--cols", "361", "--group", "HB", "--structure", "sym*"], {"cols": (361, 361), "group": "HB"}),
        (["no such name"], {"name": "no such name"}),
    ],
)
def test_search(arguments, filters):
    lines = printed("search", *arguments)
    assert [line.split()[0] for line in lines] == [entry.name for entry in suitesparse.search(**filters)]
    assert run("search", *arguments).stderr.endswith(f"found: {len(lines)}\n")


@pytest.mark.parametrize("bad", ["a", "1:b", "1:2:3", "1-2"])
def test_range_that_is_none(bad):
    result = run("search", "--rows", bad)
    assert result.exit_code == 2
    assert f"'{bad}' is not a range such as 1000:30000" in result.stderr


def test_show(tmp_path):
    shown = dict(line.split(maxsplit=1) for line in printed("show", "HB/dwt_361.T[0:5]"))
    assert shown["name"] == "HB/dwt_361.T[0:5]"
    assert (shown["rows"], shown["cols"], shown["nnz"]) == ("5", "361", "unknown before loading")
    assert shown["licence"].startswith("CC-BY 4.0")
    sp.save_npz(tmp_path / "b.npz", wedge(3))
    assert "source   folder" in printed("show", "b", "--folder", tmp_path)
    assert "licence  -" in printed("show", "wedge(3)")


def test_download(tmp_path):
    places = np.random.default_rng(5).choice(132 * 132, 413, replace=False)
    matrix = sp.coo_array((np.ones(413), (places // 132, places % 132)), shape=(132, 132))
    with corpus_site.serve() as site:
        site.files["/MM/HB/west0132.tar.gz"] = corpus_site.archive("west0132", matrix)
        result = run("download", "HB/west0156", "HB/west0132", "--cache", tmp_path / "c", "--site", site.url)
        assert [request.split("/")[-1] for request, _ in site.requests] == ["west0156.tar.gz", "west0132.tar.gz"]
    assert isinstance(result.exception, errors.DownloadError)
    assert str(result.exception) == "1 of 2 matrices could not be downloaded"
    assert result.stdout.split() == [str(suitesparse.cached("HB/west0132", tmp_path / "c"))]
    assert "HB/west0156: " in result.stderr
    assert "404" in result.stderr
    assert printed("download", "HB/west0132", "--cache", tmp_path / "c") == result.stdout.splitlines()


def test_misspelt_name_is_found_before_anything_is_downloaded():
    result = run("download", "HB/west0132", "HB/west")
    assert isinstance(result.exception, errors.ParameterError)
    assert result.stdout == ""

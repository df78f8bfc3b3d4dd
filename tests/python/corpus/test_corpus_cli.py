"""The commands: what they print, and what becomes of mistakes."""

import importlib

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

import corpus_site
from warploom import corpus, errors
from warploom.cli import main
from warploom.commands import corpus as commands
from warploom.corpus import suitesparse

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
    return CliRunner().invoke(commands.corpus, list(map(str, arguments)))


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


def test_list_of_a_part_and_of_the_large_corpus():
    lines = printed("list", "large")
    assert len(lines) == len(corpus.large())
    (line,) = [line for line in lines if line.startswith("rmat(scale=18,edge_factor=16).shuffled ")]
    assert line.split()[1:] == ["262,144", "262,144", "3,940,030", "13", "constructed", "recursive", "matrix"]
    assert len(printed("list", "spmm")) == len(corpus.standard("spmm"))
    result = run("list", "huge")
    assert result.exit_code != 0
    assert "neither a folder nor one of" in result.output


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
    assert f"found: {len(lines)}\n" in run("search", *arguments).stderr


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


@pytest.mark.parametrize(
    ("given", "meant"),
    [("1e3:1e4", "1000:10000"), ("1_000:10_000", "1000:10000"), ("1e3:", "1000:"), (":5e2", ":500"), ("1e3", "1000")],
)
def test_ranges_may_be_written_with_exponents(given, meant):
    first, second = (CliRunner().invoke(main, ["corpus", "search", "--nnz", text]) for text in (given, meant))
    assert first.exit_code == second.exit_code == 0
    assert first.stdout == second.stdout


@pytest.mark.parametrize("given", ["1.5:3", "a:b", "1e999:", "nan"])
def test_what_is_no_range_is_refused(given):
    result = CliRunner().invoke(main, ["corpus", "search", "--nnz", given])
    assert result.exit_code == 2
    assert "is not a range such as 1000:30000 or 1e3:3e4" in result.stderr


def test_columns_of_lists_do_not_run_together():
    for command in (["corpus", "list"], ["reproduce", "--list"], ["experiment", "list"]):
        lines = CliRunner().invoke(main, command).stdout.splitlines()
        starts = [
            {i + 2 for i in range(len(line) - 2) if line[i : i + 2] == "  " and line[i + 2] != " "} for line in lines
        ]
        assert set.intersection(*map(set, starts)), command  # some column starts at the same place in all lines


def test_a_construction_without_parameters_is_explained():
    result = CliRunner().invoke(main, ["corpus", "show", "rmat"])
    assert result.exit_code == 2
    assert "'rmat' is a construction and takes parameters: rmat(scale" in result.stderr
    assert "did you mean" not in result.stderr


@pytest.mark.parametrize("given", [["--kind", "circuit"], ["dwt_36"], ["*", "--group", "boein"]])
def test_a_word_that_is_a_part_of_names_gets_the_pattern_that_finds_them(given):
    result = run("search", *given)
    assert result.exit_code == 0
    assert result.stdout == ""
    pattern = f"*{given[-1]}*"
    assert f"'{pattern}' finds" in result.stderr
    found = run("search", *given[:-1], pattern)
    assert found.stdout
    assert "finds" not in found.stderr

"""The experiment on orders for locality: its matrices, arrangements, rows and going on; on the CPU."""

from __future__ import annotations

import pandas as pd
import pytest

from warploom import corpus, permutations
from warploom._device import Device
from warploom._lines import append_lines
from warploom.experiments import find
from warploom.experiments.locality import COLUMNS, MATRICES, ORDERS, SETTINGS, collect, locality

CPU = Device("cpu")
SQUARE, WIDE = "nearest_points(n=900,neighbours=6)", "ratings(rows=60,cols=200,degree=5)"


def silent(done, total, what):
    pass


def test_matrices_are_in_the_corpus_under_their_canonical_names():
    assert [corpus.find(name).name for name in MATRICES] == list(MATRICES)
    assert len({corpus.find(name).family for name in MATRICES}) >= 12


def test_every_order_is_measured_in_every_setting():
    table = locality(CPU, silent, matrices=[SQUARE, WIDE], arrangements=["natural", "shuffled"])
    assert list(table.columns) == list(find("locality").columns) == list(COLUMNS)
    assert set(table["status"]) <= {"ok", "unsupported"}
    ok = table[table["status"] == "ok"]
    assert (ok["median_us"] > 0).all()
    symmetric = {order for order in ORDERS if order != "none" and permutations.is_symmetric(order)}
    for name in (SQUARE, WIDE):
        own = ok[ok["matrix"] == name]
        ways = set(own[["order", "permuted"]].itertuples(index=False, name=None))
        expected = {("none", "")} | {(order, "rows") for order in ORDERS if order != "none"}
        assert ways == expected | ({(order, "both") for order in symmetric} if name == SQUARE else set())
        for _, part in own.groupby(["arrangement", "order", "permuted"]):
            assert set(part["setting"]) == set(SETTINGS)
    # What was hidden is found again.
    square = ok[ok["matrix"] == SQUARE].groupby(["arrangement", "order", "permuted"])["sectors_per_nonzero"].first()
    assert square["shuffled", "rcm", "both"] <= square["shuffled", "none", ""]


def test_candidates_of_rows_alone_are_permuted_and_the_others_are_not():
    table = locality(CPU, silent, matrices=[SQUARE], arrangements=["natural"], orders=["none", "rcm"])
    for _, row in table.iterrows():
        assert row["candidate"].split("/")[1] == ("rcm" if row["permuted"] == "rows" else "none")


def test_a_file_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "new" / "rows.csv"
    options = {"arrangements": ["natural"], "settings": ["spmv/float64"]}
    assert collect(path, CPU, silent, minutes=0, matrices=[SQUARE], **options) == 0
    first = collect(path, CPU, silent, matrices=[SQUARE], orders=["none", "rcm"], **options)
    assert first == len(pd.read_csv(path)) > 0
    assert collect(path, CPU, silent, matrices=[SQUARE], orders=["none", "rcm"], **options) == 0
    before = path.read_text()
    told = []
    second = collect(
        path, CPU, lambda *step: told.append(step), matrices=[SQUARE, WIDE], orders=["none", "rcm"], **options
    )
    assert second > 0
    assert told == [(1, 2, WIDE)]
    assert path.read_text().startswith(before)
    table = pd.read_csv(path, keep_default_na=False)
    assert list(table.columns) == list(COLUMNS)
    assert not table.duplicated(["matrix", "arrangement", "order", "permuted", "setting", "candidate"]).any()
    assert set(table["matrix"]) == {SQUARE, WIDE}


def test_a_line_that_was_cut_off_is_measured_again(tmp_path):
    """By a kill, or a full disk: half a number is no measurement, and nothing is written behind it."""
    path = tmp_path / "rows.csv"
    options = {"arrangements": ["natural"], "settings": ["spmv/float64"], "orders": ["none"]}
    collect(path, CPU, silent, matrices=[SQUARE], **options)
    whole = path.read_text()
    path.write_text(whole + WIDE.join(whole.splitlines()[-1].split(SQUARE)).replace('"', "")[:-4])
    assert collect(path, CPU, silent, matrices=[SQUARE, WIDE], **options) > 0
    assert path.read_text().startswith(whole)
    table = pd.read_csv(path, keep_default_na=False)
    assert set(table["matrix"]) == {SQUARE, WIDE}
    assert not table.duplicated(["matrix", "arrangement", "order", "permuted", "setting", "candidate"]).any()


def test_lines_are_appended_as_a_whole_or_not_at_all(tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "rows.csv"
    path.write_text("a\nb\n")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))  # as a disk that fills up
    try:
        with pytest.raises(OSError, match="large"):
            append_lines(path, "c" * 20 + "\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == "a\nb\n"
    append_lines(path, "c\n")
    assert path.read_text() == "a\nb\nc\n"


def test_nothing_is_started_after_the_limit():
    assert locality(CPU, silent, minutes=0, matrices=[SQUARE]).empty

"""The experiment on orders for locality: its matrices, arrangements, rows and going on; on the CPU."""

from __future__ import annotations

import pandas as pd

from warploom import corpus, permutations
from warploom._device import Device
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


def test_nothing_is_started_after_the_limit():
    assert locality(CPU, silent, minutes=0, matrices=[SQUARE]).empty

"""What row orders add, against figures that can be worked out by hand."""

from __future__ import annotations

import math

import pytest
from click.testing import CliRunner

from bench.tables import matrix, measured, tables
from warploom.bench import orders
from warploom.cli import main
from warploom.errors import ParameterError

GRID, GRAPH = "grid2d(nx=9,ny=9)", "rmat(scale=9)"
TIMES = {
    GRID: {"none": 10, "rcm": 11, "community": 12},
    f"{GRID}.shuffled": {"none": 40, "rcm": 20, "community": 25},
    f"{GRID}.shuffled.reordered(rcm)": {"none": 8, "rcm": 9},
    f"{GRAPH}.shuffled": {"none": 10, "rcm": 20, "community": 12},
    "origins/wing.shuffled": {"none": 30, "community": 20},
    "origins/tree": {"none": 5},
}
"""Microseconds of the fastest candidates; a second one is slower in each order."""


def sweep(setting="spmv/float64"):
    facts, rows = [], []
    for name, of_order in TIMES.items():
        family = "2-D grid" if name.startswith(GRID) else "other"
        source = "origin" if name.startswith("origins") else "construction"
        more = {"permutation_ms_rcm": 2.0, "permutation_ms_community": 5.0}
        facts.append(matrix(name, nnz=1000, family=family, source=source, **more))
        for order, us in of_order.items():
            for kernel, slower in (("csr/vector[threads_per_row=4]", 1), ("csr/adaptive", 2)):
                rows.append(measured(name, f"spmv/{order}/{kernel}", us * slower, setting=setting))
    return tables(facts, rows)


@pytest.fixture(scope="module")
def swept():
    return sweep()


@pytest.mark.parametrize(
    ("name", "of", "arrangement"),
    [
        ("a(n=1)", "a(n=1)", "natural"),
        ("a(n=1).shuffled", "a(n=1)", "shuffled"),
        ("g/b.half", "g/b", "half"),
        ("g/b.shuffled.reordered(community)", "g/b", "community"),
    ],
)
def test_arrangements(name, of, arrangement):
    assert orders.arrangement_of(name) == (of, arrangement)


def test_least_times_of_every_order(swept):
    found = orders.of_each(swept, "spmv/float64")
    for name, of_order in TIMES.items():
        row = found.loc[name]
        assert {order: row[order] for order in of_order} == of_order
        permuted = {order: us for order, us in of_order.items() if order != "none"}
        if permuted:
            assert (row["order"], row["ordered"]) == min(permuted.items(), key=lambda item: item[1])
    assert found["structured"].sum() == 3
    assert found.loc["origins/tree", "origin"] == "real by origin"


def test_gains_of_an_arrangement(swept):
    lines = orders.gains(swept).frame.set_index(["arrangement", "matrices of"])
    shuffled = lines.loc[("shuffled", "all")]
    gains = [40 / 20, 10 / 12, 30 / 20]
    assert shuffled["matrices"] == 3
    assert math.isclose(shuffled["gain"], math.prod(gains) ** (1 / 3))
    assert math.isclose(shuffled["an order chosen"], math.prod([2, 1, 1.5]) ** (1 / 3))
    assert (shuffled["least"], shuffled["most"]) == (10 / 12, 2)
    assert shuffled["5 % or more"] == 2 / 3
    assert sorted(shuffled["of these"].split(", ")) == ["community 50 %", "rcm 50 %"]
    assert shuffled["of natural, as given"] == pytest.approx(10 / 40)  # of the one that was measured in both orders
    assert shuffled["of natural"] == pytest.approx(10 / 20)
    assert math.isnan(lines.loc[("natural", "all"), "of natural"])
    assert lines.loc[("shuffled", "constructed"), "matrices"] == 2
    assert lines.loc[("shuffled", "real by origin"), "gain"] == pytest.approx(1.5)
    assert lines.loc[("shuffled", "with neighbours"), "gain"] == pytest.approx(2)
    assert lines.loc[("natural", "all"), "matrices"] == 1  # the other one has no order
    assert ("half", "all") not in lines.index


def test_rows_and_columns(swept):
    (line, *_) = orders.rows_and_columns(swept).frame.to_dict("records")
    assert (line["order"], line["matrices"]) == ("rcm", 1)
    expected = {"rows alone": 40 / 20, "rows and columns": 40 / 8, "most": 40 / 8}
    expected |= {"of natural": 10 / 8, "of natural, rows alone": 10 / 20}
    assert {name: line[name] for name in expected} == pytest.approx(expected)


def test_costs(swept):
    lines = orders.costs(swept).frame.set_index("order")
    rcm = lines.loc["rcm"]
    assert rcm["matrices"] == 3
    assert rcm["ms for 10^6 nonzeros"] == 2000
    assert rcm["products"] == 200  # 2 ms are 50, 200 and 200 products
    assert (rcm["gains"], rcm["pays off after"]) == (1, 100)  # 2 ms, and 20 us a product
    assert lines.loc["community", "gains"] == 2


def test_without_orders_there_is_nothing_to_compare():
    rows = [measured("a", "spmv/none/csr/scalar"), measured("a", "spmv/none/csr/merge")]
    with pytest.raises(ParameterError, match="no matrix has times with a row permutation"):
        orders.orders(tables([matrix("a")], rows))


def test_the_command_prints_all_three(tmp_path, swept):
    swept.save(tmp_path / "sweep")
    done = CliRunner().invoke(main, ["bench", "orders", str(tmp_path / "sweep")])
    assert done.exit_code == 0, done.output
    for title in ("What the order of the rows adds", "Orders of rows and columns", "What an order costs"):
        assert title in done.stdout

import json
import math

import pandas as pd
import pytest

from bench.end_to_end_rows import ENVIRONMENT, direct, row
from warploom.bench.end_to_end import Rows, summarise
from warploom.bench.end_to_end.rows import COLUMNS, Store
from warploom.bench.end_to_end.summary import BEST, break_even, size_of
from warploom.errors import ParameterError

VENDOR = "cusparse"


@pytest.fixture
def rows(tmp_path):
    def load(*given, environment=ENVIRONMENT):
        Store(tmp_path).append(given, environment)
        return Rows.load(tmp_path)

    return load


def values(findings, tool, column="mean", **where):
    frame = findings.relative[findings.relative["tool"] == tool]
    for name, value in where.items():
        frame = frame[frame[name] == value]
    return dict(zip(frame["products"], frame[column], strict=True))


def test_ratios_are_of_planning_and_products(rows):
    findings = summarise(rows(row(planning=90, call=1), row(tool=VENDOR, planning=10, call=2)))
    assert values(findings, "warploom") == pytest.approx(
        {1: 12 / 91, 10: 30 / 100, 100: 210 / 190, 1000: 2010 / 1090, 100_000: 200_010 / 100_090}
    )
    assert values(findings, "warploom", "faster") == {1: 0, 10: 0, 100: 1, 1000: 1, 100_000: 1}
    assert values(findings, "warploom", "computed") == {1: 0, 10: 1, 100: 1, 1000: 1, 100_000: 1}
    ends = findings.break_even.set_index("tool")
    assert ends.loc["warploom", ["median", "reached"]].tolist() == [81, 1]  # at 80 both take 170 us


def test_means_are_geometric_and_groups_are_apart(rows):
    findings = summarise(
        rows(
            *(row(name, planning=0, call=call) for name, call in (("a", 1), ("b", 4))),
            *(row(name, VENDOR, planning=0, call=2) for name in "ab"),
            row("a", place="host", planning=0, call=1),
            row("a", VENDOR, place="host", planning=0, call=3),
            row("c", nnz=10**6, planning=0, call=1),
            row("c", VENDOR, nnz=10**6, planning=0, call=5),
            row("a", setting="spmm/float32/row/k=32", planning=0, call=1),
            row("a", VENDOR, setting="spmm/float32/row/k=32", planning=0, call=7),
        )
    )
    small = {"op": "spmv", "size": "below 10^5"}
    assert values(findings, "warploom", place="device", **small)[10] == pytest.approx(1.0)
    assert values(findings, "warploom", "faster", place="device", **small)[10] == 0.5
    assert values(findings, "warploom", "cases", place="device", **small)[10] == 2
    assert values(findings, "warploom", place="host", **small)[10] == pytest.approx(3)
    assert values(findings, "warploom", op="spmv", size="10^6 to 10^7")[10] == pytest.approx(5)
    assert values(findings, "warploom", op="spmm")[10] == pytest.approx(7)
    assert findings.relative["op"].tolist() == sorted(findings.relative["op"], reverse=True)


def test_measured_times_are_compared_with_measured_ones(rows):
    own, other = row(planning=0, call=1), row(tool=VENDOR, planning=0, call=2)
    both = summarise(rows(direct(own, 1.0), direct(other, 3.0)))
    assert values(both, "warploom")[100] == pytest.approx(6)
    assert values(both, "warploom", "computed")[100] == 0


def test_a_measured_time_is_not_compared_with_a_computed_one(rows):
    found = summarise(rows(row(planning=0, call=1), direct(row(tool=VENDOR, planning=0, call=2), 3.0)))
    assert values(found, "warploom")[100] == pytest.approx(2)
    assert values(found, "warploom", "computed")[100] == 1


def test_the_best_of_the_vendor_is_another_setting_for_another_number(rows):
    findings = summarise(
        rows(
            row(tool=VENDOR, planning=10, call=2),
            row(tool=f"{VENDOR}[preprocess]", planning=100, call=1),
            row(tool=f"{VENDOR}[algorithm=1]", planning=10, call=3),
        )
    )
    assert values(findings, BEST) == pytest.approx(
        {1: 1, 10: 1, 100: 210 / 200, 1000: 2010 / 1100, 100_000: 200_010 / 100_100}
    )
    assert set(findings.relative["tool"]) == {BEST}
    assert findings.break_even[["tool", "median", "reached"]].to_numpy().tolist() == [[BEST, 91, 1]]


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ((100, 1), (0, 2), 101),
        ((100.5, 1), (0, 2), 101),
        ((0, 1), (50, 2), 1),
        ((0, 2), (0, 1), math.inf),
        ((0, 2), (100, 1), math.inf),  # ahead at first, but not from some number on
        ((0, 1), (1, 1), 1),
        ((1, 1), (1, 1), math.inf),
    ],
)
def test_break_even(own, other, expected):
    assert break_even(*own, *other) == expected


def test_break_even_of_cases_that_have_none(rows):
    findings = summarise(
        rows(
            *(row(name, planning=10, call=call) for name, call in (("a", 1), ("b", 3), ("c", 9))),
            *(row(name, VENDOR, planning=0, call=2) for name in "abc"),
        )
    )
    (found,) = findings.break_even.to_dict("records")
    assert (found["median"], found["reached"]) == (11, pytest.approx(1 / 3))


def test_what_planning_costs(rows):
    sizes = {"a": 50, "b": 50, "c": 2 * 10**5, "d": 2 * 10**6, "e": 2 * 10**6}
    planning = {"a": 100.0, "b": 200.0, "c": 500.0, "d": 40.0, "e": 140.0}
    memory = {"peak_bytes": 150}
    findings = summarise(
        rows(
            *(row(name, nnz=sizes[name], planning=planning[name], call=4, **memory) for name in sizes),
            *(row(name, VENDOR, nnz=sizes[name], planning=0, call=2) for name in sizes),
        )
    )
    found = findings.planning.set_index("size").to_dict("index")
    small, middle, large = found["below 10^5"], found["10^5 to 10^6"], found["10^6 to 10^7"]
    assert (small["cases"], small["median_us"], small["max_us"], small["in_aim"]) == (2, 150, 200, 0.5)
    assert (middle["in_aim"], middle["median_products"], middle["median_own_products"]) == (1, 250, 125)
    assert (large["median_products"], large["max_products"]) == (45, 70)
    assert (large["in_aim"], large["in_60_products"]) == (0.5, 0.5)
    assert large["median_memory"] == large["max_memory"] == 1.5


def test_the_slowest_plans_are_those_that_exceed_their_aim_most(rows):
    sizes = {"a": 50, "b": 2 * 10**5, "c": 2 * 10**6}
    planning = {"a": 300.0, "b": 2000.0, "c": 120.0}  # of aims of 150, 500 and 40 us
    phases = {"phases": '{"features": 0.25}', "candidate": "spmv/none/csr/vector"}
    findings = summarise(
        rows(
            *(row(name, nnz=sizes[name], planning=planning[name], call=1, **phases) for name in sizes),
            *(row(name, VENDOR, nnz=sizes[name], planning=0, call=2) for name in sizes),
        )
    )
    assert findings.plans[["matrix", "excess"]].to_numpy().tolist() == [["b", 4.0], ["c", 3.0], ["a", 2.0]]
    shown = findings.slowest(2)
    assert shown.frame["matrix"].tolist() == ["b", "c"]
    assert shown.frame["phases"].tolist() == ["features 250"] * 2


def test_memory_that_is_not_known_is_left_out(rows):
    findings = summarise(rows(row(place="host"), row(tool=VENDOR, place="host")))
    assert findings.planning["median_memory"].isna().all()
    assert json.loads(findings.to_json())["planning"][0]["median_memory"] is None


def test_rows_without_times_do_not_count(rows):
    findings = summarise(
        rows(row(), row(tool=VENDOR), row("b", status="error", note="no"), row("b", VENDOR, status="out of memory"))
    )
    assert set(findings.relative["cases"]) == {1}


def test_on_the_cpu_scipy_is_what_tools_are_compared_with(rows):
    cpu = {"gpu": "", "cpu": "Test CPU"}
    findings = summarise(
        rows(
            row(place="host", call=1, planning=0), row(tool="scipy", place="host", call=4, planning=0), environment=cpu
        )
    )
    assert findings.baseline == "scipy"
    assert values(findings, "warploom")[1000] == pytest.approx(4)
    text = str(findings.tables()[0])
    assert "Test CPU" in text
    assert "GPU" not in text


def test_tables_show_the_figures(rows):
    findings = summarise(rows(row(planning=90, call=1), row(tool=VENDOR, planning=10, call=2)))
    first, second = map(str, findings.tables())
    assert "Until n products are done, over cusparse" in first
    for text in ("0.13 (0%)", "0.30 (0%)", "1.11 (100%)", "81 (100%)", "Test GPU, CUDA 13.0, cuSPARSE 12.6"):
        assert text in first
    assert "What planning costs" in second
    assert max(map(len, first.splitlines() + second.splitlines())) <= 160


def test_json_has_what_the_tables_have(rows):
    found = json.loads(summarise(rows(row(planning=90, call=1), row(tool=VENDOR, planning=10, call=9))).to_json())
    assert found["baseline"] == VENDOR
    assert list(found["environments"].values()) == [ENVIRONMENT]
    assert [entry["products"] for entry in found["until"]] == [1, 10, 100, 1000, 100_000]
    assert found["break_even"][0]["median"] == 11
    assert found["planning"][0]["median_us"] == 90
    assert (found["plans"][0]["matrix"], found["plans"][0]["planning_us"]) == ("a", 90)


def test_classes_of_sizes_include_their_lower_bound():
    assert list(size_of([0, 99_999, 10**5, 10**6, 10**7])) == [
        "below 10^5",
        "below 10^5",
        "10^5 to 10^6",
        "10^6 to 10^7",
        "10^7 and more",
    ]


def test_rows_of_different_gpus_are_refused():
    frame = pd.DataFrame([row() | {"environment": "x"}], columns=[c.name for c in COLUMNS])
    with pytest.raises(ParameterError, match="different GPUs"):
        summarise(Rows(frame, {"x": {"gpu": "one"}, "y": {"gpu": "two"}}))


def test_nothing_to_compare_is_an_error(rows):
    with pytest.raises(ParameterError, match="nothing to compare"):
        summarise(rows(row()))
    with pytest.raises(ParameterError, match="no row has times"):
        summarise(rows(row(status="error")))

"""The table that explains the choice of a plan."""

import csv
import io
import json
import math
import re
import sys
import types

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from warploom import _core
from warploom._matrix import as_csr
from warploom.explanation import Explanation, Product, Row


@pytest.fixture(scope="module")
def matrix():
    return csr_array(random_array((90, 70), density=0.1, rng=np.random.default_rng(0), format="csr"))


def made_up(rows, chosen, baseline="spmm/none/csr/row_split"):
    return Explanation("title", rows, chosen, baseline, ["footnote"])


@pytest.mark.parametrize("layout", ["row", "column"])
def test_of_a_measured_plan(matrix, layout):
    plan = wl.plan(matrix, k=4, device="cpu", layout=layout, calls=math.inf, budget=math.inf)
    explanation = plan.explain()
    assert explanation is plan.explain()
    rows = explanation.rows
    assert explanation.chosen == plan.candidate
    assert sorted(r.note for r in rows) == [*[""] * (len(rows) - 1), "chosen"]
    assert [r.median_us for r in rows] == sorted(r.median_us for r in rows)
    assert explanation.baseline == "scipy"
    (plain,) = [r for r in rows if r.candidate == explanation.baseline]
    assert plain.speedup == 1.0
    floor_us = 1e6 * _core.product_floor_bytes(as_csr(matrix), 4) / _core.copy_bandwidth(-1)
    for row in rows:
        assert row.p10_us <= row.median_us <= row.p90_us
        assert row.speedup == plain.median_us / row.median_us
        assert row.floor_share == pytest.approx(floor_us / row.median_us)
        assert (row.preparation_ms > 0) == (row.bytes > 0) == (row.candidate != "scipy")
    for part in ("A 90 x 70", f"{matrix.nnz} nonzeros", "float64", "k = 4", f"{layout}-major", "CPU"):
        assert part in explanation.title


def test_numbers_that_are_not_known_are_left_out():
    rows = [Row("spmm/c/csr/x", 1.0, 10.0, 9.0, 11.0), Row("spmm/a/csr/x", note="would not fit")]
    explanation = made_up(rows, "spmm/c/csr/x")
    assert math.isnan(rows[1].median_us)
    (line,) = [line for line in str(explanation).splitlines() if line.strip().startswith("spmm/a/csr/x")]
    assert line.split() == ["spmm/a/csr/x", "would", "not", "fit"]


def test_footnotes_say_what_was_measured(matrix):
    plan = wl.plan(matrix, k=4, device="cpu", candidates="spmm/none/csr/row_split*", budget=math.inf)
    rows = plan.explain().rows
    measured = len(rows) - 1  # SciPy's product is no candidate
    expected = f"{measured} of {measured} candidates measured, warm cache; speedup over scipy"
    assert expected in str(plan.explain())


def test_without_the_baseline_there_is_no_speedup(matrix, monkeypatch):
    monkeypatch.setattr(sys.modules["warploom.plan"], "host_products", lambda problem: {})
    plan = wl.plan(matrix, k=4, device="cpu", candidates="spmm/lpt/*")
    explanation = plan.explain()
    assert all(math.isnan(r.speedup) for r in explanation.rows)
    assert "speedup over" not in str(explanation)


def test_json(matrix):
    rows = [
        Row("spmm/none/csr/row_split", 1.0, 30.0, 29.0, 31.0, speedup=1.0, floor_share=0.25, bytes=5, note="chosen"),
        Row("spmm/a/csr/x", note="no"),
    ]
    explanation = made_up(rows, "spmm/none/csr/row_split")
    text = json.dumps(explanation.to_dict(), allow_nan=False)
    read = json.loads(text)
    assert read["chosen"] == read["baseline"] == "spmm/none/csr/row_split"
    assert read["rows"][0] == {
        "candidate": "spmm/none/csr/row_split",
        "preparation_ms": 1.0,
        "median_us": 30.0,
        "p10_us": 29.0,
        "p90_us": 31.0,
        "speedup": 1.0,
        "floor_share": 0.25,
        "bytes": 5,
        "note": "chosen",
        "predicted_us": None,
        "break_even": None,
        "break_even_vendor": None,
    }
    assert read["rows"][1]["median_us"] is None
    json.dumps(wl.plan(matrix, k=4, device="cpu").explain().to_dict(), allow_nan=False)


def test_the_printed_table_is_short_and_the_full_one_is_not():
    rows = [Row(f"spmm/none/csr/row_split[t={i}]", 1.0, 10.0 + i, 1.0, 99.0) for i in range(30)]
    rows += [
        Row("spmm/lpt/csr/row_split", 1.0, 99.0, 1.0, 99.0),
        Row("spmm/none/csr/row_split", 1.0, 200.0, 1.0, 300.0),
    ]
    explanation = made_up(rows, "spmm/none/csr/row_split[t=0]")
    short = str(explanation)
    assert sum(line.strip().startswith("spmm/") for line in short.splitlines()) == 11  # ten, and the baseline
    assert "21 more candidates not shown" in short
    assert sum(line.strip().startswith("spmm/") for line in explanation.table(3).splitlines()) == 4
    full = explanation.full()
    assert all(row.candidate in full for row in rows)
    assert "not shown" not in full


def test_names_and_notes_are_printed_as_they_are():
    long = "spmm/warp-aware/segmented-csr/row_split[" + ",".join(f"parameter_{i}=100" for i in range(20)) + "]"
    note = "CUDA said [bold]no[/bold] :smile: " + "because of a long story " * 6
    explanation = made_up([Row(long, 1.0, 10.0, 9.0, 11.0), Row("spmm/a/csr/x", note=note)], long)
    narrow = str(explanation)
    *table, last = narrow.splitlines()
    assert all(len(line) <= 100 for line in table)
    assert last == long  # which can be copied
    text = explanation.table(wide=True)
    assert long in text
    assert "[bold]no[/bold] :smile:" in text
    assert text.split().count("story") == 6
    assert all(line == line.rstrip() for line in text.splitlines())


def test_of_a_plan_that_was_named(matrix):
    plan = wl.plan(matrix, k=4, device="cpu", select="spmm/lpt/csr/row_split")
    explanation = plan.explain()
    (row,) = explanation.rows
    assert (row.candidate, row.note) == ("spmm/lpt/csr/row_split", "named by the caller")
    assert row.bytes == plan.nbytes
    assert row.preparation_ms == sum(plan.preparation_ms.values())
    assert math.isnan(row.median_us)
    assert "named by the caller" in str(explanation)
    for part in ("spmm: A 90 x 70", "k = 4", "row-major", "CPU"):
        assert part in explanation.title
    json.dumps(explanation.to_dict(), allow_nan=False)


def test_says_how_a_product_can_be_faster_than_the_floor(matrix):
    plain = "spmm/none/csr/row_split"
    product = Product("spmm", matrix.shape, matrix.nnz, matrix.dtype, 4, "row", "warm", "CPU")
    for share, said in ((2.0, True), (0.5, False)):
        found = types.SimpleNamespace(
            based_on="measured",
            rows=[Row(plain, 1.0, 10.0, 10.0, 10.0, floor_share=share)],
            chosen=plain,
            baseline=plain,
            floor_bytes=1000,
            copy_bandwidth=1e9,
            left_out=0,
            lacked_memory=0,
            small_on_host=False,
            not_measured="",
        )
        explanation = Explanation.of(found, product)
        assert ("over 100 % of the floor" in str(explanation)) == said
        assert not [note for note in explanation.footnotes if "fit into memory" in note or "not known" in note]
        found.lacked_memory, found.copy_bandwidth, found.not_measured = 2, math.nan, "9 bytes are needed"
        footnotes = " ".join(Explanation.of(found, product).footnotes)
        assert "2 candidates do not fit into memory" in footnotes
        assert "bandwidth floor not known" in footnotes
        assert "more memory than there is: 9 bytes are needed" in footnotes


@pytest.mark.parametrize(("device", "chosen", "said"), [("CPU", 1, True), ("CPU", 0, False), ("NVIDIA H200", 1, False)])
def test_says_why_the_fastest_on_a_cpu_is_not_chosen(matrix, device, chosen, said):
    names = ["spmm/none/dcsr/row_split", "spmm/none/csr/row_split"]
    found = types.SimpleNamespace(
        based_on="measured",
        rows=[row("scipy", 5.0), row(names[0], 10.0), row(names[1], 10.5), Row("spmm/a/csr/x", note="no")],
        chosen=names[chosen],
        baseline="scipy",
        floor_bytes=1000,
        copy_bandwidth=1e9,
        left_out=0,
        lacked_memory=0,
        small_on_host=False,
        not_measured="",
    )
    product = Product("spmm", matrix.shape, matrix.nnz, matrix.dtype, 4, "row", "warm", device)
    notes = [note for note in Explanation.of(found, product).footnotes if "does not replace" in note]
    assert [note.startswith(f"{names[0]} does not replace {names[1]}") for note in notes] == [True] * said


# ----- in words -----


def row(name, time, preparation=0.0, **others):
    return Row(name, preparation, time, time, time, **others)


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        (
            [row("spmv/none/csr/vector", 10.0, 1.2), row("scipy", 14.0)],
            "use spmv/none/csr/vector: 1.40 times the speed of SciPy; pays off after 300 products",
        ),
        (
            [row("spmv/none/csr/vector", 10.0, 0.0), row("scipy", 14.0)],
            "use spmv/none/csr/vector: 1.40 times the speed of SciPy; pays off at once",
        ),
        (
            [row("scipy", 10.0), row("spmv/none/csr/vector", 12.5, 1.2)],
            "keep SciPy: 1.25 times the speed of spmv/none/csr/vector",
        ),
        (
            [row("scipy", 10.0), row("spmv/none/csr/vector", 10.1, 1.2)],
            "use spmv/none/csr/vector: 0.99 times the speed of SciPy; saves nothing",
        ),
    ],
)
def test_the_last_line_says_what_to_use(rows, verdict):
    explanation = Explanation("title", rows, "spmv/none/csr/vector", "scipy", ["footnote"], "scipy")
    assert str(explanation).splitlines()[-1] == explanation.verdict() == verdict
    assert explanation.to_dict()["verdict"] == verdict


def test_the_vendors_best_and_its_default_are_told_apart():
    chosen, best, default = "spmv/none/csr/merge", "spmv/none/sell/cusparse", "spmv/none/csr/cusparse"
    rows = [row(chosen, 10.0, 2.0, speedup=3.0), row(best, 14.0, 1.0), row(default, 30.0, 1.0, speedup=1.0)]
    explanation = Explanation("title", rows, chosen, default, [], best)
    assert explanation.verdict() == (
        f"use {chosen}: 1.40 times the speed of the vendor's best and 3.00 times that of its default; "
        "pays off after 250 products"
    )
    (line,) = [line for line in str(explanation).splitlines() if line.startswith(chosen)]
    assert line.split() == [chosen, "10.00", "3.00x", "1.40x", "2.00", "250"]


def test_no_line_is_longer_than_a_terminal():
    long = "spmm/warp-aware/segmented-csr/row_split[threads_per_row=16,columns_per_thread=8,unroll=8,segment_length=32]"
    rows = [row(long, 1e7, 1e5, speedup=1.234, note="chosen"), row("spmm/a/csr/x", 2e7, note="a long story " * 9)]
    text = str(Explanation("title", rows, long, "spmm/a/csr/x", ["a footnote that is far too long " * 9]))
    text = text[: text.index("\nuse")]  # a name that can be copied, however long
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("story") == 9


@pytest.mark.parametrize(("columns", "width"), [(40, 70), (80, 80), (100, 100), (250, 100)])
def test_lines_are_as_long_as_the_terminal_allows(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", str(columns))
    names = [f"spmv/none/sell/vector[threads_per_row={t},sort_window=4096]" for t in (2, 4)]
    rows = [row(name, 10.0 + place, 0.5) for place, name in enumerate(names)]
    note = "of which some were left out and others could not run " * 3
    explanation = Explanation("a title that is long " * 6, rows, names[0], names[1], [note], vendor=names[1])
    lines = str(explanation).splitlines()
    assert width - 20 < max(map(len, lines)) <= width
    first = [line for line in lines if line.startswith("spmv/")]
    assert all(re.match(r"spmv/none/sell/vector\[", line) for line in first)  # no word of a name is broken
    assert ("prepared ms" in str(explanation)) == (width == 100)
    assert max(map(len, explanation.full().splitlines())) > 100  # one line each, whatever the terminal


def test_a_cell_shows_the_table():
    explanation = made_up([row("spmm/none/csr/row_split", 10.0)], "spmm/none/csr/row_split")
    assert repr(explanation) == str(explanation)


def test_csv():
    explanation = made_up([row("a/b[c=1,d=2]", 10.0, 1.5), Row("x", note="no, never")], "x")
    file = io.StringIO()
    explanation.to_csv(file)
    first, second = csv.DictReader(io.StringIO(file.getvalue()))
    assert (first["candidate"], first["median_us"], first["preparation_ms"]) == ("a/b[c=1,d=2]", "10.0", "1.5")
    assert (second["median_us"], second["note"]) == ("", "no, never")

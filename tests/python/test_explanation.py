"""The table that explains the choice of a plan."""

import json
import math
import types

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from warploom import _core
from warploom._matrix import as_csr
from warploom.explanation import Explanation, Product, Row

PLAIN = {"row": "spmm/none/csr/row_split", "column": "spmm/none/csr/c_stationary"}


@pytest.fixture(scope="module")
def matrix():
    return csr_array(random_array((90, 70), density=0.1, rng=np.random.default_rng(0), format="csr"))


def made_up(rows, chosen, baseline="spmm/none/csr/row_split"):
    return Explanation("title", rows, chosen, baseline, ["footnote"])


@pytest.mark.parametrize("layout", ["row", "column"])
def test_of_a_measured_plan(matrix, layout):
    plan = wl.plan(matrix, k=4, device="cpu", layout=layout, calls=math.inf)
    explanation = plan.explain()
    assert explanation is plan.explain()
    rows = explanation.rows
    assert explanation.chosen == plan.candidate == rows[0].candidate
    assert [r.note for r in rows] == ["chosen", *[""] * (len(rows) - 1)]
    assert [r.median_us for r in rows] == sorted(r.median_us for r in rows)
    assert explanation.baseline == PLAIN[layout]
    (plain,) = [r for r in rows if r.candidate == explanation.baseline]
    assert plain.speedup == 1.0
    floor_us = 1e6 * _core.product_floor_bytes(as_csr(matrix), 4) / _core.copy_bandwidth(-1)
    for row in rows:
        assert row.p10_us <= row.median_us <= row.p90_us
        assert row.speedup == plain.median_us / row.median_us
        assert row.floor_share == pytest.approx(floor_us / row.median_us)
        assert row.preparation_ms > 0
        assert row.bytes > 0
    for part in ("A 90 x 70", f"{matrix.nnz} nonzeros", "float64", "k = 4", f"{layout}-major", "CPU"):
        assert part in explanation.title


def test_numbers_that_are_not_known_are_left_out():
    rows = [Row("spmm/c/csr/x", 1.0, 10.0, 9.0, 11.0), Row("spmm/a/csr/x", note="would not fit")]
    explanation = made_up(rows, "spmm/c/csr/x")
    assert math.isnan(rows[1].median_us)
    (line,) = [line for line in str(explanation).splitlines() if line.strip().startswith("spmm/a/csr/x")]
    assert line.split() == ["spmm/a/csr/x", "would", "not", "fit"]


def test_footnotes_say_what_was_measured(matrix):
    plan = wl.plan(matrix, k=4, device="cpu", candidates="spmm/none/csr/row_split*")
    rows = plan.explain().rows
    expected = f"{len(rows)} of {len(rows)} candidates measured, warm cache; speedup over spmm/none/csr/row_split"
    assert expected in str(plan.explain())


def test_without_the_baseline_there_is_no_speedup(matrix):
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
    assert (
        sum(line.strip().startswith("spmm/") for line in short.splitlines()) == 12
    )  # ten, the other kind, the baseline
    assert "20 slower settings not shown" in short
    full = explanation.full()
    assert all(row.candidate in full for row in rows)
    assert "not shown" not in full


def test_names_and_notes_are_printed_as_they_are():
    long = "spmm/warp-aware/segmented-csr/row_split[" + ",".join(f"parameter_{i}=100" for i in range(20)) + "]"
    note = "CUDA said [bold]no[/bold] :smile: " + "because of a long story " * 6
    explanation = made_up([Row(long, 1.0, 10.0, 9.0, 11.0), Row("spmm/a/csr/x", note=note)], long)
    text = str(explanation)
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
        )
        explanation = Explanation.of(found, product)
        assert ("over 100 % of the floor" in str(explanation)) == said

"""Summaries as text."""

from __future__ import annotations

import numpy as np
import pandas as pd

from warploom.bench.rendering import Summary

SUMMARY = Summary(
    "A title",
    pd.DataFrame({"name": ["a[0]", "b"], "count": [1234, 5], "speedup": [1.239, np.nan], "share": [0.125, 0.0]}),
    ["A note."],
    {"speedup": ".2f", "share": ".1%"},
)


def test_text_has_title_cells_and_notes():
    lines = str(SUMMARY).splitlines()
    assert lines[0].strip() == "A title"
    assert [line.split() for line in lines if "1,234" in line] == [["a[0]", "1,234", "1.24", "12.5", "%"]]
    assert lines[-1] == "A note."


def test_small_speedups_are_not_zero():
    assert Summary("", pd.DataFrame({"min": [0.0031, 0.0]}), [], {"min": ".2f"}).cells() == [["0.0031"], ["0.00"]]


def test_long_headings_are_not_cut():
    names = [f"a_long_heading_without_a_space_{i}" for i in range(10)]
    text = str(Summary("", pd.DataFrame({name: [1] for name in names})))
    assert "…" not in text


def test_a_table_without_rows():
    assert "a" in str(Summary("t", pd.DataFrame(columns=["a"])))


def test_truth_values_are_words():
    assert Summary("", pd.DataFrame({"equal": [True, False], "count": [1, 0]})).cells() == [["yes", "1"], ["no", "0"]]

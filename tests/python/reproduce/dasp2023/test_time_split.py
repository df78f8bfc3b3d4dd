"""D-F2, from times whose split is known."""

from __future__ import annotations

import pandas as pd
import pytest

from reproduce import findings
from warploom.reproduce import Context, MissingMeasurementsError, find
from warploom.reproduce.dasp2023.time_split import PARTS, shares


def made(found):
    (item,) = find(["D-F2"])
    return item.make(Context(experiments=[found]))


def test_shares_of_the_time():
    (row,) = shares(pd.DataFrame([findings.TIMES])).to_dict("records")
    assert row == pytest.approx(
        {"random access": 0.30, "compute": 0.15, "miscellaneous": 0.55, "compute, left out first": 0.10}
    )


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        # slower without the random access, so that all that is gained is the arithmetic
        (findings.split_times(no_random_access=110.0), {"random access": 0.0, "compute": 0.45}),
        # slower without the arithmetic as well
        (findings.split_times(neither=80.0), {"random access": 0.30, "compute": 0.0}),
        (findings.split_times(no_random_access=110.0, neither=120.0), {"random access": 0.0, "compute": 0.0}),
    ],
)
def test_parts_that_gain_nothing(times, expected):
    (row,) = shares(pd.DataFrame([times])).to_dict("records")
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert sum(row[name] for name in PARTS) == pytest.approx(1)


def test_the_means_stand_beside_the_paper_s():
    result = made(findings.time_split(scalar=findings.split_times(neither=70.0)))
    assert result.ours == pytest.approx({"random access": 0.30, "compute": 0.15, "miscellaneous": 0.55})
    frame, means = result.tables
    assert len(frame) == 4  # two matrices, two kernels; float64 and a warm cache alone
    assert set(means["matrices"]) == {2}
    assert len(means) == 8  # value types, states of the cache, kernels
    for _, row in means.iterrows():
        assert row["compute"] == pytest.approx(0.15 if row["kernel"] == "vector" else 0.0)


def test_bars_are_the_shares():
    result = made(findings.time_split())
    axis = result.figure.axes[0]
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in axis.containers}
    # two matrices, their mean, and the paper's
    assert heights["random access"] == pytest.approx([0.30, 0.30, 0.30, 0.251])
    assert heights["compute"] == pytest.approx([0.15, 0.15, 0.15, 0.211])
    labels = [text.get_text() for text in result.figure.axes[-1].get_xticklabels()]
    assert labels == ["grid", "circuit", "mean", "paper, A100"]


def test_verdicts():
    assert made(findings.time_split()).verdict.standing == "holds"
    cheap = findings.split_times(neither=65.0)  # arithmetic is 5 % of the time
    verdict = made(findings.time_split(vector=cheap, scalar=cheap)).verdict
    assert verdict.standing == "holds in part"
    assert "5 % with the vector kernel, 5 % with the scalar kernel" in verdict.sentence
    nothing = findings.split_times(no_random_access=99.0, neither=98.0)
    assert made(findings.time_split(vector=nothing, scalar=nothing)).verdict.standing == "does not hold"


def test_a_matrix_without_scalar_times_has_no_bar():
    found = findings.time_split()
    table = found.table
    found.table = table[(table["kernel"] == "vector") | (table["label"] == "grid")]
    result = made(found)
    scalar = result.figure.axes[1].containers[0]
    assert [bar.get_height() == bar.get_height() for bar in scalar] == [True, False, True, True]
    assert [text.get_text() for text in result.figure.axes[1].texts] == ["not measured"]
    assert len(result.figure.axes[0].texts) == 0
    (absent,) = set(table["label"]) - {"grid"}
    assert (
        f"Not measured, as their longest rows would take too long: {absent} with the scalar kernel." in result.caption
    )


def test_the_command_that_makes_it():
    (item,) = find(["D-F2"])
    with pytest.raises(MissingMeasurementsError, match="warploom experiment run time-split --output sweep"):
        item.make(Context(experiments=[findings.strip_height()]))

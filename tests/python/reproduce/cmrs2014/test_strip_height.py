"""C-F6.1, from bandwidths that are known."""

from __future__ import annotations

import pytest

from reproduce import findings
from warploom.reproduce import Context, MissingMeasurementsError, find
from warploom.reproduce.cmrs2014.strip_height import rates


def made(found):
    (item,) = find(["C-F6.1"])
    return item.make(Context(experiments=[found]))


def test_bandwidths():
    table = rates(findings.strip_height().table)
    product = table[(table["kernel"] == "cmrs") & (table["height"] == 8)]
    assert product["GB/s"].tolist() == pytest.approx([2500.0] * len(product))
    assert product["GB/s, beta-"].tolist() == pytest.approx([5000.0] * len(product))


def test_curves_and_the_copy():
    figure = made(findings.strip_height()).figure
    reading, product = figure.axes
    lines = {line.get_label(): line for line in reading.get_lines()}
    assert lines["all places, float64"].get_xdata().tolist() == list(findings.READ)
    assert lines["all places, float64"].get_ydata().tolist() == pytest.approx(list(findings.READ.values()))
    for axis in (reading, product):
        (copy,) = (line for line in axis.get_lines() if line.get_label() == "measured copy")
        assert copy.get_ydata() == [4000.0, 4000.0]
    lines = {line.get_label(): line for line in product.get_lines()}
    assert lines["$\\beta_-$, float32"].get_ydata().tolist() == pytest.approx(
        [2 * rate for rate in findings.PRODUCT.values()]
    )


def test_open_symbols_where_there_is_no_room_for_all_threads():
    reading = made(findings.strip_height()).figure.axes[0]
    open_ones = [line for line in reading.get_lines() if line.get_markerfacecolor() == "white"]
    assert [line.get_xdata().tolist() for line in open_ones] == [[16, 64]] * 4


def test_best_heights():
    result = made(findings.strip_height())
    best = result.tables[0]
    assert best["best height"].tolist() == [8] * 4
    assert best["speedup over height 1"].tolist() == pytest.approx([2.5] * 4)
    assert result.ours == {"best height, float64": 8.0, "best height, float32": 8.0}


@pytest.mark.parametrize(
    ("changed", "standing", "words"),
    [
        ({}, "holds", "2.50x from height 1 to 8"),
        # faster and faster
        ({"product": findings.PRODUCT | {16: 3500.0}}, "holds in part", "gains no more (1.40x of that at height 16"),
        # as fast for every height
        (
            {"product": dict.fromkeys(findings.PRODUCT, 1000.0), "read": dict.fromkeys(findings.READ, 3000.0)},
            "holds in part",
            "1.00 of the highest bandwidth, with 81 % of all threads",
        ),
        (
            {"product": {1: 1000.0, 8: 800.0, 16: 1000.0}, "read": dict.fromkeys(findings.READ, 3000.0)},
            "does not hold",
            "1.25x of that at height 16",
        ),
    ],
)
def test_verdicts(changed, standing, words):
    verdict = made(findings.strip_height(**changed)).verdict
    assert verdict.standing == standing
    assert words in verdict.sentence


def test_the_command_that_makes_it():
    (item,) = find(["C-F6.1"])
    with pytest.raises(MissingMeasurementsError, match="warploom experiment run strip-height --output sweep"):
        item.make(Context())

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from warploom.reproduce import drawing


def test_bins_hold_equally_many_values():
    x = np.arange(1, 13)
    found_x, found_y = drawing.binned(x[::-1], 2.0 * x[::-1], bins=3)
    expected = [math.prod(map(int, part)) ** (1 / 4) for part in np.split(x, 3)]
    np.testing.assert_allclose(found_x, expected)
    np.testing.assert_allclose(found_y, 2 * np.array(expected))


def test_bins_leave_out_what_has_no_logarithm():
    found_x, found_y = drawing.binned([1, 2, 3, 4, 5, 6], [1, np.nan, 3, 0, 5, 6], bins=1)
    np.testing.assert_allclose(found_x, [(1 * 3 * 5 * 6) ** 0.25])
    np.testing.assert_allclose(found_y, found_x)
    assert drawing.binned([], [])[0].size == 0


def test_tables_show_every_cell():
    frame = pd.DataFrame({"name": ["a", "b"], "value": [1.25, np.nan], "count": [1000, 2]})
    texts = {text.get_text() for text in drawing.table(frame, {"value": ".1f"}).axes[0].texts}
    assert {"name", "value", "count", "a", "b", "1.2", "-", "1,000", "2"} <= texts


@pytest.mark.parametrize(("low", "high"), [(0.9, 1.1), (0.5, 1.8), (0.01, 300)])
def test_ratios_have_plain_numbers(low, high):
    figure = drawing.figure(2)
    axis = figure.subplots()
    axis.plot([1, 2], [low, high])
    drawing.log_ratio_axis(axis)
    labels = [float(label.get_text()) for label in axis.get_yticklabels()]
    assert len(labels) >= 3
    assert 1.0 in labels
    assert labels == [tick for tick in axis.get_yticks()]


def test_a_range_within_a_decade_has_ticks():
    figure = drawing.figure(2)
    axis = figure.subplots()
    axis.plot([1.2e7, 4e7], [1, 2])
    drawing.log_axis(axis)
    low, high = axis.get_xlim()
    assert sum(low <= tick <= high for tick in axis.get_xticks()) >= 1
    assert axis.xaxis.get_major_formatter()(2e7) == r"$2\cdot10^{7}$"
    assert axis.xaxis.get_major_formatter()(500) == "500"


def test_short_names_are_whole_and_differ():
    names = [
        "HB/dwt_361",
        "grid2d(nx=949,ny=949)",
        "grid2d(nx=436,ny=437,stencil=9)",
        "block_diagonal(blocks=7,smallest=3,largest=5)",
        "rmat(scale=9,seed=3).T",
        "rmat(scale=9,seed=2).T",
        "dense(m=5,n=5)",
        "dense(m=5,n=5)",
        "dense(m=5,n=5).T",
    ]
    labels = drawing.short_names(names)
    assert labels == [
        "HB/dwt_361",
        "grid2d, nx 949",
        "grid2d, nx 436",
        "block diagonal",
        "rmat.T, seed 3",
        "rmat.T, seed 2",
        "dense 1",
        "dense 2",
        "dense.T",
    ]


def test_colours_are_consistent_and_techniques_of_one_picture_differ():
    assert drawing.colour("lpt") == drawing.COLOURS["lpt"]
    assert drawing.colour("unheard of", 1) != drawing.colour("unheard of", 2)
    orders = [drawing.COLOURS[name] for name in ("csr", "dcsr", "plain", "flipped", "lpt", "warp-aware", "cta-aware")]
    assert len(set(orders)) == len(orders)
    kernels = [drawing.COLOURS[name] for name in ("cuSPARSE", "cuSPARSE BSR", "merge-based", "CSR-adaptive", "DASP")]
    assert len(set(kernels)) == len(kernels)

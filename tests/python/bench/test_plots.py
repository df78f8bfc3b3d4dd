"""What the pictures show, read back from the figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from matplotlib.patches import StepPatch

from bench.tables import matrix, measured, tables
from warploom.bench import plots
from warploom.errors import ParameterError


def matrices(count=200, variation=True):
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 10**6, count)
    frame = pd.DataFrame({"matrix": [f"m{i}" for i in range(count)], "rows": rows, "cols": rows})
    frame = frame.assign(nnz=rows * rng.integers(0, 20, count), family=[f"family {i % 12}" for i in range(count)])
    return frame.assign(spmv_nnz_per_row_cov=rng.choice([0.0, 0.5, 2.0, np.nan], count)) if variation else frame


def steps(axis):
    return [patch for patch in axis.patches if isinstance(patch, StepPatch)]


def test_distribution_shows_all_matrices():
    measured_ones, index = matrices(200), matrices(500, variation=False)[["rows", "cols", "nnz"]]
    figure = plots.distribution(measured_ones, index)
    axes = figure.axes
    assert [axis.get_xlabel().split("\n")[0].split(" (")[0] for axis in axes[:5]] == [
        "rows",
        "nonzeros",
        "nonzeros per row",
        "density",
        "variation of row lengths",
    ]
    for axis in axes[:4]:
        drawn = steps(axis)
        assert len(drawn) == 2
        for step in drawn:
            assert step.get_data().values.sum() == pytest.approx(100)  # no matrix falls outside the bins
    (variation,) = steps(axes[4])
    assert variation.get_data().values.sum() == pytest.approx(100)
    assert "not in the collection's index" in axes[4].get_xlabel()
    assert [label.get_text() for label in axes[5].get_yticklabels()][-1] == "4 others"
    assert sum(bar.get_width() for bar in axes[5].patches) == pytest.approx(100)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["measured: 200 matrices", "SuiteSparse collection: 500 matrices"]


def test_distribution_of_one_matrix_and_of_known_variation():
    one = matrices(1).assign(nnz=10)
    index = matrices(5, variation=False).assign(nnz_per_row_cov=1.0)
    figure = plots.distribution(one, index)
    assert len(steps(figure.axes[4])) >= 1
    assert "not in" not in figure.axes[4].get_xlabel()


def test_distribution_of_nothing_is_refused():
    with pytest.raises(ParameterError, match="index has no rows"):
        plots.distribution(matrices(3), matrices(3).head(0))


def speedup_tables():
    rows = [
        measured(name, candidate, time, cache="cold", setting=setting)
        for setting in ("spmv/float64", "spmv/float32", "spmv/float16", "spmm/float32/row/k=8")
        for name, ours, theirs in (("a", 1.0, 2.0), ("b", 2.0, 1.0), ("c", 1.0, 8.0))
        for candidate, time in (("spmv/none/csr/scalar", ours), ("spmv/none/csr/cusparse", theirs))
    ]
    return tables([matrix("a", source="x"), matrix("b", source="y"), matrix("c", source="x", nnz=10**6)], rows)


def test_speedups_have_a_point_for_each_matrix():
    figure = plots.speedups(speedup_tables(), [("spmv/float64", "cold"), ("spmv/float32", "cold")], by="source")
    assert len(figure.axes) == 2
    for axis in figure.axes:
        first, second = (c for c in axis.collections if isinstance(c, PathCollection))
        np.testing.assert_allclose(sorted(map(tuple, first.get_offsets())), [(20, 2), (10**6, 8)])
        np.testing.assert_allclose(second.get_offsets(), [(20, 0.5)])
        assert axis.get_title().splitlines()[1:] == ["x 2: 4.00x", "y 1: 0.50x"]
    assert "Test GPU, CUDA 13.0" in figure.get_supxlabel()


def test_panels_beyond_the_last_are_hidden():
    loaded = speedup_tables()
    settings = sorted(loaded.measurements["setting"].unique())
    figure = plots.speedups(loaded, [(setting, "cold") for setting in settings])
    assert [axis.get_visible() for axis in figure.axes] == [True] * 4 + [False] * 2
    with pytest.raises(ParameterError, match="no panels"):
        plots.speedups(loaded, [])
    with pytest.raises(ParameterError, match="no column 'colour'"):
        plots.speedups(loaded, [("spmv/float64", "cold")], by="colour")


def test_files_are_png_svg_and_pdf_and_equal_each_time(tmp_path):
    contents = []
    for name in ("one", "two"):
        files = plots.save(plots.distribution(matrices(20), matrices(30)), tmp_path / name / "picture.png")
        assert [file.name for file in files] == ["picture.png", "picture.svg", "picture.pdf"]
        contents.append([file.read_bytes() for file in files])
    assert contents[0][0].startswith(b"\x89PNG")
    assert contents[0] == contents[1]


def test_figures_are_readable_at_16_cm():
    figure = plots.distribution(matrices(20), matrices(30))
    assert figure.get_size_inches()[0] * 2.54 == pytest.approx(16)
    for axis in figure.axes:
        assert axis.xaxis.label.get_size() >= 7
        assert all(label.get_size() >= 6 for label in [*axis.get_xticklabels(), *axis.get_yticklabels()])

import pytest

from bench.end_to_end_rows import ENVIRONMENT, direct, row
from warploom.bench import plots
from warploom.bench.end_to_end import Rows
from warploom.bench.end_to_end.picture import draw
from warploom.bench.end_to_end.rows import Store
from warploom.errors import ParameterError


@pytest.fixture
def rows(tmp_path):
    Store(tmp_path).append(
        [
            direct(row(planning=90, call=1)),
            direct(row(tool="cusparse", planning=10, call=2)),
            row(tool="cusparse[preprocess]", planning=20, call=2),
            row(tool="torch", planning=0, call=8),
            row("b", nnz=10**6, setting="spmm/float32/row/k=32", planning=0, call=1),
            row("b", "cusparse", nnz=10**6, setting="spmm/float32/row/k=32", planning=0, call=2),
            row(place="host", planning=1000),
            row(tool="cusparse", place="host"),
        ],
        ENVIRONMENT,
    )
    return Rows.load(tmp_path)


def line(axis, tool):
    (found,) = [line for line in axis.lines if line.get_label() == tool]
    return dict(zip(found.get_xdata(), found.get_ydata(), strict=True))


def test_there_is_a_panel_for_each_operation_and_size(rows):
    figure = draw(rows)
    assert [axis.get_title().split("\n")[0] for axis in figure.axes] == [
        "SpMV, below 10^5",
        "SpMV, 10^6 to 10^7",
        "SpMM, below 10^5",
        "SpMM, 10^6 to 10^7",
    ]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["warploom", "best of cusparse", "torch"]


def test_lines_are_times_over_those_of_the_vendor(rows):
    axes = draw(rows).axes
    expected = {n: (90 + n) / (10 + 2 * n) for n in (1, 10, 100, 1000, 10_000, 100_000)}
    assert line(axes[0], "warploom") == pytest.approx(expected)
    assert line(axes[3], "warploom")[1000] == pytest.approx(0.5)


def test_computed_times_are_hollow(rows):
    axis = draw(rows).axes[0]
    hollow, filled = set(), set()
    for drawn in axis.lines:
        if drawn.get_linestyle() == "None" and drawn.get_color() == plots.COLOURS[0]:
            (hollow if drawn.get_markerfacecolor() == "white" else filled).update(drawn.get_xdata())
    assert (filled, hollow) == ({1, 10, 100, 1000}, {10_000, 100_000})


def test_another_place_can_be_drawn(rows, tmp_path):
    figure = draw(rows, place="host")
    assert line(figure.axes[0], "warploom")[1] == pytest.approx(1001 / 101)
    with pytest.raises(ParameterError, match="no times of matrices"):
        draw(rows, place="device-int64")
    png, svg, pdf = plots.save(figure, tmp_path / "picture")
    assert png.stat().st_size > 10_000
    assert "Test GPU" in "".join(text.get_text() for text in figure.texts) + figure._supxlabel.get_text()
    assert svg.is_file()
    assert pdf.is_file()

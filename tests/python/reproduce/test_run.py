"""What is written for every item, and what is said where one cannot be made."""

from __future__ import annotations

import re
import subprocess
import sys

import pandas as pd
import pytest

from bench.tables import measured, tables
from reproduce import synthetic
from reproduce.synthetic import REAL
from warploom.errors import ParameterError
from warploom.reproduce import Context, MissingMeasurementsError, find, items, make, reproduce

# None of the representative matrices is in the synthetic measurements, and too few matrices to train models.
NOT_MEASURED = (
    {"D-F11"}
    | {f"M-{name}" for name in ("F11", "F12", "F13", "F14", "cls", "sens", "F15")}
    | {f"G-{name}" for name in ("T4", "F6", "T5", "F7", "F5", "T9", "F10", "F12", "F13", "F14", "F15", "ovh")}
)


def test_everything_that_can_be_made_is(made):
    _, outcomes = made
    not_made = {id for id, outcome in outcomes.items() if outcome.result is None}
    assert not_made == NOT_MEASURED


def test_files_of_every_item(made):
    folder, outcomes = made
    for id, outcome in outcomes.items():
        if outcome.result is None:
            assert not list(folder.glob(f"{id}.*"))
            continue
        tables_written = [f"{id}.csv", *(f"{id}-{n}.csv" for n in range(2, len(outcome.result.tables) + 1))]
        assert [path.name for path in outcome.files] == [f"{id}.png", f"{id}.svg", f"{id}.pdf", *tables_written]
        assert (folder / f"{id}.png").read_bytes().startswith(b"\x89PNG")
        assert "</svg>" in (folder / f"{id}.svg").read_text()
        assert (folder / f"{id}.pdf").read_bytes().startswith(b"%PDF")
        for path, table in zip(outcome.files[3:], outcome.result.tables, strict=True):
            read = pd.read_csv(path)
            assert read.shape == table.shape
            assert len(read) > 0


def test_captions_name_hardware_and_number_of_matrices(results):
    for id, result in results.items():
        text = result.caption
        assert re.search(r"\d+ matri(x|ces)|[Oo]ne matrix|no matrices", text), (id, text)
        if next(item for item in items() if item.id == id).sweeps:
            assert "NVIDIA H200, CUDA 13.0" in text


def test_verdicts_are_sentences(results):
    for result in results.values():
        standing = result.verdict.standing
        said = "is not tested" if standing == "not tested" else standing
        assert result.verdict.sentence.startswith(f"The conclusion {said}")
        assert result.verdict.sentence.endswith(".")
        assert "nan" not in result.verdict.sentence


def test_printed_figures_have_ours_beside_them(made):
    for outcome in made[1].values():
        if outcome.result:
            named = {printed.quantity for printed in outcome.item.printed}
            assert named <= {*outcome.result.ours, "blockwise TpR_SqMean", "blockwise predicted"}


def test_pictures_fit_a_column_or_a_page_and_their_text_is_readable(results):
    for id, result in results.items():
        width = result.figure.get_size_inches()[0] * 2.54
        assert 8.5 < width < 22, id
        texts = [text for text in result.figure.findobj(lambda artist: hasattr(artist, "get_fontsize"))]
        assert min(text.get_fontsize() for text in texts) >= 7, id


def test_reports(made):
    folder, outcomes = made
    for letter in "MGDC":
        page = (folder / f"report-{letter}.html").read_text()
        of_paper = [outcome for id, outcome in outcomes.items() if id.startswith(f"{letter}-")]
        assert page.count("<h2 ") == len(of_paper)
        assert page.count("data:image/png;base64,") == sum(outcome.result is not None for outcome in of_paper)
        assert 'src="http' not in page
        assert "NVIDIA H200, CUDA 13.0" in page
        known = (
            f"8 matrices ({len(REAL)} real ones from collections, 4 constructed from definitions) are measured; besides"
        )
        assert f"{known}, 1 transposes and 1 blocks of rows of them." in page
    page = (folder / "report-M.html").read_text()
    assert "Table I, GV100" in page
    assert re.search("M-F11 cannot be made: (it trains models|the measurements have no times of .* 20 matrices)", page)


def test_rows_say_which_matrices_are_real(made):
    for outcome in made[1].values():
        for table in outcome.result.tables if outcome.result else ():
            if "matrix" in table and outcome.item.id != "D-T2":
                assert set(table["origin"]) <= {"real", "constructed"}, outcome.item.id
    listed = made[1]["M-F3"].result.tables[0].set_index("matrix")["origin"]
    assert {name for name in listed.index if listed[name] == "real"} == set(REAL)


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("m0", "real"),
        ("m0.T", "real"),
        ("m2[0:5]", "constructed"),
        ("grid2d(nx=5,ny=5)", "constructed"),
        ("grid2d(nx=5,ny=5).T", "constructed"),
        ("HB/west0479[0:9]", "real"),
    ],
)
def test_transposes_and_blocks_are_what_their_matrix_is(name, origin):
    assert synthetic.context().origins([name]) == [origin]
    assert synthetic.context().counted([name]) == f"1 matrix, which is {origin}"


def test_counts_say_how_many_are_real():
    context = synthetic.context()
    assert context.counted(["m0", "m2", "m3"]) == "3 matrices, 1 of them real"
    assert context.counted(["m2", "m3"], "irregular") == "2 irregular matrices, none of them real"
    assert context.counted(["m0", "m1"]) == "2 matrices, all of them real"


def test_an_item_by_its_id_raises_what_is_missing(tmp_path):
    loaded = tables([synthetic.matrix("a")], [measured("a")], synthetic.ENVIRONMENT)
    with pytest.raises(MissingMeasurementsError, match="M-F5 cannot be made: the measurements have no times") as error:
        reproduce("M-F5", tmp_path, measurements=loaded)
    command = (
        "warploom bench run --output sweep --corpus spmm --setting spmm/float32/column/k=rows "
        "--candidates 'spmm/none/csr/c_stationary' --candidates 'spmm/lpt/csr/c_stationary'"
    )
    assert command in str(error.value)
    assert not list(tmp_path.glob("M-F5.*"))


def test_only_the_missing_candidates_are_in_the_command():
    loaded = tables(
        [synthetic.matrix("a")],
        [measured("a", "spmm/none/csr/c_stationary", setting="spmm/float32/column/k=rows", cache="cold")],
        synthetic.ENVIRONMENT,
    )
    (item,) = find(["M-F5"])
    with pytest.raises(MissingMeasurementsError) as error:
        item.make(Context(loaded))
    assert "--candidates 'spmm/lpt/csr/c_stationary'" in str(error.value)
    assert "--candidates 'spmm/none/csr/c_stationary'" not in str(error.value)


def test_times_that_no_matrix_has_together_are_missing():
    plain, lpt = "spmm/none/csr/c_stationary", "spmm/lpt/csr/c_stationary"
    where = {"setting": "spmm/float32/column/k=rows", "cache": "cold"}
    loaded = tables(
        [synthetic.matrix("a"), synthetic.matrix("b")],
        [measured("a", plain, **where), measured("b", lpt, **where)],
        synthetic.ENVIRONMENT,
    )
    with pytest.raises(MissingMeasurementsError, match="no matrices with times of all of csr, lpt"):
        find(["M-F5"])[0].make(Context(loaded))


def test_threads_that_no_row_has_work_for_may_be_missing_everywhere():
    found = [
        measured(name, f"spmv/none/csr/vector{parameters}", us, setting=f"spmv/{dtype}")
        for name in "ab"
        for dtype in ("float64", "float32")
        for parameters, us in (("[threads_per_row=2]", 1.0), ("", 2.0))
    ]
    loaded = tables([synthetic.matrix("a"), synthetic.matrix("b")], found, synthetic.ENVIRONMENT)
    counts = find(["G-F3"])[0].make(Context(loaded)).tables[0]
    assert counts["matrices"].tolist() == [2, 0, 0, 0, 0]
    assert find(["G-prec"])[0].make(Context(loaded)).ours["same optimum"] == "100%"


def test_without_measurements_examples_and_experiments_are_made_and_the_rest_is_listed(tmp_path, monkeypatch):
    monkeypatch.setattr("warploom.reproduce.run.shipped", lambda: [])
    outcomes = {o.item.id: o for o in reproduce("C", tmp_path, dpi=25)}
    assert {id for id, outcome in outcomes.items() if outcome.result} == {"C-ex", "C-eq", "C-F6.1"}
    assert "warploom bench run" in outcomes["C-F6.3"].reason
    assert "warploom bench run" in (tmp_path / "report-C.html").read_text()


def test_measurements_are_read_from_folders(tmp_path):
    synthetic.measurements().save(tmp_path / "sweep")
    (outcome,) = reproduce("m-f9", tmp_path / "out", measurements=tmp_path / "sweep", dpi=25)
    assert outcome.item.id == "M-F9"


def test_measurements_and_context_exclude_each_other(tmp_path):
    with pytest.raises(ParameterError, match="not both"):
        reproduce("M-F1", tmp_path, measurements=synthetic.measurements(), context=synthetic.context())


def test_nothing_named(tmp_path):
    with pytest.raises(ParameterError, match="name at least one"):
        reproduce([], tmp_path, context=synthetic.context())


def test_progress_is_told(tmp_path):
    seen = []
    reproduce(["M-F1", "C-ex"], tmp_path, context=Context(), dpi=25, progress=lambda *what: seen.append(what))
    assert seen == [(0, 2, "M-F1"), (1, 2, "C-ex")]


def test_equal_measurements_give_equal_files(tmp_path):
    for name in ("a", "b"):
        reproduce("M-F9", tmp_path / name, context=synthetic.context(), dpi=25)
    for file in ("M-F9.png", "M-F9.svg", "M-F9.pdf", "M-F9.csv", "report-M.html"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_warploom_alone_does_not_import_what_reproduction_needs():
    code = "import sys, warploom; sys.exit(any(n in sys.modules for n in ('matplotlib', 'jinja2', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_one_item_in_a_notebook(made):
    """It looks as in the report, without files; what cannot be made says why."""
    written = made[1]["C-eq"]
    outcome = make("c-EQ", synthetic.context())
    assert outcome.files == []
    html = outcome._repr_html_()
    assert outcome.result.verdict.sentence == written.result.verdict.sentence
    assert html.count("data:image/png;base64,") == 1
    for shown in (written.result.verdict.sentence, "<td>16.50</td>", written.item.place):
        assert shown in html
    assert "Files:" not in html
    missing = make("M-F8", Context())
    assert missing.result is None
    assert "warploom bench run" in missing.reason
    assert "warploom bench run" in missing._repr_html_()


def test_items_for_a_notebook_are_named_one_by_one():
    with pytest.raises(ParameterError, match="names 18 tables and figures"):
        make("M", Context())
    with pytest.raises(ParameterError, match="did you mean M-F8"):
        make("M-F88", Context())

from __future__ import annotations

from click.testing import CliRunner

from reproduce import synthetic
from warploom.commands.reproduce import reproduce
from warploom.reproduce import items


def test_list():
    listed = CliRunner().invoke(reproduce, ["--list"])
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.output.splitlines()] == [item.id for item in items()]


def test_items_are_made_and_their_verdicts_printed(tmp_path):
    synthetic.measurements().save(tmp_path / "sweep")
    arguments = ["M-F9", "C-ex", "--output", str(tmp_path / "out"), "--measurements", str(tmp_path / "sweep")]
    ran = CliRunner().invoke(reproduce, arguments)
    assert ran.exit_code == 0
    lines = ran.stdout.splitlines()
    assert lines[0].startswith("M-F9: The conclusion ")
    assert lines[1].startswith("C-ex: The conclusion holds in this implementation: all arrays are those of the paper")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *(f"{id}.{kind}" for id in ("M-F9", "C-ex") for kind in ("png", "svg", "pdf", "csv")),
        "index.html",
        "report-M.html",
        "report-C.html",
    }
    assert lines[-1] == f"to be read in {tmp_path / 'out' / 'index.html'}"
    index = (tmp_path / "out" / "index.html").read_text()
    for link in ("report-M.html#M-F9", "report-C.html#C-ex"):
        assert f'href="{link}"' in index
        page, _, anchor = link.partition("#")
        text = (tmp_path / "out" / page).read_text()
        assert f'id="{anchor}"' in text
        assert 'href="index.html"' in text


def test_output_is_needed():
    ran = CliRunner().invoke(reproduce, ["M-F9"])
    assert ran.exit_code == 2
    assert "Missing option '--output'" in ran.output

"""The notebooks run from top to bottom, are stored without outputs, and leave no table or figure of a paper out."""

from __future__ import annotations

import ast
import re

import nbformat
import pytest

from executed_notebooks import NAMES, execute, read
from warploom.reproduce import items

PAPERS = {"mehrabi2021": "M", "gao2024": "G", "dasp2023": "D", "cmrs2014": "C"}


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def made(name):
    """Return the ids that a notebook makes, with the cells that make them."""
    pattern = re.compile(r'make\("([^"]+)"\)')
    return {pattern.search(cell.source).group(1): cell for cell in code_cells(execute(name)) if "make(" in cell.source}


def test_there_is_one_for_each_paper():
    assert set(NAMES) == {"quickstart", "training", *PAPERS}


@pytest.mark.parametrize("name", NAMES)
def test_runs(name):
    """Within the limit, without an error, and without a word on standard error."""
    if name == "training":
        pytest.importorskip("torch")
    for cell in code_cells(execute(name)):
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr", output.get("text")


@pytest.mark.parametrize("name", NAMES)
def test_stored_without_outputs(name):
    notebook = read(name)
    nbformat.validate(notebook)
    for cell in code_cells(notebook):
        assert cell.outputs == []
        assert cell.execution_count is None
    assert all(cell.metadata == {} for cell in notebook.cells)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


@pytest.mark.parametrize("name", NAMES)
def test_imports_the_package_and_little_else(name):
    imported = set()
    for cell in code_cells(read(name)):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module)
    assert {module.split(".")[0] for module in imported} - {"numpy", "scipy"} == {"warploom"}


@pytest.mark.parametrize("name", PAPERS)
def test_every_item_of_the_paper_is_shown(name):
    """With its picture, or with the reason why it cannot be made."""
    shown = made(name)
    assert set(shown) == {item.id for item in items() if item.id[0] == PAPERS[name]}
    for id, cell in shown.items():
        (html,) = [output.data["text/html"] for output in cell.outputs if "data" in output]
        assert ("data:image/png;base64," in html) != (f"{id} cannot be made" in html), id


def test_tables_of_a_plan_are_text():
    """Where print and str are asked for text, a notebook has to get text."""
    printed = {cell.id: cell.outputs for cell in code_cells(execute("quickstart"))}
    for id, heading in (("measure", "median us"), ("predict", "predicted us")):
        # On a busy machine planning shows how far it is, in a line that it takes away.
        shown = [output for output in printed[id] if output.output_type != "stream"]
        assert all(set(output.data) == {"text/plain"} and not output.data["text/plain"] for output in shown)
        text = "".join(output.text for output in printed[id] if output.output_type == "stream")
        assert heading in text
        assert "spmv/none/" in text  # which of them the shortened table shows is up to the machine


def test_titles_are_one_heading_each():
    for name in NAMES:
        headings = [
            line for cell in read(name).cells if cell.cell_type == "markdown" for line in cell.source.split("\n")
        ]
        assert sum(line.startswith("# ") for line in headings) == 1, name

"""What the documentation shows runs."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import click
import nbformat
import numpy as np
import pytest

import executed_notebooks
import warploom as wl
from products import assert_product
from warploom.candidates import kernels, parse
from warploom.cli import main
from warploom.reproduce import items

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for folder in (".", "concepts", "concepts/formats", "guide")
    for path in (DOCS / folder).glob("*.md")
)
MODULES = [f"warploom.{m.name}" for m in pkgutil.iter_modules(wl.__path__) if m.name not in ("__main__", "_core")]
EXAMPLES = [
    test
    for module in ["warploom", *MODULES]
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module))
    if test.examples
]


@pytest.mark.parametrize("test", EXAMPLES, ids=lambda test: test.name)
def test_docstring(test):
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test).failed == 0


def test_docstrings_of_the_main_functions_have_examples():
    assert {"warploom.plan.plan", "warploom.plan.spmm", "warploom.plan.spmv", "warploom.candidates.candidates"} <= {
        t.name for t in EXAMPLES
    }


def test_python_of_the_readme(capsys):
    """Its blocks run one after another, and print what the comments beside them say."""
    blocks = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    names = {}
    outputs = []
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
        outputs.append(capsys.readouterr().out)
    A = names["A"]
    assert_product(A, np.ones((A.shape[1], 128)), np.asarray(names["C"]))
    assert_product(A, np.ones((A.shape[1], 1)), names["y"][:, None])
    assert names["plan"].candidate in outputs[0]
    for block, output in zip(blocks[1:], outputs[1:], strict=True):
        assert output.splitlines() == re.findall(r"^print.*  # ([\d ]+)", block, re.MULTILINE)


def quoted(pattern):
    """Find what stands between backticks in the README and matches."""
    return {text for text in re.findall(r"`([^`\n]+)`", README) if re.fullmatch(pattern, text)}


def test_candidates_of_the_readme_exist():
    named = quoted(r"spm[mv]/.+")
    assert {parse(name).kernel.op for name in named} == {"spmm", "spmv"}
    patterns = re.findall(r"--candidates '(.+?)'", README)
    assert patterns
    for pattern in patterns:
        assert wl.candidates(op=pattern[:4], match=pattern)


def test_readme_names_every_kernel_and_nothing_else():
    spmv = {f"{kernel.format}/{kernel.name}" for kernel in kernels("spmv")}
    formats = {name.split("/")[0] for name in spmv}
    assert {name for name in quoted(r"[a-z-]+/[a-z_]+") if name.split("/")[0] in formats} == spmv
    assert {kernel.name for kernel in kernels("spmm")} <= quoted(r"[a-z_]+")


def test_readme_names_every_permutation():
    assert set(wl.permutations.names()) <= quoted(r"[a-z0-9.-]+")


def python_blocks(text):
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks((DOCS / page).read_text())])
def test_python_of_a_page(page, tmp_path, monkeypatch):
    """Its blocks run one after another."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in python_blocks((DOCS / page).read_text()):
        exec(compile(block, page, "exec"), names)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The documentation, built with warnings as errors; its notebooks are those that were executed for their tests."""
    folder = tmp_path_factory.mktemp("site")
    for name in executed_notebooks.NAMES:
        path = folder / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(exist_ok=True)
        nbformat.write(executed_notebooks.execute(name), path)
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-d", folder / "doctrees", DOCS]
    environment = os.environ | {"WARPLOOM_EXECUTED_NOTEBOOKS": str(folder / "notebooks")}
    built = subprocess.run([*command, folder / "html"], env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "html"


def test_every_page_of_the_site_is_there(site):
    pages = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")}
    assert {page.removesuffix(".md") for page in PAGES} <= pages
    assert {f"notebooks/{name}" for name in executed_notebooks.NAMES} <= pages
    assert "plan" in (site / "api" / "warploom.html").read_text()


def test_notebooks_of_the_site_have_outputs(site):
    for name in executed_notebooks.NAMES:
        assert "data:image/png;base64," in (site / "notebooks" / f"{name}.html").read_text()


def test_pictures_of_the_site_show_every_format_and_permutation(site):
    for folder, names in (("formats", wl.formats.names()), ("permutations", wl.permutations.names())):
        for name in names:
            page = f"formats/{name.replace('-', '_')}" if folder == "formats" else folder
            text = (site / "concepts" / f"{page}.html").read_text()
            assert f'_images/{name}.png"' in text
            assert (site / "_images" / f"{name}.png").exists()


def test_reports_of_the_site_have_every_item_and_its_files(site):
    text = "".join(path.read_text() for path in (site / "reports").glob("*20*.html"))
    for item in items():
        assert f"{item.id}: " in text
    files = set(re.findall(r'(?:href|src)="([MGDC]-[^"/]+\.(?:png|svg|csv))"', text))
    assert len(files) > 100
    assert all((site / "reports" / file).exists() for file in files)


def test_command_line_of_the_site_has_every_command(site):
    text = re.sub(r"<[^>]+>", "", (site / "guide" / "command-line.html").read_text())
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        for path in [name, *(f"{name} {inner}" for inner in getattr(command, "commands", ()))]:
            assert f"warploom {path} [OPTIONS]" in text, path


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_files_that_are_mentioned_exist(document):
    text = (ROOT / document).read_text()
    mentioned = set(re.findall(r"(?:python3?|bash) ((?:python|tests|\.ci)/[\w./]+)", text))
    mentioned |= set(re.findall(r"\]\(((?!http)[\w./-]+)\)", text))
    assert mentioned
    for path in mentioned:
        assert (ROOT / path).exists(), path

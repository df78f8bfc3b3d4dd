"""What the documentation shows runs."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

import warploom as wl
from products import assert_product
from warploom.candidates import kernels, parse

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
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


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_files_that_are_mentioned_exist(document):
    text = (ROOT / document).read_text()
    mentioned = set(re.findall(r"(?:python3?|bash) ((?:benchmarks|tests|tools|\.ci)/[\w./]+)", text))
    mentioned |= set(re.findall(r"\]\(((?!http)[\w./-]+)\)", text))
    assert mentioned
    for path in mentioned:
        assert (ROOT / path).exists(), path

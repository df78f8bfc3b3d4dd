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

ROOT = Path(__file__).parents[2]
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
    assert {"warploom.plan.plan", "warploom.plan.spmm", "warploom.candidates.candidates"} <= {t.name for t in EXAMPLES}


def test_python_of_the_readme(capsys):
    (block,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    assert_product(names["A"], names["B"], np.asarray(names["C"]))
    assert names["plan"].candidate in capsys.readouterr().out

"""Configuration of the documentation: ``sphinx-build -W docs docs/_build``."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
# The wheel has no measurements; the checkout that this is part of does.
os.environ.setdefault("WARPLOOM_MEASUREMENTS", str(DOCS.parent / "python" / "warploom-data" / "warploom_data"))

import generate  # noqa: E402

import warploom  # noqa: E402

project = "warploom"
author = "the authors of warploom"
copyright = "the authors of warploom, Apache-2.0"
release = version = warploom.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_click",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "generated", "jupyter_execute"]
default_role = "py:obj"

html_theme = "furo"
html_title = f"warploom {release}"
EXTRA = DOCS / "generated" / "extra"
EXTRA.mkdir(parents=True, exist_ok=True)  # Sphinx looks for it before anything is generated
html_extra_path = [str(EXTRA)]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False

# Notebooks that were executed before, as the tests do, are rendered as they are; others are executed, each once.
EXECUTED = os.environ.get("WARPLOOM_EXECUTED_NOTEBOOKS")
nb_execution_mode = "off" if EXECUTED else "cache"
nb_execution_cache_path = str(DOCS / "_build" / "notebooks")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True


def escape_patterns(app, context, lines):
    """Keep patterns in help texts, such as dwt_*, from being taken for markup."""
    lines[:] = [re.sub(r"\*|_(?!\w)", r"\\\g<0>", line) for line in lines]


def setup(app):
    """Make pages and pictures before Sphinx looks for them."""
    app.connect("builder-inited", lambda app: generate.everything(DOCS, Path(EXECUTED) if EXECUTED else None))
    app.connect("sphinx-click-process-description", escape_patterns)
    app.connect("sphinx-click-process-options", escape_patterns)

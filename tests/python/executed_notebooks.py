"""Runs the notebooks, each once in a session: their own tests look at them, and the documentation shows them."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
SECONDS = 120
"""What one notebook may take."""


def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


@functools.cache
def execute(name: str) -> nbformat.NotebookNode:
    """Run a notebook top to bottom in a kernel of its own; raises what a cell raises, and TimeoutError."""
    notebook = read(name)
    client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3")
    asyncio.run(asyncio.wait_for(client.async_execute(), SECONDS))
    return notebook

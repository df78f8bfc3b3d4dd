"""Runs the notebooks, each once in a session: their own tests check them, and the documentation shows them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
SECONDS = 300
"""What one notebook may take; alone on two cores, none takes a fifth of it."""


def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def execute(name: str) -> nbformat.NotebookNode:
    """Run a notebook top to bottom in a kernel of its own; raises what a cell raises, and TimeoutError.

    The first call starts all of them, one for each core: they are most of what the tests take.
    """
    return _all()[name].result()


@functools.cache
def _all() -> dict[str, concurrent.futures.Future[nbformat.NotebookNode]]:
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    return {name: pool.submit(_run, name) for name in NAMES}


def _run(name: str) -> nbformat.NotebookNode:
    notebook = read(name)
    client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3")
    asyncio.run(asyncio.wait_for(client.async_execute(), SECONDS))
    return notebook

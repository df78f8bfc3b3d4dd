"""The matrices that end-to-end times are measured on by default."""

from __future__ import annotations

import csv
import dataclasses
import functools
import importlib.resources
import io

import scipy.sparse

from warploom import corpus, examples
from warploom.corpus import Entry
from warploom.corpus.entry import Progress

__all__ = ["entries_by_size", "sample"]

_TABLE = "sample.csv"
_EXAMPLE = "example:"
_BOUNDS = (10**5, 10**6, 10**7)


def sample(*, quick: bool = False) -> list[Entry]:
    """List the matrices of the sample: constructions of the corpus, and the examples that ship with warploom.

    Parameters
    ----------
    quick : bool
        Only a few of them, of all sizes.

    Returns
    -------
    list of Entry
        From 10^3 to 10^8 nonzeros, regular and irregular ones, none of which takes long to make. Sizes follow each
        other in turn, so that the first part of the list is a sample too.
    """
    chosen = [row for row in _table() if row["quick"] == "yes" or not quick]
    return entries_by_size([_entry(row) for row in chosen])


def entries_by_size(entries: list[Entry]) -> list[Entry]:
    """Put small and large matrices in turn, each class evenly over the list; those of unknown size come last."""
    classes: dict[int, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.nnz or 0, entry.name)):
        number = sum((entry.nnz or 0) >= bound for bound in _BOUNDS) if entry.nnz is not None else len(_BOUNDS) + 1
        classes.setdefault(number, []).append(entry)
    unknown = classes.pop(len(_BOUNDS) + 1, [])
    placed = [
        ((i + 0.5) / len(members), number, entry)
        for number, members in classes.items()
        for i, entry in enumerate(_far_apart(members))
    ]
    return [entry for _, _, entry in sorted(placed, key=lambda place: place[:2])] + unknown


def _far_apart(members: list[Entry]) -> list[Entry]:
    """Order so that each start of the list covers the whole of it: the middle, the quarters, the eighths."""
    bits = len(members).bit_length()
    numbers = sorted(range(1 << bits), key=lambda i: int(format(i, f"0{bits}b")[::-1], 2))
    return [members[i] for i in numbers if i < len(members)]


def _entry(row: dict[str, str]) -> Entry:
    name = row["matrix"]
    if name.startswith(_EXAMPLE):
        found = Entry(
            name=name,
            family="example",
            kind="",
            source="construction",
            licence="",
            rows=None,
            cols=None,
            nnz=None,
            loader=functools.partial(_load_example, name.removeprefix(_EXAMPLE)),
        )
    else:
        found = corpus.find(name)
    return dataclasses.replace(found, rows=int(row["rows"]), cols=int(row["cols"]), nnz=int(row["nnz"]))


def _load_example(name: str, progress: Progress | None) -> scipy.sparse.csr_array:
    return examples.load(name)


@functools.cache
def _table() -> tuple[dict[str, str], ...]:
    text = (importlib.resources.files("warploom.bench.end_to_end") / _TABLE).read_text(encoding="utf-8")
    return tuple(csv.DictReader(io.StringIO(text)))

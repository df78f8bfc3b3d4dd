from __future__ import annotations

import ast
import csv
from pathlib import Path

import pytest

from warploom.corpus.constructions import construct
from warploom.corpus.constructions.collection import COLLECTION

SIZES = {
    row["name"]: (int(row["rows"]), int(row["cols"]), int(row["nnz"]))
    for row in csv.DictReader((Path(__file__).parent / "collection_sizes.csv").read_text(encoding="utf-8").splitlines())
}
"""As the collection publishes them."""
LARGEST = 200_000


def from_text(text):
    call = ast.parse(text, mode="eval").body
    return construct(call.func.id, **{k.arg: ast.literal_eval(k.value) for k in call.keywords})


def test_the_size_of_every_matrix_listed_is_known():
    assert list(COLLECTION) == list(SIZES)
    assert len(COLLECTION) > 140


def test_texts_are_written_as_the_names_of_constructions_are():
    assert COLLECTION["Mycielski/mycielskian13"] == "mycielskian(k=13)"
    assert COLLECTION["JGD_BIBD/bibd_17_4"] == "bibd(n=17,k=4)"
    assert not any(" " in text for text in COLLECTION.values())


@pytest.mark.parametrize("name", [name for name, (_, _, nnz) in SIZES.items() if nnz < LARGEST])
def test_constructed_matrices_have_the_size_of_the_collections(name):
    matrix = from_text(COLLECTION[name])
    assert (*matrix.shape, matrix.nnz) == SIZES[name]

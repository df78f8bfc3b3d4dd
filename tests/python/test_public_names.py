"""What the package offers: its public names, and packages that are imported on demand."""

import subprocess
import sys

import pytest

import warploom as wl


def test_only_public_names_are_offered():
    offered = set(dir(wl))
    assert offered >= set(wl.__all__)
    assert offered - set(wl.__all__) == {
        *("bench", "corpus", "experiments", "reproduce", "solvers", "torch", "training")
    }
    assert offered.isdisjoint({"annotations", "prediction", "predicting", "explanation", "cli", "model_inputs"})


@pytest.mark.parametrize("name", sorted(set(dir(wl)) - {"bench", "experiments", "reproduce", "torch", "training"}))
def test_what_is_offered_is_there(name):
    assert getattr(wl, name) is not None


def test_the_corpus_is_imported_when_it_is_asked_for():
    script = """
import sys
import warploom as wl
assert "warploom.corpus" not in sys.modules
assert wl.corpus.load("rmat(scale=5)").shape == (32, 32)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match="no attribute 'corpses'"):
        _ = wl.corpses

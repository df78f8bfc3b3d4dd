"""Calls of constructions as text, as the collection's table and the stored patterns have them."""

from __future__ import annotations

import hashlib
import re

import numpy as np

from warploom.corpus.constructions import construct


def parse(call):
    name, arguments = re.fullmatch(r"(\w+)\((.*)\)", call).groups()
    return name, {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", arguments)}


def make(call):
    name, parameters = parse(call)
    return construct(name, **parameters)


def pattern_hash(matrix):
    """Return the sha256 of row pointers and column indices, little-endian."""
    digest = hashlib.sha256()
    for array in (matrix.indptr, matrix.indices):
        digest.update(np.asarray(array).astype("<i4").tobytes())
    return digest.hexdigest()


def dense_pattern(matrix):
    return matrix.toarray() != 0


def is_symmetric(matrix):
    pattern = dense_pattern(matrix)
    return pattern.shape[0] == pattern.shape[1] and bool((pattern == pattern.T).all())

"""Measurements made by code for every sweep that the items need, with the times that went into them."""

from __future__ import annotations

import functools
import random

import numpy as np
import scipy.sparse

from bench.tables import matrix, measured, tables
from reproduce import findings
from warploom.corpus import Entry
from warploom.reproduce import Context, items

ENVIRONMENT = {"gpu": "NVIDIA H200", "cuda": "13.0", "copy_bandwidth": 4e12}
SIZES = {
    # rows, columns, nonzeros, shortest and longest row
    "m0": (1_000_000, 1_000_000, 3_000_000, 1, 4),
    "m1": (200_000, 200_000, 2_400_000, 12, 12),
    "m2": (100_000, 100_000, 6_000_000, 2, 900),
    "m3": (50_000, 50_000, 12_000_000, 60, 5_000),
    "m4": (4_000, 4_000, 16_000_000, 4_000, 4_000),
    "m5": (300, 200, 1_200, 0, 512),
    "m6": (500, 500, 900, 1, 600),
    "dense row": (1_000_000, 1_000_000, 3_000_000, 1, 900_000),
    "m0.T": (1_000_000, 1_000_000, 3_000_000, 1, 7),
    "m0[0:5]": (5, 1_000_000, 15, 1, 4),
}
REAL = ("m0", "m1", "m5", "dense row")
"""The others are constructions."""

ORIGINALS = [name for name in SIZES if name not in ("m0.T", "m0[0:5]")]
WITH_TRANSPOSES = [name for name in SIZES if name != "m0[0:5]"]
WITHOUT_16 = "m0"
"""The matrix whose rows have no work for 16 threads."""


def names_of(pattern):
    """Return the candidates that match a pattern of a sweep."""
    return [pattern[:-1], f"{pattern[:-1]}[algorithm=2]"] if pattern.endswith("*") else [pattern]


@functools.cache
def times():
    """Return microseconds by (setting, cache), matrix and candidate."""
    draw = random.Random(7)
    found = {}
    for item in items():
        for sweep in item.sweeps:
            of_setting = found.setdefault((sweep.setting, sweep.cache), {name: {} for name in SIZES})
            for pattern in sweep.techniques.values():
                for candidate in names_of(pattern):
                    for name in SIZES:
                        # Eighths, which float32 holds exactly; larger matrices take longer.
                        scale = 1 + SIZES[name][2] / 1e6
                        of_setting[name].setdefault(candidate, round(8 * scale * draw.uniform(1, 4)) / 8)
    for of_setting in found.values():
        of_setting[WITHOUT_16].pop("spmv/none/csr/vector[threads_per_row=16]", None)
    return found


PREPARATION = {"spmv/none/dasp/tensor_core": 0.25, "spmv/none/bsr/cusparse[block_size=2]": 2.0}
BYTES = {"spmv/none/cmrs/modified": 130, "spmv/none/cmrs/basic": 100}


@functools.cache
def measurements():
    rows = [
        measured(
            name,
            candidate,
            us,
            setting=setting,
            cache=cache,
            preparation_ms=PREPARATION.get(candidate, 0.5),
            bytes=BYTES.get(candidate, 100),
        )
        for (setting, cache), by_matrix in times().items()
        for name, by_candidate in by_matrix.items()
        for candidate, us in by_candidate.items()
    ]
    facts = [
        matrix(
            name,
            *(size[:3]),
            spmv_nnz_per_row_min=size[3],
            spmv_nnz_per_row_max=size[4],
            spmv_nnz_per_row_mean=size[2] / size[0],
            source="folder" if name.split(".")[0].split("[")[0] in REAL else "construction",
        )
        for name, size in SIZES.items()
    ]
    return tables(facts, rows, ENVIRONMENT)


ROW_LENGTHS = {"short": [1, 1, 2, 3, 4, 0, 3, 1], "long": [300, 5, 7, 8, 2, 2]}


def load(lengths, progress):
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([np.arange(n) for n in lengths])
    return scipy.sparse.csr_array((np.ones(indptr[-1]), indices, indptr), shape=(len(lengths), 400))


def entries():
    return [
        Entry(
            name=name,
            family=name,
            kind="",
            source="construction",
            licence="",
            rows=len(lengths),
            cols=400,
            nnz=sum(lengths),
            loader=functools.partial(load, lengths),
        )
        for name, lengths in ROW_LENGTHS.items()
    ]


@functools.cache
def context():
    return Context(measurements(), entries(), [findings.time_split(), findings.strip_height()])

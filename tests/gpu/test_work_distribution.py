"""What csr/adaptive and csr/merge distribute over thread blocks is the same whether made on the GPU or on the host."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from battery import battery
from warploom import _core
from warploom._matrix import as_csr

BATTERY = battery(np.float32)


def of_lengths(lengths):
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.zeros(indptr[-1], np.int32)
    return csr_array((np.ones(indptr[-1], np.float32), indices, indptr), shape=(len(lengths), 1))


def power_law(count, exponent, longest, seed):
    rng = np.random.default_rng(seed)
    return np.minimum((rng.pareto(exponent, count) * 3).astype(np.int64), longest)


def lengths_of(case):
    rng = np.random.default_rng(5)
    return {
        "none": lambda: np.zeros(0, np.int64),
        "empty": lambda: np.zeros(20_000, np.int64),
        "whole tiles of rows": lambda: np.full(2 * 8192, 3),
        "a row past a tile": lambda: np.full(8193, 1),
        "few": lambda: rng.integers(0, 9, 1_000_000),
        "mostly empty": lambda: np.where(rng.random(300_000) < 0.02, rng.integers(1, 60, 300_000), 0),
        "around a quarter of a tile": lambda: rng.integers(60, 70, 5000),
        "cut": lambda: rng.integers(500, 9000, 300),
        "one giant row": lambda: np.concatenate([rng.integers(0, 9, 30_000), [3_000_000], rng.integers(0, 9, 30_000)]),
        "power law": lambda: power_law(1_000_000, 1.3, 200_000, 7),
        "heavy power law": lambda: power_law(50_000, 0.9, 20_000, 8),
    }[case]()


CASES = [
    "none",
    "empty",
    "whole tiles of rows",
    "a row past a tile",
    "few",
    "mostly empty",
    "around a quarter of a tile",
    "cut",
    "one giant row",
    "power law",
    "heavy power law",
]


def assert_same(make, A, **options):
    view = as_csr(A)
    resident = _core.Problem(view, "spmv", 1, "column", "warm", 0).resident()
    expected = make(view, None, **options)
    found = make(view, resident, **options)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=str(options))


def check(A):
    for nnz_per_block in (256, 512, 1024, 2048, 4096):
        threads = 256 if nnz_per_block > 1024 else 128
        assert_same(_core.row_blocks, A, nnz_per_block=nnz_per_block, threads_per_block=threads)
    for size in (256, 512, 1024, 2048):
        assert_same(_core.merge_tiles, A, size=size)


@pytest.mark.parametrize("name", BATTERY)
def test_battery(name):
    check(BATTERY[name])


@pytest.mark.parametrize("case", CASES)
def test_lengths_of_rows(case):
    check(of_lengths(lengths_of(case)))

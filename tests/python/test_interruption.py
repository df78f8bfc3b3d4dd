"""Ctrl-C ends whatever is going on, soon, and the next call works. Orders and sweeps have tests of their own."""

import itertools
import math
import os
import signal
import threading
import time

import numpy as np
import pytest
from scipy.sparse import csr_array

import warploom as wl
from warploom import _core

SIZE = 100_000


@pytest.fixture(scope="module")
def matrix():
    rng = np.random.default_rng(0)
    indices = rng.integers(0, SIZE, 20 * SIZE).astype(np.int32)
    return csr_array((np.ones(20 * SIZE, np.float32), indices, np.arange(0, 20 * SIZE + 1, 20)), shape=(SIZE, SIZE))


def measure(A):
    wl.plan(A, k=32, device="cpu", candidates="*", budget=math.inf)


def multiply(A):
    plan = wl.plan(A, k=64, device="cpu", select="spmm/none/csr/row_split")
    B = np.ones((SIZE, 64), np.float32)
    for _ in itertools.repeat(None):
        plan @ B


def extract(A):
    for _ in itertools.repeat(None):
        wl.features.spmm(A)
        wl.features.locality(A)
        wl.features.column_vectors(A)


def convert(A):
    for _ in itertools.repeat(None):
        wl.plan(A, "spmv", device="cpu", select="spmv/none/cmrs/basic")


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to itself")
@pytest.mark.parametrize("work", [measure, multiply, extract, convert])
def test_ctrl_c(work, matrix):
    timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    start = time.process_time()  # of all threads, and of nothing else that runs here
    try:
        with pytest.raises(KeyboardInterrupt):
            work(matrix)
    finally:
        timer.join()
    assert time.process_time() - start < 4 * max(2, _core.num_threads())
    y = wl.plan(matrix, "spmv", device="cpu", select="spmv/none/csr/vector") @ np.ones(SIZE, np.float32)
    np.testing.assert_array_equal(y, 20)

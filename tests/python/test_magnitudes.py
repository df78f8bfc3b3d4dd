"""Products of subnormal, tiny and huge values and of sums that cancel, with every kernel that runs on the CPU; and the
same bits in every process."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import warploom as wl
from magnitudes import KINDS, check
from warploom import _bfloat16
from warploom.candidates import Candidate, kernels

CASES = [
    pytest.param(kernel, layout, dtype, id=f"{op}-{kernel.format}-{kernel.name}-{layout}-{dtype}")
    for op in ("spmv", "spmm")
    for kernel in kernels(op)
    if "cpu" in kernel.devices
    for layout in (kernel.layouts if op == "spmm" else ["column"])
    for dtype in kernel.dtypes
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("kernel", "layout", "dtype"), CASES)
def test_products_are_within_rounding(kernel, layout, dtype, kind):
    assert check(kernel, layout, dtype, kind, -1)


def digests() -> dict[str, str]:
    """Of the products of every kernel, with the number of threads of this process."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 40, 3000)
    indices = rng.integers(0, 2000, lengths.sum()).astype(np.int32)
    values, dense = rng.standard_normal(lengths.sum()), rng.standard_normal((2000, 33))
    found = {}
    for case in CASES:
        kernel, layout, name = case.values
        dtype = _bfloat16.as_dtype(name)
        A = wl.CSR(
            np.concatenate([[0], np.cumsum(lengths)]), indices, _bfloat16.cast(values, dtype), shape=(3000, 2000)
        )
        options = {"select": Candidate.make(kernel).name, "device": "cpu"}
        if kernel.op == "spmm":
            options |= {"k": 33, "layout": layout}
        B = _bfloat16.cast(dense if kernel.op == "spmm" else dense[:, 0].copy(), dtype)
        try:
            C = wl.plan(A, kernel.op, **options) @ B
        except wl.errors.ParameterError:  # more padding than the format allows
            continue
        found[case.id] = hashlib.sha256(np.ascontiguousarray(C).tobytes()).hexdigest()
    return found


def test_every_process_computes_the_same_bits():
    script = f"import sys, json; sys.path[:0] = {sys.path!r}; import {__name__} as m; print(json.dumps(m.digests()))"
    others = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "WARPLOOM_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
        )
        for threads in ("1", "3")
    ]
    here = digests()
    assert len(here) > len(CASES) / 2
    for other in others:
        output, _ = other.communicate(timeout=300)
        assert other.returncode == 0
        assert json.loads(output.splitlines()[-1]) == here

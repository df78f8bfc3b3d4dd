"""Products of subnormal, tiny and huge values, and of sums that cancel; and the same bits whenever they run."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

from magnitudes import KINDS, check
from products import ORDER, operand, tensor_of, unwritten
from test_everything_once import banded, mixed
from warploom import _bfloat16, _core, _device
from warploom._matrix import as_csr
from warploom.candidates import Candidate, kernels

CASES = [
    pytest.param(kernel, layout, dtype, id=f"{op}-{kernel.format}-{kernel.name}-{layout}-{dtype}")
    for op in ("spmv", "spmm")
    for kernel in kernels(op)
    if not kernel.vendor
    for layout in (kernel.layouts if op == "spmm" else ["column"])
    for dtype in kernel.dtypes
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("kernel", "layout", "dtype"), CASES)
def test_products_are_within_rounding(kernel, layout, dtype, kind):
    assert check(kernel, layout, dtype, kind, 0)


def prepared(kernel, layout, dtype):
    """Return a plan of the kernel and its operands."""
    dtype = _bfloat16.as_dtype(dtype)
    columns = 1 if kernel.op == "spmv" else 33
    for A in (mixed(dtype), banded(dtype)):
        problem = _core.Problem(as_csr(A), kernel.op, columns, layout, "warm", 0)
        reason = problem.reason_against(Candidate.make(kernel))
        if not reason:
            break
    assert not reason
    B = operand((A.shape[1], columns), dtype, layout)
    return _core.prepare(problem, Candidate.make(kernel)), B, unwritten((A.shape[0], columns), dtype, ORDER[layout])


def digests() -> dict[str, str]:
    _device.load_cublas()  # another process has not done so yet
    found = {}
    for case in CASES:
        kernel, layout, dtype = case.values
        if kernel.reproducible:
            plan, B, C = prepared(kernel, layout, dtype)
            plan.run_host(B, C)
            found[case.id] = hashlib.sha256(np.ascontiguousarray(C).tobytes()).hexdigest()
    return found


def test_every_process_computes_the_same_bits():
    script = f"import sys, json; sys.path[:0] = {sys.path!r}; import {__name__} as m; print(json.dumps(m.digests()))"
    command = [sys.executable, "-c", script]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    here = digests()
    assert here
    for other in others:
        output, _ = other.communicate(timeout=300)
        assert other.returncode == 0
        assert json.loads(output.splitlines()[-1]) == here


@pytest.mark.parametrize(("kernel", "layout", "dtype"), [case for case in CASES if case.values[0].reproducible])
def test_every_stream_computes_the_same_bits(kernel, layout, dtype):
    """Products of plans of the same matrix run at the same time on streams of their own."""
    torch = pytest.importorskip("torch")
    columns, results = 1 if kernel.op == "spmv" else 33, []
    plans = [prepared(kernel, layout, dtype) for _ in range(3)]
    streams = [torch.cuda.Stream() for _ in plans]
    by_row = layout == "row"
    there = []
    for plan, B, C in plans:
        B, C = (tensor_of(np.ascontiguousarray(array if by_row else array.T)).cuda() for array in (B, C))
        there.append((plan, B, C))
    torch.cuda.synchronize()
    for _ in range(3):
        for (plan, B, C), stream in zip(there, streams, strict=True):
            m, n = (C.shape[0], B.shape[0]) if by_row else (C.shape[1], B.shape[1])
            leading = (columns, columns) if by_row else (n, m)
            plan.run_device(B.data_ptr(), leading[0], C.data_ptr(), leading[1], columns, stream.cuda_stream)
        torch.cuda.synchronize()
        results += [_bfloat16.of_tensor(C.cpu()).tobytes() for _, _, C in there]
    assert len(set(results)) == 1

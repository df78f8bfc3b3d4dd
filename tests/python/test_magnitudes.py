"""Products of subnormal, tiny and huge values and of sums that cancel, with every kernel that runs on the CPU."""

import pytest

from magnitudes import KINDS, check
from warploom.candidates import kernels

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

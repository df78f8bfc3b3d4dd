"""Plans of tensors that are made on streams which do not wait for the default stream."""

import numpy as np
import pytest

import warploom as wl
from products import assert_product, operand, tensor_of
from test_everything_once import banded, mixed
from warploom import _bfloat16
from warploom.candidates import Candidate, kernels
from warploom.errors import ParameterError

torch = pytest.importorskip("torch")


def leave_garbage():
    """Free memory full of large numbers: whoever reads what nobody has written, or not yet, reads them."""
    sizes = [1 << 7, 1 << 10, 1 << 14, 1 << 18, 1 << 22] * 8
    blocks = [torch.full((size,), 0x3F9A7B31, dtype=torch.int32, device="cuda") for size in sizes]
    torch.cuda.current_stream().synchronize()
    del blocks


@pytest.mark.parametrize("permutation", ["none", "flipped"])
@pytest.mark.parametrize("kernel", [k for op in ("spmv", "spmm") for k in kernels(op) if not k.vendor])
def test_every_kernel(kernel, permutation):
    if permutation != "none" and not kernel.permutes:
        pytest.skip("takes no permutation")
    dtype = _bfloat16.as_dtype("float32" if "float32" in kernel.dtypes else kernel.dtypes[0])
    layout, k = ("column", 1) if kernel.op == "spmv" else (kernel.layouts[0], 9)
    shape = {} if kernel.op == "spmv" else {"k": k, "layout": layout}
    name = Candidate.make(kernel, permutation).name
    made = 0
    for A in (mixed(dtype), banded(dtype)):
        B = operand((A.shape[1], k), dtype, layout)
        for _ in range(6):
            with torch.cuda.stream(torch.cuda.Stream()):
                leave_garbage()
                arrays = [tensor_of(np.asarray(array)).cuda() for array in (A.indptr, A.indices, A.data)]
                try:
                    plan = wl.plan(wl.CSR(*arrays, shape=A.shape), kernel.op, device="cuda", select=name, **shape)
                except ParameterError:
                    break
                del arrays
                leave_garbage()
                there = tensor_of(np.ascontiguousarray(B[:, 0] if kernel.op == "spmv" else B)).cuda()
                C = _bfloat16.of_tensor((plan @ there).cpu().contiguous())
            assert_product(A, B, C.reshape(A.shape[0], -1), precision=kernel.precision)
            made += 1
    assert made

"""Products of one plan on several streams that do not wait for each other."""

import numpy as np
import pytest

import warploom as wl
from capturing import capture
from products import assert_product, operand, tensor_of
from test_everything_once import mixed
from warploom import _bfloat16, _device
from warploom.candidates import Candidate, kernels
from warploom.errors import ParameterError

torch = pytest.importorskip("torch")

KERNELS = [
    pytest.param(kernel, id=f"{op}-{kernel.format}-{kernel.name}")
    for op in ("spmv", "spmm")
    for kernel in kernels(op)
    if "cuda" in kernel.devices
]


def plan_of(kernel):
    """A plan, its matrix, and operands of products on the host."""
    if kernel.vendor and (reason := _device.load_cusparse()):
        pytest.skip(f"no cuSPARSE: {reason}")
    dtype = _bfloat16.as_dtype("float32" if "float32" in kernel.dtypes else kernel.dtypes[0])
    layout, k = ("column", 1) if kernel.op == "spmv" else (kernel.layouts[0], 24)
    A = mixed(dtype)
    shape = {} if kernel.op == "spmv" else {"k": k, "layout": layout}
    try:
        plan = wl.plan(A, kernel.op, device="cuda", select=Candidate.make(kernel).name, **shape)
    except ParameterError:
        pytest.skip("refused")
    operands = [operand((A.shape[1], k), dtype, layout, seed=seed) for seed in range(4)]
    return plan, A, [B[:, 0] if kernel.op == "spmv" else B for B in operands]


def check(plan, A, B, C, kernel):
    C = np.asarray(C).reshape(A.shape[0], -1)
    assert_product(A, np.asarray(B).reshape(A.shape[1], -1), C, precision=kernel.precision)


@pytest.mark.parametrize("kernel", KERNELS)
def test_streams_that_do_not_wait(kernel):
    """From the first product on, in which the vendor's library still prepares something."""
    plan, A, operands = plan_of(kernel)
    there = [tensor_of(B).cuda() for B in operands]
    streams = [torch.cuda.Stream() for _ in operands]
    torch.cuda.synchronize()
    results = []
    for _ in range(8):
        for stream, B in zip(streams, there, strict=True):
            with torch.cuda.stream(stream):
                results.append(plan @ B)
    torch.cuda.synchronize()
    for i, C in enumerate(results):
        check(plan, A, operands[i % 4], _bfloat16.of_tensor(C.cpu().contiguous()), kernel)


@pytest.mark.parametrize("kernel", KERNELS)
def test_host_operands_beside_a_stream(kernel):
    plan, A, operands = plan_of(kernel)
    B = tensor_of(operands[0]).cuda()
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    on_gpu = []
    for host in operands * 2:
        with torch.cuda.stream(stream):
            on_gpu.append(plan @ B)
        check(plan, A, host, plan @ host, kernel)
    torch.cuda.synchronize()
    for C in on_gpu:
        check(plan, A, operands[0], _bfloat16.of_tensor(C.cpu().contiguous()), kernel)


def test_a_stream_that_is_gone():
    cupy = pytest.importorskip("cupy")
    kernel = next(k for k in kernels("spmv") if k.format == "packed-csr")
    plan, A, operands = plan_of(kernel)
    B = cupy.asarray(operands[0])
    for _ in range(6):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            C = plan @ B
            stream.synchronize()
        del stream
        check(plan, A, operands[0], C.get(), kernel)


def test_a_graph_after_several_streams():
    kernel = next(k for k in kernels("spmv") if k.format == "packed-csr")
    plan, A, operands = plan_of(kernel)
    x = tensor_of(operands[0]).cuda()
    y = plan @ x
    for _ in range(2):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            plan(x, out=y)
    torch.cuda.synchronize()
    with capture() as graph:
        plan(x, out=y)
    x.copy_(tensor_of(operands[1]))
    graph.replay()
    torch.cuda.synchronize()
    check(plan, A, operands[1], y.cpu().numpy(), kernel)
    check(plan, A, operands[1], (plan @ x).cpu().numpy(), kernel)

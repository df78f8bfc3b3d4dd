"""Plans that are dropped, and small calls, while a CUDA graph is captured."""

import gc
import weakref

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from capturing import capture
from products import assert_product
from warploom import _core, _device
from warploom.candidates import Candidate, kernels

torch = pytest.importorskip("torch")

KERNELS = [
    pytest.param(kernel, id=f"{op}-{kernel.format}-{kernel.name}")
    for op in ("spmv", "spmm")
    for kernel in kernels(op)
    if "cuda" in kernel.devices and "float32" in kernel.dtypes
]


def matrix():
    rng = np.random.default_rng(0)
    return csr_array(random_array((400, 300), density=0.03, rng=rng, format="csr")).astype(np.float32)


@pytest.mark.parametrize("home", ["host", "torch"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_plans_are_dropped_in_a_capture(kernel, home):
    if kernel.vendor and (reason := _device.load_cusparse()):
        pytest.skip(f"no cuSPARSE: {reason}")
    A = matrix()
    kept = wl.plan(A, "spmv", device="cuda", select="spmv/none/csr/vector")
    x, y, z = (torch.randn(size, device="cuda") for size in (300, 400, 400))
    kept(x, out=y)
    given = A
    if home == "torch":
        given = wl.CSR(*(torch.from_numpy(a).cuda() for a in (A.indptr, A.indices, A.data)), shape=A.shape)
    shape = {"k": 8, "layout": kernel.layouts[0]} if kernel.op == "spmm" else {}
    plans = []
    for updatable in (False, True):
        try:
            options = {"select": Candidate.make(kernel).name, "updatable": updatable}
            plans.append(wl.plan(given, kernel.op, device="cuda", **options, **shape))
        except wl.errors.ParameterError:
            continue
        B = torch.randn((300, 8) if shape else 300, device="cuda")
        plans[-1] @ B
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())  # a plan runs on one stream at a time
        with torch.cuda.stream(side):
            plans[-1] @ B
    if not plans:
        pytest.skip("refused")
    torch.cuda.synchronize()
    dropped = [weakref.ref(plan) for plan in plans]
    with capture() as graph:
        kept(x, out=y)
        plans.clear()
        gc.collect()
        assert [plan() for plan in dropped] == [None] * len(dropped)
        assert kept.candidate in repr(kept)
        assert kept.nbytes > 0
        str(kept.explain())
        kept(x, out=z)  # which is captured, too
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    for result in (y, z):
        assert_product(A, x.cpu().numpy()[:, None], result.cpu().numpy()[:, None])


def test_memory_is_given_back_after_the_capture():
    """What pools hold does not grow with each capture; the bytes they say are in use are not reduced by cudaFree."""
    size = 64 << 20
    x = torch.zeros(4, device="cuda")
    held = []
    for _ in range(4):
        memory = _core.DeviceMemory(0, size)
        with capture():
            del memory
            x += 1
        _core.DeviceMemory(0, 16)  # what was kept is given back with it
        torch.cuda.synchronize()
        held.append(_core.memory_in_pools(0)[1])
    assert held[-1] - held[0] < size

"""Products that come again and again are launched as CUDA graphs, and nothing else about them changes."""

import gc
import threading

import numpy as np
import pytest
from scipy.sparse import csr_array, eye_array, random_array

import warploom as wl
from capturing import capture
from products import assert_product, operand, tensor_of
from test_everything_once import mixed
from updates import new_values, with_values
from warploom import _bfloat16
from warploom.candidates import Candidate, kernels
from warploom.errors import ParameterError

torch = pytest.importorskip("torch")

OFTEN, WORTH_IT = 8, 80
"""Calls after which one is recorded, and after which that was worth it: others wait longer where it was not."""
KERNELS = [
    pytest.param(kernel, layout, id=f"{op}-{kernel.format}-{kernel.name}-{layout}")
    for op in ("spmv", "spmm")
    for kernel in kernels(op)
    if not kernel.vendor and "cuda" in kernel.devices
    for layout in (kernel.layouts if op == "spmm" else ["column"])
]
SPMV = "spmv/none/csr/vector"


def recorded(plan):
    return plan._core.num_recorded


def matrix(dtype=np.float32, n=300):
    rng = np.random.default_rng(0)
    return csr_array(random_array((n, n), density=0.05, rng=rng, format="csr") + eye_array(n)).astype(dtype)


def check(plan, A, x, y):
    B, C = (_bfloat16.of_tensor(t.cpu().contiguous()).reshape(t.shape[0], -1) for t in (x, y))
    assert_product(A, B, C)


def repeat(plan, x, y, times=OFTEN + 4):
    for _ in range(times):
        plan(x, out=y)


@pytest.mark.parametrize(("kernel", "layout"), KERNELS)
def test_every_kernel(kernel, layout):
    """With other values in the same places, from both paths of a plan."""
    dtype = _bfloat16.as_dtype("float32" if "float32" in kernel.dtypes else kernel.dtypes[0])
    A, k = mixed(dtype), 1 if kernel.op == "spmv" else 24
    shape = {} if kernel.op == "spmv" else {"k": k, "layout": layout}
    try:
        plan = wl.plan(A, kernel.op, device="cuda", select=Candidate.make(kernel).name, **shape)
    except ParameterError:
        pytest.skip("refused")
    operands = [operand((A.shape[1], k), dtype, layout, seed=seed) for seed in range(3)]
    there = [tensor_of(B[:, 0] if kernel.op == "spmv" else B).cuda() for B in operands]
    x = there[0].clone(memory_format=torch.preserve_format)
    y = plan @ x
    repeat(plan, x, y)
    assert recorded(plan) == 1
    for B, values in zip(operands, there, strict=True):
        x.copy_(values)
        y.fill_(float("nan"))
        repeat(plan, x, y, 3)
        found = _bfloat16.of_tensor(y.cpu().contiguous()).reshape(A.shape[0], -1)
        assert_product(A, B, found, precision=kernel.precision)


@pytest.mark.parametrize("home", ["numpy", "cupy", "torch"])
def test_results_of_their_own(home):
    """The memory of a result that nobody keeps is that of the next one."""
    A = matrix()
    plan = wl.plan(A, "spmv", device="cuda", select=SPMV)
    x = operand((A.shape[1], 1), np.float32, "column")[:, 0].copy()
    if home != "numpy":
        there = torch.from_numpy(x).cuda() if home == "torch" else pytest.importorskip("cupy").asarray(x)
    else:
        there = x
    for _ in range(40):
        y = plan @ there
    assert 1 <= recorded(plan) <= 4
    y = y.cpu().numpy() if home == "torch" else y.get() if home == "cupy" else y
    assert_product(A, x[:, None], y[:, None])


@pytest.mark.parametrize("select", [SPMV, "spmv/none/bsr/vector", "spmv/none/packed-csr/segmented_sum"])
def test_new_values(select):
    """Also where the matrix is converted again, which puts it elsewhere."""
    A = matrix()
    repeats = csr_array(
        (np.append(A.data, A.data), np.append(A.indices, A.indices), np.append(A.indptr, A.indptr[1:] + A.nnz)),
        shape=(2 * A.shape[0], A.shape[1]),
    )
    repeats.indices[1] = repeats.indices[0]  # BSR adds these up
    plan = wl.plan(repeats, "spmv", device="cuda", select=select, updatable=True)
    x = torch.randn(A.shape[1], device="cuda")
    y = plan @ x
    for seed in range(4):
        repeat(plan, x, y, WORTH_IT)
        assert recorded(plan) == 1
        values = new_values(repeats, seed)
        plan.update_values(torch.from_numpy(values).cuda())
        repeat(plan, x, y, 2)
        check(plan, with_values(repeats, values), x, y)


def test_epilogues_and_dot_products():
    A = matrix()
    plan = wl.plan(A, "spmv", device="cuda", select=SPMV)
    x, bias = torch.randn(A.shape[1], device="cuda"), torch.randn(A.shape[0], device="cuda")
    y, dot = torch.zeros_like(bias), torch.zeros((), device="cuda")
    expected = (torch.from_numpy(A.toarray()).cuda().double() @ x.double()).float()
    for _ in range(OFTEN + 4):
        plan(x, out=y, alpha=-2.0, bias=bias, activation="relu")
    torch.testing.assert_close(y, torch.relu(-2 * expected + bias), rtol=1e-4, atol=1e-4)
    assert recorded(plan) == 1
    for round_ in range(OFTEN + 4):
        y.fill_(1.0)
        plan(x, out=y, beta=3.0)
        torch.testing.assert_close(y, expected + 3, rtol=1e-4, atol=1e-4)
        assert recorded(plan) == 1 + (round_ + 1 >= OFTEN)
    for _ in range(OFTEN + 4):
        dot.fill_(float("nan"))
        plan.product_and_dot(x, out=y, dot=dot)
        torch.testing.assert_close(dot, (x.double() @ expected.double()).float(), rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
    repeat(plan, x, y)
    check(plan, A, x, y)


@pytest.mark.parametrize("counts", [(8, 8, 8, 8), (3, 3, 3, 5, 5, 5), (1,) * 12])
def test_conjugate_gradients(counts):
    """Steps on the GPU are those that the host takes, however many at a time."""
    from warploom import _core

    A = matrix(np.float64)
    A = csr_array(A @ A.T + 10 * eye_array(A.shape[0]))
    plan = wl.plan(A, "spmv", device="cuda", select="spmv/none/packed-csr/segmented_sum")
    b = np.random.default_rng(1).standard_normal(A.shape[0])
    x, p, q = (torch.zeros(A.shape[0], dtype=torch.float64, device="cuda") for _ in range(3))
    r = torch.from_numpy(b).cuda()
    steps = _core.ConjugateGradients(plan._core)
    addresses, stream = [v.data_ptr() for v in (x, r, p, q)], torch.cuda.current_stream().cuda_stream
    for _ in range(2):  # the second time, after other products with the plan
        x.zero_()
        r.copy_(torch.from_numpy(b))
        steps.start(addresses, stream)
        X, R, P = np.zeros_like(b), b.copy(), b.copy()
        for count in counts:
            steps.step(addresses, count, stream)
            for _ in range(count):
                Q = A @ P
                length = (R @ R) / (P @ Q)
                X, before, R = X + length * P, R @ R, R - length * Q
                P = R + (R @ R) / before * P
            scale = np.abs(X).max()
            np.testing.assert_allclose(x.cpu().numpy(), X, rtol=1e-8, atol=1e-10 * scale)
        plan @ b
        with torch.cuda.stream(torch.cuda.Stream()):
            plan @ torch.from_numpy(b).cuda()
        torch.cuda.synchronize()


def test_operands_in_turn():
    """Those that come in turn are recorded if there are at most four."""
    A = matrix()
    plan = wl.plan(A, "spmv", device="cuda", select=SPMV)
    pairs = [(torch.randn(A.shape[1], device="cuda"), torch.zeros(A.shape[0], device="cuda")) for _ in range(6)]
    for few, expected in ((pairs[:2], 2), (pairs[2:], 4), (pairs, 0)):
        for _ in range(WORTH_IT):
            for x, y in few:
                y.fill_(float("nan"))
                plan(x, out=y)
        for x, y in few:
            check(plan, A, x, y)
        assert recorded(plan) == expected


def test_other_numbers_of_columns():
    A = matrix()
    plan = wl.plan(A, k=16, device="cuda", select="spmm/none/csr/row_split")
    for k in (16, 8, 33, 16, 1):
        x = torch.randn(A.shape[1], k, device="cuda")
        y = torch.empty(A.shape[0], k, device="cuda")
        repeat(plan, x, y, 40)
        check(plan, A, x, y)


def test_streams_wait_for_each_other():
    """A kernel with a workspace, recorded on one stream and launched on others."""
    A = mixed(np.float32)
    plan = wl.plan(A, "spmv", device="cuda", select="spmv/none/packed-csr/segmented_sum")
    x, y = torch.randn(A.shape[1], device="cuda"), torch.zeros(A.shape[0], device="cuda")
    repeat(plan, x, y)
    streams = [torch.cuda.Stream() for _ in range(3)]
    others = [(torch.randn_like(x), torch.empty_like(y)) for _ in streams]
    torch.cuda.synchronize()
    for _ in range(30):
        for stream, (x_there, y_there) in zip(streams, others, strict=True):
            with torch.cuda.stream(stream):
                plan(x_there, out=y_there)
    torch.cuda.synchronize()
    assert recorded(plan) == 4
    for x_there, y_there in [*others, (x, y)]:
        check(plan, A, x_there, y_there)


def test_captures():
    """What somebody else captures is not recorded, and holds kernels that were recorded before."""
    A = matrix()
    plan = wl.plan(A, "spmv", device="cuda", select=SPMV)
    x, y, z = (torch.randn(A.shape[0], device="cuda") for _ in range(3))
    repeat(plan, x, y)
    with capture() as graph:
        repeat(plan, x, y)
        repeat(plan, y, z)
    assert recorded(plan) == 1
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    check(plan, A, x, y)
    check(plan, A, y, z)


def test_recording_while_another_stream_is_captured():
    A = matrix()
    plan = wl.plan(A, "spmv", device="cuda", select=SPMV)
    x, y, z = (torch.randn(A.shape[0], device="cuda") for _ in range(3))
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with capture() as graph:
        z.mul_(2.0)
        with torch.cuda.stream(side):
            repeat(plan, x, y)
    assert recorded(plan) == 1
    before = z.clone()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(z, 2 * before)
    check(plan, A, x, y)


def test_plans_go_while_they_are_launched():
    A = matrix()
    x, y = torch.randn(A.shape[1], device="cuda"), torch.zeros(A.shape[0], device="cuda")
    for _ in range(20):
        plan = wl.plan(A, "spmv", device="cuda", select=SPMV)
        repeat(plan, x, y, 50)
        del plan
    gc.collect()
    torch.cuda.synchronize()
    check(None, A, x, y)


def test_threads():
    """Plans of their own, and one of all."""
    A = mixed(np.float32)
    shared = wl.plan(A, "spmv", device="cuda", select="spmv/none/packed-csr/segmented_sum")
    failures = []

    def work(seed):
        try:
            own = wl.plan(A, "spmv", device="cuda", select="spmv/none/packed-csr/segmented_sum")
            with torch.cuda.stream(torch.cuda.Stream()):
                generator = torch.Generator().manual_seed(seed)
                x = torch.randn(A.shape[1], generator=generator).cuda()
                y, z = (torch.zeros(A.shape[0], device="cuda") for _ in range(2))
                for _ in range(200):
                    own(x, out=y)
                    shared(x, out=z)
                torch.cuda.current_stream().synchronize()
            check(own, A, x, y)
            check(shared, A, x, z)
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_host_operands():
    """Copies in both directions are part of what is recorded; operands may grow meanwhile."""
    A = matrix()
    plan = wl.plan(A, k=8, device="cuda", select="spmm/none/csr/row_split")
    for k in (8, 3, 64, 8):
        for seed in range(WORTH_IT):
            B = operand((A.shape[1], k), np.float32, "row", seed=seed % 3)
            C = np.full((A.shape[0], k + 1), np.nan, np.float32)
            plan(B, out=C[:, :k])
            assert_product(A, B, C[:, :k])
            assert np.isnan(C[:, k]).all()
        assert recorded(plan) == 1

"""torch and CuPy operands: same kind out, no copy, the caller's stream, CUDA graphs."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csr_array, random_array

import warploom as wl
from capturing import capture
from products import assert_product, operand

PLANS = {
    "row": [
        "spmm/none/csr/row_split",
        "spmm/none/padded-csr/row_split",
        "spmm/none/segmented-csr/row_split[segment_length=16]",
    ],
    "column": [
        "spmm/none/csr/c_stationary",
        "spmm/none/padded-csr/c_stationary",
        "spmm/none/segmented-csr/c_stationary[segment_length=16]",
        "spmm/none/csr/row_split",
        "spmm/lpt/dcsr/c_stationary",
    ],
}
CASES = [(order, name) for order, names in PLANS.items() for name in names]


@pytest.fixture
def matrix():
    return csr_array(random_array((300, 200), density=0.1, rng=np.random.default_rng(0), format="csr")).astype(
        np.float32
    )


@pytest.mark.parametrize(("order", "name"), CASES)
def test_torch(matrix, order, name):
    torch = pytest.importorskip("torch")
    plan = wl.plan(matrix, k=32, layout=order, device="cuda", select=name)
    B = torch.randn(200, 32, device="cuda")
    for b in (B, B.t().contiguous().t(), torch.randn(200, 40, device="cuda")[:, 4:36], B[:, :1]):
        C = plan @ b
        assert isinstance(C, torch.Tensor)
        assert C.device == b.device
        assert_product(matrix, b.cpu().numpy(), C.cpu().numpy())
    with pytest.raises(wl.errors.ParameterError, match="gradient"):
        plan @ B.requires_grad_()
    with torch.no_grad():
        assert_product(matrix, B.detach().cpu().numpy(), (plan @ B).cpu().numpy())
    vector = torch.randn(200, device="cuda")
    torch.testing.assert_close(
        (plan @ vector).cpu().double(),
        torch.from_numpy(matrix.astype(np.float64) @ vector.cpu().double().numpy()),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support")  # PyTorch's, once a process
@pytest.mark.parametrize("format", ["coo", "csc"])
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_tensors_in_other_formats(matrix, device, format):
    torch = pytest.importorskip("torch")
    A = getattr(torch.from_numpy(matrix.toarray()).to(device), f"to_sparse_{format}")()
    plan = wl.plan(A, k=8, device="cuda", select="spmm/none/csr/row_split", updatable=True)
    B = torch.randn(200, 8, device="cuda")
    assert_product(matrix, B.cpu().numpy(), (plan @ B).cpu().numpy())
    assert_product(
        matrix.T.tocsr(), np.ones((300, 8), np.float32), (plan.T @ torch.ones(300, 8, device="cuda")).cpu().numpy()
    )
    plan.update_values(2 * A.to_sparse_csr().values())
    assert_product(2 * matrix, B.cpu().numpy(), (plan @ B).cpu().numpy())


@pytest.mark.parametrize(("order", "name"), CASES)
def test_cupy(matrix, order, name):
    cupy = pytest.importorskip("cupy")
    plan = wl.plan(matrix, k=32, layout=order, device="cuda", select=name)
    B = cupy.asarray(operand((200, 32), np.float32, "row"))
    for b in (B, cupy.asfortranarray(B)):
        C = plan @ b
        assert isinstance(C, cupy.ndarray)
        assert_product(matrix, b.get(), C.get())


def test_numpy_in_numpy_out(matrix):
    plan = wl.plan(matrix, k=8, device="cuda", select="spmm/none/csr/row_split")
    B = operand((200, 8), np.float32, "row")
    C = plan @ B
    assert isinstance(C, np.ndarray)
    assert_product(matrix, B, C)
    out = np.empty((300, 8), np.float32)
    assert plan(B, out=out) is out
    np.testing.assert_array_equal(out, C)


def test_torch_matrix_brings_its_own_memory(matrix):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings(), torch.sparse.check_sparse_tensor_invariants():
        warnings.simplefilter("ignore")  # torch's CSR is in beta, and says so
        A = torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr),
            torch.from_numpy(matrix.indices),
            torch.from_numpy(matrix.data),
            size=matrix.shape,
        ).cuda()
    before = torch.cuda.memory_allocated()
    plan = wl.plan(A, k=16, device="cuda", select="spmm/none/csr/row_split")
    assert torch.cuda.memory_allocated() > before
    B = torch.randn(200, 16, device="cuda")
    assert_product(matrix, B.cpu().numpy(), (plan @ B).cpu().numpy())
    del plan
    assert torch.cuda.memory_allocated() <= before + B.nbytes + 4096


@pytest.mark.parametrize(("order", "name"), CASES)
def test_runs_on_the_current_stream_and_in_a_graph(matrix, order, name):
    torch = pytest.importorskip("torch")
    plan = wl.plan(matrix, k=32, layout=order, device="cuda", select=name)
    B = torch.randn(200, 32, device="cuda")
    plan @ B
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late = B * 2
        C = plan @ late  # would read `late` too early on any other stream
    stream.synchronize()
    assert_product(matrix, late.cpu().numpy(), C.cpu().numpy())

    static = torch.randn(200, 32, device="cuda")
    with capture() as graph:
        captured = plan @ static
    for _ in range(3):
        static.copy_(torch.randn(200, 32, device="cuda"))
        graph.replay()
        torch.cuda.synchronize()
        assert_product(matrix, static.cpu().numpy(), captured.cpu().numpy())


def test_wrong_devices_and_types(matrix):
    torch = pytest.importorskip("torch")
    on_gpu = wl.plan(matrix, k=8, device="cuda", select="spmm/none/csr/row_split")
    on_cpu = wl.plan(matrix, k=8, device="cpu", select="spmm/none/csr/row_split")
    with pytest.raises(wl.errors.DeviceError) as caught:
        on_cpu @ torch.zeros(200, 8, device="cuda")
    assert caught.value.argument == "B"
    with pytest.raises(wl.errors.DtypeError):
        on_gpu(torch.zeros(200, 8, device="cuda"), out=torch.zeros(300, 8, device="cuda", dtype=torch.float16))
    with pytest.raises(wl.errors.ShapeError):
        on_gpu @ torch.zeros(201, 8, device="cuda")
    with pytest.raises(wl.errors.DeviceError):
        on_gpu(torch.zeros(200, 8, device="cuda"), out=torch.zeros(300, 8))
    with pytest.raises(wl.errors.DeviceError, match="no GPU 99"):
        wl.plan(matrix, k=8, device="cuda:99")


@pytest.mark.parametrize("home", ["host", "torch"])
def test_a_plan_may_go_while_its_product_runs(home):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    n = 400_000
    A = scipy.sparse.csr_array(
        (rng.random(10 * n), rng.integers(0, n, 10 * n, dtype=np.int32), np.arange(0, 10 * n + 1, 10)), (n, n)
    )
    tensors = [torch.from_numpy(np.asarray(a)).cuda() for a in (A.indptr.astype(np.int32), A.indices, A.data)]
    given = A if home == "host" else wl.CSR(*tensors, A.shape)
    x = torch.rand(n, dtype=torch.float64, device="cuda")
    expected = A @ x.cpu().numpy()
    side = torch.cuda.Stream()
    for _ in range(3):
        plan = wl.plan(given, "spmv", device="cuda", select="spmv/none/csr/vector")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000_000)
            y = plan @ x
        del plan
        other = [torch.full((10 * n,), torch.nan, dtype=torch.float64, device="cuda") for _ in range(4)]
        again = wl.plan(A, "spmv", device="cuda", select="spmv/none/csr/vector", dtype="float32")
        torch.cuda.synchronize()
        np.testing.assert_allclose(y.cpu().numpy(), expected, rtol=1e-12)
        del other, again


def test_too_little_memory():
    """Room to turn B and C round: 2 x 60,000 x 16 million x 8 bytes."""
    matrix = scipy.sparse.eye_array(60_000, format="csr")
    plan = wl.plan(matrix, k=8, device="cuda", select="spmm/none/csr/row_split")
    with pytest.raises(wl.errors.OutOfMemoryError):
        wl.plan(
            matrix, k=16_000_000, layout="column", device="cuda", select="spmm/none/csr/row_split[columns_per_thread=8]"
        )
    B = operand((60_000, 8), np.float64, "row")
    assert_product(matrix, B, plan @ B)  # the failure left nothing behind


def test_measured_selection(matrix):
    seen = []
    for order in ("row", "column"):
        plan = wl.plan(
            matrix,
            k=32,
            layout=order,
            device="cuda",
            select="measure",
            calls=math.inf,
            progress=lambda *a: seen.append(a),
        )
        explanation = plan.explain()
        measured = [r for r in explanation.rows if r.median_us > 0]
        assert plan.candidate == measured[0].candidate == min(measured, key=lambda r: r.median_us).candidate
        assert any("cusparse" in r.candidate for r in measured)
        assert all(r.floor_share <= 1.2 for r in measured)
        B = operand((200, 32), np.float32, order)
        assert_product(matrix, B, plan @ B)
    assert seen[-1][1] >= seen[-1][0]

"""Devices by name, and dense operands as a plan sees them."""

import sys
import types

import numpy as np
import pytest

import warploom as wl
from warploom import _core, _device
from warploom._device import Device

F32 = np.dtype(np.float32)


def pretend(monkeypatch, devices, error=None):
    monkeypatch.setattr(_core, "cuda_info", lambda: {"devices": [{"name": n} for n in devices], "error": error})
    monkeypatch.setattr(_core, "num_gpus", lambda: len(devices))


def test_names(monkeypatch):
    pretend(monkeypatch, ["one", "two"])
    assert Device.parse(None) == Device.parse("cuda") == Device.parse("cuda:0") == Device("cuda", 0)
    assert Device.parse("cuda:1") == Device("cuda", 1)
    assert Device.parse("cuda:1").name == "two"
    assert str(Device.parse("cuda:1")) == "cuda:1"
    assert str(Device.parse("cpu")) == "cpu"
    assert Device.parse("cpu").name == f"CPU ({wl.num_threads()} threads)"
    with pytest.raises(wl.errors.DeviceError, match=r"no GPU 2: 2 GPU\(s\) found"):
        Device.parse("cuda:2")


@pytest.mark.parametrize("name", ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1.0", "cpu:0", "CUDA", 0])
def test_other_names_are_refused(name):
    with pytest.raises(wl.errors.ParameterError, match="unknown device") as caught:
        Device.parse(name)
    assert caught.value.argument == "device"


def test_without_a_gpu(monkeypatch):
    pretend(monkeypatch, [], "no driver")
    assert Device.parse(None) == Device("cpu")
    with pytest.raises(wl.errors.DeviceError, match="no GPU 0: no driver") as caught:
        wl.plan(np.eye(2), k=1, device="cuda")
    assert caught.value.argument == "device"


def test_the_memory_pool_is_the_frameworks_on_a_gpu_only():
    class Tensor:
        __module__ = "torch"

    assert _device.allocator_for(Tensor(), Device("cpu")) is None
    assert _device.allocator_for(np.eye(2), Device("cuda")) is None


@pytest.mark.parametrize("layout", ["row", "column"])
def test_operands_are_looked_at_where_they_lie(layout):
    base = np.arange(60, dtype=np.float32).reshape(6, 10)
    whole = base if layout == "row" else base.T
    part = whole[1:4, 2:6]
    seen = _device.operand(part, F32, layout)
    assert not seen.copied
    assert (seen.rows, seen.columns, seen.leading_dimension) == (3, 4, 10)
    assert seen.pointer == part.ctypes.data
    np.testing.assert_array_equal(seen.addresses(layout, F32), part)
    stepped = part[:, ::2] if layout == "row" else part[::2]
    for other in (part[::-1], part[:, ::-1], stepped, whole.T[:3, :4], np.broadcast_to(np.float32(2), (3, 4))):
        seen = _device.operand(other, F32, layout)
        assert seen.copied
        np.testing.assert_array_equal(seen.addresses(layout, F32), other)


def test_which_operands_are_copied():
    B = np.zeros((5, 4), np.float32)
    assert not _device.operand(B, F32, "row").copied
    assert _device.operand(B, F32, "column").copied
    assert _device.operand(B[:, ::2], F32, "row").copied
    assert _device.operand(B[::-1], F32, "row").copied
    assert not _device.operand(B[::2], F32, "row").copied
    assert not _device.operand(B[:, :1], F32, "row").copied
    assert not _device.operand(B[:1], F32, "column").copied  # one row is column-major too
    unaligned = np.frombuffer(bytes(81), np.uint8)[1:].view(np.float32).reshape(5, 4)
    assert _device.operand(unaligned, F32, "row").copied


def test_overlap():
    both = np.zeros((6, 8), np.float32)

    def overlap(left, right):
        return _device.overlap(_device.operand(left, F32, "row"), _device.operand(right, F32, "row"), "row", F32)

    assert overlap(both, both)
    assert overlap(both[:, :5], both[:, 4:])
    assert not overlap(both[:, :4], both[:, 4:])  # interleaved, but apart
    assert not overlap(both[:3], both[3:])
    assert not overlap(both, both.copy())


class FakeGpuArray:
    """What a library of its own kind would hand over: NumPy memory that claims to be on a GPU."""

    def __init__(self, array):
        self.array = array
        self.ndim = array.ndim
        self.shape = array.shape

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **options):
        return self.array


@pytest.fixture
def bridge(monkeypatch):
    """Substitute for CuPy: from_dlpack returns the memory in a form that this test can read."""
    fake = types.ModuleType("cupy")
    fake.from_dlpack = lambda B: B.__dlpack__()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake


def test_any_gpu_array_with_dlpack(monkeypatch, bridge):
    library = types.ModuleType("thirdparty")
    library.from_dlpack = FakeGpuArray
    monkeypatch.setitem(sys.modules, "thirdparty", library)
    monkeypatch.setattr(FakeGpuArray, "__module__", "thirdparty.core")
    B = np.ones((3, 2), np.float32)
    seen = _device.operand(FakeGpuArray(B), F32, "row")
    assert seen.pointer == B.ctypes.data
    result, pointer, leading = seen.new(4, 2, "row")
    returned = _device.finish(result)
    assert isinstance(returned, FakeGpuArray)
    assert returned.array.ctypes.data == pointer
    assert (returned.shape, leading) == ((4, 2), 2)
    with pytest.raises(wl.errors.DtypeError) as caught:
        _device.operand(FakeGpuArray(B.astype(np.int32)), F32, "row", "out")
    assert caught.value.argument == "out"


def test_jaxlib_arrays_go_back_through_jax(monkeypatch, bridge):
    jax = types.ModuleType("jax")
    jax.dlpack = types.SimpleNamespace(from_dlpack=FakeGpuArray)
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setattr(FakeGpuArray, "__module__", "jaxlib._jax")
    seen = _device.operand(FakeGpuArray(np.ones((3, 2), np.float32)), F32, "row")
    assert isinstance(_device.finish(seen.new(1, 1, "row")[0]), FakeGpuArray)


def test_gpu_arrays_that_cannot_be_exchanged(monkeypatch, bridge):
    B = FakeGpuArray(np.ones((3, 2), np.float32))
    with pytest.raises(wl.errors.DeviceError, match="DLPack") as caught:  # its module has no from_dlpack
        _device.operand(B, F32, "row")
    assert caught.value.argument == "B"
    with pytest.raises(wl.errors.DeviceError, match="DLPack"):
        _device.operand(types.SimpleNamespace(__cuda_array_interface__={}), F32, "row")
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(wl.errors.DeviceError, match="needs CuPy or torch"):
        _device.operand(B, F32, "row")


def test_finish_leaves_other_results_alone():
    C = np.ones(3)
    assert _device.finish(C) is C


def test_threads():
    before = wl.num_threads()
    try:
        wl.set_num_threads(3)
        assert wl.num_threads() == 3
    finally:
        wl.set_num_threads(0)
    assert wl.num_threads() == before


def test_captures_are_known_from_the_frameworks(monkeypatch):
    class Stream:
        def __init__(self, answer):
            self.answer = answer

        def is_capturing(self):
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    def made_up(name, answer):
        stream = Stream(answer)
        if name == "torch":
            cuda = types.SimpleNamespace(is_initialized=lambda: True, is_current_stream_capturing=stream.is_capturing)
        else:
            cuda = types.SimpleNamespace(get_current_stream=lambda: stream)
        return types.SimpleNamespace(cuda=cuda)

    for name in ("torch", "cupy"):
        for other in ("torch", "cupy"):
            monkeypatch.delitem(sys.modules, other, raising=False)
        assert not _device._captures()
        for answer, expected in ((False, False), (True, True), (RuntimeError("another stream is captured"), True)):
            monkeypatch.setitem(sys.modules, name, made_up(name, answer))
            assert _device._captures() is expected

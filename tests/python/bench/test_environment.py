import json
from types import SimpleNamespace

import warploom as wl
from warploom._device import Device
from warploom.bench import environment


def test_the_cpu_is_described():
    found = environment.environment(Device("cpu", 0))
    assert found["device"] == "cpu"
    assert found["warploom"] == wl.__version__
    assert found["copy_bandwidth"] > 1e8
    assert len(found["core"]) == 16
    assert json.loads(json.dumps(found)) == found


def test_clocks_of_a_cpu_are_unknown():
    assert environment.clock_mhz(Device("cpu", 0)) == 0


def test_gpus_are_found_among_the_visible_ones(monkeypatch):
    asked = SimpleNamespace(
        nvmlDeviceGetHandleByIndex=lambda index: ("index", index),
        nvmlDeviceGetHandleByUUID=lambda uuid: ("uuid", uuid),
    )
    monkeypatch.setattr(environment, "_nvml", lambda: asked)
    for visible, ordinal, handle in (
        ("", 1, ("index", 1)),
        ("3,5", 1, ("index", 5)),
        ("GPU-ab12, GPU-cd34", 1, ("uuid", b"GPU-cd34")),
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert environment._handle.__wrapped__(ordinal) == handle

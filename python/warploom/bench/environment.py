"""The environment of a sweep: GPU, clocks, driver, libraries, and the source state of warploom."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import pathlib
import platform
import time
from typing import Any

import warploom
from warploom import _core
from warploom._device import Device, cublas_version, cusparse_version, load_cublas, load_cusparse

__all__ = ["clock_mhz", "cpu_name", "environment"]


@functools.cache
def environment(device: Device) -> dict[str, Any]:
    """Describe the device and everything that a measured time depends on.

    Returns
    -------
    dict
        Plain values, ready for JSON. ``core`` is the first 16 digits of the SHA-256 of the compiled module: it
        distinguishes the measurements of two source states. ``copy_bandwidth`` is in bytes per second, read plus
        written, to two digits, so that two GPUs of one kind are one environment.
    """
    found: dict[str, Any] = {
        "warploom": warploom.__version__,
        "core": hashlib.sha256(pathlib.Path(_core.__file__).read_bytes()).hexdigest()[:16],
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "scipy": importlib.metadata.version("scipy"),
        "platform": platform.platform(terse=True),
        "cpu": cpu_name(),
        "cpu_threads": _core.num_threads(),
        "device": device.kind,
        "copy_bandwidth": float(f"{_core.copy_bandwidth(device.number):.2g}"),
    }
    if device.kind == "cuda":
        load_cusparse()
        load_cublas()
        cuda = _core.cuda_info()
        gpu = cuda["devices"][device.ordinal]
        found |= {
            "gpu": gpu["name"],
            "compute_capability": str(gpu["compute_capability"]),
            "multiprocessors": gpu["multiprocessors"],
            "memory_bytes": gpu["memory_bytes"],
            "l2_bytes": gpu["l2_bytes"],
            "cuda": f"{cuda['runtime_version'] // 1000}.{cuda['runtime_version'] % 1000 // 10}",
            "cusparse": cusparse_version(),
            "cublas": cublas_version(),
            **_management(device.ordinal),
        }
    else:
        found["gpu"] = ""
    return found


def clock_mhz(device: Device) -> int:
    """Return the clock of the multiprocessors in MHz, read at most ten times a second; 0 where it is not known."""
    return _clock(device.ordinal, int(10 * time.monotonic())) if device.kind == "cuda" else 0


@functools.lru_cache(maxsize=4)
def _clock(ordinal: int, _instant: int) -> int:
    nvml = _nvml()
    if nvml is None:
        return 0
    return int(nvml.nvmlDeviceGetClockInfo(_handle(ordinal), nvml.NVML_CLOCK_SM))


@functools.cache
def _nvml() -> Any:
    """Return the driver's management library, through nvidia-ml-py, or None."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # not installed, or no driver: the clocks stay unknown
        return None
    return pynvml


@functools.cache
def _handle(ordinal: int) -> Any:
    """Translate numbers of GPUs: CUDA numbers only the visible ones, the driver all of them."""
    nvml = _nvml()
    visible = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    chosen = visible[ordinal] if ordinal < len(visible) and visible[ordinal] else str(ordinal)
    if chosen.isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(chosen))
    return nvml.nvmlDeviceGetHandleByUUID(chosen.encode())


def _management(ordinal: int) -> dict[str, Any]:
    nvml = _nvml()
    if nvml is None:
        return {"driver": "", "max_clock_mhz": 0, "memory_clock_mhz": 0, "power_limit_w": 0}
    handle, driver = _handle(ordinal), nvml.nvmlSystemGetDriverVersion()
    return {
        "driver": driver.decode() if isinstance(driver, bytes) else driver,
        "max_clock_mhz": nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "power_limit_w": nvml.nvmlDeviceGetEnforcedPowerLimit(handle) // 1000,
    }


def cpu_name() -> str:
    """Return the name of the processor; empty where it is not known."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")

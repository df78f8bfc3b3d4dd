"""Rows of end-to-end times for tests."""

from __future__ import annotations

ENVIRONMENT = {"gpu": "Test GPU", "cuda": "13.0", "cusparse": "12.6"}


def row(name="a", tool="warploom", planning=100.0, call=1.0, *, setting="spmv/float64", **more):
    """Return a row in which everything takes exactly as long as planning and products."""
    op, dtype, *rest = setting.split("/")
    known = {
        "matrix": name,
        "rows": 10,
        "cols": 10,
        "nnz": 50,
        "setting": setting,
        "op": op,
        "dtype": dtype,
        "k": int(rest[1].removeprefix("k=")) if rest else 1,
        "place": "device",
        "tool": tool,
        "planning_us": planning,
        "planning_min_us": planning,
        "planning_max_us": planning,
        "planning_cold_us": planning,
        "repeats": 5,
        "first_us": planning + call,
        "call_us": call,
        "plan_bytes": 40,
        "csr_bytes": 60,
        "status": "ok",
    }
    return known | more


def direct(found, factor=1.0):
    """Add measured times of many products, which take `factor` times what is expected."""
    times = {f"until_{n}_us": factor * (found["planning_us"] + n * found["call_us"]) for n in (10, 100, 1000)}
    return found | times

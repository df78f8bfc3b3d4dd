"""How long one tool takes: planning, the first product, further ones, and all of it in one go."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from warploom._limits import EndToEndLimits as Limits
from warploom.bench.end_to_end.rows import DIRECT

__all__ = ["Limits", "PythonTool", "Times", "Tool", "measure"]

_COLD_PRODUCTS = 3
_MOST_PRODUCTS = 1000
_DIRECT_REPEATS = 3


@dataclasses.dataclass(frozen=True)
class Times:
    """Microseconds on the clock of the host; each ends with a synchronisation."""

    planning_us: float
    first_us: float
    """One product after planning."""
    products_us: float
    """Further products."""


class Tool(Protocol):
    """Something that plans and multiplies, with one matrix and one B."""

    def time(self, products: int) -> Times:
        """Plan and wait, multiply once and wait, multiply so often and wait."""

    def time_until(self, products: int) -> float:
        """Plan, multiply so often, and wait at the end only; microseconds."""

    def facts(self) -> dict[str, Any]:
        """Return columns of the table of end-to-end times that describe the last plan."""


class PythonTool:
    """A tool that is called from Python.

    Parameters
    ----------
    prepare : callable
        Plans; returns what multiplies when it is called.
    synchronize : callable
        Waits for the device.
    describe : callable
        From what `prepare` returned to columns of the table.
    """

    def __init__(
        self,
        prepare: Callable[[], Callable[[], object]],
        synchronize: Callable[[], object],
        describe: Callable[[Any], dict[str, Any]] = lambda _: {},
    ) -> None:
        self._prepare, self._synchronize, self._describe = prepare, synchronize, describe
        self._facts: dict[str, Any] = {}
        self.result: object = None
        """The last product."""

    def time(self, products: int) -> Times:
        """Plan and wait, multiply once and wait, multiply so often and wait."""
        synchronize, now = self._synchronize, time.perf_counter
        synchronize()
        start = now()
        multiply = self._prepare()
        synchronize()
        planned = now()
        self.result = multiply()
        synchronize()
        first = now()
        for _ in range(products):
            multiply()
        synchronize()
        end = now()
        self._facts = self._describe(multiply)
        return Times(1e6 * (planned - start), 1e6 * (first - planned), 1e6 * (end - first))

    def time_until(self, products: int) -> float:
        """Plan, multiply so often, and wait at the end only; microseconds."""
        self._synchronize()
        start = time.perf_counter()
        multiply = self._prepare()
        for _ in range(products):
            multiply()
        self._synchronize()
        return 1e6 * (time.perf_counter() - start)  # before the plan is freed

    def facts(self) -> dict[str, Any]:
        """Return columns of the table of end-to-end times that describe the last plan."""
        return self._facts


def measure(tool: Tool, limits: Limits, *, direct: bool = True) -> dict[str, Any]:
    """Measure a tool that has been used on another matrix before.

    Parameters
    ----------
    tool : Tool
    limits : Limits
    direct : bool
        Whether to measure `DIRECT` products from the start of planning too.

    Returns
    -------
    dict
        Columns of the table of end-to-end times.
    """
    with _no_collection():
        cold = tool.time(_COLD_PRODUCTS)
        products = _loop(cold, limits)
        start = time.perf_counter()
        samples: list[Times] = []
        while not samples or (len(samples) < limits.repeats and time.perf_counter() - start < limits.planning_s):
            samples.append(tool.time(products))
        planning = [sample.planning_us for sample in samples]
        found = {
            "planning_us": statistics.median(planning),
            "planning_min_us": min(planning),
            "planning_max_us": max(planning),
            "planning_cold_us": cold.planning_us,
            "repeats": len(samples),
            "first_us": statistics.median(sample.planning_us + sample.first_us for sample in samples),
            "call_us": statistics.median(sample.products_us / products for sample in samples),
            **tool.facts(),
        }
        if direct:
            found |= _direct(tool, limits, found["planning_us"], found["call_us"])
    return found


def _loop(cold: Times, limits: Limits) -> int:
    """Products that take about `Limits.loop_s`."""
    expected = max(cold.products_us / _COLD_PRODUCTS, 1e-3)
    return int(min(max(1e6 * limits.loop_s / expected, 2), _MOST_PRODUCTS))


def _direct(tool: Tool, limits: Limits, planning_us: float, call_us: float) -> dict[str, float]:
    found = {}
    for n in DIRECT:
        expected_s = 1e-6 * (planning_us + n * call_us)
        if expected_s > limits.direct_s:
            break
        repeats = _DIRECT_REPEATS if _DIRECT_REPEATS * expected_s <= limits.direct_s else 1
        found[f"until_{n}_us"] = statistics.median(tool.time_until(n) for _ in range(repeats))
    return found


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python's garbage collector out of the measurement."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

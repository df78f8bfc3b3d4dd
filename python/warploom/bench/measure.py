"""Measures every candidate of a setting on one matrix."""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from warploom import _core
from warploom._device import Device
from warploom._limits import CACHES, WARMUP
from warploom._limits import SweepLimits as Limits
from warploom._matrix import as_csr
from warploom.bench import sampled
from warploom.bench._matrices import Prepared
from warploom.bench.environment import clock_mhz
from warploom.bench.settings import Setting, listed
from warploom.candidates import Candidate, matches
from warploom.errors import OutOfMemoryError, ParameterError, WarploomError

__all__ = ["CACHES", "Limits", "is_compared", "measure"]


def measure(
    prepared: Prepared,
    settings: Sequence[Setting],
    device: Device,
    limits: Limits,
    patterns: str | Sequence[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Measure a matrix in several settings.

    Yields
    ------
    dict
        Rows of the table of measurements, without ``environment``. In each setting candidates come in an order that is
        random but the same for the same matrix: the vendor's and default settings first, then the others.
    """
    start = time.monotonic()
    for number, setting in enumerate(settings, 1):
        kind = _SampledSession if setting.op == "sddmm" else _Session
        session = kind(prepared, setting, device, limits, start + limits.matrix_s * number / len(settings))
        try:
            yield from session.run(patterns)
        except OutOfMemoryError as error:  # the dense operands themselves
            yield session.row("", 0, status="out of memory", note=str(error))


class _Session:
    """One matrix in one setting."""

    def __init__(self, prepared: Prepared, setting: Setting, device: Device, limits: Limits, deadline: float) -> None:
        self.prepared, self.setting, self.device, self.limits, self.deadline = (
            prepared,
            setting,
            device,
            limits,
            deadline,
        )
        self.k = setting.columns(prepared.A.shape[0])
        self.best = dict.fromkeys(CACHES, float("inf"))

    def run(self, patterns: str | Sequence[str] | None) -> Iterator[dict[str, Any]]:
        if self.k == 0:
            return
        candidates = listed(self.setting, self.device.kind, patterns)
        view = as_csr(self.setting.values(self.prepared.A))
        self.problem = _core.Problem(view, self.setting.op, self.k, self.setting.layout, "warm", self.device.number)
        self.trial = _core.Trial(self.problem)
        order = random.Random(zlib.crc32(f"{self.prepared.facts['matrix']} {self.setting.name}".encode()))
        chosen = [c for c in candidates if self.is_wanted(c)]
        order.shuffle(chosen)
        chosen.sort(key=lambda c: not is_compared(c))  # what tables need comes first, in case time runs out
        again = [c for c in chosen if order.random() < self.limits.remeasured]
        order.shuffle(again)
        failed = set()
        for position, candidate in enumerate(chosen):
            for row in self.candidate(candidate, position, run=0):
                if row["status"] != "ok":
                    failed.add(candidate)
                yield row
        for position, candidate in enumerate(c for c in again if c not in failed):
            yield from self.candidate(candidate, len(chosen) + position, run=1)

    def is_wanted(self, candidate: Candidate) -> bool:
        if candidate.permutation != "none" and candidate.permutation not in self.prepared.permutations:
            return False
        return candidate.kernel.compared_fully or not self.problem.is_redundant(candidate)

    def candidate(self, candidate: Candidate, position: int, run: int) -> Iterator[dict[str, Any]]:
        if time.monotonic() > self.deadline:
            yield self.row(candidate.name, position, run=run, status="time limit")
            return
        if self.problem.reason_against(candidate):
            yield self.row(candidate.name, position, run=run, status="unsupported")
            return
        try:
            plan = self.prepare(candidate)
            status = "ok"
            if wrong := self.trial.check(plan):
                # The vendor's may add up in two bytes: timed, so that others are compared with it, but never chosen.
                if not candidate.kernel.vendor or self.trial.check(plan, rounds_sums=True):
                    yield self.row(candidate.name, position, run=run, status="wrong result", note=wrong)
                    return
                status = "rounded sums"
            warm = self.repeats(plan, candidate)
            for cache in CACHES:
                timing = self.trial.time(
                    plan,
                    cache=cache,
                    repeats=warm if cache == "warm" else max(3, warm // 2),
                    warmup=WARMUP[cache],
                    budget_ms=self.limits.budget_ms,
                )
                self.best[cache] = min(self.best[cache], timing.median)
                yield self.row(
                    candidate.name,
                    position,
                    run=run,
                    status=status,
                    cache=cache,
                    median_us=timing.median,
                    p10_us=timing.p10,
                    p90_us=timing.p90,
                    repeats=timing.repeats,
                    preparation_ms=sum(plan.preparation_ms.values()),
                    bytes=plan.nbytes,
                )
        except (OutOfMemoryError, MemoryError) as error:
            yield self.row(candidate.name, position, run=run, status="out of memory", note=_one_line(error))
        except WarploomError as error:
            refused = isinstance(error, ParameterError) and error.argument == "candidate"
            status = "unsupported" if refused else "error"
            yield self.row(candidate.name, position, run=run, status=status, note=_one_line(error))

    def prepare(self, candidate: Candidate) -> _core.Plan:
        perm, milliseconds = self.prepared.permutations.get(candidate.permutation, (None, 0.0))
        return _core.prepare(self.problem, candidate, None if perm is None else (perm, milliseconds))

    def repeats(self, plan: _core.Plan, candidate: Candidate) -> int:
        """All repeats for what may be the fastest, and for what tables compare."""
        if is_compared(candidate):
            return self.limits.repeats
        glance = self.trial.time(plan, cache="warm", repeats=3, warmup=1, budget_ms=self.limits.budget_ms / 4)
        is_far = glance.median > self.limits.far * self.best["warm"]
        return max(3, self.limits.repeats // 3) if is_far else self.limits.repeats

    def row(self, candidate: str, position: int, **values: Any) -> dict[str, Any]:
        setting = self.setting
        return {
            "matrix": self.prepared.facts["matrix"],
            "setting": setting.name,
            "op": setting.op,
            "dtype": setting.dtype,
            "layout": setting.layout if setting.op == "spmm" else "",
            "k": self.k,
            "cache": "",
            "candidate": candidate,
            "median_us": float("nan"),
            "p10_us": float("nan"),
            "p90_us": float("nan"),
            "repeats": 0,
            "run": 0,
            "position": position,
            "status": "ok",
            "note": "",
            "preparation_ms": float("nan"),
            "bytes": 0,
            "clock_mhz": clock_mhz(self.device),
        } | values


class _SampledSession(_Session):
    """One matrix in one setting of a sampled product, of which there is a candidate or two."""

    def run(self, patterns: str | Sequence[str] | None) -> Iterator[dict[str, Any]]:
        operands = sampled.Operands(self.prepared.A, self.setting.dtype, self.k, self.device)
        globs = [patterns] if isinstance(patterns, str) else patterns
        for position, name in enumerate(sampled.candidates(self.setting.dtype, self.device.kind)):
            if globs is not None and not matches(name, [p for p in globs if not p.startswith(("@", "spm"))] or None):
                continue
            if time.monotonic() > self.deadline:
                yield self.row(name, position, status="time limit")
                continue
            try:
                if wrong := operands.check(name):
                    yield self.row(name, position, status="wrong result", note=wrong)
                    continue
                for cache in CACHES:
                    warm = cache == "warm"
                    timing = operands.time(
                        name,
                        cold=not warm,
                        repeats=self.limits.repeats if warm else max(3, self.limits.repeats // 2),
                        warmup=WARMUP[cache],
                        budget_ms=self.limits.budget_ms,
                    )
                    yield self.row(
                        name,
                        position,
                        cache=cache,
                        median_us=timing.median,
                        p10_us=timing.p10,
                        p90_us=timing.p90,
                        repeats=timing.repeats,
                    )
            except (OutOfMemoryError, MemoryError) as error:
                yield self.row(name, position, status="out of memory", note=_one_line(error))
            except WarploomError as error:
                status = "unsupported" if isinstance(error, ParameterError) else "error"
                yield self.row(name, position, status=status, note=_one_line(error))


def is_compared(candidate: Candidate) -> bool:
    """Whether tables compare a candidate whatever its speed: default settings, as in the papers, and the vendor's."""
    return candidate.has_defaults or candidate.kernel.vendor or candidate.kernel.compared_fully


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__

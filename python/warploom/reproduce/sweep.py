"""Measurements that items need."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

__all__ = ["Sweep"]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Measurements that an item needs: a setting, a state of the L2 cache, and candidates."""

    setting: str
    cache: str
    techniques: Mapping[str, str]
    """From the name of a column of times to a candidate; with ``*`` at its end, to the fastest one with that prefix."""
    transposes: bool = False
    """Whether transposes of the matrices count too, where they were measured."""
    optional: tuple[str, ...] = ()
    """Techniques that a sweep leaves out where they make no sense, so that some sweeps may have none of their times."""

    def candidates(self, technique: str, measured: Iterable[str]) -> list[str]:
        """Return the measured candidates of a technique."""
        name = self.techniques[technique]
        if name.endswith("*"):
            return [candidate for candidate in measured if candidate.startswith(name[:-1])]
        return [candidate for candidate in measured if candidate == name]

    def command(self, techniques: Iterable[str] | None = None) -> str:
        """Return the command that makes the measurements."""
        chosen = self.techniques.values() if techniques is None else [self.techniques[name] for name in techniques]
        part = self.setting.split("/")[0]
        patterns = " ".join(f"--candidates '{name}'" for name in dict.fromkeys(chosen))
        return f"warploom bench run --output sweep --corpus {part} --setting {self.setting} {patterns}"

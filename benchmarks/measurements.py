"""What benchmarks/spmm.py and benchmarks/spmv.py wrote, for pictures and tables. Needs no GPU and no warploom."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import pathlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from generated import generated, huge

__all__ = ["Case", "geometric_mean", "read", "read_lines"]


@dataclasses.dataclass
class Case:
    """One matrix with everything measured on it in one setting."""

    matrix: str
    nnz: int
    is_generated: bool
    floor: float
    """Microseconds that moving all operands once takes at the bandwidth of a copy."""
    ours: dict[str, float] = dataclasses.field(default_factory=dict)
    """Candidate -> median in microseconds."""
    vendor: dict[str, float] = dataclasses.field(default_factory=dict)
    """The same for cuSPARSE."""

    @property
    def winner(self) -> str:
        """The fastest candidate of warploom's own."""
        return min(self.ours, key=self.ours.__getitem__)

    @property
    def speedup(self) -> float:
        """Of warploom's fastest candidate over the fastest of the vendor's algorithms and formats."""
        return min(self.vendor.values()) / min(self.ours.values())


def read_lines(paths: Iterable[str | pathlib.Path]) -> Iterator[dict[str, str]]:
    """Lines of result files, plain or gzipped."""
    for path in map(pathlib.Path, paths):
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            yield from csv.DictReader(file)


def read(paths: Iterable[str | pathlib.Path], *setting: str) -> dict[tuple[str, ...], list[Case]]:
    """Group the lines of result files by the columns of a setting, such as ``"dtype", "cache"``, and by matrix.

    Matrices that lack the vendor's times or ours are left out.
    """
    names = {*generated(), *huge()}
    groups: dict[tuple[str, ...], dict[str, Case]] = defaultdict(dict)
    for line in read_lines(paths):
        if not line["median_us"]:
            continue
        name = line["matrix"]
        cases = groups[tuple(line[column] for column in setting)]
        if name not in cases:
            cases[name] = Case(name, int(line["nnz"]), name in names, float(line["floor_us"]))
        times = cases[name].vendor if "/cusparse" in line["candidate"] else cases[name].ours
        times[line["candidate"]] = float(line["median_us"])
    return {key: [c for c in cases.values() if c.ours and c.vendor] for key, cases in groups.items()}


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")

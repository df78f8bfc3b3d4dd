"""Print the tables of the README's section on measured SpMV, in Markdown, and the figures of its text.

``python benchmarks/spmv_tables.py spmv.csv.gz`` (or several files). Where a cell has two numbers, they are for a warm
and a cold L2 cache. Needs no GPU and no warploom.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from measurements import Case, geometric_mean, read, read_lines

DTYPES = ("float64", "float32", "float16")
CACHES = ("warm", "cold")
DEFAULT = "spmv/none/csr/cusparse"
RANGES = {
    "below 10^4": (0, 10**4),
    "10^4 to 10^5": (10**4, 10**5),
    "10^5 to 10^6": (10**5, 10**6),
    "10^6 to 10^7": (10**6, 10**7),
    "10^7 and more": (10**7, np.inf),
}
REGULAR = ("poisson", "box", "elasticity", "blocks", "banded")

Groups = dict[tuple[str, ...], list[Case]]


def row(*cells: object) -> None:
    print("|", " | ".join(map(str, cells)), "|")


def head(*cells: str) -> None:
    print()
    row(*cells)
    row(*["---"] * len(cells))


def both(groups: Groups, dtype: str, take: Callable[[Case], bool], cell: Callable[[list[Case]], str]) -> str:
    """``warm / cold`` of the cases that are taken; a dash where there are none."""
    chosen = [[c for c in groups.get((dtype, cache), []) if take(c)] for cache in CACHES]
    return " / ".join(cell(cases) for cases in chosen) if all(chosen) else "-"


def over_default(cases: list[Case]) -> float:
    return geometric_mean([c.vendor[DEFAULT] / min(c.ours.values()) for c in cases if DEFAULT in c.vendor])


def over_best(cases: list[Case]) -> list[float]:
    return [c.speedup for c in cases]


def speedups(groups: Groups) -> None:
    head("", "matrices", "over its CSR default", "over the best", "5th percentile", "least", "below 0.98")
    for is_generated in (False, True):
        for dtype in DTYPES:

            def cells(form: Callable[[list[Case]], str], dtype: str = dtype, wanted: bool = is_generated) -> str:
                return both(groups, dtype, lambda c: c.is_generated == wanted, form)

            row(
                f"{'generated' if is_generated else 'collected'}, {dtype}",
                cells(lambda cases: str(len(cases))),
                cells(lambda cases: f"{over_default(cases):.2f}"),
                cells(lambda cases: f"{geometric_mean(over_best(cases)):.2f}"),
                cells(lambda cases: f"{np.percentile(over_best(cases), 5):.2f}"),
                cells(lambda cases: f"{min(over_best(cases)):.2f}"),
                cells(lambda cases: f"{np.mean([s < 0.98 for s in over_best(cases)]):.1%}".replace("%", " %")),
            )


def share(cases: Iterable[Case]) -> str:
    values = [c.floor / min(c.ours.values()) for c in cases]
    return f"{geometric_mean(values):.0%}".replace("%", " %")


def median_time(cases: Iterable[Case]) -> str:
    return f"{np.median([min(c.ours.values()) for c in cases]):.1f} us"


def shares(groups: Groups) -> None:
    """The smallest matrices are given by their median time: an empty kernel is most of it."""
    head("nonzeros", *DTYPES)
    for label, (low, high) in RANGES.items():

        def within(case: Case, low: float = low, high: float = high) -> bool:
            return low <= case.nnz < high

        form = median_time if low == 0 else share
        row(label, *(both(groups, dtype, within, form) for dtype in DTYPES))
    for label, wanted in (("regular", True), ("irregular", False)):

        def take(case: Case, wanted: bool = wanted) -> bool:
            return case.is_generated and case.nnz >= 10**6 and case.matrix.startswith(REGULAR) == wanted

        row(f"generated, {label}, 10^6 and more", *(both(groups, dtype, take, share) for dtype in DTYPES))


def kernel(candidate: str) -> str:
    _, _, *kernel = candidate.split("[")[0].split("/")
    return "/".join(kernel)


def alone(cases: list[Case]) -> dict[str, float]:
    """How fast each kernel is in its best measured setting against the best of cuSPARSE, where it ran on all cases."""
    speedups: dict[str, list[float]] = {}
    for case in cases:
        best: dict[str, float] = {}
        for candidate, time in case.ours.items():
            best[kernel(candidate)] = min(time, best.get(kernel(candidate), np.inf))
        for name, time in best.items():
            speedups.setdefault(name, []).append(min(case.vendor.values()) / time)
    return {name: geometric_mean(values) for name, values in speedups.items() if len(values) == len(cases)}


def kernels(groups: Groups) -> None:
    """On how many matrices each kernel is the fastest, and its speed alone over the best of cuSPARSE."""
    wins = {key: Counter(kernel(c.winner) for c in cases) for key, cases in groups.items()}
    speeds = {key: alone(cases) for key, cases in groups.items()}
    names = {kernel(name) for cases in groups.values() for c in cases for name in c.ours}
    head("kernel", *(f"{dtype}: {what}" for dtype in DTYPES for what in ("fastest on", "alone")))
    for name in sorted(names, key=lambda name: (-sum(won[name] for won in wins.values()), name)):
        cells = []
        for dtype in DTYPES:
            settings = [(dtype, cache) for cache in CACHES]
            measured = all(setting in groups for setting in settings)
            cells.append(" / ".join(str(wins[setting][name]) for setting in settings) if measured else "-")
            ran = measured and all(name in speeds[setting] for setting in settings)
            cells.append(" / ".join(f"{speeds[setting][name]:.2f}" for setting in settings) if ran else "-")
        row(f"`{name}`", *cells)


def remarks(groups: Groups) -> None:
    """Print what the text below the tables says."""
    print()
    small = RANGES["below 10^4"][1]
    forms: dict[str, Callable[[Case], float | None]] = {
        "warploom": lambda c: min(c.ours.values()),
        "best of cuSPARSE": lambda c: min(c.vendor.values()),
        "its CSR default": lambda c: c.vendor.get(DEFAULT),
    }
    for dtype in DTYPES:
        for label, time in forms.items():

            def median(cases: list[Case], time: Callable[[Case], float | None] = time) -> str:
                return f"{np.median([t for t in map(time, cases) if t is not None]):.1f} us"

            print(f"{dtype}, below 10^4, median of {label}: {both(groups, dtype, lambda c: c.nnz < small, median)}")
        best = both(
            groups,
            dtype,
            lambda c: c.is_generated and c.matrix.startswith(REGULAR),
            lambda cases: f"{max(c.floor / min(c.ours.values()) for c in cases):.0%}".replace("%", " %"),
        )
        print(f"{dtype}, generated and regular, highest share of the floor: {best}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", nargs="+")
    paths = parser.parse_args().measurements
    groups = read(paths, "dtype", "cache")
    collected = {c.matrix: c.nnz for cases in groups.values() for c in cases if not c.is_generated}
    generated = {c.matrix: c.nnz for cases in groups.values() for c in cases if c.is_generated}
    for label, sizes in (("collected", collected), ("generated", generated)):
        low, middle, high = (np.quantile(list(sizes.values()), q) for q in (0, 0.5, 1))
        print(f"{len(sizes)} {label}: {low:,.0f} to {high:,.0f} nonzeros, median {middle:,.0f}")
    for table in (speedups, shares, kernels, remarks):
        table(groups)
    failures = Counter(f"{r['candidate']}: {r['note']}" for r in read_lines(paths) if r["note"])
    for note, count in failures.most_common(10):
        print(count, note)


if __name__ == "__main__":
    main()

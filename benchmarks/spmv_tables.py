"""Print the tables of the README's section on measured SpMV, in Markdown.

``python benchmarks/spmv_tables.py spmv.csv.gz``. Where a cell has two numbers, they are for a warm and a cold L2 cache.
Needs no GPU and no warploom.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from measurements import Case, geometric_mean, read

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


def over_best(cases: list[Case]) -> np.ndarray:
    return np.array([c.speedup for c in cases])


def speedups(groups: Groups) -> None:
    head("", "matrices", "over its CSR default", "over the best", "5th percentile", "least", "below 0.98")
    for is_generated in (False, True):
        for dtype in DTYPES:

            def cells(form: Callable[[list[Case]], str], dtype=dtype, is_generated=is_generated) -> str:
                return both(groups, dtype, lambda c: c.is_generated == is_generated, form)

            row(
                f"{'generated' if is_generated else 'collected'}, {dtype}",
                cells(lambda cases: str(len(cases))),
                cells(lambda cases: f"{over_default(cases):.2f}"),
                cells(lambda cases: f"{geometric_mean(over_best(cases)):.2f}"),
                cells(lambda cases: f"{np.percentile(over_best(cases), 5):.2f}"),
                cells(lambda cases: f"{over_best(cases).min():.2f}"),
                cells(lambda cases: f"{np.mean(over_best(cases) < 0.98):.1%}".replace("%", " %")),
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
        form = median_time if low == 0 else share
        row(label, *(both(groups, dtype, lambda c, a=low, b=high: a <= c.nnz < b, form) for dtype in DTYPES))
    for label, wanted in (("regular", True), ("irregular", False)):

        def take(case: Case, wanted: bool = wanted) -> bool:
            return case.is_generated and case.nnz >= 10**6 and case.matrix.startswith(REGULAR) == wanted

        row(f"generated, {label}, 10^6 and more", *(both(groups, dtype, take, share) for dtype in DTYPES))


def kernel(case: Case) -> str:
    _, _, *kernel = case.winner.split("[")[0].split("/")
    return "/".join(kernel)


def wins(groups: Groups) -> None:
    counts = {key: Counter(map(kernel, cases)) for key, cases in groups.items()}
    total: Counter[str] = sum(counts.values(), Counter())
    head("fastest kernel", *DTYPES)
    for name, _ in total.most_common():
        cells = (tuple(counts.get((dtype, cache), Counter())[name] for cache in CACHES) for dtype in DTYPES)
        row(f"`{name}`", *(f"{warm} / {cold}" for warm, cold in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", type=pathlib.Path)
    groups = read(parser.parse_args().measurements, "dtype", "cache")
    collected = {c.matrix: c.nnz for cases in groups.values() for c in cases if not c.is_generated}
    generated = {c.matrix: c.nnz for cases in groups.values() for c in cases if c.is_generated}
    for label, sizes in (("collected", collected), ("generated", generated)):
        low, middle, high = (np.quantile(list(sizes.values()), q) for q in (0, 0.5, 1))
        print(f"{len(sizes)} {label}: {low:,.0f} to {high:,.0f} nonzeros, median {middle:,.0f}")
    for table in (speedups, shares, wins):
        table(groups)


if __name__ == "__main__":
    main()

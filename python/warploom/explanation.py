"""Why a plan's candidate was chosen, as a table."""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from warploom._core import Row

if TYPE_CHECKING:
    import numpy as np

    from warploom import _core

__all__ = ["Explanation", "Product", "Row"]

_ROW = (
    "candidate",
    "preparation_ms",
    "median_us",
    "p10_us",
    "p90_us",
    "speedup",
    "floor_share",
    "bytes",
    "note",
    "predicted_us",
    "break_even",
    "break_even_vendor",
)
"""What `Explanation.to_dict` says of each row."""


@dataclasses.dataclass(frozen=True)
class Product:
    """What a plan multiplies, for the title of a table."""

    op: str
    shape: tuple[int, int]
    nnz: int
    dtype: np.dtype[Any]
    k: int
    layout: str
    cache: str
    device: str
    """Name of the device."""

    def title(self, where: str) -> str:
        """Describe the product and where it runs, or what it was predicted for, in a line."""
        m, n = self.shape
        operands = f"k = {self.k:,}, {self.layout}-major, " if self.op == "spmm" else ""
        return f"{self.op}: A {m:,} x {n:,}, {self.nnz:,} nonzeros, {self.dtype}, {operands}{where}"


@dataclasses.dataclass
class Explanation:
    """A table of candidates, fastest first.

    ``print`` it for the fastest ones and the best of each technique and kernel; `full` for all of them; `rows` and
    `to_dict` for the figures.
    """

    title: str
    rows: list[Row]
    chosen: str
    baseline: str
    footnotes: list[str]

    @classmethod
    def of(cls, found: _core.Explanation, product: Product) -> Explanation:
        """Put into words what the planner says of a choice."""
        if found.based_on == "predicted":
            title, footnotes = product.title(f"predicted for {found.gpu}"), _of_prediction(found, product)
        else:
            title = product.title(f"on {product.device}")
            footnotes = _of_measurements(found, product) if found.based_on == "measured" else []
        return cls(title, found.rows, found.chosen, found.baseline, footnotes)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in the table as plain values, ready for JSON (NaN becomes None)."""
        rows = [{name: _plain(getattr(row, name)) for name in _ROW} for row in self.rows]
        return {
            "title": self.title,
            "chosen": self.chosen,
            "baseline": self.baseline,
            "footnotes": self.footnotes,
            "rows": rows,
        }

    def __str__(self) -> str:
        return self._render(self._notable())

    def full(self) -> str:
        """Return the table with every candidate."""
        return self._render(self.rows)

    def _notable(self, fastest: int = 10) -> list[Row]:
        """Return the fastest rows, plain CSR, and the best of every technique and kernel."""
        seen: set[str] = set()
        notable = []
        for position, row in enumerate(self.rows):
            kind = row.candidate.partition("[")[0]
            if position < fastest or kind not in seen or row.candidate in (self.baseline, self.chosen):
                notable.append(row)
            seen.add(kind)
        return notable

    def _has(self, heading: str) -> bool:
        return any(_COLUMNS[heading][0](row) for row in self.rows)

    def _render(self, rows: list[Row]) -> str:
        import rich.box
        import rich.console
        import rich.table

        table = rich.table.Table(box=rich.box.SIMPLE_HEAD, title=self.title, title_justify="left", pad_edge=False)
        table.add_column("candidate", no_wrap=True)
        headings = [heading for heading, (_, is_optional) in _COLUMNS.items() if not is_optional or self._has(heading)]
        for heading in headings:
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("note", max_width=60)
        for row in rows:
            table.add_row(row.candidate, *(_COLUMNS[heading][0](row) for heading in headings), row.note)
        left_out = len(self.rows) - len(rows)
        notes = self.footnotes + ([f"{left_out} slower settings not shown"] if left_out else [])
        text = io.StringIO()
        # Wide, so that no name is cut: the table is only as wide as necessary. Without markup: names have brackets.
        console = rich.console.Console(
            file=text,
            width=1000,
            color_system=None,
            force_jupyter=False,  # or a notebook shows the table and the text is empty
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
        )
        console.print(table)
        for note in notes:
            console.print(note)
        return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())


def _number(value: float, pattern: str) -> str:
    return "" if math.isnan(value) else pattern.format(value)


def _products(count: float) -> str:
    return "never" if count == math.inf else _number(count, "{:,.0f}")


_COLUMNS: dict[str, tuple[Callable[[Row], str], bool]] = {
    "preparation ms": (lambda row: _number(row.preparation_ms, "{:,.2f}"), False),
    "predicted us": (lambda row: _number(row.predicted_us, "{:,.2f}"), True),
    "median us": (lambda row: _number(row.median_us, "{:,.2f}"), True),
    "p10-p90 us": (
        lambda row: "" if math.isnan(row.median_us) else f"{row.p10_us:,.2f}-{row.p90_us:,.2f}",
        True,
    ),
    "speedup": (lambda row: _number(row.speedup, "{:.2f}x"), False),
    "of floor": (lambda row: _number(100 * row.floor_share, "{:.0f} %"), True),
    "break-even": (lambda row: _products(row.break_even), True),
    "over vendor": (lambda row: _products(row.break_even_vendor), True),
}
"""Heading -> how a row fills the column, and whether a column without entries is left out."""


def _of_measurements(found: _core.Explanation, product: Product) -> list[str]:
    rows = found.rows
    measured = [row for row in rows if not math.isnan(row.median_us)]
    floor_us = 1e6 * found.floor_bytes / found.copy_bandwidth
    footnotes = [
        f"{len(measured)} of {len(rows)} candidates measured, {product.cache} cache"
        + (f"; speedup over {found.baseline}" if any(row.candidate == found.baseline for row in measured) else ""),
        f"bandwidth floor {floor_us:,.2f} us: {found.floor_bytes:,} bytes at the measured copy bandwidth of "
        f"{found.copy_bandwidth / 1e9:,.0f} GB/s",
    ]
    if any(row.floor_share > 1 for row in rows):
        footnotes.append(
            "over 100 % of the floor: the operands were still in the cache, which is faster than memory, or the "
            "format takes fewer bytes than the CSR that the floor counts"
        )
    return footnotes


def _of_prediction(found: _core.Explanation, product: Product) -> list[str]:
    weighed = math.isfinite(found.calls)
    return [
        f"{product.cache} cache; "
        + (f"chosen for {found.calls:g} calls with one preparation" if weighed else "preparation not counted"),
        f"expected to be {found.expected_loss:.1%} above the fastest"
        + (": unsure, more than for most matrices" if found.unsure and not found.outside else ""),
        *([f"unsure, since outside what was measured: {found.outside}"] if found.outside else []),
        *(note for note in (found.profile_note, found.stands_in) if note),
        f"break-even: products after which preparing a candidate instead of {found.baseline} has paid off"
        + (f"; over vendor: instead of {found.vendor}" if found.vendor else ""),
        *_spent(found),
        *(["decided most by " + ", ".join(found.deciding_inputs)] if found.deciding_inputs else []),
    ]


def _spent(found: _core.Explanation) -> list[str]:
    """Say what planning took."""
    steps = [f"{name} {milliseconds:,.2f}" for name, milliseconds in found.spent.items() if milliseconds >= 0.005]
    total = sum(found.spent.values())
    return [f"planning took {total:,.2f} ms: {', '.join(steps)}"] if steps else []


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value

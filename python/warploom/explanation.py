"""Why a plan is what it is, as a table."""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from warploom import _core

if TYPE_CHECKING:
    from warploom.plan import Plan
    from warploom.selection import Problem

__all__ = ["Explanation", "Row"]


@dataclasses.dataclass
class Row:
    """What is known of one candidate. Times that were not measured are NaN."""

    candidate: str
    preparation_ms: float = math.nan
    """Permutation, conversion and upload, in milliseconds."""
    median_us: float = math.nan
    p10_us: float = math.nan
    p90_us: float = math.nan
    speedup: float = math.nan
    """Over plain CSR in the caller's row order."""
    floor_share: float = math.nan
    """Bandwidth floor over median time."""
    bytes: int = 0
    """Memory of the plan on its device."""
    note: str = ""
    """Why it was not measured, or what was chosen."""
    predicted_us: float = math.nan
    """What a model says, where one was asked."""
    break_even: float = math.nan
    """Products after which preparing this one instead of plain CSR has paid off; infinite if it never does."""


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
    def of_measurements(cls, problem: Problem, rows: list[Row], chosen: str, baseline: str) -> Explanation:
        """Build the table of a measured selection."""
        from warploom.selection import copy_bandwidth

        matrix, dtype = problem.matrix, problem.matrix.data.dtype
        floor_bytes = _core.product_floor_bytes(matrix, problem.k)
        bandwidth = copy_bandwidth(problem.device)
        floor_us = 1e6 * floor_bytes / bandwidth
        plain = next((r.median_us for r in rows if r.candidate == baseline), math.nan)
        for row in rows:
            row.speedup = _ratio(plain, row.median_us)
            row.floor_share = _ratio(floor_us, row.median_us)
            if row.candidate == chosen:
                row.note = "chosen"
        rows = sorted(rows, key=lambda r: math.inf if math.isnan(r.median_us) else r.median_us)
        m, n = matrix.shape
        title = (
            f"{problem.op}: A {m:,} x {n:,}, {matrix.nnz:,} nonzeros, {dtype}, "
            f"{_operands(problem)}on {problem.device.name}"
        )
        measured = sum(not math.isnan(r.median_us) for r in rows)
        footnotes = [
            f"{measured} of {len(rows)} candidates measured, {problem.cache} cache"
            + ("" if math.isnan(plain) else f"; speedup over {baseline}"),
            f"bandwidth floor {floor_us:,.2f} us: {floor_bytes:,} bytes at the measured copy bandwidth of "
            f"{bandwidth / 1e9:,.0f} GB/s",
        ]
        if any(row.floor_share > 1 for row in rows):
            footnotes.append(
                "over 100 % of the floor: the operands were still in the cache, which is faster than memory, or the "
                "format takes fewer bytes than the CSR that the floor counts"
            )
        return cls(title, rows, chosen, baseline, footnotes)

    @classmethod
    def of_predictions(
        cls, problem: Problem, rows: list[Row], chosen: str, baseline: str, gpu: str, footnotes: list[str]
    ) -> Explanation:
        """Build the table of a predicted selection, fastest first; a few rows may be measured too."""
        plain = next((r.predicted_us for r in rows if r.candidate == baseline), math.nan)
        for row in rows:
            row.speedup = _ratio(plain, row.predicted_us)
            if row.candidate == chosen:
                row.note = "chosen"
        rows = sorted(rows, key=lambda r: math.inf if math.isnan(r.predicted_us) else r.predicted_us)
        m, n = problem.matrix.shape
        title = (
            f"{problem.op}: A {m:,} x {n:,}, {problem.matrix.nnz:,} nonzeros, {problem.dtype}, "
            f"{_operands(problem)}predicted for {gpu}"
        )
        return cls(title, rows, chosen, baseline, footnotes)

    @classmethod
    def of_fixed_choice(cls, plan: Plan) -> Explanation:
        """Build the table of a plan whose candidate the caller named: nothing was compared."""
        row = Row(
            plan.candidate,
            preparation_ms=sum(plan.preparation_ms.values()),
            bytes=plan.nbytes,
            note="named by the caller",
        )
        title = (
            f"{plan.op}: A {plan.shape[0]:,} x {plan.shape[1]:,}, {plan.nnz:,} nonzeros, "
            f"{plan.dtype}, {_operands(plan)}on {plan.device.name}"
        )
        return cls(title, [row], plan.candidate, plan.candidate, [])

    def to_dict(self) -> dict[str, Any]:
        """Return everything in the table as plain values, ready for JSON (NaN becomes None)."""
        rows = [
            {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in vars(row).items()}
            for row in self.rows
        ]
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
        # Wide, so that no name is cut: the table takes what it needs. Without markup: names have brackets.
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
    "break-even": (
        lambda row: "never" if row.break_even == math.inf else _number(row.break_even, "{:,.0f}"),
        True,
    ),
}
"""Heading -> how a row fills the column, and whether a column without entries is left out."""


def _operands(of: Problem | Plan) -> str:
    return f"k = {of.k:,}, {of.layout}-major, " if of.op == "spmm" else ""


def _ratio(time: float, other: float) -> float:
    """`time` over `other`; NaN if one was not measured, or took less time than the clock can tell."""
    return time / other if other else math.nan

"""Why a plan's candidate was chosen, as a table."""

from __future__ import annotations

import csv
import dataclasses
import functools
import math
import re
import shutil
import textwrap
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from warploom import _bfloat16
from warploom._core import Row
from warploom.candidates import OPERATIONS, kernels

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


Facts = tuple[str, tuple[int, int], int, "np.dtype[Any]", int, str, str, str]
"""Operation, shape, nonzeros, value type, k, layout, state of the cache and precision: `_core.Problem.facts`."""


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
    precision: str = "full"
    """The least of the candidates that were considered."""

    @classmethod
    def of(cls, problem: _core.Problem, device: str) -> Product:
        """Describe a problem of the planner, without keeping it and its matrix."""
        return cls.by_facts(problem.facts, device)

    @classmethod
    def by_facts(cls, facts: Facts, device: str) -> Product:
        """Describe it by what a problem says of itself."""
        op, shape, nnz, dtype, k, layout, cache, precision = facts
        return cls(op, shape, nnz, dtype, k, layout, cache, device, precision)

    def title(self, where: str) -> str:
        """Describe the product and where it runs, or what it was predicted for, in a line."""
        m, n = self.shape
        operands = f"k = {self.k:,}, {self.layout}-major, " if self.op == "spmm" else ""
        dtype = _bfloat16.name_of(self.dtype) + (" or TF32" if self.precision == "tf32" else "")
        return f"{self.op}: A {m:,} x {n:,}, {self.nnz:,} nonzeros, {dtype}, {operands}{where}"


@dataclasses.dataclass(repr=False)
class Explanation:
    """A table of candidates, fastest first.

    ``print`` it, or leave it at the end of a cell, for the fastest ten and what they are compared with; `table` for
    more or less of it, `full` for all; `rows`, `to_dict` and `to_csv` for the figures.

    Examples
    --------
    >>> import warploom as wl
    >>> explanation = wl.predict(wl.examples.load("gr_30_30"), op="spmv", gpu="H200")
    >>> explanation.chosen == explanation.rows[0].candidate
    True
    >>> explanation.verdict().startswith(f"use {explanation.chosen}")
    True
    """

    title: str
    rows: list[Row]
    chosen: str
    baseline: str
    footnotes: list[str]
    vendor: str = ""
    """The fastest product of the vendor's library, or on the CPU of other libraries; empty where there is none."""

    @classmethod
    def of(cls, found: _core.Explanation, product: Product) -> Explanation:
        """Put into words what the planner says of a choice."""
        if found.based_on == "predicted":
            title = product.title(f"predicted for {found.gpu}")
            footnotes = _of_prediction(found, product) + _of_rounding(found.chosen)
            return cls(title, found.rows, found.chosen, found.baseline, footnotes, found.vendor)
        title = product.title(f"on {product.device}")
        if found.based_on == "named":
            return cls(title, found.rows, found.chosen, found.baseline, _of_rounding(found.chosen))
        vendor = next((row.candidate for row in found.rows if row.median_us > 0 and _is_others(row.candidate)), "")
        footnotes = _of_measurements(found, product) + _of_rounding(found.chosen)
        return cls(title, found.rows, found.chosen, found.baseline, footnotes, vendor)

    @property
    def precision(self) -> str:
        """``"tf32"`` if the chosen candidate rounds float32 to TF32, else ``"full"``."""
        return _precision_of(self.chosen)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in the table as plain values, ready for JSON (NaN becomes None)."""
        return {
            "title": self.title,
            "chosen": self.chosen,
            "baseline": self.baseline,
            "precision": self.precision,
            "verdict": self.verdict(),
            "footnotes": self.footnotes,
            "rows": self._plain_rows(),
        }

    def to_csv(self, file: IO[str]) -> None:
        """Write all rows as comma-separated values, with a line of headings."""
        writer = csv.DictWriter(file, _ROW, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._plain_rows())

    def _plain_rows(self) -> list[dict[str, Any]]:
        return [{name: _plain(getattr(row, name)) for name in _ROW} for row in self.rows]

    def verdict(self) -> str:
        """Say in a sentence what to use, how it compares, and when it has paid off; empty if nothing was compared.

        On the CPU that may be another library's own product.
        """
        rows = {row.candidate: row for row in self.rows}
        chosen, others = rows.get(self.chosen), []
        if chosen is None or math.isnan(_time(chosen)):
            return ""
        for name in dict.fromkeys((self.vendor, self.baseline)):
            if name and name != self.chosen and name in rows and _time(rows[name]) > 0:
                others.append(rows[name])
        if not others:
            return f"use {self.chosen}"
        ahead = _time(chosen) / _time(others[0])
        if "/" not in others[0].candidate and ahead >= _CLEARLY_FASTER:  # which no plan can choose
            return f"keep {self._in_words(others[0].candidate)}: {ahead:.2f} times the speed of {self.chosen}"
        compared = [
            f"{_time(other) / _time(chosen):.2f} times {of} {self._in_words(other.candidate)}"
            for other, of in zip(others, ("the speed of", "that of"), strict=False)
        ]
        return f"use {self.chosen}: {' and '.join(compared)}; {_pays_off(chosen, others[0])}"

    def _in_words(self, name: str) -> str:
        if not _is_others(name):
            return name
        if "/" not in name:
            return _LIBRARIES.get(name, name)
        return "the vendor's best" if name == self.vendor else "its default"

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__

    def full(self) -> str:
        """Return the table with every candidate and every column."""
        return self.table(None, wide=True)

    def table(self, top: int | None = 10, *, wide: bool = False) -> str:
        """Return the table as text.

        Parameters
        ----------
        top : int, optional
            How many of the fastest candidates it shows, beside the chosen one and what they are compared with; None
            is all of them.
        wide : bool
            All columns, with every name on a line of its own. By default no line is longer than 100 characters, or
            than a narrower terminal that it is written to.
        """
        width = _line_width()
        compared = (self.baseline, self.chosen, self.vendor)
        tried = [row for row in self.rows if not row.note.startswith(_LEFT_OUT)]
        fastest = {row.candidate for row in (tried if top is None else tried[:top])}
        shown = [row for row in self.rows if top is None or row.candidate in fastest or row.candidate in compared]
        heading = [self.title] if wide else textwrap.wrap(self.title, width, break_on_hyphens=False)
        lines = [*heading, "", *self._render(shown, None if wide else width), ""]
        left_out = len(self.rows) - len(shown)
        notes = self.footnotes + ([f"{left_out} more candidates not shown"] if left_out else [])
        for note in [*notes, self.verdict()]:
            lines += [note] if wide else textwrap.wrap(note, width, break_long_words=False, break_on_hyphens=False)
        return "\n".join(line.rstrip() for line in lines).strip()

    def _columns(self, width: int | None) -> dict[str, Callable[[Row], str]]:
        if width is None:
            columns = _ALL_COLUMNS
        else:
            rows = {row.candidate: row for row in self.rows}
            best = rows.get(self.vendor) if self.vendor != self.baseline else None
            base = rows.get(self.vendor) or rows.get(self.baseline)
            predicted = all(math.isnan(row.median_us) for row in self.rows)
            columns = {
                "predicted us" if predicted else "median us": lambda row: _number(_time(row), "{:,.2f}"),
                "speedup": lambda row: _number(row.speedup, "{:.2f}x"),
                "over best": lambda row: "" if best is None else _number(_time(best) / _time(row), "{:.2f}x"),
                "prepared ms": lambda row: _number(row.preparation_ms, "{:,.2f}"),
                "pays off": lambda row: "" if base is None or row is base else _products(_break_even(row, base)),
            }
            if width < _ROOM_FOR_ALL:
                del columns["prepared ms"]  # which "pays off" counts
        return {heading: fill for heading, fill in columns.items() if any(fill(row) for row in self.rows)}

    def _render(self, rows: list[Row], width: int | None) -> list[str]:
        """Return the lines of the table; without a width, each row is one line with all columns."""
        wide = width is None
        columns = self._columns(width)
        cells = [["candidate", *columns, "note"]]
        cells += [[row.candidate, *(fill(row) for fill in columns.values()), row.note] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        if width is not None:
            # Names first: what is left of the line is for notes.
            for_text = width - sum(widths[1:-1]) - 2 * len(widths) + 2
            least_for_notes = min(widths[-1], 24)
            widths[0] = min(widths[0], for_text - least_for_notes)
            widths[-1] = min(widths[-1], for_text - widths[0])
        lines = []
        for number, (name, *figures, remark) in enumerate(cells):
            names = [name] if wide else _broken(name, widths[0])
            notes = [remark] if wide else textwrap.wrap(remark, widths[-1]) or [""]
            middle = [figure.rjust(width) for figure, width in zip(figures, widths[1:-1], strict=True)]
            blank = [" " * width for width in widths[1:-1]]
            for line in range(max(len(names), len(notes))):
                first = names[line] if line < len(names) else ""
                last = notes[line] if line < len(notes) else ""
                lines.append("  ".join([first.ljust(widths[0]), *(blank if line else middle), last]))
            if number == 0:
                lines.append("-" * (sum(widths) + 2 * len(widths) - 2))
        return lines


_LEFT_OUT = "left out"
"""How the note of a candidate begins for which there was no time."""

WIDTH = 100
"""Characters of a line of the table, unless it is wide."""

_LEAST_WIDTH = 70
"""Narrower lines would break names and notes to pieces."""

_ROOM_FOR_ALL = 90
"""Width from which on all columns of the short table fit beside names."""

_CLEARLY_FASTER = 1.02
"""From this ratio of times on, another library's product is said to be the one to use."""

_LIBRARIES = {"scipy": "SciPy", "mkl": "MKL"}
"""What candidates on the CPU are compared with, by the name in the table."""


def _line_width() -> int:
    """Return the width of the terminal within bounds; `WIDTH` where nothing is written to one."""
    return max(_LEAST_WIDTH, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))


def _is_others(name: str) -> bool:
    """Whether a row is of the vendor's library or, on the CPU, of another one."""
    return "/" not in name or _label(name) in _vendor_kernels()


def _label(name: str) -> str:
    """Return the format and the kernel of a candidate."""
    return "/".join(name.partition("[")[0].split("/")[2:])


@functools.cache
def _vendor_kernels() -> frozenset[str]:
    return frozenset(f"{kernel.format}/{kernel.name}" for op in OPERATIONS for kernel in kernels(op) if kernel.vendor)


@functools.cache
def _less_precise_kernels() -> dict[str, str]:
    every = (kernel for op in OPERATIONS for kernel in kernels(op))
    return {f"{kernel.format}/{kernel.name}": kernel.precision for kernel in every if kernel.precision != "full"}


def _precision_of(name: str) -> str:
    return _less_precise_kernels().get(_label(name), "full")


def _of_rounding(chosen: str) -> list[str]:
    if _precision_of(chosen) == "full":
        return []
    return [f"{chosen} rounds A and B to TF32, 11 significant bits"]


def _broken(name: str, width: int) -> list[str]:
    """Break a name after its commas, brackets and strokes, or wherever it must be."""
    lines = [""]
    for part in re.findall(r"[^,/\[]*[,/\[]|[^,/\[]+", name):
        rest = part
        if lines[-1] and len(lines[-1]) + len(rest) > width:
            lines.append("  ")
        while len(lines[-1]) + len(rest) > width:
            space = width - len(lines[-1])
            lines[-1] += rest[:space]
            rest = rest[space:]
            lines.append("  ")
        lines[-1] += rest
    return lines


def _time(row: Row) -> float:
    """Return what was measured, or else predicted."""
    return row.predicted_us if math.isnan(row.median_us) else row.median_us


def _break_even(row: Row, other: Row) -> float:
    """Return the products after which preparing `row` instead of `other` has paid off; infinite where it never does."""
    more = 1e3 * (row.preparation_ms - other.preparation_ms)
    saved = _time(other) - _time(row)
    if math.isnan(more) or math.isnan(saved):
        return math.nan
    if saved <= 0:
        return 0.0 if more < 0 and saved == 0 else math.inf
    return max(0.0, math.ceil(more / saved))


def _pays_off(row: Row, other: Row) -> str:
    products = _break_even(row, other)
    if math.isnan(products) or products == 0:
        return "pays off at once"
    if products == math.inf:
        return "saves nothing"
    return f"pays off after {products:,.0f} product{'s' if products > 1 else ''}"


def _number(value: float, pattern: str) -> str:
    return "" if math.isnan(value) else pattern.format(value)


def _products(count: float) -> str:
    if count == 0:
        return "at once"
    return "never" if count == math.inf else _number(count, "{:,.0f}")


_ALL_COLUMNS: dict[str, Callable[[Row], str]] = {
    "preparation ms": lambda row: _number(row.preparation_ms, "{:,.2f}"),
    "predicted us": lambda row: _number(row.predicted_us, "{:,.2f}"),
    "median us": lambda row: _number(row.median_us, "{:,.2f}"),
    "p10-p90 us": lambda row: "" if math.isnan(row.median_us) else f"{row.p10_us:,.2f}-{row.p90_us:,.2f}",
    "speedup": lambda row: _number(row.speedup, "{:.2f}x"),
    "of floor": lambda row: _number(100 * row.floor_share, "{:.0f} %"),
    "break-even": lambda row: _products(row.break_even),
    "over vendor": lambda row: _products(row.break_even_vendor),
}
"""Heading -> how a row fills the column. A column without entries is left out."""


def _of_measurements(found: _core.Explanation, product: Product) -> list[str]:
    rows = [row for row in found.rows if "/" in row.candidate]
    measured = [row for row in rows if not math.isnan(row.median_us)]
    timed = {row.candidate for row in found.rows if not math.isnan(row.median_us)}
    floor_us = 1e6 * found.floor_bytes / found.copy_bandwidth
    floor = "bandwidth floor not known: measuring the bandwidth takes more memory than there is"
    if not math.isnan(floor_us):
        floor = (
            f"bandwidth floor {floor_us:,.2f} us: {found.floor_bytes:,} bytes at the measured copy bandwidth of "
            f"{found.copy_bandwidth / 1e9:,.0f} GB/s"
        )
    footnotes = [
        f"{len(measured)} of {len(rows)} candidates measured, {product.cache} cache"
        + (f"; speedup over {found.baseline}" if found.baseline in timed else ""),
        *_left_out(found),
        *_of_memory(found),
        *_of_host(found),
        *(_of_the_fastest(measured, found.chosen) if product.device.startswith("CPU") else []),
        floor,
    ]
    if any(row.floor_share > 1 for row in rows):
        footnotes.append(
            "over 100 % of the floor: the operands were still in the cache, which is faster than memory, or the "
            "format takes fewer bytes than the CSR that the floor counts"
        )
    return footnotes


def _of_the_fastest(measured: list[Row], chosen: str) -> list[str]:
    """Say why the fastest on a CPU is not the chosen one, if so."""
    if not measured or measured[0].candidate == chosen:
        return []
    return [
        f"{measured[0].candidate} does not replace {chosen}: preparation counts, and what replaces plain CSR has to be "
        "3 % faster in four of five further turns"
    ]


def _left_out(found: _core.Explanation) -> list[str]:
    if not found.left_out:
        return []
    if math.isfinite(found.calls_of_budget):
        return [
            f"{found.left_out} left out, as measuring is to take about {100 * found.share_of_calls:g} % of the time of "
            f"all calls (calls={found.calls_of_budget:g}); select='measure' measures all"
        ]
    return [f"{found.left_out} left out, as the budget of {found.budget:g} s was used up; budget=math.inf measures all"]


def _of_memory(found: _core.Explanation) -> list[str]:
    """Say which candidates could not be taken, or not be measured, for lack of memory."""
    count = found.lacked_memory
    return [
        *(
            [f"the fastest that fits: {count} candidate{'s do' if count > 1 else ' does'} not fit into memory"]
            * bool(count)
        ),
        *(
            [f"predicted only, as measuring takes more memory than there is: {found.not_measured}"]
            * bool(found.not_measured)
        ),
    ]


def _of_host(found: _core.Explanation) -> list[str]:
    """Say that small operands do not go to the GPU."""
    return ["operands in host memory are multiplied there: copying them to the GPU takes longer"] * found.small_on_host


def _of_prediction(found: _core.Explanation, product: Product) -> list[str]:
    weighed = math.isfinite(found.calls)
    return [
        f"{product.cache} cache; "
        + (f"chosen for {found.calls:g} calls with one preparation" if weighed else "preparation not counted"),
        f"expected to be {found.expected_loss:.1%} above the fastest"
        + (": unsure, more than for most matrices" if found.unsure and not found.outside else ""),
        *([f"unsure, since outside what was measured: {found.outside}"] if found.outside else []),
        *(
            [f"predicted by trees ({1 - found.share_of_network:.0%}) and a network ({found.share_of_network:.0%})"]
            * (found.share_of_network > 0)
        ),
        *_of_memory(found),
        *_of_host(found),
        *(note for note in (found.profile_note, found.stands_in, found.not_predicted) if note),
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

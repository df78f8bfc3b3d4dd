"""Tables of figures as text."""

from __future__ import annotations

import dataclasses
import io
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import rich.box
import rich.console
import rich.table

__all__ = ["Summary"]


@dataclasses.dataclass
class Summary:
    """A table with the notes that are needed to read it. ``print`` it, or take `frame`."""

    title: str
    frame: pd.DataFrame
    notes: list[str] = dataclasses.field(default_factory=list)
    """What was measured on what, and how the figures are defined."""
    formats: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Format specifications of columns, such as ``".2f"`` or ``".1%"``."""

    def cells(self) -> list[list[str]]:
        """Return the rows as text; a dash for a missing value."""
        writers = [self._writer(name) for name in self.frame]
        columns = [[write(v) for v in self.frame[name]] for name, write in zip(self.frame, writers, strict=True)]
        return [list(row) for row in zip(*columns, strict=True)]

    def _writer(self, name: str) -> Callable[[Any], str]:
        specification = self.formats.get(name)

        def write(value: Any) -> str:
            if pd.isna(value):
                return "-"
            if isinstance(value, bool):
                return "yes" if value else "no"
            if specification == ".2f" and 0 < abs(value) < 0.1:
                return f"{value:.2g}"  # more digits than a speedup of 0.00
            if specification:
                return format(value, specification).replace("%", " %")
            return f"{value:,}" if isinstance(value, numbers.Integral) else str(value)

        return write

    def __str__(self) -> str:
        table = rich.table.Table(title=self.title, title_justify="left", box=rich.box.SIMPLE_HEAD)
        for name, kind in self.frame.dtypes.items():
            table.add_column(
                str(name), justify="right" if pd.api.types.is_numeric_dtype(kind) else "left", overflow="fold"
            )
        for row in self.cells():
            table.add_row(*row)
        text = io.StringIO()
        console = rich.console.Console(
            file=text, width=160, color_system=None, force_jupyter=False, emoji=False, markup=False
        )
        console.print(table)
        for note in self.notes:
            console.print(note)
        return text.getvalue().rstrip()

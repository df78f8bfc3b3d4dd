"""Tables as pages of the documentation take them."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from warploom.bench.rendering import Summary

__all__ = ["in_words", "page_of", "pair_of", "write_tables"]

_OPERATIONS = {"spmm": "SpMM", "spmv": "SpMV"}


def in_words(setting: str) -> str:
    """Return a setting or the name of a selector in words: ``SpMM float32, row-major, k = 8``."""
    op, dtype, *rest = re.split("[/-]", setting)
    words = [f"{part}-major" if part in ("row", "column") else part.replace("=", " = ") for part in rest]
    return ", ".join([f"{_OPERATIONS[op]} {dtype}", *words])


def pair_of(values: Sequence[float | None], form: str) -> str:
    """Return ``1.25 / 1.27`` of two figures, one if they are the same whole number."""
    texts = ["-" if value is None or pd.isna(value) else format(value, form).replace("%", " %") for value in values]
    return texts[0] if form == "," and texts[0] == texts[1] else " / ".join(texts)


def write_tables(path: Path, tables: Iterable[Summary]) -> None:
    """Write a page of tables, one below the other."""
    path.write_text("\n".join(map(page_of, tables)), encoding="utf-8")


def page_of(table: Summary) -> str:
    """Return a table as HTML in MyST: Markdown would take parts of some cells for its own."""
    parts = [f"**{table.title}**\n"] if table.title else []
    parts += ["```{raw} html", '<div class="generated"><table>', _row("th", map(str, table.frame))]
    parts += [_row("td", cells) for cells in table.cells()]
    parts += ["</table>", *(f"<p>{html.escape(note)}</p>" for note in table.notes), "</div>", "```\n"]
    return "\n".join(parts)


_FIGURES = re.compile(r"[\d.,:/%x\s()-]+|([\d.,%\s]+\([\d., to]+\))")
"""Cells that are figures alone, such as ``1.04 / 0.90`` and ``99.3 % (99.1 to 99.4)``, which stay on one line."""


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(map(functools.partial(_cell, tag), cells))}</tr>"


def _cell(tag: str, text: str) -> str:
    figures = ' class="figures"' if tag == "td" and _FIGURES.fullmatch(text) else ""
    return f"<{tag}{figures}>{html.escape(text)}</{tag}>"

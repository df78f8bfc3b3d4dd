"""What became of items, and pages on which it stands beside what the papers print."""

from __future__ import annotations

import base64
import dataclasses
import functools
import html
import io
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import matplotlib as mpl

from warploom import __version__
from warploom.bench.measurements import part_of
from warploom.bench.medians import describe_environments
from warploom.bench.rendering import Summary
from warploom.reproduce.context import Context
from warploom.reproduce.drawing import STYLE
from warploom.reproduce.registry import Item
from warploom.reproduce.result import Result

__all__ = ["Outcome", "at_hand", "fragment", "index", "page"]

_MOST_ROWS = 30
_DPI = 200
_SHOWN = 150
"""Pixels of a browser for an inch of a picture, so that text of 7 pt is as large as the text around it."""


@dataclasses.dataclass
class Outcome:
    """The outcome of one item. A notebook shows it as the report does."""

    item: Item
    result: Result | None
    """None if it could not be made."""
    files: list[pathlib.Path]
    """Picture as PNG and SVG, then the tables as CSV; none if nothing was written."""
    reason: str = ""
    """Why it could not be made."""

    def _repr_html_(self) -> str:
        return f"<p><strong>{html.escape(self.item.title)}</strong></p>\n{fragment(self)}"


def page(outcomes: Sequence[Outcome], context: Context) -> str:
    """Return the page of one paper as HTML, with its pictures in it.

    Parameters
    ----------
    outcomes : sequence of Outcome
        Those of one paper.
    context : Context
        What they were made from.
    """
    measured = context.measurements
    return _template("report.html").render(
        paper=outcomes[0].item.paper,
        hardware=describe_environments(measured.environments) if measured else "nothing: there are no measurements",
        at_hand=at_hand(context),
        version=__version__,
        sections=[_section(outcome) for outcome in outcomes],
    )


def at_hand(context: Context) -> str:
    """Return in words what was measured: how many matrices, how many of them real, and what was made of them."""
    if context.measurements is None:
        return "nothing is measured"
    parts = part_of(context.measurements.matrices["matrix"])
    origins = context.origins(context.measurements.matrices["matrix"][parts == "matrix"])
    real, transposes, blocks = origins.count("real"), int((parts == "transpose").sum()), int((parts == "block").sum())
    besides = (
        f"; besides, {transposes:,} transposes and {blocks:,} blocks of rows of them" if transposes + blocks else ""
    )
    return (
        f"{len(origins):,} matrices ({real:,} real ones from collections, {len(origins) - real:,} constructed from "
        f"definitions) are measured{besides}"
    )


def index(papers: Mapping[str, Sequence[Outcome]]) -> str:
    """Return the page that leads to those of the papers, by their letters, as HTML."""
    return _template("report_index.html").render(papers=list(papers.items()), version=__version__)


def fragment(outcome: Outcome, picture: str | None = None) -> str:
    """Return one item as HTML to put into a page or a notebook, without its title.

    Parameters
    ----------
    outcome : Outcome
    picture : str, optional
        Where the page finds the picture; it is part of the HTML if not given.
    """
    template = _template("report_item.html")
    style = template.environment.get_template("report_item.css").render()
    return f"<style>\n{style}</style>\n{template.render(section=_section(outcome, picture))}"


@functools.cache
def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("warploom.reproduce", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _section(outcome: Outcome, picture: str | None = None) -> dict[str, Any]:
    item, result = outcome.item, outcome.result
    section: dict[str, Any] = {"item": item, "reason": outcome.reason, "result": result}
    if result is None:
        return section | {"printed": [(p.quantity, p.show(p.value), "-", p.place) for p in item.printed]}
    return section | {
        "printed": [
            (p.quantity, p.show(p.value), p.show(result.ours.get(p.quantity, float("nan"))), p.place)
            for p in item.printed
        ],
        "picture": picture or f"data:image/png;base64,{base64.b64encode(_png(outcome)).decode()}",
        "width": round(_SHOWN * result.figure.get_size_inches()[0]),
        "files": [path.name for path in outcome.files],
        "tables": [_rows(table) for table in result.tables if len(table) <= _MOST_ROWS],
    }


def _png(outcome: Outcome) -> bytes:
    written = [path for path in outcome.files if path.suffix == ".png"]
    if written:
        return written[0].read_bytes()
    assert outcome.result is not None
    drawn = io.BytesIO()
    with mpl.rc_context(STYLE):
        outcome.result.figure.savefig(drawn, dpi=_DPI, metadata={"Software": None})
    return drawn.getvalue()


def _rows(table: Any) -> dict[str, Any]:
    formats = {name: ".4g" for name, kind in table.dtypes.items() if kind.kind == "f"}
    return {"heads": [str(name) for name in table], "rows": Summary("", table, formats=formats).cells()}

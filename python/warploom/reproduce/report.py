"""Pages on which what was made stands beside what the paper prints."""

from __future__ import annotations

import base64
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jinja2

from warploom import __version__
from warploom.bench.medians import describe_environments
from warploom.bench.rendering import Summary

if TYPE_CHECKING:
    from warploom.reproduce.context import Context
    from warploom.reproduce.run import Outcome

__all__ = ["page"]

_MOST_ROWS = 30


def page(outcomes: Sequence[Outcome], context: Context) -> str:
    """Return the page of one paper as HTML, with its pictures in it.

    Parameters
    ----------
    outcomes : sequence of Outcome
        Of one paper.
    context : Context
        What they were made from.
    """
    measured = context.measurements
    return _template().render(
        paper=outcomes[0].item.paper,
        hardware=describe_environments(measured.environments) if measured else "nothing: there are no measurements",
        matrices=len(measured.matrices) if measured else 0,
        version=__version__,
        sections=[_section(outcome) for outcome in outcomes],
    )


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("warploom.reproduce", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")


def _section(outcome: Outcome) -> dict[str, Any]:
    item, result = outcome.item, outcome.result
    section: dict[str, Any] = {"item": item, "reason": outcome.reason, "result": result}
    if result is None:
        return section | {"printed": [(p.quantity, p.show(p.value), "-", p.place) for p in item.printed]}
    files = [path.name for path in outcome.files]
    picture = next(path for path in outcome.files if path.suffix == ".png")
    return section | {
        "printed": [
            (p.quantity, p.show(p.value), p.show(result.ours.get(p.quantity, float("nan"))), p.place)
            for p in item.printed
        ],
        "picture": base64.b64encode(picture.read_bytes()).decode(),
        "files": files,
        "tables": [_rows(table) for table in result.tables if len(table) <= _MOST_ROWS],
    }


def _rows(table: Any) -> dict[str, Any]:
    formats = {name: ".4g" for name, kind in table.dtypes.items() if kind.kind == "f"}
    return {"heads": [str(name) for name in table], "rows": Summary("", table, formats=formats).cells()}

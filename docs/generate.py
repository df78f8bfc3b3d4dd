"""Makes what the documentation takes from the package: pictures, tables, the reports and the notebooks' pages.

Nothing that was measured or computed is written into a page by hand.
"""

from __future__ import annotations

import html
import inspect
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pictures

from warploom import features, formats, permutations, profiles
from warploom.bench import Measurements, repeatability, summary
from warploom.bench.rendering import Summary
from warploom.candidates import kernels
from warploom.reproduce import PAPERS, Outcome, reproduce
from warploom.reproduce.report import fragment

REPORTS = {"M": "mehrabi2021", "G": "gao2024", "D": "dasp2023", "C": "cmrs2014"}
"""Names of the pages, and of the notebooks, by the letters of the papers."""
_MEASURED = "h200"


def everything(docs: Path, executed: Path | None) -> None:
    """Write all that is made to the folder of the documentation, in place of what was made before.

    Parameters
    ----------
    docs : Path
    executed : Path, optional
        Folder of executed notebooks to show instead of those of the repository.
    """
    for name in ("generated", "notebooks", "reports"):
        shutil.rmtree(docs / name, ignore_errors=True)
    generated = docs / "generated"
    shutil.copytree(executed or docs.parent / "notebooks", docs / "notebooks", ignore=shutil.ignore_patterns(".*"))
    _pictures(docs, generated)
    _tables(generated)
    outcomes = reproduce("all", generated / "extra" / "reports", dpi=150)
    _reports(outcomes, docs / "reports")


# ----- pictures -----


def _pictures(docs: Path, folder: Path) -> None:
    """Draw every format and every permutation that is registered."""
    pages = _pages_of_formats(docs)
    for kind, names, draw in (
        ("formats", formats.names(), lambda name: pictures.storage(name, pages[name])),
        ("permutations", permutations.names(), pictures.permutation),
    ):
        (folder / kind).mkdir(parents=True)
        for name in names:
            with pictures.style():
                draw(name).savefig(folder / kind / f"{name}.png", dpi=200, metadata={"Software": None})


def _pages_of_formats(docs: Path) -> dict[str, Path]:
    """Return the page of every format; there are neither formats without one nor pages without a format."""
    pages = {page.stem.replace("_", "-"): page for page in (docs / "concepts" / "formats").glob("*.md")}
    differing = pages.keys() ^ set(formats.names())
    if differing:
        raise LookupError(f"a format without a page, or a page without a format, in docs/concepts/formats: {differing}")
    return pages


# ----- tables -----


def _tables(folder: Path) -> None:
    tables = folder / "tables"
    tables.mkdir(parents=True)
    for op in ("spmm", "spmv"):
        _write(tables / f"kernels-{op}.md", [_kernels(op)])
        _write(tables / f"features-{op}.md", [_features(op)])
    _write(tables / "formats.md", [_formats()])
    _write(tables / "permutations.md", [pictures.permutations_table()])
    _write(tables / "profiles.md", _profiles())
    measured = Measurements.load(_MEASURED)
    found = [
        summary.counts(measured, "source"),
        summary.counts(measured, "size"),
        repeatability.repeatability(measured),
        summary.speedups(measured),
    ]
    _write(tables / "measured.md", found)


def _formats() -> Summary:
    rows = []
    for name in formats.names():
        known = formats.find(name)
        idea = (known.__doc__ or "").split("\n\n")[0].replace("`", "")
        options = list(inspect.signature(known.from_csr).parameters)[1:]
        rows.append((known.__name__, name, " ".join(idea.split()), ", ".join(options) or "-"))
    return Summary("", pd.DataFrame(rows, columns=["class", "in names of candidates", "idea", "options"]))


def _kernels(op: str) -> Summary:
    rows = [
        (
            f"{kernel.format}/{kernel.name}",
            kernel.summary,
            ", ".join(f"{p.name} ({', '.join(map(str, p.tried))})" for p in kernel.parameters) or "-",
            ", ".join(kernel.dtypes),
            ", ".join(kernel.devices),
        )
        for kernel in kernels(op)
    ]
    return Summary("", pd.DataFrame(rows, columns=["kernel", "idea", "parameters (tried)", "value types", "runs on"]))


def _features(op: str) -> Summary:
    vector = getattr(features, op)(pictures.example())
    return Summary(
        "",
        pd.DataFrame({"feature": features.names(op), "of the example": vector.as_array()}),
        formats={"of the example": ".4g"},
    )


def _profiles() -> list[Summary]:
    """Return what the profiles that are shipped say of themselves: scores on matrices not seen in training."""
    return [_profile(name, profiles.find(name)) for name in profiles.names()]


def _profile(gpu: str, found: profiles.FoundProfile | None) -> Summary:
    assert found is not None
    rows = []
    for name, scores in found.profile.metrics["selectors"].items():
        rows.append((name, scores["matrices"], *(_share(scores.get(split)) for split in ("random", "families"))))
    frame = pd.DataFrame(rows, columns=["selector", "matrices", "random split", "families left out"])
    note = (
        "Geometric mean of least time / time of the choice over matrices that were not seen in training, with 95 % "
        "intervals."
    )
    return Summary(f"Profile of the {gpu}", frame, [note])


def _share(scores: dict[str, Any] | None) -> str:
    if not scores:
        return "-"
    mean, low, high = (100 * value for value in scores["oracle_share"])
    return f"{mean:.1f} % ({low:.1f} to {high:.1f})"


def _write(path: Path, tables: Iterable[Summary]) -> None:
    path.write_text("\n".join(map(_page_of, tables)), encoding="utf-8")


def _page_of(table: Summary) -> str:
    """Return a table as HTML in MyST: Markdown would take parts of some cells for its own."""
    parts = [f"**{table.title}**\n"] if table.title else []
    parts += ["```{raw} html", '<div class="generated"><table>', _row("th", map(str, table.frame))]
    parts += [_row("td", cells) for cells in table.cells()]
    parts += ["</table>", *(f"<p>{html.escape(note)}</p>" for note in table.notes), "</div>", "```\n"]
    return "\n".join(parts)


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


# ----- reports -----


_INDEX = """# Reports

Every table and figure of the four papers, made from the measurements that come with warploom, beside what the paper
prints and with one sentence on whether its conclusion holds. [How it was measured](../measured.md).

```{{toctree}}
:maxdepth: 1

{pages}
```
"""


def _reports(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Write a page for each paper; pictures and numbers are in the folder of the same name beside the pages."""
    folder.mkdir()
    (folder / "index.md").write_text(_INDEX.format(pages="\n".join(REPORTS.values())), encoding="utf-8")
    for letter, paper in PAPERS.items():
        chosen = [outcome for outcome in outcomes if outcome.item.id[0] == letter]
        lines = [
            f"# {_title(paper.reference)}\n",
            f"{paper.reference}.\n",
            f"The paper measured on: {paper.hardware}.\n",
        ]
        lines += [_page_of(_verdicts(chosen))]
        for outcome in chosen:
            lines += [f"## {outcome.item.id}: {outcome.item.title}\n"]
            lines += ["```{raw} html", fragment(outcome, picture=f"{outcome.item.id}.png"), "```\n"]
        (folder / f"{REPORTS[letter]}.md").write_text("\n".join(lines), encoding="utf-8")


def _title(reference: str) -> str:
    """Return authors and year: the reference begins with names and ends with the year."""
    authors = reference.split(":")[0].split(", ")
    who = " and ".join(authors) if len(authors) <= 2 else f"{authors[0]} et al."
    return f"{who} ({reference[-4:]})"


def _verdicts(outcomes: Sequence[Outcome]) -> Summary:
    rows = [
        (o.item.id, o.item.place, o.item.title, o.result.verdict.standing if o.result else "not made") for o in outcomes
    ]
    return Summary("", pd.DataFrame(rows, columns=["id", "in the paper", "what", "conclusion"]))

"""Makes what the documentation takes from the package: pictures, tables, the reports and the notebooks' pages.

Nothing that was measured or computed is written into a page by hand.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pictures
from measured import MEASURED, MEASURED_LARGE, write_measured
from page_tables import in_words, page_of, pair_of, write_tables

from warploom import corpus, features, formats, permutations, profiles
from warploom.bench import Measurements, orders
from warploom.bench.medians import describe_environments
from warploom.bench.rendering import Summary
from warploom.candidates import kernels
from warploom.reproduce import PAPERS, Context, Outcome, reproduce
from warploom.reproduce.report import at_hand, fragment
from warploom.training import worth

REPORTS = {"M": "mehrabi2021", "G": "gao2024", "D": "dasp2023", "C": "cmrs2014"}
"""Names of the pages, and of the notebooks, by the letters of the papers."""


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
    _link_reports(docs / "notebooks")
    _pictures(docs, generated)
    _tables(generated)
    outcomes = reproduce("all", generated / "extra" / "reports", dpi=150)
    _reports(outcomes, docs / "reports")


def _link_reports(folder: Path) -> None:
    """Lead from the notebook of each paper to its report."""
    for name in REPORTS.values():
        path = folder / f"{name}.ipynb"
        notebook = json.loads(path.read_text(encoding="utf-8"))
        first = notebook["cells"][0]
        text = f"\n\nEvery table and figure of the paper, made anew, is in [its report](../reports/{name}.md)."
        first["source"] = "".join(first["source"]) + text
        path.write_text(json.dumps(notebook), encoding="utf-8")


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
        write_tables(tables / f"kernels-{op}.md", [_kernels(op)])
        write_tables(tables / f"features-{op}.md", [_features(op)])
    write_tables(tables / "formats.md", [_formats()])
    write_tables(tables / "permutations.md", [pictures.permutations_table()])
    write_tables(tables / "profiles.md", _profiles())
    write_tables(tables / "large.md", [_large()])
    write_tables(tables / "origins.md", [_origins()])
    write_tables(tables / "choices.md", [_choices()])
    write_tables(tables / "choices-large.md", [_choices_large()])
    write_tables(tables / "orders.md", _orders())
    write_tables(tables / "models.md", [models_table(), _beyond()])
    write_measured(tables)


def _choices() -> Summary:
    """Return what ``warploom bench choices h200 h200-large --output docs/static/choices.csv`` found.

    Training takes minutes.
    """
    frame = pd.read_csv(Path(__file__).parent / "static" / "choices.csv", dtype=str).drop(columns="cache")
    return Summary("", frame, worth.NOTES)


def _choices_large() -> Summary:
    """Return what the same command found with ``--large docs/static/choices-large.csv``."""
    return choices_large_table(pd.read_csv(Path(__file__).parent / "static" / "choices-large.csv", dtype=str))


def choices_large_table(lines: pd.DataFrame) -> Summary:
    """Return a row for each setting and set of matrices, and a column for each way to choose.

    Parameters
    ----------
    lines : pandas.DataFrame
        The table of `warploom.training.worth.large_table`, all as text.
    """
    rows = []
    for (setting, matrices), group in lines.groupby(["setting", "matrices"], sort=False):
        ways = group.set_index("chosen by")
        row = {"": in_words(str(setting)), "matrices": matrices}
        for way in (name for name in ways.index if name != "own"):
            of = ways.loc[way]
            row[way] = f"{of['speed']} ({of['least']}; {of['below 85 %']}; {of['slower than the vendor']})"
        for way, words in (("all features", "choice"), ("measured", "measured choice"), ("own", "fastest own")):
            row[f"{words} over the vendor's best"] = ways.loc[way, "over the vendor's best"]
        rows.append(row)
    first = "In brackets: the least; per cent of the matrices below 85 %; per cent slower than the vendor."
    return Summary("", pd.DataFrame(rows), [first, *worth.LARGE_NOTES])


_SETTINGS_OF_ORDERS = ("spmv/float64", "spmm/float32/row/k=32", "spmm/float32/row/k=128")


def _orders() -> list[Summary]:
    """Return what ``warploom bench orders h200-large`` prints, of the settings that nearly all matrices have."""
    measured = Measurements.load(MEASURED_LARGE).select(setting=_SETTINGS_OF_ORDERS)
    tables = orders.orders(measured)
    return [
        dataclasses.replace(table, frame=table.frame.assign(setting=list(map(in_words, table.frame["setting"]))))
        for table in tables
    ]


def _formats() -> Summary:
    rows = []
    for name in formats.names():
        known = formats.find(name)
        idea = (known.__doc__ or "").split("\n\n")[0].replace("`", "")
        options = list(inspect.signature(known.from_csr).parameters)[1:]
        rows.append((known.__name__, name, " ".join(idea.split()), ", ".join(options) or "-"))
    return Summary("", pd.DataFrame(rows, columns=["class", "in names of candidates", "idea", "options"]))


def _large() -> Summary:
    """Count the large matrices of each origin and family: without arrangements, and with them for each operation."""
    listed = {op: corpus.large(op, reordered=False) for op in ("spmv", "spmm")}
    rows = []
    families = sorted({(entry.origin, entry.family) for entry in listed["spmv"]})
    for origin, family in families:
        of = {op: [e for e in found if (e.origin, e.family) == (origin, family)] for op, found in listed.items()}
        natural = [e for e in of["spmv"] if e.arrangement == "natural"]
        shown = [_span([getattr(e, key) for e in natural]) for key in ("rows", "nnz")]
        rows.append((origin, family, len(natural), len(of["spmv"]), len(of["spmm"]), *shown))
    for origin in sorted({origin for origin, _ in families}):
        of = {op: [e for e in found if e.origin == origin] for op, found in listed.items()}
        natural = [e for e in of["spmv"] if e.arrangement == "natural"]
        shown = [_span([getattr(e, key) for e in natural]) for key in ("rows", "nnz")]
        rows.append((origin, "all families", len(natural), len(of["spmv"]), len(of["spmm"]), *shown))
    columns = ["origin", "family", "matrices", "in all orders, SpMV", "in all orders, SpMM", "rows", "nonzeros"]
    return Summary("", pd.DataFrame(rows, columns=columns))


def _span(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _origins() -> Summary:
    """List the matrices that programs made."""
    rows = [
        (o.name, o.summary, o.program, f"{o.rows:,}", f"{o.cols:,}", f"{o.nnz:,}", o.piece)
        for o in corpus.origins.index().values()
    ]
    return Summary("", pd.DataFrame(rows, columns=["name", "what", "made by", "rows", "columns", "nonzeros", "piece"]))


def _kernels(op: str) -> Summary:
    rows = [
        (
            f"{kernel.format}/{kernel.name}",
            kernel.summary,
            getattr(kernel, "source", "") or "-",
            ", ".join(f"{p.name} ({', '.join(map(str, p.tried))})" for p in kernel.parameters) or "-",
            ", ".join(kernel.layouts),
            ", ".join(kernel.dtypes),
            ", ".join(kernel.devices),
        )
        for kernel in kernels(op)
    ]
    columns = ["kernel", "idea", "source", "parameters (tried)", "layouts of B and C", "value types", "runs on"]
    frame = pd.DataFrame(rows, columns=columns)
    return Summary("", frame if op == "spmm" else frame.drop(columns="layouts of B and C"))


def _features(op: str) -> Summary:
    vector = getattr(features, op)(pictures.example())
    return Summary(
        "",
        pd.DataFrame({"feature": features.names(op), "of the example": vector.as_array()}),
        formats={"of the example": ".4g"},
    )


def _profiles() -> list[Summary]:
    """Return what the profiles that are shipped say of themselves: scores on matrices not seen in training."""
    return [profile_table(name, profiles.find(name)) for name in profiles.names()]


def models_table() -> Summary:
    """Return the shares that trees and networks reach, side by side."""
    rows = []
    for gpu in profiles.names("network"):
        found = {model: profiles.find(gpu, model=model) for model in ("trees", "network")}
        of = {model: one.profile.metrics["selectors"] for model, one in found.items() if one is not None}
        of["blend"] = found["network"].profile.metrics.get("blend", {}) if found["network"] else {}
        for name in sorted((name for name in of["network"] if "random" in of["network"][name]), key=_order):
            scores = {model: found.get(name, {}) for model, found in of.items()}
            rows.append(_shares_of(in_words(name), scores))
            further = {model: found.get("further", {}) for model, found in scores.items()}
            if any(further.values()):
                rows.append(_shares_of(f"{in_words(name)}: large matrices", further))
    notes = [
        "Geometric mean of least time / time of the choice, without measuring, over matrices that were not seen in "
        "training, with 95 % intervals. Where there is no blend, plans take trees alone."
    ]
    return Summary("Trees and networks", pd.DataFrame(rows), notes)


def _shares_of(label: str, scores: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    row = {"selector": label}
    for split, words in _SPLITS.items():
        row |= {f"{model}, {words}": _share(found.get(split)) for model, found in scores.items()}
    return row


def _beyond() -> Summary:
    """Return what ``python -m warploom.training.beyond h200 --output docs/static/beyond.csv`` found."""
    return beyond_table(pd.read_csv(Path(__file__).parent / "static" / "beyond.csv"))


def beyond_table(lines: pd.DataFrame) -> Summary:
    """Return what choices reach beyond what was measured: the share of the oracle, and of rows slower than the vendor.

    Parameters
    ----------
    lines : pandas.DataFrame
        From `warploom.training.beyond.beyond`.
    """
    rows = []
    for (split, setting), group in lines.groupby(["split", "setting"], sort=False):
        by_way = group.set_index("chosen_by")
        row = {"training": split, "selector": in_words(setting), "rows": int(group["rows"].iloc[0])}
        for way in ("trees", "network", "trees, measured", "network, measured", "fixed"):
            if way not in by_way.index:
                continue
            share, slower = by_way.loc[way, "oracle_share"], by_way.loc[way, "slower_than_vendor"]
            row["one candidate" if way == "fixed" else way] = f"{share:.1%} ({slower:.1%})"
        rows.append(row)
    notes = [
        "Share of the oracle's speed; in brackets, choices below 0.98 of the vendor's best.",
        "Measured: sizes that were left out are new to a plan, which with calls=math.inf also measures the first three "
        "of the vendor's candidates and those for large matrices; short lists, which are measured too, are left out.",
    ]
    return Summary("Beyond what was trained on", pd.DataFrame(rows), notes)


_SPLITS = {"random": "random folds", "families": "families left out"}


def profile_table(gpu: str, found: profiles.FoundProfile | None) -> Summary:
    """Return how near the choices of a profile come to the fastest, a row for each selector."""
    assert found is not None
    rows = []
    selectors = found.profile.metrics["selectors"]
    for name, scores in sorted(selectors.items(), key=lambda item: _order(item[0])):
        if "random" not in scores:  # quick ones, whose losses are said where they are explained
            continue
        row = {"selector": in_words(name), "matrices": scores.get("matrices_of_sweeps", [scores["matrices"]])[0]}
        for suffix, title in (("", "models alone"), ("_measured", "short lists measured")):
            row |= {f"{title}: {words}": _share(scores.get(split + suffix)) for split, words in _SPLITS.items()}
        both = [scores.get(f"{split}_measured", {}) for split in _SPLITS]
        row |= {
            "measured": pair_of([found.get("measured") for found in both], ".0%"),
            "below 0.98 of the vendor's best": pair_of([_mean(found, "slower_than_vendor") for found in both], ".1%"),
            "speed over it": pair_of([_mean(found, "speed_over_vendor") for found in both], ".2f"),
        }
        rows.append(row)
    notes = [
        "Geometric mean of least time / time of the choice over matrices that were not seen in training, with 95 % "
        "intervals. Times that cannot be told apart by the repeatability of the measurements count as equal.",
        "Short lists measured: where a prediction is unsure, the few candidates that may be the fastest are measured, "
        "as plans do. The last three columns are for these choices, random folds / families left out: the share of the "
        "matrices for which candidates are measured, and the comparison with the best of cuSPARSE.",
    ]
    return Summary(f"Profile of the {gpu}", pd.DataFrame(rows), notes)


def _order(selector: str) -> tuple[bool, bool, str, bool]:
    """Sort SpMM before SpMV, row-major before column-major, wide value types first, a warm cache before a cold one."""
    op, dtype, *layout, cache = selector.split("-")
    return op != "spmm", layout == ["column"], {"float64": "a", "float32": "b"}.get(dtype, "c"), cache != "warm"


def _share(scores: dict[str, Any] | None) -> str:
    if not scores:
        return "-"
    mean, low, high = (100 * value for value in scores["oracle_share"])
    return f"{mean:.1f} % ({low:.1f} to {high:.1f})"


def _mean(scores: dict[str, Any], name: str) -> float | None:
    """Return a score without its interval."""
    return scores[name][0] if name in scores else None


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
    context = Context(Measurements.load(MEASURED))
    assert context.measurements is not None
    hardware, measured = describe_environments(context.measurements.environments), at_hand(context)
    (folder / "index.md").write_text(_INDEX.format(pages="\n".join(REPORTS.values())), encoding="utf-8")
    for letter, paper in PAPERS.items():
        chosen = [outcome for outcome in outcomes if outcome.item.id[0] == letter]
        lines = [
            f"# {_title(paper.reference)}\n",
            f"{paper.reference}.\n",
            f"The paper measured on: {paper.hardware}. Here {hardware}: {measured}.\n",
            "Each item says how many of the matrices it uses, and how many of those are real; in tables and files the "
            "column *origin* says it of each.\n",
            f"[How it was measured](../measured.md). [The notebook](../notebooks/{REPORTS[letter]}.ipynb) shows the "
            "ideas of the paper step by step. [All reports](index.md).\n",
        ]
        lines += [page_of(_verdicts(chosen))]
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

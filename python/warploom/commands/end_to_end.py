"""``warploom bench end-to-end``: what a user waits for until n products are done."""

from __future__ import annotations

import fnmatch
import pathlib

import click

from warploom import corpus
from warploom._limits import PLACES, EndToEndLimits
from warploom._terminal import OutputFile
from warploom.corpus import Entry

__all__ = ["end_to_end"]


@click.group("end-to-end")
def end_to_end() -> None:
    """Measure what a user waits for until n products are done, planning included, and compare it with other tools."""


@end_to_end.command("run")
@click.option("--output", required=True, type=click.Path(file_okay=False), help="Folder for the results; resumed.")
@click.option("--quick", is_flag=True, help="A few matrices of the sample instead of all.")
@click.option(
    "--matrices",
    multiple=True,
    metavar="FOLDER|NAME",
    help="A folder, a file or a matrix by name, beside the sample. May be repeated.",
)
@click.option("--only", multiple=True, metavar="GLOB", help="Only matrices whose name matches. May be repeated.")
@click.option("--device", default="cuda", show_default=True, metavar="cuda|cuda:N|cpu")
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="SETTING",
    help="spmv/DTYPE or spmm/DTYPE/row/k=NUMBER, everywhere; by default some for each place. May be repeated.",
)
@click.option("--place", "places", multiple=True, type=click.Choice(list(PLACES)), help="Where the matrix is.")
@click.option(
    "--tool",
    "tools",
    multiple=True,
    metavar="GLOB",
    help="warploom*, cusparse*, torch, cupy, scipy; by default some for each place. May be repeated.",
)
@click.option("--minutes", type=float, help="Start no matrix after this time.")
@click.option(
    "--ahead",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Matrices that other processes make or read meanwhile; for machines with cores to spare.",
)
@click.option(
    "--repeats", type=click.IntRange(min=1), default=EndToEndLimits.repeats, show_default=True, help="Of planning."
)
@click.option(
    "--direct-seconds",
    type=click.FloatRange(min=0),
    default=EndToEndLimits.direct_s,
    show_default=True,
    help="Where n products take longer, their time is computed from that of planning and that of a product.",
)
def run_command(
    output: str,
    quick: bool,
    matrices: tuple[str, ...],
    only: tuple[str, ...],
    device: str,
    settings: tuple[str, ...],
    places: tuple[str, ...],
    tools: tuple[str, ...],
    minutes: float | None,
    ahead: int,
    repeats: int,
    direct_seconds: float,
) -> None:
    """Measure, in this process. What OUTPUT already holds is not measured again."""
    from warploom.bench.end_to_end import run, sample

    entries = [*sample(quick=quick), *(entry for name in matrices for entry in _entries(name))]
    report = run(
        [entry for entry in entries if not only or any(fnmatch.fnmatchcase(entry.name, glob) for glob in only)],
        output,
        device=device,
        settings=settings or None,
        places=places or None,
        patterns=tools or None,
        limits=EndToEndLimits(repeats=repeats, direct_s=direct_seconds),
        minutes=minutes,
        ahead=ahead,
        # Lines, not a bar: its thread would take time from what is measured.
        progress=lambda done, total, name: click.echo(f"[{done + 1}/{total}] {name}", err=True),
    )
    click.echo(str(report))


def _entries(name: str) -> list[Entry]:
    return corpus.folder(name) if pathlib.Path(name).is_dir() else [corpus.find(name)]


@end_to_end.command("summary")
@click.argument("inputs", nargs=-1, required=True)
@click.option("--json", "json_file", type=OutputFile(allow_dash=False), help="Write the figures to this file too.")
@click.option("--slowest", type=click.IntRange(min=1), help="List so many cases whose planning exceeds its aim most.")
def summary_command(inputs: tuple[str, ...], json_file: str | None, slowest: int | None) -> None:
    """Print how tools compare with the vendor's library, and what planning costs: of folders, or h200."""
    from warploom.bench.end_to_end import Rows, summarise

    found = summarise(Rows.load(*inputs))
    for table in [*found.tables(), *([found.slowest(slowest)] if slowest else [])]:
        click.echo(f"{table}\n")
    if json_file is not None:
        pathlib.Path(json_file).write_text(found.to_json() + "\n", encoding="utf-8")
        click.echo(json_file)


@end_to_end.command("plot")
@click.argument("output", type=OutputFile(allow_dash=False))
@click.argument("inputs", nargs=-1, required=True)
@click.option("--place", type=click.Choice(list(PLACES)), help="Where the matrices are; by default GPU memory.")
def plot_command(output: str, inputs: tuple[str, ...], place: str | None) -> None:
    """Draw the time until n products are done, relative to cuSPARSE's default, as OUTPUT.png, .svg and .pdf."""
    from warploom.bench import plots
    from warploom.bench.end_to_end import Rows
    from warploom.bench.end_to_end.picture import draw

    for written in plots.save(draw(Rows.load(*inputs), place=place), output):
        click.echo(str(written))


@end_to_end.command("columns")
def columns_command() -> None:
    """Print the columns of the table, with units."""
    from warploom.bench.end_to_end import describe

    click.echo(describe())

"""``warploom bench``: sweeps over many matrices, and their results."""

from __future__ import annotations

import fnmatch
import functools
import importlib.resources
import itertools
import pathlib
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

import click

from warploom import corpus
from warploom._limits import CACHES, SweepLimits
from warploom._terminal import OutputFile, progress_bar
from warploom.commands import require_training
from warploom.commands.end_to_end import end_to_end
from warploom.corpus import Entry
from warploom.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["bench"]

_Sweep = tuple[list[Entry], "Sequence[str] | Callable[[Entry], Sequence[str]]", "Sequence[str] | None"]
"""Matrices, their settings, and patterns of candidates."""


@click.group()
def bench() -> None:
    """Measure candidates on many matrices, and summarise what was measured."""


bench.add_command(end_to_end)


@bench.command("run")
@click.option("--output", required=True, type=click.Path(file_okay=False), help="Folder for the results; resumed.")
@click.option(
    "--corpus",
    "parts",
    multiple=True,
    type=click.Choice([*corpus.PARTS, "large"]),
    help="A part of the standard corpus, or the large one, with the settings that are meant for it. May be repeated.",
)
@click.option(
    "--matrices", multiple=True, metavar="FOLDER|NAME", help="A folder, a file or a matrix by name. May be repeated."
)
@click.option("--only", multiple=True, metavar="GLOB", help="Only matrices whose name matches. May be repeated.")
@click.option(
    "--setting",
    "chosen",
    multiple=True,
    metavar="SETTING",
    help="spmv/DTYPE, spmm/DTYPE/row|column/k=rows|NUMBER or sddmm/DTYPE/k=NUMBER; by default those of the shipped "
    "measurements.",
)
@click.option(
    "--candidates",
    multiple=True,
    metavar="GLOB",
    help="Instead of the portfolio; '*' for every candidate, '@essential' for half of the portfolio, hardly slower, "
    "'@large' for what can win on large matrices.",
)
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True)
@click.option("--gpus", metavar="0,1,...", help="GPUs to use, one process each; all by default.")
@click.option("--sample", type=click.IntRange(min=1), help="Only this many matrices, drawn at random.")
@click.option("--shard", metavar="I/N", default="0/1", help="Every N-th matrix from the I-th.")
@click.option("--minutes", type=float, help="Start no matrix after this time.")
@click.option(
    "--matrix-seconds", type=float, default=SweepLimits.matrix_s, show_default=True, help="Limit for one matrix."
)
@click.option("--repeats", type=click.IntRange(min=3), default=SweepLimits.repeats, show_default=True)
@click.option("--ahead", type=click.IntRange(min=0), default=2, show_default=True, help="Loaders for each GPU.")
@click.option("--except", "known", multiple=True, metavar="PATH", help="Leave out what these results hold already.")
@click.option("--dask", metavar="ADDRESS", help="Scheduler of a Dask cluster to measure on instead of this machine.")
def run_command(
    output: str,
    parts: tuple[str, ...],
    matrices: tuple[str, ...],
    only: tuple[str, ...],
    chosen: tuple[str, ...],
    candidates: tuple[str, ...],
    device: str,
    gpus: str | None,
    sample: int | None,
    shard: str,
    minutes: float | None,
    matrix_seconds: float,
    repeats: int,
    ahead: int,
    known: tuple[str, ...],
    dask: str | None,
) -> None:
    """Measure, one process for each GPU. What OUTPUT already holds is not measured again."""
    from warploom.bench import run, settings

    sweeps: list[_Sweep] = [
        (corpus.standard(part), chosen or corpus.PARTS[part].settings, candidates or corpus.PARTS[part].candidates)
        for part in parts
        if part != "large"
    ]
    if "large" in parts:
        sweeps.append((corpus.large(), functools.partial(_of_large, chosen), candidates or (settings.LARGE,)))
    if matrices:
        named = [entry for name in matrices for entry in _entries(name)]
        sweeps.append((named, chosen or (*settings.SPMM, *settings.SPMV), candidates or None))
    if not sweeps:
        raise ParameterError("name what to measure with --corpus or --matrices", argument="matrices")
    executor = _dask(dask) if dask else None
    left_out = _measured(known) if known else set()
    for entries, names, patterns in sweeps:
        entries = [e for e in entries if not only or any(fnmatch.fnmatchcase(e.name, glob) for glob in only)]
        with progress_bar("loading", remaining=True) as show:
            report = run.sweep(
                run.drawn(entries, sample, shard),
                names,
                output,
                device=device,
                gpus=None if gpus is None else [int(g) for g in gpus.split(",")],
                candidates=patterns,
                limits=SweepLimits(repeats=repeats, matrix_s=matrix_seconds),
                ahead=ahead,
                minutes=minutes,
                executor=executor,
                known=left_out,
                permuted_nnz=corpus.LARGEST_NNZ if patterns == (settings.LARGE,) else run.PERMUTED_NNZ,
                progress=show,
            )
        click.echo(str(report))


def _of_large(chosen: tuple[str, ...], entry: Entry) -> list[str]:
    """List the chosen ones of the settings that a large matrix is meant for, or all of them."""
    return [name for name in corpus.settings_of_large(entry) if not chosen or name in chosen]


def _measured(paths: tuple[str, ...]) -> set[tuple[str, str]]:
    """Pairs of a matrix and a setting for which time did not run out."""
    from warploom.bench import Measurements

    rows = Measurements.load(*paths).measurements
    held = [
        set(map(tuple, part[["matrix", "setting"]].drop_duplicates().to_numpy()))
        for part in (rows, rows[rows["status"] == "time limit"])
    ]
    return held[0] - held[1]


def _entries(name: str) -> list[Entry]:
    return corpus.folder(name) if pathlib.Path(name).is_dir() else [corpus.find(name)]


def _dask(address: str) -> Executor:
    try:
        from distributed import Client
    except ImportError as error:
        raise ParameterError("--dask needs a package: pip install distributed", argument="dask") from error
    executor: Executor = Client(address).get_executor()
    return executor


@bench.command("merge")
@click.argument("output", type=click.Path(file_okay=False))
@click.argument("inputs", nargs=-1, required=True)
def merge_command(output: str, inputs: tuple[str, ...]) -> None:
    """Put the results of several sweeps into one table of measurements and one of matrices, in the folder OUTPUT."""
    from warploom.bench import merge

    merged = merge(inputs, output)
    click.echo(f"{output}: {len(merged.measurements):,} measurements of {len(merged.matrices):,} matrices")


@bench.command("summary")
@click.argument("inputs", nargs=-1, required=True)
@click.option("--all", "oracles", is_flag=True, help="Also the families, and the oracles of the papers.")
def summary_command(inputs: tuple[str, ...], oracles: bool) -> None:
    """Print counts, repeatability and speedups of the measurements in INPUTS: folders, or h200."""
    from warploom.bench import Measurements, report

    with progress_bar("reading measurements") as show:
        measurements = Measurements.load(*inputs)
        tables = iter(report.tables(measurements, oracles=oracles))
        show(1, 2, "summarising")
        first = next(tables)
    for table in itertools.chain([first], tables):
        click.echo(f"{table}\n")
        sys.stdout.flush()  # the next one may take a second
    if not oracles:
        click.echo("--all adds the families, and the oracles of the papers", err=True)


@bench.command("plot")
@click.argument("output", type=OutputFile(allow_dash=False))
@click.argument("inputs", nargs=-1, required=True)
@click.option("--speedups", multiple=True, metavar="SETTING", help="Speedups over the vendor instead. May be repeated.")
@click.option("--cache", type=click.Choice(CACHES), default="cold", show_default=True, help="For speedups.")
def plot_command(output: str, inputs: tuple[str, ...], speedups: tuple[str, ...], cache: str) -> None:
    """Draw the measured matrices beside the SuiteSparse collection, as OUTPUT.png, .svg and .pdf."""
    from warploom.bench import Measurements, plots

    measurements = Measurements.load(*inputs).only()
    if speedups:
        figure = plots.speedups(measurements, [(setting, cache) for setting in speedups], by="source")
    else:
        figure = plots.distribution(measurements.matrices, _collection())
    for written in plots.save(figure, output):
        click.echo(str(written))


def _collection() -> pd.DataFrame:
    import pandas as pd

    packed = importlib.resources.files("warploom.corpus") / "suitesparse-index.csv.gz"
    with importlib.resources.as_file(packed) as path:
        return pd.read_csv(path)


@bench.command("choices")
@click.argument("inputs", nargs=-1, required=True)
@click.option("--setting", "chosen", multiple=True, metavar="SETTING", help="Such as spmv/float64. May be repeated.")
@click.option("--cache", type=click.Choice(CACHES), default="warm", show_default=True)
@click.option("--output", type=OutputFile(allow_dash=False), help="Write the table as CSV too.")
@click.option("--large", type=OutputFile(allow_dash=False), help="Write the table of large matrices as CSV too.")
@click.option("--rows", type=OutputFile(allow_dash=False), help="Write what is chosen for each matrix as CSV.")
def choices_command(
    inputs: tuple[str, ...],
    chosen: tuple[str, ...],
    cache: str,
    output: str | None,
    large: str | None,
    rows: str | None,
) -> None:
    """Compare choosing by models with one candidate for all and with a rule of three splits, on held-out matrices.

    Models are trained on the measurements in INPUTS, folders or h200, which takes some minutes. With h200 h200-large
    there is a table of large matrices too.
    """
    require_training()
    from warploom.commands.train import sweeps_of
    from warploom.training.worth import large_table, worth

    with progress_bar("reading measurements") as show:
        sweeps = [sweep.only() for sweep in sweeps_of(inputs)]
        found, of_each = worth(sweeps, caches=[cache], only=chosen, progress=show)
    of_large = large_table(of_each)
    if large is not None and of_large.frame.empty:
        raise ParameterError("INPUTS have no sweep of large matrices beside another one", argument="large")
    tables = [table for table in (found, of_large) if len(table.frame)]
    click.echo("\n\n".join(map(str, tables)))
    for frame, path in ((found.frame, output), (of_large.frame, large), (of_each, rows)):
        if path is not None:
            frame.to_csv(path, index=False, lineterminator="\n")


@bench.command("orders")
@click.argument("inputs", nargs=-1, required=True)
@click.option("--cache", type=click.Choice(CACHES), default="warm", show_default=True)
def orders_command(inputs: tuple[str, ...], cache: str) -> None:
    """Print what the order of rows adds to the fastest candidates, and what it costs.

    INPUTS are folders of measurements with row orders, or h200-large.
    """
    from warploom.bench import Measurements
    from warploom.bench.orders import orders

    with progress_bar("reading measurements"):
        measured = Measurements.load(*inputs).only()
    click.echo("\n\n".join(map(str, orders(measured, cache))))


@bench.command("columns")
def columns_command() -> None:
    """Print the columns of the tables, with units."""
    from warploom.bench import describe

    click.echo(describe())

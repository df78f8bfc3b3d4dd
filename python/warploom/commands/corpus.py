"""The commands ``warploom corpus``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from warploom._terminal import print_columns
from warploom.corpus import constructions, lookup, suitesparse
from warploom.corpus import folder as list_folder
from warploom.corpus.entry import Entry
from warploom.corpus.entry import Progress as ProgressFunction
from warploom.corpus.large import large, settings_of_large
from warploom.corpus.standard import PARTS, standard
from warploom.errors import DownloadError

__all__ = ["corpus"]


def _range(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int | None, int | None]:
    """Read ``1000:30000``, ``1e3:3e4``, ``:30_000``, ``1000:`` or ``1000``."""
    least, colon, most = value.partition(":")
    try:
        return _whole(least) if least else None, _whole(most if colon else least) if most or not colon else None
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"{value!r} is not a range such as 1000:30000 or 1e3:3e4") from error


def _whole(text: str) -> int:
    number = float(text)
    if not number.is_integer():
        raise ValueError(text)
    return int(number)


@click.group()
def corpus() -> None:
    """Find, inspect and download matrices by name."""


@corpus.command("list")
@click.argument("what", metavar="[FOLDER|PART]", required=False)
def list_(what: str | None) -> None:
    """List the matrices below FOLDER, those of a part of the standard corpus or of 'large', or the constructions."""
    if what == "large":
        _print_large()
        return
    if what in PARTS:
        _print(standard(what))
        return
    if what is not None:
        if not Path(what).is_dir():
            raise click.BadParameter(f"'{what}' is neither a folder nor one of {', '.join([*PARTS, 'large'])}")
        _print(list_folder(what))
        return
    known = [constructions.find(name) for name in constructions.names()]
    print_columns((construction.name, construction.family, construction.summary) for construction in known)


@corpus.command()
@click.argument("name", default="*")
@click.option("--group", default="*", help="Pattern, such as 'HB'.")
@click.option("--kind", default="*", help="Pattern, such as '*circuit*'.")
@click.option("--structure", default="*", help="symmetric, unsymmetric, rectangular, ...")
@click.option(
    "--rows", callback=_range, default=":", metavar="LEAST:MOST", help="Both included; either may be left out."
)
@click.option("--cols", callback=_range, default=":", metavar="LEAST:MOST")
@click.option("--nnz", callback=_range, default=":", metavar="LEAST:MOST")
@click.option("--square/--not-square", default=None)
def search(name: str, **filters: Any) -> None:
    """Search the index of the SuiteSparse collection. NAME is a pattern such as 'dwt_*'."""
    found = suitesparse.search(name, **filters)
    _print(found)
    words = [text for text in (name, filters["group"], filters["kind"]) if not set(text) & set("*?[")]
    if words and not found:
        click.echo(f"patterns match all of a name: '*{words[-1]}*' finds what contains {words[-1]}", err=True)


@corpus.command()
@click.argument("name")
@click.option("--folder", "folders_", multiple=True, type=click.Path(exists=True, file_okay=False), metavar="FOLDER")
def show(name: str, folders_: tuple[str, ...]) -> None:
    """Print what is known about a matrix, without loading it."""
    entry = lookup.find(name, folders=folders_)
    for field in ("name", "kind", "family", "source", "rows", "cols", "nnz", "licence"):
        value = getattr(entry, field)
        click.echo(f"{field:<9}{'unknown before loading' if value is None else value or '-'}")


@corpus.command(short_help="Download matrices of the SuiteSparse collection.")
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--cache", type=click.Path(file_okay=False, path_type=Path), help="Instead of the user's cache directory."
)
@click.option("--site", multiple=True, metavar="URL", help="Instead of the collection's own; may be repeated.")
def download(names: tuple[str, ...], cache: Path | None, site: tuple[str, ...]) -> None:
    """Download matrices of the SuiteSparse collection, such as HB/dwt_361, into the cache, and print where they are.

    If one fails, the others are still downloaded. An interrupted transfer continues when the command is run again.
    """
    for name in names:
        suitesparse.entry(name)  # a misspelt name is found before anything is downloaded
    failures = 0
    for name in names:
        try:
            with _bar(name) as show:
                path = suitesparse.download(name, cache, show, site or suitesparse.BASE_URLS)
            click.echo(path)
        except DownloadError as error:
            failures += 1
            click.echo(f"{name}: {error}", err=True)
    if failures:
        raise DownloadError(f"{failures} of {len(names)} matrices could not be downloaded", argument="names")


@contextlib.contextmanager
def _bar(name: str) -> Iterator[ProgressFunction]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=None)

        def show(done: int, total: int | None) -> None:
            progress.update(task, completed=done, total=total)

        yield show


def _print(entries: Sequence[Entry]) -> None:
    width = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        numbers = ("?" if number is None else f"{number:,}" for number in (entry.rows, entry.cols, entry.nnz))
        click.echo(f"{entry.name:<{width}}{''.join(f'  {number:>14}' for number in numbers)}  {entry.kind}".rstrip())
    click.echo(f"name, rows, columns, nonzeros, kind; found: {len(entries)}", err=True)


def _print_large() -> None:
    entries = large()
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        numbers = "".join(f"  {number:>11,}" for number in (entry.rows, entry.cols, entry.nnz))
        settings = len(settings_of_large(entry))
        click.echo(f"{entry.name:<{width}}{numbers}  {settings:>2}  {entry.origin:<14}  {entry.family}")
    click.echo(f"name, rows, columns, nonzeros, settings, origin, family; found: {len(entries)}", err=True)

"""``warploom reproduce``: the tables and figures of the papers."""

from __future__ import annotations

import pathlib

import click

from warploom._terminal import print_columns, progress_bar

__all__ = ["reproduce"]


@click.command("reproduce")
@click.argument("ids", nargs=-1)
@click.option("--output", type=click.Path(file_okay=False), help="Folder for pictures, numbers and reports.")
@click.option(
    "--measurements",
    multiple=True,
    metavar="FOLDER|NAME",
    help="Your own sweep and experiments, or shipped ones by name; those of the H200 by default. May be repeated.",
)
@click.option("--list", "listed", is_flag=True, help="List the ids instead.")
def reproduce(ids: tuple[str, ...], output: str | None, measurements: tuple[str, ...], listed: bool) -> None:
    """Reproduce tables and figures of the papers.

    IDS are those that --list shows, such as M-F8, the letter of a paper (M, G, D or C), or all.
    """
    from warploom.reproduce import items
    from warploom.reproduce import reproduce as make
    from warploom.reproduce.run import INDEX

    if listed:
        print_columns((item.id, item.place, item.title) for item in items())
        return
    if output is None:
        raise click.UsageError("Missing option '--output'.")
    with progress_bar("reading measurements") as show:
        outcomes = make(ids, output, measurements=list(measurements) or None, progress=show)
    for outcome in outcomes:
        standing = outcome.result.verdict.sentence if outcome.result else f"not made: {outcome.reason}"
        click.echo(f"{outcome.item.id}: {standing}")
    click.echo(f"to be read in {pathlib.Path(output) / INDEX}")

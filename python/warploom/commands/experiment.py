"""``warploom experiment``: what sweeps do not measure."""

from __future__ import annotations

import click

from warploom._terminal import print_columns, progress_bar

__all__ = ["experiment"]


@click.group()
def experiment() -> None:
    """Measure what sweeps do not have: for single figures of the papers, and costs on the CPU."""


@experiment.command("list")
def list_command() -> None:
    """List the experiments, and the tables and figures that are made from them."""
    from warploom.experiments import experiments

    print_columns((known.name, ", ".join(known.items), known.title) for known in experiments())


@experiment.command("run")
@click.argument("names", nargs=-1)
@click.option("--output", required=True, type=click.Path(file_okay=False), help="Folder; may be that of a sweep.")
@click.option("--device", default="cuda", show_default=True, metavar="cuda|cuda:N", help="The GPU.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help="Stop after that and write what was measured; of experiments that can (preparation).",
)
@click.option("--all", "every", is_flag=True, help="Run all experiments.")
def run_command(names: tuple[str, ...], output: str, device: str, minutes: float | None, every: bool) -> None:
    """Run experiments by name, and write their findings as OUTPUT/experiments/NAME.csv."""
    from warploom.experiments import experiments, run
    from warploom.experiments.results import folder_of

    chosen = [known.name for known in experiments()] if every else list(names)
    with progress_bar("preparing", remaining=True) as show:
        found = run(chosen, output, device=device, progress=show, minutes=minutes)
    for findings in found:
        click.echo(f"{folder_of(output) / findings.name}.csv: {len(findings.table)} rows, {findings.device}")

"""``warploom train`` and ``warploom calibrate``."""

from __future__ import annotations

import logging

import click

from warploom import profiles
from warploom._terminal import progress_bar
from warploom.bench import Measurements
from warploom.bench.settings import SPMM, SPMV

__all__ = ["calibrate", "train"]


@click.command()
@click.argument("inputs", nargs=-1, required=True)
@click.option("--output", required=True, type=click.Path(dir_okay=False), help="The profile.")
@click.option(
    "--held-out/--no-held-out", default=True, show_default=True, help="Also score models on held-out matrices."
)
def train(inputs: tuple[str, ...], output: str, held_out: bool) -> None:
    """Train a profile on the measurements in INPUTS: folders of `warploom bench`, or h200 for the shipped ones."""
    from warploom.training.train import train as train_profile

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    profile = train_profile(Measurements.load(*inputs), splits=held_out)
    profiles.save(output, profile)
    click.echo(f"{output}: {len(profile.models)} models for {profile.gpu}")


@click.command()
@click.option("--minutes", default=10.0, show_default=True, type=click.FloatRange(min=0.1), help="Time to measure.")
@click.option("--gpu", default=0, show_default=True, type=click.IntRange(min=0), help="Number of the GPU.")
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="SETTING",
    help="Such as spmv/float64; may be repeated. All by default.",
)
@click.option("--output", type=click.Path(dir_okay=False), help="The profile; by default where plans find it.")
@click.option("--keep", type=click.Path(file_okay=False), help="Keep the measurements here, and continue them.")
def calibrate(minutes: float, gpu: int, settings: tuple[str, ...], output: str | None, keep: str | None) -> None:
    """Make a profile of your own GPU: measure for some minutes and correct the nearest profile."""
    from warploom.training import calibrate as calibration

    with progress_bar("loading", remaining=True) as show:
        done = calibration.calibrate(
            minutes, gpu=gpu, settings=settings or (*SPMM, *SPMV), output=output, keep=keep, progress=show
        )
    click.echo(str(done))

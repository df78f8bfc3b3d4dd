"""``warploom train`` and ``warploom calibrate``."""

from __future__ import annotations

import logging

import click

from warploom import profiles
from warploom._terminal import OutputFile, progress_bar
from warploom.commands import require_training
from warploom.errors import ParameterError

__all__ = ["calibrate", "train"]


@click.command()
@click.argument("inputs", nargs=-1, required=True)
@click.option("--output", required=True, type=OutputFile(allow_dash=False), help="The profile.")
@click.option(
    "--held-out/--no-held-out", default=True, show_default=True, help="Also score models on held-out matrices."
)
@click.option(
    "--profile",
    "kept",
    type=click.Path(exists=True, dir_okay=False),
    help="Keep the selectors of this profile, and fit only its models of preparation again.",
)
def train(inputs: tuple[str, ...], output: str, held_out: bool, kept: str | None) -> None:
    """Train a profile on the measurements in INPUTS: folders of `warploom bench`, or h200 for the shipped ones.

    Models of preparation are fitted to what `warploom experiment run preparation` found, where INPUTS have it, and else
    to what preparation took in the sweep.
    """
    require_training()
    from warploom.bench import Measurements
    from warploom.experiments import load as load_findings
    from warploom.training.preparation import refit_preparation
    from warploom.training.train import train as train_profile

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    findings = load_findings("preparation", inputs)
    if kept is None:
        profile = train_profile(Measurements.load(*inputs), splits=held_out)
    elif findings is None:
        raise ParameterError(
            f"{', '.join(inputs)}: no findings of preparation; `warploom experiment run preparation --output FOLDER` "
            "makes them",
            argument="inputs",
        )
    else:
        profile = profiles.load(kept)
    if findings is not None:
        refit = refit_preparation(profile, findings)
        profile = refit.profile
        for line in refit.summary():
            click.echo(line)
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
@click.option("--output", type=OutputFile(allow_dash=False), help="The profile; by default where plans find it.")
@click.option("--keep", type=click.Path(file_okay=False), help="Keep the measurements here, and continue them.")
def calibrate(minutes: float, gpu: int, settings: tuple[str, ...], output: str | None, keep: str | None) -> None:
    """Make a profile of your own GPU: measure for some minutes and correct the nearest profile."""
    require_training()
    from warploom.bench.settings import SPMM, SPMV
    from warploom.training import calibrate as calibration

    with progress_bar("loading", remaining=True) as show:
        done = calibration.calibrate(
            minutes, gpu=gpu, settings=settings or (*SPMM, *SPMV), output=output, keep=keep, progress=show
        )
    click.echo(str(done))

"""``warploom train`` and ``warploom calibrate``."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warploom import _data_package, profiles
from warploom._terminal import OutputFile, progress_bar
from warploom.commands import require_training
from warploom.errors import ParameterError

if TYPE_CHECKING:
    from warploom.bench import Measurements
    from warploom.training.train import HeldOut

__all__ = ["calibrate", "train"]


@click.command()
@click.argument("inputs", nargs=-1, required=True)
@click.option("--output", required=True, type=OutputFile(allow_dash=False), help="The profile.")
@click.option(
    "--held-out/--no-held-out", default=True, show_default=True, help="Also score trees on held-out matrices."
)
@click.option(
    "--profile",
    "kept",
    type=click.Path(exists=True, dir_okay=False),
    help="Keep the trees of this profile, and fit only its models of preparation again.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    type=click.Choice(profiles.MODELS),
    help="Train this kind of models; may be repeated. All by default, with --profile trees.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    show_default="all cores",
    help="Processes that train networks. What they learn does not depend on it.",
)
def train(
    inputs: tuple[str, ...], output: str, held_out: bool, kept: str | None, models: tuple[str, ...], workers: int
) -> None:
    """Train profiles on the measurements in INPUTS: folders of `warploom bench`, or those that ship, such as h200.

    Folders are one sweep, each of those that ship is one of its own, which may have tried other candidates. The papers'
    models are trained on the first. The profile is that of the first sweep's GPU; sweeps on other GPUs say how well the
    profile chooses there. Of what they have measured, only candidates that the first GPU has not tried count for it.

    OUTPUT is the profile of trees; those of other models are written beside it, into folders with the models' names.
    Models of preparation are fitted to what `warploom experiment run preparation` found, where INPUTS have it, and else
    to what preparation took in the sweep.
    """
    require_training()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    wanted = models or (profiles.MODELS if kept is None else ("trees",))
    target = Path(output)
    held_out_trees: dict[str, HeldOut] = {}
    sweeps = functools.cache(lambda: sweeps_of(inputs))
    if "trees" in wanted:
        trees = _train_trees(inputs, sweeps, held_out, kept, held_out_trees)
        _save(target, trees)
        _refit_beside(target.parent / "network" / target.name, trees, wanted)
    elif kept is None and not target.exists():
        raise ParameterError(
            f"{output} does not exist: other models take their candidates and models of preparation from trees; train "
            "these too, or name their profile with --profile",
            argument="model",
        )
    else:
        trees = profiles.load(kept or target)
    for model in wanted:
        if model == "trees":
            continue
        try:
            profile = _TRAINERS[model](sweeps(), trees, held_out_trees, workers)
        except ParameterError as error:
            if models:  # somebody asked for it
                raise
            click.echo(f"no {model}: {error}", err=True)
            continue
        path = target.parent / model / target.name
        path.parent.mkdir(parents=True, exist_ok=True)
        _save(path, profile)


def _save(path: Path, profile: profiles.Profile) -> None:
    profiles.save(path, profile)
    click.echo(f"{path}: {len(profile.models)} models for {profile.gpu}")


def _refit_beside(path: Path, trees: profiles.Profile, wanted: Collection[str]) -> None:
    """Give the models of preparation to a profile of networks that is there and is not trained anew."""
    from warploom.training.train_networks import preparation_models

    if "network" in wanted or not path.exists():
        return
    networks = profiles.load(path)
    old, new = preparation_models(networks), preparation_models(trees)
    if all(name in new and new[name].outputs == model.outputs for name, model in old.items()):
        models = dict(networks.models) | {name: new[name] for name in old}
        _save(path, dataclasses.replace(networks, models=models))


def sweeps_of(inputs: Sequence[str]) -> list[Measurements]:
    """Read sweeps: those that ship one by one, and all folders as one."""
    from warploom.bench import Measurements, shipped

    names = [name for name in inputs if name in shipped()]
    folders = [name for name in inputs if name not in names]
    return [Measurements.load(*group) for group in ([name] for name in names)] + (
        [Measurements.load(*folders)] if folders else []
    )


def _train_trees(
    inputs: tuple[str, ...],
    sweeps: Callable[[], list[Measurements]],
    held_out: bool,
    kept: str | None,
    held_out_trees: dict[str, HeldOut],
) -> profiles.Profile:
    from warploom.bench import shipped
    from warploom.experiments import load as load_findings
    from warploom.training.preparation import refit_preparation
    from warploom.training.train import train as train_profile

    findings = load_findings("preparation", inputs)
    if kept is None:
        profile = train_profile(sweeps(), splits=held_out, keep=held_out_trees)
    elif findings is None and not any(Path(name).exists() or name in shipped() for name in inputs):
        raise _data_package.missing(f"{', '.join(inputs)}: no such folder, and there are no measurements with a name")
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
    return profile


def _train_network(
    sweeps: list[Measurements], trees: profiles.Profile, held_out_trees: dict[str, HeldOut], workers: int
) -> profiles.Profile:
    from warploom.training.train import predicted_by_trees
    from warploom.training.train_networks import train_networks

    known = held_out_trees or predicted_by_trees(sweeps)
    with progress_bar("training networks", remaining=True) as show:
        return train_networks(sweeps, trees, progress=show, held_out_trees=known, workers=workers)


def _train_row_order(sweeps: list[Measurements], trees: profiles.Profile, *_: object) -> profiles.Profile:
    from warploom.training import row_order
    from warploom.training.train import data_hash

    models = row_order.train(sweeps[0])
    return dataclasses.replace(trees, models=models, metrics={}, data_hash=data_hash(sweeps[:1]))


def _train_threads_per_row(sweeps: list[Measurements], trees: profiles.Profile, *_: object) -> profiles.Profile:
    from warploom.training import threads_per_row
    from warploom.training.train import data_hash

    models = threads_per_row.train(sweeps[0], families=_TREES, trials=_TRIALS)
    return dataclasses.replace(trees, models=models, metrics={}, data_hash=data_hash(sweeps[:1]))


_TREES = ("boosted trees", "decision tree")
"""Families of which a profile holds the better one: forests, as good, take a hundred times the space."""

_TRIALS = 4
"""Parameters that are tried of each family."""

_TRAINERS: Mapping[str, Callable[[list[Measurements], profiles.Profile, dict[str, HeldOut], int], profiles.Profile]] = {
    "network": _train_network,
    "mehrabi2021": _train_row_order,
    "gao2024": _train_threads_per_row,
}


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
@click.option(
    "--model", default="trees", show_default=True, type=click.Choice(["trees", "network"]), help="Models to correct."
)
def calibrate(
    minutes: float, gpu: int, settings: tuple[str, ...], output: str | None, keep: str | None, model: str
) -> None:
    """Make a profile of your own GPU: measure for some minutes and correct the nearest profile."""
    require_training()
    from warploom.bench.settings import SPMM, SPMV
    from warploom.training import calibrate as calibration

    with progress_bar("loading", remaining=True) as show:
        done = calibration.calibrate(
            minutes,
            gpu=gpu,
            settings=settings or (*SPMM, *SPMV),
            output=output,
            keep=keep,
            progress=show,
            model=model,
        )
    click.echo(str(done))

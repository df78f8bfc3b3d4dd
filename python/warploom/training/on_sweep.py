"""How well the models of a profile choose on a sweep that they were not trained on.

``python -m warploom.training.on_sweep h200-k-test --output scores.csv`` does so for the profile that ships.
"""

from __future__ import annotations

import os
from pathlib import Path

import click
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom import profiles
from warploom.bench.measurements import Measurements
from warploom.errors import ParameterError
from warploom.training.blend import average
from warploom.training.data import Dataset
from warploom.training.evaluate import in_brief
from warploom.training.selector import predictions
from warploom.training.train import datasets_of, environment_of

__all__ = ["on_sweep"]


def on_sweep(measurements: Measurements, folder: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """Choose on the matrices of a sweep, and compare with the fastest candidate that it has.

    Parameters
    ----------
    measurements : Measurements
        Of one GPU.
    folder : path-like, optional
        Where the profiles of trees and, in ``network``, of networks of this GPU are; by default those that ship.

    Returns
    -------
    pandas.DataFrame
        A line for each model (``setting``), number of columns (``k``, 0 for all of them together) and way to choose
        (``trees``, ``network``, or ``blend``, as plans do by default, which may be trees alone): ``rows``,
        ``oracle_share`` (geometric mean of the minimum time over that of the choice) and ``slower_than_vendor`` (share
        of the rows).

    Raises
    ------
    ParameterError
        The sweep is not of one GPU, there is no profile of it, or none of its models is of what was measured.
    """
    trees, network = _profiles(measurements, folder)
    blends = network.metrics.get("blend", {})
    lines = []
    for found in datasets_of([measurements], ("warm", "cold")):
        for name, dataset in found.items():
            if name not in trees.models or name not in network.models:
                continue
            scores = {
                "trees": predictions(trees.models[name], dataset),
                "network": predictions(network.models[name], dataset),
            }
            blend = blends.get(name)
            scores["blend"] = average(scores["trees"], scores["network"], blend["share"]) if blend else scores["trees"]
            for way, predicted in scores.items():
                chosen = np.asarray(predicted.argmin(axis=1), dtype=np.intp)
                lines += [_line(name, way, dataset, chosen, k) for k in (0, *np.unique(dataset.k).tolist())]
    if not lines:
        raise ParameterError("the profiles have no model of what was measured", argument="measurements")
    return pd.DataFrame(lines)


def _profiles(
    measurements: Measurements, folder: str | os.PathLike[str] | None
) -> tuple[profiles.Profile, profiles.Profile]:
    """Return the profiles of trees and of networks."""
    gpu = str(environment_of([measurements])["gpu"])
    trees = profiles.shipped_path(gpu) if folder is None else Path(folder) / profiles.shipped_path(gpu).name
    network = trees.parent / "network" / trees.name
    for path in (trees, network):
        if not path.exists():
            raise ParameterError(f"there is no profile of {gpu} at {path}", argument="folder")
    return profiles.load(trees), profiles.load(network)


def _line(name: str, way: str, dataset: Dataset, chosen: NDArray[np.intp], k: int) -> dict[str, object]:
    of_k = dataset.k == k if k else np.ones(len(dataset), dtype=np.bool_)
    return {"setting": name, "k": k, "chosen_by": way} | in_brief(dataset.rows(of_k), chosen[of_k])


@click.command()
@click.argument("inputs", nargs=-1, required=True)
@click.option("--profiles", "folder", type=click.Path(exists=True, file_okay=False), help="By default those that ship.")
@click.option("--output", type=click.Path(dir_okay=False), help="A table of comma-separated values.")
def main(inputs: tuple[str, ...], folder: str | None, output: str | None) -> None:
    """Say how well profiles choose on the measurements in INPUTS."""
    table = on_sweep(Measurements.load(*inputs), folder)
    if output is not None:
        table.to_csv(output, index=False, lineterminator="\n")
    click.echo(table.to_string(index=False))


if __name__ == "__main__":
    main()

"""Runs experiments."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence

from warploom._device import Device
from warploom.bench.environment import clock_mhz, environment
from warploom.bench.store import make_folder
from warploom.errors import ParameterError
from warploom.experiments.registry import Experiment, Progress, find
from warploom.experiments.results import Findings, folder_of

__all__ = ["run"]


def run(
    names: str | Sequence[str],
    output: str | os.PathLike[str],
    *,
    device: str = "cuda",
    progress: Progress | None = None,
    minutes: float | None = None,
) -> list[Findings]:
    """Run experiments, and write what each finds as ``experiments/<name>.csv`` in a folder.

    Parameters
    ----------
    names : str or sequence of str
        Names of experiments.
    output : path-like
        The folder; made if it does not exist. It may be that of a sweep.
    device : str
        ``"cuda"`` or ``"cuda:1"``. What is about the CPU is measured there all the same.
    progress : callable, optional
        Called with steps done, steps in total and what is done next, for each experiment from the start.
    minutes : float, optional
        When an experiment that can be limited (`Experiment.can_be_limited`) stops, with what it has measured until
        then; the others are measured as a whole.

    Returns
    -------
    list of Findings
        In the order of the names. Each is written when it has been made.

    Raises
    ------
    ParameterError
        There is no such experiment, or an experiment is about GPUs and the device is none. Raised before anything is
        measured.
    DeviceError
        There is no such GPU.
    StorageError
        A file cannot be written; for a folder that cannot be made, before anything is measured.
    """
    chosen = [find(name) for name in ([names] if isinstance(names, str) else names)]
    if not chosen:
        raise ParameterError("name at least one experiment", argument="names")
    of_gpu = [experiment.name for experiment in chosen if experiment.kind == "cuda"]
    where = {"cpu": Device("cpu")}
    if of_gpu:
        where["cuda"] = Device.parse(device)
        if where["cuda"].kind != "cuda":
            raise ParameterError(f"{', '.join(of_gpu)}: about GPUs, got device '{device}'", argument="device")
    make_folder(folder_of(output))
    return [_run(experiment, where[experiment.kind], output, progress or _silent, minutes) for experiment in chosen]


def _run(
    experiment: Experiment, device: Device, output: str | os.PathLike[str], progress: Progress, minutes: float | None
) -> Findings:
    described = environment(device)
    limits = {} if minutes is None or not experiment.can_be_limited else {"minutes": minutes}
    table = experiment.measure(device, progress, **limits)[list(experiment.columns)]
    facts = {**described, "clock_mhz": clock_mhz(device)}
    found = Findings(experiment.name, table, facts, datetime.datetime.now(datetime.timezone.utc).date().isoformat())
    found.save(output)
    return found


def _silent(done: int, total: int, what: str) -> None:
    """Show nothing."""

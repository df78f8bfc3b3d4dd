"""How good choices are beyond what was measured: at a k that was left out, and above all sizes of the training data.

``python -m warploom.training.beyond h200 --output beyond.csv`` makes the table from the measurements that ship.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import click
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.bench.measurements import Measurements
from warploom.bench.medians import default_of_vendor, is_vendor
from warploom.candidates import Candidate, kernels
from warploom.errors import ParameterError
from warploom.training.between import rows_between_each
from warploom.training.data import Dataset
from warploom.training.evaluate import in_brief
from warploom.training.joint_network import JointOptions, descend
from warploom.training.selector import DEFAULTS, WORST, candidates_of, fit, inputs_of, predictions
from warploom.training.train_networks import datasets_by_operation

__all__ = ["LARGE", "beyond"]

LARGE = 1_000_000
"""Nonzeros: smaller matrices are trained on, and choices made for the others."""

LEFT_OUT = (8, 32, 128, 512)
"""Numbers of columns, one of which is left out."""

_FEWEST = 20
_OF_VENDOR = 3
"""Of the vendor's candidates, how many plans measure for such sizes."""
_Chosen = NDArray[np.intp]


@dataclasses.dataclass(frozen=True)
class _Split:
    name: str
    trained: Callable[[Dataset], NDArray[np.bool_]]
    """Rows to train on; choices are made for the others."""
    by_size: bool = False


def _splits(op: str) -> list[_Split]:
    found = [_Split(f"trained below {LARGE:,} nonzeros", lambda dataset: dataset.nnz < LARGE, by_size=True)]
    if op == "spmm":
        found += [_Split(f"k = {k} left out", lambda dataset, k=k: dataset.k != k) for k in LEFT_OUT]  # type: ignore[misc]
    return found


def beyond(measurements: Measurements, options: JointOptions | None = None) -> pd.DataFrame:
    """Train without some sizes or a k, and choose for these.

    Parameters
    ----------
    measurements : Measurements
        Of one GPU.
    options : JointOptions, optional

    Returns
    -------
    pandas.DataFrame
        A line for each split, setting and way to choose (``trees``, ``network``, ``fixed``: the candidate that loses
        least where models are trained): ``rows``, ``oracle_share``, ``slower_than_vendor``. For sizes that were left
        out also ``trees, measured`` and ``network, measured``: plans know that they have seen none such, and with
        ``calls=math.inf`` measure, beside what a model chooses, the first three of the vendor's candidates and those
        for large matrices (`warploom.candidates.Kernel.for_large`).

    Raises
    ------
    ParameterError
        No setting has at least 20 rows on both sides of a split.
    """
    lines = []
    for op, named in datasets_by_operation([measurements], ("warm", "cold")).items():
        for split in _splits(op):
            parts = {}
            for name, dataset in named.items():
                known = split.trained(dataset)
                if min(known.sum(), (~known).sum()) >= _FEWEST:
                    parts[name] = (dataset.rows(known), dataset.rows(~known))
            if not parts:
                continue
            candidates = [candidates_of(known, DEFAULTS[op]) for known, _ in parts.values()]
            inputs = [inputs_of(named[name], DEFAULTS[op]) for name in parts]
            between = rows_between_each([known for known, _ in parts.values()])
            states = descend(
                [known for known, _ in parts.values()], inputs, candidates, options or JointOptions(), between=between
            )
            for i, (name, (train, others)) in enumerate(parts.items()):
                models = {
                    "trees": fit(train, DEFAULTS[op], candidates[i], between=between[i]),
                    "network": states[-1][1].model(i),
                }
                predicted = {way: predictions(model, others) for way, model in models.items()}
                ways: dict[str, _Chosen] = {way: scores.argmin(axis=1) for way, scores in predicted.items()}
                ways["fixed"] = _fixed(train, others, candidates[i])
                if split.by_size:
                    ways |= {f"{way}, measured": _measured(scores, others) for way, scores in predicted.items()}
                lines += [_line(split.name, name, way, others, chosen) for way, chosen in ways.items()]
    if not lines:
        raise ParameterError(f"no setting has {_FEWEST} rows on both sides of a split", argument="measurements")
    return pd.DataFrame(lines)


def _fixed(known: Dataset, others: Dataset, candidates: Sequence[str]) -> _Chosen:
    """Return the candidate that loses least on what is known; where none of them can run, the vendor's default."""
    ratio = np.log(known.columns(candidates).times / known.best[:, np.newaxis])
    losses = np.minimum(np.where(np.isfinite(ratio), ratio, WORST), WORST).mean(axis=0)
    rank = np.full(len(others.candidates), 2 * WORST)
    rank[others.candidates.index(default_of_vendor(others.op))] = WORST
    rank[[others.candidates.index(name) for name in candidates]] = losses
    possible = others.supported & np.isfinite(others.times)
    return np.asarray(np.where(possible, rank, np.inf).argmin(axis=1), dtype=np.intp)


def _measured(predicted: NDArray[np.float64], others: Dataset) -> _Chosen:
    """Return the fastest of what plans measure for sizes that they have not seen, short lists left out."""
    chosen = np.asarray(predicted.argmin(axis=1), dtype=np.intp)
    large = {Candidate.make(kernel, "none").name for kernel in kernels(others.op) if kernel.for_large}
    listed = np.zeros(predicted.shape, dtype=bool)
    listed[:, [i for i, name in enumerate(others.candidates) if name in large]] = True
    vendor = np.where([is_vendor(name) for name in others.candidates], predicted, np.inf)
    rank = vendor.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    listed |= (rank < _OF_VENDOR) & np.isfinite(vendor)
    rows = np.arange(len(predicted))
    listed[rows, chosen] = True
    times = np.where(listed & others.supported & np.isfinite(others.times), others.times, np.inf)
    # Where the sweep lacks the time of the first choice, no other one is made.
    return np.where(np.isfinite(times[rows, chosen]), times.argmin(axis=1), chosen)


def _line(split: str, setting: str, way: str, dataset: Dataset, chosen: _Chosen) -> dict[str, object]:
    return {"split": split, "setting": setting, "chosen_by": way} | in_brief(dataset, chosen)


@click.command()
@click.argument("inputs", nargs=-1, required=True)
@click.option("--output", required=True, type=click.Path(dir_okay=False), help="A table of comma-separated values.")
def main(inputs: tuple[str, ...], output: str) -> None:
    """Say how good choices are beyond what was measured, from the measurements in INPUTS."""
    table = beyond(Measurements.load(*inputs))
    table.to_csv(output, index=False)
    click.echo(table.to_string(index=False))


if __name__ == "__main__":
    main()

"""Writes ``essential.txt`` beside it: the candidates that suffice, chosen from measurements.

Usage: ``python -m warploom.bench.make_essential MEASUREMENTS...``, with folders of sweeps, or ``h200`` for the shipped.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd

from warploom.bench import Measurements
from warploom.bench.measure import is_compared
from warploom.bench.settings import SPMM, SPMV
from warploom.candidates import parse

__all__ = ["main", "suffice"]

_TARGET = pathlib.Path(__file__).with_name("essential.txt")
_LOSS = 0.0015
"""Mean logarithm of the time over that of the fastest."""


def main(sources: Sequence[str]) -> None:
    """Write the file.

    Parameters
    ----------
    sources : sequence of str
        What `Measurements.load` takes.
    """
    rows = Measurements.load(*sources).measurements
    rows = rows[(rows["run"] == 0) & (rows["status"] == "ok")]
    lines = [
        f"# Written by warploom.bench.make_essential from {rows['matrix'].nunique()} matrices: what tables compare,",
        f"# and what it takes to miss the fastest by at most {100 * _LOSS:g} % on average.",
    ]
    for setting in (*SPMM, *SPMV):
        part = rows[rows["setting"] == setting].astype({"matrix": str, "cache": str, "candidate": str})
        times = part.pivot_table(index=["matrix", "cache"], columns="candidate", values="median_us")
        lines += [f"[{setting}]", *sorted(suffice(times))]
    _TARGET.write_text("\n".join(lines) + "\n")


def suffice(times: pd.DataFrame, loss: float = _LOSS) -> set[str]:
    """Add candidates to those that tables compare, one after the other, each the one that lowers the loss most.

    Parameters
    ----------
    times : pandas.DataFrame
        A column for each candidate; NaN where there is no time.
    loss : float
        Where to end: the mean logarithm of the least time of those chosen over that of all.

    Returns
    -------
    set of str
    """
    names = list(times.columns)
    logs = np.nan_to_num(np.log(times.div(times.min(axis=1), axis=0)).to_numpy(), nan=np.log(10.0)).clip(max=np.log(10))
    chosen = {n for n in names if is_compared(parse(n))}
    best = logs[:, [names.index(n) for n in chosen]].min(axis=1)
    while best.mean() > loss:
        added = int(np.minimum(best[:, None], logs).mean(axis=0).argmin())
        chosen.add(names[added])
        best = np.minimum(best, logs[:, added])
    return chosen


if __name__ == "__main__":
    main(sys.argv[1:])

"""Write python/warploom/bench/essential.txt: the candidates that suffice, chosen from measurements.

Usage: make_essential_portfolio.py MEASUREMENTS...
"""

import pathlib
import sys

import numpy as np

from warploom.bench import Measurements
from warploom.bench.measure import is_compared
from warploom.bench.settings import SPMM, SPMV
from warploom.candidates import parse

TARGET = pathlib.Path(__file__).parents[1] / "python" / "warploom" / "bench" / "essential.txt"
LOSS = 0.0015  # mean logarithm of the time over that of the fastest


def main() -> None:
    rows = Measurements.load(*sys.argv[1:]).measurements
    rows = rows[(rows["run"] == 0) & (rows["status"] == "ok")]
    lines = [
        f"# Written by make_essential_portfolio.py from {rows['matrix'].nunique()} matrices: what tables compare,",
        f"# and what it takes to miss the fastest by at most {100 * LOSS:g} % on average.",
    ]
    for setting in (*SPMM, *SPMV):
        part = rows[rows["setting"] == setting].astype({"matrix": str, "cache": str, "candidate": str})
        times = part.pivot_table(index=["matrix", "cache"], columns="candidate", values="median_us")
        lines += [f"[{setting}]", *sorted(suffice(times))]
    TARGET.write_text("\n".join(lines) + "\n")


def suffice(times) -> set[str]:
    """Candidates, added one after the other, each the one that lowers the loss most."""
    names = list(times.columns)
    logs = np.nan_to_num(np.log(times.div(times.min(axis=1), axis=0)).to_numpy(), nan=np.log(10.0)).clip(max=np.log(10))
    chosen = {n for n in names if is_compared(parse(n))}
    best = logs[:, [names.index(n) for n in chosen]].min(axis=1)
    while best.mean() > LOSS:
        added = int(np.minimum(best[:, None], logs).mean(axis=0).argmin())
        chosen.add(names[added])
        best = np.minimum(best, logs[:, added])
    return chosen


if __name__ == "__main__":
    main()

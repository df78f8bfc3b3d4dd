"""Draw the README's picture from measurements of benchmarks/spmm.py.

``python benchmarks/plot_spmm.py spmm.csv.gz docs/speedups.png`` (needs matplotlib).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import pathlib
import sys

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from generated import generated

COLOURS = {"real": "#0072B2", "large": "#D55E00"}  # from the Okabe-Ito palette: safe for colour-blind readers


def read(path: pathlib.Path) -> dict[tuple[str, str, str, str], tuple[int, dict[str, float]]]:
    """(layout, k, cache, matrix) -> (nonzeros, candidate -> median in microseconds)."""
    opener = gzip.open if path.suffix == ".gz" else open
    groups: dict[tuple[str, str, str, str], tuple[int, dict[str, float]]] = {}
    with opener(path, "rt") as file:
        for row in csv.DictReader(file):
            if row["median_us"]:
                key = (row["layout"], row["k"], row["cache"], row["matrix"])
                groups.setdefault(key, (int(row["nnz"]), {}))[1][row["candidate"]] = float(row["median_us"])
    return groups


def speedups(groups, layout, k, cache):
    """Yield (nonzeros, is large, speedup of warploom's best over the vendor's best) of each matrix."""
    large = set(generated())
    for (*setting, matrix), (nnz, times) in groups.items():
        vendor = [t for name, t in times.items() if "/cusparse" in name]
        ours = [t for name, t in times.items() if "/cusparse" not in name]
        if setting == [layout, k, cache] and vendor and ours:
            yield nnz, matrix in large, min(vendor) / min(ours)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    options = parser.parse_args()
    groups = read(options.measurements)
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, constrained_layout=True)
    for panel, layout in zip(panels, ("row", "column"), strict=True):
        points = np.array(list(speedups(groups, layout, "128", "cold")))
        for name, flag in (("real", 0), ("large", 1)):
            chosen = points[points[:, 1] == flag]
            mean = np.exp(np.log(chosen[:, 2]).mean())
            label = {"real": "collected matrices", "large": "generated, larger"}[name]
            panel.scatter(
                chosen[:, 0],
                chosen[:, 2],
                s=14,
                color=COLOURS[name],
                alpha=0.75,
                linewidths=0,
                label=f"{label}: {len(chosen)}, geometric mean {mean:.2f}x",
            )
        panel.axhline(1, color="black", linewidth=0.8)
        panel.set(xscale="log", yscale="log", xlabel="nonzeros of A", title=f"{layout}-major B and C")
        panel.set_yticks([0.7, 1, 1.5, 2, 3, 5, 10], ["0.7", "1", "1.5", "2", "3", "5", "10"])
        panel.minorticks_off()
        panel.grid(True, linewidth=0.3)
        panel.legend(loc="upper left", fontsize=8, framealpha=0.9)
    panels[0].set_ylabel("speedup over the fastest\nof cuSPARSE's algorithms")
    figure.suptitle("SpMM, float32, k = 128, L2 cold, NVIDIA H200, CUDA 13.0, cuSPARSE 12.6.3", fontsize=10)
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.picture, dpi=160)


if __name__ == "__main__":
    main()

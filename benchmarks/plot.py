"""Draw the README's picture from measurements of benchmarks/spmm.py and benchmarks/spmv.py.

``python benchmarks/plot.py spmm.csv.gz spmv.csv.gz docs/speedups.png`` (needs matplotlib) and prints how many matrices
each panel shows, for the caption.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from measurements import Case, geometric_mean, read

# From the Okabe-Ito palette: safe for colour-blind readers.
KINDS = {False: ("collected", "#0072B2", "o"), True: ("generated", "#D55E00", "^")}
TICKS = [0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20]
CLOSE_TICKS = [0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 2.5, 3]  # where the axis spans little


def draw(panel: Axes, title: str, cases: list[Case]) -> None:
    means = []
    for is_generated, (label, colour, marker) in KINDS.items():
        chosen = [c for c in cases if c.is_generated == is_generated]
        if not chosen:
            continue
        speedups = [c.speedup for c in chosen]
        means.append(f"{label} {geometric_mean(speedups):.2f}x")
        panel.scatter(
            [c.nnz for c in chosen], speedups, s=13, color=colour, marker=marker, alpha=0.7, linewidths=0, label=label
        )
        print(f"{title}: {len(chosen)} {label}")
    panel.axhline(1, color="black", linewidth=0.8)
    panel.set_title(f"{title}\n{', '.join(means)}", fontsize=9)
    panel.set(xscale="log", yscale="log")
    panel.grid(True, linewidth=0.3)


def draw_row(part: SubFigure, title: str, panels: dict[str, list[Case]]) -> None:
    """Draw panels that share their axes, side by side."""
    part.suptitle(title, fontsize=10, fontweight="bold")
    axes = part.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for panel, (name, cases) in zip(axes, panels.items(), strict=True):
        draw(panel, name, cases)
        panel.set_xlabel("nonzeros of A", fontsize=9)
        panel.tick_params(labelsize=8)
    low, high = axes[0].get_ylim()
    ticks = [t for t in (TICKS if high > 4 * low else CLOSE_TICKS) if low <= t <= high]
    axes[0].set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes[0].minorticks_off()
    axes[0].set_ylabel("speedup over the best\nof cuSPARSE", fontsize=9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spmm", type=pathlib.Path)
    parser.add_argument("spmv", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    options = parser.parse_args()
    spmm = read([options.spmm], "layout", "k", "cache")
    spmv = read([options.spmv], "dtype", "cache")
    figure = plt.figure(figsize=(9.5, 6.4), layout="constrained")
    upper, lower = figure.subfigures(2, 1, hspace=0.04, squeeze=False)[:, 0]
    draw_row(
        upper,
        "SpMM, float32, 128 columns, L2 cold",
        {f"{layout}-major B and C": spmm[layout, "128", "cold"] for layout in ("row", "column")},
    )
    draw_row(
        lower,
        "SpMV, L2 cold",
        {dtype: spmv[dtype, "cold"] for dtype in ("float64", "float32", "float16") if (dtype, "cold") in spmv},
    )
    handles, labels = upper.axes[0].get_legend_handles_labels()
    upper.axes[0].legend(handles, [f"{label} matrices" for label in labels], loc="upper left", fontsize=8)
    figure.supxlabel(
        "NVIDIA H200, CUDA 13.0, cuSPARSE 12.6.3. Every point is one matrix; above each panel are geometric means.",
        fontsize=8,
    )
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.picture, dpi=150)


if __name__ == "__main__":
    main()

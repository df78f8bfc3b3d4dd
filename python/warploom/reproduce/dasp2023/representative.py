"""Lu and Liu (2023), DASP: the 21 representative matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from warploom import corpus
from warploom.bench.medians import geometric_mean
from warploom.corpus import suitesparse
from warploom.reproduce import drawing
from warploom.reproduce.context import Context
from warploom.reproduce.dasp2023.tensor_cores import DOUBLE, HALF
from warploom.reproduce.registry import Printed, register
from warploom.reproduce.result import Claim, Result, judge

__all__ = ["REPRESENTATIVE", "available"]

REPRESENTATIVE: Mapping[str, tuple[str, str]] = {
    "Boeing/pwtk": ("217K", "11.5M"),
    "Freescale/FullChip": ("2.9M", "26.6M"),
    "Andrianov/mip1": ("66K", "10.4M"),
    "Williams/mc2depi": ("525K", "2M"),
    "Williams/webbase-1M": ("1M", "3.1M"),
    "Freescale/circuit5M": ("5.5M", "59M"),
    "PARSEC/Si41Ge41H72": ("185K", "15M"),
    "PARSEC/Ga41As41H72": ("268K", "18.4M"),
    "LAW/in-2004": ("1.4M", "16.9M"),
    "LAW/eu-2005": ("862K", "19M"),
    "DNVS/shipsec1": ("140K", "7.8M"),
    "Williams/mac_econ_fwd500": ("206K", "1.2M"),
    "Hamm/scircuit": ("170K", "959K"),
    "Williams/pdb1HYS": ("36K", "4.3M"),
    "Williams/consph": ("83K", "6M"),
    "Williams/cant": ("62K", "4M"),
    "Williams/cop20k_A": ("121K", "2.6M"),
    "IBM_EDA/dc2": ("116K", "766K"),
    "Bova/rma10": ("46.8K", "2.3M"),
    "QCD/conf5_4-8x8-10": ("49K", "1.9M"),
    "Sandia/ASIC_680k": ("682K", "3.8M"),
}
"""The matrices of Table 2 by their full names, with rows and nonzeros as printed."""


def available() -> pd.DataFrame:
    """Return how the representative matrices can be obtained here.

    Returns
    -------
    pandas.DataFrame
        ``matrix``, ``rows``, ``nnz`` and ``obtained``: construction, folder, or download for those that have to be
        fetched from the collection.
    """
    index = suitesparse.index()
    rows = []
    for name in REPRESENTATIVE:
        source = corpus.find(name, prefer_constructions=True).source
        rows.append((name, index[name].rows, index[name].nnz, "download" if source == "suitesparse" else source))
    return pd.DataFrame(rows, columns=["matrix", "rows", "nnz", "obtained"])


@register(
    "D-T2",
    "The 21 representative matrices",
    "Table 2",
    "Twenty-one matrices of many kinds are examined one by one.",
    printed=[Printed("matrices", 21, "Table 2", ".0f")],
    position=11.5,
)
def representative(context: Context) -> Result:
    """List the matrices, and whether they were measured or can be obtained."""
    frame = available()
    measured = context.facts.index if context.measurements is not None else ()
    frame["measured"] = ["no" if context.measured_as(name, measured) is None else "yes" for name in frame["matrix"]]
    frame["paper's size"] = [REPRESENTATIVE[name][0] for name in frame["matrix"]]
    frame["paper's nnz"] = [REPRESENTATIVE[name][1] for name in frame["matrix"]]
    at_hand = frame["obtained"] != "download"
    there = int((frame["measured"] == "yes").sum())
    untested = [
        f"a list has nothing to test; of its matrices {there} were measured, {int(at_hand.sum())} are constructed or "
        f"in a folder, and {int((~at_hand).sum())} are to be downloaded from the SuiteSparse collection"
    ]
    figure = drawing.table(frame)
    caption = (
        "Rows and nonzeros from the collection's index and as the paper prints them; where each can be obtained. 21 "
        "matrices, nothing measured."
    )
    return Result([frame], figure, caption, judge("here", untested=untested), {"matrices": float(len(frame))})


_FEW = 6
"""Maximum number of names beside each other."""


@register(
    "D-F11",
    "The representative matrices in float64 and float16",
    "Fig. 11",
    "DASP is the fastest on most of the 21 matrices in both precisions.",
    sweeps=[DOUBLE, HALF],
)
def on_representative(context: Context) -> Result:
    """Draw the throughput on those of the 21 that were measured."""
    found = {}
    for sweep, dtype in ((DOUBLE, "float64"), (HALF, "float16")):
        times = context.times(sweep, ("DASP", "cuSPARSE"))
        measured = {name: context.measured_as(name, times.index) for name in REPRESENTATIVE}
        found[dtype] = times.reindex(filter(None, measured.values())).set_axis(
            [name for name, own in measured.items() if own is not None]
        )
    names = [name for name in REPRESENTATIVE if all(name in times.index for times in found.values())]
    if not names:
        listed = " ".join(f"--matrices {name}" for name in REPRESENTATIVE)
        raise context.missing(
            f"times of the 21 representative matrices ({', '.join(REPRESENTATIVE)})",
            f"warploom bench run --output sweep {listed} --setting {DOUBLE.setting} --setting {HALF.setting}",
        )
    constructed = [name for name in names if name not in context.facts.index]
    figure = drawing.figure(4.2 if len(names) > _FEW else 3.2, width=drawing.PAGE)
    own_names = pd.Index([context.measured_as(name, context.facts.index) for name in names])
    nnz = context.sizes(own_names)["nnz"].set_axis(names)
    tables, claims = [], []
    for axis, (dtype, times) in zip(figure.subplots(2, 1), found.items(), strict=True):
        rates = times.loc[names].rdiv(2.0 * nnz, axis=0) / 1e3
        width = 0.8 / len(rates.columns)
        for place, name in enumerate(rates):
            positions = np.arange(len(names)) + (place + 0.5) * width - 0.4
            axis.bar(positions, rates[name].fillna(0), width, color=drawing.colour(name), label=name)
            for absent in positions[rates[name].isna().to_numpy()]:
                axis.text(absent, 0, " not measured", rotation=90, ha="center", va="bottom", color="#555555")
        turned: dict[str, Any] = {"rotation": 40, "ha": "right"} if len(names) > _FEW else {}
        axis.set_xticks(range(len(names)), [name.split("/")[1] for name in names], **turned)
        axis.set_ylabel("GFLOP/s")
        axis.set_title(dtype, loc="left")
        axis.legend(ncols=5, loc="lower right", bbox_to_anchor=(1, 1))
        fastest = int((rates["DASP"] >= rates.max(axis=1)).sum())
        gain = geometric_mean(rates["DASP"] / rates["cuSPARSE"])
        claims.append(
            Claim(
                f"DASP is the fastest on most of them in {dtype}",
                2 * fastest > len(names),
                f"on {fastest} of the {len(names)} that were measured, {gain:.2f} times cuSPARSE",
            )
        )
        table = rates.add_suffix(" GFLOP/s").reset_index(names="matrix")
        table.insert(1, "origin", context.origins(own_names))
        tables.append(table.assign(dtype=dtype))
    untested = []
    if 2 * len(names) <= len(REPRESENTATIVE):
        found_so_far = "; ".join(claim.found for claim in claims)
        untested = [f"{len(names)} of {len(REPRESENTATIVE)} matrices are too few to say ({found_so_far})"]
        claims = []
    absent = [name for name in REPRESENTATIVE if name not in names]
    missing = f" Not measured: {', '.join(absent)}." if absent else ""
    made = f" By their constructions, with other values: {', '.join(constructed)}." if constructed else ""
    text = f"Throughput on {len(names)} of the 21 representative matrices.{made}{missing}"
    caption = context.caption(text, DOUBLE, own_names).replace("spmv/float64", "spmv/float64 and spmv/float16")
    return Result(tables, figure, caption, judge(context.where(), *claims, untested=untested))

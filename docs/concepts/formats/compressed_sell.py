"""The picture of CompressedSELL: what the format saves is seen on larger matrices."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from warploom import examples
from warploom.formats import CSR, CompressedSELL
from warploom.reproduce import drawing


def draw() -> Figure:
    """Draw bytes for each nonzero beside those of CSR."""
    rows = []
    for name in ("gr_30_30", "poisson_64", "Trefethen_2000", "mycielskian10"):
        A = examples.load(name).astype(np.float32)
        stored, csr = CompressedSELL.from_csr(A), CSR.from_csr(A)
        used = ", ".join(f"{encoding} {count}" for encoding, count in stored.encodings.items() if count)
        rows.append(
            (
                name,
                csr.nbytes / csr.nnz - 4,
                stored.index_bytes_per_nonzero,
                4 * (1 + stored.padding_ratio),
                used,
            )
        )
    frame = pd.DataFrame(rows, columns=["matrix", "csr", "index", "values", "used"])
    figure = drawing.figure(2.1, width=drawing.PAGE)
    axis = figure.subplots()
    places = np.arange(len(frame))
    dark, light = drawing.COLOURS["SELL"], "#BDB7E0"
    for offset, values, index, kind in (
        (-0.2, np.full(len(frame), 4.0), frame["csr"], "CSR"),
        (0.2, frame["values"], frame["index"], "CompressedSELL"),
    ):
        fills = ("#CCCCCC", "#777777") if kind == "CSR" else (light, dark)
        axis.barh(places + offset, values, 0.36, color=fills[0], label=f"{kind}: values")
        axis.barh(places + offset, index, 0.36, left=values, color=fills[1], label=f"{kind}: everything else")
    for place, (values, index, used) in enumerate(zip(frame["values"], frame["index"], frame["used"], strict=True)):
        axis.text(values + index + 0.1, place + 0.2, f"segments: {used}", va="center")
    axis.set_yticks(places, frame["matrix"])
    axis.invert_yaxis()
    axis.set(xlabel="bytes for each nonzero (float32)", xlim=(0, 1.9 * float((frame["values"] + frame["index"]).max())))
    figure.legend(loc="outside upper center", ncols=4)
    return figure

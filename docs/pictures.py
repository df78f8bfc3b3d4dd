"""Pictures of storage formats and row permutations, drawn from what the package computes for small matrices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import scipy.sparse
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from warploom import examples, features, permutations
from warploom.bench.rendering import Summary
from warploom.formats import BSR, CMRS, COO, CSR, DASP, DCSR, ELL, HYB, SELL, ColumnPanels, CompressedSELL, Format
from warploom.reproduce import drawing
from warploom.reproduce.cmrs2014.example import EQ_2_1
from warploom.reproduce.dasp2023.example import FIG_5, matrix_of_row_lengths
from warploom.reproduce.mehrabi2021.example import FIG_1, cache_lines_of_groups, example_of_orders

__all__ = ["example", "permutation", "permutations_table", "storage", "style"]

ROW_COLOURS = ("#9ECAE1", "#F5C06B", "#8FD1B8", "#E3A6C6", "#C9C46A")
"""Light enough for black text; neighbours differ in lightness too."""
PADDING = "#E4E4E4"
POINTERS = "#FFFFFF"

WARPS = 4
LINE = 32


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw as the reproduced figures are drawn."""
    with mpl.rc_context(drawing.STYLE):
        yield


# ----- formats -----


def example() -> scipy.sparse.csr_array:
    """Return the matrix of eq. 2.1 of Koza et al. (2014)."""
    return EQ_2_1


def storage(name: str) -> Figure:
    """Draw how a format stores its example.

    Parameters
    ----------
    name : str
        As in the names of candidates.
    """
    return _DRAWN[name]()


Arrays = Sequence[tuple[str, NDArray[Any], NDArray[Any] | None]]
"""Name, elements and, for arrays with an element for each place, the values in these places; 0 where there is none."""


def _boxes(A: scipy.sparse.csr_array, stored: Format, arrays: Arrays, note: str = "") -> Figure:
    """Draw a matrix and, in the colours of its rows, arrays that store it."""
    row_of = {float(value): int(row) for row, value in zip(*_entries(A), strict=True)}

    def fill(value: float) -> str:
        return ROW_COLOURS[row_of[float(value)] % len(ROW_COLOURS)] if float(value) in row_of else PADDING

    widest = max(len(elements) for _, elements, _ in arrays)
    figure = drawing.figure(0.35 + 0.235 * max(len(arrays), A.shape[0]), width=drawing.PAGE)
    left, right = figure.subplots(1, 2, width_ratios=[A.shape[1] + 0.5, max(widest, 14) + 7])
    dense = A.toarray()
    texts = [[f"{v:g}" if v else "" for v in line] for line in dense]
    drawing.pattern(left, texts, lambda row, col: fill(dense[row, col]) if dense[row, col] else None)
    fills = {name: None if places is None else [fill(v) for v in places] for name, _, places in arrays}
    drawing.arrays(
        right,
        {name: [f"{v:g}" for v in elements.tolist()] for name, elements, _ in arrays},
        colours=lambda name, place: (fills[name] or [POINTERS] * widest)[place],
    )
    right.set_xlim(-0.1, max(widest, 14) + 0.1)
    figure.suptitle(
        f"{type(stored).__name__}: {_size(stored)}{note}",
        fontsize=7.5,
    )
    return figure


def _size(stored: Format) -> str:
    padding = round(stored.padding_ratio * stored.nnz)
    places = {0: "no padding", 1: "1 place of padding"}.get(padding, f"{padding} places of padding")
    return f"{stored.nnz} nonzeros in {stored.nbytes:,} bytes, {places}"


def _entries(A: scipy.sparse.csr_array) -> tuple[NDArray[Any], NDArray[Any]]:
    coordinates = A.tocoo()
    return coordinates.row, coordinates.data


def _csr() -> Figure:
    A = example()
    stored = CSR.from_csr(A)
    return _boxes(
        A,
        stored,
        [
            ("indptr", stored.indptr, None),
            ("indices", stored.indices, stored.data),
            ("data", stored.data, stored.data),
        ],
    )


def _dcsr() -> Figure:
    A = FIG_1  # of Mehrabi et al. (2021)
    stored = DCSR.from_csr(A)
    return _boxes(
        A,
        stored,
        [
            ("row_ids", stored.row_ids, None),
            ("indptr", stored.indptr, None),
            ("indices", stored.indices, stored.data),
            ("data", stored.data, stored.data),
        ],
    )


def _coo() -> Figure:
    A = example()
    stored = COO.from_csr(A)
    return _boxes(
        A,
        stored,
        [
            ("row_indices", stored.row_indices, stored.data),
            ("indices", stored.indices, stored.data),
            ("data", stored.data, stored.data),
        ],
    )


def _ell() -> Figure:
    A = example()
    stored = ELL.from_csr(A)
    values = stored.data.ravel(order="F")
    return _boxes(
        A,
        stored,
        [("indices", stored.indices.ravel(order="F"), values), ("data", values, values)],
        f"; {stored.width} columns of {stored.num_rows} places",
    )


def _hyb() -> Figure:
    A = example()
    stored = HYB.from_csr(A, width=2)
    ell, coo = stored.ell, stored.coo
    values = ell.data.ravel(order="F")
    return _boxes(
        A,
        stored,
        [
            ("ell.indices", ell.indices.ravel(order="F"), values),
            ("ell.data", values, values),
            ("coo.row_indices", coo.row_indices, coo.data),
            ("coo.indices", coo.indices, coo.data),
            ("coo.data", coo.data, coo.data),
        ],
        f"; width {stored.width}",
    )


def _bsr() -> Figure:
    A = example()
    stored = BSR.from_csr(A, block_size=2)
    values = stored.data.ravel()
    return _boxes(
        A,
        stored,
        [("indptr", stored.indptr, None), ("indices", stored.indices, None), ("data", values, values)],
        f"; {len(stored.indices)} blocks of 2 x 2",
    )


def _sell() -> Figure:
    A = example()
    stored = SELL.from_csr(A, slice_height=2, sort_window=4)
    return _boxes(
        A,
        stored,
        [
            ("row_ids", stored.row_ids, None),
            ("slice_ptr", stored.slice_ptr, None),
            ("indices", stored.indices, stored.data),
            ("data", stored.data, stored.data),
        ],
        "; slices of 2 rows, sorted in windows of 4",
    )


def _cmrs() -> Figure:
    A = example()
    plain, by_column = (CMRS.from_csr(A, height=2, sort_columns=order) for order in (False, True))
    arrays: list[tuple[str, NDArray[Any], NDArray[Any] | None]] = [("strip_ptr", plain.strip_ptr, None)]
    for stored, suffix in ((plain, ""), (by_column, ", by column")):
        arrays += [
            (f"row_in_strip{suffix}", stored.row_in_strip, stored.data),
            (f"indices{suffix}", stored.indices, stored.data),
            (f"data{suffix}", stored.data, stored.data),
        ]
    return _boxes(A, plain, arrays, "; strips of 2 rows")


def _column_panels() -> Figure:
    A = example()
    stored = ColumnPanels.from_csr(A, panel_columns=3)
    starts = stored.panel_ptr.tolist()
    arrays: list[tuple[str, NDArray[Any], NDArray[Any] | None]] = [
        ("panel_ptr", stored.panel_ptr, None),
        ("row_masks", stored.row_masks.ravel(), None),
    ]
    for panel, first in enumerate(starts[:-1]):
        shown = slice(first, first + int((stored.columns[first : starts[panel + 1]] < 3).sum()) + 2)
        arrays += [
            (f"columns, panel {panel}", stored.columns[shown], stored.data[shown]),
            (f"data, panel {panel}", stored.data[shown], stored.data[shown]),
        ]
    return _boxes(A, stored, arrays, "; panels of 3 columns, their padding cut short in the picture")


def _compressed_sell() -> Figure:
    """Bytes for each nonzero beside those of CSR: what the format saves is seen on larger matrices."""
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


_SECTIONS = {"long": "long", "regular": "medium", "irregular": "medium", "pieced": "short 1&3", "single": "short 1"}


def _dasp() -> Figure:
    """Draw the slots of every section for Fig. 5 of Lu and Liu (2023); the numbers in them are columns."""
    A = matrix_of_row_lengths(FIG_5, 20)
    stored = DASP.from_csr(A, mma_m=2, mma_k=4, max_length=9)
    starts = [*stored.section_starts.values(), len(stored.indices)]
    slots = {
        name: stored.indices[first:last]
        for name, first, last in zip(stored.section_starts, starts[:-1], starts[1:], strict=True)
    }
    figure = drawing.figure(1.75, width=drawing.PAGE)
    axis = figure.subplots()
    y = 0.0
    for name, colour in _SECTIONS.items():
        height = 2 if name in ("long", "regular") else 1
        columns = 4 if name != "irregular" and name != "single" else 1
        _blocks(axis, slots[name], y, height, columns, drawing.COLOURS[colour])
        axis.text(-0.4, y + height / 2, f"{name}: {len(slots[name])} slots", ha="right", va="center")
        y += height + 0.45
    axis.set(xlim=(-7.5, 36), ylim=(y, -0.1), aspect="equal")
    axis.axis("off")
    figure.suptitle(
        f"DASP: {_size(stored)}; blocks of 2 x 4, medium rows have up to 9 nonzeros",
        fontsize=7.5,
    )
    return figure


def _blocks(axis: Axes, slots: NDArray[Any], y: float, height: int, columns: int, fill: str) -> None:
    """Draw slots as blocks of some height and width side by side, those without an entry grey."""
    gap = 0.4 if columns > 1 else 0.0
    for number, column in enumerate(slots.tolist()):
        block, within = divmod(number, height * columns)
        row, col = divmod(within, columns)
        x = block * (columns + gap) + col
        shade = PADDING if column < 0 else fill
        axis.add_patch(Rectangle((x, y + row), 1, 1, facecolor=shade, alpha=0.55, edgecolor="#555555", linewidth=0.4))
        if column >= 0:
            axis.text(x + 0.5, y + row + 0.5, str(column), ha="center", va="center")


_DRAWN: Mapping[str, Callable[[], Figure]] = {
    CSR.name: _csr,
    DCSR.name: _dcsr,
    COO.name: _coo,
    ELL.name: _ell,
    HYB.name: _hyb,
    BSR.name: _bsr,
    SELL.name: _sell,
    CompressedSELL.name: _compressed_sell,
    CMRS.name: _cmrs,
    DASP.name: _dasp,
    ColumnPanels.name: _column_panels,
}


# ----- row permutations -----


def _order(name: str) -> tuple[NDArray[np.int32], NDArray[np.bool_], list[int], list[int]]:
    """Return a permutation of the example, the cache lines of its rows, the loads of warps and lines of groups."""
    A = example_of_orders()
    perm = permutations.compute(name, A, warps=WARPS, threads=LINE)
    lines = A.toarray()[perm].reshape(A.shape[0], -1, LINE).any(axis=2)
    loads = [int(lines[warp::WARPS].sum()) for warp in range(WARPS)]
    return perm, lines, loads, cache_lines_of_groups(lines)


def permutation(name: str) -> Figure:
    """Draw the example of Fig. 7 of Mehrabi et al. (2021) in the order of a permutation."""
    perm, lines, loads, groups = _order(name)
    rows, count = lines.shape
    figure = drawing.figure(2.25, width=1.25 * drawing.WIDTH)
    axis = figure.subplots()
    for row, line in enumerate(lines):
        for place in range(count):
            fill = ROW_COLOURS[row % WARPS] if line[place] else "white"
            axis.add_patch(Rectangle((place, row), 1, 1, facecolor=fill, edgecolor="#BBBBBB", linewidth=0.3))
    for number, needed in enumerate(groups):
        axis.axhline(number * WARPS, color="black", linewidth=0.8)
        axis.text(count + 0.3, (number + 0.5) * WARPS, f"{needed} lines", va="center")
    axis.axhline(rows, color="black", linewidth=0.8)
    axis.set(xlim=(0, count), ylim=(rows, 0), xticks=[], xlabel="cache lines of B")
    axis.set_yticks(np.arange(rows) + 0.5, [str(row) for row in perm])
    axis.tick_params(length=0, labelsize=7.0)
    axis.set_ylabel("original row")
    axis.spines[:].set_visible(False)
    axis.set_title(f"{name}: loads of the warps {', '.join(map(str, loads))}; {sum(groups)} lines in all")
    return figure


def permutations_table() -> Summary:
    """Return what the permutations do to the example, and how they are defined."""
    rows = []
    for name in permutations.names():
        perm, _, loads, groups = _order(name)
        vector = features.spmm(example_of_orders()[perm], warps=WARPS, threads=LINE)
        assert int(vector["warp_load_max"]) == max(loads)
        rows.append((name, permutations.summary(name), max(loads), sum(groups)))
    return Summary("", pd.DataFrame(rows, columns=["name", "order", "greatest warp load", "cache lines of the groups"]))

"""Pictures of storage formats and row permutations, drawn from what the package computes for small matrices."""

from __future__ import annotations

import contextlib
import itertools
import runpy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import scipy.sparse
import yaml
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from warploom import features, formats, permutations
from warploom.bench.rendering import Summary
from warploom.formats import Format
from warploom.reproduce import drawing
from warploom.reproduce.cmrs2014.example import EQ_2_1
from warploom.reproduce.mehrabi2021.example import FIG_1, cache_lines_of_groups, example_of_orders

__all__ = ["PADDING", "example", "permutation", "permutations_table", "storage", "style", "title"]

ROW_COLOURS = ("#9ECAE1", "#F5C06B", "#8FD1B8", "#E3A6C6", "#C9C46A")
"""Light enough for black text; neighbours differ in lightness too."""
PADDING = "#E4E4E4"
POINTERS = "#FFFFFF"
LONGEST_RUN = 5
"""Equal elements one after another that are all shown."""

EXAMPLES = {"koza2014": EQ_2_1, "mehrabi2021": FIG_1}

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
    return EXAMPLES["koza2014"]


def storage(name: str, page: Path) -> Figure:
    """Draw how a format stores its example.

    Parameters
    ----------
    name : str
        As in the names of candidates.
    page : Path
        The page of the format. What its front matter has under ``picture`` says what is drawn; a Python file of the
        same name beside it draws the picture itself, with its function ``draw``.
    """
    own = page.with_suffix(".py")
    if own.exists():
        figure: Figure = runpy.run_path(str(own))["draw"]()
        return figure
    text = page.read_text(encoding="utf-8")
    front = yaml.safe_load(text.split("---")[1]) if text.startswith("---") else {}
    return _boxes(formats.find(name), **front.get("picture", {}))


Boxes = list[tuple[str, str]]
"""Text and colour of the elements of an array."""


def _boxes(
    known: type[Format],
    matrix: str = "koza2014",
    options: Mapping[str, Any] = MappingProxyType({}),
    variants: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    arrays: Sequence[str] = (),
    note: str = "",
) -> Figure:
    """Draw a matrix and, in the colours of its rows, the arrays that store it.

    Parameters
    ----------
    known : type
        The class of the format.
    matrix : {"koza2014", "mehrabi2021"}
        The example of this paper.
    options : mapping
        Arguments of `from_csr`.
    variants : mapping
        Arguments that differ, by what they mean: where an array is another one with them, it is drawn as well.
    arrays : sequence of str
        Those to draw; by default all that are stored and not empty.
    note : str
        Stands in the title.
    """
    A = EXAMPLES[matrix]
    row_of = {float(value): int(row) for row, value in zip(*_entries(A), strict=True)}
    stored = known.from_csr(A, **options)
    lines = _lines(stored, arrays, row_of)
    for label, changed in variants.items():
        other = _lines(known.from_csr(A, **options, **changed), arrays, row_of)
        lines |= {f"{name}, {label}": boxes for name, boxes in other.items() if boxes != lines[name]}
    widest = max(map(len, lines.values()))
    figure = drawing.figure(0.35 + 0.235 * max(len(lines), A.shape[0]), width=drawing.PAGE)
    left, right = figure.subplots(1, 2, width_ratios=[A.shape[1] + 0.5, max(widest, 14) + 7])
    dense = A.toarray()
    texts = [[f"{v:g}" if v else "" for v in line] for line in dense]
    drawing.pattern(left, texts, lambda row, col: _fill(dense[row, col], row_of) if dense[row, col] else None)
    drawing.arrays(
        right,
        {name: [text for text, _ in boxes] for name, boxes in lines.items()},
        colours=lambda name, place: lines[name][place][1],
    )
    right.set_xlim(-0.1, max(widest, 14) + 0.1)
    figure.suptitle(title(stored, note), fontsize=7.5)
    return figure


def _lines(stored: Format, names: Sequence[str], row_of: Mapping[float, int]) -> dict[str, Boxes]:
    """Return the boxes of arrays. One with an element for each value is in the colours of the values."""
    kept = stored.arrays()
    lines = {}
    for name in names or [name for name, array in kept.items() if array.size]:
        elements = (kept[name] if name in kept else getattr(stored, name)).ravel()
        values = kept[name.rpartition(".")[0] + "." * ("." in name) + "data"]
        each = len(values) == len(elements) and not name.endswith("ptr")
        fills = [_fill(value, row_of) for value in values] if each else [POINTERS] * len(elements)
        lines[name] = _shortened([(f"{element:g}", fill) for element, fill in zip(elements, fills, strict=True)])
    return lines


def _fill(value: float, row_of: Mapping[float, int]) -> str:
    return ROW_COLOURS[row_of[float(value)] % len(ROW_COLOURS)] if float(value) in row_of else PADDING


def _shortened(boxes: Boxes) -> Boxes:
    """Leave the middle of long runs of equal elements out."""
    shown: Boxes = []
    for (_, fill), run in ((box, list(group)) for box, group in itertools.groupby(boxes)):
        shown += [run[0], ("\N{HORIZONTAL ELLIPSIS}", fill), run[-1]] if len(run) > LONGEST_RUN else run
    return shown


def title(stored: Format, note: str) -> str:
    """Say what a matrix takes in a format, and the note."""
    padding = round(stored.padding_ratio * stored.nnz)
    places = {0: "no padding", 1: "1 place of padding"}.get(padding, f"{padding} places of padding")
    size = f"{stored.nnz} nonzeros in {stored.nbytes:,} bytes, {places}"
    return "; ".join(filter(None, (f"{type(stored).__name__}: {size}", note)))


def _entries(A: scipy.sparse.csr_array) -> tuple[NDArray[Any], NDArray[Any]]:
    coordinates = A.tocoo()
    return coordinates.row, coordinates.data


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
    """Return the effect of the permutations on the example, and their definitions."""
    rows = []
    for name in permutations.names():
        perm, _, loads, groups = _order(name)
        vector = features.spmm(example_of_orders()[perm], warps=WARPS, threads=LINE)
        assert int(vector["warp_load_max"]) == max(loads)
        rows.append((name, permutations.summary(name), max(loads), sum(groups)))
    return Summary("", pd.DataFrame(rows, columns=["name", "order", "maximum warp load", "cache lines of the groups"]))

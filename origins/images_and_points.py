"""Neighbourhoods of real points: pixels of photographs in position and colour, and the world's coastlines."""

# ruff: noqa: D103 - what a source makes is said with its matrices.
from __future__ import annotations

import tempfile
from collections.abc import Iterator

import h5py
import numpy as np
import scipy.sparse
import skimage.data
import triangle
from common import Made, Matrix, pattern_arrays, source, versions
from sklearn.datasets import load_sample_image
from texts import unpacked

FAMILY = "nearest points, real"


def _pixels(name: str, image: np.ndarray, scale: int, program: str, neighbours: tuple[int, ...]) -> Made:
    y, x = np.indices(image.shape[:2])
    points = np.stack([scale * y.ravel(), scale * x.ravel(), *image.reshape(-1, 3).T.astype(np.int64)], axis=1)
    matrices = [
        Matrix(
            *(f"pixels-{name}-{k}", FAMILY, "computer graphics/vision problem"),
            *(f"pixels of a photograph and the {k} nearest in position and colour", f"nearest neighbours={k}"),
        )
        for k in neighbours
    ]
    return Made(f"pixels-{name}", program, {"points": points}, matrices)


@source
def pixels() -> Iterator[Made]:
    sklearn, skimage_ = versions("scikit-learn"), versions("scikit-image")
    yield _pixels("china", load_sample_image("china.jpg"), 4, sklearn, (8, 24))
    yield _pixels("flower", load_sample_image("flower.jpg"), 1, sklearn, (12,))
    yield _pixels("astronaut", skimage.data.astronaut(), 2, skimage_, (16,))
    yield _pixels("coffee", skimage.data.coffee(), 8, skimage_, (20,))


@source
def coastlines() -> Iterator[Made]:
    """Points of coastlines in the order of the file: bin by bin, along each coast."""
    with tempfile.TemporaryDirectory() as folder:
        files, version = unpacked("gmt-gshhg-high", folder)
        with h5py.File(files / "usr/share/gmt-gshhg/binned_GSHHS_h.nc") as data:
            first = data["Id_of_first_point_in_a_segment"][:].astype(np.int64)
            segments = data["N_segments_in_a_bin"][:].astype(np.int64)
            axes = [
                data[f"Relative_{axis}_from_SW_corner_of_bin"][:].view("u2").astype(np.int64)
                for axis in ("longitude", "latitude")
            ]
            per_row = int(data["N_bins_in_360_longitude_range"][0])
    bin_ = np.repeat(np.arange(len(segments)), segments)
    bin_ = bin_[np.searchsorted(first, np.arange(len(axes[0])), side="right") - 1]
    points = np.stack([(bin_ % per_row) * 65535 + axes[0], -(bin_ // per_row) * 65535 + axes[1]], axis=1) // 4
    points -= points.min(axis=0)
    _, kept = np.unique(points, axis=0, return_index=True)
    points = points[np.sort(kept)]
    what = "points of the world's coastlines"
    matrices = [
        Matrix(f"coastlines-{k}", FAMILY, "2D/3D problem", f"{what} and the {k} nearest", f"nearest neighbours={k}")
        for k in (6, 16)
    ]
    yield Made("coastlines", version, {"points": points}, matrices)
    cells = triangle.delaunay(points.astype(np.float64))
    cells = np.sort(np.asarray(cells, np.int64), axis=1)
    ends = np.concatenate([cells[:, [0, 1]], cells[:, [1, 2]], cells[:, [0, 2]]])
    A = scipy.sparse.csr_array((np.ones(len(ends), np.int8), tuple(ends.T)), shape=(len(points), len(points)))
    made = Matrix(
        *("coastlines-delaunay", "Delaunay triangulation, real", "2D/3D problem"),
        *(f"Delaunay triangulation of {what}", "pattern symmetric"),
    )
    program = f"{version}, {versions('triangle')}"
    yield Made("coastlines-delaunay", program, pattern_arrays(A + A.T, symmetric=True), [made])

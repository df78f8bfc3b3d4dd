"""Which constructions are matrices of the SuiteSparse collection.

Those listed are defined by mathematics alone. They have the collection's rows, columns and entries, and its pattern but
for the order of rows and columns, which the collection has otherwise for some.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["COLLECTION"]

_BIBD = (
    *((9, 3), (9, 5), (11, 5), (12, 4), (12, 5), (13, 6), (14, 7), (15, 3), (15, 7), (16, 8)),
    *((17, 3), (17, 4), (17, 8), (18, 9), (19, 9), (20, 10), (22, 8), (49, 3), (81, 2), (81, 3)),
)
_CHESSBOARD = {
    (3, 3): (1, 2),
    (4, 4): (1, 2, 3),
    (5, 5): (1, 2, 3, 4),
    (6, 6): (1, 2, 3, 4, 5),
    (7, 6): (1, 2, 3, 4, 5),
    (7, 7): (1, 2, 5),
    (7, 8): (1, 2, 3, 4, 5),
    (7, 9): (1, 2, 3, 4, 5),
    (8, 8): (1, 2, 3, 4, 5),
}
_MATCHING = {9: (1, 2, 3), 10: (1, 2, 3, 4), 11: (1, 2, 3, 4), 12: (1, 2, 3, 4, 5), 13: (5,)}
# n3c6-b1 is left out: the collection has it with 105 columns, although there are 15 vertices.
_NOT_CONNECTED = {(2, 6): range(1, 11), (3, 4): range(1, 5), (3, 5): range(1, 8), (3, 6): range(2, 12)}
_NETWORKS = {
    "bfly": "butterfly(dimension=12)",
    "cca": "cube_connected_arrays(dimension=12)",
    "ccc": "cube_connected_cycles(dimension=12)",
    "debr": "de_bruijn(dimension=20)",
    "se": "shuffle_exchange(dimension=15)",
}
# Only those whose pattern, not just size, was compared.
_TORI = {"G32": (20, 100), "G33": (25, 80), "G34": (40, 50), "G65": (80, 100), "G67": (100, 100)}


def _entries() -> Iterator[tuple[str, str]]:
    for k in range(2, 21):
        yield f"Mycielski/mycielskian{k}", f"mycielskian(k={k})"
    for n, k in _BIBD:
        yield f"JGD_BIBD/bibd_{n}_{k}", f"bibd(n={n},k={k})"
    for n in (20, 150, 200, 300, 500, 700, 2000, 20000):
        yield f"JGD_Trefethen/Trefethen_{n}", f"trefethen(n={n})"
    for n in (20, 200, 20000):
        yield f"JGD_Trefethen/Trefethen_{n}b", f"trefethen(n={n - 1},first=1)"
    yield from _complexes()
    for rim in (3, 4, 5, 6, 7):
        yield f"JGD_Margulies/wheel_{rim}_1", f"wheel_colouring(rim={rim})"
    yield "JGD_Margulies/wheel_601", "wheel_colouring(rim=601)"
    for n, k in ((6, 2), (8, 3), (10, 4)):
        yield f"JGD_Margulies/kneser_{n}_{k}_1", f"kneser_colouring(n={n},k={k})"
    for name, (width, height) in _TORI.items():
        yield f"Gset/{name}", f"torus(width={width},height={height})"
    for name, call in _NETWORKS.items():
        yield f"AG-Monien/{name}", call


def _complexes() -> Iterator[tuple[str, str]]:
    for (m, n), dimensions in _CHESSBOARD.items():
        for d in dimensions:
            yield f"JGD_Homology/ch{m}-{n}-b{d}", f"chessboard_complex(m={m},n={n},dimension={d})"
    for n, dimensions in _MATCHING.items():
        for d in dimensions:
            yield f"JGD_Homology/mk{n}-b{d}", f"matching_complex(n={n},dimension={d})"
    for name, d in (("shar_te2", 1), ("shar_te2", 2), ("shar_te2", 3), ("m133", 3)):
        yield f"JGD_Homology/{name}-b{d}", f"matching_complex(n=13,dimension={d},size=3)"
    for (i, n), span in _NOT_CONNECTED.items():
        for d in span:
            yield f"JGD_Homology/n{i}c{n}-b{d}", f"not_connected_complex(n={n},connectivity={i},dimension={d})"


COLLECTION: dict[str, str] = dict(_entries())
"""From a matrix of the collection, ``<group>/<name>``, to the construction that makes it."""

"""Writes ``standard.csv.gz`` beside it: the matrices that the shipped measurements are made on.

``python -m warploom.corpus.make_standard FOLDER...`` makes every construction below and reads every matrix of the
folders that belongs to the SuiteSparse collection, and notes their sizes. It takes a quarter of an hour on two cores,
and less where the table has some of them already.

Parts: ``spmm`` has square matrices with at most 30,000 rows; ``spmv`` those and others, up to 10^8 nonzeros;
``transposes`` the transposes of the ones that are not symmetric; ``blocks`` both halves of the regular ones and the
short-row blocks of the irregular ones (Gao et al. 2024, Sec. 4).
"""

from __future__ import annotations

import concurrent.futures
import csv
import gzip
import io
import multiprocessing
import pathlib
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse

from warploom import corpus, partition
from warploom.errors import WarploomError

__all__ = ["constructions", "main"]

_OUTPUT = pathlib.Path(__file__).with_name("standard.csv.gz")
_SPMM_ROWS = 30_000
_SPMM_NNZ = 3_000_000
_BLOCK_NNZ = 3_000_000
_LARGE_NNZ, _LARGEST_NNZ = 10_000_000, 100_000_000


_Row = dict[str, Any]


def spread(low: float, high: float, count: int) -> list[int]:
    """Sizes at equal ratios, none of them a round number."""
    return [int(x) | 1 for x in np.geomspace(low, high, count)]


def side(n: float, dimensions: int) -> int:
    """Points along each side of a grid of about n points."""
    return max(2, round(float(n ** (1 / dimensions))))


def over(sizes: list[int], make: Callable[[int, int], str]) -> list[str]:
    """Call ``make(size, number)`` for each size; the number serves to vary seeds and orders."""
    return [make(size, number) for number, size in enumerate(sizes)]


def order(number: int, every: int = 3) -> str:
    """Shuffled rows and columns for every third matrix."""
    return f",shuffle={number + 1}" if number % every == every - 1 else ""


def small(count: int = 14, low: float = 120, high: float = 29_000) -> list[int]:
    """Sizes of small matrices: SpMM is measured with them."""
    return spread(low, high, count)


def large(count: int = 3, low: float = 60_000, high: float = 900_000) -> list[int]:
    """Sizes of large matrices, for SpMV."""
    return spread(low, high, count)


def medium() -> list[int]:
    """Sizes between the small and the large ones."""
    return spread(36_000, 190_000, 2)


def _graphs() -> Iterator[str]:
    for sizes in (small(), medium(), large()):
        yield from over(sizes, lambda n, i: f"random_geometric(n={n},radius={40 + 10 * (i % 4)},seed={i}{order(i)})")
        yield from over(sizes, lambda n, i: f"random_geometric_3d(n={n},degree={8 + 6 * (i % 4)},seed={i}{order(i)})")
        yield from over(sizes, lambda n, i: f"delaunay(n={n},seed={i}{order(i)})")
        yield from over(sizes, lambda n, i: f"delaunay_dual(n={n // 2},seed={i}{order(i)})")
        yield from over(sizes, lambda n, i: f"hexagonal_mesh(width={side(n, 2)},height={side(n, 2) + i}{order(i)})")
        yield from over(
            sizes,
            lambda n, i: f"roads(width={side(n / 4, 2)},height={side(n / 4, 2)},chain={i % 5},seed={i}{order(i)})",
        )
        yield from over(
            sizes, lambda n, i: f"circulant(n={n},jumps={2 + 3 * (i % 5)},reach={n // 3},seed={i}{order(i)})"
        )
        yield from over(sizes, lambda n, i: f"tree(n={n},arity={(2, 3, 8, 100)[i % 4]}{order(i)})")
        yield from over(sizes, lambda n, i: f"random_tree(n={n},reach={(0, 50)[i % 2]},seed={i}{order(i)})")
        yield from over(sizes, lambda n, i: f"erdos_renyi(n={n},degree={(3, 6, 12, 30)[i % 4]},seed={i})")
        yield from over(sizes, lambda n, i: f"random_directed(n={n},degree={(2, 5, 14, 40)[i % 4]},seed={i})")
        yield from over(sizes, lambda n, i: f"random_regular(n={n + 1},degree={(3, 4, 8, 16)[i % 4]},seed={i})")
        yield from over(sizes, lambda n, i: f"preferential_attachment(n={n},edges={2 + i % 6},seed={i}{order(i)})")
        yield from over(
            sizes,
            lambda n, i: f"power_law(n={n},degree={4 + 4 * (i % 4)},exponent={19 + 3 * (i % 4)},seed={i}{order(i)})",
        )
        yield from over(
            sizes,
            lambda n, i: f"small_world(n={n},degree={4 + 4 * (i % 4)},rewired={5 + 10 * (i % 3)},seed={i}{order(i)})",
        )
        yield from over(
            sizes,
            lambda n, i: (
                f"stochastic_block(blocks={max(2, n // 60)},size=60,degree={6 + 8 * (i % 4)},outside=10,"
                f"seed={i}{order(i)})"
            ),
        )
        yield from over(sizes, lambda n, i: f"citation(n={n},degree={4 + 4 * (i % 4)},seed={i}{order(i)})")
        yield from over(
            sizes,
            lambda n, i: f"web_crawl(n={n},degree={5 + 5 * (i % 4)},host={40 + 40 * (i % 3)},seed={i}{order(i)})",
        )
        yield from over(
            sizes, lambda n, i: f"hypersparse_graph(n={n},entries={max(10, n // (2 + 6 * (i % 4)))},seed={i})"
        )
        yield from over(
            sizes,
            lambda n, i: (
                f"hub_graph(n={n},degree={3 + 3 * (i % 3)},dense={2 + 4 * (i % 4)},fill={20 + 20 * (i % 3)},seed={i})"
            ),
        )
        yield from over(
            sizes,
            lambda n, i: f"disjoint_cliques(cliques={max(2, n // (5 + 9 * (i % 5)))},size={5 + 9 * (i % 5)}{order(i)})",
        )
    for scale in range(7, 15):
        yield f"kron_g500(scale={scale},edge_factor={(4, 8, 16)[scale % 3]},seed={scale}{order(scale)})"
        yield f"rmat(scale={scale},edge_factor={(2, 4, 8)[scale % 3]},seed={scale}{order(scale)})"
        yield f"rmat(scale={scale},edge_factor={(8, 4, 2)[scale % 3]},a=45,b=22,c=22,seed={scale})"
        yield f"hierarchical_graph(scale={scale},degree={(6, 12, 20)[scale % 3]},seed={scale}{order(scale)})"
    for scale in (16, 18, 20):
        yield f"kron_g500(scale={scale},edge_factor={(16, 8, 8)[(scale - 16) // 2]},seed={scale},shuffle=1)"
        yield f"rmat(scale={scale},edge_factor=8,seed={scale})"
        yield f"hierarchical_graph(scale={scale},degree=10,seed={scale})"
    for dimension in range(5, 12):
        for name in ("butterfly", "cube_connected_cycles", "cube_connected_arrays"):
            if dimension * 2**dimension <= _SPMM_ROWS:
                yield f"{name}(dimension={dimension}{order(dimension)})"
    for dimension in range(7, 15):
        for name in ("de_bruijn", "shuffle_exchange", "hypercube"):
            yield f"{name}(dimension={dimension}{order(dimension)})"
    for level in (2, 3, 4, 5, 6, 8):
        yield f"triangulated_sphere(level={level})"
        yield f"triangulated_sphere(level={level},shuffle=1)"


def _combinatorial() -> Iterator[str]:
    yield from (f"mycielskian(k={k})" for k in range(5, 16))
    yield from (f"trefethen(n={n})" for n in (150, 200, 300, 500, 700, 2000, 4000, 8000, 20000, 70000))
    yield from (
        f"bibd(n={n},k={k})"
        for n, k in (
            (9, 3),
            (9, 5),
            (11, 5),
            (12, 4),
            (13, 6),
            (14, 7),
            (15, 3),
            (16, 8),
            (17, 4),
            (18, 6),
            (19, 9),
            (22, 8),
            (49, 3),
            (81, 3),
        )
    )
    yield from (f"wheel_colouring(rim={rim})" for rim in (3, 6, 12, 25, 50, 100, 200, 400))
    yield from (f"kneser_colouring(n={n},k={k})" for n, k in ((6, 2), (8, 3), (10, 4)))
    for m, n in ((4, 4), (5, 5), (5, 7), (6, 6), (7, 6), (7, 8), (7, 9), (8, 8)):
        yield from (
            f"chessboard_complex(m={m},n={n},dimension={d})" for d in range(1, min(m, n)) if m * n < 60 or d < 5
        )
    for n in (8, 9, 10, 11, 12):
        yield from (f"matching_complex(n={n},dimension={d})" for d in range(1, n // 2))
    for i in (2, 3, 4):
        yield from (f"not_connected_complex(n=6,connectivity={i},dimension={d})" for d in range(1, 11))
    for letters, length in ((2, 8), (3, 5), (4, 4), (6, 4), (10, 3), (20, 3), (40, 2), (100, 2), (3, 8), (5, 6)):
        yield f"hamming(length={length},letters={letters})"
    for n, k in ((8, 3), (10, 3), (12, 3), (12, 4), (14, 5), (16, 4), (18, 5), (24, 4)):
        yield f"johnson(n={n},k={k})"
        yield f"kneser(n={n},k={k})"
    for parts, size in ((3, 40), (5, 30), (4, 100), (20, 20), (8, 120)):
        yield f"complete_multipartite(parts={parts},size={size})"


def _grids() -> Iterator[str]:
    for sizes in (small(), medium(), large()):
        for stencil in (5, 9):
            yield from (
                f"grid2d(nx={side(n, 2)},ny={side(n, 2) + i},stencil={stencil}{order(i)})" for i, n in enumerate(sizes)
            )
        yield from over(
            sizes,
            lambda n, i: f"grid2d(nx={side(n, 2)},ny={side(n, 2) + i},stencil={(7, 13, 25)[i % 3]},periodic={i % 3})",
        )
        for stencil in (7, 27):
            yield from (
                f"grid3d(nx={side(n, 3)},ny={side(n, 3)},nz={side(n, 3) + i},stencil={stencil}{order(i)})"
                for i, n in enumerate(sizes)
            )
        yield from over(sizes, lambda n, i: f"grid2d(nx={side(n, 2)},ny={side(n, 2)},stencil=5,shuffle_rows={i + 1})")
        yield from over(
            sizes, lambda n, i: f"convection_diffusion(nx={side(n, 2)},ny={side(n, 2)},upwind={1 + i % 3}{order(i)})"
        )
        yield from over(sizes, lambda n, i: f"elasticity2d(nx={side(n / 2, 2)},ny={side(n / 2, 2)}{order(i)})")
        yield from over(
            sizes,
            lambda n, i: f"elasticity3d(nx={side(n / 3, 3)},ny={side(n / 3, 3)},nz={side(n / 3, 3)}{order(i)})",
        )
        yield from over(
            sizes,
            lambda n, i: (
                f"reaction_diffusion(nx={side(n / 3, 2)},ny={side(n / 3, 2)},species={2 + i % 4},interleaved={i % 2})"
            ),
        )
        yield from over(sizes, lambda n, i: f"semiconductor(nx={side(n / 3, 2)},ny={side(n / 3, 2)}{order(i)})")
        yield from over(sizes, lambda n, i: f"stokes(nx={side(n / 3, 2)},ny={side(n / 3, 2)})")
        yield from over(
            sizes,
            lambda n, i: f"quadrilaterals(nx={side(n / 4, 2)},ny={side(n / 4, 2)},order={2 + i % 3}{order(i)})",
        )
        yield from over(
            sizes,
            lambda n, i: f"bricks(nx={side(n / 8, 3)},ny={side(n / 8, 3)},nz={side(n / 8, 3)},order=2{order(i)})",
        )
        yield from over(
            sizes,
            lambda n, i: f"triangles(nx={side(n, 2)},ny={side(n, 2)},order=1,unknowns={1 + i % 3},seed={i}{order(i)})",
        )
        yield from over(
            sizes,
            lambda n, i: (
                f"tetrahedra(nx={side(n / 2, 3)},ny={side(n / 2, 3)},nz={side(n / 2, 3)},order={1 + i % 2}{order(i)})"
            ),
        )
        yield from over(
            sizes,
            lambda n, i: (
                f"perforated(nx={side(n / 3, 3)},ny={side(n / 3, 3)},nz={side(n / 3, 3)},percent={20 + 10 * (i % 4)},"
                f"seed={i}{order(i)})"
            ),
        )
        yield from over(
            sizes,
            lambda n, i: f"edge_elements(nx={side(n / 3, 3)},ny={side(n / 3, 3)},nz={side(n / 3, 3)}{order(i)})",
        )
        yield from over(sizes, lambda n, i: f"shell(around={side(n / 6, 2)},along={side(n / 6, 2)}{order(i)})")
        yield from over(
            sizes,
            lambda n, i: (
                f"truss(nx={side(n / 3, 3)},ny={side(n / 3, 3)},nz={side(n / 3, 3)},"
                f"percent={20 + 20 * (i % 4)},seed={i})"
            ),
        )
        yield from over(sizes, lambda n, i: f"wathen(nx={side(n / 3, 2)},ny={side(n / 3, 2)})")
        yield from over(sizes, lambda n, i: f"epidemic_chain(population={side(2 * n, 2)})")
        yield from over(
            sizes, lambda n, i: f"queueing_network(queues={2 + i % 3},capacity={side(n, 2 + i % 3) - 1}{order(i)})"
        )
    yield from (f"star2d(nx={n},ny={n},reach_x={2 + n % 5},reach_y={1 + n % 3})" for n in (20, 41, 83, 150, 300, 601))
    yield from (f"triangle_walk(side={n})" for n in (20, 40, 80, 150, 220, 700))
    yield from (f"spin_chain(sites={n})" for n in (8, 9, 10, 11, 12, 13, 14, 17))
    yield from (f"wilson_lattice(nx={n},ny={n},nz={n},nt={t})" for n, t in ((4, 4), (4, 6), (4, 8), (8, 8), (8, 16)))
    yield from ("epidemic_chain(population=1024)", "reaction_diffusion(nx=15,ny=15)")  # mc2depi and rdb450l
    yield from (f"crystal_mass(nx={n},ny={n},nz={n})" for n in (4, 7, 11, 16, 20, 40))
    yield from (f"sphere_mesh(level={n})" for n in (2, 3, 4, 5, 7))
    yield from (f"l_shape(side={n})" for n in (12, 25, 50, 90, 400))
    yield from (f"obstacle2d(nx={n},ny={n})" for n in (15, 40, 100, 165, 600))


def _structured() -> Iterator[str]:
    for sizes in (small(), medium(), large()):
        yield from over(sizes, lambda n, i: f"banded(n={n},lower={1 + 3 * (i % 5)},upper={1 + 2 * (i % 6)}{order(i)})")
        yield from over(sizes, lambda n, i: f"banded(n={n},lower={2 + i % 7},upper={2 + i % 7},shuffle_rows={i + 1})")
        yield from over(
            sizes,
            lambda n, i: (
                f"random_banded(n={n},half_width={20 + 15 * (i % 5)},percent={10 + 10 * (i % 4)},seed={i}{order(i)})"
            ),
        )
        yield from over(sizes, lambda n, i: f"diagonals(n={n},count={4 + 4 * (i % 4)},reach={n // 2},seed={i})")
        yield from over(
            sizes,
            lambda n, i: f"block_banded(blocks={max(3, n // (3 + 5 * (i % 4)))},size={3 + 5 * (i % 4)}{order(i)})",
        )
        yield from over(
            sizes,
            lambda n, i: (
                f"block_diagonal(blocks={max(3, n // 20)},smallest=2,largest={38 + 1 * (i % 2)},seed={i}{order(i)})"
            ),
        )
        yield from over(sizes, lambda n, i: f"arrow(n={n},width={1 + 3 * (i % 4)},half_width={i % 3},last={i % 2})")
        yield from over(
            sizes, lambda n, i: f"dense_rows(n={n},count={2 + 5 * (i % 5)},percent={20 + 20 * (i % 4)},seed={i})"
        )
        yield from over(
            sizes, lambda n, i: f"dense_columns(n={n},count={2 + 5 * (i % 5)},percent={20 + 20 * (i % 4)},seed={i})"
        )
        yield from over(sizes, lambda n, i: f"triangular(n={n},per_row={3 + 4 * (i % 4)},hubs={5 * (i % 3)},seed={i})")
        yield from over(sizes, lambda n, i: f"uniform(m={n},n={n},per_row={(2, 5, 11, 25, 60)[i % 5]},seed={i})")
        yield from over(
            sizes, lambda n, i: f"uniform_between(m={n},n={n},shortest=0,longest={(4, 12, 40)[i % 3]},seed={i})"
        )
        yield from over(
            sizes,
            lambda n, i: (
                f"power_law_rows(m={n},n={n},shortest={1 + i % 4},exponent_tenths={14 + 3 * (i % 4)},seed={i})"
            ),
        )
        yield from over(
            sizes,
            lambda n, i: (
                f"log_normal_rows(m={n},n={n},median={(3, 8, 20)[i % 3]},spread_tenths={6 + 4 * (i % 4)},"
                f"sorted_rows={i % 2},seed={i})"
            ),
        )
        yield from over(
            sizes,
            lambda n, i: (
                f"cyclic_rows(m={n},n={n},short={1 + i % 5},long={min(n - 1, (60, 200, 700)[i % 3])},"
                f"stride={(2, 32, 64, 7)[i % 4]},seed={i})"
            ),
        )
        yield from over(
            sizes,
            lambda n, i: (
                f"hypersparse(m={n},n={n},nonempty={max(5, n // (4 + 16 * (i % 4)))},"
                f"per_row={(3, 10, 50)[i % 3]},seed={i})"
            ),
        )
        yield from over(
            sizes, lambda n, i: f"circuit(n={n},rails={2 + i % 4},percent={5 + 5 * (i % 4)},seed={i}{order(i)})"
        )
        yield from over(sizes, lambda n, i: f"power_network(buses={max(5, n // 2)},seed={i}{order(i)})")
        yield from over(sizes, lambda n, i: f"flowsheet(units={max(3, n // 22)},recycles={10 + 10 * (i % 4)},seed={i})")
        yield from over(
            sizes,
            lambda n, i: (
                f"molecule(nx={side(n / 6, 3)},ny={side(n / 6, 3)},nz={side(n / 6, 3)},reach={1 + i % 2},"
                f"percent={(100, 60)[i % 2]},seed={i})"
            ),
        )
        yield from over(
            sizes, lambda n, i: f"saddle_point(n={n * 3 // 4},constraints={n // 4},regularised={i % 2},seed={i})"
        )
        yield from over(
            sizes,
            lambda n, i: (
                f"optimal_control(steps={max(3, n // 30)},states={8 + 4 * (i % 3)},controls={2 + i % 4},seed={i})"
            ),
        )
        yield from over(sizes, lambda n, i: f"augmented_grid(nx={side(n / 3, 2)},ny={side(n / 3, 2)})")
        yield from over(sizes, lambda n, i: f"cvxqp(n={n * 2 // 3},constraints={n // 3})")
    yield from (
        f"economy(regions={r},sectors={s},seed={r})"
        for r, s in ((2, 40), (4, 60), (8, 80), (16, 60), (20, 120), (40, 100))
    )
    yield from over(small(8), lambda n, i: f"ladder(sections={n // 2})")
    yield from over(small(8), lambda n, i: f"dixmaan(third={n // 3})")
    yield from over(small(8), lambda n, i: f"cvxbqp(n={n})")
    yield from over(small(8), lambda n, i: f"sparsine(n={n})")
    yield from over(small(6), lambda n, i: f"diagonal(n={n})")
    yield from over(small(6), lambda n, i: f"permutation(n={n},seed={i})")
    yield from over(small(6), lambda n, i: f"identity_plus(n={n},extra={n // 4},seed={i})")
    yield from (f"tolosa(modes={n})" for n in (10, 30, 60, 110, 700, 1800))
    yield from (f"dense(m={n},n={n})" for n in (30, 75, 180, 400, 900, 1500))
    yield from (
        f"pruned(m={n},n={n},permille={p},skew={p % 2},seed={p})"
        for n in (256, 512, 1024, 2048)
        for p in (20, 51, 100, 201, 300)
    )
    yield from (
        f"pruned_blocks(m={n},n={n},block={b},percent={p},seed={p})"
        for n in (512, 1024, 2048)
        for b, p in ((4, 10), (8, 20), (16, 30))
    )
    yield from (f"pruned_groups(m={n},n={n},kept={k},group=4)" for n in (256, 768) for k in (1, 2))


def _rectangular() -> Iterator[str]:
    """For SpMV alone, beside the large ones of the families above."""
    sizes = spread(300, 300_000, 12)
    yield from over(
        sizes,
        lambda n, i: f"ratings(rows={n},cols={max(10, n // (2, 5, 10)[i % 3])},degree={3 + 3 * (i % 4)},seed={i})",
    )
    yield from over(
        sizes,
        lambda n, i: (
            f"random_bipartite(rows={n},cols={max(10, n * (3, 1)[i % 2] // (1, 4)[i % 2])},"
            f"degree={2 + 4 * (i % 4)},seed={i})"
        ),
    )
    yield from over(
        sizes,
        lambda n, i: f"block_angular(blocks={max(2, n // 60)},rows=40,columns=70,linking={10 + 10 * (i % 3)},seed={i})",
    )
    yield from over(sizes, lambda n, i: f"staircase(stages={max(2, n // 50)},rows=50,columns=90,seed={i})")
    yield from over(
        sizes, lambda n, i: f"set_covering(rows={max(20, n // 20)},columns={n},per_column={4 + 3 * (i % 4)},seed={i})"
    )
    yield from over(sizes, lambda n, i: f"linear_program(rows={n},columns={2 * n},dense_columns={i % 4},seed={i})")
    yield from over(
        sizes,
        lambda n, i: (
            f"least_squares(rows={n},columns={max(5, n // (3, 8, 20)[i % 3])},per_row={2 + 2 * (i % 4)},seed={i})"
        ),
    )
    yield from over(
        spread(300, 60_000, 10), lambda n, i: f"bundle_adjustment(cameras={max(3, n // 200)},points={n // 4},seed={i})"
    )
    yield from over(spread(10, 300, 8), lambda n, i: f"transportation(sources={n},destinations={n + 5 * i})")
    yield from over(
        spread(200, 20_000, 8),
        lambda n, i: f"multicommodity(commodities={4 + i},nodes={n // 10},arcs={n // 3},seed={i})",
    )
    yield from (f"quadratic_assignment(n={n})" for n in (5, 6, 8, 10, 12, 15))
    yield from (
        f"pruned(m={m},n={n},permille={p},seed={p})"
        for m, n in ((512, 2048), (2048, 512), (1024, 4096))
        for p in (50, 150, 300)
    )


def _huge() -> Iterator[str]:
    """10^7 to 10^8 nonzeros, for SpMV."""
    yield "grid2d(nx=2000,ny=2000,stencil=5)"
    yield "grid2d(nx=4000,ny=4000,stencil=5)"
    yield "grid2d(nx=1400,ny=1400,stencil=9)"
    yield "grid3d(nx=150,ny=150,nz=150,stencil=27)"
    yield "grid3d(nx=130,ny=130,nz=130,stencil=7)"
    yield "elasticity3d(nx=70,ny=70,nz=70)"
    yield "bricks(nx=32,ny=32,nz=32,order=2,unknowns=3)"
    yield "banded(n=1000001,lower=40,upper=40)"
    yield "banded(n=500001,lower=12,upper=12,shuffle=3)"
    yield "block_banded(blocks=30001,size=12)"
    yield "uniform(m=4000001,n=4000001,per_row=16)"
    yield "uniform(m=1000001,n=1000001,per_row=64)"
    yield "uniform(m=40001,n=400001,per_row=300)"
    yield "power_law_rows(m=2000001,n=2000001,shortest=3,exponent_tenths=17)"
    yield "log_normal_rows(m=1000001,n=1000001,median=20,spread_tenths=12)"
    yield "rmat(scale=21,edge_factor=16)"
    yield "kron_g500(scale=19,edge_factor=32,shuffle=1)"
    yield "web_crawl(n=2000001,degree=12)"
    yield "random_geometric(n=2000001)"
    yield "delaunay(n=2000001)"
    yield "erdos_renyi(n=1000001,degree=16)"
    yield "circuit(n=2000001)"
    yield "hypersparse(m=8000001,n=8000001,nonempty=400001,per_row=40)"
    yield "dense_rows(n=1000001,count=20)"


def _is_symmetric(A: scipy.sparse.csr_array) -> bool:
    """Whether the pattern is that of the transpose."""
    if A.shape[0] != A.shape[1]:
        return False
    pattern = scipy.sparse.csr_array((np.ones(A.nnz, np.int8), A.indices, A.indptr), shape=A.shape)
    pattern.sum_duplicates()
    transposed = pattern.T.tocsr()
    return np.array_equal(pattern.indptr, transposed.indptr) and np.array_equal(pattern.indices, transposed.indices)


def _facts(name: str) -> tuple[list[_Row], str]:
    """Rows of the table for one matrix, its transpose and blocks, or why there are none."""
    try:
        entry = corpus.find(name)
        A = entry.load()
    except WarploomError as error:
        return [], f"{name}: {error}"
    m, n = A.shape
    if A.nnz > _LARGEST_NNZ or (A.nnz >= _LARGE_NNZ and name not in set(_huge()) and zlib.crc32(name.encode()) % 4):
        return [], ""  # large ones take long to measure: a quarter of them is enough
    parts = ["spmv"]
    if m == n <= _SPMM_ROWS and A.nnz <= _SPMM_NNZ:
        parts.insert(0, "spmm")
    rows = [{"matrix": entry.name, "rows": m, "cols": n, "nnz": A.nnz, "parts": " ".join(parts)}]
    if A.nnz <= _BLOCK_NNZ and not _is_symmetric(A):
        rows.append({"matrix": f"{entry.name}.T", "rows": n, "cols": m, "nnz": A.nnz, "parts": "transposes"})
    if m >= 2 and A.nnz <= _BLOCK_NNZ:
        rows += [
            {
                "matrix": f"{entry.name}[{a}:{b}]",
                "rows": b - a,
                "cols": n,
                "nnz": int(A.indptr[b] - A.indptr[a]),
                "parts": "blocks",
            }
            for a, b in _blocks(A)
        ]
    return rows, ""


def _blocks(A: scipy.sparse.csr_array) -> list[tuple[int, int]]:
    """Both halves of a matrix without long rows; else up to four of its short-row blocks, the longest ones."""
    parts = partition.partition_rows(A)
    bounds = [int(b) for b in parts.row_block]
    short = [(a, b) for a, b, long in zip(bounds[:-1], bounds[1:], parts.is_long, strict=True) if not long]
    if len(bounds) == 2 and short:
        middle = A.shape[0] // 2
        return [(0, middle), (middle, A.shape[0])]
    return sorted(sorted((s for s in short if s[1] - s[0] >= 32), key=lambda s: s[0] - s[1])[:4])


def constructions() -> list[str]:
    """List the constructions of the standard corpus, each once; what is too large is sorted out when it is made."""
    names = [*_graphs(), *_combinatorial(), *_grids(), *_structured(), *_rectangular(), *_huge()]
    return list(dict.fromkeys(map(corpus.canonical, names)))


def main(folders: Iterable[str]) -> None:
    """Write the table.

    Parameters
    ----------
    folders : iterable of str
        With matrices of the collection.
    """
    collected = [entry.name for folder in folders for entry in corpus.folder(folder) if entry.in_collection]
    names = list(dict.fromkeys([*constructions(), *map(corpus.canonical, collected)]))
    table = _noted(names)
    names = [name for name in names if name not in table]
    print(len(names), "matrices to make", flush=True)
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for number, (rows, problem) in enumerate(pool.map(_facts, names, chunksize=4)):
            if problem:
                print(problem, flush=True)
            table |= {row["matrix"]: row for row in rows}
            if number % 200 == 0:
                print(number, flush=True)
    with gzip.GzipFile(_OUTPUT, "wb", mtime=0) as file:
        lines = _csv_text(sorted(table.values(), key=lambda row: row["matrix"]))
        file.write(lines.encode())
    for part in ("spmm", "spmv", "transposes", "blocks"):
        print(part, sum(part in row["parts"].split() for row in table.values()))


def _noted(names: list[str]) -> dict[str, _Row]:
    """Rows of the table for these matrices, and their transposes and blocks, that it already has."""
    if not _OUTPUT.exists():
        return {}
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(_OUTPUT.read_bytes()).decode())))
    wanted = set(names)
    return {row["matrix"]: row for row in rows if row["matrix"].partition("[")[0].removesuffix(".T") in wanted}


def _csv_text(rows: Iterable[_Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["matrix", "rows", "cols", "nnz", "parts"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])

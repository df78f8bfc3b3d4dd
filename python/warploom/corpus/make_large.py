"""Writes ``large.csv.gz`` beside it: the corpus of large matrices.

``python -m warploom.corpus.make_large`` makes every construction below whose size is neither in the table nor in that
of the standard corpus; the sizes of matrices that programs made are in their index, and those of collected ones in that
of their collection, which leaves out zeros that are stored. It takes half an hour on one core.
"""

from __future__ import annotations

import csv
import gzip
import io
import pathlib
import time
from collections.abc import Iterator

from warploom import corpus
from warploom.corpus import origins

__all__ = ["COLLECTED", "constructions", "main"]

_OUTPUT = pathlib.Path(__file__).with_name("large.csv.gz")
_MOST_HALF_NNZ = 40_000_000
"""Larger matrices are not measured half destroyed."""

_MESHES = (
    *("delaunay(n=200001)", "delaunay(n=1000000)", "delaunay(n=2500001,seed=2)", "delaunay_dual(n=1500001)"),
    *("hexagonal_mesh(width=2000,height=2000)", "grid2d(nx=1500,ny=1500)", "grid2d(nx=3000,ny=3000,stencil=9)"),
    *("grid3d(nx=100,ny=100,nz=100,stencil=27)", "grid3d(nx=160,ny=160,nz=160)", "delaunay_3d(n=100001)"),
    *("delaunay_3d(n=600001)", "delaunay_3d(n=100001,unknowns=3)", "perforated(nx=50,ny=50,nz=50,percent=30)"),
    *("triangulated_sphere(level=8)", "convection_diffusion(nx=1000,ny=1000,upwind=2)"),
)
_ELEMENTS = (
    *("triangles(nx=400,ny=400,order=2,unknowns=2)", "tetrahedra(nx=40,ny=40,nz=40,unknowns=3)"),
    *("tetrahedra(nx=60,ny=60,nz=60,order=2)", "elasticity2d(nx=600,ny=600)", "elasticity3d(nx=35,ny=35,nz=35)"),
    *("elasticity3d(nx=50,ny=50,nz=50)", "elasticity3d(nx=70,ny=70,nz=70)", "shell(around=300,along=300)"),
    *("stokes(nx=500,ny=500)", "edge_elements(nx=60,ny=60,nz=60)", "semiconductor(nx=500,ny=500)"),
    *("reaction_diffusion(nx=400,ny=400,species=5)", "wathen(nx=400,ny=400)"),
    *("quadrilaterals(nx=250,ny=250,order=3,unknowns=2)", "bricks(nx=20,ny=20,nz=20,order=2,unknowns=3)"),
    *("truss(nx=60,ny=60,nz=60,percent=40)", "crystal_mass(nx=60,ny=60,nz=60)"),
)
_POINTS = (
    *("nearest_points(n=1000000)", "nearest_points(n=1000000,dimensions=3)", "nearest_points(n=200000,dimensions=3)"),
    *("nearest_points(n=3000001,neighbours=12)", "nearest_points(n=400001,neighbours=100,dimensions=3)"),
    *("random_geometric_3d(n=500000,degree=30)", "random_geometric(n=1000001,radius=60)"),
    *("roads(width=1000,height=1000)", "roads(width=2000,height=1000,chain=2)", "roads(width=500,height=500,chain=10)"),
)
_GRAPHS = (
    *("communities(n=500000,count=4000,degree=24)", "communities(n=500000,count=4000,degree=24,outside=60)"),
    *("communities(n=2000000,count=4000,degree=12)", "communities(n=150001,count=1000,degree=60)"),
    *("communities(n=1000001,count=20000,degree=40,outside=15)", "stochastic_block(blocks=4000,size=125,degree=24)"),
    *("hierarchical_graph(scale=19,degree=24)", "small_world(n=500000,degree=20)"),
    *("small_world(n=2000001,degree=8,rewired=5)", "web_copies(n=1000000,degree=16)"),
    *("web_copies(n=3000001,degree=12,host=1000)", "web_copies(n=300001,degree=60)", "web_crawl(n=1000000,degree=16)"),
    *("web_crawl(n=250001,degree=40)", "citation(n=1000000,degree=12)", "citation(n=200001,degree=30)"),
    *("rmat(scale=17,edge_factor=60)", "rmat(scale=18,edge_factor=16)", "rmat(scale=20,edge_factor=16)"),
    *("rmat(scale=22,edge_factor=6)", "rmat(scale=19,edge_factor=16,a=45,b=22,c=22)", "kron_g500(scale=18)"),
    *("kron_g500(scale=20,edge_factor=12)", "kron_g500(scale=17,edge_factor=48)", "power_law(n=500000,degree=20)"),
    *("power_law(n=2000001,degree=8,exponent=25)", "preferential_attachment(n=1000001,edges=8)"),
    *("random_tree(n=2000001,reach=50)", "hub_graph(n=500001,degree=6,dense=8)"),
)
_BIPARTITE = (
    *("ratings(rows=500000,cols=50000,degree=30)", "ratings(rows=100001,cols=500001,degree=150)"),
    *("ratings(rows=2000001,cols=20001,degree=12)", "tastes(rows=1000001,cols=100001,degree=20,groups=500)"),
    *("tastes(rows=200001,cols=400001,degree=80,groups=2000)", "tastes(rows=3000001,cols=50001,degree=6,groups=100)"),
    *(
        "least_squares(rows=2000001,columns=200001,per_row=6,spread=40)",
        "bundle_adjustment(cameras=2001,points=400001)",
    ),
    *("linear_program(rows=300001,columns=600001)", "set_covering(rows=100001,columns=1000001,per_column=8)"),
    "block_angular(blocks=5001,rows=40,columns=70,linking=30)",
)
_BANDS = (
    *("random_banded(n=300000,half_width=100,percent=25)", "random_banded(n=100001,half_width=500,percent=20)"),
    *("banded(n=1000001,lower=40,upper=40)", "block_banded(blocks=100000,size=6,half_width=2)"),
    *("block_banded(blocks=30001,size=12)", "diagonals(n=1000001,count=12,reach=500000)"),
    "banded_with_long_rows(n=500001,half_width=20,percent=40,every=1000,length=20000)",
    "banded_with_long_rows(n=2000001,half_width=6,percent=50,every=20000,length=100000)",
    *("dense_rows(n=1000001,count=20)", "arrow(n=1000001,width=5,half_width=2)"),
)
_SYSTEMS = (
    *("circuit(n=2000001)", "circuit(n=300001,rails=6)", "power_network(buses=400001)"),
    *("saddle_point(n=600001,constraints=200001)", "optimal_control(steps=20001,states=12,controls=4)"),
    *("augmented_grid(nx=700,ny=700)", "cvxqp(n=600001,constraints=200001)", "spin_chain(sites=18)"),
    *("wilson_lattice(nx=12,ny=12,nz=12,nt=16)", "queueing_network(queues=3,capacity=99)"),
    *("molecule(nx=40,ny=40,nz=40,reach=1,percent=100)", "flowsheet(units=30001)"),
)
_WITHOUT_ORDER = (
    *("uniform(m=1000001,n=1000001,per_row=16)", "uniform(m=4000001,n=4000001,per_row=16)"),
    *("uniform(m=200001,n=1000001,per_row=100)", "erdos_renyi(n=1000001,degree=16)"),
    *("power_law_rows(m=2000001,n=2000001,shortest=3,exponent_tenths=17)", "random_directed(n=300001,degree=40)"),
    *("log_normal_rows(m=1000001,n=1000001,median=20,spread_tenths=12)", "random_regular(n=1000002,degree=8)"),
    *(
        "cyclic_rows(m=500001,n=500001,short=4,long=200,stride=32)",
        "random_bipartite(rows=1000001,cols=300001,degree=10)",
    ),
    *("hypersparse(m=8000001,n=8000001,nonempty=400001,per_row=40)", "hypersparse_graph(n=9000001,entries=4000001)"),
    *("hypersparse(m=3000001,n=3000001,nonempty=100001,per_row=15)", "pruned(m=131072,n=1024,permille=100)"),
    *("pruned(m=131072,n=4096,permille=50)", "pruned(m=1048576,n=256,permille=30,skew=2)"),
    "pruned_blocks(m=16384,n=128,block=8,percent=15)",
)
"""Rows and columns are alike: a random order changes nothing."""

COLLECTED = (
    *("LAW/dblp-2010", "Boeing/bcsstk35", "Chen/pkustk03", "Chen/pkustk04", "Chen/pkustk06", "Chen/pkustk09"),
    *("DNVS/tsyl201", "GHS_psdef/opt1", "Gupta/gupta2", "HB/bcsstk32", "Mancktelow/viscorocks", "Rothberg/3dtube"),
    *("Schenk_IBMSDS/3D_51448_3D", "VanVelzen/std1_Jac3"),
)
"""Those at hand with 10^6 nonzeros and more. All but the first are below 10^5 rows."""


def constructions() -> Iterator[tuple[str, str]]:
    """Yield the names of constructions, and their arrangements as far as the size allows."""
    for group in (_MESHES, _ELEMENTS, _POINTS, _GRAPHS, _BIPARTITE, _BANDS, _SYSTEMS):
        yield from ((corpus.canonical(name), "natural shuffled half") for name in group)
    yield from ((corpus.canonical(name), "natural") for name in _WITHOUT_ORDER)


def main() -> None:
    """Write the table."""
    known = {e.name: _row(e.name, (e.rows or 0, e.cols or 0, e.nnz or 0), "") for e in corpus.standard("spmv")}
    if _OUTPUT.exists():
        rows = csv.DictReader(io.StringIO(gzip.decompress(_OUTPUT.read_bytes()).decode()))
        known |= {row["matrix"]: row for row in rows}
    table: dict[str, dict[str, str]] = {}
    for name, arrangements in constructions():
        if name in known:
            sizes = tuple(int(known[name][key]) for key in ("rows", "cols", "nnz"))
        else:
            start = time.perf_counter()
            A = corpus.load(name)
            sizes = (*A.shape, A.nnz)
            print(f"{name}: {sizes}, {time.perf_counter() - start:.1f} s", flush=True)
        table[name] = _row(name, sizes, arrangements)
        _write(table)
    for name in (*COLLECTED, *origins.index()):
        entry = corpus.find(name)
        assert entry.rows is not None
        assert entry.cols is not None
        assert entry.nnz is not None
        table[name] = _row(name, (entry.rows, entry.cols, entry.nnz), "natural shuffled half")
    _write(table)
    print(len(table), "matrices")


def _row(name: str, sizes: tuple[int, ...], arrangements: str) -> dict[str, str]:
    if sizes[2] > _MOST_HALF_NNZ:
        arrangements = arrangements.removesuffix(" half")
    return dict(
        zip(("matrix", "rows", "cols", "nnz", "arrangements"), (name, *map(str, sizes), arrangements), strict=True)
    )


def _write(table: dict[str, dict[str, str]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["matrix", "rows", "cols", "nnz", "arrangements"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(table[name] for name in sorted(table))
    with gzip.GzipFile(_OUTPUT, "wb", mtime=0) as file:
        file.write(text.getvalue().encode())


if __name__ == "__main__":
    main()

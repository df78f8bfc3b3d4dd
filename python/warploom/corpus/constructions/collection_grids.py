"""Matrices of the SuiteSparse collection that follow from a definition: which call makes which.

The calls have the collection's rows, columns and nonzeros. Where the collection's file was available, the patterns
equal those of the file entry by entry, except that the rows and columns of ``sphere2``, ``aug2d``, the ``lp_nug`` and
the ``lp_qap`` come in another order. Elsewhere, sizes and pattern symmetry agree, but the axis of a grid that is
numbered first may differ.
"""

from __future__ import annotations

__all__ = ["COLLECTION"]


def _two_dimensional() -> dict[str, str]:
    square = {"young1c": 29, "young2c": 29, "young4c": 29}
    calls = {f"HB/{name}": f"grid2d(nx={side},ny={side})" for name, side in square.items()}
    calls |= {f"Bai/cdde{k}": "grid2d(nx=31,ny=31)" for k in range(1, 7)}
    calls |= {f"Norris/fv{k}": f"grid2d(nx={side},ny={side},stencil=9)" for k, side in ((1, 98), (2, 99), (3, 99))}
    calls |= {f"TKK/t2d_q{k}": "grid2d(nx=99,ny=99,stencil=9)" for k in (4, 9)}
    return calls | {
        "HB/gr_30_30": "grid2d(nx=30,ny=30,stencil=9)",
        "HB/lap_25": "grid2d(nx=5,ny=5,stencil=9)",
        "HB/nos6": "l_shape(side=15)",
        "HB/saylr1": "grid2d(nx=14,ny=17)",
        "Bai/pde225": "grid2d(nx=15,ny=15)",
        "Bai/pde900": "grid2d(nx=30,ny=30)",
        "Bai/pde2961": "grid2d(nx=47,ny=63)",
        "McRae/ecology1": "grid2d(nx=1000,ny=1000)",
        "Watson/chem_master1": "grid2d(nx=201,ny=201)",
        "Castrillon/denormal": "grid2d(nx=298,ny=300,stencil=13)",
        "GHS_psdef/jnlbrng1": "grid2d(nx=200,ny=200)",
        "GHS_psdef/obstclae": "obstacle2d(nx=200,ny=200)",
        "GHS_psdef/torsion1": "obstacle2d(nx=200,ny=200)",
        "Bai/cryg2500": "crystal_growth(points=50)",
        "Bai/cryg10000": "crystal_growth(points=100)",
    }


def _tori() -> dict[str, str]:
    sides = {
        **{11: (8, 100), 12: (16, 50), 13: (32, 25), 32: (20, 100), 33: (25, 80), 34: (40, 50)},
        **{48: (60, 50), 49: (100, 30), 50: (120, 25), 57: (50, 100), 62: (70, 100), 65: (80, 100)},
        **{66: (100, 90), 67: (100, 100)},
    }
    return {f"Gset/G{k}": f"grid2d(nx={nx},ny={ny},stencil=4,periodic=2)" for k, (nx, ny) in sides.items()}


def _three_dimensional() -> dict[str, str]:
    calls = {f"Bourchtein/atmosmod{letter}": "grid3d(nx=148,ny=148,nz=58)" for letter in "dj"}
    calls |= {f"Bourchtein/atmosmod{letter}": "grid3d(nx=198,ny=198,nz=38)" for letter in "lm"}
    return calls | {
        "HB/nos7": "grid3d(nx=9,ny=9,nz=9)",
        "HB/orsreg_1": "grid3d(nx=21,ny=21,nz=5)",
        "Lin/Lin": "grid3d(nx=80,ny=80,nz=40)",
        "GHS_psdef/apache1": "grid3d(nx=8,ny=100,nz=101)",
        "GHS_psdef/apache2": "grid3d(nx=8,ny=297,nz=301)",
        "Boeing/crystm01": "crystal_mass(nx=13,ny=5,nz=25)",
        "Boeing/crystm02": "crystal_mass(nx=19,ny=7,nz=35)",
        "Boeing/crystm03": "crystal_mass(nx=21,ny=8,nz=49)",
    }


def _reactions() -> dict[str, str]:
    sides = {"200": 10, "200l": 10, "450": 15, "450l": 15, "800l": 20, "968": 22, "1250": 25, "1250l": 25, "2048": 32}
    sides |= {"2048_noL": 32, "3200l": 40, "5000": 50}
    calls = {f"Bai/rdb{name}": f"reaction_diffusion(nx={side},ny={side})" for name, side in sides.items()}
    calls |= {f"Bai/tub{n}": f"reaction_diffusion(nx={n // 2},ny=1)" for n in (100, 1000)}
    calls |= {f"Bai/bwm{n}": f"reaction_diffusion(nx={n // 2},ny=1,interleaved=0)" for n in (200, 2000)}
    calls |= {f"Bai/olm{n}": f"olmstead(points={n // 2})" for n in (100, 500, 1000, 2000, 5000)}
    calls |= {f"Bai/tols{n}": f"tolosa(modes={n // 5})" for n in (90, 340, 1090, 2000, 4000)}
    return calls


def _elements() -> dict[str, str]:
    calls = {f"HB/nos{k}": f"beam(nodes={nodes},axial=1)" for k, nodes in ((1, 79), (2, 319))}
    calls |= {f"Oberwolfach/LF{k}": f"beam(nodes={k - 1})" for k in (10, 10000)}
    calls |= {f"Pothen/sphere{k}": f"sphere_mesh(level={k},faces=8)" for k in (2, 3)}
    calls |= {f"MaxPlanck/shallow_water{k}": "sphere_mesh(level=6,cells=1)" for k in (1, 2)}
    return calls | {
        "GHS_psdef/wathen100": "wathen(nx=100,ny=100)",
        "GHS_psdef/wathen120": "wathen(nx=120,ny=100)",
        "Wissgott/parabolic_fem": "triangles(nx=1024,ny=512)",
    }


def _lattices() -> dict[str, str]:
    calls = {f"QCD/conf5_0-4x4-{k}": "wilson_lattice(nx=4,ny=4,nz=4,nt=4)" for k in (10, 14, 18, 22, 26)}
    calls |= {f"QCD/conf6_0-4x4-{k}": "wilson_lattice(nx=4,ny=4,nz=4,nt=4)" for k in (20, 30)}
    large = [*(f"5_4-8x8-{k}" for k in ("05", "10", "15", "20")), *(f"6_0-8x8-{k}" for k in (20, 30, 80))]
    calls |= {f"QCD/conf{name}": "wilson_lattice(nx=8,ny=8,nz=8,nt=8)" for name in large}
    return calls | {"Williams/mc2depi": "epidemic_chain(population=1024)"}


def _optimisation() -> dict[str, str]:
    calls = {f"Qaplib/lp_nug{n:02}": f"quadratic_assignment(n={n})" for n in (5, 6, 7, 8, 12, 15, 20, 30)}
    calls |= {f"LPnetlib/lp_qap{n}": f"quadratic_assignment(n={n})" for n in (8, 12, 15)}
    calls |= {
        f"GHS_indef/ncvxqp{k}": f"cvxqp(n=50000,constraints={m})" for k, m in ((3, 25000), (5, 12500), (7, 37500))
    }
    return calls | {
        "GHS_indef/cvxqp3": "cvxqp(n=10000,constraints=7500)",
        "GHS_psdef/cvxbqp1": "cvxbqp(n=50000)",
        "GHS_indef/ncvxbqp1": "cvxbqp(n=50000)",
        "GHS_indef/sparsine": "sparsine(n=50000)",
        "GHS_indef/dixmaanl": "dixmaan(third=20000)",
        "GHS_indef/aug2d": "augmented_grid(nx=98,ny=98)",
        "GHS_indef/aug2dc": "augmented_grid(nx=100,ny=100)",
        "GHS_indef/aug3d": "augmented_grid(nx=18,ny=18,nz=18)",
    }


def _lumped_masses() -> dict[str, str]:
    sizes = {2: 66, 5: 153, 6: 420, 8: 1074, 9: 1083, 11: 1473, 19: 817, 20: 485, 21: 3600, 22: 138, 23: 3134}
    sizes |= {24: 3562, 25: 15439, 26: 1922}
    calls = {f"HB/bcsstm{k:02}": f"diagonal(n={n})" for k, n in sizes.items()}
    return calls | {
        "Boeing/bcsstm39": "diagonal(n=46772)",
        "Oberwolfach/t2dal_e": "diagonal(n=4257)",
        "Oberwolfach/t3dl_e": "diagonal(n=20360)",
    }


COLLECTION: dict[str, str] = {
    **_two_dimensional(),
    **_tori(),
    **_three_dimensional(),
    **_reactions(),
    **_elements(),
    **_lattices(),
    **_optimisation(),
    **_lumped_masses(),
}
"""From the collection's group and name to the call that makes the matrix, as ``"grid2d(nx=30,ny=30,stencil=9)"``."""

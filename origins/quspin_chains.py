"""Hamiltonians of quantum systems: spins, bosons and electrons on lattices by QuSpin, Liouvillians by QuTiP."""

# ruff: noqa: D103 - what a source makes is said with its matrices.
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import qutip
import scipy.sparse
from common import Made, Matrix, pattern_arrays, source, versions
from quspin.basis import boson_basis_1d, spin_basis_1d, spin_basis_general, spinful_fermion_basis_1d
from quspin.operators import hamiltonian

PROGRAM = versions("quspin")
FAMILY = "quantum Hamiltonians"
KIND = "theoretical/quantum chemistry problem"
QUIET = {"check_herm": False, "check_pcon": False, "check_symm": False, "dtype": np.float64}


def _made(name: str, summary: str, H) -> Made:
    matrix = scipy.sparse.csr_array(H.tocsr() if hasattr(H, "tocsr") else H)
    recipe = "pattern symmetric"
    return Made(name, PROGRAM, pattern_arrays(matrix, symmetric=True), [Matrix(name, FAMILY, KIND, summary, recipe)])


@source
def quspin_heisenberg() -> Iterator[Made]:
    sites = 20
    basis = spin_basis_1d(sites, Nup=sites // 2, pauli=False)
    bonds = [[1.0 + 0.01 * i, i, (i + 1) % sites] for i in range(sites)]
    H = hamiltonian([["+-", bonds], ["-+", bonds], ["zz", bonds]], [], basis=basis, **QUIET)
    yield _made("quspin-heisenberg", "Heisenberg chain of 20 spins, half of them up", H)


@source
def quspin_fields() -> Iterator[Made]:
    sites = 20
    basis = spin_basis_general(sites, Nup=8, pauli=False)
    bonds = [[1.0 / reach, i, (i + reach) % sites] for reach in (1, 2, 3) for i in range(sites)]
    # Fields that differ from spin to spin, as in studies of localisation.
    fields = [[0.1 * ((7 * i) % 11) - 0.5, i] for i in range(sites)]
    H = hamiltonian([["+-", bonds], ["-+", bonds], ["zz", bonds], ["z", fields]], [], basis=basis, **QUIET)
    yield _made("quspin-fields", "chain of 20 spins, 8 of them up, with couplings to the third neighbour", H)


@source
def quspin_ising() -> Iterator[Made]:
    sites = 18
    basis = spin_basis_1d(sites, pauli=False)
    bonds = [[1.0, i, (i + 1) % sites] for i in range(sites)]
    fields = [[0.9, i] for i in range(sites)]
    H = hamiltonian([["zz", bonds], ["x", fields], ["z", fields]], [], basis=basis, **QUIET)
    yield _made("quspin-ising", "Ising chain of 18 spins in a tilted field", H)


@source
def quspin_momentum() -> Iterator[Made]:
    sites = 26
    basis = spin_basis_1d(sites, Nup=sites // 2, kblock=0, pblock=1, pauli=False)
    near = [[1.0, i, (i + 1) % sites] for i in range(sites)]
    next_ = [[0.4, i, (i + 2) % sites] for i in range(sites)]
    H = hamiltonian([[op, pairs] for pairs in (near, next_) for op in ("+-", "-+", "zz")], [], basis=basis, **QUIET)
    matrix = H.tocsr()
    yield _made("quspin-momentum", "J1-J2 chain of 26 spins, states of zero momentum and even parity", matrix)


@source
def quspin_bosons() -> Iterator[Made]:
    sites = 11
    basis = boson_basis_1d(sites, Nb=11)
    hops = [[-1.0, i, (i + 1) % sites] for i in range(sites)]
    H = hamiltonian([["+-", hops], ["-+", hops], ["nn", [[0.5, i, i] for i in range(sites)]]], [], basis=basis, **QUIET)
    yield _made("quspin-bosons", "Bose-Hubbard ring of 11 sites with 11 bosons", H)


@source
def quspin_hubbard() -> Iterator[Made]:
    sites = 12
    basis = spinful_fermion_basis_1d(sites, Nf=(6, 5))
    left = [[1.0, i, (i + 1) % sites] for i in range(sites)]
    right = [[-1.0, i, (i + 1) % sites] for i in range(sites)]
    both = [[4.0, i, i] for i in range(sites)]
    terms = [["+-|", right], ["-+|", left], ["|+-", right], ["|-+", left], ["n|n", both]]
    H = hamiltonian(terms, [], basis=basis, **QUIET)
    yield _made("quspin-hubbard", "Hubbard ring of 12 sites with 11 electrons", H)


@source
def qutip_liouvillian() -> Iterator[Made]:
    sites = 9
    identity = qutip.qeye(2)

    def at(operator, site):
        return qutip.tensor([operator if i == site else identity for i in range(sites)])

    H = sum(at(a, i) * at(a, i + 1) for i in range(sites - 1) for a in (qutip.sigmax(), qutip.sigmay(), qutip.sigmaz()))
    L = qutip.liouvillian(H, [0.1 * at(qutip.sigmam(), 0), 0.1 * at(qutip.sigmap(), sites - 1)])
    matrix = scipy.sparse.csr_array(L.to("csr").data_as("csr_matrix"))
    name = "qutip-liouvillian"
    summary = "master equation of a chain of 9 spins with a source and a drain"
    made = Matrix(name, FAMILY, KIND, summary, "pattern")
    yield Made(name, versions("qutip"), pattern_arrays(matrix), [made])

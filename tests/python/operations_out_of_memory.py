"""Runs operations of the package with every allocation of the core failing in turn; started by test_out_of_memory.py.

Prints how many failed, and how often that was a MemoryError. Ends with an AssertionError at anything else.
"""

import ctypes
import pathlib
import sys

import numpy as np
import scipy.sparse as sp

import warploom as wl
from warploom import formats, permutations, profiles
from warploom.errors import ParameterError

core = ctypes.CDLL(sys.argv[1])
PROFILE = pathlib.Path(__file__).parents[1] / "fuzz" / "corpus" / "profile" / "both"
MATRIX = pathlib.Path(sys.argv[2])

rng = np.random.default_rng(0)
rows, columns = rng.integers(0, 400, 3000), rng.integers(0, 300, 3000)
A = sp.csr_array((rng.integers(1, 9, 3000).astype(float), (rows, columns)), shape=(400, 300))
x = rng.integers(0, 5, 300).astype(float)
plan = wl.plan(A, op="spmv", device="cpu", select="spmv/none/csr/vector")
updatable = wl.plan(A, op="spmv", device="cpu", select="spmv/none/sell/vector", updatable=True)


def update():
    """Give a plan its own values again."""
    updatable.update_values(A.data)
    return (updatable @ x).tobytes()


def refusal():
    """Ask for what is not there."""
    try:
        wl.spmv(A, x, device="cpu", candidate="spmv/none/nothing/vector")
    except ParameterError as error:
        return str(error)


OPERATIONS = {
    "spmv": lambda: wl.spmv(A, x, device="cpu", candidate="spmv/lpt/csr/vector").tobytes(),
    "spmm": lambda: wl.spmm(A, np.stack([x, x], 1), device="cpu", candidate="spmm/none/csr/row_split").tobytes(),
    "product": lambda: (plan @ x).tobytes(),
    "update": update,
    "measure": lambda: (
        wl.plan(A, op="spmv", device="cpu", select="measure", candidates="spmv/none/csr/vector").candidate
    ),
    "refusal": refusal,
    "features": lambda: str(wl.features.spmm(A).as_dict()),
    "permutation": lambda: permutations.compute("hybrid-2.1", A).tobytes(),
    "permuted": lambda: permutations.apply(A, np.arange(400)[::-1]).indices.tobytes(),
    "format": lambda: formats.find("sell").from_csr(A).to_csr().indices.tobytes(),
    "load": lambda: wl.load(MATRIX).data.tobytes(),
    "profile": lambda: len(profiles.load(PROFILE).models),
    "names": lambda: wl.candidates(op="spmv"),
}

failures = refusals = 0
for name, run in OPERATIONS.items():
    expected = run()
    assert run() == expected
    for later_ones in (False, True):
        first, failed = 0, True
        while failed:
            core.start_failing(first, int(later_ones))
            try:
                found = run()
            except MemoryError:
                found = MemoryError
            finally:
                failed = bool(core.stop_failing())
            case = f"{name}: allocation {first}{' and later ones' if later_ones else ''}"
            assert found == expected or (failed and found is MemoryError), case
            assert run() == expected, f"after {case}"
            failures += failed
            refusals += found is MemoryError
            first += 1 + first // 10
print(f"{len(OPERATIONS)} operations, {failures} failures, {refusals} errors")

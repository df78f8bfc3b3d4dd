"""Products on the CPU in every instruction set that the processor has, with every number of columns left over."""

import os
import subprocess
import sys

import pytest

CHECK = """
import numpy as np, scipy.sparse as sp
import warploom as wl

rng = np.random.default_rng(0)

def of_rows(lengths, columns):
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(columns, size=indptr[-1])
    return sp.csr_array((rng.random(indptr[-1]), indices, indptr), (len(lengths), columns))

matrices = [
    of_rows(rng.integers(0, 40, 300), 200),  # every remainder of a vector
    of_rows(np.full(500, 3), 90),            # regular and short
    of_rows(np.full(60, 37), 150),           # regular and long
    of_rows(np.where(rng.random(400) < 0.1, 9, 0), 64),
    of_rows(np.array([2] * 50 + [5000] + [2] * 50), 700),
    of_rows(np.zeros(5, dtype=int), 7),
]
for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-4)):
    for A in matrices:
        A = A.astype(dtype)
        wide = rng.random((A.shape[1], 131)).astype(dtype)
        expected = A.astype(np.float64) @ wide.astype(np.float64)
        for candidate in ("spmv/none/csr/vector", "spmv/lpt/csr/vector", "spmv/none/dcsr/vector"):
            plan = wl.plan(A, "spmv", device="cpu", select=candidate)
            np.testing.assert_allclose(plan @ wide[:, 0].copy(), expected[:, 0], rtol=tolerance, atol=tolerance)
        for candidate in ("spmm/none/csr/row_split", "spmm/lpt/csr/row_split", "spmm/none/dcsr/row_split"):
            plan = wl.plan(A, k=8, device="cpu", select=candidate)
            for k in (*range(1, 20), 31, 32, 33, 63, 64, 65, 127, 128, 129, 131):
                B = np.ascontiguousarray(wide[:, :k])
                np.testing.assert_allclose(plan @ B, expected[:, :k], rtol=tolerance, atol=tolerance)
                np.testing.assert_array_equal(plan @ wide[:, :k], plan @ B)  # with room between rows
                out = np.full((A.shape[0], k + 3), 7, dtype)
                plan(B, out=out[:, :k])
                np.testing.assert_array_equal(out[:, :k], plan @ B)
                assert (out[:, k:] == 7).all()  # what lies between rows of C is not touched
"""


@pytest.mark.parametrize("widest", ["", "avx512", "avx2", "baseline"])
def test_products_in_every_instruction_set(widest):
    environment = {**os.environ, "WARPLOOM_CPU": widest}
    done = subprocess.run([sys.executable, "-c", CHECK], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_networks_predict_the_same_in_every_instruction_set():
    script = """
import numpy as np
from warploom import _core, profiles
profile = _core.load_profile(str(profiles.folders("network")[1] / "nvidia-h200.safetensors"))
for name, model in profile.models.items():
    inputs = np.random.default_rng(0).standard_normal((3, len(model.inputs))) * 5
    print(name, model.predict(inputs).tobytes().hex())
"""
    said = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "WARPLOOM_CPU": widest},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for widest in ("", "avx512", "avx2", "baseline")
    ]
    assert said[0].count("warm") > 5
    assert said == [said[0]] * len(said)


def test_the_number_of_threads_changes_no_bit():
    script = """
import numpy as np, scipy.sparse as sp
import warploom as wl
rng = np.random.default_rng(0)
A = sp.random_array((5000, 3000), density=0.05, format="csr", rng=rng)
for op, x in (("spmv", rng.random(3000)), ("spmm", rng.random((3000, 9)))):
    kernel = "vector" if op == "spmv" else "row_split"
    plan = wl.plan(A, op, k=9 if op == "spmm" else None, device="cpu", select=f"{op}/none/csr/{kernel}")
    results = []
    for threads in (1, 2, 3, 8):
        wl.set_num_threads(threads)
        results += [plan @ x for _ in range(5)]
    for result in results:
        np.testing.assert_array_equal(result, results[0])
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)

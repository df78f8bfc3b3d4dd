"""Processes beside the one that made a plan: forked ones get a clean error, spawned ones the product."""

import os
import pickle
import subprocess
import sys

import pytest

# Everything that touches the GPU, in a child that was forked after the parent did, and once more in the parent.
FORK = """
import os, sys
import numpy as np
from scipy.sparse import random_array
import warploom as wl

A = random_array((300, 200), density=0.1, format="csr", rng=1, dtype=np.float32)
x, B = np.ones(200, np.float32), np.ones((200, 4), np.float32)
large = np.ones((200, 3000), np.float32)
plan = wl.plan(A, "spmv", device="cuda", select="spmv/none/csr/vector", updatable=True)
wide = wl.plan(A, "spmm", k=4, device="cuda", select="spmm/none/csr/row_split")
chosen = wl.plan(A, "spmm", k=4, device="cuda")  # multiplies small operands on the host
sampled = wl.sddmm_plan(A, device="cuda")
calls = {
    "product": lambda: plan @ x,
    "wide product": lambda: wide @ B,
    "product of large operands": lambda: wide @ large,
    "transpose": lambda: plan.T @ np.ones(300, np.float32),
    "new values": lambda: plan.update_values(A.data),
    "sampled product": lambda: sampled(np.ones((300, 3), np.float32), np.ones((200, 3), np.float32)),
    "new plan": lambda: wl.plan(A, "spmv", device="cuda"),
    "measured plan": lambda: wl.plan(A, "spmv", device="cuda", select="measure", candidates="spmv/none/csr/*"),
    "product in one call": lambda: wl.spmv(A, x, candidate="spmv/none/csr/vector", device="cuda"),
}
small = chosen @ B
before = [np.asarray(calls[name]()) for name in ("product", "wide product", "sampled product")]
child = os.fork()
if child == 0:
    status = 1
    try:
        for name, call in calls.items():
            try:
                call()
            except wl.errors.DeviceError as error:
                if "forked" not in str(error):
                    print(name, "failed with", error, flush=True)
                    break
            else:
                print(name, "did not fail", flush=True)
                break
        else:
            on_host = wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector") @ x
            close = np.allclose(on_host, before[0], rtol=1e-4)
            status = int(not (close and (chosen @ B).tobytes() == small.tobytes()))
    finally:
        os._exit(status)
_, status = os.waitpid(child, 0)
after = [np.asarray(calls[name]()) for name in ("product", "wide product", "sampled product")]
assert all(a.tobytes() == b.tobytes() for a, b in zip(before, after))
sys.exit(os.waitstatus_to_exitcode(status))
"""

SPAWNED = """
import pickle, sys
import numpy as np
plan = pickle.load(open(sys.argv[1], "rb"))
assert plan.device.kind == "cuda"
sys.stdout.buffer.write((plan @ np.ones(plan.shape[1], plan.dtype)).tobytes())
"""


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, timeout=120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_gets_an_error_that_says_so():
    ended = run("-c", FORK)
    assert ended.returncode == 0, (ended.stdout + ended.stderr).decode()[-3000:]


def test_a_new_process_multiplies_with_the_same_plan(tmp_path):
    import numpy as np
    from scipy.sparse import random_array

    import warploom as wl

    A = random_array((300, 200), density=0.1, format="csr", rng=1, dtype=np.float32)
    plan = wl.plan(A, "spmv", device="cuda", select="spmv/none/csr/vector")
    (tmp_path / "plan").write_bytes(pickle.dumps(plan))
    ended = run("-c", SPAWNED, str(tmp_path / "plan"))
    assert ended.returncode == 0, ended.stderr.decode()[-3000:]
    assert ended.stdout == (plan @ np.ones(200, np.float32)).tobytes()

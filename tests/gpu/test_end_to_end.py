"""End-to-end times on a GPU: what is timed multiplies, and every tool gives times."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from warploom import _core, corpus
from warploom._device import Device, load_cusparse
from warploom.bench.end_to_end import Limits, Rows, run, summarise, tools
from warploom.bench.settings import Setting
from warploom.errors import DeviceError, ParameterError

torch = pytest.importorskip("torch")
GPU = Device("cuda")
QUICK = Limits(repeats=1, planning_s=0.0, loop_s=1e-4, direct_s=0.01)
SETTINGS = ("spmv/float32", "spmv/float64", "spmm/float32/row/k=32", "spmm/float64/row/k=3")


def skewed(m=3000, n=2000):
    """Return a matrix with empty rows, and rows of up to some hundred nonzeros."""
    rng = np.random.default_rng(3)
    lengths = np.minimum(n, (rng.pareto(1.5, m) * 4).astype(np.int64))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(0, n, indptr[-1], dtype=np.int32)
    return sp.csr_array((rng.standard_normal(indptr[-1]), indices, indptr), shape=(m, n))


CASES = [
    pytest.param(setting, place, tool, id=f"{setting}-{place}-{tool}")
    for setting, place in itertools.product(SETTINGS, tools.places(GPU))
    for tool in tools.names(setting.partition("/")[0], place, GPU)
    if not tools.missing(tool)
]


@pytest.mark.parametrize(("setting", "place", "tool"), CASES)
def test_every_tool_multiplies(setting, place, tool):
    load_cusparse()
    problem = tools.Problem.of(skewed(), Setting.parse(setting), place, GPU)
    made, product = tools.make(tool, problem)
    for multiply in (lambda: made.time(2), lambda: made.time_until(2)):
        problem.clear()
        try:
            multiply()
        except DeviceError as error:
            if tool.startswith("cusparse["):
                pytest.skip(f"cuSPARSE refuses: {error}")
            raise
        assert problem.wrong(product()) == ""
    times = made.time(2)
    assert min(times.planning_us, times.first_us, times.products_us) >= 0
    assert times.products_us > 0


def test_the_vendor_takes_valid_options_only():
    arguments = {"shape": (1, 1), "nnz": 0, "arrays": (0, 0, 0), "dtype": np.dtype("float32"), "index_bytes": 4}
    arguments |= {"on_host": False, "k": 1, "algorithm": 0, "preprocess": False}
    for changed in ({"index_bytes": 2}, {"algorithm": 3}, {"algorithm": -1}, {"k": 2}):
        with pytest.raises(ParameterError):
            _core.VendorProblem("spmv", **(arguments | changed))


def test_a_run_on_the_gpu(tmp_path):
    entries = [corpus.find(name) for name in ("grid2d(nx=40,ny=40)", "rmat(scale=10,edge_factor=4,seed=10)")]
    report = run(entries, tmp_path, device="cuda", limits=QUICK)
    assert report.measured == 2
    rows = Rows.load(tmp_path)
    frame = rows.frame
    own = frame[frame["tool"].str.startswith(("warploom", "torch")) | (frame["tool"] == "cusparse")]
    assert set(own["status"]) == {"ok"}, report.failed
    plans = frame[frame["tool"] == "warploom"]
    assert (plans.loc[plans["place"] == "device", "peak_bytes"] > 0).all()
    assert (plans["phases"] != "").all()
    assert set(summarise(rows).relative["place"]) == {"device", "device-int64", "host", "host-int64"}

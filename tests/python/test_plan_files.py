"""Saved plans: they come back as they were, and what is damaged or does not fit is refused."""

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

import warploom as wl
from warploom import _plan_file

KINDS = {
    "spmv": {"op": "spmv", "select": "spmv/none/cmrs/basic[height=4]"},
    "row": {"k": 4, "select": "spmm/lpt/csr/row_split"},
    "column": {"k": 4, "layout": "column", "select": "spmm/none/dcsr/c_stationary"},
    "operator": {"select": "spmv/none/csr/vector", "candidates": ["*/none/csr/row_split", "*/none/csr/vector"]},
}


def matrix(dtype=np.float64, shape=(40, 30)):
    return csr_array(random_array(shape, density=0.2, rng=np.random.default_rng(0), format="csr")).astype(dtype)


def make(kind, A=None, **options):
    plan = wl.plan(matrix() if A is None else A, device="cpu", **KINDS[kind], **options)
    plan @ np.ones(plan.shape[1], plan.dtype)
    return plan


def refused(kind, argument, call, *arguments, **options):
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    assert caught.value.argument == argument
    return str(caught.value)


def assert_same(plan, other):
    assert type(other) is type(plan)
    assert (other.shape, other.dtype, other.nnz, other.updatable) == (plan.shape, plan.dtype, plan.nnz, plan.updatable)
    if isinstance(plan, wl.Operator):
        assert {n: p.candidate for n, p in other.plans.items()} == {n: p.candidate for n, p in plan.plans.items()}
    else:
        assert (other.candidate, other.op, other.k, other.layout) == (plan.candidate, plan.op, plan.k, plan.layout)
    x = np.linspace(-1, 1, plan.shape[1]).astype(plan.dtype)
    np.testing.assert_array_equal(other @ x, plan @ x)
    z = np.linspace(-1, 1, plan.shape[0]).astype(plan.dtype)
    np.testing.assert_array_equal(other.T @ z, plan.T @ z)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_plans_come_back(kind, dtype, tmp_path):
    A = matrix(dtype)
    plan = make(kind, A)
    path = tmp_path / "plan.safetensors"
    plan.save(path)
    for back in (
        wl.load_plan(path),
        wl.load_plan(str(path), A),
        pickle.loads(pickle.dumps(plan)),
        copy.copy(plan),
        copy.deepcopy(plan),
    ):
        assert_same(plan, back)
    assert list(tmp_path.iterdir()) == [path]


def test_files_are_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    A = matrix()
    make("spmv", A).save(tmp_path / "plan")
    arrays = safetensors.load_file(tmp_path / "plan")
    np.testing.assert_array_equal(arrays["data"], A.data)
    np.testing.assert_array_equal(arrays["indices"], A.indices)
    np.testing.assert_array_equal(arrays["indptr"], A.indptr)


def test_plans_of_half_precision_and_of_nothing(tmp_path):
    plan = wl.plan(matrix(np.float32), "spmv", dtype="float16", device="cpu", select="spmv/none/csr/vector")
    assert_same(plan, pickle.loads(pickle.dumps(plan)))
    for shape in ((0, 4), (4, 0), (3, 4)):
        empty = wl.plan(csr_array(shape), "spmv", device="cpu", select="spmv/none/csr/vector")
        assert_same(empty, pickle.loads(pickle.dumps(empty)))


def test_plans_travel_to_other_processes(tmp_path):
    plan = make("row")
    (tmp_path / "plan.pickle").write_bytes(pickle.dumps(plan))
    script = (
        "import pickle, sys, numpy; plan = pickle.load(open(sys.argv[1], 'rb'));"
        "print(plan.candidate, (plan @ numpy.ones(30)).sum())"
    )
    command = [sys.executable, "-c", script, tmp_path / "plan.pickle"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert output[0] == plan.candidate
    assert float(output[1]) == pytest.approx((plan @ np.ones(30)).sum())


def test_what_was_asked_for_comes_back(tmp_path):
    A = matrix()
    blocks = wl.partition.partition_rows(A)
    inputs = (
        {"block_threads_per_row": np.full(blocks.num_short_blocks, 4)} if hasattr(blocks, "num_short_blocks") else {}
    )
    select = "spmv/none/csr/blockwise" if inputs else "spmv/none/csr/vector"
    plan = wl.plan(A, "spmv", device="cpu", select=select, inputs=inputs, calls=np.inf, updatable=True)
    back = pickle.loads(pickle.dumps(plan))
    back.update_values(2 * A.data)
    np.testing.assert_allclose(back @ np.ones(30), 2 * (A @ np.ones(30)))


def test_updated_values():
    A = matrix()
    operator = make("operator", A, updatable=True)
    operator.update_values(3 * A.data)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(operator)) @ np.ones(30), 3 * (A @ np.ones(30)))
    plan = make("row", A, updatable=True)
    plan.update_values(3 * A.data)
    refused(wl.errors.ParameterError, "plan", pickle.dumps, plan)


def test_a_matrix_that_changed_is_not_saved(tmp_path):
    for kind in KINDS:
        A = matrix()
        plan = make(kind, A)
        A.data[5] += 1
        refused(wl.errors.InvalidMatrixError, "A", plan.save, tmp_path / "plan")
    assert not list(tmp_path.iterdir())


def test_transposes_and_plans_without_a_matrix_are_not_saved(tmp_path):
    plan = make("row")
    refused(wl.errors.ParameterError, "plan", plan.T.save, tmp_path / "plan")
    with pytest.raises(OSError, match="missing"):
        plan.save(tmp_path / "missing" / "plan")


def test_another_matrix_or_device_is_refused(tmp_path):
    A = matrix()
    path = tmp_path / "plan"
    make("spmv", A).save(path)
    other = A.copy()
    other.data[0] += 1
    for wrong in (other, A[:, :-1], csr_array(A.T)):
        refused(wl.errors.InvalidMatrixError, "A", wl.load_plan, path, wrong)
    assert wl.load_plan(path, A.tocsc()).candidate
    refused(wl.errors.ParameterError, "device", wl.load_plan, path, device="gpu")
    metadata, arrays = _plan_file.read(path)
    described = json.loads(metadata["plan"])
    for changes, error in (
        ({"gpu": "NVIDIA H9000", "device": "cpu"}, wl.errors.DeviceError),
        ({"device": "cuda:7"}, wl.errors.DeviceError),
    ):
        changed = metadata | {"plan": json.dumps(described | changes)}
        changed["digest"] = _plan_file.digest(changed, arrays)
        _plan_file.write(tmp_path / "changed", changed, arrays)
        refused(error, "device", wl.load_plan, tmp_path / "changed")


def test_unknown_versions_and_candidates(tmp_path):
    path = tmp_path / "plan"
    make("spmv").save(path)
    metadata, arrays = _plan_file.read(path)
    described = json.loads(metadata["plan"])
    bad = [
        metadata | {"format": "warploom plan 2"},
        metadata | {"plan": "{"},
        metadata | {"digest": "00000000"},
        *(
            metadata | {"plan": json.dumps(described | change)}
            for change in (
                {"choices": [["spmv", 1, "column", "spmv/none/abacus/scalar"]]},
                {"choices": []},
                {"choices": [["spmv", 1]]},
                {"kind": "module"},
                {"shape": [40]},
                {"shape": [-1, 30]},
                {"calls": "often"},
                {"inputs": 3},
            )
        ),
    ]
    for changed in bad:
        if changed["digest"] != "00000000":
            changed["digest"] = _plan_file.digest(changed, arrays)
        _plan_file.write(path, changed, arrays)
        refused(wl.errors.FileFormatError, "path", wl.load_plan, path)
    # Arrays that were written with the right checksum, and form no matrix.
    wrong = arrays | {"indices": arrays["indices"] + 1000}
    _plan_file.write(path, metadata | {"digest": _plan_file.digest(metadata, wrong)}, wrong)
    refused(wl.errors.InvalidMatrixError, "indices", wl.load_plan, path)
    with pytest.raises(OSError, match="nowhere"):
        wl.load_plan(tmp_path / "nowhere")


RESTORE, (CONTENT,) = make("spmv").__reduce__()


@settings(max_examples=300, deadline=None)
@given(position=st.integers(0, len(CONTENT) - 1), octet=st.integers(0, 255), length=st.integers(0, 2 * len(CONTENT)))
def test_damaged_files(position, octet, length):
    damaged = bytearray(CONTENT)
    damaged[position] = octet
    damaged = bytes(damaged)[:length]
    if damaged == CONTENT:
        return
    if damaged[: len(CONTENT)] == CONTENT:
        return
    try:
        plan = RESTORE(damaged)
    except wl.errors.FileFormatError:
        return
    # What the header says in other words, such as another kind of blank.
    metadata, arrays = _plan_file.decode(damaged)
    assert metadata["digest"] == _plan_file.digest(metadata, arrays)
    assert plan.candidate == make("spmv").candidate


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_what_is_no_plan(content):
    for given_content in (content, len(content).to_bytes(8, "little") + content):
        with pytest.raises(wl.errors.FileFormatError):
            _plan_file.decode(given_content)

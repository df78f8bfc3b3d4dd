"""Saved plans: they come back as they were, and what is damaged or does not fit is refused."""

import copy
import dataclasses
import json
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

import warploom as wl
from warploom import _plan_file, profiles
from warploom._origin import Origin

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


@pytest.mark.parametrize("budget", [None, 0.25, np.inf])
def test_limits_of_measuring_come_back(budget):
    operator = wl.plan(matrix(), device="cpu", calls=1, budget=budget)
    back = pickle.loads(pickle.dumps(operator))
    back @ np.ones(30)
    (plan,) = back.plans.values()
    explanation = plan.explain()
    left_out = [r for r in explanation.rows if r.note.startswith("left out")]
    assert bool(left_out) == (budget is None)


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
                {"budget": "much"},
                {"budget": -1.0},
                {"inputs": 3},
                {"patterns": [1]},
                {"patterns": "*"},
                {"verify": "no"},
                {"updatable": []},
                {"cache": 3},
                {"origins": [{"how": "predicted"}]},
                {"origins": [3]},
                {"origins": described["origins"] * 2},
                {"origins": [described["origins"][0] | {"device": 3}]},
                {"origins": [described["origins"][0] | {"profile": {"gpu": "NVIDIA H200"}}]},
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


def rewritten(path, **changes):
    """Change what the file at a path says of where its choices come from."""
    metadata, arrays = _plan_file.read(path)
    described = json.loads(metadata["plan"])
    described["origins"] = [origin | changes for origin in described["origins"]]
    metadata["plan"] = json.dumps(described)
    metadata["digest"] = _plan_file.digest(metadata, arrays)
    _plan_file.write(path, metadata, arrays)


def small_profile(gpu, data_hash):
    return profiles.Profile(gpu, (9, 0), "13.0", {}, data_hash=data_hash)


def test_plans_say_where_their_choice_comes_from(tmp_path, recwarn):
    A = matrix()
    path = tmp_path / "plan"
    for plan, how in (
        (make("spmv", A), "named by its user"),
        (wl.plan(A, "spmv", device="cpu", candidates="spmv/none/csr/vector*", progress=False), "measured"),
    ):
        plan.save(path)
        back = wl.load_plan(path)
        assert back.explain().footnotes[-1] == f"Read from a file: {how} on {plan.device.name} by warploom 0.1.0."
        again = pickle.loads(pickle.dumps(back))  # it is still the first choice that counts
        assert again.explain().footnotes == back.explain().footnotes
    assert not [str(warning.message) for warning in recwarn]


def test_files_of_versions_that_did_not_say_so_are_read(tmp_path, recwarn):
    path = tmp_path / "plan"
    for kind in KINDS:
        plan = make(kind)
        plan.save(path)
        metadata, arrays = _plan_file.read(path)
        described = json.loads(metadata["plan"])
        del described["origins"]
        metadata["plan"] = json.dumps(described)
        metadata["digest"] = _plan_file.digest(metadata, arrays)
        _plan_file.write(path, metadata, arrays)
        assert_same(plan, wl.load_plan(path))
    assert not recwarn.list


@pytest.mark.parametrize("kind", ["spmv", "operator"])
def test_a_choice_that_may_be_out_of_date_is_doubted(kind, tmp_path):
    path = tmp_path / "plan"
    make(kind).save(path)
    for changes, doubt in (
        ({"warploom": "0.0.7"}, f"it was chosen by warploom 0.0.7, and this is {wl.__version__}"),
        ({"device": "CPU (999 threads)"}, "it was chosen on CPU (999 threads), and this is CPU"),
    ):
        rewritten(path, how="named", **changes)
        wl.load_plan(path)  # by its user, whatever it is chosen on
        rewritten(path, how="measured", **changes)
        with pytest.warns(RuntimeWarning, match=re.escape(doubt)):
            back = wl.load_plan(path)
        plans = back.plans.values() if kind == "operator" else [back]
        assert all(doubt in plan.explain().footnotes[-1] for plan in plans)
        make(kind).save(path)


def test_a_profile_that_has_changed_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path / "mine"))
    monkeypatch.setattr(profiles, "_SHIPPED", tmp_path / "shipped")
    for name in ("mine", "shipped"):
        (tmp_path / name).mkdir()
    assert profiles.fingerprint("NVIDIA H200") is None
    profiles.save(tmp_path / "shipped" / "h200.safetensors", small_profile("NVIDIA H200", "first"))
    (tmp_path / "shipped" / "damaged.safetensors").write_bytes(b"no profile")
    before = profiles.fingerprint("nvidia h200")
    assert before["data_hash"] == "first"
    path = tmp_path / "plan"
    make("spmv").save(path)
    rewritten(path, how="predicted", profile=before)
    assert wl.load_plan(path).explain().footnotes[-1].startswith("Read from a file: predicted on CPU")

    def doubted(words):
        with pytest.warns(RuntimeWarning, match=words):
            back = wl.load_plan(path)
        assert words in back.explain().footnotes[-1]

    profiles.save(tmp_path / "mine" / "h200.safetensors", small_profile("NVIDIA H200", "second"))  # comes first
    doubted("the profile of the nvidia h200 has been trained on other measurements since")
    changed = dataclasses.replace(small_profile("NVIDIA H200", "first"), cuda="13.1")
    profiles.save(tmp_path / "mine" / "h200.safetensors", changed)
    doubted("the profile of the nvidia h200 has changed since")
    # A GPU without a profile gets that of another one: whichever that is, it has changed.
    assert profiles.fingerprint("NVIDIA H100")["data_hash"] == "first first"
    for folder in ("mine", "shipped"):
        (tmp_path / folder / "h200.safetensors").unlink()
    doubted("the profile of the nvidia h200 that chose it is gone")


@pytest.mark.parametrize("model", ["trees", "network"])
def test_what_chose_is_written(model):
    """A prediction for a GPU, as far as that goes without one."""
    origin = Origin.of("predicted", "NVIDIA H200", model)
    assert origin.profile == profiles.fingerprint("NVIDIA H200", model)
    assert len(origin.profile["digest"]) == 8
    assert Origin.read(json.loads(json.dumps(origin.to_dict()))) == origin
    assert not origin.doubts("NVIDIA H200")
    assert "NVIDIA H100" in origin.doubts("NVIDIA H100")[0]
    assert Origin.of("measured", "NVIDIA H200", model).profile is None


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

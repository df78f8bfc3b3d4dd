import importlib
import json

import numpy as np
import pytest
import scipy.sparse

import warploom as wl
from warploom import _device, paper_models, profiles
from warploom.candidates import parse
from warploom.errors import ParameterError, ProfileError
from warploom.partition import partition_rows
from warploom.plan import problem_of

GPU = "NVIDIA H200"
SPMM = [name for name in paper_models.names() if name.startswith("mehrabi2021")]
SPMV = [name for name in paper_models.names() if name.startswith("gao2024")]


@pytest.fixture(scope="module")
def A():
    return scipy.sparse.random_array((700, 500), density=0.02, format="csr", rng=3, dtype=np.float32)


def profile_for(name):
    return profiles.find(GPU, model=name.partition("/")[0]).profile


@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("name", SPMM)
def test_a_row_order_is_chosen_by_the_models_own_prediction(name, layout, A):
    found = wl.predict(A, "spmm", k=32, layout=layout, gpu=GPU, model=name)
    model = profile_for(name).models[paper_models.find(name).stored]
    predicted = model.predict(wl.features.spmm(A))[0]
    best = model.outputs[predicted.argmax() if "classes" in paper_models.find(name).stored else predicted.argmin()]
    kernel = "c_stationary" if layout == "column" else "row_split"
    assert found.chosen.split("/")[:3] == best.split("/")[:3]
    assert found.chosen.endswith(f"/{kernel}")
    assert len(found.rows) == len(model.outputs) == (11 if "ten" in name else 4)
    assert found.rows[0].candidate == found.chosen
    assert name in " ".join(found.footnotes)


def test_four_orders_are_those_of_the_paper():
    outputs = profile_for("mehrabi2021").models["row-order-four-warm-times"].outputs
    assert {tuple(name.split("/")[1:3]) for name in outputs} == {
        ("none", "csr"),
        ("none", "dcsr"),
        ("lpt", "csr"),
        ("warp-aware", "csr"),
    }


def test_networks_have_the_papers_layers_and_inputs():
    for name in ("times", "classes"):
        model = profile_for("mehrabi2021").models[f"row-order-four-warm-{name}"]
        assert model.inputs == wl.features.names("spmm")
        assert [model.arrays[f"layer.{i}.weight"].shape[1:] for i in range(3)] == [(64, 24), (32, 64), (4, 32)]


def test_threads_per_row_are_the_most_probable_that_can_run(A):
    found = wl.predict(A, "spmv", dtype="float64", gpu=GPU, model="gao2024")
    model = profile_for("gao2024").models["threads-per-row-float64-warm"]
    probabilities = dict(zip(model.outputs, model.predict(wl.features.spmv(A))[0], strict=True))
    assert found.chosen == max(probabilities, key=probabilities.get)
    assert [row.candidate for row in found.rows] == sorted(probabilities, key=lambda name: -probabilities[name])


def test_blocks_of_short_rows_get_threads_of_their_own():
    random = np.random.default_rng(0)
    lengths = np.repeat([1, 600, 40], [300, 3, 200])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([np.sort(random.choice(2000, n, replace=False)) for n in lengths])
    A = scipy.sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(lengths), 2000))
    problem = problem_of(A, "spmv", None, None, "row", "warm", _device.Device("cpu"))
    choice = paper_models.find("gao2024/blockwise").choose(profile_for("gao2024"), A, problem)
    blocks = partition_rows(A, long_row=512)
    threads = choice.inputs["block_threads_per_row"]
    assert choice.candidate == "spmv/none/csr/blockwise"
    assert len(threads) == np.count_nonzero(~blocks.is_long) == 2
    assert threads[0] < threads[1]
    assert set(threads.tolist()) <= {2, 4, 8, 16, 32}
    plan = wl.plan(A, "spmv", device="cpu", select=choice.candidate, inputs=choice.inputs)
    x = random.random(2000)
    np.testing.assert_allclose(plan @ x, A @ x, rtol=1e-12)


@pytest.mark.parametrize("name", paper_models.names())
def test_a_model_refuses_the_other_operation(name, A):
    op, k = ("spmv", None) if name in SPMM else ("spmm", 8)
    with pytest.raises(ParameterError, match=f"{name} chooses for op=") as caught:
        wl.predict(A, op, k=k, gpu=GPU, model=name)
    assert caught.value.argument == "model"


@pytest.mark.parametrize("call", [wl.plan, wl.predict])
def test_an_unknown_model_is_named_with_those_there_are(call, A):
    with pytest.raises(ParameterError, match="trees, network, mehrabi2021") as caught:
        call(A, "spmv", model="oracle")
    assert caught.value.argument == "model"


def test_a_profile_without_the_model_says_what_it_has(A):
    problem = problem_of(A, "spmv", None, None, "row", "warm", _device.Device("cpu"))
    with pytest.raises(ProfileError, match="no model 'threads-per-row-float64-warm'"):
        paper_models.find("gao2024").choose(profile_for("mehrabi2021"), A, problem)


@pytest.mark.parametrize("op", ["spmv", None])
def test_a_plan_for_the_cpu_cannot_be_predicted(op, A):
    with pytest.raises(ParameterError, match="predicts for GPUs") as caught:
        wl.plan(A, op, device="cpu", model="gao2024")
    assert caught.value.argument == "model"


def test_a_gpu_without_profile_is_named_with_those_there_are(A):
    with pytest.raises(ParameterError, match=GPU) as caught:
        wl.predict(A, "spmv", gpu="Voodoo 2", model="gao2024")
    assert caught.value.argument == "gpu"


def test_explanations_are_plain_values(A):
    found = wl.predict(A, "spmm", k=8, gpu=GPU, model="mehrabi2021")
    assert json.loads(json.dumps(found.to_dict()))["chosen"] == found.chosen
    assert "mehrabi2021" in str(found)


@pytest.mark.parametrize("name", ["none", "empty"])
def test_matrices_without_entries(name):
    shape = (0, 0) if name == "empty" else (5, 7)
    A = scipy.sparse.csr_array(shape, dtype=np.float32)
    for model in paper_models.names():
        op = paper_models.find(model).op
        found = wl.predict(A, op, k=4 if op == "spmm" else None, gpu=GPU, model=model)
        assert parse(found.chosen).kernel.op == op


def test_the_network_chooses_among_the_candidates_of_the_trees(A):
    of_trees, of_network = (wl.predict(A, "spmv", gpu=GPU, model=model) for model in ("trees", "network"))
    assert {row.candidate for row in of_trees.rows} == {row.candidate for row in of_network.rows}
    assert wl.predict(A, "spmv", gpu=GPU).to_dict() | {"footnotes": []} == of_trees.to_dict() | {"footnotes": []}


@pytest.fixture
def a_gpu(monkeypatch):
    """A GPU as far as choosing goes; what is prepared is prepared on the CPU."""
    planning = importlib.import_module("warploom.plan")  # the package's attribute of that name is the function

    class Target:
        kind, name, ordinal, number = "cuda", GPU, 0, -1

    monkeypatch.setattr(wl._core, "cuda_info", lambda: {"devices": [{"name": GPU, "compute_capability": (9, 0)}]})
    monkeypatch.setattr(_device.Device, "parse", classmethod(lambda cls, device: Target()))
    monkeypatch.setattr(_device, "load_cusparse", lambda: "")
    original = planning.problem_of
    on_cpu = _device.Device("cpu")
    monkeypatch.setattr(
        planning,
        "problem_of",
        lambda *given: original(*(on_cpu if isinstance(value, Target) else value for value in given)),
    )


@pytest.mark.parametrize("name", paper_models.names())
def test_a_plan_is_what_the_model_chooses(name, A, a_gpu):
    op = paper_models.find(name).op
    plan = wl.plan(A, op, k=6 if op == "spmm" else None, layout="column", model=name)
    expected = wl.predict(A, op, k=6 if op == "spmm" else None, layout="column", gpu=GPU, model=name)
    assert plan.candidate == expected.chosen
    assert plan.explain().to_dict() == expected.to_dict()

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from warploom import corpus
from warploom._device import Device
from warploom.bench.end_to_end import Limits, Rows, run, tools
from warploom.bench.settings import Setting
from warploom.errors import ParameterError, ShapeError

QUICK = {
    "device": "cpu",
    "settings": ["spmv/float64"],
    "patterns": ["warploom", "scipy"],
    "limits": Limits(repeats=1, planning_s=0.0, loop_s=1e-5, direct_s=1e-3),
}
CPU, GPU = Device("cpu"), Device("cuda")


@pytest.fixture
def entries(tmp_path):
    folder = tmp_path / "matrices"
    folder.mkdir()
    for name, size in (("a", 20), ("b", 30)):
        sp.save_npz(folder / f"{name}.npz", sp.random_array((size, size), density=0.2, format="csr", rng=1))
    return corpus.folder(folder)


def failing(entry, error):
    def loader(progress):
        raise error

    return dataclasses.replace(entry, name="failing", loader=loader)


def test_rows_have_times_and_what_is_known_of_the_matrix(entries, tmp_path):
    report = run(entries, tmp_path / "out", **QUICK)
    assert (report.measured, report.rows, report.failed) == (2, 4, {})
    frame = Rows.load(tmp_path / "out").frame.set_index(["matrix", "tool"])
    assert set(frame["status"]) == {"ok"}
    times = ["planning_us", "planning_min_us", "planning_max_us", "planning_cold_us", "first_us", "call_us"]
    assert (frame[times] > 0).all(axis=None)
    assert (frame["first_us"] > frame["planning_us"]).all()
    own = frame.loc[("a", "warploom")]
    assert own["candidate"].startswith("spmv/")
    assert own["plan_bytes"] > 0
    assert "conversion" in own["phases"]
    assert (own["rows"], own["nnz"], own["csr_bytes"]) == (20, 80, 80 * 12 + 21 * 4)
    assert own["peak_bytes"] == -1
    assert frame.loc[("b", "scipy"), "until_10_us"] > 0


def test_matrices_that_are_loaded_ahead_are_measured_like_others(entries, tmp_path):
    report = run(entries, tmp_path, **QUICK, ahead=2)
    assert (report.measured, report.rows, report.failed) == (2, 4, {})
    assert list(Rows.load(tmp_path).frame["matrix"].unique()) == ["a", "b"]


def test_what_is_there_is_not_measured_again(entries, tmp_path):
    first = run(entries[:1], tmp_path, **QUICK)
    steps = []
    second = run(entries, tmp_path, **QUICK, progress=lambda *step: steps.append(step))
    assert (first.measured, second.measured, second.known) == (1, 1, 1)
    assert steps == [(0, 1, "b")]
    assert run(entries, tmp_path, **QUICK).known == 2
    third = run(entries, tmp_path, **(QUICK | {"patterns": ["warploom*", "scipy"]}))
    assert (third.measured, third.rows) == (2, 6)  # calls of 100, 1000 and infinity are new


def test_time_that_has_run_out_leaves_matrices(entries, tmp_path):
    report = run(entries, tmp_path, **QUICK, minutes=0)
    assert (report.measured, report.left) == (0, 2)
    assert "no time for 2" in str(report)


def test_matrices_that_cannot_be_loaded_are_reported(entries, tmp_path):
    bad = failing(entries[0], ShapeError("no such shape", argument="A"))
    report = run([bad, entries[1]], tmp_path, **QUICK)
    assert report.measured == 1
    assert report.failed == {"failing": "no such shape"}
    assert "failing: no such shape" in str(report)


def test_a_tool_that_fails_costs_its_row_only(entries, tmp_path, monkeypatch):
    def refuse(self, *arguments, **options):
        raise MemoryError("too large")

    monkeypatch.setattr("warploom.plan", refuse)
    report = run(entries[:1], tmp_path, **QUICK)
    frame = Rows.load(tmp_path).frame.set_index("tool")
    assert frame["status"].to_dict() == {"warploom": "out of memory", "scipy": "ok"}
    assert frame.loc["warploom", "note"] == "too large"
    assert any("too large" in reason for reason in report.failed.values())


def test_wrong_products_are_found(entries, tmp_path, monkeypatch):
    monkeypatch.setattr("warploom.plan", lambda A, **options: Wrong())
    run(entries[:1], tmp_path, **QUICK)
    frame = Rows.load(tmp_path).frame.set_index("tool")
    assert frame.loc["warploom", "status"] == "wrong result"
    assert "rows are wrong" in frame.loc["warploom", "note"]
    assert frame["planning_us"].notna().to_dict() == {"warploom": False, "scipy": True}


class Wrong:
    preparation_ms, candidate, nbytes = {}, "wrong", 1

    def __call__(self, B, out):
        out[:] = 1
        return out


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"settings": ["spmv/float16"]}, "float32 and float64"),
        ({"settings": ["spmm/float32/column/k=32"]}, "row-major"),
        ({"settings": ["spmm/float32/row/k=rows"]}, "number of columns"),
        ({"settings": ["spmx"]}, "not a setting"),
        ({"places": ["device"]}, "got 'device'"),
        ({"patterns": ["mkl"]}, "no tool has such a name; known: warploom, "),
        ({"device": "tpu"}, "unknown device"),
    ],
)
def test_arguments_that_mean_nothing(entries, tmp_path, changed, match):
    with pytest.raises(ParameterError, match=match):
        run(entries, tmp_path, **(QUICK | changed))


def test_products_are_checked_where_rows_are_long_short_and_empty():
    A = sp.csr_array(np.array([[0.0, 0, 0], [1, 2, 3], [0, 5, 0]]))
    for name in ("spmv/float32", "spmm/float64/row/k=4"):
        problem = tools.Problem.of(A, Setting.parse(name), "host", CPU)
        product = problem.matrix @ problem.B
        assert problem.wrong(product) == ""
        for row in range(3):
            wrong = product.copy()
            wrong[row] += 0.1
            assert "1 of 3 rows are wrong" in problem.wrong(wrong)
        problem.clear()
        assert problem.wrong(problem.C)


def test_tools_by_name():
    assert tools.names("spmv", "host", CPU)[-1] == "scipy"
    vendor = [name for name in tools.names("spmv", "device", GPU) if name.startswith("cusparse")]
    assert vendor == [
        "cusparse",
        "cusparse[preprocess]",
        "cusparse[algorithm=1]",
        "cusparse[algorithm=1,preprocess]",
        "cusparse[algorithm=2]",
        "cusparse[algorithm=2,preprocess]",
    ]
    assert sum(name.startswith("cusparse") for name in tools.names("spmm", "device", GPU)) == 8
    for place in ("device-int64", "host-int64"):
        assert "cupy" not in tools.names("spmv", place, GPU)
        assert not [tool for _, tool in tools.chosen(place, GPU) if tool == "cupy"]


def test_what_is_measured_by_default_on_a_gpu():
    by_place = {place: tools.chosen(place, GPU) for place in tools.places(GPU)}
    assert list(by_place) == ["device", "device-int64", "host", "host-int64"]
    everything = [(s, tool) for s, _ in by_place["device"] for tool in tools.names(s.op, "device", GPU)]
    assert set(by_place["device"]) == set(everything)
    for pairs in by_place.values():
        assert {setting.op for setting, _ in pairs} == {"spmv", "spmm"}
        assert {"warploom", "warploom[calls=1000]", "cusparse", "torch"} <= {tool for _, tool in pairs}


def test_a_matrix_in_host_memory_with_wide_indices():
    A = sp.random_array((30, 20), density=0.2, format="csr", rng=0)
    wide = tools._widened(A)
    assert (wide.indices.dtype, wide.indptr.dtype) == (np.int64, np.int64)
    assert (wide != A).nnz == 0
    assert A.indices.dtype == np.int32


def test_brackets_of_names_mean_themselves():
    found = tools.chosen("device", GPU, ["spmv/float32"], ["cusparse[preprocess]", "warploom[calls=1*]"])
    assert [tool for _, tool in found] == ["warploom[calls=100]", "warploom[calls=1000]", "cusparse[preprocess]"]


def test_torch_multiplies_in_any_index_type():
    torch = pytest.importorskip("torch")
    A = sp.random_array((20, 10), density=0.3, format="csr", dtype=np.float32, rng=1)
    B = torch.ones(10)
    for index in (torch.int32, torch.int64):
        tensor = tools._tensor(A, index, "cpu")
        assert tensor.crow_indices().dtype is tensor.col_indices().dtype is index
        np.testing.assert_allclose((tensor @ B).numpy(), A @ np.ones(10), rtol=1e-5)

"""Results of a sweep survive kills, full disks, damaged files and other sweeps."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import re
import signal
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.tables import ENVIRONMENT, failed, matrix, measured
from warploom.bench import Measurements, StorageError, Store, schema
from warploom.bench import store as store_module
from warploom.errors import ParameterError, WarploomError


def everything_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_what_is_appended_is_done(tmp_path):
    store = Store(tmp_path / "new" / "folder")
    assert store.done() == set()
    path = store.append(matrix("a"), [measured("a"), measured("a", setting="spmv/float32")], ENVIRONMENT)
    assert path.parent == tmp_path / "new" / "folder" / "parts"
    assert store.done() == {("a", "spmv/float64"), ("a", "spmv/float32")}
    store.append(matrix("b"), [], ENVIRONMENT, settings=["spmv/float16"])
    expected = {("a", "spmv/float64"), ("a", "spmv/float32"), ("b", "spmv/float16")}
    assert store.done() == expected
    assert Store(store.folder).done() == expected
    assert store.broken == {}


def test_parts_hold_the_matrix_and_the_environment(tmp_path):
    store = Store(tmp_path)
    store.append(matrix("a", spmv_nnz=20.0, load_s=float("nan")), [measured("a")], ENVIRONMENT)
    store.append(matrix("b"), [failed("b")], {**ENVIRONMENT, "gpu": "another"})
    first, second = Store(tmp_path).parts()
    assert (first.matrix["spmv_nnz"], first.matrix["load_s"], first.matrix["kind"]) == (20.0, None, "")
    assert first.environment == ENVIRONMENT
    assert first.environment_key == schema.environment_key(ENVIRONMENT) != second.environment_key
    assert first.written_ns < second.written_ns
    assert pq.read_table(first.path)["environment"].to_pylist() == [first.environment_key]


def test_rows_have_to_fit(tmp_path):
    store = Store(tmp_path)
    bad = [
        (matrix("a"), [measured("b")], "'b' given with the matrix 'a'"),
        (matrix("a"), [measured("a", status="fine")], "status is one of 'ok'"),
        (matrix("a"), [measured("a", cache="hot")], "cache is one of"),
        (matrix("a"), [measured("a", colour="red")], "unknown columns: colour"),
        (matrix("a"), [{"matrix": "a", "setting": "spmv/float64", "status": "ok"}], "lack 'op'"),
        (matrix("a", colour="red"), [measured("a")], "unknown columns: colour"),
        (matrix("a", nnz=None), [measured("a")], "lack 'nnz'"),
        (matrix("a", nnz="many"), [measured("a")], "column 'nnz' is int64"),
        (matrix("a"), [measured("a", repeats=100_000)], "column 'repeats' is int16"),
    ]
    for facts, rows, message in bad:
        with pytest.raises(ParameterError, match=message):
            store.append(facts, rows, ENVIRONMENT)
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize("kept", [0, 1, 50, 0.5, -1])
def test_truncated_files_are_named_and_passed_over(tmp_path, kept):
    store = Store(tmp_path)
    path = store.append(matrix("a"), [measured("a")], ENVIRONMENT)
    store.append(matrix("b"), [measured("b")], ENVIRONMENT)
    contents = path.read_bytes()
    path.write_bytes(contents[: int(kept * len(contents)) if isinstance(kept, float) else kept])
    reader = Store(tmp_path)
    assert reader.done() == {("b", "spmv/float64")}
    assert list(reader.broken) == [path.name]
    assert str(path) in reader.broken[path.name]
    with pytest.warns(UserWarning, match=path.name):
        loaded = Measurements.load(tmp_path)
    assert list(loaded.skipped) == [str(path)]
    assert loaded.measurements["matrix"].tolist() == ["b"]
    assert loaded.matrices["matrix"].tolist() == ["b"]


def test_damaged_rows_are_named_and_passed_over(tmp_path):
    store = Store(tmp_path)
    path = store.append(matrix("a"), [measured("a")], ENVIRONMENT)
    store.append(matrix("b"), [measured("b")], ENVIRONMENT)
    column = next(
        column
        for column in map(pq.read_metadata(path).row_group(0).column, range(len(schema.MEASUREMENTS)))
        if column.path_in_schema == "median_us"
    )
    contents = bytearray(path.read_bytes())
    contents[(column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size - 1] ^= 0xFF
    path.write_bytes(contents)
    with pytest.warns(UserWarning, match=path.name):
        loaded = Measurements.load(tmp_path)
    assert loaded.measurements["matrix"].tolist() == ["b"]


def rewrite(path, *, text=None, facts=None, rows=lambda table: table):
    """Write a file again with other metadata or other columns."""
    with pq.ParquetFile(path) as file:
        table = file.read()
    known = json.loads(table.schema.metadata[store_module._FACTS])
    matrix_facts = known["matrix"] | (facts or {}).pop("matrix_facts", {})
    text = text or json.dumps(known | {"matrix": matrix_facts} | (facts or {}))
    pq.write_table(rows(table).replace_schema_metadata({store_module._FACTS: text}), path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"text": "[]"}, "no JSON object"),
        ({"text": "[" * 100_000}, "recursion"),
        ({"facts": {"settings": 5}}, "'settings' is 5"),
        ({"facts": {"settings": [["spmv"]]}}, "'settings' are"),
        ({"facts": {"written_ns": "now"}}, "'written_ns' is 'now'"),
        ({"facts": {"environment_key": ["key"]}}, "'environment_key' is"),
        ({"facts": {"environment": 3}}, "'environment' is 3"),
        ({"facts": {"matrix": []}}, "'matrix' is"),
        ({"facts": {"matrix": {"matrix": "a"}}}, "'rows' of its matrix is None"),
        ({"facts": {"matrix_facts": {"matrix": 5}}}, "'matrix' of its matrix is 5"),
        ({"facts": {"matrix_facts": {"rows": "many"}}}, "'rows' of its matrix is 'many'"),
        ({"facts": {"matrix_facts": {"rows": 2**70}}}, "'rows' of its matrix"),
        ({"facts": {"matrix_facts": {"nnz": {}}}}, "'nnz' of its matrix"),
        ({"facts": {"matrix_facts": {"load_s": "long"}}}, "'load_s' of its matrix is 'long'"),
    ],
)
def test_one_damaged_file_does_not_keep_the_others_from_being_read(tmp_path, change, reason):
    store = Store(tmp_path)
    path = store.append(matrix("a"), [measured("a")], ENVIRONMENT)
    store.append(matrix("b"), [measured("b")], ENVIRONMENT)
    rewrite(path, **change)
    reader = Store(tmp_path)
    assert reader.done() == {("b", "spmv/float64")}
    assert reason in reader.broken[path.name]
    with pytest.warns(UserWarning, match=path.name):
        loaded = Measurements.load(tmp_path)
    assert loaded.matrices["matrix"].tolist() == ["b"]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (lambda table: table.drop_columns(["run"]), "run"),
        (lambda table: table.append_column("extra", pa.array([1])), "extra"),
        (lambda table: table.append_column("run", pa.array([0], pa.int16())), "run|number or order"),
        (lambda table: table.set_column(0, "matrix", pa.array([1])), "matrix"),
        (lambda table: table.select(table.column_names[::-1]), "number or order"),
    ],
)
def test_a_file_of_other_columns_is_named_and_passed_over(tmp_path, rows, reason):
    store = Store(tmp_path)
    path = store.append(matrix("a"), [measured("a")], ENVIRONMENT)
    store.append(matrix("b"), [measured("b")], ENVIRONMENT)
    rewrite(path, rows=rows)
    with pytest.warns(UserWarning, match=path.name):
        loaded = Measurements.load(tmp_path)
    assert loaded.measurements["matrix"].tolist() == ["b"]
    assert re.search(f"not those of measurements: .*({reason})", loaded.skipped[str(path)])


def test_facts_that_another_version_did_not_write_yet_have_their_defaults(tmp_path):
    store = Store(tmp_path)
    path = store.append(matrix("a"), [measured("a")], ENVIRONMENT)
    store.append(matrix("b", referenced_cols=7, kind="graph"), [measured("b")], ENVIRONMENT)
    facts = {name: value for name, value in Store(tmp_path).parts()[0].matrix.items() if value is not None}
    rewrite(path, facts={"matrix": {n: v for n, v in facts.items() if n not in ("referenced_cols", "kind")}})
    matrices = Measurements.load(tmp_path).matrices
    assert matrices["referenced_cols"].tolist() == [-1, 7]
    assert matrices["kind"].tolist() == ["", "graph"]


def test_files_of_others_and_other_versions_are_named(tmp_path, monkeypatch):
    store = Store(tmp_path)
    (tmp_path / "parts" / "text.parquet").write_text("not a table")
    pq.write_table(
        pq.read_table(store.append(matrix("a"), [measured("a")], ENVIRONMENT)).replace_schema_metadata(),
        tmp_path / "parts" / "other.parquet",
    )
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    store.append(matrix("b"), [measured("b")], ENVIRONMENT)
    monkeypatch.undo()
    reader = Store(tmp_path)
    assert reader.done() == {("a", "spmv/float64")}
    assert len(reader.broken) == 3
    assert "no metadata of warploom" in reader.broken["other.parquet"]
    assert any("has version 2 of the schema, expected 1" in reason for reason in reader.broken.values())


def test_a_kill_before_the_file_has_its_name_leaves_nothing_that_readers_see(tmp_path, monkeypatch):
    Store(tmp_path).append(matrix("a"), [measured("a")], ENVIRONMENT)

    def killed(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def write():
        store_module.os.replace = killed
        Store(tmp_path).append(matrix("b"), [measured("b")], ENVIRONMENT)

    process = multiprocessing.get_context("fork").Process(target=write)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    unfinished = [name for name in everything_in(tmp_path) if name.endswith(".unfinished")]
    assert len(unfinished) == 1
    reader = Store(tmp_path)
    assert reader.done() == {("a", "spmv/float64")}
    assert reader.broken == {}
    assert len(Measurements.load(tmp_path)) == 1
    assert unfinished[0] in everything_in(tmp_path)  # another process could still be writing it

    old = time.time() - 48 * 3600
    os.utime(tmp_path / "parts" / unfinished[0], (old, old))
    Store(tmp_path)
    assert unfinished[0] not in everything_in(tmp_path)


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_full_disk_is_a_typed_error_and_leaves_nothing(tmp_path, monkeypatch, call):
    store = Store(tmp_path)
    store.append(matrix("a"), [measured("a")], ENVIRONMENT)
    before = everything_in(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_module.os, call, full)
    with pytest.raises(StorageError, match=f"cannot write to {tmp_path}.*No space left") as raised:
        store.append(matrix("b"), [measured("b")], ENVIRONMENT)
    monkeypatch.undo()
    assert isinstance(raised.value, WarploomError)
    assert isinstance(raised.value, OSError)
    assert raised.value.errno == errno.ENOSPC
    assert everything_in(tmp_path) == before
    store.append(matrix("b"), [measured("b")], ENVIRONMENT)
    assert len(store.done()) == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_the_device_that_is_always_full(tmp_path, monkeypatch):
    store = Store(tmp_path)
    full = open("/dev/full", "wb")  # noqa: SIM115 - closed by what it is given to
    monkeypatch.setattr(store_module.pathlib.Path, "open", lambda self, mode: full)
    with pytest.raises(StorageError, match="No space left"):
        store.append(matrix("b"), [measured("b")], ENVIRONMENT)


def test_a_file_in_the_place_of_the_folder_is_a_typed_error(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(StorageError, match="taken"):
        Store(tmp_path / "taken")


def append_many(folder, names):
    store = Store(folder)
    for name in names:
        store.append(matrix(name), [measured(name)] * 3, ENVIRONMENT)


def test_processes_append_to_one_folder_at_once(tmp_path):
    names = [[f"{process}-{i}" for i in range(15)] for process in range(3)]
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=append_many, args=(tmp_path, chosen)) for chosen in names]
    for process in processes:
        process.start()
    reader = Store(tmp_path)
    while any(process.is_alive() for process in processes):
        reader.done()
        assert reader.broken == {}
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert reader.done() == {(name, "spmv/float64") for chosen in names for name in chosen}
    assert len(everything_in(tmp_path)) == 45

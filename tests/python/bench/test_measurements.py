"""Reading, merging and writing measurements."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.tables import ENVIRONMENT, failed, matrix, measured, tables
from warploom.bench import Measurements, Store, merge, schema, shipped
from warploom.bench import measurements as module
from warploom.bench import store as store_module
from warploom.bench.summary import counts
from warploom.errors import FileFormatError, ParameterError

OTHER = {**ENVIRONMENT, "driver": "2.0"}


def values(loaded, *columns):
    rows = loaded.measurements[list(columns)].astype(object)
    return sorted(rows.itertuples(index=False, name=None))


def test_a_store_is_read_with_all_its_columns(tmp_path):
    Store(tmp_path).append(
        matrix("a", spmv_nnz=20.0, permutation_ms_lpt=1.5, kind="graph"),
        [measured("a", median=2.0, position=3), failed("a", "spmv/none/csr/vector", note="no memory")],
        ENVIRONMENT,
    )
    loaded = Measurements.load(tmp_path)
    assert list(loaded.measurements) == [c.name for c in schema.MEASUREMENTS]
    assert list(loaded.matrices) == [c.name for c in schema.matrix_columns()]
    assert loaded.environments == {schema.environment_key(ENVIRONMENT): ENVIRONMENT}
    first, second = (row for _, row in loaded.measurements.iterrows())
    assert (first["median_us"], first["position"], first["status"]) == (2.0, 3, "ok")
    assert (second["status"], second["note"], second["cache"]) == ("out of memory", "no memory", "")
    assert np.isnan(second["median_us"])
    (facts,) = (row for _, row in loaded.matrices.iterrows())
    assert (facts["nnz"], facts["spmv_nnz"], facts["permutation_ms_lpt"], facts["kind"]) == (20, 20.0, 1.5, "graph")
    assert np.isnan(facts["permutation_ms_plain"])
    assert loaded.matrices["nnz"].dtype == np.int64
    assert loaded.measurements["median_us"].dtype == np.float32
    assert len(loaded.timed()) == 1
    assert loaded.skipped == {}


def test_an_empty_store_is_read(tmp_path):
    Store(tmp_path)
    loaded = Measurements.load(tmp_path)
    assert len(loaded) == len(loaded.matrices) == 0
    assert "0 of 0 matrices" in repr(loaded)
    loaded.save(tmp_path / "merged")
    assert len(Measurements.load(tmp_path / "merged")) == 0


def test_later_measurements_replace_earlier_ones(tmp_path):
    store = Store(tmp_path)
    store.append(matrix("a"), [measured("a", median=1.0), measured("a", median=2.0, cache="cold")], ENVIRONMENT)
    store.append(matrix("a"), [measured("a", median=3.0), measured("a", median=4.0, run=1)], ENVIRONMENT)
    store.append(matrix("a"), [measured("a", median=5.0)], OTHER)
    loaded = Measurements.load(tmp_path)
    assert values(loaded, "cache", "run", "median_us") == [
        ("cold", 0, 2.0),
        ("warm", 0, 3.0),
        ("warm", 0, 5.0),
        ("warm", 1, 4.0),
    ]
    assert len(loaded.environments) == 2


def test_order_of_sources_decides(tmp_path):
    for name, median in (("first", 1.0), ("second", 2.0)):
        Store(tmp_path / name).append(matrix("a"), [measured("a", median=median)], ENVIRONMENT)
    first, second = tmp_path / "first", tmp_path / "second"
    assert values(Measurements.load(first, second), "median_us") == [(2.0,)]
    assert values(Measurements.load(second, first), "median_us") == [(1.0,)]


def test_failures_and_times_replace_each_other(tmp_path):
    store = Store(tmp_path)
    store.append(
        matrix("a"),
        [failed("a", "x"), measured("a", "y"), measured("a", "y", cache="cold"), failed("a", "z")],
        ENVIRONMENT,
    )
    store.append(matrix("a"), [measured("a", "x"), failed("a", "y")], ENVIRONMENT)
    loaded = Measurements.load(tmp_path)
    assert values(loaded, "candidate", "cache", "status") == [
        ("x", "warm", "ok"),
        ("y", "", "out of memory"),
        ("z", "", "out of memory"),
    ]


def test_facts_of_a_matrix_are_put_together(tmp_path):
    store = Store(tmp_path)
    store.append(matrix("a", spmm_density=0.5, load_s=1.0), [measured("a")], ENVIRONMENT)
    store.append(matrix("a", spmv_density=0.25, load_s=2.0), [measured("a", setting="spmv/float32")], ENVIRONMENT)
    (facts,) = (row for _, row in Measurements.load(tmp_path).matrices.iterrows())
    assert (facts["spmm_density"], facts["spmv_density"], facts["load_s"]) == (0.5, 0.25, 2.0)


@pytest.mark.parametrize("changed", ["rows", "cols", "nnz"])
def test_different_matrices_of_one_name_are_named(tmp_path, changed):
    store = Store(tmp_path)
    for name in ("same", "one", "two"):
        store.append(matrix(name), [measured(name)], ENVIRONMENT)
    store.append(matrix("same"), [measured("same")], OTHER)
    for name in ("one", "two"):
        store.append(matrix(name, **{changed: 99}), [measured(name)], OTHER)
    with pytest.raises(ParameterError, match=r"same name: one, two$"):
        merge([tmp_path], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_what_is_no_source_is_a_parameter_error(tmp_path):
    with pytest.raises(ParameterError, match="neither a folder of measurements nor"):
        Measurements.load(tmp_path / "nothing")
    with pytest.raises(ParameterError, match="no measurements given"):
        Measurements.load()


@pytest.mark.parametrize("name", ["measurements.parquet", "matrices.parquet"])
def test_a_truncated_merged_file_is_named(tmp_path, name):
    tables([matrix("a")], [measured("a")]).save(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileFormatError, match=name):
        Measurements.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "facts", "change", "reason"),
    [
        ("measurements.parquet", {}, lambda table: table, "lacks 'environments'"),
        ("measurements.parquet", {"environments": []}, lambda table: table, "lacks 'environments'"),
        ("measurements.parquet", {"environments": {}}, lambda table: table.drop_columns(["run"]), "columns .*: run"),
        ("matrices.parquet", {}, lambda table: table.drop_columns(["nnz"]), "lacks the columns nnz"),
        ("matrices.parquet", {}, lambda table: table.set_column(5, "rows", pa.array(["many"])), "many"),
    ],
)
def test_a_merged_file_of_other_contents_is_named(tmp_path, name, facts, change, reason):
    tables([matrix("a")], [measured("a")]).save(tmp_path)
    with pq.ParquetFile(tmp_path / name) as file:
        rows = file.read()
    assert rows.column_names[5] == ("rows" if name == "matrices.parquet" else rows.column_names[5])
    store_module.write_table(change(rows), tmp_path / name, facts)
    with pytest.raises(FileFormatError, match=f"{name} is damaged: .*{reason}"):
        Measurements.load(tmp_path)


def test_shipped_measurements_are_read_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPLOOM_MEASUREMENTS", str(tmp_path))
    assert shipped() == []
    tables([matrix("a")], [measured("a")]).save(tmp_path / "gpu")
    assert shipped() == ["gpu"]
    assert len(Measurements.load("gpu")) == 1
    with pytest.raises(ParameterError, match=r"shipped ones \(gpu\)"):
        Measurements.load("another")


def test_merging_writes_what_it_returns(tmp_path):
    Store(tmp_path / "store").append(matrix("b"), [measured("b", median=1.00049)], ENVIRONMENT)
    tables([matrix("a")], [measured("a")], OTHER).save(tmp_path / "folder")
    merged = merge([tmp_path / "store", tmp_path / "folder"], tmp_path / "merged")
    again = Measurements.load(tmp_path / "merged")
    assert again.environments == merged.environments
    assert len(again.environments) == 2
    assert again.matrices["matrix"].tolist() == ["a", "b"]
    assert values(again, "matrix", "median_us") == [("a", 1.0), ("b", 1.0)]


def test_size_is_that_of_the_files(tmp_path):
    size = tables([matrix("a")], [measured("a")]).save(tmp_path)
    assert size == sum(path.stat().st_size for path in tmp_path.iterdir()) > 0


def test_selecting(tmp_path):
    loaded = tables(
        [matrix("a"), matrix("b")],
        [measured("a"), measured("a", cache="cold"), measured("b", cache="cold"), measured("b", run=1)],
    )
    assert values(loaded.select(cache="cold"), "matrix") == [("a",), ("b",)]
    warm = loaded.select(cache="warm", run=[0])
    assert values(warm, "matrix", "cache") == [("a", "warm")]
    assert warm.matrices["matrix"].tolist() == ["a"]
    assert loaded.select(cache="neither").environments == {}
    with pytest.raises(ParameterError, match="no column 'colour'"):
        loaded.select(colour="red")


def test_whole_matrices_transposes_and_blocks_are_told_apart():
    names = ["a", "b.Type", "a.T", "a[0:5]", "a.T[0:5]"]
    loaded = tables([matrix(name) for name in names], [measured(name) for name in names])
    assert sorted(loaded.only().matrices["matrix"]) == ["a", "b.Type"]
    assert sorted(loaded.only().measurements["matrix"]) == ["a", "b.Type"]
    assert sorted(loaded.only(transposes=True).matrices["matrix"]) == ["a", "a.T", "b.Type"]
    assert loaded.only(transposes=True, blocks=True) is loaded
    assert counts(loaded, "part").frame["matrices"].tolist() == [2, 2, 1, 5]  # block, matrix, transpose, all


NAMES = st.sampled_from(["a", "b", "ä/é ü"])
ROWS = st.builds(
    measured,
    NAMES,
    st.sampled_from(["spmv/none/csr/scalar", "spmv/none/csr/vector[threads_per_row=2]"]),
    st.floats(2**-7, 2**20, width=32),
    setting=st.sampled_from(["spmv/float64", "spmm/float32/column/k=rows"]),
    cache=st.sampled_from(["warm", "cold"]),
    run=st.sampled_from([0, 1]),
    position=st.integers(-1, 1000),
    note=st.text(st.characters(exclude_categories=["Cs"])),
    bytes=st.integers(0, 2**62),
)


@settings(deadline=None, max_examples=15)
@given(st.lists(st.tuples(st.lists(ROWS, max_size=4), st.sampled_from([ENVIRONMENT, OTHER])), max_size=5))
def test_round_trips_keep_the_last_of_equal_measurements(tmp_path_factory, batches):
    folder = tmp_path_factory.mktemp("store")
    store = Store(folder / "store")
    expected = {}
    for rows, environment in batches:
        for name, chosen in itertools.groupby(sorted(rows, key=lambda row: row["matrix"]), lambda row: row["matrix"]):
            chosen = list(chosen)
            store.append(matrix(name), chosen, environment)
            for row in chosen:
                row = {**row, "environment": schema.environment_key(environment)}
                expected[tuple(row[name] for name in schema.KEY)] = row
    columns = [*schema.KEY, "median_us", "position", "note", "bytes", "layout", "k"]
    loaded = Measurements.load(folder / "store")
    complete = [{"layout": "", "k": 1, **row} for row in expected.values()]
    assert values(loaded, *columns) == sorted(tuple(row[name] for name in columns) for row in complete)

    loaded.save(folder / "merged")
    again = Measurements.load(folder / "merged")
    exact = [name for name in columns if name != "median_us"]
    assert values(again, *exact) == values(loaded, *exact)
    merged = {tuple(row[name] for name in schema.KEY): row for row in again.measurements.to_dict("records")}
    for key, row in expected.items():
        assert merged[key]["median_us"] == np.float32(float(f"{row['median_us']:.3e}"))
    assert again.environments == loaded.environments
    pd.testing.assert_frame_equal(again.matrices, loaded.matrices)

    twice = Measurements.load(folder / "merged", folder / "merged")
    assert values(twice, *columns) == values(again, *columns)


@pytest.mark.parametrize("most", [2**62, 5])
def test_groups_have_numbers_of_their_own(monkeypatch, most):
    monkeypatch.setattr(module, "_MOST_IDS", most)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({name: rng.integers(0, 4, 200) for name in "xyz"})
    rows = rows.assign(x=rows["x"].astype("category"), z=rows["z"].astype(str))
    ids = module.group_ids(rows, ["x", "y", "z"])
    keys = list(rows.itertuples(index=False, name=None))
    assert len({*zip(keys, ids, strict=True)}) == len(set(keys)) == len(set(ids))
    assert set(ids) == set(range(len(set(keys))))
    assert module.group_ids(rows.head(0), ["x", "y"]).tolist() == []


def large(matrices=500, candidates=300):
    """Return more rows than a store would be quick to make."""
    count = matrices * candidates * 2
    index = np.arange(count)
    rng = np.random.default_rng(0)

    def text(codes, names):
        return pd.Categorical.from_codes(codes, names)

    constant = np.zeros(count, dtype=np.int8)
    median = rng.lognormal(3, 2, count).astype(np.float32)
    rows = pd.DataFrame(
        {
            "matrix": text(index // (2 * candidates), [f"m{i:05}" for i in range(matrices)]),
            "setting": text(constant, ["spmv/float64"]),
            "op": text(constant, ["spmv"]),
            "dtype": text(constant, ["float64"]),
            "layout": text(constant, [""]),
            "k": np.int32(1),
            "cache": text(index % 2, ["cold", "warm"]),
            "candidate": text(index // 2 % candidates, [f"c{i:03}" for i in range(candidates)]),
            "median_us": median,
            "p10_us": median,
            "p90_us": median,
            "repeats": np.int16(20),
            "run": np.int8(0),
            "position": index.astype(np.int32),
            "status": text(constant, ["ok"]),
            "note": text(constant, [""]),
            "preparation_ms": median,
            "bytes": index,
            "environment": text(constant, ["key"]),
        }
    )
    facts = tables([matrix("m00000")], []).matrices
    return Measurements(rows, facts, {"key": ENVIRONMENT})


def test_large_tables_take_seconds(tmp_path):
    loaded = large()
    started = time.process_time()
    size = loaded.save(tmp_path)
    twice = Measurements.load(tmp_path, tmp_path)
    took = time.process_time() - started
    assert len(twice) == len(loaded) == 300_000
    assert size < 20 * len(loaded)
    assert took < 10  # about two seconds


@given(
    st.lists(
        st.tuples(st.sampled_from(["b", "a", "ab", "", "é"]), st.sampled_from(["warm", "cold"]), st.integers(-3, 3)),
        max_size=20,
    )
)
def test_rows_are_sorted_as_python_sorts_them(entries):
    """Texts by their letters, categories in their own order, rows that are equal as they came."""
    rows = pd.DataFrame(entries, columns=["matrix", "cache", "k"])
    rows = rows.assign(cache=pd.Categorical(rows["cache"], ["warm", "cold"]), place=range(len(entries)))
    found = module.sort(rows, ["matrix", "cache", "k"])

    def key(place):
        matrix, cache, k = entries[place]
        return matrix, ["warm", "cold"].index(cache), k

    assert found["place"].tolist() == sorted(range(len(entries)), key=key)
    assert found.index.tolist() == list(range(len(entries)))

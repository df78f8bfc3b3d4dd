import pytest

from bench.end_to_end_rows import ENVIRONMENT, row
from warploom.bench.end_to_end import Rows, describe
from warploom.bench.end_to_end.rows import COLUMNS, Store
from warploom.errors import ParameterError


def test_rows_come_back_as_they_were_written(tmp_path):
    Store(tmp_path).append([row(), row(tool="torch", planning=0.0)], ENVIRONMENT)
    loaded = Rows.load(tmp_path)
    assert [column.name for column in COLUMNS] == list(loaded.frame)
    assert loaded.frame[["tool", "planning_us"]].to_numpy().tolist() == [["warploom", 100.0], ["torch", 0.0]]
    assert list(loaded.environments.values()) == [ENVIRONMENT]
    assert set(loaded.frame["environment"]) == set(loaded.environments)
    assert loaded.frame["until_10_us"].isna().all()


def test_the_last_row_of_a_key_counts(tmp_path):
    store = Store(tmp_path)
    store.append([row(planning=1.0)], ENVIRONMENT)
    store.append([row(planning=2.0), row(place="host", planning=3.0)], ENVIRONMENT)
    assert Rows.load(tmp_path).frame["planning_us"].tolist() == [2.0, 3.0]
    assert store.done() == {("a", "spmv/float64", "device", "warploom"), ("a", "spmv/float64", "host", "warploom")}


def test_rows_of_several_folders_are_joined(tmp_path):
    Store(tmp_path / "one").append([row()], ENVIRONMENT)
    Store(tmp_path / "two").append([row("b")], ENVIRONMENT | {"driver": "2"})
    loaded = Rows.load(tmp_path / "one", tmp_path / "two")
    assert sorted(loaded.frame["matrix"]) == ["a", "b"]
    assert len(loaded.environments) == 2


def test_damaged_files_are_left_out_with_a_warning(tmp_path):
    path = Store(tmp_path).append([row()], ENVIRONMENT)
    (path.parent / "0.parquet").write_bytes(path.read_bytes()[:100])
    with pytest.warns(RuntimeWarning, match="left out"):
        assert len(Rows.load(tmp_path).frame) == 1


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(ParameterError, match="no end-to-end times"):
        Rows.load(tmp_path)


@pytest.mark.parametrize(("name", "value"), [("place", "moon"), ("status", "fine")])
def test_unknown_places_and_statuses_are_refused(tmp_path, name, value):
    with pytest.raises(ParameterError, match=f"{name} is one of"):
        Store(tmp_path).append([row(**{name: value})], ENVIRONMENT)


def test_columns_are_described():
    text = describe()
    assert all(column.name in text for column in COLUMNS)

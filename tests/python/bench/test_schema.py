"""Columns of the tables, rows that fit them, and what is stored of a time."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.tables import measured
from warploom import features, permutations
from warploom.bench import describe, schema
from warploom.errors import ParameterError


def test_description_has_every_column_with_its_unit():
    text = describe()
    for column in (*schema.MEASUREMENTS, *schema.matrix_columns()):
        line = next(line for line in text.splitlines() if line.split()[:1] == [column.name])
        assert column.unit in line
        assert column.meaning.split()[0] in line


def test_matrices_have_a_column_for_every_feature_and_permutation():
    names = {c.name for c in schema.matrix_columns()}
    assert {f"spmm_{name}" for name in features.names("spmm")} <= names
    assert {f"spmv_{name}" for name in features.names("spmv")} <= names
    assert {name for name in names if name.startswith("permutation_ms_")} == {
        f"permutation_ms_{name}" for name in permutations.names() if name != "none"
    }


@pytest.mark.parametrize("columns", [schema.MEASUREMENTS, schema.matrix_columns()])
def test_names_are_distinct_and_times_have_units(columns):
    names = [c.name for c in columns]
    assert len(set(names)) == len(names)
    for column in columns:
        for suffix in ("us", "ms", "s"):
            if column.name.endswith(f"_{suffix}") or f"_{suffix}_" in column.name:
                assert column.unit == suffix


def test_key_and_times_are_columns():
    names = {c.name: c for c in schema.MEASUREMENTS}
    assert set(schema.KEY) <= set(names)
    assert all(names[name].type == pa.float32() for name in schema.SIGNIFICANT_DIGITS)


def test_missing_values_get_defaults():
    row = {name: measured()[name] for name in ("matrix", "setting", "op", "dtype", "candidate", "status")}
    table = schema.table([{**row, "median_us": math.nan}], schema.MEASUREMENTS)
    assert table.schema.equals(schema.arrow_schema(schema.MEASUREMENTS))
    (found,) = table.to_pylist()
    assert (found["median_us"], found["p10_us"], found["repeats"], found["position"]) == (None, None, 0, -1)
    assert (found["cache"], found["note"], found["k"], found["run"]) == ("", "", 1, 0)


def test_values_of_numpy_are_taken():
    row = measured(median=np.float32(1.5), repeats=np.int64(7), bytes=np.int32(3))
    (found,) = schema.table([row], schema.MEASUREMENTS).to_pylist()
    assert (found["median_us"], found["repeats"], found["bytes"]) == (1.5, 7, 3)


def test_no_rows_are_a_table():
    assert schema.table([], schema.MEASUREMENTS).num_rows == 0


def test_unknown_and_lacking_columns_are_named():
    with pytest.raises(ParameterError, match="unknown columns: colour, shape"):
        schema.table([{**measured(), "shape": 1, "colour": 2}], schema.MEASUREMENTS)
    with pytest.raises(ParameterError, match="lack 'candidate'"):
        schema.table([measured(candidate=None)], schema.MEASUREMENTS)


def test_environment_key_depends_on_contents_only():
    assert schema.environment_key({"a": 1, "b": [2]}) == schema.environment_key({"b": [2], "a": 1})
    assert schema.environment_key({"a": 1}) != schema.environment_key({"a": 2})
    with pytest.raises(ParameterError, match="cannot be written as JSON"):
        schema.environment_key({"a": object()})


@pytest.mark.parametrize(
    ("exact", "rounded"),
    [
        (1.23456, 1.235),
        (9999.6, 10000),
        (99996, 100000),
        (123456, 123500),
        (0.000123456, 0.0001235),
        (0, 0),
        (-1.23456, -1.235),
        (math.nan, math.nan),
        (math.inf, math.inf),
    ],
)
def test_rounding_by_hand(exact, rounded):
    np.testing.assert_array_equal(schema.round_times([exact], 4), np.array([rounded], dtype=np.float32))


@given(st.lists(st.floats(2**-13, 2**30, width=32)))
def test_rounding_is_that_of_decimal_notation_and_is_done_once(times):
    rounded = schema.round_times(times, 4)
    assert rounded.dtype == np.float32
    np.testing.assert_allclose(rounded, [float(f"{t:.3e}") for t in times], rtol=2e-7, atol=0)
    np.testing.assert_array_equal(schema.round_times(rounded, 4), rounded)

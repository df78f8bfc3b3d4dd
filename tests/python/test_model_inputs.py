import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import battery
from warploom import features
from warploom.errors import ParameterError
from warploom.model_inputs import (
    INPUTS,
    LOCALITY_INPUTS,
    PREPARATION_INPUTS,
    SIZES,
    SPMV_INPUTS,
    VECTOR_INPUTS,
    compress,
    expand,
    model_inputs,
    model_name,
    preparation_inputs,
    roofline_us,
)

MATRICES = battery(np.float64)


def describe(A, sets=("spmm", "spmv")):
    """Return features with the name of their set before them."""
    vectors = {name: getattr(features, name)(A) for name in sets}
    return {f"{of}_{name}": value for of, vector in vectors.items() for name, value in vector.as_dict().items()}


FEATURES = describe(next(iter(MATRICES.values())))


@pytest.mark.parametrize("name", MATRICES)
def test_inputs_of_any_matrix_are_finite(name):
    given_features = describe(MATRICES[name])
    one = model_inputs(given_features, 7)
    assert one.shape == (len(INPUTS),)
    assert np.isfinite(one).all()
    many = model_inputs({key: np.array([value, value]) for key, value in given_features.items()}, np.array([7, 7]))
    assert (many == [one, one]).all()


def test_inputs_are_what_their_names_say():
    given_features = dict.fromkeys(FEATURES, 3.0) | {
        "spmv_num_rows": 7.0,
        "spmv_num_cols": 15.0,
        "spmv_nnz": 31.0,
        "spmv_nnz_per_row_mean": 4.0,
        "spmv_nnz_per_row_max": 8.0,
        "spmv_nnz_per_row_var": 9.0,
        "spmm_nnz_blocks_per_row_mean": 2.0,
    }
    found = dict(zip(INPUTS, model_inputs(given_features, 3.0), strict=True))
    exact = {"log_rows": 3, "log_cols": 4, "log_nnz": 5, "log_row_std": 2, "log_k": 2, "row_cov": np.log(4)}
    near = {"log_imbalance": 1, "log_block_fill": 1, "log_shape": np.log2(15 / 7), "log_longest_share": np.log2(8 / 31)}
    assert {name: found[name] for name in exact} == pytest.approx(exact)
    assert {name: found[name] for name in near} == pytest.approx(near, abs=1e-3)
    assert found["log_work"] == pytest.approx(np.log2(1 + 31 * 3))


def test_alignment_is_the_power_of_two_in_a_size():
    given_features = FEATURES | {"spmv_num_rows": 96.0, "spmv_num_cols": 5121.0}
    names = ("k_alignment", "rows_alignment", "cols_alignment")
    assert model_inputs(given_features, 8192, names).tolist() == [10, 5, 0]
    many = {name: np.array([value, value]) for name, value in given_features.items()}
    assert model_inputs(many, np.array([1, 12]), names).tolist() == [[0, 5, 0], [2, 5, 0]]


def test_features_of_spmm_are_needed_for_their_inputs_only():
    few = describe(MATRICES[next(iter(MATRICES))], ["spmv"])
    assert model_inputs(few, 1, SPMV_INPUTS).shape == (len(SPMV_INPUTS),)
    with pytest.raises(ParameterError, match="spmm_nnz_blocks_per_row_mean") as raised:
        model_inputs(few)
    assert raised.value.argument == "features"
    with pytest.raises(ParameterError, match="no input 'x'"):
        model_inputs(FEATURES, 1, ("x",))
    with pytest.raises(ParameterError, match="spmv_num_rows"):
        preparation_inputs({"spmv_num_cols": 1.0})


def test_inputs_of_column_vectors_are_their_features():
    A = MATRICES[next(iter(MATRICES))]
    given_features = describe(A, ["column_vectors"])
    found = model_inputs(given_features, 3, VECTOR_INPUTS)
    assert found.tolist() == features.column_vectors(A).values.tolist()
    assert not set(VECTOR_INPUTS) & set(INPUTS)


def test_inputs_of_locality_are_their_features():
    found = model_inputs({"locality_hidden_overlap": [0.25, -1.0]}, [3, 3], LOCALITY_INPUTS)
    assert found.tolist() == [[0.25], [-1.0]]
    assert not set(LOCALITY_INPUTS) & {*INPUTS, *VECTOR_INPUTS}


def test_columns_of_b_are_one_number_or_one_for_each_matrix():
    few = {name: np.array([value, 2 * value, 3 * value]) for name, value in FEATURES.items()}
    each = model_inputs(few, np.array([4, 5, 6]))
    assert each.shape == (3, len(INPUTS))
    for i, k in enumerate((4, 5, 6)):
        assert (each[i] == model_inputs({name: float(values[i]) for name, values in few.items()}, k)).all()
    assert (model_inputs(few, 5)[1] == each[1]).all()
    assert model_inputs({name: values[:0] for name, values in few.items()}).shape == (0, len(INPUTS))


def test_sizes_of_a_problem():
    given = {"spmv_num_rows": 2.0, "spmv_num_cols": 3.0, "spmv_nnz": 4.0}
    assert {name: size(given, 5) for name, size in SIZES.items()} == {"rows": 2, "columns": 3, "nonzeros": 4, "k": 5}


@given(st.floats(0, 10))
def test_compression_is_undone(value):
    assert expand(compress(value)) == pytest.approx(value, abs=1e-12)
    assert compress(value) <= value + 1e-15


def test_compression_keeps_the_order_and_what_is_small():
    values = np.linspace(0, 5, 50)
    assert (np.diff(compress(values)) > 0).all()
    assert compress(0.001) == pytest.approx(0.001, rel=0.01)
    assert expand(-0.1) == 0


def test_roofline_grows_with_every_size():
    base = {"spmv_num_rows": 1e6, "spmv_num_cols": 1e6, "spmv_nnz": 1e7}
    least = roofline_us(base, 1, 4)
    # 1e7 entries of 8 bytes, 1e6 row pointers, x and y, at 4 bytes per picosecond: 23 us, with the launch.
    assert 20 < least < 35
    assert all(roofline_us(base | {name: 2 * base[name]}, 1, 4) > least for name in base)
    assert roofline_us(base, 8, 4) > least
    assert roofline_us(base, 1, 8) > least


def test_preparation_inputs():
    given_features = {"spmv_num_rows": 2e6, "spmv_num_cols": 3e6, "spmv_nnz": 4e6, "spmv_nnz_per_row_max": 5.0}
    assert dict(zip(PREPARATION_INPUTS, preparation_inputs(given_features), strict=True)) == pytest.approx(
        {"one": 1, "rows": 2, "cols": 3, "nnz": 4, "padded": 10}
    )


def test_model_names():
    assert model_name("spmv", "float32", "", "warm") == "spmv-float32-warm"
    assert model_name("spmm", "float32", "row", "cold") == "spmm-float32-row-cold"
    for wrong in (
        ("spgemm", "float32", "row", "cold"),
        ("spmm", "int8", "row", "cold"),
        ("spmm", "float32", "", "cold"),
    ):
        with pytest.raises(ParameterError, match="unknown"):
            model_name(*wrong)


def test_no_library_that_trains_is_imported():
    code = (
        "import sys, warploom.model_inputs, warploom.plan; "
        "print([name for name in ('sklearn', 'torch', 'lightgbm', 'pandas', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

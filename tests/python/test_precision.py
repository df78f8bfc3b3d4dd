"""Less than full precision: only where it is asked for, refused where it means nothing, said wherever it is used."""

import json
import pickle

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array, random_array

import warploom as wl
from products import assert_product, operand
from warploom import cli
from warploom.candidates import find_kernel, kernels, parse

VECTORS = "spmm/none/column-vectors/*"
TF32 = "spmm/none/column-vectors/tensor_core_tf32"


def matrix(dtype=np.float32, shape=(60, 50)):
    rng = np.random.default_rng(0)
    return csr_array(random_array(shape, density=0.2, rng=rng, format="csr")).astype(dtype)


def refused(argument, call, *arguments, **options):
    with pytest.raises(wl.errors.ParameterError) as caught:
        call(*arguments, **options)
    assert caught.value.argument == argument
    return str(caught.value)


def test_kernels_say_their_precision():
    assert {k.name for k in kernels("spmm") if k.precision == "tf32"} == {"tensor_core_tf32", "cublas_tf32"}
    assert {k.precision for k in kernels("spmv")} == {"full"}
    assert find_kernel("spmm", "column-vectors", "tensor_core").precision == "full"


def test_the_list_has_them_where_they_are_asked_for():
    found = wl.candidates(precision="tf32", dtype="float32", match=VECTORS)
    assert found
    assert {name.partition("[")[0] for name in found} == {TF32}
    assert wl.candidates(dtype="float32", match=VECTORS) == []
    assert wl.candidates(precision="full") == wl.candidates()
    assert wl.candidates(precision="tf32", dtype="float64", match=VECTORS) == []
    refused("precision", wl.candidates, precision="tf19")


@pytest.mark.parametrize("precision", [None, "full"])
def test_a_plan_considers_none_by_default(precision):
    A = matrix()
    refused("candidates", wl.plan, A, k=8, device="cpu", candidates=VECTORS, precision=precision)
    plan = wl.plan(A, k=8, device="cpu", select="measure", candidates="spmm/none/*", precision=precision)
    assert plan.precision == plan.explain().precision == "full"
    assert all(parse(row.candidate).kernel.precision == "full" for row in plan.explain().rows if "/" in row.candidate)
    assert "TF32" not in repr(plan)
    assert "TF32" not in plan.explain().full()


def test_a_plan_that_allows_it_says_so():
    A = matrix()
    plan = wl.plan(A, k=8, device="cpu", candidates=VECTORS, precision="tf32")
    assert parse(plan.candidate).kernel.precision == plan.precision == "tf32"
    assert "float32 rounded to TF32" in repr(plan)
    assert "float32 rounded to TF32" in plan._repr_html_()
    explanation = plan.explain()
    assert explanation.precision == explanation.to_dict()["precision"] == "tf32"
    assert "float32 or TF32" in explanation.title
    assert any("rounds A and B to TF32" in note for note in explanation.footnotes)
    B = operand((50, 8), np.float32, "row")
    assert_product(A, B, plan @ B, precision="tf32")
    assert abs(plan @ B - A @ B).max() > 1e-5  # it did round


def test_what_is_allowed_need_not_be_taken():
    plan = wl.plan(matrix(), k=8, device="cpu", candidates="spmm/none/csr/*", precision="tf32")
    assert plan.precision == plan.explain().precision == "full"
    assert "float32 or TF32" in plan.explain().title
    assert "rounded" not in repr(plan)


def test_a_name_asks_for_it_unless_full_precision_is_asked_for_in_words():
    A = matrix()
    B = operand((50, 8), np.float32, "row")
    named = wl.plan(A, k=8, device="cpu", select=TF32)
    assert named.candidate == TF32
    assert named.precision == named.explain().precision == "tf32"
    assert wl.plan(A, k=8, device="cpu", candidates=TF32).candidate == TF32
    assert_product(A, B, wl.spmm(A, B, candidate=TF32, device="cpu"), precision="tf32")
    message = refused("select", wl.plan, A, k=8, device="cpu", select=TF32, precision="full")
    assert "TF32" in message
    refused("select", wl.plan, A, device="cpu", select=TF32, precision="full")  # of an operator
    refused("candidates", wl.plan, A, k=8, device="cpu", candidates=["*/row_split", TF32], precision="full")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_it_is_for_float32(dtype):
    for described in ({"k": 8}, {"op": "spmv"}, {}):
        message = refused("precision", wl.plan, matrix(), dtype=dtype, device="cpu", precision="tf32", **described)
        assert dtype in message
    refused("select", wl.plan, matrix(), k=8, dtype=dtype, device="cpu", select=TF32)


def test_unknown_precisions_are_refused():
    for precision in ("TF32", "bf16", "", 32):
        refused("precision", wl.plan, matrix(), k=8, device="cpu", precision=precision)


def test_values_are_rounded_as_tensor_cores_round():
    """To 11 significant bits, ties away from zero; what is not finite stays as it is, and sums are in float32."""
    given = np.array([1 + 2**-11, 1 + 2**-11 - 2**-23, -1 - 2**-11, 1 + 2**-10, np.inf, np.nan, 3.4028235e38, 0, 1e-30])
    expected = np.array([1 + 2**-10, 1, -1 - 2**-10, 1 + 2**-10, np.inf, np.nan, np.inf, 0, 1e-30])
    diagonal = csr_array(np.diag(np.ones(len(given), np.float32)))
    B = np.repeat(given.astype(np.float32)[:, None], 3, axis=1)
    plan = wl.plan(diagonal, k=3, device="cpu", select=TF32)
    np.testing.assert_allclose(plan @ B, np.repeat(expected[:, None], 3, axis=1), rtol=2**-11)
    np.testing.assert_array_equal((plan @ B)[:4, 0], expected[:4])
    A = csr_array(np.array([[1 + 2**-11, 2**-20]], np.float32))
    ones = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(wl.plan(A, k=3, device="cpu", select=TF32) @ ones, 1 + 2**-10 + 2**-20)


@pytest.mark.parametrize("layout", ["row", "column"])
def test_an_operator_and_its_transpose(layout):
    A = matrix()
    patterns = [VECTORS, "spmv/none/csr/*"]
    operator = wl.plan(A, device="cpu", layout=layout, candidates=patterns, precision="tf32")
    B, Z = operand((50, 8), np.float32, layout), operand((60, 8), np.float32, layout)
    assert_product(A, B, operator @ B, precision="tf32")
    assert_product(csr_array(A.T), Z, operator.T @ Z, precision="tf32")
    assert_product(A, B[:, :1], (operator @ B[:, 0])[:, None])
    assert {plan.op: plan.precision for plan in operator.plans.values()} == {"spmm": "tf32", "spmv": "full"}


def test_a_transpose_made_later_finds_the_matrix_unchanged():
    """The product of the plan, which is rounded, is compared with one of the matrix as it is now."""
    A = csr_array(np.full((40, 300), 1 + 2**-11, np.float32))
    plan = wl.plan(A, k=8, device="cpu", select=TF32)
    Z = operand((40, 8), np.float32, "row")
    assert_product(csr_array(A.T), Z, plan.T @ Z, precision="tf32")


def test_saved_plans_keep_it(tmp_path):
    A = matrix()
    B = operand((50, 8), np.float32, "row")
    for described in ({"k": 8}, {}):
        plan = wl.plan(A, device="cpu", candidates=VECTORS, precision="tf32", **described)
        product = plan @ B
        plan.save(tmp_path / "plan")
        for again in (wl.load_plan(tmp_path / "plan", A), pickle.loads(pickle.dumps(plan))):
            np.testing.assert_array_equal(again @ B, product)
            one = next(iter(again.plans.values())) if "k" not in described else again
            assert one.precision == one.explain().precision == "tf32"
            # What is planned later is allowed the same.
            assert again.T._recipe.precision == "tf32"


def run(*arguments):
    return CliRunner().invoke(cli.main, ["plan", "example:gr_30_30", "--k", "8", "--dtype", "float32", *arguments])


def test_the_command_line():
    options = ("--device", "cpu", "--candidates", VECTORS)
    found = json.loads(run(*options, "--precision", "tf32", "--json", "-").stdout)
    assert found["precision"] == "tf32"
    assert found["chosen"].startswith(TF32)
    assert "rounds A and B to TF32" in run(*options, "--precision", "tf32").stdout
    assert run(*options).exit_code != 0
    assert run("--gpu", "H200", "--precision", "full").exit_code == 0
    refusal = run("--gpu", "H200", "--precision", "tf32")
    assert refusal.exit_code != 0
    assert "no model knows" in refusal.stderr

"""Names of candidates: the list, the round trip, and what is refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import warploom as wl
from warploom.candidates import Candidate, find_kernel, kernels, matches, parse

DEVICES = ["cuda", "cpu"]
LAYOUTS = ["row", "column"]


def refused(argument, call, *arguments, **options):
    with pytest.raises(wl.errors.ParameterError) as caught:
        call(*arguments, **options)
    assert caught.value.argument == argument
    return str(caught.value)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", [None, *LAYOUTS])
def test_names_are_unique_and_parse_to_themselves(device, layout):
    names = wl.candidates(device=device, layout=layout)
    assert len(names) == len(set(names)) > 0
    for name in names:
        candidate = parse(name)
        assert candidate.name == str(candidate) == name
        assert device in candidate.kernel.devices
        assert layout is None or layout in candidate.kernel.layouts


@given(data=st.data())
def test_any_setting_parses_to_itself(data):
    kernel = data.draw(st.sampled_from(kernels("spmm")))
    given_values = {p.name: data.draw(st.sampled_from(p.values)) for p in kernel.parameters if data.draw(st.booleans())}
    permutation = data.draw(st.sampled_from(wl.permutations.names())) if kernel.permutes else "none"
    candidate = Candidate.make(kernel, permutation, given_values)
    assert parse(candidate.name) == candidate
    # Any order of the parameters, spaces, and defaults spelt out: the same candidate.
    spelt = ", ".join(f"{name}={value}" for name, value in data.draw(st.permutations(candidate.parameters)))
    assert parse(f"spmm/{permutation}/{kernel.format}/{kernel.name}[{spelt}]").name == candidate.name


def test_the_list_covers_the_registry():
    names = wl.candidates(precision="tf32")
    for kernel in kernels("spmm"):
        for permutation in wl.permutations.names() if kernel.permutes else ["none"]:
            name = f"spmm/{permutation}/{kernel.format}/{kernel.name}"
            listed = [n for n in names if n.partition("[")[0] == name]
            settings = math.prod(len(p.tried) for p in kernel.parameters)
            assert len(listed) == (settings if permutation == "none" else 1)
    assert not any("cusparse" in name for name in wl.candidates(device="cpu"))
    assert "spmm/none/csr/cusparse" in names
    assert wl.candidates() == [n for n in names if parse(n).kernel.precision == "full"]
    assert wl.candidates() != names
    assert not any("c_stationary" in name for name in wl.candidates(layout="row"))


def test_the_cpu_list_varies_only_what_the_cpu_depends_on():
    for name in wl.candidates(device="cpu"):
        candidate = parse(name)
        defaults = {p.name: p.default for p in candidate.kernel.parameters}
        on_cpu = {p.name for p in candidate.kernel.parameters if p.on_cpu}
        assert {key for key, value in candidate.parameters if value != defaults[key]} <= on_cpu


def test_patterns():
    assert wl.candidates(match="spmm/lpt/csr/row_split") == ["spmm/lpt/csr/row_split"]
    long = "spmm/none/segmented-csr/row_split[segment_length=32]"
    assert wl.candidates(match=long) == [long]
    several = wl.candidates(match=["spmm/lpt/*", "spmm/plain/*"])
    assert set(several) == set(wl.candidates(match="spmm/lpt/*")) | set(wl.candidates(match="spmm/plain/*"))
    assert wl.candidates(match="nothing") == wl.candidates(match=[]) == []
    assert matches("a[b=1]", "a[b=*]")
    assert not matches("ab", "a[b]")
    assert matches("anything", None)


def test_bad_arguments_of_the_list_are_refused():
    refused("layout", wl.candidates, layout="diagonal")
    refused("device", wl.candidates, device="gpu")
    refused("op", wl.candidates, "spgemm")
    refused("dtype", wl.candidates, "spmv", dtype="int8")
    refused("match", wl.candidates, match=5)
    refused("match", wl.candidates, match=["*", None])


@pytest.mark.parametrize(
    ("name", "argument", "says"),
    [
        ("", "candidate", "expected op/permutation"),
        ("row_split", "candidate", "expected op/permutation"),
        ("spmm/none/csr/row_split/more", "candidate", "expected op/permutation"),
        ("spmm/none/csr/row_split[", "candidate", "expected op/permutation"),
        ("spmm/none/csr/row_split[unroll=8]x", "candidate", "expected op/permutation"),
        (5, "candidate", "5 is not a candidate"),
        ("spgemm/none/csr/row_split", "op", "known: spmm, spmv"),
        ("spmm/sorted/csr/row_split", "candidate", "hybrid-2.3"),
        ("spmm/none/ell/row_split", "candidate", "segmented-csr/row_split"),
        ("spmm/none/csr/abacus", "candidate", "csr/c_stationary"),
        ("spmm/lpt/csr/cusparse", "candidate", "does not take a row permutation"),
        ("spmm/none/csr/row_split[unroll]", "candidate", "parameter=integer"),
        ("spmm/none/csr/row_split[unroll=]", "candidate", "parameter=integer"),
        ("spmm/none/csr/row_split[unroll=4.0]", "candidate", "parameter=integer"),
        ("spmm/none/csr/row_split[unroll=4,unroll=8]", "unroll", "twice"),
        ("spmm/none/csr/row_split[unroll=5]", "unroll", "4, 8"),
        ("spmm/none/csr/row_split[warp_factor=9]", "warp_factor", "threads_per_row"),
    ],
)
def test_names_that_mean_nothing_are_refused(name, argument, says):
    assert says in refused(argument, parse, name)


def test_values_are_integers():
    kernel = find_kernel("spmm", "csr", "row_split")
    for value in (4.0, "4", None):
        refused("unroll", kernel.complete, {"unroll": value})
    assert Candidate.make(kernel, "none", {"column_threads": False}).name == "spmm/none/csr/row_split"

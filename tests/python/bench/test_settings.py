import pytest

from warploom import _core, errors, permutations
from warploom.bench import settings
from warploom.bench.measure import is_compared
from warploom.bench.settings import Setting
from warploom.errors import ParameterError


@pytest.mark.parametrize("name", [*settings.SPMM, *settings.SPMV, "spmm/float64/row/k=7", "sddmm/bfloat16/k=64"])
def test_names_are_read_back(name):
    assert Setting.parse(name).name == name


def test_as_many_columns_as_rows():
    assert Setting.parse("spmm/float32/column/k=rows").columns(17) == 17
    assert Setting.parse("spmm/float32/row/k=8").columns(17) == 8
    assert Setting.parse("spmv/float16").columns(17) == 1


@pytest.mark.parametrize(
    "name",
    ["", "spmv", "spmv/int8", "spmv/float64/row/k=1", "spmm/float32", "spmm/float32/row/k=0", "spmm/float32/row/k=-1",
     "spmm/float32/diagonal/k=8", "spmm/int8/row/k=8", "spmm/float32/row/k=8 ", "sddmm/float32", "sddmm/float32/k=0",
     "sddmm/float32/k=rows", "sddmm/float32/row/k=8"],
)  # fmt: skip
def test_unknown_settings_are_refused(name):
    with pytest.raises(errors.ParameterError) as caught:
        Setting.parse(name)
    assert caught.value.argument == "setting"


@pytest.mark.parametrize("name", [*settings.SPMM, *settings.SPMV])
def test_the_portfolio_holds_the_vendor_every_default_and_the_papers_techniques(name):
    setting = Setting.parse(name)
    listed = {c.name for c in settings.listed(setting, "cuda")}
    known = {c.name for c in _core.enumerate_candidates(setting.op, setting.layout, "cuda", setting.dtype)}
    assert listed <= known
    assert {n for n in known if "/cusparse" in n} <= listed
    if setting.op == "spmv":
        assert {n for n in known if "/none/" in n} <= listed
    else:
        native = "c_stationary" if setting.layout == "column" else "row_split"
        techniques = {f"spmm/{name}/csr/{native}" for name in permutations.paper_names()}
        assert len(techniques) == 10
        assert techniques <= known
        assert techniques | {f"spmm/none/dcsr/{native}"} <= listed


def test_every_line_of_the_portfolio_names_something():
    listed = set()
    for name in (*settings.SPMM, *settings.SPMV):
        listed |= {c.name for c in settings.listed(Setting.parse(name), "cuda")}
    plain = [line for line in settings._portfolio() if "*" not in line]
    assert plain
    assert set(plain) <= listed


@pytest.mark.parametrize("name", [*settings.SPMM, *settings.SPMV])
def test_the_essential_candidates_are_the_compared_ones_and_some_of_the_others(name):
    setting = Setting.parse(name)
    portfolio = set(settings.listed(setting, "cuda"))
    essential = set(settings.listed(setting, "cuda", settings.ESSENTIAL))
    assert {c.name for c in essential} == settings._essential()[name]  # every name in the file is known
    assert essential < portfolio
    assert {c for c in portfolio if is_compared(c)} <= essential


def test_settings_without_essential_candidates_have_their_portfolio():
    setting = Setting.parse("spmm/float64/row/k=16")
    assert settings.listed(setting, "cuda", settings.ESSENTIAL) == settings.listed(setting, "cuda")


def test_patterns_replace_the_portfolio():
    setting = Setting.parse("spmv/float64")
    assert [c.name for c in settings.listed(setting, "cpu", "spmv/none/csr/scalar")] == ["spmv/none/csr/scalar"]
    assert len(settings.listed(setting, "cuda", "*")) > len(settings.listed(setting, "cuda"))


def test_permutations_that_search_are_left_out_for_many_rows():
    chosen = [Setting.parse(settings.SPMM[0])]
    assert len(settings.needed_permutations(chosen, "cuda", rows=100, search_rows=100)) == 9
    few = settings.needed_permutations(chosen, "cuda", rows=101, search_rows=100)
    assert "lpt" in few
    assert "hybrid-2.1" not in few
    assert settings.needed_permutations(chosen, "cuda", 100, 100, ["spmm/lpt/csr/*"]) == ["lpt"]


def test_a_candidate_is_named_with_parameters_that_are_not_tried_elsewhere():
    name = "spmm/rcm/segmented-csr/row_split[threads_per_row=4,columns_per_thread=8]"
    settings.check_candidates(name)
    found = {
        setting: [c.name for c in settings.listed(Setting.parse(setting), "cuda", [name, "spmm/none/csr/row_split"])]
        for setting in ("spmm/float32/row/k=32", "spmm/float32/column/k=rows", "spmv/float64")
    }
    assert name not in {c.name for c in settings.listed(Setting.parse("spmm/float32/row/k=32"), "cuda", "*")}
    assert found["spmm/float32/row/k=32"] == ["spmm/none/csr/row_split", name]
    assert found["spmv/float64"] == []
    with pytest.raises(ParameterError, match="threads_per_row=3"):
        settings.check_candidates("spmm/none/csr/row_split[threads_per_row=3]")


def test_candidates_for_large_matrices():
    spmv = settings.listed(Setting.parse("spmv/float64"), "cuda", settings.LARGE)
    row, column = (
        settings.listed(Setting.parse(f"spmm/float32/{layout}/k=128"), "cuda", settings.LARGE)
        for layout in ("row", "column")
    )
    assert len(spmv) < 70
    assert len(row) < len(column) < 64
    written = settings._lines("large.txt")
    assert {c.name for c in (*spmv, *row, *column)} == set(written)
    assert len(set(written)) == len(written)
    locality = {name for name in permutations.names() if permutations.family(name) == "locality"}
    for listed in (spmv, row, column):
        assert {c.permutation for c in listed} == {"none", "lpt", "flipped", *locality}
        assert any(c.kernel.vendor for c in listed)
        assert not any(permutations.searches(c.permutation) for c in listed)
    vendor = {c.name for c in settings.listed(Setting.parse("spmm/float32/row/k=128"), "cuda") if c.kernel.vendor}
    assert vendor == {c.name for c in row if c.kernel.vendor}


def test_candidates_for_large_matrices_are_those_of_the_device_and_type():
    assert not any(c.kernel.vendor for c in settings.listed(Setting.parse("spmv/float64"), "cpu", settings.LARGE))
    chosen = [Setting.parse("spmv/float64")]
    needed = settings.needed_permutations(chosen, "cpu", 10**6, 30_000, (settings.LARGE,))
    assert set(needed) == {"lpt", "flipped", "rcm", "community", "minhash", "degree"}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_candidates_in_half_precision(dtype):
    setting = Setting.parse(f"spmm/{dtype}/row/k=128")
    written = settings._lines("half.txt")
    listed = settings.listed(setting, "cuda")
    assert [c.name for c in listed] == [name for name in written if "/c_stationary" not in name]
    as_they_are = {name for name in written if "/c_stationary" in name}
    assert as_they_are < {c.name for c in settings.listed(Setting.parse(f"spmm/{dtype}/column/k=128"), "cuda")}
    assert len(set(written)) == len(written)
    vendor = {c.name for c in _core.enumerate_candidates("spmm", "row", "cuda", dtype) if c.kernel.vendor}
    assert {c.name for c in listed if c.kernel.vendor} == vendor
    assert any(c.kernel.name == "tensor_core" for c in listed)
    for patterns in (settings.HALF, settings.ESSENTIAL, settings.LARGE):
        assert settings.listed(setting, "cuda", patterns) == listed
    (named,) = settings.listed(setting, "cuda", "spmm/none/dcsr/row_split")
    assert named.name == "spmm/none/dcsr/row_split"
    assert not any(c.kernel.vendor for c in settings.listed(setting, "cpu"))


@pytest.mark.parametrize(("layout", "file"), [("row", "double.txt"), ("column", "column.txt")])
def test_candidates_in_double_precision(layout, file):
    setting = Setting.parse(f"spmm/float64/{layout}/k=128")
    written = settings._lines(file)
    listed = settings.listed(setting, "cuda")
    assert len(set(written)) == len(written)
    assert {c.name for c in listed} == set(written)
    vendor = {c.name for c in _core.enumerate_candidates("spmm", layout, "cuda", "float64") if c.kernel.vendor}
    assert {c.name for c in listed if c.kernel.vendor} == vendor
    for patterns in ({"row": settings.DOUBLE, "column": settings.COLUMN}[layout], settings.ESSENTIAL, settings.LARGE):
        assert settings.listed(setting, "cuda", patterns) == listed
    assert not set(written) & {c.name for c in settings.listed(Setting.parse("spmv/float64"), "cuda")}


def test_column_major_candidates_in_float32_are_those_of_float64_if_named():
    float32, float64 = (Setting.parse(f"spmm/{dtype}/column/k=8") for dtype in ("float32", "float64"))
    assert settings.listed(float32, "cuda", settings.COLUMN) == settings.listed(float64, "cuda")
    assert len(settings.listed(float32, "cuda")) > len(settings.listed(float64, "cuda"))


def test_sampled_products_have_no_candidates_of_plans():
    assert settings.listed(Setting.parse("sddmm/float16/k=32"), "cuda") == []
    assert settings.needed_permutations([Setting.parse("sddmm/float16/k=32")], "cuda", 10, 10) == []

"""Where the measurements are found that ship apart from warploom, and what is said where they are not."""

import importlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.tables import matrix, measured, tables
from warploom import _data_package, experiments
from warploom.bench import Measurements, shipped
from warploom.cli import main
from warploom.errors import MissingDataError, ParameterError
from warploom.reproduce import MissingMeasurementsError, make, reproduce, run

DATA = Path(__file__).parents[2] / "python" / "warploom-data"
HINT = "pip install warploom-data"


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Three places for measurements, with nothing in them: of the variable, a checkout, and the package."""
    monkeypatch.delenv(_data_package.VARIABLE, raising=False)
    monkeypatch.setattr(_data_package, "_OF_A_CHECKOUT", tmp_path / "checkout")
    monkeypatch.setattr(_data_package, "_PACKAGE", "package_of_this_test")
    monkeypatch.syspath_prepend(tmp_path)
    run._shipped_context.cache_clear()
    yield tmp_path
    run._shipped_context.cache_clear()


def test_the_checkout_has_them_for_the_tests():
    assert _data_package.folder() == DATA / "warploom_data"
    assert "h200" in shipped()
    assert "h200" in experiments.shipped("preparation")


def test_a_variable_comes_before_the_checkout_and_that_before_the_package(places, monkeypatch):
    assert _data_package.folder() is None
    (places / "package_of_this_test").mkdir()
    (places / "package_of_this_test" / "__init__.py").touch()
    importlib.invalidate_caches()
    assert _data_package.folder() == places / "package_of_this_test"
    (places / "checkout").mkdir()
    assert _data_package.folder() == places / "checkout"
    monkeypatch.setenv(_data_package.VARIABLE, str(places / "mine"))
    assert _data_package.folder() == places / "mine"
    tables([matrix("a")], [measured("a")]).save(places / "mine" / "gpu")
    assert shipped() == ["gpu"]
    assert len(Measurements.load("gpu")) == 1


def test_paths_are_no_names(places, monkeypatch):
    monkeypatch.setenv(_data_package.VARIABLE, str(places))
    tables([matrix("a")], [measured("a")]).save(places / "gpu")
    assert _data_package.find("gpu", "measurements.parquet") == places / "gpu"
    assert _data_package.find("./gpu", "measurements.parquet") is None
    assert _data_package.find(Path("gpu"), "measurements.parquet") is None
    with pytest.raises(ParameterError, match=r"shipped ones \(gpu\)"):
        Measurements.load("./gpu")


def test_loading_them_by_name_says_what_to_install(places, monkeypatch):
    with pytest.raises(MissingDataError, match=HINT) as refused:
        Measurements.load("h200")
    assert isinstance(refused.value, FileNotFoundError)
    monkeypatch.setenv(_data_package.VARIABLE, str(places / "nothing"))
    with pytest.raises(MissingDataError, match=r"WARPLOOM_MEASUREMENTS is '.*nothing', which has none"):
        Measurements.load("h200")
    (places / "folder").mkdir()
    with pytest.raises(ParameterError, match="neither a folder of measurements nor"):
        Measurements.load(places / "folder")


@pytest.mark.parametrize(
    "command",
    [
        "bench summary h200",
        "bench plot picture h200",
        "reproduce M-F8 --output results",
        "train h200 --output profile",
        "train h200 --profile {profile} --output profile",
    ],
)
def test_every_command_that_reads_them_says_what_to_install(command, places, monkeypatch):
    monkeypatch.chdir(places)
    profile = Path(__file__).parents[1] / "data" / "toy-profile.safetensors"
    result = CliRunner().invoke(main, command.format(profile=profile).split())
    assert result.exit_code != 0
    assert HINT in " ".join(result.output.split())


def test_items_that_need_none_are_made_all_the_same(places):
    assert make("C-eq").result.verdict.standing == "holds"
    missing = make("M-F8")
    assert missing.result is None
    assert HINT in missing.reason
    assert "warploom bench run" in missing.reason
    outcomes = {outcome.item.id: outcome for outcome in reproduce("C", places / "out", dpi=25)}
    assert outcomes["C-eq"].result
    assert HINT in outcomes["C-F6.3"].reason
    with pytest.raises(MissingMeasurementsError, match=HINT):
        reproduce("M-F8", places / "out")


def test_the_wheel_has_none_and_the_data_package_all(tmp_path):
    """Builds the small one: what it needs is not downloaded."""
    pytest.importorskip("flit_core", reason="the data package is built with flit_core")
    script = "import sys, flit_core.buildapi as backend; print(backend.build_wheel(sys.argv[1]))"
    built = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=DATA, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("warploom_data-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {p.relative_to(DATA).as_posix() for p in (DATA / "warploom_data").rglob("*") if p.is_file()}
    assert {name for name in files if "__pycache__" not in name} <= names
    assert not any(re.search(r"parquet$", str(path)) for path in Path(_data_package.__file__).parent.rglob("*"))

"""Profiles in files: back and forth, found by GPU, and refused when anything is wrong with them."""

import dataclasses
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warploom import _core, profiles
from warploom.errors import ProfileError
from warploom.predictor import Model
from warploom.profiles import _safetensors

TOY = Path(__file__).parents[1] / "data" / "toy-profile.safetensors"


def small_model():
    arrays = {
        "layer.0.weight": np.ones((1, 1, 2), np.float32),
        "layer.0.bias": np.zeros((1, 1), np.float32),
        "input.mean": np.zeros(2),
        "input.scale": np.ones(2),
    }
    return Model("network", ["a", "b"], ["y"], {"activation": "relu", "output": "identity"}, arrays)


def small_profile(gpu="NVIDIA H200", capability=(9, 0), **changes):
    return profiles.Profile(gpu, capability, "13.0", {"times": small_model()}, **changes)


def split(path):
    """Return the header and the data of a safetensors file."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def read(path):
    """Return metadata and arrays, which may be changed."""
    metadata, arrays = _core.read_safetensors(path)
    return metadata, {name: array.copy() for name, array in arrays.items()}


def write(path, metadata, arrays):
    """Write a file with the digest that belongs to it."""
    _safetensors.write(path, metadata | {"digest": _safetensors.digest(metadata, arrays)}, arrays)


def join(path, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "small.safetensors"
    profiles.save(path, small_profile())
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path / "mine"))
    monkeypatch.setattr(profiles, "_SHIPPED", tmp_path / "shipped")
    return tmp_path


# Back and forth.


def test_what_is_saved_is_loaded(tmp_path):
    before = profiles.load(TOY)
    profiles.save(tmp_path / "new" / "toy.safetensors", before)
    after = profiles.load(tmp_path / "new" / "toy.safetensors")
    for name in ("gpu", "compute_capability", "cuda", "geometry", "data_hash", "metrics"):
        assert getattr(before, name) == getattr(after, name)
    assert set(before.models) == set(after.models)
    for name, model in before.models.items():
        other = after.models[name]
        assert (model.kind, model.inputs, model.outputs) == (other.kind, other.inputs, other.outputs)
        assert model.settings == other.settings
        for array in model.arrays:
            np.testing.assert_array_equal(model.arrays[array], other.arrays[array], strict=True)
        np.testing.assert_array_equal(model.check.outputs, other.check.outputs, strict=True)
    assert (tmp_path / "new" / "toy.safetensors").read_bytes() == TOY.read_bytes()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["toy.safetensors"]


def test_text_and_metrics_survive(tmp_path):
    metrics = {"mean loss": 0.012, "per family": {"graphs": [1, 2.5, None]}, "note": "größer als π 😀"}
    profiles.save(tmp_path / "p", small_profile(gpu="Grafikkarte Ω", metrics=metrics, data_hash="abc"))
    loaded = profiles.load(tmp_path / "p")
    assert (loaded.gpu, loaded.metrics, loaded.data_hash) == ("Grafikkarte Ω", metrics, "abc")


def test_a_failed_save_leaves_the_old_file(saved):
    before = saved.read_bytes()
    with pytest.raises(ProfileError, match="letters, digits"):
        profiles.save(saved, profiles.Profile("x", (9, 0), "13.0", {"a.b": small_model()}))
    with pytest.raises(ValueError, match="JSON"):
        profiles.save(saved, small_profile(metrics={"loss": float("nan")}))
    assert saved.read_bytes() == before


safetensors_installed = pytest.mark.skipif(
    importlib.util.find_spec("safetensors") is None, reason="safetensors is not installed"
)


@safetensors_installed
def test_safetensors_reads_what_is_written():
    import safetensors
    from safetensors.numpy import load_file

    metadata, arrays = read(TOY)
    theirs = load_file(TOY)
    assert set(theirs) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, theirs[name], strict=True)
    with safetensors.safe_open(TOY, "numpy") as file:
        assert file.metadata() == metadata


@safetensors_installed
def test_what_safetensors_writes_is_read(tmp_path):
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    arrays = {
        "a": rng.normal(size=(3, 4)),
        "b": rng.normal(size=5).astype(np.float32),
        "c": rng.integers(-9, 9, (2, 1, 3)).astype(np.int32),
        "scalar": np.array(2.5),
    }
    save_file(arrays, tmp_path / "theirs", {"key": "Wert ü"})
    metadata, found = read(tmp_path / "theirs")
    assert metadata == {"key": "Wert ü"}
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


# Refused: the file.


def refused(path, match, argument=None):
    with pytest.raises(ProfileError, match=match) as caught:
        profiles.load(path)
    assert str(path) in str(caught.value)
    if argument:
        assert caught.value.argument == argument


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 100, -1])
def test_truncated(saved, length):
    saved.write_bytes(saved.read_bytes()[:length])
    refused(saved, "truncated|leave a gap or are beyond the file" if length == -1 else "truncated")


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 10**6])
def test_header_beyond_the_file(saved, length):
    saved.write_bytes(length.to_bytes(8, "little") + saved.read_bytes()[8:])
    refused(saved, "cannot hold a header")


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        profiles.load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        profiles.load(tmp_path)


@pytest.mark.parametrize(
    ("header", "match"),
    [
        (b"", "not a safetensors"),
        (b"[]", "not a safetensors"),
        (b"{", "malformed"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b'{"a": 1, "a": 1}', "twice"),
        (b'{"\xff": 1}', "malformed"),
        (b'{"\\ud800": 1}', "surrogate"),
        (b'{"a": ' + b"[" * 200_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "malformed"),
        (b"{}", "do not say so"),
        (b'{"__metadata__": 1}', "map of strings"),
        (b'{"__metadata__": {"format": 1}}', "map of strings"),
        (b'{"a": 1}', "dtype, shape and data_offsets"),
        ('{"a": 1}'.encode("utf-16"), "not a safetensors"),
    ],
)
def test_malformed_header(tmp_path, header, match):
    refused(join(tmp_path / "p", header, b""), match)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"dtype": "BF16"}, "the type is 'BF16'"),
        ({"dtype": 3}, "the type is 3"),
        ({"shape": [2, -1]}, "positive numbers"),
        ({"shape": [0]}, "positive numbers"),
        ({"shape": [2.0]}, "positive numbers"),
        ({"shape": [True, 2]}, "positive numbers"),
        ({"shape": "22"}, "positive numbers"),
        ({"shape": [1] * 70}, "positive numbers"),
        ({"shape": [3]}, "do not fill"),
        ({"shape": [2**62, 2**62, 2**62]}, "do not fill"),
        ({"data_offsets": [0]}, "ascending"),
        ({"data_offsets": [8, 0]}, "ascending"),
        ({"data_offsets": [0, 10**18]}, "beyond the file"),
        ({"data_offsets": [0, 10**30]}, "out of range"),
        ({"data_offsets": [-8, 8]}, "ascending"),
        ({"data_offsets": [1, 17]}, "overlap|beyond"),
        ({"extra": 1}, "nothing else"),
    ],
)
def test_malformed_array(saved, changes, match):
    header, data = split(saved)
    first = min((name for name in header if name != "__metadata__"), key=lambda name: header[name]["data_offsets"])
    header[first] |= changes
    refused(join(saved, header, data), match)


def test_overlap_gap_and_trailing_bytes(saved):
    header, data = split(saved)
    refused(join(saved, header, data + b"\0"), "1 bytes after the last array")
    header["times.input.scale"]["data_offsets"] = header["times.input.mean"]["data_offsets"]
    refused(join(saved, header, data), "overlap")
    del header["times.input.mean"]
    refused(join(saved, header, data), "gap")


# Refused: the profile.


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        ("format", "pt", "do not say so"),
        ("version", "1", "version 1, this warploom reads 2"),
        ("digest", "00000000", "damaged: the content is not"),
        ("compute_capability", "nine", "not two numbers"),
        ("geometry", "[]", "not a JSON object"),
        ("geometry", '{"warps": -1}', "positive number"),
        ("metrics", "{", "malformed"),
        ("models", "{}", "belongs to no model"),
        ("models", '{"times": 1}', "kind, inputs, outputs and settings"),
    ],
)
def test_wrong_metadata(saved, key, value, match):
    metadata, arrays = read(saved)
    change = write if key != "digest" else _safetensors.write
    change(saved, metadata | {key: value}, arrays)
    refused(saved, match)
    del metadata[key]
    change(saved, metadata, arrays)
    refused(saved, "missing" if key != "format" else "do not say so", key)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"kind": "oracle"}, "unknown kind of model 'oracle'"),
        ({"kind": 1}, "kind is not a string"),
        ({"inputs": ["a"]}, "the shape is"),
        ({"inputs": "ab"}, "not a list"),
        ({"inputs": ["a", 1]}, "not a string"),
        ({"outputs": ["y", "z"]}, "2 names for 1 outputs"),
        ({"settings": {"activation": "relu"}}, "output: the setting is missing"),
        ({"settings": {"activation": "relu", "output": 1}}, "a setting is not a string"),
        ({"surprise": 1}, "nothing else"),
    ],
)
def test_wrong_description_of_a_model(saved, changes, match):
    metadata, arrays = read(saved)
    models = json.loads(metadata["models"])
    models["times"] |= changes
    write(saved, metadata | {"models": json.dumps(models)}, arrays)
    refused(saved, match)


def test_array_missing_renamed_and_not_finite(saved):
    metadata, arrays = read(saved)
    bias = arrays.pop("times.layer.0.bias")
    write(saved, metadata, arrays)
    refused(saved, "model 'times': layer.0.bias: the array is missing", "layer.0.bias")
    write(saved, metadata, arrays | {"times.layer.0.bias": bias, "times.other": bias})
    refused(saved, "no such array", "other")
    write(saved, metadata, arrays | {"times.layer.0.bias": bias + np.float32("nan")})
    refused(saved, "not finite", "layer.0.bias")
    write(saved, metadata, arrays | {"times.layer.0.bias": bias, "times.check.inputs": np.zeros((1, 2))})
    refused(saved, "stored vectors are inputs and outputs", "check")


def test_a_model_that_computes_something_else(tmp_path):
    metadata, arrays = read(TOY)
    arrays["forest.check.outputs"][3, 0] += 1
    write(tmp_path / "p", metadata, arrays)
    refused(tmp_path / "p", "model 'forest': .*stored for vector 3", "check")


# Damage at random: noticed by the digest; and if the digest has been made to fit, whatever loads can predict.

CONTENT = TOY.read_bytes()
HEADER = int.from_bytes(CONTENT[:8], "little") + 8
SPACES = bytes.maketrans(b"\t\n\r", b"   ")
places = st.one_of(st.integers(0, HEADER - 1), st.integers(HEADER, len(CONTENT) - 1))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_bytes(tmp_path, changes):
    content = bytearray(CONTENT)
    for place, value in changes:
        content[place] = value
    (tmp_path / "damaged").write_bytes(content)
    if content == CONTENT:
        profiles.load(tmp_path / "damaged")
    elif content.translate(SPACES) != CONTENT.translate(SPACES):  # one space is as good as another
        refused(tmp_path / "damaged", None)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places, st.binary(max_size=20), st.integers(0, 20))
def test_cut_and_inserted_bytes(tmp_path, place, inserted, removed):
    survives_or_is_refused(tmp_path / "damaged", CONTENT[:place] + inserted + CONTENT[place + removed :])
    survives_or_is_refused(tmp_path / "damaged", CONTENT[:place])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["tree.offset", "node.feature", "node.left", "node.right", "node.threshold", "leaf.value"]),
    st.integers(0, 10**6),
    st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 40),
)
def test_damaged_trees(tmp_path, name, place, value):
    metadata, arrays = read(TOY)
    kept = {key: array for key, array in arrays.items() if ".check." not in key}
    damaged = kept[f"forest.{name}"].reshape(-1)
    damaged[place % damaged.size] = value
    write(tmp_path / "damaged", metadata, kept)
    survives_or_is_refused(tmp_path / "damaged", None)


def survives_or_is_refused(path, content):
    if content is not None:
        path.write_bytes(content)
    try:
        profile = profiles.load(path)
    except ProfileError:
        return
    for model in profile.models.values():
        X = np.linspace(-1, 2, 3 * len(model.inputs)).reshape(3, -1)
        assert model.predict(X).shape == (3, len(model.outputs))


# Found by the name of the GPU.


def test_none_is_shipped_for_an_unknown_gpu(folder):
    assert profiles.find("NVIDIA H200") is None
    assert profiles.find("NVIDIA H200", (9, 0)) is None


def test_the_users_own_profile_comes_first(folder):
    assert profiles.user_folder() == folder / "mine"
    profiles.save(folder / "shipped" / "h200.safetensors", small_profile(data_hash="shipped"))
    found = profiles.find("nvidia h200")
    assert (found.profile.data_hash, found.profile.gpu, found.note) == ("shipped", "NVIDIA H200", "")
    profiles.save(profiles.user_path("NVIDIA H200"), small_profile(data_hash="mine"))
    found = profiles.find("NVIDIA H200", (9, 0))
    assert (found.profile.data_hash, found.note) == ("mine", "")
    assert found.path == folder / "mine" / "nvidia-h200.safetensors"


def test_the_environment_is_read_when_it_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.delenv("WARPLOOM_PROFILES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "Käse"))
    assert _core.environment(("WARPLOOM_PROFILES", "XDG_CONFIG_HOME")) == (None, str(tmp_path / "Käse"))
    assert profiles.user_folder() == tmp_path / "Käse" / "warploom" / "profiles"
    monkeypatch.setenv("WARPLOOM_PROFILES", str(tmp_path))
    assert profiles.user_folder() == tmp_path


def test_the_nearest_architecture_stands_in(folder):
    for gpu, capability in (("NVIDIA A100", (8, 0)), ("NVIDIA L4", (8, 9)), ("NVIDIA H200", (9, 0))):
        profiles.save(folder / "shipped" / f"{gpu}.safetensors", small_profile(gpu, capability))
    for capability, expected in (((8, 6), "NVIDIA L4"), ((7, 0), "NVIDIA A100"), ((10, 0), "NVIDIA H200")):
        found = profiles.find("NVIDIA Other", capability)
        assert found.profile.gpu == expected
        assert found.note == f"no profile of NVIDIA Other: predictions are for {expected}"
    assert profiles.find("NVIDIA Other") is None


def test_a_profile_may_have_been_scored_on_another_gpu(folder):
    scored = {"selectors": {"spmv-float32-warm": {"elsewhere": {"NVIDIA Other": {"matrices": 60}}}}}
    profiles.save(folder / "shipped" / "h200.safetensors", dataclasses.replace(small_profile(), metrics=scored))
    found = profiles.find("NVIDIA Other", (9, 0))
    assert found.note.endswith("predictions are for NVIDIA H200, whose choices were scored on this GPU")
    assert profiles.find("NVIDIA Another", (9, 0)).note.endswith("predictions are for NVIDIA H200")


def test_a_damaged_file_is_left_out_with_a_warning(folder):
    profiles.save(folder / "mine" / "good.safetensors", small_profile())
    (folder / "mine" / "bad.safetensors").write_bytes(b"bad")
    with pytest.warns(RuntimeWarning, match=r"left out: .*bad\.safetensors: truncated"):
        found = profiles.find("NVIDIA H200")
    assert found.path.name == "good.safetensors"


def test_folder_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("WARPLOOM_PROFILES", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert profiles.user_folder() == tmp_path / "warploom" / "profiles"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert profiles.user_folder() == tmp_path / ".config" / "warploom" / "profiles"


def test_shipped_profiles_load():
    for path in profiles._SHIPPED.glob("*.safetensors"):
        assert profiles.load(path).models

"""Profiles: what is known of one GPU, in one file.

A profile holds the trained models of a GPU, and what they were trained on. It is a safetensors file: arrays, and a map
of texts. Profiles are shipped in this folder, and users calibrate their own, which are kept in `user_folder` and come
first. Nothing in a file is executed; one that is damaged is refused with an error that says what is wrong.

Layout of a file, version 1. The metadata are ``format`` ("warploom-profile"), ``version`` ("1"), ``gpu``,
``compute_capability`` ("9.0"), ``cuda``, ``data_hash``, and, as JSON, ``geometry``, ``metrics`` and ``models``: for
each model its kind, inputs, outputs and settings. An array of model M is called ``M.<array>``; ``M.check.inputs`` and
``M.check.outputs`` are its stored vectors. `warploom.predictor.Model` describes the arrays.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warploom.errors import ProfileError
from warploom.predictor import Model, StoredVectors
from warploom.profiles import _safetensors

__all__ = ["FoundProfile", "Profile", "find", "load", "names", "save", "user_folder", "user_path"]

_FORMAT = "warploom-profile"
_VERSION = "1"
_SHIPPED = Path(__file__).parent


@dataclasses.dataclass(frozen=True, eq=False)
class Profile:
    """The trained models of one GPU.

    Parameters
    ----------
    gpu : str
        Product name, such as "NVIDIA H200".
    compute_capability : tuple of int
        (major, minor).
    cuda : str
        Version of CUDA that the measurements were made with.
    models : mapping of str to Model
        By name; names are of letters, digits, ``_`` and ``-``.
    geometry : mapping of str to int
        What the features assume: warps, threads, elements_per_cache_line.
    data_hash : str
        Hash of the measurements the models were trained on.
    metrics : mapping of str to anything JSON holds
        How good the models are on the held-out split.
    """

    gpu: str
    compute_capability: tuple[int, int]
    cuda: str
    models: Mapping[str, Model]
    geometry: Mapping[str, int] = dataclasses.field(default_factory=dict)
    data_hash: str = ""
    metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class FoundProfile:
    """A profile, and why it is the one for a GPU."""

    profile: Profile
    path: Path
    note: str
    """Empty, or that the profile is another GPU's."""


def save(path: str | os.PathLike[str], profile: Profile) -> None:
    """Write a profile; a file that exists is replaced at once.

    Parameters
    ----------
    path : str or path-like
        The file, by convention ``<gpu>.safetensors``.
    profile : Profile
        What to write.

    Raises
    ------
    ProfileError
        A model's name is not one of letters, digits, ``_`` and ``-``.
    ValueError
        The metrics hold something that JSON does not.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name, model in profile.models.items():
        _check_name(name)
        arrays.update({f"{name}.{array}": values for array, values in model.arrays.items()})
        if model.check is not None:
            arrays[f"{name}.check.inputs"] = model.check.inputs
            arrays[f"{name}.check.outputs"] = model.check.outputs
    descriptions = {
        name: {
            "kind": model.kind,
            "inputs": list(model.inputs),
            "outputs": list(model.outputs),
            "settings": dict(model.settings),
        }
        for name, model in profile.models.items()
    }
    metadata = {
        "format": _FORMAT,
        "version": _VERSION,
        "gpu": profile.gpu,
        "compute_capability": "{}.{}".format(*profile.compute_capability),
        "cuda": profile.cuda,
        "data_hash": profile.data_hash,
        "geometry": _to_json(dict(profile.geometry)),
        "metrics": _to_json(dict(profile.metrics)),
        "models": _to_json(descriptions),
    }
    _safetensors.write(Path(path), metadata, arrays)


def load(path: str | os.PathLike[str]) -> Profile:
    """Read a profile, check it, and verify its models on the vectors stored with them.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    Profile

    Raises
    ------
    OSError
        The file cannot be read.
    ProfileError
        It is truncated, damaged, oversized, of another version, or a model in it is incomplete, inconsistent or does
        not compute what its trainer did.
    """
    file = Path(path)
    metadata, arrays = _safetensors.read(file)
    try:
        return _profile(metadata, arrays)
    except ProfileError as error:
        raise ProfileError(f"{file}: {error}", argument=error.argument, position=error.position) from None


def find(device_name: str, compute_capability: tuple[int, int] | None = None) -> FoundProfile | None:
    """Find the profile for a GPU: the user's own first, then those shipped.

    Parameters
    ----------
    device_name : str
        Product name of the GPU; case does not matter.
    compute_capability : tuple of int, optional
        (major, minor) of the GPU. Then the profile of the GPU with the nearest one stands in for a missing one, and
        `FoundProfile.note` says so.

    Returns
    -------
    FoundProfile or None
        None if no profile fits.

    Warns
    -----
    RuntimeWarning
        A file in the folders is no profile; it is left out.
    """
    known = list(_known_profiles())
    for path, gpu, _ in known:
        if gpu.casefold() == device_name.casefold():
            return FoundProfile(load(path), path, "")
    if compute_capability is None or not known:
        return None
    major, minor = compute_capability
    path, gpu, _ = min(known, key=lambda entry: (abs(entry[2][0] - major), abs(entry[2][1] - minor)))
    return FoundProfile(load(path), path, f"no profile of {device_name}: predictions are for {gpu}")


def names() -> list[str]:
    """Return the product names of the GPUs that have a profile, the user's own and those shipped."""
    return sorted({gpu for _, gpu, _ in _known_profiles()})


def user_folder() -> Path:
    """Return the folder of the user's profiles.

    ``WARPLOOM_PROFILES`` if set, else ``warploom/profiles`` in the user's configuration directory
    (``XDG_CONFIG_HOME``, on Windows ``APPDATA``).
    """
    if folder := os.environ.get("WARPLOOM_PROFILES"):
        return Path(folder)
    variable, usual = ("APPDATA", "AppData/Roaming") if sys.platform == "win32" else ("XDG_CONFIG_HOME", ".config")
    return Path(os.environ.get(variable) or Path.home() / usual) / "warploom" / "profiles"


def user_path(device_name: str) -> Path:
    """Return where the user's profile of a GPU is kept, whether it exists or not."""
    return user_folder() / (re.sub(r"[^a-z0-9]+", "-", device_name.casefold()).strip("-") + ".safetensors")


def _known_profiles() -> Iterator[tuple[Path, str, tuple[int, int]]]:
    for folder in (user_folder(), _SHIPPED):
        for path in sorted(folder.glob("*.safetensors")):
            try:
                metadata = _safetensors.read_metadata(path)
                _check_version(metadata)
                yield path, _text(metadata, "gpu"), _capability(metadata)
            except (OSError, ProfileError) as error:
                warnings.warn(f"left out: {path}: {error}", RuntimeWarning, stacklevel=3)


def _profile(metadata: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> Profile:
    _check_version(metadata)
    geometry = _from_json(metadata, "geometry")
    if not all(type(value) is int and value > 0 for value in geometry.values()):
        raise ProfileError("geometry: a value is not a positive number", argument="geometry")
    descriptions = _from_json(metadata, "models")
    of_models: dict[str, dict[str, NDArray[Any]]] = {name: {} for name in descriptions}
    for name, array in arrays.items():
        owner, _, rest = name.partition(".")
        if owner not in of_models:
            raise ProfileError(f"{name}: the array belongs to no model", argument=name)
        of_models[owner][rest] = array
    return Profile(
        gpu=_text(metadata, "gpu"),
        compute_capability=_capability(metadata),
        cuda=_text(metadata, "cuda"),
        models={name: _model(name, description, of_models[name]) for name, description in descriptions.items()},
        geometry=geometry,
        data_hash=_text(metadata, "data_hash"),
        metrics=_from_json(metadata, "metrics"),
    )


def _model(name: str, description: Any, arrays: dict[str, NDArray[Any]]) -> Model:
    _check_name(name)
    if not isinstance(description, dict) or set(description) != {"kind", "inputs", "outputs", "settings"}:
        raise ProfileError(f"{name}: a model has kind, inputs, outputs and settings, nothing else", argument="models")
    settings = description["settings"]
    if not isinstance(description["kind"], str) or not isinstance(settings, dict):
        raise ProfileError(f"{name}: the kind is no text, or the settings are no map", argument="models")
    if not all(isinstance(value, str) for value in settings.values()):
        raise ProfileError(f"{name}: a setting is no text", argument="models")
    if not all(isinstance(description[names], list) for names in ("inputs", "outputs")):
        raise ProfileError(f"{name}: inputs or outputs are no list of names", argument="models")
    try:
        return Model(
            description["kind"],
            description["inputs"],
            description["outputs"],
            settings,
            arrays,
            _stored_vectors(arrays),
        )
    except ProfileError as error:
        raise ProfileError(f"model '{name}': {error}", argument=error.argument, position=error.position) from None


def _stored_vectors(arrays: dict[str, NDArray[Any]]) -> StoredVectors | None:
    """Take the stored vectors out of the arrays of a model."""
    inputs, outputs = arrays.pop("check.inputs", None), arrays.pop("check.outputs", None)
    if inputs is None and outputs is None:
        return None
    for array in (inputs, outputs):
        if array is None or array.dtype != np.float64 or array.ndim != 2:
            raise ProfileError("stored vectors are inputs and outputs, two float64 matrices", argument="check")
    assert inputs is not None
    assert outputs is not None
    return StoredVectors(inputs, outputs)


def _check_version(metadata: Mapping[str, str]) -> None:
    if metadata.get("format") != _FORMAT:
        raise ProfileError("not a warploom profile: the metadata do not say so", argument="format")
    if _text(metadata, "version") != _VERSION:
        raise ProfileError(
            f"the profile's format has version {metadata['version']:.20}, this warploom reads {_VERSION}",
            argument="version",
        )


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise ProfileError(f"{name!r:.60}: a model's name has letters, digits, _ and - only", argument="models")


def _capability(metadata: Mapping[str, str]) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})", _text(metadata, "compute_capability"))
    if match is None:
        raise ProfileError("compute_capability: not two numbers such as 9.0", argument="compute_capability")
    return int(match[1]), int(match[2])


def _text(metadata: Mapping[str, str], key: str) -> str:
    if key not in metadata:
        raise ProfileError(f"{key}: missing in the metadata", argument=key)
    return metadata[key]


def _to_json(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def _from_json(metadata: Mapping[str, str], key: str) -> dict[str, Any]:
    try:
        value = _safetensors.parse_json(_text(metadata, key))
    except ProfileError as error:
        raise ProfileError(f"{key}: {error}", argument=key) from None
    if not isinstance(value, dict):
        raise ProfileError(f"{key}: not a JSON object", argument=key)
    return value

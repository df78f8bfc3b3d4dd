"""Profiles: the trained models of one GPU, in one file.

A profile holds the trained models of a GPU, and what they were trained on. It is a safetensors file: arrays, and a map
of strings. Profiles are shipped in this folder, and users calibrate their own, which are kept in `user_folder` and come
first. Nothing in a file is executed; one that is damaged is refused with an error that says what is wrong.

There are profiles of several kinds of models (`MODELS`): those of trees are in the folders themselves, the others in
folders of their own there, by the name of the model.

Layout of a file, version 2. The metadata are ``format`` ("warploom-profile"), ``version`` ("2"), ``gpu``,
``compute_capability`` ("9.0"), ``cuda``, ``data_hash``, ``digest``, and, as JSON, ``geometry``, ``metrics`` and
``models``: for each model its kind, inputs, outputs and settings. An array of model M is called ``M.<array>``;
``M.check.inputs`` and ``M.check.outputs`` are its stored vectors. `warploom.predictor.Model` describes the arrays. The
digest is a checksum of everything else (CRC-32 of the other metadata and the arrays, by name), so that a file whose
bytes have changed is refused.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from warploom import _core
from warploom.errors import ParameterError, ProfileError
from warploom.predictor import Model
from warploom.profiles import _safetensors

__all__ = [
    "BLEND",
    "MODELS",
    "FoundProfile",
    "Profile",
    "find",
    "fingerprint",
    "folders",
    "load",
    "names",
    "save",
    "shipped_path",
    "user_folder",
    "user_path",
]

MODELS = ("trees", "network", "mehrabi2021", "gao2024")
"""Kinds of models that there are profiles of."""

BLEND = "blend"
"""What plans by default: the first two of `MODELS`, averaged by what the profile of networks says. It has no profile of
its own."""

_FORMAT = "warploom-profile"
_VERSION = "2"
VARIABLES = ("WARPLOOM_PROFILES", "APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME", "HOME")
"""Of the environment, on which it depends where profiles are looked for."""

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

    def selector(self, networks: Profile | None = None) -> _core.Selector:
        """Return what chooses candidates by the models.

        Parameters
        ----------
        networks : Profile, optional
            Networks trained on the same measurements, whose predictions are averaged with those of the models by what
            its ``metrics["blend"]`` says. Networks of other measurements or of another GPU are not used.

        Raises
        ------
        ProfileError
            There are no models that choose, or what belongs to them is lacking.
        """
        return _core.Selector(self._core(), None if networks is None else networks._core())

    def _core(self) -> _core.Profile:
        return _core.Profile(
            self.gpu,
            self.compute_capability,
            self.cuda,
            {name: model.core for name, model in self.models.items()},
            dict(self.geometry),
            self.data_hash,
            _to_json(dict(self.metrics)),
        )


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
    metadata["digest"] = _safetensors.digest(metadata, arrays)
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
    return _profile(_core.load_profile(Path(path)))


def find(
    device_name: str, compute_capability: tuple[int, int] | None = None, *, model: str = MODELS[0]
) -> FoundProfile | None:
    """Find the profile for a GPU: the user's own first, then those shipped.

    Parameters
    ----------
    device_name : str
        Product name of the GPU; case does not matter.
    compute_capability : tuple of int, optional
        (major, minor) of the GPU. If the GPU has no profile, that of the GPU with the nearest compute capability is
        used, and `FoundProfile.note` says so.
    model : str
        One of `MODELS`.

    Returns
    -------
    FoundProfile or None
        None if no profile fits.

    Warns
    -----
    RuntimeWarning
        A file in the folders is not a profile; it is left out.

    Examples
    --------
    >>> from warploom import profiles
    >>> found = profiles.find("NVIDIA H200")
    >>> found.profile.gpu, found.profile.compute_capability
    ('NVIDIA H200', (9, 0))
    >>> profiles.find("no such GPU") is None
    True
    """
    found, left_out = _core.find_profile(device_name, compute_capability, folders(model))
    _warn(left_out)
    if found is None:
        return None
    profile, path, note = found
    return FoundProfile(_profile(profile), path, note)


def fingerprint(device_name: str, model: str = MODELS[0]) -> dict[str, str] | None:
    """Tell the profile for a GPU from others, without reading its models.

    Parameters
    ----------
    device_name : str
        Product name of the GPU; case does not matter.
    model : str
        One of `MODELS`, or `BLEND`, which is what the profiles of trees and of networks together are.

    Returns
    -------
    dict or None
        ``gpu`` and ``model`` as given; ``data_hash`` and ``digest`` of its profile or, if it has none of its own, of
        all that it may get. None if there are no profiles.
    """
    if model == BLEND:
        parts = [found for kind in MODELS[:2] if (found := fingerprint(device_name, kind)) is not None]
        both = {name: " ".join(part[name] for part in parts) for name in ("data_hash", "digest")}
        return {"gpu": device_name, "model": model} | both if parts else None
    seen = [
        texts
        for folder in folders(model)
        for path in sorted(folder.glob("*.safetensors"))
        if (texts := _metadata(path, *_state(path))).get("format") == _FORMAT
    ]
    own = [texts for texts in seen if texts.get("gpu", "").casefold() == device_name.casefold()][:1]
    if not seen:
        return None
    used = own or seen
    return {"gpu": device_name, "model": model} | {
        name: " ".join(texts.get(name, "") for texts in used) for name in ("data_hash", "digest")
    }


@functools.lru_cache(maxsize=64)
def _metadata(path: Path, modified: int, size: int) -> Mapping[str, str]:
    return _safetensors.read_metadata(path)


def _state(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def names(model: str = MODELS[0]) -> list[str]:
    """Return the product names of the GPUs that have a profile, the user's own and those shipped."""
    gpus, left_out = _core.list_profiles(folders(model))
    _warn(left_out)
    return sorted(set(gpus))


def user_folder() -> Path:
    """Return the folder of the user's profiles.

    ``WARPLOOM_PROFILES`` if set, else ``warploom/profiles`` in the user's configuration directory
    (``XDG_CONFIG_HOME``, on Windows ``APPDATA``).
    """
    return _user_folder(*_core.environment(VARIABLES))


@functools.lru_cache(maxsize=8)
def _user_folder(own: str | None, configuration: str | None, _: str | None) -> Path:
    """Make the path once for each environment: that takes as long as planning does otherwise."""
    if own:
        return Path(own)
    usual = "AppData/Roaming" if sys.platform == "win32" else ".config"
    return Path(configuration or Path.home() / usual) / "warploom" / "profiles"


def user_path(device_name: str, model: str = MODELS[0]) -> Path:
    """Return where the user's profile of a GPU is kept, whether it exists or not."""
    return folders(model)[0] / _file_name(device_name)


def shipped_path(device_name: str, model: str = MODELS[0]) -> Path:
    """Return where the profile of a GPU that is shipped is kept, whether it exists or not."""
    return folders(model)[1] / _file_name(device_name)


def folders(model: str = MODELS[0]) -> list[Path]:
    """Return the folders that are searched for profiles of a kind of models: the user's own first.

    Parameters
    ----------
    model : str
        One of `MODELS`.

    Raises
    ------
    ParameterError
        There is no such kind.
    """
    if model not in MODELS:
        raise ParameterError(f"there is no model '{model}'; known are {', '.join(MODELS)}", argument="model")
    own, shipped = user_folder(), _SHIPPED
    return [own, shipped] if model == MODELS[0] else [own / model, shipped / model]


def _file_name(device_name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", device_name.casefold()).strip("-") + ".safetensors"


def _warn(left_out: Sequence[str]) -> None:
    for reason in left_out:
        warnings.warn(f"left out: {reason}", RuntimeWarning, stacklevel=3)


def _profile(loaded: _core.Profile) -> Profile:
    return Profile(
        gpu=loaded.gpu,
        compute_capability=loaded.compute_capability,
        cuda=loaded.cuda,
        models={name: Model.of_core(model) for name, model in loaded.models.items()},
        geometry=loaded.geometry,
        data_hash=loaded.data_hash,
        metrics=loaded.metrics,
    )


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise ProfileError(f"{name!r:.60}: a model's name has letters, digits, _ and - only", argument="models")


def _to_json(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)

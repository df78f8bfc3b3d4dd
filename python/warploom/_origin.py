"""Where the choice of a saved plan comes from, and whether it would still be made."""

from __future__ import annotations

import dataclasses
from typing import Any

from warploom import _core, profiles

__all__ = ["Origin"]


@dataclasses.dataclass(frozen=True)
class Origin:
    """What chose the candidate of a plan that was saved."""

    version: str
    """Of warploom."""
    device: str
    """Name of the device."""
    how: str
    """``"predicted"``, ``"measured"`` or ``"named"``; empty if the file does not say so."""
    profile: dict[str, str] | None = None
    """`warploom.profiles.fingerprint` of the profile that predicted."""

    @classmethod
    def of(cls, based_on: str, device: str, model: str) -> Origin:
        """Describe a choice that was made here and now, by a kind of models if it was predicted."""
        profile = profiles.fingerprint(device, model) if based_on == "predicted" else None
        return cls(_core.__version__, device, based_on, profile)

    @classmethod
    def read(cls, found: Any) -> Origin:
        """Read what `to_dict` returned.

        Raises
        ------
        TypeError, KeyError
            It is something else.
        """
        profile = found["profile"]
        if profile is not None:
            earlier = {"model": profiles.MODELS[0]}  # which did not say so
            profile = {name: (earlier | profile)[name] for name in ("gpu", "model", "data_hash", "digest")}
        read = cls(found["warploom"], found["device"], found["how"], profile)
        if not all(isinstance(text, str) for text in (read.version, read.device, read.how, *(profile or {}).values())):
            raise TypeError("what chose the plan is not described by texts")
        return read

    def to_dict(self) -> dict[str, Any]:
        """Return what is written to a file."""
        return {"warploom": self.version, "device": self.device, "how": self.how, "profile": self.profile}

    def says(self) -> str:
        """Say for the explanation of a plan where its choice comes from."""
        how = {"predicted": "predicted", "measured": "measured", "named": "named by its user"}.get(self.how, "chosen")
        return f"Read from a file: {how} on {self.device} by warploom {self.version}."

    def doubts(self, device: str) -> list[str]:
        """Say what has changed since, so that another choice may be better.

        Parameters
        ----------
        device : str
            Name of the device that it is used on.
        """
        if self.how == "named":
            return []
        found = []
        if self.version != _core.__version__:
            found.append(f"it was chosen by warploom {self.version}, and this is {_core.__version__}")
        if self.device != device:
            found.append(f"it was chosen on {self.device}, and this is {device}")
        if self.profile is not None:
            gpu = self.profile["gpu"]
            now = profiles.fingerprint(gpu, self.profile["model"])
            if now is None:
                found.append(f"the profile of the {gpu} that chose it is gone")
            elif now["data_hash"] != self.profile["data_hash"]:
                found.append(f"the profile of the {gpu} has been trained on other measurements since")
            elif now["digest"] != self.profile["digest"]:
                found.append(f"the profile of the {gpu} has changed since")
        return found

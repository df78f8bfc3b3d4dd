"""The GPUs that the programs of this folder may use."""

from __future__ import annotations

import os
import subprocess

__all__ = ["least_mib", "used_mib", "visible_gpus"]


def _ask(*fields: str) -> list[list[str]]:
    query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    lines = subprocess.run(query, text=True, capture_output=True, check=True).stdout.splitlines()
    return [[value.strip() for value in line.split(",")] for line in lines]


def visible_gpus() -> list[str]:
    """Return a name for each GPU that ``CUDA_VISIBLE_DEVICES`` leaves, as that variable takes them.

    As in CUDA, the variable lists numbers or UUIDs, which may be cut short, and ends at the first that names no GPU.
    """
    known = dict(_ask("index", "uuid"))
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is None:
        return list(known.values())
    found: list[str] = []
    for name in (part.strip() for part in given.split(",")):
        if name.startswith("MIG-"):  # a part of a GPU, whose memory is not asked for
            found.append(name)
            continue
        named = [uuid for index, uuid in known.items() if name == index or (len(name) > 4 and uuid.startswith(name))]
        if len(named) != 1:
            break
        found += named
    return found


def used_mib(gpus: list[str]) -> list[int]:
    """Return the memory in use on each of these GPUs, whoever uses it; 0 for a part of a GPU."""
    used = dict(_ask("uuid", "memory.used")) if gpus else {}
    return [int(used.get(uuid, 0)) for uuid in gpus]


def least_mib(gpus: list[str]) -> int:
    """Return the memory of the smallest of these GPUs; of a part of a GPU, that of a large one."""
    sizes = dict(_ask("uuid", "memory.total")) if gpus else {}
    return min((int(sizes.get(uuid, 10**6)) for uuid in gpus), default=0)

"""Writing safetensors files: a JSON header that describes arrays, then their bytes.

The format is that of https://github.com/huggingface/safetensors. Files are read, and checked, in C++; here only what
they say of themselves.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warploom.errors import ProfileError

__all__ = ["digest", "read_metadata", "write"]

_DTYPES: dict[str, np.dtype[Any]] = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "I32": np.dtype("<i4")}
_METADATA = "__metadata__"


_LONGEST_HEADER = 64 << 20


def read_metadata(path: Path) -> dict[str, str]:
    """Return the texts of a file without reading its arrays; none if it is no such file."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length)) if length <= _LONGEST_HEADER else {}
        found = header.get(_METADATA)
    except (OSError, ValueError, RecursionError, AttributeError):
        return {}
    texts = found.items() if isinstance(found, dict) else ()
    return {key: value for key, value in texts if isinstance(value, str)}


def digest(metadata: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return a checksum of all that a file holds, by which damage is noticed.

    CRC-32, as eight hexadecimal digits, over the metadata (but for ``digest``) and then the arrays, both by name. Texts
    have their length in bytes before them; an array is its name, its type, its dimensions with their number before
    them, and its bytes. Lengths and dimensions are int64, and numbers are little-endian.

    Parameters
    ----------
    metadata : mapping of str to str
    arrays : mapping of str to ndarray
        float64, float32 or int32.
    """
    names = {dtype: name for name, dtype in _DTYPES.items()}
    found = 0

    def add(content: bytes) -> None:
        nonlocal found
        found = zlib.crc32(content, found)

    def add_numbers(*numbers: int) -> None:
        add(np.array(numbers, "<i8").tobytes())

    def add_text(text: str) -> None:
        content = text.encode()
        add_numbers(len(content))
        add(content)

    for key, value in sorted(metadata.items()):
        if key != "digest":
            add_text(key)
            add_text(value)
    for name, array in sorted(arrays.items()):
        little_endian = _little_endian(array)
        add_text(name)
        add_text(names.get(little_endian.dtype, ""))
        add_numbers(array.ndim, *array.shape)
        add(little_endian.tobytes())
    return f"{found:08x}"


def write(path: Path, metadata: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a file: all of it or, on failure, none.

    Parameters
    ----------
    path : Path
        The file; one that exists is replaced.
    metadata : mapping of str to str
    arrays : mapping of str to ndarray
        float64, float32 or int32, none empty.
    """
    names = {dtype: name for name, dtype in _DTYPES.items()}
    header: dict[str, Any] = {_METADATA: dict(sorted(metadata.items()))}
    chunks = []
    end = 0
    # The widest types first: every array is then aligned in the file.
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        little_endian = _little_endian(array)
        if little_endian.dtype not in names or array.size == 0 or name == _METADATA:
            raise ProfileError(f"{name}: the array is empty or of type {array.dtype}", argument=name)
        begin, end = end, end + little_endian.nbytes
        header[name] = {
            "dtype": names[little_endian.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
        chunks.append(little_endian.tobytes())
    text = json.dumps(header, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.writelines([len(text).to_bytes(8, "little"), text, *chunks])
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))

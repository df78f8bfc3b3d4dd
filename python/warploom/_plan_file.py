"""The files of plans: safetensors, with the matrix as arrays and the rest as metadata."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warploom import _bfloat16
from warploom.errors import FileFormatError

__all__ = ["decode", "digest", "encode", "read", "write"]

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": _bfloat16.DTYPE,
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_METADATA = "__metadata__"
_LONGEST_HEADER = 64 << 20

Arrays = Mapping[str, NDArray[Any]]


def digest(metadata: Mapping[str, str], arrays: Arrays) -> str:
    """Return a checksum of a file: CRC-32 over metadata but ``digest``, and arrays, as eight hexadecimal digits."""
    texts = {key: value for key, value in metadata.items() if key != "digest"}
    found = zlib.crc32(json.dumps(texts, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        little = _little_endian(array)
        found = zlib.crc32(f"{name} {_NAMES[little.dtype]} {little.size};".encode(), found)
        found = zlib.crc32(_bytes_of(little), found)
    return f"{found:08x}"


def encode(metadata: Mapping[str, str], arrays: Arrays) -> bytes:
    """Return what a file holds."""
    return b"".join(_chunks(metadata, arrays))


def write(path: Path, metadata: Mapping[str, str], arrays: Arrays) -> None:
    """Write a file: all of it or, on failure, none. One that exists is replaced."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.writelines(_chunks(metadata, arrays))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _chunks(metadata: Mapping[str, str], arrays: Arrays) -> list[Any]:
    header: dict[str, Any] = {_METADATA: dict(sorted(metadata.items()))}
    chunks: list[Any] = []
    end = 0
    # The widest types first: every array is then aligned in the file.
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        little = _little_endian(array)
        begin, end = end, end + little.nbytes
        header[name] = {"dtype": _NAMES[little.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
        chunks.append(_bytes_of(little))
    text = json.dumps(header, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *chunks]


def read(path: Path) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Read a file; see `decode`.

    Raises
    ------
    OSError
        It cannot be read.
    """
    return decode(np.fromfile(path, np.uint8), str(path))


def decode(content: Any, name: str = "the plan") -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Take apart what a file holds.

    Parameters
    ----------
    content : buffer
    name : str
        Of the file, for messages.

    Returns
    -------
    dict of str to str
        Metadata.
    dict of str to ndarray
        One-dimensional arrays.

    Raises
    ------
    FileFormatError
        It is no such file, truncated or damaged.
    """
    octets = np.frombuffer(content, np.uint8)

    def damaged(what: str) -> FileFormatError:
        return FileFormatError(f"{name} is damaged or no file of a plan: {what}", argument="path")

    length = int.from_bytes(octets[:8].tobytes(), "little")
    if octets.size < 8 or length > min(octets.size - 8, _LONGEST_HEADER):
        raise damaged("its header is not there")
    try:
        header = json.loads(octets[8 : 8 + length].tobytes())
    except (ValueError, RecursionError) as error:
        raise damaged("its header is no JSON") from error
    body = octets[8 + length :]
    metadata = header.pop(_METADATA, None) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise damaged("it has no metadata")
    arrays: dict[str, NDArray[Any]] = {}
    for key, entry in header.items():
        try:
            dtype, (size,), (begin, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
            fits = all(type(number) is int for number in (size, begin, end)) and 0 <= begin <= end <= body.size
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(f"the entry of {key!r} in its header") from error
        if not fits or size < 0 or end - begin != size * dtype.itemsize:
            raise damaged(f"the size of {key!r}")
        array = np.frombuffer(body[begin:end].tobytes(), dtype)  # aligned
        arrays[key] = array.astype(dtype.newbyteorder("="), copy=False)
    return metadata, arrays


def _bytes_of(array: NDArray[Any]) -> Any:
    return array.view(np.uint8).data if array.size else b""


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))

"""Reading and writing safetensors files: a JSON header that describes arrays, then their bytes.

The format is that of https://github.com/huggingface/safetensors. Read here are the types that profiles use. Whatever
is not exactly as the format says is refused; nothing in a file is executed, and no more memory is allocated than the
file has bytes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from warploom.errors import ProfileError

__all__ = ["read", "read_metadata", "write"]

_DTYPES: dict[str, np.dtype[Any]] = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "I32": np.dtype("<i4")}
_MAX_HEADER = 16 << 20
_MAX_FILE = 1 << 30
_MAX_DIMENSIONS = 8
_METADATA = "__metadata__"


def read(path: Path) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Read a file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    metadata : dict of str to str
    arrays : dict of str to ndarray
        Fresh arrays in native byte order: float64, float32 or int32.

    Raises
    ------
    OSError
        The file cannot be read.
    ProfileError
        It is damaged, or holds something else.
    """
    with path.open("rb") as file:
        header, size = _read_header(file, path)
        data = file.read(size + 1)
    if len(data) != size:
        raise ProfileError(f"{path}: the size changed while the file was read", argument="path")
    try:
        metadata = _metadata(header)
        return metadata, _arrays(header, data)
    except ProfileError as error:
        raise ProfileError(f"{path}: {error}", argument="path") from None


def read_metadata(path: Path) -> dict[str, str]:
    """Read the metadata alone; raises as `read` does."""
    with path.open("rb") as file:
        header, _ = _read_header(file, path)
    try:
        return _metadata(header)
    except ProfileError as error:
        raise ProfileError(f"{path}: {error}", argument="path") from None


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
        little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
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


def parse_json(text: str | bytes) -> Any:
    """Parse JSON strictly: no key twice, no NaN or infinity; ProfileError says what is wrong."""
    try:
        text = text if isinstance(text, str) else text.decode()
        if re.search(r"\\u[dD][89a-fA-F]", text):  # half a character: no text that anything else takes
            raise ProfileError("JSON has a surrogate in it")
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except RecursionError:
        raise ProfileError("JSON is nested too deeply") from None
    except ValueError as error:  # also of text that is not UTF-8
        raise ProfileError(f"JSON is malformed: {error}") from None


def _read_header(file: Any, path: Path) -> tuple[dict[str, Any], int]:
    """Return the header and the number of bytes after it."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise ProfileError(f"{path}: truncated: {size} bytes cannot hold a header of {length}", argument="path")
    if size > _MAX_FILE or length > _MAX_HEADER:
        raise ProfileError(f"{path}: {size} bytes with a header of {length} are too many", argument="path")
    text = file.read(length)
    if not text.startswith(b"{"):
        raise ProfileError(f"{path}: not a safetensors file", argument="path")
    try:
        header: dict[str, Any] = parse_json(text)
    except ProfileError as error:
        raise ProfileError(f"{path}: the header's {error}", argument="path") from None
    return header, size - 8 - length


def _metadata(header: dict[str, Any]) -> dict[str, str]:
    metadata = header.get(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ProfileError("the metadata are not a map of texts")
    return metadata


def _arrays(header: dict[str, Any], data: bytes) -> dict[str, NDArray[Any]]:
    described = {name: _describe(name, entry) for name, entry in header.items() if name != _METADATA}
    end_of_last = 0
    arrays = {}
    for name, (dtype, shape, begin, end) in sorted(described.items(), key=lambda item: item[1][2]):
        if begin != end_of_last or end > len(data):
            raise ProfileError(f"{name}: bytes {begin} to {end} overlap others, leave a gap or are beyond the file")
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        if size != end - begin:
            raise ProfileError(f"{name}: {end - begin} bytes do not fill the shape {shape}")
        array = np.frombuffer(data, dtype, (end - begin) // dtype.itemsize, begin).reshape(shape)
        arrays[name] = array.astype(dtype.newbyteorder("="))
        end_of_last = end
    if end_of_last != len(data):
        raise ProfileError(f"{len(data) - end_of_last} bytes after the last array")
    return arrays


def _describe(name: str, entry: Any) -> tuple[np.dtype[Any], list[int], int, int]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ProfileError(f"{name}: an array has dtype, shape and data_offsets, nothing else")
    dtype = entry["dtype"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ProfileError(f"{name}: the type is {dtype!r:.40}; profiles have {', '.join(_DTYPES)}")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not _are_sizes(shape) or len(shape) > _MAX_DIMENSIONS or 0 in shape:
        raise ProfileError(f"{name}: the shape is not one of 0 to {_MAX_DIMENSIONS} positive numbers")
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ProfileError(f"{name}: data_offsets are not two numbers in ascending order")
    return _DTYPES[dtype], shape, offsets[0], offsets[1]


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")

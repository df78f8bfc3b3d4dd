"""The state of the sources that the GPU tests verify.

It is the first field of ``find cpp python/bindings -type f | LC_ALL=C sort | xargs sha256sum | sha256sum``,
computed here without those tools. ``python tests/gpu/source_hash.py`` prints it, and says whether
tests/gpu/verified.json is of that state.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

__all__ = ["source_hash", "verification_warning"]

ROOT = Path(__file__).parents[2]
FOLDERS = ("cpp", "python/bindings")


def source_hash(root: Path = ROOT) -> str:
    """Hash every file below cpp and python/bindings, names and contents."""
    names = [
        f"{folder}/{path.relative_to(root / folder).as_posix()}"
        for folder in FOLDERS
        for path in (root / folder).rglob("*")
        if path.is_file() and not path.is_symlink()
    ]
    lines = hashlib.sha256()
    for name in sorted(names, key=os.fsencode):
        digest = hashlib.sha256((root / name).read_bytes()).hexdigest()
        lines.update(os.fsencode(f"{digest}  {name}\n"))
    return lines.hexdigest()


def verification_warning(root: Path = ROOT) -> str | None:
    """Say what is wrong with the record of the last GPU run; None if it is of the sources as they are."""
    try:
        record = json.loads((root / "tests" / "gpu" / "verified.json").read_text())
    except FileNotFoundError:
        return "there is no tests/gpu/verified.json: the GPU code has no recorded test run"
    except ValueError as error:
        return f"tests/gpu/verified.json cannot be read: {error}"
    if not isinstance(record, dict) or record.get("source") != source_hash(root):
        return "the sources changed since the GPU tests recorded in tests/gpu/verified.json"
    if record.get("failed") == 0 and record.get("sanitizer_errors") == -1:
        return "the GPU tests of these sources passed, but compute-sanitizer was not run to its end over them"
    if record.get("failed") != 0 or record.get("sanitizer_errors") != 0:
        return (
            f"the GPU tests of these sources did not pass: {record.get('failed')} failed, "
            f"{record.get('sanitizer_errors')} sanitizer errors"
        )
    return None


if __name__ == "__main__":
    print(source_hash())
    print(verification_warning() or "verified: tests/gpu/verified.json is of this state")

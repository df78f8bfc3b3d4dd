"""Text files that grow by lines, which a kill or a full disk must not damage."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["append_lines", "cut_unfinished_line"]


def cut_unfinished_line(path: Path) -> None:
    """Cut off what follows the last end of a line: somebody was stopped while writing it."""
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)


def append_lines(path: Path, lines: str) -> None:
    """Append lines, all of them or, on failure, none.

    Raises
    ------
    OSError
        They cannot be written.
    """
    with path.open("ab", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        left = lines.encode()
        try:
            while left:
                left = left[file.write(left) :]
        except OSError:
            os.ftruncate(file.fileno(), size)
            raise

"""Downloads into a cache: interrupted ones are resumed, and a partial file is never taken for a complete one."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warploom
from warploom.corpus.entry import Progress
from warploom.errors import DownloadError

__all__ = [
    "CacheError",
    "Policy",
    "cache_directory",
    "discard",
    "exclusive",
    "fetch",
    "keep",
    "recorded_digest",
]

_CHUNK = 1 << 18
MOST_WITHOUT_LENGTH = 128 << 30
"""Most bytes of an answer of unknown length: 12 for each nonzero of the collection's largest matrix."""
_WORTH_ANOTHER_ATTEMPT = {408, 425, 429, 500, 502, 503, 504}


class CacheError(DownloadError):
    """The cache cannot be written; no other server will help."""


@dataclass(frozen=True)
class Policy:
    """Attempts, pauses and timeouts; see `warploom.corpus.suitesparse.download`."""

    attempts: int
    backoff: float
    timeout: float


class _Interrupted(Exception):
    """The transfer ended early; `after` is the pause in seconds that the server asks for."""

    def __init__(self, reason: object, after: float = 0.0) -> None:
        super().__init__(str(reason))
        self.after = after


class _OtherFileError(_Interrupted):
    """The part that has arrived cannot be continued."""


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise DownloadError(f"downloads need {name}: pip install 'warploom[corpus]'") from error


def cache_directory() -> Path:
    """Return the folder for all that is downloaded: ``WARPLOOM_CACHE``, else the user's cache directory."""
    chosen = os.environ.get("WARPLOOM_CACHE")
    return Path(chosen) if chosen else Path(_library("platformdirs").user_cache_path("warploom", appauthor=False))


@contextlib.contextmanager
def exclusive(target: Path) -> Iterator[None]:
    """Let one process at a time write a file of the cache; the others wait."""
    filelock = _library("filelock")
    with _cache_errors(target, "the cache"):
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(f"{target}.lock")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _cache_errors(target: Path, url: str) -> Iterator[None]:
    try:
        yield
    except DownloadError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(target, url) from error
        where = "choose another cache directory with WARPLOOM_CACHE"
        raise CacheError(
            f"{url}: cannot write {target}: {error.strerror or error}; {where}", argument="cache"
        ) from error


def _disk_full(target: Path, url: str) -> CacheError:
    return CacheError(
        f"{url}: no space left for {target}; free some, or choose another cache directory with WARPLOOM_CACHE. "
        "The part that has arrived is kept, and the next download continues there",
        argument="cache",
    )


# ----- what is in the cache -----


def _part(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def _notes(target: Path) -> Path:
    return target.with_name(f"{target.name}.part.json")


def _digest_file(target: Path) -> Path:
    return target.with_name(f"{target.name}.sha256")


def recorded_digest(target: Path) -> str | None:
    """Return the SHA-256 that a file had when it was downloaded, or None if there is no record of it."""
    try:
        words = _digest_file(target).read_text("ascii").split()
    except (OSError, UnicodeDecodeError):
        return None
    return words[0] if words else None


def keep(part: Path, target: Path, digest: str) -> None:
    """Move a complete file to its path, with its checksum beside it in the format of ``sha256sum``."""
    with _cache_errors(target, target.name):
        record = _digest_file(target)
        fresh = record.with_name(f"{record.name}.new")
        fresh.write_text(f"{digest}  {target.name}\n", "ascii")
        os.replace(fresh, record)
        os.replace(part, target)
        _notes(target).unlink(missing_ok=True)


def discard(target: Path) -> None:
    """Remove a partial download and its record."""
    _part(target).unlink(missing_ok=True)
    _notes(target).unlink(missing_ok=True)


# ----- the transfer -----


def fetch(url: str, target: Path, policy: Policy, progress: Progress | None) -> Path:
    """Transfer a file to its place beside `target`, continuing an earlier partial download.

    Raises
    ------
    DownloadError
        The server does not have it or cannot be reached.
    CacheError
        It cannot be written.
    """
    requests = _library("requests")
    failures = 0
    furthest = 0
    with requests.Session() as session:
        session.headers.update({"User-Agent": f"warploom/{warploom.__version__}", "Accept-Encoding": "identity"})
        while True:
            try:
                _transfer(session, url, target, policy, progress)
                return _part(target)
            except _Interrupted as error:
                reached = _size(_part(target))
                failures = 1 if reached > furthest else failures + 1
                furthest = max(furthest, reached)
                if failures >= policy.attempts:
                    raise DownloadError(
                        f"{url}: {error}; {reached} bytes have arrived and are kept, try again later", argument="name"
                    ) from error
                time.sleep(max(error.after, policy.backoff * 2 ** (failures - 1)))


def _transfer(session: Any, url: str, target: Path, policy: Policy, progress: Progress | None) -> None:
    """Make one attempt."""
    requests, http_errors = _library("requests"), _library("urllib3.exceptions")
    have, validator = _arrived(url, target)
    headers = {"Range": f"bytes={have}-", "If-Range": validator} if have else {}
    try:
        with session.get(url, headers=headers, stream=True, timeout=policy.timeout) as response:
            if response.status_code == 416 and response.headers.get("Content-Range") == f"bytes */{have}":
                return  # nothing follows what has arrived: it is complete
            _check_status(url, response)
            start, total = _extent(response, have, validator)
            _receive(url, response, target, start, total, progress)
    except _OtherFileError:
        discard(target)
        raise
    except (requests.RequestException, http_errors.HTTPError) as error:
        raise _Interrupted(f"cannot be read, is the network up? {error}") from error


def _check_status(url: str, response: Any) -> None:
    status = response.status_code
    if status in _WORTH_ANOTHER_ATTEMPT:
        pause = response.headers.get("Retry-After", "")
        raise _Interrupted(
            f"the server answers {status} {response.reason}", min(float(pause), 60.0) if pause.isdigit() else 0
        )
    if status == 416:
        raise _OtherFileError("the server has less than what has arrived")
    if status not in (200, 206):
        raise DownloadError(f"{url}: the server answers {status} {response.reason}", argument="name")


def _extent(response: Any, have: int, validator: str) -> tuple[int, int | None]:
    """Return the offset at which the answer starts in the file, and the length of the file."""
    if response.status_code == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip())
        if match is None or int(match[1]) != have or _validator(response) not in (validator, ""):
            raise _OtherFileError("the server continues another file")
        return have, None if match[2] == "*" else int(match[2])
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdigit() else None


def _receive(url: str, response: Any, target: Path, start: int, total: int | None, progress: Progress | None) -> None:
    part = _part(target)
    with _cache_errors(part, url):
        if total is not None and shutil.disk_usage(part.parent).free < total - start:
            raise _disk_full(part, url)
        if not start:
            part.open("wb").close()  # first, so that the record never describes another file than the one on the disk
            _notes(target).write_text(json.dumps({"url": url, "validator": _validator(response)}), "utf-8")
    done = start
    with _cache_errors(part, url), part.open("ab") as stream:
        for chunk in _chunks(response):
            stream.write(chunk)
            done += len(chunk)
            if total is None and done > MOST_WITHOUT_LENGTH:
                break
            if progress is not None:
                progress(done, total)
    if total is None and done > MOST_WITHOUT_LENGTH:
        discard(target)
        raise DownloadError(
            f"{url}: the server does not say how long the file is, and sends more than {MOST_WITHOUT_LENGTH} bytes",
            argument="name",
        )
    if total is not None and done != total:
        raise _Interrupted(f"the connection was cut after {done} of {total} bytes")


def _chunks(response: Any) -> Iterator[bytes]:
    """Yield the chunks of the response; network errors are kept apart from errors of the disk."""
    http_errors = _library("urllib3.exceptions")
    try:
        yield from response.raw.stream(_CHUNK, decode_content=False)
    except (http_errors.HTTPError, OSError) as error:
        raise _Interrupted(f"the connection was cut: {error}") from error


def _arrived(url: str, target: Path) -> tuple[int, str]:
    """Return how much of a file has arrived, and the header by which the server identifies the same version."""
    size = _size(_part(target))
    try:
        notes = json.loads(_notes(target).read_text("utf-8"))
    except (OSError, ValueError):
        return 0, ""
    if not isinstance(notes, dict) or notes.get("url") != url or not notes.get("validator"):
        return 0, ""
    return size, str(notes["validator"])


def _validator(response: Any) -> str:
    """Return the header that identifies this version of a file; a weak ETag allows no continuation."""
    etag: str = response.headers.get("ETag", "")
    return etag if etag and not etag.startswith("W/") else str(response.headers.get("Last-Modified", ""))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

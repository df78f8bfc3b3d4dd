"""Terms by documents, from texts in packages of Debian, which are downloaded and unpacked, not installed."""

# ruff: noqa: D103 - what a source makes is said with its matrices.
from __future__ import annotations

import gzip
import pathlib
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator

import numpy as np
import scipy.sparse
from common import Made, Matrix, pattern_arrays, source, versions
from sklearn.feature_extraction.text import CountVectorizer

FAMILY, KIND = "texts", "term/document graph"


def unpacked(package: str, folder: str) -> tuple[pathlib.Path, str]:
    """Download a package of Debian, and return the folder with its files and its name with the version."""
    subprocess.run(["apt-get", "download", "-q", package], check=True, cwd=folder, capture_output=True)
    (deb,) = pathlib.Path(folder).glob(f"{package}_*.deb")
    target = pathlib.Path(folder) / package
    subprocess.run(["dpkg-deb", "-x", deb, target], check=True)
    version = subprocess.run(["dpkg-deb", "-f", deb, "Version"], check=True, capture_output=True, text=True).stdout
    return target, f"Debian's {package} {version.strip()}"


def _number(text: str) -> int:
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    value = 0
    for digit in text:
        value = 64 * value + digits.index(digit)
    return value


def _dictionary(package: str, name: str) -> tuple[list[str], str]:
    """Return the articles of a dictionary for dictd, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        files, version = unpacked(package, folder)
        base = files / "usr/share/dictd" / name
        index = base.with_suffix(".index").read_text(encoding="utf-8", errors="replace")
        text = gzip.decompress(base.with_suffix(".dict.dz").read_bytes())
    places = sorted({(_number(where), _number(size)) for _, where, size in (r.split("\t") for r in index.splitlines())})
    return [text[where : where + size].decode("utf-8", "replace") for where, size in places], version


def _terms(documents: list[str]) -> scipy.sparse.csr_array:
    counted = CountVectorizer(token_pattern=r"[a-z]{2,}", min_df=2).fit_transform(documents)
    return scipy.sparse.csr_array(counted)


@source
def dictionaries() -> Iterator[Made]:
    for package, file, what in (
        ("dict-gcide", "gcide", "the Collaborative International Dictionary of English"),
        ("dict-wn", "wn", "WordNet"),
    ):
        articles, version = _dictionary(package, file)
        summary = f"articles of {what} by their words"
        made = Matrix(f"words-{file}", FAMILY, KIND, summary, "pattern")
        yield Made(f"words-{file}", f"{version}, {versions('scikit-learn')}", pattern_arrays(_terms(articles)), [made])


@source
def wordnet() -> Iterator[Made]:
    """Synonym sets and their pointers to others."""
    with tempfile.TemporaryDirectory() as folder:
        files, version = unpacked("wordnet-base", folder)
        lines = [
            (letter, line)
            for kind, letter in (("noun", "n"), ("verb", "v"), ("adj", "a"), ("adv", "r"))
            for line in (files / f"usr/share/wordnet/data.{kind}").read_text(encoding="utf-8").splitlines()
            if not line.startswith(" ")
        ]
    number = {kind + line[:8]: place for place, (kind, line) in enumerate(lines)}
    pairs = []
    for place, (_, line) in enumerate(lines):
        fields = line.partition("|")[0].split()
        first = 4 + 2 * int(fields[3], 16)
        for pointer in range(int(fields[first])):
            offset, kind = fields[first + 2 + 4 * pointer], fields[first + 3 + 4 * pointer]
            pairs.append((place, number[kind.replace("s", "a") + offset]))
    place = tuple(np.array(pairs).T)
    A = scipy.sparse.csr_array((np.ones(len(pairs), np.int8), place), shape=(len(lines), len(lines)))
    name = "wordnet"
    made = Matrix(name, "lexical graph", "directed graph", "synonym sets and their pointers to others", "pattern")
    yield Made(name, version, pattern_arrays(A), [made])


_PARTS = ("block", "crypto", "fs", "include", "ipc", "kernel", "lib", "mm", "net", "security", "sound", "virt")
_PARTS += ("arch/x86", "arch/arm64", "drivers/net", "drivers/usb", "drivers/scsi", "drivers/media")


@source
def linux_source() -> Iterator[Made]:
    """Collect the identifiers of the Linux kernel's C files."""
    word = re.compile(rb"[A-Za-z_][A-Za-z_0-9]{2,}")
    comment = re.compile(rb"/\*.*?\*/|//[^\n]*", re.DOTALL)
    numbers: dict[bytes, int] = {}
    found: list[tuple[str, np.ndarray]] = []
    with tempfile.TemporaryDirectory() as folder:
        files, version = unpacked("linux-source-6.1", folder)
        (archive,) = files.glob("usr/src/*.tar.xz")
        with tarfile.open(archive, "r|xz") as tar:
            for member in tar:
                path = member.name.partition("/")[2]
                if not member.isfile() or not path.endswith((".c", ".h")) or not path.startswith(_PARTS):
                    continue
                text = tar.extractfile(member).read()  # type: ignore[union-attr]
                spelt = set(word.findall(comment.sub(b" ", text)))
                found.append((path, np.array([numbers.setdefault(w, len(numbers)) for w in spelt], np.int64)))
    found.sort(key=lambda row: row[0])
    lengths = [len(row[1]) for row in found]
    rank = np.empty(len(numbers), np.int64)
    rank[[numbers[w] for w in sorted(numbers)]] = np.arange(len(numbers))
    cols = np.repeat(np.arange(len(found)), lengths)
    rows = rank[np.concatenate([row[1] for row in found])]
    A = scipy.sparse.csr_array((np.ones(len(rows), np.int8), (rows, cols)), shape=(len(numbers), len(found)))
    A = A[np.diff(A.indptr) > 1]
    made = Matrix("linux-identifiers", FAMILY, KIND, "identifiers of Linux by the C files that have them", "pattern")
    yield Made("linux-identifiers", version, pattern_arrays(A), [made])

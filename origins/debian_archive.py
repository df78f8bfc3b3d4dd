"""Packages and files of Debian: needs `apt-get install apt-file` and `apt-get update`.

What comes out depends on the lists that apt has: the release is named with the matrices.
"""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Iterator

import numpy as np
import scipy.sparse
from common import Made, Matrix, pattern_arrays, source

FAMILY = "Linux distribution"


def _targets(created_by: str) -> list[str]:
    command = ["apt-get", "indextargets", "--format", "$(RELEASE) $(CODENAME) $(FILENAME)", f"Created-By: {created_by}"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    rows = [line.split(" ") for line in lines]
    # The release alone: updates come and go.
    return sorted({row[2] for row in rows if len(row) == 3 and re.fullmatch(r"\w+", row[0]) and row[1] == row[0]})


def _lines(created_by: str) -> Iterator[str]:
    for path in _targets(created_by):
        command = ["/usr/lib/apt/apt-helper", "cat-file", path]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
            assert process.stdout is not None
            yield from process.stdout


@functools.cache
def _release() -> str:
    command = ["apt-cache", "policy"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    match = re.search(r"release v=([\d.]+),o=Debian,a=\w+,n=(\w+),l=Debian,c=main", found)
    return f"Debian {match[1]} ({match[2]})" if match else "Debian"


@source
def debian_depends() -> Iterator[Made]:
    """Follow what packages name in any field about other packages, and all that an installation pulls in."""
    needs = ("Depends", "Pre-Depends")
    fields = (*needs, "Recommends", "Suggests", "Enhances", "Breaks", "Replaces", "Conflicts", "Provides")
    named: dict[str, set[str]] = {}
    first: dict[str, list[str]] = {}
    package = ""
    for line in _lines("Packages"):
        key, _, value = line.partition(": ")
        if key == "Package":
            package = value.strip()
            named.setdefault(package, set())
            first.setdefault(package, [])
        elif key in fields:
            value = re.sub(r"\([^)]*\)|:\w+", "", value)
            named[package].update(name.strip() for name in re.split(r"[,|]", value) if name.strip())
            if key in needs:
                first[package] += [names.partition("|")[0].strip() for names in value.split(",")]
    for other in {name for names in named.values() for name in names} - named.keys():
        named[other] = set()  # virtual packages, and those of other releases
    nodes = {name: number for number, name in enumerate(sorted(named))}
    kind = "directed graph"
    name = "debian-depends"
    summary = "packages, and those that they depend on, recommend, conflict with or provide"
    A = _graph([(nodes[one], nodes[other]) for one, others in named.items() for other in others], len(nodes))
    yield Made(name, _release(), pattern_arrays(A), [Matrix(name, FAMILY, kind, summary, "pattern")])
    pulled = []
    for package in first:
        found = {package}
        waiting = [package]
        while waiting:
            for other in first.get(waiting.pop(), ()):
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        pulled += [(nodes[package], nodes[other]) for other in found if other in nodes]
    name = "debian-installs"
    summary = "packages, and all that their installation pulls in, by the first alternative"
    A = _graph(pulled, len(nodes))
    yield Made(name, _release(), pattern_arrays(A), [Matrix(name, FAMILY, kind, summary, "pattern")])


def _graph(pairs: list[tuple[int, int]], size: int) -> scipy.sparse.csr_array:
    place = np.array(pairs)
    return scipy.sparse.csr_array((np.ones(len(place), np.int8), tuple(place.T)), shape=(size, size))


def _contents() -> Iterator[tuple[str, str]]:
    """Yield paths, and the packages that have them."""
    for line in _lines("Contents-deb"):
        path, _, packages = line.rstrip("\n").rpartition(" ")
        yield path.rstrip(), packages


@source
def debian_files() -> Iterator[Made]:
    """Directories, the tree that they form, and the words in the names of files, by packages."""
    directories: dict[str, int] = {}
    packages: dict[str, int] = {}
    words: dict[str, int] = {}
    held: set[int] = set()
    said: set[int] = set()
    word = re.compile(r"[A-Za-z]{3,}|[0-9]{2,}")
    for path, owners in _contents():
        where, _, file = path.rpartition("/")
        directory = directories.setdefault(where, len(directories))
        spelt = [words.setdefault(w.lower(), len(words)) for w in word.findall(file)]
        for owner in owners.split(","):
            package = packages.setdefault(owner, len(packages))
            held.add(directory << 32 | package)
            said.update(w << 32 | package for w in spelt)
    packages_order = _ranks(packages)
    by_directory = _pairs(held, _ranks(directories), packages_order)
    name = "debian-directories"
    summary = "directories by the packages that have files in them"
    yield Made(
        name, _release(), pattern_arrays(by_directory), [Matrix(name, FAMILY, "bipartite graph", summary, "pattern")]
    )
    by_word = _pairs(said, _ranks(words), packages_order)
    by_word = by_word[np.diff(by_word.indptr) > 1]
    name = "debian-words"
    summary = "words in the names of files by the packages that have these files"
    kind = "term/document graph"
    yield Made(name, _release(), pattern_arrays(by_word), [Matrix(name, FAMILY, kind, summary, "pattern")])
    nodes = {path for where in directories for path in _above(where)}
    number = {path: place for place, path in enumerate(sorted(nodes, key=lambda path: path.split("/")))}
    edges = np.array([(number[path], number[path.rpartition("/")[0]]) for path in number if path])
    tree = scipy.sparse.csr_array((np.ones(len(edges), np.int8), tuple(edges.T)), shape=(len(number), len(number)))
    name = "debian-tree"
    summary = "directories and the directories that they are in"
    made = Matrix(name, FAMILY, "undirected graph", summary, "pattern symmetric")
    yield Made(name, _release(), pattern_arrays(tree + tree.T, symmetric=True), [made])


def _above(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield ""


def _ranks(names: dict[str, int]) -> np.ndarray:
    rank = np.empty(len(names), np.int64)
    rank[[names[name] for name in sorted(names)]] = np.arange(len(names))
    return rank


def _pairs(pairs: set[int], rows: np.ndarray, cols: np.ndarray) -> scipy.sparse.csr_array:
    both = np.fromiter(pairs, np.int64, len(pairs))
    place = rows[both >> 32], cols[both & 0xFFFFFFFF]
    return scipy.sparse.csr_array((np.ones(len(both), np.int8), place), shape=(len(rows), len(cols)))

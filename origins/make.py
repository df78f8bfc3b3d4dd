"""Makes the matrices of the corpus that are real by origin: `python origins/make.py FOLDER [SOURCE...]`.

Runs the programs (`pip install '.[origins]'`, and for some sources Debian's packages), stores what they made in
FOLDER, and notes it in ``FOLDER/notes``. A matrix that the index has already must come out with the same pattern
(``--accept`` takes another). ``--index`` then sorts the files of FOLDER into pieces that can be copied one by one, and
writes the index of the package.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import importlib
import pathlib
import sys
import time

import numpy as np
import scipy.sparse
from common import SOURCES, Made

from warploom.corpus import origins
from warploom.corpus.constructions._patterns import Pattern

HERE = pathlib.Path(__file__).parent
INDEX = pathlib.Path(origins.__file__).with_name("origins.csv")
PIECE_BYTES = 14 * 2**20
FIELDS = [field.name for field in dataclasses.fields(origins.Origin)]


def noted(made: Made, *, accept: bool) -> list[dict[str, object]]:
    """Return the rows of a file's matrices, after a comparison with the program's own and with the index."""
    rows = []
    for matrix in made.matrices:
        start = time.perf_counter()
        pattern = origins.make(made.arrays, matrix.recipe)
        sha256 = origins.digest(pattern)
        seconds = time.perf_counter() - start
        compared = ""
        if matrix.made is not None:
            if origins.digest(_pattern(matrix.made())) != sha256:
                raise SystemExit(f"{matrix.name}: '{matrix.recipe}' does not give the pattern that the program has")
            compared = ", as the program has it"
        name = f"origins/{matrix.name}"
        known = origins.index().get(name)
        if known is not None and known.sha256 != sha256 and not accept:
            raise SystemExit(f"{name} has another pattern than before; --accept takes it")
        rows.append(
            {"name": name, "family": matrix.family, "kind": matrix.kind, "program": made.program}
            | {"summary": matrix.summary, "file": made.file, "piece": "", "recipe": matrix.recipe}
            | {"rows": pattern.shape[0], "cols": pattern.shape[1], "nnz": len(pattern.indices), "sha256": sha256}
        )
        print(f"{name}: {pattern.shape} {len(pattern.indices):,} in {seconds:.1f} s{compared}", flush=True)
    return rows


def _pattern(A: scipy.sparse.sparray) -> Pattern:
    A = scipy.sparse.csr_array(A)
    A.sum_duplicates()
    return Pattern(A.shape, A.indptr, A.indices)


def run(folder: pathlib.Path, names: list[str], *, accept: bool) -> None:
    """Make the files of some sources."""
    notes = folder / "notes"
    notes.mkdir(parents=True, exist_ok=True)
    for name in names:
        for made in SOURCES[name]():
            rows = noted(made, accept=accept)
            path = folder / f"{made.file}{origins.SUFFIX}"
            for earlier in folder.glob(f"piece-*/{path.name}"):
                earlier.unlink()
            path.write_bytes(origins.pack(made.arrays))
            again = origins.unpack(path)
            if not all(np.array_equal(again[key], value) for key, value in made.arrays.items()):
                raise SystemExit(f"{path} does not hold what was stored")
            print(f"{path.name}: {path.stat().st_size / 2**20:.2f} MiB", flush=True)
            _write(notes / f"{made.file}.csv", rows)


def write_index(folder: pathlib.Path) -> None:
    """Sort the files into pieces, large ones first, and write the index."""
    rows = []
    for path in sorted((folder / "notes").glob("*.csv")):
        with path.open(newline="") as file:
            rows += list(csv.DictReader(file))
    paths = {path.name.removesuffix(origins.SUFFIX): path for path in folder.glob(f"**/*{origins.SUFFIX}")}
    sizes = {file: paths[file].stat().st_size for file in {row["file"] for row in rows}}
    pieces: list[int] = []
    chosen = {}
    for file in sorted(sizes, key=lambda file: (-sizes[file], file)):
        number = next((n for n, held in enumerate(pieces) if held + sizes[file] <= PIECE_BYTES), len(pieces))
        if number == len(pieces):
            pieces.append(0)
        pieces[number] += sizes[file]
        chosen[file] = f"piece-{number + 1}"
    for file, piece in chosen.items():
        (folder / piece).mkdir(exist_ok=True)
        paths[file].replace(folder / piece / paths[file].name)
    for row in rows:
        row["piece"] = chosen[row["file"]]
    _write(INDEX, sorted(rows, key=lambda row: row["name"]))
    for number, held in enumerate(pieces, 1):
        files = ", ".join(file for file, piece in chosen.items() if piece == f"piece-{number}")
        print(f"piece-{number}: {held / 2**20:.1f} MiB, {files}")


def _write(path: pathlib.Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--accept", action="store_true", help="take patterns that differ from those of the index")
    parser.add_argument(
        "--index", action="store_true", help="write the index of what the folder has, and do nothing else"
    )
    given = parser.parse_args()
    if given.index:
        write_index(given.folder)
        return
    for path in sorted(HERE.glob("[a-z]*.py")):
        if path.stem not in ("common", "make"):
            try:
                importlib.import_module(path.stem)
            except ImportError as error:
                print(f"without {path.name}: {error}", file=sys.stderr)
    unknown = [name for name in given.sources if name not in SOURCES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(SOURCES)}")
    run(given.folder, given.sources or list(SOURCES), accept=given.accept)


if __name__ == "__main__":
    main()

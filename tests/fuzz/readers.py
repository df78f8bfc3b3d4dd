"""Fuzzing of what reads files: changed files are read or refused, whatever the change.

    python tests/fuzz/readers.py --seconds 600 --seed 7 mtx npz

Files are changed at random, also inside their compression and their archives, where changes get further. A file has to
give a valid matrix (of Matrix Market files: the one that the obvious reader below finds), a readable profile, a plan
that multiplies as SciPy does, or the other measurements of its folder; or one of the errors of warploom, within limits
of time and memory. The work is done in a process of its own: what ends it is found, too, and the file stays in the
folder of results.

Kinds: mtx, mtx.gz, npz, tar.gz, safetensors (profiles), plan, parquet; all by default. `corpus/readers` holds files
that once were read wrongly; they are read first.
"""

from __future__ import annotations

import argparse
import collections
import functools
import gzip
import io
import json
import math
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib

import numpy as np
import scipy.sparse

import warploom
from warploom import _bfloat16, _plan_file, profiles
from warploom.errors import WarploomError

CORPUS = pathlib.Path(__file__).parent / "corpus"
SECONDS = 20  # that one file may take
MEMORY = 3 << 30  # bytes beyond what the process has when it starts


# ----- files to start from -----

_MATRICES = [
    "coordinate real general\n% a comment\n3 4 5\n1 1 1.5\n2 2 -3e5\n3 4 1D2\n3 1 7\n1 1 2\n",
    "coordinate integer symmetric\n3 3 3\n1 1 4\n2 1 5\n3 3 6\n",
    "coordinate real skew-symmetric\n3 3 2\n2 1 5.25\n3 1 -inf\n",
    "coordinate pattern general\n4 2 3\n1 1\n4 2\n2 2\n",
    "array real general\n2 3\n1\n2\n.5\n4.\n5e-1\nnan\n",
    "array integer symmetric\n2 2\n1\n2\n3\n",
    "array real general\n0 2\n",
    "coordinate real general\n2147483647 2147483647 1\n2147483647 1 1\n",
    "coordinate double general\r\n2 2 1\r\n1 2 3\r\n",
]
_TOKENS = [b"-1", b"0", b"1e999", b"1e-999", b"nan", b"-inf", b"2147483648", b"9223372036854775808", b"%", b"\0", b"\r"]
_TOKENS += [
    b"1d5",
    b"0x10",
    b"+",
    b".",
    b"\n\n",
    b"array",
    b"coordinate",
    b"pattern",
    b"symmetric",
    b" ",
    b"\t",
    b"1 1 1\n",
]


def matrix_market(source: random.Random) -> bytes:
    """Make a Matrix Market file, and change it or not."""
    return changed(b"%%MatrixMarket matrix " + source.choice(_MATRICES).encode(), source, _TOKENS)


def compressed(source: random.Random) -> bytes:
    """Change a text before or after it is compressed."""
    made = gzip.compress(matrix_market(source), source.choice([0, 6, 9]))
    return made if source.random() < 0.7 else changed(made, source)


def archive(source: random.Random) -> bytes:
    """Change members of an archive, their headers, or the archive."""
    members = [("A/A.mtx", matrix_market(source)), ("A/A_b.mtx", b"x" * source.randrange(700))]
    names = ["A/A.mtx", "./A/A.mtx", "/A/A.mtx", "../A/A.mtx", "A", "B/B.mtx", "A/A.mtx" * 20, "ä/ä.mtx"]
    members += [(source.choice(names), b"y" * source.randrange(600)) for _ in range(source.randrange(2))]
    source.shuffle(members)
    buffer = io.BytesIO()
    kind = source.choice([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as made:
        for name, content in members:
            header = tarfile.TarInfo(name)
            header.size = len(content)
            if source.random() < 0.2:
                header.type = source.choice([tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE])
                header.linkname = "A/A.mtx"
            if kind == tarfile.PAX_FORMAT and source.random() < 0.5:
                header.pax_headers = {
                    source.choice(["size", "GNU.sparse.size", "GNU.sparse.major", "path", "GNU.sparse.map", "mtime"]): (
                        source.choice(["1", "-1", str(2**62), "x", "0,0", "A/A.mtx", "1e400"])
                    )
                }
            made.addfile(header, io.BytesIO(content))
    content = bytearray(buffer.getvalue())
    if source.random() < 0.5:  # in a header, whose sum is made right again
        at = source.randrange(max(1, len(content) // 512)) * 512
        header = content[at : at + 512]
        header[source.randrange(345)] = source.choice([0, 32, 48, 55, 56, 120, 128, 255, source.randrange(256)])
        if source.random() < 0.3:
            header[124:136] = source.choice(
                [b"77777777777\0", b"\x80" + b"\xff" * 11, b"\x80" + b"\0" * 7 + b"\1\0\0\0", b"-1         \0"]
            )
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        content[at : at + 512] = header
    made = gzip.compress(bytes(content if source.random() < 0.7 else changed(bytes(content), source)))
    return made if source.random() < 0.8 else changed(made, source)


def npz(source: random.Random) -> bytes:
    """Change arrays of a matrix in one of SciPy's formats, their headers, or the archive of them."""
    A = scipy.sparse.random(6, 8, 0.4, random_state=source.randrange(2**31), dtype=source.choice(["f4", "f8"]))
    A = A.asformat(source.choice(["csr", "csc", "coo", "bsr", "dia"]))
    buffer = io.BytesIO()
    scipy.sparse.save_npz(buffer, A)
    buffer.seek(0)
    arrays = dict(np.load(buffer))
    name = source.choice(list(arrays))
    array = arrays[name]
    change = source.randrange(6)
    if change == 0 and array.size:
        array.reshape(-1)[source.randrange(array.size)] = (
            source.choice([0, -1, 1, 7, 100, 2**31 - 1, -(2**31)]) if array.dtype.kind == "i" else array.flat[0]
        )
    elif change == 1:
        kinds = ["i1", "u1", "i8", "u8", "f2", ">f8", ">i4", "c16", "b", "S3", "U2", "M8[s]", "f4,f4"]
        arrays[name] = np.zeros(array.shape, source.choice(kinds))
    elif change == 2:
        arrays[name] = array.reshape(-1)[: source.randrange(array.size + 1)]
    elif change == 3:
        arrays[name] = np.resize(array, source.choice([(), (0,), (1,), (2, 3), (1, 1, 1), (20,), (0, 5)]))
    elif change == 4:
        del arrays[name]
    made = io.BytesIO()
    damaged = source.choice(list(arrays)) if source.random() < 0.5 and arrays else None
    method = source.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
    with zipfile.ZipFile(made, "w", method) as directory:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, source.choice([(1, 0), (2, 0), (3, 0)]))
            content = member.getvalue()
            if name == damaged:
                content = changed(
                    content, source, [b"(", b")", b"'", b"-1", b"True", b"<f8", b"|O", b"1" * 40, b"((" * 9]
                )
            directory.writestr(f"{name}.npy", content)
    return made.getvalue() if source.random() < 0.7 else changed(made.getvalue(), source)


def profile(source: random.Random) -> bytes:
    """Change a profile, whose digest is made right again."""
    made = changed(
        source.choice(sorted((CORPUS / "profile").iterdir())).read_bytes(), source, [b'"', b"{", b"}", b"-1", b"1e400"]
    )
    try:
        length = struct.unpack("<Q", made[:8])[0]
        header = json.loads(made[8 : 8 + length])
        metadata = header.pop("__metadata__")
        kinds = {"F64": "<f8", "F32": "<f4", "I32": "<i4"}
        arrays = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            content = made[8 + length + begin : 8 + length + end]
            arrays[name] = np.frombuffer(content, kinds[entry["dtype"]]).reshape(entry["shape"])
        digest = profiles._safetensors.digest(metadata, arrays)
        return made.replace(b'"digest":"' + metadata["digest"].encode(), b'"digest":"' + digest.encode())
    except Exception:  # not readable any more
        return made


def plan(source: random.Random) -> bytes:
    """Change a saved plan: anywhere, or in its description, metadata or arrays, with a digest that is right."""
    whole = _saved_plan(source.choice(sorted(_PLANS)))
    if source.random() < 0.2:
        return changed(whole, source)
    metadata, arrays = _plan_file.decode(whole)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change = source.randrange(4)
    if change == 0:
        _change_array(arrays, source)
    elif change == 1:  # a value of the description, wherever it is
        description = json.loads(metadata["plan"])
        _change_value(description, source)
        metadata["plan"] = json.dumps(description)
    else:
        key = "plan" if change == 2 else source.choice(sorted(metadata))
        tokens = [b'"', b"{", b"}", b"[", b"-1", b"1e400", b"null", b"true", b"9" * 30, b"cuda", b"spmm", b"*"]
        metadata[key] = changed(metadata[key].encode(), source, tokens).decode(errors="replace")
    metadata["digest"] = _plan_file.digest(metadata, arrays)
    return _plan_file.encode(metadata, arrays)


def _change_array(arrays: dict[str, np.ndarray], source: random.Random) -> None:
    name = source.choice(sorted(arrays))
    array = arrays[name]
    change = source.randrange(4)
    if change == 0 and array.size:
        odd = [0, -1, 1, 5, 7, 2**31 - 1, -(2**31)] if array.dtype.kind == "i" else [math.nan, math.inf, 1e-40]
        array[source.randrange(array.size)] = source.choice(odd)
    elif change == 1:
        arrays[name] = array[: source.randrange(array.size + 1)].copy()
    elif change == 2:
        arrays[name] = array.astype(source.choice(["i4", "i8", "f2", "f4", "f8"]))
    else:
        arrays[name] = np.resize(array, source.choice([0, 1, 2 * array.size]))


def _change_value(inside: object, source: random.Random) -> None:
    """Replace a value in nested lists and dictionaries, take it out, or put one in."""
    while True:
        places = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        if not places:
            return
        place = source.choice(places)
        if isinstance(inside[place], dict | list) and source.random() < 0.7:
            inside = inside[place]
            continue
        if source.random() < 0.2:
            del inside[place]
            return
        odd = [None, True, 0, -1, 1, 4, 2**31, 2**70, 0.5, math.nan, "", "x", "cuda", "cpu", "*", "spmm", [], [1], {}]
        odd += [inside[other] for other in places] + ["spmm/none/csr/row_split", "spmv/lpt/sell/basic", "row"]
        inside[place] = source.choice(odd)
        return


_PLANS = {
    "vector": {"op": "spmv", "select": "spmv/none/cmrs/basic[height=4]"},
    "row": {"k": 4, "select": "spmm/lpt/csr/row_split"},
    "column": {"k": 4, "layout": "column", "select": "spmm/none/dcsr/c_stationary", "updatable": True},
    "operator": {"select": "spmv/none/csr/vector", "candidates": ["*/none/csr/row_split", "*/none/csr/vector"]},
}


@functools.cache
def _saved_plan(kind: str) -> bytes:
    A = scipy.sparse.random(9, 7, 0.3, format="csr", random_state=3, dtype=np.float32)
    made = warploom.plan(A, device="cpu", **_PLANS[kind])
    made @ np.ones(7, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        made.save(pathlib.Path(folder, "plan"))
        return pathlib.Path(folder, "plan").read_bytes()


def measurements(source: random.Random) -> bytes:
    """Change a file of measurements: anywhere, or in the facts of a sweep that it holds."""
    import pyarrow.parquet as pq

    whole = _part_of_a_store("damaged")
    if source.random() < 0.6:
        return changed(whole, source)
    table = pq.read_table(io.BytesIO(whole))
    facts = changed(
        table.schema.metadata[b"warploom"], source, [b'"', b"{", b"}", b"[", b"1e999", b"null", b"-1", b"9" * 30]
    )
    if source.random() < 0.3:
        table = table.select(source.sample(table.column_names, source.randrange(len(table.column_names) + 1)))
    made = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({b"warploom": facts}), made)
    return made.getvalue()


def changed(content: bytes, source: random.Random, tokens: list[bytes] | None = None) -> bytes:
    """Change some bytes."""
    made = bytearray(content)
    for _ in range(source.choice([0, 1, 1, 1, 2, 3, 6])):
        at = source.randrange(len(made) + 1)
        length = min(source.randrange(17), len(made) - at)
        change = source.randrange(7)
        if change == 0 and at < len(made):
            made[at] ^= 1 << source.randrange(8)
        elif change == 1 and at < len(made):
            made[at] = source.choice([0, 1, 127, 128, 255, source.randrange(256)])
        elif change == 2:
            del made[at : at + length]
        elif change == 3:
            made[at:at] = source.randbytes(length)
        elif change == 4:
            made[at:at] = made[source.randrange(len(made) + 1) :][:length]
        elif change == 5 and source.random() < 0.3:
            del made[at:]
        elif tokens:
            made[at : at + source.randrange(4)] = source.choice(tokens)
    return bytes(made)


# ----- what has to hold -----


class Wrong(Exception):
    """A file was read wrongly."""


def check(path: pathlib.Path, kind: str) -> str:
    """Read a file. Returns what came of it; raises anything but an error of warploom if that is wrong."""
    try:
        if kind == "parquet":
            return _check_measurements(path)
        if kind == "safetensors":
            for model in profiles.load(path).models.values():
                model.predict(np.full((3, len(model.inputs)), 0.5))
        elif kind == "plan":
            _check_plan(path)
        else:
            _check_matrix(warploom.load(path), path, kind)
    except WarploomError as error:
        if len(str(error)) > 2000:
            raise Wrong("the message is too long") from error
        return type(error).__name__
    return "read"


def _check_plan(path: pathlib.Path) -> None:
    """Compare products with SciPy's of the matrix that the file holds."""
    found = warploom.load_plan(path)
    _, arrays = _plan_file.read(path)
    nnz = int(arrays["indptr"][-1])  # the other arrays may be longer
    data = _bfloat16.cast(arrays["data"][:nnz], np.dtype(np.float64))
    A = scipy.sparse.csr_array((data, arrays["indices"][:nnz].copy(), arrays["indptr"].copy()), shape=found.shape)
    A.check_format(full_check=True)
    columns = () if isinstance(found, warploom.Operator) or found.op == "spmv" else (min(found.k, 50),)
    B = np.random.default_rng(0).integers(-4, 5, (A.shape[1], *columns)).astype(np.float64)
    C = _bfloat16.cast(np.asarray(found @ _bfloat16.cast(B, found.dtype)), np.dtype(np.float64))
    with np.errstate(all="ignore"):
        eps = 2.0**-7 if found.dtype.itemsize == 2 else float(np.finfo(found.dtype).eps)
        bound = eps * (abs(A) @ abs(B)) * (A.shape[1] + 4)
        expected = A @ B
        same = (abs(C - expected) <= bound) | ~np.isfinite(bound) | ~np.isfinite(C)
    if C.shape != expected.shape or not same.all():
        raise Wrong("another product than that of the matrix in the file")


def _check_matrix(A: scipy.sparse.csr_array, path: pathlib.Path, kind: str) -> None:
    A.check_format(full_check=True)
    if A.dtype not in (np.float16, np.float32, np.float64):
        raise Wrong(f"values of {A.dtype}")
    if kind in ("npz", "tar.gz"):
        return
    text = path.read_bytes()
    if kind == "mtx.gz":
        text = gzip.decompress(text)
    shape, entries = obvious(text)
    if A.shape != shape:
        raise Wrong(f"shape {A.shape} in place of {shape}")
    found = collections.defaultdict(float)
    coo = A.tocoo()
    for row, column, value in zip(coo.row.tolist(), coo.col.tolist(), coo.data.tolist(), strict=True):
        found[row, column] += value
    if A.nnz > len(entries):
        raise Wrong(f"{A.nnz} entries in place of {len(entries)}")
    for place in found.keys() | entries.keys():
        a, b = found.get(place, 0.0), entries.get(place, 0.0)
        if not (a == b or (a != a and b != b) or abs(a - b) <= 1e-12 * abs(b)):
            raise Wrong(f"{a} in place of {b} at {place}")


def obvious(text: bytes) -> tuple[tuple[int, int], dict[tuple[int, int], float]]:
    """Read a Matrix Market file line by line, in the obvious way."""
    lines = text.split(b"\n")
    _, _, layout, field, symmetry = lines[0].lower().split()
    at = 1
    while lines[at].startswith(b"%") or not lines[at].strip():
        at += 1
    sizes = [int(word) for word in lines[at].split()]
    words = [line.split() for line in lines[at + 1 :] if line.strip()]
    rows, columns = sizes[:2]
    entries: dict[tuple[int, int], float] = collections.defaultdict(float)
    mirrored = {b"symmetric": 1.0, b"skew-symmetric": -1.0}.get(symmetry)

    def add(row: int, column: int, value: float) -> None:
        entries[row, column] += value
        if mirrored is not None and row != column:
            entries[column, row] += mirrored * value

    def number(word: bytes) -> float:
        return float(word.lower().replace(b"d", b"e"))

    if layout == b"coordinate":
        if len(words) != sizes[2]:
            raise Wrong(f"{len(words)} lines of entries are read as {sizes[2]}")
        for line in words:
            row, column = int(line[0]) - 1, int(line[1]) - 1
            if not (0 <= row < rows and 0 <= column < columns):
                raise Wrong(f"an entry outside the matrix is read: {line}")
            add(row, column, 1.0 if field == b"pattern" else number(line[2]))
        return (rows, columns), entries
    first = {b"symmetric": 0, b"skew-symmetric": 1}.get(symmetry)
    places = [(i, j) for j in range(columns) for i in range(0 if first is None else j + first, rows)]
    if len(words) != len(places):
        raise Wrong(f"{len(words)} values are read as {len(places)}")
    for (row, column), line in zip(places, words, strict=True):
        add(row, column, number(line[0]))
    return (rows, columns), entries


@functools.cache
def _part_of_a_store(name: str) -> bytes:
    """Return a file of a sweep with one measurement of a matrix of that name."""
    from warploom.bench import schema
    from warploom.bench.store import Store

    with tempfile.TemporaryDirectory() as folder:
        matrix = {c.name: _filler(c) for c in schema.matrix_columns()} | {"matrix": name}
        row = {c.name: _filler(c) for c in schema.MEASUREMENTS if c.name != "environment"}
        row |= {"matrix": name, "status": schema.STATUSES[0], "cache": schema.CACHES[0]}
        return Store(folder).append(matrix, [row], {"gpu": "x"}).read_bytes()


def _filler(column) -> object:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        return "x"
    return 1 if pa.types.is_integer(column.type) else 1.0


def _check_measurements(path: pathlib.Path) -> str:
    from warploom.bench.measurements import Measurements
    from warploom.bench.store import Store

    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        parts = pathlib.Path(folder, "parts")
        parts.mkdir()
        shutil.copy(path, parts / "0-damaged.parquet")
        parts.joinpath("1-good.parquet").write_bytes(_part_of_a_store("good"))
        done = Store(folder).done()
        if not any(matrix == "good" for matrix, _ in done):
            raise Wrong("the other file is not found")
        loaded = Measurements.load(folder)
        if "good" not in set(loaded.matrices["matrix"]):
            raise Wrong("the measurements of the other file are gone")
        return "refused" if loaded.skipped else "read"


KINDS = {
    "mtx": matrix_market,
    "mtx.gz": compressed,
    "npz": npz,
    "tar.gz": archive,
    "safetensors": profile,
    "plan": plan,
    "parquet": measurements,
}


# ----- many of them -----


def kind_of(path: pathlib.Path) -> str:
    """Return the kind of a file by its name."""
    return next(kind for kind in sorted(KINDS, key=len, reverse=True) if path.name.endswith(f".{kind}"))


def work(kinds: list[str], results: pathlib.Path, seed: int, runs: int | None, seconds: float | None) -> None:
    """Read files of the corpus and changed ones until there were enough; for a process of its own."""
    warnings.simplefilter("ignore")
    _part_of_a_store("good")
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, _too_long)
    counts: collections.Counter[str] = collections.Counter()
    for path in sorted((CORPUS / "readers").glob("*")):
        if kind_of(path) in kinds:
            current = results / f"current.{kind_of(path)}"
            shutil.copy(path, current)
            _try(current, kind_of(path), f"corpus-{path.name}", counts)
    source = random.Random(seed)
    start = time.monotonic()
    number = 0
    while (runs is None or number < runs) and (seconds is None or time.monotonic() - start < seconds):
        kind = kinds[number % len(kinds)]
        current = results / f"current.{kind}"
        current.write_bytes(KINDS[kind](source))
        _try(current, kind, f"{seed}-{number}", counts)
        number += 1
    print(
        f"{number} files in {time.monotonic() - start:.1f} s: "
        + ", ".join(f"{n} {w}" for w, n in sorted(counts.items()))
    )


def _try(current: pathlib.Path, kind: str, name: str, counts: collections.Counter[str]) -> None:
    signal.alarm(SECONDS)
    try:
        counts[f"{kind} {check(current, kind)}"] += 1
    except BaseException as error:
        signal.alarm(0)
        if isinstance(error, KeyboardInterrupt):
            raise
        kept = current.with_name(f"found-{name}.{kind}")
        shutil.copy(current, kept)
        counts["found"] += 1
        print(f"FOUND {kept}: {type(error).__name__}: {str(error)[:300]}")
        traceback.print_exc(limit=-3)
    finally:
        signal.alarm(0)


def _too_long(*_: object) -> None:
    raise Wrong(f"takes more than {SECONDS} seconds")


def _address_space() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main() -> int:
    """Run the work in a process of its own. Returns whether anything was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=list(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("fuzz-results"))
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if unknown := set(given.kinds) - set(KINDS):
        parser.error(f"unknown: {', '.join(unknown)}")
    if given.runs is None and given.seconds is None:
        given.runs = 1000
    given.results.mkdir(parents=True, exist_ok=True)
    if given.in_this_process:
        work(given.kinds, given.results, given.seed, given.runs, given.seconds)
        return 0
    command = [sys.executable, *sys.argv, "--in-this-process"]
    outcome = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONFAULTHANDLER": "1"})
    print(outcome.stdout, end="")
    if outcome.returncode != 0:
        latest = max(given.results.glob("current.*"), key=lambda path: path.stat().st_mtime_ns, default=None)
        if latest is None:
            return outcome.returncode
        kept = latest.with_name(f"found-crash-{zlib.crc32(latest.read_bytes()):08x}.{kind_of(latest)}")
        shutil.copy(latest, kept)
        print(f"FOUND {kept}: the process ended with {outcome.returncode}")
    for path in given.results.glob("current.*"):
        path.unlink()
    return int("FOUND" in outcome.stdout or outcome.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())

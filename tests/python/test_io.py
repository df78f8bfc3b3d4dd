"""Files: what is intact gives what SciPy gives, what is not is named."""

import contextlib
import gzip
import io as streams
import pickle
import re
import tarfile
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from warploom import errors, io

BANNER = "%%MatrixMarket matrix coordinate real general\n"


@pytest.fixture
def A():
    matrix = sp.random_array((30, 20), density=0.1, rng=np.random.default_rng(1), format="csr")
    assert matrix.nnz == 60
    return matrix


@pytest.fixture
def write(tmp_path):
    def write(content, name="A.mtx"):
        path = tmp_path / name
        data = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


def refused(path, words, error=errors.FileFormatError):
    with pytest.raises(error, match=words) as caught:
        io.load(path)
    assert str(path) in str(caught.value)
    assert caught.value.argument == "path"
    return caught.value


# ----- intact -----


def test_matrix_market(A, tmp_path):
    scipy.io.mmwrite(tmp_path / "A.mtx", A, precision=17)
    loaded = io.load(tmp_path / "A.mtx")
    assert isinstance(loaded, sp.csr_array)
    assert loaded.dtype == np.float64
    np.testing.assert_array_equal(loaded.toarray(), A.toarray())


@pytest.mark.parametrize("name", ["A.mtx.gz", "A.MTX.GZ", "a.b.mtx.gz"])
def test_compressed_matrix_market(A, tmp_path, name):
    scipy.io.mmwrite(tmp_path / "A.mtx", A, precision=17)
    (tmp_path / name).write_bytes(gzip.compress((tmp_path / "A.mtx").read_bytes()))
    np.testing.assert_array_equal(io.load(str(tmp_path / name)).toarray(), A.toarray())


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("compressed", [True, False])
def test_npz_of_every_format(A, tmp_path, format, container, compressed):
    sp.save_npz(tmp_path / "A.npz", container(A).asformat(format), compressed=compressed)
    np.testing.assert_array_equal(io.load(tmp_path / "A.npz").toarray(), A.toarray())


@pytest.mark.parametrize(("dtype", "loaded"), [("f4", "f4"), ("f8", "f8"), ("i4", "f8"), ("?", "f8"), (">f4", "f4")])
def test_npz_value_types(tmp_path, dtype, loaded):
    np.savez(
        tmp_path / "A.npz",
        format="csr",
        shape=(1, 3),
        indptr=[0, 2],
        indices=[0, 2],
        data=np.ones(2, dtype=dtype),
    )
    assert io.load(tmp_path / "A.npz").dtype == np.dtype(loaded)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BANNER + "% a comment\n\n2 3 2\n1 1 1.5\n2 3 -2e-3\n", [[1.5, 0, 0], [0, 0, -2e-3]]),
        (BANNER + "2 3 1\n2 1 nan", [[0, 0, 0], [np.nan, 0, 0]]),
        (BANNER + "2 3 1\n2 1 5 ", [[0, 0, 0], [5, 0, 0]]),
        (BANNER + "2 3 1\n2 1 5\r", [[0, 0, 0], [5, 0, 0]]),
        (BANNER.replace("real", "pattern") + "2 3 1\n2 1 ", [[0, 0, 0], [1, 0, 0]]),
        ("%%MatrixMarket matrix array integer symmetric\n2 2\n1\n2\n3 ", [[1, 2], [2, 3]]),
        (BANNER + "2 3 2\r\n1 1 1\r\n1 1 2\r\n", [[3, 0, 0], [0, 0, 0]]),
        (BANNER + "0 3 0\n", np.zeros((0, 3))),
        (BANNER.upper() + "1 1 1\n1 1 -Inf\n", [[-np.inf]]),
        (BANNER.replace("real", "pattern") + "2 2 2\n1 2\n2 1\n", [[0, 1], [1, 0]]),
        (BANNER.replace("real", "integer") + "1 2 2\n1 1 7\n1 2 99999999999999999999\n", [[7, 1e20]]),
        (BANNER.replace("real", "integer") + "1 1 1\n1 1 7.5\n", [[7.5]]),
        (BANNER.replace("general", "symmetric") + "2 2 2\n2 1 5\n2 2 1\n", [[0, 5], [5, 1]]),
        (BANNER.replace("general", "skew-symmetric") + "2 2 1\n2 1 5\n", [[0, -5], [5, 0]]),
        ("%%MatrixMarket matrix array real general\n2 2\n1\n0\n3\n4\n", [[1, 3], [0, 4]]),
        ("%%MatrixMarket matrix array integer symmetric\n2 2\n1\n2\n3", [[1, 2], [2, 3]]),
        (BANNER + "1 4 4\n1 1 1d5\n1 2 -1.5D+02\n1 3 .5d-1\n1 4 2.D0\n", [[1e5, -150, 0.05, 2]]),
        ("%%MatrixMarket matrix array real general\n1 3\n1d5\n INFINITY\n\n5.\n", [[1e5, np.inf, 5]]),
        ("%%MatrixMarket matrix array real general\n0 2\n", np.zeros((0, 2))),
        ("%%MatrixMarket matrix array real general\n% comment\n2 0\n\n \n", np.zeros((2, 0))),
        ("%%MatrixMarket matrix array integer symmetric\n0 0", np.zeros((0, 0))),
        ("%%MatrixMarket matrix array real skew-symmetric\n1 1\n", np.zeros((1, 1))),
    ],
)
@pytest.mark.parametrize("name", ["A.mtx", "A.mtx.gz"])
def test_kinds_of_matrix_market(write, text, expected, name):
    np.testing.assert_array_equal(io.load(write(text, name)).toarray(), expected)


# ----- not intact -----


@pytest.mark.parametrize("ending", ["5e-", "5e", "5e+", "-", "5d", "i", "."])
def test_a_number_that_is_not_complete_at_the_end_of_the_file(write, ending):
    """SciPy's parser must be given the end of the line all the same, or it runs past its buffer."""
    refused(write(f"%%MatrixMarket matrix array real general\n2 3\n1\n2\n.5\n4.\n{ending}"), "truncated|Line 7")
    refused(write(f"%%MatrixMarket matrix array real general\n2 3\n1\n2\n.5\n4.0000\n{ending}"), "Line 7")
    refused(write(f"{BANNER}3 4 2\n1 1 1\n2 2 {ending}"), "Line 4")


def test_missing_file(tmp_path):
    for name in ("A.mtx", "A.mtx.gz", "A.npz"):
        with pytest.raises(FileNotFoundError, match="No such file"):
            io.load(tmp_path / name)


def test_names_of_matrices_are_not_those_of_files():
    for name in ("rmat(scale=5)", "HB/dwt_361", "A.unknown"):
        with pytest.raises(FileNotFoundError, match=r"warploom\.corpus\.load") as caught:
            io.load(name)
        assert caught.value.filename == name


def test_folder(tmp_path):
    with pytest.raises(IsADirectoryError):
        io.load(tmp_path)


@pytest.mark.parametrize("name", ["A.txt", "A", "A.mtx.bz2", "A.npy", "A.gz"])
def test_unknown_ending(write, name):
    refused(write("", name), r"one of \.mtx, \.mtx\.gz, \.npz")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("\n" + BANNER, "empty"),
        ("1 2 3\n", "not a Matrix Market file"),
        ("%%MatrixMarket matrix\n1 1 0\n", "four more words"),
        (BANNER.replace("matrix ", "matrix\x1d") + "1 1 0\n", "four more words"),
        (BANNER.replace("matrix coord", "vector coord") + "3 1\n", "holds a vector"),
        (BANNER.replace("coordinate", "list") + "3 3 1\n", "'list' in the first line"),
        (BANNER.replace("real", "quaternion") + "3 3 1\n", "'quaternion'"),
        (BANNER.replace("general", "lower") + "3 3 1\n", "'lower'"),
        ("%%MatrixMarket matrix array pattern general\n1 1\n", "cannot be a pattern"),
        (BANNER, "ends before the sizes"),
        (BANNER + "% only comments\n", "ends before the sizes"),
        (BANNER + "3 4\n", "sizes is missing or wrong: '3 4'"),
        (BANNER + "-3 4 1\n1 1 1\n", "sizes is missing or wrong"),
        (BANNER + "3 4 x\n1 1 1\n", "sizes is missing or wrong"),
        (BANNER + "3 4 3\n1 1 1\n", "truncated"),
        (BANNER + "3 4 2\n1 1 1.0000000000\n", "Truncated"),
        (BANNER + "3 4 2\n1 1 1.00000\n2 3", "Line 4"),
        (BANNER + "3 4 1\n1 1 1\n2 2 2\n", "too long"),
        (BANNER + "3 4 1\n0 1 1\n", "out of bounds"),
        (BANNER + "3 4 1\n4 1 1\n", "out of bounds"),
        (BANNER + "3 4 1\n3 5 1\n", "out of bounds"),
        (BANNER + "3 4 1\n-1 1 1\n", "out of bounds"),
        (BANNER + "3 4 1\n4294967297 1 1\n", "out of range"),
        (BANNER + "3 4 1\n1 1 one\n", "Line 3"),
        (BANNER + "3 4 1\n1.5 1 1\n", "Line 3"),
        (BANNER + "3 4 1\n1 1   \n", "Line 3"),
        (BANNER + "3 4 1\n1 1 1\x005\n", "zero byte"),
        (BANNER + "3 4 1\n1 1\x00 5\n", "zero byte"),
        (BANNER + "3 4 1\n1 1 5\n\x00", "zero byte"),
        (BANNER + "3 4 1\n% a comment\x00\n1 1 5\n", "zero byte"),
        (BANNER.replace("real", "pattern") + "3 4 1\n1 1\x00\n", "zero byte"),
        ("%%MatrixMarket matrix array real general\n2 1\n1\x002\n3\n", "zero byte"),
        (BANNER.replace("general", "symmetric") + "3 4 0\n", "symmetric but has 3 rows and 4 columns"),
        ("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n", "truncated|Truncated"),
        ("%%MatrixMarket matrix array real symmetric\n2 2\n\n2\n3\n", "announces 3 entries and holds 2"),
        ("%%MatrixMarket matrix array real symmetric\n3 3\n" + "\n" * 20, "announces 6 entries and holds 0"),
        ("%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2.000\n", "announces 3 entries and holds 2"),
        ("%%MatrixMarket matrix array real general\n200000 200000\n1\n", "truncated"),
        (BANNER + "1000000000 1000000000 1000000000000\n1 1 1\n", "truncated"),
        (BANNER + "1 1 " + "9" * 5000 + "\n1 1 1\n", "truncated"),
    ],
)
@pytest.mark.parametrize("name", ["A.mtx", "A.mtx.gz"])
def test_malformed_matrix_market(write, text, words, name):
    refused(write(text, name), words)


@pytest.mark.parametrize("name", ["A.mtx", "A.mtx.gz"])
@pytest.mark.parametrize(
    "value", ["1,5", "0x10", "1.5.5", "1e", "1d+", "1+105", "1 2", "1.5 % why", "nan(1)", "infx", "1\v", "1_0", "--1"]
)
def test_what_follows_a_number_is_not_passed_over(write, value, name):
    expected = re.escape(repr(f"3 2 {value}".strip()))
    refused(write(BANNER + f"% a comment\n\n3 4 3\n1 1 1\n\n3 2 {value}\n2 2 2\n", name), f"Line 7: .*{expected}")
    array = "%%MatrixMarket matrix array real general\n2 1\n"
    refused(write(array + f"1\n{value}\n", name), "Line 4: expected a value, got")
    pattern = BANNER.replace("real", "pattern")
    refused(write(pattern + f"3 4 1\n1 {value}\n", name), "Line 3: expected a row and a column, got")


def test_the_line_is_counted_over_the_whole_file(write):
    lines = [f"{i % 9 + 1} {i % 7 + 1} {i}.25\n" for i in range(60_000)]
    assert len("".join(lines)) > 2 * 2**18
    for bad in (0, 1, 20_000, 30_000, 59_999):
        text = BANNER + "% one\n% two\n9 9 60000\n" + "".join([*lines[:bad], "1 1 1;\n", *lines[bad + 1 :]])
        refused(write(text), f"Line {bad + 5}: expected a row, a column and a value, got '1 1 1;'")
    text = BANNER + "% one\n9 9 60000\n" + "".join([*lines[:50_000], "10 1 1\n", *lines[50_001:]])
    refused(write(text), "Line 50004: .*out of bounds")


def test_entries_of_an_array_without_any(write):
    refused(write("%%MatrixMarket matrix array real general\n0 2\n\n1\n"), "Line 4: too many entries")
    refused(write("%%MatrixMarket matrix array real skew-symmetric\n1 1\n1\n"), "Line 3: too many entries")


@given(st.integers(0, 10_000), st.integers(0, 255))
@settings(deadline=None, max_examples=150)
def test_damaged_matrix_market_gives_a_matrix_or_an_error(tmp_path_factory, position, byte):
    path = tmp_path_factory.getbasetemp() / "damaged.mtx"
    content = bytearray((BANNER + "20 20 20\n" + "".join(f"{i} {i} {i}.5e0\n" for i in range(1, 21))).encode())
    content[position % len(content)] = byte
    path.write_bytes(content)
    with contextlib.suppress(errors.FileFormatError, errors.DtypeError, errors.IndexOverflowError):
        io.load(path)


def test_complex_values(write, tmp_path):
    refused(write(BANNER.replace("real", "complex") + "1 1 1\n1 1 1 2\n"), "complex", errors.DtypeError)
    refused(write(BANNER.replace("general", "hermitian") + "1 1 1\n1 1 1\n"), "complex", errors.DtypeError)
    sp.save_npz(tmp_path / "A.npz", sp.csr_array(np.eye(3) * 1j))
    refused(tmp_path / "A.npz", "complex128", errors.DtypeError)


def test_sizes_beyond_the_index_type(write, tmp_path):
    refused(write(BANNER + "2147483648 4 0\n"), "2147483648 rows", errors.IndexOverflowError)
    refused(write(BANNER + "4 99999999999999999999999 0\n"), "columns", errors.IndexOverflowError)
    np.savez(tmp_path / "A.npz", format="csr", shape=(2**40, 1), indptr=[0], indices=[0], data=[1.0])
    refused(tmp_path / "A.npz", "1099511627776 rows", errors.IndexOverflowError)


def test_matrix_market_under_the_wrong_name(write):
    compressed = gzip.compress((BANNER + "1 1 1\n1 1 1\n").encode())
    refused(write(compressed, "A.mtx"), r"should end in \.mtx\.gz")
    path = write(b"", "B.mtx.gz")
    path.write_text(BANNER + "1 1 1\n1 1 1\n")
    refused(path, "not an intact gzip file")


def test_every_truncation_of_a_compressed_file_is_found(A, tmp_path):
    scipy.io.mmwrite(tmp_path / "A.mtx", A)
    whole = gzip.compress((tmp_path / "A.mtx").read_bytes())
    path = tmp_path / "B.mtx.gz"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refused(path, "intact gzip file|empty")


def test_damaged_compressed_file(A, tmp_path):
    scipy.io.mmwrite(tmp_path / "A.mtx", A)
    content = bytearray(gzip.compress((tmp_path / "A.mtx").read_bytes()))
    content[len(content) // 2] ^= 0xFF
    path = tmp_path / "B.mtx.gz"
    path.write_bytes(content)
    refused(path, "intact gzip file")


@given(st.integers(0, 10_000), st.booleans())
@settings(deadline=None, max_examples=60)
def test_truncated_npz(tmp_path_factory, length, compressed):
    path = tmp_path_factory.getbasetemp() / "truncated.npz"
    sp.save_npz(path, sp.eye_array(40, format="csr"), compressed=compressed)
    path.write_bytes(path.read_bytes()[:length] if length < path.stat().st_size else b"")
    refused(path, "npz file")


@given(st.integers(0, 10_000), st.integers(1, 255))
@settings(deadline=None, max_examples=150)
def test_damaged_npz_gives_a_matrix_or_an_error(tmp_path_factory, position, flip):
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    sp.save_npz(path, sp.eye_array(40, format="csr"), compressed=False)
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= flip
    path.write_bytes(content)
    with contextlib.suppress(errors.FileFormatError, errors.DtypeError):
        io.load(path)


def test_npz_that_is_something_else(write, tmp_path):
    refused(write("", "A.npz"), "zip archives")
    refused(write("hello", "A.npz"), "A.npz")
    np.save(tmp_path / "A.npy", np.eye(3))
    (tmp_path / "A.npy").rename(tmp_path / "A.npz")
    refused(tmp_path / "A.npz", "zip archives")
    np.savez(tmp_path / "A.npz", x=np.eye(3))
    refused(tmp_path / "A.npz", "no array 'format'")
    with zipfile.ZipFile(tmp_path / "A.npz", "w") as archive:
        archive.writestr("format", "csr")
    refused(tmp_path / "A.npz", "A.npz")


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("the file was unpickled",)


def test_nothing_is_unpickled(write, tmp_path):
    refused(write(pickle.dumps(Bomb()), "A.npz"), "zip archives")
    objects = np.array([Bomb()], dtype=object)
    np.savez(tmp_path / "A.npz", format="csr", shape=(1, 1), indptr=[0, 1], indices=[0], data=objects)
    refused(tmp_path / "A.npz", "'data' is damaged")


GOOD = {"format": "csr", "shape": (2, 3), "indptr": [0, 1, 2], "indices": [0, 2], "data": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("change", "words", "position"),
    [
        ({"format": "lil"}, "one of csr, csc, bsr, coo, dia, got 'lil'", None),
        ({"format": ["csr", "csr"]}, "its format", None),
        ({"shape": (2.0, 3.0)}, "its shape", None),
        ({"shape": (-2, 3)}, "its shape", None),
        ({"shape": (2, 3, 4)}, "two dimensions", None),
        ({"shape": 6}, "its shape", None),
        ({"indptr": [0, 1]}, "got 2", None),
        ({"indptr": [0, 2, 1]}, "must not decrease", 2),
        ({"indptr": [0, 1, 3]}, "only 2 indices", 2),
        ({"indices": [0, 3]}, r"indices\[1\] = 3", 1),
        ({"indices": [-1, 0]}, r"indices\[0\] = -1", 0),
        ({"indices": [0, 2**32]}, r"indices\[1\] = 4294967296", 1),
        ({"data": [1.0]}, "nnz = 2 entries, got 1", 1),
        ({"data": [[1.0, 2.0]]}, "one-dimensional", None),
        ({"format": "csc"}, "indptr", None),
        ({"format": "coo"}, "no array 'row'", None),
        ({"format": "coo", "row": [0, 2], "col": [0, 2]}, r"row\[1\] = 2", 1),
    ],
)
def test_npz_that_holds_no_matrix(tmp_path, change, words, position):
    np.savez(tmp_path / "A.npz", **(GOOD | change))
    assert refused(tmp_path / "A.npz", words).position == position


@pytest.mark.parametrize("change", [{"indices": [0.0, 2.0]}, {"data": np.array([1, 2], np.complex64)}])
def test_npz_with_unsupported_types(tmp_path, change):
    np.savez(tmp_path / "A.npz", **(GOOD | change))
    refused(tmp_path / "A.npz", "integers|complex64", errors.DtypeError)


@pytest.mark.parametrize("missing", ["shape", "indptr", "indices", "data"])
def test_npz_without_one_of_its_arrays(tmp_path, missing):
    np.savez(tmp_path / "A.npz", **{name: array for name, array in GOOD.items() if name != missing})
    refused(tmp_path / "A.npz", f"no array '{missing}'")


# ----- archives -----

MATRIX = BANNER + "2 3 2\n1 1 1.5\n2 3 -2\n"


def packed(*members):
    """A .tar.gz of (name, text or type of member) pairs."""
    buffer = streams.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            data = content.encode() if isinstance(content, str) else b""
            member.size = len(data)
            if isinstance(content, bytes):
                member.type, member.linkname = content, "/etc/passwd"
            archive.addfile(member, streams.BytesIO(data))
    return buffer.getvalue()


@pytest.fixture
def archive(tmp_path):
    def archive(*members, name="A.tar.gz"):
        path = tmp_path / name
        path.write_bytes(packed(*members))
        return path

    return archive


@pytest.mark.parametrize(
    "members",
    [
        [("A/A.mtx", MATRIX)],
        [("./A/A.mtx", MATRIX)],
        [("A", tarfile.DIRTYPE), ("A/A.mtx", MATRIX)],
        [("A/A_b.mtx", "rubbish"), ("A/README.txt", "hello"), ("A/A.mtx", MATRIX), ("A/A_coord.mtx", "rubbish")],
        [("../../A.mtx", MATRIX), ("/A/A.mtx", MATRIX), ("A/A.mtx", MATRIX)],
        [("B/B.mtx", tarfile.SYMTYPE), ("C/C.mtx", tarfile.LNKTYPE), ("A/A.mtx", MATRIX)],
    ],
)
def test_archive(archive, members):
    for name in ("A.tar.gz", "Group__renamed.TAR.GZ"):
        np.testing.assert_array_equal(io.load(archive(*members, name=name)).toarray(), [[1.5, 0, 0], [0, 0, -2]])


def test_archive_equals_its_matrix(A, archive, tmp_path):
    text = streams.BytesIO()
    scipy.io.mmwrite(text, A, precision=17)
    path = archive(("A/A.mtx", text.getvalue().decode()), ("A/A_x.mtx", "%" * 100_000))
    np.testing.assert_array_equal(io.load(path).toarray(), A.toarray())
    assert io.archive_sizes(path) == (30, 20, 60)
    assert sorted(tmp_path.iterdir()) == [path], "nothing is unpacked"


def test_sizes_in_an_archive(archive):
    symmetric = MATRIX.replace("general", "symmetric").replace("2 3 2", "3 3 2")
    assert io.archive_sizes(archive(("A/A.mtx", symmetric))) == (3, 3, 2)
    complex_values = MATRIX.replace("real", "complex")
    assert io.archive_sizes(archive(("A/A.mtx", complex_values))) == (2, 3, 2)
    refused(archive(("A/A.mtx", complex_values)), "complex", errors.DtypeError)
    dense = "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n"
    assert io.archive_sizes(archive(("A/A.mtx", dense))) == (2, 2)
    with pytest.raises(errors.FileFormatError, match="holds no NAME"):
        io.archive_sizes(archive())


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([], "holds no NAME/NAME.mtx"),
        ([("A.mtx", MATRIX)], "holds no NAME/NAME.mtx, only A.mtx"),
        ([("A/B.mtx", MATRIX)], "only A/B.mtx"),
        ([("B/A/A.mtx", MATRIX)], "only B/A/A.mtx"),
        ([("../A/A.mtx", MATRIX)], "only ../A/A.mtx"),
        ([("../...mtx", MATRIX)], "only ../...mtx"),
        ([("/A.mtx", MATRIX)], "no NAME/NAME.mtx"),
        ([("A/A.mtx", tarfile.SYMTYPE)], "no NAME/NAME.mtx"),
        ([("A/A.mtx", tarfile.LNKTYPE)], "no NAME/NAME.mtx"),
        ([("A/A.mtx", tarfile.FIFOTYPE)], "no NAME/NAME.mtx"),
        ([("A/A.mtx", tarfile.DIRTYPE)], "no NAME/NAME.mtx"),
        ([("A/A.mtx", MATRIX), ("B/B.mtx", MATRIX)], "several matrices: A/A.mtx, B/B.mtx"),
        ([("A/A.mtx", MATRIX), ("A/A.mtx", MATRIX)], "several matrices"),
        ([("A/A.mtx", "rubbish\n")], "not a Matrix Market file"),
        ([("A/A.mtx", "")], "is empty"),
        ([("A/A.mtx", MATRIX.replace("2 3 2", "2 3 20"))], "truncated"),
        ([("A/A.mtx", MATRIX.replace("1 1", "9 1"))], "out of bounds"),
    ],
)
def test_archive_without_a_matrix(archive, members, words):
    refused(archive(*members), words)


@pytest.mark.parametrize("bomb", ["A/A.mtx", "A/A_b.mtx"])
def test_archive_that_expands_without_end(archive, bomb):
    path = archive(*{"A/A.mtx": MATRIX, bomb: MATRIX + "\n" * 50_000_000}.items())
    assert path.stat().st_size < 200_000
    refused(path, "expands to more than 200 times its size")


def header(name, size, type=tarfile.REGTYPE):
    member = tarfile.TarInfo(name)
    member.size, member.type = size, type
    return member.tobuf(tarfile.GNU_FORMAT)


def member(name, content, type=tarfile.REGTYPE):
    return header(name, len(content), type) + content.ljust(-(-len(content) // 512) * 512, b"\0")


def records(**values):
    """A header in which attributes of the next member are overruled."""
    text = b""
    for name, value in values.items():
        record = f" {name}={value}\n".encode()
        length = next(n for n in range(1000) if len(str(n)) + len(record) == n)
        text += str(length).encode() + record
    return member("records", text, tarfile.XHDTYPE)


INTACT = member("A/A.mtx", MATRIX.encode())
HUGE = 2**62


@pytest.mark.parametrize(
    "content",
    [
        header("A/A.mtx", HUGE),
        INTACT + header("A/B", HUGE),
        records(size=HUGE) + INTACT,
        header("A/A.mtx", HUGE, tarfile.GNUTYPE_SPARSE) + INTACT,
        header("A/A.mtx", HUGE, tarfile.GNUTYPE_LONGNAME) + INTACT,
    ],
)
def test_member_that_claims_more_than_there_is(tmp_path, content):
    """Not even a small part of 2**62 bytes can be passed over in the time that a test may take."""
    path = tmp_path / "A.tar.gz"
    path.write_bytes(gzip.compress(content))
    refused(path, "expands to more than 200 times its size|not an intact .tar.gz")


@pytest.mark.parametrize(
    "content",
    [
        member("././@LongLink", b"x" * 10, tarfile.GNUTYPE_LONGNAME) * 3000 + INTACT,
        records(comment="x") * 3000 + INTACT,
        records(**{"GNU.sparse.major": 1, "GNU.sparse.minor": 0}) + INTACT,
        records(**{"GNU.sparse.size": "a", "GNU.sparse.map": "1,x"}) + INTACT,
    ],
    ids=["RecursionError of names", "RecursionError of records", "ValueError of a map", "ValueError of a record"],
)
def test_what_tarfile_raises_is_an_error_of_the_file(tmp_path, content):
    path = tmp_path / "A.tar.gz"
    path.write_bytes(gzip.compress(content + b"\0" * 1024))
    refused(path, "not an intact .tar.gz archive")


def test_how_far_compressed_text_may_expand(write, monkeypatch):
    path = write(MATRIX + "\n" * 300_000, "A.mtx.gz")
    assert path.stat().st_size < 1000
    assert io.load(path).shape == (2, 3)
    with pytest.raises(errors.FileFormatError, match="more than 100000 bytes; set max_expanded_bytes"):
        io.load(path, max_expanded_bytes=100_000)
    monkeypatch.setenv("WARPLOOM_MAX_EXPANDED_BYTES", "200000")
    refused(path, "more than 200000 bytes")
    assert io.load(path, max_expanded_bytes=400_000).shape == (2, 3)
    monkeypatch.delenv("WARPLOOM_MAX_EXPANDED_BYTES")
    monkeypatch.setattr(io._Limit.__init__, "__kwdefaults__", {"least": 1, "more": 0})
    refused(path, "200 times its size")


def test_how_far_an_npz_file_may_expand(tmp_path, monkeypatch):
    path = tmp_path / "A.npz"
    sp.save_npz(path, sp.dia_array((np.ones((1, 10**6)), [0]), shape=(10**6, 10**6)))
    assert path.stat().st_size < 8 * 10**6 / 200
    assert io.load(path).nnz == 10**6
    with pytest.raises(errors.FileFormatError, match="more than 1000000 bytes"):
        io.load(path, max_expanded_bytes=10**6)
    monkeypatch.setenv("WARPLOOM_MAX_EXPANDED_BYTES", "1000000")
    refused(path, "more than 1000000 bytes")


def test_how_far_an_archive_may_expand(archive):
    path = archive(("A/A.mtx", MATRIX + "\n" * 3_000_000))
    refused(path, "200 times its size")
    assert io.load(path, max_expanded_bytes=10**7).shape == (2, 3)


@pytest.mark.parametrize("limit", [0, -1, "many", 1.5j])
def test_a_wrong_limit_is_refused(write, monkeypatch, limit):
    path = write(MATRIX)
    with pytest.raises(errors.ParameterError) as caught:
        io.load(path, max_expanded_bytes=limit)
    assert caught.value.argument == "max_expanded_bytes"
    monkeypatch.setenv("WARPLOOM_MAX_EXPANDED_BYTES", str(limit))
    with pytest.raises(errors.ParameterError) as caught:
        io.load(path)
    assert caught.value.argument == "WARPLOOM_MAX_EXPANDED_BYTES"


def with_header(text):
    """What `numpy.save` writes, with a header of one's own."""
    text = text.encode().ljust(118) + b"\n" if len(text) < 118 else text.encode()
    return b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text + bytes(8)


@pytest.mark.parametrize(
    "data",
    [
        with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), "),
        with_header("'" * 3),
        with_header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**70},), }}"),
        with_header("(" * 3000 + ")" * 3000),
        with_header("{'descr': {'names': 1}, 'fortran_order': False, 'shape': (1,), }"),
    ],
    ids=["TokenError", "TokenError of a string", "OverflowError", "nested", "type"],
)
def test_what_numpy_raises_is_an_error_of_the_file(tmp_path, data):
    path = tmp_path / "A.npz"
    np.savez(path, **{name: array for name, array in GOOD.items() if name != "data"})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("data.npy", data)
    refused(path, "'data' is damaged")


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("data", with_header("(" * 3000 + ")" * 3000), errors.FileFormatError),
        ("format", "x" * 10_000, errors.FileFormatError),
        ("data", np.zeros(2, [(f"field{i}", "f4") for i in range(200)]), errors.DtypeError),
    ],
    ids=["header", "format", "type"],
)
def test_messages_do_not_quote_whole_files(tmp_path, name, data, error):
    path = tmp_path / "A.npz"
    arrays = GOOD | {name: data}
    np.savez(path, **{name: array for name, array in arrays.items() if not isinstance(array, bytes)})
    if isinstance(data, bytes):
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(f"{name}.npy", data)
    assert len(str(refused(path, "A.npz", error))) < len(str(path)) + 600


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_damaged_npz_of_another_compression(tmp_path, method):
    path = tmp_path / "A.npz"
    np.savez(path, **{name: array for name, array in GOOD.items() if name != "data"})
    data = streams.BytesIO()
    np.save(data, np.random.default_rng(0).standard_normal(1000))
    with zipfile.ZipFile(path, "a", method) as archive:
        archive.writestr("data.npy", data.getvalue())
        start = archive.getinfo("data.npy").header_offset
    whole = path.read_bytes()
    assert io.load(path).nnz == 2
    for position in (40, 60, 200, 1000):
        content = bytearray(whole)
        content[start + position] ^= 0xFF
        path.write_bytes(content)
        refused(path, "is damaged|intact .npz")


def test_sparse_member_of_an_archive(tmp_path):
    member = tarfile.TarInfo("A/A.mtx")
    member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(10**15)}
    member.size = 512
    with tarfile.open(tmp_path / "A.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, streams.BytesIO(b"1\n0\n1\n".ljust(512, b"\0")))
    refused(tmp_path / "A.tar.gz", "no NAME/NAME.mtx")


def test_every_truncation_of_an_archive_is_found(archive):
    path = archive(("A/A_b.mtx", "x" * 300), ("A/A.mtx", MATRIX))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refused(path, "intact .tar.gz|no NAME/NAME.mtx")


def test_truncated_tar_in_an_intact_gzip_file(archive):
    path = archive(("A/A.mtx", MATRIX + "\n" * 2000))
    whole = gzip.decompress(path.read_bytes())
    for length in range(1, 2500, 100):
        path.write_bytes(gzip.compress(whole[:length]))
        refused(path, "intact .tar.gz")


@given(st.integers(0, 10_000), st.integers(1, 255))
@settings(deadline=None, max_examples=150)
def test_damaged_archive_gives_a_matrix_or_an_error(tmp_path_factory, position, flip):
    path = tmp_path_factory.getbasetemp() / "damaged.tar.gz"
    content = bytearray(gzip.decompress(packed(("A/A_b.mtx", "x" * 300), ("A/A.mtx", MATRIX))))
    content[position % 3000] ^= flip
    path.write_bytes(gzip.compress(bytes(content)))
    with contextlib.suppress(errors.FileFormatError, errors.DtypeError, errors.IndexOverflowError):
        io.load(path)


def test_archive_under_the_wrong_name(tmp_path):
    path = tmp_path / "A.tar.gz"
    path.write_text(MATRIX)
    refused(path, "not an intact .tar.gz archive")
    path.write_bytes(gzip.compress(MATRIX.encode()))
    refused(path, "not an intact .tar.gz archive")

"""Formats that are made on the GPU have the arrays of the conversion on the host, whatever the matrix."""

import functools
import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

from battery import battery
from warploom import CSR, _core, formats
from warploom._device import Device
from warploom._matrix import as_csr
from warploom.errors import ParameterError
from warploom.plan import problem_of

ON_GPU = {known["name"]: known["options"] for known in _core.formats() if known["on_gpu"]}
DTYPES = [np.float16, np.float32, np.float64]
BATTERY = battery(np.float32)


def settings(name):
    """Return all combinations of the values that the tests go through, as dictionaries."""
    values = {o["name"]: list(dict.fromkeys([o["default"], *o["tested"]])) for o in ON_GPU[name]}
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


def on_both(name, A, options):
    """Return the matrix as the host stores it and as the GPU does; None if both refuse it."""
    view = as_csr(A)
    resident = _core.Problem(view, "spmv", 1, "column", "warm", 0).resident()
    try:
        host = _core.store(name, view, options)
    except ParameterError:
        with pytest.raises(ParameterError):
            _core.convert_on_gpu(name, resident, options)
        return None
    return host, _core.convert_on_gpu(name, resident, options)


def assert_same_array(found, expected, label):
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), label
    # Bits, as NaN differs from itself.
    assert found.tobytes() == expected.tobytes(), label


def check(name, A, options):
    stored = on_both(name, A, options)
    if stored is None:
        return
    host, gpu = stored
    assert gpu.dtype == host.dtype
    expected = host.arrays()
    found = gpu.arrays()
    assert list(found) == list(expected)
    for label, array in expected.items():
        assert_same_array(found[label], array, f"{label} with {options}")
    cls = formats.find(name)
    for label in dir(cls):
        if not isinstance(getattr(cls, label), property):
            continue
        expected_value, value = getattr(cls(host), label), getattr(cls(gpu), label)
        if isinstance(expected_value, np.ndarray):
            assert_same_array(value, expected_value, label)
        elif isinstance(expected_value, (bool, int, float, tuple, type(None))):
            assert value == expected_value, label


def rows_of(lengths, dtype, seed=0):
    """Build a matrix with rows of these lengths; every value shows where it came from."""
    rng = np.random.default_rng(seed)
    lengths = np.asarray(lengths, dtype=np.int64)
    num_cols = max(int(lengths.max(initial=0)), 1)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    row = np.repeat(np.arange(len(lengths)), lengths)
    # Ascending from a first column at random, without repetitions: some formats add those up.
    first = rng.integers(0, num_cols - lengths + 1)
    indices = (first[row] + np.arange(indptr[-1]) - indptr[row]).astype(np.int32)
    values = (np.arange(indptr[-1]) % 2039 + 1).astype(dtype)
    return csr_array((values, indices, indptr), shape=(len(lengths), num_cols))


def power_law(count, exponent, scale, longest, seed):
    rng = np.random.default_rng(seed)
    return np.minimum((rng.pareto(exponent, count) * scale).astype(np.int64), longest)


@functools.cache
def lengths_of(case):
    rng = np.random.default_rng(11)
    return {
        "empty rows": lambda: rng.integers(0, 3, 9000) // 2 * 5,
        "one giant row": lambda: np.concatenate([rng.integers(0, 9, 5000), [70_000], rng.integers(0, 9, 400)]),
        "5 each": lambda: np.full(8192, 5),
        "full warps": lambda: np.full(4100, 128),
        "0 to 12": lambda: rng.integers(0, 13, 9001),
        "0 to 130": lambda: rng.integers(0, 131, 4097),
        "2 to 40 warps": lambda: rng.permutation(np.r_[rng.integers(33, 40 * 32, 700), rng.integers(0, 33, 900)]),
        "2 to 40 wide warps": lambda: rng.permutation(np.r_[rng.integers(129, 5120, 200), rng.integers(0, 129, 3000)]),
        "over 8 warps": lambda: rng.permutation(np.r_[rng.integers(1025, 9000, 60), rng.integers(0, 4, 5000)]),
        "ends of warps": lambda: np.repeat(32 * np.arange(1, 70), 3) + np.tile([-1, 0, 1], 69),
        "only cut rows": lambda: rng.integers(260, 700, 2500),
        "heavy power law": lambda: power_law(20_000, 0.9, 2, 5000, 1),
        "power law": lambda: power_law(20_000, 1.2, 4, 15_000, 2),
        "power law of filled rows": lambda: power_law(20_000, 1.5, 3, 2000, 3) + 1,
    }[case]()


CASES = [
    "empty rows",
    "one giant row",
    "5 each",
    "full warps",
    "0 to 12",
    "0 to 130",
    "2 to 40 warps",
    "2 to 40 wide warps",
    "over 8 warps",
    "ends of warps",
    "only cut rows",
    "heavy power law",
    "power law",
    "power law of filled rows",
]


@pytest.mark.parametrize("matrix", BATTERY)
@pytest.mark.parametrize("name", ON_GPU)
def test_battery(name, matrix):
    for options in settings(name):
        check(name, BATTERY[matrix], options)


@pytest.mark.parametrize("shape", [(0, 0), (0, 7), (7, 0), (40, 40), (5000, 30)])
@pytest.mark.parametrize("name", ON_GPU)
def test_without_nonzeros(name, shape):
    for options in settings(name):
        check(name, csr_array(shape, dtype=np.float32), options)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ON_GPU)
def test_lengths_of_rows(name, dtype, case):
    A = rows_of(lengths_of(case), dtype)
    for options in settings(name):
        check(name, A, options)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", ON_GPU)
def test_random_power_laws(name, seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 12_000))
    lengths = power_law(count, rng.uniform(0.7, 2), rng.uniform(1, 30), 20_000, seed)
    lengths[rng.random(count) < rng.choice([0, 0.3])] = 0
    A = rows_of(lengths, DTYPES[seed % 3], seed)
    choices = settings(name)
    for chosen in rng.choice(len(choices), min(3, len(choices)), replace=False):
        check(name, A, choices[chosen])


@pytest.mark.parametrize("kind", ["few", "power law"])
@pytest.mark.parametrize("name", ON_GPU)
def test_a_million_rows(name, kind):
    rng = np.random.default_rng(8)
    lengths = rng.integers(0, 9, 1_000_000) if kind == "few" else power_law(1_000_000, 1.3, 3, 30_000, 9)
    check(name, rows_of(lengths, np.float32), {})


def scattered(rows, columns, per_row, seed, exponent=1.0):
    """Build a matrix with columns as frequent as a power of a random number; rows may repeat a column."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 2 * per_row + 1, rows)
    indices = (columns * rng.random(lengths.sum()) ** exponent).astype(np.int32)
    values = (np.arange(len(indices)) % 2039 + 1).astype(np.float32)
    return csr_array((values, indices, np.r_[0, np.cumsum(lengths)]), shape=(rows, columns))


@pytest.mark.parametrize("hubs", [0, 1, 17, 4095, 24575, 200_000])
@pytest.mark.parametrize("entries_per_lane", [1, 2, 4])
def test_hubs_among_many_columns(entries_per_lane, hubs):
    """Columns are sorted by how frequent they are, and most of them are as frequent as many others."""
    options = {"hubs": hubs, "entries_per_lane": entries_per_lane}
    for matrix in (scattered(30_000, 70_000, 4, 1), scattered(30_000, 70_000, 4, 2, 4.0), scattered(9, 50_000, 90, 3)):
        check("hub-csr", matrix, options)


@pytest.mark.parametrize("order", ["ascending", "repeated", "any"])
@pytest.mark.parametrize("longest", [3, 40, 1024, 1025, 3000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_of_rows_that_are_merged_and_sorted(dtype, longest, order):
    """Rows by ascending column are merged unless one of them is very long."""
    rng = np.random.default_rng(longest)
    lengths = rng.integers(0, 9, 4999)
    lengths[rng.integers(0, len(lengths), 5)] = longest
    lengths[-1] = min(longest, 7)
    columns = 4001
    rows = [
        rng.integers(0, columns, length) if order != "ascending" else rng.choice(columns, length, replace=False)
        for length in lengths
    ]
    if order != "any":
        rows = [np.sort(row) for row in rows]
    indices = np.concatenate(rows).astype(np.int32)
    values = (np.arange(len(indices)) % 61 + 1).astype(dtype)
    A = csr_array((values, indices, np.r_[0, np.cumsum(lengths)]), shape=(len(lengths), columns))
    for options in settings("bsr"):
        check("bsr", A, options)


@pytest.mark.parametrize(
    "offsets", [[0], range(-3, 4), range(-40, 41), [-700, -30, 0, 1, 2, 30, 700], range(0, 700, 3)]
)
@pytest.mark.parametrize("missing", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("dtype", DTYPES)
def test_segments_of_diagonals(dtype, missing, offsets):
    """Rows of a segment end a window of entries in different steps."""
    rng = np.random.default_rng(17)
    rows = 3001
    columns = np.arange(rows)[:, None] + np.array(offsets)
    there = (columns >= 0) & (columns < rows) & (rng.random(columns.shape) >= missing)
    indices = columns[there].astype(np.int32)
    values = (np.arange(len(indices)) % 2039 + 1).astype(dtype)
    A = csr_array((values, indices, np.r_[0, np.cumsum(there.sum(axis=1))]), shape=(rows, rows))
    for options in settings("compressed-sell"):
        check("compressed-sell", A, options)


@pytest.mark.parametrize("panel_columns", [400, 546, 547, 3000, 40_000])
def test_panels_of_rows_of_all_lengths(panel_columns):
    """The masks of row blocks are collected in shared memory for up to 128 panels: 546 columns are one too few."""
    for case in ("empty rows", "one giant row", "0 to 12", "over 8 warps", "power law"):
        check("column-panels", rows_of(lengths_of(case), np.float32), {"panel_columns": panel_columns})
    for matrix in (scattered(30_000, 70_000, 4, 5), scattered(200_000, 70_000, 1, 6), scattered(9, 70_000, 9000, 7)):
        for dtype in DTYPES:
            A = csr_array((matrix.data.astype(dtype), matrix.indices, matrix.indptr), shape=matrix.shape)
            check("column-panels", A, {"panel_columns": panel_columns})


@pytest.mark.parametrize("name", ON_GPU)
def test_offsets_and_columns_of_64_bits(name):
    """They are narrowed before anything is converted."""
    torch = pytest.importorskip("torch")
    A = scattered(2000, 3000, 6, 4)
    A.sum_duplicates()
    arrays = [torch.from_numpy(a).cuda() for a in (A.indptr.astype(np.int64), A.indices.astype(np.int64), A.data)]
    resident = problem_of(
        CSR(*arrays, shape=A.shape), "spmv", 1, None, "column", "warm", Device.parse("cuda")
    ).resident()
    for options in settings(name):
        try:
            host = _core.store(name, as_csr(A), options)
        except ParameterError:
            continue
        found = _core.convert_on_gpu(name, resident, options).arrays()
        for label, array in host.arrays().items():
            assert_same_array(found[label], array, f"{label} with {options}")


def test_formats_that_are_made_on_the_host_say_so():
    name = next(known["name"] for known in _core.formats() if not known["on_gpu"])
    resident = _core.Problem(as_csr(BATTERY["random"]), "spmv", 1, "column", "warm", 0).resident()
    with pytest.raises(ParameterError, match=f"format {name} is not made on a GPU"):
        _core.convert_on_gpu(name, resident, {})


@pytest.mark.parametrize("name", ON_GPU)
def test_unknown_options(name):
    resident = _core.Problem(as_csr(BATTERY["random"]), "spmv", 1, "column", "warm", 0).resident()
    with pytest.raises(ParameterError, match="has no option 'nonsense'"):
        _core.convert_on_gpu(name, resident, {"nonsense": 1})

"""How a candidate is chosen.

`Selector` is the seam: data goes in as a `Problem`, a `Selection` comes out. `MeasureSelector` times every candidate on
the device at hand; a trained predictor is another class with the same method.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom import _core, permutations
from warploom._device import Device, load_cusparse
from warploom.candidates import Candidate, enumerate_candidates, kernels, matches, parse
from warploom.errors import DeviceError, IndexOverflowError, OutOfMemoryError, ParameterError
from warploom.explanation import Explanation, Row

if TYPE_CHECKING:
    from warploom.plan import Plan

__all__ = ["MeasureSelector", "Problem", "Selection", "Selector"]

Progress = Callable[[int, int, str], None]

_RANDOM_NUMBERS = 1_000_003
"""Different values in the operand that plans are measured with: prime, so that rows and columns do not repeat."""

SEARCHED_ROWS = 100_000
"""Permutations that search for the nearest row are left out for matrices with more rows, unless they are named: the
search takes far longer than it can win back."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """What is to be multiplied, and where."""

    matrix: _core.CsrView
    """A, of shape (m, n)."""
    op: str
    """The operation, ``"spmm"`` or ``"spmv"``."""
    k: int
    """Columns of B and C."""
    layout: str
    """Of B and C: ``"row"`` or ``"column"``."""
    cache: str
    """Before each timed run: ``"warm"`` or ``"cold"``."""
    device: Device
    allocate: Callable[[int], tuple[int, Any]] | None = None
    """Device memory for plans, ``allocate(bytes) -> (pointer, owner)``; None stands for the device's own pool."""

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        """Value type of A and the dense operands."""
        dtype: np.dtype[Any] = self.matrix.data.dtype
        return dtype

    @functools.cached_property
    def dtype_name(self) -> str:
        """Name of that type, which NumPy takes longer to find than a model to predict from."""
        return self.dtype.name

    @functools.cached_property
    def resident(self) -> _core.DeviceCsr | None:
        """A in the memory of the GPU, uploaded once for all candidates; None on the CPU."""
        if self.device.kind != "cuda":
            return None
        return _core.upload_csr(self.matrix, self.device.ordinal, self.allocate)

    @functools.cached_property
    def row_lengths(self) -> np.ndarray[Any, Any]:
        """Nonzeros of each row of A, shape (m,)."""
        return np.diff(self.matrix.indptr)

    @functools.cached_property
    def row_lengths_within(self) -> tuple[int, int]:
        """Nonzeros of the shortest and of the longest row; without rows (0, 0)."""
        lengths = self.row_lengths
        return (int(lengths.min()), int(lengths.max())) if lengths.size else (0, 0)


@dataclasses.dataclass(frozen=True)
class Selection:
    """What a selector chose."""

    candidate: str
    explanation: Explanation | Callable[[], Explanation]
    """A function where the table takes longer to make than the choice."""
    plan: Plan | None = None
    """The candidate prepared, if the selector had to prepare it anyway."""


class Selector(Protocol):
    """Anything that can choose a candidate."""

    def select(self, problem: Problem, patterns: str | Sequence[str] | None, progress: Progress | None) -> Selection:
        """Choose among the candidates whose names match `patterns`."""


@dataclasses.dataclass(frozen=True)
class Timing:
    """Repeated times of one candidate, in microseconds."""

    median: float
    p10: float
    p90: float
    repeats: int

    @classmethod
    def of(cls, times: np.ndarray[Any, Any]) -> Timing:
        """Summarise repeats by their median, 10th and 90th percentile."""
        p10, median, p90 = np.percentile(times, [10, 50, 90])
        return cls(float(median), float(p10), float(p90), len(times))


class Bench:
    """Operands of one problem on its device: checks the results of plans and times them."""

    def __init__(self, problem: Problem, *, seed: int = 0) -> None:
        self.problem = problem
        m, n = problem.matrix.shape
        self._dtype = problem.matrix.data.dtype
        # Up to 64 columns of random numbers, repeated: quick to make, and neither zeros nor a pattern to profit from.
        width = min(problem.k, 64)
        numbers = np.random.default_rng(seed).uniform(-1, 1, min(n * width, _RANDOM_NUMBERS)).astype(self._dtype)
        by_column = problem.layout == "column"
        self._block = np.resize(numbers, (width, n)).T if by_column else np.resize(numbers, (n, width))
        self._line = problem.k if problem.layout == "row" else m
        self._lead_B, self._lead_C = (problem.k,) * 2 if problem.layout == "row" else (max(n, 1), max(m, 1))
        if problem.device.kind == "cuda":
            ordinal, itemsize = problem.device.ordinal, self._dtype.itemsize
            self._eviction = _core.eviction_memory(ordinal)
            self._device_B = _core.DeviceMemory(ordinal, max(n * problem.k * itemsize, 1))
            self._device_C = _core.DeviceMemory(ordinal, max(m * problem.k * itemsize, 1))
            offset = 0
            for part in self._parts_of_B():
                _core.copy_to_device(ordinal, self._device_B.pointer + offset, part)
                offset += part.nbytes
        else:
            try:
                self._B = self._operand(self._dtype, "C" if problem.layout == "row" else "F")
                self._C = np.empty((m, problem.k), self._dtype, order="C" if problem.layout == "row" else "F")
            except (MemoryError, ValueError) as error:  # NumPy has a ValueError for arrays beyond the address space
                raise self._too_large(error) from error

    def _parts_of_B(self, elements: int = 1 << 24) -> Iterator[np.ndarray[Any, Any]]:
        """B in pieces as they lie in memory: for k = rows it may be larger than the host would like to hold."""
        n, k, width = self.problem.matrix.shape[1], self.problem.k, self._block.shape[1]
        if self.problem.layout == "column":
            for first in range(0, k, max(width, 1)):
                yield self._block.T[: k - first]
        elif k == width:
            yield self._block
        else:
            step = max(1, elements // k)
            for first in range(0, n, step):
                yield np.ascontiguousarray(np.tile(self._block[first : first + step], -(-k // width))[:, :k])

    def _too_large(self, error: Exception) -> OutOfMemoryError:
        m, n = self.problem.matrix.shape
        return OutOfMemoryError(
            f"B of {n:,} x {self.problem.k:,} or C of {m:,} x {self.problem.k:,} does not fit into memory: {error}",
            argument="k",
        )

    @functools.cached_property
    def _evicting(self) -> np.ndarray[Any, Any]:
        """More than the last-level cache of a CPU holds, as a rule: 256 MiB."""
        return np.zeros(1 << 25)

    def _operand(self, dtype: npt.DTypeLike, order: Literal["C", "F"]) -> np.ndarray[Any, Any]:
        B = np.empty((len(self._block), self.problem.k), dtype, order=order)
        if B.size:
            width = self._block.shape[1]
            for start in range(0, self.problem.k, width):
                B[:, start : start + width] = self._block[:, : self.problem.k - start]
        return B

    def _part_of_B(self, rows: np.ndarray[Any, Any], columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        part: np.ndarray[Any, Any] = self._block[np.ix_(rows, columns % max(self._block.shape[1], 1))]
        return part

    def check(self, plan: Plan) -> str:
        """Run a plan once and compare a sample of its result with float64 sums.

        Returns
        -------
        str
            What is wrong, or the empty string. The sample has the first, the last and the longest row. In row-major
            order it is 64 whole rows, in column-major order up to 8 columns of 16,384 rows or of all there are.
        """
        lines, exact, bound = self._expected
        if self.problem.device.kind == "cuda":
            size = self.problem.matrix.shape[0] * self.problem.k * self._dtype.itemsize
            _core.fill_device(
                self.problem.device.ordinal, self._device_C.pointer, 0xFF, size
            )  # NaN: must be overwritten
            plan._core.run_device(
                self._device_B.pointer, self._lead_B, self._device_C.pointer, self._lead_C, self.problem.k, 0
            )
        else:
            self._C.fill(np.nan)
            plan._core.run_host(self._B, self._C)
        seen = self._result_lines(lines) if len(lines) else np.empty_like(exact)
        if self.problem.layout == "column":
            seen = seen[:, self._sampled_rows]
        judged = np.isfinite(bound)
        wrong = int((~(abs(seen[judged] - exact[judged]) <= bound[judged])).sum())
        return f"wrong result in {wrong} of {np.count_nonzero(judged)} sampled entries" if wrong else ""

    def _result_lines(self, lines: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Rows or columns of C, whichever is contiguous, as lines of an array."""
        if self.problem.device.kind == "cpu":
            return np.asarray((self._C if self.problem.layout == "row" else self._C.T)[lines])
        ordinal, start, length = self.problem.device.ordinal, self._device_C.pointer, self._line
        total = self.problem.matrix.shape[0] * self.problem.k // length
        if total * length * self._dtype.itemsize <= 1 << 20:  # one copy is quicker than one for each line
            everything = np.empty((total, length), self._dtype)
            _core.copy_to_host(ordinal, everything, start)
            return np.asarray(everything[lines])
        values = np.empty((len(lines), length), self._dtype)
        for value, line in zip(values, lines, strict=True):
            _core.copy_to_host(ordinal, value, start + int(line) * length * self._dtype.itemsize)
        return values

    @functools.cached_property
    def _sampled_rows(self) -> np.ndarray[Any, Any]:
        """Ascending numbers of the rows that a result is judged by."""
        lengths, column = self.problem.row_lengths, self.problem.layout == "column"
        m, count = len(lengths), 1 << 14 if column else 61
        if m == 0 or (column and m <= count):
            return np.arange(m)
        return np.unique([0, m - 1, lengths.argmax(), *np.random.default_rng(1).integers(0, m, count)])

    @functools.cached_property
    def _expected(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Sampled rows or columns of C, their float64 values, and the rounding each may differ by.

        That rounding is infinite where NaN and infinity in A spread or sums overflow: not judged here.
        """
        matrix, k, rows = self.problem.matrix, self.problem.k, self._sampled_rows
        lengths = self.problem.row_lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(matrix.indptr[rows] - offsets[:-1], lengths)
        needed, indices = np.unique(matrix.indices[places], return_inverse=True)
        values = matrix.data[places].astype(np.float64)
        A = scipy.sparse.csr_array((values, indices, offsets), shape=(len(rows), len(needed)))
        by_column = self.problem.layout == "column"
        columns = np.unique([0, k - 1, *np.random.default_rng(1).integers(0, k, 6)]) if by_column else np.arange(k)
        lines = columns if by_column else rows
        B = self._part_of_B(needed, columns).astype(np.float64)
        # SciPy's abs() would add up duplicates first: 1 - 1 may be rounded like 2.
        magnitudes = scipy.sparse.csr_array((abs(A.data), A.indices, A.indptr), shape=A.shape)
        limits = np.finfo(self._dtype)
        sum_eps = max(np.finfo(np.float32).eps if self._dtype == np.float16 else limits.eps, np.finfo(np.float64).eps)
        with np.errstate(invalid="ignore", over="ignore"):
            exact = A @ B
            scale = magnitudes @ abs(B)
            bound = (lengths[:, None] + 2) * (sum_eps * scale + float(limits.smallest_subnormal))
            if self._dtype == np.float16:  # summed in float32, rounded once more at the end
                bound += float(limits.eps) * abs(exact)
        bound[~(scale < limits.max / 2)] = np.inf
        if by_column:
            exact, bound = exact.T, bound.T
        return lines, exact, bound

    def time(
        self, plan: Plan, *, cache: str | None = None, repeats: int = 30, warmup: int = 2, budget_ms: float = 50.0
    ) -> Timing:
        """Time a plan.

        Parameters
        ----------
        plan : Plan
        cache : {"warm", "cold"}, optional
            That of the problem by default.
        repeats, warmup : int
            Timed runs, and runs before them that are not counted.
        budget_ms : float
            Fewer timed runs (at least three) if they would take longer than this in total.
        """
        if self.problem.device.kind == "cpu":
            cold = (cache or self.problem.cache) == "cold"
            return Timing.of(self._time_on_cpu(plan, cold, repeats, warmup, budget_ms))
        times = plan._core.time_device(
            self._device_B.pointer,
            self._lead_B,
            self._device_C.pointer,
            self._lead_C,
            self.problem.k,
            0,
            cold=(cache or self.problem.cache) == "cold",
            warmup=warmup,
            repeats=repeats,
            budget_ms=budget_ms,
            min_repeats=min(3, repeats),
        )
        return Timing.of(times)

    def _time_on_cpu(self, plan: Plan, cold: bool, repeats: int, warmup: int, budget_ms: float) -> np.ndarray[Any, Any]:
        times: list[float] = []
        for _ in range(warmup):
            plan._core.run_host(self._B, self._C)
        deadline = time.perf_counter() + 1e-3 * budget_ms
        while len(times) < repeats and (len(times) < 3 or time.perf_counter() < deadline):
            if cold:
                self._evicting += 1
            start = time.perf_counter()
            plan._core.run_host(self._B, self._C)
            times.append(1e6 * (time.perf_counter() - start))
        return np.array(times)


@functools.cache
def copy_bandwidth(device: Device) -> float:
    """Bytes per second, read plus written, of a large copy on the device: what bandwidth floors are measured with."""
    if device.kind == "cuda":
        return _core.measure_copy_bandwidth(device.ordinal, 1 << 29)
    threads = _core.num_threads()
    from_ = np.ones(1 << 24)
    to = np.zeros_like(from_)
    parts = list(zip(np.array_split(to, threads), np.array_split(from_, threads), strict=True))
    times = []
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            start = time.perf_counter()
            list(pool.map(lambda part: np.copyto(*part), parts))
            times.append(time.perf_counter() - start)
    return 2 * from_.nbytes / float(np.median(times))


class MeasureSelector:
    """Prepares every candidate, times each on the device at hand, and keeps the fastest.

    Candidates in the caller's row order are measured first, with every setting of their parameters. Row permutations
    follow, each with the kernel's default parameters and with the setting that was fastest without it.

    Parameters
    ----------
    permutation_rows : int
        Permutations that search for the nearest row are left out for matrices with more rows than this, unless the
        patterns name them.
    repeats : int
        Timed runs of each candidate.
    budget_ms : float
        Fewer runs if they would take longer than this in total.
    calls : float, optional
        Products with one preparation: what is kept takes least with both together. If not given, preparation does not
        count.
    """

    def __init__(
        self,
        *,
        permutation_rows: int = SEARCHED_ROWS,
        repeats: int = 30,
        budget_ms: float = 50.0,
        calls: float | None = None,
    ) -> None:
        self.calls = calls
        self.permutation_rows = permutation_rows
        self.repeats = repeats
        self.budget_ms = budget_ms

    def select(self, problem: Problem, patterns: str | Sequence[str] | None, progress: Progress | None) -> Selection:
        """Measure, and choose the fastest.

        Raises
        ------
        ParameterError
            If no candidate matches the patterns, or none of them can run this problem.
        """
        if problem.device.kind == "cuda":
            load_cusparse()
        listed = list(_listed(problem, patterns))
        if not listed:
            raise ParameterError(
                f"no candidate for {problem.layout}-major operands on {problem.device} matches {patterns!r}",
                argument="candidates",
            )
        session = MeasuringSession(problem, self)
        baseline = Candidate.make(default_kernel(problem.op, problem.layout)).name
        plain = [c for c in listed if c.permutation == "none"]
        # One permutation after the other: each is computed once for all kernels.
        permuted = [c for name in permutations.names() for c in listed if c.permutation == name != "none"]
        total = len(plain) + len(permuted)
        for candidate in plain:
            session.measure(candidate, progress, total)
        for candidate in permuted:
            session.measure_permuted(candidate, progress, total, patterns)
        if session.best is None:
            reasons = "; ".join(f"{r.candidate}: {r.note}" for r in session.rows[:5])
            raise ParameterError(f"no candidate can run this problem: {reasons}", argument="candidates")
        plan, _ = session.best
        explanation = Explanation.of_measurements(problem, session.rows, plan.candidate, baseline)
        return Selection(plan.candidate, explanation, plan)


def _listed(problem: Problem, patterns: str | Sequence[str] | None) -> Iterator[Candidate]:
    """Candidates to measure: all that are not redundant, or those that match, and any that is named in full."""
    device = problem.device.kind
    registered = list(dict.fromkeys(enumerate_candidates(problem.op, problem.layout, device, problem.dtype.name)))
    if patterns is None:
        yield from (c for c in registered if not is_redundant(c, problem))
        return
    yield from (c for c in registered if matches(c.name, patterns))
    for pattern in dict.fromkeys([patterns] if isinstance(patterns, str) else patterns):
        if any(wildcard in pattern for wildcard in "*?") or any(matches(c.name, pattern) for c in registered):
            continue
        with contextlib.suppress(ParameterError):
            named = parse(pattern)
            if named not in registered and problem.layout in named.kernel.layouts and device in named.kernel.devices:
                yield named


def is_redundant(candidate: Candidate, problem: Problem, row_lengths: tuple[int, int] | None = None) -> bool:
    """Whether another candidate does the same work, so that measuring this one would tell nothing new.

    Of the shortest and of the longest row, where these are known, the rows need not be counted.

    - Threads side by side that k columns do not need, or (SpMV) more threads for a row than the longest one has
      nonzeros.
    - Column panels of few nonzeros: to load a part of x for all of them takes longer than to fetch what they need.
    - DCSR with other than default parameters where no row is empty: it is CSR then.
    - Segments longer than every row: shorter ones that still cut no row are the same, and in the order of the rows they
      are CSR.
    - All rows in one thread block for each tile of columns, where there are too few tiles to keep a GPU busy.
    """
    parameters = dict(candidate.parameters)
    shortest, longest = row_lengths or problem.row_lengths_within
    if candidate.kernel.format == "column-panels":
        return problem.matrix.nnz < 200_000
    if candidate.has_defaults:
        return False  # the default settings are always of interest
    if candidate.kernel.op == "spmv":
        threads = parameters.get("threads_per_row", 0)
        return threads // 2 >= max(longest, 1)
    side_by_side = parameters.get("column_threads", 0)
    if side_by_side > 0:
        needed = -(-problem.k // parameters["columns_per_thread"])
        if side_by_side >= min(parameters["threads_per_row"], 32, 1 << (needed - 1).bit_length()):
            return True
    if candidate.kernel.format == "dcsr":
        return shortest > 0
    if "segment_length" in parameters:
        accepted = next(p.tried for p in candidate.kernel.parameters if p.name == "segment_length")
        if longest <= parameters["segment_length"] and not parameters["longest_first"]:
            return True
        return any(longest <= shorter < parameters["segment_length"] for shorter in accepted)
    return parameters.get("rows_per_block") == 0 and -(-problem.k // parameters["tile_width"]) < 64


def default_kernel(op: str, layout: str) -> Any:
    """Return the kernel that "plain CSR" means: the first one on CSR that was written for the layout."""
    native = "vector" if op == "spmv" else {"column": "c_stationary", "row": "row_split"}[layout]
    return next(k for k in kernels(op) if k.format == "csr" and k.name == native)


class MeasuringSession:
    """One run of the measurement: operands, permutations computed so far, rows of the table, best plan."""

    def __init__(self, problem: Problem, settings: MeasureSelector) -> None:
        self.problem = problem
        self.settings = settings
        self.bench = Bench(problem)
        self.rows: list[Row] = []
        self.best: tuple[Plan, float] | None = None
        self.fastest_setting: dict[tuple[str, str], tuple[float, Candidate]] = {}
        self.permutation: tuple[str, Any] = ("none", (None, 0.0))
        self.done = 0

    def measure(self, candidate: Candidate, progress: Progress | None, total: int) -> None:
        """Prepare and time one candidate; a failure becomes a note in its row."""
        if progress:
            progress(self.done, total, candidate.name)
        self.done += 1
        self._measure(candidate)

    def measure_permuted(
        self, candidate: Candidate, progress: Progress | None, total: int, patterns: str | Sequence[str] | None
    ) -> None:
        """Measure a permutation as listed and with the parameters that were best in the original order."""
        if progress:
            progress(self.done, total, candidate.name)
        self.done += 1
        named = patterns is not None
        rows = self.problem.matrix.shape[0]
        if rows > self.settings.permutation_rows and not named and permutations.searches(candidate.permutation):
            self.rows.append(
                Row(candidate.name, note=f"not measured: {rows:,} rows; name it in `candidates` to insist")
            )
            return
        for variant in self._variants(candidate):
            if matches(variant.name, patterns) and all(row.candidate != variant.name for row in self.rows):
                self._measure(variant)

    def _variants(self, candidate: Candidate) -> Iterator[Candidate]:
        yield candidate
        fastest = self.fastest_setting.get((candidate.kernel.format, candidate.kernel.name))
        if fastest is not None and fastest[1].parameters != candidate.parameters:
            yield Candidate(candidate.kernel, candidate.permutation, fastest[1].parameters)

    def _measure(self, candidate: Candidate) -> None:
        from warploom.plan import Plan, permute

        problem = self.problem
        reason = _core.unsupported_reason(
            problem.op,
            problem.matrix,
            candidate.kernel.format,
            candidate.kernel.name,
            problem.k,
            problem.layout,
            dict(candidate.parameters),
            None,
        )
        if reason:
            self.rows.append(Row(candidate.name, note=reason))
            return
        try:
            if self.permutation[0] != candidate.permutation:
                self.permutation = (candidate.permutation, permute(problem.matrix, candidate.permutation))
            plan = Plan(
                problem.matrix,
                candidate,
                problem.k,
                problem.layout,
                problem.device,
                problem.allocate,
                self.permutation[1],
                problem.resident if candidate.kernel.from_device else None,
            )
            if problem_found := self.bench.check(plan):
                self.rows.append(Row(candidate.name, note=problem_found))
                return
            timing = self.bench.time(plan, repeats=self.settings.repeats, budget_ms=self.settings.budget_ms)
        except (DeviceError, IndexOverflowError, MemoryError, ParameterError) as error:
            self.rows.append(Row(candidate.name, note=str(error) or type(error).__name__))
            return
        self.rows.append(
            Row(
                candidate.name,
                preparation_ms=sum(plan.preparation_ms.values()),
                median_us=timing.median,
                p10_us=timing.p10,
                p90_us=timing.p90,
                bytes=plan.nbytes,
            )
        )
        if candidate.permutation == "none":
            key = (candidate.kernel.format, candidate.kernel.name)
            if key not in self.fastest_setting or timing.median < self.fastest_setting[key][0]:
                self.fastest_setting[key] = (timing.median, candidate)
        cost = timing.median
        if self.settings.calls is not None:
            cost += 1e3 * sum(plan.preparation_ms.values()) / self.settings.calls
        if self.best is None or cost < self.best[1]:
            self.best = (plan, cost)

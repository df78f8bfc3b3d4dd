"""Sweeps: many matrices, one process for each GPU, results on the disk after every matrix."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import faulthandler
import functools
import multiprocessing
import os
import pathlib
import random
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

from warploom import _core, permutations
from warploom._device import Device
from warploom.bench import _matrices
from warploom.bench.environment import environment
from warploom.bench.measure import Limits, measure
from warploom.bench.processes import end_with_parent
from warploom.bench.settings import Setting, check_candidates, needed_permutations
from warploom.bench.store import Store
from warploom.corpus import Entry
from warploom.errors import DeviceError, ParameterError, WarploomError

__all__ = ["Report", "drawn", "gpu_ordinals", "sweep"]

SEARCH_ROWS = 30_000
"""Row permutations that search for the nearest row are computed up to this many rows."""

PERMUTED_NNZ = 10_000_000
"""No rows are permuted beyond this many nonzeros."""


@dataclasses.dataclass
class Report:
    """What a sweep did."""

    measured: int = 0
    """Matrices whose measurements were written now."""
    resumed: int = 0
    """Matrices that the output already held."""
    left: int = 0
    """Matrices that were not started for lack of time."""
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    """Name -> why a matrix could not be measured."""
    seconds: float = 0.0

    def __str__(self) -> str:
        lines = [
            f"{self.measured} matrices measured in {self.seconds / 60:.1f} minutes, {self.resumed} were already there, "
            f"{self.left} left for lack of time, {len(self.skipped)} skipped"
        ]
        lines += [f"skipped {name}: {reason}" for name, reason in sorted(self.skipped.items())]
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class _Job:
    """One matrix and what is to be measured on it."""

    entry: Entry
    settings: tuple[str, ...]
    device: str
    gpus: tuple[int, ...]
    limits: Limits
    patterns: tuple[str, ...] | None
    folder: pathlib.Path | None = None
    """Where the matrix was put by another process, or None: to be loaded from its source."""
    facts: dict[str, Any] | None = None
    permuted_nnz: int = PERMUTED_NNZ

    def parsed(self) -> list[Setting]:
        return [Setting.parse(name) for name in self.settings]


@dataclasses.dataclass
class _Outcome:
    facts: dict[str, Any] | None = None
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    environment: dict[str, Any] = dataclasses.field(default_factory=dict)
    skipped: str = ""


def gpu_ordinals() -> list[int]:
    """Numbers of the GPUs that CUDA shows this process."""
    return list(range(len(_core.cuda_info()["devices"])))


def drawn(entries: Sequence[Entry], sample: int | None = None, shard: str = "0/1") -> list[Entry]:
    """Draw matrices: every N-th from the I-th for a `shard` ``"I/N"``, and of those at most `sample` at random.

    Raises
    ------
    ParameterError
        If `shard` is not of that form.
    """
    first, _, step = shard.partition("/")
    if not (first.isdigit() and step.isdigit() and int(first) < int(step)):
        raise ParameterError(f"shard must be I/N with 0 <= I < N, got {shard!r}", argument="shard")
    chosen = list(entries)[int(first) :: int(step)]
    return chosen if sample is None else random.Random(0).sample(chosen, min(sample, len(chosen)))


def sweep(
    entries: Iterable[Entry],
    settings: Sequence[str] | Callable[[Entry], Sequence[str]],
    output: str | os.PathLike[str],
    *,
    device: str = "cuda",
    gpus: Sequence[int] | None = None,
    candidates: str | Sequence[str] | None = None,
    limits: Limits | None = None,
    ahead: int = 2,
    minutes: float | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    known: Collection[tuple[str, str]] = (),
    permuted_nnz: int = PERMUTED_NNZ,
    progress: Callable[[int, int, str], None] | None = None,
) -> Report:
    """Measure candidates on matrices, and write one file for each matrix.

    What the output already holds is not measured again, so a sweep that was stopped in any way continues where it was.
    Matrices come in an order that is random but always the same: one that was cut short is a sample.

    Parameters
    ----------
    entries : iterable of Entry
        The matrices.
    settings : sequence of str, or callable
        Such as ``"spmv/float64"`` or ``"spmm/float32/row/k=128"``. A setting with as many columns as rows takes square
        matrices only. A function says for each entry which settings it is measured in; matrices for which it names
        none are left out.
    output : path-like
        A folder; see `warploom.bench.Store`. Several sweeps may write to it at once.
    device : {"cuda", "cpu"}
    gpus : sequence of int, optional
        Numbers of the GPUs to use, all by default, one process for each. A GPU that another sweep on this machine is
        measuring on is waited for.
    candidates : str or sequence of str, optional
        Patterns of names; see `warploom.bench.settings.listed`.
    limits : Limits, optional
    ahead : int
        For each GPU, processes that make the next matrices in the meantime. With 0, or with an `executor`, the process
        that measures a matrix makes it.
    minutes : float, optional
        No matrix is started after this time.
    executor : concurrent.futures.Executor, optional
        Where to measure instead of in processes of this machine: ``dask.distributed.Client(...).get_executor()``, for
        one, or ``joblib.externals.loky.get_reusable_executor()``. Each of its processes claims one GPU of its machine.
    workers : int, optional
        Matrices in progress at once: by default as many as GPUs, and with an executor 32.
    known : collection of (str, str)
        Pairs of a matrix and a setting that were measured elsewhere and are left out too.
    permuted_nnz : int
        Rows are permuted in matrices of at most so many nonzeros.
    progress : callable, optional
        Called as ``progress(done, total, name)``.

    Returns
    -------
    Report

    Raises
    ------
    DeviceError
        There is no GPU.
    ParameterError
        For an unknown setting, or a pattern that no candidate matches.
    StorageError
        If results cannot be written. What had been written stays.

    Notes
    -----
    A process that dies, or is stopped because a matrix took more than three times its limit and a minute, costs the
    matrices in progress; they are tried again, one at a time, and one that kills its process again is recorded and
    skipped.
    """
    chosen = settings if callable(settings) else functools.partial(_always, tuple(settings))
    if not callable(settings):
        for name in settings:
            Setting.parse(name)
    check_candidates(candidates)
    if device == "cuda" and gpus is None and executor is None:
        gpus = gpu_ordinals()
        if not gpus:
            raise DeviceError(
                "there is no GPU to measure on; device='cpu' measures the CPU executor", argument="device"
            )
    patterns = None if candidates is None else tuple([candidates] if isinstance(candidates, str) else candidates)
    store = Store(output)
    done = store.done() | set(known)
    report = Report()
    jobs = []
    for entry in entries:
        parsed = [Setting.parse(name) for name in chosen(entry)]
        if callable(settings) and not parsed:
            continue
        missing = tuple(s.name for s in parsed if (entry.name, s.name) not in done)
        if not missing:
            report.resumed += 1
            continue
        job = _Job(entry, missing, device, tuple(gpus or ()), limits or Limits(), patterns)
        jobs.append(dataclasses.replace(job, permuted_nnz=permuted_nnz))
    random.Random(0).shuffle(jobs)
    if workers is None:
        workers = 32 if executor is not None else max(1, len(gpus or ()))
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        scratch = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="warploom-")))
        # After Ctrl-C or a full disk, nobody waits for matrices that are in progress, which may take minutes.
        pool = _Pool(workers) if executor is None else _Given(executor)
        stack.push(lambda error, *_: pool.close(now=error is not None))
        loaders = None
        if ahead > 0 and executor is None:
            loaders = _Pool(ahead * workers)
            stack.push(lambda error, *_: loaders.close(now=error is not None))
        _Loop(jobs, pool, loaders, workers, scratch, store, report, deadline, progress).run()
    report.seconds = time.monotonic() - start
    return report


def _always(settings: Sequence[str], entry: Entry) -> Sequence[str]:
    return settings


# ----- In the measuring processes -----


def _load(job: _Job, scratch: pathlib.Path) -> tuple[pathlib.Path, dict[str, Any]]:
    prepared = _prepared(job)
    return _matrices.write(prepared, scratch), prepared.facts


def _prepared(job: _Job) -> _matrices.Prepared:
    if job.folder is not None and job.facts is not None:
        return _matrices.reopen(job.folder, job.facts)
    A = _matrices.load(job.entry)
    names: list[str] = []
    if A.A.nnz <= job.permuted_nnz:
        names = needed_permutations(job.parsed(), job.device, A.A.shape[0], SEARCH_ROWS, job.patterns)
    if ".reordered(" in job.entry.name:  # it has an order for locality already
        names = [name for name in names if permutations.family(name) != "locality"]
    return _matrices.describe(A, names)


def _measure(job: _Job) -> _Outcome:
    """Measure one matrix. Stops the whole process if that takes far too long: a GPU cannot be interrupted otherwise."""
    try:
        device = Device("cuda", _claimed(job.gpus)) if job.device == "cuda" else Device("cpu", 0)
        # Not before: another sweep may have the GPU for hours.
        faulthandler.dump_traceback_later(3 * job.limits.matrix_s + 60, exit=True)
        prepared = _prepared(job)
        square = prepared.A.shape[0] == prepared.A.shape[1]
        settings = [s for s in job.parsed() if square or s.k is not None]
        rows = list(measure(prepared, settings, device, job.limits, job.patterns))
        return _Outcome(prepared.facts, rows, environment(device))
    except (WarploomError, OSError, ValueError, MemoryError) as error:
        return _Outcome(skipped=" ".join(str(error).split()) or type(error).__name__)
    finally:
        faulthandler.cancel_dump_traceback_later()


_claim: list[tuple[int, int]] = []
"""Number of the GPU that this process has claimed, and the descriptor of the locked file."""


def _claimed(gpus: Sequence[int]) -> int:
    """Claim a GPU for this process, as long as it lives, and return its number."""
    if not _claim:
        ordinals = gpus or gpu_ordinals()
        if not ordinals:
            raise DeviceError("there is no GPU here", argument="device")
        visible = "".join(c if c.isalnum() else "-" for c in os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        folder = pathlib.Path(tempfile.gettempdir())
        while not _claim:
            for ordinal in ordinals:
                lock = _locked(folder / f"warploom-gpu-{visible}-{ordinal}.lock")
                if lock is not None:
                    _claim.append((ordinal, lock))
                    break
            else:
                time.sleep(1)
    return _claim[0][0]


def _locked(path: pathlib.Path) -> int | None:
    """Lock a file of all users as long as this process lives, or return None if another process has.

    Files in the temporary folder are those of the user who made them. They are locked without being written, for which
    it is enough to read them, and opened without O_CREAT, which Linux forbids for files of others there.
    """
    import fcntl

    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:  # another process was faster
            return None
        os.fchmod(descriptor, 0o644)  # whatever the mask of this process
    except PermissionError as error:
        raise DeviceError(f"GPUs cannot be shared: another user's {path} cannot be read", argument="gpus") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


# ----- In the process that was started -----


class _Pool:
    """Processes of this machine, started anew after one has died."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
            self._pool = concurrent.futures.ProcessPoolExecutor(
                self.workers, mp_context=context, initializer=end_with_parent
            )
        return self._pool.submit(function, *arguments)

    def restart(self) -> None:
        self.close()

    def close(self, *, now: bool = False) -> None:
        """End the processes, `now` or when they have done what they are at."""
        if self._pool is not None:
            if now:
                for process in list((self._pool._processes or {}).values()):
                    process.kill()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


class _Given:
    """An executor of the caller's, which replaces processes that die itself."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._executor.submit(function, *arguments)

    def restart(self) -> None:
        pass

    def close(self, *, now: bool = False) -> None:
        pass


class _Loop:
    """Keeps every GPU busy: matrices are loaded ahead, measured, and their measurements written."""

    def __init__(
        self,
        jobs: list[_Job],
        pool: _Pool | _Given,
        loaders: _Pool | None,
        workers: int,
        scratch: pathlib.Path,
        store: Store,
        report: Report,
        deadline: float | None,
        progress: Callable[[int, int, str], None] | None,
    ) -> None:
        self.waiting = collections.deque(jobs)
        self.total = len(jobs)
        self.pool, self.loaders, self.workers = pool, loaders, workers
        self.scratch, self.store, self.report = scratch, store, report
        self.deadline, self.progress = deadline, progress
        self.loading: dict[Future[Any], _Job] = {}
        self.ready: collections.deque[_Job] = collections.deque()
        self.running: dict[Future[Any], _Job] = {}
        self.suspects: collections.deque[_Job] = collections.deque()
        """In progress when a process died: measured one at a time, to find out which of them it was."""

    def run(self) -> None:
        while self.waiting or self.loading or self.ready or self.running or self.suspects:
            if self.deadline is not None and time.monotonic() > self.deadline:
                self.report.left += len(self.waiting) + len(self.ready) + len(self.loading)
                for future in self.loading:
                    future.cancel()
                for queue in (self.waiting, self.ready, self.loading):
                    queue.clear()
            self._start()
            futures = [*self.loading, *self.running]
            if futures:
                finished, _ = concurrent.futures.wait(
                    futures, timeout=1.0, return_when=concurrent.futures.FIRST_COMPLETED
                )
                for future in finished:
                    if future in self.loading:
                        self._loaded(future, self.loading.pop(future))
                    elif future in self.running:
                        self._measured(future, self.running.pop(future))

    def _start(self) -> None:
        if self.loaders is None:
            while self.waiting and len(self.ready) < self.workers:
                self.ready.append(self.waiting.popleft())
        else:
            while self.waiting and len(self.loading) + len(self.ready) < self.loaders.workers + self.workers:
                job = self.waiting.popleft()
                self.loading[self.loaders.submit(_load, job, self.scratch)] = job
        if self.suspects:
            if not self.running:
                self._submit(self.suspects.popleft())
            return
        while self.ready and len(self.running) < self.workers:
            self._submit(self.ready.popleft())

    def _submit(self, job: _Job) -> None:
        self.running[self.pool.submit(_measure, job)] = job

    def _loaded(self, future: Future[Any], job: _Job) -> None:
        try:
            folder, facts = future.result()
            self.ready.append(dataclasses.replace(job, folder=folder, facts=facts))
        except BrokenExecutor:
            # Perhaps for lack of memory. The measuring process tries, and if it dies too, the culprit is known.
            if self.loaders is not None:
                self.loaders.restart()
            self.ready.append(job)
        except (WarploomError, OSError, ValueError, MemoryError) as error:
            self._skip(job, " ".join(str(error).split()) or type(error).__name__)

    def _measured(self, future: Future[Any], job: _Job) -> None:
        try:
            outcome: _Outcome = future.result()
        except BrokenExecutor:
            self._died(job)
            return
        if outcome.skipped or outcome.facts is None:
            self._skip(job, outcome.skipped)
            return
        self.store.append(outcome.facts, outcome.rows, outcome.environment, settings=job.settings)
        self.report.measured += 1
        self._advance(job.entry.name)

    def _died(self, job: _Job) -> None:
        in_hand = [job, *self.running.values()]
        self.running.clear()
        self.pool.restart()
        if len(in_hand) > 1:
            self.suspects.extend(dataclasses.replace(j, folder=None) for j in in_hand)
            return
        note = "its process died, or took more than three times the limit"
        if job.facts is not None:
            rows = [
                {"matrix": job.entry.name, "setting": s.name, "op": s.op, "dtype": s.dtype, "candidate": ""}
                | {"status": "error", "note": note, "k": s.columns(job.facts["rows"])}
                for s in job.parsed()
            ]
            self.store.append(job.facts, rows, {"device": job.device}, settings=job.settings)
        self._skip(job, note)

    def _skip(self, job: _Job, reason: str) -> None:
        self.report.skipped[job.entry.name] = reason
        self._advance(job.entry.name)

    def _advance(self, name: str) -> None:
        if self.progress:
            self.progress(self.report.measured + len(self.report.skipped), self.total, name)

"""Make, use and drop random plans on a GPU for minutes, and say whether memory stays flat and every product is right.

``python tests/gpu/endurance.py --minutes 5 --processes 16`` starts processes (by spawning them), which share the GPUs
that ``CUDA_VISIBLE_DEVICES`` leaves, with several threads each. Every thread makes plans for random matrices, value
types, operations and candidates of the registries: predicted, from a list, named, now and then measured; multiplies
operands of NumPy and of PyTorch, on a stream of its own; gives plans new values, transposes, saves and loads them; and
multiplies plans that other threads made while those use them. Samples of every result are compared with float64 sums.

Every few seconds the threads of a process stop and drop what they have. Then its host memory is noted, by what malloc
has given out (all of it, whichever library asked; Python's objects come from malloc here, too) and by what is resident
after what is free was given back, and what the GPU's pools of the core hold. What malloc has given out must not grow
steadily: from the second quarter of the time on, the median growth between two notes, times their number, must stay
below 32 MB. A leak shows between any two notes, which are hundreds of plans apart; libraries that load kernels when
they are first used (cuBLAS: up to 160 MB at once) show between a few, and that growth is told and not judged. Nor is
resident memory, where malloc counts: threads have arenas of their own, which keep gaps. The pools must not grow by more
than 64 MB beyond what they may keep. The memory in use on each of those GPUs, whoever uses it, is noted too. Each
process forks children, which must get a clean error instead of a product, and end.

Before the first note, every kernel is used in every value type and setting, those of the vendor's libraries for many
shapes, and then all of it once more: ``loaded_mb`` is what malloc had given out more after a kernel than before it,
``loaded_again_mb`` the same of the second time. What is loaded is in the first alone, what leaks is in both. That takes
a quarter of the time at most. With ``CUDA_MODULE_LOADING=EAGER`` in the environment, CUDA loads nothing later.

``--without cublas`` leaves out kernels whose name contains that, to see what a library adds.

With ``--device cpu`` the same on the CPU, where no GPU is needed and children that were forked multiply.

One line of JSON is printed for each process, and one for all of them; the exit status is 1 if anything was wrong.

The lines have the series of the notes, of twenty of them at most: ``at_s``, ``in_use_mb`` and ``host_mb``.

An hour may be run in slices: ``--output FILE`` appends the line for all processes to a file, with other matrices each
time, and ``--sum FILE`` adds the slices up.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import datetime
import gc
import itertools
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import traceback

from visible import used_mib, visible_gpus

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

LIBRARIES = ("cuBLAS", "cuSPARSE")  # as sources of kernels
HOST_GROWTH_BYTES, POOL_GROWTH_BYTES = 32 << 20, 64 << 20


# ---- The parent


def slices(file: pathlib.Path) -> list[dict]:
    """The slices that a file has: a line that was cut off, by a kill or a full disk, is none."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else ():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def append(file: pathlib.Path, summary: dict) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.read_bytes() if file.exists() else b""
    with file.open("a") as stream:
        stream.write(("\n" if before and not before.endswith(b"\n") else "") + json.dumps(summary) + "\n")


def ends_of(result: dict, name: str) -> list[int]:
    """The first and the last number that a process has noted."""
    noted = result.get(name, [])
    return [noted[0], noted[-1]] if noted else []


def total_of(rows: list[dict]) -> dict:
    """Slices added up: minutes, plans, products, and the most that memory grew by in a process of any of them."""
    counts: collections.Counter = collections.Counter()
    for row in rows:
        counts.update(row["counts"])

    def most(name: str) -> float | None:
        return max((value for row in rows for value in row.get(name, ()) if value is not None), default=None)

    return {
        "slices": len(rows),
        "good": sum(row["verdict"] == "good" for row in rows),
        "minutes": round(sum(row["minutes"] for row in rows), 2),
        "process_minutes": round(sum(row["minutes"] * row["processes"] for row in rows), 1),
        "processes": sum(row["processes"] for row in rows),
        "plans": sum(number for name, number in counts.items() if name.startswith("plans ")),
        "products": sum(number for name, number in counts.items() if "products" in name),
        "counts": dict(sorted(counts.items())),
        "most_steady_growth_mb": most("steady_growth_mb"),
        "most_in_use_growth_mb": most("in_use_growth_mb"),
        "most_host_growth_mb": most("host_growth_mb"),
        "most_pool_growth_bytes": most("pool_growth_bytes"),
    }


def environment_of(gpu: str) -> dict[str, str]:
    """The environment of a process, in which malloc gives out what Python's small objects are made in, too."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu, "OMP_NUM_THREADS": "1"}
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):  # which has no choice
        environment["PYTHONMALLOC"] = "malloc"
    return environment


def supervise(options: argparse.Namespace) -> int:
    gpus = visible_gpus() if options.device == "cuda" else []
    if options.device == "cuda" and not gpus:
        raise SystemExit("no GPU is visible; --device cpu needs none")
    start = time.monotonic()
    processes = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.processes):
            command = [sys.executable, __file__, "--worker", str(number), "--minutes", str(options.minutes)]
            command += ["--threads", str(options.threads), "--seed", str(options.seed), "--device", options.device]
            command += [argument for name in options.without for argument in ("--without", name)]
            environment = environment_of(gpus[number % len(gpus)] if gpus else "")
            output = (pathlib.Path(folder) / str(number)).open("w+")
            processes.append((subprocess.Popen(command, env=environment, stdout=output, stderr=output), output))
        used = []
        latest = start + 60 * options.minutes + 90
        while any(process.poll() is None for process, _ in processes) and time.monotonic() < latest:
            used.append(used_mib(gpus))
            noted = time.monotonic()
            while time.monotonic() < noted + 5 and any(process.poll() is None for process, _ in processes):
                time.sleep(0.1)
        found = []
        for number, (process, output) in enumerate(processes):
            ended = process.poll()
            if ended is None:
                process.kill()
                process.wait()
            output.seek(0)
            text = output.read()
            lines = [line for line in text.splitlines() if line.startswith('{"process"')]
            result = json.loads(lines[-1]) if lines else {"process": number, "verdict": "no result"}
            if ended != 0 and result["verdict"] == "good":
                result["verdict"] = "did not end" if ended is None else f"ended with {ended}"
            if result["verdict"] != "good":
                print(text[-3000:], flush=True)
            print(json.dumps(result), flush=True)
            found.append(result)
    good = sum(result["verdict"] == "good" for result in found)
    total: collections.Counter = collections.Counter()
    for result in found:
        total.update({name: value for name, value in result.get("counts", {}).items()})
    quarter = max(1, len(used) // 4)
    summary = {
        "date": datetime.date.today().isoformat(),
        "device": options.device,
        "seed": options.seed,
        "processes": len(found),
        "good": good,
        "threads": options.processes * options.threads,
        "minutes": round((time.monotonic() - start) / 60, 2),
        "counts": dict(sorted(total.items())),
        "without": options.without,
        "steady_growth_mb": [result.get("steady_growth_mb") for result in found],
        "in_use_growth_mb": [result.get("in_use_growth_mb") for result in found],
        "host_growth_mb": [result.get("host_growth_mb") for result in found],
        "pool_growth_bytes": [result.get("pool_growth_bytes") for result in found],
        "loaded_mb": [result.get("loaded_mb") for result in found],
        "loaded_again_mb": [result.get("loaded_again_mb") for result in found],
        # Of each process, whenever its threads had stopped; of the pools, for the first time and for the last.
        "at_s": [result.get("at_s", []) for result in found],
        "in_use_mb": [result.get("in_use_mb", []) for result in found],
        "host_mb": [result.get("host_mb", []) for result in found],
        "pool_bytes": [ends_of(result, "pool_bytes") for result in found],
        # While everything runs, so that it goes up and down: means of quarters.
        "gpu_used_mib": [
            [
                round(sum(sample[gpu] for sample in used[i : i + quarter]) / quarter)
                for i in range(0, len(used), quarter)
            ]
            for gpu in range(len(gpus))
        ],
        "verdict": "good" if good == len(found) else "bad",
    }
    print(json.dumps(summary), flush=True)
    if options.output:
        append(options.output, summary)
    return int(good != len(found))


# ---- A process


def resident_bytes() -> int:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class MallocInfo(ctypes.Structure):
    """What glibc's mallinfo2 returns (mallinfo(3))."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def in_use_bytes() -> int | None:
    """What malloc has given out in all arenas; None where the C library does not say."""
    with contextlib.suppress(OSError, AttributeError):
        mallinfo = ctypes.CDLL("libc.so.6").mallinfo2
        mallinfo.restype = MallocInfo
        info = mallinfo()
        return info.uordblks + info.hblkhd
    return None


def growth(samples: list[tuple[float, ...]], which: int) -> float:
    """By how much the mean of the last quarter is above that of the second."""
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    return (sum(s[which] for s in late) - sum(s[which] for s in early)) / max(quarter, 1)


def steady_growth(samples: list[tuple[float, ...]], which: int) -> float:
    """What grows between any two notes from the second quarter on: the median, times their number."""
    notes = [sample[which] for sample in samples[len(samples) // 4 :]]
    steps = [late - early for early, late in itertools.pairwise(notes)]
    return statistics.median(steps) * len(steps) if steps else 0.0


def shown(samples: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """The first, the last, and some between."""
    most = 20
    if len(samples) <= most:
        return samples
    return [samples[i * (len(samples) - 1) // (most - 1)] for i in range(most)]


class Wrong(Exception):
    """A product that differs from SciPy's."""


class Work:
    """What the threads of a process share."""

    widths = (1, 2, 3, 5, 8, 16, 31, 32, 33, 64, 100)

    def __init__(self, options: argparse.Namespace):
        import numpy as np
        import torch
        from scipy.sparse import csr_array

        import warploom as wl
        from warploom import _bfloat16, _core, _device
        from warploom.candidates import Candidate, kernels

        self.np, self.torch, self.wl, self.core, self.csr_array = np, torch, wl, _core, csr_array
        self.bfloat16, self.Candidate = _bfloat16, Candidate
        self.device = options.device
        on_gpu = self.device == "cuda"
        without = _device.load_cusparse() if on_gpu else "a GPU's"
        self.kernels = {
            op: [
                k
                for k in kernels(op)
                if not (k.vendor and without)
                and self.device in k.devices
                and not any(name in f"{k.format}/{k.name}" for name in options.without)
            ]
            for op in ("spmv", "spmm")
        }
        self.permutations = [name for name in wl.permutations.names() if name != "none"]
        self.options = options
        self.matrices = [self.matrix(seed) for seed in range(12)]
        self.counts: collections.Counter = collections.Counter()
        self.kept: list = []  # plans that all threads multiply
        self.lock = threading.Lock()
        self.failures: list[str] = []
        self.folder = tempfile.TemporaryDirectory()

    def matrix(self, seed: int):
        np = self.np
        rng = np.random.default_rng([self.options.seed, self.options.worker, seed])
        m, n = (int(10 ** rng.uniform(0, 4)) for _ in range(2))
        mean = rng.uniform(0, 20)
        kind = rng.integers(4)
        if kind == 0:
            lengths = np.minimum((rng.pareto(1.2, m) * mean / 3).astype(np.int64), 4 * n)
        elif kind == 1:
            lengths = np.full(m, int(mean))
        elif kind == 2:
            lengths = np.where(rng.random(m) < 0.5, 0, rng.integers(0, int(2 * mean) + 1, m))
        else:
            lengths = rng.integers(0, int(mean) + 1, m)
            lengths[rng.integers(m)] = min(20_000, 4 * n)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        if kind == 1:  # a band
            indices = (np.repeat(np.arange(m), lengths) + np.arange(indptr[-1]) % max(int(mean), 1)) % n
        else:
            indices = rng.integers(0, n, indptr[-1])
        values = rng.standard_normal(indptr[-1]).astype(np.float32)
        return self.csr_array((values, indices.astype(np.int32), indptr.astype(np.int32)), shape=(m, n))

    def typed(self, matrix, dtype):
        result = self.wide(matrix)
        result.data = self.bfloat16.cast(matrix.data, dtype)
        return result

    def wide(self, matrix):
        """The matrix in float64."""
        data = self.bfloat16.cast(matrix.data, self.np.dtype(self.np.float64))
        return self.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)

    def check(self, matrix, B, C, draw, what: str, precision: str = "full") -> None:
        """Compare some rows with float64 sums; where a row of the vendor's sums in two bytes, within their rounding."""
        np = self.np
        wide = np.dtype(np.float64)
        B, C = (self.bfloat16.cast(array, wide).reshape(len(array), -1) for array in (B, C))
        rows = sorted(draw.sample(range(matrix.shape[0]), min(30, matrix.shape[0])))
        eps = 2.0**-7 if matrix.data.dtype.itemsize == 2 else float(np.finfo(matrix.data.dtype).eps)
        if precision == "tf32":
            eps = 2.0**-9
        for row in rows:
            begin, end = matrix.indptr[row], matrix.indptr[row + 1]
            terms = self.bfloat16.cast(matrix.data[begin:end], wide)[:, None] * B[matrix.indices[begin:end]]
            bound = eps * (end - begin + 4) * abs(terms).sum(axis=0) + 1e-6 * (eps > 1e-4)
            if not (abs(C[row] - terms.sum(axis=0)) <= bound).all():
                raise Wrong(f"row {row} of {what}")
        self.count("products checked")

    def count(self, name: str, number: int = 1) -> None:
        with self.lock:
            self.counts[name] += number

    # ---- One plan

    def operand(self, shape, dtype, draw, where):
        np = self.np
        values = np.random.default_rng(draw.getrandbits(32)).standard_normal(shape)
        values = self.bfloat16.cast(values, dtype)
        return values, (values if where == "numpy" else self.tensor(values, where))

    def tensor(self, values, where):
        torch = self.torch
        tensor = torch.from_numpy(values.view(self.np.int16)).view(torch.bfloat16) if self.is_bfloat16(values) else None
        tensor = torch.from_numpy(values) if tensor is None else tensor
        return tensor.cuda() if where == "cuda" and self.device == "cuda" else tensor

    def is_bfloat16(self, values) -> bool:
        return self.bfloat16.is_bfloat16(values.dtype)

    def host(self, result):
        if not hasattr(result, "cpu"):
            return result
        return self.bfloat16.of_tensor(result.cpu().contiguous())

    def choose(self, op, draw):
        """Options of a plan: how it is chosen, and for what."""
        kernel = draw.choice(self.kernels[op])
        layout = draw.choice(kernel.layouts) if op == "spmm" else "column"
        dtype = draw.choice(kernel.dtypes)
        shape = {"k": draw.choice(self.widths), "layout": layout} if op == "spmm" else {}
        # On a CPU nothing is predicted.
        weights = [60, 20, 18, 2] if self.device == "cuda" else [94, 0, 0, 6]
        if self.options.without:
            weights[2] = 0  # whatever is predicted
        way = draw.choices(["named", "listed", "predicted", "measured"], weights)[0]
        options = {"device": self.device, "cache": draw.choice(["warm", "cold"]), **shape}
        if way == "named":
            permutation = "none"
            if kernel.permutes and draw.random() < 0.4:
                permutation = draw.choice(self.permutations)
            parameters = {p.name: draw.choice(p.values) for p in kernel.parameters if draw.random() < 0.3}
            options["select"] = self.Candidate.make(kernel, permutation, parameters).name
        elif way == "listed":
            options["candidates"] = [*self.patterns(op, "*", kernel.format), *self.patterns(op, "none", "csr")]
        elif way == "measured":
            options |= {
                "select": "measure",
                "budget": 0.2,
                "candidates": [*self.patterns(op, "none", kernel.format), *self.patterns(op, "none", "csr")],
            }
        options["calls"] = draw.choice([1, 1000, float("inf")])
        return way, dtype, options

    def patterns(self, op: str, permutation: str, of_format: str) -> list[str]:
        """The candidates of a format, but for kernels that are left out."""
        if not self.options.without:
            return [f"{op}/{permutation}/{of_format}/*"]
        names = [kernel.name for kernel in self.kernels[op] if kernel.format == of_format]
        return [f"{op}/{permutation}/{of_format}/{name}{end}" for name in names for end in ("", "[*")]

    def one(self, draw) -> None:
        wl, np = self.wl, self.np
        dtype_name = None
        matrix = draw.choice(self.matrices)
        op = draw.choices(["spmv", "spmm", "sddmm"], [5, 5, 1])[0]
        if op == "sddmm":
            return self.sample(matrix, draw)
        way, dtype_name, options = self.choose(op, draw)
        dtype = self.bfloat16.as_dtype(dtype_name)
        A = self.typed(matrix, dtype)
        updatable = draw.random() < 0.3
        given = A
        if draw.random() < 0.4 and 0 not in A.shape:
            given = wl.CSR(*(self.tensor(np.asarray(a), "cuda") for a in (A.indptr, A.indices, A.data)), shape=A.shape)
        try:
            plan = wl.plan(given, op, updatable=updatable, **options)
        except wl.errors.ParameterError:
            self.count("refused")
            return None
        self.count(f"plans {way}")
        self.use(plan, A, op, options.get("k"), draw)
        if updatable:
            values = self.bfloat16.cast(np.random.default_rng(draw.getrandbits(32)).standard_normal(A.nnz), dtype)
            plan.update_values(values if draw.random() < 0.5 else self.tensor(values, "cuda"))
            self.synchronize()
            A = self.typed(self.csr_array((values, A.indices, A.indptr), shape=A.shape), dtype)
            self.use(plan, A, op, options.get("k"), draw)
            self.count("plans updated")
        elif draw.random() < 0.1 and given is A:
            path = pathlib.Path(self.folder.name) / f"{threading.get_ident()}.safetensors"
            plan.save(path)
            self.use(wl.load_plan(path, device=self.device), A, op, options.get("k"), draw)
            self.count("plans loaded")
        elif draw.random() < 0.1:
            T = self.csr_array(self.wide(A).T)
            B, there = self.operand((A.shape[0],) if op == "spmv" else (A.shape[0], 3), dtype, draw, "numpy")
            self.check(
                self.typed(T, dtype),
                B,
                self.host(plan.T @ there),
                draw,
                f"the transpose of {plan.candidate}",
                plan.precision,
            )
            self.count("transposes")
        if not updatable and draw.random() < 0.2:
            with self.lock:
                self.kept.append((plan, A, op, options.get("k")))
                del self.kept[:-8]
        return None

    def use(self, plan, A, op, k, draw) -> None:
        columns = () if op == "spmv" else (draw.choice([k, k, max(1, k - 1), k + 3]),)
        B, there = self.operand(
            (A.shape[1], *columns), A.data.dtype, draw, draw.choice(["numpy", "cpu", "cuda", "cuda"])
        )
        C = self.host(plan @ there)
        self.check(A, B, C, draw, f"{plan.candidate}, {A.shape}, {A.data.dtype}, {columns}", plan.precision)

    def sample(self, matrix, draw) -> None:
        np = self.np
        plan = self.wl.sddmm_plan(matrix, device=self.device)
        dtype = self.bfloat16.as_dtype(draw.choice(["float16", "bfloat16", "float32", "float64"]))
        where, k = draw.choice(["numpy", "cuda"]), draw.choice([1, 4, 17, 32, 64])
        pairs = [self.operand((rows, k), dtype, draw, where) for rows in matrix.shape]
        values = self.bfloat16.cast(self.host(plan(pairs[0][1], pairs[1][1])), np.dtype(np.float64))
        x, y = (self.bfloat16.cast(pair[0], np.dtype(np.float64)) for pair in pairs)
        eps = 2.0**-7 if dtype.itemsize == 2 else float(np.finfo(dtype).eps)
        owner = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        for entry in draw.sample(range(matrix.nnz), min(50, matrix.nnz)):
            terms = x[owner[entry]] * y[matrix.indices[entry]]
            if not abs(values[entry] - terms.sum()) <= eps * (k + 4) * abs(terms).sum() + 1e-6 * (eps > 1e-4):
                raise Wrong(f"entry {entry} of a sampled product, {matrix.shape}, {dtype}, {k}")
        self.count("sampled products checked")

    def multiply_kept(self, draw) -> None:
        with self.lock:
            found = draw.choice(self.kept) if self.kept else None
        if found:
            plan, A, op, k = found
            columns = () if op == "spmv" else (k,)
            B, there = self.operand((A.shape[1], *columns), A.data.dtype, draw, "numpy")
            self.check(A, B, plan @ there, draw, f"{plan.candidate}, shared", plan.precision)
            self.count("products of shared plans")

    # ---- Threads, and what stops them

    def run_thread(self, number: int, stop: threading.Event) -> None:
        draw = random.Random(f"{self.options.seed}/{self.options.worker}/{number}/{time.monotonic()}")
        torch = self.torch
        stream = torch.cuda.Stream() if self.device == "cuda" else None
        while not stop.is_set() and len(self.failures) < 5:
            try:
                with torch.cuda.stream(stream) if stream else contextlib.nullcontext():
                    self.one(draw)
                    self.multiply_kept(draw)
            except Exception:
                with self.lock:
                    self.failures.append(traceback.format_exc()[-1500:])
        if stream:
            stream.synchronize()

    def slice(self, seconds: float) -> None:
        stop = threading.Event()
        threads = [threading.Thread(target=self.run_thread, args=(i, stop)) for i in range(self.options.threads)]
        for thread in threads:
            thread.start()
        time.sleep(max(0.0, seconds))
        stop.set()
        for thread in threads:
            thread.join()
        self.kept.clear()
        gc.collect()
        self.synchronize()

    def synchronize(self) -> None:
        if self.device == "cuda":
            self.torch.cuda.synchronize()
            self.torch.cuda.empty_cache()

    def pool_bytes(self) -> int:
        return self.core.memory_in_pools(0)[1] if self.device == "cuda" else 0

    def kept_bytes(self) -> int:
        """What the pools keep of freed memory (cpp/src/device/workspace.cu)."""
        if self.device != "cuda":
            return 0
        return (512 << 20) + max(256 << 20, self.torch.cuda.mem_get_info(0)[1] // 256)

    def use_every_kernel(self, until: float) -> dict[str, float]:
        """Use them, those of libraries first; return how many megabytes malloc has given out more after each."""
        np = self.np
        draw, rng = random.Random(0), np.random.default_rng(0)
        rows, columns = np.ogrid[:400, :300]
        # For formats that need many nonzeros, and for those that need few diagonals or blocks.
        small = [
            self.csr_array(np.where(mask, rng.standard_normal(mask.shape), 0).astype(np.float32))
            for mask in (rng.random((400, 300)) < 0.1, abs(rows - columns) < 4)
        ]
        grew: dict[str, float] = {}
        for kernel in sorted(
            (k for known in self.kernels.values() for k in known), key=lambda k: k.source not in LIBRARIES
        ):
            before = in_use_bytes()
            for dtype, A, options, parameters in self.uses(kernel, small):
                if time.monotonic() > until:
                    return grew
                typed = self.typed(A, self.bfloat16.as_dtype(dtype))
                with contextlib.suppress(self.wl.errors.ParameterError):
                    name = self.Candidate.make(kernel, "none", parameters).name
                    plan = self.wl.plan(typed, kernel.op, device=self.device, select=name, **options)
                    self.use(plan, typed, kernel.op, options.get("k"), draw)
                    del plan
            self.synchronize()
            after = in_use_bytes()
            if before is not None and after is not None:
                grew[f"{kernel.op}/{kernel.format}/{kernel.name}"] = round((after - before) / 1e6, 2)
        return grew

    def uses(self, kernel, small):
        """Value types, matrices, shapes and settings; of a library, whose choice nobody knows, for many shapes."""
        few, of_library = (1, 33, 64), kernel.source in LIBRARIES
        others = [A for A in self.matrices if 0 < A.shape[0] * A.shape[1] < 10**6] if of_library else []

        def shapes(widths):
            if kernel.op == "spmv":
                return [{}]
            return [{"k": k, "layout": layout} for layout in kernel.layouts for k in widths]

        for dtype in kernel.dtypes:
            for A in small:
                yield from ((dtype, A, options, {}) for options in shapes(self.widths if of_library else few))
                for parameter in kernel.parameters:
                    yield from ((dtype, A, shapes([33])[-1], {parameter.name: value}) for value in parameter.values)
            for A in others:
                yield from ((dtype, A, options, {}) for options in shapes(few))

    def fork(self) -> None:
        """A child forked while a thread multiplies must not multiply on the GPU, and must end."""
        A = next(A for A in self.matrices if A.nnz)
        plan = self.wl.plan(A, "spmv", device=self.device, select="spmv/none/csr/vector")
        x = self.np.ones(A.shape[1], A.dtype)
        expected = plan @ x
        stop = threading.Event()

        def multiply():
            while not stop.is_set():
                plan @ x

        thread = threading.Thread(target=multiply)
        thread.start()
        try:
            for _ in range(3):
                child = os.fork()
                if child == 0:
                    status = 1
                    try:
                        y = plan @ x
                        status = int(self.device == "cuda" or y.tobytes() != expected.tobytes())
                    except self.wl.errors.DeviceError:
                        status = int(self.device == "cpu")
                    finally:
                        os._exit(status)
                latest = time.monotonic() + 20
                while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < latest:
                    time.sleep(0.01)
                if ended == (0, 0):
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    self.failures.append("a forked child did not end")
                elif ended[1] != 0:
                    self.failures.append(f"a forked child ended with {ended[1]}")
                self.count("forks")
        finally:
            stop.set()
            thread.join()
        if (plan @ x).tobytes() != expected.tobytes():
            self.failures.append("another product after a fork")


def work(options: argparse.Namespace) -> int:
    begin = time.monotonic()
    end = begin + 60 * options.minutes
    state = Work(options)
    loaded: dict[str, float] = {}
    again: dict[str, float] = {}
    try:
        loaded = state.use_every_kernel(begin + 0.15 * 60 * options.minutes)
        again = state.use_every_kernel(begin + 0.25 * 60 * options.minutes)
        state.fork()
    except Exception:
        state.failures.append(traceback.format_exc()[-1500:])
    samples: list[tuple[float, ...]] = []  # time, resident, in pools, in use
    period = max(2.0, min(10.0, 60 * options.minutes / 40))
    while time.monotonic() < end - 1 and not state.failures:
        state.slice(min(period, end - time.monotonic() - 1))
        resident, in_use = resident_bytes(), in_use_bytes()
        samples.append((time.monotonic() - begin, resident, state.pool_bytes(), resident if in_use is None else in_use))
    if not state.failures:
        state.fork()
    kept = state.kept_bytes()
    host, in_use, steady = growth(samples, 1), growth(samples, 3), steady_growth(samples, 3)
    pools = growth([(*sample[:2], max(sample[2], kept)) for sample in samples], 2)
    verdict = "good"
    if state.failures:
        verdict = "failed: " + state.failures[0]
    elif len(samples) < 8:
        verdict = "too short for a verdict on memory"
    elif steady > HOST_GROWTH_BYTES or pools > POOL_GROWTH_BYTES:
        verdict = "memory grows"
    result = {
        "process": options.worker,
        "verdict": verdict,
        "seconds": round(time.monotonic() - begin, 1),
        "counts": dict(sorted(state.counts.items())),
        "steady_growth_mb": round(steady / 1e6, 2),
        "in_use_growth_mb": round(in_use / 1e6, 2),
        "host_growth_mb": round(host / 1e6, 2),
        "pool_growth_bytes": round(pools),
        "loaded_mb": {name: grew for name, grew in loaded.items() if abs(grew) >= 1},
        "loaded_again_mb": {name: grew for name, grew in again.items() if abs(grew) >= 1},
        "at_s": [round(s[0]) for s in shown(samples)],
        "in_use_mb": [round(s[3] / 1e6, 1) for s in shown(samples)],
        "host_mb": [round(s[1] / 1e6) for s in shown(samples)],
        "pool_bytes": [s[2] for s in shown(samples)],
    }
    print(json.dumps(result), flush=True)
    return int(verdict != "good")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--threads", type=int, default=4, help="of each process")
    parser.add_argument("--seed", type=int, help="of the matrices; by default the number of slices that --output has")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument(
        "--without", action="extend", nargs="+", default=[], metavar="NAME", help="leave kernels with it out"
    )
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE", help="append the line for all processes to it")
    parser.add_argument("--sum", type=pathlib.Path, metavar="FILE", help="add up the slices of this file, and run none")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sum:
        total = total_of(slices(options.sum))
        print(json.dumps(total, indent=2))
        return int(total["good"] != total["slices"] or not total["slices"])
    if options.seed is None:
        options.seed = len(slices(options.output)) if options.output else 0
    return supervise(options) if options.worker is None else work(options)


if __name__ == "__main__":
    sys.exit(main())

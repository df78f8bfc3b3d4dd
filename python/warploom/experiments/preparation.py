"""What it takes to prepare each candidate that a profile knows, for a matrix in GPU memory.

The profile's models of preparation are fitted to it: ``warploom train --profile``. Times are those of the wall clock
on the host, from the request until the plan is ready, without the upload of the matrix: the row permutation and the
conversion to the format.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from warploom import _core, permutations, profiles
from warploom._device import Device
from warploom._matrix import as_csr
from warploom.bench.end_to_end.sample import sample
from warploom.bench.loading import loaded
from warploom.bench.settings import Setting
from warploom.candidates import Candidate, parse
from warploom.corpus import Entry
from warploom.errors import IndexOverflowError, OutOfMemoryError, ParameterError, WarploomError
from warploom.experiments._wall_clock import median_us
from warploom.experiments.features import features_call
from warploom.experiments.registry import Progress, register
from warploom.plan import problem_of
from warploom.profiles import Profile

__all__ = ["MINUTES", "Kind", "candidates_of", "measure", "preparations", "profile_for"]

MINUTES = 8.0
"""No candidate is started after so many minutes, unless another limit is given."""
SEARCH_ROWS = 30_000
"""Permutations that search for nearest rows are left out on matrices with more rows."""
_REPEATS = 3
_AHEAD = 2
"""Processes that make the matrices of the sample."""
_SLOW_MS, _VERY_SLOW_MS = 100.0, 1000.0
_COLUMNS_OF_B = 32

Kind = tuple[str, str, str]
"""Operation, value type and layout of B and C, which is empty for SpMV."""


@register(
    "preparation",
    "Preparation of the candidates of a profile, for matrices in GPU memory",
    columns={
        "matrix": "name in the corpus",
        "family": "family of the construction",
        "rows": "rows",
        "cols": "columns",
        "nnz": "nonzeros",
        "longest_row": "nonzeros of the longest row",
        "op": "operation",
        "dtype": "value type",
        "layout": "layout of B and C; empty for SpMV",
        "candidate": "name of the candidate",
        "preparation_ms": "median time of row permutation and conversion, milliseconds; empty where there is none",
        "status": "ok, unsupported (refuses the matrix), out of memory, error, or left out (would search for too long)",
        "features_us": "features that choosing for the operation reads, microseconds; the same for all its candidates",
    },
    can_be_limited=True,
)
def measure(
    device: Device,
    progress: Progress,
    minutes: float = MINUTES,
    entries: Sequence[Entry] | None = None,
    profile: Profile | None = None,
) -> pd.DataFrame:
    """Prepare every candidate for every matrix.

    Parameters
    ----------
    device : Device
        On the CPU, what runs there only is prepared, and what runs on GPUs only counts as unsupported.
    progress : callable
        Told of every matrix.
    minutes : float
        No candidate is started after that; the table has what was measured until then.
    entries : sequence of Entry, optional
        The matrices; those of `warploom.bench.end_to_end.sample.sample` if not given, in whose order each first part
        has matrices of all sizes.
    profile : Profile, optional
        Where the candidates come from; `profile_for` the device if not given.

    Returns
    -------
    pandas.DataFrame
        One row for each matrix, kind of product and candidate.
    """
    chosen = sample() if entries is None else entries
    kinds = candidates_of(profile_for(device) if profile is None else profile)
    deadline = time.monotonic() + 60 * minutes
    rows: list[dict[str, Any]] = []
    for done, (entry, load) in enumerate(loaded(chosen, Entry.load, _AHEAD if entries is None else 0)):
        if time.monotonic() >= deadline:
            break
        progress(done, len(chosen), entry.name)
        known = {"matrix": entry.name, "family": entry.family}
        rows += [known | row for row in preparations(load(), kinds, device, deadline)]
    return pd.DataFrame(rows)


def profile_for(device: Device) -> Profile:
    """Return the profile that plans use on a GPU, or one that is shipped where there is none, as for the CPU."""
    if device.kind == "cuda":
        capability = _core.cuda_info()["devices"][device.ordinal]["compute_capability"]
        found = profiles.find(device.name, tuple(capability))
    else:
        found = profiles.find(profiles.names()[0])
    if found is None:
        raise ParameterError("there is no profile whose candidates could be prepared", argument="profile")
    return found.profile


def candidates_of(profile: Profile) -> dict[Kind, list[Candidate]]:
    """Return the candidates of the models of preparation, by kind of product."""
    found: dict[Kind, list[Candidate]] = {}
    for name, model in profile.models.items():
        if name.startswith("preparation-"):
            op, dtype, *layout = name.split("-")[1:]
            found[op, dtype, "".join(layout)] = [parse(output) for output in model.outputs]
    return found


def preparations(
    A: scipy.sparse.csr_array,
    kinds: Mapping[Kind, Sequence[Candidate]],
    device: Device,
    deadline: float = np.inf,
) -> Iterator[dict[str, Any]]:
    """Prepare candidates for one matrix.

    Parameters
    ----------
    A : csr_array, shape (m, n)
    kinds : mapping
        Candidates by kind of product.
    device : Device
    deadline : float
        Time of `time.monotonic` after which nothing is started.

    Yields
    ------
    dict
        The row of a candidate, without the name and family of the matrix.
    """
    facts = {
        "rows": A.shape[0],
        "cols": A.shape[1],
        "nnz": A.nnz,
        "longest_row": int(np.diff(A.indptr).max(initial=0)),
    }
    features_us: dict[str, float] = {}
    for (op, dtype, layout), candidates in kinds.items():
        known = facts | {"op": op, "dtype": dtype, "layout": layout}
        absent = {"preparation_ms": np.nan, "features_us": np.nan}
        try:
            problems = _problems(A, op, dtype, layout, device)
            if op not in features_us:
                features_us[op] = median_us(features_call(problems(), op), _REPEATS)
        except (WarploomError, MemoryError) as error:
            for candidate in candidates:
                yield known | absent | {"candidate": candidate.name, "status": _status(error)}
            continue
        for candidate in candidates:
            if time.monotonic() >= deadline:
                return
            milliseconds, status = _prepared(problems, candidate, A.shape[0])
            yield known | {
                "candidate": candidate.name,
                "preparation_ms": milliseconds,
                "status": status,
                "features_us": features_us[op],
            }


def _problems(
    A: scipy.sparse.csr_array, op: str, dtype: str, layout: str, device: Device
) -> Callable[[], _core.Problem]:
    """Return a function that makes a problem whose matrix is in the memory of the device.

    On a GPU the arrays are PyTorch's, so that a plan has to copy what it keeps, as those of users do.
    """
    name = f"{op}/{dtype}" if op == "spmv" else f"{op}/{dtype}/{layout}/k={_COLUMNS_OF_B}"
    setting = Setting.parse(name)
    k = setting.columns(A.shape[0])
    values = setting.values(A)
    if device.kind == "cpu":
        problem = _core.Problem(as_csr(values), op, k, setting.layout, "warm", device.number)
        return lambda: problem
    import torch

    # PyTorch takes no arrays in bfloat16.
    given = A.data.astype(np.float32) if dtype == "bfloat16" else values.data
    indptr, indices, data = (torch.as_tensor(part).to(str(device)) for part in (values.indptr, values.indices, given))
    data = data.to(getattr(torch, dtype))
    resident = torch.sparse_csr_tensor(indptr, indices, data, size=values.shape, check_invariants=False)
    return lambda: problem_of(resident, op, k, dtype, layout or "row", "warm", device)


def _prepared(problems: Callable[[], _core.Problem], candidate: Candidate, rows: int) -> tuple[float, str]:
    if rows > SEARCH_ROWS and permutations.searches(candidate.permutation):
        return np.nan, "left out"
    try:
        return _median_ms(problems, candidate), "ok"
    except (WarploomError, MemoryError) as error:
        return np.nan, _status(error)


def _median_ms(problems: Callable[[], _core.Problem], candidate: Candidate) -> float:
    """Time some preparations after one that loads kernels and lets the memory pool grow."""
    first = _preparation_ms(problems(), candidate)
    if first > _VERY_SLOW_MS:
        return first
    times = []
    for _ in range(_REPEATS):
        times.append(_preparation_ms(problems(), candidate))
        if times[-1] > _SLOW_MS:
            break
    return float(np.median(times))


def _preparation_ms(problem: _core.Problem, candidate: Candidate) -> float:
    """Prepare once, and give the memory back."""
    steps = _core.prepare(problem, candidate).preparation_ms
    return float(sum(milliseconds for step, milliseconds in steps.items() if step != "upload"))


def _status(error: BaseException) -> str:
    if isinstance(error, (OutOfMemoryError, MemoryError)):
        return "out of memory"
    return "unsupported" if isinstance(error, (ParameterError, IndexOverflowError)) else "error"

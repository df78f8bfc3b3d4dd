"""`plan`: a matrix in, the fastest product for it out."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from warploom import _bfloat16, _core, _device, _plan_file, _terminal, paper_models, profiles
from warploom._arguments import (
    check_full_precision,
    check_has_gpu,
    check_selection,
    checked_calls,
    checked_model,
    checked_precision,
    integers,
    one_of,
    positive,
    shape_of_operands,
    value_type,
)
from warploom._csr import CSR
from warploom._host_products import host_products
from warploom._matrix import as_csr
from warploom._origin import Origin
from warploom._problem import make_problem
from warploom._source import Arrays, Source
from warploom.candidates import checked_patterns, parse
from warploom.errors import DeviceError, FileFormatError, InvalidMatrixError, ParameterError
from warploom.explanation import Explanation, Product

if TYPE_CHECKING:
    from warploom.operators import Operator, Plan

__all__ = ["Operator", "Plan", "load_plan", "plan", "predict", "spmm", "spmv"]

Progress = Callable[[int, int, str], None]


def plan(
    A: Any,
    op: str | None = None,
    *,
    k: int | None = None,
    dtype: Any = None,
    layout: str = "row",
    device: str | None = None,
    select: str = "auto",
    calls: float = 1000,
    verify: bool = False,
    candidates: str | Sequence[str] | None = None,
    cache: str = "warm",
    progress: Progress | bool | None = None,
    inputs: Mapping[str, Any] | None = None,
    updatable: bool = False,
    budget: float | None = None,
    model: str | None = None,
    precision: str | None = None,
) -> Plan | Operator:
    """Find the fastest way to multiply by a sparse matrix, and prepare it.

    Without `op` and `k` the choice is left to what is multiplied: the operator that is returned makes a plan when it
    first meets a vector, so and so many columns, or the transpose.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        `scipy.sparse` matrix or array, torch sparse tensor, CuPy sparse matrix, or three arrays of any library as
        `warploom.CSR`. Another format than CSR is converted, in host memory. The plan keeps copies of what it
        multiplies with. It also refers to `A`, which is read again where a transpose or a file is made, and must not
        have changed by then.
    op : {"spmm", "spmv"}, optional
        The operation: ``"spmm"`` is C = A B with a dense B, ``"spmv"`` is y = A x with a vector x. With `k`, by default
        ``"spmm"``.
    k : int, optional
        Columns of B to tune for, at least 1. The plan takes any number of them. Not needed for SpMV.
    dtype : {"float16", "bfloat16", "float32", "float64"}, optional
        Value type of A, B and C; by default that of `A`, where integers count as float64. Products of float16 and
        bfloat16 are summed in float32 and rounded once; a sum beyond the largest number becomes infinite.
        ``torch.bfloat16``, and that of ml_dtypes, are taken for ``"bfloat16"``.
    layout : {"row", "column"}
        Layout of B and C: ``"row"`` is NumPy's and torch's default, ``"column"`` is Fortran order. An operand in the
        other one is copied. Ignored for SpMV, and without `op` and `k`: then there is a plan for each.
    device : str, optional
        ``"cuda"``, ``"cuda:N"`` or ``"cpu"``; by default the GPU if there is one.
    select : {"auto", "predict", "measure"} or candidate name
        ``"predict"`` computes features of `A` and takes what a model trained on measurements predicts to be
        fastest; where it is unsure, the few candidates that may be the fastest are measured. ``"measure"``
        prepares every candidate, times each on the device and keeps the fastest, which takes as long as some
        hundred to thousand products. ``"auto"`` predicts if there is a profile for the GPU (shipped, or from
        ``warploom calibrate``) and measures otherwise; on a CPU only what there is time for, see `budget`. The
        name of a candidate takes that one, also for small operands in host memory, which other plans multiply
        there; for another operation, or a transpose that it cannot multiply, ``"auto"`` decides.
    calls : float
        How often the plan will be used: what choosing and preparing take is weighed against the time of so many
        products. `math.inf` is the fastest kernel at any price. Where candidates are measured, preparation is weighed
        as measured.
    verify : bool
        Measure a predicted choice against the vendor's candidates, and take the fastest of those if the choice is
        slower.
    candidates : str or sequence of str, optional
        Shell-style patterns; only candidates whose name matches one of them are considered. The full name of a
        candidate is considered even if `warploom.candidates` does not list it. Has no effect where `select` is a name.
    cache : {"warm", "cold"}
        Whether candidates are timed with their operands in the L2 cache (on the CPU: the last-level cache), as in a
        tight loop, or evicted before each run.
    progress : callable or bool, optional
        Called as ``progress(done, total, candidate)`` before each candidate. By default, or with True, a bar in a
        terminal and a line in a notebook show how far planning is once it takes longer than half a second; with False
        nothing does.
    inputs : mapping of str to array_like of int, optional
        Arrays that a candidate named in `select` takes beside the matrix (`Kernel.inputs` lists them). For
        ``csr/blockwise`` this is ``block_threads_per_row``: threads for each row of every block of short rows, in the
        order of `warploom.partition.partition_rows` (Gao et al. 2024, Sec. 4.3); 1, 2, 4, 8, 16 or 32 each.
    budget : float, optional
        Seconds that measuring candidates may take: the most promising come first, and those for which there is no time
        are left out. One at least is measured, however long it takes. `math.inf` leaves none out. By default 2; where
        ``"auto"`` measures on a CPU, without `candidates`, about a twentieth of the time of all `calls`, four times as
        long where SciPy's product is faster than what was found by then, 2 at most.
    model : str, optional
        What predicts: ``"trees"`` or ``"network"``, both trained on all kernels; or ``"blend"``, which is the default:
        trees, averaged with the network where that is better with families of matrices left out. Or a model of a
        paper, which chooses among the few that the paper compares, whatever their preparation takes: for SpMM
        ``"mehrabi2021"``, ``"mehrabi2021/classifier"``, ``"mehrabi2021/ten"``, ``"mehrabi2021/ten-classifier"``, for
        SpMV ``"gao2024"``, ``"gao2024/blockwise"`` (`warploom.paper_models`). For a GPU only, and without effect where
        `select` says that everything is measured, or names a candidate.
    precision : {"full", "tf32"}, optional
        ``"tf32"`` allows SpMM in float32 to round A and B to TF32, 11 significant bits, for tensor cores: sums are in
        float32, and an entry of C is off by about 2^-10 of that of abs(A) abs(B) at most. Candidates that round are
        considered beside all others, and measured, as no model knows them. They need a GPU of compute capability 8.0;
        there are none for SpMV, and none that a CPU tries. Otherwise they are not considered, unless `select` or
        `candidates` has the full name of one, which ``"full"`` forbids. `Plan.precision` says what was chosen.
    updatable : bool
        Whether `Plan.update_values` may be called. That takes another preparation, and up to 4 bytes of memory for each
        place that the chosen format stores.

    Returns
    -------
    Plan or Operator

    Raises
    ------
    InvalidMatrixError, ShapeError, IndexOverflowError, DtypeError
        If `A` is malformed or of an unsupported type.
    ParameterError
        For an unknown name, a value out of range, patterns that match nothing, or a candidate that cannot run this
        problem; `argument` says which.
    DeviceError
        If there is no such device.
    OutOfMemoryError
        If the operands of the measurement do not fit into memory.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, warploom as wl
    >>> A = scipy.sparse.random_array((1000, 1000), density=0.01, format="csr", dtype=np.float32)
    >>> plan = wl.plan(A, k=32, device="cpu", candidates="spmm/none/*/row_split")
    >>> C = plan @ np.ones((1000, 32), np.float32)
    >>> C.shape
    (1000, 32)

    An operator that chooses when it multiplies:

    >>> operator = wl.plan(A, device="cpu", candidates="*/none/csr/row_split", select="spmv/none/csr/vector")
    >>> y = operator @ np.ones(1000, np.float32)
    >>> C = operator.T @ np.ones((1000, 4), np.float32)
    >>> list(operator.plans), list(operator.T.plans)
    (['vector'], ['up to 4 columns, row-major'])
    """
    if candidates is not None and not isinstance(candidates, str) and isinstance(candidates, Iterable):
        candidates = tuple(candidates)
    described = (
        op,
        k,
        dtype,
        layout,
        device,
        select,
        calls,
        verify,
        candidates,
        cache,
        updatable,
        budget,
        model,
        precision,
    )
    try:
        hash(described)
    except TypeError:
        request = _checked.__wrapped__(*described)
    else:
        request = _checked(*described)
    settings = request.settings
    if inputs or progress is not None:
        arrays = {name: integers(name, values) for name, values in (inputs or {}).items()}
        settings = dataclasses.replace(settings, inputs=arrays, progress=progress)
    problem = make_problem(A, request.op, request.k, settings.dtype, request.order, cache, settings.target)
    if precision is not None:
        problem.precision = precision
    if request.deferred:
        source = Source(A, problem.dtype, problem.nnz)
        settings = dataclasses.replace(settings, dtype=problem.dtype)
        made: Operator = _classes().Operator(source, settings, problem.shape, problem.nnz, problem.dtype)
        return made
    return settings.plan(problem, A, settings.select, settings.inputs)


class _Request(NamedTuple):
    """What `plan` was asked for, apart from the matrix."""

    op: str
    k: int
    order: str
    deferred: bool
    """Whether the choice is left to what is multiplied."""
    settings: _Settings


@functools.lru_cache(maxsize=256, typed=True)
def _checked(
    op: str | None,
    k: Any,
    dtype: Any,
    layout: str,
    device: str | None,
    select: str,
    calls: float,
    verify: bool,
    candidates: str | Sequence[str] | None,
    cache: str,
    updatable: bool,
    budget: float | None,
    model: str | None,
    precision: str | None,
) -> _Request:
    """Check arguments of `plan`: those of other matrices are the same as a rule, and checking takes as long as a step.

    The GPUs of a process do not change either.
    """
    target = _device.Device.parse(device)
    deferred = op is None and k is None
    op = "spmv" if deferred else op or "spmm"
    columns, order = shape_of_operands(op, k, layout, cache)
    if not isinstance(select, str):
        raise ParameterError(
            f"select must be 'auto', 'predict', 'measure' or the name of a candidate, got {select!r}",
            argument="select",
        )
    patterns = checked_patterns(candidates, "candidates")
    if deferred:  # it would be refused when the operator multiplies
        check_selection(select, patterns, target)
    settings = _Settings(
        target=target,
        dtype=value_type(dtype),
        select=select,
        calls=checked_calls(calls),
        verify=bool(verify),
        patterns=patterns,
        cache=cache,
        updatable=bool(updatable),
        budget=None if budget is None else positive("budget", budget),
        model=checked_model(model),
        precision=checked_precision(precision),
    )
    if precision == "full":
        check_full_precision("select", [select])
        check_full_precision("candidates", settings.patterns or ())
    of_paper = paper_models.find(settings.model)
    if of_paper is not None:
        check_has_gpu(settings.model, target)
        if not deferred:
            of_paper.check_operation(op)
    return _Request(op, columns, order, deferred, settings)


@functools.cache
def _classes() -> Any:
    """Return the module with the classes of plans, which is imported when the first plan is made."""
    from warploom import operators

    return operators


@dataclasses.dataclass(slots=True)
class _Settings:
    """What plans of a matrix, of its transpose, and for other numbers of columns have in common."""

    target: _device.Device
    dtype: np.dtype[Any] | None
    """Value type of the plans; None: as the matrix has it."""
    select: str
    calls: float
    verify: bool
    patterns: list[str] | None
    cache: str
    updatable: bool
    budget: float | None
    """None: as `calls` have it."""
    progress: Progress | bool | None = None
    inputs: dict[str, np.ndarray[Any, Any]] = dataclasses.field(default_factory=dict)
    model: str = profiles.BLEND
    precision: str | None = None
    of_paper: paper_models.PaperModel | None = dataclasses.field(init=False)
    """What chooses, if it is the model of a paper."""
    options: _core.PlanOptions = dataclasses.field(init=False)
    """What of these the planner takes."""

    def __post_init__(self) -> None:
        self.of_paper = paper_models.find(self.model)
        self.options = self._options(self.select, self.inputs)

    def _options(self, select: str, inputs: Mapping[str, Any], restored: bool = False) -> _core.PlanOptions:
        return _core.PlanOptions(
            select=select,
            calls=self.calls,
            verify=self.verify,
            patterns=self.patterns,
            inputs=inputs,
            updatable=self.updatable,
            budget=self.budget,
            small_on_host=True if restored else None,
        )

    @property
    def restore(self) -> Callable[[bytes], Plan | Operator]:
        return _restore

    def plan(
        self, problem: _core.Problem, A: Any, select: str, inputs: Mapping[str, Any], *, restored: bool = False
    ) -> Plan:
        """Choose and prepare. Without `A`, the plan has no transpose; `restored`: our models chose `select` before."""
        on_cpu = self.target.kind == "cpu"
        if not on_cpu:
            _device.load_libraries(problem)
        # What else an operator meets, and its transpose, the default models choose.
        model = self.of_paper
        if model is not None and select in ("auto", "predict") and A is not None and problem.op == model.op:
            return self._plan_as_in(model, problem, A)
        options = self.options
        if restored or select is not self.select or inputs is not self.inputs:
            options = self._options(select, inputs, restored)
        planner = _planner_of(self.model)
        measures = select == "measure" or (select == "auto" and on_cpu)
        if measures or self.progress:
            with _terminal.progress_of_planning(self.progress) as show:
                found = planner.plan(problem, options, show, host_products(problem) if measures and on_cpu else {})
        else:  # a prediction is made before there is anything to show
            found = planner.plan(problem, options)
        for message in planner.take_warnings():
            warnings.warn(f"left out: {message}", RuntimeWarning, stacklevel=3)
        made: Plan = _classes().Plan(found, problem, self.target, None if A is None else self, A)
        return made

    def _plan_as_in(self, model: paper_models.PaperModel, problem: _core.Problem, A: Any) -> Plan:
        """Take what the model of a paper chooses."""
        capability = tuple(_core.cuda_info()["devices"][self.target.ordinal]["compute_capability"])
        found = profiles.find(self.target.name, capability, model=model.family)
        if found is None:
            raise ParameterError(f"there is no profile with {self.model} for {self.target.name}", argument="model")
        choice = model.choose(found.profile, A, problem)
        made = self.plan(problem, A, choice.candidate, choice.inputs)
        product = Product.of(problem, self.target.name)
        where = f"predicted for {found.profile.gpu}"
        made._explanation = choice.explanation(product, where, self.model, found.note)
        return made

    def make(self, A: Any, op: str, k: int, layout: str) -> Plan:
        problem = self._problem(A, op, k, layout)
        fits = self._is_for(op)
        return self.plan(problem, A, self.select if fits else "auto", self.inputs if fits else {})

    def restored(self, A: Any, op: str, k: int, layout: str, candidate: _core.Candidate) -> Plan:
        """Prepare what was chosen before."""
        problem = self._problem(A, op, k, layout)
        kernel_inputs = self.inputs if set(self.inputs) <= set(candidate.kernel.inputs) else {}
        named = "/" in self.select and self._is_for(op)
        by_paper = self.of_paper is not None and self.of_paper.op == op
        return self.plan(problem, A, candidate.name, kernel_inputs, restored=not (named or by_paper))

    def make_transposed(self, A: Any, op: str, k: int, layout: str) -> Plan:
        problem = self._problem(A, op, k, layout)
        fits = self._is_for(op) and not self.inputs  # which are those of one matrix
        if not fits or "/" not in self.select:
            return self.plan(problem, None, self.select if fits else "auto", {})
        if not problem.reason_against(parse(self.select)):
            with contextlib.suppress(ParameterError):  # once its rows have moved, a format may need too much padding
                return self.plan(problem, None, self.select, {})
        return self.plan(problem, None, "auto", {})

    def in_type(self, dtype: np.dtype[Any]) -> _Settings:
        """Return the same for another value type: a named candidate counts if it has that."""
        named = "/" in self.select and _bfloat16.name_of(dtype) not in parse(self.select).kernel.dtypes
        return dataclasses.replace(self, dtype=dtype, select="auto" if named else self.select)

    def named(self, A: Any, candidate: str) -> Plan:
        """Prepare a candidate for SpMV, to compare with."""
        return _named(parse(candidate), A, "spmv", 1, self.dtype, "column", str(self.target))

    def save(self, operator: Plan | Operator, matrix: Arrays, path: Path | None) -> bytes:
        """Write a file, or return what it would hold."""
        arrays = {"indptr": np.asarray(matrix.indptr), "indices": np.asarray(matrix.indices), "data": matrix.data}
        arrays["data"] = _bfloat16.cast(np.asarray(matrix.data), operator.dtype)
        described = {
            "format": _FILE_FORMAT,
            "warploom": _core.__version__,
            "plan": json.dumps(self._described(operator, matrix.shape), sort_keys=True),
        }
        described["digest"] = _plan_file.digest(described, arrays)
        if path is None:
            return _plan_file.encode(described, arrays)
        _plan_file.write(path, described, arrays)
        return b""

    def _described(self, operator: Plan | Operator, shape: tuple[int, int]) -> dict[str, Any]:
        is_plan = isinstance(operator, _classes().Plan)
        plans = [operator] if is_plan else list(operator._plans.values())
        return {
            "kind": "plan" if is_plan else "operator",
            "shape": list(shape),
            "choices": [[plan.op, plan.k, plan.layout, plan.candidate] for plan in plans],
            "origins": [_origin_of(plan, _kept_by(self.model)).to_dict() for plan in plans],
            "device": self.target.kind,
            "gpu": self.target.name if self.target.kind == "cuda" else None,
            "select": self.select,
            "calls": self.calls if math.isfinite(self.calls) else None,
            "verify": bool(self.verify),
            "patterns": None if self.patterns is None else list(self.patterns),
            "cache": self.cache,
            "inputs": {name: values.tolist() for name, values in self.inputs.items()},
            "updatable": self.updatable,
            "budget": self.budget if self.budget is None or math.isfinite(self.budget) else "inf",
            "model": self.model,
            "precision": self.precision,
        }

    def _problem(self, A: Any, op: str, k: int, layout: str) -> _core.Problem:
        columns = None if op == "spmv" else k
        return problem_of(A, op, columns, self.dtype, layout, self.cache, self.target, self.precision)

    def _is_for(self, op: str) -> bool:
        return "/" not in self.select or self.select.startswith(f"{op}/")


_T = TypeVar("_T")
_FILE_FORMAT = "warploom plan 1"


def _origin_of(plan: Plan, model: str) -> Origin:
    return plan._origin or Origin.of(plan._core.explanation().based_on, plan.device.name, model)


def load_plan(path: str | os.PathLike[str], A: Any = None, *, device: str | None = None) -> Plan | Operator:
    """Read a plan or operator that was saved.

    What was chosen is prepared again for the matrix in the file; nothing is chosen or measured.

    Parameters
    ----------
    path : str or path
        A file that `Plan.save` has written.
    A : sparse matrix, optional
        The matrix that the plan is expected to be of: refused if the file holds another one.
    device : str, optional
        ``"cuda:N"`` for another GPU than the first, of the kind that the plan was made for.

    Returns
    -------
    Plan or Operator

    Raises
    ------
    FileFormatError
        The file is damaged, no plan, of another version of the format, or names a candidate that is not known.
    InvalidMatrixError, ShapeError, DtypeError
        The file holds another matrix than `A`, or none that is sound.
    DeviceError
        The plan was made for another kind of GPU, or for a GPU and there is none.
    ParameterError
        `device` is of another kind than that of the plan.

    Warns
    -----
    RuntimeWarning
        The profile that chose has changed since, or another version of warploom chose, or another CPU: `plan` may
        choose something faster. What `Plan.explain` returns says so, too.

    Examples
    --------
    >>> import os, tempfile, numpy as np, warploom as wl
    >>> A = wl.examples.load("gr_30_30")
    >>> path = os.path.join(tempfile.mkdtemp(), "plan.safetensors")
    >>> wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector").save(path)
    >>> plan = wl.load_plan(path, A)
    >>> plan.candidate
    'spmv/none/csr/vector'
    """
    found = _loaded(*_plan_file.read(Path(path)), A, device, str(path))
    plans = [found] if isinstance(found, _classes().Plan) else found.plans.values()
    doubts = [doubt for plan in plans if plan._origin for doubt in plan._origin.doubts(plan.device.name)]
    if doubts:
        reasons = ", ".join(dict.fromkeys(doubts))
        warnings.warn(f"another choice may be better than that in {path}: {reasons}", RuntimeWarning, stacklevel=2)
    return found


def _restore(content: bytes) -> Plan | Operator:
    """Make the plan of which this is the file: for pickle."""
    return _loaded(*_plan_file.decode(content), None, None, "the plan")


def _loaded(
    metadata: dict[str, str], arrays: dict[str, np.ndarray[Any, Any]], A: Any, device: str | None, name: str
) -> Plan | Operator:
    if metadata.get("format") != _FILE_FORMAT or set(arrays) != {"indptr", "indices", "data"}:
        raise FileFormatError(f"{name} is no plan that this version of warploom reads", argument="path")
    if metadata.get("digest") != _plan_file.digest(metadata, arrays):
        raise FileFormatError(f"{name} is damaged: its checksum is another one", argument="path")
    try:
        given = json.loads(metadata["plan"])
        m, n = given["shape"]
        matrix = CSR(arrays["indptr"], arrays["indices"], arrays["data"], (m, n))
        kind, gpu, saved_for = given["kind"], given["gpu"], str(given["device"])
        settings = _Settings(
            target=_device.Device("cpu"),
            dtype=arrays["data"].dtype,
            select=str(given["select"]),
            calls=math.inf if given["calls"] is None else checked_calls(given["calls"]),
            verify=_a(bool, given["verify"]),
            patterns=None if given["patterns"] is None else [_a(str, name) for name in _a(list, given["patterns"])],
            cache=_a(str, given["cache"]),
            inputs={key: integers(key, values) for key, values in given["inputs"].items()},
            updatable=_a(bool, given["updatable"]),
            budget=None if given["budget"] is None else positive("budget", float(given["budget"])),
            model=checked_model(given.get("model")),
            precision=checked_precision(given.get("precision")),
        )
        choices = [(str(op), int(k), str(layout), parse(candidate)) for op, k, layout, candidate in given["choices"]]
        origins: list[Origin | None] = [Origin.read(origin) for origin in given.get("origins", ())]
        origins = origins or [None] * len(choices)  # which earlier versions did not write
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:  # ParameterError of an unknown candidate is a ValueError
        raise FileFormatError(f"{name} cannot be read by this version of warploom: {error}", argument="path") from error
    if kind not in ("plan", "operator") or len(origins) != len(choices) or (kind == "plan" and len(choices) != 1):
        raise FileFormatError(f"{name} is no plan that this version of warploom reads", argument="path")
    target = _device.Device.parse(device or saved_for)
    settings = dataclasses.replace(settings, target=target)
    if target.kind != saved_for.partition(":")[0]:
        raise ParameterError(f"{name} was made for {saved_for}, not for {target}", argument="device")
    if gpu is not None and gpu != target.name:
        raise DeviceError(f"{name} was made for {gpu}, and this is {target.name}: plan anew", argument="device")
    if A is not None:
        _check_same(A, arrays, (m, n), name)
    plans = (settings.restored(matrix, *choice) for choice in choices)
    restored = [_with_origin(plan, origin) for plan, origin in zip(plans, origins, strict=True)]
    if kind == "plan":
        return restored[0]
    nnz = int(arrays["indices"].size)
    dtype = arrays["data"].dtype
    operator: Operator = _classes().Operator(Source(matrix, dtype, nnz), settings, (m, n), nnz, dtype)
    operator._plans = {
        operator._key(k, layout): plan for (_, k, layout, _), plan in zip(choices, restored, strict=True)
    }
    return operator


def _a(kind: type[_T], value: Any) -> _T:
    """Return a value of a file, which has to be of this type."""
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.50} is no {kind.__name__}")
    return value


def _with_origin(plan: Plan, origin: Origin | None) -> Plan:
    plan._origin = origin
    return plan


def _check_same(A: Any, arrays: Mapping[str, np.ndarray[Any, Any]], shape: tuple[int, int], name: str) -> None:
    view = as_csr(A, dtype=arrays["data"].dtype)
    same = view.shape == shape and all(
        np.array_equal(mine, arrays[key], equal_nan=key == "data")
        for key, mine in (("indptr", view.indptr), ("indices", view.indices), ("data", view.data))
    )
    if not same:
        raise InvalidMatrixError(f"{name} is a plan of another matrix than A", argument="A")


def predict(
    A: Any,
    op: str = "spmm",
    *,
    k: int | None = None,
    dtype: Any = None,
    layout: str = "row",
    calls: float = 1000,
    cache: str = "warm",
    candidates: str | Sequence[str] | None = None,
    gpu: str = "NVIDIA H200",
    model: str | None = None,
) -> Explanation:
    """Predict what would be chosen on a GPU that need not be present.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        As for `warploom.plan`.
    op, k, dtype, layout, cache, candidates
        As for `warploom.plan`.
    calls : float
        Products that will be computed with one preparation; with `math.inf`, preparation does not count.
    gpu : str
        Product name of a GPU with a profile.
    model : str, optional
        As for `warploom.plan`.

    Returns
    -------
    Explanation
        The chosen candidate, predicted times of all, what they cost to prepare, and what decided.

    Raises
    ------
    ParameterError
        There is no profile of that GPU, or a parameter is out of range.
    InvalidMatrixError, ShapeError, DtypeError
        If `A` is malformed or of an unsupported type.

    Examples
    --------
    >>> import warploom as wl
    >>> explanation = wl.predict(wl.examples.load("gr_30_30"), op="spmv", dtype="float32")
    >>> explanation.chosen.startswith("spmv/")
    True
    """
    problem = problem_of(A, op, k, dtype, layout, cache, _device.Device("cpu"))
    predicts = checked_model(model)
    of_paper = paper_models.find(predicts)
    if of_paper is not None:
        found_profile = profiles.find(gpu, model=of_paper.family)
        if found_profile is None:
            known = ", ".join(profiles.names(of_paper.family)) or "none"
            raise ParameterError(f"there is no profile of '{gpu}' with {predicts}; known: {known}", argument="gpu")
        choice = of_paper.choose(found_profile.profile, A, problem)
        where = f"predicted for {found_profile.profile.gpu}"
        return choice.explanation(Product.of(problem, gpu), where, predicts, found_profile.note)
    planner = _planner_of(predicts)
    patterns = checked_patterns(candidates, "candidates")
    found = planner.predict(problem, gpu, calls=checked_calls(calls), patterns=patterns)
    for message in planner.take_warnings():
        warnings.warn(f"left out: {message}", RuntimeWarning, stacklevel=2)
    return Explanation.of(found, Product.of(problem, gpu))


def spmm(A: Any, B: Any, *, candidate: str, device: str | None = None, dtype: Any = None, layout: str = "row") -> Any:
    """Multiply once with a candidate given by name.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
    B : array of shape (n, k) or (n,)
    candidate : str
        For example ``"spmm/lpt/csr/c_stationary"``; `warploom.candidates` lists them. A kernel that works on
        column-major operands only gets copies in that layout.
    device : str, optional
        ``"cuda"``, ``"cuda:N"`` or ``"cpu"``.
    dtype : {"float16", "bfloat16", "float32", "float64"}, optional
    layout : {"row", "column"}
        Preferred layout of the operands, where the kernel works on both.

    Returns
    -------
    array of shape (m, k) or (m,)
        Of the same kind as `B`.

    Raises
    ------
    WarploomError
        As `plan` and the plan it returns do.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, warploom as wl
    >>> A = scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> wl.spmm(A, np.array([[1.0], [3.0]]), candidate="spmm/lpt/csr/row_split", device="cpu")
    array([[6.],
           [1.]])
    """
    chosen = parse(candidate)
    wanted = one_of("layout", layout, ("row", "column"))
    layouts = chosen.kernel.layouts
    B = _device.as_array(B, None)
    k = B.shape[1] if getattr(B, "ndim", 1) == 2 else 1
    layout = wanted if wanted in layouts else layouts[0]
    return _named(chosen, A, "spmm", max(k, 1), dtype, layout, device) @ B


def spmv(A: Any, x: Any, *, candidate: str, device: str | None = None, dtype: Any = None) -> Any:
    """Multiply a vector once with a candidate given by name.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
    x : array of shape (n,)
    candidate : str
        For example ``"spmv/none/csr/vector[threads_per_row=8]"``; `warploom.candidates` lists them.
    device : str, optional
        ``"cuda"``, ``"cuda:N"`` or ``"cpu"``.
    dtype : {"float16", "bfloat16", "float32", "float64"}, optional

    Returns
    -------
    array of shape (m,)
        Of the same kind as `x`.

    Raises
    ------
    WarploomError
        As `plan` and the plan it returns do.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, warploom as wl
    >>> A = scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    >>> wl.spmv(A, np.array([1.0, 3.0]), candidate="spmv/none/csr/vector", device="cpu")
    array([6., 1.])
    """
    return _named(parse(candidate), A, "spmv", 1, dtype, "column", device) @ x


def _named(chosen: _core.Candidate, A: Any, op: str, k: int, dtype: Any, layout: str, device: str | None) -> Plan:
    if chosen.kernel.op != op:
        raise ParameterError(f"{chosen.name} is not a candidate for {op}", argument="candidate")
    target = _device.Device.parse(device)
    problem = problem_of(A, op, k, dtype, layout, "warm", target)
    if target.kind == "cuda":
        _device.load_library_of(chosen.kernel)
    made: Plan = _classes().Plan(_core.prepare(problem, chosen), problem, target)
    return made


def problem_of(
    A: Any,
    op: str,
    k: Any,
    dtype: Any,
    layout: str,
    cache: str,
    device: _device.Device,
    precision: str | None = None,
) -> _core.Problem:
    """Check the description of a product."""
    columns, order = shape_of_operands(op, k, layout, cache)
    problem = make_problem(A, op, columns, value_type(dtype), order, cache, device)
    if precision is not None:
        problem.precision = precision
    return problem


def _planner_of(model: str) -> _core.Planner:
    """Return what plans by a model."""
    return _planner(model, *_core.environment(profiles.VARIABLES))


@functools.lru_cache(maxsize=8)
def _planner(model: str, *_: str | None) -> _core.Planner:
    """Make a planner for variables of the environment, on which the folders of profiles depend."""
    kept = _kept_by(model)
    blend = kept == profiles.BLEND
    folders = profiles.folders(profiles.MODELS[0] if blend else kept)
    return _core.Planner([str(folder) for folder in folders], blend=blend)


def _kept_by(model: str) -> str:
    """Return what a plan is chosen by: where the model of a paper does not choose, the default."""
    return model if paper_models.find(model) is None else profiles.BLEND


def __getattr__(name: str) -> Any:
    # Their base class is SciPy's, from a package that takes long to import: whoever makes no plan does without.
    if name in ("Operator", "Plan"):
        return getattr(_classes(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

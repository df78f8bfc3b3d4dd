"""
C++/CUDA core of warploom. Use the classes and functions of the warploom package instead.
"""

import collections.abc
import os
import typing

import numpy
import numpy.typing

class CsrView:
    """
    A validated CSR matrix: a view of NumPy arrays, without a copy.
    """
    def __init__(
        self,
        indptr: numpy.typing.NDArray[typing.Any],
        indices: numpy.typing.NDArray[typing.Any],
        data: typing.Any,
        num_rows: int,
        num_cols: int,
    ) -> None: ...
    @property
    def data(self) -> typing.Any: ...
    @property
    def indices(self) -> numpy.typing.NDArray[numpy.int32]: ...
    @property
    def indptr(self) -> numpy.typing.NDArray[numpy.int64]: ...
    @property
    def nnz(self) -> int: ...
    @property
    def shape(self) -> tuple[int, int]: ...

class Model:
    """
    A trained model, checked and laid out for prediction.
    """
    def __init__(
        self,
        kind: str,
        inputs: collections.abc.Iterable[str],
        outputs: collections.abc.Iterable[str],
        settings: collections.abc.Mapping[str, str],
        arrays: collections.abc.Mapping[str, numpy.typing.NDArray[typing.Any]],
    ) -> None: ...
    def predict(self, inputs: numpy.typing.NDArray[numpy.float64]) -> numpy.typing.NDArray[numpy.float64]: ...
    def predict_with_spread(self, inputs: numpy.typing.NDArray[numpy.float64]) -> tuple[typing.Any, ...]: ...
    def verify(self, inputs: numpy.typing.NDArray[numpy.float64], outputs: numpy.typing.NDArray[numpy.float64]) -> None:
        """
        Compute stored vectors, and compare.
        """
    @property
    def arrays(self) -> dict[str, typing.Any]: ...
    @property
    def check(self) -> typing.Any:
        """
        Stored inputs and outputs, or None.
        """
    @property
    def has_spread(self) -> bool: ...
    @property
    def inputs(self) -> tuple[typing.Any, ...]: ...
    @property
    def kind(self) -> str: ...
    @property
    def outputs(self) -> tuple[typing.Any, ...]: ...
    @property
    def settings(self) -> dict[str, str]: ...

class Profile:
    """
    The trained models of one GPU.
    """
    def __init__(
        self,
        gpu: str,
        compute_capability: tuple[int, int],
        cuda: str,
        models: collections.abc.Mapping[str, Model],
        geometry: collections.abc.Mapping[str, int],
        data_hash: str,
        metrics: str,
    ) -> None:
        """
        `metrics` is a text in JSON.
        """
    @property
    def compute_capability(self) -> tuple[int, int]: ...
    @property
    def cuda(self) -> str: ...
    @property
    def data_hash(self) -> str: ...
    @property
    def geometry(self) -> dict[str, int]: ...
    @property
    def gpu(self) -> str: ...
    @property
    def metrics(self) -> typing.Any: ...
    @property
    def models(self) -> dict[str, typing.Any]: ...

class MatrixFeatures:
    """
    The features of a matrix that models read.
    """
    def __init__(
        self,
        spmv: numpy.typing.NDArray[numpy.float64],
        spmm: numpy.typing.NDArray[numpy.float64] | None = None,
        column_vectors: numpy.typing.NDArray[numpy.float64] | None = None,
        locality: numpy.typing.NDArray[numpy.float64] | None = None,
    ) -> None: ...
    @property
    def column_vectors(self) -> list[float]: ...
    @property
    def locality(self) -> list[float]: ...
    @property
    def spmm(self) -> list[float]: ...
    @property
    def spmv(self) -> list[float]: ...

class Prediction:
    """
    What is expected of one candidate.
    """
    def __eq__(self, arg0: typing.Any) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def candidate(self) -> str: ...
    @property
    def preparation_ms(self) -> float: ...
    @property
    def time_us(self) -> float:
        """
        Of a product.
        """
    @property
    def total_us(self) -> float:
        """
        Preparation and products together, per product.
        """

class CandidateNames:
    def __iter__(self) -> CandidateNames: ...
    def __next__(self) -> str: ...

class Choice:
    """
    Candidates in the order in which they are worth taking.
    """
    def __init__(
        self,
        *,
        candidates: collections.abc.Sequence[str],
        scores: numpy.typing.NDArray[numpy.float64],
        least_us: float,
        preparation_ms: numpy.typing.NDArray[numpy.float64],
        calls: float | None,
        among: collections.abc.Callable[[str], bool] | None,
        expected_loss: float,
        unsure: bool,
        margin: float,
        outside: str = "",
    ) -> None: ...
    def names(self) -> CandidateNames:
        """
        Those that may be taken, best first.
        """
    def prediction(self) -> Prediction:
        """
        What is expected of the first.
        """
    @property
    def candidate(self) -> str:
        """
        The first one.
        """
    @property
    def candidates(self) -> tuple[typing.Any, ...]: ...
    @property
    def doubt(self) -> float:
        """
        The expected loss times how many others are near the first.
        """
    @property
    def expected_loss(self) -> float: ...
    @property
    def least_us(self) -> float: ...
    @property
    def margin(self) -> float: ...
    @property
    def outside(self) -> str: ...
    @property
    def ranked(self) -> tuple[typing.Any, ...]:
        """
        All that may be taken, best first.
        """
    @property
    def scores(self) -> numpy.typing.NDArray[numpy.float64]: ...
    @property
    def share_of_network(self) -> float:
        """
        By how much the predictions of a network count beside those of trees.
        """
    @property
    def shortlist(self) -> tuple[typing.Any, ...]:
        """
        Candidates that may be as fast as the fastest.
        """
    @property
    def unsure(self) -> bool: ...

class Selector:
    """
    Chooses candidates by the models of a profile.
    """
    def __init__(self, profile: Profile, networks: Profile | None = None) -> None: ...
    def choose(
        self,
        features: MatrixFeatures,
        op: str,
        k: int = 1,
        dtype: str = "float32",
        layout: str = "",
        calls: float | None = None,
        cache: str = "warm",
        among: collections.abc.Callable[[str], bool] | None = None,
    ) -> Choice:
        """
        Rank the candidates that the models know.
        """
    def deciding_inputs(
        self,
        features: MatrixFeatures,
        choice: Choice,
        op: str,
        k: int = 1,
        dtype: str = "float32",
        layout: str = "",
        cache: str = "warm",
        count: int = 5,
    ) -> list[str]:
        """
        The inputs that a choice depends on most.
        """
    def feature_sets(self, op: str, dtype: str, layout: str = "", cache: str = "warm") -> tuple[typing.Any, ...]:
        """
        Sets of features that `choose` needs.
        """
    def names(self) -> list[str]:
        """
        Settings that models choose for.
        """

class DeviceMemory:
    def __init__(self, device: int, bytes: int) -> None: ...
    @property
    def pointer(self) -> int: ...

class Parameter:
    """
    One parameter of a kernel.
    """
    @property
    def default(self) -> int: ...
    @property
    def meaning(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def on_cpu(self) -> bool:
        """
        Whether the CPU executor depends on it.
        """
    @property
    def tried(self) -> tuple[typing.Any, ...]:
        """
        The values that selection by measurement tries on a GPU.
        """
    @property
    def values(self) -> tuple[typing.Any, ...]:
        """
        Accepted values.
        """

class Kernel:
    """
    One algorithm for one operation on one format.
    """
    def __eq__(self, arg0: typing.Any) -> bool: ...
    def __hash__(self) -> int: ...
    def __repr__(self) -> str: ...
    def complete(self, given: dict[str, typing.Any]) -> dict[str, typing.Any]:
        """
        All parameters, defaults filled in.
        """
    @property
    def compared_fully(self) -> bool:
        """
        Whether tables compare every setting, not only the default one.
        """
    @property
    def devices(self) -> tuple[typing.Any, ...]:
        """
        Where it runs: "cuda", "cpu".
        """
    @property
    def dtypes(self) -> tuple[typing.Any, ...]:
        """
        Value types it works on.
        """
    @property
    def for_large(self) -> bool:
        """
        Whether plans compare it with what is predicted for a matrix of 10^6 nonzeros and more where models have seen none of the size.
        """
    @property
    def format(self) -> str: ...
    @property
    def from_device(self) -> bool:
        """
        Whether preparing it on a GPU starts from the CSR matrix in the memory of that GPU.
        """
    @property
    def inputs(self) -> dict[str, typing.Any]:
        """
        Arrays it takes beside the matrix: name and meaning.
        """
    @property
    def layouts(self) -> tuple[typing.Any, ...]:
        """
        Layouts of the dense operands it works on: "row", "column".
        """
    @property
    def name(self) -> str: ...
    @property
    def op(self) -> str: ...
    @property
    def parameters(self) -> tuple[typing.Any, ...]: ...
    @property
    def permutes(self) -> bool:
        """
        Whether a row permutation makes sense with it.
        """
    @property
    def precision(self) -> str:
        """
        "full", or "tf32": it rounds float32 to TF32, and is considered only where that is asked for.
        """
    @property
    def reproducible(self) -> bool:
        """
        Whether every run gives bitwise the same result.
        """
    @property
    def source(self) -> str:
        """
        The paper the idea is from, or "own".
        """
    @property
    def summary(self) -> str: ...
    @property
    def vendor(self) -> bool:
        """
        Whether it is the vendor's library.
        """

class Candidate:
    """
    Everything needed to run a product, except the matrix. Compares and hashes by name.
    """
    @staticmethod
    def make(kernel: Kernel, permutation: str = "none", parameters: typing.Any = None) -> Candidate:
        """
        Complete the parameters.
        """
    def __eq__(self, arg0: typing.Any) -> bool: ...
    def __hash__(self) -> int: ...
    def __repr__(self) -> str: ...
    def __str__(self) -> str: ...
    @property
    def has_defaults(self) -> bool:
        """
        Whether all parameters are at their default.
        """
    @property
    def kernel(self) -> Kernel: ...
    @property
    def name(self) -> str:
        """
        The stable name.
        """
    @property
    def parameters(self) -> tuple[typing.Any, ...]:
        """
        All of them, as pairs of name and value in the kernel's order.
        """
    @property
    def permutation(self) -> str: ...

class DeviceCsr:
    """
    A CSR matrix in the memory of a GPU.
    """
    @property
    def nbytes(self) -> int: ...

class Problem:
    """
    What is to be multiplied, and where.
    """
    @staticmethod
    def of_tensors(
        A: typing.Any, dtype: str | None, op: str, k: int, layout: str, cache: str, device: int
    ) -> Problem | None:
        """
        As on_gpu, of a CSR tensor of PyTorch or a warploom.CSR of three tensors; None for other matrices, and unless the tensors can be taken as they are. `dtype` is that of the product or None.
        """
    @staticmethod
    def on_gpu(
        indptr: tuple[int, int, int],
        indices: tuple[int, int, int],
        data: tuple[int, int, int],
        dtype: str,
        num_rows: int,
        num_cols: int,
        op: str,
        k: int,
        layout: str,
        cache: str,
        device: int,
        stream: int,
        allocate: typing.Any = None,
        owner: typing.Any = None,
    ) -> Problem:
        """
        The arrays of a CSR matrix in the memory of a GPU, each as its address, its size and the bytes of an element. They are to stay as they are until all plans are made.
        """
    def __init__(
        self, matrix: CsrView, op: str, k: int, layout: str, cache: str, device: int, allocate: typing.Any = None
    ) -> None:
        """
        `device` is the number of a GPU, or -1 for the CPU; `allocate(bytes)` returns an address and its owner.
        """
    def is_redundant(self, candidate: Candidate) -> bool:
        """
        Whether another candidate does the same work, or this one cannot pay off.
        """
    def reason_against(self, candidate: Candidate) -> str:
        """
        Why the candidate cannot run this problem, or the empty string.
        """
    def resident(self) -> DeviceCsr:
        """
        The matrix in the memory of the GPU, uploaded once.
        """
    @property
    def cache(self) -> str: ...
    @property
    def device(self) -> int: ...
    @property
    def dtype(self) -> numpy.dtype[typing.Any]: ...
    @property
    def facts(self) -> tuple[str, tuple[int, int], int, numpy.dtype[typing.Any], int, str, str, str]:
        """
        op, shape, nnz, dtype, k, layout, cache and precision in one call.
        """
    @property
    def k(self) -> int: ...
    @property
    def layout(self) -> str: ...
    @property
    def matrix(self) -> CsrView:
        """
        In host memory, where a matrix that is on a GPU is copied.
        """
    @property
    def nnz(self) -> int: ...
    @property
    def op(self) -> str: ...
    @property
    def precision(self) -> str:
        """
        The least of candidates that are not named: "full" or "tf32".
        """
    @precision.setter
    def precision(self, arg1: str) -> None: ...
    @property
    def shape(self) -> tuple[int, int]: ...

class Row:
    """
    What is known of one candidate. Numbers that are not known are NaN.
    """
    def __init__(
        self,
        candidate: str,
        preparation_ms: float = ...,
        median_us: float = ...,
        p10_us: float = ...,
        p90_us: float = ...,
        speedup: float = ...,
        floor_share: float = ...,
        bytes: int = 0,
        note: str = "",
        predicted_us: float = ...,
        break_even: float = ...,
        break_even_vendor: float = ...,
    ) -> None: ...
    @property
    def break_even(self) -> float:
        """
        Products after which preparing this one instead of plain CSR has paid off; infinite if never.
        """
    @property
    def break_even_vendor(self) -> float:
        """
        The same instead of the fastest candidate of the vendor.
        """
    @property
    def bytes(self) -> int:
        """
        Memory of the plan on its device.
        """
    @property
    def candidate(self) -> str: ...
    @property
    def floor_share(self) -> float:
        """
        Bandwidth floor over median time.
        """
    @property
    def median_us(self) -> float: ...
    @property
    def note(self) -> str:
        """
        Why it was not measured, or that it was chosen.
        """
    @property
    def p10_us(self) -> float: ...
    @property
    def p90_us(self) -> float: ...
    @property
    def predicted_us(self) -> float:
        """
        What a model says, where one was asked.
        """
    @property
    def preparation_ms(self) -> float:
        """
        Permutation, conversion and upload, in milliseconds.
        """
    @property
    def speedup(self) -> float:
        """
        Over plain CSR in the caller's row order.
        """

class Explanation:
    """
    Why a plan is what it is.
    """
    @property
    def based_on(self) -> str: ...
    @property
    def baseline(self) -> str: ...
    @property
    def budget(self) -> float: ...
    @property
    def calls(self) -> float: ...
    @property
    def calls_of_budget(self) -> float: ...
    @property
    def chosen(self) -> str: ...
    @property
    def copy_bandwidth(self) -> float: ...
    @property
    def deciding_inputs(self) -> list[str]: ...
    @property
    def expected_loss(self) -> float: ...
    @property
    def floor_bytes(self) -> int: ...
    @property
    def gpu(self) -> str: ...
    @property
    def lacked_memory(self) -> int: ...
    @property
    def left_out(self) -> int: ...
    @property
    def not_measured(self) -> str: ...
    @property
    def not_predicted(self) -> str: ...
    @property
    def outside(self) -> str: ...
    @property
    def profile_note(self) -> str: ...
    @property
    def rows(self) -> list[Row]: ...
    @property
    def share_of_network(self) -> float: ...
    @property
    def share_of_calls(self) -> float: ...
    @property
    def small_on_host(self) -> bool: ...
    @property
    def spent(self) -> dict[str, typing.Any]: ...
    @property
    def stands_in(self) -> str: ...
    @property
    def unsure(self) -> bool: ...
    @property
    def vendor(self) -> str: ...

class Plan:
    """
    A candidate prepared for one matrix on one device.
    """
    def begin(
        self, problem: Problem
    ) -> tuple[
        str,
        collections.abc.Callable[..., typing.Any],
        bool,
        tuple[str, tuple[int, int], int, numpy.dtype[typing.Any], int, str, str, str],
    ]:
        """
        What a plan in Python begins with, in one call: a name; a function of B and out (which may be None) that returns C = A B, a new array of the kind of B or out, and NotImplemented where the Python layer has to look at them; whether values may be updated; and the facts of its problem.
        """
    def dot_device(self, x: int, ldx: int, y: int, ldy: int, dot: int, stream: int) -> None:
        """
        Enqueue the same in device memory.
        """
    def dot_host(self, x: numpy.typing.NDArray[typing.Any], y: numpy.typing.NDArray[typing.Any], dot: int) -> None:
        """
        y = A x and x . y, which is written to an address: float64 for values of float64, otherwise float32.
        """
    def explanation(self) -> Explanation: ...
    def finish_device(
        self,
        B: int,
        ldb: int,
        C: int,
        ldc: int,
        k: int,
        alpha: float,
        beta: float,
        bias: int,
        bias_is_column: bool,
        relu: bool,
        stream: int,
    ) -> None:
        """
        Enqueue the same for operands in device memory, given by their addresses.
        """
    def finish_host(
        self,
        B: numpy.typing.NDArray[typing.Any],
        C: numpy.typing.NDArray[typing.Any],
        alpha: float,
        beta: float,
        bias: int,
        bias_is_column: bool,
        relu: bool,
    ) -> None:
        """
        C = activation(alpha A B + beta C + bias) on host arrays; `bias` is the address of a value for each column of C, or for each row, or 0.
        """
    def multiplies_on_host(self, columns: int) -> bool:
        """
        Whether the CPU multiplies so many columns in host memory.
        """
    def run_device(self, B: int, ldb: int, C: int, ldc: int, k: int, stream: int) -> None:
        """
        Enqueue the product of operands in device memory, given by their addresses.
        """
    def run_host(self, B: numpy.typing.NDArray[typing.Any], C: numpy.typing.NDArray[typing.Any]) -> None:
        """
        Overwrite C with the product of the matrix and B, both host arrays; complete on return.
        """
    def time_conversion(self, *, warmup: int, repeats: int) -> numpy.typing.NDArray[numpy.float64]:
        """
        Microseconds of each conversion from CSR on the device; empty if the format is not made there.
        """
    def update_values_from_device(self, data: int, stream: int) -> None:
        """
        Enqueue the same for values in device memory, given by their address.
        """
    def update_values_from_host(self, data: numpy.typing.NDArray[typing.Any]) -> None:
        """
        Replace the values of the matrix; complete on return.
        """
    @property
    def candidate(self) -> typing.Any:
        """
        What was chosen; None for kernels of experiments, which are in no registry.
        """
    @property
    def nbytes(self) -> int:
        """
        Memory the plan holds on its device.
        """
    @property
    def num_recorded(self) -> int:
        """
        Products that came again and again on a GPU and are launched as CUDA graphs.
        """
    @property
    def preparation_ms(self) -> dict[str, typing.Any]:
        """
        Milliseconds spent on each step of planning.
        """

class ConjugateGradients:
    """
    Steps of conjugate gradients with a plan for vectors on a GPU.
    """
    def __init__(self, plan: typing.Any) -> None: ...
    def curvature(self, stream: int) -> float:
        """
        p . A p of the last step, for which it waits.
        """
    def squared_residual(self, stream: int) -> float:
        """
        r . r, for which it waits.
        """
    def start(self, vectors: typing.Annotated[collections.abc.Sequence[int], "FixedSize(4)"], stream: int) -> None:
        """
        Begin with the residual r; `vectors` are the addresses of x, r, p, q.
        """
    def step(
        self, vectors: typing.Annotated[collections.abc.Sequence[int], "FixedSize(4)"], count: int, stream: int
    ) -> None:
        """
        Enqueue so many steps.
        """

class Timing:
    """
    Repeated times, in microseconds.
    """
    @property
    def median(self) -> float: ...
    @property
    def p10(self) -> float: ...
    @property
    def p90(self) -> float: ...
    @property
    def repeats(self) -> int: ...

class Trial:
    """
    Operands of a problem on its device, to check and time plans with.
    """
    def __init__(self, problem: Problem) -> None: ...
    def check(self, plan: Plan, *, rounds_sums: bool = False) -> str:
        """
        Compare a sample of the product with float64 sums; what is wrong, or the empty string. With `rounds_sums`, sums may be rounded to the value type with every product that is added.
        """
    def time(self, plan: Plan, *, cache: str, repeats: int = 30, warmup: int = 2, budget_ms: float = 50.0) -> Timing:
        """
        Time a plan: fewer repeats, but at least three, where they would take longer than the budget.
        """

class PlanOptions:
    """
    How plans are chosen.
    """
    def __init__(
        self,
        *,
        select: str = "auto",
        calls: float = 1000.0,
        verify: bool = False,
        patterns: collections.abc.Sequence[str] | None = None,
        inputs: collections.abc.Mapping[str, numpy.typing.NDArray[numpy.int32]] = {},
        updatable: bool = False,
        budget: float | None = None,
        small_on_host: bool | None = None,
    ) -> None: ...

class Planner:
    """
    Plans products, with the profiles of some folders.
    """
    def __init__(self, profile_folders: collections.abc.Sequence[str], *, blend: bool = True) -> None: ...
    def plan(
        self, problem: Problem, options: PlanOptions, progress: typing.Any = None, compared: dict[str, typing.Any] = {}
    ) -> Plan:
        """
        Find the fastest candidate for a problem, and prepare it. `progress(done, total, candidate)` is called before a candidate is measured; `compared` are other products by their names.
        """
    def predict(
        self,
        problem: Problem,
        gpu: str,
        *,
        calls: float = 1000.0,
        patterns: collections.abc.Sequence[str] | None = None,
    ) -> Explanation:
        """
        What would be chosen on a GPU that need not be there.
        """
    def take_warnings(self) -> list[str]:
        """
        What is wrong with profiles that were left out, said once.
        """

class StoredMatrix:
    """
    A matrix in one of the formats.
    """
    def array(self, name: str) -> numpy.typing.NDArray[typing.Any]:
        """
        An array, read-only.
        """
    def arrays(self) -> dict[str, typing.Any]:
        """
        The arrays that are stored, as they lie in memory.
        """
    def counts(self, name: str) -> dict[str, typing.Any]:
        """
        Numbers by name.
        """
    def part(self, name: str) -> StoredMatrix:
        """
        A part that is stored in another format.
        """
    def scalar(self, name: str) -> typing.Any: ...
    def to_csr(self) -> tuple[typing.Any, ...]:
        """
        Data, indices and indptr.
        """
    @property
    def dtype(self) -> numpy.dtype[typing.Any]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def nnz(self) -> int: ...
    @property
    def places(self) -> int: ...
    @property
    def shape(self) -> tuple[int, int]: ...

class PreparedSampledProduct:
    """
    A sampled product that is prepared for a pattern in device memory.
    """
    @staticmethod
    def column_vectors(pattern: DeviceCsr) -> PreparedSampledProduct:
        """
        Column vectors, for operands of any type.
        """
    @staticmethod
    def vendor(pattern: DeviceCsr, dtype: str, nnz: int) -> PreparedSampledProduct:
        """
        The vendor's, for operands of one type.
        """
    def run(self, dtype: str, X: int, Y: int, k: int, out: int, stream: int) -> None:
        """
        Enqueue it for operands given by their addresses.
        """
    @property
    def nbytes(self) -> int: ...

class SampledTrial:
    """
    Operands of a sampled product in device memory, to check and time it with.
    """
    def __init__(
        self, pattern: DeviceCsr, X: numpy.typing.NDArray[typing.Any], Y: numpy.typing.NDArray[typing.Any], nnz: int
    ) -> None: ...
    def time(
        self, prepared: typing.Any = None, *, cold: bool, repeats: int = 30, warmup: int = 2, budget_ms: float = 50.0
    ) -> Timing:
        """
        Time it: fewer repeats, but at least three, where they would take longer than the budget.
        """
    def values(self, prepared: typing.Any = None) -> numpy.typing.NDArray[typing.Any]:
        """
        Compute the product once, by the prepared one if one is given, and download it.
        """

class SampledPattern:
    """
    A pattern in GPU memory, and column vectors of it once a product takes them.
    """
    def __init__(self, pattern: DeviceCsr, nnz: int, vectors: bool | None = None) -> None:
        """
        With `vectors`, products always take column vectors; never if it is False; else where they pay.
        """
    def fast_path(self) -> collections.abc.Callable[..., typing.Any]:
        """
        A function of X, Y and out, which returns NotImplemented for what is not plain.
        """
    def multiply(self, dtype: str, X: int, Y: int, k: int, out: int, stream: int) -> None:
        """
        Enqueue a product of row-major operands without padding, given by their addresses.
        """
    def pays_for(self, dtype: str) -> bool | None:
        """
        Whether column vectors pay for a type; None if that has not been decided.
        """
    @property
    def vector_nbytes(self) -> int:
        """
        Bytes that column vectors of it take; 0 if there are none.
        """

class EntryLines:
    """
    Checks the lines of entries of a Matrix Market file, piece after piece.
    """
    def __init__(self, num_indices: int, has_value: bool) -> None: ...
    def check(self, piece: bytes) -> int:
        """
        Return the number of the first bad line, from 0 over all pieces, or -1.
        """
    @property
    def entries(self) -> int:
        """
        Lines so far that have ended and are not empty.
        """

class VendorProblem:
    """
    A product of cuSPARSE's with a matrix in CSR. `arrays` are the addresses of row offsets, columns and values; B and C are row-major, and on the GPU.
    """
    def __init__(
        self,
        op: str,
        *,
        shape: tuple[int, int],
        nnz: int,
        arrays: tuple[int, int, int],
        dtype: numpy.dtype[typing.Any],
        index_bytes: int,
        on_host: bool,
        k: int,
        algorithm: int,
        preprocess: bool,
    ) -> None: ...
    def time(self, device: int, B: int, C: int, products: int) -> tuple[float, float, float, int]:
        """
        Microseconds on the clock of the host of planning, of the first product and of others after it, and bytes of the buffer.
        """
    def time_until(self, device: int, B: int, C: int, products: int) -> float:
        """
        Microseconds from the start of planning until so many products are done.
        """

def _cta_aware_by_brute_force(
    matrix: CsrView, warps: int = 32, threads: int = 32, elements_per_cache_line: int = 32
) -> numpy.typing.NDArray[numpy.int32]:
    """
    "cta-aware" by comparing every two masks; for benchmarks and tests.
    """

def ask_for_captures(query: collections.abc.Callable[..., typing.Any]) -> None:
    """
    How to find out whether a graph is captured in this thread: GPU memory that is dropped then is kept until the capture has ended.
    """

def baseline_kernel(op: str, layout: str) -> Kernel:
    """
    The kernel that plain CSR means: what speedups are over.
    """

def choose_row_loads(when: str = "by size") -> None:
    """
    For tests: whether threads of row_split on a GPU load 'few' or 'many' rows of B at once, or 'by size' of the grid.
    """

def cmrs_read_occupancy(device: int, dtype: numpy.dtype[typing.Any], *, height: int, strips: bool) -> float:
    """
    Occupancy: share of the threads of a multiprocessor that can be resident with this kernel.
    """

def column_vector_feature_names() -> tuple[typing.Any, ...]: ...
def column_vector_input_names() -> tuple[typing.Any, ...]:
    """
    Those that need features of column vectors.
    """

def compress(log_ratio: numpy.typing.NDArray[numpy.float64]) -> typing.Any: ...
def compute_column_vector_features(matrix: CsrView) -> numpy.typing.NDArray[numpy.float64]: ...
def compute_column_vector_features_device(matrix: DeviceCsr) -> numpy.typing.NDArray[numpy.float64]:
    """
    Those of a matrix that was uploaded, computed on its GPU.
    """

def compute_features(
    name: str, matrix: CsrView, warps: int = 32, threads: int = 32, elements_per_cache_line: int = 32
) -> numpy.typing.NDArray[numpy.float64]: ...
def compute_features_device(
    name: str, matrix: DeviceCsr, warps: int = 32, threads: int = 32, elements_per_cache_line: int = 32
) -> numpy.typing.NDArray[numpy.float64]:
    """
    Features of a matrix that was uploaded, computed on its GPU.
    """

def compute_features_of_arrays(
    name: str,
    device: int,
    indptr: int,
    indptr_itemsize: int,
    indices: int,
    indices_itemsize: int,
    num_indices: int,
    num_rows: int,
    num_cols: int,
    stream: int,
    *,
    warps: int = 32,
    threads: int = 32,
    elements_per_cache_line: int = 32,
) -> numpy.typing.NDArray[numpy.float64]:
    """
    Features of a CSR matrix whose arrays are in the memory of a GPU, given by their addresses.
    """

def compute_hidden_overlap(matrix: CsrView, fewest_nonzeros: int = 1000000) -> float:
    """
    -1 for matrices of fewer nonzeros.
    """

def compute_hidden_overlap_device(matrix: DeviceCsr, fewest_nonzeros: int = 1000000) -> float:
    """
    That of a matrix that was uploaded, computed on its GPU.
    """

def compute_locality_features(matrix: CsrView) -> numpy.typing.NDArray[numpy.float64]: ...
def compute_permutation(
    name: str, matrix: CsrView, warps: int, threads: int, elements_per_cache_line: int
) -> numpy.typing.NDArray[numpy.int32]: ...
def compute_permutation_on_gpu(
    name: str, matrix: DeviceCsr, warps: int = 32, threads: int = 32, elements_per_cache_line: int = 32
) -> numpy.typing.NDArray[numpy.int32]:
    """
    The same permutation, computed where the matrix is, and copied to the host.
    """

def convert_on_gpu(format: str, matrix: DeviceCsr, options: dict[str, typing.Any]) -> StoredMatrix:
    """
    Store a matrix in a format that is made on the GPU where the matrix is.
    """

def copy_bandwidth(device: int) -> float:
    """
    Bytes per second, read plus written, of a large copy; -1 for the CPU. Measured once.
    """

def copy_to_device(device: int, to: int, from_: numpy.typing.NDArray[typing.Any]) -> None: ...
def copy_to_host(device: int, to: numpy.typing.NDArray[typing.Any], from_: int) -> None: ...
def count_in_cells(
    matrix: CsrView, perm: numpy.typing.NDArray[numpy.int32] | None, height: int, width: int
) -> numpy.typing.NDArray[typing.Any]:
    """
    The nonzeros in each of height x width cells of the matrix, its rows permuted first.
    """

def cublas_version() -> str: ...
def cuda_info() -> dict[str, typing.Any]:
    """
    What was built and which GPUs were found; never raises.
    """

def cusparse_version() -> str: ...
def enumerate_candidates(
    op: str, layout: str | None, device: str, dtype: str | None, precision: str = "full"
) -> list[Candidate]:
    """
    Every tried setting in the caller's row order, then every row permutation with default parameters.
    """

def environment(names: tuple[str, ...]) -> tuple[str | None, ...]:
    """
    Variables of the environment; None: not set.
    """

def eviction_memory(device: int) -> DeviceMemory:
    """
    The buffer that cold timings overwrite to evict the L2; kept for the next timing as long as it is referenced.
    """

def expand(compressed: numpy.typing.NDArray[numpy.float64]) -> typing.Any: ...
def fail_device_allocation(after: int) -> bool:
    """
    For tests: let an allocation of memory for a GPU fail; returns whether one has failed.
    """

def feature_names(name: str) -> tuple[typing.Any, ...]: ...
def feature_set_names() -> tuple[typing.Any, ...]: ...
def fill_device(device: int, to: int, byte: int, bytes: int) -> None: ...
def find_kernel(op: str, format: str, name: str) -> Kernel:
    """
    The kernel of that name.
    """

def find_profile(
    gpu: str,
    compute_capability: tuple[int, int] | None,
    folders: collections.abc.Sequence[os.PathLike[str] | str | bytes],
) -> tuple[typing.Any, ...]:
    """
    The profile for a GPU with its path and a note, or None; and what is wrong with files left out.
    """

def formats() -> list[dict[str, typing.Any]]:
    """
    The registry of formats: names, options, whether made on a GPU.
    """

def invert_permutation(perm: numpy.typing.NDArray[numpy.int32]) -> numpy.typing.NDArray[numpy.int32]: ...
def kernels(op: str) -> tuple[typing.Any, ...]:
    """
    The registered kernels of an operation.
    """

def list_profiles(folders: collections.abc.Sequence[os.PathLike[str] | str | bytes]) -> tuple[typing.Any, ...]:
    """
    The GPUs of all profiles; and what is wrong with files left out.
    """

def load_cublas(path: str) -> None: ...
def load_cusparse(path: str) -> None: ...
def load_profile(path: os.PathLike[str] | str | bytes) -> Profile: ...
def locality_feature_names() -> tuple[typing.Any, ...]: ...
def locality_input_names() -> tuple[typing.Any, ...]:
    """
    Those that need features of locality.
    """

def make_padded_copies(when: str = "where they pay", panel_bytes: int = 0) -> None:
    """
    For tests: whether products on a GPU copy operands whose rows do not begin on 16 bytes: 'where they pay', 'always' or 'never'; and how large the copy of a panel may be.
    """

def matches(name: str, patterns: collections.abc.Sequence[str] | None) -> bool:
    """
    Whether a name matches one of the shell-style patterns.
    """

def measure_copy_bandwidth(device: int, bytes: int) -> float:
    """
    Bytes per second, read plus written, of a device-to-device copy.
    """

def memory_in_pools(device: int) -> tuple[int, int]:
    """
    Bytes of the pools of a GPU: what is allocated, and what they hold with it.
    """

def merge_tiles(
    matrix: CsrView, resident: DeviceCsr | None, *, size: int
) -> tuple[numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.int32]]:
    """
    Tiles of csr/merge and the rows they share, made where the matrix is.
    """

def model_input_names() -> tuple[typing.Any, ...]: ...
def model_inputs(
    features: collections.abc.Mapping[str, numpy.typing.NDArray[numpy.float64]],
    k: numpy.typing.NDArray[numpy.float64],
    names: collections.abc.Sequence[str],
) -> numpy.typing.NDArray[numpy.float64]:
    """
    What models read of n matrices: n rows, a column for each name.
    """

def model_kinds() -> tuple[typing.Any, ...]: ...
def next_name() -> str:
    """
    A name that no other plan or operator of this process has.
    """

def num_gpus() -> int:
    """
    As many as cuda_info lists.
    """

def num_threads() -> int:
    """
    Threads a loop on the host may use: those set, else WARPLOOM_NUM_THREADS, else the processors allowed.
    """

def overlap_feature_names() -> tuple[typing.Any, ...]:
    """
    Of those, what models take.
    """

def parse_candidate(name: str) -> Candidate:
    """
    The candidate of that name.
    """

def partition_rows(matrix: CsrView, long_row: int) -> tuple[typing.Any, ...]: ...
def permutation_family(name: str) -> str:
    """
    What the order is good for.
    """

def permutation_is_symmetric(name: str) -> bool:
    """
    Whether the order is good for the columns of a square matrix too.
    """

def permutation_names() -> list[str]: ...
def permutation_runs_on_gpu(name: str) -> bool: ...
def permutation_searches(name: str) -> bool:
    """
    Whether the algorithm looks for nearest rows.
    """

def permutation_summary(name: str) -> str: ...
def permute_symmetrically(matrix: CsrView, perm: numpy.typing.NDArray[numpy.int32]) -> tuple[typing.Any, ...]:
    """
    indptr and indices of P A P^T, and where in A each of its entries was.
    """

def preparation_input_names() -> tuple[typing.Any, ...]: ...
def preparation_inputs(
    features: collections.abc.Mapping[str, numpy.typing.NDArray[numpy.float64]],
) -> numpy.typing.NDArray[numpy.float64]: ...
def prepare(
    problem: Problem,
    candidate: Candidate,
    permutation: tuple[numpy.typing.NDArray[numpy.int32], float] | None = None,
    inputs: collections.abc.Mapping[str, numpy.typing.NDArray[numpy.int32]] = {},
) -> Plan:
    """
    Prepare a candidate. `permutation` is its row permutation with the milliseconds that it took, if it was computed before.
    """

def prepare_cmrs_read(matrix: CsrView, resident: DeviceCsr, *, height: int, strips: bool) -> typing.Any:
    """
    A kernel that reads columns and values as CMRS does, and reserves the shared memory of its partial sums.
    """

def prepare_csr_parts(
    matrix: CsrView, resident: DeviceCsr, *, threads_per_row: int, gather: bool, arithmetic: bool
) -> typing.Any:
    """
    CSR-vector with or without its random access to x and its arithmetic.
    """

def problem_sizes() -> dict[str, typing.Any]:
    """
    Names of sizes, with the feature that each is; None for k.
    """

def product_floor_bytes(matrix: CsrView, k: int) -> int:
    """
    Minimum number of bytes that a product moves: A in CSR, the rows of B it refers to, and C, once each.
    """

def read_safetensors(path: os.PathLike[str] | str | bytes) -> tuple[typing.Any, ...]:
    """
    Metadata and arrays of a file.
    """

def reference_product(matrix: CsrView, B: numpy.typing.NDArray[typing.Any]) -> tuple[typing.Any, ...]:
    """
    The product and |A| |B|, both summed in float64.
    """

def roofline_us(
    rows: numpy.typing.NDArray[numpy.float64],
    cols: numpy.typing.NDArray[numpy.float64],
    nnz: numpy.typing.NDArray[numpy.float64],
    k: numpy.typing.NDArray[numpy.float64],
    itemsize: numpy.typing.NDArray[numpy.float64],
) -> typing.Any: ...
def row_blocks(
    matrix: CsrView, resident: DeviceCsr | None, *, nnz_per_block: int, threads_per_block: int
) -> tuple[numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.int32], int]:
    """
    Blocks and cut rows of csr/adaptive and the number of partial sums, made where the matrix is.
    """

def sampled_product(
    pattern: CsrView, X: numpy.typing.NDArray[typing.Any], Y: numpy.typing.NDArray[typing.Any]
) -> numpy.typing.NDArray[typing.Any]:
    """
    For every nonzero (i, j) the dot product of row i of X and row j of Y, row-major host arrays.
    """

def sampled_product_of_host_operands(
    pattern: DeviceCsr, X: numpy.typing.NDArray[typing.Any], Y: numpy.typing.NDArray[typing.Any], nnz: int
) -> numpy.typing.NDArray[typing.Any]:
    """
    The same on the device of the pattern, for host arrays: complete on return.
    """

def set_num_threads(count: int) -> None:
    """
    Set the number of host threads for the process; 0 returns to the default.
    """

def setting_name(op: str, dtype: str, layout: str, cache: str) -> str: ...
def share_thread_blocks(
    row_block: numpy.typing.NDArray[numpy.int64],
    nnz_block: numpy.typing.NDArray[numpy.int64],
    is_long: numpy.typing.NDArray[numpy.bool],
    total: int,
) -> numpy.typing.NDArray[numpy.int64]: ...
def spmv_input_names() -> tuple[typing.Any, ...]:
    """
    Those that need the features of SpMV only.
    """

def store(format: str, matrix: CsrView, options: dict[str, typing.Any]) -> StoredMatrix:
    """
    Store a matrix in a format, with the options that are given.
    """

def synchronize(device: int) -> None: ...
def threads_per_row_mean(matrix: CsrView) -> int: ...
def threads_per_row_square_mean(matrix: CsrView) -> int: ...
def validate_permutation(perm: numpy.typing.NDArray[numpy.int32], num_rows: int) -> None: ...

DEFAULT_BUDGET: float = 2.0
FEWEST_NONZEROS_OF_OVERLAP: int = 1000000
LOSS_OUTPUT: str = "loss"
MAX_MEASURED: int = 6
MAX_STORED_VECTORS: int = 16
NEARNESS: float = 0.05
NOT_MEASURED: float = -1.0
NUM_NEAR: int = 6
REFERENCE_OUTPUT: str = "reference"
__version__: str

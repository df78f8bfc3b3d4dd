"""
C++/CUDA core of warploom. Use the classes and functions of the warploom package instead.
"""

import collections.abc
import typing

import numpy
import numpy.typing

class CsrView:
    """
    A validated CSR matrix that looks at NumPy arrays without copying them.
    """
    def __init__(
        self,
        indptr: numpy.typing.NDArray[numpy.int64],
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

class CsrMatrix:
    @staticmethod
    def from_csr(arg0: CsrView) -> CsrMatrix: ...
    def to_csr(self) -> tuple[typing.Any, ...]: ...
    @property
    def data(self) -> numpy.typing.NDArray[typing.Any]: ...
    @property
    def dtype(self) -> numpy.dtype[typing.Any]: ...
    @property
    def indices(self) -> numpy.typing.NDArray[typing.Any]: ...
    @property
    def indptr(self) -> numpy.typing.NDArray[typing.Any]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def nnz(self) -> int: ...
    @property
    def shape(self) -> tuple[int, int]: ...

class DcsrMatrix:
    @staticmethod
    def from_csr(arg0: CsrView) -> DcsrMatrix: ...
    def to_csr(self) -> tuple[typing.Any, ...]: ...
    @property
    def data(self) -> numpy.typing.NDArray[typing.Any]: ...
    @property
    def dtype(self) -> numpy.dtype[typing.Any]: ...
    @property
    def indices(self) -> numpy.typing.NDArray[typing.Any]: ...
    @property
    def indptr(self) -> numpy.typing.NDArray[typing.Any]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def nnz(self) -> int: ...
    @property
    def row_ids(self) -> numpy.typing.NDArray[typing.Any]: ...
    @property
    def shape(self) -> tuple[int, int]: ...

class CmrsMatrix:
    @staticmethod
    def from_csr(
        matrix: CsrView,
        height: typing.SupportsInt | typing.SupportsIndex,
        packed: bool,
        sort_columns: bool,
        modulo: typing.SupportsInt | typing.SupportsIndex,
    ) -> CmrsMatrix: ...
    def to_csr(self) -> tuple[typing.Any, ...]: ...
    @property
    def data(self) -> numpy.typing.NDArray[typing.Any]: ...
    @property
    def dtype(self) -> numpy.dtype[typing.Any]: ...
    @property
    def height(self) -> int: ...
    @property
    def indices(self) -> numpy.typing.NDArray[typing.Any]: ...
    @property
    def modulo(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def nnz(self) -> int: ...
    @property
    def num_places(self) -> int: ...
    @property
    def packed(self) -> bool: ...
    @property
    def row_in_strip(self) -> numpy.typing.NDArray[typing.Any]: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def sort_columns(self) -> bool: ...
    @property
    def strip_ptr(self) -> numpy.typing.NDArray[typing.Any]: ...
    @property
    def words(self) -> numpy.typing.NDArray[typing.Any]: ...

class DeviceMemory:
    def __init__(self, device: int, bytes: int) -> None: ...
    @property
    def pointer(self) -> int: ...

class ProductPlan:
    """
    A kernel prepared for one matrix on one device.
    """
    def run_device(self, B: int, ldb: int, C: int, ldc: int, k: int, stream: int) -> None:
        """
        Enqueue the product of operands in device memory, given by their addresses.
        """
    def run_host(self, B: numpy.typing.NDArray[typing.Any], C: numpy.typing.NDArray[typing.Any]) -> None:
        """
        Overwrite C with the product of the matrix and B, both host arrays; complete on return.
        """
    def time_device(
        self,
        B: int,
        ldb: int,
        C: int,
        ldc: int,
        k: int,
        stream: int,
        *,
        cold: bool,
        warmup: int,
        repeats: int,
        budget_ms: float,
        min_repeats: int,
    ) -> numpy.typing.NDArray[numpy.float64]:
        """
        Microseconds of each repeat, between events on the device.
        """
    @property
    def nbytes(self) -> int:
        """
        Memory the plan holds on its device.
        """

def _cta_aware_by_brute_force(
    matrix: CsrView, warps: int = 32, threads: int = 32, elements_per_cache_line: int = 32
) -> numpy.typing.NDArray[numpy.int32]:
    """
    "cta-aware" by comparing every two masks; for benchmarks and tests.
    """

def compute_features(
    name: str, matrix: CsrView, warps: int = 32, threads: int = 32, elements_per_cache_line: int = 32
) -> numpy.typing.NDArray[numpy.float64]: ...
def compute_permutation(
    name: str, matrix: CsrView, warps: int, threads: int, elements_per_cache_line: int
) -> numpy.typing.NDArray[numpy.int32]: ...
def copy_to_device(device: int, to: int, from_: numpy.typing.NDArray[typing.Any]) -> None: ...
def copy_to_host(device: int, to: numpy.typing.NDArray[typing.Any], from_: int) -> None: ...
def cuda_info() -> dict[str, typing.Any]:
    """
    What was built and which GPUs are there; never raises.
    """

def cusparse_version() -> str: ...
def feature_names(name: str) -> tuple[typing.Any, ...]: ...
def feature_set_names() -> tuple[typing.Any, ...]: ...
def fill_device(device: int, to: int, byte: int, bytes: int) -> None: ...
def invert_permutation(perm: numpy.typing.NDArray[numpy.int32]) -> numpy.typing.NDArray[numpy.int32]: ...
def load_cusparse(path: str) -> None: ...
def measure_copy_bandwidth(device: int, bytes: int) -> float:
    """
    Bytes per second, read plus written, of a device-to-device copy.
    """

def num_threads() -> int: ...
def permutation_names() -> list[str]: ...
def permutation_searches(name: str) -> bool:
    """
    Whether the algorithm looks for nearest rows.
    """

def permutation_summary(name: str) -> str: ...
def prepare_product(
    matrix: CsrView,
    format: str,
    kernel: str,
    k: int,
    layout: str,
    parameters: collections.abc.Mapping[str, int],
    perm: numpy.typing.NDArray[numpy.int32] | None,
    device: int,
    allocate: typing.Any = None,
) -> ProductPlan:
    """
    Prepare a kernel for a matrix. `device` is the number of a GPU, or -1 for the CPU.
    """

def reference_product(matrix: CsrView, B: numpy.typing.NDArray[typing.Any]) -> tuple[typing.Any, ...]:
    """
    The product and |A| |B|, both summed in float64.
    """

def set_num_threads(count: int) -> None: ...
def product_floor_bytes(matrix: CsrView, k: int) -> int:
    """
    Fewest bytes an SpMM can move: A, the rows of B it refers to, and C, once each.
    """

def spmm_kernels() -> list[dict[str, typing.Any]]:
    """
    The registry: one dict per (format, kernel).
    """

def unsupported_reason(
    matrix: CsrView,
    format: str,
    kernel: str,
    k: int,
    layout: str,
    parameters: collections.abc.Mapping[str, int],
    perm: numpy.typing.NDArray[numpy.int32] | None,
) -> str:
    """
    Why the kernel cannot run this request, or the empty string.
    """

def synchronize(device: int) -> None: ...
def validate_permutation(perm: numpy.typing.NDArray[numpy.int32], num_rows: int) -> None: ...

__version__: str

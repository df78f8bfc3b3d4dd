"""C++/CUDA core of warploom. Use the classes and functions of the warploom package instead."""

from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str

class CsrView:
    """A validated CSR matrix that looks at NumPy arrays without copying them."""

    def __init__(
        self,
        indptr: npt.NDArray[np.int64],
        indices: npt.NDArray[Any],
        data: npt.NDArray[Any] | None,
        num_rows: int,
        num_cols: int,
    ) -> None: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def nnz(self) -> int: ...
    @property
    def indptr(self) -> npt.NDArray[np.int64]: ...
    @property
    def indices(self) -> npt.NDArray[np.int32]: ...
    @property
    def data(self) -> npt.NDArray[Any] | None: ...

def num_threads() -> int: ...
def set_num_threads(count: int) -> None: ...
def cuda_info() -> dict[str, Any]: ...

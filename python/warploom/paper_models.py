"""Models of the papers, which choose as the papers do among the kernels of this package.

``mehrabi2021``
    The order of the rows for SpMM, by networks with two hidden layers of 64 and 32 neurons that read 24 features [1]_:
    one predicts the times of four orders (as given, DCSR, LPT, warp-aware). ``mehrabi2021/classifier`` predicts which
    is the fastest; ``mehrabi2021/ten`` and ``mehrabi2021/ten-classifier`` choose among all ten. The kernel is the
    paper's C-stationary one for column-major operands, and one row of C after the other for row-major operands.

``gao2024``
    Threads per row of CSR-vector for SpMV, by trees that read eleven features [2]_: one number for the whole matrix.
    ``gao2024/blockwise`` puts rows of similar length into blocks and chooses for each block of short rows
    (section 4.3).

What they were trained on is what the papers measure: SpMM in float32 with column-major operands and as many columns of
B as A has, SpMV in float64, both with a warm cache.

Examples
--------
>>> import warploom as wl
>>> A = wl.examples.load("gr_30_30")
>>> wl.predict(A, "spmv", dtype="float64", model="gao2024").chosen
'spmv/none/csr/vector[threads_per_row=16]'

References
----------
.. [1] Mehrabi, Lee, Chatterjee, Sorin, Lee, O'Connor, "Learning sparse matrix row permutations for efficient SpMM on
   GPU architectures", ISPASS 2021, section V.
.. [2] Gao, Ji, Liu, Wang, Shi, "Revisiting thread configuration of SpMV kernels on GPU: A machine learning based
   approach", Journal of Parallel and Distributed Computing, 2024.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from warploom import _core, features, partition
from warploom._matrix import as_csr
from warploom.candidates import parse
from warploom.errors import ParameterError, ProfileError
from warploom.explanation import Explanation, Product
from warploom.predictor import Model
from warploom.profiles import Profile

__all__ = ["Choice", "PaperModel", "find", "names"]


@dataclasses.dataclass(frozen=True)
class Choice:
    """What a model has chosen.

    Attributes
    ----------
    candidate : str
    inputs : mapping of str to ndarray of int32
        What the candidate takes beside the matrix, as `warploom.plan` does.
    rows : list of Row
        What is predicted of each candidate, the best first.
    note : str
        What the figures are.
    """

    candidate: str
    inputs: Mapping[str, NDArray[np.int32]]
    rows: list[_core.Row]
    note: str

    def explanation(self, product: Product, where: str, model: str, profile_note: str) -> Explanation:
        """Return the table of this choice.

        Parameters
        ----------
        product : Product
        where : str
            End of the title.
        model : str
        profile_note : str
            Empty, or that the profile is another GPU's.
        """
        footnotes = [f"chosen by the model {model}; {self.note}", *([profile_note] if profile_note else [])]
        return Explanation(product.title(where), self.rows, self.candidate, "", footnotes)


@dataclasses.dataclass(frozen=True)
class PaperModel:
    """A model of a paper.

    Attributes
    ----------
    name : str
        What `warploom.plan` takes as ``model``.
    op : str
        The operation that it chooses for.
    stored : str
        Name of the model in the profile.
    """

    name: str
    op: str
    stored: str
    _choose: Callable[[Model, Any, _core.Problem], Choice] = dataclasses.field(repr=False)

    @property
    def family(self) -> str:
        """The part of the name before the slash: profiles are kept by it."""
        return self.name.partition("/")[0]

    def check_operation(self, op: str) -> None:
        """Raise ParameterError if the model is for another operation."""
        if op != self.op:
            raise ParameterError(f"{self.name} chooses for op='{self.op}', not for '{op}'", argument="model")

    def choose(self, profile: Profile, A: Any, problem: _core.Problem) -> Choice:
        """Choose for a product.

        Parameters
        ----------
        profile : Profile
            With the model.
        A : sparse matrix
        problem : Problem

        Returns
        -------
        Choice

        Raises
        ------
        ProfileError
            The profile lacks the model.
        ParameterError
            The model is for another operation, or none of its candidates can run.
        """
        self.check_operation(problem.op)
        if self.stored not in profile.models:
            known = ", ".join(profile.models)
            raise ProfileError(f"the profile has no model '{self.stored}', only {known}", argument="model")
        return self._choose(profile.models[self.stored], A, problem)


def names() -> tuple[str, ...]:
    """Return the names of the models.

    Examples
    --------
    >>> from warploom import paper_models
    >>> [name for name in paper_models.names() if "/" not in name]
    ['mehrabi2021', 'gao2024']
    """
    return tuple(_MODELS)


def find(name: str) -> PaperModel | None:
    """Return a model by its name, or None."""
    return _MODELS.get(name)


# Mehrabi et al.


def _row_order(model: Model, A: Any, problem: _core.Problem) -> Choice:
    predicted = model.predict(features.spmm(A))[0]
    by_layout = [_in_layout(name, problem.layout) for name in model.outputs]
    return _best(by_layout, predicted, problem, "microseconds predicted for as many columns of B as A has")


def _row_order_class(model: Model, A: Any, problem: _core.Problem) -> Choice:
    probabilities = model.predict(features.spmm(A))[0]
    by_layout = [_in_layout(name, problem.layout) for name in model.outputs]
    return _most_probable(by_layout, probabilities, problem)


def _in_layout(candidate: str, layout: str) -> str:
    """Return the candidate with the kernel that stands for the paper's in a layout."""
    return candidate if layout == "column" else candidate.replace("/c_stationary", "/row_split")


# Gao et al.


def _threads_per_row(model: Model, A: Any, problem: _core.Problem) -> Choice:
    return _most_probable(list(model.outputs), model.predict(features.spmv(A))[0], problem)


def _threads_per_block(model: Model, A: Any, problem: _core.Problem) -> Choice:
    view = as_csr(A, pattern_only=True)
    indices = np.asarray(view.indices)
    matrix = scipy.sparse.csr_array((np.ones(len(indices), np.float32), indices, view.indptr), shape=view.shape)
    blocks = partition.partition_rows(matrix)
    threads = [dict(parse(name).parameters)["threads_per_row"] for name in model.outputs]
    chosen = []
    for begin, end, is_long in zip(blocks.row_block[:-1], blocks.row_block[1:], blocks.is_long, strict=True):
        if not is_long:
            probabilities = model.predict(features.spmv(matrix[begin:end]))[0]
            chosen.append(threads[int(probabilities.argmax())])
    name = "spmv/none/csr/blockwise"
    if reason := problem.reason_against(parse(name)):
        raise ParameterError(f"{name} cannot run this problem: {reason}", argument="model")
    note = f"{len(blocks)} blocks of rows, {len(chosen)} of short ones"
    return Choice(name, {"block_threads_per_row": np.array(chosen, np.int32)}, [_core.Row(name)], note)


# Shared.


def _best(candidates: list[str], times: NDArray[np.float64], problem: _core.Problem, note: str) -> Choice:
    order = _possible(candidates, times, problem)
    rows = [_core.Row(candidates[i], predicted_us=float(times[i]), speedup=float(times[0] / times[i])) for i in order]
    return Choice(candidates[order[0]], {}, rows, f"{note}; speedup over {candidates[0]}")


def _most_probable(candidates: list[str], probabilities: NDArray[np.float64], problem: _core.Problem) -> Choice:
    order = _possible(candidates, -probabilities, problem)
    rows = [_core.Row(candidates[i], note=f"fastest with probability {probabilities[i]:.2f}") for i in order]
    return Choice(candidates[order[0]], {}, rows, "probabilities are the model's")


def _possible(candidates: list[str], values: NDArray[np.float64], problem: _core.Problem) -> list[int]:
    """Return positions of candidates that can run, the smallest value first."""
    reasons = [problem.reason_against(parse(name)) for name in candidates]
    order = [int(i) for i in values.argsort(kind="stable") if not reasons[i]]
    if not order:
        raise ParameterError(f"{candidates[0]} cannot run this problem: {reasons[0]}", argument="model")
    return order


_MODELS = {
    model.name: model
    for model in (
        PaperModel("mehrabi2021", "spmm", "row-order-four-warm-times", _row_order),
        PaperModel("mehrabi2021/classifier", "spmm", "row-order-four-warm-classes", _row_order_class),
        PaperModel("mehrabi2021/ten", "spmm", "row-order-ten-warm-times", _row_order),
        PaperModel("mehrabi2021/ten-classifier", "spmm", "row-order-ten-warm-classes", _row_order_class),
        PaperModel("gao2024", "spmv", "threads-per-row-float64-warm", _threads_per_row),
        PaperModel("gao2024/blockwise", "spmv", "threads-per-row-blocks-float64-warm", _threads_per_block),
    )
}

"""Trained models, evaluated without the libraries that trained them.

A model predicts from numbers about a matrix, usually its features, the time of every candidate, or the probability
that a candidate is the best. Two kinds exist: dense networks, as Mehrabi et al. [1]_ use for SpMM (two hidden layers
of 64 and 32 neurons), and ensembles of decision trees, as Gao et al. [2]_ found best for SpMV. They are evaluated in
C++ within microseconds, from plain arrays; `warploom.training.export` makes them from what trained them, and
`warploom.profiles` keeps them in files.

References
----------
.. [1] Mehrabi, Lee, Chatterjee, Sorin, Lee, O'Connor, "Learning sparse matrix row permutations for efficient SpMM on
   GPU architectures", ISPASS 2021, section V.
.. [2] Gao, Ji, Liu, Wang, Shi, "Revisiting thread configuration of SpMV kernels on GPU: A machine learning based
   approach", Journal of Parallel and Distributed Computing, 2024.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warploom import _core
from warploom.errors import ParameterError, ShapeError
from warploom.features import FeatureVector
from warploom.features import names as feature_names

__all__ = ["MAX_STORED_VECTORS", "Model", "StoredVectors", "kinds"]

MAX_STORED_VECTORS: int = _core.MAX_STORED_VECTORS
"""Maximum number of vectors that a model stores for its own verification."""


@dataclasses.dataclass(frozen=True, eq=False)
class StoredVectors:
    """Inputs with the outputs that the trainer computed for them, by which a loaded model is verified.

    Parameters
    ----------
    inputs : ndarray of float64, shape (n, number of inputs)
        At most `MAX_STORED_VECTORS` vectors.
    outputs : ndarray of float64, shape (n, number of outputs)
        The trainer's predictions.
    """

    inputs: NDArray[np.float64]
    outputs: NDArray[np.float64]


class Model:
    """A trained model.

    Parameters
    ----------
    kind : str
        One of `kinds()`.
    inputs : sequence of str
        Names of the inputs, in the order of the columns of `predict`.
    outputs : sequence of str
        Names of the outputs, usually candidates.
    settings : mapping of str to str
        See Notes.
    arrays : mapping of str to ndarray
        See Notes. The arrays are kept, not copied: do not change them.
    check : StoredVectors, optional
        What the trainer computed; verified here.

    Attributes
    ----------
    kind : str
    inputs, outputs : tuple of str
    settings : mapping of str to str
    arrays : mapping of str to ndarray
    check : StoredVectors or None
    core : _core.Model
        The same in C++.

    Raises
    ------
    ProfileError
        A setting or an array is missing, unknown, or has the wrong type, shape or values; ``argument`` is its name.
        Or the model does not compute the stored outputs.

    Notes
    -----
    All kinds have the setting ``output``, from the scores to the outputs: ``identity``; ``exp`` for predicted
    logarithms; ``softmax``; ``logistic``, from one score to the probabilities 1 - p and p. Several members (networks,
    trees of a forest) average their scores before that.

    ``network``: dense layers, x W^T + b. Sums are formed in float64 in the order of the inputs.

    =====================================  =========  ==================================================
    setting or array                       type       meaning
    =====================================  =========  ==================================================
    ``activation``                         setting    after all layers but the last: relu, tanh, identity
    ``layer.<i>.weight`` [members, out,    float32    W of layer i = 0, 1, ...
    in]
    ``layer.<i>.bias`` [members, out]      float32    b
    ``input.log_unit`` [inputs], optional  float64    u: t = sign(x) log(1 + abs(x) / u), or t = x where 0
    ``input.mean``, ``input.scale``        float64    (t - mean) / scale enters the first layer, as float32
    [inputs]
    ``output.mean``, ``output.scale``      float64    score = mean + scale * what the last layer gives
    [scores], optional
    =====================================  =========  ==================================================

    ``tree_ensemble``: decision trees that go left where x[feature] <= threshold; at most 1024 inputs, and 2^20 nodes a
    tree. No two leaves have the same row of ``leaf.value``.

    =====================================  ==========  ==================================================
    setting or array                       type        meaning
    =====================================  ==========  ==================================================
    ``comparison``                         setting     ``scikit-learn``: x rounded to float32 first;
                                                       ``lightgbm``: 0 for abs(x) up to 1e-35
    ``combine``                            setting     ``sum`` (boosting) or ``mean`` (forest, single tree)
    ``tree.offset`` [trees + 1]            int32       first node of each tree, its root
    ``node.feature`` [nodes]               int32       -1 for a leaf
    ``node.threshold`` [nodes]             float32/64
    ``node.left``, ``node.right`` [nodes]  int32       children, counted from the root; ``node.left`` of a
                                                       leaf is its row of ``leaf.value``
    ``leaf.value`` [leaves, scores]        float64     or [leaves, 1] with ``tree.score``
    ``tree.score`` [trees], optional       int32       the score a tree adds to
    ``base`` [scores]                      float64     what a sum starts from
    =====================================  ==========  ==================================================

    Examples
    --------
    A network without hidden layers: one output, twice the input plus one.

    >>> import numpy as np
    >>> from warploom.predictor import Model
    >>> arrays = {
    ...     "input.mean": np.zeros(1),
    ...     "input.scale": np.ones(1),
    ...     "layer.0.weight": np.array([[[2.0]]], dtype=np.float32),
    ...     "layer.0.bias": np.array([[1.0]], dtype=np.float32),
    ... }
    >>> model = Model("network", ["x"], ["y"], {"activation": "identity", "output": "identity"}, arrays)
    >>> model.predict(np.array([[3.0]])).tolist()
    [[7.0]]
    """

    def __init__(
        self,
        kind: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        settings: Mapping[str, str],
        arrays: Mapping[str, NDArray[Any]],
        check: StoredVectors | None = None,
    ) -> None:
        self._set(_core.Model(kind, inputs, outputs, dict(settings), dict(arrays)), arrays, check)
        if check is not None:
            self.verify(check)

    @classmethod
    def of_core(cls, core: _core.Model) -> Model:
        """Wrap a model that was loaded in C++."""
        model = cls.__new__(cls)
        model._set(core, core.arrays, None if core.check is None else StoredVectors(*core.check))
        return model

    def _set(self, core: _core.Model, arrays: Mapping[str, NDArray[Any]], check: StoredVectors | None) -> None:
        self.core = core
        self.kind = core.kind
        self.inputs = core.inputs
        self.outputs = core.outputs
        self.settings = MappingProxyType(core.settings)
        self.arrays = MappingProxyType(dict(arrays))
        self.check = check
        self._columns: dict[str, NDArray[np.intp]] = {}

    @property
    def has_spread(self) -> bool:
        """Whether there are several members, so that `predict_with_spread` works."""
        return bool(self.core.has_spread)

    def predict(self, X: ArrayLike | FeatureVector) -> NDArray[np.float64]:
        """Predict.

        Parameters
        ----------
        X : array_like of float64, shape (n, inputs), or FeatureVector
            One row for each prediction; of a FeatureVector, the features with the names of the inputs.

        Returns
        -------
        ndarray of float64, shape (n, outputs)
            With a FeatureVector, n is 1.

        Raises
        ------
        ShapeError
            X has another number of columns.
        ParameterError
            A value is not finite (``position`` counts in C order), or the FeatureVector lacks an input.
        """
        return self.core.predict(self._rows(X))

    def predict_with_spread(self, X: ArrayLike | FeatureVector) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predict, and return how far the members of the model disagree.

        Parameters
        ----------
        X : array_like of float64, shape (n, inputs), or FeatureVector
            As for `predict`.

        Returns
        -------
        outputs : ndarray of float64, shape (n, outputs)
            The same as of `predict`.
        spread : ndarray of float64, shape (n, outputs)
            Population standard deviation across members of the scores, before the output transform: for a model of
            the logarithm of the time, about the relative standard deviation of the time.

        Raises
        ------
        ShapeError, ParameterError
            As for `predict`.
        ParameterError
            The model has no members that could disagree (`has_spread`).
        """
        outputs, spread = self.core.predict_with_spread(self._rows(X))
        return outputs, spread

    def verify(self, check: StoredVectors) -> None:
        """Compute the stored vectors, and compare.

        Parameters
        ----------
        check : StoredVectors
            Inputs, and outputs to be found: exactly by trees without a transform, else within 1e-6 of the largest
            output of the vector.

        Raises
        ------
        ProfileError
            The vectors are too many or do not fit, or an output is another one; ``position`` is that of the vector.
        """
        self.core.verify(check.inputs, check.outputs)

    def _rows(self, X: ArrayLike | FeatureVector) -> NDArray[np.float64]:
        if isinstance(X, FeatureVector):
            if X.set not in self._columns:
                self._columns[X.set] = self._find_columns(X.set)
            return X.values[self._columns[X.set]][np.newaxis]
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.inputs):
            raise ShapeError(
                f"X has the shape {list(rows.shape)}, the model takes [n, {len(self.inputs)}]", argument="X"
            )
        return rows

    def _find_columns(self, feature_set: str) -> NDArray[np.intp]:
        available = feature_names(feature_set)
        missing = [name for name in self.inputs if name not in available]
        if missing:
            raise ParameterError(f"the {feature_set} features lack the model's input '{missing[0]}'", argument="X")
        return np.array([available.index(name) for name in self.inputs])

    def __repr__(self) -> str:
        return f"Model({self.kind!r}, {len(self.inputs)} inputs, {len(self.outputs)} outputs)"


def kinds() -> tuple[str, ...]:
    """Return the names of the kinds of models."""
    return tuple(_core.model_kinds())

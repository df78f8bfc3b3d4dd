"""What items on examples share: arrays beside those that a paper prints, and features of example matrices."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from warploom import examples, features
from warploom.reproduce.registry import Printed

__all__ = ["HERE", "array_rows", "feature_table"]

HERE = "in this implementation"
"""Where conclusions hold that need no measurements."""


def array_rows(ours: dict[str, str], printed: Sequence[Printed]) -> pd.DataFrame:
    """Return arrays and those that a paper prints, for comparison."""
    return pd.DataFrame(
        [(p.quantity, p.value, ours[p.quantity], p.value == ours[p.quantity]) for p in printed],
        columns=["array", "paper", "here", "equal"],
    )


def feature_table(set_name: str, names: Sequence[str]) -> pd.DataFrame:
    """Return the features of example matrices, a row for each feature."""
    vectors = {name: getattr(features, set_name)(examples.load(name)) for name in names}
    return pd.DataFrame(
        {"feature": list(features.names(set_name)), **{name: vector.as_array() for name, vector in vectors.items()}}
    )

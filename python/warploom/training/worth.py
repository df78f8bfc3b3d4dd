"""What choosing by models is worth, beside simpler ways to choose: one candidate for all, and a rule of three splits.

All of them choose for matrices that they have not seen: in random folds, and with whole families left out. Where a
candidate that is chosen without looking at the matrix does not run on it, one that is like it takes its place: see
`stand_ins`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom import _core
from warploom.bench.measurements import Measurements, origin_of
from warploom.bench.medians import default_of_vendor, geometric_mean
from warploom.bench.rendering import Summary
from warploom.candidates import parse
from warploom.errors import ParameterError
from warploom.model_inputs import SPMV_INPUTS, model_inputs
from warploom.training.data import Dataset, family_splits, random_folds
from warploom.training.evaluate import SLOWER, losses
from warploom.training.selector import WORST, Options, Split, choices_measured, inputs_of, options_of
from warploom.training.train import Unseen, datasets_of, further_rows, of_first_gpu

__all__ = [
    "LARGE_NOTES",
    "NOTES",
    "SELECTORS",
    "Rule",
    "choices",
    "fit_rule",
    "large_table",
    "stand_ins",
    "table",
    "worth",
]

SELECTORS = {
    "one": "one candidate",
    "rule": "three splits",
    "quick": "row lengths",
    "models": "all features",
    "measured": "measured",
}
"""Ways to choose, from the simplest on, and what the heads of tables call them."""

SPLITS = 3
"""Of the rule."""

_STEPS = 64
"""Quantiles of a feature that are tried as thresholds."""

_FEWEST = 20
"""Rows on either side of a split."""

UNLIMITED = 5.0
"""Instead of `WORST` for further sweeps, whose slowest candidates are a hundred times as slow as the fastest."""

Progress = Callable[[int, int, str], None]
_Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Rule:
    """A decision tree of few splits with a candidate at each end.

    Attributes
    ----------
    candidate : str
        What is chosen here, if this is an end.
    input : str
        Of `warploom.model_inputs.INPUTS`; empty at an end.
    threshold : float
    below, above : Rule or None
        For values up to the threshold, and for others.
    """

    candidate: str
    input: str = ""
    threshold: float = np.nan
    below: Rule | None = None
    above: Rule | None = None

    def choose(self, inputs: dict[str, _Array]) -> NDArray[np.object_]:
        """Return the candidate for each row of some model inputs, by their names."""
        if self.below is None or self.above is None:
            count = len(next(iter(inputs.values())))
            return np.full(count, self.candidate, dtype=object)
        taken = inputs[self.input] <= self.threshold
        return np.where(taken, self.below.choose(inputs), self.above.choose(inputs))

    def __str__(self) -> str:
        if self.below is None or self.above is None:
            return self.candidate
        return f"({self.below} if {self.input} <= {self.threshold:.4g} else {self.above})"


@dataclasses.dataclass
class _End:
    rows: NDArray[np.intp]
    candidate: int
    split: tuple[float, int, float] | None
    """Loss that the best split of these rows spares, its input, and its threshold."""
    parts: tuple[_End, _End] | None = None


def fit_rule(dataset: Dataset, inputs: Sequence[str], splits: int = SPLITS, worst: float = WORST) -> Rule:
    """Grow a decision tree by the split that spares most, one after the other.

    Parameters
    ----------
    dataset : Dataset
        The training part.
    inputs : sequence of str
        Of `warploom.model_inputs.INPUTS`.
    splits : int
        Maximum number; with none, one candidate is chosen for all.
    worst : float
        Logarithms of time / minimum time are limited to this.

    Returns
    -------
    Rule
        The loss is the sum of the logarithms of time / minimum time, near-ties merged; a candidate without a time
        counts as the slowest.
    """
    X = model_inputs(dataset.features, dataset.k, inputs)
    ratio = np.log(dataset.times / dataset.best[:, np.newaxis])
    ratio = np.where(np.isfinite(ratio), np.minimum(ratio, worst), worst)
    loss = np.where(ratio <= dataset.tolerance[:, np.newaxis], 0.0, ratio)
    kept = np.unique(np.argsort(loss.mean(axis=0))[:_MOST].tolist() + _often_best(loss))
    loss = loss[:, kept]

    def end(rows: NDArray[np.intp]) -> _End:
        return _End(rows, int(loss[rows].sum(axis=0).argmin()), _best_split(X[rows], loss[rows]))

    root = end(np.arange(len(dataset)))
    for _ in range(splits):
        ends = [one for one in _ends(root) if one.split is not None]
        if not ends:
            break
        chosen = max(ends, key=lambda one: one.split[0] if one.split else 0.0)
        assert chosen.split is not None
        _, column, threshold = chosen.split
        low = X[chosen.rows, column] <= threshold
        chosen.parts = end(chosen.rows[low]), end(chosen.rows[~low])
    names = [dataset.candidates[column] for column in kept]
    return _as_rule(root, names, inputs)


_MOST = 80
"""Candidates that a rule chooses among: those of least mean loss, and as many that are often the fastest."""


def _often_best(loss: _Array) -> list[int]:
    wins = np.bincount(loss.argmin(axis=1), minlength=loss.shape[1])
    return [int(column) for column in np.argsort(-wins, kind="stable")[:_MOST] if wins[column]]


def _ends(node: _End) -> list[_End]:
    return [node] if node.parts is None else [*_ends(node.parts[0]), *_ends(node.parts[1])]


def _as_rule(node: _End, names: Sequence[str], inputs: Sequence[str]) -> Rule:
    if node.parts is None or node.split is None:
        return Rule(names[node.candidate])
    below, above = (_as_rule(part, names, inputs) for part in node.parts)
    return Rule(names[node.candidate], inputs[node.split[1]], node.split[2], below, above)


def _best_split(X: _Array, loss: _Array) -> tuple[float, int, float] | None:
    """Return the loss spared by the best split into two parts with a candidate each, its input and its threshold."""
    if len(X) < 2 * _FEWEST:
        return None
    whole = float(loss.sum(axis=0).min())
    best: tuple[float, int, float] | None = None
    for column in range(X.shape[1]):
        order = np.argsort(X[:, column], kind="stable")
        values = X[order, column]
        sums = np.cumsum(loss[order], axis=0)
        cuts = np.unique(np.linspace(_FEWEST, len(X) - _FEWEST, _STEPS).astype(np.intp))
        cuts = cuts[values[cuts - 1] < values[cuts]]
        if not cuts.size:
            continue
        low = sums[cuts - 1]
        spared = whole - low.min(axis=1) - (sums[-1] - low).min(axis=1)
        place = int(spared.argmax())
        if spared[place] > 0 and (best is None or spared[place] > best[0]):
            middle = (values[cuts[place] - 1] + values[cuts[place]]) / 2
            best = float(spared[place]), column, float(middle)
    return best


def stand_ins(dataset: Dataset) -> NDArray[np.intp]:
    """Return what is taken where a candidate is chosen without looking at the matrix.

    Parameters
    ----------
    dataset : Dataset

    Returns
    -------
    ndarray of int, shape (n, candidates)
        The column itself where the candidate may be chosen. Where it may not, since it cannot run there or another one
        does the same work (rows need no segments, or fewer threads): that with the same kernel, of the same format or
        on CSR, which differs from it in as few parameters as possible; without one, the vendor's default; or else the
        slowest.
    """
    parsed = [parse(name) for name in dataset.candidates]
    parameters = [{p.name: value for p, value in zip(c.kernel.parameters, c.parameters, strict=True)} for c in parsed]
    slowest = np.where(np.isfinite(dataset.times), dataset.times, -np.inf).argmax(axis=1)
    default = dataset.candidates.index(default_of_vendor(dataset.op))
    instead = np.where(dataset.supported[:, default], default, slowest)
    found = np.tile(np.arange(len(parsed)), (len(dataset), 1))
    for i, chosen in enumerate(parsed):
        unknown = ~dataset.supported[:, i]
        if not unknown.any():
            continue
        alike = [
            (_differences(parameters[i], parameters[j]), other.kernel.format != chosen.kernel.format, j)
            for j, other in enumerate(parsed)
            if other.permutation == chosen.permutation
            and other.kernel.name == chosen.kernel.name
            and other.kernel.format in (chosen.kernel.format, "csr")
        ]
        column = instead.copy()
        for _, _, j in sorted(alike, reverse=True):
            column = np.where(dataset.supported[:, j], j, column)
        found[unknown, i] = column[unknown]
    return found


def _differences(a: Mapping[str, int], b: Mapping[str, int]) -> int:
    return sum(a[name] != b[name] for name in a.keys() & b.keys())


def _replaced(dataset: Dataset) -> Dataset:
    """Return the data set with the times of `stand_ins`."""
    columns = stand_ins(dataset)
    rows = np.arange(len(dataset))[:, np.newaxis]
    return dataclasses.replace(dataset, times=dataset.times[rows, columns], supported=dataset.supported[rows, columns])


def _columns(dataset: Dataset, names: NDArray[np.object_]) -> NDArray[np.intp]:
    """Return the columns of candidates, or of what is taken instead."""
    by_name = {name: column for column, name in enumerate(dataset.candidates)}
    chosen = np.array([by_name[name] for name in names], dtype=np.intp)
    return stand_ins(dataset)[np.arange(len(dataset)), chosen]


def _unseen_rule(dataset: Dataset, options: Options, splits: Iterable[Split], count: int) -> NDArray[np.intp]:
    """Fit rules to each sweep, which has candidates of its own; further sweeps have one for each setting."""
    found = np.empty(len(dataset), dtype=np.intp)
    inputs = inputs_of(dataset, options)
    of = np.where(dataset.sweeps == 0, "", np.char.add(dataset.sweeps.astype(str), dataset.settings))
    for train, test in splits:
        for kind in np.unique(of[test]):
            known, rows = train[of[train] == kind], test[of[test] == kind]
            part = dataset.rows(rows)
            X = model_inputs(part.features, part.k, inputs)
            worst = WORST if not kind else UNLIMITED
            rule = fit_rule(_replaced(dataset.rows(known if len(known) else train)), inputs, count, worst)
            found[rows] = _columns(part, rule.choose(dict(zip(inputs, X.T, strict=True))))
    return found


def choices(dataset: Dataset, options: Options, *, folds: int = 4, family_folds: int = 5) -> pd.DataFrame:
    """Choose for every row by every selector that has not seen its matrix, or its family.

    Parameters
    ----------
    dataset : Dataset
    options : Options
        Of the models.
    folds, family_folds : int
        As for `warploom.training.train.train`.

    Returns
    -------
    pandas.DataFrame
        A row for each row and split: ``matrix``, ``setting``, ``sweep``, ``split`` (``random`` or ``families``),
        ``nnz``, ``best_us``, ``best_unpermuted_us``, ``best_own_us``, ``default_us``, ``vendor_us`` (the best of the
        vendor), and for every selector ``<name>`` (the candidate), ``<name>_us`` and ``<name>_loss``: time / minimum
        time - 1, near-ties merged, NaN where the time is not known.
    """
    quick = dataclasses.replace(
        options, inputs=tuple(name for name in inputs_of(dataset, options) if name in SPMV_INPUTS)
    )
    kept = {"random": list(random_folds(dataset, folds, options.seed))}
    if len(set(dataset.families)) > 1:
        kept["families"] = list(family_splits(dataset, family_folds))
    unpermuted = [name for name in dataset.candidates if name.split("/")[1] == "none"]
    own = [name for name, of_vendor in zip(dataset.candidates, dataset.vendor, strict=True) if not of_vendor]
    frames, limits = [], (np.nan, np.nan)
    for split, parts in kept.items():
        further = further_rows(dataset, parts)
        models = Unseen.of(dataset, options, parts, further)
        if split == "random":
            limits = models.unsure_doubt, models.margin(dataset)
        unsure = models.doubt > limits[0]
        lengths = quick.inputs == inputs_of(dataset, options)
        columns = {
            "one": _unseen_rule(dataset, options, parts, 0),
            "rule": _unseen_rule(dataset, options, parts, SPLITS),
            "quick": (models if lengths else Unseen.of(dataset, quick, parts, further)).predicted.argmin(axis=1),
            "models": models.predicted.argmin(axis=1),
            "measured": choices_measured(dataset, models.predicted, unsure, limits[1], _core.MAX_MEASURED),
        }
        frame = pd.DataFrame(
            {
                "matrix": dataset.names,
                "setting": dataset.settings,
                "sweep": dataset.sweeps,
                "split": split,
                "nnz": dataset.nnz.astype(np.int64),
                "best_us": dataset.best,
                "best_unpermuted_us": dataset.columns(unpermuted).best,
                "best_own_us": dataset.columns(own).best,
                "default_us": dataset.vendor_default,
                "vendor_us": dataset.vendor_best,
            }
        )
        names = np.array(dataset.candidates, dtype=object)
        for name, chosen in columns.items():
            frame[name] = names[chosen]
            frame[f"{name}_us"] = dataset.times[np.arange(len(dataset)), chosen]
            frame[f"{name}_loss"] = losses(dataset, chosen)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def worth(
    measurements: Measurements | Sequence[Measurements],
    *,
    caches: Iterable[str] = ("warm",),
    only: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> tuple[Summary, pd.DataFrame]:
    """Compare ways to choose, by operation, value type and layout, on all matrices and on the real ones alone.

    Parameters
    ----------
    measurements : Measurements or sequence of Measurements
        Sweeps. Models are trained on all of those that are on the first one's GPU; others are left out.
    caches : iterable of str
    only : iterable of str, optional
        Such as ``spmv/float64``: the settings that begin with one of these.
    progress : callable, optional
        Called with the number of settings done, of all, and the next one.

    Returns
    -------
    table : Summary
        Of the first sweep.
    rows : pandas.DataFrame
        Those of `choices`, with ``cache``, and ``origin``, which is ``real``, ``real by origin`` or ``constructed``.

    Raises
    ------
    ParameterError
        There are no times of these settings.
    """
    parts, _ = of_first_gpu([measurements] if isinstance(measurements, Measurements) else list(measurements))
    chosen = tuple(only or [""])
    datasets = [dataset for kind in datasets_of(parts, tuple(caches), chosen) for dataset in kind.values()]
    if not datasets:
        raise ParameterError(f"no times of {', '.join(chosen) or 'any setting'} to compare", argument="only")
    known = pd.concat([part.matrices for part in parts]).drop_duplicates("matrix").set_index("matrix")
    frames = []
    for done, dataset in enumerate(datasets):
        if progress:
            progress(done, len(datasets), f"{dataset.settings[0]}, {dataset.cache} cache")
        frame = choices(dataset, options_of(dataset))
        frame.insert(1, "origin", origin_of(known["source"].reindex(frame["matrix"])))
        frame.insert(3, "cache", dataset.cache)
        frames.append(frame)
    rows = pd.concat(frames, ignore_index=True)
    return table(rows[rows["sweep"] == 0]), rows


NOTES = [
    "Speed of the choice in per cent of that of the fastest candidate (geometric mean of minimum time / time of "
    "the choice, near-ties counting as the fastest), on matrices that were not seen in training: in random folds / "
    "with whole families left out. Default: the vendor's. Three splits: a decision tree over the features with a "
    "candidate at each of its four ends. Row lengths: models that read these alone, which are known once a matrix "
    "is checked. Measured: the few candidates that may be the fastest are timed where the models are unsure, as "
    "plans do. No orders: the speed of the fastest candidate without a row permutation.",
]
"""What is to be said of the table."""


def table(rows: pd.DataFrame) -> Summary:
    """Summarise the rows of `worth`.

    Parameters
    ----------
    rows : pandas.DataFrame

    Returns
    -------
    Summary
        A row for each operation, value type and layout, state of the cache, and set of matrices.
    """
    kind = rows["setting"].str.replace(r"/k=.*", "", regex=True)
    lines = [
        {"setting": name, "cache": cache} | _line(label, part)
        for (name, cache), group in rows.groupby([kind, "cache"], sort=False)
        for label, part in _parts(group)
    ]
    return Summary("What choosing is worth", pd.DataFrame(lines), NOTES)


def _parts(group: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    parts = [("all", group), ("real", group[group["origin"] != "constructed"])]
    if str(group["setting"].iloc[0]).startswith("spmv"):
        large = group["nnz"] >= _LARGE
        parts += [("below 10^6 nonzeros", group[~large]), ("10^6 and more", group[large])]
    return [(label, part) for label, part in parts if len(part)]


_LARGE = 10**6


def _line(label: str, found: pd.DataFrame) -> dict[str, Any]:
    random = found[found["split"] == "random"]
    line = {
        "matrices": f"{label}: {found['matrix'].nunique():,}",
        "default": _percent(random["best_us"] / random["default_us"]),
    }
    for name, words in SELECTORS.items():
        by_split = [_percent(1 / (1 + part[f"{name}_loss"])) for _, part in found.groupby("split", sort=False)]
        line[words] = " / ".join(by_split)
    return line | {"no orders": _percent(random["best_us"] / random["best_unpermuted_us"])}


def _percent(ratios: pd.Series) -> str:
    known = ratios[np.isfinite(ratios)]
    return f"{100 * np.exp(np.log(known).mean()):.1f}" if len(known) else "-"


_IRREGULAR = ("rmat", "kron_g500", "power_law", "power_law_rows", "preferential_attachment", "web_copies", "web_crawl")
"""Constructions whose rows differ much in length and have no neighbours in space."""

_POOR = 0.85
"""Share of the speed of the fastest candidate below which choices are counted."""

_SHOWN = {name: words for name, words in SELECTORS.items() if name != "quick"}

LARGE_NOTES = [
    "Matrices and their families are held out. Speed of the choice in per cent of that of the fastest candidate, "
    "orders among them: geometric mean, and the least; the share of the matrices where it is below 85 %, and where "
    "the choice has less than 0.98 of the speed of the vendor's best algorithm and format for the matrix; and the "
    "geometric mean of the speed over that. One candidate and three splits are fitted to the large matrices and the "
    "setting alone. Own: the fastest candidate that is not the vendor's, which no choice can beat by much. Irregular: "
    "R-MAT, power laws, preferential attachment and web graphs, natural or shuffled.",
]
"""What is to be said of the table of large matrices."""


def large_table(rows: pd.DataFrame) -> Summary:
    """Summarise the rows of `worth` that are of further sweeps, for families left out.

    Parameters
    ----------
    rows : pandas.DataFrame

    Returns
    -------
    Summary
        A row for each setting, state of the cache, set of matrices and way to choose.
    """
    further = rows[(rows["sweep"] > 0) & (rows["split"] == "families")]
    lines = [
        {"setting": setting, "cache": cache, "matrices": f"{label}: {part['matrix'].nunique():,}"} | line
        for (setting, cache), group in further.groupby(["setting", "cache"], sort=False)
        for label, part in _parts_of_large(group)
        for line in _lines_of_large(part)
    ]
    return Summary("Choices for large matrices", pd.DataFrame(lines), LARGE_NOTES)


def _parts_of_large(group: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    names = group["matrix"].astype(str)
    irregular = names.str.split("(").str[0].isin(_IRREGULAR) & ~names.str.contains(r"\.(?:half|reordered)")
    parts = [("all", group)]
    parts += [(origin, group[group["origin"] == origin]) for origin in ("constructed", "real by origin", "real")]
    parts.append(("irregular", group[irregular]))
    return [(label, part) for label, part in parts if len(part)]


def _lines_of_large(part: pd.DataFrame) -> list[dict[str, Any]]:
    ways = {words: (1 / (1 + part[f"{name}_loss"]), part[f"{name}_us"]) for name, words in _SHOWN.items()}
    ways["own"] = part["best_us"] / part["best_own_us"], part["best_own_us"]
    lines = []
    for words, (share, time) in ways.items():
        over = part["vendor_us"] / time
        share, over = share[np.isfinite(share)], over[np.isfinite(over)]
        lines.append(
            {
                "chosen by": words,
                "speed": _percent(share),
                "least": f"{100 * share.min():.1f}" if len(share) else "-",
                "below 85 %": f"{100 * (share < _POOR).mean():.1f}" if len(share) else "-",
                "slower than the vendor": f"{100 * (over < SLOWER).mean():.1f}" if len(over) else "-",
                "over the vendor's best": f"{geometric_mean(over):.2f}" if len(over) else "-",
            }
        )
    return lines

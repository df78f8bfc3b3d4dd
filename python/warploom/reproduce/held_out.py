"""Scores of choices among a few candidates on held-out matrices, as measured and with near-ties merged."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.training.data import Dataset, fastest
from warploom.training.evaluate import Scores, losses, score

__all__ = ["HeldOut", "figures", "merged"]

WITHIN = (2, 4, 10)
"""Losses against the oracle, in per cent, within which shares of the matrices are reported."""


@dataclasses.dataclass(frozen=True, eq=False)
class HeldOut:
    """Choices for matrices that the model had not seen, and their loss.

    Attributes
    ----------
    rows : pandas.DataFrame
        One row for each matrix of each split: ``matrix``, ``group``, ``split``, ``nnz``, ``optimal``, ``chosen``,
        ``best_us``, ``chosen_us``, ``baseline_us`` (NaN if not measured), ``loss`` = chosen / best - 1, and
        ``merged_loss``, which is 0 where the choice is a near-tie of the best one.
    figures : pandas.DataFrame
        Index: ``accuracy``, ``within_2``, ``within_4`` and ``within_10`` (shares of the rows that lose no more than
        that many per cent), ``mean_loss``, ``loss_95``, ``worst_loss``; with a baseline ``speedup`` and
        ``oracle_speedup`` (arithmetic means), ``gain_share`` = (speedup - 1) / (oracle_speedup - 1), and
        ``speedup_share`` = speedup / oracle_speedup. Columns: ``raw`` and ``merged``, each with the ends of its
        bootstrap interval, as ``raw_low`` and ``raw_high``. With near-ties merged, a near-tie of the best time counts
        as the best; so does the baseline's, and the gain is the part beyond noise.
    classes : tuple of str
        The classes to choose among.
    """

    rows: pd.DataFrame
    figures: pd.DataFrame
    classes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        parts: Sequence[Dataset],
        chosen: Sequence[NDArray[np.intp]],
        classes: Sequence[str],
        baseline: str | None = None,
        *,
        samples: int = 1000,
    ) -> HeldOut:
        """Score choices.

        Parameters
        ----------
        parts : sequence of Dataset
            Held-out rows of each split; the columns are the classes.
        chosen : sequence of ndarray of int
            Columns chosen for them.
        classes : sequence of str
            Names for the columns.
        baseline : str, optional
            One of the classes.
        samples : int
            Bootstrap samples.
        """
        dataset = parts[0].joined(*parts[1:])
        columns = np.concatenate(list(chosen))
        names = np.array(list(classes), dtype=object)
        lines = np.arange(len(dataset))
        before = None if baseline is None else list(classes).index(baseline)
        rows = pd.DataFrame(
            {
                "matrix": dataset.names,
                "group": dataset.groups,
                "split": np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
                "nnz": dataset.nnz,
                "optimal": names[fastest(dataset)],
                "chosen": names[columns],
                "best_us": dataset.best,
                "chosen_us": dataset.times[lines, columns],
                "baseline_us": np.full(len(dataset), np.nan) if before is None else dataset.times[:, before],
                "loss": losses(dataset, columns, merged=False),
                "merged_loss": losses(dataset, columns),
            }
        )
        return cls(rows, figures(dataset, columns, before, samples=samples), tuple(classes))

    def confusion(self, *, merge: bool = False) -> pd.DataFrame:
        """Count the chosen class for each fastest class.

        Parameters
        ----------
        merge : bool
            Whether a near-tie of the best one counts as the best one.

        Returns
        -------
        pandas.DataFrame
            A row for each pair of classes: ``optimal``, ``chosen``, ``matrices``, ``mean_loss`` (NaN for none).
        """
        rows = self.rows
        optimal = rows["optimal"].where(~(merge & (rows["merged_loss"] == 0)), rows["chosen"])
        loss = rows["merged_loss"] if merge else rows["loss"]
        cells = pd.DataFrame({"optimal": optimal, "chosen": rows["chosen"], "loss": loss})
        found = cells.groupby(["optimal", "chosen"])["loss"].agg(["size", "mean"])
        every = pd.MultiIndex.from_product([self.classes, self.classes], names=["optimal", "chosen"])
        found = found.reindex(every).rename(columns={"size": "matrices", "mean": "mean_loss"})
        return found.assign(matrices=found["matrices"].fillna(0).astype(int)).reset_index()

    def loss_histogram(self, percent: Sequence[float] = (0, 1, 2, 4, 6, 8, 10, 15, 20, 30, 50, 100)) -> pd.DataFrame:
        """Count the matrices by their loss.

        Parameters
        ----------
        percent : sequence of float
            Upper ends of the intervals, ascending; the first interval has no lower end, and one without upper end
            follows.

        Returns
        -------
        pandas.DataFrame
            ``above`` and ``up_to`` in per cent, and how many: ``matrices``, ``merged`` (near-ties merged).
        """
        edges = [-np.inf, *percent, np.inf]
        table = pd.DataFrame({"above": edges[:-1], "up_to": edges[1:]})
        for name, column in (("matrices", "loss"), ("merged", "merged_loss")):
            cut = pd.cut(100 * self.rows[column], edges, labels=False)
            table[name] = np.bincount(cut.to_numpy(np.intp), minlength=len(table))
        return table


def merged(dataset: Dataset) -> Dataset:
    """Return the data set with near-ties of the best time of a row set to it."""
    best = dataset.best[:, np.newaxis]
    near = np.log(dataset.times / best) <= dataset.tolerance[:, np.newaxis]
    return dataclasses.replace(dataset, times=np.where(near, best, dataset.times))


def figures(dataset: Dataset, chosen: NDArray[np.intp], baseline: int | None, *, samples: int = 1000) -> pd.DataFrame:
    """Return the table `HeldOut.figures`."""
    kinds = {"raw": _without_ties(dataset), "merged": _without_ties(merged(dataset))}
    columns: dict[str, dict[str, float]] = {}
    for kind, data in kinds.items():
        before = None if baseline is None else data.times[:, baseline]
        scores = score(data, chosen, before, samples=samples)
        values = {
            "accuracy": scores["accuracy"],
            **{f"within_{p}": _share_within(data, chosen, p, samples) for p in WITHIN},
            **{name: scores[name] for name in _TAKEN if name in scores.values},
        }
        columns[kind] = {name: value.value for name, value in values.items()}
        columns[f"{kind}_low"] = {name: value.low for name, value in values.items()}
        columns[f"{kind}_high"] = {name: value.high for name, value in values.items()}
    return pd.DataFrame(columns).rename_axis("figure")


_TAKEN = ("mean_loss", "loss_95", "worst_loss", "speedup", "oracle_speedup", "gain_share", "speedup_share")


def _without_ties(dataset: Dataset) -> Dataset:
    return dataclasses.replace(dataset, tolerance=np.zeros(len(dataset)))


def _share_within(dataset: Dataset, chosen: NDArray[np.intp], percent: float, samples: int) -> Any:
    """Return the share of the rows that lose no more than that."""
    tied = dataclasses.replace(dataset, tolerance=np.full(len(dataset), np.log1p(percent / 100) + 1e-12))
    scores: Scores = score(tied, chosen, samples=samples)
    return scores["accuracy"]

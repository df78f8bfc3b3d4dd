"""The inputs of items: measurements, and the matrices of the corpus."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd

from warploom.bench import Measurements
from warploom.bench.medians import Medians
from warploom.bench.repeatability import Tolerances, tolerances
from warploom.corpus import Entry
from warploom.corpus.lookup import exact_constructions
from warploom.corpus.names import canonical
from warploom.errors import ParameterError
from warploom.experiments import Findings, load
from warploom.reproduce.sweep import Sweep

__all__ = ["Context", "MissingMeasurementsError", "MissingPackagesError"]

_Made = TypeVar("_Made")
Origin = Literal["real", "constructed"]

_PEAKS = {"NVIDIA H200": 4.8e12, "NVIDIA H100 80GB HBM3": 3.35e12, "NVIDIA A100-SXM4-80GB": 2.039e12}
"""Theoretical memory bandwidth in bytes per second, as the vendor's data sheets have it."""


class MissingMeasurementsError(ParameterError):
    """The measurements at hand lack what a table or figure needs; the message names the command that makes it."""


class MissingPackagesError(MissingMeasurementsError):
    """An item trains models, and what they are trained with is not installed; the message names the extra that has it.

    Like missing measurements, this concerns single items, which are listed as not made.
    """


def _origin(name: str, sources: Mapping[str, str]) -> Origin:
    base = _SUFFIXES.sub("", name)
    if name in sources or base in sources:
        return "constructed" if sources.get(name, sources.get(base)) == "construction" else "real"
    return "constructed" if base.endswith(")") else "real"


_SUFFIXES = re.compile(r"(\.T|\[\d*:\d*\])+$")
"""Of transposes and blocks of rows."""


@dataclasses.dataclass
class Context:
    """The argument of the functions that make items.

    Parameters
    ----------
    measurements : Measurements, optional
        Measurements of one GPU. Examples and models need none.
    entries : sequence of Entry, optional
        Matrices to load where an item needs patterns, instead of the paper's or their substitutes.
    experiments : sequence of path-like or Findings
        Findings of experiments, or folders with them, as `warploom.experiments.load` takes them. Of several that have
        the same experiment, the last one counts.
    hint : str
        Why there are no measurements, if that is known: part of the reasons why items are not made.
    """

    measurements: Measurements | None = None
    entries: Sequence[Entry] | None = None
    experiments: Sequence[str | os.PathLike[str] | Findings] = ()
    hint: str = ""

    @functools.cached_property
    def originals(self) -> Measurements | None:
        """The measurements of matrices as they are: no transposes, no blocks of rows."""
        return None if self.measurements is None else self.measurements.only()

    @functools.cached_property
    def _with_transposes(self) -> Measurements | None:
        return None if self.measurements is None else self.measurements.only(transposes=True)

    @functools.cached_property
    def facts(self) -> pd.DataFrame:
        """The table of matrices, by name."""
        if self.measurements is None:
            raise MissingMeasurementsError("there are no measurements", argument="measurements")
        return self.measurements.matrices.set_index("matrix")

    @functools.cached_property
    def _medians(self) -> dict[tuple[str, str, bool, tuple[str, ...]], Medians]:
        return {}

    def medians(self, sweep: Sweep) -> Medians:
        """Return the times of all candidates in the setting of a sweep.

        Raises
        ------
        MissingMeasurementsError
            There are none.
        ParameterError
            They are of different GPUs.
        """
        measurements = self._with_transposes if sweep.transposes else self.originals
        if measurements is None or not self._has(measurements, sweep):
            raise self.missing(f"times of {sweep.setting} with a {sweep.cache} L2 cache", sweep.command())
        needed = tuple(dict.fromkeys(sweep.techniques.values()))
        key = (sweep.setting, sweep.cache, sweep.transposes, needed)
        if key not in self._medians:
            self._medians[key] = Medians.of(measurements, sweep.setting, sweep.cache, needed)
        return self._medians[key]

    @staticmethod
    def _has(measurements: Measurements, sweep: Sweep) -> bool:
        rows = measurements.measurements
        chosen = (rows["setting"] == sweep.setting) & (rows["cache"] == sweep.cache) & (rows["run"] == 0)
        return bool((chosen & (rows["status"] == "ok")).any())

    def times(self, sweep: Sweep, needed: Iterable[str] | None = None) -> pd.DataFrame:
        """Return the times of the techniques of a sweep.

        Parameters
        ----------
        sweep : Sweep
        needed : iterable of str, optional
            Techniques without whose times a matrix is left out; all of them if not given.

        Returns
        -------
        pandas.DataFrame
            Microseconds. Index: matrices; columns: techniques.

        Raises
        ------
        MissingMeasurementsError
            A technique that is not optional was measured on no matrix, or no matrix has all that are needed.
        """
        medians = self.medians(sweep)
        found = {name: sweep.candidates(name, medians.times) for name in sweep.techniques}
        absent = [name for name, candidates in found.items() if not candidates and name not in sweep.optional]
        if absent:
            listed = ", ".join(sweep.techniques[name] for name in absent)
            raise self.missing(
                f"times of {listed} in {sweep.setting} with a {sweep.cache} L2 cache", sweep.command(absent)
            )
        frame = pd.DataFrame({name: medians.best(candidates) for name, candidates in found.items()})
        chosen = list(sweep.techniques if needed is None else needed)
        frame = frame.dropna(subset=chosen) if chosen else frame
        if frame.empty:
            raise self.missing(
                f"matrices with times of all of {', '.join(sweep.techniques)} in {sweep.setting}", sweep.command()
            )
        return frame

    @functools.cached_property
    def _made(self) -> dict[str, Any]:
        return {}

    def once(self, name: str, make: Callable[[], _Made]) -> _Made:
        """Return the result of a function, which is called once; the result is kept for other items."""
        if name not in self._made:
            self._made[name] = make()
        kept: _Made = self._made[name]
        return kept

    @staticmethod
    def needs_training(*packages: str) -> None:
        """Check that the packages that train models are installed.

        Raises
        ------
        MissingPackagesError
            One is not installed.
        """
        absent = [name for name in packages if importlib.util.find_spec(name) is None]
        if absent:
            raise MissingPackagesError(
                f"it trains models on the measurements, which needs {' and '.join(absent)}; install what training "
                "needs with: pip install 'warploom[training]'",
                argument="ids",
            )

    def column(self, sweep: Sweep, name: str) -> pd.DataFrame:
        """Return another column of the measurements, such as ``preparation_ms``, in the form of `times`.

        Every technique is one candidate. Matrices without any value are left out.

        Raises
        ------
        MissingMeasurementsError
            A technique was measured on no matrix.
        """
        self.times(sweep, ())
        assert self.originals is not None  # or `times` would have raised
        rows = self.originals.timed()
        rows = rows[(rows["setting"] == sweep.setting) & (rows["cache"] == sweep.cache)]
        techniques = {candidate: technique for technique, candidate in sweep.techniques.items()}
        rows = rows[rows["candidate"].isin(techniques)].drop_duplicates(["matrix", "candidate"])
        rows = rows.astype({"matrix": str, "candidate": str})
        frame = rows.pivot(index="matrix", columns="candidate", values=name).rename(columns=techniques)
        return frame[list(sweep.techniques)].astype(float).dropna(how="all")

    def findings(self, name: str) -> Findings:
        """Return the findings of an experiment.

        Raises
        ------
        MissingMeasurementsError
            It was not run.
        """
        found = load(name, self.experiments)
        if found is not None:
            return found
        raise self.missing(f"experiment {name}", f"warploom experiment run {name} --output sweep")

    @staticmethod
    def measured_as(name: str, measured: Iterable[str]) -> str | None:
        """Return the name under which a matrix of the SuiteSparse collection was measured.

        Parameters
        ----------
        name : str
            Full name in the collection.
        measured : iterable of str
            Names of measured matrices.

        Returns
        -------
        str or None
            The name itself, or that of the construction that makes the same pattern; None if neither was measured.
        """
        known = set(measured)
        exact = exact_constructions().get(name)
        spellings = [name] if exact is None else [name, canonical(exact)]
        return next((spelling for spelling in spellings if spelling in known), None)

    @staticmethod
    def missing(what: str, command: str) -> MissingMeasurementsError:
        """Return the error that says what is missing and how to get it."""
        return MissingMeasurementsError(
            f"the measurements have no {what}; make them with: {command} - and pass --measurements sweep",
            argument="measurements",
        )

    def sizes(self, index: pd.Index) -> pd.DataFrame:
        """Return rows, columns, nonzeros and the features of matrices."""
        return self.facts.loc[index]

    @functools.cached_property
    def tolerances(self) -> Tolerances | None:
        """How far two measurements of the same thing differ; None if nothing was measured twice."""
        if self.originals is None or not (self.originals.measurements["run"] == 1).any():
            return None
        return tolerances(self.originals)

    def where(self) -> str:
        """Return what was measured on, to be read after a verb: ``on the NVIDIA H200``."""
        gpus = self._environment_values("gpu")
        return f"on the {' and '.join(gpus)}" if gpus else "on an unnamed device"

    def origins(self, names: Iterable[str]) -> list[Origin]:
        """Return for each matrix whether it is a real one or made from a definition.

        Transposes and blocks of rows are what their matrices are. Names that were not measured are looked at: those of
        constructions are calls, such as ``grid2d(nx=5,ny=5)``.
        """
        sources = {} if self.measurements is None else self.facts["source"].to_dict()
        return [_origin(str(name), sources) for name in names]

    def counted(self, names: Iterable[str], kind: str = "") -> str:
        """Return in words how many matrices these are, and how many of them are real: ``3 matrices, 1 of them real``.

        Parameters
        ----------
        names : iterable of str
            Each matrix once.
        kind : str
            An adjective for them.
        """
        origins = self.origins(names)
        real, adjective = origins.count("real"), f"{kind} " if kind else ""
        if len(origins) == 1:
            return f"1 {adjective}matrix, which is {origins[0]}"
        share = (
            "none of them real"
            if not real
            else "all of them real"
            if real == len(origins)
            else f"{real:,} of them real"
        )
        return f"{len(origins):,} {adjective}matrices, {share}"

    def caption(self, text: str, sweep: Sweep, matrices: Iterable[str], kind: str = "") -> str:
        """Return a caption that says what was measured, on what, and on how many matrices, real and constructed."""
        cuda = " and ".join(self._environment_values("cuda")) or "unknown"
        gpu = " and ".join(self._environment_values("gpu")) or "unnamed device"
        count = self.counted(matrices, kind)
        return f"{text} {gpu}, CUDA {cuda}; {sweep.setting}, {sweep.cache} L2 cache; {count}."

    def peak_bandwidth(self) -> float:
        """Return the theoretical memory bandwidth in bytes per second; NaN if it is not known."""
        return _PEAKS.get(" and ".join(self._environment_values("gpu")), float("nan"))

    def copy_bandwidth(self) -> float:
        """Return the measured bandwidth of a copy in bytes per second, the mean over the environments."""
        environments = self.measurements.environments if self.measurements else {}
        found = [float(e["copy_bandwidth"]) for e in environments.values() if e.get("copy_bandwidth")]
        return float(np.mean(found)) if found else float("nan")

    def _environment_values(self, name: str) -> list[str]:
        environments = self.measurements.environments if self.measurements else {}
        return sorted({str(e[name]) for e in environments.values() if e.get(name)})

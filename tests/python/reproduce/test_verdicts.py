"""Verdicts that measurements can turn: the same item over times that support the paper, and over times that do not."""

from __future__ import annotations

import math
import types

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from bench.tables import matrix, measured, tables
from warploom import permutations
from warploom.bench.oracle import PAPER_SPMM
from warploom.bench.repeatability import Tolerances
from warploom.reproduce import Context, find
from warploom.reproduce.drawing import STYLE
from warploom.reproduce.gao2024 import predictions as threads_per_row
from warploom.reproduce.mehrabi2021 import predictions as row_orders

ENVIRONMENT = {"gpu": "NVIDIA H200", "cuda": "13.0", "copy_bandwidth": 4e12}
PLAIN = "spmm/none/csr/c_stationary"
VENDOR = "spmm/none/csr/cusparse"
CANDIDATES = {
    "csr": PLAIN,
    "dcsr": "spmm/none/dcsr/c_stationary",
    **{name: f"spmm/{name}/csr/c_stationary" for name in permutations.paper_names() if name != "none"},
    "cuSPARSE": VENDOR,
}
ORDERS = [name for name in CANDIDATES if name != "cuSPARSE"]
MATRICES = 40


def context(us, noise=0.01):
    """Return a context in which technique `t` takes ``us(m, t)`` microseconds on matrix m, with 10 * 2^(m / 4) rows."""
    facts = [matrix(f"m{m:02}", rows := int(10 * 2 ** (m / 4)), rows, 3 * rows) for m in range(MATRICES)]
    found = [
        measured(f"m{m:02}", candidate, float(us(m, name)), setting=PAPER_SPMM, cache="cold")
        for m in range(MATRICES)
        for name, candidate in CANDIDATES.items()
    ]
    made = Context(tables(facts, found, ENVIRONMENT))
    made.__dict__["tolerances"] = Tolerances({}, {}, math.log1p(noise))
    return made


def verdict(id, made):
    with mpl.rc_context(STYLE):
        return find([id])[0].make(made).verdict


def turns(m):
    """Which of the techniques is the fastest on a matrix, if each is in turn."""
    return ORDERS[m % len(ORDERS)]


def each_in_turn(m, name):
    """Every technique is the fastest on some matrices and much slower than the original order on others."""
    return 600 if name == "cuSPARSE" else 100 if name == turns(m) else 200 if name == "csr" else 260


def near_ties(m, name):
    """The fastest technique changes as in `each_in_turn`, by less than noise."""
    return 60 if name == "cuSPARSE" else 100 if name == turns(m) else 100.3


@pytest.mark.parametrize("id", ["M-F9", "M-F8", "M-T1"])
def test_what_more_than_noise_decides(id):
    assert verdict(id, context(each_in_turn)).standing == "holds"
    assert verdict(id, context(near_ties)).standing == "does not hold"


def test_merged_near_ties_turn_how_many_techniques_are_needed():
    said = verdict("M-F9", context(near_ties)).sentence
    assert "(1 of 11; 10 by the least time alone)" in said
    assert "csr is on 100 %" in said
    assert verdict("M-F9", context(near_ties, noise=1e-4)).standing == "holds"


def a_third_from_two(m, name):
    return 100 if name == "csr" else 75 if name == "dcsr" else 74.5 if name == "lpt" and m % 8 == 0 else 120


def a_little_from_each(m, name):
    return 100 if name == "csr" else 90 if name == turns(m) else 101


def test_what_a_set_of_two_gains():
    assert verdict("M-F10", context(a_third_from_two)).standing == "holds"
    assert verdict("M-F10", context(a_little_from_each)).standing == "does not hold"


def either_way(m, name):
    """Speedups of 2 and of 0.7, whatever the size."""
    return 100 if name not in ("lpt", "warp-aware") else 50 if m % 2 else 143


def by_size(m, name):
    """Large matrices alone, which are the sparse ones, are slower; no other changes."""
    return 143 if name in ("lpt", "warp-aware") and m >= 0.75 * MATRICES else 100


def never(m, name):
    return 100


@pytest.mark.parametrize("id", ["M-F5", "M-F6"])
def test_whether_size_or_density_determines_who_is_harmed(id):
    assert verdict(id, context(either_way)).standing == "holds"
    found = verdict(id, context(by_size)).sentence
    assert "nor that size does not determine which matrices benefit and which are harmed" in found
    assert "nor that density does not determine which matrices benefit and which are harmed" in found
    assert "25 % of all, 100 % of the fifth with size" in found
    said = verdict(id, context(never)).sentence
    assert "not found that" in said
    assert "makes some matrices considerably faster" in said.split("not found that")[1]


def test_how_imbalanced_classes_are(monkeypatch):
    def study(shares):
        names = [name for _, name in zip(shares, row_orders.CLASSES.values(), strict=True)]
        counts = [round(100 * share) for share in shares]
        frame = {"split": 0, "class": names, "matrices": counts, "share": shares, "weight": [1.0] * 4}
        return types.SimpleNamespace(populations=pd.DataFrame(frame))

    monkeypatch.setattr(row_orders, "trained_caption", lambda *_: "")
    for shares, us, standing in (
        ((0.6, 0.2, 0.15, 0.05), each_in_turn, "holds"),
        ((0.6, 0.2, 0.15, 0.05), near_ties, "holds in part"),
        ((0.25, 0.25, 0.25, 0.25), near_ties, "does not hold"),
    ):
        monkeypatch.setattr(row_orders, "chosen_orders", lambda _, shares=shares: study(shares))
        assert verdict("M-F11", context(us)).standing == standing


def test_gains_by_size(monkeypatch):
    def shuffled(gains):
        columns = [*threads_per_row.VECTOR, "mean", "SqMean"]
        frame = pd.DataFrame({f"PGO({name})": [*gains, np.nan] for name in columns})
        return [types.SimpleNamespace(by_nnz=frame.assign(matrices=[50, 50, 50, 50, 5, 0]))]

    monkeypatch.setattr(threads_per_row, "trained_caption", lambda *_: "")
    for gains, standing in (
        ((5, 20, 30, 40, 10), "holds"),
        ((5, 20, -1, 40, 10), "holds in part"),
        ((50, 20, -1, 40, 10), "does not hold"),
    ):
        monkeypatch.setattr(threads_per_row, "shuffles", lambda _, gains=gains: shuffled(gains))
        found = verdict("G-F6", context(never))
        assert found.standing == standing
        assert "Not tested: matrices with nonzeros above 10^8, of which there are none." in found.sentence


def test_representative_matrices_decide_if_most_were_measured():
    item = find(["D-F11"])[0]
    names = [name for name in item.make.__globals__["REPRESENTATIVE"]]

    def with_times(count, dasp):
        rows = [
            measured(name, candidate, dasp if "dasp" in candidate else 2.0, setting=sweep.setting, cache=sweep.cache)
            for name in names[:count]
            for sweep in item.sweeps
            for pattern in sweep.techniques.values()
            for candidate in [pattern.removesuffix("*")]
        ]
        return Context(tables([matrix(name, 10, 10, 20) for name in names[:count]], rows, ENVIRONMENT))

    assert verdict("D-F11", with_times(12, 1.0)).standing == "holds"
    assert verdict("D-F11", with_times(12, 3.0)).standing == "does not hold"
    assert verdict("D-F11", with_times(2, 1.0)).standing == "not tested"


@pytest.mark.parametrize("id", ["M-T2", "G-T2", "D-T2"])
def test_lists_are_not_tested(id):
    found = verdict(id, Context())
    assert found.standing == "not tested"
    assert "Not tested: " in found.sentence

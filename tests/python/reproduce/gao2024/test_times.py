"""Gao et al., against slow loops over the same times."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduce.synthetic import SIZES, WITH_TRANSPOSES, WITHOUT_16, times
from warploom.reproduce.csr_vector import by_mean, by_square_root

THREADS = (2, 4, 8, 16, 32)
OTHERS = {
    "cuSPARSE": "spmv/none/csr/cusparse",
    "merge-based": "spmv/none/csr/merge",
    "CSR-adaptive": "spmv/none/csr/adaptive",
}
WITH_16 = [name for name in WITH_TRANSPOSES if name != WITHOUT_16]
IRREGULAR = [name for name in WITH_TRANSPOSES if SIZES[name][4] >= 512 > SIZES[name][3]]


def vector(threads):
    return "spmv/none/csr/vector" if threads == 32 else f"spmv/none/csr/vector[threads_per_row={threads}]"


def blockwise(threads):
    return "spmv/none/csr/blockwise" + (f"[threads_per_row={threads}]" if threads else "")


@pytest.fixture(scope="module")
def double():
    return times()["spmv/float64", "warm"]


def best_threads(us, m):
    return min((t for t in THREADS if vector(t) in us[m]), key=lambda t: us[m][vector(t)])


@given(st.integers(1, 10**7), st.integers(0, 10**9))
def test_formulas(rows, nnz):
    sizes = pd.DataFrame({"rows": [rows], "nnz": [nnz]})
    mean = next((t for t in THREADS if t * rows >= nnz), 32)
    root = next((t for t in THREADS if t * t * rows >= nnz), 32)
    assert by_mean(sizes).tolist() == [mean]
    assert by_square_root(sizes).tolist() == [root]


def test_optima_are_counted_over_matrices_and_transposes(results, double):
    best = [best_threads(double, m) for m in WITH_TRANSPOSES]
    frame = results["G-F3"].tables[0]
    assert frame["matrices"].tolist() == [best.count(t) for t in THREADS]
    assert "1 of them are transposes" in results["G-F3"].caption
    assert f"{len(WITH_TRANSPOSES)} matrices" in results["G-F3"].caption


def test_precisions(results, double):
    single = times()["spmv/float32", "warm"]
    pairs = [(best_threads(double, m), best_threads(single, m), m) for m in WITH_TRANSPOSES]
    summary = results["G-prec"].tables[0].iloc[0]
    assert summary["same optimum"] == sum(d == s for d, s, _ in pairs) / len(pairs)
    losses = [single[m][vector(d)] / single[m][vector(s)] - 1 for d, s, m in pairs if d != s]
    assert math.isclose(summary["greatest"], max(losses), rel_tol=1e-6)
    counts = results["G-prec"].tables[1].set_index("float64")
    assert counts.loc[8, 2] == sum((d, s) == (8, 2) for d, s, _ in pairs)


def test_mean_speedups_over_16_threads(results, double):
    ours = results["G-T6"].ours
    for name, candidate in OTHERS.items():
        speedups = [double[m][vector(16)] / double[m][candidate] for m in WITH_16]
        assert math.isclose(ours[f"{name}: arithmetic mean"], sum(speedups) / len(speedups), rel_tol=1e-6)
        product = math.prod(speedups) ** (1 / len(speedups))
        assert math.isclose(ours[f"{name}: geometric mean"], product, rel_tol=1e-6)
    best = [double[m][vector(16)] / double[m][vector(best_threads(double, m))] for m in WITH_16]
    assert math.isclose(ours["optimal: arithmetic mean"], sum(best) / len(best), rel_tol=1e-6)
    mean = []
    for m in WITH_16:
        rows, _, nnz, *_ = SIZES[m]
        chosen = next((t for t in THREADS if t * rows >= nnz), 32)
        mean.append(double[m][vector(16)] / double[m][vector(chosen)])
    assert math.isclose(ours["TpR_mean: arithmetic mean"], sum(mean) / len(mean), rel_tol=1e-6)
    assert math.isnan(ours["predicted: arithmetic mean"])


def test_wins(results, double):
    winners = []
    for m in WITH_TRANSPOSES:
        candidates = {"optimal": double[m][vector(best_threads(double, m))]}
        candidates |= {name: double[m][candidate] for name, candidate in OTHERS.items()}
        winners.append(min(candidates, key=candidates.get))
    frame = results["G-T7"].tables[0].set_index("algorithm")["matrices"]
    for name in ("optimal", *OTHERS):
        assert frame[name] == winners.count(name)
        assert results["G-T7"].ours[name] == f"{winners.count(name)} of {len(winners)}"
    assert results["G-F8"].tables[0].shape[0] == len(WITH_TRANSPOSES)


def test_matrices_that_were_not_measured_are_replaced_by_the_nearest(results):
    frame = results["G-T1"].tables[0]
    assert set(frame["measured"]) <= set(SIZES)
    assert "Not measured, and replaced" in results["G-T1"].caption

    def distance(name, rows, nnz, longest):
        found = SIZES[name]
        return sum(math.log(a / b) ** 2 for a, b in ((found[0], rows), (found[2], nnz), (max(found[4], 1), longest)))

    nearest = min(WITH_TRANSPOSES, key=lambda name: distance(name, 105676, 513072, 1399))
    assert frame.set_index("paper's matrix").loc["hcircuit", "measured"] == nearest


def test_two_matrices(results, double):
    frame, every = results["G-F1"].tables
    assert len(frame) == 4
    for _, row in frame.iterrows():
        us = double[row["measured"]]
        assert row["best threads"] == best_threads(double, row["measured"])
        if vector(row["threads"]) in us:
            loss = us[vector(row["threads"])] / us[vector(row["best threads"])] - 1
            assert math.isclose(row["loss"], loss, rel_tol=1e-5, abs_tol=1e-6)
    assert every["matrix"].tolist() == frame["measured"].tolist()[::2]


def test_blocks_are_compared_on_irregular_matrices(results, double):
    frame = results["G-T8"].tables[0].set_index("algorithm")["arithmetic mean"]
    block = [min(double[m][blockwise(t)] for t in (0, *THREADS)) for m in IRREGULAR]
    base = [double[m][vector(16)] for m in IRREGULAR]
    for name, own in (
        ("blockwise optimal", block),
        ("blockwise TpR_mean", [double[m][blockwise(0)] for m in IRREGULAR]),
        ("global optimal", [double[m][vector(best_threads(double, m))] for m in IRREGULAR]),
    ):
        expected = sum(b / o for b, o in zip(base, own, strict=True)) / len(base)
        assert math.isclose(frame[name], expected, rel_tol=1e-6)
    assert f"{len(IRREGULAR)} matrices" in results["G-T8"].caption
    assert set(results["G-F9"].tables[0]["matrix"]) == set(IRREGULAR)
    geometric = results["G-T10"].ours["blockwise optimal: geometric mean"]
    assert math.isclose(geometric, float(np.exp(np.mean(np.log(np.array(base) / block)))), rel_tol=1e-6)


def test_wins_on_irregular_matrices(results, double):
    winners = []
    for m in IRREGULAR:
        candidates = {"TpR 16": double[m][vector(16)]}
        candidates |= {name: double[m][candidate] for name, candidate in OTHERS.items()}
        candidates["blockwise optimal"] = min(double[m][blockwise(t)] for t in (0, *THREADS))
        winners.append(min(candidates, key=candidates.get))
    for name in ("TpR 16", *OTHERS, "blockwise optimal"):
        assert results["G-T11"].ours[name] == f"{winners.count(name)} of {len(winners)}"
    assert results["G-F11"].tables[0].shape[0] == len(IRREGULAR)

"""Koza et al., against slow loops over the same times."""

from __future__ import annotations

import math

import pytest

from reproduce.synthetic import ORIGINALS, SIZES, times

CMRS = {
    "CMRS 8": "spmv/none/cmrs/basic",
    "CMRS 4": "spmv/none/cmrs/basic[height=4]",
    "CMRS 8 sorted": "spmv/none/cmrs/basic[sort_columns=1]",
    "CMRS 4 sorted": "spmv/none/cmrs/basic[height=4,sort_columns=1]",
}
SELECTED = [m for m in ORIGINALS if SIZES[m][0] == SIZES[m][1] and 10**6 <= SIZES[m][2] <= 10**8 and m != "dense row"]


def vector(threads):
    return "spmv/none/csr/vector" if threads == 32 else f"spmv/none/csr/vector[threads_per_row={threads}]"


def universal(us):
    def loss(name):
        return sum(math.log(us[m][CMRS[name]] / min(us[m][c] for c in CMRS.values())) for m in SELECTED)

    return min(CMRS, key=loss)


def alternatives(us, m):
    rows, _, nnz, *_ = SIZES[m]
    formula = next((t for t in (2, 4, 8, 16) if t * rows >= nnz), 32)
    found = {
        "vector": us[m][vector(32)],
        "scalar": us[m]["spmv/none/csr/scalar"],
        "HYB": us[m]["spmv/none/hyb/fused"],
        "cuSPARSE": us[m]["spmv/none/csr/cusparse"],
        "CUSP": us[m][vector(formula)],
    }
    return found


@pytest.fixture(scope="module")
def double():
    return times()["spmv/float64", "cold"]


def test_speedups_over_kernels(results, double):
    chosen = CMRS[universal(double)]
    for id, names in (("C-F6.3", ("vector", "scalar", "HYB")), ("C-F6.5", ("cuSPARSE", "CUSP"))):
        frame = results[id].tables[0].set_index("matrix")
        assert set(frame.index) == set(SELECTED)
        for m in SELECTED:
            for name in names:
                expected = alternatives(double, m)[name] / double[m][chosen]
                assert math.isclose(frame.loc[m, name], expected, rel_tol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_over_the_best_alternative(results, dtype):
    us = times()[f"spmv/{dtype}", "cold"]
    chosen = CMRS[universal(us)]
    speedups = [min(alternatives(us, m).values()) / us[m][chosen] for m in SELECTED]
    ours = results["C-F6.6"].ours
    assert math.isclose(ours[f"greatest speedup, {dtype}"], max(speedups), rel_tol=1e-6)
    assert ours[f"matrices at least 10 % faster, {dtype}"] == f"{sum(s >= 1.1 for s in speedups)} of {len(speedups)}"


def test_efficiencies(results, double):
    height = int(universal(double).split()[1])
    chosen = CMRS[universal(double)]
    minus, plus = [], []
    for m in SELECTED:
        rows, _, nnz, *_ = SIZES[m]
        kernels = {**alternatives(double, m), "CMRS": double[m][chosen]}
        rates = []
        for name, us in kernels.items():
            strips = math.ceil(rows / height) if name == "CMRS" else rows
            seconds = us * 1e-6
            rates.append(((20 * nnz + 4 * strips + 8 * rows) / seconds, (12 * nnz + 4 * strips + 16 * rows) / seconds))
        minus.append(max(rate for rate, _ in rates) / 4.8e12)
        plus.append(max(rate for _, rate in rates) / 4.8e12)
    ours = results["C-F6.7"].ours
    assert math.isclose(ours["mean eta-, best kernel"], sum(minus) / len(minus), rel_tol=1e-6)
    assert math.isclose(ours["mean eta+, best kernel"], sum(plus) / len(plus), rel_tol=1e-6)
    assert "4,800 GB/s" in results["C-F6.7"].caption


def test_selected_bandwidths_are_ordered_by_row_length(results, double):
    frame = results["C-F6.2"].tables[0]
    assert frame["matrix"].tolist() == sorted(SELECTED, key=lambda m: SIZES[m][2] / SIZES[m][0])
    rows, _, nnz, *_ = SIZES["m1"]
    expected = (20 * nnz + 12 * rows) / (double["m1"]["spmv/none/csr/scalar"] * 1e-6) / 1e9
    assert math.isclose(frame.set_index("matrix").loc["m1", "scalar GB/s"], expected, rel_tol=1e-6)


def test_heights(results):
    us = times()["spmv/float32", "cold"]
    frame = results["C-F6.4"].tables[0].set_index("matrix")
    for m in SELECTED:
        mu = SIZES[m][2] / SIZES[m][0]
        for height, candidate in ((2, "[height=2]"), (4, ""), (8, "[height=8]")):
            measured = us[m][vector(32)] / us[m][f"spmv/none/cmrs/registers{candidate}"]
            assert math.isclose(frame.loc[m, f"height {height}"], measured, rel_tol=1e-6)
            model = 1 + (height - 1) / (1 + height * mu / 32)
            assert math.isclose(frame.loc[m, f"model {height}"], model, rel_tol=1e-6)


def test_modified_kernel(results, double):
    frame = results["C-F6.8"].tables[0].set_index("matrix")
    assert set(frame.index) == set(SELECTED)
    for m in SELECTED:
        expected = min(alternatives(double, m).values()) / double[m]["spmv/none/cmrs/modified"]
        assert math.isclose(frame.loc[m, "over best"], expected, rel_tol=1e-6)
    assert frame["memory over CMRS"].tolist() == [1.3] * len(SELECTED)


def test_tuning(results, double):
    chosen = CMRS[universal(double)]
    gains = [double[m][chosen] / min(double[m][c] for c in CMRS.values()) - 1 for m in SELECTED]
    ours = results["C-tune"].ours
    assert math.isclose(ours["greatest gain"], max(gains), rel_tol=1e-6)
    assert ours["matrices that gain at least 10 %"] == f"{sum(g >= 0.1 for g in gains)} of {len(gains)}"
    summary = results["C-tune"].tables[0].set_index("variant")
    assert summary["universal"].idxmax() == universal(double)
    assert summary["best for"].sum() == len(SELECTED)

"""Lu and Liu, against slow loops over the same times."""

from __future__ import annotations

import math

import pytest

from bench.tables import matrix, measured, tables
from reproduce import synthetic
from reproduce.synthetic import ENVIRONMENT, ORIGINALS, PREPARATION, SIZES, times
from warploom.reproduce import Context, MissingMeasurementsError, find

DASP = "spmv/none/dasp/tensor_core"
OTHERS = {
    "cuSPARSE": ["spmv/none/csr/cusparse"],
    "cuSPARSE BSR": ["spmv/none/bsr/cusparse", "spmv/none/bsr/cusparse[algorithm=2]"],
    "merge-based": ["spmv/none/csr/merge"],
    "CSR-adaptive": ["spmv/none/csr/adaptive"],
}


@pytest.mark.parametrize(("id", "setting", "names"), [("D-F9", "spmv/float16", 1), ("D-F10", "spmv/float64", 4)])
def test_speedups(results, id, setting, names):
    us = times()[setting, "warm"]
    frame = results[id].tables[0].set_index("over")
    assert list(frame.index) == list(OTHERS)[:names]
    for name in frame.index:
        candidates = [c for c in us["m0"] if any(c == other for other in OTHERS[name])]
        if name == "cuSPARSE BSR":
            candidates = [c for c in us["m0"] if c.startswith("spmv/none/bsr/cusparse")]
        speedups = [min(us[m][c] for c in candidates) / us[m][DASP] for m in ORIGINALS]
        assert math.isclose(frame.loc[name, "geometric mean"], math.prod(speedups) ** (1 / len(speedups)), rel_tol=1e-6)
        assert math.isclose(frame.loc[name, "max"], max(speedups), rel_tol=1e-6)
        assert frame.loc[name, "DASP faster on"] == sum(s > 1 for s in speedups)
        assert results[id].ours[f"over {name}: share of matrices"] == sum(s > 1 for s in speedups) / len(speedups)


def test_bandwidth_of_large_matrices(results):
    us = times()["spmv/float64", "warm"]
    large = [m for m in ORIGINALS if SIZES[m][2] >= 10**7]
    frame = results["D-F1"].tables[0].set_index("matrix")
    assert set(frame.index) == set(large)
    for m in large:
        rows, cols, nnz, *_ = SIZES[m]
        moved = 12 * nnz + 4 * rows + 8 * cols + 8 * rows
        assert math.isclose(frame.loc[m, "DASP GB/s"], moved / (us[m][DASP] * 1e-6) / 1e9, rel_tol=1e-6)
    assert results["D-F1"].ours["matrices"] == len(large)


def test_preparation(results):
    summary = results["D-F13"].tables[0].set_index("format")
    assert summary.loc["DASP", "median ms"] == PREPARATION[DASP]
    assert summary.loc["cuSPARSE BSR", "median ms"] == 2.0
    large = sorted(0.25 * 1e6 / SIZES[m][2] for m in ORIGINALS if SIZES[m][2] >= 1e5)
    middle = (large[(len(large) - 1) // 2] + large[len(large) // 2]) / 2
    assert math.isclose(summary.loc["DASP"].iloc[-1], middle)
    assert results["D-F13"].verdict.standing == "holds"


def test_representative_matrices_that_were_not_measured_are_named():
    with pytest.raises(
        MissingMeasurementsError, match=r"Boeing/pwtk, .*--matrices Boeing/pwtk .*--setting spmv/float16"
    ):
        find(["D-F11"])[0].make(synthetic.context())


def test_representative_matrices_that_were():
    candidates = [DASP, *(names[0] for names in OTHERS.values())]
    found = []
    for dtype, factor in (("float64", 1.0), ("float16", 0.5)):
        chosen = candidates if dtype == "float64" else candidates[:2]
        found += [
            measured("Williams/cant", name, factor * (1 + place), setting=f"spmv/{dtype}")
            for place, name in enumerate(chosen)
        ]
    loaded = tables([matrix("Williams/cant", 62451, 62451, 4007383)], found, ENVIRONMENT)
    result = find(["D-F11"])[0].make(Context(loaded))
    assert result.verdict.standing == "not tested"
    assert "1 of 21 matrices are too few to say" in result.verdict.sentence
    assert "Not measured: Boeing/pwtk" in result.caption
    double, half = result.tables
    assert result.caption.endswith("1 matrix, which is real.")
    assert double["origin"].tolist() == ["real"]
    assert "on 1 of the 1 that were measured" in result.verdict.sentence
    assert math.isclose(double["DASP GFLOP/s"].iloc[0], 2 * 4007383 / 1e-6 / 1e9)
    assert math.isclose(half["cuSPARSE GFLOP/s"].iloc[0], 2 * 4007383 / 1e-6 / 1e9)


def test_a_construction_stands_for_the_matrix_that_it_makes():
    lattice = "wilson_lattice(nx=8,ny=8,nz=8,nt=8)"
    found = [
        measured(lattice, name, 1.0 + place, setting=f"spmv/{dtype}")
        for dtype, names in (("float64", [DASP, *(names[0] for names in OTHERS.values())]), ("float16", None))
        for place, name in enumerate(names or [DASP, *OTHERS["cuSPARSE"]])
    ]
    context = Context(tables([matrix(lattice, 49152, 49152, 1916928, source="construction")], found, ENVIRONMENT))
    result = find(["D-F11"])[0].make(context)
    assert "1 of the 21 representative matrices" in result.caption
    assert "By their constructions, with other values: QCD/conf5_4-8x8-10." in result.caption
    assert result.tables[0]["origin"].tolist() == ["constructed"]
    assert math.isclose(result.tables[0]["DASP GFLOP/s"].iloc[0], 2 * 1916928 / 1e-6 / 1e9)
    listed = find(["D-T2"])[0].make(context).tables[0].set_index("matrix")["measured"]
    assert listed["QCD/conf5_4-8x8-10"] == "yes"
    assert (listed == "yes").sum() == 1
    assert Context.measured_as("Williams/mc2depi", ["epidemic_chain(population=1024)"]) is not None
    assert Context.measured_as("Williams/mc2depi", [lattice]) is None

"""Oracle tables, by hand and against slow loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import random_array

from bench.tables import failed, matrix, measured, tables
from warploom import candidates, partition, permutations
from warploom.bench import oracle
from warploom.bench.repeatability import Tolerances
from warploom.errors import ParameterError

SETTING = oracle.PAPER_SPMM
TECHNIQUES = ["csr", "dcsr", *(name for name in permutations.paper_names() if name != "none")]


def candidate_of(technique):
    if technique in ("csr", "dcsr"):
        return f"spmm/none/{technique}/c_stationary"
    return f"spmm/{technique}/csr/c_stationary"


def spmm_tables(times, cache="cold"):
    """`times` has a row for each matrix and a column for each technique."""
    rows = [
        measured(f"m{i}", candidate_of(technique), float(time), setting=SETTING, cache=cache)
        for i, row in enumerate(times)
        for technique, time in zip(TECHNIQUES, row, strict=True)
        if not math.isnan(time)
    ]
    return tables([matrix(f"m{i}") for i in range(len(times))], rows)


def line(summary, name):
    first = summary.frame.columns[0]
    (row,) = (row for _, row in summary.frame.iterrows() if row[first] == name)
    return row


def test_techniques_are_candidates():
    assert {candidate_of(technique) for technique in TECHNIQUES} <= set(candidates("spmm", layout="column"))
    assert len(TECHNIQUES) == 11


def test_row_permutations_by_hand():
    # Plain CSR takes 10 everywhere; DCSR 5, 20 and 10; LPT 8, 8 and 9.9; all others 40.
    times = np.full((3, 11), 40.0)
    times[:, TECHNIQUES.index("csr")] = 10
    times[:, TECHNIQUES.index("dcsr")] = [5, 20, 10]
    times[:, TECHNIQUES.index("lpt")] = [8, 8, 9.9]
    loaded = spmm_tables(times)
    summary = oracle.row_permutations(loaded, within=Tolerances({}, {}, math.log(1.05)))
    assert summary.frame["technique"].tolist() == [*TECHNIQUES, "oracle"]
    statistics = ["max", "mean", "geometric mean", "min"]
    dcsr, lpt, best = (line(summary, name) for name in ("dcsr", "lpt", "oracle"))
    assert dcsr[statistics].tolist() == pytest.approx([2, 3.5 / 3, 1, 0.5], rel=1e-6)
    assert lpt[statistics].tolist() == pytest.approx(
        [1.25, (2.5 + 10 / 9.9) / 3, (1.25**2 * 10 / 9.9) ** (1 / 3), 10 / 9.9], rel=1e-6
    )
    assert best[statistics].tolist() == pytest.approx(
        [2, (2 + 1.25 + 10 / 9.9) / 3, (2 * 1.25 * 10 / 9.9) ** (1 / 3), 10 / 9.9], rel=1e-6
    )
    shares = summary.frame.set_index("technique")
    assert shares["fastest"].dropna()[["csr", "dcsr", "lpt"]].tolist() == pytest.approx([0, 1 / 3, 2 / 3])
    # On the third matrix the original order and DCSR take 1 % more than LPT.
    assert shares["near-tie"][["csr", "dcsr", "lpt"]].tolist() == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    merged = shares["fastest, near-ties merged"]
    assert merged[["csr", "dcsr", "lpt"]].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert "Test GPU, CUDA 13.0; spmm/float32/column/k=rows, cold L2 cache, 3 matrices" in str(summary)


def test_matrices_that_lack_a_technique_are_left_out_and_counted():
    times = np.full((3, 11), 10.0)
    times[1, 4] = np.nan
    summary = oracle.row_permutations(spmm_tables(times))
    assert "near-tie" not in summary.frame  # nothing was measured twice
    assert "2 matrices" in summary.notes[0]
    assert summary.notes[1].startswith("1 more matrices")
    times[:, 4] = np.nan
    with pytest.raises(ParameterError, match=f"no times of {candidate_of(TECHNIQUES[4])} in"):
        oracle.row_permutations(spmm_tables(times))
    times = np.full((2, 11), 10.0)
    times[0, 3] = times[1, 4] = np.nan
    with pytest.raises(ParameterError, match="no matrix has times of all"):
        oracle.row_permutations(spmm_tables(times))


def test_portfolios_are_the_best_of_all_sets():
    times = np.random.default_rng(0).uniform(1, 10, (6, 11)).astype(np.float32).astype(np.float64)
    frame = oracle.permutation_portfolios(spmm_tables(times)).frame
    assert frame["techniques"].tolist() == list(range(1, 12))
    for count in (1, 2, 3, 11):
        best = max(
            np.mean([row[0] / min(row[i] for i in chosen) for row in times])
            for chosen in itertools.combinations(range(11), count)
        )
        row = frame.iloc[count - 1]
        assert row["mean speedup"] == pytest.approx(best)
        named = [TECHNIQUES.index(name) for name in row["best set"].split(", ")]
        assert len(named) == count
        assert np.mean(times[:, 0] / times[:, named].min(axis=1)) == pytest.approx(best)


def test_formulas_are_those_of_the_partition():
    rng = np.random.default_rng(0)
    shapes = [
        (1, 40, 0.1),
        (1, 40, 1.0),
        (7, 50, 0.5),
        (10, 10, 0.0),
        (10, 10, 0.1),
        (3, 33, 1.0),
        (20, 2000, 0.6),
        (4, 16, 1.0),
    ]
    matrices = [random_array((m, n), density=d, rng=rng, format="csr") for m, n, d in shapes]
    matrices.append(random_array((0, 5), density=0.0, rng=rng, format="csr"))
    sizes = pd.DataFrame({"rows": [A.shape[0] for A in matrices], "nnz": [A.nnz for A in matrices]})
    assert oracle._threads_by_mean(sizes).tolist() == [partition.threads_per_row_mean(A) for A in matrices]
    assert oracle._threads_by_root(sizes).tolist() == [partition.threads_per_row_square_mean(A) for A in matrices]
    assert len(set(oracle._threads_by_mean(sizes))) > 3


def vector(threads):
    return "spmv/none/csr/vector" + ("" if threads == 32 else f"[threads_per_row={threads}]")


def test_threads_per_row_by_hand():
    # 100 rows of 3 entries: the formulas give 4 and 2. 10 rows of 100: 32 and 16. 100 rows of one: 1, raised to 2.
    sizes = {"a": (100, 300), "b": (10, 1000), "c": (100, 100)}
    times = {
        "a": {2: 2.0, 4: 4.0, 8: 8.0, 16: 16.0, 32: 32.0},
        "b": {2: 9.0, 4: 5.0, 8: 4.0, 16: 2.0, 32: 1.0},
        "c": {2: 1.0, 4: 2.0, 8: 2.0, 16: 2.0, 32: 2.0},
    }
    loaded = tables(
        [matrix(name, rows=rows, nnz=nnz) for name, (rows, nnz) in sizes.items()],
        [measured(name, vector(n), t) for name, chosen in times.items() for n, t in chosen.items()],
    )
    summary = oracle.threads_per_row(loaded)
    assert summary.frame["threads per row"].tolist() == [
        "2",
        "4",
        "8",
        "16",
        "32",
        "mean",
        "square root of mean",
        "best",
    ]
    statistics = ["max", "mean", "geometric mean", "min"]
    assert line(summary, "2")[statistics].tolist() == pytest.approx(
        [8, (8 + 2 / 9 + 2) / 3, (32 / 9) ** (1 / 3), 2 / 9]
    )
    assert line(summary, "16")[statistics].tolist() == [1, 1, 1, 1]
    assert line(summary, "mean")[statistics].tolist() == pytest.approx([4, 8 / 3, 16 ** (1 / 3), 2])
    assert line(summary, "square root of mean")[statistics].tolist() == pytest.approx([8, 11 / 3, 16 ** (1 / 3), 1])
    assert line(summary, "best")[statistics].tolist() == pytest.approx([8, 4, 32 ** (1 / 3), 2])
    assert line(summary, "2")["fastest"] == pytest.approx(2 / 3)
    assert line(summary, "32")["fastest"] == pytest.approx(1 / 3)


def test_spmv_algorithms_by_hand():
    rows = [
        measured("a", vector(16), 4.0),
        measured("a", vector(2), 2.0),
        measured("a", "spmv/none/csr/cusparse", 1.0),
        measured("a", "spmv/none/csr/cusparse[algorithm=1]", 8.0),
        measured("a", "spmv/lpt/csr/vector", 0.1),  # another row order: no part of the comparison
        measured("b", vector(16), 4.0),
        measured("b", "spmv/none/csr/cusparse", 8.0),
        measured("b", "spmv/none/ell/vector", 3.0),
        measured("c", "spmv/none/csr/cusparse", 8.0),  # lacks the reference
    ]
    summary = oracle.spmv_algorithms(tables([matrix(name) for name in "abc"], rows))
    found = summary.frame.set_index("kernel")
    assert found["matrices"].to_dict() == {"csr/cusparse": 2, "csr/vector": 2, "ell/vector": 1, "oracle": 2}
    assert found["mean"].to_dict() == pytest.approx(
        {"csr/cusparse": 2.25, "csr/vector": 1.5, "ell/vector": 4 / 3, "oracle": (4 + 4 / 3) / 2}
    )
    assert found["geometric mean"]["csr/cusparse"] == pytest.approx(math.sqrt(2))
    assert found["fastest"].dropna().to_dict() == {"csr/cusparse": 0.5, "csr/vector": 0.0, "ell/vector": 0.5}
    with pytest.raises(ParameterError, match="threads_per_row=16"):
        oracle.spmv_algorithms(tables([matrix("c")], rows[-1:]))


def test_kernels_over_the_vendor_by_hand():
    rows = [
        measured("a", "spmv/none/csr/cusparse", 4.0),
        measured("a", "spmv/none/coo/cusparse[algorithm=1]", 2.0),
        measured("a", "spmv/none/csr/scalar", 1.0),
        measured("a", "spmv/lpt/csr/scalar", 0.5),
        measured("a", "spmv/none/csr/merge", 4.0),
        measured("b", "spmv/none/csr/cusparse", 3.0),
        measured("b", "spmv/none/csr/scalar", 6.0),
        measured("b", "spmv/none/csr/merge", 1.0),
        failed("b", "spmv/none/coo/cusparse[algorithm=1]"),
        measured("c", "spmv/none/csr/cusparse", 3.0),  # no candidates of warploom
        measured("d", "spmv/none/csr/scalar", 3.0),  # no candidates of the vendor
    ]
    loaded = tables([matrix(name) for name in "abcd"], rows)
    summary = oracle.kernels(loaded, "spmv/float64", "warm", Tolerances({}, {}, 0.0))
    found = summary.frame.set_index("kernel")
    assert found["max"].to_dict() == pytest.approx(
        {"csr/scalar": 4, "csr/merge": 3, "oracle": 4, "oracle, over cuSPARSE's default": 8}
    )
    assert found["min"].to_dict() == pytest.approx(
        {"csr/scalar": 0.5, "csr/merge": 0.5, "oracle": 3, "oracle, over cuSPARSE's default": 3}
    )
    assert found["near-tie"].dropna().to_dict() == {"csr/scalar": 0.5, "csr/merge": 0.5}
    assert (found["matrices"] == 2).all()
    with pytest.raises(ParameterError, match="no times of the vendor's"):
        oracle.kernels(tables([matrix("d")], rows[-1:]), "spmv/float64", "warm")


TIME = st.one_of(st.just(float("nan")), st.floats(0.5, 100))


@given(st.lists(st.lists(TIME, min_size=3, max_size=3), min_size=1, max_size=8), st.floats(0, 1))
def test_wins_by_a_slow_loop(rows, tolerance):
    times = pd.DataFrame(rows, columns=["x", "y", "z"])
    found = oracle.wins(times, "warm", Tolerances({}, {}, tolerance))
    timed = [row for row in rows if not all(map(math.isnan, row))]
    fastest, near, merged = ([0, 0, 0] for _ in range(3))
    for row in timed:
        least = min(t for t in row if not math.isnan(t))
        ties = [i for i, t in enumerate(row) if t <= least * math.exp(tolerance)]
        fastest[row.index(least)] += 1
        merged[ties[0]] += 1
        for i in ties:
            near[i] += 1
    count = max(len(timed), 1)
    for name, expected in (("fastest", fastest), ("near-tie", near), ("fastest, near-ties merged", merged)):
        assert found[name].tolist() == pytest.approx([e / count for e in expected])
    without = oracle.wins(times, "warm")
    assert without["fastest"].tolist() == found["fastest"].tolist()

"""What models choose for held-out matrices and blocks, on sweeps whose best numbers can be learned."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from training.csr_vector_tables import block_sweep, matrix, sweep, table
from warploom import partition
from warploom.reproduce.gao2024.block_study import study_blocks
from warploom.reproduce.gao2024.shuffle import formula_columns, shuffle
from warploom.reproduce.gao2024.tree_study import cost_of_trees, decision_tree, depth_study
from warploom.training.threads_per_row import (
    CANDIDATES,
    THREADS,
    threads_per_row_data,
)

pytest.importorskip("sklearn")
pytest.importorskip("lightgbm")
pytest.importorskip("optuna")


@pytest.fixture(scope="module")
def dataset():
    return threads_per_row_data(sweep())[0]


@pytest.fixture(scope="module")
def halves(dataset):
    return dataset.rows(np.arange(0, 100, 2)), dataset.rows(np.arange(1, 100, 2))


@pytest.fixture(scope="module")
def shuffled(dataset):
    return shuffle(dataset, 1, families=["decision tree", "boosted trees"], trials=1, samples=50)


@pytest.mark.parametrize("lengths", [[1], [3], [4], [5] * 7, [0, 0, 1], [16, 16], [33], [100] * 3, [1, 1, 400], [2, 3]])
def test_formulas_are_those_for_matrices(lengths):
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    A = scipy.sparse.csr_array((np.ones(indptr[-1]), np.concatenate([np.arange(n) for n in lengths]), indptr))
    known = matrix("m0", sum(lengths) / len(lengths), len(lengths)) | {"spmv_nnz": float(sum(lengths))}
    dataset = table([1, 1, 1, 1, 1], matrices=[known])
    for name, formula in (
        ("mean", partition.threads_per_row_mean),
        ("SqMean", partition.threads_per_row_square_mean),
    ):
        assert THREADS[formula_columns(dataset, name)[0]] == max(formula(A), 2)


def test_gains_are_equations_4_and_5(dataset, shuffled):
    rows = shuffled.chosen.rows
    gains = shuffled.gains.set_index("figure")["value"]
    assert len(rows) == 25
    assert gains["PLUB"] == pytest.approx(100 * ((rows["chosen_us"] - rows["best_us"]) / rows["best_us"]).mean())
    times_of = dict(zip(dataset.names, dataset.times, strict=True))
    for column, threads in enumerate(THREADS):
        fixed = np.array([times_of[name][column] for name in rows["matrix"]])
        expected = 100 * ((fixed - rows["chosen_us"]) / rows["chosen_us"]).mean()
        assert gains[f"PGO({threads})"] == pytest.approx(expected)
    # as many threads are best as the mean has, so that the formula, which rounds up, is off by one at most
    assert 0 <= gains["PGO(mean)"] < gains["PGO(SqMean)"]


def test_the_family_with_the_least_validated_loss_is_taken(shuffled):
    families = shuffled.families.set_index("family")
    assert shuffled.best.family == families["validated"].idxmin()
    row = shuffled.row()
    assert row["model"] == shuffled.best.family
    assert row["accuracy"] == pytest.approx(families.loc[row["model"], "accuracy"])
    assert row["PLUB"] == pytest.approx(families.loc[row["model"], "plub"])


def test_tables_by_nonzeros_and_by_loss(dataset, shuffled):
    rows = shuffled.chosen.rows
    by_nnz = shuffled.by_nnz
    assert by_nnz["matrices"].sum() == len(rows)
    for _, line in by_nnz[by_nnz["matrices"] > 0].iterrows():
        part = rows[(rows["nnz"] > line["above"]) & (rows["nnz"] <= line["up_to"])]
        assert len(part) == line["matrices"]
        assert line["PLUB"] == pytest.approx(100 * part["loss"].mean())
        assert line["PGO(16)"] == pytest.approx(100 * (part["baseline_us"] / part["chosen_us"] - 1).mean())
    wrong = rows[rows["loss"] > 0]
    mispredictions = shuffled.mispredictions
    assert mispredictions["matrices"].sum() == len(wrong)
    assert mispredictions["matrices"].iloc[0] == (wrong["loss"] <= 0.02).sum()
    assert (mispredictions["merged"] <= mispredictions["matrices"]).all()
    assert mispredictions["SqMean"].sum() > mispredictions["mean"].sum()


def test_deeper_trees_come_closer_to_the_optimum(halves):
    depths = depth_study(*halves, depths=(1, 6))
    assert depths["configuration"].tolist() == ["mean", "SqMean", "tree", "tree", "optimal"]
    one, six = depths[depths["configuration"] == "tree"].to_dict("records")
    optimal = depths.set_index("configuration").loc["optimal"]
    assert (one["depth"], six["depth"]) == (1, 6)
    assert one["arithmetic"] < six["arithmetic"] <= optimal["arithmetic"]
    assert one["accuracy"] < six["accuracy"] <= optimal["accuracy"] == 1
    assert optimal["plub"] == 0 == optimal["plub"]


def test_the_tree_splits_where_the_rule_does(halves):
    tree = decision_tree(*halves, depth=3)
    row_length = ("nnz_per_row_mean", "density", "nnz_per_row_max")  # proportional to each other here
    assert tree.importances["importance"].sum() == pytest.approx(1)
    assert tree.importances["feature"].iloc[0] in row_length
    assert tree.nodes["depth"].max() == 3
    root = tree.nodes.iloc[0]
    assert root["matrices"] == 50
    inner = tree.nodes[tree.nodes["feature"] != ""]
    nodes = tree.nodes.set_index("node")
    for _, node in inner.iterrows():
        children = nodes.loc[[node["left"], node["right"]]]
        assert children["matrices"].sum() == node["matrices"]
        assert (children["depth"] == node["depth"] + 1).all()
    leaves = tree.nodes[tree.nodes["feature"] == ""]
    assert leaves["matrices"].sum() == 50
    assert set(leaves["threads"]) <= set(THREADS)
    assert tree.figures["accuracy"] > 0.7


def test_cost_of_trees(halves):
    costs = cost_of_trees(*halves, numbers=(2, 400), depths=(3,))
    assert costs["trees"].tolist() == [10, 2000]
    assert (costs["microseconds"] > 0).all()
    assert costs["microseconds"].iloc[1] > costs["microseconds"].iloc[0]


def test_global_against_blockwise():
    measurements = block_sweep()
    found = study_blocks(measurements, families=["decision tree"], trials=1, samples=20)
    assert found.optima["blocks"].sum() == 80
    assert len(found.result.chosen.rows) == 40
    assert found.result.chosen.figures.loc["accuracy", "raw"] > 0.8
    whole = found.whole.set_index("matrix")
    assert len(whole) == 40
    rows = measurements.measurements.astype({"matrix": str, "candidate": str})
    sixteen = rows[(rows["candidate"] == CANDIDATES[3]) & (rows["cache"] == "warm")].set_index("matrix")["median_us"]
    np.testing.assert_allclose(whole["global 16"], sixteen.reindex(whole.index), rtol=1e-6)
    chosen = found.result.chosen.rows.set_index(found.result.chosen.rows["matrix"].str.split("[").str[0])
    np.testing.assert_allclose(whole["blockwise model"], chosen["chosen_us"].reindex(whole.index) / 2, rtol=1e-6)

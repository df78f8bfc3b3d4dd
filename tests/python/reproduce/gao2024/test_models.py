"""Gao et al., models: against slow loops over the same choices, on sweeps whose best numbers can be learned."""

from __future__ import annotations

import math

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from reproduce import learnable, synthetic
from warploom.experiments import Findings
from warploom.reproduce import Context, MissingMeasurementsError, find
from warploom.reproduce.drawing import STYLE
from warploom.reproduce.gao2024 import costs, trained, trees

pytest.importorskip("sklearn")
pytest.importorskip("lightgbm")
pytest.importorskip("optuna")

WHOLE = ("G-T4", "G-F6", "G-T5", "G-F7", "G-F12", "G-F13", "G-F14", "G-F15", "G-ovh")
BLOCKS = ("G-F5", "G-T9", "G-F10")
THREADS = (2, 4, 8, 16, 32)
RANGES = (1e4, 1e5, 1e6, 1e7, 1e8, math.inf)


def features(sweep, gpu="Test GPU"):
    """Return findings of the experiment for every third matrix; one product takes 4 us, eleven features 6 us."""
    names = sweep.matrices["matrix"].tolist()[::3]
    nnz = sweep.matrices.set_index("matrix").loc[names, "nnz"].tolist()
    table = pd.DataFrame({"matrix": names, "rows": 10, "nnz": nnz, "spmv_us": 4.0, "eleven_us": 6.0})
    return Findings("features", table.assign(twenty_four_us=20.0), {"gpu": gpu, "cuda": "13.0"})


@pytest.fixture(scope="module")
def sweep():
    return learnable.spmv()


@pytest.fixture(scope="module")
def made(sweep):
    with pytest.MonkeyPatch.context() as patch, mpl.rc_context(STYLE):
        patch.setattr(trained, "SHUFFLES", (0, 1))
        patch.setattr(trained, "SAMPLES", 20)
        patch.setattr(trained, "_FOLDS", 2)
        patch.setattr(costs, "_NUMBERS", (3, 20))
        patch.setattr(costs, "_DEPTHS", (2, 5))
        context = Context(sweep, experiments=[features(sweep)])
        found = {id: find([id])[0].make(context) for id in WHOLE}
        of_blocks = Context(learnable.spmv(blocks=True))
        return found | {id: find([id])[0].make(of_blocks) for id in BLOCKS}


@pytest.fixture(scope="module")
def times(sweep):
    by_name = sweep.matrices.set_index("matrix")
    return {
        name: dict(zip(THREADS, learnable.of_mean(row["spmv_nnz_per_row_mean"], row["spmv_nnz"]), strict=True))
        for name, row in by_name.iterrows()
    }


def choices(made, shuffle=None):
    """Return matrix and chosen number of threads of the held-out matrices."""
    rows = made["G-T4"].tables[2].reset_index()
    if shuffle is not None:
        rows = rows.iloc[23 * shuffle : 23 * (shuffle + 1)]
    return [(row.matrix, int(row.chosen)) for row in rows.itertuples()]


def formula(row, root):
    mean = row["spmv_nnz"] / row["spmv_num_rows"]
    wanted = mean**0.5 if root else mean
    return next((t for t in THREADS if t >= wanted), 32)


def test_every_shuffle_has_a_line_of_its_choices(made, times):
    frame = made["G-T4"].tables[0]
    assert frame["shuffle"].tolist() == [0, 1]
    for shuffle, line in frame.iterrows():
        chosen = choices(made, shuffle)
        assert len(chosen) == 23  # a quarter of 90
        loss = [times[m][t] / min(times[m].values()) - 1 for m, t in chosen]
        assert math.isclose(line["accuracy"], sum(x == 0 for x in loss) / 23)
        assert math.isclose(line["PLUB"], 100 * sum(loss) / 23, rel_tol=1e-5, abs_tol=1e-6)
        for other in THREADS:
            gain = 100 * sum(times[m][other] / times[m][t] - 1 for m, t in chosen) / 23
            assert math.isclose(line[f"PGO({other})"], gain, rel_tol=1e-4, abs_tol=1e-4)
    assert frame["accuracy"].min() > 0.6
    assert "67 matrices to train, 23 to test" in made["G-T4"].caption


def test_gains_and_losses_by_nonzeros(made, times, sweep):
    by_name = sweep.matrices.set_index("matrix")
    gains, losses = made["G-F6"].tables[0], made["G-T5"].tables[0]
    low = 0.0
    for place, high in enumerate(RANGES):
        inside = [(m, t) for m, t in choices(made, 0) if low < by_name.loc[m, "spmv_nnz"] <= high]
        assert losses["matrices"].iloc[place] == len(inside)
        if inside:
            best = {m: min(times[m].values()) for m, _ in inside}
            ml = 100 * np.mean([times[m][t] / best[m] - 1 for m, t in inside])
            root = 100 * np.mean([times[m][formula(by_name.loc[m], True)] / best[m] - 1 for m, _ in inside])
            over = 100 * np.mean([times[m][formula(by_name.loc[m], False)] / times[m][t] - 1 for m, t in inside])
            assert math.isclose(losses["ML"].iloc[place], ml, rel_tol=1e-4, abs_tol=1e-4)
            assert math.isclose(losses["SqMean"].iloc[place], root, rel_tol=1e-4, abs_tol=1e-4)
            assert math.isclose(gains["PGO(mean)"].iloc[place], over, rel_tol=1e-4, abs_tol=1e-4)
        low = high


def test_mispredictions(made, times, sweep):
    by_name = sweep.matrices.set_index("matrix")
    chosen = {
        "matrices": choices(made, 0),
        "SqMean": [(m, formula(by_name.loc[m], True)) for m, _ in choices(made, 0)],
    }
    table = made["G-F7"].tables[0]
    for column, pairs in chosen.items():
        loss = [100 * (times[m][t] / min(times[m].values()) - 1) for m, t in pairs]
        for line in table.itertuples():
            count = sum(line.above < x <= line.up_to for x in loss if x > 1e-4)
            assert getattr(line, column) == count


def test_deeper_trees_come_closer_to_the_optimum(made, times):
    frame = made["G-F12"].tables[0]
    trees = frame[frame["configuration"] == "tree"]
    assert trees["depth"].tolist() == list(range(1, 16))
    optimal = frame.set_index("configuration").loc["optimal", "arithmetic"]
    best = [times[m][16] / min(times[m].values()) for m, _ in choices(made, 0)]
    assert math.isclose(optimal, sum(best) / len(best), rel_tol=1e-5)
    assert (trees["arithmetic"] <= optimal + 1e-9).all()
    assert trees["accuracy"].iloc[5:].max() > trees["accuracy"].iloc[0]


def test_all_nodes_of_the_tree_are_drawn(made):
    nodes, importances = made["G-F13"].tables
    leaves = nodes[nodes["feature"] == ""]
    assert leaves["matrices"].sum() == 67
    assert math.isclose(importances["importance"].sum(), 1.0)
    texts = [text.get_text() for text in made["G-F13"].figure.axes[0].texts]
    assert len(texts) == len(nodes)
    for row in leaves.itertuples():
        assert f"{row.threads} ({row.matrices:,})" in texts
    for symbol in nodes["symbol"].dropna():
        assert any(text.startswith(f"{symbol} ≤ ") for text in texts)
    heights = {text.get_position() for text in made["G-F13"].figure.axes[0].texts}
    assert len(heights) == len(nodes)  # none on another


def test_sides_of_the_tree_are_counted():
    nodes = pd.DataFrame(
        [
            (0, 1, 2, 100, 16),
            (1, 3, 4, 40, 8),
            (2, -1, -1, 60, 32),
            (3, -1, -1, 30, 2),
            (4, -1, -1, 10, 16),
        ],
        columns=["node", "left", "right", "matrices", "threads"],
    )
    claim = trees._many_threads(nodes)
    assert claim.holds
    assert claim.found == "100% above, 25% below"


def test_number_and_depth_of_trees(made):
    frame = made["G-F14"].tables[0]
    assert sorted(zip(frame["iterations"], frame["depth"], strict=True)) == [(3, 2), (3, 5), (20, 2), (20, 5)]
    assert frame.equals(made["G-F15"].tables[0])
    assert (frame["microseconds"] > 0).all()
    assert (frame["trees"] == 5 * frame["iterations"]).all()
    assert "measured when this was made" in made["G-F15"].caption


def test_overheads_are_those_of_equations_6_and_7(made, times):
    costs, paid = made["G-ovh"].tables
    assert (costs["eleven"] == 1.5).all()
    assert (costs["both"] == 5.0).all()
    held_out = {m for m, _ in choices(made)}
    assert set(paid["matrix"]) == held_out & set(costs["matrix"])
    inference = float(made["G-ovh"].ours["inference"].split()[0])
    for row in paid.itertuples():
        taken = [times[row.matrix][t] for m, t in choices(made) if m == row.matrix]
        predicted = 6.0 + inference + 5 * sum(taken) / len(taken)
        assert math.isclose(row.ratio, sum(times[row.matrix].values()) / predicted, rel_tol=0.02)
    assert math.isclose(made["G-ovh"].ours["T_naive / T_ML: mean"], paid["ratio"].mean())


def test_costs_of_another_gpu_do_not_count(sweep):
    context = Context(sweep, experiments=[features(sweep, "Other GPU")])
    with pytest.raises(
        MissingMeasurementsError, match=r"on the Test GPU, only on the Other GPU.*experiment run features"
    ):
        find(["G-ovh"])[0].make(context)
    with pytest.raises(MissingMeasurementsError, match="experiment run features"):
        find(["G-ovh"])[0].make(Context(sweep))


def test_blocks_are_trained_on_slices_of_regular_matrices(made):
    sweep = learnable.spmv(blocks=True)
    names = sweep.matrices.set_index("matrix")
    best = {t: 0 for t in THREADS}
    tested = {}
    for name, row in names.iterrows():
        if not name.endswith("]"):
            continue
        us = dict(zip(THREADS, learnable.of_mean(row["spmv_nnz_per_row_mean"], row["spmv_nnz"]), strict=True))
        if names.loc[name.partition("[")[0], "spmv_nnz_per_row_max"] >= 512:
            tested[name] = us
        else:
            best[min(us, key=us.get)] += 1
    assert made["G-F5"].tables[0].set_index("threads")["blocks"].to_dict() == best
    rows = made["G-T9"].tables[1]
    assert set(rows["matrix"]) == set(tested)
    loss = [tested[row.matrix][int(row.chosen)] / min(tested[row.matrix].values()) - 1 for row in rows.itertuples()]
    assert math.isclose(made["G-T9"].ours["accuracy"], sum(x <= 0.02 for x in loss) / len(loss))
    assert math.isclose(made["G-T9"].ours["PLUB"], 100 * sum(loss) / len(loss), rel_tol=1e-4, abs_tol=1e-4)
    assert all("nan" not in claim for claim in (made["G-F10"].verdict.sentence, made["G-F5"].verdict.sentence))
    table = made["G-F10"].tables[0]
    assert table["matrices"].sum() == sum(x > 1e-6 for x in loss)
    assert f"{len(tested)} blocks of short rows to test" in made["G-T9"].caption
    assert made["G-T9"].caption.endswith(f"{len(tested)} irregular matrices, all of them real.")


@pytest.mark.parametrize("id", BLOCKS)
def test_without_blocks_the_sweep_of_them_is_named(sweep, id):
    with pytest.raises(MissingMeasurementsError, match=r"no blocks of rows were measured.*--corpus blocks"):
        find([id])[0].make(Context(sweep))


def test_too_few_matrices_name_the_sweep():
    with pytest.raises(MissingMeasurementsError, match=r"20 matrices.*there are 9; .*--corpus spmv"):
        find(["G-T4"])[0].make(synthetic.context())


def test_captions_and_texts(made):
    for id, result in made.items():
        assert "Test GPU, CUDA 13.0; spmv/float64, warm L2 cache" in result.caption
        assert "nan" not in result.verdict.sentence
        sizes = [text.get_fontsize() for text in result.figure.findobj(lambda artist: hasattr(artist, "get_fontsize"))]
        assert min(sizes) >= 7, id
        named = {printed.quantity for printed in find([id])[0].printed}
        assert named <= set(result.ours)


def test_predicted_speedups_are_over_16_threads(sweep, made, times, monkeypatch):
    monkeypatch.setattr(trained, "shuffles", lambda context: held_out)
    rows = made["G-T4"].tables[2]
    held_out = [type("Shuffle", (), {"chosen": type("Chosen", (), {"rows": rows})})]
    found = trained.predicted_speedups(Context(sweep)).tolist()
    assert found == pytest.approx([times[m][16] / times[m][t] for m, t in choices(made)])


def test_there_are_none_where_models_cannot_be_trained(sweep):
    assert trained.predicted_speedups(synthetic.context()).empty
    assert trained.predicted_blockwise_speedups(Context(sweep)).empty


def test_blockwise_speedups_are_of_matrices_with_both_times(monkeypatch):
    whole = pd.DataFrame({"global 16": [6.0, 4.0, 5.0], "blockwise model": [2.0, 4.0, math.nan]})
    monkeypatch.setattr(trained, "blocks", lambda context: type("Study", (), {"whole": whole}))
    assert trained.predicted_blockwise_speedups(Context()).tolist() == [3.0, 1.0]

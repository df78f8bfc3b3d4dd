"""Mehrabi et al., models: against slow loops over the same choices, on a sweep whose best orders can be learned."""

from __future__ import annotations

import importlib.util
import math

import matplotlib as mpl
import pytest

from bench.tables import measured, tables
from reproduce import learnable, synthetic
from warploom.reproduce import Context, MissingMeasurementsError, find, reproduce
from warploom.reproduce.context import MissingPackagesError
from warploom.reproduce.drawing import STYLE
from warploom.reproduce.mehrabi2021 import other_models, trained
from warploom.training import row_order

pytest.importorskip("torch")
pytest.importorskip("sklearn")

IDS = ("M-F11", "M-F12", "M-F13", "M-F14", "M-cls", "M-sens", "M-F15")
NAMES = ("CSR", "DCSR", "LPT", "warp-aware")


@pytest.fixture(scope="module")
def sweep():
    return learnable.spmm()


@pytest.fixture(scope="module")
def made(sweep):
    with pytest.MonkeyPatch.context() as patch, mpl.rc_context(STYLE):
        patch.setattr(trained, "EPOCHS", 15)
        patch.setattr(trained, "_SAMPLES", 20)
        patch.setattr(trained, "_SPLITS", (0, 1))
        patch.setattr(trained, "TOPOLOGIES", ((8,), (64, 32), (8, 8, 8)))
        context = Context(sweep)
        return {id: find([id])[0].make(context) for id in IDS}


@pytest.fixture(scope="module")
def times(sweep):
    rows = sweep.measurements.astype({"matrix": str, "candidate": str})
    names = {candidate: name for name, candidate in row_order.FOUR_TECHNIQUES.items()}
    found = {}
    for row in rows.itertuples():
        found.setdefault(row.matrix, {})[names[row.candidate]] = float(row.median_us)
    return found


def losses(result, times):
    """What was chosen for each held-out matrix, against its times: class, best class, loss."""
    return [
        (row.chosen, min(times[row.matrix], key=times[row.matrix].get), times[row.matrix])
        for row in result.tables[2].itertuples()
    ]


def test_populations_and_weights(made, times):
    table = made["M-F11"].tables[0]
    first = table[table["split"] == 0].set_index("class")
    assert list(first.index) == list(NAMES)
    assert first["matrices"].sum() == 64  # 80 % of 80
    tested = made["M-F13"].tables[2]
    held_out = set(tested.loc[tested["split"] == 0, "matrix"])
    best = [min(of, key=of.get) for name, of in times.items() if name not in held_out]
    assert first["matrices"].to_dict() == {name: best.count(name) for name in NAMES}
    for name in NAMES:
        assert math.isclose(first.loc[name, "weight"], 64 / (4 * best.count(name)))


def test_confusion_counts_choices_and_averages_losses(made, times):
    cells = made["M-F13"].tables[0].set_index(["optimal", "chosen"])
    found = losses(made["M-F13"], times)
    assert len(found) == 2 * 16
    for optimal in NAMES:
        for chosen in NAMES:
            own = [of[c] / of[b] - 1 for c, b, of in found if (b, c) == (optimal, chosen)]
            assert cells.loc[(optimal, chosen), "matrices"] == len(own)
            if own:
                assert math.isclose(
                    cells.loc[(optimal, chosen), "mean_loss"], sum(own) / len(own), rel_tol=1e-5, abs_tol=1e-9
                )
    right = sum(c == b for c, b, _ in found) / len(found)
    assert math.isclose(made["M-F13"].ours["matrices in the right class"], right)


def test_what_can_be_learned_is(made):
    assert made["M-F13"].ours["matrices in the right class"] > 0.6
    lines = made["M-sens"].tables[0].set_index("choice")["mean loss"]
    # The order that is the fastest cannot be told from the matrix alone here.
    assert lines["all 24 features"] < 0.5 * lines["9 features of the matrix"]
    assert "with load balance and data locality less is lost" in made["M-sens"].verdict.sentence.split("but")[0]


def test_losses(made, times):
    found = [of[c] / of[b] - 1 for c, b, of in losses(made["M-F13"], times)]
    ours = made["M-F14"].ours
    assert math.isclose(ours["mean loss"], sum(found) / len(found), rel_tol=1e-5)
    assert math.isclose(ours["share within 4 %"], sum(loss <= 0.04 for loss in found) / len(found))
    assert math.isclose(ours["share within 10 %"], sum(loss <= 0.10 for loss in found) / len(found))
    speedups = [of["CSR"] / of[c] for c, _, of in losses(made["M-F13"], times)]
    assert math.isclose(ours["mean speedup, predicted"], sum(speedups) / len(speedups), rel_tol=1e-5)
    histogram = made["M-F14"].tables[0]
    assert histogram["matrices"].iloc[0] == sum(loss == 0 for loss in found)
    assert histogram["matrices"].sum() == len(found)
    assert histogram["matrices"].iloc[-1] == sum(loss > 0.2 for loss in found)


def test_errors_of_predicted_times_are_a_distribution(made):
    frame = made["M-F12"].tables[0]
    assert frame["percent"].tolist() == [step / 2 for step in range(101)]
    for name in (*NAMES, "all"):
        assert frame[name].is_monotonic_increasing
        assert frame[name].between(0, 1).all()
    below = made["M-F12"].ours["share of errors below 10 %"]
    assert abs(frame.set_index("percent").loc[10.0, "all"] - below) < 1e-9


def test_one_class_always_costs_what_it_does(made, times):
    frame = made["M-cls"].tables[0].set_index("choice")
    tested = [of for _, _, of in losses(made["M-F13"], times)]
    for name in NAMES:
        mean = sum(of[name] / min(of.values()) - 1 for of in tested) / len(tested)
        assert math.isclose(frame.loc[f"always {name}", "mean loss"], mean, rel_tol=1e-5)
    oracle = sum(of["CSR"] / min(of.values()) for of in tested) / len(tested)
    assert math.isclose(frame.loc["oracle", "mean speedup"], oracle, rel_tol=1e-5)


def test_topologies(made):
    frame = made["M-F15"].tables[0]
    assert frame["topology"].tolist() == ["(8)", "(64,32)", "(8,8,8)"]
    assert (frame["mean_loss_low"] <= frame["mean_loss"]).all()
    same = made["M-F14"].ours["mean loss"]
    assert math.isclose(frame.set_index("topology").loc["(64,32)", "mean_loss"], same, rel_tol=1e-6)


def test_captions_and_texts(made):
    for id, result in made.items():
        assert "64 matrices to train and 16 to test in each of 2 splits" in result.caption, id
        assert "cold L2 cache; 80 matrices, all of them real." in result.caption
        assert "nan" not in result.verdict.sentence
        sizes = [text.get_fontsize() for text in result.figure.findobj(lambda artist: hasattr(artist, "get_fontsize"))]
        assert min(sizes) >= 7
        named = {printed.quantity for printed in find([id])[0].printed}
        assert named <= set(result.ours)


def test_an_interval_of_the_difference_decides(made):
    found = made["M-F13"].tables[2]

    class Held:
        def __init__(self, loss):
            self.rows = found.assign(loss=loss)

    more, low, high = other_models._difference(Held(found["loss"] + 0.01), Held(found["loss"]))
    assert math.isclose(more, 0.01)
    assert math.isclose(low, 0.01)
    assert math.isclose(high, 0.01)
    alternating = [0.01, -0.01] * (len(found) // 2)
    more, low, high = other_models._difference(Held(found["loss"] + alternating), Held(found["loss"]))
    assert abs(more) < 1e-12
    assert low < 0 < high


def test_models_are_trained_once(sweep, monkeypatch):
    studied = []
    monkeypatch.setattr(trained, "_study", lambda context: studied.append(context) or "study")
    context = Context(sweep)
    assert trained.chosen_orders(context) == trained.chosen_orders(context) == "study"
    assert studied == [context]


def test_without_packages_the_extra_is_named(sweep, monkeypatch, tmp_path):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "torch" else real(name, *more))
    with pytest.raises(
        MissingPackagesError, match=r"M-F14 cannot be made: .*torch.*pip install 'warploom\[training\]'"
    ):
        reproduce("M-F14", tmp_path, context=Context(sweep))
    assert not list(tmp_path.glob("M-F14*"))


def test_too_few_matrices_name_the_sweep():
    with pytest.raises(MissingMeasurementsError, match=r"20 matrices.*there are 8; .*--corpus spmm"):
        find(["M-F13"])[0].make(synthetic.context())
    some = tables([synthetic.matrix("a")], [measured("a")], synthetic.ENVIRONMENT)
    with pytest.raises(MissingMeasurementsError, match="no times of spmm/float32/column/k=rows"):
        find(["M-F13"])[0].make(Context(some))

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from training.training_tables import build, facts, measurement
from warploom import features, partition, profiles
from warploom.bench.repeatability import Tolerances
from warploom.errors import ParameterError
from warploom.predictor import Model
from warploom.training.data import Dataset
from warploom.training.threads_per_row import (
    CANDIDATES,
    FAMILIES,
    THREADS,
    Found,
    blocks_data,
    choose,
    cost_of_trees,
    decision_tree,
    depth_study,
    formula_columns,
    precision_agreement,
    search,
    shuffle,
    study_blocks,
    threads_per_row_data,
    train,
)

sklearn = pytest.importorskip("sklearn")
pytest.importorskip("lightgbm")
pytest.importorskip("optuna")
WITHIN = Tolerances({}, {}, 0.03)


def times(mean, nnz):
    """Microseconds of `CANDIDATES`: as many threads are best as the mean row has nonzeros."""
    base = 2 + nnz / 1e5
    return [base * (1 + 0.3 * abs(np.log2(mean) - 1 - i)) for i in range(5)]


def matrix(name, mean, rows=1000, longest=None):
    values = facts(name)
    values |= {
        "spmv_num_rows": float(rows),
        "spmv_nnz": float(rows * mean),
        "spmv_density": mean / 1000,
        "spmv_nnz_per_row_mean": float(mean),
        "spmv_nnz_per_row_max": float(longest or 2 * mean),
    }
    return values


def timed(name, of, dtype="float64", caches=("warm", "cold")):
    rows = []
    for candidate, time in zip(CANDIDATES, of, strict=True):
        for cache in caches if time is not None else ():
            rows.append(measurement(name, candidate, time, setting=f"spmv/{dtype}", cache=cache))
    return rows


def sweep(matrices=100, dtypes=("float64",), seed=0):
    random = np.random.default_rng(seed)
    known, rows = [], []
    for i in range(matrices):
        known.append(matrix(f"g/m{i}", 2 ** random.uniform(0.6, 5.4), int(2 ** random.uniform(6, 18))))
        of = times(known[-1]["spmv_nnz_per_row_mean"], known[-1]["spmv_nnz"])
        for dtype in dtypes:
            rows += timed(f"g/m{i}", of, dtype)
    return build(known, rows)


def table(*times_of, matrices=None):
    names = [f"m{i}" for i in range(len(times_of))]
    rows = [row for name, of in zip(names, times_of, strict=True) for row in timed(name, of)]
    known = matrices or [facts(name) for name in names]
    return Dataset.of(build(known, rows), "spmv/float64", "warm", within=WITHIN).columns(CANDIDATES)


@pytest.fixture(scope="module")
def dataset():
    return threads_per_row_data(sweep())[0]


@pytest.fixture(scope="module")
def halves(dataset):
    return dataset.rows(np.arange(0, 100, 2)), dataset.rows(np.arange(1, 100, 2))


@pytest.fixture(scope="module")
def shuffled(dataset):
    return shuffle(dataset, 1, families=["decision tree", "boosted trees"], trials=1, samples=50)


def test_candidates_have_their_registered_names():
    assert THREADS == (2, 4, 8, 16, 32)
    assert CANDIDATES[0] == "spmv/none/csr/vector[threads_per_row=2]"
    assert CANDIDATES[4] == "spmv/none/csr/vector"


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


def test_a_number_that_was_left_out_is_not_chosen():
    dataset = table([5, 4, None, None, 1], [5, 4, 3, 2, 1])
    zeros = {"input.mean": np.zeros(11), "input.scale": np.ones(11)}
    arrays = zeros | {
        "layer.0.weight": np.zeros((1, 5, 11), np.float32),
        "layer.0.bias": np.array([[1, 2, 4, 3, 0]], np.float32),
    }
    model = Model(
        "network", features.names("spmv"), CANDIDATES, {"activation": "identity", "output": "identity"}, arrays
    )
    assert choose(model, dataset).tolist() == [1, 2]


def test_blocks_and_matrices_without_times_are_left_out():
    names = ["a", "a[0:5]", "b.T", "c"]
    rows = [row for name in names[:3] for row in timed(name, [1, 2, 3, 4, 5])]
    rows += timed("c", [1, 2, 3, 4, None])
    rows.append(measurement("c", CANDIDATES[4], None, setting="spmv/float64", cache="", status="time limit"))
    dataset, left_out = threads_per_row_data(build([facts(name) for name in names], rows))
    assert dataset.names.tolist() == ["a", "b.T"]
    assert left_out == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_learns_what_the_features_tell(halves, family):
    slow = family == "network"
    if slow:
        pytest.importorskip("torch")
    known, test = halves
    X = np.stack([known.features[f"spmv_{name}"] for name in features.names("spmv")], axis=1)
    for extra in ({"epochs": 200}, {"weighting": "equal", "epochs": 200}, {"target": "class"})[: 1 if slow else 3]:
        parameters = {**FAMILIES[family].start, **{k: v for k, v in extra.items() if k in FAMILIES[family].start}}
        model = FAMILIES[family].fit(X, known, parameters, 0)
        assert model.outputs == CANDIDATES
        right = choose(model, test) == test.times.argmin(axis=1)
        assert right.mean() > 0.7


@pytest.mark.parametrize("family", ["random forest", "extra trees", "decision tree", "boosted trees"])
def test_numbers_that_were_best_nowhere_are_outputs_all_the_same(family):
    dataset = table(*[[2, 1, 3, 3, 3], [2, 3, 3, 3, 1]] * 10)
    X = np.random.default_rng(0).uniform(size=(20, 11))
    parameters = {**FAMILIES[family].start, **({"target": "class"} if "target" in FAMILIES[family].start else {})}
    model = FAMILIES[family].fit(X, dataset, parameters, 0)
    assert model.outputs == CANDIDATES
    predicted = model.predict(X)
    np.testing.assert_allclose(predicted.sum(axis=1), 1, rtol=1e-9)
    assert set(predicted.argmax(axis=1)) <= {1, 4}


def test_search_is_reproducible_and_no_worse_than_its_start(dataset):
    first, second = (search(dataset, "decision tree", trials=4, seed=2) for _ in range(2))
    assert (first.parameters, first.value) == (second.parameters, second.value)
    assert first.value <= search(dataset, "decision tree", trials=1, seed=2).value
    by_accuracy = search(dataset, "decision tree", trials=1, objective="accuracy")
    assert 0.5 < by_accuracy.value <= 1
    assert by_accuracy.parameters == dict(FAMILIES["decision tree"].start)


def test_search_refuses_what_it_does_not_know(dataset):
    for arguments in ({"family": "oracle"}, {"family": "decision tree", "objective": "beauty"}):
        with pytest.raises(ParameterError) as raised:
            search(dataset, **arguments)
        assert raised.value.argument == list(arguments)[-1]


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


def test_speedups_over_16_threads(shuffled):
    speedups = shuffled.speedups.set_index("configuration")
    rows = shuffled.chosen.rows
    assert speedups.loc["optimal", "arithmetic"] == pytest.approx((rows["baseline_us"] / rows["best_us"]).mean())
    expected = np.exp(np.log(rows["baseline_us"] / rows["chosen_us"]).mean())
    assert speedups.loc["model", "geometric"] == pytest.approx(expected)
    assert speedups.loc["optimal", "wins"] == len(rows) == speedups.loc["model", "rows"]


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
    costs = cost_of_trees(*halves, numbers=(2, 20), depths=(3,))
    assert costs["trees"].tolist() == [10, 100]
    assert (costs["microseconds"] > 0).all()
    assert costs["microseconds"].iloc[1] > costs["microseconds"].iloc[0]


def test_agreement_of_two_value_types():
    known = [facts(name) for name in "abc"]
    rows = timed("a", [1, 2, 3, 4, 5]) + timed("a", [1, 2, 3, 4, 5], "float32")
    rows += timed("b", [1, 2, 3, 4, 5]) + timed("b", [1.5, 2, 3, 4, 1], "float32")
    rows += timed("c", [1, 2, 3, 4, 5])
    found = precision_agreement(build(known, rows))
    assert found["matrix"].tolist() == ["a", "b"]
    assert found["same"].tolist() == [True, False]
    assert found[["float64", "float32"]].to_numpy().tolist() == [[2, 2], [2, 32]]
    assert found["gap"].tolist() == pytest.approx([0, 0.5])
    assert found["near"].tolist() == [True, False]
    with pytest.raises(ParameterError, match="float16"):
        precision_agreement(build(known, rows), ("float64", "float16"))


def block_sweep(matrices=40):
    """Return regular matrices with their halves, irregular ones with one short-row block each, and an orphan."""
    random = np.random.default_rng(5)
    known, rows = [], []

    def add(name, mean, longest=None):
        known.append(matrix(name, mean, 4000, longest))
        of = times(mean, 4000 * mean)
        rows.extend(timed(name, of))
        return of

    for i in range(matrices):
        mean = 2 ** random.uniform(0.6, 5.4)
        add(f"r{i}", mean)
        add(f"r{i}[0:2000]", mean)
        add(f"r{i}[2000:4000]", mean)
        of = add(f"i{i}", mean, longest=600)
        add(f"i{i}[10:4000]", mean)
        for threads, time in zip((0, *THREADS), (min(of), *of), strict=True):
            name = f"spmv/none/csr/blockwise[threads_per_row={threads}]" if threads else "spmv/none/csr/blockwise"
            rows.append(measurement(f"i{i}", name, time / 2, setting="spmv/float64"))
    add("orphan[0:10]", 3)
    return build(known, rows)


def test_blocks_are_told_apart_by_their_whole_matrices():
    known, test, unknown = blocks_data(block_sweep(3))
    assert set(known.names) == {f"r{i}[{part}]" for i in range(3) for part in ("0:2000", "2000:4000")}
    assert set(test.names) == {f"i{i}[10:4000]" for i in range(3)}
    assert unknown == 1


def test_a_matrix_and_its_transpose_are_not_on_both_sides():
    names = {"a": 5, "a[0:9]": 5, "a.T": 600, "a.T[0:9]": 5, "b": 5, "b[0:9]": 5}
    rows = [row for name in names for row in timed(name, [1, 2, 3, 4, 5])]
    known, test, _ = blocks_data(build([matrix(name, 5, longest=most) for name, most in names.items()], rows))
    assert (known.names.tolist(), test.names.tolist()) == (["b[0:9]"], ["a.T[0:9]"])


def test_what_is_missing_for_blocks_is_said():
    with pytest.raises(ParameterError, match="no blocks of rows were measured"):
        blocks_data(sweep(5))
    only_regular = block_sweep(3).select(matrix=["r0", "r0[0:2000]", "r0[2000:4000]"])
    with pytest.raises(ParameterError, match="irregular"):
        blocks_data(only_regular)


def test_global_against_blockwise():
    of_whole = Found("decision tree", dict(FAMILIES["decision tree"].start), 0.0)
    found = study_blocks(block_sweep(), of_whole=of_whole, families=["decision tree"], trials=1, samples=20)
    assert found.optima["blocks"].sum() == 80
    assert len(found.result.chosen.rows) == 40
    assert found.result.chosen.figures.loc["accuracy", "raw"] > 0.8
    whole = found.whole.set_index("matrix")
    assert len(whole) == 40
    np.testing.assert_allclose(whole["blockwise optimal"], whole["global optimal"] / 2, rtol=1e-6)
    chosen = found.result.chosen.rows.set_index(found.result.chosen.rows["matrix"].str.split("[").str[0])
    np.testing.assert_allclose(whole["blockwise model"], chosen["chosen_us"].reindex(whole.index) / 2, rtol=1e-6)
    average = found.average.set_index("configuration")["arithmetic"]
    assert average["global 16"] == 1
    assert 1 < average["global model"] <= average["global optimal"] < average["blockwise model"]
    assert average["blockwise model"] <= average["blockwise optimal"]


def test_training_makes_models_for_a_profile_and_says_what_is_missing(tmp_path):
    trained = train(
        sweep(40, dtypes=("float64", "float32")), seeds=(0,), families=["decision tree"], trials=1, samples=10
    )
    assert list(trained.models) == ["threads-per-row-float64-warm"]
    assert "no blocks of rows" in trained.missing["blockwise-float64-warm"]
    assert trained.agreement["warm"]["same"].all()
    found = trained.studies["float64-warm"]
    assert found.matrices == 40
    assert found.optima["matrices"].sum() == 40
    assert isinstance(found.table, pd.DataFrame)
    assert found.pooled_plub.value == pytest.approx(100 * found.pooled.rows["loss"].mean())
    assert found.as_dict()["families"] == ["decision tree"]
    profiles.save(tmp_path / "p.safetensors", profiles.Profile("Test GPU", (9, 0), "13.0", trained.models))
    loaded = profiles.load(tmp_path / "p.safetensors").models["threads-per-row-float64-warm"]
    assert loaded.outputs == CANDIDATES
    assert loaded.inputs == features.names("spmv")

"""Learned weights beside simpler choices on held-out labels, against a plain loop over fits."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import metricmix as mm
from metricmix.dissimilarity import features
from metricmix.dissimilarity.sources import data_of
from metricmix.estimators import Comparison, LabelledKFold, Method, MetricMixtureClassifier
from metricmix.exceptions import ConvergenceWarning, InputError
from metricmix.items.encoding import encode_data
from metricmix.learning import baselines
from metricmix.learning.rules import CLASS_RULES, KNearest
from metricmix.learning.task import Classes
from reference.instances import random_sources

N = 60
X, Y = make_blobs(N, 3, centers=3, cluster_std=5.0, random_state=4)
KNOWN = np.where(np.arange(N) < 36, Y, -1)
RULES = CLASS_RULES.names()
NOISE = np.random.default_rng(0).normal(size=(N, 2))
STACK = mm.DissimilarityStack(
    {"size": features(X), "shape": features(X, "angular"), "noise": features(NOISE)}
)


def fitted(
    stack: mm.DissimilarityStack = STACK, y: Any = KNOWN, **options: Any
) -> MetricMixtureClassifier:
    fixed = {"constraint": "nonnegative", "rho": 1e-3, "rule": "class-mean"}
    return MetricMixtureClassifier(stack, **{**fixed, **options}).fit(None, y)


def held_back(y: NDArray[Any], train: NDArray[np.int64]) -> NDArray[Any]:
    """The labels of the training items; all others are unlabelled."""
    return np.where(np.isin(np.arange(len(y)), train), y, "" if y.dtype.kind == "U" else -1)


def refit(
    model: MetricMixtureClassifier, y: NDArray[Any], train: Any, **other: Any
) -> MetricMixtureClassifier:
    """A new model with the parameters of another, fitted to the labels of the training items."""
    again = MetricMixtureClassifier(**{**model.get_params(deep=False), **other})
    return again.fit(None, held_back(y, train))


def alone(stack: mm.DissimilarityStack, r: int) -> dict[str, Any]:
    one = mm.DissimilarityStack(
        [stack.raw_rows(np.arange(stack.n_items))[r]], stack.names[r : r + 1],
        directed=stack.directed,
    )  # fmt: skip
    return {"sources": one, "objective": None}


def folds_of(model: Any, n_splits: int, n_repeats: int = 1, seed: int = 0) -> list[Any]:
    """The folds of a comparison: what is known in each, and the items that are held out."""
    known, folds = model.learned_.known, []
    for each in np.random.default_rng(seed).integers(2**31, size=n_repeats).tolist():
        dealt = known.folds(n_splits, each)
        tests = [known.items[dealt == number] for number in range(n_splits)]
        folds += [(known.without(test), test) for test in tests]
    return folds


def loop(model: MetricMixtureClassifier, y: Any, folds: list[Any], n_splits: int) -> dict[str, Any]:
    """Accuracies by fold, one fit after the other."""
    stack, found = model.stack_, {}

    def accuracy(known: Any, test: Any, **other: Any) -> float:
        return float(np.mean(refit(model, y, known.items, **other).transduction_[test] == y[test]))

    found["learned metric"] = [accuracy(*fold) for fold in folds]
    found["equal weights"] = [accuracy(*fold, objective=None) for fold in folds]
    for r, name in enumerate(stack.names):
        found[name] = [accuracy(*fold, **alone(stack, r)) for fold in folds]
    best = []
    for f, (known, _) in enumerate(folds):
        own = held_back(y, known.items)
        inner = known.folds(n_splits, f // n_splits)
        scores = []
        for r in range(stack.n_sources):
            wrong, loss = [], []
            for number in range(n_splits):
                part, asked = known.items[inner != number], known.items[inner == number]
                fit = refit(model, own, part, **alone(stack, r))
                p, right = fit.predict_proba(asked), np.searchsorted(model.classes_, y[asked])
                wrong += (p.argmax(axis=1) != right).tolist()
                loss += np.log(np.maximum(p[np.arange(len(p)), right], 1e-15)).tolist()
            scores.append((np.mean(wrong), -np.mean(loss).round(12)))
        best.append(min(range(stack.n_sources), key=lambda r: scores[r]))
    found["best single source"] = [found[stack.names[r]][f] for f, r in enumerate(best)]
    found["chosen"] = [stack.names[r] for r in best]
    for name, rule in (("1-NN", "nearest"), ("5-NN", "k-nearest")):
        found[f"{name} on the best source"] = [
            accuracy(*fold, **alone(stack, r), rule=rule)
            for fold, r in zip(folds, best, strict=True)
        ]
    labels, counts = np.unique(y[model.learned_.known.items], return_counts=True)
    most_frequent = labels[counts.argmax()]
    found["most frequent class"] = [float(np.mean(y[test] == most_frequent)) for _, test in folds]
    return found


def check_against_loop(
    model: MetricMixtureClassifier, y: Any, n_splits: int, n_repeats: int = 1, seed: int = 0
) -> Comparison:
    found = model.compare(n_splits=n_splits, n_repeats=n_repeats, random_state=seed)
    expected = loop(model, y, folds_of(model, n_splits, n_repeats, seed), n_splits)
    for method in found.methods:
        assert method.scores.tolist() == pytest.approx(expected[method.name]), method.name
    assert found.chosen == {name: expected["chosen"].count(name) for name in model.stack_.names}
    return found


@pytest.mark.parametrize("rule", RULES)
def test_accuracies_are_those_of_a_loop(rule: str) -> None:
    n_repeats = 2 if rule == "class-mean" else 1
    check_against_loop(fitted(rule=rule), KNOWN, 3, n_repeats=n_repeats, seed=1)


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "neighbourhood", "rho": 0.1},
        {"objective": "label-contrast", "constraint": "simplex", "beta": 3.0},
        {"objective": None},
        {"objective": lambda codes: mm.objectives.LabelContrast(codes, 0.2)},
        {"projection": True},
        {"method": "stochastic", "max_iter": 200, "random_state": 3},
        {"method": "stochastic", "max_iter": 50, "random_state": np.random.RandomState(3)},
        {"rule": KNearest(3, "distance")},
    ],
    ids=[
        "neighbourhood",
        "simplex",
        "none",
        "function",
        "projected",
        "stochastic",
        "state",
        "votes",
    ],
)
def test_parameters_are_those_of_the_model(options: dict[str, Any]) -> None:
    seed = options.get("random_state")
    if isinstance(seed, np.random.RandomState):  # every fold starts where the model would now
        model = fitted(**options)
        one, two = model.compare(n_splits=2), model.compare(n_splits=2)
        assert one.weights.tolist() == two.weights.tolist()
    else:
        check_against_loop(fitted(**options), KNOWN, 2)


@pytest.mark.parametrize("rule", RULES)
def test_a_directed_stack(rule: str) -> None:
    sources = random_sources(np.random.default_rng(0), N, 2, directed=True)
    stack = mm.DissimilarityStack(sources, ["there", "back"], directed=True)
    check_against_loop(fitted(stack, rule=rule), KNOWN, 2)


def test_weights_learned_through_paths() -> None:
    stack = mm.DissimilarityStack({"size": features(X), "shape": features(X, "cosine")})
    model = fitted(stack)
    assert model.moved_share_ > 0.1
    check_against_loop(model, KNOWN, 2)


def test_texts_as_labels() -> None:
    y = np.array(["", "tea", "coffee", "milk"])[KNOWN + 1]
    found = check_against_loop(fitted(y=y), y, 3)
    assert found.classes.tolist() == ["coffee", "milk", "tea"]
    assert found.labels.tolist() == y[:36].tolist()
    assert set(found["learned"].predictions.ravel()) <= {"coffee", "milk", "tea"}


def test_numbers_against_a_loop() -> None:
    """R² by fold, one fit after the other."""
    target = X[:, 0] + 0.3 * X[:, 1]
    y = np.where(np.arange(N) < 36, target, np.nan)
    fixed: Any = {"constraint": "nonnegative", "rho": 1e-3, "rule": "kernel-ridge"}
    model = mm.MetricMixtureRegressor(STACK, **fixed).fit(None, y)
    found, folds, variance = (
        model.compare(n_splits=3, n_repeats=2),
        folds_of(model, 3, 2),
        y[:36].var(),
    )

    def r2(known: Any, test: Any, **other: Any) -> float:
        params = {**model.get_params(deep=False), **other}
        fit = mm.MetricMixtureRegressor(**params).fit(None, known.values)
        off = fit.transduction_[test] - y[test]
        return float(1.0 - np.mean(off**2) / variance)

    ways: dict[str, Any] = {"learned metric": {}, "equal weights": {"objective": None}}
    ways |= {name: alone(STACK, r) for r, name in enumerate(STACK.names)}
    for method in found.methods:
        if method.name in ways:
            expected = [r2(*fold, **ways[method.name]) for fold in folds]
            assert method.scores.tolist() == pytest.approx(expected, rel=1e-6), method.name
    means = [1.0 - np.mean((y[test] - known.y.mean()) ** 2) / variance for known, test in folds]
    assert found["mean"].scores.tolist() == pytest.approx(means)
    learned = found["learned"]
    assert learned.mean == pytest.approx(
        1.0 - np.mean((learned.predictions - y[:36]) ** 2) / variance
    )
    assert learned.mean_absolute_error == pytest.approx(np.abs(learned.predictions - y[:36]).mean())
    by_item = learned.errors.std() / 6
    by_fold = learned.scores.std(ddof=1) / np.sqrt(3)
    assert learned.standard_error == pytest.approx(max(by_item, by_fold))
    assert found.labels.tolist() == y[:36].tolist()
    assert found.classes is None
    assert found.confusion.shape == (0, 0)


def test_numbers_beside_regressors() -> None:
    rows, y = load_diabetes(return_X_y=True)
    known = np.where(np.arange(130) < 100, y[:130], np.nan)
    stack = mm.sources_for(rows[:130], target=known).select(["numbers", "learned"])
    fixed: Any = {"constraint": "nonnegative", "rho": 1e-3, "rule": "kernel-ridge"}
    model = mm.MetricMixtureRegressor(stack, **fixed).fit(np.arange(130), known)
    calls: list[Any] = []
    found = model.compare(n_splits=3, on_fold=lambda done, total: calls.append((done, total)))
    assert calls == [(k, 6) for k in range(1, 7)]  # two sources, equal weights, three folds
    kinds = [method.kind for method in found.methods]
    assert kinds == [
        *("learned", "equal", "best-single", "ridge", "neighbours"),
        *("forest", "single", "single", "mean"),
    ]
    assert found["mean"].mean <= 0.01
    assert found["learned"].mean > 0.2
    predictions = found["learned"].predictions
    assert found["learned"].mean == pytest.approx(r2_score(y[:100], predictions[0]))
    assert sum(found.chosen.values()) == 3
    assert "ridge regression" in str(found)
    assert "R² on held-out targets is " in str(found.verdict)
    assert f"{found['learned'].mean:.3f} with the learned metric" in str(found.verdict)
    assert list(found.to_frame()["kind"]) == kinds
    place, other = np.random.default_rng(0).normal(size=(2, 30))
    matrices = mm.DissimilarityStack(
        {"good": features(place[:, None]), "bad": features(other[:, None])}
    )
    without = mm.MetricMixtureRegressor(matrices, **fixed).fit(None, place).compare(n_splits=3)
    assert "no table" in without.how
    assert "ridge" not in [method.kind for method in without.methods]


# -- the layout ----------------------------------------------------------------------------------


def test_everything_adds_up() -> None:
    ids = [f"item {k}" for k in range(N)]
    stack = mm.DissimilarityStack(
        dict(zip(STACK.names, STACK.raw_rows(np.arange(N)), strict=True)), items=ids
    )
    y = np.where(np.arange(N) % 2, Y, -1)
    model = MetricMixtureClassifier(stack).fit(ids, y)
    found = model.compare(n_splits=4, n_repeats=3)
    assert found.items.tolist() == ids[1::2]
    assert found.labels.tolist() == Y[1::2].tolist()
    assert [m.kind for m in found.methods] == [
        *("learned", "equal", "best-single", "source-1-nn", "source-5-nn"),
        *["single"] * 3, "most-frequent",
    ]  # fmt: skip
    assert [m.name for m in found.sources] == list(STACK.names)
    assert found.confusion.sum(axis=1).tolist() == (3 * np.bincount(Y[1::2])).tolist()
    assert np.trace(found.confusion) / found.confusion.sum() == pytest.approx(found["learned"].mean)
    assert sum(found.chosen.values()) == 12
    assert found.weights.shape == (12, 3)
    for method in found.methods:
        assert method.scores.shape == (12,)
        assert method.predictions.shape == (3, 30)
        assert method.mean == pytest.approx(np.mean(method.predictions == found.labels))
        by_item = np.sqrt(method.mean * (1.0 - method.mean) / 30)
        by_fold = method.scores.std(ddof=1) / 2
        assert method.standard_error == pytest.approx(max(by_fold, by_item))
    for f, (_, test) in enumerate(folds_of(model, 4, 3)):
        right = found["learned"].predictions[f // 4, test // 2] == Y[test]
        assert found["learned"].scores[f] == pytest.approx(right.mean())
    assert found.how == (
        "4 folds, dealt 3 times, over 30 labelled items; held-out items stay in the metric, "
        "unlabelled"
    )
    table = found.to_frame()
    assert table["mean"].tolist() == [m.mean for m in found.methods]
    assert f"{found['equal'].mean:.3f}" in str(found)
    with pytest.raises(InputError, match="kind: expected"):
        found["single"]


def test_the_same_seed_is_the_same_result() -> None:
    model = fitted()
    before = model.get_params(deep=False), model.weights_.copy()
    one, two = model.compare(random_state=5), model.compare(random_state=np.random.RandomState(5))
    again, other = model.compare(random_state=5), model.compare(random_state=6)
    assert np.array_equal(one["learned"].predictions, again["learned"].predictions)
    assert np.array_equal(one.weights, again.weights)
    assert not np.array_equal(one.weights, other.weights)
    assert not np.array_equal(one.weights, two.weights)  # it draws a seed, as elsewhere
    threads = fitted(n_jobs=1).compare(random_state=5)
    assert np.array_equal(one.weights, threads.weights)
    assert before[0] == model.get_params(deep=False)
    assert np.array_equal(before[1], model.weights_)


def test_progress_and_interruption() -> None:
    seen: list[tuple[int, int]] = []
    fitted().compare(n_splits=2, on_fold=lambda done, total: seen.append((done, total)))
    assert seen == [(k, 6) for k in range(1, 7)]  # three sources, equal weights, two folds

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted().compare(on_fold=interrupt)


def test_ctrl_c_while_learning() -> None:
    class Interrupting(mm.objectives.LabelContrast):
        def evaluate(self, *args: Any) -> Any:
            if self.labelled.size < 36:
                raise KeyboardInterrupt
            return super().evaluate(*args)

    model = fitted(objective=lambda codes: Interrupting(codes, 0.1))
    with pytest.raises(KeyboardInterrupt):
        model.compare()


def test_options_of_one_run_are_not_repeated(tmp_path: Any) -> None:
    calls = []
    options = {"callback": lambda *_: calls.append(1), "checkpoint": tmp_path / "run.npz"}
    model = fitted(solver_options=options)
    before = len(calls)
    model.compare(n_splits=2)
    assert len(calls) == before


def test_one_warning_for_all_folds() -> None:
    with pytest.warns(ConvergenceWarning):
        model = fitted(max_iter=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.compare(n_splits=4)
    assert [str(w.message) for w in caught] == [
        "in 4 of 4 folds learning stopped before it converged; raise max_iter"
    ]
    assert caught[0].filename == __file__


# -- classifiers that learn no metric --------------------------------------------------------------


def plain_loop(make: Any, rows: Any, y: Any, folds: list[Any]) -> list[float]:
    """Accuracies by fold of a scikit-learn classifier on the labelled rows."""
    return [
        float(make().fit(rows[known.items], known.y).score(rows[test], y[test]))
        for known, test in folds
    ]


def test_classifiers_on_the_table_are_those_of_scikit_learn(monkeypatch: Any) -> None:
    """With one penalty to choose from, and rows scaled as the module says."""
    monkeypatch.setattr(baselines, "PENALTIES", (10.0,))
    table = np.column_stack([X, NOISE, NOISE @ NOISE.T])  # more columns than labelled items
    model = fitted()
    found = model.compare(n_splits=3, features=table)
    assert [m.kind for m in found.methods][3:10] == [
        *("source-1-nn", "source-5-nn", "1-nn", "logistic", "svc", "propagation", "forest"),
    ]
    rows = encode_data(table)
    own = rows[:36] - rows[:36].mean(axis=0)
    rows = (rows - rows[:36].mean(axis=0)) / np.sqrt((own**2).sum(axis=1).mean())
    expected = {
        "1-nn": lambda: KNeighborsClassifier(1),
        "logistic": lambda: LogisticRegression(C=10.0, max_iter=1000),
        "svc": lambda: SVC(C=10.0, gamma=1.0),
    }
    folds = folds_of(model, 3)
    for kind, make in expected.items():
        assert found[kind].scores.tolist() == pytest.approx(plain_loop(make, rows, KNOWN, folds))


def test_the_penalty_is_chosen_on_training_labels(monkeypatch: Any) -> None:
    """The labels that are held out do not change what is predicted for them."""
    rows = baselines.TableRows(X[:36], np.ones(36, dtype=bool))
    train, test = next(iter(LabelledKFold(3, random_state=0).split(None, Y[:36])))
    seen: list[int] = []
    fit = SVC.fit
    monkeypatch.setattr(SVC, "fit", lambda self, K, y: (seen.append(len(y)), fit(self, K, y))[1])
    rows.support_vectors(train, Y[train], test)
    assert max(seen) == len(train)
    assert len(seen) == 3 * 3 + 1
    assert max(seen[:-1]) < len(train)


def test_held_out_labels_do_not_reach_the_classifiers() -> None:
    """A table that says nothing about random labels."""
    rng = np.random.default_rng(0)
    y, noise = rng.permutation(np.arange(120) % 2), rng.normal(size=(120, 3))
    blind = fitted(mm.DissimilarityStack([features(noise)]), y).compare(features=noise)
    for kind in ("1-nn", "logistic", "svc", "propagation", "forest"):
        assert 0.3 < blind[kind].mean < 0.65


ON_TABLE, ON_LINKS = ["1-nn", "logistic", "svc"], ["propagation", "forest"]
GRAPH = [(k, k + 1) for k in range(N - 1)]


def kinds_of(stack: mm.DissimilarityStack, features: Any = None, graph: Any = None) -> list[str]:
    data, task = baselines.item_data(stack, features, graph), Classes(np.arange(3))
    found, _ = baselines.baselines_of(data, task, task.known_of(KNOWN))
    assert found[-1].kind == "most-frequent"
    return [one.kind for one in found[:-1]]


def test_attributes_and_links_are_those_given_or_those_of_the_stack() -> None:
    assert kinds_of(STACK) == []
    assert kinds_of(STACK, X) == [*ON_TABLE, *ON_LINKS]
    assert kinds_of(STACK, graph=GRAPH) == ON_LINKS
    of_table = mm.sources_for(X)
    assert kinds_of(of_table) == [*ON_TABLE, *ON_LINKS]
    assert kinds_of(of_table.select([0]).rescaled("max")) == [*ON_TABLE, *ON_LINKS]
    of_graph = mm.sources_for(np.abs(X), GRAPH, nodes=N, edges_per_item=5)
    assert isinstance(of_graph, mm.EdgeStack)
    assert kinds_of(of_graph.select([0])) == [*ON_TABLE, *ON_LINKS]
    own, given = data_of(of_graph), baselines.item_data(of_graph, X, None)
    assert own is not None
    assert given.links is own.links
    assert given.table is not own.table


@pytest.mark.parametrize("loaded", [False, True])
def test_a_model_of_recipes_has_a_table(loaded: bool, tmp_path: Any) -> None:
    options: Any = {"constraint": "nonnegative", "rho": 1e-3, "rule": "class-mean"}
    one = MetricMixtureClassifier(["euclidean"], **options).fit(X, KNOWN)
    if loaded:
        mm.save(one, tmp_path / "model.mm")
        one = mm.load(tmp_path / "model.mm")
    names = [m.name for m in one.compare(n_splits=2).methods]
    assert "1-NN on the table" in names
    assert "label propagation over near rows of the table" in names
    assert "1-NN on the best source" not in names  # it is the same table


def test_sparse_edges_have_rivals() -> None:
    dense = mm.DissimilarityStack({"size": features(X)})
    ends = np.triu_indices(N, 1)
    sparse = mm.EdgeStack.of(dense, mm.dissimilarity.EdgeSet(N, *ends))
    found = fitted(sparse).compare(n_splits=2, graph=GRAPH)
    names = [m.name for m in found.methods]
    assert {"1-NN on the best source", "label propagation over the links"} <= set(names)


PARTS = [0, -1, -1, 1, 0, 1]


def in_two_parts(n: int = 6, gaps: tuple[int, ...] = (3,)) -> mm.EdgeStack:
    """Return a path of n items without some of its edges."""
    tails = np.array([i for i in range(n - 1) if i not in gaps])
    lengths = np.linspace(1.0, 2.0, len(tails))
    edges = mm.dissimilarity.EdgeSet(n, tails, tails + 1)
    return mm.EdgeStack(edges, np.stack([lengths, lengths[::-1]]), ["one", "two"])


@pytest.mark.parametrize("rule", ["nearest", KNearest(1), KNearest(1, weights="distance")])
@pytest.mark.parametrize("n_splits", [2, 4])
def test_items_are_judged_by_those_that_they_reach(rule: Any, n_splits: int) -> None:
    model = MetricMixtureClassifier(rule=rule, objective=None).fit(in_two_parts(), PARTS)
    found = model.compare(n_splits=n_splits)
    assert found.answers.sum(axis=-1) == pytest.approx(1.0)
    place = {item: k for k, item in enumerate(model.known_.items.tolist())}
    for known, test in folds_of(model, n_splits):
        for i in test.tolist():  # at most one other label in its part
            votes = np.bincount([PARTS[j] for j in known.items if (j < 4) == (i < 4)], minlength=2)
            expected = votes if votes.any() else [0.5, 0.5]
            assert found.answers[0, place[i]] == pytest.approx(expected)


def test_neighbours_that_are_not_reached_do_not_vote() -> None:
    y = [0, 0, 1, 1, 0, 0, 1, 1]
    stack = in_two_parts(8, (3,))
    model = MetricMixtureClassifier(rule=KNearest(4), objective=None).fit(stack, y)
    found = model.compare(n_splits=8)
    for k, p in enumerate(found.answers[0]):  # by the three others of its part
        assert p[y[k]] == pytest.approx(1 / 3)


def test_targets_that_no_known_item_reaches_get_the_median() -> None:
    y = np.array([1.0, 8.0, 2.0, 16.0, 4.0, 32.0])  # folds hold out the two of a part
    rule = mm.estimators.NearestMean(1)
    model = mm.MetricMixtureRegressor(rule=rule, objective=None)
    model.fit(in_two_parts(6, (1, 3)), y)
    found = model.compare(n_splits=3)
    for known, test in folds_of(model, 3):
        assert len({i // 2 for i in test.tolist()}) == 1
        assert found.answers[0, test] == pytest.approx(np.median(known.y))


def test_a_table_is_aligned_by_ids() -> None:
    pandas = pytest.importorskip("pandas")
    ids = [f"item {k}" for k in range(N)]
    stack = mm.DissimilarityStack(
        dict(zip(STACK.names, STACK.raw_rows(np.arange(N)), strict=True)), items=ids
    )
    model = MetricMixtureClassifier(stack, constraint="nonnegative", rho=1e-3).fit(ids, KNOWN)
    frame = pandas.DataFrame(X, index=ids)
    one = model.compare(features=frame)
    other = model.compare(features=frame.iloc[::-1])
    for kind in ("1-nn", "logistic", "svc", "propagation", "forest"):
        assert np.array_equal(one[kind].predictions, other[kind].predictions)
    with pytest.raises(InputError, match="features: expected 60 rows, one per item, got 59"):
        model.compare(features=X[1:])


def test_many_labels_are_sampled_and_named(monkeypatch: Any) -> None:
    monkeypatch.setattr(baselines, "LEARNED_FROM", 20)
    found = fitted().compare(features=X)
    assert found.how.endswith(
        "1-NN, logistic regression and support vectors learn from 20 of the 36 labels"
    )
    assert found["logistic"].predictions.shape == (1, 36)


def test_label_propagation_without_links_stops_at_many_items(monkeypatch: Any) -> None:
    monkeypatch.setattr(baselines, "SEARCHED_UP_TO", 50)
    found = fitted().compare(features=X)
    assert "propagation" not in [m.kind for m in found.methods]
    assert "label propagation was not compared" in found.how


def test_categories_and_texts() -> None:
    words = np.array([["red apple pie"], ["steel saw blade"], ["soft wool coat"]])[Y, 0]
    texts = [f"{word} {k}" for k, word in enumerate(words)]
    table = np.column_stack([X.round(1).astype(object), np.array(list("abc"))[Y], texts])
    found = fitted().compare(features=table, n_splits=3)
    for kind in ("1-nn", "logistic", "svc"):
        assert found[kind].mean == 1.0


# -- the verdict -----------------------------------------------------------------------------------


TASK = Classes(np.arange(2))
NOTHING: Any = np.empty((1, 0))


def method_of(kind: str, scores: Any, predictions: Any = NOTHING, labels: Any = None) -> Method:
    errors = NOTHING if labels is None else TASK.errors(predictions, labels)
    return Method(kind, kind, np.array(scores), float(np.mean(scores)), 0.0, predictions, errors)


def of_methods(methods: Any, labels: Any = NOTHING[0], n_splits: int = 4) -> Comparison:
    return Comparison(
        tuple(methods), "", TASK, NOTHING, labels, labels, {}, NOTHING, n_splits, n_repeats=1
    )


def comparison_of(**scores: list[float]) -> Comparison:
    """A comparison with these accuracies by fold; the last method always predicts one class."""
    floor = method_of("most-frequent", scores.pop("most-frequent", [0.0] * 4))
    methods = [method_of(kind, by_fold) for kind, by_fold in scores.items()]
    sources = [replace(methods[0], name=name, kind="single", mean=1.0) for name in "ab"]
    return of_methods([*methods, *sources, floor])


def test_better_is_more_than_one_standard_error_of_the_paired_difference() -> None:
    learned, other = [0.8, 0.6, 0.9, 0.7], [0.9, 0.7, 0.9, 0.8]
    found = comparison_of(learned=learned, logistic=other, svc=[0.9, 0.5, 1.0, 0.6]).verdict
    assert found.status == "behind"
    assert found.rival.kind == "logistic"
    gains = np.subtract(learned, other)
    assert found.gain == pytest.approx(gains.mean())
    assert found.standard_error == pytest.approx(gains.std(ddof=1) / 2)
    assert str(found) == (
        "simpler is better here: accuracy on held-out labels is 82.5 % with logistic, 75.0 % with "
        "the learned metric (7.5 ± 2.5 points over 4 folds); predict with it, and use the metric "
        "for what needs distances"
    )
    assert found.to_record()["sentence"] == str(found)


def test_what_may_be_chance_is_not_called_better() -> None:
    learned, other = [0.8, 0.6, 0.9, 0.7], [0.9, 0.7, 0.9, 0.7]
    found = comparison_of(learned=learned, **{"best-single": other}).verdict
    assert found.status == "behind"
    assert str(found).startswith("simpler may be better: ")
    assert str(found).endswith("; label more items to be sure, or leave out the other sources")


def test_folds_that_agree_by_chance_do_not_shrink_the_error() -> None:
    """The same gain in all folds of 20 items, on 6 items: at most sqrt(6) / 20 of them."""
    labels = np.zeros(20, int)
    learned = labels.copy()
    other = np.where(np.arange(20) % 10 < 3, 1, 0)
    floor = np.ones(20, int)
    answers = {"learned": learned, "equal": other, "most-frequent": floor}
    methods = [
        method_of(kind, np.full(2, np.mean(found == labels)), found[None], labels)
        for kind, found in answers.items()
    ]
    found = of_methods(methods, labels, n_splits=2).verdict
    assert found.standard_error == 0.0
    assert found.error == pytest.approx(np.sqrt(6) / 20)
    assert found.status == "ahead"
    assert "(30.0 ± 12.2 points over 2 folds)" in str(found)


def test_a_metric_that_only_guesses_is_called_so() -> None:
    guess = [0.5, 0.5, 0.5, 0.5]
    methods = {"learned": [0.5, 0.5, 0.4, 0.5], "equal": [0.6, 0.6, 0.6, 0.5]}
    found = comparison_of(**methods, **{"most-frequent": guess}).verdict
    assert "; it is not clearly better than always predicting the most frequent class, 50.0 %;" in (
        str(found)
    )
    better = comparison_of(**methods, **{"most-frequent": [0.1, 0.1, 0.2, 0.1]}).verdict
    assert "most frequent" not in str(better)


def test_ties_are_called_ties() -> None:
    found = comparison_of(learned=[0.8, 0.6, 0.9, 0.7], equal=[0.9, 0.7, 0.8, 0.7]).verdict
    assert found.status == "tie"
    assert str(found).startswith(
        "no clear difference: accuracy on held-out labels is 75.0 % with the learned"
    )
    same = comparison_of(learned=[0.5, 0.5, 0.5, 0.5], equal=[0.5, 0.5, 0.5, 0.5]).verdict
    assert (same.status, same.gain) == ("tie", 0.0)


def test_a_tie_says_which_way_and_what_to_do() -> None:
    learned = [0.8, 0.6, 0.9, 0.7]
    found = comparison_of(learned=learned, equal=[0.9, 0.7, 0.8, 0.7]).verdict
    assert str(found).endswith(
        "(2.5 ± 4.8 points lower over 4 folds); equal weights are simpler: label more items if the "
        "weights matter"
    )
    found = comparison_of(learned=learned, logistic=[0.9, 0.5, 0.8, 0.7]).verdict
    assert str(found).endswith(
        "points higher over 4 folds); logistic is simpler: label more items to be sure of the gain"
    )
    found = comparison_of(learned=learned, **{"best-single": learned}).verdict
    assert "(0.0 ± 0.0 points over 4 folds); one source is simpler: if only labels" in str(found)


@pytest.mark.parametrize(
    ("wrong", "status"), [(0, "tie"), (1, "tie"), (2, "behind"), (9, "behind")]
)
def test_a_gap_in_one_fold_counts_by_its_items(wrong: int, status: str) -> None:
    labels = np.zeros(40, int)
    answers = {"learned": labels.copy(), "logistic": labels}
    answers["most-frequent"] = np.ones(40, int)
    answers["learned"][:wrong] = 1  # all in the first of four folds
    methods = []
    for kind, predicted in answers.items():
        by_fold = (predicted == labels).reshape(4, 10).mean(axis=1)
        methods.append(method_of(kind, by_fold, predicted[None], labels))
    found = of_methods(methods, labels)
    assert found.verdict.gain == pytest.approx(-found.verdict.standard_error)
    assert found.verdict.status == status


def test_a_gain_within_two_standard_errors_is_not_claimed() -> None:
    found = comparison_of(learned=[0.9, 0.8, 0.8, 0.8], equal=[0.7, 0.7, 0.8, 0.9]).verdict
    assert 0 < found.gain < 2 * found.standard_error
    assert found.status == "tie"


def test_where_nothing_was_learned_equal_weights_are_compared() -> None:
    found = comparison_of(learned=[0.5] * 4, equal=[0.5] * 4, logistic=[0.9] * 4)
    told = replace(found, nothing_learned=True).verdict
    assert told.rival.kind == "logistic"
    assert "50.0 % with equal weights (" in str(told)


def test_the_best_single_source_is_named() -> None:
    found = comparison_of(learned=[0.5] * 4, **{"best-single": [0.9] * 4})
    told = replace(found, chosen={"words": 1, "links": 3}).verdict
    assert "with the best-single ('links' in most folds)" in str(told)


def test_the_learned_metric_is_best() -> None:
    found = comparison_of(learned=[0.9] * 4, equal=[0.7] * 4, logistic=[0.8, 0.8, 0.9, 0.8])
    assert found.verdict.status == "ahead"
    assert found.verdict.rival.kind == "logistic"
    assert (
        "the learned metric is best: accuracy on held-out labels is 90.0 %"
        in str(found).splitlines()[0]
    )


@pytest.mark.parametrize(
    ("kind", "advice"),
    [("equal", "a larger rho"), ("most-frequent", "check both"), ("1-nn", "rule 'nearest'")],
)
def test_what_to_do(kind: str, advice: str) -> None:
    found = comparison_of(learned=[0.5] * 4, **{kind: [0.9] * 4}).verdict
    assert advice in str(found)


def test_one_source_is_no_rival_of_itself() -> None:
    found = fitted(mm.DissimilarityStack({"size": features(X)})).compare(n_splits=2)
    assert found.verdict.rival.kind not in ("equal", "best-single")


def test_a_directed_stack_of_matrices_has_rivals() -> None:
    sources = random_sources(np.random.default_rng(0), N, 1, directed=True)
    found = fitted(mm.DissimilarityStack(sources, directed=True)).compare(features=X)
    assert found.verdict.status == "behind"
    assert found.verdict.rival.kind in ("1-nn", "logistic", "svc", "propagation")


def test_a_search_compares_its_best_estimator() -> None:
    search = mm.MetricMixtureClassifierCV(STACK, rhos=(1e-3,), rules=("class-mean",)).fit(
        None, KNOWN
    )
    found = search.compare(features=X, n_splits=3)
    assert found.how.endswith("; rule and rho were chosen on all labels, these included")
    plain = search.best_estimator_.compare(features=X, n_splits=3)
    assert np.array_equal(found["learned"].predictions, plain["learned"].predictions)


# -- no peeking ----------------------------------------------------------------------------------


def test_the_best_source_is_not_chosen_by_what_is_held_out() -> None:
    """Among many sources that know nothing one looks good afterwards; nobody knows beforehand."""
    afterwards, honest = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.arange(24) % 2)
        noise = {f"noise {r}": features(rng.normal(size=(24, 2))) for r in range(30)}
        found = fitted(mm.DissimilarityStack(noise), y).compare()
        afterwards.append(max(method.mean for method in found.sources))
        honest.append(found["best-single"].mean)
    assert min(afterwards) > 0.66
    assert 0.3 < np.mean(honest) < 0.65
    assert np.mean(afterwards) > np.mean(honest) + 0.1


def test_a_source_that_knows_only_the_rest_is_never_chosen_by_it() -> None:
    """One source tells classes apart among half of the items, the other among the other half.

    With these halves as folds, the better one for what is held out is the worse one in training.
    """
    y, ids = np.arange(40) % 2, [f"item {k}" for k in range(40)]  # folds are dealt by these
    rng = np.random.default_rng(0)
    any_stack = mm.DissimilarityStack([features(rng.normal(size=(40, 1)))], items=ids)
    sources = {}
    for name, (known, _) in zip(
        ("first", "second"), folds_of(fitted(any_stack, y), 2), strict=True
    ):
        place = rng.normal(size=(40, 1))
        place[known.items] += 20 * known.y[:, None]
        sources[name] = features(place)
    stack = mm.DissimilarityStack(sources, items=ids)
    found = fitted(stack, y, rule="nearest").compare(n_splits=2)
    by_fold = np.array([method.scores for method in found.sources])
    assert found.chosen == {"first": 1, "second": 1}
    assert found["best-single"].scores.tolist() == [by_fold[0, 0], by_fold[1, 1]]
    assert found["best-single"].mean < by_fold.max(axis=0).mean()


def test_labels_of_held_out_items_do_not_reach_the_weights() -> None:
    model = fitted()
    found = model.compare(n_splits=3)
    for f, (known, _) in enumerate(folds_of(model, 3)):
        assert np.array_equal(found.weights[f], refit(model, KNOWN, known.items).weights_)


# -- few labels ----------------------------------------------------------------------------------


def few(*labels: int) -> NDArray[np.int64]:
    y = np.full(N, -1)
    y[: len(labels)] = labels
    return y


@pytest.mark.parametrize("rule", RULES)
def test_two_classes_of_two(rule: str) -> None:
    found = fitted(y=few(0, 0, 1, 1), rule=rule).compare()
    assert found.n_splits == 4
    assert found.confusion.sum() == 4
    assert found["learned"].scores.shape == (4,)
    assert set(found["learned"].scores) <= {0.0, 1.0}
    assert found["most-frequent"].mean == 0.5
    assert found.how == (
        "4 folds over 4 labelled items; held-out items stay in the metric, unlabelled"
    )


def test_where_nothing_can_be_learned_weights_stay_equal() -> None:
    found = fitted(y=few(0, 0, 1, 1)).compare(n_splits=2)
    assert found.weights == pytest.approx(np.full((2, 3), 4 / 3))
    assert np.array_equal(found["learned"].predictions, found["equal"].predictions)
    assert found.how.endswith(
        "in 2 of 2 folds there were too few labels to learn from, and weights stayed equal"
    )


@pytest.mark.parametrize("rule", RULES)
def test_a_class_with_a_single_item(rule: str) -> None:
    found = fitted(y=few(0, 0, 0, 0, 1, 1, 1, 1, 2), rule=rule).compare(n_splits=3)
    assert found.confusion[2, 2] == 0
    assert found.confusion.sum(axis=1).tolist() == [4, 4, 1]
    assert "1 class has a single labelled item, which no method can get right" in found.how


def test_one_class_left_in_a_fold() -> None:
    found = fitted(y=few(0, 0, 1)).compare()
    assert found.n_splits == 3
    assert "in 3 of 3 folds there were too few labels" in found.how
    assert found.confusion[1].tolist() == [1, 0]


def test_one_source() -> None:
    stack = mm.DissimilarityStack({"size": features(X)})
    found = fitted(stack).compare(n_splits=2)
    assert found.chosen == {"size": 2}
    for method in (found["equal"], found["best-single"]):
        assert np.array_equal(method.predictions, found.sources[0].predictions)


# -- refusals ------------------------------------------------------------------------------------


def test_what_cannot_be_compared() -> None:
    with pytest.raises(NotFittedError):
        MetricMixtureClassifier(STACK).compare()
    with pytest.raises(NotFittedError):
        mm.MetricMixtureClassifierCV(STACK).compare()
    with pytest.raises(InputError, match="objective: expected a name or a function"):
        fitted(objective=mm.objectives.LabelContrast(KNOWN)).compare()
    with pytest.raises(InputError, match="n_splits: expected a whole number >= 2"):
        fitted().compare(n_splits=1)
    with pytest.raises(InputError, match="n_repeats"):
        fitted().compare(n_repeats=0)
    with pytest.raises(InputError, match=r"model: expected at least 3 known labels.* found 2"):
        fitted(y=few(0, 1), objective=None).compare()

    def wants_all(codes: Any) -> Any:
        if (codes >= 0).sum() < 36:
            raise InputError("too few")
        return mm.objectives.LabelContrast(codes)

    with pytest.raises(InputError, match="model: a training set cannot be used; too few"):
        fitted(objective=wants_all).compare()


def test_a_loaded_model(tmp_path: Any) -> None:
    model = fitted()
    mm.save(model, tmp_path / "model.mm")
    one, two = model.compare(), mm.load(tmp_path / "model.mm").compare()
    assert np.array_equal(one["learned"].predictions, two["learned"].predictions)

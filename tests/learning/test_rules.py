"""Each prediction rule against its definition on the full metric."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier

import metricmix as mm
from metricmix.dissimilarity import knn_path_length
from metricmix.dissimilarity.known import Known
from metricmix.estimators import MetricMixture, MetricMixtureClassifier
from metricmix.learning.rules import (
    CLASS_RULES,
    ClassMean,
    FittedRule,
    KNearest,
    Logistic,
    Nearest,
    Rule,
    Spreading,
    as_rule,
)
from metricmix.learning.rules.nearest import NEAREST_CLASSES
from reference import prediction_rules as slow
from reference.instances import random_sources
from reference.models import classifier

N, M = 30, 8
WEIGHTS = mm.Mixture([2.0, -0.6], beta=4.0)
RNG = np.random.default_rng(5)
Y = RNG.integers(0, 3, N)
Y[:6] = [0, 0, 1, 1, 2, 2]
Y[14:] = -1
Y = RNG.permutation(Y)
LABELLED = np.flatnonzero(Y >= 0)
CLASSES = [0, 1, 2]
RULES = CLASS_RULES.names()
pytestmark = pytest.mark.filterwarnings("ignore::metricmix.exceptions.ProjectionWarning")


def with_neighbours(name: str, k: int) -> Rule:
    rule: Any = as_rule(name)
    if isinstance(rule, Logistic):
        return Logistic(C=100.0)  # as certain as the few labels of a test are
    return replace(rule, n_neighbors=k) if hasattr(rule, "n_neighbors") else rule


class Case:
    """A stack of n items and M more, all of one kind, with the metric of everything."""

    def __init__(self, *, directed: bool = False, seed: int = 0, n: int = N, M: int = M) -> None:
        sources = random_sources(np.random.default_rng(seed), n + M, 2, directed=directed)
        self.stack = mm.DissimilarityStack([S[:n, :n] for S in sources], directed=directed)
        self.rows = np.stack([S[n:, :n] for S in sources], axis=-1)
        w = mm.mixture.edge_lengths(self.stack.rescaled("mean"), WEIGHTS).matrix()
        self.objective = mm.objectives.LeastSquares(w)

    def fit(self, y: Any = Y, **options: Any) -> MetricMixtureClassifier:
        signed = {"constraint": None, "projection": False}
        options = {"objective": self.objective, "beta": WEIGHTS.beta, **signed, **options}
        model = classifier(**options).fit(self.stack, y)
        if model.objective is self.objective:
            assert model.weights_ == pytest.approx(WEIGHTS.weights, rel=1e-3)
        return model

    def distances(self, model: Any) -> tuple[Any, Any]:
        """The metric among the items, and from the new ones, by the definition."""
        w = mm.mixture.edge_lengths(model.stack_, model.mixture_).matrix()
        d = mm.project(w, directed=self.stack.directed)
        m = self.rows @ model.mixture_.raw_weights(model.stack_)
        edges = np.logaddexp(0.0, 4.0 * m) / 4.0
        return d, np.array([(row[:, None] + d).min(axis=0) for row in edges])


CASES = {"symmetric": Case(), "directed": Case(directed=True)}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@each_case
def test_nearest(case: Case) -> None:
    model = case.fit(rule="nearest")
    for d, p in zip(case.distances(model), answers(model, case), strict=True):
        expected = [slow.nearest(row[LABELLED], Y[LABELLED], CLASSES) for row in d]
        assert p == pytest.approx(np.array(expected), rel=1e-9)
    d, _ = case.distances(model)
    assert np.array_equal(model.transduction_, Y[LABELLED[d[:, LABELLED].argmin(axis=1)]])


def test_the_nearest_class_wins_however_near_all_are() -> None:
    # Weights of noise may be negative, and all lengths tiny.
    case = CASES["directed"]
    model = case.fit(rule="nearest", objective="class-means", rho=1e-4, shrink_to="zero")
    d, _ = case.distances(model)
    assert d.max() < 1e-16
    assert np.array_equal(model.transduction_, Y[LABELLED[d[:, LABELLED].argmin(axis=1)]])


@each_case
@pytest.mark.parametrize("k", [1, 3, 7, 99])
@pytest.mark.parametrize("vote", ["uniform", "distance"])
def test_k_nearest_is_that_of_scikit_learn_on_the_metric(case: Case, k: int, vote: str) -> None:
    model = case.fit(rule=KNearest(k, vote))
    peer = KNeighborsClassifier(
        min(k, len(LABELLED)), metric="precomputed", weights=vote, algorithm="brute"
    )
    d, new = case.distances(model)
    peer.fit(np.zeros((len(LABELLED), len(LABELLED))), Y[LABELLED])
    for rows, p in zip((d, new), answers(model, case), strict=True):
        assert p == pytest.approx(peer.predict_proba(rows[:, LABELLED]), rel=1e-9, abs=1e-12)


def test_votes_that_are_equal_go_to_the_nearer_class() -> None:
    d, y = np.array([[1.0, 2.0, 3.0, 4.0, 9.0]]), np.array([1, 0, 0, 1, 2])
    for names in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        codes = np.array(names)[y]
        p = KNearest(4).from_distances(d, codes, np.zeros((5, 5)), 3, None)
        assert p.argmax(axis=1) == codes[0]
        assert p[0, codes[[0, 1]]] == pytest.approx(0.5, rel=1e-12)


def test_k_nearest_by_way_of_the_transformer() -> None:
    case = CASES["symmetric"]
    y = np.arange(N) % 3
    metric = MetricMixture(constraint=None, projection=False, objective=case.objective, beta=4.0)
    peer = KNeighborsClassifier(4, metric="precomputed").fit(metric.fit_transform(case.stack, y), y)
    model = case.fit(y, rule=KNearest(4))
    assert model.predict_proba(case.rows) == pytest.approx(
        peer.predict_proba(metric.transform(case.rows))
    )


@each_case
def test_class_mean(case: Case) -> None:
    model = case.fit(rule="class-mean")
    d, new = case.distances(model)
    within = d[np.ix_(LABELLED, LABELLED)]
    for rows, p in zip((d, new), answers(model, case), strict=True):
        expected = [slow.class_mean(r[LABELLED], within, Y[LABELLED], CLASSES) for r in rows]
        assert p == pytest.approx(np.array(expected), rel=1e-8)


@pytest.mark.parametrize("alpha", [0.3, 0.8])
def test_spreading(alpha: float) -> None:
    case, k = Case(n=14, seed=2), 3
    y = np.array([0, 0, 1, 1, 0, 1, *[-1] * 8])
    model = case.fit(y, rule=Spreading(k, alpha))
    d, new = case.distances(model)
    order = np.argsort(d + np.diag(np.full(14, np.inf)), axis=1)[:, :k]
    sigma = np.median(np.take_along_axis(d, order, axis=1)[:, -1])
    ties = np.zeros((14, 14))
    for i in range(14):
        for j in order[i]:
            ties[i, j] = ties[j, i] = np.exp(-((d[i, j] / sigma) ** 2))
    p = np.array(slow.spread(ties.tolist(), y, [0, 1], alpha, steps=300))
    p /= p.sum(axis=1, keepdims=True)
    assert model.learned_.answers == pytest.approx(p, abs=2e-3)
    near = np.argsort(new, axis=1)[:, :k]
    for x, row in enumerate(model.predict_proba(case.rows)):
        pull = np.exp(-(((new[x, near[x]] - new[x, near[x, 0]]) / sigma) ** 2))
        expected = pull @ model.learned_.answers[near[x]] / pull.sum()
        assert row == pytest.approx(expected, rel=1e-6)


def test_spreading_gives_lost_items_the_nearest_class() -> None:
    # Three far groups; no label in the last, which is nearer to class 1.
    place = np.concatenate([np.arange(4) * 0.1, 10 + np.arange(4) * 0.1, 16 + np.arange(5) * 0.1])
    y = np.array([0, 0, -1, -1, 1, 1, -1, -1, *[-1] * 5])
    stack = mm.DissimilarityStack([abs(place[:, None] - place)])
    model = classifier(rule=Spreading(2), beta=9.0).fit(stack, y)
    assert model.transduction_.tolist() == [0] * 4 + [1] * 9
    near = classifier(rule="nearest", beta=9.0).fit(stack, y)
    assert model.learned_.answers[8:] == pytest.approx(near.learned_.answers[8:])


@pytest.mark.parametrize("rule", RULES)
def test_probabilities(rule: str) -> None:
    for case in CASES.values():
        model = case.fit(rule=rule)
        for p in answers(model, case):
            assert p.sum(axis=1) == pytest.approx(1.0)
            assert (p >= 0).all()
        p = model.predict_proba(case.rows)
        assert np.array_equal(model.predict(case.rows), model.classes_[p.argmax(axis=1)])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("directed", [False, True])
def test_labelled_items_keep_their_labels(rule: str, directed: bool) -> None:
    rng = np.random.default_rng(0)
    sources = random_sources(rng, N, 2, directed=directed)
    noise = np.where(rng.random(N) < 0.5, -1, rng.integers(0, 3, N))
    stack = mm.DissimilarityStack(sources, directed=directed)
    model = classifier(rule=rule).fit(stack, noise)
    known = noise >= 0
    assert np.array_equal(model.transduction_[known], noise[known])
    assert np.array_equal(
        model.transduction_[~known], model.learned_.answers[~known].argmax(axis=1)
    )


LABELS = {
    "ints": (np.array([0, 1, -1]), np.int64),
    "other ints": (np.array([-7, 40, -1], dtype=np.int32), np.int32),
    "floats": (np.array([2.0, 5.0, -1.0]), np.float64),
    "texts": (np.array(["tea", "milk", ""]), "U"),
    "texts with -1": (np.array(["tea", "milk", "-1"]), "U"),
    "objects": (np.array(["tea", "milk", ""], dtype=object), object),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("rule", RULES)
def test_labels_of_any_type(kind: str, rule: str) -> None:
    values, dtype = LABELS[kind]
    codes = np.where(Y == 2, 1, Y)
    y = values[codes]
    model = CASES["symmetric"].fit(y, rule=rule)
    ranks = np.append(np.argsort(np.argsort(values[:2])), -1)
    plain = CASES["symmetric"].fit(ranks[codes], rule=rule)
    assert model.classes_.tolist() == sorted(values[:2].tolist())
    predicted = model.predict(CASES["symmetric"].rows)
    for found in (model.classes_, model.transduction_, predicted):
        assert found.dtype.kind == np.dtype(dtype).kind
    assert np.array_equal(model.classes_[plain.transduction_], model.transduction_)
    assert np.array_equal(model.transduction_[codes >= 0], y[codes >= 0])


def test_boolean_labels_have_no_unlabelled() -> None:
    y = np.arange(N) % 2 == 0
    model = CASES["symmetric"].fit(y)
    assert model.classes_.tolist() == [False, True]
    assert model.transduction_.dtype == bool
    assert np.array_equal(model.transduction_, y)


@pytest.mark.parametrize("rule", RULES)
def test_an_item_of_the_fit_is_predicted_as_such(rule: str) -> None:
    case = CASES["symmetric"]
    model = case.fit(rule=rule)
    assert model.predict_proba(case.stack) == pytest.approx(model.learned_.answers, abs=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_probabilities_rank_well(rule: str) -> None:
    X, y = make_blobs(150, 4, centers=2, cluster_std=5.0, random_state=1)
    known = np.where(np.arange(150) < 60, y, -1)
    model = classifier(["euclidean", "cityblock"], rule=rule).fit(X, known)
    assert roc_auc_score(y[60:], model.learned_.answers[60:, 1]) > 0.85
    new, answers = make_blobs(400, 4, centers=2, cluster_std=5.0, random_state=1)
    assert roc_auc_score(answers[150:], model.predict_proba(new[150:])[:, 1]) > 0.85


def test_spreading_follows_the_shape_of_the_data() -> None:
    X, y = make_moons(200, noise=0.06, random_state=0)
    known = np.full(200, -1)
    for c in (0, 1):
        known[np.flatnonzero(y == c)[:4]] = c
    sources = ["euclidean", knn_path_length(k=6)]
    model = classifier(sources, rule="spreading").fit(X, known)
    assert np.mean(model.transduction_ == y) > 0.95


@pytest.mark.parametrize("rule", RULES)
def test_many_classes(rule: str) -> None:
    rng = np.random.default_rng(0)
    C = 3 * NEAREST_CLASSES
    centres = 20 * rng.normal(size=(C, 3))
    X = np.repeat(centres, 3, axis=0) + 0.1 * rng.normal(size=(3 * C, 3))
    y = np.repeat(np.arange(C), 3)
    known = np.where(np.arange(3 * C) % 3 == 2, -1, y)
    model = classifier(["euclidean"], rule=with_neighbours(rule, 2)).fit(X, known)
    assert np.mean(model.transduction_ == y) > 0.95
    p = model.predict_proba(centres + 0.01)
    assert p.shape == (C, C)
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert np.mean(p.argmax(axis=1) == np.arange(C)) > 0.95


@pytest.mark.parametrize("rule", RULES)
def test_a_class_of_one_item(rule: str) -> None:
    y = np.full(N, -1)
    y[:5] = [0, 0, 1, 1, 2]
    model = CASES["symmetric"].fit(y, rule=rule)
    assert model.transduction_[4] == 2
    assert model.predict_proba(CASES["symmetric"].rows).shape == (M, 3)


def test_a_class_that_no_item_has_is_no_class_of_any() -> None:
    M = random_sources(np.random.default_rng(1), 6, 1)[0]
    codes = np.array([0, 2, -1, -1, -1, -1])
    lengths = mm.mixture.edge_lengths(mm.DissimilarityStack([M]), [1.0])
    p = FittedRule(Nearest(), lengths, Known(codes, 3)).of_items
    assert p[:2].argmax(axis=1).tolist() == [0, 2]
    assert (p[:, 1] == 0).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("source", ["zero", "constant", "equal rows"])
def test_sources_that_tell_nothing(rule: str, source: str) -> None:
    X = np.random.default_rng(0).normal(size=(N, 2))
    matrices = {
        "zero": [np.zeros((N, N))],
        "constant": [1.0 - np.eye(N)],
        "equal rows": [mm.dissimilarity.features(np.repeat(X[:10], 3, axis=0))],
    }
    stack = mm.DissimilarityStack([*matrices[source], *matrices["zero"]])
    model = classifier(rule=rule).fit(stack, Y)
    assert np.array_equal(model.transduction_[LABELLED], Y[LABELLED])
    p = model.predict_proba(stack)
    assert p.sum(axis=1) == pytest.approx(1.0)


def answers(model: MetricMixtureClassifier, case: Case) -> tuple[Any, Any]:
    """Class probabilities of the items of the stack, and of the new ones."""
    return model.learned_.answers, model.predict_proba(case.rows)


# -- rules as parameters ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", RULES)
def test_a_name_is_a_rule_with_default_settings(name: str) -> None:
    case = CASES["symmetric"]
    one, two = case.fit(rule=name), case.fit(rule=CLASS_RULES[name]())
    assert np.array_equal(one.predict_proba(case.rows), two.predict_proba(case.rows))


def test_rules_are_values() -> None:
    assert KNearest(3) == KNearest(3) != KNearest(3, "distance")
    assert len({KNearest(3), KNearest(3), Spreading(3)}) == 2
    assert repr(Spreading(alpha=0.5)) == "Spreading(n_neighbors=5, alpha=0.5)"
    with pytest.raises(FrozenInstanceError):
        KNearest(3).n_neighbors = 5  # type: ignore[misc]


def test_nested_parameters() -> None:
    rule = KNearest(3)
    model = classifier(rule=rule)
    params = model.get_params()
    assert params["rule"] is rule
    assert params["rule__n_neighbors"] == 3
    assert not any("__" in name for name in model.get_params(deep=False))
    assert "rule__n_neighbors" not in classifier(rule="k-nearest").get_params()
    model.set_params(rule__n_neighbors=7, rule__weights="distance", rho=0.5)
    assert (model.rule, model.rho) == (KNearest(7, "distance"), 0.5)
    assert rule == KNearest(3)
    model.set_params(rule=Spreading(), rule__alpha=0.3)
    assert model.rule == Spreading(alpha=0.3)
    copied = clone(model)
    assert copied.rule == model.rule
    with pytest.raises(ValueError, match="Invalid parameter 'rules'"):
        model.set_params(rules=3)


def test_a_fit_is_not_changed_by_its_parameters() -> None:
    case = CASES["symmetric"]
    model = case.fit(rule=KNearest(3))
    before = model.predict_proba(case.rows)
    model.set_params(rule__n_neighbors=1)
    assert np.array_equal(model.predict_proba(case.rows), before)
    expected = case.fit(rule=KNearest(1)).predict_proba(case.rows)
    assert np.array_equal(model.fit(case.stack, Y).predict_proba(case.rows), expected)


def test_searches_over_rules() -> None:
    X, y = make_blobs(60, 3, centers=3, cluster_std=4.0, random_state=0)
    model = classifier(["euclidean"], rule=KNearest())
    search = GridSearchCV(model, {"rule": ["class-mean", KNearest(1), KNearest(9)]}, cv=3).fit(X, y)
    assert search.best_params_["rule"] in ("class-mean", KNearest(1), KNearest(9))
    nested = GridSearchCV(model, {"rule__n_neighbors": [1, 9]}, cv=3).fit(X, y)
    assert nested.best_estimator_.rule == KNearest(nested.best_params_["rule__n_neighbors"])
    scores = [found.cv_results_["mean_test_score"] for found in (search, nested)]
    assert np.array_equal(scores[0][1:], scores[1])


@dataclass(frozen=True)
class Settings:
    """A solver object, as `minimize` takes it."""

    tol: float = 1e-6


def test_a_solver_object_reaches_minimize(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def minimize(objective: Any, stack: Any, method: Any, **options: Any) -> Any:
        seen.append(method)
        return mm.minimize(objective, stack, "full", **options)

    monkeypatch.setattr("metricmix.learning.learn.minimize", minimize)
    model = classifier(method=Settings()).set_params(method__tol=1e-3)
    model.fit(CASES["symmetric"].stack, Y)
    assert seen == [Settings(1e-3)]
    assert model.get_params()["method__tol"] == 1e-3


def test_logistic_is_a_regression_on_centred_distances() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    within, d = rng.random((12, 12)), rng.random((5, 12))
    within += within.T
    codes = np.arange(12) % 3
    centring = np.eye(12) - 1 / 12
    g = -0.5 * centring @ within @ centring
    new = -0.5 * (d - within.mean(axis=0)) @ centring
    scale = np.sqrt((g**2).sum(axis=1).mean())
    model = LogisticRegression(C=2.0, max_iter=1000).fit(g / scale, codes)
    p = Logistic(C=2.0).from_distances(d, codes, within, 4, None)
    assert p[:, :3] == pytest.approx(model.predict_proba(new / scale), abs=1e-3)
    assert not p[:, 3].any()
    with pytest.raises(mm.InputError, match="C: expected"):
        Logistic(C=0.0)


# -- class priors and self-training ---------------------------------------------------------------


def two_groups(n: int = 400, share: float = 0.1, seed: int = 0) -> tuple[Any, Any, Any]:
    """Two overlapping groups, one rare, with as many labels of each."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    X = rng.normal(size=(n, 2)) + 2.0 * y[:, None]
    known = np.full(n, -1)
    for c in (0, 1):
        few = np.flatnonzero(y == c)[:15]
        known[few] = c
    return X, y, known


@pytest.mark.parametrize("rule", [ClassMean, Logistic])
def test_priors_move_labels_to_the_common_class(rule: Any) -> None:
    X, y, known = two_groups()
    unlabelled = known < 0
    shares, right = [], []
    for priors in (None, (0.9, 0.1), "estimated"):
        model = classifier(["euclidean"], rule=rule(priors=priors)).fit(X, known)
        shares.append(np.mean(model.transduction_[unlabelled] == 1))
        right.append(np.mean(model.transduction_[unlabelled] == y[unlabelled]))
    assert shares[1] < shares[0]
    assert shares[2] < shares[0]
    assert right[1] > right[0]


def test_priors_are_those_of_new_items_too() -> None:
    X, _, known = two_groups()
    model = classifier(["euclidean"], rule=ClassMean(priors="estimated")).fit(X, known)
    rows = np.flatnonzero(known < 0)[:5]
    assert model.predict_proba(X[rows] + 1e-9) == pytest.approx(
        model.learned_.answers[rows], abs=1e-5
    )


def test_equal_priors_change_nothing_of_class_means() -> None:
    X, _, known = two_groups()
    fits = [
        classifier(["euclidean"], rule=ClassMean(priors=priors)).fit(X, known)
        for priors in (None, (0.5, 0.5))
    ]
    assert fits[0].learned_.answers == pytest.approx(fits[1].learned_.answers)


@pytest.mark.parametrize("priors", ["equal", (0.5,), (0.5, -0.1), (0.0, 1.0)])
def test_priors_are_positive_shares(priors: Any) -> None:
    with pytest.raises(mm.InputError, match="priors"):
        ClassMean(priors=priors)


def test_a_prior_for_every_class() -> None:
    X, _, known = two_groups()
    with pytest.raises(mm.InputError, match="expected 2 shares"):
        classifier(["euclidean"], rule=ClassMean(priors=(0.2, 0.3, 0.5))).fit(X, known)


def test_self_training_uses_unlabelled_items() -> None:
    X, y, known = two_groups(share=0.5)
    fits = [
        classifier(["euclidean"], rule=Logistic(self_training=rounds)).fit(X, known)
        for rounds in (0, 3)
    ]
    p = [model.learned_.answers for model in fits]
    assert abs(p[0] - p[1]).max() > 1e-3
    assert np.mean(fits[1].transduction_ == y) > 0.85


def test_offsets_of_class_means_are_those_of_held_out_items():
    from metricmix.objectives.class_scores import class_offsets, held_out_scores

    rng = np.random.default_rng(0)
    place = np.concatenate([rng.normal(0, 0.3, 30), rng.normal(2, 1.5, 30)])
    stack = mm.DissimilarityStack([abs(place[:, None] - place)])
    known = np.where(np.arange(60) % 3 == 0, np.arange(60) // 30, -1)
    plain = mm.MetricMixtureClassifier(stack, objective=None, rule="class-mean")
    shifted = mm.MetricMixtureClassifier(
        stack, objective=None, rule=mm.estimators.ClassMean(offsets=True)
    )
    items = np.arange(60)
    before, after = (model.fit(items, known).predict_proba(items) for model in (plain, shifted))
    d = plain.compute_metric()[np.ix_(known >= 0, known >= 0)]
    b = class_offsets(held_out_scores(d, known[known >= 0], 2), known[known >= 0])
    assert abs(b).max() > 0.01
    expected = before * np.exp(b)
    np.testing.assert_allclose(after, expected / expected.sum(axis=1, keepdims=True))


def branches(long: float) -> tuple[mm.DissimilarityStack, np.ndarray]:
    """Two classes of leaves of a tree, 20 each, those of class 1 at the end of longer branches."""
    y = np.repeat([0, 1], 20)
    depth = np.random.default_rng(0).uniform(0.9, 1.1, 40) * np.where(y == 1, long, 0.2)
    D = depth[:, None] + depth + 0.3 * (y[:, None] != y)
    np.fill_diagonal(D, 0.0)
    return mm.DissimilarityStack({"tree": D}), y


@pytest.mark.parametrize("per_class", [(3, 1), (1, 1)])
def test_a_class_of_one_label_is_not_at_a_disadvantage(per_class):
    stack, y = branches(1.0)
    kept = np.concatenate([np.flatnonzero(y == c)[:size] for c, size in enumerate(per_class)])
    known = np.full(40, -1)
    known[kept] = y[kept]
    model = MetricMixtureClassifier(stack).fit(stack.items, known)
    assert (model.transduction_ == y).all()
    plain = MetricMixtureClassifier(stack, rule=mm.estimators.ClassMean()).fit(stack.items, known)
    assert (plain.transduction_ == y).mean() < 0.6
    # The same from the distances to labelled items alone, as in the folds of a comparison.
    fit = model.learned_.rule
    d = fit.distances[0]
    found = fit.rule.from_distances(d, fit.y, d[fit.labelled], 2, d.mean(axis=0))
    assert found == pytest.approx(fit.of_items)


def test_logistic_refuses_offsets():
    with pytest.raises(mm.exceptions.InputError, match="its own"):
        mm.estimators.Logistic(offsets=True)


def test_shares_of_labels_are_a_part_of_the_scores():
    from metricmix.objectives.class_scores import class_offsets, held_out_scores, label_shares

    rng = np.random.default_rng(0)
    place = np.concatenate([rng.normal(0, 1.0, 45), rng.normal(1.5, 1.0, 15)])
    stack = mm.DissimilarityStack([abs(place[:, None] - place)])
    items, known = np.arange(60), np.where(np.arange(60) % 3 == 0, np.arange(60) // 45, -1)
    rules = (ClassMean(), ClassMean(offsets=True, priors="labels"), ClassMean(priors="labels"))
    plain, both, shares = (
        mm.MetricMixtureClassifier(stack, objective=None, rule=rule).fit(items, known)
        for rule in rules
    )
    few = known >= 0
    held_out = held_out_scores(plain.compute_metric()[np.ix_(few, few)], known[few], 2)
    b = class_offsets(held_out, known[few])
    shift = b + label_shares(held_out - b, known[few])
    for model, by in ((both, shift), (shares, label_shares(held_out, known[few]))):
        expected = plain.predict_proba(items) * np.exp(by)
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(items), expected)
    assert (shares.transduction_ == 0).sum() > (plain.transduction_ == 0).sum()
    scores = both.explain(int(np.flatnonzero(~few)[0])).scores
    assert "offset" in scores.columns


def test_logistic_has_the_shares_of_the_labels_anyway():
    X, _, known = two_groups()
    p = [
        classifier(["euclidean"], rule=Logistic(priors=priors)).fit(X, known).learned_.answers
        for priors in (None, "labels")
    ]
    np.testing.assert_array_equal(*p)


def test_the_default_rule_fits_offsets():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2)) + 2.0 * (np.arange(60) % 2)[:, None]
    model = mm.MetricMixtureClassifier(["euclidean"]).fit(X, np.arange(60) % 2)
    assert model.rule_ == mm.estimators.ClassMean(offsets=True, priors="labels")

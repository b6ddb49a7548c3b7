"""Classes made of examples: what is predicted, of new items too, in folds, explained and saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import metricmix as mm
from metricmix.dissimilarity.predictions import corner_distances
from metricmix.learning.examples import Examples, examples_of
from metricmix.learning.refits import FoldMetric
from metricmix.learning.rules import ClassMean
from metricmix.mixture.edge_lengths import EdgeLengths

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

N, C = 60, 3
RNG = np.random.default_rng(0)
Y = np.arange(N) % C
X = RNG.normal(size=(N, 4)) + 0.8 * Y[:, None]
NEW = RNG.normal(size=(20, 4)) + 0.8
KNOWN = np.where(np.arange(N) < 30, Y, -1)
BOTH = {
    "plain": "euclidean",
    "told": mm.dissimilarity.supervised(GaussianNB()),
    "model": mm.dissimilarity.supervised(LogisticRegression()),
}


def fitted(sources: dict[str, object], **options: object) -> mm.MetricMixtureClassifier:
    options = {"constraint": "nonnegative", "rho": 0.1, "rule": "class-mean"} | options
    return mm.MetricMixtureClassifier(sources, **options).fit(X, KNOWN)


@pytest.fixture(scope="module")
def model() -> mm.MetricMixtureClassifier:
    return fitted(BOTH)


@pytest.mark.parametrize("classifier", [GaussianNB(), LogisticRegression()])
@pytest.mark.parametrize("kept", [30, 29, 4])
def test_a_supervised_source_alone_predicts_what_its_classifier_does(
    classifier: object, kept: int
) -> None:
    """Also with as few labels as (2, 1, 1), and weights that are not learned."""
    labels = np.where((np.arange(N) < kept) | (np.arange(N) % 15 == 0), Y, -1)
    known = labels >= 0
    alone = mm.MetricMixtureClassifier(
        {"told": mm.dissimilarity.supervised(classifier)}, objective=None, rule="class-mean"
    ).fit(X, labels)
    told = classifier.fit(X[known], labels[known])
    assert np.array_equal(alone.transduction_[~known], told.predict(X[~known]))
    assert np.array_equal(alone.predict(NEW), told.predict(NEW))


def test_answers_are_class_means_over_examples(model: mm.MetricMixtureClassifier) -> None:
    stack, weights = model.stack_, model.learned_.lengths.raw_weights
    plain, told, logistic = stack.sources
    m = weights[0] * plain.rows(np.arange(N))[:, :30]
    for weight, source in zip(weights[1:], (told, logistic), strict=True):
        m = m + weight * corner_distances(source.values)[:, KNOWN[:30]]
    d = np.logaddexp(0.0, m)
    between = np.logaddexp(0.0, weights[0] * plain.rows(np.arange(30))[:, :30])
    own = KNOWN[:30] == np.arange(C)[:, None]
    scores = np.stack(
        [d[:, c].mean(axis=1) - between[np.ix_(c, c)].mean() / 2 for c in own], axis=1
    )
    p = np.exp(-scores) / np.exp(-scores).sum(axis=1, keepdims=True)
    assert model.learned_.answers == pytest.approx(p, abs=1e-9)


def test_new_items_get_what_they_would_have_got_as_items(
    model: mm.MetricMixtureClassifier,
) -> None:
    everyone = mm.MetricMixtureClassifier(BOTH, constraint="nonnegative", rho=0.1)
    everyone = everyone.set_params(rule="class-mean").fit(
        np.concatenate([X, NEW]), np.append(KNOWN, np.full(len(NEW), -1))
    )
    weights = model.learned_.lengths.raw_weights
    assert everyone.learned_.lengths.raw_weights == pytest.approx(weights, rel=0.1)
    assert model.predict_proba(NEW) == pytest.approx(everyone.learned_.answers[N:], abs=0.05)
    assert model.predict_proba(X[:7]) == pytest.approx(model.learned_.answers[:7], abs=1e-9)
    moved = np.nextafter(X, np.inf)  # new to the metric, with the predictions of an old one
    assert model.predict_proba(moved[30:]) == pytest.approx(model.learned_.answers[30:], abs=1e-6)


def test_predictions_of_new_items_follow_from_their_distances(
    model: mm.MetricMixtureClassifier,
) -> None:
    examples = Examples.of(model.learned_.lengths, C)
    q = np.random.default_rng(1).dirichlet(np.ones(C), 8)
    rows = np.zeros((8, N, 3))
    for r, source in enumerate(model.stack_.sources[1:], 1):
        root = np.sqrt(source.values)
        rows[:, :, r] = np.sqrt(np.maximum(1.0 - np.sqrt(q) @ root.T, 0.0))
    for found in examples.corners_of_new(rows).values():
        assert found == pytest.approx(corner_distances(q), abs=1e-6)


def test_folds_judge_as_a_fit_does(model: mm.MetricMixtureClassifier) -> None:
    learned = model.learned_
    items = np.arange(40)
    metric = FoldMetric(learned.lengths, items)
    known = learned.labels.take(items)
    found = metric.answers(learned.options.rule, np.arange(30, 40), known)
    assert found == pytest.approx(learned.answers[30:40], abs=1e-12)


def test_explanations_add_up(model: mm.MetricMixtureClassifier) -> None:
    for k in (31, 45):
        p = model.learned_.answers[k]
        scores = model.explain(k).scores
        assert "offset" not in scores.columns
        odds = sum(scores.log_odds(0, 2).values())
        assert odds == pytest.approx(np.log(p[0] / p[2]), abs=1e-9)
    p = model.predict_proba(NEW[:1])[0]
    odds = sum(model.explain(X=NEW[:1]).scores.log_odds(0, 2).values())
    assert odds == pytest.approx(np.log(p[0] / p[2]), abs=1e-9)


def test_scores_of_many_labels_add_up(
    model: mm.MetricMixtureClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metricmix.learning.label_paths.LABELS_BY_SOURCE", 10)
    scores = model.explain(50).scores
    p = model.learned_.answers[50]
    assert "within" in scores.columns
    assert sum(scores.log_odds(1, 0).values()) == pytest.approx(np.log(p[1] / p[0]), abs=1e-9)


def test_a_saved_model_answers_the_same(model: mm.MetricMixtureClassifier, tmp_path: Path) -> None:
    mm.save(model, tmp_path / "model.mm")
    again = mm.load(tmp_path / "model.mm")
    assert np.array_equal(again.transduction_, model.transduction_)
    assert again.learned_.answers == pytest.approx(model.learned_.answers, abs=1e-9)


def test_where_paths_are_needed_classes_are_made_of_items() -> None:
    plain = fitted(BOTH, rule="class-mean")
    for options in ({"constraint": None}, {"projection": True}, {"geodesic": 5}):
        other = fitted(BOTH, **options)
        learned = other.learned_
        assert examples_of(learned.whole, learned.labels, learned.options) is None
    assert plain.learned_.rule.examples is not None
    assert fitted({"plain": "euclidean"}).learned_.rule.examples is None
    assert fitted(BOTH, rule="k-nearest").learned_.rule.examples is None


def test_supervised_sources_of_no_weight_change_nothing(model: mm.MetricMixtureClassifier) -> None:
    """As in comparisons with single sources, whose other weights are 0."""
    lengths = EdgeLengths(model.stack_, mm.Mixture([1.0, 0.0, 0.0], model.stack_.names))
    assert Examples.of(lengths, C) is None
    lengths = EdgeLengths(model.stack_, mm.Mixture([1.0, 0.0, 0.5], model.stack_.names))
    assert list(Examples.of(lengths, C).corners) == [2]


def test_shifts_are_those_of_items() -> None:
    shifted = fitted(BOTH, rule=ClassMean(offsets=True, priors="labels"))
    plain = fitted(BOTH)
    assert shifted.learned_.answers == pytest.approx(plain.learned_.answers)
    assert shifted.rule_ == ClassMean(offsets=True, priors="labels")


def test_stated_shares_count_with_examples() -> None:
    p = fitted(BOTH).learned_.answers
    shares = np.array([0.6, 0.3, 0.1])
    found = fitted(BOTH, rule=ClassMean(priors=tuple(shares))).learned_.answers
    expected = p * shares
    assert found == pytest.approx(expected / expected.sum(axis=1, keepdims=True))


def test_bootstrap_of_examples() -> None:
    table = fitted(BOTH).weights_table(n_bootstrap=20)
    assert (table["lower"] <= table["upper"]).all()
    assert (table["upper"] > table["lower"]).any()

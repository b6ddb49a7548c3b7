"""Items that were not in the fit: attached to it, or everything computed anew with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs

import metricmix as mm
from metricmix.dissimilarity import features, knn_path_length
from metricmix.dissimilarity.known import Known
from metricmix.estimators import MetricMixture
from metricmix.learning.rules import (
    CLASS_RULES,
    ClassMean,
    FittedRule,
    KNearest,
    Nearest,
    Rule,
    Spreading,
)
from reference.instances import random_sources
from reference.models import classifier

POINTWISE = ["euclidean", "cosine", "chebyshev"]
X, Y = make_blobs(40, 3, centers=3, cluster_std=4.0, random_state=2)
KNOWN = np.where(np.arange(40) < 15, Y, -1)
NEW = make_blobs(12, 3, centers=3, cluster_std=5.0, random_state=7)[0]
pytestmark = pytest.mark.filterwarnings("ignore::metricmix.exceptions.ProjectionWarning")


def both(sources: Any = POINTWISE, **options: Any) -> tuple[Any, Any]:
    """Probabilities of the new items, attached and augmented."""
    attached, augmented = (
        classifier(sources, new_items=way, **options).fit(X, KNOWN)
        for way in ("attached", "augmented")
    )
    assert np.array_equal(attached.weights_, augmented.weights_)
    return attached.predict_proba(NEW), augmented.predict_proba(NEW)


@pytest.mark.parametrize("rule", [Nearest(), KNearest(4), KNearest(4, "distance")], ids=repr)
@pytest.mark.parametrize("beta", [1.0, 10.0])
def test_both_agree_where_sources_compare_two_items_only(rule: Rule, beta: float) -> None:
    attached, augmented = both(rule=rule, beta=beta)
    assert attached == pytest.approx(augmented, abs=1e-9)


def test_class_means_agree_where_the_new_item_lies_on_no_path() -> None:
    attached, augmented = both(["euclidean"], rule="class-mean", constraint="nonnegative")
    assert attached == pytest.approx(augmented, abs=1e-9)


def test_class_means_differ_where_the_new_item_is_a_shortcut() -> None:
    # Two far items of one class, with the new one between: their distance halves with it.
    M = np.array(
        [
            [0.0, 9.0, 6.0, 6.0, 1.0],
            [9.0, 0.0, 6.0, 6.0, 1.0],
            [6.0, 6.0, 0.0, 1.0, 5.0],
            [6.0, 6.0, 1.0, 0.0, 5.0],
            [1.0, 1.0, 5.0, 5.0, 0.0],
        ]
    )
    table = np.arange(5.0)[:, None]
    model = classifier(
        [lambda a, b: M[int(a[0]), int(b[0])]],
        objective=mm.objectives.LeastSquares(M[:4, :4]),
        scaling=None,
        beta=9.0,
    )
    model.fit(table[:4], [0, 0, 1, 1])
    attached = model.predict_proba(table[4:])
    augmented = model.set_params(new_items="augmented").predict_proba(table[4:])
    assert attached.shape == augmented.shape == (1, 2)
    assert abs(attached - augmented).max() > 1e-3


def test_both_differ_where_sources_look_at_all_items() -> None:
    for rule in ("nearest", "class-mean"):
        attached, augmented = both(
            ["euclidean", knn_path_length(k=3)], rule=rule, constraint=None, projection=False
        )
        assert abs(attached - augmented).max() > 1e-3


@pytest.mark.parametrize("rule", CLASS_RULES.names())
def test_augmented_is_a_fit_with_the_item_added(rule: str) -> None:
    sources = ["euclidean", knn_path_length(k=3)]
    model = classifier(sources, rule=rule, new_items="augmented").fit(X, KNOWN)
    for k, p in enumerate(model.predict_proba(NEW[:3])):
        table = np.vstack([X, NEW[k]])
        stack = mm.DissimilarityStack(
            {"euclidean": features(table), "knn_path_length": knn_path_length(table, k=3)}
        )
        lengths = mm.mixture.edge_lengths(stack, model.mixture_)
        expected = FittedRule(model.rule_, lengths, Known(np.append(KNOWN, -1), 3)).of_items[-1]
        assert p == pytest.approx(expected, rel=1e-9)


def test_augmented_takes_sparse_tables() -> None:
    model = classifier(["euclidean"], rule="nearest", new_items="augmented")
    dense = model.fit(X, KNOWN).predict_proba(NEW[:3])
    found = model.fit(sparse.csr_array(X), KNOWN).predict_proba(sparse.csr_array(NEW[:3]))
    assert found == pytest.approx(dense, abs=1e-6)


@pytest.mark.parametrize("sources", [POINTWISE, ["euclidean", knn_path_length(k=4)]])
def test_an_item_of_the_fit_is_at_its_own_distances(sources: Any) -> None:
    model = MetricMixture(sources, beta=3.0)
    D = model.fit_transform(X, KNOWN)
    assert mm.is_metric(D)
    assert np.array_equal(model.transform(X), D)
    assert np.array_equal(model.transform(X[[7, 3]]), D[[7, 3]])
    assert np.array_equal(model.compute_metric(), D)
    assert np.array_equal(model.metric_.to_array(), D)


def test_transform_again_for_precomputed_sources() -> None:
    stack = mm.DissimilarityStack(random_sources(np.random.default_rng(0), 25, 3))
    y = np.arange(25) % 2
    model = MetricMixture(beta=5.0)
    D = model.fit_transform(stack, y)
    assert np.array_equal(model.transform(stack), D)
    assert np.array_equal(model.transform(np.asarray(stack)), D)
    expected = mm.path_metric(stack.rescaled("mean"), model.mixture_)
    assert pytest.approx(expected) == D


@pytest.mark.parametrize("directed", [False, True])
def test_distances_are_those_of_the_item_added(directed: bool) -> None:
    rng = np.random.default_rng(3)
    n, M = 20, 5
    sources = random_sources(rng, n + M, 2, directed=directed)
    stack = mm.DissimilarityStack([S[:n, :n] for S in sources], directed=directed)
    model = MetricMixture(beta=6.0, scaling=None).fit(stack, np.arange(n) % 2)
    found = model.transform(np.stack([S[n:, :n] for S in sources], axis=-1))
    for k in range(M):
        chosen = [*range(n), n + k]
        joined = mm.DissimilarityStack(
            [S[np.ix_(chosen, chosen)] for S in sources], directed=directed
        )
        w = mm.mixture.edge_lengths(joined, mm.Mixture(model.weights_, beta=6.0)).matrix()
        assert found[k] == pytest.approx(mm.project(w, directed=directed)[-1, :-1], rel=1e-10)


def test_the_way_goes_through_items_of_the_fit() -> None:
    # A chain of unlabelled items leads from the new one to class 1; by itself it is nearer to 0.
    place = np.array([-4.0, -5.0, 9.0, 10.0, 2.0, 3.5, 5.0, 6.5, 8.0])
    squares = (place[:, None] - place) ** 2
    y = np.array([0, 0, 1, 1, -1, -1, -1, -1, -1])
    rows = (np.array([1.0])[:, None] - place) ** 2
    objective = mm.objectives.LeastSquares(squares)
    options = {"objective": objective, "scaling": None, "beta": 20.0, "projection": False}
    metric = MetricMixture(**options).fit(squares)
    assert metric.weights_ == pytest.approx([1.0], abs=0.2)
    assert metric.transform(rows)[0, 2] < 0.5 * metric.weights_[0] * rows[0, 2]
    for rule in (Nearest(), KNearest(2), ClassMean(), Spreading(2)):
        model = classifier(rule=rule, **options).fit(squares, y)
        assert model.predict(rows).tolist() == [1], rule
        assert rows[0, :2].min() < rows[0, 2:4].min()


def test_equal_rows_of_the_fit_stay_apart() -> None:
    table = np.vstack([X, X[:3]])
    known = np.append(KNOWN, [-1, -1, -1])
    model = MetricMixture(["euclidean"])
    D = model.fit_transform(table, known)
    assert np.array_equal(D[40:43, :40][:, [5, 6]], D[:3, [5, 6]])
    assert D[40, 0] == pytest.approx(np.log(2), rel=1e-6)
    assert np.array_equal(model.transform(table[40:]), D[:3])  # of equal rows, the first


def test_a_new_item_may_be_a_shortcut() -> None:
    """Attached to a source that is no metric, it violates d(i, j) <= d(i, x) + d(x, j)."""
    rng = np.random.default_rng(0)
    D = np.triu(rng.uniform(4, 9, (30, 30)), 1)
    metric = mm.Metric(D + D.T)
    rows = np.stack([np.full(30, 1.0), np.full(30, 9.0), (D + D.T)[3]])
    joined = metric.join(rows)
    d, new = metric.to_array(), joined.distances()
    expected = [max(0.0, (d - np.add.outer(row, row)).max()) for row in new]
    assert joined.largest_violations() == pytest.approx(expected)
    assert expected[0] > 3.6
    assert expected[1:] == [0.0, 0.0]
    assert not joined.is_metric()
    assert metric.join(rows[1:]).is_metric()
    for row, violation in zip(new, expected, strict=True):
        both = np.block([[d, row[:, None]], [row[None], np.zeros((1, 1))]])
        assert mm.metric_violations(both).triangle == pytest.approx(violation, abs=1e-12)


def test_violations_of_new_items_need_distances_both_ways() -> None:
    metric = mm.Metric(np.array([[0.0, 1.0], [2.0, 0.0]]), directed=True)
    with pytest.raises(mm.InputError, match="directed"):
        metric.join([[1.0, 1.0]]).largest_violations()

"""Labelled items and their examples: a metric on both, whose nearest corner is the argmax."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import metricmix as mm
from metricmix.dissimilarity import features
from metricmix.dissimilarity.examples import corners_of, with_examples
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictions import ProbabilitySource, corner_distances, hellinger
from metricmix.dissimilarity.predictors import CrossFitted
from metricmix.dissimilarity.supervised import SupervisedSource

N, C, L = 14, 3, 9
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = RNG.integers(0, C, N)
KNOWN = Known(np.where(np.arange(N) < L, Y, -1), C)


def predictions(seed: int) -> np.ndarray:
    """Distributions, some of them certain of a class."""
    p = np.random.default_rng(seed).dirichlet(np.full(C, 0.4), N)
    p[:2] = np.eye(C)[:2]
    return p


def stack_of(seed: int = 0) -> mm.DissimilarityStack:
    told = SupervisedSource.restored("told", predictions(seed), KNOWN)
    return mm.DissimilarityStack([features(X, "euclidean"), told], scaling="mean")


@pytest.mark.parametrize("seed", range(5))
def test_corners_are_hellinger_distances_and_the_nearest_is_the_likeliest_class(seed: int) -> None:
    p = predictions(seed)
    d = corner_distances(p)
    for c in range(C):
        assert d[:, c] == pytest.approx(hellinger(p, np.eye(C)[c]), abs=1e-7)
    assert (d.argmin(axis=1) == p.argmax(axis=1)).all()


@pytest.mark.parametrize("seed", range(5))
def test_sources_that_are_metrics_are_metrics_on_items_and_examples(seed: int) -> None:
    points = with_examples(stack_of(seed), KNOWN)
    assert points.n_items == 2 * L
    for source in points.sources:
        D = source.rows(np.arange(2 * L))
        assert mm.is_metric(D)
        assert np.array_equal(D, source.columns(np.arange(2 * L)))
        i, j = RNG.integers(0, 2 * L, (2, 50))
        assert source.pairs(i, j) == pytest.approx(D[i, j], abs=1e-12)
        assert source.block(i[:5], j) == pytest.approx(D[np.ix_(i[:5], j)], abs=1e-12)
    assert np.array_equal(points.scales, stack_of(seed).scales)


def test_values_of_pairs_are_the_same_as_blocks_and_one_by_one() -> None:
    points = with_examples(stack_of(), KNOWN)
    i, j = (index.ravel() for index in np.indices((2 * L, 2 * L)))
    assert points.values_of_pairs(i, j) == pytest.approx(points.raw_pairs(i, j), abs=1e-12)


def test_an_example_has_its_label_and_an_item_does_not() -> None:
    p = predictions(0)
    told = with_examples(stack_of(), KNOWN).sources[1]
    for k in range(L):
        own = np.sqrt(1.0 - np.sqrt(p[k, Y[k]]))
        assert told.pairs(np.array([k]), np.array([L + k]))[0] == pytest.approx(own)
    among = told.block(np.arange(L, 2 * L), np.arange(L, 2 * L))
    assert np.array_equal(among, Y[:L, None] != Y[:L])
    between = hellinger(p[0], p[1])
    assert told.pairs(np.array([0]), np.array([1]))[0] == pytest.approx(between)


def test_only_sources_of_these_classes_have_corners() -> None:
    numbers = SupervisedSource.restored("numbers", np.arange(float(N)), Known(np.arange(N), 0))
    given = ProbabilitySource(predictions(1))
    stack = mm.DissimilarityStack([*stack_of().sources, numbers, given])
    assert list(corners_of(stack, C)) == [1]
    assert not corners_of(stack, C + 1)
    assert list(corners_of(stack.part(np.arange(5)), C)) == [1]
    assert list(corners_of(stack.among(np.arange(5)), C)) == [1]
    part = stack.part(np.array([7, 3])).sources[1]
    assert np.array_equal(part.to_corners, stack.sources[1].to_corners[[7, 3]])


def test_predictions_that_differ_by_rounding_are_constant() -> None:
    class Rounds(LogisticRegression):
        def predict_proba(self, X):
            p = np.full((len(X), 2), 0.5)
            p[:, 0] += 1e-16 * np.arange(len(X))
            return p

    known = Known(np.arange(N) % 2, 2)
    source = SupervisedSource(CrossFitted(X, Rounds()), "rounds", known)
    assert (source.values == source.values[0]).all()
    assert mm.DissimilarityStack([source], scaling="mean").scales == [1.0]

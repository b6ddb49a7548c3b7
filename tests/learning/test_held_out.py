"""Labelled items judged by refits without their own label, and the order of the items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import metricmix as mm
from metricmix.learning.held_out import default_splits, without_item
from metricmix.learning.rules import CLASS_RULES, NUMBER_RULES

pytestmark = pytest.mark.default_sources


def labelled(n_labels: int = 24) -> tuple[Any, Any]:
    """Return a table, and the classes of some of its 40 rows, one of them wrong."""
    rng = np.random.default_rng(0)
    kind = np.arange(40) % 2
    X = np.column_stack([kind + 0.4 * rng.normal(size=40), rng.normal(size=40)])
    y = np.where(np.arange(40) < n_labels, kind, -1)
    y[3] = 1 - y[3]
    return X, y


def quick(y: Any, **options: Any) -> Any:
    """Return a model that chooses nothing, for classes or for numbers."""
    fixed = {"sources": ["euclidean", "cityblock"], "constraint": "nonnegative", "rho": 1e-3}
    numeric = np.asarray(y).dtype.kind == "f"
    model = mm.MetricMixtureRegressor if numeric else mm.MetricMixtureClassifier
    return model(**{**fixed, "rule": "kernel-ridge" if numeric else "class-mean", **options})


def targets(X: Any, y: Any) -> Any:
    return np.where(y >= 0, X[:, 0] + X[:, 1], np.nan)


RULES = [
    *((name, False) for name in CLASS_RULES.names()),
    *((n, True) for n in NUMBER_RULES.names()),
]


@pytest.mark.parametrize(("rule", "numeric"), RULES)
@pytest.mark.parametrize("n_labels", [8, 24])
def test_answers_are_those_of_fits_without_the_fold(
    rule: str, numeric: bool, n_labels: int
) -> None:
    X, y = labelled(n_labels)
    y = targets(X, y) if numeric else y
    model = quick(y, rule=rule).fit(X, y)
    learned, held_out = model.learned_, model.learned_.held_out
    known = learned.known
    splits = default_splits(learned.task, known)
    assert splits == (n_labels if n_labels == 8 else 5)
    assert held_out.items.tolist() == list(range(n_labels))
    folds = known.folds(splits)
    for fold in range(int(folds.max()) + 1):
        test = known.items[folds == fold]
        again = quick(y, rule=rule).fit(X, known.without(test).values)
        rows = again.learned_.answers[test]
        np.testing.assert_allclose(held_out.answers[folds == fold], rows, rtol=1e-6, atol=1e-9)
        d = again.compute_metric()[np.ix_(test, known.items)]
        np.testing.assert_allclose(held_out.distances[folds == fold], d, rtol=1e-6)
    among_all = held_out.among_all(learned)
    np.testing.assert_array_equal(among_all[n_labels:], learned.answers[n_labels:])
    np.testing.assert_array_equal(among_all[:n_labels], held_out.answers)
    if not numeric and n_labels == 24:
        assert held_out.answers.sum(axis=1) == pytest.approx(1.0)
        assert held_out.answers[3].argmax() != y[3]


@pytest.mark.parametrize("numeric", [False, True])
def test_one_item_is_left_out(numeric: bool) -> None:
    X, y = labelled()
    y = targets(X, y) if numeric else y
    model = quick(y).fit(X, y)
    one = without_item(model.learned_, 5)
    again = quick(y).fit(X, model.learned_.known.without([5]).values)
    assert one.mixture.weights == pytest.approx(again.weights_)
    assert one.answers == pytest.approx(again.learned_.answers)
    assert without_item(model.learned_, 30) is model.learned_  # it has no label


def test_too_few_to_hold_one_out() -> None:
    place = np.array([0.0, 1.0, 5.0])
    stack = mm.DissimilarityStack([abs(place[:, None] - place)])
    model = quick([0, 1], sources=stack, objective=None).fit(None, [0, 1, -1])
    held_out = model.learned_.held_out
    np.testing.assert_array_equal(held_out.answers, np.full((2, 2), 0.5))
    np.testing.assert_allclose(held_out.distances, model.compute_metric()[:2, :2])


def test_an_objective_of_fixed_labels_stays() -> None:
    X, y = labelled()
    model = quick(y, objective=mm.objectives.ClassMeans(y)).fit(X, y)
    held_out = model.learned_.held_out
    for i in (0, 3, 7):
        rule = without_item(model.learned_, i)
        assert rule.mixture is model.learned_.mixture
        np.testing.assert_allclose(held_out.answers[i], rule.answers[i])
    assert held_out.answers[3].argmax() != y[3]


# -- the order of the items and the names of the classes ------------------------------------------


def problem(n: int = 60) -> tuple[Any, Any, Any]:
    """Return a table, the classes of 40 of its rows, and their targets."""
    rng = np.random.default_rng(1)
    kind = rng.integers(3, size=n)
    X = rng.normal(size=(n, 4)) + 1.5 * np.eye(3, 4)[kind]
    known = np.arange(n) < 40
    return X, np.where(known, kind, -1), np.where(known, X[:, 0] - X[:, 2], np.nan)


def of_recipes(X: Any, ids: Any, y: Any) -> tuple[Any, Any]:
    return ["euclidean", "angular", mm.dissimilarity.knn_path_length(k=5)], X


def matrices(X: Any) -> dict[str, Any]:
    parts = {"one": X[:, :2], "two": X[:, 2:], "all": X}
    return {name: mm.dissimilarity.features(part) for name, part in parts.items()}


def of_matrices(X: Any, ids: Any, y: Any) -> tuple[Any, Any]:
    return mm.DissimilarityStack(matrices(X)), np.arange(len(X))


def of_ids(X: Any, ids: Any, y: Any) -> tuple[Any, Any]:
    return mm.DissimilarityStack(matrices(X), items=ids), ids


def of_supervised_recipes(X: Any, ids: Any, y: Any) -> tuple[Any, Any]:
    from sklearn.linear_model import LogisticRegression, Ridge

    model = Ridge() if y.dtype.kind == "f" else LogisticRegression()
    return ["euclidean", mm.dissimilarity.supervised(model)], X


def of_default_sources(X: Any, ids: Any, y: Any) -> tuple[Any, Any]:
    about = {"target": y} if y.dtype.kind == "f" else {"labels": y}
    return mm.sources_for(pd.DataFrame(X, index=ids), **about), ids


INPUTS = (of_recipes, of_matrices, of_ids, of_supervised_recipes)
"""Folds are dealt by rows, matrices or ids: each of them has a quick test of the order."""


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def fitted(make: Any, X: Any, ids: Any, y: Any) -> Any:
    sources, given = make(X, ids, y)
    numeric = y.dtype.kind == "f"
    model = mm.MetricMixtureRegressor if numeric else mm.MetricMixtureClassifier
    return model(sources).fit(given, y)


def same_but_for_the_order(one: Any, two: Any, order: Any, columns: Any = slice(None)) -> None:
    """Assert that the items of `two` are those of `one` in another order, and so is all else."""
    # The promise is equality up to the tolerance of the solvers: sums in another order, or by the
    # BLAS of another processor, end elsewhere within it. Weights are solved to 1e-6 (L-BFGS), and
    # answers follow them; classifiers of default sources are solved to 1e-5.
    solved = any(name.startswith("learned") for name in one.stack_.names)
    close = {"rel": 1e-4, "abs": 1e-4} if solved else {"rel": 1e-5, "abs": 1e-5}
    # Numbers in their own units and their directions resemble each other: weights of such sources
    # may be exchanged at hardly any loss.
    of_weights = {"rel": 1e-3, "abs": 1e-3} if solved else close
    assert two.weights_ == pytest.approx(one.weights_, **of_weights)
    first, second = one.selection_, two.selection_
    assert second.candidates == first.candidates
    assert second.chosen == first.chosen
    for name in ("loss", "score", "gain", "standard_error"):
        assert getattr(second, name) == pytest.approx(getattr(first, name), nan_ok=True, **close)
    answers = one.learned_.answers[order]
    answers = answers if answers.ndim == 1 else answers[:, columns]
    assert two.learned_.answers == pytest.approx(answers, **close)
    known = one.learned_.known.mask
    held_out = one.learned_.held_out.among_all(one.learned_)[order]
    held_out = held_out if held_out.ndim == 1 else held_out[:, columns]
    found = two.learned_.held_out.among_all(two.learned_)
    assert found[known[order]] == pytest.approx(held_out[known[order]], **close)


@pytest.mark.parametrize(
    ("make", "numeric", "n_labels"),
    [
        *((make, numeric, 40) for make in INPUTS for numeric in (False, True)),
        (of_matrices, False, 10),
        *(slow(make, False, 10) for make in (of_recipes, of_ids, of_supervised_recipes)),
        *(slow(of_default_sources, *case) for case in ((False, 40), (False, 10), (True, 40))),
    ],
)
def test_the_order_of_the_items_does_not_matter(make: Any, numeric: bool, n_labels: int) -> None:
    X, codes, target = problem()
    some = np.arange(len(X)) < n_labels
    y = np.where(some, target, np.nan) if numeric else np.where(some, codes, -1)
    ids = np.array([f"item {k}" for k in range(len(X))])
    order = np.random.default_rng(2).permutation(len(X))
    one, two = fitted(make, X, ids, y), fitted(make, X[order], ids[order], y[order])
    same_but_for_the_order(one, two, order)


@pytest.mark.parametrize(
    ("make", "n_labels"),
    [
        *((of_matrices, n_labels) for n_labels in (40, 10)),
        (of_supervised_recipes, 40),
        *(slow(make, n_labels) for make in (of_recipes, of_ids) for n_labels in (40, 10)),
        slow(of_supervised_recipes, 10),
        *(slow(of_default_sources, n_labels) for n_labels in (40, 10)),
    ],
)
def test_the_names_of_the_classes_do_not_matter(make: Any, n_labels: int) -> None:
    X, codes, _ = problem()
    codes = np.where(np.arange(len(X)) < n_labels, codes, -1)
    ids = np.array([f"item {k}" for k in range(len(X))])
    renamed = np.where(codes >= 0, np.array([2, 0, 1])[codes], -1)
    one, two = fitted(make, X, ids, codes), fitted(make, X, ids, renamed)
    same_but_for_the_order(one, two, np.arange(len(X)), columns=[1, 2, 0])

"""Logistic regressions of all folds and penalties at once, beside scikit-learn's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from metricmix.dissimilarity.logistic_path import (
    class_probabilities,
    logistic_path,
    loss_and_gradient,
    minimize_loss,
)

PENALTIES = (0.1, 1.0, 10.0, 100.0)


def problem(kind: str, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return rows, classes and weights of two fits."""
    n, k, c = {"binary": (40, 6, 2), "many classes": (260, 30, 50)}.get(kind, (60, 12, 4))
    y = rng.permutation(np.arange(n) % c)
    Z = rng.normal(size=(n, k)) + (4.0 if kind == "separable" else 0.7) * rng.normal(size=(c, k))[y]
    if kind == "collinear":
        Z = np.column_stack([Z, Z[:, :4] @ rng.normal(size=(4, 5)), np.ones(n), np.zeros(n)])
    if kind == "wide":
        Z = rng.normal(size=(n, 300)) * rng.random(300)
    weights = np.ones((2, n))
    weights[1, ::5] = 0.0
    if kind == "weights":
        weights *= rng.integers(1, 5, n)
    if kind == "absent class":
        weights[1, y == 2] = 0.0
    return Z, y, weights


KINDS = (
    *("plain", "binary", "separable", "collinear", "wide", "weights", "absent class"),
    "many classes",
)


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_is_that_of_scikit_learn(kind: str) -> None:
    Z, y, weights = problem(kind, np.random.default_rng(KINDS.index(kind)))
    n_classes = int(y.max()) + 1
    found = logistic_path(Z, y, weights, PENALTIES, n_classes, tol=1e-18, max_iter=20_000)
    for fold, own in enumerate(weights):
        train = own > 0
        for k, C in enumerate(PENALTIES):
            model = LogisticRegression(C=C, solver="newton-cg", tol=1e-10, max_iter=10_000)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # line searches at the limit of precision
                model.fit(Z[train], y[train], own[train])
            expected = np.zeros((len(y), n_classes))
            expected[:, model.classes_] = model.predict_proba(Z)
            assert np.abs(class_probabilities(Z, found[fold, k]) - expected).max() < 1e-6


def test_default_tolerance_gives_probabilities_to_a_few_hundredths() -> None:
    rng = np.random.default_rng(0)
    Z, y, weights = problem("plain", rng)
    loose = logistic_path(Z, y, weights, PENALTIES, 4)
    tight = logistic_path(Z, y, weights, PENALTIES, 4, tol=1e-18, max_iter=20_000)
    for fold, k in np.ndindex(loose.shape[:2]):
        p, q = class_probabilities(Z, loose[fold, k]), class_probabilities(Z, tight[fold, k])
        assert np.abs(p - q).max() < 0.05


def test_one_class_has_all_the_probability() -> None:
    Z, weights = np.arange(6.0).reshape(3, 2), np.array([[1.0, 1.0, 0.0]])
    found = logistic_path(Z, np.array([1, 1, 0]), weights, [1.0], 2)
    np.testing.assert_array_equal(class_probabilities(Z, found[0, 0]), [[0.0, 1.0]] * 3)


def test_folds_do_not_depend_on_each_other() -> None:
    Z, y, weights = problem("plain", np.random.default_rng(3))
    both = logistic_path(Z, y, weights, PENALTIES, 4)
    for fold in range(2):
        alone = logistic_path(Z, y, weights[fold : fold + 1], PENALTIES, 4)
        np.testing.assert_array_equal(alone[0], both[fold])


def test_the_gradient_is_that_of_finite_differences() -> None:
    rng = np.random.default_rng(5)
    Z, y, _ = problem("plain", rng)
    rows, weights, present = (
        np.column_stack([Z, np.ones(len(Z))]),
        rng.random(len(y)),
        np.ones(4, bool),
    )
    columns, W = np.ascontiguousarray(rows.T), rng.normal(size=(4, rows.shape[1]))
    residual, gradient, unused = np.empty((4, len(y))), np.empty(W.shape), np.empty(W.shape)

    def loss(W: Any, gradient: Any = unused) -> float:
        return float(
            loss_and_gradient(W, rows, columns, y, weights, present, 1.0, residual, gradient)
        )

    p = class_probabilities(Z, W)[np.arange(len(y)), y]
    expected = -weights @ np.log(p) + 0.5 * np.sum(W[:, :-1] ** 2)
    assert loss(W, gradient) == pytest.approx(expected)
    for a, j in ((0, 0), (2, 5), (3, rows.shape[1] - 1)):
        step = np.zeros(W.shape)
        step[a, j] = 1e-6
        slope = (loss(W + step) - loss(W - step)) / 2e-6
        assert gradient[a, j] == pytest.approx(slope, rel=1e-5)


def test_the_solver_ends_where_the_gradient_is_zero() -> None:
    Z, y, _ = problem("plain", np.random.default_rng(6))
    rows, weights, present = (
        np.column_stack([Z, np.ones(len(Z))]),
        np.ones(len(y)),
        np.ones(4, bool),
    )
    columns, W = np.ascontiguousarray(rows.T), np.zeros((4, rows.shape[1]))
    evaluations = minimize_loss(W, rows, columns, rows**2, y, weights, present, 1.0, 1e-18, 1000)
    gradient = np.empty(W.shape)
    residual = np.empty((4, len(y)))
    loss_and_gradient(W, rows, columns, y, weights, present, 1.0, residual, gradient)
    assert np.abs(gradient).max() < 1e-6
    assert evaluations > 1

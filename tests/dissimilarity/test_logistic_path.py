"""Logistic regressions of all folds and penalties at once, beside scikit-learn's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from metricmix.dissimilarity.logistic_path import (
    MEMORY,
    add_multiple,
    class_probabilities,
    copy_to,
    find_direction,
    logistic_path,
    loss_and_residual,
    minimize_losses,
    penalised,
    scaled_square,
    write_shares,
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


@pytest.mark.parametrize("size", [1e-20, 1e7, 1e12])
def test_rows_may_be_short_or_long(size: float) -> None:
    Z, y, weights = problem("separable", np.random.default_rng(1))
    C = PENALTIES[1] / size**2  # the same fit in other units
    found = logistic_path(Z * size, y, weights, [C], 4)
    expected = logistic_path(Z, y, weights, PENALTIES[1:2], 4)
    for fold in range(2):
        p, q = (class_probabilities(X, W[fold, 0]) for X, W in ((Z * size, found), (Z, expected)))
        assert np.abs(p - q).max() < 0.02


def test_one_class_has_all_the_probability() -> None:
    Z, weights = np.arange(6.0).reshape(3, 2), np.array([[1.0, 1.0, 0.0]])
    found = logistic_path(Z, np.array([1, 1, 0]), weights, [1.0], 2)
    np.testing.assert_array_equal(class_probabilities(Z, found[0, 0]), [[0.0, 1.0]] * 3)


def test_folds_do_not_depend_on_each_other() -> None:
    rng = np.random.default_rng(3)
    Z, y, weights = problem("plain", rng)
    both = logistic_path(Z, y, weights, PENALTIES, 4)
    for fold in range(2):
        others = rng.integers(0, 9, weights.shape).astype(float)
        others[fold] = weights[fold]
        np.testing.assert_array_equal(logistic_path(Z, y, others, PENALTIES, 4)[fold], both[fold])


def test_folds_are_solved_as_if_alone() -> None:
    rng = np.random.default_rng(4)
    Z, y, _ = problem("plain", rng)
    weights = rng.integers(0, 3, (7, len(y))).astype(float)  # more folds than a group has
    together = logistic_path(Z, y, weights, PENALTIES, 4, tol=1e-18, max_iter=20_000)
    for fold, own in enumerate(weights):
        alone = logistic_path(Z, y, own[None], PENALTIES, 4, tol=1e-18, max_iter=20_000)
        for one, other in zip(alone[0], together[fold], strict=True):
            p, q = class_probabilities(Z, one), class_probabilities(Z, other)
            np.testing.assert_allclose(p, q, atol=1e-6)


def test_the_residual_is_the_slope_of_the_loss() -> None:
    rng = np.random.default_rng(5)
    _, y, _ = problem("plain", rng)
    logits, weights, present = rng.normal(size=(4, len(y))), rng.random(len(y)), np.ones(4, bool)
    weights[::7] = 0.0
    residual, unused = np.empty(logits.shape), np.empty(logits.shape)
    loss = loss_and_residual(logits, y, weights, present, residual)
    p = np.exp(logits) / np.exp(logits).sum(axis=0)
    assert loss == pytest.approx(-weights @ np.log(p[y, np.arange(len(y))]))
    for a, i in ((0, 0), (2, 5), (3, 8)):
        step = np.zeros(logits.shape)
        step[a, i] = 1e-6
        ends = [
            loss_and_residual(logits + sign * step, y, weights, present, unused)
            for sign in (1.0, -1.0)
        ]
        assert residual[a, i] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-8)


def test_the_solver_ends_where_the_gradient_is_zero() -> None:
    Z, y, weights = problem("plain", np.random.default_rng(6))
    rows, present = np.column_stack([Z, np.ones(len(Z))]), np.ones((2, 4), bool)
    W = np.zeros((2, 4, rows.shape[1]))
    table = rows, np.ascontiguousarray(rows.T), rows * rows
    iterations = minimize_losses(W, *table, y, weights, present, 1e-18, 1000)
    assert np.all(iterations > 1)
    for fold, own in enumerate(weights):
        residual = own[:, None] * (class_probabilities(Z, W[fold]) - np.eye(4)[y])
        gradient = residual.T @ rows
        gradient[:, :-1] += W[fold, :, :-1]
        assert np.abs(gradient).max() < 1e-6


@pytest.mark.parametrize(("kept", "latest"), [(0, 0), (1, 1), (5, 2), (MEMORY, 3)])
def test_the_direction_is_that_of_the_inverse_hessian_of_bfgs(kept: int, latest: int) -> None:
    rng = np.random.default_rng(kept)
    g, h, d = rng.normal(size=(3, 4)), rng.random((3, 4)) + 0.5, np.empty((3, 4))
    steps, slopes = rng.normal(size=(MEMORY, 3, 4)), rng.random((3, 4)) + 0.5
    changes = steps * slopes + 0.01 * rng.normal(size=steps.shape)
    curvature = np.einsum("maj,maj->m", steps, changes)
    assert curvature.min() > 0
    inverse = np.diag(1 / h.ravel())
    if kept:
        y = changes[latest].ravel()
        inverse *= curvature[latest] / (y @ inverse @ y)
    for m in reversed(range(kept)):  # the latest step last
        s, y = (pairs[(latest - m) % MEMORY].ravel() for pairs in (steps, changes))
        keep = np.eye(12) - np.outer(y, s) / (s @ y)
        inverse = keep.T @ inverse @ keep + np.outer(s, s) / (s @ y)
    find_direction(g, h, steps, changes, curvature, kept, latest, d)
    np.testing.assert_allclose(d.ravel(), inverse @ g.ravel(), rtol=1e-9, atol=1e-9)


def test_shares_are_the_weighted_variances_of_the_classes() -> None:
    rng = np.random.default_rng(7)
    y, weights, logits = rng.integers(0, 3, 20), rng.random(20), rng.normal(size=(3, 20))
    weights[::4] = 0.0
    p = np.exp(logits) / np.exp(logits).sum(axis=0)
    share = np.full(p.shape, 7.0)  # to be overwritten
    write_shares(weights * (p - np.eye(3)[:, y]), y, weights, share)
    np.testing.assert_allclose(share, weights * p * (1 - p), atol=1e-14)


def test_sums_and_multiples_of_matrices() -> None:
    rng = np.random.default_rng(8)
    A, B = rng.normal(size=(2, 3, 5))
    h = rng.random((3, 5)) + 0.1
    assert scaled_square(A, h) == pytest.approx((A * A / h).sum())
    assert penalised(A, B) == pytest.approx((A[:, :-1] * B[:, :-1]).sum())
    for columns in (5, 4):
        found, expected = A.copy(), A.copy()
        expected[:, :columns] += -0.3 * B[:, :columns]
        add_multiple(found, -0.3, B, columns)
        np.testing.assert_allclose(found, expected, rtol=1e-14)
    copy_to(A, found)
    np.testing.assert_array_equal(found, A)
    copy_to(A, found, -2.0)
    np.testing.assert_array_equal(found, -2.0 * A)

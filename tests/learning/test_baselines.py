"""Classifiers on a table that learn no metric, beside those of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from metricmix.learning.baselines import PENALTIES, TableRows, inner_folds

L = 90
TEST = np.arange(0, L, 3)
TRAIN = np.setdiff1d(np.arange(L), TEST)


def problem(case: str) -> tuple[Any, np.ndarray]:
    """A table of L rows, and their classes."""
    rng = np.random.default_rng(["narrow", "wide", "sparse", "two classes"].index(case))
    y = rng.integers(2 if case == "two classes" else 4, size=L)
    table = rng.normal(size=(L, 200 if case == "wide" else 5)) + 0.7 * y[:, None]
    if case == "sparse":
        return csr_array(np.where(rng.random(table.shape) < 0.5, table, 0.0)), y
    return table, y


def scaled(table: Any) -> np.ndarray:
    rows = table if isinstance(table, np.ndarray) else table.toarray()
    rows = rows - rows.mean(axis=0)
    return rows / np.sqrt((rows**2).sum() / len(rows))


def tuned(model: Any, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fit with the C that is right most often on parts of the training rows, and predict."""
    X, classes = rows[TRAIN], y[TRAIN]
    right = np.zeros(len(PENALTIES))
    for known, out in inner_folds(classes):
        for k, C in enumerate(PENALTIES):
            answer = model(C).fit(X[known], classes[known]).predict(X[out])
            right[k] += (answer == classes[out]).sum()
    return model(PENALTIES[int(right.argmax())]).fit(X, classes).predict(rows[TEST])


@pytest.mark.parametrize("case", ["narrow", "wide", "sparse", "two classes"])
def test_predictions_are_those_of_scikit_learn(case: str) -> None:
    table, y = problem(case)
    found, rows = TableRows(table, np.ones(L, dtype=bool)), scaled(table)
    asked = (TRAIN, y[TRAIN], TEST)
    nearest = KNeighborsClassifier(1).fit(rows[TRAIN], y[TRAIN]).predict(rows[TEST])
    assert np.array_equal(found.nearest(*asked), nearest)
    logistic = tuned(lambda C: LogisticRegression(C=C, tol=1e-8, max_iter=10_000), rows, y)
    assert (found.logistic(*asked) == logistic).mean() > 0.96  # it stops a little earlier
    support = tuned(lambda C: SVC(C=C, gamma=1.0), rows, y)
    assert np.array_equal(found.support_vectors(*asked), support)
    apart = euclidean_distances(rows[TEST], rows[TRAIN], squared=True)
    assert found.apart(TEST, TRAIN) == pytest.approx(apart, abs=1e-12)


def test_a_single_class_is_predicted_of_all() -> None:
    table, _ = problem("narrow")
    rows = TableRows(table, np.ones(L, dtype=bool))
    for predict in (rows.nearest, rows.logistic, rows.support_vectors):
        assert predict(TRAIN, np.full(len(TRAIN), 3), TEST).tolist() == [3] * len(TEST)


def test_some_of_the_labels_are_learned_from() -> None:
    table, y = problem("narrow")
    some = np.arange(L) % 2 == 0
    own, half = TableRows(table, some), TRAIN[some[TRAIN]]
    everyone = TableRows(table, np.ones(L, dtype=bool))
    for name in ("nearest", "logistic", "support_vectors"):
        found = getattr(own, name)(TRAIN, y[TRAIN], TEST)
        assert np.array_equal(found, getattr(everyone, name)(half, y[half], TEST))

"""Choosing settings from few labels: stack and paths reused, against a grid search."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from benchmarks.measure import best_time, headline, table
from metricmix import DissimilarityStack, MetricMixtureClassifier, MetricMixtureClassifierCV
from metricmix.dissimilarity import features, knn_path_length
from metricmix.estimators import KNearest, LabelledKFold

TITLE = "Choosing rho, rule and k from 100 labels among 1000 items, 5 folds"
N, LABELS = 1000, 100


def run() -> str:
    X, y = (part[:N] for part in load_digits(return_X_y=True))
    sources = [features(X, "cosine"), features(X, "cityblock"), knn_path_length(X, 8)]
    stack = DissimilarityStack(sources, scaling="mean")
    known = np.where(np.arange(N) < LABELS, y, -1)
    folds = LabelledKFold(5, random_state=0)
    rhos, ks = (1e-4, 1e-3, 1e-2), (3, 5, 10)
    rules = ["class-mean", "nearest", *map(KNearest, ks)]
    ours = MetricMixtureClassifierCV(stack, rhos=rhos, rules=rules, cv=folds)
    grid = {"rho": rhos, "rule": rules}
    theirs = GridSearchCV(MetricMixtureClassifier(stack), grid, cv=folds)
    items = np.arange(N)
    mine = best_time(lambda: ours.fit(items, known), repeats=2)
    peer = best_time(lambda: theirs.fit(items, known), repeats=1)
    rows = [
        ["scikit-learn's `GridSearchCV`", f"{peer:.1f} s", "", f"{theirs.best_score_:.3f}"],
        [
            "`MetricMixtureClassifierCV`",
            f"{mine:.1f} s",
            f"**{peer / mine:.1f}x**",
            f"{ours.best_score_:.3f}",
        ],
    ]
    headline(
        f"choosing among 15 settings, {LABELS} labels, {N} items",
        f"{mine:.1f} s",
        f"{peer / mine:.1f}x scikit-learn's GridSearchCV, same folds",
    )
    return table(["15 settings", "time", "ratio", "best accuracy"], rows)

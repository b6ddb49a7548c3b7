"""Splits of a decision tree, by trying all of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np


def score_of(targets: Any, weights: Any, left: Any) -> float:
    """Return the sum over both sides of the squared sum of targets over the weight."""
    sides = [(weights[side], targets[side]) for side in (left, ~left)]
    return sum(float(np.sum((w @ t) ** 2) / w.sum()) for w, t in sides)


def best_score(X: Any, targets: Any, weights: Any) -> float:
    """Return the largest score of all splits by one column."""
    return max(
        score_of(targets, weights, column <= value)
        for column in X.T
        for value in np.unique(column)[:-1]
    )


def tree_of(X: Any, targets: Any, weights: Any) -> list[tuple[int, float, int, Any]]:
    """Return column, threshold, other child and mean of all nodes, each before its children.

    Of a leaf the column and the other child are -1. Nodes are split while their targets differ.
    """
    mean = weights @ targets / weights.sum()
    splits = [
        (score_of(targets, weights, X[:, column] <= low), column, (low + high) / 2)
        for column in range(X.shape[1])
        for low, high in pairwise(np.unique(X[:, column]))
    ]
    if not splits or np.ptp(targets, axis=0).max() == 0:
        return [(-1, 0.0, -1, mean)]
    _, column, threshold = max(splits)
    left = X[:, column] <= threshold
    near, far = (tree_of(X[side], targets[side], weights[side]) for side in (left, ~left))
    nodes = [(column, threshold, 1 + len(near), mean)]
    for first, part in ((1, near), (1 + len(near), far)):
        nodes += [(c, t, o + first if o >= 0 else -1, m) for c, t, o, m in part]
    return nodes

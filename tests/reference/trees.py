"""Splits of a decision tree, by trying all of them."""

from __future__ import annotations

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

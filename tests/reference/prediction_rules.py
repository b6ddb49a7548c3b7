"""Prediction rules by their definitions, one item at a time, from distances to everything."""

from __future__ import annotations

import math


def _normalised(values):
    total = sum(values)
    return [v / total for v in values]


def nearest(to_labelled, y, classes):
    """exp(-distance to the class), normalised."""
    least = [min(d for d, c in zip(to_labelled, y, strict=True) if c == k) for k in classes]
    return _normalised([math.exp(min(least) - d) for d in least])


def class_mean(to_labelled, within, y, classes):
    """exp(-distance to the mean of the class), normalised."""
    scores = []
    for k in classes:
        members = [i for i, c in enumerate(y) if c == k]
        mean = sum(to_labelled[i] for i in members) / len(members)
        half = sum(within[i][j] for i in members for j in members) / len(members) ** 2 / 2
        scores.append(mean - half)
    return _normalised([math.exp(min(scores) - s) for s in scores])


def spread(weights, y, classes, alpha, steps=3000):
    """F <- alpha S F + (1 - alpha) Y with S = D^-1/2 W D^-1/2, until it no longer moves."""
    n = len(weights)
    degree = [sum(row) for row in weights]
    given = [[float(c == k) for k in classes] for c in y]
    scores = [row[:] for row in given]
    for _ in range(steps):
        scores = [
            [
                alpha
                * sum(
                    weights[i][j] * scores[j][k] / math.sqrt(degree[i] * degree[j])
                    for j in range(n)
                    if weights[i][j] > 0
                )
                + (1 - alpha) * given[i][k]
                for k in range(len(classes))
            ]
            for i in range(n)
        ]
    return scores

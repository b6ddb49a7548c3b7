"""From distances to class probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.objectives.class_means import class_mean_scores, half_means

__all__ = ["by_distance_to_class", "judge", "softmax", "votes"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def judge(
    rule: str,
    d: Floats,
    codes: Indices,
    n_classes: int,
    *,
    k: int,
    by_distance: bool,
    within: Floats,
) -> Floats:
    """Return what a rule makes of distances `d` (M, L) to labelled items of classes `codes` (L,).

    For all rules but "spreading"; `within` (L, L) are the distances between the labelled items. So
    rules are compared on the same shortest paths.
    """
    if rule == "class-mean":
        scores = class_mean_scores(d, codes, n_classes, half_means(within, codes, n_classes))
        return softmax(-scores)
    if rule == "nearest":
        to_class = np.full((n_classes, len(d)), np.inf)
        np.minimum.at(to_class, codes, d.T)
        return by_distance_to_class(to_class.T)
    k = min(k, len(codes))
    nearest = np.argsort(d, axis=1, kind="stable")[:, :k]
    return votes(np.take_along_axis(d, nearest, axis=1), nearest, codes, n_classes, by_distance)


def by_distance_to_class(d: Floats) -> Floats:
    """Return exp(-d), each row divided by its sum; the nearest class has the largest share.

    Where distances are so small that rounding would make shares equal, it has a hair more.
    """
    p = softmax(-d)
    rows, nearest = np.arange(len(d)), d.argmin(axis=1)
    tied = p.argmax(axis=1) != nearest
    p[rows[tied], nearest[tied]] = np.nextafter(p[tied].max(axis=1), 1.0)
    return p


def votes(
    distances: Floats, items: Indices, codes: Indices, n_classes: int, by_distance: bool
) -> Floats:
    """Return the share of the votes of `items` (M, k), at `distances`, that each class has."""
    weights = np.ones_like(distances)
    if by_distance:  # as in scikit-learn: at distance 0, only such items have a vote
        zero = distances <= 0.0
        weights = np.where(zero, 1.0, 1.0 / np.where(zero, 1.0, distances))
        weights = np.where(zero.any(axis=1, keepdims=True), zero, weights)
    shares = np.zeros((len(items), n_classes))
    np.add.at(shares, (np.arange(len(items))[:, None], codes[items]), weights)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def softmax(scores: Floats) -> Floats:
    """Return exp(scores), each row divided by its sum."""
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))

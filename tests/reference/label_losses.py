"""Losses over labels by their definitions, one item at a time."""

from __future__ import annotations

import math


def weighted_mean(values, weights):
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def class_score(d, x, members, weights, shift=0):
    """Mean distance from x to the members, minus half of the mean over their ordered pairs.

    Member i is point i + `shift`.
    """
    to_class = weighted_mean([d[x][i + shift] for i in members], [weights[i] for i in members])
    pairs = [(i, j) for i in members for j in members]
    within = weighted_mean(
        [0.0 if i == j else d[i + shift][j + shift] for i, j in pairs],
        [weights[i] * weights[j] for i, j in pairs],
    )
    return to_class - within / 2


def members_of(y, c, weights):
    return [i for i in range(len(y)) if y[i] == c and weights[i] > 0]


def labelled_items(y, weights):
    return [i for i in range(len(y)) if y[i] != -1 and weights[i] > 0]


def class_means_loss(d, y, weights=None, shift=0):
    """Weighted mean of the leave-one-out cross-entropy, and the weight of the items that count.

    Classes are made of the points i + `shift`.
    """
    weights = [1.0] * len(y) if weights is None else weights
    items = labelled_items(y, weights)
    classes = sorted({int(y[i]) for i in items})
    losses, counted = [], []
    for x in items:
        own = [i for i in members_of(y, y[x], weights) if i != x]
        if not own:
            continue
        score = {
            c: class_score(d, x, own if c == y[x] else members_of(y, c, weights), weights, shift)
            for c in classes
        }
        losses.append(-math.log(math.exp(-score[y[x]]) / sum(math.exp(-s) for s in score.values())))
        counted.append(weights[x])
    return weighted_mean(losses, counted), sum(counted)


def neighbourhood_loss(d, y, weights=None):
    """Weighted mean of -log of the probability to draw a neighbour of the same class."""
    weights = [1.0] * len(y) if weights is None else weights
    items = labelled_items(y, weights)
    losses, counted = [], []
    for x in items:
        others = [i for i in items if i != x]
        own = [i for i in others if y[i] == y[x]]
        if own:
            near = {i: weights[i] * math.exp(-d[x][i]) for i in others}
            losses.append(-math.log(sum(near[i] for i in own) / sum(near.values())))
            counted.append(weights[x])
    return weighted_mean(losses, counted)


def links_loss(d, must, cannot, threshold):
    """Logistic losses, the two kinds one half each."""
    together = [math.log(1 + math.exp(d[i][j] - threshold)) for i, j in must]
    apart = [math.log(1 + math.exp(threshold - d[i][j])) for i, j in cannot]
    if not together:
        return sum(apart) / len(apart)
    return sum(together) / len(together) / 2 + sum(apart) / len(apart) / 2

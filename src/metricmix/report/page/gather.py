"""The data of a page from a fitted classifier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.metric import metric_violations
from metricmix.paths.all_pairs import path_metric
from metricmix.report.page.data import (
    Accuracy,
    Certificate,
    Confusion,
    Convergence,
    Items,
    PageData,
    View,
    Weight,
)
from metricmix.report.page.embed import chosen_pairs, embed_paths
from metricmix.report.page.layout import place, turn_to

__all__ = ["gather"]


def gather(
    model: MetricMixtureClassifier,
    *,
    title: str = "A learned metric",
    n_bootstrap: int = 100,
    accuracies: Sequence[Accuracy] = (),
    confusion: Confusion | None = None,
) -> PageData:
    """Return what a page shows of a fitted classifier.

    Accuracies and the confusion table come from a cross-validation, which the caller has done:
    what the model makes of its own items would flatter it.
    """
    stack, lengths = model.stack_, model._lengths()
    given = np.asarray(model._codes >= 0)
    labels = np.searchsorted(model.classes_, model.transduction_)
    items = Items(
        ids=tuple(str(item) for item in stack.items.tolist()),
        classes=tuple(str(label) for label in model.classes_.tolist()),
        labels=labels,
        given=given,
        misfit=given & (model._rule.members.argmax(axis=1) != labels),
    )
    metric = path_metric(stack, model.mixture_)
    mixture = place(metric)
    views = [View("mixture", mixture)]
    views += [View(name, turn_to(place(stack.source(name)), mixture)) for name in stack.names]
    table = model.weights_table(n_bootstrap=n_bootstrap, random_state=0)
    rows = zip(table["name"], table["weight"], table["lower"], table["upper"], strict=True)
    found = metric_violations(metric, directed=stack.directed)
    trace = model.result_.trace
    return PageData(
        title=title,
        items=items,
        views=tuple(views),
        weights=tuple(Weight(str(name), *map(float, numbers)) for name, *numbers in rows),
        paths=embed_paths(lengths, chosen_pairs(metric, given, directed=stack.directed)),
        convergence=Convergence(
            tuple(trace.iteration), tuple(trace.objective), model.result_.status.value
        ),
        confusion=confusion,
        accuracies=tuple(accuracies),
        certificate=Certificate(found.triangle, _triangles(stack.n_items, stack.directed)),
    )


def _triangles(n: int, directed: bool) -> int:
    """Return how many inequalities were looked at: a pair, and a third item."""
    return n * (n - 1) * (n - 2) // (1 if directed else 2)

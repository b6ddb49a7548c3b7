"""Estimators with fixed settings, for tests of everything else."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import metricmix as mm
from metricmix.learning.learned import Learned

classifier = partial(
    mm.MetricMixtureClassifier, constraint="nonnegative", rho=1e-3, rule="class-mean"
)
"""A classifier that chooses nothing, so that a fit is quick; arguments replace these settings."""


def signed_classifier(stack: Any, X: Any, y: Any, **options: Any) -> mm.MetricMixtureClassifier:
    """Return a fitted classifier with signed weights, so that many paths have several edges."""
    signed = {"constraint": None, "projection": False, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ProjectionWarning)
        return classifier(stack, **signed).fit(X, y)


def with_mixture(learned: Learned, weights: Any) -> Learned:
    """Return what was learned, with other weights."""
    mixture = mm.Mixture(weights, learned.stack.names, scaling=learned.stack.scales)
    return replace(learned, result=replace(learned.result, mixture=mixture))

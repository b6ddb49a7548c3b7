"""The metrics between rows of features that have a name, and what holds for each."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import numpy as np

from metricmix.dissimilarity.matrix import SourceFacts
from metricmix.exceptions import InputError

__all__ = [
    "ALIASES",
    "BY_PRODUCT",
    "BY_SKLEARN",
    "FACTS",
    "OF_DIRECTIONS",
    "ON_SETS",
    "Metric",
    "check_metric_name",
    "feature_facts",
    "metric_name",
]

FACTS = {
    "euclidean": SourceFacts("metric", new_items=True),
    "sqeuclidean": SourceFacts("no", new_items=True),
    "cosine": SourceFacts("no", bound=2.0, new_items=True),
    "angular": SourceFacts("pseudo-metric", bound=1.0, new_items=True),
    "normalized-euclidean": SourceFacts("no", new_items=True),
    "cityblock": SourceFacts("metric", new_items=True),
    "chebyshev": SourceFacts("metric", new_items=True),
    "minkowski": SourceFacts("metric", new_items=True),  # with p >= 1, and p = 2 unless given
    "seuclidean": SourceFacts("metric", new_items=True),
    "mahalanobis": SourceFacts("metric", new_items=True, row_cost="O(n d^2)"),
    "canberra": SourceFacts("metric", new_items=True),  # bounded by d
    "braycurtis": SourceFacts("no", new_items=True),  # bounded by 1 for features >= 0
    "correlation": SourceFacts("no", bound=2.0, new_items=True),
    "hamming": SourceFacts("metric", bound=1.0, new_items=True),
    "jensenshannon": SourceFacts("pseudo-metric", bound=np.sqrt(np.log(2.0)), new_items=True),
    "haversine": SourceFacts("pseudo-metric", bound=np.pi, new_items=True),
    "nan_euclidean": SourceFacts("no", new_items=True),
    # On sets, X != 0: rows with the same non-zero features are at 0.
    "jaccard": SourceFacts("pseudo-metric", bound=1.0, new_items=True),
    "rogerstanimoto": SourceFacts("pseudo-metric", bound=1.0, new_items=True),
    "sokalsneath": SourceFacts("pseudo-metric", bound=1.0, new_items=True),
    "russellrao": SourceFacts("pseudo-metric", bound=1.0, new_items=True),
    "dice": SourceFacts("no", bound=1.0, new_items=True),
    "yule": SourceFacts("no", bound=2.0, new_items=True),
}
"""The named metrics, and what holds for each of them whatever the table."""
ALIASES = {"l2": "euclidean", "l1": "cityblock", "manhattan": "cityblock"}
BY_PRODUCT = ("euclidean", "sqeuclidean", "cosine", "angular", "normalized-euclidean")
OF_DIRECTIONS = ("cosine", "angular")
BY_SKLEARN = ("haversine", "nan_euclidean")
ON_SETS = ("dice", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule")

Metric = str | Callable[..., float]


def check_metric_name(metric: Metric) -> None:
    """Raise unless `metric` is a function or a name that :func:`features` knows."""
    known = {*FACTS, *ALIASES}
    if not callable(metric) and not (isinstance(metric, str) and metric in known):
        close = difflib.get_close_matches(str(metric), sorted(known), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, close))}" if close else "see the documentation"
        raise InputError(
            argument="metric",
            expected="a known name or a function",
            found=f"{metric!r}",
            remedy=f"{hint}?",
        )


def metric_name(metric: Metric) -> str:
    """Return the name of what :func:`features` computes with this metric."""
    if callable(metric):
        return str(getattr(metric, "__name__", "features"))
    return ALIASES.get(metric, metric)


def feature_facts(metric: Metric, params: dict[str, Any]) -> SourceFacts:
    """Return what holds for a metric with parameters: little, unless they are known to be harmless.

    >>> feature_facts("minkowski", {"p": 3}).metric, feature_facts("minkowski", {"p": 0.5}).metric
    ('metric', 'no')
    """
    if callable(metric):
        return SourceFacts("no", new_items=True, row_cost="n calls")
    known = FACTS[ALIASES.get(metric, metric)]
    norm = metric == "minkowski" and set(params) <= {"p"} and params.get("p", 2) >= 1
    return (
        known if norm or not params else SourceFacts("no", new_items=True, row_cost=known.row_cost)
    )

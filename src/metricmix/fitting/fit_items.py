"""Fit to items: build the sources, learn, evaluate."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.item_sources import known_shares, little_data, lowered
from metricmix.dissimilarity.plan import JoinedData, Plan
from metricmix.dissimilarity.value_storage import ValueStorage
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.cross_validation import MetricMixtureClassifierCV
from metricmix.estimators.predictor import MixturePredictor
from metricmix.estimators.regressor import MetricMixtureRegressor
from metricmix.exceptions import ConvergenceWarning
from metricmix.fitting.as_new import ComparingNew
from metricmix.fitting.outcome import FitOutcome
from metricmix.fitting.plan import FitRequest, OnProgress, StepProgress
from metricmix.learning.bootstrap import weight_columns
from metricmix.learning.comparison import compare
from metricmix.learning.findings import diagnose
from metricmix.learning.held_out import fold_seeds, held_out_of
from metricmix.learning.learned import Learned
from metricmix.learning.rules.rule import as_rule
from metricmix.learning.verdict import Comparison
from metricmix.paths.geodesic import Stretch, stretch
from metricmix.paths.learned_metric import nearest_others
from metricmix.typing import Floats, Indices

__all__ = ["fit_estimator", "fit_plan"]

MOST_COMPARED, FEWEST_COMPARED, SEARCHED_UP_TO = 200, 36, 5000
"""Pairs whose distances along edges and over all pairs are compared, and up to how many items the
latter are searched: a pair takes about 0.006 n rows. Beyond, a bound takes about one row."""


def fit_plan(
    plan: Plan,
    settings: FitRequest,
    *,
    storage: ValueStorage | None = None,
    on_progress: OnProgress | None = None,
) -> FitOutcome:
    """Build the sources, learn and evaluate: all that a run folder holds, except the page.

    `storage` is what the sizes and settings say, by default.
    """
    storage = storage or settings.storage(plan)
    progress = StepProgress(settings, storage, on_progress)
    comparison, metric, apart = None, None, None
    told = ConvergenceWarning if plan.report.target is None else UserWarning  # far targets too
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", told)
        with progress.step("sources") as report:
            gathered = plan.build(storage, report)
        with progress.step("learning"):
            model = fit_estimator(gathered, settings)
            learned = model.learned_
        if settings.n_bootstrap and model.result_.objective_kind != "none":
            with progress.step("intervals") as report:
                weights = weight_columns(
                    learned, settings.n_bootstrap, random_state=settings.seed, on_resample=report
                )
        else:
            weights = weight_columns(learned, 0)
        known, task, as_new = model.known_, learned.task, None
        if settings.held_out == "new":
            about: Any = {"gathered": gathered, "settings": settings, "fit": fit_estimator}
            as_new = partial(ComparingNew, **about)
        if settings.n_splits != 0 and len(known.items) >= task.fewest:
            with progress.step("accuracy") as report:
                comparison = compare(
                    model.learned_,
                    order=gathered.items.order,
                    n_splits=settings.n_splits,
                    random_state=settings.seed,
                    on_fold=report,
                    comparing=as_new,
                )
        stayed = None if settings.held_out == "new" else comparison
        if storage.kind == "matrices":
            with progress.step("metric"):
                metric = model.compute_metric()
                items = nearest_labelled_item(metric, known.mask)
                nearest = items, metric[np.arange(len(items)), items]
                probabilities = held_out_answers(learned, stayed, settings.seed)
        else:
            with progress.step("nearest"):
                distances, items = nearest_others(learned.lengths, None, known.items)
                nearest = items[:, 0], distances[:, 0]
                probabilities = held_out_answers(learned, stayed, settings.seed)
        shares = known_shares(gathered.sources, model.weights_)
        if not task.is_numeric:
            probabilities = lowered(probabilities, shares)
        findings = diagnose(learned, answers=probabilities)
        if isinstance(gathered.stack, EdgeStack):
            with progress.step("stretch"):
                apart = measured_stretch(model)
    return FitOutcome(
        settings=settings,
        model=model,
        gathered=gathered,
        weights=weights,
        storage=storage,
        metric=metric,
        nearest=nearest,
        probabilities=probabilities,
        comparison=comparison,
        notes=(
            *little_data(gathered.items.ids, shares, numbers=task.is_numeric),
            *dict.fromkeys(str(warning.message) for warning in caught),
        ),
        progress=progress,
        stretch=apart,
        findings=findings,
    )


def held_out_answers(learned: Learned, comparison: Comparison | None, seed: int = 0) -> Floats:
    """Return what the rule says of all items; of labelled ones, by refits without their labels.

    Those of the comparison, where it has held all of them out; else of the folds that it has by
    default.
    """
    if comparison is None or len(comparison.items) < len(learned.labels.items):
        return held_out_of(learned, fold_seeds(seed)[0]).among_all(learned)
    assert learned.known is not None
    answers = learned.answers.copy()
    answers[learned.known.items] = comparison.answers[0]
    return answers


def measured_stretch(model: MixturePredictor) -> Stretch:
    """Return how far distances along the edges lie above those over all pairs, on some pairs.

    For more than 5000 items, a bound of it.
    """
    stack = model.stack_
    assert isinstance(stack, EdgeStack)
    n = stack.n_items
    searched = n <= SEARCHED_UP_TO
    return stretch(stack, model.mixture_, n_pairs=pairs_to_compare(n), exact=searched)


def pairs_to_compare(n: int) -> int:
    """Return how many pairs of items are compared to estimate the stretch.

    >>> pairs_to_compare(1000), pairs_to_compare(5000), pairs_to_compare(10**6)
    (200, 100, 36)
    """
    affordable = 2_500_000_000 // n**2 if n <= SEARCHED_UP_TO else 4_000_000 // n
    return max(FEWEST_COMPARED, min(MOST_COMPARED, affordable))


def fit_estimator(gathered: JoinedData, settings: FitRequest) -> MixturePredictor:
    """Fit the estimator, its rule and rho chosen by cross-validation if `settings.tune`."""
    options: dict[str, Any] = {
        "objective": settings.objective,
        "constraint": settings.constraint,
        "random_state": settings.seed,
        "geodesic": settings.geodesic if gathered.stack.edges is None else None,
    }
    if settings.tune:
        if settings.rule is not None:
            rule: Any = as_rule(settings.rule)
            more = (replace(rule, n_neighbors=10),) if hasattr(rule, "n_neighbors") else ()
            options["rules"] = (rule, *more)
        options["rhos"] = None if settings.rho is None else (settings.rho,)
    else:
        options["rule"], options["rho"] = settings.rule, settings.rho
    stated = {name: value for name, value in options.items() if value is not None}
    if settings.constraint == "signed":
        stated["constraint"] = None
    X: Any = gathered.stack
    if gathered.stack.supervised:  # every fold computes these from its own labels
        stated["sources"], X = gathered.stack, gathered.stack.items
    groups = gathered.items.groups
    if gathered.items.targets is not None:
        return MetricMixtureRegressor(**stated).fit(X, gathered.items.targets, groups=groups)
    if settings.local is not None:
        stated["local"] = None if settings.local == "none" else settings.local
    labels, stated["class_weight"] = np.array(gathered.items.labels), settings.class_weights
    if settings.tune:
        return MetricMixtureClassifierCV(**stated).fit(X, labels, groups=groups).best_estimator_
    return MetricMixtureClassifier(**stated).fit(X, labels, groups=groups)


def nearest_labelled_item(distances: Floats, labelled: NDArray[np.bool_]) -> Indices:
    """Return the nearest labelled item of each item, other than itself; -1 where there is none."""
    candidates = np.flatnonzero(labelled)
    if not len(candidates):
        return np.full(len(distances), -1)
    to_labelled = distances[:, candidates]
    to_labelled[candidates, np.arange(len(candidates))] = np.inf
    nearest = candidates[to_labelled.argmin(axis=1)]
    return np.where(np.isfinite(to_labelled.min(axis=1)), nearest, -1)

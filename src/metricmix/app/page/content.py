"""How the content of a page is computed from a fitted classifier or regressor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from metricmix.app.page.embedding import align, make_views, plane_coordinates
from metricmix.app.page.page_paths import (
    edges_to_phrase,
    embed_chains,
    embed_paths,
    example_path,
    pairs_to_embed,
)
from metricmix.app.page.values import (
    MAX_ITEMS,
    Accuracy,
    ConfusionMatrix,
    LocalWeights,
    MetricCheck,
    ObjectiveCurve,
    PageContent,
    PageItems,
    View,
    Weight,
)
from metricmix.dissimilarity.known import Known
from metricmix.estimators.predictor import MixturePredictor
from metricmix.exceptions import InputError
from metricmix.fitting.fit_items import nearest_labelled_item
from metricmix.labels import class_numbers
from metricmix.metric import metric_violations
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.local import LocalMixture
from metricmix.paths.trees import distances_from
from metricmix.plots.style import SCALE
from metricmix.typing import Floats, Indices

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Annotations",
    "Precomputed",
    "default_n_bootstrap",
    "distances_among",
    "fitted_predictor",
    "page_content",
    "shown_items",
]

MAX_SAMPLE, MAX_SAMPLE_OF_ROWS = 3000, 1000
"""Items on the page of a sample, and where rows are computed again in every search."""
SEARCHED, FEWEST = 500_000_000, 200
"""Items of a sample times all items, at most: minutes of searches along edges; the fewest."""


def fitted_predictor(model: object) -> MixturePredictor:
    """Return the model, or the best estimator of a search, if it is fitted and predicts."""
    found = getattr(model, "best_estimator_", model)
    if not isinstance(found, MixturePredictor):
        raise InputError(
            argument="model",
            expected="a fitted MetricMixtureClassifier or MetricMixtureRegressor",
            found=type(model).__name__,
        )
    check_is_fitted(found)
    return found


def label_numbers(model: MixturePredictor) -> tuple[tuple[str, ...], Indices]:
    """Return the classes as texts, and the class number of every item.

    The classes of a numeric target are ranges with about as many items each, from low to high.
    """
    if not model.known_.is_numeric:
        names = tuple(str(label) for label in model.classes_.tolist())
        return names, class_numbers(model.classes_, model.transduction_)
    y = model.transduction_
    ends = np.unique(np.quantile(y, np.linspace(0, 1, len(SCALE) + 1)))
    ends = ends if len(ends) > 1 else np.array([y.min(), y.max()])
    labels = np.clip(np.searchsorted(ends, y, side="right") - 1, 0, len(ends) - 2)
    return tuple(f"{a:.4g} to {b:.4g}" for a, b in pairwise(ends.tolist())), labels


def shown_items(model: MixturePredictor) -> Indices | None:
    """Return the items on the page, in their order; None for all.

    All are shown up to 65535 items with full matrices, 1000 with computed rows, and 3000 along
    sparse edges. Beyond, a sample of 3000 (1000 of computed rows, and fewer than 3000 from 170 000
    items on, along sparse edges): as many labelled items as fit, the classes in turn, and then
    others, the classes that were found for them in turn.
    """
    stack = model.stack_
    n, most = stack.n_items, MAX_SAMPLE
    if stack.edges is not None:
        most = min(most, max(FEWEST, SEARCHED // n))
    elif stack.block is None:
        most = MAX_SAMPLE_OF_ROWS
    if n <= (MAX_ITEMS if stack.block is not None else most):
        return None
    labels = label_numbers(model)[1]
    known = model.known_
    given, found = known.items, np.flatnonzero(~known.mask)
    everyone = Known(labels, int(labels.max()) + 1)
    first = everyone.only(given).some(most).items
    rest = everyone.only(found).some(most - len(first)).items
    return np.sort(np.concatenate([first, rest]))


def target_misfits(
    model: MixturePredictor, predicted: Floats, given: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which known targets are far from what is predicted: beyond three usual errors.

    The usual error is 1.48 times the median absolute one, the standard deviation of normal errors.
    """
    error = np.abs(model.transduction_ - predicted)
    usual = 1.4826 * float(np.median(error[given]))
    misfit_from = 3.0  # usual errors from which on a known target is a misfit
    return given & (error > misfit_from * usual)


def distances_among(lengths: EdgeLengths, items: Indices) -> Floats:
    """Return the path metric among some items, (S, S), from searches through all items."""
    among = np.empty((len(items), len(items)))
    step = MAX_SAMPLE_OF_ROWS if lengths.edges is None else 64
    for start in range(0, len(items), step):
        some = slice(start, start + step)
        among[some] = distances_from(lengths, items[some])[:, items]
    return among if lengths.directed else np.minimum(among, among.T)


# -- the content of the page of a classifier -----------------------------------------------------


@dataclass(frozen=True)
class Precomputed:
    """Results that the caller has already; what is None is computed.

    Attributes
    ----------
    metric : (n, n) array, optional
        The learned metric between all items: ``path_metric(...)``.
    probabilities : (n, C) array, optional
        Class probabilities, of labelled items from refits without their labels.
    weights : DataFrame, or mapping of its columns, optional
        ``model.weights_table(...)``; `n_bootstrap` of :func:`page_content` then says of how many
        resamples.
    nearest : (n,) array, optional
        The nearest other labelled item of each item.
    """

    metric: Floats | None = None
    probabilities: Floats | None = None
    weights: pd.DataFrame | Mapping[str, Any] | None = None
    nearest: Indices | None = None


@dataclass(frozen=True)
class Annotations:
    """Texts that the model file does not contain.

    Attributes
    ----------
    items : n texts, or none
        What each item is called besides its id, in the order of the items.
    sources : mapping of str to str
        What sources compare, in a few words, by their names.
    command : str, optional
        The command that made the page.
    facts : sequence of (str, str)
        Names and values that say how the metric was made.
    phrases : function of two (E,) arrays of item numbers, optional
        Says in words what each of the edges between them is made of.
    headline : str, optional
        How it does beside simpler methods, in a sentence.
    """

    items: Sequence[str] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    command: str | None = None
    facts: Sequence[tuple[str, str]] = ()
    phrases: Callable[[Indices, Indices], Sequence[str]] | None = None
    headline: str | None = None


def page_content(
    model: MixturePredictor,
    *,
    title: str = "A learned metric",
    n_bootstrap: int | None = None,
    accuracies: Sequence[Accuracy] = (),
    confusion: ConfusionMatrix | None = None,
    precomputed: Precomputed | None = None,
    annotations: Annotations | None = None,
    on_progress: Callable[[str, float], None] | None = None,
) -> PageContent:
    """Return what a page shows of a fitted classifier or regressor.

    Where there are too many items (:func:`shown_items`) it shows a sample: its map, its labels and
    the certificate of its triangles. It then holds no paths, which go through other items too.

    Parameters
    ----------
    model : MetricMixtureClassifier, MetricMixtureClassifierCV or MetricMixtureRegressor
    title : str
    n_bootstrap : int, optional
        Resamples for the intervals of the weights; 0 for no intervals. Default: 100, and fewer
        from 300 labels on, down to 20.
    accuracies, confusion
        From a cross-validation by the caller: accuracies on the training items would be too high.
    precomputed : Precomputed, optional
    annotations : Annotations, optional
    on_progress : function of (str, float), optional
        Called with the name of the next step and the fraction done; one call at a time, but not
        always from the calling thread.
    """
    model = fitted_predictor(model)
    precomputed, annotations = precomputed or Precomputed(), annotations or Annotations()
    report = on_progress or (lambda step, fraction: None)
    learned, metric, shown = model.metric_, precomputed.metric, shown_items(model)
    stack, lengths = learned.stack, learned.lengths
    on_page = np.arange(stack.n_items) if shown is None else shown
    if metric is None and shown is None:
        report("metric", 0.0)
        metric = learned.to_array()
    probabilities = precomputed.probabilities
    if probabilities is None:
        probabilities = model.learned_.held_out.among_all(model.learned_)
    if shown is not None:
        report("metric", 0.0)
        metric = distances_among(lengths, shown) if metric is None else metric[np.ix_(shown, shown)]
    assert metric is not None
    everyone = model.known_.mask
    classes, labels = label_numbers(model)
    given, labels = everyone[on_page], labels[on_page]
    about_rule: dict[str, Any]
    if model.known_.is_numeric:
        about_rule = {
            "misfit": target_misfits(model, probabilities, everyone)[on_page],
            "target": model.transduction_[on_page],
            "predicted": probabilities[on_page],
        }
    else:
        probabilities = probabilities[on_page]
        predicted = probabilities.argmax(axis=1)
        about_rule = {
            "misfit": given & (predicted != labels),
            "confidence": probabilities[np.arange(len(labels)), labels],
            "prefers": predicted,
        }
    ids, about = stack.items[on_page].tolist(), [str(text) for text in annotations.items]
    items = PageItems(
        ids=tuple(str(item) for item in ids),
        classes=classes,
        labels=labels,
        given=given,
        about=tuple(about if shown is None or not about else (about[k] for k in shown)),
        **about_rule,
        nearest=nearest_on_page(precomputed.nearest, metric, given, shown),
    )
    report("certificate", 0.1)
    n, violations = len(on_page), metric_violations(metric, directed=stack.directed)
    n_triangles = n * (n - 1) * (n - 2) // (1 if stack.directed else 2)
    paths = None
    if shown is None:
        report("paths", 0.2)
        pairs = pairs_to_embed(metric, given, stack.n_sources, directed=stack.directed)
        paths = embed_paths(lengths, pairs, metric)
    chains, chain_metric = embed_chains(learned, given) if shown is None else (None, None)
    report("intervals", 0.3)
    weights, intervals = page_weights(model, n_bootstrap, precomputed.weights, annotations.sources)
    report("maps", 0.5)
    views = make_views(model, metric, on_page, lambda done: report("maps", 0.5 + 0.5 * done))
    if chain_metric is not None:
        points = align(plane_coordinates(chain_metric), np.asarray(views[0].coordinates))
        views = (*views, View("paths through items", points, chains=True))
    example, phrases = None, {}
    if paths is not None:
        places = np.asarray(views[0].coordinates)
        example = example_path(lengths, model.weights_, metric, paths, items, places)
        if annotations.phrases is not None:
            first = None if example is None else (paths, *example.items)
            keys = edges_to_phrase([paths if chains is None else chains, paths], first)
            said = annotations.phrases(*np.divmod(keys, n))
            phrases = dict(zip(keys.tolist(), said, strict=True))
    trace, status = model.result_.trace, model.result_.status
    return PageContent(
        title=title,
        items=items,
        views=views,
        weights=weights,
        paths=paths,
        convergence=ObjectiveCurve(tuple(trace.iteration), tuple(trace.objective), status.value),
        confusion=confusion,
        accuracies=tuple(accuracies),
        metric_check=MetricCheck(violations.triangle, n_triangles, violations.is_metric()),
        intervals=intervals,
        command=annotations.command,
        facts=tuple((str(name), str(value)) for name, value in annotations.facts),
        local_weights=LocalWeights(model.mixture_.regions, model.mixture_.inside)
        if isinstance(model.mixture_, LocalMixture)
        else None,
        sample_of=None if shown is None else stack.n_items,
        chains=chains,
        phrases=phrases,
        headline=annotations.headline,
        example=example,
    )


def nearest_on_page(
    nearest: Indices | None, metric: Floats, given: NDArray[np.bool_], shown: Indices | None
) -> Indices:
    """Return the nearest other labelled item of each item on the page, by its number there.

    -1 where it is not on the page, or there is none.
    """
    if shown is None or nearest is None:
        return nearest_labelled_item(metric, given)
    place = np.searchsorted(shown, nearest[shown])
    there = shown[np.minimum(place, len(shown) - 1)] == nearest[shown]
    return np.where(there, place, -1)


def default_n_bootstrap(n_labelled: int) -> int:
    """Return the number of resamples that take some seconds: L labels take about L · 0.1 ms each.

    >>> default_n_bootstrap(50), default_n_bootstrap(1000)
    (100, 30)
    """
    return max(20, min(100, 30_000 // max(n_labelled, 1)))


def page_weights(
    model: MixturePredictor,
    n_bootstrap: int | None,
    table: pd.DataFrame | Mapping[str, Any] | None,
    descriptions: Mapping[str, str],
) -> tuple[tuple[Weight, ...], str | None]:
    """Return the weights with their intervals, and what these are.

    There are no intervals with 0 resamples, nor where the objective cannot weight items.
    """
    if table is None:
        if n_bootstrap is None:
            n_bootstrap = default_n_bootstrap(len(model.known_.items))
        if n_bootstrap == 0 or not isinstance(model.objective, str):
            rows = zip(model.stack_.names, model.weights_.tolist(), strict=True)
            return tuple(
                Weight(name, value, about=descriptions.get(name, "")) for name, value in rows
            ), None
        table = model.weights_table(n_bootstrap=n_bootstrap, random_state=0)
    columns = (table[name] for name in ("name", "weight", "lower", "upper"))
    weights = tuple(
        Weight(str(name), float(value), float(low), float(high), descriptions.get(str(name), ""))
        for name, value, low, high in zip(*columns, strict=True)
    )
    resamples = f", {n_bootstrap} resamples" if n_bootstrap else ""
    return weights, f"95 % interval (Bayesian bootstrap over the labelled items{resamples})"

"""The data of a page from a fitted classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from metricmix.app.page.content import (
    Accuracy,
    Certificate,
    Confusion,
    Convergence,
    EmbeddedPaths,
    Items,
    PageData,
    View,
    Weight,
)
from metricmix.app.page.layout import place, turn_to
from metricmix.estimators.attribution import edge_parts
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.cross_validation import held_out_probabilities
from metricmix.exceptions import InputError
from metricmix.kernels.threads import in_threads
from metricmix.metric import metric_violations
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.all_pairs import path_metric
from metricmix.paths.pair import shortest_path, shortest_paths
from metricmix.typing import Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["chosen_pairs", "classifier_of", "embed_paths", "gather", "nearest_given", "path_record"]


ALL_UP_TO = 800
MOST_BYTES = 6_800_000
"""Room for all pairs, before they are packed: about 8 MB of the file."""
NEAREST = 10


def chosen_pairs(
    distances: NDArray[np.float64], given: NDArray[np.bool_], n_sources: int, *, directed: bool
) -> NDArray[np.int64]:
    """Return the pairs a page holds, as ascending keys ``i * n + j``.

    All of them up to 800 items, if they fit (up to 9 sources, or 4 with two directions); beyond,
    those of each item with its 10 nearest items and its nearest labelled item, both ways.
    """
    n = len(distances)
    bytes_per_pair = (2 if directed else 1) * (n_sources + 1)  # 2 a source less one, 4 a length
    if n <= ALL_UP_TO and n * (n - 1) * bytes_per_pair <= MOST_BYTES:
        i, j = np.nonzero(~np.eye(n, dtype=bool))
    else:
        d = distances.copy()
        np.fill_diagonal(d, np.inf)
        near = np.argpartition(d, NEAREST, axis=1)[:, :NEAREST]
        near = np.column_stack([near, nearest_given(distances, given)])
        i, j = np.repeat(np.arange(n), near.shape[1]), near.ravel()
        i, j = i[j >= 0], j[j >= 0]
        i, j = np.concatenate([i, j]), np.concatenate([j, i])
    i, j = i[i != j], j[i != j]
    return np.unique(i * n + j if directed else np.minimum(i, j) * n + np.maximum(i, j))


def nearest_given(distances: NDArray[np.float64], given: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each item the labelled one that it is nearest to, itself left out; -1 for none."""
    labelled = np.flatnonzero(given)
    if not len(labelled):
        return np.full(len(distances), -1)
    to_labelled = distances[:, labelled]
    to_labelled[labelled, np.arange(len(labelled))] = np.inf
    nearest = labelled[to_labelled.argmin(axis=1)]
    return np.where(np.isfinite(to_labelled.min(axis=1)), nearest, -1)


def embed_paths(
    lengths: EdgeLengths, pairs: NDArray[np.int64], metric: NDArray[np.float64]
) -> EmbeddedPaths:
    """Return the shortest paths of pairs given by their keys, with the parts of their edges.

    Where the metric is the edge itself, that is the path; the others are searched for.
    """
    n, directed = lengths.n, bool(lengths.directed)
    i, j = pairs // n, pairs % n
    found = lengths.pairs(i, j)
    longer = np.flatnonzero(metric[i, j] < found)
    bundle = shortest_paths(lengths, None, i[longer], j[longer])
    found[longer] = bundle.lengths
    inner = np.ones(len(bundle.nodes), dtype=bool)
    inner[bundle.indptr[:-1]] = inner[bundle.indptr[1:] - 1] = False
    counts = np.zeros(len(pairs), np.int64)
    counts[longer] = np.diff(bundle.indptr) - 2
    _, u, v = bundle.edges()
    used = u * n + v if directed else np.minimum(u, v) * n + np.maximum(u, v)
    keys = np.unique(np.concatenate([pairs[counts == 0], used]))
    parts = edge_parts(lengths, lengths.stack.raw_pairs(keys // n, keys % n))
    return EmbeddedPaths(
        pairs=pairs,
        lengths=found,
        indptr=np.concatenate([[0], counts.cumsum()]),
        between=bundle.nodes[inner].astype(np.int64),
        edges=keys,
        edge_lengths=lengths.pairs(keys // n, keys % n),
        parts=parts[:, :-1],
        link=float(parts[0, -1]) if len(parts) else 0.0,
        directed=directed,
        complete=len(pairs) == (n * (n - 1) if directed else n * (n - 1) // 2),
    )


def path_record(lengths: EdgeLengths, i: int, j: int) -> dict[str, Any]:
    """Return the shortest path from item number `i` to `j`, as plain values for a page to ask for.

    Its `length`, its `nodes`, and for each edge its parts: those of the sources, last the link's.
    One search, O(R n) as a rule.
    """
    path = shortest_path(lengths, None, i, j)
    u, v = np.array(path.edges, dtype=np.int64).reshape(-1, 2).T
    parts = edge_parts(lengths, lengths.stack.raw_pairs(u, v))
    return {"length": path.length, "nodes": list(path.nodes), "parts": parts.tolist()}


# -- the data of a page from a fitted classifier ------------------------------------------------

OnStage = Callable[[str, float], None]
MIXTURE = "mixture"
RESAMPLES = (20, 100)
LABELS_TIMES_RESAMPLES = 30_000
"""How much is spent on intervals: some seconds; a resample of L labels takes about L · 0.1 ms."""


def gather(
    model: MetricMixtureClassifier,
    *,
    title: str = "A learned metric",
    n_bootstrap: int | None = None,
    accuracies: Sequence[Accuracy] = (),
    confusion: Confusion | None = None,
    metric: Floats | None = None,
    weights: pd.DataFrame | Mapping[str, Any] | None = None,
    command: str | None = None,
    members: Floats | None = None,
    about: Sequence[str] = (),
    sources: Mapping[str, str] | None = None,
    facts: Sequence[tuple[str, str]] = (),
    on_stage: OnStage | None = None,
) -> PageData:
    """Return what a page shows of a fitted classifier.

    Parameters
    ----------
    model : MetricMixtureClassifier or MetricMixtureClassifierCV
    title : str
    n_bootstrap : int, optional
        Resamples for the intervals of the weights; 0 for no intervals. Default: 100, and fewer
        from 300 labels on, down to 20.
    accuracies, confusion
        From a cross-validation, which the caller has done: what the model makes of its own items
        would flatter it.
    metric : (n, n) array, optional
        The learned metric between all items, where it is at hand: ``path_metric(...)``.
    weights : DataFrame, or mapping of its columns, optional
        ``model.weights_table(...)``, where it is at hand; `n_bootstrap` then says of how many
        resamples.
    command : str, optional
        The command that made the page, to be shown on it.
    members : (n, C) array, optional
        Class probabilities, an item's own label not counted, where they are at hand:
        ``held_out_probabilities(model)``.
    about : n texts, optional
        What each item is called besides its id, in the order of the items.
    sources : mapping of str to str, optional
        What sources compare, in a few words, by their names.
    facts : sequence of (str, str), optional
        Names and values that say how the metric was made.
    on_stage : function of (str, float), optional
        Called as the work goes on, with what is done next and the share that is done; one call
        at a time, but not always from the calling thread.
    """
    model = classifier_of(model)
    tell = on_stage or (lambda stage, share: None)
    stack, lengths = model.stack_, model._lengths()
    given = np.asarray(model._codes >= 0)
    labels = np.searchsorted(model.classes_, model.transduction_)
    if metric is None:
        tell("metric", 0.0)
        metric = path_metric(stack, model.mixture_, n_jobs=model.n_jobs)
    if members is None:
        members = held_out_probabilities(model, metric)
    prefers = members.argmax(axis=1)
    items = Items(
        ids=tuple(str(item) for item in stack.items.tolist()),
        classes=tuple(str(label) for label in model.classes_.tolist()),
        labels=labels,
        given=given,
        misfit=given & (prefers != labels),
        about=tuple(str(text) for text in about),
        confidence=members[np.arange(len(labels)), labels],
        prefers=prefers,
        nearest=nearest_given(metric, given),
    )
    tell("certificate", 0.1)
    found = metric_violations(metric, directed=stack.directed)
    certificate = Certificate(
        found.triangle, _triangles(stack.n_items, stack.directed), found.is_metric()
    )
    tell("paths", 0.2)
    pairs = chosen_pairs(metric, given, stack.n_sources, directed=stack.directed)
    paths = embed_paths(lengths, pairs, metric)
    tell("intervals", 0.3)
    learned, intervals = _weights(model, weights, n_bootstrap)
    described = sources or {}
    learned = tuple(replace(one, about=described.get(one.name, "")) for one in learned)
    tell("maps", 0.5)
    views = _views(model, metric, lambda share: tell("maps", 0.5 + 0.5 * share))
    trace = model.result_.trace
    return PageData(
        title=title,
        items=items,
        views=views,
        weights=learned,
        paths=paths,
        convergence=Convergence(
            tuple(trace.iteration), tuple(trace.objective), model.result_.status.value
        ),
        confusion=confusion,
        accuracies=tuple(accuracies),
        certificate=certificate,
        intervals=intervals,
        command=command,
        facts=tuple((str(name), str(value)) for name, value in facts),
    )


def classifier_of(model: object) -> MetricMixtureClassifier:
    """Return the fitted classifier that `model` is, or has chosen."""
    found = getattr(model, "best_estimator_", model)
    if not isinstance(found, MetricMixtureClassifier):
        raise InputError(
            argument="model",
            expected="a fitted MetricMixtureClassifier",
            found=type(model).__name__,
        )
    check_is_fitted(found)
    return found


def _weights(
    model: MetricMixtureClassifier,
    table: pd.DataFrame | Mapping[str, Any] | None,
    n_bootstrap: int | None,
) -> tuple[tuple[Weight, ...], str | None]:
    """Return the weights, with intervals where the objective knows how to weigh items."""
    if table is None:
        count = _resamples(model) if n_bootstrap is None else n_bootstrap
        if count == 0 or not isinstance(model.objective, str):
            rows = zip(model.stack_.names, model.weights_.tolist(), strict=True)
            return tuple(Weight(name, value) for name, value in rows), None
        table, n_bootstrap = model.weights_table(n_bootstrap=count, random_state=0), count
    columns = (table[name] for name in ("name", "weight", "lower", "upper"))
    weights = [
        Weight(str(name), float(value), float(lower), float(upper))
        for name, value, lower, upper in zip(*columns, strict=True)
    ]
    how = "Bayesian bootstrap over the labelled items"
    of = f", {n_bootstrap} resamples" if n_bootstrap else ""
    return tuple(weights), f"95 % interval ({how}{of})"


def _resamples(model: MetricMixtureClassifier) -> int:
    low, high = RESAMPLES
    labelled = int((model._codes >= 0).sum())
    return max(low, min(high, LABELS_TIMES_RESAMPLES // max(labelled, 1)))


def _views(
    model: MetricMixtureClassifier, metric: Floats, on_share: Callable[[float], None]
) -> tuple[View, ...]:
    """Return the maps of the mixture and of each source, made side by side on threads."""
    stack, lock = model.stack_, Lock()
    names = (MIXTURE, *stack.names)
    done: list[int] = []

    def lay_out(k: int) -> Floats:
        if k == 0:
            places = place(metric)
        else:
            with lock:  # sources that are computed may not be safe to ask from several threads
                distances = stack.source(k - 1)
            places = place(distances)
        with lock:
            done.append(k)
            on_share(len(done) / len(names))
        return places

    mixture, *others = in_threads(lay_out, range(len(names)), model.n_jobs)
    turned = [mixture, *(turn_to(places, mixture) for places in others)]
    return tuple(View(name, places) for name, places in zip(names, turned, strict=True))


def _triangles(n: int, directed: bool) -> int:
    """Return how many inequalities were looked at: a pair, and a third item."""
    return n * (n - 1) * (n - 2) // (1 if directed else 2)

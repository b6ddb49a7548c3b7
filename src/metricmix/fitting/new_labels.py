"""Labels or numbers for new items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.item_sources import (
    NewItemData,
    SourceData,
    UnusedSource,
    known_shares,
    little_data,
    lowered,
)
from metricmix.dissimilarity.unknown_pairs import fill_new_edges, fill_new_rows
from metricmix.estimators.predictor import MixturePredictor
from metricmix.fitting.new_items import FitInputs, NewEdgesReport, new_item_edges
from metricmix.items.cells import quoted
from metricmix.items.columns import unreadable_cells
from metricmix.mixture.local import LocalMixture
from metricmix.mixture.network import NetworkMixture
from metricmix.paths.joined_items import Joined
from metricmix.typing import AnyArray, Floats

__all__ = ["NewLabel", "new_columns", "new_rows", "predict_new", "remarks_on_new"]


@dataclass(frozen=True)
class NewLabel:
    """The label of a new item, its probability, and the nearest labelled item.

    A predicted number has no probability.
    """

    id: str
    label: str | float
    confidence: float | None
    nearest: str
    distance: float


def predict_new(model: MixturePredictor, kept: FitInputs, new: NewItemData) -> Iterator[NewLabel]:
    """Yield a label for every new item, in their order.

    New items are attached to the items of the fit, whose metric stays as it is
    (:mod:`metricmix.dissimilarity.item_sources`); no path leads through a new item. Over sparse
    edges they get edges of their own (:func:`~metricmix.fitting.new_items.new_item_edges`).
    """
    kept, _ = without_unneeded(model, kept.for_labels(model.known_), new)
    metric = model.metric_
    shares, rows = known_shares(kept.sources, model.weights_, new), new_rows(model, kept, new)
    if isinstance(rows, CrossEdges):
        yield from labelled_new_items(model, new.items.ids, metric.join(rows), shares)
        return
    values_at_once = 1 << 24  # dissimilarities that are passed to the model at a time
    step = max(1, values_at_once // (rows.shape[1] * rows.shape[2]))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        joined = metric.join(rows[some], validate=False)
        yield from labelled_new_items(model, new.items.ids[some], joined, shares[some])


def new_rows(model: MixturePredictor, kept: FitInputs, new: NewItemData) -> AnyArray | CrossEdges:
    """Return the dissimilarities from new items to those of a fit, (m, n, R), or their edges.

    `kept` has the sources of the labels of the fit.
    """
    metric = model.metric_
    stack = metric.whole.stack
    if isinstance(stack, EdgeStack):
        return fill_new_edges(new_item_edges(kept, new), stack)
    by_source = [
        source.cross(
            new,
            stack.select([r]).raw_rows(np.arange(metric.n))[0] if source.needs_known else None,
        )
        for r, source in enumerate(kept.sources)
    ]
    return np.stack(fill_new_rows(by_source, stack), axis=-1)


def remarks_on_new(
    model: MixturePredictor, kept: FitInputs, new: NewItemData, edges: Iterable[NewEdgesReport]
) -> Iterator[str]:
    """Yield what was noticed in the data of new items: cells, columns and edges not used."""
    kept, unneeded = without_unneeded(model, kept, new)
    cells = list(unreadable_cells(new.items, kept.columns))
    most = 5  # cells that cannot be read, reported each
    yield from cells[:most]
    if len(cells) > most:
        yield f"and {len(cells) - most:,} more such cells"
    for name, rows in new.rows.items():
        yield from gaps_of(name, np.isnan(rows), new.items.ids)
    shares = known_shares(kept.sources, model.weights_, new)
    yield from little_data(new.items.ids, shares, numbers=model.is_numeric)
    if unneeded:
        are, them = ("s are", "them") if len(unneeded) > 1 else (" is", "it")
        yield (
            f"{new.items.source}: the column{are} missing and not needed, since only sources of "
            f"weight 0 use {them}: {', '.join(unneeded)}"
        )
    for graph in edges:
        yield from filter(None, (graph.dropped, graph.isolated))


def gaps_of(name: str, unknown: AnyArray, ids: Sequence[str]) -> Iterator[str]:
    """Yield what a matrix does not know of new items."""
    absent = np.flatnonzero(unknown.all(axis=1))
    if len(absent):
        have = "items have" if len(absent) != 1 else "item has"
        yield f"{name}: {len(absent):,} new {have} no row, such as {quoted(ids[absent[0] :][:1])}"
    more = int(unknown.sum()) - len(absent) * unknown.shape[1]
    if more:
        yield f"{name}: {more:,} entr{'ies are' if more != 1 else 'y is'} unknown"


def without_unneeded(
    model: MixturePredictor, kept: FitInputs, new: NewItemData
) -> tuple[FitInputs, tuple[str, ...]]:
    """Return the inputs less sources of weight 0 whose columns new items lack, and these columns.

    Such a source is 0 from every new item. Columns that another source needs are not among them.
    """
    if isinstance(model.mixture_, LocalMixture | NetworkMixture):
        return kept, ()
    weights = np.abs(model.weights_)
    negligible = 1e-12  # share of the largest weight up to which a weight is 0
    unused = weights <= negligible * weights.max()
    lacking = [
        tuple(name for name in source.column_names if name not in new.items.columns)
        for source in kept.sources
    ]
    sources = tuple(
        UnusedSource(source.spec, SourceData(source.items, ())) if zero and names else source
        for source, zero, names in zip(kept.sources, unused, lacking, strict=True)
    )
    needed = {name for source in sources for name in source.column_names}
    columns = dict.fromkeys(name for names in lacking for name in names if name not in needed)
    return replace(kept, sources=sources), tuple(columns)


def labelled_new_items(
    model: MixturePredictor, ids: Sequence[str], new: Joined, shares: Floats
) -> Iterator[NewLabel]:
    """Yield labels of new items, given their dissimilarities or their edges.

    `shares` say how much of their data is known: little of it lowers the confidence.
    """
    known, answers = model.known_, model.learned_.rule.of_new(new.items)
    distances, nearest = new.nearest(1, known)
    found: list[tuple[str | float, float | None]]
    if known.is_numeric:
        found = [(value, None) for value in answers.tolist()]
    else:
        trusted = lowered(answers, shares)
        found = [(str(model.classes_[p.argmax()]), float(p.max())) for p in trusted]
    for k, (label, confidence) in enumerate(found):
        yield NewLabel(ids[k], label, confidence, str(nearest[k, 0]), float(distances[k, 0]))


def new_columns(labels: Sequence[NewLabel], *, numbers: bool) -> dict[str, list[Any]]:
    """Return the labels of new items as columns, without a confidence of predicted `numbers`."""
    columns: dict[str, list[Any]] = {"id": [new.id for new in labels]}
    columns["predicted" if numbers else "label"] = [new.label for new in labels]
    if not numbers:
        columns["confidence"] = [new.confidence for new in labels]
    columns["nearest"] = [new.nearest for new in labels]
    return columns | {"distance": [new.distance for new in labels]}

r"""Supervised sources of files: what classifiers or regressors say of two items, as a distance.

The source is the Hellinger distance of class probabilities
(:mod:`metricmix.dissimilarity.supervised`), or the difference of predicted numbers
(:mod:`metricmix.dissimilarity.predictions`):

====================  ============================================================================
``learned``           a logistic or ridge regression on the encoded columns
``forest``            a random forest on them, which finds interactions
``learned_graph``     a logistic or ridge regression on attributes smoothed along a graph, or on
                      memberships
``spread``            labels or targets spread over a graph, or over the items that share things
====================  ============================================================================

Every fold of a cross-validation computes them from the labels or targets that it may see. For new
items the models are fitted again, to the labels of the fit, with the same result: a folder holds
the cells and edges, and no model.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from metricmix.dissimilarity.diffusion import pagerank_smoothed
from metricmix.dissimilarity.item_graphs import ItemGraph
from metricmix.dissimilarity.item_sources import (
    ItemSource,
    NewItemData,
    SourceData,
    TableSource,
)
from metricmix.dissimilarity.kernel_ridge import KernelPredictor
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictors import Predictor
from metricmix.dissimilarity.propagation import LabelPropagation, Spread
from metricmix.dissimilarity.relation_sources import Links
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.dissimilarity.supervised_recipes import RowPlaces
from metricmix.items.items import Items
from metricmix.typing import AnyArray, Floats

__all__ = ["ModelSource", "PredictionSource", "SpreadOverGraph", "dense"]


class PredictionSource(ItemSource):
    """Distances between what is predicted of two items, computed from labels or targets."""

    predictor: Predictor

    def __init__(self, spec: SourceSpec, data: SourceData) -> None:
        super().__init__(spec, data)
        self.known: Known = data.once(
            "known", lambda: replace(known_of(data.items), keys=data.keys)
        )

    def relabelled(self, codes: AnyArray, n_classes: int) -> ItemSource:
        """Return the source for the labels of a fit, to which new items are compared.

        Without classes, `codes` are targets.
        """
        other = copy(self)
        other.__dict__.pop("supervised", None)
        other.known = Known(codes, n_classes, self.known.keys)
        return other

    @cached_property
    def supervised(self) -> SupervisedSource:
        """The distances, by the probabilities or numbers of all items."""
        return SupervisedSource(self.predictor, self.spec.name, self.known)

    def matrix(self) -> Floats:
        """Return the distances of all items."""
        return np.asarray(self.supervised.rows(np.arange(self.n)))

    def by_pairs(self) -> SupervisedSource:
        """Return the same by rows and pairs."""
        return self.supervised

    def cross(self, new: NewItemData, known: Any) -> Floats:
        """Return the distances from what the model of all labels says of new items."""
        return self.supervised.cross(self.new_values(new))

    def new_values(self, new: NewItemData) -> Floats:
        """Return the class probabilities (m, C) or the predicted numbers (m,) of new items."""
        raise NotImplementedError


class ModelSource(PredictionSource):
    """A model of the rows of a view: encoded columns, smoothed attributes or memberships.

    A new item with the row of an item of the fit gets its probabilities, or its number.
    """

    kernel = "linear"

    def __init__(self, spec: SourceSpec, data: SourceData, base: TableSource) -> None:
        super().__init__(spec, data)
        self.base = base

    @property
    def links(self) -> Links | None:
        """The graph that attributes are smoothed along, or the memberships."""
        return self.base.links

    @cached_property
    def rows(self) -> Any:
        """The rows of all items, (n, d)."""
        return self.base.table

    @cached_property
    def predictor(self) -> Predictor:  # type: ignore[override]
        """The model, and how labelled items are judged without their label."""
        return KernelPredictor(self.rows, self.kernel)

    def new_values(self, new: NewItemData) -> Floats:
        """Return what the model of all labels says."""
        rows = self.base.new_rows(new)
        rows = dense(rows) if isinstance(self.rows, np.ndarray) else type(self.rows)(rows)
        same = RowPlaces(self.rows)(rows)
        values = self.supervised.values[same]
        if (same < 0).any():
            values[same < 0] = self.supervised.predicted(rows[same < 0])
        return np.asarray(values)


class SpreadOverGraph(PredictionSource):
    """Labels or targets spread over a graph by PageRank."""

    def __init__(self, spec: SourceSpec, data: SourceData, graph: ItemGraph) -> None:
        super().__init__(spec, data)
        self.graph = graph

    @property
    def links(self) -> Links | None:
        """The graph, if it was given."""
        return self.graph if isinstance(self.graph, Links) else None

    @cached_property
    def predictor(self) -> LabelPropagation:  # type: ignore[override]
        """PageRank of the labels of each class, or of the targets."""
        return LabelPropagation(self.graph.operator, self.spec.restart)

    def reached(self, new: NewItemData, start: Floats) -> Floats:
        """Return what of `start` (n, d) walks from new items reach, (m, d)."""
        spread = pagerank_smoothed(self.graph.operator, start, self.spec.restart, 1e-6)
        nothing = np.zeros((len(new.items.ids), start.shape[1]))
        return self.graph.attached(new, self.spec.restart, nothing, spread)

    def new_values(self, new: NewItemData) -> Floats:
        """Return what is made of the labels or targets that walks from new items reach."""
        nothing = np.zeros((len(new.items.ids), 0))
        if self.supervised.is_constant:
            return self.supervised.predicted(nothing)
        model = self.supervised.model
        assert isinstance(model, Spread)
        return model.predict(self.reached(new, model.start))


def known_of(items: Items) -> Known:
    """Return the labels or targets of items; classes in the order of their names."""
    if items.targets is not None:
        return Known(items.targets, 0)
    labels = items.labels or ("",) * len(items.ids)
    classes = sorted({label for label in labels if label})
    number = {label: c for c, label in enumerate(classes)}
    return Known(np.array([number.get(label, -1) for label in labels]), max(1, len(classes)))


def dense(table: Any) -> Floats:
    """Return a table as an array."""
    return table if isinstance(table, np.ndarray) else np.asarray(table.toarray())

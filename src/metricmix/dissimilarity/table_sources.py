r"""The default sources of a plain table: numbers, categories, texts, or images as rows of pixels.

What the columns are taken for is said in :mod:`metricmix.dissimilarity.encoded_table`. Numbers are
centred at their median, divided by their spread, and cut off at 3, so that one far value stretches
nothing.

====================  ============================================================================
``columns``           Euclidean distance of all columns together: scaled numbers, one 0/1 column per
                      category, topics
``numbers``           of the scaled numbers alone, where there are other columns
``raw``               of the numbers as they are, but for far values; where columns are of similar
                      size (none a hundred times larger than the median one), as pixels are
``direction``         there, too: angle between rows of numbers, scaled if some are negative
``categories``        share of the categories that differ
``texts``             angle between the tf-idf of texts; ``counts`` for a table of counts
``topics``            angle between texts (or counts) by their 100 leading singular vectors
``near_...``          :math:`-\log(P_{0.1}(K) + 10^{-6})`, K joining each item to its 10 nearest:
                      how well chains of near items lead from one to the other
====================  ============================================================================

With labels follow supervised sources (:mod:`metricmix.dissimilarity.supervised`):

====================  ============================================================================
``learned_...``       logistic regressions on these tables; ``learned_smoothed`` on directions
                      averaged over near items
``kernel_...``        logistic regressions in the feature space of a Gaussian kernel
``forest_columns``    a random forest on all columns, which finds interactions
``spread_...``        labels spread over the graphs of near items
====================  ============================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from metricmix.dissimilarity.diffusion import LogPageRank, normalised, pagerank_smoothed
from metricmix.dissimilarity.encoded_table import EncodedTable, sizes_are_similar
from metricmix.dissimilarity.feature_rows import FeatureRows
from metricmix.dissimilarity.features import FeatureSource
from metricmix.dissimilarity.forests import Forest
from metricmix.dissimilarity.kernel_ridge import KernelPredictor
from metricmix.dissimilarity.matrix import facts
from metricmix.dissimilarity.nearest_items import NearestItems, joined, nearest_items
from metricmix.dissimilarity.predictors import Predictor
from metricmix.dissimilarity.propagation import LabelPropagation
from metricmix.dissimilarity.sources import ComputedSource
from metricmix.exceptions import InputError
from metricmix.items.columns import CUT, centre_and_spread
from metricmix.typing import Floats

__all__ = [
    "NEEDS_ROWS",
    "SourceSet",
    "attribute_matrix",
    "far_limits",
    "joint_columns",
    "scaled_columns",
    "table_source",
    "table_sources",
    "unit_mean_square",
    "unit_rows",
    "without_far_values",
]

RESTART, PRECISION = 0.2, 1e-4
"""Of PageRank smoothing, and to which it is computed."""
FAR = 13.5
"""Spreads at which columns that are not scaled are cut off: ten times the quartiles' distance."""
MOST_CATEGORIES = 50
WORDS = ("texts", "counts")
SINGLE_FROM = 1 << 22
"""Numbers from which on tables are kept in single precision."""
NEEDS_ROWS = "one value costs as much as a row of all items"


@dataclass
class SourceSet:
    """What a default set of sources is made of.

    Attributes
    ----------
    sources : dict of Source
    predictors : dict of Predictor
        Of the supervised sources.
    nearest : dict of NearestItems
        By the name of the table that was searched.
    table : array or CSR array (n, d)
        By which near items are told.
    left_out : dict of str to str
        Names of sources that were too expensive, and why.
    """

    sources: dict[str, Any]
    predictors: dict[str, Predictor]
    nearest: dict[str, NearestItems]
    table: Any
    left_out: dict[str, str] = field(default_factory=dict)

    def search(self, name: str, Z: Any, k: int, metric: str = "euclidean") -> NearestItems:
        """Return the nearest items by a table, and keep them for edges."""
        self.nearest[name] = nearest_items(Z, k, metric)
        return self.nearest[name]


def table_sources(table: EncodedTable, edges_per_item: int | None = None) -> SourceSet:
    """Return the sources of a plain table, and the predictors of the supervised ones.

    With `edges_per_item`, only those whose value for a pair can be found without a row, and at
    least as many nearest items.
    """
    views = views_of(table)
    sources: dict[str, Any] = {
        name: table_source(Z, metric, name) for name, (Z, metric) in views.items()
    }
    found = SourceSet(sources, {}, {}, next(iter(views.values()))[0])
    neighbours = 10  # nearest items that a table is made a graph by
    k = max(neighbours, edges_per_item or 0)
    graphs = {
        name: normalised(joined(found.search(name, views[name][0], k), neighbours))
        for name in ("columns", "direction", "topics")
        if name in views
    }
    for name, B in graphs.items():
        rank, title, known = LogPageRank(B), f"near_{name}", facts("log_pagerank")
        if edges_per_item is not None:
            found.left_out[title] = NEEDS_ROWS
        else:
            sources[title] = ComputedSource(B.shape[0], rank, columns=rank, name=title, facts=known)
    linear = {name: views[name][0] for name in ("columns", "raw", *WORDS) if name in views}
    if "direction" in views:
        Z = views["direction"][0]
        linear["smoothed"] = unit_rows(
            pagerank_smoothed(graphs["direction"], Z, RESTART, PRECISION)
        )
    predictors: dict[str, Predictor] = {
        f"learned_{name}": KernelPredictor(Z) for name, Z in linear.items()
    }
    for name in ("columns", "direction") if "columns" in views else ("topics",):
        if name in views:
            predictors[f"kernel_{name}"] = KernelPredictor(views[name][0], "rbf")
    if "columns" in views:
        topics = 10  # among many of them the trees would hardly see other columns
        predictors["forest_columns"] = Forest(joint_columns(table, topics))
    predictors |= {f"spread_{name}": LabelPropagation(B) for name, B in graphs.items()}
    found.predictors = predictors
    return found


def views_of(table: EncodedTable) -> dict[str, tuple[Any, str]]:
    """Return the tables that distances are computed from, and the metric of each."""
    if table.is_constant:
        raise InputError(
            argument="X", expected="a column with at least two different values, found none"
        )
    views: dict[str, tuple[Any, str]] = {}
    numbers = table.numbers[:, (table.numbers != table.numbers[:1]).any(axis=0)]
    if numbers.shape[1] + table.missing.shape[1] + table.categories.shape[1]:
        views["columns"] = unit_mean_square(joint_columns(table)), "euclidean"
    if numbers.shape[1]:
        scaled, kept = scaled_columns(numbers), without_far_values(numbers)
        if table.n_kinds > 1:
            views["numbers"] = scaled, "euclidean"
        if numbers.shape[1] > 1 and sizes_are_similar(kept):
            views["raw"] = unit_mean_square(kept - kept.mean(axis=0)), "euclidean"
            views["direction"] = unit_rows(kept if kept.min() >= 0 else scaled), "angular"
    if table.categories.shape[1]:
        views["categories"] = table.categories.astype(np.float64), "hamming"
    if table.texts is not None:
        views["counts" if table.of_counts else "texts"] = table.texts, "angular"
        views["topics"] = unit_rows(table.topics), "angular"
    if table.numbers.size > SINGLE_FROM:
        views = {name: (Z.astype(np.float32), metric) for name, (Z, metric) in views.items()}
    return views


def joint_columns(table: EncodedTable, n_topics: int | None = None) -> Floats:
    """Return all columns beside each other, on one scale; of the topics the first, if stated.

    The expected squared distance of two rows is about 2 in every column of numbers, at most 2 in
    every column of categories; texts count as much as all other columns together.
    """
    parts = [scaled_columns(table.numbers), table.missing]
    if table.categories.shape[1]:
        from sklearn.preprocessing import OneHotEncoder

        encoder = OneHotEncoder(max_categories=MOST_CATEGORIES, sparse_output=False)
        parts.append(encoder.fit_transform(table.categories))
    if table.texts is not None:
        n_columns = table.numbers.shape[1] + table.categories.shape[1]
        parts.append(np.sqrt(max(1, n_columns)) * table.topics[:, :n_topics])
    return np.hstack(parts)


def attribute_matrix(table: EncodedTable) -> Any:
    """Return all columns beside each other as classifiers take them, (n, d); CSR with texts.

    Numbers are standardised after far values were moved in, categories are 0/1 columns, texts have
    all their words. Texts count as much as all other columns together.
    """
    numbers = table.numbers
    if numbers.shape[1]:
        numbers = without_far_values(numbers)
        numbers = numbers - numbers.mean(axis=0)
        spread = numbers.std(axis=0)
        numbers /= np.where(spread > 0, spread, 1.0)
    nothing = np.empty((len(numbers), 0))
    others = np.hstack([numbers, joint_columns(replace(table, numbers=nothing, texts=None))])
    if table.texts is None:
        return others
    if not others.shape[1]:
        return table.texts
    from scipy.sparse import csr_array, hstack

    n_columns = table.numbers.shape[1] + table.categories.shape[1]
    return csr_array(hstack([csr_array(others), np.sqrt(max(1, n_columns)) * table.texts]))


def scaled_columns(X: Floats) -> Floats:
    """Return the columns centred at their median and divided by their spread, cut off at 3."""
    if not X.shape[1]:
        return X
    middle, spread, _ = centre_and_spread(X)
    return np.asarray(np.clip((X - middle) / np.where(spread > 0, spread, 1.0), -CUT, CUT))


def without_far_values(X: Floats) -> Floats:
    """Return the columns with far values moved in: to ten times the distance between quartiles."""
    return np.asarray(np.clip(X, *far_limits(X)))


def far_limits(X: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest value of each column that is not far.

    A column that is constant but for a few rows has no distance between quartiles: there a value is
    far if it would be so in the widest of the other columns.
    """
    middle, spread, common = centre_and_spread(X)
    widest = max(float(common.max(initial=0.0)), float(np.median(spread)))
    limit = FAR * np.where(common > 0, common, widest)
    return middle - limit, middle + limit


def table_source(Z: Any, metric: str, name: str) -> FeatureSource:
    """Return the distances between the rows of a table, in its own precision."""
    return FeatureSource.of(FeatureRows(Z, metric, {}), name)


def unit_mean_square(Z: Floats) -> Floats:
    """Return a table divided by the root mean square length of its rows."""
    largest = np.abs(Z).max(initial=0.0)
    if not largest > 0:
        return Z
    Z = Z / largest  # squares of large numbers are infinite
    return np.asarray(Z / np.sqrt(np.einsum("ij,ij->", Z, Z) / len(Z)))


def unit_rows(Z: Floats) -> Floats:
    """Return the rows at length 1 (or 0)."""
    from sklearn.preprocessing import normalize

    return np.asarray(normalize(Z))

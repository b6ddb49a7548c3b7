r"""Baselines: models that do not learn a metric.

=====================  ===========================================================================
kind                   learns from the labels of the training items
=====================  ===========================================================================
``1-nn``               that of the nearest row of the table
``logistic``           logistic regression on the table
``svc``                support vectors on the table, with the kernel :math:`e^{-\lVert x - y
                       \rVert^2}`
``propagation``        :math:`\arg\max_c\, \mathrm{mean}_{s \in c} P_{is}`, with P the PageRank of
                       the links between items; without links, of the ten nearest rows. Of
                       several graphs, or all of them together, the one that is right most often
                       on parts of the training labels
``forest``             a random forest on the table beside columns computed from the links and
                       memberships (:mod:`metricmix.learning.forest_baseline`)
``most-frequent``      the most frequent class of all labels
=====================  ===========================================================================

For numeric targets: ``ridge``, ridge regression, and ``neighbours``, the mean of the 10 nearest
rows, both on standardised columns; ``forest``, as above; ``mean``, the mean target of the training
items.

The table is the attributes as numbers, divided by the root mean square distance of a row from the
mean. The penalties of logistic regression and support vectors, C, are chosen from 10, 1 and 100 on
parts of the training labels. Where there are more than 1000 labelled items, these two and the
nearest neighbour learn from 1000 of them, drawn at random; the forest from 5000.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.dissimilarity.diffusion import normalised, strengths_of
from metricmix.dissimilarity.graphs import as_graph
from metricmix.dissimilarity.item_ids import table_items
from metricmix.dissimilarity.known import Known, deal
from metricmix.dissimilarity.logistic_path import class_probabilities, logistic_path
from metricmix.dissimilarity.nearest_items import joined, nearest_items
from metricmix.dissimilarity.smoothing import pagerank_smoothed
from metricmix.dissimilarity.sources import ItemData, data_of
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.items.encoding import encode_data
from metricmix.kernels.process_settings import small_products
from metricmix.learning.forest_baseline import RandomForest, forest_features
from metricmix.learning.task import Task
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["Baseline", "baselines_of", "item_data"]

LEARNED_FROM, FOREST_FROM = 1000, 5000
"""Labelled items that the classifiers on a table learn from at most, and the forest."""
PENALTIES = (10.0, 1.0, 100.0)
"""Inverse strengths C to choose from; among equally good ones, the first."""
INNER, SPLIT_ONCE_FROM = 3, 300
"""Folds to choose C on, and training labels from which on one of them has to do."""
NEIGHBOURS, SEARCHED_UP_TO = 10, 20_000
"""Nearest rows that an item is linked to where there are no links, and up to how many items."""


@dataclass(frozen=True)
class Baseline:
    """A model that learns no metric.

    Attributes
    ----------
    kind : str
    name : str
    predict : function of (train, y, test)
        Positions of the training items among those of known value, their class numbers or targets,
        and the positions of the held-out ones; returns what is predicted for these.
    choice : function, optional
        After predictions: what was chosen in most of them, to be said behind the name.
    """

    kind: str
    name: str
    predict: Callable[[Indices, AnyArray, Indices], AnyArray]
    choice: Callable[[], str] | None = None


def item_data(
    stack: DissimilarityStack, features: Any, graph: Any, own: ItemData | None = None
) -> ItemData:
    """Return the attributes and links of the items of a stack: those given, else its own.

    `own` are those that its sources were computed from, if they do not say so.

    Raises
    ------
    InputError
        If the table does not have a row per item.
    """
    own = own or data_of(stack) or ItemData()
    table, links, graphs, memberships = own.table, own.links, own.graphs, own.memberships
    n = stack.n_items
    if features is not None:
        try:
            table = encode_data(features)
        except InputError as error:
            raise error.replace(argument="features") from None
        if table.shape[0] != n:
            raise InputError(
                argument="features", expected=f"{n} rows, one per item", found=table.shape[0]
            )
        ids = table_items(features)
        if ids is not None and stack.has_items:
            rows = np.empty(n, dtype=np.int64)
            rows[stack.positions(ids)] = np.arange(n)
            table = table[rows]
    if graph is not None:
        nodes = stack.items.tolist() if stack.has_items else n
        links, graphs, memberships = strengths_of(as_graph(graph, nodes=nodes)), {}, {}
    return ItemData(table, links, own.complete and features is None, graphs, memberships)


def baselines_of(data: ItemData, task: Task, known: Known) -> tuple[list[Baseline], list[str]]:
    """Return what can be compared, the floor last, and remarks on what cannot or learned from less.

    Parameters
    ----------
    data : ItemData
        The attributes of all items, and the links between them.
    task : Task
    known : Known
    """
    if task.is_numeric:
        found, remarks = baselines_of_numbers(data, known)
        floor = Baseline("mean", task.floor, lambda train, y, test: np.full(len(test), y.mean()))
    else:
        found, remarks = baselines_of_classes(data, known)
        most_frequent = int(known.sizes.argmax())
        floor = Baseline(
            "most-frequent", task.floor, lambda train, y, test: np.full(len(test), most_frequent)
        )
    features = forest_features(data)
    if features is not None:
        chosen = drawn(len(known.items), FOREST_FROM)
        if not chosen.all():
            remarks.append(
                f"the random forest learns from {FOREST_FROM} of the {len(chosen)} {task.noun}"
            )
        forest = RandomForest(features[known.items], chosen, numeric=task.is_numeric)
        parts = ["table"] * (data.table is not None) + ["links"] * (data.links is not None)
        name = f"random forest on the {' and '.join(parts)}"
        found.append(Baseline("forest", name, forest.predict))
    return [*found, floor], remarks


def drawn(n: int, most: int) -> AnyArray:
    """Return which of n labelled items are learned from: all, or as many as allowed, at random."""
    chosen = np.ones(n, dtype=bool)
    chosen[np.random.default_rng(0).permutation(n)[most:]] = False
    return chosen


def baselines_of_numbers(data: ItemData, known: Known) -> tuple[list[Baseline], list[str]]:
    """Return ridge regression and nearest rows, if there is a table without missing values."""
    table, items, groups = data.table, known.items, known.item_groups
    largest = 1 << 24  # numbers of a table up to which ridge regression is compared
    if table is None or table.shape[0] * table.shape[1] > largest:
        return [], ["no table to compare with ridge regression on"]
    part = table[items]
    rows = np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)
    if not np.isfinite(rows).all():
        return [], ["ridge regression was not compared: the table has missing values"]

    def ridge(train: Indices, y: AnyArray, test: Indices) -> AnyArray:
        from sklearn.linear_model import RidgeCV

        folds = None  # each row by itself
        if groups is not None and len(np.unique(groups[train])) > 1:
            dealt = deal(y, 5, known.item_keys[train], is_numeric=True, groups=groups[train])
            folds = [(np.flatnonzero(dealt != k), np.flatnonzero(dealt == k)) for k in set(dealt)]
        return standardised(RidgeCV(np.logspace(-3, 4, 15), cv=folds), rows, train, y, test)

    def neighbours(train: Indices, y: AnyArray, test: Indices) -> AnyArray:
        from sklearn.neighbors import KNeighborsRegressor

        return standardised(KNeighborsRegressor(min(10, len(train))), rows, train, y, test)

    found = [
        Baseline("ridge", "ridge regression", ridge),
        Baseline("neighbours", "10 nearest rows", neighbours),
    ]
    return found, []


def standardised(model: Any, rows: Floats, train: Indices, y: AnyArray, test: Indices) -> AnyArray:
    """Return the predictions of a model on standardised columns."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fitted = make_pipeline(StandardScaler(), model).fit(rows[train], y)
    return np.asarray(fitted.predict(rows[test]))


def baselines_of_classes(data: ItemData, known: Known) -> tuple[list[Baseline], list[str]]:
    """Return classifiers on the table, and label propagation over the links."""
    labelled, n_classes, groups = known.items, known.n_classes, known.item_groups
    found: list[Baseline] = []
    remarks = []
    if data.table is not None:
        learned_from = drawn(len(labelled), LEARNED_FROM)
        if not learned_from.all():
            remarks.append(
                f"1-NN, logistic regression and support vectors learn from {LEARNED_FROM} of the "
                f"{len(labelled)} labels"
            )
        rows = TableRows(data.table[labelled], learned_from, groups)
        found += [
            Baseline("1-nn", "1-NN on the table", rows.nearest),
            Baseline("logistic", "logistic regression on the table", rows.logistic),
            Baseline("svc", "support vectors on the table", rows.support_vectors),
        ]
    links, where = data.links, "over the links"
    if links is None and data.table is not None:
        where = "over near rows of the table"
        if data.table.shape[0] > SEARCHED_UP_TO:
            remarks.append(
                f"label propagation was not compared: there are no links, and more than "
                f"{SEARCHED_UP_TO} rows"
            )
        else:
            k = min(NEIGHBOURS, data.table.shape[0] - 1)
            sparse = not isinstance(data.table, np.ndarray)
            near = nearest_items(data.table, k, "cosine" if sparse else "euclidean")
            links = joined(near, k)
    if links is not None and len(data.graphs) > 1:
        several = {**data.graphs, "all links": links}
        best = BestGraph(several, labelled, n_classes, groups)
        found.append(Baseline("propagation", "label propagation over", best.predict, best.chosen))
    elif links is not None:
        spread = LinkPropagation(links, labelled, n_classes)
        found.append(Baseline("propagation", f"label propagation {where}", spread.predict))
    return found, remarks


class TableRows:
    """The labelled rows of a table, (L, d), and classifiers on them.

    Where there are fewer rows to learn from than columns, the rows are projected on the span of the
    former. That keeps all their inner products, which are all that these classifiers look at.
    """

    def __init__(self, table: Any, learned_from: Any, groups: Indices | None = None) -> None:
        self.learned_from, self.groups = learned_from, groups
        rows = table if isinstance(table, np.ndarray) else table.tocsr()
        if rows.shape[1] > learned_from.sum():
            product = rows @ rows[learned_from].T
            gram = np.asarray(product if isinstance(product, np.ndarray) else product.toarray())
            gram = gram.astype(np.float64, copy=False)
            values, vectors = np.linalg.eigh(gram[learned_from])
            kept = values > 1e-10 * max(float(values[-1]), 1e-300)
            rows = gram @ (vectors[:, kept] / np.sqrt(values[kept]))
        elif not isinstance(rows, np.ndarray):
            rows = rows.toarray()
        centred = np.asarray(rows - rows.mean(axis=0), dtype=np.float64)
        spread = float(np.sqrt(np.einsum("ij,ij->", centred, centred) / max(1, len(centred))))
        # Along the principal directions all distances stay, and regressions converge in few steps.
        with small_products(centred.shape[1]):
            _, directions = np.linalg.eigh(centred.T @ centred)
        self.rows: Floats = centred @ directions / (spread or 1.0)
        self.squares: Floats = np.einsum("ij,ij->i", self.rows, self.rows)

    def nearest(self, train: Indices, y: Indices, test: Indices) -> Indices:
        """Return the classes of the nearest training rows."""
        kept = self.learned_from[train]
        return np.asarray(y[kept][self.apart(test, train[kept]).argmin(axis=1)])

    def logistic(self, train: Indices, y: Indices, test: Indices) -> Indices:
        """Return what logistic regression says; all folds and penalties are fitted together."""
        kept = self.learned_from[train]
        rows, (classes, codes) = self.rows[train[kept]], np.unique(y[kept], return_inverse=True)
        folds = list(inner_folds(y[kept], self.groups, train[kept]))
        weights = np.array([*(known for known, _ in folds), np.ones(len(rows))], dtype=np.float64)
        order = np.argsort(PENALTIES)
        path = logistic_path(
            rows, codes, weights, np.array(PENALTIES)[order].tolist(), len(classes)
        )
        by_penalty = path[:, np.argsort(order)]
        right = np.zeros(len(PENALTIES))
        for (_, out), of_fold in zip(folds, by_penalty, strict=False):
            for k, coefficients in enumerate(of_fold):
                answer = class_probabilities(rows[out], coefficients).argmax(axis=1)
                right[k] += (answer == codes[out]).sum()
        chosen = by_penalty[-1, int(right.argmax())]
        return np.asarray(classes[class_probabilities(self.rows[test], chosen).argmax(axis=1)])

    def support_vectors(self, train: Indices, y: Indices, test: Indices) -> Indices:
        """Return what support vectors say, by their decision values."""
        from sklearn.svm import SVC

        kept = self.learned_from[train]
        train, y = train[kept], y[kept]
        values = np.exp(-self.apart(np.concatenate([train, test]), train))
        everyone = np.arange(len(train))

        def predicted(C: float, known: Indices, asked: Indices) -> Indices:
            if (y[known] == y[known[0]]).all():
                return np.full(len(asked), y[known[0]])
            model = SVC(C=C, kernel="precomputed").fit(values[np.ix_(known, known)], y[known])
            return np.asarray(model.predict(values[np.ix_(asked, known)]))

        right = np.zeros(len(PENALTIES))
        for known, out in inner_folds(y, self.groups, train):
            for k, C in enumerate(PENALTIES):
                answer = predicted(C, np.flatnonzero(known), np.flatnonzero(out))
                right[k] += (answer == y[out]).sum()
        asked = len(train) + np.arange(len(test))
        return predicted(PENALTIES[int(right.argmax())], everyone, asked)

    def apart(self, asked: Indices, known: Indices) -> Floats:
        """Return the squared distances from some rows to others."""
        products = self.rows[asked] @ self.rows[known].T
        apart = self.squares[asked][:, None] + self.squares[known] - 2.0 * products
        return np.asarray(np.maximum(apart, 0.0))


class LinkPropagation:
    """Labels spread over links by PageRank, class means over the labelled items."""

    def __init__(self, links: Any, labelled: Indices, n_classes: int) -> None:
        self.operator = normalised(links)
        self.labelled, self.n_classes = labelled, n_classes

    def predict(self, train: Indices, y: Indices, test: Indices) -> Indices:
        """Return the class that reaches most of each item; the most frequent one, if none does."""
        sizes = np.bincount(y, minlength=self.n_classes)
        start = np.zeros((self.operator.shape[0], self.n_classes))
        start[self.labelled[train], y] = 1.0
        reached = pagerank_smoothed(self.operator, start, 0.1, 1e-6)[self.labelled[test]]
        share = np.where(reached > 1e-9, reached, 0.0) / np.maximum(sizes, 1)
        return np.where(share.any(axis=1), share.argmax(axis=1), sizes.argmax())


class BestGraph:
    """Labels spread over one of several graphs, the best on parts of the training labels."""

    def __init__(
        self,
        graphs: Mapping[str, Any],
        labelled: Indices,
        n_classes: int,
        groups: Indices | None = None,
    ) -> None:
        self.groups = groups
        self.graphs = {
            name: LinkPropagation(links, labelled, n_classes) for name, links in graphs.items()
        }
        self.times: Counter[str] = Counter()

    def predict(self, train: Indices, y: Indices, test: Indices) -> Indices:
        """Return what the graph says that is right most often; among equal ones, the first."""
        right = dict.fromkeys(self.graphs, 0)
        for known, out in inner_folds(y, self.groups, train):
            for name, graph in self.graphs.items():
                answer = graph.predict(train[known], y[known], train[out])
                right[name] += int((answer == y[out]).sum())
        best = max(right, key=lambda name: right[name])
        self.times[best] += 1
        return self.graphs[best].predict(train, y, test)

    def chosen(self) -> str:
        """Return the graph that was taken most often."""
        return self.times.most_common(1)[0][0]


def inner_folds(
    y: Indices, groups: Indices | None = None, train: Any = slice(None)
) -> Iterator[tuple[Any, Any]]:
    """Yield masks of the training labels to learn from and to judge by: one pair if there are many.

    Those of a group stay together. Folds without a label on one side are left out.
    """
    own = None if groups is None else groups[train]
    keys = np.arange(len(y), dtype=np.uint64)
    folds = deal(y, INNER, keys, keep_shares=True, groups=own)
    for fold in range(1 if len(y) > SPLIT_ONCE_FROM else int(folds.max()) + 1):
        out = folds == fold
        if out.any() and not out.all():
            yield ~out, out

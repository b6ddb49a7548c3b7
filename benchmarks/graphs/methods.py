"""The methods on graphs, and what each is told.

Three groups: ours, with the labels alone; other methods with the same labels and fixed settings;
and graph networks and smoothing as published, which choose settings or epochs by 500 more labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array, issparse, triu
from scipy.sparse.linalg import eigsh
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, normalize

from benchmarks.accuracy import ours
from benchmarks.accuracy.data import Case, Indices
from benchmarks.accuracy.peers import networks, smoothing, spreading
from benchmarks.accuracy.peers.features import predicted
from benchmarks.accuracy.run import LIBRARY, Method
from benchmarks.graphs.data import Graph, load, split, union

Variants = Iterator[tuple[str, Indices]]

HERE, ACCURACY = "benchmarks/graphs", "benchmarks/accuracy"
DECAY, ALPHA, EPOCHS = 1e-5, 0.9, 200
"""Weight decay of SGC, S²GC and GGCM, of label spreading, and of APPNP without validation."""
COMPONENTS, EIGENVECTORS, DAMPING, STEPS = 100, 32, 0.85, 50
LEAVES, FOLDS, TRIED = (1, 5, 20), 3, 25
"""Sizes of leaves to choose among for boosting, by folds of the labels and so many rounds."""
BINS = 63
"""Of boosting; there are a few hundred labels at most."""


@dataclass(frozen=True, eq=False)
class GraphCase(Case):
    """A graph and a split. `X` and `edges` are what peers get: numbers, and the union of relations.

    Attributes
    ----------
    given : tuple
        What ours gets: the table or the counts of words (or None), and the relations by name.
    """

    given: Any = None


def case_of(data: str, per_class: int, draw: int) -> GraphCase:
    """Return a case with so many labels per class."""
    graph = load(data)
    table = graph.words if graph.words is not None else graph.table if len(graph.table) else None
    i, j = triu(union(graph), 1).coords
    name = split_name(per_class, draw)
    parts = split(graph.labels, per_class, draw)
    edges = np.column_stack([i, j]).astype(np.int64)
    return GraphCase(
        data, name, encoded(graph), edges, graph.labels, *parts, (table, graph.relations)
    )


def split_name(per_class: int, draw: int) -> str:
    """Return what a draw of labels is called."""
    return f"{per_class} per class, draw {draw}"


def encoded(graph: Graph) -> Any:
    """Return attributes as numbers, sparse: counts of words as they are; columns encoded.

    Numbers are imputed and standardised, categories one-hot, texts by tf-idf. Without attributes,
    each item is an attribute of itself.
    """
    if graph.words is not None:
        return csr_array(graph.words)
    if not len(graph.table.columns):
        return eye_array(graph.n, format="csr")
    numbers = list(graph.table.select_dtypes("number"))
    categories = [name for name in graph.table if name not in (*numbers, *graph.texts)]
    parts: list[tuple[str, Any, Any]] = [
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        ("categories", OneHotEncoder(handle_unknown="ignore", min_frequency=2), categories),
    ]
    parts += [(name, TfidfVectorizer(min_df=2), name) for name in graph.texts]
    return csr_array(ColumnTransformer(parts, sparse_threshold=1.0).fit_transform(graph.table))


def has_attributes(case: Case) -> bool:
    """Return whether items have attributes other than themselves."""
    return case.given[0] is not None  # type: ignore[attr-defined, no-any-return]


# -- with the same labels --------------------------------------------------------------------------


def fewest(case: Case) -> int:
    """Return the number of labels in the smallest class."""
    return int(np.bincount(case.labels[case.train])[np.unique(case.labels[case.train])].min())


def rows_of(case: Case) -> Any:
    """Return attributes for a classifier: counts of words by tf-idf, others as encoded."""
    words = issparse(case.given[0])  # type: ignore[attr-defined]
    X = csr_array(TfidfTransformer().fit_transform(case.X) if words else case.X)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # for trees
    return X


def logistic(case: Case) -> Variants:
    """Return what logistic regression says, its penalty chosen by folds of the labels."""
    X = rows_of(case)
    few = fewest(case)
    model: Any = LogisticRegression(max_iter=500)
    if few > 1:
        model = LogisticRegressionCV(Cs=7, cv=min(5, few), max_iter=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield "cross-validated" if few > 1 else "C 1", predicted(model, X, case)


def forest(case: Case, seed: int = 0) -> Variants:
    """Return what a random forest on the attributes says."""
    yield (
        "500 trees",
        predicted(RandomForestClassifier(500, random_state=seed), rows_of(case), case),
    )


def spread(case: Case) -> Variants:
    """Return what label spreading says."""
    S = smoothing.normalised(smoothing.adjacency(case))
    yield f"alpha {ALPHA:g}", spreading.spread(case, S, ALPHA)


def graph_table(case: Case) -> Any:
    """Return the attributes beside what the graph says of each item, dense.

    Degree, PageRank, leading eigenvectors of the normalised adjacency matrix, and the means of the
    neighbours' attributes. More than 100 attributes are reduced to 100 by a truncated singular
    value decomposition.
    """
    A = smoothing.adjacency(case).astype(np.float64)
    degrees = np.asarray(A.sum(axis=1)).ravel()
    root = np.divide(1.0, np.sqrt(degrees), out=np.zeros(case.n), where=degrees > 0)
    S = csr_array(diags_array(root) @ A @ diags_array(root))
    start = np.random.default_rng(0).random(case.n)
    vectors = eigsh(S, k=min(EIGENVECTORS, case.n // 2), v0=start, which="LA")[1]
    walk = csr_array(diags_array(root**2) @ A)
    rank = np.full(case.n, 1 / case.n)
    for _ in range(STEPS):
        rank = DAMPING * (walk.T @ rank) + (1 - DAMPING) / case.n
    columns = [np.log1p(degrees), rank]
    parts = [np.column_stack(columns), vectors]
    if has_attributes(case):
        X = rows_of(case)
        if X.shape[1] > COMPONENTS:
            size = min(COMPONENTS, case.n - 1)
            X = TruncatedSVD(size, random_state=0).fit_transform(X)
        X = X.toarray() if issparse(X) else X
        parts += [X, walk @ X]
    return np.hstack(parts)


class GraphTables:
    """The table of the last case that was asked for."""

    def __init__(self) -> None:
        self.data, self.table = "", None

    def of(self, case: Case) -> Any:
        """Return the table of a case; it does not depend on labels."""
        if self.data != case.data or len(self.table) != case.n:
            self.data, self.table = case.data, graph_table(case)
        return self.table


TABLES = GraphTables()


def graph_forest(case: Case, seed: int = 0) -> Variants:
    """Return what a random forest on the table and the graph's columns says."""
    model = RandomForestClassifier(500, random_state=seed)
    yield "500 trees", predicted(model, TABLES.of(case), case)


def graph_boosting(case: Case, seed: int = 0) -> Variants:
    """Return what boosting on the table and the graph's columns says."""
    table, leaf = TABLES.of(case), 1
    if fewest(case) >= FOLDS:
        tried = HistGradientBoostingClassifier(max_iter=TRIED, max_bins=BINS, random_state=seed)
        search = GridSearchCV(tried, {"min_samples_leaf": LEAVES}, cv=FOLDS, refit=False)
        search.fit(table[case.train], case.labels[case.train])
        leaf = search.best_params_["min_samples_leaf"]
    model = HistGradientBoostingClassifier(min_samples_leaf=leaf, max_bins=BINS, random_state=seed)
    yield f"{leaf} in a leaf", predicted(model, table, case)


# -- the list --------------------------------------------------------------------------------------

PUBLISHED: dict[str, Any] = {
    "gcn": networks.gcn,
    "appnp": networks.appnp,
    "sgc": smoothing.sgc,
    "s2gc": smoothing.s2gc,
    "ggcm": smoothing.ggcm,
}
"""Peers that choose an epoch or settings by the validation items."""
FIXED: dict[str, Any] = {
    "gcn": partial(networks.gcn, settings=replace(networks.GCN, patience=None)),
    "appnp": partial(
        networks.appnp, settings=replace(networks.APPNP, max_epochs=EPOCHS, patience=None)
    ),
    "sgc": partial(smoothing.sgc, decays=(DECAY,)),
    "s2gc": partial(smoothing.s2gc, decays=(DECAY,)),
    "ggcm": partial(smoothing.ggcm, decays=(DECAY,), strengths=(1.0,)),
}
"""Peers with fixed settings: there is one variant, and no epoch is chosen."""


def with_unit_rows(case: Case) -> Case:
    """Return a case whose attributes have rows of length 1, unless some are negative."""
    X = csr_array(case.X)
    return case if X.data.min(initial=0.0) < 0 else replace(case, X=csr_array(normalize(X)))


def same_labels(name: str, case: Case, seed: int = 0) -> Variants:
    """Return what a peer with fixed settings says, with rows of length 1.

    On the graphs to choose by, shares of rows as published were a little better on two citation
    networks and far worse on articles.
    """
    options = {"seed": seed} if name in SEEDED else {}
    yield from FIXED[name](with_unit_rows(case), **options)


def as_published(name: str, case: Case, seed: int = 0) -> Variants:
    """Return what a peer with validation items says, with shares of rows and rows of length 1."""
    options = {"seed": seed} if name in SEEDED else {}
    both = {"shares": case, "unit rows": with_unit_rows(case)}
    for rows, one in both.items():
        if rows == "shares" or one is not case:
            for setting, labels in PUBLISHED[name](one, **options):
                yield f"{rows}, {setting}", labels


SEEDED = ("gcn", "appnp", "ggcm")
TITLES = {"gcn": "GCN", "appnp": "APPNP", "sgc": "SGC", "s2gc": "S²GC", "ggcm": "GGCM"}
OURS, EQUAL = "metricmix", "equal"


def _method(name: str, title: str, variants: Any, *code: str) -> Method:
    own = (f"{HERE}/data.py", f"{HERE}/methods.py")
    return Method(name, title, variants, ("graph",), (*own, *code))


def _peer(name: str, title: str, variants: Any, *files: str) -> Method:
    return _method(name, title, variants, *(f"{ACCURACY}/peers/{file}.py" for file in files))


METHODS = {
    method.name: method
    for method in (
        _method(OURS, "metricmix", ours.defaults, f"{ACCURACY}/ours.py", *LIBRARY),
        _method(EQUAL, "equal weights", ours.equal_weights, f"{ACCURACY}/ours.py", *LIBRARY),
        _peer("logistic", "logistic regression", logistic, "features"),
        _peer("forest", "random forest", forest, "features"),
        _peer("spreading", "label spreading", spread, "spreading", "smoothing"),
        _peer("graph forest", "forest, graph as columns", graph_forest, "features", "smoothing"),
        _peer(
            "graph boosting", "boosting, graph as columns", graph_boosting, "features", "smoothing"
        ),
        *(
            _peer(name, TITLES[name], partial(same_labels, name), "networks", "smoothing")
            for name in ("sgc", "s2gc", "ggcm", "gcn", "appnp")
        ),
        *(
            _peer(
                f"{name} +500",
                f"{TITLES[name]} + 500",
                partial(as_published, name),
                *("networks", "smoothing"),
            )
            for name in ("sgc", "s2gc", "ggcm", "gcn", "appnp")
        ),
    )
}
ON_ATTRIBUTES = ("logistic", "forest")
"""Methods that need attributes."""
WITH_VALIDATION = tuple(name for name in METHODS if name.endswith("+500"))


def suits(name: str, case: Case) -> bool:
    """Return whether a method can say something on a case."""
    return name not in ON_ATTRIBUTES or has_attributes(case)


def facts(graph: Graph, case: Case) -> dict[str, Any]:
    """Return what the page says about a graph."""
    i, j = case.edges.T  # type: ignore[union-attr]
    known = (graph.labels[i] >= 0) & (graph.labels[j] >= 0)
    columns: list[str] = []
    if graph.words is not None:
        columns.append(f"{graph.words.shape[1]} words")
    if len(graph.table.columns) > len(graph.texts):
        columns.append(f"{len(graph.table.columns) - len(graph.texts)} columns")
    if graph.texts:
        columns.append(f"{len(graph.texts)} texts" if len(graph.texts) > 1 else "a text")
    relations = []
    for name, matrix in graph.relations.items():
        square = matrix.shape[0] == matrix.shape[1]
        directed = square and bool((matrix != matrix.T).nnz)
        kind = " (directed)" if directed else "" if square else " (shared)"
        count = matrix.nnz if directed or not square else matrix.nnz // 2
        relations.append(f"{count} {name}{kind}")
    return {
        "items": graph.n,
        "classes": graph.n_classes,
        "attributes": ", ".join(columns) or "none",
        "relations": ", ".join(relations),
        "alike": round(float((graph.labels[i] == graph.labels[j])[known].mean()), 3),
    }

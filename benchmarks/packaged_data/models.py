"""Stock models, on the table encoded as scikit-learn's documentation does it.

Numbers are imputed and standardised, categories one-hot, texts tf-idf. Of items that have graphs
alone, links and memberships are the columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

from benchmarks.packaged_data.measures import Answer
from benchmarks.packaged_data.stored import Data

STOCK = (
    *("k-NN", "logistic regression", "LDA", "linear SVM", "RBF SVM", "random forest"),
    *("extra trees", "boosting", "boosting, tuned leaves", "label propagation", "most frequent"),
)
PROBABLE = ("logistic regression", "LDA", "RBF SVM", "random forest", "extra trees")
"""Those whose probabilities are measured."""
ALPHA = 0.9
"""Of label spreading over a graph, (I - alpha S)^-1 Y."""
C = np.logspace(-3, 3, 7)
"""Of support vectors."""
LEAVES = (1, 5, 20)
"""Fewest items in a leaf, of tuned boosting."""


def encoder(data: Data) -> ColumnTransformer | None:
    """Return what turns the columns into numbers, or None if there are only ids and labels."""
    columns = data.table.drop(columns=["id", data.label])
    if not len(columns.columns):
        return None
    numbers = list(columns.select_dtypes("number"))
    texts = [name for name in data.texts if name in columns]
    categories = [name for name in columns if name not in (*numbers, *texts)]
    parts: list[tuple[str, Any, Any]] = [
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        ("categories", OneHotEncoder(handle_unknown="ignore", min_frequency=2), categories),
    ]
    parts += [(name, TfidfVectorizer(), name) for name in texts]
    return ColumnTransformer(parts)


def encoded(data: Data, fitted_on: Any = slice(None)) -> Any:
    """Return the columns as numbers, by means and categories of some rows; None without columns."""
    found = encoder(data)
    if found is None:
        return None
    texts = {name: data.table[name].fillna("").astype(str) for name in data.texts}
    columns = data.table.assign(**texts)
    X = found.fit(columns[fitted_on]).transform(columns)
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


def adjacency(data: Data) -> np.ndarray:
    """Return the links of all graphs as one symmetric matrix; shared words are links, too."""
    place = {item: k for k, item in enumerate(data.table["id"])}
    n = len(place)
    joined = np.zeros((n, n))
    for links in data.graphs.values():
        i = links.iloc[:, 0].map(place)
        if "target" not in links:
            members = pd.crosstab(i, links.iloc[:, 1]).reindex(range(n), fill_value=0).to_numpy()
            joined += members @ members.T
            continue
        value = links["similarity"] if "similarity" in links else np.ones(len(links))
        np.add.at(joined, (i, links["target"].map(place)), np.log1p(value))
    np.fill_diagonal(joined, 0)
    return joined + joined.T


def graph_columns(data: Data) -> np.ndarray:
    """Return the graphs as attributes of items: links to and from each item, memberships."""
    place = {item: k for k, item in enumerate(data.table["id"])}
    n = len(place)
    found = []
    for links in data.graphs.values():
        i = links.iloc[:, 0].map(place)
        if "target" not in links:
            found.append(
                pd.crosstab(i, links.iloc[:, 1]).reindex(range(n), fill_value=0).to_numpy()
            )
            continue
        value = links["similarity"] if "similarity" in links else np.ones(len(links))
        A = np.zeros((n, n))
        np.add.at(A, (i, links["target"].map(place)), np.log1p(value))
        found += [A, A.T] if data.directed else [A + A.T]
    return np.hstack(found)


def spread(joined: np.ndarray, classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return classes by label spreading over a graph."""
    root = np.sqrt(np.maximum(joined.sum(axis=1), 1e-12))
    S = joined / root[:, None] / root
    Y = (y[:, None] == classes).astype(float)
    return classes[np.linalg.solve(np.eye(len(y)) - ALPHA * S, Y).argmax(axis=1)]


def stock_model(name: str, fewest: int, n_labelled: int) -> Any:
    """Return a model, tuned by cross-validation where one would.

    `fewest` labels in a class: with one there are no folds, and the model has its default
    settings, k-NN one neighbour. Nothing if the model needs more labels.
    """
    folds = min(5, fewest)
    tuned = folds > 1
    if name == "k-NN":
        near = [k for k in (1, 3, 5, 7, 9) if k <= n_labelled * (folds - 1) // folds]
        nearest = KNeighborsClassifier(1)
        return GridSearchCV(nearest, {"n_neighbors": near}, cv=folds) if tuned else nearest
    if name == "logistic regression":
        by_folds = LogisticRegressionCV(Cs=10, cv=folds, max_iter=500)
        return by_folds if tuned else LogisticRegression(max_iter=500)
    if name == "LDA":
        return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto") if tuned else None
    if name == "linear SVM":
        linear = SVC(kernel="linear")
        return GridSearchCV(linear, {"C": C}, cv=folds) if tuned else linear
    if name == "RBF SVM":
        grid = {"C": C, "gamma": ["scale", 0.001, 0.01, 0.1]}
        return GridSearchCV(SVC(), grid, cv=folds) if tuned else SVC()
    if name == "boosting, tuned leaves":
        trees, grid = HistGradientBoostingClassifier(random_state=0), {"min_samples_leaf": LEAVES}
        if tuned:
            return GridSearchCV(trees, grid, cv=folds)
        return trees.set_params(min_samples_leaf=1)
    return {
        "random forest": RandomForestClassifier(500, random_state=0),
        "extra trees": ExtraTreesClassifier(500, random_state=0),
        "boosting": HistGradientBoostingClassifier(random_state=0),
    }[name]


def stock_answer(
    name: str, data: Data, kept: np.ndarray, X: Any = None, *, probable: bool = False
) -> Answer | None:
    """Return what a method predicts for all items, or None if it does not apply.

    `X` are the attributes as numbers, by default :func:`encoded`. With `probable`, probabilities of
    the classes come with it, for the methods of `PROBABLE`.
    """
    labels = data.labels.to_numpy()
    y = np.where(kept, labels, "")
    classes, counts = np.unique(labels[kept], return_counts=True)
    if name == "most frequent":
        return Answer(np.full(len(y), classes[counts.argmax()]))
    if name == "label propagation" and data.graphs:
        return Answer(spread(adjacency(data), classes, y))
    X = encoded(data) if X is None else X
    X = graph_columns(data) if X is None else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "label propagation":
            codes = np.where(kept, np.searchsorted(classes, labels), -1)
            model = LabelSpreading(kernel="knn", n_neighbors=7, max_iter=200).fit(X, codes)
            return Answer(classes[model.transduction_.astype(int)])
        model = stock_model(name, int(counts.min()), len(labels[kept]))
        if model is None:
            return None
        predicted = model.fit(X[kept], y[kept]).predict(X)
        if not (probable and name in PROBABLE):
            return Answer(predicted)
        if name == "RBF SVM":  # Platt's
            folds = min(5, int(counts.min()))
            model = CalibratedClassifierCV(model.best_estimator_, cv=folds, ensemble=False)
            model.fit(X[kept], y[kept])
        return Answer(predicted, model.predict_proba(X), model.classes_)


def baselines(
    data: Data, kept: np.ndarray, X: np.ndarray | None = None
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each method that applies, and what it predicts for all items."""
    X = encoded(data) if X is None else X
    for name in STOCK:
        answer = stock_answer(name, data, kept, X)
        if answer is not None:
            yield name, answer.labels

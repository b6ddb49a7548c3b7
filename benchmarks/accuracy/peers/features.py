"""Methods that look at the table alone: logistic regression, support vectors, k-NN and NCA.

Words count as they are or by tf-idf, each row at length 1; pixels are divided by the largest one,
with rows as they are or at length 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import normalize
from sklearn.svm import SVC

from benchmarks.accuracy.data import Case, Indices

Variants = Iterator[tuple[str, Indices]]

PENALTIES = (1.0, 10.0, 100.0)


def tables(case: Case) -> dict[str, Any]:
    """Return two ways to take the table."""
    if case.edges is None:
        X = np.asarray(case.X, np.float64)
        X = X / X.max()
        return {"plain": X, "unit rows": normalize(X)}
    X = csr_array(case.X)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # for SVC
    return {"plain": normalize(X), "tf-idf": csr_array(TfidfTransformer().fit_transform(X))}


def logistic_regression(case: Case) -> Variants:
    """Return what logistic regressions say."""
    for name, X in tables(case).items():
        for C in PENALTIES:
            yield f"{name}, C {C:g}", predicted(LogisticRegression(C=C, max_iter=2000), X, case)


def support_vectors(case: Case) -> Variants:
    """Return what support vector machines with a Gaussian kernel say."""
    for name, X in tables(case).items():
        for C in PENALTIES:
            yield f"{name}, C {C:g}", predicted(SVC(C=C), X, case)


def nearest_neighbours(case: Case) -> Variants:
    """Return what the nearest labelled items say: by angle, as rows have length 1, or Euclidean."""
    for name, X in tables(case).items():
        for k in (1, 3, 5) if case.edges is None else (1, 5, 15):
            yield f"{name}, k {k}", predicted(KNeighborsClassifier(k), X, case)


def nca(case: Case) -> Variants:
    """Return what the nearest labelled items say after neighbourhood components analysis."""
    X = tables(case)["plain"]
    for dimensions in (10, 30):
        model = NeighborhoodComponentsAnalysis(dimensions, init="pca", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            Z = model.fit(X[case.train], case.labels[case.train]).transform(X)
        for k in (1, 3, 5):
            yield f"{dimensions} dimensions, k {k}", predicted(KNeighborsClassifier(k), Z, case)


def predicted(model: Any, X: Any, case: Case) -> Indices:
    """Return the class of every item, by a classifier fitted to the labelled ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[case.train], case.labels[case.train])
    return np.asarray(model.predict(X))

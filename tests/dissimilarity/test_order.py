"""Supervised sources do not depend on the order of items or on the numbers of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, load_wine, make_classification, make_friedman1
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metricmix as mm
from metricmix.dissimilarity.diffusion import normalised
from metricmix.dissimilarity.item_keys import keys_of
from metricmix.dissimilarity.kernel_ridge import KernelPredictor
from metricmix.dissimilarity.kinds.forest import Forest
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictors import CrossFitted, Predictor
from metricmix.dissimilarity.propagation import LabelPropagation
from metricmix.dissimilarity.supervised import SupervisedSource


def wine() -> tuple[Any, Any]:
    X, y = load_wine(return_X_y=True)
    return (X / X.std(axis=0))[::2], y[::2]


def iris() -> tuple[Any, Any]:
    X, y = load_iris(return_X_y=True)
    return X[50::2] + 1e-6 * np.arange(50)[:, None], y[50::2] - 1  # without duplicates


def generated() -> tuple[Any, Any]:
    X, y = make_classification(
        90, 12, n_informative=4, n_classes=4, n_clusters_per_class=1, random_state=0
    )
    return X, y


def friedman() -> tuple[Any, Any]:
    return make_friedman1(90, 6, random_state=0)


TABLES = {"wine": wine, "iris": iris, "generated": generated}
ON_TABLES = {
    "linear": KernelPredictor,
    "rbf": lambda X: KernelPredictor(X, "rbf"),
    "forest": lambda X: Forest(X, 20),
}
CLASSIFIERS = {
    "logistic": LogisticRegression(C=10.0),
    "forest of scikit-learn": RandomForestClassifier(8),
    "neighbours": KNeighborsClassifier(3),
    "stopped early": make_pipeline(StandardScaler(), MLPClassifier((5,), max_iter=20)),
}
REGRESSORS = {"ridge": Ridge(), "trees": ExtraTreesRegressor(8, max_features=0.5)}


def some(y: Any, every: int = 3) -> Any:
    """Return what is known of the items: all but every third."""
    unknown = np.nan if y.dtype.kind == "f" else -1
    return np.where(np.arange(len(y)) % every, y, unknown)


def agrees(make: Any, X: Any, values: Any, n_classes: int, keys: Any) -> None:
    """Compare sources of permuted items and of renamed classes, and their models of new rows."""
    rng = np.random.default_rng(len(values))
    order = rng.permutation(len(values))
    names = rng.permutation(n_classes)
    weights = rng.uniform(0.5, 2.0, len(values))
    permuted = values[order]
    rows = X[order] if not is_graph(X) else X[order][:, order]
    renamed = np.append(names, -1)[permuted] if n_classes else permuted
    one, other = (
        SupervisedSource(make(table), "f", Known(y, n_classes, k), weights=v)
        for table, y, k, v in (
            (X, values, keys, weights),
            (rows, renamed, keys[order], weights[order]),
        )
    )
    expected = one.values[order]
    found = other.values[:, names] if n_classes else other.values
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert one.choice == other.choice
    assert not one.is_constant
    if not is_graph(X):
        new = X[:5] + 0.01
        said = [source.predicted(new) for source in (one, other)]
        if n_classes:
            said[1] = said[1][:, names]
        np.testing.assert_allclose(said[1], said[0], atol=1e-6 * max(1.0, np.abs(said[0]).max()))


def is_graph(X: Any) -> bool:
    return sparse.issparse(X)


@pytest.mark.parametrize("by", ["ids", "contents"])
@pytest.mark.parametrize("data", TABLES)
@pytest.mark.parametrize("name", [*ON_TABLES, *CLASSIFIERS])
def test_classes_of_tables(data: str, name: str, by: str) -> None:
    X, y = TABLES[data]()
    make = ON_TABLES.get(name) or (lambda X: CrossFitted(X, CLASSIFIERS[name], n_folds=4))
    agrees(make, X, some(y), int(y.max()) + 1, keys_for(X, by))


@pytest.mark.parametrize("by", ["ids", "contents"])
@pytest.mark.parametrize("name", [*ON_TABLES, *REGRESSORS])
def test_numbers_of_tables(name: str, by: str) -> None:
    X, y = friedman()
    make = ON_TABLES.get(name) or (lambda X: CrossFitted(X, REGRESSORS[name], n_folds=4))
    agrees(make, X, some(y), 0, keys_for(X, by))


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("large", [False, True])
def test_graphs(numbers: bool, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        monkeypatch.setattr("metricmix.dissimilarity.propagation.VALUES_AT_ONCE", 100)
    data = mm.datasets.make_attributed_graph(n_items=80, random_state=0)
    A = sparse.csr_array((np.ones(len(data.edges)), np.transpose(data.edges)), shape=(80, 80))
    operator = normalised(A + A.T)
    y = data.target.astype(float) * 2.0 if numbers else data.target
    agrees(
        LabelPropagation, operator, some(y), 0 if numbers else int(y.max()) + 1, keys_of(range(80))
    )


def keys_for(X: Any, by: str) -> Any:
    return keys_of(f"item {i}" for i in range(len(X))) if by == "ids" else keys_of(map(bytes, X))


def test_stopping_early_and_bootstrap_samples_depend_on_the_order() -> None:
    """Without keys, positions count: what the tests above show is not for nothing."""
    X, y = wine()
    order = np.random.default_rng(0).permutation(len(y))
    for make in (lambda X: Forest(X, 8), lambda X: CrossFitted(X, CLASSIFIERS["stopped early"])):
        one = make(X).predict(Known(some(y), 3)).values
        other = make(X[order]).predict(Known(some(y)[order], 3)).values
        assert np.abs(other - one[order]).max() > 1e-3


def test_parts_and_weights() -> None:
    """Equal weights change nothing; a part is relabelled like a source of these items."""
    X, y = wine()
    known = Known(some(y), 3, keys_for(X, "ids"))
    makers: list[Any] = [KernelPredictor, lambda X: CrossFitted(X, LogisticRegression())]
    for make in makers:
        predictor: Predictor = make(X)
        source = SupervisedSource(predictor, "f", known)
        items = known.items
        part, ones = source.part(items, 3), np.ones(len(items))
        np.testing.assert_array_equal(part.values, source.values[items])
        assert part.relabel(known.take(items)) is part
        weighted = part.relabel(known.take(items), weights=ones, keep_choice=True)
        assert weighted is not part
        alone = make(X[items]).predict(known.take(items), n_folds=3, choice=source.choice)
        np.testing.assert_allclose(weighted.values, alone.values, atol=1e-6)
        other = part.relabel(known.take(items), weights=np.linspace(0.1, 3.0, len(items)))
        assert np.abs(other.values - weighted.values).max() > 1e-3


def test_other_keys_are_other_labels() -> None:
    X, y = wine()
    known = Known(some(y), 3)
    source = SupervisedSource(KernelPredictor(X), "f", known)
    assert source.relabel(Known(some(y), 3)) is source
    assert source.relabel(Known(some(y), 3, keys_for(X, "ids"))) is not source

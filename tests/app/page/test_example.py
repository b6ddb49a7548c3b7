"""The path on which a page opens is one that it holds, and what is said of it is true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.app.page import page_content
from metricmix.app.page.html import encode
from metricmix.app.page.page_paths import FARTHER, NEARER
from reference.models import signed_classifier


def shares(d: np.ndarray, i: int, j: int) -> tuple[float, float]:
    """The shares of ordered pairs that are nearer than (i, j), and farther."""
    others = d[~np.eye(len(d), dtype=bool)]
    return float((others < d[i, j]).mean()), float((others > d[i, j]).mean())


def model_of(sources: dict[str, np.ndarray], y: np.ndarray, weights: list[float]) -> Any:
    """A classifier with weights that are set, not learned."""
    stack = mm.DissimilarityStack(sources)
    model = mm.MetricMixtureClassifier(objective=None, rule="nearest").fit(stack, y)
    mixture = mm.Mixture(weights, names=list(sources), beta=20.0)
    result = replace(model.learned_.result, mixture=mixture)
    model.learned_ = replace(model.learned_, result=result)
    return model


def from_points(X: np.ndarray) -> np.ndarray:
    return np.linalg.norm(X[:, None] - X, axis=2)


def test_a_detour_is_far_in_every_source_and_close_in_the_metric() -> None:
    """A ring of steps that are short by one source or the other, in turn; all else is far."""
    n = 40
    rng = np.random.default_rng(0)
    sources = {}
    for k, name in enumerate(("odd", "even")):
        d = 5.0 + rng.random((n, n))
        d = (d + d.T) / 2
        for i in range(n - 1):
            if i % 8 < 3:
                d[i, i + 1] = d[i + 1, i] = 0.05 if i % 2 == k else 0.1
        np.fill_diagonal(d, 0.0)
        sources[name] = d
    model = model_of(sources, np.arange(n) // 20, [1.0, 1.0])
    data = page_content(model, n_bootstrap=0)
    example = data.example
    assert example is not None
    assert example.kind == "detour"
    i, j = example.items
    assert data.paths is not None
    assert len(data.paths.nodes(i, j)) > 2
    metric = mm.path_metric(model.stack_, model.mixture_)
    assert example.nearer == pytest.approx(shares(metric, i, j)[1], abs=0.05)
    assert example.nearer >= NEARER
    farther = min(shares(d, i, j)[0] for d in sources.values())
    assert example.farther == pytest.approx(farther, abs=0.05)
    assert example.farther >= FARTHER - 0.05


def test_a_shortcut_is_shorter_than_its_edge() -> None:
    rng = np.random.default_rng(0)
    X = np.sort(rng.random((30, 1)), axis=0)
    ids = [f"i{k}" for k in range(30)]
    stack = mm.DissimilarityStack({"squares": 20.0 * from_points(X) ** 2}, items=ids)
    labels = np.where(np.arange(30) < 15, "a", "b")
    data = page_content(signed_classifier(stack, ids, labels, beta=50.0), n_bootstrap=0)
    example, paths = data.example, data.paths
    assert example is not None
    assert paths is not None
    assert example.kind in ("shortcut", "detour")
    p = paths.pairs.tolist().index(min(example.items) * 30 + max(example.items))
    assert paths.indptr[p + 1] > paths.indptr[p]
    if example.kind == "shortcut":
        assert paths.lengths[p] < 0.8 * example.direct


def test_where_paths_are_edges_the_source_is_not_the_largest() -> None:
    rng = np.random.default_rng(0)
    words, links = from_points(rng.normal(size=(50, 2))), from_points(rng.normal(size=(50, 2)))
    model = model_of({"words": words, "links": links}, np.arange(50) % 2, [1.2, 1.0])
    example = page_content(model, n_bootstrap=0).example
    assert example is not None
    assert (example.kind, example.source, example.brought_by) == ("source", 0, 1)
    i, j = example.items
    assert shares(words, i, j)[0] > FARTHER - 0.05
    assert shares(links, i, j)[0] < 0.3
    assert shares(1.2 * words + links, i, j)[1] > NEARER - 0.05


def test_a_misfit_is_next() -> None:
    X = np.concatenate([np.zeros(20), np.full(20, 9.0)])[:, None]
    X = X + np.random.default_rng(0).normal(size=X.shape)
    y = np.arange(40) // 20
    y[7] = 1
    stack = mm.DissimilarityStack({"line": from_points(X)})
    data = page_content(mm.MetricMixtureClassifier().fit(stack, y), n_bootstrap=0)
    assert data.example is not None
    assert data.example.kind == "misfit"
    assert data.example.items[0] == 7
    assert y[data.example.items[1]] == 0
    assert data.items.nearest is not None
    assert data.items.nearest[7] == data.example.items[1]


def test_the_nearest_labelled_item_is_last() -> None:
    X = np.concatenate([np.zeros(20), np.full(20, 9.0)])[:, None]
    X = X + 0.1 * np.random.default_rng(0).normal(size=X.shape)
    y = np.where(np.arange(40) % 3 > 0, np.arange(40) // 20, -1)
    stack = mm.DissimilarityStack({"line": from_points(X)})
    data = page_content(mm.MetricMixtureClassifier().fit(stack, y), n_bootstrap=0)
    assert data.example is not None
    assert data.example.kind == "nearest"
    assert y[data.example.items[0]] == -1
    assert '"example":{"kind":"nearest","items":[' in encode(data)[0]

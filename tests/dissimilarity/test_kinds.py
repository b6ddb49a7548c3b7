"""Kinds of sources: values between items by dense formulas, and places for new items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import metricmix as mm
from metricmix.dissimilarity.item_sources import ItemSource, NewItemData
from metricmix.dissimilarity.kernel_ridge import KernelPredictor
from metricmix.dissimilarity.plan import plan_sources
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.items.in_memory import as_items
from metricmix.items.relation import Relation
from metricmix.items.tables import as_relation

N = 60
COPIED = [2, 23, 44]
"""Items without a label: those that have one are judged without it, unlike new items."""


def measured() -> tuple[pd.DataFrame, np.ndarray]:
    """A table of positive numbers of similar size, in three classes."""
    rng = np.random.default_rng(0)
    y = np.arange(N) // 20
    X = np.exp(0.4 * rng.normal(size=(N, 6)) + 0.5 * np.eye(3)[y] @ rng.normal(size=(3, 6)))
    return pd.DataFrame(X, columns=[f"c{k}" for k in range(6)]), y


def counted() -> tuple[pd.DataFrame, np.ndarray]:
    """A table of 120 counts, most of them 0, in three classes with words of their own."""
    rng = np.random.default_rng(1)
    y = np.arange(N) // 20
    rates = np.where(np.arange(120) // 15 == np.arange(3)[:, None], 0.6, 0.02)
    table = rng.poisson(rates[y])
    table[np.arange(N), np.arange(N)] += 1
    table[np.arange(N), np.arange(N) + 60] += 1
    return pd.DataFrame(table, columns=[f"w{k}" for k in range(120)]), y


def bound(
    frame: pd.DataFrame, y: np.ndarray, spec: dict[str, Any], edges: Any = None
) -> ItemSource:
    """Return a source of the items of a frame, whose labels are known for two thirds."""
    labels = [f"class {c}" if k % 3 < 2 else None for k, c in enumerate(y)]
    data = frame.assign(label=labels)
    relations = None if edges is None else {"links": edges}
    items = as_items(data, "label", edges=relations)
    if edges is not None:
        spec = {"file": "links", **spec}
    return plan_sources(items, [SourceSpec("one", **spec)], defaults=False).sources[0]


def values_of(source: ItemSource) -> np.ndarray:
    return np.asarray(source.matrix())


TABLES: dict[str, tuple[str, dict[str, Any]]] = {
    "columns": ("measured", {"kind": "columns"}),
    "raw": ("measured", {"kind": "raw"}),
    "direction": ("measured", {"kind": "direction"}),
    "near_columns": ("measured", {"kind": "near"}),
    "near_direction": ("measured", {"kind": "near", "view": "direction"}),
    "learned_raw": ("measured", {"kind": "learned", "view": "raw"}),
    "learned_columns": ("measured", {"kind": "learned", "view": "columns"}),
    "kernel_columns": ("measured", {"kind": "kernel"}),
    "kernel_direction": ("measured", {"kind": "kernel", "view": "direction"}),
    "spread_columns": ("measured", {"kind": "spread_near"}),
    "topics": ("counted", {"kind": "topics"}),
    "counts": ("counted", {"kind": "metric", "metric": "angular"}),
    "near_topics": ("counted", {"kind": "near", "view": "topics"}),
    "kernel_topics": ("counted", {"kind": "kernel", "view": "topics"}),
    "knn": ("measured", {"kind": "knn", "k": 4}),
    "gower": ("measured", {"kind": "gower"}),
    "forest": ("measured", {"kind": "forest"}),
}
DATA = {"measured": measured, "counted": counted}


def placed(source: ItemSource, frame: pd.DataFrame, edges: Any = None) -> np.ndarray:
    """Return the dissimilarities from new items with the rows and links of some items."""
    new = as_items(frame.iloc[COPIED].set_axis([N, N + 1, N + 2]), edges=None)
    known = source.matrix() if source.needs_known else None
    return source.cross(NewItemData(new, {} if edges is None else {"links": edges}, {}), known)


# -- dense formulas --------------------------------------------------------------------------------


def operator(A: Any) -> np.ndarray:
    looped = A + np.eye(N)
    scale = 1 / np.sqrt(looped.sum(axis=1))
    return scale[:, None] * looped * scale


def walks(A: Any, restart: float = 0.1) -> np.ndarray:
    return restart * np.linalg.inv(np.eye(N) - (1 - restart) * operator(A))


def unit(Z: Any) -> np.ndarray:
    return Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-300)


def angles(Z: Any) -> np.ndarray:
    M = np.arccos(np.clip(unit(Z) @ unit(Z).T, -1, 1)) / np.pi
    np.fill_diagonal(M, 0)
    return M


def euclidean(Z: Any) -> np.ndarray:
    """Distances of rows whose mean square length is 1."""
    Z = Z / np.sqrt(np.square(Z).sum(axis=1).mean())
    return np.linalg.norm(Z[:, None] - Z, axis=2)


def nearest(M: Any, k: int) -> np.ndarray:
    """1 where one item is among the k nearest of the other."""
    far = M + np.diag(np.full(N, np.inf))
    K = np.zeros((N, N))
    K[np.arange(N)[:, None], np.argsort(far, axis=1, kind="stable")[:, :k]] = 1
    return np.maximum(K, K.T)


def reach(A: Any) -> np.ndarray:
    M = np.maximum(-np.log(walks(A) + 1e-6), 0)
    np.fill_diagonal(M, 0)
    return M


def tf_idf(X: Any) -> np.ndarray:
    return unit(X * (1 + np.log((1 + N) / (1 + (X > 0).sum(axis=0)))))


def scaled(X: Any) -> np.ndarray:
    low, middle, high = np.percentile(X, [25, 50, 75], axis=0)
    return np.clip((X - middle) / ((high - low) / 1.349), -3, 3)


def topics(X: Any) -> np.ndarray:
    u, s, _ = np.linalg.svd(tf_idf(X), full_matrices=False)
    return u[:, : N - 1] * s[: N - 1]


def encoded_distances(X: Any) -> np.ndarray:
    """Distances of columns, far values cut off, at variance 1."""
    low, middle, high = np.percentile(X, [25, 50, 75], axis=0)
    reach = 3 * (high - low) / 1.349
    near = np.clip(X, middle - reach, middle + reach)
    return np.linalg.norm((near[:, None] - near) / near.std(axis=0), axis=2)


def gower(X: Any) -> np.ndarray:
    low, high = np.quantile(X, [0.01, 0.99], axis=0)
    return np.minimum(np.abs(X[:, None] - X) / (high - low), 1).mean(axis=2)


def paths(W: Any) -> np.ndarray:
    """Shortest paths over edges of length > 0, by Floyd and Warshall."""
    d = np.where(W > 0, W, np.inf)
    np.fill_diagonal(d, 0)
    for k in range(N):
        d = np.minimum(d, d[:, k, None] + d[k])
    return np.where(np.isinf(d), d[np.isfinite(d)].max() + W.max(), d)


def jaccard(A: Any) -> np.ndarray:
    rows = [{*np.flatnonzero(row).tolist()} for row in A]
    M = np.array([[1 - len(a & b) / max(1, len(a | b)) for b in rows] for a in rows])
    np.fill_diagonal(M, 0)
    return M


def hellinger(p: Any) -> np.ndarray:
    root = np.sqrt(p)
    return np.sqrt(np.maximum(1 - root @ root.T, 0))


def spread(A: Any, y: Any) -> np.ndarray:
    """Means of PageRank over the labels of each class, without the own one."""
    P = walks(A) - np.diag(np.diag(walks(A)))
    same = np.eye(3)[y] * (np.arange(N) % 3 < 2)[:, None]  # labels are known of two thirds
    share = P @ same / (same.sum(axis=0) - same) + 1e-9
    return hellinger(share / share.sum(axis=1, keepdims=True))


OF_TABLES = {
    "columns": lambda X: euclidean(scaled(X)),
    "raw": lambda X: euclidean(X - X.mean(axis=0)),
    "direction": angles,
    "near_columns": lambda X: reach(nearest(euclidean(scaled(X)), 10)),
    "near_direction": lambda X: reach(nearest(angles(X), 10)),
    "topics": lambda X: angles(topics(X)),
    "counts": lambda X: angles(tf_idf(X)),
    "near_topics": lambda X: reach(nearest(angles(topics(X)), 10)),
    "knn": lambda X: paths(nearest(apart := encoded_distances(X), 4) * apart),
    "gower": lambda X: gower(X),
}


@pytest.mark.parametrize("name", OF_TABLES)
def test_values_of_tables(name: str) -> None:
    of, spec = TABLES[name]
    frame, y = DATA[of]()
    expected = OF_TABLES[name](frame.to_numpy(dtype=float))
    np.testing.assert_allclose(values_of(bound(frame, y, spec)), expected, atol=2e-6)


def test_labels_spread_over_near_items() -> None:
    frame, y = measured()
    source = bound(frame, y, {"kind": "spread_near"})
    near = nearest(euclidean(scaled(frame.to_numpy())), 10)
    np.testing.assert_allclose(values_of(source), spread(near, y), atol=1e-4)  # to six digits of P


def test_all_columns_with_gaps_categories_and_texts() -> None:
    """Gaps are 0 and have a column of their own; texts count as much as all others together."""
    frame, y = measured()
    X = frame.to_numpy(copy=True)
    X[::7, 1] = X[::7, 2] = X[3, 4] = np.nan
    kinds = np.array(["tea", "oil", "ink"])[np.arange(N) % 3]
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice([f"word{k}" for k in range(12)], 4)) for _ in range(N)]
    mixed = pd.DataFrame(X, columns=frame.columns).assign(kind=kinds)
    gaps = np.isnan(X)[:, [1, 4]]  # columns 1 and 2 miss the same ones
    low, middle, high = np.nanpercentile(X, [25, 50, 75], axis=0)
    near = np.nan_to_num(np.clip((X - middle) / ((high - low) / 1.349), -3, 3))
    plain = np.hstack([near, gaps, kinds[:, None] == np.unique(kinds)])
    found = values_of(bound(mixed, y, {"kind": "columns"}))
    np.testing.assert_allclose(found, euclidean(plain), atol=1e-9)
    vocabulary = sorted({word for text in texts for word in text.split()})
    words = np.array([[text.split().count(word) for word in vocabulary] for text in texts])
    vectors = np.linalg.svd(tf_idf(words), full_matrices=False)[2][:11]
    both = np.hstack([plain, np.sqrt(7) * tf_idf(words) @ vectors.T])
    found = values_of(bound(mixed.assign(text=texts), y, {"kind": "columns"}))
    np.testing.assert_allclose(found, euclidean(both), atol=1e-6)


def test_far_values_and_signs_of_numbers() -> None:
    frame, y = measured()
    X = frame.to_numpy(copy=True)
    X[5, 2] = 1e6
    low, middle, high = np.percentile(X, [25, 50, 75], axis=0)
    near = np.minimum(X, middle + 13.5 * (high - low) / 1.349)
    far = pd.DataFrame(X, columns=frame.columns)
    raw, direction = (values_of(bound(far, y, {"kind": kind})) for kind in ("raw", "direction"))
    np.testing.assert_allclose(raw, euclidean(near - near.mean(axis=0)), atol=1e-9)
    np.testing.assert_allclose(direction, angles(near), atol=1e-6)
    signed = bound(far - 1, y, {"kind": "direction"})
    np.testing.assert_allclose(values_of(signed), angles(scaled(X)), atol=1e-6)


MODELS = {
    "learned_raw": lambda X: X - X.mean(axis=0),
    "learned_columns": scaled,
    "kernel_columns": scaled,
    "kernel_direction": unit,
    "kernel_topics": lambda X: unit(topics(X)),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_tables(name: str) -> None:
    """Distances between what a model of the same rows predicts."""
    of, spec = TABLES[name]
    frame, y = DATA[of]()
    source: Any = bound(frame, y, spec)
    rows = MODELS[name](frame.to_numpy(dtype=float))
    rows = rows / np.sqrt(np.square(rows).sum(axis=1).mean())
    model = KernelPredictor(rows, "rbf" if spec["kind"] == "kernel" else "linear")
    expected = SupervisedSource(model, "one", source.known).rows(np.arange(N))
    close = 1e-3 if name == "kernel_topics" else 1e-5  # singular vectors by a few iterations
    np.testing.assert_allclose(values_of(source), expected, atol=close)


@pytest.mark.parametrize("name", TABLES)
def test_a_copy_of_an_item_is_placed_beside_it(name: str) -> None:
    of, spec = TABLES[name]
    frame, y = DATA[of]()
    source = bound(frame, y, spec)
    found, whole = placed(source, frame), values_of(source)
    assert found.shape == (3, N)
    if KINDS.said(spec["kind"]).facts.get("view") or spec["kind"] == "metric":
        np.testing.assert_allclose(found, whole[COPIED], atol=1e-6)
        return
    for row, k in zip(found, COPIED, strict=True):
        others = np.delete(np.arange(N), k)
        assert np.corrcoef(row[others], whole[k, others])[0, 1] > 0.9


def links_of(y: np.ndarray) -> np.ndarray:
    """Links between items, most of them of the same class, none of them isolated."""
    rng = np.random.default_rng(2)
    ends = np.array([(i, j) for i in range(N) for j in range(i)])
    same = y[ends[:, 0]] == y[ends[:, 1]]
    return ends[
        (rng.random(len(ends)) < np.where(same, 0.12, 0.015)) | (ends[:, 0] == ends[:, 1] + 1)
    ]


GRAPHS: dict[str, dict[str, Any]] = {
    "attributes": {"kind": "metric", "metric": "angular", "file": None},
    "diffusion_2": {"kind": "diffusion"},
    "pagerank_0.2": {"kind": "smoothed", "restart": 0.2},
    "pagerank_0.1": {"kind": "smoothed"},
    "log_pagerank": {"kind": "log_pagerank"},
    "joint_attributes": {"kind": "joint", "k": 5},
    "joint_pagerank": {"kind": "joint", "k": 10, "view": "smoothed"},
    "paths": {"kind": "paths"},
    "jaccard": {"kind": "jaccard"},
    "pagerank": {"kind": "pagerank"},
    "neighbours": {"kind": "neighbours"},
}
LABELLED_GRAPHS: dict[str, dict[str, Any]] = {
    "shares_pagerank": {"kind": "shares"},
    "shares_walks": {"kind": "shares_walks"},
    "learned_diffusion_2": {"kind": "learned_graph", "view": "diffusion"},
    "learned_shares_walks": {"kind": "learned_graph", "view": "shares_walks"},
    "learned_neighbours": {"kind": "learned_graph", "view": "neighbours"},
    "spread_links": {"kind": "spread"},
}


def shares(A: Any, X: Any) -> np.ndarray:
    return walks(A) @ (X / X.sum(axis=1, keepdims=True))


def shares_of_walks(A: Any, X: Any) -> np.ndarray:
    S, B = X / X.sum(axis=1, keepdims=True), operator(A)
    return 0.05 * S + 0.95 / 16 * sum(np.linalg.matrix_power(B, t) @ S for t in range(1, 17))


def joint(A: Any, F: Any, near: Any, k: int) -> np.ndarray:
    return angles(walks(10 * A + nearest(angles(near), k)) @ F)


OF_GRAPHS = {
    "attributes": lambda A, X, F: angles(F),
    "diffusion_2": lambda A, X, F: angles(operator(A) @ operator(A) @ F),
    "pagerank_0.2": lambda A, X, F: angles(walks(A, 0.2) @ F),
    "pagerank_0.1": lambda A, X, F: angles(walks(A) @ F),
    "log_pagerank": lambda A, X, F: reach(A),
    "joint_attributes": lambda A, X, F: joint(A, F, F, 5),
    "joint_pagerank": lambda A, X, F: joint(A, F, walks(A, 0.2) @ F, 10),
    "paths": lambda A, X, F: paths(A),
    "jaccard": lambda A, X, F: jaccard(A),
    "pagerank": lambda A, X, F: angles(np.sqrt(walks(A))),
    "neighbours": lambda A, X, F: angles(np.hstack([F, unit(A @ F)])),
    "shares_pagerank": lambda A, X, F: euclidean(shares(A, X)),
    "shares_walks": lambda A, X, F: euclidean(shares_of_walks(A, X)),
}


def adjacency(y: np.ndarray) -> np.ndarray:
    A = np.zeros((N, N))
    A[tuple(links_of(y).T)] = 1
    return A + A.T


@pytest.mark.parametrize("name", OF_GRAPHS)
def test_values_of_graphs(name: str) -> None:
    frame, y = counted()
    source = bound(frame, y, (GRAPHS | LABELLED_GRAPHS)[name], links_of(y))
    X = frame.to_numpy(dtype=float)
    expected = OF_GRAPHS[name](adjacency(y), X, tf_idf(X))
    np.testing.assert_allclose(values_of(source), expected, atol=1e-6)


def test_labels_spread_over_links() -> None:
    frame, y = counted()
    source = bound(frame, y, {"kind": "spread"}, links_of(y))
    np.testing.assert_allclose(values_of(source), spread(adjacency(y), y), atol=1e-4)


@pytest.mark.parametrize("way", ["out", "in", None])
def test_directions_of_links(way: str | None) -> None:
    """Edges are followed along, against, or both ways; values stay symmetric."""
    frame, y = counted()
    arrows = as_relation(links_of(y), directed=True)
    A = np.zeros((N, N))
    A[tuple(links_of(y).T)] = 1
    A = {"out": A, "in": A.T, None: A + A.T}[way]
    shared = bound(frame, y, {"kind": "jaccard", "direction": way}, arrows)
    np.testing.assert_allclose(values_of(shared), jaccard(A), atol=1e-9)
    step = (A + np.eye(N)) / (A + np.eye(N)).sum(axis=1, keepdims=True)
    P = np.maximum(0.1 * np.linalg.inv(np.eye(N) - 0.9 * step), 0) if way else walks(A)
    walked = bound(frame, y, {"kind": "pagerank", "direction": way}, arrows)
    np.testing.assert_allclose(values_of(walked), angles(np.sqrt(P)), atol=1e-6)
    rows = bound(frame, y, {"kind": "neighbours", "direction": way}, arrows)
    F = tf_idf(frame.to_numpy(dtype=float))
    np.testing.assert_allclose(values_of(rows), angles(np.hstack([F, unit(A @ F)])), atol=1e-6)


@pytest.mark.parametrize("directed", [True, None])
def test_paths_are_directed_only_if_stated(directed: bool | None) -> None:
    frame, y = counted()
    arrows = as_relation(links_of(y), directed=True)
    A = np.zeros((N, N))
    A[tuple(links_of(y).T)] = 1
    source = bound(frame, y, {"kind": "paths", "directed": directed}, arrows)
    np.testing.assert_array_equal(values_of(source), paths(A if directed else A + A.T))


ELSEWHERE = {
    "forest": "test_forest_source",
    "membership": "test_memberships",
    "matrix": "test_plan",
}
"""Kinds whose values other tests compare with formulas."""


def test_every_kind_is_compared_with_a_formula() -> None:
    of_tables = {TABLES[name][1]["kind"] for name in (*OF_TABLES, *MODELS)}
    of_graphs = {(GRAPHS | LABELLED_GRAPHS)[name]["kind"] for name in (*OF_GRAPHS, *VIEWS)}
    alone = {"spread", "spread_near"}
    assert of_tables | of_graphs | alone | {*ELSEWHERE} == {*KINDS}


VIEWS = {
    "learned_diffusion_2": lambda A, X, F: unit(operator(A) @ operator(A) @ F),
    "learned_shares_walks": lambda A, X, F: shares_of_walks(A, X),
    "learned_neighbours": lambda A, X, F: np.hstack([F, unit(A @ F)]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_models_of_graphs(name: str) -> None:
    frame, y = counted()
    source: Any = bound(frame, y, LABELLED_GRAPHS[name], links_of(y))
    X = frame.to_numpy(dtype=float)
    rows = VIEWS[name](adjacency(y), X, tf_idf(X))
    if name == "learned_shares_walks":
        rows = rows / np.sqrt(np.square(rows).sum(axis=1).mean())
    np.testing.assert_allclose(source.base.table, rows, atol=1e-6)
    expected = SupervisedSource(KernelPredictor(rows), "one", source.known).rows(np.arange(N))
    np.testing.assert_allclose(values_of(source), expected, atol=1e-4)


@pytest.mark.parametrize("name", [*GRAPHS, *LABELLED_GRAPHS])
def test_a_copy_with_the_same_links_is_placed_beside_the_item(name: str) -> None:
    frame, y = counted()
    links = links_of(y)
    source = bound(frame, y, (GRAPHS | LABELLED_GRAPHS)[name], links)
    both = np.concatenate([links, links[:, ::-1]])
    ends = np.concatenate([both[both[:, 0] == k] + [[N + x - k, 0]] for x, k in enumerate(COPIED)])
    found = placed(source, frame, Relation("links", N + 3, None, ends))
    whole = values_of(source)
    for row, k in zip(found, COPIED, strict=True):
        others = np.delete(np.arange(N), k)
        assert np.corrcoef(row[others], whole[k, others])[0, 1] > 0.9
        assert row.argmin() in np.argsort(whole[k])[:6]


def test_a_report_names_the_view() -> None:
    frame, y = counted()
    items = as_items(frame.assign(label=y.astype(str)), "label", edges={"links": links_of(y)})
    spec = SourceSpec("one", "learned_graph", "links", view="neighbours")
    (report,) = plan_sources(items, [spec], defaults=False).report.sources
    said = "logistic regression on own attributes beside those of neighbours in "
    assert report.describe().startswith(said)


def test_a_view_that_needs_more_is_refused() -> None:
    frame, y = measured()
    with pytest.raises(mm.exceptions.InputError, match=r"view: expected one of columns, direction"):
        bound(frame, y, {"kind": "learned", "view": "diffusion"})

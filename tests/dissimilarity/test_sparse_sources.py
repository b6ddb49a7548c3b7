"""The default sources over sparse edges."""

import importlib
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import metricmix as mm
from metricmix.dissimilarity.kernel_logistic import KernelClassifier
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.propagation import LabelPropagation

GRAPH_SOURCES = importlib.import_module("metricmix.dissimilarity.graph_sources")


def network(n: int = 120, d: int = 30, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = (rng.random((n, d)) < 0.05 + 0.25 * (np.arange(d) % 3 == y[:, None])).astype(float)
    X[4] = 0.0
    links = rng.integers(n, size=(2 * n, 2))
    links = links[(y[links[:, 0]] == y[links[:, 1]]) | (rng.random(len(links)) < 0.2)]
    links = links[(links != 5).all(axis=1)]  # 5 has no link
    labels = np.where(np.arange(n) < 18, y, -1)
    return X, links, labels


@pytest.fixture(scope="module")
def stack() -> mm.EdgeStack:
    X, links, labels = network()
    found = mm.sources_for(X, links, nodes=120, labels=labels, edges_per_item=4)
    assert isinstance(found, mm.EdgeStack)
    return found


def test_edges_are_links_and_nearest_items(stack: mm.EdgeStack) -> None:
    X, links, _ = network()
    own = links[links[:, 0] != links[:, 1]]
    assert (stack.edges.find(own[:, 0], own[:, 1]) >= 0).all()
    weighted = mm.dissimilarity.features(GRAPH_SOURCES.weighted_rows(X, "tfidf"), "cosine")
    np.fill_diagonal(weighted, np.inf)
    nearest = np.argmin(weighted, axis=1)
    some = np.flatnonzero(weighted.min(axis=1) < 0.999)
    assert (stack.edges.find(some, nearest[some]) >= 0).all()
    assert set(stack.report.by_origin) == {"links", "attributes", "pagerank_0.2"}
    assert stack.report.by_origin["attributes"] <= 4 * 120
    assert stack.edges.components[0] == 1
    assert stack.report.recall == {"attributes": 1.0, "pagerank_0.2": 1.0}
    assert list(stack.report.left_out) == ["log_pagerank"]


def test_every_source_has_a_value_on_every_edge(stack: mm.EdgeStack) -> None:
    tails, heads = stack.edges.tails.astype(np.int64), stack.edges.heads.astype(np.int64)
    assert stack.origin is not None
    for r, source in enumerate(stack.origin.sources):
        rows = source.rows(np.arange(120))
        np.testing.assert_allclose(stack.values[r], rows[tails, heads], atol=2e-6)
    assert {"path_length", "jaccard", "attributes", "learned_attributes"} <= set(stack.names)
    path = mm.dissimilarity.path_length(network()[1], nodes=120, unreachable="bridge")
    np.testing.assert_array_equal(
        stack.values[stack.names.index("path_length")], np.minimum(path, 4)[tails, heads]
    )


def test_every_source_is_a_metric(stack: mm.EdgeStack) -> None:
    assert stack.origin is not None
    for name in stack.names:
        assert mm.is_metric(stack.origin.source(name), tol=1e-5), name
    assert all(known is not None and known.triangle_inequality for known in stack.facts)


def test_supervised_sources_are_computed_for_other_labels(stack: mm.EdgeStack) -> None:
    codes = np.where(np.arange(120) % 3 == 0, network()[2], -1)
    other = stack.relabelled(codes, 3)
    fresh = mm.sources_for(*network()[:2], nodes=120, labels=codes, edges_per_item=4)
    assert isinstance(other, mm.EdgeStack)
    assert isinstance(fresh, mm.EdgeStack)
    np.testing.assert_allclose(other.values, fresh.values, atol=1e-7)  # single precision
    np.testing.assert_allclose(other.scales, fresh.scales)
    supervised_rows = [r for r, name in enumerate(stack.names) if name in stack.supervised]
    assert len(supervised_rows) == 7
    assert (other.values[supervised_rows] != stack.values[supervised_rows]).any(axis=1).all()
    assert stack.relabelled(network()[2], 3) is stack
    kept = stack.relabelled(codes, 3, keep_choice=True)
    assert kept.supervised == stack.supervised


def test_a_slice_knows_its_supervised_sources(stack: mm.EdgeStack) -> None:
    items = np.arange(0, 120, 2)
    part = stack[np.ix_(items, items)]
    assert part.supervised == stack.supervised
    codes = np.where(np.arange(60) < 25, network()[2][items], -1)
    changed = part.relabelled(codes, 3)
    assert isinstance(changed, mm.EdgeStack)
    assert changed.values.shape == part.values.shape
    assert (changed.values != part.values).any()


def test_without_labels() -> None:
    X, links, _ = network()
    stack = mm.sources_for(X, links, nodes=120, edges_per_item=3)
    assert isinstance(stack, mm.EdgeStack)
    assert stack.supervised == ()
    assert stack.names[:2] == ("attributes", "diffusion_2")


def test_a_plain_table() -> None:
    X, _, labels = network()
    rng = np.random.default_rng(0)
    stack = mm.sources_for(
        X[:, :5] + rng.standard_normal((120, 5)), labels=labels, edges_per_item=3
    )
    assert isinstance(stack, mm.EdgeStack)
    assert stack.edges.components[0] == 1
    assert {"columns", "raw", "direction"} <= set(stack.names)
    assert set(stack.report.left_out) == {"near_columns", "near_direction"}


def collected(X: Any, links: Any, k: int | None = 4) -> Any:
    return GRAPH_SOURCES.graph_sources(
        X, GRAPH_SOURCES.as_graph(links, nodes=120), "tfidf", True, k
    )


def test_sparse_and_dense_attributes_agree() -> None:
    X, links, _ = network()
    one, two = collected(X, links), collected(csr_array(X), links)
    np.testing.assert_array_equal(
        one.nearest["attributes"].ends()[1], two.nearest["attributes"].ends()[1]
    )
    i, j = np.triu_indices(120, 1)
    for name, source in one.sources.items():
        np.testing.assert_allclose(source.pairs(i, j), two.sources[name].pairs(i, j), atol=1e-5)


@pytest.mark.parametrize("k", [4, None])
@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_wide_tables_are_smoothed_by_their_leading_directions(
    k: int | None, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, links, _ = network(d=60)
    full = collected(X, links, k)
    monkeypatch.setattr(GRAPH_SOURCES, "WIDE_FROM", 100)
    monkeypatch.setattr(GRAPH_SOURCES, "DIRECTIONS", 50)
    narrow = collected(kind(X), links, k)
    i, j = np.triu_indices(120, 1)
    for name, least in (("attributes", 1 - 1e-5), ("pagerank_0.1", 0.95), ("shares_walks", 0.95)):
        known, found = (some.sources[name].pairs(i, j) for some in (full, narrow))
        assert np.corrcoef(known, found)[0, 1] > least, name
    assert narrow.predictors["learned_neighbours"].X.shape == (120, 100)


@pytest.mark.parametrize("limit", ["FEW_TABLES_FROM", "MANY_ITEMS"])
def test_large_tables_have_fewer_sources(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, links, labels = network()
    monkeypatch.setattr(GRAPH_SOURCES, limit, 100)
    stack = mm.sources_for(X, links, nodes=120, labels=labels, edges_per_item=4)
    assert isinstance(stack, mm.EdgeStack)
    assert stack.names == (
        "attributes",
        "diffusion_2",
        "pagerank_0.2",
        "path_length",
        "jaccard",
        "learned_attributes",
        "learned_diffusion_2",
        "learned_pagerank",
        "spread_links",
    )
    assert {"joint_pagerank", "shares_walks", "learned_neighbours"} <= set(stack.report.left_out)


def test_refusals() -> None:
    X, links, _ = network()
    for k in (0, -3, 2.5, "many"):
        with pytest.raises(mm.InputError, match="edges_per_item"):
            mm.sources_for(X, links, nodes=120, edges_per_item=k)  # type: ignore[arg-type]
    with pytest.raises(mm.InputError, match="dense"):
        mm.sources_for(X, links, nodes=120, edges_per_item=3, dense=True)


# -- predictors of many items -------------------------------------------------------------------


def test_kernel_values_in_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, _, labels = network()
    known = Known(labels, 3)
    whole = KernelClassifier(X).predict(known).values
    monkeypatch.setattr("metricmix.dissimilarity.kernel_logistic.VALUES_KEPT", 500)
    np.testing.assert_allclose(KernelClassifier(X).predict(known).values, whole, atol=1e-9)


def test_labels_spread_by_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    _, links, labels = network()
    B = GRAPH_SOURCES.smoothing_operator(GRAPH_SOURCES.as_graph(links, nodes=120))
    whole = LabelPropagation(B).predict(Known(labels, 3)).values
    monkeypatch.setattr("metricmix.dissimilarity.propagation.VALUES_AT_ONCE", 500)
    monkeypatch.setattr(Known, "folds", lambda self, n, **_: np.arange(len(self.items)) % n)
    by_folds = LabelPropagation(B).predict(Known(labels, 3)).values
    np.testing.assert_allclose(by_folds[18:], whole[18:], atol=1e-4)  # items without a label
    np.testing.assert_allclose(by_folds.sum(axis=1), 1.0)
    flipped = labels.copy()
    flipped[3] = (labels[3] + 1) % 3
    again = LabelPropagation(B).predict(Known(flipped, 3)).values
    np.testing.assert_allclose(again[3], by_folds[3], atol=1e-5)  # its own label does not count
    assert abs(again[18:] - by_folds[18:]).max() > 0.01

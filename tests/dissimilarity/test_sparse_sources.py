"""The default sources over sparse edges."""

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import metricmix as mm
from metricmix.dissimilarity.diffusion import smoothing_operator
from metricmix.dissimilarity.graphs import as_graph
from metricmix.dissimilarity.kernel_logistic import KernelClassifier
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.propagation import LabelPropagation


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
    weighted = X * (1 + np.log(121 / (1 + (X > 0).sum(axis=0))))
    apart = np.asarray(mm.dissimilarity.features(weighted, "cosine"))
    np.fill_diagonal(apart, np.inf)
    nearest = np.argmin(apart, axis=1)
    some = np.flatnonzero(apart.min(axis=1) < 0.999)
    assert (stack.edges.find(some, nearest[some]) >= 0).all()
    assert {"links of links", "counts", "links smoothed"} <= set(stack.report.by_origin)
    assert stack.report.by_origin["counts"] <= 4 * 120
    assert stack.edges.components[0] == 1
    assert set(stack.report.recall.values()) == {1.0}
    assert list(stack.report.left_out) == ["links reach", "links walks"]


def test_every_source_has_a_value_on_every_edge(stack: mm.EdgeStack) -> None:
    tails, heads = stack.edges.tails.astype(np.int64), stack.edges.heads.astype(np.int64)
    assert stack.origin is not None
    for r, source in enumerate(stack.origin.sources):
        rows = source.rows(np.arange(120))
        np.testing.assert_allclose(stack.values[r], rows[tails, heads], atol=2e-6)
    assert {"links", "links shared", "counts", "learned"} <= set(stack.names)
    path = mm.dissimilarity.path_length(network()[1], nodes=120, unreachable="bridge")
    np.testing.assert_array_equal(
        stack.values[stack.names.index("links")], np.minimum(path, 4)[tails, heads]
    )


def test_every_source_is_a_metric(stack: mm.EdgeStack) -> None:
    assert stack.origin is not None
    for name in stack.names:
        assert mm.is_metric(stack.origin.source(name), tol=1e-5), name
    assert all(known is not None and known.triangle_inequality for known in stack.facts)


def test_supervised_sources_are_computed_for_other_labels(stack: mm.EdgeStack) -> None:
    codes = np.where(np.arange(120) % 2 == 0, network()[2], -1)
    other = stack.relabelled(codes, 3)
    fresh = mm.sources_for(*network()[:2], nodes=120, labels=codes, edges_per_item=4)
    assert isinstance(other, mm.EdgeStack)
    assert isinstance(fresh, mm.EdgeStack)
    np.testing.assert_allclose(other.values, fresh.values, atol=1e-7)  # single precision
    np.testing.assert_allclose(other.scales, fresh.scales)
    supervised_rows = [r for r, name in enumerate(stack.names) if name in stack.supervised]
    assert len(supervised_rows) == 5
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
    assert stack.names[:3] == ("counts", "links", "links shared")


def test_a_plain_table() -> None:
    X, _, labels = network()
    rng = np.random.default_rng(0)
    stack = mm.sources_for(
        X[:, :5] + rng.standard_normal((120, 5)), labels=labels, edges_per_item=3
    )
    assert isinstance(stack, mm.EdgeStack)
    assert stack.edges.components[0] == 1
    assert {"numbers", "raw", "direction"} <= set(stack.names)
    assert set(stack.report.left_out) == {"near", "near direction"}


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_wide_tables_are_smoothed_by_their_leading_directions(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, links, labels = network(d=60)
    full = mm.sources_for(X, links, nodes=120, labels=labels)
    monkeypatch.setattr("metricmix.dissimilarity.smoothing.LARGE", 100)
    monkeypatch.setattr("metricmix.dissimilarity.smoothing.DIRECTIONS", 50)
    narrow = mm.sources_for(kind(X), links, nodes=120, labels=labels)
    upper = np.triu_indices(120, 1)
    for name, least in (("counts", 1 - 1e-9), ("links smoothed", 0.95), ("links joint", 0.95)):
        known, found = (stack.source(name)[upper] for stack in (full, narrow))
        assert np.corrcoef(known, found)[0, 1] > least, name


def test_many_items_have_fewer_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    X, links, labels = network()
    monkeypatch.setattr("metricmix.dissimilarity.default_specs.MOST_SMOOTHED", 100)
    stack = mm.sources_for(X, links, nodes=120, labels=labels, edges_per_item=4)
    assert stack.names == (
        *("counts", "learned", "links", "links shared", "links smoothed", "links diffusion"),
        *("links learned", "links learned diffusion", "links spread"),
    )


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
    B = smoothing_operator(as_graph(links, nodes=120))
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

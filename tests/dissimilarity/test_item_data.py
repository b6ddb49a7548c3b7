"""What sources were computed from, and stacks derived from stacks."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.sources import ItemData, data_of

N = 24
X = np.abs(np.random.default_rng(0).normal(size=(N, 3))) + (np.arange(N) % 2)[:, None]
GRAPH = [(k, k + 1) for k in range(N - 1)]
LABELS = np.where(np.arange(N) < 16, np.arange(N) % 2, -1)


@pytest.mark.parametrize("edges", [None, 5])
@pytest.mark.parametrize("dense", [None, True])
def test_sources_for_states_the_table_and_the_links(edges: int | None, dense: Any) -> None:
    stack = mm.sources_for(X, GRAPH, nodes=N, edges_per_item=edges, dense=None if edges else dense)
    data = data_of(stack)
    assert data is not None
    assert data.complete
    assert data.links.shape == (N, N)
    assert data_of(stack.select([1, 0]).rescaled("max")).table is data.table
    assert data_of(stack[np.ix_(range(5), range(5))]) is None


def test_other_labels_keep_what_sources_are_made_from() -> None:
    stack = mm.sources_for(X, labels=LABELS)
    other = stack.relabelled(Known(np.where(np.arange(N) < 10, LABELS, -1), 2))
    assert other is not stack
    assert data_of(other).table is data_of(stack).table
    assert data_of(other).complete


def test_sources_from_elsewhere_make_it_incomplete() -> None:
    stack = mm.sources_for(X)
    both = mm.DissimilarityStack([*stack.sources, mm.dissimilarity.features(X)])
    assert data_of(both).table is data_of(stack).table
    assert not data_of(both).complete
    assert data_of(mm.DissimilarityStack([mm.dissimilarity.features(X)])) is None
    stack.sources[0].made_from = ItemData(links=np.eye(N), graphs={"friends": np.eye(N)})
    merged = data_of(stack)
    assert merged.links is not None
    assert list(merged.graphs) == ["friends"]


def test_it_is_dropped_when_pickled() -> None:
    again = pickle.loads(pickle.dumps(mm.sources_for(X)))
    assert data_of(again) is None


@pytest.mark.parametrize("edges", [None, 5])
def test_labels_are_known_or_an_array(edges: int | None) -> None:
    stack = mm.sources_for(X, GRAPH, nodes=N, labels=LABELS, edges_per_item=edges)
    fewer = np.where(np.arange(N) < 10, LABELS, -1)
    assert stack.relabelled(Known(LABELS, 2)) is stack
    one, other = stack.relabelled(Known(fewer, 2)), stack.relabelled(fewer, 2)
    np.testing.assert_array_equal(one.raw_rows(np.arange(3)), other.raw_rows(np.arange(3)))
    np.testing.assert_array_equal(one.scales, other.scales)
    kept = stack.relabelled(Known(fewer, 2), keep_choice=True)
    also = stack.relabelled(fewer, 2, keep_choice=True)
    np.testing.assert_array_equal(kept.raw_rows(np.arange(3)), also.raw_rows(np.arange(3)))


def test_a_sparse_stack_is_a_stack_with_edges() -> None:
    dense = mm.sources_for(X)
    sparse = mm.EdgeStack.complete(dense)
    assert isinstance(sparse, mm.DissimilarityStack)
    assert not isinstance(dense, mm.EdgeStack)
    assert dense.origin is dense
    assert sparse.between_any is sparse.origin is dense
    with pytest.raises(AttributeError, match="immutable"):
        sparse.values = None
    alone = mm.EdgeStack(sparse.edges, sparse.values)
    assert alone.origin is None
    with pytest.raises(mm.InputError, match="known on the edges only"):
        _ = alone.between_any

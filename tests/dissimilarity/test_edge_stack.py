from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity import EdgeSet
from metricmix.dissimilarity.sources import DenseSource
from metricmix.mixture.edge_lengths import EdgeLengths


def dense_stack(n: int = 12, directed: bool = False, **options: Any) -> mm.DissimilarityStack:
    rng = np.random.default_rng(0)
    block = rng.random((3, n, n))
    if not directed:
        block = block + block.swapaxes(1, 2)
    for layer in block:
        np.fill_diagonal(layer, 0.0)
    names = ["a", "b", "c"]
    return mm.DissimilarityStack(list(block), names, directed, **options)


def some_edges(n: int = 12, directed: bool = False) -> EdgeSet:
    u, v = np.random.default_rng(1).integers(n, size=(2, 30))
    return EdgeSet(n, u, v, directed=directed)


@pytest.mark.parametrize("directed", [False, True])
def test_the_complete_edge_set_has_the_lengths_of_the_dense_stack(directed: bool) -> None:
    stack = dense_stack(directed=directed, scaling="mean")
    sparse = mm.EdgeStack.complete(stack)
    assert len(sparse.edges) == (12 * 11 if directed else 66)
    mixture = mm.Mixture([0.5, -0.2, 1.0])
    np.testing.assert_array_equal(
        EdgeLengths(sparse, mixture).matrix(), EdgeLengths(stack, mixture).matrix()
    )


@pytest.mark.parametrize("directed", [False, True])
def test_values_on_edges_are_those_of_the_stack(directed: bool) -> None:
    stack, edges = dense_stack(directed=directed, scaling="max"), some_edges(directed=directed)
    sparse = mm.EdgeStack.of(stack, edges)
    np.testing.assert_array_equal(sparse.values, stack.raw_pairs(edges.tails, edges.heads))
    assert sparse.origin is stack
    assert (sparse.scaling, sparse.scales.tolist()) == ("max", stack.scales.tolist())
    np.testing.assert_array_equal(
        sparse.pairs(edges.tails, edges.heads), stack.pairs(edges.tails, edges.heads)
    )
    with pytest.raises(mm.InputError, match="directed edges for a directed stack"):
        mm.EdgeStack.of(stack, some_edges(directed=not directed))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("with_origin", [False, True])
def test_slices_are_the_edges_among_some_items(directed: bool, with_origin: bool) -> None:
    stack = dense_stack(directed=directed, items=list("abcdefghijkl"), scaling="mean")
    sparse = mm.EdgeStack.of(stack, some_edges(directed=directed))
    if not with_origin:
        sparse = mm.EdgeStack(
            sparse.edges, sparse.values, sparse.names, items=sparse.items, scaling=sparse.scales
        )
    a = np.array([7, 2, 0, 11, 5])
    part = sparse[np.ix_(a, a)]
    assert part.items.tolist() == list("hcalf")
    np.testing.assert_array_equal(np.asarray(part), np.asarray(sparse)[np.ix_(a, a)])
    assert part.scaling == sparse.scaling
    np.testing.assert_array_equal(part.scales, sparse.scales)
    assert (part.origin is not None) == with_origin
    if part.origin is not None:
        np.testing.assert_array_equal(np.asarray(part.origin), np.asarray(stack)[np.ix_(a, a)])


@pytest.mark.parametrize("key", [0, slice(3), np.ix_([0, 1], [1, 1]), np.ix_([0, 0], [0, 0])])
def test_other_slices_are_refused(key: Any) -> None:
    sparse = mm.EdgeStack.of(dense_stack(), some_edges())
    with pytest.raises(mm.InputError, match=r"stack\[...\]"):
        sparse[key]


def test_select() -> None:
    sparse = mm.EdgeStack.of(dense_stack(scaling="mean"), some_edges())
    part = sparse.select(["c", "a"])
    assert part.names == ("c", "a")
    np.testing.assert_array_equal(part.values, sparse.values[[2, 0]])
    np.testing.assert_array_equal(part.scales, sparse.scales[[2, 0]])
    assert part.origin is not None
    assert part.origin.names == ("c", "a")
    np.testing.assert_array_equal(np.asarray(part), np.asarray(sparse)[:, :, [2, 0]])


def test_rescaled() -> None:
    stack, edges = dense_stack(), some_edges()
    with_origin = mm.EdgeStack.of(stack, edges)
    np.testing.assert_array_equal(
        with_origin.rescaled("mean").scales, stack.rescaled("mean").scales
    )
    alone = mm.EdgeStack(edges, with_origin.values)
    np.testing.assert_allclose(alone.rescaled("mean").scales, with_origin.values.mean(axis=1))
    np.testing.assert_allclose(alone.rescaled("max").scales, with_origin.values.max(axis=1))
    assert alone.rescaled([1.0, 2.0, 4.0]).scales.tolist() == [1, 2, 4]
    assert with_origin.rescaled([1.0, 2.0, 4.0]).scales.tolist() == [1, 2, 4]
    assert alone.rescaled(None).scales.tolist() == [1, 1, 1]


def test_part_and_diagnose_need_the_origin() -> None:
    stack = dense_stack(scaling="mean")
    sparse = mm.EdgeStack.of(stack, some_edges())
    items = np.array([1, 4, 6])
    np.testing.assert_array_equal(sparse.part(items).block, stack.part(items).block)
    np.testing.assert_array_equal(sparse.part(items).scales, stack.scales)
    assert str(sparse.diagnose()) == str(stack.diagnose())
    alone = mm.EdgeStack(sparse.edges, sparse.values)
    with pytest.raises(mm.InputError, match="pass origin="):
        alone.part(items)
    with pytest.raises(mm.InputError, match="pass origin="):
        alone.diagnose()


def test_replaced() -> None:
    stack = dense_stack(scaling="mean")
    sparse = mm.EdgeStack.of(stack, some_edges())
    other = DenseSource(np.full((12, 12), 7.0) - 7.0 * np.eye(12))
    changed = sparse.replaced({1: other})
    assert (changed.values[1] == 7.0).all()
    np.testing.assert_array_equal(changed.values[[0, 2]], sparse.values[[0, 2]])
    np.testing.assert_array_equal(changed.scales, sparse.scales)
    assert sparse.replaced({}) is sparse
    assert changed.origin is not None
    assert changed.origin.raw_pairs(np.array([0]), np.array([1]))[1, 0] == 7.0


def test_arrays_have_infinity_where_there_is_no_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = mm.EdgeStack(EdgeSet(3, [0], [1]), np.array([[2.0]]))
    expected = [[0, 2, np.inf], [2, 0, np.inf], [np.inf, np.inf, 0]]
    np.testing.assert_array_equal(np.asarray(sparse)[:, :, 0], expected)
    large = mm.EdgeStack(EdgeSet(10**6, [0], [1]), np.array([[2.0]]))
    with pytest.raises(mm.TooLargeError, match=r"stack\.values"):
        np.asarray(large)


@pytest.mark.parametrize("value", [np.inf, -0.5])
def test_bad_values_are_refused(value: float) -> None:
    with pytest.raises(mm.InputError, match="finite dissimilarities >= 0"):
        mm.EdgeStack(EdgeSet(3, [0, 1], [1, 2]), np.array([[1.0, value]]))


def test_shapes_and_origins_must_fit() -> None:
    edges = EdgeSet(3, [0, 1], [1, 2])
    with pytest.raises(mm.InputError, match=r"shape \(R, 2\)"):
        mm.EdgeStack(edges, np.ones((2, 3)))
    with pytest.raises(mm.InputError, match="a stack of the same 1 sources over 3 items"):
        mm.EdgeStack(edges, np.ones((1, 2)), origin=dense_stack())
    with pytest.raises(mm.InputError, match=r"u: expected item numbers in 0 \.\. 2"):
        EdgeSet(3, [0, 3], [1, 2])

"""Ids of items: sources are lined up by them, and slices keep them. Other scales."""

from __future__ import annotations

import copy
import itertools
import pickle

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import cross_val_score

import metricmix as mm
from metricmix.dissimilarity import as_graph, diffusion, jaccard, path_length, resource_allocation
from metricmix.dissimilarity.item_ids import table_items
from metricmix.dissimilarity.matrix import as_dissimilarity
from reference.instances import on_demand, random_sources

IDS = ["d", "a", "c", "b"]
N = len(IDS)
ORDER = np.array([2, 0, 3, 1])


def matrices(R=2, n=N, directed=False):
    return random_sources(np.random.default_rng(0), n, R, directed=directed)


def frame(M, ids=IDS):
    return pd.DataFrame(M, index=ids, columns=ids)


def shuffled(M, ids=IDS, order=ORDER):
    """The same dissimilarities, its rows and columns in another order."""
    return frame(M[np.ix_(order, order)], [ids[k] for k in order])


def a_graph(ids=IDS):
    """A path through the ids, in their order, whose nodes networkx holds backwards."""
    graph = nx.Graph()
    graph.add_nodes_from(ids[::-1])
    graph.add_edges_from(itertools.pairwise(ids))
    return graph


# -- what the items are called -------------------------------------------------------------------


def test_without_ids_items_are_numbered():
    stack = mm.DissimilarityStack(matrices())
    assert not stack.has_items
    assert stack.items.tolist() == [0, 1, 2, 3]
    assert stack.positions([3, 0]).tolist() == [3, 0]
    assert "items" not in repr(stack)


@pytest.mark.parametrize(
    "ids",
    [
        IDS,
        tuple(IDS),
        np.array(IDS),
        pd.Index(IDS),
        [7, 3, 5, 1],
        pd.Index([7, 3, 5, 1]),
        range(N),
        [(0, "x"), (0, "y"), (1, "x"), (1, "y")],
        pd.MultiIndex.from_product([[0, 1], ["x", "y"]]),
        [("a", 1), "a", 1, None],
        pd.date_range("2020-01-01", periods=N),
    ],
    ids=repr,
)
def test_ids_of_every_kind(ids):
    for stack in (
        mm.DissimilarityStack(matrices(), items=ids),
        mm.DissimilarityStack.from_block(np.stack(matrices()), items=ids),
    ):
        assert stack.has_items
        assert stack.items.shape == (N,)
        assert stack.items.tolist() == list(ids)
        assert stack.positions(list(ids)[::-1]).tolist() == [3, 2, 1, 0]
        assert stack.positions(ids).dtype == np.int64


def test_ids_show_and_are_read_only():
    ids = np.array(IDS)
    stack = mm.DissimilarityStack(matrices(1), ["M"], items=ids)
    assert repr(stack) == "DissimilarityStack(n=4, sources=['M'], items=['d', 'a', ...])"
    with pytest.raises(ValueError, match="read-only"):
        stack.items[0] = "z"
    with pytest.raises(AttributeError):
        stack.items = ids
    ids[0] = "z"
    assert stack.items.tolist() == IDS


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b", "a", "c"], "items: expected different ids, found 'a' 2 times"),
        (["a", "b"], "items: expected 4 ids, one per item, got 2"),
        ([], "items: expected at least one"),
        ([[1], [2], [3], [4]], "items: expected one hashable id"),
        (set(IDS), "items: expected ids in the order of the items, got an unordered set"),
        ("dacb", "items: expected a sequence of ids, one per item, got 'dacb'"),
        (4, "items: expected a sequence of ids, one per item, got 4"),
    ],
)
def test_bad_ids_are_refused(ids, message):
    with pytest.raises(mm.InputError, match=message):
        mm.DissimilarityStack(matrices(), items=ids)
    with pytest.raises(mm.InputError, match=message):
        mm.DissimilarityStack.from_block(np.stack(matrices()), items=ids)


# -- where they stand ----------------------------------------------------------------------------


def test_positions():
    stack = mm.DissimilarityStack(matrices(), items=IDS)
    assert stack.positions(["b", "d", "b"]).tolist() == [3, 0, 3]
    assert stack.positions("c").tolist() == [2]
    assert stack.positions([]).tolist() == []
    assert stack.positions(pd.Series(["a"])).tolist() == [1]
    with pytest.raises(mm.InputError, match="items: 2 ids are not in the stack, such as 'x', 'y'"):
        stack.positions(["x", "a", "y", "x"])
    with pytest.raises(mm.InputError, match="items: 1 ids are not in the stack, such as 0"):
        stack.positions([0])
    with pytest.raises(mm.InputError, match="items: expected hashable ids"):
        stack.positions([["a", "b"]])


@pytest.mark.parametrize("items", [None, range(N)])
def test_positions_of_numbers(items):
    stack = mm.DissimilarityStack(matrices(), items=items)
    for kind in (list, np.array, lambda x: np.array(x, np.uint8), lambda x: np.array(x, float)):
        assert stack.positions(kind([2, 0])).tolist() == [2, 0]
        assert stack.positions(kind([2])).dtype == np.int64
    for wrong in ([-1, 1, 4], np.array([-1, 1, 4])):
        with pytest.raises(mm.InputError, match="2 ids are not in the stack, such as -1, 4"):
            stack.positions(wrong)
    with pytest.raises(mm.InputError, match="2 ids are not in the stack, such as 2147483648"):
        stack.positions(np.array([2**31, 2**64 - 1], dtype=np.uint64))
    with pytest.raises(mm.InputError, match="1 ids are not in the stack, such as 'a'"):
        stack.positions(["a"])


# -- lining up by label --------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("validate", [False, True])
def test_labelled_sources_are_lined_up(directed, validate):
    A, B = matrices(directed=directed)
    stack = mm.DissimilarityStack(
        {"A": frame(A), "B": shuffled(B)}, directed=directed, validate=validate
    )
    assert stack.items.tolist() == IDS
    assert np.array_equal(stack.source("A"), A)
    assert np.array_equal(stack.source("B"), B)


def test_items_given_decide_the_order():
    A, B = matrices()
    ids = sorted(IDS)
    stack = mm.DissimilarityStack([frame(A), shuffled(B)], items=ids)
    assert stack.items.tolist() == ids
    for r, M in enumerate((A, B)):
        expected = frame(M).loc[ids, ids].to_numpy()
        assert np.array_equal(stack.source(r), expected)


def test_arrays_are_by_position():
    A, B = matrices()
    stack = mm.DissimilarityStack([A, shuffled(B)])
    assert stack.items.tolist() == [IDS[k] for k in ORDER]
    assert np.array_equal(stack.source(0), A)
    assert np.array_equal(stack.source(1), B[np.ix_(ORDER, ORDER)])
    stack = mm.DissimilarityStack([A, shuffled(B)], items=IDS)
    assert np.array_equal(stack.source(0), A)
    assert np.array_equal(stack.source(1), B)


def test_default_index_of_pandas_is_by_position():
    A, B = matrices()
    stack = mm.DissimilarityStack([pd.DataFrame(A), B])
    assert not stack.has_items
    stack = mm.DissimilarityStack([pd.DataFrame(A), frame(B)])
    assert stack.items.tolist() == IDS
    assert np.array_equal(stack.source(0), A)


def test_numbers_other_than_the_default_index_are_labels():
    A, B = matrices()
    part = pd.DataFrame(matrices(1, n=9)[0]).iloc[3:7, 3:7]
    assert mm.DissimilarityStack([part]).items.tolist() == [3, 4, 5, 6]
    numbers = [3, 1, 0, 2]
    stack = mm.DissimilarityStack([frame(A, [0, 1, 2, 3]), frame(B, numbers)])
    assert np.array_equal(stack.source(1), frame(B, numbers).loc[range(4), range(4)])


def test_one_frame_is_one_source():
    (A,) = matrices(1)
    stack = mm.DissimilarityStack(frame(A))
    assert stack.n_sources == 1
    assert stack.items.tolist() == IDS


def test_columns_in_another_order():
    A, _ = matrices()
    stack = mm.DissimilarityStack([frame(A)[sorted(IDS)]])
    assert stack.items.tolist() == IDS
    assert np.array_equal(stack.source(0), A)


def test_kinds_of_numbers_are_kept():
    A, B = (M.astype(np.float32) for M in matrices())
    assert mm.DissimilarityStack([frame(A), shuffled(B)]).block.dtype == np.float32


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (["d", "x", "y", "z"], r"found 3 missing, such as 'a', 'c', 'b' and 3 more, such as 'x', "),
        (["d", "a"], r"found 2 missing, such as 'c', 'b'; keep"),
        ([0, 1, 2, 3], r"found 4 missing, such as 'd', 'a', 'c' and 4 more, such as 0, 1, 2; keep"),
    ],
)
def test_other_ids_are_refused(second, message):
    A, B = matrices(1)[0], matrices(1, n=len(second))[0]
    whole = r"stack\[1\] \('B'\): expected ids of stack\[0\] \('A'\), " + message
    with pytest.raises(mm.InputError, match=whole):
        mm.DissimilarityStack({"A": frame(A), "B": frame(B, second)})
    with pytest.raises(mm.InputError, match=r"stack\[0\]: expected ids of items, " + message):
        mm.DissimilarityStack([frame(B, second)], items=IDS)


def test_stated_items_are_all_there_are():
    B = matrices(1, n=6)[0]
    with pytest.raises(mm.InputError, match=r"found 2 more, such as 'x', 'y'; keep"):
        mm.DissimilarityStack([frame(B, [*IDS, "x", "y"])], items=IDS)


def test_by_position_after_all():
    A, B = matrices()
    stack = mm.DissimilarityStack([frame(A), np.asarray(frame(B, ["w", "x", "y", "z"]))])
    assert stack.items.tolist() == IDS
    assert np.array_equal(stack.source(1), B)


def test_bad_frames_are_refused():
    A, B = matrices()
    with pytest.raises(mm.InputError, match=r"stack\[0\]: expected different ids, found 'a' 2"):
        mm.DissimilarityStack([frame(A, ["a", "a", "b", "c"])])
    for columns in (["d", "a", "c", "x"], None):
        with pytest.raises(mm.InputError, match=r"stack\[0\]: expected columns labelled as its ro"):
            mm.DissimilarityStack([pd.DataFrame(A, index=IDS, columns=columns)])
    with pytest.raises(mm.InputError, match=r"stack\[0\]: expected a square matrix"):
        mm.DissimilarityStack([frame(A).iloc[:3]])
    with pytest.raises(mm.InputError, match=r"stack\[1\]: expected 4 items as in stack\[0\], got"):
        mm.DissimilarityStack([frame(A), matrices(1, n=5)[0]])
    with pytest.raises(mm.InputError, match=r"stack\[1\]: expected symmetric"):
        mm.DissimilarityStack([frame(A), shuffled(np.triu(B))])


def test_tuples_from_a_multi_index():
    index = pd.MultiIndex.from_product([[0, 1], ["x", "y"]])
    A, B = matrices()
    second = pd.DataFrame(B, index=index, columns=index).iloc[ORDER, ORDER]
    stack = mm.DissimilarityStack([frame(A, index), second])
    assert stack.items[1] == (0, "y")
    assert stack.positions([(1, "x")]).tolist() == [2]
    assert np.array_equal(stack.source(1), B)


def test_lined_up_with_computed_sources():
    A, B = matrices()
    lazy = mm.dissimilarity.ComputedSource(N, lambda i: A[i])
    stack = mm.DissimilarityStack([lazy, shuffled(B)], items=IDS)
    assert stack.block is None
    assert np.array_equal(stack.source(1), B)
    part = stack[np.ix_([3, 0], [3, 0])]
    assert part.items.tolist() == ["b", "d"]


# -- matrices that bring ids along ---------------------------------------------------------------


def test_matrices_carry_ids():
    array = np.zeros((2, 2))
    matrix = as_dissimilarity(array, "M", items=pd.Index(["a", "b"]))
    assert matrix.items.tolist() == ["a", "b"]
    assert as_dissimilarity(array, "M").items is None
    for derived in (matrix[:1], matrix.T, matrix.copy(), pickle.loads(pickle.dumps(matrix))):
        assert derived.items is None
    matrix *= 2
    assert matrix.items.tolist() == ["a", "b"]
    with pytest.raises(mm.InputError, match="items: expected 2 ids, one per item, got 3"):
        as_dissimilarity(array, "M", items=["a", "b", "c"])


def test_reordered_matrices_keep_their_name():
    A, B = matrices()
    second = as_dissimilarity(B[np.ix_(ORDER, ORDER)], "links", 3, [IDS[k] for k in ORDER])
    stack = mm.DissimilarityStack([frame(A), second])
    assert stack.names == ("source_0", "links")
    assert stack.n_unreachable == (0, 3)
    assert np.array_equal(stack.source("links"), B)
    assert second.items.tolist() == [IDS[k] for k in ORDER]


GRAPH_SOURCES = [path_length, jaccard, resource_allocation, diffusion]


@pytest.mark.parametrize("of", GRAPH_SOURCES)
def test_graph_and_table_line_up(of):
    (A,) = matrices(1)
    graph = a_graph()
    assert of(graph).items.tolist() == IDS[::-1]
    stack = mm.DissimilarityStack([frame(A), of(graph)])
    assert stack.items.tolist() == IDS
    assert stack.source(1) == pytest.approx(np.asarray(of(graph, nodes=IDS)), abs=1e-12)


@pytest.mark.parametrize("of", GRAPH_SOURCES)
def test_numbered_graphs_are_by_position(of):
    adjacency = sp.csr_array(np.eye(N, k=1) + np.eye(N, k=-1))
    for graph, nodes in (
        (adjacency, None),
        (adjacency.toarray(), None),
        (pd.DataFrame(adjacency.toarray()), None),
        (adjacency, N),
        (nx.path_graph(N), N),
        (nx.path_graph(N), np.array(N)),
        (nx.path_graph(N), range(N)),
        (nx.path_graph(N), pd.RangeIndex(N)),
        (igraph.Graph.Ring(N), None),
        (as_graph(adjacency), None),
    ):
        assert of(graph, nodes=nodes).items is None
    stack = mm.DissimilarityStack([frame(matrices(1)[0]), of(adjacency)])
    assert stack.items.tolist() == IDS


def test_graphs_with_ids_carry_them():
    edges = pd.DataFrame({"source": [0, 1, 2], "target": [1, 2, 3]})
    named = igraph.Graph.Ring(N)
    named.vs["name"] = IDS
    ring = sp.csr_array(np.ones((N, N)))
    for graph, nodes, expected in (
        (nx.path_graph(N), None, [0, 1, 2, 3]),
        (edges, None, [0, 1, 2, 3]),
        (edges, [0, 1, 2, 3], [0, 1, 2, 3]),
        (edges, np.arange(N), [0, 1, 2, 3]),
        (named, None, IDS),
        (ring, IDS, IDS),
        (frame(ring.toarray()), None, IDS),
        (as_graph(named), None, IDS),
        (nx.grid_2d_graph(2, 2), None, [(0, 0), (0, 1), (1, 0), (1, 1)]),
    ):
        assert path_length(graph, nodes=nodes).items.tolist() == expected


def test_two_graphs_with_numbers_for_ids():
    """networkx keeps nodes in order of appearance: numbers are ids there, not positions."""
    first, second = nx.path_graph(N), nx.Graph([(3, 0), (0, 2), (2, 1)])
    stack = mm.DissimilarityStack([path_length(first), path_length(second)])
    assert stack.items.tolist() == [0, 1, 2, 3]
    assert np.array_equal(stack.source(1), path_length(second, nodes=N))


def test_ids_of_a_table():
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0]})
    assert table_items(table) is None
    assert table_items(table.to_numpy()) is None
    assert table_items(table.set_axis(["a", "b", "a"])) is None
    assert table_items(table.set_axis(["a", "b", "c"])).tolist() == ["a", "b", "c"]
    assert table_items(table.iloc[::-1]).tolist() == [2, 1, 0]


# -- parts ---------------------------------------------------------------------------------------


@pytest.fixture(params=["dense", "computed"])
def stack(request):
    stack = mm.DissimilarityStack(matrices(), ["A", "B"], items=IDS, scaling="mean")
    if request.param == "computed":
        lazy = on_demand(stack)
        return mm.DissimilarityStack(lazy.sources, lazy.names, items=IDS, scaling=stack.scales)
    return stack


def test_parts_keep_ids(stack):
    part = stack[np.ix_([3, 0], [3, 0])]
    assert part.has_items
    assert part.items.tolist() == ["b", "d"]
    assert part.positions(["d"]).tolist() == [1]
    with pytest.raises(mm.InputError, match="1 ids are not in the stack, such as 'a'"):
        part.positions(["a"])
    again = part[np.ix_([1], [1])]
    assert again.items.tolist() == ["d"]
    assert stack.select(["B"]).items.tolist() == IDS
    assert stack.items.tolist() == IDS


def test_repeated_items(stack):
    part = stack[np.ix_([1, 1, 3], [1, 1, 3])]
    assert part.items.tolist() == ["a", "a", "b"]
    assert part.positions(["a", "b"]).tolist() == [0, 2]
    assert part[np.ix_([1, 2], [1, 2])].items.tolist() == ["a", "b"]
    assert part.select([0]).items.tolist() == ["a", "a", "b"]


def test_cross_dissimilarities_keep_ids(stack):
    cross = stack[np.ix_([3, 0], [1, 2, 3])]
    assert cross.row_items.tolist() == ["b", "d"]
    assert cross.column_items.tolist() == ["a", "c", "b"]
    plain = mm.DissimilarityStack(matrices())
    assert not plain[np.ix_([3, 0], [3, 0])].has_items
    assert plain[np.ix_([3, 0], [3, 0])].items.tolist() == [0, 1]
    assert plain[np.ix_([3, 0], [1])].row_items.tolist() == [3, 0]


def test_copies_and_clones(stack):
    assert clone(stack) is stack
    assert copy.deepcopy(stack).items.tolist() == IDS


class Nearest(ClassifierMixin, BaseEstimator):
    """The label of the nearest training item, which it remembers by its id."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        return tags

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.items_, self.y_ = X.items, np.asarray(y)
        return self

    def predict(self, X):
        assert np.array_equal(X.column_items, self.items_)
        assert not set(X.row_items) & set(self.items_)
        return self.y_[X.values.sum(axis=-1).argmin(axis=1)]


def test_cross_validation_with_ids():
    x = np.r_[np.arange(10.0), np.arange(10.0) + 100]
    y = np.repeat(["near", "far"], 10)
    ids = [f"item {k}" for k in range(20)]
    stack = mm.DissimilarityStack([np.abs(x[:, None] - x)], items=ids)
    assert cross_val_score(Nearest(), stack, y, cv=5).tolist() == [1.0] * 5


# -- other scales --------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", ["norm", "mean", "max", "none", None, [2.0, 4.0]])
def test_rescaled(stack, scaling):
    other = stack.rescaled(scaling)
    expected = mm.DissimilarityStack(matrices(), ["A", "B"], scaling=scaling)
    assert other.scaling == expected.scaling
    assert other.scales == pytest.approx(expected.scales, rel=1e-12)
    assert np.asarray(other) == pytest.approx(np.asarray(expected), rel=1e-12)
    assert other.names == stack.names
    assert other.items.tolist() == IDS
    with pytest.raises(ValueError, match="read-only"):
        other.scales[0] = 9.0


def test_rescaled_shares_what_is_raw():
    stack = mm.DissimilarityStack(matrices(), scaling="mean")
    kept, ranges = np.asarray(stack).copy(), stack.raw_range()
    other = stack.rescaled("max")
    assert np.shares_memory(other.block, stack.block)
    assert other.raw_range()[0] is ranges[0]
    assert stack.scaling == "mean"
    assert np.array_equal(np.asarray(stack), kept)
    assert other.rescaled("mean").scales.tolist() == stack.scales.tolist()


def test_rescaled_part_is_scaled_by_itself():
    part = mm.DissimilarityStack(matrices(), scaling="max")[np.ix_([0, 1], [0, 1])]
    assert part.rescaled("max").scales.tolist() == [M[0, 1] for M in matrices()]


def test_rescaled_refuses_bad_scales():
    stack = mm.DissimilarityStack(matrices())
    with pytest.raises(mm.InputError, match="scaling: expected one of 'none'"):
        stack.rescaled("median")
    with pytest.raises(mm.InputError, match="scaling: expected 2 positive numbers"):
        stack.rescaled([1.0])


@pytest.mark.parametrize("scaling", ["mean", [2.0, 4.0]])
def test_block_with_scales(scaling):
    block = np.stack(matrices())
    stack = mm.DissimilarityStack.from_block(block, scaling=scaling)
    assert np.shares_memory(stack.block, block)
    expected = mm.DissimilarityStack(matrices(), scaling=scaling)
    assert stack.scaling == expected.scaling
    assert np.array_equal(np.asarray(stack), np.asarray(expected))

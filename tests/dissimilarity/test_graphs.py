import subprocess
import sys

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.exceptions import InputError
from metricmix.relaxations import max_cut

# a - b (2), b - c (0.5), c - a (4), and d alone.
IDS = ["a", "b", "c", "d"]
EDGES = [("a", "b", 2.0), ("b", "c", 0.5), ("c", "a", 4.0)]
LENGTHS = np.array([[0, 2, 4, 0], [2, 0, 0.5, 0], [4, 0.5, 0, 0], [0, 0, 0, 0]])
ROWS = [(IDS.index(u), IDS.index(v), w) for u, v, w in EDGES]


def networkx_graph():
    graph = nx.Graph()
    graph.add_nodes_from(IDS)
    graph.add_weighted_edges_from(EDGES)
    return graph


def igraph_graph():
    graph = igraph.Graph(n=4, edges=[(i, j) for i, j, _ in ROWS])
    graph.vs["name"] = IDS
    graph.es["weight"] = [w for _, _, w in ROWS]
    return graph


def frame():
    return pd.DataFrame(EDGES, columns=["source", "target", "weight"])


def with_inf():
    return np.where((LENGTHS == 0) & ~np.eye(4, dtype=bool), np.inf, LENGTHS)


FORMATS = {
    "csr": lambda: sp.csr_array(LENGTHS),
    "csc": lambda: sp.csc_matrix(LENGTHS),
    "coo": lambda: sp.coo_array(LENGTHS),
    "lil": lambda: sp.lil_array(LENGTHS),
    "dok": lambda: sp.dok_array(LENGTHS),
    "bsr": lambda: sp.bsr_array(LENGTHS, blocksize=(2, 2)),
    "dia": lambda: sp.dia_array(LENGTHS),
    "upper triangle": lambda: sp.csr_array(np.triu(LENGTHS)),
    "lower triangle": lambda: sp.csr_array(np.tril(LENGTHS)),
    "dense": with_inf,
    "networkx": networkx_graph,
    "networkx directed": lambda: networkx_graph().to_directed(),
    "igraph": igraph_graph,
    "frame": frame,
    "frame by position": lambda: frame().set_axis(["x", "y", "z"], axis=1),
    "frame with more": lambda: frame().assign(year=2000)[["year", "weight", "target", "source"]],
    "frame adjacency": lambda: pd.DataFrame(with_inf(), index=IDS, columns=IDS),
    "list": lambda: EDGES,
    "object array": lambda: np.array(EDGES, dtype=object),
    "graph": lambda: as_graph(frame(), nodes=IDS, weight="length"),
}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_graph(form):
    graph = as_graph(FORMATS[form](), nodes=IDS, weight="length")
    np.testing.assert_array_equal(graph.adjacency.toarray(), LENGTHS)
    assert graph.adjacency.dtype == np.float64
    assert graph.nodes.tolist() == IDS
    assert (graph.n, graph.directed, graph.weighted) == (4, False, True)
    plain = as_graph(FORMATS[form](), nodes=IDS, weight="ignore")
    np.testing.assert_array_equal(plain.adjacency.toarray(), LENGTHS > 0)
    assert not plain.weighted


KNOWS_IDS = [
    *("networkx", "networkx directed", "igraph", "frame", "frame by position"),
    *("frame adjacency", "list", "object array", "graph"),
]


@pytest.mark.parametrize("form", KNOWS_IDS)
def test_nodes_are_aligned_by_id(form):
    order = [2, 4, 0, 3, 1]
    ids = [*IDS, "e"]
    wide = np.zeros((5, 5))
    wide[:4, :4] = LENGTHS
    shuffled = [ids[k] for k in order]
    graph = as_graph(FORMATS[form](), nodes=shuffled, weight="length")
    np.testing.assert_array_equal(graph.adjacency.toarray(), wide[np.ix_(order, order)])
    assert graph.nodes.tolist() == shuffled
    with pytest.raises(InputError, match=r"1 node ids are not in nodes, such as 'c'"):
        as_graph(FORMATS[form](), nodes=["a", "b", "d", "e"], weight="length")


def test_default_order_of_nodes():
    graph = networkx_graph()
    graph.add_node("0")
    assert as_graph(graph, weight="length").nodes.tolist() == [*IDS, "0"]
    backwards = pd.DataFrame({"source": [7, 9], "target": [3, 7]})
    assert as_graph(backwards).nodes.tolist() == [3, 7, 9]
    assert as_graph(igraph.Graph(n=3)).nodes.tolist() == [0, 1, 2]
    assert as_graph(np.zeros((2, 2))).nodes.tolist() == [0, 1]
    grid = as_graph(nx.grid_2d_graph(2, 2))
    assert grid.nodes.tolist() == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert grid.adjacency.nnz == 8


def test_names_of_rows():
    assert as_graph(np.eye(2, k=1), nodes=["x", "y"]).nodes.tolist() == ["x", "y"]
    assert as_graph(sp.csr_array(np.eye(2, k=1)), nodes=2).nodes.tolist() == [0, 1]
    with pytest.raises(InputError, match="expected 2, one per row of the matrix, got 3"):
        as_graph(sp.csr_array(np.eye(2, k=1)), nodes=3)


def test_square_arrays_are_matrices_unless_nodes_say_otherwise():
    square = np.array([[0, 1], [1, 0]])
    np.testing.assert_array_equal(as_graph(square).adjacency.toarray(), square)
    np.testing.assert_array_equal(as_graph(square, nodes=2).adjacency.toarray(), square)
    assert as_graph(square, nodes=3).adjacency.shape == (3, 3)
    triangle = np.array([[0, 1, 5.0], [1, 2, 5.0], [2, 3, 5.0]])
    assert as_graph(triangle, nodes=4, weight="length").adjacency.nnz == 6
    text = np.array([["a", "b"], ["b", "a"]])
    assert as_graph(text, nodes=["a", "b"]).adjacency.nnz == 2


def test_lists_of_tuples_are_edges():
    path = as_graph([(0, 1), (1, 2)], nodes=3).adjacency.toarray()
    weighted = as_graph([(0, 1, 2.0), (1, 2, 3.0), (0, 2, 4.0)], nodes=3, weight="length")
    assert path.tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert weighted.adjacency.toarray().tolist() == [[0, 2, 4], [2, 0, 3], [4, 3, 0]]
    with pytest.raises(InputError, match=r"edges of shape \(2, 2\) need nodes="):
        as_graph([(0, 1), (1, 2)])
    for two in ([[0, 1], [1, 2]], np.array([[0, 1], [1, 2]])):
        with pytest.raises(InputError, match="two edges or the matrix of two nodes; pass edges"):
            as_graph(two)
        with pytest.raises(InputError, match="two edges or the matrix"):
            max_cut(two)
    assert as_graph(np.array([[0, 3], [3, 0]]), weight="length").n == 2


def test_number_types_of_ids():
    for kind in (np.int8, np.uint64, np.float32, np.float64, object):
        edges = np.array([[0, 2], [2, 1]]).astype(kind)
        for nodes in (3, np.int64(3), np.array(3), [0, 1, 2], np.arange(3.0), pd.Index([0, 1, 2])):
            expected = [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
            found = as_graph(edges, nodes=nodes).adjacency.toarray()
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "bad", [-1, 5, 2**31, 2**32, 2**63, 2**64, 2**70, 1e30, -1e30, 2.5, np.nan, np.inf, "1", True]
)
def test_ids_never_wrap(bad):
    edges = np.array([[0, 1], [1, bad], [2, 3]], dtype=object)
    with pytest.raises(InputError, match=r"expected whole node numbers 0 \.\. 4, since nodes=5"):
        as_graph(edges, nodes=5)
    if isinstance(bad, (int, float)) and not isinstance(bad, bool):
        with pytest.raises(InputError, match=r"1 node ids are not in nodes"):
            as_graph(edges, nodes=[0, 1, 2, 3, 4])
        if abs(bad) < 2**63 or isinstance(bad, float):
            with pytest.raises(InputError, match=r"expected whole node numbers"):
                as_graph(np.array([[0, 1], [1, bad], [2, 3]]), nodes=5)


def test_directed_graphs():
    arrows = nx.DiGraph([(0, 1), (1, 2), (2, 1)])
    expected = np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]])
    forms = [
        arrows,
        igraph.Graph(edges=[(0, 1), (1, 2), (2, 1)], directed=True),
        expected,
        sp.csr_array(expected),
        pd.DataFrame([(0, 1), (1, 2), (2, 1)]),
    ]
    for form in forms:
        graph = as_graph(form, directed=True)
        assert graph.directed
        np.testing.assert_array_equal(graph.adjacency.toarray(), expected)
        both = as_graph(form).adjacency.toarray()
        np.testing.assert_array_equal(both, expected | expected.T)
        np.testing.assert_array_equal(as_graph(graph).adjacency.toarray(), both)
    for undirected in (nx.Graph([(0, 1)]), igraph.Graph(edges=[(0, 1)])):
        found = as_graph(undirected, directed=True).adjacency.toarray()
        np.testing.assert_array_equal(found, [[0, 1], [1, 0]])


def test_loops_are_dropped_and_parallel_edges_merged():
    edges = np.array([[0, 1, 3.0], [1, 0, 2.0], [0, 1, 5.0], [2, 2, 1.0]])
    expected = [[0, 2, 0], [2, 0, 0], [0, 0, 0]]
    multi = nx.MultiGraph()
    multi.add_nodes_from(range(3))
    multi.add_weighted_edges_from(edges.tolist())
    stored_twice = sp.coo_array((edges[:, 2], edges[:, :2].T.astype(int)), shape=(3, 3))
    for form in (edges, multi, stored_twice):
        found = as_graph(form, nodes=3, weight="length").adjacency.toarray()
        np.testing.assert_array_equal(found, expected)
    closest = as_graph(edges, nodes=3, weight="similarity").adjacency
    assert closest[0, 1] == 1 / 5
    ones = sp.coo_array((np.ones(2), ([0, 0], [1, 1])), shape=(2, 2))
    assert as_graph(ones).adjacency[0, 1] == 1  # and not 2


def test_edges_of_length_zero_are_edges():
    stored = sp.csr_array((np.array([0.0, 1.0]), ([0, 1], [1, 2])), shape=(3, 3))
    dense = np.array([[0, 0, np.inf], [0, 0, 1], [np.inf, 1, 0]])
    table = np.array([[0, 1, 0.0], [1, 2, 1.0]])
    zero = nx.Graph()
    zero.add_weighted_edges_from([(0, 1, 0.0), (1, 2, 1.0)])
    for form in (stored, dense, np.where(np.isinf(dense), np.nan, dense), table, zero):
        graph = as_graph(form, nodes=4 if form is table else 3, weight="length")
        assert graph.adjacency.nnz == 4
        assert graph.adjacency.indices[0] == 1
        assert graph.adjacency.data[0] == 0
    assert as_graph(stored, weight="ignore").adjacency.nnz == 2  # elsewhere 0 is no edge
    with pytest.raises(InputError, match=r"with 0 at \(0, 1\) is ambiguous"):
        as_graph(np.array([[0, 0, 1], [0, 0, 1], [1, 1, 0]]), weight="length")


def test_the_meaning_of_weights_must_be_stated():
    for form in FORMATS:
        if form != "graph":
            with pytest.raises(InputError, match=r"weights other than 1, such as .* 'ignore'"):
                as_graph(FORMATS[form](), nodes=IDS)
    assert not as_graph(frame().assign(weight=1), nodes=IDS).weighted
    assert not as_graph(np.array([[False, True], [True, False]])).weighted
    similar = as_graph(frame(), nodes=IDS, weight="similarity")
    with np.errstate(divide="ignore"):
        expected = np.where(LENGTHS > 0, 1 / LENGTHS, 0)
    np.testing.assert_array_equal(similar.adjacency.toarray(), expected)
    assert as_graph(frame().assign(weight=[0, 1, 2]), weight="similarity").adjacency.nnz == 4
    assert as_graph(frame().assign(weight=[0, 1, np.inf]), weight="length").adjacency.nnz == 4
    with pytest.raises(InputError, match="a Graph holds lengths"):
        as_graph(similar, weight="similarity")
    assert as_graph(similar).weighted
    assert not as_graph(similar, weight="ignore").weighted


def missing_weight():
    graph = networkx_graph()
    graph.add_edge("c", "d")
    return graph


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        (frame().assign(weight=-1), {"weight": "length"}, "length >= 0 on every edge, found -1"),
        (frame().assign(weight=np.nan), {"weight": "length"}, "found nan between a and b"),
        (frame().assign(weight=np.inf), {"weight": "similarity"}, "found inf between a and b"),
        (frame().assign(weight="far"), {"weight": "length"}, "found 'far' on the edge 'a' - 'b'"),
        (missing_weight(), {"weight": "length"}, "found None on the edge 'c' - 'd'"),
        (nx.path_graph(3), {"weight": "length"}, "its edges have no weights"),
        (frame(), {"weight": "distance"}, "weight: expected one of 'length'"),
        (np.zeros((4, 2)), {}, "need nodes=, the ids in the order"),
        (np.zeros((4, 5)), {}, r"got ndarray of shape \(4, 5\)"),
        (np.zeros((4, 4)), {"nodes": 5}, r"shape \(4, 4\) for 5 nodes"),
        (np.zeros(4), {}, r"of shape \(4,\)"),
        ("graph.csv", {}, "got str"),
        (sp.csr_array((2, 3)), {}, r"square matrix \(n, n\), got shape \(2, 3\)"),
        (pd.DataFrame({"a": [1], "b": [2], "c": [3], "d": [4]}), {}, "columns source, target"),
        (np.array([[None, None], [None, "x"]]), {}, "expected a matrix of numbers"),
        (frame(), {"nodes": ["a", "b", "c", "a"]}, "found 'a' 2 times"),
        (frame(), {"nodes": {"a", "b", "c"}}, "unordered set"),
        (frame(), {"nodes": []}, "at least one node"),
        (frame(), {"nodes": [["a"], ["b"]]}, "hashable"),
        (np.zeros((4, 2)), {"nodes": 0}, "number of nodes from 1 up, got 0"),
        (np.zeros((4, 2)), {"nodes": 2.5}, "got 2.5"),
        (np.zeros((4, 2)), {"nodes": True}, "got True"),
        (np.zeros((4, 2)), {"nodes": "abc"}, "got 'abc'"),
        (nx.Graph(), {}, "at least one node"),
    ],
)
def test_bad_input(graph, options, message):
    with pytest.raises(InputError, match=message):
        as_graph(graph, **options)


def test_no_edges():
    for empty in (np.zeros((3, 3)), sp.csr_array((3, 3)), nx.empty_graph(3), igraph.Graph(3)):
        assert as_graph(empty).adjacency.nnz == 0
    assert as_graph(np.empty((0, 2)), nodes=3).adjacency.shape == (3, 3)
    assert as_graph(np.empty((0, 3)), nodes=3, weight="length").adjacency.nnz == 0


def test_graph_is_frozen():
    graph = as_graph(np.zeros((2, 2)))
    assert isinstance(graph, Graph)
    with pytest.raises(AttributeError):
        graph.directed = True


def test_optional_packages_are_not_imported():
    code = (
        "import sys, numpy as np; from metricmix.dissimilarity.graphs import as_graph; "
        "as_graph(np.zeros((2, 2))); "
        "sys.exit(any(name in sys.modules for name in ('networkx', 'igraph', 'pandas')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("density", [0.02, 0.5, 1.0])
def test_sparse_and_dense_graphs_are_built_alike(density, directed):
    mask = np.random.default_rng(0).random((60, 60)) < density
    found = as_graph(sp.coo_array(mask), directed=directed).adjacency
    np.fill_diagonal(mask, False)
    expected = sp.csr_array(mask if directed else mask | mask.T)
    np.testing.assert_array_equal(found.toarray(), expected.toarray())
    assert found.nnz == expected.nnz
    assert found.has_canonical_format
    assert found.indices.dtype == np.int32

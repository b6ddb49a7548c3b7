"""Lists of edges: formats, meanings of weights, and what is refused."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array, save_npz

from metricmix import InputError, MissingPackageError, TableFileError
from metricmix.app.ingest import read_edge_file

networkx = pytest.importorskip("networkx")


def named_edges(found) -> list[tuple[str, str]]:
    return [(found.ids[u], found.ids[v]) for u, v in found.ends]


@pytest.mark.parametrize(
    "text",
    [
        "source,target\na,b\nb,c\n",
        "Target;Source;year\nb;a;1990\nc;b;1991\n",
        "from\tto\na\tb\nb\tc\n",
        "a,b\nb,c\n",
    ],
)
def test_texts_without_weights(write, text) -> None:
    found = read_edge_file(write("edges.csv", text))
    assert named_edges(found) == [("a", "b"), ("b", "c")]
    assert found.weights is None
    assert found.weight is None
    assert not found.directed


@pytest.mark.parametrize("name", ["length", "similarity"])
def test_a_column_says_what_weights_mean(write, name) -> None:
    found = read_edge_file(write("edges.csv", f"source,target,{name}\na,b,0.5\n"))
    assert found.weight == name
    np.testing.assert_array_equal(found.weights, [0.5])


def test_the_column_stated_is_taken_of_two(write) -> None:
    file = write("edges.csv", "source,target,length,similarity\na,b,2,0.25\n")
    assert read_edge_file(file).weights == [2.0]
    assert read_edge_file(file, weight="similarity").weights == [0.25]


def test_weights_need_a_meaning(write) -> None:
    file = write("edges.csv", "a;b;0,5\nb;c;1\n")
    with pytest.raises(InputError, match=r"weight: 1 edges of .* have weights other than 1"):
        read_edge_file(file)
    found = read_edge_file(file, weight="length", directed=True)
    np.testing.assert_array_equal(found.weights, [0.5, 1.0])
    assert found.directed
    assert read_edge_file(file, weight="ignore").weights is None
    assert read_edge_file(write("ones.csv", "a,b,1\nb,c,1\n")).weights is None


def test_a_meaning_needs_weights(write) -> None:
    with pytest.raises(InputError, match=r"weight: got 'length', but the edges of .* have no"):
        read_edge_file(write("edges.csv", "a,b\nb,c\n"), weight="length")


def test_a_meaning_does_not_contradict_the_file(write) -> None:
    file = write("edges.csv", "source,target,similarity\na,b,0.5\n")
    with pytest.raises(InputError, match=r"weight: got 'length', but .* calls its weights 'simil"):
        read_edge_file(file, weight="length")


BAD = {
    "negative": ("source,target,length\na,b,-1\n", "line 2: expected a weight, a number >= 0"),
    "text": ("source,target,length\na,b,far\n", "found 'far'"),
    "infinite": ("source,target,length\na,b,inf\n", "found 'inf'"),
    "header": ("citing,cited,strength\na,b,1\n", "call the columns source, target and length"),
    "no edges": ("source,target\n", "expected edges, found none"),
    "no end": ("source,target\na,\n", "line 2: expected two ids, found an empty cell"),
    "spaces": ("a b\nb c\n", "line 1: expected cells separated by"),
    "many": ("a,b,c,d\n", "line 1: expected columns source, target"),
    "damaged": ("é,b\n".encode() + b"\xe9,c\n", "line 2: expected UTF-8 text"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_texts(write, case) -> None:
    content, sentence = BAD[case]
    file = write("edges.csv", content)
    with pytest.raises(TableFileError) as found:
        read_edge_file(file)
    assert str(found.value).startswith(str(file))
    assert sentence in str(found.value)


@pytest.mark.parametrize("kind", ["graphml", "gexf"])
@pytest.mark.parametrize("directed", [False, True])
def test_graph_files_say_their_direction(tmp_path: Path, kind, directed) -> None:
    graph = networkx.DiGraph() if directed else networkx.Graph()
    graph.add_edge('<b>"a"</b>', "b", weight=0.5)
    graph.add_node("alone")
    file = tmp_path / f"graph.{kind}"
    getattr(networkx, f"write_{kind}")(graph, file)
    found = read_edge_file(file, weight="similarity")
    assert named_edges(found) == [('<b>"a"</b>', "b")]
    assert "alone" in found.ids
    assert found.weight == "similarity"
    assert found.directed is directed
    assert not read_edge_file(file, weight="ignore", directed=False).directed
    assert read_edge_file(file, weight="ignore", directed=True).directed is directed


UNKNOWN = "<?xml version='1.0' encoding='nonsense'?>\n<graphml></graphml>"


@pytest.mark.parametrize("kind", ["graphml", "gexf"])
@pytest.mark.parametrize("content", ["", "a,b\n", "<html></html>", "<graphml><graph>", UNKNOWN])
def test_graph_files_that_are_none(write, kind, content) -> None:
    with pytest.raises(TableFileError, match=f"expected a {kind} file, but"):
        read_edge_file(write(f"graph.{kind}", content))


def test_graph_files_without_networkx(write, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'metricmix\[graphs\]'"):
        read_edge_file(write("graph.gexf", ""))


def test_sparse_matrices(tmp_path: Path) -> None:
    file = tmp_path / "graph.npz"
    save_npz(file, coo_array(([0.0, 2.0], ([0, 1], [1, 2])), shape=(3, 3)))
    found = read_edge_file(file, weight="length")
    assert found.ids is None
    assert found.ends.tolist() == [[0, 1], [1, 2]]
    np.testing.assert_array_equal(found.weights, [0.0, 2.0])
    assert read_edge_file(file, weight="similarity").ends.tolist() == [[1, 2]]


def test_sparse_matrices_that_are_none(write, tmp_path: Path) -> None:
    with pytest.raises(TableFileError, match="expected a sparse matrix"):
        read_edge_file(write("text.npz", "a,b\n"))
    with pytest.raises(TableFileError, match="expected a sparse matrix"):
        read_edge_file(write("empty.npz", ""))
    np.savez(tmp_path / "dense.npz", matrix=np.eye(2))
    with pytest.raises(TableFileError, match="expected a sparse matrix"):
        read_edge_file(tmp_path / "dense.npz")
    save_npz(tmp_path / "wide.npz", coo_array(np.ones((2, 3))))
    with pytest.raises(TableFileError, match="expected a square matrix, found 2 x 3"):
        read_edge_file(tmp_path / "wide.npz")
    save_npz(tmp_path / "negative.npz", coo_array(-np.ones((2, 2))))
    with pytest.raises(TableFileError, match=r"row 0, column 0.*expected a weight"):
        read_edge_file(tmp_path / "negative.npz", weight="length")


def test_no_such_file(tmp_path: Path) -> None:
    for name in ("a.csv", "a.npz", "a.graphml"):
        with pytest.raises(TableFileError, match="No such file"):
            read_edge_file(tmp_path / name)


# -- other formats and names of columns ----------------------------------------------------------


def test_columns_may_be_named(write) -> None:
    file = write("trips.csv", "id,person_a,person_b,minutes\n1,p,q,5\n2,q,r,7\n")
    found = read_edge_file(
        file, weight="length", weight_column="Minutes", ends=("person_a", "person_b")
    )
    assert found.ids == ("p", "q", "r")
    assert found.weights is not None
    assert found.weights.tolist() == [5, 7]
    assert found.unused == ("id",)
    with pytest.raises(InputError, match=r"expected a column 'hours', found 'id', 'person_a'"):
        read_edge_file(file, weight="length", weight_column="hours", ends=("person_a", "person_b"))


def test_unused_columns_are_reported(write) -> None:
    assert read_edge_file(write("trips.csv", "from,to,minutes\np,q,5\n")).unused == ("minutes",)


@pytest.mark.parametrize("indptr", [[0, 5, 1, 9, 1, 1, 1], [0, 500000, 1, 1, 1, 1, 1]])
def test_a_sparse_matrix_that_points_anywhere(tmp_path, indptr) -> None:
    file = tmp_path / "evil.npz"
    parts = {"indptr": np.array(indptr), "indices": np.array([1]), "data": np.array([1.0])}
    np.savez(file, format=np.array(b"csr"), shape=np.array([6, 6]), **parts)
    with pytest.raises(TableFileError, match=r"evil.npz: expected a sparse matrix"):
        read_edge_file(file)


def test_complex_weights(tmp_path) -> None:
    save_npz(tmp_path / "c.npz", coo_array(np.array([[0, 1j], [1j, 0]])))
    with pytest.raises(TableFileError, match="complex"):
        read_edge_file(tmp_path / "c.npz")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.json", '[{"person_a": "a", "person_b": "b"}, {"person_a": "b", "person_b": "c"}]'),
        ("e.json", '{"from": ["a", "b"], "to": ["b", "c"]}'),
        ("e.csv", '{"source": "a", "target": "b"}\n{"source": "b", "target": "c"}\n'),
        ("e.csv.gz", gzip.compress(b"a,b\nb,c\n", mtime=0)),
    ],
)
def test_edges_in_other_formats(write, name, content) -> None:
    found = read_edge_file(write(name, content))
    assert named_edges(found) == [("a", "b"), ("b", "c")]
    assert found.header == ()


def test_graph_files_may_be_compressed(tmp_path: Path) -> None:
    networkx.write_graphml(networkx.path_graph(["a", "b", "c"]), tmp_path / "g.graphml.gz")
    assert named_edges(read_edge_file(tmp_path / "g.graphml.gz")) == [("a", "b"), ("b", "c")]
    save_npz(tmp_path / "g.npz", coo_array(np.eye(3, k=1)))
    (tmp_path / "h.npz.gz").write_bytes(gzip.compress((tmp_path / "g.npz").read_bytes()))
    assert read_edge_file(tmp_path / "h.npz.gz").ends.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("text", "header", "unused", "n_edges"),
    [
        ("person_a,person_b\na,b\nb,c\n", ("person_a", "person_b"), (), 2),
        ("from_id,to_id,minutes\na,b,5\nb,c,7\n", ("from_id", "to_id"), ("minutes",), 2),
        ("citing;cited\na;b\nx;c\ny;z\nb;a\n", ("citing", "cited"), (), 4),
        ("trip,person_a,person_b\n9,a,b\n8,b,c\n", ("person_a", "person_b"), ("trip",), 2),
        ("woman,event\na,e1\nb,e1\n", ("woman", "event"), (), 2),
        ("a,b\nb,c\n", (), (), 2),
        ("a,x\nb,c\n", (), (), 2),
        ("u,v\nx,y\na,z\nz,w\n", (), (), 4),
    ],
)
def test_a_header_has_no_id_of_an_item(write, text, header, unused, n_edges) -> None:
    found = read_edge_file(write("e.csv", text), items=("a", "b", "c"))
    assert (found.header, found.unused, len(found.ends)) == (header, unused, n_edges)


def test_weights_below_a_header_that_was_recognised(write) -> None:
    file = write("e.csv", "person_a,person_b,minutes,length\na,b,5,2\nb,c,7,3\n")
    assert read_edge_file(file, items="abc").weights.tolist() == [2, 3]
    found = read_edge_file(file, weight="length", weight_column="minutes", items="abc")
    assert found.weights.tolist() == [5, 7]
    with pytest.raises(TableFileError, match=r"found 4 columns; .* e.csv:from=COLUMN:to=COLUMN"):
        read_edge_file(file)

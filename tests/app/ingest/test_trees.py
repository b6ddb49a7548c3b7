from __future__ import annotations

import sys

import numpy as np
import pytest

from metricmix.app.ingest import parse_matrix, read_items, read_matrix
from metricmix.app.ingest.given_files import join
from metricmix.app.ingest.matrices import check_target, read_cross_matrix
from metricmix.exceptions import MatrixFileError, MissingPackageError

pytest.importorskip("commonnexus")
pytest.importorskip("newick")

NEXUS = """#NEXUS
[ a remark ]
BEGIN TAXA; DIMENSIONS NTAX=4; TAXLABELS A 'B b' C_c D; END;
BEGIN DISTANCES;
  FORMAT TRIANGLE=LOWER LABELS=LEFT MISSING=?;
  MATRIX
    A 0
    'B b' 1.5 0
    C_c 2 ? 0
    D 1 2 3 0;
END;
"""
TREES = """#NEXUS
begin trees;
  translate 1 A, 2 'B b', 3 C;
  tree first = [&R] ((1:1,2:2):0.5,3:4);
  tree second = (1,2,3);
end;
"""


def distances(write, text: str, name: str = "tree.nwk"):
    """Return the distances by name, and the remarks."""
    found = read_matrix(write(name, text))
    assert found.items is not None
    assert np.array_equal(found.values, found.values.T)
    by_name = {
        (a, b): float(found.values[i, j])
        for i, a in enumerate(found.items)
        for j, b in enumerate(found.items)
        if a < b
    }
    return by_name, found.remarks


def test_paths_between_leaves(write) -> None:
    found, remarks = distances(write, "((a:1,b:2):0.5,(c:3,d:4)x:0.25)root:7;")
    assert found == {
        ("a", "b"): 3.0,
        ("a", "c"): 4.75,
        ("a", "d"): 5.75,
        ("b", "c"): 5.75,
        ("b", "d"): 6.75,
        ("c", "d"): 7.0,
    }
    assert remarks == ()


def test_multifurcations_and_paths_by_brute_force(write) -> None:
    """A random tree with nodes of up to five children, beside Dijkstra's algorithm."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    rng = np.random.default_rng(4)
    n = 60
    parent = [-1] + [int(rng.integers(max(0, k // 4), max(1, k // 2 + 1))) for k in range(1, n)]
    length = rng.uniform(0, 3, n).round(3)
    children: list[list[int]] = [[] for _ in range(n)]
    for k in range(1, n):
        children[parent[k]].append(k)
    assert max(map(len, children)) > 2

    def text(k: int) -> str:
        inside = f"({','.join(map(text, children[k]))})" if children[k] else ""
        return f"{inside}v{k}:{length[k]}"

    found, _ = distances(write, text(0) + ";")
    edges = coo_array((length[1:], (np.arange(1, n), parent[1:])), shape=(n, n))
    expected = dijkstra(edges, directed=False)
    leaves = [k for k in range(n) if not children[k]]
    assert len(found) == len(leaves) * (len(leaves) - 1) // 2
    for (a, b), value in found.items():
        assert value == pytest.approx(expected[int(a[1:]), int(b[1:])])


def test_quoted_names_and_comments(write) -> None:
    text = "[&R] ('Homo sapiens'[our own]:1,('it''s, a (leaf)':2,b_c:1[&rate=2])0.98:1);"
    found, _ = distances(write, text)
    assert found["Homo sapiens", "it's, a (leaf)"] == 4.0
    assert found["Homo sapiens", "b_c"] == 3.0


@pytest.mark.parametrize(
    ("text", "expected", "remark"),
    [
        ("((a,b),c,d);", {"ab": 2, "ac": 3, "cd": 2}, "no branch has a length: each counts 1"),
        ("((a:1,b):2,c:4);", {"ab": 1, "bc": 6}, "1 of 4 branch has no length: counted as 0"),
        (
            "((a:1,b:-0.5):2,c:4);",
            {"ab": 1, "bc": 6},
            "1 branch has a negative length, -0.5: counted as 0",
        ),
        ("(a:1,b:2);(a:9,b:9);", {"ab": 3}, "the first of 2 trees is used"),
        ("((a:0,b:0):0,c:1);", {"ab": 0, "ac": 1}, None),
    ],
)
def test_lengths_that_are_missing_negative_or_zero(write, text, expected, remark) -> None:
    found, remarks = distances(write, text)
    assert {a + b: found[a, b] for a, b in expected} == expected
    assert remarks == (() if remark is None else (remark,))


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("t.nwk", "(a:1,(b:1,a:2):1);", "expected every name once, found 'a' at items 0 and 2"),
        ("t.nwk", "(a:1,b:x);", "expected a branch length, found 'x'"),
        ("t.nwk", "(a:1,b:inf);", "expected a branch length, found 'inf'"),
        ("t.nwk", "(a:1,,b:2);", "expected a name for every leaf"),
        ("t.nwk", "(a:1,b:2", "expected a Newick tree or #NEXUS, but different number of"),
        ("t.nwk", "", "found neither"),
        ("t.nwk", "towns", "found neither"),
        ("t.nex", "towns", "or #NEXUS in the first line"),
        ("t.nex", "#NEXUS\nbegin data; end;", "expected a block of DISTANCES or TREES"),
        ("t.nex", NEXUS.replace("2 3 0;", "2 3;"), "expected distances of 4 taxa"),
        ("t.nex", NEXUS.replace("1.5", "near"), "expected a NEXUS file"),
    ],
)
def test_malformed_trees(write, name, text, sentence) -> None:
    with pytest.raises(MatrixFileError, match=r"t\.n") as caught:
        read_matrix(write(name, text))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_deep_trees(write) -> None:
    n = 450  # two calls of the reader each: beyond the usual limit of 1000
    text = "(" * n + "a:1" + "".join(f",b{k}:1):1" for k in range(n)) + ";"
    found = read_matrix(write("deep.nwk", text))
    assert found.items is not None
    row = dict(zip(found.items, found.values[found.items.index("a")], strict=True))
    assert [row[f"b{k}"] for k in range(n)] == [k + 2.0 for k in range(n)]


def test_nexus_distances(write) -> None:
    found, remarks = distances_with_gaps(write)
    assert found["A", "B b"] == 1.5
    assert found["A", "D"] == 1.0
    assert np.isnan(found["B b", "C_c"])
    assert remarks == ()


def distances_with_gaps(write):
    found = read_matrix(write("t.nex", NEXUS))
    assert found.items == ("A", "B b", "C_c", "D")
    return {
        (a, b): found.values[i, j]
        for i, a in enumerate(found.items)
        for j, b in enumerate(found.items)
    }, found.remarks


def test_nexus_trees_are_translated(write) -> None:
    found, remarks = distances(write, TREES, "t.trees")
    assert found == {("A", "B b"): 3.0, ("A", "C"): 5.5, ("B b", "C"): 6.5}
    assert remarks == ("the first of 2 trees is used",)
    again, _ = distances(write, TREES, "t.tre")  # what is inside counts
    assert again == found


def test_distances_win_over_trees(write) -> None:
    found = read_matrix(write("t.nex", NEXUS + TREES.replace("#NEXUS", "")))
    assert found.values[0, 3] == 1.0
    assert found.remarks == ("the distances are used, not the trees beside them",)


def test_a_tree_is_a_source(write) -> None:
    """Leaves that are not items are left out and reported; underscores stand for blanks."""
    write("taxa.csv", "name,order\nhouse cat,c\nwolf,c\nhorse,p\n")
    write("t.nwk", "((house_cat:1,wolf:2):1,(horse:3,tapir:-1):1);")
    folder = write("x", "").parent
    found = join(read_items(folder / "taxa.csv"), [parse_matrix(str(folder / "t.nwk"))])
    report = found.report.sources[-1]
    assert report.foreign == ("tapir",)
    assert list(report.remarks()) == [
        "1 branch has a negative length, -1: counted as 0",
        "1 id is not in the table, such as tapir",
    ]
    assert found.stack.source("t").tolist() == [[0, 3, 6], [3, 0, 7], [6, 7, 0]]


def test_items_that_are_no_leaves(write) -> None:
    write("taxa.csv", "name,order\ncat,c\nwolf,c\nsnail,p\n")
    file = write("t.nwk", "((cat:1,hyena:2):1,horse:3);")
    with pytest.raises(MatrixFileError, match="2 missing, such as 'wolf', 'snail'"):
        join(read_items(file.parent / "taxa.csv"), [parse_matrix(str(file))])


def test_a_tree_with_new_items(write) -> None:
    file = write("t.nwk", "((cat:1,wolf:2):1,(horse:3,new:1):1);")
    rows = read_cross_matrix(file, ["new"], ["wolf", "cat", "horse"])
    assert rows.tolist() == [[5, 4, 4]]
    with pytest.raises(MatrixFileError, match="such as 'newer'"):
        read_cross_matrix(file, ["newer"], ["wolf"])


def test_trees_are_not_written(tmp_path) -> None:
    with pytest.raises(MatrixFileError, match="cannot be written"):
        check_target(tmp_path / "t.nwk")


def test_a_missing_reader_is_one_sentence(write, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "newick", None)
    monkeypatch.setitem(sys.modules, "commonnexus", None)
    with pytest.raises(MissingPackageError, match="pip install newick commonnexus"):
        read_matrix(write("t.nwk", "(a:1,b:2);"))
    with pytest.raises(MissingPackageError, match="pip install newick commonnexus"):
        read_matrix(write("t.nex", NEXUS))

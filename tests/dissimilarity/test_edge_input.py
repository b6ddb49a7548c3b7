"""Edge stacks from matrices, graphs and tables, good and bad."""

from pathlib import Path
from typing import Any

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csr_array

import metricmix as mm
from metricmix.dissimilarity import edge_input

BIG = 2**40


def edge_table(rows: list[tuple[Any, ...]], names: tuple[str, ...] = ("a",)) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["u", "v", *names])


def listed(stack: mm.EdgeStack) -> dict[tuple[Any, Any], list[float]]:
    ends = zip(stack.edges.tails, stack.edges.heads, stack.values.T, strict=True)
    return {(stack.items[u], stack.items[v]): x.tolist() for u, v, x in ends}


# -- matrices -----------------------------------------------------------------------------------


def test_matrices_have_an_edge_where_any_source_has_an_entry() -> None:
    a = coo_array(([1.0, 0.0], ([0, 1], [1, 2])), shape=(4, 4))
    b = coo_array(([5.0, 6.0], ([1, 3], [0, 2])), shape=(4, 4))
    stack = mm.EdgeStack.from_matrices({"a": a, "b": b}, missing={"a": 7, "b": 8})
    assert listed(stack) == {(0, 1): [1, 5], (1, 2): [0, 8], (2, 3): [7, 6]}
    assert stack.names == ("a", "b")
    assert stack.items.tolist() == [0, 1, 2, 3]


def test_both_triangles_may_be_stored_and_must_agree() -> None:
    a = csr_array([[0, 2, 0], [2, 0, 3], [0, 3, 0]])
    assert listed(mm.EdgeStack.from_matrices({"a": a})) == {(0, 1): [2], (1, 2): [3]}
    assert mm.EdgeStack.from_matrices({"a": a}).report.duplicates == 0
    b = csr_array([[0, 2, 0], [4, 0, 3], [0, 3, 0]])
    with pytest.raises(mm.InputError, match="one value per edge, got 2 and 4 between 0 and 1"):
        mm.EdgeStack.from_matrices({"b": b})
    smallest = mm.EdgeStack.from_matrices({"b": b}, duplicates="smallest")
    assert listed(smallest) == {(0, 1): [2], (1, 2): [3]}
    directed = mm.EdgeStack.from_matrices({"b": b}, directed=True)
    assert listed(directed)[1, 0] == [4]


def test_an_edge_that_one_source_lacks_is_refused() -> None:
    a, b = csr_array([[0, 2], [0, 0]]), csr_array((2, 2))
    with pytest.raises(mm.InputError, match="1 of 1 edges have no value in source 'b'"):
        mm.EdgeStack.from_matrices({"a": a, "b": b})


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_matrices_with_bad_values(value: float) -> None:
    with pytest.raises(mm.InputError, match=rf"found {value:g} at \(0, 1\)"):
        mm.EdgeStack.from_matrices({"a": coo_array(([value], ([0], [1])), shape=(2, 2))})


def test_matrices_of_a_wrong_kind() -> None:
    with pytest.raises(mm.InputError, match="a scipy sparse matrix"):
        mm.EdgeStack.from_matrices({"a": np.eye(3)})
    with pytest.raises(mm.InputError, match=r"shape \(3, 3\)"):
        mm.EdgeStack.from_matrices({"a": csr_array((3, 3)), "b": csr_array((2, 2))})
    with pytest.raises(mm.InputError, match="a dictionary"):
        mm.EdgeStack.from_matrices([csr_array((3, 3))])  # type: ignore[arg-type]
    with pytest.raises(mm.InputError, match="at least one edge"):
        mm.EdgeStack.from_matrices({"a": csr_array((3, 3))})


def test_items_and_scaling() -> None:
    a = csr_array([[0, 2, 0], [0, 0, 4], [0, 0, 0]])
    stack = mm.EdgeStack.from_matrices({"a": a}, items=["x", "y", "z"], scaling="mean")
    assert stack.scales.tolist() == [3.0]
    assert stack.pairs(stack.positions(["x"]), stack.positions(["y"])).tolist() == [[2 / 3]]


# -- graphs -------------------------------------------------------------------------------------


def test_graphs_of_several_kinds() -> None:
    first = nx.Graph()
    first.add_weighted_edges_from([("a", "b", 2.0), ("b", "c", 3.0)])
    first.add_node("lonely")
    second = igraph.Graph(edges=[(0, 1), (1, 2)], n=4)
    second.vs["name"] = ["a", "b", "c", "lonely"]
    stack = mm.EdgeStack.from_graphs(
        {"km": first, "hops": second}, weight={"km": "length", "hops": None}
    )
    assert listed(stack) == {("a", "b"): [2, 1], ("b", "c"): [3, 1]}
    assert stack.report.components == 2
    numbered = mm.EdgeStack.from_graphs({"a": [(0, 1)], "b": [(1, 2)]}, nodes=3, missing=4)
    assert listed(numbered) == {(0, 1): [1, 4], (1, 2): [4, 1]}
    assert not numbered.has_items


# -- tables -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
@pytest.mark.parametrize("chunksize", [1, 2, 1000])
@pytest.mark.parametrize("ids", [[7, 3, 9], [BIG, 5, BIG + 1], ["x", "7", "z"], ["01", "1", "2"]])
def test_tables_are_read_in_chunks(
    kind: str, chunksize: int, ids: list[Any], tmp_path: Path
) -> None:
    p, q, r = ids
    table = edge_table([(p, q, 1.5, 2), (q, r, 0.0, 4), (r, p, 2.5, 6)], ("km", "fare"))
    source: Any = table
    if kind == "csv":
        source = tmp_path / "edges.csv"
        table.to_csv(source, index=False)
    if kind == "parquet":
        source = str(tmp_path / "edges.parquet")
        table.to_parquet(source)
    stack = mm.EdgeStack.from_table(source, chunksize=chunksize)
    assert stack.items.tolist() == sorted(ids)
    assert stack.names == ("km", "fare")
    found = {frozenset(ends): values for ends, values in listed(stack).items()}
    assert found == {
        frozenset((p, q)): [1.5, 2],
        frozenset((q, r)): [0, 4],
        frozenset((r, p)): [2.5, 6],
    }


def test_a_chunk_is_all_that_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 1000
    path = tmp_path / "edges.csv"
    rows = [(k, k + 1, float(k)) for k in range(n)]
    edge_table(rows).to_csv(path, index=False)
    sizes = []
    read = edge_input.read_values

    def counted(chunk: Any, names: list[str], row: int) -> Any:
        sizes.append(len(chunk))
        return read(chunk, names, row)

    monkeypatch.setattr(edge_input, "read_values", counted)
    stack = mm.EdgeStack.from_table(path, chunksize=64)
    assert max(sizes) == 64
    assert len(stack.edges) == n
    assert len(sizes) == -(-n // 64)


def test_columns_by_name(tmp_path: Path) -> None:
    table = pd.DataFrame({"from": [1], "to": [2], "km": [3.0], "note": ["slow"]})
    for source in (table, tmp_path / "e.csv", tmp_path / "e.parquet"):
        if isinstance(source, Path):
            write = table.to_csv if source.suffix == ".csv" else table.to_parquet
            write(source, index=False)
        stack = mm.EdgeStack.from_table(source, source="from", target="to", columns=["km"])
        assert stack.names == ("km",)
        with pytest.raises(mm.InputError, match="a column 'u'"):
            mm.EdgeStack.from_table(source)
        with pytest.raises(mm.InputError, match="a column 'minutes'"):
            mm.EdgeStack.from_table(source, source="from", target="to", columns=["minutes"])
    with pytest.raises(mm.InputError, match="column 'note': expected numbers"):
        mm.EdgeStack.from_table(table, source="from", target="to")


def test_reversed_and_equal_duplicates_are_merged() -> None:
    table = edge_table([(0, 1, 2.0), (1, 0, 2.0), (0, 1, 2.0), (1, 2, 3.0)])
    stack = mm.EdgeStack.from_table(table)
    assert listed(stack) == {(0, 1): [2], (1, 2): [3]}
    assert stack.report.duplicates == 2


def test_contradictory_duplicates() -> None:
    table = edge_table([("p", "q", 2.0, 1.0), ("q", "p", 1.0, 5.0)], ("a", "b"))
    with pytest.raises(mm.InputError, match="got 1 and 2 between 'p' and 'q'"):
        mm.EdgeStack.from_table(table)
    stack = mm.EdgeStack.from_table(table, duplicates="smallest")
    assert listed(stack) == {("p", "q"): [1, 1]}
    directed = mm.EdgeStack.from_table(table, directed=True)
    assert listed(directed) == {("p", "q"): [2, 1], ("q", "p"): [1, 5]}
    with pytest.raises(mm.InputError, match="duplicates"):
        mm.EdgeStack.from_table(table, duplicates="last")


def test_self_loops_are_dropped_and_counted() -> None:
    stack = mm.EdgeStack.from_table(edge_table([(0, 0, 5.0), (0, 1, 2.0), (2, 2, np.nan)]))
    assert listed(stack) == {(0, 1): [2]}
    assert stack.report.self_loops == 2
    assert stack.n_items == 3  # the item is known, and has no edge
    assert stack.report.components == 2
    with pytest.raises(mm.InputError, match="at least one edge between different items"):
        mm.EdgeStack.from_table(edge_table([(0, 0, 5.0)]))


def test_missing_values() -> None:
    table = edge_table([(0, 1, 2.0, np.nan), (1, 2, 3.0, 4.0)], ("a", "b"))
    with pytest.raises(mm.InputError, match="1 of 2 edges have no value in source 'b'"):
        mm.EdgeStack.from_table(table)
    stack = mm.EdgeStack.from_table(table, missing=9.0)
    assert listed(stack) == {(0, 1): [2, 9], (1, 2): [3, 4]}
    with pytest.raises(mm.InputError, match="missing"):
        mm.EdgeStack.from_table(table, missing=-1.0)


@pytest.mark.parametrize("value", [-1.0, np.inf, -np.inf])
def test_bad_values_are_refused_by_row(value: float) -> None:
    table = edge_table([(0, 1, 2.0), (1, 2, 3.0), (2, 3, value)])
    with pytest.raises(mm.InputError, match=f"column 'a': .*found {value:g} in row 2"):
        mm.EdgeStack.from_table(table, chunksize=2)


def test_unknown_and_missing_ids(tmp_path: Path) -> None:
    table = edge_table([("a", "b", 2.0), ("b", "zz", 3.0)])
    with pytest.raises(mm.InputError, match="1 ids in column 'v' are not in items, such as 'zz'"):
        mm.EdgeStack.from_table(table, items=["a", "b", "c"])
    with pytest.raises(mm.InputError, match="column 'v': expected an id in row 1"):
        mm.EdgeStack.from_table(edge_table([("a", "b", 2.0), ("b", None, 3.0)]))
    path = tmp_path / "edges.csv"
    path.write_text("u,v,a\n0,1,2\n1,7,3\n")
    with pytest.raises(mm.InputError, match="such as 7"):
        mm.EdgeStack.from_table(path, items=3)
    assert mm.EdgeStack.from_table(path, items=8).n_items == 8
    assert mm.EdgeStack.from_table(path, items=[7, 1, 0]).items.tolist() == [7, 1, 0]


def test_an_item_without_edges_and_components_of_their_own() -> None:
    table = edge_table([("a", "b", 2.0), ("c", "d", 3.0)])
    stack = mm.EdgeStack.from_table(table, items=["a", "b", "c", "d", "alone"])
    assert stack.report.components == 3
    assert stack.report.bridging == 0
    joined = mm.EdgeStack.from_table(table, items=["a", "b", "c", "d", "alone"], bridge=10.0)
    assert joined.edges.components[0] == 1
    assert (joined.report.components, joined.report.bridging) == (3, 2)
    assert sorted(joined.values[0].tolist()) == [2, 3, 10, 10]
    two = edge_table([(0, 1, 2.0, 1.0), (2, 3, 3.0, 1.0)], ("a", "b"))
    with pytest.raises(mm.InputError, match="bridge: expected a value for source 'b'"):
        mm.EdgeStack.from_table(two, bridge={"a": 1.0})


def test_empty_tables(tmp_path: Path) -> None:
    with pytest.raises(mm.InputError, match="at least one edge"):
        mm.EdgeStack.from_table(edge_table([]))
    for text in ("u,v,a\n", ""):
        path = tmp_path / "edges.csv"
        path.write_text(text)
        with pytest.raises(mm.InputError, match="at least one edge"):
            mm.EdgeStack.from_table(path)
    with pytest.raises(mm.InputError, match="a column per source"):
        mm.EdgeStack.from_table(pd.DataFrame({"u": [0], "v": [1]}))


def test_what_is_no_table(tmp_path: Path) -> None:
    for table in (tmp_path / "none.csv", 3, [(0, 1)]):
        with pytest.raises(mm.InputError, match="a DataFrame or the path of a CSV or Parquet"):
            mm.EdgeStack.from_table(table)


def test_numbers_in_one_chunk_and_texts_in_another(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("u,v,a\n1,2,1\n2,x3,1\n")
    stack = mm.EdgeStack.from_table(path, chunksize=1)
    assert stack.items.tolist() == ["1", "2", "x3"]

"""The join on item id: the items are those of the table."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array, save_npz

from metricmix import InputError, MatrixFileError, TableFileError, TooLargeError
from metricmix.app.ingest import parse_edges, parse_source, read_items
from metricmix.app.ingest.given_files import join, plan
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.dissimilarity.value_storage import StackSizes

TABLE = "id,kind,size\na,x,1\nb,,2\nc,y,4\n"
MATRIX = "id,c,z,a,b\nc,0,9,5,6\nz,9,0,9,9\na,5,9,0,7\nb,6,9,7,0\n"


def links(file, **options):
    return SourceSpec("links", "paths", str(file), **options)


def far(file, **options):
    return SourceSpec("far", "matrix", str(file), **options)


@pytest.fixture
def items(write):
    return read_items(write("items.csv", TABLE), label="kind")


def test_everything_together(write, items) -> None:
    edges = write("edges.csv", "source,target,similarity\na,b,0.5\nq,a,1\n")
    found = join(items, [links(edges), far(write("far.csv", MATRIX))])
    assert found.items.ids == ("a", "b", "c")
    assert found.items.labels == ("x", "", "y")
    assert found.stack.names == (
        *("numbers", "links", "far"),
        *("links shared", "links reach", "links walks", "links smoothed", "links diffusion"),
        *("links joint", "links joint smoothed"),
    )
    assert found.stack.items.tolist() == ["a", "b", "c"]
    size = np.array([1.0, 2.0, 4.0]) / np.std([1, 2, 4])
    np.testing.assert_allclose(found.stack.source("numbers"), abs(size - size[:, None]), rtol=1e-6)
    np.testing.assert_array_equal(found.stack.source("links"), [[0, 2, 4], [2, 0, 4], [4, 4, 0]])
    np.testing.assert_array_equal(found.stack.source("far"), [[0, 7, 5], [7, 0, 6], [5, 6, 0]])


def test_the_order_of_lines_does_not_matter(write) -> None:
    rng = np.random.default_rng(0)
    lines = {
        "items.csv": [f"i{k},{k * k % 7}" for k in range(12)],
        "edges.csv": [f"i{k},i{k * 5 % 12},{1 + k}" for k in range(12)],
    }
    heads = {"items.csv": "id,x", "edges.csv": "source,target,length"}

    def joined(order):
        files = {
            name: write(name, "\n".join([heads[name], *(rows[k] for k in order)]))
            for name, rows in lines.items()
        }
        return join(read_items(files["items.csv"]), [links(files["edges.csv"])]).stack

    order = rng.permutation(12)
    one, other = joined(range(12)), joined(order)
    there = one.positions(other.items)
    np.testing.assert_allclose(
        np.asarray(other), np.asarray(one)[np.ix_(there, there)], rtol=1e-6, atol=1e-6
    )


def test_the_report(write, items) -> None:
    edges = write("edges.csv", "source,target\na,b\nq,a\nr,q\n")
    matrix = write("far.csv", MATRIX)
    found = plan(items, [links(edges), far(matrix)], defaults=False)
    report = found.report
    assert report.n_items == 3
    assert report.n_labelled == 2
    assert report.classes == {"x": 1, "y": 1}
    assert [column.kind for column in report.columns] == ["number"]
    graph, ready = report.sources
    assert (graph.n_edges, graph.n_edges_left_out) == (1, 2)
    assert (graph.n_foreign, graph.foreign) == (2, ("q", "r"))
    assert (graph.n_missing, graph.missing) == (1, ("c",))
    assert (ready.n_foreign, ready.foreign, ready.n_missing) == (1, ("z",), 0)
    assert found.sizes == StackSizes(3, 2, 2, n_tables=1, n_links=1, n_matrices=1)
    json.dumps(asdict(report))


def test_labels_and_edges_are_enough(write) -> None:
    items = read_items(write("items.csv", "id,kind\na,x\nb,y\n"), label="kind")
    names = join(items, [links(write("edges.csv", "a,b\n"))]).stack.names
    assert names == ("links", "links shared", "links reach", "links walks")


def test_nothing_to_learn_from(write) -> None:
    items = read_items(write("items.csv", "id,kind\na,x\nb,y\n"), label="kind")
    with pytest.raises(TableFileError, match=r"items.csv: expected a column of attributes"):
        plan(items)


def test_a_directed_graph_makes_the_stack_directed(write, items) -> None:
    edges = write("edges.csv", "a,b\nb,c\n")
    stack = join(items, [links(edges, directed=True)]).stack
    assert stack.directed
    assert stack.names == (
        *("numbers", "links", "links shared", "links shared out", "links shared in"),
        *("links reach", "links walks", "links walks out", "links walks in", "links smoothed"),
        *("links diffusion", "links joint", "links joint smoothed"),
    )
    symmetric = [name for name in stack.names if name != "links"]
    assert all(np.array_equal(stack.source(s), stack.source(s).T) for s in symmetric)
    np.testing.assert_array_equal(stack.source("links shared out")[0], [0, 1, 1])
    np.testing.assert_array_equal(stack.source("links"), [[0, 1, 2], [3, 0, 1], [3, 3, 0]])


def test_what_has_no_ids_is_in_order(items, tmp_path: Path) -> None:
    matrix = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0.0]])
    np.save(tmp_path / "far.npy", matrix)
    save_npz(tmp_path / "graph.npz", coo_array(matrix))
    edges = links(tmp_path / "graph.npz", weight="length")
    found = join(items, [edges, far(tmp_path / "far.npy")], defaults=False)
    np.testing.assert_array_equal(found.stack.source("far"), matrix)
    np.testing.assert_array_equal(found.stack.source("links"), matrix)
    assert [source.by_order for source in found.report.sources] == [True, True]


def test_what_has_no_ids_must_be_as_long(items, tmp_path: Path) -> None:
    np.save(tmp_path / "far.npy", np.zeros((2, 2)))
    with pytest.raises(MatrixFileError, match=r"far.npy: expected 3 rows, .* found 2; a matrix"):
        plan(items, [far(tmp_path / "far.npy")])
    save_npz(tmp_path / "graph.npz", coo_array(np.ones((2, 2))))
    with pytest.raises(TableFileError, match=r"graph.npz: expected 3 rows, .* found 2; a matrix"):
        plan(items, [links(tmp_path / "graph.npz")])


BAD_MATRICES = {
    "missing items": ("id,a\na,0\n", "found 2 missing, such as 'b', 'c'"),
    "no number": ("id,a,b,c\na,0,far,1\nb,1,0,1\nc,1,1,0\n", "line 2, column 3: expected a number"),
    "unknown": ("id,a,b,c\na,0,,\nb,,0,\nc,,,0\n", "expected a pair that is known, got NaN"),
    "negative": ("id,a,b,c\na,0,-2,1\nb,-2,0,1\nc,1,1,0\n", "found -2 from 'a' to 'b'"),
    "one way": (
        "id,a,b,c\na,0,3,1\nb,2,0,1\nc,1,1,0\n",
        "largest asymmetry 1 from 'a' to 'b'; add :directed to its name",
    ),
    "similarity": ("id,a,b,c\na,1,0,0\nb,0,1,0\nc,0,0,1\n", "expected a zero diagonal"),
    "twice": ("id,a,b,a\na,0,1,1\nb,1,0,1\na,1,1,0\n", "expected every name once, found 'a'"),
}


@pytest.mark.parametrize("case", BAD_MATRICES)
def test_bad_matrices(write, items, case) -> None:
    content, sentence = BAD_MATRICES[case]
    file = write("far.csv", content)
    with pytest.raises(MatrixFileError) as found:
        plan(items, [far(file)])
    assert str(found.value).startswith(str(file))
    assert sentence in str(found.value)


def test_an_asymmetric_matrix_may_be_directed(write, items) -> None:
    file = write("far.csv", "id,a,b,c\na,0,3,1\nb,2,0,1\nc,1,1,0\n")
    assert join(items, [far(file, directed=True)]).stack.directed


def test_edges_of_other_items(write, items) -> None:
    edges = write("edges.csv", "q,r\nr,s\n")
    with pytest.raises(TableFileError, match=r"'a', 'b', 'c', found none among 3 nodes, such as"):
        plan(items, [links(edges)])


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("paper,cited\n11,12\n12,13\n13,11\n", ["paper", "cited", "11", "12", "13"]),
        ("p,q\nq,r\nr,s\n", ["p", "q", "r", "s"]),
        ("p,q\nr,s\nt,u\n", ["p", "q", "r", "s", "t", "u"]),
    ],
)
def test_a_header_is_recognised_by_the_ids_below(write, items, text, nodes) -> None:
    file = write("edges.csv", text)
    with pytest.raises(
        TableFileError, match=f"found none among {len(nodes)} nodes, such as '{nodes[0]}'"
    ):
        plan(items, [links(file)])
    some = write("some.csv", text + "a,b\nb,a\n")
    found = plan(items, [links(some)]).report.sources[1]
    assert (found.n_foreign, found.header) == (len(nodes), ())


def test_names_differ(write, items) -> None:
    edges = write("edges.csv", "a,b\n")
    with pytest.raises(InputError, match="got 'numbers' twice; rename a file"):
        plan(items, [SourceSpec("numbers", "paths", str(edges))])


def test_a_graph_is_read_in_one_way(write, items) -> None:
    edges = write("edges.csv", "source,target,length\na,b,2\nb,c,1\n")
    one = links(edges, weight="length")
    other = SourceSpec("hops", "paths", str(edges), weight="ignore")
    with pytest.raises(InputError, match=r"'links', 'hops': expected .* with the same options"):
        plan(items, [one, other])
    both = plan(items, [one, SourceSpec("shared", "jaccard", str(edges))], defaults=False)
    assert [source.spec.name for source in both.build().sources] == ["links", "shared"]


def test_edges_of_length_zero_conduct_nothing(write, items) -> None:
    edges = write("edges.csv", "source,target,length\na,b,0\nb,c,1\n")
    assert join(items, [links(edges)]).stack.names == ("numbers", "links", "links shared")


def test_one_item_alone(write) -> None:
    with pytest.raises(TableFileError, match="expected at least two items"):
        plan(read_items(write("items.csv", "id,x\na,1\n")))


def test_ids_with_quotes_and_html_join(write) -> None:
    odd = '<script>"x"</script>'
    quoted = '"<script>""x""</script>"'
    items = read_items(write("items.csv", f"id,size\n{quoted},1\nb,2\n"))
    edges = write("edges.csv", f"source,target\n{quoted},b\n")
    matrix = write("far.csv", f"id,{quoted},b\n{quoted},0,1\nb,1,0\n")
    found = join(items, [links(edges), far(matrix)])
    assert found.items.ids == (odd, "b")
    assert all(source.n_foreign == source.n_missing == 0 for source in found.report.sources)


def test_too_large_for_memory(items, monkeypatch) -> None:
    ready = plan(items)
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 10)
    with pytest.raises(TooLargeError, match=r"storing .* needs about .* pass --edges-per-item 10"):
        ready.build()


def test_edges_that_join_nothing(write, items) -> None:
    for text in ("source,target\na,a\nb,b\n", "source,target,similarity\na,b,0\n"):
        with pytest.raises(TableFileError, match="expected edges between different items"):
            plan(items, [links(write("edges.csv", text))])


def test_how_a_graph_was_read_is_told(write, items) -> None:
    text = "source,target,length,note\na,b,1,x\nb,a,2,y\nc,c,1,z\n"
    (graph,) = plan(items, [links(write("edges.csv", text))], defaults=False).report.sources
    assert (graph.weight, graph.directed, graph.unused) == ("length", False, ("note",))
    assert (graph.n_edges, graph.n_repeated, graph.n_both_ways, graph.n_loops) == (2, 0, 1, 1)


def test_edges_in_both_directions_are_no_duplicates(write, items) -> None:
    file = write("edges.csv", "source,target\na,b\nb,a\nb,c\nc,b\nb,a\na,c\na,c\n")

    def told(**options: bool) -> list[str]:
        spec = links(file, **options)
        (graph,) = plan(items, [spec], defaults=False).report.sources
        return [line for line in graph.remarks() if "duplicate" in line or "directions" in line]

    duplicates = "2 duplicate edges"
    both = "2 edges occur in both directions"
    assert told() == [f"{both}; add :directed if direction matters", duplicates]
    assert told(directed=False) == [both, duplicates]
    assert told(directed=True) == [duplicates]


def test_a_similarity_of_zero_does_not_stop_walks(write, items) -> None:
    text = "source,target,similarity\na,b,0\nb,c,1\na,c,2\n"
    names = join(items, [links(write("edges.csv", text))]).stack.names
    assert {"links reach", "links walks", "links smoothed"} <= set(names)


def test_ids_that_look_alike_are_told(write) -> None:
    items = read_items(write("items.csv", "id,x\n10001,1\n10002,2\n7,3\n"))
    edges = write("edges.csv", "source,target\n10001,10002\n10001.0,007\n")
    report = plan(items, [links(edges)]).report.sources[1]
    assert report.lookalikes == (("10001.0", "10001"), ("007", "7"))


# -- reports as text -----------------------------------------------------------------------------


def test_the_description_of_a_graph(write) -> None:
    items = read_items(write("t.csv", "id,x\n1,1\n2,2\n3,3\n4,5\n"))
    file = write("e.csv", "from,to,minutes\n1,2,5\n2,1,5\n3,3,1\n1,9,2\n1.0,2,1\n")
    graph = plan(items, [links(file, directed=True)], defaults=False).report.sources[0]
    assert graph.describe() == f"path lengths in {file}, 2 directed edges of length 1"
    assert list(graph.remarks()) == [
        "2 edges dropped: 2 ids are not in the table, such as 9, 1.0",
        "unknown id '1.0'; did you mean '1'?",
        "2 items have no edge, such as 3, 4",
        "1 self-loop",
        "columns not used: minutes; if one contains lengths, pass e.csv:length=minutes; if "
        "similarities, :similarity=minutes",
    ]


def test_the_description_of_columns(write) -> None:
    items = read_items(write("t.csv", "id,a,b,c,d,e\n1,1,2,3,4,5\n2,3,4,5,6,7\n"))
    first, *_, last = plan(items).report.sources
    assert first.describe() == "distance of 5 columns: a, b, c, d, ..."
    assert last.describe() == (
        "walks over nearest items by angle between rows of 5 columns: a, b, c, d, ..."
    )
    assert list(first.remarks()) == []


def test_edges_that_do_not_count_are_reported(write) -> None:
    items = read_items(write("items.csv", "id,kind\na,x\nb,y\nc,x\n"), label="kind")
    near = write("near.csv", "source,target,similarity\na,b,1\nb,c,0\nc,a,0.5\n")
    (report,) = join(items, [parse_edges(str(near))], defaults=False).report.sources
    assert list(report.remarks()) == ["1 edge of similarity 0 dropped"]
    events = write("events.csv", "who,what\na,e1\nb,e1\na,e1\nc,e2\nb,e2\n")
    (report,) = join(items, [parse_edges(str(events))], defaults=False).report.sources
    assert "1 of them are duplicates" in list(report.remarks())


def test_how_to_add_a_source_of_labels_is_told(write) -> None:
    lines = "".join(f"i{k},{'xy'[k % 2]}\n" for k in range(8))
    items = read_items(write("items.csv", "id,kind\n" + lines), label="kind")
    links = write("links.csv", "source,target\n" + "".join(f"i{k},i{k + 2}\n" for k in range(6)))
    found = plan(items, [parse_edges(f"{links}:directed")])
    name, _, rest = found.report.left_out["links spread"].partition('"links spread" = "')
    assert name
    text = rest.partition('"')[0]
    assert parse_source(f"links spread={text}").kind == "spread"


ROWS = "name,code,size\n" + "".join(f"n{k},c{k},{1.5 * k}\n" for k in range(6))


@pytest.mark.parametrize("first", [0, 1])
def test_ids_that_look_like_row_numbers(write, first) -> None:
    """Edges, memberships and matrices name --id row; a column that has the ids comes first."""
    items = read_items(write("items.csv", ROWS))
    pairs = [(first + k, first + (k + 1) % 6) for k in range(6)]
    edges = write("edges.csv", "source,target\n" + "".join(f"{a},{b}\n" for a, b in pairs))
    with pytest.raises(TableFileError, match=r"; if these are row numbers, pass --id row$"):
        plan(items, [links(edges)])
    assert len(plan(read_items(items.source, id="row"), [links(edges)]).sources) > 1
    groups = write("groups.csv", "source,target\n" + "".join(f"{a},g\n" for a, _ in pairs))
    with pytest.raises(TableFileError, match=r"; if these are row numbers, pass --id row$"):
        plan(items, [parse_edges(f"{groups}:membership")])
    names = [str(a) for a, _ in pairs]
    rows = [f"{a},{','.join('01'[a != b] for b in names)}" for a in names]
    matrix = write("far.csv", "\n".join([f"id,{','.join(names)}", *rows]))
    by_row = "row" if first else "row0"
    with pytest.raises(MatrixFileError, match=f"; if these are row numbers, pass --id {by_row}$"):
        plan(items, [far(matrix)])
    assert len(plan(read_items(items.source, id=by_row), [far(matrix)]).sources) > 1


def test_ids_in_another_column(write) -> None:
    items = read_items(write("items.csv", ROWS))
    edges = write("edges.csv", "source,target\nc1,c2\nc2,c3\nc4,c5\n")
    with pytest.raises(TableFileError, match="; pass --id code, the column that has them"):
        plan(items, [links(edges)])
    with pytest.raises(TableFileError, match=r"are the ids in another column\?"):
        plan(items, [links(write("edges.csv", "source,target\n77,78\n78,79\n"))])


def test_few_ids_that_match_by_chance(write) -> None:
    """The first column is a size that happens to be unique."""
    text = "size,kind\n" + "".join(f"{size},x\n" for size in (2, 5, 17, 23, 31, 40, 58, 61))
    edges = write("edges.csv", "source,target\n1,2\n2,5\n3,4\n4,6\n6,7\n7,8\n")
    found = plan(read_items(write("items.csv", text)), [links(edges)])
    told = "\n".join(found.report.sources[0].remarks())
    assert "6 ids are not in the table, such as 1, 3, 4; if these are row numbers, pass" in told

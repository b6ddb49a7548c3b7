"""What was joined, in words."""

from __future__ import annotations

from metricmix.app.ingest import parse_edges, plan, read_items
from metricmix.app.ingest.match import described, remarks


def test_a_graph_in_words(write) -> None:
    items = read_items(write("t.csv", "id,x\n1,1\n2,2\n3,3\n4,5\n"))
    file = write("e.csv", "from,to,minutes\n1,2,5\n2,1,5\n3,3,1\n1,9,2\n1.0,2,1\n")
    graph = plan(items, [parse_edges(f"{file}:directed")], defaults=False).report.sources[0]
    assert described(graph) == f"path lengths in {file}, 2 directed edges each counting 1"
    assert list(remarks(graph)) == [
        "2 edges left out: 2 ids are not in the table, such as 9, 1.0",
        "'1.0' there looks like '1' in the table; write ids alike",
        "2 items have no edge in it, such as 3, 4",
        "0 edges are there again, 1 lead nowhere else",
        "not used: minutes; if one is how far, say e.csv:length=minutes",
    ]


def test_columns_in_words(write) -> None:
    items = read_items(write("t.csv", "id,a,b,c,d,e\n1,1,2,3,4,5\n2,3,4,5,6,7\n"))
    first, second = plan(items).report.sources
    assert described(first) == "distance of 5 columns: a, b, c, d, ..."
    assert described(second) == "paths over nearest neighbours of 5 columns: a, b, c, d, ..."
    assert list(remarks(first)) == []

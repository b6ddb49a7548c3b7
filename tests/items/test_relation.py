"""Two-mode edge lists: items and the things that they belong to."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix import TableFileError
from metricmix.app.ingest import (
    parse_edges,
    parse_source,
    read_items,
    read_new_items,
)
from metricmix.app.ingest.given_files import join, plan
from metricmix.fitting.new_items import FitInputs
from metricmix.storage.models import load, save

THINGS = "source,target\na,T1\nb,T1\nb,T2\nc,T2\nc,T3\nd,T3\na,T2\n"
ITEMS = "id,x\na,1\nb,2\nc,4\nd,5\n"


@pytest.fixture
def items(write):
    return read_items(write("items.csv", ITEMS))


@pytest.fixture
def women(write):
    """The Davis Southern Women graph: 18 women at 14 events."""
    networkx = pytest.importorskip("networkx")
    graph = networkx.davis_southern_women_graph()
    names = [node for node, data in graph.nodes(data=True) if data["bipartite"] == 0]
    write("women.csv", "woman,group\n" + "".join(f"{name},\n" for name in names))
    lines = [f"{name},{event}" for name in names for event in graph[name]]
    edges = write("events.csv", "source,target\n" + "\n".join(lines) + "\n")
    return names, graph, edges


def test_southern_women(women, write) -> None:
    names, graph, edges = women
    items = read_items(edges.parent / "women.csv")
    found = join(items, [parse_edges(str(edges))])
    assert found.stack.names == ("events", "events angle", "events reach", "events walks")
    report = found.report.sources[0]
    assert (report.n_edges, report.n_things, report.n_across) == (89, 14, 89)
    assert report.describe() == f"shared groups in {edges}, 89 memberships in 14 groups"
    assert next(iter(report.remarks())) == (
        "read as memberships: 89 edges join an item with a group that is not in the table, such as "
        "E1, E2, E3; events.csv:graph would drop them"
    )
    expected = [
        [1 - len(set(graph[a]) & set(graph[b])) / len(set(graph[a]) | set(graph[b])) for b in names]
        for a in names
    ]
    np.testing.assert_allclose(found.stack.source("events"), expected, atol=1e-6)
    events = sorted({event for name in names for event in graph[name]})
    H = np.array([[event in graph[name] for event in events] for name in names], dtype=float)
    H *= 1 + np.log((1 + 18) / (1 + H.sum(axis=0)))
    H /= np.linalg.norm(H, axis=1, keepdims=True)
    angles = np.arccos(np.clip(H @ H.T, -1, 1)) / np.pi
    np.testing.assert_allclose(found.stack.source("events angle"), angles, atol=1e-6)
    # The two groups that Davis, Gardner and Gardner saw.
    first, second = [0, 1, 2, 3, 4, 5, 6], [10, 11, 12, 13, 14]
    for name in found.stack.names:
        M = found.stack.source(name)
        inside = M[np.ix_(first, first)].mean() + M[np.ix_(second, second)].mean()
        assert inside < 1.6 * M[np.ix_(first, second)].mean()


def test_projected_walks(items, write) -> None:
    """Strengths are sums over shared things of one over their members."""
    found = plan(items, [parse_edges(str(write("m.csv", THINGS)))])
    source = {one.spec.name: one for one in found.sources}["m walks"]
    edges = dict(
        zip(map(tuple, source.links.edges.ends.tolist()), source.links.edges.weights, strict=True)
    )
    assert edges == pytest.approx(
        {(0, 1): 1 / 2 + 1 / 3, (0, 2): 1 / 3, (1, 2): 1 / 3, (2, 3): 1 / 2}
    )


def test_things_may_come_first(items, write) -> None:
    turned = "\n".join(",".join(reversed(line.split(","))) for line in THINGS.split()[1:])
    for option in ("", ":directed"):
        one = join(items, [parse_edges(f"{write('m.csv', THINGS)}{option}")])
        two = join(items, [parse_edges(f"{write('m2.csv', turned)}{option}")])
        assert not one.stack.directed
        np.testing.assert_array_equal(one.stack.source("m"), two.stack.source("m2"))


def test_mostly_graphs_stay_graphs(items, write) -> None:
    """With fewer edges to things than between items it is a graph; the report says what else."""
    file = write("g.csv", "source,target\na,b\nb,c\nc,d\na,T1\nb,T1\n")
    found = plan(items, [parse_edges(str(file))])
    assert found.sources[[s.name for s in found.report.sources].index("g")].spec.kind == "paths"
    remarks = list(found.report.sources[1].remarks())
    assert remarks[0] == "2 edges dropped: 1 id is not in the table, such as T1"
    assert remarks[1] == "g.csv:membership would compare items by the other ids, too"
    forced = plan(items, [parse_edges(f"{file}:membership")])
    report = next(source for source in forced.report.sources if source.name == "g")
    assert (report.kind, report.n_between, report.n_across) == ("jaccard", 3, 2)
    assert "3 edges join two items: each is a group of the other" in list(report.remarks())


def test_mostly_memberships(items, write) -> None:
    file = write("m.csv", THINGS + "a,d\nT1,T2\n")
    found = plan(items, [parse_edges(str(file))])
    report = next(source for source in found.report.sources if source.name == "m")
    assert (report.n_namesakes, report.n_edges_left_out, report.n_edges) == (1, 1, 8)
    said = "1 group has the id of an item: a group like all of that column"
    assert said in list(report.remarks())
    source = next(one for one in found.sources if one.spec.name == "m")
    assert source.matrix()[0, 3] == 1.0  # {T1, T2, d} and {T3}
    with pytest.raises(TableFileError, match="found none among 7 nodes"):
        plan(items, [parse_edges(f"{write('m.csv', THINGS)}:graph")])


def test_a_column_of_groups_holds_groups_alone(write) -> None:
    """Groups that are called like items, in either column, are no items."""
    items = read_items(write("t.csv", "id,x\n1,5\n2,7\n3,1\n4,2\n5,2\n"))
    pairs = ["1,10", "2,10", "3,11", "4,11", "5,5", "4,5", "1,12"]
    one = join(items, [parse_edges(str(write("m.csv", "\n".join(["source,target", *pairs]))))])
    turned = [",".join(reversed(pair.split(","))) for pair in pairs]
    two = join(items, [parse_edges(str(write("m2.csv", "\n".join(["source,target", *turned]))))])
    shared = one.stack.source("m")
    np.testing.assert_array_equal(shared, two.stack.source("m2"))
    assert shared[3, 4] == 0.5  # {11, 5} and {5}
    assert shared[0, 4] == 1.0


def test_ids_that_are_written_otherwise_are_no_things(write) -> None:
    items = read_items(write("t.csv", "id,x\np1,1\np2,2\np3,3\n"))
    file = write("e.csv", "source,target\np1,P2\np1,P3\np2,P3\np3,P3\n")
    with pytest.raises(TableFileError, match="expected edges between items"):
        plan(items, [parse_edges(str(file))])


def test_nothing_is_shared(items, write) -> None:
    file = write("m.csv", "source,target\na,T1\nb,T2\nc,T3\n")
    with pytest.raises(TableFileError, match="expected edges between items"):
        plan(items, [parse_edges(str(file))])
    with pytest.raises(TableFileError, match="expected groups that two items"):
        plan(items, [parse_source(f"m=membership:{file}")])


def test_repeated_and_weighted_memberships(items, write) -> None:
    """Strengths count for angles, not for what is shared; zero is no membership."""
    text = "source,target,similarity\na,T1,2\na,T1,1\nb,T1,1\nb,T2,4\nc,T2,1\nd,T2,0\n"
    found = join(items, [parse_edges(str(write("m.csv", text)))])
    np.testing.assert_allclose(found.stack.source("m")[1], [0.5, 0, 0.5, 1])
    assert found.stack.source("m angle")[1, 2] < found.stack.source("m angle")[1, 0]
    report = next(source for source in found.report.sources if source.name == "m")
    assert (report.n_edges, report.missing) == (4, ("d",))


def test_new_items(items, write, tmp_path) -> None:
    """A new item with the things of an old one is at its place; unknown things are reported."""
    joined = join(items, [parse_edges(str(write("m.csv", THINGS)))])
    save(FitInputs.of(joined), tmp_path / "items.mm")
    inputs = load(tmp_path / "items.mm")
    new = write("new.csv", "id,x\nn1,2\nn2,3\nn3,1\n")
    edges = write("new-m.csv", "source,target\nn1,T1\nn1,T2\nn2,T3\nn2,T9\nb,T3\n")
    data, (report,) = read_new_items(inputs, new, edges=[parse_edges(f"m={edges}")])
    assert (report.n_edges, report.n_unknown, report.n_others, report.unknown) == (3, 1, 1, ("T9",))
    assert report.n_without == 1
    rows = {source.spec.name: source.cross(data, None) for source in inputs.sources}
    for name in ("m", "m angle"):
        np.testing.assert_allclose(rows[name][0], joined.stack.source(name)[1], atol=1e-6)
    np.testing.assert_allclose(rows["m"][1], [1, 1, 0.5, 0])
    np.testing.assert_allclose(rows["m"][2], 1.0)
    near = rows["m walks"][0]
    assert near[1] == pytest.approx(near.min())
    assert all(np.isfinite(values).all() for values in rows.values())

"""The sources that are made by default."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from metricmix import InputError
from metricmix.app.ingest import (
    infer_columns,
    parse_edges,
    parse_matrix,
    parse_source,
    read_items,
)
from metricmix.app.ingest.edge_list import read_edge_file
from metricmix.app.ingest.given_files import join, plan
from metricmix.dissimilarity.default_specs import (
    MOST_SOURCES,
    NEEDS_METRICS,
    DefaultSource,
    default_specs,
)

TABLE = """id,size,weight,colour,note,code,born
a,1,2,red,a small red thing,A1,2024-01-01
b,2,3,red,a large thing indeed,B2,2024-02-01
c,3,1,blue,not a thing,C3,2024-03-01
"""


@pytest.fixture
def columns(write):
    return infer_columns(read_items(write("items.csv", TABLE)))


def names(found) -> list[str]:
    return [one.spec.name for one in found]


def test_groups_of_columns(columns) -> None:
    found = default_specs(columns, [])
    assert [(s.name, s.kind, s.metric, s.columns) for s in (one.spec for one in found)] == [
        ("numbers", "metric", "euclidean", ("size", "weight")),
        ("raw", "raw", "euclidean", ("size", "weight")),
        ("direction", "direction", "euclidean", ("size", "weight")),
        ("dates", "metric", "euclidean", ("born",)),
        ("colour", "metric", "euclidean", ("colour",)),
        ("note", "metric", "angular", ("note",)),
        ("gower", "gower", "euclidean", ("size", "weight", "born", "colour")),
    ]
    assert all(one.why for one in found)
    assert default_specs((), []) == []
    assert default_specs((), [], alone=True) == []


def views(found) -> list[tuple[str, str, str | None, tuple[str, ...]]]:
    return [(one.spec.name, one.spec.kind, one.spec.view, one.spec.columns) for one in found]


def test_a_table_alone_has_walks_over_near_items(columns) -> None:
    size = "size", "weight"
    assert views(default_specs(columns, [], alone=True))[-2:] == [
        ("near", "near", "columns", ()),
        ("near direction", "near", "direction", size),
    ]
    words = [column for column in columns if column.name in ("note", "code")]
    assert views(default_specs(words, [], alone=True))[-1] == ("near", "near", "topics", ())
    assert "near" not in names(default_specs(columns, []))


def test_a_labelled_table_alone_has_models_of_each_view(columns) -> None:
    alone = [column for column in columns if column.name in ("size", "colour")]
    assert views(default_specs(alone, [], alone=True, supervised=True))[-4:] == [
        ("learned", "learned", None, ()),
        ("forest", "forest", None, ("size", "colour")),
        ("kernel", "kernel", "columns", ()),
        ("spread", "spread_near", "columns", ()),
    ]
    both = default_specs(columns, [], alone=True, supervised=True)
    assert views(both)[-2:] == [
        ("kernel direction", "kernel", "direction", ("size", "weight")),
        ("spread direction", "spread_near", "direction", ("size", "weight")),
    ]
    assert names(default_specs(columns, [], supervised=True))[-1] == "learned"
    assert not any("ridge" in one.why or "targets" in one.why for one in both)
    numeric = default_specs(columns, [], alone=True, supervised=True, numbers=True)
    assert all("ridge" in one.why for one in numeric if one.spec.kind == "kernel")
    assert all("targets" in one.why for one in numeric if one.spec.kind == "spread_near")


@pytest.mark.parametrize(("factor", "alike"), [(1, True), (20, True), (1000, False)])
def test_numbers_of_similar_size_are_compared_as_they_are(columns, factor, alike) -> None:
    """None is a hundred times larger than the median one."""
    size, weight = (column for column in columns if column.name in ("size", "weight"))
    larger = replace(weight, centre=factor * weight.centre, spread=factor * weight.spread)
    found = names(default_specs([size, larger], [], alone=True))
    assert found == ["numbers", *["raw", "direction"] * alike, "near", *["near direction"] * alike]
    assert names(default_specs([size], [])) == ["numbers"]


def test_a_forest_for_plain_tables_of_few_columns(columns) -> None:
    plain = [column for column in columns if column.name in ("size", "weight", "colour")]
    assert "forest" in names(default_specs(plain, [], alone=True, supervised=True))
    assert "forest" not in names(default_specs(plain, [], alone=True))
    assert "forest" not in names(default_specs(plain, [], supervised=True))
    assert "forest" not in names(default_specs(columns, [], alone=True, supervised=True))
    many = [replace(plain[0], name=f"p{k}") for k in range(31)]
    assert "forest" not in names(default_specs(many, [], alone=True, supervised=True))


def test_many_categories_are_one_source(write) -> None:
    header = ",".join(["id", *(f"c{k}" for k in range(7))])
    rows = [",".join([f"i{k}", *"xy"[k % 2] * 7]) for k in range(4)]
    found = infer_columns(read_items(write("many.csv", "\n".join([header, *rows]))))
    assert names(default_specs(found, [])) == ["categories"]


def test_graphs(columns, write) -> None:
    file = str(write("g.csv", "a,b\nb,c\n"))
    there = [(spec := parse_edges(file), read_edge_file(file))]
    assert names(default_specs((), there)) == ["g shared", "g reach", "g walks"]
    assert names(default_specs((), there, n_items=5001)) == ["g shared", "g reach"]
    assert names(default_specs((), there, supervised=True))[-1:] == ["g spread"]
    smoothed = ["g smoothed", "g diffusion", "g joint", "g joint smoothed"]
    assert names(default_specs(columns, there, supervised=True))[-11:] == [
        *("g shared", "g reach", "g walks", *smoothed),
        *("g learned", "g learned neighbours", "g learned diffusion", "g spread"),
    ]
    large = names(default_specs(columns, there, n_items=500_001, supervised=True))
    assert large[-7:] == [
        *("g shared", "g reach", "g smoothed", "g diffusion", "g learned"),
        *("g learned diffusion", "g spread"),
    ]
    directed = [(spec, read_edge_file(file, directed=True))]
    assert names(default_specs((), directed)) == [
        *("g shared", "g shared out", "g shared in", "g reach"),
        *("g walks", "g walks out", "g walks in"),
    ]
    of_labels = names(default_specs(columns, directed, supervised=True))
    assert [name for name in of_labels if name.endswith((" out", " in"))] == [
        f"g {what} {way}"
        for what in ("shared", "walks", "learned neighbours")
        for way in ("out", "in")
    ]


def test_memberships(columns, write) -> None:
    file = str(write("m.csv", "a,x\nb,x\nc,y\n"))
    there = [(parse_edges(f"{file}:membership"), read_edge_file(file))]
    assert names(default_specs((), there, supervised=True)) == [
        *("m angle", "m reach", "m walks", "m learned", "m spread"),
    ]
    found = names(default_specs(columns, there))
    assert found[-2:] == ["m smoothed", "m diffusion"]


def test_shares_of_counts_with_many_labels(columns, write) -> None:
    file = str(write("g.csv", "a,b\nb,c\n"))
    there = [(parse_edges(file), read_edge_file(file))]
    counts = [replace(columns[0], name=f"w{k}", kind="count") for k in range(20)]

    def shares(columns, n_known) -> list[str]:
        found = default_specs(columns, there, n_known=n_known, supervised=True)
        return [name for name in names(found) if "shares" in name]

    assert shares(counts, 50) == [
        *("g shares", "g shares walks", "g learned shares", "g learned shares walks"),
    ]
    assert shares(counts, 49) == []
    assert shares([*counts, columns[1]], 50) == []


def test_at_most_twenty_weights(write) -> None:
    """Directions of graphs and what resembles other sources go first, and are reported."""
    items = read_items(write("items.csv", TABLE))
    edges = [parse_edges(f"{write(f'g{k}.csv', TEXT)}:directed") for k in range(3)]
    found = plan(items, edges)
    assert len(found.sources) == MOST_SOURCES
    left = found.report.left_out
    assert set(left.values()) == {"beyond 20 sources"}
    assert {
        f"g{k} {what}"
        for k in range(3)
        for what in ("shared in", "shared out", "walks in", "walks out", "joint smoothed")
    } <= {*left}
    kept = {source.spec.name for source in found.sources}
    assert {"numbers", "note", *(f"g{k} smoothed" for k in range(3))} <= kept
    ranks = {one.spec.name: one.rank for one in every_default(items, edges)}
    assert {*ranks} == {*left} | kept - {"g0", "g1", "g2"}
    assert max(ranks.get(name, 0) for name in kept) <= min(ranks[name] for name in left)


def every_default(items, edges) -> list[DefaultSource]:
    graphs = [(spec, read_edge_file(spec.file, directed=True)) for spec in edges]
    return default_specs(infer_columns(items), graphs, n_items=len(items))


def test_any_source_can_be_the_only_one(write) -> None:
    """Also one beyond the limit; what is left out by wish is not beyond it."""
    items = read_items(write("items.csv", TABLE))
    edges = [parse_edges(f"{write(f'g{k}.csv', TEXT)}:directed") for k in range(3)]
    beyond = [*plan(items, edges).report.left_out][:2]
    found = plan(items, edges, only=[*beyond, "numbers"])
    assert {source.spec.name for source in found.sources} == {*beyond, "numbers"}
    assert [source.name for source in found.report.sources] == [
        source.spec.name for source in found.sources
    ]
    assert not found.report.left_out
    assert not found.report.directed  # no path length is among them
    assert plan(items, edges, only=["g1"]).report.directed
    every = [source.spec.name for source in plan(items, edges).sources]
    assert len(plan(items, edges, only=[*every, *beyond]).sources) == MOST_SOURCES + 2
    with pytest.raises(InputError, match=f"did you mean '{beyond[0]}'"):
        plan(items, edges, only=[beyond[0].upper()])


TEXT = "source,target\na,b\nb,c\n"


def test_reasons_are_reported(write) -> None:
    items = read_items(write("items.csv", TABLE))
    found = plan(items, [parse_edges(str(write("g.csv", TEXT)))])
    why = {source.name: source.why for source in found.report.sources}
    assert why["g"] == "as stated"
    assert why["gower"] == "columns of different kinds, each counting the same"
    assert "" not in why.values()


def test_supervised_sources_need_labels(write, tmp_path) -> None:
    """With three labels per class on average; they are computed from the labels of each fold."""
    lines = [f"i{k},{k % 2}.{k},{'ab'[k % 2] if k < LABELLED else ''}" for k in range(12)]
    items = read_items(write("items.csv", "\n".join(["id,x,y", *lines])), label="y")
    found = join(items)
    assert found.stack.supervised == ("learned", "forest", "kernel", "spread")
    codes = np.array([k % 2 if k < LABELLED else -1 for k in range(12)])
    turned = np.where(codes >= 0, 1 - codes, -1)
    assert found.stack.relabelled(codes, 2) is found.stack
    other = found.stack.relabelled(np.where(np.arange(12) < 4, turned, codes), 2)
    assert not np.array_equal(other.source("learned"), found.stack.source("learned"))
    np.save(tmp_path / "far.npy", 1.0 - np.eye(12))
    beside = plan(items, [parse_matrix(str(tmp_path / "far.npy"))])  # it may be no metric
    assert beside.report.left_out == {"learned": NEEDS_METRICS}
    assert [source.spec.name for source in beside.sources] == ["numbers", "far"]
    fewer = read_items(write("items.csv", "\n".join(["id,x,y", *lines[:1], *lines[5:]])), label="y")
    assert not join(fewer).stack.supervised


LABELLED = 6


def test_gower(write) -> None:
    """Beside the definition, with a missing number, a missing category and new values."""
    text = "id,x,c\na,0,red\nb,10,blue\nc,,red\nd,5,\ne,2.5,red\n"
    items, spec = read_items(write("t.csv", text)), parse_source("g=gower:x,c")
    source = plan(items, [spec], defaults=False).sources[0]
    span = np.diff(np.quantile([0, 10, 5, 2.5], [0.01, 0.99]))[0]
    x, c = [0, 10, None, 5, 2.5], ["red", "blue", "red", None, "red"]

    def apart(a, b, far) -> float:
        return 0.0 if a is None and b is None else 0.5 if None in (a, b) else far(a, b)

    expected = [
        [
            0.5 * apart(x[i], x[j], lambda a, b: min(1.0, abs(a - b) / span))
            + 0.5 * apart(c[i], c[j], lambda a, b: float(a != b))
            for j in range(5)
        ]
        for i in range(5)
    ]
    M = source.matrix()
    np.testing.assert_allclose(M, expected)
    assert (M[:, :, None] <= M[:, None, :] + M.T[None] + 1e-12).all()

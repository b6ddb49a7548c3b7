"""Items from frames, arrays, graphs and matrices in memory."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import metricmix as mm
from metricmix import InputError
from metricmix.items.columns import infer_columns
from metricmix.items.in_memory import as_items, new_items_like
from metricmix.items.relation import Matrix
from metricmix.items.tables import as_relation

NAN = float("nan")
TOWNS = pd.DataFrame(
    {
        "town": ["Aa", "Bo", "Cu", "Do"],
        "people": [300, 41, 7, 12],
        "land": ["coast", None, "hill", "coast"],
    }
)
ROADS = [("Aa", "Bo"), ("Bo", "Cu"), ("Cu", "Do")]


def column(values: Any, **options: Any) -> Any:
    """Return the values of one column, and the kind that its type states."""
    items = as_items(pd.DataFrame({"x": values}), **options)
    return items.columns["x"], items.dtypes.get("x", "")


# -- columns ------------------------------------------------------------------------------------

NUMBERS = {
    "ints": (np.array([1, 2, 3]), [1, 2, 3]),
    "small ints": (np.array([1, 2, 3], dtype=np.uint8), [1, 2, 3]),
    "floats": ([0.5, NAN, 1e-300], [0.5, NAN, 1e-300]),
    "float32": (np.array([0.5, 2, 3], dtype=np.float32), [0.5, 2, 3]),
    "nullable ints": (pd.array([1, None, 3], dtype="Int64"), [1, NAN, 3]),
    "nullable floats": (pd.array([1.5, None, 3], dtype="Float64"), [1.5, NAN, 3]),
    "sparse": (pd.arrays.SparseArray([0.0, 0.0, 2.0]), [0, 0, 2]),
    "Decimal": ([Decimal("1.5"), None, Decimal(3)], [1.5, NAN, 3]),
    "objects": (pd.Series([1, None, 2.5], dtype=object), [1, NAN, 2.5]),
    "NA among objects": (pd.Series([1, pd.NA, 2], dtype=object), [1, NAN, 2]),
    "durations": (pd.to_timedelta(["1 day", None, "36h"]), [1, NAN, 1.5]),
    "duration objects": (
        pd.Series([timedelta(1), None, np.timedelta64(36, "h")], dtype=object),
        [1, NAN, 1.5],
    ),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_columns_of_numbers(case) -> None:
    given, expected = NUMBERS[case]
    values, kind = column(given)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, expected)
    assert kind == ""


DATES = {
    "datetimes": pd.to_datetime(["1970-01-02 00:00", None, "1970-01-03 12:00"]),
    "seconds": pd.to_datetime(["1970-01-02 00:00", None, "1970-01-03 12:00"]).astype(
        "datetime64[s]"
    ),
    "zone": pd.to_datetime(
        ["1970-01-02 01:00+01:00", None, "1970-01-03 13:00+01:00"], utc=True
    ).tz_convert("Europe/Paris"),
    "objects": pd.Series(
        [date(1970, 1, 2), None, datetime(1970, 1, 3, 12)],
        dtype=object,
    ),
    "objects, NaN": pd.Series(
        [np.datetime64("1970-01-02"), NAN, np.datetime64("1970-01-03T12")], dtype=object
    ),
    "objects, NaT": pd.Series(
        [pd.Timestamp("1970-01-02"), pd.NaT, pd.Timestamp("1970-01-03 12:00")], dtype=object
    ),
    "objects with a zone": pd.Series(
        [
            datetime(1970, 1, 2, tzinfo=UTC),
            pd.NA,
            pd.Timestamp("1970-01-03 13:00", tz="Europe/Paris"),
        ],
        dtype=object,
    ),
}


@pytest.mark.parametrize("case", DATES)
def test_columns_of_dates(case) -> None:
    values, kind = column(DATES[case])
    assert kind == "date"
    np.testing.assert_array_equal(values, [1, NAN, 2.5])


TEXTS = {
    "texts": (["red", None, " blue "], ("red", "", "blue"), ""),
    "string dtype": (pd.array(["red", None, "blue"], dtype="string"), ("red", "", "blue"), ""),
    "truth values": ([True, False, True], ("True", "False", "True"), ""),
    "nullable truth": (pd.array([True, None, False], dtype="boolean"), ("True", "", "False"), ""),
    "numpy truth": (pd.Series([np.True_, None, np.False_]), ("True", "", "False"), ""),
    "category": (pd.Categorical(["b", None, "a"]), ("b", "", "a"), "category"),
    "category of numbers": (pd.Categorical([2, 1, None]), ("2", "1", ""), "category"),
    "bytes": ([b"red", b"blue", None], ("red", "blue", ""), ""),
    "mixed": (pd.Series([1, "two", 2.0, None], dtype=object), ("1", "two", "2", ""), ""),
    "nothing": ([None, None], ("", ""), ""),
}


@pytest.mark.parametrize("case", TEXTS)
def test_columns_of_texts(case) -> None:
    given, expected, kind = TEXTS[case]
    assert column(given) == (expected, kind)


def test_texts_are_typed_as_those_of_files() -> None:
    frame = pd.DataFrame({"x": ["1,5 kg", "2,5 kg", "3 kg"], "born": ["2024-05-31"] * 2 + ["NA"]})
    frame.loc[1, "born"] = "2023-01-31"
    kinds = {found.name: found.kind for found in infer_columns(as_items(frame))}
    assert kinds == {"x": "number", "born": "date"}


def test_a_polars_frame() -> None:
    polars = pytest.importorskip("polars")
    items = as_items(polars.from_pandas(TOWNS), label="land", id="town")
    assert items.ids == ("Aa", "Bo", "Cu", "Do")
    assert items.labels == ("coast", "", "hill", "coast")
    assert list(items.columns) == ["people"]


def test_an_arrow_table() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    items = as_items(pyarrow.Table.from_pandas(TOWNS), label="land", id="town")
    assert items.labels == ("coast", "", "hill", "coast")


def test_other_tables() -> None:
    X = np.arange(6.0).reshape(3, 2)
    for given in (X, X.tolist(), sparse.csr_array(X), np.ma.masked_less(X, -1), pd.DataFrame(X)):
        items = as_items(given)
        assert items.ids == ("0", "1", "2")
        np.testing.assert_array_equal(items.columns["1"], [1, 3, 5])
    masked = as_items(np.ma.masked_equal(X, 3)).columns["1"]
    np.testing.assert_array_equal(masked, [1, NAN, 5])
    images = as_items(np.arange(24).reshape(3, 2, 4))
    assert len(images.columns) == 8
    mixed = as_items([["a", 1], ["b", 2.5]])
    assert mixed.columns["0"] == ("a", "b")
    np.testing.assert_array_equal(mixed.columns["1"], [1, 2.5])
    for given in ({"x": [1, 2], "y": ["a", None]}, [{"x": 1, "y": "a"}, {"x": 2}]):
        items = as_items(given)
        np.testing.assert_array_equal(items.columns["x"], [1, 2])
        assert items.columns["y"] == ("a", "")
    assert as_items(items) is items


# -- ids -----------------------------------------------------------------------------------------


def test_ids() -> None:
    by_row = as_items(TOWNS[["people", "town"]])
    assert (by_row.ids, by_row.id_column) == (("0", "1", "2", "3"), None)
    assert "town" in by_row.columns
    by_index = as_items(TOWNS.set_index("town"))
    assert (by_index.ids, by_index.id_column) == (("Aa", "Bo", "Cu", "Do"), "")
    stated = as_items(TOWNS, id="town")
    assert (stated.ids, stated.id_column) == (("Aa", "Bo", "Cu", "Do"), "town")
    named = as_items(TOWNS, edges={"roads": ROADS})
    assert (named.ids, named.id_column) == (("Aa", "Bo", "Cu", "Do"), "town")
    assert as_items(TOWNS.set_axis([2.0, 3.0, 5.0, 7.0])).ids == ("2", "3", "5", "7")


def test_ids_of_rows_that_were_chosen_from_a_frame() -> None:
    """Their index still numbers the rows of that frame: a column of ids comes first."""
    some = TOWNS[TOWNS["people"] > 10]
    shuffled = TOWNS.sample(frac=1.0, random_state=0)
    assert as_items(some).ids == ("Aa", "Bo", "Do")
    assert as_items(shuffled).ids == tuple(shuffled["town"])
    assert as_items(some.drop(columns="town")).ids == ("0", "1", "3")
    links = [(0, 3), (1, 3)]
    assert as_items(some, edges=links).ids == ("0", "1", "3")
    named = some.set_index(pd.Index([7, 8, 9], name="number"))
    assert as_items(named).ids == ("7", "8", "9")


def test_numbers_that_happen_to_be_row_numbers_are_not_ids() -> None:
    frame = pd.DataFrame({"x": [0.5, 1, 2], "rank": [2, 0, 1]})
    edges = [(0, 1), (1, 2)]
    assert as_items(frame, edges=edges).id_column is None
    first = as_items(frame[["rank", "x"]], edges=edges)
    assert (first.ids, first.id_column) == (("2", "0", "1"), "rank")
    assert as_items(frame.assign(rank=[7, 9, 8]), edges=[(7, 9)]).id_column == "rank"


def test_a_column_with_the_ids_of_a_matrix_is_found() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0], "key": [70, 90, 80]})
    ids = [90, 80, 70, 60]
    matrix = pd.DataFrame(1.0 - np.eye(4), ids, ids)
    items = as_items(frame, matrices={"heard": matrix})
    assert (items.ids, items.id_column) == (("70", "90", "80"), "key")
    assert as_items(frame, matrices={"heard": 1.0 - np.eye(3)}).id_column is None


def test_relations_by_row_number_where_items_have_names() -> None:
    items = as_items(TOWNS.set_index("town"), edges=[(0, 1), (2, 3)])
    assert items.relations["edges"].ids == ("Aa", "Bo", "Cu", "Do")


# -- labels and targets --------------------------------------------------------------------------

UNLABELLED = {
    "None": ["a", None, "b", "a"],
    "NaN": ["a", NAN, "b", "a"],
    "NA": ["a", pd.NA, "b", "a"],
    "-1": ["a", -1, "b", "a"],
    "text -1": ["a", "-1", "b", "a"],
    "empty": ["a", "", "b", "a"],
    "blank": ["a", " ", "b", "a"],
    "NA as text": ["a", "NA", "b", "a"],
    "?": ["a", "?", "b", "a"],
    "array": np.array(["a", None, "b", "a"], dtype=object),
    "category": pd.Categorical(["a", None, "b", "a"]),
    "string": pd.array(["a", None, "b", "a"], dtype="string"),
}


@pytest.mark.parametrize("case", UNLABELLED)
def test_unlabelled_items(case) -> None:
    labels = UNLABELLED[case]
    assert as_items(TOWNS, labels).labels == ("a", "", "b", "a")
    assert as_items(TOWNS.assign(land=labels), "land").labels == ("a", "", "b", "a")


@pytest.mark.parametrize(
    "labels",
    [
        [0, -1, 1, 0],
        np.array([0.0, NAN, 1.0, 0.0]),
        pd.Series([0, None, 1, 0]),
        pd.array([0, None, 1, 0], dtype="Int8"),
        np.ma.masked_equal([0, 9, 1, 0], 9),
    ],
)
def test_numbered_classes(labels) -> None:
    assert as_items(TOWNS, labels).labels == ("0", "", "1", "0")


def test_labels_by_the_number_of_a_column() -> None:
    items = as_items(np.array([[0.5, 0], [1.5, 1], [2.5, 1]]), label=1)
    assert items.labels == ("0", "1", "1")
    assert list(items.columns) == ["0"]


@pytest.mark.parametrize(
    "target",
    [
        [1.5, None, 2, 3],
        np.array([1.5, NAN, 2, 3]),
        pd.array([1.5, None, 2, 3], dtype="Float64"),
        [Decimal("1.5"), None, Decimal(2), Decimal(3)],
        ["1.5", "", "2", "3.0"],
        ["1,5 kg", "NA", "2 kg", "3 kg"],
    ],
)
def test_targets(target) -> None:
    for items in (
        as_items(TOWNS, target=target),
        as_items(TOWNS.assign(price=target), target="price"),
    ):
        assert items.labels is None
        np.testing.assert_array_equal(items.targets, [1.5, NAN, 2, 3])
        assert "price" not in items.columns


# -- relations -----------------------------------------------------------------------------------


def named_edges(relation: Any) -> list[tuple[str, str]]:
    return [(relation.ids[u], relation.ids[v]) for u, v in relation.ends.tolist()]


def test_networkx() -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph(ROADS)
    graph.add_node("Xx")
    relation = as_relation(graph)
    assert named_edges(relation) == ROADS
    assert (relation.n_nodes, relation.weights, relation.directed) == (5, None, False)
    for edge, length in zip(graph.edges, (1.0, 2.0, 5.0), strict=True):
        graph.edges[edge]["length"] = length
    assert as_relation(graph).weight == "length"
    assert as_relation(graph).weights.tolist() == [1, 2, 5]
    assert as_relation(graph, weight="ignore").weights is None
    arrows = networkx.DiGraph([("Bo", "Aa"), ("Aa", "Bo")])
    assert named_edges(as_relation(arrows, directed=True)) == [("Bo", "Aa"), ("Aa", "Bo")]
    assert as_relation(arrows, directed=True).directed
    assert named_edges(as_relation(networkx.MultiGraph([*ROADS, ROADS[0]]))).count(ROADS[0]) == 2
    numbers = as_items(TOWNS, edges=networkx.path_graph(4))
    assert numbers.relations["edges"].ids == numbers.ids == ("Aa", "Bo", "Cu", "Do")


def test_asymmetric_matrices_have_directions() -> None:
    """Sparse and dense ones, also as lists; not edges, however many there are."""
    arrows = np.triu(np.ones((4, 4)), 1)
    for form in (np.asarray, sparse.csr_array, np.ndarray.tolist, lambda A: A > 0):
        assert as_relation(form(arrows)).directed
        assert not as_relation(form(arrows + arrows.T)).directed
    assert not as_relation(np.arange(6).reshape(3, 2)).directed
    assert not as_relation([(0, 1, 2.0), (1, 2, 1.0), (2, 0, 1.0)], weight="length").directed
    assert not as_relation(sparse.csr_array(np.triu(np.ones((4, 6))))).directed


def test_igraph() -> None:
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph([(0, 1), (1, 2)], n=4)
    assert (as_relation(graph).ids, as_relation(graph).n_nodes) == (None, 4)
    graph.vs["name"] = ["Bo", "Aa", "Cu", "Xx"]
    graph.es["similarity"] = [0.5, 2]
    relation = as_relation(graph)
    assert named_edges(relation) == [("Bo", "Aa"), ("Aa", "Cu")]
    assert (relation.weight, relation.weights.tolist()) == ("similarity", [0.5, 2])


def test_matrices_of_edges() -> None:
    links = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    for given in (sparse.csr_matrix(links), sparse.coo_array(links), links, links.tolist()):
        relation = as_relation(given)
        assert (relation.ids, relation.n_nodes, len(relation.ends)) == (None, 4, 4)
        assert relation.weights is None
    assert as_relation(sparse.csr_array(2.0 * links), weight="length").weights.tolist() == [2.0] * 4


def test_matrices_of_memberships() -> None:
    table = np.array([[1, 0], [1, 1], [0, 1], [0, 3]])
    index = ["3", "1", "0", "7"]  # some of them are row numbers of others
    for given in (sparse.csr_array(table), sparse.csr_array(np.pad(table, ((0, 0), (0, 4))))):
        items = as_items(TOWNS.set_axis(index), edges=given)
        relation = items.relations["edges"]
        assert named_edges(relation)[:2] == [("3", "group 0"), ("1", "group 0")]
        assert relation.weight == "similarity"
    truth = as_relation(table > 0)
    assert (truth.n_nodes, len(truth.ends), truth.weights) == (6, 5, None)
    with pytest.raises(InputError, match=r"edges: expected 4 rows, one per item, got 3"):
        as_items(TOWNS, edges=sparse.csr_array(table[:3]))


@pytest.mark.parametrize(
    ("table", "weight"),
    [
        (pd.DataFrame(ROADS, columns=["source", "target"]), None),
        (pd.DataFrame(ROADS, columns=["From", "TO"]), None),
        (pd.DataFrame(ROADS, columns=["a", "b"]), None),
        (pd.DataFrame(ROADS, columns=["source", "target"]).assign(weight=1.0), None),
        (pd.DataFrame(ROADS, columns=["source", "target"]).assign(length=[1, 2, 3]), "length"),
        (pd.DataFrame(ROADS, columns=["a", "b"]).assign(similarity=[1, 2, 3]), "similarity"),
        (pd.DataFrame(ROADS, columns=["source", "target"]).assign(since=1999, by="x"), None),
        (ROADS, None),
        (np.array(ROADS), None),
        ([(*road, 1) for road in ROADS], None),
    ],
)
def test_edge_tables(table, weight) -> None:
    relation = as_relation(table)
    assert named_edges(relation) == ROADS
    assert relation.weight == weight
    assert (relation.weights is None) == (weight is None)


def test_frames_of_adjacency() -> None:
    """A frame with the same ids in index and columns is a matrix, whatever their order."""
    names = ["Do", "Aa", "Bo", "Cu"]
    values = np.array([[0, 0, 0, 0], [0, 0, 2, 0], [0, 2, 0, 1], [0, 0, 1, 0]])
    frame = pd.DataFrame(values, names, names)
    for given in (frame, frame[sorted(names)], frame.astype(float)):
        relation = as_relation(given, weight="length")
        assert relation.ids == tuple(names)
        assert named_edges(relation) == [("Aa", "Bo"), ("Bo", "Aa"), ("Bo", "Cu"), ("Cu", "Bo")]
        assert relation.weights.tolist() == [2, 2, 1, 1]
        assert not relation.directed
    assert named_edges(as_relation(frame > 1)) == [("Aa", "Bo"), ("Bo", "Aa")]
    assert as_relation(pd.DataFrame(np.triu(values > 0), names, names)).directed
    plain = as_relation(pd.DataFrame(values > 0))
    assert (plain.ids, len(plain.ends)) == (None, 4)
    pairs = as_relation(pd.DataFrame([(0, 1), (5, 7)]))  # as many edges as columns
    assert named_edges(pairs) == [("0", "1"), ("5", "7")]
    with pytest.raises(InputError, match="columns source and target"):
        as_relation(frame.set_axis(list("wxyz"), axis=0))
    items = as_items(TOWNS, edges=frame > 0)
    assert (items.id_column, items.ids) == ("town", ("Aa", "Bo", "Cu", "Do"))


def test_dense_and_sparse_matrices_are_directed_alike() -> None:
    one_way = np.triu(np.ones((5, 5)), 1)
    for values, directed in ((one_way, True), (one_way + one_way.T, False)):
        for given in (values, values.tolist(), values > 0, sparse.csr_array(values)):
            assert as_relation(given).directed is directed


def test_weights_of_pairs() -> None:
    pairs = [(*road, k) for k, road in enumerate(ROADS, 1)]
    assert as_relation(pairs, weight="length").weights.tolist() == [1, 2, 3]
    assert as_relation(pairs, weight="similarity").weight == "similarity"
    assert as_relation(pairs, weight="ignore").weights is None


def test_several_relations() -> None:
    items = as_items(TOWNS, edges={"roads": ROADS, "rails": as_relation([("Aa", "Do")])})
    assert list(items.relations) == ["roads", "rails"]
    assert [str(one.source) for one in items.relations.values()] == ["roads", "rails"]


def small(n: int = 24) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """Two rings of items, and a table that tells them apart a little."""
    rng = np.random.default_rng(3)
    kind = np.arange(n) % 2
    frame = pd.DataFrame(
        {
            "x": kind + rng.normal(size=n),
            "kind": np.where(np.arange(n) < n // 2, np.array(["a", "b"])[kind], ""),
        },
        index=[f"i{k}" for k in range(n)],
    )
    return frame, [(f"i{k}", f"i{(k + 2) % n}") for k in range(n)]


def test_what_does_not_match_is_dropped_and_reported() -> None:
    frame, ring = small()
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph([edge for edge in ring if "i5" not in edge])
    graph.add_edges_from([("i5", "i5"), ("i0", "elsewhere")])
    graph.add_nodes_from(["i5", "alone"])
    with pytest.warns(UserWarning, match="^ring: 1 edge dropped: 2 ids are not in the table"):
        result = mm.fit(frame, "kind", edges={"ring": graph}, evaluate=False)
    report = next(one for one in result.outcome.gathered.report.sources if one.name == "ring")
    assert (report.n_foreign, set(report.foreign)) == (2, {"elsewhere", "alone"})
    assert (report.missing, report.n_loops, report.n_edges_left_out) == (("i5",), 1, 1)


# -- matrices ------------------------------------------------------------------------------------


def test_matrices() -> None:
    values = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    assert as_items(TOWNS, matrices=values).matrices["matrices"].items is None
    items = as_items(TOWNS, id="town", matrices={"far": values.tolist(), "near": Matrix(values)})
    assert list(items.matrices) == ["far", "near"]
    assert as_items(TOWNS, matrices=pd.DataFrame(values)).matrices["matrices"].items is None
    names = ["Aa", "Bo", "Cu", "Do"]
    frame = pd.DataFrame(values, index=names, columns=names)
    mixed = frame.loc[["Do", "Aa", "Cu", "Bo"], ["Cu", "Bo", "Do", "Aa"]]
    found = as_items(TOWNS, id="town", matrices=mixed).matrices["matrices"]
    assert found.items == ("Do", "Aa", "Cu", "Bo")
    place = [names.index(name) for name in found.items]
    np.testing.assert_array_equal(found.values, values[np.ix_(place, place)])


# -- new items -----------------------------------------------------------------------------------


def test_new_items() -> None:
    fitted = as_items(TOWNS, "land", id="town")
    new = pd.DataFrame({"town": ["Ek"], "people": [3], "land": ["hill"]})
    items, index = new_items_like(fitted, new, {"roads": [("Ek", "Aa")]})
    assert (items.ids, list(items.columns), list(index)) == (("Ek",), ["people"], ["Ek"])
    numbered, _ = new_items_like(as_items(TOWNS[["people", "land"]], "land"), new)
    assert numbered.ids == ("4",)
    with pytest.raises(InputError, match=r"new: expected a column 'town' of ids, found none"):
        new_items_like(fitted, new[["people"]])


# -- wrong input ---------------------------------------------------------------------------------

WRONG = {
    "ragged rows": (
        {"data": [[1, 2], [3]]},
        "data: expected rows of equal length, found ragged ones",
    ),
    "ragged columns": (
        {"data": {"x": [1, 2], "y": [1]}},
        "data: expected columns of equal length, found ragged ones",
    ),
    "one axis": ({"data": [1, 2, 3]}, "data: expected a table, a row per item, got shape (3,)"),
    "infinity": (
        {"data": {"x": [1, 2], "y": [0, -np.inf]}},
        "data: expected finite numbers, found infinity in row 1 of 'y'",
    ),
    "infinity among objects": (
        {"data": pd.DataFrame({"x": [None, float("inf")]}, dtype=object)},
        "data: expected finite numbers, found infinity in row 1 of 'x'",
    ),
    "complex": (
        {"data": {"x": [1, 2], "z": [1j, 2]}},
        "data: expected real numbers in column 'z', found complex ones",
    ),
    "lists": (
        {"data": {"x": [1, 2], "tags": [None, ["a", "b"]]}},
        "data: expected numbers, texts or dates in column 'tags', got list in row 1",
    ),
    "the same column": (
        {"data": pd.DataFrame([[1, 2], [3, 4]], columns=["x", "x"])},
        "data: expected every column once, got 'x' twice",
    ),
    "one item": ({"data": [[1, 2]]}, "data: expected at least two items, got 1"),
    "the same id": (
        {"data": TOWNS.assign(town="Aa"), "id": "town"},
        "id: expected every id of 'town' once, got 'Aa' twice",
    ),
    "the same index": (
        {"data": TOWNS.set_axis(list("abca"))},
        "id: expected every id of 'index' once, got 'a' twice",
    ),
    "no id": (
        {"data": TOWNS, "id": "land"},
        "id: expected an id in every row of 'land', found none in row 1",
    ),
    "unknown id column": (
        {"data": TOWNS, "id": "twon"},
        "id: expected one of 'town', 'people', 'land', got 'twon'; did you mean 'town'?",
    ),
    "unknown label column": (
        {"data": TOWNS, "label": "Land"},
        "label: expected one of 'town', 'people', 'land', got 'Land'; did you mean 'land'?",
    ),
    "unknown target column": (
        {"data": TOWNS, "target": "price"},
        "target: expected one of 'town', 'people', 'land', got 'price'",
    ),
    "label and target": (
        {"data": TOWNS, "label": "land", "target": "people"},
        "label, target: expected one of them, found both",
    ),
    "too few labels": (
        {"data": TOWNS, "label": ["a", "b"]},
        "label: expected 4 labels, one per item, got 2",
    ),
    "too few targets": (
        {"data": TOWNS, "target": [1, 2]},
        "target: expected 4 targets, one per item, got 2",
    ),
    "labels in another order": (
        {"data": TOWNS, "label": pd.Series(list("abab"), index=[3, 2, 1, 0])},
        "label: expected labels in the order of X, found its index to hold the same ids in "
        "another order; pass y.loc[ids]",
    ),
    "texts as targets": (
        {"data": TOWNS, "target": "land"},
        "target: expected numbers, got 'coast' in row 0; classes are passed as label",
    ),
    "weights of unclear meaning": (
        {"data": TOWNS, "edges": {"roads": [("Aa", "Bo", 2.5)]}},
        "edges['roads']: expected to know what weights mean, got 2.5 among them; pass "
        "mm.as_relation(graph, weight='length'), 'similarity' or 'ignore'",
    ),
    "negative weights": (
        {"data": TOWNS, "edges": pd.DataFrame({"from": ["Aa"], "to": ["Bo"], "length": [-2]})},
        "edges['edges']: expected finite weights >= 0 for all edges, got -2",
    ),
    "no graph": (
        {"data": TOWNS, "edges": 5},
        "edges['edges']: expected a graph, a matrix, an edge table or pairs of ids, got int of "
        "shape ()",
    ),
    "an end is missing": (
        {"data": TOWNS, "edges": [("Aa", None)]},
        "edges['edges']: expected two ids in every edge, found ['Aa', None]",
    ),
    "columns of edges": (
        {"data": TOWNS, "edges": pd.DataFrame([list("abcd")])},
        "edges['edges']: expected columns source and target, or two or three columns, got '0', "
        "'1', '2', '3'",
    ),
    "more nodes than items": (
        {"data": TOWNS, "edges": {"roads": sparse.eye_array(5)}},
        "roads: expected 4 nodes, one per item, got 5",
    ),
    "no square matrix": (
        {"data": TOWNS, "matrices": {"far": np.zeros((4, 3))}},
        "matrices['far']: expected a square matrix, got shape (4, 3)",
    ),
    "ids of a matrix": (
        {"data": TOWNS, "matrices": pd.DataFrame([[0, 1], [1, 0]], list("ab"), list("ac"))},
        "matrices['matrices']: expected the same ids in the index and the columns of a frame, "
        "each once, got 'b' in one of them only, or twice",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input(case) -> None:
    arguments, sentence = WRONG[case]
    with pytest.raises(InputError) as caught:
        as_items(**arguments)
    assert str(caught.value) == sentence


def test_the_first_column_names_the_items_if_it_can() -> None:
    shops = pd.DataFrame({"shop": ["s1", "s2", "s3"], "size": [1.0, 2.0, 4.0]})
    assert as_items(shops).ids == ("s1", "s2", "s3")
    assert as_items(shops.rename(columns={"shop": "ID"}).assign(ID=[7, 8, 9])).ids == (
        "7",
        "8",
        "9",
    )
    assert as_items(shops.assign(shop=["s1", "s2", "s2"])).ids == ("0", "1", "2")  # a category
    said = shops.assign(shop=["a red shoe", "two blue hats", "one coat"])
    assert list(as_items(said).columns) == ["shop", "size"]  # texts
    assert as_items(shops[["size", "shop"]]).ids == ("0", "1", "2")
    with pytest.raises(InputError, match="'s2' twice"):
        as_items(shops.assign(shop=["s1", "s2", "s2"]).rename(columns={"shop": "id"}))

"""What `sources_for` takes, what it refuses in one sentence, and what it warns of."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import metricmix as mm

N = 24
X = np.random.default_rng(0).normal(size=(N, 3)) + (np.arange(N) % 2)[:, None]
IDS = [f"item {k}" for k in range(N)]
FRAME = pd.DataFrame(X, index=IDS, columns=list("abc"))
EDGES = [(k, k + 1) for k in range(N - 1)]
FAR = 1.0 - np.eye(N)
LABELS = np.where(np.arange(N) < 16, np.arange(N) % 2, -1)
NO_TABLE = (
    "X: expected a table, or None with a graph or matrices and nodes, the ids or their number, "
    "got None"
)


def assert_same(one: Any, other: Any, **how: Any) -> None:
    assert one.names == other.names
    for name in one.names:
        np.testing.assert_allclose(one.source(name), other.source(name), err_msg=name, **how)


# -- what is taken ---------------------------------------------------------------------------------


def test_images_are_rows_of_pixels() -> None:
    images = np.random.default_rng(1).random((N, 4, 5))
    found = mm.sources_for(images, labels=LABELS)
    assert_same(found, mm.sources_for(images.reshape(N, 20), labels=LABELS))
    assert {"raw", "direction", "near direction"} <= set(found.names)


def test_dates_are_days() -> None:
    """Of any precision; a missing one lies at the median."""
    days = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(N) ** 2 % 17, "D"))
    days[3] = pd.NaT
    numbers = np.arange(N) ** 2 % 17 + 0.0
    numbers[3] = np.median(np.delete(numbers, 3))
    dates = mm.sources_for(pd.DataFrame({"day": days}))
    plain = mm.sources_for(pd.DataFrame({"day": np.where(np.arange(N) == 3, np.nan, numbers)}))
    assert dates.names == ("dates", "near")
    np.testing.assert_allclose(dates.source("dates"), plain.source("numbers"), atol=1e-12)
    apart = np.abs(numbers[:, None] - numbers)
    assert np.corrcoef(dates.source("dates").ravel(), apart.ravel())[0, 1] > 0.99
    texts = mm.sources_for(pd.DataFrame({"day": days.dt.strftime("%Y-%m-%d")}))
    assert_same(texts, dates, atol=1e-12)


def test_tables_of_other_forms() -> None:
    of_frame = mm.sources_for(pd.DataFrame(X, columns=list("abc")), labels=LABELS)
    for form in (X, X.tolist(), csr_array(X), dict(zip("abc", X.T, strict=True))):
        assert_same(mm.sources_for(form, labels=LABELS), of_frame)


def test_constant_columns_change_nothing() -> None:
    wider = FRAME.assign(one=1.0, word="same")
    assert_same(mm.sources_for(wider, EDGES_BY_ID), mm.sources_for(FRAME, EDGES_BY_ID))


EDGES_BY_ID = [(IDS[a], IDS[b]) for a, b in EDGES]


def test_several_graphs_memberships_and_matrices() -> None:
    ring = [(k, (k + 5) % N) for k in range(N)]
    clubs = [(k, f"club {k % 5}") for k in range(N)]
    graphs = {"line": EDGES, "ring": nx.Graph(ring), "clubs": clubs}
    stack = mm.sources_for(X, graphs, matrices={"far": FAR})
    assert {"numbers", "line", "ring", "clubs", "far", "ring reach", "clubs angle"} <= {
        *stack.names
    }
    assert stack.n_sources == 20
    for name, graph in graphs.items():
        alone = mm.sources_for(X, {name: graph})
        shared = [one for one in alone.names if one in stack.names]
        assert any(one.startswith(f"{name} ") for one in shared)
        for one in shared:
            np.testing.assert_array_equal(stack.source(one), alone.source(one))
    assert mm.sources_for(X, matrices=FAR).names[-1] == "matrices"
    same = pd.DataFrame(FAR, index=IDS, columns=IDS).sample(frac=1, random_state=0)
    np.testing.assert_array_equal(
        mm.sources_for(FRAME, matrices={"far": same}).source("far"), stack.source("far")
    )


def test_one_graph_is_called_links() -> None:
    assert_same(mm.sources_for(X, EDGES), mm.sources_for(X, {"links": EDGES}))


def test_weights_of_single_graphs_and_of_relations() -> None:
    weighted = [(a, b, 1.0 + a) for a, b in EDGES]
    one = mm.sources_for(X, weighted, weight="length")
    relation = mm.as_relation(weighted, weight="length")
    assert_same(one, mm.sources_for(X, {"links": relation}))
    assert one.source("links")[0, 2] == pytest.approx(1.5 * one.source("links")[1, 2])


def test_rows_are_computed_as_they_are_needed() -> None:
    dense, rows = (mm.sources_for(X, EDGES, labels=LABELS, dense=how) for how in (True, False))
    assert_same(dense, rows, rtol=1e-5, atol=1e-5)  # matrices are in single precision
    assert mm.sources_for(X, EDGES).block is not None
    assert mm.sources_for(X, EDGES, labels=LABELS).block is None


def test_smoothed_attributes_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    double = mm.sources_for(X, EDGES, labels=LABELS)
    monkeypatch.setattr("metricmix.dissimilarity.smoothing.LARGE", 0)
    assert_same(mm.sources_for(X, EDGES, labels=LABELS), double, rtol=1e-2, atol=5e-3)


# -- order, and names of classes -------------------------------------------------------------------

ORDER = np.random.default_rng(3).permutation(N)


@pytest.mark.parametrize("graph", [None, EDGES_BY_ID])
def test_the_order_of_rows_with_ids_does_not_matter(graph: Any) -> None:
    one = mm.sources_for(FRAME, graph, labels=LABELS)
    other = mm.sources_for(FRAME.iloc[ORDER], graph, labels=LABELS[ORDER])
    assert one.names == other.names
    for name in one.names:
        permuted = one.source(name)[np.ix_(ORDER, ORDER)]
        np.testing.assert_allclose(other.source(name), permuted, atol=1e-7, err_msg=name)


def test_the_order_of_numbered_rows_does_not_matter_to_a_model() -> None:
    """Folds of models are dealt by ids, and row numbers change; a fit deals them by contents."""
    one = mm.sources_for(X, labels=LABELS)
    other = mm.sources_for(X[ORDER], labels=LABELS[ORDER])
    for name in set(one.names) - set(one.supervised):
        permuted = one.source(name)[np.ix_(ORDER, ORDER)]
        np.testing.assert_allclose(other.source(name), permuted, atol=1e-7, err_msg=name)
    first = mm.MetricMixtureClassifier(one).fit(np.arange(N), LABELS)
    second = mm.MetricMixtureClassifier(other).fit(np.arange(N), LABELS[ORDER])
    np.testing.assert_allclose(second.weights_, first.weights_, atol=1e-3)
    np.testing.assert_array_equal(second.transduction_, first.transduction_[ORDER])


def test_the_names_of_classes_do_not_matter() -> None:
    one = mm.sources_for(X, EDGES, labels=LABELS)
    for names in ([7, 2], ["b", "a"], [True, False]):
        renamed = [None if label < 0 else names[label] for label in LABELS]
        assert_same(mm.sources_for(X, EDGES, labels=renamed), one, atol=1e-7)


# -- what is refused, and warned of ----------------------------------------------------------------

EXTENDED = [*EDGES_BY_ID, (IDS[0], "unknown")]
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "one row": ({"X": X[:1]}, "X: expected at least two items, got 1"),
    "constant": (
        {"X": np.ones((5, 2))},
        "X: expected a column with at least two different values, found none; add one, or pass a "
        "graph or matrices",
    ),
    "infinite": (
        {"X": np.full((4, 2), np.inf)},
        "X: expected finite numbers, found infinity in row 0 of '0'",
    ),
    "objects": (
        {"X": np.array([[{}]] * 4)},
        "X: expected numbers, texts or dates in column '0', got dict in row 0",
    ),
    "ragged": ({"X": [[1, 2], [3]]}, "X: expected rows of equal length, found ragged ones"),
    "no table": ({"X": None}, NO_TABLE),
    "no table but labels": (
        {"X": None, "labels": LABELS},
        NO_TABLE,
    ),
    "labels and target": (
        {"labels": LABELS, "target": X[:, 0]},
        "labels, target: expected one of them, found both",
    ),
    "few labels": ({"labels": LABELS[:3]}, "labels: expected 24 labels, one per item, got 3"),
    "few targets": ({"target": X[:3, 0]}, "target: expected 24 targets, one per item, got 3"),
    "labels in another order": (
        {"X": FRAME, "labels": pd.Series(LABELS, index=IDS[::-1])},
        "labels: expected labels in the order of X, found its index to hold the same ids in "
        "another order; pass labels.loc[X.index]",
    ),
    "targets in another order": (
        {"X": FRAME, "target": pd.Series(X[:, 0], index=IDS[::-1])},
        "target: expected labels in the order of X, found its index to hold the same ids in "
        "another order; pass target.loc[X.index]",
    ),
    "a small graph": (
        {"graph": csr_array(FAR[:5, :5])},
        "graph: expected 24 nodes, one per item, got 5",
    ),
    "unknown ids": (
        {"X": FRAME, "graph": [("p", "q")]},
        "graph: expected edges between items of X, such as 'item 0', 'item 1', 'item 2', found "
        "none among 2 nodes, such as 'p', 'q'; pass their ids as nodes, in the order of X",
    ),
    "unknown numbers": (
        {"graph": [(70, 71)]},
        "graph: expected edges between items of X, such as '0', '1', '2', found none among 2 "
        "nodes, such as '70', '71'; the rows of the table have no ids, "
        "so edges name row numbers, 0 to 23",
    ),
    "unknown ids of one of two": (
        {"graph": {"line": EDGES, "odd": [("p", "q")]}},
        "graph['odd']: expected edges between items of X, such as '0', '1', '2', found none among "
        "2 nodes, such as 'p', 'q'; the rows of the table have no ids, "
        "so edges name row numbers, 0 to 23",
    ),
    "no graph": (
        {"graph": 5},
        "graph: expected a graph, a matrix, an edge table or pairs of ids, got int of shape ()",
    ),
    "self-loops": (
        {"graph": [(0, 0), (1, 1)]},
        "graph: expected edges between different items, found only edges of an item with itself, "
        "or of similarity 0",
    ),
    "unknown weights": (
        {"graph": [(0, 1, 2.0), (1, 2, 1.0)]},
        "graph: expected to know what weights mean, got 2 among them; pass weight='length', "
        "'similarity' or 'ignore'",
    ),
    "unknown weights of one of two": (
        {"graph": {"line": EDGES, "odd": [(0, 1, 2.0), (1, 2, 1.0)]}},
        "graph['odd']: expected to know what weights mean, got 2 among them; pass "
        "mm.as_relation(graph, weight='length'), 'similarity' or 'ignore'",
    ),
    "negative weights": (
        {"graph": [(0, 1, -2.0)], "weight": "length"},
        "graph: expected finite weights >= 0 for all edges, got -2",
    ),
    "weight": (
        {"graph": EDGES, "weight": "far"},
        "weight: expected one of 'length', 'similarity', 'ignore', got 'far'",
    ),
    "few nodes": ({"nodes": IDS[:3]}, "nodes: expected 24 ids, one per item, got 3"),
    "a number of nodes": ({"nodes": 25}, "nodes: expected 24, one per row of X, got 25"),
    "a range of nodes": ({"nodes": range(9)}, "nodes: expected 24 ids, one per item, got 9"),
    "nodes twice": (
        {"nodes": [*IDS[:-1], IDS[0]]},
        "nodes: expected different ids, found 'item 0' 2 times",
    ),
    "nodes without order": (
        {"nodes": {*IDS}},
        "nodes: expected ids in the order of the items, got an unordered set",
    ),
    "other nodes": (
        {"X": FRAME, "nodes": IDS[::-1]},
        "nodes: expected the ids of X, in its order, found others; leave nodes out, since X has an "
        "index of ids",
    ),
    "a small matrix": (
        {"matrices": FAR[:5, :5]},
        "matrices: expected 24 rows, one per item of X, found 5; a matrix without ids is in the "
        "order of the table",
    ),
    "no square": (
        {"matrices": {"far": FAR[:5]}},
        "matrices['far']: expected a square matrix, got shape (5, 24)",
    ),
    "an asymmetric matrix": (
        {"matrices": {"far": np.triu(FAR)}},
        "matrices['far']: expected symmetric, largest asymmetry 1 from '0' to '1'; symmetrise it",
    ),
    "a matrix with gaps": (
        {"matrices": {"far": np.where(FAR > 0, np.nan, 0)}},
        "matrices['far']: expected a pair that is known, got NaN for all",
    ),
    "a name twice": (
        {"matrices": {"numbers": FAR}},
        "sources: expected different names, got 'numbers' twice; rename the graph, the matrix or "
        "the column",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    given, message = REFUSED[case]
    given = {"X": X, **given}
    with pytest.raises(mm.InputError) as caught:
        mm.sources_for(given.pop("X"), **given)
    assert str(caught.value) == message


def test_too_large_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 10)
    with pytest.raises(
        mm.TooLargeError, match=r"^X: storing .* pass dense=False, or edges_per_item=10"
    ):
        mm.sources_for(X)


def test_edges_of_unknown_ids_are_dropped_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="^graph: 1 edge dropped: ids such as unknown are not"):
        found = mm.sources_for(FRAME, EXTENDED)
    assert_same(found, mm.sources_for(FRAME, EDGES_BY_ID))
    with pytest.warns(UserWarning, match=r"^graph\['ties'\]: 2 edges dropped"):
        mm.sources_for(X, {"ties": [*EDGES, (0, -1), (77, 1)]})


def test_columns_that_are_not_used_are_warned_of() -> None:
    codes = FRAME.assign(code=[f"x{k}y" for k in range(N)], empty=None)
    with pytest.warns(UserWarning, match="is not used") as caught:
        found = mm.sources_for(codes)
    assert [str(one.message) for one in caught] == [
        "X: column 'code' is not used: 24 values that no two items share, such as 'x0y'",
        "X: column 'empty' is not used: no cell has a value",
    ]
    assert_same(found, mm.sources_for(FRAME))


def test_an_index_that_repeats_ids_only_numbers_the_rows() -> None:
    found = mm.sources_for(FRAME.set_axis(["a"] * N), EDGES)
    assert not found.has_items
    assert_same(found, mm.sources_for(X, EDGES))

"""The default sources of graphs, tables and matrices: `sources_for` and `mm.fit` have the same."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import metricmix as mm

N = 40


def example(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Counts of 30 words, and a graph."""
    rng = np.random.default_rng(seed)
    words = (rng.random((N, 30)) < 0.2) * rng.integers(1, 4, (N, 30)).astype(float)
    words[:, 0] += 1.0  # no item without any
    A = np.triu(rng.random((N, N)) < 0.08, 1).astype(float)
    return words, A + A.T


def groups(seed: int = 0) -> list[tuple[int, str]]:
    rng = np.random.default_rng(seed)
    return [(k, f"club {g}") for k in range(N) for g in rng.choice(8, 2, replace=False).tolist()]


def numbers(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"size": rng.random(N), "width": rng.random(N), "kind": list("ab") * 20})


LABELS = np.where(np.arange(N) < 24, np.arange(N) % 2, -1)
TARGET = np.where(np.arange(N) < 30, np.sin(np.arange(N)), np.nan)
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "table": (numbers(), {}),
    "counts": (example()[0], {}),
    "table and graph": (example()[0], {"edges": {"links": csr_array(example()[1])}}),
    "directed graph": (
        example()[0],
        {"edges": {"links": nx.gnp_random_graph(N, 0.1, seed=0, directed=True)}},
    ),
    "memberships": (numbers(), {"edges": {"clubs": groups()}}),
    "two graphs and a matrix": (
        numbers(),
        {
            "edges": {"links": csr_array(example()[1]), "ties": csr_array(example(1)[1])},
            "matrices": {"far": 1.0 - np.eye(N)},
        },
    ),
}


@pytest.mark.parametrize("answers", ["label", "target"])
@pytest.mark.parametrize("case", CASES)
def test_both_ways_have_the_same_sources(case: str, answers: str) -> None:
    data, given = CASES[case]
    known = {"label": LABELS, "target": TARGET}[answers]
    name = "labels" if answers == "label" else "target"
    graphs, matrices = given.get("edges"), given.get("matrices")
    stack = mm.sources_for(data, graphs, **{name: known}, matrices=matrices, dense=True)
    how = {answers: known, "evaluate": False, **given}
    theirs = mm.fit(data, **how).model.stack_
    assert stack.names == theirs.names
    assert not stack.directed
    for one in stack.names:
        np.testing.assert_array_equal(stack.source(one), theirs.source(one), err_msg=one)


def test_directed_edges_enrich_a_symmetric_metric() -> None:
    directed = nx.gnp_random_graph(N, 0.1, seed=0, directed=True)
    both = mm.sources_for(example()[0], directed.to_undirected(), labels=LABELS)
    stack = mm.sources_for(example()[0], directed, labels=LABELS)
    added = {f"links {what} {way}" for what in ("shared", "walks") for way in ("in", "out")}
    added |= {f"links learned neighbours {way}" for way in ("in", "out")}
    assert set(stack.names) - set(both.names) == added
    assert not stack.directed
    assert all(mm.is_metric(stack.source(name), tol=1e-6) for name in stack.names)


@pytest.mark.parametrize("graph", [None, csr_array(example()[1])])
def test_sparse_counts_are_those_of_a_frame(graph: Any) -> None:
    words, _ = example()
    dense = mm.sources_for(pd.DataFrame(words), graph, labels=LABELS)
    sparse = mm.sources_for(csr_array(words), graph, labels=LABELS)
    assert dense.names == sparse.names
    for name in dense.names:
        np.testing.assert_allclose(dense.source(name), sparse.source(name), atol=1e-12)


def test_new_items_of_a_sparse_table() -> None:
    words, _ = example()
    given = {"label": LABELS, "evaluate": False}
    dense = mm.fit(pd.DataFrame(words), **given).predict(pd.DataFrame(words[30:] + 0.0))
    fitted = mm.fit(csr_array(words), **given)
    sparse = fitted.predict(csr_array(words[30:]))
    assert sparse["label"].tolist() == dense["label"].tolist()
    np.testing.assert_allclose(sparse["distance"], dense["distance"])
    with pytest.raises(mm.InputError, match="new: expected 30 columns, got 7"):
        fitted.predict(csr_array(words[30:, :7]))


def test_a_table_and_a_graph_are_lined_up_by_their_ids() -> None:
    words, A = example()
    ids = [f"paper {k}" for k in range(N)]
    order = np.random.default_rng(1).permutation(N)
    graph = nx.from_numpy_array(A[np.ix_(order, order)])
    graph = nx.relabel_nodes(graph, {k: ids[order[k]] for k in range(N)})
    table = pd.DataFrame(words, index=ids)
    stack = mm.sources_for(table, graph)
    assert stack.items.tolist() == ids
    assert np.asarray(stack) == pytest.approx(np.asarray(mm.sources_for(words, csr_array(A))))
    by_nodes = mm.sources_for(words, graph, nodes=ids)
    assert by_nodes.items.tolist() == ids
    assert np.array_equal(np.asarray(by_nodes), np.asarray(stack))


def test_isolated_items_and_links_with_weights() -> None:
    words, A = example()
    A[3], A[:, 3] = 0, 0
    stack = mm.sources_for(words, csr_array(2 * A), weight="similarity")
    assert np.isfinite(np.asarray(stack)).all()
    assert stack.source("links reach")[3, 4] == stack.source("links reach")[3].max()


def test_more_classes_than_ten_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Class 10 comes after class 9, as in the estimator."""
    rng = np.random.default_rng(0)
    y = np.arange(72) % 12
    X = rng.normal(size=(72, 4)) + y[:, None]
    stack = mm.sources_for(X, labels=y)
    assert stack.relabelled(y, 12) is stack


def test_what_is_refused() -> None:
    words, A = example()
    with pytest.raises(mm.InputError, match="graph: expected 39 nodes, one per item, got 40"):
        mm.sources_for(words[:-1], csr_array(A))
    with pytest.raises(mm.InputError, match="graph: expected edges between items of X"):
        mm.sources_for(words, [("a", "b")])
    with pytest.raises(mm.InputError, match="a graph of 40 nodes without edges; leave it out"):
        mm.sources_for(words, csr_array((40, 40)))
    with pytest.raises(mm.InputError, match="labels, target: expected one of them, found both"):
        mm.sources_for(words, labels=LABELS, target=TARGET)


def test_a_classifier_takes_it_by_ids() -> None:
    words, A = example()
    stack = mm.sources_for(words, csr_array(A))
    labels = np.arange(N) % 2
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(12), labels[:12])
    assert model.transduction_.shape == (N,)
    assert np.array_equal(model.transduction_[:12], labels[:12])


def test_supervised_sources_are_computed_once() -> None:
    """An estimator deals the same folds, by contents where rows are only numbered."""
    words, _ = example()
    for table, ids in (
        (words, np.arange(N)),
        (pd.DataFrame(words, [f"p{k}" for k in range(N)]), None),
    ):
        stack = mm.sources_for(table, labels=LABELS)
        items = stack.items if ids is None else ids
        model = mm.MetricMixtureClassifier(stack, rho=1e-3).fit(items, LABELS)
        for name in stack.supervised:
            r = stack.names.index(name)
            assert model.stack_.sources[r] is stack.sources[r], name


def test_the_order_of_rows_without_ids_does_not_change_sources() -> None:
    words, _ = example()
    order = np.random.default_rng(3).permutation(N)
    stack = mm.sources_for(words, labels=LABELS)
    other = mm.sources_for(words[order], labels=LABELS[order])
    for name in stack.names:
        found = other.source(name)
        np.testing.assert_allclose(found, stack.source(name)[np.ix_(order, order)], atol=1e-4)


# -- without a table -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "known",
    [
        {"nodes": 4},
        {"nodes": ["a", "b", "c", "d"]},
        {"labels": [0, 1, 0, -1]},
        {"target": [0.0, 1.0, 2.0, np.nan]},
    ],
)
def test_a_graph_without_a_table(known: dict[str, Any]) -> None:
    graph = {"links": [(0, 1), (1, 2), (2, 3)]}
    if isinstance(known.get("nodes"), list):
        graph = {"links": [("a", "b"), ("b", "c"), ("c", "d")]}
    stack = mm.sources_for(None, graph, **known)
    assert stack.names[:4] == ("links", "links shared", "links reach", "links walks")
    np.testing.assert_array_equal(stack.source("links")[0].round(6) > 0, [0, 1, 1, 1])


def test_matrices_without_a_table() -> None:
    D = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    stack = mm.sources_for(None, matrices=D, nodes=5)
    assert (stack.n_items, stack.names) == (5, ("matrices",))


@pytest.mark.parametrize("known", [{}, {"nodes": 4}, {"graph": {"links": [(0, 1), (1, 2)]}}])
def test_without_a_table_the_number_of_items_is_needed(known: dict[str, Any]) -> None:
    with pytest.raises(mm.InputError, match="expected a table, or None with a graph or matrices"):
        mm.sources_for(None, **known)

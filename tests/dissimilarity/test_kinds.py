"""Kinds of sources: the values of `sources_for` between items, and places for new items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import metricmix as mm
from metricmix.dissimilarity.item_sources import ItemSource, NewItemData
from metricmix.dissimilarity.plan import plan_sources
from metricmix.dissimilarity.specs import KINDS, SourceSpec
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.items.in_memory import as_items
from metricmix.items.relation import Relation

N = 60
COPIED = [2, 23, 44]
"""Items without a label: those that have one are judged without it, unlike new items."""


def measured() -> tuple[pd.DataFrame, np.ndarray]:
    """A table of positive numbers of similar size, in three classes."""
    rng = np.random.default_rng(0)
    y = np.arange(N) // 20
    X = np.exp(0.4 * rng.normal(size=(N, 6)) + 0.5 * np.eye(3)[y] @ rng.normal(size=(3, 6)))
    return pd.DataFrame(X, columns=[f"c{k}" for k in range(6)]), y


def counted() -> tuple[pd.DataFrame, np.ndarray]:
    """A table of 120 counts, most of them 0, in three classes with words of their own."""
    rng = np.random.default_rng(1)
    y = np.arange(N) // 20
    rates = np.where(np.arange(120) // 15 == np.arange(3)[:, None], 0.6, 0.02)
    table = rng.poisson(rates[y])
    table[np.arange(N), np.arange(N)] += 1
    table[np.arange(N), np.arange(N) + 60] += 1
    return pd.DataFrame(table, columns=[f"w{k}" for k in range(120)]), y


def bound(
    frame: pd.DataFrame, y: np.ndarray, spec: dict[str, Any], edges: Any = None
) -> ItemSource:
    """Return a source of the items of a frame, whose labels are known for two thirds."""
    labels = [f"class {c}" if k % 3 < 2 else None for k, c in enumerate(y)]
    data = frame.assign(label=labels)
    relations = None if edges is None else {"links": edges}
    items = as_items(data, "label", edges=relations)
    if edges is not None:
        spec = {"file": "links", **spec}
    return plan_sources(items, [SourceSpec("one", **spec)], defaults=False).sources[0]


def partly(y: np.ndarray) -> np.ndarray:
    return np.where(np.arange(len(y)) % 3 < 2, y, -1)


def values_in_folds_of(other: Any, source: ItemSource) -> np.ndarray:
    """Return all values, those of supervised sources cross-fitted in the folds of another one."""
    if not source.spec.supervised:
        return values_of(source)
    assert isinstance(source.supervised, SupervisedSource)
    return source.supervised.relabel(other.known).rows(np.arange(N))


def values_of(source: ItemSource) -> np.ndarray:
    return np.asarray(source.matrix())


TABLES: dict[str, tuple[str, dict[str, Any]]] = {
    "columns": ("measured", {"kind": "columns"}),
    "raw": ("measured", {"kind": "raw"}),
    "direction": ("measured", {"kind": "direction"}),
    "near_columns": ("measured", {"kind": "near"}),
    "near_direction": ("measured", {"kind": "near", "view": "direction"}),
    "learned_raw": ("measured", {"kind": "learned", "view": "raw"}),
    "learned_columns": ("measured", {"kind": "learned", "view": "columns"}),
    "kernel_columns": ("measured", {"kind": "kernel"}),
    "kernel_direction": ("measured", {"kind": "kernel", "view": "direction"}),
    "spread_columns": ("measured", {"kind": "spread_near"}),
    "topics": ("counted", {"kind": "topics"}),
    "counts": ("counted", {"kind": "metric", "metric": "angular"}),
    "near_topics": ("counted", {"kind": "near", "view": "topics"}),
    "kernel_topics": ("counted", {"kind": "kernel", "view": "topics"}),
}
DATA = {"measured": measured, "counted": counted}


def placed(source: ItemSource, frame: pd.DataFrame, edges: Any = None) -> np.ndarray:
    """Return the dissimilarities from new items with the rows and links of some items."""
    new = as_items(frame.iloc[COPIED].set_axis([N, N + 1, N + 2]), edges=None)
    return source.cross(NewItemData(new, {} if edges is None else {"links": edges}, {}), None)


@pytest.mark.parametrize("name", TABLES)
def test_values_of_tables_are_those_of_sources_for(name: str) -> None:
    of, spec = TABLES[name]
    frame, y = DATA[of]()
    source = bound(frame, y, spec)
    stack = mm.sources_for(frame, labels=partly(y))
    theirs = stack.sources[stack.names.index(name)]
    np.testing.assert_allclose(
        values_in_folds_of(theirs, source), theirs.rows(np.arange(N)), atol=2e-6
    )


@pytest.mark.parametrize("name", TABLES)
def test_a_copy_of_an_item_is_placed_beside_it(name: str) -> None:
    of, spec = TABLES[name]
    frame, y = DATA[of]()
    source = bound(frame, y, spec)
    found, whole = placed(source, frame), values_of(source)
    assert found.shape == (3, N)
    if KINDS.said(spec["kind"]).facts.get("view") or spec["kind"] == "metric":
        np.testing.assert_allclose(found, whole[COPIED], atol=1e-6)
        return
    for row, k in zip(found, COPIED, strict=True):
        others = np.delete(np.arange(N), k)
        assert np.corrcoef(row[others], whole[k, others])[0, 1] > 0.9


def links_of(y: np.ndarray) -> np.ndarray:
    """Links between items, most of them of the same class, none of them isolated."""
    rng = np.random.default_rng(2)
    ends = np.array([(i, j) for i in range(N) for j in range(i)])
    same = y[ends[:, 0]] == y[ends[:, 1]]
    return ends[
        (rng.random(len(ends)) < np.where(same, 0.12, 0.015)) | (ends[:, 0] == ends[:, 1] + 1)
    ]


GRAPHS: dict[str, dict[str, Any]] = {
    "attributes": {"kind": "metric", "metric": "angular", "file": None},
    "diffusion_2": {"kind": "diffusion"},
    "pagerank_0.2": {"kind": "smoothed", "restart": 0.2},
    "pagerank_0.1": {"kind": "smoothed"},
    "log_pagerank": {"kind": "log_pagerank"},
    "joint_attributes": {"kind": "joint", "k": 5},
    "joint_pagerank": {"kind": "joint", "k": 10, "view": "smoothed"},
}
LABELLED_GRAPHS: dict[str, dict[str, Any]] = {
    "shares_pagerank": {"kind": "shares"},
    "shares_walks": {"kind": "shares_walks"},
    "learned_diffusion_2": {"kind": "learned_graph", "view": "diffusion"},
    "learned_shares_walks": {"kind": "learned_graph", "view": "shares_walks"},
    "learned_neighbours": {"kind": "learned_graph", "view": "neighbours"},
    "spread_links": {"kind": "spread"},
}


@pytest.mark.parametrize("name", GRAPHS)
def test_values_of_graphs_are_those_of_sources_for(name: str) -> None:
    frame, y = counted()
    source = bound(frame, y, GRAPHS[name], links_of(y))
    stack = mm.sources_for(frame, links_of(y), nodes=N, dense=False)
    whole = stack.sources[stack.names.index(name)].rows(np.arange(N))
    if name != "log_pagerank":  # without labels, cosine distances in place of angles
        whole = np.arccos(np.clip(1.0 - whole, -1.0, 1.0)) / np.pi
    np.testing.assert_allclose(values_of(source), whole, atol=1e-6)


@pytest.mark.parametrize("name", LABELLED_GRAPHS)
def test_values_of_labelled_graphs_are_those_of_sources_for(name: str) -> None:
    """In single precision there, smoothed to four digits."""
    frame, y = counted()
    source = bound(frame, y, LABELLED_GRAPHS[name], links_of(y))
    stack = mm.sources_for(frame, links_of(y), nodes=N, labels=partly(y))
    theirs = stack.sources[stack.names.index(name)]
    found = values_in_folds_of(theirs, source)
    np.testing.assert_allclose(found, theirs.rows(np.arange(N)), atol=3e-3)


@pytest.mark.parametrize("name", [*GRAPHS, *LABELLED_GRAPHS])
def test_a_copy_with_the_same_links_is_placed_beside_the_item(name: str) -> None:
    frame, y = counted()
    links = links_of(y)
    source = bound(frame, y, (GRAPHS | LABELLED_GRAPHS)[name], links)
    both = np.concatenate([links, links[:, ::-1]])
    ends = np.concatenate([both[both[:, 0] == k] + [[N + x - k, 0]] for x, k in enumerate(COPIED)])
    found = placed(source, frame, Relation("links", N + 3, None, ends))
    whole = values_of(source)
    for row, k in zip(found, COPIED, strict=True):
        others = np.delete(np.arange(N), k)
        assert np.corrcoef(row[others], whole[k, others])[0, 1] > 0.9
        assert row.argmin() in np.argsort(whole[k])[:6]


def test_a_report_names_the_view() -> None:
    frame, y = counted()
    items = as_items(frame.assign(label=y.astype(str)), "label", edges={"links": links_of(y)})
    spec = SourceSpec("one", "learned_graph", "links", view="neighbours")
    (report,) = plan_sources(items, [spec], defaults=False).report.sources
    assert report.describe().startswith("logistic regression (view neighbours) in ")


def test_a_view_that_needs_more_is_refused() -> None:
    frame, y = measured()
    with pytest.raises(mm.exceptions.InputError, match=r"view: expected one of columns, direction"):
        bound(frame, y, {"kind": "learned", "view": "diffusion"})

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

N = 60


def measured() -> tuple[pd.DataFrame, np.ndarray]:
    """A table of positive numbers of similar size, in three classes."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % 3
    X = np.exp(0.4 * rng.normal(size=(N, 6)) + 0.5 * np.eye(3)[y] @ rng.normal(size=(3, 6)))
    return pd.DataFrame(X, columns=[f"c{k}" for k in range(6)]), y


def counted() -> tuple[pd.DataFrame, np.ndarray]:
    """A table of 120 counts, most of them 0, in three classes with words of their own."""
    rng = np.random.default_rng(1)
    y = np.arange(N) % 3
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
    """Return the dissimilarities from new items with the rows and links of items 0, 1 and 2."""
    new = as_items(frame.iloc[:3].set_axis([N, N + 1, N + 2]), edges=None)
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
        np.testing.assert_allclose(found, whole[:3], atol=1e-6)
        return
    for k in range(3):
        others = np.delete(np.arange(N), k)
        assert np.corrcoef(found[k, others], whole[k, others])[0, 1] > 0.9

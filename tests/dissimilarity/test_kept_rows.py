"""Rows that are kept between calls."""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from metricmix.dissimilarity import kept_rows
from metricmix.dissimilarity.item_sources import SourceData
from metricmix.dissimilarity.kept_rows import KeptRows

TABLE = np.random.default_rng(0).normal(size=(9, 9))


def test_rows_of_some_of_the_last_items_are_not_computed_again() -> None:
    calls: list[list[int]] = []

    def compute(items: np.ndarray) -> np.ndarray:
        calls.append(items.tolist())
        return TABLE[items]

    kept = KeptRows(compute)
    for items in ([5, 2, 5, 7], [7], [2, 5], [1, 2], [2, 1], []):
        found = kept(np.array(items, dtype=np.int64))
        np.testing.assert_array_equal(found, TABLE[items] if items else TABLE[:0])
        found[:] = 0.0  # the caller may change what it gets
    assert calls == [[2, 5, 7], [1, 2]]


def test_threads_that_ask_at_the_same_time_wait_for_the_first() -> None:
    calls, together = [], Barrier(4)

    def slowly(items: np.ndarray) -> np.ndarray:
        calls.append(items)
        time.sleep(0.05)
        return TABLE[items]

    kept, shared = KeptRows(slowly), SourceData(None, ())

    def ask(_: int) -> object:
        together.wait()
        return shared.once("rows", lambda: slowly(np.arange(9))), kept(np.arange(9))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    assert len(calls) == 2
    for once, rows in found:
        assert once is found[0][0]
        np.testing.assert_array_equal(rows, TABLE)


def test_many_rows_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "KEPT", 20)
    kept = KeptRows(lambda items: TABLE[items])
    kept(np.arange(3))
    assert kept._kept[1].size == 0
    kept(np.arange(2))
    assert kept._kept[1].size == 18


def test_kept_rows_are_not_pickled() -> None:
    kept = KeptRows(TABLE.__getitem__)
    kept(np.arange(9))
    copy = pickle.loads(pickle.dumps(kept))
    assert copy._kept[1].size == 0
    np.testing.assert_array_equal(copy(np.arange(9)), TABLE)

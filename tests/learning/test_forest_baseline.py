"""The baseline "forest": its columns, its trees, and its place in the verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array
from sklearn.datasets import make_blobs
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import metricmix as mm
from metricmix.dissimilarity.sources import ItemData, data_of
from metricmix.learning import baselines, forest_baseline
from metricmix.learning.forest_baseline import RandomForest, forest_features, spectral_coordinates
from metricmix.learning.task import Classes, Numbers

pytestmark = pytest.mark.default_sources

N = 40
Y = np.arange(N) % 2
RING = csr_array((np.ones(N), (np.arange(N), (np.arange(N) + 2) % N)), shape=(N, N))
RING = csr_array(RING + RING.T)  # two rings: the items of each class
NOISE = np.random.default_rng(0).normal(size=(N, 3))


def forest_of(data: ItemData, task: Any = None, y: Any = Y) -> Any:
    task = task or Classes(np.arange(2))
    found, remarks = baselines.baselines_of(data, task, task.known_of(y))
    one = next((one for one in found if one.kind == "forest"), None)
    return one, remarks


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (ItemData(NOISE), "random forest on the table"),
        (ItemData(NOISE, RING), "random forest on the table and links"),
        (ItemData(None, RING), "random forest on the links"),
    ],
)
def test_the_name_says_what_it_is_given(data: ItemData, name: str) -> None:
    assert forest_of(data)[0].name == name
    assert forest_of(ItemData())[0] is None


def test_links_are_columns() -> None:
    """Labels that only the links tell, of a table of noise."""
    train, test = np.arange(0, 24), np.arange(24, N)
    alone, _ = forest_of(ItemData(NOISE))
    linked, _ = forest_of(ItemData(NOISE, RING, graphs={"ring": RING}))
    right = [np.mean(one.predict(train, Y[train], test) == Y[test]) for one in (alone, linked)]
    assert right[0] < 0.8
    assert right[1] == 1.0


def test_columns_by_hand() -> None:
    table = np.arange(2.0 * N).reshape(N, 2)
    groups = csr_array(np.eye(3)[np.arange(N) % 3])
    rows = forest_features(ItemData(table, RING, graphs={"ring": RING}, memberships={"in": groups}))
    assert rows is not None
    assert rows.shape == (N, 2 + 3 + 1 + 2 + 8)
    assert np.array_equal(rows[:, :2], table)
    assert np.array_equal(rows[:, 2:5], groups.toarray())
    assert (rows[:, 5] == 2.0).all()
    assert rows[7, 6:8] == pytest.approx((table[5] + table[9]) / 2)


@pytest.mark.parametrize("n", [12, N])
def test_coordinates_are_leading_eigenvectors(n: int) -> None:
    strengths = np.diag(1.0 + np.arange(n - 1), 1)  # a path: all eigenvalues differ
    looped = strengths + strengths.T + np.eye(n)
    scale = 1 / np.sqrt(looped.sum(axis=1))
    operator = scale[:, None] * looped * scale
    vectors = spectral_coordinates(csr_array(strengths + strengths.T))
    found = np.linalg.eigvalsh(vectors.T @ operator @ vectors)
    assert found == pytest.approx(np.linalg.eigvalsh(operator)[-8:], abs=1e-3)


def test_wide_tables_are_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = random_array((N, 300), density=0.1, rng=np.random.default_rng(0)).tocsr()
    for table in (sparse, sparse.toarray()):
        rows = forest_features(ItemData(table))
        assert rows is not None
        assert rows.shape == (N, 40)  # as many as there are items
    assert forest_features(ItemData(sparse[:, :50])).shape == (N, 50)  # type: ignore[union-attr]
    monkeypatch.setattr(forest_baseline, "SPECTRAL_UP_TO", N - 1)
    assert forest_features(ItemData(None, RING)).shape == (N, 1)  # type: ignore[union-attr]


def test_isolated_items_and_missing_cells_are_finite() -> None:
    table = np.where(np.arange(N)[:, None] == 3, np.nan, NOISE)
    rows = forest_features(ItemData(table, csr_array((N, N))))
    assert rows is not None
    assert np.isfinite(rows).all()


def test_trees_predict_what_those_of_scikit_learn_do() -> None:
    X, y = make_blobs(600, 5, centers=4, cluster_std=4.0, random_state=0)
    train, test = np.arange(100), np.arange(100, 600)
    chosen = np.arange(600) % 5 > 0
    found = RandomForest(X, chosen, numeric=False).predict(train, y[train] + 4, test)
    kept = train[chosen[train]]
    several = [RandomForestClassifier(random_state=seed).fit(X[kept], y[kept]) for seed in (0, 1)]
    one, other = (forest.predict(X[test]) + 4 for forest in several)
    assert np.mean(found == one) > np.mean(one == other) - 0.04
    numeric = RandomForest(X, chosen, numeric=True).predict(train, X[train, 0] + y[train], test)
    regressor = RandomForestRegressor(max_features=1 / 3, random_state=0)
    expected = regressor.fit(X[kept], X[kept, 0] + y[kept]).predict(X[test])
    assert np.corrcoef(numeric, expected)[0, 1] > 0.98


def test_numbers_and_many_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "FOREST_FROM", 20)
    y = 3.0 * NOISE[:, 0]
    one, remarks = forest_of(ItemData(NOISE), Numbers(), y)
    assert remarks == ["the random forest learns from 20 of the 40 targets"]
    train, test = np.arange(30), np.arange(30, N)
    assert np.corrcoef(one.predict(train, y[train], test), y[test])[0, 1] > 0.6


def test_memberships_reach_the_forest_and_the_forest_the_verdict() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    y = np.arange(60) % 2
    rows = pandas.DataFrame({"x": rng.normal(size=60), "kind": np.where(y, "a", "b")})
    rows.index = [f"i{k}" for k in range(60)]
    clubs = pandas.DataFrame(
        {"person": [*rows.index, *rows.index], "club": [*"uv" * 30, *rng.choice([*"pqr"], 60)]}
    )
    result = mm.fit(rows, label="kind", edges={"clubs": clubs})
    data = data_of(result.estimator.learned_.whole)
    assert data is not None
    assert data.memberships["clubs"].shape == (60, 5)
    board = result.scoreboard
    assert board.loc["random forest on the table and links", "accuracy"] == 1.0
    assert result.outcome is not None
    compared = result.outcome.comparison
    assert compared is not None
    assert "forest" in [method.kind for method in compared.methods]
    found = compared.difference("forest")
    assert found.status in ("tie", "behind")
    assert "% with a random forest on the table and links (" in str(found)

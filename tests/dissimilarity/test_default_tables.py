"""The default sources of a plain table, and those of a graph with labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris, load_wine

import metricmix as mm
from metricmix.dissimilarity.column_sources import far_limits
from metricmix.dissimilarity.kinds.forest import Forest
from metricmix.dissimilarity.known import Known

pytestmark = pytest.mark.default_sources


def test_every_default_source_of_a_table_is_a_metric():
    X, y = load_wine(return_X_y=True)
    stack = mm.sources_for(X, labels=np.where(np.arange(len(y)) % 5, -1, y))
    assert stack.n_sources <= 20
    for name, known in zip(stack.names, stack.facts, strict=True):
        assert known.triangle_inequality
        assert mm.is_metric(stack.source(name), tol=1e-6), name  # of float32
    model = mm.MetricMixtureClassifier(stack, constraint="nonnegative", rho=1e-4)
    model.fit(np.arange(len(y)), np.where(np.arange(len(y)) % 5, -1, y))
    assert mm.is_metric(model.compute_metric())
    assert np.mean(model.transduction_ == y) > 0.93


def test_every_default_source_of_a_labelled_graph_is_a_metric():
    data = mm.datasets.make_attributed_graph(80, 3, random_state=0)
    known = np.where(np.arange(80) % 4, -1, data.target)
    stack = mm.sources_for(data.data, data.edges, nodes=80, labels=known)
    assert stack.n_sources <= 20
    for name, facts in zip(stack.names, stack.facts, strict=True):
        assert facts.triangle_inequality
        assert mm.is_metric(stack.source(name), tol=1e-6), name  # of float32


def test_tables_with_negative_values_and_sparse_ones():
    X = np.random.default_rng(0).poisson(1.0, (30, 6)).astype(float)
    dense, sparse = mm.sources_for(X), mm.sources_for(csr_array(X))
    assert np.asarray(dense) == pytest.approx(np.asarray(sparse))
    assert np.isfinite(np.asarray(mm.sources_for(X - 1))).all()
    edges = [(k, k + 1) for k in range(29)]
    signed = mm.sources_for(X - 1, edges, nodes=30, labels=np.arange(30) % 2)
    assert np.isfinite(np.asarray(signed)).all()


def mixed_table(n=60, seed=0):
    """Return a table of all kinds, some values missing, and the classes 0 and 1 of its rows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    words = [["oak", "dark", "cherry", "red", "and"], ["fresh", "apple", "pear", "green", "and"]]
    X = pd.DataFrame(
        {
            "sugar": rng.normal(size=n) + y,
            "tannin": rng.normal(size=n),
            "year": rng.integers(1990, 2020, n),
            "colour": np.where(rng.random(n) < 0.8, y, 1 - y) == 1,
            "shop": rng.choice(["north", "south", "harbour"], n),
            "note": [" ".join(rng.choice(words[c], 4)) + f" {k}" for k, c in enumerate(y)],
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, n), unit="D"),
        }
    )
    for k, column in enumerate(("sugar", "shop", "note", "day")):
        X.loc[X.index[k::17], column] = None
    return X, y


def test_a_table_of_all_kinds():
    X, y = mixed_table()
    known = np.where(np.arange(len(y)) % 3, -1, y)
    stack = mm.sources_for(X, labels=known)
    assert stack.names == (
        *("numbers", "dates", "colour", "shop", "note", "gower", "near"),
        *("learned", "kernel", "spread"),
    )
    similar = X.drop(columns=["year", "day"])
    assert "direction" in mm.sources_for(similar, labels=known).names
    for name, known_facts in zip(stack.names, stack.facts, strict=True):
        assert known_facts.triangle_inequality
        assert mm.is_metric(stack.source(name), tol=1e-6), name  # of float32
    shops = X["shop"].fillna("?").to_numpy()
    differ = shops[:, None] != shops
    assert stack.source("shop") == pytest.approx(differ / (differ.sum() / (60 * 59)))
    model = mm.MetricMixtureClassifier(stack, constraint="nonnegative", rho=1e-4)
    model.fit(np.arange(len(y)), known)
    assert np.mean(model.transduction_[known < 0] == y[known < 0]) > 0.85


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["sugar"], {"numbers"}),
        (["sugar", "year"], {"numbers"}),
        (["sugar", "tannin"], {"numbers", "raw", "direction"}),
        (["shop"], {"shop"}),
        (["note"], {"note"}),
        (["sugar", "shop"], {"numbers", "shop", "gower"}),
    ],
)
def test_only_sources_that_the_columns_need(columns, expected):
    stack = mm.sources_for(mixed_table()[0][columns])
    assert {name for name in stack.names if not name.startswith("near")} == expected


def test_a_table_of_counts():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    rates = rng.gamma(0.1, size=(2, 50)) * 0.5
    X = rng.poisson(rates[y])
    stack = mm.sources_for(csr_array(X), labels=np.where(np.arange(80) < 40, y, -1))
    assert stack.names == ("counts", "near", "learned", "kernel", "spread")
    assert all(mm.is_metric(stack.source(name), tol=1e-6) for name in stack.names)


def test_directions_of_columns_of_similar_and_of_different_size():
    X = np.random.default_rng(0).random((30, 4))
    as_it_is = mm.sources_for(X).source("direction")
    angles = np.arccos(np.clip(1 - cdist(X, X, "cosine"), -1, 1))
    np.fill_diagonal(angles, 0)
    assert as_it_is == pytest.approx(angles / (angles.sum() / (30 * 29)), abs=1e-6)
    low, middle, high = np.percentile(X - 0.5, [25, 50, 75], axis=0)
    signed = np.clip((X - 0.5 - middle) / ((high - low) / 1.349), -3, 3)
    angles = np.arccos(np.clip(1 - cdist(signed, signed, "cosine"), -1, 1))
    np.fill_diagonal(angles, 0)
    found = mm.sources_for(X - 0.5).source("direction")
    assert found == pytest.approx(angles / (angles.sum() / (30 * 29)), abs=1e-6)
    assert mm.sources_for(X * [1, 1, 1, 1e6]).names == ("numbers", "near")


def without_far_values(X):
    return np.clip(X, *far_limits(X))


def test_far_values_are_moved_in():
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert np.array_equal(without_far_values(X), X)
    for size in (1e3, 1e12, 1e300):
        far = X.copy()
        far[7, 1] = size
        others = np.arange(50) != 7
        kept = without_far_values(far)
        assert np.array_equal(kept[others], X[others])
        assert 5 < kept[7, 1] < 30
        single = np.hstack([X, np.zeros((50, 1))])
        single[7, 3] = size
        assert 5 < without_far_values(single)[7, 3] < 30
        assert np.isfinite(np.asarray(mm.sources_for(far))).all()
    pixels = np.zeros((50, 4))
    pixels[:20, 0] = 255.0
    pixels[3, 1] = 255.0  # rare, but not far
    assert np.array_equal(without_far_values(pixels), pixels)


def with_far_value(X, size, added, row):
    """Return the table with a single far value, in a column of its own if `added`."""
    far = np.hstack([X, np.zeros((len(X), 1))]) if added else X.copy()
    far[row, -1 if added else 2] = size
    return far


@pytest.mark.parametrize("size", [1e3, 1e12])
@pytest.mark.parametrize("added", [True, False])
def test_one_far_value_changes_no_other_distance_by_much(size, added):
    X, y = load_iris(return_X_y=True)
    clean, far = mm.sources_for(X), mm.sources_for(with_far_value(X, size, added, 7))
    others = np.flatnonzero(np.arange(len(y)) != 7)
    upper = np.triu_indices(len(others), 1)
    for name in clean.names:
        left, right = (stack.source(name)[np.ix_(others, others)][upper] for stack in (clean, far))
        assert np.corrcoef(left, right)[0, 1] > 0.97, name
        assert right.mean() == pytest.approx(left.mean(), rel=0.2), name


@pytest.mark.slow
def test_one_far_value_costs_at_most_three_points_against_equal_weights():
    X, y = load_wine(return_X_y=True)
    gaps = []
    for draw in range(6):
        rng = np.random.default_rng(draw)
        known = np.full(len(y), -1)
        labelled = np.concatenate([rng.choice(np.flatnonzero(y == c), 7, False) for c in range(3)])
        known[labelled] = y[labelled]
        row = rng.choice(labelled if draw % 2 else len(y))
        far = with_far_value(X, 10 ** rng.uniform(3, 12), draw % 3 == 0, row)
        stack, test = mm.sources_for(far, labels=known), known < 0
        right = [
            np.mean(model.fit(np.arange(len(y)), known).transduction_[test] == y[test])
            for model in (
                mm.MetricMixtureClassifier(stack),
                mm.MetricMixtureClassifier(stack, objective=None, rule="class-mean"),
            )
        ]
        assert min(right) > 0.8
        gaps.append(right[0] - right[1])
    assert np.mean(gaps) > -0.03


def test_a_forest_judges_labelled_items_by_trees_that_left_them_out(monkeypatch):
    monkeypatch.setattr("metricmix.dissimilarity.forests.TREES", 100)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 2
    known = np.where(np.arange(60) < 40, y, -1)
    p = Forest(X).predict(Known(known, 3)).values
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert np.all(p[:, 2] == 0)
    assert abs(np.mean(p[:40].argmax(axis=1) == y[:40]) - 0.5) < 0.25  # noise is not learned
    box = ((X[:, 0] > 0) & (X[:, 1] > -0.5)).astype(int)
    found = Forest(X).predict(Known(np.where(np.arange(60) < 40, box, -1), 2)).values
    assert np.mean(found.argmax(axis=1) == box) > 0.8
    single = np.where(np.arange(60) < 40, 0, -1)
    single[3] = 1
    assert Forest(X).predict(Known(single, 2)).values[3].tolist() == [0.5, 0.5]


def test_missing_values_cost_little():
    X, y = load_wine(return_X_y=True)
    gaps = X.copy()
    gaps[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    whole, with_gaps = (mm.sources_for(Z).source("numbers") for Z in (X, gaps))
    upper = np.triu_indices(len(y), 1)
    assert np.corrcoef(whole[upper], with_gaps[upper])[0, 1] > 0.9


def test_attributes_of_a_graph_of_any_kind():
    X, y = mixed_table()
    edges = [(k, (k + 2) % 60) for k in range(60)]
    known = np.where(np.arange(60) % 3, -1, y)
    stack = mm.sources_for(X, edges, labels=known, nodes=60)
    assert np.isfinite(np.asarray(stack)).all()
    rng = np.random.default_rng(0)
    real = rng.normal(size=(60, 3))
    real[rng.random((60, 3)) < 0.1] = np.nan
    stretched = mm.sources_for(real * [1, 1e3, 1e-3], edges, nodes=60, labels=known)
    plain = mm.sources_for(real, edges, nodes=60, labels=known)
    assert set(plain.names) - set(stretched.names) == {"raw", "direction"}
    for name in stretched.names:
        assert stretched.source(name) == pytest.approx(plain.source(name), abs=1e-6), name
    counts = rng.poisson(0.3, (60, 24)).astype(float)
    gaps = counts.copy()
    gaps[counts == 0] = np.where(rng.random((counts == 0).sum()) < 0.1, np.nan, 0)
    without = np.asarray(mm.sources_for(counts, edges, nodes=60))
    for form in (np.asarray, csr_array, pd.DataFrame):
        filled = mm.sources_for(form(gaps), edges, nodes=60)
        assert np.asarray(filled) == pytest.approx(without)
    assert np.isnan(gaps).any()  # what was passed is left alone
    same = mm.sources_for(np.ones((60, 2)), edges, nodes=60, labels=known)
    assert np.isfinite(np.asarray(same)).all()  # the graph alone


@pytest.mark.parametrize(
    ("X", "labels", "message"),
    [
        (np.empty((0, 2)), None, "X: expected at least two items, got 0"),
        (np.empty((3, 0)), None, "X: expected a column with at least two different values, found"),
        (np.ones((1, 2)), None, "X: expected at least two items, got 1"),
        (np.ones((4, 2)), None, "X: expected a column with at least two different values, found"),
        (pd.DataFrame({"a": ["x"] * 4}), None, "X: expected a column with at least two different"),
        (np.eye(4) * 1j, None, "X: expected real numbers in column '0', found complex ones"),
        (np.eye(4), [0, 1], "labels: expected 4 labels, one per item, got 2"),
        (np.eye(4), [-1] * 4, "labels: expected at least two different labels, found no labelled"),
        (
            np.eye(4),
            [None, 1, 1, None],
            "labels: expected at least two different labels, found only",
        ),
        (np.eye(4), [[0, 1]] * 4, "labels: expected one label per item, got shape (4, 2)"),
    ],
)
def test_what_is_refused(X, labels, message):
    with pytest.raises(mm.InputError) as caught:
        mm.sources_for(X, labels=labels)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1

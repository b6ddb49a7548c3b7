"""Sampled rows against the check of all triangles."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity.sources import ComputedSource
from metricmix.exceptions import InputError, TooLargeError

N = 60


def euclidean(n=N, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 3))
    return np.sqrt(((x[:, None] - x) ** 2).sum(axis=-1))


def symmetric(seed, n=N):
    D = np.random.default_rng(seed).uniform(1.0, 2.6, size=(n, n))
    D = np.maximum(D, D.T)
    np.fill_diagonal(D, 0.0)
    return D


def by_hand(D, chosen, directed):
    """Largest excess, and the pairs in violation, over all triangles that the rows tell of."""
    n, worst, pairs = len(D), 0.0, set()
    for i in range(n):
        for j in range(n):
            for k in set(range(n)) - {i, j}:
                if i == j:
                    continue
                known = i in chosen and k in chosen
                if not directed:
                    known = len({i, j, k} & chosen) >= 2
                excess = D[i, j] - (D[i, k] + D[k, j])
                if known and excess > 1e-9 * D.max():
                    pairs.add((i, j) if directed else (min(i, j), max(i, j)))
                    worst = max(worst, excess)
    return worst, len(pairs)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("m", [2, 3, 7, 18])
def test_against_all_triangles_of_the_rows(m, directed) -> None:
    D = symmetric(1, 18)
    if directed:
        D = D * np.random.default_rng(2).uniform(0.5, 1, D.shape)
    found = mm.sampled_violations(D, n_items=m, directed=directed)
    chosen = set(np.sort(np.random.default_rng(0).choice(18, m, replace=False)).tolist())
    if not directed:  # a pair of the sample by all items, others by the items of the sample
        assert found.n_triangles == m * (m - 1) // 2 * 16 + m * (m - 1) * (18 - m)
    worst, count = by_hand(D, chosen, directed)
    assert found.triangle == pytest.approx(worst)
    assert found.n_triangle_violations == count
    if count:
        i, k, j = found.worst_triangle
        assert found.triangle == pytest.approx(D[i, j] - D[i, k] - D[k, j])
        assert found.triangle_lengths == (D[i, j], D[i, k], D[k, j])


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_all_items_sampled_is_the_check_of_all(seed, directed) -> None:
    D = symmetric(seed)
    D = D + np.triu(D, 1) * 0.1 if directed else D
    D[2, 3] = D[3, 2] = 0.0
    D[5, 5] = 0.5 * seed
    whole = mm.metric_violations(D, directed)
    found = mm.sampled_violations(D, n_items=10**6, directed=directed)
    for name in ("asymmetry", "diagonal", "negativity", "triangle", "n_triangle_violations"):
        assert getattr(found, name) == pytest.approx(getattr(whole, name)), name
    for name in ("zero_pairs", "n", "scale", "tolerance", "worst_diagonal"):
        assert getattr(found, name) == getattr(whole, name), name
    assert set(found.worst_triangle) == set(whole.worst_triangle)
    assert found.detectable_share == 0.0
    assert found.is_metric() == whole.is_metric()
    n_triangles = N * (N - 1) * (N - 2) // (1 if directed else 2)
    assert found.n_triangles == n_triangles


@pytest.mark.parametrize("place", [(4, 4), (4, 9)])
def test_negative_entries(place) -> None:
    D = euclidean()
    D[place] = -3.0
    found = mm.sampled_violations(D, n_items=N)
    assert found.negativity == mm.metric_violations(D).negativity == 3.0
    assert found.worst_negative == place
    assert not found.is_metric()


def test_the_stated_confidence_is_kept() -> None:
    """Violations with an end among few items are the hardest to see."""
    D, n = euclidean(200), 200
    bad = np.arange(0, n, 50)
    D[bad] += 100.0
    D[:, bad] += 100.0
    D[np.ix_(bad, bad)] = 1000.0
    np.fill_diagonal(D, 0.0)
    for b in bad:  # a single short edge: all others of b are too long
        D[b, (b + 1) % n] = D[(b + 1) % n, b] = 0.01
    share = mm.metric_violations(D).n_triangle_violations / (n * (n - 1) / 2)
    m = next(
        m for m in range(2, n) if 1 - 0.2 ** (1 / (m // 2)) <= share
    )  # 80 % according to the bound
    seen = [
        not mm.sampled_violations(D, n_items=m, random_state=seed).is_metric()
        for seed in range(100)
    ]
    assert np.mean(seen) >= 0.8 - 3 * np.sqrt(0.8 * 0.2 / 100)
    assert np.mean(seen) < 1.0  # and it is not a lucky case


def test_a_stack_and_a_mixture() -> None:
    rng = np.random.default_rng(0)
    sources = [symmetric(3), symmetric(4)]
    dense = mm.DissimilarityStack(sources)
    edges = mm.EdgeStack.complete(dense)
    weights = np.array([2.0, -0.7])
    expected = mm.path_metric(dense, weights)
    for stack in (dense, edges):
        found = mm.sampled_violations(stack, weights, n_items=20)
        assert found.is_metric()
        assert found.n_sampled == 20
        assert found.triangle <= found.tolerance
        assert found.scale <= expected.max() * (1 + 1e-12)
    lengths = mm.mixture.edge_lengths(dense, weights).matrix()
    assert not mm.sampled_violations(lengths, n_items=20).is_metric()
    u, v = rng.integers(N, size=(2, 400))
    sparse = mm.EdgeStack.of(dense, mm.dissimilarity.EdgeSet(N, u, v))
    assert mm.sampled_violations(sparse, weights, n_items=20).is_metric()


def test_single_precision_along_edges() -> None:
    x = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    edges = mm.dissimilarity.EdgeSet(400, np.arange(399), np.arange(1, 400))
    values = np.linalg.norm(x[edges.tails] - x[edges.heads], axis=1)[None].astype(np.float32)
    found = mm.sampled_violations(mm.EdgeStack(edges, values), [1.0], n_items=50)
    assert found.is_metric()
    assert found.tolerance > 1e-7 * found.scale


def test_rows_are_asked_for_and_no_more() -> None:
    D, asked = euclidean(), []
    source = ComputedSource(N, lambda i: (asked.extend(i.tolist()), D[i])[1])
    assert mm.sampled_violations(source, n_items=9).is_metric()
    assert len(asked) == len(set(asked)) == 9
    assert np.array_equal(D, euclidean())


def test_what_is_said() -> None:
    text = str(mm.sampled_violations(euclidean(), n_items=20))
    assert text.startswith("no violation seen: n = 60, undirected")
    assert "from the rows of 20 items; if 26 % of all pairs violated the triangle" in text
    assert text.endswith("one would be seen with probability 95 % at least")
    text = str(mm.sampled_violations(symmetric(0), n_items=N))
    assert text.startswith("not a metric")
    assert text.endswith("triangle inequalities checked, from the rows of all items")
    assert "pairs (i, k)" in str(mm.sampled_violations(euclidean(), n_items=5, directed=True))


def test_refusals(monkeypatch) -> None:
    with pytest.raises(InputError, match="a square matrix"):
        mm.sampled_violations(np.zeros((3, 4)))
    with pytest.raises(InputError, match="NaN or infinite"):
        mm.sampled_violations(np.full((3, 3), np.nan))
    with pytest.raises(InputError, match="weights for the stack"):
        mm.sampled_violations(mm.DissimilarityStack([euclidean()]))
    with pytest.raises(InputError, match="n_items"):
        mm.sampled_violations(euclidean(), n_items=1)
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 1000)
    with pytest.raises(TooLargeError, match="pass a smaller n_items"):
        mm.sampled_violations(euclidean())

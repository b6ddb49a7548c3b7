"""A look at a stack before learning from it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import metricmix as mm
from metricmix.dissimilarity.matrix import as_dissimilarity
from reference.instances import on_demand, random_sources


def line(n=4):
    x = np.arange(float(n))
    return np.abs(x[:, None] - x)


def by_counting(M, directed=False):
    """Shares of pairs that are broken, zero, or tied, one pair at a time."""
    n = len(M)
    pairs = [(i, j) for i in range(n) for j in range(n) if (i != j if directed else i < j)]
    values = [M[i, j] for i, j in pairs]
    broken = [
        any(M[i, j] > (M[i, k] + M[k, j]) * (1 + 1e-9) for k in range(n) if k not in (i, j))
        for i, j in pairs
    ]
    return (
        np.mean(broken),
        np.mean([v == 0 for v in values]),
        np.mean([values.count(v) > 1 for v in values]),
    )


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_shares_by_counting(seed, directed):
    rng = np.random.default_rng(seed)
    smooth = random_sources(rng, 12, 1, directed=directed)[0]
    whole = np.floor(3 * smooth)
    stack = mm.DissimilarityStack([smooth, whole], ["smooth", "whole"], directed)
    report = stack.diagnose()
    for found, M in zip(report.sources, (smooth, whole), strict=True):
        broken, zeros, ties = by_counting(M, directed)
        assert found.violations == pytest.approx(broken)
        assert found.zeros == pytest.approx(zeros)
        assert found.ties == pytest.approx(ties)
        off = ~np.eye(12, dtype=bool)
        assert found.mean == pytest.approx(M[off].mean())
        assert found.largest == M.max()
    assert (report.n_items, report.n_looked_at) == (12, 12)


def test_metric_has_nothing_to_complain_about():
    report = mm.DissimilarityStack([line()]).diagnose()
    (found,) = report.sources
    assert found.violations == found.triangle == found.zeros == found.unreachable == 0.0


def test_largest_excess_over_a_detour():
    # 0 to 3 takes 9, by way of 1 and 2 it takes 1 + 4 = 5: an excess of 4 of 9.
    (found,) = mm.DissimilarityStack([line() ** 2]).diagnose().sources
    assert found.triangle == pytest.approx(4 / 9)
    assert found.violations == pytest.approx(0.5)


def test_scaled_values_are_looked_at():
    (found,) = mm.DissimilarityStack([line()], scaling="max").diagnose().sources
    assert found.largest == 1.0
    assert found.mean == pytest.approx(line().sum() / 12 / 3)


def test_multiples_are_one_source():
    rng = np.random.default_rng(0)
    A, B = random_sources(rng, 9, 2)
    stack = mm.DissimilarityStack([A, B, 3.7 * A, 1e-6 * B, A + 0.001 * B, 1e5 * A])
    report = stack.diagnose()
    assert report.proportional == ((0, 2, 5), (1, 3))
    assert report.constant == ()
    assert "source_0, source_2 and source_5 are one source" in str(report)
    assert "source_1 and source_3 are one source" in str(report)


def test_float32_multiples_are_one_source():
    A = random_sources(np.random.default_rng(0), 9, 1, dtype=np.float32)[0]
    assert mm.DissimilarityStack([A, 3 * A]).diagnose().proportional == ((0, 1),)


def test_constant_sources():
    ones = 1 - np.eye(5)
    report = mm.DissimilarityStack([line(5), ones, 7 * ones, 0 * ones]).diagnose()
    assert report.constant == (1, 2, 3)
    assert (1, 2) in report.proportional
    assert "1 is the same for every pair" in str(report)


def test_threshold_graphs_of_few_items_coincide():
    # The paper's family at D = 40: the first graphs are empty, the last complete, and the path
    # lengths of both are one and the same constant matrix.
    X = load_digits().data[:40] + 1.0
    norms = np.sqrt(np.linalg.norm(X, axis=1))
    D = np.asarray(mm.dissimilarity.features(X)) / np.outer(norms, norms)
    graphs = mm.dissimilarity.threshold_graphs(D, 8)
    stack = mm.DissimilarityStack(graphs)
    report = stack.diagnose()
    off = ~np.eye(40, dtype=bool)
    constant = tuple(r for r, M in enumerate(graphs) if np.ptp(np.asarray(M)[off]) < 1e-9)
    assert len(constant) >= 2
    assert report.constant == constant
    assert constant in report.proportional
    flat = np.array([np.asarray(M)[off] for M in graphs])
    assert np.linalg.matrix_rank(flat) <= 8 - len(constant) + 1


def test_unreachable_pairs():
    M = as_dissimilarity(line(5).copy(), "path", n_unreachable=6)
    report = mm.DissimilarityStack([line(5), M]).diagnose()
    assert [s.unreachable for s in report.sources] == [0.0, pytest.approx(6 / 20)]


def test_sample_of_the_items():
    rng = np.random.default_rng(0)
    stack = mm.DissimilarityStack(random_sources(rng, 60, 2))
    report = stack.diagnose(max_items=20, random_state=3)
    assert (report.n_items, report.n_looked_at) == (60, 20)
    assert "(on a random sample of 20 of 60 items)" in str(report)
    assert report == stack.diagnose(max_items=20, random_state=3)
    assert report != stack.diagnose(max_items=20, random_state=4)
    chosen = np.sort(np.random.default_rng(3).choice(60, 20, replace=False))
    part = stack[np.ix_(chosen, chosen)].diagnose()
    assert report.sources == part.sources
    assert stack.diagnose(max_items=60).n_looked_at == 60


def test_wherever_the_sources_live():
    stack = mm.DissimilarityStack(random_sources(np.random.default_rng(1), 10, 2))
    assert stack.diagnose() == on_demand(stack).diagnose()


def test_table():
    report = mm.DissimilarityStack([line(), line() ** 2], ["line", "square"]).diagnose()
    frame = report.to_frame()
    assert list(frame.index) == ["line", "square"]
    assert frame.loc["square", "violations"] == 0.5
    assert str(report).splitlines()[0].split() == [
        *("source", "broken", "zeros", "ties", "unreachable", "mean", "largest")
    ]


@pytest.mark.parametrize("directed", [False, True])
def test_one_and_two_items(directed):
    report = mm.DissimilarityStack([np.zeros((1, 1))], directed=directed).diagnose()
    assert report.sources[0].violations == report.sources[0].mean == 0.0
    assert report.constant == ()
    assert str(report)
    two = mm.DissimilarityStack([line(2), line(2)], directed=directed).diagnose()
    assert two.sources[0].mean == 1.0
    assert two.proportional == ((0, 1),)

"""Experiment 3 against brute force: sources, shortest paths and counts by slow loops."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.neighbors import NeighborhoodComponentsAnalysis

import metricmix as mm
from metricmix.paper.data import Data, draw_papers
from metricmix.paper.experiment import Cell, generator
from metricmix.paper.experiment3_semi_supervised import METHODS, SOURCES, SemiSupervised
from paper.test_experiment import run_cell
from reference.closure import closure_by_rows
from reference.mixing import lengths

REAL = os.environ.get("METRICMIX_DATA")
D, N_TEST = 14, 8
EXPERIMENT = SemiSupervised(n_test=N_TEST)
CELLS: list[Cell] = [{"sampling": s, "D": D, "repetition": 34} for s in ("random", "walk")]
"""Few random papers cite each other at all; three do here."""
ALONE = ("graph", "feature", "spectral", "walks")
MIXTURES = [method for method in METHODS if method not in ALONE]


class Sample(NamedTuple):
    """What a cell draws, and its sources by slow loops."""

    drawn: np.ndarray
    topics: np.ndarray
    adjacency: np.ndarray
    hops: np.ndarray
    sources: dict[str, np.ndarray]


def slow_sample(cell: Cell, data: Data | None = None) -> Sample:
    papers = (data or Data()).papers
    which = ("random", "walk").index(str(cell["sampling"]))
    rng = generator(0, "semi-supervised", which, D, int(cell["repetition"]))
    drawn = draw_papers(papers, str(cell["sampling"]), rng, D + N_TEST, D)
    topics, X = papers.topics[drawn], papers.components[drawn]
    A = np.array([[float(papers.graph[int(i), int(j)] != 0) for j in drawn] for i in drawn])
    hops = closure_by_rows(np.where(A > 0, 1.0, np.inf))
    graph = hops.copy()
    graph[np.isinf(hops)] = hops[np.isfinite(hops)].max() + 1.0
    nca = NeighborhoodComponentsAnalysis(
        n_components=10, max_iter=30, random_state=int(rng.integers(1 << 31))
    ).fit(X[:D], topics[:D])
    smooth = A + np.eye(len(A))
    smooth = smooth / np.sqrt(np.outer(smooth.sum(0), smooth.sum(0)))
    raw = {
        "graph": graph,
        "feature": distances(X) ** 2,
        "jaccard": jaccard(A),
        "resource allocation": resource_allocation(A),
        "nca": distances(X @ nca.components_.T),
        "diffusion": distances(smooth @ smooth @ X),
        "spectral": distances(spectral(A)),
        "walks": distances(walks(A)),
    }
    pairs = len(A) * (len(A) - 1)
    return Sample(drawn, topics, A, hops, {k: M / (M.sum() / pairs) for k, M in raw.items()})


def distances(X: np.ndarray) -> np.ndarray:
    return np.array([[np.linalg.norm(x - z) for z in X] for x in X])


def spectral(A: np.ndarray) -> np.ndarray:
    """Eigenvectors of A x = λ D x, times λ."""
    values, vectors = eigh(A, np.diag(np.maximum(A.sum(1), 1.0)))
    return np.asarray(vectors[:, ::-1][:, :10] * values[::-1][:10])


def walks(A: np.ndarray) -> np.ndarray:
    """Ten factors of the logarithm of the visits of random walks of up to 10 steps."""
    degree = np.maximum(A.sum(1), 1.0)
    P = A / degree[:, None]
    visits = sum(np.linalg.matrix_power(P, t) for t in range(1, 11)) / degree
    logs = np.log(np.maximum(1.0, A.sum() / 10 * visits))
    values, vectors = np.linalg.eigh(logs @ logs.T)
    return np.asarray(vectors[:, ::-1][:, :10] * np.maximum(values[::-1][:10], 0.0) ** 0.25)


def jaccard(A: np.ndarray) -> np.ndarray:
    M = np.ones_like(A) - np.eye(len(A))
    for i in range(len(A)):
        for j in range(len(A)):
            either = np.maximum(A[i], A[j]).sum()
            if i != j and either:
                M[i, j] = 1 - np.minimum(A[i], A[j]).sum() / either
    return M


def resource_allocation(A: np.ndarray) -> np.ndarray:
    degree = np.maximum(A.sum(0), 1.0)
    shared = (A / degree) @ A.T
    M = np.ones_like(A) - np.eye(len(A))
    for i in range(len(A)):
        for j in range(len(A)):
            if i != j and shared[i, i] and shared[j, j]:
                M[i, j] = 1 - shared[i, j] / np.sqrt(shared[i, i] * shared[j, j])
    return M


def share_right(to_labelled: np.ndarray, topics: np.ndarray, close: float) -> tuple[float, float]:
    """Accuracy if ties (but for `close`) are always lost, and if they are always won."""
    lost, won = [], []
    for row, topic in zip(to_labelled, topics[D:], strict=True):
        right = topics[:D][row <= row.min() + close] == topic
        lost.append(right.all())
        won.append(right.any())
    return float(np.mean(lost)), float(np.mean(won))


def sources_of(method: str, sample: Sample) -> list[np.ndarray]:
    count = {"more": 6, "all,": 8}.get(method[:4], 2)
    names = SOURCES[:count]
    return [sample.sources[name] for name in names]


@pytest.fixture(scope="module", params=CELLS, ids=["random", "walk"])
def found(request: pytest.FixtureRequest) -> tuple[Sample, dict[str, Any]]:
    return slow_sample(request.param), run_cell(EXPERIMENT, request.param).values


@pytest.mark.parametrize("method", MIXTURES)
def test_accuracy_of_a_mixture_is_that_of_brute_force(
    method: str, found: tuple[Sample, dict[str, Any]]
) -> None:
    sample, values = found
    slow = closure_by_rows(lengths(sources_of(method, sample), values["weights"][method]))
    stack = mm.DissimilarityStack(sources_of(method, sample))
    d = mm.path_metric(stack, values["weights"][method])
    assert d == pytest.approx(slow, abs=1e-9)
    low, high = share_right(d[D:, :D], sample.topics, 1e-5)
    assert low <= values["accuracy"][method] <= high
    if "literal" not in method:  # whose weights may leave the features out
        assert low == high


@pytest.mark.parametrize("source", ALONE)
def test_accuracy_of_a_source_is_that_of_its_nearest_neighbours(
    source: str, found: tuple[Sample, dict[str, Any]]
) -> None:
    """Path lengths are whole numbers: the first of equally near papers is taken.

    Spectral distances between isolated papers are 0 up to rounding, which decides between these.
    """
    sample, values = found
    M = sample.sources[source]
    if source == "spectral":
        low, high = share_right(M[D:, :D], sample.topics, 1e-9)
        assert low <= values["accuracy"][source] <= high
        return
    nearest = [np.flatnonzero(row <= row.min() + 1e-9)[0] for row in M[D:, :D]]
    right = sample.topics[nearest] == sample.topics[D:]
    assert values["accuracy"][source] == pytest.approx(right.mean())


def test_the_graph_is_that_of_all_drawn_papers(found: tuple[Sample, dict[str, Any]]) -> None:
    sample, values = found
    n = D + N_TEST
    assert len(set(sample.drawn.tolist())) == n
    edges = sum(sample.adjacency[i, j] for i in range(n) for j in range(i))
    assert values["edges"] == edges
    apart = sum(np.isinf(sample.hops[i, j]) for i in range(n) for j in range(n) if i != j)
    assert values["unreachable"] == pytest.approx(apart / (n * (n - 1)))


def test_a_walk_leaves_no_paper_unreachable() -> None:
    values, sample = run_cell(EXPERIMENT, CELLS[1]).values, slow_sample(CELLS[1])
    assert values["unreachable"] == 0.0
    assert values["edges"] >= D + N_TEST - 1
    assert values["edges"] > np.tril(sample.adjacency[:D, :D]).sum()  # not of the labelled alone


def test_the_rest_of_what_is_stored(found: tuple[Sample, dict[str, Any]]) -> None:
    _, values = found
    assert set(values["accuracy"]) == set(METHODS)
    assert set(values["weights"]) == set(MIXTURES)
    assert values["weights"]["uniform"] == [0.5, 0.5]
    assert values["weights"]["more, uniform"] == pytest.approx([1 / 6] * 6, abs=1e-6)
    assert values["violation"] <= 1e-9


def slow_objective(weights: Any, sample: Sample, *, balanced: bool) -> float:
    d = closure_by_rows(lengths(sources_of("", sample), weights))[:D, :D]
    y = sample.topics[:D]
    same = (y[:, None] == y) & ~np.eye(D, dtype=bool)
    different = y[:, None] != y
    ridge = 0.01 * float(np.square(weights).sum())
    if balanced:
        return float(d[same].mean() - d[different].mean()) / 2 + ridge
    return float(d[same].sum() - d[different].sum()) / D**2 + ridge


def test_each_mixture_is_best_by_its_own_objective(found: tuple[Sample, dict[str, Any]]) -> None:
    sample, values = found
    weights = values["weights"]
    for balanced, best in ((False, "mixture, converged"), (True, "mixture, balanced")):
        reached = slow_objective(weights[best], sample, balanced=balanced)
        for other in ("mixture, literal", "mixture, literal, equal start", "uniform"):
            assert reached <= slow_objective(weights[other], sample, balanced=balanced) + 1e-6


@pytest.mark.parametrize("cell", CELLS, ids=["random", "walk"])
def test_topics_of_test_papers_are_not_learned_from(cell: Cell) -> None:
    papers, sample = Data().papers, slow_sample(cell)
    other = papers.topics.copy()
    other[sample.drawn[D:]] = np.roll((other[sample.drawn[D:]] + 1) % 6, 1)
    swapped: Any = SimpleNamespace(papers=replace(papers, topics=other))
    before = run_cell(EXPERIMENT, cell).values
    after = run_cell(EXPERIMENT, cell, data=swapped).values
    assert after.pop("accuracy") != before.pop("accuracy")
    assert after == before


def test_topics_of_labelled_papers_are_learned_from() -> None:
    papers, sample = Data().papers, slow_sample(CELLS[1])
    other = papers.topics.copy()
    other[sample.drawn[:D]] = np.roll(other[sample.drawn[:D]], 1)
    swapped: Any = SimpleNamespace(papers=replace(papers, topics=other))
    before = run_cell(EXPERIMENT, CELLS[1]).values["weights"]
    after = run_cell(EXPERIMENT, CELLS[1], data=swapped).values["weights"]
    assert after["mixture, balanced"] != before["mixture, balanced"]


def test_too_few_papers_are_told_before_the_start() -> None:
    with pytest.raises(mm.InputError, match=r"papers that hang together.*got one of 1500$"):
        SemiSupervised(sizes=(12, 1480)).check(Data())


def test_brute_force_on_real_data() -> None:
    if not REAL:
        pytest.skip("METRICMIX_DATA is not set")
    if not any((Path(REAL) / name).exists() for name in ("citeseer.npz", "planetoid")):
        pytest.skip("METRICMIX_DATA has no Citeseer")
    data = Data("real", REAL)
    sample = slow_sample(CELLS[1], data)
    values = run_cell(EXPERIMENT, CELLS[1], data=data).values
    assert values["edges"] == np.tril(sample.adjacency).sum()
    for method in MIXTURES:
        d = closure_by_rows(lengths(sources_of(method, sample), values["weights"][method]))
        low, high = share_right(d[D:, :D], sample.topics, 1e-5)
        assert low <= values["accuracy"][method] <= high

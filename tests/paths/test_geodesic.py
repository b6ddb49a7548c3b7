"""Geodesic edges: the nearest items and the links, joined into one component."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

import metricmix as mm
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.geodesic import geodesic_edges, geodesic_stack, smallest

RNG = np.random.default_rng(0)
PLACES = np.concatenate([RNG.normal(size=(12, 2)), RNG.normal(size=(9, 2)) + 40.0])
MIXTURE = mm.Mixture([1.0, 0.5])


def stack_of(places: np.ndarray, directed: bool = False) -> mm.DissimilarityStack:
    apart = np.abs(places[:, None] - places)
    layers = [apart.sum(axis=2), apart.max(axis=2)]
    if directed:
        layers = [layer * RNG.uniform(0.5, 1.5, layer.shape) for layer in layers]
    return mm.DissimilarityStack(layers, ["city", "largest"], directed)


@pytest.mark.parametrize("directed", [False, True])
def test_edges_and_distances_are_those_of_the_definition(directed: bool) -> None:
    stack = stack_of(PLACES, directed)
    n, k = len(PLACES), 3
    w = EdgeLengths(stack, MIXTURE).rows(np.arange(n))
    graph: Any = nx.DiGraph() if directed else nx.Graph()
    for i in range(n):
        for j in [j for j in np.argsort(w[i], kind="stable") if j != i][:k]:
            graph.add_edge(i, int(j), weight=w[i, j])
            graph.add_edge(int(j), i, weight=w[j, i])
    one, other = nx.connected_components(graph.to_undirected())
    i, j = min(((i, j) for i in other for j in one), key=lambda pair: w[pair])
    graph.add_edge(i, j, weight=w[i, j])
    graph.add_edge(j, i, weight=w[j, i])
    found = geodesic_stack(stack, MIXTURE, k)
    expected = {tuple(sorted(e)) if not directed else e for e in graph.edges}
    assert {*zip(found.edges.tails.tolist(), found.edges.heads.tolist(), strict=True)} == expected
    assert found.report.components == 2
    assert found.report.bridging == (2 if directed else 1)
    far = dict(nx.all_pairs_dijkstra_path_length(graph))
    metric = mm.path_metric(found, MIXTURE)
    np.testing.assert_allclose(metric, [[far[i][j] for j in range(n)] for i in range(n)])
    assert mm.is_metric(metric, directed=directed)


def test_links_are_edges_and_survive_slices() -> None:
    stack = stack_of(PLACES).with_links([[0, 20], [3, 5]])
    edges, report = geodesic_edges(EdgeLengths(stack, MIXTURE), 2, stack.links)
    assert edges.find([0], [20])[0] >= 0
    assert report.by_origin["links"] == 2
    some = np.array([20, 3, 5, 0])
    part = stack[np.ix_(some, some)]
    assert isinstance(part, mm.DissimilarityStack)
    assert part.links is not None
    assert part.links.tolist() == [[3, 0], [1, 2]]
    without = stack[np.ix_(np.arange(4), np.arange(4))]
    assert isinstance(without, mm.DissimilarityStack)
    assert without.links is not None
    assert len(without.links) == 0
    assert stack.select(["city"]).links is stack.links
    with pytest.raises(mm.InputError, match="links"):
        stack.with_links([[0, 21]])


def test_all_pairs_from_n_minus_one_on() -> None:
    stack = stack_of(PLACES)
    whole = geodesic_stack(stack, MIXTURE, 1000)
    assert len(whole.edges) == 21 * 20 // 2
    np.testing.assert_allclose(
        mm.path_metric(whole, MIXTURE), mm.path_metric(stack, MIXTURE), rtol=1e-12
    )


@pytest.mark.parametrize("k", [1, 3, 64, 70])
def test_smallest_takes_the_first_of_equal_values(k: int) -> None:
    w = RNG.integers(0, 4, (30, 80)).astype(float)
    expected = np.argsort(w, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(np.sort(smallest(w, k), axis=1), np.sort(expected, axis=1))


def test_sources_for_a_graph_remember_their_links() -> None:
    data = mm.datasets.make_attributed_graph(60, random_state=0)
    stack = mm.sources_for(data.data, data.graph)
    assert stack.links is not None
    expected = {tuple(sorted(pair)) for pair in np.asarray(data.edges).tolist()}
    assert {tuple(sorted(pair)) for pair in stack.links.tolist()} == expected

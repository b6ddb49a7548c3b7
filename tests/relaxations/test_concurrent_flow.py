"""Concurrent flows against dense matrices of paths."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from metricmix.kernels.threads import ThreadPool
from metricmix.relaxations import concurrent_flow
from metricmix.relaxations.concurrent_flow import (
    ConcurrentFlow,
    flow_steps,
    project_to_simplex,
    step_flows,
    step_lengths,
)
from metricmix.relaxations.flow_paths import (
    Paths,
    add_loads,
    add_paths,
    find_shorter_paths,
    path_scales,
    split_evenly,
)
from metricmix.relaxations.iterates import DualIterate, PrimalIterate
from metricmix.relaxations.weighted_graphs import DemandNetwork, WeightedGraph
from reference.graph_kernels import distances, walk, weighted_simplex
from reference.relaxations import sparsest_cut_optimum
from relaxations.graphs import random_edges

N = 8


class Instance:
    """A network with some paths for every pair, as arrays and as a matrix."""

    def __init__(self, seed, low=0, high=N):
        self.ends, self.graph, _ = random_edges(N, 0.3, seed, connected=True)
        self.rng = rng = np.random.default_rng([seed, 7])
        self.m = len(self.ends)
        self.c, self.demand = rng.random(self.m) + 0.2, rng.random(N) + 0.3
        self.pairs = [(i, j) for i in range(low, high) for j in range(i)]
        self.paths, flow = Paths.empty(low, high), np.empty((3, 0))
        for _ in range(3):
            x = rng.random(self.m) + 0.1
            *found, _ = find_shorter_paths(
                self.paths, low, high, self.graph, x, self.demand, 0.0, np.empty(self.m), 0.0
            )
            *arrays, flow = add_paths(self.paths, flow, *found)
            self.paths = Paths(low, high, *arrays)
            flow[:] = rng.random(flow.shape)
        self.flow = flow
        self.counts = np.diff(self.paths.first)
        self.matrix = np.zeros((flow.shape[1], self.m))  # P[r, e]: whether path r has the edge e
        for r in range(len(self.matrix)):
            self.matrix[r, self.edges_of(r)] = 1.0
        self.amounts = np.array([self.demand[i] * self.demand[j] for i, j in self.pairs])
        self.pair_of = np.repeat(np.arange(len(self.pairs)), self.counts)
        sizes = self.matrix.sum(1)
        self.hops = np.array([sizes[self.pair_of == p].max() for p in range(len(self.pairs))])

    def edges_of(self, r):
        return self.paths.edges[self.paths.starts[r] : self.paths.starts[r + 1]]

    def simplices(self, y):
        """Project what every pair sends."""
        out = np.empty(len(y))
        for p, amount in enumerate(self.amounts):
            own = self.pair_of == p
            ones = np.ones(own.sum())
            out[own] = weighted_simplex(y[own], ones, ones, amount)
        return out

    def step(self, x, z, omega):
        """x', z' and how far both go."""
        loads = self.matrix.T @ z
        n_e = np.maximum(1.0, self.matrix.T @ self.amounts[self.pair_of])
        new_x = weighted_simplex(x + loads / (omega * n_e), self.c, n_e, self.c.sum())
        scale = (self.hops / self.amounts)[self.pair_of]
        new_z = self.simplices(z - omega / scale * (self.matrix @ (2 * new_x - x)))
        return new_x, new_z, n_e @ (new_x - x) ** 2, scale @ (new_z - z) ** 2


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tolerance", [0.0, 0.2])
def test_find_shorter_paths(seed, tolerance):
    case = Instance(seed, 2, 7)
    x, closed = case.rng.random(case.m), np.full(case.m, np.nan)
    parts, total = [], 0.0
    for part in ((2, 5), (5, 7)):
        *arrays, total = find_shorter_paths(
            case.paths, *part, case.graph, x, case.demand, tolerance, closed, total
        )
        parts.append(arrays)
    pairs, counts, found = map(np.concatenate, zip(*parts, strict=True))
    d = distances(N, case.ends, x)
    lengths = case.matrix @ x
    wanted = [
        p
        for p, (i, j) in enumerate(case.pairs)
        if d[i, j] < lengths[case.pair_of == p].min() * (1 - tolerance)
    ]
    assert pairs.tolist() == wanted
    for p, stop, count in zip(pairs, np.cumsum(counts), counts, strict=True):
        i, j = case.pairs[p]
        path = found[stop - count : stop]
        assert walk(case.ends, path, j) == i
        assert x[path].sum() == pytest.approx(d[i, j])
    assert total == pytest.approx(
        sum(amount * d[i, j] for amount, (i, j) in zip(case.amounts, case.pairs, strict=True))
    )
    own = (case.ends.max(1) >= 2) & (case.ends.max(1) < 7)
    np.testing.assert_allclose(closed[own], d[tuple(case.ends[own].T)])
    assert np.isnan(closed[~own]).all()


def test_more_paths_than_there_was_room_for():
    ends, graph, x = random_edges(40, 0.1, connected=True)
    pairs, counts, found, _ = find_shorter_paths(
        Paths.empty(0, 40), 0, 40, graph, x, np.ones(40), 0.0, np.empty(len(ends)), 0.0
    )
    assert pairs.tolist() == list(range(780))
    assert counts.sum() == len(found) > 1024


@pytest.mark.parametrize("seed", range(3))
def test_add_paths(seed):
    case = Instance(seed)
    flow = case.flow.copy()
    dropped = case.rng.random(flow.shape[1]) < 0.4
    flow[:, dropped] = 0.0
    pairs = np.array([0, 3, 9])
    new = [[1, 0], [2], [0, 3, 1]]
    first, starts, edges, new_flow = add_paths(
        case.paths, flow, pairs, np.array([2, 1, 3], np.int32), np.concatenate(new).astype(np.int32)
    )
    expected, columns, counts = [], [], []
    for p in range(len(case.pairs)):
        kept = np.flatnonzero((case.pair_of == p) & ~dropped)
        expected += [case.edges_of(r).tolist() for r in kept]
        columns += [flow[:, r] for r in kept]
        if p in pairs:
            expected.append(new[pairs.tolist().index(p)])
            columns.append(np.zeros(3))
        counts.append(len(expected))
    assert first.tolist() == [0, *counts]
    found = [edges[s:t].tolist() for s, t in pairwise(starts)]
    assert found == expected
    np.testing.assert_array_equal(new_flow.T, columns)


@pytest.mark.parametrize("seed", range(3))
def test_loads_and_scales(seed):
    case = Instance(seed, 3, 8)
    z = case.flow[0] * (case.rng.random(case.flow.shape[1]) < 0.7)
    loads = np.ones(case.m)
    add_loads(case.paths, z, loads)
    np.testing.assert_allclose(loads, 1 + case.matrix.T @ z)
    amounts, scales = np.empty((2, len(z)))
    least = path_scales(case.paths, case.demand, z, amounts, scales)
    np.testing.assert_allclose(amounts, case.amounts[case.pair_of])
    np.testing.assert_allclose(scales, (case.hops / case.amounts)[case.pair_of])
    sent = np.bincount(case.pair_of, z) / case.amounts
    assert least == pytest.approx(min(1.0, sent.min()))
    split_evenly(case.paths, case.demand, z)
    np.testing.assert_allclose(z, (case.amounts / case.counts)[case.pair_of])


@pytest.mark.parametrize("seed", range(10))
def test_project_to_simplex(seed):
    rng = np.random.default_rng(seed)
    y, ones = rng.normal(size=1 + seed), np.ones(1 + seed)
    expected = weighted_simplex(y, ones, ones, 1.7)
    project_to_simplex(y, 1.7, np.empty(16))
    np.testing.assert_allclose(y, expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_one_step(seed):
    case = Instance(seed)
    omega, a = 0.3, 0.6
    x = case.rng.random(case.m)
    z = case.simplices(case.flow[0])
    new_x, new_z, moved_x, moved_z = case.step(x, z, omega)
    loads = case.matrix.T @ z
    n_e = np.maximum(1.0, case.matrix.T @ case.amounts[case.pair_of])
    lengths = PrimalIterate(x.copy(), case.rng.random(case.m), np.empty(case.m), np.empty(case.m))
    moved = step_lengths(case.c, n_e, loads, lengths, omega, a)
    assert moved == pytest.approx(moved_x)
    np.testing.assert_allclose(lengths.image, new_x, atol=1e-9)
    np.testing.assert_allclose(lengths.extrapolated, 2 * new_x - x, atol=1e-9)
    after = a * (2 * new_x - x) + (1 - a) * lengths.anchor
    np.testing.assert_allclose(lengths.current, after, atol=1e-9)
    flow = DualIterate(z.copy(), case.simplices(case.flow[1]), z.copy())
    moved = step_flows(case.paths, case.demand, lengths.extrapolated, flow, loads, omega, a)
    assert moved == pytest.approx(moved_z)
    np.testing.assert_allclose(flow.image, new_z, atol=1e-9)
    after = a * (2 * new_z - z) + (1 - a) * flow.anchor
    several = (case.counts > 1)[case.pair_of]  # a single path always carries the whole demand
    np.testing.assert_allclose(flow.current[several], after[several], atol=1e-9)
    after[~several] = z[~several]
    np.testing.assert_allclose(loads, case.matrix.T @ after, atol=1e-9)


def test_pairs_with_many_paths():
    ends, _, _ = random_edges(2, 1.0)
    count = 150  # more than there is room for at first
    paths = Paths(0, 2, np.array([0, count]), np.arange(count + 1), np.zeros(count, np.int32))
    z = np.random.default_rng(0).normal(size=count)
    ones, loads = np.ones(count), np.empty(len(ends))
    flow = DualIterate(z.copy(), z.copy(), z.copy())
    step_flows(paths, np.ones(2), np.zeros(1), flow, loads, 1.0, 1.0)
    np.testing.assert_allclose(flow.image, weighted_simplex(z, ones, ones, 1.0), atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_several_steps(seed):
    case = Instance(seed)
    omega = 0.3
    x, z = case.rng.random(case.m), case.simplices(case.flow[0])
    lengths, flow = PrimalIterate.anchored(x.copy()), DualIterate.anchored(z.copy())
    n_e = np.maximum(1.0, case.matrix.T @ case.amounts[case.pair_of])
    loads = case.matrix.T @ z
    moved = flow_steps(*(case.paths, case.demand, flow, case.c, n_e, loads, lengths, omega, 2, 6))
    at_x, at_z = x, z
    for k in range(2, 6):
        new_x, new_z, *sums = case.step(at_x, at_z, omega)
        a = (k + 1) / (k + 2)
        at_x = a * (2 * new_x - at_x) + (1 - a) * x
        at_z = a * (2 * new_z - at_z) + (1 - a) * z
    np.testing.assert_allclose(moved, sums, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(lengths.image, new_x, atol=1e-7)
    np.testing.assert_allclose(flow.image, new_z, atol=1e-7)


@pytest.mark.parametrize("small", [0, 128])
def test_the_method_finds_the_largest_flow(small, monkeypatch):
    monkeypatch.setattr(concurrent_flow, "SMALL", small)
    ends, graph, _ = random_edges(N, 0.4, 3, connected=True)
    c = np.random.default_rng(0).random(len(ends)) + 0.2
    network = DemandNetwork.from_graph(WeightedGraph(np.arange(N), graph, ends, c), np.ones(N))
    C = np.zeros((N, N))
    C[ends[:, 0], ends[:, 1]] = C[ends[:, 1], ends[:, 0]] = c
    with ThreadPool(2) as pool:
        flow = ConcurrentFlow(network, pool)
        state = flow.init()
        assert (len(state.paths) == 1) == bool(small)
        flow.search(state, 0.0)
        flow.split_evenly(state)
        flow.restart(state, state.x.image)
        for _ in range(60):
            flow.advance(state, 40)
            flow.search(state, 1e-9)
        congestion, sent = flow.congestion(state)
    bound = network.unit * sent / congestion.max()
    assert bound == pytest.approx(sparsest_cut_optimum(C, np.ones(N)), rel=1e-5)

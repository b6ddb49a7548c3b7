"""Correlation clustering: bounds against a general solver, clusters against enumeration."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csr_array

import metricmix as mm
from metricmix import memory
from metricmix.exceptions import ConvergenceWarning, InputError
from metricmix.nearness import correlation_clustering
from metricmix.solvers.result import Status
from reference.relaxations import clustering_cost, clustering_optimum, partitions

KINDS = ("gaussian", "signs", "sparse", "planted", "mostly_repelling", "few_values", "tiny", "huge")


def weights(kind, n, seed=0):
    """Symmetric weights with a zero diagonal."""
    rng = np.random.default_rng([n, seed, KINDS.index(kind)])
    W = rng.normal(size=(n, n))
    if kind == "signs":
        W = np.sign(W)
    elif kind == "sparse":
        W[rng.random((n, n)) < 0.7] = 0.0
    elif kind == "planted":
        y = rng.integers(0, 3, n)
        W = np.where(y[:, None] == y, 1.0, -1.0) * np.where(rng.random((n, n)) < 0.2, -1, 1)
    elif kind == "mostly_repelling":
        W -= 1.0
    elif kind == "few_values":
        W = rng.integers(-2, 3, (n, n)).astype(float)
    elif kind == "tiny":
        W *= 1e-9
    elif kind == "huge":
        W *= 10.0 ** rng.uniform(0, 6, (n, n))
    return np.triu(W, 1) + np.triu(W, 1).T


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "seed"), [(3, 0), (4, 1), (6, 2), (9, 3), (14, 4), (22, 5)])
def test_bounds_enclose_the_optimum(kind, n, seed):
    W = weights(kind, n, seed)
    optimum = clustering_optimum(W)
    result = correlation_clustering(W, signs="given", tol=1e-7, random_state=seed)
    slack = 1e-8 * max(optimum, np.abs(W).max())  # what the general solver leaves open
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= optimum + slack
    assert optimum - slack <= result.lp_objective
    assert result.lp_objective - result.lower_bound <= 1e-7 * result.lp_objective
    assert result.lower_bound == pytest.approx(optimum, rel=1e-6, abs=slack)
    assert mm.is_metric(result.metric)
    assert result.metric.max(initial=0.0) <= 1.0
    x, w = result.metric[np.triu_indices(n, 1)], W[np.triu_indices(n, 1)]
    cost = np.sum(np.where(w > 0, w * x, -w * (1 - x)))
    assert cost == pytest.approx(result.lp_objective, rel=1e-9, abs=slack)
    assert result.objective == pytest.approx(clustering_cost(W, result.labels), rel=1e-9, abs=slack)
    assert result.objective >= result.lower_bound
    assert result.lp_objective <= result.objective
    assert result.ratio >= 1.0


@pytest.mark.parametrize("kind", ["gaussian", "sparse", "planted", "mostly_repelling"])
def test_bounds_enclose_the_optimum_of_forty_items(kind):
    W = weights(kind, 40)
    optimum = clustering_optimum(W)
    result = correlation_clustering(W, signs="given", tol=1e-6, random_state=0)
    assert result.lower_bound <= optimum * (1 + 1e-9)
    assert optimum <= result.lp_objective * (1 + 1e-9)
    assert result.gap <= 1e-6


@pytest.mark.parametrize("kind", ["gaussian", "planted", "few_values", "mostly_repelling"])
@pytest.mark.parametrize("seed", range(3))
def test_no_clusters_cost_less_than_the_bound(kind, seed):
    W = weights(kind, 7, seed)
    result = correlation_clustering(W, signs="given", tol=1e-6, random_state=seed)
    best = min(clustering_cost(W, labels) for labels in partitions(7))
    assert result.lower_bound <= best + 1e-12
    assert result.objective == pytest.approx(best, abs=1e-9)  # so few items: moves find the best


def test_bounds_hold_after_every_round():
    W = weights("gaussian", 25)
    optimum = clustering_optimum(W)
    seen = []
    result = correlation_clustering(
        W, signs="given", tol=1e-6, random_state=0, callback=lambda p: seen.append(p)
    )
    lower, upper = np.array([(p.bound, p.objective) for p in seen]).T
    assert (lower <= optimum * (1 + 1e-9)).all()
    assert (upper >= optimum * (1 - 1e-9)).all()
    assert (np.diff(lower) >= 0).all()
    assert (np.diff(upper) <= 0).all()
    assert len(seen) == result.n_iter + 1 == len(result.trace)
    np.testing.assert_array_equal(result.trace.bound, lower)
    np.testing.assert_array_equal(result.trace.objective, upper)
    assert list(result.trace.to_frame()) == ["iteration", "objective", "time", "bound"]


@pytest.mark.parametrize("moves", [True, False])
def test_planted_clusters_are_recovered(moves):
    y = np.repeat(np.arange(5), [30, 20, 15, 12, 10])
    W = np.where(y[:, None] == y, 1.0, -1.0)
    W *= np.where(np.random.default_rng(0).random(W.shape) < 0.05, -1, 1)
    W = np.triu(W, 1) + np.triu(W, 1).T
    result = correlation_clustering(W, moves=moves, random_state=0)
    np.testing.assert_array_equal(result.labels, y)
    assert result.n_clusters == 5
    assert result.ratio < 1 + 1e-3  # the relaxation is exact where noise is low


def test_edges_attract_and_all_other_pairs_repel():
    graph = nx.gnp_random_graph(20, 0.3, seed=1)
    A = nx.to_numpy_array(graph)
    for resolution in (None, 0.3, 1.0, 2.5):
        W = np.where(A > 0, 1.0, -(1.0 if resolution is None else resolution))
        np.fill_diagonal(W, 0.0)
        result = correlation_clustering(graph, resolution=resolution, tol=1e-7, random_state=0)
        assert result.lower_bound == pytest.approx(clustering_optimum(W), rel=1e-6)
        assert result.objective == pytest.approx(clustering_cost(W, result.labels))


def test_jaccard_rule():
    graph = nx.connected_caveman_graph(4, 5)
    A = nx.to_numpy_array(graph)
    alike = 1.0 - np.asarray(mm.dissimilarity.jaccard(graph))
    W = np.log((1 + alike - 0.1) / (1 - alike + 0.1))
    np.fill_diagonal(W, 0.0)
    result = correlation_clustering(A, signs="jaccard", resolution=0.1, tol=1e-7, random_state=0)
    assert result.lower_bound == pytest.approx(clustering_optimum(W), rel=1e-6)
    assert result.objective == pytest.approx(clustering_cost(W, result.labels))


def test_graphs_of_every_kind_are_the_same():
    W = weights("sparse", 12)
    wanted = correlation_clustering(W, random_state=0)
    i, j = np.nonzero(np.triu(W))
    table = pd.DataFrame({"source": i, "target": j, "weight": W[i, j]})
    for graph in (
        csr_array(W),
        np.triu(W),
        nx.from_numpy_array(W),
        igraph.Graph.Weighted_Adjacency(W.tolist(), mode="undirected", loops=False),
    ):
        found = correlation_clustering(graph, random_state=0)
        np.testing.assert_array_equal(found.labels, wanted.labels)
        assert found.lower_bound == wanted.lower_bound
    assert correlation_clustering(table, nodes=12, random_state=0).objective == wanted.objective


def test_nodes_give_the_order():
    graph = nx.Graph([("b", "a"), ("a", "c"), ("b", "c"), ("c", "d")])
    result = correlation_clustering(graph, nodes=["d", "c", "b", "a"], random_state=0)
    assert result.nodes.tolist() == ["d", "c", "b", "a"]
    assert result.labels.tolist() == [0, 1, 1, 1]


def test_disconnected_parts_are_apart():
    result = correlation_clustering(nx.disjoint_union(nx.complete_graph(4), nx.complete_graph(3)))
    assert result.labels.tolist() == [0] * 4 + [1] * 3
    assert result.objective == result.lower_bound == result.gap == 0.0
    assert result.ratio == 1.0
    assert (result.metric[:4, 4:] == 1).all()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_graph_without_edges(n):
    result = correlation_clustering(csr_array((n, n)))
    assert result.labels.tolist() == list(range(n))
    assert (result.objective, result.lower_bound, result.ratio) == (0.0, 0.0, 1.0)
    np.testing.assert_array_equal(result.metric, 1 - np.eye(n))


def test_all_attract():
    result = correlation_clustering(np.ones((5, 5)), signs="given")
    assert result.labels.tolist() == [0] * 5
    assert result.objective == 0.0


def test_all_repel():
    result = correlation_clustering(-np.ones((5, 5)))
    assert result.labels.tolist() == [0, 1, 2, 3, 4]
    assert result.objective == 0.0


def test_weights_of_zero_say_nothing():
    graph = nx.Graph([(0, 1), (1, 2)])
    nx.set_edge_attributes(graph, {(0, 1): 1.0, (1, 2): 0.0}, "weight")
    graph.add_edge(0, 2, weight=-1.0)
    result = correlation_clustering(graph, random_state=0)
    assert result.objective == result.lower_bound == 0.0


def test_self_loops_are_ignored():
    W = weights("gaussian", 8)
    with_loops = W + np.diag(np.arange(8.0))
    one, other = (correlation_clustering(M, random_state=0) for M in (W, with_loops))
    assert one.lower_bound == other.lower_bound


def test_seed_decides_and_threads_do_not():
    graph = nx.gnp_random_graph(300, 0.05, seed=0)
    one, two, again = (
        correlation_clustering(graph, tol=1e-3, random_state=3, n_jobs=jobs) for jobs in (1, 2, 2)
    )
    for other in (two, again):
        assert (one.lower_bound, one.lp_objective) == (other.lower_bound, other.lp_objective)
        np.testing.assert_array_equal(one.labels, other.labels)
        np.testing.assert_array_equal(one.lengths, other.lengths)


def test_threads_that_share_steps_do_not_matter(monkeypatch):
    from metricmix.relaxations import primal_dual

    monkeypatch.setattr(primal_dual, "MIN_ENTRIES", 1)
    graph = nx.gnp_random_graph(260, 0.1, seed=0)
    one, two = (
        correlation_clustering(graph, tol=1e-2, random_state=3, n_jobs=jobs) for jobs in (1, 2)
    )
    assert (one.lower_bound, one.lp_objective) == (two.lower_bound, two.lp_objective)


def test_time_limit_and_max_iter_leave_bounds_that_hold():
    W = weights("gaussian", 30)
    optimum = clustering_optimum(W)
    for limits, status in (
        ({"time_limit": 0.0}, Status.TIME_LIMIT),
        ({"max_iter": 0}, Status.MAX_ITER),
        ({"max_iter": 2}, Status.MAX_ITER),
    ):
        with pytest.warns(ConvergenceWarning, match="certified gap"):
            result = correlation_clustering(W, tol=0.0, random_state=0, **limits)
        assert result.status is status
        assert not result.converged
        assert result.lower_bound <= optimum <= result.lp_objective <= result.objective
        assert mm.is_metric(result.metric)


def interrupted(progress):
    if progress.iteration == 1:
        raise KeyboardInterrupt


def test_interruption_keeps_what_is_there():
    W = weights("gaussian", 30)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        result = correlation_clustering(W, tol=0.0, random_state=0, callback=interrupted)
    assert result.status is Status.INTERRUPTED
    assert result.lower_bound <= clustering_optimum(W) <= result.lp_objective
    assert len(result.trace.bound) == len(result.trace.objective)


def test_callback_stops():
    result = correlation_clustering(
        weights("gaussian", 30), tol=0.0, random_state=0, callback=lambda p: p.iteration == 1
    )
    assert result.status is Status.STOPPED
    assert "certified gap" in result.message


@pytest.mark.parametrize(
    ("graph", "options", "words"),
    [
        (np.ones((3, 4)), {}, "graph: expected a sparse or square matrix"),
        (np.array([[0, 1], [2, 0]]), {"signs": "given"}, "got 1 and 2 between 1 and 0"),
        (np.array([[0, 0.5], [0.5, 0]]), {}, "got 0.5 .. 0.5; pass signs="),
        (np.array([[0, -1.0], [-1.0, 0]]), {"signs": "edges"}, "weights >= 0 with signs='edges'"),
        (nx.path_graph(3), {"signs": "given"}, "expected weights with signs='given'"),
        (np.array([[0, -np.inf], [-np.inf, 0]]), {}, "expected finite weights, got -inf"),
        (-np.ones((3, 3)), {"resolution": 2.0}, "resolution: expected None where the weights"),
        (nx.path_graph(3), {"resolution": -1.0}, "resolution: expected a number >= 0"),
        (nx.path_graph(3), {"signs": "jaccard", "resolution": 1.0}, "Jaccard coefficient > 0"),
        (nx.path_graph(3), {"signs": "jaccard", "resolution": 2.0}, "resolution: expected"),
        (nx.path_graph(3), {"signs": "plus"}, "signs: expected one of"),
        (nx.path_graph(3), {"tol": -1.0}, "tol: expected a number >= 0"),
        (nx.path_graph(3), {"trials": 0}, "trials: expected a whole number >= 1"),
        (nx.path_graph(3), {"max_iter": 1.5}, "max_iter: expected a whole number"),
        (nx.path_graph(3), {"random_state": "x"}, "random_state: expected"),
        (nx.Graph(), {}, "nodes: expected at least one node"),
        (
            mm.dissimilarity.graphs.as_graph(np.array([[0, 2.0], [2.0, 0]]), weight="length"),
            {},
            "got a Graph, which holds lengths",
        ),
    ],
)
def test_bad_input_is_named_in_one_sentence(graph, options, words):
    with pytest.raises(InputError, match=words) as caught:
        correlation_clustering(graph, **options)
    assert "\n" not in str(caught.value)


def test_a_graph_of_ours_comes_in():
    graph = mm.dissimilarity.graphs.as_graph(nx.path_graph(4))
    assert correlation_clustering(graph, random_state=0).objective == 1.0


def test_problems_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(InputError, match=r"graph: .* needs about .* are available"):
        correlation_clustering(nx.complete_graph(10))


def test_interrupted_inside_compiled_code():
    """Compiled functions turn Ctrl-C into a SystemError; it is an interruption all the same."""
    script = """
        import os, signal, threading, time, warnings
        import networkx as nx, metricmix as mm
        warnings.simplefilter("ignore")
        graph = nx.gnp_random_graph(300, 0.2, seed=0)
        for solve in (mm.nearness.correlation_clustering, mm.nearness.max_cut):
            solve(graph, max_iter=2, random_state=0)  # compiles
            for later in (0.05, 0.3):
                started = []
                def first(progress):
                    if not started:
                        started.append(True)
                        threading.Timer(later, os.kill, (os.getpid(), signal.SIGINT)).start()
                result = solve(graph, tol=1e-12, random_state=0, callback=first)
                print(result.status.name, result.gap)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["INTERRUPTED"] * 4


def test_clusters_that_cost_nothing():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        M = np.tril(rng.random((12, 12)), -1) * np.kron(np.eye(3), np.ones((4, 4)))
        result = correlation_clustering(M + M.T, signs="edges", random_state=0)
        assert (result.objective, result.ratio, result.converged) == (0.0, 1.0, True)


@pytest.mark.parametrize("huge", [1e3, 1e9, 1e16, 1e30])
def test_small_costs_beside_a_huge_weight(huge):
    """A star whose ends repel each other, lengths 1/2; and a pair that costs nothing together."""
    M = np.zeros((8, 8))
    M[1:6, 1:6] = np.eye(5) - 1.0
    M[0, 1:6] = M[1:6, 0] = 1.0
    M[6, 7] = M[7, 6] = huge
    result = correlation_clustering(M, random_state=0)
    assert result.objective == 4.0
    assert result.lp_objective == pytest.approx(2.5, rel=1e-4)
    assert result.lower_bound == pytest.approx(2.5, rel=1e-4)
    assert result.gap == (result.lp_objective - result.lower_bound) / result.lp_objective


def test_weights_that_mean_something_else():
    listed_twice = coo_array(([1.0, 1.0], ([0, 0], [1, 1])), shape=(2, 2))
    assert mm.nearness.max_cut(listed_twice).objective == 2.0
    for M, message in (
        (np.array([[0, np.inf], [np.inf, 0]]), r"expected finite weights, got inf at \(0, 1\)"),
        (np.array([[0, 1j], [1j, 0]]), "expected real weights"),
        (np.array([[0, 1e200], [1e200, 0]]), r"expected weights up to 1e\+100"),
    ):
        with pytest.raises(InputError, match=message):
            mm.nearness.max_cut(M)
    with pytest.raises(InputError, match=r"demand: expected numbers > 0, .* got 1e.200"):
        mm.nearness.sparsest_cut(np.ones((3, 3)), demand=[1e200] * 3)

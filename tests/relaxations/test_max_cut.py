"""Maximum cuts: bounds against a general solver, cuts against enumeration."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from metricmix import memory
from metricmix.exceptions import ConvergenceWarning, InputError
from metricmix.nearness import max_cut
from metricmix.solvers.result import Status
from reference.relaxations import all_cuts, max_cut_optimum, weight_cut

KINDS = ("gaussian", "ones", "sparse", "sparse_signs", "positive", "tiny", "huge")


def weights(kind, n, seed=0):
    """Symmetric weights with a zero diagonal."""
    rng = np.random.default_rng([n, seed, KINDS.index(kind)])
    W = rng.normal(size=(n, n))
    if kind == "ones":
        W = np.ones((n, n))
    elif kind == "sparse":
        W[rng.random((n, n)) < 0.7] = 0.0
    elif kind == "sparse_signs":
        W = np.sign(W) * (rng.random((n, n)) < 0.4)
    elif kind == "positive":
        W = np.abs(W) * (rng.random((n, n)) < 0.6)
    elif kind == "tiny":
        W *= 1e-9
    elif kind == "huge":
        W *= 10.0 ** rng.uniform(0, 4, (n, n))
    return np.triu(W, 1) + np.triu(W, 1).T


def is_extendable(n, edges, lengths):
    """Whether no odd cycle is broken: no item is nearer than 1 to itself on the other side."""
    far = np.full((2 * n, 2 * n), np.inf)
    np.fill_diagonal(far, 0.0)
    for (i, j), x in zip(edges, lengths, strict=True):
        for a, b, length in ((i, j, x), (i + n, j + n, x), (i, j + n, 1 - x), (i + n, j, 1 - x)):
            far[a, b] = far[b, a] = length
    for k in range(2 * n):
        far = np.minimum(far, far[:, k, None] + far[k])
    return (far[np.arange(n), np.arange(n) + n] >= 1 - 1e-9).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "seed"), [(1, 0), (2, 1), (3, 2), (5, 3), (8, 4), (13, 5), (20, 6)])
def test_bounds_enclose_the_optimum(kind, n, seed):
    W = weights(kind, n, seed)
    optimum = max_cut_optimum(W)
    result = max_cut(W, tol=1e-7, random_state=seed)
    slack = 1e-9 * np.abs(W).sum()
    assert result.status is Status.CONVERGED
    assert result.lp_objective - slack <= optimum <= result.upper_bound + slack
    assert result.upper_bound == pytest.approx(optimum, rel=1e-6, abs=slack)
    assert result.gap <= 1e-7
    i, j = result.edges.T
    assert W[i, j] @ result.lengths == pytest.approx(result.lp_objective, rel=1e-9, abs=slack)
    assert is_extendable(n, result.edges, result.lengths)
    assert result.objective == pytest.approx(weight_cut(W, result.labels), rel=1e-9, abs=slack)
    assert 0.0 <= result.objective <= result.lp_objective <= result.upper_bound
    assert result.ratio <= 1.0
    assert result.labels[0] == 0


@pytest.mark.parametrize("kind", ["gaussian", "sparse", "sparse_signs", "positive"])
@pytest.mark.parametrize("seed", range(3))
def test_no_cut_holds_more_than_the_bound(kind, seed):
    W = weights(kind, 10, seed)
    result = max_cut(W, tol=1e-6, random_state=seed)
    best = max(weight_cut(W, labels) for labels in all_cuts(10))
    assert best <= result.upper_bound
    assert result.objective == pytest.approx(best)  # so few items: moves find the best


@pytest.mark.parametrize("n", [3, 4, 7])
def test_known_values(n):
    complete = max_cut(nx.complete_graph(n), tol=1e-7)  # two thirds of everything
    assert complete.upper_bound == pytest.approx(n * (n - 1) / 3, rel=1e-6)
    assert complete.objective == n // 2 * ((n + 1) // 2)
    star = max_cut(nx.star_graph(n))
    assert star.objective == star.lp_objective == n
    odd = max_cut(nx.cycle_graph(2 * n + 1), tol=1e-7)
    assert odd.objective == 2 * n
    assert odd.upper_bound == pytest.approx(2 * n, rel=1e-6)


def test_planar_graphs_are_solved():
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(8, 8))
    rng = np.random.default_rng(0)
    for i, j in graph.edges:
        graph[i][j]["weight"] = rng.normal()
    result = max_cut(graph, tol=1e-6, random_state=0)
    assert result.ratio > 1 - 1e-6


def test_bipartite_graphs_are_cut_whole():
    result = max_cut(nx.complete_bipartite_graph(4, 6), random_state=0)
    assert result.objective == 24.0
    assert result.labels.tolist() == [0] * 4 + [1] * 6
    assert result.ratio == pytest.approx(1.0)


def test_disconnected_graph():
    result = max_cut(nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(4)), random_state=0)
    assert result.objective == 5.0
    assert result.upper_bound == pytest.approx(5.0)


@pytest.mark.parametrize("graph", [csr_array((5, 5)), -np.ones((5, 5)), np.zeros((1, 1))])
def test_nothing_to_cut(graph):
    result = max_cut(graph)
    assert result.objective == result.upper_bound == result.gap == 0.0
    assert not result.labels.any()
    assert result.ratio == 1.0


def test_single_edge():
    result = max_cut(np.array([[0, 3.0], [3.0, 0]]))
    assert (result.objective, result.upper_bound) == (3.0, pytest.approx(3.0))
    assert result.labels.tolist() == [0, 1]


def test_graphs_of_every_kind_are_the_same():
    W = weights("sparse", 12)
    wanted = max_cut(W, random_state=0)
    i, j = np.nonzero(np.triu(W))
    table = pd.DataFrame({"source": i, "target": j, "weight": W[i, j]})
    for graph in (csr_array(W), np.triu(W), nx.from_numpy_array(W)):
        found = max_cut(graph, random_state=0)
        np.testing.assert_array_equal(found.labels, wanted.labels)
        assert found.upper_bound == wanted.upper_bound
    assert max_cut(table, nodes=12, random_state=0).objective == wanted.objective


def test_seed_decides_and_threads_do_not():
    graph = nx.gnp_random_graph(260, 0.03, seed=0)
    one, two = (max_cut(graph, tol=5e-3, random_state=3, n_jobs=jobs) for jobs in (1, 2))
    assert (one.upper_bound, one.lp_objective) == (two.upper_bound, two.lp_objective)
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.lengths, two.lengths)


def test_bounds_hold_after_every_round():
    W = weights("gaussian", 20)
    optimum = max_cut_optimum(W)
    seen = []
    result = max_cut(W, tol=1e-7, random_state=0, callback=lambda p: seen.append(p))
    lower, upper = np.array([(p.objective, p.bound) for p in seen]).T
    assert (lower <= optimum * (1 + 1e-9)).all()
    assert (upper >= optimum * (1 - 1e-9)).all()
    assert (np.diff(lower) >= 0).all()
    assert (np.diff(upper) <= 0).all()
    assert len(seen) == result.n_iter + 1 == len(result.trace)
    np.testing.assert_array_equal(result.trace.bound, upper)


def test_time_limit_and_max_iter_leave_bounds_that_hold():
    W = weights("ones", 20)
    optimum = max_cut_optimum(W)
    for limits, status in (
        ({"time_limit": 0.0}, Status.TIME_LIMIT),
        ({"max_iter": 0}, Status.MAX_ITER),
        ({"max_iter": 2}, Status.MAX_ITER),
    ):
        with pytest.warns(ConvergenceWarning, match="certified gap"):
            result = max_cut(W, tol=0.0, random_state=0, **limits)
        assert result.status is status
        assert result.objective <= result.lp_objective <= optimum * (1 + 1e-9)
        assert optimum * (1 - 1e-9) <= result.upper_bound
        assert is_extendable(20, result.edges, result.lengths)


def interrupted(progress):
    if progress.iteration == 1:
        raise KeyboardInterrupt


def test_interruption_keeps_what_is_there():
    W = weights("ones", 20)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        result = max_cut(W, tol=0.0, random_state=0, callback=interrupted)
    assert result.status is Status.INTERRUPTED
    assert result.objective <= max_cut_optimum(W) <= result.upper_bound


def test_callback_stops():
    result = max_cut(weights("ones", 20), tol=0.0, callback=lambda p: p.iteration == 1)
    assert result.status is Status.STOPPED
    assert "certified gap" in result.message


@pytest.mark.parametrize(
    ("graph", "options", "words"),
    [
        (np.ones((3, 4)), {}, "graph: expected a sparse or square matrix"),
        (np.array([[0, 1], [2, 0]]), {}, "got 1 and 2 between 1 and 0"),
        (np.array([[0, -np.inf], [-np.inf, 0]]), {}, "expected finite weights, got -inf"),
        (nx.path_graph(3), {"tol": -1.0}, "tol: expected a number >= 0"),
        (nx.path_graph(3), {"trials": 0}, "trials: expected a whole number >= 1"),
        (nx.path_graph(3), {"random_state": "x"}, "random_state: expected"),
        (nx.Graph(), {}, "nodes: expected at least one node"),
    ],
)
def test_bad_input_is_named_in_one_sentence(graph, options, words):
    with pytest.raises(InputError, match=words) as caught:
        max_cut(graph, **options)
    assert "\n" not in str(caught.value)


def test_problems_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(InputError, match=r"graph: .* needs about .* are available"):
        max_cut(nx.complete_graph(10))

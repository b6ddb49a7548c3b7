"""Sparsest cuts: bounds against a general solver, cuts against enumeration."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import metricmix as mm
from metricmix import memory
from metricmix.exceptions import ConvergenceWarning, InputError
from metricmix.nearness import sparsest_cut
from metricmix.solvers.result import Status
from reference.relaxations import all_cuts, sparsest_cut_optimum, weight_cut

KINDS = ("uniform", "ones", "sparse", "tree", "planted", "tiny", "spread")


def capacities(kind, n, seed=0):
    """Symmetric capacities of a connected graph, with a zero diagonal."""
    rng = np.random.default_rng([n, seed, KINDS.index(kind)])
    C = rng.random((n, n))
    tree = np.zeros((n, n), bool)
    for i in range(1, n):
        tree[rng.integers(i), i] = True
    if kind == "ones":
        C = np.where(rng.random((n, n)) < 0.5, 1.0, 0.0)
    elif kind == "sparse":
        C[rng.random((n, n)) < 0.7] = 0.0
    elif kind == "tree":
        C[~tree] = 0.0
    elif kind == "planted":
        y = rng.integers(0, 2, n)
        C = np.where(y[:, None] == y, C, 0.05 * C)
    elif kind == "tiny":
        C *= 1e-9
    elif kind == "spread":
        C = 10.0 ** rng.uniform(0, 4, (n, n))
    C = np.where(tree, np.maximum(C, 0.1 * C.max()), C)
    return np.triu(C, 1) + np.triu(C, 1).T


def ratio_of(C, demand, labels):
    labels = np.asarray(labels)
    return weight_cut(C, labels) / (demand[labels == 0].sum() * demand[labels == 1].sum())


def best_ratio(C, demand):
    return min(ratio_of(C, demand, labels) for labels in all_cuts(len(C))[1:])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "seed"), [(2, 0), (3, 1), (4, 2), (6, 3), (9, 4), (14, 5), (20, 6)])
def test_bounds_enclose_the_optimum(kind, n, seed):
    C, demand = capacities(kind, n, seed), np.ones(n)
    optimum = sparsest_cut_optimum(C, demand)
    result = sparsest_cut(C, tol=1e-7, random_state=seed)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= optimum * (1 + 1e-9)
    assert optimum <= result.lp_objective * (1 + 1e-9)
    assert result.lower_bound == pytest.approx(optimum, rel=1e-6)
    assert result.gap <= 1e-7
    assert mm.is_metric(result.metric)
    upper = np.triu_indices(n, 1)
    assert result.metric[upper].sum() == pytest.approx(1.0)
    assert C[upper] @ result.metric[upper] == pytest.approx(result.lp_objective, rel=1e-9)
    assert result.objective == pytest.approx(ratio_of(C, demand, result.labels), rel=1e-12)
    assert result.objective >= result.lp_objective >= result.lower_bound
    assert result.ratio >= 1.0
    assert result.labels[0] == 0


@pytest.mark.parametrize("kind", ["uniform", "ones", "sparse", "planted"])
@pytest.mark.parametrize("seed", range(3))
def test_no_cut_is_sparser_than_the_bound(kind, seed):
    C = capacities(kind, 9, seed)
    result = sparsest_cut(C, tol=1e-6, random_state=seed)
    best = best_ratio(C, np.ones(9))
    assert result.lower_bound <= best <= result.objective * (1 + 1e-12)
    assert result.objective <= 1.1 * best


@pytest.mark.parametrize("seed", range(4))
def test_demands(seed):
    C = capacities("sparse", 10, seed)
    demand = np.random.default_rng(seed).uniform(0.2, 5.0, 10)
    optimum = sparsest_cut_optimum(C, demand)
    result = sparsest_cut(C, demand=demand, tol=1e-7, random_state=0)
    assert result.lower_bound == pytest.approx(optimum, rel=1e-6)
    assert result.lower_bound <= optimum * (1 + 1e-9)
    assert optimum <= result.lp_objective * (1 + 1e-9)
    assert result.lower_bound <= best_ratio(C, demand) <= result.objective * (1 + 1e-12)
    weights = np.triu(np.outer(demand, demand), 1)
    assert np.sum(weights * result.metric) == pytest.approx(1.0)


@pytest.mark.parametrize("n", [3, 5, 8])
def test_known_values(n):
    complete = sparsest_cut(nx.complete_graph(n))
    assert complete.objective == pytest.approx(1.0)
    assert complete.lower_bound == pytest.approx(1.0)
    star = sparsest_cut(nx.star_graph(n))  # n leaves: one of them is cut off
    assert star.objective == pytest.approx(1.0 / n)
    assert star.lower_bound == pytest.approx(1.0 / n)
    path = sparsest_cut(nx.path_graph(2 * n))
    assert path.labels.tolist() == [0] * n + [1] * n
    assert path.objective == pytest.approx(1.0 / n**2)
    assert path.lower_bound == pytest.approx(1.0 / n**2)


def test_planted_cut_is_found():
    graph = nx.planted_partition_graph(2, 60, 0.3, 0.02, seed=0)
    result = sparsest_cut(graph, tol=1e-2, random_state=0)
    assert result.labels.tolist() == [0] * 60 + [1] * 60
    assert result.ratio < 1.02


def test_disconnected_graph():
    graph = nx.disjoint_union(nx.complete_graph(4), nx.path_graph(3))
    result = sparsest_cut(graph)
    assert result.labels.tolist() == [0] * 4 + [1] * 3
    assert result.objective == result.lower_bound == result.lp_objective == result.gap == 0.0
    assert result.ratio == 1.0
    assert result.converged
    assert mm.is_metric(result.metric)
    assert np.triu(result.metric).sum() == pytest.approx(1.0)
    assert not result.metric[:4, :4].any()


def test_single_edge():
    result = sparsest_cut(np.array([[0, 3.0], [3.0, 0]]))
    assert result.objective == 3.0
    assert result.lower_bound == pytest.approx(3.0)
    np.testing.assert_allclose(result.metric, [[0, 1], [1, 0]])


def test_capacities_of_zero_are_no_edges():
    C = capacities("uniform", 6)
    C[:3, 3:] = C[3:, :3] = 0.0
    assert sparsest_cut(C).objective == 0.0
    assert sparsest_cut(csr_array((4, 4))).objective == 0.0
    graph = nx.path_graph(3)
    nx.set_edge_attributes(graph, 0.0, "weight")
    assert sparsest_cut(graph).labels.tolist() == [0, 1, 1]


def test_graphs_of_every_kind_are_the_same():
    C = capacities("sparse", 12)
    wanted = sparsest_cut(C, random_state=0)
    i, j = np.nonzero(np.triu(C))
    table = pd.DataFrame({"source": i, "target": j, "weight": C[i, j]})
    for graph in (csr_array(C), np.triu(C), nx.from_numpy_array(C)):
        found = sparsest_cut(graph, random_state=0)
        np.testing.assert_array_equal(found.labels, wanted.labels)
        assert found.lower_bound == wanted.lower_bound
    assert sparsest_cut(table, nodes=12, random_state=0).objective == wanted.objective


def test_nodes_give_the_order():
    result = sparsest_cut(nx.Graph([("b", "a"), ("b", "c"), ("c", "d")]), nodes=list("dcba"))
    assert result.nodes.tolist() == ["d", "c", "b", "a"]
    assert result.labels.tolist() == [0, 0, 1, 1]


def test_seed_decides_and_threads_do_not():
    graph = nx.connected_watts_strogatz_graph(260, 6, 0.2, seed=0)
    with pytest.warns(ConvergenceWarning):
        one, two = (
            sparsest_cut(graph, tol=1e-5, max_iter=3, random_state=3, n_jobs=jobs)
            for jobs in (1, 2)
        )
    assert (one.lower_bound, one.lp_objective) == (two.lower_bound, two.lp_objective)
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.lengths, two.lengths)


def test_bounds_hold_after_every_round():
    C = capacities("sparse", 24)
    optimum = sparsest_cut_optimum(C, np.ones(24))
    seen = []
    result = sparsest_cut(C, tol=1e-7, random_state=0, callback=lambda p: seen.append(p))
    lower, upper = np.array([(p.bound, p.objective) for p in seen]).T
    assert (lower <= optimum * (1 + 1e-9)).all()
    assert (upper >= optimum * (1 - 1e-9)).all()
    assert (np.diff(lower) >= 0).all()
    assert (np.diff(upper) <= 0).all()
    assert len(seen) == result.n_iter + 1 == len(result.trace)
    np.testing.assert_array_equal(result.trace.bound, lower)


def test_time_limit_and_max_iter_leave_bounds_that_hold():
    C = capacities("uniform", 24)
    optimum = sparsest_cut_optimum(C, np.ones(24))
    for limits, status in (
        ({"time_limit": 0.0}, Status.TIME_LIMIT),
        ({"max_iter": 0}, Status.MAX_ITER),
        ({"max_iter": 2}, Status.MAX_ITER),
    ):
        with pytest.warns(ConvergenceWarning, match="certified gap"):
            result = sparsest_cut(C, tol=0.0, random_state=0, **limits)
        assert result.status is status
        assert 0 < result.lower_bound <= optimum <= result.lp_objective * (1 + 1e-9)
        assert result.lp_objective <= result.objective
        assert mm.is_metric(result.metric)


def interrupted(progress):
    if progress.iteration == 1:
        raise KeyboardInterrupt


def test_interruption_keeps_what_is_there():
    C = capacities("uniform", 24)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        result = sparsest_cut(C, tol=0.0, random_state=0, callback=interrupted)
    assert result.status is Status.INTERRUPTED
    optimum = sparsest_cut_optimum(C, np.ones(24))
    assert result.lower_bound <= optimum <= result.lp_objective * (1 + 1e-9)


def test_callback_stops():
    C = capacities("uniform", 24)
    result = sparsest_cut(C, tol=0.0, callback=lambda p: p.iteration == 1)
    assert result.status is Status.STOPPED
    assert "certified gap" in result.message


@pytest.mark.parametrize(
    ("graph", "options", "words"),
    [
        (np.array([[0, -1.0], [-1.0, 0]]), {}, "capacities >= 0, got -1 between 1 and 0"),
        (np.zeros((1, 1)), {}, "graph: expected at least two items"),
        (np.array([[0, 1], [2, 0]]), {}, "got 1 and 2 between 1 and 0"),
        (np.array([[0, -np.inf], [-np.inf, 0]]), {}, "expected finite weights, got -inf"),
        (nx.path_graph(3), {"demand": [1.0, 2.0]}, "demand: expected 3 numbers, one per item"),
        (
            nx.path_graph(3),
            {"demand": [1.0, 0.0, 2.0]},
            "demand: expected numbers > 0, from 1e-100 to .* got 0 at 1",
        ),
        (nx.path_graph(3), {"demand": [1.0, np.nan, 2.0]}, "demand: expected numbers > 0"),
        (nx.path_graph(3), {"tol": -1.0}, "tol: expected a number >= 0"),
        (nx.path_graph(3), {"trials": -1}, "trials: expected a whole number >= 0"),
        (nx.path_graph(3), {"random_state": "x"}, "random_state: expected"),
    ],
)
def test_bad_input_is_named_in_one_sentence(graph, options, words):
    with pytest.raises(InputError, match=words) as caught:
        sparsest_cut(graph, **options)
    assert "\n" not in str(caught.value)


def test_problems_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(InputError, match=r"graph: .* needs about .* are available"):
        sparsest_cut(nx.complete_graph(10))

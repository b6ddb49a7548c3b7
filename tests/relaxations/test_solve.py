"""What all relaxations share: options, traces, states."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import metricmix as mm
from metricmix.exceptions import ConvergenceWarning, InputError
from metricmix.kernels.threads import ThreadPool
from metricmix.relaxations import solve as module
from metricmix.relaxations.correlation_clustering import ClusteringLP
from metricmix.relaxations.max_cut import MaxCutLP
from metricmix.relaxations.solve import Relaxation
from metricmix.relaxations.sparsest_cut import SparsestCutLP, check_network
from metricmix.relaxations.state import Best
from metricmix.relaxations.weighted_graphs import read_signed_graph, read_weighted_graph
from metricmix.solvers.loop import run
from metricmix.solvers.result import Progress, SolveResult, Status

GRAPH = nx.gnp_random_graph(24, 0.3, seed=2)
FUNCTIONS = [
    mm.relaxations.correlation_clustering,
    mm.relaxations.sparsest_cut,
    mm.relaxations.max_cut,
]
SOLVERS = [
    (ClusteringLP, lambda: read_signed_graph(GRAPH, None, "auto", None)),
    (SparsestCutLP, lambda: check_network(read_weighted_graph(GRAPH, None), None)),
    (MaxCutLP, lambda: read_weighted_graph(GRAPH, None)),
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_are_those_of_every_solver(function):
    result = function(GRAPH, random_state=0)
    assert isinstance(result, Relaxation)
    assert isinstance(result, SolveResult)
    assert repr(result).startswith(f"{type(result).__name__}(objective={result.objective:.6g}, ")
    assert result.trace.objective[-1] == result.lp_objective
    maximised = function is mm.relaxations.max_cut
    bound = result.upper_bound if maximised else result.lower_bound
    assert result.trace.bound[-1] == bound
    assert (result.lower_bound is None) == (result.metric is None) == maximised


@pytest.mark.parametrize("function", FUNCTIONS)
def test_callbacks_receive_progress(function):
    seen = []
    result = function(GRAPH, tol=1e-7, random_state=0, callback=seen.append, check_every=2)
    assert all(isinstance(progress, Progress) for progress in seen)
    assert [progress.bound for progress in seen] == result.trace.bound
    assert [progress.gap for progress in seen][-1] == pytest.approx(result.gap, abs=1e-9)
    assert all(progress.iteration % 2 == 0 for progress in seen)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_options_that_are_refused(function):
    with pytest.raises(InputError, match="checkpoint: unknown argument; a run takes max_iter"):
        function(GRAPH, checkpoint="run.npz")
    with pytest.raises(InputError, match="max_iters: unknown argument"):
        function(GRAPH, max_iters=3)
    with pytest.raises(InputError, match="callback: expected a function"):
        function(GRAPH, callback=3)


@pytest.mark.parametrize(("relaxation", "read"), SOLVERS)
def test_solvers_have_no_state_of_their_own(relaxation, read):
    with ThreadPool(1) as pool:
        solver = relaxation(read(), pool, 1e-6)
        before = set(vars(solver))
        first, second = (run(solver, np.random.default_rng(0), max_iter=20) for _ in range(2))
        assert set(vars(solver)) == before
        fresh = run(relaxation(read(), pool, 1e-6), np.random.default_rng(0), max_iter=20)
    for other in (second, fresh):
        assert other.trace.objective == first.trace.objective
        assert other.trace.bound == first.trace.bound
        np.testing.assert_array_equal(other.state.best.lengths, first.state.best.lengths)
        assert other.state is not first.state


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_run_that_stalls(function, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 3)
    with pytest.warns(ConvergenceWarning, match="neither bound changes any more"):
        result = function(GRAPH, tol=0.0, random_state=0)
    assert result.status is Status.STALLED
    assert result.gap < 1e-9


def test_the_best_so_far():
    best = Best(0.0, 5.0, np.zeros(2), np.zeros(3, np.int32), 6.0)
    best.offer(5.0, np.ones(2))
    assert best.lengths.tolist() == [0.0, 0.0]
    best.offer(4.0, np.ones(2))
    assert (best.cost, best.lengths.tolist()) == (4.0, [1.0, 1.0])
    best.raise_bound(3.0)
    best.raise_bound(2.0)
    assert best.bound == 3.0
    best.raise_bound(7.0)  # rounding errors do not lift the bound above the cost
    assert best.bound == 4.0

"""Limits hold: every solver reads the clock inside its rounds, and ends soon after Ctrl-C."""

from __future__ import annotations

import functools
import math
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

import metricmix as mm
from metricmix.kernels import deadline, threads
from metricmix.nearness.dual_ascent import DualAscent
from metricmix.nearness.norms.linf import LInfinitySolver
from metricmix.nearness.projected_gradient import ProjectedGradient
from metricmix.nearness.splitting import Splitting
from metricmix.relaxations.correlation_clustering import ClusteringLP
from metricmix.relaxations.max_cut import MaxCutLP
from metricmix.relaxations.sparsest_cut import SparsestCutLP
from metricmix.solvers.result import Status


@functools.cache
def dissimilarity(n: int, seed: int = 0) -> np.ndarray:
    """Return distances of points with heavy noise: many violated triangles."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 3))
    D = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2)) * rng.lognormal(0.0, 0.7, (n, n))
    D = np.tril(D, -1)
    return D + D.T


@functools.cache
def stack(n: int, R: int = 5) -> mm.DissimilarityStack:
    """Return noisy sources."""
    return mm.DissimilarityStack([dissimilarity(n, seed) for seed in range(R)])


@functools.cache
def random_graph(n: int, m: int) -> nx.Graph:
    """Return a connected graph with m edges."""
    rng = np.random.default_rng(0)
    graph = nx.path_graph(n)
    graph.add_edges_from(rng.integers(n, size=(m - n, 2)).tolist())
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


@functools.cache
def signed_graph(n: int, m: int) -> np.ndarray:
    """Return a sparse matrix of weights of both signs."""
    from scipy.sparse import coo_array

    rng = np.random.default_rng(0)
    i, j = rng.integers(n, size=(2, m))
    low, high = np.minimum(i, j), np.maximum(i, j)
    pairs = np.unique(np.stack([low, high], axis=1)[low < high], axis=0)
    w = rng.normal(0.3, 1.0, len(pairs))
    matrix = coo_array((w, tuple(pairs.T)), shape=(n, n))
    return (matrix + matrix.T).tocsr()


class Absolute(mm.objectives.Objective):
    """Mean absolute difference from a target: convex, not smooth."""

    convex = True

    def __init__(self, target):
        super().__init__(rho=0.0)
        self.target = target

    def check(self, n):
        pass

    def n_terms(self, n):
        return n * (n - 1) // 2

    def pairs(self, terms, n):
        i = ((1 + np.sqrt(1 + 8.0 * terms)) / 2).astype(np.int64)
        i -= i * (i - 1) // 2 > terms
        return i[:, None], (terms - i * (i - 1) // 2)[:, None]

    def evaluate(self, terms, d, n):
        i, j = self.pairs(terms, n)
        off = d - self.target[i, j]
        return np.abs(off[:, 0]), np.sign(off)


# -- one call of every solver, by the number of items ---------------------------------------------


def nearest(norm, **bounds):
    def prepare(n):
        D = dissimilarity(n)
        given = {name: bound(D) for name, bound in bounds.items()}
        return functools.partial(mm.nearest_metric, D, norm, tol=0.0, **given)

    return prepare


def minimize(method, **settings):
    def prepare(n):
        objective, sources = mm.objectives.LeastSquares(dissimilarity(n, 99)), stack(n)
        return functools.partial(
            mm.minimize, objective, sources, method, random_state=0, **settings
        )

    return prepare


def over_metrics(method, kind=mm.objectives.LeastSquares):
    def prepare(n):
        objective, start = kind(dissimilarity(n)), dissimilarity(n, 1)
        return functools.partial(mm.minimize_metric, objective, start, method, random_state=0)

    return prepare


def relaxation(function, graph, degree, **settings):
    def prepare(n):
        given = graph(n, min(degree * n, n * n // 4) // 2)
        return functools.partial(function, given, tol=0.0, random_state=0, **settings)

    return prepare


CLUSTERING = mm.relaxations.correlation_clustering
BOUNDS = {"lower": lambda D: 0.5 * D, "upper": lambda D: D + 2.0 * D.max()}
SOLVERS = {
    "max_cut": (MaxCutLP, relaxation(mm.relaxations.max_cut, random_graph, 6), 5000),
    "clustering": (ClusteringLP, relaxation(CLUSTERING, signed_graph, 8), 100_000),
    "clustering, dense": (
        ClusteringLP,
        relaxation(CLUSTERING, signed_graph, 200),
        3000,
    ),
    "sparsest_cut": (SparsestCutLP, relaxation(mm.relaxations.sparsest_cut, random_graph, 6), 1500),
    "nearest l2": (DualAscent, nearest("l2"), 1500),
    "nearest l2, bounds": (DualAscent, nearest("l2", **BOUNDS), 1500),
    "nearest l1": (DualAscent, nearest("l1"), 1500),
    "nearest increase": (DualAscent, nearest("increase"), 1500),
    "nearest linf": (LInfinitySolver, nearest("linf"), 3000),
    "nearest decrease": (None, nearest("decrease"), 3000),
    "stochastic": (mm.solvers.Stochastic, minimize("stochastic"), 3000),
    "stochastic, held-out": (
        mm.solvers.Stochastic,
        minimize(mm.solvers.Stochastic(n_validation=200, checked=True)),
        1500,
    ),
    "full": (mm.solvers.LBFGS, minimize("full"), 1500),
    "full, simplex": (mm.solvers.LBFGS, minimize("full", constraint="simplex"), 1500),
    "full, soft": (mm.solvers.LBFGS, minimize(mm.solvers.LBFGS(temperature=5.0)), 1500),
    "full, unprojected": (mm.solvers.LBFGS, minimize("full", projection=False), 3000),
    "cutting-plane": (mm.solvers.CuttingPlane, minimize("cutting-plane"), 3000),
    "cutting-plane, nonnegative": (
        mm.solvers.CuttingPlane,
        minimize("cutting-plane", constraint="nonnegative"),
        3000,
    ),
    "metric, paths": (mm.solvers.PathDescent, over_metrics("paths"), 3000),
    "metric, projected": (ProjectedGradient, over_metrics("projected"), 800),
    "metric, splitting": (Splitting, over_metrics("projected", Absolute), 800),
}


def quietly(call, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ConvergenceWarning)
        return call(**options)


def check_result(result):
    """Check what holds however a run ended."""
    assert math.isfinite(result.objective)
    small = not isinstance(result, mm.relaxations.Relaxation) or len(result.labels) < 5000
    if small and result.metric is not None:
        assert mm.is_metric(result.metric)
    if result.weights is not None:
        assert np.isfinite(result.weights).all()
    if result.lower_bound is not None:
        assert result.lower_bound <= result.objective
    if isinstance(result, mm.relaxations.MaxCut):
        assert result.upper_bound >= result.objective


# -- a clock that jumps while a round is under way ------------------------------------------------


@pytest.mark.parametrize("method", ["init", "check", "step"])
@pytest.mark.parametrize("name", [name for name, case in SOLVERS.items() if case[0]])
def test_the_clock_is_read_inside_rounds(name, method, monkeypatch):
    solver, prepare, _ = SOLVERS[name]
    call = prepare(30)
    jump, calls, given_up = 0.0, 0, False
    original = getattr(solver, method)

    def late(*args):
        nonlocal jump, calls, given_up
        calls += 1
        jump = 1e6  # a week and a half passes
        try:
            return original(*args)
        except deadline.TimeUp:
            given_up = True
            raise

    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + jump)
    monkeypatch.setattr(deadline, "time", clock)
    monkeypatch.setattr(solver, method, late)
    result = quietly(call, time_limit=1000.0)
    assert calls == 1
    assert result.status is Status.TIME_LIMIT
    assert result.n_iter == 0
    assert given_up or method != "step"
    monkeypatch.undo()
    check_result(result)


@pytest.mark.parametrize("norm", ["decrease", "l2", "l1"])
def test_no_time_for_the_bounds(norm, monkeypatch):
    clock = SimpleNamespace(perf_counter=iter(range(0, 10**9, 10**6)).__next__)
    monkeypatch.setattr(deadline, "time", clock)
    D = dissimilarity(20)
    result = quietly(mm.nearest_metric, D=D, norm=norm, upper=2.0 * D, time_limit=1.0)
    monkeypatch.undo()
    assert result.status is Status.TIME_LIMIT
    assert (result.metric <= 2.0 * D).all()
    check_result(result)


def test_bounds_that_need_more_time(monkeypatch):
    clock = SimpleNamespace(perf_counter=iter(range(0, 10**9, 10**6)).__next__)
    monkeypatch.setattr(deadline, "time", clock)
    D = dissimilarity(20)
    with pytest.raises(mm.InputError, match="time_limit: expected enough time to find a metric"):
        mm.nearest_metric(D, lower=0.9 * D, upper=2.0 * D, time_limit=1.0)


def test_no_time_to_refine(monkeypatch):
    D = dissimilarity(20)
    result = mm.nearest_metric(D, "linf")
    clock = SimpleNamespace(perf_counter=iter(range(0, 10**9, 10**6)).__next__)
    monkeypatch.setattr(deadline, "time", clock)
    assert mm.nearness.refine_linf(D, result, time_limit=1.0) is result
    with pytest.raises(mm.InputError, match="time_limit: expected a number >= 0"):
        mm.nearness.refine_linf(D, result, time_limit=-1.0)


def test_work_in_other_threads_stops_too():
    done = []

    def task(k):
        if k == 0:
            raise KeyboardInterrupt
        for _ in range(1000):
            deadline.check_time()
            time.sleep(0.001)
        done.append(k)

    with threads.ThreadPool(3) as pool, pytest.raises(KeyboardInterrupt):
        pool.run(task, range(9))
    assert len(done) < 3


def test_calls_in_the_background_are_left_alone_when_time_is_up(monkeypatch):
    monkeypatch.setattr(deadline, "OVERTIME", 0.0)
    with deadline.stop_after(0.0), pytest.raises(deadline.TimeUp):
        threads.call_in_background(time.sleep, 0.2)
    with pytest.raises(ZeroDivisionError):
        threads.call_in_background(lambda: 1 / 0)


def test_the_first_of_nested_limits_counts():
    with deadline.stop_after(1e3), deadline.stop_after(None), deadline.stop_after(1e6):
        assert deadline.time_left() < 1e4
        assert not deadline.time_is_up()
    assert deadline.time_left() == math.inf


# -- limits of large problems, by the real clock --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_time_limits_hold(name):
    _, prepare, n = SOLVERS[name]
    quietly(prepare(200), max_iter=30)  # compiles
    call = prepare(n)
    for limit in (1.0, 3.0, 5.0):
        started = time.perf_counter()
        result = quietly(call, time_limit=limit)
        seconds = time.perf_counter() - started
        print(f"{name}: {limit:g} s, took {seconds:.2f}, {result.status.name}")
        assert seconds <= 1.1 * limit + 1.0
        check_result(result)


CHILD = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, sys.argv[2])
import test_limits as t
_, prepare, n = t.SOLVERS[sys.argv[1]]
t.quietly(prepare(200), max_iter=30)
call = prepare(n)
print("running", flush=True)
try:
    print(t.quietly(call, max_iter=10**6).status.name, flush=True)
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", SOLVERS)
def test_interruptions_are_heard_within_a_second(name, seed):
    folder = str(Path(__file__).parent)
    wait = float(np.random.default_rng([seed, len(name)]).uniform(0.1, 4.0))
    command = [sys.executable, "-c", CHILD, name, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "running\n"
        time.sleep(wait)
        child.send_signal(signal.SIGINT)
        started = time.perf_counter()
        status = child.stdout.readline().strip()
        seconds = time.perf_counter() - started
    print(f"{name}: {status} after {seconds:.2f} s")
    assert status in {"INTERRUPTED", "KeyboardInterrupt", "CONVERGED", "NO_INTERIOR"}
    assert seconds < 1.0

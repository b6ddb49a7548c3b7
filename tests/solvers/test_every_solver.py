"""What every solver of `minimize` declares, from one table: settings, facts, result."""

from __future__ import annotations

import dataclasses
import functools
import inspect

import numpy as np
import pytest

import metricmix as mm
from metricmix.solvers.linear_model import LinearModel
from metricmix.solvers.loop import RunOptions, Solver
from metricmix.solvers.minimize import METHODS
from metricmix.solvers.problem import Problem
from metricmix.solvers.unprojected import UnprojectedProblem

N, R = 9, 3
STACK = mm.DissimilarityStack(
    [mm.dissimilarity.features(X) for X in np.random.default_rng(0).normal(size=(R, N, 4))]
)
TARGET = STACK.source(0) + 0.5 * STACK.source(1)
OBJECTIVE = mm.objectives.LeastSquares(TARGET, rho=1e-3)
MODELS = {
    **{name: LinearModel for name, kind in METHODS.items() if kind.linear},
    "newton": UnprojectedProblem,
}
ITERATIVE = [name for name, kind in METHODS.items() if issubclass(kind, Solver)]


@pytest.fixture(params=METHODS)
def kind(request):
    if request.param == "direct":
        pytest.importorskip("cvxpy")
    return METHODS[request.param]


def is_cached_property(member):
    return isinstance(member, functools.cached_property)


def settings(kind):
    return [field for field in dataclasses.fields(kind) if field.init]


def test_it_is_a_frozen_object_of_documented_settings(kind):
    solver = kind()
    assert solver == kind()
    assert kind.__name__ in mm.solvers.__all__
    documented = inspect.getdoc(kind).split("Parameters")[1]
    for field in settings(kind):
        assert field.name in documented
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(solver, field.name, getattr(solver, field.name))


def test_a_solver_of_a_test():
    @METHODS.register("patient", words="as full, with more steps")
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Patient(mm.solvers.LBFGS):
        """L-BFGS under another name."""

    try:
        assert Patient.method == "patient"
        assert mm.solvers.LBFGS.method == "full"
        one, other = (mm.minimize(OBJECTIVE, STACK, name) for name in ("patient", "full"))
        assert np.array_equal(one.weights, other.weights)
        assert mm.MetricMixture(method="patient", objective=OBJECTIVE).fit(TARGET).weights_.size
    finally:
        METHODS.unregister("patient")
    with pytest.raises(mm.InputError, match=r"^method: expected one of 'stochastic', .*'patient'"):
        mm.minimize(OBJECTIVE, STACK, "patient")


def test_it_is_called_by_its_name(kind):
    assert METHODS[kind.method] is kind
    few = {"max_iter": 50} if kind.method == "stochastic" else {}
    one = mm.minimize(OBJECTIVE, STACK, kind.method, random_state=0, **few)
    other = mm.minimize(OBJECTIVE, STACK, kind(), random_state=0, **few)
    assert np.array_equal(one.weights, other.weights)


def test_the_result_is_that_of_its_model(kind):
    result = mm.minimize(OBJECTIVE, STACK, kind(), random_state=0)
    assert result.converged
    assert result.objective_kind == "exact"
    assert result.mixture.link == ("identity" if kind.linear else "softplus")
    d = mm.path_metric(STACK, result.mixture)
    off = d - TARGET
    ridge = OBJECTIVE.rho * float(result.weights @ result.weights)
    assert result.objective == pytest.approx(np.mean(off**2) + ridge, rel=1e-6, abs=1e-9)
    assert (result.violation is not None) == kind.linear
    assert (result.gap is None) == (result.lower_bound is None) == (not result.trace.bound)
    if result.gap is not None:
        assert result.lower_bound <= result.objective


def test_a_start_is_refused_where_it_does_not_matter(kind):
    if kind.takes_start:
        few = {"max_iter": 50} if kind.method == "stochastic" else {}
        mm.minimize(OBJECTIVE, STACK, kind(), start=[0.3] * R, random_state=0, **few)
    else:
        with pytest.raises(mm.InputError, match="start: not an argument"):
            mm.minimize(OBJECTIVE, STACK, kind(), start=[0.3] * R)


def test_options_of_a_run(kind):
    given = {"max_iter": 3, "time_limit": 9.0, "check_every": 2, "callback": lambda progress: False}
    assert given.keys() < RunOptions.__annotations__.keys()
    for name, value in given.items():
        if kind.method in ITERATIVE or name in kind.takes:
            continue
        with pytest.raises(mm.InputError, match=f"{name}: not an argument of method"):
            mm.minimize(OBJECTIVE, STACK, kind(), **{name: value})


@pytest.mark.parametrize("method", ITERATIVE)
def test_facts_for_the_loop(method):
    problem = MODELS.get(method, Problem)(OBJECTIVE, STACK)
    solver = METHODS[method]().bind(problem, np.full(R, 1 / R))
    assert dataclasses.is_dataclass(solver.state_type)
    assert solver.returns in ("best", "last", "mean")
    assert 1 <= solver.default_check_every(1000) <= 1000
    assert solver.default_max_iter >= 100
    rng = np.random.default_rng(0)
    state, _ = solver.check(solver.init(rng))
    assert type(state) is solver.state_type
    solver.step(state, 0, rng)
    held = {field.name for field in dataclasses.fields(solver)}
    cached = {name for name, _ in inspect.getmembers(type(solver), is_cached_property)}
    assert set(vars(solver)) <= held | cached  # everything that changes is in the state


@pytest.mark.parametrize("method", ITERATIVE)
def test_an_interrupted_run_is_resumed_to_the_same_result(method, tmp_path):
    def interrupt(progress):
        if progress.iteration == 1:
            raise KeyboardInterrupt

    options = {"random_state": 0, "max_iter": 20, "check_every": 1}
    whole = mm.minimize(OBJECTIVE, STACK, method, **options)
    file = tmp_path / "run.npz"
    with pytest.warns(mm.ConvergenceWarning, match="interrupted"):
        mm.minimize(OBJECTIVE, STACK, method, callback=interrupt, checkpoint=file, **options)
    rest = mm.minimize(OBJECTIVE, STACK, method, checkpoint=file, **options)
    assert whole.weights.tobytes() == rest.weights.tobytes()
    assert whole.trace.objective == rest.trace.objective
    assert whole.trace.bound == rest.trace.bound

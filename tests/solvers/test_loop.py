"""One grid, solvers x problems: what the loop promises must hold for every cell of it.

A new solver or problem is one more line in a table and inherits every test.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.mixture import edge_lengths
from metricmix.solvers import Status, checkpoint
from metricmix.solvers.checkpoint import FORMAT
from metricmix.solvers.loop import Certificate, Solver, run
from metricmix.solvers.matrix_descent import move_edges
from metricmix.solvers.problem import Problem
from reference.flat import minimize, minimize_metric
from reference.instances import random_sources
from reference.paths import all_distances

N, R = 10, 3


def make_stack(seed=0, **options):
    names = ["first", "second", "third"]
    return mm.DissimilarityStack(
        random_sources(np.random.default_rng(seed), N, R), names, **options
    )


STACK = make_stack()
LABELS = np.array([0, 1, 2, 0, 1, 2, 0, 1, -1, -1])


def least_squares():
    target = all_distances(edge_lengths(STACK, [1.5, -0.5, 0.8]).matrix())
    return mm.objectives.LeastSquares(target, rho=1e-3)


def label_contrast():
    return mm.objectives.LabelContrast(LABELS, rho=0.05)


def balanced_contrast():
    return mm.objectives.LabelContrast(LABELS, rho=0.05, balanced=True)


def triplets():
    rng = np.random.default_rng(4)
    triples = np.array([rng.choice(N, 3, replace=False) for _ in range(40)])
    return mm.objectives.Triplets(triples, rho=0.02, margin=0.5)


def robust():
    """Not convex: a bounded loss around distance 2."""
    return mm.objectives.Separable(
        value=lambda d, i, j: 1.0 - np.exp(-((d - 2.0) ** 2)),
        derivative=lambda d, i, j: 2.0 * (d - 2.0) * np.exp(-((d - 2.0) ** 2)),
        rho=1e-3,
    )


@dataclass(frozen=True)
class Method:
    """How to call a solver, and how many steps make a short run of it."""

    steps: int
    every: int
    options: dict[str, Any]
    whole: bool = False
    runs: dict[str, mm.SolveResult] = field(default_factory=dict)

    def reference(self, objective):
        """The undisturbed run, made once."""
        key = objective.fingerprint()
        if key not in self.runs:
            self.runs[key] = self(objective)
        return self.runs[key]

    def __call__(self, objective, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mm.ConvergenceWarning)
            return self.run(objective, **options)

    def run(self, objective, **options):
        settings = {
            "max_iter": self.steps,
            "check_every": self.every,
            "random_state": 5,
            **self.options,
            **options,
        }
        if self.whole:
            return minimize_metric(objective, np.ones((N, N)), **settings)
        return minimize(objective, STACK, **settings)


SOLVERS = {
    "stochastic": Method(60, 7, {"batch_size": 16, "learning_rate": 0.05}),
    "averaged": Method(60, 8, {"batch_size": 16, "optimizer": "sgd", "averaging": True}),
    "checked": Method(40, 6, {"batch_size": 8, "n_validation": 20, "checked": True}),
    "early": Method(90, 6, {"batch_size": 16, "n_validation": 25, "tol": 3e-3, "patience": 3}),
    "full": Method(20, 1, {"method": "full"}),
    "full-soft": Method(10, 1, {"method": "full", "temperature": 9.0}),
    "full-simplex": Method(10, 1, {"method": "full", "constraint": "simplex"}),
    "whole": Method(60, 9, {"batch_size": 12, "learning_rate": 0.05}, whole=True),
    "whole-tol": Method(90, 9, {"learning_rate": 0.05, "tol": 0.1, "patience": 2}, whole=True),
}
PROBLEMS = {
    "least-squares": least_squares,
    "label-contrast": balanced_contrast,
    "triplets": triplets,
    "robust": robust,
}


@pytest.fixture(params=SOLVERS)
def solver(request):
    return SOLVERS[request.param]


@pytest.fixture(params=PROBLEMS)
def objective(request):
    return PROBLEMS[request.param]()


@pytest.fixture(
    params=[
        pytest.param(name, marks=[] if name == "triplets" else pytest.mark.slow)
        for name in PROBLEMS
    ]
)
def any_objective(request):
    """For what the loop does with any problem: one of them, and all among the slow tests."""
    return PROBLEMS[request.param]()


def answer(result):
    """What was learned, as one array."""
    return result.metric if result.metric is not None else result.weights


def assert_same_run(one, other):
    assert answer(one).tobytes() == answer(other).tobytes()
    assert one.objective == other.objective
    assert (one.status, one.n_iter) == (other.status, other.n_iter)
    assert one.trace.iteration == other.trace.iteration
    assert one.trace.objective == other.trace.objective
    assert np.array_equal(one.trace.weights, other.trace.weights)


def mean_over_terms(objective, d):
    """The objective without its ridge, by its definition."""
    terms = np.arange(objective.n_terms(len(d)))
    i, j = objective.pairs(terms, len(d))
    value, _ = objective.evaluate(terms, d[i, j], len(d))
    return float(value @ objective.probabilities(terms, len(d)))


# -- the grid ------------------------------------------------------------------------------------


def test_objective_falls(solver, objective):
    before = solver(objective, max_iter=0)
    after = solver.reference(objective)
    if "n_validation" in solver.options:
        # Judged on few held-out terms, it may rightly stay where it started.
        assert min(after.trace.objective) <= before.trace.objective[0]
    else:
        assert after.objective < before.objective - 1e-4


def test_result_is_what_it_says(solver, objective):
    result = solver.reference(objective)
    assert result.objective_kind == ("soft" if "temperature" in solver.options else "exact")
    assert result.message == result.status.value
    if result.metric is not None:
        assert mm.is_metric(result.metric)
        assert result.weights is None
        assert result.mixture is None
        return
    assert result.metric is None
    assert result.mixture.names == STACK.names
    if "temperature" in solver.options:
        return
    d = all_distances(edge_lengths(STACK, result.mixture).matrix())
    ridge = objective.rho * float(result.weights @ result.weights)
    assert result.objective == pytest.approx(mean_over_terms(objective, d) + ridge, rel=1e-10)


def test_same_seed_same_run(solver, objective):
    assert_same_run(solver.reference(objective), solver(objective))


def test_threads_change_nothing(solver, any_objective):
    assert_same_run(solver(any_objective, n_jobs=1), solver(any_objective, n_jobs=2))


def test_trace_has_one_entry_per_check(solver, any_objective):
    result = solver.reference(any_objective)
    trace = result.trace
    checks = list(range(0, result.n_iter + 1, solver.every))
    if result.n_iter % solver.every and result.n_iter == solver.steps:
        checks.append(result.n_iter)  # the last step is always looked at
    assert trace.iteration == checks
    assert len(trace) == len(checks) == len(trace.objective) == len(trace.time)
    assert len(trace.weights) == (0 if solver.whole else len(checks))
    assert np.isfinite(trace.objective).all()
    assert trace.time == sorted(trace.time)


def test_callback_sees_every_check(solver, any_objective):
    seen = []
    result = solver(any_objective, callback=lambda progress: seen.append(progress))
    assert [p.iteration for p in seen] == result.trace.iteration
    assert [p.objective for p in seen] == result.trace.objective
    if not solver.whole:
        assert np.array_equal([p.weights for p in seen], result.trace.weights)


def test_callback_can_stop(solver, any_objective):
    stop_at = 3 * solver.every
    result = solver.run(any_objective, callback=lambda progress: progress.iteration >= stop_at)
    assert result.status is Status.STOPPED
    assert result.n_iter == result.trace.iteration[-1] == stop_at
    assert result.converged


def test_callback_changes_nothing(solver, any_objective):
    assert_same_run(
        solver.reference(any_objective), solver(any_objective, callback=lambda progress: False)
    )


def test_no_iterations_give_the_start(solver, objective):
    result = solver(objective, max_iter=0)
    assert result.n_iter == 0
    assert result.trace.iteration == [0]
    if solver.whole:
        length = np.log1p(np.exp(1.0))
        assert result.metric == pytest.approx(length * (1 - np.eye(N)), abs=1e-15)
        expected = mean_over_terms(objective, result.metric)
        n_terms = objective.n_terms(N)
        i, j = objective.pairs(np.arange(n_terms), N)
        shares = objective.probabilities(np.arange(n_terms), N)
        assert result.objective == pytest.approx(
            expected + objective.rho * float((i != j).mean(axis=1) @ shares), rel=1e-12
        )
    else:
        assert result.weights == pytest.approx([1 / 3] * 3, abs=1e-15)


def test_time_limit(solver, any_objective):
    with pytest.warns(mm.ConvergenceWarning, match="time_limit"):
        result = solver.run(any_objective, time_limit=0.0)
    assert result.status is Status.TIME_LIMIT
    assert result.n_iter == 1
    assert not result.converged


def test_interrupt_returns_the_best_so_far(solver, any_objective):
    def interrupt(progress):
        if progress.iteration >= 2 * solver.every:
            raise KeyboardInterrupt

    with pytest.warns(mm.ConvergenceWarning, match="interrupted"):
        result = solver.run(any_objective, callback=interrupt)
    assert result.status is Status.INTERRUPTED
    assert result.trace.iteration[-1] == 2 * solver.every
    assert np.isfinite(answer(result)).all()
    if solver.whole:
        assert mm.is_metric(result.metric)
    elif solver.options.get("method") == "full" or "n_validation" in solver.options:
        best = int(np.argmin(result.trace.objective))
        assert np.array_equal(result.weights, result.trace.weights[best])
    else:
        assert np.array_equal(result.weights, result.trace.weights[-1])


def test_resumed_run_is_the_same_run(solver, any_objective, tmp_path):
    whole = solver.reference(any_objective)
    moment = int(np.random.default_rng(0).choice(whole.trace.iteration[1:]))

    def interrupt(progress):
        if progress.iteration == moment:
            raise KeyboardInterrupt

    file = tmp_path / "run.npz"
    with pytest.warns(mm.ConvergenceWarning, match="interrupted"):
        first = solver.run(any_objective, callback=interrupt, checkpoint=file)
    assert first.n_iter == moment
    second = solver(any_objective, checkpoint=file)
    assert_same_run(whole, second)
    assert [f.name for f in tmp_path.iterdir()] == ["run.npz"]


def test_resumed_again_and_again(solver, any_objective, tmp_path):
    file = tmp_path / "run.npz"
    whole = solver.reference(any_objective)
    for _ in range(4):
        before = [0]

        def interrupt(progress, before=before):
            before[0] += 1
            if before[0] == 2:
                raise KeyboardInterrupt

        solver(any_objective, callback=interrupt, checkpoint=file)
    assert_same_run(whole, solver(any_objective, checkpoint=file))


def test_finished_run_stays_finished(solver, any_objective, tmp_path):
    file = tmp_path / "run.npz"
    first = solver(any_objective, checkpoint=file)
    assert_same_run(first, solver(any_objective, checkpoint=file))


def test_checkpoint_changes_nothing(solver, any_objective, tmp_path):
    whole = solver.reference(any_objective)
    assert_same_run(whole, solver(any_objective, checkpoint=tmp_path / "run.npz"))


# -- at any moment: inside a step ----------------------------------------------------------------


class Fused(mm.objectives.LeastSquares):
    """Least squares that presses Ctrl-C at its `fuse`-th evaluation."""

    def __init__(self, target, fuse=None):
        super().__init__(target, rho=1e-3)
        self._fuse = fuse

    def evaluate(self, terms, d, n):
        if self._fuse is not None:
            self._fuse -= 1
            if self._fuse == 0:
                raise KeyboardInterrupt
        return super().evaluate(terms, d, n)


@pytest.mark.parametrize("fuse", [3, 8, 9])
def test_interrupt_inside_a_step_loses_nothing(solver, fuse, tmp_path):
    target = all_distances(edge_lengths(STACK, [1.5, -0.5, 0.8]).matrix())
    whole = solver.reference(Fused(target))
    with pytest.warns(mm.ConvergenceWarning, match="interrupted"):
        solver.run(Fused(target, fuse), checkpoint=tmp_path / "run.npz")
    assert_same_run(whole, solver(Fused(target), checkpoint=tmp_path / "run.npz"))


@pytest.mark.parametrize(
    "solver", [SOLVERS["stochastic"], SOLVERS["full"]], ids=["stochastic", "full"]
)
def test_interrupt_at_the_very_first_check(solver):
    def interrupt(progress):
        raise KeyboardInterrupt

    try:
        result = solver(least_squares(), callback=interrupt)
    except KeyboardInterrupt:
        pytest.fail("the interrupt came through")  # and would end the whole test session
    assert result.status is Status.INTERRUPTED
    assert result.n_iter == 0


def test_interrupt_while_entries_are_moved_loses_nothing(tmp_path, monkeypatch):
    # Ctrl-C during a kernel is noticed as soon as the kernel returns: the entries have been moved,
    # but the step has not come back yet. It must not be taken a second time.
    solver = SOLVERS["whole"]
    whole = solver.reference(least_squares())
    moved = []

    def move_and_interrupt(*arguments):
        move_edges(*arguments)
        moved.append(1)
        if len(moved) == 17:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("metricmix.solvers.matrix_descent.move_edges", move_and_interrupt)
        solver(least_squares(), checkpoint=tmp_path / "run.npz")
    assert len(moved) == 17
    assert_same_run(whole, solver(least_squares(), checkpoint=tmp_path / "run.npz"))


# -- values that are not finite ------------------------------------------------------------------


def falling_until(cliff):
    """The objective -d, which is NaN beyond the cliff."""
    return mm.objectives.Separable(
        value=lambda d, i, j: np.where(d > cliff, np.nan, -d),
        derivative=lambda d, i, j: np.where(d > cliff, np.nan, -1.0),
    )


CONSTANT = mm.DissimilarityStack([1 - np.eye(6), 2 - 2 * np.eye(6)])


@pytest.mark.parametrize("constraint", [None, "nonnegative"])
@pytest.mark.parametrize("n_validation", [0, 5])
def test_stochastic_goes_back_from_nan(constraint, n_validation):
    # All distances are equal here, so they fall off the cliff together.
    options = {"constraint": constraint, "n_validation": n_validation, "check_every": 1}
    with pytest.warns(mm.ConvergenceWarning, match="not finite"):
        result = minimize(falling_until(4.0), CONSTANT, random_state=0, **options)
    assert result.status is Status.DIVERGED
    assert np.isfinite(result.weights).all()
    assert result.objective < -1.0
    # The weights it went back to are themselves on this side of the cliff.
    assert np.isfinite(Problem(falling_until(4.0), CONSTANT).value(result.weights))


def test_nan_under_the_simplex_constraint():
    # Weight moves towards the second source until the distance softplus(2) is near.
    # (Adam would move both weights alike, which the constraint undoes.)
    options = {"constraint": "simplex", "check_every": 1, "random_state": 0, "optimizer": "sgd"}
    with pytest.warns(mm.ConvergenceWarning, match="not finite"):
        result = minimize(falling_until(1.9), CONSTANT, **options)
    assert result.status is Status.DIVERGED
    assert result.weights.sum() == pytest.approx(1.0)
    assert np.isfinite(result.objective)


@pytest.mark.parametrize("constraint", [None, "nonnegative"])
def test_full_stays_below_the_cliff(constraint):
    result = SOLVERS["full"](falling_until(4.0), constraint=constraint)
    assert result.objective < SOLVERS["full"](falling_until(4.0), max_iter=0).objective
    assert np.isfinite(result.objective)
    assert np.isfinite(result.weights).all()


def test_whole_matrix_goes_back_from_nan():
    with pytest.warns(mm.ConvergenceWarning, match="not finite"):
        result = minimize_metric(falling_until(4.0), np.ones((6, 6)), random_state=0)
    assert result.status is Status.DIVERGED
    assert mm.is_metric(result.metric)
    assert np.isfinite(result.metric).all()


@pytest.mark.parametrize("name", SOLVERS)
def test_nan_from_the_start(name):
    solver = SOLVERS[name]
    with pytest.warns(mm.ConvergenceWarning, match="not finite"):
        result = solver.run(falling_until(0.01))
    assert result.status is Status.DIVERGED
    assert np.isfinite(answer(result)).all()
    if not solver.whole:
        assert result.weights == pytest.approx([1 / 3] * 3, abs=1e-15)


@pytest.mark.parametrize("name", SOLVERS)
def test_nan_from_the_start_without_a_step(name):
    result = SOLVERS[name](falling_until(0.01), max_iter=0)
    assert np.isfinite(answer(result)).all()


def test_steps_that_overflow_are_undone():
    with pytest.warns(mm.ConvergenceWarning, match="not finite"):
        result = minimize(
            least_squares(), STACK, optimizer="sgd", learning_rate=1e200, random_state=0
        )
    assert result.status is Status.DIVERGED
    assert np.isfinite(result.weights).all()


# -- warnings ------------------------------------------------------------------------------------


def test_warning_points_at_the_caller():
    with pytest.warns(mm.ConvergenceWarning) as caught:
        mm.minimize(least_squares(), STACK, method="full", max_iter=1)
    assert [w.filename for w in caught] == [__file__]
    with pytest.warns(mm.ConvergenceWarning) as caught:
        mm.minimize_metric(least_squares(), np.ones((N, N)), max_iter=1, tol=1e-9)
    assert [w.filename for w in caught] == [__file__]


def test_reaching_max_iter_warns_only_where_convergence_was_tested():
    assert minimize(robust(), STACK, max_iter=3, random_state=0).status is Status.COMPLETED
    for options in ({"method": "full"}, {"n_validation": 10, "tol": 1e-6}):
        with pytest.warns(mm.ConvergenceWarning, match="max_iter"):
            result = minimize(robust(), STACK, max_iter=3, random_state=0, **options)
        assert result.status is Status.MAX_ITER


def test_every_status_advises():
    assert all(status.value for status in Status)
    good = {status for status in Status if status.is_success}
    assert good == {Status.CONVERGED, Status.NO_INTERIOR, Status.COMPLETED, Status.STOPPED}


def test_verbose_is_silent_in_a_pipe(capfd):
    minimize(robust(), STACK, max_iter=3, random_state=0, verbose=True)
    assert capfd.readouterr() == ("", "")


def test_trace_as_a_table():
    result = minimize(robust(), STACK, max_iter=20, random_state=0)
    frame = result.trace.to_frame()
    assert list(frame.columns) == [
        "iteration",
        "objective",
        "time",
        *(f"weight_{r}" for r in range(R)),
    ]
    assert frame["objective"].tolist() == result.trace.objective
    assert np.array_equal(frame[[f"weight_{r}" for r in range(R)]], result.trace.weights)
    assert "weight_0" not in SOLVERS["whole"](robust(), max_iter=9).trace.to_frame()


# -- checkpoints: which are refused --------------------------------------------------------------


def triple_hinge(margin):
    return mm.objectives.Triplets([[0, 1, 2], [3, 4, 5], [6, 7, 8]], margin=margin)


def power(p):
    return mm.objectives.Separable(lambda d, i, j: d**p, lambda d, i, j: p * d ** (p - 1))


TARGET = np.ones((N, N)) - np.eye(N)
OTHER_OBJECTIVES = {
    "target": (mm.objectives.LeastSquares(TARGET), mm.objectives.LeastSquares(2 * TARGET)),
    "rho": (mm.objectives.LeastSquares(TARGET), mm.objectives.LeastSquares(TARGET, rho=0.1)),
    "missing": (
        mm.objectives.LeastSquares(TARGET),
        mm.objectives.LeastSquares(np.where(np.tri(N, k=-1) > 0, np.nan, TARGET)),
    ),
    "kind": (mm.objectives.LeastSquares(TARGET), label_contrast()),
    "labels": (label_contrast(), mm.objectives.LabelContrast(LABELS[::-1], rho=0.05)),
    "balance": (label_contrast(), balanced_contrast()),
    "margin": (triple_hinge(1.0), triple_hinge(2.0)),
    "items": (
        mm.objectives.Separable(np.add, np.add, items=[0, 1, 2]),
        mm.objectives.Separable(np.add, np.add, items=[0, 1, 3]),
    ),
    "function": (power(2), power(3)),
}


@pytest.mark.parametrize("which", OTHER_OBJECTIVES)
@pytest.mark.parametrize("name", ["stochastic", "full", "whole"])
def test_checkpoint_of_another_objective_is_refused(name, which, tmp_path):
    solver = SOLVERS[name]
    one, other = OTHER_OBJECTIVES[which]
    if which == "items":
        one, other = (
            mm.objectives.Separable(lambda d, i, j: d, lambda d, i, j: 1.0, items=o.items)
            for o in (one, other)
        )
    file = tmp_path / "run.npz"
    solver(one, checkpoint=file, max_iter=3)
    with pytest.raises(mm.CheckpointError, match="another problem"):
        solver(other, checkpoint=file, max_iter=3)


OTHER_SETTINGS = [
    {"beta": 2.0},
    {"link": "identity"},
    {"constraint": "nonnegative"},
    {"start": [1.0, 0.0, 0.0]},
    {"learning_rate": 0.01},
    {"schedule": "inverse"},
    {"decay": 7.0},
    {"batch_size": 5},
    {"optimizer": "sgd"},
    {"averaging": True},
    {"n_validation": 9},
    {"method": "full"},
]


@pytest.mark.parametrize("change", OTHER_SETTINGS, ids=lambda change: next(iter(change)))
def test_checkpoint_of_other_settings_is_refused(change, tmp_path):
    file = tmp_path / "run.npz"
    solver = SOLVERS["stochastic"]
    solver(least_squares(), checkpoint=file, max_iter=3)
    options = {**solver.options, **change}
    if "method" in change:
        options = change
    with pytest.raises(mm.CheckpointError, match="other settings"):
        minimize(least_squares(), STACK, max_iter=3, checkpoint=file, **options)


@pytest.mark.parametrize(
    "change",
    [
        {"directed": True},
        {"link": "identity"},
        {"beta": 3.0},
        {"learning_rate": 0.5},
        {"schedule": "sqrt"},
        {"batch_size": 3},
        {"tol": 1e-3},
    ],
    ids=lambda change: next(iter(change)),
)
def test_checkpoint_of_another_matrix_problem_is_refused(change, tmp_path):
    file = tmp_path / "run.npz"
    SOLVERS["whole"](least_squares(), checkpoint=file, max_iter=3)
    with pytest.raises(mm.CheckpointError, match="another problem"):
        SOLVERS["whole"](least_squares(), checkpoint=file, max_iter=3, **change)
    with pytest.raises(mm.CheckpointError, match="another problem"):
        minimize_metric(
            least_squares(), 2 * np.ones((N, N)), checkpoint=file, **SOLVERS["whole"].options
        )


def one_entry_changed():
    sources = [STACK.source(r).copy() for r in range(R)]
    sources[1][2, 6] = sources[1][6, 2] = 1.0
    return mm.DissimilarityStack(sources, STACK.names)


@pytest.mark.parametrize(
    "stack",
    [
        make_stack(1),
        make_stack(scaling="mean"),
        STACK.select(["second", "first", "third"]),
        one_entry_changed(),
    ],
    ids=["entries", "scaling", "order", "one entry"],
)
def test_checkpoint_of_another_stack_is_refused(stack, tmp_path):
    file = tmp_path / "run.npz"
    minimize(robust(), STACK, max_iter=3, checkpoint=file)
    with pytest.raises(mm.CheckpointError, match="another problem"):
        minimize(robust(), stack, max_iter=3, checkpoint=file)


def test_longer_run_goes_on_from_a_shorter_one(tmp_path):
    file = tmp_path / "run.npz"
    solver = SOLVERS["stochastic"]
    solver(least_squares(), checkpoint=file, max_iter=35)
    assert solver(least_squares(), checkpoint=file, max_iter=35).n_iter == 35
    longer = solver(least_squares(), checkpoint=file, max_iter=60)
    assert longer.n_iter == 60
    assert np.array_equal(longer.weights, solver(least_squares(), max_iter=60).weights)


def damage(kind, file):
    if kind == "truncated":
        file.write_bytes(file.read_bytes()[:-200])
    elif kind == "bit":
        with np.load(file) as old:
            weights = old["state.weights"].tobytes()
        data = bytearray(file.read_bytes())
        data[data.index(weights)] ^= 1
        file.write_bytes(data)
    elif kind == "empty":
        file.write_bytes(b"")
    elif kind == "text":
        file.write_text("weights: 1, 2, 3\n")
    elif kind == "npy":
        with file.open("wb") as handle:
            np.save(handle, np.arange(3.0))
    elif kind == "npz":
        with file.open("wb") as handle:
            np.savez(handle, weights=np.arange(3.0))
    elif kind == "no fingerprint":
        with file.open("wb") as handle:
            np.savez(handle, header=np.array(json.dumps({"format": FORMAT})))
    elif kind == "no arrays":
        with np.load(file) as old:
            header = old["header"]
        with file.open("wb") as handle:
            np.savez(handle, header=header)
    elif kind == "older format":
        with file.open("wb") as handle:
            np.savez(handle, header=np.array(json.dumps({"format": "metricmix checkpoint 0"})))
    elif kind == "folder":
        file.unlink()
        file.mkdir()


@pytest.mark.parametrize(
    "kind",
    [
        *("truncated", "bit", "empty", "text", "npy", "npz"),
        *("no fingerprint", "no arrays", "older format", "folder"),
    ],
)
def test_damaged_checkpoint_is_refused(kind, tmp_path):
    file = tmp_path / "run.npz"
    solver = SOLVERS["stochastic"]
    solver(least_squares(), checkpoint=file, max_iter=3)
    damage(kind, file)
    what = "cannot be written" if kind == "folder" else "not a metricmix checkpoint"
    with pytest.raises(mm.CheckpointError, match=rf"run\.npz: {what}"):
        solver(least_squares(), checkpoint=file, max_iter=3)


# -- checkpoints: writing them -------------------------------------------------------------------


def test_disk_error_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "run.npz"
    solver = SOLVERS["stochastic"]
    solver(least_squares(), checkpoint=file, max_iter=14)
    before = file.read_bytes()

    def full_disk(handle, **arrays):
        handle.write(b"PK half a file")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full_disk)
        with pytest.warns(RuntimeWarning, match="No space left"):
            result = solver(least_squares(), checkpoint=file, max_iter=21)
    assert_same_run(result, solver(least_squares(), max_iter=21))
    assert [f.name for f in tmp_path.iterdir()] == ["run.npz"]
    assert file.read_bytes() == before
    assert_same_run(
        solver(least_squares(), max_iter=21), solver(least_squares(), checkpoint=file, max_iter=21)
    )


@pytest.fixture
def written_at_every_check(monkeypatch):
    monkeypatch.setattr(checkpoint, "WRITE_EVERY", 0.0)
    monkeypatch.setattr(checkpoint, "WRITE_SHARE", math.inf)


@pytest.mark.usefixtures("written_at_every_check")
def test_file_written_during_the_run_can_be_resumed_from(tmp_path):
    # A killed process leaves what was written last: copy the file while the run goes on.
    file, copy = tmp_path / "run.npz", tmp_path / "copy.npz"
    solver = SOLVERS["stochastic"]

    def keep(progress):
        if file.exists() and not copy.exists():
            copy.write_bytes(file.read_bytes())

    whole = solver(least_squares(), checkpoint=file, check_every=3, callback=keep)
    assert copy.exists()
    with np.load(copy) as saved:
        assert 0 < json.loads(str(saved["header"]))["iteration"] < solver.steps
    assert_same_run(whole, solver(least_squares(), checkpoint=copy, check_every=3))


def test_short_runs_are_written_once(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(checkpoint, "write_checkpoint", lambda *parts: written.append(parts))
    SOLVERS["stochastic"](least_squares(), checkpoint=tmp_path / "run.npz", check_every=1)
    assert len(written) == 1


def test_writing_takes_a_small_share_of_the_time(tmp_path, monkeypatch):
    """A write that takes 3 s is followed by 60 s without one."""
    clock, written = [0.0], []

    def slow_write(*parts):
        written.append(clock[0])
        clock[0] += 3.0

    def step(progress):
        clock[0] += 1.0

    monkeypatch.setattr(checkpoint, "write_checkpoint", slow_write)
    monkeypatch.setattr(checkpoint.time, "perf_counter", lambda: clock[0])
    SOLVERS["stochastic"](
        least_squares(), checkpoint=tmp_path / "run.npz", check_every=1, max_iter=70, callback=step
    )
    assert written == [2.0, 65.0, 77.0]


def test_place_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(mm.CheckpointError, match="cannot be written"):
        SOLVERS["full"](least_squares(), checkpoint=tmp_path / "file" / "run.npz")


def test_checkpoint_in_a_folder_that_is_not_there_yet(tmp_path):
    file = tmp_path / "a" / "b" / "run.npz"
    SOLVERS["full"](least_squares(), checkpoint=file, max_iter=2)
    assert file.exists()


@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "Philox", "SFC64"])
def test_any_generator_can_be_saved(kind, tmp_path):
    def generator():
        return np.random.Generator(getattr(np.random, kind)(3))

    solver = SOLVERS["stochastic"]
    whole = solver(least_squares(), random_state=generator())
    file = tmp_path / "run.npz"
    solver(least_squares(), random_state=generator(), checkpoint=file, max_iter=42)
    assert_same_run(whole, solver(least_squares(), random_state=generator(), checkpoint=file))


def test_checkpoint_of_another_seed_is_refused(tmp_path):
    file = tmp_path / "run.npz"
    minimize(robust(), STACK, max_iter=3, random_state=0, checkpoint=file)
    with pytest.raises(mm.CheckpointError, match="another problem or other settings"):
        minimize(robust(), STACK, max_iter=3, random_state=1, checkpoint=file)


def test_unbounded_objective_is_called_that():
    falling = mm.objectives.Separable(lambda d, i, j: -d, lambda d, i, j: -np.ones_like(d))
    with pytest.warns(mm.ConvergenceWarning, match="add a ridge rho"):
        result = minimize(falling, STACK, method="full")
    assert result.status is Status.DIVERGED


# -- states: what a solver may keep in them ------------------------------------------------------


@dataclass
class GrowingState:
    value: float
    points: np.ndarray
    best: np.ndarray | None = None
    cache: np.ndarray | None = field(default=None, metadata={"checkpoint": False})


class Growing(Solver[GrowingState]):
    """Halves a number; its state grows, begins with None, and holds a cache."""

    state_type = GrowingState
    returns = "last"
    default_max_iter = 8

    def init(self, rng):
        return GrowingState(1.0, np.empty(0))

    def step(self, state, iteration, rng):
        points = np.append(state.points, rng.random())
        best = points if iteration >= 5 else None
        return replace(state, value=state.value / 2, points=points, best=best, cache=np.ones(3))

    def check(self, state):
        return state, state.value

    def status(self, state):
        return None

    def fingerprint(self):
        return "growing"

    def certificate(self, state):
        return Certificate(0.0, 1.0)


@pytest.mark.usefixtures("written_at_every_check")
@pytest.mark.parametrize("stop", [1, 4, 6, 7])
def test_states_of_varying_size_with_missing_fields_are_restored(stop, tmp_path):
    whole = run(Growing(), np.random.default_rng(0))
    options = {"checkpoint": tmp_path / "run.npz"}
    part = run(
        Growing(), np.random.default_rng(0), callback=lambda p: p.iteration == stop, **options
    )
    assert part.n_iter == stop
    rest = run(Growing(), np.random.default_rng(0), **options)
    assert rest.n_iter == 8
    assert np.array_equal(rest.state.points, whole.state.points)
    assert np.array_equal(rest.state.best, whole.state.best)
    assert rest.trace.bound == [0.0] * 9
    restored = checkpoint.Checkpoint(tmp_path / "run.npz", "growing None")
    assert restored.read(GrowingState, np.random.default_rng(0)).state.cache is None


def test_gap_is_part_of_the_message_until_it_is_closed():
    known = {"objective": 1.0, "n_iter": 3, "trace": mm.solvers.Trace(), "gap": 0.0123}
    stopped = mm.SolveResult(status=Status.TIME_LIMIT, **known)
    assert stopped.message == f"{Status.TIME_LIMIT.value} (certified gap 0.012)"
    with pytest.warns(mm.ConvergenceWarning, match="certified gap 0.012"):
        assert stopped.warn_unless_converged() is stopped
    done = mm.SolveResult(status=Status.CONVERGED, **known)
    assert done.warn_unless_converged().message == Status.CONVERGED.value


def test_subclasses_have_their_own_words():
    @dataclass(frozen=True, kw_only=True)
    class OwnResult(mm.SolveResult):
        advice = {Status.MAX_ITER: "take more rounds"}  # noqa: RUF012
        rounds: int

    known = {"objective": 1.0, "n_iter": 3, "trace": mm.solvers.Trace(), "rounds": 3}
    assert OwnResult(status=Status.MAX_ITER, **known).message == "take more rounds"
    assert OwnResult(status=Status.STOPPED, **known).message == Status.STOPPED.value


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_iters": 3}, "max_iters: unknown argument"),
        ({"max_iter": -1}, "max_iter"),
        ({"check_every": 0}, "check_every"),
        ({"time_limit": -1.0}, "time_limit"),
        ({"callback": 3}, "callback: expected a function"),
    ],
)
def test_run_options_are_checked(options, words):
    with pytest.raises(mm.InputError, match=words):
        run(Growing(), np.random.default_rng(0), **options)

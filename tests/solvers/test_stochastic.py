"""Algorithm 1, literally and in its variants."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.mixture import edge_lengths
from metricmix.solvers import Status
from metricmix.solvers.problem import Problem
from metricmix.solvers.stochastic import Stochastic, step_size
from reference.algorithm1 import algorithm_1
from reference.flat import minimize
from reference.instances import on_demand, random_sources
from reference.paths import all_distances

N, R = 12, 3


@pytest.fixture
def rng():
    return np.random.default_rng(8)


@pytest.fixture
def sources(rng):
    return random_sources(rng, N, R)


@pytest.fixture
def stack(sources):
    return mm.DissimilarityStack(sources)


@pytest.fixture
def y(rng):
    return np.concatenate([[0, 1, 2], rng.integers(0, 3, N - 3)])


@pytest.fixture
def regression(stack):
    """Least squares on a metric that the mixture can reach."""
    return mm.objectives.LeastSquares(all_distances(edge_lengths(stack, [1.2, -0.4, 0.7]).matrix()))


def drawn_pairs(objective, seed, count):
    rng = np.random.default_rng(seed)
    terms = np.concatenate([objective.sample(rng, 1, N) for _ in range(count)])
    i, j = objective.pairs(terms, N)
    return [(int(a), int(b)) for a, b in zip(i[:, 0], j[:, 0], strict=True)]


# -- the paper -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("step", [1.0, 40.0])  # the paper's step is so small that little happens
def test_literal_form_is_the_papers_algorithm(stack, sources, y, seed, step):
    start = np.random.default_rng(seed + 50).normal(0, 1, R)
    objective = mm.objectives.LabelContrast(y, rho=0.01)
    result = minimize(
        objective,
        stack,
        scaling="paper",
        start=start,
        learning_rate=step,
        max_iter=150,
        random_state=seed,
    )
    pairs = drawn_pairs(objective, seed, 150)
    assert len(set(pairs)) > 80
    expected = algorithm_1(sources, y, start, step, 0.01, pairs)
    assert result.weights == pytest.approx(expected, rel=0, abs=1e-12)
    assert np.abs(result.weights - start).max() > 1e-3


def test_paper_settings_are_the_papers(stack, y):
    objective = mm.objectives.LabelContrast(y, rho=0.01)
    result = minimize(objective, stack, scaling="paper", random_state=0)
    assert result.n_iter == 500
    spelled_out = minimize(
        objective,
        stack,
        scaling="paper",
        optimizer="sgd",
        learning_rate=1.0,
        schedule="constant",
        batch_size=1,
        max_iter=500,
        random_state=0,
    )
    assert np.array_equal(result.weights, spelled_out.weights)


def test_mean_form_is_the_paper_with_a_larger_step(stack, y):
    objective = mm.objectives.LabelContrast(y, rho=0.01)
    plain = {"optimizer": "sgd", "schedule": "constant", "batch_size": 1, "max_iter": 100}
    paper = minimize(
        objective, stack, scaling="paper", learning_rate=0.02 * N**2, random_state=1, **plain
    )
    mean = minimize(objective, stack, learning_rate=0.02, random_state=1, **plain)
    assert mean.weights == pytest.approx(paper.weights, abs=1e-12)


def test_paper_scaling_refuses_adam(stack, y):
    with pytest.raises(mm.InputError, match=r"optimizer: .* goes with 'sgd'"):
        minimize(mm.objectives.LabelContrast(y), stack, scaling="paper", optimizer="adam")


# -- steps ---------------------------------------------------------------------------------------


def test_batch_steps_along_the_mean(stack, regression):
    problem = Problem(regression, stack)
    start = np.array([0.5, 0.5, 0.5])
    result = minimize(
        regression,
        stack,
        optimizer="sgd",
        schedule="constant",
        learning_rate=0.1,
        batch_size=20,
        max_iter=3,
        start=start,
        random_state=3,
    )
    rng = np.random.default_rng(3)
    weights = start
    for _ in range(3):
        terms = regression.sample(rng, 20, N)
        each = [problem.sampled(weights, terms[t : t + 1])[1] for t in range(20)]
        weights = weights - 0.1 * np.mean(each, axis=0)
    assert result.weights == pytest.approx(weights, abs=1e-13)


def test_ridge_enters_every_step(stack):
    # An objective without slope leaves the ridge alone: weights shrink by 1 - 2 rho eta.
    nothing = mm.objectives.Separable(lambda d, i, j: 0.0, lambda d, i, j: 0.0, rho=0.3)
    result = minimize(
        nothing,
        stack,
        optimizer="sgd",
        schedule="constant",
        learning_rate=0.1,
        max_iter=5,
        start=[1.0, -2.0, 3.0],
        random_state=0,
    )
    assert result.weights == pytest.approx(np.array([1.0, -2.0, 3.0]) * (1 - 0.06) ** 5)


def test_first_adam_step_has_the_length_of_the_rate(stack, regression):
    problem = Problem(regression, stack)
    start = np.full(R, 0.5)
    result = minimize(
        regression, stack, learning_rate=0.01, max_iter=1, start=start, random_state=4
    )
    terms = regression.sample(np.random.default_rng(4), 32, N)
    _, gradient = problem.sampled(start, terms)
    assert result.weights == pytest.approx(start - 0.01 * np.sign(gradient), abs=1e-8)


def test_adam_by_its_formula(stack, regression):
    problem = Problem(regression, stack)
    weights, mean, square = np.full(R, 0.5), np.zeros(R), np.zeros(R)
    rng = np.random.default_rng(5)
    for t in range(1, 8):
        _, g = problem.sampled(weights, regression.sample(rng, 32, N))
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
        step = 0.05 / np.sqrt(1 + (t - 1) / 100)
        scale = np.sqrt(square / (1 - 0.999**t)) + 1e-8
        weights = weights - step * (mean / (1 - 0.9**t)) / scale
    result = minimize(regression, stack, max_iter=7, start=[0.5] * R, random_state=5)
    assert result.weights == pytest.approx(weights, abs=1e-12)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [("constant", [2, 2, 2]), ("sqrt", [2, 2 / 2**0.5, 1]), ("inverse", [2, 1, 0.5])],
)
def test_step_sizes(schedule, expected):
    assert [step_size(2.0, schedule, 10.0, t) for t in (0, 10, 30)] == pytest.approx(expected)


def test_adam_recovers_the_weights(stack, regression):
    result = minimize(regression, stack, max_iter=1500, schedule="inverse", random_state=0)
    assert result.weights == pytest.approx([1.2, -0.4, 0.7], abs=0.02)
    assert result.objective < 1e-3


def test_dense_and_computed_sources_take_the_same_steps(stack, regression):
    dense = minimize(regression, stack, max_iter=40, random_state=6)
    computed = minimize(regression, on_demand(stack), max_iter=40, random_state=6)
    assert computed.weights == pytest.approx(dense.weights, rel=1e-9)


def test_scaled_stack_learns_the_same_metric(sources):
    # Weights of a scaled stack are the plain ones times the scales.
    scales = np.array([4.0, 0.5, 2.0])
    plain, scaled = mm.DissimilarityStack(sources), mm.DissimilarityStack(sources, scaling=scales)
    target = all_distances(edge_lengths(plain, [1.2, -0.4, 0.7]).matrix())
    objective = mm.objectives.LeastSquares(target)
    result = minimize(objective, scaled, method="full", start=np.array([1.0, 0.1, 0.5]) * scales)
    assert result.weights == pytest.approx(np.array([1.2, -0.4, 0.7]) * scales, abs=1e-3)
    assert result.mixture.scaling == pytest.approx(scales)
    # The mixture carries the scales: it means the same metric on the unscaled stack.
    one, other = (edge_lengths(s, result.mixture).matrix() for s in (plain, scaled))
    assert one == pytest.approx(other, rel=1e-12)


# -- averaging -----------------------------------------------------------------------------------


def test_average_favours_late_iterates(stack, regression):
    plain = {"max_iter": 30, "check_every": 1, "random_state": 2}
    iterates = minimize(regression, stack, **plain).trace.weights
    averaged = minimize(regression, stack, averaging=True, **plain)
    shares = np.arange(1.0, 31.0)  # the t-th iterate counts t times
    expected = shares @ np.array(iterates[1:]) / shares.sum()
    assert averaged.weights == pytest.approx(expected, rel=1e-12)
    assert averaged.objective == pytest.approx(Problem(regression, stack).value(expected))


# -- held-out terms ------------------------------------------------------------------------------


def spied(monkeypatch):
    """Record which terms are stepped on and which are only looked at."""
    stepped, looked = [], []
    sampled, estimate = Problem.sampled, Problem.estimate

    def spy_sampled(self, weights, terms):
        stepped.append(terms.copy())
        return sampled(self, weights, terms)

    def spy_estimate(self, weights, terms):
        looked.append(terms.copy())
        return estimate(self, weights, terms)

    monkeypatch.setattr(Problem, "sampled", spy_sampled)
    monkeypatch.setattr(Problem, "estimate", spy_estimate)
    return stepped, looked


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("n_validation", [1, 140])
def test_held_out_terms_are_never_stepped_on(stack, regression, monkeypatch, checked, n_validation):
    stepped, looked = spied(monkeypatch)
    minimize(
        regression,
        stack,
        n_validation=n_validation,
        checked=checked,
        batch_size=16,
        max_iter=60,
        random_state=7,
    )
    held_out = looked[0]
    assert len(np.unique(held_out)) == len(held_out) == n_validation
    assert all(np.array_equal(terms, held_out) for terms in looked)
    assert len(stepped) == 60
    assert {len(terms) for terms in stepped} == {16}
    assert not np.isin(np.concatenate(stepped), held_out).any()


def test_all_other_terms_are_stepped_on(stack, regression, monkeypatch):
    stepped, looked = spied(monkeypatch)
    minimize(regression, stack, n_validation=100, max_iter=100, random_state=7)
    # (i, j) and (j, i) are one distance: both are held out together.
    i, j = np.divmod(looked[0], N)
    everything = np.union1d(np.concatenate(stepped), [i * N + j, j * N + i])
    assert np.array_equal(everything, np.arange(N * N))
    assert not np.isin(np.concatenate(stepped), [i * N + j, j * N + i]).any()


def test_held_out_terms_of_balanced_pairs(stack, y, monkeypatch):
    stepped, looked = spied(monkeypatch)
    objective = mm.objectives.LabelContrast(y, balanced=True)
    minimize(objective, stack, n_validation=30, max_iter=30, random_state=7)
    assert len(looked[0]) == 30
    assert not np.isin(np.concatenate(stepped), looked[0]).any()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("n_validation", [1, 2])
def test_held_out_terms_can_be_judged_by(n_validation, seed):
    # Balanced pairs of 4 items: 12 terms, 4 of them within a class.
    stack = mm.DissimilarityStack(random_sources(np.random.default_rng(0), 4, 2))
    objective = mm.objectives.LabelContrast([0, 0, 1, 1], balanced=True)
    options = {"max_iter": 3, "random_state": seed, "batch_size": 4}
    result = minimize(objective, stack, n_validation=n_validation, **options)
    assert np.isfinite(result.trace.objective).all()
    assert result.n_iter == 3


class Lopsided(mm.objectives.LeastSquares):
    """Least squares of which one term only is ever drawn."""

    def sample(self, rng, size, n):
        return np.full(size, 5)


@pytest.mark.timeout(30)
def test_holding_out_all_that_can_be_drawn_is_refused(stack, regression):
    objective = Lopsided(regression.target.reshape(N, N))
    seed = next(
        s for s in range(99) if 5 in np.random.default_rng(s).choice(N * N, 140, replace=False)
    )
    with pytest.raises(mm.InputError, match="n_validation"):
        minimize(objective, stack, n_validation=140, max_iter=1, random_state=seed)


@pytest.mark.parametrize("n_validation", [-1, N * N, 10**6])
def test_impossible_numbers_of_held_out_terms(stack, regression, n_validation):
    with pytest.raises(mm.InputError, match=r"n_validation: expected (0 \.\. 143|a whole)"):
        minimize(regression, stack, n_validation=n_validation)


@pytest.mark.parametrize("options", [{"checked": True}, {"tol": 1e-3}])
def test_judging_needs_held_out_terms(stack, regression, options):
    with pytest.raises(mm.InputError, match=f"{next(iter(options))} needs held-out terms"):
        minimize(regression, stack, **options)


@pytest.mark.parametrize("learning_rate", [0.05, 3.0])  # the second one overshoots
@pytest.mark.parametrize("seed", range(4))
def test_checked_descent_never_rises(stack, regression, learning_rate, seed):
    result = minimize(
        regression,
        stack,
        n_validation=30,
        checked=True,
        optimizer="sgd",
        learning_rate=learning_rate,
        max_iter=60,
        check_every=1,
        random_state=seed,
    )
    assert (np.diff(result.trace.objective) <= 0).all()
    assert result.trace.objective[-1] < result.trace.objective[0]


def test_rejected_steps_leave_the_weights(stack, regression):
    result = minimize(
        regression,
        stack,
        n_validation=30,
        checked=True,
        optimizer="sgd",
        learning_rate=1e4,
        schedule="constant",
        max_iter=5,
        check_every=1,
        random_state=0,
    )
    assert np.array_equal(result.trace.weights, np.full((6, R), 1 / R))
    # Each step is tried half as long, until one is short enough.
    longer = minimize(
        regression,
        stack,
        n_validation=30,
        checked=True,
        optimizer="sgd",
        learning_rate=1e4,
        schedule="constant",
        max_iter=60,
        random_state=0,
    )
    assert longer.objective < result.objective


def test_held_out_objective_is_that_of_the_held_out_terms(stack, regression, monkeypatch):
    _, looked = spied(monkeypatch)
    result = minimize(regression, stack, n_validation=25, max_iter=20, random_state=1)
    monkeypatch.undo()
    problem = Problem(regression, stack)
    for weights, objective in zip(result.trace.weights, result.trace.objective, strict=True):
        assert objective == problem.estimate(weights, looked[0])
    best = int(np.argmin(result.trace.objective))
    assert np.array_equal(result.weights, result.trace.weights[best])


def test_early_stopping_waits_as_long_as_told(stack):
    # Nothing improves: the first check sets the mark, and `patience` more are waited for.
    flat = mm.objectives.Separable(lambda d, i, j: 1.0, lambda d, i, j: 0.0)
    result = minimize(
        flat, stack, n_validation=5, tol=1e-3, patience=4, check_every=3, random_state=0
    )
    assert result.status is Status.CONVERGED
    assert result.n_iter == 12
    assert result.converged


def test_early_stopping_goes_on_while_it_improves(stack):
    # Pure ridge with steps that shrink the weights by a tenth: the objective falls by a fifth.
    ridge = mm.objectives.Separable(lambda d, i, j: 0.0, lambda d, i, j: 0.0, rho=0.5)
    options = {
        "n_validation": 5,
        "patience": 1,
        "check_every": 1,
        "max_iter": 40,
        "random_state": 0,
        "optimizer": "sgd",
        "schedule": "constant",
        "learning_rate": 0.1,
    }
    with pytest.warns(mm.ConvergenceWarning, match="max_iter"):
        result = minimize(ridge, stack, tol=0.15, **options)
    assert result.n_iter == 40
    result = minimize(ridge, stack, tol=0.25, **options)
    assert result.status is Status.CONVERGED
    assert result.n_iter == 1


# -- seeds, threads, constraints -----------------------------------------------------------------


def test_seeds_matter(stack, regression):
    one, other = (minimize(regression, stack, max_iter=5, random_state=s) for s in (0, 1))
    assert not np.array_equal(one.weights, other.weights)


def test_generator_is_used_as_it_is(stack, regression):
    generator = np.random.default_rng(5)
    first = minimize(regression, stack, max_iter=5, random_state=generator)
    second = minimize(regression, stack, max_iter=5, random_state=generator)
    seeded = minimize(regression, stack, max_iter=5, random_state=5)
    assert np.array_equal(first.weights, seeded.weights)
    assert not np.array_equal(first.weights, second.weights)


@pytest.mark.parametrize("n_jobs", [2, 5])
def test_threads_change_no_bit(n_jobs):
    rng = np.random.default_rng(0)
    stack = mm.DissimilarityStack(random_sources(rng, 80, R))
    objective = mm.objectives.LabelContrast(rng.integers(0, 3, 80), balanced=True)
    runs = [
        minimize(objective, stack, max_iter=30, batch_size=50, random_state=1, n_jobs=k)
        for k in (1, n_jobs)
    ]
    assert runs[0].weights.tobytes() == runs[1].weights.tobytes()
    assert runs[0].trace.objective == runs[1].trace.objective


@pytest.mark.parametrize("averaging", [False, True])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("constraint", ["nonnegative", "simplex"])
def test_constraints_hold_at_every_check(stack, regression, constraint, optimizer, averaging):
    result = minimize(
        regression,
        stack,
        constraint=constraint,
        optimizer=optimizer,
        averaging=averaging,
        max_iter=200,
        check_every=1,
        start=[-1.0, 2.0, 0.1],
        random_state=0,
    )
    weights = np.array([*result.trace.weights, result.weights])
    assert (weights >= 0).all()
    if constraint == "simplex":
        assert weights.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    else:
        assert weights.sum(axis=1).std() > 0
    assert result.objective < Problem(regression, stack).value(result.trace.weights[0])


# -- the front door ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "method: expected one of 'stochastic', 'full', .* got 'magic'"),
        ({"optimizer": "lbfgs"}, "optimizer: expected one of 'adam', 'sgd'"),
        ({"schedule": "cosine"}, "schedule: expected one of"),
        ({"scaling": "sum"}, "scaling: expected one of 'mean', 'paper'"),
        ({"constraint": "box"}, "constraint: expected one of"),
        ({"link": "relu"}, "link: expected one of"),
        ({"beta": 0.0}, "beta: expected a number > 0"),
        ({"learning_rate": 0.0}, "learning_rate: expected a number > 0"),
        ({"learning_rate": -1.0}, "learning_rate: expected a number > 0"),
        ({"decay": 0.0}, "decay: expected a number > 0"),
        ({"batch_size": 0}, "batch_size: expected a whole number >= 1"),
        ({"patience": 0}, "patience: expected a whole number >= 1"),
        ({"max_iter": -1}, "max_iter: expected a whole number >= 0"),
        (
            {"temperature": 3.0},
            "temperature: a setting of LBFGS, not of this method",
        ),
        (
            {"batchsize": 3},
            "batchsize: unknown argument; a run takes max_iter, .*; Stochastic takes optimizer",
        ),
        ({"method": "full", "batch_size": 3}, "batch_size: a setting of Stochastic, not of this"),
        ({"start": [1.0, 2.0]}, "expected 3 weights, one per source of the stack, got 2"),
        ({"start": [1.0, 2.0, np.nan]}, "weights: expected finite numbers"),
    ],
)
def test_bad_options_are_refused(stack, regression, options, message):
    with pytest.raises(mm.InputError, match=message.replace("(", r"\(")):
        minimize(regression, stack, **{"max_iter": 1, **options})


def test_bad_objectives_and_stacks_are_refused(stack, regression):
    with pytest.raises(mm.InputError, match="objective: expected an Objective, got str"):
        minimize("squares", stack)
    with pytest.raises(mm.InputError, match=r"target: expected shape \(11, 11\), got \(12, 12\)"):
        minimize(regression, stack[np.ix_(range(11), range(11))])


def test_stack_from_arrays(sources, stack, regression):
    options = {"max_iter": 5, "random_state": 0}
    expected = minimize(regression, stack, **options).weights
    for given in (sources, np.stack(sources, axis=-1)):
        assert np.array_equal(minimize(regression, given, **options).weights, expected)


def test_start_from_a_mixture_in_any_order(sources, regression):
    stack = mm.DissimilarityStack(sources, ["a", "b", "c"])
    mixture = mm.Mixture([3.0, 1.0, 2.0], names=["c", "a", "b"])
    result = minimize(regression, stack, start=mixture, max_iter=0)
    assert result.weights.tolist() == [1.0, 2.0, 3.0]
    assert result.mixture.names == ("a", "b", "c")


def test_default_start_is_uniform(stack, regression):
    assert minimize(regression, stack, max_iter=0).weights.tolist() == [1 / 3] * 3


def test_solver_state_is_not_shared(stack, regression):
    start = np.full(R, 0.5)
    solver = Stochastic().bind(Problem(regression, stack), start)
    rng = np.random.default_rng(0)
    state = solver.init(rng)
    solver.step(state, 0, rng)
    assert state.weights.tolist() == start.tolist() == [0.5] * R
    assert state.average.tolist() == [0.5] * R


def test_settings_belong_to_the_solver(stack, regression):
    with pytest.raises(mm.InputError, match=r"pass method=metricmix.solvers.Stochastic\(tol=...\)"):
        mm.minimize(regression, stack, tol=0.1)
    one = mm.minimize(regression, stack, Stochastic(batch_size=3), max_iter=5, random_state=0)
    other = minimize(regression, stack, batch_size=3, max_iter=5, random_state=0)
    assert np.array_equal(one.weights, other.weights)

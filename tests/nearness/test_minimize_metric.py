"""Any objective over metrics by projection: agreement with a conic solver, bounds, the loop."""

from __future__ import annotations

import itertools
import warnings
from functools import cache

import cvxpy as cp
import numpy as np
import pytest

import metricmix as mm
from metricmix.exceptions import CheckpointError, ConvergenceWarning, InputError
from metricmix.kernels.threads import ThreadPool
from metricmix.nearness.minimize_metric import solver_for
from metricmix.nearness.pair_objective import (
    PairObjective,
    SeparableCosts,
    prox_separable,
    prox_terms,
    separable_minimum,
)
from metricmix.nearness.problem import pairs_of
from metricmix.nearness.projected_gradient import ProjectedGradient
from metricmix.nearness.projection import NO_DUALS, project_onto_metrics
from metricmix.nearness.splitting import Splitting
from metricmix.objectives import Objective
from metricmix.solvers import Status

TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def noise(n, seed=0):
    """Dissimilarities that break many triangles."""
    d = np.abs(np.random.default_rng(seed).normal(size=(n, n)))
    d = 0.5 * (d + d.T)
    np.fill_diagonal(d, 0.0)
    return d


def labels(n):
    return np.arange(n) % 3


def triples(n, seed=0):
    rows = np.random.default_rng(seed).integers(n, size=(8 * n, 3))
    return rows[[len(set(row)) == 3 for row in rows.tolist()]]


def absolute(target, **options):
    return mm.objectives.Separable(
        lambda d, i, j: np.abs(d - target[i, j]),
        lambda d, i, j: np.sign(d - target[i, j]),
        **options,
    )


def hinge(near, target, **options):
    """Some pairs should be nearer than their target, the others farther."""
    sign = np.where(near, 1.0, -1.0)
    return mm.objectives.Separable(
        lambda d, i, j: np.maximum(0.0, sign[i, j] * (d - target[i, j])),
        lambda d, i, j: sign[i, j] * (sign[i, j] * (d - target[i, j]) > 0),
        **options,
    )


def huber(target, **options):
    return mm.objectives.Separable(
        lambda d, i, j: np.where(
            np.abs(d - target[i, j]) < 0.2,
            (d - target[i, j]) ** 2,
            0.4 * np.abs(d - target[i, j]) - 0.04,
        ),
        lambda d, i, j: np.clip(2.0 * (d - target[i, j]), -0.4, 0.4),
        **options,
    )


def near_pairs(n):
    drawn = np.triu(np.random.default_rng(7).random((n, n)) < 0.4)
    return drawn | drawn.T


class Own(Objective):
    """Terms of one's own: over some pairs, some of them twice, with unequal probabilities."""

    def __init__(self, n, *, nonsmooth, rho=0.0):
        super().__init__(rho)
        every = np.argwhere(~np.eye(n, dtype=bool))
        self.listed = np.concatenate([every[::2], every[::3], [[0, 0]]])
        self.target = noise(n, 3)[self.listed[:, 0], self.listed[:, 1]]
        shares = 1.0 + np.arange(len(self.listed)) % 4
        self.shares = shares / shares.sum()
        self.nonsmooth = nonsmooth

    def check(self, n):
        pass

    def n_terms(self, n):
        return len(self.listed)

    def pairs(self, terms, n):
        return self.listed[terms, :1], self.listed[terms, 1:]

    def evaluate(self, terms, d, n):
        off = d[:, 0] - self.target[terms]
        if self.nonsmooth:
            return np.abs(off) + 2.0 * off**2, (np.sign(off) + 4.0 * off)[:, None]
        return off**4, 4.0 * off[:, None] ** 3

    def probabilities(self, terms, n):
        return self.shares[terms]


class Quadruplets(Objective):
    """Hinges that compare two pairs anywhere, one of them perhaps an item and itself."""

    def __init__(self, rows):
        super().__init__(0.02)
        self.rows = rows

    def check(self, n):
        pass

    def n_terms(self, n):
        return len(self.rows)

    def pairs(self, terms, n):
        return self.rows[terms][:, [0, 2]], self.rows[terms][:, [1, 3]]

    def evaluate(self, terms, d, n):
        excess = 1.0 + d[:, 0] - d[:, 1]
        active = 1.0 * (excess > 0)
        return np.maximum(excess, 0.0), np.stack([active, -active], axis=1)


# -- agreement with all constraints at once -------------------------------------------------------


def reference(objective, n, cost):
    """Solve with every triangle inequality; `cost` makes terms from expressions per place."""
    over = PairObjective(objective, n)
    x = cp.Variable(over.pairs)
    place = {frozenset(p): e for e, p in enumerate((i, j) for i in range(n) for j in range(i))}
    rows = [
        [place[frozenset(pair)] for pair in ((i, j), (i, k), (k, j))]
        for i, j in itertools.combinations(range(n), 2)
        for k in range(n)
        if k not in (i, j)
    ]
    side, leg, other = np.array(rows).T
    padded = cp.hstack([x, np.zeros(1)])
    d = [padded[over.where[:, k]] for k in range(over.where.shape[1])]
    ridge = sum(cp.sum(cp.multiply(over.p * over.ridge, cp.square(part))) for part in d)
    total = cp.sum(cp.multiply(over.p, cost(*d))) + ridge
    problem = cp.Problem(cp.Minimize(total), [x[side] <= x[leg] + x[other], x >= 0])
    problem.solve(solver=cp.CLARABEL, **TIGHT)
    return problem.value


def by_name(name, n):
    """Return an objective and what cvxpy needs to know of it."""
    D, near, y = noise(n), near_pairs(n), labels(n)
    t = D.ravel()
    sign = np.where(near, 1.0, -1.0).ravel()
    wished = np.where(near, 0.4 * D, 1.5 * D)
    if name == "least squares":
        return mm.objectives.LeastSquares(D), lambda d: cp.square(d - t)
    if name == "least squares, some":
        known = np.where(near & (D > 0), np.nan, D)
        left = t[~np.isnan(known.ravel())]
        return mm.objectives.LeastSquares(known, rho=0.01), lambda d: cp.square(d - left)
    if name == "huber":
        return huber(D, convex=True), lambda d: cp.huber(d - t, 0.2)
    if name == "quartic":
        own = Own(n, nonsmooth=False)
        return own, lambda d: cp.power(d - own.target, 4)
    if name == "contrast":
        contrast = mm.objectives.LabelContrast(y, rho=0.05)
        return contrast, lambda d: cp.multiply(np.where(y[:, None] == y, 1, -1).ravel(), d)
    if name == "absolute":
        return absolute(D, convex=True), lambda d: cp.abs(d - t)
    if name == "absolute, undeclared":
        return absolute(D, rho=0.01), lambda d: cp.abs(d - t)
    if name == "hinge":
        return (
            hinge(near, wished, convex=True),
            lambda d: cp.pos(cp.multiply(sign, d - wished.ravel())),
        )
    if name == "nonsmooth":
        bent = Own(n, nonsmooth=True, rho=0.05)
        return bent, lambda d: cp.abs(d - bent.target) + 2.0 * cp.square(d - bent.target)
    if name == "triplets":
        return mm.objectives.Triplets(triples(n), rho=0.02), lambda a, b: cp.pos(1.0 + a - b)
    if name == "triplets, no ridge":
        return mm.objectives.Triplets(triples(n)), lambda a, b: cp.pos(1.0 + a - b)
    assert name == "quadruplets"
    rows = np.random.default_rng(5).integers(n, size=(6 * n, 4))
    return Quadruplets(rows), lambda a, b: cp.pos(1.0 + a - b)


SMOOTH = ("least squares", "least squares, some", "huber", "quartic", "contrast")
NONSMOOTH = (
    "absolute",
    "absolute, undeclared",
    "hinge",
    "nonsmooth",
    "triplets",
    "triplets, no ridge",
    "quadruplets",
)
PROVED = ("least squares", "least squares, some", "huber", "contrast", "absolute", "hinge")


LARGER = ("least squares", "hinge", "triplets")
"""One objective for each of the solvers: gradients, costs of pairs, terms over several pairs."""


@pytest.mark.parametrize(
    ("name", "n"), [*((name, 5) for name in SMOOTH + NONSMOOTH), *((name, 9) for name in LARGER)]
)
def test_agrees_with_a_conic_solver(name, n):
    objective, cost = by_name(name, n)
    best = reference(objective, n, cost)
    result = mm.minimize_metric(objective, noise(n, 1), "projected", tol=1e-7)
    assert result.status is Status.CONVERGED
    assert mm.is_metric(result.metric)
    value, _ = PairObjective(objective, n).value_and_gradient(pairs_of(result.metric))
    assert result.objective == pytest.approx(value, rel=1e-12)
    assert result.objective == pytest.approx(best, rel=1e-6, abs=1e-8)
    kind = Splitting if name in NONSMOOTH else ProjectedGradient
    with ThreadPool(1) as pool:
        solver = solver_for(PairObjective(objective, n), noise(n, 1), 1e-6, pool)
    assert isinstance(solver, kind)
    if name in PROVED:
        assert result.lower_bound <= best + 1e-8 * abs(best) + 1e-9
        assert result.objective - result.lower_bound <= 1e-7 * abs(result.objective) + 1e-8
        assert result.gap == pytest.approx(
            (result.objective - result.lower_bound) / abs(result.objective), abs=1e-12
        )
    else:
        assert result.lower_bound is None
        assert result.gap is None


def test_absolute_values_are_the_nearest_metric_in_l1():
    D = noise(12, 4)
    nearest = mm.nearest_metric(D, "l1", tol=1e-9)
    result = mm.minimize_metric(absolute(D, convex=True), D, "projected", tol=1e-8)
    assert result.objective * 12**2 / 2 == pytest.approx(nearest.objective, rel=1e-7)


@pytest.mark.parametrize("name", ["least squares", "absolute", "contrast", "triplets"])
def test_is_never_worse_than_paths(name):
    objective, _ = by_name(name, 6)
    along = mm.minimize_metric(objective, noise(6), max_iter=2000, random_state=0)
    value, _ = PairObjective(objective, 6).value_and_gradient(pairs_of(along.metric))
    result = mm.minimize_metric(objective, noise(6), "projected")
    assert result.objective <= value + 1e-6 * abs(value)


def test_the_start_does_not_matter_if_convex():
    objective, _ = by_name("hinge", 7)
    starts = [noise(7), np.zeros((7, 7)), -noise(7), 1e3 * noise(7, 2), 1e-3 * noise(7, 2)]
    values = [mm.minimize_metric(objective, X0, "projected").objective for X0 in starts]
    assert values == pytest.approx([values[0]] * len(starts), rel=3e-6)


def test_units_do_not_matter():
    D = noise(7)
    for scale in (1e-6, 1e6):
        small = mm.minimize_metric(absolute(scale * D, convex=True), scale * D, "projected")
        usual = mm.minimize_metric(absolute(D, convex=True), D, "projected")
        assert small.objective == pytest.approx(scale * usual.objective, rel=3e-6)
        assert small.converged


def test_nothing_left_to_gain():
    D = mm.project(noise(6) + 0.1 * (1 - np.eye(6)))
    for objective in (mm.objectives.LeastSquares(D), absolute(D, convex=True)):
        result = mm.minimize_metric(objective, D, "projected")
        assert result.converged
        assert result.objective == pytest.approx(0.0, abs=1e-12)
        assert result.metric == pytest.approx(D, abs=1e-9)
        far = mm.minimize_metric(objective, noise(6, 9), "projected")
        assert far.converged
        assert far.objective == pytest.approx(0.0, abs=1e-8)


def test_class_means_are_convex_and_smooth():
    objective = mm.objectives.ClassMeans(labels(8), rho=0.01)
    results = [mm.minimize_metric(objective, noise(8, s), "projected", tol=1e-8) for s in (0, 1)]
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-6)
    assert results[0].metric == pytest.approx(results[1].metric, abs=1e-3)


# -- objectives that are not convex ----------------------------------------------------------------


def bounded_loss(target):
    return mm.objectives.Separable(
        lambda d, i, j: 1.0 - np.exp(-((d - target[i, j]) ** 2)),
        lambda d, i, j: 2.0 * (d - target[i, j]) * np.exp(-((d - target[i, j]) ** 2)),
        rho=1e-3,
    )


@pytest.mark.parametrize("name", ["bounded", "neighbourhood"])
def test_stationary_where_not_convex(name):
    n = 8
    objective = (
        bounded_loss(noise(n))
        if name == "bounded"
        else mm.objectives.Neighbourhood(labels(n), rho=0.01)
    )
    result = mm.minimize_metric(objective, noise(n, 1), "projected", tol=1e-8)
    assert result.status is Status.CONVERGED
    assert result.gap is None
    assert np.all(np.diff(result.trace.objective) <= 0)
    over, x = PairObjective(objective, n), pairs_of(result.metric)
    value, gradient = over.value_and_gradient(x)
    with ThreadPool(1) as pool:
        for step in (1e-2, 1.0, 100.0):
            there = project_onto_metrics(x - step * gradient, None, n, pool, NO_DUALS, 1e-12).metric
            for share in (1e-3, 1e-2, 0.1):
                reached, _ = over.value_and_gradient(x + share * (there - x))
                assert reached >= value - 1e-7 * abs(value)


def test_nonsmooth_terms_that_are_not_convex():
    D = noise(6)
    capped = mm.objectives.Separable(
        lambda d, i, j: np.minimum(np.abs(d - D[i, j]), 0.3),
        lambda d, i, j: np.sign(d - D[i, j]) * (np.abs(d - D[i, j]) < 0.3),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = mm.minimize_metric(capped, D, "projected", max_iter=100)
    assert mm.is_metric(result.metric)
    assert result.objective <= result.trace.objective[0]
    assert result.gap is None


# -- proximal maps and bounds ----------------------------------------------------------------------


def test_proximal_points_of_absolute_values():
    n = 6
    costs = SeparableCosts(PairObjective(absolute(noise(n)), n))
    d, v = pairs_of(noise(n)), 3.0 * pairs_of(noise(n, 2)) - 1.0
    for sigma in (1e-3, 0.1, 10.0):
        short = 2.0 / n**2 / sigma  # both orders of a pair count
        y, value = prox_separable(costs, v, sigma, np.zeros(len(v)))
        known = d + np.sign(v - d) * np.maximum(np.abs(v - d) - short, 0.0)
        assert y == pytest.approx(np.maximum(known, 0.0), abs=1e-12 * max(1.0, short))
        assert value == pytest.approx(2.0 / n**2 * np.abs(y - d).sum())
        again, _ = prox_separable(costs, v, sigma, y)
        assert again == pytest.approx(y, abs=1e-12 * max(1.0, short))


def test_proximal_points_of_hinges():
    n = 6
    objective = mm.objectives.Triplets(triples(n), rho=0.1)
    over = PairObjective(objective, n)
    v = np.random.default_rng(0).normal(1.0, 2.0, over.where.shape)
    for sigma in (0.01, 1.0):
        y, value = prox_terms(over, v, sigma)
        own = (over.evaluate(over.terms, y)[0]).sum()
        assert value == pytest.approx(own, abs=1e-12)
        cost = own + 0.5 * sigma * ((y - v) ** 2).sum()
        for seed in range(5):
            other = y + 0.05 * np.random.default_rng(seed).normal(size=y.shape)
            away = over.evaluate(over.terms, other)[0].sum()
            assert cost <= away + 0.5 * sigma * ((other - v) ** 2).sum()


def test_least_of_pairs():
    n = 5
    costs = SeparableCosts(PairObjective(absolute(noise(n)), n))
    pull = np.random.default_rng(0).normal(0.0, 0.1, costs.objective.pairs)
    grid = np.linspace(0.0, 4.0, 200_001)
    d = pairs_of(noise(n))
    known = sum(
        (2.0 / n**2 * np.abs(grid - t) + u * grid).min() for t, u in zip(d, pull, strict=True)
    )
    least, error = separable_minimum(costs, pull, 4.0, np.ones(len(d)))
    assert least == pytest.approx(known, abs=1e-4)
    assert least - error <= known
    assert 0 <= error < 1e-10


# -- the loop --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["quartic", "hinge", "triplets"])
def test_resumes_to_the_very_same_result(name, tmp_path):
    objective, _ = by_name(name, 6)
    X0, path = noise(6, 1), tmp_path / "run.npz"
    whole = mm.minimize_metric(objective, X0, "projected")
    assert whole.n_iter > 8
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        part = mm.minimize_metric(objective, X0, "projected", max_iter=7, checkpoint=path)
    assert part.n_iter == 7
    assert mm.is_metric(part.metric)
    assert part.objective >= whole.objective
    resumed = mm.minimize_metric(objective, X0, "projected", checkpoint=path)
    assert resumed.n_iter == whole.n_iter
    assert resumed.trace.objective == whole.trace.objective
    assert np.array_equal(resumed.metric, whole.metric)
    assert (resumed.lower_bound, resumed.gap) == (whole.lower_bound, whole.gap)
    done = mm.minimize_metric(objective, X0, "projected", checkpoint=path)
    assert (done.n_iter, done.status) == (whole.n_iter, Status.CONVERGED)
    with pytest.raises(CheckpointError):
        mm.minimize_metric(objective, X0, "projected", tol=1e-3, checkpoint=path)


@pytest.mark.parametrize("name", ["quartic", "hinge"])
def test_interruption_keeps_the_best(name, tmp_path):
    objective, _ = by_name(name, 6)
    X0, path = noise(6, 1), tmp_path / "run.npz"

    def interrupt(progress):
        if progress.iteration == 5:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        result = mm.minimize_metric(objective, X0, "projected", callback=interrupt, checkpoint=path)
    assert result.status is Status.INTERRUPTED
    assert result.objective == min(result.trace.objective)
    assert mm.is_metric(result.metric)
    resumed = mm.minimize_metric(objective, X0, "projected", checkpoint=path)
    assert np.array_equal(resumed.metric, mm.minimize_metric(objective, X0, "projected").metric)


def test_limits_and_callback(capsys):
    objective, _ = by_name("hinge", 9)
    seen = []
    result = mm.minimize_metric(
        objective,
        noise(9, 1),
        "projected",
        callback=lambda p: seen.append((p.iteration, p.objective)) or p.iteration == 3,
        verbose=True,
    )
    capsys.readouterr()
    assert result.status is Status.STOPPED
    assert [iteration for iteration, _ in seen] == [0, 1, 2, 3]
    assert [value for _, value in seen] == result.trace.objective
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        late = mm.minimize_metric(objective, noise(9, 1), "projected", time_limit=0.0)
    assert late.status is Status.TIME_LIMIT
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        none = mm.minimize_metric(objective, noise(9, 1), "projected", max_iter=0)
    assert none.metric == pytest.approx(mm.nearest_metric(noise(9, 1), tol=1e-12).metric, abs=1e-6)
    assert none.gap is None


@pytest.mark.parametrize("name", ["quartic", "absolute"])
def test_threads_do_not_matter(name, monkeypatch):
    monkeypatch.setattr("metricmix.kernels.threads.WORTHWHILE", 1)
    objective, _ = by_name(name, 70)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one, two = (
            mm.minimize_metric(objective, noise(70), "projected", max_iter=3, n_jobs=jobs)
            for jobs in (1, 2)
        )
    assert np.array_equal(one.metric, two.metric)
    assert one.trace.objective == two.trace.objective


def test_values_that_are_not_finite_end_it():
    broken = mm.objectives.Separable(
        lambda d, i, j: np.where(d > 0.5, np.nan, d), lambda d, i, j: np.ones_like(d)
    )
    with pytest.warns(ConvergenceWarning, match="not finite"):
        result = mm.minimize_metric(broken, noise(5), "projected")
    assert result.status is Status.DIVERGED


# -- small and bad input ---------------------------------------------------------------------------


def test_too_few_items_for_a_triangle():
    one = mm.minimize_metric(mm.objectives.LeastSquares([[0.0]]), [[0.0]], "projected")
    assert one.metric.tolist() == [[0.0]]
    for target, known in ((3.0, 3.0), (-1.0, 0.0)):
        D = np.array([[0.0, target], [target, 0.0]])
        for objective in (mm.objectives.LeastSquares(D), absolute(D, convex=True)):
            two = mm.minimize_metric(objective, np.ones((2, 2)), "projected")
            assert two.converged
            assert two.metric[0, 1] == pytest.approx(known, abs=1e-5)


def test_bad_input():
    objective = mm.objectives.LeastSquares(noise(4))
    lopsided = noise(4)
    lopsided[0, 1] += 1.0
    for X0, words in (
        (noise(5), "target"),
        (noise(4)[:3], "X0"),
        (lopsided, "symmetric"),
        (np.full((4, 4), np.nan), "X0"),
    ):
        with pytest.raises(InputError, match=words):
            mm.minimize_metric(objective, X0, "projected")
    with pytest.raises(InputError, match="learning_rate"):
        mm.minimize_metric(objective, noise(4), "projected", learning_rate=0.1)
    with pytest.raises(InputError, match="tol"):
        mm.minimize_metric(objective, noise(4), "projected", tol=-1.0)
    with pytest.raises(InputError, match="max_iter"):
        mm.minimize_metric(objective, noise(4), "projected", max_iter=-1)
    with pytest.raises(InputError, match="objective"):
        mm.minimize_metric(lambda d: d, noise(4), "projected")
    with pytest.raises(InputError, match="method"):
        mm.minimize_metric(objective, noise(4), "splitting")
    for method in ("paths", "projected"):
        with pytest.raises(InputError, match=r"objective: its centre is one of weights"):
            mm.minimize_metric(objective.centred([1.0]), noise(4), method)


# -- starts of any size --------------------------------------------------------------------------


@cache
def goal_of_size(kind):
    """Return an objective over four items, and the result of a start at its minimum."""
    rng = np.random.default_rng(1)
    T = np.zeros((4, 4))
    T[np.tril_indices(4, -1)] = 700 * rng.random(6)
    T = T + T.T
    if kind == "squares":
        goal, best = mm.objectives.LeastSquares(T), mm.nearest_metric(T, tol=1e-12).metric
    else:
        goal = mm.objectives.Separable(
            lambda d, i, j: abs(d - T[i, j]), lambda d, i, j: np.sign(d - T[i, j]), convex=True
        )
        best = mm.nearest_metric(T, "l1", tol=1e-12).metric
    return goal, mm.minimize_metric(goal, best, "projected")


@pytest.mark.parametrize("size", [0.0, 1e-15, 1.0, 1e12])
@pytest.mark.parametrize("kind", ["absolute", "squares"])
def test_the_size_of_the_start_does_not_matter(size, kind):
    goal, least = goal_of_size(kind)
    result = mm.minimize_metric(goal, size * (1 - np.eye(4)), "projected")
    assert mm.is_metric(result.metric)
    assert result.objective == pytest.approx(least.objective, rel=2e-6)
    assert result.lower_bound <= least.objective * (1 + 1e-10)


def test_triplets_from_nothing():
    goal = mm.objectives.Triplets([[0, 1, 2], [1, 2, 3], [3, 4, 0]])
    assert mm.minimize_metric(goal, np.zeros((5, 5)), "projected").objective < 1e-6


def test_an_objective_without_a_minimum():
    goal = mm.objectives.Separable(lambda d, i, j: -d, lambda d, i, j: -np.ones_like(d))
    with pytest.warns(mm.ConvergenceWarning, match="no minimum"):
        result = mm.minimize_metric(goal, np.ones((6, 6)), "projected")
    assert result.status is mm.Status.DIVERGED
    assert mm.is_metric(result.metric)

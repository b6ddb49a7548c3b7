"""nearest_metric: the optimum, the certificate, and all the ways a run can end."""

from __future__ import annotations

import copy
import dataclasses
import sys
import warnings

import numpy as np
import pytest

import metricmix as mm
from metricmix.kernels.threads import ThreadPool
from metricmix.nearness import dual_ascent, refine_linf
from metricmix.nearness.coordinate_ascent import AcceleratedAscent
from metricmix.nearness.nearest_metric import solver_for
from metricmix.nearness.norms.norm import NORMS as KNOWN_NORMS
from metricmix.nearness.reading import read_problem, tighten_bounds
from reference.nearness import all_triangles, objective_of, optimum, pairs

NORMS = ("l2", "l1", "linf", "decrease", "increase")


def dissimilarity(n, seed=0, kind="normal"):
    rng = np.random.default_rng(seed)
    if kind == "normal":
        D = abs(rng.standard_normal((n, n)))
    elif kind == "squares":
        X = rng.standard_normal((n, 2))
        D = ((X[:, None] - X) ** 2).sum(axis=-1)
    elif kind == "noisy":
        X = rng.standard_normal((n, 3))
        D = abs(np.sqrt(((X[:, None] - X) ** 2).sum(axis=-1)) + 0.4 * rng.standard_normal((n, n)))
    else:
        D = rng.integers(0, 6, (n, n)).astype(float)
    D = np.tril(D, -1)
    return D + D.T


def symmetric(rng, n, low, high):
    M = np.tril(rng.uniform(low, high, (n, n)), -1)
    return M + M.T


def missing(D, rng):
    """Drop a third of the entries, but keep a path through all items."""
    n = len(D)
    drop = np.tril(rng.random((n, n)) < 0.35, -1)
    drop[np.arange(1, n), np.arange(n - 1)] = False
    return np.where(drop | drop.T, np.nan, D)


def plain(D, norm, rng):
    return D, {}


def weighted(D, norm, rng):
    return D, {"weights": np.exp(symmetric(rng, len(D), -2, 2))}


def with_missing(D, norm, rng):
    return missing(D, rng), {}


def with_zero_weights(D, norm, rng):
    weights = symmetric(rng, len(D), 0.2, 2)
    weights[np.isnan(missing(D, rng))] = 0
    return D, {"weights": weights}


def with_bounds(D, norm, rng):
    """Bounds that some metric keeps: they surround one."""
    middle = mm.project(D) if norm != "increase" else D + D.max()
    bounds = {
        "lower": np.maximum(0.9 * middle - 0.05, 0),
        "upper": 1.3 * middle + 0.1,
    }
    if norm == "decrease":
        del bounds["upper"]
    return D, bounds


def with_fixed(D, norm, rng):
    """Some entries that fit together are held, in the middle of others that do not."""
    n = len(D)
    fixed = np.zeros((n, n), bool)
    fixed[:3, :3] = True
    D = D.copy()
    D[:3, :3] = mm.project(D)[:3, :3]
    return D, {"fixed": fixed}


def with_everything(D, norm, rng):
    D, options = with_fixed(D, norm, rng)
    gone = missing(D, rng)
    gone[:3, :3] = D[:3, :3]
    lower = 0.8 * mm.project(D)
    lower[:3, :3] = np.nan
    return gone, options | {"lower": lower, "weights": symmetric(rng, len(D), 0.5, 3)}


CASES = (
    plain,
    weighted,
    with_missing,
    with_zero_weights,
    with_bounds,
    with_fixed,
    with_everything,
)


def check_within(result, options):
    metric = result.metric
    rounding = 1e-12 * metric.max()
    off = ~np.eye(len(metric), dtype=bool)
    if "lower" in options:
        assert (metric - np.nan_to_num(options["lower"]) >= -rounding)[off].all()
    if "upper" in options:
        assert (metric - options["upper"] <= rounding)[off].all()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("norm", NORMS)
def test_finds_the_optimum_and_brackets_it(norm, case):
    for seed, kind in enumerate(("normal", "squares", "noisy", "whole")):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 10))
        D, options = case(dissimilarity(n, seed, kind), norm, rng)
        best = optimum(D, norm, **options)
        result = mm.nearest_metric(D, norm, tol=1e-8, **options)
        scale = max(best, 1e-3)
        assert result.objective == pytest.approx(best, rel=1e-6, abs=1e-8)
        assert result.lower_bound <= best + 1e-7 * scale
        assert result.objective >= best - 1e-7 * scale
        assert result.lower_bound <= result.objective
        assert result.gap <= 1e-8
        assert result.converged
        assert mm.is_metric(result.metric, tol=1e-9)
        weights = options.get("weights", np.ones(D.shape))
        known = ~np.isnan(D) & (weights > 0)
        w = np.where(pairs(known), pairs(weights), 0)
        told = objective_of(norm, pairs(result.metric), np.nan_to_num(pairs(D)), w)
        assert result.objective == pytest.approx(told, rel=1e-9, abs=1e-12)
        check_within(result, options)
        if "fixed" in options:
            held = options["fixed"]
            np.testing.assert_allclose(result.metric[held], D[held], rtol=1e-12)
        if norm == "decrease":
            assert (result.metric <= D + 1e-12)[known].all()
        if norm == "increase":
            assert (result.metric >= D - 1e-12)[known].all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", ["normal", "squares", "noisy", "whole"])
def test_larger_ones_reach_the_gap(norm, kind):
    D = dissimilarity(60, kind=kind)
    result = mm.nearest_metric(D, norm, tol=1e-6)
    assert result.converged
    assert result.gap <= 1e-6
    assert mm.is_metric(result.metric)


def test_lagrange_multipliers_of_squares():
    """x = d - A^T z / (2 w), z >= 0, and z is 0 where a triangle is slack."""
    D, options = weighted(dissimilarity(9), "l2", np.random.default_rng(1))
    result = mm.nearest_metric(D, tol=1e-12, **options)
    pull = np.zeros_like(D)
    for (i, j, k), z in zip(result.triangles, result.multipliers, strict=True):
        assert z > 0
        for a, b, sign in ((i, j, 1), (i, k, -1), (k, j, -1)):
            pull[a, b] += sign * z
            pull[b, a] += sign * z
    expected = np.where(options["weights"] > 0, 2 * options["weights"] * (D - result.metric), 0)
    np.testing.assert_allclose(pull, expected, atol=1e-4)
    M = result.metric
    i, j, k = result.triangles.T
    np.testing.assert_allclose(M[i, j], M[i, k] + M[k, j], atol=1e-5)


def test_largest_change_is_exact():
    """To the last digits, not to a tolerance: the solver ends at the cycle that decides."""
    for seed in range(5):
        result = mm.nearest_metric(dissimilarity(40, seed), "linf", tol=0)
        assert result.gap <= 1e-13
        assert result.n_iter < 30


def test_increase_and_decrease_keep_to_their_side():
    D = dissimilarity(30)
    assert (mm.nearest_metric(D, "increase").metric >= D).all()
    decreased = mm.nearest_metric(D, "decrease")
    np.testing.assert_array_equal(decreased.metric, mm.project(D))
    assert (decreased.gap, decreased.n_iter) == (0.0, 0)


def test_bounds_as_numbers():
    D = dissimilarity(20)
    result = mm.nearest_metric(D, lower=0.5, upper=0.9)
    off = ~np.eye(20, dtype=bool)
    assert result.metric[off].min() >= 0.5
    assert result.metric[off].max() <= 0.9


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [1, 2])
def test_too_few_items_for_a_triangle(norm, n):
    D = np.full((n, n), 3.0)
    np.fill_diagonal(D, 0)
    result = mm.nearest_metric(D, norm)
    np.testing.assert_array_equal(result.metric, D)
    assert (result.objective, result.gap, result.n_iter) == (0.0, 0.0, 0)
    if n == 2 and norm in ("l2", "l1", "linf"):
        bounded = mm.nearest_metric(D, norm, upper=2.0)
        assert bounded.metric[0, 1] == 2.0
        assert bounded.objective == 1.0


@pytest.mark.parametrize("norm", NORMS)
def test_metrics_stay(norm):
    x = np.arange(7.0) ** 2
    D = abs(x[:, None] - x)
    for metric in (D, np.zeros((5, 5)), 1 - np.eye(4)):
        result = mm.nearest_metric(metric, norm)
        np.testing.assert_array_equal(result.metric, metric)
        assert result.objective == result.lower_bound == result.gap == 0.0
        assert result.status is mm.Status.CONVERGED


@pytest.mark.parametrize("norm", NORMS)
def test_sizes_of_entries_and_weights_do_not_matter(norm):
    D = dissimilarity(12)
    W = symmetric(np.random.default_rng(0), 12, 0.5, 2)
    power = 1 if norm in ("l1", "linf") else 2
    reference = mm.nearest_metric(D, norm, W)
    for scale, heavy in ((2.0**100, 2.0**-40), (2.0**-100, 2.0**60)):
        result = mm.nearest_metric(scale * D, norm, heavy * W)
        np.testing.assert_array_equal(result.metric, scale * reference.metric)
        assert result.objective == scale**power * heavy * reference.objective


def test_equal_weights_are_no_weights():
    D = dissimilarity(12)
    result, reference = mm.nearest_metric(D, weights=np.full((12, 12), 3.0)), mm.nearest_metric(D)
    np.testing.assert_array_equal(result.metric, reference.metric)
    assert result.objective == pytest.approx(3 * reference.objective)


def test_float32_and_lists_are_taken():
    D = dissimilarity(8).astype(np.float32)
    result = mm.nearest_metric(D)
    assert result.metric.dtype == np.float64
    np.testing.assert_allclose(mm.nearest_metric(D.tolist()).metric, result.metric, rtol=1e-6)


def test_input_is_left_alone():
    D = missing(dissimilarity(12), np.random.default_rng(0))
    W = np.ones((12, 12))
    before = D.copy()
    for norm in NORMS:
        mm.nearest_metric(D, norm, W, lower=0.0)
        np.testing.assert_array_equal(D, before)
        assert (W == 1).all()


@pytest.mark.parametrize(("norm", "rounds"), [("l2", 2), ("l1", 1), ("increase", 1)])
def test_threads_change_nothing(norm, rounds, monkeypatch):
    """Several blocks of items, shared out over threads; few rounds, to be quick."""
    for module in ("constraints", "nearest_metric"):
        monkeypatch.setattr(sys.modules[f"metricmix.nearness.{module}"], "SMALL", 64)
    D = dissimilarity(200)
    results = []
    for n_jobs in (1, 3):
        with pytest.warns(mm.ConvergenceWarning):
            results.append(mm.nearest_metric(D, norm, max_iter=rounds, n_jobs=n_jobs))
    one, three = results
    np.testing.assert_array_equal(three.metric, one.metric)
    assert (three.lower_bound, three.n_iter) == (one.lower_bound, one.n_iter)


def same(one, other):
    """Whether two states are equal, array by array."""
    return all(
        np.array_equal(getattr(one, f.name), getattr(other, f.name), equal_nan=True)
        if isinstance(getattr(one, f.name), np.ndarray)
        else getattr(one, f.name) == getattr(other, f.name)
        for f in dataclasses.fields(one)
    )


@pytest.mark.parametrize("case", [plain, with_missing, with_bounds])
@pytest.mark.parametrize("norm", ["l2", "l1", "linf", "increase"])
def test_steps_are_pure(norm, case):
    """A step leaves the given state alone, and gives the same result when it is taken again."""
    rng = np.random.default_rng(0)
    D, options = case(dissimilarity(30), norm, rng)
    bounds = (options.get("lower"), options.get("upper"), None)
    problem = tighten_bounds(read_problem(norm, D, None, bounds), 1)
    with ThreadPool(1) as pool:
        solver = solver_for(problem, pool, 1e-12)
        state, _ = solver.check(solver.init(rng))
        for iteration in range(4):
            before = copy.deepcopy(state)
            after = solver.step(state, iteration, rng)
            assert same(state, before)
            assert same(solver.step(state, iteration, rng), after)
            assert not same(state, after) or solver.status(state) is not None
            state = after


def test_refined_largest_change():
    D = dissimilarity(30)
    result = mm.nearest_metric(D, "linf")
    refined = refine_linf(D, result)
    assert mm.is_metric(refined.metric)
    assert abs(refined.metric - D).max() <= result.objective * (1 + 1e-9)
    assert ((refined.metric - D) ** 2).sum() < 0.5 * ((result.metric - D) ** 2).sum()
    assert (refined.objective, refined.gap) == (result.objective, result.gap)


# -- how runs end ----------------------------------------------------------------------------------


def test_too_few_rounds():
    D = dissimilarity(40)
    with pytest.warns(mm.ConvergenceWarning, match=r"max_iter.*start=result.*certified gap"):
        result = mm.nearest_metric(D, max_iter=2)
    assert result.status is mm.Status.MAX_ITER
    assert "max_iter" in result.message
    assert not result.converged
    assert 1e-6 < result.gap < 1
    assert mm.is_metric(result.metric)
    assert result.lower_bound <= mm.nearest_metric(D).objective <= result.objective


@pytest.mark.parametrize("norm", ["l2", "l1", "linf"])
def test_no_time(norm):
    with pytest.warns(mm.ConvergenceWarning, match="time_limit"):
        result = mm.nearest_metric(dissimilarity(40), norm, time_limit=0)
    assert result.status is mm.Status.TIME_LIMIT
    assert mm.is_metric(result.metric)


def test_callback_is_told_and_may_stop():
    seen = []

    def stop(progress):
        seen.append(progress)
        return progress.gap < 0.5

    D = dissimilarity(40)
    result = mm.nearest_metric(D, callback=stop)
    assert result.status is mm.Status.STOPPED
    assert [p.iteration for p in seen] == list(range(len(seen)))
    assert seen[-1].objective == result.trace.objective[-1]
    assert seen[-1].bound == result.trace.bound[-1] == result.lower_bound
    assert seen[-1].gap < 0.5 <= seen[-2].gap
    assert result.objective <= seen[-1].objective
    assert "callback" in result.message


@pytest.mark.parametrize("norm", ["l2", "l1", "linf"])
def test_trace(norm):
    result = mm.nearest_metric(dissimilarity(30), norm)
    trace = result.trace
    assert len(trace.objective) == len(trace.bound) == len(trace) == result.n_iter + 1
    assert (np.diff(trace.objective) <= 0).all()
    assert (np.diff(trace.bound) >= 0).all()
    assert trace.objective[-1] == result.objective
    assert list(trace.to_frame().columns) == ["iteration", "objective", "time", "bound"]
    assert result.message == "converged: the gap is within tol"


@pytest.mark.parametrize("when", [1, 2, 5])
@pytest.mark.parametrize(
    ("where", "what"),
    [(AcceleratedAscent, "climb"), (dual_ascent, "find_violated"), (dual_ascent, "repair_primal")],
)
def test_interruption_anywhere_returns_a_metric(monkeypatch, where, what, when):
    function, calls = getattr(where, what), []

    def interrupted(*args, **options):
        calls.append(0)
        if len(calls) == when:
            raise KeyboardInterrupt
        return function(*args, **options)

    D = dissimilarity(30)
    monkeypatch.setattr(where, what, interrupted)
    with pytest.warns(mm.ConvergenceWarning, match="interrupted"):
        result = mm.nearest_metric(D)
    assert result.status is mm.Status.INTERRUPTED
    assert mm.is_metric(result.metric)
    monkeypatch.undo()
    best = mm.nearest_metric(D)
    assert result.lower_bound <= best.objective * (1 + 1e-9)
    assert result.objective >= best.lower_bound * (1 - 1e-9)


def test_interruption_of_the_largest_change():
    def interrupted(progress):
        raise KeyboardInterrupt

    with pytest.warns(mm.ConvergenceWarning, match="interrupted"):
        result = mm.nearest_metric(dissimilarity(20), "linf", callback=interrupted)
    assert mm.is_metric(result.metric)


def test_a_gap_beyond_the_arithmetic():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ConvergenceWarning)
        result = mm.nearest_metric(dissimilarity(10, kind="noisy"), tol=0.0, max_iter=2000)
    assert result.gap < 1e-12
    assert result.n_iter < 2000


@pytest.mark.parametrize("norm", ["l2", "l1", "increase"])
def test_goes_on_from_a_result(norm):
    D = dissimilarity(50)
    with pytest.warns(mm.ConvergenceWarning):
        part = mm.nearest_metric(D, norm, tol=1e-7, max_iter=8)
    rest = mm.nearest_metric(D, norm, tol=1e-7, start=part)
    whole = mm.nearest_metric(D, norm, tol=1e-7)
    assert rest.converged
    assert rest.n_iter < whole.n_iter
    assert rest.objective == pytest.approx(whole.objective, rel=2e-7)
    again = mm.nearest_metric(D, norm, tol=1e-6, start=rest)
    assert again.n_iter <= 2


def test_goes_on_from_a_result_of_another_problem():
    D = dissimilarity(40)
    near = D * (1 + 1e-4 * symmetric(np.random.default_rng(0), 40, 0, 1))
    weights = symmetric(np.random.default_rng(1), 40, 1, 2)
    result = mm.nearest_metric(near, weights=weights, start=mm.nearest_metric(D, tol=1e-9))
    assert result.converged
    cold = mm.nearest_metric(near, weights=weights)
    assert result.objective == pytest.approx(cold.objective, rel=3e-6)


def test_starts_from_a_matrix():
    D = dissimilarity(30)
    good = mm.nearest_metric(D).metric
    for norm in ("l2", "linf"):
        best = objective_of(norm, pairs(good), pairs(D), 1.0)
        with pytest.warns(mm.ConvergenceWarning):
            result = mm.nearest_metric(D, norm, max_iter=0, start=good)
        assert result.objective <= best * (1 + 1e-12)


def test_linear_programs_finish_what_sweeps_begin():
    """Heavy-tailed weights: sweeps alone take hundreds of rounds."""
    D, options = weighted(dissimilarity(40), "l1", np.random.default_rng(3))
    result = mm.nearest_metric(D, "l1", tol=1e-9, **options)
    assert result.converged
    fewer = dual_ascent.PROGRAM_WAIT
    assert result.n_iter < 20 * fewer


def test_linear_programs_that_fail_do_no_harm(monkeypatch):
    monkeypatch.setattr("metricmix.nearness.norms.l1.LARGEST_PROGRAM", 0)
    result = mm.nearest_metric(dissimilarity(12, kind="noisy"), "l1")
    assert result.converged


def test_norms_are_those_promised():
    assert KNOWN_NORMS.names() == NORMS
    A = all_triangles(4)
    assert A.shape == (12, 6)


# -- what breaks certificates --------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["l2", "l1", "increase"])
@pytest.mark.parametrize("size", [1e-16, 1e-3, 1e8, 1e16])
def test_duals_of_a_problem_of_another_size_do_no_harm(norm, size):
    D = dissimilarity(10, kind="squares")
    cold = mm.nearest_metric(D, norm)
    warm = mm.nearest_metric(D, norm, start=mm.nearest_metric(size * D, norm))
    assert warm.converged
    assert warm.lower_bound <= cold.objective * (1 + 1e-12)
    assert warm.objective == pytest.approx(cold.objective, rel=2e-6)


@pytest.mark.parametrize("norm", ["l2", "l1", "linf", "increase"])
@pytest.mark.parametrize("placeholder", [0.0, 1e16, 1e150])
def test_what_stands_under_weight_0_does_not_matter(norm, placeholder):
    D, W = dissimilarity(10), np.ones((10, 10))
    W[0, 1] = W[1, 0] = 0.0
    unknown, written = np.where(W > 0, D, np.nan), np.where(W > 0, D, placeholder)
    result = mm.nearest_metric(written, norm, weights=W)
    assert result.objective == mm.nearest_metric(unknown, norm).objective
    assert mm.is_metric(result.metric)


@pytest.mark.parametrize("heavy", [1e8, 1e16, 1e22])
@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_one_dominant_weight(norm, heavy):
    D, W = dissimilarity(10), np.ones((10, 10))
    W[0, 1] = W[1, 0] = heavy
    result = mm.nearest_metric(D, norm, weights=W)
    assert result.converged
    assert result.gap == pytest.approx((result.objective - result.lower_bound) / result.objective)
    assert result.gap <= 1e-6


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(5))
def test_metrics_but_for_rounding(norm, seed):
    X = np.random.default_rng(seed).normal(size=(15, 4))
    D = abs(X[:, None] - X).sum(axis=2)
    result = mm.nearest_metric(D, norm)  # without a warning
    assert result.gap == 0.0


def test_the_smallest_numbers():
    D, w = 1e-200 * dissimilarity(10), np.full((10, 10), 1e-200)
    result = mm.nearest_metric(D, weights=w)
    assert mm.is_metric(mm.nearest_metric(D, weights=w, start=result).metric)
    assert np.isfinite(mm.nearest_metric([[0.0]], "decrease", lower=2.0).objective)


def test_numbers_of_an_unfinished_run_agree():
    D = dissimilarity(120)
    with pytest.warns(mm.ConvergenceWarning) as caught:
        result = mm.nearest_metric(D, "l1", max_iter=3)
    assert str(caught[0].message) == result.message
    assert result.trace.objective[-1] == result.objective

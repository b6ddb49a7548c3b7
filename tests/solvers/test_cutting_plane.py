"""Cutting planes: agreement with all constraints at once, bounds, corner cases, the loop."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metricmix as mm
from metricmix.solvers import Status
from metricmix.solvers.cutting_plane import CuttingPlane
from metricmix.solvers.direct import constraint_matrix, pair_positions
from metricmix.solvers.linear_model import LinearModel, SeparationOracle
from metricmix.solvers.quadratic_program import largest_margin, nearest_point, quadratic_of
from reference.flat import minimize
from reference.instances import on_demand
from reference.metric_cones import KINDS, cone_instance

CONSTRAINTS = (None, "nonnegative", "simplex")
TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def cut(objective, stack, **options):
    return minimize(objective, stack, method="cutting-plane", **options)


def all_at_once(objective, stack, **options):
    """The optimum by a solver that knows all rows; None if there is no feasible point."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = minimize(objective, stack, method="direct", solver_options=TIGHT, **options)
    except mm.InputError as error:
        if "no weights with constraint='simplex'" not in str(error):
            raise
        return None
    return result.objective


def objectives_for(stack, target):
    """Least squares with and without a ridge, and balanced labels of two clusters."""
    row = stack.source(0)[0]
    y = (row > np.median(row)).astype(int)
    found = [mm.objectives.LeastSquares(target, rho=1e-3), mm.objectives.LeastSquares(target)]
    if len(y) > 3 and len(set(y.tolist())) == 2:
        found.append(mm.objectives.LabelContrast(y, rho=0.1, balanced=True))
    return found


def assert_optimal(result, best, stack, *, constraint=None):
    size = max(1.0, abs(best))
    assert result.converged
    assert result.objective == pytest.approx(best, abs=1e-6 * size)
    assert result.lower_bound <= min(best, result.objective) + 1e-8 * size
    assert result.gap <= 1e-8
    assert result.violation <= 1e-9
    assert result.mixture.link == "identity"
    m = np.tensordot(result.weights, np.asarray(stack), (0, 2))
    assert mm.is_metric(m, directed=stack.directed) or np.abs(m).max() < 1e-12
    if constraint is not None:
        assert result.weights.min() >= 0.0
    if constraint == "simplex":
        assert result.weights.sum() == pytest.approx(1.0, abs=1e-12)


# -- agreement with all constraints at once ------------------------------------------------------


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows_per_round", [2, 200])
def test_agrees_with_all_constraints_at_once(kind, constraint, rows_per_round):
    for seed in range(2):
        stack, target = cone_instance(seed, kind)
        for objective in objectives_for(stack, target):
            best = all_at_once(objective, stack, constraint=constraint)
            options = {"constraint": constraint, "rows_per_round": rows_per_round}
            if best is None:
                with pytest.raises(mm.InputError, match="no weights with constraint='simplex'"):
                    cut(objective, stack, **options)
            else:
                result = cut(objective, stack, **options)
                assert_optimal(result, best, stack, constraint=constraint)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    n=st.integers(1, 11),
    R=st.integers(1, 7),
    constraint=st.sampled_from(CONSTRAINTS),
    which=st.integers(0, 2),
    twin=st.booleans(),
    missing=st.booleans(),
    directed=st.booleans(),
    rows_per_round=st.sampled_from([1, 3, 200]),
)
def test_agrees_on_instances_of_all_sorts(
    seed, kind, n, R, constraint, which, twin, missing, directed, rows_per_round
):
    directed = directed and kind != "whole"
    n = max(n, 3) if kind == "whole" else n
    stack, target = cone_instance(seed, kind, n, R, directed=directed)
    if twin:  # weights that the objective does not determine
        stack = mm.DissimilarityStack(np.asarray(stack)[:, :, [*range(R), 0]], directed=directed)
    if missing and n > 1:
        rng = np.random.default_rng(seed)
        target = np.where(rng.random((n, n)) < 0.4, np.nan, target)
        target[0, 1] = 1.0
    choices = objectives_for(stack, target)
    objective = choices[which % len(choices)]
    best = all_at_once(objective, stack, constraint=constraint)
    options = {"constraint": constraint, "rows_per_round": rows_per_round}
    if best is None:
        with pytest.raises(mm.InputError, match="no weights with constraint='simplex'"):
            cut(objective, stack, **options)
    else:
        assert_optimal(cut(objective, stack, **options), best, stack, constraint=constraint)


def test_constraints_really_bind_and_weights_are_negative():
    bound = negative = 0
    for kind in ("perturbed", "negative", "conflicting"):
        for seed in range(3):
            stack, target = cone_instance(seed, kind, n=20, R=5)
            result = cut(mm.objectives.LeastSquares(target), stack)
            S = np.asarray(stack).reshape(-1, 5)
            free = np.linalg.lstsq(S, target.ravel())[0]
            bound += result.objective > 1.01 * np.mean((S @ free - target.ravel()) ** 2)
            negative += (result.weights < -0.01).any()
    assert bound == 9
    assert negative >= 6


def test_sources_of_very_different_scale():
    stack, target = cone_instance(3, "negative", n=10, R=4)
    for objective in objectives_for(stack, target)[:2]:
        plain = cut(objective, stack)
        scaled = stack.rescaled([1e-4, 1.0, 1e3, 10.0])
        if objective.rho == 0:
            assert cut(objective, scaled).objective == pytest.approx(plain.objective, rel=1e-9)
        best = cut(objective, scaled)
        assert best.converged
        assert best.gap <= 1e-8


def test_single_precision_sources_are_not_taken_at_their_word():
    x = np.array([0.0, 0.1, 0.3, 0.7, 1.1])  # a line: tight triangles, which rounding breaks
    line = abs(x[:, None] - x).astype(np.float32)
    assert mm.metric_violations(line.astype(np.float64)).triangle > 0
    stack = mm.DissimilarityStack([line])
    result = cut(mm.objectives.LeastSquares(3.0 * line), stack)
    assert result.weights == pytest.approx([3.0], rel=1e-6)
    weights = minimize(mm.objectives.LeastSquares(3.0 * line), stack, method="direct").weights
    assert weights == pytest.approx([3.0], rel=1e-5)


def test_more_items_than_a_block_of_rows():
    stack, target = cone_instance(0, "negative", n=450, R=6)
    result = cut(mm.objectives.LeastSquares(target), stack)
    again = cut(mm.objectives.LeastSquares(target), stack, n_jobs=2, rows_per_round=20)
    assert result.gap <= 1e-8
    assert result.objective == pytest.approx(again.objective, rel=1e-9)
    assert mm.is_metric(np.tensordot(result.weights, np.asarray(stack), (0, 2)))


def test_sources_that_are_computed_row_by_row():
    stack, target = cone_instance(0, "perturbed", n=12, R=3)
    objective = mm.objectives.LeastSquares(target)
    found = cut(objective, on_demand(stack))
    assert found.weights == pytest.approx(cut(objective, stack).weights, abs=1e-10)


def test_the_ridge_may_have_a_centre():
    stack, target = cone_instance(1, "perturbed")
    objective = mm.objectives.LeastSquares(target, rho=2.0).centred([1.0, -1.0, 0.5, 2.0])
    best = all_at_once(objective, stack)
    result = cut(objective, stack)
    assert result.objective == pytest.approx(best, rel=1e-8)


# -- corners -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_too_few_items_for_a_triangle(n, constraint):
    stack = mm.DissimilarityStack([np.ones((n, n)) - np.eye(n)])
    result = cut(
        mm.objectives.LeastSquares(-np.ones((n, n)), rho=0.01), stack, constraint=constraint
    )
    expected = 1.0 if constraint == "simplex" else 0.0
    assert result.weights == pytest.approx([expected], abs=1e-12)
    assert result.converged


def test_a_cone_that_is_only_zero():
    for seed in range(3):
        stack, target = cone_instance(seed, "random", n=14, R=3)
        result = cut(mm.objectives.LeastSquares(target), stack)
        assert result.weights.tolist() == [0.0, 0.0, 0.0]
        assert result.gap <= 1e-8
        assert result.violation == 0.0
        assert result.has_interior is not True


def ray_instance():
    """Two sources of which only equal weights make a metric: a ray, without interior."""
    x = np.array([0.0, 1.0, 2.0, 10.0, 11.0, 12.0])
    line = abs(x[:, None] - x)
    wave = np.zeros((6, 6))
    wave[0, 2] = wave[2, 0] = 0.5  # one tight triangle broken by the one source,
    wave[3, 5] = wave[5, 3] = -0.5  # another by the other
    return mm.DissimilarityStack([line + wave, line - wave]), line, wave


def test_a_cone_without_interior_is_reported():
    stack, line, wave = ray_instance()
    target = 3.0 * line + 2.0 * wave
    result = cut(mm.objectives.LeastSquares(target), stack)
    assert result.status is Status.NO_INTERIOR
    assert "violation" in result.message
    assert result.has_interior is False
    assert result.weights == pytest.approx([1.5, 1.5], abs=1e-9)
    assert result.objective == pytest.approx(np.mean((2.0 * wave) ** 2), rel=1e-9)
    assert 0.0 <= result.violation <= 1e-9
    assert result.gap <= 1e-8


def test_a_simplex_with_a_single_metric():
    _, line, wave = ray_instance()
    stack = mm.DissimilarityStack([line + wave, 2.0 * (line - wave), 3.0 * (line - 2.0 * wave)])
    result = cut(mm.objectives.LeastSquares(line), stack, constraint="simplex")
    assert result.has_interior is False
    assert result.violation <= 1e-9
    best = all_at_once(mm.objectives.LeastSquares(line), stack, constraint="simplex")
    assert result.objective == pytest.approx(best, rel=1e-6)
    alone = stack.select([0])
    with pytest.raises(mm.InputError, match="no weights with constraint='simplex'"):
        cut(mm.objectives.LeastSquares(line), alone, constraint="simplex")


def test_triangles_that_are_tight_in_all_sources():
    # Twins and points on a line: laws that hold with equality whatever the weights are.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 2))
    X = np.concatenate([X, X[:2], 0.5 * (X[:1] + X[1:2])])
    path = mm.dissimilarity.path_length([(k, k + 1) for k in range(10)], nodes=list(range(11)))
    sources = [np.asarray(path), np.asarray(path) ** 2 / 5.0, abs(X[:, :1] - X[:, 0])]
    stack = mm.DissimilarityStack(sources)
    target = np.asarray(path) ** 1.5 + abs(X[:, 1:] - X[:, 1])
    for constraint in CONSTRAINTS:
        objective = mm.objectives.LeastSquares(target)
        best = all_at_once(objective, stack, constraint=constraint)
        result = cut(objective, stack, constraint=constraint, rows_per_round=2)
        assert_optimal(result, best, stack, constraint=constraint)


def test_a_target_that_can_be_met():
    rng = np.random.default_rng(5)
    sources = [mm.dissimilarity.features(rng.normal(size=(30, 3))) for _ in range(4)]
    stack = mm.DissimilarityStack(sources, scaling="mean")
    truth = np.array([2.0, 1.0, -0.05, 0.5])
    target = np.tensordot(truth, np.asarray(stack), (0, 2))
    assert mm.is_metric(target)
    result = cut(mm.objectives.LeastSquares(target), stack)
    assert result.weights == pytest.approx(truth, abs=1e-10)
    assert result.objective <= 1e-25
    assert result.converged
    assert mm.path_metric(stack, result.mixture) == pytest.approx(target, abs=1e-9)


# -- the loop ------------------------------------------------------------------------------------


def test_cut_off_it_gives_a_metric_and_its_gap():
    stack, target = cone_instance(0, "conflicting", n=40, R=6)
    objective = mm.objectives.LeastSquares(target)
    best = cut(objective, stack)
    for rounds in (0, 1, 2):
        with pytest.warns(mm.ConvergenceWarning, match="max_iter"):
            result = cut(objective, stack, rows_per_round=1, max_iter=rounds)
        assert result.status is Status.MAX_ITER
        assert result.gap > 1e-8
        assert result.violation <= 1e-12
        assert result.lower_bound <= best.objective <= result.objective
        assert mm.is_metric(np.tensordot(result.weights, np.asarray(stack), (0, 2)))


def test_bounds_bracket_the_optimum_in_every_round():
    for kind in ("perturbed", "conflicting", "whole"):
        stack, target = cone_instance(0, kind, n=16, R=5)
        objective = mm.objectives.LeastSquares(target, rho=1e-4)
        best = all_at_once(objective, stack)
        trace = cut(objective, stack, rows_per_round=1, forget_after=2).trace
        lower, upper = np.array(trace.bound), np.array(trace.objective)
        assert (lower <= best + 1e-8).all()
        assert (upper >= best - 1e-8).all()
        assert (np.diff(lower[1:]) >= 0).all()
        assert (np.diff(upper) <= 0).all()
        assert len(trace) >= 3


def test_trace_and_table():
    stack, target = cone_instance(0, "perturbed")
    result = cut(mm.objectives.LeastSquares(target), stack, rows_per_round=2)
    assert set(result.trace.details) == {"gap", "rows", "violation"}
    table = result.trace.to_frame()
    assert len(table) == result.n_iter + 1
    assert table["gap"].iloc[-1] == result.gap
    assert table["rows"].iloc[-1] >= 2
    assert table["violation"].iloc[1] > 0.01


def test_time_limit_and_callback():
    stack, target = cone_instance(0, "conflicting", n=30, R=6)
    objective = mm.objectives.LeastSquares(target)
    with pytest.warns(mm.ConvergenceWarning, match="time_limit"):
        assert cut(objective, stack, time_limit=0.0).n_iter == 1
    seen = []
    stopped = cut(
        objective, stack, callback=lambda p: seen.append(p) or len(seen) == 2, rows_per_round=1
    )
    assert stopped.status is Status.STOPPED
    assert [progress.iteration for progress in seen] == [0, 1]


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_interrupted_and_resumed(tmp_path, constraint):
    stack, target = cone_instance(2, "conflicting", n=25, R=6)
    objective = mm.objectives.LeastSquares(target)
    options = {"rows_per_round": 1, "constraint": constraint}
    whole = cut(objective, stack, **options)
    assert whole.n_iter > 3

    def interrupt(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    path = tmp_path / "run.npz"
    with pytest.warns(mm.ConvergenceWarning, match="interrupted"):
        half = cut(objective, stack, checkpoint=path, callback=interrupt, **options)
    assert half.lower_bound <= whole.objective <= half.objective
    rest = cut(objective, stack, checkpoint=path, **options)
    assert rest.weights.tolist() == whole.weights.tolist()
    assert rest.trace.bound == whole.trace.bound
    assert rest.trace.details == whole.trace.details
    assert rest.trace.objective == whole.trace.objective
    with pytest.raises(mm.CheckpointError, match="another problem or other settings"):
        cut(objective, stack, checkpoint=path, tol=1e-3, **options)


def test_start_may_be_strictly_inside():
    stack, target = cone_instance(0, "conflicting", n=12, R=5)
    objective = mm.objectives.LeastSquares(target)
    plain = cut(objective, stack)
    for start in (plain.weights, mm.Mixture(plain.weights, link="identity"), np.zeros(5)):
        result = cut(objective, stack, start=start)
        assert result.objective == pytest.approx(plain.objective, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link": "softplus"}, "link='identity'"),
        ({"tol": -1.0}, "tol: expected a number >= 0"),
        ({"rows_per_round": 0}, "rows_per_round: expected a whole number >= 1"),
        ({"form": "weights"}, "form: a setting of Direct, not of this method"),
    ],
)
def test_arguments_that_make_no_sense(options, message):
    stack, target = cone_instance(0, "perturbed")
    with pytest.raises(mm.InputError, match=message):
        cut(mm.objectives.LeastSquares(target), stack, **options)


def test_objectives_of_another_kind():
    stack, _ = cone_instance(0, "perturbed")
    with pytest.raises(mm.InputError, match="quadratic in each distance"):
        cut(mm.objectives.Triplets([[0, 1, 2]]), stack)


# -- the parts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_oracle_finds_the_worst_law(directed):
    rng = np.random.default_rng(0)
    for kind in ("perturbed", "random"):
        stack, target = cone_instance(0, kind, n=9, R=3, directed=directed)
        model = LinearModel(mm.objectives.LeastSquares(target), stack)
        i, j, _ = pair_positions(9, directed=directed)
        rows = constraint_matrix(9, directed=directed) @ model.sources_at(i, j)
        for _ in range(20):
            weights = rng.normal(size=3)
            values = rows @ weights
            for slack in (0.0, 0.7):
                broken = SeparationOracle(model).separate(weights, 1000, slack)
                assert broken.margin == pytest.approx(min(slack, values.min()), abs=1e-12)
                excess = broken.excess.max(initial=0.0)
                assert excess == pytest.approx(max(0.0, slack - values.min()), abs=1e-12)
                assert broken.rows @ weights == pytest.approx(slack - broken.excess, abs=1e-12)
                known = {tuple(row) for row in rows.round(9)}
                assert {tuple(row) for row in broken.rows.round(9)} <= known


def test_quadratic_is_the_objective():
    rng = np.random.default_rng(1)
    stack, target = cone_instance(0, "perturbed", n=12, R=4)
    target[3, 5] = np.nan
    for objective in objectives_for(stack, target):
        for centre in (None, rng.normal(size=4)):
            model = LinearModel(objective, stack, centre=centre)
            f = quadratic_of(model)
            for _ in range(5):
                weights = rng.normal(size=4)
                value, gradient = model.value_and_gradient(weights)
                assert f.value(weights) == pytest.approx(value, rel=1e-12)
                assert f.gradient(weights) == pytest.approx(gradient, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("affine", [False, True])
def test_nearest_point(affine):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        L, d = int(rng.integers(1, 40)), int(rng.integers(1, 8))
        rows = rng.normal(size=(L, d))
        rows[L // 2 :] = rows[: L - L // 2]  # twins
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        inside = rng.normal(size=d)
        bounds = rows @ inside - rng.random(L) if affine else np.zeros(L)
        point = 10.0 * rng.normal(size=d)
        z, multipliers = nearest_point(point, rows, bounds)
        assert (rows @ z - bounds).min() >= -1e-11
        assert (multipliers >= 0).all()
        assert z - point == pytest.approx(rows.T @ multipliers, abs=1e-10)
        assert multipliers @ (rows @ z - bounds) == pytest.approx(0.0, abs=1e-9)


def test_no_point_at_all():
    rows = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert nearest_point(np.zeros(2), rows, np.array([1.0, 1.0])) is None


def test_largest_margin():
    rows = np.array([[1.0, 0.0], [0.0, 2.0]])
    weights, margin = largest_margin(rows, np.array([1.0, 4.0]), "none")
    assert margin == pytest.approx(0.5)
    assert (rows @ weights >= 0.5 - 1e-9).all()
    weights, margin = largest_margin(rows, np.array([1.0, 4.0]), "simplex")
    assert weights == pytest.approx([2 / 3, 1 / 3])
    assert margin == pytest.approx(2 / 3)
    assert largest_margin(np.array([[1.0], [-1.0]]), np.ones(1), "none")[1] == pytest.approx(0.0)


def test_state_is_arrays_and_numbers():
    stack, target = cone_instance(0, "perturbed")
    model = LinearModel(mm.objectives.LeastSquares(target), stack)
    solver = CuttingPlane().bind(model, np.full(4, 0.25))
    state = solver.step(solver.init(np.random.default_rng(0)), 0, np.random.default_rng(0))
    for value in vars(state).values():
        assert isinstance(value, np.ndarray | float | int)


def test_simplex_that_only_touches_the_metrics():
    """Some weights make a metric, but none strictly inside: they are found all the same."""

    def pair(k):
        M = np.zeros((4, 4))
        M[np.tril_indices(4, -1)] = np.eye(6)[k]
        return M + M.T

    stack = mm.DissimilarityStack([pair(k) for k in range(4)])
    objective = mm.objectives.LeastSquares(1.0 - np.eye(4))
    result = minimize(objective, stack, method="cutting-plane", constraint="simplex")
    assert result.weights == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])
    assert result.has_interior is False

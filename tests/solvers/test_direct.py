"""All constraints at once: cvxpy in both forms, scipy's trust region, and their guards."""

from __future__ import annotations

import sys
import warnings
from itertools import permutations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import metricmix as mm
from metricmix import memory
from metricmix.exceptions import MissingPackageError
from metricmix.solvers import Status
from metricmix.solvers.direct import (
    constraint_matrix,
    dense_bytes,
    direct_bytes,
    n_constraints,
    pair_positions,
    trust_constr_bytes,
)
from metricmix.solvers.linear_model import LinearModel
from reference.flat import minimize
from reference.metric_cones import KINDS, cone_instance, label_instance

CONSTRAINTS = (None, "nonnegative", "simplex")
TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def direct(objective, stack, **options):
    return minimize(objective, stack, method="direct", solver_options=TIGHT, **options)


def by_trust_region(objective, stack, **options):
    """Solve on one thread: on busy cores, threads make its small factorisations far slower."""
    with warnings.catch_warnings(), threadpool_limits(limits=1):
        warnings.simplefilter("ignore")  # a cone without interior is hard on a barrier method
        return minimize(objective, stack, method="trust-constr", **options)


def assert_metric(result, stack, tol=1e-7):
    m = np.tensordot(result.mixture.raw_weights(stack) * stack.scales, np.asarray(stack), (0, 2))
    report = mm.metric_violations(m, directed=stack.directed)
    worst = max(report.triangle, report.negativity)
    assert worst <= tol * max(1.0, report.scale)
    if report.scale > 1e-6:
        assert result.violation == pytest.approx(worst / report.scale, abs=1e-12)


# -- the rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_rows_are_the_laws_of_a_metric(n, directed):
    A = constraint_matrix(n, directed=directed)
    _, _, column = pair_positions(n, directed=directed)
    assert A.shape == (n_constraints(n, directed=directed), column.max(initial=-1) + 1)
    assert set(np.unique(A.data)) <= {-1.0, 1.0}
    laws = {((c, 1.0),) for c in column[column >= 0].tolist()}
    for a, k, b in permutations(range(n), 3):
        row = ((column[a, b], -1.0), (column[a, k], 1.0), (column[k, b], 1.0))
        laws.add(tuple(sorted(row)))
    found = [
        tuple(sorted(zip(row.indices.tolist(), row.data.tolist(), strict=True)))
        for row in (A[[r]] for r in range(A.shape[0]))
    ]
    assert len(set(found)) == len(found) == len(laws)
    assert set(found) == laws


def test_rows_agree_with_the_check():
    rng = np.random.default_rng(0)
    for _ in range(50):
        D = rng.uniform(1.0, 2.3, (5, 5))
        D = np.triu(D, 1) + np.triu(D, 1).T
        i, j, _ = pair_positions(5)
        assert mm.is_metric(D, tol=0) == bool((constraint_matrix(5) @ D[i, j] >= 0).all())


def test_sizes():
    assert n_constraints(100) == 490_050
    assert dense_bytes(100) == 8 * 10**10
    assert constraint_matrix(20).nnz <= 3 * n_constraints(20)


# -- the three agree -----------------------------------------------------------------------------


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_forms_and_trust_region_agree(seed, kind, constraint):
    stack, target = cone_instance(seed, kind, n=6)
    objective = mm.objectives.LeastSquares(target, rho=1e-3)
    options = {"constraint": constraint}
    if kind == "random" and constraint == "simplex":
        for form in ("weights", "matrix"):
            with pytest.raises(mm.InputError, match="no weights with constraint='simplex'"):
                direct(objective, stack, form=form, **options)
        return
    weights = direct(objective, stack, form="weights", **options)
    matrix = direct(objective, stack, form="matrix", **options)
    trusted = by_trust_region(objective, stack, **options)
    for result in (weights, matrix, trusted):
        assert result.objective == pytest.approx(weights.objective, abs=1e-6)
        assert result.mixture.link == "identity"
        assert_metric(result, stack)
        if constraint is not None:
            assert result.weights.min() >= -1e-8
        if constraint == "simplex":
            assert result.weights.sum() == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("kind", ["perturbed", "negative", "conflicting"])
def test_constraints_really_bind(kind):
    for seed in range(3):
        stack, target = cone_instance(seed, kind)
        S, t = np.asarray(stack).reshape(-1, stack.n_sources), target.ravel()
        free = np.linalg.lstsq(S, t)[0]
        model = LinearModel(mm.objectives.LeastSquares(target), stack)
        assert model.violation(free) > 0.01
        result = direct(mm.objectives.LeastSquares(target), stack)
        assert result.objective > np.mean((S @ free - t) ** 2) + 1e-3


@pytest.mark.parametrize("kind", ["perturbed", "conflicting", "whole"])
@pytest.mark.parametrize("balanced", [False, True])
def test_labels_with_a_ridge(kind, balanced):
    stack, y = label_instance(0, kind, n=6)
    objective = mm.objectives.LabelContrast(y, rho=0.1, balanced=balanced)
    trusted = by_trust_region(objective, stack)
    for form in ("weights", "matrix"):
        result = direct(objective, stack, form=form)
        assert result.objective < 0
        assert_metric(result, stack)
        assert result.objective == pytest.approx(trusted.objective, abs=1e-6)


@pytest.mark.parametrize("form", ["weights", "matrix"])
def test_interior_optimum_is_least_squares(form):
    rng = np.random.default_rng(1)
    sources = [mm.dissimilarity.features(rng.normal(size=(8, 3))) for _ in range(3)]
    stack = mm.DissimilarityStack(sources, scaling="mean")
    target = np.tensordot([1.0, 0.5, 2.0], np.asarray(stack), (0, 2))
    result = direct(mm.objectives.LeastSquares(target), stack, form=form)
    assert result.weights == pytest.approx([1.0, 0.5, 2.0], abs=1e-5)
    assert result.objective == pytest.approx(0.0, abs=1e-9)
    assert mm.path_metric(stack, result.mixture) == pytest.approx(target, abs=1e-4)


def test_directed_centre_and_missing_targets():
    for seed in range(2):
        stack, target = cone_instance(seed, "perturbed", n=6, R=3, directed=True)
        target[0, 3] = target[4, 2] = np.nan
        objective = mm.objectives.LeastSquares(target, rho=0.5).centred([1.0, 2.0, -1.0])
        found = [
            direct(objective, stack, form="weights"),
            direct(objective, stack, form="matrix"),
            by_trust_region(objective, stack),
        ]
        for result in found:
            assert result.objective == pytest.approx(found[0].objective, abs=1e-6)
            assert_metric(result, stack)


def test_any_smooth_objective_by_trust_region():
    stack, _ = cone_instance(0, "negative", n=7, R=3)
    objective = mm.objectives.Separable(
        value=lambda d, i, j: np.log(np.cosh(d - 2.0)),
        derivative=lambda d, i, j: np.tanh(d - 2.0),
        rho=1e-3,
    )
    result = by_trust_region(objective, stack)
    assert_metric(result, stack)
    model = LinearModel(objective, stack)
    rng = np.random.default_rng(0)
    for _ in range(200):  # no feasible neighbour is better
        near = result.weights + rng.normal(size=3) * 10.0 ** rng.uniform(-4, -1)
        if model.violation(near) == 0.0:
            assert model.value(near) >= result.objective - 1e-9


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_items_for_a_triangle(n):
    stack = mm.DissimilarityStack([np.ones((n, n)) - np.eye(n)])
    target = -np.ones((n, n))  # only a negative weight would do
    for form in ("weights", "matrix"):
        result = direct(mm.objectives.LeastSquares(target, rho=1e-3), stack, form=form)
        assert result.weights == pytest.approx([0.0], abs=1e-6)


# -- what comes back -----------------------------------------------------------------------------


def test_result_says_what_took_how_long():
    stack, target = cone_instance(0, "perturbed")
    result = minimize(mm.objectives.LeastSquares(target), stack, method="direct")
    assert result.status is Status.CONVERGED
    assert result.objective_kind == "exact"
    assert set(result.seconds) == {"assembly", "solve", "solver"}
    assert len(result.trace) == 1
    assert result.trace.objective == [result.objective]
    assert result.trace.weights[0] == pytest.approx(result.weights)
    assert result.mixture.names == stack.names


def test_another_solver():
    stack, target = cone_instance(0, "perturbed")
    objective = mm.objectives.LeastSquares(target, rho=1e-3)
    best = direct(objective, stack).objective
    other = minimize(objective, stack, method="direct", solver="OSQP")
    assert other.objective == pytest.approx(best, abs=1e-5)


def test_a_solver_cut_short_warns():
    stack, target = cone_instance(0, "perturbed", n=6)
    objective = mm.objectives.LeastSquares(target)
    with pytest.warns(mm.ConvergenceWarning, match="max_iter"), threadpool_limits(limits=1):
        minimize(objective, stack, method="trust-constr", max_iter=3)
    options = {"max_iter": 25, "eps_abs": 1e-12, "eps_rel": 1e-12}
    with pytest.warns(mm.ConvergenceWarning, match="short of its own tolerance"):
        minimize(objective, stack, method="direct", solver="OSQP", solver_options=options)


# -- what is refused -----------------------------------------------------------------------------


def test_memory_is_asked_for_before_it_is_taken(monkeypatch):
    stack, target = cone_instance(0, "perturbed", n=40)
    objective = mm.objectives.LeastSquares(target)
    monkeypatch.setattr(memory, "available_bytes", lambda: direct_bytes(30, 4))
    with pytest.raises(mm.InputError, match=r"needs about .* GiB for 40 items") as caught:
        minimize(objective, stack, method="direct")
    message = str(caught.value)
    assert f"{direct_bytes(30, 4) / 2**30:.3g} GiB are available, enough for 30 items" in message
    assert "method=" in message
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    with pytest.raises(mm.InputError, match="method='trust-constr' needs"):
        minimize(objective, stack, method="trust-constr")
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    assert minimize(objective, stack, method="direct").converged


def test_sparse_rows_take_less_memory_than_dense_slacks(monkeypatch):
    """Measured: 2.3 GiB at n = 80, R = 8, where dense slacks would take 464 GiB."""
    assert 2.0 < trust_constr_bytes(80, 8) / 2**30 < 4.0
    stack, target = cone_instance(0, "perturbed", n=24)
    monkeypatch.setattr(memory, "available_bytes", lambda: 4 * n_constraints(24) ** 2)
    with pytest.warns(mm.ConvergenceWarning, match="max_iter"):
        minimize(mm.objectives.LeastSquares(target), stack, method="trust-constr", max_iter=2)


def test_available_memory(monkeypatch, tmp_path):
    assert memory.available_bytes() > 10**6
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable:   64 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CONTAINER", tmp_path / "none")
    assert memory.available_bytes() == 64 * 1024
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("4000\n")
    monkeypatch.setattr(memory, "CONTAINER", tmp_path)
    assert memory.available_bytes() == 1000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_bytes() == 64 * 1024
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "none")
    assert memory.available_bytes() > 10**6
    monkeypatch.delattr(memory.os, "sysconf")
    assert memory.available_bytes() is None


def test_missing_cvxpy_says_what_to_install(monkeypatch):
    stack, target = cone_instance(0, "perturbed")
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'metricmix\[exact\]'"):
        minimize(mm.objectives.LeastSquares(target), stack, method="direct")


def test_objectives_of_another_kind():
    stack, y = label_instance(0, "perturbed")
    for objective in (mm.objectives.ClassMeans(y), mm.objectives.Triplets([[0, 1, 2]])):
        with pytest.raises(mm.InputError, match=r"quadratic .* got .*; method='trust-constr'"):
            minimize(objective, stack, method="direct")


def test_concave_objectives():
    class Concave(mm.objectives.LeastSquares):
        def quadratic(self, terms, n):
            a, b, c = super().quadratic(terms, n)
            return -a, b, c

    stack, target = cone_instance(0, "perturbed")
    with pytest.raises(mm.InputError, match="convex"):
        minimize(Concave(target), stack, method="direct")


@pytest.mark.parametrize("method", ["direct", "trust-constr"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link": "softplus"}, "link='identity'"),
        ({"start": mm.Mixture([1.0] * 4)}, "link='identity'"),
        ({"time_limit": 1.0}, "time_limit: not an argument"),
        ({"checkpoint": "here"}, "checkpoint: not an argument"),
        ({"callback": print}, "callback: not an argument"),
        ({"memory": 3}, "memory: a setting of LBFGS, not of this method"),
        ({"constraint": "sphere"}, "constraint: expected one of"),
    ],
)
def test_arguments_that_make_no_sense(method, options, message):
    stack, target = cone_instance(0, "perturbed")
    with pytest.raises(mm.InputError, match=message):
        minimize(mm.objectives.LeastSquares(target), stack, method=method, **options)


def test_direct_has_its_own_refusals():
    stack, target = cone_instance(0, "perturbed")
    objective = mm.objectives.LeastSquares(target)
    for options, message in [
        ({"max_iter": 5}, "max_iter: not an argument"),
        ({"start": [1.0] * 4}, "start: not an argument"),
        ({"form": "tensor"}, "form: expected one of"),
        ({"solver": "ABACUS"}, "solver: expected one of"),
    ]:
        with pytest.raises(mm.InputError, match=message):
            minimize(objective, stack, method="direct", **options)

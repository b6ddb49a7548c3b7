"""Primal-dual steps against dense matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from metricmix.kernels.threads import ThreadPool
from metricmix.relaxations import primal_dual
from metricmix.relaxations.iterates import DualIterate, PrimalIterate, Restarts
from metricmix.relaxations.primal_dual import (
    LinearProgram,
    PrimalDual,
    SparseColumns,
    SparseRows,
    column_product,
    dual_columns,
    dual_rows,
    halpern_steps,
    step_columns,
    step_rows,
    transpose,
)
from reference.graph_kernels import constraint_matrix, primal_dual_step


def random_program(seed, *, columns=9, rows=14):
    """A feasible program with rows of 1 to 4 terms, many of them 1 - v."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, rows)
    terms = [rng.choice(columns, size, replace=False) for size in sizes]
    terms = [np.where(rng.random(len(t)) < 0.3, ~t, t) for t in terms]
    feasible = rng.random(columns) < 0.5
    for t in terms:  # the first term of each row is 1 at a point that is feasible
        j = t[0] if t[0] >= 0 else ~t[0]
        t[0] = j if feasible[j] else ~j
    terms = np.concatenate(terms)
    program = LinearProgram(rng.normal(size=columns))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    program.add(np.empty(0), starts, terms.astype(np.int32), np.arange(rows, dtype=np.uint64))
    return program, *constraint_matrix(starts, terms, columns), rng


@pytest.mark.parametrize("seed", range(5))
def test_transpose_and_products(seed):
    program, K, _, rng = random_program(seed)
    starts, rows = np.zeros(10, np.int64), np.empty(len(program.rows.terms), np.int32)
    transpose(program.rows, starts, rows)
    columns = SparseColumns(starts, rows, program.columns.cost)
    np.testing.assert_array_equal(columns.starts, program.columns.starts)
    np.testing.assert_array_equal(columns.rows, program.columns.rows)
    z = rng.random(len(K))
    products = [column_product(j, columns, z) for j in range(K.shape[1])]
    np.testing.assert_allclose(products, K.T @ z, atol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_one_step(seed):
    program, K, b, rng = random_program(seed)
    v, z, omega, a = rng.random(9), rng.random(14), 0.7, 0.6
    anchors = rng.random(9), rng.random(14)
    new_v, new_z, moved_v, moved_z = primal_dual_step(program.columns.cost, K, b, v, z, omega)
    primal = PrimalIterate(v.copy(), anchors[0], np.empty(9), np.empty(9))
    dual = DualIterate(z.copy(), anchors[1], np.empty(14))
    parts = [(0, 4), (4, 9)]
    moved = sum(step_columns(program.columns, dual.current, primal, omega, a, *p) for p in parts)
    assert moved == pytest.approx(moved_v)
    parts = [(0, 5), (5, 14)]
    moved = sum(step_rows(program.rows, primal.extrapolated, dual, omega, a, *p) for p in parts)
    assert moved == pytest.approx(moved_z)
    np.testing.assert_allclose(primal.image, new_v)
    np.testing.assert_allclose(primal.extrapolated, 2 * new_v - v)
    np.testing.assert_allclose(primal.current, a * (2 * new_v - v) + (1 - a) * anchors[0])
    np.testing.assert_allclose(dual.image, new_z)
    np.testing.assert_allclose(dual.current, a * (2 * new_z - z) + (1 - a) * anchors[1])


@pytest.mark.parametrize("seed", range(5))
def test_several_steps(seed):
    program, K, b, rng = random_program(seed)
    v, z, omega = rng.random(9), rng.random(14), 1.3
    primal, dual = PrimalIterate.anchored(v.copy()), DualIterate.anchored(z.copy())
    moved = halpern_steps(program.columns, program.rows, primal, dual, omega, 3, 8, 4)
    at_v, at_z = v, z
    for k in range(3, 8):
        new_v, new_z, *sums = primal_dual_step(program.columns.cost, K, b, at_v, at_z, omega)
        a = (k + 1) / (k + 2)
        at_v, at_z = (
            a * (2 * new - at) + (1 - a) * anchor
            for new, at, anchor in ((new_v, at_v, v), (new_z, at_z, z))
        )
    np.testing.assert_allclose(moved, sums)
    np.testing.assert_allclose(primal.image, new_v, atol=1e-14)
    np.testing.assert_allclose(dual.image, new_z, atol=1e-14)
    np.testing.assert_allclose(primal.current, at_v, atol=1e-14)
    np.testing.assert_allclose(dual.current, at_z, atol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_dual_objective(seed):
    program, K, b, rng = random_program(seed)
    z = rng.random(14) * (rng.random(14) < 0.7)
    reduced = program.columns.cost - K.T @ z
    parts = [(0, 3), (3, 9)]
    total = sum(dual_columns(program.columns, z, *part) for part in parts)
    assert total == pytest.approx(np.minimum(0.0, reduced).sum())
    assert sum(dual_rows(program.rows, z, *p) for p in [(0, 6), (6, 14)]) == pytest.approx(b @ z)
    with ThreadPool(1) as pool:
        bound = program.lower_bound(z, pool)
    assert bound == pytest.approx(b @ z + np.minimum(0.0, reduced).sum())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_the_method_solves_a_linear_program(seed, threads, monkeypatch):
    monkeypatch.setattr(primal_dual, "MIN_ENTRIES", 1)
    monkeypatch.setattr(primal_dual, "PART", 4)
    program, K, b, _ = random_program(seed)
    optimum = linprog(program.columns.cost, A_ub=-K, b_ub=-b, bounds=(0, 1)).fun
    state = PrimalDual.start(np.full(9, 0.5), np.zeros(14), 1.0)
    with ThreadPool(threads) as pool:
        for _ in range(100):
            state.advance(program, 40, pool)
        assert program.lower_bound(state.z.image, pool) == pytest.approx(optimum, abs=1e-7)
    assert program.columns.cost @ state.v.image == pytest.approx(optimum, abs=1e-7)
    assert (K @ state.v.image >= b - 1e-7).all()


def test_rows_and_columns_are_appended():
    program = LinearProgram(np.ones(2))
    one = np.array([0, 2]), np.array([0, 1], np.int32)
    program.add(np.empty(0), *one, np.array([7], np.uint64))
    program.add(
        np.array([3.0]), np.array([0, 2]), np.array([~1, 2], np.int32), np.array([5], np.uint64)
    )
    assert program.n_rows == 2
    assert program.rows == SparseRows(*program.rows)
    assert program.rows.starts.tolist() == [0, 2, 4]
    assert program.rows.terms.tolist() == [0, 1, ~1, 2]
    assert program.columns.starts.tolist() == [0, 1, 3, 4]
    assert program.columns.rows.tolist() == [0, 0, ~1, 1]
    assert program.columns.cost.tolist() == [1.0, 1.0, 3.0]
    assert program.new_rows(np.array([9, 5, 9, 7, 1], np.uint64)).tolist() == [0, 4]


@pytest.mark.parametrize(("rows", "restarted"), [(5, True), (1, False)])
def test_iterates_are_extended(rows, restarted):
    state = PrimalDual.start(np.zeros(3), np.ones(200), 1.0)
    state.restarts.since, state.v.current[:] = 17, 0.25
    state.extend(np.array([0.5]), rows)
    assert [len(part) for part in (*state.v, *state.z)] == [4] * 4 + [200 + rows] * 3
    assert state.v.image.tolist() == [0.0, 0.0, 0.0, 0.5]
    assert state.z.image[200:].tolist() == [0.0] * rows
    assert (state.restarts.since == 0) == restarted
    assert state.v.current[0] == (0.0 if restarted else 0.25)


def test_restarts():
    restarts = Restarts(omega=4.0, steps=1000)
    assert not restarts.is_due(40, 1.0, 16.0)  # the first residual: 4 + 4
    assert not restarts.is_due(40, 0.25, 2.0)
    assert not restarts.is_due(40, 0.125, 1.0)
    assert restarts.is_due(40, 0.126, 1.0)  # less than a fifth, and rising
    restarts.restart(primal=1.0, dual=16.0)
    assert (restarts.omega, restarts.since) == (4.0, 0)
    restarts.restart(primal=1.0, dual=1.0)
    assert restarts.omega == 2.0
    restarts.restart()
    assert restarts.omega == 2.0
    assert math.isnan(restarts.first)
    assert not restarts.is_due(1, 1.0, 1.0)
    assert restarts.is_due(1, 0.01, 0.01)
    assert Restarts(omega=1.0).is_due(40, 1.0, 1.0)  # all steps lie behind the anchor

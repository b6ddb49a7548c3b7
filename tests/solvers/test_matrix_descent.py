"""The whole matrix as the variable."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.mixture import inverse_link
from metricmix.solvers import Status
from reference.flat import minimize_metric
from reference.instances import random_lengths
from reference.mixing import sigmoid, softplus
from reference.paths import all_distances, by_enumeration

N = 9


def random_metric(seed, n=N, directed=False):
    rng = np.random.default_rng(seed)
    return all_distances(random_lengths(rng, n, directed=directed) + 0.3 * (1 - np.eye(n)))


def start(n=N):
    return np.ones((n, n)) - np.eye(n)


@pytest.mark.parametrize("seed", range(3))
def test_least_squares_reach_a_metric_target(seed):
    target = random_metric(seed)
    result = minimize_metric(
        mm.objectives.LeastSquares(target),
        start(),
        learning_rate=0.1,
        schedule="inverse",
        decay=500.0,
        max_iter=3000,
        random_state=seed,
    )
    assert result.metric == pytest.approx(target, abs=0.02)
    assert result.objective < 1e-4
    assert mm.is_metric(result.metric)
    assert np.array_equal(result.metric, result.metric.T)


def test_directed_target():
    target = random_metric(0, directed=True)
    assert np.abs(target - target.T).max() > 0.5
    result = minimize_metric(
        mm.objectives.LeastSquares(target),
        start(),
        directed=True,
        learning_rate=0.2,
        schedule="inverse",
        decay=500.0,
        max_iter=4000,
        random_state=0,
    )
    assert result.metric == pytest.approx(target, abs=0.03)
    assert mm.is_metric(result.metric, directed=True)


def test_target_that_is_no_metric():
    # 9 > 1 + 1. Minimise (a - 1)² + (b - 1)² + (a + b - 9)²: a = b = 10/3, a + b = 20/3.
    target = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 1.0], [9.0, 1.0, 0.0]])
    result = minimize_metric(
        mm.objectives.LeastSquares(target),
        start(3),
        learning_rate=0.1,
        schedule="inverse",
        max_iter=4000,
        random_state=0,
    )
    assert result.metric[0] == pytest.approx([0.0, 10 / 3, 20 / 3], abs=0.2)
    assert result.objective == pytest.approx(2 * 3 * (7 / 3) ** 2 / 9, rel=0.01)


def test_missing_targets_leave_the_metric_free():
    target = random_metric(1)
    known = target.copy()
    known[0, 3] = known[3, 0] = known[2, 5] = known[5, 2] = np.nan
    result = minimize_metric(
        mm.objectives.LeastSquares(known),
        start(),
        learning_rate=0.1,
        schedule="inverse",
        decay=500.0,
        max_iter=3000,
        random_state=0,
    )
    seen = ~np.isnan(known)
    assert result.metric[seen] == pytest.approx(target[seen], abs=0.02)
    assert mm.is_metric(result.metric)


def test_non_convex_objective():
    # Every distance shall be 1 or 2: a double well, and no triangle is in the way.
    wells = mm.objectives.Separable(
        value=lambda d, i, j: (d - 1) ** 2 * (d - 2) ** 2,
        derivative=lambda d, i, j: 2 * (d - 1) * (d - 2) * (2 * d - 3),
    )
    rng = np.random.default_rng(0)
    X0 = rng.uniform(0.0, 2.5, (N, N))
    X0 = (X0 + X0.T) / 2
    result = minimize_metric(
        wells, X0, learning_rate=0.2, max_iter=2000, schedule="sqrt", random_state=0
    )
    off = ~np.eye(N, dtype=bool)
    assert np.minimum(np.abs(result.metric - 1), np.abs(result.metric - 2))[off].max() < 0.05
    assert mm.is_metric(result.metric)


def test_triplets_and_labels_are_obeyed():
    y = np.arange(N) % 3
    rng = np.random.default_rng(0)
    triples = np.array(
        [(a, p, q) for a in range(N) for p in range(N) for q in range(N)
         if a != p and y[a] == y[p] and y[a] != y[q] and rng.random() < 0.5]
    )  # fmt: skip
    result = minimize_metric(
        mm.objectives.Triplets(triples), start(), learning_rate=0.05, random_state=0, max_iter=400
    )
    d = result.metric
    assert (d[triples[:, 0], triples[:, 1]] < d[triples[:, 0], triples[:, 2]]).all()
    contrast = mm.objectives.LabelContrast(y, rho=0.05, balanced=True)
    d = minimize_metric(contrast, start(), random_state=0, max_iter=300).metric
    same = y[:, None] == y
    assert d[same & ~np.eye(N, dtype=bool)].max() < d[~same].min()


# -- one step, by hand ---------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_one_step_moves_the_entries_of_one_path(seed, directed):
    n, beta, rate = 5, 1.6, 0.3
    rng = np.random.default_rng(seed)
    X0 = rng.normal(0, 2, (n, n))
    X0 = X0 if directed else (X0 + X0.T) / 2
    objective = mm.objectives.LeastSquares(rng.uniform(1, 2, (n, n)))
    result = minimize_metric(
        objective,
        X0,
        directed=directed,
        beta=beta,
        learning_rate=rate,
        batch_size=1,
        max_iter=1,
        random_state=seed,
    )
    term = objective.sample(np.random.default_rng(seed), 1, n)
    i, j = (int(side[0, 0]) for side in objective.pairs(term, n))
    w = np.array([[softplus(x, beta) if u != v else 0.0 for v, x in enumerate(row)]
                  for u, row in enumerate(X0)])  # fmt: skip
    length, paths = by_enumeration(w, i, j)
    (path,) = paths
    X = X0.copy()
    for u, v in zip(path[:-1], path[1:], strict=True):  # noqa: RUF007
        X[u, v] -= rate * 2 * (length - objective.target[term[0]]) * sigmoid(X0[u, v], beta)
        if not directed:
            X[v, u] = X[u, v]
    moved = np.array([[softplus(x, beta) if u != v else 0.0 for v, x in enumerate(row)]
                      for u, row in enumerate(X)])  # fmt: skip
    assert result.metric == pytest.approx(all_distances(moved), rel=1e-12)


def test_a_batch_is_that_many_steps_at_one_point():
    # Two items: every drawn pair (0, 1) or (1, 0) moves the one entry there is.
    target = np.array([[0.0, 3.0], [3.0, 0.0]])
    objective = mm.objectives.LeastSquares(target)
    result = minimize_metric(
        objective, start(2), learning_rate=0.01, batch_size=40, max_iter=1, random_state=2
    )
    terms = objective.sample(np.random.default_rng(2), 40, 2)
    apart = int(np.isin(terms, [1, 2]).sum())
    x = 1.0 - apart * 0.01 * 2 * (softplus(1.0) - 3.0) * sigmoid(1.0)
    assert result.metric[0, 1] == pytest.approx(softplus(x), rel=1e-12)


def test_ridge_pulls_entries_to_zero():
    nothing = mm.objectives.Separable(lambda d, i, j: 0.0, lambda d, i, j: 0.0, rho=0.5)
    result = minimize_metric(
        nothing, 3 * start(5), learning_rate=0.1, max_iter=400, schedule="constant", random_state=0
    )
    off = ~np.eye(5, dtype=bool)
    assert result.metric[off] == pytest.approx(np.log(2.0), abs=1e-3)
    assert result.objective == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_ridge_with_a_small_batch(batch_size, seed):
    # A batch may hold nothing but pairs (i, i), which have no entry to pull at.
    objective = mm.objectives.LeastSquares(random_metric(0, n=3), rho=0.01)
    result = minimize_metric(
        objective, start(3), batch_size=batch_size, max_iter=50, random_state=seed
    )
    assert result.status is Status.COMPLETED
    assert result.objective < minimize_metric(objective, start(3), max_iter=0).objective


# -- the rest ------------------------------------------------------------------------------------


def test_start_at_given_lengths():
    lengths = random_lengths(np.random.default_rng(4), N)
    X0 = np.zeros((N, N))
    off = ~np.eye(N, dtype=bool)
    X0[off] = inverse_link(lengths[off], 2.5)
    result = minimize_metric(mm.objectives.LeastSquares(np.zeros((N, N))), X0, beta=2.5, max_iter=0)
    assert result.metric == pytest.approx(all_distances(lengths), rel=1e-9)


def test_identity_link():
    target = random_metric(2)
    result = minimize_metric(
        mm.objectives.LeastSquares(target),
        3 * start(),
        link="identity",
        learning_rate=0.02,
        schedule="inverse",
        decay=500.0,
        max_iter=3000,
        random_state=0,
    )
    assert result.metric == pytest.approx(target, abs=0.05)


def test_input_is_left_alone():
    X0 = start()
    kept = X0.copy()
    minimize_metric(mm.objectives.LeastSquares(random_metric(0)), X0, max_iter=20, random_state=0)
    assert np.array_equal(X0, kept)


def test_default_number_of_steps():
    # Every term 50 times on average, n terms per step.
    objective = mm.objectives.LeastSquares(random_metric(0, n=4))
    result = minimize_metric(objective, start(4), random_state=0)
    assert result.n_iter == 50 * 4
    assert result.status is Status.COMPLETED


def test_tol_stops_early():
    target = random_metric(3)
    result = minimize_metric(
        mm.objectives.LeastSquares(target),
        start(),
        learning_rate=0.1,
        tol=0.05,
        patience=2,
        check_every=20,
        max_iter=5000,
        random_state=0,
    )
    assert result.status is Status.CONVERGED
    assert result.n_iter < 5000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link": "relu"}, "link: expected one of"),
        ({"beta": 0}, "beta: expected a number > 0"),
        ({"learning_rate": 0}, "learning_rate: expected a number > 0"),
        ({"schedule": "cosine"}, "schedule: expected one of"),
        ({"decay": -1}, "decay: expected a number > 0"),
        ({"batch_size": 0}, "batch_size: expected a whole number >= 1"),
        ({"max_iter": -1}, "max_iter: expected a whole number >= 0"),
    ],
)
def test_bad_options_are_refused(options, message):
    objective = mm.objectives.LeastSquares(random_metric(0))
    with pytest.raises(mm.InputError, match=message):
        minimize_metric(objective, start(), **{"max_iter": 1, **options})


def test_bad_matrices_are_refused():
    objective = mm.objectives.LeastSquares(random_metric(0))
    lopsided = start()
    lopsided[2, 5] = 4.0
    with pytest.raises(mm.InputError, match=r"X0: expected symmetric.* at \(2, 5\)"):
        minimize_metric(objective, lopsided)
    with pytest.raises(mm.InputError, match=r"target: expected shape \(4, 4\)"):
        minimize_metric(objective, start(4))
    with pytest.raises(mm.InputError, match="X0: expected finite"):
        minimize_metric(objective, np.full((N, N), np.nan))

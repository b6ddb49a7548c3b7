"""What every objective declares, from one table: slopes, convexity, probabilities, sampling."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import metricmix as mm

N = 7
Y = np.array([0, 1, -1, 1, 0, 2, 1])
TARGET = np.random.default_rng(0).uniform(0, 3, (N, N))
HOLES = np.where(np.random.default_rng(1).random((N, N)) < 0.4, np.nan, TARGET)
TRIPLES = np.random.default_rng(2).integers(0, N, (12, 3))
NUMBERS = np.array([0.4, 2.0, np.nan, -1.0, 3.5, 0.4, 1.0])
SHARES = np.array([0.3, 2.0, 1.0, 0.0, 1.7, 0.9, 0.6])

OBJECTIVES = {
    "least squares": lambda: mm.objectives.LeastSquares(TARGET),
    "least squares with holes": lambda: mm.objectives.LeastSquares(HOLES),
    "label contrast": lambda: mm.objectives.LabelContrast(Y),
    "label contrast, balanced": lambda: mm.objectives.LabelContrast(Y, balanced=True),
    "separable": lambda: mm.objectives.Separable(
        lambda d, i, j: np.sin(d) * (i + 1) + j * d, lambda d, i, j: np.cos(d) * (i + 1) + j
    ),
    "separable, some items": lambda: mm.objectives.Separable(
        lambda d, i, j: d**3, lambda d, i, j: 3 * d**2, items=[1, 4, 6]
    ),
    "triplets": lambda: mm.objectives.Triplets(TRIPLES, margin=0.7),
    "label contrast, weighted": lambda: mm.objectives.LabelContrast(Y, item_weights=SHARES),
    "label contrast, balanced and weighted": lambda: mm.objectives.LabelContrast(
        Y, balanced=True, item_weights=SHARES
    ),
    "class means": lambda: mm.objectives.ClassMeans(Y),
    "class means, weighted": lambda: mm.objectives.ClassMeans(Y, item_weights=SHARES),
    "class means in blocks": lambda: mm.objectives.ClassMeans(
        [0, 1, 1, 1, 0, 0, 0], block_size=3, item_weights=SHARES + 0.1
    ),
    "neighbourhood": lambda: mm.objectives.Neighbourhood(Y),
    "neighbourhood, weighted": lambda: mm.objectives.Neighbourhood(Y, item_weights=SHARES),
    "kernel regression": lambda: mm.objectives.KernelRegression(NUMBERS),
    "kernel regression, weighted": lambda: mm.objectives.KernelRegression(
        NUMBERS, item_weights=SHARES
    ),
    "kernel regression in blocks": lambda: mm.objectives.KernelRegression(
        np.arange(7.0), block_size=3, item_weights=SHARES + 0.1
    ),
    "target differences": lambda: mm.objectives.TargetDifferences(NUMBERS),
    "target differences, weighted": lambda: mm.objectives.TargetDifferences(
        NUMBERS, item_weights=SHARES
    ),
    "links": lambda: mm.objectives.PairConstraints([[0, 1], [5, 2]], [[3, 1], [6, 0], [1, 3]]),
    "cannot-links": lambda: mm.objectives.PairConstraints([], [[3, 1], [6, 0]], threshold=1.5),
}


@pytest.fixture(params=OBJECTIVES)
def objective(request):
    made = OBJECTIVES[request.param]()
    made.check(N)
    return made


def test_slopes_against_central_differences(objective):
    terms = np.arange(objective.n_terms(N))
    i, j = objective.pairs(terms, N)
    rng = np.random.default_rng(3)
    d = rng.uniform(0.5, 2.5, i.shape)
    value, slope = objective.evaluate(terms, d, N)
    assert value.shape == terms.shape
    assert slope.shape == i.shape == j.shape
    for q in range(i.shape[1]):
        step = np.zeros_like(d)
        step[:, q] = 1e-6
        ahead, behind = (objective.evaluate(terms, d + s * step, N)[0] for s in (1, -1))
        assert slope[:, q] == pytest.approx((ahead - behind) / 2e-6, rel=1e-6, abs=1e-7)


def test_curvature_against_central_differences(objective):
    terms = np.arange(objective.n_terms(N))
    i, _ = objective.pairs(terms, N)
    rng = np.random.default_rng(4)
    d, p = rng.uniform(0.5, 2.5, i.shape), rng.uniform(0.1, 1.0, len(terms))
    along = rng.normal(size=(3, *i.shape))
    found = objective.curvature(terms, d, along, p, N)
    if found is None:  # kinked, or far from convex
        assert not objective.convex or isinstance(objective, mm.objectives.Triplets)
        return
    differences = np.empty((3, 3))
    for r in range(3):
        ahead, behind = (objective.evaluate(terms, d + s * along[r], N)[1] for s in (1e-5, -1e-5))
        bend = (ahead - behind) / 2e-5 * p[:, None]
        differences[:, r] = (along * bend).sum(axis=(1, 2))
    assert found == pytest.approx(differences, rel=1e-6, abs=1e-7)


def test_every_objective_is_in_the_table():
    public = {getattr(mm.objectives, name) for name in mm.objectives.__all__}
    kinds = {kind for kind in public if isinstance(kind, type)} - {mm.objectives.Objective}
    assert {type(make()) for make in OBJECTIVES.values()} == kinds


def test_declared_convexity(objective):
    terms = np.arange(objective.n_terms(N))
    i, _ = objective.pairs(terms, N)
    one, other = np.random.default_rng(9).uniform(0, 9, (2, *i.shape))
    if objective.convex:
        ends = [objective.evaluate(terms, d, N)[0] for d in (one, other)]
        between, _ = objective.evaluate(terms, 0.5 * (one + other), N)
        assert (between <= np.mean(ends, axis=0) + 1e-12).all()


def test_declared_quadratic(objective):
    terms = np.arange(objective.n_terms(N))
    found = objective.quadratic(terms, N)
    if found is None:
        return
    assert objective.convex == bool((found[0] >= 0).all())
    i, _ = objective.pairs(terms, N)
    assert i.shape[1] == 1
    d = np.random.default_rng(10).uniform(0, 3, i.shape)
    value, slope = objective.evaluate(terms, d, N)
    a, b, c = found
    assert value == pytest.approx(a * d[:, 0] ** 2 + b * d[:, 0] + c, rel=1e-12, abs=1e-12)
    assert slope[:, 0] == pytest.approx(2 * a * d[:, 0] + b, rel=1e-12, abs=1e-12)


def test_terms_are_looked_at_one_by_one(objective):
    terms = np.arange(objective.n_terms(N))
    i, _ = objective.pairs(terms, N)
    d = np.random.default_rng(4).uniform(0, 2, i.shape)
    value, slope = objective.evaluate(terms, d, N)
    order = np.random.default_rng(5).permutation(terms)
    shuffled = objective.evaluate(order, d[order], N)
    assert np.array_equal(shuffled[0], value[order])
    assert np.array_equal(shuffled[1], slope[order])
    given = d.copy()
    objective.evaluate(terms, d, N)
    assert np.array_equal(d, given)


def test_pairs_are_items(objective):
    i, j = objective.pairs(np.arange(objective.n_terms(N)), N)
    for side in (i, j):
        assert side.dtype.kind == "i"
        assert side.min() >= 0
        assert side.max() < N


def test_probabilities_sum_to_one(objective):
    p = objective.probabilities(np.arange(objective.n_terms(N)), N)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert (p >= 0).all()


def test_terms_are_drawn_by_their_probabilities(objective):
    draws = 40_000
    count = objective.n_terms(N)
    p = objective.probabilities(np.arange(count), N)
    drawn = objective.sample(np.random.default_rng(6), draws, N)
    assert drawn.shape == (draws,)
    seen = np.bincount(drawn, minlength=count)
    assert len(seen) == count
    assert not seen[p == 0].any()
    expected = draws * p[p > 0]
    chi_square = float(((seen[p > 0] - expected) ** 2 / expected).sum())
    freedom = len(expected) - 1
    assert abs(chi_square - freedom) <= 5 * np.sqrt(2 * freedom)  # five standard deviations


@pytest.mark.parametrize("size", [0, 1, 2, 33])
def test_as_many_terms_as_asked_for(objective, size):
    drawn = objective.sample(np.random.default_rng(7), size, N)
    assert drawn.shape == (size,)
    assert drawn.dtype.kind == "i"


def test_same_seed_same_terms(objective):
    one, other = (objective.sample(np.random.default_rng(8), 50, N) for _ in range(2))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("rho", [-1.0, np.nan, np.inf, "strong"])
def test_impossible_ridges_are_refused(rho):
    for make in (
        lambda: mm.objectives.LeastSquares(TARGET, rho=rho),
        lambda: mm.objectives.LabelContrast(Y, rho=rho),
        lambda: mm.objectives.Separable(np.add, np.add, rho=rho),
        lambda: mm.objectives.Triplets(TRIPLES, rho=rho),
        lambda: mm.objectives.ClassMeans(Y, rho=rho),
        lambda: mm.objectives.Neighbourhood(Y, rho=rho),
        lambda: mm.objectives.PairConstraints([[0, 1]], [[2, 3]], rho=rho),
    ):
        with pytest.raises(mm.InputError, match="rho: expected a number"):
            make()


def test_fingerprints_tell_objectives_apart():
    made = [make() for make in OBJECTIVES.values()]
    made += [
        mm.objectives.LeastSquares(TARGET, rho=0.5),
        mm.objectives.LabelContrast(Y, rho=0.5),
        mm.objectives.Triplets(TRIPLES, margin=0.8),
        mm.objectives.Triplets(TRIPLES[::-1], margin=0.7),
        mm.objectives.Separable(lambda d, i, j: d**4, lambda d, i, j: 4 * d**3, items=[1, 4, 6]),
        mm.objectives.ClassMeans(Y, rho=0.5),
        mm.objectives.ClassMeans(Y, block_size=4),
        mm.objectives.ClassMeans(Y, item_weights=SHARES + 0.1),
        mm.objectives.Neighbourhood(Y, rho=0.5),
        mm.objectives.Neighbourhood(np.where(Y == 2, 1, Y)),
        mm.objectives.PairConstraints([[0, 1], [5, 2]], [[3, 1], [6, 0], [1, 3]], threshold=2.5),
        mm.objectives.PairConstraints([[0, 1]], [[5, 2], [3, 1], [6, 0], [1, 3]]),
    ]
    prints = [objective.fingerprint() for objective in made]
    assert len(set(prints)) == len(prints)
    again = [make().fingerprint() for make in OBJECTIVES.values()]
    assert again == prints[: len(again)]


def wave(function):
    return mm.objectives.Separable(function, lambda d, i, j: 0.0)


def test_fingerprints_tell_functions_apart():
    shift = [1.0, 2.0]
    made = [
        wave(lambda d, i, j: np.sin(d)),
        wave(lambda d, i, j: np.cos(d)),
        wave(lambda d, i, j: d + shift[0]),
        wave(lambda d, i, j: d + shift[1]),
        wave(lambda d, i, j, p=2: d**p),
        wave(lambda d, i, j, p=3: d**p),
        wave(lambda d, i, j: sum([d * k for k in range(3)])),
        wave(lambda d, i, j: sum([d * k * k for k in range(3)])),
    ]
    prints = [objective.fingerprint() for objective in made]
    assert len(set(prints)) == len(prints)


ELSEWHERE = """
import functools, sys
import numpy as np, metricmix as mm

def power(d, i, j, p):
    return d**p

class Hinge:
    def __call__(self, d, i, j):
        return np.maximum(d, 0)

for value in (
    lambda d, i, j: sum([d * k for k in range(3)]),
    functools.partial(power, p=2),
    Hinge(),
    lambda d, i, j: d if "x" in {"a", "b", "c", "d"} else -d,
    (lambda f: lambda d, i, j: f(d, i, j, 2))(power),
):
    print(mm.objectives.Separable(value, lambda d, i, j: 0.0).fingerprint().hex())
"""


def test_fingerprints_are_the_same_in_another_process():
    # Else no checkpoint could be resumed after a crash.
    def run():
        command = [sys.executable, "-c", ELSEWHERE]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    one, other = run(), run()
    assert len(one) == 5
    assert one == other

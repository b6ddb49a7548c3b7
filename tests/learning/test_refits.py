"""Learning again: what a refit may see, and what it leaves as it was."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_info

import metricmix as mm
from metricmix.exceptions import UnreachableWarning, warn_caller
from metricmix.learning.learned import Learned
from metricmix.learning.refits import RefitPlan, refit, refits

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
Y = np.arange(40) % 2
KNOWN = np.where(np.arange(40) < 24, Y, -1)
TARGETS = np.where(np.arange(40) < 24, X[:, 0] + X[:, 1], np.nan)
SOURCES = ["euclidean", "angular"]
FIXED: dict[str, Any] = {"constraint": "nonnegative", "rho": 1e-3}
CLASSES = partial(mm.MetricMixtureClassifier, SOURCES, rule="class-mean", **FIXED)
NUMBERS = partial(mm.MetricMixtureRegressor, SOURCES, rule="kernel-ridge", **FIXED)
each_task = pytest.mark.parametrize(
    ("make", "y"), [(CLASSES, KNOWN), (NUMBERS, TARGETS)], ids=["classes", "numbers"]
)


def plan_of(learned: Learned, **changes: Any) -> RefitPlan:
    return RefitPlan(**{"known": learned.known, "options": learned.options, **changes})


@each_task
def test_a_refit_on_the_same_labels_is_the_fit(make: Any, y: Any) -> None:
    learned = make().fit(X, y).learned_
    again = refit(learned.whole, learned.task, plan_of(learned))
    assert np.array_equal(again.mixture.weights, learned.mixture.weights)
    assert np.array_equal(again.answers, learned.answers)


@each_task
def test_a_refit_on_other_labels_is_a_fit_to_them(make: Any, y: Any) -> None:
    learned = make().fit(X, y).learned_
    fewer = learned.known.without(np.arange(6))
    again = refit(learned.whole, learned.task, plan_of(learned, known=fewer))
    fresh = make().fit(X, fewer.values).learned_
    assert again.mixture.weights == pytest.approx(fresh.mixture.weights)
    assert again.answers == pytest.approx(fresh.answers)
    assert (learned.known.values[:6] == y[:6]).all()  # as it was


@each_task
def test_weights_stay_equal_where_nothing_can_be_learned(make: Any, y: Any) -> None:
    learned = make().fit(X, y).learned_
    few = learned.known.only([0] if learned.task.is_numeric else [0, 1])
    again = refit(learned.whole, learned.task, plan_of(learned, known=few))
    assert np.ptp(again.mixture.weights) == 0
    assert again.result.objective_kind == "none"


def test_labels_that_count_nothing_are_not_learned_from() -> None:
    learned = CLASSES().fit(X, KNOWN).learned_
    item_weights = np.where(np.arange(40) < 6, 0.0, 1.0)
    zero = refit(learned.whole, learned.task, plan_of(learned, item_weights=item_weights))
    known = learned.known.without(np.arange(6))
    without = refit(learned.whole, learned.task, plan_of(learned, known=known))
    assert zero.mixture.weights == pytest.approx(without.mixture.weights, rel=1e-3)


def test_neither_convergence_nor_projection_is_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CLASSES(max_iter=1, constraint=None, projection=False).fit(X, KNOWN)
    learned = model.learned_
    assert refit(learned.whole, learned.task, plan_of(learned)).result.n_iter == 1


def test_a_generator_is_not_used_up() -> None:
    state = np.random.default_rng(3)
    options: Any = {"method": "stochastic", "max_iter": 20, "random_state": state}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learned = CLASSES(**options).fit(X, KNOWN).learned_
    one, two = (refit(learned.whole, learned.task, plan_of(learned)) for _ in range(2))
    assert np.array_equal(one.mixture.weights, two.mixture.weights)


def test_a_training_set_that_an_objective_refuses_is_named() -> None:
    def wants_all(codes: Any) -> Any:
        if (codes >= 0).sum() < 24:
            raise mm.InputError("too few")
        return mm.objectives.LabelContrast(codes)

    learned = CLASSES(objective=wants_all).fit(X, KNOWN).learned_
    plan = plan_of(learned, known=learned.known.without([0]))
    with pytest.raises(mm.InputError, match="model: a training set cannot be used; too few"):
        refit(learned.whole, learned.task, plan)


def test_a_wrong_parameter_is_named_by_itself() -> None:
    with pytest.raises(mm.InputError, match=r"^rho: expected a number >= 0"):
        CLASSES(rho=-1).fit(X, KNOWN)


def weights_and_labels(learned: Learned, plan: RefitPlan) -> tuple[Any, int]:
    return learned.mixture.weights, len(plan.known.items)


def test_many_refits_come_in_the_order_of_their_plans() -> None:
    learned = CLASSES().fit(X, KNOWN).learned_
    plans = [plan_of(learned, known=learned.known.without(np.arange(k))) for k in (1, 4, 2)]
    found = list(refits(learned.whole, learned.task, plans, weights_and_labels))
    assert [n for _, n in found] == [23, 20, 22]
    for (weights, _), plan in zip(found, plans, strict=True):
        alone = refit(learned.whole, learned.task, plan)
        assert np.array_equal(weights, alone.mixture.weights)


def warned(learned: Learned, plan: RefitPlan) -> Any:
    warn_caller(f"{len(plan.known.items)} labels", UnreachableWarning)
    return learned.mixture.weights


def test_refits_in_threads_are_those_one_after_the_other() -> None:
    """Also their warnings, at the line of the caller; filters and BLAS stay as they were."""
    supervised = {"plain": "euclidean", "told": mm.dissimilarity.supervised(GaussianNB())}
    model = mm.MetricMixtureClassifier(supervised, rule="class-mean", **FIXED)
    learned = model.fit(X, KNOWN).learned_
    plans = [plan_of(learned, known=learned.known.without([k])) for k in range(6)]
    plans += [plan_of(learned, known=learned.known.without(np.arange(2 + k))) for k in range(6)]
    found, said, threads = [], [], threadpool_info()
    for n_jobs in (1, 2, 3):
        with (
            parallel_config("threading", n_jobs=n_jobs),
            warnings.catch_warnings(record=True) as heard,
        ):
            warnings.simplefilter("always")
            filters = list(warnings.filters)
            found.append(list(refits(learned.whole, learned.task, plans, warned)))
            assert warnings.filters == filters
        said.append([str(one.message) for one in heard])
        assert {one.filename for one in heard} == {__file__}
    assert all(np.array_equal(one, found[0]) for one in found[1:])
    assert said[0] == [f"{len(plan.known.items)} labels" for plan in plans]
    assert all(one == said[0] for one in said[1:])
    assert [one["num_threads"] for one in threadpool_info()] == [
        one["num_threads"] for one in threads
    ]

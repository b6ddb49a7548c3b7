"""What is predicted: how values are read, and how good answers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, r2_score

import metricmix as mm
from metricmix.learning.task import Classes, Numbers, Task, independent_errors

TASKS: dict[str, Any] = {"classes": Classes(np.array(["a", "b", "c"])), "numbers": Numbers()}
each_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


def random_answers(task: Task, seed: int = 0, n: int = 40) -> tuple[Any, Any]:
    """Return answers that are often right, and what is right."""
    rng = np.random.default_rng(seed)
    if task.is_numeric:
        y = rng.normal(size=n)
        return y + 0.5 * rng.normal(size=n), y
    codes = np.arange(n) % task.n_classes
    p = rng.random((n, task.n_classes)) + np.eye(task.n_classes)[codes]
    return p / p.sum(axis=1, keepdims=True), codes


@each_task
def test_the_score_is_that_of_scikit_learn(task: Task) -> None:
    answers, y = random_answers(task)
    predicted = task.predictions(answers)
    score = r2_score if task.is_numeric else accuracy_score
    assert 1.0 - task.errors(predicted, y).mean() == pytest.approx(score(y, predicted))
    repeats = np.stack([predicted, predicted[::-1]])
    assert task.errors(repeats, y).shape == repeats.shape


@each_task
def test_better_answers_have_a_smaller_loss(task: Task) -> None:
    answers, y = random_answers(task)
    order = np.roll(np.arange(len(y)), 1)
    loss, of_others = task.losses(answers, y), task.losses(answers[order], y)
    assert loss.shape == (len(y),)
    assert loss.mean() < of_others.mean()
    assert task.training_loss(answers, y) < task.training_loss(answers[order], y)


@each_task
def test_blank_answers_depend_on_no_single_item(task: Task) -> None:
    _, y = random_answers(task)
    values = np.append(y, np.nan if task.is_numeric else -1).astype(y.dtype)
    blank = task.blank(task.known_of(values))
    assert len(blank) == len(y)
    assert (blank == blank[0]).all()
    if not task.is_numeric:
        assert blank.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("y", [[3, 1, -1, 3], ["b", "a", "", "b"], [3.0, 1.0, np.nan, 3.0]])
def test_classes_are_sorted_and_unlabelled_items_marked(y: Any) -> None:
    task, codes = Classes.encode(y, "Model")
    assert codes.tolist() == [1, 0, -1, 1]
    assert task.decode(codes[[0, 1, 3]]).tolist() == [y[0], y[1], y[3]]
    assert task.n_classes == len(task.class_names) == 2


@each_task
def test_values_are_required(task: Task) -> None:
    kind: Any = type(task)
    with pytest.raises(mm.InputError, match="Model estimator requires y to be passed"):
        kind.encode(None, "Model")
    unknown = [np.nan] * 3 if task.is_numeric else [-1] * 3
    with pytest.raises(mm.InputError, match="y: expected"):
        kind.encode(unknown, "Model")


def test_outlying_targets_are_reported_and_count_as_the_largest() -> None:
    y = np.append(np.arange(20.0), 1e6)
    with pytest.warns(UserWarning, match="1 of 21 targets are more than ten"):
        task, targets = Numbers.encode(y, "Model")
    assert targets[-1] == 1e6
    assert task.losses(np.arange(21.0).clip(max=19.0), y)[-1] < 5.0


@each_task
def test_few_values(task: Task) -> None:
    n = 19 if task.is_numeric else 4 * task.n_classes
    few, more = (random_answers(task, n=size)[1] for size in (n, n + 3))
    assert task.is_few(task.known_of(few))
    assert not task.is_few(task.known_of(more))
    assert f"{n} {task.noun}" in task.why_few(task.known_of(few))


def test_temperature_forgives_a_rule_that_is_too_sure() -> None:
    p = np.array([[0.7, 0.3], [0.7, 0.3], [0.3, 0.7], [0.7, 0.3]])
    right = np.array([0, 0, 1, 1])
    sharp = p**8 / (p**8).sum(axis=1, keepdims=True)
    losses = Classes(np.arange(2)).losses
    assert np.allclose(losses(p, right), losses(sharp, right), atol=1e-4)


# -- what is reported of held-out items ------------------------------------------------------------


@pytest.mark.parametrize(("right", "of"), [(0, 10), (7, 10), (30, 30), (55, 120)])
def test_intervals_of_accuracies_are_wilsons_of_half_as_many_items(right: int, of: int) -> None:
    errors = np.ones((1, 2 * of))
    errors[0, : 2 * right] = 0.0
    exact = binomtest(right, of).proportion_ci(0.9, method="wilson")
    task, trials = Classes(np.array(["a", "b"])), independent_errors(2 * of)
    found = task.interval(errors, trials)
    assert found == pytest.approx((exact.low, exact.high), abs=1e-4)
    assert task.interval(np.repeat(errors, 3, axis=0), trials) == pytest.approx(found)


def test_intervals_of_r2() -> None:
    errors = np.random.default_rng(0).gamma(1.0, 0.5, size=(1, 80))
    low, high = Numbers().interval(errors, independent_errors(80))
    assert low < 1.0 - errors.mean() < high <= 1.0
    assert high - low == pytest.approx(2 * 1.645 * errors.std() / np.sqrt(40))


def test_balanced_accuracy_and_macro_f1() -> None:
    y = np.array([0, 0, 0, 0, 1, 1, 2])
    predicted = np.array([[0, 0, 0, 1, 1, 0, 2], [0, 0, 2, 0, 1, 1, 1]])
    task = Classes(np.array(["a", "b", "c", "unseen"]))
    balanced, macro = task.measures_of(predicted, y)
    repeated = np.tile(y, 2)
    assert balanced == pytest.approx(balanced_accuracy_score(repeated, predicted.ravel()))
    assert macro == pytest.approx(f1_score(repeated, predicted.ravel(), average="macro"))
    assert np.isnan(Numbers().measures_of(predicted, y)).all()

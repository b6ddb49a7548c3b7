"""Objectives by name: what each is made with, and one that a test registers."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity.known import Known
from metricmix.exceptions import InputError
from metricmix.objectives import make_objective, names
from metricmix.objectives.base import OBJECTIVES

LABELS = Known(np.array([0, 1, -1, 1, 0, 2, 1]), 3)
TARGETS = Known(np.array([0.4, 2.0, np.nan, -1.0, 3.5]))


def test_names():
    assert set(names()) == {"class-means", "label-contrast", "neighbourhood"}
    assert set(names(numeric=True)) == {"kernel-regression", "target-differences"}


@pytest.mark.parametrize(
    ("name", "rho"),
    [("class-means", 1e-2 * 3.0**6), ("label-contrast", 0.1), ("neighbourhood", 1e-3)],
)
def test_defaults_over_classes(name, rho):
    made = make_objective(name, LABELS)
    assert type(made) is OBJECTIVES[name]
    assert made.rho == pytest.approx(rho)
    assert np.array_equal(made.y, LABELS.values)
    weights = np.arange(1.0, 8.0)
    made = make_objective(name, LABELS, rho=0.5, item_weights=weights)
    assert made.rho == 0.5
    assert np.array_equal(made.item_weights, weights)


def test_the_default_ridge_ignores_classes_without_labels():
    more = Known(LABELS.values, 9)
    assert make_objective("class-means", more).rho == make_objective("class-means", LABELS).rho


def test_blocks_of_class_means():
    y = np.arange(1001) % 3
    assert make_objective("class-means", LABELS).block_size is None
    assert make_objective("class-means", LABELS, stochastic=True).block_size == 20
    assert make_objective("class-means", Known(y[:-1], 3)).block_size is None
    assert make_objective("class-means", Known(y, 3)).block_size == 500


def test_contrast_is_balanced():
    assert make_objective("label-contrast", LABELS).balanced


@pytest.mark.parametrize("name", ["kernel-regression", "target-differences"])
def test_defaults_over_numbers(name):
    made = make_objective(name, TARGETS)
    assert made.rho == 0.01
    many = Known(np.random.default_rng(0).normal(size=5000))
    made = make_objective(name, many)
    assert made.rho == 1e-4
    assert len(made.labelled) == {"kernel-regression": 4000, "target-differences": 1500}[name]
    assert getattr(made, "block_size", 500) == 500


def test_objectives_and_functions():
    own = mm.objectives.Neighbourhood(LABELS.values)
    assert make_objective(own, LABELS) is own
    assert make_objective(None, LABELS) is None
    assert make_objective(lambda codes: mm.objectives.Neighbourhood(codes), LABELS).n_terms(7) == 5
    with pytest.raises(InputError, match=r"^objective: expected it to return an Objective"):
        make_objective(lambda codes: 3, LABELS)
    with pytest.raises(InputError, match=r"^objective: expected an objective or its name"):
        make_objective(3, LABELS)


def test_errors():
    with pytest.raises(InputError, match=r"^objective: expected one of 'kernel-regression'"):
        make_objective("class-means", TARGETS)
    with pytest.raises(InputError, match=r"two labelled items.* each of the 2 classes"):
        make_objective("class-means", Known(np.array([0, 1, -1]), 2))


def test_an_objective_of_a_test():
    @OBJECTIVES.register("wider", words="as near, with a larger ridge", numeric=False)
    class Wider(mm.objectives.Neighbourhood):
        @classmethod
        def default_rho(cls, known):
            return 7.0

    try:
        assert "wider" in names()
        assert make_objective("wider", LABELS).rho == 7.0
        model = mm.MetricMixture(objective="wider", max_iter=5)
        d = np.random.default_rng(0).uniform(1, 2, (7, 7, 2))
        d = (d + d.transpose(1, 0, 2)) * (1 - np.eye(7))[..., None]
        assert model.fit(d, LABELS.values).result_.objective > 0
    finally:
        OBJECTIVES.unregister("wider")
    assert "wider" not in names()

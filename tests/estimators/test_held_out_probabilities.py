"""Items judged without their own label."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.estimators import cross_validation
from metricmix.estimators.cross_validation import held_out_probabilities
from metricmix.estimators.rules import RULES
from reference.models import classifier


@pytest.fixture
def labelled():
    rng = np.random.default_rng(0)
    kind = np.arange(40) % 2
    X = np.column_stack([kind + 0.4 * rng.normal(size=40), rng.normal(size=40)])
    y = np.where(np.arange(40) < 24, kind, -1)
    y[3] = 1 - y[3]  # a label that is wrong
    return X, y


@pytest.mark.parametrize("name", [name for name in RULES if name != "spreading"])
def test_each_alone_against_refitted_rules(labelled, name) -> None:
    X, y = labelled
    model = classifier(["euclidean", "cityblock"], rule=name).fit(X, y)
    found = held_out_probabilities(model)
    for i in np.flatnonzero(y >= 0)[:6]:
        codes = model._codes.copy()
        codes[i] = -1
        np.testing.assert_allclose(
            found[i], model._fitted_rule(model._lengths(), codes).probabilities[i]
        )
    np.testing.assert_array_equal(found[24:], model._rule.probabilities[24:])
    assert found[3].argmax() != y[3]
    D = mm.path_metric(model.stack_, model.mixture_)
    np.testing.assert_allclose(held_out_probabilities(model, D), found, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_in_folds(labelled, rule, monkeypatch) -> None:
    monkeypatch.setattr(cross_validation, "LEAVE_ONE_OUT_UP_TO", 5)
    X, y = labelled
    model = classifier(["euclidean", "cityblock"], rule=rule).fit(X, y)
    found = held_out_probabilities(model)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert found[3].argmax() != y[3]


def test_too_few_to_hold_one_back() -> None:
    place = np.array([0.0, 1.0, 5.0])
    stack = mm.DissimilarityStack([abs(place[:, None] - place)])
    model = classifier(objective=None).fit(stack, [0, 1, -1])
    np.testing.assert_array_equal(held_out_probabilities(model), model._rule.probabilities)

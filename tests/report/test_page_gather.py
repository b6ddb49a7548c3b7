"""What a page is gathered from: nothing twice, nothing that flatters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.exceptions import InputError
from metricmix.report.page import gather
from metricmix.report.page.gather import _resamples


@pytest.fixture(scope="module")
def model() -> Any:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 3)), rng.normal(3.0, 1.0, size=(20, 3))])
    y = np.where(np.arange(40) % 3 > 0, np.arange(40) // 20, -1)
    return mm.MetricMixtureClassifier(["euclidean", "cosine"]).fit(X, y)


def test_what_is_at_hand_is_not_computed_again(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    module = sys.modules["metricmix.report.page.gather"]
    metric = mm.path_metric(model.stack_, model.mixture_)
    table = model.weights_table(n_bootstrap=6, random_state=1)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("computed again")

    monkeypatch.setattr(module, "path_metric", refuse)
    monkeypatch.setattr(type(model), "weights_table", refuse)
    data = gather(model, metric=metric, weights=table, n_bootstrap=6)
    assert [weight.lower for weight in data.weights] == table["lower"].tolist()
    assert [weight.upper for weight in data.weights] == table["upper"].tolist()
    assert data.intervals is not None
    assert "6 resamples" in data.intervals


def test_stages_are_told_in_order(model: Any) -> None:
    told: list[tuple[str, float]] = []
    gather(model, n_bootstrap=2, on_stage=lambda stage, share: told.append((stage, share)))
    stages = list(dict.fromkeys(stage for stage, _ in told))
    assert stages == ["metric", "certificate", "paths", "intervals", "maps"]
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_the_certificate_is_of_the_metric(model: Any) -> None:
    data = gather(model, n_bootstrap=0)
    assert data.certificate is not None
    assert data.certificate.holds
    assert data.certificate.triangles == 40 * 39 * 38 // 2
    metric = mm.path_metric(model.stack_, model.mixture_)
    metric[3, 5] = metric[5, 3] = 9.0 * metric.max()
    broken = gather(model, n_bootstrap=0, metric=metric).certificate
    assert broken is not None
    assert not broken.holds
    assert broken.violation > 1.0


def test_misfits_are_given_labels_that_the_rule_would_not_give(model: Any) -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 3)), rng.normal(9.0, 1.0, size=(20, 3))])
    y = np.arange(40) // 20
    y[4] = 1
    data = gather(mm.MetricMixtureClassifier(["euclidean"]).fit(X, y), n_bootstrap=0)
    assert np.flatnonzero(data.items.misfit).tolist() == [4]


def test_no_intervals_where_nothing_says_how(model: Any) -> None:
    assert all(weight.lower is None for weight in gather(model, n_bootstrap=0).weights)
    X, y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2
    equal = mm.MetricMixtureClassifier(["euclidean"], objective=None).fit(X, y)
    data = gather(equal)
    assert data.intervals is None
    assert data.weights[0].value == equal.weights_[0]


def test_fewer_resamples_of_many_labels(model: Any) -> None:
    assert _resamples(model) == 100

    class Many:
        _codes = np.zeros(1000)

    class VeryMany:
        _codes = np.zeros(10**6)

    assert _resamples(Many()) == 30  # type: ignore[arg-type]
    assert _resamples(VeryMany()) == 20  # type: ignore[arg-type]


def test_a_chosen_classifier_is_taken_out_of_its_choice() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(15, 2)), rng.normal(4.0, 1.0, size=(15, 2))])
    y = np.arange(30) // 15
    chosen = mm.MetricMixtureClassifierCV(["euclidean", "cosine"]).fit(X, y)
    data = gather(chosen, n_bootstrap=0)
    assert [weight.name for weight in data.weights] == ["euclidean", "cosine"]


def test_other_estimators_are_refused() -> None:
    with pytest.raises(InputError, match="model: expected a fitted MetricMixtureClassifier, got"):
        gather(mm.MetricMixture())  # type: ignore[arg-type]

"""The content of a page: nothing is computed twice, and confidences leave out own labels."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.app.page import Annotations, Precomputed, page_content
from metricmix.app.page.content import default_n_bootstrap
from metricmix.app.page.html import encode
from metricmix.exceptions import InputError
from metricmix.fitting.fit_items import nearest_labelled_item
from reference.models import classifier


@pytest.fixture(scope="module")
def model() -> Any:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 3)), rng.normal(3.0, 1.0, size=(20, 3))])
    y = np.where(np.arange(40) % 3 > 0, np.arange(40) // 20, -1)
    return classifier(["euclidean", "cosine"]).fit(X, y)


def test_what_is_at_hand_is_not_computed_again(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = mm.path_metric(model.stack_, model.mixture_)
    table = model.weights_table(n_bootstrap=6, random_state=1)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("computed again")

    to_array = mm.Metric.to_array  # that along the nearest items is computed for the page

    def to_array_along(self: mm.Metric) -> Any:
        return refuse() if self.near is None else to_array(self)

    monkeypatch.setattr(mm.Metric, "to_array", to_array_along)
    monkeypatch.setattr(type(model), "weights_table", refuse)
    data = page_content(model, n_bootstrap=6, precomputed=Precomputed(metric, weights=table))
    assert [weight.lower for weight in data.weights] == table["lower"].tolist()
    assert [weight.upper for weight in data.weights] == table["upper"].tolist()
    assert data.intervals is not None
    assert "6 resamples" in data.intervals


def test_progress_is_reported_in_order(model: Any) -> None:
    reported: list[tuple[str, float]] = []
    page_content(model, n_bootstrap=2, on_progress=lambda *call: reported.append(call))
    steps = list(dict.fromkeys(step for step, _ in reported))
    assert steps == ["metric", "certificate", "paths", "intervals", "maps"]
    fractions = [fraction for _, fraction in reported]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


def test_the_metric_is_checked(model: Any) -> None:
    data = page_content(model, n_bootstrap=0)
    assert data.metric_check is not None
    assert data.metric_check.holds
    assert data.metric_check.triangles == 40 * 39 * 38 // 2
    metric = mm.path_metric(model.stack_, model.mixture_)
    metric[3, 5] = metric[5, 3] = 9.0 * metric.max()
    broken = page_content(model, n_bootstrap=0, precomputed=Precomputed(metric)).metric_check
    assert broken is not None
    assert not broken.holds
    assert broken.violation > 1.0


def test_misfits_are_given_labels_that_the_rule_would_not_give(model: Any) -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 3)), rng.normal(9.0, 1.0, size=(20, 3))])
    y = np.arange(40) // 20
    y[4] = 1
    data = page_content(classifier(["euclidean"]).fit(X, y), n_bootstrap=0)
    assert np.flatnonzero(data.items.misfit).tolist() == [4]
    assert data.items.prefers is not None
    assert data.items.prefers[4] == 0


@pytest.mark.parametrize("directed", [False, True])
def test_what_is_known_of_one_item(directed: bool) -> None:
    rng = np.random.default_rng(0)
    d = rng.random((30, 30)) + 0.1
    d = d if directed else d + d.T
    np.fill_diagonal(d, 0.0)
    y = np.where(np.arange(30) % 4 > 0, np.arange(30) % 3, -1)
    stack = mm.DissimilarityStack({"chance": d}, directed=directed)
    model = mm.MetricMixtureClassifier(stack, rule="class-mean").fit(np.arange(30), y)
    items = page_content(model, n_bootstrap=0).items
    probabilities = model.learned_.held_out.among_all(model.learned_)
    assert items.confidence == pytest.approx(probabilities[np.arange(30), items.labels])
    assert items.prefers is not None
    assert items.prefers.tolist() == probabilities.argmax(axis=1).tolist()
    assert (items.misfit == (items.given & (items.prefers != items.labels))).all()
    metric = mm.path_metric(stack, model.mixture_)
    assert items.nearest is not None
    for i, j in enumerate(items.nearest.tolist()):
        others = [k for k in np.flatnonzero(y >= 0).tolist() if k != i]
        assert j in others
        assert metric[i, j] == metric[i, others].min()


def test_without_labels_no_item_is_nearest() -> None:
    metric = np.ones((3, 3)) - np.eye(3)
    assert nearest_labelled_item(metric, np.zeros(3, bool)).tolist() == [-1, -1, -1]
    assert nearest_labelled_item(metric, np.array([True, False, False])).tolist() == [-1, 0, 0]
    assert metric.trace() == 0.0


def test_items_sources_and_the_whole_are_told_of(model: Any) -> None:
    data = page_content(
        model,
        n_bootstrap=0,
        annotations=Annotations(
            items=[f"title {k}" for k in range(40)],
            sources={"cosine": "angle of 3 columns"},
            facts=[("learner", "full")],
        ),
    )
    assert data.items.about[7] == "title 7"
    assert [weight.about for weight in data.weights] == ["", "angle of 3 columns"]
    assert data.facts == (("learner", "full"),)


def test_no_intervals_where_nothing_says_how(model: Any) -> None:
    assert all(weight.lower is None for weight in page_content(model, n_bootstrap=0).weights)
    X, y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2
    equal = mm.MetricMixtureClassifier(["euclidean"], objective=None).fit(X, y)
    data = page_content(equal)
    assert data.intervals is None
    assert data.weights[0].value == equal.weights_[0]


def test_fewer_resamples_of_many_labels() -> None:
    assert [default_n_bootstrap(n) for n in (0, 26, 1000, 10**6)] == [100, 100, 30, 20]


def test_a_chosen_classifier_is_taken_out_of_its_choice() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(15, 2)), rng.normal(4.0, 1.0, size=(15, 2))])
    y = np.arange(30) // 15
    chosen = mm.MetricMixtureClassifierCV(["euclidean", "cosine"]).fit(X, y)
    data = page_content(chosen, n_bootstrap=0)
    assert [weight.name for weight in data.weights] == ["euclidean", "cosine"]


def test_other_estimators_are_refused() -> None:
    with pytest.raises(InputError, match="model: expected a fitted MetricMixtureClassifier or"):
        page_content(mm.MetricMixture())  # type: ignore[arg-type]


def test_local_weights_are_a_table_by_class(model: Any) -> None:
    assert page_content(model, n_bootstrap=0).local_weights is None
    X = np.concatenate([np.eye(3)[np.arange(12) % 3], 2.0 + np.eye(3)[np.arange(12) % 3]])
    X += np.random.default_rng(0).normal(0.0, 0.2, X.shape)
    y = np.repeat(["left", "right"], 12)
    local = mm.MetricMixtureClassifier(
        ["euclidean", "cityblock"], local="classes", rho=1e-2, rho_local=1e-1, rule="class-mean"
    ).fit(X, y)
    data = page_content(local, n_bootstrap=0)
    assert data.local_weights is not None
    assert data.local_weights.regions == ("left", "right")
    assert data.local_weights.values == pytest.approx(local.local_weights_.to_numpy())
    assert [weight.value for weight in data.weights] == pytest.approx(local.weights_.tolist())
    assert data.metric_check is not None
    assert data.metric_check.holds
    record = json.loads(encode(data)[0])["local"]
    assert record["regions"] == ["left", "right"]
    assert np.array(record["values"]) == pytest.approx(data.local_weights.values)

"""Why this label and not that one, typical items, and labels that look wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.estimators.cross_validation import held_out_probabilities
from metricmix.estimators.label_evidence import LabelEvidence, explain_label, misfits

RNG = np.random.default_rng(0)
N = 36
Y = np.arange(N) % 3
PLACES = 3.0 * np.eye(3)[Y] + RNG.normal(size=(N, 3))
GIVEN = Y.copy()
GIVEN[4] = 2  # wrong: it lies among class 1
KNOWN = np.where(np.arange(N) < 27, GIVEN, -1)
IDS = [f"item {k}" for k in range(N)]
STACK = mm.DissimilarityStack(
    {
        "first": mm.dissimilarity.features(PLACES[:, :2]),
        "last": mm.dissimilarity.features(PLACES[:, 2:]),
        "noise": mm.dissimilarity.features(RNG.normal(size=(N, 2))),
    },
    items=IDS,
)
PLAIN: dict[str, Any] = {"constraint": "nonnegative", "rho": 1e-2, "local": None}


def fitted(rule: Any, **more: Any) -> mm.MetricMixtureClassifier:
    return mm.MetricMixtureClassifier(rule=rule, **PLAIN, **more).fit(STACK, KNOWN)


@pytest.fixture(scope="module")
def by_means() -> mm.MetricMixtureClassifier:
    return fitted(mm.estimators.ClassMean(offsets=True))


def test_log_odds_are_those_of_the_probabilities(by_means: mm.MetricMixtureClassifier) -> None:
    p = by_means._rule.probabilities[30]
    why = by_means.explain_label("item 30")
    order = np.argsort(-p)
    assert (why.label, why.other) == tuple(by_means.classes_[order[:2]])
    assert why.total == pytest.approx(float(np.log(p[order[0]] / p[order[1]])))
    assert set(why.margin) == {"first", "last", "noise", "link", "offset"}
    assert "log odds" in str(why)
    third = by_means.explain_label("item 30", other=int(order[2]))
    assert third.total == pytest.approx(float(np.log(p[order[0]] / p[order[2]])))


@pytest.mark.parametrize("rule", ["class-mean", "nearest", "k-nearest"])
def test_factors_make_the_classes_even(rule: str) -> None:
    model = fitted(rule)
    seen = 0
    for item in IDS[27:]:
        why = model.explain_label(item)
        assert set(why.flips) == set(STACK.names)
        for name, factor in why.flips.items():
            if factor is not None:
                seen += 1
                assert why.total + (factor - 1.0) * why.margin[name] == pytest.approx(0.0, abs=1e-9)
            else:  # neither none of it nor ten thousand times of it would change the label
                ends = [why.total - why.margin[name], why.total + 9999 * why.margin[name]]
                assert np.sign(ends).tolist() == [np.sign(why.total)] * 2
    assert seen


@pytest.mark.parametrize("geodesic", [None, 3])
def test_chains_lead_to_the_nearest_item_of_either_class(geodesic: int | None) -> None:
    model = fitted("nearest", geodesic=geodesic)
    metric = model.compute_metric()
    for k in (2, 30):
        why = model.explain_label(IDS[k])
        for label, chain in zip((why.label, why.other), why.chains, strict=True):
            own = np.flatnonzero((label == KNOWN) & (np.arange(N) != k))
            assert chain is not None
            assert chain.distance == pytest.approx(metric[k, own].min())
            assert chain.contributions.nodes[0] == IDS[k]
            assert chain.label == label
        near, far = why.chains
        assert near is not None
        assert far is not None
        assert why.total == pytest.approx(far.distance - near.distance)
        record = why.to_record()
        assert record["chains"][0]["path"][-1] == near.item
    assert "difference of the two path lengths" in str(model.explain_label(IDS[30]))


def test_other_must_be_another_class(by_means: mm.MetricMixtureClassifier) -> None:
    label = by_means.explain_label("item 30").label
    for wrong in (label, 7, "x"):
        with pytest.raises(mm.InputError, match="other"):
            by_means.explain_label("item 30", other=wrong)
    with pytest.raises(mm.InputError, match="item"):
        by_means.explain_label("nobody")


def test_typical_items_are_medoids(by_means: mm.MetricMixtureClassifier) -> None:
    metric = by_means.compute_metric()
    for typical in by_means.typical_items():
        own = np.flatnonzero(typical.label == KNOWN)
        sums = metric[np.ix_(own, own)].sum(axis=1)
        assert typical.item == IDS[own[sums.argmin()]]
        assert typical.distance == pytest.approx(sums.min() / (len(own) - 1))
        assert typical.size == len(own)


def test_wrong_labels_come_first(by_means: mm.MetricMixtureClassifier) -> None:
    found = by_means.misfits()
    assert found[0].item == "item 4"
    assert (found[0].label, found[0].other) == (2, 1)
    p = held_out_probabilities(by_means)
    expected = {IDS[k] for k in range(27) if p[k].argmax() != KNOWN[k]}
    assert {misfit.item for misfit in found} == expected
    odds = [np.log(misfit.other_probability / misfit.probability) for misfit in found]
    assert odds == sorted(odds, reverse=True)
    metric = by_means.compute_metric()
    nearest = np.argsort(np.where(np.arange(27) == 4, np.inf, metric[4, :27]))[:3]
    assert [item for item, *_ in found[0].nearest] == [IDS[k] for k in nearest]
    assert "item 4: given 2" in str(found[0])


def test_a_search_is_explained_by_its_best_estimator() -> None:
    search = mm.MetricMixtureClassifierCV(rhos=(1e-2,), rules=("nearest",), cv=3)
    search.fit(STACK, KNOWN)
    assert explain_label(search, "item 30").rule == "nearest"  # type: ignore[arg-type]
    assert misfits(search)[0].item == "item 4"  # type: ignore[arg-type]


def test_factors_beyond_reason_are_left_out() -> None:
    def sentence(**flips: float | None) -> str:
        evidence = LabelEvidence("a", "x", "y", "nearest", (None, None), {}, flips)
        return str(evidence).splitlines()[-1]

    assert sentence(far=21.0, near=3.17, none=None, off=0.0, low=0.5) == (
        "it would be 'y' if the weight of low were multiplied by 0.5, or the weight of near were "
        "multiplied by 3.17"
    )
    assert sentence(far=21.0, off=0.04) == (
        "no single weight, multiplied by 0.05 to 20, would change the label"
    )

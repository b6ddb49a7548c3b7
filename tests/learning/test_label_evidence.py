"""Why this label and not that one, typical items, and labels that look wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import metricmix as mm
from metricmix.learning.explanation import LabelEvidence

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


def without(model: mm.MetricMixtureClassifier, items: Any) -> mm.MetricMixtureClassifier:
    """Return the same model, fitted without the labels of some items."""
    known = KNOWN.copy()
    known[items] = -1
    return clone(model).fit(STACK, known)


@pytest.fixture(scope="module")
def by_means() -> mm.MetricMixtureClassifier:
    return fitted(mm.estimators.ClassMean(offsets=True))


@pytest.fixture(scope="module")
def held_out(by_means: mm.MetricMixtureClassifier) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the 27 labelled items, and distances from each to all of them.

    In the metric of a fit without the labels of its fold.
    """
    known = by_means.learned_.known
    assert known is not None
    folds = known.folds(5)
    assert np.bincount(folds).tolist() == [6, 6, 5, 5, 5]
    p, d = np.empty((27, 3)), np.empty((27, 27))
    for fold in range(5):
        test = np.flatnonzero(folds == fold)
        model = without(by_means, test)
        p[test], d[test] = model.predict_proba(STACK)[test], model.compute_metric()[test, :27]
    return p, d


def test_log_odds_are_those_of_the_probabilities(by_means: mm.MetricMixtureClassifier) -> None:
    p = by_means.learned_.answers[30]
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
    for k in (2, 30):  # a labelled item, explained without its label, and another one
        why = model.explain_label(IDS[k])
        metric = without(model, k).compute_metric()
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


def test_a_labelled_item_has_the_odds_of_a_fit_without_its_label(
    by_means: mm.MetricMixtureClassifier,
) -> None:
    for k in (4, 9):
        p = without(by_means, k).predict_proba(STACK)[k]
        why = by_means.explain_label(IDS[k])
        assert (why.item, why.label) == (IDS[k], KNOWN[k])
        others = [c for c in range(3) if c != KNOWN[k]]
        assert why.other == max(others, key=lambda c: p[c])
        assert why.total == pytest.approx(float(np.log(p[why.label] / p[why.other])))
    assert by_means.explain_label("item 4").total < 0  # its label is wrong


def test_typical_items_are_medoids(by_means: mm.MetricMixtureClassifier, held_out: Any) -> None:
    _, metric = held_out
    for typical in by_means.typical_items():
        own = np.flatnonzero(typical.label == KNOWN)
        sums = metric[np.ix_(own, own)].sum(axis=1)
        assert typical.item == IDS[own[sums.argmin()]]
        assert typical.distance == pytest.approx(sums.min() / (len(own) - 1))
        assert typical.size == len(own)


def test_wrong_labels_come_first(by_means: mm.MetricMixtureClassifier, held_out: Any) -> None:
    found = by_means.misfits()
    assert found[0].item == "item 4"
    assert (found[0].label, found[0].other) == (2, 1)
    p, metric = held_out
    expected = {IDS[k] for k in range(27) if p[k].argmax() != KNOWN[k]}
    assert {misfit.item for misfit in found} == expected
    odds = [np.log(misfit.other_probability / misfit.probability) for misfit in found]
    assert odds == sorted(odds, reverse=True)
    for misfit in found:
        k = IDS.index(misfit.item)
        assert misfit.probability == pytest.approx(p[k, misfit.label])
        assert misfit.other_probability == pytest.approx(p[k].max())
    nearest = np.argsort(np.where(np.arange(27) == 4, np.inf, metric[4]))[:3]
    assert [item for item, *_ in found[0].nearest] == [IDS[k] for k in nearest]
    assert "item 4: given 2" in str(found[0])


def test_a_search_is_explained_by_its_best_estimator() -> None:
    search = mm.MetricMixtureClassifierCV(rhos=(1e-2,), rules=("nearest",), cv=3)
    search.fit(STACK, KNOWN)
    assert search.best_estimator_.explain_label("item 30").rule == "nearest"
    assert search.best_estimator_.misfits()[0].item == "item 4"


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


def test_typical_items_and_misfits_of_edges_in_several_parts() -> None:
    tails = np.array([0, 1, 2, 3, 5, 6, 7])  # two paths, of five and of four items
    edges = mm.dissimilarity.EdgeSet(9, tails, tails + 1)
    stack = mm.EdgeStack(edges, np.ones((1, 7)), ["line"])
    y = [0, 0, 0, 1, 1, 0, 0, 1, 1]
    model = mm.MetricMixtureClassifier(rule="nearest", objective=None).fit(stack, y)
    step = model.compute_metric()[0, 1]
    typical = model.typical_items()
    assert [one.item for one in typical] == [1, 3]  # the first of the larger part, its medoid
    assert [one.distance for one in typical] == pytest.approx([step, step])
    for misfit in model.misfits():
        assert misfit.nearest
        assert all(np.isfinite(distance) for _, _, distance in misfit.nearest)

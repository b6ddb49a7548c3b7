"""Hubs, collapse, twins and a class that takes all: provoked, named, and avoided by default."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity import features
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.learning.findings import diagnose
from metricmix.learning.rules import KNearest
from reference.models import classifier, signed_classifier, with_mixture

N = 60
IDS = [f"p{k}" for k in range(N)]
Y = np.arange(N) % 2
KNOWN = np.where(np.arange(N) < 30, Y, -1)


def outlier(seed: int = 0) -> mm.DissimilarityStack:
    """Size is noise that place has as well, so a negative weight helps; the last item is huge."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=(N, 1))
    place = np.hstack([1.5 * Y[:, None] + 0.5 * rng.normal(size=(N, 1)), 2 * size])
    size[-1], place[-1, 1] = 12, 0
    return mm.DissimilarityStack({"size": features(size), "place": features(place)}, items=IDS)


def kinds(findings: Any) -> list[str]:
    return [finding.kind for finding in findings]


# -- an outlier and negative weights ---------------------------------------------------------------


def test_a_hub_is_named_with_its_cause() -> None:
    model = signed_classifier(outlier(), IDS, KNOWN)
    hub, collapse, majority = model.diagnose()
    assert model.weights_[0] < -3
    assert (hub.kind, hub.item, hub.source) == ("hub", "p59", "size")
    assert hub.share > 0.9
    weight = f"{model.weights_[0]:.3g}"
    assert hub.sentence.startswith(
        f"'p59' is on {100 * hub.share:.0f} % of the shortest paths, because 'size' has weight "
        f"{weight}, and it is far from the others there ("
    )
    assert (collapse.kind, collapse.source) == ("collapse", "size")
    assert collapse.share > 0.9
    assert f"because 'size' has weight {weight}" in collapse.sentence
    assert majority.kind == "majority"
    assert majority.sentence.endswith("of the labels: there is a hub")


def test_learning_through_paths_leaves_a_smaller_hub() -> None:
    model = classifier(outlier(), constraint=None).fit(IDS, KNOWN)
    (hub,) = model.diagnose()
    assert model.weights_[0] < 0
    assert (hub.kind, hub.item, hub.source) == ("hub", "p59", "size")
    assert 0.2 < hub.share < 0.6


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_default_is_not_struck(seed: int) -> None:
    model = mm.MetricMixtureClassifier(outlier(seed)).fit(IDS, KNOWN)
    assert model.diagnose() == ()
    assert np.mean(model.transduction_ == Y) > 0.75


def test_the_share_is_that_of_all_paths() -> None:
    stack = outlier()
    model = classifier(stack, constraint=None).fit(IDS, KNOWN)
    (hub,) = model.diagnose()
    trees = mm.paths.shortest_path_trees(stack.rescaled("mean"), model.mixture_)
    on_path = [59 in trees.path(i, j).nodes[1:-1] for i in range(59) for j in range(59) if i != j]
    assert hub.share == pytest.approx(np.mean(on_path), abs=0.07)


def test_sparse_edges() -> None:
    """All paths in a star lead through its centre, which has many edges; no source says so."""
    tails, heads = np.zeros(N - 1, np.int64), np.arange(1, N)
    stack = mm.EdgeStack(EdgeSet(N, tails, heads), np.ones((1, N - 1)), ["links"], items=IDS)
    model = classifier(stack, objective=None).fit(IDS, KNOWN)
    (hub,) = [finding for finding in model.diagnose() if finding.kind == "hub"]
    assert (hub.item, hub.source, hub.share) == ("p0", None, 1.0)
    assert hub.sentence.endswith("of the shortest paths, because it has 59 edges (others 1)")


def test_complete_edges_are_as_whole_matrices() -> None:
    model = signed_classifier(outlier(), IDS, KNOWN)
    sparse = mm.EdgeStack.complete(model.stack_)
    on_edges = classifier(sparse, objective=None).fit(IDS, KNOWN)
    hub, collapse = diagnose(with_mixture(on_edges.learned_, model.weights_))[:2]
    assert (hub.item, hub.source) == ("p59", "size")
    assert (collapse.kind, collapse.source) == ("collapse", "size")


def test_a_source_that_is_no_metric() -> None:
    """One item is near all others, which are far from each other."""
    rng = np.random.default_rng(0)
    apart = rng.uniform(3, 4, size=(N, N))
    apart[7] = apart[:, 7] = 0.1
    apart = np.maximum(apart, apart.T)
    apart[7] = apart[:, 7] = 0.1
    np.fill_diagonal(apart, 0)
    place = features(rng.normal(size=(N, 2)))
    stack = mm.DissimilarityStack({"place": place, "calls": apart}, items=IDS)
    model = classifier(stack, objective=None).fit(IDS, KNOWN)
    hub = model.diagnose()[0]
    assert (hub.kind, hub.item, hub.source) == ("hub", "p7", "calls")
    assert "because it is close to the others by 'calls' (0." in hub.sentence


def test_a_directed_stack() -> None:
    rng = np.random.default_rng(0)
    apart = rng.uniform(3, 4, size=(N, N))
    apart[7] = apart[:, 7] = 0.1
    np.fill_diagonal(apart, 0)
    model = classifier(mm.DissimilarityStack([apart], directed=True), objective=None)
    hub = model.fit(None, KNOWN).diagnose()[0]
    assert (hub.kind, hub.item) == ("hub", 7)


# -- twins -----------------------------------------------------------------------------------------


def test_twins() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(N // 2, 2)), 2, axis=0)
    sources = {"rows": features(rows), "order": features(rng.permutation(N)[:, None])}
    stack = mm.DissimilarityStack(sources, items=IDS)
    model = classifier(stack, objective=None).fit(IDS, KNOWN)
    assert model.diagnose() == ()
    other = with_mixture(model.learned_, [1.0, 0.0])
    (twins,) = diagnose(other, answers=model.learned_.answers)
    assert (twins.kind, twins.share, twins.source) == ("twins", 1.0, "order")
    assert twins.sentence == (
        "100 % of the items have a duplicate, such as 'p0' and 'p1', which no source with a weight "
        "distinguishes; 'order' does, but has weight 0"
    )


def test_twins_over_sparse_edges() -> None:
    rows = np.repeat(np.random.default_rng(0).normal(size=(N // 2, 2)), 2, axis=0)
    stack = mm.sources_for(rows, edges_per_item=4)
    model = classifier(stack.select(["numbers"]), objective=None).fit(np.arange(N), KNOWN)
    assert "twins" in kinds(model.diagnose())


def test_a_few_twins_are_no_finding() -> None:
    rows = np.random.default_rng(0).normal(size=(N, 2))
    rows[:6:2] = rows[1:6:2]
    stack = mm.DissimilarityStack([features(rows)])
    assert classifier(stack, objective=None).fit(None, KNOWN).diagnose() == ()


# -- one class takes all ---------------------------------------------------------------------------


def imbalanced() -> tuple[mm.DissimilarityStack, Any]:
    """One class has five of six labels, and overlaps with the other."""
    rng = np.random.default_rng(1)
    y = (np.arange(120) % 6 == 0).astype(int)
    rows = rng.normal(size=(120, 2)) + 1.5 * y[:, None]
    return mm.DissimilarityStack([features(rows)]), y


def test_a_class_that_takes_all() -> None:
    stack, y = imbalanced()
    model = classifier(stack, rule=KNearest(50)).fit(None, y)
    (finding,) = model.diagnose()
    assert finding.kind == "majority"
    assert finding.share == 1.0
    assert finding.sentence == (
        "class 0 takes 100 % of the held-out items, and has 83 % of the labels: it has most labels "
        "and the rule is 'k-nearest'; try 'class-mean'"
    )


def test_the_default_does_not_let_a_class_take_all() -> None:
    stack, y = imbalanced()
    assert mm.MetricMixtureClassifier(stack).fit(None, y).diagnose() == ()


def test_unlabelled_items() -> None:
    stack, y = imbalanced()
    model = classifier(stack).fit(None, np.where(np.arange(120) < 60, y, -1))
    p = np.tile([0.1, 0.9], (120, 1))
    p[:60] = np.eye(2)[y[:60]]
    (finding,) = diagnose(model.learned_, answers=p)
    assert finding.sentence == (
        "class 1 takes 100 % of the unlabelled items, and has 17 % of the labels: the sources "
        "hardly separate the classes apart"
    )


def test_other_estimators() -> None:
    stack = outlier()
    learner = mm.MetricMixture(stack, rho=1e-3).fit(IDS, KNOWN)
    assert learner.diagnose() == ()
    search = mm.MetricMixtureClassifierCV(stack, rhos=(1e-3,), rules=("class-mean",))
    assert search.fit(IDS, KNOWN).diagnose() == ()


# -- the choice of a classifier --------------------------------------------------------------------


def test_a_candidate_that_collapses_is_not_compared(monkeypatch: Any) -> None:
    """A similarity among the sources: by a negative weight, items of one class fall together."""
    rng = np.random.default_rng(0)
    alike = 5.0 * (Y[:, None] == Y) + rng.uniform(0, 0.1, size=(N, N))
    alike = (alike + alike.T) * (1 - np.eye(N))
    stack = mm.DissimilarityStack({"alike": alike, "place": features(rng.normal(size=(N, 2)))})
    monkeypatch.setattr("metricmix.learning.trials.MOVED_AT_MOST", 1.0)
    chosen = mm.MetricMixtureClassifier(stack, local=None, rho=1e-6).fit(None, KNOWN).selection_
    assert any("signed" in why and "nearly zero" in why for why in chosen.skipped)
    assert not any(candidate.is_signed for candidate in chosen.candidates)


def test_a_bridge_is_told_as_such() -> None:
    """Paths between two clusters lead through the few items that edges join them at."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    X[20:, 0] += 6.0
    y = np.where(np.arange(40) % 4 == 0, np.repeat([0, 1], 20), -1)
    stack = mm.DissimilarityStack({"place": features(X)})
    model = mm.MetricMixtureClassifier(stack, geodesic=4).fit(stack.items, y)
    hubs = [found for found in model.diagnose() if found.kind == "hub"]
    assert hubs
    assert any("few edges join the parts that it lies between" in hub.sentence for hub in hubs)
    assert not any("(1 times the mean)" in hub.sentence for hub in hubs)


def test_single_labels_that_are_held_out_are_no_finding() -> None:
    """Each goes to some other class, whatever the sources tell."""
    X = np.concatenate([np.zeros((4, 1)), np.arange(1.0, 9.0)[:, None]])
    y = np.array([0, 0, 0, 0, *range(1, 9)])
    stack = mm.DissimilarityStack({"x": features(X)})
    model = mm.MetricMixtureClassifier(stack).fit(stack.items, y)
    taken = np.zeros((12, 9))
    taken[:, 0] = 1.0
    assert "majority" not in kinds(diagnose(model.learned_, answers=taken))

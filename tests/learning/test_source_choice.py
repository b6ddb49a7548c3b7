"""Sources that few labels choose: those that predict held-out labels."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.learning.candidates import Selection
from metricmix.learning.learned import Options
from metricmix.learning.refits import FoldMetric
from metricmix.learning.selection import select_sources
from metricmix.learning.task import Classes
from metricmix.learning.trials import Trials


def species(seed: int, n: int = 40, n_clades: int = 8, n_labels: int = 12):
    """Return a stack of two poor columns and a distance matrix, clades, and labels of a few.

    Clades are clusters of very different sizes, as in a tree; every one has a label, some only one.
    """
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(n_clades), rng.choice(n_clades, n - n_clades, p=weights_of(n_clades))]
    centres = 3.0 * rng.normal(size=(n_clades, 6))
    at = centres[y] + 0.8 * rng.normal(size=(n, 6))
    matrix = np.linalg.norm(at[:, None] - at, axis=2) * np.exp(0.05 * symmetric(rng, n))
    number = rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=n_clades)[y][:, None]
    category = np.eye(4)[rng.integers(4, size=n)]
    stack = mm.DissimilarityStack(
        {
            "number": mm.dissimilarity.features(number),
            "category": mm.dissimilarity.features(category),
            "dna": matrix,
        }
    )
    known = np.full(n, -1)
    known[:n_labels] = y[:n_labels]
    return stack, y, known


def weights_of(n: int) -> np.ndarray:
    shares = 1.0 / np.arange(1, n + 1)
    return shares / shares.sum()


def symmetric(rng: np.random.Generator, n: int) -> np.ndarray:
    upper = np.triu(rng.normal(size=(n, n)), 1)
    return upper + upper.T


def right(model, y, known) -> float:
    return float((model.transduction_ == y)[known < 0].mean())


OPEN = Options(objective="class-means", constraint="auto")


def chosen_sources(stack, codes, n_classes: int = 8, **stated) -> Selection | None:
    task = Classes(np.arange(n_classes))
    return select_sources(stack, task, task.known_of(codes), OPEN.replace(**stated))


def test_one_good_source_among_poor_ones():
    """By default as many are right as with the good source alone, or nearly so."""
    found = []
    for seed in range(6):
        stack, y, known = species(seed)
        items = np.arange(len(y))
        model = mm.MetricMixtureClassifier(stack).fit(items, known)
        alone = mm.MetricMixtureClassifier(stack.select(["dna"])).fit(items, known)
        equal = mm.MetricMixtureClassifier(stack, objective=None).fit(items, known)
        found.append([right(one, y, known) for one in (model, alone, equal)])
    ours, alone, equal = np.mean(found, axis=0)
    assert ours > alone - 0.05
    assert ours > equal + 0.2


def test_sources_that_are_all_good_stay():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    table = {f"view {k}": np.eye(3)[y] + 0.8 * rng.normal(size=(60, 3)) for k in range(4)}
    stack = mm.DissimilarityStack({k: mm.dissimilarity.features(v) for k, v in table.items()})
    model = mm.MetricMixtureClassifier(stack).fit(
        np.arange(60), np.where(np.arange(60) < 12, y, -1)
    )
    assert model.selection_.best.sources is None
    assert "not clearly better" in model.selection_.reason
    assert np.ptp(model.weights_) < 0.5 * model.weights_.mean()


def test_what_was_chosen_is_reported():
    stack, y, known = species(0)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(len(y)), known)
    chosen = model.selection_
    assert chosen.best.sources == ("dna",)
    assert chosen.best.name == "weights >= 0 near dna alone"
    assert "than that of all 3" in chosen.reason
    assert chosen.gain[chosen.chosen] > chosen.standard_error[chosen.chosen] > 0
    assert chosen.to_frame().loc[lambda t: t["chosen"], "weights"].item() == chosen.best.name
    assert model.weights_[2] > 50 * max(model.weights_[:2])


def test_other_parameters_leave_nothing_to_choose():
    stack, y, known = species(0)
    assert chosen_sources(stack, known) is not None
    for stated in ({"rho": 1.0}, {"constraint": None}, {"objective": None}, {"shrink_to": "zero"}):
        assert chosen_sources(stack, known, **stated) is None
    assert chosen_sources(stack.select(["dna"]), known) is None
    assert chosen_sources(stack, np.where(np.arange(40) < 9, known, -1)) is None
    assert chosen_sources(stack, y) is not None or np.bincount(y).mean() >= 5


def test_items_are_judged_without_their_own_label(monkeypatch):
    """Labels of the judged item are hidden: permuting them cannot help a source of noise."""
    rng = np.random.default_rng(1)
    y = np.arange(40) % 4
    noise = {f"noise {k}": rng.normal(size=(40, 2)) for k in range(3)}
    stack = mm.DissimilarityStack({k: mm.dissimilarity.features(v) for k, v in noise.items()})
    known = np.where(np.arange(40) < 16, y, -1)
    task = Classes(np.arange(4))
    trials = Trials(stack, task, task.known_of(known), OPEN)
    first = chosen_sources(stack, known, 4).candidates[0]
    held_out = []
    answers = FoldMetric.answers

    def note(self, rule, test, known):
        held_out.append((len(test), known.mask[test].any()))
        return answers(self, rule, test, known)

    monkeypatch.setattr(FoldMetric, "answers", note)
    for names in (None, ("noise 0",)):
        losses, accuracy = trials.equal_losses(first, names)
        assert losses.mean() > 0.8 * np.log(4)
        assert accuracy < 0.6
    assert held_out == [(1, False)] * 32


def test_many_items_without_a_metric_are_not_searched(monkeypatch):
    stack, y, known = species(0)
    monkeypatch.setattr("metricmix.learning.trials.SEARCHED_UP_TO", 10)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(len(y)), known)
    assert model.selection_.best.sources is None
    assert "shortest paths" in model.selection_.skipped[0]


def test_folds_of_a_comparison_choose_by_their_own_labels():
    stack, y, known = species(0)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(len(y)), known)
    found = model.compare()
    assert found.n_splits == 12
    assert found["learned"].mean > found["equal"].mean
    assert len(set(found.weights[:, 0].round(3))) > 1 or (found.weights[:, 2] > 3.9).all()
    assert model.compare(n_splits=5).n_splits == 5


def test_a_fold_with_too_few_labels_keeps_all_sources():
    stack, y, known = species(0)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(len(y)), known)
    assert max(np.ptp(weights) for weights in model.compare(n_splits=2).weights) < 0.1


def test_models_keep_what_was_chosen(tmp_path):
    stack, y, known = species(0)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(len(y)), known)
    mm.save(model, tmp_path / "m.mm")
    again = mm.load(tmp_path / "m.mm")
    assert again.selection_.best == model.selection_.best
    assert (again.transduction_ == model.transduction_).all()
    table = model.weights_table(5, random_state=0)
    assert table["weight"].to_numpy() == pytest.approx(model.weights_)


@pytest.mark.parametrize("pairs", [(0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0)])
def test_held_out_labels_do_not_show_in_the_size_of_their_class(pairs):
    """Four labelled items that a source does not tell apart, and three others: no way to be right.

    The class of a held-out item has a single label left, and must not be preferred for that.
    """
    column = np.array([0.0] * 4 + [1.0, 2.0, 1.5] + [0.0, 1.0, 2.0, 1.0, 0.0])
    known = np.array([*pairs, 2, 2, 2, *[-1] * 5])
    stack = mm.DissimilarityStack({"column": mm.dissimilarity.features(column[:, None])})
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(len(column)), known)
    learned = model.compare()["learned"]
    assert (learned.predictions == known[:7]).mean(axis=0)[:4].sum() <= 2


def test_a_single_item_does_not_add_a_source(monkeypatch):
    """Of choices that one item tells apart, that of fewer sources is taken."""
    stack, y, known = species(0)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(len(y)), known)

    def losses(self, candidate, names):
        judged = int((self.known.sizes[self.known.y] > 1).sum())
        found = np.full(judged, 1.0 if names is None else 0.01 * len(names))
        if names is not None and len(names) == 1:
            found[0] = 0.9
        return found + 0.001 * np.arange(len(found)), 0.5 if names is None else 0.9

    monkeypatch.setattr(Trials, "equal_losses", losses)
    model.fit(np.arange(len(y)), known)
    assert len(model.selection_.best.sources) == 1

"""What is chosen where parameters leave it open, on labels or targets that are held out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity.known import Known
from metricmix.learning.candidates import Candidate
from metricmix.learning.learn import learn
from metricmix.learning.learned import Options
from metricmix.learning.refits import RefitPlan, refit
from metricmix.learning.selection import CLEAR
from metricmix.learning.task import Classes, Numbers

pytestmark = pytest.mark.default_sources


def clusters(n: int = 120, n_classes: int = 3, seed: int = 0, noise: float = 0.6):
    """Return a table whose first two columns separate the classes, the labels, and known ones."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, 6))
    X[:, :2] = np.eye(n_classes, 2)[y] * 3.0 + noise * X[:, :2]
    return X, y, np.where(np.arange(n) < n // 2, y, -1)


def sources(X):
    """Return a stack with a source that separates the classes, and two that are noise."""
    parts = {"telling": X[:, :2], "noise": X[:, 2:4], "more_noise": X[:, 4:]}
    return mm.DissimilarityStack(
        {name: mm.dissimilarity.features(part) for name, part in parts.items()}
    )


def fitted(numeric: bool, noise: float = 0.6, n_jobs: int | None = None):
    """Return a model of the classes, or of a number that the first two columns tell."""
    X, y, known = clusters(noise=noise)
    if not numeric:
        model = mm.MetricMixtureClassifier(sources(X), n_jobs=n_jobs)
        return model.fit(np.arange(len(y)), known), y
    target = X[:, 0] - X[:, 1]
    model = mm.MetricMixtureRegressor(sources(X), n_jobs=n_jobs)
    return model.fit(np.arange(len(y)), np.where(known >= 0, target, np.nan)), target


each_task = pytest.mark.parametrize("numeric", [False, True], ids=["classes", "numbers"])


@each_task
def test_default_has_nonnegative_weights_and_says_why(numeric):
    model, y = fitted(numeric)
    assert (model.weights_ >= 0).all()
    assert model.moved_share_ == 0.0
    best = model.selection_.best
    assert best == model.selection_.candidates[model.selection_.chosen]
    assert best.rule == model.rule_
    assert f"held-out {'targets' if numeric else 'labels'}" in model.selection_.reason
    assert str(model.selection_).startswith(str(best))
    assert model.score(np.arange(len(y)), y) > 0.9


@each_task
def test_every_kind_of_candidate_is_compared(numeric):
    model, _ = fitted(numeric)
    names = {candidate.name for candidate in model.selection_.candidates}
    skipped = " ".join(model.selection_.skipped)
    assert {"weights >= 0", "equal weights", "telling alone", "noise alone"} <= names
    assert "signed weights" in names or "signed weights" in skipped
    usual = type(model.learned_.objective).default_rho(model.learned_.known)
    assert {c.rho for c in model.selection_.candidates} >= {usual, max(1e-3, 10 * usual)}
    assert {c.rule.name for c in model.selection_.candidates} == (
        {"kernel-ridge", "k-nearest"} if numeric else {"class-mean", "logistic", "k-nearest"}
    )
    loss, score = ("squared_error", "r2") if numeric else ("log_loss", "accuracy")
    table = model.selection_.to_frame()
    assert len(table) == len(model.selection_.candidates)
    assert table["chosen"].sum() == 1
    assert table[loss].is_monotonic_increasing
    assert table[score].max() == model.selection_.score.max()


@each_task
def test_another_candidate_must_be_clearly_better(numeric):
    chosen = fitted(numeric, noise=1.5)[0].selection_
    clear = (chosen.gain > CLEAR * chosen.standard_error) & (chosen.score >= chosen.score[0])
    assert clear.any() == (chosen.chosen != 0)
    assert chosen.gain[0] == 0.0


def test_a_clearly_better_rule_is_taken():
    """Clumps on a line, of two classes in turn: the mean distances tell nothing."""
    rng = np.random.default_rng(0)
    n, clump = 240, np.arange(240) % 8
    y = clump % 2
    X = np.column_stack([4.0 * clump, np.zeros(n)]) + 0.5 * rng.normal(size=(n, 2))
    known = np.where(np.arange(n) < 120, y, -1)
    model = mm.MetricMixtureClassifier(["euclidean", "cityblock"]).fit(X, known)
    assert model.rule_.name != "class-mean"
    assert "smaller by" in model.selection_.reason
    assert (model.transduction_ == y).mean() > 0.95
    plain = mm.MetricMixtureClassifier(["euclidean", "cityblock"], rule="class-mean").fit(X, known)
    assert (plain.transduction_ == y).mean() < 0.8


def test_few_labels_learn_a_little_and_compare_only_sources():
    X, y, _ = clusters()
    known = np.where(np.arange(len(y)) < 9, y, -1)
    fits = [
        mm.MetricMixtureClassifier(sources(X), **stated).fit(np.arange(len(y)), known)
        for stated in ({}, {"rho": 1e-3}, {"rho": 1e3})
    ]
    model, loose, centre = fits
    assert [c.sources for c in model.selection_.candidates][:2] == [None, ("telling",)]
    assert {c.rule for c in model.selection_.candidates} == {model.rule_}
    assert "9 labels for 3 classes are too few to compare more" in model.selection_.reason
    assert len(set(loose.weights_.tolist())) > 1
    assert len(set(centre.weights_.round(2).tolist())) == 1


def test_one_label_a_class_leaves_weights_equal():
    X, y, _ = clusters()
    known = np.where(np.arange(len(y)) < 3, y, -1)
    model = mm.MetricMixtureClassifier(sources(X)).fit(np.arange(len(y)), known)
    assert len(set(model.weights_.tolist())) == 1
    assert "too few to learn from" in model.selection_.reason
    table = model.weights_table(5)
    assert (table["lower"] == table["weight"]).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_classes_that_other_sources_tell_in_either_half_of_the_items(seed):
    """Weights cannot be right for both halves; neighbours under equal weights can."""
    rng = np.random.default_rng(seed)
    n = 600
    half, y = rng.integers(0, 2, (2, n))
    a, b = (
        np.where(half == k, 4 * y, 10 + 4 * rng.random(n)) + rng.normal(0, 0.4, n) for k in (0, 1)
    )
    noise = rng.normal(size=n)
    stack = mm.DissimilarityStack(
        {
            name: mm.dissimilarity.features(values[:, None])
            for name, values in {"a": a, "b": b, "noise": noise}.items()
        }
    )
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(n), np.where(np.arange(n) < 60, y, -1))
    assert np.mean(model.transduction_[60:] == y[60:]) > 0.96


@pytest.mark.parametrize(
    ("fixed", "expected"),
    [
        ({"constraint": "nonnegative", "rho": 1e-3, "rule": "nearest"}, 1),
        ({"constraint": "simplex", "rho": 1e-3}, 3),
        ({"constraint": "nonnegative", "rule": "nearest"}, 2),
        ({"objective": None}, 3),
        ({"objective": None, "rule": "class-mean"}, 1),
        ({"objective": "label-contrast", "constraint": "nonnegative", "rule": "class-mean"}, 1),
    ],
)
def test_every_choice_can_be_fixed(fixed, expected):
    X, y, known = clusters()
    model = mm.MetricMixtureClassifier(sources(X), **fixed).fit(np.arange(len(y)), known)
    candidates = model.selection_.candidates
    assert len(candidates) == expected
    if "rule" in fixed:
        assert model.rule_.name == fixed["rule"]
    if "rho" in fixed:
        assert all(c.rho == fixed["rho"] for c in candidates)
    if expected == 1:
        assert model.selection_.reason == "as the parameters say"


def test_none_as_a_text_is_none():
    X, _, known = clusters()
    given = {"rule": "class-mean", "rho": 1e-3, "projection": False}
    named, plain = (
        mm.MetricMixtureClassifier(["euclidean", "cosine"], constraint=constraint, **given)
        for constraint in ("none", None)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ProjectionWarning)
        assert named.fit(X, known).selection_.best == plain.fit(X, known).selection_.best
    assert named.selection_.best.is_signed


@each_task
def test_parameters_stay_as_they_were_given(numeric):
    model, _ = fitted(numeric)
    assert (model.constraint, model.rule, model.rho) == ("auto", "auto", None)
    objective = "kernel-regression" if numeric else "class-means"
    assert (model.objective, model.projection) == (objective, "auto")


@each_task
def test_a_chosen_single_source_keeps_the_whole_weight(numeric):
    task = Numbers() if numeric else Classes(np.arange(3))
    X, _, known = clusters()
    candidate = Candidate("equal", None, None, task.rules[0], sources=("telling",))
    options = Options(objective=task.objective, constraint="auto").as_candidate(candidate)
    values = known.astype(float) if task.is_numeric else known
    learned = learn(sources(X), task, task.known_of(values), options)
    assert learned.mixture.weights.tolist() == [4.0, 0.0, 0.0]
    plan = RefitPlan(known=learned.labels, options=options, centre=lambda stack, known: None)
    assert refit(sources(X), task, plan).mixture.weights.tolist() == [4.0, 0.0, 0.0]


def test_a_source_may_have_any_name():
    """A source called "learned" is compared by itself, with the whole weight."""
    X, y, known = clusters()
    stack = sources(X)
    names = ["learned", "equal", *stack.names[2:]]
    renamed = mm.DissimilarityStack.from_block(stack.block, names, facts=stack.facts)
    model = mm.MetricMixtureClassifier(renamed).fit(np.arange(len(y)), known)
    compared = [c.name for c in model.selection_.candidates]
    assert {f"{name} alone" for name in names} <= set(compared)
    assert compared.count("signed weights") <= 1


def test_permuted_labels_are_at_chance():
    X, y, _ = clusters(n=150)
    rng = np.random.default_rng(1)
    shuffled = rng.permutation(y)
    known = np.where(np.arange(150) < 60, shuffled, -1)
    stack = mm.sources_for(X, labels=known)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(150), known)
    held_out = model.selection_.score[model.selection_.chosen]
    assert held_out < 1 / 3 + 4 * np.sqrt(2 / 9 / 60)


def test_supervised_sources_are_computed_from_the_labels_of_the_fold(monkeypatch):
    """No fold of the comparison sees the labels that it holds out."""
    X, y, known = clusters()
    stack = mm.sources_for(X, labels=known)
    seen = []
    relabelled = mm.DissimilarityStack.relabelled

    def note(self, known, **options):
        seen.append(known.values.copy())
        return relabelled(self, known, **options)

    monkeypatch.setattr(mm.DissimilarityStack, "relabelled", note)
    mm.MetricMixtureClassifier(stack).fit(np.arange(len(y)), known)
    folds = [codes for codes in seen if (codes >= 0).sum() < (known >= 0).sum()]
    assert len(folds) == 5
    held_out = np.sum([(known >= 0) & (codes < 0) for codes in folds], axis=0)
    assert (held_out == (known >= 0)).all()


def test_large_stacks_skip_what_needs_paths(monkeypatch):
    monkeypatch.setattr("metricmix.learning.trials.SEARCHED_UP_TO", 10)
    X, y, known = clusters()
    matrices = sources(X)
    model = mm.MetricMixtureClassifier(matrices).fit(np.arange(len(y)), known)
    assert "signed weights" in " ".join(model.selection_.skipped)
    plain = mm.DissimilarityStack(np.moveaxis(np.asarray(matrices.block), 0, -1))  # nothing known
    model = mm.MetricMixtureClassifier(plain).fit(np.arange(len(y)), known)
    assert {c.name for c in model.selection_.candidates} == {"weights >= 0"}
    assert "equal weights" in " ".join(model.selection_.skipped)


@each_task
def test_same_seed_same_choice(numeric):
    first, second = (fitted(numeric, n_jobs=n_jobs)[0] for n_jobs in (1, 2))
    assert np.array_equal(first.selection_.loss, second.selection_.loss)
    assert np.array_equal(first.weights_, second.weights_)


@pytest.mark.parametrize("constraint", ["auto", "none"])
def test_saved_with_its_selection(constraint, tmp_path):
    X, _, known = clusters()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.ProjectionWarning)
        model = mm.MetricMixtureClassifier(["euclidean", "cosine"], constraint=constraint)
        model.fit(X, known)
    mm.save(model, tmp_path / "model")
    loaded = mm.load(tmp_path / "model")
    assert loaded.selection_.best == model.selection_.best
    assert loaded.selection_.candidates == model.selection_.candidates
    assert np.array_equal(loaded.selection_.gain, model.selection_.gain)
    assert str(loaded.selection_) == str(model.selection_)
    assert loaded.moved_share_ == model.moved_share_
    assert (loaded.predict(X) == model.predict(X)).all()
    assert loaded.compare().methods[0].mean == model.compare().methods[0].mean


def test_some_of_each_class():
    codes = np.array([0] * 50 + [1] * 3 + [2] * 20)
    known = Known(np.append(np.full(100, -1), codes), 3).some(12)
    sizes = np.bincount(codes[known.items - 100])
    assert sizes.sum() == 12
    assert sizes[1] == 3
    assert abs(int(sizes[0]) - int(sizes[2])) <= 1


def test_few_labels_keep_the_weights_near_equal_ones():
    """Five labels per class can make any source look perfect."""
    losses = []
    for draw in range(4):
        papers = mm.datasets.make_attributed_graph(
            300, random_state=draw, homophily=0.7, word_signal=0.3
        )
        words = mm.dissimilarity.features(papers.data.toarray() + 1e-3, "cosine")
        walks = mm.dissimilarity.diffusion(papers.graph, restart=0.1)
        stack = mm.DissimilarityStack({"words": words, "walks": walks}, scaling="mean")
        y, order = papers.target, np.random.default_rng(draw).permutation(300)
        chosen = np.concatenate([order[y[order] == c][:5] for c in np.unique(y)])
        known = np.full(300, -1)
        known[chosen] = y[chosen]
        rest = known < 0
        rule = mm.estimators.ClassMean(offsets=True)
        fixed = {"constraint": "nonnegative", "rule": rule, "local": None}
        learned, loose, equal = (
            np.mean(
                mm.MetricMixtureClassifier(stack, **settings)
                .fit(np.arange(300), known)
                .transduction_[rest]
                == y[rest]
            )
            for settings in (fixed, {**fixed, "rho": 1e-5}, {"objective": None, "rule": rule})
        )
        losses.append((equal - learned, equal - loose))
    worst, worst_loose = np.max(losses, axis=0)
    assert worst < 0.06
    assert worst_loose > worst

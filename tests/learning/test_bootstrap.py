"""Intervals of the weights: reproducible, and about right."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metricmix as mm
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictors import CrossFitted
from metricmix.exceptions import ConvergenceWarning, InputError
from metricmix.learning import bootstrap
from metricmix.learning.bootstrap import bootstrap_weights, weights_table
from reference.instances import on_demand, random_sources

OBJECTIVES = ("class-means", "label-contrast", "neighbourhood")


def problem(n=90, n_labelled=60, seed=0):
    """Two sources that know the classes, and one that knows nothing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    places = [rng.normal(size=(n, 3)) + shift * np.eye(3)[y] for shift in (2.0, 1.5, 0.0)]
    sources = {
        name: mm.dissimilarity.features(X)
        for name, X in zip(("clear", "fair", "noise"), places, strict=True)
    }
    return mm.DissimilarityStack(sources), np.where(np.arange(n) < n_labelled, y, -1)


@pytest.fixture(scope="module")
def labelled():
    return problem()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_informative_sources_are_told_from_noise(labelled, objective):
    options = {"objective": objective, "rho": 1e-3, "shrink_to": "zero"}
    model = mm.MetricMixtureClassifier(constraint="nonnegative", **options).fit(*labelled)
    table = model.weights_table(n_bootstrap=60, random_state=0).set_index("name")
    assert (table["lower"] < table["weight"]).all()
    assert (table["weight"] < table["upper"]).all()
    assert (table.loc[["clear", "fair"], "lower"] > 0).all()
    assert (table.loc[["clear", "fair"], "same_sign"] == 1).all()
    assert abs(table.loc["noise", "weight"]) < 0.5 * table.loc["fair", "weight"]
    assert table.loc["noise", "lower"] < 0.1 * table.loc["fair", "weight"]


@pytest.fixture(scope="module", params=["classes", "numbers"])
def model(request, labelled):
    """A model of the classes, or of a number that follows from them."""
    stack, y = labelled
    fixed = {"constraint": "nonnegative", "rho": 1e-3}
    if request.param == "classes":
        return mm.MetricMixtureClassifier(**fixed).fit(stack, y)
    noise = np.random.default_rng(1).normal(size=len(y))
    return mm.MetricMixtureRegressor(**fixed).fit(stack, np.where(y >= 0, y + 0.3 * noise, np.nan))


def test_reproducible(model):
    tables = [model.weights_table(5, random_state=seed) for seed in (3, 3, 4)]
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])
    old = [
        weights_table(model.learned_, 5, random_state=np.random.RandomState(0)) for _ in range(2)
    ]
    assert old[0].equals(old[1])


def test_columns(labelled):
    stack, y = labelled
    model = mm.MetricMixtureClassifier(constraint="nonnegative", rho=1e-3).fit(stack, y)
    table = model.weights_table(5, random_state=0)
    columns = ["name", "weight", "lower", "upper", "same_sign", "scale", "effect"]
    assert list(table.columns) == columns
    assert table["name"].tolist() == list(stack.names)
    assert table["scale"].to_numpy() == pytest.approx(model.stack_.scales)
    assert table["effect"].to_numpy() == pytest.approx(model.weights_)  # scaled by their means
    plain = mm.MetricMixtureClassifier(scaling=None).fit(stack, y)
    off = ~np.eye(len(y), dtype=bool)
    means = np.array([stack.source(name)[off].mean() for name in stack.names])
    effects = plain.weights_table(2, random_state=0)["effect"].to_numpy()
    assert effects == pytest.approx(plain.weights_ * means)


def test_a_wider_level_is_wider(model):
    narrow, wide = (model.weights_table(20, level, random_state=0) for level in (0.5, 1.0))
    found = bootstrap_weights(model.learned_, 20, 0)
    found += model.weights_ - found.mean(axis=0)
    assert wide["lower"].to_numpy() == pytest.approx(found.min(axis=0))
    assert wide["upper"].to_numpy() == pytest.approx(found.max(axis=0))
    if model.learned_.task.is_numeric:  # the weight of noise is 0 in most resamples
        narrow, wide = narrow[:2], wide[:2]
    assert (narrow["lower"] > wide["lower"]).all()
    assert (wide["lower"] < wide["weight"]).all()
    assert (wide["weight"] < wide["upper"]).all()


def test_intervals_keep_to_the_constraint(model):
    assert (model.weights_table(10, random_state=0)["lower"] >= 0).all()


def test_equal_weights_find_the_fit_again(monkeypatch, model):

    class Equal:
        exponential = staticmethod(lambda size: np.ones(size))
        integers = staticmethod(lambda high: 0)

    monkeypatch.setattr(bootstrap, "check_random_state", lambda seed: (Equal(), seed))
    found = bootstrap_weights(model.learned_, 2)
    assert found == pytest.approx(np.tile(model.weights_, (2, 1)), rel=1e-3)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_pairs_of_labelled_items_are_all_it_needs(monkeypatch, objective, directed):
    sources = random_sources(np.random.default_rng(1), 20, 3, directed=directed)
    stack = mm.DissimilarityStack(sources, directed=directed, scaling="mean")
    y = np.arange(20) % 3 - 1
    model = mm.MetricMixtureClassifier(objective=objective, rho=0.1).fit(stack, y)
    taken_out = bootstrap_weights(model.learned_, 3, 0)
    monkeypatch.setattr(bootstrap, "PAIRS_UP_TO", 0)
    assert bootstrap_weights(model.learned_, 3, 0) == pytest.approx(taken_out, rel=1e-4, abs=1e-6)
    computed = mm.MetricMixtureClassifier(objective=objective, rho=0.1).fit(on_demand(stack), y)
    assert bootstrap_weights(computed.learned_, 3, 0) == pytest.approx(
        taken_out, rel=1e-4, abs=1e-6
    )


def test_settings_of_the_model_are_kept(labelled):
    stack, y = labelled
    model = mm.MetricMixture(constraint="simplex", beta=3.0).fit(stack, y)
    found = bootstrap_weights(model.learned_, 4, 0)
    assert found.sum(axis=1) == pytest.approx(1.0)
    assert found.min() >= 0
    projected = mm.MetricMixture(projection=True, rho=0.1).fit(stack, y)
    assert projected.weights_table(2, random_state=0).shape == (3, 7)
    drawn = mm.MetricMixture(method="stochastic", max_iter=40, random_state=0).fit(stack, y)
    tables = [drawn.weights_table(2, random_state=0) for _ in range(2)]
    assert tables[0].equals(tables[1])


def test_a_checkpoint_belongs_to_the_fit_alone(labelled, tmp_path):
    file = tmp_path / "fit.npz"
    model = mm.MetricMixture(solver_options={"checkpoint": file}).fit(*labelled)
    before = file.read_bytes()
    model.weights_table(2, random_state=0)
    assert file.read_bytes() == before


def test_one_warning_for_all_refits(labelled):
    with pytest.warns(ConvergenceWarning):
        model = mm.MetricMixtureClassifier(max_iter=2).fit(*labelled)
    with pytest.warns(ConvergenceWarning, match="of 4 refits stopped") as caught:
        model.weights_table(4, random_state=0)
    assert len(caught) == 1


def test_errors(labelled):
    stack, y = labelled
    with pytest.raises(NotFittedError):
        mm.MetricMixture().weights_table()
    own = mm.MetricMixture(objective=mm.objectives.ClassMeans(y)).fit(stack)
    with pytest.raises(InputError, match=r"^objective: .* needs one of 'class-means'"):
        own.weights_table()
    made = mm.MetricMixture(objective=lambda codes: mm.objectives.ClassMeans(codes)).fit(stack, y)
    with pytest.raises(InputError, match=r"^objective: "):
        made.weights_table()
    model = mm.MetricMixture().fit(stack, y)
    with pytest.raises(InputError, match=r"^level: expected a number > 0 and <= 1"):
        model.weights_table(2, level=0.0)
    with pytest.raises(InputError, match=r"^n_bootstrap: expected a whole number >= 1"):
        model.weights_table(0)


# -- supervised sources ----------------------------------------------------------------------------


class Counting(LogisticRegression):
    """Notes how often it is fitted, and with which weights."""

    weights: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        Counting.weights.append(sample_weight)
        return super().fit(X, y, sample_weight)


def table_and_labels(n=40):
    rng = np.random.default_rng(3)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 3)) + y[:, None]
    return X, np.where(np.arange(n) < 24, y, -1)


FIXED = {"constraint": "nonnegative", "rho": 1e-3}


@pytest.mark.parametrize("projection", [False, True])
def test_supervised_sources_are_fitted_in_every_resample(projection):
    X, y = table_and_labels()
    sources = {"plain": "cityblock", "learned": mm.dissimilarity.supervised(Counting())}
    model = mm.MetricMixture(sources, projection=projection, max_iter=20, **FIXED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
        Counting.weights.clear()
        found = bootstrap_weights(model.learned_, 2, random_state=0)
    assert found.shape == (2, 2)
    used = [weights for weights in Counting.weights if weights is not None]
    folds = 3 if not projection else 5 + 1  # whole stacks need the unlabelled items, too
    assert len(used) == len(Counting.weights) == 2 * folds
    assert len({weights.tobytes() for weights in used}) == 2 * folds
    assert all(0.5 < weights.mean() < 2.0 for weights in used)


def test_a_refit_with_equal_weights_is_the_fit(monkeypatch):
    # Small forests differ by their random numbers.
    monkeypatch.setattr("metricmix.dissimilarity.forests.TREES", 100)
    X, y = table_and_labels()
    stack = mm.sources_for(X, labels=y)
    model = mm.MetricMixtureClassifier(stack, rule="class-mean", **FIXED).fit(np.arange(40), y)
    learned = model.learned_
    part, known, _ = bootstrap.resampled_part(learned)
    assert part.supervised == stack.supervised
    same = part.relabelled(known, weights=np.ones(known.n), keep_choice=True)
    of_fit = learned.whole.part(learned.known.items)
    before, after = (one.raw_rows(np.arange(known.n)) for one in (of_fit, same))
    for r, name in enumerate(stack.names):
        if name.startswith("spread"):  # no folds: exactly the same
            assert after[r] == pytest.approx(before[r], abs=1e-9)
        elif name not in stack.supervised:
            assert np.array_equal(after[r], before[r])
        else:  # other folds
            assert np.corrcoef(after[r].ravel(), before[r].ravel())[0, 1] > 0.5
    other = part.relabelled(known, weights=np.linspace(0.1, 3, known.n), keep_choice=True)
    changed = [
        not np.array_equal(a, b)
        for a, b in zip(other.raw_rows(np.arange(known.n)), after, strict=True)
    ]
    assert changed == [name in stack.supervised for name in stack.names]
    assert np.array_equal(other.scales, part.scales)


def test_classifiers_without_weights_stay_as_they_are():
    X, y = table_and_labels()
    sources = ["euclidean", mm.dissimilarity.supervised(KNeighborsClassifier(3))]
    model = mm.MetricMixtureClassifier(sources, rule="class-mean", **FIXED).fit(X, y)
    part, known, _ = bootstrap.resampled_part(model.learned_)
    v = np.linspace(0.1, 3, known.n)
    one, two = (
        part.relabelled(known, weights=w, keep_choice=True).raw_rows(np.arange(known.n))
        for w in (v, v[::-1])
    )
    assert np.array_equal(one, two)
    assert model.weights_table(3, random_state=0)["lower"].notna().all()


def test_targets_with_supervised_sources():
    X, y = load_diabetes(return_X_y=True)
    known = np.where(np.arange(100) < 60, y[:100], np.nan)
    names = ["numbers", "learned"]
    stack = mm.sources_for(X[:100], target=known).select(names)
    model = mm.MetricMixtureRegressor(stack, **FIXED).fit(np.arange(100), known)
    table = model.weights_table(n_bootstrap=6, random_state=0)
    assert (table["lower"] <= table["upper"]).all()
    assert (table["upper"] - table["lower"]).max() > 0
    differences = mm.MetricMixtureRegressor(stack, **FIXED, objective="target-differences").fit(
        np.arange(100), known
    )
    assert np.isfinite(differences.weights_table(n_bootstrap=3, random_state=0)["upper"]).all()


def test_weights_reach_the_last_step_of_a_pipeline():
    X, y = table_and_labels()
    pipeline = make_pipeline(StandardScaler(), Counting())
    Counting.weights.clear()
    predictor = CrossFitted(X, pipeline, n_folds=2)
    predictor.predict(Known(y, 2), np.arange(40.0))
    assert len(Counting.weights) == 3
    assert max(weights.max() for weights in Counting.weights) == 23
